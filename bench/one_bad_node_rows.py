"""The faults of one_bad_node.py: one on one of two nodes each, what a person types, and what ddpkit is asked.

The ids are those of the list of known failures. In a line `{first}` and `{second}` are the two nodes; ddpkit runs on
login, like the person.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bare_nodes import Bare
from cluster import LOGIN, Lab

TORCHRUN = "python -m torch.distributed.run"
HIGH = "tcp dport 32768-60999 ct state new"
BEGIN = """
import os, signal, sys, time
import torch, torch.distributed as dist
rank = int(os.environ.get("RANK", -1))
"""
MEET = 'dist.init_process_group("gloo")\n'
REDUCE = 'x = torch.ones(1)\ndist.all_reduce(x)\nprint("sum", int(x), "of", dist.get_world_size(), flush=True)\n'
JOB = BEGIN + MEET + REDUCE + "dist.destroy_process_group()\n"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one row is played. The first node is the one that hosts the store."""

    bare: Bare
    first: str
    second: str
    port: int = 29500

    @property
    def lab(self) -> Lab:
        return self.bare.lab

    @property
    def folder(self) -> Path:
        return self.bare.folder

    @property
    def tag(self) -> str:
        return self.folder.name

    def address(self, name: str) -> str:
        return self.lab.address[name]

    def filled(self, text: str) -> str:
        values = {"first": self.first, "second": self.second, "folder": str(self.folder), "tag": self.tag}
        values |= {"firstip": self.address(self.first), "secondip": self.address(self.second), "port": str(self.port)}
        return re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)

    def plain(self, text: str) -> str:
        """The same for every pair of nodes."""
        names = {self.first: "node1", self.second: "node2"}
        names |= {self.address(self.first): "10.77.0.1", self.address(self.second): "10.77.0.2"}
        text = re.sub(r"\bnode\d+\b|\b10\.77\.0\.\d+\b", lambda match: names.get(match[0], match[0]), text)
        return (
            text.replace(str(self.folder), "FOLDER").replace(f"{sys.prefix}/", "").replace(str(self.lab.folder), "LAB")
        )

    def clear(self) -> None:
        """End what the row left on its two nodes."""
        if self.lab.slurm:
            self.lab.run(LOGIN, "scancel", "-n", self.tag, check=False)
        for host in (self.first, self.second):
            found = self.lab.processes(host)
            if self.lab.slurm:
                mine = [pid for pid, line in found.items() if str(self.folder) in line]
            else:
                kept = ("[listener]", "host.py", "ps -e", "sshd_")
                mine = [pid for pid, line in found.items() if pid != 1 and not any(word in line for word in kept)]
            if mine:
                self.lab.run(host, "kill", "-9", *(str(pid) for pid in mine), check=False)


@dataclass(frozen=True, kw_only=True)
class Row:
    id: str
    fault: str
    make: Callable[[Place], object] = lambda _: None
    typed: dict[str, str] = field(default_factory=dict)  # what is typed on login, by the name of the side
    files: dict[str, str] = field(default_factory=lambda: {"job.py": JOB})
    test: tuple[str, ...] = ("test", "-b", "ssh", "{first}", "{second}", "-n", "1")
    before: str = ""  # shell words in front of ddpkit
    bound: float | None = None  # seconds that the other side is watched for after one side ended
    exclusive: bool = False  # it changes a file that all hosts share
    slurm: bool = False


# ---- what is typed


def ssh(host: str, words: str, options: str = "") -> str:
    return f"ssh {options}{host} {shlex.quote('cd {folder} && ' + words)}"


def static(more: str = "", *, address: str = "{first}", second: str = "", script: str = "job.py") -> dict[str, str]:
    """torchrun with a static rendezvous, on both nodes."""

    def line(rank: int, own: str) -> str:
        words = [TORCHRUN, "--nnodes 2", f"--node_rank {rank}", f"--master_addr {address}", more, own, script]
        return " ".join(filter(None, words))

    return {"node1": ssh("{first}", line(0, "")), "node2": ssh("{second}", line(1, second))}


