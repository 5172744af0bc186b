"""Reads entries from TOML. Whatever is wrong with one is a `CatalogueError` that names the file and the entry."""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from ddpkit.diagnosis.catalogue.entry import NOTHING, OWN, Entry, Instead
from ddpkit.diagnosis.catalogue.matcher import compile_linear, words_of
from ddpkit.errors import DdpkitError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PART = "part"  # the key of a file that is no entry: the title of its part
EXAMPLES = "examples"  # the key of an entry that only tests and pages read
NOT_READ = ("id", "origin")  # fields of an entry that are no keys of its table
# Fields that hold regular expressions. `branches` has them as values.
EXPRESSIONS = ("patterns", "needs", "context", "branches", "overcome_by", "explains_text", "request")
EXPRESSIONS_OF_INSTEAD = ("text", "near", "frames", "above", "needs", "unless")
Tables = Mapping[str, Mapping[str, Any]]  # of entries, by their ids
ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_GROUP_OF_MATCH = re.compile(r"\(\?P=\w+\)")


class CatalogueError(DdpkitError):
    """A file of entries that cannot be used: where, and why."""


class Example(NamedTuple):
    """A text that a program printed, and how that is known."""

    text: str
    source: str


class File(NamedTuple):
    """The content of a file of entries."""

    part: str
    entries: dict[str, dict[str, Any]]  # tables as they are in the file, without the examples
    examples: dict[str, tuple[Example, ...]]


def _tables_of(content: bytes | str, name: str) -> dict[str, Any]:
    try:
        tables: dict[str, Any] = tomllib.loads(content if isinstance(content, str) else content.decode())
    except (RecursionError, ValueError) as error:  # also of its text, and of UTF-8
        raise CatalogueError(f"{name}: invalid TOML: {error}") from None
    return tables


def read_file(content: bytes | str, name: str) -> File:
    """Read a file of entries. Raises CatalogueError."""
    tables = _tables_of(content, name)
    part = tables.pop(PART, "")
    if not isinstance(part, str):
        raise CatalogueError(f"{name}: part = {part!r} is not a text")
    examples: dict[str, tuple[Example, ...]] = {}
    for entry, table in tables.items():
        place = f"{name}: [{entry}]"
        if not isinstance(table, dict):
            raise CatalogueError(f"{name}: {entry} = {table!r} stands outside of an entry: [ID] begins one")
        if not ID.fullmatch(entry):
            raise CatalogueError(f"{place}: an id is lower-case words with hyphens between them")
        examples[entry] = _examples(table.pop(EXAMPLES, []), place)
        _check_table(table, Entry, place)
        _check_expressions(table, place)
    return File(part, tables, examples)


def read_checks(content: bytes | str, name: str, known: Container[str]) -> dict[str, list[tuple[str, str, str, str]]]:
    """Read the file of symptoms: rows of entry, text, cause and fix, by check. Raises CatalogueError."""
    found: dict[str, list[tuple[str, str, str, str]]] = {}
    for check, rows in _tables_of(content, name).items():
        for row in rows:
            place = f"{name}: {check}"
            if row.get("entry") not in known or not row.keys() <= {"entry", "text", "cause", "fix"}:
                raise CatalogueError(f"{place}: {row} has an unknown key, or names no entry")
            _check_expression(row.get("text", ""), place)
            found.setdefault(check, []).append(
                (row["entry"], row.get("text", ""), row.get("cause", ""), row.get("fix", ""))
            )
    return found


def read_forms(content: bytes | str, name: str) -> dict[str, list[str]]:
    """Read the file of forms: lists of regular expressions by their names. Raises CatalogueError."""
    tables = _tables_of(content, name)
    parts = tables.pop("parts", {})
    found: dict[str, list[str]] = {}
    for title, lists in tables.items():
        for key, texts in lists.items():
            whole = [re.sub(r"<(\w+)>", lambda part: parts.get(part[1], part[0]), each) for each in texts]
            for each in whole:
                _check_expression(each, f"{name}: {key}")
            found[key] = [f"(?i){whole[0]}", *whole[1:]] if title == "in_any_case" else whole
    return found


