"""The last lines of a log are read from its end, and those of one rank from its own file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ddpkit.files import read_part
from ddpkit.run import log_files, logs
from ddpkit.run.logs import Line, LineFilter
from ddpkit.run.record import Run

RUN = Run(
    run_id="r", folder="", backend="local", command=("job.py",), workdir="/", hosts=("a",), world_size=3,
    launcher_pid=1, launcher_started="1", launcher_host="a", started=1.0, ranks={"a": [0, 1, 2]},
)  # fmt: skip
RARE = 90_000  # of 100,000 lines, the one that rank 2 printed


LINES = [f"[{number % 2} a] line {number}" for number in range(100_000)]
LINES[RARE] = "[2 a] rare"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    files = log_files.LogFiles(tmp_path)
    for line in LINES:
        rank, _, text = line[1:].partition(" a] ")
        files.keep(rank, "a", text.encode() + b"\n")
    files.close()
    return replace(RUN, folder=str(tmp_path))


def shown(run: Run, wanted: LineFilter, number: int) -> list[bytes]:
    return [line.labelled for line in logs.read_lines(run, wanted, None, number)]


@pytest.mark.parametrize("number", [0, 1, 3, 20_000, 200_000])
def test_the_last_lines_are_those_of_the_whole_log(number: int, run: Run) -> None:
    everything = [line.encode() for line in LINES]
    assert shown(run, LineFilter(), number) == (everything[-number:] if number else [])
    assert shown(run, LineFilter(pattern=re.compile(b"rare")), number) == ([b"[2 a] rare"] if number else [])
    odd = [line for line in everything if line.startswith(b"[1 ")]
    assert shown(run, LineFilter(ranks=frozenset({1, 2}), pattern=re.compile(b"line")), number) == (
        odd[-number:] if number else []
    )


@pytest.mark.parametrize("ranks", [None, frozenset({1})])
def test_only_the_end_is_read(ranks: frozenset[int] | None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def part(path: Path, offset: int, size: int) -> bytes:
        data = read_part(path, offset, size)
        read.append(len(data))
        return data

    monkeypatch.setattr(logs, "read_part", part)
    assert shown(run, LineFilter(ranks=ranks), 3)[-1] == b"[1 a] line 99999"
    assert sum(read) <= 3 * logs.BLOCK


def test_only_the_end_of_a_flood_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the index stands for 100 lines there; a block that can be read alone has a few thousand."""
    files, read = log_files.LogFiles(tmp_path), []
    for number in range(2000):
        files.keep(
            str(number % 2), "a", b"".join(b"line %d\n" % line for line in range(number * 100, number * 100 + 100))
        )
    files.close()

    def counted(path: Path, offset: int, size: int) -> bytes:
        data = read_part(path, offset, size)
        read.append(len(data))
        return data

    monkeypatch.setattr(logs, "read_part", counted)
    run = replace(RUN, folder=str(tmp_path))
    assert shown(run, LineFilter(), 3) == [f"[1 a] line {number}".encode() for number in (199_997, 199_998, 199_999)]
    assert sum(read) < (tmp_path / "rank_0.log").stat().st_size


def test_lines_of_one_rank_are_those_of_its_file(run: Run) -> None:
    (Path(run.folder) / "rank_2.log").write_bytes(b"10%\r50%\rrare\n\nlast")
    one = LineFilter(ranks=frozenset({2}))
    assert shown(run, one, 9) == [b"[2 a] rare", b"[2 a] ", b"[2 a] last"]
    assert list(logs.read_lines(run, one)) == [
        Line(source="2", host="a", text=text) for text in (b"rare", b"", b"last")
    ]


def test_the_host_of_a_rank_is_in_the_log_of_all(run: Run) -> None:
    elsewhere = replace(run, ranks={})
    assert shown(elsewhere, LineFilter(ranks=frozenset({2})), 9) == [b"[2 a] rare"]


def test_a_damaged_index_shows_what_can_be_read(tmp_path: Path) -> None:
    """Its rows may be torn, or another user's: they name no file but a log of this directory."""
    (tmp_path / "rank_0.log").write_text("one\ntwo\n")
    (tmp_path / "private.log").write_text("secret\n")
    (tmp_path / "all.index").write_bytes(
        b"0 4\n@ x\n0 4 0 a\n../private 7 0 a\nprivate 7 0 a\n0 -3\n0 x 0 a\n1 9 0 a\n\xff 1 1 1 1\n"
        b"0 4\n0 99999999999\n0 4"
    )
    run = replace(RUN, folder=str(tmp_path))
    assert [line.labelled for line in logs.read_lines(run, LineFilter())] == [b"[0 a] one", b"[0 a] two"]
    assert shown(run, LineFilter(), 1) == [b"[0 a] two"]
