"""`ddpkit ps`, `status`, `logs`, `stop`, `attach` and `rm`: runs, their ranks, output, end and directories."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shlex
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli import completion, look
from ddpkit.cli.app import JsonFlag, LeanCommand, app, note, option, print_json
from ddpkit.cli.look import table
from ddpkit.console.guarded import unguarded
from ddpkit.console.style import Panel
from ddpkit.errors import DdpkitError, UsageError
from ddpkit.launchers.shell import count
from ddpkit.run.state import Origin, RunState
from ddpkit.text import coloured, format_age, format_hosts, format_ranges, format_size, one_line

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from rich.text import Text

    from ddpkit.run.logs import Line, LineFilter
    from ddpkit.run.record import Attempt, Run
    from ddpkit.run.replicas import Replica
    from ddpkit.run.run_index import IndexEntry
    from ddpkit.run.status import RankSample, RankStatus, RunStatus


MOST_ROWS = 64  # of more ranks `ddpkit status` shows the odd ones
SHOWN = 20  # lines, in `ddpkit attach`
LINE = 60  # characters of a rank's last line, in `ddpkit status`
WATCH = 2.0  # seconds between two looks of `ddpkit status --watch`

RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="Run id, unique prefix or suffix, name, or directory. [default: latest of this project]",
        autocompletion=completion.runs,
    ),
]


RoleName = Annotated[str | None, option("--role", "Only this role, or this replica: infer, infer.1.", "ROLE")]


def choose(run: str | None, command: str) -> Run:
    """Return the run that the user named, else one of this project; of several, name it on standard error."""
    from ddpkit.run import status

    near = status.runs_near() if run is None else []
    chosen = status.choose(run, command, near=near)
    mine = status.runs_of_project(near)
    if len(mine) > 1:
        which = "" if mine[0].run_id == chosen.run_id else " that is running"
        note(f"run {chosen.run_id}, the newest of this project{which}")
    return chosen


@app.command(name="status", cls=LeanCommand)
def show_status(
    run: RunName = None,
    watch: Annotated[bool, option("-w --watch", "Repeat every 2 seconds, until the run ends.")] = False,
    role: RoleName = None,
    slow: Annotated[bool, option("--slow", "Watch the ranks for 15 s: for which one do the others wait?")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show what a run does, rank by rank, and which rank makes no progress."""
    from ddpkit.run import replicas, status
    from ddpkit.run.run_index import reload

    whole = choose(run, "ddpkit status {}")
    if slow:
        _show_slow(whole, role, watch=watch, as_json=as_json)
        return

    def look_again() -> RunStatus:
        again = reload(whole)
        return status.get_status(again if role is None else replicas.choose_one(again, role).run)

    now = look_again()
    while watch and (now.state.may_live):
        if sys.stdout.isatty() and not as_json:
            unguarded(sys.stdout).write("\x1b[H\x1b[2J")
        _show_status(now, as_json=as_json, line=True)
        sys.stdout.flush()
        time.sleep(WATCH)
        now = look_again()
    _show_status(now, as_json=as_json, line=watch)


def _show_status(now: RunStatus, *, as_json: bool, line: bool) -> None:
    """Print the state of a run and its ranks, or of its replicas. `line`: JSON as one line."""
    from ddpkit.launchers import registry
    from ddpkit.run import replicas, slow_rank, status
    from ddpkit.run.documents import replica_document, run_document

    roles = replicas.replicas_of(now.run)
    sampled = not roles and now.state in (RunState.RUNNING, RunState.ELSEWHERE)
    seen = status.read_ranks(now.run) if sampled else None
    odd = status.describe_oddities(now, seen) if seen else []
    slow = slow_rank.known(Path(now.run.folder), time.time()) if seen else None
    odd += [slow[1]] if slow else []
    if as_json:
        sample = {"age": seen.age, "ranks": [asdict(rank) for rank in seen.ranks]} if seen else None
        of_roles = [replica_document(each, now.state) for each in roles]
        document = {**run_document(now.run, now), "roles": of_roles, "sample": sample, "findings": odd}
        print_json("status", document, line=line)
        return
    where = f"job {now.run.job_id}" if now.run.job_id else format_hosts(now.run.hosts)
    facts = [("hint", now.hint)] if now.hint else []
    if roles:
        facts += [("roles", f"{', '.join(dict.fromkeys(each.role for each in roles))} on {where}")]
    else:
        facts += [("command", shlex.join(now.run.command))]
    facts += [
        ("backend", registry.short_name(now.run.backend)),
        *([] if roles else [("ranks", f"{format_ranges(range(now.run.world_size))} on {where}")]),
        ("logs", f"{now.run.folder}/"),
        *([("note", now.run.log_problem)] if now.run.log_problem else []),
        *(("attempt", describe_attempt(each)) for each in now.run.attempts),
    ]
    if seen is None and not roles and now.state is RunState.RUNNING and Path(now.run.folder).exists():
        facts += [("note", "no rank has reported yet"), ("hint", status.command("dump", now.run))]
    look.show(Panel(now.state if look.rich_out() else "", f"run {now.run.run_id}: {now.words}", facts))
    if roles:
        _show_roles(roles, now)
    if seen is None:
        return
    if not seen.ranks:
        print("no rank has started yet")
        return
    if seen.source:
        _show_started(seen)
    else:
        _show_sample(seen)
    for finding in odd:
        look.say(finding, "WARN")


