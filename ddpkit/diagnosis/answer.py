"""The answer to a failure: its cause, its fix and where to look, of a known entry or of an exception of the script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ddpkit.diagnosis.catalogue.entry import OWN, Entry, as_word, filled, filled_command
from ddpkit.diagnosis.line_prefixes import UNKNOWN_SPEAKER, Speaker
from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.diagnosis.tracebacks import RaisedException, Traceback
from ddpkit.text import one_line

# Kinds in the order in which they say what ended a run.
LAYERS = {"cause": 0, "death": 1, "generic": 2, "consequence": 3, "hint": 4}
MAX_TEXT = 400  # characters of a line
MAX_CODE = 200  # characters of a line of code that is quoted
MAX_ALSO = 120  # of another exception in the same traceback
# What advice is about: an option, a variable, or what does not fit.
_TERM = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]*|[A-Z][A-Z_]{3,}(?==)|too (?:old|new)|outdated|incompatible|unsupported"
)
# A sentence of a message that says what to do.
_ADVICE = re.compile(
    r"(?:^|[.!?;:,] | - | (?=Did you mean ))((?:[Pp]lease(?! (?:understand|see|inspect|make sure this))"
    r"|To [a-z][^.,]+, (?:set|use|run|pass|call|add)|[Yy]our? (?:\w+ )?(?:need|should|must|have to|can|may)|Try"
    r"|Make sure|Ensure|Consider|Either|Did you|HINT:|Perhaps|Use|Set|Install|Pass|Specify|Check|Run|Remove) .*"
    r"|(?:use|try|set|pass|add|specify|request|choose|export)(?: \S+){0,2} [`'\"]?(?:-{1,2}[A-Za-z]|[A-Z_]{4,}=).*"
    r"|(?:[Yy]our|[Tt]h(?:e|is)) [^.;:]{0,60}\b(?:may be|might be|is|are)"
    r" (?:too (?:old|new|small|large)|not supported|unsupported|out of date|outdated|incompatible)\b.*)"
)
# An argument of the command or the configuration, in the code of an assertion.
_ARGUMENT = re.compile(r"\b(?:args|cfg|config|hparams|opts?)\.((?:[a-z]\w*\.)*[a-z]\w*)\b(?!\()")
_STATEMENT = re.compile(r"(?i)(?:your|the|this) ")  # what is too old, and not what to do
# A whole sentence, as a person writes it.
_SENTENCE = re.compile(r"[\[`'\"(]?[A-Z-][\w\]`'\")./-]*(?: \S+){4}")
_ABOUT_BUGS = re.compile(r"(?i)(?:file|open|raise|report|submit) (?:an?|this) (?:bug|issue)|feature request|fburl\.com")
BY_CLASS = "own-exception-by-class"  # usual reasons of exceptions by their class alone
NO_PROBE = "nothing to check"


@dataclass(frozen=True, kw_only=True)
class LogMatch:
    """One recognised failure. `entry` is None for an exception that the catalogue does not know."""

    entry: Entry | None
    kind: str
    file: str
    number: int  # of the line, from 1
    end: int  # the last line that belongs to it
    said: str = ""  # advice, or a reason, in its line behind what its entry knows
    above: str = ""  # a line above it that no entry knows, and that can be its reason
    begin: int = 0  # the first line of its traceback
    text: str
    speaker: Speaker = UNKNOWN_SPEAKER
    when: float | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""  # of an exception of the script's own: its words, file and line
    location: str = ""  # and where to look at it
    doubtful: bool = False  # its text stands outside of a traceback, and is also printed where nothing is wrong
    warned: bool = False  # the line is a warning, whatever its entry is
    traced: bool = False  # it stands in a traceback
    program: str = ""  # the file of the first frame of a traceback that begins there
    reporter: Speaker | None = None  # the rank that printed the line, where `speaker` is the one that it waited for
    overcome: bool = False  # the log shows that this warning did no harm
    decisive: bool = False  # a launcher or a kernel reports the end of a process

    @property
    def top(self) -> bool:
        """Whether it is a traceback from the program's first frame on: it ended the program."""
        return bool(self.program)

    @property
    def was_cause(self) -> bool:
        """Whether only the level of its line makes it a hint."""
        return self.warned and self.entry is not None and self.entry.kind == "cause"

    @property
    def may_end_a_run(self) -> bool:
        """Whether it can lead to a failure; of a hint, whether its level alone makes it one, or it explains others."""
        return self.kind != "hint" or self.was_cause or (self.entry is not None and bool(self.entry.explains))

    @property
    def evidence(self) -> str:
        return self.entry.evidence if self.entry else "text"

    @property
    def role(self) -> str:
        return self.entry.role if self.entry else ""

    @property
    def scope(self) -> str:
        return self.entry.scope if self.entry else ""

    @property
    def id(self) -> str:
        return self.entry.id if self.entry else "own-exception"

    @property
    def cause(self) -> str:
        return f"{self._cause.rstrip('.')}. The log says above: {self.above}" if self.above else self._cause

    @property
    def _cause(self) -> str:
        if self.entry is None:
            return self.summary
        cause = filled(self.entry.cause, self.values)
        known = f"{cause} {self.fix}"
        new = any(each not in known for each in _TERM.findall(self.said))
        return f"by its own message: {self.said.rstrip('.')}. In general, {cause}" if new else cause

    @property
    def bare_cause(self) -> str:
        """The cause for a sentence that names its rank already."""
        return self.cause.partition("own exception: ")[2] or self.cause

    @property
    def fix(self) -> str:
        return filled_command(self.entry.fix, self.values) if self.entry else self.location

    @property
    def probe(self) -> str:
        """A command that shows it; empty where there is none."""
        values = {"script": self.program, **self.values} if self.program else self.values
        probe = filled_command(self.entry.probe, values) if self.entry else ""
        return "" if probe == NO_PROBE else probe

    @property
    def link(self) -> str:
        return self.entry.link if self.entry else ""


