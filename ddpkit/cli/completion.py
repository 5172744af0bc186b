"""`ddpkit completion`: the shell's part of completion, and the commands that it completes."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ddpkit.cli.app import LeanCommand, app
from ddpkit.errors import UsageError


@app.command(
    cls=LeanCommand,
    epilog='bash: `source <(ddpkit completion bash)` in ~/.bashrc. zsh: `eval "$(ddpkit completion zsh)"` in ~/.zshrc, '
    "after compinit. fish: `ddpkit completion fish > ~/.config/fish/completions/ddpkit.fish`.",
)
def completion(
    shell: Annotated[str | None, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")] = None,
) -> None:
    """Print the shell script that completes ddpkit's commands, options and values."""
    from ddpkit.cli import candidates
    from ddpkit.errors import nearest

    if shell is None:
        mine = os.environ.get("SHELL", "").rpartition("/")[2]
        raise UsageError("no shell given", f"ddpkit completion {mine if mine in candidates.SCRIPTS else 'bash'}")
    if shell not in candidates.SCRIPTS:
        hint = nearest(shell, candidates.SCRIPTS) or "bash, zsh or fish"
        raise UsageError(f"completion for {shell} not found", hint)
    print(candidates.SCRIPTS[shell], end="")


def commands() -> dict[str, Any]:
    """Every command with its options and arguments."""
    from ddpkit.cli.candidates import Parameter

    group: Any = typer.main.get_command(app)
    return {
        name: [
            Parameter(
                tuple(each.opts) if each.param_type_name == "option" else (),
                not getattr(each, "is_flag", False) and not (each.metavar or "").startswith("[="),
                each.metavar or "",
            )
            for each in command.params
            if not getattr(each, "hidden", False)
        ]
        for name, command in group.commands.items()
    }
