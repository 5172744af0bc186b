"""The status lines say how a run stands and what its metrics file says, and fit their window; no file breaks them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ddpkit.console.progress import Header, Metrics, Progress, Standing, clock, lines, progress

FOUR = Standing(state="running", nodes=4, ranks=32, world_size=32, started=1000.0)


def test_one_line_where_it_fits() -> None:
    far = Progress(step=1200, loss=0.12345, rate="5,123 samples/s")
    assert lines("ssh r1", FOUR, far, 1751.0, 200) == [
        "running · 32 ranks · 4 nodes · 12:31 · step 1,200 · loss 0.1235",
        "5,123 samples/s · ssh r1",
    ]
    assert lines("local r1", FOUR, Progress(), 1751.0, 200) == ["running · 32 ranks · 4 nodes · 12:31 · local r1"]


def test_what_does_not_fit_is_left_out() -> None:
    far = Progress(step=1200, loss=0.12345, rate="5,123 samples/s")
    for columns in range(10, 120):
        shown = lines("slurm-srun 20260131-235959-train-3fa9", FOUR, far, 1751.0, columns)
        assert len(shown) <= 2
        assert all(len(line) < columns for line in shown)
    assert lines("ssh r1", FOUR, far, 1751.0, 30) == ["running · 32 ranks · 4 nodes", "12:31 · step 1,200 · ssh r1"]


def test_ranks_that_are_gone_are_seen() -> None:
    some = Standing(state="ending", nodes=1, ranks=3, world_size=4, started=0.0)
    assert lines("x", some, Progress(), 1.0, 80) == ["ending · 3/4 ranks · 1 node · 0:01 · x"]
    one = Standing(state="starting", nodes=0, ranks=0, world_size=1, started=0.0)
    assert lines("x", one, Progress(), -5.0, 80) == ["starting · 0/1 rank · 0:00 · x"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(7.9, "0:07"), (751, "12:31"), (11551, "3:12:31"), (86400 + 61, "1 day 0:01:01"), (200000, "2 days 7:33:20")],
)
def test_clock(seconds: float, expected: str) -> None:
    assert clock(seconds) == (expected if "day" in expected or seconds < 86400 else "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", Progress()),
        (b'{"step": 3', Progress()),
        (
            b'{"step": 3, "loss": 0.5, "samples_per_second": 1234.5}\n',
            Progress(step=3, loss=0.5, rate="1,234 samples/s"),
        ),
        (b'{"step": 3, "loss": 0.5}\n{"step": 4, "lo', Progress(step=3, loss=0.5)),
        (
            b'{"step": 3, "samples_per_second": 2.5}\n{"step": 4, "test_loss": 1}\n',
            Progress(step=4, rate="2.5 samples/s"),
        ),
        (
            b'{"global_step": 7, "train_loss": 1, "tokens_per_sec": 99}\n',
            Progress(step=7, loss=1.0, rate="99 tokens/s"),
        ),
        (b'[1]\n"x"\n\xff\xfe\n{"step": true, "loss": "x"}\nnull\n', Progress()),
        (b'{"step": Infinity, "loss": 1e400}\n', Progress(loss=float("inf"))),
    ],
)
def test_what_a_metrics_file_says(text: bytes, expected: Progress) -> None:
    assert progress(text) == expected


def test_a_loss_that_is_no_number_is_shown() -> None:
    (line,) = lines("x", FOUR, progress(b'{"loss": 1.5}\n{"loss": NaN}\n'), 1000.0, 80)
    assert "loss nan" in line


def test_an_earlier_run_s_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 900}\n')
    metrics = Metrics(lambda: path)
    metrics.skip()
    metrics.read()
    assert metrics.last == Progress()
    with path.open("a") as file:
        file.write('{"step": 901}\n')
    metrics.read()
    assert metrics.last.step == 901
    path.unlink()
    metrics.read()
    assert metrics.last.step == 901
    path.write_text('{"step": 1}\n')  # begun again
    metrics.read()
    assert metrics.last.step == 1


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(lambda: path)
    metrics.skip()
    path.write_text("".join(f'{{"step": {number}, "text": "{"x" * 100}"}}\n' for number in range(2000)))
    metrics.read()
    assert metrics.last.step == 1999


@pytest.mark.parametrize("bad", ["folder", "pipe", "hostile"])
def test_what_is_no_metrics_file_does_no_harm(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics = Metrics(lambda: path)
    metrics.skip()
    if bad == "folder":
        path.mkdir()
    elif bad == "pipe":
        path = tmp_path / "no" / "such" / "\0"
        odd = path
        metrics = Metrics(lambda: odd)
        metrics.skip()
    else:
        path.write_text("[" * 15000 + "\n" + '{"step": 1' + "0" * 400 + "}\n")
    metrics.read()
    assert metrics.last == Progress()


def test_there_are_none_before_and_after_a_run_nor_in_a_small_window(tmp_path: Path) -> None:
    header = Header("x", lambda: None)
    size = os.terminal_size((80, 24))
    assert header.lines(size) == []
    header.begin(lambda: FOUR)
    assert len(header.lines(size)) == 1
    assert header.lines(os.terminal_size((80, 5))) == []
    assert header.lines(os.terminal_size((10, 24))) == []
    assert header.lines(os.terminal_size((0, 0))) == []
    header.end()
    assert header.lines(size) == []