# ---- who is slow


def _show_slow(run: Run, role: str | None, *, watch: bool, as_json: bool) -> None:
    """Print the rank for which the others wait. `watch`: again and again, until the run ends."""
    shown = False
    while not shown or (watch and _lives(run)):
        try:
            for name, each in runs_to_ask(run, role, "status --slow"):
                _show_slowness(name, each, as_json=as_json, line=watch or name != "")
        except UsageError:
            if not shown or _lives(run):
                raise
        shown = True


def _lives(run: Run) -> bool:
    from ddpkit.run import run_index, status

    return status.get_status(run_index.reload(run)).state.living


def _show_slowness(name: str, run: Run, *, as_json: bool, line: bool) -> None:
    """Watch the ranks of a run, or of the replica with a name, and print how much each waits. `line`: JSON on one."""
    from ddpkit.monitor import client, slow, top

    note(f"{f'{name}: ' if name else ''}the ranks are watched for {slow.WATCHED:g} s")
    found, sample = client.watch_ranks(run)
    named = set(found.slow.ranks) if found.slow else set()
    beside = [each for each in top.compose(run.run_id, sample)["findings"] if named & set(each["ranks"])]
    if as_json:
        print_json("slow", slow.document(run.run_id, found, beside), line=line)
        return
    rows = [(str(rank), f"{100 * share:.0f} %", "slow" * (rank in named)) for rank, share in found.waits.items()]
    if len(rows) > MOST_ROWS:
        rows = [row for row in rows if row[2]][:MOST_ROWS]
    table(("rank", "waits for others", ""), rows)
    for rank, why in list(found.blind.items())[:MOST_ROWS]:
        look.say(f"rank {rank} was not watched: {why}", "WARN")
    prefix = f"{name}: " if name else ""
    for words in slow.describe(found):
        look.say(prefix + words, "WARN" if found.slow else "PASS")
    for finding in beside:
        look.say(prefix + finding["words"], "WARN")


def runs_to_ask(run: Run, role: str | None, command: str) -> list[tuple[str, Run]]:
    """Return the name and run of each whose ranks are asked: the run, without a name, or its replicas that run.

    Raises UsageError where none can answer.
    """
    from ddpkit.run import replicas, status

    now = status.get_status(run)
    _check_answers(now, command)
    if not now.run.replicas and role is None:
        return [("", now.run)]
    chosen = replicas.choose(now.run, role)
    living = [(each.shown, status.get_status(each.starts[-1])) for each in chosen if each.starts and not each.problem]
    found = [(name, each.run) for name, each in living if each.state.living]
    if not found:
        _check_answers(status.get_status(chosen[0].run), command)
        raise UsageError(f"no replica of run {run.run_id} runs", status.command("status", run))
    return found


def _check_answers(now: RunStatus, command: str) -> None:
    """Raise UsageError where the ranks of a run cannot answer `dump` or `top`."""
    from ddpkit.run import status

    run, hint = now.run, status.command("status", now.run)
    if now.state is RunState.ELSEWHERE:
        there = status.command_there(command, run, terminal=command == "top")
        raise UsageError(f"cannot reach run {run.run_id}: it is {now.words}", there)
    if now.state is RunState.QUEUED:
        raise UsageError(f"run {run.run_id} has no ranks yet: {now.words}", hint)
    if now.state is RunState.UNKNOWN:
        raise UsageError(f"cannot query run {run.run_id}: {now.words}", now.hint or hint)
    if not now.state.living:
        what = f"run {run.run_id} has ended, and has no running ranks: {now.words}"
        raise UsageError(what, status.command("logs", run))
    if run.job is not None and run.job.many:
        raise UsageError(f"job {run.job_id} is an array: each task has its own {run.world_size} ranks", "squeue --me")
    if command == "dump" and run.job is not None and not run.job.labels:
        what = f"the scheduler of job {run.job_id} gives no access to its ranks"
        raise UsageError(what, "on a node: py-spy dump --pid PID")


# ---- tables of `status`


