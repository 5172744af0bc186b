"""Lines of a run's logs: of chosen ranks or hosts, the last ones, or all as they are written.

`all.index` has the order of all lines. An earlier attempt of a submitted job has them in `all.log`, with rank and host
in front. A job's own output file is read in its place: it goes on when nobody follows the job, and it holds what came
before a restart.
"""

from __future__ import annotations

import glob
import heapq
import os
import re
import shlex
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ddpkit.errors import UsageError
from ddpkit.files import open_to_read, read_bounded, read_head, read_part
from ddpkit.launchers.events import OutputEvent
from ddpkit.launchers.shell import count
from ddpkit.run import replicas
from ddpkit.run.log_files import ALL, HOST, INDEX, NO_HOST, OWN, OWN_FRONT, PiecesOfLines, file_name
from ddpkit.run.record import Run, attempt_folder, check_output, job_log, machine_of, reader_of
from ddpkit.text import format_hosts, last_state

if TYPE_CHECKING:  # loaded when they are needed: most commands that look at logs need neither
    from ddpkit.diagnosis.read import LogText
    from ddpkit.launchers.job_output import JobOutput

T = TypeVar("T")
MOST_TIMES = 1 << 26  # bytes of all.times
LONGEST = 1 << 23  # bytes of a line; what is longer is more than one
PAUSE = 0.1  # seconds between two looks at a file
BLOCK = 1 << 18  # bytes that are read at once, from the end backwards
LINES_AT_ONCE = 10_000  # of several logs, by their times
LATE = 1.0  # seconds that the last lines may take to be seen in a file of another host
_LABEL = re.compile(rb"\[(\S+) (\S+?)\] (.*)", re.DOTALL)


class Source(Protocol):
    """Lines of a log that may be growing."""

    def read(self) -> list[Line] | None:
        """Return new whole lines; None where there are none."""

    def rest(self) -> list[Line]:
        """Return what is left when the writer is gone."""

    def skip_to_last(self, number: int, matches: Callable[[Line], bool], /) -> None:
        """Begin where the last `number` of the lines that match begin, or before."""


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """Chosen ranks, host, pattern of lines and names of replicas; None: all."""

    ranks: frozenset[int] | None = None
    replicas: frozenset[str] | None = None
    host: str | None = None
    pattern: re.Pattern[bytes] | None = None

    def matches(self, line: Line) -> bool:
        if self.ranks is not None and not (line.source.isdecimal() and int(line.source) in self.ranks):
            return False
        if self.host is not None and self.host not in (line.host, line.host.partition(".")[0]):
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def choose_attempt(run: Run, number: int) -> Run:
    """Return the run with the directory of one attempt. Raises UsageError."""
    total = max(1, len(run.attempts))
    if number > total:
        raise UsageError(f"--attempt {number}: the run has {count(total, 'attempt')}", f"--attempt {total}")
    if number >= len(run.attempts):
        return run
    past = run.attempts[number - 1]
    return replace(run, hosts=past.hosts, ranks={}, folder=str(attempt_folder(Path(run.folder), number)), job=None)


def parse_filter(run: Run, ranks: str | None, host: str | None, grep: str | None) -> LineFilter:
    """Parse the options of a command line. Raises UsageError."""
    try:
        pattern = None if grep is None else re.compile(grep.encode("utf-8", "surrogateescape"))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"--grep {grep}: {error}", "escape special characters of the regular expression: \\("
        ) from None
    known = [name for name in run.hosts if run.job is None and run.hosts != ("slurm",)]
    if host is not None and known and host not in {*known, *(name.partition(".")[0] for name in known)}:
        raise UsageError(f"--host {host}: not a host of run {run.run_id}", f"its hosts: {format_hosts(known)}")
    return LineFilter(ranks=None if ranks is None else _ranks(ranks, run.world_size), host=host, pattern=pattern)


