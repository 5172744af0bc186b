"""Decides which of the events in the logs of a run is its first failure, whose it was, and what followed from it. Pure.

Causes come before deaths, failures without a reason, consequences and warnings; of one layer, the earliest comes first.
What is known to explain it, along the edges of the catalogue, takes its place.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpkit.diagnosis import tracebacks
from ddpkit.diagnosis.answer import MAX_TEXT, advice_in
from ddpkit.diagnosis.catalogue import standing_in_for
from ddpkit.diagnosis.catalogue.bounded import find
from ddpkit.diagnosis.catalogue.entry import NOTHING, UNKNOWN, Entry
from ddpkit.diagnosis.events import LogReader
from ddpkit.diagnosis.line_prefixes import UNKNOWN_SPEAKER, Speaker, speaker_of_line, split_prefix, visible_line
from ddpkit.diagnosis.log_match import LAYERS, LogMatch
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.progress import PROGRESS_LINES, Course, is_mild, reports_error, says_it_continues
from ddpkit.diagnosis.read import Limit, LogText, plain_lines
from ddpkit.diagnosis.story import Log, Story
from ddpkit.text import one_line

LINES_ABOVE = 8  # above a failure that are searched for a line about its reason
MAX_ABOVE = 200  # characters of that line


def first_of(failures: Sequence[LogMatch], hints: Collection[LogMatch]) -> LogMatch:
    """Return the first of some failures, or the match that explains it."""
    layers = _layers(failures)
    deaths = [each for each in failures if each.kind == "death"]
    best = min(layers.values())
    all_have_times = all(each.when is not None for each in failures if layers[id(each)] == best)

    def order(match: LogMatch) -> tuple[object, ...]:
        consequence = match.kind == "consequence"
        when = match.when if all_have_times and match.when is not None and not consequence else 0.0
        says_less = consequence and _says_less(match)
        return layers[id(match)], match.doubtful, says_less, when, _deciding_line(match, deaths)

    return _root(min(failures, key=order), (*hints, *failures))


def _layers(failures: Sequence[LogMatch]) -> dict[int, float]:
    """Return the layer of each failure by its `id()`: the lowest says what ended the run. Unlikely ones come late.

    These are what a healthy run prints, too, and errors of a shell script that went on after its failed launcher.
    """
    program_ended = any(each.ended_program and not each.doubtful for each in failures)
    launchers = {each.file: each.number for each in reversed(failures) if each.entry.scope == "launcher"}
    layers: dict[int, float] = {}
    for each in failures:
        went_on = each.entry.scope == "shell" and launchers.get(each.file, each.number) < each.number
        unlikely = went_on or (each.doubtful and program_ended)
        layers[id(each)] = max(LAYERS[each.kind], LAYERS["generic"] + 0.5) if unlikely else LAYERS[each.kind]
    return layers


def _says_less(match: LogMatch) -> tuple[bool, bool]:
    """Order consequences: a launcher that reports the end of a process says more than ranks that noticed that end."""
    return not match.decisive, not match.values.get("local")


def _deciding_line(match: LogMatch, deaths: Sequence[LogMatch]) -> int:
    """Return the line of a failure; of a cause that is reported at the end, the line of the first death from it."""
    if match.kind != "cause":
        return match.number
    own = (each.number for each in deaths if each.file == match.file and explains(match, each))
    return min((match.number, *own))


def _root(first: LogMatch, candidates: Collection[LogMatch]) -> LogMatch:
    """Follow the edges of the catalogue from a failure to what explains it. A warning that explains it is a cause."""
    seen = {id(first)}
    while True:
        reason = next((each for each in candidates if id(each) not in seen and explains(each, first)), None)
        if reason is None:
            return first
        seen.add(id(reason))
        first = reason if reason.kind == "consequence" else replace(reason, kind="cause")


def explains(match: LogMatch, failure: LogMatch) -> bool:
    """Whether the entry of a match is known to be the reason of a failure."""
    if failure.id in match.entry.explains:
        return True
    text = match.entry.explains_text
    return not failure.known and bool(text) and bool(find(text, (failure.text,), match.entry.origin))


SECONDS = 5.0  # of the processor, for all logs of a run
LAST_LINES = 5  # of a log: an error above them did not end it
ALARM_LINES = 5  # an error so many lines below a warning is about the same
MAX_LISTED = 8
_LISTED = ("device", "setting")


@dataclass(kw_only=True)
class LogAnalysis:
    """The first failure in the logs of a run, None where it is not known; and all other matches by their part."""

    first: LogMatch | None = None
    alike: list[LogMatch] = field(default_factory=list)  # the same, of other ranks or again
    others: list[LogMatch] = field(default_factory=list)  # other causes, before it or after it
    hints: list[LogMatch] = field(default_factory=list)  # warnings that may be behind it
    consequences: list[LogMatch] = field(default_factory=list)
    survived: list[LogMatch] = field(default_factory=list)  # failures after which the run went on
    silent_ranks: list[int] = field(default_factory=list)  # ranks that print, and do not report that they waited
    restarts: int = 0  # of all ranks by torchrun
    lines: int = 0
    unread: int = 0  # lines for which there was no time
    healthy: bool = False  # its last lines show progress or a good end
    stepped: bool = False  # a line shows a step of a training
    first_alarm: tuple[str, int, str] | None = None  # where nothing is known: file, line, text of the first `error`


def analyze_log(files: Iterable[tuple[str, str | LogText]], limit: Limit | None = None) -> LogAnalysis:
    """Analyze the logs of one run, each as (name, text). `limit`: of the time in which lines are looked for."""
    matches: list[LogMatch] = []
    logs: dict[str, Log] = {}
    limit = limit or Limit(SECONDS)
    unread, since = 0, time.thread_time()
    for name, text in files:
        limit.leave_out(since)  # the text is read when it is asked for: a slow machine changes no answer
        lines, numbers = plain_lines(text if isinstance(text, LogText) else LogText(text))
        del text
        reader = LogReader(name, lines, limit)
        own_matches = reader.read()
        unread += len(reader.unread)
        first = own_matches[0].number if own_matches else len(lines)
        logs[name] = Log(lines=lines, numbers=numbers, course=Course(lines, first), harmless=reader.harmless)
        matches += own_matches
        since = time.thread_time()
    result = _decide(matches, logs)
    result.unread = unread
    _read_story(result, logs)
    if result.first is not None:
        result.first = _with_line_above(result.first, matches, logs[result.first.file])
    result.lines = sum(log.numbers[-1] - (log.lines[-1] == "") for log in logs.values() if log.numbers)
    if result.first is None or result.first.kind == "hint":
        _look_at_health(result, matches, logs)
    return _renumbered(result, logs)


def _decide(matches: list[LogMatch], logs: Mapping[str, Log]) -> LogAnalysis:
    """Choose the first failure. A cause beats a consequence; an earlier cause a later one, unless the run went on."""
    # Ranks print the same text: the frames of one show what it means.
    traced = {each.text: each.entry for each in matches if each.ended_program and each.known}
    matches = [replace(each, entry=traced[each.text]) if each.text in traced else each for each in matches]
    hints = [each for each in matches if each.kind == "hint"]
    # A run that went on after the warning of a failure did not fail of it.
    hints = [each for each in hints if not (each.was_cause and logs[each.file].course.continues(each))]
    failures, survived = _split_survived([each for each in matches if each.kind != "hint"], logs)
    result = LogAnalysis(survived=_without_repeats(survived))
    if not failures:
        return _lead_by_warning(result, hints, logs)
    first = first_of(failures, hints)
    _sort_out(result, first, failures)
    # The launcher's report just below it names its rank, also where the script went on after the launcher.
    reports = [each for each in survived if each.entry.scope == "launcher" and 0 < each.number - first.end <= 3]
    first = _with_speaker(first, result.alike, [*failures, *reports])
    result.first = first = _with_listed_values(first, result.alike)
    return result


def _sort_out(result: LogAnalysis, first: LogMatch | None, failures: Iterable[LogMatch]) -> None:
    """Put the failures beside the first one into their parts of a result."""
    place = (first.id, first.file, first.number) if first else None  # a deciding line is another object
    rest = [each for each in failures if (each.id, each.file, each.number) != place]
    result.alike = [each for each in rest if first is not None and _is_same(each, first)]
    rest = [each for each in rest if first is None or not _is_same(each, first)]
    causes = [each for each in rest if each.kind == "cause" and not (first is not None and explains(first, each))]
    result.others = _without_repeats(causes)
    shown = set(map(id, causes))
    result.consequences = [each for each in rest if id(each) not in shown]


def _split_survived(failures: Sequence[LogMatch], logs: Mapping[str, Log]) -> tuple[list[LogMatch], list[LogMatch]]:
    """Return the failures that can have ended the run, and those that it survived."""
    fatal: dict[str, int] = {}  # the number of the last failure of each file that was not survived
    survived = {id(each) for each in failures if _is_of_given_code(each, failures, logs[each.file].course)}
    for each in reversed(failures):
        if id(each) in survived:
            continue
        if _is_survived(each, logs[each.file].course, fatal_below=fatal.get(each.file, 0) > each.end):
            survived.add(id(each))
        else:
            fatal.setdefault(each.file, each.number)
    return [each for each in failures if id(each) not in survived], [each for each in failures if id(each) in survived]


def _is_of_given_code(match: LogMatch, failures: Sequence[LogMatch], course: Course) -> bool:
    """Whether it is code that a program runs from a text (`<string>`), and that failed before without ending it."""
    if not match.program.startswith("<"):
        return False
    alike = [each for each in failures if each.file == match.file and each.program == match.program]
    after = any(line.strip() for line in course.lines[match.number :])
    return after and any(each.number < match.number and course.goes_on(each) for each in alike)


def _lead_by_warning(result: LogAnalysis, hints: list[LogMatch], logs: Mapping[str, Log]) -> LogAnalysis:
    """Of a log without a failure, show the warning that can lead to one."""
    hints = [each for each in hints if not each.overcome]
    quiet = [each for each in hints if not logs[each.file].course.continues(each)]
    first = min(quiet, key=lambda each: "NCCL INFO" in each.text, default=None)  # these lines are no warnings
    if first is None:
        result.hints = _without_repeats(hints)
        return result
    first = next((each for each in quiet if each.was_cause and explains(each, first)), first)
    rest = [each for each in hints if each is not first]
    result.alike = [each for each in rest if _is_same(each, first)]
    # What torch repeats until its timeout is normal while other nodes start.
    values = {"peers": "the other nodes or pods", **first.values} if first.was_cause else first.values
    result.first = _with_listed_values(replace(first, values=values), result.alike)
    result.hints = _without_repeats(each for each in rest if not _is_same(each, first))
    return result


def _with_speaker(first: LogMatch, alike: list[LogMatch], failures: list[LogMatch]) -> LogMatch:
    """Add rank and host from other lines. `alike`: those on the same failure; `failures`: all that end a run."""
    speaker = first.speaker
    naming_host = (each for each in alike if each.values.get("host") and each.speaker.rank == speaker.rank)
    same = None if speaker.host else next(naming_host, None)  # such as srun's line
    if same is not None:
        first = replace(first, values={**same.values, **first.values})
        speaker = speaker if same.speaker.host else replace(speaker, host=same.values["host"])
    if speaker.rank is not None:  # another line of the rank can have its host
        hosts = (each.speaker.host for each in failures if each.speaker.rank == speaker.rank and each.speaker.host)
        return _of_speaker(first, replace(speaker, host=speaker.host or next(hosts, "")))
    if first.kind not in ("cause", "death"):
        return _of_speaker(first, speaker)
    if not speaker.known and ".batch" in first.text:  # the batch step runs on the host that SLURM names for its job
        host = next((each.values["host"] for each in failures if explains(first, each) and "host" in each.values), "")
        return _of_speaker(first, replace(speaker, host=host))
    naming_rank = _who_failed(alike, failures)
    if naming_rank is None or (speaker.host and naming_rank.speaker.host not in ("", speaker.host)):
        return first
    named = naming_rank.speaker
    return _of_speaker(first, replace(named, host=named.host or speaker.host, agent=speaker.agent))


def _who_failed(alike: list[LogMatch], failures: list[LogMatch]) -> LogMatch | None:
    """Return the line that says best which rank failed: torchrun's table, another on the same failure, a summary."""
    tables = [each for each in failures if each.text.startswith("exitcode") and each.speaker.rank is not None][:1]
    named = [each for each in alike if each.speaker.rank is not None and not each.warned]
    summaries = [each for each in failures if each.entry.scope == "launcher" and each.speaker.known]
    return next(iter((*named, *tables, *summaries)), None)