def _show_roles(roles: Sequence[Replica], now: RunStatus) -> None:
    """Show the replicas of a run; of very many those that have failed or do not run yet, first."""
    from ddpkit.run import replicas
    from ddpkit.run.state import Phase

    odd = [each for each in roles if each.problem or each.state is None or each.state.phase is not Phase.READY]
    shown = roles if len(roles) <= MOST_ROWS else odd[:MOST_ROWS]
    rows = []
    for each in shown:
        last = each.starts[-1] if each.starts else None
        age = replicas.age_of(each, time.time()) if now.state.may_live else ""
        ranks, hosts = (str(last.world_size), format_hosts(last.hosts)) if last else ("", "")
        rows.append((each.shown, replicas.words_of(each, now.state), age and f"for {age}", ranks, hosts))
    if rows:
        table(("replica", "state", "", "ranks", "hosts"), rows)
    if len(shown) < len(roles):
        print(f"{len(roles) - len(shown)} of {count(len(roles), 'replica')} not shown; all: --json")
    print(f"the ranks of one: ddpkit status {shlex.quote(now.run.run_id)} --role {roles[0].shown}")


def _show_started(seen: RankSample) -> None:
    """Show the ranks of a run without samples."""
    rows = [
        (str(rank.rank), rank.host or "-", str(rank.pid or "-"), rank.words, seen.lines.get(rank.rank, "")[:LINE])
        for rank in _exceptions(seen.ranks)
    ]
    table(("rank", "host", "pid", "state", "last line"), rows)
    _show_rest(len(rows), len(seen.ranks))
    print(f"as of {format_age(seen.age)} ago, from {seen.source}; for CPU and memory: ddpkit top")


def _show_sample(seen: RankSample) -> None:
    """Show the ranks of a run with samples of their resources."""
    rows_shown = [
        (
            str(rank.rank),
            rank.host,
            str(rank.pid or ""),
            rank.words,
            "" if rank.cpu is None else f"{100 * rank.cpu:.0f} %",
            "" if rank.rss is None else format_size(rank.rss),
            "none yet" if rank.quiet is None else f"{format_age(rank.quiet)} ago",
        )
        for rank in _exceptions(seen.ranks)
    ]
    if rows_shown:
        table(("rank", "host", "pid", "state", "CPU", "memory", "last line"), rows_shown)
    _show_rest(len(rows_shown), len(seen.ranks))
    print(f"as seen {format_age(seen.age)} ago")


def _show_rest(shown: int, total: int) -> None:
    if shown < total:
        print(f"{total - shown} of {count(total, 'rank')} not shown; all: --json")


def _exceptions(ranks: Sequence[RankStatus]) -> Sequence[RankStatus]:
    """Return all ranks, or of very many those that are odd or have ended."""
    return ranks if len(ranks) <= MOST_ROWS else [rank for rank in ranks if rank.odd or rank.over][:MOST_ROWS]


def describe_attempt(attempt: Attempt) -> str:
    """Return an attempt in one line: its number, hosts and end, and the decision after it."""
    end = "running" if attempt.exit_code is None else attempt.verdict or f"exit code {attempt.exit_code}"
    after = f"; {attempt.decision.action}: {attempt.decision.reason}" if attempt.decision else ""
    return f"{attempt.number} on {format_hosts(attempt.hosts)}: {end}{after}"


@app.command(cls=LeanCommand)
def logs(
    run: RunName = None,
    follow: Annotated[bool, option("-f --follow", "Follow new lines until the run ends.")] = False,
    rank: Annotated[
        str | None, option("--rank", "Print only these ranks: 3, 0,2, 4-7. One rank: exactly its output.", "R")
    ] = None,
    role: RoleName = None,
    host: Annotated[str | None, option("--host", "Print only this host.", "H")] = None,
    grep: Annotated[str | None, option("--grep", "Print only lines that match a regular expression.", "P")] = None,
    lines: Annotated[str | None, option("-n --lines --tail", "Begin with the last N lines.", "N")] = None,
    since: Annotated[str | None, option("--since", "Begin AGE ago: 90, 10m, 2h, 1d.", "AGE")] = None,
    attempt: Annotated[str | None, option("--attempt", "Print attempt K. [default: the last one]", "K")] = None,
    as_json: Annotated[bool, option("--json", "Print each line as a JSON object: rank, host, line.")] = False,
) -> None:
    """Print the output of a run."""
    from ddpkit.run import logs, replicas, status
    from ddpkit.run.launcher_process import place_problem
    from ddpkit.run.run_index import reload

    chosen = whole = choose(run, "ddpkit logs {}")
    names = _names_of_replicas(chosen, role, rank)
    if names and len(names) == 1 and (rank is not None or attempt is not None):
        chosen = replicas.choose_one(chosen, min(names)).run
        names = None
    if attempt is not None:
        chosen = logs.choose_attempt(chosen, _whole(attempt, "--attempt ", "ddpkit logs --attempt 1"))
    wanted = replace(logs.parse_filter(chosen, rank, host, grep), replicas=names)
    number = None if lines is None else _whole(lines, "--tail ", "ddpkit logs --tail 20")
    begin = None if since is None else time.time() - _age(since)
    if number is None and begin is None and chosen.job is None and logs.is_cut(Path(chosen.folder)):
        note(logs.CUT_WORDS)
    one_rank = wanted.ranks is not None and len(wanted.ranks) == 1
    whole_output = wanted.pattern is None and wanted.host is None and number is None and begin is None
    if one_rank and whole_output and not as_json and chosen.job is None:
        _print_output(chosen, min(wanted.ranks or ()), follow=follow)
    else:
        _show(chosen, wanted, follow=follow, number=number, as_json=as_json, since=begin)
    if problem := place_problem(chosen):
        note(f"run {chosen.run_id}: {problem}")
    if follow and (wanted != logs.LineFilter() or chosen.job is not None):
        now = status.get_status(reload(whole))
        note(f"run {now.run.run_id}: {now.words}")


