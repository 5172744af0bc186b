"""Python's tracebacks in a log: chained, grouped, boxed, of several ranks through each other; syntax errors."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from ddpkit.diagnosis.catalogue import form
from ddpkit.diagnosis.line_prefixes import Speaker, speaker_of_line, split_prefix, visible_line

HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<where>.+))?$')
_ERROR = re.compile(  # compiled modules also have `struct.error`, `socket.timeout` and `nixlBackendError`
    r"(?P<kind>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z_]\w*|(?<=\.)(?:[a-z]\w*(?:Error|Exception)|error|timeout|gaierror|herror)))"
    r"(?:\((?P<inner>\w+)\))?(?:: (?P<text>.*)|:)?$"
)
_USUAL = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Quit|Warning|Timeout|Iteration|Failure|Failed|Expired|Abort|Group)$"
)
# Classes of exceptions that are no usual names, and that no other text has at the begin of a line.
OTHER_CLASSES = (
    "pyarrow.lib.Arrow",
    ".exceptions.",
    ".errors.",
    "subprocess.TimeoutExpired",
    "BrokenProcessPool",
    "queue.Empty",
    "socket.timeout",
    "cv2.error: ",
    "StopIteration",
)
_OTHER_CLASS = re.compile(
    r"pyarrow\.lib\.Arrow\w+$|(?:\w+\.)+(?:exceptions|errors)\.\w+$|subprocess\.TimeoutExpired$|concurrent\.\S+BrokenProcessPool$"
)
# Words that a logger, pytest or a quotation puts before an exception.
_QUOTED = re.compile(r"^[\s>`*]*(?:(?:ERROR|CRITICAL|FATAL|E)(?: -)?:?\s+)?")
_BUILTIN = frozenset(
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type)
    and issubclass(each, Exception)
    and not issubclass(each, Warning)
    and each is not Exception
)
_OF_PYTHON = frozenset(("queue.Empty", "queue.Full", "_queue.Empty", "socket.timeout", "socket.gaierror", "cv2.error"))
_LINK = {
    "The above exception was the direct cause of the following exception:": "direct",
    "During handling of the above exception, another exception occurred:": "during",
}
_SPAWNED = re.compile(r"-- Process (\d+) terminated")
_NESTED = ("Original Traceback", "-- Process ", "Remote traceback", "ray::")
_OF_RANK = re.compile(r"Traceback \(most recent call last\): \(RANK (\d+)\)")  # that torch's checkpoints collected
_LIBRARY = form("library")
_PACKAGE = re.compile(
    r"(?:site-packages|dist-packages)/(?P<package>\w+)|(?:^|/)(?P<name>torch|deepspeed|accelerate|transformers|datasets|ray|horovod|huggingface_hub|pytorch_lightning|lightning)/"
)
_FIRST_FUNCTIONS = ("<module>", "_run_module_as_main", "_bootstrap", "_bootstrap_inner")
_OF_CLEANUP = ("NameError", "UnboundLocalError")
_CLOCK = re.compile(r"\d:\d\d:\d\d|\d{10}")  # a label with a time differs from line to line
# Python reports these, and continues.
IGNORED = ("Exception ignored in", "Exception ignored on", "Error in atexit._run_exitfuncs", "--- Logging error ---")
# A line of a logger or of SLURM: no message of the exception above it.
_LOGGED = re.compile(
    r"\W{0,2}(?:INFO|DEBUG|WARNING)\b|\[?\d{4}-\d\d-\d\d[T ]\d\d:|(?:slurmstepd(?:-[\w.-]+)?|srun|salloc): "
    r"|(?:\[rank\d+\]:)?\[?[EFIW](?:\d{3,4} \d\d:| \w+\.cpp:)"
)
MAX_LINES = 1500  # lines of one rank that a traceback may have
MAX_HEADERS = 200  # of others between them, without labels
MAX_FOREIGN_LINES = 6000  # lines of others that may stand between them
FEW_LINES = 4  # that may stand below the last line with words
MAX_CUT_LINES = 200  # lines above an exception without a header that are searched for its frames
MAX_MESSAGE_LINES = 12  # lines of an exception's message that are looked at


class Frame(NamedTuple):
    """A frame of a traceback."""

    file: str
    line: int
    function: str  # empty: a syntax error has none


@dataclass(frozen=True, kw_only=True)
class RaisedException:
    """One exception."""

    kind: str  # its class, as Python prints it
    text: str
    number: int  # index of its line
    place: Frame | None  # the last frame that is not a library's
    last: Frame | None  # where it was raised
    program: str = ""  # the file of its first frame, where that is the program's: nothing around it can have caught it

    @property
    def package(self) -> str:
        """The package whose code raised it; empty if that is the script's, or Python's own."""
        match = _PACKAGE.search(self.last.file) if self.last and self.last != self.place else None
        return (match["package"] or match["name"]) if match else ""

    @property
    def words(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


@dataclass(kw_only=True)
class Traceback:
    """A traceback with all the exceptions that are chained in it."""

    start: int  # index of its first line
    end: int  # index of the last line of its last exception's message
    speaker: Speaker
    when: float | None
    raised: list[RaisedException] = field(default_factory=list)
    links: list[str] = field(default_factory=list)  # what stands between them: direct, during, nested
    own: set[int] = field(default_factory=set)  # lines of frames and code in it, which are no message
    headers: set[int] = field(default_factory=set)  # lines that begin the tracebacks chained in it
    failed: set[int] = field(default_factory=set)  # ranks that the text names, where another rank can print it

    def origin(self) -> RaisedException:
        """Return the first exception; of one raised while another was handled, the later one, which was not handled.

        A name that is missing then is one that the first exception left unset, and that is why an import failed.
        """
        chosen = self.raised[0]
        for number, link in enumerate(self.links, 1):
            later = self.raised[min(number, len(self.raised) - 1)]  # the log can end before the later one
            if link == "nested" or (link == "during" and not _follows_from_earlier(later)):
                chosen = later
        return chosen


def _follows_from_earlier(later: RaisedException) -> bool:
    """Whether an exception, raised while another one was handled, has that one as its only reason."""
    return later.kind in _OF_CLEANUP


def begins_failure(lines: Sequence[str], index: int) -> bool:
    """Whether a traceback begins at this line that is not one of those that Python ignored."""
    return HEADER in lines[index] and not any(words in lines[index - 1] for words in IGNORED if index)


def is_frame(line: str) -> bool:
    return _FRAME.search(line) is not None


def is_code(lines: Sequence[str], index: int) -> bool:
    """Whether this line is the source code that Python prints below a frame, also where no header is in the log."""
    above, line = visible_line(lines[index - 1]), visible_line(lines[index])
    column = above.find('File "')
    return is_frame(above) and line[column : column + 2] == "  "


def read_traceback(lines: Sequence[str], start: int, claimed: AbstractSet[int] = frozenset()) -> Traceback | None:
    """Read the traceback that begins at `lines[start]`; None where it has no end.

    `claimed`: exceptions of other tracebacks, where those of several ranks stand through each other without labels.
    """
    text_of, speaker, when = _same_speaker(lines, start)
    trace = Traceback(start=start, end=start, speaker=speaker, when=when)
    frames: list[Frame] = []  # of the exception that comes next
    own = foreign = headers = 0  # lines of this rank, lines of other ranks, headers without an exception yet
    adjacent = False  # the line before was one of this traceback
    trace.failed.update(map(int, _OF_RANK.findall(lines[start])))
    index = start + 1
    while index < len(lines) and own < MAX_LINES and foreign < MAX_FOREIGN_LINES and headers < MAX_HEADERS:
        text = text_of(index)
        if text is None:
            foreign += 1
            index += 1
            continue
        own += 1
        frame = _frame(text)
        if frame:
            frames.append(frame)
            trace.own.add(index)
            adjacent = True
        elif HEADER in text:  # before an exception it begins the traceback of another rank, without a label
            headers += not trace.raised
            if trace.raised or "Original" in text:
                trace.headers.add(index)
                frames = []
            adjacent = True
        elif text[:1] in (" ", "\t") or not text.strip(" ^~"):  # code, or marks below it
            if adjacent:
                trace.own.add(index)
        else:
            error = None if index in claimed else _error(text, adjacent)
            if error:
                trace.raised.append(_raised(error, index, frames))
                frames = []
                link, index = _read_message(text_of, index, trace)
                if not link:
                    return trace
                trace.links.append(link)
                foreign, adjacent = 0, False
                continue
            adjacent = False
        index += 1
    return trace if trace.raised else None


def _same_speaker(lines: Sequence[str], start: int) -> tuple[Callable[[int], str | None], Speaker, float | None]:
    """Return a function from an index to the text of that line, None if another rank's; the speaker; its time."""
    line = visible_line(lines[start])
    prefixed = split_prefix(line)
    before = line[: line.find(HEADER)] if HEADER in line else ""
    speaker, when = prefixed.speaker, prefixed.when
    below = visible_line(lines[start + 1]) if start + 1 < len(lines) else "  "
    repeated_below = before and below.startswith(before) and below[len(before) :][:1] in (" ", "\t")
    known_label = before.strip() and prefixed.text.startswith(HEADER) and not _CLOCK.search(before)
    if known_label or repeated_below:
        return lambda index: _cut(visible_line(lines[index]), before), speaker, None
    if below[:2] == "  ":  # a logger's prefix stands before the first line only
        return lambda index: visible_line(lines[index]), speaker, when

    indent = prefixed.text[: len(prefixed.text) - len(prefixed.text.lstrip(" "))]

    def same(index: int) -> str | None:
        other = split_prefix(lines[index])
        return _cut(other.text, indent) if other.speaker == speaker else None

    return same, speaker, when


