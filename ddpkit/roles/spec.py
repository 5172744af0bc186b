"""What roles a run has: `[roles.NAME]` of `ddpkit.toml` or of `--roles FILE`, and `ddpkit.Role`. Pure.

    [roles.infer]
    nnodes = 2                                    # any setting of a launch holds for a role
    command = "vllm serve MODEL --port {port}"    # a script or a program, as behind `--`
    ready = "http:/health"                        # or "tcp", or "line: a regular expression"
    restart = 2                                   # of one replica, without ending the run

    [roles.train]
    nnodes = 2
    nproc_per_node = 8
    command = "train.py --servers {infer.urls}"
    after = ["infer"]
    ends_run = true

A role that ends the run is one replica on all its nodes, with as many ranks as a launch has. Any other one is a
service: a replica on each of its nodes, of one process.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ddpkit.config import DAY, parse_duration
from ddpkit.errors import MOST_NODES, UsageError, nearest
from ddpkit.launchers.plan import Probe, Ready

NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")  # it is a directory, and a part of variables' names
READY_TIMEOUT = 600.0  # seconds
# `{port}`, `{infer.urls}`: other braces are the command's own, as in JSON.
_FIELD = re.compile(r"\{(?:([a-z][a-z0-9_-]*)\.)?([a-z]+)\}")
OWN_FIELDS = ("host", "port", "replica")
FIELDS = ("hosts", "host", "ports", "port", "addresses", "urls", "url")


@dataclass(frozen=True, kw_only=True)
class Role:
    """One program of a run. `settings` are those of a launch; they win over the file's and the command line's."""

    name: str
    command: tuple[str, ...]
    nnodes: int = 1
    replicas: int = 1  # each on `nnodes / replicas` nodes
    after: tuple[str, ...] = ()
    ends_run: bool = False
    ready: Ready | None = None  # None: ready when its processes have started
    restart: int = 0  # of one replica
    beside: str = ""  # the role whose nodes it shares
    gpus: int | None = None  # of each node; None: all that are not of another role there
    cpus: int | None = None  # the same
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def nodes_each(self) -> int:
        """Nodes of one replica."""
        return self.nnodes // self.replicas

    @property
    def needs_port(self) -> bool:
        """Whether a port is chosen for each replica: its own command, or a probe, names it."""
        probed = self.ready is not None and self.ready.probe is not Probe.LINE
        return probed or ("", "port") in fields_of(self.command)


# ---- from tables

KEYS = ("command", "replicas", "after", "ends_run", "ready", "ready_timeout", "restart", "beside", "gpus", "cpus")
# Settings of the whole run, not of a role.
OF_RUN = (
    "backend",
    "hosts",
    "hostfile",
    "log_dir",
    "name",
    "header",
    "fold",
    "on_end",
    "sync",
    "log_limit",
    "all_log",
    "script",
)


def parse_roles(tables: Mapping[str, object], place: str, known: Collection[str]) -> tuple[Role, ...]:
    """Read the tables of all roles, and check them together. `known`: the names of settings. Raises UsageError."""
    roles = tuple(_role(name, table, f"{place}: roles.{name}", known) for name, table in tables.items())
    check(roles, place)
    return roles


def _role(name: str, table: object, place: str, known: Collection[str]) -> Role:
    if not NAME.fullmatch(name):
        raise UsageError(f"{place}: {name!r} is not the name of a role", "lower-case letters, digits, - and _")
    if not isinstance(table, Mapping):
        raise UsageError(f"{place}: a role is a table", f"[roles.{name}]")
    own = [key for key in known if key not in OF_RUN]
    for key in table:
        if key == "script":
            raise UsageError(f"{place}.script: no such setting of a role", "command")
        if key in OF_RUN:
            raise UsageError(f"{place}.{key}: it holds for the whole run", f"set {key} above the tables of roles")
        if key not in KEYS and key not in own:
            raise UsageError(f"{place}.{key}: no such setting of a role", nearest(str(key), (*KEYS, *own)))
    read = _Table(table, place)
    words = read.words()
    nnodes = read.number("nnodes", 1, 1)
    ends_run = read.flag("ends_run")
    replicas = read.number("replicas", 1 if ends_run else nnodes, 1)
    if nnodes % replicas:
        raise UsageError(
            f"{place}: {nnodes} nodes for {replicas} replicas: a replica needs whole nodes",
            f"nnodes = {replicas * max(1, nnodes // replicas)}",
        )
    settings = {key: value for key, value in table.items() if key not in (*KEYS, "nnodes")}
    if not ends_run:
        settings.setdefault("nproc_per_node", 1)
    return Role(
        name=name,
        command=words,
        nnodes=nnodes,
        replicas=replicas,
        after=read.names("after"),
        ends_run=ends_run,
        ready=read.ready(),
        restart=read.number("restart", 0, 0),
        beside=read.text("beside"),
        gpus=read.number("gpus", 0, 0) if "gpus" in table else None,
        cpus=read.number("cpus", 1, 1) if "cpus" in table else None,
        settings=settings,
    )


class _Table:
    """The values of one table, by their type. Each method raises UsageError with the key's place."""

    def __init__(self, table: Mapping[str, object], place: str) -> None:
        self._table, self._place = table, place

    def _wrong(self, key: str, accepts: str) -> UsageError:
        return UsageError(f"{self._place}.{key} = {self._table[key]!r} is not valid", accepts)

    def number(self, key: str, default: int, least: int) -> int:
        value = self._table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_NODES:
            raise self._wrong(key, f"an integer from {least} to {MOST_NODES}")
        return value

    def flag(self, key: str) -> bool:
        value = self._table.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str) -> str:
        value = self._table.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(key, f'text: {key} = "..."')
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, f'a list of roles: {key} = ["infer"]')
        return tuple(value)

    def words(self) -> tuple[str, ...]:
        """Return the words of `command`."""
        if "command" not in self._table:
            raise UsageError(f"{self._place}: it has no command", 'command = "train.py --epochs 3"')
        value = self._table["command"]
        try:
            words = shlex.split(value) if isinstance(value, str) else value
        except ValueError as error:
            raise UsageError(f"{self._place}.command: {error}", "quote it as on a command line") from None
        if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
            raise self._wrong("command", "text, or a list of words")
        if any("\0" in word for word in words):
            raise UsageError(f"{self._place}.command: a NUL character, which no program can be given")
        return tuple(words)

    def ready(self) -> Ready | None:
        """Return how a replica shows that it is ready; None: by the start of its processes."""
        timeout = self._seconds("ready_timeout") if "ready_timeout" in self._table else READY_TIMEOUT
        if "ready" not in self._table:
            if "ready_timeout" in self._table:
                raise UsageError(f"{self._place}.ready_timeout has no effect without ready", 'ready = "tcp"')
            return None
        try:
            ready = Ready.of(self.text("ready"), timeout)
        except ValueError:
            raise self._wrong("ready", '"http:/health", "tcp" or "line: text"') from None
        probe, value = ready.probe, ready.value
        if probe is Probe.TCP and value:
            raise self._wrong("ready", 'ready = "tcp": the port is {port} of its command')
        if probe is Probe.HTTP and not re.fullmatch(r"/[!-~]*", value):
            raise self._wrong("ready", 'a path: ready = "http:/health"')
        if probe is Probe.LINE:
            try:
                re.compile(value)
            except (re.error, RecursionError, OverflowError) as error:
                raise UsageError(f"{self._place}.ready: {error}", "a regular expression of Python") from None
            if not value:
                raise self._wrong("ready", 'ready = "line: started"')
        return ready

    def _seconds(self, key: str) -> float:
        """Read 90, "90s", "20m" or "2h"."""
        value = self._table[key]
        seconds = None if isinstance(value, bool) else parse_duration(str(value).strip())
        if seconds is None or not 0 < seconds <= DAY:
            raise self._wrong(key, 'a time of at most a day: "20m"')
        return seconds


