"""Checks of a request and its variables, before any node is queried. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ddpkit.execution.job import SET_BY_DDPKIT
from ddpkit.launchers.command_line import find_launcher
from ddpkit.launchers.shell import Secret, guard, join, quote
from ddpkit.preflight.check import Check, Fault, Node, Status, check_each, file_of, plain, rank_environ
from ddpkit.transports.compatibility import most_common


def check_request(
    backend: str, script: Sequence[str], env: Mapping[str, str], environ: Mapping[str, str], nnodes: int, *, slurm: bool
) -> list[Check]:
    """Findings about the request. `env`: what the user sets for ranks; `environ`: this shell's."""
    of_slurm = _check_allocation(environ) if slurm else ()
    checks = [*_check_nested_launcher(script, nnodes), *_check_variables(env, nnodes), *of_slurm]
    return checks or [Check(id="request", status="pass", evidence=f"backend {backend}")]


def _wrong(evidence: str, cause: str, fix: str, doc: str, status: Status = "fail") -> Check:
    return Check(id="request", status=status, evidence=evidence, cause=cause, fix=fix, doc=doc)


def _check_nested_launcher(script: Sequence[str], nnodes: int) -> Iterator[Check]:
    """Check that the script of a launch is no launcher: every rank would start ranks of its own."""
    nested = find_launcher(script)
    if nested is None:
        return
    flags = {
        flag.partition("=")[0].lstrip("-").replace("-", "_"): flag.partition("=")[2]
        for flag in script
        if flag[:1] == "-"
    }
    several = nnodes > 1 or flags.get("nnodes", "1") not in ("", "1")
    if "standalone" in flags and several:
        yield _wrong(
            "--standalone with more than one node",
            "every node creates its own rendezvous and waits alone for the others",
            "remove --standalone, or let ddpkit start the ranks: -- SCRIPT ARGS",
            "standalone-many-nodes",
        )
    if several and "node_rank" not in flags and flags.get("rdzv_backend", "static") == "static":
        yield _wrong(
            "torchrun on several nodes without --node_rank",
            "the node rank is 0 on every node, and all nodes wait for 15 minutes",
            "let ddpkit start the ranks: -- SCRIPT ARGS",
            "node-rank-missing",
        )
    yield _wrong(
        f"the script is {nested.name}, a launcher itself",
        "each rank would start its own ranks, at the same address",
        nested.hint or f"ddpkit launch -- {join(nested.script or ('SCRIPT', 'ARGS'))}",
        "store-barrier-timeout",
    )


def _check_variables(env: Mapping[str, str], nnodes: int) -> Iterator[Check]:
    """Check the variables that the user sets for all ranks alike."""
    for name in env:
        if name in SET_BY_DDPKIT and name != "MASTER_ADDR":
            yield _wrong(
                f"--env {name}={env[name]} is the same for every rank",
                f"ddpkit sets this variable itself, from {SET_BY_DDPKIT[name]}",
                f"remove --env {name}",
                "rank-not-set",
            )
    address = env.get("MASTER_ADDR", "")
    if re.search(r"[\[\],]", address.strip("[]") if address.count(":") > 1 else address):
        yield _wrong(
            f"MASTER_ADDR={address} is a list of nodes",
            "SLURM's list is compressed, and is not a host name",
            "remove it. To get the first host: scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1",
            "nodelist-unexpanded",
        )
    if nnodes > 1 and address in ("localhost", "127.0.0.1", "::1"):
        yield _wrong(
            f"MASTER_ADDR={address} with {nnodes} nodes",
            "every node would connect to itself",
            "remove --env MASTER_ADDR: ddpkit chooses an address that all nodes reach",
            "master-unreachable",
        )


def _check_allocation(environ: Mapping[str, str]) -> Iterator[Check]:
    """Check that the variables of a SLURM allocation do not contradict each other."""
    tasks, nodes = environ.get("SLURM_NTASKS", ""), environ.get("SLURM_JOB_NUM_NODES", "")
    per_node = environ.get("SLURM_NTASKS_PER_NODE", "")
    if tasks.isdecimal() and nodes.isdecimal() and per_node.isdecimal() and int(tasks) < int(nodes) * int(per_node):
        yield _wrong(
            f"SLURM_NTASKS={tasks}, and SLURM_NTASKS_PER_NODE={per_node} on {nodes} nodes",
            "the job script and the command line contradict each other. A plain srun starts too few ranks",
            f"salloc --nodes={nodes} --ntasks-per-node={per_node}, without --ntasks",
            "tasks-contradict",
            "warn",
        )
    gpus = environ.get("SLURM_GPUS_ON_NODE") or environ.get("SLURM_GPUS_PER_NODE", "").rpartition(":")[2]
    if tasks == "1" and gpus.isdecimal() and int(gpus) > 1:
        yield _wrong(
            f"the allocation has 1 task and {gpus} GPUs",
            "a plain srun starts one rank, which uses one GPU",
            f"ddpkit launch -b slurm -n {gpus}",
            "srun-not-used",
            "warn",
        )


