"""The keys of a login: which are tried, and in which order. An agent that says nothing is left out."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from paramiko import PKey

from ddpkit.transports.ssh.certificates import Certificate, read_certificate
from ddpkit.transports.ssh.config import SshHost, is_encrypted
from ddpkit.transports.ssh.keys import Agent, Keys, public_part
from ddpkit.transports.ssh.program import leave_out_if_silent


@pytest.fixture
def place() -> Iterator[Path]:
    folder = tempfile.mkdtemp(prefix="dk-", dir="/tmp")  # a socket's path has at most 107 bytes
    yield Path(folder, "agent")
    shutil.rmtree(folder)


def test_one_that_says_nothing(place: Path) -> None:
    notes: list[str] = []
    environ = {"SSH_AUTH_SOCK": str(place), "HOME": "/"}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        leave_out_if_silent(environ, notes.append, 0.3)
    assert environ == {"HOME": "/"}
    assert len(notes) == 1
    assert str(place) in notes[0]


@pytest.mark.parametrize("kind", ["none", "empty", "gone", "dead", "a file"])
def test_none_is_no_matter(kind: str, place: Path) -> None:
    environ = {"none": {}, "empty": {"SSH_AUTH_SOCK": ""}}.get(kind, {"SSH_AUTH_SOCK": str(place)})
    if kind == "a file":
        place.touch()
    if kind == "dead":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    before = dict(environ)
    notes: list[str] = []
    leave_out_if_silent(environ, notes.append, 0.3)
    assert (environ, notes) == (before, [])


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="there is no ssh-agent here")
def test_one_that_lives(place: Path) -> None:
    environ = {"SSH_AUTH_SOCK": str(place)}
    notes: list[str] = []
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline()  # it listens
        leave_out_if_silent(environ, notes.append)
        agent.terminate()
    assert (list(environ), notes) == (["SSH_AUTH_SOCK"], [])


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


def made(path: Path, kind: str = "ed25519", passphrase: str = "") -> bytes:
    """A key; its public part."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)
    blob = public_part(str(path))
    assert blob is not None
    return blob


@pytest.mark.parametrize("kind", ["rsa", "ed25519", "ecdsa"])
def test_the_public_part_of_a_file(kind: str, tmp_path: Path) -> None:
    blob = made(tmp_path / "key", kind)
    assert blob == PKey.from_path(tmp_path / "key").asbytes()
    assert public_part(str(tmp_path / "key.pub")) == blob
    (tmp_path / "key.pub").rename(tmp_path / "other")
    assert public_part(str(tmp_path / "key")) == blob  # from OpenSSH's own format
    assert public_part(str(tmp_path / "none")) is None
    (tmp_path / "rubbish").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n?\n")
    assert public_part(str(tmp_path / "rubbish")) is None


@pytest.mark.skipif(shutil.which("ssh-agent") is None, reason="there is no ssh-agent here")
def test_keys_are_tried_in_the_order_of_openssh(place: Path, tmp_path: Path) -> None:
    """As for 1Password: the configuration has the public part, and an agent of its own has the key."""
    blobs = {name: made(tmp_path / name) for name in ("first", "second", "mine", "file")}
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(place)], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline()
        for name in ("first", "second", "mine"):
            environ = {**os.environ, "SSH_AUTH_SOCK": str(place)}
            subprocess.run(["ssh-add", "-q", str(tmp_path / name)], env=environ, check=True)
            (tmp_path / name).unlink()
        files = (str(tmp_path / "none"), str(tmp_path / "file"), str(tmp_path / "mine.pub"))

        def tried(*, only: bool = False) -> list[str]:
            host = SshHost(name="x", hostname="x", user="me", port=22, identity_files=files, identities_only=only)
            keys = Keys(host, None, str(place))
            found = [key.asbytes() for key in keys]
            keys.close()
            return [name for each in found for name, blob in blobs.items() if blob == each]

        assert tried() == ["mine", "first", "second", "file"]
        assert tried(only=True) == ["mine", "file"]
        agent.terminate()
    assert Agent(str(place)).get_keys() == ()


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    made(tmp_path / "locked", passphrase="open sesame")
    (tmp_path / "odd").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n?\n-----END OPENSSH PRIVATE KEY-----\n")
    files = tuple(str(tmp_path / name) for name in ("locked", "odd", "none"))
    host = SshHost(name="x", hostname="x", user="me", port=22, identity_files=files)
    keys = Keys(host, None, "")
    assert list(keys) == []
    assert (keys.locked, keys.unusable) == (files[0], files[1])
    assert len(list(Keys(host, "open sesame", ""))) == 1
    assert Keys(host, "wrong", "").tried == 0


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_certificate_of_each_kind_of_key_is_read(kind: str, tmp_path: Path) -> None:
    for name in ("key", "authority"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(tmp_path / name)], check=True)
    words = ["-I", "x", "-n", "me,you", "-V", "20240101:20240102", "-O", "force-command=true"]
    utc = {**os.environ, "TZ": "UTC"}
    subprocess.run(
        ["ssh-keygen", "-q", "-s", tmp_path / "authority", *words, tmp_path / "key.pub"], check=True, env=utc
    )
    certificate = read_certificate((tmp_path / "key-cert.pub").read_text())
    assert certificate == Certificate(of_user=True, principals=["me", "you"], after=1704067200, before=1704153600)
    assert read_certificate((tmp_path / "key.pub").read_text()) is None
    cut = " ".join(each[:60] for each in (tmp_path / "key-cert.pub").read_text().split())
    assert read_certificate(cut) is None
