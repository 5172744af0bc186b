"""`ddpkit ps`, `status`, `logs`, `stop` and `attach`: runs, their ranks, their output, and their end."""

from __future__ import annotations

import errno
import json
import os
import select
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app
from ddpkit.cli.look import table
from ddpkit.errors import UsageError
from ddpkit.text import format_size

if TYPE_CHECKING:
    from ddpkit.run.logs import LineFilter
    from ddpkit.run.record import Run
    from ddpkit.run.status import RunStatus

SHOWN = 20  # runs that have ended, in `ddpkit ps`; lines, in `ddpkit attach`

RunName = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="Its id, the beginning or end of it, or its folder; default: the newest that lives, else the newest.",
    ),
]


@app.command(cls=LeanCommand)
def ps(
    everything: Annotated[bool, typer.Option("-a", "--all", help="All that ended, not only the last 20.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the runs: those that live, and the last that ended."""
    from ddpkit.run import record, run_index, status

    known = run_index.list_runs()
    runs = [entry.run for entry in known if entry.run is not None]
    ended = [run for run in runs if run.state in record.ENDED]
    hidden = set() if everything else {run.run_id for run in ended[SHOWN:]}
    seen = status.get_statuses([run for run in runs if run.run_id not in hidden])
    if as_json:
        print(json.dumps([_described(now) for now in seen], indent=2))
        return
    now_is = time.time()
    rows = [
        (
            now.run.run_id,
            now.state,
            now.run.backend,
            str(now.run.world_size),
            ", ".join(now.run.hosts),
            f"{status.age(now_is - now.run.started)} ago",
            now.words,
        )
        for now in seen
    ]
    if rows:
        table(("run", "state", "backend", "ranks", "hosts", "started", ""), rows)
    else:
        print("there is no run yet; to start one: ddpkit launch -- train.py ARGS", file=sys.stderr)
    if hidden:
        print(f"{len(hidden)} older runs: ddpkit ps --all", file=sys.stderr)
    for line in status.runs_on_other_hosts(known):
        print(f"not shown: {line}", file=sys.stderr)


def _described(now: RunStatus) -> dict[str, Any]:
    return {**asdict(now.run), "now": {"state": now.state, "words": now.words, "hint": now.hint}}


@app.command(name="status", cls=LeanCommand)
def show_status(run: RunName = None, as_json: JsonFlag = False) -> None:
    """Show what a run does, rank by rank, and which rank makes no progress."""
    from ddpkit.run import rank_status, status

    now = status.get_status(status.choose(run))
    seen = rank_status.read_ranks(now.run) if now.state in ("running", "elsewhere") else None
    odd = rank_status.describe_oddities(now, seen) if seen else []
    if as_json:
        rows = {"age": seen.age, "ranks": [asdict(rank) for rank in seen.ranks]} if seen else None
        print(json.dumps({**_described(now), "look": rows, "findings": odd}, indent=2))
        return
    print(f"run {now.run.run_id}: {now.words}")
    if now.hint:
        print(f"hint: {now.hint}")
    print(f"  {shlex.join(now.run.command)}")
    where = f"job {now.run.job_id}" if now.run.job_id else ", ".join(now.run.hosts)
    print(f"  backend {now.run.backend}, ranks 0-{now.run.world_size - 1} on {where}; logs in {now.run.folder}/")
    if seen is None:
        if now.state == "running" and Path(now.run.folder).exists():
            ask = status.command("dump", now.run)
            print(f"  what each rank does is not known: there is no status.json in that folder; to ask them: {ask}")
        return
    rows_shown = [
        (
            str(rank.rank),
            rank.host,
            str(rank.pid or ""),
            rank.words,
            "" if rank.cpu is None else f"{100 * rank.cpu:.0f} %",
            "" if rank.rss is None else format_size(rank.rss),
            "none yet" if rank.quiet is None else f"{status.age(rank.quiet)} ago",
        )
        for rank in seen.ranks
    ]
    table(("rank", "host", "pid", "state", "CPU", "memory", "last line"), rows_shown)
    print(f"as seen {status.age(seen.age)} ago")
    for line in odd:
        print(line)


@app.command(cls=LeanCommand)
def logs(
    run: RunName = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show what comes, until the run ends.")] = False,
    rank: Annotated[
        str | None,
        typer.Option("--rank", metavar="R", help="Of these ranks only: 3, 0,2, 4-7. One: exactly its output."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", metavar="H", help="Of this host only.")] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="P", help="Lines that match a regular expression.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option("-n", "--lines", metavar="N", help="Begin with the last N lines.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Each line as a JSON object: rank, host, line.")] = False,
) -> None:
    """Show what a run printed."""
    from ddpkit import config
    from ddpkit.run import logs, status
    from ddpkit.run.control import reload

    chosen = status.choose(run)
    wanted = logs.parse_filter(chosen, rank, host, grep)
    number = None if lines is None else config.whole(lines, "-n ")
    one = wanted.ranks is not None and len(wanted.ranks) == 1
    if one and not as_json and wanted.pattern is None and wanted.host is None and number is None and chosen.job is None:
        going_on = _going_on(chosen) if follow else None
        for data in logs.read_rank_output(chosen, min(wanted.ranks or ()), going_on):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
    else:
        _show(chosen, wanted, follow=follow, number=number, as_json=as_json)
    if follow and (wanted != logs.LineFilter() or chosen.job is not None):
        now = status.get_status(reload(chosen))
        print(f"ddpkit: run {now.run.run_id}: {now.words}", file=sys.stderr)


def _show(run: Run, wanted: LineFilter, *, follow: bool, number: int | None, as_json: bool) -> None:
    from ddpkit.run import logs

    bare = wanted.ranks is not None and len(wanted.ranks) == 1

    def put(line: logs.Line) -> None:
        text = line.text if bare else line.labelled
        if as_json:
            rank = int(line.source) if line.source.isdecimal() else None
            words = {"rank": rank, "host": line.host or None, "line": line.text.decode("utf-8", "surrogateescape")}
            text = json.dumps({**words, "agent": line.source if rank is None and line.source else None}).encode()
        sys.stdout.buffer.write(text + b"\n")
        sys.stdout.buffer.flush()

    for line in logs.read_lines(run, wanted, _going_on(run) if follow else None, number):
        put(line)


def _going_on(run: Run) -> Callable[[], bool]:
    """Return a question for `logs`: does the run go on? Shows each change of a job's state."""
    from ddpkit.run.control import Liveness

    liveness = Liveness(run, lambda words: print(f"ddpkit: {words}", file=sys.stderr))

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
    at_once: Annotated[bool, typer.Option("--now", help="KILL, without the time to save that TERM gives.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; do nothing.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """End a run, and wait until it has ended: every rank gets TERM, its grace, then KILL."""
    from ddpkit.run import control, status

    chosen = _the_living(run)
    now = status.get_status(chosen)
    if dry_run and (now.living or now.state == "unknown"):
        argv = control.stop_argv(chosen, at_once=at_once)
        where = "" if chosen.job else f"  # on {chosen.launcher_host}"
        shown = {"run_id": chosen.run_id, "state": now.state, "argv": argv, "host": chosen.launcher_host}
        print(json.dumps(shown, indent=2) if as_json else shlex.join(argv) + where)
        return
    after = control.stop(chosen, at_once=at_once)
    already = not now.living and now.state != "unknown"
    _show_end(after, was=now.state, as_json=as_json, already=already)


def _the_living(word: str | None) -> Run:
    """Choose the run to stop. Without a name only one may live: a guess could end another user's work."""
    from ddpkit.run import record, run_index, status

    if word is None:
        runs = [
            entry.run
            for entry in run_index.list_runs()
            if entry.run is not None and entry.run.state not in record.ENDED
        ]
        living = [now.run.run_id for now in status.get_statuses(runs) if now.living]
        if len(living) > 1:
            raise UsageError(f"{len(living)} runs live: {', '.join(living)}", f"ddpkit stop {living[0]}")
    return status.choose(word)


def _show_end(now: RunStatus, *, was: str, as_json: bool, already: bool) -> None:
    if as_json:
        print(json.dumps({"was": was, **_described(now)}, indent=2))
    elif already:
        print(f"run {now.run.run_id} has ended already: {now.words}")
    else:
        print(f"run {now.run.run_id}: {now.words}")


@app.command(cls=LeanCommand)
def attach(run: RunName = None) -> None:
    """Show a run as it goes on; leaving the view leaves the run alone."""
    from ddpkit.run import logs, status, tmux
    from ddpkit.run.control import reload

    now = status.get_status(status.choose(run))
    chosen = now.run
    if now.state == "elsewhere" and chosen.session:
        hint = status.remote_command("attach", chosen, terminal=True)
        raise UsageError(f"run {chosen.run_id} is {now.words}", hint)
    if now.living or now.state == "elsewhere":
        if chosen.session and os.isatty(0) and os.isatty(1) and tmux.is_attachable(chosen.session):
            tmux.attach(chosen.session)
            now = status.get_status(reload(chosen))
            if now.living:
                left = f"left the view, and the run goes on; {status.command('stop', chosen)} ends it"
                print(f"ddpkit: run {chosen.run_id}: {left}", file=sys.stderr)
                return
        else:
            print(
                f"ddpkit: run {chosen.run_id}: {now.words}; Ctrl-C leaves this view, and not the run", file=sys.stderr
            )
            _show(chosen, logs.LineFilter(), follow=True, number=SHOWN, as_json=False)
            now = status.get_status(reload(chosen))
            print(f"ddpkit: run {chosen.run_id}: {now.words}", file=sys.stderr)
            return
    _show(now.run, logs.LineFilter(), follow=False, number=SHOWN, as_json=False)
    print(f"ddpkit: run {chosen.run_id}: {now.words}; all its lines: {status.command('logs', chosen)}", file=sys.stderr)
