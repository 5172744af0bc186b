"""Links to ranks that a scheduler runs: a step of the allocation that we hold, and a job that we submit and follow.

Both speak the events of a supervisor, so that verdict, logs and record are made by the same code for every backend.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ddpkit.errors import LaunchError
from ddpkit.inside import ContainerLink
from ddpkit.link import Event, Link, LocalLink, revealed
from ddpkit.plan import Batch, Plan, Step
from ddpkit.runs import Scheduled
from ddpkit.srun import SrunReader

Post = Callable[[Event | None], None]
COMMAND_LIMIT = 30.0  # seconds for a scheduler's own command, which may wait for its controller


def connect(plan: Plan, step: Step, job_id: str | None) -> Link:
    """The link for a step: a supervisor on this machine, perhaps in a container or around srun, or a job."""
    if plan.batch is not None:
        assert job_id is not None
        return JobLink(plan.batch, job_id, step)
    if step.container:
        return ContainerLink(step.container)
    return SrunLink(step) if step.srun else LocalLink()


def submit(batch: Batch) -> str:
    """Give the job to the scheduler. Returns its id. Raises LaunchError with the scheduler's own words."""
    try:
        Path(batch.log).parent.mkdir(parents=True, exist_ok=True)  # without it the job would fail, and without a word
    except OSError as error:
        raise LaunchError(f"cannot make the folder of {batch.log}: {error.strerror}", "-o output=FILE") from None
    env = {**os.environ, **{name: value for name, value in revealed(dict(batch.env)).items() if value is not None}}
    try:
        done = subprocess.run(batch.submit, env=env, capture_output=True, text=True, timeout=COMMAND_LIMIT, check=False)
    except FileNotFoundError:
        raise LaunchError(f"there is no {batch.submit[0]} on this machine", "log in where jobs are submitted") from None
    except subprocess.TimeoutExpired:
        raise LaunchError(f"{batch.submit[0]} did not answer in {COMMAND_LIMIT:g} s", "scontrol ping") from None
    found = re.search(batch.job_id, done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        words = " ".join((done.stderr or done.stdout).split())
        raise LaunchError(f"{batch.submit[0]} refused the job: {words}", f"{' '.join(batch.submit)}")
    return found[1]


def remembered(batch: Batch, step: Step, job_id: str) -> Scheduled:
    """What the record of a run needs to know of its job, so that any later shell can ask for it."""

    def words(argv: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(word.replace("{job}", job_id) for word in argv)

    return Scheduled(
        state=words(batch.state),
        pattern=batch.state_pattern,
        waiting=batch.waiting,
        running=batch.running,
        well=batch.well,
        stopped=batch.stopped,
        gone=batch.gone,
        stop=words(batch.stop),
        log=batch.log,
        many=not batch.follow,
        torchrun=step.srun == "torchrun",
    )


class SrunLink:
    """A step of an allocation: srun under a supervisor on this machine. The step's tasks are the ranks."""

    outlives = ""
    margin = 20.0

    def __init__(self, step: Step) -> None:
        self._inner = LocalLink()
        self._reader = SrunReader(len(step.ranks), torchrun=step.srun == "torchrun")
        self._timer: threading.Timer | None = None

    def start(self, request: str, post: Post) -> None:
        def translate(event: Event | None) -> None:
            for each in self._translate(event):
                post(each)

        self._inner.start(request, translate)

    def _translate(self, event: Event | None) -> Iterator[Event | None]:
        if event is None:
            yield None
        elif event["e"] == "out":
            yield from self._reader.feed(event["fd"], event["data"].encode("utf-8", "surrogateescape"))
        elif event["e"] == "failed":
            if not self._reader.failed:
                yield event  # srun itself: it could not start the step
        elif event["e"] == "end":
            yield from self._reader.flush()
            if not self._reader.failed:
                yield from self._reader.finished()
            yield event
        else:
            yield event

    def send(self, command: Event) -> None:
        """A stop gives the ranks their grace: srun by itself would kill them at once."""
        grace = float(command.get("grace", 0.0))
        if command["c"] == "signal":
            self._signal(command["name"])
        elif command["c"] == "stop" and grace > 0 and self._reader.step:
            # After a failure srun is ending the step by itself.
            if not self._reader.failed:
                self._signal("TERM")
            self._timer = threading.Timer(grace, self._inner.send, [{"c": "stop", "grace": 5.0}])
            self._timer.daemon = True
            self._timer.start()
        else:
            self._inner.send({**command, "grace": 5.0} if command["c"] == "stop" else command)

    def _signal(self, name: str) -> None:
        """To the ranks, wherever they are; srun passes on some signals only."""
        argv = ["scancel", "--quiet", f"--signal={name.removeprefix('SIG')}", self._reader.step]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_LIMIT, check=False)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._inner.close()


class JobLink:
    """A submitted job: its place in the queue, its output, its end. It goes on without us."""

    margin = 90.0  # sites give a cancelled job half a minute (KillWait), and its nodes some time to say so

    def __init__(self, batch: Batch, job_id: str, step: Step) -> None:
        self._batch = batch
        self._job_id = job_id
        self._log = batch.log.replace("{job}", job_id)
        self._reader = SrunReader(len(step.ranks), torchrun=step.srun == "torchrun")
        self._closed = threading.Event()
        self._offset = 0
        self._held: Event | None = None  # a failure after which the job may start itself again
        self.outlives = (
            f"job {job_id} goes on without this command; its output: tail -f {self._log}; "
            f"to stop it: {' '.join(self._argv(batch.stop))}"
        )

    def _argv(self, argv: tuple[str, ...]) -> list[str]:
        return [word.replace("{job}", self._job_id) for word in argv]

    def start(self, request: str, post: Post) -> None:
        threading.Thread(target=self._follow, args=(post,), daemon=True).start()

    def send(self, command: Event) -> None:
        """Only a failure that we saw comes here; the job ends by itself then. The grace over, it is cancelled."""
        if command["c"] == "stop":
            timer = threading.Timer(float(command["grace"]), self._cancel)
            timer.daemon = True
            timer.start()

    def _cancel(self) -> None:
        if not self._closed.is_set():
            self._run(self._batch.stop)

    def close(self) -> None:
        self._closed.set()

    def _run(self, argv: tuple[str, ...]) -> str:
        try:
            done = subprocess.run(self._argv(argv), capture_output=True, text=True, timeout=COMMAND_LIMIT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return done.stdout

    def _follow(self, post: Post) -> None:
        for event in self._events():
            if self._closed.is_set():
                return
            post(event)
        post(None)

    def _events(self) -> Iterator[Event]:
        """What happens to the job, from the queue to its end."""
        batch, said, pause, ask_at, restarts = self._batch, "", 0.2, 0.0, 0
        while True:
            yield from self._read()
            if time.monotonic() >= ask_at:
                facts = self._ask()
                # Controllers are shared: a job that waits is asked about less and less often.
                pause = min(pause * 1.5, 10.0) if facts["state"] in batch.waiting else min(pause * 1.5, 2.0)
                ask_at = time.monotonic() + (0.2 if self._reader.failed else pause)
                if int(facts.get("restarts") or 0) > restarts:
                    restarts = int(facts["restarts"])
                    # What failed before is history. Its last lines may still be on their way into the file.
                    self._held, self._reader.failed = None, False
                    yield {"e": "note", "text": f"job {self._job_id} is started again"}
                if facts["state"] in batch.waiting:
                    if re.search(batch.hopeless, facts["reason"]):
                        self._run(batch.stop)
                        reason = f"would wait for ever ({facts['reason']}), and was cancelled"
                        yield {"e": "failed", "rank": None, "what": f"job {self._job_id}", "reason": reason, "code": 4}
                        yield {"e": "end"}
                        return
                    start = "" if facts["start"] in ("Unknown", "N/A") else f", estimated start {facts['start']}"
                    text = f"job {self._job_id} waits in the queue: {facts['reason']}{start}"
                    if text != said:
                        said = text
                        yield {"e": "note", "text": text}
                elif facts["state"] in batch.running:
                    text = f"job {self._job_id} runs on {facts['nodes']}"
                    if text != said:
                        said, pause = text, 0.2
                        yield {"e": "note", "text": text}
                elif facts["state"]:
                    yield from self._ended(facts)
                    return
            self._closed.wait(0.1)
            if self._closed.is_set():
                return

    def _ask(self) -> dict[str, str]:
        found = re.search(self._batch.state_pattern, self._run(self._batch.state))
        return found.groupdict() if found else {"state": "", "reason": "", "start": "", "nodes": ""}

    def _ended(self, facts: dict[str, str]) -> Iterator[Event]:
        # The last lines may come after the state: the file is on another host.
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            yield from self._read()
            time.sleep(0.05)
        yield from self._reader.flush()
        if self._held is not None:
            yield self._held
        elif facts["state"] in self._batch.well:
            yield from self._reader.finished()
        elif not self._reader.failed:
            code, killer = int(facts["code"]), int(facts["signal"])
            reason = {
                "CANCELLED": "was cancelled",
                "TIMEOUT": "ran into its time limit; -o time=... asks for more",
                "NODE_FAIL": f"lost a node of {facts['nodes']}: sinfo -R says why",
                "OUT_OF_MEMORY": "ran out of memory; -o mem=... asks for more",
                "PREEMPTED": "was preempted",
            }.get(facts["state"], "")
            event: dict[str, Any] = {"e": "failed", "rank": None, "what": f"job {self._job_id}", "reason": reason}
            if killer or facts["state"] == "CANCELLED":
                event["signal"] = killer or 15
            else:
                event["code"] = code or 1
            yield event
        yield {"e": "end"}

    def _read(self) -> Iterator[Event]:
        """What is new in the job's output file."""
        try:
            with open(self._log, "rb") as file:
                file.seek(self._offset)
                data = file.read(1 << 20)
        except OSError:
            return
        self._offset += len(data)
        for event in self._reader.feed(1, data):
            if event["e"] == "failed" and event["code"] == self._batch.again is not None:
                self._held = event
            else:
                yield event
