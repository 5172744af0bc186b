"""One of four nodes is no good: it is named with its cause and the fix, soon, and nothing was started anywhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bare_nodes import ALL, JOB, Bare, Done
from cluster import NODES

BACKENDS = ("ssh", "pdsh")
LIMIT = 15.0  # seconds within which everything that is wrong must be known
RANKS = ("-n", "1", "-o", "starter=ranks")


def refused(done: Done, code: int, host: str, what: str, fix: str) -> None:
    """One block of plain words: this host, this cause, this fix; nobody else, and nothing ran."""
    assert done.code == code, done.text
    assert done.seconds < LIMIT or done.slow, done.text
    assert done.out == ""
    assert "Traceback" not in done.err, done.text
    assert "  File " not in done.err, done.text
    assert "nothing was started" in done.err, done.text
    blocks = re.findall(r"^  (\S+): (.*)\n    hint: (.*)$", done.err, re.MULTILINE)
    # All but who is waited for, which a person is told when it lasts.
    lines = [line for line in done.err.splitlines() if not line.startswith("ddpkit: waiting for ")]
    assert len(lines) == 1 + 2 * len(blocks), done.text
    assert [block[0] for block in blocks] == [host], done.text
    assert re.search(what, blocks[0][1]), done.text
    assert re.search(fix, blocks[0][2]), done.text


# ---- it cannot be entered: exit code 123


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


def reads_input(bare: Bare) -> None:
    bare.write("node3", Path.home() / ".bashrc", 'read -p "activate env? [y/n] " yn\n')


def no_python(bare: Bare) -> None:
    bare.toml('[host.node3]\npython = "/nowhere/python"\n')


def python_that_hangs(bare: Bare) -> None:
    path = bare.folder / "python"
    path.write_text("#!/bin/sh\nexec sleep 3600\n")
    path.chmod(0o755)
    bare.toml(f'[host.node3]\npython = "{path}"\n')


def old_python(bare: Bare) -> None:
    """A stand-in that runs what it is given under another version's name: no old Python is to be had everywhere."""
    path = bare.folder / "python"
    old = "import sys; sys.version, sys.version_info = '3.6.8 (default)', (3, 6, 8); exec(sys.argv[1])"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I -c "{old}" "$4"\n')
    path.chmod(0o755)
    bare.toml(f'[host.node3]\npython = "{path}"\n')


def python_2(bare: Bare) -> None:
    """What Python 2.7.18 says of `-I`."""
    path = bare.folder / "python"
    path.write_text(f"#!/bin/sh\nprintf 'Unknown option: -I\\nusage: {path} [option] ...\\n' >&2\nexit 2\n")
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
    (wrong_key, "accepts none of the keys", "ssh-copy-id"),
    (changed_host_key, "host key has changed", "ssh-keygen -F node3"),
    (unknown_host_key, "host key is not known", "connect once, and compare the fingerprint: ssh node3"),
    (revoked_host_key, "host key .* revoked", "administrator"),
    (exits_early, "start-up file.*good morning", "bashrc"),
    (exits_early_with_an_error, "exit code 3.*no licence left", r"ssh node3 .*python.* --version"),
    (reads_input, "start-up file of its shell took the input", "end ~/.bashrc early"),
    (no_python, "Python cannot be started.*/nowhere/python", r"\[host\.node3\]"),
    (python_that_hangs, "its Python did not start ddpkit's process in time", "python --version; .*-o connect_timeout="),
    (old_python, "its Python 3.6.8 is older than 3.8; ddpkit requires Python 3.8", r"\[host\.node3\]"),
    (python_2, "its Python is older than 3.4; ddpkit requires Python 3.8", r"\[host\.node3\]"),
    (forced_command, "forced command.*This account is for files only", "end ~/.bashrc early"),
    (no_shell, "exit code 1.*account is currently not available", "ssh node3"),
]


@pytest.mark.parametrize("backend", [*BACKENDS, "openssh"])
@pytest.mark.parametrize("fault", ENTER, ids=lambda fault: fault[0].__name__)
@pytest.mark.thorough_for(
    "python_that_hangs-pdsh",
    # pdsh logs in with the same program.
    *(f"{name}-openssh" for name in ("python_that_hangs", "unreachable", "firewalled", "unknown_host_key")),
    *(f"{name}-openssh" for name in ("revoked_host_key", "exits_early_with_an_error", "old_python", "python_2")),
    "no_shell-openssh",
)
def test_a_node_that_cannot_be_entered(
    bare: Bare, backend: str, fault: tuple[Callable[[Bare], None], str, str]
) -> None:
    make, what, fix = fault
    make(bare)
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")

    refused(done, 123, "node3", what, fix)
    bare.nothing_left([name for name in NODES if name != "node3"])


