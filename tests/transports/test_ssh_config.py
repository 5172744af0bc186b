"""The user's ssh configuration and known hosts, read as OpenSSH reads them."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import fabric
import paramiko
import pytest

from ddpkit.errors import UsageError
from ddpkit.transports import ssh
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.ssh_config import KnownHosts, is_encrypted, read_config


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
        self.config: dict[str, Any] = {"userknownhostsfile": f'"{self.path}"', "globalknownhostsfile": "none"}

    def check(self, host: str, key: Any, port: int = 22, **config: str) -> None:
        merged = {**self.config, **config}
        self.hosts.check(merged, self.hosts.name(merged, host, port), key, f"me@{host}")

    def refuses(self, words: str, host: str, key: Any, port: int = 22, **config: str) -> str:
        with pytest.raises(RefusedError, match=words) as caught:
            self.check(host, key, port, **config)
        return caught.value.fix


# ---- configuration


def test_includes_are_followed_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "conf d").mkdir()
    (tmp_path / "config").write_text(
        f'Include "conf d/*" {tmp_path}/absolute nothing/*\nHost a\n  Include in_a\n  Port 7\nHost *\n  User last\n'
    )
    (tmp_path / "conf d/1").write_text("Host a\n  User first\n")
    (tmp_path / "conf d/2").write_text("# a comment\nHost b\n  Include nested\nInclude = in_a\n")
    (tmp_path / "nested").write_text("User nested\nPort 9\n")  # beside the outermost file, as OpenSSH has it
    (tmp_path / "absolute").write_text("Compression yes\n")
    (tmp_path / "in_a").write_text("HostName a.example\n")
    config = read_config([tmp_path / "config"])
    a, b, c = (config.lookup(name) for name in "abc")
    assert (a["user"], a["port"], a["hostname"], a["compression"]) == ("first", "7", "a.example", "yes")
    assert (b["user"], b["port"], b["hostname"]) == ("nested", "9", "a.example")
    assert (c["user"], c["hostname"]) == ("last", "c")
    assert "port" not in c
    assert c["compression"] == "yes"


def test_a_file_that_includes_itself_comes_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Include config\nHost a\n  Port 5\n")
    assert read_config([tmp_path / "config"]).lookup("a")["port"] == "5"


def test_what_distributions_write_is_understood(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host *\n  SendEnv LANG LC_*\nMatch final all\n  Include 50.conf\n")
    (tmp_path / "50.conf").write_text("GSSAPIAuthentication yes\nUser everybody\n")
    assert read_config([tmp_path / "config"]).lookup("a")["user"] == "everybody"


@pytest.mark.parametrize(
    ("line", "user"),
    [
        ("Match all", "me"),
        ("Match host a", "me"),
        ("Match final host b", "last"),
        ("Match !host b", "me"),
        ('Match originalhost "a,b"', "me"),
        ("Match host a localnetwork 10.0.0.0/8", "last"),  # paramiko cannot say
        ("Match version OpenSSH_9.*", "last"),
        ("Match tagged x", "last"),
    ],
)
def test_match(tmp_path: Path, line: str, user: str) -> None:
    (tmp_path / "config").write_text(f"{line}\n  User me\nHost *\n  User last\n")
    assert read_config([tmp_path / "config"]).lookup("a")["user"] == user


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host a\n  User\n")
    with pytest.raises(UsageError, match="ssh/config"):
        read_config([tmp_path / "config"])


def test_no_configuration_is_none(tmp_path: Path) -> None:
    assert read_config([tmp_path / "nothing"]).lookup("a")["hostname"] == "a"


# ---- known hosts


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
    assert (
        known.refuses("is not known .* only its certificate", "node1.lab", key)
        == "use -b pdsh, which runs OpenSSH itself"
    )
    assert "accept_new_host_keys" in known.refuses("is not known", "node1", key)
    assert "-b pdsh" in known.refuses("is not known", "node1", key, knownhostscommand="/usr/bin/keys %H")


def test_a_home_that_is_not_the_one_that_ssh_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container of CI, or under sudo: the key is known to ssh, which goes by the password database."""
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)
    if not (own / ".ssh").is_dir():
        pytest.skip(f"{own} has no .ssh")
    known = Known(tmp_path)
    _, key = made(tmp_path, "one")
    monkeypatch.setenv("HOME", str(own))
    assert "accept_new_host_keys" in known.refuses("is not known", "node1", key)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert known.refuses(f"is not known .* and ssh itself reads {own}", "node1", key) == f"HOME={own} ddpkit ..."


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
    known.check("10.0.0.9", key, 2222, hostkeyalias="real")
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
    known.check("node1", key, userknownhostsfile=f"{tmp_path}/nothing {tmp_path}/more")
    known.check("node1", key, globalknownhostsfile=f"{tmp_path}/more", userknownhostsfile="none")


