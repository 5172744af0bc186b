"""An ssh agent that says nothing is left out, and any other is let be."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpkit.transports.ssh_agent import leave_out_if_silent


@pytest.fixture
def place() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="dk-", dir="/tmp")  # a socket's path has at most 107 bytes
    yield Path(folder, "agent")
    shutil.rmtree(folder)


def test_one_that_says_nothing(place: Path) -> None:
    notes: list[str] = []
    environ = {"SSH_AUTH_SOCK": str(place), "HOME": "/"}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        leave_out_if_silent(environ, notes.append, 0.3)
    assert environ == {"HOME": "/"}
    assert len(notes) == 1
    assert str(place) in notes[0]


@pytest.mark.parametrize("kind", ["none", "empty", "gone", "dead", "a file"])
def test_none_is_no_matter(kind: str, place: Path) -> None:
    environ = {"none": {}, "empty": {"SSH_AUTH_SOCK": ""}}.get(kind, {"SSH_AUTH_SOCK": str(place)})
    if kind == "a file":
        place.touch()
    if kind == "dead":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    before = dict(environ)
    notes: list[str] = []
    leave_out_if_silent(environ, notes.append, 0.3)
    assert (environ, notes) == (before, [])


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="there is no ssh-agent here")
def test_one_that_lives(place: Path) -> None:
    environ = {"SSH_AUTH_SOCK": str(place)}
    notes: list[str] = []
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline()  # it listens
        leave_out_if_silent(environ, notes.append)
        agent.terminate()
    assert (list(environ), notes) == (["SSH_AUTH_SOCK"], [])
