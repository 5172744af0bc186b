"""Entries of a site and of a user: TOML files in the form of the catalogue's own, which come before those.

As settings they are obeyed only where nobody but this user and root can change them. A file with an error is left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ddpkit.diagnosis.catalogue.built import Built, entry_of, standing_in

SYSTEM = Path("/etc/ddpkit/catalogue")
PART = "Failures of this site"  # where a file names no other part


def folders() -> list[Path]:
    """The directories that are read: the system's, then the user's."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    own = Path(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "ddpkit/catalogue")  # noqa: PTH111, PTH117
    return [SYSTEM, own] if own.is_absolute() else [SYSTEM]


def add_site(shipped: Built) -> Built:
    """Return the catalogue with the entries of this site and of this user."""
    paths = list(_files())
    if not paths:
        return shipped
    from ddpkit.diagnosis.catalogue.matcher import index_of

    parts = {title: list(ids) for title, ids in shipped.parts.items()}
    added: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        part, tables = _read(path, {**shipped.tables, **added})
        parts.setdefault(part or PART, []).extend(tables)
        added |= {name: {**table, "origin": str(path)} for name, table in tables.items()}
    words = {**shipped.words}
    instead = {**shipped.instead}
    entries = [entry_of(name, table) for name, table in added.items()]
    # Their places are negative, so that they come before the shipped entries of the same kind.
    for word, rows in index_of(entries, -len(entries)).items():
        words[word] = [*rows, *words.get(word, ())]
    for name, ids in standing_in(entries).items():
        instead[name] = [*ids, *instead.get(name, ())]
    return shipped._replace(parts=parts, tables={**shipped.tables, **added}, words=words, instead=instead)


def _files() -> Iterator[Path]:
    for folder in folders():
        try:
            yield from sorted(path for path in folder.iterdir() if path.suffix == ".toml")
        except OSError as error:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                _warn(f"{folder}: {error.strerror}")


def _read(path: Path, known: Mapping[str, Mapping[str, Any]]) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the title and the entries of a file; nothing, after a warning, of one with an error."""
    from ddpkit.diagnosis.catalogue.reading import CatalogueError, check_references, read_file
    from ddpkit.files import read_trusted

    try:
        text, untrusted = read_trusted(path)
        if untrusted:
            raise CatalogueError(f"{untrusted.why}; hint: {untrusted.hint}")
        file = read_file(text, str(path))
        for name, table in file.entries.items():
            if name in known:
                where = known[name].get("origin") or "ddpkit"
                raise CatalogueError(f"{path}: [{name}]: {where} has an entry of this id: choose another one")
            if "reads" in table or any("reads" in each for each in table.get("instead", ())):
                raise CatalogueError(f"{path}: [{name}]: `reads` names a function of ddpkit, for its own entries alone")
        check_references(file.entries, dict.fromkeys(file.entries, str(path)), known)
    except (OSError, UnicodeDecodeError) as error:
        _warn(f"{path}: cannot be read: {getattr(error, 'strerror', '') or error}")
    except CatalogueError as error:
        _warn(str(error))
    else:
        return file.part, file.entries
    return "", {}


def _warn(what: str) -> None:
    import logging

    logging.getLogger(__name__).warning("ddpkit: rules of this site are left out: %s", what)
