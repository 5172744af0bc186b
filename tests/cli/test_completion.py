"""What a shell offers: commands, options, backends and their options, profiles, hosts, runs; asked of real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.cli import completion
from ddpkit.launchers import registry
from ddpkit.run import bad_nodes

TOML = """
[profiles.big]
backend = "ssh"
[profiles.bare]
[profiles.'$(touch ran)']
[profiles.'*']
[groups]
gpus = ["node[1-2]", "admin@big:2222"]
[host.big]
slots = 8
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ddpkit.toml").write_text(TOML)
    (tmp_path / "train.py").write_text("")
    return tmp_path


def offered(ddpkit: DDPKIT, line: str) -> set[str]:
    """What Typer's function for bash gets for a line; the cursor stands behind it."""
    words = line.split(" ")
    env = {"COMP_WORDS": f"ddpkit {line}", "COMP_CWORD": str(len(words)), completion.VARIABLE: "complete_bash"}
    done = ddpkit(env=env)
    assert done.stderr == ""
    return set(done.stdout.split())


# the words up to the cursor -> what is offered, all of it
OFFERED = {
    "la": "launch",
    "launch --prof": "--profile",
    "launch -b ss": "ssh ssh-torchrun-auto",
    "launch --backend pd": "pdsh",
    "backends leg": "legacy",
    "launch -b slurm -o part": "partition=",
    "launch -o part": "",
    "launch --profile ": "bare big",  # and no name that a shell would evaluate
    "launch -b ssh ": "@gpus admin@big:2222 big node1 node2",
    "launch --profile big node1 nod": "node1 node2",
    "test -b pdsh node": "node1 node2",
    "launch ": "",
    "launch -b slurm no": "",
    "launch -b nobody ": "",
    "launch --workdir ": "",
    "launch -- tr": "",
    "completion z": "zsh",
    "nodes ": "check forgive",
    "explain port-i": "port-in-use",
    "explain ": "",  # the shell offers files
    "nothing --": "",
}


@pytest.mark.parametrize("line", OFFERED)
@pytest.mark.usefixtures("project")
def test_offered(line: str, ddpkit: DDPKIT) -> None:
    assert offered(ddpkit, line) == set(OFFERED[line].split())


@pytest.mark.usefixtures("project")
def test_every_option_of_a_backend(ddpkit: DDPKIT) -> None:
    wanted = {f"{each.name}=" for each in registry.options(registry.load("slurm"))}
    assert offered(ddpkit, "launch -b slurm -o ") == wanted


def test_a_file_with_mistakes_offers_nothing(project: Path, ddpkit: DDPKIT) -> None:
    (project / "ddpkit.toml").write_text("profiles = 3\n")
    assert offered(ddpkit, "launch --profile ") == set()


def test_runs(project: Path, ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "--", "true").returncode == 0
    (run,) = [path.name for path in (project / "logs").iterdir()]
    for command in ("stop", "status", "logs", "dump", "attach", "rm"):
        assert offered(ddpkit, f"{command} {run[:6]}") == {run}, command


def test_bad_nodes(project: Path, ddpkit: DDPKIT) -> None:
    """Behind an action, from the file that the settings name."""
    (project / "ddpkit.toml").write_text('bad_nodes = "bad.json"\n')
    now = time.time()
    assert (
        bad_nodes.remember(str(project / "bad.json"), bad_nodes.bad_node("node2", "gpu-ecc", "x", "run", now), now)
        == ""
    )
    assert offered(ddpkit, "nodes forgive ") == {"node2"}


def said(argv: list[str], project: Path, typed: str = "") -> str:
    """What a shell prints that knows this ddpkit and nothing of the user's."""
    programs = project / "bin"
    programs.mkdir()
    (programs / "ddpkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m ddpkit "$@"\n')
    (programs / "ddpkit").chmod(0o755)
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}
    env = {**os.environ, **own, "HOME": str(project), "TERM": "dumb", "PS1": "> ", "INPUTRC": "/dev/null"}
    done = subprocess.run(
        argv, cwd=project, env=env, input=typed, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


def test_bash_completes_a_typed_line(project: Path) -> None:
    """TAB in an interactive bash: the line is completed, then run."""
    typed = "source <(ddpkit completion bash)\nddpkit launch --dry-run --bac\tss\t-torc\t node1 --explain\t\nexit\n"
    text = said(["script", "-qec", "bash --norc --noprofile -i", "/dev/null"], project, typed)
    assert "ssh-torchrun-auto" in text
    assert "flag" in text


def test_bash_runs_no_program_that_only_was_typed(project: Path) -> None:
    (project / "ddpkit").write_text("#!/bin/sh\ntouch ran\n")
    (project / "ddpkit").chmod(0o755)
    typed = "source <(ddpkit completion bash)\n./ddpkit sta\t --explain-nothing\x15echo done\nexit\n"
    text = said(["script", "-qec", "bash --norc --noprofile -i", "/dev/null"], project, typed)
    assert "done" in text
    assert not (project / "ran").exists()


SHELLS = {
    "zsh": """
    autoload -U compinit && compinit -u -D; eval "$(ddpkit completion zsh)"
    _arguments() { print -r -- "$@" }
    words=(ddpkit launch -b ss) CURRENT=4; _ddpkit_completion
    """,
    "fish": "ddpkit completion fish | source; complete -C 'ddpkit launch -b ss'",
}


@pytest.mark.parametrize("shell", SHELLS)
def test_in_other_shells(shell: str, project: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    quiet = {"zsh": "-f", "fish": "--no-config"}[shell]
    assert "ssh-torchrun-auto" in said([shell, quiet, "-c", SHELLS[shell]], project)


@pytest.mark.parametrize(("mine", "hint"), [("/usr/bin/zsh", "zsh"), ("/bin/tcsh", "bash"), ("", "bash")])
def test_no_shell(mine: str, hint: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("completion", env={"SHELL": mine})
    assert (done.returncode, done.stdout) == (121, "")
    assert done.stderr == f"ddpkit: error: no shell given\nhint: ddpkit completion {hint}\n"


def test_an_unknown_shell(ddpkit: DDPKIT) -> None:
    done = ddpkit("completion", "bsh")
    assert done.returncode == 121
    assert "did you mean 'bash'?" in done.stderr
