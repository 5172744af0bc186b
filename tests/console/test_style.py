"""Colour and frames where a person looks; plain lines, each fact on one, in pipes and where they are not wanted."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT, Command
from terminal import Terminal

from ddpkit.cli import look
from ddpkit.console.relay import ON_SCREEN, Relay
from ddpkit.console.style import Panel, is_rich
from ddpkit.errors import PreflightError
from ddpkit.run.log_files import LogFiles

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("environ", "terminal", "rich"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0", "TERM": "xterm"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_when_output_is_rich(environ: dict[str, str], terminal: bool, rich: bool) -> None:
    assert is_rich(environ, terminal=terminal) is rich


def test_a_plain_table_has_one_line_a_row() -> None:
    rows = [("a", "x" * 300), ("longer", "two\nlines")]
    assert look.plain_table(("name", "text"), rows) == [
        "name    text",
        "a       " + "x" * 300,
        "longer  two lines",
    ]


def test_a_plain_panel_has_one_fact_a_line() -> None:
    panel = Panel("FAILED", "rank 2 failed", [("cause", "c " * 100), ("hint", "h")], "rank 2", ["one", "two"])
    lines = look.plain_panel(panel)
    assert lines[0] == "FAILED rank 2 failed"
    assert lines[1:3] == ["    cause: " + "c " * 100, "    hint: h"]
    assert lines[3:] == ["last lines of rank 2:", "    one", "    two"]


@pytest.mark.parametrize(("others", "there"), [(0, True), (ON_SCREEN, True), (ON_SCREEN + 1, False)])
def test_last_lines_are_on_the_screen_until_others_push_them_away(others: int, there: bool, tmp_path: Path) -> None:
    relay = Relay(LogFiles(tmp_path), io.BytesIO(), io.BytesIO())
    relay.write(2, "a", "", 2, b"Traceback\nError\n")
    for _ in range(others):
        relay.write(0, "a", "", 1, b"x\n")
    assert relay.is_on_screen("rank_2.log") is there
    assert not relay.is_on_screen("rank_7.log")
    relay.write(5, "a", "", 1, b"hidden\n", show=False)
    assert not relay.is_on_screen("rank_5.log")
    relay.close()


def test_no_label_is_red(tmp_path: Path) -> None:
    """Red is for failures: a rank's label has the rank's colour, whatever the rank."""
    relay = Relay(LogFiles(tmp_path), io.BytesIO(), io.BytesIO(), rich={1})
    for rank in range(64):
        relay.write(rank, "a", "", 1, b"x\n")
    relay.close()
    assert isinstance(relay.out, io.BytesIO)
    colours = set(re.findall(rb"\x1b\[(\d+)m", relay.out.getvalue())) - {b"0"}
    assert len(colours) == 8
    assert not colours & {b"31", b"35", b"91", b"95"}  # many themes draw magenta as a red


FAILS = """
import os, sys, time

if os.environ["RANK"] == "1":
    open("/no/such/shard.pt")
