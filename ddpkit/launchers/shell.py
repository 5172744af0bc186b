"""Shell text from words: every word is quoted, and only a `Raw` word is expanded by the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ddpkit.errors import SECRET_FORMS, hide_in_text
from ddpkit.node.child import NOT_FROM_HERE as NOT_FROM_HERE
from ddpkit.node.child import with_safe_path as with_safe_path


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


# TOKENIZERS_PARALLELISM, GIT_AUTHOR_NAME, SSH_AUTH_SOCK, PWD, OLDPWD and XDG_SESSION_ID are none.
_SECRET_NAME = re.compile(
    r"TOKEN(?!I[ZS])|SECRET|PASS(W|PHRASE|CODE|_|$)|CREDENTIAL|(^|_)CREDS?(_|$)|(^|_)API_?KEY|_KEY(_|$)|^KEY$|PRIVATE|"
    r"(^|_)PATS?(_|$)|_PW$|(?<!^)(?<!OLD)PWD$|_PW_|WEBHOOK|(^|_)DSN(_|$)|(^|_)(JWT|NETRC)(_|$)|"
    r"(?<!XDG_)(?<!TERM_)SESSION_?ID|"
    r"(DATABASE|DB|MONGO(DB)?|REDIS|POSTGRES(QL)?|MYSQL|AMQP|BROKER|SENTRY)_?(URL|URI)|"
    r"CONN(ECTION)?_?STR(ING)?|AUTH(?!OR(?!I[SZ])|_SOCK)|COOKIE|BEARER|SIGNATURE",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(SECRET_FORMS)
_SECRET_PAIR = re.compile(
    r"\b(password|passwd|pwd|secret|token|api_?key|accountkey|authorization|bearer)\s*[=:]\s*\S|\bbearer\s+[\w.+/=~-]{8,}",
    re.IGNORECASE,
)
# Names of arguments whose value is a secret for sure. Not so: `--special-token`, `--secret-size`, `--key`.
_SURE_NAME = re.compile(
    r"(PASSWORD|PASSWD|PASSPHRASE|PASSCODE|SECRET|CREDS|CREDENTIALS?|WEBHOOK(_URL)?|DSN|COOKIE|JWT|BEARER|AUTHORIZATION|"
    r"(API|ACCESS|PRIVATE|AUTH|ACCOUNT|SIGNING|ENCRYPTION|LICENSE|SECRET)_?KEY|(^|_)(PW|PWD|PAT)|"
    r"(^|API|AUTH|ACCESS|HF|HUB|GH|GITHUB|GITLAB|WANDB|SLACK|BOT|SESSION|REFRESH|PERSONAL|DEPLOY)_?TOKEN)$",
    re.IGNORECASE,
)
# What such an argument may say without giving a secret away: a switch, or where the secret is.
_NO_SECRET = re.compile(
    r"|true|false|yes|no|on|off|none|null|auto|(~|\.{0,2}/|\$|<|\[).*|\*+", re.IGNORECASE | re.DOTALL
)
# A value that can be a secret where its option may say so: `--max-tokens 4096` and `--special-token "<eos>"` are none.
_OPAQUE = re.compile(r"(?!\d+$)[\w.+=~-]{12,}")
_NAMED = re.compile(r"[+~-]*(?:[\w-]+[./])*(?P<name>\w[\w-]*)")  # `--name`, `+group.name`
# In the text of a script: the quoted parts of a value are one word.
_ASSIGNED = re.compile(
    r"""(?P<name>(?<![\w$])[\w.-]+)=(?P<value>(?:'[^'\n]*'|"[^"\n]*")(?:'[^'\n]*'|"[^"\n]*"|[\w.+/-])*|[^\s'",;&|()<>`]+)"""
)
_LONG = 8  # characters of a value that is no part of another text by chance


def is_secret(name: str, value: str = "") -> bool:
    """Tell whether a variable is a secret by its name, or by the form of its value."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or _SECRET_PAIR.search(value))


def hide_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command as a record shows it: arguments that look like secrets are `***`."""
    return tuple(_hidden(word, before) for before, word in zip(("", *words), words, strict=False))


def hide_in_script(text: str, command: Sequence[str]) -> str:
    """Return shell text without secrets: those among the arguments of a command in it, and what is assigned there."""
    for before, word, hidden in zip(("", *command), command, hide_secrets(command), strict=False):
        if word == hidden:
            continue
        value = word.removeprefix(hidden.removesuffix("***"))
        front = f"{quote(before)} " if before else ""
        pairs = [(f"{front}{quote(word)}", f"{front}{hidden}")]
        if len(value) >= _LONG:
            pairs += [(quote(value), "***"), (value, "***"), (value.replace("\\", r"\\").replace('"', r"\""), "***")]
        for shown, instead in pairs:
            for depth in range(3):  # a script in a script
                text = text.replace(_nested(shown, depth), instead)
    return hide_in_text(_ASSIGNED.sub(_assigned, text))


def _nested(text: str, depth: int) -> str:
    """Return shell text as it stands inside so many pairs of single quotes."""
    return _nested(text.replace("'", "'\"'\"'"), depth - 1) if depth else text


def _assigned(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    return f"{name}=***" if _names_secret(name, value.strip("'\"")) or _is_long_secret(name, value) else match[0]


def _is_long_secret(name: str, value: str) -> bool:
    """Tell whether a variable in a script is a secret by its name alone: names of options say less."""
    value = value.strip("'\"")
    return name.isupper() and is_secret(name) and not value.isdecimal() and _NO_SECRET.fullmatch(value) is None


def _names_secret(text: str, value: str) -> bool:
    """Tell whether an argument is a secret by the name before it, as in `--api-key x` or `logger.token=x`."""
    match = _NAMED.fullmatch(text)
    if match is None or _NO_SECRET.fullmatch(value):
        return False
    name = match["name"].replace("-", "_")
    return bool(_SURE_NAME.search(name) or (_SECRET_NAME.search(name) and _OPAQUE.fullmatch(value)))


def _hidden(word: str, before: str) -> str:
    option, equals, value = word.partition("=")
    if equals and _names_secret(option, value):
        return f"{option}=***"
    if before.startswith("-") and not word.startswith("-") and _names_secret(before, word):
        return "***"
    named = bool(equals) and word.startswith("-")
    if not is_secret("", value if named else word):
        return word
    return f"{option}=***" if named else "***"


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
