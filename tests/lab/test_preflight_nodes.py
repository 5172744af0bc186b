"""`ddpkit test` over ssh and pdsh with one bad host of four: each known failure is named with host, cause and fix."""

from __future__ import annotations

import fcntl
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bare_nodes import ALL, ROOT, Bare, Done, busy
from cluster import NODES
from test_nodes_faults import (
    another_script,
    another_torch,
    changed_host_key,
    exits_early,
    exits_early_with_an_error,
    firewalled,
    forced_command,
    full_tmp,
    named_twice,
    no_python,
    no_script,
    no_sshd,
    no_torch,
    no_workdir,
    python_that_hangs,
    read_only_tmp,
    revoked_host_key,
    taken,
    unknown_host_key,
    unreachable,
    wrong_key,
)

# Promised are 15 s; a machine that runs other tests as well is given twice of that.
LIMIT = 30.0
HIGH = "tcp dport 32768-60999 ct state new"


# ---- faults beyond those of test_nodes_faults.py


def name_unknown_here(bare: Bare) -> None:
    without(bare, "login", "node3")


def busy_sshd(bare: Bare) -> None:
    bare.sshd("node3", {}, more="MaxStartups 1:100:1\n")
    text = 'import socket, time; s = socket.create_connection(("node3", 22)); s.recv(99)\n'
    bare.daemon("node4", sys.executable, "-c", text + 'print("holds it", flush=True); time.sleep(3600)')


def another_python(bare: Bare) -> None:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    places = [
        *Path.home().glob(".pyenv/versions/*/bin/python3.*"),
        *Path("/opt").glob("hostedtoolcache/Python/*/*/bin/python3.*"),
    ]
    places += Path("/usr/bin").glob("python3.*")
    others = [
        path for path in places if re.fullmatch(r"python3\.(8|9|\d\d)", path.name) and path.name != f"python{own}"
    ]
    if not others:
        pytest.skip("this machine has one Python only")
    bare.toml(f'[host.node3]\npython = "{others[0]}"\n')


# libfaketime 0.9.10 makes time.sleep of Python 3.11 hang: it mixes the clock of sleeping up with the one that it fakes.
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    const char *ahead = getenv("CLOCK_AHEAD");
    if (!result && id == CLOCK_REALTIME && ahead) now->tv_sec += atoi(ahead);
    return result;
}
"""


def clock(bare: Bare, host: str, seconds: int) -> None:
    """All programs of this host that are started by ssh see another time of day."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, library = bare.folder / "clock.c", bare.folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    bare.login_env(host, LD_PRELOAD=str(library), CLOCK_AHEAD=str(seconds))


def taken_everywhere(bare: Bare) -> None:
    """On nodes that are not rank 0's it disturbs nobody."""
    text = 'import socket, time; s = socket.create_server(("", 29555)); print("ready", flush=True); time.sleep(3600)'
    for host in NODES[:3]:
        bare.daemon(host, sys.executable, "-c", text)


def master_name(bare: Bare) -> None:
    """All know the name `head`, but node3."""
    bare.names("10.77.0.1 head\n", hosts=[name for name in ("login", *NODES) if name != "node3"])


def master_name_of_another(bare: Bare) -> None:
    bare.names("10.77.0.1 head\n", hosts=[name for name in ("login", *NODES) if name != "node3"])
    bare.names("10.77.0.2 head\n", hosts=["node3"])


def own_name_is_loopback(bare: Bare) -> None:
    bare.names("127.0.1.1 node3\n", hosts=["node3"])


def without(bare: Bare, host: str, name: str) -> None:
    """This host does not know that name."""
    text = (bare.lab.folder / "etc/hosts").read_text()
    bare.write(host, "/etc/hosts", "".join(line for line in text.splitlines(True) if name not in line.split()))


def another_means_loopback(bare: Bare) -> None:
    bare.names("127.0.1.1 node1\n", hosts=["node3"])


def no_reverse_name(bare: Bare) -> None:
    bare.ip("node3", "address", "add", "10.77.0.103/24", "dev", "eth0")
    bare.later(lambda: bare.ip("node3", "address", "delete", "10.77.0.103/24", "dev", "eth0"))


def another_interface(bare: Bare) -> None:
    bare.interface("node3", "br-0a1b2c", "172.18.0.1/16")


