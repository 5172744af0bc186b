"""Faults that need not keep anybody from training: the run comes to its end, and says what was done about them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from bare_nodes import ALL, Bare, Done
from cluster import LOGIN, NODES
from conftest import PATIENCE

BACKENDS = ("ssh", "pdsh")
RANKS = ("-n", "1", "-o", "starter=ranks")
SUM = """
import datetime, os, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))
one = torch.ones(1)
dist.all_reduce(one)
names = "MASTER_ADDR GLOO_SOCKET_IFNAME NCCL_SOCKET_IFNAME".split()
print("sum", int(one), *[f"{name}={os.environ.get(name)}" for name in names], flush=True)
dist.destroy_process_group()
"""


def ran(done: Done, hosts: tuple[str, ...] = NODES) -> None:
    assert done.code == 0, done.text
    assert sorted(re.findall(r"ran (\d+) (\S+)", done.out)) == [(str(rank), host) for rank, host in enumerate(hosts)]


# ---- the way in


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_start_up_file_that_talks(bare: Bare, backend: str) -> None:
    text = "for i in 1 2 3; do echo '{\"e\": hello'; done; printf 'no end of line'; echo oops >&2; cd /nowhere 2>&1\n"
    bare.write("node3", Path.home() / ".bashrc", text)
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_start_up_file_that_returns_early(bare: Bare, backend: str) -> None:
    bare.write("node3", Path.home() / ".bashrc", "case $- in *i*) ;; *) return ;; esac\nexit 1\n")
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_start_up_file_that_starts_tmux(bare: Bare, backend: str) -> None:
    bare.write("node3", Path.home() / ".bashrc", '[ -n "$TMUX" ] || exec tmux\n')
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert "node3: a start-up file of its shell starts a program for a terminal" in done.err
    assert "case $- in *i*)" in done.err


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_start_up_file_that_is_slow_is_waited_for_and_named(bare: Bare, backend: str) -> None:
    bare.start_up("node3", "sleep 10\n")
    done = bare.launch("-b", backend, ALL, *RANKS, "-o", "connect_timeout=20", "--", "job.py")
    ran(done)
    waits = re.findall("^ddpkit: waiting for (.*)$", done.err, re.MULTILINE)
    assert any("node3: its shell and Python have not started yet" in words for words in waits), done.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_login_banner(bare: Bare, backend: str) -> None:
    (bare.folder / "banner").write_text("Authorised use only.\nconnection timed out, Permission denied: just words\n")
    bare.sshd("node3", {}, more=f"Banner {bare.folder}/banner\n")
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_shell_that_is_no_bash(bare: Bare, backend: str) -> None:
    text = Path("/etc/passwd").read_text()
    bare.write("node3", "/etc/passwd", re.sub(r"^(root:.*):\S+$", r"\1:/bin/dash", text, flags=re.MULTILINE))
    ran(bare.launch("-b", backend, ALL, *RANKS, "--", "job.py"))


@pytest.mark.parametrize("limit", ["1", "1:100:1"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_sshd_that_drops_connections(bare: Bare, backend: str, limit: str) -> None:
    bare.sshd("node3", {}, more=f"MaxStartups {limit}\n")
    # Somebody else is just logging in there, for a while: we are the second, and dropped.
    text = "import socket, time; s = socket.create_connection(('node3', 22)); s.recv(99); print('in', flush=True)"
    busy = bare.daemon(LOGIN, sys.executable, "-c", f"{text}; time.sleep(3600)")
    log = bare.lab.folder / "log/node3.log"
    seen = log.stat().st_size
    process = subprocess.Popen(
        bare.argv("-b", backend, ALL, *RANKS, "--", "job.py"),
        env=bare.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        dropped = re.compile(rb"drop connection|past MaxStartups|exceeded MaxStartups", re.IGNORECASE)
        bare.wait(lambda: dropped.search(log.read_bytes()[seen:]), f"nobody was dropped: {log.read_text()[-800:]}")
        os.killpg(busy.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)
    ran(Done(code=process.returncode, out=out, err=err, seconds=0.0))
    if backend == "ssh":
        assert re.search("node3: sshd dropped the connection .*, then accepted it", err), err


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_sshd_that_never_has_room(bare: Bare, backend: str) -> None:
    bare.sshd("node3", {}, more="MaxStartups 1\n")
    text = "import socket, time; s = socket.create_connection(('node3', 22)); s.recv(99); print('in', flush=True)"
    bare.daemon(LOGIN, sys.executable, "-c", f"{text}; time.sleep(3600)")
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "job.py")
    assert done.code == 123, done.text
    assert done.seconds < 15 or done.slow, done.text
    assert re.search("node3: .*closed .* before the login", done.err), done.text
    assert "maxstartups" in done.err


# ---- names and interfaces


def own_name_is_loopback(bare: Bare) -> None:
    """As Debian's installer leaves it, on the first two nodes."""
    for host in ("node1", "node2"):
        bare.names(f"127.0.1.1 {host}\n", [host])


