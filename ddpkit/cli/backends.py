"""`ddpkit backends` and `ddpkit env`: backends, and the rank of this process."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json, shown
from ddpkit.cli.foreign import LETTERS
from ddpkit.cli.look import WIDEST, rich_out, table
from ddpkit.errors import UsageError


@app.command(cls=LeanCommand)
def backends(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One backend with all its options.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the backends, what they need, and their options."""
    from ddpkit.launchers import registry
    from ddpkit.transports.choose import transport_class

    try:
        chosen = [registry.load(each) for each in ([name] if name else registry.names())]
    except UsageError as error:  # its hint is one for a launch
        hint = re.sub(r"^add -b (\S+).*", r"ddpkit backends \1", error.hint or "")
        raise UsageError(error.message, hint or None) from None
    usual = _default_backend()
    described = [
        {
            "name": each.name,
            "alias": None if (short := registry.short_name(each.name)) == each.name else short,
            "default": each.name == usual,
            "summary": (each.__doc__ or "").partition("\n")[0],
            "needs": each.needs,
            "options": [
                {"name": entry.name, "values": entry.values, "default": entry.default, "doc": entry.doc}
                for entry in registry.options(each)
            ],
        }
        for each in chosen
    ]
    if as_json:
        print_json("backends", {"backends": described})
    elif name is None:
        rows = [(_shown_name(d), d["summary"], d["needs"]) for d in described]
        table(("backend", "what it does", "needs"), sorted(rows, key=lambda row: "default" not in row[0]))
        print("options of one backend: ddpkit backends NAME")
    else:
        one = described[0]
        print(f"{_shown_name(one)}: {one['summary']}\nneeds: {one['needs']}")
        letters = {long: f"{letter}, " for letter, long in LETTERS.items()} if transport_class(chosen[0]).slurm else {}
        named = [(f"--{entry['name'].replace('_', '-')}", entry) for entry in one["options"]]
        options = [(letters.get(f, "") + f, e["values"], shown(e["default"]), e["doc"]) for f, e in named]
        if rich_out() and shutil.get_terminal_size().columns < WIDEST:
            table(("option", "what it does"), [(option, _in_one_cell(*cells)) for option, *cells in options])
        else:
            table(("option", "values", "default", "what it does"), options)
        print("each also as -o NAME=VALUE, and in ddpkit.toml under [options]")


def _in_one_cell(values: str, default: str, doc: str) -> str:
    """Describe an option for a narrow window: `container runtime [auto | enroot; default: auto]`."""
    facts = [values] * (values != "text") + [f"default: {default}"] * bool(default)
    return f"{doc} [{'; '.join(facts)}]" if facts else doc


def _default_backend() -> str:
    """The backend of a launch without -b."""
    from ddpkit import config
    from ddpkit.launchers import registry

    chosen = config.collect_settings(config.current_folder(), os.environ, None, {}).backend
    return registry.aliases().get(chosen, chosen)


def _shown_name(described: Mapping[str, object]) -> str:
    """`ssh (ssh-torchrun-auto)`, `local (default)`."""
    name, alias = described["name"], described["alias"]
    notes = [str(name)] * bool(alias) + ["default"] * bool(described["default"])
    return f"{alias or name}{' (' + ', '.join(notes) + ')' if notes else ''}"


def _allowed_cpus() -> str:
    """Return the CPUs of this process in the form of `taskset -c`; macOS has no such list."""
    from ddpkit.launchers.cpu_binding import format_cpus

    return format_cpus(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ""


@app.command(name="env", cls=LeanCommand)
def show_env(
    as_json: JsonFlag = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also show which sources were not used, and why.")] = False,
) -> None:
    """Show this process's rank and world size, and where they come from."""
    from ddpkit.distributed.torch import explain as explain_environment
    from ddpkit.distributed.torch import gather_facts

    resolution = explain_environment(os.environ, (), gather_facts(os.environ))
    env, error = resolution.env, resolution.error
    if as_json:
        document = {
            "cpus": _allowed_cpus(),
            "env": env and {**asdict(env), "origin": dict(env.origin)},
            "error": error and error.message,
            "hint": error and error.hint,
            "seen": dict(resolution.seen),
            "rejected": [asdict(entry) for entry in resolution.rejected],
        }
        print_json("env", document)
    elif env is not None:
        values = {name: value for name, value in asdict(env).items() if name != "origin"}
        rows = [(name, shown(value), env.origin.get(name, "")) for name, value in values.items()]
        rows.append(("cpus", _allowed_cpus(), f"affinity of this process; the machine has {os.cpu_count()}"))
        table(("field", "value", "from"), rows)
    if explain and not as_json:
        table(("not used", "why"), [(entry.source, entry.reason) for entry in resolution.rejected])
        table(("variable seen", "value"), list(resolution.seen.items()))
    if error is not None:
        if as_json:
            raise typer.Exit(error.exit_code)
        raise error
