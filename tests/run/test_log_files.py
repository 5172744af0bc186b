"""A line lies on disk once, and in its order; a disk that is full, slow or away costs as few lines as can be."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from run_logs import all_lines

from ddpkit.run import log_files, run_files
from ddpkit.run.log_files import LIMIT, LogFiles
from ddpkit.run.logs import OrderedLog, read_end, read_ordered

BIG = 1 << 20


def numbered(first: int, last: int, words: str = "line") -> bytes:
    return b"".join(b"%s %d\n" % (words.encode(), number) for number in range(first, last))


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


class Disk:
    """What `os.write` does to logs: it fails, or waits until `works`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.error, self.room = 0, 0
        self.works, self.waits = threading.Event(), threading.Event()
        self.works.set()
        self._write = os.write
        patch.setattr("ddpkit.run.log_files.os.write", self.write)

    def write(self, file: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{file}").readlink().name.startswith(("rank_", "all.", "ddpkit.")):
            if not self.works.is_set():
                self.waits.set()
                self.works.wait()
            if self.error and not self.room:
                self.waits.set()
                raise OSError(self.error, os.strerror(self.error))
            if self.error:
                data = data[: self.room]
                self.room = 0
        return self._write(file, data)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(log_files, "RETRY", 0.02)
    return Disk(monkeypatch)


def test_a_line_lies_on_disk_once(tmp_path: Path) -> None:
    logs = LogFiles(tmp_path)
    shown = []
    for turn in range(200):
        for rank in range(8):
            words = f"step {turn} loss 2.3025 lr 0.001 tokens/s 123456 memory 40.1 GB"
            logs.keep(str(rank), "node1", words.encode() + b"\n")
            shown.append(f"[{rank} node1] {words}\n")
    logs.keep("ddpkit", "", b"done\n")
    logs.close()
    assert all_lines(tmp_path) == "".join([*shown, "[ddpkit] done\n"])
    size = sum(len(line) for line in shown)
    assert on_disk(tmp_path) < 1.05 * size
    assert (tmp_path / "rank_7.log").read_text().count("\n") == 200


# As users name hosts; `?`: SLURM has not said where a task is.
@pytest.mark.parametrize("host", ["node1", "?", "node_1", "knöten", "fe80::1%eth0", "a.b-c", "me@node1"])
def test_lines_of_each_host_are_read_again(host: str, tmp_path: Path) -> None:
    logs = LogFiles(tmp_path)
    logs.keep(f"torchrun_{host}", host, b"of the agent\n")
    logs.close()
    assert all_lines(tmp_path) == f"[torchrun {host}] of the agent\n"


def test_all_log_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    logs = LogFiles(tmp_path, all_log=True)
    logs.keep("0", "node1", b"10%\r50%\r")
    logs.keep("torchrun_my_node", "my_node", b"hello\n")
    logs.keep("0", "node1", b"100%\nno end")
    logs.close()
    assert (tmp_path / "all.log").read_text() == "[torchrun my_node] hello\n[0 node1] 100%\n[0 node1] no end\n"
    assert all_lines(tmp_path) == (tmp_path / "all.log").read_text()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_is_full_for_a_while_costs_no_line(error: int, disk: Disk, tmp_path: Path) -> None:
    logs, said = LogFiles(tmp_path), list[str]()
    logs.on_problem = said.append
    logs.keep("0", "a", numbered(0, 10))
    assert logs.sync()
    disk.error, disk.room = error, 30
    logs.keep("0", "a", numbered(10, 20))
    logs.keep("1", "a", numbered(0, 10))
    logs.hand_over()
    assert disk.waits.wait(20)
    disk.error = 0
    logs.keep("0", "a", numbered(20, 30))
    logs.close()
    assert (tmp_path / "rank_0.log").read_bytes() == numbered(0, 30)
    assert (tmp_path / "rank_1.log").read_bytes() == numbered(0, 10)
    assert all_lines(tmp_path).count("\n") == 40
    assert logs.problem == ""
    assert [os.strerror(error) in text and "the run continues" in text for text in said] == [True]


def test_what_finds_no_room_in_memory_is_a_gap_that_is_said(disk: Disk, tmp_path: Path) -> None:
    logs = LogFiles(tmp_path)
    logs.keep("0", "a", b"before\n")
    assert logs.sync()
    disk.error, disk.room = errno.ENOSPC, 5  # in the middle of a line
    lines = numbered(0, 1000)
    for _ in range(3 * LIMIT // len(lines)):
        logs.keep("0", "a", lines)
    logs.hand_over()
    assert disk.waits.wait(20)
    deadline = time.monotonic() + 30
    while logs.is_full and time.monotonic() < deadline:
        time.sleep(0.01)  # nobody announces that
    disk.error = 0
    assert logs.sync()
    logs.keep("0", "a", b"after\n")
    logs.close()
    kept = (tmp_path / "rank_0.log").read_text()
    assert kept.startswith("before\nline \n")
    assert kept.endswith("\nafter\n")
    total = 3 * LIMIT // len(lines) * 1000 + 2
    assert logs.missing
    assert abs(total - kept.count("\n") - logs.missing) <= 1
    assert logs.problem == f"{logs.missing} lines are missing in the logs: No space left on device"
    shown = all_lines(tmp_path)
    assert shown.count("[ddpkit] lines are missing here: No space left on device\n") == 1
    assert shown.index("] before") < shown.index("[ddpkit] lines are missing") < shown.index("] after")


def test_a_disk_that_stays_full_does_not_hold_up_the_end(disk: Disk, tmp_path: Path) -> None:
    logs = LogFiles(tmp_path)
    disk.error = errno.ENOSPC
    logs.keep("0", "a", numbered(0, 7))
    began = time.monotonic()
    logs.close()
    assert time.monotonic() - began < 5
    assert logs.problem == "7 lines are missing in the logs: No space left on device"


def test_one_log_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "rank_0.log").symlink_to(tmp_path / "theirs")
    logs = LogFiles(tmp_path)
    for number in range(100):
        logs.keep(str(number % 2), "a", b"line\n")
        logs.hand_over()
    logs.close()
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert logs.missing == 50
    assert all_lines(tmp_path).count("[1 a] line\n") == 50


def test_nothing_waits_for_a_disk_that_does_not_answer(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "STALLED", 0.5)
    monkeypatch.setattr(log_files, "PATIENCE", 0.5)
    logs = LogFiles(tmp_path)
    disk.works.clear()
    logs.keep("0", "a", b"first\n")
    logs.hand_over()
    assert disk.waits.wait(20)
    slowest, lines = 0.0, numbered(0, 1000)
    for number in range(2 * LIMIT // len(lines)):
        if logs.is_full:  # now the ranks would be held up, and not for long
            time.sleep(0.01)
        began = time.thread_time()
        logs.keep("1", "a", lines)
        slowest = max(slowest, time.thread_time() - began)
        assert number < 10**6
    assert slowest < 0.1
    assert not logs.is_full
    assert logs.missing > 0
    assert not logs.sync(0.1)
    began = time.monotonic()
    logs.close()
    assert time.monotonic() - began < 5
    assert "missing in the logs: the disk does not answer" in logs.problem
    disk.works.set()


def test_the_end_counts_what_a_disk_does_not_take(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "PATIENCE", 0.2)
    logs = LogFiles(tmp_path)
    disk.works.clear()
    logs.keep("0", "a", numbered(0, 7))
    logs.hand_over()
    assert disk.waits.wait(20)
    logs.keep("0", "a", numbered(7, 10))
    logs.close()
    disk.works.set()
    assert logs.problem == "10 lines are missing in the logs: the disk does not answer"


def test_a_slow_disk_holds_up_the_ranks_and_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    logs, lines = LogFiles(tmp_path), numbered(0, 10_000)
    disk.works.clear()
    written = 0
    while not logs.is_full:
        logs.keep("0", "a", lines)
        written += 10_000
    disk.works.set()
    assert logs.sync()
    logs.close()
    assert logs.problem == ""
    assert (tmp_path / "rank_0.log").read_bytes().count(b"\n") == written


# ---- the limit


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], LogFiles]:
    monkeypatch.setattr(log_files, "LEAST_CUT", 1 << 10)
    return lambda: LogFiles(tmp_path, limit=BIG)


