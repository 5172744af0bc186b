"""Patterns of progress, of a completed run, and of slow work of one rank. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from ddpkit.diagnosis.answer import LogMatch
from ddpkit.diagnosis.line_prefixes import split_prefix, visible_line

MOST_STEPS = 2000  # lines of progress that are looked at for one failure
BUFFER = 1 << 16  # characters
AS_BEFORE = 2  # lines of a shape that goes on
PROGRESS_LINES = 20  # so many lines of progress after a failure show that the run went on
RANKS = re.compile(r"\[[Rr]ank ?(\d+)\]")
# Lines that a training script prints while all is well.
_STEP = re.compile(
    r"(?i)(?<![a-z])(?:epochs?|steps?|iters?|iterations?|loss|train_loss|batch|ppl|perplexity|accuracy|acc|lr)\b"
    r"['\"]?[\s:=\[(#]*\d"
    r"|(?<!\d)\d+(?:\.\d+)? ?(?:it|samples|tokens|tok|examples|img|images|steps|batches)/s"
    r"|s/it\b|\b\d{1,3}%\||\b\d+ ?/ ?\d+ \["
)
_STEP_WORDS = ("epoch", "step", "iter", "loss", "batch", "ppl", "perplexity", "acc", "lr", "/s", "/it", "%|")
# Training itself ended well. A job script prints `Job finished` after a failure, too.
_TRAINED = re.compile(
    r"(?i)\b(?:(?:re|pre-?)?training|train|fit(?:ting)?|fine-?tuning|all (?:epochs|steps|iterations))"
    r"(?: (?:is|has|was|are|have|been|process|loop|job|run|successfully))* "
    r"(?:finished|completed?|done|ended successfully|succeeded)\b(?! (?:with|in) (?:error|exit code [1-9]))"
    r"|\b(?:finished|done|completed)(?: with)? (?:the )?(?:training|fine-?tuning|pre-?training|all \w+)\b"
    r"|`Trainer\.fit` stopped: `max_|\btrain_runtime\b|Training completed\. Do not forget"
    r"|\bEnd time of running main\b"
    r"|\bsuccessfully (?:finished|completed|trained)\b|\b(?:finished|completed|exited) successfully\b"
    r"|^=+ (?!.*\b(?:failed|error)).*\d+ passed.* in [\d.]+s"
    r"|^\W*(?:done|finished) ?! ?$"
)
_END = re.compile(
    r"(?i)\b(?:run|job|script|benchmark|experiment|pipeline|evaluation|everything|all (?:ranks|workers|processes|tests?))"
    r"(?: (?:is|has|was|are|have|been|process|successfully))* (?:finished|completed?|done|succeeded|passed|over)\b"
    r"(?! (?:with|in) (?:error|exit code [1-9]))"
    r"|exits? successfully|exit(?:ed|s)?(?: with)?(?: (?:code|status))?[ :=]+0\b"
    r"|Destroy COMPLETE|Rendezvous complete for workers|process group has NOT been destroyed before"
    r"|destroy_process_group\(\) was not called|^# Avg bus bandwidth"
    r"|^\W*(?:done|finished|success|succeeded|completed|all done|exit(?:ing)?)\W*$"
)
_UNFINISHED = re.compile(
    r"(?i)\b(?:not|never|until|before|when|if|once|after|failed|unless)\b.*(?:finish|complet|done|ended)"
)
_W_LEVEL = re.compile(r"\[W\d{3,4} ")  # of torch's C++: the month and the day
# A rank that does this for long keeps the others waiting in a collective.
WORK = re.compile(
    r"(?i)\b(?:saving|save[sd]?|writing|dumping|gathering|consolidating|merging|uploading)\b.{0,60}"
    r"(?:checkpoint|ckpt|model|state|weights|optimizer|shards?|snapshot|\.pth?\b|\.bin\b|safetensors)"
    r"|\b(?:tokeniz|tokenis|preprocess|pre-process|packing|grouping texts|filtering|shuffling|indexing|caching|"
    r"extracting|unpacking|decompress|downloading|preparing|converting|generating|building|constructing|computing)"
    r"\w*\b.{0,60}(?:data|split|texts?|tokens?|index|indices|mappings?|examples|samples|features|cache|archive|files?|vocab|"
    r"embeddings?|graph|shards?|metrics?|kernel|extension|captions|latents)"
    r"|^\W*(?:Map|Filter|Tokenizing|Running tokenizer|Grouping|Generating \w+ split|Packing)[^:]*: +\d+%"
    r"|\b(?:evaluat|validat|inferenc|generat|test)(?:ing|ion|e)?\b.{0,30}(?:\d+%|\d+ ?/ ?\d+|on rank 0|started|begin|start)"
    r"|\b(?:evaluating|validating|running (?:evaluation|validation|inference))\b|\*+ Running (?:Evaluation|Prediction)"
    r"|\b(?:rank 0|main process|only rank 0)\b.{0,60}(?:saving|evaluat|prepar|download|load|tokeniz|build|process(?:es|ing)\b)"
    r"|\bloading\b.{0,40}(?:checkpoint|model|weights|shards|dataset|data)\b"
    r"|\bcompiling\b.{0,40}(?:dataset index|kernel|fused|graph|model)"
)
_WORK_DONE = re.compile(r"(?i)\b(?:saved|done|finished|completed?|took|successfully|loaded)\b|\b100%\||\b(\d+)/\1 \[")
_ERROR = re.compile(
    r"(?i)\b(?:errors?|fatal|exception|failed|critical|abort(?:ed)?|panic|killed|evicted|timed out)\b|exit code [1-9]"
)
# `0 errors`, `error rate 0.03`, `this is not an error`, a level of a logger below ERROR.
_NO_ERROR = re.compile(
    r"(?i)\b(?:no|0|zero|without(?: an?| any)?|not an?|never|ignor\w+|harmless|non-fatal) (?:\w+ )?(?:errors?|exceptions?|failures?|fatal)\b"
    r"|\b(?:has|have|had|is|are|was|were|did) not (?:been )?(?:timed out|failed|killed|aborted|evicted)\b"
    r"|\berrors?\b['\"]?[ :=]+(?:rate|0\b|none\b|null\b|\d*\.\d)|\b(?:failed|errors?)[ :=]+0\b|error[_ -]?(?:bars?|rate|handling|correction|log|file)\b"
    r"|\bfailed samples 0|error_file|submit your error trace|can (?:be )?(?:safely )?ignore|this is expected|retry|elastic/errors\.html|last error:? ?(?:0|none)"
)
_MILD = re.compile(
    r"^(?:\[?[WID](?:\d{3,4} \d\d:|[ ]\S+:\d+\]| \d+ \d+\])|\W*(?:WARNING|WARN|INFO|DEBUG)\b|.{0,80}?\b\w*Warning: |\S+:\d+:\d+ \[\d+\] NCCL INFO)"
)

# A bar of progress that has not ended, and the time since it began.
_BAR = re.compile(r"\b\d{1,2}%\|.*\[(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d\d)<")
_STATE = re.compile(r"\b\d{1,2}%\|[^|]*\| *(\d+/\d+) \[")  # how far it is
_TRAINS = re.compile(r"(?i)\b(?:epochs?|steps?|iter\w*|loss|lr|train\w*|ppl|acc\w*)\b")
_TIMEOUT = re.compile(r"Timeout\(ms\)=(\d+)|(?:timed out after|[Tt]imed out waiting|timeout after|ran for) (\d+) ?m")
TOLERANCE = 0.1  # a bar is as old as a timeout within this part of it

# The program continues in another way; but the last of N tries has failed.
_CONTINUES = re.compile(
    r"(?i)\b(?:going to \S+ instead|falling back (?:to|on)|retrying|continuing (?:without|anyway|with)"
    r"|ignoring this|starting (?:from scratch|fresh))\b|^\W*skip(?:ping|ped)\b"
)
# huggingface_hub prints this for each try, and raises an exception after the last.
_TRIES = re.compile(r"^(?:'.*'|HTTP Error \d+) thrown while requesting [A-Z]+ https?://")
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
    if "NCCL INFO" in head or "[W socket.cpp" in head or "[W ProcessGroup" in head or _W_LEVEL.search(head[:60]):
        return True
    if _MILD.match(head):
        return True
    rest = _without_levels(head)
    if _TRIES.match(rest):
        return True
    return (
        _MILD.match(rest) is not None or re.match(r"\[?(?:WARNING|WARN|INFO|DEBUG)\b(?!.*NCCL WARN)", rest) is not None
    )


def says_it_continues(line: str) -> bool:
    return _CONTINUES.search(line) is not None and _LAST_TRY.search(line) is None


def _without_levels(head: str) -> str:
    """Return the line from its level on, after rank, host and time."""
    return re.sub(
        r"^(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?(?: - \S+)?[ ,-]*|\[?(?:rank ?\d+|default\d+|\d+)\]?:? ?)+",
        "",
        head,
    )


def reports_error(line: str) -> bool:
    """Whether a line reports an error, and is neither a count, a metric nor a warning."""
    line = visible_line(line)
    return _ERROR.search(line) is not None and _NO_ERROR.search(line) is None and not is_mild(line)


# What a shape leaves out: digits, and what fills a bar or pads a column.
_FILLED = str.maketrans("", "", "0123456789 \t.,:|#=>+-_*\u2588\u2589\u258a\u258b\u258c\u258d\u258e\u258f")
_TIME_OF_DAY = re.compile(r"(?<!\d)(?:\d{1,4}[-/]\d\d?[-/]\d{1,4}|\d\d?:\d\d:\d\d)(?:[.,]\d+)?")
# Lines that also recur with other numbers while nothing moves, or at an end.
_NO_SHAPE = re.compile(
    r"(?i)\b(?:wait|time[d ]?out|retr(?:y|ies)|kill|exit|signal|terminat|abort|heartbeat|idle|sleep|alive|clos(?:e|ing)|pid|"
    r"thread|attempt|still|stuck|hang|warn|nccl info\b)|\[W|\[E\d|\bframe #|File \"|^\s*rank\s*:|^Sending process"
)


def shape_of(line: str) -> str | None:
    """Return a line without its numbers; None where it has none but a time."""
    shape = line.translate(_FILLED)
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
        self._ranks: dict[int, int | None] = {}
        self._progress: dict[int, bool] = {}

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
            self._ranks[index] = split_prefix(visible_line(self.lines[index])).speaker.rank
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
        """Whether lines below a match go on: steps, or lines of a shape that recurs with other numbers.

        Of an exception that left the program's first frame, the shape has to stand above it, too.
        """
        above = self.lines[max(0, match.number - 1 - MOST_STEPS) : match.number - 1]
        below = range(match.end, min(len(self.lines), match.end + MOST_STEPS))
        own = [
            index for index in below if match.speaker.rank is None or self._rank(index) in (None, match.speaker.rank)
        ]
        known = Counter(shape_of(line) for line in {*above, *(() if match.top else (self.lines[each] for each in own))})
        least = 1 if match.top else 2
        seen, before, count = set(above), {shape_of(line) for line in above}, 0
        # A program that ends with an exception shows its bar once more: one state alone is no progress.
        stands = len({state for index in own for state in _STATE.findall(self.lines[index])}) == 1
        for line in (self.lines[index] for index in own):
            if stands and _STATE.search(line):
                continue
            shape = shape_of(line)
            recurs = (
                shape is not None
                and not line[:1].isspace()
                and known[shape] >= least
                and line not in seen
                and (_may_be_progress(line) or (match.top and shape in before and not _NO_SHAPE.search(line)))
            )
            count += recurs or (not match.top and is_step(line))
        return count >= (AS_BEFORE if match.traced or not (match.kind == "cause" or match.doubtful) else 1)

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
    text = split_prefix(visible_line(line)).text
    return any(each.search(text) for each in patterns) and not _UNFINISHED.search(text)
