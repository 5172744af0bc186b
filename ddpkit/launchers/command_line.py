"""Command lines as words: tokens, a launcher in the command of a rank, and the Python of its script. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from pathlib import PurePath


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


_PYTHON = re.compile(r"python[\d.]*")
# The page with the commands of other launchers, and the ones of ddpkit beside them.
MIGRATION = "https://github.com/ddpkit/ddpkit/blob/main/docs/migrate/accelerate.md"
# Launchers by the name of their program, each with the subcommands that start processes; empty: it has none.
_READ: dict[str, tuple[str, ...]] = {  # their command lines are read
    **dict.fromkeys(("torchrun", "srun", "sbatch", "salloc"), ()),
    "tune": ("run",),
    "ddpkit": ("launch", "test", "bench"),
}
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    **_READ,
    **dict.fromkeys(("deepspeed", "composer", "horovodrun", "accelerate-launch", "mpirun", "mpiexec", "orterun"), ()),
    "accelerate": ("launch", "test"),
    **dict.fromkeys(("torchx", "colossalai", "fabric", "lightning"), ("run",)),
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate-launch",
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner.launch": "horovodrun",
    "ddpkit": "ddpkit",
}
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
# Programs that start another program, named after their own options; and words of a shell before a command.
_PREFIXES = (
    "env", "exec", "nohup", "time", "timeout", "nice", "ionice", "setsid", "stdbuf", "numactl", "taskset", "sudo",
    "chrt", "catchsegv", "command", "eval", "strace", "ltrace", "ncu", "nvprof", "rocprof", "rocprofv3", "xvfb-run",
    "do", "then", "else", "if", "while", "until", "!", "{",
)  # fmt: skip
# The same for programs with subcommands. They choose the environment of the command, and stay in front of it.
_RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("uv", "poetry", "pixi", "pdm", "rye", "hatch", "pipenv", "pipx"), ("run",)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("run",)),
    "nsys": ("profile", "launch"),
    "py-spy": ("record",),
    **dict.fromkeys(("apptainer", "singularity"), ("exec", "run")),
}
# Options of `uv run` with which its Python is that of the project, so that one call can say which it is.
_UV_PROJECT = re.compile(
    r"--(?:extra|group|only-group|no-group|package|project|directory|python|index|index-url|config-file)(=.*)?|-p"
)
_UV_SWITCH = re.compile(
    r"--(?:all-extras|all-groups|all-packages|dev|no-dev|only-dev|frozen|locked|no-sync|exact|inexact|active|offline|"
    r"no-default-groups|no-editable|quiet|verbose|no-progress|managed-python|no-cache|native-tls|refresh|upgrade)|-[qvUn]"
)
_PER_NODE = ("--nproc-per-node", "--ntasks-per-node")
_COUNTS = (*_PER_NODE, "--ntasks", "-n")  # the number of ranks
# Their flags without a value. The others are taken to have one.
_BARE = re.compile(
    r"-m|--module|--no-\w+|--standalone|--use-\w+|--quiet|--exclusive|--oversubscribe|--label|--unbuffered|"
    r"--overlap|-[lquvO]|--dry-run|--json|--sync|--detach"
)


@dataclass(frozen=True, kw_only=True)
class Nested:
    """A launcher in the command of a rank."""

    name: str
    script: tuple[str, ...]  # the script that it would start; empty: not recognised
    count: str  # the number of ranks that it would start; empty: not given
    per_node: bool = False  # the number is that of each node

    hint: str = ""  # of a launcher whose command line is not read

    @property
    def problem(self) -> str:
        return f"{self.name} is a launcher itself"


def find_launcher(command: Sequence[str], before: Sequence[str] = ()) -> Nested | None:
    """Find a launcher in the command of a rank, also after `env`, `uv run`, `python -m` and in `bash -c`.

    `before`: what starts the shell with this command.
    """
    runner, words = _skip_prefixes(list(command))
    runner = [*before, *runner]
    name = PurePath(words[0]).name if words else ""
    if name in SHELLS:
        return next((nested for part in _shell_commands(words[1:]) if (nested := find_launcher(part, runner))), None)
    if _PYTHON.fullmatch(name):
        words = _python_words(words[1:])
        name = PurePath(words[0]).name if words else ""
    if name == "-m" and len(words) > 1:
        words = words[1:]
        name = _MODULES.get(words[0], "")
    subcommands = _LAUNCHERS.get(name)
    if subcommands is None or (subcommands and (len(words) < 2 or words[1] not in subcommands)):
        return None
    script, count, per_node = list[str](), "", False
    if name in _READ:
        script, count, per_node = _parts(words[2 if subcommands else 1 :])
    if name == "tune":  # it starts torchrun where one of torchrun's options is given, and else the recipe itself
        if not script or len(script) == len(words) - 2:
            return None
        script = ["tune", "run", *script]
    elif runner and script:
        python, plain = split_python(script)
        is_python = bool(python) or script[0] == "-m" or script[0].endswith(".py")
        script = [*runner, *(["python", *plain] if is_python else script)]
    hint = "" if name in _READ else MIGRATION
    name = f"{name} {words[1]}" if subcommands else name
    return Nested(name=name, script=plain_script(script), count=count, per_node=per_node, hint=hint)


def uv_project(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split `uv run OPTIONS python SCRIPT ARGS` into `uv run OPTIONS` and the command behind it.

    Both empty: another command, or one whose Python is not the project's, such as `uv run --with PACKAGE`.
    """
    words = list(command)
    if len(words) < 3 or PurePath(words[0]).name != "uv" or words[1] != "run":
        return (), ()
    at = 2
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "--module", "--"):
        option = _UV_PROJECT.fullmatch(words[at])
        if option is None and not _UV_SWITCH.fullmatch(words[at]):
            return (), ()
        at += 2 if option and not option[1] else 1
    options, rest = words[:at], words[at:]
    if rest[:1] == ["--"]:
        rest = rest[1:]
    if rest[:1] == ["--module"]:
        rest = ["-m", *rest[1:]]
    python, script = split_python(rest)
    if not python and not (rest and (rest[0].endswith(".py") or (rest[0] == "-m" and len(rest) > 1))):
        return (), ()
    return tuple(options), script


