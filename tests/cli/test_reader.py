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

import pytest
from run_logs import all_lines

from ddpkit.cli import app, reader
from ddpkit.cli.line import LETTERS, SBATCH, SHORT, TORCHRUN, Line, Use, of_sbatch
from ddpkit.errors import OWN_OPTIONS, PreflightError, UsageError
from ddpkit.launchers import registry

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
        code = app.run(shlex.split(line))
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


def test_options_of_srun_reach_srun(typed: TYPED) -> None:
    done = typed("launch -b slurm --exact -o srun=--quiet --mpi pmix -N 2 --overlap --dry-run train.py")
    assert done.code == 0, done.err
    assert "--quiet --exact --mpi=pmix --overlap" in done.out


@pytest.mark.parametrize("line", SLURM)
def test_sbatch_options_are_flags_under_slurm(line: str, typed: TYPED) -> None:
    Path("hosts").write_text("node1\nnode2\n")
    done = typed(f"launch {line} --dry-run -- train.py")
    assert done.code == 0, done.err
    asked = [text.removeprefix("#SBATCH ") for text in done.out.splitlines() if text.startswith("#SBATCH ")]
    assert set(SLURM[line]) <= set(asked)


ROWS = [
    line.split(" | ")
    for line in (Path(__file__).parent / "refused.txt").read_text().splitlines()[3:]
    if line and not line.startswith("# ")
]


