"""Python interface: launch, plan and test runs, and find them again. The command line calls the same functions.

    import ddpkit

    run = ddpkit.launch("train.py", ["--epochs", "3"], backend="ssh", hosts=["node1", "node2"], nproc_per_node=4)
    run.state  # RunState.RUNNING
    run.wait(check=True)  # raises RunFailedError with the first failure: host, rank, code, cause, last lines

Settings are keywords with the names of the flags: `nproc_per_node=4` is `--nproc-per-node 4`, `preflight=False` is
`--no-preflight`, `options={"partition": "gpu"}` is `-o partition=gpu`, `env={"DEBUG": "1", "HOME": None}` is
`--env DEBUG=1 --env HOME`. Other settings come from `DDPKIT_*` variables and `ddpkit.toml`, as on the command
line. A wrong setting raises `UsageError`, which names the keyword.

Several programs are one run: `ddpkit.launch(roles={"infer": ddpkit.Role(...), "train": ddpkit.Role(...)})`.

A function in every rank: `losses = ddpkit.call(train, lr=1e-3, nproc_per_node=8)`, and for each item of a sweep
`ddpkit.map(train, rates, gpus=2)`.

ddpkit prints only with `echo=True`, and changes no signal handler. It works in a notebook and in any thread. Several
runs can be active. Runs end with the program. At its normal end each rank gets SIGTERM, and SIGKILL after the grace. If
the program is killed, its supervisors see their standard input close and end the ranks. Jobs of a scheduler continue:
`open_run(...)` finds them, `stop()` cancels them.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ddpkit import config
from ddpkit.errors import DdpkitError, LaunchError, PreflightError, RankError, UsageError, nearest
from ddpkit.execution import prepare
from ddpkit.execution.background import BackgroundRun, Notes
from ddpkit.execution.function import FunctionRun, code_of, name_of, pack
from ddpkit.execution.hold import join as join_hold
from ddpkit.execution.lifecycle import RecordedRun
from ddpkit.execution.requested_nodes import Queries
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import run_module
from ddpkit.preflight.check import Check, CheckReport
from ddpkit.run import control, record, replicas, run_index, state, status
from ddpkit.run import logs as run_logs
from ddpkit.run.record import Attempt, Diagnosis, Failure
from ddpkit.run.state import Phase, RunState

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ddpkit.launchers.host_names import Via
    from ddpkit.roles.spread import Part

__all__ = [
    "Attempt",
    "Check",
    "CheckReport",
    "DdpkitError",
    "Diagnosis",
    "Failure",
    "LaunchError",
    "LogLine",
    "Outcome",
    "Plan",
    "PreflightError",
    "RankError",
    "Replica",
    "Results",
    "Role",
    "Run",
    "RunFailedError",
    "RunState",
    "Status",
    "UsageError",
    "aio",
    "call",
    "launch",
    "map",
    "open_run",
    "plan",
    "runs",
    "test",
]


def _login_host(via: Via, folder: str) -> Any:
    from ddpkit.execution.other_host import of_record

    return of_record(via, folder)


state.connect = state.connect or _login_host


# ---- values


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a run."""

    run_id: str
    state: RunState
    exit_code: int | None  # of the command line (see `ddpkit.errors`); None: not known
    seconds: float | None  # from the start of the ranks, or of the job, to the end; None: not known
    failure: Failure | None  # the first failure: host, rank, code or signal, diagnosis, last_lines
    verdict: str | None  # the failure in one sentence

    @property
    def ok(self) -> bool:
        """Whether all ranks ended with exit code 0."""
        return self.state is RunState.DONE


