"""`ddpkit dump` and `top`: stacks and samples of the ranks of a running launch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ddpkit.cli import look, runs
from ddpkit.cli.app import JsonFlag, LeanCommand, app, option, print_json
from ddpkit.cli.look import table
from ddpkit.cli.runs import RunName
from ddpkit.errors import UsageError
from ddpkit.run.state import RunState
from ddpkit.text import format_age, format_ranks, format_size

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.monitor.client import JobSamples, LauncherSamples
    from ddpkit.monitor.top import GpuProcess, HostRow, Size, Summary
    from ddpkit.run.record import Run
    from ddpkit.run.status import RunStatus


SHOWN = 12  # frames of one stack
MOST_ROWS = 64  # of more ranks the table has those that a finding names


@app.command(cls=LeanCommand)
def dump(
    run: RunName = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the stacks of all ranks, and the rank that the others wait for."""
    from ddpkit.monitor import client
    from ddpkit.run import status

    now = status.get_status(runs.choose(run, "ddpkit dump {}"))
    _check_answers(now, "dump")
    chosen = now.run
    summary = client.dump_job(chosen) if chosen.job else client.request_dump(chosen)
    if as_json:
        print_json("dump", summary)
    else:
        _show(summary)


def _check_answers(now: RunStatus, command: str) -> None:
    """Raise UsageError where the ranks of a run cannot answer `dump` or `top`."""
    from ddpkit.run import status

    run, hint = now.run, status.command("status", now.run)
    if now.state is RunState.ELSEWHERE:
        there = status.remote_command(command, run, terminal=command == "top")
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


def _show(summary: dict[str, Any]) -> None:
    from ddpkit.monitor import rank_state as where

    ranks, rows = summary["ranks"], []
    if len(ranks) > MOST_ROWS:
        named = [number for finding in summary["findings"] for number in finding["ranks"]][:MOST_ROWS]
        ranks = [rank for rank in ranks if rank["rank"] in named]
    for rank in ranks:
        at = []
        for name, group in rank["groups"].items():
            pending = group["pending"]
            if pending:
                at.append(f"{pending['op']} #{pending['seq']} of group {name}, {pending['since']:.0f} s")
            elif group["begun"]:
                at.append(f"done with #{group['done']} of group {name}")
        rows.append(
            (
                str(rank["rank"]),
                rank["host"],
                str(rank["pid"] or ""),
                rank["state"],
                "; ".join(at),
                rank["where"] or rank["why"],
            )
        )
    table(("rank", "host", "pid", "state", "collectives", "where"), rows)
    if len(ranks) < len(summary["ranks"]):
        print(f"and {len(summary['ranks']) - len(ranks)} other ranks, by their stacks:")
    for group in summary["stacks"][:MOST_ROWS]:
        print(f"stack of {format_ranks(group['ranks'])}:")
        for frame in group["frames"][:SHOWN]:
            print(f"    {where.spot(frame)}")
        if len(group["frames"]) > SHOWN:
            print(f"    and {len(group['frames']) - SHOWN} more")
    for finding in summary["findings"]:
        look.say(finding["words"], "WARN")
    if summary["folder"]:
        print(f"all answers: {summary['folder']}/")


INTERVAL = 2.0  # seconds between two samples
LEAST = 0.5
SHARE = 0.1  # of the time, at most, in which nvidia-smi holds a driver that ranks need
MOST_SENTENCES = 6  # sentences on a screen
GIB = 1 << 30
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@app.command(cls=LeanCommand)
def top(
    run: RunName = None,
    once: Annotated[bool, option("--once", "Print once and exit (default when not a terminal).")] = False,
    interval: Annotated[str | None, option("--interval", "Time between two samples. [default: 2]", "SECONDS")] = None,
    pss: Annotated[bool, option("--pss", "Measure memory with shared pages divided (PSS); slower.")] = False,
    as_json: Annotated[
        bool, option("--json", "Print JSON: one object with --once, else one per sample and line.")
    ] = False,
) -> None:
    """Show the GPUs, CPUs and memory of a run, live and rank by rank."""
    from ddpkit import config
    from ddpkit.monitor import client
    from ddpkit.run import status
    from ddpkit.run.run_index import reload

    seconds = INTERVAL if interval is None else max(LEAST, config.seconds(interval, "--interval "))
    now = status.get_status(runs.choose(run, "ddpkit top {}"))
    if not now.state.may_live and now.state is not RunState.UNKNOWN:
        _say_end(now, as_json=as_json)
        return
    _check_answers(now, "top")
    chosen = now.run
    source: client.Samples = client.JobSamples(chosen, seconds) if chosen.job else client.LauncherSamples(chosen)
    try:
        if once or not (as_json or sys.stdout.isatty()):
            _once(chosen, source, pss=pss, as_json=as_json)
        elif as_json:
            _watch(chosen, source, seconds, pss, lambda sample: print_json("top", sample, line=True))
            _say_end(status.get_status(reload(chosen)), as_json=True)
        else:
            _live(chosen, source, seconds, pss)
    finally:
        source.close()


