"""The command line: every bad input has its own message and exit code 121 and starts nothing; settings have sources."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT

import ddpkit as package
from ddpkit import config
from ddpkit.cli import app, setup
from ddpkit.node.calls.gpus import numbers


def test_more_ranks_than_gpus(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script("print('ran')", "train.py")
    eight = {"DDPKIT_GPUS": "8"}
    assert "this machine has 8 visible GPUs" in ddpkit("launch", "-n", "9", env=eight).stderr
    two = {**eight, "CUDA_VISIBLE_DEVICES": "4,6"}
    done = ddpkit("launch", "-n", "3", env=two)
    assert done.returncode == 121
    assert "this machine has 2 visible GPUs" in done.stderr
    assert json.loads(ddpkit("launch", "--dry-run", "--json", env=two).stdout)["world_size"] == 2
    split = ddpkit("launch", "-n", "2", env={**eight, "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"})
    assert split.returncode == 121
    assert "1 visible GPU, one per rank (MIG is on, and a process sees one instance: one rank)" in split.stderr
    assert (
        "MIG" not in ddpkit("launch", "-n", "2", env={"DDPKIT_GPUS": "1", "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}).stderr
    )
    hidden = ddpkit("launch", "-n", "3", "--env", "CUDA_VISIBLE_DEVICES=", env=two)
    assert hidden.returncode == 0, hidden.stderr
    assert hidden.stdout.count("] ran") == 3


TOML = {
    "syntax": (
        "backend = 'local'\nnproc_per_node = = 2\n",
        r"ddpkit\.toml:2: invalid TOML: .* at column 18: nproc_per_node = = 2$",
    ),
    "unknown key": ("bakend = 'local'\n", r"ddpkit\.toml:1: unknown key 'bakend'$"),
    "unknown key in a profile": ("[profiles.a]\nopts = 1\n", r"ddpkit\.toml:2: unknown key 'opts' in \[profiles\.a\]$"),
    "a profile in a profile": (
        "[profiles.a]\nprofiles = 1\n",
        r"ddpkit\.toml:2: unknown key 'profiles' in \[profiles\.a\]$",
    ),
    "wrong kind": ("hosts = 'node1'\n", r"ddpkit\.toml:1: hosts = 'node1' is not valid$"),
    "wrong number": ("nproc_per_node = 0\n", r"ddpkit\.toml:1: nproc_per_node = 0: must be at least 1$"),
    "wrong script": ("script = []\n", r"ddpkit\.toml:1: script = \[\] is not valid$"),
    "wrong option": ("[options]\nstater = 'ranks'\n", r"no option 'stater'"),
    "wrong env": ("[env]\nA = []\n", r"ddpkit\.toml:1: env = \.\.\. is not valid$"),
    "profile in place of profiles": ("grace = 1\n\n[profile.fast]\ngrace = 2\n", r"ddpkit\.toml:3: \[profile\.fast\] "),
    "a profile without profiles": ("[fast]\ngrace = 2\n", r"ddpkit\.toml:1: unknown key 'fast'$"),
    "wrong value in a profile": ("[profiles.a]\n\ngrace = -1\n", r"ddpkit\.toml:3: grace = -1: must be from 0"),
    "wrong key of a host": ("[host.n1]\nslot = 2\n", r"ddpkit\.toml:2: unknown key 'slot' in \[host\.n1\]$"),
}


@pytest.mark.parametrize("name", TOML)
def test_bad_file(name: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    text, message = TOML[name]
    script("", "train.py")
    (tmp_path / "ddpkit.toml").write_text(text)
    done = ddpkit("launch")
    assert done.returncode == 121
    assert re.search(message, done.stderr.splitlines()[0])
    assert not (tmp_path / "logs").exists()


FILE = """
nproc_per_node = 3
grace = 4
script = ["from_file.py", "a b"]
env = { A = "file", B = "file" }
[profiles.small]
nproc_per_node = 2
options = { starter = "torchrun" }
env = { B = "profile" }
"""


def sources(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[object, str]]:
    assert done.returncode == 0, done.stderr
    return {row["name"]: (row["value"], row["source"]) for row in json.loads(done.stdout)["settings"]}


def test_sources_in_their_order(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text(FILE)
    env = {"DDPKIT_GRACE": "5", "DDPKIT_LOG_DIR": "elsewhere"}
    args = ["launch", "--explain", "--json", "--profile", "small"]
    found = sources(ddpkit(*args, "--grace", "6", "--env", "A=flag", env=env))
    assert found["backend"] == ("local", "default")
    assert found["nproc_per_node"] == (2, "profile small (ddpkit.toml)")
    assert found["grace"] == (6.0, "flag")
    assert found["log_dir"] == ("elsewhere", "DDPKIT_LOG_DIR")
    assert found["script"] == (["from_file.py", "a b"], "ddpkit.toml")
    assert found["options.starter"] == ("torchrun", "profile small (ddpkit.toml)")
    assert found["env.A"] == ("flag", "flag")
    assert found["env.B"] == ("profile", "profile small (ddpkit.toml)")
    assert sources(ddpkit(*args, env=env))["grace"] == (5.0, "DDPKIT_GRACE")
    assert sources(ddpkit(*args))["grace"] == (4.0, "ddpkit.toml")


def test_pyproject_holds_settings_too(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\nx = 1\n[tool.ddpkit]\nnproc_per_node = 2\n")
    found = sources(ddpkit("launch", "--explain", "--json"))
    assert found["nproc_per_node"] == (2, "pyproject.toml")


def test_the_file_is_found_above(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """A script of the file, its arguments and its paths belong to the directory of the file."""
    script("import os, sys; print('in', os.getcwd(), *sys.argv)", "train.py")
    settings = "script = 'train.py --x data'\nlog_dir = 'runs'\nhostfile = 'hosts.txt'\npython = 'bin/python'\n"
    (tmp_path / "ddpkit.toml").write_text(settings)
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    found = sources(ddpkit("launch", "--explain", "--json", cwd=below))
    assert found["script"] == (["train.py", "--x", "data"], "../../ddpkit.toml")
    assert found["workdir"] == (str(tmp_path), "directory of ../../ddpkit.toml")
    assert found["log_dir"][0] == f"{tmp_path}/runs"
    assert found["hostfile"][0] == f"{tmp_path}/hosts.txt"
    assert found["python"][0] == f"{tmp_path}/bin/python"
    assert sources(ddpkit("launch", "--explain", "--json", "--workdir", ".", cwd=below))["workdir"] == (".", "flag")
    (tmp_path / "ddpkit.toml").write_text("\n".join(settings.splitlines()[:2]))
    done = ddpkit("launch", "-n", "1", cwd=below)
    assert f"] in {tmp_path} train.py --x data\n" in done.stdout, done.stderr
    assert len(list(tmp_path.glob("runs/*/run.json"))) == 1
    assert list(below.iterdir()) == []


def test_the_search_above_ends(tmp_path: Path) -> None:
    """At the repository, at the home directory, and where every user may write."""

    def looked(directory: Path) -> list[Path]:
        return list(dict.fromkeys(path.parent for path, _ in config.find_file(directory)))

    (tmp_path / "repo/.git").mkdir(parents=True)
    below = tmp_path / "repo/a/b"
    below.mkdir(parents=True)
    assert looked(below) == [below, below.parent, tmp_path / "repo"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path / "repo"))
        assert looked(below) == [below, below.parent]
        assert looked(tmp_path / "repo") == [tmp_path / "repo"]
        (tmp_path / "home").symlink_to("repo")  # as of sites that move homes to another disk
        patch.setenv("HOME", str(tmp_path / "home"))
        assert looked(below) == [below, below.parent]
        assert looked(tmp_path / "home/a") == [tmp_path / "home/a"]
    (tmp_path / "repo/a").chmod(0o1777)
    assert looked(below) == [below]


def test_explain_shows_no_python(ddpkit: DDPKIT, tmp_path: Path) -> None:
    text = ddpkit("launch", "--explain", "--", "train.py", "a b").stdout
    assert not re.search(r"None|True|False|\[|\(", text), text
    assert "train.py 'a b'" in text
    assert re.search(r"^retry_codes +75 +default$", text, re.MULTILINE)
    assert "settings file: none found in this directory or above it\n" in text
    (tmp_path / "ddpkit.toml").write_text("")
    done = ddpkit("launch", "--explain", "--json")
    shown = json.loads(done.stdout)
    assert (shown["schema"], shown["file"]) == ("ddpkit.settings/1", str(tmp_path / "ddpkit.toml"))
    rows = sources(done)
    assert rows["nnodes"] == rows["hosts"] == rows["hostfile"] == (None, "default")
    assert rows["preflight"] == (True, "default")


MISTYPED = {
    "DDPKIT_NPROC": "did you mean 'DDPKIT_NPROC_PER_NODE'?",
    "DDPKIT_HSTS": "did you mean 'DDPKIT_HOSTS'?",
    "DDPKIT_OPTIONS": "options has no variable; use -o KEY=VALUE",
    "DDPKIT_X": "ddpkit launch --explain lists the settings",
}


@pytest.mark.parametrize("name", MISTYPED)
def test_a_mistyped_variable_is_reported(name: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("launch", "--explain", env={name: "2"})
    assert done.returncode == 0
    assert done.stderr == f"ddpkit: warning: {name} has no effect: {MISTYPED[name]}\n"


def test_no_variable_of_ddpkit_itself_is_reported(ddpkit: DDPKIT, script: SCRIPT) -> None:
    script(
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'ddpkit', 'launch', '--explain'], check=True)"
    )
    done = ddpkit("launch", "-n", "1", "--", "job.py")
    assert done.returncode == 0
    assert "no effect" not in done.stdout + done.stderr
    sources = [path.read_text() for path in (Path(package.__file__).parent).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r"(?<![A-Z_])DDPKIT_[A-Z_]+[A-Z](?![A-Z_*])", text)}
    assert config.unknown_variables(dict.fromkeys(names - {"DDPKIT_NAME"}, "")) == []


def test_secrets_do_not_show(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    """Nor in a dry run, nor in the list of settings, nor in a process list, nor in the record; but the rank has it."""
    value = secrets.token_hex(8)  # the list of processes has those of other tests as well
    script(
        f"import os, subprocess\nassert os.environ['HF_TOKEN'] == '{value}'\n"
        "print(subprocess.check_output(['ps', 'axww', '-o', 'args'], text=True))"
    )
    secret = {"HF_TOKEN": value}
    for more in (["--dry-run"], ["--dry-run", "--json"], ["--explain"], ["--explain", "--json"], []):
        done = ddpkit("launch", "-n", "1", "--env", "HF_TOKEN", *more, "--", "job.py", env=secret)
        assert done.returncode == 0, done.stderr
        assert value not in done.stdout + done.stderr
    for path in tmp_path.glob("logs/*/*"):
        assert value not in path.read_text()


def test_a_module_and_a_program_run(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    script("import os, sys; print(__spec__.name, sys.argv[1:], os.environ['RANK'])", "pkg/train.py")
    assert "] pkg.train ['--x', '1'] 0\n" in ddpkit("launch", "-n", "1", "--", "-m", "pkg.train", "--x", "1").stdout
    program = tmp_path / "train.sh"
    program.write_text('#!/bin/sh\necho "$RANK of $WORLD_SIZE: $*"\n')
    program.chmod(0o755)
    assert "] 1 of 2: a b\n" in ddpkit("launch", "-n", "2", "--", "./train.sh", "a", "b").stdout
    assert "] 0 of 1\n" in ddpkit("launch", "-n", "1", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE").stdout


def test_every_rank_has_the_whole_set(ddpkit: DDPKIT, script: SCRIPT) -> None:
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS"
    script(f"import os; print('is', *(os.environ[n] for n in '{names}'.split()))")
    stale = {"RANK": "7", "TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "elsewhere", "LOCAL_RANK": "5"}
    done = ddpkit("launch", "-n", "2", "--", "job.py", env=stale)
    rows = sorted(line.split()[3:] for line in done.stdout.splitlines())
    cores = len(os.sched_getaffinity(0))
    for rank, row in enumerate(rows):
        assert row[:6] == [str(rank), "2", str(rank), "2", "0", "127.0.0.1"]
        assert 20000 <= int(row[6]) < 65536
        assert row[7] == str(max(1, cores // 2))


def test_no_rank_here_takes_itself_for_a_task_of_slurm(ddpkit: DDPKIT, script: SCRIPT) -> None:
    """What a job script has, where SLURM_PROCID is 0: libraries that read it would see rank 0 in every rank."""
    script("import os; print('is', *sorted(name for name in os.environ if name.startswith('SLURM_')))")
    job = {"SLURM_JOB_ID": "123", "SLURM_JOB_NODELIST": "node1", "SLURMD_NODENAME": "node1"}
    task = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    done = ddpkit("launch", "-b", "local", "-n", "2", "--", "job.py", env={**job, **task})
    assert done.returncode == 0, done.stderr
    rows = [line.split()[3:] for line in done.stdout.splitlines()]
    assert rows == [["SLURM_JOB_ID", "SLURM_JOB_NODELIST"]] * 2, done.stdout + done.stderr


def test_the_record_and_the_json_say_how_it_ended(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    script("import sys; print('a line'); sys.exit(7)")
    done = ddpkit("launch", "-n", "1", "--json", "--", "job.py")
    assert done.returncode == 7
    record = json.loads(done.stdout)
    assert "] a line" in done.stderr
    assert (record["state"], record["exit_code"]) == ("failed", 7)
    assert "rank 0 on " in record["verdict"]
    kept = json.loads((Path(record["folder"]) / "run.json").read_text())
    assert {name: kept[name] for name in record if name in kept and name != "failure"}.items() <= record.items()
    assert kept["failure"]["code"] == record["failure"]["exit_code"] == 7


def test_the_run_finds_its_script_by_default(ddpkit: DDPKIT, script: SCRIPT) -> None:
    done = ddpkit("launch")
    assert done.returncode == 121
    assert "no script given, and train.py not found in" in done.stderr
    script("print('the default')", "train.py")
    assert "] the default" in ddpkit("launch").stdout


def test_workdir_and_python(ddpkit: DDPKIT, tmp_path: Path) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    (folder / "job.py").write_text("import os, sys; print(os.getcwd(), sys.executable)")
    done = ddpkit("launch", "-n", "1", "--workdir", "with blank", "--python", sys.executable, "--", "job.py")
    assert f"] {folder} {sys.executable}\n" in done.stdout
    assert (tmp_path / "logs").is_dir()


def test_a_rank_that_cannot_start(ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("#!/nowhere/interpreter\n")
    bad.chmod(0o755)
    done = ddpkit("launch", "-n", "2", "--", "./bad")
    assert done.returncode == 127, done.stderr
    assert "cannot start ./bad" in done.stderr
    assert "the program was not found" in done.stderr


def test_options_of_a_backend_fit_a_narrow_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    monkeypatch.setattr(setup, "rich_out", lambda: True)
    for columns, head in (("80", ["option", "what it does"]), ("140", ["option", "values", "default", "what it does"])):
        monkeypatch.setenv("COLUMNS", columns)
        assert app.run(["backends", "ssh"]) == 0
        shown = capsys.readouterr().out
        assert re.split("  +", shown.splitlines()[2]) == head
        fact = "[true | false; default: false]" if columns == "80" else "true | false"
        assert fact in next(line for line in shown.splitlines() if line.startswith("--accept-new-host-keys"))


def test_backends_are_listed_with_their_options(ddpkit: DDPKIT) -> None:
    listed = json.loads(ddpkit("backends", "--json").stdout)["backends"]
    assert "local" in [backend["name"] for backend in listed]
    shown = ddpkit("backends").stdout
    for backend in listed:
        assert backend["summary"]
        assert backend["needs"]
        assert all(option["doc"] for option in backend["options"])
        assert backend["name"] in shown
    assert shown.splitlines()[1].startswith("local (default) ")
    assert "\nssh (ssh-torchrun-auto) " in shown
    shown = ddpkit("backends", "local").stdout
    for option in next(each for each in listed if each["name"] == "local")["options"]:
        assert f"--{option['name'].replace('_', '-')} " in shown
    assert "-p, --partition " in ddpkit("backends", "slurm").stdout
    assert "\nslurm (slurm-srun, default) " in ddpkit("backends", env={"DDPKIT_BACKEND": "slurm"}).stdout.replace(
        "backend ", "", 1
    )
    assert ddpkit("backends", "locla").returncode == 121


def test_env_shows_where_values_come_from(ddpkit: DDPKIT) -> None:
    torch_set = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    found = json.loads(ddpkit("env", "--json", env={**torch_set, "LOCAL_WORLD_SIZE": "2"}).stdout)
    assert (found["env"]["rank"], found["env"]["source"], found["env"]["origin"]["rank"]) == (3, "torch", "RANK")
    assert numbers(found["cpus"]) == os.sched_getaffinity(0)
    alone = ddpkit("env", "--explain")
    assert alone.returncode == 0
    assert "single" in alone.stdout
    broken = ddpkit("env", env={"RANK": "3"})
    assert broken.returncode == 125
    assert "hint: " in broken.stderr


def test_the_help_lists_every_command_once_and_uncut(ddpkit: DDPKIT) -> None:
    listed = [name for commands in app.COMMANDS.values() for name in commands]
    group = app.whole_program()
    known = group.commands
    assert sorted(listed) == sorted(name for name in known if name != "test-distributed")  # another name of `test`
    assert {meant.split()[0] for meant in app._MEANT.values()} <= {*listed}
    assert not known.keys() & app._MEANT.keys()
    done = ddpkit("--help")
    for commands in app.COMMANDS.values():
        for name, words in commands.items():
            assert f"  {name:<11}  {words}\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_help_has_no_words_of_typer() -> None:
    group = app.whole_program()
    for name, command in group.commands.items():
        shown = command.get_help(command.make_context(name, [], resilient_parsing=True))
        assert shown.startswith(f"Usage: {name} [OPTIONS]"), shown
        assert "[[" not in shown, shown
        assert not re.search(r"<(str|list|int|bool)", shown), shown


def test_help_shows_usage_groups_and_examples(ddpkit: DDPKIT) -> None:
    text = ddpkit("launch", "--help").stdout
    assert text.startswith("Usage: ddpkit launch [OPTIONS] [HOST]... [--] SCRIPT [ARG]...\n")
    for title in (
        "Where:",
        "Ranks:",
        "Before it runs:",
        "While it runs:",
        "Leave it running:",
        "Options:",
        "Examples:",
    ):
        assert f"\n{title}\n" in text
    assert "\n  ddpkit launch -n 2 -- train.py --epochs 3\n" in text
    assert "Everything after `--` belongs to the script" in text
    assert max(map(len, text.splitlines())) <= 80


HEAVY = ("torch", "fabric", "paramiko", "sklearn", "numpy", "invoke", "pydantic")


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        ["backends"],
        ["env"],
        ["launch", "--help"],
        ["launch", "--", "job.py"],
        ["ps"],
        ["status", "logs/run"],
        ["logs", "logs/run"],
        ["stop", "logs/run"],
        ["attach", "logs/run"],
    ],
    ids=str,
)
def test_heavy_packages_are_not_imported(args: list[str], script: SCRIPT, tmp_path: Path, ddpkit: DDPKIT) -> None:
    script("")
    if "logs/run" in args:
        assert ddpkit("launch", "-n", "1", "--", "job.py").returncode == 0
        next(tmp_path.glob("logs/*")).rename(tmp_path / "logs/run")
    command = [sys.executable, "-X", "importtime", "-m", "ddpkit", *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "ddpkit" in imported
    assert not imported & set(HEAVY)


@pytest.mark.parametrize("words", [("launch", "-n", "2", "--", "true"), ("test", "2"), ("bench", "2")])
def test_a_dry_run_in_json_is_a_plan(words: tuple[str, ...], ddpkit: DDPKIT) -> None:
    command, *rest = words
    done = ddpkit(command, "--dry-run", "--json", *rest)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["world_size"] == 2
    assert [len(step["ranks"]) for step in plan["steps"]] == [2]


@pytest.mark.parametrize("command", ["status", "logs", "stop"])
def test_a_run_is_found_after_two_dashes(command: str, ddpkit: DDPKIT) -> None:
    """The words after `--` were dropped in commands without a script, and the newest run was taken."""
    done = ddpkit(command, "--", "zzzz")
    assert done.returncode == 121
    assert "run 'zzzz' not found" in done.stderr
