"""Patterns of progress, of a completed run, and of slow work of one rank. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from ddpkit.diagnosis.catalogue import form
from ddpkit.diagnosis.line_prefixes import split_prefix, visible_line
from ddpkit.diagnosis.log_match import LogMatch

MOST_STEPS = 2000  # lines of progress that are looked at for one failure
BUFFER = 1 << 16  # characters
AS_BEFORE = 2  # lines of a shape that goes on
PROGRESS_LINES = 20  # so many lines of progress after a failure show that the run went on
RANKS = re.compile(r"\[[Rr]ank ?(\d+)\]")
_STEP = form("step")
_STEP_WORDS = ("epoch", "step", "iter", "loss", "batch", "ppl", "perplexity", "acc", "lr", "/s", "/it", "%|")
_TRAINED = form("trained")
_END = form("ended")
_UNFINISHED = form("unfinished")
WORK = form("work")
_WORK_DONE = form("work_done")
_ERROR = form("error")
_NO_ERROR = form("no_error")
_MILD_MARK = form("mild_mark")
_MILD_BEGIN = form("mild_begin")
_ORIGIN = form("origin")

# A bar of progress that has not ended, and the time since it began.
_BAR = re.compile(r"\b\d{1,2}%\|.*\[(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d\d)<")
_STATE = re.compile(r"\b\d{1,2}%\|[^|]*\| *(\d+/\d+) \[")  # how far it is
_TRAINS = form("trains")
_TIMEOUT = re.compile(r"Timeout\(ms\)=(\d+)|(?:timed out after|[Tt]imed out waiting|timeout after|ran for) (\d+) ?m")
TOLERANCE = 0.1  # a bar is as old as a timeout within this part of it

_CONTINUES = form("continues")
_TRIES = form("tries")
_LAST_TRY = re.compile(r"\bretrying \((\d+)/\1\)")
_RESULT = re.compile(r"(?:^|[^\d.\s])\s*\d+(?:\s+\d+\.\d+)+\s*$")  # a row of numbers, as osu_bcast prints


def is_step(line: str) -> bool:
    lower = line.lower()  # a search of words is twenty times as fast as that of the pattern
    if not any(word in lower for word in _STEP_WORDS) and not ("/" in line and " [" in line):
        return False
    return _STEP.search(line) is not None and _ERROR.search(line) is None


def is_slow_work(line: str) -> bool:
    return WORK.search(line) is not None and _WORK_DONE.search(line) is None


def timeout_of(text: str) -> float:
    """Return the timeout in a line that reports one, in seconds; 0 where it has none."""
    match = _TIMEOUT.search(text)
    return int(match[1] or match[2]) / 1000 if match else 0.0


def is_as_old_as(line: str, timeout: float) -> bool:
    """Whether a bar of progress began when the others began to wait: no step of the training ended between."""
    bar = _BAR.search(line)
    if bar is None or not timeout or _TRAINS.search(line):
        return False
    age = int(bar["hours"] or 0) * 3600 + int(bar["minutes"]) * 60 + int(bar["seconds"])
    return abs(age - timeout) <= timeout * TOLERANCE


def is_mild(line: str) -> bool:
    """Whether a line is of a level below an error: torch's `[W ...]`, logging's WARNING, Python's warnings."""
    head = line[:240]
    if _LAST_TRY.search(head):
        return False
    rest = _ORIGIN.sub("", head, count=1)
    return any((_MILD_MARK.search(head), _MILD_BEGIN.match(head), _MILD_BEGIN.match(rest), _TRIES.match(rest)))


def says_it_continues(line: str) -> bool:
    return _CONTINUES.search(line) is not None and _LAST_TRY.search(line) is None


def reports_error(line: str) -> bool:
    """Whether a line reports an error, and is neither a count, a metric nor a warning."""
    line = visible_line(line)
    return _ERROR.search(line) is not None and _NO_ERROR.search(line) is None and not is_mild(line)


# What a shape leaves out: digits, and what fills a bar or pads a column.
_FILLED = str.maketrans("", "", "0123456789 \t.,:|#=>+-_*\u2588\u2589\u258a\u258b\u258c\u258d\u258e\u258f")
_TIME_OF_DAY = re.compile(r"(?<!\d)(?:\d{1,4}[-/]\d\d?[-/]\d{1,4}|\d\d?:\d\d:\d\d)(?:[.,]\d+)?")
_NO_SHAPE = form("no_shape")


def shape_of(line: str) -> str | None:
    """Return a line without its numbers; None where it has none but a time, or that of a label before a ruled line."""
    shape = line.translate(_FILLED)
    if not shape and len(re.findall(r"\d+", line)) < 2 and not line.strip().isdecimal():
        return None
    return shape if shape != line and any(map(str.isdecimal, _TIME_OF_DAY.sub("", line))) else None


def shapes_of(lines: Iterable[str]) -> set[str]:
    """Return the shapes of progress: each recurs with other numbers, in any language, and reports no error."""
    seen: dict[str, set[str]] = {}
    firsts: dict[str, str] = {}
    for line in lines:
        for state in line.split("\r")[-2 * PROGRESS_LINES :]:
            shape = shape_of(state)
            numbers = seen.setdefault(shape, set()) if shape is not None else None
            if shape is not None and numbers is not None and len(numbers) < PROGRESS_LINES:
                numbers.add(_TIME_OF_DAY.sub("", state))
                firsts.setdefault(shape, state)
    often = (shape for shape, numbers in seen.items() if len(numbers) >= PROGRESS_LINES)
    return {each for each in often if _may_be_progress(firsts[each])}


