"""What people type from habit means what it means to them, or is refused with the command line that does."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ddpkit.cli import app, main
from ddpkit.cli.foreign import LETTERS, SBATCH, Use, of_sbatch
from ddpkit.cli.line import Line
from ddpkit.errors import OWN_OPTIONS, PreflightError, UsageError
from ddpkit.launchers import registry
from ddpkit.launchers.nested import MIGRATION

TYPED = Callable[[str], "Typed"]


@dataclass(frozen=True)
class Typed:
    """What a command line came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> TYPED:
    """Types a command line in a folder with a script."""
    for name in ("train.py", "ok.py", "fail.py"):
        (tmp_path / name).write_text("print('ran')\n")
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Typed:
        assert main.run is app.run  # with all commands
        code = main.run(shlex.split(line))
        out, err = capfd.readouterr()
        return Typed(code, out, err)

    return run


# typed -> lines of the job script
SLURM = {
    "-b slurm -t 1:00:00": ["--time=1:00:00"],
    "-t 1:00:00 -b slurm": ["--time=1:00:00"],
    "--time 1:00:00 -b slurm": ["--time=1:00:00"],
    "-p gpu --backend=slurm": ["--partition=gpu"],
    "-b slurm --partition gpu --time 2:00:00 --gpus-per-node 8": [
        "--partition=gpu",
        "--time=2:00:00",
        "--gpus-per-node=8",
        "--ntasks-per-node=8",
    ],
    "-b slurm -A team -q high -C a100 -J base -w node1 -x node2 -c 4 -a 0-3": [
        "--account=team",
        "--qos=high",
        "--constraint=a100",
        "--job-name=base",
        "--nodelist=node1",
        "--exclude=node2",
        "--cpus-per-task=4",
        "--array=0-3",
    ],
    "-b slurm -d afterok:7": ["--dependency=afterok:7"],
    "-b slurm --mem=200G --reservation r --gres gpu:2 --exclusive": [
        "--mem=200G",
        "--reservation=r",
        "--gres=gpu:2",
        "--exclusive",
    ],
    "-b slurm --mail-type END --mail-user=me@x.org": ["--mail-type=END", "--mail-user=me@x.org"],
    "-b slurm -o sbatch=--comment=x --licenses a:1": ["--comment=x", "--licenses=a:1"],
    "-b slurm --requeue": ["--requeue"],
    "-b slurm --no-requeue": ["--no-requeue"],
    "-b slurm --nodes 2 --ntasks-per-node 4": ["--nodes=2", "--ntasks-per-node=4"],
    "-b slurm -N 2 --ntasks 8": ["--nodes=2", "--ntasks-per-node=4"],
    "-b slurm --ntasks 8 -N 2": ["--nodes=2", "--ntasks-per-node=4"],
    "-b slurm --name base": ["--job-name=base"],
    "-b slurm -w node1,node2 -n 2": ["--nodes=2", "--ntasks-per-node=2", "--nodelist=node1,node2"],
    "-b slurm --nodelist=node[1-3] --ntasks 6": ["--nodes=3", "--ntasks-per-node=2"],
    "-b slurm node1 node2 --ntasks 6": ["--nodes=2", "--ntasks-per-node=3"],
    "-b slurm node[1-3] --ntasks 6": ["--nodes=3", "--ntasks-per-node=2"],
    "-b slurm --ntasks 6 --hostfile hosts": ["--nodes=2", "--ntasks-per-node=3"],
    "-b slurm -o nodelist=node[1-2] -N 1": ["--nodes=1"],
    "-b slurm -w ./hosts": ["--nodes=1", "--nodelist=./hosts"],
    "-b slurm --wait --parsable --pty --label --unbuffered": ["--nodes=1"],
}


@pytest.mark.parametrize("line", SLURM)
def test_sbatch_options_are_flags_under_slurm(line: str, typed: TYPED) -> None:
    Path("hosts").write_text("node1\nnode2\n")
    done = typed(f"launch {line} --dry-run -- train.py")
    assert done.code == 0, done.err
    asked = [text.removeprefix("#SBATCH ") for text in done.out.splitlines() if text.startswith("#SBATCH ")]
    assert set(SLURM[line]) <= set(asked)