# ---- it was entered, and cannot run the job: exit code 122


def no_torch(bare: Bare) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare.folder / "bare"], check=True)
    bare.toml(f'[host.node3]\npython = "{bare.folder}/bare/bin/python"\n')


def another_torch(bare: Bare, host: str = "node3") -> None:
    place = importlib.util.find_spec("torch")
    assert place is not None
    assert place.origin is not None
    path = Path(place.origin).with_name("version.py")
    text = re.sub("__version__ = .*", "__version__ = '1.13.1+cu117'", path.read_text())
    bare.write(host, path, text)


def another_script(bare: Bare) -> None:
    bare.write("node3", bare.folder / "job.py", JOB + "# edited\n")


def no_script(bare: Bare) -> None:
    bare.small("node3", bare.folder, "size=1m")


def no_workdir(bare: Bare) -> None:
    bare.small("node3", bare.folder.parent, "size=1m")


def workdir_of_another(bare: Bare) -> None:
    (bare.folder / "file").touch()
    bare.toml(f'[host.node3]\nworkdir = "{bare.folder}/file"\n')


def full_tmp(bare: Bare) -> None:
    bare.small("node3", bare.folder / "tmp", "size=64k")
    bare.lab.run("node3", "dd", "if=/dev/zero", f"of={bare.folder}/tmp/full", "bs=4k", check=False)
    bare.sshd("node3", {f"SetEnv TMPDIR={bare.lab.tmp}": f"SetEnv TMPDIR={bare.folder}/tmp"})


def no_tmp(bare: Bare) -> None:
    bare.sshd("node3", {f"SetEnv TMPDIR={bare.lab.tmp}": "SetEnv TMPDIR=/nowhere/tmp"})


def read_only_tmp(bare: Bare) -> None:
    bare.show("node3", "/tmp", "/tmp")
    bare.lab.run("node3", "mount", "-o", "remount,bind,ro", "/tmp")


def high_ports(bare: Bare) -> None:
    bare.firewall("node3", "tcp dport 32768-60999 ct state new drop")


def declared_gpus(bare: Bare) -> None:
    bare.write("node3", Path.home() / ".bashrc", "export DDPKIT_GPUS=four\n")


def named_twice(bare: Bare) -> None:
    # An alias of ~/.ssh/config, as people have them: node3 is named by both.
    bare.ssh_config("Host node4\n  HostName node3\n  HostKeyAlias node3\n")


ALONE: list[tuple[Callable[[Bare], None], str, str, str]] = [
    (no_torch, "node3", "/bare/bin/python cannot import torch", "ssh node3 .*/bare/bin/python -m pip install torch==2"),
    (another_torch, "node3", r"has torch 1.13.1\+cu117, the other nodes 2", "pip install torch==2"),
    (another_script, "node3", "its job.py differs from the one here", "add --sync"),
    (no_script, "node3", "job.py not found in /", "add --sync"),
    (no_workdir, "node3", "cannot use the directory /.*: no such file or directory", "add --sync"),
    (workdir_of_another, "node3", "cannot use the directory /.*/file: not a directory", "workdir = "),
    (full_tmp, "node3", "cannot write to its directory /.*/tmp: no space left", "ssh node3 df /.*/tmp"),
    (
        no_tmp,
        "node3",
        "cannot write to its directory /nowhere/tmp: no such file",
        "ssh node3 mkdir -p /nowhere/tmp, or unset TMPDIR there",
    ),
    (read_only_tmp, "node3", "cannot write to its directory /.*/tmp: read-only", "ssh node3 findmnt -T /.*/tmp, or"),
    (high_ports, "node3", "node2 cannot reach its port [3-6][0-9]{4} .*no answer", "32768-60999"),
    (declared_gpus, "node3", "DDPKIT_GPUS=four", "DDPKIT_GPUS"),
    (named_twice, "node4", "the same machine as node3", "list it once"),
]


# A node reports them in the same words over both: each fault once, and the rest with `make test-thorough`.
OVER_EITHER = [
    pytest.param(backend, fault, id=f"{fault[0].__name__}-{backend}", marks=() if first else pytest.mark.thorough)
    for number, fault in enumerate(ALONE)
    for backend, first in zip(BACKENDS, (number % 2 == 0, number % 2 == 1), strict=True)
]


@pytest.mark.parametrize(("backend", "fault"), OVER_EITHER)
def test_a_node_that_cannot_run_the_job(
    bare: Bare, backend: str, fault: tuple[Callable[[Bare], None], str, str, str]
) -> None:
    make, host, what, fix = fault
    make(bare)
    done = bare.launch("-b", backend, ALL, "-n", "1", "--", "job.py", env={"DDPKIT_GPUS": ""})

    refused(done, 122, host, what, fix)
    bare.nothing_left()