def test_the_oldest_lines_give_way_and_a_quiet_rank_keeps_its_own(
    limited: Callable[[], LogFiles], tmp_path: Path
) -> None:
    logs = limited()
    logs.keep("1", "a", b"quiet\n")
    most = 0
    for turn in range(1500):
        logs.keep("0", "a", numbered(100 * turn, 100 * turn + 100))
        logs.hand_over()
        if turn % 10 == 0:
            assert logs.sync()
            most = max(most, on_disk(tmp_path))
    logs.close()
    assert most < BIG
    assert on_disk(tmp_path) < BIG
    assert logs.missing == 0
    assert logs.dropped > 100_000
    assert "of the logs gave way to newer lines: log_limit is 1 MiB" in logs.problem
    assert run_files.foreign_names(tmp_path) == []
    assert (tmp_path / "rank_1.log").read_text() == "quiet\n"
    assert read_end(tmp_path / "rank_0.log", 40_000) == numbered(0, 150_000)[-40_000:]
    shown = all_lines(tmp_path).splitlines()
    numbers = [int(line.split()[-1]) for line in shown if line.startswith("[0 a] line ")]
    assert numbers == list(range(numbers[0], 150_000))
    assert len(numbers) > 20_000
    assert sum("from now on the oldest lines give way" in line for line in shown) <= 1
    assert "log_limit is 1 MiB: from now on the oldest lines give way" in (tmp_path / "ddpkit.log").read_text()
    log = OrderedLog(tmp_path)
    log.skip_to_last(3, lambda _: True)
    last = [line.text for each in iter(log.read, None) for line in each][-3:]
    assert last == [b"line 149997", b"line 149998", b"line 149999"]