def c10d(
    more: str = "--rdzv_id job1", endpoint: str = "{first}", second: str | None = None, env: str = ""
) -> dict[str, str]:
    words = f"{TORCHRUN} --nnodes 2 --rdzv_backend=c10d --rdzv_endpoint={endpoint}:29500"
    other = more if second is None else second
    return {"node1": ssh("{first}", f"{words} {more} job.py"), "node2": ssh("{second}", f"{env}{words} {other} job.py")}


def once(line: str, label: str = "login") -> dict[str, str]:
    return {label: line}


def job(text: str) -> dict[str, str]:
    return {"job.py": text}


LAUNCH = ("launch", "-b", "ssh", "{first}", "{second}", "-n", "1", "--", "job.py")
HANG = (*LAUNCH[:-2], "--hang-timeout", "5", "--", "job.py")
HANG_ENDS = {"ddpkit.toml": 'hang_action = "end"\n'}
INSIDE = (*LAUNCH[1:-1], "torchrun", "--standalone", "job.py")
PORT = ("test", "-b", "ssh", "{first}", "{second}", "-n", "1", "-o", "master_port=29500")
SCRIPT = ("test", "-b", "ssh", "{first}", "{second}", "-n", "1", "--", "job.py")
HEAD = ("test", "-b", "ssh", "{first}", "{second}", "-n", "1", "-o", "master_addr=head")


# ---- what is made


def taken(place: Place) -> None:
    text = 'import socket, time; s = socket.create_server(("", 29500)); print("ready", flush=True); time.sleep(7200)'
    place.bare.daemon(place.first, sys.executable, "-c", text)


def fire(host: str, rule: str) -> Callable[[Place], object]:
    return lambda place: place.bare.firewall(getattr(place, host), rule)


def own_name(*hosts: str) -> Callable[[Place], object]:
    """A host's own name as installers of Debian write it, and no other line for it."""

    def make(place: Place) -> None:
        text = (place.lab.folder / "etc/hosts").read_text()
        for host in (getattr(place, each) for each in hosts):
            others = "".join(line for line in text.splitlines(True) if host not in line.split())
            place.bare.write(host, "/etc/hosts", f"127.0.1.1 {host}\n{others}")

    return make


def head_unknown(place: Place) -> None:
    """All know the name `head` but the second node."""
    place.bare.names(place.filled("{firstip} head\n"), hosts=[LOGIN, place.first])


def without(place: Place, host: str, name: str) -> None:
    """This host does not know that name."""
    text = (place.lab.folder / "etc/hosts").read_text()
    place.bare.write(host, "/etc/hosts", "".join(line for line in text.splitlines(True) if name not in line.split()))


def login_env(place: Place, host: str, **values: str) -> None:
    """Variables of everyone who comes to this host by ssh."""
    own = f"SetEnv TMPDIR={place.lab.tmp}"  # sshd reads the first SetEnv alone
    place.bare.sshd(host, {own: own + "".join(f" {name}={value}" for name, value in values.items())})


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += SECONDS;
    return code;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec now;
    int code = clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
    return code;
}
time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
"""


def clock(seconds: int) -> Callable[[Place], object]:
    """The second node's clock is off, for everyone who comes by ssh. libfaketime breaks time.sleep of Python 3.11."""

    def make(place: Place) -> None:
        source, library = place.folder / "clock.c", place.folder / "clock.so"
        source.write_text(CLOCK.replace("SECONDS", str(seconds)))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        login_env(place, place.second, LD_PRELOAD=str(library))

    return make


def start_up(text: str, instead: bool = False, host: str = "second") -> Callable[[Place], object]:
    """Lines at the end of ~/.bashrc of a node, or a whole one."""

    def make(place: Place) -> None:
        before = "" if instead else (place.lab.folder / "bashrc").read_text()
        place.bare.write(getattr(place, host), Path.home() / ".bashrc", before + text)

    return make


def another_torch(place: Place) -> None:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).with_name("version.py")
    text = re.sub("__version__ = .*", "__version__ = '1.13.1+cu117'", path.read_text())
    place.bare.write(place.second, path, text)