def _print_output(run: Run, rank: int, *, follow: bool) -> None:
    """Print the output of one rank, exactly."""
    from ddpkit.run import logs

    part_of_character, wrote = b"", False
    for new in logs.read_rank_output(run, rank, _going_on(run) if follow else None):
        data, part_of_character = _whole_characters(part_of_character + new)
        wrote = bool(_put_exact(data)) or wrote
    _put_exact(part_of_character)
    if not wrote:
        note(f"rank {rank} has printed nothing")


def _names_of_replicas(run: Run, role: str | None, rank: str | None) -> frozenset[str] | None:
    """Return the names of the replicas whose lines are wanted; None: of all. Raises UsageError."""
    from ddpkit.run import replicas

    if role is None and rank is not None and run.replicas:
        name = run.replicas[-1].rpartition(".")[0]
        raise UsageError(f"--rank {rank}: each role of run {run.run_id} has its own ranks", f"--role {name} --rank 0")
    return None if role is None else frozenset(each.name for each in replicas.choose(run, role))


def _whole(text: str, label: str, hint: str) -> int:
    """Parse an integer from 1 on. Raises UsageError."""
    if text.isdecimal() and int(text):
        return int(text)
    from ddpkit import config  # the table of settings takes 10 ms

    return config.whole(text, label, hint=hint)


# The begin of a character of UTF-8 at the end of what was read.
_BEGUN = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")


def _whole_characters(data: bytes) -> tuple[bytes, bytes]:
    """Split data into whole characters, and the beginning of one whose end is not read yet."""
    begun = _BEGUN.search(data, max(0, len(data) - 3))
    at = begun.start() if begun else len(data)
    return data[:at], data[at:]


def _put_exact(data: bytes) -> int:
    """Print output exactly; on a terminal with its colours, and without other controls. Returns its length."""
    if sys.stdout.isatty():
        lines = (b"\r".join(map(coloured, line.split(b"\r"))) for line in data.split(b"\n"))
        data = b"\n".join(lines)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return len(data)


def _age(text: str) -> float:
    """Parse a length of time."""
    from ddpkit import config  # the table of settings takes 10 ms

    seconds = config.parse_duration(text)
    if seconds is None:
        raise UsageError(f"--since {text} is not a length of time", "ddpkit logs --since 10m")
    return seconds


def _show(
    run: Run, wanted: LineFilter, *, follow: bool, number: int | None, as_json: bool, since: float | None = None
) -> Sequence[bytes]:
    """Print lines of a run. Returns the last `SHOWN` of them. Those of one rank have no label."""
    from ddpkit.run import logs

    bare = wanted.ranks is not None and len(wanted.ranks) == 1
    terminal = sys.stdout.isatty()
    last: deque[bytes] = deque(maxlen=SHOWN)

    def put(line: Line) -> None:
        text = line.text if bare else line.labelled
        if as_json:
            rank = int(line.source) if line.source.isdecimal() else None
            words = {"rank": rank, "host": line.host or None, "line": line.text.decode("utf-8", "replace")}
            words["agent"] = line.source if rank is None and line.source else None
            text = json.dumps({"schema": "ddpkit.logs/1", **words, "role": line.replica or None}).encode()
        elif terminal:
            text = coloured(text)
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()

    for line in logs.read_lines(run, wanted, _going_on(run) if follow else None, number, since):
        put(line)
        last.append(line.text)
    return last


def _going_on(run: Run) -> Callable[[], bool]:
    """Return a function: whether the run goes on. It notes changes of a job, and raises where nobody reads any more."""
    from ddpkit.run.control import Liveness

    liveness = Liveness(run, note)

    def goes_on() -> bool:
        if _output_is_closed():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        return liveness.goes_on()

    return goes_on


