"""A hold keeps nodes with a warm Python for the launches of a project: its own launch, and the choice of one.

It is an ordinary launch of one process a node (`node/rank/holder.py`), with a record. A launch that fits connects to
each node as ever, and there to the hold (`transports/held.py`). Whether its ranks can be forks, each node says.

Under SLURM a hold has a job, as roles have. Steps of it are the connections (`transports/allocation.py`), those of the
hold and those of each launch; all else is as for named nodes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

from ddpkit.config import LaunchSettings, overlaid, parse_duration
from ddpkit.errors import UsageError
from ddpkit.execution import prepare
from ddpkit.execution.requested_nodes import (
    Component,
    Queries,
    Wanted,
    hold_nodes,
    named_hosts,
    number_of_nodes,
    ranks_per_node,
    scheduled_hosts,
    surroundings,
    uneven_ranks,
)
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.shell import count, quote
from ddpkit.launchers.starters import preload_modules
from ddpkit.node.child import HOLDER, NOT_FROM_HERE
from ddpkit.run import launcher_process, run_index
from ddpkit.run.record import RecordedHold, Run
from ddpkit.run.run_index import HOLD
from ddpkit.transports import slurm_nodes
from ddpkit.transports.held import socket_name

IDLE = "30m"
IN_JOB = "ssh"  # the backend of launches on nodes of a job: its plan is the same, whatever the connections are
# The file is written by the supervisor. Another Python runs it: SAFE_PATH of this one is in its `sys.flags`, for ever.
_HOLD = f'{NOT_FROM_HERE}; os.execv(sys.executable, [sys.executable, os.environ["DDPKIT_TAP"]])'
_USE = "a hold"
_OF_SCRIPT = ("setup", "srun")  # options of SLURM that are part of a job's script, and not of a step of a hold
_OF_JOB = (*_OF_SCRIPT, "array", "hetjob", "chain", "via", "new_job")  # that a launch into a hold cannot have


def parse_idle(text: str) -> float:
    """Read 90, 90s, 30m or 2h as seconds; 0: for ever. Raises UsageError."""
    seconds = parse_duration(text)
    if seconds is None:
        raise UsageError(f"--idle {text} is not a length of time", "add --idle 30m")
    return seconds


def check(settings: LaunchSettings) -> None:
    """Refuse what a hold cannot be. Raises UsageError."""
    chosen = prepare.transport_of(settings)
    if not (chosen.local or chosen.names_nodes or chosen.slurm):
        what = f"a hold works with local, ssh, pdsh and SLURM, not with {settings.backend}"
        raise UsageError(what, "add -b ssh")
    if chosen.local and sys.platform != "linux":
        raise UsageError("a hold needs Linux, and this machine has another system", "add -b ssh, with a node of Linux")
    if isinstance(settings.nnodes, tuple) or settings.spares:
        raise UsageError("a hold has one number of nodes, and no spares", "remove --spares, and -N MIN:MAX")
    if settings.is_given("script"):
        raise UsageError("a hold has no script: the launches have", "ddpkit hold, then ddpkit launch -- SCRIPT")
    backend = prepare.build_backend(settings)
    if getattr(backend, "via", ""):
        raise UsageError("a hold does not work with --via", "run this command on the login host")
    for name in _OF_SCRIPT:
        if getattr(backend, name, ""):
            raise UsageError(f"a hold works without -o {name}", f"add -o {name}=")
    options = NodeOptions.of(backend)
    if options.container or options.stage != "off" or settings.sync:
        raise UsageError("a hold works without containers, --stage and --sync", f"ddpkit hold -b {settings.backend}")


@contextmanager
def prepare_hold(
    settings: LaunchSettings,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    queries: Queries,
    *,
    idle: float,
) -> Iterator[prepare.Ready]:
    """Yield the launch that is the hold, of checked settings, with its connections and its job, which end with this.

    `idle`: seconds without a launch after which it ends; 0: never. Raises DdpkitError.
    """
    progress = None if queries.dry else lambda *_: None
    with (
        _with_nodes(settings, environ, note, queries) as held,
        prepare.prepare(_one_process_a_node(held), environ, note, progress, queries=queries) as ready,
    ):
        yield _with_holder(ready, held, idle)


@contextmanager
def _with_nodes(
    settings: LaunchSettings, environ: Mapping[str, str], note: Callable[[str], None], queries: Queries
) -> Iterator[LaunchSettings]:
    """Yield the settings with the nodes of the hold. Under SLURM it holds their job, which ends with this."""
    from ddpkit.launchers.slurm import Slurm

    chosen, backend = prepare.transport_of(settings), prepare.build_backend(settings)
    if not isinstance(backend, Slurm):
        yield settings
        return
    asked = ranks_per_node(settings)
    nodes = number_of_nodes(settings, backend, environ) or len(scheduled_hosts(settings)[0])
    here = surroundings(settings, environ)
    if not nodes:
        nodes = len(slurm_nodes.held_nodes(here, (), _USE).hosts) if slurm_nodes.allocation(here) else 1
    each = asked or backend.gpus_on_node() or 1
    wanted = Wanted(name=settings.name or HOLD, components=[Component(nodes, each, backend)], ports=0, use=_USE)
    with hold_nodes(settings, backend, chosen, environ, wanted, note, queries) as held:
        if len(held.hosts) < nodes:
            what = f"{count(nodes, 'node')} requested, and job {held.environ['SLURM_JOB_ID']} has {len(held.hosts)}"
            raise UsageError(what, f"add -N {len(held.hosts)}")
        if queries.dry:
            note("its nodes are reached by srun --overlap, in place of the ssh below")
        ranks = asked or max(held.gpus.values(), default=0) or each
        yield _in_job(settings, held.environ["SLURM_JOB_ID"], held.hosts, ranks)


def _in_job(settings: LaunchSettings, job: str, hosts: Sequence[str], ranks: int | None = None) -> LaunchSettings:
    """Return the settings of a launch on nodes of a job. Options of the request for it have had their effect."""
    own = _options_in_job()
    options = {name: value for name, value in settings.options.items() if name in own}
    given = {"backend": IN_JOB, "hosts": list(hosts)} | ({"nproc_per_node": ranks} if ranks else {})
    alone = replace(settings, options=options, hostfile="", nnodes=None, host={})
    return replace(overlaid(alone, given, f"job {job}"), in_job=job)


def _options_in_job() -> set[str]:
    """Return the options that a launch on nodes of a job can have."""
    return {entry.name for entry in fields(registry.load(IN_JOB))} - {"exclude"}


def _one_process_a_node(settings: LaunchSettings) -> LaunchSettings:
    """Return the settings of the launch that is the hold: one process on each node."""
    options = {name: value for name, value in settings.options.items() if name != "preload"} | {"starter": "ranks"}
    script, sources = ("-c", _HOLD), {**settings.sources, "script": "flag"}
    one = replace(
        settings,
        script=script,
        options=options,
        nproc_per_node=1,
        sources=sources,
        roles={},
        retries=0,
        observe=(),
        hang_timeout=0.0,
        on_end="",
        on_attempt="",
        name=f"{HOLD}-{settings.name}" if settings.name else HOLD,
    )
    return replace(one, hosts=(), hostfile="") if prepare.transport_of(settings).local else one


def _with_holder(ready: prepare.Ready, settings: LaunchSettings, idle: float) -> prepare.Ready:
    """Return the prepared hold with holders as its processes. `settings`: those for launches into it."""
    modules = preload_modules(str(settings.options.get("preload") or "true"), ready.job) or ("torch",)
    plan, job = ready.plan, ready.job
    spec = json.dumps({"name": socket_name(plan.run_id), "modules": modules, "idle": idle})
    steps = tuple(replace(step, env={**step.env, HOLDER: spec}) for step in plan.steps)
    typed: tuple[str, ...] = ()
    if prepare.transport_of(settings).names_nodes:
        backend = prepare.build_backend(settings)
        typed = tuple(spec.typed for spec in named_hosts(settings, backend, NodeOptions.of(backend)))
    ranks = settings.nproc_per_node
    hold = RecordedHold(
        hosts=typed,
        nproc_per_node=",".join(map(str, ranks)) if isinstance(ranks, tuple) else str(ranks),
        options={name: str(value) for name, value in settings.options.items() if name != "preload"},
        in_job=bool(settings.in_job),
    )
    job = replace(job, command=(HOLD, *modules))
    return replace(ready, plan=replace(plan, steps=steps), job=job, hold=hold)


# ---- which hold a launch uses


def living(project: Path) -> list[Run]:
    """Return the living holds of a project that this user's index has, the newest first."""
    return [
        run
        for run in run_index.list_holds()
        if run_index.project_of(run) == project and launcher_process.is_local(run) and launcher_process.is_alive(run)
    ]


