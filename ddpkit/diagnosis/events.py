"""Events of one log: entries of the catalogue and exceptions, each as a LogMatch. Pure: lines in, matches out.

Lines are chosen by words (see `ddpkit.diagnosis.catalogue.matcher`): a long log costs little.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TypeVar

from ddpkit.diagnosis import tracebacks
from ddpkit.diagnosis.answer import MAX_TEXT, Code, advice_in, describe_exception, where_to_look
from ddpkit.diagnosis.catalogue import entry_of_seen, entry_of_signal, known_failures, standing_in_for
from ddpkit.diagnosis.catalogue.bounded import find
from ddpkit.diagnosis.catalogue.entry import BRANCHES, OWN, UNKNOWN, Instead, with_values
from ddpkit.diagnosis.catalogue.matcher import WORDS, Match
from ddpkit.diagnosis.line_prefixes import (
    Speaker,
    speaker_in_name,
    speaker_of_line,
    split_prefix,
    visible_line,
)
from ddpkit.diagnosis.log_match import LAYERS, LogMatch
from ddpkit.diagnosis.progress import is_mild, says_it_continues
from ddpkit.diagnosis.read import Limit
from ddpkit.diagnosis.readers import READERS, STORIES, meaning_of
from ddpkit.diagnosis.tracebacks import RaisedException, Traceback

MAX_MATCHES = 2000  # of one kind in one log
END_LINES = 2000  # that are looked at, also where there is no time for those above
END_SECONDS = 2.0
CHECKED = 64  # lines between two looks at the clock
MAX_CUT = 200  # tracebacks without an end in one log
MAX_NEEDS = 40  # texts that entries need, each searched in the whole log
FRAME_LINES = 5  # of a frame: its place, its code, and marks below that
ABOVE_LINES = 60  # above an error that are searched for what explains it
CODE_LINES = 2  # lines above an error that are the code of its frame
CONTEXT_LINES = 400  # lines above a match that are searched for its context
CONTEXT_BELOW = 12  # and lines below it, where none above has it
LEAST_QUOTED = 200  # characters of a match that are shown
BEGIN_QUOTED = 100  # and at most so many at the beginning of a long line
BEFORE_QUOTED = 20  # and characters before it, of a long line
PROSE_WORDS = 5  # above a failure in its line: a sentence that speaks of it
_TRACEBACK_WORDS = frozenset(("traceback", "cause", "exitcode"))
_PROSE = re.compile(r"(?<!\S)[A-Za-z']+[,.:]?(?=\s)")
_JOB = re.compile(r"\b(?:JOB|STEP|StepId=|JobId=|[Jj]ob(?: allocation)?) ?(\d{2,})\b")
_POD = re.compile(r"\bpod/[\w.-]+")
_WITH_ADVICE = ("cause", "death", "generic")
_SPEAKING = ("cause", "hint", "noise")
_ERROR_NAME = re.compile(r"(?<![\w.])[\w.]*Error: ")
# A launcher reports the end of a process; torchrun does so in a table.
_REPORT = re.compile(r"(?:srun|mpirun|mpiexec|prterun|orterun)(?:\.real)?: |\s*exitcode\s*: ")
# torchrun reports its own end at the level WARNING.
_END_BY_SIGNAL = re.compile(r"\b(?:death|closing) signal\b")
# The head of a Ray task and that of a worker have no reason of their own; pkg_resources reads an attribute that it has
# not set yet, and continues.
_WITHOUT_REASON = re.compile(
    r"\bray::\S+ ?\(pid=\d+, ip=|^\w+: Caught \w+ in |^AttributeError: _(?:pkg_info|_?dep_map|\w+__dep_map)$"
)
_ENDS_MESSAGE = re.compile(r'^\s*File "|Traceback \(most|^(?:\w+\.)*\w*(?:Error|Exception)\b|^[\[+$#]')
MAX_WRAPPED = 12  # lines of one message


class LogReader:
    """The matches of one log, in the order of its lines."""

    def __init__(self, name: str, lines: Sequence[str], limit: Limit | None = None) -> None:
        self.name = name
        self.lines = lines
        self.unread = range(0)  # lines that were not looked at, for want of time
        self._limit = limit or Limit(inf)
        self.matches: list[LogMatch] = []
        self._tracebacks: list[Traceback] = []
        self._bare: list[Traceback] = []  # exceptions whose tracebacks are not in the log
        self._headers: set[int] = set()  # lines that begin a chained traceback
        self._claimed: set[int] = set()  # lines of exceptions that belong to a traceback
        self._ignored: set[int] = set()  # lines of exceptions that Python ignored
        self.harmless: set[int] = set()  # numbers of lines that report an error, and are known to be none
        self._failures: list[tuple[int, dict[str, str]]] = []  # rows of torchrun's table
        self._entries: list[tuple[int, Match]] = []
        self._cut = 0  # tracebacks without an end
        self._counts: Counter[str] = Counter()
        self._fulfilled: dict[str, bool] = {}  # by the text that an entry needs: whether this log holds it

    def read(self) -> list[LogMatch]:
        """Look at all lines, then make matches of what was found in them."""
        self._find()
        self._add_tracebacks_and_entries()
        for index, values in self._failures:
            # A death by a signal, which stands in torchrun's table alone.
            entry = entry_of_signal(-int(values["code"])) or entry_of_seen("a row of torchrun's table")
            self._add_entry(index, Match(entry=entry, values=values))
        self.harmless = {index + 1 for index, match in self._entries if match.entry.kind == "noise"}
        self.harmless |= {index + 1 for index in self._ignored}
        known = {index for index, _ in self._entries} | {index for trace in self._tracebacks for index in trace.own}
        known |= self._ignored | {raised.number for trace in self._tracebacks for raised in trace.raised}
        for bare in self._bare:
            if bare.start not in known and self._assertion_line(bare) not in known:
                self._add_unknown_exception(bare, kind="cause" if bare.origin().last else "death")
        return sorted(self.matches, key=lambda each: each.number)

    def _find(self) -> None:
        """Look for tracebacks and entries in every line; where there is no time for all, in the first and last ones."""
        stopped = self._find_in(range(len(self.lines)))
        if stopped is not None:
            end = max(stopped, len(self.lines) - END_LINES)
            self._limit.extend(END_SECONDS)
            self.unread = range(stopped, end)
            last = self._find_in(range(end, len(self.lines)))
            if last is not None:
                self.unread = range(stopped, len(self.lines))

    def _find_in(self, indices: range) -> int | None:
        """Look for tracebacks and entries in these lines. Returns the index at which the time was over, or None."""
        patterns = known_failures()
        watched = patterns.words | _TRACEBACK_WORDS
        for index in indices:
            line = self.lines[index]
            if index % CHECKED == 0 and self._limit.is_over():
                return index
            named = (
                "Error: " in line
                or "Exception: " in line
                or "Error): ray::" in line
                or line.endswith(("Error", "Exception"))
                or any(name in line for name in tracebacks.OTHER_CLASSES)
            )
            if named and len(self._bare) < MAX_MATCHES:
                _append(self._bare, tracebacks.read_bare_exception(self.lines, index))
            words = WORDS.findall(line.lower())
            if watched.isdisjoint(words):
                continue
            if self._limit.is_over():
                return index
            self._read_tracebacks(index, line, words)
            raised = bool(self._bare) and self._bare[-1].start == index
            shown = visible_line(line)
            found = patterns.matches(shown, self._is_fulfilled)
            if not found and (text := split_prefix(shown).text) != shown:  # what the program itself printed
                found = patterns.matches(text, self._is_fulfilled)
            # What is harmless in a warning can be the reason in an exception's own words.
            found.sort(key=lambda each: raised and each.entry.kind == "noise")
            if found:
                match = found[0]
                self._counts[match.entry.id] += 1
                if self._counts[match.entry.id] <= MAX_MATCHES:
                    self._entries.append((index, match))
        return None

    def _add_unknown_exception(self, trace: Traceback, kind: str = "cause") -> None:
        """Add an exception whose line no entry knows: by lines around it, by its whole message, or as it is."""
        origin = trace.origin()
        known = self._standing_in(OWN, origin.number, origin.words, {}, trace)
        if known:
            self._add_entry(origin.number, known, trace)
        elif not self._add_wrapped(trace):
            self._add_exception(trace, origin, kind="generic" if _WITHOUT_REASON.search(origin.words) else kind)

    def _add_wrapped(self, trace: Traceback) -> bool:
        """Add the entry for a message that a terminal, a mail or rich has broken. Returns whether there is one."""
        index = trace.origin().number
        first = visible_line(self.lines[index])
        message, ends = split_prefix(first).text.rstrip(), []  # `ends`: where each line but the last one ends in it
        label = first.removesuffix(message)
        for line in map(visible_line, self.lines[index + 1 : index + MAX_WRAPPED]):
            text = line.removeprefix(label)
            if not text.strip() or split_prefix(text).text != text or _ENDS_MESSAGE.search(text):
                break
            ends.append(len(message))
            message += f" {text.strip()}"
        found = next(iter(known_failures().matches(message, self._is_fulfilled) if ends else ()), None)
        if found is None or found.entry.kind == "noise":
            return False
        # A match within one line has been looked for already, but for the end of a long command, which stands in its
        # last line: `died with <Signals.SIGKILL: 9>`.
        if found.entry.kind != "death" and not any(found.start < end < found.end for end in ends):
            return False
        whole = next((end for end in ends if end >= found.end), len(message))
        self._add_entry(index, found, trace, message[:whole])
        return True

    def _read_tracebacks(self, index: int, line: str, words: Sequence[str]) -> None:
        """Read every form of a traceback that begins at this line."""
        if "traceback" in words and tracebacks.HEADER in line and index not in self._headers:
            wanted = len(self._tracebacks) < MAX_MATCHES and self._cut < MAX_CUT
            trace = tracebacks.read_traceback(self.lines, index, self._claimed) if wanted else None
            self._cut += trace is None
            if trace and not tracebacks.begins_failure(self.lines, index):
                self._ignored |= {*trace.own, *range(trace.start, trace.end + 1)}
            elif trace:
                self._tracebacks.append(trace)
            if trace:
                self._headers |= trace.headers
                self._claimed.update(raised.number for raised in trace.raised)
        if tracebacks.ROOT in line:
            _append(self._failures, tracebacks.read_torchrun_table(self.lines, index))
        elif "exitcode" in words and not self._failures and not self._holds(tracebacks.ROOT):
            _append(self._failures, tracebacks.read_torchrun_row(self.lines, index))

    def _is_fulfilled(self, match: Match) -> bool:
        """Whether the log holds the text without which the entry is not meant."""
        if not match.entry.needs:
            return True
        return self._holds(with_values(match.entry.needs, match.values), match.entry.origin)

    def _holds(self, text: str, origin: str = "") -> bool:
        """Whether a line of this log holds the text, a regular expression."""
        if text not in self._fulfilled:  # a long log can hold the same line thousands of times
            searched = len(self._fulfilled) < MAX_NEEDS
            self._fulfilled[text] = searched and find(text, self.lines, origin) is not None
        return self._fulfilled[text]

    def _is_overcome(self, index: int, match: Match, values: Mapping[str, str]) -> bool:
        """Whether the log shows that an entry did no harm: of a warning anywhere, of a failure in a line below it."""
        text = with_values(match.entry.overcome_by, values)
        if not text or not self._holds(text, match.entry.origin):
            return False
        return match.entry.kind == "hint" or bool(find(text, self.lines[index + 1 :], match.entry.origin))

    def _context(self, index: int, match: Match) -> dict[str, str]:
        """Return values from the nearest line above a match, or else below it, that has its context."""
        if not match.entry.context or self._counts[match.entry.id] > CONTEXT_LINES:
            return {}
        above = reversed(self.lines[max(0, index - CONTEXT_LINES) : index + 1])
        around = (*above, *self.lines[index + 1 : index + 1 + CONTEXT_BELOW])
        context = find(match.entry.context, around, match.entry.origin)
        return {name: value for name, value in context.groups.items() if value} if context else {}

    def _add_tracebacks_and_entries(self) -> None:
        """Make one match of each traceback and the best entry in it; and one of each entry outside of tracebacks."""
        code = {index for trace in self._tracebacks for index in trace.own}
        code |= {index for index, _ in self._entries if index and tracebacks.is_code(self.lines, index)}
        code -= {self._assertion_line(trace) for trace in (*self._tracebacks, *self._bare)}
        # Code that a traceback shows was not printed by a program, except for the condition of an assertion.
        by_line = {index: match for index, match in self._entries if index not in code | self._ignored}
        order = list(by_line)
        used: set[int] = set()  # lines of entries inside of tracebacks
        for trace in self._tracebacks:
            own_line = trace.origin().number
            between = order[bisect_left(order, trace.start) : bisect_right(order, trace.end)]
            inside = [index for index in between if index not in used]
            # An entry that only says that something failed is about this exception where it stands in its own line.
            inside = [index for index in inside if index == own_line or by_line[index].entry.kind in _SPEAKING]
            explained = {name for index in inside for name in by_line[index].entry.explains}
            best = min(
                inside,
                key=lambda index: (
                    _strength(by_line[index]),
                    by_line[index].entry.id in explained,
                    by_line[index].entry.doubtful,
                    index,
                ),
                default=None,
            )
            used.update(inside)
            if best is None or by_line[best].entry.kind == "noise":
                self._add_unknown_exception(trace)
            elif best != own_line or not self._add_wrapped(trace):
                self._add_entry(best, self._replaced(by_line[best], best, trace), trace)
        for index, match in by_line.items():
            if index not in used and match.entry.kind != "noise":
                self._add_entry(index, self._replaced(match, index))

    def _replaced(self, match: Match, index: int, trace: Traceback | None = None) -> Match:
        """Return the entry that stands in place of this one, where the lines around it show that."""
        line = visible_line(self.lines[index])
        host = speaker_of_line(self.lines[index]).host
        values = {**({"host": host} if host else {}), **match.values}
        known = self._standing_in(match.entry.id, index, line, values, trace)
        return replace(known, start=match.start, end=match.end) if known else match

    def _standing_in(
        self, of: str, index: int, text: str, values: dict[str, str], trace: Traceback | None
    ) -> Match | None:
        """Return the first entry that can stand in place of one, by its id, and whose rule holds at a line."""
        for entry, rule in standing_in_for(of):
            of_story = rule.reads in STORIES
            found = None if of_story else self._values_of_rule(rule, index, text, values, trace, entry.origin)
            if found is not None:
                return Match(entry=entry, values={**values, **found})
        return None

    def _values_of_rule(
        self, rule: Instead, index: int, text: str, values: dict[str, str], trace: Traceback | None, origin: str
    ) -> dict[str, str] | None:
        """Return the values that a rule finds in and around a line; None: it does not hold. `origin`: its file."""
        found: dict[str, str] = {}
        for pattern, lines_of in (
            (rule.text, lambda: (text,)),
            (rule.near, lambda: self._near(index)),
            (rule.frames, lambda: self._frames(index, trace)),
            (with_values(rule.above, {**values, **found}), lambda: self._above(index)),
        ):
            match = find(pattern, [*lines_of()], origin) if pattern else None
            if pattern and match is None:
                return None
            found |= {name: value for name, value in match.groups.items() if value} if match else {}
        if rule.unless and find(rule.unless, [*self._frames(index, trace)], origin):
            return None
        if rule.needs and not self._holds(with_values(rule.needs, {**values, **found}), origin):
            return None
        if rule.reads:
            read = READERS[rule.reads]({**values, **found}, self.lines, index)
            return {**found, **read} if read else None
        return found

    def _near(self, index: int) -> Sequence[str]:
        """Return the frame above an error, its code, and the code in its own line, as of a log without line ends."""
        above = self.lines[max(0, index - FRAME_LINES) : index]
        frame = next((line.rstrip() for line in reversed(above) if tracebacks.is_frame(line)), "")
        return (frame, *above[-CODE_LINES:], self.lines[index][: _start_of_error(self.lines[index])])

    def _frames(self, index: int, trace: Traceback | None) -> Iterator[str]:
        """Yield the frames of a traceback, or of the one that ends in a line, each with its code."""
        own = trace.own if trace is not None else ()
        for each in own or range(index - 1, max(0, index - ABOVE_LINES) - 1, -1):
            line = self.lines[each].rstrip()
            if tracebacks.is_frame(line):
                yield f"{line}\n{self.lines[each + 1].rstrip()}" if tracebacks.is_code(self.lines, each + 1) else line
            if not own and tracebacks.HEADER in line:
                return

    def _above(self, index: int) -> Iterator[str]:
        return reversed(self.lines[max(0, index - ABOVE_LINES) : index])

    def _speaker(self, index: int, traced: Speaker | None = None) -> tuple[Speaker, float | None]:
        """Return the speaker of a line and its time. `traced`: the speaker of the traceback around it."""
        speaker = speaker_of_line(self.lines[index])
        by_name = speaker_in_name(self.name)
        traced = traced or by_name
        return (
            Speaker(
                rank=_first(speaker.rank, traced.rank, by_name.rank),
                host=speaker.host or traced.host,
                local=_first(speaker.local, traced.local, by_name.local),
                agent=speaker.agent,
            ),
            split_prefix(self.lines[index]).when,
        )

    def _add_entry(self, index: int, match: Match, trace: Traceback | None = None, message: str = "") -> None:
        """Add an entry. `message`: the text of its line and of the lines below, where one message was broken."""
        entry, line = match.entry, message or visible_line(self.lines[index])
        speaker, when = self._speaker(index, trace.speaker if trace else None)
        speaker, values = self._speaker_and_values(index, match, trace, speaker)
        event = LogMatch(
            entry=entry,
            kind=entry.kind,
            file=self.name,
            number=index + 1,
            end=index + 1,
            said=advice_in(line[match.end :] or line) if match.end and entry.kind in _WITH_ADVICE else "",
            text=self._with_next(index, _quoted(line, match.start)),
            speaker=speaker,
            when=when,
            values=values,
            overcome=self._is_overcome(index, match, values),
            decisive=entry.kind == "death" or _REPORT.match(split_prefix(line).text) is not None,
        )
        self.matches.append(_in_traceback(event, trace) if trace else self._by_its_level(event, line, match.start))

    def _with_next(self, index: int, text: str) -> str:
        """Return the text of a line, of one that ends in a colon with what follows."""
        below = self._code(index + 1) if text.endswith(":") and index + 1 < len(self.lines) else ""
        return f"{text} {below}"[:MAX_TEXT] if below else text

    def _message_below(self, trace: Traceback) -> list[str]:
        """Return the further lines of the message of an exception."""
        number = trace.origin().number
        below = map(self._code, range(number + 1, min(trace.end, number + MAX_WRAPPED) + 1))
        return [text for text in below if text]

    def _by_its_level(self, event: LogMatch, line: str, start: int) -> LogMatch:
        """Return the event of a line outside of a traceback as a hint if it is a warning; prose is doubtful."""
        mild = is_mild(line) or self._continues(event.number - 1)
        warned = mild and event.kind == "cause" and not _END_BY_SIGNAL.search(line)
        quoted = len(_PROSE.findall(line[: max(start, _start_of_error(line))])) >= PROSE_WORDS
        doubtful = quoted or (mild and event.kind == "generic") or event.entry.doubtful
        return replace(event, kind="hint" if warned else event.kind, warned=warned, doubtful=doubtful)

    def _continues(self, index: int) -> bool:
        """Whether a line, or the next one, says that the program continues in another way."""
        return any(map(says_it_continues, map(visible_line, self.lines[index : index + 2])))

    def _speaker_and_values(
        self, index: int, match: Match, trace: Traceback | None, speaker: Speaker
    ) -> tuple[Speaker, dict[str, str]]:
        """Return the rank and host that an entry is about, and its values. `speaker`: who printed its line."""
        context = self._context(index, match)
        if speaker.rank is not None:
            context.pop("rank", None)  # another rank can have printed the context
        place = trace.origin().place if trace else None
        values = {"place": f"{place.file}:{place.line}"} if place else {}
        values |= {**context, **(_failed_rank(trace, speaker) if trace else {}), **match.values}
        if match.entry.kind == "death" and not speaker.host:
            speaker = replace(speaker, host=values.get("host", ""))
        if values.get("code", "").isdecimal():
            values |= meaning_of(int(values["code"]))
        if match.entry.reads:
            values |= READERS[match.entry.reads](values, self.lines, index)
        for name, value, words in match.entry.meanings:
            if values.get(name, "") == value:
                values["reason"] = words
        # A rank and a host that the text names are those that failed, whoever printed it.
        ranks = values.get("rank", "")  # `3`, or several: `1-3`
        if ranks[:1].isdecimal():
            several = "" if ranks.isdecimal() else ranks
            first = int(re.findall(r"\d+", ranks)[0])
            speaker = replace(speaker, rank=first, host=values.get("host", speaker.host), ranks=several)
        if values.get("local", "").isdecimal() and speaker.rank is None:
            speaker = replace(speaker, local=int(values["local"]))
        # The branches that the line itself shows; else those that any other line does.
        line = self.lines[index]
        origin = match.entry.origin
        shown = [name for name, text in match.entry.branches if find(text, (line,), origin)]
        shown = shown or [name for name, text in match.entry.branches if self._holds(text, origin)]
        if shown:
            values[BRANCHES] = " ".join(shown)
        job, pod = _JOB.search(self.lines[index]), _POD.search(self.lines[index])
        rank = "" if speaker.rank is None else str(speaker.rank)
        known = {"host": speaker.host, "job": job[1] if job else "", "pod": pod[0] if pod else "", "rank": rank}
        return speaker, {**{name: value for name, value in known.items() if value}, **values}

    def _add_exception(self, trace: Traceback, origin: RaisedException, kind: str = "cause") -> None:
        """Add an exception that no entry knows, with sentences about it."""
        speaker, when = self._speaker(origin.number, trace.speaker)
        code = self._shown_code(trace)
        self.matches.append(
            LogMatch(
                entry=UNKNOWN,
                kind=kind,
                file=self.name,
                number=origin.number + 1,
                begin=trace.start + 1,
                end=trace.end + 1,
                text=origin.words[:MAX_TEXT],
                speaker=speaker,
                when=trace.when if trace.when is not None else when,
                summary=describe_exception(trace, speaker.describe(), code, self._message_below(trace)),
                location=where_to_look(trace, code, lines_above=any(map(str.strip, self.lines[: origin.number]))),
                traced=bool(trace.own),
                program=trace.raised[0].program,
            )
        )

    def _code_lines(self, number: int) -> Iterator[int]:
        """Yield the lines between an exception and the last frame above it, from below."""
        for index in range(number - 1, max(-1, number - FRAME_LINES), -1):
            if tracebacks.is_frame(self.lines[index]):
                return
            yield index

    def _assertion_line(self, trace: Traceback) -> int | None:
        """Return the index of the line with the condition of an assertion without a text; None for anything else."""
        origin = trace.origin()
        if origin.text or not origin.kind.endswith("AssertionError"):
            return None
        return next((each for each in self._code_lines(origin.number) if self._code(each).startswith("assert ")), None)

    def _shown_code(self, trace: Traceback) -> Code:
        number, asserted = trace.origin().number, self._assertion_line(trace)
        shown = [text for each in self._code_lines(number) if (text := self._code(each).strip("~^ "))]
        return Code(
            condition=self._code(asserted) if asserted is not None else "",
            last_line=shown[0] if shown else "",
            by_check=any(text.startswith(("raise ", "assert ")) for text in shown),
        )

    def _code(self, index: int) -> str:
        return split_prefix(self.lines[index]).text.strip().rstrip("\\").rstrip()


def _in_traceback(event: LogMatch, trace: Traceback) -> LogMatch:
    """Return an event with the lines, the time and the program of the traceback around it."""
    when = event.when if event.when is not None else trace.when
    program = trace.raised[0].program
    return replace(event, begin=trace.start + 1, end=trace.end + 1, when=when, traced=True, program=program)


def _start_of_error(line: str) -> int:
    name = _ERROR_NAME.search(line)
    return name.start() if name else 0


def _quoted(line: str, start: int) -> str:
    """Return the text of a line, of a long one its beginning and the part around its match."""
    text = split_prefix(line).text.strip()
    if len(text) <= MAX_TEXT or start + LEAST_QUOTED <= MAX_TEXT:
        return text[:MAX_TEXT]
    begin = max(text[:BEGIN_QUOTED].rfind(" "), BEGIN_QUOTED // 2)
    return f"{text[:begin]} ... {line[max(0, start - BEFORE_QUOTED) :].strip()}"[:MAX_TEXT]


def _failed_rank(trace: Traceback, speaker: Speaker) -> dict[str, str]:
    """Return the one rank that a traceback names as the failed one, where another rank prints it."""
    if len(trace.failed) != 1 or speaker.rank in trace.failed:
        return {}
    return {"rank": str(next(iter(trace.failed))), "host": ""}


T = TypeVar("T")


def _append(items: list[T], item: T | None) -> None:
    if item is not None:
        items.append(item)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _strength(match: Match) -> int:
    return LAYERS.get(match.entry.kind, 9)
