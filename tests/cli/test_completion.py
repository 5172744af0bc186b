"""What a shell offers: commands, options, backends and their options, profiles, hosts, runs; asked of real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.cli import candidates, main
from ddpkit.launchers import registry

TOML = """
[profiles.big]
backend = "ssh"
[profiles.bare]
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


# the words up to the cursor -> what must be offered, all of it; "..." for: among others
OFFERED = {
    "la": ["launch"],
    "launch --prof": ["--profile"],
    "launch -b ss": ["ssh", "ssh-torchrun-auto"],
    "launch --backend=pd": ["--backend=pdsh"],
    "launch --backend pd": ["pdsh"],
    "backends leg": ["legacy"],
    "launch -o star": ["starter="],
    "launch -o starter=": ["starter=legacy", "starter=ranks", "starter=torchrun"],
    "launch -o starter=t": ["starter=torchrun"],
    "launch -b slurm -o part": ["partition="],
    "launch -b slurm -o star": [],
    "launch -b slurm --part": ["--partition"],
    "launch --part": [],
    "launch --starter ": ["legacy", "ranks", "torchrun"],
    "bench --starter t": ["torchrun"],
    "launch -b slurm --time ": [],
    "launch -b ssh --accept-new-host-keys node": ["node1", "node2"],
    "launch -o nothing=": [],
    "launch --profile b": ["bare", "big"],
    "test --profile=bi": ["--profile=big"],
    "launch -b ssh @": ["@gpus"],
    "launch -b ssh ": ["@gpus", "admin@big:2222", "big", "node1", "node2"],
    "launch --profile big node1 nod": ["node1", "node2"],
    "test -b pdsh node": ["node1", "node2"],
    "bench -b ssh @g": ["@gpus"],
    "launch ": [],
    "launch -b slurm no": [],
    "launch -b nobody ": [],
    "launch --detach --on no": ["node1", "node2"],
    "launch --workdir ": [],
    "launch -- tr": [],
    "launch -b ssh node1 -- --ba": [],
    "completion z": ["zsh"],
    "nothing --": [],
}


@pytest.mark.parametrize("line", OFFERED)
def test_offered(line: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert candidates.list_candidates(line.split(" "), main.setup.commands) == OFFERED[line]


def test_every_command_and_every_option(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    known = main.setup.commands()
    first = {*known, "help", "--help", "--version"}
    assert set(candidates.list_candidates([""], main.setup.commands)) == first
    assert {"launch", "init", "stop", "test"} <= known.keys()
    assert {"-n", "--nnodes", "--dry-run"} <= set(candidates.list_candidates(["launch", "-"], main.setup.commands))
    for backend in registry.names():
        wanted = {f"{each.name}=" for each in registry.options(registry.load(backend))}
        assert set(candidates.list_candidates(["launch", "-b", backend, "-o", ""], main.setup.commands)) == wanted


def test_a_file_with_mistakes_offers_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "ddpkit.toml").write_text("profiles = 3\n")
    assert candidates.list_candidates(["launch", "--profile", ""], main.setup.commands) == []


def test_runs(project: Path, ddpkit: DDPKIT) -> None:
    assert ddpkit("launch", "--", "true").returncode == 0
    (run,) = [path.name for path in (project / "logs").iterdir()]
    for command in ("stop", "status", "logs", "dump", "attach"):
        done = ddpkit(command, run[:6], env={candidates.VARIABLE: "1"})
        assert (done.returncode, done.stdout) == (0, f"{run}\n"), command


def test_roles(project: Path, ddpkit: DDPKIT) -> None:
    (project / "roles.toml").write_text('[roles.a]\nnnodes = 2\ncommand = "true"\nends_run = true\nreplicas = 2\n')
    assert ddpkit("launch", "-b", "local", "--roles", "roles.toml").returncode == 0
    (run,) = ddpkit("ps", "-q").stdout.split()
    for line in (["logs", "--role", ""], ["stop", run, "--role", ""], ["logs", "--role", "a."]):
        offered = ddpkit(*line, env={candidates.VARIABLE: "1"}).stdout.split()
        assert offered == ["a", "a.0", "a.1"][line[-1] == "a." :]


def test_values_cost_no_typer(project: Path) -> None:
    code = "import sys; from ddpkit.cli.candidates import list_candidates as names; print(names(sys.argv[1:], dict)); "
    code += "print(*sys.modules)"
    argv = [sys.executable, "-c", code, "launch", "-b", "ssh", "-o", "mas"]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=True)
    offered, modules = done.stdout.splitlines()
    assert offered == "['master_addr=', 'master_port=']"
    assert not {"typer", "torch", "rich", "fabric", "paramiko", "numpy"} & set(modules.split())


