"""`ddpkit explain` and `report`: the first failure in a log with its cause and fix, and one HTML page about a run."""

from __future__ import annotations

import difflib
import errno
import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ddpkit.cli import completion, look
from ddpkit.cli.app import JsonFlag, LeanCommand, app, note, option, print_json
from ddpkit.cli.look import Force, check_output, write_output
from ddpkit.cli.runs import RoleName, RunName
from ddpkit.console.style import Panel
from ddpkit.diagnosis import read
from ddpkit.diagnosis.read import LogText
from ddpkit.errors import UsageError
from ddpkit.files import open_to_read
from ddpkit.run.log_files import INDEX
from ddpkit.run.state import RunState
from ddpkit.text import format_age, format_ranges

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.diagnosis.catalogue.entry import Entry
    from ddpkit.diagnosis.decide import LogAnalysis
    from ddpkit.diagnosis.log_match import LogMatch
    from ddpkit.diagnosis.outcome import Failure
    from ddpkit.monitor.dump import HangDump
    from ddpkit.run.record import Run


MOST = 2 << 30  # bytes of a stream that are read
HEAD = 4096  # bytes that show what a file is
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
MOST_UTF_16 = 4 << 20  # bytes of such a text
_TEXT_BYTES = bytes((7, 8, 9, 10, 12, 13, 27, *range(32, 127), *range(128, 256)))
LISTED = 8  # consequences, one line each
ALTERNATIVES = 3  # other causes and warnings


@app.command(
    cls=LeanCommand,
    epilog="A name is looked up in this order: a file or directory, an id of the catalogue, a run. For an id that is "
    "also a file name here, run the command in another directory.",
)
def explain(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|ID|-]...",
            help="Logs of one run, a run's directory or id, - for standard input, or one catalogue id (port-in-use). "
            "Default: the newest run of this project.",
            autocompletion=completion.known_failures,
        ),
    ] = None,
    as_json: JsonFlag = False,
    as_list: Annotated[bool, option("--list", "List the ids of all known failures.")] = False,
) -> None:
    """Find the first failure in a log, its cause and its fix; or print a known failure by its id."""
    if as_list:
        _print_list(as_json)
        return
    files = files or [_newest_run()]
    entry = _entry(files[0]) if len(files) == 1 else None
    if entry is not None:
        if as_json:
            print_json("catalogue_entry", _entry_as_dict(entry))
        else:
            print("\n".join(_describe(entry)))
        return
    from ddpkit.diagnosis import decide

    names: list[str] = []
    run, running = _record(files[0]) if len(files) == 1 else None, ""
    if run is not None and run.replicas:
        run, files = _first_failed_replica(run)
    result = decide.analyze_log(_texts(files, names))
    if result.unread:
        note(f"{result.unread} lines were not looked at: to read them all takes too long")
    if run is not None and not run.state.ended:
        from ddpkit.run import status

        now = status.get_status(run)
        run, running = now.run, now.words if now.state.living else ""
    failure = run.failure if run is not None and run.state is RunState.FAILED else None
    if failure is not None:
        result = decide.put_first(result, failure)
    hang = _hang(run)
    if as_json:
        print_json("explain", {**_as_dict(result, run, failure), "hang": asdict(hang) if hang else None})
    elif failure is not None:
        _show_failure(result, failure, many=len(names) > 1)
    else:
        _show(result, run, hang, many=len(names) > 1, running=running)


def _first_failed_replica(run: Run) -> tuple[Run, list[str]]:
    """Return the run of the replica that failed first, and its log; without one, the run and the logs of all."""
    from ddpkit.run import replicas

    every = replicas.replicas_of(run)
    first = next((each for each in every if each.name == replicas.first_failed(run)), None)
    if first is not None and first.starts:
        note(f"run {run.run_id}: {first.shown} failed first")
        return first.run, [first.run.folder]
    for each in every:
        if each.problem:
            note(f"{each.shown}: {each.problem}")
    return run, [run.folder, *(start.folder for each in every for start in each.starts)]


# ---- the catalogue


