"""Settings of a launch, and the source of each: flag, DDPKIT_* variable, profile, file, default; the first wins.

`ddpkit.toml` in the current folder, or `[tool.ddpkit]` in its pyproject.toml:

    backend = "local"                      # every key here holds for all profiles
    script = ["train.py", "--epochs", "3"]

    [profiles.two]                         # ddpkit launch --profile two
    nproc_per_node = 2
    options = { starter = "torchrun" }
    env = { NCCL_DEBUG = "WARN" }

    [groups]                               # ddpkit launch -b ssh @gpus
    gpus = ["node[1-4]", "admin@big:2222"]

    [host.big]                             # settings of this node
    slots = 8
    python = "/opt/venv/bin/python"
    workdir = "/scratch/project"
    env = { NCCL_SOCKET_IFNAME = "ib0" }
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast, get_args

from ddpkit.errors import MOST_NODES, MOST_PORT, MOST_RANKS, UsageError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "ddpkit.toml"
DAY = 86400.0
_FILE_ONLY = ("profile", "profiles", "groups", "host")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Label:
    """Names a value in error messages."""

    name: str
    place: str = ""  # a file, a profile, a variable; empty for a flag or a keyword
    flag: str = ""

    @property
    def key(self) -> str:
        return f"{self.place}: {self.name}" if self.place else self.name

    @property
    def prefix(self) -> str:
        """The text in front of the value."""
        return f"{self.flag} " if self.flag else f"{self.key} = "


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


def _parse_nproc(value: object, label: Label) -> int | Literal["auto"]:
    return "auto" if value == "auto" else whole(value, label.prefix, MOST_RANKS)


def _parse_nnodes(value: object, label: Label) -> int | tuple[int, int] | None:
    """Parse the number of nodes, or MIN:MAX for a run that goes on while MIN of them are left."""
    least, colon, most = ":".join(map(str, value if isinstance(value, tuple) else (value,))).partition(":")
    if not colon:
        return whole(least, label.prefix, MOST_NODES)
    pair = (whole(least, label.prefix, MOST_NODES), whole(most, label.prefix, MOST_NODES))
    if pair[0] > pair[1]:
        raise UsageError(f"{label.prefix}{least}:{most}: the smaller number comes first", f"-N {most}:{least}")
    return pair


def _parse_hang_action(value: object, label: Label) -> Literal["warn", "end"]:
    if value == "warn":
        return "warn"
    if value == "end":
        return "end"
    raise UsageError(f"{label.prefix}{value}: warn or end")


def _parse_hosts(value: object, _label: Label) -> tuple[str, ...]:
    return _parse_words(value)


def _parse_script(value: object, label: Label) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            what = f"{label.place or label.name}: {value}: {error}"
            raise UsageError(what, "quote it as on a command line") from None
    words = _parse_words(value)
    if not words:
        raise _WrongTypeError
    return tuple(_without_nul(word, label.key) for word in words)


def _parse_words(value: object) -> tuple[str, ...]:
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


def whole(value: object, label: str, most: int | None = None) -> int:
    """Parse a whole number from 1 to `most`. `label` precedes the value in the error."""
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{label}{value} is not a whole number") from None
    if number < 1:
        raise UsageError(f"{label}{value}: at least 1 is needed")
    if most is not None and number > most:
        raise UsageError(f"{label}{value}: at most {most} can be asked for")
    return number


def seconds(value: object, label: str) -> float:
    """Parse a number of seconds, from 0 to a day. `label` precedes the value in the error."""
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError):
        raise UsageError(f"{label}{value} is not a number of seconds") from None
    if not 0 <= number <= DAY:
        raise UsageError(f"{label}{value}: seconds are 0 or more, and at most a day")
    return number


def inherit_variable(name: str, environ: Mapping[str, str]) -> str:
    """Return the value that a variable has here, to pass it on. Raises UsageError."""
    check_env_name(name)
    if name not in environ:
        raise UsageError(f"--env {name}: it is not set here", f"--env {name}=VALUE, or export {name}")
    return environ[name]


def current_folder() -> Path:
    """Return the current folder, which holds `ddpkit.toml`. Raises UsageError."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", "cd to one that is there") from None


