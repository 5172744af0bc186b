"""Values that a shell completes: runs, backends and their options, profiles, hosts. Typer does the rest.

They are read from the records of runs and from `ddpkit.toml`. No program is run, no host is queried.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

VARIABLE = "_DDPKIT_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
# Typer's function for zsh evaluates each value, and that for bash expands `*` and `[`.
_PLAIN = re.compile(r"[\w.@:=/+,-]+")


def print_candidates() -> int:
    """Answer the function of a shell, which has put the words into the environment. Returns an exit code."""
    from typer.completion import completion_init, shell_complete  # type: ignore[attr-defined]

    from ddpkit.cli.app import whole_program

    completion_init()
    try:
        return shell_complete(whole_program(), {}, "ddpkit", VARIABLE, os.environ[VARIABLE])
    except Exception:
        return 0  # nothing is offered, and nothing is said in the line; the command itself will report the error


def _offered(values: Callable[..., list[str]]) -> Callable[..., list[str]]:
    @wraps(values)
    def offer(**words: Any) -> list[str]:
        return [value for value in values(**words) if _PLAIN.fullmatch(value)]

    return offer


@_offered
def shells() -> list[str]:
    return [*SHELLS]


@_offered
def runs() -> list[str]:
    """Return the ids of all runs, for any command that takes a RUN."""
    from ddpkit.run import run_index

    return [entry.run.run_id for entry in run_index.list_runs() if entry.run is not None]


@_offered
def known_failures(incomplete: str) -> list[str]:
    """Return the ids of the catalogue; before the first letter the shell offers files."""
    from ddpkit.diagnosis.catalogue import BY_ID

    return [*BY_ID] if incomplete else []


@_offered
def backends() -> list[str]:
    from ddpkit.launchers import registry

    return [*registry.names(), *registry.aliases()]


@_offered
def options(ctx: typer.Context) -> list[str]:
    """Return `KEY=` for each option of the chosen backend."""
    from ddpkit.launchers import registry

    backend = ctx.params.get("backend") or _settings(ctx).backend
    return [f"{each.name}=" for each in registry.options(registry.load(backend))]


@_offered
def profiles() -> list[str]:
    from ddpkit import config

    return [*config.read_file(Path.cwd()).profiles]


@_offered
def hosts(ctx: typer.Context) -> list[str]:
    """Return groups, and the nodes that ddpkit.toml or the host file names; none for a backend that takes none."""
    from ddpkit.files import read_trusted
    from ddpkit.launchers import registry
    from ddpkit.transports.choose import transport_class
    from ddpkit.transports.hosts import parse, parse_file

    # bash gives the pieces of `me@node` and `KEY=VALUE` as words of their own.
    pieces = os.environ.get("COMP_WORDS", "").split("\n")
    is_end_of_word = pieces[-2:-1] in (["@"], ["="], [":"])
    is_of_script = any(word.endswith(".py") or "/" in word for word in ctx.params.get("hosts") or ())
    if is_end_of_word or is_of_script:
        return []
    settings = _settings(ctx)
    if not transport_class(registry.load(ctx.params.get("backend") or settings.backend)).names_nodes:
        return []
    groups = [f"@{group}" for group in settings.groups]
    specs = [spec for word in (*groups, *settings.hosts) for spec in parse([word], settings.groups, {})]
    path = ctx.params.get("hostfile") or settings.hostfile
    if path:
        text, untrusted = read_trusted(Path(path))
        specs += [] if untrusted else parse_file(path, text, {}, "", settings.groups)
    return [*groups, *settings.host, *(f"{each.user}@{each.label}" if each.user else each.label for each in specs)]


@_offered
def words_of_nodes(ctx: typer.Context) -> list[str]:
    """Return the actions of `ddpkit nodes`; behind one of them the bad nodes."""
    from ddpkit.run import bad_nodes

    if not ctx.params.get("words"):
        return ["check", "forgive"]
    return [node.host for node in bad_nodes.known(_settings(ctx).bad_nodes, time.time()).nodes]


def _settings(ctx: typer.Context) -> Any:
    """Return the settings of the environment and the files."""
    from ddpkit import config

    return config.collect_settings(config.current_folder(), os.environ, ctx.params.get("profile") or None, {})
