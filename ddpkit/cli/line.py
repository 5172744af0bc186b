"""A command line: its tokens, its backend, the same line corrected; and flags of sbatch, srun and torchrun."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.launchers.command_line import Token
    from ddpkit.launchers.registry import Option


class Use(Enum):
    """What ddpkit does with a flag of another launcher."""

    READ = auto()  # a function of the reader has its name
    SAME = auto()  # ddpkit has it under another name
    PASSED = auto()  # sbatch gets it as it is
    NOT_NEEDED = auto()
    REFUSED = auto()
    MISTAKEN = auto()  # another name of a flag that ddpkit has
    SRUN = auto()  # srun gets it as it is


class Flag(NamedTuple):
    """A flag of another launcher."""

    use: Use
    alone: bool = False  # it takes no value
    reason: str = ""  # why it is not needed, or refused
    instead: str = ""  # ddpkit's flag; of a refused one also another hint


def _rows(names: str, use: Use, *, alone: bool = False, reason: str = "", instead: str = "") -> dict[str, Flag]:
    return dict.fromkeys((f"--{name}" for name in names.split()), Flag(use, alone, reason, instead))


# ---- sbatch and srun

# sbatch's letters.
LETTERS = {
    "-A": "--account",
    "-a": "--array",
    "-C": "--constraint",
    "-c": "--cpus-per-task",
    "-d": "--dependency",
    "-J": "--job-name",
    "-p": "--partition",
    "-q": "--qos",
    "-t": "--time",
    "-w": "--nodelist",
    "-x": "--exclude",
    "-D": "--chdir",
    "-L": "--licenses",
    "-M": "--clusters",
    "-G": "--gpus",
    "-e": "--error",
    "-F": "--nodefile",
    "-H": "--hold",
    "-r": "--relative",
}
# Letters that ddpkit has as well: with a value sbatch's --dependency and --qos, else --detach and --quiet.
BOTH = ("-d", "-q")
_PASSED = """
    mail-type mail-user licenses clusters comment begin deadline mem-per-cpu mem-per-gpu tmp nice wckey
    priority gpu-freq cores-per-socket sockets-per-node threads-per-core hint prefer time-min
    cluster-constraint network profile-data cpus-per-gpu
"""
_SRUN = """
    mpi cpu-bind input bcast send-libs het-group prolog epilog task-prolog task-epilog slurmd-debug accel-bind
    treewidth max-exit-timeout msg-timeout external-launcher
"""
_SRUN_ALONE = """
    overlap exact whole multi-prog disable-status preserve-env resv-ports interactive no-allocate kill-on-bad-exit
