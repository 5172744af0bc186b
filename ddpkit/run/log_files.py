"""Log files of a run: each line lies on disk once, in the file of its rank, and `all.index` has the order of all.

A thread writes them: the loop hands over what came, and waits for no disk. docs/internals/logs.md has the form of the
index, and what happens to lines for which there is no room.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ddpkit.files import open_for_append, remove_if_same, rename_if_same
from ddpkit.text import format_size, last_state

INDEX, ALL = "all.index", "all.log"
OWN = "ddpkit"  # name of ddpkit's own lines
OWN_FRONT = b"[ddpkit] "
NO_HOST = "-"
HOST = r"[\w.:%?@+-]{1,255}"  # a host in the name of a file: no path. SLURM may not know it yet: `?`
LOG_MODE = 0o644  # less the umask: others may read, and never write
BATCH = 1 << 18  # bytes that are handed over together
LIMIT = 16 << 20  # bytes that wait for a disk
STALLED = 5.0  # seconds without a write after which a full memory holds up no rank
RETRY = 1.0  # seconds between two looks whether a disk that was full has room
PATIENCE = 10.0  # seconds without a write that the end of a run waits for its logs
BLOCK_SECONDS, BLOCK_BYTES, BLOCK_LINES = 1.0, 1 << 14, 1 << 18  # of one block of the index; bytes of its lines
FINE = 0.02  # seconds of a block, where the lines of several logs are put together by their times
NO_ANSWER = "the disk does not answer"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Of a run with a limit: the index has so much of it, and a file is cut where it holds so much of what is there.
INDEX_PART, CUT = 5, 8
LEAST_CUT = 1 << 15  # bytes

Piece = tuple[str, str, bytes]  # name, host, bytes
Written = tuple[str, str, int, bytes]  # name, host, begin in its file, bytes


def file_name(name: str) -> str:
    """Return the file of a rank's number, or of an agent: `3`, `torchrun_node1`, `ddpkit`."""
    return name if name in (INDEX, ALL) else f"rank_{name}.log" if name.isdecimal() else f"{name}.log"


def part_name(file: str, begin: int) -> str:
    """Return the name of an earlier part of a file, which begins at so many bytes of all: `rank_3.from_65536.log`."""
    stem, _, suffix = file.rpartition(".")
    return f"{stem}.from_{begin}.{suffix}"


def front_of(name: str, host: str) -> bytes:
    """Return what stands before a line: `[3 node1] `."""
    if name == OWN:
        return OWN_FRONT
    return f"[{name.removesuffix(f'_{host}')} {host}] ".encode("utf-8", "surrogateescape")


class PiecesOfLines:
    """Joins the bytes of each name to lines. A state of a progress bar waits for the end of its line."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}

    def add(self, name: str, data: bytes) -> list[bytes]:
        """Return the lines that end in these bytes. A piece of a line that is too long to wait for its end is one."""
        state = self._states.pop(name, b"") if self._states else b""
        *lines, rest = (state + data).split(b"\n")
        if rest.endswith(b"\r"):
            self._states[name] = last_state(rest) + b"\r"
        elif rest:
            lines.append(rest)
        return [last_state(line) for line in lines] if b"\r" in data or state else lines


class _Index:
    """Rows of `all.index`, in blocks that can be read alone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds  # of one block
        self._known: dict[str, tuple[str, int]] = {}  # host of each name in this block, and where its last piece ended
        self._began, self._size, self._lines = 0.0, BLOCK_BYTES, 0

    def break_off(self) -> None:
        """Begin a new block: what was written last is not whole."""
        self._size = BLOCK_BYTES

    def rows(self, when: float, pieces: Iterable[tuple[str, str, int, int]]) -> bytes:
        """Return the rows of pieces: name, host, length, and begin in their file."""
        rows: list[str] = []
        for name, host, length, begin in pieces:
            if self._size >= BLOCK_BYTES or self._lines >= BLOCK_LINES or when - self._began >= self._seconds:
                rows.append(f"\n@ {when:.3f}\n")
                self._known.clear()
                self._began, self._size, self._lines = when, 0, 0
            known = self._known.get(name) == (host, begin)
            rows.append(f"{name} {length}\n" if known else f"{name} {length} {begin} {host or NO_HOST}\n")
            self._known[name] = host, begin + length
            self._size += len(rows[-1])
            self._lines += length
        return "".join(rows).encode("utf-8", "surrogateescape")


