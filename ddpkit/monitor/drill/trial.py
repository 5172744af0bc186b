"""One launch of the drill: `ddpkit launch` as a process of its own, its lines and checkpoints, and a fault."""

from __future__ import annotations

import ctypes
import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from ddpkit.errors import DdpkitError, UsageError, no_process
from ddpkit.files import read_part
from ddpkit.monitor.drill.pace import LEAST, Key, Line, Progress, steps
from ddpkit.monitor.rank_command import find_rank
from ddpkit.node import drill_fault
from ddpkit.node.bundle import read_texts
from ddpkit.node.child import die_with_parent
from ddpkit.node.drill_fault import is_checkpoint
from ddpkit.run import run_index
from ddpkit.run.record import Run

_CLOSE_WRITE, _MOVED_TO, _CREATE, _IS_DIRECTORY = 0x8, 0x80, 0x100, 0x40000000
_HEAD = struct.Struct("iIII")


class Writes:
    """Watches a directory, and those that are made in it, on a disk of this machine. Sees nothing without inotify."""

    _libc: ctypes.CDLL
    _thread: threading.Thread
    _wake: int  # ends of a pipe: the thread ends when `close` writes into `_end`
    _end: int

    def __init__(self, folder: Path) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)
        self._folders: dict[int, Path] = {}
        self._named: set[str] = set()  # files that were renamed, perhaps while they were open
        self._fd = -1
        if sys.platform != "linux":
            return
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC)
        if self._fd >= 0:
            self._add(folder)
            self._wake, self._end = os.pipe()
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()

    def _add(self, folder: Path) -> None:
        watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO | _CREATE)
        if watch >= 0:
            self._folders[watch] = folder

    def _read(self) -> None:
        """Note each file that was written or renamed, and watch each new directory, until `close`."""
        import select

        poll = select.poll()
        for fd in (self._fd, self._wake):
            poll.register(fd, select.POLLIN)
        while self._wake not in (fd for fd, _ in poll.poll()):
            data, now, at = os.read(self._fd, 1 << 16), time.time(), 0
            while at < len(data):
                watch, mask, _, length = _HEAD.unpack_from(data, at)
                name = os.fsdecode(data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0"))
                at += _HEAD.size + length
                path = self._folders.get(watch, Path()) / name
                if mask & _IS_DIRECTORY:
                    self._add(path)
                elif mask & (_CLOSE_WRITE | _MOVED_TO) and is_checkpoint(name):
                    self._note(str(path), now, renamed=bool(mask & _MOVED_TO))

    def _note(self, path: str, now: float, *, renamed: bool) -> None:
        """Note a write. safetensors renames a file, and closes it then: both are one write."""
        if renamed or path not in self._named:
            self._times[path].append(now)
        self._named.discard(path)
        if renamed:
            self._named.add(path)

    def times(self) -> Mapping[str, Sequence[float]]:
        """Return when each file was written whole, or got its name; seconds since the epoch."""
        return {name: list(times) for name, times in list(self._times.items())}

    def close(self) -> None:
        """Watch no longer."""
        if self._fd >= 0:
            os.write(self._end, b".")
            self._thread.join(5)
            for each in (self._fd, self._wake, self._end):
                os.close(each)
            self._fd = -1


# ---- a launch


LOOK = 0.02  # seconds between two looks at the run
ARMED = 30.0  # seconds in which an injector has to be ready
TOO_SHORT = "the script ended before the fault: run it for longer"
_LINE = re.compile(r"\[(\d+) [^\]]*\] ?(.*)")
_BEGUN = re.compile(r"ddpkit: run (\S+): .*; logs in (.*)/")
_ERROR = "ddpkit: error: "
_MOST = 1 << 20  # bytes of a metrics file that are read at once


class Save(NamedTuple):
    """A checkpoint that is new, or has changed."""

    at: float  # seconds since the epoch
    name: str
    size: int


@dataclass
class Trial:
    """A launch and what it showed. `folder` has its checkpoints."""

    folder: Path
    began: float = field(default_factory=time.time)
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # ddpkit's own lines
    saves: list[Save] = field(default_factory=list)
    run_id: str = ""
    log_folder: str = ""
    code: int | None = None  # None: it was ended, as it did not end by itself
    ended: float = 0.0
    record: Mapping[str, Any] = field(default_factory=dict)
    fault_at: float = 0.0
    seen: str = ""  # what an injector saw
    problem: str = ""  # the fault could not be injected
    writes: Mapping[str, Sequence[float]] = field(default_factory=dict)  # times, by file

    def last(self, key: Key | None, until: float | None = None) -> Progress | None:
        """Return the last progress, up to a time."""
        shown = [step.progress for step in steps(self.lines, key) if until is None or step.at <= until]
        return shown[-1] if shown else None

    def split(self, at: float) -> tuple[Trial, Trial]:
        """Return what it showed before a time, and after it."""
        early, late = [line for line in self.lines if line.at < at], [line for line in self.lines if line.at >= at]
        before, after = [save for save in self.saves if save.at < at], [save for save in self.saves if save.at >= at]
        return replace(self, lines=early, saves=before), replace(self, lines=late, saves=after)

    @property
    def failed_rank(self) -> int | None:
        """The rank that the verdict names."""
        failure = self.record.get("failure") or {}
        rank = failure.get("rank")
        return rank if isinstance(rank, int) else None

    @property
    def refusal(self) -> str:
        """The error of a launch that started nothing."""
        own = (note.partition(_ERROR)[2] for note in self.notes if note.startswith(_ERROR))
        return next(own, "")

    @property
    def verdict(self) -> str:
        return str(self.record.get("verdict") or "")


def _begin(parent: int) -> None:
    """Bind a new process to the drill, with signals as usual: a drill that a script starts with `&` ignores SIGQUIT."""
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    die_with_parent(parent, signal.SIGTERM)


class Launch:
    """A running launch. Ends it when the block is left."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self.trial = Trial(folder)
        self._seen = drill_fault.look(str(folder))  # facts of each checkpoint at the last look
        self._writes = Writes(folder)
        self._metrics: dict[str, int] = {}  # by file: bytes that were read
        for path in self._metric_files():
            with suppress(OSError):  # lines of an earlier launch are not this one's
                self._metrics[path] = Path(path).stat().st_size
        own = os.getpid()
        try:
            self._process = subprocess.Popen(
                argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: _begin(own),  # noqa: PLW1509 (it only makes system calls)
            )
        except OSError as error:
            self._writes.close()
            raise no_process(error) from None
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        self._document: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read_document, args=(out,), daemon=True),
            threading.Thread(target=self._read, args=(err,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._writes.close()

    def _read_document(self, stream: IO[bytes]) -> None:
        with stream:
            self._document.append(stream.read())

    def _read(self, stream: IO[bytes]) -> None:
        """Note the lines of the ranks, and those of ddpkit, of which one names the run."""
        with stream:
            for raw in stream:
                text = raw.decode("utf-8", "replace").rstrip("\n")
                if found := _LINE.match(text):
                    self.trial.lines.append(Line(time.time(), int(found[1]), found[2]))
                    continue
                self.trial.notes.append(text)
                if begun := _BEGUN.match(text):
                    self.trial.run_id, self.trial.log_folder = begun[1], begun[2]

    def wait(
        self, seconds: float, event: Callable[[Trial], bool] = lambda _: False, *, quiet: float = math.inf
    ) -> bool:
        """Follow the launch until an event, its end, or so many seconds. Returns whether the event came.

        `quiet`: seconds without a line or a checkpoint after which nothing more is waited for, once there were steps.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            over = self._process.poll() is not None
            if over:
                for thread in self._threads:
                    thread.join(10)
            self._look()
            if event(self.trial):
                return True
            if over or self._quiet_for() > quiet:
                return False
            time.sleep(LOOK)
        return False

    def _quiet_for(self) -> float:
        """Return the seconds since the last line or checkpoint; 0 before there were steps."""
        if len(self.trial.lines) < LEAST:
            return 0.0
        saved = self.trial.saves[-1].at if self.trial.saves else 0.0
        return time.time() - max(self.trial.lines[-1].at, saved)

    def _look(self) -> None:
        """Notice new checkpoints, and new lines of metrics beside them."""
        now = time.time()
        seen = drill_fault.look(str(self.trial.folder))
        self.trial.saves += [Save(now, name, facts[0]) for name, facts in seen.items() if facts != self._seen.get(name)]
        self._seen = seen
        for path in self._metric_files():
            with suppress(OSError):
                text = read_part(Path(path), self._metrics.get(path, 0), _MOST)
                whole_lines = text[: text.rfind(b"\n") + 1]
                self._metrics[path] = self._metrics.get(path, 0) + len(whole_lines)
                self.trial.lines += [Line(now, 0, each.decode("utf-8", "replace")) for each in whole_lines.splitlines()]

    def _metric_files(self) -> list[str]:
        return [path for path in drill_fault.files(str(self.trial.folder)) if path.endswith(".jsonl")]

    def signal(self, number: int) -> None:
        """Send a signal to the launcher, which passes it on, or ends the ranks by it."""
        self.trial.fault_at = time.time()
        self._process.send_signal(number)

    def finish(self, seconds: float, quiet: float = math.inf) -> Trial:
        """Wait for its end as `wait` does, end it if it goes on, and read its record."""
        self.wait(seconds, quiet=quiet)
        trial = self.trial
        trial.ended = time.time()
        trial.code = self._process.poll()
        self.end()
        with suppress(ValueError, IndexError):
            document = json.loads(self._document[0])
            trial.record = document if isinstance(document, dict) else {}
        trial.writes = self._writes.times()
        return trial

    def end(self) -> None:
        """End what is left of it, at once."""
        for number in (signal.SIGQUIT, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(number)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(30)
        for thread in self._threads:
            thread.join(10)

    def run(self) -> Run:
        """Return its record. Raises UsageError."""
        run = run_index.read_run(Path(self.trial.log_folder).absolute())
        if run is None:
            raise UsageError("the run has no record")
        return run

    def beside(self, rank: int, fault: str, value: str = "") -> Injector | None:
        """Start an injector beside a rank; None where there is no way there, with the reason in `problem`.

        It ends with the thread that starts it (`at_rank.py`).
        """
        try:
            place = find_rank(self.run(), rank)
            text = f"{read_texts()['drill_fault']}\nmain(*sys.argv[1:])\n"
            words = ["{python}", "-S", "-I", "-c", text, "{pid}", fault, value]
            argv, env = place.command(words, terminal=False)
        except DdpkitError as error:
            self.trial.problem = self.why_no_fault(error.message)
            return None
        return Injector(argv, env)

    def is_armed(self, injector: Injector) -> bool:
        """Wait until an injector is ready. False: it is not, with the reason in `problem`."""
        armed = injector.is_armed(ARMED)
        if not armed:
            self.trial.problem = self.why_no_fault(injector.close() or "no fault can be injected where the rank runs")
        return armed

    def why_no_fault(self, otherwise: str) -> str:
        """Return why no fault was injected: the script was over before, or what the caller says otherwise."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return TOO_SHORT if self._process.poll() == 0 else otherwise


class Injector:
    """`ddpkit/node/drill_fault.py` beside a rank."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        except OSError as error:
            raise no_process(error) from None
        self._lines: list[str] = []  # that it printed; an empty one at its end
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._lines.append("")
            self._news.notify_all()

    def _wait(self, begin: str, seconds: float) -> str | None:
        """Wait for a line with this beginning. None: it did not come in time, or the injector ended without it."""

        def found() -> list[str]:
            return [line for line in self._lines if line.startswith(begin) or not line]

        with self._news:
            self._news.wait_for(found, seconds)
            return next((line for line in found() if line), None)

    def is_armed(self, seconds: float) -> bool:
        """Whether it is ready, within so many seconds."""
        return self._wait("armed", seconds) is not None

    def go(self) -> None:
        """Inject the fault."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write("go\n")
            self._process.stdin.flush()

    def is_over(self) -> bool:
        """Whether it has injected the fault, or ended without."""
        with self._news:
            return any(line.startswith("done") or not line for line in self._lines)

    def done(self, seconds: float) -> str | None:
        """Return what it saw, within so many seconds; None: it has not injected the fault."""
        line = self._wait("done", seconds)
        return line.partition(" ")[2] if line else None

    def close(self) -> str:
        """End it. Returns its last words."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        self._process.kill()
        self._process.wait()
        self._thread.join(5)
        return next((line for line in reversed(self._lines) if line), "")
