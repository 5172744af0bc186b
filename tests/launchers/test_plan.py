"""A plan is what its golden file says, its text does what the plan does, and every word arrives as it was given."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile import ARGS, ENV, PROBE
from hypothesis import given
from hypothesis import strategies as st

from ddpkit.errors import LaunchError, UsageError
from ddpkit.launchers import plan, registry, shell
from ddpkit.launchers.cpu_binding import NumaNode, Topology
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.plan import (
    Allocation,
    Archive,
    HetGroup,
    Host,
    Job,
    LocalCopy,
    Proc,
    Request,
    Staging,
    World,
    plan_as_dict,
)
from ddpkit.launchers.shell import Raw, Secret, exports, guard
from ddpkit.launchers.slurm import SLURM
from ddpkit.node.rank.rank_observe import OBSERVERS
from ddpkit.run import run_files

GOLDEN = Path(__file__).parents[1] / "golden"
JOB = Job(
    run_id="20260131-235959-train-3fa9",
    command=("train.py", "--epochs", "3", "--note", "it's $5"),
    workdir="/data/my project",
    python="/opt/venv/bin/python",
    env={"NCCL_DEBUG": "WARN", "WANDB_API_KEY": guard("WANDB_API_KEY", "key-0123")},
    folder="/data/my project/logs/20260131-235959-train-3fa9",
)
COPY = "/scratch/my jobs/ddpkit-stage-1000/project-0123"
STAGED = replace(
    JOB,
    command=(f"{COPY}/train.py",),
    stage=Staging(
        python="/opt/venv/bin/python",
        contents="[]\n",
        copies=(LocalCopy(source="/data/my project", target=COPY, files=3, size=4000, missing=(), by_nodes=True),),
        archives={f"{JOB.folder}/stage/project-0123.tar": Archive(source="/data/my project", described={})},
    ),
)
ONE = World(hosts=(Host(name="node1", slots=1, cpus=8),), master_addr="127.0.0.1", master_port=23456)
TWO = replace(ONE, hosts=(Host(name="node1", slots=2, cpus=8, stale=("RANK", "TORCHELASTIC_RUN_ID")),))
# GPUs 0 and 1 are near the first socket, 2 and 3 near the second.
SOCKETS = (NumaNode(frozenset(range(72)), 0), NumaNode(frozenset(range(72, 144)), 1))
FOUR_GPUS = replace(ONE, hosts=(Host(name="node1", slots=4, cpus=144, topology=Topology(SOCKETS, (0, 0, 1, 1))),))
MODULE = replace(JOB, kind="module", command=("-m", "pkg.train", "--epochs", "3"))
PROGRAM = replace(JOB, kind="program", command=("./train.sh", "--epochs", "3"))

NODES = World(
    hosts=(
        Host(name="node1", slots=2, cpus=8, stale=("RANK",), address="10.77.0.1", by_hand=("ssh", "node1")),
        Host(
            name="big:2222",
            slots=3,
            cpus=64,
            chosen=("OMP_NUM_THREADS",),
            env={"NCCL_SOCKET_IFNAME": "ib0", "NCCL_DEBUG": "INFO"},
            python="/home/me/venv/bin/python",
            workdir="/scratch/project",
            address="10.77.0.2",
            by_hand=("ssh", "-p", "2222", "me@big"),
        ),
    ),
    master_addr="10.77.0.1",
    master_port=23456,
)

LOGIN = Host(name="login", slots=0, cpus=8, stale=("RANK",))
ASKED = Request(nnodes=2, nproc_per_node=None, here=LOGIN)
SHELL = replace(LOGIN, stale=("RANK", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS"))
ALLOCATION = Allocation(job_id="123", hosts=("node1", "node2"), nproc_per_node=2, cpus_per_task=3)
HELD = Request(nnodes=None, nproc_per_node=None, here=SHELL, allocation=ALLOCATION)
# Two nodes with four GPUs each of one kind, one node with two of another.
HET_GROUPS = (HetGroup(nodes=2, job_id="123", cpus_per_task=6), HetGroup(nodes=1, job_id="124"))
HET_HOSTS = ("node1", "node2", "big1")
HET = replace(HELD, allocation=Allocation(job_id="123", hosts=HET_HOSTS, nproc_per_node=(4, 4, 2), groups=HET_GROUPS))
IN_GROUP = Allocation(job_id="123", hosts=("big1",), nproc_per_node=2, group=1, group_job="124")
HET_GROUP = replace(HELD, allocation=IN_GROUP, hosts=("big1",))
HET_OPTIONS: dict[str, object] = {
    "gpus-per-node": "a100:4",
    "cpus-per-task": "6",
    "hetjob": "--nodes=2 --gpus-per-node=v100:2 --partition=old : --gres=gpu:1 --ntasks-per-node=3 --cpus-per-task=2",
}
ON_FIRST = replace(HELD, here=replace(SHELL, name="node1"))
SITE: dict[str, object] = {
    "partition": "gpu",
    "account": "team a",
    "time": "2-00:00:00",
    "gpus-per-node": "4",
    "cpus-per-task": "6",
    "mem": "0",
    "exclusive": True,
    "signal": "USR1@120",
    "chain": 3,
    "job-name": "run 1",
    "output": "logs/train_%j.out",
    "sbatch": "--mail-type=END --comment='two words'",
    "srun": "--cpu-bind=cores",
    "setup": "module load cuda\nsource venv/bin/activate",
}

JOB_INSIDE = replace(JOB, workdir="/data/project", python="python3", folder="/data/logs/20260131-235959-train-3fa9")
DOCKER: dict[str, object] = {
    "container": "docker://nvcr.io/nvidia/pytorch:24.06-py3",
    "container_runtime": "docker",
    "container_mounts": "/scratch/my data:/data:ro",
    "container_args": "--ulimit=memlock=-1",
}
SQSH: dict[str, object] = {
    "container": "/images/torch.sqsh",
    "container_mounts": "/scratch:/data:ro,/home/me:/workspace/mnt",
    "container_writable": "true",
    "container_root": "true",
}
PYXIS: dict[str, object] = {"container_runtime": "pyxis", "container_workdir": "/workspace"}

CASES: dict[str, tuple[dict[str, object], Job, World | Request]] = {
    "local_ranks_1": ({}, JOB, ONE),
    "local_ranks_2": ({}, JOB, TWO),
    "local_ranks_2_module": ({}, MODULE, TWO),
    "local_ranks_2_program": ({}, PROGRAM, TWO),
    "local_preload_2": ({"preload": "true"}, JOB, TWO),
    "local_ranks_4_numa": ({}, JOB, FOUR_GPUS),
    "local_torchrun_4_numa": ({"starter": "torchrun"}, JOB, FOUR_GPUS),
    "local_torchrun_2": ({"starter": "torchrun"}, JOB, TWO),
    "local_torchrun_2_restarts": ({"starter": "torchrun", "max_restarts": "3"}, MODULE, TWO),
    "local_legacy_2": ({"starter": "legacy"}, JOB, TWO),
    "local_legacy_2_local_rank": ({"starter": "legacy", "use_env": "false"}, JOB, TWO),
    "local_legacy_2_local_rank_module": ({"starter": "legacy", "use_env": "false"}, MODULE, TWO),
    "ssh-torchrun-auto_2": ({}, JOB, NODES),
    "ssh-torchrun-auto_2_ranks": ({"starter": "ranks"}, JOB, NODES),
    "ssh-torchrun-auto_2_restarts": ({"max_restarts": "2"}, MODULE, NODES),
    "ssh-torchrun-auto_2_elastic": ({}, JOB, replace(NODES, min_nodes=1)),
    "pdsh_2": ({}, JOB, NODES),
    "legacy_2": ({}, JOB, NODES),
    "slurm-srun_job": ({}, JOB, ASKED),
    "slurm-srun_job_options": (SITE, JOB, ASKED),
    "slurm-srun_job_retries": ({}, JOB, replace(ASKED, spares=1, here=replace(LOGIN, python="/opt/ddpkit/bin/python"))),
    "slurm-srun_job_via": ({"via": "me@login1"}, JOB, replace(ASKED, via=Via(host="login1", user="me", port=2222))),
    "slurm-srun_preload_job": ({"preload": "torch,numpy", "cpus_per_task": "6"}, JOB, ASKED),
    "slurm-srun_preload_step": ({"preload": "true"}, JOB, HELD),
    "slurm-srun_preload_enroot_job": ({**SQSH, "container_runtime": "enroot", "preload": "true"}, JOB_INSIDE, ASKED),
    "slurm-srun_stage_job": ({"stage": "project"}, STAGED, ASKED),
    "slurm-torchrun_stage_step": ({"stage": "project"}, STAGED, HELD),
    "slurm-srun_step": ({}, JOB, HELD),
    "slurm-srun_step_on_first_node": ({"cpus_per_task": "4"}, PROGRAM, ON_FIRST),
    "local_docker_2": (DOCKER, JOB_INSIDE, TWO),
    "local_podman_2_torchrun": ({**DOCKER, "container_runtime": "podman", "starter": "torchrun"}, JOB_INSIDE, TWO),
    "local_apptainer_2": ({"container": "torch.sif", "container_root": "true"}, JOB_INSIDE, TWO),
    "local_enroot_2": (SQSH, JOB_INSIDE, TWO),
    "slurm-srun_enroot_job": ({**SQSH, "container_runtime": "enroot"}, JOB_INSIDE, ASKED),
    "slurm-srun_pyxis_job": ({**SQSH, "container_runtime": "pyxis", "container_name": "torch"}, JOB_INSIDE, ASKED),
    "slurm-srun_apptainer_step": ({"container": "/images/torch.sif"}, JOB_INSIDE, HELD),
    "slurm-torchrun_enroot_step": ({"container": "torch", "container_runtime": "enroot"}, JOB_INSIDE, HELD),
    "slurm-torchrun_pyxis_job": ({"container": "nvcr.io#nvidia/pytorch:24.06-py3", **PYXIS}, JOB_INSIDE, ASKED),
    "slurm-srun_uneven_job": ({"gpus-per-node": "8"}, JOB, replace(ASKED, nnodes=None, counts=(4, 8, 8))),
    "slurm-torchrun_uneven_job": ({}, JOB, replace(ASKED, nnodes=None, counts=(4, 8))),
    "slurm-srun_uneven_step": ({}, JOB, replace(HELD, hosts=("node2", "node1"), counts=(1, 3))),
    "slurm-torchrun_uneven_step": ({}, JOB, replace(HELD, counts=(1, 3))),
    "slurm-srun_order_given_job": ({}, JOB, replace(ASKED, hosts=("node2", "node1"))),
    "slurm-srun_order_topology_job": ({"order": "topology"}, JOB, ASKED),
    "slurm-torchrun_order_topology_step": ({"order": "topology"}, JOB, replace(HELD, nnodes=1)),
    "slurm-srun_het_job": (HET_OPTIONS, JOB, replace(ASKED, nnodes=1)),
    "slurm-torchrun_het_job": (HET_OPTIONS, JOB, replace(ASKED, nnodes=1)),
    "slurm-srun_het_step": ({}, JOB, HET),
    "slurm-torchrun_het_step": ({}, JOB, HET),
    "slurm-srun_het_group_step": ({}, JOB, HET_GROUP),
    "slurm-torchrun_het_group_step": ({}, JOB, HET_GROUP),
    "slurm-torchrun_job": ({"gpus-per-node": "a100:2"}, MODULE, ASKED),
    "slurm-torchrun_step": ({}, JOB, HELD),
}


def make(options: dict[str, object], job: Job, world: World | Request, backend: str = "local") -> Any:
    return registry.build(registry.load(backend), options).plan(job, world)


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    text = str(make(*CASES[name], backend=name.partition("_")[0]))
    path = GOLDEN / f"{name}.sh"
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.write_text(text)
    wanted = path.read_text()
    assert text == wanted, "\n".join(difflib.unified_diff(wanted.splitlines(), text.splitlines(), lineterm=""))


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == set(CASES)


def test_every_file_of_a_plan_is_known_as_ddpkits(tmp_path: Path) -> None:
    """`rm` names what is not, and asks."""
    seen = set()
    for case, (options, job, world) in CASES.items():
        for file in make(options, job, world, case.partition("_")[0]).files:
            name = Path(file.path).relative_to(job.folder)
            seen.add(name.parts[0])
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).touch()
    assert {"stage", "marks", "job.sbatch", "ddpkit.zip", "task.json"} <= seen
    assert run_files.foreign_names(tmp_path) == []


@pytest.mark.parametrize("name", ["slurmstepd_node1.log", "pyxis_node1.log", "srun_?.log", "torchrun_n1.from_7.log"])
def test_logs_of_what_starts_ranks_are_ddpkits(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    (tmp_path / "loss_node1.log").touch()
    assert run_files.foreign_names(tmp_path) == ["loss_node1.log"]


@pytest.mark.parametrize("backend", ["slurm-srun", "slurm-torchrun"])
@pytest.mark.parametrize("world", [HELD, ASKED], ids=["step", "job"])
def test_srun_gets_no_argument_of_the_script(backend: str, world: Request) -> None:
    """It takes a `:` among them for the next group of a heterogeneous job."""
    job = replace(JOB, command=("train.py", "a", ":", "b"))
    text = make({}, job, world, backend).steps[0].procs[0].argv[-1]
    assert isinstance(text, str)
    (line,) = [line for line in text.splitlines() if "--kill-on-bad-exit" in line]
    assert ":" not in line.split(), line


def test_secrets_are_masked_everywhere() -> None:
    plan = make({}, JOB, TWO)
    assert "key-0123" not in str(plan)
    assert "key-0123" not in repr(plan)
    assert "key-0123" not in json.dumps(plan_as_dict(plan))


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "wandb_api_key", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "MY_KEY", "APIKEY"]
)
def test_names_of_secrets(name: str) -> None:
    assert guard(name, "x") == Secret("x")


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "KEYBOARD", "MONKEY", "OMP_NUM_THREADS"])
def test_other_names(name: str) -> None:
    assert guard(name, "x") == "x"


@pytest.mark.live
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_quoted_words_survive_a_shell(words: list[str]) -> None:
    script = shell.join([sys.executable, "-c", "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))", *words])
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == "\0".join(words)


@pytest.mark.parametrize("ranks", ["1", "3"])
def test_the_dry_run_ends_as_its_ranks(ranks: str, ddpkit: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A script that is pasted into CI must not be green when a rank failed."""
    fails = "exit $((RANK == WORLD_SIZE - 1 ? 7 : 0))"
    for script, code in ((fails, 7), ("exit 0", 0)):
        shown = ddpkit("launch", "-n", ranks, "--dry-run", "--", "sh", "-c", script)
        assert subprocess.run(["sh"], input=shown.stdout, text=True, check=False).returncode == code