def _cut(line: str, prefix: str) -> str | None:
    """Return a line without its prefix; None where it has another one."""
    if line.startswith(prefix):
        return line[len(prefix) :]
    return "" if line == prefix.rstrip() else None


def _error(text: str, adjacent: bool) -> re.Match[str] | None:
    """Match the line of an exception. Only directly behind a traceback may it have any name."""
    match = _ERROR.match(text.rstrip())
    if not match or match["name"].isupper() or _is_mixed(match):
        return None
    return match if _USUAL.search(match["name"]) or adjacent else None


def _is_mixed(error: re.Match[str]) -> bool:
    """Whether another rank's frame follows the class: its own message was printed elsewhere."""
    return _FRAME.match(error["text"] or "") is not None


def _frame(text: str) -> Frame | None:
    frame = _FRAME.match(text)
    return Frame(frame["file"], int(frame["line"]), frame["where"] or "") if frame else None


def _raised(error: re.Match[str], index: int, frames: list[Frame]) -> RaisedException:
    own = [frame for frame in frames if not _LIBRARY.search(frame.file)]
    packaged = [frame for frame in frames if _PACKAGE.search(frame.file)]  # above those of Python's own library
    return RaisedException(
        kind=error["kind"] + (f"({error['inner']})" if error["inner"] else ""),
        text=error["text"] or "",
        number=index,
        place=own[-1] if own else None,
        last=(packaged or frames)[-1] if frames else None,
        program=frames[0].file if frames and frames[0].function in _FIRST_FUNCTIONS else "",
    )


