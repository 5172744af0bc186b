"""Explains the log of a failed run: which failure was the first cause, whose it was, and what only followed from it.

Pure: text in, findings out. Lines are chosen by words (see `ddpkit.diagnosis.catalogue.matcher`): a long log costs
little.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ddpkit.diagnosis import tracebacks
from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES
from ddpkit.diagnosis.catalogue.deaths import SIGNALS
from ddpkit.diagnosis.catalogue.entry import Entry, filled
from ddpkit.diagnosis.catalogue.matcher import WORDS, Match, Matcher
from ddpkit.diagnosis.line_prefixes import Speaker, named_by, plain, said_by, take_apart, without_colours

# What a training script prints while all is well. So much of it behind a failure says that the run went on.
_PROGRESS = re.compile(r"(?i)\b(?:epoch|step|iter|iteration|loss|batch)\b\W*\d")
WENT_ON = 20
# Of those that waited for one in a collective each says so: the one that does not is the one to look at.
_WAITED = frozenset(("collective-timeout", "gloo-timeout"))
_RANKS = re.compile(r"\[[Rr]ank ?(\d+)\]")
ENOUGH = 2000  # of one kind in one log
_SYNTAX = frozenset(("syntaxerror", "indentationerror", "taberror"))
_MARKS = frozenset(("traceback", "cause", *_SYNTAX))
_SPEAKING = ("cause", "hint", "noise")
_STRENGTH = {"cause": 0, "death": 1, "generic": 2, "consequence": 3, "hint": 4}
SHOWN = 400  # characters of a line


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was recognised. `entry` is None for an exception that the catalogue does not know."""

    entry: Entry | None
    kind: str
    file: str
    number: int  # of the line, from 1
    end: int  # the last line that belongs to it
    text: str
    speaker: Speaker
    when: float | None
    values: Mapping[str, str]
    words: str = ""  # for an exception of the script's own: what and where
    look: str = ""  # and the command that shows the place
    doubtful: bool = False  # its text stands outside of a traceback, and is also printed where nothing is wrong

    @property
    def id(self) -> str:
        return self.entry.id if self.entry else "own-exception"

    @property
    def cause(self) -> str:
        return filled(self.entry.cause, self.values) if self.entry else self.words

    @property
    def cause_alone(self) -> str:
        """The cause where somebody else says whose it is."""
        return self.cause.partition("own exception: ")[2] or self.cause

    @property
    def fix(self) -> str:
        return filled(self.entry.fix, self.values) if self.entry else self.look

    @property
    def probe(self) -> str:
        return filled(self.entry.probe, self.values) if self.entry else ""

    @property
    def link(self) -> str:
        return self.entry.link if self.entry else ""


@dataclass(kw_only=True)
class Explanation:
    """What is known of a failed run. `first` is None: not known."""

    first: Finding | None = None
    alike: list[Finding] = field(default_factory=list)  # the same, of other ranks or again
    others: list[Finding] = field(default_factory=list)  # other causes, which came later
    hints: list[Finding] = field(default_factory=list)  # warnings that may be behind it
    consequences: list[Finding] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)  # ranks that speak in the log, and do not say that they waited
    lines: int = 0
    suspicious: tuple[str, int, str] | None = None  # where nothing is known: file, line, text of the first `error`


_matcher: list[Matcher] = []


def matcher() -> Matcher:
    if not _matcher:
        _matcher.append(Matcher(ENTRIES))
    return _matcher[0]


def explain(files: Iterable[tuple[str, str]]) -> Explanation:
    """Explain the texts of one run: (name, text) of each of its logs."""
    found: list[Finding] = []
    texts: list[tuple[str, list[str]]] = []
    for name, text in files:
        lines = without_colours(text).split("\n")
        texts.append((name, lines))
        found += _Reader(name, lines).read()
    result = _decided(found, dict(texts))
    if result.first is not None and result.first.id in _WAITED:
        waited = {each.speaker.rank for each in (result.first, *result.alike)}
        speaking = {int(rank) for _, lines in texts for line in lines for rank in _RANKS.findall(line)}
        result.silent = sorted(speaking - waited)
    result.lines = sum(len(lines) for _, lines in texts)
    if result.first is None:
        result.suspicious = _suspicious(texts)
    return result


