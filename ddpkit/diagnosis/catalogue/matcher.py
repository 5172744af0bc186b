"""Matcher: finds the catalogue's entry for a line, and skips lines without one quickly.

Each pattern has one word that every matching text contains. The matcher splits a line into words once, and tries only
the patterns with one of these words. The time does not grow with the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ddpkit.diagnosis.catalogue.bounded import Found, find
from ddpkit.diagnosis.catalogue.entry import Entry, with_values

WORDS = re.compile(r"[a-z]{3,}")
LONG_LINE = 1024  # characters; in a longer line a pattern is searched around its word only
BEFORE = 300  # characters before the word, and after it
AFTER = 700
PLACES = 3  # of one word in a long line
_CUT = " ... "
# A pattern that begins with a run of characters of one class: `\S+: not found`, `(?:(?P<host>[\w.-]+): )?rank`.
_LEADING_RUN = re.compile(r"(?P<groups>(?:\(\?:|\(\?P<\w+>)*)(?P<of>\\[wSd]|\[(?:\\.|[^\]\\])+\])[+*]")
# Words of every log do not select lines.
_EVERYWHERE = frozenset(
    "nccl warn info error errors failed failure cuda torch python rank ranks file line not the and for with was has "
    "from this process processes version device gpu step loss job node memory model loading number runtimeerror "
    "valueerror oserror warning size expected channel info".split()
)
_MOST = 100_000  # entries
_ORDER = {kind: position for position, kind in enumerate(("noise", "cause", "death", "generic", "hint", "consequence"))}


def words_of(pattern: str) -> list[str]:
    """Whole words that every text matched by `pattern` holds, in lower case: those outside of groups and classes."""
    words: list[str] = []
    word, depth, index = "", 0, 0
    begins = True  # no letter can stand before the word in a text

    def end(no_letter: bool) -> None:
        """End the word. `no_letter`: what stands here in a text is no letter, so that a word ends and begins here."""
        nonlocal word, begins
        if word and begins and no_letter and depth == 0 and len(word) >= 3:
            words.append(word.lower())
        word, begins = "", no_letter

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
        elif char == "[":
            end(False)
            wide = pattern.index("]", index + 2) - index + 1
        elif char in "?*{":
            if word:  # the last letter need not be there
                word, begins = "", False
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
    end: int = 0


def compile_linear(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. One that begins with a run of characters starts where such a run starts, and nowhere in it.

    What matches from the middle of the run also matches from its start; to try each place would take time that grows
    with the square of the run.
    """
    run = _LEADING_RUN.match(pattern)
    return re.compile(f"{run['groups']}(?<!{run['of']}){pattern[run.start('of') :]}" if run else pattern)


def _search(pattern: re.Pattern[str], line: str, lower: str, word: str, origin: str) -> tuple[Found, int] | None:
    """Search a line; of a long one the parts around the word of the pattern. Returns also where the part begins."""
    if len(line) <= LONG_LINE:
        match = find(pattern, (line,), origin)
        return (match, 0) if match else None
    at = lower.find(word)
    for _ in range(PLACES):
        if at < 0:
            return None
        start, end = max(0, at - BEFORE), at + AFTER
        # Dots where it is cut: neither `^` nor `$` is true there.
        before = _CUT if start else ""
        match = find(pattern, (f"{before}{line[start:end]}{_CUT if end < len(line) else ''}",), origin)
        if match:
            return match, start - len(before)
        at = lower.find(word, at + 1)
    return None


class Row(NamedTuple):
    """A pattern in the index of a word: the word selects lines, and the others are in every line that it matches."""

    order: int  # of entries, the best one first
    number: int  # of the pattern in its entry
    id: str  # of the entry
    others: tuple[str, ...]  # the other words of the pattern


Index = Mapping[str, Sequence[Row]]


def index_of(entries: Iterable[Entry], first: int = 0) -> Index:
    """Index the patterns of entries by word. `first`: their place among all entries."""
    index: dict[str, list[Row]] = {}
    for position, entry in enumerate(entries, first):
        order = _ORDER[entry.kind] * _MOST + position
        for number, pattern in enumerate(entry.patterns):
            words = words_of(pattern)
            rare = [word for word in words if word not in _EVERYWHERE]
            word = max(rare or words, key=len, default="")
            index.setdefault(word, []).append(Row(order, number, entry.id, tuple(sorted({*words} - {word}))))
    return index


class Matcher:
    """All patterns of a catalogue, ready to be looked for."""

    def __init__(self, index: Index, entries: Mapping[str, Entry]) -> None:
        self._by_word = index
        self._entries = entries
        self.words = frozenset(index)
        # To compile all of them takes longer than to read most logs: each is compiled when a line has its word.
        self._compiled = cache(compile_linear)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Matcher:
        """A matcher of some entries."""
        return cls(index_of(entries), {entry.id: entry for entry in entries})

    def matches(self, line: str, holds: Callable[[Match], bool] = lambda _: True) -> list[Match]:
        """All entries that know the line and hold in its log, the best one first."""
        lower = line.lower()
        words = {*WORDS.findall(lower)}
        indexed = words & self.words
        # In the index as it is stored, a row is a list with the fields of `Row`.
        tried = [(row, word) for word in indexed for row in self._by_word[word] if all(map(lower.__contains__, row[3]))]
        matched: dict[str, Match] = {}
        for (_, number, name, _), word in sorted(tried, key=lambda each: (each[0][0], each[0][1])):
            if name in matched:
                continue
            entry = self._entries[name]
            found = _search(self._compiled(entry.patterns[number]), line, lower, word, entry.origin)
            if found:
                match, offset = found
                values = {k: v for k, v in match.groups.items() if v}
                start, end = max(0, offset + match.start), offset + match.end
                matched[name] = Match(entry=entry, values=values, start=start, end=end)
        held = [match for match in matched.values() if holds(match)]
        explained = {name for match in held for name in match.entry.explains}
        return sorted(held, key=lambda match: (match.entry.id in explained, _ORDER[match.entry.kind]))

    def best(self, line: str) -> Match | None:
        """The best entry for a line that stands alone."""

        def holds(match: Match) -> bool:
            return find(with_values(match.entry.needs, match.values), (line,), match.entry.origin) is not None

        return next(iter(self.matches(line, holds)), None)