def _read_message(text_of: Callable[[int], str | None], index: int, trace: Traceback) -> tuple[str, int]:
    """Read the message of an exception. Returns the link to the next exception, or '', and where to go on."""
    trace.end = index
    blanks = message_lines = 0
    has_message = ":" in (text_of(index) or "")
    for at in range(index + 1, index + 200):
        try:
            text = text_of(at)
        except IndexError:
            return "", at
        if text is None:
            continue
        for words, link in _LINK.items():
            if words in text:
                return link, at + 1
        process = _SPAWNED.match(text)
        if process and not trace.speaker.known:
            trace.speaker = Speaker(rank=int(process[1]))
        collected = _OF_RANK.match(text)
        if collected:
            trace.failed.add(int(collected[1]))
        if collected or text.startswith(_NESTED) or _FRAME.match(text):
            trace.end = at
            return "nested", at
        if not text.strip():
            blanks += 1
            if blanks > 2:
                break
        elif "RayTaskError" in trace.raised[-1].kind and _error(text, adjacent=False):
            return "nested", at
        elif (
            HEADER in text or message_lines >= MAX_MESSAGE_LINES or _error(text, adjacent=False) or _LOGGED.match(text)
        ):
            break
        elif not blanks and has_message:
            trace.end = at
            message_lines += 1
    return "", at


