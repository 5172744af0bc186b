"""Reads the names of nodes: words of the command line, `@group` of ddpkit.toml, and host files of MPI and DeepSpeed.

    node1    node[1-4,7]    user@node1    node1:2222    user@[fe80::1]:2222    2001:db8::7    @gpus

Pure: text in, `HostSpec`s out, in the order in which they were written. `Problem`: why one of them cannot take part.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ddpkit.config import HostSettings
from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import MOST_PORT, MOST_RANKS, EnvError, LaunchError, PreflightError, UsageError, nearest
from ddpkit.launchers import host_names
from ddpkit.launchers.host_names import MOST_HOSTS, format_hosts
from ddpkit.launchers.node_facts import words_of_node

# For every OpenSSH of ours: what a user's configuration does for people's sessions is left out. A shared connection
# that the user has already may be used. None of ours becomes one: it would end with us.
OURS = ("-oRemoteCommand=none", "-oClearAllForwardings=yes", "-oControlMaster=no")
ALONE = ("-a", "-x", "-oBatchMode=yes", *OURS)  # where nobody sits before it
_FORMS = "write it as node1, node[1-4], user@node1:2222, [fe80::1]:2222 or @group"
_HOST_LINE = "write one host on each line, for example node1 slots=4"


@dataclass(frozen=True, kw_only=True)
class HostSpec(HostSettings):
    """One node as the user named it, with what holds there alone."""

    name: str  # to connect to; an alias of ~/.ssh/config, a name, or an address

    def __post_init__(self) -> None:
        """Raise UsageError for what may not stand on a command line, whatever named it."""
        wrong = host_names.problem(self.name, self.user, self.port)
        if wrong:
            raise UsageError(wrong, _FORMS)

    @property
    def label(self) -> str:
        """The name in messages and logs, where the port tells two hosts apart."""
        return f"{self.name}:{self.port}" if self.port else self.name

    @property
    def by_hand(self) -> tuple[str, ...]:
        """The ssh that a person would type."""
        user = f"{self.user}@" if self.user else ""
        return ("ssh", *(("-p", str(self.port)) if self.port else ()), f"{user}{self.name}")

    @property
    def typed(self) -> str:
        """The word for this node on a command line of ddpkit."""
        name = f"[{self.name}]" if ":" in self.name else self.name
        user = f"{self.user}@" if self.user else ""
        return f"{user}{name}:{self.port}" if self.port else f"{user}{self.name}"

    @property
    def target(self) -> str:
        """The arguments of that ssh."""
        return " ".join(self.by_hand[1:])


def parse(
    words: Iterable[str], groups: Mapping[str, Sequence[str]], own: Mapping[str, HostSettings], exclude: str = ""
) -> list[HostSpec]:
    """Expand the words of a command line. `own`: settings of single hosts, by name (ddpkit.toml). Raises UsageError."""
    specs: list[HostSpec] = []
    for word in words:
        specs += _expand_word(word, groups, ())
    return _complete(specs, own, exclude, groups)


def parse_file(
    path: str,
    text: str,
    own: Mapping[str, HostSettings],
    exclude: str = "",
    groups: Mapping[str, Sequence[str]] | None = None,
) -> list[HostSpec]:
    """Read a host file: `node1 slots=4` (OpenMPI, DeepSpeed) or `node1:4` (MPICH); a name on two lines has both.

    A port is written `node1 port=2222 slots=4`: behind a colon MPICH has the number of slots.
    """
    specs: dict[tuple[str, str, int | None], HostSpec] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):  # editors of Windows put that in front
        words = line.partition("#")[0].split()
        if not words:
            continue
        where = f"{path}, line {number}: {line.strip()}"
        for spec in _parse_line(words, where, _corrected(path, number, words), groups or {}):
            key = (spec.name, spec.user, spec.port)
            before = specs.get(key)
            specs[key] = spec if before is None else replace(spec, slots=(before.slots or 1) + (spec.slots or 1))
    if not specs:
        raise UsageError(f"{path} contains no host", _HOST_LINE)
    return _complete(list(specs.values()), own, exclude, groups or {})


def _corrected(path: str, number: int, words: Sequence[str]) -> str:
    """Return a wrong line in the form of OpenMPI: what cannot be read is left out."""
    if not re.fullmatch(r"[\w.@:\[\],-]+", words[0]):
        return _HOST_LINE
    options = [word for word in words[1:] if re.fullmatch(r"slots=\d{1,4}|port=\d{1,4}", word)]
    counts = re.findall(r" (?!slots|port)(?:\w+=)?(\d{1,4})\b", " " + " ".join(words[1:]))
    if not any(word.startswith("slots=") for word in options):
        options[:0] = [f"slots={count}" for count in counts[:1]]
    line = " ".join([words[0], *options])
    return f"write line {number} of {shlex.quote(path)} as: {line}"


def _parse_line(words: list[str], where: str, corrected: str, groups: Mapping[str, Sequence[str]]) -> list[HostSpec]:
    """Read the words of one line of a host file. `where`, `corrected`: the line, and its right form, for an error."""
    options = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if name in ("max_slots", "max-slots"):
            continue  # how far OpenMPI may oversubscribe, which we never do
        if name not in ("slots", "port") or not equals or not value.isdecimal():
            raise UsageError(f"{where}: {word} is not valid", corrected)
        options[name] = int(value)
    host, colon, count = words[0].rpartition(":")
    if colon and count.isdecimal() and ":" not in host:
        options.setdefault("slots", int(count))
        words = [host]
    for name, most in (("slots", MOST_RANKS), ("port", MOST_PORT)):
        if options.get(name, 0) > most:
            raise UsageError(f"{where}: {name}={options[name]}: must be at most {most}", corrected)
    if options.get("slots") == 0:
        return []  # OpenMPI's way to leave a host out
    return [
        replace(spec, slots=options.get("slots"), port=options.get("port", spec.port))
        for spec in _expand_word(words[0], groups, ())
    ]


def _expand_word(word: str, groups: Mapping[str, Sequence[str]], seen: tuple[str, ...]) -> list[HostSpec]:
    """Expand one word, in any form of this module's docstring. `seen`: the groups around it. Raises UsageError."""
    if not word.isprintable():
        raise UsageError(f"{word.rpartition('@')[2]!r} is not the name of a host", _FORMS)
    if word.startswith("@"):
        name = word[1:]
        if name not in groups:
            known = f"groups: {', '.join(groups)}" if groups else "define it under [groups] in ddpkit.toml"
            raise UsageError(f"group {word} not found", nearest(name, groups) or known)
        if name in seen:
            raise UsageError(f"group {word} contains itself: {' -> '.join((*seen, name))}")
        return [spec for each in groups[name] for spec in _expand_word(each, groups, (*seen, name))]
    user, _, rest = word.rpartition("@")
    no_host = UsageError(f"{rest!r} is not the name of a host", _FORMS)
    if rest.count(":") > 1 and not rest.startswith("["):
        names, port = [rest], ""  # an IPv6 address: its colons leave no place for a port
    elif rest.startswith("["):
        address, bracket, port = rest[1:].partition("]")
        if not bracket or port[:1] not in ("", ":") or ":" not in address:
            raise no_host
        names, port = [address], port[1:]
    else:
        # The port's colon stands behind the last bracket: node[1-4]:2222.
        colon = rest.rfind(":", rest.rfind("]") + 1)
        pattern, port = (rest, "") if colon < 0 else (rest[:colon], rest[colon + 1 :])
        if colon >= 0 and not port:
            raise no_host
        try:
            names = expand_nodelist(pattern)
        except EnvError as error:
            several = [each for each in re.split(r"[,\s]+", word) if each]
            secret = ":" in user  # a password, as in a URL
            hint = _FORMS if len(several) < 2 or secret else f"write them as {','.join(map(shlex.quote, several))}"
            raise UsageError(f"{rest}: {error.message}", hint) from None
    if port and not (port.isdecimal() and 0 < int(port) <= MOST_PORT):
        raise UsageError(f"{rest}: {port!r} is not a port", _FORMS)
    if not names or not all(map(host_names.is_host, names)):
        raise no_host
    return [HostSpec(name=name, user=user, port=int(port) if port else None) for name in names]


