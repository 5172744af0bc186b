"""Samples of a living run's ranks, written beside its logs every few seconds for `ddpkit status` in another shell.

`status.json` holds {"t", "hosts", "prev"}; `hosts` is {host: {"t", "ranks": {rank: {"pid", "state", "cpu", "rss",
"out", "code", "signal"}}}}, `prev` the same of the look before, so that one reading of the file gives rates. Times are
seconds since the epoch, `cpu` the processor seconds of a rank and all below it, `rss` their bytes, `state` the kernel's
letter, `out` the time of its last line.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from ddpkit.files import write_atomically
from ddpkit.launchers.events import RankSample
from ddpkit.launchers.typed_json import RankName

EVERY = 5.0  # least seconds between two writes
_UNKNOWN: RankSample = {"pid": None, "state": "", "cpu": 0.0, "rss": 0, "out": None}


class RankEntry(RankSample):
    """The last sample of one rank. `code` and `signal` are None while it runs."""

    code: int | None
    signal: int | None


class HostEntry(TypedDict):
    """The ranks of one host. `t`: its last sign of life."""

    t: float
    ranks: dict[RankName, RankEntry]


class StatusFile(TypedDict):
    """Content of `status.json`. `prev`: `hosts` of the look before."""

    t: float
    hosts: dict[str, HostEntry]
    prev: dict[str, HostEntry]


class Vitals:
    """The last sample of every rank."""

    def __init__(self, folder: Path) -> None:
        self._record = GrowingRecord(folder / "status.json", self._pieces, EVERY)
        self._hosts: dict[str, HostEntry] = {}
        self._before = ""  # the text of `hosts` in the look before

    def record(self, host: str, when: float, ranks: Mapping[str, RankSample]) -> None:
        """Record a host's sign of life."""
        known = self._hosts.setdefault(host, {"t": when, "ranks": {}})
        known["t"] = when
        for rank, now in ranks.items():
            known["ranks"][rank] = {**now, "code": None, "signal": None}

    def turn(self) -> None:
        """Write when it is due, also where no node reports: the file says to other machines that the launcher lives."""
        self._record.turn()

    def record_exit(self, host: str, rank: int, code: int | None, number: int | None) -> None:
        known = self._hosts.setdefault(host, {"t": time.time(), "ranks": {}})
        last: RankSample = known["ranks"].get(str(rank)) or _UNKNOWN
        known["ranks"][str(rank)] = {**last, "state": "", "code": code, "signal": number}

    def write(self) -> None:
        """Write the last state."""
        self._record.write()

    def _pieces(self) -> Iterator[str]:
        """The file's text. Each piece is made at once, while the loop goes on between two of them."""
        now = time.time()
        known = [(host, {"t": each["t"], "ranks": dict(each["ranks"])}) for host, each in list(self._hosts.items())]
        hosts = ", ".join(f"{json.dumps(host)}: {json.dumps(each)}" for host, each in known)
        yield f'{{"t": {now}, "hosts": {{{hosts}}}, "prev": {{{self._before}}}}}'
        self._before = hosts


# ---- replaces a record of a living run now and then, from a thread: neither a disk nor the encoding holds up the loop


SHARE = 0.005  # of a CPU that the writes of one record take at most
BYTES = 55_000  # a second at most, on the average: 0.2 GB an hour
CHUNK = 1 << 16  # bytes that are written at once
LAST = 10.0  # seconds that the end of a run waits for a disk


class GrowingRecord:
    """One file, which a run of thousands of ranks replaces more rarely than a small one."""

    def __init__(self, path: Path, pieces: Callable[[], Iterable[str]], every: float) -> None:
        """`pieces` yields the text, from a thread. `every`: least seconds between two writes."""
        self._path, self._pieces, self._every = path, pieces, every
        self._thread: threading.Thread | None = None
        self._due = 0.0  # time.monotonic()

    def turn(self) -> None:
        """Begin to write, if it is time."""
        if time.monotonic() < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = time.monotonic() + self._every
        self._thread = threading.Thread(target=self._write, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had
            self._thread = None
            self._write()

    def write(self) -> None:
        """Write the last state. A disk that does not answer is not waited for."""
        if self._thread is not None:
            self._thread.join(LAST)
            if self._thread.is_alive():
                return
        self._write()

    def _write(self) -> None:
        """Replace the file at once. A full disk must not end a run: then the last state stays."""
        began = time.thread_time()
        sizes: list[int] = []
        try:
            write_atomically(self._path, self._chunks(sizes))
        except OSError:
            pass
        pause = max(self._every, (time.thread_time() - began) / SHARE, sum(sizes) / BYTES)
        self._due = time.monotonic() + pause

    def _chunks(self, sizes: list[int]) -> Iterator[bytes]:
        """Yield the text in parts, and add their sizes: of 8,000 ranks all of it is 10 MB."""
        chunk = bytearray()
        for piece in self._pieces():
            chunk += piece.encode()
            if len(chunk) >= CHUNK:
                sizes.append(len(chunk))
                yield bytes(chunk)
                chunk.clear()
        sizes.append(len(chunk))
        yield bytes(chunk)