def read_bare_exception(lines: Sequence[str], index: int) -> Traceback | None:
    """Read the line of an exception whose traceback is not in the log; None where the line has none."""
    prefixed = split_prefix(lines[index])
    error = _ERROR.match(_QUOTED.sub("", prefixed.text).strip("`*\u2502 \t"))
    if error is None or not _is_exception(error):
        return None
    below_code = index > 0 and is_code(lines, index - 1)
    if not (below_code or _has_words(error) or (_is_usual(error) and _is_last(lines, index))):
        return None  # `MeanSquaredError: 0.25` is a metric
    trace = Traceback(start=index, end=index, speaker=speaker_of_line(lines[index]), when=prefixed.when)
    trace.raised.append(_raised(error, index, _frames_above(lines, index)))
    return trace


def _is_usual(error: re.Match[str]) -> bool:
    """Whether a class is one of Python's own, or of a package that is known to raise it."""
    return (error["name"] in _BUILTIN and error["name"] != "Exception") or error["kind"] in _OF_PYTHON


def _has_words(error: re.Match[str]) -> bool:
    """Whether the text of an exception says something; a number is enough for a usual class."""
    return re.search(r"\S" if _is_usual(error) else "[A-Za-z]{3}", error["text"] or "") is not None


def _is_last(lines: Sequence[str], index: int) -> bool:
    """Whether a line is the last of its log, or has only a bar of progress below it."""
    below = [line for line in lines[index + 1 : index + 1 + FEW_LINES] if line.strip() and "%|" not in line]
    return not below and len(lines) - index <= FEW_LINES + 1


def _is_exception(error: re.Match[str]) -> bool:
    """Whether a line names a class of exceptions."""
    known = error["name"].endswith(("Error", "Exception")) or _OTHER_CLASS.match(error["kind"]) is not None
    return (known or _is_usual(error)) and not _is_mixed(error)


def _frames_above(lines: Sequence[str], index: int) -> list[Frame]:
    """Return the frames just above an exception, where the header of its traceback is not in the log."""
    speaker = split_prefix(lines[index]).speaker
    frames: list[Frame] = []
    for above in range(index - 1, max(-1, index - MAX_CUT_LINES), -1):
        prefixed = split_prefix(lines[above])
        frame = _frame(prefixed.text)
        if frame:
            frames.insert(0, frame)
        elif prefixed.speaker != speaker or prefixed.text[:1] not in (" ", "\t"):
            break
    return frames


_FIELD = re.compile(r"^\s*(time|host|rank|exitcode)\s*: (.*)$")
ROOT = "Root Cause"  # `Root Cause (first observed failure):`, and `Root Cause:` of torch 1.9


def read_torchrun_table(lines: Sequence[str], start: int) -> tuple[int, dict[str, str]] | None:
    """Read the block below `Root Cause`, at `lines[start]`: the index of its exit code, and its values; None without.

    It is of the rank that failed first.
    """
    fields: dict[str, str] = {}
    for index in range(start + 1, min(start + 12, len(lines))):
        entry = _FIELD.search(split_prefix(lines[index]).text)
        if entry:
            fields[entry[1]] = entry[2]
        if "exitcode" in fields:
            code = re.match(r"-?\d+", fields["exitcode"])
            rank = re.match(r"\d+", fields.get("rank", ""))
            known = {"host": fields.get("host", "").strip(), "rank": rank[0] if rank else ""}
            values = {name: value for name, value in known.items() if value}
            return (index, {**values, "code": code[0]}) if code else None
    return None


_EXIT = re.compile(r"^\s*exitcode\s*: (?!-15\b)-?\d")
ROW_LINES = 4  # of a row: time, host and rank stand above the exit code


def read_torchrun_row(lines: Sequence[str], index: int) -> tuple[int, dict[str, str]] | None:
    """Read a row of which `lines[index]` has the exit code, where the log does not show the root cause."""
    if not _EXIT.match(split_prefix(lines[index]).text):
        return None
    return read_torchrun_table(lines[: index + 1], max(-1, index - ROW_LINES))