def no_torch(place: Place) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place.folder / "bare"], check=True)
    place.bare.toml(f'[host.{place.second}]\npython = "{place.folder}/bare/bin/python"\n')


def no_script(place: Place) -> None:
    place.bare.small(place.second, place.folder, "size=1m")


def small_shm(place: Place) -> None:
    place.bare.small(place.second, Path("/dev/shm"), "size=2m")


def tmp(options: str, fill: str = "") -> Callable[[Place], object]:
    def make(place: Place) -> None:
        path = place.folder / "tmp"
        place.bare.small(place.second, path, options)
        if fill:
            # Not as its working folder: that is looked up before the host's mounts are.
            place.lab.run(place.second, "sh", "-c", f"cd {path} && {fill}", check=False)
        place.bare.sshd(place.second, {f"SetEnv TMPDIR={place.lab.tmp}": f"SetEnv TMPDIR={path}"})

    return make


def read_only_tmp(place: Place) -> None:
    tmp("size=1m")(place)
    place.lab.run(place.second, "mount", "-o", "remount,ro", str(place.folder / "tmp"))
    place.bare.show(place.second, "/tmp", "/tmp")
    place.lab.run(place.second, "mount", "-o", "remount,bind,ro", "/tmp")


def other_interface(place: Place) -> None:
    """An interface with a lower address than the others': gloo's peers connect to it, and nobody answers."""
    place.bare.interface(place.first, "br-0a1b2c", "10.0.0.1/24")
    start_up("export GLOO_SOCKET_IFNAME=br-0a1b2c NCCL_SOCKET_IFNAME=br-0a1b2c\n", host="first")(place)
    place.bare.ip(place.second, "route", "add", "10.0.0.0/24", "dev", "eth0")
    place.bare.later(lambda: place.bare.ip(place.second, "route", "delete", "10.0.0.0/24", "dev", "eth0"))
    place.bare.firewall(place.first, "ip daddr 10.0.0.1 drop")


def ipv6(place: Place) -> None:
    place.bare.ip(place.first, "address", "add", "fd77::1/64", "dev", "eth0", "nodad")
    place.bare.later(lambda: place.bare.ip(place.first, "address", "delete", "fd77::1/64", "dev", "eth0"))
    for host in (LOGIN, place.first, place.second):
        place.bare.names("fd77::1 head\n", hosts=[host])


def unknown_host_key(place: Place) -> None:
    name = place.second
    place.bare.known_hosts(lambda text: "".join(each for each in text.splitlines(True) if f"{name}," not in each))


def changed_host_key(place: Place) -> None:
    other = place.bare.key("other").with_suffix(".pub").read_text().split()[1]
    place.bare.known_hosts(lambda text: re.sub(rf"({place.second},\S+ \S+) \S+", rf"\1 {other}", text))


def wrong_key(place: Place) -> None:
    place.bare.sshd(place.second, {"ssh/user.pub": "ssh/nobody.pub"})


def busy_sshd(place: Place) -> None:
    place.bare.sshd(place.second, {}, more="MaxStartups 1:100:1\n")
    text = f'import socket, time; s = socket.create_connection(("{place.second}", 22)); s.recv(99)\n'
    place.bare.daemon(place.first, sys.executable, "-c", text + 'print("holds it", flush=True); time.sleep(7200)')


RANK_1 = "if rank == 1:\n    "
LOADER = """
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.ones(300_000)
for batch in DataLoader(Data(), batch_size=4, num_workers=2): pass
"""
SLEEPS = "while True: time.sleep(1)\n"

# ---- the rows

