"""Decision after an attempt in a submitted SLURM job. The job's script runs it on the first node of the job:

    python -m ddpkit.cli.job_attempts DIR CODE

`CODE`: exit code of the attempt, or `requeued`. Prints shell text for the next attempt. Exit code 1: none follows.

With `lost` in place of the code it decides for a script that died with its node: the job is requeued without this node,
or cancelled. A launcher that follows the job runs it. `watch` waits for such a loss, on another node of the job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddpkit.config import LaunchSettings, collect_settings
from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.catalogue import entry_of_seen
from ddpkit.diagnosis.decision import describe
from ddpkit.diagnosis.outcome import Action, Decision, Failure, Outcome
from ddpkit.errors import DdpkitError
from ddpkit.execution import on_end
from ddpkit.execution.attempts import Attempts, CheckHosts
from ddpkit.execution.executor import Inbox
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import JOB_HOOK, OnEnd
from ddpkit.launchers.shell import assign, quote
from ddpkit.node.owned import open_for_append
from ddpkit.run import bad_nodes, job_status, logs, timeline
from ddpkit.run.record import AttemptsFile, Run, attempt_folder, load, load_attempts, take_step_failure
from ddpkit.run.state import RunState
from ddpkit.transports.scheduler import SlurmTransport

PATIENCE = 10.0  # seconds for the record, which the launcher writes after it has submitted the job
LOOK_EVERY = 60.0  # seconds between two queries. SLURM gives a lost node 5 minutes by default (SlurmdTimeout)
LOOK_AGAIN = 15.0  # seconds to the second look at a lost script: a launcher that follows the job is faster
_LOST, _WATCH = "lost", "watch"


class JobAttempts:
    """Attempts of the job in which this process runs."""

    def __init__(
        self, run: Run, file: AttemptsFile, hosts: Sequence[str], slurm: SlurmTransport, check: CheckHosts
    ) -> None:
        """Take the hosts of the job's allocation as it is now. `check` finds faults of hosts."""
        self._run, self._file, self._folder = run, replace(file, hosts=tuple(hosts)), Path(run.folder)
        self._slurm, self._job, self._check = slurm, run.job_id or "", check
        self._attempts = Attempts.of_job(self._file, self._folder, slurm.down_hosts)
        if not file.attempts:
            began = timeline.job_starts(self._folder)
            self._attempts.begin(hosts[: file.nodes], began[0] if began else run.started)

    def next(self, code: int | None) -> str:
        """Return shell text for the attempt that follows; empty: none. `code`: None after a requeue by SLURM."""
        last = self._attempts.records[-1]
        undecided = last.ended is None  # else the job begins again, after a requeue that was decided before
        decision = self._end(code) if undecided else last.decision
        self._save()
        if decision is None or decision.action == "stop":
            return ""
        if undecided:
            self._run_hook()
            try:
                self._attempts.check_suspects(self._faults, self._note)
            except DdpkitError as error:
                self._note(f"{format_hosts(decision.hosts)}: cannot be checked: {error}")
        # SLURM can end the job during `on_attempt` and the tests. A requeued one begins the attempt later.
        ending = self._slurm.ending() if code is not None else ""
        if ending:
            self._note(f"no other attempt follows: SLURM ends the job: {ending}")
            text = ""
        elif decision.action == "requeue" and code is not None:
            text = self._requeue()
        else:
            text = self._begin()
        self._save()
        return text

    def lose_script(self, host: str, *, outside: bool) -> None:
        """Requeue the job without the node on which its script died; cancel it where no attempt can follow.

        `outside`: this process is no part of the job.
        """
        attempts, slurm, removed = self._attempts, self._slurm, "SLURM removed it from the job"
        self._note(f"SLURM lost {host}, on which the script of job {self._job} ran")
        if attempts.records[-1].ended is None:
            reason = f"{removed}, whose script ran there"
            failure = Failure(host=host, rank=None, what="slurmd", code=125, reason=reason, at=time.time())
            failure = verdict.diagnose(failure, self._folder / "all.log", read_end=logs.read_end)
            outcome = Outcome(failure=failure, lost={host: reason}, lost_alone=host)
            attempts.end(outcome, verdict.verdict(failure, failure.diagnosis))
            decision = attempts.decide(outcome, requeue=slurm.can_requeue(), script_lost=True)
            self._note(describe(decision, attempts.records[-1].number))
            bad_nodes.remember_blamed(self._file.rules.bad_nodes, outcome, self._run.run_id, self._note)
        attempts.replaced.setdefault(host, removed)
        decided = attempts.records[-1].decision
        if decided is None or decided.action == "stop" or not slurm.can_requeue():
            self._save()
            slurm.cancel(self._note)
            return
        self._requeue(outside=outside)
        self._run_hook()

    def _save(self) -> None:
        attempts = self._attempts
        state = {"attempts": attempts.records, "spares": attempts.spares, "replaced": attempts.replaced}
        replace(self._file, **state).save(self._folder)  # type: ignore[arg-type]

    def _faults(self, hosts: Sequence[str], folder: Path) -> Mapping[str, str]:
        """Check hosts. The end of the job ends the tests too, and is no fault of a host. Raises DdpkitError."""
        faults = self._check(hosts, folder)
        return {} if self._slurm.ending() else faults

    def _run_hook(self) -> None:
        """Run the command of `on_attempt`, which comes in the environment of the job."""
        on_attempt = _passed_by_launcher(os.environ).get("on_attempt")
        if on_attempt:
            from ddpkit.run.documents import hook_document

            run = replace(
                self._run, state=RunState.RUNNING, attempts=self._attempts.records, spares=self._attempts.spares
            )
            command, document, show = OnEnd(**on_attempt), hook_document(run), sys.stderr.buffer.write
            name = on_end.ATTEMPT_LOG
            on_end.run_hook(command, document, self._folder, show, print_note, Inbox(), log_name=name)

    def _end(self, code: int | None) -> Decision | None:
        """Write the end of the running attempt, and decide. None: it succeeded."""
        attempts = self._attempts
        seen = take_step_failure(self._folder)  # for which the launcher ended the step: its ranks may exit with 0 then
        failure = self._failure(code, seen) if code != 0 or seen is not None else None
        outcome = Outcome(failure=failure)
        attempts.end(outcome, None if failure is None else verdict.verdict(failure, failure.diagnosis))
        if failure is None:
            return None
        ending = self._slurm.ending() if code is not None else ""
        decision = attempts.decide(outcome, requeue=self._slurm.can_requeue(), ending=ending)
        self._note(describe(decision, attempts.records[-1].number))
        bad_nodes.remember_blamed(self._file.rules.bad_nodes, outcome, self._run.run_id, self._note)
        return decision

    def _failure(self, code: int | None, seen: Failure | None) -> Failure:
        """Return the first failure of the attempt: what the launcher has seen, or what the job's output shows.

        The lines of that output become those of the attempt.
        """
        last = self._attempts.records[-1]
        if code is None:
            entry = entry_of_seen("requeued")
            action = Action(action="retry", id=entry.id, reason=entry.reason)
            what, reason = f"job {self._job}", "was requeued by SLURM"
            return Failure(host=last.hosts[0], rank=None, what=what, code=125, reason=reason, action=action)
        folder = attempt_folder(self._folder, last.number)
        folder.mkdir(0o755, exist_ok=True)
        log = folder / "all.log"
        shown = job_status.first_failure(self._run, log)
        if seen is not None:
            return verdict.diagnose(replace(seen, log=str(log)), log)
        if shown is not None:
            return replace(shown[0], log=str(log), at=time.time())
        return verdict.diagnose(
            Failure(host=last.hosts[0], rank=None, what="srun", code=code, log=str(log), at=time.time()), log
        )

    def _begin(self) -> str:
        """Begin the next attempt. Without enough nodes the job is requeued, where that is allowed."""
        attempts, last = self._attempts, self._attempts.records[-1]
        down = self._slurm.down_hosts(attempts.hosts)
        attempts.replaced |= down
        used = attempts.hosts[: self._file.nodes]
        if len(used) == self._file.nodes:
            env = attempts.next_variables()
            attempts.begin(used)
            self._note(f"attempt {last.number + 1} on {format_hosts(used)}")
            lines = [
                f"nodes={quote(','.join(used))}",
                *(f"export {assign(name, value)}" for name, value in env.items()),
            ]
            return "; ".join(lines)
        can_requeue = self._slurm.can_requeue()
        reason = f"{len(used)} of {self._file.nodes} needed nodes of job {self._job} are left"
        decision = Decision(action="requeue" if can_requeue else "stop", hosts=tuple(down), reason=reason)
        attempts.keep(decision)
        self._note(describe(decision, last.number))
        return self._requeue() if can_requeue else ""

    def _requeue(self, *, outside: bool = False) -> str:
        """Requeue the job without the hosts that were put aside. Returns no text."""
        attempts = self._attempts
        attempts.replaced |= self._slurm.down_hosts(attempts.hosts)
        self._save()
        nodes = max(self._file.nodes, len(attempts.hosts))
        return self._slurm.requeue(attempts.replaced, nodes, self._note, outside=outside)

    def _note(self, text: str) -> None:
        print_note(f"ddpkit: {text}")