time.sleep(3600)
"""


@pytest.fixture
def at_terminal(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    """Start `ddpkit LINE` at a terminal of so many columns."""
    terminals = []

    def start(line: list[str], columns: int, **env: str) -> Terminal:
        kept = {name: value for name, value in clean_environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        sized = ["sh", "-c", f'stty cols {columns} rows 24 && exec "$@"', "sh", sys.executable, "-m", "ddpkit", *line]
        terminals.append(Terminal(sized, tmp_path, {**kept, "TERM": "xterm-256color", **env}))
        return terminals[-1]

    yield start
    for each in terminals:
        each.close()


def screen(terminal: Terminal) -> list[str]:
    return [line.rstrip() for line in terminal.glass.lines]


@pytest.mark.parametrize("columns", [80, 200])
def test_the_verdict_is_a_panel_that_fits(columns: int, at_terminal: Callable[..., Terminal], script: SCRIPT) -> None:
    script(FAILS)
    terminal = at_terminal(["launch", "-n", "2", "--", "job.py"], columns, DDPKIT_HEADER="0")
    assert terminal.end() == 1
    lines = screen(terminal)
    (top,) = [number for number, line in enumerate(lines) if "✗ FAILED" in line]
    assert max(map(len, lines[top:])) <= columns
    panel = "\n".join(lines[top:])
    assert re.search(r"rank 1 on \S+ failed first, after [\d.]+ s\n", panel)
    for label, text in (("exit", "exit code 1"), ("cause", "/no/such/shard.pt"), ("log", "logs/"), ("hint", "")):
        assert re.search(rf"^ {label} +{re.escape(text)}", panel, re.MULTILINE), panel
    assert "/rank_1.log" in panel
    assert "\n".join(lines).count("Traceback (most recent call last)") == 1


SLEEPS = "import time\nprint('ready', flush=True)\ntime.sleep(3600)\n"


@pytest.mark.parametrize("columns", [80, 200])
def test_what_shows_a_run_fits_the_window(
    columns: int, at_terminal: Callable[..., Terminal], start: Callable[..., Command], script: SCRIPT, ddpkit: DDPKIT
) -> None:
    command = start("launch", "-n", "2", "--", script(SLEEPS), *["--word", "x" * 30] * 4)
    command.wait_for("] ready", times=2)
    for line, words in (("status", "● running"), ("ps", "running"), ("top --once", "memory")):
        terminal = at_terminal(line.split(), columns)
        assert terminal.end() == 0, screen(terminal)
        assert terminal.shows(words), screen(terminal)
        assert max(map(len, screen(terminal))) <= columns, line
        assert b"\x1b[" in terminal.raw
        plain = ddpkit(*line.split())
        assert "\x1b" not in plain.stdout
        assert "●" not in plain.stdout


@pytest.mark.parametrize("columns", [80, 200])
def test_findings_of_the_preflight_are_panels(
    columns: int, at_terminal: Callable[..., Terminal], ddpkit: DDPKIT
) -> None:
    line = ["test", "2", "--no-ranks", "--quick", "--env", "RANK=0", "--", "train.py"]
    hint = "ddpkit test 2 --no-ranks --quick -- train.py"
    terminal = at_terminal(line, columns)
    assert terminal.end() == PreflightError.exit_code
    assert max(map(len, screen(terminal))) <= columns
    for words in ("✗ FAIL", "✓ pass", f"^ hint  +{hint}", r"^✗ ddpkit: \d+ checks? failed"):
        assert terminal.shows(words), screen(terminal)
    plain = ddpkit(*line).stdout
    assert re.search(rf"^FAIL .*: --env RANK=0 .*\n    cause: .*\n    hint: {hint}$", plain, re.M)
    assert re.search(r"^ddpkit: \d+ checks? failed.*, after [\d.]+ s", plain, re.M)
    assert not set("✗✓─\x1b") & set(plain)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_plain_verdict_at_a_terminal(
    env: dict[str, str], at_terminal: Callable[..., Terminal], script: SCRIPT
) -> None:
    script(FAILS)
    terminal = at_terminal(["launch", "-n", "2", "--", "job.py"], 80, DDPKIT_HEADER="0", **env)
    assert terminal.end() == 1
    assert b"\x1b" not in terminal.raw
    found = terminal.raw.decode().replace("\r\n", "\n")
    assert "✗" not in found
    assert re.search(
        r"^ddpkit: rank 1 on \S+ failed first, .*: exit code 1: /no/such/shard\.pt .*\nlog: .*\nhint: ", found, re.M
    )
    assert found.count("Traceback (most recent call last)") == 1


def test_a_plain_verdict_in_a_pipe(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(FAILS)
    done = ddpkit("launch", "-n", "2", "--", "job.py", env={"NO_COLOR": ""})
    assert done.returncode == 1
    assert "\x1b" not in done.stderr + done.stdout
    assert done.stderr.count("Traceback (most recent call last)") == 1
    lines = r"^ddpkit: rank 1 on .*\nlog: logs/.*/rank_1\.log\nhint: .*\nmore: ddpkit explain file-missing\n\Z"
    assert re.search(lines, done.stderr, re.M)


@pytest.mark.new_python
def test_colour_can_be_forced(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(FAILS)
    done = ddpkit("launch", "-n", "2", "--", "job.py", env={"NO_COLOR": "", "FORCE_COLOR": "1"})
    assert "✗ FAILED" in done.stderr
    assert "\x1b[1;31m" in done.stderr


LOADED = """
import sys
from ddpkit.cli.app import run
code = run(sys.argv[1:])
print([name for name in sys.modules if name.partition(".")[0] == "rich"], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("line", [["--help"], ["launch", "-n", "1", "--", "job.py"]], ids=str)
def test_rich_is_not_imported_for_a_pipe(line: list[str], script: SCRIPT, tmp_path: Path) -> None:
    script("print('ok')")
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
