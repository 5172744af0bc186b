"""Roles that cannot run: one clear error, the documented exit code, and nothing was started. Services that fail."""

from __future__ import annotations

import ctypes
import re
import signal
from pathlib import Path

import pytest
from conftest import DDPKIT, START

from ddpkit.errors import NO_PROGRESS, UsageError

TRAIN = '[roles.train]\ncommand = "train.py"\nends_run = true\n'
INFER = '[roles.infer]\ncommand = "serve.py {port}"\nready = "tcp"\n'
# The text of ddpkit.toml, and the first line of the error.
REFUSED = {
    "an unknown role in after": (
        INFER + TRAIN + 'after = ["inferr"]',
        r"roles\.train\.after: there is no role inferr$",
    ),
    "a role after itself": (TRAIN + 'after = ["train"]', r"roles\.train\.after names the role itself$"),
    "a circle": (
        INFER + 'after = ["train"]\n' + TRAIN + 'after = ["infer"]',
        r"infer after train after infer: each waits for the next$",
    ),
    "a name twice": (TRAIN + TRAIN, r"ddpkit\.toml:4: invalid TOML: "),
    "no role that ends the run": (INFER, r"no role ends the run$"),
    "a role of no nodes": (INFER + "nnodes = 0\n" + TRAIN, r"roles\.infer\.nnodes = 0 is not valid$"),
    "no command": ("[roles.train]\nends_run = true", r"roles\.train: it has no command$"),
    "an empty command": (TRAIN.replace("train.py", ""), r"roles\.train\.command = '' is not valid$"),
    "a quote that does not end": (
        TRAIN.replace("train.py", "train.py 'a"),
        r"roles\.train\.command: No closing quotation$",
    ),
    "an unknown setting": (TRAIN + "nodes = 2", r"roles\.train\.nodes: no such setting of a role$"),
    "a setting of the run": (TRAIN + 'hosts = ["node1"]', r"roles\.train\.hosts: it holds for the whole run$"),
    "a wrong value of a setting": (TRAIN + "grace = -1", r"roles\.train: grace = -1: must be from 0"),
    "an unknown probe": (INFER.replace("tcp", "udp") + TRAIN, r"roles\.infer\.ready = 'udp' is not valid$"),
    "a wrong expression": (INFER.replace("tcp", "line: (") + TRAIN, r"roles\.infer\.ready: .*unterminated subpattern"),
    "an expression that Python cannot read": (
        INFER.replace("tcp", f"line: {'(' * 3000}{')' * 3000}") + TRAIN,
        r"roles\.infer\.ready: maximum recursion depth",
    ),
    "a limit without a probe": (
        TRAIN + "ready_timeout = 3",
        r"roles\.train\.ready_timeout has no effect without ready$",
    ),
    "an address of nobody": (
        TRAIN.replace("train.py", "train.py {infr.urls}") + INFER,
        r"\{infr\.urls\}: there is no role",
    ),
    "an unknown address": (
        TRAIN.replace("train.py", "train.py {infer.uri}") + INFER,
        r"\{infer\.uri\}: no such address$",
    ),
    "an address before its time": (
        TRAIN.replace("train.py", "train.py {infer.urls}") + INFER,
        r"\{infer\.urls\}: its port is chosen when infer starts$",
    ),
    "an address of a role without port": (
        '[roles.data]\ncommand = "data.py"\n' + TRAIN.replace("train.py", "train.py {data.urls}"),
        r"\{data\.urls\}: data has no port$",
    ),
    "GPUs twice": (
        INFER + "gpus = 2\n" + TRAIN + 'gpus = 3\nbeside = "infer"',
        r"has 4 GPUs; promised are 2 of infer \+ 3 of train$",
    ),
    "GPUs of which nobody knows": (
        INFER + "gpus = 2\n" + TRAIN + 'beside = "infer"',
        r"roles\.train says not how many$",
    ),
    "a name that is no directory": (TRAIN.replace("train]", '"../x"]'), r"'\.\./x' is not the name of a role$"),
    "no table": ("roles = 3", r"roles = 3 is not a table$"),
    "a job array": (
        'backend = "slurm"\noptions = { array = "0-3" }\n' + TRAIN,
        r"-o array does not work with roles$",
    ),
    "nodes of another kind beside a role": (
        'backend = "slurm"\n' + TRAIN + INFER + 'beside = "train"\noptions = { partition = "gpu" }',
        r"roles\.infer\.options\.partition: it has the nodes of train$",
    ),
    "a job of its own for one role": (
        'backend = "slurm"\n' + TRAIN + "options = { new-job = true }",
        r"roles\.train\.options\.new_job: it holds for the whole run$",
    ),
    "components of no role": (
        'backend = "slurm"\noptions = { hetjob = "--nodes=2" }\n' + TRAIN,
        r"-o hetjob does not work with roles$",
    ),
    "a script that is missing": (TRAIN.replace("train.py", "nope.py"), r"nope\.py"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    text, wanted = REFUSED[case]
    for name in ("serve.py", "train.py", "data.py"):
        (tmp_path / name).write_text("raise SystemExit('it was started')")
    (tmp_path / "ddpkit.toml").write_text(text)
    done = ddpkit("launch", env={"DDPKIT_GPUS": "4"})
    assert done.returncode == UsageError.exit_code, done.stderr
    first = next(line for line in done.stderr.splitlines() if line.startswith("ddpkit: error: "))
    assert re.search(wanted, first), done.stderr
    assert "Traceback" not in done.stderr
    assert "it was started" not in done.stdout + done.stderr
    assert not list(tmp_path.glob("logs/*"))


# A service, and what its verdict says of it. The trainer would say that it was started.
SILENT = "import time; print('loading', flush=True); time.sleep(3600)"
ANGRY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(500)
    def log_message(self, *words): pass
print('loading', flush=True)
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
"""
TAKEN = """
import socket, sys
first = socket.socket(); first.bind(('127.0.0.1', int(sys.argv[1]))); first.listen()
print('loading', flush=True)
second = socket.socket(); second.bind(('127.0.0.1', int(sys.argv[1])))
"""
FAILING = {
    "prints and never listens": (
        SILENT,
        "tcp",
        NO_PROGRESS,
        r"it is not ready after 2 s: port \d+: Connection refused",
    ),
    "answers 500": (
        ANGRY,
        "http:/health",
        NO_PROGRESS,
        r"it is not ready after 2 s: GET /health on port \d+: status 500",
    ),
    "never prints its line": (
        SILENT,
        "line: ready",
        NO_PROGRESS,
        r"it is not ready after 2 s: no line matches 'ready'",
    ),
    "its line cannot be searched": (
        "import time; print('loading' + 'a' * 40 + '!', flush=True); time.sleep(3600)",
        "line: (a+)+$",
        NO_PROGRESS,
        r"cannot be ready: the search for '\(a\+\)\+\$': a few lines took|the search of a line .* has not ended",
    ),
    "its port is in use": (TAKEN, "http:/health", 1, r"[Aa]ddress already in use"),
    "ends early with 0": ("print('loading')", "http:/health", 1, r"it ended with exit code 0 before the run"),
    "fails": ("print('loading', flush=True); raise SystemExit(7)", "http:/health", 7, r"exit code 7"),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_service_that_is_not_ready(case: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The run ends with its verdict: the replica, the cause, and its last lines. The trainer never starts."""
    text, ready, code, wanted = FAILING[case]
    (tmp_path / "serve.py").write_text(text)
    (tmp_path / "train.py").write_text("print('the trainer was started')")
    infer = f'[roles.infer]\ncommand = "serve.py {{port}}"\nready = "{ready}"\nready_timeout = 2\n'
    (tmp_path / "ddpkit.toml").write_text("grace = 1\n" + infer + TRAIN + 'after = ["infer"]\n')
    done = ddpkit("launch")
    assert done.returncode == code, done.stderr
    assert re.search(wanted, done.stderr), done.stderr
    assert "ddpkit: infer.0: " in done.stderr or "ddpkit: infer.0 " in done.stderr, done.stderr
    assert "loading" in done.stdout + done.stderr
    assert "the trainer was started" not in done.stdout
    assert "Traceback (most recent" not in done.stderr or case == "its port is in use"


def test_a_signal_is_obeyed_while_a_line_is_searched(start: START, tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("import time; print('loading' + 'a' * 40 + '!', flush=True); time.sleep(3600)")
    (tmp_path / "train.py").write_text("print('the trainer was started')")
    infer = '[roles.infer]\ncommand = "serve.py"\nready = "line: (a+)+$"\n'
    (tmp_path / "ddpkit.toml").write_text("grace = 1\n" + infer + TRAIN + 'after = ["infer"]\n')
    run = start("launch")
    run.wait_for("loading")
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(30) in (143, NO_PROGRESS), run.text  # or the search was over before
    run.wait_for_no_survivor()


def test_a_replica_that_dies_at_once_starts_again_after_a_pause(start: START, tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("print('loading', flush=True); raise SystemExit(7)")
    (tmp_path / "train.py").write_text("")
    infer = INFER.replace("tcp", "line: never") + "restart = 2\n"
    (tmp_path / "ddpkit.toml").write_text(infer + TRAIN + 'after = ["infer"]\n')
    run = start("launch")
    _, second, third = (run.wait_for("loading", times) for times in (1, 2, 3))
    assert third - second >= 1  # 2 s between the starts, of which Python takes some
    assert run.end() == 7
    assert re.search(r"restart 2 of 2 of infer\.0 in [12]\.\d s: ", run.text), run.text


def test_a_run_that_ends_in_the_pause_before_a_restart_starts_nothing_again(
    start: START, ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (tmp_path / "serve.py").write_text("raise SystemExit(7)")
    (tmp_path / "train.py").write_text("")
    infer = INFER.replace("tcp", "line: never") + "restart = 4\n"
    (tmp_path / "ddpkit.toml").write_text(infer + TRAIN + 'after = ["infer"]\n')
    run = start("launch")
    run.wait_for("restart 4 of 4 of infer.0 in ")  # 8 s, less what the last start took
    shown = ddpkit("stop", "--role", "infer")
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 130, run.text
    assert "infer has ended, and starts again after a pause; to stop the whole run: ddpkit stop " in shown.stderr
    assert len(list(tmp_path.glob("logs/*/roles/*"))) == 4
    assert "\nddpkit: infer.0" not in run.text.partition("SIGINT")[2]


def test_a_signal_that_does_not_wake_the_loop_is_not_lost(start: START, tmp_path: Path) -> None:
    """As one that comes just before the loop waits: here another thread gets it."""
    (tmp_path / "train.py").write_text("import time; print('training', flush=True); time.sleep(3600)")
    (tmp_path / "ddpkit.toml").write_text(TRAIN)
    run = start("launch")
    run.wait_for("training")
    main = run.process.pid
    others = [int(task.name) for task in Path(f"/proc/{main}/task").iterdir() if int(task.name) != main]
    assert ctypes.CDLL(None).tgkill(main, min(others), signal.SIGINT) == 0
    assert run.end() == 130, run.text


# Rank 1 of the service fails, which may start again. While its rank 0 saves, the trainer fails and with it the run.
SAVES = """
import os, signal, sys, time
def save(*_):
    open("saving", "w").close()
    while not os.path.exists("failing"):
        time.sleep(0.01)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
if os.environ["RANK"] == "0":
    signal.signal(signal.SIGTERM, save)
    open("there", "w").close()
    time.sleep(3600)
while not os.path.exists("there"):
    time.sleep(0.01)
sys.exit(7)
"""
FAILS = """
import os, sys, time
while not os.path.exists("saving"):
    time.sleep(0.01)
open("failing", "w").close()
sys.exit(3)
"""


def test_a_replica_that_ends_already_keeps_its_grace(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(SAVES)
    (tmp_path / "train.py").write_text(FAILS)
    infer = '[roles.infer]\nnproc_per_node = 2\ncommand = "serve.py"\nrestart = 1\n'
    (tmp_path / "ddpkit.toml").write_text("grace = 60\n" + infer + TRAIN)
    done = ddpkit("launch")
    assert done.returncode == 7, done.stderr
    assert "saved" in done.stdout, done.stdout + done.stderr
