"""Asks a machine what a plan must know about it: processors, GPUs, misleading variables, a free port."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import UsageError
from ddpkit.plan import Allocation, Host, Request, World

# Left over from another launcher (a shell inside a rank, an export in a start-up file), these would mislead a rank.
_STALE = frozenset(
    """RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE MASTER_ADDR MASTER_PORT
    ROLE_NAME ROLE_RANK ROLE_WORLD_SIZE DDPKIT_RANK DDPKIT_WORLD_SIZE DDPKIT_LOCAL_RANK DDPKIT_LOCAL_WORLD_SIZE
    DDPKIT_NODE_RANK DDPKIT_MASTER_ADDR DDPKIT_MASTER_PORT DDPKIT_PRELOAD DDPKIT_TAP""".split()
)

# Of the site, and not of an allocation.
_SITE = frozenset(("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT"))


def stale(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that must not reach a rank."""
    return tuple(name for name in environ if name in _STALE or name.startswith("TORCHELASTIC_"))


def cpus() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environ: Mapping[str, str], root: Path = Path("/")) -> int:
    """How many GPUs a process with this environment sees, without torch: 0 where none is known.

    Sources: DDPKIT_GPUS (for accelerators unknown to this function), then what the kernel drivers of NVIDIA and AMD
    list, cut down by CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES.
    """
    declared = environ.get("DDPKIT_GPUS")
    if declared is not None:
        if not declared.isdecimal():
            raise UsageError(f"DDPKIT_GPUS={declared} is not a count", "unset DDPKIT_GPUS")
        present = int(declared)
    else:
        present = len(list(root.glob("proc/driver/nvidia/gpus/*"))) or len(list(root.glob("dev/nvidia[0-9]*")))
        if not present:
            # Every node of the topology with a graphics id is a GPU; processors have the id 0.
            for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/gpu_id"):
                try:
                    present += path.read_text().strip() not in ("", "0")
                except OSError:
                    continue
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        visible = environ.get(name)
        if visible is not None:
            # The first entry that is none ends the list, for CUDA as well.
            entries = itertools.takewhile(lambda entry: entry not in ("", "-1", "NoDevFiles"), visible.split(","))
            present = min(present, len(list(entries)))
    return present


def free_port() -> int:
    """A port that nobody listens on now, below the range from which the kernel itself hands out ports.

    The process that will listen there is not ours, so that the port cannot be held for it. A random choice outside the
    kernel's own range keeps two launches apart that look at the same moment.
    """
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        lowest = 32768
    top = lowest if lowest > 21000 else 65536
    for _ in range(200):
        port = 20000 + int.from_bytes(os.urandom(4), "big") % (top - 20000)
        if _is_free(port):
            return port
    raise UsageError(f"no free port between 20000 and {top} on this machine", "ss -ltnp shows who listens")


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            probe = socket.socket(family)
        except OSError:
            continue  # this kernel has no IPv6
        with probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True


def nproc(asked: int | None, environ: Mapping[str, str]) -> int:
    """Ranks on this machine: as asked, or one per visible GPU, or one."""
    visible = gpus(environ)
    if asked is None:
        return max(1, visible)
    if visible and asked > visible:
        raise UsageError(
            f"-n {asked}: this machine has {visible} visible GPU{'s' if visible > 1 else ''}, one rank each",
            f"use -n {visible}, or --env CUDA_VISIBLE_DEVICES= to run on the processors",
        )
    return asked


def this_machine(asked: int | None, environ: Mapping[str, str]) -> World:
    """A world of this machine alone. `environ` is what the ranks will see, `asked` the ranks, None: one per GPU."""
    slots = nproc(asked, environ)
    host = Host(name=short_hostname(), slots=slots, cpus=cpus(), chosen=tuple(environ), stale=stale(environ))
    return World(hosts=(host,), master_addr="127.0.0.1", master_port=free_port())


def detection_is_off(environ: Mapping[str, str]) -> bool:
    return environ.get("DDPKIT_DETECT_SLURM", "").lower() in ("0", "false", "no", "off")


def slurm(nnodes: int | None, nproc_per_node: int | None, environ: Mapping[str, str]) -> Request:
    """What is asked of SLURM, and the allocation that this process stands in, if it does."""
    # Inside a shell of SLURM's these would be defaults for the next srun, and in a rank they would be another's.
    left = [name for name in environ if name.startswith(("SLURM_", "SRUN_")) and name not in _SITE]
    here = Host(name=short_hostname(), slots=0, cpus=cpus(), stale=(*stale(environ), *left))
    job_id = environ.get("SLURM_JOB_ID", "")
    if not job_id or detection_is_off(environ):
        return Request(nnodes=nnodes, nproc_per_node=nproc_per_node, here=here)
    if environ.get("SLURM_HET_SIZE"):
        raise UsageError(
            f"allocation {job_id} is heterogeneous: ddpkit launch starts the same number of ranks on every node",
            "start it with srun itself; ddpkit.distributed.torch.init() finds the ranks of a heterogeneous step",
        )
    hosts = tuple(expand_nodelist(environ.get("SLURM_JOB_NODELIST", "")))
    if not hosts:
        raise UsageError(f"SLURM_JOB_ID={job_id} is set, but SLURM_JOB_NODELIST is not", "unset SLURM_JOB_ID")
    held = Allocation(
        job_id=job_id,
        hosts=hosts,
        nproc_per_node=None if nproc_per_node else _tasks_per_node(environ, job_id, len(hosts)),
        cpus_per_task=_number(environ, "SLURM_CPUS_PER_TASK"),
    )
    return Request(nnodes=nnodes, nproc_per_node=nproc_per_node, here=here, allocation=held)


def left_alone(environ: Mapping[str, str]) -> str | None:
    """What a run on this machine alone leaves alone: the other nodes of the SLURM job that it was typed in. Or None."""
    job_id, nodes = environ.get("SLURM_JOB_ID", ""), expand_nodelist(environ.get("SLURM_JOB_NODELIST", ""))
    if not job_id or detection_is_off(environ):
        return None
    if nodes == [environ.get("SLURMD_NODENAME", short_hostname())]:
        return None
    return f"this is SLURM job {job_id} on {environ.get('SLURM_JOB_NODELIST', '')}"


def _tasks_per_node(environ: Mapping[str, str], job_id: str, nnodes: int) -> int | None:
    """Ranks for each node of an allocation: one per GPU, or as many as tasks were asked for."""
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_NTASKS_PER_NODE"):
        if _number(environ, name):
            return _number(environ, name)
    gpus_per_node = environ.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2]
    if gpus_per_node.isdecimal():
        return int(gpus_per_node)
    tasks = _number(environ, "SLURM_NTASKS") or _number(environ, "SLURM_NPROCS")
    if tasks and tasks % nnodes:
        raise UsageError(
            f"allocation {job_id} has {tasks} tasks on {nnodes} nodes, which is not the same number on each",
            f"-n {tasks // nnodes} starts that many ranks on every node",
        )
    return tasks // nnodes if tasks else None


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def short_hostname() -> str:
    return socket.gethostname().partition(".")[0] or "localhost"