def _say_end(now: RunStatus, *, as_json: bool) -> None:
    if as_json:
        from ddpkit.run.documents import run_document

        print_json("run", run_document(now.run, now), line=True)
    else:
        print(f"run {now.run.run_id}: {now.words}")


# ---- samples


def _once(run: Run, source: LauncherSamples | JobSamples, *, pss: bool, as_json: bool) -> None:
    from ddpkit.monitor import top
    from ddpkit.run.run_index import reload
    from ddpkit.run.status import get_status

    sample = source.sample(top.SPAN, pss)
    if sample is not None and any(len(host["looks"]) < 2 for host in sample["hosts"]):
        # Another shell had asked for less at the same moment: with what comes next there are two looks.
        before, sample = sample["hosts"], source.sample(top.SPAN, pss)
    else:
        before = ()
    if sample is None:
        _say_end(get_status(reload(run)), as_json=as_json)
        return
    summary = top.compose(run.run_id, sample, before)
    if as_json:
        print_json("top", summary)
        return
    for line in _head(summary):
        look.say(line, "WARN")
    for head, rows in _tables(summary):
        table(head, rows)


def _watch(
    run: Run, source: LauncherSamples | JobSamples, seconds: float, pss: bool, show: Callable[[Summary], None]
) -> None:
    """Show samples until the run ends. The first has two looks; each later one is compared with that before.

    Where nvidia-smi takes long (without persistence mode: seconds), samples come less often than every `seconds`.
    """
    from ddpkit.monitor import top

    before: Sequence[Any] = ()
    while True:
        began = time.monotonic()
        sample = source.sample(0.0 if before else top.SPAN, pss)
        if sample is None:
            return
        show(top.compose(run.run_id, sample, before))
        before = sample["hosts"]
        pause = max(seconds, *(host.get("asked", 0.0) / SHARE for host in before), 0.0)
        time.sleep(max(0.05, began + pause - time.monotonic()))


def _live(run: Run, source: LauncherSamples | JobSamples, seconds: float, pss: bool) -> None:
    """On a terminal: the same place, over and over; on one that cannot, one below the other. Ctrl-C leaves it."""
    from ddpkit.run.run_index import reload
    from ddpkit.run.status import get_status

    last: list[Summary] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):  # the terminal gets its own screen back
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):

            def plain(summary: Summary) -> None:
                print("\n".join([time.strftime("%H:%M:%S"), *_head(summary)]))
                for head, rows in _tables(summary):
                    table(head, rows)

            _watch(run, source, seconds, pss, plain)
        else:
            _redraw(run, source, seconds, pss, last)
    except KeyboardInterrupt:
        pass
    finally:
        for summary in last:  # what was seen last stays on the screen
            for head, rows in _tables(summary):
                table(head, rows)
    now = get_status(reload(run))
    if now.state.living:
        print(f"run {run.run_id} continues: {now.words}")
    else:
        _say_end(now, as_json=False)


def _redraw(run: Run, source: LauncherSamples | JobSamples, seconds: float, pss: bool, last: list[Summary]) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    from ddpkit.cli.look import as_table, as_text
    from ddpkit.console.guarded import unguarded

    console = Console(file=unguarded(sys.stdout), highlight=False)
    title = f"run {run.run_id}: every {seconds:g} s; Ctrl-C closes this view only"
    with Live(as_text(f"{title}\nasking ..."), console=console, screen=True, auto_refresh=False) as live:

        def show(summary: Summary) -> None:
            last[:] = [summary]
            words = [f"{time.strftime('%H:%M:%S')} {title}", *_head(summary)[:MOST_SENTENCES]]
            tables = []
            for head, rows in _fitted(_tables(summary, odd_first=True), console.size.height - len(words)):
                tables.append(as_table(head, rows))
                for column in tables[-1].columns:
                    column.no_wrap = True  # a row is one line: so it was counted
            above = as_text("\n".join(words))
            above.no_wrap, above.overflow = True, "ellipsis"
            live.update(Group(above, *tables), refresh=True)

        _watch(run, source, seconds, pss, show)


