"""The catalogue with its word index as one file: a command parses and compiles nothing of it at its start.

A wheel holds that file, and no TOML. A clone makes it beside Python's compiled modules, and again after each change.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ddpkit.diagnosis.catalogue.entry import OWN, Entry, Instead
from ddpkit.diagnosis.catalogue.matcher import Index

HERE = Path(__file__).parent
FOLDERS = ("core", "packs")  # of TOML files, in this order
# The files in the order of their parts; others follow.
ORDER = "rendezvous store network gpu cuda nccl fabric node files install jobs slurm ssh ddp runtime deaths".split()
CHECKS, FORMS = "checks.toml", "forms.toml"  # symptoms of ddpkit's own checks; forms of lines
NAME = "catalogue.json"


Checks = Mapping[str, Sequence[tuple[str, str, str, str]]]  # rows of symptoms, by check


class Built(NamedTuple):
    """The catalogue as it is stored: ids by the title of their part, the table of each entry, the index by word."""

    parts: Mapping[str, Sequence[str]]
    tables: Mapping[str, Mapping[str, Any]]
    words: Index
    instead: Mapping[str, Sequence[str]]  # ids of the entries that can stand in place of one
    seen: Mapping[str, str]  # the id of the entry for what ddpkit or a kernel saw
    checks: Checks
    forms: Mapping[str, Sequence[str]]  # regular expressions by the name of their list


def load() -> Built:
    """Load the catalogue of this installation: of a wheel its one file, of a clone a kept build of the same sources."""
    sources = source_files()
    if not sources:
        return Built(*json.loads((HERE / NAME).read_bytes()))
    hashed = _hash({**sources, **other_files()})
    places = _places()
    for place in places:
        try:
            head, _, body = place.read_bytes().partition(b"\n")
            if head == hashed:
                return Built(*json.loads(body))
        except (OSError, ValueError):
            pass
    from ddpkit.diagnosis.catalogue.reading import CatalogueError

    try:
        built = build(sources, other_files())
    except CatalogueError as error:
        fix = f"correct it; its changes are shown by: git -C {shlex.quote(str(HERE))} diff"
        error.rephrase(f"the catalogue of this clone cannot be used: {error}", fix)
        raise
    any(_store(place, hashed + b"\n" + encode(built)) for place in places)  # in the first place that takes it
    return built


def _places() -> list[Path]:
    """Where a build is kept: with Python's compiled modules, or in a clone of another user, in this user's cache."""
    compiled = [Path(__spec__.cached).parent / NAME] if __spec__ is not None and __spec__.cached else []
    own = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ddpkit", NAME)  # noqa: PTH111
    return [*compiled, own] if own.is_absolute() else compiled


def source_files() -> dict[str, bytes]:
    """The TOML files by their path below this directory; none in a wheel."""
    place = {name: number for number, name in enumerate(ORDER)}
    paths = [path for folder in FOLDERS for path in sorted((HERE / folder).glob("*.toml"))]
    paths.sort(key=lambda path: place.get(path.stem, len(place)))
    return {path.relative_to(HERE).as_posix(): path.read_bytes() for path in paths}


def other_files() -> dict[str, bytes]:
    """The TOML files that hold no entries, by their name."""
    return {name: (HERE / name).read_bytes() for name in (CHECKS, FORMS)}


def _hash(sources: Mapping[str, bytes]) -> bytes:
    """Of the sources, and of the code that builds: no build of another state is ever read."""
    import hashlib

    found = hashlib.blake2b(digest_size=20)
    for name, content in (*sources.items(), *((path.name, path.read_bytes()) for path in sorted(HERE.glob("*.py")))):
        found.update(b"%s %d\n" % (name.encode(), len(content)))
        found.update(content)
    return found.hexdigest().encode()


def _store(path: Path, content: bytes) -> bool:
    """Keep a build. False where that may not be, as on a full disk: the next command builds it again."""
    from ddpkit.files import make_directories, write_atomically

    try:
        make_directories(path.parent)
        write_atomically(path, content)
    except OSError:
        return False
    return True


def build(sources: Mapping[str, bytes], others: Mapping[str, bytes] = MappingProxyType({})) -> Built:
    """Build the catalogue from its files, and from those of symptoms and of forms. Raises CatalogueError."""
    from ddpkit.diagnosis.catalogue.matcher import index_of
    from ddpkit.diagnosis.catalogue.reading import CatalogueError, check_references, read_checks, read_file, read_forms

    parts: dict[str, list[str]] = {}
    tables: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for name, content in sources.items():
        file = read_file(content, name)
        if not file.part:
            raise CatalogueError(f"{name}: part is missing, the title of these entries")
        for id_, table in file.entries.items():
            if id_ in tables:
                raise CatalogueError(f"{name}: [{id_}]: {places[id_]} has an entry of this id")
            tables[id_], places[id_] = table, name
        parts.setdefault(file.part, []).extend(file.entries)
    check_references(tables, places, ())
    entries = [entry_of(name, tables[name]) for names in parts.values() for name in names]
    seen = {name: entry.id for entry in entries for name in entry.seen}
    symptoms = read_checks(others.get(CHECKS, b""), CHECKS, {OWN, *tables})
    forms = read_forms(others.get(FORMS, b""), FORMS)
    return Built(parts, tables, index_of(entries), standing_in(entries), seen, symptoms, forms)


def standing_in(entries: Iterable[Entry]) -> dict[str, list[str]]:
    """For each id the ids of those entries that can stand in its place."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        for name in dict.fromkeys(name for rule in entry.instead for name in rule.of):
            found.setdefault(name, []).append(entry.id)
    return found


def encode(built: Built) -> bytes:
    """The content of the file that `load` reads."""
    return json.dumps(built, ensure_ascii=False, separators=(",", ":")).encode()


def entry_of(name: str, table: Mapping[str, Any]) -> Entry:
    """Return an entry from its table, which has been checked."""
    return Entry(id=name, **_frozen_values(table))


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(Instead(**_frozen_values(each)) if isinstance(each, dict) else _frozen(each) for each in value)
    return tuple(value.items()) if isinstance(value, dict) else value


def _frozen_values(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _frozen(value) for key, value in table.items()}