def print_note(line: str) -> None:
    """Write a line to the output of the job."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _passed_by_launcher(environ: Mapping[str, str]) -> Any:
    """Return what the launcher passed to the job; empty where sbatch did not pass the environment on."""
    return json.loads(environ.get(JOB_HOOK) or "{}")


def settings_of_test(environ: Mapping[str, str]) -> LaunchSettings:
    """Return the settings of a test of the job's hosts. Raises UsageError."""
    return collect_settings(Path.cwd(), {}, None, _passed_by_launcher(environ).get("test", {}), source="keyword")


def decide(argv: Sequence[str], check: CheckHosts) -> int:
    """Read the record and the attempts of the job, and print what follows. Returns the exit code.

    `argv`: the directory of the run, and `CODE`, `requeued`, `lost` or `watch`.
    """
    folder, word = Path(argv[0]), argv[1]
    if word == _WATCH:
        _wait_for_lost_script()
    known = _load_job(folder)
    if known is None:
        sys.stderr.write(f"ddpkit: no other attempt follows: {folder / 'run.json'} not found\n")
        return 1
    run, file = known
    if word in (_LOST, _WATCH):
        return _decide_for_lost_script(run, file, check, outside=word == _LOST)
    code = None if word == "requeued" else int(word)
    slurm = SlurmTransport(None, None, os.environ)
    held = slurm.survey().allocation
    text = JobAttempts(run, file, held.hosts if held else (), slurm, check).next(code)
    sys.stdout.write(f"{text}\n" if text else "")
    return 0 if text else 1


