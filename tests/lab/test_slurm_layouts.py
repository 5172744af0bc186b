"""Layouts of ranks on a real SLURM: uneven numbers, orders of the nodes, and heterogeneous jobs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cluster
import pytest
from cluster import Lab
from launching import BACKENDS, DDPKIT, ROOT, WHO, Launch, torch

SLURM = ["-b", "slurm"]
HET_SALLOC = "salloc -Q -N1 --ntasks-per-node=2 --gpus-per-node=2 : -w node3 -N1 --ntasks-per-node=1 --gpus-per-node=1"


def ranks(folder: Path) -> list[str]:
    """The host of each rank. Each one's numbers and rank 0's address are checked."""
    seen = [json.loads((folder / f"who.{rank}").read_text()) for rank in range(len(list(folder.glob("who.*"))) - 1)]
    hosts = [who["host"] for who in seen]
    order = list(dict.fromkeys(hosts))
    for rank, who in enumerate(seen):
        first, count = hosts.index(who["host"]), hosts.count(who["host"])
        assert (who["RANK"], who["WORLD_SIZE"], who["LOCAL_WORLD_SIZE"]) == (str(rank), str(len(seen)), str(count))
        assert (who["LOCAL_RANK"], who["MASTER_ADDR"]) == (str(rank - first), hosts[0])
        assert who["NODE_RANK"] == str(order.index(who["host"]))
    assert len({who["MASTER_PORT"] for who in seen}) == 1
    return hosts


LAYOUTS = {
    "numbers": (["-n", "1,2"], "", "first second second"),
    "named": (["node3:1", "node1:2"], "", "node3 node1 node1"),
    "named, and even": (["node3", "node1"], "", "node3 node1"),
    "numbers in an allocation": (["-n", "1,2"], "salloc -Q -N3 --ntasks-per-node=2", "first second second"),
    "named in an allocation": (
        ["node3:1", "node2:2"],
        "salloc -Q -w node[1-3] --ntasks-per-node=2",
        "node3 node2 node2",
    ),
    "tasks of the allocation": ([], "salloc -Q -N2 -n3", "first first second"),
    "an exclusive allocation": (
        [],
        "salloc -Q -N2 --exclusive --ntasks-per-node=2 --hint=nomultithread",
        "first first second second",
    ),
    "heterogeneous allocation": ([], HET_SALLOC, "first first node3"),
    "heterogeneous job": (
        ["--gpus-per-node=2", "--cpus-per-task=2", "-o", "hetjob=--nodelist=node3 --gpus-per-node=1"],
        "",
        "first first node3",
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.thorough_for(
    "numbers-torchrun", "named-torchrun", "numbers in an allocation-torchrun", "heterogeneous allocation-torchrun"
)
@pytest.mark.thorough_for("named in an allocation-torchrun", "named, and even-torchrun")
def test_layout(name: str, backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    args, before, layout = LAYOUTS[name]
    (folder / "who.py").write_text(WHO)
    command = launch("-b", backend, *args, "--", "who.py", before=before.split())
    assert command.end() == 0, command.tail
    hosts = ranks(folder)
    names = dict(zip(layout.split(), hosts, strict=True))
    assert [names[word] for word in layout.split()] == hosts
    assert all(host == word for word, host in names.items() if word.startswith("node"))
    assert len(set(hosts)) == len(names)
    assert command.record["hosts"] == list(dict.fromkeys(hosts))


GPUS = """
import json, os
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
with open("gpus." + os.environ["RANK"], "w") as file:
    json.dump({name: os.environ.get(name) for name in names}, file)
