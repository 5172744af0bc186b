"""A hold over SSH, pdsh and in a job of SLURM: launches start there as forks, and every end leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster import Lab
from launches import ROOT, processes, temporary
from program import PATIENCE, Program

DDPKIT = (sys.executable, "-m", "ddpkit")
WARM = 'import os, sys; print("warm" if "fractions" in sys.modules else "cold", os.uname().nodename, flush=True)\n'
SLEEP = "import time; print('asleep', flush=True); time.sleep(1000)\n"


class Project:
    """A project on the login host. What its programs start is what was not there before."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.before, self.folders_before = set(processes(lab)), temporary(lab)
        self.started: list[Program] = []
        self.env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT), "DDPKIT_GPUS": "0", "TMPDIR": lab.tmp}
        (folder / "ddpkit.toml").touch()
        (folder / "job.py").write_text(WARM)
        (folder / "sleep.py").write_text(SLEEP)

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.lab.run("login", *DDPKIT, *args, cwd=self.folder, env=self.env, check=False)

    def start(self, *args: str, before: tuple[str, ...] = ()) -> Program:
        argv = self.lab.argv("login", [*before, *DDPKIT, *args], self.folder)
        self.started.append(Program(argv, env={**self.lab.environ(), **self.env}))
        return self.started[-1]

    def hold(self, *args: str) -> Program:
        hold = self.start("hold", "--preload=fractions", "--grace", "2", *args)
        hold.wait_for("imported fractions", 2)
        return hold

    def left(self, base: set[int] | None = None) -> dict[int, tuple[str, str]]:
        known = self.before if base is None else base
        return {pid: each for pid, each in processes(self.lab).items() if pid not in known}

    def wait_for_nothing_left(self, base: set[int] | None = None) -> None:
        until = time.monotonic() + PATIENCE
        while left := self.left(base):
            assert time.monotonic() < until, left
            time.sleep(0.05)  # nobody announces the end of somebody else's child

    def launcher(self, program: Program) -> int:
        outer = program.process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])


@pytest.fixture
def project(lab: Lab, tmp_path: Path) -> Iterator[Project]:
    project = Project(lab, tmp_path)
    yield project
    lab.run("login", "scancel", "--me", "--name=hold")  # nobody else can, where salloc and its command are killed too
    for pid in project.left():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for each in project.started:
        each.process.wait(PATIENCE)


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_launches_into_a_hold(backend: str, project: Project) -> None:
    hold = project.hold("-b", backend, "node1", "node2", "-n", "2")
    base = set(processes(project.lab))
    done = project.run("launch", "--", "job.py")
    assert done.returncode == 0, done.stderr
    assert sorted(line.partition("] ")[2] for line in done.stdout.splitlines()) == sorted(
        ["warm node1", "warm node2"] * 2
    ), done.stderr
    assert "cold" not in done.stderr
    one = project.run("launch", "-b", backend, "node2", "-n", "1", "--", "job.py")
    assert "warm node2" in one.stdout
    other = project.run("launch", "-b", backend, "node3", "-n", "1", "--starter", "ranks", "--", "job.py")
    assert "cold node3" in other.stdout
    assert "uses hold" not in other.stderr
    local = project.run("launch", "-b", "local", "-n", "1", "--", "job.py")
    assert "cold login" in local.stdout
    project.wait_for_nothing_left(base)
    assert hold.process.poll() is None
    assert project.run("hold", "--end").returncode == 0
    hold.end()
    project.wait_for_nothing_left()
    assert not temporary(project.lab) - project.folders_before


WAYS = {"ssh": ("-b", "ssh", "node1", "node2"), "slurm": ("-b", "slurm", "node1", "node2")}


def wait_for_no_job(lab: Lab) -> None:
    until = time.monotonic() + PATIENCE
    while jobs := lab.run("login", "squeue", "-h").stdout:
        assert time.monotonic() < until, jobs
        time.sleep(0.1)  # the controller takes its time, and announces nothing


def test_launches_into_a_hold_of_slurm(idle_lab: Lab, project: Project) -> None:
    hold = project.hold(*WAYS["slurm"], "-n", "2")
    base = set(processes(project.lab))
    for _ in range(5):
        done = project.run("launch", "--", "job.py")
        assert sorted(line.partition("] ")[2] for line in done.stdout.splitlines()) == sorted(
            ["warm node1", "warm node2"] * 2
        ), done.stderr
    one = project.run("launch", "-b", "slurm", "-N", "1", "-n", "1", "--", "job.py")
    assert "warm node1" in one.stdout, one.stderr
    named = project.run("launch", "-b", "slurm-torchrun", "node2", "-n", "1", "--", "job.py")
    assert "warm node2" in named.stdout, named.stderr
    for other in (("-b", "slurm", "-N", "3", "--dry-run"), ("-b", "ssh", "node1", "--dry-run")):
        assert "uses hold" not in project.run("launch", *other, "--", "job.py").stderr
    project.wait_for_nothing_left(base)
    assert hold.process.poll() is None
    assert project.run("hold", "--end").returncode == 0
    hold.end()
    project.wait_for_nothing_left()
    wait_for_no_job(idle_lab)
    assert not temporary(project.lab) - project.folders_before