def test_a_raw_word_is_expanded_where_it_runs() -> None:
    proc = Proc(name="rank", argv=("printf", "%s|", Raw("rank-$ID"), "$ID", "two words"), rank=0)
    done = subprocess.run(plan.exec_argv(proc), env={**os.environ, "ID": "5 *"}, capture_output=True, check=True)
    assert done.stdout == b"rank-5 *|$ID|two words|"


STARTERS = [
    pytest.param(["-o", "starter=ranks"], id="ranks"),
    pytest.param(["-o", "preload=json"], id="preload"),
    pytest.param(["-o", "starter=torchrun"], id="torchrun", marks=pytest.mark.torch),
    pytest.param(["-o", "starter=legacy"], id="legacy", marks=pytest.mark.torch),
    pytest.param(["-o", "starter=legacy", "-o", "use_env=false"], id="legacy-local-rank", marks=pytest.mark.torch),
]


@pytest.mark.parametrize("options", STARTERS)
def test_hostile_words_arrive(
    options: list[str],
    ddpkit: Callable[..., subprocess.CompletedProcess[str]],
    script: Callable[[str], str],
    tmp_path: Path,
) -> None:
    script(PROBE)
    given = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    done = ddpkit("launch", "-n", "2", *options, *given, "--", "job.py", *ARGS)
    assert done.returncode == 0, done.stderr
    for rank in ("0", "1"):
        seen = json.loads((tmp_path / f"seen.{rank}").read_text())
        local_rank = [f"--local-rank={rank}"] if "use_env=false" in options else []
        assert seen["argv"] == [*local_rank, *ARGS]
        assert seen["env"] == ENV
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("options", STARTERS)
@pytest.mark.thorough_for("legacy")
def test_the_dry_run_is_the_run(
    options: list[str],
    ddpkit: Callable[..., subprocess.CompletedProcess[str]],
    script: Callable[[str], str],
    tmp_path: Path,
    clean_environ: dict[str, str],
) -> None:
    """The printed text, given to a shell, starts the same ranks with the same words."""
    script(PROBE)
    given = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    shown = ddpkit("launch", "-n", "2", *options, *given, "--dry-run", "--", "job.py", *ARGS)
    assert shown.returncode == 0, shown.stderr
    assert not (tmp_path / "logs").exists()
    # `wait` without an operand forgets failures; what the ranks left in their files is the proof.
    subprocess.run(["sh"], input=shown.stdout, text=True, cwd=tmp_path, env=clean_environ, timeout=120, check=True)
    for rank in ("0", "1"):
        seen = json.loads((tmp_path / f"seen.{rank}").read_text())
        assert [word for word in seen["argv"] if not word.startswith("--local-rank")] == ARGS
        assert seen["env"] == ENV


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"starter": "torchrun", "preload": "true"}, "preload works with starter ranks"),
        ({"max_restarts": "1"}, "max_restarts works with starter torchrun"),
        ({"starter": "torchrun", "max_restarts": "-1"}, "0 or more"),
        ({"starter": "torchrun", "max_restarts": "many"}, "integer"),
        ({"use_env": "false"}, "use_env=false works with starter legacy"),
        ({"preload": "no-module"}, "is not the name of a Python module"),
        ({"starter": "mpi"}, "ranks | torchrun | legacy"),
        ({"use_env": "perhaps"}, "true | false"),
        ({"stater": "ranks"}, "has no option 'stater'"),
    ],
)
def test_refused_options(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(options, JOB, TWO)
    assert text in caught.value.message


def test_preload_refuses_a_program() -> None:
    with pytest.raises(UsageError, match="is another program"):
        make({"preload": "true"}, PROGRAM, TWO)


@pytest.mark.parametrize(
    ("backend", "options", "job", "text"),
    [
        (
            "slurm-torchrun",
            {},
            JOB,
            "works with slurm-srun, not with slurm-torchrun: torchrun starts each rank as a new",
        ),
        ("slurm-srun", {}, PROGRAM, "is another program"),
    ],
)
def test_preload_under_slurm_that_cannot_be(backend: str, options: dict[str, object], job: Job, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make({"preload": "true", **options}, job, ASKED, backend)
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ({"sbatch": "--gpus-per-task=1"}, "-o sbatch has --gpus-per-task", "add -o sbatch= --gpus-per-node 2"),
        ({"sbatch": "--nice --gpus-per-task 1"}, "-o sbatch has", "add -o sbatch=--nice --gpus-per-node 2"),
        ({"srun": "--gpus-per-task=a100:2"}, "-o srun has --gpus-per-task", "add -o srun= --gpus-per-node 4"),
        ({"srun": "--gpu-bind=single:1 --mpi=pmix"}, "-o srun has --gpu-bind", "add -o srun=--mpi=pmix"),
        ({"srun": "--gpu-bind closest"}, "-o srun has --gpu-bind", "add -o srun="),
        ({"srun": "--tres-bind=gres/gpu:map:0,1"}, "-o srun has --tres-bind", "add -o srun="),
        ({"sbatch": "--tres-per-task=gres/gpu:1"}, "-o sbatch has --tres-per-task", "--gpus-per-node 2"),
        ({"sbatch": "--ntasks-per-gpu=1", "gpus_per_node": "2"}, "-o sbatch has --ntasks-per-gpu", "add -o sbatch="),
        ({"hetjob": "--nodes=1 --gpu-bind=closest"}, "-o hetjob has --gpu-bind", "add -o hetjob=--nodes=1"),
    ],
)
@pytest.mark.parametrize("backend", ["slurm-srun", "slurm-torchrun"])
def test_a_gpu_for_each_task_is_refused(backend: str, options: dict[str, object], what: str, hint: str) -> None:
    """A script takes the GPU of its LOCAL_RANK. Bound to one, rank 1 has none; ranks of torchrun share it."""
    with pytest.raises(UsageError, match="each rank must see all GPUs of its node") as caught:
        make(options, JOB, replace(ASKED, nproc_per_node=2), backend)
    assert what in caught.value.message
    assert hint in (caught.value.hint or "")