def _with_listed_values(first: LogMatch, alike: list[LogMatch]) -> LogMatch:
    """List all devices or settings of one host with the same failure: the kernel and RCCL print a line for each."""
    if len({each.speaker.host for each in (first, *alike)}) > 1:
        return first
    values = dict(first.values)
    for name in _LISTED:
        listed = {each.values[name]: None for each in (first, *alike) if each.values.get(name)}
        if listed:
            values[name] = ", ".join(list(listed)[:MAX_LISTED])
    return replace(first, values=values)


def _of_speaker(match: LogMatch, speaker: Speaker) -> LogMatch:
    values = {**match.values, **({"host": speaker.host} if speaker.host and "host" not in match.values else {})}
    return replace(match, speaker=speaker, values=values)


def _is_same(one: LogMatch, other: LogMatch) -> bool:
    """Whether two matches are of the same failure: of one entry, or of no entry and with the same text."""
    return one.id == other.id and (one.known or one.text == other.text)


def _without_repeats(matches: Iterable[LogMatch]) -> list[LogMatch]:
    kept: dict[tuple[str, str], LogMatch] = {}
    for each in matches:
        kept.setdefault((each.id, "" if each.known else each.text), each)
    return list(kept.values())


def _is_survived(match: LogMatch, course: Course, *, fatal_below: bool) -> bool:
    """Whether training went on after a failure, or ended well. `fatal_below`: another one that it did not survive."""
    if match.overcome:
        return True
    if course.steps_after(match) >= PROGRESS_LINES:
        # A program's own traceback stands before its last progress where a buffer of standard output was written then.
        unbuffered = course.steps_before(match) > 0 or course.is_completed(match) or course.exceeds_buffer(match)
        return not match.ended_program or unbuffered
    if fatal_below:
        return False
    # Ranks go on for a while after a scheduler or a kernel has reported their end.
    end_reported = match.decisive or match.entry.evidence == "kernel" or match.entry.scope == "job"
    if not end_reported and course.goes_on(match):
        return True
    # A job script prints its last line after a failure, too: without a step between, it says nothing of a sure cause.
    trained = match.doubtful or course.steps_after(match) > 0
    return not match.decisive and trained and course.is_completed(match)


