"""Files of a run with anything in them: one clear error, and nothing is executed, deleted, signalled or written.

`DDPKIT_FUZZ=10000` sets the number of examples.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ddpkit.cli.app import run as run_command
from ddpkit.diagnosis.catalogue import built
from ddpkit.run import job_status

EXAMPLES = int(os.environ.get("DDPKIT_FUZZ", "60"))
ID = "20260101-000000-train-0a1b"
FAILURE = {
    "host": "node1", "rank": 1, "what": "rank", "code": None, "signal": 9, "seconds": 3.0, "at": 1.7e9,
    "last_lines": ["a"], "log": "rank_1.log", "reason": "", "raised": "", "oom": "", "awaited": "", "dump": "",
    "early": [0], "diagnosis": {"cause": "memory", "fix": "less", "id": "oom", "whose": ""},
    "action": {"action": "exclude", "host": "node1", "id": "oom", "reason": "memory"},
}  # fmt: skip
ATTEMPT = {
    "number": 1, "hosts": ["node1"], "started": 1.7e9, "ended": 1.7e9, "exit_code": 137, "verdict": "words",
    "failure": FAILURE, "progress": 3.0, "first_step": 1.7e9, "saved": 1.7e9,
    "decision": {"action": "same", "hosts": ["node1"], "reason": "because"},
}  # fmt: skip
RUN: dict[str, Any] = {
    "run_id": ID, "folder": "", "backend": "slurm-srun", "command": ["train.py"], "workdir": "/nowhere",
    "hosts": ["node1"], "world_size": 2, "launcher_pid": 1, "launcher_started": "1", "launcher_boot": "",
    "launcher_host": os.uname().nodename, "launcher_python": "python3", "started": 1.7e9, "ended": 1.7e9,
    "state": "failed", "exit_code": 137, "verdict": "words", "ranks": {"node1": [0, 1]}, "grace": 15.0,
    "job_id": "7", "session": {"token": "0123456789abcdef"}, "failure": FAILURE, "project": "/nowhere",
    "job": {
        "cluster": "alpha", "name": "train", "user": "me", "submitted": "2026-01-31T10:00:00", "log": "/nowhere/{job}",
        "many": False, "labels": True, "groups": [],
        "via": {
            "host": "login", "user": "me", "port": 22, "transport": "openssh", "python": "python3",
            "connect_timeout": 5.0,
        },
    },
    "in_program": False, "settings_file": "", "code": {"commit": "a", "branch": "b", "dirty": True, "remote": ""},
    "versions": {"node1": {"python": "3", "torch": "2", "cuda": "12", "nccl": "2"}}, "attempts": [ATTEMPT],
    "spares": ["node2"], "format": 2,
}  # fmt: skip
RANK = {"pid": 7, "state": "R", "cpu": 1.0, "rss": 5, "out": 1.7e9, "code": None, "signal": None}
FILES: dict[str, Any] = {
    "run.json": RUN,
    "status.json": {
        "t": 1.7e9, "hosts": {"node1": {"t": 1.7e9, "ranks": {"0": RANK}}},
        "prev": {"node1": {"t": 1.6e9, "ranks": {"0": RANK}}},
    },
    "attempts.json": {
        "rules": {
            "retries": 2, "retry_codes": [75], "stop_codes": [], "progress": "", "metrics": "", "bad_nodes": "",
            "workdir": "", "command": ["a"],
        },
        "nodes": 1, "hosts": ["node1"], "spares": [], "replaced": {"node2": "why"}, "attempts": [ATTEMPT],
    },
    "step_failure.json": FAILURE,
    "timeline.json": {
        "format": 1, "carried": 1.7e9, "ranks": {
            "0": {"host": "node1", "attempts": 1, "marks": {"start": 1.7e9, "step": 1.7e9},
                  "bins": [[1, 2.0, 2.0, 1, 1.0, 1.0]], "versions": ["3", "2", "12", "2"]},
        },
    },
    "launch.json": {
        "format": 1, "began": 1.7e9, "prepared": 1.7e9, "entered": {"node1": 1.7e9}, "notes": ["a"],
        "nodes": {"node1": {"host": "node1", "python": "3", "torch": {"place": "", "version": "2"}, "cpus": 2,
                            "gpus": 1, "addresses": [["eth0", "10.0.0.1"]], "workdir": "/"}},
        "copies": {"node1": [{"kind": "env", "copied": True, "size": 1, "source": "", "began": 1.0, "ended": 2.0}]},
        "plan": "sh",
    },
    # Its own record counts: a host that this user named may be connected to.
    "index": {
        "folder": "", "host": os.uname().nodename, "run": {**RUN, "job": {**RUN["job"], "via": None}}, "end": None,
    },
}  # fmt: skip
# Texts that are a command, a path, an option, markup, controls, or nothing that has an encoding.
TEXTS = st.sampled_from(
    ["", "$(touch PWNED)", "; touch PWNED", "/etc/passwd", "../..", ".", "/", "-oProxyCommand=touch PWNED", "--all",
     "0", "<script>", "\x1b]52;c;aGk=\x07",
     "\x9b2J", "\u202e", "a\0b", "\ud800", "\udcff", "a\nb", "x" * 5000, "local",
     "running", "left", "node1", "{job}", "~root", "%s%n", "\\", "*"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text(max_size=8)
    | st.sampled_from([-1, 0, 1, 10**30, -(10**30), 1e308, 4194304, 2**31]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from places(each, (*at, key))


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    whole = copy.deepcopy(value)
    inner = whole
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return whole


@st.composite
def contents(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file of a run with one to three of its values replaced, or with anything in it."""
    name = draw(st.sampled_from(sorted(FILES)))
    if draw(st.integers(0, 19)) == 0:
        return name, draw(st.binary(max_size=40))
    value = FILES[name]
    for _ in range(draw(st.integers(1, 3))):
        value = changed(value, draw(st.sampled_from(list(places(value)))), draw(VALUES))
    if isinstance(value, dict) and draw(st.integers(0, 9)) == 0:
        value = {**value, draw(TEXTS): draw(VALUES)}
    return name, json.dumps(value).encode("utf-8", "surrogatepass")


