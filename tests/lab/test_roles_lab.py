"""One file of roles on each backend: order, addresses, restarts, attempts, endings, and nothing that is left."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import NODES, Lab
from launches import Launch, processes
from launching import mostly
from program import MARK, wait_until

from ddpkit.errors import NO_PROGRESS

SERVE = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{os.environ['DDPKIT_REPLICA']}:{os.getpid()}".encode())
    def log_message(self, *words): pass
def end(*_):
    print("the server was asked to end", flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
assert os.environ["DDPKIT_PORT"] == sys.argv[1]
server = http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler)
print("serving on", os.uname().nodename, flush=True)
server.serve_forever()
"""
DATA = """
import os, time
assert os.environ["WHOSE"] == "data", os.environ.get("WHOSE")
print("data is loaded", flush=True)
time.sleep(3600)
"""
# The first attempt fails. The second one finds the same servers.
TRAIN = """
import os, sys, time, urllib.request
urls, attempt, rank = sys.argv[1].split(","), os.environ["DDPKIT_ATTEMPT"], os.environ["RANK"]
assert sys.argv[1] == os.environ["DDPKIT_ROLE_INFER_URLS"] and "WHOSE" not in os.environ
seen = " ".join(urllib.request.urlopen(url, timeout=30).read().decode() for url in urls)
print("attempt", attempt, "sees", seen, flush=True)
open(f"attempt-{attempt}-{rank}", "w").write(seen)
if attempt == "1" and rank == "1":
    while not os.path.exists("attempt-1-0"):
        time.sleep(0.02)
    sys.exit(3)
if attempt == "1":
    time.sleep(3600)
"""
EVAL = """
import os, time
while not os.path.exists("attempt-2-0"):
    time.sleep(0.02)
print("evaluated", flush=True)
"""
WHOLE = """
grace = 5
[roles.infer]
nnodes = 2
command = "serve.py {port}"
ready = "http:/health"
[roles.data]
command = "data.py"
beside = "train"
ready = "line: is loaded"
env = { WHOSE = "data" }
[roles.train]
nproc_per_node = 2
command = "train.py {infer.urls}"
after = ["infer", "data"]
ends_run = true
retries = 1
retry_codes = [3]
[roles.eval]
command = "eval.py"
beside = "infer"
nnodes = 2
replicas = 2
after = ["train"]
ends_run = true
"""
PROGRAMS = {"serve.py": SERVE, "data.py": DATA, "train.py": TRAIN, "eval.py": EVAL}
BACKENDS = ("local", "ssh", "pdsh", "slurm", "slurm-torchrun")
START = Callable[..., Launch]


@pytest.fixture
def start(idle_lab: Lab, tmp_path: Path) -> Iterator[START]:
    """A function that launches the roles of a file, with programs of this name and text."""
    started: list[Launch] = []

    def run(backend: str, roles: str, nodes: int, **programs: str) -> Launch:
        for name, text in programs.items():
            (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "ddpkit.toml").write_text(roles)
        hosts = [f"node{n + 1}" for n in range(nodes)] if backend in ("ssh", "pdsh") else []
        started.append(Launch(idle_lab, tmp_path, ["-b", backend, *hosts]))
        return started[-1]

    yield run
    for each in started:
        each.clean_up()


def pids(launch: Launch, role: str) -> dict[str, int]:
    """The process of each replica of a service, on whichever host."""
    found = {}
    for pid, (_, line) in processes(launch.lab).items():
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        names = dict(word.split("=", 1) for word in words if "=" in word)
        program = [Path(word).suffix for word in line.split()[1:2]] == [".py"]
        if names.get(MARK) == launch.mark and names.get("DDPKIT_ROLE") == role and program:
            found[names["DDPKIT_REPLICA"]] = pid
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_of_roles(backend: str, start: START, tmp_path: Path) -> None:
    """Both roles that end the run must end; an attempt of the trainer leaves the servers; they get SIGTERM last."""
    programs = {name.removesuffix(".py"): text for name, text in PROGRAMS.items()}
    launch = start(backend, WHOLE, 3, **programs)
    assert launch.end() == 0, launch.text
    first, second = ((tmp_path / f"attempt-{n}-0").read_text() for n in (1, 2))
    assert re.fullmatch(r"0:\d+ 1:\d+", first)
    assert first == second, "the servers have other processes"
    if backend != "local":
        assert len(set(re.findall(r"serving on (\w+)", launch.text))) == 2, launch.text
    for words, number in (("evaluated", 2), ("the server was asked to end", 2), ("data is loaded", 1)):
        assert launch.text.count(words) == number, (words, launch.text)
    order = [launch.text.index(words) for words in ("serving on", "attempt 1 sees", "attempt 2 sees", "asked to end")]
    assert order == sorted(order)
    launch.wait_for_nothing_left()


