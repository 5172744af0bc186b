"""One of four nodes is no good: it is named with its cause and the fix, soon, and nothing was started anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bare import ALL, Bare, Done
from cluster import NODES, Lab

BACKENDS = ("ssh", "pdsh")
LIMIT = 15.0  # seconds within which everything that is wrong must be known
RANKS = ("-n", "1", "-o", "starter=ranks")


@pytest.fixture
def bare(lab: Lab, tmp_path: Path) -> Iterator[Bare]:
    made = Bare(lab, tmp_path)
    try:
        yield made
    finally:
        made.undo()


def refused(done: Done, code: int, host: str, what: str, fix: str) -> None:
    """One block of plain words: this host, this cause, this fix; nobody else, and nothing ran."""
    assert done.code == code, done.text
    assert done.seconds < LIMIT, done.text
    assert done.out == ""
    assert "Traceback" not in done.err, done.text
    assert "  File " not in done.err, done.text
    assert "nothing was started" in done.err, done.text
    blocks = re.findall(r"^  (\S+): (.*)\n    fix: (.*)$", done.err, re.MULTILINE)
    assert len(done.err.splitlines()) == 1 + 2 * len(blocks), done.text
    assert [block[0] for block in blocks] == [host], done.text
    assert re.search(what, blocks[0][1]), done.text
    assert re.search(fix, blocks[0][2]), done.text


# ---- it cannot be entered: exit code 4


def unreachable(bare: Bare) -> None:
    bare.cut("node3")


def firewalled(bare: Bare) -> None:
    bare.firewall("node3", "tcp dport 22 drop")


def no_sshd(bare: Bare) -> None:
    bare.firewall("node3", "tcp dport 22 reject with tcp reset")


def wrong_key(bare: Bare) -> None:
    bare.sshd("node3", {"ssh/user.pub": "ssh/nobody.pub"})


def changed_host_key(bare: Bare) -> None:
    other = bare.key("other").with_suffix(".pub").read_text().split()[1]
    bare.known_hosts(lambda text: re.sub(r"(node3,\S+ \S+) \S+", rf"\1 {other}", text))


def unknown_host_key(bare: Bare) -> None:
    bare.known_hosts(lambda text: "".join(line for line in text.splitlines(True) if "node3" not in line))


def revoked_host_key(bare: Bare) -> None:
    bare.known_hosts(lambda text: text.replace("node3,", "@revoked node3,"))


def exits_early(bare: Bare) -> None:
    bare.write("node3", Path.home() / ".bashrc", "echo good morning\nexit 0\n")


def exits_early_with_an_error(bare: Bare) -> None:
    bare.write("node3", Path.home() / ".bashrc", "echo no licence left >&2\nexit 3\n")


def no_python(bare: Bare) -> None:
    bare.toml('[host.node3]\npython = "/nowhere/python"\n')


def python_that_hangs(bare: Bare) -> None:
    path = bare.folder / "python"
    path.write_text("#!/bin/sh\nexec sleep 3600\n")
    path.chmod(0o755)
    bare.toml(f'[host.node3]\npython = "{path}"\n')


def forced_command(bare: Bare) -> None:
    bare.sshd("node3", {}, more='ForceCommand echo "This account is for files only."\n')


def no_shell(bare: Bare) -> None:
    text = Path("/etc/passwd").read_text()
    bare.write("node3", "/etc/passwd", re.sub(r"^(root:.*):\S+$", r"\1:/usr/sbin/nologin", text, flags=re.MULTILINE))


ENTER: list[tuple[Callable[[Bare], None], str, str]] = [
    (unreachable, "no answer|no route to host", "ping node3"),
    (firewalled, "no answer", "ping node3"),
    (no_sshd, "connection refused", "on node3: systemctl status ssh"),
    (wrong_key, "takes none of the keys", "ssh-copy-id"),
    (changed_host_key, "host key has changed", "ssh-keygen -R '?node3"),
    (unknown_host_key, "host key is not known", "ssh to it once and compare"),
    (revoked_host_key, "host key .* revoked", "ask who runs"),
    (exits_early, "start-up file.*good morning", "bashrc"),
    (exits_early_with_an_error, "exit code 3.*no licence left", r"ssh node3 .*python.* --version"),
    (no_python, "Python cannot be started.*/nowhere/python", r"\[host\.node3\]"),
    (python_that_hangs, "its Python did not start our program in time", "python --version"),
    (forced_command, "forced command.*This account is for files only", "another key"),
    (no_shell, "exit code 1.*account is currently not available", "ssh node3"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", ENTER, ids=lambda fault: fault[0].__name__)
def test_a_node_that_cannot_be_entered(
    bare: Bare, backend: str, fault: tuple[Callable[[Bare], None], str, str]
) -> None:
    make, what, fix = fault
    make(bare)
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")
    print(done.text)
    refused(done, 4, "node3", what, fix)
    bare.nothing_left([name for name in NODES if name != "node3"])
