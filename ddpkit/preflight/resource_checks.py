"""Checks of a node's memory, limits, disks, clock and machine, and of the launcher's disk for logs."""

from __future__ import annotations

import errno
import shlex
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.launchers.node_facts import Space
from ddpkit.launchers.shell import count
from ddpkit.node.calls import inventory
from ddpkit.node.owned import try_to_write
from ddpkit.preflight.check import Check, Fault, Node, Status, check_each
from ddpkit.text import format_size_in_digits as size

GIB = 1 << 30
MIB = 1 << 20
OPEN_FILES = 1024  # what every system allows; a rank with workers and many peers needs more than that
# Of a rank with 16 DataLoader workers (torch 2.13: 14 for each, and one for each tensor of the batches on their way).
WORKER_FILES = 512
MOST_FILES = 65536
LOCKED = GIB  # bytes that a network adapter wants to pin
SHM_FAIL, SHM_WARN = 64 * MIB, GIB  # docker's own default is 64 MiB
DISK_FAIL, DISK_WARN = 64 * MIB, GIB
INODES_FAIL, INODES_WARN = 100, 10_000
RANK_MEMORY = GIB // 2  # bytes: a rank that has imported torch and CUDA's libraries


@check_each("limits")
def check_limits(node: Node, nodes: Sequence[Node]) -> Fault | str:
    limits = node.inventory["limits"]
    files, locked, threads = limits["nofile"], limits["memlock"], node.inventory["threads"]
    world = sum(each.slots for each in nodes)
    needed = 64 + 16 * node.slots + world + WORKER_FILES  # rank 0 and gloo have a connection to each rank
    if files is not None and files < max(needed, OPEN_FILES):
        what = f"{files} open files for a process"
        what += f"; a rank of {world} with 16 DataLoader workers may need {needed}" if files >= OPEN_FILES else ""
        cause = "every peer, DataLoader worker and log needs an open file: Too many open files"
        fix = _more_files(node, max(needed, OPEN_FILES))
        return Fault("fail" if files < 256 else "warn", what, cause, fix, "too-many-files")
    if threads is not None and threads < 64 * node.slots:
        what = f"the limit allows {threads} more processes and threads"
        cause = "torch starts one thread per CPU in each rank"
        fix = "docker: --pids-limit=-1; SLURM or systemd: TasksMax=infinity"
        return Fault("fail", what, cause, fix, "cannot-fork")
    if (
        locked is not None
        and locked < LOCKED
        and any(port["state"] == "ACTIVE" for port in node.inventory["infiniband"])
    ):
        what = f"the limit of locked memory is {size(locked)}, and the node has InfiniBand"
        cause = "NCCL locks its buffers in memory for the adapter: ibv_reg_mr fails"
        fix = (
            "ulimit -l unlimited for the ranks: memlock in limits.conf, LimitMEMLOCK of sshd or slurmd, "
            "docker --ulimit memlock=-1"
        )
        return Fault("fail", what, cause, fix, "memlock")
    return f"{files if files is not None else 'unlimited'} open files"


def _more_files(node: Node, needed: int) -> str:
    """Return how the ranks of a node get more open files: up to the hard limit anybody may set it."""
    hard = node.inventory["limits"].get("nofile_hard")
    if hard is not None and hard < needed:
        return "as administrator: nofile in /etc/security/limits.conf on that node, LimitNOFILE of sshd or slurmd"
    command = f"ulimit -n {max(needed, min(hard or MOST_FILES, MOST_FILES))}"
    return f"{command}, in ~/.bashrc on {node.label}; under SLURM: -o setup='{command}'" if node.target else command