def ipv6_one_way(bare: Bare) -> None:
    for number, host in enumerate(NODES, 1):
        bare.ip(host, "address", "add", f"fd77::{number}/64", "dev", "eth0", "nodad")
        words = ("address", "delete", f"fd77::{number}/64", "dev", "eth0")
        bare.later(functools.partial(bare.ip, host, *words))
    bare.firewall("node3", f"meta nfproto ipv6 {HIGH} drop")


def few_files(bare: Bare) -> None:
    bare.start_up("node3", "ulimit -n 200\n")


def little_shm(bare: Bare) -> None:
    bare.small("node3", Path("/dev/shm"), "size=2m")


def no_inodes(bare: Bare) -> None:
    bare.small("node3", bare.folder / "tmp", "size=2g,nr_inodes=2")
    (bare.folder / "tmp").mkdir(exist_ok=True)
    bare.lab.run("node3", "touch", f"{bare.folder}/tmp/one", check=False)
    bare.sshd("node3", {f"SetEnv TMPDIR={bare.lab.tmp}": f"SetEnv TMPDIR={bare.folder}/tmp"})


def few_inodes(bare: Bare) -> None:
    bare.small("node3", bare.folder / "tmp", "size=2g,nr_inodes=60")
    bare.sshd("node3", {f"SetEnv TMPDIR={bare.lab.tmp}": f"SetEnv TMPDIR={bare.folder}/tmp"})


def full_scratch(bare: Bare) -> None:
    bare.small("node3", bare.folder / "scratch", "size=4k")
    bare.lab.run("node3", "sh", "-c", f"head -c 4096 /dev/zero > '{bare.folder}/scratch/full'")


def nearly_full_tmp(bare: Bare) -> None:
    bare.small("node3", bare.folder / "tmp", "size=2m")
    bare.sshd("node3", {f"SetEnv TMPDIR={bare.lab.tmp}": f"SetEnv TMPDIR={bare.folder}/tmp"})


def one_core(bare: Bare) -> None:
    bare.start_up("node3", "taskset -pc 0 $$ > /dev/null\n")


def nccl_in_start_up(bare: Bare) -> None:
    bare.start_up("node3", "export NCCL_IB_DISABLE=1 NCCL_ALGO=Ring\n")


def nccl_conf(bare: Bare) -> None:
    path = Path.home() / ".nccl.conf"
    lock = Path(tempfile.gettempdir(), "ddpkit-tests-nccl.lock").open("w")  # tests of another run have the same home
    bare.later(lock.close)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not path.exists():
        path.touch()  # to show another one in its place
        bare.later(path.unlink)
    bare.write("node3", path, "NCCL_PROTO=Simple\n")


def stale_interface(bare: Bare) -> None:
    bare.start_up("node3", "export NCCL_SOCKET_IFNAME=lo\n")


def chosen_interface(bare: Bare) -> None:
    bare.interface("node3", "away0", "192.168.77.3/24")
    bare.start_up("node3", "export GLOO_SOCKET_IFNAME=away0\n")


def noisy_start_up(bare: Bare) -> None:
    bare.start_up("node3", "echo 'Welcome!'; echo 'a licence runs out' >&2\n")