def test_no_binding_is_no_refusal() -> None:
    for words in ("--gpu-bind=none", "--gpu-bind verbose,none", "--tres-bind=gres/gpu:none", "--tres-per-task=cpu:4"):
        make({"srun": words}, JOB, ASKED, "slurm-srun")


@pytest.mark.parametrize(
    ("backend", "nproc", "cpus", "asked"),
    [
        ("slurm-srun", 2, 4, "--ntasks-per-node=2 --cpus-per-task=2 "),
        ("slurm-torchrun", 2, 4, "--ntasks-per-node=1 --cpus-per-task=4 "),
        ("slurm-torchrun", 4, 6, "--ntasks-per-node=1 --cpus-per-task=6 "),
        ("slurm-torchrun", 8, 4, "--ntasks-per-node=1 --cpus-per-task=4 "),
        ("slurm-srun", 1, 4, "--ntasks-per-node=1 --cpus-per-task=4 "),
        ("slurm-srun", 2, 16, "--ntasks-per-node=2 --cpus-per-task=6 "),  # exclusive
    ],
)
def test_a_task_of_the_allocation_has_the_cpus_of_several_ranks(
    backend: str, nproc: int, cpus: int, asked: str
) -> None:
    """A job for torchrun has one task on each node, with all CPUs."""
    each = 6 if cpus in (6, 16) else 4
    held = Allocation(
        job_id="5", hosts=("node1", "node2"), cpus_per_task=each, cpus=dict.fromkeys(("node1", "node2"), cpus)
    )
    assert asked in str(make({}, JOB, replace(HELD, allocation=held, nproc_per_node=nproc), backend))