def _entry(name: str) -> Entry | None:
    """Find the catalogue entry of an id. None for other words, and for the name of a file."""
    from ddpkit.diagnosis.catalogue import BY_ID

    return None if name == "-" or Path(name).exists() else BY_ID.get(name)


def _entry_as_dict(entry: Entry) -> dict[str, str]:
    from ddpkit.diagnosis.catalogue import category
    from ddpkit.diagnosis.catalogue.entry import filled

    texts = {name: filled(getattr(entry, name), None) for name in ("cause", "probe", "fix")}
    head = {"id": entry.id, "category": category(entry), "kind": entry.kind}
    return {**head, "title": entry.title, **texts, "link": entry.link, "origin": entry.origin}


def _describe(entry: Entry) -> Iterator[str]:
    shown = _entry_as_dict(entry)
    yield f"{entry.id}: {entry.title}"
    labels = {"category": "category", "cause": "cause", "probe": "check"}
    labels |= {"fix": "hint", "link": "more", "origin": "from"}
    yield from (f"{label}: {shown[name]}" for name, label in labels.items() if shown[name])


def _print_list(as_json: bool) -> None:
    from ddpkit.diagnosis.catalogue import ENTRIES, PARTS

    if as_json:
        print_json("catalogue", {"entries": [_entry_as_dict(each) for each in ENTRIES]})
        return
    width = max(len(entry.id) for entry in ENTRIES)
    for title, entries in PARTS.items():
        print(f"{title}:")
        for entry in entries:
            print(f"  {entry.id:<{width}}  {entry.title}")


# ---- logs


def _texts(names: list[str], opened: list[str]) -> Iterator[tuple[str, LogText]]:
    """Yield name and text of one log after the other: one is in memory at a time. `opened` gets the names."""
    for name in names:
        if name == "-":
            opened.append(name)
            yield "-", _not_blank(_read_file(sys.stdin.buffer, "standard input"), "standard input")
            continue
        paths = _paths(name)
        if len(paths) > _MANY:
            note(f"{name}: reads {len(paths)} logs")
        named = Path(name) == paths[0]  # a link that the user typed is meant; one inside a directory may lead anywhere
        unread = 0
        for path in paths:
            try:
                opened.append(str(path))
                yield opened[-1], _read(path, follow=named)
            except UsageError as error:  # one file of a directory: the others are logs
                if len(paths) == 1:
                    raise
                opened.pop()
                unread += 1
                note(f"{error}, and is left out")
        if unread and unread == len(paths):
            raise UsageError(f"{name} holds no log that can be read", f"name a file: ls {shlex.quote(name)}")


def _newest_run() -> str:
    """Return the id of the newest run of this project."""
    from ddpkit.run import status

    newest = next((each.run for each in status.runs_of_project(status.runs_near())), None)
    if newest is None:
        raise UsageError(
            "no log named, and no run of this project found", "ddpkit explain FILE, or COMMAND 2>&1 | ddpkit explain -"
        )
    note(f"run {newest.run_id}, the newest of this project")
    return newest.run_id


def _paths(name: str) -> list[Path]:
    """Return the logs of a name: a file, the logs below a directory, or the directory of a run. Raises UsageError."""
    path = Path(name)
    try:
        if path.is_dir():
            if (path / INDEX).is_file():
                return [path]
            logs = sorted(each for each in path.rglob("*") if each.suffix in _LOGS)
            if not logs:
                raise UsageError(f"{name} holds no log", f"name a file: ls {shlex.quote(name)}")
            return logs
        if path.exists():
            return [path]
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", f"ls -ld {shlex.quote(name)}") from None
    run = _record(name)
    if run is None:
        raise _unknown_name(name)
    if not os.path.lexists(run.folder):
        why = f"its directory was moved or deleted: {run.folder}"
        raise UsageError(f"run {run.run_id}: {why}", f"ls -ld {shlex.quote(str(Path(run.folder).parent))}")
    return _paths(run.folder)


