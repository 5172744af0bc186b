"""A submitted job that is followed: signals, a restart by somebody else, time limits, and ends that are no rank's."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Lab
from launching import BACKENDS, SALLOC, Launch, mostly, torch, wait_until_gone

# Ends when it got USR2; a signal more than once would be said more than once.
HEARS = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: print("heard USR1", flush=True))
signal.signal(signal.SIGUSR2, lambda *_: sys.exit(0))
print("ready", flush=True)
while True:
    time.sleep(60)
"""
# Saves on TERM in the first attempt; ends well in the next one.
SAVES = """
import os, signal, sys, time
attempt = os.environ.get("SLURM_RESTART_COUNT", "0")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("ready, attempt", attempt, flush=True)
time.sleep(3600 if attempt == "0" else 0)
"""
WAITS = """
import os, time
print("ready", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
print("on")
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", [[], [*SALLOC, "setsid", "--wait"]], ids=["login", "salloc"])
@pytest.mark.thorough_for("salloc-torchrun")
def test_signals_are_passed_on(
    backend: str, before: list[str], launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """Every rank gets it once, and neither the job's script nor torchrun dies of it."""
    (folder / "job.py").write_text(HEARS)
    command = launch("-b", backend, "-N", "2", "-n", "2", "--", "job.py", before=before)
    command.wait_for("] ready", times=4)
    command.signal(idle_lab, signal.SIGUSR1)
    command.wait_for("] heard USR1", times=4)
    command.signal(idle_lab, signal.SIGUSR2)
    assert command.end() == 0, command.tail
    assert command.text.count("] heard USR1") == 4, command.text


def agents(lab: Lab, node: str) -> list[int]:
    """Return the task of a step on a node, where it is the agent of torchrun or the process that forks the ranks."""
    listed = lab.run(node, "ps", "-e", "-o", "pid=,ppid=,args=").stdout.splitlines()
    found = {int(line.split()[0]): (int(line.split()[1]), line) for line in listed}
    steps = {pid for pid, (_, line) in found.items() if "slurmstepd: [" in line and "batch" not in line}
    return [pid for pid, (parent, line) in found.items() if parent in steps and "job.py" in line]