@pytest.fixture
def project(tmp_path: Path, typed: TYPED, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, and programs of schedulers that must not be called."""
    options, programs = "#!/bin/bash\n#SBATCH -N 2\n", tmp_path / "bin"
    (tmp_path / "own.sbatch").write_text(f"{options}srun python train.py\n")
    (tmp_path / "own.sbatch").chmod(0o755)
    (tmp_path / "my.sbatch").write_text(f"{options}./run.sh\n")
    (tmp_path / "job.sh").write_text(f"{options}OMP_NUM_THREADS=1 torchrun train.py\n")
    (tmp_path / "starts.sh").write_text("cd . || exit 1\ntorchrun --nproc-per-node 2 train.py --lr 3\n")
    (tmp_path / "values.sh").write_text("#!/usr/bin/env bash\naccelerate launch train.py $LR\n")
    (tmp_path / "values.sh").chmod(0o755)
    for name in ("notes.txt", "data.txt", "pkg/trainer.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    programs.mkdir()
    for name in ("sbatch", "srun", "ssh", "pdsh"):
        unknown = (
            "case $2 in --version) echo \"unrecognized option '$1'\" >&2; exit 1 ;; esac\n" if name == "sbatch" else ""
        )
        (programs / name).write_text(f"#!/bin/sh\n{unknown}touch {tmp_path}/called\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), ":")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("line", "what", "hint"), ROWS, ids=[row[0] for row in ROWS])
def test_refused(line: str, what: str, hint: str, typed: TYPED, tmp_path: Path) -> None:
    """A corrected command line that needs no node is understood as it is."""
    before = sorted(tmp_path.rglob("*"))
    done = typed(line)
    first, second = done.err.splitlines()
    assert (done.code, done.out) == (UsageError.exit_code, "")
    assert first.startswith("ddpkit: error: ")
    assert what in first
    assert second.startswith("hint: ")
    assert hint in second
    assert sorted(tmp_path.rglob("*")) == before
    corrected = second.removeprefix("hint: ddpkit ")
    if re.match(r"launch (?!.* (ssh|pdsh) ).*-- train\.py", corrected):
        again = typed(corrected if "--dry-run" in corrected else corrected.replace("launch", "launch --dry-run", 1))
        assert again.code == 0, again.err


@pytest.mark.parametrize("option", ["--env ", "--env=", "-e ", "-e"])
def test_a_corrected_command_line_shows_no_secret(option: str, typed: TYPED) -> None:
    """Errors stand in logs of others."""
    done = typed(f"launch -n two --env A=b {option}HF_TOKEN=hidden -- train.py --env HF_TOKEN=own")
    assert "hidden" not in done.err
    assert "--env A=b --env" in done.err
    assert done.err.endswith("-- train.py --env 'HF_TOKEN=***'\n")


TOKEN = "hf_" + "AbCdEfGh" * 4


@pytest.mark.parametrize(
    ("line", "file"),
    [
        (f"launch ok.py --token {TOKEN} --dry-run", ""),
        (f"launch -n two -- ok.py --api-key {TOKEN[3:]}", ""),
        (f"launch -n two -- ok.py --api-key={TOKEN[3:]}", ""),
        (f"launch --envv X={TOKEN} -- ok.py", ""),
        (f"launch -b ssh me:{TOKEN[3:]}@node1 -- ok.py", ""),
        (f"launch -b ssh https://me:{TOKEN[3:]}@node1 -- ok.py", ""),
        ("launch -- ok.py", f"[env]\nWANDB_API_KEY = {TOKEN[3:]}\n"),
        ("launch -- ok.py", f"env = {{ HF_TOKEN = {TOKEN} }}\n"),
        ("launch", f"script = ['ok.py', '--token', '{TOKEN}', 3]\n"),
        ("launch -b slurm -- ok.py", f"options = {{ via = 'me:{TOKEN[3:]}@login' }}\n"),
        ("launch -- ok.py", f"nnodes = '{TOKEN}'\n"),
    ],
    ids=lambda text: text.replace(TOKEN[3:], "T"),
)
def test_an_error_shows_no_secret(line: str, file: str, typed: TYPED, tmp_path: Path) -> None:
    """Whatever was mistyped: errors stand in logs of jobs."""
    (tmp_path / "ok.py").touch()
    (tmp_path / "ddpkit.toml").write_text(file)
    done = typed(line)
    assert done.code == UsageError.exit_code, done.err
    assert "ddpkit: error: " in done.err
    assert TOKEN[3:] not in done.out + done.err


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


def test_settings_of_a_host_that_slurm_does_not_use_are_named(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('[host.n2]\nslots = 1\nenv = { NCCL_SOCKET_IFNAME = "ib0" }\n')
    note = "ddpkit: [host.n2] in ddpkit.toml: env of a host is for -b ssh and pdsh\n"
    assert note in typed("launch -b slurm n1 n2 -n 1 --dry-run -- train.py").err
    assert "[host." not in typed("launch -b slurm n1 n3 -n 1 --dry-run -- train.py").err


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
    group = app.whole_program()
    flags = {flag for each in group.commands["launch"].params for flag in each.opts}
    assert flags | {"--preload", "--stage", "--starter"} >= OWN_OPTIONS


def test_an_error_names_the_option_that_was_typed(typed: TYPED) -> None:
    assert typed("launch -n 1 -- ok.py").code == 0
    error = "ddpkit: error: --tail x is not an integer\nhint: ddpkit logs --tail 20\n"
    assert typed("logs --tail x").err == error


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


def test_a_python_for_which_pip_installs_nothing_gets_an_environment(typed: TYPED, tmp_path: Path) -> None:
    """As the system's on Debian, Fedora and Homebrew, and those of uv (PEP 668)."""
    library = Path(os.__file__).parent
    own = tmp_path / "home/lib" / library.name
    own.mkdir(parents=True)
    for each in library.iterdir():
        (own / each.name).symlink_to(each)
    (own / "EXTERNALLY-MANAGED").touch()
    python = tmp_path / "managed"
    program = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    python.write_text(f'#!/bin/sh\nPYTHONHOME="{tmp_path}/home" exec "{program}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "none.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    done = typed("launch -n 1 --python ./managed -- none.py")
    hint = f"{python} -m venv ~/torch-venv && ~/torch-venv/bin/pip install torch, then --python ~/torch-venv/bin/python"
    assert f"hint: {hint}\n" in done.err


def test_quiet_and_name(typed: TYPED, tmp_path: Path) -> None:
    quiet = typed("launch -q -n 1 --name my-run -- ok.py")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out.endswith("] ran\n")
    (folder,) = (tmp_path / "logs").iterdir()
    assert re.fullmatch(r"\d+-\d+-my-run-\w+", folder.name)
    assert "done in" in all_lines(folder)


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


OWN = {"-n": True, "--nproc-per-node": True, "-N": True, "--nnodes": True, "-b": True, "-o": True, "--log-dir": True}
# typed as for torchrun -> the same in ddpkit's words; "" is where the script's words begin
SAME = {
    "a script": ("--nproc-per-node 2 train.py --epochs 3", "--nproc-per-node 2 -- train.py --epochs 3"),
    "a value after =": ("-n=2 train.py", "-n2 -- train.py"),
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
@pytest.mark.usefixtures("typed")
def test_torchrun_in_ddpkits_words(name: str) -> None:
    words, wanted = (text.split() for text in SAME[name])
    script = words[words.index("--") + 1 :] if "--" in words else None
    head = words[: words.index("--")] if "--" in words else words
    found = reader.translate(Line(["launch", *head], script, OWN), {"launch": OWN})
    behind = [] if found.script is None else ["--", *found.script]
    assert [*found.words[1:], *behind] == wanted


def test_each_flag_that_is_not_needed_says_why(typed: TYPED) -> None:
    words = (
        "--standalone --nproc_per_node=2 --nnodes=1 --master-port 29500 --rdzv_id 5 --tee 3 --dry-run --json train.py"
    )
    done = typed(f"launch {words}")
    shown = json.loads(done.out)
    assert shown["world_size"] == 2
    assert [proc["argv"][1:] for proc in shown["steps"][0]["procs"]] == [["train.py"]] * 2
    said = done.err.splitlines()
    assert [line.partition(": not needed; ")[0] for line in said] == [
        "ddpkit: --standalone", "ddpkit: --master-port 29500", "ddpkit: --rdzv-id 5", "ddpkit: --tee 3",
    ]  # fmt: skip


def test_the_backend_of_the_file_decides(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text('[profiles.far]\nbackend = "slurm"\n')
    done = typed("launch --profile far --standalone train.py")
    assert done.code == 121
    assert "backend slurm-srun uses other nodes" in done.err


def test_a_starter_that_was_chosen_stays(typed: TYPED) -> None:
    done = typed("launch -o starter=ranks --max-restarts 2 train.py")
    assert done.code == 121
    assert "max_restarts works with starter torchrun, not with ranks" in done.err


def test_what_torchrun_would_run_runs(typed: TYPED, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, sys\nprint(os.environ['WORLD_SIZE'], sys.argv[1:], sep='|')\n")
    done = typed("launch --nproc_per_node 2 -- train.py --epochs 3 --dry-run")
    assert done.code == 0, done.err
    assert [line.partition("] ")[2] for line in done.out.splitlines()] == ["2|['--epochs', '3', '--dry-run']"] * 2


def test_a_test_understands_them_as_well(typed: TYPED) -> None:
    done = typed("test --nproc_per_node 2 --master_port=1 --max-restarts 3 --dry-run")
    assert done.code == 0, done.err
    assert "2 ranks on 1 node" in done.out
    assert "--max-restarts 3: not needed; `ddpkit test` restarts no ranks" in done.err


@pytest.mark.torch
def test_every_flag_of_torchrun_is_known() -> None:
    run = pytest.importorskip("torch.distributed.run")
    names = {name for action in run.get_args_parser()._actions for name in action.option_strings} - {"-h", "--help"}
    known = {*TORCHRUN, *SHORT, *OWN}
    assert {name.replace("_", "-") for name in names} <= known
