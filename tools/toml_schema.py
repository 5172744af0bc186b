#!/usr/bin/env python3
"""JSON Schema of ddpkit.toml, from the settings: `python tools/toml_schema.py` writes docs/schema/ddpkit.toml.json.

Types and defaults come from `ddpkit.config`, descriptions from `ddpkit.config`, options from the backends.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ddpkit.config import DAY, MOST_CODE, SETTINGS, HostSettings, LaunchSettings
from ddpkit.errors import MOST_NODES, MOST_PORT, MOST_RANKS
from ddpkit.launchers import registry
from ddpkit.roles.spec import KEYS, OF_RUN

WIDTH = 118  # of a line, with a comma behind it
ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs/schema/ddpkit.toml.json"
URL = "https://raw.githubusercontent.com/ddpkit/ddpkit/main/docs/schema/ddpkit.toml.json"
BACKENDS = ("local", "ssh", "pdsh", "legacy", "slurm", "slurm-torchrun")
MOST = {
    **{"nproc_per_node": MOST_RANKS, "nnodes": MOST_NODES, "port": MOST_PORT, "slots": MOST_RANKS},
    **{"retries": MOST_NODES, "spares": MOST_NODES, "retry_codes": MOST_CODE, "stop_codes": MOST_CODE},
}
MOST_BYTES = (1 << 63) - 1  # of TOML's integers
FROM_ZERO = ("retries", "spares", "log_limit")
TEXT = {"type": "string"}
WORDS = {"type": "array", "items": TEXT}
# Settings whose flag has another sense.
DESCRIPTIONS = {
    "preflight": "Whether a difference between the nodes keeps a run from starting.",
    "hold": "Whether a launch uses the hold of its project.",
    "options": "Options of the backend, as -o KEY=VALUE; `ddpkit backends NAME` lists them.",
    "env": "Variables for every rank.",
}
OF_HOST = {
    "user": "User name for SSH.",
    "port": "Port of sshd.",
    "slots": "Ranks on this node.",
    "python": "Python on this node.",
    "workdir": "Working directory on this node.",
    "env": "Variables for the ranks on this node.",
}
NUMBER = {"type": "integer", "minimum": 0, "maximum": MOST_NODES}
OF_ROLE: dict[str, tuple[dict[str, Any], str]] = {
    "command": ({"anyOf": [TEXT, WORDS]}, "Script or program with its words: `serve.py --port {port}`."),
    "replicas": ({**NUMBER, "minimum": 1}, "Replicas on its nodes; default: one, for a service one on each node."),
    "after": (WORDS, "Roles that have to be ready before."),
    "ends_run": ({"type": "boolean"}, "The run ends well once all such roles have ended with 0."),
    "ready": (TEXT, "When it is ready: `http:/health`, `tcp`, or `line: a regular expression`."),
    "ready_timeout": ({"type": ["string", "number"]}, 'Time from its start until it has to be ready: 90 or "20m".'),
    "restart": (NUMBER, "Restarts of one replica that do not end the run."),
    "beside": (TEXT, "Role whose nodes it shares."),
    "gpus": (NUMBER, "GPUs of each node; the others are for roles beside it."),
    "cpus": ({**NUMBER, "minimum": 1}, "CPUs of each node; the others are for roles beside it."),
}
# What the parser accepts beside the type of the setting.
ALSO: dict[str, list[dict[str, Any]]] = {
    "script": [TEXT],
    "nnodes": [{"type": "string", "pattern": "^[0-9]+:[0-9]+$"}],
    "log_limit": [{"type": "string", "pattern": "^[0-9]+([KMGTkmgt]?)([iI]?[bB])?$"}],
    "nproc_per_node": [{"type": "string", "pattern": "^[0-9]+(,[0-9]+)*$"}],
    **{name: [TEXT, {"type": "integer", "minimum": 1, "maximum": MOST_CODE}] for name in ("retry_codes", "stop_codes")},
}


def schema() -> dict[str, Any]:
    """The whole schema."""
    settings = _settings()
    hosts = {name: _described(name, kind, OF_HOST[name]) for name, kind in get_type_hints(HostSettings).items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": URL,
        "title": "ddpkit.toml",
        "description": "Settings of ddpkit for a project.",
        **_table(
            {
                **settings,
                "profile": {**TEXT, "description": "The profile that is used without --profile."},
                "profiles": _by_name(
                    _table({name: {"$ref": f"#/properties/{name}"} for name in settings}),
                    "Settings by name: `ddpkit launch --profile NAME`.",
                ),
                "groups": _by_name(WORDS, "Names for groups of nodes: `ddpkit launch -b ssh @NAME`."),
                "host": _by_name(_table(hosts), "Settings of one node."),
                "roles": _by_name(_role(settings), "Programs of one run, which `ddpkit launch` starts."),
            }
        ),
    }


def _role(settings: dict[str, Any]) -> dict[str, Any]:
    """The table of a role: its own keys, and settings of a launch."""
    own: dict[str, Any] = {name: {**OF_ROLE[name][0], "description": OF_ROLE[name][1]} for name in KEYS}
    shared = {name: {"$ref": f"#/properties/{name}"} for name in settings if name not in OF_RUN}
    return {**_table({**own, **shared}), "required": ["command"]}


def _settings() -> dict[str, Any]:
    kinds = get_type_hints(LaunchSettings)
    defaults = {each.name: each.default_factory() for each in fields(LaunchSettings) if callable(each.default_factory)}
    shown = {}
    for name, setting in SETTINGS.items():
        description = DESCRIPTIONS.get(name) or re.sub(r" \[default.*", "", setting.help)
        shown[name] = _described(name, kinds[name], description)
        if defaults[name] not in (None, "", (), {}) and name != "python":
            value = defaults[name]
            shown[name]["default"] = list(value) if isinstance(value, tuple) else value
    shown["options"]["properties"] = _options()
    return shown


def _options() -> dict[str, Any]:
    known: dict[str, Any] = {}
    for backend in BACKENDS:
        for each in registry.options(registry.load(backend)):
            known.setdefault(each.name, {"description": each.doc})
    return dict(sorted(known.items()))


def _described(name: str, kind: Any, description: str) -> dict[str, Any]:
    forms = [*_forms(name, kind), *ALSO.get(name, [])]
    return {"description": description, **(forms[0] if len(forms) == 1 else {"anyOf": forms})}


def _forms(name: str, kind: Any) -> list[dict[str, Any]]:
    """The JSON types of a Python type."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is type(None) or kind == tuple[int, int]:  # text in TOML: see ALSO
        return []
    if kind in (str, bool, int, float):
        number = {
            int: {"type": "integer", "minimum": int(name not in FROM_ZERO), "maximum": MOST.get(name, MOST_BYTES)},
            float: {"type": "number", "minimum": 0, "maximum": DAY},
        }
        return [number.get(kind) or {"type": "string" if kind is str else "boolean"}]
    if origin is Literal:
        return [{"enum": list(inner)}]
    if origin is tuple:
        return [{"type": "array", "items": each} for each in _forms(name, inner[0])]
    if name == "env":
        return [{"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}]
    if name == "options":
        return [{"type": "object"}]
    return [form for each in inner for form in _forms(name, each)]


def _table(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _by_name(inner: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "description": description, "additionalProperties": inner}


def formatted(value: Any, indent: int = 0, before: int = 0) -> str:
    """JSON as people write it: what fits into a line, behind `before` other characters of it, stands on one."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or not value or indent + before + len(line) < WIDTH:
        return line
    inner, outer = "\n" + " " * (indent + 2), "\n" + " " * indent
    if isinstance(value, dict):
        keys = [(f"{json.dumps(key)}: ", each) for key, each in value.items()]
        rows = [key + formatted(each, indent + 2, len(key)) for key, each in keys]
        return "{" + inner + f",{inner}".join(rows) + outer + "}"
    return "[" + inner + f",{inner}".join(formatted(each, indent + 2) for each in value) + outer + "]"


if __name__ == "__main__":
    TARGET.write_text(formatted(schema()) + "\n")
    print(TARGET)
