"""Which port of a machine can be rank 0's."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from ddpkit.node.calls import probe


@pytest.fixture
def server() -> Iterator[socket.socket]:
    server = socket.create_server(("127.0.0.1", 0))
    yield server
    server.close()


def _leave_in_time_wait(server: socket.socket) -> None:
    """Close a connection from the server's side first: the kernel keeps its port for a minute, as after a run."""
    with socket.create_connection(server.getsockname()) as client:
        server.accept()[0].close()
        assert client.recv(1) == b""
    server.close()


def test_a_port_is_free_when_the_connections_of_an_earlier_run_have_ended(server: socket.socket) -> None:
    port = server.getsockname()[1]
    _leave_in_time_wait(server)
    with socket.socket() as strict, pytest.raises(OSError, match="in use"):
        strict.bind(("", port))

    assert probe.why_no_server(port) == ""
    ports = probe.listen(port)
    probe.close()

    assert (ports["port"], ports["no_port"]) == (port, "")


def test_a_port_on_which_a_program_listens_is_taken(server: socket.socket) -> None:
    assert probe.why_no_server(server.getsockname()[1]) == "Address already in use"