SERVICE = """
[roles.infer]
nnodes = 2
command = "serve.py {port}"
ready = "http:/health"
ready_timeout = 60
restart = 1
[roles.train]
command = "train.py"
after = ["infer"]
ends_run = true
"""
WAITS = "import os, time\nprint('training', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"


@pytest.mark.parametrize("backend", mostly(BACKENDS, "ssh", "slurm"))
def test_a_replica_starts_again(backend: str, start: START, tmp_path: Path) -> None:
    """Alone, on the same port; the run goes on. The second time its failure is the run's."""
    launch = start(backend, SERVICE, 3, serve=SERVE, train=WAITS)
    launch.wait_for("training")
    before = pids(launch, "infer")
    os.kill(before["1"], signal.SIGKILL)
    launch.wait_for("infer.1 is ready", 2)
    after = pids(launch, "infer")
    assert after["0"] == before["0"]
    assert after["1"] != before["1"]
    assert "restart 1 of 1 of infer.1" in launch.text
    os.kill(after["1"], signal.SIGKILL)
    assert launch.end() == 137, launch.text
    assert "ddpkit: infer.1: " in launch.text
    assert "ended with it: infer.0, train.0" in launch.text
    launch.wait_for_nothing_left()


# Programs of a service and of the trainer, the exit code, and what the verdict says.
ENDS = {
    "a rank fails": (
        SERVE,
        "import os, sys; print('last words', flush=True); sys.exit(7)",
        7,
        r"ddpkit: train\.0: .*\n?.*exit code 7",
    ),
    "a service is never ready": (
        "import time; print('loading', flush=True); time.sleep(3600)",
        WAITS,
        NO_PROGRESS,
        r"infer\.\d: .*not ready after 3 s: port \d+: Connection refused",
    ),
}


@pytest.mark.parametrize("backend", mostly(BACKENDS, "ssh", "slurm"))
@pytest.mark.parametrize("case", ["a rank fails", "a service is never ready"])
def test_the_first_failure_ends_all(case: str, backend: str, start: START) -> None:
    serve, train, code, wanted = ENDS[case]
    roles = SERVICE.replace("restart = 1", "").replace("= 60", "= 3" if "never" in case else "= 60")
    launch = start(backend, roles, 3, serve=serve, train=train)
    assert launch.end() == code, launch.text
    assert re.search(wanted, launch.text), launch.text
    if "never" in case and backend != "local":
        assert re.search(r"rank 0 on node\d failed first", launch.text), launch.text
    assert ("training" in launch.text) is False
    launch.wait_for_nothing_left()


@pytest.mark.parametrize("backend", mostly(BACKENDS, "ssh", "slurm"))
def test_a_killed_launcher_leaves_nothing(backend: str, start: START, idle_lab: Lab) -> None:
    launch = start(backend, SERVICE, 3, serve=SERVE, train=WAITS)
    launch.wait_for("training")
    launch.signal(signal.SIGKILL)
    launch.end()
    launch.wait_for_nothing_left(folders=False)
    idle_lab.wait_idle()


@pytest.mark.parametrize("backend", mostly(BACKENDS, "ssh", "slurm"))
def test_stopped_by_its_user(backend: str, start: START) -> None:
    launch = start(backend, SERVICE, 3, serve=SERVE, train=WAITS)
    launch.wait_for("training")
    launch.signal(signal.SIGINT)
    assert launch.end() == 130, launch.text
    assert launch.text.count("the server was asked to end") == 2, launch.text
    launch.wait_for_nothing_left()


OTHER_NODES = """
grace = 5
[roles.infer]
nnodes = 2
command = "serve.py {port}"
ready = "http:/health"
options = { gpus_per_node = "1", cpus_per_task = 2 }
[roles.train]
nnodes = 2
nproc_per_node = 2
command = "train.py {infer.urls}"
after = ["infer"]
ends_run = true
retries = 1
retry_codes = [3]
options = { gpus_per_node = "2", mem = "50G" }
"""
HETJOB = """#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=1 --cpus-per-task=2
#SBATCH hetjob
#SBATCH --nodes=2 --gpus-per-node=2 --ntasks-per-node=2
"""


