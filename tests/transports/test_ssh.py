"""What the SSH configuration says of one host holds for that host alone, also where many threads ask at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import paramiko
import pytest

from ddpkit.transports import hosts
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh import client as remote
from ddpkit.transports.ssh.config import SshConfig, SshHost, read_files
from ddpkit.transports.ssh.sockets import ProxySocket

CONFIG = "".join(f"Host node{number}\n  IdentityFile /keys/{number}\n  User user{number}\n" for number in range(64))


def test_keys_of_one_host_are_not_offered_to_another(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    config = SshConfig(lambda spec: read_files(spec, [tmp_path / "config"]))
    ssh = remote.Ssh(accept_new=False, timeout=1.0, note=lambda _: None, config=config)
    specs = hosts.parse(["node[0-63]"], {}, {}, "")
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    problems: list[Exception] = []
    together = threading.Barrier(len(specs))

    def ask(spec: hosts.HostSpec) -> None:
        together.wait()
        try:
            login = ssh._login(spec, ())
            found[spec.name] = (login.connection.user, login.host.identity_files)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=(spec,)) for spec in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert found == {f"node{number}": (f"user{number}", (f"/keys/{number}",)) for number in range(64)}


def test_what_invoke_imports_for_others_costs_a_launch_nothing_and_works_for_them(tmp_path: Path) -> None:
    (tmp_path / "invoke.yaml").write_text("asks: {shell: zsh}")
    code = "import sys, ddpkit.transports.ssh.client\n"
    code += "print(*sorted({'asyncio', 'unittest', 'invoke.vendor.yaml'} & set(sys.modules)))\n"
    code += "import invoke; from unittest.mock import Mock\n"
    code += "config = invoke.config.Config(system_prefix=sys.argv[1], lazy=True); config.load_system()\n"
    code += "print(config.asks.shell, invoke.MockContext(run={'ls': True}).run('ls').ok, type(Mock().any).__name__)"
    argv = [sys.executable, "-c", code, f"{tmp_path}/"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "\nzsh True Mock\n"


@pytest.mark.parametrize("module", ["openssh", "pdsh"])
def test_connections_through_a_program_do_not_load_paramiko(module: str) -> None:
    code = f"import sys, ddpkit.transports.ssh.{module}; print('paramiko' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def login(text: str = "", spec: str = "me@node1:2222") -> remote._Login:
    [parsed] = hosts.parse([spec], {}, {}, "")
    host = SshHost(name="node1", hostname="10.0.0.1", user="me", port=2222, proxy_command=text)
    return remote._Login(parsed, host, None, 5.0)


def test_the_command_that_explains_a_strange_server_is_what_the_user_would_type() -> None:
    """With the name of the configuration, and so with its agent and proxy."""
    error = paramiko.SSHException('Indecipherable protocol version "hello"')
    assert remote._explained(error, login(), 1, 5.0).fix == "ssh -v -p 2222 me@node1 true"
    assert remote._explained(error, login(spec="node1"), 1, 5.0).fix == "ssh -v node1 true"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sleep 60", "connects to no SSH server in 0.8 s, and says nothing"),
        ("sh -c 'echo HTTP/1.1 407 Proxy Authentication Required; sleep 60'", "407 Proxy Authentication Required"),
        ("sh -c 'echo HTTP/1.1 407 Proxy Authentication Required'", "exit code 0; its output: HTTP/1.1 407 Proxy"),
        ("sh -c 'echo no tunnel >&2; exit 7'", "ended with exit code 7; its output: no tunnel"),
        ("no-such-program node1", "no-such-program"),
    ],
)
def test_what_a_proxy_says_is_its_own(command: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And never that of the node, which nobody reached."""
    monkeypatch.setenv("SHELL", "/bin/sh")
    values = {"hostname": ["10.0.0.1"], "proxycommand": [command]}
    ssh = remote.Ssh(accept_new=False, timeout=1.0, note=print, config=SshConfig(lambda _: values))
    with pytest.raises(RefusedError) as refused:
        ssh.enter(hosts.HostSpec(name="node1"), "true", time.monotonic() + 20.0)
    assert refused.value.what.startswith(f"its proxy (ProxyCommand {command}) ")
    assert words in refused.value.what
    assert refused.value.fix == "ssh -v node1 true"


def test_a_proxy_that_writes_much_to_standard_error_is_no_obstacle() -> None:
    proxy = ProxySocket("sh -c 'head -c 300000 /dev/zero >&2; printf SSH-2.0-x; read x'")
    proxy.settimeout(20.0)
    assert proxy.recv(100) == b"SSH-2.0-x"
    assert proxy.greeted
    proxy.close()
