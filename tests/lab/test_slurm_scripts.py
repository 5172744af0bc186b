"""The scripts in scripts/slurm/ do what they say, each submitted with sbatch to a real SLURM, in a folder of its own.

A user copies one next to a train.py and changes the lines marked so; here the same is done with options of sbatch. The
ranks know nothing of ddpkit. enroot cannot run in the lab: `ENROOT` below stands in for it, and says what it does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from cluster import Lab
from hostile import ARGS
from program import wait_until

SCRIPTS = Path(__file__).parents[2] / "scripts" / "slurm"
PATIENCE = 120.0
# Far below the 300 s for which a torchrun waits for one that is gone, and far above what is needed.
SOON = 30.0

# What stands for the user's own script: PyTorch's own way to meet, nothing else. Its first argument says what to do.
TRAIN = """
import json, os, signal, sys, time
from pathlib import Path

here = Path(__file__).parent
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
what = sys.argv[1]


def wait(names):
    while not all((here / name).exists() for name in names):
        time.sleep(0.02)


def write(name, text=""):
    (here / f"{name}.tmp").write_text(text)
    (here / f"{name}.tmp").rename(here / name)


seen = {"env": dict(os.environ), "argv": sys.argv[2:]}
if what == "sum":  # meet, and with a name behind it be there until others have met as well, rank 0 telling
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    seen["sum"] = total.item()
    if sys.argv[2:3] == ["until"]:
        if rank == 0:
            write(sys.argv[3])
        wait([sys.argv[4]])
    dist.destroy_process_group()
if what == "die":  # the last rank dies as told when all are there; the others would go on for ever
    write(f"there.{rank}")
    if rank == world - 1:
        wait([f"there.{number}" for number in range(world)])
        write("died", str(time.time()))
        for number in range(3):
            os.write(2, b"last line %d\\n" % number)
        os._exit(int(sys.argv[2])) if sys.argv[2].isdigit() else os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    while True:
        signal.pause()
write(f"seen.{rank}", json.dumps(seen))
print(f"this is rank {rank}", flush=True)
"""

# What stands for enroot: it takes the command lines that enroot's documentation gives for list, create and start, and
# refuses every other. A container of it is an empty folder: the command runs with the mounts asked for (real ones, in a
# mount namespace), with the image's PATH, which is the host's, and of the host's variables with those named only.
ENROOT = """#!/bin/bash
set -eu
fail() { echo "[ERROR] $*" >&2; exit 1; }
containers="$ENROOT_DATA_PATH/$(hostname)"
mkdir -p "$containers"
command=$1
shift
echo "$(hostname) $command" >>"$ENROOT_DATA_PATH/calls"
case $command in
list)
    [ $# = 0 ] || fail "list: $*"
    ls "$containers"
    ;;
create)
    [ $# = 3 ] && [ "$1" = -n ] || fail "create: $*"
    [ -f "$3" ] || fail "No such file or directory: $3"
    mkdir "$containers/$2" 2>/dev/null || fail "File already exists: $2"
    [ ! -e "$ENROOT_DATA_PATH/die" ] || kill -KILL $$
    ;;
start)
    variables=() mounts=() asked=
    while [ $# -gt 0 ]; do
        case $1 in
        --root | --rw) asked+=$1 ;;
        --mount) mounts+=("$2") && shift ;;
        --env) variables+=("$2=${!2}") && shift ;;
        -*) fail "start: $1" ;;
        *) break ;;
        esac
        shift
    done
    [ "$asked" = --root--rw ] || fail "start: asked for $asked"
    [ -d "$containers/$1" ] || fail "No such file or directory: $1"
    shift
    for mount in "${mounts[@]}"; do mkdir -p "${mount#*:}"; done
    exec unshare --mount bash -c '
        until [ "$1" = -- ]; do mount --bind "${1%%:*}" "${1#*:}"; shift; done
        cd /; shift; exec env -i "$@"' enroot "${mounts[@]}" -- "PATH=$PATH" "${variables[@]}" "$@"
    ;;