def _may_be_progress(line: str) -> bool:
    return not (_NO_SHAPE.search(line) or _ERROR.search(line))


class Course:
    """Signs of progress in one log. Each line is searched once, however many failures are asked about."""

    def __init__(self, lines: Sequence[str], first: int) -> None:
        """`first`: the index from which failures are asked about. Lines above it are not searched."""
        self.lines = lines
        self._first = max(0, min(first, len(lines) - MOST_STEPS))
        self._ranks: dict[int, int | None] = {}  # of lines that were asked about, by their index
        self._progress: dict[int, bool] = {}  # the same: whether they show progress

    @cached_property
    def _steps(self) -> list[int]:
        return [index for index in range(self._first, len(self.lines)) if self._is_progress_at(index)]

    @cached_property
    def _shapes(self) -> set[str]:
        return shapes_of(self.lines[self._first :])

    def _is_progress_at(self, index: int) -> bool:
        if index not in self._progress:
            self._progress[index] = self._is_progress(self.lines[index])
        return self._progress[index]

    def _is_progress(self, line: str) -> bool:
        return is_step(line) or shape_of(line.rpartition("\r")[2]) in self._shapes

    @cached_property
    def _trained(self) -> int:
        return self._last((_TRAINED,))

    @cached_property
    def _ended(self) -> int:
        return max(self._trained, self._last((_END, _RESULT)))

    def _last(self, patterns: Sequence[re.Pattern[str]]) -> int:
        last = len(self.lines) - 1
        return next((index for index in range(last, self._first - 1, -1) if _is_end(self.lines[index], patterns)), -1)

    def _rank(self, index: int) -> int | None:
        if index not in self._ranks:
            self._ranks[index] = split_prefix(self.lines[index]).speaker.rank
        return self._ranks[index]

    def _count(self, places: Sequence[int], rank: int | None) -> int:
        """Count lines of progress up to the number that decides. Those of other ranks do not count."""
        count = 0
        for index in places[:MOST_STEPS]:
            if rank is None or self._rank(index) in (None, rank):
                count += 1 + min(self.lines[index].count("\r"), PROGRESS_LINES)
                if count >= PROGRESS_LINES:
                    break
        return count

    def steps_after(self, match: LogMatch) -> int:
        start = bisect_left(self._steps, match.end)
        return self._count(self._steps[start : start + MOST_STEPS], match.speaker.rank)

    def exceeds_buffer(self, match: LogMatch) -> bool:
        """Whether more stands below a match than a process writes at its end: Python's buffer has 8 KiB."""
        steps = self._steps[bisect_left(self._steps, match.end) :]
        return sum(len(self.lines[index]) for index in steps[: BUFFER // 4]) > BUFFER

    def steps_before(self, match: LogMatch) -> int:
        above = range(max(0, match.number - 1 - MOST_STEPS), match.number - 1)
        return self._count([index for index in above if self._is_progress_at(index)], match.speaker.rank)

    def goes_on(self, match: LogMatch) -> bool:
        """Whether the rank of a match goes on below it: with steps, or lines of a shape that recurs with other numbers.

        Of an exception that ended the program, only lines of a shape that stands above it, too, count.
        """
        above = set(self.lines[max(0, match.number - 1 - MOST_STEPS) : match.number - 1])
        rank = match.speaker.rank
        places = range(match.end, min(len(self.lines), match.end + MOST_STEPS))
        below = [self.lines[index] for index in places if rank is None or self._rank(index) in (None, rank)]
        # A program that ends with an exception shows its bar once more: one state alone is no progress.
        one_state = len({state for line in below for state in _STATE.findall(line)}) == 1
        moving = [line for line in below if not (one_state and _STATE.search(line))]
        often = Counter(map(shape_of, above if match.ended_program else {*above, *below}))
        shapes = {shape for shape, number in often.items() if number > 1 or match.ended_program} - {None}

        def recurs(line: str) -> bool:
            """Whether a line is new, and of a shape that others have."""
            is_new = line not in above and not line[:1].isspace()
            return is_new and shape_of(line) in shapes and not _NO_SHAPE.search(line)

        if match.ended_program:
            count = sum(map(recurs, moving))
        else:
            count = sum((recurs(line) and not _ERROR.search(line)) or is_step(line) for line in moving)
        return count >= (1 if not match.traced and (match.kind == "cause" or match.doubtful) else AS_BEFORE)

    def is_completed(self, match: LogMatch) -> bool:
        """Whether the log reports below a match that training ended. For a warning, any good end counts."""
        return (self._ended if match.kind == "hint" or match.doubtful else self._trained) >= match.end

    def continues(self, match: LogMatch) -> bool:
        return self.is_completed(match) or self.steps_after(match) >= 3

    def went_on(self, number: int) -> bool:
        """Whether progress or a good end follows the line of a number."""
        return self._ended >= number or len(self._steps) - bisect_left(self._steps, number) >= 3

    def has_step(self) -> bool:
        return bool(self._steps) or any(map(self._is_progress, self.lines[: self._first]))

    def is_healthy(self) -> bool:
        return self._ended >= max(0, len(self.lines) - 30) or len(self._steps) >= 3


_END_WORDS = (
    "finish complet done succe ended passed over exit destroy bandwidth train_runtime trainer.fit running".split()
)


def _is_end(line: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    if line[:1].isdigit() and _RESULT in patterns and _RESULT.match(line):
        return True
    lower = line.lower()
    if not any(word in lower for word in _END_WORDS):
        return False
    text = split_prefix(line).text
    return any(each.search(text) for each in patterns) and not _UNFINISHED.search(text)
