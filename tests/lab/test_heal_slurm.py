"""Runs that heal under SLURM, in an allocation and in a submitted job: each attempt is a step on nodes of its own."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import sites
from cluster import Lab
from launching import BACKENDS, DDPKIT, PATIENCE, Launch, torch, wait_until, wait_until_gone
from test_heal import JOB

SALLOC = ["salloc", "-Q", "-N3", "--no-kill", "--ntasks-per-node=1"]
START = Callable[..., Launch]


def started(launch: START, folder: Path, backend: str, *words: str) -> Launch:
    (folder / "job.py").write_text(JOB)
    options = ["-b", backend, "--grace", "1", "--retries", "2", "--spares", "1", *words]
    return launch(*options, "--", "job.py", before=SALLOC)


def shown(run: Launch) -> list[tuple[list[str], str | None]]:
    """Hosts and action of each attempt."""
    return [(each["hosts"], each["decision"] and each["decision"]["action"]) for each in run.record["attempts"]]


def kill_rank(lab: Lab, name: str = "KILL") -> None:
    """Send a signal to the rank on node2."""
    rank = max(pid for pid, line in lab.processes("node2").items() if line.endswith(" job.py"))
    lab.run("node2", "kill", f"-{name}", str(rank))


def check_second(run: Launch, folder: Path) -> None:
    """Let the second attempt end well."""
    run.wait_for("ready 2 ", times=2)
    (folder / "go.2").touch()
    assert run.end() == 0, run.text


@contextmanager
def full_shm(lab: Lab) -> Iterator[None]:
    """A node2 whose /dev/shm is full."""
    lab.run("node2", "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/dev/shm")
    lab.run("node2", "sh", "-c", "head -c 4096 /dev/zero > /dev/shm/full")
    try:
        yield
    finally:
        lab.run("node2", "umount", "--lazy", "/dev/shm")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.thorough_for("torchrun")
def test_a_killed_rank_starts_again_on_the_same_nodes(idle_lab: Lab, launch: START, folder: Path, backend: str) -> None:
    run = started(launch, folder, backend)
    run.wait_for("ready 1", times=2)
    kill_rank(idle_lab)
    check_second(run, folder)
    assert shown(run) == [(["node1", "node2"], "check"), (["node1", "node2"], None)]
    wait_until_gone(idle_lab, "job.py")


@torch
@pytest.mark.parametrize("host", ["full", "well", "without torch"])
def test_a_suspect_is_checked_in_the_allocation(idle_lab: Lab, launch: START, folder: Path, host: str) -> None:
    """A killed rank alone does not show whose fault it was: the test of its host does."""
    full = host == "full"
    if host == "without torch":  # which this script does not need
        (folder / "torch.py").write_text("raise ImportError('no torch here')")
    run = started(launch, folder, "slurm")
    run.wait_for("ready 1", times=2)
    with full_shm(idle_lab) if full else nullcontext():
        kill_rank(idle_lab)
        check_second(run, folder)
    assert shown(run) == [(["node1", "node2"], "check"), (["node1", "node3" if full else "node2"], None)]
    assert ("ddpkit: node2: put aside; reason: ddpkit test: " in run.text) == full


@pytest.mark.parametrize(
    ("silence", "reason"),
    [("0", "SLURM reports down*"), ("2", "no heartbeat for 2 s: the host or the network is down")],
    ids=["by the controller", "by its silence"],
)
def test_a_node_that_died_is_replaced_in_the_allocation(
    idle_lab: Lab, launch: START, folder: Path, silence: str, reason: str
) -> None:
    run = started(launch, folder, "slurm", "-o", f"heartbeat_timeout={silence}")
    run.wait_for("ready 1", times=2)
    try:
        idle_lab.kill("node2")
        check_second(run, folder)
    finally:
        idle_lab.boot("node2")
    assert shown(run) == [(["node1", "node2"], "replace"), (["node1", "node3"], None)]
    first = run.record["attempts"][0]  # the controller may know of it when the attempt has ended
    assert reason in first["decision"]["reason"] + first["failure"]["reason"]


def test_an_allocation_without_enough_nodes(launch: START, folder: Path) -> None:
    run = started(launch, folder, "slurm", "-N", "3")
    assert run.end() == 121
    assert "-N 3 and --spares 1: allocation " in run.text


def test_ranks_that_save_in_a_cancelled_allocation_are_not_started_again(
    idle_lab: Lab, launch: START, folder: Path
) -> None:
    (folder / "job.py").write_text(f"import signal, sys\nsignal.signal(15, lambda *_: sys.exit(75))\n{JOB}")
    run = launch("-b", "slurm", "--retries", "2", "--spares", "1", "--", "job.py", before=SALLOC)
    run.wait_for("ready 1", times=2)
    idle_lab.run("login", "scancel", "--me")
    run.end()
    assert [action for _, action in shown(run)] == ["stop"], run.text
    assert "ready 2" not in run.text


def submitted(launch: START, folder: Path, backend: str, *words: str, text: str = JOB) -> Launch:
    """A job of two nodes and a spare one."""
    (folder / "job.py").write_text(text)
    options = ["-b", backend, "-N", "2", "-n", "1", "--grace", "1", "--retries", "2", "--spares", "1", *words]
    return launch(*options, "--", "job.py")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_submitted_job_starts_again_after_a_killed_rank(
    idle_lab: Lab, launch: START, folder: Path, backend: str
) -> None:
    text = f"{JOB}assert 'DDPKIT_JOB_HOOK' not in os.environ\n"
    (folder / "ddpkit.toml").write_text('on_attempt = "cat >> told.json; hostname"\n')
    run = submitted(launch, folder, backend, text=text)
    run.wait_for("ready 1 None", times=2)
    kill_rank(idle_lab)
    check_second(run, folder)
    assert shown(run) == [(["node1", "node2"], "check"), (["node1", "node2"], None)]
    assert run.record["state"] == "done"
    assert "ddpkit: attempt 2 on node1, node2" in run.text
    assert "[on_attempt] node1" in run.text
    told = json.loads((folder / "told.json").read_text())
    assert [each["decision"]["action"] for each in told["attempts"]] == ["check"]
    assert (told["run_id"], told["state"]) == (run.record["run_id"], "running")
    (path,) = folder.glob("logs/*")
    old, new = (
        idle_lab.run("login", *DDPKIT, "logs", str(path), *words, cwd=folder).stdout
        for words in (("--attempt", "1"), ())
    )
    assert "ready 1" in old
    assert "ready 2" not in old
    assert "ready 2" in new


@torch
def test_a_suspect_is_checked_in_a_submitted_job(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm")
    run.wait_for("ready 1", times=2)
    with full_shm(idle_lab):
        kill_rank(idle_lab)
        check_second(run, folder)
    assert shown(run) == [(["node1", "node2"], "check"), (["node1", "node3"], None)]
    assert "ddpkit: node2: put aside; reason: ddpkit test: " in run.text
    (path,) = folder.glob("logs/*")
    assert [each.name.split("-", 2)[2][:11] for each in (path / "tests").iterdir()] == ["ddpkit-test"]


def test_a_submitted_job_replaces_a_node_while_nobody_follows_it(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm")
    run.wait_for("ready 1", times=2)
    run.signal(idle_lab, signal.SIGHUP)  # the terminal is closed
    run.end()
    try:
        idle_lab.kill("node2")
        (path,) = folder.glob("logs/*")
        (output,) = path.glob("slurm-*.out")
        wait_until(lambda: "ready 2 " in output.read_text(), output.read_text)
        (folder / "go.2").touch()
        status = wait_for_end(idle_lab, path)
    finally:
        idle_lab.boot("node2")
    assert status["state"] == "done", output.read_text()
    assert [each["hosts"] for each in status["attempts"]] == [["node1", "node2"], ["node1", "node3"]]
    assert "node2: SLURM reports down*" in status["attempts"][0]["decision"]["reason"]


def test_a_submitted_job_does_not_repeat_an_exception(launch: START, folder: Path) -> None:
    (folder / "fail.1.1").touch()
    run = submitted(launch, folder, "slurm")
    assert run.end() == 1, run.text
    assert shown(run) == [(["node1", "node2"], "stop")]
    assert "no other attempt follows: it would fail again" in run.text


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("again", [True, False], ids=["again", "stop"])
@pytest.mark.thorough_for("stop-torchrun", "stop-preload")
def test_a_rank_that_raised_and_does_not_end(launch: START, folder: Path, backend: str, again: bool) -> None:
    """Only its step is ended: the job's script then decides."""
    (folder / "torch.py").write_text("")  # an import of it installs the hooks
    thread = f"import threading, torch\nthreading.Thread(target=threading.Event().wait).start()\n{JOB}os._exit(0)\n"
    (folder / "fail.1.1").touch()
    (folder / "go.2").touch()
    (folder / "ddpkit.toml").write_text("retry_codes = 1\n" * again)
    run = submitted(launch, folder, backend, text=thread)
    assert run.end() == (0 if again else 1), run.text
    both, action = ["node1", "node2"], "same" if again else "stop"
    assert shown(run) == [(both, action), (both, None)][: 1 + again]
    first = run.record["attempts"][0]
    failure = first["failure"]
    assert (failure["rank"], failure["host"], failure["raised"]) == (1, "node2", "ValueError")
    assert first["exit_code"] == 1


