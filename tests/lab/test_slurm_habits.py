"""SLURM as people have it: options of one version, shells inside of jobs, variables of a job that has ended."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster import Lab
from launching import DDPKIT, ROOT, Launch

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
    assert not list(folder.glob("logs/*"))
    submitted = idle_lab.run("login", *argv[:-2], "--new-job", *argv[-2:], cwd=folder, env=env, check=False)
    assert submitted.returncode == 0, submitted.stderr
    assert "ran" in submitted.stdout