def test_gpus_for_each_task_of_an_allocation() -> None:
    held = Allocation(job_id="5", hosts=("node1", "node2"), gpus={"node1": 2, "node2": 2}, gpus_by_task=True)
    for backend in ("slurm-srun", "slurm-torchrun"):
        assert " --gres=gpu:2 " in str(make({}, JOB, replace(HELD, allocation=held, nproc_per_node=2), backend))
    uneven = replace(HELD, allocation=replace(held, gpus={"node1": 2, "node2": 1}), counts=(2, 1))
    assert "--gres=gpu" not in str(make({}, JOB, uneven, "slurm-srun"))
    with pytest.raises(LaunchError, match="its nodes have 2,1 GPUs"):
        make({}, JOB, uneven, "slurm-torchrun")


def test_a_preloaded_job_has_the_cpus_that_its_ranks_would_have() -> None:
    """Ranks of one task share what SLURM gives to it: nothing would be one CPU for all of them."""
    four = replace(ASKED, nproc_per_node=4)
    assert "#SBATCH --cpus-per-task=4\n" in str(make({"preload": "true"}, JOB, four, "slurm-srun"))
    asked = str(make({"preload": "true", "cpus_per_task": "3"}, JOB, four, "slurm-srun"))
    assert "#SBATCH --cpus-per-task=12\n" in asked
    assert "--ntasks-per-node=1 --cpus-per-task=12 " in asked