def _unknown_name(name: str) -> UsageError:
    """Return the error for a name, with similar ids: that begin with it, are spelled alike, or share words with it."""
    from ddpkit.diagnosis.catalogue import BY_ID

    words = {word for word in name.split("-") if len(word) > 2}
    shared = {each: len(words & set(each.split("-"))) for each in BY_ID}
    similar = [each for each in BY_ID if name and each.startswith(name)] + difflib.get_close_matches(name, BY_ID, n=4)
    similar += sorted((each for each in BY_ID if shared[each]), key=lambda each: -shared[each])
    similar = list(dict.fromkeys(similar))[:4]
    what = f"{name} not found: no file, run or catalogue id has this name"
    if not similar:
        return UsageError(what, "ddpkit ps -a lists the runs, ddpkit explain --list the catalogue")
    return UsageError(f"{what} (similar: {', '.join(similar)})", f"ddpkit explain {similar[0]}")


_LOGS = (".log", ".out", ".err", ".txt")
_MANY = 300  # logs that take seconds to read


def _record(name: str) -> Run | None:
    """Find the record of a run by its directory or id; None for any other log."""
    if name == "-" or Path(name).is_file():
        return None
    from ddpkit.run import run_index

    if Path(name).exists():
        return run_index.read_run(Path(name))
    try:
        return run_index.find_run(name, run_index.list_runs([name]), "ddpkit explain {}")
    except run_index.NoSuchRunError:
        return None


def _read(path: Path, *, follow: bool) -> LogText:
    """Read a log. One that the user named can also be a link, or a pipe, `<(ssh node1 cat LOG)`, up to its end."""
    try:
        if path.is_dir():
            return _not_blank(_read_run(path), str(path))
        with open(open_to_read(path, follow=follow, pipes=follow), "rb") as file:
            text = _read_file(file, str(path), os.fstat(file.fileno()).st_size)
    except OSError as error:
        why = "it is a link, which a log of a run is not" if error.errno == errno.ELOOP else error.strerror or error
        raise UsageError(f"cannot read {path}: {why}", f"ls -l {shlex.quote(str(path))}") from None
    return _not_blank(text, str(path))


def _not_blank(text: LogText, name: str) -> LogText:
    if not text.text.strip():
        raise _blank(name, "has only blank lines" if text.text else "is empty")
    return text


def _read_file(file: BinaryIO, name: str, size: int = 0) -> LogText:
    """Read a file, or with size 0 a pipe up to its end."""
    head = file.read(HEAD)
    _refuse_no_text(head, name)
    if head[:2] in _UTF_16:
        return LogText((head + file.read(MOST_UTF_16 - HEAD)).decode("utf-16", "replace"))
    if not size:
        return read.condense(_limited(chain([head], read.blocks_of(file)), name))
    file.seek(0)
    if size > read.FIRST + read.LAST:
        _note_parts(name)
    return read.read_long(file, size)


def _note_parts(name: str) -> None:
    note(f"{name}: only its first {read.FIRST >> 20} and last {read.LAST >> 20} MiB are read")


def _read_run(folder: Path) -> LogText:
    """Read the lines of all ranks of a run in their order."""
    from ddpkit.run.logs import CUT_WORDS, is_cut, read_ordered

    text = read_ordered(folder)
    if is_cut(folder):
        note(f"{folder}: {CUT_WORDS}")
    if text.left_out:
        _note_parts(str(folder))
    return text


