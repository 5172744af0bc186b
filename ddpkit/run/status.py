"""Status of a run, from its record, its launcher's process, or the scheduler of its job."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ddpkit.errors import UsageError
from ddpkit.files import read_bounded
from ddpkit.launchers import typed_json
from ddpkit.launchers.shell import count
from ddpkit.run import launcher_process, run_index
from ddpkit.run.record import RecordedJob, Run
from ddpkit.run.run_index import IndexEntry, KnownEnd
from ddpkit.run.state import Origin, RunState, describe_stall
from ddpkit.text import format_age, format_ranks, one_line

if TYPE_CHECKING:  # `ddpkit ps` needs none of them
    from ddpkit.run.job_status import JobStatus
    from ddpkit.run.timeline import StatusFile


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """`words` are the state for people."""

    state: RunState
    words: str
    hint: str = ""
    run: Run  # the record as it is now

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", one_line(self.words))  # they can quote the record


def command(verb: str, run: Run) -> str:
    """Return a command on this run that works on every host that sees its folder."""
    there = os.path.lexists(run.folder) and not launcher_process.place_problem(run)
    return f"ddpkit {verb} {shlex.quote(run.folder) if there else run.run_id}"


def command_there(verb: str, run: Run, *, terminal: bool = False) -> str:
    """Return a command on a run that is elsewhere, and where to type it; empty where the index does not have it.

    Whoever wrote such a record named the host and the program.

    `terminal`: it needs one.
    """
    if run.origin is not Origin.INDEX:
        return ""
    shown = command(verb, run)
    if run.launcher_host != os.uname().nodename:
        remote = f"{shlex.quote(run.launcher_python)} -m {shown}" if run.launcher_python else shown
        return f"ssh {'-t ' if terminal else ''}{shlex.quote(run.launcher_host)} {shlex.quote(remote)}"
    # ssh to this host would lead here.
    if run.job is not None:
        from ddpkit.launchers.registry import scheduler_of

        program = scheduler_of(run.backend).state_of(run.job_id or "")[0]
        return one_line(f"where {program} asks {run.job.controller or run.job.cluster}: {shown}")
    boot, _, namespace_of_launcher = run.launcher_boot.partition(" ")  # see `boot_id`
    namespace = re.fullmatch(r"pid:\[(\d+)\]", namespace_of_launcher)
    if boot == launcher_process.boot_id().partition(" ")[0] and namespace:
        return f"lsns {namespace[1]}, and in that container: {shown}"
    return f"on that machine: {shown}"


def get_status(run: Run) -> RunStatus:
    """Return the status of a run. Asks the scheduler for a job that is not known to have ended."""
    if run.state.ended:
        return _ended(run)
    if run.job is not None:
        return _job_status(run, run.job)
    if not launcher_process.is_local(run):
        return _elsewhere(run)
    if launcher_process.is_alive(run):
        return _alive(run)
    fresh = run_index.reload(run)  # it may have ended in between
    if fresh.state.ended:
        return _ended(fresh)
    if not os.path.lexists(run.folder):
        return RunStatus(
            state=RunState.OVER, words="has ended; its exit code is unknown, because its directory was deleted", run=run
        )
    return RunStatus(
        state=RunState.LOST,
        words=f"lost: its launcher (process {run.launcher_pid} on {run.launcher_host}) ended without a record, "
        "was probably killed, and its ranks ended with it",
        hint=command("logs", run),
        run=run,
    )


def _elsewhere(run: Run) -> RunStatus:
    """Say where the launcher of a run is, whose process this host cannot see."""
    if run.launcher_host != os.uname().nodename:
        words = f"on {run.launcher_host}, and not visible from here"
        return RunStatus(state=RunState.ELSEWHERE, words=words, hint=command_there("status", run), run=run)
    where = "in another process namespace (a container)"
    if run.launcher_boot.partition(" ")[0] != launcher_process.boot_id().partition(" ")[0]:
        where = "on another machine with this name, or this one has just been restarted"
    return RunStatus(
        state=RunState.ELSEWHERE,
        words=f"not visible from here: its launcher runs {where}",
        hint=command_there("status", run),
        run=run,
    )


def _alive(run: Run) -> RunStatus:
    words, hint = f"runs for {format_age(time.time() - run.started)}", ""
    if launcher_process.process_state(run.launcher_pid) in ("T", "t"):
        words += "; its launcher is stopped (SIGSTOP), and does not watch its ranks"
        hint = "" if run.origin is not Origin.INDEX else f"kill -CONT {run.launcher_pid}"
    if problem := launcher_process.place_problem(run):
        words += f"; {problem}"
    return RunStatus(state=RunState.RUNNING, words=words, hint=hint, run=run)


def _ended(run: Run) -> RunStatus:
    length = run.duration
    if run.state is RunState.FAILED:
        words = f"failed: {run.verdict or f'exit code {run.exit_code}'}"
    elif run.state is RunState.STOPPED:
        words = f"stopped{length and f' (it ran for {length})'}" + (f": {run.verdict}" if run.verdict else "")
    elif run.state is RunState.OVER:
        words = run.verdict or "has ended"
    else:
        words = f"done{length and f' after {length}'}"
    return RunStatus(state=run.state, words=words, run=run)


def _job_status(run: Run, job: RecordedJob) -> RunStatus:
    """Ask the scheduler for the job of a run, unless others can change the record, and keep its end."""
    if run.origin is Origin.OTHERS:
        words = f"job {run.job_id}: its record {run_index.whose(run)}; ddpkit asks no scheduler for it"
        return RunStatus(state=RunState.UNKNOWN, words=words, run=run)
    from ddpkit.run.job_status import get_job_status

    now = get_job_status(run, job)
    if now.state.ended:
        return _ended(_keep_end(run, now))
    hint = command_there("status", run) if now.ask_there else now.hint
    on_launch_host = run.launcher_host == os.uname().nodename  # else its folder may be on a disk of another host
    gone = now.state.living and on_launch_host and not os.path.lexists(run.folder)
    words = now.words + ("; its directory was deleted, with its logs" if gone else "")
    return RunStatus(state=now.state, words=words, hint=hint, run=run)


def _keep_end(run: Run, job: JobStatus) -> Run:
    """Keep how a job ended: the scheduler soon forgets. A launcher that follows it writes the record itself."""
    following = run.state is RunState.RUNNING and (not launcher_process.is_local(run) or launcher_process.is_alive(run))
    fresh = run_index.reload(run)
    if fresh.state.ended:
        return fresh
    end = {"state": job.state, "exit_code": job.exit_code, "verdict": job.words or None, "failure": job.failure}
    if not following and run.origin is Origin.INDEX:
        run_index.keep_end(run, KnownEnd(**end))  # type: ignore[arg-type]
    return replace(fresh, **end, ended=None)  # type: ignore[arg-type]


# ---- which run


def get_statuses(runs: Sequence[Run]) -> list[RunStatus]:
    """Return the status of each run; schedulers are asked in parallel."""
    if not any(run.job for run in runs):
        return list(map(get_status, runs))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(get_status, runs))


def choose(
    word: str | None,
    command: str,
    *,
    acts: bool = False,
    newest: bool = False,
    near: list[IndexEntry] | None = None,
) -> Run:
    """Return the run that a word names; without one the newest of this project, first among those that run.

    Never a run of another project without its id. `acts`: the command changes the run. It is then none of a project
    above, and none of several that run. `newest`: choose the newest, also where an older one runs. `near`: what
    `runs_near` has returned. `command`: what the user can type instead, with `{}` for the run. Raises UsageError.
    """
    project = current_project()
    if word is not None:
        known = run_index.list_runs([word] if word else ())
        if acts:
            return run_index.find_target(word, known, project, command, by_name=True)
        return run_index.find_run(word, known, command)
    known = runs_near(acts=acts) if near is None else near
    mine = runs_of_project(known, acts=acts)
    not_ended = [entry for entry in mine if entry.run and not entry.run.state.ended]
    living = _living(not_ended, every=acts)
    if acts and len(living) > 1:
        raise run_index.several_runs(f"{len(living)} runs of this project are running", living, known, command)
    for entry in (*([] if newest else living), *mine):
        if entry.run is not None:
            return entry.run
    known = run_index.list_runs()
    others = [entry for entry in known if entry.run is not None]  # all of other projects: `mine` is empty
    if not others:
        raise run_index.explain_missing("no run found", known, "ddpkit launch -- SCRIPT")
    running = _living([entry for entry in others if entry.run and not entry.run.state.ended])
    if acts and not running:
        raise UsageError("no run is running, in this project or in another", "ddpkit ps")
    others = running or others
    where = f"this project ({project})" if project else "the current directory, which was deleted,"
    raise run_index.several_runs(f"no run of {where} found; runs of other projects", others, known, command, whole=acts)


def runs_near(*, acts: bool = False) -> list[IndexEntry]:
    """Return all runs, of which only those are read that can be `runs_of_project`."""
    return run_index.list_runs([str(directory) for directory in _directories(acts=acts)])


def _directories(*, acts: bool) -> list[Path]:
    project = current_project()
    return [] if project is None else [project] if acts else [*run_index.project_and_above(project)]


def runs_of_project(known: Sequence[IndexEntry], *, acts: bool = False) -> list[IndexEntry]:
    """Return the runs of the project of the current directory; without any, of a directory above it.

    `acts`: a command changes them; then none above.
    """
    for directory in _directories(acts=acts):
        mine = [entry for entry in known if entry.run is not None and run_index.project_of(entry.run) == directory]
        if mine:  # a hold runs for days beside the launches, and is meant where it is named, or alone
            return [entry for entry in mine if entry.run and entry.run.hold is None] or mine
    return []


def started_here(known: Sequence[IndexEntry]) -> list[IndexEntry]:
    """Return the runs of this project that were started in the current directory or below it.

    What acts on all runs never climbs to a directory above, not even to the project's own.
    """
    project, mine = current_project(), runs_of_project(known, acts=True)
    folder = Path.cwd().resolve() if mine else None
    if folder is None or folder == project:
        return mine
    return [entry for entry in mine if entry.run and Path(entry.run.workdir).expanduser().is_relative_to(folder)]


def living_here() -> list[Run]:
    """Return the runs that were started here, see `started_here`, and have not ended, as far as is known."""
    mine = started_here(runs_near(acts=True))
    runs = [entry.run for entry in mine if entry.run and not entry.run.state.ended]
    states = zip(runs, get_statuses(runs), strict=True)
    return [run for run, now in states if now.state.living_or_unknown]


def current_project() -> Path | None:
    """Return the project of the current directory."""
    try:
        return run_index.find_project(Path.cwd())
    except FileNotFoundError:  # somebody removed the current directory
        return None


def _living(entries: Sequence[IndexEntry], *, every: bool = True) -> list[IndexEntry]:
    """Return the entries whose runs are running or queued; without `every` only the first."""
    if not every:
        first = next((entry for entry in entries if entry.run and get_status(entry.run).state.living), None)
        return [first] if first else []
    states = get_statuses([entry.run for entry in entries if entry.run])
    return [entry for entry, now in zip(entries, states, strict=True) if now.state.living]


def problems(known: Sequence[IndexEntry], *, everything: bool = False) -> list[str]:
    """Return lines about the runs of this user that cannot be read here.

    One line stands for all whose directory is missing; with `everything` each has its own, also a removed one.
    """
    unread = [entry for entry in known if entry.run is None and (everything or not entry.removed)]
    missing = [entry for entry in unread if entry.missing]
    if everything or len(missing) < 2:
        return [entry.problem for entry in unread]
    what = f"{len(missing)} runs whose directories were removed, or are on another host or on an unmounted disk"
    how = "to list them: ddpkit ps --all; to remove one from the list: ddpkit rm RUN"
    return [entry.problem for entry in unread if not entry.missing] + [f"{what}; {how}"]


# ---- status of single ranks, from the two samples in `status.json` that the launcher writes every few seconds


MOST_BYTES = 1 << 26  # of the file
QUIET = 30.0  # seconds without a line, after which a rank that uses no processor waits
BUSY = 0.02  # of a processor: below it a rank does nothing
STALE = 30.0  # seconds after which a sample is too old to be believed

_STATES = {
    "R": "runs",
    "S": "sleeps",
    "I": "sleeps",
    "D": "waits for a disk",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
}


@dataclass(frozen=True, kw_only=True)
class RankStatus:
    """Status of one rank."""

    rank: int
    host: str
    pid: int | None
    state: str = ""  # as in /proc/PID/stat; empty where it is not known
    words: str
    cpu: float | None = None  # processors used between the two looks
    rss: int | None = None  # bytes
    quiet: float | None = None  # seconds since its last line
    idle: float = 0.0  # seconds for which it surely did nothing; 0 for one that works
    odd: bool = False  # its state keeps it from any progress
    over: bool  # it has ended


@dataclass(frozen=True, kw_only=True)
class RankSample:
    """All ranks, as `status.json` shows them."""

    age: float  # seconds
    ranks: tuple[RankStatus, ...]
    silent: dict[str, float]  # hosts whose last sign of life is too old, and its age in seconds
    late_start: tuple[str, ...] = ()  # see `describe_late_start`
    source: str = ""  # of ranks without a sample
    lines: dict[int, str] = field(default_factory=dict)  # the last one of each of these


def read_ranks(run: Run) -> RankSample | None:
    """Read the ranks: their last sample, else their starts and ends; None where there is nothing to read."""
    sample = _last_sample(run)
    return sample if sample is not None and sample.ranks else _ranks_of_job(run) or _ranks_of_timeline(run) or sample


def _ranks_of_job(run: Run) -> RankSample | None:
    """Read the ranks in the output of a job."""
    if run.job is None or run.job.many:
        return None
    from ddpkit.run.job_status import job_ranks

    job = job_ranks(run)
    if job is None or not job.hosts:
        return None
    ranks = (
        _started(rank, job.hosts.get(rank, ""), job.pids.get(rank), *job.ends.get(rank, (None, None)))
        for rank in range(run.world_size)
    )
    return RankSample(age=0.0, ranks=tuple(ranks), silent={}, source="the job's output", lines=job.lines)


def _ranks_of_timeline(run: Run) -> RankSample | None:
    """Read the ranks of a step: the launcher wrote when they started."""
    from ddpkit.run import timeline

    known = (timeline.read(Path(run.folder)) or {}).get("ranks", {})
    if not known:
        return None
    hosts = {int(rank): str(entry["host"]) for rank, entry in known.items()}
    ranks = (_started(rank, hosts.get(rank, ""), None, None, None) for rank in range(run.world_size))
    try:
        age = max(0.0, time.time() - Path(run.folder, timeline.TIMELINE).stat().st_mtime)
    except OSError:
        return None
    return RankSample(age=age, ranks=tuple(ranks), silent={}, source="its timeline")


def _started(rank: int, host: str, pid: int | None, code: int | None, killer: int | None) -> RankStatus:
    over = code is not None or killer is not None
    words = _words_of_end(code, killer) if over else "started" if host else "no start reported yet"
    return RankStatus(rank=rank, host=host, pid=pid, words=words, over=over)


def _words_of_end(code: int | None, killer: int | None) -> str:
    return f"ended: exit code {code}" if killer is None else f"ended: signal {_signal(killer)}"


def _last_sample(run: Run) -> RankSample | None:
    """Read the ranks as the launcher last wrote them; None where there is nothing to read."""
    from ddpkit.run import timeline
    from ddpkit.run.timeline import StatusFile

    try:
        data = read_bounded(Path(run.folder) / "status.json", MOST_BYTES)
        content = typed_json.read(StatusFile, typed_json.parse(data))
        then = content["t"]
        rows = list(_rows(content, run, then))
        silent = {host: then - node["t"] for host, node in content["hosts"].items() if then - node["t"] > STALE}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    started = (timeline.read(Path(run.folder)) or {}).get("ranks", {})
    # Clocks of hosts differ a little: an age is never below zero.
    return RankSample(
        age=max(0.0, time.time() - then),
        ranks=tuple(sorted(rows, key=lambda row: row.rank)),
        silent=silent,
        late_start=tuple(timeline.describe_late_start(started, time.time())),
    )


def _rows(content: StatusFile, run: Run, then: float) -> Iterator[RankStatus]:
    """Yield the status of each rank: what it used between the two looks, and how long it was quiet at `then`."""
    for host, node in content["hosts"].items():
        before = content.get("prev", {}).get(host)
        span = node["t"] - before["t"] if before else 0.0
        for number, entry in node["ranks"].items():
            old = before["ranks"].get(number) if before else None
            cpu = None  # without an earlier look at this process
            if span > 0 and old and old["pid"] == entry["pid"]:
                cpu = max(0.0, (entry["cpu"] - old["cpu"]) / span)
            code, killer, state = entry["code"], entry["signal"], entry["state"]
            over = code is not None or killer is not None or state in ("Z", "X")
            blocked = state == "D" and old is not None and old["state"] == "D" and cpu is not None and cpu < BUSY
            last = entry["out"]
            quiet = max(0.0, then - (run.started if last is None else last))
            idle = quiet if cpu is not None and cpu < BUSY and quiet >= QUIET and not over else 0.0
            if code is not None or killer is not None:
                words = _words_of_end(code, killer)
            else:
                words = "waits" if idle and state in ("S", "I") else _STATES.get(state, state or "not known")
            yield RankStatus(
                rank=int(number),
                host=host,
                pid=entry["pid"],
                state=state,
                words=words,
                cpu=cpu,
                rss=entry["rss"],
                quiet=None if last is None else quiet,
                idle=idle,
                odd=state in ("T", "t") or blocked,
                over=over,
            )


def _signal(number: int) -> str:
    return f"{number} ({signal.Signals(number).name})" if number in set(signal.Signals) else str(number)


def describe_oddities(now: RunStatus, sample: RankSample) -> list[str]:
    """Return a sentence for each oddity, the cause before its consequences."""
    lines = list(sample.late_start)
    if sample.age > STALE and now.state is RunState.RUNNING:
        lines.append(f"the last check of the ranks is {format_age(sample.age)} old")
    for host, silent in sample.silent.items():
        lines.append(f"last message of {host} {format_age(silent)} before: ping {host}")
    living = [rank for rank in sample.ranks if not rank.over]
    odd = [rank for rank in living if rank.odd]
    lines += [f"rank {rank.rank} on {rank.host} {describe_stall(rank.state, rank.pid, rank.host)}" for rank in odd]
    lines += [
        f"rank {rank.rank} on {rank.host} {rank.words.replace(':', ' with', 1)}, and {len(living)} others continue"
        for rank in sample.ranks
        if rank.over and living
    ]
    waiting = [rank for rank in living if rank.idle and not rank.odd]
    working = [rank for rank in living if not rank.idle and not rank.odd]
    if not waiting:
        return lines
    least = min(rank.idle for rank in waiting)
    calm = f"no CPU time, and no output for {format_age(least)} or more"
    look_at = command("dump", now.run)
    if not working and not odd:
        one = waiting[0]
        who = f"all {len(waiting)} ranks wait" if len(waiting) > 1 else f"rank {one.rank} on {one.host} waits"
        lines.append(f"{who}: {calm}; for the stacks: {look_at}")
    elif len(waiting) > len(working):
        who = ", ".join(f"rank {rank.rank} on {rank.host}" for rank in [*odd, *working][:4])
        these = f"{len(waiting)} of {count(len(living), 'rank')} wait ({format_ranks(rank.rank for rank in waiting)})"
        lines.append(f"{these}: {calm}; not waiting: {who}; for its stack: {look_at}")
    else:
        for rank in waiting[:4]:
            lines.append(
                f"rank {rank.rank} on {rank.host} waits while {len(working)} others are busy: "
                f"{calm}; for its stack: {look_at}"
            )
    return lines