class _File:
    """One log: how much it has had, and its earlier parts. Of thousands of ranks each has one."""

    __slots__ = ("begin", "kept", "parts", "retry_at", "size", "torn", "was_there")

    def __init__(self) -> None:
        self.begin, self.size = 0, 0  # bytes of all earlier parts, and of the file
        self.parts: list[tuple[str, os.stat_result]] = []
        self.kept = 0  # bytes of the file and of the parts that are still there
        self.was_there = False  # before the run: it is not cut
        self.retry_at = 0.0  # time.monotonic(): until then nothing is written, unless there is memory for what waits
        self.torn = False  # what was written last is a part of a line


class LogFiles:
    """The logs of one run. `keep` and `hand_over` never wait."""

    def __init__(
        self, folder: Path, *, all_log: bool = False, limit: int = 0, block_seconds: float = BLOCK_SECONDS
    ) -> None:
        """`all_log`: write all lines into `all.log` as well. `limit`: bytes of all logs at about most; 0: no limit."""
        self.folder = folder
        self.missing = 0  # lines that are in no log
        self.dropped = 0  # bytes that gave way to newer ones
        self.on_problem: Callable[[str], object] = lambda _: None  # called from the thread
        self._all, self._limit = PiecesOfLines() if all_log else None, limit
        self._pieces: list[Piece] = []
        self._size = 0  # bytes of them
        self._changed = threading.Condition()
        self._batches: deque[tuple[float, int, list[Piece]]] = deque()  # time, bytes, pieces
        self._writing: list[Piece] = []  # what the thread writes now
        self._waiting = 0  # bytes that were handed over and are not written
        self._progress = 0.0  # time.monotonic() of the last write
        self._thread: threading.Thread | None = None
        self._closing = False
        self._why = ""  # the last error of a log; empty: none
        # What the thread alone uses.
        self._files: defaultdict[str, _File] = defaultdict(_File)
        self._open: dict[str, int] = {}  # the last one is the one that was written last
        self._block_seconds = block_seconds
        self._index = _Index(block_seconds)
        self._gaps: set[str] = set()  # logs whose last lines are missing, and that do not say so yet
        # One log for each rank of many nodes is more than the usual 1024; half is left for the connections to them.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = 1 << 16 if most == resource.RLIM_INFINITY else max(1, most // 2)

    # ---- the loop

    def keep(self, name: str, host: str, data: bytes) -> None:
        """Take bytes of a rank, an agent or ddpkit itself."""
        if data:
            self._pieces.append((name, host, data))
            self._size += len(data)
            if self._size >= BATCH:
                self.hand_over()

    @property
    def has_pieces(self) -> bool:
        return bool(self._pieces)

    def hand_over(self) -> None:
        """Give what was taken to the thread. If the disk has stood still for long, it is lost, and counted."""
        if not self._pieces:
            return
        pieces, size = self._pieces, self._size
        self._pieces, self._size = [], 0
        with self._changed:
            if self._waiting >= LIMIT and self._has_stalled:
                self._lose(pieces)
                self._why = self._why or NO_ANSWER
                return
            if not self._waiting:
                self._progress = time.monotonic()
            self._batches.append((time.time(), size, pieces))
            self._waiting += size
            if self._thread is None:
                self._start()
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether so much waits for a disk that works that the ranks are not to print more."""
        return self._waiting >= LIMIT and not self._has_stalled

    @property
    def _has_stalled(self) -> bool:
        return time.monotonic() - self._progress > STALLED

    def sync(self, patience: float = STALLED) -> bool:
        """Wait until all is written, unless the disk stands still for so many seconds. Tell whether it is."""
        self.hand_over()
        began = time.monotonic()
        with self._changed:
            while self._waiting and time.monotonic() - max(began, self._progress) < patience:
                self._changed.wait(0.1)
            return not self._waiting

    def close(self) -> None:
        """Write what waits. A disk that does not answer is not waited for; a full one gets one more try."""
        self.hand_over()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        done = self.sync(PATIENCE)
        with self._changed:
            if not done:
                self._why = self._why or NO_ANSWER
                for pieces in [self._writing, *(pieces for _, _, pieces in self._batches)]:
                    self._lose(pieces)
        if self._thread is not None and done:
            self._thread.join(PATIENCE)

    def restart(self) -> None:
        """Begin new files: the ones before were moved."""
        self.close()
        self._files.clear()
        self._open = {}
        self._index, self._all = _Index(self._block_seconds), self._all and PiecesOfLines()
        self._thread, self._closing = None, False

    @property
    def problem(self) -> str:
        """What is missing in the logs, and why; empty: nothing."""
        words = []
        if self.missing:
            lines = "1 line is" if self.missing == 1 else f"{self.missing} lines are"
            words.append(f"{lines} missing in the logs: {self._why}")
        if self.dropped:
            words.append(f"the oldest {format_size(self.dropped)} of the logs gave way to newer lines: {self._rule}")
        return "; ".join(words)

    @property
    def _rule(self) -> str:
        return f"log_limit is {format_size(self._limit)}"

    # ---- the thread

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="ddpkit logs", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had
            self._thread = None
            self._write(*self._batches.popleft())

    def _run(self) -> None:
        """Write batches until `close`, or until another thread has taken over. Then say where lines are missing."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._batches or self._closing)
                if not self._batches or self._thread is not threading.current_thread():  # given up: another one writes
                    break
                batch = self._batches.popleft()
                self._writing = batch[2]
            self._write(*batch)
        if self._gaps:  # say so at the end as well
            self._index.break_off()
            rows = self._index.rows(time.time(), self._merged(self._say_gap(set(self._gaps))))
            self._append(INDEX, rows)
        for file in self._open.values():
            with suppress(OSError):
                os.close(file)
        self._open.clear()

    def _write(self, when: float, size: int, pieces: list[Piece]) -> None:
        self._write_pieces(when, pieces)
        with self._changed:
            self._waiting -= size
            self._changed.notify_all()

    def _write_pieces(self, when: float, pieces: list[Piece]) -> None:
        """Write each name's bytes at once, then the rows of what was written."""
        together: dict[str, list[bytes]] = {}
        for name, _, data in pieces:
            together.setdefault(name, []).append(data)
        if self._limit:
            self._begin_parts([INDEX, ALL, *together])
        begins, left = {}, {}  # by name: where its bytes begin in the file, and how many of them were written
        for name, each in together.items():
            begins[name], left[name] = self._append_all(name, b"".join(each))
        whole = {name for name, each in together.items() if left[name] == sum(map(len, each))}
        written_pieces = [*self._say_gap(whole), *self._written(pieces, begins, left)]
        rows = self._index.rows(when, self._merged(written_pieces))
        if self._append(INDEX, rows) < len(rows):
            self._index.break_off()
            self._gaps |= together.keys()
        if self._all is not None:
            lines = [(front_of(name, host), self._all.add(name, data)) for name, host, _, data in written_pieces]
            self._append(ALL, b"".join(front + line + b"\n" for front, each in lines for line in each))
        if self._limit:
            self._drop_parts()

    def _say_gap(self, whole: Iterable[str]) -> list[Written]:
        """Write that lines are missing before those of the names that are written again."""
        with self._changed:
            closed_gaps = self._gaps.intersection(whole)
        if not closed_gaps:
            return []
        words, log = self._gap_words, self._files[OWN]
        written = self._append(OWN, words)
        self._gaps -= closed_gaps if written == len(words) else set()
        return [(OWN, "", log.begin + log.size - written, words[:written])] if written else []

    @staticmethod
    def _written(pieces: list[Piece], begins: dict[str, int], left: dict[str, int]) -> list[Written]:
        """Return what was written of pieces, each with its begin in its file. Counts both dictionaries down."""
        found = []
        for name, host, data in pieces:
            written = data[: left[name]]
            if written:
                found.append((name, host, begins[name], written))
                begins[name] += len(written)
                left[name] -= len(written)
        return found

    @staticmethod
    def _merged(pieces: list[Written]) -> Iterable[tuple[str, str, int, int]]:
        """Yield name, host, length and begin; whole lines of one name that follow each other are one piece."""
        last: tuple[str, str, int, int] | None = None
        whole = False
        for name, host, begin, data in pieces:
            if last is not None and whole and last[:2] == (name, host):
                last = (name, host, last[2] + len(data), last[3])
            else:
                if last is not None:
                    yield last
                last = (name, host, len(data), begin)
            whole = data.endswith(b"\n")
        if last is not None:
            yield last

    def _append_all(self, name: str, data: bytes) -> tuple[int, int]:
        """Append to a log, and count what is lost. Returns where it was written in its file, and its length."""
        log, written = self._files[name], self._append(name, data)
        if written < len(data):
            self._lose([(name, "", data[written:])])
        return log.begin + log.size - written, written

    def _append(self, name: str, data: bytes) -> int:
        """Append to a log. Returns how many bytes of `data` are in it: without room, after a while, not all.

        After a torn line the next one begins on a row of its own.
        """
        log, done = self._files[name], 0
        if not data or (time.monotonic() < log.retry_at and not self._has_memory and not self._closing):
            return 0
        end = b"\n" if log.torn else b""
        view = memoryview(end + data)
        while done < len(view):
            last = self._closing
            try:
                done += os.write(self._open_file(name, log), view[done:])
                self._progress = time.monotonic()
            except OSError as error:
                self._close_file(name)
                if not self._wait_for_room(error, last):
                    log.retry_at = time.monotonic() + RETRY
                    break
        log.size += done
        log.kept += done
        if done:
            log.torn = done < len(view) and view[done - 1] not in b"\r\n"
        return max(0, done - len(end))

    def _open_file(self, name: str, log: _File) -> int:
        file = self._open.pop(name, None)
        if file is None:
            if len(self._open) >= self._most:
                self._close_file(next(iter(self._open)))
            file = open_for_append(str(self.folder / file_name(name)), LOG_MODE)
            if not log.begin and not log.size:
                log.size = os.fstat(file).st_size
                log.was_there = log.size > 0
        self._open[name] = file
        return file

    def _close_file(self, name: str) -> None:
        file = self._open.pop(name, None)
        if file is not None:  # it may be one that is gone for good (ESTALE)
            with suppress(OSError):
                os.close(file)

    def _wait_for_room(self, error: OSError, last: bool) -> bool:
        """Wait a moment for room on a full disk, while there is room in memory. Says once what is wrong.

        `last`: whether this was the last try. Returns whether to try again.
        """
        first, self._why = not self._why, error.strerror or type(error).__name__
        if first:
            what = f"cannot write logs in {self.folder}: {self._why}"
            self.on_problem(f"{what}; the run continues, and what finds no room in memory is missing there")
        if error.errno not in NO_ROOM or not self._has_memory or last:
            return False
        with self._changed:
            self._changed.wait_for(lambda: self._closing or not self._has_memory, RETRY)
        return True

    @property
    def _has_memory(self) -> bool:
        return self._waiting < LIMIT // 2

    def _lose(self, pieces: Iterable[Piece]) -> None:
        for name, _, data in pieces:
            self._gaps.add(name)
            self.missing += data.count(b"\n")

    @property
    def _gap_words(self) -> bytes:
        return f"lines are missing here: {self._why}\n".encode()

    # ---- the limit

    def _begin_parts(self, names: Iterable[str]) -> None:
        """Begin a new file for each of these names whose file is large: only whole parts can be dropped later."""
        of_index = self._limit // INDEX_PART
        share = (self._limit - of_index) // (4 * max(1, len(self._files)))  # of four parts for each log
        for name in names:
            log = self._files.get(name)
            least = of_index // CUT if name == INDEX else max(share, log.kept // CUT if log else 0)
            if log is not None and log.size >= max(LEAST_CUT, least):
                self._begin_part(name, log)

    def _drop_parts(self) -> None:
        """Remove the oldest parts beyond the limit."""
        of_index = self._limit // INDEX_PART
        self._drop([self._files[INDEX]], of_index)
        self._drop([log for name, log in self._files.items() if name != INDEX], self._limit - of_index)

    def _begin_part(self, name: str, log: _File) -> None:
        """Move a log to the name of an earlier part; the next line begins a new file."""
        if log.was_there:
            return
        file = file_name(name)
        part = part_name(file, log.begin)
        made = os.fstat(self._open_file(name, log))
        with suppress(OSError):
            if rename_if_same(str(self.folder / file), str(self.folder / part), made):
                log.parts.append((part, made if made.st_size == log.size else self._resized(part)))
                log.begin, log.size = log.begin + log.size, 0
                self._close_file(name)

    def _resized(self, part: str) -> os.stat_result:
        return (self.folder / part).lstat()

    def _drop(self, logs: list[_File], limit: int) -> None:
        """Remove the oldest parts of the logs that have most, until all hold so many bytes. Each keeps one part."""
        kept = sum(log.kept for log in logs)
        while kept > limit:
            most = max((log for log in logs if len(log.parts) > 1), key=lambda log: log.kept, default=None)
            if most is None:
                return
            part, made = most.parts.pop(0)
            with suppress(OSError):
                remove_if_same(str(self.folder / part), made)
            most.kept -= made.st_size
            kept -= made.st_size
            first, self.dropped = not self.dropped, self.dropped + made.st_size
            if first:
                words = f"{self._rule}: from now on the oldest lines give way to new ones"
                self._write_pieces(time.time(), [(OWN, "", f"{words}\n".encode())])
