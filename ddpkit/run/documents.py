"""Documents of `--json` about a run and its first failure. One fact has one name in all of them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ddpkit.diagnosis.outcome import Failure
from ddpkit.run.record import Attempt, Run
from ddpkit.run.replicas import Replica, words_of
from ddpkit.run.state import RunState
from ddpkit.run.status import RunStatus, get_status
from ddpkit.run.timeline import first_step, read

Document = dict[str, object]


def hook_document(run: Run) -> str:
    """Return what a command of `on_end` or `on_attempt` reads: the run as JSON."""
    return json.dumps({"schema": "ddpkit.run/1", **run_document(run)})


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


def replica_document(replica: Replica, now: RunState) -> Document:
    """Return a replica as JSON types. `now`: the state of the whole run."""
    last = replica.starts[-1] if replica.starts else None
    state = get_status(last).state if last is not None else None
    return {
        "name": replica.name,
        "role": replica.role,
        "phase": replica.state.phase.value if replica.state else None,
        "summary": words_of(replica, now),
        "restarts": replica.state.restarts if replica.state else 0,
        "since": replica.state.since if replica.state else None,
        "state": state,
        "run_id": last.run_id if last else None,
        "folder": last.folder if last else None,
        "hosts": list(last.hosts) if last else [],
        "world_size": last.world_size if last else None,
        "exit_code": last.exit_code if last else None,
        "verdict": last.verdict if last else None,
    }


# ---- ledger of a run: how its time was spent. Pure: a record in, seconds out


NO_STEP = "no optimizer step was seen"


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Seconds of a run. `start_up`, `training`, `lost` and `waiting` together are `total`. None: not known."""

    total: float
    start_up: float | None  # from the start of each attempt to its first step; None: no step of the run was seen
    training: float | None  # from the first steps on, without `lost`
    lost: float | None  # after the last checkpoint of an attempt that failed; None: of one no checkpoint is known
    waiting: float  # between two attempts
    goodput: float | None  # share of `training` in `total`, 0 to 1; None: `training` or `lost` is not known
    attempts: int
    exact: bool  # False: of some attempt the first step, or the last checkpoint, is not known
    costs: Mapping[str, float] = field(default_factory=dict)  # seconds that the failure of a host cost, by host


def ledger(run: Run, now: float, first_step: float | None = None, saved: float | None = None) -> Ledger:
    """Return the ledger of a run at the time `now`, in seconds since the epoch.

    `first_step`, `saved`: of the last attempt, where its record does not have them.
    """
    attempts: Sequence[Attempt] = run.attempts
    if not attempts:
        alone = Attempt(number=1, hosts=run.hosts, started=run.started, ended=run.ended, failure=run.failure)
        attempts = (alone,)
    start_up = training = lost = waiting = 0.0
    trained, exact, lost_known, costs = False, True, True, dict[str, float]()
    for index, each in enumerate(attempts):
        following = attempts[index + 1] if index + 1 < len(attempts) else None
        end = max(each.started, each.ended or (following.started if following else now))
        seen_step = each.first_step or (first_step if following is None else None)
        exact = exact and seen_step is not None
        trained = trained or seen_step is not None
        first = min(max(seen_step or end, each.started), end)  # within the attempt; none seen: all was start-up
        redone = 0.0  # what the next attempt has to do again
        if each.failure is not None and first < end:
            checkpoint = each.saved or (saved if following is None else None)
            lost_known = lost_known and checkpoint is not None
            redone = end - min(max(checkpoint, first), end) if checkpoint is not None else 0.0
        wait = max(0.0, following.started - end) if following else 0.0
        start_up += first - each.started
        training += end - first - redone
        lost += redone
        waiting += wait
        if each.decision is not None:  # its hosts share the cost, with the start-up of the next attempt
            next_start = _start_up(following, now) if following else 0.0
            for host in each.decision.hosts:
                costs[host] = costs.get(host, 0.0) + (redone + wait + next_start) / len(each.decision.hosts)
    total = start_up + training + lost + waiting
    return Ledger(
        total=total,
        start_up=start_up if trained else None,
        training=training if trained else None,
        lost=lost if trained and lost_known else None,
        waiting=waiting,
        goodput=training / total if trained and lost_known and total > 0 else None,
        attempts=len(attempts),
        exact=exact and lost_known,
        costs=dict(sorted(costs.items(), key=lambda pair: -pair[1])),
    )


def _start_up(attempt: Attempt, now: float) -> float:
    return max(0.0, (attempt.first_step or attempt.ended or now) - attempt.started)


def describe(each: Ledger) -> list[tuple[str, float | None, str]]:
    """Return rows of a ledger: its words, seconds (None: not known), and a note."""
    seen = each.training is not None
    share = "not known" if each.goodput is None else f"{100 * each.goodput:.1f} % of the time"
    share += "" if each.exact or each.goodput is None else "; of some attempt the first step is not known"
    since = "since the last checkpoint" if seen and each.lost is not None else "no checkpoint is known"
    rows = [
        ("start-up", each.start_up, "until the first step of each attempt" if seen else NO_STEP),
        ("training", each.training, f"goodput: {share}" if seen else f"{NO_STEP}; goodput: not known"),
        ("lost work", each.lost, since if seen else NO_STEP),
        ("waiting for nodes", each.waiting, "between attempts"),
    ]
    worst = next(iter(each.costs.items()), None)
    return [*rows, (f"cost of {worst[0]}", worst[1], "the node that cost most")] if worst else rows