"""
SBATCH: Mapping[str, Flag] = {
    **_rows("ntasks jobid gpu-bind ntasks-per-gpu", Use.READ),
    "--nodes": Flag(Use.SAME, instead="--nnodes"),
    "--ntasks-per-node": Flag(Use.SAME, instead="--nproc-per-node"),
    "--chdir": Flag(Use.SAME, instead="--workdir"),
    **_rows(_PASSED, Use.PASSED),
    **_rows("hold contiguous overcommit oversubscribe reboot spread-job", Use.PASSED, alone=True),
    **_rows("parsable", Use.NOT_NEEDED, alone=True, reason="ddpkit submits the job itself, and follows it"),
    **_rows("wait", Use.NOT_NEEDED, alone=True, reason="ddpkit follows the job to its end; --detach does not"),
    **_rows("label", Use.NOT_NEEDED, alone=True, reason="each line has its rank and its host"),
    **_rows("unbuffered", Use.NOT_NEEDED, alone=True, reason="each line is shown as soon as it is complete"),
    **_rows("pty", Use.NOT_NEEDED, alone=True, reason="ddpkit shows the output of every rank"),
    "--gpus": Flag(Use.REFUSED, False, "ddpkit needs the GPUs of each node", "--gpus-per-node"),
    "--gpus-per-task": Flag(Use.REFUSED, False, "each rank must see all GPUs of its node", "--gpus-per-node"),
    "--error": Flag(Use.REFUSED, False, "the job has one output file"),
    "--export": Flag(Use.REFUSED, False, "ddpkit chooses the variables of a job", "--env"),
    "--nodefile": Flag(Use.REFUSED, False, "ddpkit passes no file of nodes", "--nodelist"),
    "--relative": Flag(
        Use.REFUSED, False, "srun's --relative is -o srun=--relative=N; torchrun's is --redirects", "--redirects"
    ),
    "--wrap": Flag(Use.REFUSED, False, "ddpkit writes the job script", "--"),
    **_rows("gpu ngpus", Use.MISTAKEN, instead="--gpus-per-node"),
    **_rows("cpu cpus ncpus", Use.MISTAKEN, instead="--cpus-per-task"),
    **_rows("walltime time-limit", Use.MISTAKEN, instead="--time"),
    **_rows("queue", Use.MISTAKEN, instead="--partition"),
    **_rows("memory", Use.MISTAKEN, instead="--mem"),
    **_rows("test-only", Use.MISTAKEN, alone=True, instead="--dry-run"),
    **_rows(_SRUN, Use.SRUN),
    **_rows(_SRUN_ALONE, Use.SRUN, alone=True),
}


def of_sbatch(*uses: Use) -> set[str]:
    """Return the flags of sbatch with one of these uses."""
    return {name for name, flag in SBATCH.items() if flag.use in uses}


def replacement(name: str, flag: str, text: str, nodes: int, ranks: int) -> list[str]:
    """Words of ddpkit for a refused flag of sbatch: the same GPUs on each node, the same variables, the same command.

    `nodes`, and `ranks` of each node, as far as the command line gives them.
    """
    if name in ("--gpus", "--gpus-per-task") and text.isdecimal():
        number = int(text) * ranks if name == "--gpus-per-task" else -(-int(text) // nodes)
        return [flag, str(number)]
    if name == "--wrap":
        return [flag, *text.split()]
    if name == "--error":
        return []  # ddpkit's default
    if name == "--export":  # all variables of this shell, or none: ddpkit's default as well
        variables = [each for each in text.split(",") if each and each.upper() not in ("ALL", "NONE", "NIL")]
        return [word for each in variables for word in (flag, each)]
    return [flag, text]


# ---- torchrun

_RENDEZVOUS = "ddpkit chooses address and port of the rendezvous"
_OUTPUT = "the output of each rank is shown, and saved in logs/RUN/rank_N.log"
_FILTER = "every line is shown; to filter them: `ddpkit logs`"
_SIGNALS = "SIGTERM, SIGHUP and Ctrl-C end the ranks; SIGUSR1 and SIGUSR2 reach them"
_ONE_RANK = "every rank is shown; for one rank: `ddpkit logs RUN --rank N`"
SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
NAMES_SCRIPT = ("-m", "--module", "--no-python")  # after these, the script needs no ending
TORCHRUN: Mapping[str, Flag] = {
    **_rows("module no-python standalone", Use.READ, alone=True),
    **_rows("max-restarts numa-binding master-port master-addr node-rank", Use.READ),
    **_rows("rdzv-backend rdzv-endpoint", Use.NOT_NEEDED, reason=_RENDEZVOUS),
    **_rows("rdzv-id", Use.NOT_NEEDED, reason="every run has its own id"),
    **_rows("rdzv-conf", Use.NOT_NEEDED, reason="the rendezvous of ddpkit has its own timeouts"),
    **_rows("monitor-interval", Use.NOT_NEEDED, reason="ddpkit detects the end of a rank immediately"),
    **_rows("start-method", Use.NOT_NEEDED, reason="every rank is a separate process"),
    **_rows("role", Use.NOT_NEEDED, reason="the verdict reports host and rank"),
    **_rows("local-addr", Use.NOT_NEEDED, reason="ddpkit chooses addresses at which the nodes reach each other"),
    **_rows("redirects tee logs-specs", Use.NOT_NEEDED, reason=_OUTPUT),
    **_rows("local-ranks-filter", Use.NOT_NEEDED, reason=_ONE_RANK),
    **_rows("duplicate-stdout-filters duplicate-stderr-filters", Use.NOT_NEEDED, reason=_FILTER),
    **_rows("event-log-handler", Use.NOT_NEEDED, reason="logs/RUN/run.json is the record of a run"),
    **_rows("signals-to-handle", Use.NOT_NEEDED, reason=_SIGNALS),
    **_rows("use-env", Use.NOT_NEEDED, alone=True, reason="LOCAL_RANK is in the environment of every rank"),
    **_rows("run-path", Use.NOT_NEEDED, alone=True, reason="the script runs unchanged"),
    "--shutdown-timeout": Flag(
        Use.REFUSED, False, "the time between SIGTERM and SIGKILL is --grace", "--grace SECONDS"
    ),
    "--virtual-local-rank": Flag(
        Use.REFUSED,
        True,
        "every rank keeps its own LOCAL_RANK",
        "a wrapper that sets CUDA_VISIBLE_DEVICES to LOCAL_RANK and LOCAL_RANK to 0",
    ),
}


def torchrun_name(name: str) -> str:
    """Return the long name of a flag of torchrun."""
    return SHORT.get(name, name)


Flags = Mapping[str, bool]  # the options of a command, and whether each takes the next word as its value
BACKEND = ("-b", "--backend")
NODES = ("-N", "--nnodes")
RANKS = ("-n", "--nproc-per-node")
_SAME = {"-N": "--nnodes", "-n": "--nproc-per-node", "-b": "--backend", "-o": "--option"}
_CHANGE = re.compile(r"(add|remove) (?!.*(?:, |;))((?:-|HOST).*)")


class Line:
    """The words of one command. `script`: everything after `--`, or None without `--`. `options`: of the command."""

    def __init__(self, words: Sequence[str], script: Sequence[str] | None, options: Flags | None = None) -> None:
        self.words, self.script = list(words), None if script is None else list(script)
        self.options: Flags = options or {}
        self.command = words[0] if words else ""
        self._late_backend = ""  # one that was typed after the script

    @property
    def argv(self) -> list[str]:
        return [*self.words, *self.tail]

    @property
    def tail(self) -> list[str]:
        return [] if self.script is None else ["--", *self.script]

    @property
    def takes_script(self) -> bool:
        """Tell whether the command takes a script, typed or not."""
        return self.command == "launch"

    # ---- the backend

    @cached_property
    def _first_tokens(self) -> list[Token]:
        """The tokens as far as they are known without the backend, enough to find it anywhere before the script."""
        return self._tokenize(lambda name, following: self._takes_value(name, following, {}, slurm=False))

    def typed(self, *names: str) -> str:
        """Return the last value of an option of ddpkit, whatever the backend is; empty: none."""
        return _value(self._first_tokens, *names)

    @property
    def typed_backend(self) -> str:
        return self._late_backend or self.typed(*BACKEND)

    def take_backend(self, name: str) -> None:
        """Take a backend that was typed after the script, unless one was typed before it."""
        if name and not self.typed_backend:
            self._late_backend = name
            for each in ("backend", "transport", "has_backend", "backend_options"):
                self.__dict__.pop(each, None)

    @cached_property
    def settings(self) -> LaunchSettings:
        """Settings of the environment and the files."""
        from ddpkit import config

        return config.collect_settings(config.current_folder(), os.environ, self.typed("--profile") or None, {})

    @cached_property
    def backend(self) -> Any:
        from ddpkit.launchers import registry

        return registry.load(self.typed_backend or self.settings.backend)

    @cached_property
    def transport(self) -> Any:
        from ddpkit.transports.choose import transport_class

        return transport_class(self.backend)

    @cached_property
    def has_backend(self) -> bool:
        """Tell whether the backend is known; the error comes when the settings are complete."""
        try:
            return self.transport is not None
        except UsageError:
            return False

    @property
    def slurm(self) -> bool:
        return self.has_backend and bool(self.transport.slurm)

    @property
    def takes_hosts(self) -> bool:
        """Tell whether hosts can follow; also true of a backend that is not known."""
        return not self.has_backend or bool(self.transport.names_nodes)

    @cached_property
    def backend_options(self) -> dict[str, Option]:
        """The options of the backend by name."""
        from ddpkit.launchers import registry

        return {each.name: each for each in registry.options(self.backend)} if self.has_backend else {}

    # ---- the tokens

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the words before `--`; the first one is the command."""
        return self._tokenize(self.takes_value)

    def _tokenize(self, takes_value: Any) -> list[Token]:
        from ddpkit.launchers.command_line import tokenize

        flags = NAMES_SCRIPT if self.takes_script and self.script is None else ()
        return tokenize(self.words, takes_value, lambda word: self.takes_script and is_script(word), flags)

    def takes_value(self, name: str, following: str) -> bool:
        return self._takes_value(name, following, self.backend_options, slurm=self.slurm)

    def _takes_value(self, name: str, following: str, known: Mapping[str, Option], *, slurm: bool) -> bool:
        """Tell whether an option has its value in the next word. Of one that nobody knows: if that can be a value."""
        may_be_value = bool(following) and not following.startswith("-")
        if slurm and name in BOTH and self.takes_script:
            return may_be_value and not is_script(following)
        long = LETTERS.get(name, name) if slurm else name
        key = long.removeprefix("--").replace("-", "_")
        option = known.get(key) or known.get(key.removeprefix("no_"))
        foreign = SBATCH.get(long) if slurm else None
        foreign = foreign or TORCHRUN.get(torchrun_name(name)) or SBATCH.get(LETTERS.get(name, name))
        if name in self.options:
            return self.options[name]
        if option is not None:
            return not option.alone
        if foreign is not None:
            return not foreign.alone
        if slurm and self.may_be_sbatch(name):
            from ddpkit.transports import slurm_nodes

            if may_be_value and slurm_nodes.known_to_sbatch(f"{name}={following}"):
                return True
            if slurm_nodes.known_to_sbatch(name):
                return False
        return may_be_value and not (following.endswith(".py") or name.startswith("--no-"))

    def may_be_sbatch(self, name: str, *, elsewhere: bool = False) -> bool:
        """Tell whether an option that ddpkit does not know can be sbatch's: on this machine, or `elsewhere` (--via).

        The beginning of a known name is a mistake, though sbatch would take it.
        """
        known = (*SBATCH, *self.options, *(f"--{key.replace('_', '-')}" for key in self.backend_options))
        unknown = self.takes_script and name[:2] == "--" and not any(each.startswith(name) for each in known)
        return unknown and bool(self.via) is elsewhere

    @property
    def via(self) -> str:
        """Return the login host; empty: this machine."""
        typed = [token.value or "" for token in self._first_tokens if token.name in ("-o", "--option")]
        option = next((each.removeprefix("via=") for each in reversed(typed) if each.startswith("via=")), "")
        return self.typed("--via") or option or str(self.settings.options.get("via") or "")

    @property
    def script_token(self) -> Token | None:
        """The first word of a script without `--`."""
        return next((token for token in self.tokens if token.is_script), None)

    @property
    def options_typed(self) -> Iterator[Token]:
        return (token for token in self.tokens if token.is_option)

    def value(self, *names: str) -> str:
        """Return the last value that one of these options has; empty: none."""
        return _value(self.tokens, *names)

    def option(self, key: str) -> str:
        """Return the value of an option of the backend, typed or of a file; empty: not given."""
        flag = f"--{key.replace('_', '-')}"
        letters = [letter for letter, name in LETTERS.items() if name == flag] if self.slurm else []
        values = []
        for token in self.options_typed:
            name, _, value = (token.value or "").partition("=")
            if token.name in ("-o", "--option") and name == key:
                values.append(value)
            elif token.name in (flag, *letters) and token.value is not None:
                values.append(token.value)
        return values[-1] if values else str(self.settings.options.get(key, ""))

    # ---- the same line with a correction

    def write(
        self,
        changes: Mapping[Token, Sequence[str]] | None = None,
        *,
        until: Token | None = None,
        add: Sequence[str] = (),
        script: Sequence[str] | None = None,
    ) -> str:
        """Return the whole command line with other words for some tokens, and `add` at the end of the options.

        `until`: without this token and what follows it. `script`: in place of the typed one.
        """
        words = list[str]()
        for token in self.tokens:
            if until is not None and token.at >= until.at:
                break
            words += token.words if changes is None else changes.get(token, token.words)
        tail = self.tail if script is None else ["--", *script]
        return command_line([*words, *add, *tail])

    def corrected(self, token: Token, *words: str) -> str:
        """Return the command line with other words for one token."""
        return self.write({token: words})

    def with_backend(self, *words: str) -> str:
        """Return the command line with another backend, and its hosts."""
        old = [token for token in self.options_typed if token.name in BACKEND]
        return self.write({**dict.fromkeys(old, ()), self.tokens[0]: (self.command, "-b", *words)})

    def whole_hint(self, hint: str) -> str:
        """Write a hint as the whole command line, to be copied; other hints as they are.

        `add -N 2` sets an option in it, `remove --spares 1` removes one, `ddpkit launch -- SCRIPT` has another script.
        """
        begin = self.script_token
        script = self.script if begin is None else self.words[begin.at :]
        other = re.fullmatch(r"ddpkit launch -- ([^;`]*)", hint)
        if other and self.takes_script:
            program = other[1].split(" ")[0]
            as_host = [token for token in self.tokens if not token.is_option and token.word == program]
            return self.write(dict.fromkeys(as_host, ()), until=begin, script=shlex.split(other[1]))
        change = _CHANGE.fullmatch(hint)
        if change is None:
            return hint
        changes: dict[Token, Sequence[str]] = {}
        added: list[str] = []
        for wanted in _with_values(shlex.split(change[2])):
            typed = self._find(wanted)
            if typed is not None:
                changes[typed] = wanted if change[1] == "add" else []
            elif change[1] == "add":
                added += wanted
            else:
                return hint  # a file or a variable sets it
        return self.write(changes, until=begin, add=added, script=script)

    def _find(self, wanted: Sequence[str]) -> Token | None:
        """Return the first token that gives an option; of `-o` and `--env`, the same key."""
        name, key = wanted[0], "".join(wanted[1:2]).partition("=")[0]
        for token in self.options_typed:
            if _SAME.get(token.name, token.name) != _SAME.get(name, name):
                continue
            if name not in ("-o", "--env") or (token.value or "").partition("=")[0] == key:
                return token
        return None


