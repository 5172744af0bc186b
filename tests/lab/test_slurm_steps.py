"""The resolver in live SLURM steps: what every rank resolves, against who it really is.

Who a rank really is, SLURM says twice and by other ways than its environment: `srun --label` names the task before the
line that it printed, and the line says on which host it ran. Few rows import torch: those also let the ranks meet.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cluster import PATIENCE, Lab
from hypothesis import example, given, settings
from hypothesis import strategies as st
from program import wait_until
from test_resolver import nodelists

from ddpkit.distributed.torch import expand_nodelist

# Writes what this process resolves into FOLDER, and prints where it runs: srun may cut a long line, but not this one.
PROBE = """
import json, os, socket, sys
from dataclasses import asdict
from ddpkit.distributed.torch import explain, gather_facts, init, shutdown

folder, what = sys.argv[1], sys.argv[2:]
found = explain(os.environ, (), gather_facts(os.environ))
reasons = {one.source: one.reason for one in found.rejected}
seen = dict(
    env=None if found.env is None else {**asdict(found.env), "origin": dict(found.env.origin)},
    error=None if found.error is None else found.error.message,
    hint=None if found.error is None else found.error.hint,
    reasons=reasons,
    visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
    slurm={name: value for name, value in os.environ.items() if name.startswith("SLURM")},
)
if "reduce" in what:
    import torch
    env = init("gloo")
    value = torch.tensor([env.rank + 1.0, 1.0])
    torch.distributed.all_reduce(value)
    seen["reduced"] = value.tolist()
    shutdown()
os.makedirs(folder, exist_ok=True)
with open(f"{folder}/{socket.gethostname()}.{os.getpid()}", "w") as file:
    json.dump(seen, file)
if "run: " in reasons.get("slurm", ""):
    with open(f"{folder}/type", "w") as file:
        file.write(reasons["slurm"].rpartition("run: ")[2].removesuffix(" python ..."))
print(socket.gethostname(), os.getpid(), flush=True)
"""


@dataclass(frozen=True)
class Rank:
    """One process: who it is, and what it resolved."""

    task: int
    host: str
    seen: dict[str, Any]

    @property
    def env(self) -> dict[str, Any]:
        assert self.seen["env"] is not None, f"task {self.task} on {self.host}: {self.seen['error']}"
        env: dict[str, Any] = self.seen["env"]
        return env

    @property
    def device(self) -> str:
        """The name of the device that this rank would use."""
        names: list[str] = self.seen["visible"].split(",")
        index: int = self.env["device_index"]
        return names[index]


class Steps:
    """Starts probes in the lab, each step with a folder of its own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        (folder / "probe.py").write_text(PROBE)

    def probe(self, name: str, *what: str) -> str:
        """The words that run the probe."""
        return shlex.join([sys.executable, str(self.folder / "probe.py"), str(self.folder / name), *what])

    def srun(self, name: str, options: str, *what: str, srun: str = "srun") -> str:
        """The words of a step; each component of a heterogeneous one gets the program."""
        parts = [f"{part} {self.probe(name, *what)}" for part in options.split(" : ")]
        return f"{srun} --label {' : '.join(parts)} > {self.folder / name}.out"

    def shell(self, script: str, within: str = "", env: dict[str, str] | None = None) -> str:
        """Run a script on the login node, or within what `salloc ...` starts."""
        argv = [*shlex.split(within), "bash", "-ec", script]
        return self.lab.run("login", *argv, cwd=self.folder, env=env).stdout

    def batch(self, script: str, *options: str) -> None:
        """Run a batch job, or an array of them, to its end. `sbatch --wait` would look every two seconds."""
        (self.folder / "job.sh").write_text(f"""#!/bin/bash -e
        trap 'echo $? > {self.folder}/code.tmp$SLURM_ARRAY_TASK_ID
              mv {self.folder}/code.tmp$SLURM_ARRAY_TASK_ID {self.folder}/code$SLURM_ARRAY_TASK_ID' EXIT
        {script}
        """)
        self.lab.run("login", "sbatch", "--output=job.%j.out", *options, "job.sh", cwd=self.folder)
        array = next((one for one in options if one.startswith("--array=")), "")
        for task in array.partition("=")[2].split(","):
            code = self.folder / f"code{task}"
            self.wait(code.exists)
            assert code.read_text() == "0\n", [path.read_text() for path in self.folder.glob("job.*.out")]

    def ranks(self, name: str) -> list[Rank]:
        """The processes of a step, by srun's own numbers."""
        found = []
        for line in (self.folder / f"{name}.out").read_text().splitlines():
            label, host, pid = line.split()
            seen = json.loads((self.folder / name / f"{host}.{pid}").read_text())
            found.append(Rank(int(label.rstrip(":")), host, seen))
        return sorted(found, key=lambda rank: rank.task)

    def alone(self, name: str) -> dict[str, Any]:
        """The one process that ran without srun."""
        (path,) = (path for path in (self.folder / name).iterdir() if path.name != "type")
        seen: dict[str, Any] = json.loads(path.read_text())
        return seen

    def wait(self, event: Callable[[], object]) -> None:
        wait_until(event, lambda: sorted(path.name for path in self.folder.iterdir()))


