"""SLURM as people have it: options of one version, shells inside of jobs, variables of a job that has ended."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import BACKENDS, DDPKIT, ROOT, Launch

SLURM = ["-b", "slurm"]
VERSION = float(os.environ.get("LAB_SLURM") or "22.05")
OPTIONS = {  # and the first version of SLURM that knows it
    "--segment 2": 24.05,
    "--stepmgr": 24.05,
    "--requeue=expedite": 25.11,
    "--kill-on-invalid-dep yes": 14.11,
    "--no-kill": 14.11,
    "--sgement 2": 99,
}


@pytest.mark.parametrize("typed", OPTIONS)
def test_an_option_of_this_sbatch(typed: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """What ddpkit has no row for, the sbatch of the site knows or does not."""
    (folder / "job.py").write_text("print('ran')\n")
    command = launch(*SLURM, *typed.split(), "--", "job.py")
    code, known = command.end(), OPTIONS[typed] <= VERSION
    if not known:
        assert code in (121, 123), command.tail
        assert re.search("nor has the sbatch of this machine|doesn't allow an argument", command.text), command.tail
        assert "sinfo" not in command.text  # the hint is about the option
        assert not list(folder.glob("logs/*"))
    else:
        # Whether a site can do it is another question: its answer is that of sbatch.
        assert code == 0 or "sbatch rejected the job" in command.text, command.tail
        assert "has no option" not in command.text
    assert idle_lab.run("login", "squeue", "-h").stdout == ""


def test_a_job_from_inside_a_job(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "who.py").write_text("import os\nprint('job', os.environ['SLURM_JOB_ID'], os.environ['SLURM_NTASKS'])\n")
    before = "salloc -Q -w node1 -n1 -c2 --gres=gpu:1".split()
    command = launch(*SLURM, "--new-job", "-N", "2", "-n", "2", "--", "who.py", before=before)
    assert command.end() == 0, command.tail
    seen = set(re.findall(r"job (\d+) 4$", command.text, re.MULTILINE))
    assert seen == {command.record["job_id"]}, command.tail


def test_variables_of_sbatch_change_nothing_that_the_launch_has(launch: Callable[..., Launch], folder: Path) -> None:
    """A module of the site sets them, and for sbatch they win over the lines of a script."""
    wanted = "TimeLimit=00:05:00 MinMemoryNode=100M Switches=1@00:02:00"
    show = "scontrol -o show job $SLURM_JOB_ID | grep -oE '(TimeLimit|MinMemoryNode|Switches)=[^ ]*' | xargs echo asked"
    (folder / "job.py").write_text(f"import os\nos.system({show!r})\nprint('mark', os.environ['MARK'], flush=True)\n")
    site = "TIMELIMIT=7 OUTPUT=x.out ERROR=x.err ARRAY_INX=0-1 EXPORT=NONE WAIT=1 JOB_NAME=x MEM_PER_NODE=100"
    site += " REQ_SWITCH=3 WAIT4SWITCH=4"
    before = ["env", "MARK=here", *(f"SBATCH_{each}" for each in site.split())]
    command = launch(*SLURM, "--time", "5", "--switches", "1@2:00", "--", "job.py", before=before)
    assert command.end() == 0, command.tail
    assert re.search(rf"asked {wanted}$", command.text, re.MULTILINE), command.tail
    assert re.search(r"mark here$", command.text, re.MULTILINE), command.tail
    assert not list(folder.glob("x.*"))


def test_a_warning_of_sbatch_is_shown(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("print('ran', flush=True)\n")
    (folder / "bin").mkdir()
    warns = "echo 'sbatch: warning: your account has 3 hours left' >&2"
    (folder / "bin/sbatch").write_text(f'#!/bin/bash\n{warns}\nexec /usr/bin/sbatch "$@"\n')
    (folder / "bin/sbatch").chmod(0o755)
    command = launch(*SLURM, "--", "job.py", before=["env", f"PATH={folder / 'bin'}:{os.environ['PATH']}"])
    assert command.end() == 0, command.tail
    assert "ddpkit: sbatch: warning: your account has 3 hours left\n" in command.text, command.tail


@pytest.mark.parametrize("known", [True, False], ids=["ended", "forgotten"])
def test_variables_of_a_job_that_has_ended(known: bool, folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text("print('ran', flush=True)\n")
    job = idle_lab.run("login", "sbatch", "--parsable", "--wait", "-o", "/dev/null", "--wrap", "true").stdout.strip()
    stale = {"SLURM_JOB_ID": job if known else "999999", "SLURM_JOB_NODELIST": "node1", "SLURM_NTASKS": "1"}
    env = {**stale, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    argv = [*DDPKIT, "launch", *SLURM, "--", "job.py"]
    refused = idle_lab.run("login", *argv, cwd=folder, env=env, check=False)
    assert refused.returncode == 121, refused.stderr
    assert f"SLURM_JOB_ID={stale['SLURM_JOB_ID']} is left over in this shell" in refused.stderr
    assert "hint: ddpkit launch -b slurm --new-job -- job.py" in refused.stderr
    here = idle_lab.run("login", *DDPKIT, "launch", "--", "job.py", cwd=folder, env=env, check=False)
    assert here.returncode == 121, here.stderr
    assert "is left over in this shell" in here.stderr
    assert "hint: ddpkit launch -b slurm --new-job -- job.py" in here.stderr
    assert not list(folder.glob("logs/*"))
    submitted = idle_lab.run("login", *argv[:-2], "--new-job", *argv[-2:], cwd=folder, env=env, check=False)
    assert submitted.returncode == 0, submitted.stderr
    assert "ran" in submitted.stdout


def venv(path: Path) -> str:
    """A command that makes a virtual environment with the packages of this one."""
    return f"{sys.executable} -m venv --without-pip --system-site-packages {path}"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", ["", "salloc -Q -N1 -n2"], ids=["job", "step"])
@pytest.mark.thorough_for("step-preload", "job-preload")
def test_setup_decides_which_python(before: str, backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "who.py").write_text("import sys\nprint('prefix', sys.prefix, flush=True)\n")
    subprocess.run(venv(folder / "other").split(), check=True)
    for site in folder.glob("other/lib/*/site-packages"):  # torchrun is of this environment
        (site / "torch.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("site-packages")))
    activate = f"source {folder}/other/bin/activate"
    command = launch("-b", backend, "-n", "2", "-o", f"setup={activate}", "--", "who.py", before=before.split())
    assert command.end() == 0, command.tail
    assert command.text.count(f"prefix {folder}/other") == 2, command.tail
    # What was chosen by name stays, and so does the default where the lines choose none.
    for more in (["--setup", activate, "--python", sys.executable], ["--setup", "export A=1"]):
        command = launch("-b", backend, "-n", "1", *more, "--", "who.py", before=before.split())
        assert command.end() == 0, command.tail
        assert f"prefix {sys.prefix}" in command.text


def test_a_python_of_setup_without_torch(launch: Callable[..., Launch], folder: Path) -> None:
    """Its path is known on the node alone: no other one is blamed, or offered for an installation."""
    (folder / "job.py").write_text("print('ran')\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    command = launch("-b", "slurm-torchrun", "-n", "2", "--setup", f"source {folder}/bare/bin/activate", "--", "job.py")
    assert command.end() == 1, command.tail
    assert "this Python cannot import torch" in command.text, command.tail
    assert sys.executable not in command.text.partition("failed first")[2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("before", ["", "salloc -Q -N1 -n2"], ids=["job", "step"])
@pytest.mark.thorough_for("job-preload", "job-torchrun", "step-preload", "step-torchrun")
def test_nothing_runs_after_a_setup_that_failed(
    before: str, backend: str, launch: Callable[..., Launch], folder: Path
) -> None:
    """As `conda activate` in a shell without conda: the ranks would have another Python."""
    (folder / "job.py").write_text("open('ran', 'w')\n")
    setup = "export A=1; conda_of_nobody activate x; export B=2"
    command = launch("-b", backend, "--setup", setup, "--", "job.py", before=before.split())
    assert command.end() == 123, command.tail
    assert "conda_of_nobody: command not found" in command.text, command.tail
    what = "a command of --setup ended with exit code 127, at `conda_of_nobody activate x`"
    assert f"{what}; where it may fail, add || true: nothing was started" in command.text, command.tail
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("before", ["", "salloc -Q -N1 -n2"], ids=["job", "step"])
def test_how_lines_of_setup_end(before: str, launch: Callable[..., Launch], folder: Path) -> None:
    """They may look for something, and source files whose commands fail; a script in another directory is named."""
    (folder / "job.py").write_text("import os\nprint('mark', os.environ.get('MARK'), os.getcwd(), flush=True)\n")
    (folder / "site.sh").write_text("false\nexport MARK=site\n")
    (folder / "sub").mkdir()
    lines = "false || true; if false; then :; fi; (exit 3) || :; source ./site.sh; export MARK=$MARK-$(exit 0; echo)"
    command = launch("-b", "slurm", "-n1", "--setup", lines, "--", "job.py", before=before.split())
    assert command.end() == 0, command.tail
    assert f"mark site- {folder}" in command.text, command.tail
    for line, why in {
        "exit 0": "--setup has `exit 0`: nothing was started",
        "[ a = b ] && export MARK=1": "the last command of --setup ended with exit code 1: nothing was started",
        "cd sub": f"script job.py not found in {folder}/sub, to which a cd of --setup leads: nothing was started",
    }.items():
        command = launch("-b", "slurm", "-n1", "--setup", line, "--", "job.py", before=before.split())
        assert command.end() == 123, command.tail
        assert why in command.text, command.tail


def test_variables_of_the_site_reach_sbatch(launch: Callable[..., Launch], folder: Path) -> None:
    """A site without slurm.conf names its server, and one with tokens has the user's in a variable."""
    site = {"SLURM_CONF_SERVER": "login", "SLURM_JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJyb290In0.c2lnbmF0dXJl"}
    (folder / "job.py").write_text("print('ran', flush=True)\n")
    (folder / "bin").mkdir()
    (folder / "bin/sbatch").write_text(f'#!/bin/bash\nenv > {folder}/seen\nexec /usr/bin/sbatch "$@"\n')
    (folder / "bin/sbatch").chmod(0o755)
    words = [f"{name}={value}" for name, value in site.items()]
    left = ["SLURM_NTASKS=9", f"PATH={folder / 'bin'}:{os.environ['PATH']}"]
    launch(*SLURM, "--", "job.py", before=["env", *words, *left]).end()  # this SLURM may have no tokens
    seen = (folder / "seen").read_text().splitlines()
    assert [word for word in words if word not in seen] == []
    assert "SLURM_NTASKS=9" not in seen


