"""Known failures as data: symptom, cause, a command that shows it, fix, and a public link.

The preflight, the verdict of a failed run, `ddpkit explain` and TROUBLESHOOTING.md use it. The entries are the TOML
files in `core` and `packs`, and those of a site. One is made from its table when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from signal import Signals
from typing import TYPE_CHECKING, Any

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

if TYPE_CHECKING:
    from ddpkit.diagnosis.catalogue.built import Built
    from ddpkit.diagnosis.catalogue.matcher import Matcher

ENTRIES: tuple[Entry, ...]  # all, in the order of their parts
PARTS: dict[str, tuple[Entry, ...]]  # the same by the title of their part


class _ById(Mapping[str, Entry]):
    def __init__(self) -> None:
        self._made: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name not in self._made:
            from ddpkit.diagnosis.catalogue.built import entry_of

            self._made[name] = entry_of(name, load().tables[name])
        return self._made[name]

    def forget(self) -> None:
        """Make each entry again, from what is loaded then."""
        self._made.clear()

    def __iter__(self) -> Iterator[str]:
        return iter(load().tables)

    def __len__(self) -> int:
        return len(load().tables)


BY_ID = _ById()


@cache
def load() -> Built:
    """Return the whole catalogue: that of ddpkit, and of this site."""
    from ddpkit.diagnosis.catalogue import built, site

    return site.add_site(built.load())


@cache
def known_failures() -> Matcher:
    """Return the matcher of all entries."""
    from ddpkit.diagnosis.catalogue.matcher import Matcher

    return Matcher(load().words, BY_ID)


def standing_in_for(name: str) -> Iterator[tuple[Entry, Instead]]:
    """Yield the entries that can stand in the place of the one of this id, each with its rule."""
    for entry in map(BY_ID.__getitem__, load().instead.get(name, ())):
        yield from ((entry, rule) for rule in entry.instead if name in rule.of)


def entry_of_seen(name: str) -> Entry:
    """Return the entry for what ddpkit or a kernel saw without a text: see `Entry.seen`."""
    return BY_ID[load().seen[name]]


def entry_of_signal(number: int | None) -> Entry | None:
    """Return the entry for the end by a signal; None where there is none, as for real-time ones, which have no name."""
    name = Signals(number).name if number in set(Signals) else ""
    return entry_of_seen(name) if name in load().seen else None


def form(name: str) -> re.Pattern[str]:
    """Return the expression for any text of a list of forms."""
    return re.compile("|".join(load().forms[name]))


def category(entry: Entry) -> str:
    """Return the title of an entry's part."""
    return next(title for title, ids in load().parts.items() if entry.id in ids)


def __getattr__(name: str) -> Any:
    if name == "PARTS":
        return {title: tuple(BY_ID[each] for each in ids) for title, ids in load().parts.items()}
    if name == "ENTRIES":
        return tuple(BY_ID[each] for ids in load().parts.values() for each in ids)
    raise AttributeError(name)


__all__ = [
    "BY_ID",
    "ENTRIES",
    "PARTS",
    "Entry",
    "category",
    "entry_of_seen",
    "entry_of_signal",
    "form",
    "known_failures",
    "standing_in_for",
]