def _limited(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the blocks of a stream up to a limit: it need not end."""
    left = MOST
    for block in blocks:
        yield block
        left -= len(block)
        if left <= 0:
            note(f"{name}: only its first {MOST >> 20} MiB are read")
            return


def _blank(name: str, what: str = "is empty") -> UsageError:
    return UsageError(f"{name} {what}", "a rank's errors are on standard error: COMMAND 2>&1 | ddpkit explain -")


def _refuse_no_text(head: bytes, name: str) -> None:
    """Refuse what is no log by its first bytes. NULs alone do not count: a file torn by NFS has them."""
    if not head:
        raise _blank(name)
    if head[:2] == b"\x1f\x8b":
        raise UsageError(f"{name} is compressed", f"zcat {shlex.quote(name)} | ddpkit explain -")
    if head[:2] in _UTF_16:
        return
    rest = head.replace(b"\0", b"")
    odd = len(rest.translate(None, _TEXT_BYTES))
    if odd * 10 > len(rest) or (b"\0" in head.rstrip(b"\0") and not rest.strip()):
        raise UsageError(f"{name} is not text", "name the log of a run")


def _hang(run: Run | None) -> HangDump | None:
    """Return the hang in the newest dump of a run that was stopped, or runs."""
    if run is None or run.state in (RunState.DONE, RunState.FAILED):
        return None
    from ddpkit.monitor.dump import newest_hang

    return newest_hang(Path(run.folder))


def _place(match: LogMatch, many: bool) -> str:
    return f"{match.file}:{match.number}" if many else f"line {match.number}"


def _show(result: LogAnalysis, run: Run | None, hang: HangDump | None, many: bool, running: str) -> None:
    """Show the first failure of the logs; of a run's own log also how the run ended, or that it is `running`.

    A hang without an error in the log is shown as its dump has it.
    """
    first = result.first
    if run is not None and running:
        look.say(f"run {run.run_id}: {running}", "running")
    if run is not None and run.state in (RunState.DONE, RunState.FAILED, RunState.STOPPED):
        words = f"run {run.run_id} succeeded" if run.state is RunState.DONE else f"run {run.run_id} {run.state}"
        look.say(words + (f": {run.verdict}" if run.verdict else ""), run.state)
    state = run.state if run is not None else None
    if state is RunState.STOPPED and first is not None and first.kind in ("consequence", "death"):
        # Its ranks report the signal of their launcher, and torchrun a failed rank.
        _show_hang(hang, run) if hang and run else _show_nothing(result, many, run)
        return
    if first is None and run is not None and hang is not None:
        _show_hang(hang, run)
    elif first is None:
        _show_nothing(result, many, run)
    elif first.kind == "hint" and state is RunState.DONE:
        _show_nothing(result, many, run)
        result.hints.insert(0, first)
    else:
        who = (first.reporter or first.speaker).describe()
        headline = f"{_place(first, many)}{', ' + who if who else ''}: {first.text}"
        # A frame with a title is for eyes; in a pipe the first line is the place.
        title = "WARN" if first.kind == "hint" else "FAILED"
        look.show(Panel(title if look.rich_out() else "", headline, list(_facts(first, result.first_alarm))))
    for line in _more(result, many):
        print(line)


def _show_failure(result: LogAnalysis, failure: Failure, many: bool) -> None:
    """Show the first failure as the record of the run has it, and the line of its log that shows it."""
    from ddpkit.diagnosis import verdict

    headline, facts = verdict.describe(failure, failure.diagnosis)
    if result.first is not None:
        who = result.first.speaker.describe()
        facts.insert(0, ("log line", f"{_place(result.first, many)}{', ' + who if who else ''}: {result.first.text}"))
        facts += [("check", result.first.probe)] if result.first.probe else []
    look.show(Panel("FAILED" if look.rich_out() else "", headline, facts))
    for line in _more(result, many):
        print(line)


def _show_hang(hang: HangDump, run: Run) -> None:
    cause, *others = hang.findings
    when = (
        f"{format_age(run.ended - hang.time)} before the end"
        if run.ended
        else f"{format_age(time.time() - hang.time)} ago"
    )
    facts = [("also", each.words) for each in others]
    facts += [("dump", f"{hang.folder}/ ({when})"), ("hint", f"less {shlex.quote(hang.folder)}/rank_*.txt")]
    look.show(Panel("WARN" if look.rich_out() else "", f"hang: {cause.words}", facts))


def _show_nothing(result: LogAnalysis, many: bool, run: Run | None) -> None:
    """Say that no failure is in the logs; or that none is known, with the first line that looks like one."""
    from ddpkit.launchers.shell import count

    if result.first_alarm is None or result.first is not None:
        is_whole = run is not None or result.healthy or result.first is not None
        few = "only few steps" if result.stepped else "no training step"
        cut = "" if is_whole else f", and {few}: it may be cut"
        print(f"no failure in this log ({count(result.lines, 'line')}){cut}")
        return
    name, number, text = result.first_alarm
    unended = "Traceback (most recent call last)" in text
    what = "a traceback that is cut off before its exception" if unended else "a known failure or a Python error"
    print(f"not known: {count(result.lines, 'line')} {'with' if unended else 'without'} {what}")
    print(f"first line with an error: {f'{name}:{number}' if many else f'line {number}'}: {text}")


def _facts(first: LogMatch, alarm: tuple[str, int, str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield label and text of what is known of the first failure. `alarm`: the first line that looks like an error."""
    if first.reporter is not None:
        yield "note", f"this rank waited; check {first.speaker.describe()}, which did not"
    if "SIGINT" in first.entry.seen:
        yield (
            "note",
            "no failure is above this line; if the run hung, look at its ranks before you end it: ddpkit dump RUN",
        )
    elif first.kind == "consequence":
        yield "note", "the first failure is not in this log; this line is a consequence"
    elif first.kind == "hint" and alarm is not None:
        yield "note", f"the failure is not known (line {alarm[1]}: {alarm[2][:80]}); this may have led to it"
    elif first.kind == "hint":
        yield "note", f"no failure is in this log; this {'may lead to one' if first.may_end_a_run else 'is a warning'}"
    yield "cause", first.cause
    if first.fix:
        yield "hint", first.fix
    if first.probe:
        yield "check", first.probe
    if first.entry.link:
        yield "more", f"{first.entry.link} ({first.id})"
    if first.entry.origin:
        yield "from", f"{first.entry.origin} ({first.id})"


def _more(result: LogAnalysis, many: bool) -> Iterator[str]:
    """Yield lines on everything else in the logs."""
    from ddpkit.launchers.shell import count

    first = result.first
    if result.alike and first is not None:
        ranks = sorted(
            {each.speaker.rank for each in result.alike if each.speaker.rank is not None} - {first.speaker.rank}
        )
        also = f", also on rank {format_ranges(ranks, most=12)}" if ranks else _other_hosts(result)
        yield f"repeated: {count(len(result.alike), 'more time')}{also}"
    if result.silent_ranks:
        silent = format_ranges(result.silent_ranks, most=12)
        if len(result.silent_ranks) == 1:
            yield f"check rank {silent}: it prints in this log, and does not report that it waited"
        else:
            yield f"check ranks {silent}: they print in this log, and do not report that they waited"
    if result.restarts and first is not None:
        often = count(result.restarts, "time")
        yield f"torchrun started the ranks again {often}: the failure before its first restart is the one to read"
    for each in result.others[:ALTERNATIVES]:
        label = "later" if first and each.file == first.file and each.number > first.number else "also"
        yield f"{label}, {_place(each, many)}: {each.text[:160]}"
        yield f"  {each.cause}; hint: {each.fix}" if each.known else f"  {each.summary}"
    for each in result.survived[: LISTED // 2]:
        yield f"survived, {_place(each, many)}: {each.text[:160]}"
    for each in result.hints[: ALTERNATIVES - len(result.others[:ALTERNATIVES])]:
        yield f"possible cause, {_place(each, many)}: {each.cause}; hint: {each.fix}"
    yield from _consequences(result, many)


def _other_hosts(result: LogAnalysis) -> str:
    """Return words for hosts that only a launcher's lines name; empty: there are none, or more than repetitions."""
    if result.first is not None and result.first.entry.scope == "job":
        return ""
    named = {each.speaker.host for each in (result.first, *result.alike) if each}
    reported = dict.fromkeys(each.speaker.host or each.values.get("host", "") for each in result.consequences)
    hosts = [host for host in reported if host and host not in named]
    return f", also on {', '.join(hosts[:LISTED])}" if hosts and len(hosts) <= len(result.alike) else ""


def _consequences(result: LogAnalysis, many: bool) -> Iterator[str]:
    """Yield a line for each kind of consequence, with the places of its lines."""
    groups: dict[str, list[LogMatch]] = {}
    for each in result.consequences:
        groups.setdefault(each.id, []).append(each)
    if groups:
        yield "only consequences:"
    for group in list(groups.values())[:LISTED]:
        places = (
            format_ranges((each.number for each in group), most=12)
            if not many
            else ", ".join(_place(each, True) for each in group[:4])
        )
        more = f" and {len(group) - 4} more" if many and len(group) > 4 else ""
        yield f"  {'line ' if not many else ''}{places}{more}: {group[0].cause}"


def _action(result: LogAnalysis, failure: Failure | None) -> dict[str, object]:
    from ddpkit.diagnosis.action import decide

    known = failure.action if failure is not None else None
    return asdict(known or decide(result))


def _as_dict(result: LogAnalysis, run: Run | None, failure: Failure | None) -> dict[str, Any]:
    """Return what --json prints. `failure`: the first one by the record of the run."""

    def one(match: LogMatch) -> dict[str, Any]:
        return {
            "id": match.id,
            "kind": match.kind,
            "file": match.file,
            "line": match.number,
            "text": match.text,
            "rank": match.speaker.rank,
            "local_rank": match.speaker.local,
            "host": match.speaker.host or None,
            "cause": match.cause,
            "probe": match.probe,
            "fix": match.fix,
            "link": match.entry.link,
            "origin": match.entry.origin,
        }

    return {
        "known": result.first is not None,
        "first": None if result.first is None else one(result.first),
        "verdict": run.verdict if run is not None else None,
        "action": _action(result, failure),
        "alike": [one(each) for each in result.alike],
        "others": [one(each) for each in result.others],
        "hints": [one(each) for each in result.hints],
        "consequences": [one(each) for each in result.consequences],
        "survived": [one(each) for each in result.survived],
        "healthy": result.healthy,
        "silent": result.silent_ranks,
        "restarts": result.restarts,
        "lines": result.lines,
        "suspicious": None
        if result.first_alarm is None
        else dict(zip(("file", "line", "text"), result.first_alarm, strict=True)),
    }


@app.command(
    cls=LeanCommand,
    epilog="The page needs nothing else: no network, no other file. It also shows which data were not recorded.",
)
def report(
    run: RunName = None,
    output: Annotated[
        str | None, option("-o --output", "Write to FILE. [default: report.html of your run's directory]", "FILE")
    ] = None,
    force: Force = False,
    metrics: Annotated[
        str | None,
        option("--metrics", "Read steps from FILE: lines of JSON. [default: the run's metrics.jsonl]", "FILE"),
    ] = None,
    role: RoleName = None,
    as_json: JsonFlag = False,
) -> None:
    """Write one HTML page about a run: where it ran, its start, its curves, its slowest rank, its end."""
    from ddpkit.run import replicas, status
    from ddpkit.run.documents import attempt_document, failure_document
    from ddpkit.run.report import page, summary

    if output is not None:
        check_output("--output", Path(output), force=force)
    given = Path(metrics) if metrics is not None else None
    if given is not None and not given.is_file():
        raise UsageError(f"file {metrics} not found", "ls -l *.jsonl")
    chosen = status.choose(run, "ddpkit report {}", newest=True)
    if run is None:
        note(f"run {chosen.run_id}, the newest of this project")
    now = status.get_status(chosen if role is None else replicas.choose_one(chosen, role).run)
    contents = summary.report(now, summary.read(now.run, metrics_file=given), time.time())
    if as_json:
        failure = failure_document(contents.failure) if contents.failure else None
        attempts = [attempt_document(each) for each in contents.attempts]
        print_json("report", {**asdict(contents), "failure": failure, "attempts": attempts})
        if output is None:
            return
    path = Path(output) if output is not None else _page_of(now.run)
    again = output is None and page.is_page(path)  # the page of the same run, as it was before
    write_output("--output", path, page.page(contents), force=force or again)
    print(path, file=sys.stderr if as_json else sys.stdout)


def _page_of(run: Run) -> Path:
    """Return the page's file: in the run's directory, unless that is somebody else's. Raises UsageError."""
    from ddpkit.run.run_files import is_own

    if is_own(Path(run.folder)):
        return Path(run.folder) / "report.html"
    path = Path(f"{run.run_id}.html")
    if not is_own(Path.cwd()):
        raise UsageError(f"{run.folder} and this directory belong to another user", f"--output ~/{run.run_id}.html")
    note(f"{run.folder} belongs to another user; the page is {path} in this directory")
    return path
