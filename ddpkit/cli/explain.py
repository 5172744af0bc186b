"""`ddpkit explain`: why a run failed, from its log, whatever launched it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app
from ddpkit.errors import UsageError
from ddpkit.files import read_tail
from ddpkit.text import format_ranges

if TYPE_CHECKING:
    from ddpkit.diagnosis.analyze import LogAnalysis
    from ddpkit.diagnosis.log_match import LogMatch

MOST = 64 << 20  # bytes of a log that are read: its end
LISTED = 8  # consequences, one line each


@app.command(cls=LeanCommand)
def explain(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|-...", help="Logs of one run, a run's folder, a run's id, or - for what is piped in."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what failed first in a log, why, and what to do; from any launcher."""
    from ddpkit.diagnosis import analyze

    if not files:
        raise UsageError("which log? Nothing was named", "ddpkit explain FILE, or COMMAND 2>&1 | ddpkit explain -")
    # One file after the other: their texts need not be in memory at once more than twice.
    result = analyze.analyze_log(list(_texts(files)))
    if as_json:
        print(json.dumps(_as_dict(result), indent=2))
    else:
        for line in _report(result, many=len(files) > 1 or Path(files[0]).is_dir()):
            print(line)


def _texts(names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name == "-":
            yield "-", _decoded(sys.stdin.buffer.read(), "what was piped in")
            continue
        for path in _paths(name):
            yield str(path), _read(path)


def _paths(name: str) -> list[Path]:
    path = Path(name)
    try:
        if path.is_dir():
            merged = path / "all.log"
            logs = [merged] if merged.is_file() else sorted(each for each in path.rglob("*") if each.suffix in _LOGS)
            if not logs:
                raise UsageError(f"{name} holds no log", f"name a file: ls {name}")
            return logs
        if path.exists():
            return [path]
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}", f"ls -ld {name}") from None
    folder = _run(name)
    if folder is None:
        raise UsageError(f"there is no file {name}, and no run of that name", "ddpkit ps -a lists the runs")
    return _paths(folder)


_LOGS = (".log", ".out", ".err", ".txt")


def _run(name: str) -> str | None:
    from ddpkit.run import run_index

    try:
        return run_index.find_run(name, run_index.list_runs()).folder
    except UsageError:
        return None


def _read(path: Path) -> str:
    try:
        data = read_tail(path, MOST)
        skipped = path.stat().st_size > MOST
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", f"ls -l {path}") from None
    if skipped:
        print(
            f"ddpkit: {path}: only its last {MOST >> 20} MiB are read, and lines are counted from there",
            file=sys.stderr,
        )
    return _decoded(data, str(path))


def _decoded(data: bytes, name: str) -> str:
    if not data.strip():
        raise UsageError(f"{name} is empty", "a rank's errors are on standard error: COMMAND > LOG 2>&1")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if data[:2] == b"\x1f\x8b":
        raise UsageError(f"{name} is compressed", f"zcat {name} | ddpkit explain -")
    if b"\0" in data[:4096].rstrip(b"\0"):
        raise UsageError(f"{name} is not text", "name the log of a run")
    return data.decode("utf-8", "replace")


def _place(match: LogMatch, many: bool) -> str:
    return f"{match.file}:{match.number}" if many else f"line {match.number}"


def _report(result: LogAnalysis, many: bool) -> Iterator[str]:
    first = result.first
    if first is None:
        yield f"not known: nothing in these {result.lines} lines is in the catalogue, and there is no Python error"
        if result.first_alarm:
            name, number, text = result.first_alarm
            yield f"the first line that speaks of an error: {f'{name}:{number}' if many else f'line {number}'}: {text}"
        return
    who = first.speaker.describe()
    yield f"{_place(first, many)}{', ' + who if who else ''}: {first.text}"
    if first.kind == "consequence":
        yield "what came first is not in this log; this only followed from it:"
    elif first.kind == "hint":
        yield "no failure is in this log; this may be behind one:"
    yield f"cause: {first.cause}"
    if first.fix:
        yield f"fix: {first.fix}"
    if first.probe:
        yield f"see for yourself: {first.probe}"
    if first.link:
        yield f"more: {first.link} ({first.id})"
    if result.alike:
        ranks = sorted(
            {each.speaker.rank for each in result.alike if each.speaker.rank is not None} - {first.speaker.rank}
        )
        also = f", of rank {format_ranges(ranks, most=12)} as well" if ranks else ""
        yield f"the same again: {len(result.alike)} x{also}"
    if result.silent_ranks:
        silent = format_ranges(result.silent_ranks, most=12)
        yield f"look at rank {silent}: it speaks in this log, and does not say that it waited"
    for each in result.others[:LISTED]:
        yield f"later, {_place(each, many)}: {each.text[:160]}"
        yield f"  {each.cause}; fix: {each.fix}" if each.entry else f"  {each.summary}"
    for each in result.hints[:LISTED]:
        yield f"perhaps behind it, {_place(each, many)}: {each.cause}; fix: {each.fix}"
    yield from _consequences(result, many)


def _consequences(result: LogAnalysis, many: bool) -> Iterator[str]:
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


def _as_dict(result: LogAnalysis) -> dict[str, Any]:
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
            "link": match.link,
        }

    return {
        "known": result.first is not None,
        "first": None if result.first is None else one(result.first),
        "alike": [one(each) for each in result.alike],
        "others": [one(each) for each in result.others],
        "hints": [one(each) for each in result.hints],
        "consequences": [one(each) for each in result.consequences],
        "silent": result.silent_ranks,
        "lines": result.lines,
        "suspicious": None
        if result.first_alarm is None
        else dict(zip(("file", "line", "text"), result.first_alarm, strict=True)),
    }
