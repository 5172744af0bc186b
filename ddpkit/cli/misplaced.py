"""Arguments in the wrong place: no host before the script, an option of ddpkit after it; with the corrected line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePath

from ddpkit.cli import slurm_flags
from ddpkit.cli.hints import command_line
from ddpkit.cli.typed_line import TypedLine, split_option
from ddpkit.errors import UsageError


def check_host(line: TypedLine, word: str) -> None:
    """Refuse an argument that is no host."""
    for check in (*_OF_ALL, *(_OF_A_SCRIPT if line.request.scripted else ())):
        error = check(line, word)
        if error:
            raise error


def check_script(line: TypedLine, script: str) -> None:
    """Refuse options of ddpkit after a script that no `--` precedes: `ok.py --dry-run` would run, `ok.py -n 2` once.

    After `--` everything belongs to the script.
    """
    line.request.take_backend(_value_of(line.rest, ("-b", "--backend")))
    own, kept, words = list[str](), list[str](), list(line.rest)
    while words:
        word = words.pop(0)
        option, value = own_option(line, word)
        if not option:
            kept.append(word)
            continue
        own.append(option + (f"={value}" if option[:2] == "--" else value) if value else option)
        if not value and line.takes_value(option, *words[:1]) and words and not words[0].startswith("-"):
            own.append(words.pop(0))
    if not own:
        return
    typed = next(word for word in line.rest if own_option(line, word)[0])
    before = line.all[: line.at]
    corrected, as_typed = (
        command_line([*before, *words]) for words in ([*own, "--", script, *kept], ["--", script, *line.rest])
    )
    what = f"{typed} comes after the script, and is an option of ddpkit"
    raise UsageError(what, f"{corrected}; if it is the script's own: {as_typed}")


def own_option(line: TypedLine, word: str) -> tuple[str, str]:
    """The option of ddpkit, its backend or sbatch that a word spells, and the value in the same word; "": none.

    Also in another spelling: `--dry_run`, `--dryrun`, `–n`, `-N2`. Letters of sbatch count under SLURM alone.
    """
    name, _, value = split_option(word.translate(_DASHES))
    if word.translate(_DASHES) == "-np":  # mpirun's
        return "", ""
    value = value.removeprefix("=")
    if name[:2] != "--":
        letters = slurm_flags.LETTERS if _slurm(line) else {}
        return (name, value) if name in line.options or name in letters else ("", "")
    names = [each for each in line.options if each[:2] == "--"]
    if line.request.has_backend:
        names += [f"--{key.replace('_', '-')}" for key in line.request.options]
        names += [f"--no-{key.replace('_', '-')}" for key, each in line.request.options.items() if each.alone]
    names += slurm_flags.LONG if _slurm(line) else ()
    return {_plain(each): each for each in names}.get(_plain(name), ""), value


_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")


def _plain(name: str) -> str:
    return name.replace("-", "").lower()


def _slurm(line: TypedLine) -> bool:
    return line.request.has_backend and bool(line.request.transport.slurm)


def _value_of(words: Sequence[str], names: Collection[str]) -> str:
    """The value of an option among words, the last one; empty: it is not there."""
    last = ""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = split_option(word)
        if name in names:
            last = value.removeprefix("=") if equals else following
    return last


def _backend(line: TypedLine, word: str) -> UsageError | None:
    from ddpkit.launchers import registry

    if line.request.typed_backend or line.request.takes_hosts:
        return None
    if word not in registry.aliases() and word not in registry.names():
        return None
    return UsageError(f"{word} is a backend, not a host", line.corrected(line.at, 1, ["-b", word]))


def _batch_script(line: TypedLine, word: str) -> None:
    from ddpkit.execution.job import check_batch_script, is_batch_script

    if is_batch_script(Path(word)):
        check_batch_script(Path(), [word, *line.rest], allowed=line.request.settings.allow_nested)


def _without_ending(line: TypedLine, word: str) -> UsageError | None:
    local = not line.request.has_backend or line.request.transport.local
    if not local or "." in word or not Path(f"{word}.py").is_file():
        return None
    what = f"{word} is in the place of a host, and {word}.py is a script"
    return UsageError(what, line.corrected(line.at, 1, [f"{word}.py"]))


def _ranks(line: TypedLine, word: str) -> UsageError | None:
    """Refuse mpirun's `node1:2`: ddpkit would take 2 for the port of an SSH server."""
    from ddpkit.launchers.nested import MIGRATION

    number = word.rpartition(":")[2] if re.fullmatch(r"[^:/=]+:\d+", word) else ""
    if not (number and 0 < int(number) < 22 and line.request.has_backend and line.request.takes_hosts):
        return None
    return UsageError(f"{word}: {number} is not the port of an SSH server; -n is the number of ranks", MIGRATION)


def _value(line: TypedLine, word: str) -> UsageError | None:
    flag = line.all[line.at - 1]
    if not ((flag == "--preload" and (word == "torch" or "," in word)) or (flag == "--stage" and word == "env")):
        return None
    what = f"{word} is in the place of a host; the form is {flag}={'env' if word == 'env' else 'MODULES'}"
    return UsageError(what, line.corrected(line.at - 1, 2, [f"{flag}={word}"]))


def _number(line: TypedLine, word: str) -> UsageError | None:
    if not word.isdecimal():
        return None
    return UsageError(f"{word} is in the place of a host", line.corrected(line.at, 1, ["-n", word]))


def _file(line: TypedLine, word: str) -> UsageError | None:
    if line.request.takes_hosts or not Path(word).is_file():
        return None
    hint = command_line([*line.request.words, "--", word, *line.rest, *line.tail[1:]])
    return UsageError(f"`{word}` is a file here, not a host", hint)


def _program(line: TypedLine, word: str) -> UsageError | None:
    import shutil

    from ddpkit.launchers.nested import find_launcher, names_program

    if not names_program(word):
        here = line.request.takes_hosts or _is_this_machine(word)
        if here or shutil.which(PurePath(word).name) is None:
            return None  # a host, perhaps one for which the backend is the wrong one
    words = [word, *line.rest, *line.tail[1:]]
    nested = find_launcher(words)
    what = nested.problem if nested else f"`{word}` is a program, not a host"
    return UsageError(what, line.with_script(words, nested))


_Check = Callable[[TypedLine, str], UsageError | None]
# In this order. After each check: what was typed.
_OF_ALL: tuple[_Check, ...] = (_backend,)  # launch slurm -N 2 train.py
_OF_A_SCRIPT: tuple[_Check, ...] = (
    _batch_script,  # launch job.sbatch
    _without_ending,  # launch train
    _ranks,  # launch -b ssh node1:2 node2:2 train.py
    _value,  # launch --preload torch train.py
    _number,  # launch 2 train.py
    _file,  # launch notes.txt
    _program,  # launch python train.py
)


def _is_this_machine(word: str) -> bool:
    import socket

    return word in ("localhost", "127.0.0.1", socket.gethostname().partition(".")[0])
