"""The scripts in scripts/ssh/ and scripts/test_distributed.sh do what they say, each run for real over sshd and pdsh.

A user copies them next to a train.py and changes the lines marked so; here the same is done, for the Python and for the
grace. The ranks know nothing of ddpkit. The real train.py runs under such a script in test_train_lab.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Lab
from hostile import ARGS
from program import wait_until

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts" / "ssh"
PATIENCE = 120.0
# Far below the 300 s for which a torchrun waits for one that is gone, and far above what is needed.
SOON = 30.0

# What stands for the user's own script: PyTorch's own way to meet, nothing else. The config says what to do.
TRAIN = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

here = Path(__file__).parent
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert sys.argv[1] == "--config"
what, *how = Path(sys.argv[2]).read_text().split()
seen = {"env": dict(os.environ), "argv": sys.argv[3:]}
os.write(1, f"this is rank {rank}\\n".encode())  # with -u, print() writes the end of the line apart
if what == "sum":
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    seen["sum"] = total.item()
if what == "forge" and rank == 0:  # that all nodes have ended well
    Path(os.environ["TELL"]).write_text("over\\n" * 2)
if what == "stay":  # a child in a session of its own, and neither obeys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", "98765"], start_new_session=True)
(here / f"part.{rank}").write_text(json.dumps(seen))
(here / f"part.{rank}").rename(here / f"seen.{rank}")  # there when it is whole: others wait for it
if what in ("die", "forge") and rank == world - 1:  # when all are there; the others would go on for ever
    while not all((here / f"seen.{number}").exists() for number in range(world)):
        time.sleep(0.02)
    (here / "died").write_text(str(time.time()))
    os.write(1, b"my last words\\n")
    os._exit(int(how[0])) if how[0].isdigit() else os.kill(os.getpid(), getattr(signal, how[0]))
while what in ("die", "stay", "forge"):
    signal.pause()
sys.stdout.flush()
os._exit(0)
"""
COMMON = ("nodes.sh", "watcher.py")  # what each script reads
AUTO, PDSH, LEGACY = "launch_torchrun_auto.sh", "launch_pdsh_multinode.sh", "launch_multinode.sh"
SINGLE, MANUAL = "launch_singlenode.sh", "launch_torchrun_multinode.sh"
# script: what stands behind CONFIG NGPU, where its ranks are
FROM_ONE_PLACE = {AUTO: ["node1", "node2"], PDSH: ["node[1-2]"], LEGACY: ["node1", "node2"]}


