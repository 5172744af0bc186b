"""Says in words how a run ended: host, global rank, exit code or signal with what it usually means, last lines, fix."""

from __future__ import annotations

import signal

from ddpkit.errors import AGAIN
from ddpkit.execute import Failure, Outcome

# What a death by this signal nearly always means for a training process, and the next command.
_SIGNALS: dict[int, tuple[str, str]] = {
    signal.SIGKILL: (
        "usually the kernel's out-of-memory killer, or an administrator",
        "on {host}: dmesg -T | grep -i 'killed process'",
    ),
    signal.SIGBUS: (
        "usually /dev/shm is full: DataLoader workers pass batches through it",
        "on {host}: df -h /dev/shm",
    ),
    signal.SIGSEGV: (
        "a crash in compiled code; the last lines show where Python was",
        "less {log}",
    ),
    signal.SIGABRT: (
        "a compiled library gave up: an assertion, or NCCL's watchdog after a collective timed out",
        "less {log}",
    ),
    signal.SIGILL: ("compiled for another processor than the one on this host", "on {host}: lscpu"),
    signal.SIGTERM: ("somebody asked it to end: a scheduler, a time limit, or a person", "less {log}"),
}

# What C++ prints when a thread of gloo still runs while the interpreter is taken down (torch 2.13, seen).
TEARDOWN = "terminate called without an active exception"
_CODES = {
    2: "usually the script refused its arguments",
    AGAIN: "by convention: it saved a checkpoint and asks to be started again",
    126: "the program was found, but may not be executed",
    127: "the program was not found",
}


def how(failure: Failure) -> str:
    """`exit code 7`, or `killed by signal 9 (SIGKILL)`, with the usual meaning."""
    if failure.reason:
        return failure.reason
    if failure.signal is not None:
        number = failure.signal
        if number == signal.SIGABRT and any(TEARDOWN in line for line in failure.last_lines):
            return "killed by signal 6 (SIGABRT) in torch's own teardown, when the script had ended: TROUBLESHOOTING.md"
        name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""  # real-time ones have none
        return f"killed by signal {number}{name}" + (f": {_SIGNALS[number][0]}" if number in _SIGNALS else "")
    meaning_of_code = _CODES.get(failure.code or 0)
    return f"exit code {failure.code}" + (f": {meaning_of_code}" if meaning_of_code else "")


def verdict(failure: Failure) -> str:
    """One sentence: who failed first, where, how, and when."""
    if failure.what.startswith("job ") and failure.reason:
        return f"{failure.what} {failure.reason}"
    who = f"rank {failure.rank}" if failure.rank is not None else failure.what
    verb = "ended" if failure.code == AGAIN else "failed"
    return f"{who} on {failure.host} {verb} first, after {failure.seconds:.1f} s: {how(failure)}"


def hint(failure: Failure) -> str:
    """The next command to type."""
    text = "less {log}"
    if failure.signal is not None and failure.signal in _SIGNALS:
        text = _SIGNALS[failure.signal][1]
    return text.format(host=failure.host, log=failure.log)


def stopped(outcome: Outcome) -> str:
    """The last word on a run that was ended from outside: by what, when, and how its ranks took it."""
    assert outcome.stopped_by is not None
    text = f"ended by {signal.Signals(outcome.stopped_by).name} after {outcome.seconds:.1f} s"
    ends = ", ".join(f"{number} x {end}" for end, number in sorted(outcome.ends.items()))
    return f"{text}; its ranks: {ends}" if ends else text


def report(outcome: Outcome) -> list[str]:
    """What is printed at the end of a run that did not end well; empty for one that did."""
    failure = outcome.failure
    if failure is None:
        return []
    lines = []
    if failure.last_lines:
        who = f"rank {failure.rank}" if failure.rank is not None else failure.what
        lines.append(f"last lines of {who} on {failure.host} ({failure.log}):")
        lines += [f"    {line}" for line in failure.last_lines]
    lines.append(verdict(failure))
    return [*lines, f"hint: {hint(failure)}"] if failure.log and not failure.reason else lines