RENDEZVOUS = {
    "healthy": Row(id="-", fault="nothing, for comparison", typed=static()),
    "port-taken": Row(id="L01", fault="rank 0's port is taken by another program", make=taken, test=PORT,
        typed=static()),
    "port-dropped": Row(id="L02", fault="a firewall on node1 drops what comes to rank 0's port",
        make=fire("first", "iif != lo tcp dport 29500 drop"), typed=static(), test=PORT),
    "port-rejected": Row(id="L02", fault="a firewall on node1 refuses what comes to rank 0's port",
        make=fire("first", "iif != lo tcp dport 29500 reject with tcp reset"), typed=static(), test=PORT),
    "port-dropped-c10d": Row(id="L02", fault="the same (drop), with c10d", typed=c10d(),
        make=fire("first", "iif != lo tcp dport 29500 drop"), test=PORT),
    "master-name-unknown": Row(id="L03", fault="node2 does not know MASTER_ADDR",
        make=head_unknown, typed=static(address="head"), test=HEAD),
    "no-node-is-host": Row(id="L04", fault="node1's own name means 127.0.1.1 there, the c10d endpoint is its address",
        make=own_name("first"), typed=c10d(endpoint="{firstip}")),
    "second-master": Row(id="L05", fault="node2 does not know node1's name; the c10d endpoint is an address",
        make=lambda place: without(place, place.second, place.first), typed=c10d(endpoint="{firstip}")),
    "node-rank-forgotten": Row(id="L06", fault="--node_rank forgotten on node2", test=(),
        typed={**static(), "node2": static()["node1"].replace("ssh {first}", "ssh {second}")}),
    "ids-differ": Row(id="L07", fault="another --rdzv_id on node2", typed=c10d(second="--rdzv_id job2"), test=()),
    "standalone": Row(id="L08", fault="--standalone with --nnodes 2", typed=static("--standalone"),
        test=("test", *INSIDE)),
    "node-missing": Row(id="L09", fault="torchrun is not started on node2", test=(),
        typed={"node1": static()["node1"]}),
    "node-missing-c10d": Row(id="L09", fault="the same, with c10d", test=(), typed={"node1": c10d()["node1"]}),
    "other-nproc": Row(id="L13", fault="--nproc_per_node 2 on node2, 1 on node1",
        typed=static(second="--nproc_per_node 2"), test=()),
    "clock-ahead": Row(id="L15", fault="node2's clock is 30 s ahead, with c10d", make=clock(30), typed=c10d()),
    "clock-behind": Row(id="L14", fault="node2's clock is 30 s behind, with c10d", make=clock(-30), typed=c10d()),
    "no-launcher": Row(id="L16", fault="started with python in place of torchrun", test=(),
        typed={"node1": ssh("{first}", "python job.py"), "node2": ssh("{second}", "python job.py")}),
    "no-nccl": Row(id="L17", fault="torch without CUDA, and the script asks for nccl", typed=static(),
        files=job(JOB.replace('"gloo"', '"nccl"')), test=LAUNCH),
    "no-script": Row(id="L18", fault="the script is not on node2", make=no_script,
        typed={**static(), "node2": f"ssh {{second}} '{TORCHRUN} --nnodes 2 --node_rank 1 --master_addr {{first}} "
            "{folder}/job.py'"},
        test=SCRIPT),
    "exception": Row(id="L19", fault="an exception on rank 1 while rank 0 waits in all_reduce", typed=static(),
        files=job(BEGIN + MEET + RANK_1 + "raise ValueError('bad sample 17')\n" + REDUCE), test=LAUNCH),
    "killed": Row(id="L20", fault="rank 1 is killed (SIGKILL, as by the out-of-memory killer)", typed=static(),
        files=job(BEGIN + MEET + RANK_1 + "os.kill(os.getpid(), signal.SIGKILL)\n" + REDUCE), test=LAUNCH),
    "no-reverse-name": Row(id="L21", fault="node1 cannot look up the name of node2's address",
        make=lambda place: without(place, place.first, place.second), typed=static()),
}  # fmt: skip
NETWORK = {
    # Of two ranks the one with the higher address connects: 127.0.1.1 of one node does no harm among addresses of 10.x.
    "name-is-loopback": Row(id="N01", fault="the own name of both nodes means 127.0.1.1 there",
        make=own_name("first", "second"), typed=static()),
    "name-is-loopback-of-one": Row(id="N01", fault="the same on one node alone", make=own_name("second"),
        typed=static()),
    "wrong-interface": Row(id="N04", fault="node1's start-up file names an interface that leads nowhere",
        make=other_interface, typed=static()),
    "high-ports-rejected": Row(id="N05", fault="a firewall on node1 refuses high ports",
        make=fire("first", f"{HIGH} reject with icmp type host-prohibited"), typed=static()),
    "high-ports-dropped": Row(id="N06", fault="a firewall on node1 drops what comes to high ports",
        make=fire("first", f"{HIGH} drop"), typed=static()),
    # With two ranks gloo connects from rank 1 to rank 0 alone.
    "high-ports-of-last": Row(id="N06", fault="the same on node2", make=fire("second", f"{HIGH} drop"), typed=static()),
    "ipv6": Row(id="N07", fault="MASTER_ADDR is an IPv6 address, node2 has none", make=ipv6,
        typed=static(address="head"), test=HEAD),
    "few-files": Row(id="N11", fault="ulimit -n 200 on node2", make=start_up("ulimit -n 200\n"), typed=static()),
}  # fmt: skip
SOFTWARE = {
    "env-differs": Row(id="C14", fault="NCCL_IB_DISABLE and NCCL_ALGO set on node2 alone",
        make=start_up("export NCCL_IB_DISABLE=1 NCCL_ALGO=Ring\n"), typed=static()),
    "not-in-path": Row(id="E01", fault="node2's start-up file sets PATH for interactive shells only", bound=60,
        make=start_up("case $- in *i*) ;; *) PATH=/usr/bin:/bin; return;; esac\n", instead=True),
        typed={key: line.replace(TORCHRUN, "torchrun") for key, line in static().items()}),
    "exits-early": Row(id="E01", fault="node2's start-up file ends with exit 0", bound=60,
        make=start_up("echo good morning\nexit 0\n"), typed=static()),
    "no-torch": Row(id="E02", fault="node2's Python has no torch", make=no_torch, bound=60,
        typed={**static(), "node2": static()["node2"].replace("python -m", "bare/bin/python -m")}),
    "another-torch": Row(id="E03", fault="another torch on node2", make=another_torch, typed=static()),
    "little-shm": Row(id="E04", fault="/dev/shm of 2 MiB on node2, DataLoader workers", make=small_shm, typed=static(),
        files=job(BEGIN + MEET + LOADER + REDUCE)),
    "one-core": Row(id="E09", fault="one processor for node2's session", make=start_up("taskset -pc 0 $$ >/dev/null\n"),
        typed=static()),
    "tmp-full": Row(id="tmp", fault="node2's TMPDIR is full", bound=60, typed=static(),
        make=tmp("size=64k", "dd if=/dev/zero of=full bs=4k count=99")),
    "no-inodes": Row(id="tmp", fault="one inode left in node2's TMPDIR", bound=60, typed=static(),
        make=tmp("size=1g,nr_inodes=2")),
    "read-only": Row(id="tmp", fault="/tmp and TMPDIR of node2 are read-only", bound=60, typed=static(),
        make=read_only_tmp),
}  # fmt: skip
NOHUP = (
    "(ssh -tt {second} 'cd {folder} && nohup " + TORCHRUN + " job.py > log 2>&1' & echo $! > pid; wait) & "
    "until grep -q sum log; do sleep 1; done; kill -KILL $(cat pid); sleep 10; tail -n 3 log"
)
CTRL_C = (
    "(ssh {second} 'cd {folder} && " + TORCHRUN + " job.py > log 2>&1' & echo $! > pid; wait) & "
    "until grep -q sum log; do sleep 1; done; kill -KILL $(cat pid); sleep 20; "
    "echo still there: $(ssh {second} pgrep -fc '[j]ob.py') processes"
)
SESSION = {
    "host-key-unknown": Row(id="H01", fault="node2's host key is not known", make=unknown_host_key, exclusive=True,
        bound=10, typed=static()),
    "host-key-changed": Row(id="H01", fault="node2's host key has changed", make=changed_host_key, exclusive=True,
        bound=10, typed=static()),
    "key-refused": Row(id="H03", fault="node2 takes none of the keys", make=wrong_key, bound=10, typed=static()),
    "sshd-down": Row(id="H04", fault="no sshd on node2", bound=10, typed=static(),
        make=fire("second", "tcp dport 22 reject with tcp reset")),
    "ssh-dropped": Row(id="H04", fault="a firewall on node2 drops ssh", typed=static(), bound=10,
        make=fire("second", "tcp dport 22 drop")),
    "cable": Row(id="H04", fault="node2 is off", typed=static(), bound=10,
        make=lambda place: place.bare.cut(place.second)),
    "max-startups": Row(id="H05", fault="node2's sshd is at MaxStartups", make=busy_sshd, bound=10, typed=static()),
    "pdsh-rsh": Row(id="H07", fault="pdsh with its default, rsh", test=("test", "-b", "pdsh", "{first}", "{second}"),
        typed=once("pdsh -w {first},{second} 'cd {folder} && " + TORCHRUN + " job.py'; echo exit code $?")),
    "pdsh-exit-code": Row(id="H08", fault="the script fails on node2, under pdsh",
        files=job(BEGIN + "sys.exit(7)\n"), test=("launch", "-b", "pdsh", "{first}", "{second}", "--", "job.py"),
        typed=once("pdsh -R ssh -w {first},{second} 'cd {folder} && " + TORCHRUN + " job.py'; echo exit code $?")),
    "client-killed": Row(id="H11", fault="the ssh client is killed while the job runs", typed=once(CTRL_C), test=(),
        files=job(BEGIN + MEET + REDUCE + SLEEPS)),
    "terminal-closed": Row(id="H12", fault="the terminal closes, torchrun under nohup", typed=once(NOHUP), test=(),
        files=job(BEGIN + MEET + REDUCE + SLEEPS)),
}  # fmt: skip
RUNTIME = {
    "stopped": Row(id="R01", fault="rank 1 is stopped (SIGSTOP) before all_reduce", typed=static(), test=HANG,
        files=job(BEGIN + MEET + RANK_1 + "os.kill(os.getpid(), signal.SIGSTOP)\n" + REDUCE) | HANG_ENDS),
    "peer-died": Row(id="R02", fault="rank 1 exits with code 3 while rank 0 waits in all_reduce", typed=static(),
        files=job(BEGIN + MEET + RANK_1 + "os._exit(3)\n" + REDUCE), test=LAUNCH),
    "loops": Row(id="R08", fault="rank 1 never comes to all_reduce", typed=static(), test=HANG,
        files=job(BEGIN + MEET + RANK_1 + SLEEPS + REDUCE) | HANG_ENDS),
}  # fmt: skip