@pytest.mark.parametrize(
    ("options", "line", "variables"),
    [
        ({"switches": "1@10:00"}, "--switches=1@10:00", {"REQ_SWITCH", "WAIT4SWITCH"}),
        ({"sbatch": "--switches=1"}, "--switches=1", {"REQ_SWITCH", "WAIT4SWITCH"}),
        ({"sbatch": "--segment=16"}, "--segment=16", {"SEGMENT_SIZE"}),
        ({"sbatch": "--cpu-freq=high --bb=x"}, "--bb=x", {"CPU_FREQ_REQ", "BURST_BUFFER"}),
        ({"time": "5"}, "--time=5", {"TIMELIMIT"}),
        ({"sbatch": "-q high -Jx"}, "-Jx", {"QOS", "JOB_NAME"}),
        ({"sbatch": "'--gres-flags=a b'"}, "'--gres-flags=a b'", {"GRES_FLAGS"}),
        ({"qos": "high"}, "--qos=high", {"QOS"}),
    ],
)
def test_variables_of_sbatch_that_win_over_a_line_stay_out(
    options: dict[str, object], line: str, variables: set[str]
) -> None:
    plan = make(options, JOB, ASKED, "slurm-srun")
    assert f"#SBATCH {line}\n" in str(plan)
    assert {f"SBATCH_{name}" for name in variables} <= {name for name, value in plan.batch.env.items() if value is None}


