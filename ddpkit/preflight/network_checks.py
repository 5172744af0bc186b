"""Which node reaches which, on rank 0's port and on ports that the kernel chooses, by every address. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ddpkit.launchers.plan import World
from ddpkit.preflight.check import Check
from ddpkit.preflight.node import there
from ddpkit.transports import compatibility
from ddpkit.transports.compatibility import Facts, Mended, Wish
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.problem import Problem

FULL = 64  # nodes; of more each tries some
SOME = 9

Answer = Sequence[str]  # [address that answered, what went wrong]


def peers(index: int, count: int) -> list[int]:
    """Whom a node tries: all others; of many the next ones, and some that are spread over the rest."""
    if count <= FULL:
        return [other for other in range(count) if other != index]
    step = max(1, count // SOME)
    return sorted({(index + 1) % count, *((index + 1 + step * far) % count for far in range(SOME))} - {index})


def questions(wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts]) -> list[list[list[Any]]]:
    """What each node tries (see `probe.reach`): rank 0's port, then a high port of each peer, by every address."""
    first = [[name, facts[0]["port"], facts[0]["secret"]] for name in _first(wish, specs, facts)]
    asked = []
    for index in range(len(specs)):
        high = [
            [name, facts[peer]["high_port"], facts[peer]["secret"]]
            for peer in peers(index, len(specs))
            for name in compatibility.candidates(specs[peer], facts[peer])
        ]
        asked.append([*first, *high])
    return asked


def _first(wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts]) -> list[str]:
    return [wish.master_addr] if wish.master_addr else compatibility.candidates(specs[0], facts[0])


class Matrix:
    """The answers, by who asked whom."""

    def __init__(
        self, wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts], answers: Sequence[Sequence[Answer]]
    ) -> None:
        self.specs = specs
        width = len(_first(wish, specs, facts))
        self.first = [said[:width] for said in answers]
        self.names = [compatibility.candidates(spec, each) for spec, each in zip(specs, facts, strict=True)]
        self.said: dict[tuple[int, int], Sequence[Answer]] = {}  # (who asked, whom)
        for index, said in enumerate(answers):
            rest = list(said[width:])
            for peer in peers(index, len(specs)):
                count = len(self.names[peer])
                self.said[index, peer], rest = rest[:count], rest[count:]

    def ring(self) -> list[list[Answer]]:
        """The answers that `judge.together` wants: about rank 0's port, and about the next node."""
        count = len(self.specs)
        return [[*self.first[index], *self.said[index, (index + 1) % count]] for index in range(count)]

    def reached(self, asker: int, peer: int) -> bool:
        return any(not answer[1] for answer in self.said[asker, peer])


def find(
    wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts], answers: Sequence[Sequence[Answer]]
) -> tuple[World | None, list[Problem], Mended]:
    """The world that these nodes make, or what keeps them apart, and what was mended. `answers`: to `questions`."""
    matrix = Matrix(wish, specs, facts, answers)
    world, problems, mended = compatibility.together(wish, specs, facts, matrix.ring())
    # With two nodes nobody knows whose firewall it is: the one that listens is named.
    mute = [index for index in range(len(specs)) if len(specs) > 2 and not _reaches_any(matrix, index)]
    apart = [
        replace(problem, fix=_master_fix(wish, specs, facts, problem, mute) or problem.fix)
        for problem in problems
        if problem.check != "mesh"
    ]
    for peer, spec in enumerate(specs):
        askers = [asker for asker, other in matrix.said if other == peer]
        # One who reaches nobody is named himself.
        cut = [asker for asker in askers if asker not in mute and not matrix.reached(asker, peer)]
        if cut:
            who = "no other node reaches" if len(cut) == len(askers) > 1 else f"{_labels(specs, cut)} cannot reach"
            tried = compatibility.tried(matrix.names[peer], matrix.said[cut[0], peer])
            what = f"{who} its port {facts[peer]['high_port']} ({tried})"
            fix = _open(spec, "INPUT", "-s", [facts[asker] for asker in cut]) or compatibility.OPEN_PORTS
            apart.append(Problem(host=spec.label, what=what, fix=fix, check="mesh"))
    for asker in mute:
        spec, others = specs[asker], [other for who, other in matrix.said if who == asker]
        tried = compatibility.tried(matrix.names[others[0]], matrix.said[asker, others[0]])
        what = f"it reaches no port of any other node ({tried})"
        fix = _open(spec, "OUTPUT", "-d", [facts[other] for other in others]) or compatibility.OPEN_PORTS
        apart.append(Problem(host=spec.label, what=what, fix=fix, check="mesh"))
    return (None if apart else world), apart, mended


