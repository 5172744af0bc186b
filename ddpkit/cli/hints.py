"""Hints as whole command lines: the options and the script that were typed, with one change. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_SAME = {"-N": "--nnodes", "-n": "--nproc-per-node", "-b": "--backend", "-o": "--option"}
_CHANGE = re.compile(r"(add|remove) (?!.*(?:, |;))((?:-|HOST).*)")


def whole_hint(hint: str, words: Sequence[str], script: Sequence[str] | None) -> str:
    """Write a hint as the whole command line, to be copied; other hints as they are.

    `add -N 2` sets an option in it, `remove --spares 1` removes one, `ddpkit launch -- SCRIPT` has another script.
    """
    words = list(words)
    other = re.fullmatch(r"ddpkit launch -- ([^;`]*)", hint)
    if other and words[0] == "launch":
        own = other[1].split(" ")[0]
        return f"{command_line([word for word in words if word != own])} -- {other[1]}"
    change = _CHANGE.fullmatch(hint)
    if change is None:
        return hint
    for option in _options(shlex.split(change[2])):
        at = _find(words, option)
        if change[1] == "remove" and at.start == len(words):
            return hint  # a file or a variable sets it
        new = option if change[1] == "add" else []
        words[at] = new
    return command_line([*words, *([] if script is None else ["--", *script])])


def split_script(words: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split a command line without `--` at its script; None: it has none."""
    at = next((at for at, word in enumerate(words) if at and word.endswith(".py")), None)
    return (list(words), None) if at is None else (list(words[:at]), list(words[at:]))


def command_line(words: Sequence[str]) -> str:
    """Write the words of one command for a shell, without secrets."""
    from ddpkit.launchers.shell import join

    first, *rest = words
    end = rest.index("--") if "--" in rest else len(rest)
    shown = [_public(word, before) for before, word in zip(words, rest[:end], strict=False)]
    return f"ddpkit {join([first, *shown, *rest[end:]])}"


def _public(word: str, before: str) -> str:
    """The word; of `--env`, `NAME` in place of `NAME=VALUE` where the value is a secret by its name."""
    from ddpkit.launchers.shell import is_secret

    option, equals, inside = word.partition("=") if word.startswith("--env=") else ("", "", word)
    name, has_value, value = inside.partition("=")
    secret = (equals or before == "--env") and has_value and is_secret(name, value)
    return f"{option}{equals}{name}" if secret else word


def _options(words: Sequence[str]) -> list[list[str]]:
    """Options, each with its value if it has one."""
    options: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not options:
            options.append([word])
        else:
            options[-1].append(word)
    return options


def _find(words: Sequence[str], option: Sequence[str]) -> slice:
    """The place of an option with its value; the end of the words where it is not typed."""
    name, value = option[0], option[1] if len(option) > 1 else ""
    for at, word in enumerate(words):
        typed, _, attached = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if not word.startswith("-") or _SAME.get(typed, typed) != _SAME.get(name, name):
            continue
        theirs = attached or "".join(words[at + 1 : at + 2])
        if name in ("-o", "--env") and theirs.partition("=")[0] != value.partition("=")[0]:
            continue
        return slice(at, at + (1 if attached or not value else 2))
    return slice(len(words), len(words))
