"""What the SSH configuration says of one host holds for that host alone, also where many threads ask at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import fabric
import paramiko
import pytest

from ddpkit.transports import hosts, ssh_config
from ddpkit.transports import ssh as remote

CONFIG = "".join(f"Host node{number}\n  IdentityFile /keys/{number}\n  User user{number}\n" for number in range(64))


def test_keys_of_one_host_are_not_offered_to_another(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG.replace("/keys/", f"{tmp_path}/"))
    for number in range(64):
        (tmp_path / str(number)).touch()
    config = ssh_config.read_config([tmp_path / "config"])
    ssh = remote.Ssh(accept_new=False, timeout=1.0, note=lambda _: None, config=config)
    specs = hosts.parse(["node[0-63]"], {}, {}, "")
    found: dict[str, tuple[str, object]] = {}
    problems: list[Exception] = []
    together = threading.Barrier(len(specs))

    def ask(spec: hosts.HostSpec) -> None:
        together.wait()
        try:
            connection = ssh._connection(spec)
            found[spec.name] = (connection.user, connection.connect_kwargs["key_filename"])
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=(spec,)) for spec in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert found == {f"node{number}": (f"user{number}", [f"{tmp_path}/{number}"]) for number in range(64)}


@pytest.mark.parametrize(
    ("patterns", "name", "known"),
    [
        (["node1", "10.0.0.1"], "node1", True),
        (["Node1"], "node1", True),
        (["node1"], "node10", False),
        (["node*"], "node10", True),
        (["node?"], "node10", False),
        (["*", "!node1"], "node1", False),
        (["[node1]:2222"], "[node1]:2222", True),
        (["[node*]:2222"], "[node1]:2222", True),
        (["[node1]:2222"], "n", False),
        (["|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg="], "192.168.1.61", True),
    ],
)
def test_lines_of_known_hosts(patterns: list[str], name: str, known: bool) -> None:
    assert ssh_config._matches(patterns, name) is known


def test_what_libraries_import_for_tests_alone_costs_a_launch_nothing() -> None:
    code = (
        "import sys, ddpkit.transports.ssh; print(*sorted({'asyncio', 'unittest', 'unittest.mock'} & set(sys.modules)))"
    )
    code += "\nfrom unittest.mock import Mock; print(type(Mock().any).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\nMock\n"


def test_the_command_that_explains_a_strange_server_has_its_port() -> None:
    connection = fabric.Connection("node1", user="me", port=2222, config=fabric.Config(lazy=True))
    refused = remote._explained(paramiko.SSHException('Indecipherable protocol version "hello"'), connection, 1, 5.0)
    assert refused.fix == "ssh -v -p 2222 me@node1 true"
