"""Faults that show once ranks run, on one host of four, and what is said of each, whatever started them."""

from __future__ import annotations

from collections.abc import Callable

import sites
from bare_nodes import Bare
from cluster import NODES
from preflight_rows import Row


def at(host: str, when: str, what: str) -> Callable[[Bare], list[str]]:
    return lambda bare: sites.plant(bare, host, when, what)


def killed(name: str) -> str:
    return f"os.kill(os.getpid(), signal.{name})"


def large_packets(bare: Bare) -> list[str]:
    bare.firewall("node3", f"ip saddr {bare.lab.address['node2']} meta length > 1000 drop")
    return []


def large_packets_of_one(bare: Bare) -> list[str]:
    bare.firewall(
        "node3", f"ip saddr {{ {', '.join(bare.lab.address[name] for name in NODES)} }} meta length > 1000 drop"
    )
    return []


HANG = "while True: time.sleep(60)"
RANKS = {
    "never-starts": Row(  # L09
        fault=at("node3", "start", HANG),
        id="ranks",
        evidence="never started",
        cause="not started, or its Python hangs",
        doc="ranks-missing",
    ),
    "hangs-at-torch": Row(  # L09, L10
        fault=at("node3", "torch", HANG),
        id="ranks",
        evidence=r"did not join within \d+ s",
        cause="hangs before the rendezvous",
        fix="import torch",
        doc="ranks-missing",
    ),
    "no-distributed": Row(  # L17
        fault=at("node3", "imported", "sys.modules['torch.distributed'].is_available = lambda: False"),
        id="ranks",
        evidence="built without torch.distributed",
        fix="pip install",
        doc="no-nccl-in-torch",
    ),
    "torch-is-broken": Row(  # E02
        fault=at("node3", "torch", "raise ImportError('libcudart.so.12: cannot open shared object file')"),
        id="ranks",
        evidence="cannot import torch: libcudart",
        fix="import torch",
        doc="module-missing",
    ),
    "killed": Row(  # L20
        fault=at("node3", "all_reduce", killed("SIGKILL")),
        id="gloo",
        evidence=r"rank 2 ended after .* killed by signal 9 \(SIGKILL\)",
        cause="out-of-memory",
        fix="dmesg",
        doc="killed",
    ),
    "bus-error": Row(  # L20
        fault=at("node3", "all_reduce", killed("SIGBUS")),
        id="gloo",
        evidence="SIGBUS",
        cause="/dev/shm",
        fix="df -h /dev/shm",
        doc="bus-error",
    ),
    "segfault": Row(  # L20
        fault=at("node3", "all_reduce", killed("SIGSEGV")),
        id="gloo",
        evidence="SIGSEGV",
        cause="compiled code",
        doc="segfault",
    ),
    "aborted": Row(  # L20
        fault=at("node3", "torch", killed("SIGABRT")),
        id="ranks",
        evidence="SIGABRT",
        cause="compiled library aborted",
        doc="aborted",
    ),
    "stopped": Row(  # R01
        fault=at("node3", "all_reduce", killed("SIGSTOP")),
        id="gloo",
        evidence="ended, or hung",
        cause="did not end, so it hangs",
        doc="peer-died",
    ),
    "rank-0-stopped": Row(  # R01
        fault=at("node1", "all_reduce", killed("SIGSTOP")),
        id="gloo",
        host="node1",
        rank=0,
        evidence="ended, or hung",
        cause="did not end, so it hangs",
        doc="peer-died",
    ),
    "rank-0-killed": Row(  # R02
        fault=at("node1", "all_reduce", killed("SIGKILL")),
        id="gloo",
        host="node1",
        rank=0,
        evidence="SIGKILL",
        cause="out-of-memory",
        doc="killed",
    ),
    "large-packets": Row(  # N11, MTU
        fault=large_packets,
        id="gloo",
        evidence="all_reduce fails with rank 1 on node2: 512 KiB do not pass, and 4 bytes did; all other pairs succeed",
        cause="large packets are lost",
        fix="ssh node3 ping .* node2",
        doc="firewall-drop",
    ),
    "large-packets-of-one": Row(
        fault=large_packets_of_one,
        id="gloo",
        evidence="gloo all_reduce fails with every other rank",
        cause="its name, its interface, or its firewall",
        doc="firewall-drop",
    ),
    "gloo-interface": Row(  # N04
        fault=at("node3", "start", "os.environ['GLOO_SOCKET_IFNAME'] = 'ib7'"),
        id="gloo",
        evidence="gloo all_reduce fails with every other rank: .*ib7",
        cause="its name, its interface, or its firewall",
        fix="GLOO_SOCKET_IFNAME",
        doc="nccl-wrong-interface",
    ),
}