def _ranks(text: str, world_size: int) -> frozenset[int]:
    """Parse `0,2-3`."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise UsageError(f"--rank {text}: not a list of ranks; forms: 3, 0,2 or 4-7")
        low, high = int(first), int(last or first)
        if high < low or high >= world_size:
            raise UsageError(f"--rank {text}: the run has ranks 0-{world_size - 1}")
        ranks |= set(range(low, high + 1))
    return frozenset(ranks)


class _Tail:
    """New bytes of a file that may not exist yet, and may be cut or truncated."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._file = CutFile(path.parent, path.name)
        self._offset = max(offset, self._file.first)

    def read(self) -> bytes:
        data = self._file.read(self._offset, 1 << 20)
        if not data:
            self._file.refresh()
            self._offset = max(self._offset, self._file.first) if self._offset <= self._file.size else 0
            data = self._file.read(self._offset, 1 << 20)
        self._offset += len(data)
        return data


def _offset(folder: Path, since: float) -> int:
    """Return where the lines begin that were written at `since` or later, to the second. Raises UsageError."""
    try:
        rows = [line.split() for line in read_bounded(folder / "all.times", MOST_TIMES).decode().splitlines()]
        known = [(float(when), int(offset)) for when, offset in rows]
    except (OSError, ValueError):
        raise UsageError(
            f"--since: {folder / 'all.times'} not found", f"ddpkit logs {shlex.quote(str(folder))} --tail 100"
        ) from None
    later = [offset for when, offset in known if when >= since - 1.0]  # one of these lines stands for a second
    return later[0] if later else (folder / ALL).stat().st_size


class _Log:
    """The lines of one file, from `offset` on. `parse` makes a line of what stands between two ends."""

    def __init__(self, path: Path, offset: int, parse: Callable[[bytes], Line]) -> None:
        self.path, self.offset, self._parse = path, offset, parse
        self._tail = _Tail(path, offset)
        self._rest = b""

    def read(self) -> list[Line] | None:
        """Return new whole lines; None where there are none."""
        data = self._tail.read()
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:  # the writer divides its lines: this is no log of ddpkit's
            whole, self._rest = [*whole, self._rest], b""
        return [self._parse(each) for each in whole] if data else None

    def rest(self) -> list[Line]:
        """Return the end of a file whose writer is gone: it need not be a whole line."""
        rest, self._rest = self._rest, b""
        return [self._parse(rest)] if rest else []

    def skip_to_last(self, number: int, matches: Callable[[Line], bool]) -> None:
        """Begin where the last `number` of the lines that match begin, or before. It reads from the end."""
        file = CutFile(self.path.parent, self.path.name)
        end, first = file.size, max(self.offset, file.first)
        seen = 0  # lines that match
        torn = b""  # the end of a line whose begin is in the block before
        while end > first and seen <= number:
            begin = max(first, end - BLOCK)
            head, *lines = (file.read_whole(begin, end - begin) + torn).split(b"\n")
            if len(head) > LONGEST:
                return
            seen += sum(matches(self._parse(each)) for each in lines if each)
            torn, end = head, begin
        self._tail = _Tail(self.path, end + len(torn) + 1 if end > first else first)


def _source(run: Run, wanted: LineFilter, since: float | None) -> Source:
    """Return the lines of a run, or of the chosen replicas of one."""
    if run.replicas:
        return ReplicaLogs(run, wanted, since)
    return _JobOutput(run) if run.job is not None else _open_log(run, wanted, since)


def _open_log(run: Run, wanted: LineFilter, since: float | None) -> _Log | OrderedLog:
    """Return the log of the one rank whose lines are wanted, else that of all. Raises UsageError."""
    folder = Path(run.folder)
    ranks = wanted.ranks or frozenset()
    if len(ranks) == 1 and since is None:
        rank = min(ranks)
        path, host = folder / file_name(str(rank)), next((host for host, own in run.ranks.items() if rank in own), None)
        if host is not None and path.exists():
            return _Log(path, 0, partial(_line_of_rank, str(rank), host))
    if is_ordered(folder):
        return OrderedLog(folder, since)
    return _Log(folder / ALL, 0 if since is None else _offset(folder, since), _line)


def _line_of_rank(rank: str, host: str, data: bytes) -> Line:
    """Make a line of what a rank wrote: of a progress bar, the state that was drawn last."""
    return Line(source=rank, host=host, text=last_state(data))


def _line(data: bytes) -> Line:
    label = _LABEL.match(data)
    if data.startswith(OWN_FRONT) or label is None:
        return Line(source="", host="", text=data.removeprefix(OWN_FRONT))
    source, host = (word.decode("utf-8", "surrogateescape") for word in label.groups()[:2])
    return Line(source=source, host=host, text=label[3])