# What may differ, because it names what a node has.
_OWN = frozenset(
    """NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME NCCL_IB_HCA UCX_NET_DEVICES CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES
    ROCR_VISIBLE_DEVICES LD_LIBRARY_PATH PYTHONPATH OMP_NUM_THREADS MKL_NUM_THREADS NCCL_DEBUG_FILE CUDA_HOME CUDA_PATH
    NCCL_HOSTID OMP_PLACES OMP_PROC_BIND NVIDIA_VISIBLE_DEVICES MASTER_ADDR MASTER_PORT SLURM_CONF""".split()
)


def _shown(name: str, value: object) -> str:
    guarded = guard(name, str(value))
    return "***" if isinstance(guarded, Secret) else str(value)


def check_environment(nodes: Sequence[Node]) -> Iterator[Check]:
    """Check that variables are equal on all nodes, but for those that name what a node has, and that none does harm."""
    environs = {node.label: rank_environ(node) for node in nodes}
    names = sorted({name for values in environs.values() for name in values} - _OWN)
    common = {name: most_common([plain(values.get(name)) for values in environs.values()]) for name in names}

    @check_each("environment")
    def check(node: Node, _: Sequence[Node]) -> Iterator[Fault | str]:
        values, gpus = environs[node.label], bool(node.facts["gpus"])
        odd = [name for name in names if plain(values.get(name)) != common[name]]
        faults: list[Fault | str] = [_unlike_others(node, name, values.get(name), common[name]) for name in odd]
        faults += _contradictions(values, alone=len(nodes) == 1, gpus=gpus)
        faults += _left_over(values) if gpus else ()
        yield from faults or [f"{len(values)} set"]

    return check(nodes)


# NCCL accepts different values on different nodes. A GID index is of one adapter's own table.
_HARMLESS = frozenset("NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_VERSION NCCL_IB_GID_INDEX NCCL_TOPO_FILE".split())
_TRUE = ("1", "Y", "YES", "T", "TRUE")  # as torch reads them, in any case
# Variables that help to find a fault, and make every later run slow.
_LEFT_OVER = (
    ("NCCL_P2P_DISABLE", "GPUs of a node copy through the host"),
    ("NCCL_SHM_DISABLE", "ranks of a node communicate over the network"),
    ("NCCL_IB_DISABLE", "NCCL uses Ethernet instead of InfiniBand or RoCE"),
    ("NCCL_NVB_DISABLE", "GPUs without a direct NVLink use PCIe"),
    ("NCCL_PXN_DISABLE", "GPUs use distant network adapters"),
    ("NCCL_CHECKS_DISABLE", "NCCL does not report wrong arguments"),
)
_FORCED = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE")
# Names of NCCL's user guide, and of torch's watchdog; a name with one wrong letter has no effect.
_NCCL_NAMES = (
    *(name for name, _ in _LEFT_OVER),
    *_FORCED,
    *"""NCCL_SOCKET_IFNAME NCCL_SOCKET_FAMILY NCCL_SOCKET_RETRY_CNT NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD
    NCCL_CROSS_NIC NCCL_IB_HCA NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT NCCL_IB_GID_INDEX NCCL_IB_ROCE_VERSION_NUM NCCL_IB_SL
    NCCL_IB_TC NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_QPS_PER_CONNECTION
    NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_MERGE_NICS NCCL_NET
    NCCL_NET_PLUGIN NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_GDR_C2C NCCL_P2P_LEVEL NCCL_P2P_DIRECT_DISABLE
    NCCL_DEBUG NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_CONF_FILE NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE NCCL_NVLS_ENABLE
    NCCL_COLLNET_ENABLE NCCL_CUMEM_ENABLE NCCL_DMABUF_ENABLE NCCL_MNNVL_ENABLE NCCL_HOSTID NCCL_IGNORE_CPU_AFFINITY
    NCCL_LAUNCH_MODE NCCL_GRAPH_REGISTER NCCL_COMM_ID NCCL_COMM_BLOCKING NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_RAS_ENABLE
    TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_DUMP_ON_TIMEOUT
    TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TORCH_NCCL_AVOID_RECORD_STREAMS
    TORCH_NCCL_HIGH_PRIORITY TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_FR_BUFFER_SIZE TORCH_DISTRIBUTED_DEBUG""".split(),
)