@pytest.mark.parametrize("heals", [True, False], ids=["once", "twice"])
def test_a_hang_ends_the_step_of_a_submitted_job(idle_lab: Lab, launch: START, folder: Path, heals: bool) -> None:
    """The job's script then decides, and knows which rank the others waited for."""
    (folder / "ddpkit.toml").write_text('hang_action = "end"\n')
    run = submitted(launch, folder, "slurm", "--hang-timeout", "3")
    for attempt in ["1"] if heals else ["1", "2"]:
        run.wait_for(f"ready {attempt} ", times=2)
        kill_rank(idle_lab, "STOP")
    if heals:
        run.wait_for("ready 2 ", times=2)
        (folder / "go.2").touch()
    assert run.end() == (0 if heals else 124), run.text
    both = ["node1", "node2"]
    assert shown(run) == [(both, "check"), (both, None if heals else "stop")]
    hangs = [each["failure"] for each in run.record["attempts"] if each["failure"]]
    assert [(each["rank"], each["host"], each["code"]) for each in hangs] == [(1, "node2", 124)] * (2 - heals)
    wait_until_gone(idle_lab, "job.py")


def test_a_job_without_spare_nodes_is_requeued_without_the_bad_one(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm", "--spares", "0")
    run.wait_for("ready 1", times=2)
    try:
        idle_lab.kill("node2")
        check_second(run, folder)
        shown_job = idle_lab.run("login", "scontrol", "show", "job", run.record["job_id"]).stdout
    finally:
        idle_lab.boot("node2")
    first, second = shown(run)
    assert first == (["node1", "node2"], "requeue")
    assert "node2" not in second[0]
    # Without accounting, SLURM 22.05 changes no job that waits after a requeue.
    assert "ExcNodeList=node2" in shown_job or "ExcNodeList=node2: Job update not available right now" in run.text


@pytest.mark.parametrize("followed", [True, False], ids=["followed", "alone"])
def test_a_job_whose_first_node_dies_is_requeued_without_it(
    idle_lab: Lab, launch: START, folder: Path, followed: bool
) -> None:
    """The job's script dies with it. SLURM keeps the job, without a script."""
    # With two spares the job has all nodes of the lab, and starts again only with one spare less. Without accounting,
    # SLURM changes a job only after the end of all its processes.
    run = submitted(launch, folder, "slurm", "-o", "poll=5", "--spares", "2" if followed else "1")
    run.wait_for("ready 1", times=2)
    (path,) = folder.glob("logs/*")
    (output,) = path.glob("slurm-*.out")
    if not followed:
        run.signal(idle_lab, signal.SIGHUP)  # the terminal is closed
        run.end()
    try:
        idle_lab.kill("node1")
        # SLURM takes most of a minute to see that the node is lost, and as long before it starts the job again.
        wait_until(lambda: "ready 2 " in output.read_text(), output.read_text, 2 * PATIENCE)
        (folder / "go.2").touch()
        status = wait_for_end(idle_lab, path)
        assert not followed or run.end() == 0, run.text
    finally:
        idle_lab.boot("node1")
    assert status["state"] == "done", output.read_text()
    first, second = status["attempts"]
    assert (first["hosts"], first["decision"]["action"]) == (["node1", "node2"], "requeue")
    assert (first["failure"]["host"], "node1" in second["hosts"]) == ("node1", False)
    assert "ddpkit: SLURM lost node1, on which the script of job " in output.read_text()
    assert "ddpkit: attempt 1 ended; requeue without node1; reason: node1: " in output.read_text()
    wait_until_gone(idle_lab, "job_attempts")


def test_a_job_whose_first_node_dies_and_that_may_not_be_requeued(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm", "-o", "requeue=false", "-o", "poll=5")  # its output says nothing
    run.wait_for("ready 1", times=2)
    try:
        idle_lab.kill("node1")
        assert run.end() == 125, run.text
    finally:
        idle_lab.boot("node1")
    assert shown(run) == [(["node1", "node2"], "stop")]
    assert "no other attempt follows: node1: " in run.text
    assert "lost a node: node1, on which its script ran" in run.text
    wait_until_gone(idle_lab, "job")


def test_a_cancelled_job_is_not_started_again(idle_lab: Lab, launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm")
    run.wait_for("ready 1", times=2)
    idle_lab.run("login", *DDPKIT, "stop", cwd=folder)
    run.end()
    assert "ready 2" not in run.text
    assert run.record["attempts"] == []  # its script ended before it wrote them
    wait_until_gone(idle_lab, "job.py")


@torch
def test_a_job_that_is_cancelled_during_a_test_of_a_suspect(idle_lab: Lab, launch: START, folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(sites.site("start", "time.sleep(60)"))  # of the test's rank alone
    run = submitted(launch, folder, "slurm", "--env", f"PYTHONPATH={folder / 'site'}")
    run.wait_for("ready 1", times=2)
    kill_rank(idle_lab)
    wait_until(lambda: any("check.py" in line for line in idle_lab.processes("node2").values()), lambda: run.text)
    idle_lab.run("login", *DDPKIT, "stop", cwd=folder)
    assert run.end() == 143, run.text
    assert "put aside" not in run.text
    assert shown(run) == [(["node1", "node2"], "check")]


def test_an_array_has_no_attempts(launch: START, folder: Path) -> None:
    run = submitted(launch, folder, "slurm", "--array", "0-1")
    assert run.end() == 121
    assert "backend slurm does not support --spares 1 for a job array" in run.text


def wait_for_end(lab: Lab, path: Path) -> dict[str, Any]:
    """Return the document of a run that nobody follows, after its end."""
    shown: list[dict[str, Any]] = []

    def ended() -> bool:
        reply = lab.run("login", *DDPKIT, "status", str(path), "--json", cwd=path.parent.parent, check=False)
        shown.append(json.loads(reply.stdout))
        return shown[-1]["state"] not in ("running", "queued")

    wait_until(ended)
    return shown[-1]