@pytest.mark.parametrize("held", ["job", "sbatch"])
@pytest.mark.parametrize("backend", mostly(("slurm", "slurm-torchrun"), "slurm"))
def test_roles_on_nodes_of_two_kinds(backend: str, held: str, idle_lab: Lab, tmp_path: Path) -> None:
    """Two components of one heterogeneous job: that of the launch, or the one whose script has the launch."""
    train = "import os\nassert len(os.environ['CUDA_VISIBLE_DEVICES'].split(',')) == 2\n" + TRAIN
    for name, text in (("serve.py", SERVE), ("train.py", train), ("ddpkit.toml", OTHER_NODES)):
        (tmp_path / name).write_text(text)
    before: list[str] = []
    if held == "sbatch":
        (tmp_path / "job.sbatch").write_text(f'{HETJOB}exec "$@"\n')
        before = ["sbatch", "--wait", "--quiet", f"--output={tmp_path}/out", f"{tmp_path}/job.sbatch"]
    launch = Launch(idle_lab, tmp_path, ["-b", backend], before=before)
    try:
        assert launch.end() == 0, launch.text
        text = (tmp_path / "out").read_text() if before else launch.text
        first, second = ((tmp_path / f"attempt-{n}-0").read_text() for n in (1, 2))
        assert first == second, "the servers have other processes"
        serving = set(re.findall(r"serving on (\w+)", text))
        training = set(re.findall(r"^\[train \d (\w+)\] attempt 1 sees", text, re.MULTILINE))
        assert len(serving) == len(training) == 2, text
        assert not serving & training, text
        assert text.count("the server was asked to end") == 2, text
        launch.wait_for_nothing_left(folders=not before)
    finally:
        launch.clean_up()


@pytest.mark.parametrize("dies", ["kill", "halt"])
@pytest.mark.parametrize("backend", mostly(("slurm", "slurm-torchrun"), "slurm"))
def test_a_lost_node_under_slurm(dies: str, backend: str, start: START, idle_lab: Lab) -> None:
    """Its silence tells, before the controller does. The role and the node are named."""
    roles = SERVICE.replace("restart = 1", "").replace("60", "60\noptions = { heartbeat_timeout = 2 }")
    launch = start(backend, f"grace = 1\n{roles}", 3, serve=SERVE, train=WAITS)
    launch.wait_for("training")
    service = pids(launch, "infer")
    (name,) = [host for pid, (host, _) in processes(idle_lab).items() if pid == service["1"]]
    try:
        getattr(idle_lab, dies)(name)
        assert launch.end() == 125, launch.text
    finally:
        idle_lab.boot(name)
    why = "the host or the network is down" if dies == "kill" else "slurmd does not run there"
    assert f"ddpkit: infer.1: slurmd on {name} failed first" in launch.text, launch.text
    assert f"no heartbeat for 2 s: {why}" in launch.text, launch.text
    assert "ended with it: infer.0, train.0" in launch.text
    launch.wait_for_nothing_left(60, folders=False)
    idle_lab.wait_idle()


@pytest.mark.parametrize("backend", mostly(("slurm", "slurm-torchrun"), "slurm"))
def test_a_busy_node_under_slurm_is_not_lost(backend: str, start: START, tmp_path: Path, idle_lab: Lab) -> None:
    """ddpkit's processes get no CPU there; slurmd still accepts connections."""

    def checks() -> int:
        """How often slurmd noted a connection without a message."""
        logs = (idle_lab.folder / "log").glob("slurmd-node*.log")
        return sum(log.read_text(errors="replace").count("service_connection: slurm_receive_msg: Zero") for log in logs)

    roles = SERVICE.replace("restart = 1", "").replace("60", "60\noptions = { heartbeat_timeout = 1 }")
    launch = start(backend, roles, 3, serve=SERVE, train=WAITS)
    launch.wait_for("training")
    stopped = [pid for pid, (_, line) in processes(idle_lab, NODES).items() if " step_task " in line]
    before = checks()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: checks() >= before + 6)  # more than once on the two nodes of the service
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    (tmp_path / "go").touch()
    assert launch.end() == 0, launch.text
    launch.wait_for_nothing_left()


PARTED = """
[roles.infer]
nnodes = 2
beside = "train"
gpus = 1
cpus = 1
command = "show.py"
ready = "line: sees"
[roles.train]
nnodes = 2
nproc_per_node = 2
gpus = 3
command = "show.py"
after = ["infer"]
ends_run = true
"""
SHOW = """
import os, time
print(os.environ["DDPKIT_ROLE"], "sees", os.environ["CUDA_VISIBLE_DEVICES"], *os.sched_getaffinity(0), flush=True)
if os.environ["DDPKIT_ROLE"] == "infer":
    time.sleep(3600)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("backend", mostly(("ssh", "slurm", "slurm-torchrun"), "ssh", "slurm"))
def test_gpus_and_cpus_of_one_node_are_parted(backend: str, start: START) -> None:
    options = '[options]\ngpus_per_node = "4"\n' if "slurm" in backend else ""
    launch = start(backend, options + PARTED, 2, show=SHOW)
    assert launch.end() == 0, launch.text
    seen = {line.rpartition("] ")[2] for line in launch.lines if " sees " in line}
    first, *others = sorted(os.sched_getaffinity(0))
    assert seen == {f"infer sees 0 {first}", f"train sees 1,2,3 {' '.join(map(str, others))}"}, launch.text
    launch.wait_for_nothing_left()
