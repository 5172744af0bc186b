"""`ddpkit completion`: the shell's part of completion; and the commands, for those who complete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ddpkit.cli.app import LeanCommand, app
from ddpkit.errors import UsageError


@app.command(
    cls=LeanCommand,
    epilog='bash: `source <(ddpkit completion bash)` in ~/.bashrc. zsh: `eval "$(ddpkit completion zsh)"` in ~/.zshrc, '
    "behind compinit. fish: `ddpkit completion fish > ~/.config/fish/completions/ddpkit.fish`.",
)
def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Your shell.")]) -> None:
    """Print what a shell needs to complete ddpkit's words."""
    from ddpkit.cli import complete
    from ddpkit.errors import nearest

    if shell not in complete.SCRIPTS:
        raise UsageError(f"there is no completion for {shell}", nearest(shell, complete.SCRIPTS) or "bash, zsh or fish")
    print(complete.SCRIPTS[shell], end="")


def commands() -> dict[str, Any]:
    """Every command with its options and arguments."""
    from ddpkit.cli.complete import Parameter

    group: Any = typer.main.get_command(app)
    return {
        name: [
            Parameter(
                tuple(each.opts) if each.param_type_name == "option" else (),
                not getattr(each, "is_flag", False),
                each.metavar or "",
            )
            for each in command.params
        ]
        for name, command in group.commands.items()
    }
