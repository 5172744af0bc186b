"""Documents of `--json` about a run and its first failure. One fact has one name in all of them."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

from ddpkit.diagnosis.outcome import Failure
from ddpkit.run.ledger import Ledger, ledger
from ddpkit.run.record import Attempt, Run
from ddpkit.run.status import RunStatus, get_status
from ddpkit.run.timeline import first_step, read

Document = dict[str, object]


def run_document(run: Run, now: RunStatus | None = None) -> Document:
    """Return a run as JSON types: its record, with its state as `now` has it."""
    if now is None:
        now = get_status(run) if run.state.ended else RunStatus(state=run.state, words=run.state, run=run)
    head = {"run_id": run.run_id, "state": now.state, "summary": now.words, "hint": now.hint}
    values: Document = run.as_data()
    rest = {name: value for name, value in values.items() if name not in (*head, "format")}
    attempts = [attempt_document(each) for each in run.attempts]
    failure = failure_document(run.failure) if run.failure else None
    times = asdict(_ledger(run)) if run.attempts else None
    return {**head, **rest, "failure": failure, "attempts": attempts, "ledger": times}


def _ledger(run: Run) -> Ledger:
    """Return the ledger of a run with attempts. The record of the last one has no first step while it runs."""
    last = run.attempts[-1]
    running = last.ended is None
    return ledger(run, time.time(), first_step(read(Path(run.folder)), last.started) if running else None)


def attempt_document(attempt: Attempt) -> Document:
    """Return an attempt as JSON types."""
    return {**asdict(attempt), "failure": failure_document(attempt.failure) if attempt.failure else None}


def failure_document(failure: Failure) -> Document:
    """Return a failure as JSON types. `exit_code` is that of the process; None if a signal ended it."""
    diagnosis = failure.diagnosis
    first: Document = {
        "host": failure.host,
        "rank": failure.rank,
        "what": failure.what,
        "exit_code": failure.code,
        "signal": failure.signal,
        "cause": diagnosis.cause if diagnosis else None,
        "fix": diagnosis.fix if diagnosis else None,
        "id": (diagnosis.id or None) if diagnosis else None,
        "whose": (diagnosis.whose or None) if diagnosis else None,
        "last_lines": list(failure.last_lines),
        "early": list(failure.early),
    }
    names = ("log", "reason", "raised", "oom", "awaited", "dump", "seconds", "at")
    return {**first, **{name: getattr(failure, name) for name in names}}