def _wait_for_lost_script() -> None:
    """Wait until SLURM has lost the node of the job's script, in two looks one after the other."""
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT):  # for the ranks
        signal.signal(number, signal.SIG_IGN)
    slurm, before = SlurmTransport(None, None, os.environ), ""
    while not (lost := slurm.lost_script_node()) or lost != before:
        before = lost
        time.sleep(LOOK_AGAIN if lost else LOOK_EVERY)


def _load_job(folder: Path) -> tuple[Run, AttemptsFile] | None:
    """Read the record and the attempts of the job. None: the launcher has not written them in time."""
    until = time.monotonic() + PATIENCE
    while (run := load(folder)) is None or (file := load_attempts(folder)) is None:
        if time.monotonic() > until:
            return None
        time.sleep(0.1)
    return run, file


def _decide_for_lost_script(run: Run, file: AttemptsFile, check: CheckHosts, *, outside: bool) -> int:
    """Requeue or cancel a job whose script died with its node. Notes go to the job's output. Returns the exit code."""
    job_id = run.job_id or ""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a requeue sends it to `watch`
    slurm = SlurmTransport(None, None, {**os.environ, "SLURM_JOB_ID": job_id})
    host = slurm.lost_script_node()
    if not host:  # another process was faster
        return 1
    if run.job is not None:
        log = run.job.log.replace("{job}", job_id)
        with suppress(OSError), open(open_for_append(log, 0o644), "ab") as output:  # srun's end is lost too
            os.dup2(output.fileno(), sys.stderr.fileno())
    hosts = file.hosts or (host, *slurm.job_hosts())
    JobAttempts(run, file, hosts, slurm, check).lose_script(host, outside=outside)
    return 0
