"""A step beside a job's own, which takes a sample of each node whenever it is told to, for as long as somebody looks.

One step for all samples: each would cost the scheduler's controller, which many share, as much as a small job.
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
from collections.abc import Callable
from contextlib import suppress

from ddpkit.launchers.events import Event, SampleRequest, TopCommand
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.transports.protocol import BOOT, NODE

START = 3.0  # seconds more for the first sample, until the step has begun
WAY = 2.0  # seconds for an answer's way back
IDLE = 60.0  # seconds without a word after which the step ends by itself
_LINE = re.compile(rb" *(\d+): (\d+)([+.]) ([A-Za-z0-9+/=]+)")


# The Python that runs here is often there as well, and knows where its py-spy is; else any other will do.
_PYTHON = '[ -x "$0" ] || set -- "$1" python3; exec "${2:-$0}" -S -I -c "$1"'


def overlap(job: str, hosts: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command line, and its environment, of a step beside the one that runs: one Python on each of these nodes."""
    argv = ["srun", f"--jobid={job}", "--overlap", f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}"]
    argv += ["--ntasks-per-node=1", f"--nodelist={','.join(hosts)}", "--label", "--export=ALL", "--quiet", "--mem=0"]
    argv += ["sh", "-c", _PYTHON, sys.executable, BOOT]
    # What the step is told must not contradict what the shell's own step has left in the environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SRUN_"))}
    if "SLURM_CONF" in os.environ:
        env["SLURM_CONF"] = os.environ["SLURM_CONF"]
    return argv, env


class Beside:
    """The samples of one job. `reader` knows which rank is where; without a job's id, its step's is taken."""

    def __init__(self, reader: SrunReader, job: str = "", *, idle: float = IDLE) -> None:
        self.reader = reader
        self._job = job
        self._idle = idle
        self._hosts: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""  # a line of its output that has not ended
        self._one = threading.Lock()

    def post(self, command: TopCommand, post: Callable[[Event | None], None]) -> None:
        """Ask without waiting, for a launcher: what comes is posted as one event."""

        def ask() -> None:
            number, span, pss, limit = command["id"], command["span"], command["pss"], command["limit"]
            answers, why = self.ask({"id": number, "span": span, "pss": pss, "limit": limit})
            post({"e": "top", "id": number, "answers": answers})
            if why and not answers:
                post({"e": "note", "text": f"cannot take a sample of this step's nodes: {why}"})

        threading.Thread(target=ask, daemon=True).start()

    def ask(self, asked: SampleRequest) -> tuple[list[str], str]:
        """What each node says, packed; and why some say nothing."""
        with self._one:
            ranks: dict[str, dict[int, int]] = {}
            for rank, pid in list(self.reader.pids.items()):
                ranks.setdefault(self.reader.hosts[rank], {})[rank] = pid
            if not ranks:
                return [], "no rank has started yet"
            until = time.monotonic() + asked["limit"] + WAY
            if self._process is None or self._process.poll() is not None or self._hosts != list(ranks):
                self.close()
                try:
                    self._start(list(ranks))
                except OSError as error:
                    return [], f"srun: {error.strerror}"
                until += START
            line = json.dumps({**asked, "ranks": ranks, "idle": self._idle}).encode() + b"\n"
            return self._exchange(line, asked["id"], until)

    def _start(self, hosts: list[str]) -> None:
        argv, env = overlap(self._job or self.reader.step.partition(".")[0], hosts)
        self._hosts, self._said = hosts, b""
        self._process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for whoever looks
        )
        assert self._process.stdin is not None
        program = (NODE / "resource_sample.py").read_text() + "\nmain_of_step()\n"
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"exec({program!r})\n".encode())
            self._process.stdin.flush()

    def _exchange(self, line: bytes, number: int, until: float) -> tuple[list[str], str]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):
            process.stdin.write(line)
            process.stdin.flush()
        held: dict[bytes, str] = {}
        whole: dict[bytes, str] = {}
        words, open_fds = b"", [process.stdout.fileno(), process.stderr.fileno()]
        while len(whole) < len(self._hosts) and open_fds:
            ready = select.select(open_fds, [], [], max(0.0, until - time.monotonic()))[0]
            if not ready:
                break
            for fd in ready:
                data = os.read(fd, 1 << 16)
                if not data:
                    open_fds.remove(fd)
                elif fd == process.stderr.fileno():
                    words += data
                else:
                    *lines, self._said = (self._said + data).split(b"\n")
                    for found in filter(None, map(_LINE.fullmatch, lines)):
                        if int(found[2]) == number:
                            held[found[1]] = held.get(found[1], "") + found[4].decode()
                            if found[3] == b".":
                                whole[found[1]] = held[found[1]]
        if len(whole) == len(self._hosts):
            return list(whole.values()), ""
        said = " ".join(words.decode("utf-8", "replace").split())[-300:]
        return list(whole.values()), said or ("no answer" if open_fds else "the step has ended")

    def close(self) -> None:
        """End the step: its tasks end at the end of their input."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(2.0)