def check_env_name(name: str) -> bool:
    """Accept a name that every shell and every program accepts as a variable's. Raises UsageError."""
    if not _ENV_NAME.fullmatch(str(name)):  # a program may give a number
        raise UsageError(f"{name!r} is not the name of an environment variable", "letters, digits and underscores")
    return True


# ---- the settings


@dataclass(frozen=True)
class Setting:
    """One row of the table of settings, from a field of LaunchSettings."""

    parse: Callable[[object, Label], object]
    accepts: str  # for the hint of an error
    flag: str = ""  # where it is not --NAME


def _setting(default: _T, parse: Callable[[object, Label], _T], accepts: str, flag: str = "") -> _T:
    """A field of LaunchSettings with its parser. mypy compares the types of field, default and parser."""
    metadata = {"setting": Setting(parse, accepts, flag)}
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


Caller = Literal["flag", "keyword"]  # the sources that win over all others
SourcedName = Literal["hosts", "hostfile", "nproc_per_node", "python", "script"]  # their source decides something


@dataclass(frozen=True, kw_only=True)
class LaunchSettings:
    """All settings of one launch. Times are in seconds."""

    backend: str = _setting("local", _parse_text, 'the name of a backend: backend = "local"')
    hosts: tuple[str, ...] = _setting((), _parse_hosts, 'a list of host names: hosts = ["node1", "node2"]')
    hostfile: str = _setting("", _parse_text, 'a file with one host a line: hostfile = "hosts.txt"')
    nproc_per_node: int | Literal["auto"] = _setting("auto", _parse_nproc, 'a whole number, or "auto"', "-n")
    nnodes: int | tuple[int, int] | None = _setting(None, _parse_nnodes, "a whole number, or MIN:MAX", "-N")
    script: tuple[str, ...] = _setting(
        ("train.py",), _parse_script, 'text, or a list of words: script = ["train.py", "--epochs", "3"]'
    )
    workdir: str = _setting(".", _parse_text, 'a folder: workdir = "/data/project"')
    python: str = _setting(sys.executable, _parse_text, 'an interpreter: python = "/opt/venv/bin/python"')
    grace: float = _setting(15.0, _parse_seconds, "seconds, 0 or more")
    log_dir: str = _setting("logs", _parse_text, 'a folder: log_dir = "logs"')
    preflight: bool = _setting(True, _parse_bool, "true or false")
    hang_timeout: float = _setting(0.0, _parse_seconds, "seconds; 0: nobody watches")
    hang_action: Literal["warn", "end"] = _setting("warn", _parse_hang_action, '"warn" or "end"')
    sync: bool = _setting(False, _parse_bool, "true or false")
    header: bool = _setting(True, _parse_bool, "true or false")
    fold: float = _setting(0.2, _parse_seconds, "seconds; 0: nothing folds")
    metrics: str = _setting("", _parse_text, 'a file: metrics = "checkpoints/metrics.jsonl"')
    options: Mapping[str, object] = _setting({}, _parse_options, 'a table: options = { starter = "torchrun" }')
    env: Mapping[str, str] = _setting({}, _parse_env, 'a table of text: env = { NCCL_DEBUG = "WARN" }')
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # hosts by the name of their group
    host: Mapping[str, HostSettings] = field(default_factory=dict)  # by name
    sources: Mapping[str, str] = field(default_factory=dict)  # by name, `options.KEY`, `env.KEY`; missing: default

    def source(self, name: SourcedName) -> str:
        """Name the source of a setting: `flag`, `DDPKIT_HOSTS`, `profile big (ddpkit.toml)`, `default`."""
        return self.sources.get(name, "default")

    def is_given(self, name: SourcedName) -> bool:
        """Tell whether the caller gave this setting, as a flag or as a keyword."""
        return self.source(name) in get_args(Caller)

    def rows(self) -> list[tuple[str, object, str]]:
        """List (name, value, source) of every setting, for people."""
        rows = []
        for name in SETTINGS:
            value = getattr(self, name)
            if isinstance(value, dict):
                rows += [(f"{name}.{key}", value[key], self.sources[f"{name}.{key}"]) for key in value]
            else:
                words = name in ("hosts", "script")
                rows.append((name, list(value) if words else value, self.sources.get(name, "default")))
        return rows