# ---- what the rest of the run shows


def _read_story(result: LogAnalysis, logs: Mapping[str, Log]) -> None:
    """Find who waited for whom; put another entry in place of the first failure where the rest of the run shows it."""
    story = Story(logs, result.first, result.alike, result.consequences, result.hints)
    result.restarts = story.restarts
    first = result.first
    if first is not None and first.entry.role == "waits":
        result.silent_ranks = story.silent_ranks
        result.first = first = story.name_awaited(first)
    for entry, rule in standing_in_for(first.id if first else NOTHING):
        found = story.read(rule) if rule.reads else None
        if found is None:
            continue
        result.consequences = [*([first] if first else []), *result.alike, *result.consequences]
        result.alike = []
        kind = found.kind or entry.kind
        if found.index is None and first is not None:  # the line of the first failure stays
            speaker, values = found.speaker or first.speaker, {**first.values, **found.values}
            result.first = replace(first, entry=entry, kind=kind, speaker=speaker, values=values)
        else:
            of_line = _of_line(entry, kind, found.file, logs[found.file].lines, found.index or 0)
            speaker = found.speaker or UNKNOWN_SPEAKER
            result.first = replace(of_line, speaker=speaker, values=found.values, warned=found.warned)
        return


def _of_line(entry: Entry, kind: str, name: str, lines: Sequence[str], index: int) -> LogMatch:
    text = visible_line(lines[index]).strip()[:MAX_TEXT]
    return LogMatch(entry=entry, kind=kind, file=name, number=index + 1, end=index + 1, text=text)


