"""Where each replica runs, which GPUs and CPUs of its nodes it has, and the addresses that others get. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from ddpkit.config import ROLE_ADDRESS
from ddpkit.errors import UsageError
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import ALL_CPUS
from ddpkit.launchers.shell import count
from ddpkit.roles.order import Name
from ddpkit.roles.spec import Role


@dataclass(frozen=True, kw_only=True)
class Place:
    """The nodes of one replica. `gpus`, `cpus`: those of each of them, by their places; None: all."""

    hosts: tuple[str, ...]
    gpus: range | None = None
    cpus: range | None = None


def nodes_needed(roles: Sequence[Role]) -> int:
    """Nodes of all roles together. A role beside another one needs none of its own."""
    return sum(role.nnodes for role in roles if not role.beside)


def place(
    roles: Sequence[Role],
    hosts: Sequence[str],
    gpus: Mapping[str, int],
    cpus: Mapping[str, int],
    kinds: Sequence[Sequence[Role]] = (),
    groups: Sequence[int] = (),
) -> dict[Name, Place]:
    """Give out hosts in the order of the roles. On one machine all roles share it.

    `gpus`, `cpus`: how many each host has; without an entry it is not known. `kinds`: roles that want nodes of one
    kind. `groups`: hosts in each group of a heterogeneous allocation. Raises UsageError.
    """
    nodes: dict[str, tuple[str, ...]] = {}  # of all replicas of a role
    if len(hosts) == 1:
        nodes = {role.name: (hosts[0],) * role.nnodes for role in roles}
    else:
        needed = nodes_needed(roles)
        if needed > len(hosts) or (needed != len(hosts) and not groups):
            what = f"the roles need {count(needed, 'node')}, and {len(hosts)} are given: {format_hosts(list(hosts))}"
            fix = f"-N {needed}" if needed < len(hosts) else f"name {count(needed - len(hosts), 'more node')}"
            raise UsageError(what, fix)
        left = list(hosts)
        for role in roles if not groups else ():
            if not role.beside:
                nodes[role.name], left = tuple(left[: role.nnodes]), left[role.nnodes :]
        nodes |= _in_groups(kinds, hosts, groups) if groups else {}
        for role in roles:
            if role.beside:
                nodes[role.name] = nodes[role.beside]
    places = {
        Name(role.name, n): nodes[role.name][n * role.nodes_each : (n + 1) * role.nodes_each]
        for role in roles
        for n in range(role.replicas)
    }
    named = {role.name: role for role in roles}
    users: dict[str, list[tuple[Role, Name]]] = {}
    for name, own in places.items():
        for host in dict.fromkeys(own):
            users.setdefault(host, []).append((named[name.role], name))
    devices, processors = _part_gpus(users, gpus), _part_cpus(users, cpus)
    return {name: Place(hosts=own, gpus=devices.get(name), cpus=processors.get(name)) for name, own in places.items()}


def _in_groups(
    kinds: Sequence[Sequence[Role]], hosts: Sequence[str], groups: Sequence[int]
) -> dict[str, tuple[str, ...]]:
    """Give each role hosts of one group, or all there are. Raises UsageError where a role does not fit.

    Each kind of nodes begins with another group. Where all want the same, and there are as many roles as groups, each
    role does.
    """
    kinds = [[role for role in alike if not role.beside] for alike in kinds]
    roles = [role for alike in kinds for role in alike]
    if len(roles) == 1 and roles[0].nnodes == len(hosts):
        return {roles[0].name: tuple(hosts)}
    if len(kinds) == 1 and len(roles) == len(groups):
        kinds = [[role] for role in roles]
    ends = [*accumulate(groups)]
    free = [list(hosts[end - size : end]) for size, end in zip(groups, ends, strict=True)]
    nodes: dict[str, tuple[str, ...]] = {}
    group = -1
    for alike in kinds:
        group += 1
        for role in alike:
            while group < len(free) and len(free[group]) < role.nnodes:
                group += 1
            if group >= len(free):
                sizes = " and ".join(map(str, groups))
                what = f"roles.{role.name} needs {count(role.nnodes, 'node')} of one group; the allocation has {sizes}"
                fitting = " : ".join(f"--nodes={each.nnodes}" for each in roles)
                raise UsageError(f"{what}, given out in the order of the roles", f"salloc {fitting}")
            nodes[role.name], free[group] = tuple(free[group][: role.nnodes]), free[group][role.nnodes :]
    return nodes


RanksPerNode = int | tuple[int, ...] | Literal["auto"]  # as in `LaunchSettings.nproc_per_node`
Users = Mapping[str, Sequence[tuple[Role, Name]]]  # by host: the replicas there
Parts = dict[Name, range]


def _part_gpus(users: Users, gpus: Mapping[str, int]) -> Parts:
    """Part the GPUs of hosts that replicas share. Raises UsageError for GPUs that are given twice."""
    found: Parts = {}
    for host, here in users.items():
        known = gpus.get(host, 0)
        wants = [(role, name) for role, name in here if role.gpus is None]
        if known and wants and len(here) > 1:
            names = ", ".join(dict.fromkeys(role.name for role, _ in here))
            what = f"{names} share the {count(known, 'GPU')} of {host}, and roles.{wants[0][0].name} says not how many"
            raise UsageError(what, f"gpus = N in [roles.{wants[0][0].name}]; 0: none")
        first = 0
        for role, name in here:
            if role.gpus is None:
                continue
            device = range(first, first + role.gpus)
            first += role.gpus
            if host in gpus and first > known:
                total = " + ".join(f"{each.gpus} of {each.name}" for each, _ in here if each.gpus)
                raise UsageError(f"{host} has {count(known, 'GPU')}; promised are {total}", "gpus = N, smaller")
            _give(found, name, device, f"GPUs on {host}")
    return found


def _part_cpus(users: Users, cpus: Mapping[str, int]) -> Parts:
    """Part the CPUs of hosts where a role says how many. The others share the rest. Raises UsageError for too many."""
    found: Parts = {}
    for host, here in users.items():
        first = 0
        for role, name in here:
            if role.cpus is not None:
                _give(found, name, range(first, first + role.cpus), f"CPUs on {host}")
                first += role.cpus
        # Where no role says how many, all share all. The others need one CPU at least.
        others = [(role, name) for role, name in here if role.cpus is None] if first else []
        for _, name in others:
            _give(found, name, range(first, ALL_CPUS), f"CPUs on {host}")
        if first + bool(others) > cpus.get(host, ALL_CPUS):
            total = " + ".join(f"{each.cpus} of {each.name}" for each, _ in here if each.cpus)
            rest = f", and {others[0][0].name} would have none" if others and first == cpus[host] else ""
            what = f"{host} has {count(cpus[host], 'CPU')}; promised are {total}{rest}"
            raise UsageError(what, "cpus = N, smaller")
    return found


def _give(found: Parts, name: Name, part: range, where: str) -> None:
    """Give a replica its part of a node. Raises UsageError where it has another part on another of its nodes."""
    if found.setdefault(name, part) != part:
        what = f"roles.{name.role}: replica {name.number} would have other {where} than on its other nodes"
        raise UsageError(what, "give the roles beside it the same nodes")


def ranks_per_host(requested: RanksPerNode, place: Place) -> RanksPerNode:
    """Return the ranks of each host of a replica. On one machine all its nodes are that host.

    `requested`: for each node; "auto" is one for each GPU of the place, at least one.
    """
    if requested == "auto" and place.gpus is not None:
        requested = max(1, len(place.gpus))
    nodes_per_host = len(place.hosts) // len(set(place.hosts))
    return requested * nodes_per_host if isinstance(requested, int) else requested


def visible_devices(gpus: range, environ: Mapping[str, str]) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for these GPUs, among those that an environment shows."""
    seen = environ.get("CUDA_VISIBLE_DEVICES", "")
    return ",".join(seen.split(",")[gpus.start : gpus.stop] if seen else map(str, gpus))


def addresses(role: Role, places: Sequence[Place], ports: Sequence[int | None]) -> dict[str, str]:
    """Return what other roles can name of this one, in the order of its replicas."""
    hosts = [each.hosts[0] for each in places]
    values = {"hosts": ",".join(dict.fromkeys(host for each in places for host in each.hosts)), "host": hosts[0]}
    if any(port is None for port in ports):
        return values
    pairs = [f"{_bracketed(host)}:{port}" for host, port in zip(hosts, ports, strict=True)]
    urls = [f"http://{pair}" for pair in pairs]
    return {
        **values,
        "ports": ",".join(map(str, ports)),
        "port": str(ports[0]),
        "addresses": ",".join(pairs),
        "urls": ",".join(urls),
        "url": urls[0],
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def variables(roles: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the variables with the addresses of roles: DDPKIT_ROLE_INFER_URLS."""
    return {
        f"{ROLE_ADDRESS}{re.sub('[^A-Z0-9]', '_', name.upper())}_{key.upper()}": value
        for name, values in roles.items()
        for key, value in values.items()
        if key in ("hosts", "addresses", "urls")
    }
