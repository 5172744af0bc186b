"""Checks of the network: which node reaches which, by every address, on rank 0's port and on high ports. Pure."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ddpkit.launchers.node_facts import NodeFacts, NodeInventory
from ddpkit.preflight.check import Check, Fault, plain, ssh_command
from ddpkit.transports.compatibility import Workarounds
from ddpkit.transports.hosts import HostSpec, Problem
from ddpkit.transports.reachability import OPEN_PORTS, SOME, Reachability


def locate_problems(
    master_addr: str,
    specs: Sequence[HostSpec],
    facts: Sequence[NodeFacts],
    reachability: Reachability,
    problems: Sequence[Problem],
) -> list[Problem]:
    """Return problems between nodes, each of the node at fault, where all tried all. `problems`: of `build_world`."""
    nodes = range(len(specs))
    # With two nodes nobody knows whose firewall it is: the one that listens is named.
    mute = [index for index in nodes if len(specs) > 2 and not reachability.reaches_any(index)]
    located = [
        replace(problem, fix=_master_fix(master_addr, specs, facts, problem, mute) or problem.fix)
        for problem in problems
        if problem.check != "mesh"
    ]
    for target, spec in enumerate(specs):
        sources = reachability.sources(target)
        # A node that reaches no other is named itself.
        cut = [source for source in sources if source not in mute and not reachability.reached(source, target)]
        if cut:
            labels = ", ".join(specs[source].label for source in cut)
            who = "no other node can reach" if len(cut) == len(sources) > 1 else f"{labels} cannot reach"
            what = f"{who} its port {facts[target]['high_port']} ({reachability.describe(cut[0], target)})"
            fix = _open_firewall(spec, "INPUT", "-s", [facts[source] for source in cut]) or OPEN_PORTS
            located.append(Problem(host=spec.label, what=what, fix=fix, check="mesh"))
    for source in mute:
        spec, targets = specs[source], reachability.targets(source)
        what = f"it cannot reach a port of any other node ({reachability.describe(source, targets[0])})"
        fix = _open_firewall(spec, "OUTPUT", "-d", [facts[target] for target in targets]) or OPEN_PORTS
        located.append(Problem(host=spec.label, what=what, fix=fix, check="mesh"))
    return located


def _open_firewall(spec: HostSpec, chain: str, side: str, peers: Sequence[NodeFacts], port: int = 0) -> str:
    """Return the command that lets peers in, or this node out; empty where they are too many, or have no IPv4."""
    addresses = [next((address for _, address in each["addresses"] if _family(address) == 4), "") for each in peers]
    if not all(addresses) or len(addresses) > SOME:
        return ""
    words = f"-p tcp {side} {','.join(addresses)}" + (f" --dport {port}" if port else "")
    return f"ssh {spec.target} sudo iptables -I {chain} {words} -j ACCEPT"


def _master_fix(
    master_addr: str, specs: Sequence[HostSpec], facts: Sequence[NodeFacts], problem: Problem, mute: Sequence[int]
) -> str:
    """The fix for a node that does not reach rank 0's port. Empty: none is known.

    `mute`: nodes that reach no other node at all.
    """
    index = next(index for index, spec in enumerate(specs) if spec.label == problem.host)
    rank_0, node = facts[0], facts[index]
    address = _first_address(rank_0)
    if master_addr and address and "no answer" not in problem.what:  # the name is wrong, and no firewall is the cause
        unresolved = any(words in problem.what for words in ("not known", "resolution", "no address"))
        return _hosts_line(specs[index], address, master_addr) if unresolved else f"-o master_addr={address}"
    if "different addresses" in problem.what:
        return ""
    if index in mute:
        return _open_firewall(specs[index], "OUTPUT", "-d", [rank_0])
    sources = [node] if index else facts[1:]  # a problem of rank 0's own node: no other node reaches it
    return _open_firewall(specs[0], "INPUT", "-s", sources, rank_0["port"] or 0)


def _hosts_line(spec: HostSpec, address: str, name: str) -> str:
    """The command that gives a node the address of a name."""
    return ssh_command(spec.target, f"echo {address} {name} | sudo tee -a /etc/hosts")


def _first_address(facts: NodeFacts) -> str:
    return next((address for _, address in facts["addresses"]), "")


# ---- what works, but not as it looks


def check_workarounds(
    specs: Sequence[HostSpec], facts: Sequence[NodeFacts], workarounds: Workarounds
) -> Iterator[Check]:
    """Warn of faults that the launch works around, and that other programs would stumble over."""
    by_label = {spec.label: (spec, each) for spec, each in zip(specs, facts, strict=True)}
    for (check, text), labels in workarounds.items():
        for label in labels:
            yield _warn_of_own_name(*by_label[label], text) if check == "names" else _warn_of_interface(label, text)


def check_families(specs: Sequence[HostSpec], reachability: Reachability) -> Iterator[Check]:
    """Warn of an address family (IPv4 or IPv6) by which nobody reaches a node."""
    for target, spec in enumerate(specs):
        good = reachability.reached_by_any(target)
        for family in (6, 4):
            mine = [address for address in reachability.addresses[target] if _family(address) == family]
            if mine and good and not good & set(mine):
                word = "AF_INET6" if family == 4 else "AF_INET"
                what = f"its IPv{family} addresses do not answer: {', '.join(mine)}"
                cause = "a library that tries this family first waits in vain, or fails"
                fix = f"--env NCCL_SOCKET_FAMILY={word}"
                yield Fault("warn", what, cause, fix, "address-family").of("mesh", spec.label)


def check_chosen_interfaces(
    specs: Sequence[HostSpec],
    facts: Sequence[NodeFacts],
    reachability: Reachability,
    environ: Mapping[str, Mapping[str, str]],
) -> Iterator[Check]:
    """Check interfaces that the user chose: other nodes must reach the node by them. `environ`: of ranks, by label."""
    for target, (spec, each) in enumerate(zip(specs, facts, strict=True)):
        good = reachability.reached_by_any(target)
        live = list(dict.fromkeys(name for name, address in each["addresses"] if address in good))
        for name, fatal in (("GLOO_SOCKET_IFNAME", True), ("NCCL_SOCKET_IFNAME", bool(each["gpus"]))):
            value = plain(environ[spec.label].get(name))
            # lo is reported by `request_checks` alone; with ^ a list says what not to take.
            if not live or not value or value.startswith("^") or value.lstrip("=") == "lo" or _takes(name, value, live):
                continue
            there_is = (
                "does not reach the other nodes"
                if _takes(name, value, [name for name, _ in each["addresses"]])
                else "does not exist"
            )
            what = f"{name} is {value}, which {there_is}; they reach it over {', '.join(live)}"
            cause = "a start-up file or a user set it, and the libraries use only this interface"
            fix = f'[host.{spec.name}] in ddpkit.toml: env = {{ {name} = "{live[0]}" }}'
            fault = Fault("fail" if fatal else "warn", what, cause, fix, "nccl-wrong-interface")
            yield fault.of("interfaces", spec.label)


def _takes(name: str, value: str, interfaces: Sequence[str]) -> bool:
    """True if a choice takes one of these interfaces: gloo by the whole name, NCCL by its beginning but for `=`."""
    words = [word for word in value.lstrip("=").split(",") if word]
    whole = name.startswith("GLOO") or value.startswith("=")
    return any(each == word if whole else each.startswith(word) for each in interfaces for word in words)


def _warn_of_own_name(spec: HostSpec, facts: NodeFacts, text: str) -> Check:
    """Warn that the own name of a node means an address that other nodes do not reach, or none."""
    own, live = facts["own_name"], _first_address(facts)
    fix = ""
    if own and _loopback(own[0]):
        fix = ssh_command(spec.target, f"grep -nF {shlex.quote(own[0])} /etc/hosts")
    does = "publishes the address of the host's own name" if own else "and torchrun resolve their own host name"
    cause = f"gloo {does}; ddpkit sets GLOO_SOCKET_IFNAME, other launchers do not"
    fix = fix or _hosts_line(spec, live, facts["host"])
    return Fault("warn", text, cause, fix, "name-is-loopback" if own else "no-node-is-host").of("names", spec.label)


def _warn_of_interface(label: str, text: str) -> Check:
    """Warn that NCCL's own choice of an interface would be wrong. `text` names the right ones behind `NCCL uses`."""
    live = text.rpartition("NCCL uses ")[2]
    cause = "NCCL uses the first interfaces. ddpkit sets NCCL_SOCKET_IFNAME on that node, other launchers do not"
    fix = f"for other launchers: export NCCL_SOCKET_IFNAME={live} GLOO_SOCKET_IFNAME={live.partition(',')[0]}"
    return Fault("warn", text, cause, fix, "nccl-wrong-interface").of("interfaces", label)


