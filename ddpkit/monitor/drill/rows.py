"""The rows of the drill, and how each is judged: pure, from what its launches showed."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ddpkit.monitor.drill.pace import Pace, Progress, comparable, differs, steps, written_by_all
from ddpkit.monitor.drill.trial import TOO_SHORT, Trial
from ddpkit.monitor.slow import Slowness, describe

SLACK = 1.0  # seconds by which a line may come later than its step
AT_ONCE = 3  # steps after a signal in which a save has to begin
_TOLD = re.compile(r"(?i)error|fail|no space|too large|cannot|exception")


class Row(Enum):
    """A fault of the drill. The text says what is asked."""

    CLEAN = "clean"
    EXIT = "exit"
    USR1 = "usr1"
    TERM = "term"
    KILL = "kill"
    STOP = "stop"
    SAVE_KILL = "save-kill"
    DISK = "disk"
    RESUME = "resume"
    NODE = "node"
    SLOW = "slow"


ASKED = {
    Row.CLEAN: "run it without a fault: it ends, and each checkpoint has one writer",
    Row.EXIT: "start it where the checkpoint directory cannot be made: it fails, and not with exit code 0",
    Row.USR1: "send USR1 to all ranks: they save at once, and a resume loses no step",
    Row.TERM: "send TERM to all ranks: they save, and end with their workers within the grace period",
    Row.KILL: "kill a rank: the run ends with that rank named, and it resumes",
    Row.STOP: "stop a rank: the hang watch names it",
    Row.SAVE_KILL: "kill rank 0 while it saves: the run still resumes",
    Row.DISK: "let a save fail as on a full disk: the run fails, and resumes from the checkpoint before",
    Row.RESUME: "kill and resume twice: no step is skipped or repeated, and results go on",
    Row.NODE: "lose a node: a spare one takes over",
    Row.SLOW: "slow a rank down: it is named",
}


class State(Enum):
    """How a row ended."""

    PASS = "pass"
    FAIL = "FAIL"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the launches of a row say."""

    state: State
    evidence: str
    lost: int | None = None  # steps; None: not known, or not asked


@dataclass(frozen=True, kw_only=True)
class Result(Judged):
    """The result of a row."""

    row: Row
    seconds: float = 0.0
    runs: tuple[str, ...] = ()
    folder: str = ""  # its checkpoints, where they stay


def passed(evidence: str, lost: int | None = None) -> Judged:
    """A row that passed."""
    return Judged(state=State.PASS, evidence=evidence, lost=lost)


def failed(evidence: str, lost: int | None = None) -> Judged:
    """A row that failed."""
    return Judged(state=State.FAIL, evidence=evidence, lost=lost)


def not_tried(reason: str) -> Judged:
    """A row whose fault could not be injected, or not judged."""
    return Judged(state=State.NOT_TRIED, evidence=reason)


# ---- what a resume shows


@dataclass(frozen=True)
class Resumed:
    """Where a resume went on. Indexes are places in the order of the clean run."""

    problem: str = ""  # it did not go on
    lost: int | None = None
    gap: str = ""  # what it skipped or did otherwise


def resumed(pace: Pace, before: Trial, after: Trial, at: Progress | None) -> Resumed:
    """Compare a resume with the launch before it. `at`: the last progress before the fault; None: there was none."""
    if after.code is None:
        return Resumed("the resume did not end")
    if after.code != 0:
        return Resumed(f"the resume failed: {_why(after)}")
    if not pace.order:
        return Resumed()
    order = [step.progress for step in steps(after.lines, pace.key)]
    begun = _begun(pace, before, order[0] if order else None, at)
    if begun.problem or begun.gap:
        return begun
    expected = pace.order[pace.index(order[0]) :] if order else ()
    if order != list(expected):
        return Resumed(
            lost=begun.lost,
            gap=f"after the resume the steps are not those of a run without interruption, from "
            f"{pace.words(_first_difference(order, expected))} on",
        )
    return Resumed(lost=begun.lost, gap=differs(pace, before.lines, after.lines) or "")


def _begun(pace: Pace, before: Trial, start: Progress | None, at: Progress | None) -> Resumed:
    """Judge where a resume began. `start`: its first progress; None: nothing was left to do. `at`: as in `resumed`."""
    last = before.last(pace.key)
    # Places in the clean run, -1 before its first step. None: the clean run has no such progress.
    reached = -1 if last is None else pace.index(last)
    cut = -1 if at is None else pace.index(at)
    first = len(pace.order) if start is None else pace.index(start)
    if first is None or reached is None or cut is None:
        shown = "nothing" if start is None else pace.words(start)
        return Resumed(gap=f"after the resume came {shown}, which a run without interruption has not")
    if first == 0 and cut >= 0 and before.saves:
        return Resumed("the resume began again at the first step: no checkpoint was read", cut + 1)
    if first > reached + 1:
        after = f" after {pace.words(pace.order[reached])}" if reached >= 0 else ""
        return Resumed(gap=f"the resume skipped {first - reached - 1} steps{after}")
    return Resumed(lost=max(0, cut + 1 - first))


