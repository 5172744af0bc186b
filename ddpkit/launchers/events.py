"""Event types (supervisor to launcher) and command types (launcher to supervisor).

Each is one line of JSON. `e` is the kind of an event, `c` the kind of a command; mypy narrows on them. The docstring of
`ddpkit/node/supervisor.py` is their specification on the node's side. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, TypedDict, cast

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # in `typing` from Python 3.11


class _Event(TypedDict, total=False):
    """Keys that every event may have."""

    host: str  # where it happened, if one sender speaks for several hosts
    t: float


class HelloEvent(_Event):
    """The supervisor is up, before anything is asked or started."""

    e: Literal["hello"]
    pid: int


class SourceEvent(_Event):
    """This Python cannot run our bytecode: it needs the supervisor's source."""

    e: Literal["source"]


class AnswerEvent(_Event):
    """The answer to a call, in packed pieces; once whole, with `values` (one, or one of each host) and `error`."""

    e: Literal["answer"]
    id: int
    data: str
    more: NotRequired[bool]
    values: NotRequired[list[object]]
    error: NotRequired[str | None]


class RankSample(TypedDict):
    """Resources that one rank uses, with all processes below it."""

    pid: int | None
    state: str  # the kernel's letter
    cpu: float  # seconds
    rss: int  # bytes
    out: float | None  # time of its last line


class BeatEvent(_Event):
    """A sign of life every few seconds."""

    e: Literal["beat"]
    ranks: dict[str, RankSample]


class StartEvent(_Event):
    """A rank runs."""

    e: Literal["start"]
    rank: int
    pid: int


class MarkEvent(_Event):
    """A rank reached a point of its start (`ddpkit/node/rank_events.py`)."""

    e: Literal["mark"]
    rank: int
    name: str


class VersionsEvent(_Event):
    """A rank imported torch: the versions of Python, torch, CUDA and NCCL; `-`: there is none."""

    e: Literal["versions"]
    rank: int
    versions: list[str]


class StepsEvent(_Event):
    """Durations of the steps that each rank took since the last such event."""

    e: Literal["steps"]
    ranks: dict[str, list[list[float]]]


class OutputEvent(_Event):
    """Whole lines of a rank, or (rank None) of an agent. With `more` they go on in the next event."""

    e: Literal["out"]
    rank: int | None
    fd: int  # 1: standard output, 2: standard error
    data: str
    more: NotRequired[bool]
    agent: NotRequired[str]  # the program whose lines these are, where the step's agent is another one


class ExitEvent(_Event):
    """A rank ended; `code` or `signal` is None."""

    e: Literal["exit"]
    rank: int
    code: int | None
    signal: int | None
    oom: NotRequired[str]  # why the kernel ended it for want of memory


class TimeoutEvent(_Event):
    """An exception ends a rank that waited for others. It stays for a moment, so that all ranks can be looked at."""

    e: Literal["timeout"]
    rank: int
    raised: str  # the exception's name


class FailedEvent(_Event):
    """The first failure of a supervisor: its other ranks are being ended."""

    e: Literal["failed"]
    rank: int | None
    code: int | None
    signal: int | None
    what: str
    reason: NotRequired[str]
    raised: NotRequired[str]  # the exception's name, of a rank that has not ended yet
    oom: NotRequired[str]


class LeftoverEvent(_Event):
    """Processes that outlived their rank, and were ended."""

    e: Literal["left"]
    names: list[str]


class DaemonsEvent(_Event):
    """Processes that go on after the run: see `ddpkit.node.daemons`."""

    e: Literal["daemons"]
    names: list[str]


class StuckEvent(_Event):
    """Processes that even KILL does not end. With `more` the node still waits for them."""

    e: Literal["stuck"]
    names: list[str]
    more: NotRequired[bool]


class RefusedEvent(_Event):
    """Nothing was started, or not all ranks: those are ended. `t`: when, on the node."""

    e: Literal["refused"]
    message: str


class EndEvent(_Event):
    """Nothing of this run is alive on the node."""

    e: Literal["end"]


class LostEvent(_Event):
    """The transport lost its node."""

    e: Literal["lost"]
    reason: str


class NoteEvent(_Event):
    """A transport's remark for the user."""

    e: Literal["note"]
    text: str


Event = (
    HelloEvent | SourceEvent | AnswerEvent | BeatEvent | StartEvent | MarkEvent | VersionsEvent | StepsEvent |
    OutputEvent | ExitEvent | TimeoutEvent | FailedEvent | LeftoverEvent | DaemonsEvent | StuckEvent | RefusedEvent |
    EndEvent | LostEvent | NoteEvent
)  # fmt: skip


_Test = Callable[[object], bool]