"""
ALLOCATIONS = {
    "for torchrun": "salloc -Q -N2 --ntasks-per-node=1 --cpus-per-task=4 --gres=gpu:2",
    "a GPU for each task": "salloc -Q -N2 --ntasks-per-node=2 --gpus-per-task=1",
    "bound": "salloc -Q -N2 --ntasks-per-node=2 --gpus-per-node=2 --gpu-bind=single:1",
    "a task for each GPU": "salloc -Q -N1 --gpus=4 --ntasks-per-gpu=1",
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ALLOCATIONS)
@pytest.mark.thorough_for("bound-preload", "bound-srun", "a task for each GPU-preload", "a task for each GPU-srun")
def test_each_rank_has_a_gpu(name: str, backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    """A rank for each GPU of the allocation, whatever its tasks are, and each sees the GPU of its LOCAL_RANK."""
    (folder / "gpus.py").write_text(GPUS)
    command = launch("-b", backend, "--", "gpus.py", before=ALLOCATIONS[name].split())
    assert command.end() == 0, command.tail
    for rank in range(4):
        seen = json.loads((folder / f"gpus.{rank}").read_text())
        assert (seen["WORLD_SIZE"], seen["LOCAL_WORLD_SIZE"]) == ("4", "4" if "-N1" in ALLOCATIONS[name] else "2")
        assert len(seen["CUDA_VISIBLE_DEVICES"].split(",")) == int(seen["LOCAL_WORLD_SIZE"]), seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", ["", "salloc -Q -N1 -n2 --gres=gpu:2"], ids=["job", "step"])
@pytest.mark.thorough_for("job-preload", "step-preload", "step-srun")
def test_the_users_devices_win(before: str, backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    """SLURM sets its own in each task. Both a value of the command and one of the shell are the user's."""
    (folder / "gpus.py").write_text(GPUS)
    gpus = [] if before else ["--gpus-per-node", "2"]
    shell = ["env", "CUDA_VISIBLE_DEVICES=1", *before.split()]
    for words, start, seen in (["--env", "CUDA_VISIBLE_DEVICES="], before.split(), ""), (
        ["--env", "CUDA_VISIBLE_DEVICES"], shell if not before else [*before.split(), *shell[:2]], "1",
    ):  # fmt: skip
        command = launch("-b", backend, "-n", "1", *gpus, *words, "--", "gpus.py", before=start)
        assert command.end() == 0, command.tail
        assert json.loads((folder / "gpus.0").read_text())["CUDA_VISIBLE_DEVICES"] == seen, command.tail


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", ["", "salloc -Q -N2"], ids=["job", "step"])
@pytest.mark.thorough_for("job-preload", "step-preload", "step-torchrun")
def test_the_programs_of_the_script_are_not_the_ranks(
    before: str, backend: str, launch: Callable[..., Launch], folder: Path
) -> None:
    """--env PATH=DIR is for ranks; the script finds scontrol, and srun finds sh."""
    (folder / "path.py").write_text("import os\nprint('has', os.environ['PATH'])\n")
    command = launch("-b", backend, "-N2", "-n1", "--env", "PATH=/nowhere", "--", "path.py", before=before.split())
    assert command.end() == 0, command.tail
    assert command.text.count("has /nowhere\n") == 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.thorough_for("preload")
