"""One page about a run: `read` takes what its folder holds, `model` says what that means, `page` writes it as HTML."""