INHERITED = """
import os, resource, sys
files, stack = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_STACK)
print("fractions" in sys.modules, oct(os.umask(0)), files[0], stack[0], os.nice(0), os.sched_getaffinity(0), flush=True)
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_has_of_its_surroundings_what_it_would_have_alone(way: str, idle_lab: Lab, project: Project) -> None:
    """Of the shell of the launch under SLURM, and of sshd over SSH."""
    (project.folder / "inherited.py").write_text(INHERITED)
    shell = ("sh", "-c", 'umask 027; ulimit -S -n 500; exec nice -n 2 "$@"', "sh")

    def launch(*options: str) -> list[str]:
        words = (*shell, *DDPKIT, "launch", *options, "--", "inherited.py")
        done = project.lab.run("login", *words, cwd=project.folder, env=project.env, check=False)
        assert done.returncode == 0, done.stderr
        return sorted(line.partition("] ")[2] for line in done.stdout.splitlines() if "0o" in line)

    hold = project.hold(*WAYS[way], "-n", "1")
    warm = launch()
    assert project.run("hold", "--end").returncode == 0
    hold.end()
    alone = launch(*WAYS[way], "-n", "1", *(("--starter", "ranks") if way == "ssh" else ()))
    assert len(alone) == 2
    assert [line.replace("True", "False") for line in warm] == alone
    assert all(line.startswith("True") for line in warm)
    assert ("0o27 500" in warm[0]) == (way == "slurm")


def test_a_hold_in_an_allocation_leaves_it(idle_lab: Lab, project: Project) -> None:
    inside = (
        '"$@" hold -b slurm -n 1 --preload=fractions > held 2>&1 & hold=$!\n'
        'until [ "$(grep -c "imported fractions" held)" = 2 ]; do kill -0 $hold || exit 9; sleep 0.2; done\n'
        '"$@" launch -- job.py; "$@" hold --end; wait $hold; squeue -h -j $SLURM_JOB_ID -o %T'
    )
    argv = ["salloc", "-N", "2", "--ntasks-per-node=1", "bash", "-c", inside, "x", *DDPKIT]
    done = project.lab.run("login", *argv, cwd=project.folder, env=project.env, check=False)
    assert done.stdout.count("warm") == 2, done.stderr
    assert done.stdout.endswith("RUNNING\n"), done.stdout
    project.wait_for_nothing_left()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_end_of_a_launch_is_not_that_of_the_hold(number: int, way: str, project: Project) -> None:
    project.hold(*WAYS[way], "-n", "2")
    base = set(processes(project.lab))
    launch = project.start("launch", "--grace", "2", "--", "sleep.py")
    launch.wait_for("asleep", 4)
    os.kill(project.launcher(launch), number)
    launch.end()
    project.wait_for_nothing_left(base)
    assert project.run("launch", "--", "job.py").stdout.count("warm") == 4


def of_hold(project: Project, base: set[int]) -> int:
    """The warm Python on node2."""
    (found,) = (pid for pid, (host, line) in project.left(base).items() if host == "node2" and "/holder.py" in line)
    return found


def of_salloc(project: Project, base: set[int]) -> int:
    (found,) = (pid for pid, (_, line) in project.left(base).items() if line.startswith("salloc "))
    return found


@pytest.mark.parametrize(
    ("way", "who"),
    [
        *((way, who) for way in WAYS for who in ("launcher", "warm Python")),
        *(("slurm", who) for who in ("salloc", "job", "salloc and launcher")),
    ],
)
def test_the_end_of_a_hold_is_that_of_its_launches(way: str, who: str, project: Project) -> None:
    base = set(processes(project.lab))
    hold = project.hold(*WAYS[way], "-n", "1")
    warm = of_salloc(project, base) if "salloc" in who else of_hold(project, base)
    launch = project.start("launch", "--grace", "2", "--", "sleep.py")
    launch.wait_for("asleep", 2)
    if who == "job":
        project.lab.run("login", "scancel", "--name=hold")
    else:
        for pid in [warm] * (who != "launcher") + [project.launcher(hold)] * ("launcher" in who):
            os.kill(pid, signal.SIGKILL)
    if who == "salloc":  # the job goes on: its nodes are there, and the hold ends it
        assert project.run("hold", "--end").returncode == 0
    assert launch.end() != 0
    causes = ["the hold that this launch used has ended"] + ["its step in job "] * (way == "slurm")
    assert any(cause in launch.text for cause in causes), launch.text
    assert hold.end() != 0
    project.wait_for_nothing_left()
    wait_for_no_job(project.lab)
    done = project.run("launch", "-b", "ssh", "node1", "-n", "1", "--starter", "ranks", "--", "job.py")
    assert "cold node1" in done.stdout


OF_API = """
import sys
import ddpkit

def where():
    import os, sys
    return ["warm" if "fractions" in sys.modules else "cold", os.uname().nodename, os.environ["RANK"]]

def fail():
    import os
    if os.environ["RANK"] == "1":
        raise ValueError("no data")

if __name__ == "__main__":
    print(ddpkit.call(where))
    try:
        ddpkit.call(fail)
    except ddpkit.RankError as error:
        print(error.rank, error.host, error.kind)
    run = ddpkit.launch("job.py")
    run.wait()
    print(sorted(line.text.strip() for line in run.logs() if line.rank is not None))
"""


@pytest.mark.parametrize("way", WAYS)
def test_the_api_into_a_hold(way: str, project: Project) -> None:
    project.hold(*WAYS[way], "-n", "1")
    base = set(processes(project.lab))
    (project.folder / "api.py").write_text(OF_API)
    done = project.lab.run("login", sys.executable, "api.py", cwd=project.folder, env=project.env, check=False)
    assert done.returncode == 0, done.stderr
    values, failure, lines = done.stdout.splitlines()
    assert values == "[['warm', 'node1', '0'], ['warm', 'node2', '1']]"
    assert failure == "1 node2 ValueError"
    assert lines == "['warm node1', 'warm node2']"
    project.wait_for_nothing_left(base)
