"""Settings of a launch, and the source of each: flag, DDPKIT_* variable, profile, file, default; the first wins.

`ddpkit.toml`, or `[tool.ddpkit]` in pyproject.toml, in this directory or above it (`find_file`):

    backend = "local"                      # every key here holds for all profiles
    script = ["train.py", "--epochs", "3"]

    [profiles.two]                         # ddpkit launch --profile two
    nproc_per_node = 2
    options = { starter = "torchrun" }
    env = { NCCL_DEBUG = "WARN" }

    [groups]                               # ddpkit launch -b ssh @gpus
    gpus = ["node[1-4]", "admin@big:2222"]

    [host.big]                             # settings of this node; its paths are the node's
    slots = 8
    python = "/opt/venv/bin/python"
    workdir = "/scratch/project"
    env = { NCCL_SOCKET_IFNAME = "ib0" }

Relative paths (`workdir`, `hostfile`, `log_dir`, a `python` with a slash) are relative to the directory of the file. A
`script` of a file above this directory runs in the directory of the file, unless a source gives `workdir`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, cast, get_args

from ddpkit.errors import MOST_NODES, MOST_PORT, MOST_RANKS, UsageError, nearest, similar
from ddpkit.files import read_trusted

FILE = "ddpkit.toml"
MOST_CODE = 255  # exit code of a process
DAY = 86400.0
PARTS = ("start", "steps", "stacks")  # of --observe: see `ddpkit/node/rank/rank_observe.py`
# Variables that ddpkit reads or sets beside those of the settings, and their meaning.
VARIABLES = {
    "DDPKIT_PROFILE": "the profile of ddpkit.toml, as --profile",
    "DDPKIT_GPUS": "the number of GPUs of this machine, for accelerators that ddpkit does not detect",
    "DDPKIT_DUMP": "0: ddpkit adds nothing to the ranks' Python, no faulthandler either; no stack dumps",
    "DDPKIT_DETECT_SLURM": "0: ranks ignore the variables of SLURM",
    "DDPKIT_INIT_TIMEOUT": "seconds for ddpkit.distributed.torch.init() to find all ranks",
    "DDPKIT_RUN": "the id of the run; ddpkit sets it in every rank",
    "DDPKIT_ATTEMPT": "the number of the attempt, from 1; ddpkit sets it in every rank of a run with --retries",
    "DDPKIT_PREVIOUS": "the end of the attempt before, such as node-lost or code-75; ddpkit sets it from the second on",
    **dict.fromkeys(
        ("DDPKIT_RANK", "DDPKIT_WORLD_SIZE", "DDPKIT_LOCAL_RANK", "DDPKIT_LOCAL_WORLD_SIZE", "DDPKIT_NODE_RANK"),
        "the place of a rank that is started by hand, for ddpkit.distributed.torch.init()",
    ),
    "DDPKIT_ROLE": "the role of a process; ddpkit sets it in every rank of a run of roles",
    "DDPKIT_REPLICA": "the number of its replica, from 0",
    "DDPKIT_PORT": "the port that ddpkit chose for a program that listens",
    "DDPKIT_CPUS": "the part of its node's CPUs that a replica has, by their places: 0-7, or 8- for the rest",
    **dict.fromkeys(("DDPKIT_MASTER_ADDR", "DDPKIT_MASTER_PORT"), "the address of rank 0, for such a rank"),
    **dict.fromkeys(
        (
            "DDPKIT_CALL",
            "DDPKIT_COLD",
            "DDPKIT_COMMAND",
            "DDPKIT_COMPLETE",
            "DDPKIT_DETACHED",
            "DDPKIT_HOLDER",
            "DDPKIT_HOOK",
            "DDPKIT_INSIDE",
            "DDPKIT_JOB_HOOK",
            "DDPKIT_PRELOAD",
            "DDPKIT_TAP",
            "DDPKIT_TAP_ONCE",
        ),
        "internal: ddpkit sets it in processes that it starts",
    ),
}
ROLE_ADDRESS = "DDPKIT_ROLE_"  # front of the variables with the addresses of roles
_FILE_ONLY = ("profile", "profiles", "groups", "host", "roles")
_VARIABLES = "DDPKIT_"  # the first letters of the variables that have settings
_EXCLUSIVE = ({"hosts", "hostfile", "options.nodelist"},)  # several ways to say the same: the later source wins
_TABLES = {"options": "-o KEY=VALUE", "env": "--env NAME=VALUE"}  # settings without a variable, and their flags
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_T = TypeVar("_T")


class Label(NamedTuple):
    """Names a value in error messages."""

    name: str
    place: str = ""  # a file, a profile, a variable; empty for a flag or a keyword
    flag: str = ""

    @property
    def key(self) -> str:
        return f"{self.place}: {self.name}" if self.place else self.name

    @property
    def prefix(self) -> str:
        """The text before the value."""
        return f"{self.flag} " if self.flag else f"{self.key} = "


LEAST_LOG_LIMIT = 1 << 20  # bytes


class _WrongTypeError(Exception):
    """The value has another type than the setting accepts."""


# ---- parsers: one value from text, TOML or Python, in the type of its setting


def _parse_text(value: object, label: Label) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not (text or not label.place):
        raise _WrongTypeError
    return text


def _parse_bool(value: object, _label: Label) -> bool:
    if str(value).lower() not in ("true", "false", "1", "0"):
        raise _WrongTypeError
    return str(value).lower() in ("true", "1")


def _parse_seconds(value: object, label: Label) -> float:
    return seconds(value, label.prefix)


def _parse_log_limit(value: object, _label: Label) -> int:
    """Parse a size: 0, 500M, 20G, or bytes as a number."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(i?B)?", str(value).strip(), re.IGNORECASE)
    size = int(match[1]) << (10 * " KMGT".index(match[2].upper() or " ")) if match else -1
    if isinstance(value, bool) or 0 < size < LEAST_LOG_LIMIT or size < 0:
        raise _WrongTypeError
    return size


