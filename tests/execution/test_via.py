"""Paths of a launch through a login host."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.execution.via import path_there

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