class _JobOutput:
    """The lines of a job's output files: one file, or one for each job of an array."""

    def __init__(self, run: Run) -> None:
        assert run.job is not None
        self._run, self._job = run, run.job
        job_log(run)  # raises for a path that is not shown
        before, there, after = run.job.log.partition("{job}")
        number = glob.escape(run.job_id or "") if there else ""
        number += "_*" if there and run.job.many else ""
        self._pattern = f"{glob.escape(before)}{number}{glob.escape(after)}"
        self._machine = machine_of(run)
        self._files: dict[str, tuple[int, JobOutput]] = {}  # by path: how much was read, and its reader

    def read(self) -> list[Line] | None:
        for name in self._machine.find(self._pattern):
            if name not in self._files:
                check_output(self._run, name)  # of an array: a link to elsewhere may have a name of its files
                self._files[name] = (0, reader_of(self._run))
        lines, new = [], False
        for name, (offset, reader) in self._files.items():
            try:
                data = self._machine.read(name, offset, 1 << 20)
            except OSError:
                continue
            self._files[name] = offset + len(data), reader
            new = new or bool(data)
            events = reader.feed(data)
            lines += [line for event in events if event["e"] == "out" for line in lines_of_job(event)]
        return lines if new or lines else None

    def skip_to_last(self, number: int, matches: Callable[[Line], bool]) -> None:
        """Files of a scheduler are read from their beginning: their lines are told by what stands before them."""

    def rest(self) -> list[Line]:
        events = [event for _, reader in self._files.values() for event in reader.flush()]
        return [line for event in events if event["e"] == "out" for line in lines_of_job(event)]


def lines_of_job(event: OutputEvent) -> list[Line]:
    """Return the lines of an event of a job's output."""
    source = event.get("agent", "srun") if event["rank"] is None else str(event["rank"])
    host, texts = event.get("host", "job"), event["data"].removesuffix("\n").split("\n")
    return [Line(source=source, host=host, text=text.encode("utf-8", "surrogateescape")) for text in texts]


def read_lines(
    run: Run,
    wanted: LineFilter,
    going_on: Callable[[], bool] | None = None,
    number: int | None = None,
    since: float | None = None,
) -> Iterator[Line]:
    """Yield the chosen lines, or the last `number` of them; with `going_on` also new ones until it returns False.

    `since`: seconds since the epoch; only lines of that time or later. Raises UsageError where times are not known.
    """
    if run.job is not None and since is not None:
        raise UsageError("--since: the scheduler's output file has no times", f"ddpkit logs {run.run_id} --tail 100")
    source = _source(run, wanted, since)
    if number is not None:
        source.skip_to_last(number, wanted.matches)
    there = chain.from_iterable(_read(source.read, None, 0.0))
    if going_on is None:
        there = chain(there, _once(source.rest))
    chosen = filter(wanted.matches, there)
    yield from chosen if number is None else deque(chosen, maxlen=number)
    if going_on is not None:
        for each in _read(source.read, going_on, LATE if run.job is not None else 0.0):
            yield from filter(wanted.matches, each)
        yield from filter(wanted.matches, source.rest())


def _once(rest: Callable[[], list[Line]]) -> Iterator[Line]:
    yield from rest()  # asked when what stands before it was read


