"""Sentences on an exception that no entry of the catalogue knows: what it says, what is usual, and where to look."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ddpkit.diagnosis.catalogue.entry import OWN, as_word, filled, filled_command
from ddpkit.diagnosis.symptoms import find_symptom
from ddpkit.diagnosis.tracebacks import RaisedException, Traceback
from ddpkit.text import one_line

MAX_TEXT = 400  # characters of a line
MAX_CODE = 200  # characters of a line of code that is quoted
MAX_ALSO = 120  # of another exception in the same traceback
LEAST = 40  # of advice that is quoted
# A sentence of a message that says what to do.
_ADVICE = re.compile(
    r"(?:^|[.!?;:,] | - | (?=Did you mean ))((?:[Pp]lease(?! (?:understand|see|inspect|make sure this))"
    r"|To (?!see |learn |know )[a-z][^.,]+, (?:set|use|run|pass|call|add)"
    r"|[Yy]our? (?:\w+ )?(?:need|should|must|have to|can|may)|Try"
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


class Code(NamedTuple):
    """Lines of code that a traceback shows between its last frame and the line of its exception."""

    condition: str = ""  # of an assertion without a text
    last_line: str = ""  # the one just above the line of the exception: it raised the exception
    by_check: bool = False  # a `raise` or an `assert` is among them: the author of a check wrote the exception's text


def describe_exception(trace: Traceback, who: str, code: Code, below: Sequence[str] = ()) -> str:
    """Return one sentence on an exception that no entry knows: whose it is, its words, its place, what is around it.

    `below`: the further lines of its message. One that goes on with a colon, or gives advice, is quoted.
    """
    origin, package = trace.origin(), trace.origin().package
    place = origin.place or origin.last
    where = f" at {place.file}:{place.line}" + (f" in {place.function}" if place.function else "") if place else ""
    if package and (code.by_check or not origin.place):
        whose = ("a check" if code.by_check else "an exception") + f" inside {package}" + (f", {who}" if who else "")
    else:
        whose = f"{who}'s own exception" if who else "the script's own exception"
        where += f", raised inside {package}" if package and package != "torch" else ""
    words = origin.words[:MAX_TEXT]
    words += f" {below[0][:MAX_CODE]}" if below and words.endswith(":") else ""
    condition = f" ({code.condition[:MAX_CODE]})" if code.condition else ""
    advice = next(filter(None, map(advice_in, (origin.text, *below))), "")
    said = f". It says: {advice}" if advice[:LEAST] not in one_line(words) else ""
    usual = f". Usual reason: {reason}" if (reason := _usual_reason(trace, code).reason) else ""
    return one_line(f"{whose}: {words}{condition}{where}{_other_exception(trace)}").rstrip(".") + said + usual


class _Usual(NamedTuple):
    """What usually is behind an exception; empty: not known."""

    reason: str = ""
    fix: str = ""


def _usual_reason(trace: Traceback, code: Code) -> _Usual:
    """Return what usually is behind the exception of a traceback, from its words or its class.

    It is left empty where the log itself says more: by a second exception, by advice in the message. Beside the
    sentence of a check the class says nothing.
    """
    origin = trace.origin()
    advice = _advice(origin.text)
    if _other_exception(trace) or (advice and not _STATEMENT.match(advice[1])):
        return _Usual()
    usual = find_symptom(OWN, origin.words)
    if not usual.cause and not _is_sentence_of_check(origin, code):
        usual = find_symptom(BY_CLASS, origin.words)
    match = re.search(usual.text, origin.words) if usual.cause else None
    if match is None:
        return _Usual()
    values = {name: value for name, value in (*match.groupdict().items(), ("package", origin.package)) if value}
    return _Usual(filled(usual.cause, values), filled_command(usual.fix, values))


def _is_sentence_of_check(origin: RaisedException, code: Code) -> bool:
    """Whether the author of a check wrote a text: Python's own are no whole sentences, and its checks name a key."""
    return " " in origin.text and (code.by_check or _SENTENCE.match(origin.text) is not None)


def _other_exception(trace: Traceback) -> str:
    """Return, in brackets, the exception beside the origin of a traceback that matters; empty without one."""
    origin, first, last = trace.origin(), trace.raised[0], trace.raised[-1]
    if trace.links and trace.links[-1] == "during" and last is origin:
        return f" (while handling {first.words[:MAX_ALSO]})"
    if "nested" in trace.links:
        return f" (inside {first.words[:MAX_ALSO]})"
    return "" if last is origin else f" (it ended as {last.words[:MAX_ALSO]})"


def where_to_look(trace: Traceback, code: Code, *, lines_above: bool) -> str:
    """Say what to correct, and where to look: the steps to try, the most certain one first.

    `lines_above`: whether the log has lines above the exception.
    """
    origin, usual_fix = trace.origin(), _usual_reason(trace, code).fix
    steps = [_name_arguments("correct", code.condition)]
    if "NoneType" in origin.text and origin.place == origin.last:  # the script's own line used an unset argument
        steps.append(_name_arguments("set", code.last_line))
    if usual_fix and not origin.place:
        steps.append(usual_fix)
    if _advice(origin.text):
        steps.append("read the whole message, which has advice")
    elif not usual_fix and (origin.package or not origin.place) and _is_sentence_of_check(origin, code):
        steps.append("change what the message names, in the command, the configuration or the data")
    steps.append(_place_to_look(origin, lines_above))
    # A line of the script's own, which the log shows, comes before what is usual.
    afterwards = f". For the usual reason: {usual_fix}" if usual_fix and origin.place else ""
    return ". Otherwise ".join(filter(None, steps)) + afterwards


def _name_arguments(verb: str, code: str) -> str:
    """Say which arguments of a line of code to correct or to set; empty where it has none."""
    names = list(filter(None, map(as_word, dict.fromkeys(_ARGUMENT.findall(code)))))
    return f"{verb} {' or '.join(names)} in the command or the configuration" if names else ""


def advice_in(text: str) -> str:
    """Return the sentence of a message that says what to do, or what is too old; empty where it has none."""
    advice = _advice(text)
    return one_line(advice[1].strip(), MAX_CODE) if advice else ""


def _advice(text: str) -> re.Match[str] | None:
    """Return the advice in a message, as group 1. It is quoted with the message, and no hint: anybody can print it."""
    advice = _ADVICE.search(text)
    return None if advice is None or _ABOUT_BUGS.search(advice[1]) else advice


def _place_to_look(origin: RaisedException, lines_above: bool) -> str:
    """Say where to look: at the user's own line, or at a package's versions and arguments."""
    package = "" if origin.place else as_word(origin.package)
    if package:
        return f"check the arguments of that call, and the version: pip show {package}"
    file = as_word(origin.place.file) if origin.place else ""
    if origin.place and file:
        return f"look at {file}, line {origin.place.line}"
    if lines_above:
        return "look at the lines above it"
    return "find the traceback of this line, in the whole log or that of its rank"
