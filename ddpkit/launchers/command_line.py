"""Command lines as words: tokens, a launcher in the command of a rank, and the Python of its script. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise, takewhile
from pathlib import PurePath
from typing import NamedTuple


class Kind(Enum):
    """What a token is."""

    OPTION = auto()  # with its value, if it has one
    PLAIN = auto()  # a host, a run, a number
    DASHES = auto()  # the `--` before a script
    SCRIPT = auto()
    ARGUMENT = auto()  # of the script


class Token(NamedTuple):
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


_PYTHON = re.compile(r"python[\d.]*t?")
# The page with the commands of other launchers, and the ones of ddpkit beside them.
MIGRATION = "https://github.com/ddpkit/ddpkit/blob/main/docs/migrate/accelerate.md"
# Launchers by the name of their program, each with the subcommands that start processes; empty: it has none.
_READ_BY_US: dict[str, tuple[str, ...]] = {  # of these, ddpkit reads the command line
    **dict.fromkeys(("torchrun", "srun", "sbatch", "salloc"), ()),
    "tune": ("run",),
    "ddpkit": ("launch", "test", "bench"),
}
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    **_READ_BY_US,
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
_TAKE_CODE = (*SHELLS, "su", "runuser", "script", "flock")  # with `-c CODE`
# Programs that start another program. A word behind one of their options may be that program as well as a value.
_WRAPPERS = frozenset(
    "env nohup time timeout nice ionice setsid stdbuf numactl taskset sudo chrt catchsegv strace ltrace ncu "
    "nvprof rocprof rocprofv3 xvfb-run unbuffer perf gdb cuda-gdb valgrind compute-sanitizer watch prlimit choom "
    "setarch systemd-run tmux screen unshare setpriv xargs nsys py-spy memray viztracer coverage debugpy dotenv "
    "direnv uv uvx poetry pixi pdm rye hatch pipenv pipx conda mamba micromamba apptainer singularity".split()
)
_RUN_PYTHON = frozenset("coverage debugpy cProfile pdb trace memray".split())  # a file or module, and no program
_MODULES_THAT_WRAP = _RUN_PYTHON | frozenset("uv poetry pdm hatch pipenv".split())
_PRINTERS = ("echo", "printf", "which", "type", "hash", "man", "grep", "pip", "cat", "ls")
# Words of a shell before a command. Outside of a shell they are no programs.
_KEYWORDS = ("do", "then", "else", "elif", "if", "while", "until", "!", "{", "exec", "command", "builtin", "time")
_BRANCH, _ENDS = ("if", "case"), ("fi", "esac", "}")
_HERE_DOCUMENT = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1([^\n]*)\n.*?^\t*\2$", re.MULTILINE | re.DOTALL)
# Options of `uv run` with which its Python is that of the project, so that one call can say which it is.
_UV_VALUED = frozenset(
    "-p --extra --group --only-group --no-group --package --project --directory --python --index --index-url "
    "--config-file".split()
)
_UV_SWITCHES = frozenset(
    "-q -v -U -n --all-extras --all-groups --all-packages --dev --no-dev --only-dev --frozen --locked --no-sync "
    "--exact --inexact --active --offline --no-default-groups --no-editable --quiet --verbose --no-progress "
    "--managed-python --no-cache --native-tls --refresh --upgrade".split()
)
_PER_NODE = ("--nproc-per-node", "--ntasks-per-node")
_COUNTS = (*_PER_NODE, "--ntasks", "-n", "--num-processes")  # the number of ranks
_NODES = ("--nnodes", "--nodes", "-N", "--num-machines")
# Flags of `accelerate launch` that say where and how many. With another one, its command line is not read.
_ACCELERATE = frozenset(
    "--num-processes --num-machines --machine-rank --main-process-ip --main-process-port --multi-gpu --same-network "
    "--rdzv-backend -m --module".split()
)
# Their flags without a value. The others are taken to have one.
_BARE = frozenset(
    "-m -l -q -u -v -O --module --standalone --quiet --exclusive --oversubscribe --label --unbuffered --overlap "
    "--dry-run --json --sync --detach --multi-gpu --same-network".split()
)


@dataclass(frozen=True, kw_only=True)
class Nested:
    """A launcher in the command of a rank."""

    name: str
    script: tuple[str, ...]  # the script that it would start; empty: not recognised
    count: str  # the number of ranks that it would start; empty: not given
    per_node: bool = False  # the number is that of each node
    nodes: str = ""  # N or MIN:MAX, where that is more than one

    hint: str = ""  # of a launcher whose command line is not read

    @property
    def problem(self) -> str:
        also = ", and the script must say what `accelerate config` did" if self.name.startswith("accelerate") else ""
        return f"{self.name} is a launcher itself{also}"


def find_launcher(command: Sequence[str], before: Sequence[str] = ()) -> Nested | None:
    """Find a launcher in the command of a rank: behind any wrapper, after `python -m`, and in `bash -c`.

    The words are read up to the script: what stands behind it is its own. `before`: what starts the shell with this
    command.
    """
    words = _without_strings(command)
    if not words or _name(words[0]) in _PRINTERS:
        return None
    python = -1  # the index of the last Python; -1: the words before are of no Python
    for at, word in enumerate(words):
        name = _name(word)
        if name in _TAKE_CODE and (code := _code(name, words[at + 1 :])):
            runner = [*before, *words[:at]]
            return next((nested for part in _shell_commands(code) if (nested := find_launcher(part, runner))), None)
        if name in SHELLS and words[at + 1 :]:
            return None  # a script of the shell: the words behind it are its own
        if _PYTHON.fullmatch(name):
            python = at
        elif module := _module(words, at, in_python=python >= 0):
            if name := _MODULES.get(module, ""):
                runner = words[: python if python >= 0 else at]
                return _nested(name, words[at + (word[-1] == "m") :], [*before, *runner])
            if module not in _MODULES_THAT_WRAP:
                return None
            python = -1
        elif name := _launcher(words, at, in_python=python >= 0):
            return _nested(name, words[at:], [*before, *words[: python if python >= 0 else at]])
        elif _is_script(word) or (python >= 0 and _ends_python(words, at)):
            return None
    return None


def _launcher(words: list[str], at: int, *, in_python: bool) -> str:
    """The launcher that the word at this index calls; empty: none. It may be the value of an option before it."""
    word, rest = words[at], words[at + 1 :]
    name = "torchrun" if re.search(r"torch/distributed/(run|launch)\.py$", word) else _name(word)
    subcommands = _LAUNCHERS.get(name)
    if subcommands is None or (subcommands and (not rest or rest[0] not in subcommands)):
        return ""
    if at == 0:
        return name
    if not rest or not (subcommands or rest[0].startswith("-") or any(map(_is_script, rest))):
        return ""
    before = words[at - 1]
    if in_python or not before.startswith("-") or before == "--" or "=" in before:
        return name
    # The value of an option, such as `conda run -n deepspeed python train.py`, or `numactl -l torchrun train.py`.
    script = next((index for index, each in enumerate(rest) if _is_script(each)), len(rest))
    programs = any(names_program(_name(each)) for each in rest[:script])
    is_value = programs or _name(words[0]) not in _WRAPPERS or before.endswith("launcher")
    return "" if is_value else name


def _name(word: str) -> str:
    return PurePath(word).name


def _is_script(word: str) -> bool:
    return word.endswith(".py") and "=" not in word


def _ends_python(words: list[str], at: int) -> bool:
    """Tell whether a word of Python's command line is its code, or the directory or archive that it runs."""
    return words[at] == "-c" or not (words[at].startswith("-") or words[at - 1] in ("-W", "-X"))