SETTINGS: Mapping[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(LaunchSettings) if "setting" in each.metadata
}


class LaunchKeywords(TypedDict, total=False):
    """The settings that a caller may give beside the script, as values or as text. None: not given."""

    backend: str | None
    hosts: Sequence[str] | None
    hostfile: str | os.PathLike[str] | None
    nproc_per_node: int | str | None
    nnodes: int | str | tuple[int, int] | None
    workdir: str | os.PathLike[str] | None
    python: str | os.PathLike[str] | None
    grace: float | str | None
    log_dir: str | os.PathLike[str] | None
    preflight: bool | None
    hang_timeout: float | str | None
    hang_action: str | None
    sync: bool | None
    header: bool | None
    fold: float | str | None
    metrics: str | os.PathLike[str] | None
    options: Mapping[str, object] | None
    env: Mapping[str, str | None] | None


class Keywords(LaunchKeywords, total=False):
    """All settings that a caller may give."""

    script: Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """The checked content of `ddpkit.toml`, or of `[tool.ddpkit]`. Its values have the types of LaunchSettings."""

    name: str = ""  # empty: there is no file
    values: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    host: Mapping[str, HostSettings] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    profile: object = None  # the name of the usual profile, unchecked


def collect_settings(
    folder: Path, environ: Mapping[str, str], profile: str | None, keywords: Keywords, *, source: Caller = "flag"
) -> LaunchSettings:
    """Combine all sources. `keywords` win; errors about them name flags where `source` is `flag`. Raises UsageError."""
    words = cast("Mapping[str, object]", keywords)
    given = {
        name: _parse(name, words[name], "", flags=source == "flag") for name in SETTINGS if words.get(name) is not None
    }
    file = read_file(folder)
    layers = [(file.values, file.name)]
    chosen = profile or environ.get("DDPKIT_PROFILE") or file.profile
    if chosen is not None:
        layers.append((_profile(file, chosen), f"profile {chosen} ({file.name})"))
    for name in SETTINGS:
        variable = _variable(name)
        if variable in environ and name not in ("options", "env"):
            text = environ[variable]
            value = [word for word in re.split(r"[\s,]+", text) if word] if name == "hosts" else text
            layers.append(({name: _parse(name, value, variable)}, variable))
    layers.append((given, source))
    values: dict[str, Any] = {}  # each comes from the parser of its own field
    sources: dict[str, str] = {}
    for layer, origin in layers:
        for name, parsed in layer.items():
            if isinstance(parsed, dict):  # merged key by key
                values[name] = {**values.get(name, {}), **parsed}
                sources |= {f"{name}.{key}": origin for key in parsed}
            else:
                values[name] = parsed
                sources[name] = origin
    return LaunchSettings(**values, groups=file.groups, host=file.host, sources=sources)


def _profile(file: SettingsFile, chosen: object) -> Mapping[str, object]:
    if not isinstance(chosen, str):
        raise UsageError(
            f"{file.name}: profile = {chosen!r} is not understood", 'the name of a profile: profile = "big"'
        )
    if chosen not in file.profiles:
        known = ", ".join(sorted(file.profiles)) or "none is defined"
        raise UsageError(
            f"there is no profile {chosen!r} in {file.name or FILE}",
            nearest(chosen, file.profiles) or f"profiles: {known}",
        )
    return file.profiles[chosen]


