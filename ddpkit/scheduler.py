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
from contextlib import suppress
from pathlib import Path

from ddpkit.errors import LaunchError
from ddpkit.execute import Event, Link, LocalLink, revealed
from ddpkit.plan import Batch, Plan, Step
from ddpkit.shell import join
from ddpkit.srun import SrunReader

Post = Callable[[Event | None], None]
COMMAND_LIMIT = 30.0  # seconds for a scheduler's own command, which may wait for its controller
SILENCE = 10.0  # seconds without an answer of the scheduler after which we say so
LINGERING = 40.0  # seconds in which an ending job is expected to have ended: KillWait is 30 by default


def connect(plan: Plan, step: Step, job_id: str | None) -> Link:
    """The link for a step: a supervisor on this machine, around srun where srun starts the ranks, or a job."""
    if plan.batch is not None:
        assert job_id is not None
        return JobLink(plan.batch, job_id, step)
    return SrunLink(step) if step.srun else LocalLink()


def submit(batch: Batch) -> str:
    """Give the job to the scheduler. Returns its id. Raises LaunchError with the scheduler's own words."""
    folder = Path(batch.log).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)  # without it the job would fail, and without a word
    except OSError as error:
        raise LaunchError(
            f"cannot make the folder {folder} for the job's output: {error.strerror}", "-o output=FOLDER/slurm-%j.out"
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise LaunchError(f"the job cannot write its output to {folder}", "-o output=FOLDER/slurm-%j.out")
    changes = revealed(dict(batch.env))
    env = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    try:
        done = _ask(list(batch.submit), env)
    except FileNotFoundError:
        raise LaunchError(
            f"there is no {batch.submit[0]} on this machine",
            "log in where jobs are submitted; ddpkit launch -b local runs on this machine",
        ) from None
    except subprocess.TimeoutExpired as error:
        said = " ".join(text_of(error.stderr).split())
        raise LaunchError(
            f"{batch.submit[0]} did not answer in {COMMAND_LIMIT:g} s, and was ended{': ' + said if said else ''}",
            f"{' '.join(batch.ping)}; when it answers again, look whether it took the job all the same: "
            + " ".join(batch.queue),
        ) from None
    found = re.search(batch.job_id, done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        words = " ".join((done.stderr or done.stdout).split())
        hint = batch.ping if re.search(batch.unreachable, words) else batch.submit
        raise LaunchError(f"{batch.submit[0]} refused the job: {words}", join(hint))
    return found[1]


class SrunLink:
    """A step of an allocation: srun under a supervisor on this machine. The step's tasks are the ranks."""

    outlives = ""
    margin = 20.0

    def __init__(self, step: Step) -> None:
        self._inner = LocalLink()
        self._reader = SrunReader(len(step.ranks), torchrun=step.srun == "torchrun")
        self._timer: threading.Timer | None = None
        self._late: tuple[threading.Timer, Event] | None = None  # a failure, and what posts it soon

    def start(self, request: str, post: Post) -> None:
        def translate(event: Event | None) -> None:
            for each in self._translate(event):
                if each is not None and each["e"] == "failed" and each["what"] == "torchrun":
                    # An agent's own words come beside those of srun, and a moment later.
                    self._late = (threading.Timer(1.0, post, [each]), each)
                    self._late[0].daemon = True
                    self._late[0].start()
                    continue
                if self._late is not None and (each is None or each["e"] == "end"):
                    self._late[0].cancel()
                    post(self._late[1])
                    self._late = None
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
        _tell(argv)

    def close(self) -> None:
        for timer in (self._timer, self._late[0] if self._late else None):
            if timer is not None:
                timer.cancel()
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
        self._post: Post = lambda _: None
        self._offset = 0
        self._restarts = 0  # as the scheduler counts them; the reader counts what it has read
        # A failure, and the attempt in which it was read. It is the job's only if the job is not started again.
        self._held: tuple[int, Event] | None = None
        self._ending: float | None = None  # when the job was first seen to be ending
        self._silent: float | None = None  # when the scheduler stopped answering
        self._runs = False
        self._look_at = 0.0
        self._said = ""
        self.outlives = (
            f"job {job_id} goes on without this command; its output: tail -f {self._log}; "
            f"to stop it: {' '.join(self._argv(batch.stop))}"
        )

    def _argv(self, argv: tuple[str, ...], **words: str) -> list[str]:
        for name, value in {"job": self._job_id, **words}.items():
            argv = tuple(word.replace(f"{{{name}}}", value) for word in argv)
        return list(argv)

    def start(self, request: str, post: Post) -> None:
        self._post = post
        threading.Thread(target=self._follow, args=(post,), daemon=True).start()

    def send(self, command: Event) -> None:
        """Pass a signal on. A stop comes after a failure only: the job ends by itself, or the grace over, by us."""
        if command["c"] == "signal":
            # In a thread: a scheduler that does not answer must not keep the launcher from a Ctrl-C.
            threading.Thread(target=self._signal, args=(command["name"],), daemon=True).start()
        elif command["c"] == "stop":
            timer = threading.Timer(float(command["grace"]), self._cancel)
            timer.daemon = True
            timer.start()

    def _signal(self, name: str) -> None:
        missed = f"{name} did not reach the ranks of job {self._job_id}"
        if not self._runs:
            self._post({"e": "note", "text": f"{missed}: they do not run"})
            return
        done = _tell(self._argv(self._batch.signal, signal=name.removeprefix("SIG")))
        if done.returncode != 0 and not self._closed.is_set():
            words = " ".join(done.stderr.split())
            self._post({"e": "note", "text": f"{missed}: {words}"})

    def _cancel(self) -> None:
        if not self._closed.is_set():
            _tell(self._argv(self._batch.stop))

    def close(self) -> None:
        self._closed.set()

    def _follow(self, post: Post) -> None:
        for event in self._events():
            if self._closed.is_set():
                return
            post(event)
        post(None)

    def _events(self) -> Iterator[Event]:
        """What happens to the job, from the queue to its end."""
        batch, pause, ask_at = self._batch, 0.2, 0.0
        while not self._closed.is_set():
            held = self._held
            yield from self._read()
            if self._held is not held:
                ask_at = 0.0  # whether it is the job's end, the scheduler knows
            if time.monotonic() >= ask_at:
                facts = self._facts()
                # Controllers are shared: a job that waits is asked about less and less often.
                pause = min(pause * 1.5, 10.0) if facts["state"] in batch.waiting else min(pause * 1.5, 2.0)
                yield from self._restarted(int(facts["restarts"] or 0))
                self._runs = facts["state"] in (*batch.running, "")
                if facts["state"] in batch.waiting:
                    if re.search(batch.hopeless, facts["reason"]):
                        _tell(self._argv(batch.stop))
                        reason = f"would wait for ever ({facts['reason']}), and was cancelled"
                        yield self._failed(f"{reason}; {' '.join(batch.offers)} shows what there is", code=4)
                        yield {"e": "end"}
                        return
                    start = "" if facts["start"] in ("Unknown", "N/A") else f", estimated start {facts['start']}"
                    yield from self._say(f"waits in the queue: {facts['reason']}{start}")
                elif facts["state"] in batch.running:
                    if f"runs on {facts['nodes']}" != self._said:
                        pause = 0.2
                    yield from self._say(f"runs on {facts['nodes']}")
                    if self._held is not None and self._held[1]["code"] != batch.again:
                        yield self._held[1]
                        self._held = None
                elif facts["state"] in batch.ending:
                    yield from self._lingers(facts["nodes"])
                elif facts["state"]:
                    yield from self._ended(facts)
                    return
                ask_at = time.monotonic() + (0.2 if self._held or self._reader.failed else pause)
            self._closed.wait(0.1)

    def _say(self, text: str) -> Iterator[Event]:
        """Say what the job does, once. It did not end after all."""
        self._ending = None
        if text != self._said:
            self._said = text
            yield {"e": "note", "text": f"job {self._job_id} {text}"}

    def _failed(self, reason: str, **how: int) -> Event:
        return {"e": "failed", "rank": None, "what": f"job {self._job_id}", "reason": reason, **how}

    def _facts(self) -> dict[str, str]:
        """What the scheduler knows of the job; a state of "" where it does not answer."""
        done = _tell(self._argv(self._batch.state))
        found = re.search(self._batch.state_pattern, done.stdout)
        if found:
            self._silent = None
            return found.groupdict()
        nothing = dict.fromkeys(("state", "reason", "start", "nodes", "restarts"), "")
        if re.search(self._batch.gone, done.stderr):
            return {**nothing, "state": "gone", "code": "0", "signal": "0"}
        now = time.monotonic()
        if self._silent is None:
            self._silent = now
        elif 0 < self._silent < now - SILENCE:
            self._silent = 0.0  # said
            words = " ".join(done.stderr.split())
            text = f"{self._batch.state[0]} does not answer ({words}); job {self._job_id} is still followed"
            self._post({"e": "note", "text": text})
        return nothing

    def _restarted(self, restarts: int) -> Iterator[Event]:
        """What failed before the job was started again is history, also where it is read only now."""
        if restarts > self._restarts:
            self._restarts, self._said = restarts, ""
            yield {"e": "note", "text": f"job {self._job_id} is started again"}
        if self._held is not None and self._held[0] < max(restarts, self._reader.attempt):
            if self._held[0] == self._reader.attempt:
                self._reader.failed = False
            self._held = None

    def _lingers(self, nodes: str) -> Iterator[Event]:
        """The job is ending, which takes a moment, or for ever where a node hangs."""
        now = time.monotonic()
        if self._ending is None:
            self._ending = now
        elif now > self._ending + LINGERING and self._said != "ending":
            self._said = "ending"
            yield {"e": "note", "text": f"job {self._job_id} is still ending on {nodes}"}
            if self._held is not None:
                yield self._held[1]
                self._held = None

    def _ended(self, facts: dict[str, str]) -> Iterator[Event]:
        # The last lines may come after the state: the file is on another host.
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            yield from self._read()
            time.sleep(0.05)
        yield from self._reader.flush()
        yield from self._restarted(self._restarts)
        state, code, killer = facts["state"], int(facts["code"]), int(facts["signal"])
        if not self._offset and state in self._batch.well:
            text = (
                f"nothing of the job's output {self._log} is seen here; -o output=FILE puts it where all hosts see it"
            )
            yield {"e": "note", "text": text}
        reason = {
            "CANCELLED": "was cancelled",
            "TIMEOUT": "ran into its time limit; -o time=... asks for more",
            "DEADLINE": "ran into its deadline",
            "NODE_FAIL": f"lost a node of {facts['nodes']}: sinfo -R says why",
            "PREEMPTED": "was preempted",
            "OUT_OF_MEMORY": "ran out of memory; -o mem=... asks for more",
            "gone": f"is forgotten by SLURM, and nobody knows how it ended; its output: {self._log}",
        }.get(state, "")
        if killer == self._batch.no_output:
            reason = f"could not write its output {self._log} on {facts['nodes'].partition(',')[0]}"
            yield self._failed(f"{reason}; -o output=FILE names one that all nodes can write to", code=4)
        elif self._held is not None and state in ("FAILED", "OUT_OF_MEMORY", "gone", *self._batch.well):
            yield self._held[1]  # which rank it was says more
        elif state in self._batch.well:
            yield from self._reader.finished()
        elif not self._reader.failed or self._held is not None:
            # Of a job that is ended SLURM keeps the code of whatever came first: its script's, or that of the TERM.
            if killer or state in ("CANCELLED", "TIMEOUT", "DEADLINE", "PREEMPTED"):
                yield self._failed(reason, signal=15 if state == "TIMEOUT" else killer or 15)
            else:
                yield self._failed(reason, code=code or 1)
        yield {"e": "end"}

    def _read(self) -> Iterator[Event]:
        """What is new in the job's output file."""
        try:
            with open(self._log, "rb") as file:
                file.seek(self._offset)
                data = file.read(1 << 20)
        except OSError:
            # A folder that was listed anew shows the file earlier: NFS clients remember what was not there.
            if time.monotonic() > self._look_at:
                self._look_at = time.monotonic() + 1.0
                with suppress(OSError):
                    list(Path(self._log).parent.iterdir())
            return
        self._offset += len(data)
        for event in self._reader.feed(1, data):
            if event["e"] == "failed":
                self._held = (self._reader.attempt, event)
            else:
                yield event


def _ask(argv: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a scheduler's command to its end. Raises OSError and TimeoutExpired."""
    return subprocess.run(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=COMMAND_LIMIT,
        check=False,
    )


def _tell(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a scheduler's command. One that cannot be run, or does not answer, is one that failed, and says why."""
    try:
        return _ask(argv)
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"no word in {COMMAND_LIMIT:g} s")


def text_of(said: str | bytes | None) -> str:
    """What a program had said until it was ended: bytes, even where text was asked for."""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said or ""
