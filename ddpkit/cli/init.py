"""`ddpkit init`: the files with which a project begins."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app
from ddpkit.errors import UsageError


@app.command(cls=LeanCommand)
def init(
    folder: Annotated[str | None, typer.Argument(metavar="[DIR]", help="The project; default: this folder.")] = None,
    train: Annotated[
        bool,
        typer.Option(
            "--train",
            help="Also train.py, the reference script, with the two files it imports, and config/default.yaml.",
        ),
    ] = False,
    scripts: Annotated[
        bool,
        typer.Option(
            "--scripts", help="Also scripts/slurm, scripts/ssh and test_distributed.py, which need no ddpkit."
        ),
    ] = False,
    no_toml: Annotated[bool, typer.Option("--no-toml", help="No ddpkit.toml.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written; write nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write a commented ddpkit.toml into a project, and what else is asked for; overwrite nothing."""
    from ddpkit.cli import scaffold

    if no_toml and not (train or scripts):
        raise UsageError("--no-toml leaves nothing to write", "--train, --scripts")
    project = Path(folder or ".")
    files = scaffold.files(project, toml=not no_toml, train=train, scripts=scripts)
    if not dry_run:
        scaffold.check(files)
        scaffold.write(project, files)
    if as_json:
        print(json.dumps([{"path": str(project / each.path), "state": each.state} for each in files], indent=2))
    else:
        words = {"new": "would be written" if dry_run else "written", "same": "is there already, the same"}
        for each in files:
            print(f"{project / each.path}: {words.get(each.state, each.state)}")
        if train:
            print("train.py reads, besides torch: pip install numpy pyyaml scikit-learn", file=sys.stderr)
    if dry_run:
        scaffold.check(files)