class Nodes:
    """The folder of a user, with a train.py and what was copied next to it; `login` is where the user sits."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        (folder / "train.py").write_text(TRAIN)

    def copy(self, path: Path) -> None:
        text = path.read_text()
        python = f"export PATH={Path(sys.executable).parent}:$PATH"
        for old, new in {"# source .venv/bin/activate": python, "grace=10": "grace=1"}.items():
            assert old in text
            text = text.replace(old, new)
        (self.folder / path.name).write_text(text)
        (self.folder / path.name).chmod(0o755)
        (self.folder / "ssh").mkdir(exist_ok=True)
        for folder in (self.folder, self.folder / "ssh"):
            for name in COMMON:
                shutil.copy(SCRIPTS / name, folder)

    def start(self, name: str, what: str, *words: str, host: str = "login", **env: str) -> subprocess.Popen[str]:
        """Start a script with two ranks a node, and a config that says `what`."""
        (self.folder / "con fig").write_text(what)
        self.copy(SCRIPTS / name)
        return self.run(f"./{name}", "con fig", "2", *words, host=host, **env)

    def run(self, *argv: str, host: str = "login", **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.lab.argv(host, ["setsid", "--wait", *argv], self.folder),
            env={**self.lab.environ(), **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def seen(self, world: int) -> list[dict[str, object]]:
        """What each rank saw, by rank; none may be missing, and there may be no other."""
        paths = sorted(self.folder.glob("seen.*"), key=lambda path: int(path.suffix[1:]))
        assert [path.name for path in paths] == [f"seen.{rank}" for rank in range(world)]
        return [json.loads(path.read_text()) for path in paths]

    def wait_for(self, world: int, process: subprocess.Popen[str]) -> None:
        """Wait until so many ranks are there."""

        def there() -> bool:
            assert process.poll() is None, process.communicate()[0]
            return len(list(self.folder.glob("seen.*"))) == world

        wait_until(there)

    def left(self) -> dict[str, list[str]]:
        """What still runs on each host of what was started here."""
        ours = ("train.py", "test_distributed", "torch.distributed", "b64decode", "sleep 98765", "launch_")
        hosts = ("node1", "node2", "login")
        lines = {host: self.lab.processes(host).values() for host in hosts}
        found = {host: [line for line in lines[host] if any(word in line for word in ours)] for host in hosts}
        return {host: some for host, some in found.items() if some}


@pytest.fixture
def nodes(lab: Lab, tmp_path: Path) -> Iterator[Nodes]:
    yield (nodes := Nodes(lab, tmp_path))
    wait_until(lambda: not nodes.left())


def check_environs(nodes: Nodes, world: int, master: str) -> None:
    environs = [env for one in nodes.seen(world) if isinstance(env := one["env"], dict)]
    for rank, env in enumerate(environs):
        assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == (str(rank), str(world), "2")
        assert (env["LOCAL_RANK"], env["GROUP_RANK"]) == (str(rank % 2), str(rank // 2))
        assert env["MASTER_ADDR"] == master
        assert env["OMP_NUM_THREADS"] == str(max(1, (os.cpu_count() or 1) // 2))
    assert len({env["MASTER_PORT"] for env in environs}) == 1
    assert 20000 <= int(environs[0]["MASTER_PORT"]) < 32768


@pytest.mark.torch
# An import of torch takes longer than all else; ranks of torchrun also meet in the tests below.
@pytest.mark.parametrize(
    ("name", "meets"),
    [
        (LEGACY, True),
        (AUTO, False),
        (PDSH, False),
        *(pytest.param(name, True, marks=pytest.mark.thorough) for name in (AUTO, PDSH)),
    ],
)
def test_ranks_get_their_environment_and_arguments(nodes: Nodes, name: str, meets: bool) -> None:
    process = nodes.start(name, "sum" if meets else "seen", *FROM_ONE_PLACE[name], "--", *ARGS)
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    seen = nodes.seen(4)
    if meets:
        assert [one["sum"] for one in seen] == [10.0] * 4
    legacy = [[f"--local_rank={rank % 2}"] if name == LEGACY else [] for rank in range(4)]
    assert [one["argv"] for one in seen] == [ARGS + more for more in legacy]
    assert not list(nodes.folder.rglob("pwned"))
    check_environs(nodes, 4, "node1")
    assert {"node1: this is rank 0", "node2: this is rank 3"} <= set(said.splitlines())
    logs = {path.name: path.read_text().splitlines() for path in nodes.folder.glob("logs/*/*")}
    assert sorted(logs) == ["node_node1.log", "node_node2.log"]
    assert "this is rank 0" in logs["node_node1.log"]
    assert "this is rank 3" in logs["node_node2.log"]


@pytest.mark.torch
def test_on_one_node(nodes: Nodes) -> None:
    process = nodes.start(SINGLE, "sum", "--", *ARGS, host="node1")
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    assert [(one["sum"], one["argv"]) for one in nodes.seen(2)] == [(3.0, ARGS)] * 2
    check_environs(nodes, 2, "127.0.0.1")
    assert "this is rank 1" in next(nodes.folder.glob("logs/*/node_node1.log")).read_text().splitlines()


@pytest.mark.torch
def test_by_hand_on_each_node(nodes: Nodes) -> None:
    """What is not given as an argument is taken from a variable."""
    one = nodes.start(MANUAL, "sum", "2", "0", "node1", "--", *ARGS, host="node1")
    two = nodes.run(
        f"./{MANUAL}", "con fig", "2", "--", *ARGS, host="node2", NNODES="2", NODE_RANK="1", MASTER_ADDR="node1"
    )
    for process in (one, two):
        said = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, said
    assert [(rank["sum"], rank["argv"]) for rank in nodes.seen(4)] == [(10.0, ARGS)] * 4
    check_environs(nodes, 4, "node1")
    assert "this is rank 3" in next(nodes.folder.glob("logs/*/node_node2.log")).read_text().splitlines()


@pytest.mark.parametrize("name", FROM_ONE_PLACE)
def test_a_rank_cannot_say_that_all_has_ended_well(nodes: Nodes, name: str) -> None:
    process = nodes.start(name, "forge 7", *FROM_ONE_PLACE[name])
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 7, said


def test_another_start_keeps_the_log_of_one_that_crashed(nodes: Nodes) -> None:
    """Also where the names of directories are no shell text."""
    tmp = nodes.folder / 'it\'s a "tmp" $(touch pwned); *'
    tmp.mkdir()
    kept: dict[Path, str] = {}
    for _ in range(2):
        process = nodes.start(LEGACY, "die 7", *FROM_ONE_PLACE[LEGACY], TMPDIR=str(tmp))
        said = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 7, said
        assert {path: path.read_text() for path in kept} == kept
        kept = {path: path.read_text() for path in nodes.folder.glob("logs/*/node_node2.log")}
        for path in nodes.folder.glob("seen.*"):
            path.unlink()
    assert ["my last words" in text for text in kept.values()] == [True] * 2
    assert not list(tmp.iterdir())
    assert not list(nodes.folder.rglob("pwned"))


@pytest.mark.torch
def test_the_test_of_the_nodes(nodes: Nodes) -> None:
    nodes.copy(ROOT / "scripts/test_distributed.sh")
    shutil.copy(ROOT / "test_distributed.py", nodes.folder)
    argv = ("./test_distributed.sh", "2", "node1", "node2", "--", "--mib", "1", "--timeout", "100")
    process = nodes.run(*argv)
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    assert "node1: test_distributed: ok: 4 ranks on 2 hosts, gloo, torch " in said
    here = nodes.run("./test_distributed.sh", "1", "--", "--mib", "0", host="node2")
    said = here.communicate(timeout=PATIENCE)[0]
    assert here.returncode == 2, said
    assert "--timeout and --mib must be greater than 0" in said


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "how", "code"),
    [(AUTO, "7", 7), (AUTO, "SIGKILL", 137), (PDSH, "7", 7), (LEGACY, "7", 7), (SINGLE, "7", 7)],
)
def test_one_rank_that_dies_ends_the_run_with_its_code(nodes: Nodes, name: str, how: str, code: int) -> None:
    rank, node = (1, "login") if name == SINGLE else (3, "node2")
    process = nodes.start(name, f"die {how}", *FROM_ONE_PLACE.get(name, []))
    said = process.communicate(timeout=PATIENCE)[0]
    took = time.time() - float((nodes.folder / "died").read_text())
    assert process.returncode == code, said
    assert took < SOON
    lines = said.splitlines()
    assert lines[-1] == f"./{name}: the first to fail was rank {rank} on {node}, with exit code {code}"
    (log,) = nodes.folder.glob(f"logs/*/node_{node}.log")
    tail = lines[lines.index(f"---- the last lines of {log.relative_to(nodes.folder)}") :]
    assert "my last words" in tail
    assert f"rank {rank} on {node}: exit code {code}" == tail[-2]
    assert not nodes.left()  # at once: this script says nothing before the nodes have


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "number", "code"),
    [
        (AUTO, "INT", 130),
        (AUTO, "TERM", 143),
        (AUTO, "HUP", 129),
        (AUTO, "KILL", None),
        (PDSH, "INT", 130),
        (PDSH, "KILL", None),
        (LEGACY, "KILL", None),
        (SINGLE, "INT", 130),
        (SINGLE, "KILL", None),
    ],
)
@pytest.mark.thorough_for("launch_torchrun_auto.sh-HUP-129", "launch_pdsh_multinode.sh-INT-130")
def test_nothing_is_left_when_the_script_ends(nodes: Nodes, name: str, number: str, code: int | None) -> None:
    """Also not a rank that ignores TERM, nor its child in a session of its own."""
    process = nodes.start(name, "stay", *FROM_ONE_PLACE.get(name, []))
    nodes.wait_for(2 if name == SINGLE else 4, process)
    pid = min(pid for pid, line in nodes.lab.processes("login").items() if f"./{name}" in line)
    # A terminal sends its Ctrl-C to the whole process group.
    nodes.lab.run("login", "kill", f"-{number}", "--", f"-{pid}" if number == "INT" else str(pid))
    if code is not None:
        said = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == code, said
        assert not nodes.left()
    wait_until(lambda: not nodes.left(), nodes.left, SOON)
    process.communicate(timeout=PATIENCE)


@pytest.mark.torch
def test_nothing_is_left_when_pdsh_is_killed(nodes: Nodes) -> None:
    process = nodes.start(PDSH, "stay", *FROM_ONE_PLACE[PDSH])
    nodes.wait_for(4, process)
    pid = min(pid for pid, line in nodes.lab.processes("login").items() if line.startswith("pdsh "))
    nodes.lab.run("login", "kill", "-KILL", str(pid))
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 137, said
    assert said.splitlines()[-1] == f"./{PDSH}: the first to fail was pdsh, with exit code 137"
    wait_until(lambda: not nodes.left(), nodes.left, SOON)


@pytest.mark.parametrize("name", [AUTO, PDSH, LEGACY])
def test_all_bad_hosts_are_named_and_nothing_starts(nodes: Nodes, name: str) -> None:
    process = nodes.start(name, "sum", "node1", "nodeX", "10.77.0.99", "node2", MASTER_ADDR="localhost")
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 3, said
    lines = said.splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["nodeX", "10.77.0.99", "node2", f"./{name}"]
    assert "Could not resolve hostname" in lines[0]
    assert "No route to host" in lines[1]
    assert "localhost, where rank 0 is, is 127.0.0.1 here" in lines[2] or "is ::1 here" in lines[2]
    assert lines[3].endswith("nothing was started")
    assert not list(nodes.folder.glob("seen.*"))
    assert not (nodes.folder / "logs").exists()


def test_what_is_missing_on_a_node_is_named(nodes: Nodes) -> None:
    def said(*argv: str, **env: str) -> list[str]:
        process = nodes.run(f"./{AUTO}", *argv, **env)
        text = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode in (2, 3), text
        return [line for line in text.splitlines() if not line.endswith("nothing was started")]

    nodes.start(AUTO, "", "--").communicate(timeout=PATIENCE)  # copies it
    (line,) = said("no such config", "2", "node1")
    assert line == f"node1: there is no no such config in {nodes.folder}"
    (line,) = said("con fig", "2", "node1", MASTER_PORT="22")
    assert line.startswith("node1: port 22: ")
    assert line.endswith("Address already in use; set MASTER_PORT")
    text = (nodes.folder / AUTO).read_text()
    (nodes.folder / "bin").mkdir()
    (nodes.folder / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (nodes.folder / "bin/python").chmod(0o755)
    (nodes.folder / AUTO).write_text(text.replace(f"={Path(sys.executable).parent}:", f"={nodes.folder}/bin:"))
    (line,) = said("con fig", "2", "node1")
    assert line == f"node1: {sys.executable} finds no torch: see setup() in this script"
    for words in (["con fig", "two", "node1"], ["con fig", "2", "node1", "node1"], ["con fig", "2", "-oX=y"]):
        (line,) = said(*words)
        assert line.startswith(f"./{AUTO}: ")


def test_scripts_need_nothing_of_ddpkit() -> None:
    paths = [*SCRIPTS.iterdir(), ROOT / "scripts/test_distributed.sh"]
    texts = {path.name: path.read_text() for path in paths}
    assert set(texts) == {AUTO, PDSH, LEGACY, SINGLE, MANUAL, "test_distributed.sh", *COMMON}
    assert not [name for name, text in texts.items() if "ddpkit" in text]
    assert not [name for name, text in texts.items() if name not in COMMON and '/nodes.sh"\n' not in text]
    assert all(os.access(path, os.X_OK) for path in paths if path.name not in COMMON)
    assert max(len(text.splitlines()) for name, text in texts.items() if name not in COMMON) < 120


def test_no_script_repeats_the_arguments_or_the_torchrun_of_another() -> None:
    """They stand in nodes.sh. A script that starts something else than one torchrun a node has its own `start`."""
    texts = {path.name: path.read_text() for path in SCRIPTS.glob("*.sh")}
    assert [name for name, text in texts.items() if "torch.distributed.run" in text] == ["nodes.sh"]
    assert [name for name, text in texts.items() if "\nread_arguments() {" in text] == ["nodes.sh"]
    assert {name for name, text in texts.items() if '\nread_arguments "$@"\n' in text} == {AUTO, PDSH, LEGACY}
