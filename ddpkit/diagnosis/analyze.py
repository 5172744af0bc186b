"""Analysis of the logs of a failed run: the first cause, whose it was, and what only followed from it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ddpkit.diagnosis.line_prefixes import strip_escapes, visible_line
from ddpkit.diagnosis.log_match import MAX_TEXT, LogMatch
from ddpkit.diagnosis.log_reader import STRENGTH, LogReader

# Lines that a training script prints while all is well. So many of them behind a failure say that the run went on.
_PROGRESS = re.compile(r"(?i)\b(?:epoch|step|iter|iteration|loss|batch)\b\W*\d")
PROGRESS_LINES = 20
# Ranks that waited for another in a collective print these: the rank that does not is the one to look at.
_WAITED = frozenset(("collective-timeout", "gloo-timeout"))
_RANKS = re.compile(r"\[[Rr]ank ?(\d+)\]")
_ALARM = re.compile(r"(?i)\b(?:error|fatal|exception|failed|critical|abort(?:ed)?|panic)\b")


@dataclass(kw_only=True)
class LogAnalysis:
    """The first failure in the logs of a run, None where it is not known; and all other matches by their part."""

    first: LogMatch | None = None
    alike: list[LogMatch] = field(default_factory=list)  # the same, of other ranks or again
    others: list[LogMatch] = field(default_factory=list)  # other causes, which came later
    hints: list[LogMatch] = field(default_factory=list)  # warnings that may be behind it
    consequences: list[LogMatch] = field(default_factory=list)
    silent_ranks: list[int] = field(default_factory=list)  # ranks that print, and do not say that they waited
    lines: int = 0
    first_alarm: tuple[str, int, str] | None = None  # where nothing is known: file, line, text of the first `error`


def analyze_log(files: Iterable[tuple[str, str]]) -> LogAnalysis:
    """Analyze the logs of one run, each as (name, text)."""
    matches: list[LogMatch] = []
    texts: list[tuple[str, list[str]]] = []
    for name, text in files:
        lines = strip_escapes(text).split("\n")
        texts.append((name, lines))
        matches += LogReader(name, lines).read()
    result = _decide(matches, dict(texts))
    if result.first is not None and result.first.id in _WAITED:
        waited = {each.speaker.rank for each in (result.first, *result.alike)}
        speaking = {int(rank) for _, lines in texts for line in lines for rank in _RANKS.findall(line)}
        result.silent_ranks = sorted(speaking - waited)
    result.lines = sum(len(lines) - (lines[-1] == "") for _, lines in texts)  # a last newline begins no line
    if result.first is None:
        result.first_alarm = _first_alarm(texts)
    return result


def _decide(matches: list[LogMatch], texts: Mapping[str, Sequence[str]]) -> LogAnalysis:
    """Choose the first failure. A cause beats a consequence; an earlier cause a later one, unless the run went on."""
    result = LogAnalysis()
    result.hints = _without_repeats(each for each in matches if each.kind == "hint")
    strongest = min((STRENGTH[each.kind] for each in matches if each.kind != "hint"), default=None)
    if strongest is None:
        result.first = result.hints.pop(0) if result.hints else None
        return result
    candidates = [each for each in matches if each.kind != "hint" and STRENGTH[each.kind] == strongest]
    candidates = [each for each in candidates if not each.doubtful] or candidates
    if strongest == STRENGTH["consequence"]:  # torchrun's table says more than those who noticed
        candidates.sort(key=lambda each: each.text.startswith("exitcode"), reverse=True)
    elif all(each.when is not None for each in candidates):  # within one log lines of ranks come late, too
        candidates.sort(key=lambda each: each.when or 0.0)
    result.first = first = _first_fatal(candidates, texts)
    rest = [each for each in matches if each is not first and each.kind != "hint"]
    result.alike = [each for each in rest if _same(each, first)]
    table = next((each for each in result.alike if each.text.startswith("exitcode")), None)
    if table and first.kind == "death" and first.speaker.rank is None:  # torchrun's table also says whose it was
        result.first = first = replace(first, speaker=table.speaker, values={**table.values, **first.values})
    rest = [each for each in rest if not _same(each, first)]
    result.others = _without_repeats(each for each in rest if each.kind == "cause")
    result.consequences = [each for each in rest if each.kind != "cause"]
    return result


def _same(one: LogMatch, other: LogMatch) -> bool:
    return one.id == other.id and (one.entry is not None or one.text == other.text)


def _without_repeats(matches: Iterable[LogMatch]) -> list[LogMatch]:
    kept: list[LogMatch] = []
    seen: set[tuple[str, str]] = set()
    for each in matches:
        key = (each.id, "" if each.entry else each.text)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


def _first_fatal(candidates: list[LogMatch], texts: Mapping[str, Sequence[str]]) -> LogMatch:
    """Return the first match after which no training went on: an exception that was caught ended nothing."""
    for one, following in pairwise(candidates):
        if one.file != following.file:
            return one
        between = texts[one.file][one.end : following.number - 1]
        if len(between) < PROGRESS_LINES or sum(1 for line in between if _PROGRESS.search(line)) < PROGRESS_LINES:
            return one
    return candidates[-1]


def _first_alarm(texts: Iterable[tuple[str, Sequence[str]]]) -> tuple[str, int, str] | None:
    for name, lines in texts:
        for number, line in enumerate(lines, 1):
            if _ALARM.search(line):
                return name, number, visible_line(line).strip()[:MAX_TEXT]
    return None