def said(argv: list[str], project: Path) -> str:
    """What a shell prints that knows this ddpkit and nothing of the user's."""
    done = subprocess.run(
        argv, cwd=project, env=environ(project), capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def environ(project: Path) -> dict[str, str]:
    """Shells that know this ddpkit and nothing of the user's."""
    programs = project / "bin"
    programs.mkdir()
    (programs / "ddpkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m ddpkit "$@"\n')
    (programs / "ddpkit").chmod(0o755)
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": root, "HOME": str(project)}


# Runs the function as bash does for TAB: the line and the words as bash would split them.
BASH = """
source <(ddpkit completion bash)
ask() {
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    compopt() { echo compopt "$@"; }
    _ddpkit
    printf '<%s>' "${COMPREPLY[@]}"
    echo
}
"""
IN_BASH = {
    "ddpkit lau": "<launch>",
    "ddpkit launch -b ss": "<ssh><ssh-torchrun-auto>",
    "ddpkit launch -o starter=t": "<torchrun>",
    "ddpkit launch -o star": "compopt -o nospace\n<starter=>",
    "ddpkit launch --backend=pd": "<pdsh>",
    "ddpkit launch -b ssh @g": "<gpus>",
    "ddpkit launch -b ssh node1 ": "<@gpus><admin@big:2222><big><node1><node2>",
    "ddpkit launch -- tr": "<>",
}


@pytest.mark.parametrize("line", IN_BASH)
def test_in_bash(line: str, project: Path) -> None:
    assert said(["bash", "--norc", "-c", f"{BASH}\nask {line!r}"], project) == f"{IN_BASH[line]}\n"


def test_bash_completes_a_typed_line(project: Path) -> None:
    """TAB in an interactive bash: the line is completed, then run."""
    typed = "source <(ddpkit completion bash)\nddpkit launch --dry-run --bac\tss\t-torc\t node1 --explain\t\nexit\n"
    env = {**environ(project), "TERM": "dumb", "PS1": "> ", "INPUTRC": "/dev/null"}
    bash = ["script", "-qec", "bash --norc --noprofile -i", "/dev/null"]
    done = subprocess.run(
        bash, cwd=project, env=env, input=typed, capture_output=True, text=True, timeout=120, check=False
    )
    assert "ssh-torchrun-auto" in done.stdout
    assert "backend" in done.stdout


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_in_zsh(project: Path) -> None:
    """compadd stands aside, and says what it was given."""
    text = """
    autoload -U compinit && compinit -u -D
    eval "$(ddpkit completion zsh)"
    compadd() { while [ "$1" != -- ]; do shift; done; shift; print -r -- "$@" }
    words=(ddpkit launch -b ss) CURRENT=4; _ddpkit
    words=(ddpkit launch -o star) CURRENT=4; _ddpkit
    """
    assert said(["zsh", "-f", "-c", text], project).split() == ["ssh", "ssh-torchrun-auto", "starter="]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_in_fish(project: Path) -> None:
    text = "ddpkit completion fish | source; complete -C 'ddpkit launch -b ss'; complete -C 'ddpkit launch tra'"
    assert said(["fish", "--no-config", "-c", text], project).split() == ["ssh", "ssh-torchrun-auto", "train.py"]


@pytest.mark.parametrize(("mine", "hint"), [("/usr/bin/zsh", "zsh"), ("/bin/tcsh", "bash"), ("", "bash")])
def test_no_shell(mine: str, hint: str, ddpkit: DDPKIT) -> None:
    done = ddpkit("completion", env={"SHELL": mine})
    assert (done.returncode, done.stdout) == (121, "")
    assert done.stderr == f"ddpkit: error: no shell given\nhint: ddpkit completion {hint}\n"


def test_an_unknown_shell(ddpkit: DDPKIT) -> None:
    done = ddpkit("completion", "bsh")
    assert done.returncode == 121
    assert "did you mean 'bash'?" in done.stderr