def _first_difference(one: Sequence[Progress], other: Sequence[Progress]) -> Progress:
    for here, there in zip(one, other, strict=False):
        if here != there:
            return here
    return (one if len(one) > len(other) else other)[min(len(one), len(other))]


def _why(trial: Trial) -> str:
    return trial.verdict or trial.refusal or f"exit code {trial.code}"


# ---- rows


def judge_clean(trial: Trial, pace: Pace, ranks: int, told: str, *, one_node: bool) -> Judged:
    """Judge the run without a fault. `told`: the option or variable that names the checkpoint directory."""
    if trial.code is None:
        return failed(f"it did not end: {_last_line(trial)}")
    if trial.code != 0:
        return failed(_why(trial))
    if not trial.saves:
        seen = "" if one_node else " that is seen here"
        why = f"the script does not read {told}, or did not save"
        return failed(f"no file came into the checkpoint directory{seen}: {why}")
    shared = sorted(name for name, times in trial.writes.items() if one_node and written_by_all(times, ranks))
    if shared:
        return failed(f"each of {ranks} ranks writes {_base(shared[0])} at each save: let one rank save")
    if not pace.order:
        return passed("no number grows in its output: lost steps are not known")
    first, last = pace.words(pace.order[0]), pace.words(pace.order[-1])
    return passed(f"{first} to {last}, {pace.step:.2g} s each; the first after {pace.first:.1f} s")


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _last_line(trial: Trial) -> str:
    return f"the last line was {trial.lines[-1].text[:80]!r}" if trial.lines else "it printed nothing"


def judge_exit(trial: Trial) -> Judged:
    """Judge a run that cannot save."""
    if trial.code is None:
        return failed(f"it did not end: {_last_line(trial)}")
    if trial.code == 0:
        return failed("the checkpoint directory cannot be made, and the run ended with exit code 0")
    return passed(f"it ended with exit code {trial.code}")


def judge_stop(trial: Trial, rank: int) -> Judged:
    """Judge a run with a stopped rank."""
    if trial.code is None:
        return failed("the hang watch did not end it")
    if trial.code == 0:
        return not_tried("the script ended before the hang watch looked: run it for longer")
    text = " ".join([trial.verdict, *trial.notes])
    if re.search(rf"\brank {rank}\b", text):
        return passed(f"after {trial.ended - trial.fault_at:.0f} s: {trial.verdict}")
    return failed(f"rank {rank} was stopped, and is not named: {trial.verdict}")


def judge_slow(found: Slowness, rank: int) -> Judged:
    """Judge the look at a run in which a rank was slowed down."""
    if rank in found.blind:
        return not_tried(f"rank {rank} cannot be watched: {found.blind[rank]}")
    if found.slow is not None and rank in found.slow.ranks:
        return passed(describe(found)[0])
    named = describe(found)[0] if found.slow is not None else "no rank is named: do the ranks wait for each other?"
    return failed(f"rank {rank} was slowed down; {named}")


def judge_node(pace: Pace, trial: Trial) -> Judged:
    """Judge a run that lost its last node, and had a spare one."""
    attempts = trial.record.get("attempts") or [{"hosts": [""]}]
    host = attempts[0]["hosts"][-1]
    if trial.code is None:
        return failed(f"{host} was lost, and the run did not end")
    if len(attempts) < 2 and trial.code == 0:
        return not_tried(TOO_SHORT)
    if len(attempts) < 2:
        return failed(f"{host} was lost, and no spare took over: {_why(trial)}")
    if host in attempts[-1]["hosts"]:
        return failed(f"{host} was lost, and the next attempt had it again")
    before, after = trial.split(float(attempts[1]["started"]))
    back = resumed(pace, before, after, before.last(pace.key))
    if back.problem or back.gap:
        return failed(back.problem or back.gap, back.lost)
    new = next((each for each in attempts[-1]["hosts"] if each not in attempts[0]["hosts"]), "another node")
    return passed(f"{host} was lost, {new} took over; it resumed", back.lost)


def judge_kill(pace: Pace, trial: Trial, rank: int, after: Trial) -> Judged:
    """Judge a run with a killed rank, and its resume."""
    if trial.code is None:
        return failed(f"rank {rank} was killed, and the run did not end")
    if trial.code == 0:
        return not_tried(TOO_SHORT)
    if trial.failed_rank != rank:
        return failed(f"rank {rank} was killed, and is not named: {_why(trial)}")
    back = resumed(pace, trial, after, trial.last(pace.key))
    if back.problem or back.gap:
        return failed(back.problem or back.gap, back.lost)
    return passed(f"{trial.verdict}; it resumed", back.lost)


