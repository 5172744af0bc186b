"""Event types (supervisor to launcher) and command types (launcher to supervisor).

Each is one line of JSON. `e` is the kind of an event, `c` the kind of a command; mypy narrows on them. The other side
is `ddpkit/node/supervisor.py`. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

from ddpkit.launchers.typed_json import Between, Form, Test, keys, literal

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # in `typing` from Python 3.11

MOST_RANKS_EVER = 10**9 - 1
Rank = Annotated[int, Between(0, MOST_RANKS_EVER)]
RankText = Annotated[str, Form(r"[0-9]{1,9}")]
Pid = Annotated[int, Between(0, (1 << 31) - 1)]
ExitCode = Annotated[int, Between(0, 255)]
Signal = Annotated[int, Between(1, 64)]
Seconds = Annotated[float, Between(0, 1e11)]
Amount = Annotated[float, Between(0, 1e15)]
Name = Annotated[str, Between(1, 100)]  # of a program, an exception, a point of a start
Sentence = Annotated[str, Between(0, 8000)]
Names = Annotated[list[Annotated[str, Between(0, 300)]], Between(0, 10_000)]
EndKind = Literal["own", "peer", "waited", "terminated"]  # values of `ddpkit.node.supervision.first_failure.Kind`
Piece = Annotated[str, Between(0, 1 << 16)]  # a supervisor sends at most 20,000 characters


class _Event(TypedDict, total=False):
    """Keys that every event may have."""

    host: str  # where it happened, if one sender speaks for several hosts
    t: Seconds


class HelloEvent(_Event):
    """The supervisor is up, before anything is asked or started."""

    e: Literal["hello"]
    pid: Pid
    step: NotRequired[Annotated[str, Form(r"[0-9.+_]{0,40}")]]  # of SLURM, as `scancel` takes it


class AnswerEvent(_Event):
    """The answer to a call, in packed pieces; once whole, with `values` (one, or one of each host) and `error`."""

    e: Literal["answer"]
    id: Pid
    data: Piece
    more: NotRequired[bool]
    values: NotRequired[list[object]]
    error: NotRequired[str | None]


class RankSample(TypedDict):
    """Resources that one rank uses, with all processes below it."""

    pid: Pid | None
    state: Annotated[str, Between(0, 10)]  # the kernel's letter
    cpu: Amount  # seconds
    rss: Annotated[int, Between(0, 1e15)]  # bytes
    out: Seconds | None  # time of its last line


class BeatEvent(_Event):
    """A sign of life every few seconds."""

    e: Literal["beat"]
    ranks: dict[RankText, RankSample]


class StartEvent(_Event):
    """A rank runs."""

    e: Literal["start"]
    rank: Rank
    pid: Pid


class MarkEvent(_Event):
    """A rank reached a point of its start (`ddpkit/node/rank/rank_events.py`)."""

    e: Literal["mark"]
    rank: Rank
    name: Name


class VersionsEvent(_Event):
    """A rank imported torch: the versions of Python, torch, CUDA and NCCL; `-`: there is none."""

    e: Literal["versions"]
    rank: Rank
    versions: Annotated[list[Name], Between(0, 8)]


class StepsEvent(_Event):
    """Durations of the steps that each rank took since the last such event."""

    e: Literal["steps"]
    ranks: dict[RankText, list[Annotated[list[Amount], Between(6, 6)]]]


class OutputEvent(_Event):
    """Whole lines of a rank, or (rank None) of an agent. With `more` they go on in the next event."""

    e: Literal["out"]
    rank: Rank | None
    fd: Literal[1, 2]  # standard output, standard error
    data: Piece
    more: NotRequired[bool]
    prompt: NotRequired[bool]  # a line without an end, of the rank that has standard input
    agent: NotRequired[str]  # the program whose lines these are, where the step's agent is another one


class ValueEvent(_Event):
    """What the function of `ddpkit.call` returned in a rank, or how it failed. With `more` it goes on in the next."""

    e: Literal["value"]
    rank: Rank
    data: Piece  # base64 (`node/rank/function_call.py`)
    more: NotRequired[bool]


class ExitEvent(_Event):
    """A rank ended; `code` or `signal` is None. Where it failed, its last lines tell more (`first_failure.py`)."""

    e: Literal["exit"]
    rank: Rank
    code: ExitCode | None
    signal: Signal | None
    kind: NotRequired[EndKind]  # own unless given
    since: NotRequired[Seconds]  # when its exception was printed, else `t`
    raised: NotRequired[Annotated[str, Between(0, 100)]]  # that exception, if a signal for all ranks cut its end short
    oom: NotRequired[Sentence]  # why the kernel ended it for want of memory


class FailedEvent(_Event):
    """The first failure of a supervisor: its other ranks are being ended."""

    e: Literal["failed"]
    rank: Rank | None
    code: ExitCode | None
    signal: NotRequired[Signal | None]
    what: Name
    reason: NotRequired[Sentence]
    kind: NotRequired[EndKind]
    since: NotRequired[Seconds]
    raised: NotRequired[Annotated[str, Between(0, 100)]]  # the exception of a rank whose status does not show it
    oom: NotRequired[Sentence]
    kernel: NotRequired[Sentence]  # what it says of GPUs and of out-of-memory kills


class LeftoverEvent(_Event):
    """Processes that outlived their rank, and were ended."""

    e: Literal["left"]
    names: Names


class DaemonsEvent(_Event):
    """Processes that go on after the run: see `ddpkit.node.process_tree`."""

    e: Literal["daemons"]
    names: Names


class StuckEvent(_Event):
    """Processes that even KILL does not end. With `more` the node still waits for them."""

    e: Literal["stuck"]
    names: Names
    more: NotRequired[bool]


class RefusedEvent(_Event):
    """Nothing was started, or not all ranks: those are ended. `t`: when, on the node."""

    e: Literal["refused"]
    message: Sentence


class ColdEvent(_Event):
    """The ranks are no forks of the hold's Python, which their launch uses, and why."""

    e: Literal["cold"]
    reason: Sentence