# typed -> the error, and the corrected command line
CORRECTED = {
    "launch -n 2 python train.py --x 1": ("`python` is a program, not a host", "ddpkit launch -n 2 -- train.py --x 1"),
    "launch -n 2 python -u train.py": ("`python` is a program, not a host", "ddpkit launch -n 2 -- train.py"),
    "launch python3 -m pkg.train 'a b'": ("`python3` is a program, not a host", "ddpkit launch -- -m pkg.train 'a b'"),
    "launch -b ssh node1 node2 python train.py": (
        "`python` is a program, not a host",
        "ddpkit launch -b ssh node1 node2 -- train.py",
    ),
    "launch torchrun train.py": ("torchrun is a launcher itself", "ddpkit launch -- train.py"),
    "launch torchrun --nproc-per-node 2 train.py": ("torchrun is a launcher", "ddpkit launch -n 2 -- train.py"),
    "launch 2 -- train.py": ("2 is in the place of a host", "ddpkit launch -n 2 -- train.py"),
    "launch 2 train.py": ("2 is in the place of a host", "ddpkit launch -n 2 train.py"),
    "launch cat train.py": ("`cat` is a program, not a host", "ddpkit launch -- cat train.py"),
    "launch -n 2 -- torchrun --nproc-per-node 2 ok.py": ("torchrun is a launcher", "ddpkit launch -n 2 -- ok.py"),
    "launch -- accelerate launch --num_processes 2 ok.py": (
        "accelerate launch is a launcher",
        MIGRATION,
    ),
    "launch -b slurm -r 3 -- train.py": ("srun's --relative", "ddpkit launch -b slurm --redirects 3 -- train.py"),
    "launch -b slurm -G 4 -- train.py": ("-G: ", "ddpkit launch -b slurm --gpus-per-node 4 -- train.py"),
    "launch -b slurm -N 2 -G 8 train.py": ("-G: ", "ddpkit launch -b slurm -N 2 --gpus-per-node 4 train.py"),
    "launch -b ssh node1 node2 -- torchrun --nnodes 2 --nproc_per_node 3 train.py": (
        "torchrun is a launcher",
        "ddpkit launch -b ssh node1 node2 -n 3 -- train.py",
    ),
    "launch -b slurm --gpus 4 -N 2 train.py": ("--gpus: ", "ddpkit launch -b slurm --gpus-per-node 2 -N 2 train.py"),
    "launch -b slurm --gpus-per-task 1 -N 2 -n 2 -- train.py": (
        "each rank must see all GPUs",
        "ddpkit launch -b slurm --gpus-per-node 2 -N 2 -n 2 -- train.py",
    ),
    "launch -b slurm --output a-%j --error b -- train.py": (
        "--error: the job has one output file",
        "ddpkit launch -b slurm --output a-%j -- train.py",
    ),
    "launch -b slurm --export=ALL,FOO=1,BAR=2 train.py": (
        "ddpkit chooses the variables of a job",
        "ddpkit launch -b slurm --env FOO=1 --env BAR=2 train.py",
    ),
    "launch --nodes=2 --ntasks=4 train.py": (
        "--nodes is an option of backend slurm",
        "ddpkit launch -b slurm --nodes=2 --ntasks=4 train.py",
    ),
    "launch -b ssh node1 node2 --nodes=2 --ntasks-per-node 2 --chdir /tmp train.py": (
        "no option --nodes",
        "ddpkit launch -b ssh node1 node2 -N 2 -n 2 --workdir /tmp train.py",
    ),
    "launch -b slurm --gpu 2 --cpus 4 --walltime=1:00 -- train.py": (
        "no option --gpu",
        "ddpkit launch -b slurm --gpus-per-node 2 --cpus-per-task 4 --time=1:00 -- train.py",
    ),
    "launch -b slurm --queue main --test-only -- train.py": (
        "no option --queue",
        "ddpkit launch -b slurm --partition main --dry-run -- train.py",
    ),
    "launch -b slurm --exact -o srun=--quiet --mpi pmix -N 2 --overlap train.py": (
        "--exact is an option of srun",
        "ddpkit launch -b slurm -o 'srun=--quiet --exact --mpi=pmix --overlap' -N 2 train.py",
    ),
    "launch -b slurm -n 1 --acctg-freq 30 -- train.py": (
        "--acctg-freq is an option of sbatch",
        "ddpkit launch -b slurm -n 1 -o sbatch=--acctg-freq=30 -- train.py",
    ),
    "launch -b slurm --jobid=5 -n 2 train.py": (
        "ddpkit uses the allocation of its own shell",
        "srun --jobid=5 --overlap --nodes=1 --ntasks=1 ddpkit launch -b slurm -n 2 train.py",
    ),
    "launch -b slurm --nosuch 3 train.py": ("no option --nosuch", "ddpkit backends slurm"),
    "launch slurm -N 2 -n 2 train.py": ("slurm is a backend, not a host", "ddpkit launch -b slurm -N 2 -n 2 train.py"),
    "launch -n 2 pdsh node1 node2 -- train.py": ("pdsh is a backend", "ddpkit launch -n 2 -b pdsh node1 node2 --"),
    "test slurm-torchrun -N 4": ("is a backend, not a host", "ddpkit test -b slurm-torchrun -N 4"),
    "bench local": ("local is a backend, not a host", "ddpkit bench -b local"),
    "launch -N 2-4 -b ssh node1 -- train.py": ("-N 2-4 is not", "ddpkit launch -N 2:4 -b ssh node1 -- train.py"),
    "launch -b slurm -N 2-4 -- train.py": ("requires one number of nodes", "ddpkit launch -b slurm -N 4 -- train.py"),
    "launch --nodes=2-4 -b slurm train.py": ("requires one number", "ddpkit launch -N 4 -b slurm train.py"),
    "launch -b slrum -n 2 -- train.py": ("backend 'slrum' not found", "ddpkit launch -b slurm -n 2 -- train.py"),
    "launch --backend=sssh node1 node2 train.py": (
        "backend 'sssh' not found",
        "ddpkit launch -b ssh node1 node2 -- train.py",
    ),
    "test -b sssh node1": ("backend 'sssh' not found", "ddpkit test -b ssh node1"),
    "backends sssh": ("backend 'sssh' not found", "ddpkit backends ssh"),
    "version": ("command 'version' not found", "ddpkit --version"),
    "-v": ("option -v not found", "ddpkit --version"),
    "sbatch train.py": ("command 'sbatch' not found", "ddpkit launch -b slurm train.py"),
    "sbatch -N 2 --time=1:00 train.py": ("'sbatch' not found", "ddpkit launch -b slurm -N 2 --time=1:00 train.py"),
    "launch -b ssh --master_port=99999 node1 train.py": (
        "-o master_port=99999 is not a port",
        "ddpkit launch -b ssh node1 -- train.py",
    ),
    "launch -b slurm --output=out.log -- train.py": (
        "the file name must contain the job id (%j)",
        "ddpkit launch -b slurm -o output=out-%j.log -- train.py",
    ),
    "launch -b slurm --output=logs/%x-%j.log -a 0-3 -n 2 -- train.py": (
        "no other pattern of SLURM",
        "ddpkit launch -b slurm -o output=logs/train-%A_%a.log -o array=0-3 -n 2 -- train.py",
    ),
    "squeue -u me": ("command 'squeue' not found", "ddpkit ps"),
    "sacct": ("command 'sacct' not found", "ddpkit ps"),
    "scancel 5": ("command 'scancel' not found", "ddpkit stop 5"),
    "cancel 5 6": ("command 'cancel' not found", "ddpkit stop 5 6"),
    "launch -b slurm --export ALL -- train.py": ("--export: ", "ddpkit launch -b slurm -- train.py"),
    "launch -b slurm --wrap 'python train.py'": ("--wrap: ", "ddpkit launch -b slurm -- python train.py"),
    "launch -b slurm -N 2 --gpus-per-node 8 -n 16 -- train.py": (
        "-n 16 is the number of ranks on each node, which has 8 GPUs",
        "ddpkit launch -b slurm -N 2 --gpus-per-node 8 --ntasks 16 -- train.py",
    ),
    "launch -b slurm -N 2 --ntasks 3 -- train.py": ("--ntasks 3: not a multiple", "--ntasks-per-node"),
    "launch -b slurm -o train.log -- train.py": (
        "sbatch's is --output",
        "ddpkit launch -b slurm --output train-%j.log -- train.py",
    ),
    "launch --partition gpu -- train.py": (
        "--partition is an option of backend slurm",
        "ddpkit launch -b slurm --partition gpu -- train.py",
    ),
    "launch -b ssh node1 --time 1 -- train.py": (
        "--time is an option of backend slurm",
        "ddpkit launch -b slurm node1 --time 1 -- train.py",
    ),
    "launch --mail-type END train.py": ("option of backend slurm", "ddpkit launch -b slurm --mail-type END train.py"),
    "launch --connect-timeout 9 train.py": (
        "option of backend ssh",
        "ddpkit launch -b ssh --connect-timeout 9 train.py",
    ),
    "launch -o partition=gpu -- train.py": (
        "backend 'local' has no option 'partition'",
        "ddpkit launch -o partition=gpu -b slurm -- train.py",
    ),
    "launch --preload torch -n 1 -- train.py": (
        "the form is --preload=MODULES",
        "ddpkit launch --preload=torch -n 1 -- train.py",
    ),
    "test --grace 3": ("ddpkit test has no option --grace; `ddpkit launch` has it", "ddpkit test"),
    "launch -b torchrun -- train.py": (
        "backend 'torchrun' not found",
        "ddpkit launch -b local --starter torchrun -- train.py",
    ),
    "launch -b srun -- train.py": ("backend 'srun' not found", "ddpkit launch -b slurm -- train.py"),
    "launch trian.py": ("script trian.py not found", "ddpkit launch -- train.py"),
    "launch -- trian.py --x 1": ("script trian.py not found", "ddpkit launch -- train.py --x 1"),
    "trian.py": ("command 'trian.py' not found", "ddpkit launch train.py"),
    "torchrun --nproc-per-node 2 train.py": (
        "command 'torchrun' not found",
        "ddpkit launch --nproc-per-node 2 train.py",
    ),
    "launch --num_processes 16 -- train.py": ("--num-processes is a flag of accelerate", MIGRATION),
    "launch --num_gpus=16 -- train.py": ("--num-gpus is a flag of deepspeed", MIGRATION),
    "launch -np 2 -- train.py": ("-np is a flag of mpirun", MIGRATION),
    "launch -H node1,node2 -- train.py": ("-H is a flag of mpirun", MIGRATION),
    "launch -b ssh n1:2 n2:2 train.py": ("2 is not the port of an SSH server", MIGRATION),
    "launch -b local -n 2 -o max_restarts=2 -- train.py --x": (
        "works with starter torchrun",
        "ddpkit launch -b local -n 2 -o max_restarts=2 --starter torchrun -- train.py --x",
    ),
    "launch --on node2 -- train.py": ("--on node2 ", "ddpkit launch --on node2 --detach -- train.py"),
    "launch --hostfile -b ssh": ("--hostfile needs a value, and -b follows", "ddpkit launch --hostfile VALUE -b ssh"),
    "launch --fold 0 -n 1 -- ok.py": (
        "no option --fold; it is a setting: fold",
        "in ddpkit.toml: fold = 0; for one launch: DDPKIT_FOLD=0 ddpkit launch -n 1 -- ok.py",
    ),
    "launch --on-end='mail me' ok.py": (
        "no option --on-end; it is a setting: on_end",
        "in ddpkit.toml: on_end = \"mail me\"; for one launch: DDPKIT_ON_END='mail me' ddpkit launch ok.py",
    ),
    "launch --no-header ok.py": (
        "no option --no-header; it is a setting: header",
        "in ddpkit.toml: header = false; for one launch: DDPKIT_HEADER=false ddpkit launch ok.py",
    ),
    "launch --env RANK=3 -- ok.py": (
        "--env RANK: ddpkit sets this variable itself, from -N and -n",
        "ddpkit launch -- ok.py",
    ),
    "launch --env MASTER_PORT=3 -- ok.py": (
        "--env MASTER_PORT: ddpkit sets",
        "ddpkit launch -- ok.py",
    ),
    "launch -b torchrun train.py": ("not found", "ddpkit launch -b local --starter torchrun -- train.py"),
    "launch -n 2 -b ssh -- train.py": ("backend ssh requires hosts", "launch -n 2 -b ssh HOST HOST -- train.py"),
    "launch -b ssh --nnodes 3 train.py --x": ("backend ssh requires", "--nnodes 3 HOST HOST HOST -- train.py --x"),
    "launch -b slurm -N 1:4 -- ok.py": ("backend slurm requires one number", "ddpkit launch -b slurm -N 4 -- ok.py"),
    "launch -n 2 --env WORLD_SIZE=4 -- ok.py": ("from -N and -n", "ddpkit launch -n 2 -- ok.py"),
    "launch --env=WORLD_SIZE=4 ok.py": ("from -N and -n", "ddpkit launch -- ok.py"),
    "launch -n 2 -e FOO=1 -- train.py": (
        "variables of the ranks are --env",
        "ddpkit launch -n 2 --env FOO=1 -- train.py",
    ),
    "launch -b slurm -eFOO=1 -- train.py": ("ranks are --env", "ddpkit launch -b slurm --env FOO=1 -- train.py"),
    "launch -- train.pyy --x 1": ("program train.pyy not found", "ddpkit launch -- train.py --x 1"),
    "launch -- nofile.py": ("script nofile.py not found", "hint: ls "),
    "launch -- nosuchprog": ("program nosuchprog not found", "hint: install nosuchprog, or give its path"),
    "launch -n 2 --retries 1 --spares 1 -- train.py": (
        "does not support --spares 1",
        "ddpkit launch -n 2 --retries 1 -- train.py",
    ),
}


