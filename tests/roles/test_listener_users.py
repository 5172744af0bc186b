"""Whose server makes a role ready."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from ddpkit.node.calls import ready

LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_the_server_of_another_user_fails_the_role_at_once() -> None:
    argv = ["/usr/bin/python3", "-c", LISTENS]
    with subprocess.Popen(argv, user=65534, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        answer = ready.wait(port, None, 600.0)
        other.communicate("")
    assert answer == {"ready": False, "failed": True, "why": f"port {port} is listened on by user nobody"}


def test_a_server_of_ones_own_makes_it_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        assert ready.wait(own.getsockname()[1], None, 600.0) == {"ready": True, "why": ""}
