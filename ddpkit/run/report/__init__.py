"""Report of a run: `load` reads its folder, `summary` makes the data, `page` writes them as HTML."""