class Code(NamedTuple):
    """Lines of code that a traceback shows below its last frame."""

    condition: str = ""  # of an assertion without a text
    above: str = ""  # above the line of the exception
    checked: bool = False  # they raise it: its text is a sentence that the author of a check has written


def describe_exception(trace: Traceback, who: str, code: Code, below: Sequence[str] = ()) -> str:
    """Return one sentence on an exception that no entry knows: whose it is, its words, its place, what is around it.

    `below`: the further lines of its message. One that goes on with a colon, or gives advice, is quoted.
    """
    origin = trace.origin()
    whose = f"{who}'s own exception" if who else "the script's own exception"
    inside = origin.package
    if inside and (code.checked or not origin.place):
        whose = ("a check" if code.checked else "an exception") + f" inside {inside}" + (f", {who}" if who else "")
        inside = ""
    condition = f" ({code.condition[:MAX_CODE]})" if code.condition else ""
    place = origin.place or origin.last
    where = f" at {place[0]}:{place[1]}" + (f" in {place[2]}" if place[2] else "") if place else ""
    where += f", raised inside {inside}" if inside and inside != "torch" else ""
    also = _also(trace, origin)
    reason = "" if also else _usual(origin, code)[0]
    words = _message(origin)
    words += f" {below[0][:MAX_CODE]}" if below and words.endswith(":") else ""
    advice = "" if _advice(origin) else next(filter(None, map(advice_in, below)), "")
    said = f". It says: {advice}" if advice and advice not in words else ""
    return one_line(f"{whose}: {words}{condition}{where}{also}").rstrip(".") + said + reason


def _usual(origin: RaisedException, code: Code) -> tuple[str, str]:
    """Return what usually is behind an exception of this kind, and what helps then; both are empty if not known.

    A message with advice tells it itself, and what its class says is of no use beside the sentence of a check.
    """
    advice = _advice(origin)
    if advice and not _STATEMENT.match(advice[1]):
        return "", ""
    usual = find_symptom(OWN, origin.words)
    if not usual.cause and not _is_of_check(origin, code):
        usual = find_symptom(BY_CLASS, origin.words)
    match = re.search(usual.text, origin.words) if usual.cause else None
    if match is None:
        return "", ""
    values = {name: value for name, value in (*match.groupdict().items(), ("package", origin.package)) if value}
    return f". Usual reason: {filled(usual.cause, values)}", filled_command(usual.fix, values)