def test_many_ranks_share_the_limit(limited: Callable[[], LogFiles], tmp_path: Path) -> None:
    logs = limited()
    for turn in range(200):
        for rank in range(64):
            logs.keep(str(rank), "a", numbered(10 * turn, 10 * turn + 10))
        logs.hand_over()
    logs.close()
    assert on_disk(tmp_path) < 1.25 * BIG
    for rank in range(64):
        assert (tmp_path / f"rank_{rank}.log").exists() or list(tmp_path.glob(f"rank_{rank}.from_*.log"))
    assert all_lines(tmp_path).splitlines()[-1] == "[63 a] line 1999"


def test_a_reader_that_follows_sees_each_line_of_a_log_that_is_cut(
    limited: Callable[[], LogFiles], tmp_path: Path
) -> None:
    logs, seen = limited(), []
    log = OrderedLog(tmp_path)
    for turn in range(1500):
        logs.keep("0", "a", numbered(100 * turn, 100 * turn + 100))
        assert logs.sync()
        while (lines := log.read()) is not None:
            seen += [line.text for line in lines if line.source == "0"]
    logs.close()
    assert logs.dropped
    assert seen == numbered(0, 150_000).splitlines()


def test_only_files_of_the_logs_give_way(limited: Callable[[], LogFiles], tmp_path: Path) -> None:
    """What a script wrote under such a name stays."""
    (tmp_path / "rank_0.log").write_bytes(b"of the script\n" * 10_000)
    (tmp_path / "rank_1.from_0.log").write_bytes(b"of the script\n")
    logs = limited()
    for turn in range(1000):
        logs.keep(str(turn % 2), "a", numbered(100 * turn, 100 * turn + 100))
        logs.hand_over()
    logs.close()
    assert logs.dropped == 0 or (tmp_path / "rank_1.from_0.log").exists()
    assert (tmp_path / "rank_0.log").read_bytes().startswith(b"of the script\n" * 10_000)
    assert (tmp_path / "rank_1.from_0.log").read_bytes() == b"of the script\n"


def test_lines_without_an_index_are_those_of_all_log(tmp_path: Path) -> None:
    """Of an earlier attempt of a job, and of version 0.2."""
    (tmp_path / "all.log").write_text("[0 node1] a\n[1 node1] KeyError: 3\n")
    for rank, line in enumerate(("a", "KeyError: 3")):
        (tmp_path / f"rank_{rank}.log").write_text(f"{line}\n")
    read = read_ordered(tmp_path)
    assert read.text == "[0 node1] a\n[1 node1] KeyError: 3\n"


def test_lines_are_counted_once_where_all_log_is_written_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its earlier parts repeat the lines of the ranks, too."""
    for name in ("FIRST", "LAST"):
        monkeypatch.setattr(f"ddpkit.diagnosis.read.{name}", 1 << 12)
    logs = LogFiles(tmp_path, all_log=True)
    for number in range(2000):
        logs.keep(str(number % 2), "node1", f"line {number}\n".encode())
    logs.close()
    (tmp_path / "all.from_0.log").write_text("[0 node1] line\n" * 2000)
    read = read_ordered(tmp_path)
    assert read.text.count("\n") + read.left_out == 2000


def test_the_lines_of_a_log_with_a_hole_of_a_terabyte_are_counted(tmp_path: Path) -> None:
    logs = LogFiles(tmp_path)
    logs.keep("0", "node1", b"KeyError: 3\n")
    logs.close()
    with (tmp_path / "rank_1.log").open("wb") as file:
        file.truncate(1 << 40)
    read = read_ordered(tmp_path)
    assert (read.text, read.left_out) == ("[0 node1] KeyError: 3\n", 0)
