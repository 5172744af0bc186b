"""Looking changes nothing, runs nothing of a settings file, and connects to no host that only a file names."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import PATIENCE
from warm_python import run_ddpkit

import ddpkit

PROGRAMS = ("ssh", "pdsh", "sbatch", "srun", "git", "tmux", "docker", "podman", "enroot", "apptainer")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose every program leaves a trace."""
    folder = tmp_path / "project"
    for name in ("bin", "project"):
        (tmp_path / name).mkdir()
    for path in (*(tmp_path / "bin" / name for name in PROGRAMS), folder / "evil"):
        path.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/ran\n')
        path.chmod(0o755)
    (folder / "ok.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    (folder / "hosts.txt").write_text("127.0.0.1 port=PORT\n")
    return folder


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """A port that notices every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def _connected(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _tree(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything below a directory: mode, owner, time of the last change, content."""
    return {
        str(path): (
            (facts := path.lstat()).st_mode,
            facts.st_uid,
            facts.st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [folder, *folder.rglob("*")]
    }


def _ddpkit(project: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = {
        **os.environ,
        "PATH": f"{project.parent}/bin:{os.environ['PATH']}",
        "HF_TOKEN": "hf_value-of-it",
        **env,
    }
    return run_ddpkit(words, env=variables, cwd=project, timeout=PATIENCE)


HOSTILE = """
python = "./evil"
on_end = "./evil"
on_attempt = "./evil"
env = {{ PATH = ".", PYTHONPATH = "." }}
{more}
[groups]
all = ["127.0.0.1:{port}"]
[host."127.0.0.1"]
port = {port}
python = "./evil"
[profiles.far]
backend = "{backend}"
hosts = ["127.0.0.1:{port}"]
"""
# Where the hosts come from: lines of the file, words, variables.
SOURCES = {
    "file": ('backend = "{backend}"\nhosts = ["127.0.0.1:{port}"]', [], {}),
    "host file": ('backend = "{backend}"\nhostfile = "hosts.txt"', [], {}),
    "variable": ("", [], {"DDPKIT_BACKEND": "{backend}", "DDPKIT_HOSTS": "127.0.0.1:{port}"}),
    "variable of a host file": ("", ["-b", "{backend}"], {"DDPKIT_HOSTFILE": "hosts.txt"}),
    "profile": ("", ["--profile", "far"], {}),
    "variable of a profile": ("", [], {"DDPKIT_PROFILE": "far"}),
    "group": ("", ["-b", "{backend}", "@all"], {}),
    "port of a typed host": ("", ["-b", "{backend}", "127.0.0.1"], {}),
}
COMMANDS = {
    "launch": ["launch", "--dry-run"],
    "test": ["test", "--dry-run"],
    "bench": ["bench", "--dry-run"],
}


@pytest.mark.parametrize("backend", ["ssh", "legacy", "pdsh"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_connects_to_no_host_of_a_file(
    project: Path, server: socket.socket, backend: str, source: str, command: str
) -> None:
    if backend != "ssh" and (command, source) not in (("launch", "file"), ("test", "group")):
        pytest.skip("one way is enough")
    port = server.getsockname()[1]
    lines, words, variables = SOURCES[source]
    more = lines.format(backend=backend, port=port)
    (project / "ddpkit.toml").write_text(HOSTILE.format(more=more, backend=backend, port=port))
    (project / "hosts.txt").write_text(f"127.0.0.1 port={port}\n")
    before = _tree(project.parent)
    words = [each.format(backend=backend) for each in words]
    own = ["--", "ok.py"] if command == "launch" else []
    env = {name: text.format(backend=backend, port=port) for name, text in variables.items()}
    done = _ddpkit(project, *COMMANDS[command], "-n", "2", *words, *own, **env)
    assert done.returncode == 0, done.stderr
    assert not _connected(server)
    assert not (project.parent / "ran").exists(), (project.parent / "ran").read_text()
    assert _tree(project.parent) == before
    assert "assumed: 2 ranks on 127.0.0.1" in done.stderr
    assert done.stderr.count("--survey") == 1
    assert "hf_value" not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [["--survey"], ["-b", "ssh", "127.0.0.1:PORT"], ["-b", "ssh", "--hostfile", "own"]])
def test_a_dry_run_connects_to_hosts_that_were_asked_for(
    project: Path, server: socket.socket, words: list[str]
) -> None:
    port = server.getsockname()[1]
    text = f'backend = "ssh"\nhosts = ["127.0.0.1:{port}"]\noptions = {{ connect_timeout = 1.0 }}\n'
    (project / "ddpkit.toml").write_text(text)
    (project / "own").write_text(f"127.0.0.1 port={port}\n")
    done = _ddpkit(project, "launch", "--dry-run", *(each.replace("PORT", str(port)) for each in words), "--", "ok.py")
    assert done.returncode != 0  # the server says nothing
    assert _connected(server)


def test_survey_is_for_dry_runs(project: Path) -> None:
    done = _ddpkit(project, "launch", "--survey", "--", "ok.py")
    assert done.returncode == 121
    assert "--survey has no effect without --dry-run\nhint: ddpkit launch --survey --dry-run -- ok.py" in done.stderr


def test_plan_of_a_program_connects_to_no_host_of_a_file(
    project: Path, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    port = server.getsockname()[1]
    (project / "ddpkit.toml").write_text(f'backend = "ssh"\nhosts = ["127.0.0.1:{port}"]\npython = "./evil"\n')
    assert ddpkit.plan("ok.py").world_size == 1
    assert not _connected(server)
    with pytest.raises(ddpkit.LaunchError):
        ddpkit.plan("ok.py", survey=True, options={"connect_timeout": 1.0})
    assert _connected(server)


def test_a_dry_run_sends_nothing_to_a_login_host_of_a_file(project: Path, server: socket.socket) -> None:
    port = server.getsockname()[1]
    (project / "ddpkit.toml").write_text(f'backend = "slurm"\noptions = {{ via = "127.0.0.1:{port}" }}\n')
    done = _ddpkit(project, "launch", "--dry-run", "--", "ok.py")
    assert done.returncode == 121
    assert "hint: ddpkit launch --dry-run --survey -- ok.py" in done.stderr
    assert not _connected(server)


@pytest.mark.parametrize("backend", ["local", "slurm", "slurm-torchrun"])
def test_a_dry_run_writes_and_runs_nothing(project: Path, backend: str) -> None:
    text = HOSTILE.format(more=f'backend = "{backend}"', backend=backend, port=22)
    (project / "ddpkit.toml").write_text(text)
    before = _tree(project.parent)
    for words in (
        ["launch", "-n", "2", "--dry-run", "--", "ok.py"],
        ["test", "2", "--dry-run"],
        ["bench", "2", "--dry-run"],
    ):
        done = _ddpkit(project, *words)
        assert done.returncode == 0, done.stderr
    assert _tree(project.parent) == before


LOOKS = [
    ["ps"],
    ["ps", "--all"],
    ["status"],
    ["logs"],
    ["explain"],
    ["report", "-o", "../home/report.html"],
    ["nodes"],
    ["env"],
    ["backends"],
    ["backends", "ssh"],
    ["completion", "bash"],
    ["launch", "--explain"],
    ["rm", "--ended", "--dry-run"],
    ["stop", "--all", "--dry-run"],
    ["--help"],
    ["--version"],
]


def test_looking_at_a_run_changes_nothing(project: Path, tmp_path: Path) -> None:
    """Neither the project, nor the home directory, but the caches of ddpkit; no program of the project runs."""
    home = tmp_path / "home"
    home.mkdir()
    places = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CACHE_HOME": str(home / "cache")}
    (project / "fail.py").write_text("raise SystemExit('failed')\n")
    failed = _ddpkit(project, "launch", "-n", "1", "--", "fail.py", **places)
    assert failed.returncode == 1, failed.stderr
    (tmp_path / "ran").unlink(missing_ok=True)  # git says which code a run has
    (project / "ddpkit.toml").write_text(HOSTILE.format(more='backend = "ssh"', backend="ssh", port=22))
    before, at_home = _tree(project.parent / "project"), set(_tree(home / "state") if (home / "state").exists() else ())
    for words in LOOKS:
        done = _ddpkit(project, *words, **places)
        assert "Traceback" not in done.stderr, words
        assert _tree(project) == before, words
        assert not (tmp_path / "ran").exists(), words
    assert at_home == set(_tree(home / "state") if (home / "state").exists() else ())