# ---- all roles together


def check(roles: Sequence[Role], place: str) -> None:
    """Check what no role shows alone. Raises UsageError."""
    names = [role.name for role in roles]
    if not roles:
        raise UsageError(f"{place}: there are no roles", '[roles.train]\ncommand = "train.py"\nends_run = true')
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{place}: two roles are called {name}", "give each a name of its own")
    for role in roles:
        for key, named in (("after", role.after), ("beside", (role.beside,) if role.beside else ())):
            for other in named:
                if other == role.name:
                    raise UsageError(f"{place}: roles.{role.name}.{key} names the role itself", f"remove it from {key}")
                if other not in names:
                    what = f"{place}: roles.{role.name}.{key}: there is no role {other}"
                    raise UsageError(what, nearest(other, names) or f"roles: {', '.join(names)}")
    circle = _circle(roles)
    if circle:
        raise UsageError(
            f"{place}: {' after '.join(circle)}: each waits for the next", f"remove after of roles.{circle[0]}"
        )
    if not any(role.ends_run for role in roles):
        raise UsageError(f"{place}: no role ends the run", f"ends_run = true in [roles.{names[-1]}]")
    by_name = {role.name: role for role in roles}
    for role in roles:
        _check_fields(role, by_name, place)
        other_role = by_name.get(role.beside)
        if other_role is not None and (other_role.beside or other_role.nnodes != role.nnodes):
            if other_role.beside:
                wrong, fix = f"which is itself beside {other_role.beside}", f'beside = "{other_role.beside}"'
            else:
                wrong, fix = f"which has {other_role.nnodes} nodes", f"nnodes = {other_role.nnodes}"
            what = f"{place}: roles.{role.name} has {role.nnodes} nodes and is beside {other_role.name}, {wrong}"
            raise UsageError(what, fix)