@pytest.mark.parametrize("backend", BACKENDS[1:])
def test_a_signal_for_the_task_alone_reaches_its_ranks(
    backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """Where SLURM tracks processes with cgroups, it signals the task and nothing below it. Here it has none."""
    (folder / "job.py").write_text(HEARS)
    command = launch("-b", backend, "-N", "2", "-n", "2", "--", "job.py")
    command.wait_for("] ready", times=4)
    tasks = {node: agents(idle_lab, node) for node in ("node1", "node2")}
    for name, times in (("USR1", 4), ("USR1", 8), ("USR2", 8)):
        for node, (pid,) in tasks.items():
            idle_lab.run(node, "kill", f"-{name}", str(pid))
        command.wait_for("] heard USR1", times=times)
    assert command.end() == 0, command.tail
    assert command.text.count("] heard USR1") == 8, command.text


def test_a_signal_that_reaches_no_rank(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text("")
    idle_lab.run("login", "sbatch", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 3600")
    command = launch("-b", "slurm", "-N", "4", "-o", "exclusive=true", "--", "job.py")
    command.wait_for("waits in the queue: Resources")
    command.signal(idle_lab, signal.SIGUSR1)
    command.wait_for(f"SIGUSR1 did not reach the ranks of job {command.record['job_id']}: they are not running")
    idle_lab.run("login", "scancel", command.record["job_id"])
    assert command.end() == 143, command.tail


@pytest.mark.parametrize("backend", mostly(["slurm", "slurm-torchrun"], "slurm"))
def test_a_job_requeued_by_an_administrator_is_followed_on(
    backend: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """Its ranks fail as they are ended, and that is no failure of the run."""
    (folder / "job.py").write_text(SAVES)
    command = launch("-b", backend, "-N", "2", "-n", "1", "-o", "requeue=true", "--", "job.py")
    command.wait_for("] ready, attempt 0", times=2)
    idle_lab.run("login", "scontrol", "requeue", command.record["job_id"])
    assert command.end() == 0, command.tail
    assert command.text.count("was requeued and starts again") == 1
    assert command.text.count("] ready, attempt 1") == 2
    assert "failed first" not in command.text
    assert command.record["state"] == "done"


def test_a_rank_that_fails_after_a_requeue_is_named(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(SAVES + "if os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(3600)\n")
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "-o", "requeue=true", "--", "job.py")
    command.wait_for("] ready, attempt 0", times=2)
    idle_lab.run("login", "scontrol", "requeue", command.record["job_id"])
    assert command.end() == 7, command.tail
    assert "rank 1 on node2 failed first" in command.text


def test_cancelled_while_it_runs(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """The ranks that TERM ends are not what failed."""
    (folder / "job.py").write_text(SAVES)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "--", "job.py")
    command.wait_for("] ready", times=2)
    idle_lab.run("login", "scancel", command.record["job_id"])
    assert command.end() == 143, command.tail
    assert f"job {command.record['job_id']} was cancelled" in command.lines[-1]
    assert "failed first" not in command.text
    wait_until_gone(idle_lab, "job.py")


@pytest.fixture
def private(idle_lab: Lab, folder: Path) -> Iterator[Path]:
    """A folder that the login host does not share with the nodes, which have no such folder."""
    there = folder / "private"
    there.mkdir()
    idle_lab.run("login", "mount", "-t", "tmpfs", "none", str(there))
    try:
        yield there
    finally:
        idle_lab.run("login", "umount", str(there))


def test_output_that_a_node_cannot_write(launch: Callable[..., Launch], folder: Path, private: Path) -> None:
    (folder / "job.py").write_text("open('ran', 'w')\n")
    (private / "logs").touch()  # on the nodes; later versions of SLURM make a directory that does not exist
    command = launch("-b", "slurm", "-o", f"output={private}/logs/%j.out", "--", "job.py")
    assert command.end() == 123, command.tail
    assert f"could not write its output {private}/logs/{command.record['job_id']}.out on node1" in command.lines[-1]
    assert not (folder / "ran").exists()


def test_output_that_is_not_seen_here(launch: Callable[..., Launch], folder: Path, private: Path) -> None:
    (folder / "job.py").write_text("")
    command = launch("-b", "slurm", "-o", f"output={private}/%j.out", "--", "job.py")
    assert command.end() == 0, command.tail
    assert f"the job's output {private}/{command.record['job_id']}.out is not visible on this machine" in command.text


@torch
@pytest.mark.parametrize("before", [[], SALLOC], ids=["login", "salloc"])
def test_a_log_folder_that_the_nodes_do_not_see(
    before: list[str], launch: Callable[..., Launch], folder: Path, private: Path
) -> None:
    (folder / "job.py").write_text("")
    words = ["-b", "slurm-torchrun", "-N", "2", "--log-dir", str(private), "-o", f"output={folder}/%j.out"]
    command = launch(*words, "--", "job.py", before=before)
    assert command.end() == 123, command.tail
    assert "no ddpkit.zip in the directory of the run on node1" in command.text or "/ddpkit.zip on node" in command.text
    assert "--log-dir must be a shared folder" in command.text


BAD_FOLDERS = {
    "output under a file": (["-o", "output=file/x_%j.out"], 123, "cannot write the job's output to "),
    "output where nothing can be made": (
        ["-o", "output=/proc/none/x_%j.out"],
        123,
        "cannot write the job's output to /proc/none ",
    ),
    "logs under a file": (["--log-dir", "file"], 121, "cannot write logs to file/"),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_a_folder_that_cannot_be_made(name: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    args, code, text = BAD_FOLDERS[name]
    (folder / "job.py").write_text("")
    (folder / "file").touch()
    command = launch("-b", "slurm", *args, "--", "job.py")
    assert command.end() == code, command.tail
    assert text in command.text
    assert len(command.lines) == 2  # the error and its hint
    assert idle_lab.run("login", "squeue", "-h").stdout == ""


def test_no_sbatch(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("")
    (folder / "bin").mkdir()
    command = launch("-b", "slurm", "--", "job.py", before=["env", f"PATH={folder}/bin"])
    assert command.end() == 123, command.tail
    assert command.lines[0] == "ddpkit: error: sbatch not found on this machine"
    assert "ddpkit launch -b local" in command.lines[1]


def test_the_controller_is_not_running(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text("")
    idle_lab.kill("login")
    try:
        idle_lab.boot("login", without=["slurmctld"])
        command = launch("-b", "slurm", "--", "job.py")
        assert command.end() == 123, command.tail
    finally:
        idle_lab.kill("login")
        idle_lab.boot("login")
    assert "Unable to contact slurm controller" in command.lines[0]
    assert "whether the job was accepted is not known" in command.text
    assert command.lines[-1].startswith("hint: scontrol ping; ")


def test_the_controller_goes_away_for_a_while(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """The job does not need it, and neither does who follows it."""
    (folder / "job.py").write_text(WAITS)
    command = launch("-b", "slurm", "--", "job.py")
    command.wait_for("] ready")
    pids = [str(pid) for pid, line in idle_lab.processes("login").items() if "slurmctld" in line]
    idle_lab.run("login", "kill", "-STOP", *pids)
    try:
        (folder / "go").touch()
        command.wait_for("] on")
    finally:
        idle_lab.run("login", "kill", "-CONT", *pids)
    assert command.end() == 0, command.tail


def test_a_time_limit(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """SLURM looks for them twice a minute."""
    (folder / "job.py").write_text(SAVES)
    command = launch("-b", "slurm", "-N", "2", "-n", "1", "-o", "time=10", "--", "job.py")
    command.wait_for("] ready", times=2)
    idle_lab.run("login", "scontrol", "update", f"JobId={command.record['job_id']}", "EndTime=now+1")
    assert command.end() == 143, command.tail
    assert f"job {command.record['job_id']} reached its time limit" in command.lines[-1]
    assert "failed first" not in command.text


def test_a_step_beyond_its_allocation(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("open('ran', 'w')\n")
    command = launch("-b", "slurm", "-n", "3", "--", "job.py", before=SALLOC)
    assert command.end() == 123, command.tail
    assert re.search(r"error: 3 ranks on node1: allocation \d+ has 2 CPUs there\nhint: -n 2, or", command.text)
    command = launch("-b", "slurm", "-o", "srun=--gres=gpu:9", "--", "job.py", before=SALLOC)
    assert command.end() == 123, command.tail
    assert "first, after" in command.text
    assert "SLURM did not start the step (srun: exit code 1): the step requests GPUs" in command.text
    assert not (folder / "ran").exists()


def test_ranks_beside_the_nodes_of_the_job(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("")
    command = launch("-b", "local", "--", "job.py", before=SALLOC)
    assert command.end() == 0, command.tail
    assert "these ranks run on this machine alone; on all nodes of the job: -b slurm" in command.text
    command = launch("--", "job.py", before=SALLOC)
    assert command.end() == 121, command.tail
    assert "hint: ddpkit launch -b slurm -- job.py" in command.text
    command = launch("--", "job.py", before=["srun", "-N2", "-n4"])
    assert command.end() == 121, command.tail
    assert command.text.count("hint: ddpkit launch -b slurm -N 2 -n 2 -- job.py") == 4
    command = launch("-b", "local", "--", "job.py")
    assert command.end() == 0, command.tail
    assert "SLURM" not in command.text