def test_slurm_options_that_contradict_each_other() -> None:
    with pytest.raises(UsageError, match="chain=2 requeues the job, and -o requeue=false forbids it"):
        make({"chain": "2", "requeue": "false"}, JOB, ASKED, "slurm-srun")


@pytest.mark.parametrize(
    ("options", "request_", "text"),
    [
        ({"order": "given"}, ASKED, "-o order=given requires named hosts"),
        ({"order": "switch"}, ASKED, "auto | block | topology | given"),
        ({}, replace(ASKED, counts=(1, 2, 3)), "-n 1,2,3 has 3 numbers, for 2 nodes"),
        ({}, replace(HELD, nnodes=2, counts=(1,)), "-n 1 has 1 numbers, for 2 nodes"),
        ({}, replace(HELD, counts=(1, 2, 3)), "-N 3: allocation 123 has 2 nodes"),
        ({"order": "block"}, replace(ASKED, hosts=("b", "a"), counts=(1, 2)), "the ranks of b,a follow the order"),
        ({"order": "topology"}, HET, "a heterogeneous job orders its ranks by group"),
        ({}, replace(HET, nnodes=2), "-N 2: heterogeneous allocation 123 has 3 nodes in 2 groups"),
        ({}, replace(HET, counts=(4, 2, 2)), "-n 4,2,2: group 0 of allocation 123 has 4,2"),
        (HET_OPTIONS, replace(ASKED, nnodes=None, counts=(4, 2)), "-n 4,2: -o hetjob has the ranks of its groups"),
        ({}, replace(ASKED, counts=(1, 2), spares=0), "--retries in a submitted job requires one number of ranks"),
        (HET_OPTIONS, replace(ASKED, spares=1), "--retries in a submitted job requires one number of ranks"),
        ({"hetjob": "-N 2"}, ASKED, "-o hetjob: -N is not valid"),
        ({"hetjob": "--nodes=two"}, ASKED, "-o hetjob: --nodes=two is not valid"),
        ({"srun": "--distribution=arbitrary"}, ASKED, "ddpkit chooses the distribution"),
        ({"nodelist": "a"}, replace(ASKED, hosts=("b", "a")), "hosts were passed twice: b,a and -o nodelist=a"),
    ],
)
def test_slurm_layouts_that_are_refused(options: dict[str, object], request_: Request, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(options, JOB, request_, "slurm-srun")
    assert text in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"sbatch": "--comment='a\ntouch /tmp/x #'"},
        {"sbatch": "--comment='a\rb'"},
        {"partition": "gpu\ntouch /tmp/x"},
        {"dependency": "afterok:1\n2"},
        {"exclude": "node[1-2]\nnode3"},
        {"constraint": "a\n"},
    ],
)
def test_a_line_break_makes_no_command_of_a_job_script(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="a job script cannot contain a line break"):
        make(options, JOB, ASKED, "slurm-srun")


