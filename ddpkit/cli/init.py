"""`ddpkit init`: the files with which a project begins."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json
from ddpkit.errors import UsageError


@app.command(cls=LeanCommand)
def init(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="Directory of the project. [default: this one]")
    ] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Also write train.py, the reference script, and config/default.yaml.",
        ),
    ] = False,
    no_toml: Annotated[bool, typer.Option("--no-toml", help="Write no ddpkit.toml.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be written; write nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented ddpkit.toml into a project. Existing files are not overwritten."""
    from ddpkit.cli import scaffold

    if no_toml and not train:
        raise UsageError("--no-toml leaves nothing to write", "--train")
    project = Path(folder or ".")
    if not project.is_dir():
        raise UsageError(f"directory {project} not found", f"mkdir -p {shlex.quote(str(project))}")
    files = scaffold.files(project, toml=not no_toml, train=train)
    if not dry_run:
        scaffold.check(files)
        scaffold.write(project, files)
    if as_json:
        written = [{"path": str(project / each.path), "state": each.state} for each in files]
        print_json("init", {"dry_run": dry_run, "files": written})
    else:
        words = {"new": "would be written" if dry_run else "written", "same": "exists already, the same"}
        for each in files:
            print(f"{project / each.path}: {words.get(each.state, each.state)}{_ABOUT.get(each.path, '')}")
        if train:
            print("train.py needs, besides torch: pip install numpy scikit-learn", file=sys.stderr)
        if not dry_run:
            print(_next(project, "train.py" if (project / "train.py").is_file() else "SCRIPT"), file=sys.stderr)
    if dry_run:
        scaffold.check(files)


# What the main files are.
_ABOUT = {
    "ddpkit.toml": " (every setting as a comment, with its default or an example; nothing is set yet)",
    "train.py": " (the reference script)",
    "config/default.yaml": " (the settings of train.py)",
}


def _next(project: Path, script: str) -> str:
    change = "" if project == Path() else f"cd {shlex.quote(str(project))} && "
    return f"next: {change}ddpkit launch -n 2 --dry-run -- {script} prints what would run; without --dry-run it runs"