def _is_of_check(origin: RaisedException, code: Code) -> bool:
    """Whether a text is that of a check: Python's own texts are no whole sentences, and its checks name a key alone."""
    return " " in origin.text and (code.checked or _SENTENCE.match(origin.text) is not None)


def _also(trace: Traceback, origin: RaisedException) -> str:
    """Name the other exception of a traceback that matters."""
    first, last = trace.raised[0], trace.raised[-1]
    if trace.links and trace.links[-1] == "during" and last is origin:
        return f" (while handling {first.words[:MAX_ALSO]})"
    if "nested" in trace.links:
        return f" (inside {first.words[:MAX_ALSO]})"
    return "" if last is origin else f" (it ended as {last.words[:MAX_ALSO]})"


def where_to_look(trace: Traceback, code: Code, above: bool) -> str:
    """Say what to correct, as far as the code shows it, and where to look. `above`: whether the log has lines above."""
    origin = trace.origin()
    usual = "" if _also(trace, origin) else _usual(origin, code)[1]
    place = _place_to_look(origin, above)
    if _advice(origin):
        place = f"read the whole message, which has advice. Otherwise {place}"
    elif not usual and (origin.package or not origin.place) and _is_of_check(origin, code):
        place = f"change what the message names, in the command, the configuration or the data. Otherwise {place}"
    # Of an error about None in the line that raised it: an argument without a value.
    unset = "NoneType" in origin.text and origin.place == origin.last
    arguments = _name_arguments("correct", code.condition) + (_name_arguments("set", code.above) if unset else "")
    if usual:  # what the log shows comes before what is usual
        place = f"{place}. For the usual reason: {usual}" if origin.place else f"{usual}. Otherwise {place}"
    return f"{arguments}{place}"


def _name_arguments(verb: str, code: str) -> str:
    """Name the arguments in a line of code: of an assertion without a text, or of an error about None."""
    names = list(filter(None, map(as_word, dict.fromkeys(_ARGUMENT.findall(code)))))
    return f"{verb} {' or '.join(names)} in the command or the configuration. Otherwise " if names else ""


def advice_in(text: str) -> str:
    """Return the sentence of a message that says what to do, or what is too old; empty where it has none."""
    advice = _ADVICE.search(text)
    return "" if advice is None or _ABOUT_BUGS.search(advice[1]) else one_line(advice[1].strip(), MAX_CODE)


def _advice(origin: RaisedException) -> re.Match[str] | None:
    """Return the advice in a message. It is quoted with the message, and no hint: anybody can print it."""
    advice = _ADVICE.search(origin.text)
    return None if advice is None or _ABOUT_BUGS.search(advice[1]) else advice


def _message(origin: RaisedException) -> str:
    """Return the words of an exception, of long ones the beginning and the advice."""
    advice = _advice(origin)
    if advice is None or len(origin.words) <= MAX_TEXT:
        return origin.words[:MAX_TEXT]
    room = MAX_TEXT - MAX_CODE
    at = max(room, len(origin.words) - len(origin.text) + advice.start(1))
    return f"{origin.words[:room]}{' ... ' if at > room else ''}{origin.words[at : at + MAX_CODE]}"


def _place_to_look(origin: RaisedException, above: bool) -> str:
    """Say where to look: at the user's own line, or at a package's versions and arguments."""
    package = "" if origin.place else as_word(origin.package)
    if package:
        return f"check the arguments of that call, and the version: pip show {package}"
    file = as_word(origin.place[0]) if origin.place else ""
    if origin.place and file:
        return f"look at {file}, line {origin.place[1]}"
    return (
        "look at the lines above it"
        if above
        else "find the traceback of this line, in the whole log or that of its rank"
    )
