"""On a real terminal the status lines stay below the lines, and vanish; elsewhere there are none."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT
from run_logs import all_lines
from terminal import Terminal

STATUS = re.compile(r"(starting|running|ending) · \S+ ranks? · .*\d:\d\d")


Open = Callable[..., Terminal]
LAUNCH = [sys.executable, "-m", "ddpkit", "launch"]


@pytest.fixture
def terminal(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[Open]:
    opened: list[Terminal] = []

    def launch(
        *words: str, argv: list[str] = LAUNCH, streams: tuple[int, ...] = (0, 1, 2), env: dict[str, str] | None = None
    ) -> Terminal:
        # Ranks that start a minute apart still fold: a line that all have said does not wait.
        env = {**clean_environ, "TERM": "xterm", "DDPKIT_FOLD": "60", **(env or {})}
        opened.append(Terminal([*argv, *words], tmp_path, env, streams))
        return opened[-1]

    yield launch
    for each in opened:
        each.close()


WAITS = """
import os, time
print("loading", flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
for number in range(40):
    print("step", number, flush=True)
if os.environ["RANK"] == "1":
    print("I differ", flush=True)
print("done", flush=True)
"""


def statuses(lines: list[str]) -> list[str]:
    return [line for line in lines if STATUS.match(line)]


def leftover(raw: bytes) -> bytes:
    """What could change the terminal for longer than one drawing takes: every other sequence than those we know."""
    drawn = re.sub(rb"\x1b\[\?7l[^\x1b]*(?:\x1b\[\d*m[^\x1b]*)*\x1b\[\dA\r\x1b\[\?7h", b"", raw)
    return b"".join(re.findall(rb"\x1b.*", re.sub(rb"\x1b\[(?:\d*m|J)", b"", drawn)))


def test_status_lines_stand_below_and_vanish(terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    script(WAITS)
    run = terminal("-n", "4", "--", "job.py")
    run.wait_for(lambda: run.shows("loading") and run.shows("running · 4 ranks · 1 node"))
    run.wait_for(lambda: STATUS.match(run.glass.rows[-1]) and run.glass.row == len(run.glass.rows) - 2)
    assert (run.glass.rows[run.glass.row], run.glass.column) == ("", 0)  # the cursor rests above them
    (tmp_path / "go").touch()
    assert run.end() == 0
    lines = run.glass.lines
    assert statuses(lines) == []
    shown = [line for line in lines if line.startswith("[")]
    assert shown[0] == "[0-3] loading"
    counts = {text: sum(line.endswith(f"] {text}") for line in shown) for text in ("I differ", "loading")}
    assert counts == {"I differ": 1, "loading": 1}
    assert any(re.fullmatch(r"\[1 \S+\] I differ", line) for line in shown)
    assert lines[-1] == ""
    assert lines[-2].startswith("ddpkit: done in")
    (folder,) = tmp_path.glob("logs/*")
    assert all_lines(folder).count("loading") == 4
    assert not leftover(run.raw)


def test_history_holds_the_lines_alone(terminal: Open, script: SCRIPT) -> None:
    script("import time\nfor number in range(300):\n    print('line', number, flush=True)\n    time.sleep(0.005)\n")
    run = terminal("-n", "1", "--", "job.py")
    assert run.end() == 0
    found = [line.partition("] ")[2] for line in run.glass.lines if line.startswith("[")]
    assert found == [f"line {number}" for number in range(300)]
    assert len(run.glass.history) > 270
    assert statuses(run.glass.lines) == []
    assert STATUS.search(run.raw.decode())


def test_the_metrics_file_is_read(terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    script(
        """
import json, os, time
os.makedirs("out", exist_ok=True)
with open("out/m.jsonl", "a") as file:
    file.write('{"step": 7, "loss": 0.25, "samples_per_second": 4321.0}\\n{"step": 8, "lo')
    file.flush()
    while not os.path.exists("go"):
        time.sleep(0.02)
"""
    )
    run = terminal("-n", "1", "--", "job.py", env={"DDPKIT_METRICS": "out/m.jsonl"})
    run.wait_for(lambda: run.shows(r"running · 1 rank · .* · step 7 · loss 0\.25 · 4,321 samples/s"))
    (tmp_path / "go").touch()
    assert run.end() == 0


@pytest.mark.parametrize(
    ("words", "env"),
    [([], {"DDPKIT_HEADER": "0"}), ([], {"TERM": "dumb"}), (["--json"], {})],
    ids=str,
)
def test_ways_to_have_none(words: list[str], env: dict[str, str], terminal: Open, script: SCRIPT) -> None:
    script("print('hello')")
    run = terminal("-n", "1", *words, "--", "job.py", env=env)
    assert run.end() == 0
    assert run.shows("hello")
    assert b"\x1b" not in run.raw
    assert not STATUS.search(run.raw.decode())


def test_fold_0_shows_every_rank(terminal: Open, script: SCRIPT) -> None:
    script("print('hello')")
    run = terminal("-n", "3", "--", "job.py", env={"DDPKIT_FOLD": "0"})
    assert run.end() == 0
    assert sum(line.endswith("] hello") for line in run.glass.lines) == 3


def test_without_a_terminal_lines_are_plain(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("print('hello')")
    done = ddpkit("launch", "-n", "3", "--", "job.py", env={"TERM": "xterm", "NO_COLOR": ""})
    assert sorted(line.partition(" ")[0] for line in done.stdout.splitlines()) == ["[0", "[1", "[2"]
    assert "\x1b" not in done.stdout + done.stderr
    assert "·" not in done.stdout + done.stderr


BOTH = "import sys\nprint('to out', flush=True)\nprint('to err', file=sys.stderr)\n"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("header", "maybe", "header = 'maybe'"),
        ("fold", "-1", "fold = -1"),
        ("fold", "x", "fold = x"),
        ("metrics", "", "metrics"),
    ],
)
def test_bad_settings_are_named(name: str, value: str, words: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "-n", "1", "--", "true", env={f"DDPKIT_{name.upper()}": value})
    assert done.returncode == 121
    assert f"DDPKIT_{name.upper()}: {words}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("file", [1, 2])
def test_one_of_two_streams_is_a_terminal(file: int, terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    """The one folds and has colours and status lines; the other, a file, has every line as it is."""
    script(BOTH)
    run = terminal("-n", "2", "--", "job.py", streams=tuple({0, 1, 2} - {file}))
    assert run.end() == 0
    kept = (tmp_path / f"stream{file}").read_text()
    there, here = ("to out", "to err") if file == 1 else ("to err", "to out")
    assert sum(line.endswith(f"] {there}") for line in kept.splitlines()) == 2
    assert sum(line.endswith(f"] {here}") for line in run.glass.lines) == 1
    assert run.shows(r"^\[0-1\] ")
    assert here not in kept
    assert "\x1b" not in kept
    assert STATUS.search(run.raw.decode())
    assert statuses(run.glass.lines) == []


def test_a_narrow_window_gets_narrow_lines(terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    script(WAITS)
    run = terminal("-n", "2", "--", "job.py")
    run.wait_for(lambda: statuses(run.glass.rows))
    run.resize(40)
    run.wait_for(lambda: statuses(run.glass.rows) and all(len(line) < 40 for line in run.glass.rows[-2:]))
    run.resize(15)
    run.wait_for(lambda: not statuses(run.glass.rows))
    run.resize(80)
    run.wait_for(lambda: statuses(run.glass.rows))
    (tmp_path / "go").touch()
    assert run.end() == 0
    assert statuses(run.glass.lines) == []


def test_enter_and_other_writers_lose_no_line(terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    script(WAITS)
    run = terminal("-n", "2", "--", "job.py")
    run.wait_for(lambda: run.shows("loading") and statuses(run.glass.rows))
    os.write(run.handle, b"\n")  # the terminal echoes it
    run.wait_for(lambda: run.shows("0:0[1-9]"))
    (tmp_path / "go").touch()
    assert run.end() == 0
    assert run.shows(r"\[0-1\] loading")
    assert sum(bool(re.search(r"\] step \d+$", line)) for line in run.glass.lines) >= 40
    assert statuses(run.glass.lines) == []


def test_a_killed_launcher_leaves_a_usable_terminal(terminal: Open, script: SCRIPT) -> None:
    script(WAITS)
    run = terminal("-n", "2", "--", "job.py")
    before = termios.tcgetattr(run.handle)
    run.wait_for(lambda: statuses(run.glass.rows))
    os.kill(run.pid, signal.SIGKILL)
    assert run.end() == -signal.SIGKILL
    assert run.glass.rows[run.glass.row] == ""
    assert run.glass.column == 0
    assert termios.tcgetattr(run.handle) == before
    assert not leftover(run.raw)


def test_ctrl_c_ends_with_the_status_lines_gone(terminal: Open, script: SCRIPT) -> None:
    script("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    run = terminal("-n", "2", "--", "job.py")
    run.wait_for(lambda: run.shows("ready") and statuses(run.glass.rows))
    os.write(run.handle, b"\x03")
    assert run.end() == 130
    assert statuses(run.glass.lines) == []
    assert run.shows("SIGINT: ending all ranks")


def test_ctrl_z_gives_the_terminal_back(terminal: Open, script: SCRIPT, tmp_path: Path) -> None:
    """Under a shell with job control: no status line while it is stopped or in the background, and again in front."""
    script(WAITS)
    run = terminal("--norc", "--noprofile", "--noediting", "-i", argv=["bash"], env={"PS1": "PROMPT "})
    run.wait_for(lambda: run.shows("PROMPT"))
    os.write(run.handle, f"{sys.executable} -m ddpkit launch -n 2 -- job.py\n".encode())
    run.wait_for(lambda: run.shows("loading") and statuses(run.glass.rows))
    os.write(run.handle, b"\x1a")
    run.wait_for(lambda: run.shows("Stopped"))
    assert statuses(run.glass.rows) == []
    seen = len(run.raw)
    os.write(run.handle, b"bg; echo WAI''TED\n")
    run.wait_for(lambda: run.shows("^WAITED"))
    os.write(run.handle, b"fg\n")
    run.wait_for(lambda: statuses(run.glass.rows))
    assert not STATUS.search(run.raw[seen : run.raw.index(b"WAITED", seen)].decode())
    (tmp_path / "go").touch()
    run.wait_for(lambda: run.shows("ddpkit: done in"))
    assert statuses(run.glass.lines) == []
    os.write(run.handle, b"exit\n")
    assert run.end() == 0
