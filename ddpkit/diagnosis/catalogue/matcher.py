"""Matcher: finds the catalogue's entry for a line, and skips lines without one quickly.

Each pattern has one word that every matching text contains. The matcher splits a line into words once, and tries only
the patterns with one of these words. The time does not grow with the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from ddpkit.diagnosis.catalogue.entry import Entry, needed

WORDS = re.compile(r"[a-z]{3,}")
# Words of every log do not select lines.
_EVERYWHERE = frozenset(
    "nccl warn info error errors failed failure cuda torch python rank ranks file line not the and for with was has "
    "from this process processes version device gpu step loss job node memory model loading number runtimeerror "
    "valueerror oserror warning size expected channel info".split()
)
_ORDER = {kind: position for position, kind in enumerate(("noise", "cause", "death", "generic", "hint", "consequence"))}


def words_of(pattern: str) -> list[str]:
    """The whole words that every text matched by `pattern` holds, in lower case: those outside of groups and classes."""
    words: list[str] = []
    word, whole, depth, index = "", True, 0, 0

    def end(clean: bool) -> None:
        nonlocal word, whole
        if word and whole and clean and depth == 0 and len(word) >= 3:
            words.append(word.lower())
        word, whole = "", clean

    while index < len(pattern):
        char = pattern[index]
        wide = 1
        if char == "\\":
            wide = 2
            end(pattern[index + 1] not in "wS")
        elif char == "(":
            end(False)
            depth += 1
        elif char == ")":
            end(False)
            depth -= 1
            whole = False
        elif char == "[":
            end(False)
            wide = pattern.index("]", index + 2) - index + 1
            whole = False
        elif char in "?*{":
            if word:  # the last letter need not be there
                word, whole = "", False
            if char == "{":
                wide = pattern.index("}", index) - index + 1
        elif char.isascii() and char.isalpha():
            word += char
        else:  # a blank, a digit, a point, the edge of a line
            end(char != "+")
        index += wide
    end(True)
    return words


@dataclass(frozen=True, kw_only=True)
class Match:
    """An entry, and the text of its named groups."""

    entry: Entry
    values: dict[str, str]
    start: int = 0  # of its text in the line


class Matcher:
    """All patterns of a catalogue, ready to be looked for."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_word: dict[str, list[tuple[int, int, int, Entry, str]]] = {}
        for position, entry in enumerate(entries):
            for number, pattern in enumerate(entry.patterns):
                words = words_of(pattern)
                rare = [word for word in words if word not in _EVERYWHERE]
                word = max(rare or words, key=len, default="")
                order = (_ORDER[entry.kind], position, number, entry, pattern)
                self._by_word.setdefault(word, []).append(order)
        self.words = frozenset(self._by_word)
        # To compile all of them takes longer than to read most logs: each is compiled when a line has its word.
        self._compiled = cache(re.compile)

    def matches(self, line: str) -> Iterator[Match]:
        """All entries that know the line, the best one first."""
        tried = [each for word in {*WORDS.findall(line.lower())} for each in self._by_word.get(word, ())]
        matched: dict[str, Match] = {}
        for _, _, _, entry, pattern in sorted(tried, key=lambda each: each[:3]):
            match = None if entry.id in matched else self._compiled(pattern).search(line)
            if match:
                values = {k: v for k, v in match.groupdict().items() if v}
                matched[entry.id] = Match(entry=entry, values=values, start=match.start())
        explained = {name for each in matched.values() for name in each.entry.explains}
        yield from sorted(matched.values(), key=lambda each: (each.entry.id in explained, _ORDER[each.entry.kind]))

    def best(self, line: str) -> Match | None:
        """The best entry for a line that stands alone."""
        return next((each for each in self.matches(line) if re.search(needed(each.entry, each.values), line)), None)
