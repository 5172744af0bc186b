"""Report of a run, as data: the page shows it, and `ddpkit report --json` prints it. Pure, but for `read`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ddpkit.diagnosis import verdict
from ddpkit.diagnosis.outcome import Failure
from ddpkit.errors import hide_in_text
from ddpkit.launchers.node_facts import RecordedFacts
from ddpkit.run import logs, metrics, slow_rank, timeline
from ddpkit.run.documents import Ledger, ledger
from ddpkit.run.record import Attempt, Code, Run, Versions, node_versions
from ddpkit.run.replicas import Replica, replicas_of, words_of
from ddpkit.run.report import startup as start
from ddpkit.run.report import steps
from ddpkit.run.report.words import moment
from ddpkit.run.slow_rank import SlowRank
from ddpkit.run.state import Origin, RunState
from ddpkit.run.status import RunStatus
from ddpkit.run.timeline import LaunchFile, NodeCopy, TimelineFile, first_step

HEAD = 1 << 22  # bytes of the log with what is printed at the start
TAIL = 1 << 16  # bytes of the log that are looked at
LINES = 25  # of them that are shown
TEST = "test.json"  # where the output of `ddpkit test --json` is taken from


@dataclass(frozen=True, kw_only=True)
class Files:
    """Contents of a run's folder."""

    launch: LaunchFile | None = None
    timeline: TimelineFile | None = None
    copies: Mapping[str, Sequence[NodeCopy]] = field(default_factory=dict)  # of --stage, by host
    test: Mapping[str, Any] | None = None  # see `ddpkit.preflight.check.report`
    metrics: Path | None = None
    records: list[dict[str, Any]] = field(default_factory=list)  # of the metrics file
    saved: float | None = None  # seconds since the epoch of the run's newest checkpoint; None: not known
    head: tuple[str, ...] = ()  # the first lines of all ranks
    tail: tuple[str, ...] = ()  # the last lines of all ranks
    replicas: tuple[Replica, ...] = ()  # of a run of roles
    slow: SlowRank | None = None  # by the last look at the ranks


def read(run: Run, *, metrics_file: Path | None = None) -> Files:
    """Look into the folder, and for the metrics of a run that lives, or that kept none, into its working folder."""
    folder = Path(run.folder)
    kept = metrics.in_folder(folder)
    # A record outside of the index may name any directory of this user's.
    theirs = run.origin is not Origin.INDEX
    original = None if theirs else metrics.find(run.workdir, run.command, run.started, run.ended)
    path = metrics_file or kept or original
    beside = original.parent if original else folder if theirs else Path(run.workdir).expanduser()
    return Files(
        launch=timeline.read_launch(folder),
        timeline=timeline.read(folder),
        copies=timeline.read_copies(folder),
        test=timeline.read_object(folder / TEST),
        metrics=path,
        records=metrics.read(path, None if metrics_file else folder) if path else [],
        saved=metrics.newest(beside, metrics.CHECKPOINTS, run.started, run.ended),
        head=tuple(logs.read_begin(folder, HEAD).decode("utf-8", "replace").split("\n")),
        tail=_tail(run),
        replicas=replicas_of(run),
        slow=slow_rank.read(folder),
    )


def _tail(run: Run) -> tuple[str, ...]:
    """Return the last lines, of all replicas where there are several."""
    if run.replicas:
        last = logs.read_lines(run, logs.LineFilter(), number=LINES)
        return tuple(line.labelled.decode("utf-8", "surrogateescape") for line in last)
    lines = logs.read_end(Path(run.folder) / "all.log", TAIL).decode("utf-8", "surrogateescape").split("\n")
    return tuple(lines[-LINES - 1 :][:LINES])


# ---- the report


POINTS = 1000  # of one curve; of more, every so many are shown
CURVES = 40  # in one chart
OTHERS = 6  # charts beside loss and accuracy
_NO_CURVES = ("step", "epoch", "seconds")


@dataclass(frozen=True, kw_only=True)
class Place:
    """One host. Facts are empty where it was not asked."""

    host: str
    ranks: tuple[int, ...]
    gpus: int | None = None
    cpus: int | None = None
    python: str = ""
    torch: str = ""
    cuda: str = ""
    nccl: str = ""
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Curve:
    name: str
    points: tuple[tuple[float, float], ...]  # step, value
    thinned: bool  # not every record is a point


