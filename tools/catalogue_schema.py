#!/usr/bin/env python3
"""JSON Schema of the catalogue's files, from `Entry`: `python tools/catalogue_schema.py` writes it into docs/schema."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from toml_schema import ROOT, TEXT, WORDS, formatted

from ddpkit.diagnosis.catalogue.entry import Entry, Instead
from ddpkit.diagnosis.catalogue.reading import EXPRESSIONS, EXPRESSIONS_OF_INSTEAD, ID, NOT_READ

TARGET = ROOT / "docs/schema/catalogue.toml.json"
URL = "https://raw.githubusercontent.com/ddpkit/ddpkit/main/docs/schema/catalogue.toml.json"
DESCRIPTIONS = {
    "title": "The symptom, as the user sees it.",
    "cause": "Why it happens, in one sentence without a full stop. {name} is the text of a named group of a pattern.",
    "fix": "One command, or one change.",
    "probe": "One command that shows whether this is the cause.",
    "link": "A public page about it.",
    "kind": "cause: it ends a run. death: how a process died, without a reason. generic: a failure without a reason. "
    "hint: a warning that can explain a failure. consequence: other ranks print it after the first failure. "
    "noise: harmless.",
    "patterns": "Each is searched in one line, and has a whole word of three letters outside of groups.",
    "needs": "A text that must be in the same log; (?P=name) is the text of a named group.",
    "context": "Looked for in the lines above and in a few below; its named groups fill {names}, too.",
    "branches": "Texts by name: `{name? words}` is left out where the log has the text of another branch alone.",
    "overcome_by": "A text of the same log with which it did no harm.",
    "doubtful": "Healthy runs print it, too: outside of a traceback, other causes come first.",
    "explains": "Ids of failures whose reason this is, where it stands in the same log.",
    "explains_text": "The same for exceptions of the script's own with this text.",
    "instead": "Where this entry stands in the place of another one.",
    "reads": "A function of ddpkit that reads values from the lines; for its own entries alone.",
    "meanings": "Words for the text of a group: the name of the group, its text, the words.",
    "action": "What follows; without it, a cause stops the run.",
    "reason": "Why the action follows, in words.",
    "request": "A text of the line that is a mistake that each host would repeat.",
    "evidence": "kernel: only a kernel or a scheduler prints it, and it may put a host aside.",
    "role": "Of the rank that prints it. waits: it waited for another one. misses: another one is gone.",
    "seen": "Names of what ddpkit or a kernel saw of it without a text; for ddpkit's own entries.",
    "lasts": "Hours for which a node with it is remembered as bad.",
    "scope": "What it is of, if not of a rank or a node.",
    "of": "Ids of the entries in whose place it stands.",
    "text": "A text of the line.",
    "near": "A text of the frame above it, with its code.",
    "frames": "A text of another frame of its traceback.",
    "above": "A text of the lines above.",
    "unless": "A text that no frame may have.",
}
EXAMPLE = {
    "type": "object",
    "properties": {
        "source": {**TEXT, "description": "A public link, or `torch 2.6, run`: also source, documented, unverified."},
        "text": {**TEXT, "description": "What was printed."},
    },
    "required": ["source", "text"],
    "additionalProperties": False,
}


def schema() -> dict[str, Any]:
    """The whole schema."""
    examples = {"type": "array", "items": EXAMPLE, "description": "Texts that were printed; each leads to this entry."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": URL,
        "title": "Known failures: files of ddpkit's catalogue, and of a site",
        "type": "object",
        "properties": {"part": {**TEXT, "description": "The title of the part to which these entries belong."}},
        "patternProperties": {f"^(?!part$){ID.pattern}$": _table(Entry, EXPRESSIONS, {"examples": examples})},
        "additionalProperties": False,
    }


def _table(of: type, expressions: tuple[str, ...], also: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(of)
    known = [field for field in fields(of) if field.name not in NOT_READ]
    shown = {
        field.name: {"description": DESCRIPTIONS[field.name], **_form(hints[field.name], field.name in expressions)}
        for field in known
    }
    return {
        "type": "object",
        "properties": {**shown, **also},
        "required": [field.name for field in known if field.default is MISSING],
        "additionalProperties": False,
    }


def _form(kind: Any, expression: bool) -> dict[str, Any]:
    """The JSON type of a Python type."""
    text = {**TEXT, "format": "regex"} if expression else TEXT
    plain = {str: text, bool: {"type": "boolean"}, int: {"type": "integer"}}
    if kind in plain:
        return plain[kind]
    if get_origin(kind) is Literal:
        return {"enum": [each for each in get_args(kind) if each]}
    (of, *_) = get_args(kind)
    if of is Instead:
        return {"type": "array", "items": _table(Instead, EXPRESSIONS_OF_INSTEAD, {})}
    if of is str:
        return {"type": "array", "items": text}
    size = len(get_args(of))
    if size == 2:
        return {"type": "object", "additionalProperties": text}
    return {"type": "array", "items": {**WORDS, "minItems": size, "maxItems": size}}


if __name__ == "__main__":
    TARGET.write_text(formatted(schema()) + "\n")
    print(TARGET)
