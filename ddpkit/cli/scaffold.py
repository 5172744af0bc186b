"""Files of a new project: `ddpkit.toml`, and others on request. All are written, or none.

A wheel has them in `ddpkit/templates/`. A clone has them where they are used: at the top of the repository.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ddpkit import templates
from ddpkit.config import FILE
from ddpkit.errors import UsageError
from ddpkit.files import create_whole, remove_empty, remove_if_same

_TRAIN = ("train.py", "config/default.yaml")


@dataclass(frozen=True)
class NewFile:
    """One file to be written."""

    path: str  # relative to the project
    text: bytes
    state: str  # "new"; "same": it exists with this text; or the reason why it cannot be written

    @property
    def mode(self) -> int:
        """Programs can be started as they are; config and what others read cannot. No other user may write to them."""
        return 0o755 if self.text.startswith(b"#!") else 0o644


def files(project: Path, *, toml: bool, train: bool) -> list[NewFile]:
    """The files that would be written into a directory, each with its state."""
    names = [*([FILE] if toml else ()), *(_TRAIN if train else ())]
    texts = {path: templates.find(path).read_bytes() for path in names}
    return [NewFile(path, text, _state(project, path, text)) for path, text in texts.items()]


def _state(project: Path, path: str, text: bytes) -> str:
    target = project / path
    for folder in reversed(target.relative_to(project).parents):
        if os.path.lexists(project / folder) and not (project / folder).is_dir():
            return f"{folder} is not a directory"
    if target.is_file() and target.read_bytes() == text:
        return "same"
    if os.path.lexists(target):
        return "exists already"
    if path == FILE and _has_table(project / "pyproject.toml"):
        return "pyproject.toml has a table [tool.ddpkit], which ddpkit would no longer read"
    return "new"


def _has_table(path: Path) -> bool:
    try:
        return "[tool.ddpkit" in path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def check(new_files: list[NewFile]) -> None:
    """Raise UsageError where a file cannot be written."""
    problems = [each for each in new_files if each.state not in ("new", "same")]
    if not problems:
        return
    text = "; ".join(f"{each.path}: {each.state}" for each in problems)
    hint = "ddpkit init DIR"
    if [each.path for each in problems] == [FILE]:
        hint = "ddpkit init --no-toml --train"
    raise UsageError(f"nothing was written: {text}", hint)


def write(project: Path, new_files: list[NewFile]) -> None:
    """Write the new files, or none: after an error those already written are removed. Raises UsageError."""
    made: list[tuple[str, os.stat_result]] = []
    folders: list[Path] = []
    try:
        for each in new_files:
            if each.state == "new":
                target = project / each.path
                _make_folder(target.parent, folders)
                create_whole(str(target), each.text, each.mode)
                made.append((str(target), target.lstat()))
    except BaseException as error:
        for path, as_made in made:
            remove_if_same(path, as_made)
        for folder in reversed(folders):
            remove_empty(str(folder))  # not one into which another program has put a file
        if isinstance(error, OSError):
            raise UsageError(f"nothing was written: {error.filename}: {error.strerror}", "ddpkit init DIR") from None
        raise


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(0o755)
        made.append(each)
