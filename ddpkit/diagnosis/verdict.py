"""Says in words how a run ended: host, global rank, exit code or signal, the cause where it is known, last lines, fix.

What is known comes from the catalogue, which is loaded when a run has failed and not before.
"""

from __future__ import annotations

import signal
from pathlib import Path

from ddpkit.diagnosis.outcome import Diagnosis, Failure, Outcome
from ddpkit.errors import AGAIN
from ddpkit.files import read_tail

LOOKED_AT = 1 << 20  # bytes at the end of a log
# Nobody prints an exception and then dies of one of these: what stands in the log was dealt with before.
_SUDDEN = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def diagnose(failure: Failure, everything: Path) -> Diagnosis | None:
    """Look for the cause: in the output of what failed first, and where that only followed from something in all's.

    None where nothing is known. An exception of the script's own is a cause; a guess is none.
    """
    if failure.reason or failure.code == AGAIN:
        return None
    if failure.oom:
        from ddpkit.diagnosis.catalogue import BY_ID

        said = f"the kernel ended it: out of memory ({failure.oom})"
        return Diagnosis(cause=said, fix=BY_ID["host-out-of-memory"].fix)
    from ddpkit.diagnosis.analyze import explain

    own = Path(failure.log).name if failure.log else "its output"
    text = _end(Path(failure.log)) if failure.log else ""
    first = explain([(own, text or "\n".join(failure.last_lines))]).first
    if first is not None and first.entry is None and failure.signal in _SUDDEN:
        first = None
    if first is not None and first.kind == "cause":
        return Diagnosis(cause=first.cause_alone, fix=first.fix)
    other = explain([(everything.name, _end(everything))]).first
    if other is not None and other.kind == "cause" and failure.signal not in _SUDDEN:
        return Diagnosis(cause=other.cause_alone, fix=other.fix, whose=other.speaker.words())
    # A signal says more than a collective that failed because of it; what says how it died says more than the number.
    if first is not None and first.kind == "death":
        return Diagnosis(cause=first.cause, fix=first.fix)
    if first is not None and first.kind == "generic" and failure.signal in (None, signal.SIGABRT):
        return Diagnosis(cause=first.cause, fix=first.fix)
    return None


def _end(path: Path) -> str:
    try:
        return read_tail(path, LOOKED_AT).decode("utf-8", "replace")
    except OSError:
        return ""


def how(failure: Failure) -> str:
    """`exit code 7`, or `killed by signal 9 (SIGKILL)`, with the usual meaning."""
    from ddpkit.diagnosis.catalogue import BY_ID
    from ddpkit.diagnosis.catalogue.deaths import CODES, SIGNALS, TEARDOWN

    if failure.reason:
        return failure.reason
    if failure.signal is not None:
        number = failure.signal
        if number == signal.SIGABRT and any(TEARDOWN in line for line in failure.last_lines):
            return "killed by signal 6 (SIGABRT) in torch's own teardown, when the script had ended: TROUBLESHOOTING.md"
        name = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""  # real-time ones have none
        return f"killed by signal {number}{name}" + (f": {BY_ID[SIGNALS[number]].cause}" if number in SIGNALS else "")
    meaning_of_code = CODES.get(failure.code or 0)
    return f"exit code {failure.code}" + (f": {meaning_of_code}" if meaning_of_code else "")


def verdict(failure: Failure, known: Diagnosis | None = None) -> str:
    """One sentence: who failed first, where, how, when, and why, where that is known."""
    if failure.what.startswith("job ") and failure.reason:
        return f"{failure.what} {failure.reason}"
    who = f"rank {failure.rank}" if failure.rank is not None else failure.what
    verb = "ended" if failure.code == AGAIN else "failed"
    said = how(failure)
    if known:
        # What usually stands behind a code or a signal is of no use beside what really did.
        said = said.partition(": ")[0] if not failure.reason else said
        said = f"{said}: {f'{known.whose}: ' if known.whose else ''}{known.cause}"
    when = f", after {failure.seconds:.1f} s" if failure.at else ""
    return f"{who} on {failure.host} {verb} first{when}: {said}"


def hint(failure: Failure, known: Diagnosis | None = None) -> str:
    """The next command to type, or the next thing to change."""
    if known and known.fix:
        return known.fix
    if failure.signal is not None:
        from ddpkit.diagnosis.catalogue import BY_ID
        from ddpkit.diagnosis.catalogue.deaths import LOOK, SIGNALS
        from ddpkit.diagnosis.catalogue.entry import filled

        if failure.signal in LOOK:
            return filled(BY_ID[SIGNALS[failure.signal]].probe, {"host": failure.host})
    return f"less {failure.log}"


def stopped(outcome: Outcome) -> str:
    """The last word on a run that was ended from outside: by what, when, and how its ranks took it."""
    assert outcome.stopped_by is not None
    text = f"ended by {signal.Signals(outcome.stopped_by).name} after {outcome.seconds:.1f} s"
    ends = ", ".join(f"{number} x {end}" for end, number in sorted(outcome.ends.items()))
    return f"{text}; its ranks: {ends}" if ends else text


def report(outcome: Outcome, known: Diagnosis | None = None) -> list[str]:
    """What is printed at the end of a run that did not end well; empty for one that did."""
    failure = outcome.failure
    if failure is None:
        return []
    lines = []
    if failure.last_lines:
        who = f"rank {failure.rank}" if failure.rank is not None else failure.what
        lines.append(f"last lines of {who} on {failure.host} ({failure.log}):")
        lines += [f"    {line}" for line in failure.last_lines]
    lines.append(verdict(failure, known))
    hinted = (failure.log and not failure.reason) or (known is not None and known.fix)
    return [*lines, f"hint: {hint(failure, known)}"] if hinted else lines
