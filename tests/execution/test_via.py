"""Paths of a launch through a login host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddpkit.errors import PreflightError
from ddpkit.execution.other_host import path_there
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.host_names import Via
from ddpkit.node.calls import login_host
from ddpkit.transports.ssh.login_host import LoginHost, check_answer

PROJECT = Path("/home/ann/digits")


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("/home/ann/digits", "/scratch/digits"),
        ("/home/ann/digits/.venv/bin/python", "/scratch/digits/.venv/bin/python"),
        ("/home/ann/digits2", "~/digits2"),
        ("/home/ann", "~"),
        ("/home/anna/x", "/home/anna/x"),
        ("~/logs", "~/logs"),
        ("/data/logs", "/data/logs"),
    ],
)
def test_a_path_of_this_machine_on_the_login_host(path: str, there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert path_there(path, PROJECT, "/scratch/digits") == there


def test_the_project_itself_is_below_the_same_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert path_there("/home/ann/digits", PROJECT, "") == "~/digits"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_login_host_says_who_could_put_programs_in_place(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "job.py").touch()

    def look() -> dict[str, Any]:
        words = {
            "workdir": str(tmp_path),
            "log_dir": "logs",
            "script": "job.py",
            "code": ["job.py"],
            "pythons": ["python3"],
            "login": False,
        }
        return dict(login_host.look(**words)[0])

    assert look()["strangers"] == []
    os.chown(tmp_path / "logs", 0, 60000)
    (tmp_path / "logs").chmod(0o2775)
    facts = {**look(), "scheduler": True}
    assert facts["strangers"] == ["group 60000"]
    host = LoginHost(Via(host="login1"), NodeOptions())
    with pytest.raises(
        PreflightError, match=r"group 60000 can put another directory in the place of .*/logs on login1"
    ):
        check_answer(facts, host, script="job.py", python="python3", synced=False)