def join(settings: LaunchSettings, note: Callable[[str], None]) -> LaunchSettings:
    """Return the settings of a launch, into a hold of its project where one fits; else as they are."""
    if not settings.hold or settings.has_roles or settings.options.get("container"):
        return settings
    for run in living(run_index.find_project(Path.cwd())):
        assert run.hold is not None
        joined = _joined(settings, run, run.hold, note)
        if joined is not None:
            note(f"uses hold {run.run_id}; without it: --no-hold")
            # torchrun, the usual starter of some backends, starts each rank as a new Python. Who asks for it gets it.
            return replace(joined, options={"starter": "ranks", **joined.options})
    return settings


def _joined(
    settings: LaunchSettings, run: Run, hold: RecordedHold, note: Callable[[str], None]
) -> LaunchSettings | None:
    """Return the settings of a launch into this hold; None where the user named another backend or other nodes."""
    sources = settings.sources
    named = any(name in sources for name in ("backend", "hosts", "hostfile", "nnodes"))
    if hold.in_job:
        return _joined_job(settings, run, hold, note) if not named or prepare.transport_of(settings).slurm else None
    if not named:
        given: Mapping[str, object] = {"backend": run.backend, "hosts": list(hold.hosts)}
        if "nproc_per_node" not in sources:
            given = {**given, "nproc_per_node": hold.nproc_per_node}
        options = {name: value for name, value in hold.options.items() if name not in settings.options}
        return replace(overlaid(settings, {**given, "options": options}, f"hold {run.run_id}"), held=run.run_id)
    chosen = prepare.transport_of(settings)
    if registry.load(settings.backend) is not registry.load(run.backend):
        return None
    if chosen.names_nodes:
        backend = prepare.build_backend(settings)
        specs = named_hosts(settings, backend, NodeOptions.of(backend))
        if not {spec.typed for spec in specs} <= set(hold.hosts):
            return None
    return replace(settings, held=run.run_id)