@pytest.fixture
def steps(idle_lab: Lab, tmp_path: Path) -> Steps:
    return Steps(idle_lab, tmp_path)


def check(ranks: list[Rank], layout: str) -> int:
    """Compare a step with the truth: `layout` names the host of each rank, in order. Returns the step's port."""
    hosts = layout.split()
    assert [(rank.task, rank.host) for rank in ranks] == list(enumerate(hosts))
    envs = [rank.env for rank in ranks]
    assert {env["source"] for env in envs} == {"slurm"}
    assert [env["rank"] for env in envs] == list(range(len(hosts)))
    assert {env["world_size"] for env in envs} == {len(hosts)}
    assert [env["local_world_size"] for env in envs] == [hosts.count(host) for host in hosts]
    assert {env["num_nodes"] for env in envs} == {len(set(hosts))}
    # One number for each host, from 0, which is the host of rank 0.
    numbers = {(rank.host, rank.env["node_rank"]) for rank in ranks}
    assert len(numbers) == len(set(hosts))
    assert sorted(number for _, number in numbers) == list(range(len(set(hosts))))
    assert envs[0]["node_rank"] == 0
    for host in set(hosts):
        assert sorted(rank.env["local_rank"] for rank in ranks if rank.host == host) == list(range(hosts.count(host)))
    master = hosts[0] if len(set(hosts)) > 1 else "127.0.0.1"
    assert {env["master_addr"] for env in envs} == {master}
    (port,) = {env["master_port"] for env in envs}
    assert 20000 <= port <= 32767
    return int(port)