@pytest.mark.parametrize("python", ["{folder}/late/bin/python", "$WHERE/late/bin/python"])
def test_a_python_that_the_job_makes(python: str, launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "who.py").write_text("import sys\nprint('prefix', sys.prefix, flush=True)\n")
    setup = f"export WHERE={folder}; {venv(folder / 'late')}"
    chosen = python.format(folder=folder)
    command = launch(*SLURM, "-n", "2", "--setup", setup, "--python", chosen, "--", "who.py")
    assert command.end() == 0, command.tail
    assert command.text.count(f"prefix {folder}/late") == 2, command.tail


def test_a_python_that_no_node_has(launch: Callable[..., Launch], folder: Path) -> None:
    (folder / "job.py").write_text("print('ran')\n")
    command = launch(*SLURM, "-n", "2", "--python", "/nowhere/bin/python", "--", "job.py")
    assert command.end() == 123, command.tail
    reason = r"Python /nowhere/bin/python not found on node\d"
    assert re.search(f"{reason}: nothing was started", command.text)
    assert re.search(f"failed first.*: {reason}", command.text), command.tail


BUSY = """#!/bin/bash
[ "$2" != --version ] || exec /usr/bin/sbatch "$@"
n=$(cat {folder}/calls 2> /dev/null || echo 0); echo $((n + 1)) > {folder}/calls
[ "$n" != 0 ] || {{ {first} echo "sbatch: error: Batch job submission failed: {words}" >&2; exit 1; }}
exec /usr/bin/sbatch "$@"
"""


