"""Settings of a launch and where each came from: flag, then DDPKIT_* variable, then profile, then file, then default.

`ddpkit.toml` in the current folder, or `[tool.ddpkit]` in its pyproject.toml:

    backend = "local"                      # every key here holds for all profiles
    script = ["train.py", "--epochs", "3"]

    [profiles.two]                         # ddpkit launch --profile two
    nproc_per_node = 2
    options = { starter = "torchrun" }
    env = { NCCL_DEBUG = "WARN" }

    [groups]                               # ddpkit launch -b ssh @gpus
    gpus = ["node[1-4]", "admin@big:2222"]

    [host.big]                             # what holds on this node alone
    slots = 8
    python = "/opt/venv/bin/python"
    workdir = "/scratch/project"
    env = { NCCL_SOCKET_IFNAME = "ib0" }
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ddpkit.errors import MOST_NODES, MOST_PORT, MOST_RANKS, UsageError, nearest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "ddpkit.toml"
DAY = 86400.0
DEFAULTS: dict[str, Any] = {
    "backend": "local",
    "hosts": [],
    "hostfile": "",
    "nproc_per_node": "auto",
    "nnodes": None,
    "script": ["train.py"],
    "workdir": ".",
    "python": sys.executable,
    "grace": 15.0,
    "log_dir": "logs",
    "preflight": True,
    "hang_timeout": 0.0,
    "hang_action": "warn",
    "sync": False,
    "header": True,
    "fold": 0.2,
    "metrics": "",
    "options": {},
    "env": {},
}
_TOP_ONLY = ("profile", "profiles", "groups", "host")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Setting:
    """A value and what decided it: `flag`, `DDPKIT_BACKEND`, `profile big (ddpkit.toml)`, `ddpkit.toml`, `default`."""

    value: Any
    source: str


class Settings:
    """All settings of one launch. `options` and `env` have a source for each of their keys."""

    def __init__(self) -> None:
        self.plain = {name: Setting(value, "default") for name, value in DEFAULTS.items()}
        self.options: dict[str, Setting] = {}
        self.env: dict[str, Setting] = {}
        self.groups: dict[str, list[str]] = {}
        self.host: dict[str, dict[str, Any]] = {}  # by name: what holds on that node alone

    def __getitem__(self, name: str) -> Any:
        return self.plain[name].value

    def source(self, name: str) -> str:
        return self.plain[name].source

    def apply(self, values: Mapping[str, Any], source: str) -> None:
        """Lay one source over what is there. Tables are merged key by key."""
        for name, value in values.items():
            if name == "options":
                self.options |= {key: Setting(entry, source) for key, entry in value.items()}
            elif name == "env":
                self.env |= {key: Setting(entry, source) for key, entry in value.items()}
            else:
                self.plain[name] = Setting(value, source)

    def rows(self) -> list[tuple[str, Any, str]]:
        """(name, value, source) of every setting, for people."""
        rows = [(name, self[name], self.source(name)) for name in DEFAULTS if name not in ("options", "env")]
        rows += [(f"options.{key}", setting.value, setting.source) for key, setting in self.options.items()]
        rows += [(f"env.{key}", setting.value, setting.source) for key, setting in self.env.items()]
        return rows


def settings(folder: Path, environ: Mapping[str, str], profile: str | None, flags: Mapping[str, Any]) -> Settings:
    """Collect all sources. `flags` holds what the command line gave, and nothing else."""
    found = Settings()
    table, where = read(folder)
    top = {name: value for name, value in table.items() if name not in _TOP_ONLY}
    found.apply(top, where)
    found.groups, found.host = table.get("groups", {}), table.get("host", {})
    profiles = table.get("profiles", {})
    chosen = profile or environ.get("DDPKIT_PROFILE") or table.get("profile")
    if chosen is not None:
        if not isinstance(chosen, str):
            raise UsageError(
                f"{where}: profile = {chosen!r} is not understood", 'the name of a profile: profile = "big"'
            )
        if chosen not in profiles:
            known = ", ".join(sorted(profiles)) or "none is defined"
            raise UsageError(
                f"there is no profile {chosen!r} in {where or FILE}", nearest(chosen, profiles) or f"profiles: {known}"
            )
        found.apply(profiles[chosen], f"profile {chosen} ({where})")
    for name in DEFAULTS:
        variable = f"DDPKIT_{name.upper()}"
        if variable in environ and name not in ("options", "env"):
            found.apply({name: _from_text(name, environ[variable], variable)}, variable)
    found.apply(flags, "flag")
    return found


def _from_text(name: str, text: str, variable: str) -> Any:
    if name == "hosts":
        return [word for word in re.split(r"[\s,]+", text) if word]
    return _checked(name, text, variable)


def read(folder: Path) -> tuple[dict[str, Any], str]:
    """The table of `ddpkit.toml`, or of pyproject.toml, and the file's name; an empty table where there is none."""
    for path, keys in ((folder / FILE, ()), (folder / "pyproject.toml", ("tool", "ddpkit"))):
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        try:
            table: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: {error}", "check the line that is named") from None
        for key in keys:
            table = table.get(key, {})
            if not isinstance(table, dict):
                raise UsageError(f"{path}: {key} = {table!r} is not a table", "[tool.ddpkit] begins ddpkit's")
        if table or not keys:
            return _check_table(table, path.name), path.name
    return {}, ""


