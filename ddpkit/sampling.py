"""A sample of every node of a run: the launcher's part, and that of the shell that wants it.

The shell leaves `top.ask` in the run's folder, {"span", "pss"}, and sends the launcher a signal (WINCH: whoever does
not know it ignores it). The launcher asks its supervisors, and answers with `top.json`: {"number", "t", "ending",
"hosts", "silent"}. So nothing listens, nothing is polled while nobody asks, and the kernel sees to it that only the
run's owner can ask. `hosts` are samples as `ddpkit.node.sample` takes them; several shells that ask at once get the
same ones.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ddpkit import dump, runs
from ddpkit.errors import DdpkitError, UsageError
from ddpkit.link import LOOK, NODE, Event
from ddpkit.relay import Relay

if TYPE_CHECKING:
    from ddpkit.runs import Run

LIMIT = 4.0  # seconds in which a node takes its sample
SPAN = 0.5  # seconds between the two looks of a first sample
IDLE = 60.0  # seconds without a word after which a step that takes samples ends by itself
PATIENCE = 14.0  # seconds for a launcher to answer
ASK_FILE, ANSWER = "top.ask", "top.json"


def source() -> str:
    return (NODE / "sample.py").read_text()


class Answered:
    """One host's sample as it came over the wire. Raises ValueError."""

    def __init__(self, data: str, host: str = "") -> None:
        try:
            self.sample: dict[str, Any] = json.loads(zlib.decompress(b64decode(data)))
            self.host = self.sample["host"] = host or str(self.sample["host"])
        except (zlib.error, KeyError, TypeError) as error:
            raise ValueError(f"{host} answered with what is not understood: {error}") from None


class Launcher(Protocol):
    """What asks: see `ddpkit.execute.Carrier`."""

    relay: Relay
    deadline: float | None

    @property
    def nodes(self) -> Sequence[Any]: ...

    def tell(self, command: Event) -> None: ...


class Sampling:
    """The launcher's part: one question at a time."""

    def __init__(self, launcher: Launcher) -> None:
        self.question: dump.Question | None = None
        self._launcher = launcher
        self._folder = launcher.relay.folder
        self._number = 0
        self._source = source()

    def ask(self) -> None:
        """Ask every node, if another shell wants it. Who asks while an answer is on its way gets the same one."""
        path = self._folder / ASK_FILE
        try:
            asked = json.loads(path.read_text())
            path.unlink(missing_ok=True)
            wanted = {"span": float(asked["span"]), "pss": bool(asked["pss"])}
        except (OSError, ValueError, TypeError, KeyError):
            return
        if self._launcher.deadline is not None:
            self._write([], {}, time.time())
        elif self.question is None:
            self._number += 1
            there = [node for node in self._launcher.nodes if not node.ended]
            silent = {node.step.host: sorted(node.running) for node in there if not node.step.srun}
            limit = LIMIT + wanted["span"]
            self.question = dump.Question(self._number, "top", silent, len(there), limit, Answered)
            self._launcher.tell({"c": "top", "id": self._number, "limit": limit, "source": self._source, **wanted})

    def turn(self) -> None:
        """Come back to a question that was answered."""
        if self.question is not None and self.question.over:
            asked, self.question = self.question, None
            self._write([each.sample for each in asked.answers], asked.silent, asked.began)

    def _write(self, hosts: list[dict[str, Any]], silent: dict[str, tuple[int, ...]], began: float) -> None:
        found = {"t": began, "ending": self._launcher.deadline is not None, "hosts": hosts, "silent": silent}
        beside = self._folder / f"{ANSWER}.{os.getpid()}"
        try:
            beside.write_text(json.dumps({"number": f"{os.getpid()}.{time.monotonic_ns()}", **found}))
            beside.replace(self._folder / ANSWER)
        except OSError:
            pass  # a full disk must not end a run; who asked is told so when nothing comes


class FromLauncher:
    """The other shell's part: samples of a run whose launcher lives on this machine."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._answer = Path(run.folder) / ANSWER
        self._last = self._read().get("number")
        self._ending = 1.0  # seconds for the end of a launcher that does not listen

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._answer.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def sample(self, span: float, pss: bool) -> dict[str, Any] | None:
        """One sample of every node; None where the run ended meanwhile. Raises DdpkitError."""
        run, ask = self._run, Path(self._run.folder) / ASK_FILE
        beside = ask.with_name(f"{ask.name}.{os.getpid()}")
        try:
            beside.write_text(json.dumps({"span": span, "pss": pss}))
            beside.replace(ask)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise UsageError(
                f"cannot write to {run.folder}, through which run {run.run_id} is asked: {error.strerror}",
                f"df -h {run.folder}; ls -ld {run.folder}",
            ) from None
        try:
            dump.rouse(run, LOOK, "top")
            return self._wait()
        except UsageError:
            # A launcher at its end listens no longer; a moment later its record says how it ended.
            if runs.process_state(run.launcher_pid) not in ("T", "t") and runs.wait(run, self._ending):
                return None
            raise
        finally:
            ask.unlink(missing_ok=True)  # a launcher that did not take it is not to take it later

    def _wait(self) -> dict[str, Any] | None:
        until, seen = time.monotonic() + PATIENCE, 0
        while time.monotonic() < until:
            try:
                changed = self._answer.stat().st_mtime_ns
            except OSError:
                changed = 0
            if changed != seen:
                seen, found = changed, self._read()
                if found.get("number") not in (None, self._last):
                    self._last, self._ending = found["number"], PATIENCE
                    return found
            if not runs.alive(self._run):
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
        from ddpkit import dump
        from ddpkit.beside import Beside

        assert run.job_id is not None
        self._run = run
        self._reader = dump.started(run)
        self._beside = Beside(self._reader, run.job_id, idle=IDLE + 2 * interval)
        self._number = 0

    def sample(self, span: float, pss: bool) -> dict[str, Any] | None:
        """One sample of every node that answers; None where the job ended meanwhile. Raises DdpkitError."""
        from ddpkit import status

        self._number += 1
        began, limit = time.time(), LIMIT + span
        packed, why = self._beside.ask({"id": self._number, "span": span, "pss": pss, "limit": limit})
        answers = [Answered(data) for data in packed]
        if not answers:
            if not status.look(self._run).living:
                return None
            raise DdpkitError(
                f"no node of job {self._run.job_id} answered: {why}", f"squeue --steps --job {self._run.job_id}"
            )
        heard = {answer.host for answer in answers}
        silent: dict[str, list[int]] = {}
        for rank, host in self._reader.hosts.items():
            if host not in heard:
                silent.setdefault(host, []).append(rank)
        return {"t": began, "ending": False, "hosts": [each.sample for each in answers], "silent": silent}

    def close(self) -> None:
        self._beside.close()


Source = FromLauncher | FromJob
