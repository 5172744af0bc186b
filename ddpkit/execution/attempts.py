"""Attempts of one run: the end of each, the decision that follows, and the plan and the logs of the next."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ddpkit.diagnosis.outcome import Decision, Failure, Outcome
from ddpkit.errors import DdpkitError
from ddpkit.execution.on_end import take_signal
from ddpkit.launchers.host_names import spare_hosts
from ddpkit.launchers.plan import Plan
from ddpkit.node import owned
from ddpkit.run import metrics, run_files, timeline
from ddpkit.run.record import Attempt, AttemptsFile, Rules, attempt_folder

if TYPE_CHECKING:
    from ddpkit.execution.executor import Inbox
    from ddpkit.execution.prepare import PlanAgain

LOOK_EVERY = 0.1  # seconds between two looks for a signal while nodes are surveyed
# After one of these the decision may suspect the host; the catalogue, which knows, is not loaded yet.
_KILLED = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_TESTS = "tests"  # directory of the files of `CheckHosts`, in that of the run


# The fault of each host that was checked; empty: none. It gets the hosts, and a directory for the files of their tests.
CheckHosts = Callable[[Sequence[str], Path], Mapping[str, str]]


class NotPlanned(NamedTuple):
    """No plan of another attempt: an error, or a signal that ends the run."""

    error: DdpkitError | None = None
    stopped_by: int | None = None


class EarlyCheck:
    """Check of a host that begins before the attempt has ended."""

    def __init__(self, host: str, check: CheckHosts, folder: Path) -> None:
        self.host = host
        self._passed = False
        self._thread = threading.Thread(target=self._run, args=(check, folder), name="ddpkit check", daemon=True)
        with suppress(RuntimeError):  # no more threads
            self._thread.start()

    def _run(self, check: CheckHosts, folder: Path) -> None:
        with suppress(DdpkitError):
            self._passed = check((self.host,), folder).get(self.host) == ""

    def passed(self) -> bool:
        """Wait for the result. False does not mean a fault: memory and GPUs may still be held by ranks that end."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._passed