# What srun is told, and on which host it then starts each task: the second is srun's doing, and checked like the rest.
LAYOUTS = {
    "whole job": ("-N4 -n4", "node1 node2 node3 node4"),
    "one node": ("-N1 -n3", "node1 node1 node1"),
    "one task": ("-n1", "node1"),
    "block": ("-N2 -n4 --ntasks-per-node=2 -m block", "node1 node1 node2 node2"),
    "cyclic": ("-N2 -n4 --ntasks-per-node=2 -m cyclic", "node1 node2 node1 node2"),
    "plane": ("-N2 -n8 --ntasks-per-node=4 -m plane=2", "node1 node1 node2 node2 node1 node1 node2 node2"),
    "uneven and cyclic": ("-N2 -n4 -m cyclic", "node1 node2 node1 node1"),
    "uneven": ("-N3 -n5", "node1 node1 node1 node2 node3"),
    "pmi2": ("-N2 -n2 --mpi=pmi2", "node1 node2"),
    "the second group is first by name": ("-w node3 -n1 : -w node1 -n2", "node3 node1 node1"),
    "by hand, two nodes": ("-m arbitrary -w node2,node1,node2 -n3", "node2 node1 node2"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(steps: Steps, name: str) -> None:
    options, hosts = LAYOUTS[name]
    steps.shell(steps.srun("step", options))
    check(steps.ranks("step"), hosts)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "hostfile", "hosts"),
    [
        pytest.param("-N3 -n4", "", "node1 node1 node2 node3", id="uneven"),
        pytest.param("-n4", "node3\nnode1\nnode3\nnode2\n", "node3 node1 node3 node2", id="arbitrary"),
        pytest.param("-w node2 -n1 : -w node1 -n2", "", "node2 node1 node1", id="heterogeneous"),
    ],
)
@pytest.mark.thorough_for("arbitrary")
def test_the_ranks_meet(steps: Steps, options: str, hostfile: str, hosts: str) -> None:
    (steps.folder / "hosts").write_text(hostfile)
    env = {"SLURM_HOSTFILE": str(steps.folder / "hosts")} if hostfile else None
    steps.shell(steps.srun("step", options, "reduce"), env=env)
    ranks = steps.ranks("step")
    check(ranks, hosts)
    assert [rank.seen["reduced"] for rank in ranks] == [[10.0, 4.0] if len(ranks) == 4 else [6.0, 3.0]] * len(ranks)


HOSTFILES = {
    "one task per node": ("node3\nnode1\nnode2\n", "node3 node1 node2"),
    "a node twice, apart": ("node3\nnode1\nnode3\nnode2\n", "node3 node1 node3 node2"),
    "the last node holds the most": ("node2\nnode4\nnode4\nnode1\nnode4\n", "node2 node4 node4 node1 node4"),
    "commas, comments, blank lines and times": (
        "# by rack\n\nnode4*2, node1 # old\nnode[3,2]\n",
        "node4 node4 node1 node3 node2",
    ),
    "more hosts than tasks": ("node2\nnode3\nnode1\nnode4\n", "node2 node3 node1"),
    "one node": ("node4\nnode4\n", "node4 node4"),
}


@pytest.mark.parametrize("name", HOSTFILES)
def test_hostfile(steps: Steps, name: str) -> None:
    text, hosts = HOSTFILES[name]
    (steps.folder / "hosts").write_text(text)
    env = {"SLURM_HOSTFILE": str(steps.folder / "hosts")}
    steps.shell(steps.srun("step", f"-n{len(hosts.split())}"), env=env)
    check(steps.ranks("step"), hosts)


def test_a_hostfile_that_srun_ignored(steps: Steps) -> None:
    (steps.folder / "hosts").write_text("node2\nnode1\n")
    env = {"SLURM_HOSTFILE": str(steps.folder / "hosts")}
    steps.shell(steps.srun("step", "-N2 -n2 -w node1,node2"), env=env)
    check(steps.ranks("step"), "node1 node2")


@pytest.mark.parametrize(
    ("before", "error", "hint"),
    [
        ("rm -f {file}", "SLURM_HOSTFILE={file} cannot be read here: No such file", "to a shared file system"),
        (
            "cp {file}.new {file}.$$; mv {file}.$$ {file}",
            "SLURM started it on {host}: the file has changed",
            "do not change the file",
        ),
        ("unset SLURM_HOSTFILE", "uses a custom order of hosts (-m arbitrary)", "the first host of srun's -w"),
    ],
)
def test_a_hostfile_of_no_use(steps: Steps, before: str, error: str, hint: str) -> None:
    """Every rank says so; none waits for the others."""
    file = steps.folder / "hosts"
    file.write_text("node3\nnode1\nnode2\n")
    file.with_suffix(".new").write_text("node1\nnode2\nnode3\n")
    (steps.folder / "task.sh").write_text(f"{before.format(file=file)}\nexec {steps.probe('step')}\n")
    steps.shell(f"srun --label -n3 bash task.sh > {steps.folder}/step.out", env={"SLURM_HOSTFILE": str(file)})
    ranks = steps.ranks("step")
    assert [rank.host for rank in ranks] == ["node3", "node1", "node2"]
    for rank in ranks:
        assert rank.seen["env"] is None
        assert f"task {rank.task} " in rank.seen["error"]
        assert error.format(file=file, host=rank.host) in rank.seen["error"]
        assert hint in rank.seen["hint"]


