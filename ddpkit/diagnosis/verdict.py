"""Verdict of a run in sentences: host, global rank, exit code or signal, cause if known, last lines, fix.

The catalogue is loaded when a run has failed, and not before.
"""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit.diagnosis.outcome import CODES, SUPERVISOR, Diagnosis, Failure, Outcome
from ddpkit.errors import AGAIN, OWN_OPTIONS, USE_VENV, LaunchError, install_for
from ddpkit.files import read_tail
from ddpkit.text import LONGEST, one_line

if TYPE_CHECKING:
    from ddpkit.diagnosis.log_match import LogMatch
    from ddpkit.diagnosis.read import Limit

SECONDS = 3.0  # of the processor, for one failure
LOG_END_BYTES = 1 << 20  # bytes at the end of a log
QUOTED = 200  # characters of a line
# Written by a kernel, by SLURM's and Kubernetes' processes, and by any script that likes.
_KILL_CLAIM = re.compile(
    r"Detected \d+ oom.kill event|[Oo]ut of memory: Kill(?:ed)? process|oom-kill:constraint=|oom_reaper: reaped"
    r"|invoked oom-killer|OOM ?Killed|cgroup out-of-memory handler|: Out Of Memory\b|OUT_OF_ME"
)
_NO_KILL = "counted no out-of-memory kill"  # of `ddpkit/node/supervision/oom.py`
_RANK_LINE = re.compile(r"\[(\d+) [^\]]*\] (.*\S)")  # of all.log
# Printed by C++ when a gloo thread still runs during the interpreter's shutdown (seen with torch 2.13).
_TEARDOWN = "terminate called without an active exception"
_SAME_STEPS = (
    "give every rank the same number of batches: DistributedSampler, or drop_last=True. Of DistributedDataParallel: "
    "`with model.join():`"
)
# Nobody prints an exception and then dies of one of these: what stands in the log was dealt with before.
_SUDDEN = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def diagnose(
    failure: Failure,
    all_log: Path,
    ended: Callable[[], bool] | None = None,
    read_end: Callable[[Path, int], bytes] = read_tail,
) -> Failure:
    """Return a failure with its cause, and the action after it.

    The cause is looked for in the failed rank's own output, then in that of all ranks (`all_log`). `read_end` reads the
    end of a log, which need not be a file. `ended`: whether to stop looking, for example after a signal.

    `diagnosis` is None where the cause is not known. An exception of the script's own is a cause; a guess is none.
    """
    from ddpkit.diagnosis.action import decide_failure, decide_match
    from ddpkit.diagnosis.catalogue import BY_ID
    from ddpkit.diagnosis.catalogue.entry import filled_command
    from ddpkit.diagnosis.read import Limit

    # A supervisor that did not start leaves the lines of its container's runtime in the log, and srun its own.
    refused = failure.what in (SUPERVISOR, "srun") and failure.code == LaunchError.exit_code
    if (failure.reason and not refused) or failure.code == AGAIN:
        return replace(failure, action=decide_failure(failure))
    if failure.oom:
        limit = "the memory limit of its job" if failure.job_memory else "out of memory"
        cause = f"the kernel ended it: {limit} ({failure.oom})"
        action = decide_failure(failure)
        known = Diagnosis(cause=cause, fix=filled_command(BY_ID[action.id].fix, {}), id=action.id)
        return replace(failure, diagnosis=known, action=action)

    def end_of(path: Path) -> str:
        try:
            return read_end(path, LOG_END_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    match, diagnosis = _find_cause(failure, all_log, end_of, Limit(SECONDS, ended) if ended else Limit(SECONDS))
    if match is not None and match.entry.role:
        diagnosis = _name_awaited(failure, match.id) or diagnosis
    host = "" if diagnosis is not None and diagnosis.whose else failure.host
    action = decide_match(match, host) if match is not None else decide_failure(failure)
    # Before a rank has started, nobody but SLURM or a container's runtime has printed anything. Where srun itself
    # fails, a line with a rank in front is not srun's.
    of_srun = failure.what == "srun" and match is not None and match.speaker.rank is None
    of_kernel = "Xid" in failure.kernel and match is not None and match.entry.evidence == "kernel"
    proven = action.proven or refused or of_srun or of_kernel
    action = replace(action, proven=proven and action.action == "exclude")
    return replace(failure, diagnosis=diagnosis or _quote_other_rank(failure, all_log, end_of), action=action)


def _name_awaited(failure: Failure, entry_id: str) -> Diagnosis | None:
    """Return who the others waited for, where the launcher has seen it."""
    if failure.awaited:
        slow = "it is only slow, pass a longer timeout to init_process_group"
        command = "less" if failure.dump.endswith(".txt") else "ls"
        read = f"read where it is: {command} {shlex.quote(failure.dump)}"
        fix = f"{read}. If {slow}" if failure.dump else f"if {slow}"
        return Diagnosis(cause=failure.awaited, fix=fix, id=entry_id)
    if not failure.early:
        return None
    from ddpkit.diagnosis.collectives import name_ranks

    whose = "it had fewer batches, or left its loop early"
    if len(failure.early) > 1:
        whose = "they had fewer batches, or left their loops early"
    cause = f"{name_ranks(failure.early)} had ended before, with exit code 0: {whose}"
    return Diagnosis(cause=cause, fix=_SAME_STEPS, id=entry_id)


def load_catalogue() -> None:
    """Load what `diagnose` needs."""
    from ddpkit.diagnosis.catalogue import known_failures

    known_failures()


def _quote_other_rank(failure: Failure, all_log: Path, end_of: Callable[[Path], str]) -> Diagnosis | None:
    """Quote the last line of another rank for one that printed nothing: many scripts print on rank 0 alone."""
    if not _is_silent(failure):
        return None
    lines = [match for line in end_of(all_log).splitlines() if (match := _RANK_LINE.match(line))]
    if not lines:
        return None
    rank, text = lines[-1].groups()
    cause = f"the rank printed nothing. The last line of rank {rank}: {one_line(text, QUOTED)}"
    return Diagnosis(cause=cause, fix=f"less {shlex.quote(str(all_log.with_name(f'rank_{rank}.log')))}")


def _is_silent(failure: Failure) -> bool:
    """Whether a rank ended with an exit code, and without a line."""
    spoke = failure.last_lines or failure.log or failure.reason
    return failure.rank is not None and bool(failure.code) and not spoke


def _find_cause(
    failure: Failure, all_log: Path, end_of: Callable[[Path], str], limit: Limit
) -> tuple[LogMatch | None, Diagnosis | None]:
    """Return the match that decides on the action, and the diagnosis.

    A match without a diagnosis is a consequence of a cause that is not known; neither: nothing is known.
    """
    from ddpkit.diagnosis.decide import analyze_log

    own = Path(failure.log).name if failure.log else "its output"
    text = (end_of(Path(failure.log)) if failure.log else "") or "\n".join(failure.last_lines) or failure.reason
    first = analyze_log([(own, _without_claims(failure, text))], limit).first
    if first is not None and not first.known and failure.signal in _SUDDEN:
        first = None
    if first is not None and first.kind == "cause":
        return first, _diagnosis(first, first.bare_cause)
    other = analyze_log([(all_log.name, _without_claims(failure, end_of(all_log)))], limit).first
    if other is not None and other.kind == "cause" and failure.signal not in _SUDDEN:
        return other, _diagnosis(other, other.bare_cause, other.speaker.describe())
    # A signal says more than a collective that failed because of it; what says how it died says more than the number.
    if first is not None and first.kind == "death":
        return first, _diagnosis(first, first.cause)
    if first is not None and first.kind == "generic" and failure.signal in (None, signal.SIGABRT):
        return first, _diagnosis(first, first.cause)
    return (first if first is not None and first.kind == "consequence" else None), None


def _without_claims(failure: Failure, text: str) -> str:
    """Leave out lines about out-of-memory kills that the kernel and SLURM do not confirm: any script can print them."""
    known = failure.kernel
    if failure.oom or "oom_kill rose" in known or "OUT_OF_MEMORY" in known:
        return text
    of_a_rank = failure.rank is not None or failure.what == "torchrun"
    was_killed = failure.signal == signal.SIGKILL or failure.code == 128 + signal.SIGKILL
    if _NO_KILL not in known and (was_killed or not of_a_rank):
        return text
    return "".join(line for line in text.splitlines(keepends=True) if not _KILL_CLAIM.search(line))


def _diagnosis(match: LogMatch, cause: str, whose: str = "") -> Diagnosis:
    fix = match.fix
    if "an option of ddpkit" in match.entry.seen:
        own = next((word for word in match.text.split() if word in OWN_OPTIONS), "")
        fix = f"`{own}` is an option of ddpkit: put it before the script" if own else fix
    return Diagnosis(cause=cause, fix=fix, id=match.id if match.known else "", whose=whose)


def name_python(diagnosis: Diagnosis | None, python: str, is_sealed: Callable[[str], bool]) -> Diagnosis | None:
    """Name the Python that has no torch, if it is known. Others have what the user installed into them.

    `is_sealed`: whether pip refuses to install for a Python.
    """
    from ddpkit.diagnosis.catalogue import entry_of_seen

    torch = "cannot import torch."
    if not python or diagnosis is None or torch not in diagnosis.cause or diagnosis.id != entry_of_seen("no torch").id:
        return diagnosis
    sealed = is_sealed(python)
    return replace(
        diagnosis,
        cause=diagnosis.cause.replace("this Python", python, 1).replace(
            "torch.", "torch (--python chooses another).", 1
        ),
        fix=install_for(shlex.quote(python), "torch", sealed=sealed) + (USE_VENV if sealed else ""),
    )


def split_exit(failure: Failure) -> tuple[str, str]:
    """Return the exit of a failure, and its usual meaning; empty where it has none. A reason is one whole."""
    end, _, meaning = (failure.reason, "", "") if failure.reason else describe_exit(failure).partition(": ")
    return end, meaning


def describe_exit(failure: Failure) -> str:
    """Return `exit code 7`, or `killed by signal 9 (SIGKILL)`, with the usual meaning behind a colon."""
    if failure.reason:
        return failure.reason
    if failure.signal is not None:
        from ddpkit.diagnosis.catalogue import entry_of_seen, entry_of_signal
        from ddpkit.diagnosis.catalogue.entry import filled

        number = failure.signal
        if number == signal.SIGABRT and any(_TEARDOWN in line for line in failure.last_lines):
            where = "in torch's own teardown, after the script had ended"
            name = entry_of_seen("torch's teardown").id
            return f"killed by signal 6 (SIGABRT) {where} (ddpkit explain {name})"
        name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""  # real-time ones have none
        entry = entry_of_signal(number)
        return f"killed by signal {number}{name}" + (f": {filled(entry.cause, {})}" if entry else "")
    if failure.raised and failure.code is None:
        return f"uncaught exception: {failure.raised}"  # and a signal to all ranks cut its end short
    meaning_of_code = CODES.get(failure.code or 0)
    return f"exit code {failure.code}" + (f": {meaning_of_code}" if meaning_of_code else "")


def verdict(failure: Failure, diagnosis: Diagnosis | None = None) -> str:
    """Return one sentence: the rank that failed first, its host, exit, time, and cause if known."""
    headline, facts = describe(failure, diagnosis)
    return ": ".join([headline, *(text for label, text in facts if label in ("exit", "cause"))])


def describe(failure: Failure, diagnosis: Diagnosis | None = None) -> tuple[str, list[tuple[str, str]]]:
    """Return a headline (who failed, where, when), and the facts with their labels: exit, cause, log, hint, more."""
    if failure.what.startswith("job ") and failure.reason:
        return one_line(f"{failure.what} {failure.reason}"), []
    verb = "ended" if failure.code == AGAIN else "failed"
    when = f", after {failure.seconds:.1f} s" if failure.at else ""
    end, usual_cause = split_exit(failure)
    facts = [("exit", end)]
    if diagnosis:
        facts.append(("cause", f"{f'{diagnosis.whose}: ' if diagnosis.whose else ''}{diagnosis.cause}"))
    elif usual_cause:
        facts.append(("cause", usual_cause))
    has_hint = not failure.reason or (diagnosis is not None and diagnosis.fix)
    next_step = hint(failure, diagnosis) if has_hint else ""
    if failure.log and not (next_step and _as_path(failure.log) in next_step):
        facts.append(("log", failure.log))
    if _is_silent(failure) and not next_step:
        next_step = f"the rank printed nothing; search the script for an exit with code {failure.code}, or for input"
    facts += [("hint", next_step)] if next_step else []
    if diagnosis is not None and re.fullmatch(r"[a-z0-9-]+", diagnosis.id):
        facts.append(("more", f"ddpkit explain {diagnosis.id}"))
    shown = [(label, one_line(text)) for label, text in facts]
    return one_line(f"{_who(failure)} on {failure.host} {verb} first{when}"), shown


def _who(failure: Failure) -> str:
    return f"rank {failure.rank}" if failure.rank is not None else failure.what


def _look_at_host(failure: Failure) -> str:
    """Return the command on its host that shows more of an end by a signal than the last lines; empty without one."""
    if failure.signal is None:
        return ""
    from ddpkit.diagnosis.catalogue import entry_of_signal
    from ddpkit.diagnosis.catalogue.entry import filled_command

    entry = entry_of_signal(failure.signal)
    on_host = entry is not None and entry.probe.startswith("on {host}: ")
    return filled_command(entry.probe, {"host": failure.host}) if entry and on_host else ""


def hint(failure: Failure, diagnosis: Diagnosis | None = None) -> str:
    """Return the next command to type, or the next change to make."""
    if diagnosis and diagnosis.fix:
        return diagnosis.fix
    path = _as_path(failure.log)
    return _look_at_host(failure) or (f"less {path}" if path else "")


def _as_path(path: str) -> str:
    """Return a path as one word of a shell; empty for what is none that ddpkit made: a record can be another user's."""
    return shlex.quote(path) if path and path.isprintable() and len(path) <= LONGEST // 2 else ""


def describe_stop(outcome: Outcome) -> str:
    """Return the verdict of a run that was ended by a signal: the signal, the time, the ends of its ranks."""
    assert outcome.stopped_by is not None
    text = f"ended by {signal.Signals(outcome.stopped_by).name} after {outcome.seconds:.1f} s"
    ends = ", ".join(f"{number} x {end}" for end, number in sorted(outcome.ends.items()))
    return f"{text}; its ranks: {ends}" if ends else text


def describe_failure(failure: Failure, diagnosis: Diagnosis | None = None, *, with_lines: bool = True) -> list[str]:
    """Return the lines to print for a failed run, each fact on one. `with_lines`: the last lines come first."""
    lines = []
    if with_lines and failure.last_lines:
        lines.append(f"ddpkit: last lines of {_who(failure)} on {failure.host}:")
        lines += [f"    {line}" for line in failure.last_lines]
    lines.append(f"ddpkit: {verdict(failure, diagnosis)}")
    facts = [fact for fact in describe(failure, diagnosis)[1] if fact[0] in ("log", "hint", "more")]
    return [*lines, *(f"{label}: {text}" for label, text in facts)]