def _parse_nproc(value: object, label: Label) -> int | tuple[int, ...] | Literal["auto"]:
    """Parse the ranks of every node, or of each one in order: 8, [4, 8], or the text 4,8."""
    if value == "auto":
        return "auto"
    words = value if isinstance(value, list | tuple) else str(value).split(",")
    hint = "add -n auto" if label.flag else None
    numbers = tuple(whole(word, label.prefix, MOST_RANKS, hint=hint) for word in words)
    if not numbers:
        raise _WrongTypeError
    return numbers[0] if len(numbers) == 1 else numbers


def _parse_nnodes(value: object, label: Label) -> int | tuple[int, int] | None:
    """Parse the number of nodes, or MIN:MAX, also as a pair, for a run that continues while MIN of them are left."""
    text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
    least, colon, most = text.partition(":")
    hint = "add -N 1" if label.flag else None
    of_sbatch = re.fullmatch(r"(\d+)-(\d+)", least)
    if of_sbatch and label.flag:
        hint = f"add -N {of_sbatch[1]}:{of_sbatch[2]}"
    if not colon:
        return whole(least, label.prefix, MOST_NODES, hint=hint)
    pair = (whole(least, label.prefix, MOST_NODES, hint=hint), whole(most, label.prefix, MOST_NODES, hint=hint))
    if pair[0] > pair[1]:
        raise UsageError(f"{label.prefix}{least}:{most}: the smaller number must come first", f"-N {most}:{least}")
    return pair


def _parse_number(value: object, label: Label) -> int:
    return 0 if str(value) == "0" else whole(value, label.prefix, MOST_NODES)


def _parse_codes(value: object, label: Label) -> tuple[int, ...]:
    """Parse exit codes: 75, [75, 42], or the text 75,42; an empty text: none."""
    words = value if isinstance(value, list | tuple) else str(value).replace(",", " ").split()
    return tuple(whole(word, label.prefix, MOST_CODE) for word in words)


def _parse_hang_action(value: object, label: Label) -> Literal["warn", "end"]:
    if value == "warn":
        return "warn"
    if value == "end":
        return "end"
    raise UsageError(f"{label.prefix}{value}: must be warn or end")


def _parse_slow_action(value: object, label: Label) -> Literal["", "note", "spare"]:
    if value in ("", "note", "spare"):
        return value
    raise UsageError(f"{label.prefix}{value}: must be note or spare")


def _parse_observe(value: object, label: Label) -> tuple[str, ...]:
    """Parse parts: ["start", "steps"], or the text start,steps; all is each of them, an empty text none."""
    words = value if isinstance(value, list | tuple) else str(value).replace(",", " ").split()
    for word in words:
        if word not in (*PARTS, "all"):
            meant = similar(str(word), [*PARTS, "all"])
            hint = f"add --observe {meant or 'all'}" if label.flag else None
            raise UsageError(f"{label.prefix}{word}: the parts are {', '.join(PARTS)} and all", hint)
    return tuple(part for part in PARTS if part in words or "all" in words)


def _parse_sync(value: object, label: Label) -> bool | Literal["overwrite"]:
    return "overwrite" if value == "overwrite" else _parse_bool(value, label)


def _parse_script(value: object, label: Label) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            what = f"{label.place or label.name}: {value}: {error}"
            raise UsageError(what, "quote it as on a command line") from None
    words = _parse_words(value, label)
    if not words:
        raise _WrongTypeError
    return tuple(_without_nul(word, label.key) for word in words)


def _parse_words(value: object, _label: Label) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(entry, str) for entry in value):
        raise _WrongTypeError
    return tuple(value)


def _parse_options(value: object, _label: Label) -> Mapping[str, object]:
    return dict(_parse_table(value))


def _parse_env(value: object, label: Label) -> Mapping[str, str]:
    table = _parse_table(value)
    if not all(isinstance(entry, str | int | float) for entry in table.values()):
        raise _WrongTypeError
    return {
        key: _without_nul(str(entry), f"{label.place}: env.{key}" if label.place else f"env.{key}")
        for key, entry in table.items()
        if check_env_name(key)
    }


def _parse_table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _WrongTypeError
    return value


def _without_nul(text: str, label: str) -> str:
    if "\0" in text:
        raise UsageError(f"{label}: a NUL character, which no program can be given")
    return text


def whole(value: object, label: str, most: int | None = None, *, hint: str | None = None) -> int:
    """Parse an integer from 1 to `most`. `label` precedes the value in the error."""
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{label}{value} is not an integer", hint) from None
    if number < 1:
        raise UsageError(f"{label}{value}: must be at least 1", hint)
    if most is not None and number > most:
        raise UsageError(f"{label}{value}: must be at most {most}", hint)
    return number


def seconds(value: object, label: str) -> float:
    """Parse a number of seconds, from 0 to a day. `label` precedes the value in the error."""
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError):
        raise UsageError(f"{label}{value} is not a number of seconds") from None
    if not 0 <= number <= DAY:
        raise UsageError(f"{label}{value}: must be from 0 to {DAY:.0f} seconds (a day)")
    return number


