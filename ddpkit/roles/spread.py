"""Parts of nodes for the items of `ddpkit.map`: each item is a launch of its own on the GPUs of one part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ddpkit.config import LaunchSettings, Replica
from ddpkit.errors import UsageError
from ddpkit.execution import prepare
from ddpkit.execution.requested_nodes import Component, Wanted, hold_nodes
from ddpkit.launchers.shell import count
from ddpkit.roles.place import Place, place, visible_devices
from ddpkit.roles.spec import Role
from ddpkit.run import record


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of one node, for one item at a time."""

    place: Place
    ranks: int
    threads: int  # CPUs of each rank; 0: not known


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The parts of all nodes. `environ`: where a launch finds the allocation, if any."""

    parts: tuple[Part, ...]
    environ: Mapping[str, str]


@contextmanager
def spread(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    gpus: int | None,
    note: Callable[[str], None],
) -> Iterator[Spread]:
    """Part the nodes of a launch. A job of SLURM that was started for it ends with this. Raises DdpkitError.

    `gpus`: of each item; None: 1 where a node has any.
    """
    settings = replace(settings, spares=0)  # every node takes items
    ranks = settings.nproc_per_node if settings.nproc_per_node != "auto" else max(1, gpus or 1)
    if not isinstance(ranks, int):
        raise UsageError("-n: an item runs on one node", "add -n 1")
    if gpus is not None and gpus < 0:
        raise UsageError(f"gpus={gpus}: must be 0 or more", "gpus=1")
    chosen, backend = prepare.transport_of(settings), prepare.build_backend(settings)
    nodes = settings.nnodes if isinstance(settings.nnodes, int) else 1
    wanted = Wanted(name=settings.name, components=[Component(nodes, ranks, backend)], ports=0)
    asked = replace(settings, nnodes=None) if chosen.local else settings  # this machine is one node
    with hold_nodes(asked, backend, chosen, {**environ, **_devices(settings)}, wanted, note) as held:
        found, cpus = _survey(settings, held.hosts, note) if chosen.names_nodes else (held.gpus, held.cpus)
        parts = [
            part for host in held.hosts for part in _parts_of(host, gpus, ranks, found.get(host, 0), cpus.get(host, 0))
        ]
        yield Spread(parts=tuple(parts), environ=held.environ)


def _devices(settings: LaunchSettings) -> dict[str, str]:
    """Return the devices that the caller chose, among which the parts are."""
    return {name: value for name, value in settings.env.items() if name == "CUDA_VISIBLE_DEVICES"}


def _survey(
    settings: LaunchSettings, hosts: Sequence[str], note: Callable[[str], None]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return the GPUs and the CPUs of named nodes."""
    with prepare.prepare(replace(settings, nproc_per_node=1, function=b""), {}, note) as ready:
        facts = ready.transport.facts
        pairs = [(host, facts[label]) for host, label in zip(hosts, ready.hosts, strict=True) if label in facts]
    return {host: each.get("gpus", 0) for host, each in pairs}, {host: each.get("cpus", 0) for host, each in pairs}


def _parts_of(host: str, gpus: int | None, ranks: int, host_gpus: int, cpus: int) -> list[Part]:
    """Part one node: by its GPUs, or where an item needs none by its CPUs. `gpus`, `ranks`: of each item.

    Raises UsageError for a node with fewer GPUs than an item needs.
    """
    each = gpus if gpus is not None else min(host_gpus, 1)
    if each > host_gpus:
        raise UsageError(f"{host} has {count(host_gpus, 'GPU')}, and each item needs {each}", f"gpus={host_gpus}")
    number = host_gpus // each if each else max(1, cpus // ranks)
    role = Role(name="part", command=(), nnodes=number, replicas=number, gpus=each if host_gpus else None)
    places = place([role], [host], {host: host_gpus}, {}).values()
    threads = max(1, cpus // (number * ranks)) if cpus else 0
    return [Part(place=each_place, ranks=ranks, threads=threads) for each_place in places]


def settings_of(part: Part, settings: LaunchSettings, environ: Mapping[str, str]) -> LaunchSettings:
    """Return the settings of the launch of one item."""
    chosen, devices = prepare.transport_of(settings), part.place.gpus
    env, replica = dict(settings.env), None
    if devices is not None and chosen.slurm:  # they are counted among those of the step
        replica = Replica(run_id=record.new_id(settings.name), wants_port=False, gpus=devices)
    elif devices is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible_devices(
            devices, {**(environ if chosen.local else {}), **_devices(settings)}
        )
    if part.threads and "OMP_NUM_THREADS" not in environ:
        env.setdefault("OMP_NUM_THREADS", str(part.threads))
    return replace(
        settings,
        env=env,
        replica=replica,
        nproc_per_node=part.ranks,
        nnodes=None,
        spares=0,
        hosts=() if chosen.local else part.place.hosts,
        hostfile="",
    )
