"""Python's tracebacks in a log: chained ones, groups, syntax errors, those of several ranks through each other.

Also torchrun's table of failures, which says what ended first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ddpkit.diagnosis.line_prefixes import NOBODY, Speaker, plain, said_by, take_apart

HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<where>.+))?$')
_ERROR = re.compile(r"(?P<kind>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z_]\w*))(?:\((?P<inner>\w+)\))?(?:: (?P<text>.*)|:)?$")
_USUAL = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Quit|Warning|Timeout|Iteration|Failure|Failed|Expired|Abort|Group)$"
)
_SYNTAX = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
_GUTTER = re.compile(r"\s*(?:[|+](?:[-+]+ ?[.\d]*[- ]*$|-[-+]* ?|\s?))+")
_LINK = {
    "The above exception was the direct cause of the following exception:": "direct",
    "During handling of the above exception, another exception occurred:": "during",
}
_NESTED = ("Original Traceback", "-- Process ", "Remote traceback", "ray::")
_PDSH = re.compile(r"(?P<host>[A-Za-z][\w.-]*): ")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python3[\d.]*/|/lib64/python3|<frozen|^<|/bin/(?:torchrun|accelerate|deepspeed)$|importlib"
)
REACH = 1500  # lines of one rank that a traceback may have
FOREIGN = 6000  # lines of others that may stand between them
MESSAGE = 12  # lines of an exception's message that are looked at


@dataclass(frozen=True, kw_only=True)
class Raised:
    """One exception."""

    kind: str
    text: str
    number: int  # index of its line
    place: tuple[str, int, str] | None  # file, line, function: the last that is not a library's
    last: tuple[str, int, str] | None  # where it was raised

    @property
    def words(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


@dataclass(kw_only=True)
class Trace:
    """A traceback with all the exceptions that are chained in it."""

    start: int  # index of its first line
    end: int
    speaker: Speaker
    when: float | None
    raised: list[Raised] = field(default_factory=list)
    links: list[str] = field(default_factory=list)  # what stands between them: direct, during, nested, group
    own: set[int] = field(default_factory=set)  # lines of code in it, which are no message
    headers: set[int] = field(default_factory=set)

    def origin(self) -> Raised:
        """What came first; of an exception raised while another was handled, the later one, which was not."""
        at = 0
        for place, link in enumerate(self.links):
            if link in ("during", "nested"):
                at = place + 1
        at = min(at, len(self.raised) - 1)
        while self.raised[at].kind.endswith("ExceptionGroup") and at + 1 < len(self.raised):
            at += 1
        return self.raised[at]


def read(lines: Sequence[str], start: int, claimed: AbstractSet[int] = frozenset()) -> Trace | None:
    """The traceback that begins at `lines[start]`; None where it has no end.

    `claimed`: exceptions of other tracebacks, where those of several ranks stand through each other without labels.
    """
    text_of, speaker, when = _stream(lines, start)
    trace = Trace(start=start, end=start, speaker=speaker, when=when)
    frames: list[tuple[str, int, str]] = []
    others = taken = 0
    near = False  # the line before was one of this traceback
    grouped = HEADER in lines[start] and "Exception Group" in lines[start]
    index = start + 1
    while index < len(lines) and taken < REACH and others < FOREIGN:
        text = text_of(index)
        if text is None:
            others += 1
            index += 1
            continue
        taken += 1
        in_group = grouped and text.lstrip()[:1] in ("|", "+")
        if in_group:
            text = _GUTTER.sub("", text, count=1)
        frame = _FRAME.match(text)
        if frame:
            frames.append((frame["file"], int(frame["line"]), frame["where"] or ""))
            trace.own.add(index)
            near = True
        elif HEADER in text:
            if trace.raised or "Original" in text or in_group:
                trace.headers.add(index)
                frames = []
            near = True
        elif text[:1] in (" ", "\t") or not text.strip(" ^~"):
            if near:
                trace.own.add(index)
        else:
            error = None if index in claimed else _error(text, near)
            if error:
                trace.raised.append(_raised(error, index, frames))
                frames = []
                link, index = _after(text_of, index, trace, in_group)
                if not link:
                    return trace
                trace.links.append(link)
                others, near = 0, link == "group"
                continue
            near = False
        index += 1
    return trace if trace.raised else None


def _stream(lines: Sequence[str], start: int) -> tuple[Callable[[int], str | None], Speaker, float | None]:
    """Which of the following lines are of the same rank: a function from an index to its text, or None."""
    line = plain(lines[start])
    labelled = take_apart(line)
    found = _PDSH.match(labelled.text)
    if found and labelled.text != line and not labelled.text[found.end() :].startswith(("Trace", "Exc")):
        found = None
    before = line[: line.find(HEADER)] if HEADER in line else ""
    if found and HEADER in line and labelled.text.find(HEADER) >= found.end():  # pdsh, and perhaps more behind it
        rest = take_apart(labelled.text[found.end() :])
        if rest.text.lstrip(" +|").startswith((HEADER, "Exception Group")):
            speaker = Speaker(rank=rest.speaker.rank, host=found["host"], local=rest.speaker.local)
            return lambda index: _cut(plain(lines[index]), before), speaker, labelled.when
    if before.strip() == "traceback :":  # in torchrun's table: everything is two to the right
        return lambda index: _cut(plain(lines[index]), "  "), NOBODY, None
    speaker = labelled.speaker
    if before and labelled.when is None and labelled.text.startswith(HEADER):
        return lambda index: _cut(plain(lines[index]), before), speaker, None
    bare = plain(lines[start + 1])[:2] == "  " if start + 1 < len(lines) else True
    if bare:  # a logger's prefix stands before the first line only

        def unlabelled(index: int) -> str | None:
            text = plain(lines[index])
            if text[:1] in ("[", "(") or text[:4].strip().partition(":")[0].isdigit():
                return None if take_apart(text).speaker.known else text
            return text

        return unlabelled, speaker, labelled.when

    indent = labelled.text[: len(labelled.text) - len(labelled.text.lstrip(" "))]

    def same(index: int) -> str | None:
        other = take_apart(plain(lines[index]))
        return _cut(other.text, indent) if other.speaker == speaker else None

    return same, speaker, labelled.when


def _cut(line: str, prefix: str) -> str | None:
    if line.startswith(prefix):
        return line[len(prefix) :]
    return "" if line == prefix.rstrip() else None


def _error(text: str, near: bool) -> re.Match[str] | None:
    """Whether a line is an exception's: only directly behind the traceback may it have any name."""
    found = _ERROR.match(text.rstrip())
    if not found or found["name"].isupper():
        return None
    return found if _USUAL.search(found["name"]) or near else None


