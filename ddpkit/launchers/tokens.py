"""The words of a command line as tokens. Pure: the caller knows which options take a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Kind(Enum):
    """What a token is."""

    OPTION = auto()  # with its value, if it has one
    PLAIN = auto()  # a host, a run, a number
    DASHES = auto()  # the `--` before a script
    SCRIPT = auto()
    ARGUMENT = auto()  # of the script


@dataclass(frozen=True)
class Token:
    """One or two words."""

    kind: Kind
    at: int  # the index of its first word
    words: tuple[str, ...]  # as typed
    name: str = ""  # of an option: `--nproc_per_node=2` is --nproc-per-node
    value: str | None = None  # of an option; None: it has none

    @property
    def word(self) -> str:
        return self.words[0]

    @property
    def is_option(self) -> bool:
        return self.kind is Kind.OPTION

    @property
    def is_script(self) -> bool:
        return self.kind is Kind.SCRIPT

    @property
    def attached(self) -> bool:
        """Tell whether the value is in the same word."""
        return self.value is not None and len(self.words) == 1


# Tells whether an option takes the next word as its value. "": no word follows, or it can only be the script.
TakesValue = Callable[[str, str], bool]


def tokenize(
    words: Sequence[str],
    takes_value: TakesValue,
    is_script: Callable[[str], bool] = lambda _: False,
    script_flags: Collection[str] = (),
) -> list[Token]:
    """Read the words from left to right. After one of `script_flags`, any word that is no option is the script."""
    tokens, named, at = list[Token](), False, 0
    while at < len(words):
        word, before = words[at], tokens[-1].kind if tokens else Kind.PLAIN
        if before in (Kind.SCRIPT, Kind.ARGUMENT):
            token = Token(Kind.ARGUMENT, at, (word,))
        elif before is Kind.DASHES:
            token = Token(Kind.SCRIPT, at, (word,))
        elif word == "--":
            token = Token(Kind.DASHES, at, (word,))
        elif is_option(word):
            token = _option(words, at, takes_value, named=named)
            named = named or token.name in script_flags
        else:
            token = Token(Kind.SCRIPT if named or is_script(word) else Kind.PLAIN, at, (word,))
        tokens.append(token)
        at += len(token.words)
    return tokens


def _option(words: Sequence[str], at: int, takes_value: TakesValue, *, named: bool) -> Token:
    """The option here, with its value. `named`: the next word that is no option is the script."""
    name, value = split_option(words[at])
    following = words[at + 1] if at + 1 < len(words) else ""
    can_be = "" if named and not is_option(following) else following
    if value is None and at + 1 < len(words) and takes_value(name, can_be):
        return Token(Kind.OPTION, at, (words[at], following), name, following)
    return Token(Kind.OPTION, at, (words[at],), name, value)


def is_option(word: str) -> bool:
    """Tell whether a word is an option; `-` alone is none."""
    return word.startswith("-") and word != "-"


def split_option(word: str) -> tuple[str, str | None]:
    """The name of an option, and the value in the same word: `--name=value`, `-nvalue`, `-n=value`; None: none."""
    if word == "-np":  # mpirun's
        return word, None
    if not word.startswith("--"):
        return word[:2], word[2:].removeprefix("=") if word[2:] else None
    name, equals, value = word.partition("=")
    return name.replace("_", "-"), value if equals else None
