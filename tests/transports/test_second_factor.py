"""Questions that an sshd asks after a key: answered from a terminal that expects them, never from standard input."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_PARTIALLY_SUCCESSFUL, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.server import InteractiveQuery
from program import run_to_end
from ssh_server import serve
from terminal import Terminal

PROMPT = "\x1b]0;owned\x07Code\x1b[31m:"  # a title, a bell and a colour
SECRET = "data for the script"
ENTER = """
import os, sys, time
from pathlib import Path
from ddpkit.transports import hosts
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh.client import Ssh
from ddpkit.transports.ssh.config import SshConfig, read_files
[spec] = hosts.parse(["node1"], {}, {}, "")
config = SshConfig(lambda spec: read_files(spec, [Path(os.environ["HOME"], ".ssh/config")]))
try:
    ssh = Ssh(accept_new=False, timeout=20.0, note=print, config=config)
    stream = ssh.enter(spec, "true", time.monotonic() + 40.0)
except RefusedError as error:
    print(f"refused: {error.what} | {error.fix}", flush=True)
else:
    print("entered", flush=True)
    stream.close()
"""


@dataclass
class Server(paramiko.ServerInterface):
    """An sshd that accepts every key, and then asks for a code."""

    prompt: str
    methods: str = "publickey,keyboard-interactive"
    answers: list[str] = field(default_factory=list)

    def get_allowed_auths(self, username: str) -> str:
        return self.methods

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_PARTIALLY_SUCCESSFUL

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        return InteractiveQuery("", "", (self.prompt, False)) if "interactive" in self.methods else AUTH_FAILED

    def check_auth_interactive_response(self, responses: list[str]) -> int:
        self.answers += responses
        return AUTH_SUCCESSFUL if responses == ["123456"] else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True


@dataclass
class Node:
    """A home whose node1 is the server."""

    home: Path
    server: Server
    port: int

    def configure(self, *lines: str) -> None:
        place = (
            f"Host node1\n  HostName 127.0.0.1\n  Port {self.port}\n  UserKnownHostsFile {self.home}/.ssh/known_hosts"
        )
        config = [place, f"IdentityFile {self.home}/key", *lines]
        (self.home / ".ssh/config").write_text("\n  ".join(config) + "\n")

    def env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "SSH_AUTH_SOCK": ""}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    key = paramiko.RSAKey.generate(2048)
    server = Server(PROMPT)
    threading.Thread(target=serve, args=(server, key, listener), daemon=True).start()
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{port} ssh-rsa {key.get_base64()}\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    yield Node(tmp_path, server, port)
    listener.close()


@pytest.mark.parametrize(
    ("line", "why"),
    [("", "~/.ssh/config does not expect"), ("KbdInteractiveAuthentication yes", "standard input is not a terminal")],
)
def test_standard_input_is_never_sent(node: Node, line: str, why: str) -> None:
    node.configure(line)
    entered = run_to_end([sys.executable, "-c", ENTER], env=node.env(), input=SECRET + "\n", check=True)
    assert "refused: sshd accepted the key and requires a second factor" in entered.stdout, entered
    assert why in entered.stdout
    assert node.server.answers == []
    assert "\x1b" not in entered.stdout + entered.stderr
    assert "Code" not in entered.stdout + entered.stderr


def test_a_password_is_never_sent(node: Node) -> None:
    node.server.methods = "publickey,password"
    node.configure("KbdInteractiveAuthentication yes")
    terminal = Terminal([sys.executable, "-c", ENTER], node.home, node.env())
    terminal.wait_for(lambda: terminal.shows("refused: sshd requires a password after the key"))
    assert terminal.end() == 0
    assert node.server.answers == []


def test_a_terminal_that_expects_it_is_asked_without_control_characters(node: Node) -> None:
    node.configure("PreferredAuthentications publickey,keyboard-interactive")
    terminal = Terminal([sys.executable, "-c", ENTER], node.home, node.env())  # which accepts no control character
    terminal.wait_for(lambda: terminal.shows("node1 asks: "))
    os.write(terminal.handle, b"123456\n")
    terminal.wait_for(lambda: terminal.shows("entered"))
    assert terminal.end() == 0
    assert b"123456" not in terminal.raw
    assert b"\x1b" not in terminal.raw
    assert node.server.answers == ["123456"]


def test_a_wrong_answer_is_not_called_a_wrong_key(node: Node) -> None:
    node.configure("KbdInteractiveAuthentication yes")
    terminal = Terminal([sys.executable, "-c", ENTER], node.home, node.env())
    terminal.resize(200)
    terminal.wait_for(lambda: terminal.shows("node1 asks: "))
    os.write(terminal.handle, b"000000\n")
    terminal.wait_for(lambda: terminal.shows("refused: .* second factor .* the answer is missing or wrong .*ssh node1"))
    assert terminal.end() == 0