# ---- the rows


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fault, and what one call must say of it."""

    id: str  # of the catalogue of failures
    make: Callable[[Bare], None]
    check: str = ""
    status: str = "fail"
    host: str = "node3"
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    doc: str = ""
    args: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # other checks that say something of this host, and are right
    env: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.id}-{getattr(self.make, '__name__', 'fault')}".replace("<lambda>", self.check)


SCRIPT = ("-o", "starter=ranks")
ENTER = (
    Row(id="H01", make=unknown_host_key, check="transport", evidence="host key is not known", cause="never connected",
        fix="compare the fingerprint: ssh node3", doc="ssh-host-key"),
    Row(id="H01", make=changed_host_key, check="transport", evidence="host key (of it )?has changed",
        cause="another machine", fix="ssh-keygen -F node3", doc="ssh-host-key"),
    Row(id="H01", make=revoked_host_key, check="transport", evidence="host key was revoked", cause="revoked",
        fix="administrator", doc="ssh-host-key"),
    Row(id="H03", make=wrong_key, check="transport", evidence="none of the keys", cause="authorized_keys",
        fix="ssh-copy-id", doc="ssh-no-key"),
    Row(id="H04", make=no_sshd, check="transport", evidence="connection refused", cause="no sshd",
        fix="systemctl", doc="ssh-unreachable"),
    Row(id="H04", make=firewalled, check="transport", evidence="no answer", cause="drops", fix="ping node3",
        doc="ssh-unreachable"),
    Row(id="H04", make=unreachable, check="transport", evidence="no route to host|no answer",
        cause="off|drops", fix="ping node3", doc="ssh-unreachable"),
    Row(id="H04", make=name_unknown_here, check="transport", evidence="name does not resolve on this machine",
        cause="not in DNS", fix="/etc/hosts", doc="ssh-unreachable"),
    Row(id="H05", make=busy_sshd, check="transport", evidence="closed (every|\\d+) connections? before the login",
        cause="MaxStartups", fix="MaxStartups", doc="ssh-max-startups"),
    Row(id="E01", make=exits_early, check="transport", evidence="start-up file.*good morning", cause="exits before",
        fix="bashrc", doc="command-not-found"),
    Row(id="E01", make=exits_early_with_an_error, check="transport", evidence="exit code 3.*no licence left",
        cause="start-up", fix="--version", doc="command-not-found"),
    Row(id="E01", make=no_python, check="transport", evidence="Python cannot be started.*/nowhere/python",
        cause="PATH", fix=r"\[host\.node3\]", doc="command-not-found"),
    Row(id="E01", make=python_that_hangs, check="transport", evidence="did not start ddpkit's process in time",
        cause="hangs|slow", fix="--version", doc="command-not-found"),
    Row(id="E01", make=forced_command, check="transport", evidence="forced command", cause="exits before",
        fix="end ~/.bashrc early", doc="command-not-found"),
)  # fmt: skip
ALONE = (
    Row(id="E02", make=no_torch, check="torch", evidence="bare/bin/python cannot import torch", cause="no torch",
        fix="ssh node3 .*pip install torch==2", doc="module-missing"),
    Row(id="E03", make=another_torch, check="torch", evidence=r"has torch 1\.13\.1\+cu117, the other nodes 2",
        cause="versions", fix="ssh node3 .*pip install torch==2", doc="versions-differ"),
    Row(id="E03", make=another_python, check="python", evidence=r"is Python 3\.\d+\.\d+, on the other nodes 3",
        cause="pickle", fix="python = ", doc="versions-differ", also=("torch",)),
    Row(id="L18", make=another_script, check="script", evidence="its job.py differs from", cause="not shared",
        fix="add --sync", doc="script-missing", args=("--", "job.py")),
    Row(id="L18", make=no_script, check="script", evidence="job.py not found", cause="not shared",
        fix="add --sync", doc="script-missing", args=("--", "job.py"), also=("disk",)),
    Row(id="L18", make=no_workdir, check="workdir", evidence="cannot use the directory .*: no such", cause="not shared",
        fix="add --sync", doc="script-missing", args=("--", "job.py")),
    Row(id="tmp", make=full_tmp, check="tmp", evidence="to its directory .*/tmp: no space left", cause="full",
        fix="ssh node3 df /.*/tmp", doc="disk-full"),
    Row(id="tmp", make=nearly_full_tmp, check="disk", evidence="/tmp has 2 MiB free", cause="need space",
        fix="ssh node3 df -h /.*/tmp", doc="disk-full"),
    Row(id="disk", make=full_scratch, check="disk", evidence="the file system of .*/scratch has 0 B free",
        cause="need space", fix="ssh node3 df -h /.*/scratch", doc="disk-full"),
    Row(id="tmp", make=no_inodes, check="tmp", evidence="no inodes left", cause="inodes", fix="ssh node3 df -i /.*/tmp",
        doc="disk-full"),
    Row(id="tmp", make=few_inodes, check="disk", evidence="has [0-9]+ inodes left", cause="need space",
        fix="ssh node3 df -i /.*/tmp", doc="disk-full"),
    Row(id="tmp", make=read_only_tmp, check="tmp", evidence="cannot write to its directory .*: read-only",
        cause="read-only", fix="TMPDIR .*bashrc", doc="disk-full"),
    Row(id="twice", make=named_twice, check="machine", host="node4", evidence="the same machine as node3",
        cause="two names", fix="once", doc="duplicate-gpu"),
    Row(id="L14", make=lambda bare: clock(bare, "node3", 8), check="clock", evidence=r"[78]\.\d s ahead of the other",
        cause="rendezvous", fix="ssh node3 sudo chronyc makestep", doc="clock-skew", also=("environment",)),
    Row(id="L15", make=lambda bare: clock(bare, "node3", -30), check="clock",
        evidence=r"(29|30)\.\d s behind the other nodes", cause="rendezvous", fix="ssh node3 sudo chronyc makestep",
        doc="clock-skew", also=("environment",)),
    Row(id="N11", make=few_files, check="limits", evidence="200 open files", cause="Too many open files", fix="nofile",
        doc="too-many-files"),
    Row(id="E04", make=little_shm, check="shm", evidence="/dev/shm: 2 MiB free of 2 MiB", cause="Bus error",
        fix="ssh node3 sudo mount -o remount,size=.* /dev/shm|--ipc=host", doc="shm-full"),
    Row(id="E09", make=one_core, check="cpus", status="warn", evidence="1 of [0-9]+ CPUs", cause="share",
        fix="taskset|cpus_per_task", doc="one-core"),
    Row(id="C14", make=nccl_in_start_up, check="environment", evidence="NCCL_IB_DISABLE is 1, .* nodes not set",
        cause="different settings", fix="ssh node3 grep -n NCCL_", doc="env-differs"),
    Row(id="C15", make=nccl_conf, check="environment", evidence=r"NCCL_PROTO is Simple \(.*nccl.conf\)",
        cause="different settings", fix="nccl.conf", doc="env-differs"),
    Row(id="N04", make=stale_interface, check="environment", status="warn", evidence="is lo", cause="only itself",
        fix="unset|--env", doc="env-differs"),
)  # fmt: skip
APART = (
    Row(id="N04", make=chosen_interface, check="interfaces", evidence="away0, which does not reach the other nodes",
        cause="start-up file", fix=r"\[host.node3\].*GLOO_SOCKET_IFNAME", doc="nccl-wrong-interface",
        also=("mesh", "interfaces")),
    Row(id="L01", make=taken, check="master-port", host="node1", args=("-o", "master_port=29555"),
        evidence=r"cannot listen on port 29555: address already in use.*by pid \d+ \(.*python.*\)", cause="another",
        fix="-o master_port", doc="port-in-use"),
    Row(id="L01", make=taken_everywhere, check="master-port", host="node1",
        args=("-o", "master_port=29555", "-o", "master_addr=10.77.0.1"),
        evidence=r"cannot listen on port 29555: address already in use.*by pid \d+", cause="another",
        fix="-o master_port", doc="port-in-use"),
    Row(id="L02", make=lambda bare: bare.firewall("node1", "tcp dport 29555 drop"), check="master-port", host="node1",
        args=("-o", "master_port=29555"), evidence="node2, node3, node4 cannot reach its port 29555.*no answer",
        cause="drops", fix="ssh node1 sudo iptables -I INPUT -p tcp -s .* --dport 29555 -j", doc="master-unreachable"),
    Row(id="L02", make=lambda bare: bare.firewall("node3", "tcp dport 29555 drop", "output"), check="master-port",
        args=("-o", "master_port=29555"), evidence="cannot reach port 29555 of node1, rank 0's.*no answer",
        cause="drops", fix="iptables|master_port", doc="master-unreachable"),
    Row(id="L03", make=master_name, check="master-port", args=("-o", "master_addr=head"),
        evidence="head: (name or service not known|temporary failure in name)", cause="name does not resolve on that",
        fix="ssh node3 .*/etc/hosts|master_addr=", doc="master-name-unknown"),
    Row(id="L03", make=master_name_of_another, check="master-port", args=("-o", "master_addr=head"),
        evidence="head: (connection refused|another program)", cause="another host",
        fix=r"-o master_addr=10\.77\.0\.1$",
        doc="master-name-unknown"),
    Row(id="N01", make=own_name_is_loopback, check="names", status="warn",
        evidence=r"own name node3 resolves to 127\.0\.1\.1", cause="gloo",
        fix=r"ssh node3 grep -nF 127.0.1.1 /etc/hosts",
        doc="name-is-loopback"),
    Row(id="L04", make=lambda bare: without(bare, "node3", "node3"), check="names", status="warn",
        evidence="its own name node3 does not resolve", cause="own host name", fix="ssh node3 .*/etc/hosts",
        doc="no-node-is-host"),
    Row(id="L05", make=lambda bare: without(bare, "node3", "node1"), check="names", status="warn",
        evidence="node1.* does not resolve on that node", cause="names",
        fix=r"ssh node3 .*10\.77\.0\.1 node1.*/etc/hosts", doc="second-master"),
    Row(id="L05", make=another_means_loopback, check="names", status="warn",
        evidence=r"node1.* resolves to 127\.0\.1\.1 on that node", cause="names",
        fix="ssh node3 .*/etc/hosts", doc="second-master"),
    Row(id="N04", make=another_interface, check="interfaces", status="warn",
        evidence="cannot reach it over br-0a1b2c; NCCL uses eth0", cause="NCCL", fix="NCCL_SOCKET_IFNAME",
        doc="nccl-wrong-interface"),
    Row(id="N05", make=lambda bare: bare.firewall("node3", f"{HIGH} reject with icmp type host-prohibited"),
        check="mesh", evidence=r"no other node can reach its port .*(no route|refused|prohibited)", cause="rejects",
        fix="ssh node3 sudo iptables -I INPUT", doc="firewall-reject"),
    Row(id="N05", make=lambda bare: bare.firewall("node3", f"{HIGH} reject with tcp reset", "output"), check="mesh",
        evidence="it cannot reach a port of any other node", cause="reject|its own firewall",
        fix="ssh node3 sudo iptables -I OUTPUT", doc="firewall-reject"),
    Row(id="N06", make=lambda bare: bare.firewall("node3", f"{HIGH} drop"), check="mesh",
        evidence=r"no other node can reach its port \d+ \(.*no answer", cause="drops",
        fix="ssh node3 sudo iptables -I INPUT", doc="firewall-drop"),
    Row(id="N06", make=lambda bare: bare.firewall("node3", f"{HIGH} drop", "output"), check="mesh",
        evidence="it cannot reach a port of any other node", cause="drop", fix="ssh node3 sudo iptables -I OUTPUT",
        doc="firewall-drop"),
    Row(id="N06", make=lambda bare: bare.firewall("node3", f"ip saddr 10.77.0.2 {HIGH} drop"), check="mesh",
        evidence=r"node2 cannot reach its port \d+ \(.*no answer", cause="drops",
        fix=r"ssh node3 sudo iptables -I INPUT -p tcp -s 10\.77\.0\.2 ", doc="firewall-drop"),
    Row(id="N07", make=ipv6_one_way, check="mesh", status="warn", evidence="its IPv6 addresses do not answer: fd77::3",
        cause="family", fix="NCCL_SOCKET_FAMILY=AF_INET$", doc="address-family"),
)  # fmt: skip


# ---- one call


def report(done: Done) -> dict[str, Any]:
    assert done.code in (0, 122), done.text
    try:
        found: dict[str, Any] = json.loads(done.out)
    except ValueError:
        raise AssertionError(done.text) from None
    assert found["ok"] == (done.code == 0), done.text
    assert "Traceback" not in done.err, done.text
    return found


def odd(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not well."""
    return [check for check in found["checks"] if check["status"] in ("warn", "fail")]


