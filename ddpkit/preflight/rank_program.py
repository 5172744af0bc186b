"""Runs a rank program of ours through a backend, as a script of the user's would run, and collects its events.

The program travels as text (`python -c`), so that nothing of ours has to be on the nodes. A rank speaks in single lines
of standard output that begin with `EVENT`; all else that it prints goes to its log, and to the verdict if it dies."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import threading
import time
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, get_args

from ddpkit.config import LaunchSettings
from ddpkit.console.plain import TextDisplay, TextStream
from ddpkit.console.relay import Logs, Relay
from ddpkit.console.style import Panel
from ddpkit.diagnosis.outcome import Outcome
from ddpkit.distributed.rank_fixes import FIXES
from ddpkit.errors import LaunchError
from ddpkit.execution import executor
from ddpkit.execution.job import SET_BY_DDPKIT
from ddpkit.execution.lifecycle import LiveRun
from ddpkit.launchers import host_names, registry, typed_json
from ddpkit.launchers.events import Rank
from ddpkit.launchers.node_facts import Count, NodeFacts, NodeInventory, Port
from ddpkit.launchers.plan import Plan, Step
from ddpkit.launchers.shell import quote
from ddpkit.launchers.typed_json import Form, HostWord, literal
from ddpkit.node.child import NOT_FROM_HERE
from ddpkit.transports.choose import transport_class
from ddpkit.transports.protocol import NODE, Link
from ddpkit.transports.transport import Transport

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from typing_extensions import NotRequired


Host = HostWord | Literal[""]  # empty: not known


class _Event(TypedDict):
    sender: int | None


class StartEvent(_Event):
    """A rank's program runs."""

    e: Literal["rank"]
    rank: Rank
    host: Host
    nodes: str  # of its SLURM step


class ReportEvent(_Event):
    """A rank has imported torch, and is about to join the others."""

    e: Literal["here"]
    rank: Rank
    host: Host
    torch: str
    local_rank: int
    local_world_size: int
    devices: int
    device: str
    identity: str | None  # of its GPU
    nccl: bool
    nccl_version: str  # of the library that is loaded; empty: none
    waits: float  # seconds that it waits for the others


class BeginEvent(_Event):
    """A rank begins its part of a stage."""

    e: Literal["begin"]
    stage: str
    rank: Rank
    waits: float  # seconds that it may take


class FactsEvent(_Event):
    """Facts and inventory of a rank's node."""

    e: Literal["facts"]
    look: NodeFacts
    facts: NodeInventory


class UnknownEvent(_Event):
    """A rank's node could not be looked at."""

    e: Literal["unknown"]
    host: Host
    why: str


class Figures(TypedDict, total=False):
    """One rank's measurements in a stage."""

    small_ms: float
    large_ms: float
    gb_per_s: float
    gemm: float  # seconds
    copy: float  # seconds


class DoneEvent(_Event, Figures):
    """A rank ended its part of a stage. Stage mesh has `host`, `errors` and `ahead`."""

    e: Literal["did"]
    stage: str
    rank: Rank
    host: NotRequired[Host]
    errors: NotRequired[dict[str, dict[str, str]]]  # by host and address; empty: none
    ahead: NotRequired[list[float]]  # seconds that its clock is ahead: at least, at most


class StageEvent(_Event):
    """All ranks passed a stage."""

    e: Literal["stage"]
    stage: str
    seconds: NotRequired[float]
    done: NotRequired[dict[str, Figures]]  # by rank


class FixFacts(TypedDict, total=False):
    """Facts that the words of a fix have."""

    gpus: Count  # that a rank sees
    peer: Rank  # another one
    address: Annotated[str, Form(f"{host_names.NAME}|{host_names.ADDRESS}")]  # of rank 0
    port: Port


class ProblemEvent(_Event):
    """A rank found a problem, its own or another rank's."""

    e: Literal["problem"]
    rank: Rank
    host: Host
    problem: str
    fix: str  # a name in `rank_fixes.py`
    facts: NotRequired[FixFacts]
    check: NotRequired[Literal["ranks", "gloo", "gpu-map", "nccl", "speed"]]
    level: NotRequired[Literal["fail", "warn"]]
    cause: NotRequired[str]


class BenchEvent(_Event):
    """A benchmark begins."""

    e: Literal["bench"]
    comm: str
    world_size: int
    nodes: int
    device: str
    torch: str