# How a program begins the report of an error, and words of a complaint in any program's line.
_LEAD = re.compile(r"(?:[\w.-]+: )?(?:error|fatal|ERROR|FATAL): ")
_COMPLAINT = re.compile(
    r"(?i)\b(?:not?|can't|cannot|couldn't|fail\w*|denied|mismatch\w*|expired|required|refused|missing|unknown|invalid"
    r"|unable|unsupported|exceed\w*|must|errors?|fatal)\b"
)


def _with_line_above(first: LogMatch, matches: Collection[LogMatch], log: Log) -> LogMatch:
    """Return a failure with the nearest line above it that no entry knows, and that can be its reason.

    That is an error of the same program. Where only a launcher's summary is known, it is any complaint.
    """
    known = {
        number
        for each in matches
        if each.file == first.file
        for number in range(each.begin or each.number, each.end + 1)
    }
    lead = _LEAD.match(first.text)
    bare = not first.known and not first.traced and first.kind != "cause"
    unexplained = bare or (first.kind == "consequence" and first.entry.scope == "launcher")
    for number in range(first.number - 1, max(0, first.number - 1 - LINES_ABOVE), -1):
        line = visible_line(log.lines[number - 1])
        text = split_prefix(line).text.strip()
        if number in known or number in log.harmless or is_mild(line):
            continue
        complains = unexplained and len(text.split()) > 2 and _COMPLAINT.search(text)
        if complains or (lead and text.startswith(lead[0])):
            return replace(first, above=one_line(text, MAX_ABOVE))
    return first


