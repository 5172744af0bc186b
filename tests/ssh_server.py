"""An SSH server of paramiko in this process: used by the tests of what a host asks, and of what it answers."""

from __future__ import annotations

import socket
import threading

import paramiko


def serve(server: paramiko.ServerInterface, key: paramiko.PKey, listener: socket.socket) -> None:
    """Take connections until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # closed: the test is over
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.start_server(event=threading.Event(), server=server)
