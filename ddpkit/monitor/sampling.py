"""A sample of every node of a run: the launcher's part, and that of the shell that wants it.

The shell leaves `top.PID.ask` in the run's folder, {"span", "pss"}, and sends the launcher a signal (WINCH: whoever
does not know it ignores it). The launcher asks its supervisors, and answers with `top.json`: {"number", "t", "ending",
"hosts", "silent"}. So nothing listens, nothing is polled while nobody asks, and the kernel sees to it that only the
run's owner can ask. `hosts` are samples as `ddpkit.node.resource_sample` takes them; several shells that ask at once
get the same ones.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddpkit.console.relay import Relay
from ddpkit.errors import DdpkitError, UsageError
from ddpkit.files import write_atomically
from ddpkit.launchers.events import ReplyEvent, TopCommand
from ddpkit.monitor import dump
from ddpkit.run import record
from ddpkit.transports.protocol import LOOK, NODE

if TYPE_CHECKING:
    from ddpkit.run.record import Run

LIMIT = 4.0  # seconds in which a node takes its sample
SPAN = 0.5  # seconds between the two looks of a first sample
IDLE = 60.0  # seconds without a word after which a step that takes samples ends by itself
PATIENCE = 14.0  # seconds for a launcher to answer
ASK_FILES, ANSWER = "top.*.ask", "top.json"


def source() -> str:
    return (NODE / "resource_sample.py").read_text()


class Answered:
    """One host's sample as it came over the wire. Raises ValueError."""

    def __init__(self, data: str, host: str = "") -> None:
        try:
            self.sample: dict[str, Any] = json.loads(zlib.decompress(b64decode(data)))
            self.host = self.sample["host"] = host or str(self.sample["host"])
        except (zlib.error, KeyError, TypeError) as error:
            raise ValueError(f"{host} answered with what is not understood: {error}") from None


class Launcher(Protocol):
    """What asks: see `ddpkit.execution.executor.Carrier`."""

    relay: Relay
    deadline: float | None

    @property
    def nodes(self) -> Sequence[Any]: ...


class Sampling:
    """The launcher's part: one question at a time."""

    def __init__(self, launcher: Launcher) -> None:
        self.question: dump.Question | None = None
        self._launcher = launcher
        self._folder = launcher.relay.folder
        self._number = 0
        self._source = source()
        self._taught: set[int] = set()  # nodes that have the program
        # Nodes that have not answered yet. They are not asked again: commands that nobody reads fill a pipe, and a
        # launcher that waits for one does nothing else.
        self._owing: set[int] = set()

    def ask(self) -> None:
        """Ask every node, if another shell wants it. Who asks while an answer is on its way gets the same one."""
        wanted = list(self._wanted())
        if not wanted:
            return  # it was a terminal
        if self._launcher.deadline is not None:
            self._write([], {}, time.time())
        elif self.question is None:
            self._number += 1
            there = [(index, node) for index, node in enumerate(self._launcher.nodes) if not node.ended]
            asked = [(index, node) for index, node in there if index not in self._owing]
            silent = {node.step.host: sorted(node.running) for _, node in there if not node.step.scheduled}
            span = max(each["span"] for each in wanted)
            limit = LIMIT + span
            self.question = dump.Question(self._number, "top", silent, len(asked), limit, Answered)
            pss = any(each["pss"] for each in wanted)
            command: TopCommand = {"c": "top", "id": self._number, "span": span, "limit": limit, "pss": pss}
            for index, node in asked:
                self._owing.add(index)
                node.link.send(command if index in self._taught else {**command, "source": self._source})
                self._taught.add(index)

    def _wanted(self) -> Iterator[dict[str, Any]]:
        """What other shells want."""
        for path in self._folder.glob(ASK_FILES):
            try:
                found = json.loads(path.read_text())
                path.unlink(missing_ok=True)
                yield {"span": float(found["span"]), "pss": bool(found["pss"])}
            except (OSError, ValueError, TypeError, KeyError):
                continue

    def heard(self, index: int, event: ReplyEvent, host: str) -> None:
        """A piece of a node's answer, in time or not."""
        if not event.get("more"):
            self._owing.discard(index)
        if self.question is not None:
            self.question.heard(index, event, host)

    def turn(self) -> None:
        """Come back to a question that was answered."""
        if self.question is not None and self.question.over:
            asked, self.question = self.question, None
            self._write([each.sample for each in asked.answers], asked.silent, asked.began)

    def _write(self, hosts: list[dict[str, Any]], silent: dict[str, tuple[int, ...]], began: float) -> None:
        found = {"t": began, "ending": self._launcher.deadline is not None, "hosts": hosts, "silent": silent}
        answer = json.dumps({"number": f"{os.getpid()}.{time.monotonic_ns()}", **found})
        with suppress(OSError):  # a full disk must not end a run; who asked is told so when nothing comes
            write_atomically(self._folder / ANSWER, answer)