def test_the_hint_helps(steps: Steps) -> None:
    """By hand, with no file to be read: MASTER_ADDR before srun is all that is missing."""
    options = "-m arbitrary -w node2,node4,node4,node1,node1 -n5"
    steps.shell("export MASTER_ADDR=node2; " + steps.srun("step", options))
    check(steps.ranks("step"), "node2 node4 node4 node1 node1")


def test_steps_on_parts_of_a_job(steps: Steps) -> None:
    parts = {
        "relative": ("-N1 -n2 -r1 -c1", "node2 node2"),  # first: 24.11 passes over a node where a step is ending
        "rest": ("-N2 -n2 -r1", "node2 node3"),
        "part": ("-N1 -n1 -w node2", "node2"),
        "all": ("-N3 -n3", "node1 node2 node3"),
    }
    script = "\n".join(steps.srun(name, options) for name, (options, _) in parts.items())
    steps.shell(script, "salloc -Q -N3 -n3 --ntasks-per-node=1 --cpus-per-task=2")
    ports = [check(steps.ranks(name), hosts) for name, (_, hosts) in parts.items()]
    assert len(set(ports)) == len(ports)


def test_two_steps_side_by_side(steps: Steps) -> None:
    """On the same two nodes, at the same time: they must not meet each other."""
    one, other = (steps.srun(name, "-N2 -n2 --exact --mem=1") for name in ("one", "other"))
    steps.shell(f"{one} & first=$!\n{other}\nwait $first", "salloc -Q -N2 -n4 --ntasks-per-node=2")
    assert check(steps.ranks("one"), "node1 node2") != check(steps.ranks("other"), "node1 node2")


def test_master_addr_of_the_job_in_a_step_elsewhere(steps: Steps) -> None:
    """`MASTER_ADDR=<first node of the job>` is what most batch scripts export."""
    script = f"""export MASTER_ADDR=node1 MASTER_PORT=23456
    {steps.srun("all", "-N3 -n3")}
    {steps.srun("part", "-N1 -n2 -w node2 -c1")}
    {steps.srun("rest", "-N2 -n2 -r1")}"""
    steps.shell(script, "salloc -Q -N3 -n3 --ntasks-per-node=1 --cpus-per-task=2")
    assert check(steps.ranks("all"), "node1 node2 node3") == 23456
    for rank in (*steps.ranks("part"), steps.ranks("rest")[0]):
        assert "MASTER_ADDR=node1 is a node of this job, but rank 0 of this step is on node2" in rank.seen["error"]
        assert "env -u MASTER_ADDR" in rank.seen["hint"]


def test_heterogeneous_allocation(steps: Steps) -> None:
    parts = {
        "both": ("--het-group=0,1", "node4 node1 node1 node2"),
        "second": ("--het-group=1", "node1 node1 node2"),
        "first": ("", "node4"),
        "parts": ("--het-group=0 -n1 : --het-group=1 -N2 -n2", "node4 node1 node2"),
    }
    script = "\n".join(steps.srun(name, options) for name, (options, _) in parts.items())
    steps.shell(script, "salloc -Q -w node4 -n1 : -w node1,node2 -N2 -n3")
    ports = [check(steps.ranks(name), hosts) for name, (_, hosts) in parts.items()]
    assert len(set(ports)) == len(ports)


