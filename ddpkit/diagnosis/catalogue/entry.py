"""Entry: one known failure, as the catalogue has it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ddpkit.text import one_line, printable

# cause: ends a run. death: how a process died, without a reason. generic: a failure without a reason. hint: a warning
# that can explain a failure. consequence: printed by other ranks after the first failure. noise: harmless.
Kind = Literal["cause", "death", "generic", "hint", "consequence", "noise"]
OWN = "own-exception"  # an exception that no entry knows, in `explains` and `of`
NOTHING = "no-failure"  # a log without a failure, in `of`


@dataclass(frozen=True, kw_only=True)
class Instead:
    """Where an entry stands in the place of others: at the match of one of `of`, if all that is set here holds.

    `text` is searched in the line, `near` in the frame above it with its code, `frames` in those of its traceback with
    theirs, `above` in the lines above, `needs` in the whole log. No frame may have the text of `unless`. `reads`
    names a function that reads values from the lines; it must find some. Named groups fill values, and `(?P=name)` in
    `above` and `needs` stands for the text of one.
    """

    of: tuple[str, ...]
    text: str = ""
    near: str = ""
    frames: str = ""
    above: str = ""
    needs: str = ""
    unless: str = ""
    reads: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One known failure. Its id is stable: checks, verdicts and documents use it.

    `patterns` are regular expressions, each searched in one line. Each contains a whole word outside of groups; the
    matcher selects lines by these words. Named groups fill `{host}`, `{port}`, `{rank}` ... in `cause`, `probe` and
    `fix`. `{host|that host}` has words for an unknown value, and a part in brackets, `[ on {host}]`, is left out
    without it. `needs` must occur somewhere in the same log; in it, `(?P=path)` stands for the text of a named group.
    `context` is looked for in the lines above and in a few lines below, and its named groups fill, too. `branches`
    are names, each with a text: words in `{name? words}` are left out where the same log holds the text of another
    branch and not that of this one. `overcome_by` is a text of the same log: with it, a hint means nothing, and a
    failure above it ended nothing. `reads` names a function that reads further values from the lines; `meanings` has
    words for the text of a group, as `{reason}`.

    `action` follows from it, and `reason` says why; without one, a cause ends the run. A text with `request` is a
    mistake that each host would repeat. `evidence` of a kernel puts a host aside. A rank that prints a text whose
    `role` is `waits` waited for another one; `misses`: another one is gone. `scope` is what it is of, if not of a rank
    or a node: the job, the launcher, the shell, or something outside. `seen` names what ddpkit or a kernel saw of it
    without a text: a signal, a lost host. A node with it is remembered as bad for `lasts` hours.
    """

    id: str
    title: str  # the symptom, as the user sees it
    cause: str
    fix: str  # one command, or one change
    probe: str = ""  # one command that shows it
    link: str = ""
    kind: Kind = "cause"
    patterns: tuple[str, ...] = ()  # empty: nothing is printed; a check detects it
    needs: str = ""
    context: str = ""
    branches: tuple[tuple[str, str], ...] = ()
    overcome_by: str = ""
    doubtful: bool = False  # also printed by healthy runs: outside of a traceback, other causes take precedence
    explains: tuple[str, ...] = ()  # ids of failures whose reason this is, where it stands in the same log
    explains_text: str = ""  # the same for exceptions of the script's own with this text, a regular expression
    instead: tuple[Instead, ...] = ()
    reads: str = ""
    meanings: tuple[tuple[str, str, str], ...] = ()  # group, its text, the words
    action: Literal["", "stop", "retry", "exclude"] = ""
    reason: str = ""
    request: str = ""
    evidence: Literal["text", "kernel"] = "text"
    role: Literal["", "waits", "misses"] = ""
    seen: tuple[str, ...] = ()
    lasts: int = 24
    scope: Literal["", "job", "launcher", "outside", "shell"] = ""
    origin: str = ""  # the file of an entry that is a site's own; no key of it


UNKNOWN = Entry(id=OWN, title="", cause="", fix="")  # of what no entry knows


_REFERENCE = re.compile(r"\(\?P=(\w+)\)")
_OPTIONAL = re.compile(r"\[([^\[\]]*\{[a-z]+\}[^\[\]]*)\]")
_BRANCH = re.compile(r"\{([a-z]+)\? ([^{}]*)\}")
BRANCHES = "branches"  # the value that holds the names of those that a log shows
_NAME = re.compile(r"\{([a-z]+)(?:\|([^{}]*))?\}")
_USUAL = {"host": "that host", "path": "the path", "rank": "the rank", "job": "the job", "reason": "see the message"}


def with_values(pattern: str, values: Mapping[str, str]) -> str:
    """Return a regular expression with the values of one match in place of its `(?P=names)`."""
    return _REFERENCE.sub(lambda match: re.escape(values.get(match[1], "")), pattern)