def test_new_keys_are_added_where_asked_and_changed_ones_never(tmp_path: Path) -> None:
    known = Known(tmp_path, accept_new=True)
    line, key = made(tmp_path, "one")
    _, other = made(tmp_path, "two")
    known.path.write_text("# no end of line")
    known.check("node1", key)
    known.check("node1", key, 2222, userknownhostsfile=str(tmp_path / "new" / "known"))
    known.check("node1", key)  # and not twice
    assert known.path.read_text() == f"# no end of line\nnode1 {line}\n"
    assert (tmp_path / "new/known").read_text() == f"[node1]:2222 {line}\n"
    assert [note.partition(" to ")[0] for note in known.notes] == [
        "added the ssh-ed25519 key of node1",
        "added the ssh-ed25519 key of [node1]:2222",
    ]
    known.refuses("has changed", "node1", other)


@pytest.mark.parametrize("asked", ["accept-new", "no", "off"])
def test_the_configuration_may_ask_for_new_keys_as_well(tmp_path: Path, asked: str) -> None:
    known = Known(tmp_path)
    _, key = made(tmp_path, "one")
    _, other = made(tmp_path, "two")
    known.check("node1", key, stricthostkeychecking=asked)
    known.refuses("has changed", "node1", other, stricthostkeychecking=asked)


def test_a_user_who_wants_nothing_remembered_hears_nothing(tmp_path: Path) -> None:
    known = Known(tmp_path)
    _, key = made(tmp_path, "one")
    known.check("node1", key, stricthostkeychecking="no", userknownhostsfile="/dev/null")
    assert known.notes == []


def test_a_file_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    known = Known(tmp_path, accept_new=True)
    _, key = made(tmp_path, "one")
    known.check("node1", key, userknownhostsfile=str(tmp_path))
    assert known.notes == [f"cannot add the key of node1 to {tmp_path}: Is a directory"]


def test_kinds_are_told_apart(tmp_path: Path) -> None:
    known = Known(tmp_path)
    rsa, rsa_key = made(tmp_path, "rsa", "rsa")
    _, ed_key = made(tmp_path, "ed")
    known.path.write_text(f"node1 {rsa}\n")
    assert list(known.hosts.keys(known.config, "node1")) == ["ssh-rsa"]
    known.check("node1", rsa_key)
    known.refuses("has changed", "node1", ed_key)


# ---- keys


@pytest.mark.parametrize("form", ["RFC4716", "PEM", "PKCS8"])
@pytest.mark.parametrize("passphrase", ["", "open sesame"])
def test_locked_keys_are_known_as_such(tmp_path: Path, form: str, passphrase: str) -> None:
    path = tmp_path / "key"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-m", form, "-N", passphrase, "-f", str(path)],
        check=True,
    )
    assert is_encrypted(path.read_text()) is bool(passphrase)


def test_what_is_no_key_is_not_locked() -> None:
    assert not is_encrypted("")
    assert not is_encrypted("-----BEGIN OPENSSH PRIVATE KEY-----\n?\n-----END OPENSSH PRIVATE KEY-----\n")


@pytest.mark.parametrize(
    ("typed", "config", "target"),
    [
        ("node1", "", "node1"),
        ("me@node1:2222", "", "-p 2222 me@node1"),
        ("node1", "Host node1\n  HostName 10.0.0.9\n  User me\n  Port 2222\n", "node1"),
        ("you@node1:22", "Host node1\n  User me\n  Port 2222\n", "-p 22 you@node1"),
    ],
)
def test_the_ssh_that_a_person_would_type_for_a_connection(
    typed: str, config: str, target: str, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(config)
    settings = fabric.Config(ssh_config=read_config([tmp_path / "config"]), lazy=True)
    assert ssh._target(fabric.Connection(typed, config=settings)) == target


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