class _Reader:
    """One log."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name = name
        self.lines = lines
        self.found: list[Finding] = []
        self.when: float | None = None  # the last time that a line told
        self._met: dict[str, bool] = {}  # by the id of an entry: whether what it needs stands in this log

    def read(self) -> list[Finding]:
        known = matcher()
        watched = known.words | _MARKS
        traces: list[tracebacks.Trace] = []
        hits: list[tuple[int, Match]] = []
        consumed: set[int] = set()
        claimed: set[int] = set()  # lines of exceptions that belong to a traceback
        tables: list[tracebacks.Summary] = []
        times: dict[str, int] = {}
        alone: list[tracebacks.Trace] = []
        for index, line in enumerate(self.lines):
            if ("Error: " in line or "Exception: " in line) and len(alone) < ENOUGH:
                bare = tracebacks.alone(self.lines, index)
                if bare:
                    alone.append(bare)
            words = WORDS.findall(line.lower())
            if watched.isdisjoint(words):
                continue
            if "traceback" in words and tracebacks.HEADER in line and index not in consumed:
                trace = tracebacks.read(self.lines, index, claimed) if len(traces) < ENOUGH else None
                if trace:
                    traces.append(trace)
                    consumed |= trace.headers
                    claimed.update(raised.number for raised in trace.raised)
            if tracebacks.ROOT in line:
                table = tracebacks.summary(self.lines, index)
                if table:
                    tables.append(table)
            if not _SYNTAX.isdisjoint(words) and not any(old.end >= index for old in traces[-4:]):
                trace = tracebacks.syntax_error(self.lines, index)
                if trace:
                    traces.append(trace)
            if tracebacks.BOX in line:
                trace = tracebacks.boxed(self.lines, index)
                if trace:
                    traces.append(trace)
            match = known.best(plain(line))
            if match and self._needs(match.entry):
                times[match.entry.id] = times.get(match.entry.id, 0) + 1
                if times[match.entry.id] <= ENOUGH:
                    hits.append((index, match))
        self._put_together(traces, hits)
        self._tables(tables)
        known_lines = {index for index, _ in hits} | {index for trace in traces for index in trace.own}
        known_lines |= {raised.number for trace in traces for raised in trace.raised}
        for bare in alone:
            if bare.start not in known_lines:
                self._own(bare, bare.origin(), kind="death")
        return sorted(self.found, key=lambda each: each.number)

    def _needs(self, entry: Entry) -> bool:
        if not entry.needs:
            return True
        if entry.id not in self._met:  # a long log can hold the same line thousands of times
            self._met[entry.id] = any(re.search(entry.needs, line) for line in self.lines)
        return self._met[entry.id]

    def _put_together(self, traces: list[tracebacks.Trace], hits: list[tuple[int, Match]]) -> None:
        code = {index for trace in traces for index in trace.own}
        taken: set[int] = set()
        by_line = {index: match for index, match in hits if index not in code}
        order = list(by_line)
        for trace in traces:
            origin = trace.origin()
            between = order[bisect_left(order, trace.start) : bisect_right(order, trace.end)]
            inside = [index for index in between if index not in taken and self._same(trace, index)]
            # What only says that something failed is about this exception where it stands in its own line.
            lines = {raised.number for raised in trace.raised}
            inside = [index for index in inside if index in lines or by_line[index].entry.kind in _SPEAKING]
            best = min(inside, key=lambda index: (_strength(by_line[index]), index), default=None)
            if best is not None and by_line[best].entry.kind == "noise":
                best = None
            taken.update(inside)
            if best is None:
                self._own(trace, origin)
            else:
                self._hit(best, by_line[best], trace)
        for index, match in by_line.items():
            if index not in taken and match.entry.kind != "noise":
                self._hit(index, match)

    def _same(self, trace: tracebacks.Trace, index: int) -> bool:
        """Whether a line between those of a traceback is of the same rank."""
        other = take_apart(plain(self.lines[index])).speaker
        return not other.known or not trace.speaker.known or other == trace.speaker

    def _speaker(self, index: int, near: Speaker | None = None) -> tuple[Speaker, float | None]:
        line = plain(self.lines[index])
        labelled = take_apart(line)
        speaker = said_by(labelled, line)
        by_name = named_by(self.name)
        near = near or by_name
        return (
            Speaker(
                rank=_first(speaker.rank, near.rank, by_name.rank),
                host=speaker.host or near.host,
                local=_first(speaker.local, near.local, by_name.local),
                agent=speaker.agent,
            ),
            labelled.when,
        )

    def _hit(self, index: int, match: Match, trace: tracebacks.Trace | None = None) -> None:
        speaker, when = self._speaker(index, trace.speaker if trace else None)
        values = dict(match.values)
        # The host of a text is the one it speaks of; the rank that it names is the guilty one.
        if values.get("rank", "").isdecimal():
            speaker = replace(speaker, rank=int(values["rank"]), host=values.get("host", speaker.host))
        if values.get("local", "").isdecimal() and speaker.rank is None:
            speaker = replace(speaker, local=int(values["local"]))
        if speaker.host:
            values.setdefault("host", speaker.host)
        if speaker.rank is not None:
            values.setdefault("rank", str(speaker.rank))
        self.found.append(
            Finding(
                entry=match.entry,
                kind=match.entry.kind,
                file=self.name,
                number=index + 1,
                end=(trace.end if trace else index) + 1,
                text=take_apart(plain(self.lines[index])).text.strip()[:SHOWN],
                speaker=speaker,
                when=when if when is not None else trace.when if trace else None,
                values=values,
                doubtful=match.entry.doubtful and trace is None,
            )
        )

    def _own(self, trace: tracebacks.Trace, origin: tracebacks.Raised, kind: str = "cause") -> None:
        speaker, when = self._speaker(origin.number, trace.speaker)
        place = origin.place or origin.last
        where = f" at {place[0]}:{place[1]}" + (f" in {place[2]}" if place[2] else "") if place else ""
        last = trace.raised[-1]
        also = "" if last is origin else f" (it ended as {last.words[:120]})"
        if trace.links and trace.links[-1] == "during" and last is origin:
            also = f" (while handling {trace.raised[0].words[:120]})"
        elif "nested" in trace.links or "group" in trace.links:
            also = f" (inside {trace.raised[0].words[:120]})"
        who = speaker.words()
        whose = f"{who}'s own exception" if who else "the script's own exception"
        self.found.append(
            Finding(
                entry=None,
                kind=kind,
                file=self.name,
                number=origin.number + 1,
                end=trace.end + 1,
                text=origin.words[:SHOWN],
                speaker=speaker,
                when=trace.when if trace.when is not None else when,
                values={},
                words=f"{whose}: {origin.words[:SHOWN]}{where}{also}",
                look=f"look at {place[0]}, line {place[1]}" if place else "look at the lines above it",
            )
        )

    def _tables(self, tables: list[tracebacks.Summary]) -> None:
        """A death by a signal, of which only torchrun tells."""
        for table in tables:
            entry = BY_ID.get(SIGNALS.get(-table.code, "")) or BY_ID["child-failed"]
            values = {"host": table.speaker.host, "code": str(table.code)}
            if table.speaker.rank is not None:
                values["rank"] = str(table.speaker.rank)
            self.found.append(
                Finding(
                    entry=entry,
                    kind=entry.kind,
                    file=self.name,
                    number=table.number + 1,
                    end=table.number + 1,
                    text=plain(self.lines[table.number]).strip(),
                    speaker=table.speaker,
                    when=None,
                    values=values,
                )
            )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _strength(match: Match) -> int:
    return _STRENGTH.get(match.entry.kind, 9)


def _decided(found: list[Finding], texts: Mapping[str, Sequence[str]]) -> Explanation:
    """Causes beat what only follows from one; of causes the first, unless the run went on behind it."""
    result = Explanation()
    result.hints = _each_once(each for each in found if each.kind == "hint")
    strongest = min((_STRENGTH[each.kind] for each in found if each.kind != "hint"), default=None)
    if strongest is None:
        result.first = result.hints.pop(0) if result.hints else None
        return result
    candidates = [each for each in found if each.kind != "hint" and _STRENGTH[each.kind] == strongest]
    candidates = [each for each in candidates if not each.doubtful] or candidates
    if strongest == _STRENGTH["consequence"]:  # torchrun's table says more than those who noticed
        candidates.sort(key=lambda each: each.text.startswith("exitcode"), reverse=True)
    elif all(each.when is not None for each in candidates):  # within one log lines of ranks come late, too
        candidates.sort(key=lambda each: each.when or 0.0)
    result.first = first = _not_survived(candidates, texts)
    rest = [each for each in found if each is not first and each.kind != "hint"]
    result.alike = [each for each in rest if _alike(each, first)]
    table = next((each for each in result.alike if each.text.startswith("exitcode")), None)
    if table and first.kind == "death" and first.speaker.rank is None:  # torchrun's table also says whose it was
        result.first = first = replace(first, speaker=table.speaker, values={**table.values, **first.values})
    rest = [each for each in rest if not _alike(each, first)]
    result.others = _each_once(each for each in rest if each.kind == "cause")
    result.consequences = [each for each in rest if each.kind != "cause"]
    return result


def _alike(one: Finding, other: Finding) -> bool:
    return one.id == other.id and (one.entry is not None or one.text == other.text)


def _each_once(found: Iterable[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    seen: set[tuple[str, str]] = set()
    for each in found:
        key = (each.id, "" if each.entry else each.text)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


def _not_survived(candidates: list[Finding], texts: Mapping[str, Sequence[str]]) -> Finding:
    """The first after which no training went on: what was caught and logged hours before ended nothing."""
    for one, following in pairwise(candidates):
        if one.file != following.file:
            return one
        between = texts[one.file][one.end : following.number - 1]
        if len(between) < WENT_ON or sum(1 for line in between if _PROGRESS.search(line)) < WENT_ON:
            return one
    return candidates[-1]


_ALARM = re.compile(r"(?i)\b(?:error|fatal|exception|failed|critical|abort(?:ed)?|panic)\b")


def _suspicious(texts: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, int, str] | None:
    for name, lines in texts:
        for number, line in enumerate(lines, 1):
            if _ALARM.search(line):
                return name, number, plain(line).strip()[:SHOWN]
    return None
