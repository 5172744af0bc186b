"""Whose server makes a role ready."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ddpkit.node import relay
from ddpkit.node.calls import ready
from ddpkit.node.relay import takers_of

OTHER = 65534
needs_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
LISTENS = """
import socket, sys
with socket.create_server((sys.argv[1], 0), family=10 if ":" in sys.argv[1] else 2) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


# It answers when nobody listens any more.
LEAVES = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    end = server.accept()[0]
print("taken", flush=True)
if sys.argv[1] == "http":
    end.recv(1000)
    end.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
sys.stdin.read()
"""


@needs_users
def test_the_server_of_another_user_fails_the_role_at_once() -> None:
    argv = ["/usr/bin/python3", "-c", LISTENS, "127.0.0.1"]
    with subprocess.Popen(argv, user=OTHER, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        answer = ready.wait(port, None, 600.0)
        other.communicate("")
    assert answer == {"ready": False, "failed": True, "why": f"port {port} is listened on by user nobody"}


def test_a_server_of_ones_own_makes_it_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own:
        assert ready.wait(own.getsockname()[1], None, 600.0) == {"ready": True, "why": ""}


@contextmanager
def leaving(kind: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Yield the port of a server of another user, which takes one connection."""
    argv = ["/usr/bin/python3", "-c", LEAVES, kind]
    with subprocess.Popen(argv, user=OTHER, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        yield int(other.stdout.readline()), other
        other.communicate("")


@needs_users
@pytest.mark.parametrize("path", ["/health", None])
def test_a_server_of_another_user_that_listens_no_more_makes_nothing_ready(path: str | None) -> None:
    with leaving("http" if path else "tcp") as (port, _):
        answer = ready.wait(port, path, 0.0)
    assert not answer["ready"], answer
    assert str(port) in answer["why"]


@needs_users
def test_who_takes_a_connection_is_known_whoever_listens() -> None:
    with leaving("tcp") as (port, other), socket.create_connection(("127.0.0.1", port)) as end:
        assert other.stdout is not None
        assert takers_of(end) == {OTHER}
        assert other.stdout.readline() == "taken\n"
        assert takers_of(end) == {OTHER}
        with socket.create_server(("127.0.0.1", port)):  # what the port is now says nothing of the connection
            assert takers_of(end) == {OTHER}
        other.communicate("")
        assert end.recv(1) == b""
        assert takers_of(end) == set()


@needs_users
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_nothing_is_carried_to_a_server_of_another_user(family: int) -> None:
    argv = ["/usr/bin/python3", "-c", LISTENS, "::1" if family == socket.AF_INET6 else "127.0.0.1"]
    with subprocess.Popen(argv, user=OTHER, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        with pytest.raises(SystemExit, match=f"port {port} of .* is another user's, nobody: nothing is sent to it"):
            relay.connect(port)  # it began to listen after the last look at who listens
        other.communicate("")


def test_a_connection_in_the_queue_is_of_who_listens() -> None:
    own = {os.geteuid()}
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as end:
            assert takers_of(end) == own
            with server.accept()[0]:
                assert takers_of(end) == own
            assert takers_of(end) == set()
        with relay.connect(server.getsockname()[1]) as end:
            assert takers_of(end) == own
        waits = socket.create_connection(server.getsockname())
    with waits:
        assert takers_of(waits) == set()


def test_an_answer_of_a_port_at_which_nobody_listens_any_more_is_not_ready() -> None:
    """The next connection would be anybody's."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        end = server.accept()[0]
        server.close()
        with end:
            end.recv(1000)
            end.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    port = server.getsockname()[1]
    assert not ready.wait(port, "/", 0.0)["ready"]
    thread.join()