def check_references(tables: Tables, places: Mapping[str, str], known: Iterable[str]) -> None:
    """Raise CatalogueError for an unknown id in `explains` or `of`, and for entries that explain each other.

    places: the file of each entry. known: ids of entries of other files; none of them explains one of `tables`.
    """
    ids = {OWN, *tables, *known}
    for name, table in tables.items():
        place = f"{places[name]}: [{name}]"
        named = {
            "explains": table.get("explains", []),
            "of": [x for each in table.get("instead", []) for x in each["of"]],
        }
        for key, names in named.items():
            for each in names:
                if each not in ids and not (key == "of" and each == NOTHING):
                    raise CatalogueError(f"{place}: {key} names {each!r}, which is no id")
    try:
        TopologicalSorter({name: table.get("explains", []) for name, table in tables.items()}).prepare()
    except CycleError as error:
        name, *circle = reversed(error.args[1])
        why = f"explains forms a circle: {' -> '.join((name, *circle))}"
        raise CatalogueError(f"{places[name]}: [{name}]: {why}") from None


# ---- the type of each field


def _check_table(table: Mapping[str, Any], of: type, place: str) -> None:
    """Raise CatalogueError unless a table has the fields of a data class, each with a value of its type."""
    hints = get_type_hints(of)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(of) if field.name not in NOT_READ}
    for key, value in table.items():
        if key not in known:
            raise CatalogueError(f"{place}: unknown field {key!r}; it has {', '.join((*known, EXAMPLES))}")
        problem = _problem(value, hints[key], f"{place}: {key}")
        if problem:
            raise CatalogueError(f"{place}: {key} = {value!r}: {problem}")
    missing = [key for key, field in known.items() if field.default is MISSING and key not in table]
    if missing:
        raise CatalogueError(f"{place}: {missing[0]} is missing")


def _problem(value: Any, hint: Any, place: str) -> str:
    """Return why a value has not the type of its field; empty if it has."""
    if hint in (str, bool, int):
        names = {str: "a text", bool: "true or false", int: "a number"}
        return "" if type(value) is hint else f"not {names[hint]}"
    if get_origin(hint) is Literal:
        return "" if value in get_args(hint) else f"none of {', '.join(filter(None, get_args(hint)))}"
    (of, *_) = get_args(hint)  # else a tuple: the type of what it holds
    if get_args(of) == (str, str):  # pairs
        texts = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
        return "" if texts else "not a table of names and texts"
    if not isinstance(value, list):
        return "not a list"
    if of is Instead:
        for each in value:
            if not isinstance(each, dict):
                return "not tables: [[ID.instead]] begins one"
            _check_table(each, Instead, place)
        return ""
    if of is str:
        return "" if all(isinstance(each, str) for each in value) else "not a list of texts"
    size = len(get_args(of))
    whole = all(isinstance(each, list) and len(each) == size and all(type(x) is str for x in each) for each in value)
    return "" if whole else f"not a list of lists of {size} texts"


def _examples(value: Any, place: str) -> tuple[Example, ...]:
    whole = isinstance(value, list) and all(
        isinstance(each, dict)
        and each.keys() == {"text", "source"}
        and all(isinstance(text, str) and text for text in each.values())
        for each in value
    )
    if not whole:
        raise CatalogueError(f"{place}: an example is a table of two texts: {{source = '...', text = '...'}}")
    return tuple(Example(each["text"], each["source"]) for each in value)


# ---- regular expressions


def _check_expressions(table: Mapping[str, Any], place: str) -> None:
    for key in EXPRESSIONS:
        value = table.get(key, ())
        for text in [value] if isinstance(value, str) else value.values() if isinstance(value, dict) else value:
            _check_expression(text, f"{place}: {key}", searched=key == "patterns")
    for each in table.get("instead", ()):
        for key in EXPRESSIONS_OF_INSTEAD:
            _check_expression(each.get(key, ""), f"{place}: instead.{key}")


def _check_expression(text: str, place: str, searched: bool = False) -> None:
    try:
        # A group of the match stands in other expressions; its text takes its place when they are searched.
        compile_linear(text) if searched else re.compile(_GROUP_OF_MATCH.sub("x", text))
    except (re.error, RecursionError, OverflowError) as error:
        raise CatalogueError(f"{place}: {text!r} is no regular expression: {error}") from None
    if searched and not words_of(text):
        why = "it has no whole word of three letters outside of groups, by which lines are chosen"
        raise CatalogueError(f"{place}: {text!r} would be tried on every line: {why}")