@pytest.mark.parametrize(
    ("request_", "hosts", "ranks"),
    [
        (HELD, ("node1", "node2"), 4),
        (replace(HELD, hosts=("node2", "node1")), ("node2", "node1"), 4),
        (replace(HELD, hosts=("node2", "node1"), nnodes=1), ("node2",), 2),
        (replace(ASKED, hosts=("node2", "node1")), ("node2", "node1"), 2),
        (HET, HET_HOSTS, 10),
        (replace(HET, nproc_per_node=2), HET_HOSTS, 6),
        (ASKED, (), 2),
    ],
)
def test_the_plan_has_the_hosts_in_the_order_of_the_ranks(
    request_: Request, hosts: tuple[str, ...], ranks: int
) -> None:
    (step,) = make({}, JOB, request_, "slurm-srun").steps
    assert (step.nodes, len(step.ranks)) == (hosts, ranks)
    found = plan_as_dict(make({}, JOB, request_, "slurm-srun"))["steps"][0]
    assert found["nodes"] == list(hosts)


@pytest.mark.parametrize(
    ("backend", "request_", "options", "hint"),
    [
        ("slurm-srun", {"nproc_per_node": 4}, {}, "-n 2, or allocate more: salloc --nodes=2 --ntasks-per-node=4"),
        ("slurm-srun", {"counts": (3, 2)}, {}, ""),
        ("slurm-srun", {"counts": (2, 3)}, {}, "-n 2, or allocate more: salloc --nodes=2 --ntasks-per-node=3"),
        ("slurm-srun", {"nproc_per_node": 1}, {"cpus-per-task": 3}, "allocate more: salloc --nodes=2 --ntasks-"),
        ("slurm-srun", {"nproc_per_node": 4}, {"srun": "--overcommit"}, ""),
        ("slurm-torchrun", {"nproc_per_node": 4}, {}, ""),
        ("slurm-torchrun", {"nproc_per_node": 2}, {"cpus-per-task": 2}, "-n 1, or allocate more: salloc --nodes=2"),
    ],
)
def test_more_ranks_than_the_allocation_has_cpus(
    backend: str, request_: dict[str, object], options: dict[str, object], hint: str
) -> None:
    """srun could not create the step. One task that starts all ranks of a node needs one CPU."""
    allocation = Allocation(job_id="5", hosts=("node1", "node2"), cpus={"node1": 3, "node2": 2})
    asked = replace(HELD, allocation=allocation, **request_)  # type: ignore[arg-type]
    if not hint:
        make(options, JOB, asked, backend)
        return
    with pytest.raises(LaunchError, match=r"allocation 5 has \d CPUs there") as caught:
        make(options, JOB, asked, backend)
    assert str(caught.value.hint).startswith(hint)