class RunFailedError(DdpkitError):
    """A run did not succeed: `Run.wait(check=True)`. `outcome` is its end, `exit_code` that of the command line."""

    def __init__(self, outcome: Outcome) -> None:
        failure = outcome.failure
        lines = [f"run {outcome.run_id} {outcome.state}", *(failure.last_lines if failure else ())]
        if outcome.verdict:
            lines[0] += f": {outcome.verdict}"
        super().__init__("\n".join(lines), f"ddpkit explain {outcome.run_id}")
        self.outcome = outcome
        self.exit_code = outcome.exit_code or DdpkitError.exit_code


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a run, and of its ranks."""

    state: RunState
    words: str  # the state for people
    hint: str  # the next command to type; empty: none
    ranks: tuple[status.RankStatus, ...]  # empty where they are not known
    findings: tuple[str, ...]  # one sentence for each rank or host that stands out

    @property
    def living(self) -> bool:
        """Whether the run is running, or waits in a queue."""
        return self.state.living


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line of output. `rank` is None for lines of torchrun, srun and ddpkit, whose name is `agent`."""

    rank: int | None
    agent: str
    host: str
    text: str
    role: str = ""  # the replica, such as infer.1, of a run of roles
    front: str = ""  # what `ddpkit logs` shows before such a line

    def __str__(self) -> str:
        """Show the line as `ddpkit logs` does."""
        source = self.front or f"{self.agent if self.rank is None else self.rank} {self.host}".strip()
        return f"[{source}] {self.text}"


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica of a role, such as infer.1."""

    name: str
    phase: Phase | None  # waiting, starting, ready, done, failed, stopped; None: not known
    words: str  # the phase for people
    restarts: int  # how often it started again
    hosts: tuple[str, ...]  # empty before it has started
    run: Run | None  # its last start, with logs, state, outcome and `stop()`; None: there is none, or none can be read


# ---- roles


class Role:
    """One program of a run, for `launch(roles={"infer": Role(...)})`.

    `command`: a script or a program with its arguments; `{port}` is a port that is free on its node, and `{infer.urls}`
    stands for the addresses of another role. `replicas`: parts that run by themselves, each on its own nodes; a role
    that does not end the run has one on each node. `after`: roles that must be ready first. `ends_run`: the run ends
    when all such roles have ended. `ready`: "tcp", "http:/health" or "line: a regular expression", and `ready_timeout`
    the time for it: "20m". `restart`: how often one replica starts again by itself. `beside`: the role whose nodes it
    shares; `gpus`, `cpus`: how many of each node's. Any setting of a launch can be given, and holds for the role.

        ddpkit.Role("serve.py --port {port}", nnodes=2, ready="http:/health", restart=2)
        ddpkit.Role(["train.py", "--servers", "{infer.urls}"], after=["infer"], ends_run=True, nproc_per_node=8)
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        replicas: int | None = None,
        after: Sequence[str] | None = None,
        ends_run: bool | None = None,
        ready: str | None = None,
        ready_timeout: float | str | None = None,
        restart: int | None = None,
        beside: str | None = None,
        gpus: int | None = None,
        cpus: int | None = None,
        **settings: Unpack[config.LaunchKeywords],
    ) -> None:
        own = {
            "replicas": replicas,
            "after": after,
            "ends_run": ends_run,
            "ready": ready,
            "ready_timeout": ready_timeout,
            "restart": restart,
            "beside": beside,
            "gpus": gpus,
            "cpus": cpus,
        }
        given: dict[str, object] = {"command": command, **own, **settings}
        self.table = {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        return f"ddpkit.Role({', '.join(f'{name}={value!r}' for name, value in self.table.items())})"


# ---- runs


class Run:
    """One run of this program, or one that `open_run` found.

    As a context manager it stops the run at the end of the block, if it is still running:

        with ddpkit.launch("train.py", nproc_per_node=2) as run:
            print(run.wait(timeout=600).ok)
    """

    def __init__(self, entry: record.Run, background: BackgroundRun | None = None) -> None:
        self._entry = entry
        self._background = background

    @property
    def _thread(self) -> BackgroundRun | None:
        """The thread that carries out the run. None: another process does, perhaps the one that forked this."""
        background = self._background
        return background if background is not None and background.in_this_process else None

    @property
    def _record(self) -> record.Run:
        if self._thread is not None:
            return self._thread.record
        self._entry = run_index.reload(self._entry)
        return self._entry

    @property
    def run_id(self) -> str:
        """The name of the run, as `ddpkit ps` lists it."""
        return self._entry.run_id

    @property
    def folder(self) -> Path:
        """The absolute directory of its logs and its record."""
        return Path(self._entry.folder)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its nodes; a scheduler's job has its backend's."""
        return self._entry.hosts

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Its attempts, of a run with `retries`: hosts, failure, and the decision after each that ended."""
        return self._record.attempts

    @property
    def world_size(self) -> int:
        """The number of its ranks."""
        return self._entry.world_size

    @property
    def command(self) -> tuple[str, ...]:
        """The script and its arguments."""
        return self._entry.command

    @property
    def roles(self) -> dict[str, tuple[Replica, ...]]:
        """The replicas of each role, as they are now: `run.roles["infer"][1].phase`. Empty for a run without roles."""
        now = status.get_status(self._record)
        found: dict[str, tuple[Replica, ...]] = {}
        for each in replicas.replicas_of(now.run):
            last = each.starts[-1] if each.starts and not each.problem else None
            replica = Replica(
                name=each.name,
                phase=each.state.phase if each.state else None,
                words=replicas.words_of(each, now.state),
                restarts=each.state.restarts if each.state else 0,
                hosts=last.hosts if last else (),
                run=Run(last) if last else None,
            )
            found[each.role] = (*found.get(each.role, ()), replica)
        return found

    @property
    def job_id(self) -> str | None:
        """The id of its scheduler's job; None: no scheduler runs it."""
        return self._entry.job_id

    def __repr__(self) -> str:
        return f"<ddpkit.Run {self.run_id}: {self._record.state}>"

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        forked = self._background is not None and self._thread is None  # the run is the parent's
        if not forked and self.status().living:
            self.stop()

    @property
    def state(self) -> RunState:
        """Its state now. For a job, this queries the scheduler."""
        return status.get_status(self._record).state

    @property
    def outcome(self) -> Outcome | None:
        """The end of the run; None while it lives, or where this host cannot see its end."""
        now = status.get_status(self._record)
        return _outcome(now.run, now.state) if now.state.ended or now.state is RunState.LOST else None

    def wait(self, timeout: float | None = None, *, check: bool = False) -> Outcome:
        """Wait for the end of the run.

        `timeout`: seconds; None: no limit. Raises TimeoutError after it, and the run continues. The run also
        continues after KeyboardInterrupt, for example from the stop button of a notebook. `check`: raise
        RunFailedError unless all ranks ended with exit code 0.
        """
        outcome = self._wait(timeout)
        if check and not outcome.ok:
            raise RunFailedError(outcome)
        return outcome

    def _wait(self, timeout: float | None) -> Outcome:
        if self._thread is not None:
            if not self._thread.wait(timeout):
                raise TimeoutError(f"run {self.run_id} has not ended in {timeout:g} s")
            return _outcome(self._record, self._record.state)
        until = None if timeout is None else time.monotonic() + timeout
        liveness = control.Liveness(self._entry)
        while liveness.goes_on():
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"run {self.run_id} has not ended in {timeout:g} s")
            time.sleep(0.1)
        now = status.get_status(self._record)
        return _outcome(now.run, now.state)

    def status(self) -> Status:
        """Check the run and its ranks once. For a job, this queries the scheduler."""
        now = status.get_status(self._record)
        sample = status.read_ranks(now.run) if now.state in (RunState.RUNNING, RunState.ELSEWHERE) else None
        return Status(
            state=now.state,
            words=now.words,
            hint=now.hint,
            ranks=sample.ranks if sample else (),
            findings=tuple(status.describe_oddities(now, sample)) if sample else (),
        )

    def logs(
        self,
        *,
        role: str | None = None,
        rank: int | str | None = None,
        host: str | None = None,
        grep: str | None = None,
        lines: int | str | None = None,
        follow: bool = False,
        attempt: int | None = None,
    ) -> Iterator[LogLine]:
        """Read the lines that the run printed, in the order of their arrival.

        `role`: of a run of roles, "infer" or "infer.1".
        `rank`: 3, or "0,2" or "4-7". `grep`: a regular expression. `lines`: begin with the last so many. `follow`: also
        yield what comes, until the run ends. `attempt`: from 1; None: the last one. Raises UsageError.

            for line in run.logs(rank=0, follow=True):
                print(line.text)
        """
        entry = self._record if attempt is None else run_logs.choose_attempt(self._record, attempt)
        choice = run_logs.parse_filter(entry, None if rank is None else str(rank), host, grep)
        if role is not None:
            choice = replace(choice, replicas=frozenset(each.name for each in replicas.choose(entry, role)))
        number = None if lines is None else config.whole(lines, "-n ")
        return self._lines(entry, choice, number, self._going_on(entry) if follow else None)

    def _going_on(self, entry: record.Run) -> Callable[[], bool]:
        thread = self._thread
        return control.Liveness(entry).goes_on if thread is None else lambda: not thread.ended

    def _lines(
        self, entry: record.Run, choice: run_logs.LineFilter, number: int | None, going_on: Callable[[], bool] | None
    ) -> Iterator[LogLine]:
        for line in run_logs.read_lines(entry, choice, going_on, number):
            rank = int(line.source) if line.source.isdecimal() else None
            agent = "" if rank is not None else line.source or "ddpkit"
            text = line.text.decode("utf-8", "replace")
            yield LogLine(rank=rank, agent=agent, host=line.host, text=text, role=line.replica, front=line.front)

    def stop(self, *, now: bool = False) -> Outcome:
        """End the run, and wait for its end. Ranks get SIGTERM, and SIGKILL after the grace; with `now` only SIGKILL.

        A submitted job is cancelled. A run that has ended stays as it is. Raises UsageError for a run that cannot be
        reached from here, LaunchError for a scheduler that refuses, DdpkitError for a run that does not end in time.
        """
        if self._thread is None:
            end = control.stop(self._record, at_once=now)
            return _outcome(end.run, end.state)
        self._thread.stop(at_once=now)
        margin = control.JOB_MARGIN if self.job_id else control.MARGIN
        limit = margin + (0.0 if now else self._entry.grace)
        try:
            return self._wait(limit)
        except TimeoutError:
            hint = status.command("stop --now", self._entry)
            raise DdpkitError(f"run {self.run_id} has not ended in {limit:g} s", hint) from None