def _look_at_health(result: LogAnalysis, matches: list[LogMatch], logs: Mapping[str, Log]) -> None:
    """Find out whether a run without a known failure went well; if not, where its log first reports an error.

    `result.first` is None here, or a warning. An alarm can make a cause of the warning, or take its place.
    """
    known = {(each.file, number) for each in matches for number in range(each.begin or each.number, each.end + 1)}
    # The line above a failure that the run survived is about it.
    known |= {(each.file, (each.begin or each.number) - 1) for each in result.survived}
    alarms = [alarm for name, log in logs.items() if (alarm := _first_alarm(name, log, known))]
    warning = result.first
    last = max((each.number for each in (warning, *result.alike) if each), default=0)
    below = [number for name, number, _ in alarms if warning and name == warning.file and number > warning.number]
    if warning is not None and warning.was_cause and any(number <= last + ALARM_LINES for number in below):
        result.first = replace(warning, kind="cause")  # an error follows the warning at once
    elif alarms:
        result.first_alarm = alarms[0]
        if warning is None:
            answers = (_own_answer(name, logs[name], number, known) for name, number, _ in alarms)
            result.first = next(filter(None, answers), None)
        elif not warning.may_end_a_run:
            result.first, result.alike, result.hints = None, [], [warning, *result.hints]
    result.healthy = not alarms and any(log.course.is_healthy() for log in logs.values())
    result.stepped = any(log.course.has_step() for log in logs.values())


