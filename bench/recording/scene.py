"""Scene: the lab's hosts, as a place to make a fault; and the table of cases."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster import Lab

ROOT = Path(__file__).parents[2]
LONGEST = 16_000  # characters of a recording


class Cluster(Lab):
    """The lab, with two partitions of which one preempts the jobs of the other."""

    def _write_files(self) -> None:
        super()._write_files()
        with (self.folder / "etc/slurm.conf").open("a") as conf:
            conf.write("PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n")
            conf.write("PartitionName=low Nodes=ALL PriorityTier=1\nPartitionName=high Nodes=ALL PriorityTier=9\n")


@dataclass
class Scene:
    """Real programs on the lab's hosts. `folder` is the working directory on all of them."""

    lab: Lab
    folder: Path
    interop: str = ""  # bin directory of the Python that has Accelerate, Lightning, DeepSpeed
    undo: list[Callable[[], object]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)  # exit codes of the commands that ended

    def write(self, name: str, text: str, mode: int = 0o644) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        path.chmod(mode)
        return name

    def argv(self, host: str, command: str, seconds: float) -> list[str]:
        limited = f"exec timeout -k 3 {seconds} bash -c {shlex.quote(command)}"
        return self.lab.argv(host, ["bash", "-c", limited], self.folder)

    def environ(self) -> dict[str, str]:
        return {**self.lab.environ(), "NO_COLOR": "1", "DDPKIT_GPUS": "0", "COLUMNS": "120"}

    def run(self, command: str, host: str = "node1", seconds: float = 120) -> str:
        """Run a shell command on a host to its end. Return its output and errors, in their order."""
        return self.start(command, host, seconds).finish()

    def start(self, command: str, host: str = "node1", seconds: float = 120) -> Started:
        process = subprocess.Popen(
            self.argv(host, command, seconds),
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        return Started(process, seconds + 20, self.codes)

    def kill(self, host: str, part: str, name: str = "KILL") -> None:
        """Send a signal to the processes of a host that have a text in their command line."""
        for pid, command in self.lab.processes(host).items():
            if part in command:
                self.lab.run(host, "kill", f"-{name}", str(pid), check=False)

    @contextmanager
    def without(self, apply: str, revert: str, host: str = "node1") -> Iterator[None]:
        """Break a host with one command, and repair it with another."""
        self.lab.run(host, "bash", "-c", apply)
        try:
            yield
        finally:
            self.lab.run(host, "bash", "-c", revert, check=False)

    def neutral(self, text: str) -> str:
        """Return a log without the paths of this machine."""
        places = {
            str(self.folder): "/home/user/project",
            str(self.lab.folder): "/cluster",
            str(Path(self.interop).parent): "/opt/venv",
            sys.prefix: "/opt/venv",
            str(ROOT): "/opt/ddpkit",
            sys.base_prefix: "/usr",
        }
        for path, shown in sorted(places.items(), key=lambda each: -len(each[0])):
            if len(path) > 4:
                text = text.replace(path, shown)
        text = re.sub(r"[^\n]*\r(?!\n)", "", text.replace("\r\n", "\n"))  # a bar shows its last state
        return cut(text.rstrip() + "\n")


def cut(text: str) -> str:
    """Return a long log without column markers and frames of libraries, then without its middle, as people post it."""
    if len(text) > LONGEST // 2:
        text = re.sub(r"(?m)^(\[rank\d+\]:)?[ ~^]+\n", "", text)
    if len(text) > LONGEST // 2:
        text = re.sub(r'(?m)^(\[rank\d+\]:)? +File "[^"\n]*/site-packages/lightning/.*\n.*\n', "", text)
    if len(text) <= LONGEST:
        return text
    lines = text.splitlines(keepends=True)
    head: list[str] = []
    tail: list[str] = []
    while sum(map(len, head)) < LONGEST * 0.45:
        head.append(lines.pop(0)[:1200])
    while lines and sum(map(len, tail)) + len(lines[-1][:1200]) < LONGEST * 0.45:
        tail.insert(0, lines.pop()[:1200])
    return "".join((*head, f"[... {len(lines)} lines]\n", *tail))


@dataclass
class Started:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    seconds: float
    codes: list[int]
    seen: bytes = b""

    def wait_for(self, text: str) -> None:
        """Read the output until it has a text. Raises RuntimeError when it ends without it."""
        assert self.process.stdout is not None
        while text.encode() not in self.seen:
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise RuntimeError(f"{text!r} is missing in:\n{self.seen.decode(errors='replace')[-3000:]}")
            self.seen += piece

    def finish(self) -> str:
        assert self.process.stdout is not None
        rest = self.process.communicate(timeout=self.seconds)[0]
        self.codes.append(self.process.returncode)
        return (self.seen + rest).decode(errors="replace")


Record = Callable[[Scene], str]


@dataclass(frozen=True)
class Recorded:
    """A case that can be recorded again: its label, and the function that makes its log."""

    name: str
    label: dict[str, str]
    record: Record


CASES: dict[str, Recorded] = {}


def add(name: str, record: Record, provoked: str, cause: str, **label: str) -> None:
    """Add a case. `label`: more keys of the header, see score.py."""
    assert name not in CASES, name
    CASES[name] = Recorded(name, {"provoked": provoked, "cause": cause, **label}, record)


def case(name: str, provoked: str, cause: str, **label: str) -> Callable[[Record], Record]:
    """Return a decorator that adds its function as a case."""

    def register(record: Record) -> Record:
        add(name, record, provoked, cause, **label)
        return record

    return register


def wait_until(ready: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            raise RuntimeError("the expected state did not come")
        time.sleep(0.05)