@pytest.mark.parametrize("line", CORRECTED)
def test_an_error_has_the_corrected_command_line(line: str, typed: TYPED, tmp_path: Path) -> None:
    what, hint = CORRECTED[line]
    done = typed(line)
    assert (done.code, done.out) == (UsageError.exit_code, "")
    first, second = done.err.splitlines()
    assert what in first
    assert second.startswith("hint: ")
    assert hint in second
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("option", ["--env ", "--env=", "-e ", "-e"])
def test_a_corrected_command_line_shows_no_secret(option: str, typed: TYPED) -> None:
    """Errors stand in logs of others."""
    done = typed(f"launch -n two --env A=b {option}HF_TOKEN=hidden -- train.py --env HF_TOKEN=own")
    assert "hidden" not in done.err
    assert "--env A=b --env" in done.err
    assert done.err.endswith("-- train.py --env HF_TOKEN=own\n")


@pytest.mark.parametrize("line", [line for line, (_, hint) in CORRECTED.items() if "-- train.py" in hint])
def test_a_corrected_command_line_is_understood(line: str, typed: TYPED) -> None:
    """Of those without nodes; it can be copied as it is."""
    hint = typed(line).err.splitlines()[1].removeprefix("hint: ddpkit ").partition(", or ")[0]
    if " ssh " in hint or "slurm node1" in hint:
        pytest.skip("it needs nodes")
    done = typed(hint if "--dry-run" in hint else hint.replace("launch", "launch --dry-run", 1))
    assert done.code == 0, done.err


