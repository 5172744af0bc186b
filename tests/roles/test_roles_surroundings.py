"""Runs of roles in odd surroundings: somebody else's, nobody reads, a full disk, detached, in a container, retried."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

ROOT = Path(__file__).parents[2]
DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
START = Callable[..., Command]
SERVES = """
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(len(self.path) / 16).encode())
    def log_message(self, *args):
        pass
print("in the image:", os.environ.get("IN_IMAGE", "no"), os.getpid(), flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""
ROLES = """
[roles.infer]
command = "serves.py {port}"
ready = "http:/"
%s
[roles.train]
command = "train.py {infer.url}"
after = ["infer"]
ends_run = true
%s
"""


def write(folder: Path, train: str, *, infer: str = "", more: str = "") -> None:
    (folder / "serves.py").write_text(SERVES)
    (folder / "train.py").write_text(train)
    (folder / "ddpkit.toml").write_text(ROLES % (infer, more))


def launch(folder: Path, environ: dict[str, str], shell: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell, in which `launch` launches the roles."""
    line = shell.replace("launch", f"{sys.executable} -m ddpkit launch -b local")
    argv = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=120)


# ---- who reads


MANY = 'print(("x" * 79 + "\\n") * 40_000, end="", flush=True)\nraise SystemExit(3)\n'


def test_a_slow_reader_gets_all_lines_of_a_run_that_failed(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """It reads only once the run has ended: until then nothing more than a pipe holds comes through."""
    write(tmp_path, MANY)
    done = launch(tmp_path, clean_environ, "launch | { sleep 5; grep -c xxx; }")
    assert (done.returncode, done.stdout) == (3, "40000\n"), done.stderr


def test_a_closed_pipe_ends_the_run(tmp_path: Path, clean_environ: dict[str, str]) -> None:
    write(tmp_path, "import time\nwhile True:\n    print('training', flush=True)\n    time.sleep(0.02)\n")
    done = launch(tmp_path, clean_environ, "launch | grep -m 1 training")
    assert done.stdout == "[train vm] training\n".replace("vm", os.uname().nodename.partition(".")[0])
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(("code", "ends"), [(0, 125), (7, 7)])
def test_a_full_disk_behind_json(code: int, ends: int, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """Said in one line; a run's own exit code is kept."""
    write(tmp_path, f"raise SystemExit({code})")
    done = launch(tmp_path, clean_environ, "launch --json > /dev/full")
    assert done.returncode == ends, done.stderr
    assert "cannot write the record to standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


# ---- whose it is


WAITS = "import os, time\nprint('training', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.02)\n"


def give(run: Path, user: int) -> None:
    for path in [run, *run.rglob("*")]:
        os.chown(path, user, user, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory to another user")
def test_a_run_of_somebody_else_is_only_looked_at(start: START, ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Its lines are shown. Nothing is sent to its processes, asked of them or removed."""
    write(tmp_path, WAITS)
    command = start("launch", "-b", "local")
    command.wait_for("training")
    (run,) = (tmp_path / "logs").iterdir()
    index = {"XDG_STATE_HOME": str(tmp_path / "state")}  # in which the run is not
    give(run, 12345)
    try:
        assert "training" in ddpkit("logs", str(run), env=index).stdout
        for words in (["stop", "--role", "infer.0"], ["stop"], ["dump", "--role", "infer.0"], ["dump"], ["rm"]):
            done = ddpkit(words[0], str(run), *words[1:], env=index)
            assert done.returncode == 121, (words, done.stdout, done.stderr)
            assert re.search("somebody else|by others|nothing was removed", done.stderr), (words, done.stderr)
        assert not [path.name for path in run.rglob("*") if path.suffix == ".ask" or path.name == "requests"]
    finally:
        give(run, 0)
    (tmp_path / "go").touch()
    assert command.end() == 0, command.text
    assert "restart" not in command.text


# ---- where it runs


def test_a_detached_run(ddpkit: DDPKIT, tmp_path: Path) -> None:
    write(tmp_path, WAITS)
    done = ddpkit("launch", "-b", "local", "--detach")
    assert done.returncode == 0, done.stderr
    run = done.stdout.split()[-1]
    until = time.monotonic() + 60
    while "training" not in ddpkit("logs", run, "--role", "train").stdout:
        assert time.monotonic() < until
        time.sleep(0.1)
    states = {each["name"]: each["phase"] for each in json.loads(ddpkit("status", run, "--json").stdout)["roles"]}
    assert states == {"infer.0": "ready", "train.0": "ready"}
    (tmp_path / "go").touch()
    while json.loads(ddpkit("status", run, "--json").stdout)["state"] != "done":
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_container_of_one_role(ddpkit: DDPKIT, tmp_path: Path, clean_environ: dict[str, str]) -> None:
    """`tests/standins` stands in for podman."""
    (tmp_path / "images").mkdir()
    inside = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "IN_IMAGE": "yes"}
    (tmp_path / "images/plain").write_text(json.dumps({"env": inside}))
    options = 'options = { container = "plain", container_runtime = "podman", starter = "ranks" }'
    write(tmp_path, "import os; print('trainer:', os.environ.get('IN_IMAGE', 'no'))", infer=options)
    path = f"{ROOT / 'tests/standins'}:{clean_environ['PATH']}"
    done = ddpkit("launch", "-b", "local", env={"PATH": path, "STANDIN_IMAGES": f"{tmp_path}/images"})
    assert done.returncode == 0, done.stderr
    assert "in the image: yes" in done.stdout, done.stdout
    assert "trainer: no" in done.stdout, done.stdout


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux binds processes to CPUs")
def test_the_cpus_of_roles_on_one_machine(ddpkit: DDPKIT, tmp_path: Path) -> None:
    cpus = os.sched_getaffinity(0)
    shows = "import os; print(os.environ['DDPKIT_ROLE'], *os.sched_getaffinity(0), os.environ['DDPKIT_CPUS'])"
    (tmp_path / "shows.py").write_text(shows)
    roles = '[roles.%s]\ncommand = "shows.py"\nends_run = true\n'
    (tmp_path / "ddpkit.toml").write_text(roles % "a" + "cpus = 1\n" + roles % "b")
    done = ddpkit("launch", "-b", "local")
    if len(cpus) == 1:
        assert done.returncode == 121
        assert "b would have none" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    seen = dict(line.partition("] ")[2].split(maxsplit=1) for line in done.stdout.splitlines())
    assert len(seen["a"].split()) == 2, "one CPU, and its place"
    assert seen["a"].endswith(" 0-0")
    assert seen["b"].endswith(" 1-")
    a, b = ({int(cpu) for cpu in seen[name].split()[:-1]} for name in "ab")
    assert a | b == cpus
    assert not a & b


# ---- retried


STEPS = """
import os, sys, urllib.request
loss, step = 1.0, 0
if os.path.exists("checkpoint"):
    loss, step = (float(word) for word in open("checkpoint").read().split())
while step < 8:
    loss -= loss * float(urllib.request.urlopen(sys.argv[1] + "/" + "x" * int(step % 4)).read())
    step += 1
    open("checkpoint.new", "w").write(f"{loss!r} {step!r}")
    os.replace("checkpoint.new", "checkpoint")
    if step == 5 and os.environ["DDPKIT_ATTEMPT"] == "1" and os.path.exists("fail"):
        sys.exit(3)
print("loss", loss, flush=True)
"""


def test_the_loss_of_a_retried_trainer_is_that_of_an_undisturbed_run(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """It goes on from its checkpoint, with the same server."""
    write(tmp_path, STEPS, more="retries = 1\nretry_codes = [3]")
    losses, servers = [], []
    for fails in (False, True):
        (tmp_path / "checkpoint").unlink(missing_ok=True)
        if fails:
            (tmp_path / "fail").touch()
        done = ddpkit("launch", "-b", "local")
        assert done.returncode == 0, done.stderr
        losses.append([line.partition("loss ")[2] for line in done.stdout.splitlines() if "loss " in line])
        servers.append(done.stdout.count("in the image"))
        assert ("attempt 2" in done.stdout + done.stderr) is fails, done.stdout + done.stderr
    assert losses[0] == losses[1]
    assert len(losses[0]) == 1
    assert servers == [1, 1]