def check_master(address: str, port: int) -> None:
    """Raise UsageError for what cannot be rank 0's address and port; empty and 0 where they are to be chosen."""
    if not 0 <= port <= MOST_PORT:
        raise UsageError(f"-o master_port={port} is not a port", f"remove -o master_port={port}")
    if address and not host_names.is_host(address):
        hint = "give the name or the IP address of rank 0's node"
        raise UsageError(f"-o master_addr={address} is neither a name nor an address", hint)


def _complete(
    specs: list[HostSpec], own: Mapping[str, HostSettings], exclude: str, groups: Mapping[str, Sequence[str]]
) -> list[HostSpec]:
    """Add the settings of single hosts, leave out excluded hosts, refuse a host that is listed twice."""
    left_out = {spec.name for word in exclude.split() for spec in _expand_word(word, groups, ())}
    unknown = left_out - {spec.name for spec in specs}
    if unknown:
        raise UsageError(
            f"-o exclude={exclude}: {sorted(unknown)[0]} is not one of the hosts",
            nearest(sorted(unknown)[0], [spec.name for spec in specs]),
        )
    kept = [_with_settings(spec, own.get(spec.name, HostSettings())) for spec in specs if spec.name not in left_out]
    if specs and not kept:
        raise UsageError(f"-o exclude={exclude} leaves no host")
    for label, times in Counter(spec.label for spec in kept).items():
        if times > 1:
            raise UsageError(
                f"host {label} is listed twice", "list it once; set its ranks with slots=N in a host file, or with -n"
            )
    return kept


def _with_settings(spec: HostSpec, own: HostSettings) -> HostSpec:
    return replace(
        spec,
        user=spec.user or own.user,
        port=spec.port or own.port,
        slots=spec.slots or own.slots,
        python=own.python,
        workdir=own.workdir,
        env=own.env,
    )


# ---- hosts that cannot take part


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The reason why one host cannot take part. Words of a node in it stay one line, and add none of ours."""

    host: str
    what: str
    fix: str
    unreachable: bool = False  # the node could not be entered at all
    check: str = "transport"  # which check found it: a key of `TITLES` in `preflight/check.py`

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", words_of_node(self.what))
        object.__setattr__(self, "fix", words_of_node(self.fix))


def _folded(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the problems; of very many hosts, those with the same problem as one, and the rare ones first."""
    if len(problems) <= MOST_HOSTS:
        return problems
    alike: dict[str, list[Problem]] = {}
    for problem in problems:
        alike.setdefault(problem.what.replace(problem.host, ""), []).append(problem)
    groups = sorted(alike.values(), key=len)
    return [replace(group[0], host=format_hosts([each.host for each in group])) for group in groups]


def refusal(problems: Sequence[Problem], hosts: int) -> LaunchError | PreflightError:
    """One error that names them all."""
    bad = list(dict.fromkeys(problem.host for problem in problems))
    who = bad[0] if hosts == 1 else f"{len(bad)} of {hosts} nodes"
    lines = [f"{who} failed the checks, and nothing was started:"]
    for problem in _folded(problems):
        lines += [f"  {problem.host}: {problem.what}", f"    hint: {problem.fix}"]
    kind = LaunchError if any(problem.unreachable for problem in problems) else PreflightError
    return kind("\n".join(lines))
