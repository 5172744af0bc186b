"""The file that an option such as `--output FILE` names: a new one, or one to replace with `--force`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ddpkit.errors import UsageError
from ddpkit.files import check_replaceable, create, write_atomically

Force = Annotated[bool, typer.Option("--force", help="Replace the file of --output. Never a link, or a device.")]


def check_output(option: str, path: Path, *, force: bool) -> None:
    """Raise UsageError where the file may not be written."""
    try:
        there = check_replaceable(str(path))
    except OSError as error:
        raise _refusal(option, path, error) from None
    if there is not None and not force:
        other = path.with_name(f"{path.stem}-2{path.suffix}")
        raise UsageError(f"{option} {path}: the file exists", f"{option} {shlex.quote(str(other))}, or add --force")


def write_output(option: str, path: Path, content: str | bytes, *, force: bool) -> None:
    """Write the file. Raises UsageError."""
    check_output(option, path, force=force)
    try:
        (write_atomically if force else create)(path, content)
    except OSError as error:
        raise _refusal(option, path, error) from None


def _refusal(option: str, path: Path, error: OSError) -> UsageError:
    why = "a link: the file it leads to would be replaced" if path.is_symlink() else error.strerror or str(error)
    return UsageError(f"cannot write {path}: {why}", f"{option} FILE, with a writable FILE")