def parse_duration(text: str) -> float | None:
    """Read 90, 90s, 10m, 2h or 1d as seconds; None for another text."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", text)
    return float(match[1]) * {"m": 60, "h": 3600, "d": 86400}.get(match[2], 1) if match else None


def inherit_variable(name: str, environ: Mapping[str, str]) -> str:
    """Return the value that a variable has here, to pass it on. Raises UsageError."""
    check_env_name(name)
    if name not in environ:
        raise UsageError(f"--env {name}: {name} is not set in this environment", f"--env {name}=VALUE")
    return environ[name]


def current_folder() -> Path:
    """Return the current directory. Raises UsageError."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory was deleted", "cd to a directory that exists") from None


def check_env_name(name: str) -> bool:
    """Accept a name that every shell and every program accepts as a variable's. Raises UsageError."""
    if not _ENV_NAME.fullmatch(str(name)):  # a program may give a number
        raise UsageError(f"{name!r} is not the name of an environment variable", "letters, digits and underscores")
    return True


# ---- the settings


class Setting(NamedTuple):
    """One row of the table of settings, from a field of LaunchSettings."""

    parse: Callable[[object, Label], object]
    accepts: str  # for the hint of an error
    help: str  # of its flag, and of the reference
    flag: str  # its spellings and its placeholder, such as `-n --nproc-per-node N`; empty: only a file has it
    is_path: bool = False  # in a file relative to its directory

    @property
    def spellings(self) -> list[str]:
        return [word for word in self.flag.split() if word.startswith("-")]

    @property
    def placeholder(self) -> str:
        return "".join(word for word in self.flag.split() if not word.startswith("-"))


def _setting(
    default: _T,
    parse: Callable[[object, Label], _T],
    accepts: str,
    flag: str,
    text: str,
    *,
    is_path: bool = False,
) -> _T:
    """Make a field of LaunchSettings with its parser. mypy compares the types of field, default and parser."""
    metadata = {"setting": Setting(parse, accepts, text, flag, is_path)}
    made: _T = field(default_factory=lambda: copy(default), metadata=metadata)
    return made


@dataclass(frozen=True, kw_only=True)
class HostSettings:
    """The settings of one node: `[host.NAME]`."""

    user: str = ""
    port: int | None = None
    slots: int | None = None  # ranks; None: as many as on every node
    python: str = ""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """A replica of a role: its run is a part of another one."""

    run_id: str
    wants_port: bool  # its program listens
    port: int | None = None  # that was found for it, or that it had before
    gpus: range | None = None  # of each of its nodes; None: all
    cpus: range | None = None  # the same, by their places among those that it could use
    ready: str = ""  # when it is ready, as in `[roles.NAME]`
    ready_timeout: float = 0.0


Caller = Literal["flag", "keyword"]  # the sources that win over all others
SourcedName = Literal[
    "backend",
    "bad_nodes",
    "hang_action",
    "hosts",
    "hostfile",
    "nnodes",
    "nproc_per_node",
    "on_attempt",
    "on_end",
    "python",
    "roles",
    "script",
    "slow_action",
    "workdir",
]  # their source decides something


