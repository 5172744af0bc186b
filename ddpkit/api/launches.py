"""`launch`, `plan` and `test`."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit import config
from ddpkit.api.keywords import Role, settings_from, takes_keywords, with_roles
from ddpkit.api.run import Run
from ddpkit.errors import DdpkitError, LaunchError, PreflightError, UsageError
from ddpkit.execution import prepare
from ddpkit.execution.background import BackgroundRun, Notes
from ddpkit.execution.hold import join as join_hold
from ddpkit.execution.lifecycle import RecordedRun
from ddpkit.execution.requested_nodes import Queries
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import run_module, with_safe_path
from ddpkit.preflight.check import CheckReport
from ddpkit.run import record

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_keywords
def launch(
    script: str | os.PathLike[str] | None = None,
    args: Sequence[str] = (),
    *,
    roles: Mapping[str, Role] | None = None,
    profile: str | None = None,
    detach: bool = False,
    on: str | None = None,
    echo: bool = False,
    **settings: Unpack[config.LaunchKeywords],
) -> Run:
    """Start a script on every rank, and return when the ranks are being started. The first failure ends the run.

    `roles`: several programs in place of a script, see `Role`; settings beside them hold for all.
    `script` is "train.py", "-m" with `args` ["pkg.train", ...], or any program; None: the one of `ddpkit.toml`. Times
    (`grace`, `hang_timeout`) are in seconds. `detach`: the run continues after this program, in tmux or as a job;
    `on`: its launcher runs on that host. `echo`: print the lines of the run to `sys.stdout` and `sys.stderr`; `header`
    and `fold` concern the terminal of the command line.

    Raises UsageError for a wrong request, PreflightError for nodes that cannot run the script, LaunchError where a node
    or a scheduler refuses. Nothing runs then. A rank that fails raises nothing: see `Run.wait`.

        run = ddpkit.launch("train.py", ["--epochs", "3"], backend="ssh", hosts=["node1", "node2"], nproc_per_node=4)
    """
    began, notes = time.time(), Notes(echo)
    chosen = with_roles(settings_from(script, args, profile, settings), roles)
    for warning in config.unknown_variables(os.environ):
        notes.add(f"warning: {warning}")
    if on is not None and not detach:
        raise UsageError(f"--on {on} requires --detach", "add --detach")
    if detach and (on is not None or chosen.has_roles or not prepare.transport_of(chosen).scheduled):
        return _launch_detached(script, args, profile, on, settings, chosen)
    with ExitStack() as connections:
        if chosen.has_roles:
            from ddpkit.roles.prepare import prepare_roles
            from ddpkit.roles.run import RolesRun

            prepared = connections.enter_context(prepare_roles(chosen, os.environ, notes.add))
            whole = RolesRun(prepared, began=began, in_program=True)
            return Run(whole.record, BackgroundRun(whole, chosen, connections.pop_all(), echo=echo))
        chosen = join_hold(chosen, notes.add)
        ready = connections.enter_context(prepare.prepare(chosen, os.environ, notes.add, notes.add_copy))
        if detach and ready.plan.batch is None:
            return _launch_detached(script, args, profile, on, settings, chosen)
        for unused in prepare.unused(chosen, os.environ):
            notes.add(unused)
        log_dir = str(Path(chosen.log_dir).absolute())  # the program may change its folder
        check = functools.partial(_find_faults, chosen)
        run = RecordedRun(ready, log_dir, began=began, notes=notes.texts, leave=detach, in_program=True, check=check)
        if not run.followed:
            if ready.not_forwarded:
                notes.add(ready.not_forwarded)
            return Run(run.record)
        return Run(run.record, BackgroundRun(run, chosen, connections.pop_all(), echo=echo))


def _find_faults(chosen: config.LaunchSettings, hosts: Sequence[str], folder: Path) -> Mapping[str, str]:
    from ddpkit.preflight.run import find_faults

    return find_faults(chosen, os.environ, hosts, folder)


@takes_keywords
def plan(
    script: str | os.PathLike[str] | None = None,
    args: Sequence[str] = (),
    *,
    profile: str | None = None,
    echo: bool = False,
    survey: bool = False,
    **settings: Unpack[config.LaunchKeywords],
) -> Plan:
    """Return the plan that `launch` would carry out: `str(plan)` is the script that `--dry-run` prints.

    Starts nothing. Connects to nodes that the keywords name, to query them with their own python3; with `survey` also
    to those of a file or a variable. Arguments and errors are those of `launch`.

        print(ddpkit.plan("train.py", backend="slurm", nnodes=2, options={"partition": "gpu"}))
    """
    chosen = settings_from(script, args, profile, settings)
    if chosen.has_roles:
        raise UsageError("the roles of a run have a plan each", "ddpkit launch --dry-run")
    allowed = Queries.SURVEY if survey else Queries.TYPED
    with prepare.prepare(chosen, os.environ, Notes(echo).add, queries=allowed) as ready:
        return ready.plan


@takes_keywords
def test(
    *,
    quick: bool = False,
    full: bool = False,
    ranks: bool = True,
    timeout: float | None = None,
    profile: str | None = None,
    echo: bool = False,
    **settings: Unpack[config.LaunchKeywords],
) -> CheckReport:
    """Find failures of nodes, network, GPUs and collectives before a run, as `ddpkit test` does.

    `quick`: little data; `full`: much data, and the speed of each rank. `ranks=False`: only checks that need no torch.
    `timeout`: seconds for each step of the ranks, usually 5. Returns a report: `.ok`, and `.checks`, each with `id`,
    `status` ("pass", "warn", "fail", "skip" or "unknown"), `host`, `rank`, `evidence`, `cause` and `fix`. Raises
    UsageError for a wrong request.

        report = ddpkit.test(backend="ssh", hosts=["node1", "node2"], nproc_per_node=4)
        for check in report.checks:
            if check.status == "fail":
                print(check.host, check.rank, check.evidence, check.cause, check.fix)
    """
    from ddpkit.preflight import run

    chosen = settings_from(None, (), profile, settings)
    options = run.parse_options(quick=quick, full=full, ranks=ranks, timeout=timeout, note=Notes(echo).add)
    return run.run_preflight(chosen, os.environ, options)


# ---- detached runs

_ERRORS: Mapping[int, type[DdpkitError]] = {each.exit_code: each for each in (UsageError, PreflightError, LaunchError)}


def _launch_detached(
    script: str | os.PathLike[str] | None,
    args: Sequence[str],
    profile: str | None,
    on: str | None,
    given: config.LaunchKeywords,
    chosen: config.LaunchSettings,
) -> Run:
    """Run the command line, whose launcher starts itself again in a session of its own."""
    roles = chosen.roles if chosen.roles_from else None
    words, env = _command_line(script, args, profile, given, roles)
    words[:0] = ["--detach", "--json", *(["--on", on] if on is not None else [])]
    done = subprocess.run(
        [sys.executable, "-c", run_module("ddpkit"), "launch", *words],
        env=with_safe_path({**os.environ, **env}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        text = done.stderr.rpartition("ddpkit: error: ")[2].strip()  # notes come before it
        message, _, hint = text.partition("\nhint: ")
        raise _ERRORS.get(done.returncode, DdpkitError)(message or f"exit code {done.returncode}", hint or None)
    entry = record.parse(json.loads(done.stdout))
    if entry is None:
        raise DdpkitError(f"the detached launcher printed no record: {done.stdout[:200]!r}", "ddpkit ps")
    return Run(entry)


def _command_line(
    script: str | os.PathLike[str] | None,
    args: Sequence[str],
    profile: str | None,
    given: config.LaunchKeywords,
    roles: Mapping[str, object] | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Write keywords as words of `ddpkit launch`, and the values of variables as an environment for it."""
    words: list[str] = ["--profile", profile] if profile is not None else []
    variables: dict[str, str] = {}
    hosts: Sequence[str] = ()
    values: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    without_flag = {
        name: values.pop(name) for name in [*values] if name in config.SETTINGS and not config.SETTINGS[name].flag
    }
    without_flag |= {} if roles is None else {"roles": roles}
    words += ["--settings-as-json", json.dumps(without_flag, default=str)] if without_flag else []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "options" and isinstance(value, Mapping):
            words += [word for key, option in value.items() for word in ("-o", f"{key}={_text(option)}")]
        elif name == "env" and isinstance(value, Mapping):
            words += [word for key in value for word in ("--env", key)]
            variables |= {key: str(text) for key, text in value.items() if text is not None}
        elif name == "hosts" and isinstance(value, Sequence):
            hosts = value
        elif name in ("preflight", "hold"):
            words += [f"--no-{name}"] if value is False else []
        elif name == "sync":
            words += [flag] if value is True else [f"{flag}={value}"] if value else []
        elif isinstance(value, tuple | list):
            words += [flag, (":" if name == "nnodes" else ",").join(str(each) for each in value)]
        else:
            words += [flag, str(value)]
    words += hosts
    return [*words, *(["--", os.fspath(script), *args] if script is not None else [])], variables


def _text(option: object) -> str:
    return str(option).lower() if isinstance(option, bool) else str(option)