def judge_signal(pace: Pace, trial: Trial, after: Trial | None, name: str, limit: float) -> Judged:
    """Judge a run that got USR1 or TERM, and its resume. `limit`: seconds that it has after the signal."""
    took = trial.ended - trial.fault_at
    died = (trial.record.get("failure") or {}).get("signal")
    if name == "USR1" and died == signal.SIGUSR1:
        return failed("no handler: USR1 ended the ranks before they saved")
    if after is None:
        return failed("the resume was not reached")
    at = trial.last(pace.key, trial.fault_at)
    back = resumed(pace, trial, after, at)
    if name == "TERM" and (trial.code is None or took >= limit):
        return failed(f"it did not end within {limit:.0f} s after TERM: KILL ended it", back.lost)
    if back.problem:
        return failed(back.problem, back.lost)
    if back.lost:
        return failed(f"not saved at {name}: a resume repeats {back.lost} steps", back.lost)
    if back.gap:
        return failed(back.gap, back.lost)
    allowed = AT_ONCE + math.ceil(SLACK / pace.step) if pace.step else 0
    went_on = _steps_after(pace, trial, trial.ended)
    if name == "TERM" and went_on > allowed:
        return failed(f"it went on for {went_on} steps after TERM: a longer run would not end within the grace period")
    saved_at = next((save.at for save in trial.saves if save.at > trial.fault_at), trial.ended)
    unsaved = _steps_after(pace, trial, saved_at)
    if unsaved > allowed:
        return failed(f"it saved {unsaved} steps after {name}, and not at once: a longer epoch would be lost", 0)
    return passed(f"saved {took:.1f} s after {name}; no step was lost", 0)


def _steps_after(pace: Pace, trial: Trial, until: float) -> int:
    """Return how many steps followed a signal, up to a time."""
    return sum(trial.fault_at < step.at <= until for step in steps(trial.lines, pace.key))


def judge_save_kill(pace: Pace, trial: Trial, after: Trial, size: int) -> Judged:
    """Judge a run that was killed while saving, and its resume. `size`: bytes of the file in the clean run, or 0."""
    name, _, bytes_ = trial.seen.rpartition(" ")
    back = resumed(pace, trial, after, trial.last(pace.key))
    part = f"killed when {_base(name)} had {bytes_}{f' of {size}' if size else ''} bytes"
    if back.problem or back.gap:
        return failed(f"{part}; {back.problem or back.gap}", back.lost)
    return passed(f"{part}; it resumed", back.lost)


def judge_disk(pace: Pace, trial: Trial, after: Trial) -> Judged:
    """Judge a run whose save failed, and its resume."""
    if trial.code is None:
        return failed(f"a save failed, and the run did not end: {_last_line(trial)}")
    # A line can come later than its step: of a run that ended soon after the fault it is not known whether it saved.
    if trial.code == 0 and pace.order and _steps_after(pace, trial, trial.ended) <= math.ceil(SLACK / pace.step):
        return not_tried(TOO_SHORT)
    if trial.code == 0:
        return failed("a save failed, and the run ended with exit code 0")
    # Other ranks tell of the connection that they lost.
    own = [line.text for line in trial.lines if trial.failed_rank in (None, line.rank)]
    told = next((text for text in reversed(own) if _TOLD.search(text)), "")
    if not told:
        return failed(f"a save failed, and no line says so: {_why(trial)}")
    back = resumed(pace, trial, after, trial.last(pace.key))
    if back.problem or back.gap:
        return failed(f"the checkpoint before it: {back.problem or back.gap}", back.lost)
    return passed(f"{told[:80].strip()}; it resumed from the checkpoint before", back.lost)


def judge_resume(pace: Pace, first: Trial, second: Trial, third: Trial) -> Judged:
    """Judge a run that was killed twice, and resumed twice."""
    if not pace.order:
        return not_tried("no number grows in its output, so steps cannot be compared")
    if first.code == 0:
        return not_tried(TOO_SHORT)
    if not first.saves:
        return not_tried("no checkpoint was saved before the end")
    again = steps(second.lines, pace.key)
    if not again:
        return failed(f"the first resume did not reach a step: {_why(second)}")
    begun = _begun(pace, first, again[0].progress, first.last(pace.key))
    problem = begun.problem or begun.gap or differs(pace, first.lines, second.lines)
    back = resumed(pace, second, third, second.last(pace.key))
    different = differs(pace, first.lines, third.lines)
    if problem or back.problem or back.gap or different:
        return failed(problem or back.problem or back.gap or different or "", back.lost)
    numbers = (
        "its numbers are those of a run without a stop"
        if comparable(pace, first.lines)
        else ("two clean runs differ in their numbers, so only steps were compared")
    )
    return passed(f"no step was skipped; {numbers}", back.lost)
