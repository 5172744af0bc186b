"""A report as one HTML page that needs nothing else: no network, no script, and nothing foreign in it is markup.

Its own Content-Security-Policy forbids scripts and requests, should an escape ever be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ddpkit.files import read_head
from ddpkit.launchers.shell import join
from ddpkit.run.documents import describe
from ddpkit.run.record import Code
from ddpkit.run.report import startup, steps, svg
from ddpkit.run.report.css import CSS
from ddpkit.run.report.summary import Lane, Place, Report
from ddpkit.run.report.words import lines, moment, seconds, text
from ddpkit.text import format_hosts, format_ranges

ROWS = 64  # ranks in a picture; of more, those that differ most are shown
Column = tuple[str, str, Callable[[Place], str]]  # title, class, what stands there
MADE_BY = '<meta name="generator" content="ddpkit report">'  # by this the page is known for one that may be replaced
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(report: Report) -> str:
    """The whole page."""
    parts = [
        _head(report),
        _places(report),
        _lanes(report),
        _time(report),
        # Each replica has a start and steps of its own.
        "" if report.lanes else _start(report),
        _curves(report),
        "" if report.lanes else _steps(report),
        _preflight(report),
    ]
    parts += [_plan(report), _tail(report)]
    made, home = text(moment(report.made)), text(report.launcher_host)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
{MADE_BY}
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{text(report.run_id)}: {text(report.state)}</title>
<style>{CSS}</style>
</head>
<body><main>
{"".join(parts)}
<footer>Made by ddpkit report, {made}. All times are on the clock of {home}.</footer>
</main></body>
</html>
"""


def is_page(path: Path) -> bool:
    """Whether a file is a page that `page` made. Raises nothing."""
    try:
        head = read_head(path, 1000)
    except OSError:
        return False
    return head.startswith(b"<!DOCTYPE html>") and MADE_BY.encode() in head


def _section(title: str, body: str, name: str, kind: str = "") -> str:
    return f'<section id="{name}" class="{kind}"><h2>{text(title)}</h2>{body}</section>\n'


def _head(report: Report) -> str:
    end = report.ended
    took = seconds((report.ended or report.made) - report.started)
    still = report.state.living
    facts = [
        ("command", f"<code>{text(join(report.command))}</code>"),
        ("in", f"<code>{text(report.workdir)}</code>"),
        ("started", f"{text(moment(report.started))} on {text(report.launcher_host)}"),
        ("took", took if end else f"{took} so far; it is still running" if still else "not known"),
        ("backend", text(report.backend) + (f", job {text(report.job_id)}" if report.job_id else "")),
        ("ranks", text(report.world_size)),
        *([("commit", _code(report.code))] if report.code else []),
        ("logs", f"<code>{text(report.folder)}</code>"),
    ]
    hint = f'<p class="hint">hint: {text(report.hint)}</p>' if report.hint else ""
    last = report.failure.last_lines if report.failure else ()
    failed = f"<pre>{lines(last)}</pre>" if any(map(str.strip, last)) else ""
    code = f" (exit code {text(report.exit_code)})" if report.exit_code else ""
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return (
        f'<section id="verdict" class="head {text(report.state)}"><div class="title"><h1>{text(report.run_id)}</h1>'
        f'<span class="badge">{text(report.state)}{code}</span></div>'
        f'<p class="verdict">{text(report.summary)}</p>{hint}{failed}<dl>{rows}</dl></section>\n'
    )


def _code(code: Code) -> str:
    facts = [
        f"branch {code.branch}" if code.branch else "",
        code.remote,
        "with changes not committed" if code.dirty else "",
    ]
    return f"<code>{text(code.commit[:12])}</code> {text(', '.join(filter(None, facts)))}"


def _places(report: Report) -> str:
    columns: list[Column] = [
        ("host", "", lambda each: text(each.host)),
        ("ranks", "", lambda each: text(format_ranges(each.ranks)) or "not known"),
        ("GPUs", "n", lambda each: _known(each.gpus)),
        ("CPUs", "n", lambda each: _known(each.cpus)),
        ("Python", "", lambda each: text(each.python)),
        ("torch", "", lambda each: text(each.torch)),
        ("CUDA", "", lambda each: text(each.cuda)),
        ("NCCL", "", lambda each: text(each.nccl)),
        ("addresses", "", lambda each: text(each.address)),
    ]
    used = [column for column in columns if any(column[2](each) for each in report.places)]
    head = "".join(f'<th class="{kind}">{name}</th>' for name, kind, _ in used)
    rows = "".join(_place(each, used) for each in report.places)
    table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return _section("Nodes", table, "places")