@pytest.mark.torch
@pytest.mark.parametrize(
    ("backend", "starter"), [("ssh", "ranks"), ("pdsh", "ranks"), ("ssh", "torchrun"), ("legacy", "legacy")]
)
@pytest.mark.thorough_for("legacy-legacy", "ssh-ranks")
def test_own_names_that_mean_127_0_1_1(bare: Bare, backend: str, starter: str) -> None:
    own_name_is_loopback(bare)
    bare.interface("node1", "br-0a1b", "172.17.0.1/16")
    bare.interface("node2", "br-0a1b", "172.17.0.1/16")
    (bare.folder / "sum.py").write_text(SUM)
    done = bare.launch("-b", backend, "node1", "node2", "-n", "1", "-o", f"starter={starter}", "--", "sum.py")
    assert done.code == 0, done.text
    said = "sum 2 MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME==eth0"
    assert [line.partition("] ")[2] for line in done.out.splitlines()] == [said] * 2, done.text
    assert "ddpkit: node1: its own name node1 resolves to 127.0.1.1 on that node" in done.err
    assert "ddpkit: node1, node2: the other nodes cannot reach it over br-0a1b; NCCL uses eth0" in done.err


@pytest.mark.torch
def test_without_the_mending_127_0_1_1_ends_badly(bare: Bare) -> None:
    """So the test above can fail: what we name for gloo is taken away before torch starts."""
    own_name_is_loopback(bare)
    (bare.folder / "sum.py").write_text("import os\nos.environ.pop('GLOO_SOCKET_IFNAME')\n" + SUM)
    done = bare.launch("-b", "ssh", "node1", "node2", *RANKS, "--grace", "0", "--", "sum.py")
    assert done.code != 0, done.text
    assert "sum 2" not in done.out


@pytest.mark.torch
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.thorough_for("pdsh")
def test_an_interface_that_leads_nowhere_and_comes_first(bare: Bare, backend: str) -> None:
    for host in NODES:
        bare.interface(host, "aaa0", "172.17.0.1/16")
    bare.names("172.17.0.1 node1\n", ["node1"])  # there, its own name means it
    (bare.folder / "sum.py").write_text(SUM)
    done = bare.launch("-b", backend, ALL, *RANKS, "--", "sum.py")
    assert done.code == 0, done.text
    first = "sum 4 MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME==eth0"
    others = "sum 4 MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=None NCCL_SOCKET_IFNAME==eth0"
    assert sorted(line.partition("] ")[2] for line in done.out.splitlines()) == sorted([first, *[others] * 3])


