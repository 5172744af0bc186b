#!/usr/bin/env python3
"""Reference pages of the site, from the code. `make docs` builds them; they are in no commit."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

import ddpkit
from ddpkit import api, config, errors
from ddpkit.cli import app as program
from ddpkit.execution import on_end
from ddpkit.launchers import registry
from ddpkit.monitor import dump
from ddpkit.node import env_names
from ddpkit.node.owned import MARKER
from ddpkit.run import metrics, record, timeline

ROOT = Path(__file__).resolve().parents[1]


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    made = {
        "cli.md": _cli(),
        "backend-options.md": _backend_options(),
        "settings.md": _settings(),
        "environment.md": _environment(),
        "exit-codes.md": _exit_codes(),
        "json.md": _json(),
        "run-directory.md": _run_directory(),
        "python-api.md": _python_api(),
    }
    titles = [(name, text.partition("\n")[0].removeprefix("# ")) for name, text in made.items()]
    index = ["# Reference", "", "`make docs` writes these pages from the code.", ""]
    made["index.md"] = "\n".join([*index, *(f"* [{title}]({name})" for name, title in titles)]) + "\n"
    return made


def _page(title: str, introduction: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", introduction, "", *lines]).rstrip() + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table without the columns that are empty in every row."""
    cells = list(rows)
    kept = [column for column in range(len(head)) if any(row[column] for row in cells)]
    lines = [" | ".join(_cell(row[column]) for column in kept) for row in cells]
    shown = [" | ".join(head[column] for column in kept), "|".join("---" for _ in kept), *lines]
    return [*(f"| {line} |" for line in shown), ""] if cells else []


def _cell(text: str) -> str:
    """A cell of a table. GitHub and mkdocs differ on a bar in code: there it is an entity."""
    bars = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{code[1].replace('<', '&lt;')}</code>", text)
    return bars.replace("|", "&#124;")


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def _value(value: object) -> str:
    """A value as ddpkit.toml has it; nothing for a setting without a value."""
    if value is None or value in ("", {}, [], ()):
        return ""
    return _code(json.dumps(value) if isinstance(value, (bool, str, list, tuple)) else f"{value}")


# ---- the command line


def _cli() -> str:
    group = program.whole_program()
    lines: list[str] = []
    for title, names in program.COMMANDS.items():
        lines += [f"* **{title}**: " + ", ".join(f"[{name}](#ddpkit-{name.replace(' ', '-')})" for name in names)]
    lines.append("")
    for names in program.COMMANDS.values():
        for name in names:
            lines += _command(name, group.commands[name])
    text = "`ddpkit COMMAND --help` prints the same. Arguments after `--` belong to the script."
    return _page("Command line", text, lines)