def _lanes(report: Report) -> str:
    """A lane for each replica of a run of roles."""
    if not report.lanes:
        return ""
    total = (report.ended or report.made) - report.started
    rows = "".join(
        f'<tr data-replica="{text(lane.replica)}">{_who_of(lane)}<td>{svg.lane(lane.parts, total)}</td>'
        f"<td>{text(lane.summary)}</td></tr>"
        for lane in report.lanes
    )
    ticks = "".join(f"<span>{seconds(total * n / 4) if n else '0'}</span>" for n in range(5))
    head = '<tr><th class="who">replica</th><th></th><th>state</th></tr>'
    axis = f'<tr class="axis"><td></td><td><div class="ticks">{ticks}</div></td><td></td></tr>'
    body = f'<table class="strips start"><thead>{head}</thead><tbody>{rows}{axis}</tbody></table>'
    more = f"ddpkit report {report.run_id} --role {report.lanes[0].replica}"
    note = f'<p class="soft small">Its start and its steps: <code>{text(more)}</code></p>'
    return _section("Roles", body + note, "roles")


def _who_of(lane: Lane) -> str:
    where = f"{format_hosts(lane.hosts)}, {lane.ranks} rank{'s' * (lane.ranks != 1)}" if lane.hosts else "not started"
    return f'<th class="who">{text(lane.replica)} <span class="soft">{text(where)}</span></th>'


def _time(report: Report) -> str:
    """The ledger, and the attempts of a run with --retries."""
    rows = "".join(
        f'<tr><th>{text(name)}</th><td class="n">{_seconds(value)}</td><td>{text(note)}</td></tr>'
        for name, value, note in describe(report.ledger)
    )
    body = f'<div class="wide"><table><tbody>{rows}</tbody></table></div>'
    if report.attempts:
        ends = "".join(
            f'<tr><td class="n">{text(each.number)}</td><td>{text(format_hosts(each.hosts))}</td>'
            f"<td>{text(each.verdict or ('running' if each.ended is None else 'succeeded'))}</td>"
            f"<td>{text(f'{each.decision.action}: {each.decision.reason}' if each.decision else '')}</td></tr>"
            for each in report.attempts
        )
        head = '<tr><th class="n">attempt</th><th>hosts</th><th>end</th><th>decision</th></tr>'
        body += f'<div class="wide"><table><thead>{head}</thead><tbody>{ends}</tbody></table></div>'
    return _section("Time", body, "time")


def _place(place: Place, columns: Sequence[Column]) -> str:
    cells = "".join(f'<td class="{kind}">{show(place)}</td>' for _, kind, show in columns)
    return f"<tr>{cells}</tr>"


def _known(value: int | None) -> str:
    return "" if value is None else text(value)


def _who(rank: int, host: str) -> str:
    number, name = text(rank), text(host)
    return f'<th class="who" title="rank {number} on {name}">{number} <span class="soft">{name}</span></th>'


def _start(report: Report) -> str:
    start = report.start
    body = f"<p>{text(start.words)}</p>"
    if start.phases:
        total = max(each.end for row in start.rows for each in row.segments)
        rows, left_out = _chosen(start.rows, [row.segments[-1].end if row.segments else 0.0 for row in start.rows])
        names = {each.phase for each in start.phases}
        key = "".join(
            f'<li><i style="background:var(--p-{name})"></i>{text(startup.PHASES[name])}</li>'
            for name in startup.PHASES
            if name in names
        )
        strips = "".join(
            f'<tr data-rank="{text(row.rank)}">{_who(row.rank, row.host)}<td>{svg.bar(row.segments, total)}</td>'
            f'<td class="n">{_ended(row)}</td></tr>'
            for row in rows
        )
        ticks = "".join(f"<span>{seconds(total * n / 4) if n else '0'}</span>" for n in range(5))
        body += (
            f'<ul class="key">{key}</ul><table class="strips start"><thead><tr><th class="who">rank</th><th></th>'
            f'<th class="n">first step</th></tr></thead><tbody>{strips}<tr class="axis"><td></td>'
            f'<td><div class="ticks">{ticks}</div></td><td></td></tr></tbody></table>{left_out}{_phases(start)}'
        )
        again = [f"rank {row.rank}: {row.attempts}" for row in start.rows if row.attempts > 1]
        if again:
            note = f"Started more than once, the last start is shown: {', '.join(again)}."
            body += f'<p class="soft small">{text(note)}</p>'
    return _section("Start-up time", body + _by_node(start), "start")


