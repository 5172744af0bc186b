"""Which nodes keep a collective from working, and which setting mends it: the same ranks again, in fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ddpkit.config import LaunchSettings
from ddpkit.errors import DdpkitError
from ddpkit.execution import prepare
from ddpkit.preflight import rank_program
from ddpkit.preflight.check import Check, Fault
from ddpkit.preflight.rank_program import PreflightOptions, check_settings
from ddpkit.text import format_hosts

MOST = 12  # attempts
# Variables that switch a part of NCCL off, the cause if that helps, and an entry of the catalogue.
SWITCHES = (
    ("NCCL_P2P_DISABLE", "GPUs of one node cannot access each other: PCIe ACS or the IOMMU", "p2p-hang"),
    ("NCCL_IB_DISABLE", "InfiniBand or RoCE: GID index, routing, cable", "ib-retry"),
    ("NCCL_SHM_DISABLE", "shared memory between the ranks of a node: /dev/shm, or separate containers", "shm-full"),
)

Works = Callable[[Sequence[str]], bool]


def suspects(hosts: Sequence[str], works: Works, most: int = MOST) -> list[tuple[str, ...]]:
    """Return the smallest sets of hosts that do not work: single hosts, or pairs. All of them together do not work.

    `works` tries some hosts. An empty list: it was needed more than `most` times.
    """
    tries = iter(range(most))

    def works_within_bound(some: Sequence[str]) -> bool:
        if next(tries, None) is None:
            raise _TooManyTriesError
        return works(some)

    try:
        return list(_smallest_bad(tuple(hosts), works_within_bound))
    except _TooManyTriesError:
        return []


class _TooManyTriesError(Exception):
    """More tries are needed than are allowed."""


def _smallest_bad(hosts: tuple[str, ...], works: Works) -> Iterator[tuple[str, ...]]:
    """Halve hosts that do not work together, until one host is left, or two halves that each work alone."""
    if len(hosts) <= 1:
        yield hosts
        return
    left, right = hosts[: len(hosts) // 2], hosts[len(hosts) // 2 :]
    bad = [half for half in (left, right) if not works(half)]
    for half in bad:
        yield from _smallest_bad(half, works)
    if not bad:
        yield _bad_pair(left, right, works)


def _bad_pair(left: tuple[str, ...], right: tuple[str, ...], works: Works) -> tuple[str, str]:
    """Return one host of each half that do not work together, where each half alone works."""
    while len(left) > 1:
        first = left[: len(left) // 2]
        left = first if not works((*first, *right)) else left[len(left) // 2 :]
    while len(right) > 1:
        first = right[: len(right) // 2]
        right = first if not works((*left, *first)) else right[len(right) // 2 :]
    return left[0], right[0]


def causes(
    settings: LaunchSettings, environ: Mapping[str, str], options: PreflightOptions, stage: str, hosts: Sequence[str]
) -> Iterator[Check]:
    """Run the same ranks again: unchanged, with parts of NCCL left out, and on fewer nodes."""

    def works(some: Sequence[str], env: Mapping[str, str]) -> bool:
        how = " ".join(f"{name}={value}" for name, value in env.items())
        where = "" if tuple(some) == tuple(hosts) else f" on {format_hosts(some)}"
        options.progress(f"testing again{where}{f' with {how}' if how else ''}")
        return _passes(settings, environ, options, stage, some, env)

    return find_causes(stage, hosts, works)


def find_causes(
    stage: str, hosts: Sequence[str], works: Callable[[Sequence[str], Mapping[str, str]], bool]
) -> Iterator[Check]:
    """Yield the cause of a failed stage. `works` runs some hosts with more variables, and returns whether it passed.

    A failure that does not occur again has no cause among variables and nodes: each of them would seem to fix it.
    """
    if works(hosts, {}):
        yield _slow_start(stage)
        return
    switches = [switch for switch in SWITCHES if stage == "nccl" and works(hosts, {switch[0]: "1"})]
    if len(switches) > 1:
        names = " and with ".join(f"{name}=1" for name, _, _ in switches)
        text, cause = f"succeeds with {names}", "the failure does not occur every time, so no variable is its cause"
        yield Check(id="cause", status="unknown", evidence=text, cause=cause)
        return
    for name, cause, doc in switches:
        text = f"succeeds with {name}=1"
        yield Check(id="cause", status="fail", evidence=text, cause=cause, fix=f"--env {name}=1", doc=doc)
    if len(hosts) < 2:
        return
    for nodes in suspects(hosts, lambda some: works(some, {})):
        fix = f"-o exclude={nodes[-1]}"
        if len(nodes) == 1:
            fault = Fault("fail", f"{nodes[0]} fails alone", "", fix, "firewall-drop")
        else:
            what = f"{' and '.join(nodes)} fail together; each succeeds with other nodes"
            cause = "small packets pass between the two nodes, large data does not: an MTU, a cable or a filter"
            fix += f"; to test large packets: ssh {nodes[0]} ping -M do -s 1372 {nodes[1]}"
            fault = Fault("fail", what, cause, fix, "firewall-drop")
        yield fault.of("cause", nodes[-1])


def _slow_start(stage: str) -> Check:
    """Return the finding for ranks that succeed when they run again, unchanged."""
    cause = "a slow first start: libraries were not in memory, or each GPU was initialized (persistence mode is off)"
    if stage != "nccl":
        cause = "a slow first start, or packets that are lost at times"
    text = f"{stage} succeeds when the same ranks run again, unchanged"
    fix = "ddpkit test --timeout 60; for GPUs: sudo nvidia-smi -pm 1" if stage == "nccl" else "ddpkit test --timeout 60"
    return Check(id="cause", status="warn", evidence=text, cause=cause, fix=fix, doc="slow-first-start")


def _passes(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    options: PreflightOptions,
    stage: str,
    hosts: Sequence[str],
    env: Mapping[str, str],
) -> bool:
    """Run the ranks on these nodes alone. Returns whether the stage passed; False also where no rank could start."""
    chosen = check_settings(settings, options)
    chosen = replace(chosen, env={**chosen.env, **env})
    transport = prepare.transport_of(settings)
    try:
        if not transport.names_nodes:
            if transport.slurm and isinstance(settings.nnodes, int) and len(hosts) < settings.nnodes:
                fewer = {**chosen.options, "nodelist": ",".join(hosts)}
                chosen = replace(chosen, nnodes=len(hosts), options=fewer)
            ready = prepare.prepare_offline(chosen, environ)
            done = rank_program.run(ready.plan, ready.transport, settings.log_dir, signals=options.signals)
        else:
            with prepare.approach(chosen, options.note) as nodes:
                pool = nodes.transport.pool
                pool.specs = tuple(spec for spec in pool.specs if spec.label in hosts)
                plan = nodes.plan(nodes.transport.survey(lambda _: None, strict=False), nodes.job)
                done = rank_program.run(plan, nodes.transport, settings.log_dir, signals=options.signals)
    except DdpkitError:
        return False
    return stage in {event["stage"] for event in done.stages}
