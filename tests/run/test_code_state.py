"""State of a run's code: its commit, without secrets, and the versions on each node."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import DDPKIT, SCRIPT

from ddpkit.run import record
from ddpkit.run.record import Code, Versions, node_versions, read_code, without_secrets
from ddpkit.run.state import Origin
from ddpkit.run.timeline import LaunchFile, TimelineFile

USER = ("-c", "user.name=A", "-c", "user.email=a@b")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *USER, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:ghp_token@github.com/a/b.git", "https://github.com/a/b.git"),
        ("https://ghp_token@github.com/a/b.git?key=x#y", "https://github.com/a/b.git"),
        ("ssh://git:pass@host:22/a.git", "ssh://host:22/a.git"),
        ("git@github.com:a/b.git", "github.com:a/b.git"),
        ("user:token@host:a/b.git", "host:a/b.git"),
        ("/srv/git/a@b.git", "/srv/git/a@b.git"),
        ("https://[bad", ""),
        ("", ""),
    ],
)
def test_no_secret_of_a_remote_is_kept(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


def test_the_commit_of_a_directory(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert read_code(str(tmp_path)) == Code(commit="", branch="main", dirty=False, remote="")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "a")
    git(tmp_path, "remote", "add", "origin", "https://u:p@host/r.git")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/untracked").touch()
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert read_code(str(tmp_path)) == Code(commit=commit, branch="main", dirty=False, remote="https://host/r.git")
    (tmp_path / "a").write_text("2")
    git(tmp_path, "checkout", "-q", "--detach")
    assert read_code(str(tmp_path)) == Code(commit=commit, branch="", dirty=True, remote="https://host/r.git")


def test_no_repository_no_directory_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert read_code(str(tmp_path)) is None
    assert read_code(str(tmp_path / "gone")) is None
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_code(str(tmp_path)) is None


def test_the_configuration_of_a_bare_repository_in_a_clone_runs_nothing(tmp_path: Path) -> None:
    """Its files can be committed like all others."""
    git(tmp_path, "init", "-q", "-b", "main")
    inner, ran = tmp_path / "sub", tmp_path / "ran"
    (inner / "objects").mkdir(parents=True)
    (inner / "refs").mkdir()
    (inner / "HEAD").write_text("ref: refs/heads/main\n")
    (inner / "config").write_text(
        f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = "touch {ran}; false"\n'
    )
    subprocess.run(["git", "status"], cwd=inner, capture_output=True, check=False)
    assert ran.exists()  # what git does on its own
    ran.unlink()
    read_code(str(inner))
    assert not ran.exists()


@pytest.mark.parametrize("place", ["config", "worktree", "include"])
def test_a_repository_of_somebody_else_runs_nothing(place: str, tmp_path: Path) -> None:
    """A filter sees each file whose time differs from the index, as after an archive was unpacked."""
    git(tmp_path, "init", "-q", "-b", "main")
    ran = tmp_path / "ran"
    (tmp_path / "a").write_text("1")
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    git(tmp_path, "add", "a", ".gitattributes")
    git(tmp_path, "commit", "-q", "-m", "a")
    assert read_code(str(tmp_path)) == Code(
        commit=git(tmp_path, "rev-parse", "HEAD"), branch="main", dirty=False, remote=""
    )
    program = f'[filter "x"]\nclean = "touch {ran}; cat"\n'
    if place == "include":
        (tmp_path / ".git/more").write_text(program)
        git(tmp_path, "config", "include.path", "more")
    elif place == "worktree":
        git(tmp_path, "config", "extensions.worktreeConfig", "true")
        (tmp_path / ".git/config.worktree").write_text(program)
    else:
        with (tmp_path / ".git/config").open("a") as config:
            config.write(program)
    (tmp_path / "a").write_text("2")
    code = read_code(str(tmp_path))
    assert not ran.exists()
    assert code == Code(commit=git(tmp_path, "rev-parse", "HEAD"), branch="main", dirty=None, remote="")
    git(tmp_path, "status")
    assert ran.exists()  # what git does on its own


def slow_git(folder: Path) -> str:
    """A directory whose git never answers."""
    (folder / "git").write_text("#!/bin/sh\nexec sleep 3600\n")
    (folder / "git").chmod(0o755)
    return str(folder)


def test_a_slow_git_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "GIT_LIMIT", 0.2)
    monkeypatch.setenv("PATH", slow_git(tmp_path), prepend=":")
    assert read_code(str(tmp_path)) is None


def test_versions_of_ranks_win_over_those_of_the_survey() -> None:
    launch: LaunchFile = {
        "nodes": {
            "a": {"python": "3.9.1", "torch": {"place": "/x", "version": "2.1.0"}},
            "b": {"python": "3.9.1", "torch": None},
            "c": {"cpus": 2},
        }
    }
    timeline: TimelineFile = {
        "ranks": {"0": {"host": "a", "versions": ["3.12.1", "2.6.0", "12.4", "2.21.5"]}, "1": {"host": "a"}}
    }
    assert node_versions(launch, timeline) == {
        "a": Versions(python="3.12.1", torch="2.6.0", cuda="12.4", nccl="2.21.5"),
        "b": Versions(python="3.9.1"),
    }
    assert node_versions(None, None) == {}


@pytest.mark.torch
@pytest.mark.parametrize("option", ["starter=ranks", "starter=torchrun", "preload=true"])
@pytest.mark.thorough_for("starter=torchrun")
def test_a_run_records_its_code(option: str, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Path) -> None:
    import torch

    script("import time, torch\ntime.sleep(1)")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "job.py")
    git(tmp_path, "commit", "-q", "-m", "a")
    done = ddpkit("launch", "-n", "2", "-o", option, "--json", "--", "job.py")
    assert done.returncode == 0, done.stderr
    run = record.parse(json.loads(done.stdout))
    assert run is not None
    assert run.code == Code(commit=git(tmp_path, "rev-parse", "HEAD"), branch="main", dirty=False, remote="")
    (versions,) = run.versions.values()
    assert versions.torch == torch.__version__
    assert versions.python.startswith("3.")
    assert record.load(Path(run.folder)) == replace(run, origin=Origin.DIRECTORY)
    status = json.loads(ddpkit("status", run.folder, "--json").stdout)
    assert status["code"]["commit"] == run.code.commit
    report = json.loads(ddpkit("report", run.folder, "--json").stdout)
    assert report["code"]["branch"] == "main"
    assert [each["torch"] for each in report["places"]] == [torch.__version__]
    assert ddpkit("report", run.folder).returncode == 0
    page = (Path(run.folder) / "report.html").read_text()
    assert run.code.commit[:12] in page
    assert torch.__version__ in page