class RowEvent(_Event):
    """A measurement of one collective of one size. With a `note`, which is why it was not measured, it ends there."""

    e: Literal["row"]
    op: str
    bytes: int
    note: str
    rounds: int
    seconds: float  # of one call, on the slowest rank
    algbw: float  # GB/s, 10^9 bytes a second
    busbw: float
    wrong: int  # elements, over all ranks
    wrong_ranks: list[int]
    slowest: Rank
    host: Host  # of the slowest rank


Event = (
    StartEvent | ReportEvent | BeginEvent | FactsEvent | UnknownEvent | DoneEvent | StageEvent | ProblemEvent
    | BenchEvent | RowEvent
)  # fmt: skip


_KINDS: Mapping[str, type] = {literal(kind, "e"): kind for kind in get_args(Event)}


def read_event(text: bytes, sender: int | None) -> Event | None:
    """Read an event of a rank; None: no program of ddpkit's sent it. Its texts are for people, and no command."""
    try:
        value = typed_json.parse(text)
        kind = _KINDS.get(value["e"])
        return None if kind is None else typed_json.read(kind, {**value, "sender": sender})
    except (typed_json.FormatError, TypeError, KeyError):
        return None


def compose_fix(event: ProblemEvent, hosts: Mapping[int, str]) -> str:
    """Return the words of a fix that a rank named, each fact quoted. Empty: an unknown name, or a missing fact."""
    facts = {name: str(value) for name, value in event.get("facts", {}).items()}
    facts["host"] = hosts.get(event["rank"], event["host"])
    if "peer" in facts:
        facts["peer"] = hosts.get(int(facts["peer"]), "")
    try:
        return FIXES[event["fix"]].format(**{name: quote(value) for name, value in facts.items() if value})
    except KeyError:
        return ""


EVENT = b"\x1eddpkit "
MARGIN = 5.0  # seconds beyond an announced silence; also the margin of a link: a lost node does not answer later
GRACE = 1.0  # seconds for ranks of ours to end: they have sent their events
AGENTS = 200  # lines
RUNS = " runs on "  # in a note of a scheduler's link: the job has started
PACKAGE = NODE.parent
_IMPORT = re.compile(r"^ *from (ddpkit[\w.]*) import ", re.MULTILINE)
# Runs the packed `__main__`; a finder imports the other packed modules by their names.
_UNPACK = """\
import base64, importlib.machinery, json, sys, zlib
sources = json.loads(zlib.decompress(base64.b64decode(sys.argv.pop(2))))
del sys.argv[1]
class Packed:
    def find_spec(name, path=None, target=None):
        package = any(each.startswith(name + ".") for each in sources)
        return importlib.machinery.ModuleSpec(name, Packed, is_package=package) if name in sources else None
    def create_module(spec):
        return None
    def exec_module(module):
        exec(compile(sources[module.__name__], module.__name__ + ".py", "exec"), module.__dict__)
sys.meta_path.insert(0, Packed)
sys.argv[0] = "{name}"
exec(compile(sources["__main__"], "{name}.py", "exec"))
"""


# The words of `command` in a plan, also where they were quoted again for a job script.
_PACKED = re.compile(
    re.escape(NOT_FROM_HERE)
    + r'\nimport base64, .*?"(?P<name>ddpkit-\w+)\.py", "exec"\)\)\n(?P<end>\S+ \S+) [\w+/=]{1000,}',
    re.DOTALL,
)


def name_programs(text: str) -> str:
    """Show each packed program of a plan by its name, its size and its hash."""

    def shown(match: re.Match[str]) -> str:
        digest = hashlib.sha256(match[0].encode()).hexdigest()[:16]
        size = f"{len(match[0]):,} characters, sha256 {digest}"
        return f"<program {match['name']}: {size}; all of it: --json>{match['end']}"

    return _PACKED.sub(shown, text)