def test_gpus_that_slurm_divides_unevenly(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    """--gpus is for the whole job: with the least CPUs it takes all GPUs of a node but one."""
    (folder / "gpus.py").write_text(GPUS)
    command = launch("-b", backend, "--", "gpus.py", before="salloc -Q -N2 -n4 --gpus=4".split())
    assert command.end() == 0, command.tail
    seen = [json.loads((folder / f"gpus.{rank}").read_text()) for rank in range(4)]
    assert [len(each["CUDA_VISIBLE_DEVICES"].split(",")) for each in seen] == [3, 3, 3, 1]
    assert [each["LOCAL_WORLD_SIZE"] for each in seen] == ["3", "3", "3", "1"]


@pytest.mark.parametrize("backend", BACKENDS[:2])
def test_a_step_that_holds_the_cpus_of_an_uneven_job(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    """srun waits for it in silence, and it waits for srun."""
    (folder / "gpus.py").write_text(GPUS)
    inside = "salloc -Q -N2 -n8 --ntasks-per-node=4 --gpus=5 srun -N1 -n1 --gres=none".split()
    command = launch("-b", backend, "--", "gpus.py", before=inside)
    assert command.end() == 123, command.tail
    assert "Requested nodes are busy" in command.text
    assert "hint: run it outside of any step" in command.text
    assert not list(folder.glob("gpus.[0-9]"))


def test_one_node_of_uneven_gpus(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "gpus.py").write_text(GPUS)
    command = launch(*SLURM, "-N1", "--", "gpus.py", before="salloc -Q -w node[1-2] -n4 --gpus=4".split())
    assert command.end() == 0, command.tail
    assert len(list(folder.glob("gpus.[0-9]"))) == 3


def test_stacks_of_ranks_that_hold_uneven_gpus(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(3600)\n")
    command = launch(*SLURM, "--", "job.py", before="salloc -Q -N2 -n4 --gpus=4".split())
    command.wait_for("ready", 4)
    env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    shown = idle_lab.run("login", *DDPKIT, "dump", "--json", cwd=folder, env=env)
    assert sorted(each["rank"] for each in json.loads(shown.stdout)["ranks"]) == [0, 1, 2, 3], command.tail
    command.signal(idle_lab, 15)
    command.end()


@pytest.mark.parametrize("inside", [[], ["srun", "-n1", "-N1"]], ids=["shell", "step"])
def test_tasks_that_slurm_divides_unevenly(inside: list[str], launch: Callable[..., Launch], folder: Path) -> None:
    """Four tasks on two nodes are three and one. In a step, variables tell of that step alone."""
    (folder / "who.py").write_text(WHO)
    command = launch(*SLURM, "--", "who.py", before=["salloc", "-Q", "-w", "node[1-2]", "-n4", *inside])
    assert command.end() == 0, command.tail
    assert ranks(folder) == ["node1", "node1", "node1", "node2"]


def test_too_few_cpus_for_uneven_gpus(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "gpus.py").write_text(GPUS)
    command = launch(*SLURM, "--", "gpus.py", before="salloc -Q -N2 --gpus=4".split())
    assert command.end() == 123, command.tail
    hint = command.text.partition("allocate more: ")[2].split()
    assert hint[0] == "salloc", command.tail
    again = launch(*SLURM, "--", "gpus.py", before=["salloc", "-Q", *hint[1:]])
    assert again.end() == 0, again.tail
    assert len(list(folder.glob("gpus.[0-9]"))) == 4


@torch
@pytest.mark.parametrize("before", ["", HET_SALLOC], ids=["uneven", "heterogeneous"])
def test_ranks_of_a_layout_meet(before: str, launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "meet.py").write_text(
        "import torch, ddpkit.distributed.torch as ddp\n"
        "env = ddp.init('gloo')\nvalue = torch.tensor([env.rank + 1.0])\n"
        "torch.distributed.all_reduce(value)\nprint('sum', value.item(), flush=True)\nddp.shutdown()\n"
    )
    command = launch(*SLURM, *([] if before else ["node3:1", "node1:2"]), "--", "meet.py", before=before.split())
    assert command.end() == 0, command.tail
    assert command.text.count("sum 6.0") == 3, command.tail


@pytest.mark.parametrize("place", ["login", "salloc"])
def test_the_failed_rank_of_a_later_group(place: str, launch: Callable[..., Launch], folder: Path) -> None:
    """srun counts tasks of each group from 0 in its errors. It ends the ranks of all groups."""
    (folder / "fail.py").write_text(
        "import os, sys, time\nprint('ready', flush=True)\n"
        "if os.environ['RANK'] == '2':\n"
        "    while not os.path.exists('go'):\n        time.sleep(0.02)\n    sys.exit(7)\ntime.sleep(3600)\n"
    )
    args = [*SLURM, "--gpus-per-node=2", "-o", "hetjob=--nodelist=node3", "--", "fail.py"]
    command = launch(*args) if place == "login" else launch(*SLURM, "--", "fail.py", before=HET_SALLOC.split())
    command.wait_for("ready", 3)
    (folder / "go").touch()
    assert command.end() == 7, command.tail
    assert "rank 2 on node3 failed first" in command.text


def test_signals_and_stacks_reach_all_groups(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "wait.py").write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (print('got', os.environ['RANK'], flush=True), sys.exit(0)))\n"
        "print('ready', flush=True)\ntime.sleep(3600)\n"
    )
    command = launch(*SLURM, "--", "wait.py", before=HET_SALLOC.split())
    command.wait_for("ready", 3)
    run_id = command.record["run_id"]
    env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    dumped = idle_lab.run("login", *DDPKIT, "dump", run_id, "--json", cwd=folder, env=env)
    assert sorted(each["rank"] for each in json.loads(dumped.stdout)["ranks"]) == [0, 1, 2], dumped.stdout
    command.signal(idle_lab, 10)
    assert command.end() == 0, command.tail
    assert all(f"got {rank}" in command.text for rank in range(3))


@pytest.fixture
def switched_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose nodes are on two switches, in another order than their names."""
    monkeypatch.setattr(cluster, "SLURM_CONF", cluster.SLURM_CONF + "TopologyPlugin=topology/tree\n")
    with tempfile.TemporaryDirectory(prefix="ddpkit-lab-") as folder:
        etc = Path(folder, "etc")
        etc.mkdir()
        switches = ("s1 Nodes=node[1,3]", "s2 Nodes=node[2,4]", "s0 Switches=s[1-2]")
        (etc / "topology.conf").write_text("".join(f"SwitchName={switch}\n" for switch in switches))
        made = Lab(Path(folder))
        try:
            made.up()
            yield made
        finally:
            made.down()


@pytest.mark.parametrize("before", ["", "salloc -Q -N4 --ntasks-per-node=2"], ids=["login", "salloc"])
def test_nodes_of_a_switch_are_neighbours(before: str, switched_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(WHO)
    args = [*SLURM, "-N", "4", "-n", "2", "-o", "order=topology", "--", "who.py"]
    command = Launch(switched_lab, tmp_path, args, before.split())
    assert command.end() == 0, command.tail
    order = ["node1", "node3", "node2", "node4"]
    assert ranks(tmp_path) == [host for host in order for _ in range(2)]
    assert command.record["hosts"] == order
