"""`ddpkit test -b slurm`: what ranks tell of their nodes, what SLURM refuses, and what happens to its jobs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sites
from bare_nodes import Bare
from cluster import LOGIN, NODES
from conftest import PATIENCE
from launching import mostly
from preflight_rows import Row, examine, named
from rank_faults import RANKS, at

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("idle_lab")]
FOUR = ("-b", "slurm", "-N", "4", "-n", "1")


def high_ports(bare: Bare) -> list[str]:
    # The kernel's own range, and not what SLURM's own programs talk by.
    bare.firewall(
        "node3", f"ip saddr {bare.lab.address['node2']} tcp dport 32768-60999 tcp flags & (syn | ack) == syn drop"
    )
    return []


def small_shm(bare: Bare) -> list[str]:
    bare.small("node3", Path("/dev/shm"), "size=32m")
    return []


def full_tmp(bare: Bare) -> list[str]:
    bare.small("node3", bare.folder / "tmp", "size=8m")
    return ["-o", f"setup=export TMPDIR={bare.folder}/tmp"]


def another_torch(bare: Bare) -> list[str]:
    import torch

    path = Path(torch.__file__).with_name("version.py")
    text = path.read_text()
    bare.write("node3", path, text.replace(str(torch.__version__), "2.9.1+cu128"))
    return []


def clock(seconds: float) -> str:
    return f"before = time.time; time.time = lambda: before() + {seconds}"


ROWS = {
    **{name: RANKS[name] for name in ("hangs-at-torch", "never-starts", "segfault", "stopped", "large-packets")},
    "killed": replace(RANKS["killed"], fix="node3: dmesg"),
    "clock": Row(  # L14
        fault=at("node3", "start", clock(30)),
        id="clock",
        rank=None,
        evidence="ahead",
        cause="rendezvous",
        fix="chrony",
        doc="clock-skew",
    ),
    "environment": Row(  # C14
        fault=at("node3", "start", "os.environ['NCCL_ALGO'] = 'Ring'"),
        id="environment",
        rank=None,
        evidence="NCCL_ALGO is Ring",
        cause="different settings",
        fix="NCCL_ALGO",
        doc="env-differs",
    ),
    "small-shm": Row(fault=small_shm, id="shm", rank=None, evidence="32 MiB", doc="shm-full"),  # E04
    "full-tmp": Row(fault=full_tmp, id="disk", rank=None, evidence=r"has (7\.\d+|8) MiB free", doc="disk-full"),
    "another-torch": Row(  # E03
        fault=another_torch,
        id="torch",
        rank=None,
        evidence="2.9.1",
        doc="versions-differ",
    ),
}


@pytest.mark.parametrize(
    "name", mostly(ROWS, "stopped", "clock", "environment", "small-shm", "full-tmp", "another-torch")
)
@pytest.mark.thorough_for("stopped", "small-shm", "another-torch")
def test_one_node_of_four(bare: Bare, name: str) -> None:
    row = ROWS[name]
    more = row.fault(bare)
    named(row, examine(bare, *FOUR, *more))


def test_high_ports_between_two_nodes(bare: Bare) -> None:
    """N05: the mesh names them, whatever gloo says."""
    done = examine(bare, *FOUR, *high_ports(bare))
    assert done.code == 122, done.text
    (mesh,) = [check for check in done.bad() if check["id"] == "mesh"]
    assert mesh["host"] == "node3", done.text
    assert mesh["evidence"].startswith("node2 cannot reach its high ports"), done.text
    assert mesh["fix"] == "ssh node3 sudo iptables -I INPUT -p tcp -s 10.77.0.2 -j ACCEPT"
    assert {check["id"] for check in done.bad()} <= {"mesh", "gloo"}, done.text


# ---- what SLURM refuses: one finding, exit code 122, no job left


def refused(
    cause: str, fix: str, *args: str, before: str = "", doc: str = "slurm-bad-request"
) -> tuple[Row, list[str], str]:
    row = Row(
        fault=lambda _: [], id="scheduler", host=None, rank=None, evidence=".", cause=cause, fix=fix, doc=doc
    )  # fmt: skip
    return row, list(args), before


REFUSALS = {
    "partition": refused(".", "--partition", "-N", "2", "-o", "partition=nosuch"),
    "gres": refused(".", "sinfo", "-N", "2", "-o", "gres=tpu:4"),
    "gpus": refused(".", "--gres", "-N", "2", "-o", "gpus_per_node=9"),
    "nodes": refused(".", "sinfo", "-N", "9"),
    "node": refused(".", ".", "-N", "1", "-o", "nodelist=node77"),
    "empty": refused(".", ".", "-N", "1", "-o", "partition=empty"),
    "step": refused(
        "allocation has less", "salloc", "-N", "1", "-n", "3", before="salloc -Q -N1 -n2 -c1", doc="step-refused"
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_slurm_refuses(bare: Bare, name: str) -> None:
    row, args, before = REFUSALS[name]
    named(row, examine(bare, "-b", "slurm", *(args if "-n" in args else [*args, "-n", "1"]), before=before.split()))
    # The job of salloc itself may still be completing.
    shown = bare.lab.run(LOGIN, "squeue", "-h", "-t", "PENDING,RUNNING,SUSPENDED", "-o", "%i %T").stdout
    assert not shown, shown


# ---- allocations, and what is left of them


SALLOC = ["salloc", "-Q", "-N2", "--ntasks-per-node=2"]


@pytest.mark.parametrize("backend", ["slurm", "slurm-torchrun"])
def test_in_an_allocation(bare: Bare, backend: str) -> None:
    done = examine(bare, "-b", backend, before=SALLOC)
    assert (done.code, done.bad("fail", "warn")) == (0, []), done.text
    (ranks,) = [check for check in done.checks if check["id"] == "ranks"]
    assert ranks["evidence"] == "4 of 4 joined"


@pytest.mark.parametrize("backend", ["slurm", "slurm-torchrun"])
def test_nodes_alone(bare: Bare, backend: str) -> None:
    """Without ranks no torch is imported: one that cannot be imported is not noticed. A small /dev/shm is."""
    row, site = ROWS["small-shm"], sites.plant(bare, "node2", "imported", "raise ImportError('libcudart')")
    done = examine(bare, "-b", backend, "-N", "4", "-n", "2", "--no-ranks", *row.fault(bare), *site)
    named(row, done)
    assert {check["host"] for check in done.checks if check["id"] == "torch"} == set(NODES), done.text
    stages = [check for check in done.checks if check["id"] in ("ranks", "gloo", "gpu-map", "nccl", "speed")]
    assert [(check["id"], check["status"]) for check in stages] == [("ranks", "skip")], done.text


@pytest.mark.parametrize("inner", [[], ["srun", "-N1", "-n1", "--overlap"]], ids=["shell", "step"])
def test_a_local_test_in_an_allocation_waits_for_nobody(bare: Bare, inner: list[str]) -> None:
    """S14: the variables of the allocation are not those of two ranks here."""
    done = examine(bare, "2", "-b", "local", before=[*SALLOC, *inner])
    assert (done.code, done.bad("fail", "warn")) == (0, []), done.text


WARNINGS = {
    "time": (["salloc", "-Q", "-N1", "--time=1"], "scheduler", "slurm-time-limit"),  # S07
    "one-task": (["salloc", "-Q", "-N1", "-n1", "--gpus-per-node=2"], "request", "srun-not-used"),  # S01
    "contradiction": (
        ["salloc", "-Q", "-N2", "-n2", "env", "SLURM_NTASKS_PER_NODE=2"],
        "request",
        "tasks-contradict",
    ),  # S02
}


@pytest.mark.parametrize("name", WARNINGS)
def test_an_allocation_that_will_not_do(bare: Bare, name: str) -> None:
    before, id_, doc = WARNINGS[name]
    row = Row(fault=lambda _: [], id=id_, host=None, rank=None, evidence=".", doc=doc, level="warn")
    named(row, examine(bare, "-b", "slurm", "-n", "1", before=before))


def end_from_outside(bare: Bare, number: signal.Signals, more: list[str], is_ready: Callable[[], bool]) -> None:
    process = subprocess.Popen(
        bare.lab.argv(LOGIN, [sys.executable, "-m", "ddpkit", "test", "-b", "slurm", "-N", "2", *more], bare.folder),
        env=bare.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    while "runs on" not in (line := process.stderr.readline()):
        assert line, "it ended before its job ran"
    bare.wait(is_ready, "its ranks do not come so far")
    shown = bare.lab.processes(LOGIN).items()
    pid = min(pid for pid, line in shown if line.startswith(f"{sys.executable} -m ddpkit test"))
    bare.lab.run(LOGIN, "kill", f"-{int(number)}", str(pid))
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, err
    assert out == "", out
    gone = bare.lab.run(LOGIN, "squeue", "-h", "-t", "PD,R", "-o", "%i %T").stdout
    assert not gone, gone


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_from_outside_it_leaves_no_job(bare: Bare, number: signal.Signals) -> None:
    end_from_outside(bare, number, sites.local(bare.folder, 1, "all_reduce", "time.sleep(600)"), lambda: True)


def test_a_job_that_takes_long_to_end_is_left_to_slurm(bare: Bare) -> None:
    """SLURM ends its rank by KILL, half a minute later: the command says nothing of a failure, and does not wait."""
    there = bare.folder / "there"
    what = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(there)!r}, 'w').close(); time.sleep(600)"
    end_from_outside(bare, signal.SIGTERM, sites.local(bare.folder, 1, "start", what), there.exists)


def test_a_submitted_test_ends_by_itself(bare: Bare) -> None:
    """Whatever becomes of the command: its job has a time limit of minutes."""
    argv = [sys.executable, "-m", "ddpkit", "test", "-b", "slurm", "-N", "2", "--dry-run"]
    shown = bare.lab.run(LOGIN, *argv, cwd=bare.folder, env=bare.environ()).stdout
    assert "#SBATCH --time=5" in shown
    again = bare.lab.run(LOGIN, *argv, "-o", "time=2", cwd=bare.folder, env=bare.environ()).stdout
    assert "#SBATCH --time=2" in again


def test_a_node_that_dies_meanwhile(bare: Bare) -> None:
    """S11: its rank is gone; the others say so long before SLURM does."""
    there = bare.folder / "there"
    more = sites.local(bare.folder, 2, "all_reduce", f"open({str(there)!r}, 'w').close(); time.sleep(600)")

    def kill() -> None:
        bare.wait(there.exists, "its rank does not come so far")
        bare.lab.kill("node3")

    def mend() -> None:
        bare.lab.boot("node3")
        bare.lab.run(LOGIN, "scontrol", "update", "nodename=node3", "state=resume", check=False)
        bare.lab.wait_idle(NODES)

    bare.later(mend)
    killer = threading.Thread(target=kill)
    killer.start()
    done = examine(bare, *FOUR, *more)
    killer.join(PATIENCE)
    assert done.code == 122, done.text
    assert {check["host"] for check in done.bad()} == {"node3"}, done.text
    print(f"node dies: {done.seconds:.1f} s")