def command(program: str, name: str, *, helpers: Sequence[str] = (), args: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words behind the interpreter that run a rank program, `ddpkit/distributed/PROGRAM.py`.

    Modules of ddpkit that it imports are packed with it. `helpers` are of `ddpkit/node/calls`, which it imports by
    their names alone. `name` is the run's, for people.
    """
    sources = {each: (NODE / "calls" / f"{each}.py").read_text() for each in helpers}
    sources["__main__"] = (PACKAGE / "distributed" / f"{program}.py").read_text()
    for text in list(sources.values()):
        _add_imported(text, sources)
    packed = b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    text = f"{NOT_FROM_HERE}\n" + _UNPACK.format(name=f"ddpkit-{program}")
    return ("-c", text, name, packed, *args)


def _add_imported(text: str, sources: dict[str, str]) -> None:
    """Add the modules of ddpkit that a source imports, and their packages as empty modules."""
    for name in _IMPORT.findall(text):
        parent = name.rpartition(".")[0]
        while parent and parent not in sources:
            sources[parent], parent = "", parent.rpartition(".")[0]
        if name not in sources:
            sources[name] = (PACKAGE.parent / f"{name.replace('.', '/')}.py").read_text()
            _add_imported(sources[name], sources)


def settings_for(settings: LaunchSettings, words: Sequence[str]) -> LaunchSettings:
    """These settings, with a program of ours in place of the script, and without variables that no launch accepts."""
    accepted = {name: text for name, text in settings.env.items() if name not in SET_BY_DDPKIT}
    nnodes = settings.nnodes + settings.spares if isinstance(settings.nnodes, int) else settings.nnodes
    options = {name: value for name, value in settings.options.items() if name != "stage"}  # nothing to copy
    chosen = replace(settings, script=tuple(words), env=accepted, options=options, nnodes=nnodes)
    return replace(chosen, retries=0, spares=0)


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """A run of a rank program that has ended."""

    outcome: Outcome
    events: list[Event] = field(default_factory=list)
    folder: str = ""
    agent_lines: tuple[str, ...] = ()  # the last ones of torchrun or srun, which start the ranks
    silent: float = 0.0  # it was ended after so many seconds without an event; 0: it was not

    @property
    def starts(self) -> list[StartEvent]:
        return [event for event in self.events if event["e"] == "rank"]

    @property
    def reports(self) -> list[ReportEvent]:
        return [event for event in self.events if event["e"] == "here"]

    @property
    def node_facts(self) -> list[FactsEvent]:
        return [event for event in self.events if event["e"] == "facts"]

    @property
    def stages(self) -> list[StageEvent]:
        return [event for event in self.events if event["e"] == "stage"]

    @property
    def problems(self) -> list[ProblemEvent]:
        return [event for event in self.events if event["e"] == "problem"]

    def done(self, stage: str) -> list[DoneEvent]:
        return [event for event in self.events if event["e"] == "did" and event["stage"] == stage]


class _EventReader(Relay):
    """Relay that takes the events out of the lines. Shows nothing; keeps the logs."""

    def __init__(self, logs: Logs, note: Callable[[str], None], on_event: Callable[[Event], None]) -> None:
        super().__init__(logs, TextStream(None), TextStream(None))
        self._on_note, self._on_event = note, on_event
        self.agent_lines: deque[str] = deque(maxlen=AGENTS)

    def write(self, rank: int | None, host: str, agent: str, number: int, data: bytes, *, show: bool = True) -> None:
        """Take events out of the lines, and write the rest to the logs."""
        rest = []
        for line in data.splitlines(keepends=True):
            event = read_event(line[len(EVENT) :], rank) if line.startswith(EVENT) else None
            if event is None:  # or it was cut off in the middle of a word
                rest.append(line)
            else:
                self._on_event(event)
        if rank is None:
            self.agent_lines.extend(line.decode("utf-8", "replace").rstrip() for line in rest)
        if rest:
            super().write(rank, host, agent, number, b"".join(rest), show=False)

    def note(self, text: str, panel: Panel | None = None) -> None:
        super().note(text, panel)
        self._on_note(text)


class SilenceWatch:
    """Ends ranks that send no event any more: the program that starts them hangs, and has no bound of its own."""

    def __init__(self, inbox: executor.Inbox, seconds: float) -> None:
        self.broken = False
        self._inbox, self._seconds = inbox, seconds
        self._last: float | None = None  # the time of the last event; None: a scheduler has not started them yet
        self._over = threading.Event()
        if seconds:
            threading.Thread(target=self._watch, daemon=True).start()

    def reset(self, waits: float = 0.0) -> None:
        """Begin to count again, not before `waits` seconds are over: for these a rank has announced to be silent."""
        until = time.monotonic() + max(0.0, waits + MARGIN - self._seconds)
        self._last = until if self._last is None else max(self._last, until)

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            if self._last is not None and time.monotonic() - self._last > self._seconds:
                self.broken = True
                self._inbox.put((-1, signal.SIGTERM))
                return


SignalScope = Callable[[executor.Inbox], AbstractContextManager[None]]


def take_no_signals(_inbox: executor.Inbox) -> AbstractContextManager[None]:
    """Leave the signal handlers of the program alone."""
    return nullcontext()


def run(
    plan: Plan,
    transport: Transport,
    log_dir: str,
    on_event: Callable[[Event], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    silence: float = 0.0,
    signals: SignalScope = take_no_signals,
) -> ProgramRun:
    """Carry out a plan whose ranks are a program of ours.

    `on_event` is called for every event as it comes, `note` for what a launch would print. `silence`: seconds without
    an event after which they are ended (0: never); time in a scheduler's queue does not count. `signals`: forwards the
    signals of a command meanwhile. Raises UsageError where the logs cannot be written, LaunchError where a scheduler
    refuses, SystemExit with 128+n where signal n ended it: then nothing is left, a submitted job neither.
    """
    live = LiveRun(replace(plan, grace=min(plan.grace, GRACE)), transport, log_dir)
    with signals(live.inbox):  # one that comes while a job is submitted ends that job
        live.submit()
        if live.job_id:
            note(f"job {live.job_id} submitted")
        watch = SilenceWatch(live.inbox, silence)
        try:
            done = _follow(live, on_event, note, watch)
        except BaseException:
            with suppress(LaunchError):
                live.cancel_job()
            raise
        finally:
            watch.stop()
    if watch.broken:
        return replace(done, silent=silence)
    stopped_by = done.outcome.stopped_by
    if stopped_by is not None:
        raise SystemExit(128 + stopped_by)
    return done


def announced_silence(event: Event) -> float:
    """Return the seconds for which a rank announces to be silent: it waits for others, or begins a stage."""
    return event["waits"] if event["e"] == "here" or event["e"] == "begin" else 0.0


def _follow(
    live: LiveRun, on_event: Callable[[Event], None], note: Callable[[str], None], watch: SilenceWatch
) -> ProgramRun:
    """Follow the ranks to their end. Each event, and the note that a scheduler's job runs, resets the watch."""
    events: list[Event] = []

    def take(event: Event) -> None:
        watch.reset(announced_silence(event))
        events.append(event)
        on_event(event)

    def take_note(text: str) -> None:
        if RUNS in text:
            watch.reset()
        note(text)

    def connect(step: Step) -> Link:
        link = live.connect(step)
        link.outlives = ""  # such a job is of no use without its command
        if not step.scheduled:  # the end of a job takes its scheduler as long as it takes
            link.margin = min(link.margin, MARGIN)
        return link

    if live.plan.batch is None:
        watch.reset()
    relay = _EventReader(live.open_logs(), take_note, take)
    try:
        outcome = live.follow(relay, TextDisplay(), connect=connect)
    finally:
        relay.close()
    return ProgramRun(outcome=outcome, events=events, folder=str(live.folder), agent_lines=tuple(relay.agent_lines))


Depth = Literal["quick", "usual", "full"]


@dataclass(frozen=True, kw_only=True)
class PreflightOptions:
    """Depth of a preflight, and callbacks for its progress."""

    depth: Depth = "usual"
    ranks: bool = True  # False: what needs no torch, and no rank
    timeout: float = 5.0  # seconds for each step of the ranks
    progress: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    signals: SignalScope = take_no_signals  # forwards the signals of a command to its ranks

    def args(self, *, nodes: bool = False) -> list[str]:
        mib = {"quick": 1, "usual": 16, "full": 64}[self.depth]
        words = ["--timeout", f"{self.timeout:g}", "--mib", str(mib)]
        words += ["--speed"] if self.depth == "full" else []
        words += [] if self.ranks else ["--no-ranks"]
        return [*words, *(["--nodes", "quick" if self.depth == "quick" else "usual"] if nodes else [])]


def check_settings(settings: LaunchSettings, options: PreflightOptions) -> LaunchSettings:
    """The settings of a launch of `check.py`. A scheduler's ranks send facts of their nodes as well."""
    kind = registry.load(settings.backend)
    scheduled = transport_class(kind).scheduled
    helpers = ("probe", "inventory") if scheduled else ()
    words = command("check", "test", helpers=helpers, args=options.args(nodes=scheduled))
    chosen = settings_for(settings, words)
    if transport_class(kind).slurm and not options.ranks:  # neither torchrun nor a fork server, which import torch
        plain = {name: text for name, text in chosen.options.items() if name != "preload"}
        chosen = replace(chosen, backend="slurm-srun", options=plain)
    if scheduled:
        usual = {"time": "5", "job_name": "ddpkit-test"}
        known = {option.name for option in registry.options(kind)}
        more = {name: text for name, text in usual.items() if name in known}
        return replace(chosen, options={**more, **chosen.options})
    return chosen