def _open(spec: HostSpec, chain: str, side: str, others: Sequence[Facts], port: int = 0) -> str:
    """The command that lets others in, or this node out; empty where they are too many to name, or have no IPv4."""
    addresses = [next((address for _, address in each["addresses"] if _family(address) == 4), "") for each in others]
    if not all(addresses) or len(addresses) > SOME:
        return ""
    words = f"-p tcp {side} {','.join(addresses)}" + (f" --dport {port}" if port else "")
    return f"ssh {spec.target} sudo iptables -I {chain} {words} -j ACCEPT"


def _master_fix(
    wish: Wish, specs: Sequence[HostSpec], facts: Sequence[Facts], problem: Problem, mute: Sequence[int]
) -> str:
    """What helps those who do not reach rank 0's port."""
    index = next(index for index, spec in enumerate(specs) if spec.label == problem.host)
    first = next((address for _, address in facts[0]["addresses"]), "")
    if wish.master_addr and first and "no answer" not in problem.what:  # the name, and not the way
        if any(words in problem.what for words in ("not known", "resolution", "no address")):
            return _hosts_line(specs[index], first, wish.master_addr)
        return f"-o master_addr={first}"
    if "different addresses" in problem.what:
        return ""
    if index in mute:
        return _open(specs[index], "OUTPUT", "-d", facts[:1])
    return _open(specs[0], "INPUT", "-s", [facts[index]] if index else facts[1:], facts[0]["port"])


def _hosts_line(spec: HostSpec, address: str, name: str) -> str:
    """The command that tells a node what a name means."""
    return there(spec.target, f"echo {address} {name} | sudo tee -a /etc/hosts")


def _reaches_any(matrix: Matrix, asker: int) -> bool:
    return any(matrix.reached(asker, peer) for who, peer in matrix.said if who == asker)


def _labels(specs: Sequence[HostSpec], chosen: Sequence[int]) -> str:
    return ", ".join(specs[index].label for index in chosen)


# ---- what works, but not as it looks


def oddities(specs: Sequence[HostSpec], facts: Sequence[Facts], answers: Matrix, mended: Mended) -> Iterator[Check]:
    """What the launch mends by itself, and what other programs would stumble over."""
    by_label = {spec.label: (spec, each) for spec, each in zip(specs, facts, strict=True)}
    for (check, text), labels in mended.items():
        for label in labels:
            yield _own_name(*by_label[label], text) if check == "names" else _wrong_interface(label, text)
    for peer, spec in enumerate(specs):
        names = answers.names[peer]
        for family in (6, 4):
            mine = [index for index, name in enumerate(names) if _family(name) == family]
            said = [matrix for (_, other), matrix in answers.said.items() if other == peer]
            others = any(not row[i][1] for row in said for i in range(len(names)) if i not in mine)
            if mine and said and others and all(row[i][1] for row in said for i in mine):
                word = "AF_INET6" if family == 4 else "AF_INET"
                yield Check(
                    id="mesh",
                    status="warn",
                    host=spec.label,
                    evidence=f"its IPv{family} addresses do not answer: {', '.join(names[i] for i in mine)}",
                    cause="a library that tries this family first waits for nothing, or fails",
                    fix=f"--env NCCL_SOCKET_FAMILY={word}",
                    doc="address-family",
                )


def chosen(
    specs: Sequence[HostSpec], facts: Sequence[Facts], answers: Matrix, environ: Mapping[str, Mapping[str, str]]
) -> Iterator[Check]:
    """Interfaces that somebody chose, by which the others do not reach the node. `environ`: by label."""
    for peer, (spec, each) in enumerate(zip(specs, facts, strict=True)):
        said = [row for (_, other), row in answers.said.items() if other == peer]
        good = {name for row in said for name, answer in zip(answers.names[peer], row, strict=True) if not answer[1]}
        live = list(dict.fromkeys(name for name, address in each["addresses"] if address in good))
        for name, fatal in (("GLOO_SOCKET_IFNAME", True), ("NCCL_SOCKET_IFNAME", bool(each["gpus"]))):
            value = environ[spec.label].get(name, "").partition(" (")[0]
            # lo is found in the variables alone; with ^ a list says what not to take.
            if not live or not value or value.startswith("^") or value.lstrip("=") == "lo" or _takes(name, value, live):
                continue
            there_is = "leads nowhere" if _takes(name, value, _interfaces(each)) else "is not there"
            yield Check(
                id="interfaces",
                status="fail" if fatal else "warn",
                host=spec.label,
                evidence=f"{name} is {value}, which {there_is}; by {', '.join(live)} they reach it",
                cause="it was chosen by a start-up file or by hand, and is used whatever else works",
                fix=f'[host.{spec.name}] in ddpkit.toml: env = {{ {name} = "{live[0]}" }}',
                doc="nccl-wrong-interface",
            )