@dataclass(frozen=True, kw_only=True)
class LaunchSettings:
    """All settings of one launch. Times are in seconds."""

    backend: str = _setting(
        "local",
        _parse_text,
        'the name of a backend: backend = "local"',
        "--backend -b NAME",
        "local, ssh, slurm, ...: see `ddpkit backends`.",
    )
    hosts: tuple[str, ...] = _setting(
        (),
        _parse_words,
        'a list of host names: hosts = ["node1", "node2"]',
        "HOST",
        "The nodes: names, patterns such as node[1-4], and groups such as @gpus.",
    )
    hostfile: str = _setting(
        "",
        _parse_text,
        'a file with one host a line: hostfile = "hosts.txt"',
        "--hostfile FILE",
        "Nodes, one per line: `node1 slots=4`.",
        is_path=True,
    )
    nproc_per_node: int | tuple[int, ...] | Literal["auto"] = _setting(
        "auto",
        _parse_nproc,
        'an integer, a list with one for each node, or "auto"',
        "-n --nproc-per-node N",
        "Ranks per node, or 4,8,8. [default: its GPUs, or 1]",
    )
    nnodes: int | tuple[int, int] | None = _setting(
        None, _parse_nnodes, "an integer, or MIN:MAX", "-N --nnodes N|MIN:MAX", "Number of nodes."
    )
    script: tuple[str, ...] = _setting(
        ("train.py",),
        _parse_script,
        'text, or a list of words: script = ["train.py", "--epochs", "3"]',
        "SCRIPT",
        "The script or program of every rank, and its arguments.",
    )
    workdir: str = _setting(
        ".",
        _parse_text,
        'a directory: workdir = "/data/project"',
        "--workdir DIR",
        "Working directory of the ranks. [default: this one]",
        is_path=True,
    )
    python: str = _setting(
        sys.executable,
        _parse_text,
        'an interpreter: python = "/opt/venv/bin/python"',
        "--python PATH",
        "Python of the ranks. [default: ddpkit's own]",
        is_path=True,
    )
    grace: float = _setting(
        15.0, _parse_seconds, "seconds, 0 or more", "--grace SECONDS", "Time from SIGTERM to SIGKILL. [default: 15]"
    )
    log_dir: str = _setting(
        "logs",
        _parse_text,
        'a directory: log_dir = "logs"',
        "--log-dir DIR",
        "Directory of the logs. [default: logs]",
        is_path=True,
    )
    log_limit: int = _setting(
        0,
        _parse_log_limit,
        'a size of at least 1M, as text: log_limit = "20G"; 0: no limit',
        "",
        "Size of all logs of a run at which the oldest lines give way.",
    )
    all_log: bool = _setting(
        False, _parse_bool, "true or false", "", "Write the lines of all ranks also into one file, all.log."
    )
    preflight: bool = _setting(
        True, _parse_bool, "true or false", "--no-preflight", "Continue although the nodes differ."
    )
    hold: bool = _setting(True, _parse_bool, "true or false", "--no-hold", "Do not use the hold of this project.")
    hang_timeout: float = _setting(
        0.0,
        _parse_seconds,
        "seconds; 0: off",
        "--hang-timeout SECONDS",
        "Report ranks without progress. [default: 0 = never]",
    )
    hang_action: Literal["warn", "end"] = _setting(
        "warn", _parse_hang_action, '"warn" or "end"', "", "After hang_timeout, warn only, or end the run."
    )
    slow_action: Literal["", "note", "spare"] = _setting(
        "",
        _parse_slow_action,
        '"note" or "spare"; "": none',
        "--slow-action ACTION",
        "Look for slow ranks too: note them, or spare: replace their node.",
    )
    observe: tuple[str, ...] = _setting(
        (),
        _parse_observe,
        'a list of parts: observe = ["start", "steps", "stacks"]',
        "--observe PART,...",
        "Change the ranks' Python: start, steps, stacks, all.",
    )
    retries: int = _setting(
        0,
        _parse_number,
        "an integer; 0: the first failure ends the run",
        "--retries N",
        "Start the ranks again at most N times. [default: 0]",
    )
    spares: int = _setting(
        0,
        _parse_number,
        "an integer: the last hosts that are spare",
        "--spares K",
        "Keep the last K hosts as spare ones. [default: 0]",
    )
    progress: str = _setting(
        "",
        _parse_text,
        'a file or a pattern: progress = "checkpoints/*.pt"',
        "",
        "Files that are newer when the run makes progress. Default: the steps in its metrics.",
    )
    retry_codes: tuple[int, ...] = _setting(
        (75,), _parse_codes, "a list of exit codes: retry_codes = [75]", "", "Restart the ranks after these exit codes."
    )
    stop_codes: tuple[int, ...] = _setting(
        (93,),
        _parse_codes,
        "a list of exit codes: stop_codes = [93]",
        "",
        "Never restart the ranks after these exit codes.",
    )
    sync: bool | Literal["overwrite"] = _setting(
        False,
        _parse_sync,
        'true, false or "overwrite"',
        "--sync [=overwrite]",
        "First copy this directory to the nodes with rsync.",
    )
    header: bool = _setting(True, _parse_bool, "true or false", "", "Show status lines at the bottom of a terminal.")
    fold: float = _setting(
        0.2, _parse_seconds, "seconds; 0: off", "", "Merge identical lines within these seconds. 0: off."
    )
    metrics: str = _setting(
        "",
        _parse_text,
        'a file: metrics = "checkpoints/metrics.jsonl"',
        "",
        "Read the run's steps from this file. Default: its metrics.jsonl.",
    )
    on_end: str = _setting(
        "",
        _parse_text,
        'a shell command: on_end = "./notify.sh"',
        "",
        "Run this command on the launcher's host at the end, with the record as JSON input.",
    )
    on_attempt: str = _setting(
        "",
        _parse_text,
        'a shell command: on_attempt = "./notify.sh"',
        "",
        "Run this command before another attempt, as on_end.",
    )
    name: str = _setting(
        "", _parse_text, 'a name: name = "baseline"', "--name NAME", "Name of the run and its job. [default: SCRIPT]"
    )
    bad_nodes: str = _setting(
        "",
        _parse_text,
        'a file: bad_nodes = "/shared/bad_nodes.json"',
        "",
        "Avoid, and add, the nodes of this file: see `ddpkit nodes`.",
        is_path=True,
    )
    allow_nested: bool = _setting(
        False, _parse_bool, "true or false", "", "Start a script that is a launcher itself, such as torchrun."
    )
    options: Mapping[str, object] = _setting(
        {},
        _parse_options,
        'a table: options = { starter = "torchrun" }',
        "-o --option KEY=VALUE",
        "An option of the backend; also `--key VALUE`.",
    )
    env: Mapping[str, str] = _setting(
        {},
        _parse_env,
        'a table of text: env = { NCCL_DEBUG = "WARN" }',
        "--env K[=V]",
        "Set a variable for every rank, or pass it on.",
    )
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # hosts by the name of their group
    host: Mapping[str, HostSettings] = field(default_factory=dict)  # by name
    sources: Mapping[str, str] = field(default_factory=dict)  # by name, `options.KEY`, `env.KEY`; missing: default
    inherited: frozenset[str] = frozenset()  # variables with a value of this environment: they are secret
    file: str = ""  # the absolute path of the file that was read; empty: none
    roles: Mapping[str, object] = field(default_factory=dict)  # their tables, as they stand in the file
    roles_from: str = ""  # who gave them, in place of the file
    replica: Replica | None = None  # of a role, which these settings are for
    function: bytes = field(default=b"", repr=False)  # of `ddpkit.call`, pickled
    stdin: int | None = None  # the rank that reads the launcher's standard input
    held: str = ""  # the id of the hold that the launch uses; empty: none
    in_job: str = ""  # the id of the job of SLURM whose nodes its steps reach; empty: they are reached otherwise

    @property
    def has_roles(self) -> bool:
        """Whether the launch is one of roles: the caller's, or those of the file where no later source has a script.

        Raises UsageError for a caller who gave both.
        """
        if self.is_given("script") and self.roles_from:
            raise UsageError("a script and roles exclude each other", "give the script as the command of a role")
        return bool(self.roles_from) or (bool(self.roles) and not self.outranks("script", "roles"))

    def source(self, name: SourcedName) -> str:
        """Name the source of a setting: `flag`, `DDPKIT_HOSTS`, `profile big (ddpkit.toml)`, `default`."""
        return self.sources.get(name, "default")

    def is_given(self, name: SourcedName) -> bool:
        """Tell whether the caller gave this setting, as a flag or as a keyword."""
        return self.source(name) in get_args(Caller)

    def outranks(self, name: SourcedName, other: SourcedName) -> bool:
        """Tell whether a setting comes from a later source than another one. All variables are one source."""
        sources = [_layer(each) for each in ("default", *self.sources.values())]
        return sources.index(_layer(self.source(name))) > sources.index(_layer(self.source(other)))

    def is_option_given(self, name: str) -> bool:
        """Tell whether the caller gave this option of the backend."""
        return self.sources.get(f"options.{name}") in get_args(Caller)

    def directory_of(self, name: SourcedName) -> str:
        """The directory to which relative paths in a setting are relative: that of its file, else the current one."""
        source = self.source(name)
        is_of_file = source not in (*get_args(Caller), "default") and not source.startswith("DDPKIT_")
        return str(Path(self.file).parent if is_of_file else Path.cwd())

    def rows(self) -> list[tuple[str, object, str]]:
        """List (name, value as JSON, source) of every setting, for people. None: not set."""
        rows: list[tuple[str, object, str]] = []
        for name in SETTINGS:
            value = getattr(self, name)
            if isinstance(value, dict):
                rows += [(f"{name}.{key}", value[key], self.sources[f"{name}.{key}"]) for key in value]
            elif isinstance(value, tuple):
                shown = list(value) if name != "nnodes" else ":".join(map(str, value))
                rows.append((name, shown or None, self.sources.get(name, "default")))
            else:
                rows.append((name, None if value == "" else value, self.sources.get(name, "default")))
        return rows