def names_program(word: str) -> bool:
    """Tell whether a word is the name of a Python, a shell or a launcher, and so hardly that of a host."""
    return bool(_PYTHON.fullmatch(word)) or word in SHELLS or word in _LAUNCHERS


def plain_script(command: Sequence[str]) -> tuple[str, ...]:
    """`python -u train.py` as `train.py`; other commands as they are."""
    python, script = split_python(command)
    return tuple(script) if python else tuple(command)


def split_python(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Split `python3 -u train.py ARGS` into the Python and the script, module or code. Empty: it has another form.

    A Python with a path is left alone, as is one with options that matter. -u does not: every rank has it.
    """
    words = list(command)
    if len(words) < 2 or not _PYTHON.fullmatch(words[0]):
        return "", tuple(command)
    script = words[1:]
    while script[:1] == ["-u"]:
        script = script[1:]
    known = script and (script[0].endswith(".py") or (script[0] in ("-m", "-c") and len(script) > 1))
    return (words[0], tuple(script)) if known else ("", tuple(command))


def _python_words(words: list[str]) -> list[str]:
    """What Python runs: `-m MODULE ARGS`, or a file and its arguments; nothing for code."""
    while words and words[0].startswith("-") and words[0] != "-m":
        if words[0] == "-c":
            return []
        words = words[2 if words[0] in ("-W", "-X") else 1 :]
    return words


def _skip_prefixes(words: list[str]) -> tuple[list[str], list[str]]:
    """Split a command into the runners in front of it, such as `uv run --frozen`, and the command proper.

    Prefixes with words of their own, such as `env NAME=VALUE` and `nice -n 5`, are runners as well.
    """
    runner: list[str] = []
    while words:
        name = PurePath(words[0]).name
        is_runner = len(words) > 1 and words[1] in _RUNNERS.get(name, ())
        if not is_runner and name not in _PREFIXES and not re.match(r"\w+=", words[0]):
            break
        start = 2 if is_runner else 1  # the first word after the program, and its subcommand
        ends = (at for at in range(start, len(words)) if words[at] == "--" or _is_command(words, at, start))
        end = next(ends, len(words))
        if is_runner or end > 1:
            runner += words[:end]
        elif name not in _PREFIXES:  # a shell's NAME=VALUE in front of a command
            runner += ["env", words[0]]
        words = words[end + 1 :] if words[end : end + 1] == ["--"] else words[end:]
        if name == "env" and len(words) == 1 and " " in words[0]:  # env -S
            words = words[0].split()
            runner.pop()
    return runner, words


def _is_command(words: list[str], at: int, start: int) -> bool:
    """Return whether a word begins the command: no option, value of one, assignment, duration or list of CPUs."""
    if words[at].startswith("-") or re.fullmatch(r"\w+=.*|[\d,.:-]+[smhd]?", words[at], re.DOTALL):
        return False
    before = words[at - 1] if at > start else ""
    takes_value = before.startswith("-") and "=" not in before
    image = at == start and PurePath(words[0]).name in ("apptainer", "singularity")
    return not (takes_value or image) or names_program(PurePath(words[at]).name) or words[at].endswith(".py")


def _shell_commands(words: list[str]) -> Iterator[list[str]]:
    """The simple commands of `-c CODE`, as words."""
    code = next((text for flag, text in pairwise(words) if re.fullmatch(r"-\w*c", flag)), "")
    lexer = shlex.shlex(code.replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    part: list[str] = []
    try:
        for token in lexer:
            if re.fullmatch(r"[;&|()<>]+", token):
                yield part
                part = []
            else:
                part.append(token)
    except ValueError:  # quotes that do not end: the shell will complain
        pass
    yield part


def _parts(words: list[str]) -> tuple[list[str], str, bool]:
    """The script among the words of a launcher, the number of ranks, and whether each node has so many."""
    count, per_node, module = "", False, False
    for token in tokenize(words, lambda name, following: not _BARE.fullmatch(name) and not following.endswith(".py")):
        if token.kind is not Kind.OPTION:
            script = words[token.at + (token.kind is Kind.DASHES) :]
            return ["-m"] * module + script, count if count.isdecimal() else "", per_node
        if token.name in _COUNTS:
            count, per_node = token.value or "", token.name in _PER_NODE
        module = module or token.name in ("-m", "--module")
    return [], count if count.isdecimal() else "", per_node