def _check_table(table: dict[str, Any], where: str) -> dict[str, Any]:
    _known(table, (*DEFAULTS, *_TOP_ONLY), where)
    profiles = table.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(entry, dict) for entry in profiles.values()):
        raise UsageError(f"{where}: profiles must be tables: [profiles.NAME]")
    checked = {name: _checked(name, value, where) for name, value in table.items() if name not in _TOP_ONLY}
    checked["groups"] = _groups(table.get("groups", {}), where)
    checked["host"] = _host(table.get("host", {}), where)
    checked["profiles"] = {}
    for name, entry in profiles.items():
        place = f"{where}, profile {name}"
        _known(entry, DEFAULTS, place)
        checked["profiles"][name] = {key: _checked(key, value, place) for key, value in entry.items()}
    return {**checked, **({"profile": table["profile"]} if "profile" in table else {})}


def _groups(table: Any, where: str) -> dict[str, list[str]]:
    if not isinstance(table, dict) or not all(_is_words(entry) for entry in table.values()):
        raise UsageError(f"{where}: [groups] is not understood", 'gpus = ["node1", "node2"]')
    return table


def _host(table: Any, where: str) -> dict[str, dict[str, Any]]:
    if not isinstance(table, dict) or not all(isinstance(entry, dict) for entry in table.values()):
        raise UsageError(f"{where}: [host] is not understood", "[host.node1] begins what holds on node1 alone")
    checked = {}
    for name, entry in table.items():
        place = f"{where}, host {name}"
        _known(entry, ("user", "port", "slots", "python", "workdir", "env"), place)
        most = {"port": MOST_PORT, "slots": MOST_RANKS}
        numbers = {key: whole(entry[key], f"{place}: {key} = ", most[key]) for key in most if key in entry}
        if not all(isinstance(entry.get(key, ""), str) for key in ("user", "python", "workdir")):
            raise UsageError(f"{place}: user, python and workdir are text")
        env = _checked("env", entry["env"], place) if "env" in entry else {}
        checked[name] = {**entry, **numbers, "env": env}
    return checked


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _known(table: Mapping[str, Any], names: Any, where: str) -> None:
    for name in table:
        if name not in names:
            known = f"known keys: {', '.join(names)}"
            raise UsageError(f"{where}: unknown key {name!r}", nearest(name, names) or known)


def _checked(name: str, value: Any, where: str) -> Any:
    """One value in the type that the rest of the program expects, or an error that names key and place."""
    shown = "..." if name == "env" else repr(value)  # an environment may hold secrets
    wrong = UsageError(f"{where}: {name} = {shown} is not understood", _MEANING[name])
    if name == "nproc_per_node":
        return nproc(value, f"{where}: {name} = ")
    if name == "nnodes":
        return nnodes(value, f"{where}: {name} = ")
    if name in ("preflight", "sync", "header"):
        if str(value).lower() not in ("true", "false", "1", "0"):
            raise wrong
        return str(value).lower() in ("true", "1")
    if name == "hang_action":
        return action(value, f"{where}: {name} = ")
    if name in ("grace", "hang_timeout", "fold"):
        return seconds(value, f"{where}: {name} = ")
    if name == "script":
        words = _split(value, where) if isinstance(value, str) else value
        if not (words and _is_words(words)):
            raise wrong
        return [no_nul(word, f"{where}: {name}") for word in words]
    if name == "hosts":
        if not _is_words(value):
            raise wrong
        return value
    if name == "env":
        if not isinstance(value, dict) or not all(isinstance(entry, str | int | float) for entry in value.values()):
            raise wrong
        return {key: no_nul(str(entry), f"{where}: env.{key}") for key, entry in value.items() if check_env_name(key)}
    if name == "options":
        if not isinstance(value, dict):
            raise wrong
        return value
    if not isinstance(value, str) or not value:
        raise wrong
    return value