# ---- as tables


def _fitted(tables: list[Table], height: int) -> list[Table]:
    """Shorten the tables to the height of the screen, the longest first. Each has four lines beside its rows."""
    room = [len(rows) for _, rows in tables]
    while sum(room) + 4 * len(room) > height and max(room) > 2:
        room[room.index(max(room))] -= 1
    fitted = []
    for (head, rows), most in zip(tables, room, strict=True):
        shown = rows
        if most < len(rows):
            shown = [*rows[: most - 1], (f"+{len(rows) - most + 1}", *[""] * (len(head) - 1))]
        fitted.append((head, shown))
    return fitted


def _head(summary: Summary) -> list[str]:
    ending = ["it is ending: its ranks are no longer sampled"] if summary["ending"] else []
    return [*ending, *(finding["words"] for finding in summary["findings"])]


def _tables(summary: Summary, *, odd_first: bool = False) -> list[Table]:
    """Return the tables of hosts, GPUs and ranks. `odd_first`: where not all have room, those that a finding names."""
    hosts: list[tuple[str, ...]] = [
        (
            host["host"],
            f"{_percent(host['cpu'])} of {host['cpus']}",
            " ".join(f"{load:.1f}" for load in host["load"]),
            _usage(host["memory"]),
            _usage(host["shm"]),
            _gpus_of(host),
        )
        for host in summary["hosts"]
    ]
    hosts += [(host, "no answer", "", "", "", "") for host in summary["silent"]]
    gpus: list[tuple[str, ...]] = [
        (
            host["host"],
            str(gpu["index"]),
            gpu["name"].removeprefix("NVIDIA "),
            _number(gpu["utilization"], " %"),
            _usage(gpu["memory"]),
            _number(gpu["temperature"], " C"),
            f"{_number(gpu['power']['draw'])}/{_number(gpu['power']['limit'])} W",
            ", ".join(str(each["rank"]) for each in gpu["processes"] if each["rank"] is not None),
            ", ".join(_other(each) for each in gpu["processes"] if each["rank"] is None),
        )
        for host in summary["hosts"]
        for gpu in host["gpus"] or ()
    ]
    named = {rank for finding in summary["findings"] for rank in finding["ranks"]}
    ranks: list[tuple[str, ...]] = [
        (
            f"{rank['rank']}{'!' if rank['rank'] in named else ''}",
            rank["host"],
            str(rank["pid"]),
            rank["state"],
            _percent(rank["cpu"]),
            format_size(rank["rss"] if rank["pss"] is None else rank["pss"]),
            str(rank["tasks"]),
            ", ".join(map(str, rank["gpus"])) or "-",
            "-" if rank["quiet"] is None else f"{format_age(rank['quiet'])} ago",
        )
        for rank in sorted(summary["ranks"], key=lambda rank: odd_first and rank["rank"] not in named)
    ]
    memory = "PSS" if any(rank["pss"] is not None for rank in summary["ranks"]) else "RSS"
    tables: list[Table] = [(("host", "CPU", "load", "memory", "/dev/shm", "GPUs"), hosts)]
    if gpus:
        tables.append((("host", "GPU", "name", "use", "memory", "temp", "power", "ranks", "others"), gpus))
    if ranks:
        tables.append((("rank", "host", "pid", "state", "CPU", memory, "processes", "GPU", "last line"), ranks))
    return tables


def _gpus_of(host: HostRow) -> str:
    if host["gpus"] is None:
        return "not known" if host["gpus_why"] else "no nvidia-smi"
    return str(len(host["gpus"]))


def _other(process: GpuProcess) -> str:
    whose = process["user"] or ("?" if process["ours"] is None else "somebody")
    size = "" if process["memory"] is None else f" {format_size(process['memory'])}"
    return f"{process['pid']} {whose}{size}"


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _usage(size: Size | None) -> str:
    if size is None or size["total"] is None:
        return "-"
    used = "-" if size["used"] is None else f"{size['used'] / GIB:.1f}"
    return f"{used}/{size['total'] / GIB:.1f} GiB"