def _ended(row: startup.Row) -> str:
    last = row.segments[-1] if row.segments else None
    return seconds(last.end) if last and last.phase == "step" else "none seen"


def _phases(start: startup.Start) -> str:
    rows = "".join(
        f'<tr><th>{text(each.words)}</th><td class="n">{seconds(each.seconds)}</td>'
        f'<td class="n">{seconds(each.longest)}</td><td>rank {text(each.rank)} on {text(each.host)}</td></tr>'
        if each.phase != "prepared"
        else f'<tr><th>{text(each.words)}</th><td class="n">{seconds(each.seconds)}</td><td></td><td></td></tr>'
        for each in start.phases
    )
    last = sorted(start.entered.items(), key=lambda each: -each[1])
    shown = last[:NODES_SHOWN] if len(last) > NODES_SHOWN else start.entered.items()
    entered = "".join(f"<li>{text(host)} {seconds(max(0.0, when))}</li>" for host, when in shown)
    which = f"The last {NODES_SHOWN} of {len(last)} nodes" if len(last) > NODES_SHOWN else "Nodes"
    nodes = f'<p class="soft small">{which} connected after:</p><ul class="key">{entered}</ul>' if entered else ""
    head = '<tr><th>phase</th><th class="n">median</th><th class="n">longest</th><th>slowest rank</th></tr>'
    table = f'<div class="wide"><table class="phases"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    return f"{table}{nodes}"


NODES_SHOWN = 16
_OF_NODE = {"imported": "import torch", "connect": "rendezvous", "group": "NCCL, gloo", "step": "until the first step"}


def _by_node(start: startup.Start) -> str:
    """Return a table of the nodes, the slowest first; nothing for one node without local copies."""
    staged = any(node.copies for node in start.nodes)
    if len(start.nodes) < 2 and not staged:
        return ""
    names = ("to the rendezvous", *(["local copies"] if staged else []), *_OF_NODE.values())
    head = "".join(f'<th class="n">{name}</th>' for name in names)
    rows = "".join(
        f'<tr><th>{text(node.host)}</th><td class="n">{seconds(node.own)}</td>'
        + (f'<td class="n">{_copies_of(node)}</td>' if staged else "")
        + "".join(f'<td class="n">{seconds(node.phases.get(name, 0.0))}</td>' for name in _OF_NODE)
        + "</tr>"
        for node in sorted(start.nodes, key=_slowness)[:NODES_SHOWN]
    )
    head = f"<tr><th>node, slowest first</th>{head}</tr>"
    return f'<div class="wide"><table class="phases"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _slowness(node: startup.NodeStart) -> tuple[float, float]:
    return -node.own, -sum(copy.seconds for copy in node.copies)


def _copies_of(node: startup.NodeStart) -> str:
    """Return the time and the size of a node's local copies."""
    if not node.copies:
        return ""
    took = seconds(sum(copy.seconds for copy in node.copies))
    size = sum(copy.size for copy in node.copies)
    return f"{took}, {size / 1e6:.1f} MB" if any(copy.copied for copy in node.copies) else f"{took}, present"


def _curves(report: Report) -> str:
    if not report.charts:
        why = f"{report.metrics} contains no numbers" if report.metrics else "no metrics file found"
        body = (
            f'<p class="soft">Not recorded: {text(why)}. A script that writes lines like '
            '<code>{"step": 10, "loss": 0.42}</code> into metrics.jsonl has its curves here.</p>'
        )
        return _section("Loss and accuracy", body, "curves")
    pictures = "".join(svg.chart(each) for each in report.charts)
    note = f'<p class="soft small">From <code>{text(report.metrics)}</code>, over optimizer steps.</p>'
    return _section("Loss and accuracy", f'<div class="charts">{pictures}</div>{note}', "curves")


