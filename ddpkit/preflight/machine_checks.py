"""Checks of a machine: clock, InfiniBand ports, container, access to stacks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ddpkit.preflight.check import Check
from ddpkit.preflight.gpu_checks import closest_adapters
from ddpkit.preflight.node import Checks, Node, check_each

SKEW_WARN, SKEW_FAIL = 2.0, 5.0  # seconds; torchrun's c10d rendezvous takes a node for dead at 15


def check_clock(nodes: Sequence[Node]) -> Checks:
    """Against the middle of all clocks: the launcher's own may be the one that is wrong. Of two it decides."""
    middles = sorted([*(sum(node.clock_offset) / 2 for node in nodes), *([0.0] if len(nodes) == 2 else [])])
    middle = middles[len(middles) // 2]

    @check_each("clock")
    def check(node: Node, _: Sequence[Node]) -> Check | str:
        low, high = (bound - middle for bound in node.clock_offset)
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        apart = (low + high) / 2
        word = f"{abs(apart):.1f} s {'ahead of' if apart > 0 else 'behind'} the other nodes"
        if least <= SKEW_WARN:
            return "equal on all nodes" if len(nodes) > 1 else "one node"
        return node.check(
            "clock",
            "fail" if least > SKEW_FAIL else "warn",
            f"its clock is {word}",
            cause="torchrun's c10d rendezvous drops nodes whose clock is 15 s off, without a message",
            fix=node.command("sudo chronyc makestep"),
            doc="clock-skew",
        )

    return check(nodes)


def check_infiniband(nodes: Sequence[Node]) -> Checks:
    most = max((len(node.inventory["infiniband"]) for node in nodes), default=0)
    most_active = max(
        (sum(port["state"] == "ACTIVE" for port in node.inventory["infiniband"]) for node in nodes), default=0
    )

    @check_each("infiniband")
    def check(node: Node, _: Sequence[Node]) -> Check | str:
        ports = node.inventory["infiniband"]
        down = [f"{port['device']}:{port['port']} is {port['state']}" for port in ports if port["state"] != "ACTIVE"]
        if not most:
            return node.check("infiniband", "skip", "none here")
        if len(ports) < most:
            return node.check(
                "infiniband",
                "fail" if not ports else "warn",
                f"{len(ports)} ports, another node has {most}",
                cause="an adapter is missing, or its driver is not loaded",
                fix=node.command("ibstat"),
                doc="ib-link-lost",
            )
        active = len(ports) - len(down)
        if active < max(1, most_active):  # ports without a cable are down on every node
            others = f"; another node has {most_active} active ports" if most_active else ""
            return node.check(
                "infiniband",
                "warn" if active else "fail",
                "; ".join(down) + others,
                cause="NCCL uses fewer adapters" if active else "NCCL would use Ethernet, or fail",
                fix=node.command("ibstat"),
                doc="ib-link-lost",
            )
        closed = [port.get("no_verbs", "") for port in ports if port["state"] == "ACTIVE"]
        if closed and all(closed):
            kind = node.inventory["container"]
            give = "give the container its files: --device=/dev/infiniband --ulimit=memlock=-1"
            return node.check(
                "infiniband",
                "fail",
                f"{active} of {len(ports)} ports are active, and none can be used here: {closed[0]}",
                cause="NCCL would use Ethernet, which is slower, without a message",
                fix=give if kind else node.command("ls -l /dev/infiniband"),
                doc="ib-not-used",
            )
        pairs = closest_adapters(node)
        return f"{active} of {len(ports)} ports are active" + (f"; nearest: {pairs}" if pairs else "")

    return check(nodes)


@check_each("container")
def check_container(node: Node, nodes: Sequence[Node]) -> Check | str:
    """A container with a network of its own has one address, of docker's bridge, that no other node reaches."""
    kind = node.inventory["container"]
    addresses = [address for _, address in node.facts["addresses"]]
    bridged = [address for address in addresses if address.startswith("172.17.")]
    if not kind:
        return node.check("container", "skip", "none")
    if bridged and len(bridged) == len(addresses) and len(nodes) > 1:
        return node.check(
            "container",
            "fail",
            f"its only address is {bridged[0]}, of docker's bridge",
            cause="the container has a private network that other nodes cannot reach",
            fix="docker run --network=host --ipc=host ...",
            doc="container-bridge",
        )
    return str(kind)


def check_debugging(nodes: Sequence[Node]) -> Checks:
    for node in nodes:
        yield from _check_debugging(node)


def _check_debugging(node: Node) -> Checks:
    """Not a reason to warn: `ddpkit dump` has another way. But one wants to know it before the night."""
    scope = node.inventory["ptrace_scope"]
    if node.inventory["remove_ipc"]:
        yield node.check(
            "debugging",
            "warn",
            "logind removes a user's shared memory at logout (RemoveIPC=yes)",
            cause="a run that continues after the logout loses the segments of NCCL and DataLoader",
            fix=node.command("echo RemoveIPC=no | sudo tee -a /etc/systemd/logind.conf"),
            doc="shm-unlinked",
        )
    elif scope is None:
        yield node.check("debugging", "pass", "ptrace: any process of the same user (no Yama)")
    else:
        word = {0: "any process of the same user", 1: "children only: py-spy needs sudo"}.get(scope, "root only")
        yield node.check("debugging", "pass", f"ptrace: {word}")
