"""The known keys of hosts, found as OpenSSH finds them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh.config import SshHost
from ddpkit.transports.ssh.keys import KnownHosts, _matches


def made(folder: Path, name: str, kind: str = "ed25519") -> tuple[str, Any]:
    """A new host key: its line in a known_hosts file, without the host; and as paramiko knows it."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(path)], check=True)
    words = path.with_suffix(".pub").read_text().split()
    return " ".join(words[:2]), paramiko.PKey.from_path(path)


class Known:
    def __init__(self, folder: Path, *, accept_new: bool = False) -> None:
        self.path = folder / "known_hosts"
        self.notes: list[str] = []
        self.hosts = KnownHosts(accept_new=accept_new, note=self.notes.append)
        self.files = (str(self.path),)

    def host(self, name: str, port: int = 22, **more: Any) -> SshHost:
        return replace(SshHost(name=name, hostname=name, user="me", port=port, user_known_hosts=self.files), **more)

    def check(self, host: str, key: Any, port: int = 22, **more: Any) -> None:
        made = self.host(host, port, **more)
        self.hosts.check(made, self.hosts.name(made), key, f"me@{host}")

    def refuses(self, words: str, host: str, key: Any, port: int = 22, **more: Any) -> str:
        with pytest.raises(RefusedError, match=words) as caught:
            self.check(host, key, port, **more)
        return caught.value.fix