def _parse(name: str, value: object, place: str, *, flags: bool = False) -> object:
    """Parse one value, or raise a UsageError that names the setting and its place."""
    setting = SETTINGS[name]
    flag = (setting.flag or f"--{name.replace('_', '-')}") if flags else ""
    label = Label(name, place, flag)
    try:
        return setting.parse(value, label)
    except _WrongTypeError:
        shown = "..." if name == "env" else repr(value)  # an environment may hold secrets
        raise UsageError(f"{label.prefix}{shown} is not understood", setting.accepts) from None


def _variable(name: str) -> str:
    return f"DDPKIT_{name.upper()}"


# ---- the file


def read_file(folder: Path) -> SettingsFile:
    """Read `ddpkit.toml`, or the table of pyproject.toml. Raises UsageError."""
    for path, keys in ((folder / FILE, ()), (folder / "pyproject.toml", ("tool", "ddpkit"))):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        try:
            table: dict[str, object] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: {error}", "check the line that is named") from None
        for key in keys:
            inner = table.get(key, {})
            if not isinstance(inner, dict):
                raise UsageError(f"{path}: {key} = {inner!r} is not a table", "[tool.ddpkit] begins ddpkit's")
            table = inner
        if table or not keys:
            return _check_file(table, path.name)
    return SettingsFile()


def _check_file(table: Mapping[str, object], name: str) -> SettingsFile:
    _check_names(table, (*SETTINGS, *_FILE_ONLY), name)
    profiles = _tables(table.get("profiles", {}))
    if profiles is None:
        raise UsageError(f"{name}: profiles must be tables: [profiles.NAME]")
    return SettingsFile(
        name=name,
        values=_parse_all({key: value for key, value in table.items() if key not in _FILE_ONLY}, name),
        groups=_parse_groups(table.get("groups", {}), name),
        host=_parse_hosts_tables(table.get("host", {}), name),
        profiles={key: _parse_all(profile, f"{name}, profile {key}") for key, profile in profiles.items()},
        profile=table.get("profile"),
    )


def _parse_all(table: Mapping[str, object], place: str) -> dict[str, object]:
    _check_names(table, SETTINGS, place)
    return {name: _parse(name, value, place) for name, value in table.items()}


def _parse_groups(table: object, place: str) -> dict[str, tuple[str, ...]]:
    try:
        return {name: _parse_words(words) for name, words in _parse_table(table).items()}
    except _WrongTypeError:
        raise UsageError(f"{place}: [groups] is not understood", 'gpus = ["node1", "node2"]') from None


def _parse_hosts_tables(value: object, place: str) -> dict[str, HostSettings]:
    tables = _tables(value)
    if tables is None:
        raise UsageError(f"{place}: [host] is not understood", "[host.node1] begins what holds on node1 alone")
    return {name: _parse_host(table, f"{place}, host {name}") for name, table in tables.items()}


def _parse_host(table: Mapping[str, object], place: str) -> HostSettings:
    _check_names(table, [each.name for each in fields(HostSettings)], place)
    most = {"port": MOST_PORT, "slots": MOST_RANKS}
    numbers = {key: whole(table[key], f"{place}: {key} = ", most[key]) for key in most if key in table}
    texts = {key: text for key in ("user", "python", "workdir") if isinstance(text := table.get(key, ""), str)}
    if len(texts) < 3:
        raise UsageError(f"{place}: user, python and workdir are text")
    env = cast("Mapping[str, str]", _parse("env", table.get("env", {}), place))
    return HostSettings(port=numbers.get("port"), slots=numbers.get("slots"), env=env, **texts)


def _tables(value: object) -> Mapping[str, Mapping[str, object]] | None:
    """A table whose values are tables, or None."""
    if isinstance(value, dict) and all(isinstance(entry, dict) for entry in value.values()):
        return value
    return None


def _check_names(table: Mapping[str, object], names: Iterable[str], place: str) -> None:
    for name in table:
        if name not in (known := list(names)):
            raise UsageError(
                f"{place}: unknown key {name!r}", nearest(name, known) or f"known keys: {', '.join(known)}"
            )
