"""Checks of variables that change libraries: differences between nodes, and settings that break runs. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ddpkit.launchers.shell import Secret, guard
from ddpkit.preflight.check import Check, Status
from ddpkit.preflight.node import Checks, Node
from ddpkit.transports.compatibility import most_common

# What may differ, because it names what a node has.
_OWN = frozenset(
    """NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME NCCL_IB_HCA UCX_NET_DEVICES CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES
    ROCR_VISIBLE_DEVICES LD_LIBRARY_PATH PYTHONPATH OMP_NUM_THREADS MKL_NUM_THREADS NCCL_DEBUG_FILE CUDA_HOME CUDA_PATH
    NCCL_HOSTID OMP_PLACES OMP_PROC_BIND NVIDIA_VISIBLE_DEVICES MASTER_ADDR MASTER_PORT SLURM_CONF""".split()
)


def _shown(name: str, value: object) -> str:
    guarded = guard(name, str(value))
    return "***" if isinstance(guarded, Secret) else str(value)


def check_environment(nodes: Sequence[Node]) -> Checks:
    every = [rank_environ(node) for node in nodes]
    names = sorted({name for values in every for name in values} - _OWN)
    common = {name: most_common([_plain(values.get(name)) for values in every]) for name in names}
    for node, values in zip(nodes, every, strict=True):
        odd = [name for name in names if _plain(values.get(name)) != common[name]]
        for name in odd:
            yield _differs(node, name, values.get(name), common[name])
        wrong = list(_contradictions(values, alone=len(nodes) == 1, gpus=bool(node.facts["gpus"])))
        for status, text, cause, fix in wrong:
            yield node.check("environment", status, text, cause=cause, fix=fix, doc="env-differs")
        if not odd and not wrong:
            yield node.check("environment", "pass", f"{len(values)} set")


_HARMLESS = frozenset(("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_VERSION"))
_UNSET = ""
# Of a line in one of NCCL's own files: where it stands.
_FROM = re.compile(r"^(.*) \((/[^()]*)\)$")


def _plain(value: str | None) -> str:
    """A value, wherever it was set."""
    match = _FROM.match(value or "")
    return match[1] if match else value or _UNSET


def _differs(node: Node, name: str, value: str | None, common: str) -> Check:
    file = match[2] if (match := _FROM.match(value or "")) else ""
    own = "not set" if value is None else _shown(name, _plain(value)) + (f" ({file})" if file else "")
    others = _shown(name, common) if common else "not set"
    if file:
        fix = node.command(f"sed -i /^{name}=/d {shlex.quote(file)}")
    elif common:
        fix = f"--env {name}={_shown(name, common)}"
    else:
        fix = node.command(f"grep -n {name} .bashrc .profile .ssh/environment /etc/environment")
    return node.check(
        "environment",
        "fail" if name.startswith("NCCL_") and name not in _HARMLESS else "warn",
        f"{name} is {own}, on the other nodes {others}",
        cause="libraries with different settings hang, or fail with misleading errors"
        + ("" if file or common else "; a start-up file sets it on that node"),
        fix=fix,
        doc="env-differs",
    )


def rank_environ(node: Node) -> dict[str, str]:
    """The variables of ranks on a node: its own, with those of the launch over them."""
    values = dict(node.inventory["environ"])
    for name, value in dict(node.env).items():
        if value is None:
            values.pop(name, None)
        elif name in values or name.startswith(("NCCL_", "GLOO_", "TORCH_")):
            values[name] = str(value)
    return values


def _contradictions(values: Mapping[str, str], *, alone: bool, gpus: bool) -> Iterator[tuple[Status, str, str, str]]:
    """Single settings that break runs, as they stand: how bad, what, why, and what to do."""
    names, gloo = _plain(values.get("NCCL_SOCKET_IFNAME")), _plain(values.get("GLOO_SOCKET_IFNAME"))
    if names.startswith("^") and "lo" not in names[1:].split(","):
        cause = "^ excludes only the listed interfaces, and no longer excludes lo and docker0"
        yield (
            "warn",
            f"NCCL_SOCKET_IFNAME={names} allows lo and docker0",
            cause,
            f"--env NCCL_SOCKET_IFNAME={names},lo,docker",
        )
    for name, value, fatal in (("NCCL_SOCKET_IFNAME", names, gpus), ("GLOO_SOCKET_IFNAME", gloo, True)):
        if value.lstrip("=") == "lo" and not alone:
            cause = "over lo, a node can reach only itself"
            yield (
                "fail" if fatal else "warn",
                f"{name} is lo",
                cause,
                f"--env {name}=INTERFACE, with a route to the other nodes",
            )
    if values.get("TORCH_NCCL_BLOCKING_WAIT") == "1" and values.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0") not in "0":
        text = "TORCH_NCCL_BLOCKING_WAIT and TORCH_NCCL_ASYNC_ERROR_HANDLING are both set"
        yield (
            "warn",
            text,
            "torch uses the first, and its watchdog does not end hanging ranks",
            "--env TORCH_NCCL_BLOCKING_WAIT=0",
        )
    if values.get("CUDA_LAUNCH_BLOCKING") == "1":
        cause = "every kernel launch waits for its end: slow, for debugging only"
        yield "warn", "CUDA_LAUNCH_BLOCKING is 1", cause, "--env CUDA_LAUNCH_BLOCKING=0"
    if "libnccl" in values.get("LD_PRELOAD", ""):
        cause = "it loads an NCCL other than torch's own"
        yield "warn", f"LD_PRELOAD is {values['LD_PRELOAD']}", cause, "--env LD_PRELOAD="
