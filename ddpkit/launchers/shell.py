"""Shell text from words: every word is quoted, and only a `Raw` word is expanded by the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Raw:
    """A word that a shell must expand on the node, for example `$SLURM_PROCID`."""

    text: str


class Secret:
    """A value that dry runs, logs and records show as `***`. Only `reveal()` gives it away."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


Word = str | Raw


# None means: this name must not be set, whatever the node's own environment says.
Value = str | Raw | Secret | None


_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|(^|_)API_?KEY|_KEY(_|$)", re.IGNORECASE)


def guard(name: str, value: str) -> str | Secret:
    """Wrap the value of a variable whose name says that it is a secret."""
    return Secret(value) if _SECRET_NAME.search(name) else value


def quote(word: Word) -> str:
    """Quote one word for a POSIX shell; a `Raw` word stands as it is, in double quotes so that it stays one word."""
    return f'"{word.text}"' if isinstance(word, Raw) else shlex.quote(word)


def join(words: Iterable[Word]) -> str:
    return " ".join(quote(word) for word in words)


def assign(name: str, value: Value) -> str:
    """One `NAME=value` for the head of a command, or for `export`."""
    if isinstance(value, Secret):
        # The text can still be pasted into a shell in which the name is set.
        return f'{name}="${{{name}:?its value is not shown}}"'
    return f"{name}={quote(value or '')}"


def exports(env: Mapping[str, Value]) -> list[str]:
    """One `unset` line, then an `export` line for each variable."""
    unset = [name for name, value in env.items() if value is None]
    lines = [f"export {assign(name, value)}" for name, value in env.items() if value is not None]
    return [f"unset {' '.join(unset)}", *lines] if unset else lines


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