def _family(name: str) -> int:
    try:
        return ipaddress.ip_address(name.partition("%")[0]).version
    except ValueError:
        return 0


def check_names(
    specs: Sequence[HostSpec], facts: Mapping[str, NodeFacts], inventories: Mapping[str, NodeInventory]
) -> Iterator[Check]:
    """Check that each node looks the names of the others up rightly. `facts` and `inventories`: by label."""
    for spec in specs:
        odd: dict[str, list[HostSpec]] = {}  # the nodes whose names are looked up wrongly, by what happens
        for other in specs:
            name = facts[other.label]["host"]
            if other is not spec and name != facts[spec.label]["host"]:
                means = inventories[spec.label]["names"].get(name, "")
                if means == "":
                    odd.setdefault("cannot be resolved on that node within 2 s", []).append(other)
                elif isinstance(means, str):
                    odd.setdefault(f"does not resolve on that node ({means.lower()})", []).append(other)
                elif own := [address for address in means if _loopback(address)]:
                    odd.setdefault(f"resolves to {own[0]} on that node", []).append(other)
        for what, others in odd.items():
            names = [facts[other.label]["host"] for other in others]
            whose = "" if names == [other.label for other in others] else f" ({_joined(o.label for o in others)})"
            address = _first_address(facts[others[0].label]) or "ADDRESS"
            cause = "ddpkit uses addresses, but other programs use names: torchrun's c10d, MPI"
            fix = _hosts_line(spec, address, names[0])
            if "within 2 s" in what:
                cause = "its name server does not answer, and every lookup waits for it"
                fix = f"ssh {spec.target} cat /etc/resolv.conf"
            text = f"{_joined(names)}{whose} {what}"
            yield Fault("warn", text, cause, fix, "second-master").of("names", spec.label)


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