def _module(words: list[str], at: int, *, in_python: bool) -> str:
    """The module of `-m MODULE` here; empty: none. Outside of Python -m may be any option, such as numactl's."""
    found = re.fullmatch(r"-[A-Za-z]*m(.*)" if in_python else r"-m()", words[at])
    module = found and (found[1] or " ".join(words[at + 1 : at + 2]))
    return module if module and (in_python or at == 0 or module in _MODULES) else ""


def _nested(name: str, words: list[str], runner: list[str]) -> Nested | None:
    """Describe a launcher; None: it starts no ranks. `words`: from its name on. `runner`: the words before.

    The script that it would start has the runner in front. Where it starts another launcher, the script is that one's.
    """
    subcommands = _LAUNCHERS[name]
    if subcommands and (len(words) < 2 or words[1] not in subcommands):
        return None
    script, options = list[str](), dict[str, str]()
    if name in _READ_BY_US:
        script, options = _script_and_options(words[2 if subcommands else 1 :])
    elif name in ("accelerate", "accelerate-launch"):
        script, options = _script_and_options(words[2 if subcommands else 1 :])
        script, options = (script, options) if options.keys() <= _ACCELERATE else ([], {})
    if name == "tune":  # it starts torchrun where one of torchrun's options is given, and else the recipe itself
        if not script or len(script) == len(words) - 2:
            return None
        script = ["tune", "run", *script]
    elif runner and script:
        python, plain = split_python(script)
        is_python = bool(python) or script[0] == "-m" or script[0].endswith(".py")
        program = [] if _RUN_PYTHON.intersection(map(_name, runner)) else ["python"]
        script = [*runner, *([*program, *plain] if is_python else script)]
    hint = "" if name in _READ_BY_US or script else MIGRATION
    name = f"{name} {words[1]}" if subcommands else name
    nodes = next((options[flag] for flag in _NODES if flag in options), "")
    nodes = nodes if re.fullmatch(r"(\d+:)?\d+", nodes) and nodes not in ("1", "1:1") else ""
    inner = find_launcher(script) if script else None  # srun torchrun train.py
    if inner is not None:
        return replace(inner, name=name, nodes=inner.nodes or nodes)
    counts = [flag for flag in options if flag in _COUNTS and options[flag].isdecimal()]
    count, per_node = (options[counts[-1]], counts[-1] in _PER_NODE) if counts else ("", False)
    if count and nodes.isdecimal() and not per_node and int(count) % int(nodes) == 0:
        count, per_node = str(int(count) // int(nodes)), True
    return Nested(name=name, script=plain_script(script), count=count, per_node=per_node, nodes=nodes, hint=hint)


def uv_project(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split `uv run OPTIONS python SCRIPT ARGS` into `uv run OPTIONS` and the command behind it.

    Both empty: another command, or one whose Python is not the project's, such as `uv run --with PACKAGE`.
    """
    words = list(command)
    if not words or _name(words[0]) != "uv":
        return (), ()
    at, run = 1, 0
    while at < len(words) and not (run and (words[at] in ("-m", "--module", "--") or not words[at].startswith("-"))):
        name, equals, _ = words[at].partition("=")
        if words[at] == "run":
            run = at
        elif name not in _UV_VALUED and words[at] not in _UV_SWITCHES:
            return (), ()
        at += 2 if name in _UV_VALUED and not equals else 1
    if not run:
        return (), ()
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


def _without_strings(command: Sequence[str]) -> list[str]:
    """The words of a command, with the string of `env -S 'NAME=VALUE COMMAND'` split into words."""
    words = list(command)
    at = next((index for index, word in enumerate(words) if _name(word) == "env"), len(words))
    for index in range(at + 1, len(words)):
        found = re.fullmatch(r"(?:-[a-zA-Z]*S|--split-string=?)(.*)", words[index], re.DOTALL)
        if found and (found[1] or index + 1 < len(words)):
            end = index + (1 if found[1] else 2)
            return [*words[:index], *_split(found[1] or words[index + 1]), *words[end:]]
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # quotes that do not end: the program will complain
        return []


def _code(name: str, words: list[str]) -> str:
    """What a program gets with -c; empty: none. A shell's own options end at its script."""
    options = words[: _shell_options(words) + 1] if name in SHELLS else words
    return next((text for flag, text in pairwise(options) if re.fullmatch(r"-\w*c", flag)), "")


def _shell_options(words: Sequence[str]) -> int:
    """How many words are options of a shell."""
    end = 0
    while words[end : end + 1] and words[end][:1] in ("-", "+"):
        end += 2 if re.fullmatch(r"[-+]\w*[oO]|--(?:rcfile|init-file)", words[end]) else 1
    return end


def of_shell(command: Sequence[str]) -> list[str]:
    """The script that a shell in the command of a rank runs, with its arguments; empty: there is none."""
    words = _without_strings(command)
    for at, word in enumerate(words):
        if _name(word) in SHELLS:
            following = words[at + 1 :]
            return [] if _code(_name(word), following) else following[_shell_options(following) :]
        if _is_script(word) or _PYTHON.fullmatch(_name(word)):
            break
    return []


class _Block(NamedTuple):
    """An open `if`, `case`, `{` or body of a function around a command of a shell."""

    optional: bool  # a condition or a caller decides whether it runs
    guard: bool  # it stands behind `||`: it runs where something failed


def launchers_in(code: str) -> Iterator[tuple[Nested, bool]]:
    """Find the launchers that a shell script starts, each with whether a condition can leave it out.

    One that nothing leaves out would start its own ranks in each rank, and is refused. It is left out in a branch, in a
    function that may not be called, behind `&&` and `||`, and where a branch ended the script before.
    """
    blocks = list[_Block]()
    ended = False  # a branch may have ended the script
    for separator, words in _simple_commands(code):
        behind = separator in ("&&", "||")
        leading = list(takewhile(lambda word: word in (*_KEYWORDS, *_BRANCH, *_ENDS), words))
        for word in leading:
            if word in _BRANCH or word == "{":
                blocks.append(_Block(word != "{" or behind or separator == "()", separator == "||"))
            elif word in _ENDS and blocks:
                blocks.pop()
        conditional = behind or any(block.optional for block in blocks)
        for program in _programs(words):
            nested = find_launcher(program)
            if nested and not all(word.startswith("-") for word in program[1:]):  # `srun --version` starts nothing
                yield nested, conditional or ended
        leaves = "exec" in leading or words[len(leading) : len(leading) + 1] in (["exit"], ["return"])
        # `cd x || exit 1` ends a script that has failed: what follows is not left out by a choice.
        is_guard = separator == "||" or any(block.guard for block in blocks)
        ended = ended or (leaves and conditional and not is_guard)


def _shell_commands(code: str) -> Iterator[list[str]]:
    """The simple commands of a shell's code, as words of programs."""
    for _, words in _simple_commands(code):
        yield from _programs(words)


def _simple_commands(code: str) -> list[tuple[str, list[str]]]:
    """The simple commands of a shell's code, with all their words, and before each its operator: `&&`, `;`, or none."""
    code = _HERE_DOCUMENT.sub(r"\3", code)
    code = re.sub(r"(?:\$\(|`)(?:which|command -v|type -P) +([\w.-]+)[)`]", r"\1", code)
    lexer = shlex.shlex(code.replace("\\\n", " ").replace("\n", "\n;"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True  # a comment goes with the end of its line, so a `;` follows that
    parts: list[tuple[str, list[str]]] = [("", [])]
    try:
        for token in lexer:
            if not re.fullmatch(r"[;&|()<>]+", token):
                parts[-1][1].append(token)
                continue
            if token[0] in "<>" and parts[-1][1] and parts[-1][1][-1].isdecimal():  # the 2 of 2>&1
                parts[-1][1].pop()
            parts.append((token, []))
    except ValueError:  # quotes that do not end: the shell will complain
        pass
    return parts


def _programs(words: list[str]) -> Iterator[list[str]]:
    """Yield a simple command without the words that only a shell knows; of `eval`, the commands in its text."""
    while words and words[0] in _KEYWORDS:
        is_exec, words = words[0] == "exec", words[1:]
        while is_exec and words and words[0].startswith("-"):
            words = words[2 if words[0] == "-a" else 1 :]
    if words and words[0] == "eval":
        yield from _shell_commands(" ".join(words[1:]))
    elif words and re.match(r"\w+=", words[0]):
        yield ["env", *words]
    else:
        yield words


def _has_value(name: str, following: str) -> bool:
    return not (name in _BARE or name.startswith(("--no-", "--use-")) or following.endswith(".py"))


def _script_and_options(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The script among the words of a launcher, and the options before it with their values."""
    options = dict[str, str]()
    for token in tokenize(words, _has_value):
        if token.kind is not Kind.OPTION:
            module = options.keys() & {"-m", "--module"}
            return ["-m"] * bool(module) + words[token.at + (token.kind is Kind.DASHES) :], options
        options.pop(token.name, None)  # the last one counts
        options[token.name] = token.value or ""
    return [], options
