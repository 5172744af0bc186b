"""A hold keeps nodes with a warm Python for the launches of a project: its own launch, and the choice of one.

It is an ordinary launch of one process a node (`node/rank/holder.py`), with a record. A launch that fits connects to
each node as ever, and there to the hold (`transports/held.py`). Whether its ranks can be forks, each node says.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ddpkit.config import LaunchSettings, overlaid
from ddpkit.errors import UsageError
from ddpkit.execution import prepare
from ddpkit.execution.requested_nodes import named_hosts
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.shell import quote
from ddpkit.launchers.starters import preload_modules
from ddpkit.node.child import HOLDER
from ddpkit.run import launcher_process, run_index
from ddpkit.run.record import RecordedHold, Run
from ddpkit.run.run_index import HOLD
from ddpkit.transports.held import socket_name

IDLE = "30m"
_HOLD = 'import os; exec(open(os.environ["DDPKIT_TAP"]).read())'  # the file is written by the supervisor
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_idle(text: str) -> float:
    """Read 90, 90s, 30m or 2h as seconds; 0: for ever. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd]?)", text)
    if match is None:
        raise UsageError(f"--idle {text} is not a length of time", "add --idle 30m")
    return float(match[1]) * _UNITS[match[2]]


def check(settings: LaunchSettings) -> None:
    """Refuse what a hold cannot be. Raises UsageError."""
    chosen = prepare.transport_of(settings)
    if not (chosen.local or chosen.names_nodes):
        what = f"a hold works with local, ssh and pdsh, not with {settings.backend}"
        raise UsageError(what, "add -b ssh")
    if chosen.local and sys.platform != "linux":
        raise UsageError("a hold needs Linux, and this machine has another system", "add -b ssh, with a node of Linux")
    if isinstance(settings.nnodes, tuple) or settings.spares:
        raise UsageError("a hold has one number of nodes, and no spares", "remove --spares, and -N MIN:MAX")
    if settings.is_given("script"):
        raise UsageError("a hold has no script: the launches have", "ddpkit hold, then ddpkit launch -- SCRIPT")
    options = NodeOptions.of(prepare.build_backend(settings))
    if options.container or options.stage != "off" or settings.sync:
        raise UsageError("a hold works without containers, --stage and --sync", f"ddpkit hold -b {settings.backend}")


def settings_of(settings: LaunchSettings) -> LaunchSettings:
    """Return the settings of the launch that is the hold: one process on each node."""
    check(settings)
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


def modules_of(settings: LaunchSettings, ready: prepare.Ready) -> tuple[str, ...]:
    """Return the modules that a hold imports: those of -o preload. Raises UsageError."""
    return preload_modules(str(settings.options.get("preload") or "true"), ready.job) or ("torch",)


def with_holder(ready: prepare.Ready, settings: LaunchSettings, idle: float) -> prepare.Ready:
    """Return a prepared hold whose processes are holders. `settings`: those that the user chose."""
    modules = modules_of(settings, ready)
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
    """Return the settings of a launch with the hold that it uses, if its project has one that fits."""
    if not settings.hold or settings.has_roles or settings.options.get("container"):
        return settings
    for run in living(run_index.find_project(Path.cwd())):
        assert run.hold is not None
        joined = _joined(settings, run, run.hold)
        if joined is not None:
            note(f"uses hold {run.run_id}; without it: --no-hold")
            # torchrun, the usual starter of some backends, starts each rank as a new Python. Who asks for it gets it.
            return replace(joined, options={"starter": "ranks", **joined.options})
    return settings


def _joined(settings: LaunchSettings, run: Run, hold: RecordedHold) -> LaunchSettings | None:
    """Return the settings of a launch into this hold; None where the hold is another one than was asked for."""
    sources = settings.sources
    named = any(name in sources for name in ("backend", "hosts", "hostfile", "nnodes"))
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


def to_end(project: Path) -> Run:
    """Return the hold of a project that --end ends. Raises UsageError for none, and for several."""
    found = living(project)
    if not found:
        raise UsageError(f"no hold of {quote(str(project))} is running", "ddpkit ps")
    if len(found) > 1:
        entries = [run_index.IndexEntry(run_id=run.run_id, folder=run.folder, host="", run=run) for run in found]
        raise run_index.several(f"{len(found)} holds are running", entries, entries, "ddpkit stop {}", whole=True)
    return found[0]
