#!/usr/bin/env python3
"""Sentences of over 30 words in texts that people read: `python tools/readability.py [PART ...]`.

A PART is a part of a file's name, for example `preflight` or `README`. A placeholder, an inline code span and a path
count as one word. Code blocks and headings of documents do not count; a table's cell is a text.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ddpkit"
LONGEST = 30  # words of a sentence

# A literal with none of these is a name, a command or code, not a sentence.
_FUNCTION_WORDS = frozenset(
    """
    a an and are as at be been but by can cannot did do does each every for from had has have if in into is it its more
    must no none not nothing of on one only or other same so than that the their them then there they this those to too
    was were what when where which while who why will with without
    """.split()
)
_CODE = re.compile(
    r"[{};]\n|^function |\(\?|\\[wdsS.]|^\s*(?:<|#!|import |from \w+ import)|\bfi\b|\bdone\b;|\$\(|\|\||&&|=\{"
)
_EXAMPLES = re.compile(r"(?m)^[\s\b]*ddpkit [a-z].*$")  # commands of a help text, one a line
# Arguments that are no prose: regular expressions, identifiers, addresses.
_NO_PROSE = frozenset(("id", "link", "patterns", "needs", "kind", "doc", "evidence_pattern"))


class Text(NamedTuple):
    where: str  # file:line, or the command
    text: str


# ---- sentences


def sentences(text: str) -> list[str]:
    """Split at the end of a sentence and at a line that begins a paragraph."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d{1,2}\.)\s)", text)
    found = []
    for block in blocks:
        found += re.split(
            r"(?:(?<=[a-z0-9)\]`'\"*%_X][.!?])|(?<=[A-Z]{2}[.!?]))(?:[*_]+)?\s+(?=[\"'`(*\[]*[A-Z0-9`<-])",
            " ".join(block.split()),
        )
    return [each for each in found if re.search(r"\w", each)]


def words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


# ---- texts of the source