@pytest.mark.parametrize("command", ["bash -c 'torchrun ok.py; true'", "env A=1 mpirun python ok.py"])
def test_a_launcher_within_a_launcher_can_be_allowed(
    command: str, typed: TYPED, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert typed(f"launch --dry-run -- {command}").code == UsageError.exit_code
    monkeypatch.setenv("DDPKIT_ALLOW_NESTED", "1")
    allowed = typed(f"launch --dry-run -- {command}")
    assert allowed.code in (0, UsageError.exit_code)
    assert "is a launcher" not in allowed.err


def test_a_file_cannot_name_a_launcher_either(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('script = "torchrun ok.py"\n')
    done = typed("launch")
    assert done.code == UsageError.exit_code
    assert "torchrun is a launcher itself" in done.err
    assert "hint: ddpkit launch -- ok.py" in done.err


def test_a_file_cannot_set_a_rank_either(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text("[env]\nRANK = 3\n")
    done = typed("launch")
    assert done.code == UsageError.exit_code
    assert "ddpkit.toml: env.RANK: ddpkit sets this variable itself" in done.err


def test_a_nodelist_of_a_file_is_counted(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('[options]\nnodelist = "node1,node[3-4]"\n')
    assert "#SBATCH --nodes=3\n" in typed("launch -b slurm --dry-run -- train.py").out
    assert "#SBATCH --nodes=2\n" in typed("launch -b slurm -N 2 --dry-run -- train.py").out


def test_letters_of_torchrun_stay_where_no_scheduler_is(typed: TYPED) -> None:
    done = typed("launch -t 3 -r 3 --dry-run train.py")
    assert done.code == 0, done.err
    assert [line.partition(":")[0] for line in re.findall(r"ddpkit: (--.*)", done.err)] == ["--tee 3", "--redirects 3"]


@pytest.mark.parametrize("line", ["-b slurm -d -q --", "-b slurm -q -d", "-d -b slurm -q --"])
def test_letters_of_sbatch_without_a_value_are_ddpkits(line: str, typed: TYPED) -> None:
    done = typed(f"launch --dry-run {line} train.py")
    assert done.code == 0, done.err
    assert "--dependency" not in done.out
    assert "--qos" not in done.out


# after `launch`, without `--` -> the corrected command line
AFTER_THE_SCRIPT = {
    "ok.py --dry-run": "--dry-run -- ok.py",
    "-n 1 ok.py --dry_run": "-n 1 --dry-run -- ok.py",
    "ok.py --dryrun": "--dry-run -- ok.py",
    "ok.py --Dry-Run": "--dry-run -- ok.py",
    "ok.py --dry-run=true": "--dry-run=true -- ok.py",
    "ok.py \u2013\u2013dry\u2010run": "--dry-run -- ok.py",  # pasted from a page that made dashes of them
    "ok.py -n 2": "-n 2 -- ok.py",
    "ok.py -n2": "-n2 -- ok.py",
    "ok.py -n=2": "-n2 -- ok.py",
    "ok.py --nproc_per_node=2 --x 1": "--nproc-per-node=2 -- ok.py --x 1",
    "ok.py --x 1 -N 2 y": "-N 2 -- ok.py --x 1 y",
    "ok.py -N2": "-N2 -- ok.py",
    "ok.py -b slurm -p gpu -t 5 --x": "-b slurm -p gpu -t 5 -- ok.py --x",
    "ok.py -bslurm --partition gpu": "-bslurm --partition gpu -- ok.py",
    "-b slurm -N 1 -n 1 ok.py --dry-run": "-b slurm -N 1 -n 1 --dry-run -- ok.py",
    "-b slurm ok.py --time=1:00": "-b slurm --time=1:00 -- ok.py",
    "-b slurm ok.py --test-only": "-b slurm --test-only -- ok.py",
    "-b slurm ok.py --nodes 2": "-b slurm --nodes 2 -- ok.py",
    "-b slurm ok.py -w node1": "-b slurm -w node1 -- ok.py",
    "-b slurm ok.py -o partition=gpu": "-b slurm -o partition=gpu -- ok.py",
    "-b ssh node1 ok.py node2 --exclude node2": "-b ssh node1 --exclude node2 -- ok.py node2",
    "-b pdsh node1 ./run.sh -d": "-b pdsh node1 -d -- ./run.sh",
    "-b legacy node1 ok.py --sync": "-b legacy node1 --sync -- ok.py",
    "ok.py --env A=1 -q": "--env A=1 -q -- ok.py",
    "ok.py --starter torchrun": "--starter torchrun -- ok.py",
    "ok.py --preload": "--preload -- ok.py",
    "ok.py --no-preflight": "--no-preflight -- ok.py",
    "ok.py --help": "--help -- ok.py",
    "-m pkg.train -n 2": "-m -n 2 -- pkg.train",
    "--no-python ./run.sh --dry-run": "--no-python --dry-run -- ./run.sh",
    "-b no-such ok.py -n 2": "-b no-such -n 2 -- ok.py",
}


@pytest.mark.parametrize("line", AFTER_THE_SCRIPT)
def test_an_option_of_ddpkit_after_the_script_is_refused(
    typed: TYPED, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sbatch", "srun", "ssh", "pdsh"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), ":")
    before = sorted(tmp_path.rglob("*"))
    done = typed(f"launch {line}")
    assert (done.code, done.out) == (UsageError.exit_code, ""), done.err
    assert "comes after the script, and is an option of ddpkit\n" in done.err
    script = re.sub(r"^.*?(\S+\.py|\./run\.sh|pkg\.train)", r"\1", line)
    own = f"{line.removesuffix(script)}-- {script}"
    hint = done.err.partition("\nhint: ")[2]
    assert hint.startswith(f"ddpkit launch {AFTER_THE_SCRIPT[line]}; if it is the script's own: ddpkit launch "), hint
    assert shlex.split(hint.rpartition(": ")[2]) == ["ddpkit", "launch", *shlex.split(own)]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "line",
    [
        "-n 1 -- ok.py --dry-run -n 2 -N 2 -b slurm",
        "-n 1 ok.py --epochs 3 -x -1 - @x",
        "-n 1 ok.py --dry --number 2 -p gpu -t 5",  # none of backend local
        "-n 1 -- ok.py -- --dry-run",
    ],
)
def test_options_of_the_script_are_its_own(typed: TYPED, line: str, tmp_path: Path) -> None:
    (tmp_path / "ok.py").write_text("import sys; print('ran', *sys.argv[1:])\n")
    done = typed(f"launch {line}")
    words = line.partition("ok.py ")[2]
    assert (done.code, f"ran {words}\n" in done.out) == (0, True), (done.out, done.err)


def test_own_options_are_those_of_launch() -> None:
    group: Any = typer.main.get_command(app.app)
    flags = {flag for each in group.commands["launch"].params for flag in each.opts}
    assert flags | {"--preload", "--stage", "--starter"} >= OWN_OPTIONS


NUMBERS = {
    "logs --tail x": ("--tail x is not an integer", "ddpkit logs --tail 20"),
    "ps --last -3": ("--last -3: must be at least 1", "ddpkit ps --last 5"),
    "rm": ("no run given", "ddpkit rm --ended --dry-run"),
}


@pytest.mark.parametrize("line", NUMBERS)
def test_an_error_names_the_option_that_was_typed(line: str, typed: TYPED) -> None:
    if line.startswith("logs"):
        assert typed("launch -n 1 -- ok.py").code == 0
    assert typed(line).err == "ddpkit: error: {}\nhint: {}\n".format(*NUMBERS[line])


def test_n_of_several_nodes_says_how_it_is_read(typed: TYPED) -> None:
    done = typed("launch -b slurm -N 2 -n 4 -p main --dry-run -- train.py")
    assert done.code == 0
    assert typed("launch -b slurm -N 2 -n 4 --partition main --dry-run -- train.py").err == ""
    assert done.err == "ddpkit: -n 4: 4 ranks on each of 2 nodes; sbatch's -n is --ntasks\n"
    assert typed("launch -b slurm -N 2 --ntasks-per-node 4 --dry-run -- train.py").err == ""


def test_starter_and_preload_are_flags(typed: TYPED) -> None:
    assert "torch.distributed.run" in typed("launch --starter torchrun --dry-run -- train.py").out
    for flag in ("--preload", "--preload=torch", "-o preload=yes"):
        assert "torch" in typed(f"launch {flag} --dry-run --json -- train.py").out
    assert '"preload": []' in typed("launch --no-preload --dry-run --json -- train.py").out


def test_python_before_the_script_is_the_ranks_python(
    typed: TYPED, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "bin"  # Debian has no `python`
    own.mkdir()
    (own / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")
    done = typed("launch -n 1 --dry-run --json -- python -u train.py --x 1")
    assert done.code == 0, done.err
    ((proc,),) = [step["procs"] for step in json.loads(done.out)["steps"]]
    assert proc["argv"] == [str(own / "python"), "train.py", "--x", "1"]
    both = typed("launch --python python3 -- python train.py")
    assert both.code == UsageError.exit_code
    assert both.err.splitlines()[1] == "hint: ddpkit launch --python python3 -- train.py"
    absent = typed("launch -n 1 --dry-run -- python9 train.py --x 1")
    assert (absent.code, absent.err) == (
        UsageError.exit_code,
        "ddpkit: error: Python python9 not found\nhint: ddpkit launch -n 1 --dry-run -- train.py --x 1\n",
    )


def test_a_python_without_torch_is_named(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "bare").symlink_to(sys.executable)
    (tmp_path / "none.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    done = typed("launch -n 1 --python ./bare -- none.py")
    assert done.code == 1
    assert f"{tmp_path}/bare cannot import torch" in done.err
    assert "(--python chooses another)" in done.err
    assert f"{tmp_path}/bare -m pip install torch" in done.err


def test_quiet_and_name(typed: TYPED, tmp_path: Path) -> None:
    quiet = typed("launch -q -n 1 --name my-run -- ok.py")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.endswith("] ran\n")
    (folder,) = (tmp_path / "logs").iterdir()
    assert re.fullmatch(r"\d+-\d+-my-run-\w+", folder.name)
    assert "done in" in (folder / "all.log").read_text()


def test_tasks_are_divided_among_the_nodes_of_the_allocation(typed: TYPED, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[1-2]")
    done = typed("launch -b slurm --ntasks 4 --dry-run -- train.py")
    assert done.code == 0, done.err
    assert "backend slurm-srun, 4 ranks\n" in done.out


def test_letters_and_names_of_sbatch_are_known_once() -> None:
    options = {f"--{each.name.replace('_', '-')}" for each in registry.options(registry.load("slurm"))}
    assert set(LETTERS.values()) <= options | of_sbatch(Use.SAME, Use.PASSED, Use.REFUSED)
    assert options.isdisjoint(SBATCH)


def test_a_hint_of_a_check_is_a_whole_command(typed: TYPED) -> None:
    done = typed("test -n 1 --no-ranks --env WORLD_SIZE=3")
    assert "--env WORLD_SIZE=3 is the same for every rank" in done.out
    assert "    hint: ddpkit test -n 1 --no-ranks\n" in done.out


def test_a_program_in_the_place_of_a_host_is_put_after_the_dashes(typed: TYPED) -> None:
    done = typed("launch -b ssh 127.0.0.1:999 sha256sum")
    assert done.code == 123
    assert "sha256sum: its name does not resolve on this machine; it is a program\n" in done.err
    assert "    hint: ddpkit launch -b ssh 127.0.0.1:999 -- sha256sum\n" in done.err


def test_a_hint_in_a_list_of_problems_is_a_whole_command(capsys: pytest.CaptureFixture[str]) -> None:
    problem = "node1 failed the checks, and nothing was started:\n  node1: its own port\n    hint: "
    typed = Line(["launch", "-b", "ssh", "-o", "master_addr=n9", "node1"], ["train.py"])
    app._explain(PreflightError(f"{problem}remove -o master_addr=n9"), typed)
    assert capsys.readouterr().err.endswith("\n    hint: ddpkit launch -b ssh node1 -- train.py\n")
    from_a_file = Line(["launch", "-b", "ssh", "node1"], ["train.py"])
    app._explain(PreflightError(f"{problem}remove -o master_addr=n9"), from_a_file)
    assert capsys.readouterr().err.endswith("\n    hint: remove -o master_addr=n9\n")