*) fail "no such command: $command" ;;
esac
"""

TWO_TASKS = ("--ntasks-per-node=2", "--gres=gpu:2", "--cpus-per-task=2")
ONE_TASK = ("--ntasks-per-node=1", "--cpus-per-task=4")
# script, options that fit the lab, ranks, where the log is
KINDS = {
    "slurm_train_single_node.sh": (TWO_TASKS, 2, "logs/slurm-{id}.out"),
    "slurm_train.sh": (TWO_TASKS, 4, "logs/slurm-{id}.out"),
    "slurm_train_multinode.sh": (TWO_TASKS, 4, "logs/train_{id}.out"),
    "run_distributed.slurm": ((*ONE_TASK, "--gpus-per-node=2"), 4, "logs/slurm-{id}.out"),
    "run_script.sh": ((*ONE_TASK, "--gres=gpu:2"), 4, "log/{id}/node1.out"),
}


@dataclass
class Job:
    id: int
    lab: Lab
    folder: Path

    def end(self) -> str:
        """Wait for the job's end. Returns SLURM's ExitCode: what the script returned, a colon, its signal."""
        until = time.monotonic() + PATIENCE
        while True:
            shown = self.lab.run("login", "scontrol", "show", "job", "-o", str(self.id)).stdout
            fields = dict(word.split("=", 1) for word in shown.split() if "=" in word)
            if fields["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return fields["ExitCode"]
            assert time.monotonic() < until, f"{shown}\n{self.said()}"
            time.sleep(0.05)  # SLURM announces the end of a job to nobody

    def said(self) -> str:
        """All that the job wrote into logs."""
        paths = [*self.folder.glob(f"log*/*{self.id}*"), *self.folder.glob(f"log/{self.id}/*")]
        paths += self.folder.glob(f"*-{self.id}.out")
        return "\n".join(path.read_text(errors="replace") for path in sorted(paths) if path.is_file())


TMP = 'it\'s a "tmp" $(touch pwned); *'  # a directory's name is no shell text


class Cluster:
    """The folder of a user on the cluster, with a train.py and what was copied next to it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.tmp = folder / TMP
        self.env = {"TMPDIR": str(self.tmp)}
        (folder / "train.py").write_text(TRAIN)
        (folder / "logs").mkdir()
        self.tmp.mkdir()

    def copy(self, name: str, changes: dict[str, str] | None = None) -> None:
        text = (SCRIPTS / name).read_text()
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        (self.folder / name).write_text(text)

    def submit(self, name: str, args: Sequence[str], options: Sequence[str] = ()) -> Job:
        if name == "run_script.sh":
            self._containers()
        for each in (name, "steps.sh"):
            if not (self.folder / each).exists():
                self.copy(each)
        argv = ["sbatch", "--parsable", "--partition=main", *options, name, *args]
        shown = self.lab.run("login", *argv, cwd=self.folder, env=self.env).stdout
        return Job(int(shown), self.lab, self.folder)

    def _containers(self) -> None:
        inside = self.folder / "inside"
        self.copy("torchrun.sh")
        self.copy("env.sh", {"=/workspace/mnt": f"={inside}"})
        for name, text in {"bin/enroot": ENROOT, "image.sqsh": "", "containers/calls": ""}.items():
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        self.env |= {
            "PATH": f"{self.folder}/bin:{self.lab.environ()['PATH']}",
            "CONTAINER_IMAGE": f"{self.folder}/image.sqsh",
            "ENROOT_DATA_PATH": f"{self.folder}/containers",
        }

    def seen(self, world: int, since: str = "seen") -> list[dict[str, object]]:
        """What each rank saw, by rank; none may be missing, and there may be no other."""
        paths = sorted(self.folder.glob(f"{since}.*"), key=lambda path: int(path.suffix[1:]))
        assert [path.name for path in paths] == [f"{since}.{rank}" for rank in range(world)]
        return [json.loads(path.read_text()) for path in paths]

    def environs(self, world: int) -> list[dict[str, str]]:
        found = [one["env"] for one in self.seen(world)]
        return [{str(k): str(v) for k, v in env.items()} for env in found if isinstance(env, dict)]

    def left(self) -> list[str]:
        """Names in the directory for temporary files, without what others leave there.

        The lock of a container stays. A torchrun whose last barrier fails, as another node's torchrun has left it,
        logs an exception; torch makes its compiler's cache to do so.
        """
        others = ("enroot-", "torchinductor_")
        return [path.name for path in self.tmp.iterdir() if not path.name.startswith(others)]

    def running(self) -> list[str]:
        """What still runs on the nodes of what was copied here."""
        found = [line for node in ("node1", "node2") for line in self.lab.processes(node).values()]
        return [line for line in found if "train.py" in line]