def taken(bare: Bare) -> None:
    text = 'import socket, time; s = socket.create_server(("", 29555)); print("ready", flush=True); time.sleep(3600)'
    bare.daemon("node1", sys.executable, "-c", text)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_master_port_that_is_taken(bare: Bare, backend: str) -> None:
    taken(bare)
    done = bare.launch("-b", backend, ALL, *RANKS, "-o", "master_port=29555", "--", "job.py")
    refused(done, 122, "node1", "cannot listen on port 29555: address already in use", "ssh node1 ss -ltnp.*29555")
    bare.nothing_left()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_master_port_behind_a_firewall(bare: Bare, backend: str) -> None:
    bare.firewall("node1", "tcp dport 29555 drop")
    done = bare.launch("-b", backend, ALL, *RANKS, "-o", "master_port=29555", "--", "job.py")

    refused(done, 122, "node1", "node2, node3, node4 cannot reach its port 29555.*no answer in", "firewall")
    bare.nothing_left()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("address", ["nosuch.example", "10.77.0.2"])
def test_an_address_by_which_rank_0_does_not_reach_itself(bare: Bare, backend: str, address: str) -> None:
    """With one node nobody else is there to find that out, and torchrun waits for it in silence."""
    done = bare.launch("-b", backend, "node1", "-n", "2", "-o", f"master_addr={address}", "--", "job.py")
    corrected = f"^ddpkit launch -b {backend} .*node1 -n 2 -- job.py$"
    refused(done, 122, "node1", f"cannot reach its own port [0-9]+, rank 0's .{address}: ", corrected)
    bare.nothing_left()


@pytest.mark.parametrize("backend", BACKENDS)
def test_three_bad_hosts_are_named_at_once(bare: Bare, backend: str) -> None:
    bare.cut("node2")
    bare.firewall("node3", "tcp dport 22 reject with tcp reset")
    bare.sshd("node4", {"ssh/user.pub": "ssh/nobody.pub"})
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")

    assert done.code == 123, done.text
    assert done.seconds < LIMIT or done.slow
    assert "3 of 4 nodes failed the checks, and nothing was started" in done.err
    assert re.findall(r"^  (\S+): ", done.err, re.MULTILINE) == ["node2", "node3", "node4"]
    bare.nothing_left(["node1"])


def test_bad_hosts_of_both_kinds_are_named_at_once(bare: Bare) -> None:
    no_torch(bare)
    bare.write("node2", bare.folder / "job.py", JOB + "# edited\n")
    bare.firewall("node1", "tcp dport 29555 drop")
    bare.firewall("node4", "tcp dport 32768-60999 ct state new drop")
    done = bare.launch("-b", "ssh", ALL, *RANKS, "-o", "master_port=29555", "--", "job.py")
    assert done.code == 122, done.text
    assert "4 of 4 nodes" in done.err
    alone = ("node2: its job.py differs from the one here", "/bare/bin/python cannot import torch")
    for words in (*alone, "node1: node2, node3, node4 cannot reach", "node4: node3 cannot reach"):
        assert words in done.err, words
    bare.cut("node4")
    done = bare.launch("-b", "ssh", ALL, *RANKS, "-o", "master_port=29555", "--", "job.py")
    assert done.code == 123, done.text
    assert done.seconds < LIMIT or done.slow
    for words in (*alone, "node1: node2, node3 cannot reach", "node4: no answer"):
        assert words in done.err, words
    bare.nothing_left(["node1", "node2", "node3"])


def test_without_the_preflight_what_looks_wrong_is_only_said(bare: Bare) -> None:
    another_script(bare)
    done = bare.launch("-b", "ssh", ALL, *RANKS, "--no-preflight", "--", "job.py")
    assert done.code == 0, done.text
    assert "node3: its job.py differs from the one here (hint: add --sync" in done.err
    assert done.out.count("ran ") == 4


def test_a_log_directory_that_fills_up(bare: Bare) -> None:
    """The run continues, all lines are shown, and the directory is in the warnings."""
    logs = bare.folder / "small"
    bare.small("login", logs, "size=256k")
    (bare.folder / "job.py").write_text("for number in range(20000):\n    print('line', number, 'x' * 40)\n")
    done = bare.launch("-b", "ssh", "node[1-2]", *RANKS, "--log-dir", str(logs), "--", "job.py")
    assert done.code == 0, done.text[-2000:]
    assert done.out.count(" line ") == 40000
    assert re.search(rf"cannot write logs in {logs}/\S+: No space left on device; the run continues", done.err)
    assert re.search(rf"cannot write the record of this run to {logs}/\S+: No space left on device", done.err)