def _steps(report: Report) -> str:
    took = report.steps
    body = f'<p class="straggler">{text(took.words)}</p>'
    if took.rows:
        known = [row for row in took.rows if row.own_seconds is not None]
        if known:
            body += "<h3>Own work of each rank: data, forward, backward, up to its last gradient</h3>"
            body += _heat(took, "own")
        body += "<h3>Whole steps, with the waiting for the others</h3>" + _heat(took, "whole")
        body += (
            f'<p class="soft small">Steps 2 to {took.steps + 1:,}, from left to right. A cell is the mean of some '
            "steps. Full colour is at least twice the median and at least 5 ms above it. The host's clock measures a "
            "step: work on a GPU counts until it is queued.</p>"
        )
    return _section("Step time of each rank", body, "steps", "long")


def _heat(took: steps.Steps, which: str) -> str:
    """The heat map of all ranks' steps. `which`: their `own` work, or `whole` steps."""
    own = which == "own"
    medians = [(row.own_seconds if own else row.whole_seconds) or 0.0 for row in took.rows]
    rows, left_out = _chosen(took.rows, medians)
    values = [value for row in took.rows for value in (row.own if own else row.whole) if value is not None]
    low, high = svg.bounds(values)
    slow = took.slowest.rank if own and took.slowest and took.slowest.stands_out else None
    shown = "".join(
        f'<tr data-rank="{text(row.rank)}" class="{"slowest" if row.rank == slow else ""}">{_who(row.rank, row.host)}'
        f"<td>{svg.heat(row.own if own else row.whole, low, high, f'rank {row.rank} on {row.host}')}</td>"
        f'<td class="n">{_seconds(row.own_seconds if own else row.whole_seconds)}</td></tr>'
        for row in rows
    )
    head = '<tr><th class="who">rank</th><th></th><th class="n">median</th></tr>'
    return (
        f'<table class="strips heat {which}"><thead>{head}'
        f"</thead><tbody>{shown}</tbody></table>{svg.ramp(low, high)}{left_out}"
    )


def _seconds(value: float | None) -> str:
    return "not known" if value is None else seconds(value)


def _chosen(rows: Sequence[Any], slowness: Sequence[float]) -> tuple[Sequence[Any], str]:
    """As many rows as can be read: of more the slowest, in the order of their ranks. And a note that says so, or ""."""
    if len(rows) <= ROWS:
        return rows, ""
    slowest = sorted(range(len(rows)), key=lambda index: slowness[index], reverse=True)[:ROWS]
    left_out = f'<p class="soft small">The {ROWS} slowest of {len(rows)} ranks; the tables count all of them.</p>'
    return [rows[index] for index in sorted(slowest)], left_out


def _preflight(report: Report) -> str:
    preflight = report.preflight
    rows = "".join(
        f'<tr><td class="{text(each.status)}">{text(each.status)}</td><td>{text(each.where)}</td>'
        f"<td>{text(each.what)}{_fix(each.fix)}</td></tr>"
        for each in preflight.findings
    )
    table = f'<div class="wide"><table><tbody>{rows}</tbody></table></div>' if rows else ""
    return _section("Preflight", f"<p>{text(preflight.words)}</p>{table}", "preflight")


def _fix(command: str) -> str:
    return f"<br><code>{text(command)}</code>" if command else ""


def _plan(report: Report) -> str:
    if not report.plan:
        return _section("Plan", '<p class="soft">Not recorded.</p>', "plan")
    words = "The plan of the run, as ddpkit launch --dry-run prints it"
    body = f"<details><summary>{words}</summary><pre>{lines(report.plan.split(chr(10)))}</pre></details>"
    return _section("Plan", body, "plan", "long")


def _tail(report: Report) -> str:
    body = (
        f'<div class="end"><pre>{lines(report.tail)}</pre></div>'
        if any(map(str.strip, report.tail))
        else '<p class="soft">Nothing was printed.</p>'
    )
    return _section("Last lines", body, "tail", "long")
