"""From what nodes said about themselves to findings: pure, facts in, checks out.

The facts are those of `ddpkit/node/inventory.py` (and some of `probe.look`). Every check says something about every
node: a pass is evidence as well. Bounds are chosen so that a healthy node never gets a word of warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpkit.launchers.shell import count
from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.env_checks import environment
from ddpkit.preflight.gpu_checks import gpus
from ddpkit.preflight.node import Found, Node, each, size, usual

GIB = 1 << 30
MIB = 1 << 20
SKEW_WARN, SKEW_FAIL = 2.0, 5.0  # seconds; torchrun's c10d rendezvous takes a node for dead at 15
OPEN_FILES = 1024  # what every system allows; a rank with workers and many peers needs more than that
LOCKED = GIB  # bytes that a network adapter wants to pin
SHM_FAIL, SHM_WARN = 64 * MIB, GIB  # docker's own default is 64 MiB
DISK_FAIL, DISK_WARN = 64 * MIB, GIB
INODES_FAIL, INODES_WARN = 100, 10_000
RANK_MEMORY = GIB // 2  # bytes: a rank that has imported torch and CUDA's libraries


def judge(nodes: Sequence[Node]) -> list[Check]:
    """All findings about these nodes, alone and compared."""
    found: list[Check] = []
    for ask in (_clock, _nccl, _driver, _limits, _shm, _disk, _memory, _cpus, environment, _container, _infiniband):
        found += ask(nodes)
    for node in nodes:
        found += gpus(node)
        found += _debugging(node)
    return found


# ---- clocks


def _clock(nodes: Sequence[Node]) -> Found:
    """Against the middle of all clocks: the launcher's own may be the one that is wrong. Of two it decides."""
    middles = sorted([*(sum(node.behind) / 2 for node in nodes), *([0.0] if len(nodes) == 2 else [])])
    middle = middles[len(middles) // 2]

    def say(node: Node) -> Check | str:
        low, high = (bound - middle for bound in node.behind)
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        apart = (low + high) / 2
        word = f"{abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} the others"
        if least <= SKEW_WARN:
            return "agrees with the others" if len(nodes) > 1 else "the only one"
        return Check(
            id="clock",
            status="fail" if least > SKEW_FAIL else "warn",
            host=node.label,
            evidence=f"its clock is {word}",
            cause="torchrun's c10d rendezvous drops nodes whose clock is 15 s off, and shrinks the world in silence",
            fix=node.there("sudo chronyc makestep"),
            doc="clock-skew",
        )

    return each("clock", nodes, say)


# ---- software


def _nccl(nodes: Sequence[Node]) -> Found:
    versions = [str(node.facts.get("nccl") or "") for node in nodes]
    common = usual([version for version in versions if version])

    def say(node: Node) -> Check | str:
        version = node.facts.get("nccl")
        if not version:
            if common:
                return Check(id="nccl-version", status="unknown", host=node.label, evidence="no package of NCCL found")
            return Check(id="nccl-version", status="skip", host=node.label, evidence="torch came without NCCL")
        if version == common:
            return str(version)
        return Check(
            id="nccl-version",
            status="fail",
            host=node.label,
            evidence=f"NCCL {version}, the others {common}",
            cause="two versions of NCCL do not understand each other",
            fix=node.there(f"python -m pip install --force-reinstall {_nccl_name(node)}=={common}"),
            doc="nccl-mismatch",
        )

    return each("nccl-version", nodes, say)


def _nccl_name(node: Node) -> str:
    major = str(node.facts.get("cuda") or "12").partition(".")[0]
    return f"nvidia-nccl-cu{major}"


# The oldest driver that runs a CUDA release of each major version (NVIDIA's compatibility table).
_DRIVERS = {"11": 450, "12": 525, "13": 580}


def _driver(nodes: Sequence[Node]) -> Found:
    def say(node: Node) -> Check | str:
        driver, cuda = node.facts.get("driver"), node.facts.get("cuda")
        if not driver or not cuda:
            why = "no NVIDIA driver" if not driver else "this torch was built without CUDA"
            if driver and node.look.get("gpus"):
                return Check(
                    id="driver",
                    status="warn",
                    host=node.label,
                    evidence=f"{node.look['gpus']} GPUs, and {why}",
                    cause="ranks there run on the processors",
                    fix=node.there("python -m pip install --force-reinstall torch"),
                    doc="no-nccl-in-torch",
                )
            return Check(id="driver", status="skip", host=node.label, evidence=why)
        least = _DRIVERS.get(cuda.partition(".")[0], 0)
        if int(driver.partition(".")[0]) >= least:
            return f"driver {driver}, CUDA {cuda}"
        return Check(
            id="driver",
            status="fail",
            host=node.label,
            evidence=f"driver {driver}, and torch was built for CUDA {cuda}, which needs {least} or later",
            cause="the driver is older than torch's CUDA",
            fix=f"an NVIDIA driver {least} or later there, or a torch for an older CUDA: pip install --index-url ...",
            doc="driver-too-old",
        )

    return each("driver", nodes, say)


# ---- limits, space, memory


def _limits(nodes: Sequence[Node]) -> Found:
    def say(node: Node) -> Check | str:
        limits = node.facts["limits"]
        files, locked, threads = limits["nofile"], limits["memlock"], node.facts.get("threads")
        needed = 64 + 16 * node.slots  # what a rank opens before its own data
        if files is not None and files < max(needed, OPEN_FILES):
            return Check(
                id="limits",
                status="fail" if files < 256 else "warn",
                host=node.label,
                evidence=f"{files} open files for a process",
                cause="every peer, DataLoader worker and log is an open file: Too many open files",
                fix="raise nofile in /etc/security/limits.conf there (sshd reads it at log-in); now: ulimit -n 65536",
                doc="too-many-files",
            )
        if threads is not None and threads < 64 * node.slots:
            return Check(
                id="limits",
                status="fail",
                host=node.label,
                evidence=f"{threads} more processes and threads may be started",
                cause="torch starts a thread for each processor in each rank",
                fix="docker: --pids-limit=-1; SLURM or systemd: TasksMax=infinity",
                doc="cannot-fork",
            )
        if locked is not None and locked < LOCKED and any(port["state"] == "ACTIVE" for port in _ports(node)):
            return Check(
                id="limits",
                status="fail",
                host=node.label,
                evidence=f"{size(locked)} may be locked in memory, and there is InfiniBand",
                cause="NCCL registers its buffers with the adapter, which locks them: ibv_reg_mr fails",
                fix="ulimit -l unlimited for the launched shell: limits.conf memlock, LimitMEMLOCK of sshd or slurmd, "
                "docker --ulimit memlock=-1",
                doc="memlock",
            )
        return f"{files if files is not None else 'unlimited'} open files"

    return each("limits", nodes, say)


def _ports(node: Node) -> Sequence[Mapping[str, str]]:
    return node.facts.get("infiniband") or ()


def _infiniband(nodes: Sequence[Node]) -> Found:
    most = max((len(_ports(node)) for node in nodes), default=0)

    def say(node: Node) -> Check | str:
        ports = _ports(node)
        down = [f"{port['device']}:{port['port']} is {port['state']}" for port in ports if port["state"] != "ACTIVE"]
        if not most:
            return Check(id="infiniband", status="skip", host=node.label, evidence="none here")
        if len(ports) < most:
            return Check(
                id="infiniband",
                status="fail" if not ports else "warn",
                host=node.label,
                evidence=f"{len(ports)} ports, another node has {most}",
                cause="an adapter is gone, or its driver is not loaded",
                fix=node.there("ibstat"),
                doc="ib-link-lost",
            )
        if down and len(down) == len(ports):
            return Check(
                id="infiniband",
                status="fail",
                host=node.label,
                evidence="; ".join(down),
                cause="NCCL would go over Ethernet, or fail",
                fix=node.there("ibstat"),
                doc="ib-link-lost",
            )
        return f"{len(ports) - len(down)} of {len(ports)} ports are active"

    return each("infiniband", nodes, say)


def _shm(nodes: Sequence[Node]) -> Found:
    def say(node: Node) -> Check | str:
        space = node.facts["space"].get("shm")
        if space is None and not node.facts["linux"]:
            return Check(id="shm", status="unknown", host=node.label, evidence="only Linux has /dev/shm")
        if space is None:
            return Check(
                id="shm",
                status="fail",
                host=node.label,
                evidence="there is no /dev/shm",
                cause="DataLoader workers, gloo and NCCL pass data through it",
                fix=node.there("sudo mount -t tmpfs -o size=50% tmpfs /dev/shm"),
                doc="shm-full",
            )
        free = space["free"]
        if free >= SHM_WARN:
            return f"{size(free)} free"
        return Check(
            id="shm",
            status="fail" if free < SHM_FAIL else "warn",
            host=node.label,
            evidence=f"/dev/shm: {size(free)} free of {size(space['total'])}",
            cause="DataLoader workers and NCCL pass data through it: Bus error, or unable to allocate shared memory"
            + ("; files of dead processes fill it" if space["total"] >= SHM_WARN else ""),
            fix=_shm_fix(node),
            doc="shm-full",
        )

    return each("shm", nodes, say)


def _shm_fix(node: Node) -> str:
    if node.facts.get("container"):
        return "start the container with --ipc=host, or --shm-size=16g"
    space = node.facts["space"]["shm"]
    if space["total"] >= SHM_WARN:
        return node.there("ls -lS /dev/shm")
    return node.there("sudo mount -o remount,size=50% /dev/shm")


def _disk(nodes: Sequence[Node]) -> Found:
    for node in nodes:
        found = [check for use in ("tmp", "workdir") for check in _one_disk(node, use)]
        spaces = [space for use in ("tmp", "workdir") if (space := node.facts["space"].get(use))]
        text = "; ".join(dict.fromkeys(f"{space['folder']}: {size(space['free'])} free" for space in spaces))
        yield from found or [Check(id="disk", status="pass", host=node.label, evidence=text)]


def _one_disk(node: Node, use: str) -> Found:
    space = node.facts["space"].get(use)
    if space is None or space["total"] == 0:  # a file system that counts nothing
        return
    if use == "tmp" and node.look.get("no_tmp"):
        return  # said already
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
    yield Check(
        id="disk",
        status=status,
        host=node.label,
        evidence=f"the file system of {space['folder']} {what}",
        cause="logs, checkpoints and the workers' files have no room",
        fix=node.there(f"df {'-i' if 'inodes' in what else '-h'} {space['folder']}"),
        doc="disk-full",
    )


def _memory(nodes: Sequence[Node]) -> Found:
    def say(node: Node) -> Check | str:
        memory = node.facts["memory"]
        if not node.facts["linux"]:
            return Check(id="memory", status="unknown", host=node.label, evidence="only Linux says it in /proc")
        free, whose = memory["free"], "the machine"
        if memory["bound"] is not None and memory["bound"] - (memory["used"] or 0) < free:
            free, whose = memory["bound"] - (memory["used"] or 0), "its cgroup"
        if free >= 2 * RANK_MEMORY * node.slots:
            return f"{size(free)} free in {whose}"
        return Check(
            id="memory",
            status="fail" if free < RANK_MEMORY * node.slots else "warn",
            host=node.label,
            evidence=f"{size(free)} free in {whose}, for {node.slots} ranks",
            cause="the kernel ends processes that need more: exit by SIGKILL",
            fix="ask for more (SLURM: -o mem=0), or start fewer ranks: -n"
            if whose == "its cgroup"
            else node.there("ps aux --sort=-rss | head"),
            doc="host-out-of-memory",
        )

    return each("memory", nodes, say)


def _cpus(nodes: Sequence[Node]) -> Found:
    def say(node: Node) -> Check | str:
        cpus, usable = node.facts["cpus"], _usable(node)
        text = f"{usable:g} of {cpus['machine']} processors"
        # Fewer than ranks is slow; on a machine that has no more it is what one asked for. One core, where the other
        # nodes give more, is a mistake also for one rank.
        alone = usable == 1 and all(_usable(other) > 1 for other in nodes if other is not node) and len(nodes) > 1
        if (usable >= node.slots and not alone) or usable >= (cpus["machine"] or 1):
            return text
        return Check(
            id="cpus",
            status="warn",
            host=node.label,
            evidence=f"{count(node.slots, 'rank')} on {text}",
            cause="the ranks and their DataLoader workers share what the scheduler or the container gave",
            fix=_cpus_fix(node),
            doc="one-core",
        )

    return each("cpus", nodes, say)


def _cpus_fix(node: Node) -> str:
    if "SLURM_JOB_ID" in node.look.get("set", ()):
        return "-o cpus_per_task=N"
    if node.facts["cpus"]["quota"] is not None and node.facts.get("container"):
        return "start the container with a larger --cpus, or without"
    return node.there("taskset -cp $$; grep -n taskset ~/.bashrc ~/.profile")


def _usable(node: Node) -> float:
    """How many processors' time a process there may have."""
    cpus = node.facts["cpus"]
    allowed = len(cpus["allowed"]) or cpus["machine"] or 1
    return min(allowed, cpus["quota"]) if cpus["quota"] is not None else allowed


# ---- containers, debugging


def _container(nodes: Sequence[Node]) -> Found:
    """A container with a network of its own has one address, of docker's bridge, that no other node reaches."""

    def say(node: Node) -> Check | str:
        kind = node.facts.get("container")
        addresses = [address for _, address in node.look.get("addresses", ())]
        bridged = [address for address in addresses if address.startswith("172.17.")]
        if not kind:
            return Check(id="container", status="skip", host=node.label, evidence="none")
        if bridged and len(bridged) == len(addresses) and len(nodes) > 1:
            return Check(
                id="container",
                status="fail",
                host=node.label,
                evidence=f"its only address is {bridged[0]}, of docker's own bridge",
                cause="the container has a network of its own, which other nodes do not reach",
                fix="docker run --network=host --ipc=host ...",
                doc="container-bridge",
            )
        return str(kind)

    return each("container", nodes, say)


def _debugging(node: Node) -> Found:
    """Not a reason to warn: `ddpkit dump` has another way. But one wants to know it before the night."""
    scope = node.facts.get("ptrace_scope")
    if node.facts.get("remove_ipc"):
        yield Check(
            id="debugging",
            status="warn",
            host=node.label,
            evidence="logind removes a user's shared memory at log-out (RemoveIPC=yes)",
            cause="a run that outlives its log-in loses NCCL's and DataLoader's segments",
            fix=node.there("echo RemoveIPC=no | sudo tee -a /etc/systemd/logind.conf"),
            doc="shm-unlinked",
        )
    elif scope is None:
        yield Check(id="debugging", status="unknown", host=node.label, evidence="the kernel does not say (no Yama)")
    else:
        word = {0: "any process of one's own", 1: "children only: py-spy needs sudo"}.get(scope, "root only")
        yield Check(id="debugging", status="pass", host=node.label, evidence=f"ptrace: {word}")