class FromLauncher:
    """The other shell's part: samples of a run whose launcher lives on this machine."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._answer = Path(run.folder) / ANSWER
        self._last: str | None = None
        self._ending = 1.0  # seconds for the end of a launcher that does not listen

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._answer.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def sample(self, span: float, pss: bool) -> dict[str, Any] | None:
        """One sample of every node; None where the run ended meanwhile. Raises DdpkitError."""
        run, ask = self._run, Path(self._run.folder) / ASK_FILES.replace("*", str(os.getpid()))
        self._last = self._read().get("number")
        try:
            write_atomically(ask, json.dumps({"span": span, "pss": pss}))
        except OSError as error:
            raise UsageError(
                f"cannot write to {run.folder}, through which run {run.run_id} is asked: {error.strerror}",
                f"df -h {run.folder}; ls -ld {run.folder}",
            ) from None
        try:
            dump.rouse(run, LOOK, "top")
            return self._wait()
        except UsageError:
            # A launcher at its end listens no longer; a moment later its record says how it ended.
            if record.process_state(run.launcher_pid) not in ("T", "t") and record.wait(run, self._ending):
                return None
            raise
        finally:
            ask.unlink(missing_ok=True)  # a launcher that did not take it is not to take it later

    def _wait(self) -> dict[str, Any] | None:
        until, seen = time.monotonic() + PATIENCE, (0, 0)
        while time.monotonic() < until:
            try:
                stat = self._answer.stat()
                now = (stat.st_ino, stat.st_mtime_ns)
            except OSError:
                now = (0, 0)
            if now != seen:
                seen, found = now, self._read()
                if found.get("number") not in (None, self._last):
                    self._ending = PATIENCE
                    return found
            if not record.alive(self._run):
                return None
            time.sleep(0.02)
        raise DdpkitError(
            f"the launcher of run {self._run.run_id} did not answer in {PATIENCE:g} s, or cannot write to "
            f"{self._run.folder}",
            f"ddpkit status {self._run.run_id}; df -h {self._run.folder}",
        )

    def close(self) -> None:
        """Nothing is left open."""


class FromJob:
    """The other shell's part for a job: a step beside its own, for as long as somebody looks."""

    def __init__(self, run: Run, interval: float) -> None:
        from ddpkit.transports.srun_overlap import Beside

        assert run.job_id is not None
        self._run = run
        self._reader = dump.started(run)
        self._beside = Beside(self._reader, run.job_id, idle=IDLE + 2 * interval)
        self._number = 0
        self._answered = False

    def sample(self, span: float, pss: bool) -> dict[str, Any] | None:
        """One sample of every node that answers; None where the job ended meanwhile. Raises DdpkitError."""
        from ddpkit.run import status

        self._number += 1
        began, limit = time.time(), LIMIT + span
        packed, why = self._beside.ask({"id": self._number, "span": span, "pss": pss, "limit": limit})
        answers = [Answered(data) for data in packed]
        if not answers and not status.get_status(self._run).living:
            return None
        if not answers and not self._answered:
            raise DdpkitError(
                f"no node of job {self._run.job_id} answered: {why}", f"squeue --steps --job {self._run.job_id}"
            )
        self._answered = True
        if not any(answer.sample["ranks"] for answer in answers):
            # They have ended, or SLURM started the job again: then its output says where they are now.
            self._reader = self._beside.reader = dump.started(self._run)
        heard = {answer.host for answer in answers}
        silent: dict[str, list[int]] = {}
        for rank, host in self._reader.hosts.items():
            if host not in heard:
                silent.setdefault(host, []).append(rank)
        return {"t": began, "ending": False, "hosts": [each.sample for each in answers], "silent": silent}

    def close(self) -> None:
        self._beside.close()


Source = FromLauncher | FromJob