DEVICES = {
    # srun's options, and the device of each task. The last column: where cgroups hide the GPUs of other tasks.
    "one per task": ("--gpus-per-task=1", "0 1 2", "0 0 0"),
    "bound to one": ("--gres=gpu:3 --gpu-bind=single:1", "0 1 2", "0 0 0"),
    "not bound": ("--gres=gpu:3 --gpu-bind=none", "- - -", "- - -"),
    "shared by all tasks": ("--gres=gpu:3", "0 1 2", "0 1 2"),
    "two per task": ("--gpus-per-task=2", "0 3", "0 1"),
    "bound in pairs": ("--gres=gpu:4 --gpu-bind=mask_gpu:3,3,12,12", "0 1 2 3", "0 1 0 1"),
    "in another order": ("--gres=gpu:4 --gpu-bind=map_gpu:3,1,2,0", "3 1 2 0", "0 0 0 0"),
}


@pytest.mark.parametrize("name", DEVICES)
def test_devices(steps: Steps, name: str) -> None:
    options, *wanted = DEVICES[name]
    devices = wanted[steps.lab.cgroups].split()
    steps.shell(steps.srun("step", f"-N1 -n{len(devices)} {options}"))
    ranks = steps.ranks("step")
    check(ranks, " ".join(["node1"] * len(devices)))
    if "-" in devices:  # nothing restricts the tasks: every device of the job is visible, and each takes its own
        assert {rank.seen["visible"] for rank in ranks} <= {None, "0,1,2"}
        assert [rank.env["device_index"] for rank in ranks] == list(range(len(ranks)))
    else:
        assert [rank.device for rank in ranks] == devices


def test_a_part_of_a_node(steps: Steps) -> None:
    """Another job holds the first two GPUs: this one has the others."""
    hold = ("sbatch", "--parsable", "--output=/dev/null", "-w", "node1", "--gres=gpu:2", "--wrap", "exec sleep 600")
    job = steps.lab.run("login", *hold).stdout.strip()
    steps.wait(lambda: steps.lab.run("login", "squeue", "-h", "-j", job, "-o", "%t").stdout.strip() == "R")
    steps.shell(steps.srun("step", "-w node1 -N1 -n2 --gres=gpu:2"))
    ranks = steps.ranks("step")
    check(ranks, "node1 node1")
    devices = ["0", "1"] if steps.lab.cgroups else ["2", "3"]
    assert [(rank.env["device_index"], rank.device) for rank in ranks] == list(enumerate(devices))


def test_array(steps: Steps) -> None:
    steps.batch(steps.srun("$SLURM_ARRAY_TASK_ID", "-N2 -n2").replace("'", ""), "--array=3,7", "-N1-4", "-n2")
    ports = []
    for name in ("3", "7"):
        ranks = steps.ranks(name)
        assert {rank.seen["slurm"]["SLURM_ARRAY_TASK_ID"] for rank in ranks} == {name}
        ports.append(check(ranks, " ".join(rank.host for rank in ranks)))
    assert ports[0] != ports[1]


def test_requeue(steps: Steps) -> None:
    """A requeued job runs the same steps again, with the same numbers: the port is another one."""
    script = f"""#!/bin/bash -e
    run=${{SLURM_RESTART_COUNT:-0}}
    {steps.srun("run$run", "").replace("'", "")}
    touch {steps.folder}/done.$run
    [ $run = 1 ] || exec sleep 600
    """
    (steps.folder / "job.sh").write_text(script)

    def slurm(*argv: str) -> subprocess.CompletedProcess[str]:
        return steps.lab.run("login", *argv, cwd=steps.folder, check=False)

    job = slurm("sbatch", "--parsable", "--requeue", "--output=job.out", "-N2", "-n2", "job.sh").stdout.strip()
    steps.wait((steps.folder / "done.0").exists)
    slurm("scontrol", "requeue", job)
    steps.wait(lambda: slurm("squeue", "-h", "-j", job, "-o", "%t").stdout.strip() == "PD")
    # By itself SLURM waits two minutes; and slurmd refuses a job in the same second in which it was killed.
    steps.wait(lambda: slurm("scontrol", "update", f"JobId={job}", "StartTime=now+2").returncode == 0)
    steps.wait((steps.folder / "done.1").exists)
    first, second = steps.ranks("run0"), steps.ranks("run1")
    assert {rank.seen["slurm"]["SLURM_RESTART_COUNT"] for rank in second} == {"1"}
    ids = {(rank.seen["slurm"]["SLURM_JOB_ID"], rank.seen["slurm"]["SLURM_STEP_ID"]) for rank in first + second}
    assert ids == {(job, "0")}
    assert check(first, "node1 node2") != check(second, "node1 node2")