def _integer(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 31


def _number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast(float, value) < 1e13  # neither NaN nor infinite; bytes, seconds


def _text(value: object) -> bool:
    return isinstance(value, str)


def _or_none(test: _Test, value: object) -> bool:
    return value is None or test(value)


def _list(test: _Test, value: object) -> bool:
    return isinstance(value, list) and all(map(test, value))


def _by_rank(test: _Test, value: object) -> bool:
    return isinstance(value, dict) and all(map(_rank_text, value)) and all(map(test, value.values()))


def _rank_text(value: object) -> bool:
    return isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 10


def _sample(value: object) -> bool:
    return isinstance(value, dict) and all(name in value and test(value[name]) for name, test in _SAMPLE.items())


def _step_record(value: object) -> bool:
    return isinstance(value, list) and len(value) == 6 and all(map(_number, value))


_MAYBE_RANK, _MAYBE_NUMBER = partial(_or_none, _integer), partial(_or_none, _number)
_TEXTS = partial(_list, _text)
_SAMPLE: dict[str, _Test] = {"pid": _MAYBE_RANK, "state": _text, "cpu": _number, "rss": _number, "out": _MAYBE_NUMBER}
_END: dict[str, _Test] = {"rank": _integer, "code": _MAYBE_RANK, "signal": _MAYBE_RANK, "t": _number}
# What a supervisor sends: the keys that each kind has, and those that it may have.
_REQUIRED: dict[str, dict[str, _Test]] = {
    "hello": {"pid": _integer},
    "source": {},
    "answer": {"id": _integer, "data": _text},
    "beat": {"t": _number, "ranks": partial(_by_rank, _sample)},
    "start": {"rank": _integer, "pid": _integer, "t": _number},
    "mark": {"rank": _integer, "name": _text, "t": _number},
    "versions": {"rank": _integer, "versions": _TEXTS},
    "steps": {"t": _number, "ranks": partial(_by_rank, partial(_list, _step_record))},
    "out": {"rank": _MAYBE_RANK, "fd": lambda value: value in (1, 2) and type(value) is int, "data": _text},
    "exit": _END,
    "timeout": {"rank": _integer, "raised": _text, "t": _number},
    "failed": {"rank": _MAYBE_RANK, "code": _MAYBE_RANK, "t": _number, "what": _text},
    "left": {"names": _TEXTS},
    "daemons": {"names": _TEXTS},
    "stuck": {"names": _TEXTS},
    "refused": {"message": _text},
    "end": {},
}  # fmt: skip
_OPTIONAL: dict[str, _Test] = {
    "t": _number, "more": lambda value: isinstance(value, bool), "signal": _MAYBE_RANK, "reason": _text,
    "raised": _text, "oom": _text,
}  # fmt: skip


def from_node(value: object) -> Event | None:
    """Check an event that a supervisor on another machine sent. Returns None if it cannot be one.

    Only known keys are kept: no node speaks for another host. Texts for the screen have no control characters.
    """
    kind = value.get("e") if isinstance(value, dict) else None
    required = _REQUIRED.get(kind) if isinstance(kind, str) else None
    if required is None or not isinstance(value, dict):
        return None
    if not all(name in value and test(value[name]) for name, test in required.items()):
        return None
    extra = {name for name, test in _OPTIONAL.items() if name in value and test(value[name])}
    kept = {name: value[name] for name in ("e", *required, *sorted(extra - required.keys()))}
    return cast(Event, kept if kind in ("out", "answer") else {name: _visible(each) for name, each in kept.items()})


def _visible(value: object) -> object:
    """A text, or a list of texts, without control characters."""
    if isinstance(value, list):
        return [_visible(each) for each in value]
    return "".join(char if char.isprintable() else " " for char in value) if isinstance(value, str) else value


def failure(event: ExitEvent) -> FailedEvent:
    """Convert the end of a rank into a failure."""
    return {**event, "e": "failed", "what": "rank", "reason": "", "raised": ""}


def timed_out(event: TimeoutEvent) -> FailedEvent:
    """Convert a wait that took too long into a failure."""
    rank, raised = event["rank"], event["raised"]
    return {"e": "failed", "what": "rank", "rank": rank, "code": 1, "signal": None, "raised": raised, "t": event["t"]}


class StopCommand(TypedDict):
    """End all ranks: TERM, and KILL after `grace` seconds."""

    c: Literal["stop"]
    grace: float


class SignalCommand(TypedDict):
    """Send a signal to every rank."""

    c: Literal["signal"]
    name: str


class LoadCommand(TypedDict):
    """Load a program whose functions will be called."""

    c: Literal["load"]
    modules: str


class CallCommand(TypedDict):
    """Call a function of a loaded program."""

    c: Literal["call"]
    id: int
    function: str
    args: dict[str, object]


Command = StopCommand | SignalCommand | LoadCommand | CallCommand