SETTINGS: Mapping[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(LaunchSettings) if "setting" in each.metadata
}


class LaunchKeywords(TypedDict, total=False):
    """The settings that a caller may give beside the script, as values or as text. None: not given."""

    backend: str | None
    hosts: Sequence[str] | None
    hostfile: str | os.PathLike[str] | None
    nproc_per_node: int | str | Sequence[int] | None
    nnodes: int | str | tuple[int, int] | None
    workdir: str | os.PathLike[str] | None
    python: str | os.PathLike[str] | None
    grace: float | str | None
    log_dir: str | os.PathLike[str] | None
    log_limit: int | str | None
    all_log: bool | None
    preflight: bool | None
    hold: bool | None
    hang_timeout: float | str | None
    hang_action: str | None
    slow_action: str | None
    observe: Sequence[str] | str | None
    retries: int | str | None
    spares: int | str | None
    progress: str | os.PathLike[str] | None
    retry_codes: Sequence[int] | str | None
    stop_codes: Sequence[int] | str | None
    sync: bool | str | None
    header: bool | None
    fold: float | str | None
    metrics: str | os.PathLike[str] | None
    on_end: str | None
    on_attempt: str | None
    name: str | None
    bad_nodes: str | os.PathLike[str] | None
    allow_nested: bool | None
    options: Mapping[str, object] | None
    env: Mapping[str, str | None] | None


class Keywords(LaunchKeywords, total=False):
    """All settings that a caller may give."""

    script: Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """The checked content of `ddpkit.toml`, or of `[tool.ddpkit]`. Its values have the types of LaunchSettings."""

    name: str = ""  # relative to the current directory; empty: there is no file
    path: Path | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    host: Mapping[str, HostSettings] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    profile: str | None = None  # the name of the usual profile
    roles: Mapping[str, object] = field(default_factory=dict)  # see `ddpkit.roles.spec`


def collect_settings(
    folder: Path,
    environ: Mapping[str, str],
    profile: str | None,
    keywords: Keywords,
    *,
    source: Caller = "flag",
    roles: str | None = None,
) -> LaunchSettings:
    """Combine all sources. `keywords` win; errors about them name flags where `source` is `flag`. Raises UsageError.

    `roles`: another file, with roles and perhaps settings, which win over those of `ddpkit.toml`.
    """
    file = read_file(folder)
    layers = [(file.values, file.name)]  # values and their source; the last layer wins
    chosen = profile or environ.get("DDPKIT_PROFILE") or file.profile
    if chosen is not None:
        layers.append((_profile(file, chosen), f"profile {chosen} ({file.name})"))
    words = dict(cast("Mapping[str, object]", keywords))
    typed, inherited = words.get("env"), frozenset[str]()
    if isinstance(typed, Mapping):
        inherited = frozenset(name for name, value in typed.items() if check_env_name(name) and value is None)
        words["env"] = {
            name: inherit_variable(name, environ) if value is None else value for name, value in typed.items()
        }
    given = {
        name: _parse(name, words[name], "", flags=source == "flag") for name in SETTINGS if words.get(name) is not None
    }
    if roles is not None:
        more = _read_roles(folder / roles, folder)
        layers.append((more.values, more.name))
        file = replace(more, groups={**file.groups, **more.groups}, host={**file.host, **more.host})
    file_has_program = file.roles or any("script" in layer for layer, _ in layers)
    if file_has_program and file.path and file.path.parent != folder:  # it runs beside its file
        layers.insert(0, ({"workdir": str(file.path.parent)}, f"directory of {file.name}"))
    layers.append((_read_variables(environ), _VARIABLES))
    layers.append((given, source))
    values, sources = _merged(layers)
    if file.roles:
        sources = {"roles": file.name, **sources} if roles is None else {**sources, "roles": source}
    path = str(file.path) if file.path else ""
    return LaunchSettings(
        **values,
        groups=file.groups,
        host=file.host,
        sources=sources,
        inherited=inherited,
        file=path,
        roles=file.roles,
    )