class Attempts:
    """Attempts of a run. `records` has one entry for each; the last one is running, or has ended."""

    def __init__(
        self,
        rules: Rules,
        hosts: Sequence[str],
        folder: Path,
        down: Callable[[Sequence[str]], Mapping[str, str]],
        now: Callable[[], float],
    ) -> None:
        """Take all hosts of the run, its spares included. `down` returns the reasons of those that SLURM lost.

        `now` returns seconds since the epoch.
        """
        self.records: tuple[Attempt, ...] = ()
        self.spares: tuple[str, ...] = ()
        self.replaced: dict[str, str] = {}  # reasons by host
        self._rules = rules
        self._hosts = tuple(hosts)
        self._folder = folder
        self._down, self._now = down, now
        self._early_check: EarlyCheck | None = None  # of the running attempt

    @classmethod
    def of_job(cls, file: AttemptsFile, folder: Path, down: Callable[[Sequence[str]], Mapping[str, str]]) -> Attempts:
        """Return the attempts of a submitted job, from their file."""
        attempts = cls(file.rules, file.hosts, folder, down, time.time)
        attempts.records, attempts.replaced = file.attempts, dict(file.replaced)
        attempts.spares = file.spares
        return attempts

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that another attempt can use, in the order of the request."""
        return tuple(host for host in self._hosts if host not in self.replaced)

    @property
    def _retries_left(self) -> int:
        return self._rules.retries + 1 - len(self.records)

    def begin(self, used: Sequence[str], started: float | None = None) -> None:
        """Add an attempt on these hosts. `started`: seconds since the epoch; None: it begins now."""
        self.spares = spare_hosts(used, self.hosts)
        for host in self.hosts:
            if host not in used and host not in self.spares:
                self.replaced[host] = "it failed the checks before an attempt"
        self.records += (Attempt(number=len(self.records) + 1, hosts=tuple(used), started=started or self._now()),)

    def end(self, outcome: Outcome, verdict: str | None) -> None:
        """Write the end of the running attempt into its record."""
        self._change(
            ended=self._now(),
            exit_code=outcome.exit_code,
            failure=outcome.failure,
            verdict=verdict,
            progress=self._progress(),
            first_step=timeline.first_step(timeline.read(self._folder), self.records[-1].started),
            saved=self._saved(),
        )

    def decide(
        self, outcome: Outcome, *, requeue: bool = False, ending: str = "", script_lost: bool = False
    ) -> Decision:
        """Return the decision after the attempt that ended, and keep it.

        `requeue`: SLURM can requeue the job. `ending`: the state of a job that SLURM ends; empty: none. `script_lost`:
        the job's script died with its node.
        """
        from ddpkit.diagnosis.decision import End, Limits, decide  # loads the catalogue

        ends = [End(hosts=each.hosts, failure=each.failure, progress=each.progress) for each in self.records]
        lost = {**outcome.lost, **(self._down(ends[-1].hosts) if outcome.failure else {})}
        stopped = outcome.stopped_by is not None or outcome.stopped_later
        limits = Limits(
            retries=self._retries_left,
            spares=len(self.spares),
            requeue=requeue,
            script_lost=script_lost,
            retry_codes=self._rules.retry_codes,
            stop_codes=self._rules.stop_codes,
        )
        end = replace(ends[-1], stopped=stopped, lost=lost, ending=ending)
        decision = decide(end, ends[:-1], limits)
        decision = self._without_slow(decision, outcome.slow)
        self.keep(decision)
        if decision.action in ("replace", "requeue"):
            self.replaced |= dict.fromkeys(decision.hosts, decision.reason)
        return decision

    def _without_slow(self, decision: Decision, slow: Mapping[str, str]) -> Decision:
        """Return the decision with slow hosts put aside, if another attempt follows anyway and spares suffice."""
        slow = {host: why for host, why in slow.items() if host in self.records[-1].hosts}
        needed = {*slow, *decision.hosts}  # also suspects, of which each may fail its check
        if not slow or decision.action in ("stop", "requeue") or len(needed) > len(self.spares):
            return decision
        self.replaced |= slow
        words = "; ".join(f"{host}: put aside, {why}" for host, why in slow.items())
        return replace(decision, reason=f"{decision.reason}; {words}")

    def keep_failure(self, failure: Failure) -> None:
        """Replace the failure in the record of the attempt that ended."""
        self._change(failure=failure)

    def keep(self, decision: Decision) -> None:
        """Write a decision into the record of the attempt that ended."""
        self._change(decision=decision)

    def next_variables(self) -> dict[str, str]:
        """Return the variables that the ranks of the next attempt get."""
        last = self.records[-1]
        return {"DDPKIT_ATTEMPT": str(last.number + 1), "DDPKIT_PREVIOUS": _previous_value(last)}

    def begin_check(self, failure: Failure, check: CheckHosts) -> None:
        """Begin to check the host of a killed rank while the other ranks end: the next attempt need not wait for it."""
        if (
            self._retries_left > 0
            and failure.signal in _KILLED
            and not failure.oom
            and failure.host in self.records[-1].hosts
        ):
            self._early_check = EarlyCheck(failure.host, check, self._folder / _TESTS)

    def check_suspects(self, check: CheckHosts, note: Callable[[str], None]) -> None:
        """Check the hosts that the last decision suspects. Those with a fault are put aside. Raises DdpkitError."""
        decision, early = self.records[-1].decision, self._early_check
        self._early_check = None
        if decision is not None and decision.action == "check":
            passed = early is not None and decision.hosts == (early.host,) and early.passed()
            reasons = dict.fromkeys(decision.hosts, "") if passed else check(decision.hosts, self._folder / _TESTS)
            for host, reason in reasons.items():
                if reason:
                    self.replaced[host] = reason
                note(f"{host}: " + (f"put aside; reason: {reason}" if reason else "passed the checks"))

    def plan_next(
        self, plan_again: PlanAgain, check: CheckHosts, note: Callable[[str], None], inbox: Inbox
    ) -> Plan | NotPlanned:
        """Check the suspects, survey the nodes of the next attempt, and make its plan.

        A signal in `inbox` ends the wait.
        """
        env = self.next_variables()
        results: list[Plan | NotPlanned] = []
        ended = threading.Event()  # a late note would mix with the last lines of the run

        def work() -> None:
            try:
                self.check_suspects(check, note)
                plan = plan_again(self.hosts, env, lambda text: None if ended.is_set() else note(text))
                results.append(plan)
            except DdpkitError as error:
                results.append(NotPlanned(error=error))

        thread = threading.Thread(target=work, name="ddpkit survey", daemon=True)
        thread.start()
        while True:
            thread.join(LOOK_EVERY)
            number = take_signal(inbox, (signal.SIGPIPE,))
            if number is not None:
                ended.set()
                return NotPlanned(stopped_by=number)
            if not thread.is_alive():
                return results[0] if results else NotPlanned(error=DdpkitError("the survey of the nodes failed"))

    def move_logs(self) -> None:
        """Move ddpkit's files of the attempt that ended into its own directory. Raises OSError.

        What the script saved beside them stays where the next attempt looks for it.
        """
        target = attempt_folder(self._folder, self.records[-1].number)
        owned.move_entries(str(self._folder), run_files.KIND, self._is_of_attempt, target.name)

    def _is_of_attempt(self, name: str) -> bool:
        return run_files.is_of_attempt(self._folder / name)

    def with_moved_log(self, failure: Failure) -> Failure:
        """Return a failure whose log is where `move_logs` puts it."""
        log = Path(failure.log)
        there = attempt_folder(self._folder, self.records[-1].number) / log.name
        return replace(failure, log=str(there)) if failure.log and log.parent == self._folder else failure

    def _change(self, **changes: object) -> None:
        last = replace(self.records[-1], **changes)  # type: ignore[arg-type]
        self.records = (*self.records[:-1], last)

    def _progress(self) -> float | None:
        """Return the time of the newest file of `progress`, else the last step in the metrics; None: not known."""
        if self._rules.progress:
            return self._saved()
        file = self._metrics()
        steps: Sequence[float] = [entry["step"] for entry in metrics.read(file)] if file else ()
        return float(steps[-1]) if steps else None

    def _metrics(self) -> Path | None:
        rules, own = self._rules, self._folder / metrics.NAME
        if own.is_file():
            return own
        return metrics.find_chosen(rules.metrics, rules.workdir, rules.command, self.records[0].started)

    def _saved(self) -> float | None:
        """Return the time of the newest file of `progress`, else of the checkpoints beside the metrics."""
        workdir, file = Path(self._rules.workdir).expanduser(), None
        if not self._rules.progress:
            file = self._metrics()
        folder = file.parent if file else workdir
        return metrics.newest(folder, [self._rules.progress] if self._rules.progress else metrics.CHECKPOINTS)


def _previous_value(last: Attempt) -> str:
    """Return DDPKIT_PREVIOUS: a catalogue id, else `signal-9` or `code-1`."""
    failure = last.failure
    if failure is not None and failure.action is not None and failure.action.id:
        return failure.action.id
    if failure is not None and failure.signal is not None:
        return f"signal-{failure.signal}"
    return f"code-{last.exit_code}"
