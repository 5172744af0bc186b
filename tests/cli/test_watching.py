"""Options of the commands that look at runs: help, -V, logs --tail and --since, status --watch, report --open."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import DDPKIT, START

from ddpkit.cli import __version__
from ddpkit.run.logs import LONGEST, _line, _Log

WAITS = "import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"


def test_help_is_a_command(ddpkit: DDPKIT) -> None:
    assert ddpkit("help").stdout == ddpkit("--help").stdout
    assert ddpkit("help", "stop").stdout == ddpkit("stop", "--help").stdout
    assert ddpkit("help", "nope").returncode == 121
    assert ddpkit("-V").stdout == f"ddpkit {__version__}\n"


def test_tail_and_since(ddpkit: DDPKIT, script: Callable[..., str], tmp_path: Path) -> None:
    name = script("for n in range(9): print('line', n)")
    assert ddpkit("launch", "-n", "1", "--", name).returncode == 0
    assert [line[-6:] for line in ddpkit("logs", "--rank", "0", "--tail", "2").stdout.splitlines()] == [
        "line 7",
        "line 8",
    ]
    (index,) = tmp_path.glob("logs/*/all.index")
    now, host = time.time(), index.read_text().split()[-1]
    # The lines that come after an hour's pause.
    index.write_text(f"@ {now - 3600:.3f}\n0 35 0 {host}\n\n@ {now:.3f}\n0 28 35 {host}\n")
    recent = ddpkit("logs", "--rank", "0", "--since", "10m").stdout.splitlines()
    assert [line[-6:] for line in recent] == ["line 5", "line 6", "line 7", "line 8"]
    for age in ("2h", "7200", "7200s", "1d"):
        assert len(ddpkit("logs", "--rank", "0", "--since", age).stdout.splitlines()) == 9
    assert ddpkit("logs", "--since", "soon").returncode == 121


def test_the_logs_of_an_older_version_are_read(ddpkit: DDPKIT, script: Callable[..., str], tmp_path: Path) -> None:
    name = script("print('of this version')")
    assert ddpkit("launch", "-n", "1", "--", name).returncode == 0
    (index,) = tmp_path.glob("logs/*/all.index")
    index.unlink()
    log, times = index.with_name("all.log"), index.with_name("all.times")
    log.write_text("[0 a] line 0\n[0 a] line 1\n[0 a] ValueError: bad\n[ddpkit] done\n")
    times.write_text(f"{time.time() - 3600:.3f} 0\n{time.time():.3f} 13\n")
    shown = log.read_text().splitlines()
    assert ddpkit("logs").stdout.splitlines() == shown
    assert ddpkit("logs", "--tail", "2").stdout.splitlines() == shown[-2:]
    assert ddpkit("logs", "--since", "10m").stdout.splitlines() == shown[1:]
    assert ddpkit("logs", "--rank", "0").stdout == "of this version\n"
    assert "line 3, rank 0 on a: ValueError: bad" in ddpkit("explain").stdout
    assert ddpkit("report").returncode == 0
    assert "ValueError: bad" in index.with_name("report.html").read_text()
    times.unlink()
    older = ddpkit("logs", "--since", "1h")
    assert older.returncode == 121
    assert "all.times not found" in older.stderr


def test_status_is_repeated_until_the_end(
    start: START, ddpkit: DDPKIT, script: Callable[..., str], tmp_path: Path
) -> None:
    command = start("launch", "-n", "1", "--", script(WAITS))
    command.wait_for("] ready")
    watcher = start("status", "--watch", "--json")
    watcher.wait_for('"state": "running"')
    (tmp_path / "go").touch()
    assert command.end() == 0
    assert watcher.end() == 0
    states = [json.loads(line)["state"] for line in watcher.lines]
    assert (states[0], states[-1], set(states)) == ("running", "done", {"running", "done"})
    assert "done after" in ddpkit("status", "--watch").stdout


@pytest.mark.parametrize("words", [[], ["-o", "page.html"]], ids=["default", "-o"])
def test_report_is_opened(words: list[str], ddpkit: DDPKIT, tmp_path: Path) -> None:
    assert ddpkit("launch", "-n", "1", "--", "true").returncode == 0
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$1" > opened\n')
    browser.chmod(0o755)
    done = ddpkit("report", "--open", *words, env={"BROWSER": f"{browser} %s"})
    assert done.returncode == 0, done.stderr
    (page,) = tmp_path.glob("page.html" if words else "logs/*/report.html")
    assert (tmp_path / "opened").read_text() == f"{page.as_uri()}\n"
    nothing = ddpkit("report", "--open", env={"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert nothing.returncode == 125
    assert "no browser found" in nothing.stderr


def test_a_line_without_end_is_shown_in_parts(tmp_path: Path) -> None:
    """A log that nobody of ours wrote can have one: it costs no more memory than a long line."""
    with (tmp_path / "all.log").open("wb") as file:
        file.truncate(3 * LONGEST)
    log, sizes = _Log(tmp_path / "all.log", 0, _line), []
    while (lines := log.read()) is not None:
        sizes += [len(line.text) for line in lines]
    sizes += [len(line.text) for line in log.rest()]
    assert sum(sizes) == 3 * LONGEST
    assert max(sizes) < 2 * LONGEST
