"""`ddpkit dump` and `top`: stacks and samples of the ranks of a running launch."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli import look, runs
from ddpkit.cli.app import JsonFlag, LeanCommand, app, note, option, print_json
from ddpkit.cli.look import table
from ddpkit.cli.runs import RoleName, RunName
from ddpkit.errors import DdpkitError, UsageError
from ddpkit.run.state import RunState
from ddpkit.text import format_age, format_ranks, format_size

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.monitor.client import Samples
    from ddpkit.monitor.top import GpuProcess, HostRow, Size, Summary
    from ddpkit.run.record import Run
    from ddpkit.run.status import RunStatus


SHOWN = 12  # frames of one stack
MOST_ROWS = 64  # of more ranks the table has those that a finding names


@app.command(cls=LeanCommand)
def dump(
    run: RunName = None,
    role: RoleName = None,
    as_json: JsonFlag = False,
) -> None:
    """Print the stacks of all ranks, and the rank that the others wait for."""
    chosen = runs.runs_to_ask(runs.choose(run, "ddpkit dump {}"), role, "dump")
    if len(chosen) == 1:
        answers: list[tuple[str, dict[str, Any] | DdpkitError]] = [("", _dump(chosen[0][1]))]
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = [
                *zip((name for name, _ in chosen), pool.map(_try_dump, (each for _, each in chosen)), strict=True)
            ]
    for name, summary in answers:
        if isinstance(summary, DdpkitError):
            note(f"{name}: {summary.message}")
        elif as_json:
            print_json("dump", summary, line=len(answers) > 1)
        else:
            if name:
                print(f"{name}:")
            _show(summary)
    errors = [each for _, each in answers if isinstance(each, DdpkitError)]
    if len(errors) == len(answers):
        raise typer.Exit(errors[0].exit_code)


def _dump(run: Run) -> dict[str, Any]:
    from ddpkit.monitor import client

    return client.dump_job(run) if run.job else client.request_dump(run)


def _try_dump(run: Run) -> dict[str, Any] | DdpkitError:
    """Dump one of several: the others answer also where it does not."""
    try:
        return _dump(run)
    except DdpkitError as error:
        return error


def _show(summary: dict[str, Any]) -> None:
    """Print the summary of a dump: its ranks, their stacks, and the findings."""
    from ddpkit.monitor import rank_state as where

    ranks, rows = summary["ranks"], []
    if len(ranks) > MOST_ROWS:
        named = [number for finding in summary["findings"] for number in finding["ranks"]][:MOST_ROWS]
        ranks = [rank for rank in ranks if rank["rank"] in named]
    for rank in ranks:
        collectives = []
        for name, group in rank["groups"].items():
            pending = group["pending"]
            if pending:
                collectives.append(f"{pending['op']} #{pending['seq']} of group {name}, {pending['since']:.0f} s")
            elif group["begun"]:
                collectives.append(f"done with #{group['done']} of group {name}")
        rows.append(
            (
                str(rank["rank"]),
                rank["host"],
                str(rank["pid"] or ""),
                rank["state"],
                "; ".join(collectives),
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
AT_ONCE = 16  # replicas that are asked at the same time
Shown = list[tuple[str, "Summary"]]  # by the name of the replica; of a run without roles, one without a name
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@app.command(cls=LeanCommand)
def top(
    run: RunName = None,
    once: Annotated[bool, option("--once", "Print once and exit (default when not a terminal).")] = False,
    interval: Annotated[str | None, option("--interval", "Time between two samples. [default: 2]", "SECONDS")] = None,
    pss: Annotated[bool, option("--pss", "Measure memory with shared pages divided (PSS); slower.")] = False,
    role: RoleName = None,
    as_json: Annotated[
        bool, option("--json", "Print JSON: one object with --once, else one per sample and line.")
    ] = False,
) -> None:
    """Show the GPUs, CPUs and memory of a run, live and rank by rank."""
    from ddpkit import config
    from ddpkit.run import status
    from ddpkit.run.run_index import reload

    seconds = INTERVAL if interval is None else max(LEAST, config.seconds(interval, "--interval "))
    now = status.get_status(runs.choose(run, "ddpkit top {}"))
    if not now.state.may_live and now.state is not RunState.UNKNOWN:
        _say_end(now, as_json=as_json)
        return
    watched = Watched(now.run, role, seconds, pss=pss)
    try:
        if once or not (as_json or sys.stdout.isatty()):
            _once(watched, as_json=as_json)
        elif as_json:
            _watch(watched, seconds, _print_samples)
            _say_end(status.get_status(reload(now.run)), as_json=True)
        else:
            _live(watched, seconds)
    finally:
        watched.close()


def _print_samples(shown: Shown, *, line: bool = True) -> None:
    for _, summary in shown:
        print_json("top", summary, line=line)


def _print_tables(shown: Shown) -> None:
    for head, rows in _tables(shown):
        table(head, rows)


class Watched:
    """The runs that `top` asks: one, or the replicas of one that run now. Raises UsageError where none can answer."""

    def __init__(self, run: Run, role: str | None, seconds: float, *, pss: bool) -> None:
        self.run = run
        self._role, self._seconds, self._pss = role, seconds, pss
        self._sources: dict[str, Samples] = {}  # by the id of a run
        self._before: dict[str, Sequence[Any]] = {}  # by the id of a run: the hosts of its last answer
        # For the first sample; later ones look again which replicas run.
        self._chosen: list[tuple[str, Run]] | None = runs.runs_to_ask(run, role, "top")
        self._has_roles = bool(run.replicas)

    def sample(self) -> Shown | None:
        """Ask each run once. Returns its answer by its name; None: the whole run has ended; empty: no replica runs."""
        from ddpkit.run import run_index, status

        try:
            if self._chosen:
                chosen = self._chosen
            elif self._has_roles:
                chosen = runs.runs_to_ask(run_index.reload(self.run), self._role, "top")
            else:
                chosen = [("", self.run)]
        except UsageError:
            return [] if status.get_status(run_index.reload(self.run)).state.living else None
        self._chosen = None
        if not self._has_roles:
            alone = self._ask(chosen[0][1])
            return None if alone is None else [("", alone)]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = [*pool.map(self._try, (run for _, run in chosen))]
        return [(name, each) for (name, _), each in zip(chosen, answers, strict=True) if each is not None]

    def _try(self, run: Run) -> Summary | None:
        """Ask one of several: one that has just ended does not answer."""
        try:
            return self._ask(run)
        except DdpkitError:
            return None

    def _ask(self, run: Run) -> Summary | None:
        """Take a sample of one run, with the slow rank that is known. None: it has ended. Raises DdpkitError."""
        from ddpkit.monitor import client, top
        from ddpkit.run import slow_rank

        source = self._sources.get(run.run_id)
        if source is None:
            source = client.JobSamples(run, self._seconds) if run.job else client.LauncherSamples(run)
            self._sources[run.run_id] = source
        before = self._before.get(run.run_id, ())  # a first sample has two looks, a later one is compared with it
        sample = source.sample(0.0 if before else top.SPAN, self._pss)
        if sample is not None and not before and any(len(host["looks"]) < 2 for host in sample["hosts"]):
            # Another shell had asked for less at the same moment: with what comes next there are two looks.
            before, sample = sample["hosts"], source.sample(top.SPAN, self._pss)
        if sample is None:
            return None
        self._before[run.run_id] = sample["hosts"]
        summary = top.compose(run.run_id, sample, before)
        slow = slow_rank.known(Path(run.folder), time.time())
        if slow is not None:
            summary["findings"].append({"kind": "slow", "ranks": list(slow[0]), "words": slow[1]})
        return summary

    @property
    def pause(self) -> float:
        """The least seconds between two samples: nvidia-smi takes long without persistence mode."""
        return max((host.get("asked", 0.0) / SHARE for hosts in self._before.values() for host in hosts), default=0.0)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()


def _say_end(now: RunStatus, *, as_json: bool) -> None:
    if as_json:
        from ddpkit.run.documents import run_document

        print_json("run", run_document(now.run, now), line=True)
    else:
        print(f"run {now.run.run_id}: {now.words}")


# ---- samples


def _once(watched: Watched, *, as_json: bool) -> None:
    from ddpkit.run.run_index import reload
    from ddpkit.run.status import get_status

    shown = watched.sample()
    if not shown:
        _say_end(get_status(reload(watched.run)), as_json=as_json)
        return
    if as_json:
        _print_samples(shown, line=len(shown) > 1)
        return
    for line in _head(shown):
        look.say(line, "WARN")
    _print_tables(shown)


def _watch(watched: Watched, seconds: float, show: Callable[[Shown], object]) -> None:
    """Show samples until the run ends.

    Where nvidia-smi takes long (without persistence mode: seconds), samples come less often than every `seconds`.
    """
    while True:
        began = time.monotonic()
        shown = watched.sample()
        if shown is None:
            return
        show(shown)
        time.sleep(max(0.05, began + max(seconds, watched.pause) - time.monotonic()))


def _live(watched: Watched, seconds: float) -> None:
    """Show samples at one place of the terminal; where it cannot, one below the other. Ctrl-C leaves the view."""
    from ddpkit.run.run_index import reload
    from ddpkit.run.status import get_status

    last: list[Shown] = []
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):  # the terminal gets its own screen back
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):

            def plain(shown: Shown) -> None:
                print("\n".join([time.strftime("%H:%M:%S"), *_head(shown)]))
                _print_tables(shown)

            _watch(watched, seconds, plain)
        else:
            _redraw(watched, seconds, last)
    except KeyboardInterrupt:
        pass
    finally:
        for shown in last:  # what was seen last stays on the screen
            _print_tables(shown)
    now = get_status(reload(watched.run))
    if now.state.living:
        print(f"run {watched.run.run_id} continues: {now.words}")
    else:
        _say_end(now, as_json=False)


def _redraw(watched: Watched, seconds: float, last: list[Shown]) -> None:
    """Show the run on a screen of its own until it ends. `last` always holds the sample that is shown, and no other."""
    from rich.console import Console, Group
    from rich.live import Live

    from ddpkit.cli.look import as_table, as_text
    from ddpkit.console.guarded import unguarded

    console = Console(file=unguarded(sys.stdout), highlight=False)
    title = f"run {watched.run.run_id}: every {seconds:g} s; Ctrl-C closes this view only"
    with Live(as_text(f"{title}\nasking ..."), console=console, screen=True, auto_refresh=False) as live:

        def show(shown: Shown) -> None:
            last[:] = [shown]
            words = [f"{time.strftime('%H:%M:%S')} {title}", *_head(shown)[:MOST_SENTENCES]]
            tables = []
            for head, rows in _fitted(_tables(shown, odd_first=True), console.size.height - len(words)):
                tables.append(as_table(head, rows))
                for column in tables[-1].columns:
                    column.no_wrap = True  # a row is one line: so it was counted
            above = as_text("\n".join(words))
            above.no_wrap, above.overflow = True, "ellipsis"
            live.update(Group(above, *tables), refresh=True)

        _watch(watched, seconds, show)


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


def _head(shown: Shown) -> list[str]:
    lines = []
    for name, summary in shown:
        of = f"{name}: " if name else ""
        lines += [f"{of}it is ending: its ranks are no longer sampled"] if summary["ending"] else []
        lines += [f"{of}{finding['words']}" for finding in summary["findings"]]
    return lines


def _tables(shown: Shown, *, odd_first: bool = False) -> list[Table]:
    """Return the tables of hosts, GPUs and ranks. `odd_first`: where not all have room, those that a finding names.

    Replicas that share a host have one row of it, and of each of its GPUs.
    """
    hosts: dict[str, tuple[str, ...]] = {}
    gpus: dict[tuple[str, str], tuple[str, ...]] = {}
    users = _gpu_users(shown)
    for _, summary in shown:
        for host in summary["hosts"]:
            hosts[host["host"]] = (
                host["host"],
                f"{_percent(host['cpu'])} of {host['cpus']}",
                " ".join(f"{load:.1f}" for load in host["load"]),
                _usage(host["memory"]),
                _usage(host["shm"]),
                _gpus_of(host),
            )
            for gpu in host["gpus"] or ():
                gpus[host["host"], str(gpu["index"])] = (
                    host["host"],
                    str(gpu["index"]),
                    gpu["name"].removeprefix("NVIDIA "),
                    _number(gpu["utilization"], " %"),
                    _usage(gpu["memory"]),
                    _number(gpu["temperature"], " C"),
                    f"{_number(gpu['power']['draw'])}/{_number(gpu['power']['limit'])} W",
                    ", ".join(users[pid] for each in gpu["processes"] if (pid := (host["host"], each["pid"])) in users),
                    ", ".join(_other(each) for each in gpu["processes"] if (host["host"], each["pid"]) not in users),
                )
        for name in summary["silent"]:
            hosts.setdefault(name, (name, "no answer", "", "", "", ""))
    ranks = _rank_rows(shown, odd_first=odd_first)
    memory = "PSS" if any(rank["pss"] is not None for _, each in shown for rank in each["ranks"]) else "RSS"
    tables: list[Table] = [(("host", "CPU", "load", "memory", "/dev/shm", "GPUs"), [*hosts.values()])]
    if gpus:
        head = ("host", "GPU", "name", "use", "memory", "temp", "power", "ranks", "others")
        tables.append((head, [*gpus.values()]))
    if ranks:
        tables.append((("rank", "host", "pid", "state", "CPU", memory, "processes", "GPU", "last line"), ranks))
    return tables


def _gpu_users(shown: Shown) -> dict[tuple[str, int], str]:
    """Return the rank of each process on a GPU, by host and process id: to another replica it is a stranger."""
    return {
        (host["host"], process["pid"]): f"{name} {process['rank']}".strip()
        for name, summary in shown
        for host in summary["hosts"]
        for gpu in host["gpus"] or ()
        for process in gpu["processes"]
        if process["rank"] is not None
    }


def _rank_rows(shown: Shown, *, odd_first: bool) -> list[tuple[str, ...]]:
    """Return a row for each rank; those that a finding names have a `!`, and with `odd_first` come first."""
    odd: list[tuple[str, ...]] = []
    rest: list[tuple[str, ...]] = []
    for name, summary in shown:
        named = {rank for finding in summary["findings"] for rank in finding["ranks"]}
        for rank in summary["ranks"]:
            row = (
                f"{name} {rank['rank']}{'!' if rank['rank'] in named else ''}".strip(),
                rank["host"],
                str(rank["pid"]),
                rank["state"],
                _percent(rank["cpu"]),
                format_size(rank["rss"] if rank["pss"] is None else rank["pss"]),
                str(rank["tasks"]),
                ", ".join(map(str, rank["gpus"])) or "-",
                "-" if rank["quiet"] is None else f"{format_age(rank['quiet'])} ago",
            )
            (odd if odd_first and rank["rank"] in named else rest).append(row)
    return [*odd, *rest]


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