def _joined_job(
    settings: LaunchSettings, run: Run, hold: RecordedHold, note: Callable[[str], None]
) -> LaunchSettings | None:
    """Return the settings of a launch under SLURM into a hold; None where the hold lacks what the launch asks for."""
    if not run.job_id or isinstance(settings.nnodes, tuple) or uneven_ranks(settings):
        return None
    hosts, counts = scheduled_hosts(replace(settings, nnodes=None))
    hosts = hosts or hold.hosts
    nodes = len(hosts) if settings.nnodes is None else settings.nnodes + settings.spares
    if counts or nodes > len(hosts) or not set(hosts) <= set(hold.hosts):
        return None
    option = _unsupported_option(settings)
    if option:
        note(f"does not use hold {run.run_id}, which does not work with {option}")
        return None
    given = {} if "nproc_per_node" in settings.sources else {"nproc_per_node": hold.nproc_per_node}
    joined = overlaid(settings, given, f"hold {run.run_id}")
    return replace(_in_job(joined, run.job_id, hosts[:nodes]), held=run.run_id)


def _unsupported_option(settings: LaunchSettings) -> str:
    """Return an option of a launch that the nodes of a hold cannot give it; empty: none.

    Options that request nodes, and stand in a file, were those of the hold too: they have had their effect.
    """
    if settings.sync:
        return "--sync"
    kept = _options_in_job() - {"stage"}
    for name, value in settings.options.items():
        off = str(value).lower() in ("", "0", "false", "no", "off")
        if not off and name not in kept and (name in (*_OF_JOB, "stage") or settings.is_option_given(name)):
            return f"-o {name}"
    return ""


def to_end(project: Path) -> list[Run]:
    """Return the holds of a project that --end ends. Raises UsageError for none."""
    found = living(project)
    if not found:
        raise UsageError(f"no hold of {quote(str(project))} is running", "ddpkit ps")
    return found