def _interfaces(facts: Facts) -> list[str]:
    return list(dict.fromkeys(name for name, _ in facts["addresses"]))


def _takes(name: str, value: str, interfaces: Sequence[str]) -> bool:
    """Whether a choice takes one of these: gloo by the whole name, NCCL by its beginning but for `=`."""
    words = [word for word in value.lstrip("=").split(",") if word]
    whole = name.startswith("GLOO") or value.startswith("=")
    return any(each == word if whole else each.startswith(word) for each in interfaces for word in words)


def _own_name(spec: HostSpec, facts: Facts, text: str) -> Check:
    """Its own name means an address that the others do not reach."""
    own, live = facts["own_name"], next((address for _, address in facts["addresses"]), "")
    fix = there(spec.target, f"sudo sed -i '/^{own[0]}[[:space:]]/d' /etc/hosts") if own and _loopback(own[0]) else ""
    does = "publishes what the host's own name means" if own else "and torchrun look their own host up by its name"
    return Check(
        id="names",
        status="warn",
        host=spec.label,
        evidence=text,
        cause=f"gloo {does}; ddpkit sets GLOO_SOCKET_IFNAME, other launchers do not",
        fix=fix or _hosts_line(spec, live, facts["host"]),
        doc="name-is-loopback" if own else "no-node-is-host",
    )


def _wrong_interface(label: str, text: str) -> Check:
    live = text.rpartition("NCCL uses ")[2]
    return Check(
        id="interfaces",
        status="warn",
        host=label,
        evidence=text,
        cause="NCCL takes the first interfaces that it finds; ddpkit sets NCCL_SOCKET_IFNAME there, others do not",
        fix=f"for other launchers: export NCCL_SOCKET_IFNAME={live} GLOO_SOCKET_IFNAME={live.partition(',')[0]}",
        doc="nccl-wrong-interface",
    )


def _family(name: str) -> int:
    try:
        return ipaddress.ip_address(name.partition("%")[0]).version
    except ValueError:
        return 0


def names(
    specs: Sequence[HostSpec], facts: Mapping[str, Facts], more: Mapping[str, Mapping[str, Any]]
) -> Iterator[Check]:
    """What the nodes' own names mean on the other nodes. `facts` and `more` (of `facts.gather`): by label."""
    for spec in specs:
        odd: dict[str, list[HostSpec]] = {}
        for other in specs:
            name = facts[other.label]["host"]
            if other is not spec and name != facts[spec.label]["host"]:
                means = more[spec.label]["names"].get(name, "")
                if means == "":
                    odd.setdefault("cannot be looked up there in 2 s", []).append(other)
                elif isinstance(means, str):
                    odd.setdefault(f"means nothing there ({means.lower()})", []).append(other)
                elif own := [address for address in means if _loopback(address)]:
                    odd.setdefault(f"means {own[0]} there", []).append(other)
        for what, others in odd.items():
            known = [facts[other.label]["host"] for other in others]
            whose = "" if known == [other.label for other in others] else f" ({_joined(o.label for o in others)})"
            address = next((address for _, address in facts[others[0].label]["addresses"]), "ADDRESS")
            slow = "looked up" in what
            yield Check(
                id="names",
                status="warn",
                host=spec.label,
                evidence=f"{_joined(known)}{whose} {what}",
                cause="its name server does not answer: every look-up waits for that"
                if slow
                else "ddpkit passes addresses on, but other programs pass names: torchrun's c10d by hand, MPI",
                fix=f"ssh {spec.target} cat /etc/resolv.conf" if slow else _hosts_line(spec, address, known[0]),
                doc="second-master",
            )


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