def test_only_the_known_key_is_taken(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    _, other = made(tmp_path, "two")
    known.path.write_text(f"# the lab\n\nrubbish\nnode1,10.0.0.1 {line}\n@cert-authority *.b {line}\n")
    known.check("node1", key)
    known.check("NODE1", key)
    known.check("10.0.0.1", key)
    fix = known.refuses("has changed .now ssh-ed25519 SHA256:", "node1", other)
    assert f"ssh-keygen -F node1 -f {known.path}" in fix
    assert known.refuses("is not known", "node2", key) == (
        "connect once, and compare the fingerprint: ssh me@node2; or add -o accept_new_host_keys=true"
    )
    known.refuses("is not known", "node1.b", key)


def test_a_host_that_ssh_knows_by_its_certificate(tmp_path: Path) -> None:
    """To ssh to it once adds nothing to known_hosts, and would help nobody."""
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    known.path.write_text(f"@cert-authority *.lab {line}\n")
    assert known.refuses("is not known .* only its certificate", "node1.lab", key) == "use -o transport=openssh"
    assert "accept_new_host_keys" in known.refuses("is not known", "node1", key)
    assert "transport=openssh" in known.refuses("is not known", "node1", key, known_hosts_command="/usr/bin/keys %H")


@pytest.mark.parametrize(
    "broken", ["node1 ssh-ed25519 !!!", "node2 ssh-ed25519 x", "|1|a|b {line}", "|1|a {line}", "|1|"]
)
def test_a_broken_line_hides_no_other(tmp_path: Path, broken: str) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    known.path.write_text(f"{broken.format(line=line)}\nnode1 {line}\n")
    known.check("node1", key)


def test_hashed_names_and_patterns(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    known.path.write_text(f"node1 {line}\n[node1]:2222 {line}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known.path)], check=True, capture_output=True)
    known.path.write_text(known.path.read_text() + f"*.lab,!bad.lab,gpu? {line}\n[port-*]:22?? {line}\n")
    assert "node1" not in known.path.read_text()
    known.check("node1", key)
    known.check("node1", key, 2222)
    known.check("a.lab", key)
    known.check("gpu7", key)
    known.check("port-a", key, 2201)
    for host in ("node2", "bad.lab", "gpu77", "gpu", "port-a"):
        known.refuses("is not known", host, key)


def test_another_port_may_have_the_hosts_own_key_or_its_own(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    second, other = made(tmp_path, "two")
    known.path.write_text(f"node1 {line}\nnode2 {line}\n[node2]:2222 {second}\n")
    known.check("node1", key, 2222)
    known.check("node2", other, 2222)
    known.refuses("has changed", "node2", key, 2222)
    known.refuses("has changed", "node2", other)


def test_an_alias_stands_for_name_and_port(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    known.path.write_text(f"real {line}\n")
    known.check("10.0.0.9", key, 2222, host_key_alias="real")
    known.refuses("is not known", "10.0.0.9", key, 2222)


def test_revoked_keys_are_refused_wherever_they_are_known(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    known.path.write_text(f"node1 {line}\n@revoked * {line}\n")
    known.refuses("was revoked", "node1", key)


def test_several_files_are_read(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "one")
    (tmp_path / "more").write_text(f"node1 {line}\n")
    known.check("node1", key, user_known_hosts=(f"{tmp_path}/nothing", f"{tmp_path}/more"))


def test_new_keys_are_added_where_asked_and_changed_ones_never(tmp_path: Path) -> None:
    known = Known(tmp_path, accept_new=True)
    line, key = made(tmp_path, "one")
    _, other = made(tmp_path, "two")
    known.path.write_text("# no end of line")
    known.check("node1", key)
    known.check("node1", key, 2222, user_known_hosts=(str(tmp_path / "new" / "known"),))
    known.check("node1", key)  # and not twice
    assert known.path.read_text() == f"# no end of line\nnode1 {line}\n"
    assert (tmp_path / "new/known").read_text() == f"[node1]:2222 {line}\n"
    assert [note.partition(" to ")[0] for note in known.notes] == [
        "added the ssh-ed25519 key of node1",
        "added the ssh-ed25519 key of [node1]:2222",
    ]
    known.refuses("has changed", "node1", other)


@pytest.mark.parametrize("asked", ["accept-new", "off"])
def test_the_configuration_may_ask_for_new_keys_as_well(tmp_path: Path, asked: str) -> None:
    known = Known(tmp_path)
    _, key = made(tmp_path, "one")
    _, other = made(tmp_path, "two")
    known.check("node1", key, strict_host_keys=asked)
    known.refuses("has changed", "node1", other, strict_host_keys=asked)


def test_a_key_is_never_added_to_the_file_of_the_machine(tmp_path: Path) -> None:
    known = Known(tmp_path, accept_new=True)
    _, key = made(tmp_path, "one")
    known.check("node1", key, user_known_hosts=(), machine_known_hosts=(str(known.path),))
    assert not known.path.exists()


def test_a_user_who_wants_nothing_remembered_hears_nothing(tmp_path: Path) -> None:
    known = Known(tmp_path)
    _, key = made(tmp_path, "one")
    known.check("node1", key, strict_host_keys="off", user_known_hosts=("/dev/null",))
    assert known.notes == []


def test_a_file_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    known = Known(tmp_path, accept_new=True)
    _, key = made(tmp_path, "one")
    known.check("node1", key, user_known_hosts=(str(tmp_path),))
    assert known.notes == [f"cannot add the key of node1 to {tmp_path}: Is a directory"]


def test_kinds_are_told_apart(tmp_path: Path) -> None:
    known = Known(tmp_path)
    rsa, rsa_key = made(tmp_path, "rsa", "rsa")
    _, ed_key = made(tmp_path, "ed")
    known.path.write_text(f"node1 {rsa}\n")
    assert list(known.hosts.keys(known.host("node1"), "node1")) == ["ssh-rsa"]
    known.check("node1", rsa_key)
    known.refuses("has changed", "node1", ed_key)


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_key_that_is_revoked_for_a_host_is_revoked_on_each_port(tmp_path: Path, accept_new: bool) -> None:
    """As for OpenSSH: the key of another port's sshd may be that of the host, and so may its end."""
    known = Known(tmp_path, accept_new=accept_new)
    line, key = made(tmp_path, "key")
    known.path.write_text(f"node1 {line}\n@revoked node1 {line}\n@revoked [node2]:2222 {line}\n")
    known.refuses("was revoked", "node1", key)
    known.refuses("was revoked", "node1", key, 2222)
    known.refuses("was revoked", "node2", key, 2222)
    known.path.write_text(f"@revoked node1 {line}\n")
    fresh = Known(tmp_path, accept_new=accept_new)
    fresh.refuses("was revoked", "node1", key, 2222)
    assert fresh.path.read_text() == f"@revoked node1 {line}\n"


def test_a_list_of_revoked_keys_is_for_ssh_to_read(tmp_path: Path) -> None:
    known = Known(tmp_path)
    line, key = made(tmp_path, "key")
    known.path.write_text(f"node1 {line}\n")
    assert known.refuses("the list of revoked", "node1", key, revoked_host_keys="/x") == "use -o transport=openssh"


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
    assert _matches(patterns, name) is known