def _outcome(entry: record.Run, state: RunState) -> Outcome:
    return Outcome(
        run_id=entry.run_id,
        state=state,
        exit_code=entry.exit_code,
        seconds=entry.ended - entry.started if entry.ended is not None else None,
        failure=entry.failure,
        verdict=entry.verdict,
    )


# ---- functions

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Item = TypeVar("_Item")
_FLAG = re.compile(r"(?<![\w-])(-[nNbo]|--[a-z][a-z-]*)(?:[ =]([^\s,;-][^\s,;]*))?")
_CALLS = ("detach", "full", "on", "profile", "quick", "ranks", "survey", "timeout")  # their own parameters
_NAMES = {flag: name for name, each in config.SETTINGS.items() for flag in each.spellings}


def _names_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let errors name keywords instead of flags."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return function(*args, **kwargs)
        except DdpkitError as error:
            error.rephrase(message_in_keywords(error.message), error.hint and hint_in_keywords(error.hint))
            raise

    return call


def _lists_settings(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let the signature, which a notebook shows, list the settings. Keywords of another function stay behind them."""
    signature = inspect.signature(function)
    *own, others = signature.parameters.values()
    settings = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in config.LaunchKeywords.__annotations__.items()
    ]

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return function(*args, **kwargs)

    parameters = [*own, *settings, *([others] if others.name == "keywords" else [])]
    vars(call)["__signature__"] = signature.replace(parameters=parameters)
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__annotations__["return"] = signature.return_annotation
    return call


def _takes_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let errors name keywords instead of flags, and the signature list the settings."""
    return _lists_settings(_names_keywords(function))


def message_in_keywords(text: str) -> str:
    """Name keywords in a message: `--retries has no effect` is `retries has no effect`."""
    text = re.sub(r"(?<![\w-])-o (?=\w+=)", "options: ", text)
    parts = re.split(r"""('[^']*'|"[^"]*")""", text)  # what is in quotes was typed by the user
    parts[::2] = [re.sub(r"(?<![\w-])(-[nNb]|--[a-z][a-z-]*)(?![\w-])", _as_keyword, part) for part in parts[::2]]
    return "".join(parts)


def _as_keyword(flag: re.Match[str]) -> str:
    name = _name(flag[1])
    return name if _is_known(name) else flag[0]


def hint_in_keywords(hint: str) -> str:
    """Write a hint in Python: `add --spares 1` is `add spares=1`. A command of the shell stays as it is."""
    words = hint.removeprefix("add ")
    if not words.startswith(("-", "HOST")):
        return hint
    hosts = re.search(r"(?:(?:^| )HOST)+$", words)
    shown = [_FLAG.sub(_argument, words[: hosts.start()] if hosts else words)]
    if hosts:
        shown.append(f"hosts={json.dumps(hosts[0].split())}")
    return ("add " if words != hint else "") + ", ".join(filter(None, shown))


def _argument(match: re.Match[str]) -> str:
    flag, text = match.groups()
    name, no = _name(flag.replace("--no-", "--")), flag.startswith("--no-")
    key, equals, inner = (text or "").partition("=")
    if flag in ("-o", "--env") and equals:
        return f"{name}={json.dumps({key: inner})}"
    value = str(not no) if text is None else text if re.fullmatch(r"[\d.]+", text) else json.dumps(text)
    return f"{name}={value}" if _is_known(name) else f'options={{"{name}": {value}}}'


def _is_known(name: str) -> bool:
    return name in config.LaunchKeywords.__annotations__ or name in _CALLS


def _name(flag: str) -> str:
    return _NAMES.get(flag) or flag.lstrip("-").replace("-", "_")


@_takes_keywords
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
    chosen = _with_roles(_settings(script, args, profile, settings), roles)
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
            of_roles = RolesRun(prepared, began=began, in_program=True)
            return Run(of_roles.record, BackgroundRun(of_roles, chosen, connections.pop_all(), echo=echo))
        chosen = join_hold(chosen, notes.add)
        ready = connections.enter_context(prepare.prepare(chosen, os.environ, notes.add, notes.add_copy))
        if detach and ready.plan.batch is None:
            return _launch_detached(script, args, profile, on, settings, chosen)
        allocation = prepare.unused_allocation(chosen, os.environ)
        if allocation:
            notes.add(allocation)
        log_dir = str(Path(chosen.log_dir).absolute())  # the program may change its folder
        check = functools.partial(_find_faults, chosen)
        run = RecordedRun(ready, log_dir, began=began, notes=notes.texts, leave=detach, in_program=True, check=check)
        if not run.followed:
            if ready.left:
                notes.add(ready.left)
            return Run(run.record)
        return Run(run.record, BackgroundRun(run, chosen, connections.pop_all(), echo=echo))


def _find_faults(chosen: config.LaunchSettings, hosts: Sequence[str], folder: Path) -> Mapping[str, str]:
    from ddpkit.preflight.run import find_faults

    return find_faults(chosen, os.environ, hosts, folder)


@_takes_keywords
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
    chosen = _settings(script, args, profile, settings)
    if chosen.has_roles:
        raise UsageError("the roles of a run have a plan each", "ddpkit launch --dry-run")
    allowed = Queries.SURVEY if survey else Queries.TYPED
    with prepare.prepare(chosen, os.environ, Notes(echo).add, queries=allowed) as ready:
        return ready.plan


@_takes_keywords
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

    chosen = _settings(None, (), profile, settings)
    options = run.parse_options(quick=quick, full=full, ranks=ranks, timeout=timeout, note=Notes(echo).add)
    return run.run_preflight(chosen, os.environ, options)


# ---- functions of the caller


@_lists_settings
def call(
    function: Callable[..., _T],
    /,
    *args: Any,
    trust: str = "",
    profile: str | None = None,
    echo: bool = False,
    **keywords: Any,
) -> list[_T]:
    """Call a function in every rank of a launch, wait for its end, and return the value of each rank, by rank.

    The function runs where a script would: the environment of the rank is set, and nothing is initialised. Keywords
    with the name of a setting (`nproc_per_node`, `hosts`, `backend`, ...) are the launch's, all others the function's.
    A name that both have is an error: bind the function's with `functools.partial`.

    Values are None, bool, numbers, text, bytes, lists, tuples, sets, dicts, NumPy arrays and torch tensors, of at most
    16 MiB a rank. `trust="pickle"` allows any type: then the nodes can execute code here.

    Raises RankError for the first rank that fails, with its host, rank, traceback and verdict; RunFailedError where no
    rank is the cause; UsageError, PreflightError or LaunchError where nothing was started. KeyboardInterrupt ends the
    ranks. Output of the ranks is in the run's logs; `echo` prints it.

        losses = ddpkit.call(train, lr=1e-3, nproc_per_node=8)
    """
    started = _begin_call(function, args, keywords, trust, profile, echo=echo)
    try:
        return started.result()
    except BaseException:
        started.stop()
        raise


class _Call:
    """A call that runs."""

    def __init__(self, run: Run, of_function: FunctionRun, *, trust: bool) -> None:
        self.run, self._of_function, self._trust = run, of_function, trust

    def result(self) -> list[Any]:
        """Wait for the end, and return the value of each rank. Raises RankError, RunFailedError."""
        outcome = self.run.wait()
        if outcome.failure is not None and outcome.failure.rank is not None:
            raise self._of_function.failure(outcome.failure, outcome.verdict or "")
        if not outcome.ok:
            raise RunFailedError(outcome)
        return self._of_function.results(trust=self._trust)

    def stop(self) -> None:
        """End the ranks, unless they have ended."""
        with suppress(DdpkitError):
            if self.run.state.living:
                self.run.stop()


class aio:  # noqa: N801  (a namespace, as a module)
    """`call` and `map` for asyncio. A cancelled task ends its ranks.

    losses = await ddpkit.aio.call(train, lr=1e-3, nproc_per_node=8)
    async for losses in ddpkit.aio.map(train, rates, gpus=2):
        print(losses)
    """

    @staticmethod
    async def call(function: Callable[..., _T], /, *args: Any, **keywords: Any) -> list[_T]:
        """Call a function in every rank, as `ddpkit.call`."""
        options = {name: keywords.pop(name, default) for name, default in _OPTIONS.items()}
        started = await _begun(lambda: _begin_call(function, args, keywords, **options), _Call.stop)
        try:
            return await _in_thread(started.result)
        except BaseException:
            await _in_thread(started.stop)
            raise

    @staticmethod
    async def map(
        function: Callable[[_Item], _T], items: Iterable[_Item], /, **keywords: Any
    ) -> AsyncIterator[list[_T]]:
        """Call a function for each item, as `ddpkit.map`."""
        import asyncio

        results = await _begun(lambda: map(function, items, **keywords), Results.close)
        try:
            for future in results.futures:
                try:
                    yield await asyncio.wrap_future(future)
                except RankError as error:
                    if not results.return_exceptions:
                        raise
                    yield error  # type: ignore[misc]
        finally:
            await _in_thread(results.close)


_OPTIONS: Mapping[str, Any] = {"trust": "", "profile": None, "echo": False}  # of `call`


async def _begun(begin: Callable[[], _T], end: Callable[[_T], None]) -> _T:
    """Begin something in a thread. A task that is cancelled meanwhile waits until it has begun, and ends it."""
    import asyncio

    begun = asyncio.ensure_future(_in_thread(begin))
    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        with suppress(Exception):
            started = await begun
            await _in_thread(lambda: end(started))
        raise


async def _in_thread(function: Callable[[], _T]) -> _T:
    """Call a function in a thread of its own: many calls at the same time wait for none of asyncio's few threads."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(value) if error is None else future.set_exception(error)

    def work() -> None:
        value, failed = None, None
        try:
            value = function()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, failed)

    threading.Thread(target=work, name="ddpkit aio", daemon=True).start()
    return await future


class Results(Iterator[Any]):
    """The results of `ddpkit.map`, in the order of the items: for each what `ddpkit.call` returns.

    As with `concurrent.futures`, an item that failed raises when its result is reached, and the others go on: the next
    one can be asked for. `futures` has each item's `concurrent.futures.Future`. At the end of a `with` block, or by
    `close()`, items that run are ended, and no other starts.
    """

    def __init__(
        self, begin: Callable[[int, Part], _Call], number: int, held: ExitStack, parts: Sequence[Part]
    ) -> None:
        self.futures: list[Future[list[Any]]] = [Future() for _ in range(number)]
        self.return_exceptions = False
        self._begin, self._held = begin, held
        self._waiting, self._next = iter(range(number)), 0
        self._running: set[_Call] = set()
        self._lock, self._closed = threading.Lock(), False
        self._threads = [
            threading.Thread(target=self._work, args=(part,), name=f"ddpkit map {n}", daemon=True)
            for n, part in enumerate(parts[: max(1, number)])
        ]
        self._working = len(self._threads)
        for thread in self._threads:
            thread.start()

    def _work(self, part: Part) -> None:
        """Carry out one item after the other on a part of a node."""
        while True:
            with self._lock:
                index = None if self._closed else next(self._waiting, None)
            if index is None:
                break
            if self.futures[index].set_running_or_notify_cancel():
                self._carry_out(index, part)
        with self._lock:
            self._working -= 1
            last = self._working == 0
        if last:
            self._held.close()

    def _carry_out(self, index: int, part: Part) -> None:
        try:
            started = self._begin(index, part)
        except BaseException as error:
            self.futures[index].set_exception(error)
            return
        try:
            with self._lock:
                self._running.add(started)
                closed = self._closed
            if closed:
                started.stop()
            value = started.result()
        except BaseException as error:  # for the one who reads the result
            self.futures[index].set_exception(error)
        else:
            self.futures[index].set_result(value)
        finally:
            with self._lock:
                self._running.discard(started)

    def __next__(self) -> Any:
        if self._next >= len(self.futures):
            raise StopIteration
        future, self._next = self.futures[self._next], self._next + 1
        try:
            return future.result()
        except DdpkitError as error:
            if self.return_exceptions:
                return error
            raise
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the items that run, and start no other."""
        with self._lock:
            self._closed, running = True, [*self._running]
        for future in self.futures:
            future.cancel()
        for each in running:
            each.stop()
        for thread in self._threads:
            thread.join()


@_lists_settings
def map(  # noqa: A001  (as `concurrent.futures`)
    function: Callable[[_Item], _T],
    items: Iterable[_Item],
    /,
    *,
    gpus: int | None = None,
    at_once: int | None = None,
    return_exceptions: bool = False,
    trust: str = "",
    profile: str | None = None,
    echo: bool = False,
    **settings: Unpack[config.LaunchKeywords],
) -> Results:
    """Call a function for each item, many at the same time, each in a launch of its own on a part of a node.

    `gpus`: of each item; the nodes are packed with as many items as they have GPUs for. None: 1 where there are GPUs.
    Without GPUs an item gets as many CPUs as it has ranks. `nproc_per_node`: ranks of each item, usually one for each
    of its GPUs. `at_once`: the most items at the same time. Other keywords are those of `call`.

    Returns an iterator over what `call` returns for each item, in their order; it does not wait. An item that fails
    raises RankError when its result is reached, and stops no other; with `return_exceptions` the error is its result.
    Use `functools.partial` for a function with more arguments.

        for rate, losses in zip(rates, ddpkit.map(train, rates, gpus=2)):
            print(rate, losses)
    """
    results = _begin_map(
        function, [*items], settings, profile=profile, gpus=gpus, at_once=at_once, trust=trust, echo=echo
    )
    results.return_exceptions = return_exceptions
    return results


@_names_keywords
def _begin_map(
    function: Callable[..., object],
    items: Sequence[object],
    given: config.LaunchKeywords,
    *,
    profile: str | None,
    gpus: int | None,
    at_once: int | None,
    trust: str,
    echo: bool,
) -> Results:
    from ddpkit.roles.spread import settings_of, spread

    if at_once is not None:
        config.whole(at_once, "at_once=")
    chosen = _of_function(_settings("-c", ["pass"], profile, given), function, b"")
    packed = [pack(function, (item,), {}, trust=trust, workdir=chosen.workdir) for item in items]
    environ = dict(os.environ)
    with ExitStack() as stack:
        over = stack.enter_context(spread(chosen, environ, gpus, Notes(echo).add))

        @_names_keywords
        def begin(index: int, part: Part) -> _Call:
            own = replace(settings_of(part, chosen, over.environ), function=packed[index])
            return _start_call(own, over.environ, trust=trust, echo=echo, index=index)

        return Results(begin, len(items), stack.pop_all(), over.parts[:at_once])


@_names_keywords
def _begin_call(
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    trust: str,
    profile: str | None,
    *,
    echo: bool,
) -> _Call:
    options = [name for name, value in (("trust", trust), ("profile", profile), ("echo", echo)) if value]
    given = _split_keywords(function, args, keywords, options)
    chosen = _settings("-c", ["pass"], profile, cast("config.LaunchKeywords", given))
    own = {name: value for name, value in keywords.items() if name not in given}
    packed = pack(function, args, own, trust=trust, workdir=chosen.workdir)
    return _start_call(_of_function(chosen, function, packed), os.environ, trust=trust, echo=echo)


def _split_keywords(
    function: Callable[..., object],
    args: tuple[object, ...],
    keywords: Mapping[str, object],
    options: Sequence[str] = (),
) -> dict[str, object]:
    """Return the keywords that are settings. Raises UsageError for what the function does not take, or both do.

    `options`: parameters of `call` itself that are given.
    """
    if not callable(function):
        raise UsageError(f"{function!r} is not a function", "ddpkit.call(train, lr=1e-3, nproc_per_node=8)")
    given = {name: value for name, value in keywords.items() if name in config.LaunchKeywords.__annotations__}
    own = {name: value for name, value in keywords.items() if name not in given}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a built-in
        return given
    name = name_of(function)
    bound = getattr(function, "keywords", {})  # of a partial
    for each in (*given, *options):
        if each in signature.parameters and each not in bound:
            what = f"{each} is a setting of the launch and a parameter of {name}"
            raise UsageError(what, f"functools.partial({name}, {each}=...), and {each}=... again for the launch")
    try:
        signature.bind(*args, **own)
    except TypeError as error:
        known = [*config.LaunchKeywords.__annotations__, *signature.parameters]
        hints = (nearest(each, known) for each in own if each not in signature.parameters)
        raise UsageError(f"{name}{signature}: {error}", next(filter(None, hints), None)) from None
    return given


def _of_function(
    chosen: config.LaunchSettings, function: Callable[..., object], packed: bytes
) -> config.LaunchSettings:
    """Return the settings of a launch of a function."""
    name = chosen.name or record.usable_name(name_of(function))
    return replace(chosen, script=("-c", code_of(chosen.log_dir)), name=name, function=packed)


def _start_call(
    chosen: config.LaunchSettings, environ: Mapping[str, str], *, trust: str, echo: bool, index: int | None = None
) -> _Call:
    began, notes = time.time(), Notes(echo)
    if index is None:  # the items of a map have their own parts of nodes
        chosen = join_hold(chosen, notes.add)
    with ExitStack() as connections:
        ready = connections.enter_context(prepare.prepare(chosen, environ, notes.add, notes.add_copy))
        shown = ("ddpkit.call", chosen.name) if index is None else ("ddpkit.map", chosen.name, str(index))
        ready = replace(ready, job=replace(ready.job, command=shown))
        log_dir = str(Path(chosen.log_dir).absolute())
        run = FunctionRun(ready, log_dir, began=began, notes=notes.texts, in_program=True)
        started = Run(run.record, BackgroundRun(run, chosen, connections.pop_all(), echo=echo))
        return _Call(started, run, trust=trust == "pickle")


def runs() -> list[Run]:
    """List the runs of this user whose records can be read here, the newest first, as `ddpkit ps --all` does."""
    return [Run(entry.run) for entry in run_index.list_runs() if entry.run is not None]


def open_run(word: str | os.PathLike[str] | None = None) -> Run:
    """Find a run by its id, a unique prefix or suffix of it, or its directory.

    None: the newest running run of this project, else its newest. Raises UsageError if no run or several match.

        ddpkit.open_run("3fa9").stop()
    """
    return Run(status.choose(None if word is None else os.fspath(word), 'ddpkit.open_run("{}")'))


# ---- settings


def _settings(
    script: str | os.PathLike[str] | None, args: Sequence[str], profile: str | None, given: config.LaunchKeywords
) -> config.LaunchSettings:
    """Combine keywords with the environment and the file of the project. Raises UsageError."""
    for name in given:
        if name not in config.LaunchKeywords.__annotations__:
            known = f"settings: {', '.join(config.LaunchKeywords.__annotations__)}"
            raise UsageError(f"unknown setting {name!r}", nearest(name, config.LaunchKeywords.__annotations__) or known)
    keywords: config.Keywords = {**given, "script": _script_words(script, args)}
    keywords["hosts"] = given.get("hosts") or None
    chosen = config.collect_settings(config.current_folder(), os.environ, profile, keywords, source="keyword")
    return config.choose_python(chosen, os.environ)


def _with_roles(chosen: config.LaunchSettings, roles: Mapping[str, Role] | None) -> config.LaunchSettings:
    """Return settings with the roles of the caller, if any. Raises UsageError."""
    if roles is None:
        return chosen
    example = 'ddpkit.launch(roles={"train": ddpkit.Role("train.py", ends_run=True)})'
    if not isinstance(roles, Mapping) or not all(isinstance(name, str) for name in roles):
        raise UsageError(f"roles={roles!r} is not a dict of roles by their names", example)
    for name, role in roles.items():
        if not isinstance(role, Role):
            raise UsageError(f"roles: {name} is {role!r}, and not a ddpkit.Role", example)
    return replace(chosen, roles={name: role.table for name, role in roles.items()}, roles_from="launch()")


def _script_words(script: object, args: object) -> list[str] | None:
    """Check a script and its arguments, which may be anything in a program. None: neither is given."""
    example = 'ddpkit.launch("train.py", ["--epochs", "3"])'
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise UsageError(f"args={args!r} is no list of words", example)
    if script is None:
        if args:
            raise UsageError("arguments were given, and no script", 'ddpkit.launch("train.py", [...])')
        return None
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in (script, *args)]
    if not isinstance(words[0], str):
        raise UsageError(f"script={script!r} is not the name of a program", example)
    for word in words[1:]:
        if not isinstance(word, str):
            raise UsageError(f"args: {word!r} is not text", f"{str(word)!r}")
    return words


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
        env={**os.environ, **env},
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
    in_file = {
        name: values.pop(name) for name in [*values] if name in config.SETTINGS and not config.SETTINGS[name].flag
    }
    in_file |= {} if roles is None else {"roles": roles}
    words += ["--settings-as-json", json.dumps(in_file, default=str)] if in_file else []
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