def _own_answer(name: str, log: Log, number: int, known: set[tuple[str, int]]) -> LogMatch | None:
    """Return the error in line `number`, if it ends its log and its own message says what failed or helps."""
    below = [each for each, line in enumerate(log.lines[number:], number + 1) if line.strip()]
    # The program went on where a line below is about anything else than this failure.
    if len(below) > LAST_LINES or not all((name, each) in known or _is_alarm(log.lines, each) for each in below):
        return None
    line = visible_line(log.lines[number - 1])
    text = split_prefix(line).text
    advice, told = advice_in(text), _TOLD.match(text)
    if not advice and told is None:
        return None
    said = advice or one_line(told["said"] if told else "", MAX_TEXT)
    hint = f"as it says: {advice}" if advice else "change what this message names. The lines above it can say more"
    match = _of_line(UNKNOWN, "generic", name, log.lines, number - 1)
    return replace(match, speaker=speaker_of_line(line), summary=f"its own message: {said}", location=hint)


def _first_alarm(name: str, log: Log, known: set[tuple[str, int]]) -> tuple[str, int, str] | None:
    for number, line in enumerate(log.lines, 1):
        looked_at = (name, number) not in known and number not in log.harmless
        if looked_at and _is_alarm(log.lines, number) and not log.course.went_on(number):
            return name, number, split_prefix(line).text.strip()[:MAX_TEXT]
    return None


# A tool's message about its own failure, in at least four words.
_TOLD = re.compile(r"(?:[\w./-]+: )*(?i:fatal|error)(?: error)?: +(?P<said>(?:\S+ +){3}\S.*)")
# A run's name may be a word for an error, in lines of ddpkit's own and in paths.
_RUN_ID = re.compile(r"\b\d{8}-\d{6}-[\w.-]+-[0-9a-f]{4}\b")


def _is_alarm(lines: Sequence[str], number: int) -> bool:
    if any(map(says_it_continues, lines[number - 1 : number + 2])):
        return False
    line = _RUN_ID.sub("", lines[number - 1])
    return tracebacks.begins_failure(lines, number - 1) or (reports_error(line) and not tracebacks.is_frame(line))


def put_first(result: LogAnalysis, failure: Failure) -> LogAnalysis:
    """Return the analysis with the first failure of a run's record in the place of the first one in its log.

    Lines of several ranks come late in a log, so their order is a guess, and the record knows the order of the ends.
    The new `first` is the line that shows that failure. None: no line does, for example after SIGKILL.
    """
    log_first = [result.first] if result.first is not None else []
    matches = [*log_first, *result.alike, *result.others, *result.consequences]
    own = next((each for each in matches if _shows(each, failure)), None)
    hints = [*(each for each in log_first if each.kind == "hint"), *result.hints]
    result = replace(result, first=own, hints=hints, first_alarm=None)
    _sort_out(result, own, (each for each in matches if each.kind != "hint"))
    return result


def _shows(match: LogMatch, failure: Failure) -> bool:
    """Whether a line shows the failure of a record: it has the cause, and is of the rank that the cause is known of."""
    known = failure.diagnosis
    if match.kind in ("hint", "consequence") and (known is None or match.id != known.id):
        return False
    if known is not None and match.id != (known.id or "own-exception"):
        return False
    if known is not None and known.whose:
        return match.speaker.describe() == known.whose
    return match.speaker.rank is None or match.speaker.rank == failure.rank


def _renumbered(result: LogAnalysis, logs: Mapping[str, Log]) -> LogAnalysis:
    """Count lines as the files do: a line of JSON can hold many."""
    if all(len(log.lines) == (log.numbers[-1] if log.numbers else 0) for log in logs.values()):
        return result

    def place(name: str, number: int) -> int:
        numbers = logs[name].numbers
        return numbers[min(number, len(numbers)) - 1]

    def moved(match: LogMatch) -> LogMatch:
        return replace(match, number=place(match.file, match.number), end=place(match.file, match.end))

    for part in (result.alike, result.others, result.hints, result.consequences, result.survived):
        part[:] = [moved(each) for each in part]
    result.first = moved(result.first) if result.first else None
    if result.first_alarm:
        name, number, text = result.first_alarm
        result.first_alarm = (name, place(name, number), text)
    return result
