#!/usr/bin/env python3
"""Score of `ddpkit explain` on labelled logs: `make diagnosis`, or score.py [-v] [CATEGORY or part of a name]...

A case is one file, cases/CATEGORY/NAME.txt: a header, a line `---`, and the log; docs/internals/diagnosis-cases.md has
more on it. The header's keys:

provoked    the fault that was made, or the source of the text. This is the truth; no key depends on an answer
cause       catalogue ids that are right (`a or b`), or `own-exception`, or `healthy`; `not-in-log`: only consequences
            show; `any`: no entry exists yet, and `says` decides
says        regular expression for the line that must be found, for example of the script's own exception
answer      regular expression for words that its cause, check and fix must have
partly      catalogue ids that name the right area
rank, host  guilty rank and host, if the log shows them; several ranks: `0 or 1`
action      stop, retry, or exclude HOST: the right `action` of `ddpkit explain --json`

Four kinds of logs prove different things. recorded: a fault was made, and programs really ran.
public: `provoked` names the public thread. printed: a text that was written beside its rule, which it can only defend.
unseen: cases/unseen, logs that no rule was written for. Their first grade counts, and no rule may follow them.

RIGHT: the cause, and its rank and host where the label has them. PARTLY: a consequence, a death without its reason, or
the cause without rank or host. WRONG: another cause, rank or host, or a failure in a healthy log. UNKNOWN: no answer.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ddpkit.diagnosis.action import decide
from ddpkit.diagnosis.decide import LogAnalysis, analyze_log
from ddpkit.diagnosis.log_match import LogMatch

CASES = Path(__file__).with_name("cases")
KEYS = frozenset(("provoked", "cause", "says", "answer", "partly", "rank", "host", "action"))
KINDS = ("recorded", "public", "printed", "unseen")
_PUBLIC = re.compile(r"https?://|\bpublic\b|[\w.-]+/[\w.-]+#\d+|[\w-]+#\d+")
GRADES = ("RIGHT", "PARTLY", "WRONG", "UNKNOWN")
MOST_WRONG = 0  # WRONG cases of today. The test fails when there are more; this figure only decreases
SECONDARY = ("death", "generic", "consequence")
WAITING = ("gloo-timeout", "collective-timeout", "monitored-barrier", "store-wait")  # printed by ranks that waited


@dataclass(frozen=True, kw_only=True)
class Case:
    """One labelled log."""

    name: str  # CATEGORY/NAME
    label: dict[str, str]
    log: str

    @property
    def category(self) -> str:
        return self.name.partition("/")[0]

    @property
    def kind(self) -> str:
        """The kind of the log: recorded, public, printed or unseen."""
        if self.category == "unseen":
            return "unseen"
        if _PUBLIC.search(self.label["provoked"]):
            return "public"
        return "printed" if self.category in ("printed", "answers") else "recorded"

    def options(self, key: str) -> list[str]:
        """Return the values that are right: none where the label does not have the key."""
        return re.split(r" or |, ", self.label[key]) if key in self.label else []


def load(path: Path) -> Case:
    """Read one file. Raises ValueError for an unknown key, and without a cause."""
    header, _, log = path.read_text(encoding="utf-8").partition("---\n")
    label = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in header.splitlines())}
    if set(label) - KEYS or not {"provoked", "cause"} <= set(label):
        raise ValueError(f"{path}: the header has {sorted(label)}")
    return Case(name=f"{path.parent.name}/{path.stem}", label=label, log=log)


def cases() -> list[Case]:
    return [load(path) for path in sorted(CASES.glob("*/*.txt"))]


def grade(case: Case, found: LogAnalysis) -> str:
    """Return the grade of an analysis. Pure."""
    first = found.first
    if case.label["cause"] == "healthy":
        if first is None or first.kind == "hint":
            return "RIGHT" if found.first_alarm is None or first is not None else "PARTLY"
        return "WRONG"
    hidden = "not-in-log" in case.options("cause")
    if first is None or (first.kind == "hint" and first.id not in case.options("cause")):
        return "RIGHT" if hidden else "UNKNOWN"
    if hidden and first.kind in SECONDARY:
        return "RIGHT"
    answer = " | ".join((first.cause, first.probe, first.fix))
    told = re.search(case.label.get("says", ""), first.text) and re.search(case.label.get("answer", ""), answer)
    if {first.id, "any"} & set(case.options("cause")) and told:
        return _grade_place(case, first, {str(rank) for rank in found.silent_ranks})
    if first.id in case.options("partly") or first.kind in SECONDARY:
        return "PARTLY"
    return "WRONG"


def _grade_place(case: Case, first: LogMatch, silent: set[str]) -> str:
    """Grade the rank and the host of the right cause. `silent`: the ranks that the others waited for."""
    speaker = first.speaker
    number = speaker.rank if speaker.rank is not None else speaker.local
    ranks, rank = case.options("rank"), "" if number is None else str(number)
    if first.id in WAITING and rank not in ranks:
        rank = next(iter(silent & set(ranks)), "")
    host = speaker.host if speaker.host in case.options("host") else first.values.get("host", speaker.host)
    pairs = ((ranks, rank), (case.options("host"), "" if first.id in WAITING and silent else host))
    grades = ["PARTLY" if not named else "RIGHT" if named in right else "WRONG" for right, named in pairs if right]
    return max(grades, key=GRADES.index, default="RIGHT")


def action(found: LogAnalysis) -> str:
    decision = decide(found)
    return f"{decision.action} {decision.host}" if decision.host else decision.action


def describe(found: LogAnalysis) -> str:
    """Return the answer in one line."""
    first = found.first
    if first is None:
        return f"not known, line {found.first_alarm[1]}: {found.first_alarm[2]}" if found.first_alarm else "no failure"
    who = first.speaker.describe()
    return f"{first.id} ({first.kind}){f', {who}' if who else ''}, line {first.number}: {first.text}"


def grade_all(chosen: Iterable[Case]) -> list[tuple[Case, str, LogAnalysis]]:
    found = [(case, analyze_log([(case.name, case.log)])) for case in chosen]
    return [(case, grade(case, each), each) for case, each in found]


def table(graded: Iterable[tuple[Case, str, LogAnalysis]]) -> str:
    """Return the counts by category, and of all."""
    graded = list(graded)
    counts: dict[str, Counter[str]] = {}
    for case, name, _ in graded:
        counts.setdefault(case.category, Counter())[name] += 1
    counts["all"] = sum(counts.values(), Counter())
    kinds = {kind: Counter(name for case, name, _ in graded if case.kind == kind) for kind in KINDS}
    healthy = [name for case, name, _ in graded if case.label["cause"] == "healthy"]
    width = max(map(len, counts))
    lines = [f"{'':{width}} {'cases':>7}" + "".join(f"{name:>9}" for name in GRADES)]
    for category, count in counts.items():
        lines.append(_row(category, count, width))
    lines.append("")
    lines += [_row(kind, count, width) for kind, count in kinds.items()]
    share = {name: counts["all"][name] / (counts["all"].total() or 1) for name in GRADES}
    lines.append(f"{'':{width}} {'':7}" + "".join(f"{share[name]:9.1%}" for name in GRADES))
    decided = [(case, action(found)) for case, _, found in graded if "action" in case.label]
    right = sum(each in case.options("action") for case, each in decided)
    lines.append(f"{right} of {len(decided)} actions right")
    lines.append(f"{len(healthy)} healthy logs, {healthy.count('WRONG')} of them blamed")
    return "\n".join(lines)


def _row(name: str, count: Counter[str], width: int) -> str:
    share = f"{count['RIGHT'] / count.total():9.1%}" if count else ""
    return f"{name:{width}} {count.total():7}" + "".join(f"{count[each]:9}" for each in GRADES) + share


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "-v"]
    graded = grade_all(case for case in cases() if not words or any(word in case.name for word in words))
    for case, name, found in graded:
        if name != "RIGHT" or "-v" in sys.argv:
            wanted = ", ".join(
                f"{key} {value}" for key, value in case.label.items() if key in ("cause", "rank", "host")
            )
            print(f"{name:8}{case.name}: {case.label['provoked']}")
            print(f"    right: {wanted}\n    found: {describe(found)[:240]}")
    print(table(graded))
    wrong = sum(name == "WRONG" for _, name, _ in graded)
    if wrong > MOST_WRONG:
        print(f"{wrong} WRONG, {MOST_WRONG} at most: a rule became worse, or a new case needs one")
    return int(wrong > MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
