"""`launch --detach --on HOST`: what the host answers is data, whoever answers there."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from program import run_to_end
from ssh_server import serve

RECORD = {
    "run_id": "20261130-120000-train-0001",
    "folder": "/home/me/logs/20261130-120000-train-0001",
    "backend": "local",
    "command": ["train.py"],
    "workdir": "/home/me",
    "hosts": ["node1"],
    "world_size": 1,
    "launcher_pid": 17,
    "launcher_started": "1",
    "launcher_host": "node1",
    "started": 1.0,
    "state": "running",
    "summary": "running",
}

# ssh reads the configuration of the home in the password database, whatever HOME says.
LAUNCH = """
import os, sys
from pathlib import Path
from ddpkit.execution import other_host
from ddpkit.transports.ssh.client import Ssh
from ddpkit.transports.ssh.config import SshConfig, read_files
config = SshConfig(lambda spec: read_files(spec, [Path(os.environ["HOME"], ".ssh/config")]))
other_host.connector = lambda settings, note: Ssh(accept_new=False, timeout=20.0, note=note, config=config)
from ddpkit.__main__ import main
sys.exit(main())
"""


@dataclass
class Host(paramiko.ServerInterface):
    """A host on which another program than ddpkit answers."""

    answer: bytes = b""
    code: int = 0
    sent: int = 0

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._answer, args=(channel,), daemon=True).start()
        return True

    def _answer(self, channel: paramiko.Channel) -> None:
        channel.recv(1)  # the request
        if self.answer:
            channel.sendall(self.answer)
        else:  # it never ends
            while channel.send(b"x" * 30000):
                self.sent += 30000
        channel.send_exit_status(self.code)
        channel.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[tuple[Host, Callable[..., subprocess.CompletedProcess[str]]]]:
    """A host, and a launch on it."""
    listener = socket.create_server(("127.0.0.1", 0))
    port, key = listener.getsockname()[1], paramiko.RSAKey.generate(2048)
    server = Host()
    threading.Thread(target=serve, args=(server, key, listener), daemon=True).start()
    (tmp_path / ".ssh").mkdir(mode=0o700)
    (tmp_path / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{port} ssh-rsa {key.get_base64()}\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / ".ssh/key")], check=True)
    (tmp_path / ".ssh/config").write_text(
        f"UserKnownHostsFile {tmp_path}/.ssh/known_hosts\nIdentityFile {tmp_path}/.ssh/key\n"
    )
    (tmp_path / "train.py").write_text("")

    def launch(*words: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "HOME": str(tmp_path), "SSH_AUTH_SOCK": ""}
        argv = [sys.executable, "-c", LAUNCH, "launch", "--detach", "--on", f"me@127.0.0.1:{port}", "-b", "local"]
        return run_to_end([*argv, *words, "--", "train.py"], cwd=tmp_path, env=env)

    yield server, launch
    listener.close()


@pytest.mark.parametrize("run_id", ["x\x1b]0;T\x07; touch planted; \nhint: evil", "$(touch planted)", None])
def test_an_id_that_is_none_is_refused(
    host: tuple[Host, Callable[..., subprocess.CompletedProcess[str]]], run_id: object
) -> None:
    server, launch = host
    server.answer = json.dumps({**RECORD, "run_id": run_id}, indent=2).encode()
    done = launch()
    assert done.returncode == 123, done
    assert not done.stdout
    first, hint = done.stderr.splitlines()
    assert "its launcher began a run with a record that is none: run_id: " in first
    assert hint.startswith("hint: ssh -p ")
    assert hint.endswith(" -m ddpkit ps")


def test_a_host_writes_no_line_in_our_name(
    host: tuple[Host, Callable[..., subprocess.CompletedProcess[str]]],
) -> None:
    server, launch = host
    server.answer = b"hint: evil\n\x1b]0;T\x07ddpkit: one\rhint: two\xe2\x80\xa8hint: three\n"
    server.answer += json.dumps({**RECORD, "hint": "evil"}, indent=2).encode() + b"\n"
    done = launch("--json")
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["run_id"] == RECORD["run_id"]
    assert "evil" not in done.stdout
    *said, ours = done.stderr.splitlines()
    assert len(said) == 4
    assert all(line.startswith("127.0.0.1:") for line in said)
    assert ours.startswith("ddpkit: its launcher runs on 127.0.0.1:")
    assert ours.endswith(f" -m ddpkit attach {RECORD['run_id']}")
    server.answer, server.code = b"ddpkit: error: no\nhint: evil\n", 7
    done = launch()
    assert (done.returncode, done.stdout) == (7, "")
    assert not any(line.startswith("hint:") for line in done.stderr.splitlines())


def test_a_host_that_writes_without_end_is_left(
    host: tuple[Host, Callable[..., subprocess.CompletedProcess[str]]],
) -> None:
    server, launch = host
    done = launch()
    assert done.returncode == 123, done
    assert "its launcher printed more than 16 MiB" in done.stderr
    assert server.sent < 1 << 26


@pytest.mark.parametrize("text", ["{\n" * 100000, '{\n"a":' * 50000])
def test_what_is_no_document_takes_no_time(
    host: tuple[Host, Callable[..., subprocess.CompletedProcess[str]]], text: str
) -> None:
    server, launch = host
    server.answer = text.encode()
    done = launch()
    assert done.returncode == 125, done.stderr[:500]
    assert len(done.stderr) < 1 << 20