class ReplicaLogs:
    """The lines of the replicas of a run and the run's own, by their times. A replica may start while they are read."""

    def __init__(self, run: Run, wanted: LineFilter, since: float | None) -> None:
        # The file of one rank has no times: the index of all is read, and the other ranks' lines are left out.
        self._run, self._wanted, self._since = run, replace(wanted, ranks=None), since
        self._waiting: dict[str, deque[Line]] = {}  # by folder: lines that were read
        # By folder: its log, and the function that marks a line as one of its replica.
        self._sources: dict[str, tuple[Source, Callable[[Line], Line]]] = {}
        self._begun: set[str] | None = None  # names of the folders of starts that were looked at
        if wanted.replicas is None:
            own = replace(run, replicas=())
            self._sources[run.folder] = _source(own, self._wanted, since), lambda line: line
        self._look()

    def _look(self) -> None:
        """Find the logs of replicas that have started since. Their records are read when there is a new folder."""
        try:
            begun = {path.name for path in Path(self._run.folder, replicas.FOLDER).iterdir()}
        except OSError:
            begun = set()
        if begun == self._begun:
            return
        looked_at: set[str] = set()
        for replica in replicas.replicas_of(self._run):
            is_wanted = self._wanted.replicas is None or replica.name in self._wanted.replicas
            for start in replica.starts:
                if is_wanted and start.folder not in self._sources:
                    if not start.job and not (Path(start.folder) / INDEX).exists():
                        continue  # no log yet: the next look reads this record again
                    source = _source(start, self._wanted, self._since)
                    self._sources[start.folder] = source, partial(self._marked, replica, start)
                looked_at.add(start.run_id)
        self._begun = looked_at

    @staticmethod
    def _marked(replica: replicas.Replica, start: Run, line: Line) -> Line:
        return replace(line, replica=replica.name, front=replica.label(start, line.source, line.host))

    def _fill(self, name: str) -> bool:
        """Read more of one log, by its folder, where no line of it waits. Tell whether a line waits now."""
        source, mark = self._sources[name]
        waiting = self._waiting.setdefault(name, deque())
        while not waiting and (new := source.read()) is not None:
            waiting.extend(map(mark, new))
        return bool(waiting)

    def read(self) -> list[Line] | None:
        """Return new lines; None where there are none."""
        heap = [(self._waiting[name][0].when, name) for name in self._sources if self._fill(name)]
        if not heap:
            self._look()
            return None
        heapq.heapify(heap)
        lines: list[Line] = []
        while heap and len(lines) < LINES_AT_ONCE:
            name = heap[0][1]
            lines.append(self._waiting[name].popleft())
            if self._fill(name):
                heapq.heapreplace(heap, (self._waiting[name][0].when, name))
            else:
                heapq.heappop(heap)
        return lines

    def rest(self) -> list[Line]:
        """Return the ends of logs whose writers are gone."""
        return [mark(line) for source, mark in self._sources.values() for line in source.rest()]

    def skip_to_last(self, number: int, matches: Callable[[Line], bool]) -> None:
        """Begin each log where the last `number` of its lines that match begin, or before."""
        for source, _ in self._sources.values():
            source.skip_to_last(number, matches)


def read_rank_output(run: Run, rank: int, going_on: Callable[[], bool] | None = None) -> Iterator[bytes]:
    """Yield the output of one rank byte for byte, with every state of a progress bar."""
    tail = _Tail(Path(run.folder) / file_name(str(rank)))
    yield from _read(lambda: tail.read() or None, going_on, 0.0)


def read_end(log: Path, size: int) -> bytes:
    """Return the last bytes of a log, with its earlier parts; of `all.log`, if it is not kept, by the index."""
    if log.name == ALL and is_ordered(log.parent):
        return OrderedLog(log.parent).read_end(size)[-size:]
    file = CutFile(log.parent, log.name)
    return file.read_whole(max(file.first, file.size - size), size)


def read_begin(folder: Path, size: int) -> bytes:
    """Return the first lines of all ranks, at most so many bytes."""
    if not is_ordered(folder):
        try:
            return read_head(folder / ALL, size)
        except OSError:
            return b""
    begin = b""
    for block in OrderedLog(folder).blocks():
        begin += block
        if len(begin) >= size:
            break
    return begin[:size]