def _unlike_others(node: Node, name: str, value: str | None, common: str) -> Fault:
    """Return the fault of a variable that has another value than on most nodes; None and an empty text: not set."""
    file = file_of(value)
    own = "not set" if value is None else (_shown(name, plain(value)) or "empty") + (f" ({file})" if file else "")
    others = _shown(name, common) if common else "not set"
    if file:
        fix = node.command(f"grep -n ^{quote(name)}= {quote(file)}")
    elif common:
        fix = f"--env {quote(f'{name}={_shown(name, common)}')}"
    else:
        fix = node.command(f"grep -n {quote(name)} .bashrc .profile .ssh/environment /etc/environment")
    what = f"{name} is {own}, on the other nodes {others}"
    cause = "libraries with different settings hang, or fail with misleading errors"
    cause += "" if file or common else "; a start-up file sets it on that node"
    fatal = name.startswith("NCCL_") and name not in _HARMLESS
    return Fault("fail" if fatal else "warn", what, cause, fix, "env-differs")


def _contradictions(values: Mapping[str, str], *, alone: bool, gpus: bool) -> Iterator[Fault]:
    """Yield settings that break or slow runs, whatever the other nodes have. `alone`: there is one node."""
    names, gloo = plain(values.get("NCCL_SOCKET_IFNAME")), plain(values.get("GLOO_SOCKET_IFNAME"))
    found: list[tuple[bool, str, str, str]] = []  # whether it is fatal; what, why, and what to do
    if names.startswith("^") and "lo" not in names[1:].split(","):
        cause = "^ excludes only the listed interfaces, and no longer excludes lo and docker0"
        what = f"NCCL_SOCKET_IFNAME={names} allows lo and docker0"
        found.append((False, what, cause, f"--env NCCL_SOCKET_IFNAME={names},lo,docker"))
    for name, value, fatal in (("NCCL_SOCKET_IFNAME", names, gpus), ("GLOO_SOCKET_IFNAME", gloo, True)):
        if value.lstrip("=") == "lo" and not alone:
            fix = f"--env {name}=INTERFACE, with a route to the other nodes"
            found.append((fatal, f"{name} is lo", "over lo, a node can reach only itself", fix))
    for name in ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
        if values.get(name, "").upper() in _TRUE:
            cause = "torch's watchdog does not end hanging ranks"
            found.append((False, f"{name} is {values[name]}", cause, f"--env {name}=0"))
    if values.get("CUDA_LAUNCH_BLOCKING") == "1":
        cause = "every kernel launch waits for its end: slow, for debugging only"
        found.append((False, "CUDA_LAUNCH_BLOCKING is 1", cause, "--env CUDA_LAUNCH_BLOCKING=0"))
    if "libnccl" in values.get("LD_PRELOAD", ""):
        cause = "it loads an NCCL other than torch's own"
        found.append((False, f"LD_PRELOAD is {values['LD_PRELOAD']}", cause, "--env LD_PRELOAD="))
    for fatal, what, cause, fix in found:
        yield Fault("fail" if fatal else "warn", what, cause, fix, "env-differs")


def _left_over(values: Mapping[str, str]) -> Iterator[Fault]:
    """Yield variables that somebody set in a search for a fault and left, and names that NCCL does not know."""
    found = []  # what, why, and what to do
    for name, cause in _LEFT_OVER:
        if plain(values.get(name)) not in ("", "0"):
            found.append((f"{name} is {plain(values[name])}", cause, f"--env {name}=0"))
    for name in _FORCED:
        if name in values:
            cause = "NCCL does not choose by size and topology: slow, or an error with another number of ranks"
            what = f"{name} is {plain(values[name]) or 'empty'}"
            found.append((what, cause, f"grep -rn {name} ~/.bashrc ~/.profile /etc/nccl.conf"))
    if values.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL":
        cause = "every collective is compared between all ranks first: slow, for debugging only"
        found.append(("TORCH_DISTRIBUTED_DEBUG is DETAIL", cause, "--env TORCH_DISTRIBUTED_DEBUG=OFF"))
    for name in sorted(set(values) - set(_NCCL_NAMES)):
        right = next((each for each in _NCCL_NAMES if _one_edit(name, each)), "")
        if right:
            fix = f"--env {quote(right + '=' + _shown(name, plain(values[name])))}"
            found.append((f"{name} is no variable of NCCL", f"{right} is one", fix))
    for what, cause, fix in found:
        yield Fault("warn", what, cause, fix, "env-left-over")


def _one_edit(wrong: str, right: str) -> bool:
    """Return whether one letter is wrong, missing or too many, or two are exchanged."""
    at = next((at for at, (a, b) in enumerate(zip(wrong, right, strict=False)) if a != b), min(len(wrong), len(right)))
    rest, other = wrong[at:], right[at:]
    return rest[1:] == other[1:] or rest == other[1:] or rest[1:] == other or rest == other[1::-1] + other[2:]