def _read_variables(environ: Mapping[str, str]) -> dict[str, object]:
    """Return the settings that `DDPKIT_*` variables have. Raises UsageError."""
    values: dict[str, object] = {}
    for name in SETTINGS:
        variable = _variable(name)
        if variable in environ and name not in _TABLES:
            text = environ[variable]
            value = [word for word in re.split(r"[\s,]+", text) if word] if name == "hosts" else text
            values[name] = _parse(name, value, variable)
    return values


def _merged(layers: Iterable[tuple[Mapping[str, object], str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of all layers, of which the last wins, and the source of each, in the order of the layers."""
    values: dict[str, Any] = {}  # each comes from the parser of its own field
    sources: dict[str, str] = {}
    for layer, origin in layers:
        for name in _excluded(layer):  # `hosts`, or `options.nodelist`
            table, _, key = name.rpartition(".")
            among = values.get(table, {}) if table else values
            among.pop(key, None)
            sources.pop(name, None)
        for name, parsed in layer.items():
            if isinstance(parsed, dict):  # merged key by key
                values[name] = {**values.get(name, {}), **parsed}
                for key in parsed:
                    sources = _sourced(sources, f"{name}.{key}", origin)
            else:
                values[name] = parsed
                sources = _sourced(sources, name, _variable(name) if origin == _VARIABLES else origin)
    return values, sources


def _excluded(layer: Mapping[str, object]) -> set[str]:
    """Return the settings of earlier layers that say the same as one of this layer in another way: `_EXCLUSIVE`."""
    names = {name for name, value in layer.items() if value}
    for table in _TABLES:
        keys = layer.get(table)
        names |= {f"{table}.{key}" for key, value in keys.items() if value} if isinstance(keys, dict) else set()
    return {other for each in _EXCLUSIVE if each & names for other in each - names}


def _sourced(sources: Mapping[str, str], name: str, origin: str) -> dict[str, str]:
    """Return sources with that of one setting, as the last."""
    return {**{each: source for each, source in sources.items() if each != name}, name: origin}


def _layer(source: str) -> str:
    return _VARIABLES if source.startswith(_VARIABLES) else source


def overlaid(settings: LaunchSettings, given: Mapping[str, object], place: str) -> LaunchSettings:
    """Return settings with other values for some of them, which come from `place`. Raises UsageError."""
    changes: dict[str, Any] = {}
    sources = dict(settings.sources)
    for name, value in given.items():
        parsed = _parse(name, value, place)
        if isinstance(parsed, dict):
            parsed = {**getattr(settings, name), **parsed}
            sources |= {f"{name}.{key}": place for key in parsed}
        sources[name] = place
        changes[name] = parsed
    return replace(settings, **changes, sources=sources)


# Sources of the ranks' Python where nobody chose it.
AUTOMATIC = ("default", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH")


def choose_python(settings: LaunchSettings, environ: Mapping[str, str]) -> LaunchSettings:
    """Choose the default Python of the ranks: ddpkit's own if it has torch, else that of the project."""
    if settings.source("python") != "default":
        return settings
    python, source = find_python(sys.executable, environ, _has_torch)
    if source == "default":
        return settings
    return replace(settings, python=python, sources={**settings.sources, "python": source})


def find_python(own: str, environ: Mapping[str, str], has_torch: Callable[[str], bool]) -> tuple[str, str]:
    """Find a Python with torch, and name its source. ddpkit's own has none where pipx or `uv tool` installed it."""
    if has_torch(own):
        return own, "default"
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        path = Path(environ.get(variable) or os.devnull, "bin", "python")
        if path.is_file():
            return str(path), variable
    for name in ("python3", "python"):
        on_path = shutil.which(name, path=environ.get("PATH"))
        if on_path and has_torch(on_path):
            return on_path, "PATH"
    return own, "default"


def _has_torch(python: str) -> bool:
    """Tell whether a Python has torch, without importing it."""
    if python == sys.executable:
        try:
            return importlib.util.find_spec("torch") is not None
        except (ImportError, ValueError):  # of a finder that the site has added
            return False
    code = "import importlib.util; raise SystemExit(importlib.util.find_spec('torch') is None)"
    argv = [str(Path(python).absolute()), "-c", code]
    try:
        # Python imports from its working directory first, and others may write in this one.
        return subprocess.run(argv, cwd="/", capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _profile(file: SettingsFile, chosen: str) -> Mapping[str, object]:
    """Return the settings of a profile. Raises UsageError, with the profiles that there are."""
    if chosen in file.profiles:
        return file.profiles[chosen]
    if not file.name:
        raise UsageError(f"profile {chosen!r} not found: this project has no {FILE}", "ddpkit init")
    if meant := similar(chosen, file.profiles):
        hint = f"add --profile {meant}"
    elif file.profiles:
        hint = f"its profiles are {', '.join(sorted(file.profiles))}"
    else:
        hint = f"define it in {file.name}, as a table [profiles.{chosen}]"
    raise UsageError(f"profile {chosen!r} not found in {file.name}", hint)


def _parse(name: str, value: object, place: str, *, flags: bool = False) -> object:
    """Parse one value, or raise a UsageError that names the setting and its place."""
    setting = SETTINGS[name]
    flag = next(iter(setting.spellings), f"--{name}") if flags and setting.flag else ""
    label = Label(name, place, flag)
    try:
        return setting.parse(value, label)
    except _WrongTypeError:
        shown = "..." if name == "env" else repr(value)  # an environment may hold secrets
        raise UsageError(f"{label.prefix}{shown} is not valid", setting.accepts) from None
    except UsageError as error:
        if error.hint is None:
            raise UsageError(error.message, setting.accepts) from None
        raise


def _variable(name: str) -> str:
    return _VARIABLES + name.upper()


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable DDPKIT_* that ddpkit neither reads nor sets: mistyped, it has no effect."""
    settings = {_variable(name): name for name in SETTINGS if name not in _TABLES}
    known = {*settings, *VARIABLES}
    names = [
        each
        for each in environ
        if each.startswith("DDPKIT_") and each not in known and not each.startswith(ROLE_ADDRESS)
    ]
    return [f"{name} has no effect: {_meant(name, (*settings, *VARIABLES))}" for name in sorted(names)]


def _meant(variable: str, known: Sequence[str]) -> str:
    """Return what was probably meant by a variable that ddpkit does not know."""
    for name, flag in _TABLES.items():
        if variable == _variable(name):
            return f"{name} has no variable; use {flag}"
    prefix = len("DDPKIT_")
    meant = _similar(variable[prefix:], [name[prefix:] for name in known])
    return (meant or "ddpkit launch --explain lists the settings").replace("mean '", "mean 'DDPKIT_")


def _similar(word: str, known: Iterable[str]) -> str | None:
    """`did you mean ...?`, also for the beginning of a name and its plural: `nprocs` is `nproc_per_node`."""
    names = list(known)
    longer = [name for name in names if name.startswith(re.sub("[sS]$", "", word))]
    return f"did you mean {longer[0]!r}?" if longer else nearest(word, names)


# ---- the file


class _Text(NamedTuple):
    """The text of a file of settings, for the places of its errors."""

    name: str
    lines: Sequence[str]
    above: tuple[str, ...]  # `tool`, `ddpkit` in pyproject.toml

    def place(self, *keys: str) -> str:
        """`ddpkit.toml:7`, the line of a key or of a table; `ddpkit.toml` where it is not found."""
        wanted, table = (*self.above, *keys), tuple[str, ...]()
        for number, line in enumerate(self.lines, 1):
            header = re.match(r"\s*\[+([^\[\]]+)\]", line)
            name = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
            if header:
                table = _dotted(header[1])
            if (header and table[: len(wanted)] == wanted) or (name and (*table, *_dotted(name[1])) == wanted):
                return f"{self.name}:{number}"
        return self.place(*keys[:-1]) if keys else self.name


def _dotted(words: str) -> tuple[str, ...]:
    return tuple(word.strip(" \t\"'") for word in words.split("."))


def find_file(folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the places of settings: a path, and the table in it. This directory is first, then its parents.

    The last is the directory of the repository (`.git`), or the one below the home directory. A parent in which every
    user may write, such as /tmp, ends the search: its file may be another user's.
    """
    # Its real path, as `Path.cwd` has it. Path.home() fails without a home directory.
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    for directory in (folder, *folder.parents):
        is_outside = os.path.realpath(directory) in (home, "/") or not os.access(directory, os.X_OK)
        if directory != folder and (is_outside or directory.stat().st_mode & 0o002):
            return
        yield directory / FILE, ()
        yield directory / "pyproject.toml", ("tool", "ddpkit")
        if (directory / ".git").exists():
            return


def read_file(folder: Path) -> SettingsFile:
    """Read `ddpkit.toml`, or the table of pyproject.toml, here or above (`find_file`). Raises UsageError."""
    for path, keys in find_file(folder):
        try:
            content, untrusted = _read_text(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if untrusted and not keys:
            raise UsageError(*untrusted)
        text = _Text(os.path.relpath(path, folder), content.splitlines(), keys)
        try:
            table = _parse_toml(text, content)
        except UsageError:
            if untrusted:  # a stranger's pyproject.toml, perhaps without our table
                continue
            raise
        for key in keys:
            inner = table.get(key, {})
            if not isinstance(inner, dict):
                raise UsageError(f"{text.name}: {key} = {inner!r} is not a table", "[tool.ddpkit]")
            table = inner
        if table and untrusted:
            raise UsageError(*untrusted)
        if table or not keys:
            return _check_file(table, text, path, folder)
    return SettingsFile()


def _read_roles(path: Path, folder: Path) -> SettingsFile:
    """Read the file of --roles. Raises UsageError."""
    try:
        content, untrusted = _read_text(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(f"--roles {path}: {error.strerror}", f"ls -l {shlex.quote(str(path.parent))}") from None
    if untrusted:
        raise UsageError(*untrusted)
    text = _Text(os.path.relpath(path, folder), content.splitlines(), ())
    table = _parse_toml(text, content)
    if "roles" not in table:
        raise UsageError(f"--roles {text.name}: it has no roles", '[roles.train]: command = "train.py"')
    return _check_file(table, text, path, folder)


def _read_text(path: Path) -> tuple[str, tuple[str, str] | None]:
    """Return the text of a file, and why it is not trusted. Raises UsageError, or OSError where there is none."""
    try:
        return read_trusted(path)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot read {path}: {getattr(error, 'strerror', '') or error}"
        raise UsageError(what, f"ls -l {shlex.quote(str(path))}") from None


def _parse_toml(text: _Text, content: str) -> dict[str, object]:
    """Parse a file. Raises UsageError."""
    if sys.version_info >= (3, 11):
        import tomllib  # here, as it takes 6 ms, and many launches have no file
    else:
        import tomli as tomllib
    try:
        table: dict[str, object] = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise _invalid_toml(text, str(error)) from None
    except (RecursionError, ValueError) as error:  # of tomllib, for a number of 5,000 digits
        why = "tables or lists are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{text.name}: invalid TOML: {why}") from None
    return table


def _invalid_toml(text: _Text, error: str) -> UsageError:
    """Return the error for a file, with the line; the value of a variable is left out of it."""
    at = re.search(r" \(at line (\d+), column (\d+)\)$", error)
    if at is None:
        return UsageError(f"{text.name}: invalid TOML: {error}")
    line = text.lines[int(at[1]) - 1].strip() if int(at[1]) <= len(text.lines) else ""
    name, equals, _ = line.partition("=")
    if equals and re.search("[A-Z]", name):  # a variable of [env]: it may be a secret
        line = f"{name}= ..."
    what = f"{text.name}:{at[1]}: invalid TOML: {error[: at.start()]} at column {at[2]}: {line}"
    return UsageError(what, 'text needs quotes: backend = "ssh"')


def _check_file(table: Mapping[str, object], text: _Text, path: Path, folder: Path) -> SettingsFile:
    """Check a file. Its paths are relative to it, and stay as they are in `folder`, the current directory.

    Raises UsageError.
    """
    usual, profiles = table.get("profile"), _tables(table.get("profiles", {}))
    if isinstance(usual, dict):
        name = next(iter(usual), "NAME")
        raise UsageError(
            f"{text.place('profile')}: [profile.{name}] is not a table of ddpkit", f"rename it to [profiles.{name}]"
        )
    if not (isinstance(usual, str) or usual is None):
        what = f"{text.place('profile')}: profile = {usual!r} is not valid"
        raise UsageError(what, 'the name of a profile: profile = "big"')
    if profiles is None:
        raise UsageError(
            f"{text.place('profiles')}: profiles must be tables", "write each profile as a table [profiles.NAME]"
        )
    roles = table.get("roles", {})
    if not isinstance(roles, dict):
        raise UsageError(f"{text.place('roles')}: roles = {roles!r} is not a table", "write each role as [roles.NAME]")
    own = {key: value for key, value in table.items() if key not in _FILE_ONLY}
    base = path.parent if path.parent != folder else None
    return SettingsFile(
        name=text.name,
        path=path,
        values=_parse_all(own, text, base),
        groups=_parse_groups(table.get("groups", {}), text),
        host=_parse_hosts_tables(table.get("host", {}), text),
        profiles={key: _parse_all(profile, text, base, "profiles", key) for key, profile in profiles.items()},
        profile=usual,
        roles=roles,
    )


def _parse_all(table: Mapping[str, object], text: _Text, base: Path | None, *above: str) -> dict[str, object]:
    """Parse the settings of a table. Relative paths are joined to `base`; None: the current directory."""
    _check_names(table, SETTINGS if above else (*SETTINGS, *_FILE_ONLY), text, *above)
    values = {name: _parse(name, value, text.place(*above, name)) for name, value in table.items()}
    for name, value in values.items():
        if base and isinstance(value, str) and SETTINGS[name].is_path and (name != "python" or "/" in value):
            values[name] = value if value.startswith("~") else os.path.normpath(base / value)
    return values


def _parse_groups(table: object, text: _Text) -> dict[str, tuple[str, ...]]:
    try:
        return {name: _parse_words(words, Label(name)) for name, words in _parse_table(table).items()}
    except _WrongTypeError:
        raise UsageError(f"{text.place('groups')}: [groups] is not valid", 'gpus = ["node1", "node2"]') from None


def _parse_hosts_tables(value: object, text: _Text) -> dict[str, HostSettings]:
    tables = _tables(value)
    if tables is None:
        raise UsageError(f"{text.place('host')}: [host] is not valid", "write each host as a table [host.node1]")
    return {name: _parse_host(name, table, text) for name, table in tables.items()}


def _parse_host(host: str, table: Mapping[str, object], text: _Text) -> HostSettings:
    _check_names(table, [each.name for each in fields(HostSettings)], text, "host", host)
    most = {"port": MOST_PORT, "slots": MOST_RANKS}
    place = {key: text.place("host", host, key) for key in table}
    numbers = {key: whole(table[key], f"{place[key]}: {key} = ", most[key]) for key in most if key in table}
    texts: dict[str, str] = {}
    for key in ("user", "python", "workdir"):
        value = table.get(key, "")
        if not isinstance(value, str):
            raise UsageError(f"{place[key]}: {key} = {value!r} is not text", f'{key} = "{value}"')
        texts[key] = value
    env = cast("Mapping[str, str]", _parse("env", table.get("env", {}), place.get("env", "")))
    return HostSettings(port=numbers.get("port"), slots=numbers.get("slots"), env=env, **texts)


def _tables(value: object) -> Mapping[str, Mapping[str, object]] | None:
    """Return a table whose values are tables, or None."""
    if isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values()):
        return value
    return None


def _check_names(table: Mapping[str, object], names: Iterable[str], text: _Text, *above: str) -> None:
    known = list(names)
    for name, value in table.items():
        if name not in known:
            hint = _similar(name, known) or f"known keys: {', '.join(known)}"
            if not above and isinstance(value, dict) and SETTINGS.keys() >= value.keys():
                hint = f"a profile is [profiles.{name}]"
            where = f" in [{'.'.join(above)}]" if above else ""
            raise UsageError(f"{text.place(*above, name)}: unknown key {name!r}{where}", hint)