@pytest.mark.parametrize("words", ["Socket timed out on send/recv operation", "Unexpected message received"])
@pytest.mark.parametrize("accepted", [True, False], ids=["accepted", "lost"])
def test_a_submission_without_an_answer(
    accepted: bool, words: str, launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """The queue is looked at before the job is submitted again: it never runs twice."""
    (folder / "job.py").write_text("with open('ran', 'a') as file:\n    file.write('x')\n")
    (folder / "bin").mkdir()
    first = '/usr/bin/sbatch "$@" > /dev/null;' if accepted else ""
    (folder / "bin/sbatch").write_text(BUSY.format(folder=folder, first=first, words=words))
    (folder / "bin/sbatch").chmod(0o755)
    before = ["env", f"PATH={folder / 'bin'}:{os.environ['PATH']}"]
    command = launch(*SLURM, "--", "job.py", before=before)
    assert command.end() == 0, command.tail
    assert f"{words}; looks for the job" in command.text
    assert (folder / "calls").read_text().strip() == ("1" if accepted else "2")
    assert (folder / "ran").read_text() == "x"
    assert len(list(folder.glob("logs/*/run.json"))) == 1


def test_a_submission_that_is_accepted_late(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """The controller reads it after the look for it, so that the run has two jobs. One of them is cancelled."""
    (folder / "job.py").write_text(
        "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
        "with open('ran', 'a') as file:\n    file.write('x')\n"
    )
    (folder / "bin").mkdir()
    head, submits, _ = BUSY.format(folder=folder, first="", words="Socket timed out").rpartition("exec")
    (folder / "bin/sbatch").write_text(f'{head}/usr/bin/sbatch "$@" > /dev/null\n{submits} /usr/bin/sbatch "$@"\n')
    (folder / "bin/sbatch").chmod(0o755)
    before = ["env", f"PATH={folder / 'bin'}:{os.environ['PATH']}"]
    command = launch(*SLURM, "--", "job.py", before=before)
    command.wait_for("accepted this run twice: cancelled job")
    (folder / "go").touch()
    assert command.end() == 0, command.tail
    jobs = idle_lab.run("login", "squeue", "--noheader", "--states=all", "--format=%T %o").stdout
    assert sorted(re.findall(rf"(?m)^(\w+) {re.escape(str(folder))}/", jobs)) == ["CANCELLED", "COMPLETED"]
    assert (folder / "ran").read_text() == "x"


def test_a_busy_controller_is_waited_for(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    """It is stopped for a while, and then reads what was sent to it."""
    (folder / "job.py").write_text("with open('ran', 'a') as file:\n    file.write('x')\n")
    (pid,) = (pid for pid, line in idle_lab.processes("login").items() if "slurmctld" in line)
    idle_lab.run("login", "kill", "-STOP", str(pid))
    try:
        command = launch(*SLURM, "--", "job.py")
        command.wait_for("looks for the job")
    finally:
        idle_lab.run("login", "kill", "-CONT", str(pid))
    assert command.end() == 0, command.tail
    assert (folder / "ran").read_text() == "x"


def test_a_suspended_job(launch: Callable[..., Launch], folder: Path, idle_lab: Lab) -> None:
    (folder / "job.py").write_text(
        "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
    )
    command = launch(*SLURM, "--poll", "5", "--", "job.py")
    command.wait_for("] up")
    job = command.record["job_id"]
    idle_lab.run("login", "scontrol", "suspend", job)
    command.wait_for(f"job {job} is suspended by the scheduler on node")
    env = {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    shown = idle_lab.run("login", *DDPKIT, "status", command.record["run_id"], cwd=folder, env=env, check=False)
    assert "is suspended by the scheduler on node" in shown.stdout, shown
    idle_lab.run("login", "scontrol", "resume", job)
    (folder / "go").touch()
    assert command.end() == 0, command.tail
    assert "waits in the queue" not in command.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_scontrol_answers_nothing(backend: str, launch: Callable[..., Launch], folder: Path) -> None:
    """It ends with 0 and prints nothing, as on a node whose controller is cut off for a moment."""
    (folder / "job.py").write_text("open('ran', 'w')\n")
    (folder / "bin").mkdir()
    (folder / "bin/scontrol").write_text("#!/bin/sh\n")
    (folder / "bin/scontrol").chmod(0o755)
    command = launch("-b", backend, "--setup", f"PATH={folder}/bin:$PATH", "-n", "2", "--", "job.py")
    assert command.end() == 123, command.tail
    assert "scontrol did not" in command.text
    assert not (folder / "ran").exists()


# In a bash with a function of the user's, as `module` is at most sites, and names that no shell of POSIX knows.
ODD = ["bash", "-c", 'f() { echo; }; export -f f; exec env name.with.dots=1 a-b=2 EMPTY= "$@"', "-"]
# What a step of ddpkit has beside a step of the user's own, as the documents list them; and what its script gives.
ADDED = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT "
ADDED += "ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS DDPKIT_RUN "
ADDED += "OMP_NUM_THREADS PYTHONUNBUFFERED PYTHONFAULTHANDLER"
OF_SCRIPT = {"SLURM_NTASKS_PER_NODE", "SLURM_DISTRIBUTION", "OLDPWD"}


@pytest.mark.parametrize("preload", [[], ["--preload=json"]], ids=["ranks", "preload"])
def test_a_rank_has_the_variables_of_a_step(
    preload: list[str], launch: Callable[..., Launch], folder: Path, idle_lab: Lab
) -> None:
    """The names are those of `srun python` in a job script, and those that the documents list."""
    (folder / "job.py").write_text("import json, os, sys\njson.dump(dict(os.environ), open(sys.argv[1], 'w'))\n")
    (folder / "hand.sh").write_text(f"#!/bin/bash\nsrun {sys.executable} job.py hand\n")
    command = launch(*SLURM, "-n", "1", *preload, "--", "job.py", "rank", before=ODD)
    assert command.end() == 0, command.tail
    environ = [f"{name}={value}" for name, value in {"NO_COLOR": "1", "PYTHONPATH": str(ROOT)}.items()]
    words = [*ODD, "env", *environ, "sbatch", "-W", "-N1", "-n1", "-o", "hand.out", "hand.sh"]
    assert idle_lab.run("login", *words, cwd=folder).returncode == 0, (folder / "hand.out").read_text()
    hand, rank = (json.loads((folder / name).read_text()) for name in ("hand", "rank"))
    lost = {name for name in hand if name not in rank and not name.startswith("PMI")}
    assert lost <= {"_"}  # each shell sets it anew
    assert {name for name in rank if name not in hand} - OF_SCRIPT == set(ADDED.split())
    assert rank["BASH_FUNC_f%%"] == hand["BASH_FUNC_f%%"]