def test_a_job_keeps_its_own_slurm_variables() -> None:
    """What the submitting shell has left over of another allocation stays out of the job, and is not unset in it."""
    here = Host(name="login", slots=0, stale=("RANK", "SLURM_JOB_NODELIST", "SRUN_DEBUG"))
    plan = make({}, JOB, replace(ASKED, here=here), "slurm-srun")
    assert "unset RANK\n" in str(plan)
    names = {name for name, value in plan.batch.env.items() if value is None and not name.startswith("SBATCH_")}
    assert names == {"SLURM_JOB_NODELIST", "SRUN_DEBUG"}


@pytest.mark.parametrize("observe", [(), ("start", "stacks")])
def test_ranks_are_observed_if_that_was_asked_for(observe: tuple[str, ...]) -> None:
    """Else they have neither the variable nor the programs for it."""
    job = replace(JOB, observe=observe)
    for starter in ("ranks", "torchrun", "legacy"):
        (step,) = make({"starter": starter}, job, ONE).steps
        assert step.env.get("DDPKIT_OBSERVE") == (",".join(observe) or None)
    for backend in ("slurm-srun", "slurm-torchrun"):
        plan = make({}, job, ASKED, backend)
        assert plan.steps[0].env.get("DDPKIT_OBSERVE") == (",".join(observe) or None)
        (spec,) = (json.loads(file.text) for file in plan.files if file.path.endswith("task.json"))
        assert set(OBSERVERS) & {*spec["programs"]} == (set(OBSERVERS) if observe else set())
        assert bool(spec["marks"]) == bool(observe)


@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        ({"gres": "gpu:8"}, 8),
        ({"gres": "gpu"}, 1),
        ({"gres": "gpu:a100"}, 1),
        ({"gres": "gpu:a100:4"}, 4),
        ({"gres": "gpu:a100:4,nvme:1"}, 4),
        ({"gres": "nvme:1,gres/gpu:a100:4"}, 4),
        ({"gres": "gpu:a100:2,gpu:v100:2"}, 4),
        ({"gres": "gpu:4(S:0-1)"}, 4),
        ({"gres": "gpu:h100:8(IDX:0-3,5-8)"}, 8),
        ({"gres": "nvme:2"}, 1),
        ({"gpus_per_node": "a100:4"}, 4),
        ({"gpus_per_node": "4"}, 4),
        ({"gpus_per_node": "2", "gres": "gpu:4"}, 2),
    ],
)
def test_ranks_of_a_node_from_the_requested_gpus(options: dict[str, object], ranks: int) -> None:
    assert make(options, JOB, replace(ASKED, nnodes=1), "slurm-srun").world_size == ranks


@pytest.mark.parametrize("printed", ["1;touch x", "$(id)", "-a", "7\x1b]0;T\x07", "x" * 200])
def test_what_a_scheduler_prints_in_the_place_of_an_id_is_none(printed: str) -> None:
    scheduler = replace(SLURM, job_id=r"^job (.*)$")  # as a site's own backend may have it
    assert scheduler.id_in("hello\njob 17.server[]\n") == "17.server[]"
    assert scheduler.id_in(f"job {printed}") == ""


def test_a_variable_that_a_node_names_is_one_word() -> None:
    assert exports({"A": None, "X; touch y": None}) == ["unset A 'X; touch y'"]
