"""Checks of resources: limits, shared memory, disks, memory, processors. Pure.

Bounds are chosen so that a healthy node never gets a word of warning.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ddpkit.launchers.node_facts import Space
from ddpkit.launchers.shell import count
from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.node import Checks, Node, check_each
from ddpkit.text import format_size_in_digits as size

GIB = 1 << 30
MIB = 1 << 20
OPEN_FILES = 1024  # what every system allows; a rank with workers and many peers needs more than that
LOCKED = GIB  # bytes that a network adapter wants to pin
SHM_FAIL, SHM_WARN = 64 * MIB, GIB  # docker's own default is 64 MiB
DISK_FAIL, DISK_WARN = 64 * MIB, GIB
INODES_FAIL, INODES_WARN = 100, 10_000
RANK_MEMORY = GIB // 2  # bytes: a rank that has imported torch and CUDA's libraries


@check_each("limits")
def check_limits(node: Node, nodes: Sequence[Node]) -> Check | str:
    limits = node.inventory["limits"]
    files, locked, threads = limits["nofile"], limits["memlock"], node.inventory["threads"]
    needed = 64 + 16 * node.slots  # what a rank opens before its own data
    if files is not None and files < max(needed, OPEN_FILES):
        return node.check(
            "limits",
            "fail" if files < 256 else "warn",
            f"{files} open files for a process",
            cause="every peer, DataLoader worker and log needs an open file: Too many open files",
            fix="raise nofile in /etc/security/limits.conf on that node; for this shell: ulimit -n 65536",
            doc="too-many-files",
        )
    if threads is not None and threads < 64 * node.slots:
        return node.check(
            "limits",
            "fail",
            f"the limit allows {threads} more processes and threads",
            cause="torch starts one thread per CPU in each rank",
            fix="docker: --pids-limit=-1; SLURM or systemd: TasksMax=infinity",
            doc="cannot-fork",
        )
    if (
        locked is not None
        and locked < LOCKED
        and any(port["state"] == "ACTIVE" for port in node.inventory["infiniband"])
    ):
        return node.check(
            "limits",
            "fail",
            f"the limit of locked memory is {size(locked)}, and the node has InfiniBand",
            cause="NCCL locks its buffers in memory for the adapter: ibv_reg_mr fails",
            fix="ulimit -l unlimited for the ranks: memlock in limits.conf, LimitMEMLOCK of sshd or slurmd, "
            "docker --ulimit memlock=-1",
            doc="memlock",
        )
    return f"{files if files is not None else 'unlimited'} open files"


@check_each("shm")
def check_shm(node: Node, nodes: Sequence[Node]) -> Check | str:
    space = node.inventory["space"].get("shm")
    if space is None and not node.inventory["linux"]:
        return node.check("shm", "unknown", "only Linux has /dev/shm")
    if space is None:
        return node.check(
            "shm",
            "fail",
            "/dev/shm not found",
            cause="DataLoader workers, gloo and NCCL pass data through it",
            fix=node.command("sudo mount -t tmpfs -o size=50% tmpfs /dev/shm"),
            doc="shm-full",
        )
    free = space["free"]
    if free >= SHM_WARN:
        return f"{size(free)} free"
    return node.check(
        "shm",
        "fail" if free < SHM_FAIL else "warn",
        f"/dev/shm: {size(free)} free of {size(space['total'])}",
        cause="DataLoader workers and NCCL pass data through it: Bus error, or no shared memory"
        + ("; files of ended processes fill it" if space["total"] >= SHM_WARN else ""),
        fix=_shm_fix(node, space),
        doc="shm-full",
    )


def _shm_fix(node: Node, space: Space) -> str:
    if node.inventory["container"]:
        return "start the container with --ipc=host, or --shm-size=16g"
    if space["total"] >= SHM_WARN:
        return node.command("ls -lS /dev/shm")
    return node.command("sudo mount -o remount,size=50% /dev/shm")


def check_disk(nodes: Sequence[Node]) -> Checks:
    for node in nodes:
        full = [use for use in node.inventory["space"] if use.startswith("/")]
        checks = [check for use in ("tmp", "workdir", *full) for check in _one_disk(node, use)]
        spaces = [space for use in ("tmp", "workdir") if (space := node.inventory["space"].get(use))]
        text = "; ".join(dict.fromkeys(f"{space['folder']}: {size(space['free'])} free" for space in spaces))
        yield from checks or [node.check("disk", "pass", text)]


def _one_disk(node: Node, use: str) -> Checks:
    space = node.inventory["space"].get(use)
    if space is None or space["total"] == 0:  # a file system that counts nothing
        return
    if use == "tmp" and node.facts["no_tmp"]:
        return  # reported already
    free, inodes = space["free"], space["inodes_free"]
    few = bool(space["inodes"]) and inodes < INODES_WARN  # btrfs and some network file systems count none
    status: Status
    if space["read_only"] and use == "tmp":
        what, status = "is mounted read-only", "fail"
    elif free < DISK_WARN:
        what, status = f"has {size(free)} free", "fail" if free < DISK_FAIL else "warn"
    elif few:
        what, status = f"has {inodes} inodes left", "fail" if inodes < INODES_FAIL else "warn"
    else:
        return
    yield node.check(
        "disk",
        status,
        f"the file system of {space['folder']} {what}",
        cause="logs, checkpoints and files of workers need space",
        fix=node.command(f"df {'-i' if 'inodes' in what else '-h'} {shlex.quote(str(space['folder']))}"),
        doc="disk-full",
    )


@check_each("memory")
def check_memory(node: Node, nodes: Sequence[Node]) -> Check | str:
    memory = node.inventory["memory"]
    if not node.inventory["linux"]:
        return node.check("memory", "unknown", "only Linux reports it in /proc")
    free, whose = memory["free"], "the machine"
    if memory["bound"] is not None and memory["bound"] - (memory["used"] or 0) < free:
        free, whose = memory["bound"] - (memory["used"] or 0), "its cgroup"
    if free >= 2 * RANK_MEMORY * node.slots:
        return f"{size(free)} free in {whose}"
    return node.check(
        "memory",
        "fail" if free < RANK_MEMORY * node.slots else "warn",
        f"{size(free)} free in {whose}, for {node.slots} ranks",
        cause="the kernel kills processes that need more (SIGKILL)",
        fix="request more (SLURM: -o mem=0), or start fewer ranks: -n"
        if whose == "its cgroup"
        else node.command("ps aux --sort=-rss | head"),
        doc="host-out-of-memory",
    )


@check_each("cpus")
def check_cpus(node: Node, nodes: Sequence[Node]) -> Check | str:
    cpus, usable = node.inventory["cpus"], _usable(node)
    text = f"{usable:g} of {cpus['machine']} CPUs"
    # Fewer than ranks is slow; on a machine that has no more it is what one asked for. One core, where the other
    # nodes give more, is a mistake also for one rank.
    alone = usable == 1 and all(_usable(other) > 1 for other in nodes if other is not node) and len(nodes) > 1
    if (usable >= node.slots and not alone) or usable >= (cpus["machine"] or 1):
        return text
    return node.check(
        "cpus",
        "warn",
        f"{count(node.slots, 'rank')} on {text}",
        cause="the ranks and their DataLoader workers share the CPUs of the job or the container",
        fix=_cpus_fix(node),
        doc="one-core",
    )


def _cpus_fix(node: Node) -> str:
    if "SLURM_JOB_ID" in node.facts["set"]:
        return "-o cpus_per_task=N"
    if node.inventory["cpus"]["quota"] is not None and node.inventory["container"]:
        return "start the container with a larger --cpus, or without --cpus"
    return node.command("taskset -cp $$; grep -n taskset ~/.bashrc ~/.profile")


def _usable(node: Node) -> float:
    """Processors, or their share of time, that a process on the node may use."""
    cpus = node.inventory["cpus"]
    allowed = len(cpus["allowed"]) or cpus["machine"] or 1
    return min(allowed, cpus["quota"]) if cpus["quota"] is not None else allowed