@dataclass(frozen=True, kw_only=True)
class Chart:
    title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One row of the preflight."""

    status: str
    where: str
    what: str
    fix: str


@dataclass(frozen=True, kw_only=True)
class Preflight:
    words: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class LanePart:
    """One start of a replica, in seconds since the start of the run. `ready`: None where it is not known."""

    begin: float
    ready: float | None
    end: float
    state: RunState


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One replica of a run of roles."""

    replica: str
    summary: str
    hosts: tuple[str, ...]
    ranks: int
    parts: tuple[LanePart, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Times are seconds since the epoch, or, in `start`, since the launcher began."""

    run_id: str
    state: RunState
    summary: str  # the state in words
    hint: str
    exit_code: int | None
    backend: str
    command: tuple[str, ...]
    workdir: str
    folder: str
    launcher_host: str
    job_id: str | None
    world_size: int
    code: Code | None
    started: float
    ended: float | None
    made: float
    places: tuple[Place, ...]
    lanes: tuple[Lane, ...]  # of a run of roles
    start: start.Start
    steps: steps.Steps
    metrics: str  # the file; empty where none is known
    charts: tuple[Chart, ...]
    preflight: Preflight
    plan: str
    attempts: tuple[Attempt, ...]  # of a run with --retries
    ledger: Ledger
    failure: Failure | None  # the first
    tail: tuple[str, ...]


def report(now: RunStatus, files: Files, made: float) -> Report:
    """All that is known of a run, and for the rest why it is not."""
    run = now.run
    why_not = _why_not(now, files)
    return Report(
        run_id=run.run_id,
        state=now.state,
        summary=now.words,
        hint=_hint(now),
        exit_code=run.exit_code,
        backend=run.backend,
        command=run.command,
        workdir=run.workdir,
        folder=run.folder,
        launcher_host=run.launcher_host,
        job_id=run.job_id,
        world_size=run.world_size,
        code=run.code,
        started=run.started,
        ended=run.ended,
        made=made,
        places=tuple(_places(now, files)),
        lanes=tuple(_lane(each, now, made) for each in files.replicas),
        start=start.read_startup(files.launch, files.timeline, why_not, start.init_timings(files.head), files.copies),
        steps=_with_more(steps.read_steps(files.timeline, why_not), files.slow),
        metrics=str(files.metrics or ""),
        charts=tuple(charts(files.records)),
        preflight=_preflight(now, files),
        plan=hide_in_text(str((files.launch or {}).get("plan", ""))),  # an older launch masked less
        attempts=run.attempts,
        ledger=ledger(run, made, first_step(files.timeline), files.saved),
        failure=run.failure,
        tail=files.tail,
    )


def _with_more(took: steps.Steps, slow: SlowRank | None) -> steps.Steps:
    """Add to the words of the steps what a look at the ranks found, and what earlier runs took."""
    words = took.words
    if slow is not None and slow.ranks:
        words = f"At {moment(slow.at)} the ranks were watched: {slow.words}. {words}"
    if slow is not None and slow.past:
        words += f" {slow.past[:1].upper()}{slow.past[1:]}."
    return replace(took, words=words)


def _hint(now: RunStatus) -> str:
    failure = now.run.failure
    facts = verdict.describe(failure, failure.diagnosis)[1] if failure else []
    return next((text for label, text in facts if label == "hint"), now.hint)


def _why_not(now: RunStatus, files: Files) -> str:
    if now.run.job is not None and not now.run.job.labels:
        return "Not recorded: the scheduler starts these ranks without ddpkit."
    if files.timeline is None and files.launch is None:
        return "Not recorded: the run has no timeline."
    if now.state.living:
        return "Nothing yet: with --observe steps ranks report those of torch.optim every few seconds."
    return f"Not recorded: no rank reported steps. Those of torch.optim do with {start.OBSERVE}."


def _places(now: RunStatus, files: Files) -> list[Place]:
    """The hosts in the order of the run, with the ranks that the plan, or the ranks themselves, put there."""
    run = now.run
    ranks: dict[str, set[int]] = {host: set(run.ranks.get(host, ())) for host in run.hosts}
    for number, known in (files.timeline or {}).get("ranks", {}).items():
        if not any(int(number) in each for each in ranks.values()):
            ranks.setdefault(str(known.get("host", "")), set()).add(int(number))
    # A job's nodes are known when it runs: till then the record names the scheduler alone.
    hosts = sorted(
        [pair for pair in ranks.items() if pair[1]] or ranks.items(), key=lambda pair: min(pair[1], default=0)
    )
    nodes = (files.launch or {}).get("nodes", {})
    versions = node_versions(files.launch, files.timeline)
    return [_place(host, sorted(each), nodes.get(host, {}), versions.get(host, Versions())) for host, each in hosts]


def _lane(replica: Replica, now: RunStatus, made: float) -> Lane:
    """Make the lane of a replica. When it was ready is known of its last start alone."""
    begun, end = now.run.started, now.run.ended or made
    ready = replica.state.ready if replica.state else None
    parts = [
        LanePart(
            begin=max(0.0, each.started - begun),
            ready=ready - begun if ready is not None and each is replica.starts[-1] else None,
            end=max(each.started, each.ended or end) - begun,
            state=each.state,
        )
        for each in replica.starts
    ]
    last = replica.starts[-1] if replica.starts else None
    return Lane(
        replica=replica.shown,
        summary=words_of(replica, now.state),
        hosts=last.hosts if last else (),
        ranks=last.world_size if last else 0,
        parts=tuple(parts),
    )


def _place(host: str, ranks: Sequence[int], facts: RecordedFacts, versions: Versions) -> Place:
    addresses = [address for _, address in facts.get("addresses") or ()]
    return Place(
        host=host,
        ranks=tuple(ranks),
        gpus=facts.get("gpus"),
        cpus=facts.get("cpus"),
        python=versions.python,
        torch=versions.torch,
        cuda=versions.cuda,
        nccl=versions.nccl,
        address=", ".join(addresses[:2]),
    )


def charts(records: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Loss and accuracy first, each of the other numbers in a chart of its own."""
    points: dict[str, list[tuple[float, float]]] = {}
    for record in records:  # each name of each record once: a stranger's may have many of both
        step = float(record["step"])
        for name, value in record.items():
            if name not in _NO_CURVES and (number := _number(value)) is not None:
                points.setdefault(name, []).append((step, number))
    loss = [name for name in points if "loss" in name.lower()]
    accuracy = [name for name in points if "acc" in name.lower() and "loss" not in name.lower()]
    named = {*loss, *accuracy}
    groups = [("loss", loss[:CURVES]), ("accuracy", accuracy[:CURVES])]
    groups += [(name, [name]) for name in points if name not in named][:OTHERS]
    return [
        Chart(title=title, curves=tuple(_curve(name, points[name]) for name in group))
        for title, group in groups
        if group
    ]


def _curve(name: str, points: Sequence[tuple[float, float]]) -> Curve:
    every = -(-len(points) // POINTS)
    shown = list(points[::every] if every > 1 else points)
    if every > 1 and shown[-1] != points[-1]:
        shown.append(points[-1])
    return Curve(name=name, points=tuple(shown), thinned=every > 1)


def _number(value: Any) -> float | None:
    """A number that can be drawn; a loss that became nan is a gap."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if ok else None


def _preflight(now: RunStatus, files: Files) -> Preflight:
    """Say what was checked before the start, by the launch and by `ddpkit test`, with what was found."""
    launch, test = files.launch, files.test
    notes = [Finding(status="note", where="", what=str(note), fix="") for note in (launch or {}).get("notes", ())]
    theirs = now.run.origin is not Origin.INDEX  # a hint is a command of ddpkit's, and what others wrote is none
    checks = [_finding(check) for check in (test or {}).get("checks", ()) if isinstance(check, dict)]
    checks = [replace(each, fix="") if theirs else each for each in checks]
    bad = [each for each in checks if each.status in ("fail", "warn")]
    entered = (launch or {}).get("entered") or {}
    if entered:
        words = f"{len(entered)} node{'s' * (len(entered) != 1)} checked before the start"
        words += ": no problems." if not notes else "; notes:"
    elif launch is None:
        words = "Not recorded."
    elif now.run.job is not None or not now.run.ranks:
        words = "No checks before the start: the scheduler chooses the nodes."
    else:
        words = "This machine only: no connections were needed."
    if test is not None:
        state = f"{len(bad)} of {len(checks)} checks reported problems" if bad else f"all {len(checks)} checks passed"
        words += f" ddpkit test: {state}."
    return Preflight(words=words, findings=(*notes, *bad))


def _finding(check: Mapping[str, Any]) -> Finding:
    rank = check.get("rank")
    where = " ".join(filter(None, [f"rank {rank}" if rank is not None else "", str(check.get("host") or "")]))
    what = "; ".join(str(check[name]) for name in ("title", "evidence", "cause") if check.get(name))
    return Finding(status=str(check.get("status", "")), where=where, what=what, fix=str(check.get("fix") or ""))