LONGEST_VALUE = 200  # characters of a value in a command
_PLAIN = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*", re.ASCII)  # words of a shell that need no quotes
_OPTION = re.compile(r"--?[A-Za-z][\w-]*", re.ASCII)  # without a value of its own
_IN_QUOTES = re.compile(r"[\w@%+=:,./|\[\]][\w@%+=:,./|\[\]-]*", re.ASCII)  # and no code of Python


def filled(text: str, values: Mapping[str, str] | None) -> str:
    """Return a sentence with values in place of `{names}`. Without values at all, names are shown in capitals."""
    return _filled(text, values, lambda value, _: one_line(value))


def filled_command(text: str, values: Mapping[str, str] | None) -> str:
    """Return a probe or a fix with values in place of `{names}`: each is one word for a shell, or is left out.

    Values come from a log, which anybody can write. None is what a command would run, load or install: that stays a
    word in capitals, for the user to choose.
    """
    quoted = _quoted_places(text)
    if values is not None:
        text = "".join(_without_run_words(text, quoted))
    return _filled(text, values, lambda value, place: as_word(value, in_quotes=place in quoted))


# What stands before the first word of a command, and before a word that a program runs, loads or installs.
_FIRST = re.compile(r"(?:^|[;|&`]|\$\(|:\s|\bssh\s+[^-\s]\S*\s)\s*$")
_RUNS = re.compile(
    r"""(?:
      \b(?:python[\d.]*|bash|sh|zsh|source|exec|sudo|nohup|eval|xargs|torchrun|launch|IMAGE)\s+(?:-[a-zA-Z]+\s+)*
    | \s-c\s+['"]                                                  # code of a shell
    | \bimport\s+ | find_spec\(['"]                                # code of Python
    | \b(?:pip|conda|mamba|apt-get|apt|dnf|yum|module|spack)\s(?:(?!\.\s)[^;|`])*\b(?:install|load)\s
      (?:(?:(?!\.\s)[^;|`])*\s)?
    | docker://\S* | image=\S* | \b(?:docker|podman|apptainer)\s+(?:run|exec)\s
    | \b(?:LD_PRELOAD|LD_LIBRARY_PATH|PYTHONPATH|PATH)=\S*
    )$""",
    re.VERBOSE,
)


def _without_run_words(text: str, quoted: frozenset[str]) -> Iterator[str]:
    """Yield the parts of a text, with the usual words, or a name in capitals, for what its commands would run."""
    last = 0
    for match in _NAME.finditer(text):
        before = re.sub(r"[\[\]{}]|(?<=\{)\w+\?", "", text[: match.start()])
        yield text[last : match.start()]
        is_first = match[1] not in quoted and text[match.end() : match.end() + 1] != "=" and _FIRST.search(before)
        is_run = is_first or _RUNS.search(before)
        yield (match[2] or match[1].upper()) if is_run else match[0]
        last = match.end()
    yield text[last:]


def as_word(value: str, *, in_quotes: bool = False) -> str:
    """Return a value from a log as one word of a command; empty where it can be none."""
    if not value or len(value) > LONGEST_VALUE or printable(value) != value or not value.replace(" ", "").isprintable():
        return ""
    if in_quotes:
        return value if _IN_QUOTES.fullmatch(value) else ""
    if value.startswith("-"):
        return value if _OPTION.fullmatch(value) else ""
    return value if _PLAIN.fullmatch(value) else shlex.quote(value)


def _quoted_places(text: str) -> frozenset[str]:
    """Return the `{names}` of a text that stand between quotes of a shell. `the node's` has none."""
    inside: set[str] = set()
    quote = ""
    for index, char in enumerate(text):
        before, after = text[index - 1 : index], text[index + 1 : index + 2]
        if quote and char == quote and not after.isalnum():
            quote = ""
        elif not quote and char in "'\"" and not before.isalnum():
            quote = char
        elif quote and (name := _NAME.match(text, index)):
            inside.add(name[1])
    return frozenset(inside)


def _filled(text: str, values: Mapping[str, str] | None, shown: Callable[[str, str], str]) -> str:
    """Return a text with its branches chosen, its brackets kept or left out, and its `{names}` filled by `shown`."""

    def value_of(name: str) -> str:
        value = (values or {}).get(name, "")
        return shown(value, name) if value else ""

    def part(match: re.Match[str]) -> str:
        whole = values is None or all(value_of(name) for name, _ in _NAME.findall(match[1]))
        return match[1] if whole else ""

    def word(match: re.Match[str]) -> str:
        if values is None:
            return match[1].upper()
        return value_of(match[1]) or match[2] or _USUAL.get(match[1], "unknown")

    def branch(match: re.Match[str]) -> str:
        branches = (values or {}).get(BRANCHES, "").split()
        return match[2] if not branches or match[1] in branches else ""

    if _BRANCH.search(text):  # the last branch that is left ends as if another one followed
        text = _BRANCH.sub(branch, text).strip().rstrip(".;")
    return _NAME.sub(word, _OPTIONAL.sub(part, text))