class TookEvent(_Event):
    """So many more bytes of standard input lie in the pipe of the rank that has it."""

    e: Literal["took"]
    rank: Rank
    size: Annotated[int, Between(0, 1 << 20)]


class EndEvent(_Event):
    """Nothing of this run is alive on the node."""

    e: Literal["end"]


class LostEvent(_Event):
    """The transport lost its node."""

    e: Literal["lost"]
    reason: str


class InputEvent(_Event):
    """What this process has read from its standard input, for a rank; empty: its end."""

    e: Literal["input"]
    data: str


class NoteEvent(_Event):
    """A transport's remark for the user."""

    e: Literal["note"]
    text: str


Event = (
    HelloEvent | AnswerEvent | BeatEvent | StartEvent | MarkEvent | VersionsEvent | StepsEvent |
    OutputEvent | ValueEvent | ExitEvent | FailedEvent | LeftoverEvent | DaemonsEvent | StuckEvent | RefusedEvent |
    ColdEvent | TookEvent |
    EndEvent | LostEvent | InputEvent | NoteEvent
)  # fmt: skip


# Events that a supervisor sends. The others are made on this machine.
_OF_NODES = (
    HelloEvent, AnswerEvent, BeatEvent, StartEvent, MarkEvent, VersionsEvent, StepsEvent, OutputEvent,
    ValueEvent, ExitEvent, FailedEvent, LeftoverEvent, DaemonsEvent, StuckEvent, RefusedEvent, ColdEvent,
    TookEvent, EndEvent,
)  # fmt: skip
_NEVER = ("host", "agent", "values", "error")  # keys that only this machine adds
_TIMED = ("beat", "start", "mark", "steps", "exit", "failed")  # each of which has the time of the node
_RAW = ("out", "answer", "value")  # whose text goes into files as it is, or is packed


class BadEventError(ValueError):
    """A node sent what no supervisor sends."""


@cache
def _kinds() -> dict[str, dict[str, tuple[Test, bool]]]:
    """The keys of each kind that a node may send."""
    kinds = {}
    for each in _OF_NODES:
        kind = literal(each, "e")
        parts = {name: part for name, part in keys(each).items() if name not in ("e", *_NEVER)}
        kinds[kind] = {**parts, "t": (parts["t"][0], kind in _TIMED)}
    return kinds


def from_node(value: object) -> Event | None:
    """Check an event that a supervisor sent. None: a kind that this version does not know. Raises BadEventError.

    Only known keys are kept: no node speaks for another host. Texts for the screen have no control characters.
    """
    kind = value.get("e") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        raise BadEventError("not an event")
    known = _kinds().get(kind)
    if known is None:
        return None
    kept: dict[str, object] = {"e": kind}
    for name, (test, needed) in known.items():
        if name in value:
            if not test(value[name]):
                raise BadEventError(f"event {kind!r} with a wrong value of {name!r}")
            kept[name] = value[name]
        elif needed:
            raise BadEventError(f"event {kind!r} without {name!r}")
    return cast(Event, kept if kind in _RAW else {name: _visible(each) for name, each in kept.items()})


def ranks_of(event: Event) -> Iterable[int]:
    """Return the ranks that an event is about."""
    if event["e"] == "beat" or event["e"] == "steps":
        return map(int, event["ranks"])
    rank = event.get("rank")
    return (rank,) if isinstance(rank, int) else ()


def _visible(value: object) -> object:
    """A text, or a list of texts, without control characters."""
    if isinstance(value, list):
        return [_visible(each) for each in value]
    return "".join(char if char.isprintable() else " " for char in value) if isinstance(value, str) else value


def failure(event: ExitEvent) -> FailedEvent:
    """Convert the end of a rank into a failure."""
    return cast(FailedEvent, {**event, "e": "failed", "what": "rank"})


class StopCommand(TypedDict):
    """End all ranks: TERM, and KILL after `grace` seconds."""

    c: Literal["stop"]
    grace: float
    ending: NotRequired[int]  # a rank that an exception has ended, and whose teardown is not to be cut short by TERM


class SignalCommand(TypedDict):
    """Send a signal to every rank."""

    c: Literal["signal"]
    name: str


class CallCommand(TypedDict):
    """Call PROGRAM.FUNCTION of `ddpkit/node`."""

    c: Literal["call"]
    id: int
    function: str
    args: dict[str, object]


class InputCommand(TypedDict):
    """Bytes for the rank that has standard input; empty: its end."""

    c: Literal["input"]
    data: str


Command = StopCommand | SignalCommand | CallCommand | InputCommand