def named(row: Row, found: dict[str, Any]) -> None:
    """This host, this evidence, cause, fix and place to read on; and nobody else."""
    said = odd(found)
    text = json.dumps(said, indent=1)
    assert {check["host"] for check in said} == {row.host}, text
    assert {check["id"] for check in said} <= {row.check, *row.also}, text
    mine = [check for check in said if check["id"] == row.check and re.search(row.evidence, check["evidence"])]
    assert mine, text
    check = mine[0]
    assert check["status"] == row.status, text
    assert re.search(row.cause, check["cause"]), text
    assert re.search(row.fix, check["fix"]), text
    assert check["doc"] == row.doc, text
    for each in said:
        assert each["cause"], text
        assert each["fix"], text
        assert "\n" not in each["fix"], text


def call(bare: Bare, backend: str, row: Row, *more: str) -> dict[str, Any]:
    row.make(bare)
    done = bare.test("-b", backend, ALL, "-n", "1", "--quick", *more, *row.args, env=dict(row.env))
    found = report(done)
    print(json.dumps(odd(found), indent=1))
    print(f"FIGURE {row.name} {backend} {found['seconds']:.1f} s, {done.seconds:.1f} s in all")
    assert found["seconds"] <= LIMIT or done.slow or busy(), done.text
    return found