def _circle(roles: Sequence[Role]) -> list[str]:
    """Return roles of which each is after the next, the last one after the first; empty: there are none."""
    after = {role.name: role.after for role in roles}
    done: set[str] = set()  # roles from which no circle is reached
    for first in after:
        path: list[str] = []
        pending = [(first, 0)]  # a role, and how many roles of the path lead to it
        while pending:
            name, depth = pending.pop()
            del path[depth:]
            if name in path:
                return [*path[path.index(name) :], name]
            if name in done:
                continue
            path.append(name)
            pending += [(other, depth + 1) for other in after[name]]
            if not after[name]:
                done.add(name)
        done.add(first)
    return []


def _check_fields(role: Role, roles: Mapping[str, Role], place: str) -> None:
    """Check the `{...}` of a command: what a role names of another one must be known when it starts."""
    for other, address in fields_of(role.command):
        shown = f"{{{other}.{address}}}" if other else f"{{{address}}}"
        where = f"{place}: roles.{role.name}: {shown}"
        if not other:
            if address == "port" and role.nodes_each > 1:
                raise UsageError(
                    f"{where}: a replica on {role.nodes_each} nodes has no single port", "replicas = nnodes"
                )
            continue
        if other not in roles:
            raise UsageError(
                f"{where}: there is no role {other}", nearest(other, roles) or f"roles: {', '.join(roles)}"
            )
        if address not in FIELDS:
            raise UsageError(f"{where}: no such address", nearest(address, FIELDS) or f"addresses: {', '.join(FIELDS)}")
        needs_port = address not in ("hosts", "host")
        if needs_port and not roles[other].needs_port:
            raise UsageError(f"{where}: {other} has no port", f"put {{port}} into the command of roles.{other}")
        if needs_port and other not in _all_before(role, roles):
            raise UsageError(f"{where}: its port is chosen when {other} starts", f'after = ["{other}"]')


def _all_before(role: Role, roles: Mapping[str, Role]) -> set[str]:
    """Names of the roles that have started when this one starts; there is no circle."""
    found: set[str] = set()
    names = list(role.after)
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names += roles[name].after
    return found


def fields_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (role, field) of each `{role.field}`, and ("", field) of each own `{field}`."""
    for word in words:
        for match in _FIELD.finditer(word):
            if match[1] or match[2] in OWN_FIELDS:
                yield match[1] or "", match[2]


def fill(words: Sequence[str], own: Mapping[str, str], roles: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Put values in place of `{port}` and `{infer.urls}`. Other braces stay as they are."""

    def value(match: re.Match[str]) -> str:
        if match[1]:
            return roles[match[1]][match[2]] if match[1] in roles and match[2] in roles[match[1]] else match[0]
        return own.get(match[2], match[0])

    return tuple(_FIELD.sub(value, word) for word in words)