def _command(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=f"ddpkit {name}")
    yield from (f"## ddpkit {name}", "", _markdown(command.help or ""), "")
    yield from ("```text", " ".join(["ddpkit", name, *command.collect_usage_pieces(context)]), "```", "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    shown = [each.get_help_record(context) for each in arguments]
    yield from _table(("argument", "meaning"), [(_code(each[0]), _markdown(each[1])) for each in shown if each])
    groups: dict[str, list[Any]] = {}
    for each in command.params:
        if each.param_type_name == "option" and not each.hidden:
            groups.setdefault(getattr(each, "rich_help_panel", None) or "Options", []).append(each)
    for title, options in groups.items():
        if len(groups) > 1:
            yield from (f"**{title}**", "")
        yield from _table(("option", "meaning", "default", "variable"), [_option(name, each) for each in options])
    text, _, examples = (command.epilog or "").partition("\nddpkit ")
    if text:
        yield from (_markdown(text), "")
    if examples:
        yield from ("```sh", *f"ddpkit {examples}".splitlines(), "```", "")


def _option(command: str, option: Any) -> tuple[str, ...]:
    names = ", ".join(_code(name) for name in [*option.opts, *option.secondary_opts])
    text, _, default = (option.help or "").partition("[default: ")
    metavar = f" {_code(option.metavar)}" if option.metavar else ""
    launches = command in ("launch", "test", "bench")
    name = option.name
    known = launches and name in config.SETTINGS and name not in ("options", "env")
    variable = _code(f"DDPKIT_{name.upper()}") if known else _code("DDPKIT_PROFILE") if name == "profile" else ""
    return names + metavar, _markdown(text.strip()), default.rstrip("]").strip(), variable


def _markdown(text: str) -> str:
    """Help text in one paragraph; a placeholder in angle brackets is no tag."""
    return re.sub(r"<(?=[A-Za-z])", "&lt;", inspect.cleandoc(text).replace("\n", " ").replace("\b", "").strip())


# ---- backends


def _backend_options() -> str:
    lines: list[str] = []
    short = {registry.load(alias).name: alias for alias in registry.aliases()}
    for name in registry._BUILT_IN:
        backend = registry.load(name)
        alias = f" (short: `{short[name]}`)" if name in short else ""
        summary = (backend.__doc__ or "").partition("\n")[0]
        lines += [f"## {name}", "", f"`-b {name}`{alias}. {summary} Needs: {backend.needs}.", ""]
        rows = [
            (_code(each.name), each.values, _code(program.shown(each.default)) if each.default != "" else "", each.doc)
            for each in registry.options(backend)
        ]
        lines += _table(("option", "values", "default", "meaning"), rows)
    text = (
        "Pass an option with `-o NAME=VALUE` or `--name VALUE`, or write it under `[options]` in `ddpkit.toml`. "
        "`ddpkit backends NAME` prints the options."
    )
    return _page("Backend options", text, lines)


# ---- ddpkit.toml


def _settings() -> str:
    schema = json.loads((ROOT / "docs/schema/ddpkit.toml.json").read_text())
    known: dict[str, Any] = schema["properties"]
    plain = {name: each for name, each in known.items() if name in config.SETTINGS}
    rows = [
        (
            _code(name),
            _kind(each, {}),
            _value(each.get("default")),
            "" if name in ("options", "env") else _code(f"DDPKIT_{name.upper()}"),
            each.get("description", ""),
        )
        for name, each in plain.items()
    ]
    lines = _table(("setting", "type", "default", "variable", "meaning"), rows)
    lines += ["## Tables and other keys", ""]
    lines += _table(
        ("key", "meaning"), [(_code(n), e.get("description", "")) for n, e in known.items() if n not in plain]
    )
    host = [(_code(each.name), _type(each.type)) for each in dataclasses.fields(config.HostSettings)]
    lines += ["## Settings of one node: `[host.NAME]`", "", *_table(("key", "type"), host)]
    example = "\n".join(re.findall(r"^    .*|^$", inspect.cleandoc(config.__doc__ or ""), re.MULTILINE)[1:])
    lines += ["## Example", "", "```toml", textwrap.dedent(example).strip(), "```", ""]
    text = (
        "Precedence: options of the command line, variables `DDPKIT_*`, the profile, `ddpkit.toml`, defaults. "
        "`ddpkit launch --explain` prints each value and its source. Editors check the file with "
        "[the JSON Schema](../schema/ddpkit.toml.json)."
    )
    return _page("ddpkit.toml", text, lines)


# ---- environment variables

# Variables that plans set in ranks, as tests/golden shows them, and their meaning.
SET = {
    "RANK": "rank of this process in the world, from 0",
    "LOCAL_RANK": "rank on this node, from 0; the index of the GPU",
    "WORLD_SIZE": "number of ranks",
    "LOCAL_WORLD_SIZE": "number of ranks on this node",
    "NODE_RANK": "number of this node, from 0",
    "GROUP_RANK": "the same, as torchrun names it",
    "GROUP_WORLD_SIZE": "number of nodes",
    "ROLE_NAME": "default: all ranks have one role, as torchrun names it",
    "ROLE_RANK": "the same as RANK",
    "ROLE_WORLD_SIZE": "the same as WORLD_SIZE",
    "MASTER_ADDR": "address of rank 0's node",
    "MASTER_PORT": "port of rank 0",
    "OMP_NUM_THREADS": "cores of the node divided by its ranks, unless it is set",
    "PYTHONUNBUFFERED": "1: output appears at once",
    "PYTHONFAULTHANDLER": "1: a crash prints the Python stack",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1: rank 0 opens a store of its own at `MASTER_PORT` (torchrun)",
    "TORCHELASTIC_RUN_ID": "id of the run; Lightning then uses the ranks that exist",
    "TORCHELASTIC_RESTART_COUNT": "restarts before this start, by torchrun, `--retries` or a requeue; 0 at first",
    "TORCHELASTIC_MAX_RESTARTS": "the most of them, by torchrun, `--retries` or `--chain`",
    "DDPKIT_RUN": "id of the run",
}
_USES = {
    "stale": "Removed from the ranks: another launcher, or the job of this shell, has set them.",
    "tuning": "For the ranks, and often set in a shell: a launch prints those that `--env` does not pass on.",
    "container": "Passed into the container of a rank.",
    "reported": "Compared between the nodes by `ddpkit test`.",
    "place": "Read by `ddpkit env` and `ddpkit.distributed.torch.init()`.",
}


def _environment() -> str:
    named = [(f"DDPKIT_{name.upper()}", name) for name in config.SETTINGS if name not in ("options", "env")]
    lines = ["## Settings", "", "Each setting has a variable. See [ddpkit.toml](settings.md) for the meaning.", ""]
    lines += _table(("variable", "setting"), [(_code(variable), _code(name)) for variable, name in named])
    lines += ["## Other variables that ddpkit reads or sets", ""]
    meanings = dict.fromkeys(config.VARIABLES.values())
    rows = [
        (", ".join(_code(name) for name, each in config.VARIABLES.items() if each == text), text) for text in meanings
    ]
    lines += _table(("variable", "meaning"), rows)
    lines += ["## Variables that ddpkit sets in every rank", ""]
    lines += _table(("variable", "meaning"), [(_code(name), text) for name, text in SET.items()])
    lines += ["`--env NAME=VALUE` sets more, and `--env NAME` passes on the value of this shell.", ""]
    lines += ["## Variables of the shell and of other launchers", "", "A star stands for the rest of the name.", ""]
    for use, text in _USES.items():
        names = sorted({name for uses, group in env_names.ENV_NAMES if use in uses.split() for name in group.split()})
        lines += [text, "", ", ".join(map(_code, names)), ""]
    return _page("Environment variables", "ddpkit warns about a variable `DDPKIT_*` that it does not know.", lines)


# ---- exit codes


def _exit_codes() -> str:
    text = inspect.cleandoc(errors.__doc__ or "")
    table = [re.sub(r" {2,}", " ", line) for line in text.splitlines() if line.startswith("|")]
    table[1] = "|---|---|---|"
    rest = [part.replace("\n", " ") for part in text.split("\n\n")[2:]]
    return _page(
        "Exit codes",
        "The codes are the same in every command, and in `error.exit_code` of the Python API.",
        [*table, "", *"\n\n".join(rest).splitlines()],
    )


# ---- JSON documents


def _json() -> str:
    lines: list[str] = []
    for path in sorted((ROOT / "docs/schema").glob("*.json")):
        if path.name == "ddpkit.toml.json":
            continue
        schema = json.loads(path.read_text())
        title = schema.get("title", "").replace("`", "`")
        lines += [f"## {schema['$id']}", "", f"{title}. [Schema](../schema/{path.name})", ""]
        lines += _table(("key", "type", "meaning"), _keys(schema, schema))
    text = (
        "`--json` prints one document on standard output. Its first key is `schema`, with a name and a version. "
        "A version changes only when a key goes or changes its meaning; new keys can appear."
    )
    return _page("JSON documents", text, lines)


def _keys(schema: Any, whole: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    schema = _resolved(schema, whole)
    for name, each in schema.get("properties", {}).items():
        found = _resolved(each, whole)
        optional = "" if name in schema.get("required", [name]) else " May be absent."
        yield _code(prefix + name), _kind(found, whole), (found.get("description", "") + optional).strip()
        inner = _resolved(found.get("items", {}), whole)
        for nested, mark in ((_object(found, whole), "."), (_object(inner, whole), "[].")):
            if nested and prefix.count(".") < 2:
                yield from _keys(nested, whole, f"{prefix}{name}{mark}")


def _object(schema: Any, whole: Any) -> Any:
    """The part of a schema that has keys; None where there is none."""
    parts = [schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return next((found for part in parts if "properties" in (found := _resolved(part, whole))), None)


def _resolved(schema: Any, whole: Any) -> Any:
    """A schema in place of a reference to it."""
    target: str = schema.get("$ref", "")
    if not target.startswith("#/"):
        return schema
    for part in target[2:].split("/"):
        whole = whole[part]
    return {**whole, **{key: value for key, value in schema.items() if key != "$ref"}}


def _kind(schema: Any, whole: Any) -> str:
    if "const" in schema:
        return _code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(_code(json.dumps(value)) for value in schema["enum"])
    parts = schema.get("anyOf") or schema.get("oneOf")
    if parts:
        return " or ".join(_kind(_resolved(part, whole), whole) for part in parts)
    kind = schema.get("type", "any")
    kinds = [kind] if isinstance(kind, str) else kind
    if "array" in kinds and "items" in schema:
        kinds = [f"array of {_kind(_resolved(schema['items'], whole), whole)}" if k == "array" else k for k in kinds]
    return " or ".join(kinds)


# ---- the directory of a run

# Files in the directory of a run, each as a pattern.
FILES = {
    record.FILE: "the record: command, hosts, versions, start, end, verdict (`ddpkit.run/1`)",
    MARKER: "the mark of a directory that ddpkit made, and may remove",
    "rank_*.log": "output of one rank, byte for byte",
    "ddpkit.log": "ddpkit's own lines",
    "all*.index": "order and times of the lines of all ranks; `ddpkit logs` reads it",
    "all*.log": "with `all_log = true`: the lines of all ranks, each with host and rank",
    "torchrun_*.log": "output of torchrun on one node",
    "srun_*.log": "output of srun",
    "status.json": "the newest step of each rank; `ddpkit status` reads it",
    timeline.LAUNCH: "times of the launch, before the ranks started",
    timeline.TIMELINE: "steps and collectives of each rank; the report reads it",
    metrics.KEPT: "a copy of the metrics that the script wrote, in JSON lines",
    metrics.BEFORE: "size and time of each metrics file that was there at the start",
    "report.html": "the page of `ddpkit report`",
    f"dump-*/{dump.SUMMARY}": "summary of one `ddpkit dump`; `stacks.txt` has the stacks of all threads",
    record.CONTROL: "`--via` with `-o transport=openssh`: control socket of the launch, for later commands",
    on_end.LOG: "output of `on_end`",
    on_end.ATTEMPT_LOG: "output of `on_attempt`",
    record.REQUESTS: "requests of other shells to the launcher",
    "job.sbatch": "SLURM: the job script",
    "slurm-*.out": "SLURM: output of the job",
    "hook/*": "SLURM: programs that the ranks load",
    "marks/*": "SLURM: times that the job and its ranks write",
    "stage/*": "SLURM with `--stage`: the program that copies, its list of files, and the times of each node",
    "test.json": "`ddpkit test`: its result (`ddpkit.test/1`)",
}


def _run_directory() -> str:
    lines = _table(("file", "content"), [(_code(name), text) for name, text in FILES.items()])
    text = (
        "Each run has a directory `logs/RUN`, where `RUN` is its id: date, time, script and four random digits. "
        "`--log-dir DIR` replaces `logs`. No file is needed after the run: you can move or delete the directory."
    )
    return _page("Run directory", text, lines)


# ---- the Python API


def _python_api() -> str:
    lines: list[str] = []
    functions = [name for name in ddpkit.__all__ if inspect.isfunction(getattr(ddpkit, name))]
    classes = [name for name in ddpkit.__all__ if inspect.isclass(getattr(ddpkit, name))]
    for name in functions:
        lines += _function(f"ddpkit.{name}", getattr(ddpkit, name), "##")
    lines += [
        "## Settings as keywords",
        "",
        "`launch`, `plan` and `test` take these. See [ddpkit.toml](settings.md).",
        "",
    ]
    rows = [(_code(name), _type(kind)) for name, kind in config.LaunchKeywords.__annotations__.items()]
    lines += _table(("keyword", "type"), rows)
    for name in sorted(classes, key=lambda each: (issubclass(getattr(ddpkit, each), Exception), each != "Run")):
        lines += _class(name, getattr(ddpkit, name))
    text = inspect.cleandoc(api.__doc__ or "")
    return _page("Python API", _blocks(text), lines)


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    yield from (f"## ddpkit.{name}", "", _blocks(inspect.cleandoc(kind.__doc__ or "")), "")
    if issubclass(kind, Exception):
        yield from (f"Exit code: {kind.exit_code}.", "")
    if dataclasses.is_dataclass(kind):
        notes = _comments(kind)
        rows = [(_code(each.name), _type(each.type), notes.get(each.name, "")) for each in dataclasses.fields(kind)]
        yield from _table(("field", "type", "meaning"), rows)
    members = [(each, value) for each, value in vars(kind).items() if not each.startswith("_")]
    properties = [(each, value) for each, value in members if isinstance(value, property)]
    rows = [
        (_code(each), _type(value.fget.__annotations__.get("return", "")), _line(value.__doc__))
        for each, value in properties
        if value.fget
    ]
    yield from _table(("property", "type", "meaning"), rows)
    for each, value in members:
        if inspect.isfunction(value):
            yield from _function(f"{name}.{each}", value, "###")


def _function(name: str, function: Any, mark: str) -> Iterator[str]:
    signature = inspect.signature(inspect.unwrap(function), follow_wrapped=False)  # with **settings
    words = [re.sub(r"'", "", str(each)) for each in signature.parameters.values() if each.name != "self"]
    stars = [p.kind for p in signature.parameters.values() if p.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in stars and inspect.Parameter.VAR_POSITIONAL not in stars:
        words.insert(stars.index(inspect.Parameter.KEYWORD_ONLY), "*")
    back = str(signature.return_annotation).strip("'")
    shown = f"{name}({', '.join(words)}) -> {back}"
    if len(shown) > 88:
        shown = f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f") -> {back}"
    yield from (f"{mark} {name}", "", "```python", shown, "```", "")
    yield from (_blocks(inspect.cleandoc(function.__doc__ or "")), "")


def _comments(kind: type[Any]) -> dict[str, str]:
    """The comment after each field of a class."""
    found = re.findall(r"^    (\w+): [^#\n]*?  # (.*)$", inspect.getsource(kind), re.MULTILINE)
    return dict(found)


def _blocks(text: str) -> str:
    """A docstring as Markdown: its indented parts are Python."""
    parts = re.split(r"\n\n((?:    .*\n?|\n(?=    ))+)", text + "\n")
    parts[1::2] = [f"\n\n```python\n{textwrap.dedent(part).rstrip()}\n```\n" for part in parts[1::2]]
    return "".join(parts).strip()


def _line(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("\n", " ")


def _type(kind: object) -> str:
    kind = getattr(kind, "__forward_arg__", kind)
    return _code(kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind)))