def read_ordered(folder: Path) -> LogText:
    """Read the lines of all ranks for a diagnosis: of very many, the first and the last ones."""
    from ddpkit.diagnosis import read

    if not is_ordered(folder):
        with open(open_to_read(folder / ALL), "rb") as file:
            return read.read_long(file, os.fstat(file.fileno()).st_size)
    files = [path for path in folder.glob("*.log") if path.name.partition(".")[0] != ALL.partition(".")[0]]
    if sum(path.lstat().st_size for path in files) <= read.FIRST + read.LAST:
        return read.condense(OrderedLog(folder).blocks())
    condenser, size = read.Condenser(), 0
    for block in OrderedLog(folder).blocks():
        condenser.add(block.split(b"\n")[:-1])
        size += len(block)
        if size >= read.FIRST:
            break
    end = OrderedLog(folder).read_end(read.LAST).split(b"\n")[:-1]
    total = 0
    for path in files:
        with open(open_to_read(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            total += sum(block.count(b"\n") for block in read.data_blocks(file, size))
    if condenser.read + len(end) > total:  # what was read as the begin reaches into the end
        return read.condense(OrderedLog(folder).blocks())
    condenser.skip(total - condenser.read - len(end))
    condenser.add(end)
    return condenser.text()


def _read(read: Callable[[], T | None], going_on: Callable[[], bool] | None, after: float) -> Iterator[T]:
    """Yield what `read` returns as long as the run is going on, and for `after` seconds more.

    `going_on`, None: nothing more is written, and the end is where `read` first returns None.
    """
    until: float | None = None  # a time.monotonic(), from the first empty read after the end of the run on
    while True:
        # Asked before the read: what was written before the end is then seen by this read.
        over = until is not None or going_on is None or not going_on()
        new = read()
        if new is not None:
            yield new
        elif over:
            if until is None:
                until = time.monotonic() + (0.0 if going_on is None else after)
            if time.monotonic() >= until:
                return
            time.sleep(PAUSE / 2)
        else:
            time.sleep(PAUSE)


# ---- reads the lines of all ranks in their order: `all.index` says which bytes of which file follow each other


FIRST_BLOCK, INDEX_BLOCK = 1 << 10, 1 << 16  # bytes of the index that are read at once; from its end, more each time
BUFFER = 1 << 16  # bytes of a file that are read at once
BUFFERS = 256  # files of which bytes are held
LONGEST_ROW = 1 << 26  # bytes
CUT_WORDS = "the oldest lines of this run are gone: its logs reached the setting log_limit"
BYTES_LATE = 1.0  # seconds that bytes may take to be seen in a file of another host
_NAME = re.compile(rf"\d{{1,9}}|{OWN}|[A-Za-z0-9.-]+_{HOST}")
_PART = re.compile(r"(.+)\.from_(\d+)(\.[a-z]+)")
_BLOCK_BEGIN = b"\n@ "


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line, without its end. `source`: a rank's number or an agent's name; empty for a line of ddpkit's own."""

    source: str
    host: str
    text: bytes
    when: float = 0.0  # seconds since the epoch, to the time of its block in the index; 0: not known
    replica: str = ""  # of a run of roles
    front: str = ""  # of a replica's line, in place of source and host

    @property
    def labelled(self) -> bytes:
        label = self.front or f"{self.source} {self.host}".strip() or OWN
        return f"[{label}] ".encode("utf-8", "surrogateescape") + self.text


class CutFile:
    """A log with its earlier parts, as one row of bytes. Parts that are gone leave a gap in it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._parts: list[tuple[int, str]] = []  # begin, and name
        self._begin = 0  # of the file itself
        self.refresh()

    def refresh(self) -> None:
        """Look for parts: a file that is being written may have been cut."""
        self._parts = _parts_of(self._folder).get(self._name, [])
        self._begin = 0
        if self._parts:
            begin, name = self._parts[-1]
            self._begin = begin + _size(self._folder / name)

    @property
    def first(self) -> int:
        """Where the bytes begin that are still there."""
        return self._parts[0][0] if self._parts else 0

    @property
    def size(self) -> int:
        return self._begin + _size(self._folder / self._name)

    def read(self, offset: int, size: int) -> bytes:
        """Return at most so many bytes; fewer at the end, or where a part ends."""
        if offset >= self._begin:
            path, begin = self._folder / self._name, self._begin
        else:
            begin, name = next((part for part in reversed(self._parts) if part[0] <= offset), (0, ""))
            if not name:
                return b""
            path = self._folder / name
        try:
            return read_part(path, offset - begin, size)
        except OSError:
            return b""

    def read_whole(self, offset: int, size: int) -> bytes:
        """Return so many bytes, across parts; fewer at the end."""
        data = b""
        while len(data) < size and (more := self.read(offset + len(data), size - len(data))):
            data += more
        return data


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


# Of the directory that was looked at last: its time of change, and the parts of each file as (begin, name).
_listed: dict[Path, tuple[int, dict[str, list[tuple[int, str]]]]] = {}


def _parts_of(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """Return the earlier parts of each file in a directory, in their order. Most runs have none."""
    try:
        changed = folder.stat().st_mtime_ns
        known = _listed.get(folder)
        if known is not None and known[0] == changed:
            return known[1]
        found: dict[str, list[tuple[int, str]]] = {}
        for path in folder.iterdir():
            part = _PART.fullmatch(path.name)
            if part:
                found.setdefault(part[1] + part[3], []).append((int(part[2]), path.name))
    except OSError:
        return {}
    for each in found.values():
        each.sort()
    _listed.clear()
    _listed[folder] = changed, found
    return found


class OrderedLog:
    """The lines of all ranks, from an offset in the index on."""

    def __init__(self, folder: Path, since: float | None = None) -> None:
        self._folder = folder
        self._index = CutFile(folder, INDEX)
        self._from = self._index.first if since is None else self._find(since)
        self._files: dict[bytes, CutFile] = {}
        self._buffers: dict[bytes, tuple[int, bytes]] = {}  # by name: offset, and bytes
        self._begin_at(self._from)

    def _begin_at(self, offset: int) -> None:
        self._offset = offset
        self._rest = b""  # the begin of a row
        # Rows of the index: name, host, begin, length, time of the block.
        self._rows: deque[tuple[bytes, str, int, int, float]] = deque()
        self._when = 0.0  # of the block that is parsed
        self._block: dict[bytes, tuple[int, str]] = {}  # by name: next offset, and host
        self._lines = PiecesOfLines()
        self._short_since = 0.0  # time.monotonic() since which bytes of the first row are missing; 0: none is

    def read(self) -> list[Line] | None:
        """Return new lines; None where there are none."""
        if not self._rows:
            data = self._index.read(self._offset, INDEX_BLOCK)
            if not data:
                self._index.refresh()
                if self._offset < self._index.first:  # its begin gave way to newer lines
                    self._begin_at(self._index.first)
                data = self._index.read(self._offset, INDEX_BLOCK)
            if not data:
                return None
            self._offset += len(data)
            self._parse(data)
        return self._take_lines(waits=True)

    def _take_lines(self, *, waits: bool) -> list[Line] | None:
        """Return the lines of all rows; None: bytes of the first row are not seen yet."""
        lines: list[Line] = []
        while self._rows:
            name, host, begin, length, when = self._rows[0]
            data = self._bytes(name, begin, length)
            if len(data) < length and waits and self._waits_for(name, begin):
                return lines or None
            self._rows.popleft()
            self._short_since = 0.0
            lines += self._lines_of(name.decode(), host, data, when)
        return lines

    def _waits_for(self, name: bytes, begin: int) -> bool:
        """Whether to wait for bytes that are not seen yet. Those of a part that is gone never come."""
        self._buffers.pop(name, None)
        self._files[name].refresh()
        if begin < self._files[name].first:
            return False
        now = time.monotonic()
        self._short_since = self._short_since or now
        return now - self._short_since < BYTES_LATE and self._offset >= self._index.size

    def _lines_of(self, name: str, host: str, data: bytes, when: float) -> list[Line]:
        source = "" if name == OWN else name.removesuffix(f"_{host}")
        return [Line(source=source, host=host, text=text, when=when) for text in self._lines.add(name, data)]

    def _parse(self, data: bytes) -> None:
        """Take bytes of the index: `NAME LENGTH BEGIN HOST`, `NAME LENGTH` behind the last of that name, `@ TIME`."""
        *rows, self._rest = (self._rest + data).split(b"\n")
        block = self._block
        for row in rows:
            words = row.split()
            try:
                if len(words) == 2 and words[0] != b"@":
                    (begin, host), length = block[words[0]], int(words[1])
                elif len(words) == 4 and _NAME.fullmatch(words[0].decode("utf-8", "replace")):
                    length, begin, host = int(words[1]), int(words[2]), words[3].decode("utf-8", "surrogateescape")
                    host = "" if host == NO_HOST else host
                else:
                    if words[:1] == [b"@"]:
                        block.clear()
                        self._when = _time(row[2:])
                    continue
            except (KeyError, ValueError):  # a torn row
                continue
            if 0 < length <= LONGEST_ROW and begin >= 0:
                self._rows.append((words[0], host, begin, length, self._when))
                block[words[0]] = begin + length, host

    def _bytes(self, name: bytes, begin: int, length: int) -> bytes:
        """Return bytes of a file, most often of a buffer."""
        offset, data = self._buffers.get(name, (0, b""))
        at = begin - offset
        if at < 0 or at + length > len(data):
            if name not in self._files:
                self._files[name] = CutFile(self._folder, file_name(name.decode()))
            file, data = self._files[name], b""
            while len(data) < length and (more := file.read(begin + len(data), max(length - len(data), BUFFER))):
                data += more
            if len(self._buffers) >= BUFFERS:
                del self._buffers[next(iter(self._buffers))]
            self._buffers[name] = begin, data
            at = 0
        return data[at : at + length]

    def rest(self) -> list[Line]:
        """Return what is left at the end of a run, also of files in which bytes are missing."""
        return self._take_lines(waits=False) or []

    def skip_to_last(self, number: int, matches: Callable[[Line], bool]) -> None:
        """Begin where the last `number` of the lines that match begin, or before. It reads from the end."""
        seen, first = 0, self._index.size
        for begin, lines in self._from_the_end():
            first = begin
            seen += sum(map(matches, lines))
            if seen > number:
                break
        self._begin_at(first)

    def _from_the_end(self) -> Iterator[tuple[int, list[Line]]]:
        """Yield the lines of some blocks and where they begin in the index, the last ones first."""
        end, size = self._index.size, FIRST_BLOCK
        while end > self._from:
            begin = max(self._from, end - size)
            size = max(size, min(INDEX_BLOCK, 2 * size))
            data = self._index.read_whole(begin, end - begin)
            at = data.find(_BLOCK_BEGIN) + 1 if begin > self._from else 0
            if begin > self._from and not at:
                if size > 1 << 30:
                    return
                size *= 2
                continue
            self._begin_at(begin)
            self._parse(data[at:] + b"\n")
            end = begin + at
            yield end, self.rest()

    def _find(self, since: float) -> int:
        """Return where the first block of the index begins that may have lines of this time or later.

        A block that began up to a second before may have such lines. Without any, the end of what was read.
        """
        low, high = self._index.first, self._index.size
        while high - low > INDEX_BLOCK:
            middle = (low + high) // 2
            data = self._index.read(middle, INDEX_BLOCK)
            at = data.find(_BLOCK_BEGIN)
            if at < 0:
                high = middle
                continue
            when = _time(data[at + 3 :])
            low, high = (middle + at + 1, high) if when < since - 1.0 else (low, middle)
        data = self._index.read(low, 2 * INDEX_BLOCK)
        at = -1
        while (at := data.find(b"@ ", at + 1)) >= 0:
            if (not at or data[at - 1 : at] == b"\n") and _time(data[at + 2 :]) >= since - 1.0:
                return low + at
        return low + len(data)

    def read_end(self, size: int) -> bytes:
        """Return the last lines, so many bytes at least if there are as many, with rank and host in front."""
        blocks: list[bytes] = []
        for _, lines in self._from_the_end():
            blocks.append(b"".join(line.labelled + b"\n" for line in lines))
            size -= len(blocks[-1])
            if size <= 0:
                break
        return b"".join(reversed(blocks))

    def blocks(self) -> Iterator[bytes]:
        """Yield all lines, with rank and host in front."""
        while (lines := self.read()) is not None:
            yield b"".join(line.labelled + b"\n" for line in lines)
        yield b"".join(line.labelled + b"\n" for line in self.rest())


def _time(data: bytes) -> float:
    try:
        return float(data.partition(b"\n")[0])
    except ValueError:
        return 0.0


def is_cut(folder: Path) -> bool:
    """Tell whether the oldest lines of a run gave way to newer ones: `log_limit`."""
    return any(parts[0][0] > 0 for parts in _parts_of(folder).values())


def is_ordered(folder: Path) -> bool:
    """Tell whether a run keeps the order of its lines in an index; an earlier attempt of a job has `all.log`."""
    return (folder / INDEX).is_file() or not (folder / ALL).is_file()
