"""Analysis of the logs of a failed run: the first cause, whose it was, and what only followed from it. Pure."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ddpkit.diagnosis import progress, tracebacks
from ddpkit.diagnosis.catalogue import BY_ID
from ddpkit.diagnosis.catalogue.entry import BRANCHES
from ddpkit.diagnosis.collectives import (
    absent_ranks,
    busy_ranks,
    different_calls,
    idle_ranks,
    lagging,
    name_ranks,
    passed_before,
    waiting_in_first,
    waiting_together,
)
from ddpkit.diagnosis.decide import explains, first_of
from ddpkit.diagnosis.limit import Limit
from ddpkit.diagnosis.line_prefixes import Speaker, split_prefix, visible_line
from ddpkit.diagnosis.log_match import MAX_TEXT, LogMatch
from ddpkit.diagnosis.log_reader import LogReader
from ddpkit.diagnosis.long_log import LogText
from ddpkit.diagnosis.main_first import wait_above, wait_in_cut
from ddpkit.diagnosis.members import missing_members
from ddpkit.diagnosis.nccl_versions import differing_versions
from ddpkit.diagnosis.outcome import Failure
from ddpkit.diagnosis.plain_lines import plain_lines
from ddpkit.diagnosis.progress import PROGRESS_LINES, RANKS, Course, reports_error
from ddpkit.diagnosis.shared_gpus import shared_gpu
from ddpkit.diagnosis.slow_names import slow_look_ups
from ddpkit.diagnosis.torchrun_table import aborted_ranks

# Ranks that waited for another in a collective print these: the rank that does not is the one to look at.
WAITED = frozenset(
    ("collective-timeout", "gloo-timeout", "store-wait", "nccl-store-wait", "second-master", "store-barrier-timeout")
)
# Of the watchdog's lines, those of a rank whose own collective failed.
_OWN_FAILURE = re.compile(r"Some NCCL operations have failed|To avoid data inconsistency")
_HIDDEN = re.compile(r"\[repeated \d+x across cluster\]")  # Ray prints one of several equal lines
SECONDS = 5.0  # of the processor, for all logs of a run
SPOKEN_LINES = 5000  # lines at the end that are searched for ranks
ALARM_LINES = 5  # an error so many lines below a warning is about the same
MAX_LISTED = 8
MOST_STARTS = 200  # of containers below the event of a pod
WORK_LINES = 30  # lines before a timeout that are searched for other work of a rank
_NONE = Speaker()
_LISTED = ("device", "setting")
_TABLE_ROW = re.compile(r"^\s*rank\s*: (\d+) \(local_rank")  # of torchrun's table
_TABLE_HOST = re.compile(r"^\s*host\s*: (\S+)")
_PROMPT = re.compile(r"(?:^|[\]:>] ?)(?:> (?P<place>\S+\.py\(\d+\)\S*\(\))|\(Pdb\+*\)|ipdb>)")
_BAR_BODY = re.compile(r"\|[^|]{12,}\|")
_ERROR_LINE = re.compile(r"\[[EF](?:\d{3,4} [\d:.]+)? \S+\.cpp")
_NO_CUDA = frozenset(("cuda-init-failed", "driver-library-mismatch", "no-cuda-gpus", "driver-too-old"))
_ABOUT_GPUS = re.compile(r"(?i)\b(?:cuda|gpus?)\b")
_ABOUT_COMMANDS = re.compile(r"(?i)\b(?:commands?|subprocess|exit (?:code|status)|return code)\b")
# Events of a pod that wait for something: where its container starts later, it came.
_POD_WAITS = frozenset(
    (
        "k8s-unschedulable",
        "k8s-gang",
        "pod-sandbox",
        "pod-volume",
        "pod-config-missing",
        "k8s-no-nvidia-runtime",
        "image-not-found",
        "image-registry-unreachable",
    )
)
_POD_STARTED = re.compile(r"\bStarted container\b|\bStarted: ?Started\b")
_POD_NAME = re.compile(r"\bpod/[\w.-]+")
# A request that SLURM queued: no error, and the nodes came later.
_SLURM_WAITS = re.compile(r"(?:srun|salloc): (?!error|fatal)")
_SLURM_STARTED = re.compile(r"\bhas been allocated resources\b|\bGranted job allocation\b")
# A shell prints these when it comes to the line: below the end of a launcher, of a later line.
_OF_SHELL = frozenset(("line-continued-badly", "command-not-found", "shell-syntax", "shell-variable-unset"))
_ENDED_CHILD = re.compile(r"\bBrokenProcessPool\b|\bTerminatedWorkerError\b|\bBrokenPipeError\b|\bEOFError\b")
_OF_SHUTDOWN = re.compile(r"(?:Timeout|Cancelled|Connection\w*|CommClosed|BrokenPipe|EOF)Error\b")
_OF_LAUNCHER = frozenset(("launcher-summary", "child-failed"))
_ENDINGS = frozenset(("aborted", "interrupted"))  # consequences that say how a process ended
_NOT_IMPORTED = re.compile(r"(?:Failed to|Could not|Cannot|Unable to) (?:import|load) ", re.IGNORECASE)
_OF_IMPORTS = re.compile(r"\bimport\b|\bImportError\b|\bModuleNotFoundError\b|\.so\b|\bOSError\b|\bundefined symbol\b")
_LATE = re.compile(r"\bSeqNum=\d{2,}")  # of a collective, after others had passed
_SAME_WORDS = {"shapes-differ": "optimizer-step-sizes"}  # the place shows more than the words, which name sizes
_OF_OTHERS = frozenset(("slurm-step-killed",))  # the one that ended first is another
_THROWN = "terminate called after throwing"  # the exception itself is another line
# After the one, SLURM starts the job again; the other shows that the new start failed.
_RESTARTS = frozenset(("slurm-preempted", "slurm-requeued"))
_AFTER_RESTART = frozenset(("store-shared",))
# SLURM ended the job, perhaps because it hung.
_STOPPED = frozenset(("slurm-cancelled", "slurm-time-limit"))
# SLURM ended the whole job: no rank is to blame.
OF_WHOLE_JOB = frozenset(("slurm-time-limit", "slurm-preempted", "slurm-requeued"))
# torch repeats these attempts until its timeout: their warnings are normal while other nodes start.
_REPEATED = frozenset(("master-name-unknown", "master-unreachable"))
# A warning about CUDA that is the failure itself: this process cannot use its GPUs.
_NO_START = re.compile(
    r"CUDA initialization: (?:Unexpected error|CUDA unknown error|CUDA driver initialization failed)"
)
_VERSIONED = frozenset(("nccl-versions-in-bootstrap", "nccl-mismatch", "nccl-message-truncated"))
_INTERNAL = re.compile(r"\bncclInternalError\b|\binternal error\b")


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
    lines: int = 0
    unread: int = 0  # lines for which there was no time
    healthy: bool = False  # its last lines show progress or a good end
    stepped: bool = False  # a line shows a step of a training
    first_alarm: tuple[str, int, str] | None = None  # where nothing is known: file, line, text of the first `error`


@dataclass(frozen=True, kw_only=True)
class _Log:
    """One file: its lines, and the number of each in the file."""

    lines: Sequence[str]
    numbers: Sequence[int]
    course: Course
    harmless: set[int]


def analyze_log(files: Iterable[tuple[str, str | LogText]], limit: Limit | None = None) -> LogAnalysis:
    """Analyze the logs of one run, each as (name, text). `limit`: of the time in which lines are looked for."""
    matches: list[LogMatch] = []
    logs: dict[str, _Log] = {}
    limit = limit or Limit(SECONDS)
    unread = 0
    for name, text in files:
        lines, numbers = _lines_of(text)
        del text
        reader = LogReader(name, lines, limit)
        own_matches = reader.read()
        unread += len(reader.unread)
        first = own_matches[0].number if own_matches else len(lines)
        logs[name] = _Log(lines=lines, numbers=numbers, course=Course(lines, first), harmless=reader.harmless)
        matches += own_matches
    result = _decide(matches, logs)
    result.unread = unread
    if result.first is not None:
        _look_at_versions(result, logs)
        _look_at_gpus(result, logs)
        _look_at_waiting(result, logs)
    result.lines = sum(log.numbers[-1] - (log.lines[-1] == "") for log in logs.values() if log.numbers)
    if result.first is None or result.first.id in _STOPPED:
        _look_at_members(result, logs)
    if result.first is None:
        _look_at_cut(result, logs)
    if result.first is None or result.first.kind == "hint":
        _look_at_health(result, matches, logs)
    if result.first_alarm is None:
        _allow_for_a_start(result)
    return _renumbered(result, logs)


def _lines_of(text: str | LogText) -> tuple[list[str], Sequence[int]]:
    """Return the lines of a log, and the number of each in its file."""
    whole = text if isinstance(text, LogText) else LogText(text)
    lines, numbers = plain_lines(whole.text)
    if whole.numbers is None:
        return lines, numbers
    last = len(whole.numbers)
    of_file = (whole.numbers[number - 1] if number <= last else whole.numbers[-1] + 1 for number in numbers)
    return lines, array("Q", of_file)


def _allow_for_a_start(result: LogAnalysis) -> None:
    """Of a warning that torch repeats until its timeout: show that it is normal at first."""
    first = result.first
    if first is not None and first.kind == "hint" and first.id in _REPEATED:
        result.first = replace(first, values={**first.values, "peers": "the other nodes or pods"})


def _decide(matches: list[LogMatch], logs: Mapping[str, _Log]) -> LogAnalysis:
    """Choose the first failure. A cause beats a consequence; an earlier cause a later one, unless the run went on."""
    result = LogAnalysis()
    # Ranks print the same text: the frames of one show what it means.
    traced = {each.text: each.entry for each in matches if each.top and each.entry is not None}
    matches = [replace(each, entry=traced[each.text]) if each.text in traced else each for each in matches]
    hints = [each for each in matches if each.kind == "hint"]
    # A run that went on after the warning of a failure did not fail of it.
    hints = [each for each in hints if not (each.was_cause and logs[each.file].course.continues(each))]
    failures = [each for each in matches if each.kind != "hint"]
    last: dict[str, int] = {}  # the last failure of each file that was not survived
    survived: set[int] = set()
    for each in reversed(failures):
        if _is_survived(each, last.get(each.file, 0), logs[each.file].course):
            survived.add(id(each))
        else:
            last.setdefault(each.file, each.number)
    result.survived = _without_repeats(each for each in failures if id(each) in survived)
    failures = [each for each in failures if id(each) not in survived]
    if not failures and hints:
        hints = [each for each in hints if not each.overcome]
        quiet = [each for each in hints if not logs[each.file].course.continues(each)]
        # NCCL's INFO lines are no warnings, and a remark on speed leads to no failure.
        first = min(quiet, key=lambda each: ("NCCL INFO" in each.text, not each.may_end_a_run), default=None)
        if first is not None:  # of two warnings, the one that is the reason of the other
            first = next((each for each in quiet if each.was_cause and explains(each, first)), first)
        shown = first is not None and first.was_cause and _NO_START.search(first.text)
        result.first = replace(first, kind="cause") if first is not None and shown else first
        rest = [each for each in hints if each is not first]
        result.alike = [each for each in rest if first is not None and _same(each, first)]
        result.first = _with_all(result.first, result.alike) if result.first is not None else None
        result.hints = _without_repeats(each for each in rest if first is None or not _same(each, first))
        return result
    if not failures:
        return result
    first = first_of(failures, hints)
    place = (first.id, first.file, first.number)  # a deciding line is another object, as it is a cause now
    rest = [each for each in failures if (each.id, each.file, each.number) != place]
    result.alike = [each for each in rest if _same(each, first)]
    ends = [each for each in result.survived if each.id == "launcher-summary" and 0 < each.number - first.end <= 3]
    result.first = first = _with_all(_with_speaker(first, result.alike, [*failures, *ends]), result.alike)
    rest = [each for each in rest if not _same(each, first)]
    causes = [each for each in rest if each.kind == "cause" and not explains(first, each)]
    result.others = _without_repeats(causes)
    result.consequences = [each for each in rest if each not in causes]
    result.hints = _without_repeats(each for each in hints if each is not first and _may_explain(each, first))
    return result


def _may_explain(hint: LogMatch, first: LogMatch) -> bool:
    """Whether a warning is worth a line beside a failure: not beside a certain cause of another kind."""
    return explains(hint, first) or (first.kind in ("generic", "consequence") and not hint.was_cause)


def _with_speaker(first: LogMatch, alike: list[LogMatch], failures: list[LogMatch]) -> LogMatch:
    """Add rank and host from other lines on the same failure: srun's, or torchrun's table."""
    known = first.speaker
    if first.id in OF_WHOLE_JOB:
        return first
    for each in alike if not known.host else ():
        if each.values.get("host") and each.speaker.rank == known.rank:
            first = replace(first, values={**each.values, **first.values})
            known = known if each.speaker.host else replace(known, host=each.values["host"])
            break
    if known == _NONE and first.text.startswith("NCCL WARN"):  # the rank's own error follows at once
        below = [each for each in failures if each.file == first.file and 0 < each.number - first.number <= ALARM_LINES]
        own = {each.speaker for each in below if explains(first, each) and each.speaker.rank is not None}
        known = own.pop() if len(own) == 1 else known
    if known.rank is not None:
        same_rank = (each.speaker.host for each in failures if each.speaker.rank == known.rank)
        host = known.host or next((each for each in same_rank if each), "")
        return _spoken(first, replace(known, host=host))
    if first.kind not in ("cause", "death"):
        return _spoken(first, known)
    if not known.known and ".batch" in first.text:  # the batch step runs on the host that SLURM names for its job
        host = next(
            (each.values["host"] for each in failures if each.id == "slurm-cancelled" and "host" in each.values), ""
        )
        return _spoken(first, replace(known, host=host))
    table = next(
        (each for each in failures if each.text.startswith("exitcode") and each.speaker.rank is not None), None
    )
    if known.local is not None and (table is None or table not in alike):
        return first
    named = [each for each in alike if each.speaker.rank is not None and not each.warned]
    summaries = [each for each in failures if each.id == "launcher-summary" and each.speaker.known]
    other = next((each for each in (*([table] if table in alike else []), *named, table, *summaries) if each), None)
    if other is None or (known.host and other.speaker.host not in ("", known.host)):
        return first
    first = replace(first, values={**other.values, **first.values}) if other in alike else first
    return _spoken(first, replace(other.speaker, host=other.speaker.host or known.host, agent=known.agent))


def _with_all(first: LogMatch, alike: list[LogMatch]) -> LogMatch:
    """Report all devices or settings of one host with the same failure: the kernel and RCCL print a line for each."""
    if len({each.speaker.host for each in (first, *alike)}) > 1:
        return first
    values = dict(first.values)
    for name in _LISTED:
        listed = {each.values[name]: None for each in (first, *alike) if each.values.get(name)}
        if listed:
            values[name] = ", ".join(list(listed)[:MAX_LISTED])
    return replace(first, values=values)


def _spoken(match: LogMatch, speaker: Speaker) -> LogMatch:
    values = {**match.values, **({"host": speaker.host} if speaker.host and "host" not in match.values else {})}
    return replace(match, speaker=speaker, values=values)


def _same(one: LogMatch, other: LogMatch) -> bool:
    return one.id == other.id and (one.entry is not None or one.text == other.text)


def _without_repeats(matches: Iterable[LogMatch]) -> list[LogMatch]:
    kept: list[LogMatch] = []
    seen: set[tuple[str, str]] = set()
    for each in matches:
        key = (each.id, "" if each.entry else each.text)
        if key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


# ---- what a run survived


def _is_survived(match: LogMatch, last: int, course: Course) -> bool:
    """Whether training went on after a failure, or ended well. `last`: the number of the last that ended something."""
    if match.id in _POD_WAITS and _has_started(match, course):
        return True
    if _SLURM_WAITS.match(match.text) and course.places(_SLURM_STARTED, match.end):
        return True
    if course.steps_after(match) >= PROGRESS_LINES:
        # A program's own traceback stands before its progress where standard output was written at its end.
        return not match.top or course.steps_before(match) > 0 or course.is_completed(match)
    # Of a text that healthy runs print, too, a traceback that a handler printed is no more than a warning.
    known_error = match.entry is not None and not (match.entry.doubtful and not match.doubtful)
    caught = match.handled or (not known_error and not match.top)
    if (caught or (match.kind == "generic" and match.doubtful)) and course.steps_after(match) >= 3:
        return last <= match.end  # a handler printed a traceback or a warning, and the program continued
    return last <= match.end and not match.decisive and course.is_completed(match)


def _has_started(match: LogMatch, course: Course) -> bool:
    """Whether an event below shows that a container of the same pod started."""
    pod = _pod_of(course.lines[match.number - 1])
    below = course.places(_POD_STARTED, match.end)[:MOST_STARTS]
    return any(_pod_of(course.lines[index]) == pod for index in below)


def _pod_of(line: str) -> str:
    name = _POD_NAME.search(line)
    return name[0] if name else ""


def _look_at_members(result: LogAnalysis, logs: Mapping[str, _Log]) -> None:
    """Where the logs end while ranks wait for others that never came: name those. Or else show slow look-ups."""
    end = result.first
    lines = [log.lines if end is None else log.lines[: end.number - 1] for log in logs.values()]
    missing = missing_members(lines) if end is None or len(lines) == 1 else None
    slow = slow_look_ups(lines) if missing is None and end is None else None
    if slow is not None:
        missing = slow[0], "slow-name-look-ups", slow[1]
    if missing is None:
        return
    index, entry, values = missing
    name = list(logs)[-1]
    result.consequences = [*([end] if end else []), *result.consequences]
    result.first = replace(
        _of_line(name, logs[name].lines, index, entry),
        kind="generic" if end else "hint",  # the log may have been read while the others were still starting
        values=values,
        warned=slow is None,
    )


def _look_at_health(result: LogAnalysis, matches: list[LogMatch], logs: Mapping[str, _Log]) -> None:
    """Find out whether the run went well; if not, where its log first reports an error."""
    known = {(each.file, number) for each in matches for number in range(each.number, each.end + 1)}
    alarms: list[tuple[str, int, str]] = []
    for name, log in logs.items():
        alarm = next(
            (
                (name, number, split_prefix(visible_line(line)).text.strip()[:MAX_TEXT])
                for number, line in enumerate(log.lines, 1)
                if (name, number) not in known
                and number not in log.harmless
                and _is_alarm(log.lines, number)
                and not log.course.went_on(number)
            ),
            None,
        )
        alarms += [alarm] if alarm else []
    first = result.first
    last = max((each.number for each in (first, *result.alike) if each), default=0)
    below = [number for name, number, _ in alarms if first is not None and name == first.file and number > first.number]
    if first is not None and first.was_cause and any(number <= last + ALARM_LINES for number in below):
        result.first = replace(first, kind="cause")  # an error follows the warning at once
    elif alarms:
        result.first_alarm = alarms[0]
        if first is not None and not first.may_end_a_run:
            result.first, result.alike, result.hints = None, [], [first, *result.hints]
    result.healthy = not alarms and any(log.course.is_healthy() for log in logs.values())
    result.stepped = any(log.course.has_step() for log in logs.values())


# A run's name may be a word for an error, in lines of ddpkit's own and in paths.
_RUN_ID = re.compile(r"\b\d{8}-\d{6}-[\w.-]+-[0-9a-f]{4}\b")


def _is_alarm(lines: Sequence[str], number: int) -> bool:
    line = _RUN_ID.sub("", lines[number - 1])
    return tracebacks.begins_failure(lines, number - 1) or (reports_error(line) and not tracebacks.is_frame(line))


def _look_at_versions(result: LogAnalysis, logs: Mapping[str, _Log]) -> None:
    """Where ranks print different versions of NCCL: show them, and take them for the reason of an internal error."""
    first = result.first
    if first is None or not (first.id in _VERSIONED or (first.id == "nccl-error" and _INTERNAL.search(first.text))):
        return
    versions = differing_versions(log.lines for log in logs.values())
    if versions:
        values = {**first.values, "versions": versions}
        result.first = replace(first, entry=BY_ID["nccl-mismatch"], kind="cause", values=values)


def _look_at_gpus(result: LogAnalysis, logs: Mapping[str, _Log]) -> None:
    """Of a failure without a reason: find two ranks of one group that NCCL saw on one GPU."""
    first = result.first
    if first is None or first.kind not in ("generic", "consequence") or first.id in WAITED:
        return
    for name, log in logs.items():
        shared = shared_gpu(log.lines)
        if shared is not None:
            index, values = shared
            result.consequences = [first, *result.alike, *result.consequences]
            result.alike = []
            result.first = replace(
                _of_line(name, log.lines, index, "duplicate-gpu"),
                kind="cause",
                speaker=Speaker(rank=int(values["rank"]), host=values["host"]),
                values=values,
            )
            return


def _of_line(name: str, lines: Sequence[str], index: int, entry: str) -> LogMatch:
    return LogMatch(
        entry=BY_ID[entry],
        kind=BY_ID[entry].kind,
        file=name,
        number=index + 1,
        end=index + 1,
        text=visible_line(lines[index]).strip()[:MAX_TEXT],
        speaker=_NONE,
        when=None,
        values={},
    )


# ---- a rank that others wait for


def _look_at_waiting(result: LogAnalysis, logs: Mapping[str, _Log]) -> None:
    """Of a timeout, find the ranks that did not wait; and whether one was busy with something slow."""
    first = result.first
    if first is None or first.id not in WAITED:
        return
    others = [each for each in result.consequences if each.id in WAITED or _OWN_FAILURE.search(each.text)]
    waited = {each.speaker.rank for each in (first, *result.alike, *others)} | set(_cut_error(logs))
    waited |= busy_ranks(log.lines for log in logs.values())
    waited |= aborted_ranks(line for log in logs.values() for line in log.lines)
    speaking = _speaking(logs)
    hidden = any(_HIDDEN.search(line) for log in logs.values() for line in log.lines)
    result.silent_ranks = [] if hidden else sorted(set(speaking) - waited)
    calls, alone = different_calls((first, *result.alike), [log.lines for log in logs.values()])
    if calls.get("group") or (calls and not result.silent_ranks):
        speaker = first.speaker
        if alone is not None and alone != speaker.rank:
            speaker = next(each.speaker for each in result.alike if each.speaker.rank == alone)
        kind = "cause" if "group" in calls else first.kind
        values = {**first.values, **calls}
        result.first = replace(first, entry=BY_ID["collectives-out-of-step"], kind=kind, speaker=speaker, values=values)
        return
    late, values = ([], {}) if hidden else _late_ranks(result, logs, waited)
    if late and first.speaker.rank is not None:
        host = next((each.speaker.host for each in result.consequences if each.speaker.rank == late[0]), "")
        several = ", ".join(map(str, late)) if len(late) > 1 else ""
        speaker = Speaker(rank=late[0], host=host or speaking.get(late[0], ""), ranks=several)
        result.first = first = replace(first, speaker=speaker, reporter=first.speaker)
    result.first = first = replace(first, values={**first.values, **values})
    prompt = _debugger_prompt(first, logs[first.file])
    work = prompt or _slow_work(result, first, logs[first.file]) or wait_above(logs[first.file].lines, first.number)
    if work is not None:
        result.consequences = [first, *result.consequences]
        result.alike = []
        entry = BY_ID["debugger-waits" if prompt else "slow-rank"]
        result.first = replace(first, entry=entry, values={**first.values, **work})


def _late_ranks(
    result: LogAnalysis, logs: Mapping[str, _Log], waited: set[int | None]
) -> tuple[list[int], dict[str, str]]:
    """Return the ranks that others waited for, where that is certain, and what the log shows as values."""
    matches = [each for each in (result.first, *result.alike) if each is not None]
    idle = idle_ranks(matches, [log.lines for log in logs.values()])
    # Of ranks that are known, no advice for other reasons.
    certain = {"guilty": name_ranks(idle), "passed": "", BRANCHES: "known"} if idle else {}
    if len(idle) > 1:
        return idle, {"absent": f"{name_ranks(idle)} never called it", **certain}
    named = matches[0].values.get("late", "")  # by a barrier
    if named.isdecimal() and int(named) not in waited:
        return [int(named)], {}
    late = idle or (result.silent_ranks if len(result.silent_ranks) == 1 else [])
    if late or result.silent_ranks or matches[0].id != "collective-timeout":
        return late, ({"late": str(late[0]), **certain} if late else {})
    known = {rank for rank in waited if rank is not None}
    absent, alone = ([], False) if _is_cut(logs) else absent_ranks(matches, known)
    if alone and len(absent) == 1 and len(known) > 1:
        return absent, {"late": str(absent[0])}
    values = lagging(matches)
    if absent and len(absent) <= max(1, len(known)):
        values["absent"] = f"no line of {name_ranks(absent)} is in this log"
    together = waiting_together(matches) or waiting_in_first(matches, [log.lines for log in logs.values()])
    return [], values or together or passed_before(matches)


def _look_at_cut(result: LogAnalysis, logs: Mapping[str, _Log]) -> None:
    """Where a log has no exception, for it is cut off: show that a traceback began in a wait for the main process."""
    for name, log in logs.items():
        waits = wait_in_cut(log.lines)
        if waits is not None:
            index, values = waits
            result.first = replace(_of_line(name, log.lines, index, "slow-rank"), kind="generic", values=values)
            return


def _debugger_prompt(first: LogMatch, log: _Log) -> dict[str, str] | None:
    """Return where a process stands at the prompt of pdb above a timeout, as values of an entry."""
    above = log.lines[max(0, first.number - 1 - WORK_LINES) : first.number - 1]
    prompt = next((match for line in reversed(above) if (match := _PROMPT.search(line))), None)
    return {"work": prompt["place"] or "(Pdb)"} if prompt else None


def _cut_error(logs: Mapping[str, _Log]) -> Iterator[int]:
    """Yield ranks whose error is the last line of a log: it may be cut, and does not show whether the rank waited."""
    for log in logs.values():
        last = next((line for line in reversed(log.lines) if line.strip()), "")
        speaker = split_prefix(visible_line(last)).speaker
        if speaker.rank is not None and _ERROR_LINE.search(last):
            yield speaker.rank


def _is_cut(logs: Mapping[str, _Log]) -> bool:
    """Whether a log ends inside an error of torch: ranks that print below it are not in it."""
    ends = [next((line for line in reversed(log.lines) if line.strip()), "") for log in logs.values()]
    return any(_ERROR_LINE.search(end) and end.rstrip()[-1:].isalpha() for end in ends)


def _speaking(logs: Mapping[str, _Log]) -> dict[int, str]:
    """Return the ranks that print near the end, each with its host, empty where no line has it."""
    hosts: dict[int, str] = {}
    for log in logs.values():
        above = ""
        for line in log.lines[-SPOKEN_LINES:]:
            row = _TABLE_ROW.search(line)
            if row:
                host = _TABLE_HOST.search(above)
                hosts[int(row[1])] = hosts.get(int(row[1])) or (host[1] if host else "")
            elif line.strip():
                speaker = split_prefix(visible_line(line)).speaker
                ranks = [speaker.rank] if speaker.rank is not None else [int(each) for each in RANKS.findall(line)]
                for rank in ranks:
                    hosts[rank] = hosts.get(rank) or speaker.host
            above = line
    return hosts


def _slow_work(result: LogAnalysis, first: LogMatch, log: _Log) -> dict[str, str] | None:
    """Return the last line before a timeout that reports other work of a rank, as values of an entry."""
    matched = (first, *result.alike, *result.consequences, *result.hints)
    own = {each.number for each in matched if each.file == first.file}
    timeout = progress.timeout_of(first.text)
    seen = 0
    for number in range(first.number - 1, 0, -1):
        line = visible_line(log.lines[number - 1])
        if number in own or not line.strip():
            continue
        seen += 1
        if progress.is_slow_work(line) or progress.is_as_old_as(line, timeout):
            prefixed = split_prefix(line)
            busy = prefixed.speaker.rank
            return {
                "work": _BAR_BODY.sub("|...|", prefixed.text.strip())[:120],
                **({"busy": str(busy)} if busy is not None else {}),
            }
        if seen > WORK_LINES or progress.is_step(line):
            return None
    return None


def put_first(result: LogAnalysis, failure: Failure) -> LogAnalysis:
    """Return the analysis with the first failure of a run's record in the place of the first one in its log.

    Lines of several ranks come late in a log, so their order is a guess, and the record knows the order of the ends.
    `first` is the line that shows the failure. None: no line does, for example after SIGKILL.
    """
    log_first = [result.first] if result.first is not None else []
    matches = [*log_first, *result.alike, *result.others, *result.consequences]
    own = next((each for each in matches if _shows(each, failure)), None)
    rest = [each for each in matches if each is not own and each.kind != "hint"]
    same = [each for each in rest if own is not None and _same(each, own)]
    rest = [each for each in rest if each not in same]
    return replace(
        result,
        first=own,
        alike=same,
        others=_without_repeats(each for each in rest if each.kind == "cause"),
        consequences=[each for each in rest if each.kind != "cause"],
        hints=[*(each for each in log_first if each.kind == "hint"), *result.hints],
        first_alarm=None,
    )


def _shows(match: LogMatch, failure: Failure) -> bool:
    """Whether a line shows a failure: it has the cause, and is of the rank if the cause is the rank's own."""
    known = failure.diagnosis
    if match.kind in ("hint", "consequence") and (known is None or match.id != known.id):
        return False
    if known is not None and match.id != (known.id or "own-exception"):
        return False
    if known is not None and known.whose:
        return match.speaker.describe() == known.whose
    return match.speaker.rank is None or match.speaker.rank == failure.rank


def _renumbered(result: LogAnalysis, logs: Mapping[str, _Log]) -> LogAnalysis:
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
