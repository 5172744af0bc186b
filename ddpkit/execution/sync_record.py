"""What `--sync` has put on nodes: by that a file there is known as a copy of this project's, which nobody changed.

A file of this machine for each project, in the user's state directory. A file on a node is such a copy if it has the
name and the content of one that was sent, or that was the same. So the record is right for nodes with a shared
directory, and for those with their own. Without a record, `--sync` stops more often, and loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from ddpkit.files import make_directories, write_atomically
from ddpkit.node.owned import remove_file
from ddpkit.run.run_files import read_own
from ddpkit.run.run_index import index_folder

NAME = re.compile(r"[0-9a-f]{32}\.json")
FOLDER = "sync"  # beside the index of runs
LIMIT = 1 << 25  # bytes of a record
VERSIONS = 50  # of a file: a node may not have been used for as many changes
RECORDS = 100  # the projects that were copied last
Version = tuple[int, int, str]  # size, time in nanoseconds; the target of a link, or the content of a file if known


def _place(source: str) -> tuple[Path, str]:
    """The directory of the records, and the name of a project's. Raises RuntimeError where no home is known."""
    return index_folder().parent / FOLDER, f"{hashlib.sha256(os.fsencode(source)).hexdigest()[:32]}.json"


def read_sent(source: str) -> dict[str, list[Version]]:
    """Return the versions of each file that were sent, the newest last. Nothing is taken that others can change."""
    try:
        data = json.loads(read_own(*_place(source), LIMIT, None))
    except (OSError, ValueError, RuntimeError, RecursionError):
        return {}
    if not isinstance(data, dict) or not all(map(_is_versions, data.values())):
        return {}
    return {name: [(size, when, content) for size, when, content in each] for name, each in data.items()}


def _is_versions(value: object) -> bool:
    """Check what is kept of a file."""
    return isinstance(value, list) and all(
        isinstance(each, list) and [type(part) for part in each] == [int, int, str] for each in value
    )


def keep_sent(source: str, now: Mapping[str, Version]) -> str:
    """Add versions to the record of a project. Returns why it cannot be kept; empty: it is."""
    sent = read_sent(source)
    old = {name: each for name, each in sent.items() if name not in now}  # such as of another git branch
    new = {name: _with_version(sent.get(name, []), version) for name, version in now.items()}
    if new == {name: each for name, each in sent.items() if name in now}:
        return ""
    try:
        folder, name = _place(source)
        make_directories(folder, 0o700)
        write_atomically(folder / name, _as_text({**old, **new}), 0o600)
        read_own(folder, name, LIMIT, None)  # one that others can change is of no use
        others = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
        for path in sorted(others, key=lambda path: -path.lstat().st_mtime)[RECORDS:]:
            remove_file(os.fspath(path))
    except (OSError, RuntimeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _with_version(versions: list[Version], version: Version) -> list[Version]:
    """Add a version as the newest one. Content that was known once stays known, also of two with one size and time."""
    size, when, content = version
    known = content or next((each[2] for each in reversed(versions) if each[:2] == (size, when)), "")
    same = ((size, when, ""), (size, when, known))
    return [*(each for each in versions if each not in same), (size, when, known)][-VERSIONS:]


def _as_text(sent: dict[str, list[Version]]) -> str:
    """Write it as text, without what was noted longest ago if it is too much."""
    names = list(sent)
    while len(text := json.dumps({name: sent[name] for name in names}, separators=(",", ":"))) > LIMIT:
        names = names[len(names) // 4 + 1 :]
    return text
