"""Lines that nearly match a regular expression: pieces of itself, repeated. They find patterns whose time explodes."""

from __future__ import annotations

import importlib
import re
import sys

parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

FILLERS = ("_", " ", "a.", "A", "1", "a-", "/a", "[E ")
_CATEGORIES = {"WORD": "a", "DIGIT": "1", "SPACE": " ", "NOT_SPACE": "a", "NOT_WORD": " ", "NOT_DIGIT": "a"}
_CLASSES = {"WORD": r"\w", "DIGIT": r"\d", "SPACE": r"\s", "NOT_SPACE": r"\S", "NOT_WORD": r"\W", "NOT_DIGIT": r"\D"}


def lines_like(pattern: str, length: int) -> set[str]:
    """Lines of so many characters: beginnings of a match repeated, and long runs around its words."""
    parts: list[str] = []
    _collect(parser.parse(pattern), parts)
    text, count = "".join(parts), len(parts)
    pieces = {text[:-1], text, text[: len(text) // 2], text[len(text) // 2 :]}
    pieces |= {"".join(parts[:at]) for at in (count // 4, count // 2, 3 * count // 4)}
    lines = {(piece * length)[:length] for piece in pieces if piece}
    lines |= {(f"{piece} " * length)[:length] for piece in pieces if piece}
    word = max(re.findall(r"[A-Za-z]{3,}", text), key=len, default="")
    for filler in FILLERS:
        run = (filler * length)[:length]
        lines |= {word + run, run + word, run[: length // 2] + text[:-1] + run[: length // 2]}
    return lines


def _collect(tree: object, parts: list[str]) -> None:
    for operation, value in tree:  # type: ignore[attr-defined]
        name = str(operation)
        if name == "LITERAL":
            parts.append(chr(value))
        elif name == "NOT_LITERAL":
            parts.append("y" if value == ord("x") else "x")
        elif name == "ANY":
            parts.append("a")
        elif name == "IN":
            parts.append(_member(value))
        elif name == "BRANCH":
            _collect(value[1][0], parts)
        elif name == "SUBPATTERN":
            _collect(value[3], parts)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            piece: list[str] = []
            _collect(inner, piece)
            parts.append("".join(piece) * max(least, min(2, int(most))))


def _member(items: list[tuple[object, object]]) -> str:
    if str(items[0][0]) == "NEGATE":
        one = re.compile(_as_class(items))
        return next((char for char in "a1 _.-/" if one.fullmatch(char)), "~")
    kind, value = str(items[0][0]), items[0][1]
    if kind == "LITERAL":
        return chr(value)  # type: ignore[arg-type]
    if kind == "RANGE":
        return chr(value[0])  # type: ignore[index]
    return _CATEGORIES[str(value).removeprefix("CATEGORY_")]


def _as_class(items: list[tuple[object, object]]) -> str:
    text = ""
    for operation, value in items:
        kind = str(operation)
        if kind == "NEGATE":
            text += "^"
        elif kind == "LITERAL":
            text += re.escape(chr(value))  # type: ignore[arg-type]
        elif kind == "RANGE":
            text += f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"  # type: ignore[index]
        else:
            text += _CLASSES[str(value).removeprefix("CATEGORY_")]
    return f"[{text}]"