def literal(node: ast.AST) -> str | None:
    """Text of a string or an f-string, with X for each placeholder; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{[^{}]*\}", "X", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
        )  # a conditional inside a placeholder is visited on its own
    return None


def is_prose(text: str) -> bool:
    plain = re.findall(r"(?<![\w/.-])[A-Za-z']+(?![\w/=-])", text)
    return len(plain) >= 3 and bool({word.lower() for word in plain} & _FUNCTION_WORDS) and not _CODE.search(text)


def _docstrings(tree: ast.Module) -> set[int]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, kinds) and node.body]
    return {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}


def _no_prose(tree: ast.Module) -> set[int]:
    """Nodes that hold regular expressions and identifiers."""
    skipped = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        parts: list[ast.AST] = [each.value for each in node.keywords if each.arg in _NO_PROSE]
        if name == "Symptom":
            parts += node.args[:2]
        if name.startswith("re."):
            parts += node.args
        if isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            parts.append(node.func.value)  # a list of words
        skipped |= {id(inner) for part in parts for inner in ast.walk(part)}
    return skipped


def source_texts(path: Path) -> Iterator[Text]:
    """Every sentence among the literals of a module; docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _docstrings(tree) | _no_prose(tree)
    skipped |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = None if id(node) in skipped else literal(node)
        if text is not None and is_prose(text):
            yield Text(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", text)


def docstring_texts(path: Path) -> Iterator[Text]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = re.sub(r"(?m)^(?: {4,}|\|).*$", "", ast.get_docstring(node) or "")  # examples and tables
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
            yield Text(where, re.sub("``[^`]*``", "`X`", text))


# ---- texts of the command line and of documents


def help_texts() -> Iterator[Text]:
    """Help of every command and option, as Click has it, and of every backend and its options."""
    from ddpkit.cli import app as root
    from ddpkit.launchers import registry

    group = root.whole_program()
    for name, command in {"ddpkit": group, **group.commands}.items():
        yield from (Text(name, text) for text in (command.help, command.epilog) if text)
        for parameter in command.params:
            yield Text(f"{name} {parameter.opts[0]}", getattr(parameter, "help", None) or "")
    for summaries in root.COMMANDS.values():
        yield from (Text(f"ddpkit --help: {name}", text) for name, text in summaries.items())
    for name in registry.names():
        backend = registry.load(name)
        yield Text(f"backends {name}", f"{backend.__doc__}\n\n{backend.needs}")
        for option in registry.options(backend):
            yield Text(f"backends {name}: {option.name}", option.doc)


def document_texts(path: Path) -> Iterator[Text]:
    """Prose of a Markdown document, paragraph by paragraph."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^(?:---\n.*?\n---\n)|^ *(`{3,}|~{3,}).*?^ *\1[ ]*$|<!--.*?-->|<[a-z/][^>]*>", blank, text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)  # links, as they read
    text = re.sub(r"``[^`]+``|`[^`]+`", lambda span: "`X`" + "\n" * span[0].count("\n"), text)
    line = 1
    for block in re.split(r"(\n\s*\n|\n(?=\s*(?:[-*]\s|\d{1,2}\.\s|\||!!!|\?\?\?)))", text):
        stripped = block.strip()
        if all(each.startswith("    ") for each in block.strip("\n").splitlines()):
            stripped = ""  # a code block
        if stripped and not re.match(r"#|={3}|!!!|\?\?\?|\|?[\s:|-]+$|[ ]{4,}\S+ =|\[[^\]]+\]:", stripped):
            cells = re.split(r"(?<!\\)\|", stripped) if stripped.startswith("|") else [stripped]
            start = line + block[: len(block) - len(block.lstrip())].count("\n")
            where = f"{path.relative_to(ROOT)}:{start}"
            for cell in cells:
                yield Text(where, re.sub(r"^(?:[-*>]|\d+\.)\s+", "", cell.strip()))
        line += block.count("\n")


def blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def shell_texts(path: Path) -> Iterator[Text]:
    """Messages of a shell script: quoted arguments of echo, printf and functions that end it."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("#"):
            continue
        for quoted in re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", line):
            text = re.sub(r"\$\{[^}]*\}|\$\w+|%s|\\n", "X", "".join(quoted))
            if is_prose(text):
                yield Text(f"{path.relative_to(ROOT)}:{number}", text)


def texts() -> Iterator[Text]:
    """Every text that people read."""
    yield from help_texts()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_symlink():
            continue
        yield from source_texts(path)
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") in ("cli", "api", "errors", "config"):
            yield from docstring_texts(path)
    yield from docstring_texts(ROOT / "train.py")
    for name in ("train.py", "test_distributed.py"):
        yield from source_texts(ROOT / name)
    for path in sorted([*(ROOT / "scripts").rglob("*"), *PACKAGE.rglob("*.sh")]):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:2] == b"#!" and path.suffix != ".py":
            yield from shell_texts(path)
    template = PACKAGE / "templates/ddpkit.toml"
    for block in re.findall(r"(?m)(?:^# .*\n)+", template.read_text(encoding="utf-8")):
        yield Text(str(template.relative_to(ROOT)), re.sub(r"(?m)^# ", "", block))
    for path in sorted(each for top in ("*.md", "docs/**/*.md", "examples/**/*.md") for each in ROOT.glob(top)):
        yield from document_texts(path)


def long_sentences(found: Iterable[Text]) -> Iterator[str]:
    """Each sentence of more than `LONGEST` words, with its place."""
    for where, text in found:
        plain = _EXAMPLES.sub("", text) if "\n" in text else text
        for sentence in sentences(re.sub(r"`[^`\n]+`", "`X`", plain)):
            if (count := words(sentence)) > LONGEST:
                yield f"{where}: {count} words: {sentence}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List the sentences of over 30 words in texts that people read.")
    parser.add_argument("part", nargs="*", help="part of a file's name")
    chosen = parser.parse_args(argv).part
    found = list(long_sentences(each for each in texts() if not chosen or any(part in each.where for part in chosen)))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