@check_each("shm")
def check_shm(node: Node, nodes: Sequence[Node]) -> Fault | str:
    space = node.inventory["space"].get("shm")
    if space is None and not node.inventory["linux"]:
        return Fault("unknown", "only Linux has /dev/shm")
    if space is None:
        what = "/dev/shm not found"
        cause = "DataLoader workers, gloo and NCCL pass data through it"
        fix = node.command("sudo mount -t tmpfs -o size=50% tmpfs /dev/shm")
        return Fault("fail", what, cause, fix, "shm-full")
    free = space["free"]
    if free >= SHM_WARN:
        return f"{size(free)} free"
    what = f"/dev/shm: {size(free)} free of {size(space['total'])}"
    cause = "DataLoader workers and NCCL pass data through it: Bus error, or no shared memory" + (
        "; files of ended processes fill it" if space["total"] >= SHM_WARN else ""
    )
    fix = _shm_fix(node, space)
    return Fault("fail" if free < SHM_FAIL else "warn", what, cause, fix, "shm-full")


def _shm_fix(node: Node, space: Space) -> str:
    if node.inventory["container"]:
        return "start the container with --ipc=host, or --shm-size=16g"
    if space["total"] >= SHM_WARN:
        return node.command("ls -lS /dev/shm")
    return node.command("sudo mount -o remount,size=50% /dev/shm")


@check_each("disk")
def check_disk(node: Node, nodes: Sequence[Node]) -> Iterator[Fault | str]:
    full = [use for use in node.inventory["space"] if use.startswith("/")]  # others, by their path
    spaces = [space for use in ("tmp", "workdir") if (space := node.inventory["space"].get(use))]
    text = "; ".join(dict.fromkeys(f"{space['folder']}: {size(space['free'])} free" for space in spaces))
    faults = [fault for use in ("tmp", "workdir", *full) for fault in _check_file_system(node, use)]
    yield from faults
    if not faults:
        yield text


def _check_file_system(node: Node, use: str) -> Iterator[Fault]:
    """Yield the fault of a file system by what it is used for: `tmp`, `workdir`, or its own place."""
    space = node.inventory["space"].get(use)
    if space is None or space["total"] == 0:  # a file system that counts nothing
        return
    if use == "tmp" and node.facts["no_tmp"]:
        return  # reported already
    free, inodes = space["free"], space["inodes_free"]
    few = bool(space["inodes"]) and inodes < INODES_WARN  # btrfs and some network file systems count none
    status: Status
    look = "df -h"
    if space["read_only"] and use == "tmp":
        what, status = "is mounted read-only", "fail"
    elif free < DISK_WARN:
        what, status = f"has {size(free)} free", "fail" if free < DISK_FAIL else "warn"
    elif few:
        what, status = f"has {inodes} inodes left", "fail" if inodes < INODES_FAIL else "warn"
        look = "df -i"
    else:
        return
    what = f"the file system of {space['folder']} {what}"
    cause = "logs, checkpoints and files of workers need space"
    fix = node.command(f"{look} {shlex.quote(str(space['folder']))}")
    yield Fault(status, what, cause, fix, "disk-full")


@check_each("memory")
def check_memory(node: Node, nodes: Sequence[Node]) -> Fault | str:
    memory = node.inventory["memory"]
    if not node.inventory["linux"]:
        return Fault("unknown", "only Linux reports it in /proc")
    free, whose = memory["free"], "the machine"
    if memory["bound"] is not None and memory["bound"] - (memory["used"] or 0) < free:
        free, whose = memory["bound"] - (memory["used"] or 0), "its cgroup"
    if free >= 2 * RANK_MEMORY * node.slots:
        return f"{size(free)} free in {whose}"
    what = f"{size(free)} free in {whose}, for {node.slots} ranks"
    cause = "the kernel kills processes that need more (SIGKILL)"
    fix = (
        "request more (SLURM: -o mem=0), or start fewer ranks: -n"
        if whose == "its cgroup"
        else node.command("ps aux --sort=-rss | head")
    )
    return Fault("fail" if free < RANK_MEMORY * node.slots else "warn", what, cause, fix, "host-out-of-memory")


