"""`ddpkit backends` and `ddpkit env`: what there is, and who a process is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Annotated

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app, shown
from ddpkit.cli.look import table


@app.command(cls=LeanCommand)
def backends(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One backend with all its options.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the backends, what they need, and their options."""
    from ddpkit.launchers import registry

    chosen = [registry.load(each) for each in ([name] if name else registry.names())]
    described = [
        {
            "name": each.name,
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
        print(json.dumps(described, indent=2))
    elif name is None:
        table(("backend", "what it does", "needs"), [(d["name"], d["summary"], d["needs"]) for d in described])
    else:
        one = described[0]
        print(f"{one['name']}: {one['summary']}\nneeds: {one['needs']}")
        rows = [(f"-o {e['name']}=", e["values"], shown(e["default"]), e["doc"]) for e in one["options"]]
        table(("option", "values", "default", "what it does"), rows)


@app.command(name="env", cls=LeanCommand)
def show_env(
    as_json: JsonFlag = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also say which sources were not used, and why.")] = False,
) -> None:
    """Show who this process is among its peers, and why."""
    from ddpkit.distributed.torch import explain as explain_environment
    from ddpkit.distributed.torch import gather_facts

    resolution = explain_environment(os.environ, (), gather_facts(os.environ))
    env, error = resolution.env, resolution.error
    if as_json:
        document = {
            "env": env and {**asdict(env), "origin": dict(env.origin)},
            "error": error and error.message,
            "hint": error and error.hint,
            "seen": dict(resolution.seen),
            "rejected": [asdict(entry) for entry in resolution.rejected],
        }
        print(json.dumps(document, indent=2))
    elif env is not None:
        values = {name: value for name, value in asdict(env).items() if name != "origin"}
        rows = [(name, shown(value), env.origin.get(name, "")) for name, value in values.items()]
        table(("field", "value", "from"), rows)
    if explain and not as_json:
        table(("not used", "why"), [(entry.source, entry.reason) for entry in resolution.rejected])
        table(("variable seen", "value"), list(resolution.seen.items()))
    if error is not None:
        if as_json:
            raise typer.Exit(error.exit_code)
        raise error