def is_script(word: str) -> bool:
    """Tell whether a word is no host: hosts have no slash, and no name of a Python file."""
    return word.endswith(".py") or "/" in word


def _value(tokens: Sequence[Token], *names: str) -> str:
    return next((token.value or "" for token in reversed(tokens) if token.name in names), "")


def _with_values(words: Sequence[str]) -> list[list[str]]:
    """Return options, each with its value if it has one."""
    options: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not options:
            options.append([word])
        else:
            options[-1].append(word)
    return options


def command_line(words: Sequence[str]) -> str:
    """Write the words of one command for a shell, without secrets."""
    from ddpkit.launchers.shell import hide_secrets, join

    first, *rest = words
    end = rest.index("--") if "--" in rest else len(rest)
    shown = [_public(word, before) for before, word in zip(words, rest[:end], strict=False)]
    return f"ddpkit {join([first, *shown, *hide_secrets(rest[end:])])}"


def _public(word: str, before: str) -> str:
    """Return the word; of `--env`, `NAME` in place of `NAME=VALUE` where the value is a secret by its name."""
    from ddpkit.launchers.shell import is_secret

    option, equals, inside = word.partition("=") if word.startswith("--env=") else ("", "", word)
    name, has_value, value = inside.partition("=")
    secret = (equals or before == "--env") and has_value and is_secret(name, value)
    return f"{option}{equals}{name}" if secret else word