@pytest.fixture
def cluster(idle_lab: Lab, tmp_path: Path) -> Cluster:
    return Cluster(idle_lab, tmp_path)


# An import of torch in each rank takes longer than all else: with it, one script of each way to start ranks.
MEET = ("slurm_train.sh", "run_distributed.slurm")
OTHERS = [name for name in KINDS if name not in MEET]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "meets"),
    [
        *((name, True) for name in MEET),
        *((name, False) for name in OTHERS),
        *(pytest.param(name, True, marks=pytest.mark.thorough) for name in OTHERS),
    ],
)
def test_ranks_get_their_environment_and_arguments(cluster: Cluster, name: str, meets: bool) -> None:
    options, world, log = KINDS[name]
    job = cluster.submit(name, ["sum" if meets else "seen", *ARGS], options)
    assert job.end() == "0:0", job.said()
    seen, environs = cluster.seen(world), cluster.environs(world)
    if meets:
        assert [one["sum"] for one in seen] == [world * (world + 1) / 2] * world
    assert [one["argv"] for one in seen] == [ARGS] * world
    assert not list(cluster.folder.rglob("pwned"))
    for rank, env in enumerate(environs):
        assert (env["RANK"], env["WORLD_SIZE"], env["LOCAL_WORLD_SIZE"]) == (str(rank), str(world), "2")
        assert (env["LOCAL_RANK"], env["NODE_RANK"], env["GROUP_RANK"]) == (str(rank % 2), *[str(rank // 2)] * 2)
        assert env["MASTER_ADDR"] == "node1"
        assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert env["OMP_NUM_THREADS"] == "2"
    assert not cluster.left()
    assert len({env["MASTER_PORT"] for env in environs}) == 1
    assert 20000 <= int(environs[0]["MASTER_PORT"]) < 32768
    assert "this is rank 0" in (cluster.folder / log.format(id=job.id)).read_text()
    if name == "run_script.sh":
        assert "this is rank 2" in (cluster.folder / f"log/{job.id}/node2.out").read_text()
        assert "SLURM_PROCID" not in environs[0]  # so they ran where only what is named is passed on
        calls = (cluster.folder / "containers/calls").read_text().splitlines()
        assert sorted(calls) == [f"node{n} {command}" for n in (1, 2) for command in ("create", "list", "start")]


@pytest.mark.parametrize(
    ("name", "how", "code"),
    [
        ("slurm_train_single_node.sh", "7", 7),
        ("slurm_train.sh", "7", 7),
        ("slurm_train.sh", "SIGABRT", 134),
        ("slurm_train_multinode.sh", "7", 7),
        ("run_distributed.slurm", "7", 7),
        ("run_script.sh", "7", 7),
    ],
)
def test_one_rank_that_dies_ends_the_job_with_its_code(cluster: Cluster, name: str, how: str, code: int) -> None:
    options, world, _ = KINDS[name]
    job = cluster.submit(name, ["die", how], options)
    assert job.end() == f"{code}:0", job.said()
    ended = time.time()
    assert len(list(cluster.folder.glob("there.*"))) == world
    assert ended - float((cluster.folder / "died").read_text()) < SOON
    assert "the first to fail was node" in job.said()
    assert name != "slurm_train.sh" or "last line 2" in job.said()
    wait_until(lambda: not cluster.running())
    if ": Killed" not in job.said():  # after KillWait, where the machine is busy: SIGKILL lets nothing clean up
        wait_until(lambda: not cluster.left())


@pytest.mark.torch
def test_two_jobs_on_the_same_nodes_do_not_meet_each_other(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Cluster(cluster.lab, tmp_path / "other")
    options = ("--ntasks-per-node=1", "--gres=none", "--cpus-per-task=1", "--nodelist=node1,node2", "--oversubscribe")
    # Each stays until the other has met, so that both listen at the same time.
    jobs = [
        cluster.submit("slurm_train.sh", ["sum", "until", "met", str(other.folder / "met")], options),
        other.submit("slurm_train.sh", ["sum", "until", "met", str(cluster.folder / "met")], options),
    ]
    assert [job.end() for job in jobs] == ["0:0", "0:0"], "\n".join(job.said() for job in jobs)
    one, two = cluster.environs(2), other.environs(2)
    assert {env["MASTER_ADDR"] for env in (*one, *two)} == {"node1"}
    assert len({env["MASTER_PORT"] for env in (*one, *two)}) == 2


def test_a_port_that_is_taken_is_not_chosen(cluster: Cluster) -> None:
    options = ("--ntasks-per-node=1", "--gres=none", "--cpus-per-task=1", "--hold")
    job = cluster.submit("slurm_train.sh", ["look"], options)
    first = 20000 + job.id % 798 * 16
    listen = "import socket, sys; s = socket.create_server(('', int(sys.argv[1]))); print('!', flush=True); input()"
    argv = cluster.lab.argv("node1", [sys.executable, "-c", listen, str(first)])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=cluster.lab.environ()) as taken:
        assert taken.stdin is not None
        assert taken.stdout is not None
        assert taken.stdout.readline() == b"!\n"
        cluster.lab.run("login", "scontrol", "release", str(job.id))
        assert job.end() == "0:0", job.said()
        taken.stdin.write(b"\n")
    assert {env["MASTER_PORT"] for env in cluster.environs(2)} == {str(first + 1)}


@pytest.mark.parametrize("name", ["slurm_train.sh", "run_distributed.slurm"])
def test_rank_0_decides_where_the_ranks_meet(cluster: Cluster, name: str) -> None:
    """With `-m arbitrary` rank 0 is where the user's file says, and SLURM_NODEID and the lists of hosts do not know."""
    hosts = ["node2", "node2", "node1"] if name == "slurm_train.sh" else ["node2", "node1"]
    (cluster.folder / "hosts").write_text("".join(f"{host}\n" for host in hosts))
    cluster.env = {"SLURM_HOSTFILE": str(cluster.folder / "hosts"), "NPROC_PER_NODE": "1"}
    gpus = "--gres=none" if name == "slurm_train.sh" else "--gpus-per-node=1"
    options = ("--distribution=arbitrary", f"--ntasks={len(hosts)}", gpus, "--cpus-per-task=1")
    # They contradict such a file; later versions refuse --nodes.
    cluster.copy(name, {"#SBATCH --ntasks-per-node": "##SBATCH", "#SBATCH --nodes": "##SBATCH"})
    job = cluster.submit(name, ["look"], options)
    assert job.end() == "0:0", job.said()
    environs = cluster.environs(len(hosts))
    assert [env["SLURMD_NODENAME"] for env in environs] == hosts
    assert [env["NODE_RANK"] for env in environs] == (["0", "0", "1"] if len(hosts) == 3 else ["0", "1"])
    assert {env["MASTER_ADDR"] for env in environs} == {"node2"}


def test_an_environment_that_is_not_exported_still_reaches_the_ranks(cluster: Cluster) -> None:
    """sbatch --export=NIL (or NONE) leaves SLURM_EXPORT_ENV behind: an inner srun would lose what the script set."""
    path = f"export PATH={Path(sys.executable).parent}:$PATH OF_MINE=a,b"
    cluster.copy("slurm_train.sh", {"# source .venv/bin/activate": path})
    options, world, _ = KINDS["slurm_train.sh"]
    job = cluster.submit("slurm_train.sh", ["look"], (*options, "--export=NIL"))
    assert job.end() == "0:0", job.said()
    assert [env["OF_MINE"] for env in cluster.environs(world)] == ["a,b"] * world


def test_a_script_in_a_folder_of_its_own_reads_what_lies_beside_it(cluster: Cluster) -> None:
    """sbatch runs a copy in its spool folder. The job's own folder holds train.py alone."""
    (cluster.folder / "scripts").mkdir()
    for name in ("slurm_train.sh", "steps.sh"):
        shutil.copy(SCRIPTS / name, cluster.folder / "scripts")
    options, world, _ = KINDS["slurm_train.sh"]
    argv = ["sbatch", "--parsable", "--partition=main", *options, "scripts/slurm_train.sh", "look", "/a b/c"]
    job = Job(int(cluster.lab.run("login", *argv, cwd=cluster.folder).stdout), cluster.lab, cluster.folder)
    assert job.end() == "0:0", job.said()
    assert [one["argv"] for one in cluster.seen(world)] == [["/a b/c"]] * world


def test_a_script_without_its_common_file_names_it(cluster: Cluster) -> None:
    cluster.copy("slurm_train.sh")
    argv = ["sbatch", "--parsable", "--partition=main", *TWO_TASKS, "slurm_train.sh", "look"]
    job = Job(int(cluster.lab.run("login", *argv, cwd=cluster.folder).stdout), cluster.lab, cluster.folder)
    assert job.end() == "1:0", job.said()
    assert "steps.sh: No such file or directory" in job.said()
    assert not list(cluster.folder.glob("seen.*"))


def test_started_as_a_command_it_makes_the_folder_of_its_log_and_submits_itself(cluster: Cluster) -> None:
    (cluster.folder / "logs").rmdir()
    cluster.copy("steps.sh")
    cluster.copy("slurm_train_single_node.sh", {"--cpus-per-task=8": "--cpus-per-task=1", "=gpu  ": "=main "})
    shown = cluster.lab.run("login", "bash", "slurm_train_single_node.sh", "look", "two words", cwd=cluster.folder)
    job = Job(int(shown.stdout.split()[-1]), cluster.lab, cluster.folder)
    assert job.end() == "0:0", job.said()
    assert [one["argv"] for one in cluster.seen(4)] == [["two words"]] * 4
    assert "this is rank 3" in (cluster.folder / f"logs/slurm-{job.id}.out").read_text()


PREFLIGHT = ("--ntasks-per-node=2", "--gres=none")


@pytest.mark.torch
def test_preflight_finds_nothing(cluster: Cluster) -> None:
    job = cluster.submit("preflight.sbatch", [], PREFLIGHT)
    assert job.end() == "0:0", job.said()
    said = (cluster.folder / f"preflight-{job.id}.out").read_text().splitlines()
    assert said[-1].startswith("preflight: ok: 4 ranks on 2 nodes, Python 3."), said
    assert {"preflight: node1: no nvidia-smi", "preflight: node2: no nvidia-smi"} <= set(said) or shutil.which(
        "nvidia-smi"
    )
    assert any(line.startswith("preflight: all_reduce over 4 ranks with gloo in ") for line in said)


def failed(job: Job) -> list[str]:
    assert job.end() == "1:0", job.said()
    lines = job.said().splitlines()
    assert not any(line.startswith("preflight: ok") for line in lines)
    return sorted(line for line in lines if line.startswith(("preflight: FAILED: ", "roll call: FAILED: ")))


def _python(cluster: Cluster, first: str) -> None:
    """What the job finds as python: this does something first."""
    wrapper = cluster.folder / "bin/python"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{first}\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    cluster.env = {"PATH": f"{wrapper.parent}:{cluster.lab.environ()['PATH']}"}


def test_preflight_names_the_ranks_with_another_torch(cluster: Cluster) -> None:
    """node2 has another torch; and a rank on node1 has no Python at all."""
    old = cluster.folder / "old/torch-1.0.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    other = f'if [ "$(hostname)" = node2 ]; then export PYTHONPATH={old.parent}; fi'
    _python(cluster, f'if [ "$SLURM_PROCID" = 1 ]; then exit 126; fi\n{other}')
    one, two, three = failed(cluster.submit("preflight.sbatch", [], PREFLIGHT))
    assert one == "preflight: FAILED: rank 1 on node1: no python that starts"
    assert two.startswith("preflight: FAILED: rank 2 on node2: Python 3.")
    assert "with torch 1.0; rank 0 has Python 3." in two
    assert three.startswith("preflight: FAILED: rank 3 on node2: Python 3.")


@pytest.mark.torch
def test_preflight_names_ranks_whose_gpus_torch_does_not_find(cluster: Cluster) -> None:
    _python(cluster, "export CUDA_VISIBLE_DEVICES=99")
    lines = failed(cluster.submit("preflight.sbatch", [], ("--ntasks-per-node=1", "--gres=none")))
    assert [line.split(": ")[2] for line in lines] == ["rank 0 on node1", "rank 1 on node2"]
    assert all("SLURM gave the GPUs 99, but torch" in line for line in lines)


@pytest.fixture
def cut_off(lab: Lab) -> Iterator[Callable[..., None]]:
    """Do not let through what node2 sends to ports."""

    def drop(ports: str, verdict: str = "drop") -> None:
        rules = (
            f"table inet cut {{ chain out {{ type filter hook output priority 0; tcp dport {ports} {verdict}; }}; }}"
        )
        lab.run("node2", "nft", rules)

    yield drop
    lab.run("node2", "nft", "flush", "ruleset")


@pytest.mark.torch
def test_preflight_names_the_rank_that_does_not_reach_the_others(
    cluster: Cluster, cut_off: Callable[..., None]
) -> None:
    cut_off("20000-32767")
    cluster.env = {"PREFLIGHT_SECONDS": "20"}
    lines = failed(cluster.submit("preflight.sbatch", [], ("--ntasks-per-node=1", "--gres=none")))
    assert len(lines) == 2
    assert all(line.startswith("preflight: FAILED: rank 1 on node2: ") for line in lines)
    assert any("did not reach node1:2" in line for line in lines)


def test_a_node_that_cannot_answer_srun_is_named(cluster: Cluster, cut_off: Callable[..., None]) -> None:
    """srun listens on a random port. A node that cannot reach it lets every step wait, or fail."""
    cut_off("32768-60999 ct state new", "reject with tcp reset")
    cluster.env = {"PREFLIGHT_SECONDS": "2"}
    lines = failed(cluster.submit("preflight.sbatch", [], ("--ntasks-per-node=1", "--gres=none")))
    assert lines == ["roll call: FAILED: no answer from: node2"]


def test_half_a_container_is_not_used(cluster: Cluster) -> None:
    """A job ended while it made one. It may be the user's by now: it is named, and not removed."""
    options = KINDS["run_script.sh"][0]
    cluster.env["XDG_STATE_HOME"] = str(cluster.folder / "state")
    (cluster.folder / "containers").mkdir()
    (cluster.folder / "containers/die").touch()
    job = cluster.submit("run_script.sh", ["seen"], options)
    assert job.end() != "0:0", job.said()
    (cluster.folder / "containers/die").unlink()
    job = cluster.submit("run_script.sh", ["seen"], options)
    assert job.end() == "1:0", job.said()
    # In each job the first node ends the other one, which may not have begun its container.
    named = re.search(r"(node[12]): a job ended while it made the container my-torch", job.said())
    assert named
    assert not list(cluster.folder.glob("seen.*"))
    assert (cluster.folder / "containers" / named[1] / "my-torch").is_dir()
    cluster.env["CONTAINER_NAME"] = "my-torch-2"
    job = cluster.submit("run_script.sh", ["seen"], options)
    assert job.end() == "0:0", job.said()


def test_a_job_that_is_requeued_keeps_its_log(cluster: Cluster) -> None:
    (cluster.folder / "train.py").write_text(
        "import os, signal\nprint('start', os.environ.get('SLURM_RESTART_COUNT', '0'), flush=True)\nsignal.pause()\n"
    )
    options, ranks, log = KINDS["slurm_train_single_node.sh"]
    job = cluster.submit("slurm_train_single_node.sh", [], options)
    path = cluster.folder / log.format(id=job.id)
    wait_until(lambda: path.exists() and path.read_text().count("start 0\n") == ranks)
    cluster.lab.run("login", "scontrol", "requeue", str(job.id))

    def again() -> bool:
        cluster.lab.run("login", "scontrol", "update", f"JobId={job.id}", "StartTime=now", check=False)
        return "start 1\n" in path.read_text()

    try:
        wait_until(again)
        assert path.read_text().count("start 0\n") == ranks
    finally:
        cluster.lab.run("login", "scancel", str(job.id))


def test_what_scripts_have_in_common_stands_in_one_file() -> None:
    """Each script reads steps.sh, and repeats none of its functions but `start`, which a script may replace."""
    texts = {path.name: path.read_text() for path in SCRIPTS.iterdir()}
    common = texts.pop("steps.sh")
    assert set(KINDS) | {"env.sh", "torchrun.sh", "preflight.sbatch"} == set(texts)
    assert [name for name, text in texts.items() if "/steps.sh" not in text] == ["env.sh"]
    functions = set(re.findall(r"^(\w+)\(\) {", common, re.M)) - {"start"}
    assert {"roll_call", "run_command", "run_torchrun"} <= functions
    assert not [f"{name}: {one}" for name, text in texts.items() for one in functions if f"\n{one}() {{" in text]
    assert not [name for name, text in [*texts.items(), ("steps.sh", common)] if "ddpkit" in text]
    assert all(os.access(SCRIPTS / name, os.X_OK) for name in texts if name != "env.sh")
    logs = [text for text in texts.values() if "#SBATCH --output" in text]
    assert len(logs) > len(KINDS)
    assert all("\n#SBATCH --open-mode=append" in text for text in logs), "a requeue would empty its log"