# ---- what a command does


SPIED: list[tuple[str, tuple[Any, ...]]] = []
WATCHED = threading.Event()
# Events of Python's audit that change something, or reach somebody.
ACTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.kill", "os.killpg", "os.remove", "os.rmdir",
        "os.rename", "os.chmod", "os.link", "os.symlink", "os.mkdir", "socket.connect", "signal.pidfd_send_signal",
        "shutil.rmtree")  # fmt: skip


def _spy(event: str, args: tuple[Any, ...], watched: threading.Event = WATCHED) -> None:
    if not watched.is_set():  # not the module's own name: Python clears it before the last events of its end
        return
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if event in ACTS or writes:
        SPIED.append((event, args))


sys.addaudithook(_spy)


@contextmanager
def watched() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    SPIED.clear()
    WATCHED.set()
    try:
        yield SPIED
    finally:
        WATCHED.clear()


def asks_the_scheduler(event: str, args: tuple[Any, ...]) -> bool:
    """The backend's own question about a job of a checked id."""
    words = list(args[1]) if event == "subprocess.Popen" else []
    shows = words[:4] == ["scontrol", "--oneliner", "show", "job"] and len(words) == 5 and words[4].isdigit()
    return shows or words == ["scontrol", "show", "config"]


COMMANDS = (
    ("ps",), ("ps", "--json"), ("status", "{}"), ("status", "{}", "--json"), ("report", "{}", "--json"),
    ("rm", "--dry-run", "{}"), ("rm", "--ended", "--dry-run"), ("stop", "--dry-run", "{}"), ("logs", "{}"),
    ("explain", "{}"), ("status", ID), ("stop", "--dry-run", ID),
)  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project, an index and no programs."""
    root = tmp_path_factory.mktemp("fuzz")
    patch = pytest.MonkeyPatch()
    (root / "project").mkdir()
    (root / "project" / "ddpkit.toml").touch()
    patch.chdir(root / "project")
    patch.setenv("XDG_STATE_HOME", str(root / "state"))
    patch.setenv("PATH", str(root / "none"))
    patch.setenv("NO_COLOR", "1")
    patch.setattr(sys, "dont_write_bytecode", True)  # Python keeps what a command imports for the first time
    built.load()  # a clone keeps the catalogue that it builds for the first time
    yield root
    patch.undo()


def write(root: Path, name: str, content: bytes) -> Path:
    folder, index = root / "project" / "logs" / ID, root / "state" / "ddpkit" / "runs"
    for directory in (folder, index):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    index.chmod(0o700)
    where = json.dumps({"folder": str(folder)}).encode()[1:-1]
    for each, value in FILES.items():
        data = content if each == name else json.dumps(value).encode()
        (index / ID if each == "index" else folder / each).write_bytes(data.replace(b'"folder": ""', where))
    (folder / "all.log").write_text("[0 node1] hello\n")
    return folder


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(contents(), st.randoms(use_true_random=False))
def test_any_content_of_a_file_is_data(
    place: Path, capfd: pytest.CaptureFixture[str], file: tuple[str, bytes], chance: random.Random
) -> None:
    folder = write(place, *file)
    if chance.random() < 0.2:
        folder.chmod(0o777)
    before = sorted(path.name for path in folder.iterdir())
    for words in chance.sample(COMMANDS, 5):
        job_status._controllers.clear()
        argv = [word.format(folder) for word in words]
        with watched() as events:
            code = run_command(argv)
        done = capfd.readouterr()
        assert "Traceback" not in done.err, (file, argv, done.err)
        assert code in (0, 121, 122, 123, 125, 137), (file, argv, code, done.err)
        assert code in (0, 137) or done.err.count("ddpkit: error: ") == 1, (file, argv, done.err)
        acts = [each for each in events if not asks_the_scheduler(*each)]
        assert not acts, (file, argv, acts)
        assert sorted(path.name for path in folder.iterdir()) == before
        assert not list(place.rglob("PWNED"))