# ---- SLURM

PAIR = "-J {tag} -w {first},{second}"
MAPPED = "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR={first} MASTER_PORT={port} python job.py"
STEP = f"{TORCHRUN} --nnodes 2 --node_rank $SLURM_NODEID --master_addr {{first}} --master_port {{port}}"
ASK = ("test", "-b", "slurm", "-N", "2", "-n", "1")


def batch(lines: str, options: str = "-N 2 --ntasks-per-node 1") -> str:
    """sbatch, and what the job printed."""
    script = f"#!/bin/bash\n{lines}\n"
    follow = "touch {tag}.out; tail -f {tag}.out & wait %1; echo exit code $?; sleep 1; kill %2"
    return f"sbatch --wait -o {{tag}}.out {PAIR} {options} <<'END' & {follow}\n{script}END\n"


def no_slurmd(place: Place) -> None:
    """As when the daemon dies: SLURM finds out after SlurmdTimeout."""
    pid = min(pid for pid, line in place.lab.processes(place.second).items() if line.startswith("slurmd "))
    place.lab.run(place.second, "kill", "-9", str(pid))  # the row is the last on its nodes


def nodes(*options: str) -> tuple[str, ...]:
    return (*ASK, "-o", "nodelist={first},{second}", *options)


SLURM = {
    "no-srun": Row(id="S01", fault="torchrun in a job script without srun", slurm=True, test=(),
        typed=once(batch(STEP + " job.py"))),
    "rank-dies-in-step": Row(id="S04", fault="rank 1 ends with code 1 before it meets rank 0, under srun", slurm=True,
        typed=once(f"srun {PAIR} -N 2 --ntasks-per-node 1 bash -c {shlex.quote(MAPPED)}"),
        files=job(BEGIN + RANK_1 + "sys.exit(1)\n" + MEET + REDUCE),
        test=("launch", "-b", "slurm", "-N", "2", "-n", "1", "-o", "nodelist={first},{second}", "--", "job.py")),
    "two-levels": Row(id="S02", fault="srun starts torchrun once for each GPU", slurm=True,
        test=nodes("--", "torchrun", "--nproc_per_node", "2", "job.py"),
        typed=once(f"srun {PAIR} -N 2 --ntasks-per-node 2 bash -c {shlex.quote(STEP + ' --nproc_per_node 2 job.py')}")),
    "plain-python": Row(id="L16", fault="srun python without RANK", slurm=True, test=(),
        typed=once(f"srun {PAIR} -N 2 --ntasks-per-node 1 python job.py")),
    "nested-step": Row(id="S05", fault="a step in a job whose resources another step has", slurm=True,
        before="salloc -Q -J {tag} -N 1 -n 1 -w {first} "
            "bash -c 'srun sleep 120 & sleep 2; \"$@\"; scancel $SLURM_JOB_ID' bash",
        test=("test", "-b", "slurm", "-N", "1", "-n", "1"),
        typed=once("salloc -J {tag} -N 1 -n 1 -w {first} bash -c 'srun sleep 60 & sleep 2; srun hostname'")),
    "too-much-memory": Row(id="S05", fault="a step asks for more processors than the job has", slurm=True, test=(),
        typed=once("salloc -J {tag} -N 1 -n 1 -w {first} srun -n 2 hostname; echo exit code $?")),
    "no-partition": Row(id="S10", fault="a partition that does not exist", slurm=True,
        test=nodes("-o", "partition=gpus"),
        typed=once(f"srun {PAIR} -p gpus -N 2 hostname; echo exit code $?")),
    "no-gres": Row(id="S10", fault="a kind of GPU that no node has", slurm=True, test=nodes("-o", "gres=gpu:h100:1"),
        typed=once(f"srun {PAIR} --gres=gpu:h100:1 -N 2 hostname; echo exit code $?")),
    "too-many-gpus": Row(id="S10", fault="more GPUs than a node has", slurm=True, test=nodes("-o", "gpus_per_node=9"),
        typed=once(f"srun {PAIR} --gpus-per-node=9 -N 2 hostname; echo exit code $?")),
    "too-many-nodes": Row(id="S10", fault="more nodes than there are", slurm=True,
        test=("test", "-b", "slurm", "-N", "9", "-n", "1"),
        typed=once("srun -J {tag} -N 9 hostname; echo exit code $?")),
    "time-limit": Row(id="S07", fault="the time limit is shorter than the run", slurm=True,
        files=job(BEGIN + SLEEPS),
        test=("launch", "-b", "slurm", "-N", "2", "-n", "1", "-o", "time=1", "--", "job.py"),
        typed=once(f"srun {PAIR} --time 1 -N 2 --ntasks-per-node 1 python job.py; echo exit code $?")),
    "slurmd-dead": Row(id="S11", fault="slurmd on node2 is dead, SLURM does not know yet", slurm=True, make=no_slurmd,
        test=("test", "-b", "slurm", "-N", "2", "-n", "1", "-o", "nodelist={first},{second}"),
        typed=once(f"srun {PAIR} -N 2 --ntasks-per-node 1 hostname; echo exit code $?")),
}  # fmt: skip


def long_first(rows: dict[str, Row]) -> dict[str, Row]:
    """Those that wait long begin first; SLURM's stay in their order."""
    late: Sequence[str] = [name for name, row in rows.items() if row.bound is not None]
    return {name: row for name, row in rows.items() if name not in late} | {name: rows[name] for name in late}


ROWS = {**long_first({**RENDEZVOUS, **NETWORK, **SOFTWARE, **RUNTIME, **SESSION}), **SLURM}