@check_each("cpus")
def check_cpus(node: Node, nodes: Sequence[Node]) -> Fault | str:
    cpus, usable = node.inventory["cpus"], _usable(node)
    text = f"{usable:g} of {cpus['machine']} CPUs"
    # Fewer CPUs than ranks are slow; on a machine that has no more, the user asked for that. One core, where all other
    # nodes have more, is a mistake also for one rank.
    only_one = usable == 1 and all(_usable(other) > 1 for other in nodes if other is not node) and len(nodes) > 1
    if (usable >= node.slots and not only_one) or usable >= (cpus["machine"] or 1):
        return text
    what = f"{count(node.slots, 'rank')} on {text}"
    cause = "the ranks and their DataLoader workers share the CPUs of the job or the container"
    fix = _cpus_fix(node)
    return Fault("warn", what, cause, fix, "one-core")


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


SKEW_WARN, SKEW_FAIL = 2.0, 5.0  # seconds; torchrun's c10d rendezvous takes a node for dead at 15


def check_clock(nodes: Sequence[Node]) -> Iterator[Check]:
    """Compare each clock with the median of all: the launcher's own may be wrong. Of two nodes its clock decides."""
    middles = sorted([*(sum(node.clock_offset) / 2 for node in nodes), *([0.0] if len(nodes) == 2 else [])])
    middle = middles[len(middles) // 2]

    @check_each("clock")
    def check(node: Node, _: Sequence[Node]) -> Fault | str:
        low, high = (bound - middle for bound in node.clock_offset)
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        apart = (low + high) / 2
        word = f"{abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} the other nodes"
        if least <= SKEW_WARN:
            return "equal on all nodes" if len(nodes) > 1 else "one node"
        what = f"its clock is {word}"
        cause = "torchrun's c10d rendezvous drops nodes whose clock is 15 s off, without a message"
        fix = node.command("sudo chronyc makestep")
        return Fault("fail" if least > SKEW_FAIL else "warn", what, cause, fix, "clock-skew")

    return check(nodes)


def check_infiniband(nodes: Sequence[Node]) -> Iterator[Check]:
    """Check that each node has as many ports as the best one, as many active ones, and that a process can use them."""
    most = max((len(node.inventory["infiniband"]) for node in nodes), default=0)
    most_active = max(
        (sum(port["state"] == "ACTIVE" for port in node.inventory["infiniband"]) for node in nodes), default=0
    )

    @check_each("infiniband")
    def check(node: Node, _: Sequence[Node]) -> Fault | str:
        ports = node.inventory["infiniband"]
        down = [f"{port['device']}:{port['port']} is {port['state']}" for port in ports if port["state"] != "ACTIVE"]
        if not most:
            return Fault("skip", "none here")
        if len(ports) < most:
            what = f"{len(ports)} ports, another node has {most}"
            cause = "an adapter is missing, or its driver is not loaded"
            fix = node.command("ibstat")
            return Fault("fail" if not ports else "warn", what, cause, fix, "ib-link-lost")
        active = len(ports) - len(down)
        if active < max(1, most_active):  # ports without a cable are down on every node
            others = f"; another node has {most_active} active ports" if most_active else ""
            what = "; ".join(down) + others
            cause = "NCCL uses fewer adapters" if active else "NCCL would use Ethernet, or fail"
            fix = node.command("ibstat")
            return Fault("warn" if active else "fail", what, cause, fix, "ib-link-lost")
        closed = [port.get("no_verbs", "") for port in ports if port["state"] == "ACTIVE"]
        if closed and all(closed):
            in_container = node.inventory["container"]
            give = "give the container its files: --device=/dev/infiniband --ulimit=memlock=-1"
            what = f"{active} of {len(ports)} ports are active, and none can be used here: {closed[0]}"
            cause = "NCCL would use Ethernet, which is slower, without a message"
            fix = give if in_container else node.command("ls -l /dev/infiniband")
            return Fault("fail", what, cause, fix, "ib-not-used")
        pairs = closest_adapters(node)
        return f"{active} of {len(ports)} ports are active" + (f"; nearest: {pairs}" if pairs else "")

    return check(nodes)


@check_each("container")
def check_container(node: Node, nodes: Sequence[Node]) -> Fault | str:
    """A container with a network of its own has one address, of docker's bridge, that no other node reaches."""
    kind = node.inventory["container"]
    addresses = [address for _, address in node.facts["addresses"]]
    bridged = [address for address in addresses if address.startswith("172.17.")]
    if not kind:
        return Fault("skip", "none")
    if bridged and len(bridged) == len(addresses) and len(nodes) > 1:
        what = f"its only address is {bridged[0]}, of docker's bridge"
        cause = "the container has a private network that other nodes cannot reach"
        fix = "docker run --network=host --ipc=host ..."
        return Fault("fail", what, cause, fix, "container-bridge")
    return str(kind)


@check_each("debugging")
def check_debugging(node: Node, nodes: Sequence[Node]) -> Fault | str:
    """Not a reason to warn: `ddpkit dump` has another way. But one wants to know it before the night."""
    scope = node.inventory["ptrace_scope"]
    if node.inventory["remove_ipc"]:
        what = "logind removes a user's shared memory at logout (RemoveIPC=yes)"
        cause = "a run that continues after the logout loses the segments of NCCL and DataLoader"
        fix = node.command("echo RemoveIPC=no | sudo tee -a /etc/systemd/logind.conf")
        return Fault("warn", what, cause, fix, "shm-unlinked")
    if scope is None:
        return "ptrace: any process of the same user (no Yama)"
    word = {0: "any process of the same user", 1: "children only: py-spy needs sudo"}.get(scope, "root only")
    return f"ptrace: {word}"


NEEDS = 1 << 16  # bytes: the head of a log


def check_logs(log_dir: str) -> Check:
    """Check the folder of logs, which a launch makes where it is not there yet."""
    folder = Path(log_dir).absolute()
    place = next(each for each in (folder, *folder.parents) if each.exists())
    room = inventory.space(str(place))
    try:
        try_to_write(str(place), NEEDS)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.ENOSPC and room and room["inodes"] and not room["inodes_free"]:
            reason = "no inodes left"
        return _log_fault("fail", f"cannot write logs to {folder}: {reason}", find_symptom("log-folder", reason).cause)
    if room and room["total"]:
        few = bool(room["inodes"]) and room["inodes_free"] < INODES_WARN
        if room["free"] < DISK_WARN:
            text = f"the file system of the log directory {folder} has {size(room['free'])} free"
            return _log_fault("fail" if room["free"] < DISK_FAIL else "warn", text, "logs need more space")
        if few:
            text = f"the file system of the log directory {folder} has {room['inodes_free']} inodes left"
            return _log_fault("fail" if room["inodes_free"] < INODES_FAIL else "warn", text, "logs need more space")
    return Check(id="disk", status="pass", host=socket.gethostname(), evidence=f"{folder} is writable")


def _log_fault(status: Status, evidence: str, cause: str) -> Check:
    fix = "--log-dir DIR on another file system, or log_dir in ddpkit.toml"
    return Fault(status, evidence, cause, fix, "disk-full").of("disk", socket.gethostname())


def closest_adapters(node: Node) -> str:
    """Return the adapter nearest to each GPU: by the common path of PCI bridges, else by the NUMA node."""
    gpus = node.inventory["gpus"]
    if not isinstance(gpus, list):
        return ""
    pairs = []
    for gpu in gpus:
        path = gpu.get("pci", "").split("/")  # of PCI bridges, from the root complex
        nearest, closeness = "", 0
        for port in node.inventory["infiniband"]:
            common = _common_parts(path, port["pci"].split("/"))
            # The root complex alone is shared by all devices of a socket.
            near = common if common > 1 else int(port["numa"] == gpu.get("numa") and port["numa"] not in ("", "-1"))
            if path[0] and near > closeness:
                nearest, closeness = port["device"], near
        if nearest:
            pairs.append(f"GPU {gpu.get('index')} {nearest}")
    return ", ".join(pairs)


def _common_parts(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal parts at the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