def _output_is_closed() -> bool:
    """Whether the reader of standard output has gone: like `tail -f`, we do not wait for a line to see that."""
    poll = select.poll()
    poll.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


@app.command(cls=LeanCommand)
def stop(
    run: RunName = None,
    everything: Annotated[bool, option("--all", "Stop all runs of this project.")] = False,
    role: Annotated[
        str | None,
        option("--role", "Stop this replica: it starts again where its `restart` allows, else the run fails.", "ROLE"),
    ] = None,
    at_once: Annotated[bool, option("--now", "Send SIGKILL at once: no time to save.")] = False,
    dry_run: Annotated[bool, option("--dry-run", "Print what would be done; do nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop a run: send every rank SIGTERM, after its grace period SIGKILL, and wait for the end."""
    from ddpkit.run import replicas, status

    if everything and run is not None:
        raise UsageError("--all and RUN exclude each other", f"ddpkit stop {shlex.quote(run)}")
    if everything and role is not None:
        raise UsageError("--all and --role exclude each other", f"ddpkit stop RUN --role {shlex.quote(role)}")
    chosen = status.living_here() if everything else [status.choose(run, "ddpkit stop {}", acts=True)]
    if role is not None:
        parts = replicas.choose(chosen[0], role)
        for each in replicas.in_pause(parts, chosen[0]):
            fix = f"to stop the whole run: {status.command('stop', chosen[0])}"
            note(f"{each.shown} has ended, and starts again after a pause; {fix}")
        chosen = [each.run for each in parts]
    seen = status.get_statuses(chosen)
    if run is None and role is None and not any(now.state.may_live or now.state is RunState.UNKNOWN for now in seen):
        note(f"no run of this {_directory_or_project(everything)} is running; to list the runs: ddpkit ps")
    stop_runs(chosen, seen, at_once=at_once, dry_run=dry_run, as_json=as_json)


def stop_runs(
    chosen: Sequence[Run], seen: Sequence[RunStatus], *, at_once: bool = False, dry_run: bool, as_json: bool
) -> None:
    """Stop runs, and print how each ended. `seen`: their states before. Raises the first error."""
    from concurrent.futures import ThreadPoolExecutor

    from ddpkit.run import control
    from ddpkit.run.documents import run_document

    if dry_run:
        seen = [control.check_stop(now.run) for now in seen]  # it shows no command that `stop` would refuse to run
        plans = [_stop_plan(now, at_once=at_once) for now in seen if now.state.living]
        ended = [now for now in seen if not now.state.living]
        if as_json:
            skipped = [run_document(now.run, now) for now in ended]
            print_json("stop_plan", {"commands": plans, "ended": skipped})
            return
        for plan in plans:
            print(shlex.join(plan["argv"]) + ("" if plan["host"] is None else f"  # on {plan['host']}"))
        for now in ended:
            print(f"run {now.run.run_id} has ended already: {now.words}")
        return
    with ThreadPoolExecutor(max(1, len(chosen))) as pool:
        results = list(pool.map(lambda each: _stop_one(each, at_once=at_once), chosen))
    pairs = [(was, now) for was, now in zip(seen, results, strict=True) if not isinstance(now, DdpkitError)]
    errors = [result for result in results if isinstance(result, DdpkitError)]
    if as_json and (pairs or not errors):
        print_json("stop", {"runs": [{"was": was.state, **run_document(now.run, now)} for was, now in pairs]})
    for was, now in pairs if not as_json else ():
        already = "" if was.state.living or was.state is RunState.UNKNOWN else " has ended already"
        print(f"run {now.run.run_id}{already}: {now.words}")
    for error in errors[1:]:
        note(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
    if errors:
        raise errors[0]


def _stop_one(run: Run, *, at_once: bool) -> RunStatus | DdpkitError:
    """Stop a run. Returns the error of one that cannot be stopped, so that the others are reported as well."""
    from ddpkit.run import control

    try:
        return control.stop(run, at_once=at_once)
    except DdpkitError as error:
        return error


def _stop_plan(now: RunStatus, *, at_once: bool) -> dict[str, Any]:
    from ddpkit.run import control

    run = now.run
    host = None if run.job else run.launcher_host
    return {"run_id": run.run_id, "state": now.state, "argv": control.stop_argv(run, at_once=at_once), "host": host}


@app.command(cls=LeanCommand)
def attach(run: RunName = None) -> None:
    """Follow a running run, and exit with its exit code. Closing the view does not stop the run."""
    from ddpkit.run import logs, status, tmux
    from ddpkit.run.run_index import reload

    now = status.get_status(choose(run, "ddpkit attach {}"))
    chosen = now.run
    if now.state is RunState.ELSEWHERE and chosen.session:
        hint = status.command_there("attach", chosen, terminal=True)
        raise UsageError(f"run {chosen.run_id} is {now.words}", hint)
    if now.state.may_live:
        if chosen.session and os.isatty(0) and os.isatty(1) and tmux.is_attachable(chosen):
            tmux.attach(chosen)
            now = status.get_status(reload(chosen))
            if now.state.living:
                left = f"left the view, and the run continues; to stop it: {status.command('stop', chosen)}"
                note(f"run {chosen.run_id}: {left}")
                return
        else:
            note(f"run {chosen.run_id}: {now.words}; Ctrl-C closes this view only")
            last = _show(chosen, logs.LineFilter(), follow=True, number=SHOWN, as_json=False)
            now = status.get_status(reload(chosen))
            note(f"run {chosen.run_id}: {_end_words(now, last)}")
            raise typer.Exit(_exit_code(now))
    last = _show(now.run, logs.LineFilter(), follow=False, number=SHOWN, as_json=False)
    words = f"{_end_words(now, last)}; for all lines: {status.command('logs', chosen)}"
    note(f"run {chosen.run_id}: {words}")
    raise typer.Exit(_exit_code(now))


def _end_words(now: RunStatus, shown: Sequence[bytes]) -> str:
    """Return the state of a run in words, without the verdict where the lines that were shown have it."""
    verdict = (now.run.verdict or "").encode("utf-8", "surrogateescape")
    return now.state if verdict and any(verdict in line for line in shown) else now.words


def _exit_code(now: RunStatus) -> int:
    """Return the exit code that the launch of an ended run had; 125 where it is not known."""
    code = 0 if now.state.may_live else now.run.exit_code
    return DdpkitError.exit_code if code is None else code


ENDED_SHOWN = 20  # runs that have ended
LISTED = 20  # names of files that are not ddpkit's
PIPED = 200  # columns of a line in a pipe
HEAD = ("ID", "COMMAND", "STATE", "RANKS", "HOSTS", "AGE", "RESULT")
DIRECTORY = "DIRECTORY"  # one more column where other projects have runs
_LEAST = {"COMMAND": 12, "HOSTS": 5, DIRECTORY: 9, "RESULT": 9}  # columns that can be cut, with their least width


@app.command(cls=LeanCommand)
def ps(
    everything: Annotated[bool, option("-a --all", "Show all runs. [default: the last 20 ended]")] = False,
    number: Annotated[str | None, option("-n --last", "Show the newest N runs.", "N")] = None,
    quiet: Annotated[bool, option("-q --quiet", "Print ids only.")] = False,
    roles: Annotated[bool, option("--roles", "Show the replicas of each run of roles.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List runs: those that are running, and the last that ended."""
    from ddpkit.run import run_index, status

    known = run_index.list_runs()
    runs = [entry.run for entry in known if entry.run is not None]
    if number is not None:
        shown = runs[: _whole(number, "--last ", "ddpkit ps --last 5")]
    else:
        ended = [run.run_id for run in runs if run.state.ended]  # the newest first
        hidden = set() if everything else set(ended[ENDED_SHOWN:])
        shown = [run for run in runs if run.run_id not in hidden]
    if quiet and not as_json:
        print("".join(f"{run.run_id}\n" for run in shown), end="")
        return
    seen = status.get_statuses(shown)
    if as_json:
        from ddpkit.run.documents import run_document

        documents = [{**run_document(now.run, now), **_roles_of(now, roles)} for now in seen]
        print_json("ps", {"runs": documents})
        return
    short = run_index.short_ids([entry.run_id for entry in known])
    if seen:
        head, *lines = table_of_runs(seen, short, time.time(), _width(), status.current_project())
        at = head.index(HEAD[2])
        rows: list[Text | str] = [head]
        for line, now in zip(lines, seen, strict=True):
            rows += [look.coloured(line, now.state, at), *(_lines_of_roles(now) if roles else ())]
        look.write(rows)
    else:
        print("no runs; to start one: ddpkit launch -- train.py", file=sys.stderr)
    if number is None and len(shown) < len(runs):
        print(f"older runs not shown: {len(runs) - len(shown)}; all: ddpkit ps --all", file=sys.stderr)
    for line in status.problems(known, everything=everything):
        print(f"not shown: {line}", file=sys.stderr)


def _roles_of(now: RunStatus, wanted: bool) -> dict[str, object]:
    from ddpkit.run import replicas
    from ddpkit.run.documents import replica_document

    return {"roles": [replica_document(each, now.state) for each in replicas.replicas_of(now.run)]} if wanted else {}


def _lines_of_roles(now: RunStatus) -> list[str]:
    """Return a line for each replica of a run."""
    from ddpkit.run import replicas

    every = replicas.replicas_of(now.run)
    width = max((len(each.shown) for each in every), default=0)
    lines = []
    for each in every:
        where = f" on {format_hosts(each.starts[-1].hosts)}" if each.starts else ""
        lines.append(one_line(f"  {each.shown.ljust(width)}  {replicas.words_of(each, now.state)}{where}")[: _width()])
    return lines


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED


def table_of_runs(
    seen: Sequence[RunStatus], short: dict[str, str], now: float, width: int, here: Path | None = None
) -> list[str]:
    """Return the table, one line for each run. Long cells are cut to the width; ids never.

    `here`: the project whose runs need no directory.
    """
    head = list(HEAD)
    cells = [
        [
            short[each.run.run_id],
            _command(each.run),
            each.state,
            str(each.run.world_size),
            _hosts(each.run),
            format_age(now - each.run.started),
            result(each),
        ]
        for each in seen
    ]
    directories = [_directory(each.run, here) for each in seen]
    if set(directories) - {"."}:
        head.insert(-1, DIRECTORY)
        for row, directory in zip(cells, directories, strict=True):
            row.insert(-1, directory)
    rows = [head, *([" ".join(one_line(cell).split()) for cell in row] for row in cells)]  # no line ends within a cell
    widths = _fitted({name: max(len(row[column]) for row in rows) for column, name in enumerate(head)}, width)
    lines = []
    for row in rows:
        pairs = zip(row, widths.items(), strict=True)
        lines.append("  ".join(_cut(cell, room, end=name == DIRECTORY).ljust(room) for cell, (name, room) in pairs))
    return [line.rstrip() for line in lines]


def _fitted(widths: dict[str, int], width: int) -> dict[str, int]:
    """Take characters from the column with most to spare until all fit, or none has any: the window is too narrow."""
    while sum(widths.values()) + 2 * (len(widths) - 1) > width:
        name = max((each for each in _LEAST if each in widths), key=lambda each: widths[each] - _LEAST[each])
        if widths[name] <= _LEAST[name]:
            break
        widths[name] -= 1
    return widths


def _command(run: Run) -> str:
    """Return the command, after the name of the run or of its job if it has another one than the script."""
    from ddpkit.run import record, run_index

    name, text = run_index.name_in(run.run_id), shlex.join(run.command)
    return text if name == record.name_of(run.command) else f"{name}: {text}"


def _directory(run: Run, here: Path | None) -> str:
    """Return the directory of a run's project as a person would type it; `.`: this project's."""
    from ddpkit.run import run_index

    project, home = run_index.project_of(run), os.environ.get("HOME", "")
    if here is None or project == here:
        return "."
    return str(Path("~", project.relative_to(home)) if home and project.is_relative_to(home) else project)


def _cut(text: str, room: int, *, end: bool) -> str:
    """Cut a text to its beginning, or to its `end`."""
    if len(text) <= room:
        return text
    return f"...{text[3 - room :]}" if end else f"{text[: room - 3]}..."


def _hosts(run: Run) -> str:
    if run.job_id:
        return f"job {run.job_id}"
    return run.hosts[0] + (f" +{len(run.hosts) - 1}" if len(run.hosts) > 1 else "") if run.hosts else ""


def result(now: RunStatus) -> str:
    """Return how a run ended, in short: `exit 7, rank 1 on node2: out of memory`; or what hinders one that runs."""
    failure = now.run.failure
    if now.state is RunState.FAILED and failure is not None:
        how = f"exit {now.run.exit_code}" if failure.signal is None else f"signal {failure.signal}"
        who = f"rank {failure.rank}" if failure.rank is not None else failure.what
        if now.run.replicas:
            from ddpkit.run.replicas import first_failed

            who = f"{first_failed(now.run) or ''} {who}".strip()
        why = failure.reason or (failure.diagnosis.cause if failure.diagnosis else "")
        where = f" on {failure.host}" if len(now.run.hosts) > 1 or now.run.job_id else ""
        return f"{how}, {who}{where}" + (f": {why}" if why else "")
    if now.state is RunState.FAILED:
        return f"exit {now.run.exit_code}" + (f": {now.run.verdict}" if now.run.verdict else "")
    if now.state in (RunState.DONE, RunState.STOPPED):
        return f"after {now.run.duration}" if now.run.duration else ""
    return "" if now.state is RunState.RUNNING and not now.hint else now.words


# ---- rm


@app.command(cls=LeanCommand)
def rm(
    run: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...",
            help="Run id, at least 4 characters of one of this project, or directory.",
            autocompletion=completion.runs,
        ),
    ] = None,
    ended: Annotated[bool, option("--ended", "Remove all ended runs of this project, started here or below.")] = False,
    yes: Annotated[bool, option("-y --yes", "Also remove files in these directories that are not ddpkit's.")] = False,
    only_forget: Annotated[
        bool, option("--forget", "Only take these runs, by whole ids, off the list of runs; touch nothing else.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", "Print what would be removed; remove nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove the directories of ended runs, with their logs."""
    from ddpkit.run import control, run_index, status

    if bool(run) == ended:
        what = "--ended and RUN exclude each other" if run else "no run given"
        raise UsageError(what, "ddpkit rm --ended --dry-run")
    known = run_index.list_runs()
    if ended:
        if only_forget:
            raise UsageError("--forget takes the whole ids of runs, and not --ended", "ddpkit ps --all")
        chosen = [entry.run for entry in status.started_here(known) if entry.run is not None]
        gone = []  # ids that leave the list of runs, and nothing else
    elif only_forget:
        chosen, gone = [], [_forgettable(word, known) for word in run or ()]
    else:
        gone = [entry.run_id for entry in known if entry.can_be_forgotten and entry.run_id in (run or ())]
        words = [word for word in run or () if word not in gone]
        chosen = [run_index.find_target(word, known, status.current_project(), "ddpkit rm {}") for word in words]
    checked = [control.check_removable(now.run) for now in _ended(chosen, named=not ended)]
    removed = [removable.run for removable in checked]
    confirm_foreign_files({each.run.folder: each.foreign_names for each in checked}, yes=yes, dry_run=dry_run)
    if not dry_run:
        for removable in checked:
            control.remove_run(removable)
        for run_id in gone:
            run_index.forget(run_id)
    if as_json:
        shown = [{"run_id": each.run_id, "folder": each.folder} for each in removed]
        print_json("rm", {"dry_run": dry_run, "removed": shown, "forgotten": gone})
        return
    for each in removed:
        print(f"{'would remove' if dry_run else 'removed'} {each.folder}")
    for run_id in gone:
        why = "; its directory and its job stay" if only_forget else ": its directory is missing"
        print(f"{'would remove' if dry_run else 'removed'} {run_id} from the list of runs{why}")
    if not removed and not gone:
        print(f"no ended runs of this {_directory_or_project(ended)}", file=sys.stderr)


def _forgettable(word: str, known: Sequence[IndexEntry]) -> str:
    """Return the id of a run that `rm --forget` takes off the list: nobody here sees that it lives.

    Its job may be known to no scheduler any more, and its host be gone. Raises UsageError.
    """
    from ddpkit.run import status

    entry = next((entry for entry in known if entry.run_id == word), None)
    if entry is None:
        raise UsageError(f"--forget takes the whole id of a run, and {word!r} is none of the list", "ddpkit ps --all")
    now = status.get_status(entry.run) if entry.run else None
    if now and now.state.living:
        what = f"run {word} has not ended ({now.state}), and stays in the list of runs"
        raise UsageError(what, f"ddpkit stop {shlex.quote(word)}")
    return word


def _directory_or_project(all_runs: bool) -> str:
    """Return words for where a command looked for runs; for `all_runs` that is this directory, below the project's."""
    from ddpkit.run import status

    project = status.current_project() if all_runs else None
    below = project is not None and project != Path.cwd().resolve()
    return f"directory (the project is {project})" if below else "project"


def _ended(chosen: Sequence[Run], *, named: bool) -> list[RunStatus]:
    """Return the runs that have ended. Raises UsageError for another run if the user `named` the runs."""
    from ddpkit.run import status

    seen = status.get_statuses(chosen)
    going_on = [now for now in seen if not _is_over(now)]
    if going_on and named:
        first = going_on[0]
        words = f"run {first.run.run_id} has not ended ({first.state}); nothing was removed"
        hint = status.command("stop" if first.state.living else "status", first.run)
        if first.run.origin is Origin.INDEX and not first.state.living:
            hint += f"; to take it off the list of runs: ddpkit rm --forget {first.run.run_id}"
        raise UsageError(words, hint)
    return [now for now in seen if _is_over(now)]


def _is_over(now: RunStatus) -> bool:
    return now.state.ended or now.state is RunState.LOST


def confirm_foreign_files(foreign: Mapping[str, Sequence[str]], *, yes: bool, dry_run: bool) -> None:
    """Name the files that are not ddpkit's, by directory. Raises UsageError unless the user agrees to remove them."""
    foreign = {folder: names for folder, names in foreign.items() if names}
    name_foreign_files(foreign)
    if not foreign or yes or dry_run:
        return
    if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm("Remove them as well?", err=True):
        return
    folder = next(iter(foreign))
    raise UsageError(
        "files that are not ddpkit's would be removed; nothing was (--yes)", f"ls -la {shlex.quote(folder)}"
    )


def name_foreign_files(foreign: Mapping[str, Sequence[str]]) -> None:
    """Name the files that are not ddpkit's, by directory."""
    for folder, names in foreign.items():
        if names:
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            note(f"not made by ddpkit, in {folder}: {', '.join(map(one_line, names[:LISTED]))}{more}")