@pytest.mark.parametrize("address", ["10.77.0.2", "no-such-host"])
def test_one_node_and_an_address_that_is_not_its_own(bare: Bare, address: str) -> None:
    found = report(bare.test("-b", "ssh", "node1", "-n", "2", "--quick", "-o", f"master_addr={address}"))
    (check,) = odd(found)
    assert (check["id"], check["host"], check["status"]) == ("master-port", "node1", "fail")
    assert f"rank 0's ({address}: " in check["evidence"]
    assert check["fix"].startswith("remove -o master_addr=")


@pytest.mark.parametrize("row", ENTER + ALONE + APART, ids=lambda row: row.name)
def test_one_bad_host_of_four_is_named(bare: Bare, row: Row) -> None:
    # What ranks on the three others find beside it is looked at in test_several_faults_are_named_in_one_call.
    found = call(bare, "ssh", row, "--no-ranks")
    named(row, found)
    assert found["ok"] == (row.status == "warn")


def over_pdsh() -> list[Row]:
    """Where pdsh has words of its own, and a few others."""
    chosen = ("another_torch", "own_name_is_loopback", "little_shm", "few_files", "nccl_conf")
    return [*ENTER, *(row for row in ALONE + APART if row.make.__name__ in chosen)]


@pytest.mark.parametrize("row", over_pdsh(), ids=lambda row: row.name)
@pytest.mark.thorough_for(
    # A launch over pdsh meets the same login in test_nodes_faults.py.
    *("H01-changed_host_key", "H01-revoked_host_key", "H03-wrong_key", "H04-unreachable", "H04-firewalled"),
    *("E01-exits_early_with_an_error", "E01-no_python", "E01-forced_command", "E01-python_that_hangs"),
)
def test_one_bad_host_of_four_is_named_over_pdsh(bare: Bare, row: Row) -> None:
    named(row, call(bare, "pdsh", row, "--no-ranks"))