def test_a_step_started_inside_another(steps: Steps) -> None:
    """What a launcher must do there: forget SLURM's variables, and name the job."""
    (steps.folder / "task.sh").write_text(
        "job=$SLURM_JOB_ID\n"
        "for name in $(compgen -e SLURM); do [ $name = SLURM_CONF ] || unset $name; done\n"
        + steps.srun("inner", "--jobid=$job --overlap -N2 -n4 --ntasks-per-node=2")
    )
    steps.shell("srun -N1 -n1 -w node2 bash -e task.sh", "salloc -Q -N2 -n4 --ntasks-per-node=2")
    check(steps.ranks("inner"), "node1 node1 node2 node2")


def test_export_none(steps: Steps) -> None:
    script = f"{steps.srun('plain', '')}\n{steps.srun('all', '--export=ALL')}"
    steps.batch(script, "--export=NONE", "-N2", "-n2")
    ranks = steps.ranks("plain")
    assert {rank.seen["slurm"]["SLURM_EXPORT_ENV"] for rank in ranks} == {"NONE"}
    assert check(ranks, "node1 node2") != check(steps.ranks("all"), "node1 node2")


def test_turned_off(steps: Steps) -> None:
    steps.shell("export DDPKIT_DETECT_SLURM=0; " + steps.srun("step", "-N2 -n2"))
    ranks = steps.ranks("step")
    assert len(ranks) == 2
    for rank in ranks:
        assert (rank.env["source"], rank.env["rank"], rank.env["world_size"]) == ("single", 0, 1)
        assert rank.seen["reasons"]["slurm"] == "DDPKIT_DETECT_SLURM=0 disables it"


# ---- one process: the shell in which a job is, and not one of its tasks


def alone_and_typed(steps: Steps) -> str:
    """A script: the probe without srun, and then with what it says to type instead."""
    typed = steps.srun("typed", "", srun=f"$(cat {steps.folder}/alone/type)")
    return f"{steps.probe('alone')}\n{typed}"


def check_alone(steps: Steps, *words: str) -> None:
    seen = steps.alone("alone")
    env = seen["env"]
    assert (env["source"], env["rank"], env["world_size"], env["num_nodes"]) == ("single", 0, 1, 1)
    for word in words:
        assert word in seen["reasons"]["slurm"]