@pytest.mark.parametrize("where", ["env", "nccl.conf"])
def test_what_the_user_chose_stays(bare: Bare, where: str) -> None:
    bare.interface("node1", "aaa0", "172.17.0.1/16")
    (bare.folder / "job.py").write_text("import os\nprint('NCCL', os.environ.get('NCCL_SOCKET_IFNAME'))\n")
    more = ["--env", "NCCL_SOCKET_IFNAME=eth0"] if where == "env" else []
    if where == "nccl.conf":
        (bare.folder / "nccl.conf").write_text("NCCL_SOCKET_IFNAME=eth0\n")
        own = f"SetEnv TMPDIR={bare.lab.tmp}"
        bare.sshd("node1", {own: f"{own} NCCL_CONF_FILE={bare.folder}/nccl.conf"})
    done = bare.launch("-b", "ssh", "node1", "node2", *RANKS, *more, "--", "job.py")
    assert sorted(line.partition("] ")[2] for line in done.out.splitlines()) == (
        ["NCCL eth0"] * 2 if where == "env" else ["NCCL None"] * 2
    ), done.text


@pytest.mark.torch
@pytest.mark.parametrize(("backend", "starter"), [("ssh", "ranks"), ("ssh", "torchrun"), ("pdsh", "torchrun")])
@pytest.mark.thorough_for("pdsh-torchrun", "ssh-ranks")
def test_names_that_mean_ipv6_only(bare: Bare, backend: str, starter: str) -> None:
    hosts = "127.0.0.1 localhost\n::1 localhost\n"
    for number, host in enumerate((*NODES, LOGIN), 1):
        bare.ip(host, "address", "add", f"fd00:77::{number}/64", "dev", "eth0", "nodad")
        bare.later(partial(bare.ip, host, "address", "del", f"fd00:77::{number}/64", "dev", "eth0"))
        hosts += f"fd00:77::{number} {host}\n"
    for host in (*NODES, LOGIN):
        bare.write(host, "/etc/hosts", hosts)
    (bare.folder / "sum.py").write_text(SUM)
    done = bare.launch("-b", backend, "node1", "node2", "-n", "1", "-o", f"starter={starter}", "--", "sum.py")
    assert done.code == 0, done.text
    said = "sum 2 MASTER_ADDR=fd00:77::1 GLOO_SOCKET_IFNAME=None NCCL_SOCKET_IFNAME=None"
    assert [line.partition("] ")[2] for line in done.out.splitlines()] == [said] * 2, done.text


# ---- disks


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("code", [0, 7])
def test_a_full_disk_for_logs(bare: Bare, backend: str, code: int) -> None:
    bare.small(LOGIN, bare.folder / "logs", "size=64k")
    (bare.folder / "job.py").write_text(
        "import os, sys\nfor i in range(4000):\n    print('line', i, 'x' * 40)\n"
        f"print('ran', os.environ['RANK'], os.uname().nodename)\nsys.exit({code} if os.environ['RANK'] == '2' else 0)\n"
    )
    done = bare.launch("-b", backend, ALL, *RANKS, "--log-dir", f"{bare.folder}/logs", "--", "job.py")
    assert done.code == code, done.text[-3000:]
    assert "Traceback" not in done.err
    said = re.findall("cannot write logs in .*/?logs/.*: No space left on device; the run continues", done.err)
    assert len(said) == 1
    if code == 0:
        assert done.out.count(" line 3999 ") == 4
    else:
        assert "rank 2 on node3 failed first" in done.err


@pytest.mark.parametrize("options", ["size=64k,nr_inodes=1", "size=64k,ro"])
def test_no_room_for_a_folder_of_logs(bare: Bare, options: str) -> None:
    bare.small(LOGIN, bare.folder / "logs", options)
    done = bare.launch("-b", "ssh", "node1", "node2", *RANKS, "--log-dir", f"{bare.folder}/logs", "--", "job.py")
    assert done.code == 121, done.text
    assert "Traceback" not in done.err
    assert "logs" in done.err
    assert "--log-dir" in done.err
    bare.nothing_left()
