"""Shell text from words: every word is quoted, and only a `Raw` word is expanded by the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ddpkit.errors import SECRET_FORMS

# Python puts the working directory in front of its own modules, for -m and for -c. There others may be able to write,
# and a project may have a random.py. Code of ddpkit's begins with this line, which needs no module from a file.
NOT_FROM_HERE = 'import sys; sys.path[:1] != [""] or sys.path.pop(0)'


def run_module(name: str) -> str:
    """Return Python code that runs a module as `python -m` does, but from no file of the working directory."""
    return f'{NOT_FROM_HERE}; import runpy; runpy.run_module("{name}", run_name="__main__", alter_sys=True)'


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


# TOKENIZERS_PARALLELISM, GIT_AUTHOR_NAME and SSH_AUTH_SOCK are none.
_SECRET_NAME = re.compile(
    r"TOKEN(?!I[ZS])|SECRET|PASS(W|PHRASE|CODE|_|$)|CREDENTIAL|(^|_)API_?KEY|_KEY(_|$)|^KEY$|PRIVATE|"
    r"(^|_)PATS?(_|$)|_PWD?$|_PW_|WEBHOOK|(^|_)DSN(_|$)|(DATABASE|DB|MONGO(DB)?|REDIS|POSTGRES(QL)?|MYSQL|AMQP|BROKER|SENTRY)_?(URL|URI)|"
    r"CONN(ECTION)?_?STR(ING)?|AUTH(?!OR|_SOCK)|COOKIE|BEARER|SIGNATURE",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(SECRET_FORMS)
# A value that can be a secret where its option says so: `--max-tokens 4096` and `--special-token "<eos>"` are none.
_OPAQUE = re.compile(r"(?!\d+$)[\w.+=~-]{12,}")
_SECRET_PAIR = re.compile(r"\b(password|passwd|pwd|secret|token|api_?key|accountkey)\s*[=:]\s*\S", re.IGNORECASE)


def is_secret(name: str, value: str = "") -> bool:
    """Tell whether a variable is a secret by its name, or by the form of its value."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or _SECRET_PAIR.search(value))


def hide_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command as a record shows it: arguments that look like secrets are `***`."""
    return tuple(_hidden(word, before) for before, word in zip(("", *words), words, strict=False))


def _hidden(word: str, before: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("-") else (before, "", word)
    name = option[2:].replace("-", "_") if option.startswith("--") else ""
    named = _SECRET_NAME.search(name) and _OPAQUE.fullmatch(value)
    if not named and not is_secret("", value):
        return word
    return f"{option}=***" if equals else "***"


def guard(name: str, value: str, *, inherited: bool = False) -> str | Secret:
    """Wrap the value of a secret. `inherited`: nobody typed it (`--env NAME`), so that it always is one."""
    return Secret(value) if inherited or is_secret(name, value) else value


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


def hide_values(text: str, env: Mapping[str, Value], is_public: Callable[[str], bool]) -> str:
    """Return shell text without the values of variables, for a page that is shown to others.

    What was typed can be a secret that neither its name nor its form gives away. `is_public`: whether values of a
    variable of this name can be shown.
    """
    for name, value in env.items():
        if isinstance(value, str) and value and not is_public(name):
            text = text.replace(f"{name}={quote(value)}", assign(name, Secret(value)))
    return text


def exports(env: Mapping[str, Value]) -> list[str]:
    """One `unset` line, then an `export` line for each variable."""
    unset = [name for name, value in env.items() if value is None]
    lines = [f"export {assign(name, value)}" for name, value in env.items() if value is not None]
    return [f"unset {join(unset)}", *lines] if unset else lines


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
