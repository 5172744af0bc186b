"""torchrun's flags and its form without `--`, typed from habit, are mapped, not needed, or refused in one line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from ddpkit.cli import app, main, reader
from ddpkit.cli.foreign import SHORT, TORCHRUN
from ddpkit.cli.line import Line
from ddpkit.errors import UsageError

DDPKIT = Callable[..., subprocess.CompletedProcess[str]]
assert main.run is app.run  # with all commands
OWN = {"-n": True, "--nproc-per-node": True, "-N": True, "--nnodes": True, "-b": True, "-o": True, "--log-dir": True}


def plan(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    return tmp_path


# typed as for torchrun -> the same in ddpkit's words; "" is where the script's words begin
SAME = {
    "a script": ("--nproc-per-node 2 train.py --epochs 3", "--nproc-per-node 2 -- train.py --epochs 3"),
    "underscores": ("--nproc_per_node=2 --log_dir x train.py", "--nproc-per-node=2 --log-dir x -- train.py"),
    "the script's flags are its own": ("-n 2 -- train.py -n 5 --json -m", "-n 2 -- train.py -n 5 --json -m"),
    "a module": ("-n 2 -m pkg.train --epochs 3", "-n 2 -- -m pkg.train --epochs 3"),
    "a module, flags between": ("--module --nnodes 1 pkg.train -m", "--nnodes 1 -- -m pkg.train -m"),
    "a module behind the dashes": ("-m -- pkg.train", "-- -m pkg.train"),
    "a program": ("-n 2 --no_python hostname -s", "-n 2 -- hostname -s"),
    "a program by its path": ("-n2 ./run.sh x", "-n2 -- ./run.sh x"),
    "nodes, then a script": ("-b ssh node1 node2 train.py x", "-b ssh node1 node2 -- train.py x"),
    "the port": ("-b ssh node1 --master_port=29500 train.py", "-b ssh node1 -o master_port=29500 -- train.py"),
    "the address": (
        "-b pdsh node1 --master-addr 10.0.0.1 train.py",
        "-b pdsh node1 -o master_addr=10.0.0.1 -- train.py",
    ),
    "restarts": ("-b ssh node1 --max-restarts 3 train.py", "-b ssh node1 -o max_restarts=3 -- train.py"),
    "restarts here": ("--max-restarts=3 train.py", "-o starter=torchrun -o max_restarts=3 -- train.py"),
    "no restarts": ("--max-restarts 0 train.py", "-- train.py"),
    "a rank for each GPU": ("--nproc_per_node gpu train.py", "--nproc-per-node auto -- train.py"),
    "all that is not needed": (
        "--standalone --rdzv-id=1 --rdzv_backend c10d --rdzv-endpoint h:1 --node_rank 0 -r 3 --run-path train.py",
        "-- train.py",
    ),
    "ddpkit's own": ("-b slurm -o time=1 -- train.py --nnodes 3", "-b slurm -o time=1 -- train.py --nnodes 3"),
    "no script": ("-n 2", "-n 2"),
}


@pytest.mark.parametrize("name", SAME)
def test_torchrun_in_ddpkits_words(name: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    typed, wanted = (text.split() for text in SAME[name])
    script = typed[typed.index("--") + 1 :] if "--" in typed else None
    head = typed[: typed.index("--")] if "--" in typed else typed
    found = reader.translate(Line(["launch", *head], script, OWN), {"launch": OWN})
    behind = [] if found.script is None else ["--", *found.script]
    assert [*found.words[1:], *behind] == wanted


REFUSED = {
    "--node-rank 1 --nnodes 2 train.py": ("--node-rank 1: run ddpkit once", "ddpkit launch --nnodes 2 -b s"),
    "--node_rank=0 --nnodes=2 train.py": ("--node-rank 0: run ddpkit once", "ddpkit launch --nnodes=2 -b s"),
    "--standalone -b ssh node1 train.py": ("--standalone means this machine only", "remove --standalone"),
    "-b slurm --max-restarts 2 train.py": ("slurm-srun does not restart ranks", "--retries 2"),
    "-b slurm --numa-binding node train.py": ("srun binds the ranks", "--cpu-bind=cores"),
    "--numa-binding core-complex train.py": ("a NUMA node or a socket", "-o numa=node"),
    "--shutdown-timeout=30 train.py": ("SIGTERM and SIGKILL", "--grace SECONDS"),
    "--virtual_local_rank train.py": ("keeps its own LOCAL_RANK", "CUDA_VISIBLE_DEVICES"),
    "--nproc-per-nod 2 train.py": ("no option --nproc-per-nod", "ddpkit launch --nproc-per-node 2 train.py"),
    "--rdzv-backen c10d train.py": ("no option --rdzv-backen", "ddpkit launch --rdzv-backend c10d train.py"),
    "-p gpu train.py": ("-p is an option of backend slurm", "ddpkit launch -b slurm -p gpu train.py"),
    "--partition gpu train.py": (
        "--partition is an option of backend slurm",
        "launch -b slurm --partition gpu train.py",
    ),
    "-n 2 --learning-rate 3": ("no option --learning-rate", "the script's options come after `--`"),
    "-z": ("no option -z", "ddpkit launch --help"),
    "--nproc-per-node cpu train.py": ("-n cpu: a number of ranks", "-n "),
    "-n 2 -m": ("the name of a module is missing", "-- -m pkg.train"),
    "--max-restarts": ("--max-restarts needs a value", "--max-restarts VALUE"),
    "-n 2 train.py -- --epochs 3": ("train.py is in the place of a host", "ddpkit launch -n 2 -- train.py --epochs 3"),
}


@pytest.mark.parametrize("typed", REFUSED)
def test_refused_in_one_line(typed: str, project: Path, ddpkit: DDPKIT) -> None:
    message, hint = REFUSED[typed]
    done = ddpkit("launch", *typed.split())
    assert done.returncode == 121
    first, second = done.stderr.splitlines()
    assert message in first
    assert second.startswith("hint: ")
    assert hint in second
    assert not (project / "logs").exists()


MEANT = {
    "kill": "ddpkit stop",
    "list": "ddpkit ps",
    "run": "ddpkit launch --x",
    "launhc": "ddpkit launch --x",
    "train.py": "ddpkit launch train.py --x",
    "zzzz": "ddpkit --help",
}


@pytest.mark.parametrize(("word", "hint"), MEANT.items())
def test_a_command_by_another_name(word: str, hint: str, ddpkit: DDPKIT) -> None:
    done = ddpkit(word, "--x")
    assert (done.returncode, done.stdout) == (UsageError.exit_code, "")
    assert done.stderr == f"ddpkit: error: command {word!r} not found\nhint: {hint}\n"


def test_the_help_lists_every_command_once_and_uncut(ddpkit: DDPKIT) -> None:
    listed = [name for commands in app.COMMANDS.values() for name in commands]
    known = cast(Any, typer.main.get_command(app.app)).commands
    assert sorted(listed) == sorted(name for name in known if name != "test-distributed")  # another name of `test`
    assert {meant.split()[0] for meant in app._MEANT.values()} <= {*listed}
    assert not known.keys() & app._MEANT.keys()
    done = ddpkit("--help")
    for commands in app.COMMANDS.values():
        for name, words in commands.items():
            assert f"  {name:<11}  {words}\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_has_no_words_of_typer() -> None:
    known = cast(Any, typer.main.get_command(app.app)).commands
    for name, command in known.items():
        shown = command.get_help(command.make_context(name, [], resilient_parsing=True))
        assert shown.startswith(f"Usage: {name} [OPTIONS]"), shown
        assert "[[" not in shown, shown
        assert not re.search(r"<(str|list|int|bool)", shown), shown


def test_each_flag_that_is_not_needed_says_why(project: Path, ddpkit: DDPKIT) -> None:
    typed = (
        "--standalone --nproc_per_node=2 --nnodes=1 --master-port 29500 --rdzv_id 5 --tee 3 --dry-run --json train.py"
    )
    done = ddpkit("launch", *typed.split())
    shown = plan(done)
    assert shown["world_size"] == 2
    assert [proc["argv"][1:] for proc in shown["steps"][0]["procs"]] == [["train.py"]] * 2
    said = done.stderr.splitlines()
    assert [line.partition(": not needed; ")[0] for line in said] == [
        "ddpkit: --standalone", "ddpkit: --master-port 29500", "ddpkit: --rdzv-id 5", "ddpkit: --tee 3",
    ]  # fmt: skip


def test_the_backend_of_the_file_decides(project: Path, ddpkit: DDPKIT) -> None:
    (project / "ddpkit.toml").write_text('[profiles.far]\nbackend = "slurm"\n')
    done = ddpkit("launch", "--profile", "far", "--standalone", "train.py")
    assert done.returncode == 121
    assert "backend slurm-srun uses other nodes" in done.stderr


def test_a_starter_that_was_chosen_stays(project: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "-o", "starter=ranks", "--max-restarts", "2", "train.py")
    assert done.returncode == 121
    assert "max_restarts works with starter torchrun, not with ranks" in done.stderr


def test_what_torchrun_would_run_runs(project: Path, ddpkit: DDPKIT) -> None:
    (project / "train.py").write_text("import os, sys\nprint(os.environ['WORLD_SIZE'], sys.argv[1:], sep='|')\n")
    done = ddpkit("launch", "--nproc_per_node", "2", "--", "train.py", "--epochs", "3", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
    assert lines == ["2|['--epochs', '3', '--dry-run']"] * 2


def test_a_test_understands_them_as_well(project: Path, ddpkit: DDPKIT) -> None:
    done = ddpkit("test", "--nproc_per_node", "2", "--master_port=1", "--max-restarts", "3", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "2 ranks on 1 node" in done.stdout
    assert "--max-restarts 3: not needed; `ddpkit test` restarts no ranks" in done.stderr


@pytest.mark.torch
def test_every_flag_of_torchrun_is_known() -> None:
    run = pytest.importorskip("torch.distributed.run")
    names = {name for action in run.get_args_parser()._actions for name in action.option_strings} - {"-h", "--help"}
    known = {*TORCHRUN, *SHORT, *OWN}
    assert {name.replace("_", "-") for name in names} <= known