_MEANING = {
    "backend": 'the name of a backend: backend = "local"',
    "hosts": 'a list of host names: hosts = ["node1", "node2"]',
    "hostfile": 'a file with one host a line: hostfile = "hosts.txt"',
    "nproc_per_node": 'a whole number, or "auto"',
    "nnodes": "a whole number, or MIN:MAX",
    "script": 'text, or a list of words: script = ["train.py", "--epochs", "3"]',
    "workdir": 'a folder: workdir = "/data/project"',
    "python": 'an interpreter: python = "/opt/venv/bin/python"',
    "grace": "seconds, 0 or more",
    "hang_timeout": "seconds; 0: nobody watches",
    "hang_action": '"warn" or "end"',
    "log_dir": 'a folder: log_dir = "logs"',
    "preflight": "true or false",
    "sync": "true or false",
    "header": "true or false",
    "fold": "seconds; 0: nothing folds",
    "metrics": 'a file: metrics = "checkpoints/metrics.jsonl"',
    "options": 'a table: options = { starter = "torchrun" }',
    "env": 'a table of text: env = { NCCL_DEBUG = "WARN" }',
}


def nproc(value: Any, label: str) -> int | Literal["auto"]:
    """Ranks per node: a whole number from 1, or `auto`."""
    return "auto" if value == "auto" else whole(value, label, MOST_RANKS)


def nnodes(value: Any, label: str) -> int | tuple[int, int]:
    """Number of nodes, or (MIN, MAX) for a run that goes on while MIN of them are left."""
    least, colon, most = str(value).partition(":")
    if not colon:
        return whole(value, label, MOST_NODES)
    pair = (whole(least, label, MOST_NODES), whole(most, label, MOST_NODES))
    if pair[0] > pair[1]:
        raise UsageError(f"{label}{value}: the smaller number comes first", f"-N {most}:{least}")
    return pair


def whole(value: Any, label: str, most: int | None = None) -> int:
    """A whole number from 1 to `most`; `label` stands in front of the value in the error."""
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{label}{value} is not a whole number") from None
    if number < 1:
        raise UsageError(f"{label}{value}: at least 1 is needed")
    if most is not None and number > most:
        raise UsageError(f"{label}{value}: at most {most} can be asked for")
    return number


def seconds(value: Any, label: str) -> float:
    """A length of time in seconds, 0 or more."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"{label}{value} is not a number of seconds") from None
    if not 0 <= number <= DAY:
        raise UsageError(f"{label}{value}: seconds are 0 or more, and at most a day")
    return number


def action(value: Any, label: str) -> str:
    """What a run that watches itself does about a hang."""
    if value not in ("warn", "end"):
        raise UsageError(f"{label}{value}: warn or end")
    return str(value)


def pairs(words: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` words of `-o`."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"-o {word}: an option is given as KEY=VALUE", "ddpkit backends NAME lists the options")
        found[name] = value
    return found


def variables(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """`NAME=VALUE` words of `--env`; a name alone takes the value that is set here."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        check_env_name(name)
        if not equals and name not in environ:
            raise UsageError(f"--env {name}: it is not set here", f"--env {name}=VALUE, or export {name}")
        found[name] = value if equals else environ[name]
    return found


def no_nul(text: str, label: str) -> str:
    """Neither an argument nor a variable can hold a NUL."""
    if "\0" in text:
        raise UsageError(f"{label}: a NUL character, which no program can be given")
    return text


def _split(text: str, label: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{label}: {text}: {error}", "quote it as on a command line") from None


def check_env_name(name: str) -> bool:
    """A name that every shell and every program accepts as a variable's."""
    if not _ENV_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of an environment variable", "letters, digits and underscores")
    return True
