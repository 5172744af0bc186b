"""What ranks, records, nodes and files hold controls no terminal, whichever command shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from terminal import Terminal

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
# The clipboard, a title, a question, a cleared screen; C1 as a character and as a byte; text that is written backwards.
HOSTILE = "x\x1b]52;c;aGk=\x07\x1b]0;owned\x07\x1b[6n\x1b[2J\x9b2J\x9d0;owned\x9c\u202e\u2066\u200b\x08end"
SCRIPT = f"""
import os, sys
os.write(1, {(HOSTILE + " of a rank").encode()!r} + b"\\n")
os.write(1, b"raw \\x9b2J \\x9d0;owned\\x07 of a rank\\n")
raise RuntimeError({HOSTILE!r})
"""
OWN = re.compile(rb"\x1b\[[\d;:]*m|\x1b\[\?7[lh]|\x1b\[\d*[AJ]|\x1b\[J")  # colours, and the status lines
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u202a-\u202e\u2066-\u2069]")


def controls(data: bytes) -> list[str]:
    """What is left of controls beside our own. A byte of C1 alone is one on some terminals."""
    text = OWN.sub(b"", data).decode("utf-8", "surrogateescape").replace("\r", "")
    return CONTROL.findall(text) + re.findall("[\udc80-\udc9f]", text)


@pytest.fixture
def at_terminal(tmp_path: Path, clean_environ: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    terminals = []

    def start(*words: str, rich: bool) -> Terminal:
        env = {**clean_environ, "TERM": "xterm-256color", "COLUMNS": "100", **({} if rich else {"NO_COLOR": "1"})}
        terminals.append(Terminal([sys.executable, "-m", "ddpkit", *words], tmp_path, env))
        return terminals[-1]

    yield start
    for each in terminals:
        each.close()


@pytest.mark.parametrize("rich", [True, False], ids=["rich", "plain"])
def test_no_command_passes_a_control_on(rich: bool, at_terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    first = at_terminal("launch", "-n", "1", "--", "job.py", HOSTILE.replace("\udc9b", ""), rich=rich)
    assert first.end() == 1
    assert b"end of a rank" in first.raw
    assert controls(first.raw) == []
    (folder,) = (tmp_path / "logs").iterdir()
    path = folder / "run.json"
    record = json.loads(path.read_text())
    record["verdict"] = f"{record['verdict']} {HOSTILE}"
    record["log_problem"] = HOSTILE
    record["failure"]["diagnosis"]["cause"] = HOSTILE
    record["failure"]["last_lines"] = [HOSTILE, *record["failure"]["last_lines"]]
    path.write_text(json.dumps(record))
    (tmp_path / "hostile.log").write_bytes((folder / "rank_0.log").read_bytes() * 2)
    (tmp_path / "bad.json").write_text(json.dumps({"nodes": {"n1": {"reason": HOSTILE, "when": 1.0, "run": HOSTILE}}}))
    for words in (
        ["status", str(folder)],
        ["status", "--all"],
        ["ps"],
        ["ps", "-a"],
        ["logs", str(folder)],
        ["logs", str(folder), "--rank", "0"],
        ["logs", str(folder), "--rank", "0", "--tail", "5"],
        ["explain", str(folder)],
        ["explain", "hostile.log"],
        ["explain", HOSTILE],
        ["report", str(folder)],
        ["dump", str(folder)],
        ["top", str(folder), "--once"],
        ["attach", str(folder)],
        ["stop", str(folder)],
        ["rm", str(folder), "--dry-run"],
        ["nodes", "--bad-nodes", "bad.json"],
        ["launch", "-b", "ssh", HOSTILE, "--", "true"],
        ["launch", "-n", "1", "--dry-run", "--", "job.py", HOSTILE],
        ["launch", "-n", "1", "--", HOSTILE],
        ["launch", f"--{HOSTILE}"],
        [HOSTILE],
        ["test", "-b", "ssh", HOSTILE],
    ):
        shown = at_terminal(*words, rich=rich)
        shown.end()
        assert b"Traceback" not in shown.raw or words[0] in ("logs", "status", "explain", "attach"), shown.raw
        assert controls(shown.raw) == [], words


def test_a_program_gets_the_bytes(ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    ddpkit("launch", "-n", "1", "--", "job.py")
    (folder,) = (tmp_path / "logs").iterdir()
    done = subprocess.run(
        [sys.executable, "-m", "ddpkit", "logs", str(folder), "--rank", "0"],
        cwd=tmp_path,
        env=clean_environ,
        capture_output=True,
        check=True,
    )
    assert done.stdout == (folder / "rank_0.log").read_bytes()


def test_a_field_does_not_make_a_line_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    from ddpkit.cli import look

    look.table(("host", "state"), [("a\nnode2  pass", "pass"), ("b\x1b[2J", "fail\n")])
    assert len(capsys.readouterr().out.splitlines()) == 3
