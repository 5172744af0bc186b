"""The last lines of a log are read from its end, and those of one rank from its own file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ddpkit.files import read_part
from ddpkit.run import logs
from ddpkit.run.logs import Line, LineFilter
from ddpkit.run.record import Run

RUN = Run(
    run_id="r", folder="", backend="local", command=("job.py",), workdir="/", hosts=("a",), world_size=3,
    launcher_pid=1, launcher_started="1", launcher_host="a", started=1.0, ranks={"a": [0, 1, 2]},
)  # fmt: skip
RARE = 90_000  # of 100,000 lines, the one that rank 2 printed


@pytest.fixture
def run(tmp_path: Path) -> Run:
    lines = [f"[{number % 2} a] line {number}" for number in range(100_000)]
    lines[RARE] = "[2 a] rare"
    (tmp_path / "all.log").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "rank_2.log").write_bytes(b"10%\r50%\rrare\n\nlast")
    return replace(RUN, folder=str(tmp_path))


def shown(run: Run, wanted: LineFilter, number: int) -> list[bytes]:
    return [line.labelled for line in logs.read_lines(run, wanted, None, number)]


@pytest.mark.parametrize("number", [0, 1, 3, 20_000, 200_000])
def test_the_last_lines_are_those_of_the_whole_file(number: int, run: Run) -> None:
    everything = (Path(run.folder) / "all.log").read_bytes().splitlines()
    assert shown(run, LineFilter(), number) == (everything[-number:] if number else [])
    assert shown(run, LineFilter(pattern=re.compile(b"rare")), number) == ([b"[2 a] rare"] if number else [])
    odd = [line for line in everything if line.startswith(b"[1 ")]
    assert shown(run, LineFilter(ranks=frozenset({1, 2}), pattern=re.compile(b"line")), number) == (
        odd[-number:] if number else []
    )


def test_only_the_end_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def part(path: Path, offset: int, size: int) -> bytes:
        read.append(offset)
        return read_part(path, offset, size)

    monkeypatch.setattr(logs, "read_part", part)
    assert shown(run, LineFilter(), 3)[-1] == b"[1 a] line 99999"
    assert min(read) >= (Path(run.folder) / "all.log").stat().st_size - logs.BLOCK


def test_lines_of_one_rank_are_those_of_its_file(run: Run) -> None:
    one = LineFilter(ranks=frozenset({2}))
    assert shown(run, one, 9) == [b"[2 a] rare", b"[2 a] ", b"[2 a] last"]
    assert list(logs.read_lines(run, one)) == [
        Line(source="2", host="a", text=text) for text in (b"rare", b"", b"last")
    ]
    elsewhere = replace(run, ranks={})  # its host is not known: then from the log of all
    assert shown(elsewhere, one, 9) == [b"[2 a] rare"]