@pytest.mark.parametrize("backend", ["ssh", "pdsh"])
def test_what_is_harmless_is_not_warned_about(bare: Bare, backend: str) -> None:
    """An address without a name, a start-up file that prints, and rsh, which is the default of pdsh itself."""
    noisy_start_up(bare)
    ranks = () if backend == "pdsh" else ("--no-ranks",)  # the same ranks, however they were started
    found = call(bare, backend, Row(id="L21", make=no_reverse_name, env=(("PDSH_RCMD_TYPE", "rsh"),)), *ranks)
    assert odd(found) == []
    assert found["ok"]


@pytest.mark.parametrize("backend", ["ssh", pytest.param("pdsh", marks=pytest.mark.thorough)])
def test_several_faults_are_named_in_one_call(bare: Bare, backend: str) -> None:
    clock(bare, "node2", 30)
    bare.firewall("node3", f"{HIGH} drop")
    another_torch(bare, "node4")
    done = bare.test("-b", backend, ALL, "-n", "1", "--quick")
    found = report(done)
    print(f"FIGURE three-at-once {backend} {found['seconds']:.1f} s")
    assert done.code == 122
    assert found["seconds"] <= LIMIT or done.slow or busy()
    failed = {(check["host"], check["id"]) for check in odd(found) if check["status"] == "fail"}
    assert failed == {("node2", "clock"), ("node3", "mesh"), ("node4", "torch")}, done.text
    assert all(check["cause"] and check["fix"] for check in odd(found))
    bare.nothing_left()
    if backend == "ssh":
        # What the guide shows is what was printed, but for numbers, paths and the moment.
        shown = (ROOT / "docs/diagnose/test.md").read_text().partition("<!-- output: several faults -->")[2]
        for check in odd(found):
            line = f"{check['status'].upper()} {check['title']} ({check['host']}): "
            assert line in shown
            assert f"    cause: {check['cause']}\n" in shown


@pytest.mark.parametrize(
    ("options", "filled", "words"),
    [
        ("size=8k", "dd if=/dev/zero of={}/full bs=4k", "no space left on device: the file system is full"),
        ("size=1m,nr_inodes=2", "touch {}/one", "no inodes left: the file system has no free inodes"),
        ("size=1m,ro", "true", "read-only file system: it is mounted read-only"),
        ("size=20m", "true", "has 20 MiB free: logs need more space"),
    ],
    ids=["full", "inodes", "read-only", "small"],
)
def test_a_folder_without_room_for_logs(bare: Bare, options: str, filled: str, words: str) -> None:
    """On the launcher's own host."""
    bare.small("login", bare.folder / "logs", options)
    bare.lab.run("login", *filled.format(bare.folder / "logs").split(), check=False)
    text = (
        "from ddpkit.preflight.resource_checks import check_logs; c = check_logs('logs'); "
        "print(c.status, c.host, c.evidence + ': ' + c.cause)"
    )
    done = bare.lab.run("login", sys.executable, "-c", text, cwd=bare.folder, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout.startswith("fail login "), done.stdout
    assert words in done.stdout
