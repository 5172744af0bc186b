"""Attempts of one run: the end of each, the decision that follows, and the plan and the logs of the next."""

from __future__ import annotations

import glob
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpkit.config import LaunchSettings
from ddpkit.diagnosis.outcome import Decision, Failure, Outcome
from ddpkit.errors import DdpkitError
from ddpkit.execution.executor import Inbox
from ddpkit.execution.on_end import LOG, ended_by
from ddpkit.execution.prepare import Ready, spare_hosts
from ddpkit.launchers.plan import Plan
from ddpkit.run import metrics
from ddpkit.run.record import FILE, REQUESTS, Attempt, attempt_folder

LOOK_EVERY = 0.1  # seconds between two looks for a signal while nodes are surveyed
_STAY = (FILE, REQUESTS, LOG)  # files of the run, not of an attempt


@dataclass(frozen=True, kw_only=True)
class NotPlanned:
    """No plan of another attempt: an error, or a signal that ends the run."""

    error: DdpkitError | None = None
    stopped_by: int | None = None


class Attempts:
    """Attempts of a run. `records` has one entry for each; the last one is running, or has ended."""

    def __init__(self, ready: Ready, settings: LaunchSettings, folder: Path) -> None:
        self.records: tuple[Attempt, ...] = ()
        self.spares: tuple[str, ...] = ()
        self._ready = ready
        self._settings = settings
        self._folder = folder
        self._lost: list[dict[str, str]] = []  # of each attempt, the hosts where processes may still run
        self._replaced: dict[str, str] = {}  # reasons by host
        self.begin(ready.plan)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that another attempt can use, in the order of the request."""
        return tuple(host for host in self._ready.hosts if host not in self._replaced)

    def begin(self, plan: Plan) -> None:
        """Add an attempt that begins with this plan."""
        used = tuple(host for step in plan.steps for host in step.hosts)
        self.spares = spare_hosts(plan, self.hosts)
        for host in self.hosts:
            if host not in used and host not in self.spares:
                self._replaced[host] = "it failed the checks before an attempt"
        self.records += (Attempt(number=len(self.records) + 1, hosts=used, started=time.time()),)

    def end(self, outcome: Outcome, verdict: str | None) -> None:
        """Write the end of the running attempt into its record."""
        self._change(
            ended=time.time(),
            exit_code=outcome.exit_code,
            failure=outcome.failure,
            verdict=verdict,
            progress=self._progress(),
        )
        hosts = self.records[-1].hosts
        failed = outcome.failure is not None
        self._lost.append({**outcome.lost, **(self._ready.transport.down_hosts(hosts) if failed else {})})

    def decide(self, outcome: Outcome) -> Decision:
        """Return the decision after the attempt that ended, and keep it."""
        from ddpkit.diagnosis.decision import End, Limits, decide  # loads the catalogue

        ends = [
            End(hosts=each.hosts, failure=each.failure, lost=lost, progress=each.progress)
            for each, lost in zip(self.records, self._lost, strict=True)
        ]
        stopped = outcome.stopped_by is not None or outcome.stopped_later
        limits = Limits(
            retries=self._settings.retries + 1 - len(self.records),
            spares=len(self.spares),
            retry_codes=self._settings.retry_codes,
            stop_codes=self._settings.stop_codes,
        )
        decision = decide(replace(ends[-1], stopped=stopped), ends[:-1], limits)
        self.keep(decision)
        if decision.action == "replace":
            self._replaced |= dict.fromkeys(decision.hosts, decision.reason)
        return decision

    def keep_failure(self, failure: Failure) -> None:
        """Replace the failure in the record of the attempt that ended."""
        self._change(failure=failure)

    def keep(self, decision: Decision) -> None:
        """Write a decision into the record of the attempt that ended."""
        self._change(decision=decision)

    def plan_next(self, note: Callable[[str], None], inbox: Inbox) -> Plan | NotPlanned:
        """Survey the nodes of the next attempt, and make its plan. A signal in `inbox` ends the wait."""
        last = self.records[-1]
        env = {"DDPKIT_ATTEMPT": str(last.number + 1), "DDPKIT_PREVIOUS": _word(last)}
        results: list[Plan | NotPlanned] = []
        ended = threading.Event()  # a late note would mix with the last lines of the run

        def work() -> None:
            assert self._ready.plan_again is not None
            try:
                plan = self._ready.plan_again(self.hosts, env, lambda text: None if ended.is_set() else note(text))
                results.append(plan)
            except DdpkitError as error:
                results.append(NotPlanned(error=error))

        thread = threading.Thread(target=work, name="ddpkit survey", daemon=True)
        thread.start()
        while True:
            thread.join(LOOK_EVERY)
            number = ended_by(inbox, (signal.SIGPIPE,))
            if number is not None:
                ended.set()
                return NotPlanned(stopped_by=number)
            if not thread.is_alive():
                return results[0] if results else NotPlanned(error=DdpkitError("the survey of the nodes failed"))

    def move_logs(self) -> None:
        """Move the files of the attempt that ended into its own directory. Raises OSError."""
        target = attempt_folder(self._folder, self.records[-1].number)
        target.mkdir()
        for path in list(self._folder.iterdir()):
            if path.name not in _STAY and not path.name.startswith("attempt-"):
                path.rename(target / path.name)

    def with_moved_log(self, failure: Failure) -> Failure:
        """Return the failure with the place of its log after `move_logs`."""
        log = Path(failure.log)
        there = attempt_folder(self._folder, self.records[-1].number) / log.name
        return replace(failure, log=str(there)) if failure.log and log.parent == self._folder else failure

    def _change(self, **changes: object) -> None:
        last = replace(self.records[-1], **changes)  # type: ignore[arg-type]
        self.records = (*self.records[:-1], last)

    def _progress(self) -> float | None:
        """Return the time of the newest file of `progress`, else the last step in the metrics; None: not known."""
        job, settings = self._ready.job, self._settings
        if settings.progress:
            pattern = os.path.join(Path(job.workdir).expanduser(), settings.progress)  # noqa: PTH118  # it may be a pattern
            return max(filter(None, map(_time, glob.glob(pattern, recursive=True))), default=None)  # noqa: PTH207
        file = metrics.of_run(settings.metrics, job.workdir, job.command, self.records[0].started)
        steps: Sequence[float] = [entry["step"] for entry in metrics.read(file)] if file else ()
        return float(steps[-1]) if steps else None


def _time(name: str) -> float | None:
    try:
        return Path(name).stat().st_mtime
    except OSError:
        return None


def _word(last: Attempt) -> str:
    """Return DDPKIT_PREVIOUS: a catalogue id, else `signal-9` or `code-1`."""
    failure = last.failure
    if failure is not None and failure.action is not None and failure.action.id:
        return failure.action.id
    if failure is not None and failure.signal is not None:
        return f"signal-{failure.signal}"
    return f"code-{last.exit_code}"