def _raised(error: re.Match[str], index: int, frames: list[tuple[str, int, str]]) -> Raised:
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    return Raised(
        kind=error["kind"],
        text=error["text"] or "",
        number=index,
        place=own[-1] if own else None,
        last=frames[-1] if frames else None,
    )


def _after(text_of: Callable[[int], str | None], index: int, trace: Trace, in_group: bool) -> tuple[str, int]:
    """What follows an exception: more of its message, or a link to another. Returns the link and where to go on."""
    trace.end = index
    blanks = said = 0
    for at in range(index + 1, index + 200):
        try:
            text = text_of(at)
        except IndexError:
            return "", at
        if text is None:
            continue
        if in_group:
            if text.lstrip()[:1] not in ("|", "+"):
                return "", at
            if _GUTTER.sub("", text, count=1).strip() == "" or HEADER in text:
                return "group", at
            text = _GUTTER.sub("", text, count=1)
        for words, link in _LINK.items():
            if words in text:
                return link, at + 1
        if text.startswith(_NESTED) or (_FRAME.match(text) and not in_group):
            trace.end = at
            return "nested", at
        if not text.strip():
            blanks += 1
            if blanks > 2:
                break
        elif HEADER in text or said >= MESSAGE or _error(text, near=False):
            break
        elif not blanks:
            trace.end = at
            said += 1
    return "", at


BOX = "Traceback (most recent call last) \u2500"
_BOX_FRAME = re.compile(r"\u2502 (?P<file>\S+\.py):(?P<line>\d+) in (?P<where>\S+)")


def boxed(lines: Sequence[str], start: int) -> Trace | None:
    """A traceback that the package rich drew into a box: its exception stands below."""
    labelled = take_apart(plain(lines[start]))
    trace = Trace(start=start, end=start, speaker=labelled.speaker, when=labelled.when)
    frames: list[tuple[str, int, str]] = []
    below = False
    for index in range(start + 1, min(len(lines), start + REACH)):
        other = take_apart(plain(lines[index]))
        if other.speaker != labelled.speaker:
            continue
        frame = _BOX_FRAME.search(other.text)
        if frame:
            frames.append((frame["file"], int(frame["line"]), frame["where"]))
        if "\u2570\u2500" in other.text:
            below = True
        elif below:
            error = _error(other.text, near=True)
            if error:
                trace.raised.append(_raised(error, index, frames))
                trace.end = index
            break
        trace.own.add(index)
    return trace if trace.raised else None


def alone(lines: Sequence[str], index: int) -> Trace | None:
    """An exception's line whose traceback is not in the log."""
    labelled = take_apart(plain(lines[index]))
    error = _ERROR.match(labelled.text.rstrip())
    if (
        error is None
        or not error["name"].endswith(("Error", "Exception"))
        or not re.search("[A-Za-z]{3}", error["text"] or "")
    ):
        return None  # `MeanSquaredError: 0.25` is none
    trace = Trace(start=index, end=index, speaker=said_by(labelled, lines[index]), when=labelled.when)
    trace.raised.append(_raised(error, index, []))
    return trace


def syntax_error(lines: Sequence[str], index: int) -> Trace | None:
    """`SyntaxError: ...` of the script itself, which has no header above it."""
    labelled = take_apart(plain(lines[index]))
    found = _SYNTAX.match(labelled.text)
    if not found:
        return None
    for above in range(index - 1, max(-1, index - 6), -1):
        frame = _FRAME.search(plain(lines[above]))
        if frame:
            error = _ERROR.match(labelled.text.rstrip())
            place = (frame["file"], int(frame["line"]), frame["where"] or "")
            if error is None:
                return None
            trace = Trace(start=above, end=index, speaker=said_by(labelled, lines[index]), when=labelled.when)
            trace.raised.append(_raised(error, index, [place]))
            trace.own.update(range(above, index))
            return trace
    return None


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What torchrun says failed first."""

    number: int  # index of the line with the exit code
    speaker: Speaker
    code: int


_FIELD = re.compile(r"^\s*(time|host|rank|exitcode)\s*: (.*)$")
ROOT = "Root Cause (first observed failure):"


def summary(lines: Sequence[str], start: int) -> Summary | None:
    """The block below `Root Cause`, at `lines[start]`."""
    fields: dict[str, str] = {}
    for index in range(start + 1, min(start + 12, len(lines))):
        found = _FIELD.search(take_apart(plain(lines[index])).text)
        if found:
            fields[found[1]] = found[2]
        if "exitcode" in fields:
            code = re.match(r"-?\d+", fields["exitcode"])
            rank = re.match(r"\d+", fields.get("rank", ""))
            who = Speaker(rank=int(rank[0]) if rank else None, host=fields.get("host", "").strip())
            return Summary(number=index, speaker=who, code=int(code[0])) if code else None
    return None
