"""Options of the commands that look at runs: help, -V, logs --tail and --since, status --watch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from conftest import DDPKIT, START

from ddpkit.cli import __version__
from ddpkit.run.logs import LONGEST, _line_of_rank, _Log

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


def test_a_line_without_end_is_shown_in_parts(tmp_path: Path) -> None:
    """A log that nobody of ours wrote can have one: it costs no more memory than a long line."""
    with (tmp_path / "rank_0.log").open("wb") as file:
        file.truncate(3 * LONGEST)
    log, sizes = _Log(tmp_path / "rank_0.log", 0, partial(_line_of_rank, "0", "node1")), []
    while (lines := log.read()) is not None:
        sizes += [len(line.text) for line in lines]
    sizes += [len(line.text) for line in log.rest()]
    assert sum(sizes) == 3 * LONGEST
    assert max(sizes) < 2 * LONGEST
