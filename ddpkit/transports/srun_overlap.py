"""Calls on the nodes of a SLURM job, through a step beside its own (`srun --overlap`): one task on each node.

A step is kept for later calls where they come again and again, as samples do: each costs the scheduler's controller,
which many share, as much as a small job.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ddpkit.launchers.events import AnswerEvent, Event
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.transports.protocol import ANSWER_TIME, BOOT, STEP_START_TIME, Caller, Pieces, program

SILENCE_LIMIT = 60.0  # seconds without a call after which the step ends by itself
_LINE = re.compile(rb' *(\d+): (\{"e":"answer".*\})')
# The Python that runs here is often there as well, and knows where its py-spy is; else any other will do.
_PYTHON = '[ -x "$0" ] || set -- "$1" python3; exec "${2:-$0}" -S -I -c "$1"'


def _srun(job: str, hosts: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command line of such a step, and its environment: one Python on each of these nodes."""
    argv = ["srun", f"--jobid={job}", "--overlap", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}"]
    argv += ["--ntasks-per-node=1", f"--nodelist={','.join(hosts)}", "--label", "--export=ALL", "--quiet", "--mem=0"]
    argv += ["sh", "-c", _PYTHON, sys.executable, BOOT]
    # The options must not contradict what the shell's own step has left in the environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SRUN_"))}
    if "SLURM_CONF" in os.environ:
        env["SLURM_CONF"] = os.environ["SLURM_CONF"]
    return argv, env


class OverlapStep:
    """One step of one job. `reader` knows which rank is where; without a job's id, its step's is taken."""

    def __init__(self, reader: SrunReader, job: str = "", *, silence_limit: float = SILENCE_LIMIT) -> None:
        self.reader = reader
        self._job = job
        self._silence_limit = silence_limit
        self._hosts: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._caller = Caller(self._write)
        self._partial = b""  # a line of its output that has not ended
        self._answered = True  # each node has answered the last call
        self._lock = threading.Lock()

    @property
    def job(self) -> str:
        return self._job or self.reader.step.partition(".")[0]

    def call(self, function: str, args: Mapping[str, object], limit: float) -> tuple[list[object], str]:
        """Call PROGRAM.NAME on each node about its ranks. Returns the values, and why some nodes gave none."""
        with self._lock:
            ranks: dict[str, dict[int, dict[str, int]]] = {}
            for rank, pid in list(self.reader.pids.items()):
                ranks.setdefault(self.reader.hosts[rank], {})[rank] = {"pid": pid}
            if not ranks or not self.job:
                return [], "no rank has started yet"
            until = time.monotonic() + limit + ANSWER_TIME + STEP_START_TIME
            if self._process is None or self._process.poll() is not None or self._hosts != list(ranks):
                self.close()
                try:
                    self._start(list(ranks))
                except OSError as error:
                    return [], f"srun: {error.strerror}"
            hosts = {host: {"ranks": here} for host, here in ranks.items()}
            number = self._caller.call(function, args, hosts=hosts, silence=self._silence_limit)
            return self._answers(number, until)

    def _start(self, hosts: list[str]) -> None:
        argv, env = _srun(self.job, hosts)
        self._hosts, self._partial = hosts, b""
        self._process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the command, and that ends the step
        )
        self._caller = Caller(self._write)
        self._caller.compiled = False  # srun has one input for all nodes, whatever Python each has
        self._write(program("process_tree", "rpc", compiled=False))

    def _write(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _answers(self, number: int, until: float) -> tuple[list[object], str]:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        output, errors = self._process.stdout.fileno(), self._process.stderr.fileno()
        pieces = [Pieces() for _ in self._hosts]
        answers: dict[int, AnswerEvent] = {}
        words, open_fds = b"", [output, errors]
        while len(answers) < len(self._hosts) and open_fds:
            ready = select.select(open_fds, [], [], max(0.0, until - time.monotonic()))[0]
            if not ready:
                break
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    open_fds.remove(fd)
                elif fd == errors:
                    words += data
                else:
                    *lines, self._partial = (self._partial + data).split(b"\n")
                    for match in filter(None, map(_LINE.fullmatch, lines)):
                        event = pieces[int(match[1])].take(json.loads(match[2]))
                        if event is not None and event["e"] == "answer" and event["id"] == number:
                            answers[int(match[1])] = event
        self._answered = len(answers) == len(self._hosts)
        values = [value for event in answers.values() for value in event["values"]]
        if len(values) == len(self._hosts):
            return values, ""
        problems = [event["error"] for event in answers.values() if event["error"]]
        reason = " ".join(words.decode("utf-8", "replace").split())[-300:] or next(iter(problems), None)
        return values, reason or ("no answer" if open_fds else "the step has ended")

    def close(self) -> None:
        """End the step: its tasks end at the end of their input. One that did not answer is not waited for."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            process.wait(2.0 if self._answered else 0.0)
        except subprocess.TimeoutExpired:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


class OverlapCalls:
    """Calls of a launcher on the nodes of its job. Each runs in a thread, and is answered by one event."""

    def __init__(self, reader: SrunReader, job: str = "") -> None:
        self._reader = reader
        self._job = job
        self._kept = OverlapStep(reader, job)  # of samples, which come again and again
        self._calls = 0

    def call(self, function: str, args: Mapping[str, object], post: Callable[[Event | None], None]) -> int:
        self._calls += 1
        threading.Thread(target=self._call, args=(self._calls, function, args, post), daemon=True).start()
        return self._calls

    def _call(
        self, number: int, function: str, args: Mapping[str, object], post: Callable[[Event | None], None]
    ) -> None:
        limit = args["limit"]
        assert isinstance(limit, float)
        if function.startswith("resource_sample."):
            values, reason = self._kept.call(function, args, limit)
            cause = "" if values else f"cannot take a sample of this step's nodes: {reason}"
        else:
            step = OverlapStep(self._reader, self._job)
            values, reason = step.call(function, args, limit)
            cause = f"cannot reach the ranks of job {step.job}: {reason}" if reason else ""
            step.close()
        post({"e": "answer", "id": number, "data": "", "values": values, "error": None})
        if cause:
            post({"e": "note", "text": cause})

    def close(self) -> None:
        self._kept.close()