JOB = "srun did not start this process"
BATCHES = {
    "plain": ("-N2 -n3", ("SLURM_NTASKS=3 describes the job", JOB, "run: srun python ..."), "node1 node1 node2"),
    "export none": ("-N2 -n2 --export=NONE", (JOB, "run: srun --export=ALL python ..."), "node1 node2"),
    "heterogeneous": (
        "-w node2 -n1 : -w node1 -n2",
        (JOB, "run: srun --het-group=0-1 python ..."),
        "node2 node1 node1",
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batch_script_without_srun(steps: Steps, name: str) -> None:
    options, words, hosts = BATCHES[name]
    steps.batch(alone_and_typed(steps), *options.split())
    seen = steps.alone("alone")["slurm"]
    assert seen["SLURM_PROCID"] == "0"  # what others take for a rank
    if "SLURM_STEP_ID" in seen:  # of the batch step, in 26.05
        words = (f"SLURM_STEP_ID={seen['SLURM_STEP_ID']} is the batch step of the job", words[-1])
    check_alone(steps, *words)
    check(steps.ranks("typed"), hosts)


def test_salloc_shell(steps: Steps) -> None:
    steps.shell(alone_and_typed(steps), "salloc -Q -N2 -n3")
    check_alone(steps, "SLURM_NTASKS=3 describes the job", JOB, "run: srun python ...")
    check(steps.ranks("typed"), "node1 node1 node2")


@pytest.mark.parametrize(
    ("shell", "hosts"),
    [("bash --norc", "node1 node1 node2"), ("sh -i", "node1 node1 node2"), ("bash -l", "node1")],
)
def test_pty_shell(steps: Steps, shell: str, hosts: str) -> None:
    """The shell of `srun --pty` sees all variables of task 0, and what is typed in it inherits them."""
    tasks = len(hosts.split())
    (steps.folder / "typed.sh").write_text(f"{alone_and_typed(steps)}\n")
    command = f"srun -N{len(set(hosts.split()))} -n{tasks} --pty {shell}"
    process = subprocess.Popen(
        steps.lab.argv("login", ["script", "-qec", command, "/dev/null"], steps.folder),
        env=steps.lab.environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text, _ = process.communicate(f"bash {steps.folder}/typed.sh; exit\n", timeout=PATIENCE)
    finally:
        process.kill()
    assert (steps.folder / "typed.out").exists(), text
    seen = steps.alone("alone")["slurm"]
    assert (seen["SLURM_PROCID"], seen["SLURM_STEP_NUM_TASKS"]) == ("0", str(tasks))
    name = shell.split()[0]
    check_alone(
        steps,
        f"runs {name} on a terminal (srun --pty)",
        "a single process, not a task",
        "run: srun --overlap python ...",
    )
    ranks = steps.ranks("typed")
    assert all(rank.seen["slurm"]["SLURM_PTY_PORT"] == seen["SLURM_PTY_PORT"] for rank in ranks)  # inherited
    check(ranks, hosts)


def test_pty_program(steps: Steps) -> None:
    """`srun --pty bash script`: a terminal, but no shell that somebody types into. Its tasks are ranks."""
    (steps.folder / "task.sh").write_text(f"{steps.probe('step')} > /dev/null\n")
    command = f"srun -N2 -n2 --pty bash {steps.folder}/task.sh"
    steps.lab.run("login", "script", "-qec", command, "/dev/null")
    seen = [json.loads(path.read_text()) for path in (steps.folder / "step").iterdir()]
    assert Counter((one["env"]["source"], one["env"]["rank"], one["env"]["world_size"]) for one in seen) == {
        ("slurm", 0, 2): 1,
        ("slurm", 1, 2): 1,
    }


def test_a_script_on_standard_input(steps: Steps) -> None:
    """`srun bash < script`: a shell without a script's name, but on no terminal. Its tasks are ranks."""
    (steps.folder / "task.sh").write_text(f"{steps.probe('step')}\n")
    steps.shell(f"srun --label -N2 -n3 bash < task.sh > {steps.folder}/step.out")
    check(steps.ranks("step"), "node1 node1 node2")


# ---- node lists


@settings(deadline=None, max_examples=5, database=None)
@given(st.lists(nodelists(), min_size=20, max_size=20))
@example([(text, []) for text in ("my-node[1-2]", "a[01-03,7]b[1-2],c", "n[099-101]", "a[0-1]b[2,3]c[4]", "b,a")])
def test_node_lists_as_scontrol_reads_them(lab: Lab, made: list[tuple[str, list[str]]]) -> None:
    texts = [_as_slurm_writes_it(text) for text, _ in made]
    script = 'for list; do scontrol show hostnames "$list"; echo; done'
    shown = lab.run("login", "bash", "-ec", script, "bash", *texts).stdout.split("\n\n")
    assert [one.split() for one in shown[:-1]] == [expand_nodelist(text) for text in texts]


def _as_slurm_writes_it(text: str) -> str:
    """Take away what scontrol refuses: text after the last bracket, and a dash in front."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            items.append("")
        else:
            items[-1] += letter
    return ",".join(f"n{item[: item.rindex(']') + 1] if ']' in item else item}" for item in items)
