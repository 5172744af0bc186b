#!/usr/bin/env python3
"""Readability of every text that people read: `python scripts/readability.py [-v] [GROUP ...]`.

A group must have a mean of at most 16 words a sentence, no sentence over 30 words, and no private word. `-v` lists the
offending sentences. A GROUP is a part of its name, for example `preflight` or `README`. A placeholder, an inline code
span and a path count as one word. Code blocks and headings of documents do not count; a table's cell is a text.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "ddpkit"
MEAN, LONGEST = 16, 30  # words of a sentence

# Groups that do not meet the bounds yet: mean, sentences over 30 words, private words. Figures here only go down.
LIMITS: dict[str, tuple[float, int, int]] = {}

# Words of this project alone, and what to write instead. A pattern is searched without regard to case.
PRIVATE = {
    r"\bbehind\b(?! (?:a |an |the )?(?:NAT|firewall|proxy|jump|bastion|login|VPN))": "after",
    r"\bin front\b": "before",
    r"\b(?:lives|lived|outlives?|outlived)\b": "runs, is running, exists, is in",
    r"\b(?:goes|go|went|gone|going) on\b": "continues",
    r"\b(?:end|ends|ended|ending|go|goes|went|gone) well\b": "succeeds",
    r"\b(?:is|are|was|were|be|been|being) asked\b(?! for (?:a |the )?pass)": "checked, queried, requested",
    r"\basks? (?:(?:each|every|all|them|its|the|of) ?)+(?:nodes?|hosts?|ranks?|launchers?|schedulers?)\b": "checks",
    r"\b(?:enters|entered)\b|\bways? in\b": "connects to, SSH access",
    r"\b(?:told|tells)\b": "reports, shows, passes",
    r"\bmend(?:s|ed|ing)?\b": "fixes",
    r"\b(?:take|takes|taken|took|taking)(?: \S+){0,3} away\b": "removes, unsets",
    r"\bfolders?\b": "directory",
    r"\bprocessors?\b": "CPU",
    r"\bwhole numbers?\b": "integer",
    r"\b(?:by|of) (?:it|them)sel(?:f|ves)\b": "automatically, alone",
    r"\bwho (?:this|the|a|an|each|every) (?:process|rank)\b|\bwho (?:it|they) (?:is|are)\b": "rank and world size",
    r"\bthere (?:is|are|was|were) (?:no|none|nothing)\b": "X not found, no X exists",
    r"\b(?:that|which) (?:is|are|was|were) named\b|\bnamed at once\b": "reported, listed",
    r"\b(?:said|says)\b": "prints, shows, reports",
    r"\bheard\b": "received",
    r"\b(?:nobody|whoever)\b": "no process, no one, whichever",
    r"\bwish(?:es|ed)?\b": "request",
    r"\bstands?\b(?!-| for\b| out\b)|\bstood\b": "is",
    r"\bburn(?:s|ed|t)?\b": "wasted",
    r"\bsigns? of life\b": "heartbeat",
    r"\blifeline\b": "connection to the launcher",
    r"\b(?:aftermath|fleet|hopeless|lessons?|teach(?:es)?)\b": "a plain noun",
    r"\btalk(?:s|ed|ing)?\b": "communicate",
    r"\b(?:get|gets|getting) on with\b": "works with",
    r"\bours?\b": "ddpkit's",
    r"\bno such thing\b|\bof its own accord\b|\bits like\b|\bfor ever\b": "not found, automatically, equal, forever",
    r"^(?:what|who|whom|whoever|whatever)\b(?!.*\?)(?=(?: \S+){3})": "no clause as the subject: begin with the actor",
}
_PRIVATE = {re.compile(pattern, re.IGNORECASE): better for pattern, better in PRIVATE.items()}
# A literal with none of these is a name, a command or code, not a sentence.
_FUNCTION_WORDS = frozenset(
    """
    a an and are as at be been but by can cannot did do does each every for from had has have if in into is it its more
    must no none not nothing of on one only or other same so than that the their them then there they this those to too
    was were what when where which while who why will with without
    """.split()
)
_ERRORS = frozenset(("UsageError", "LaunchError", "PreflightError", "DdpkitError", "EnvError"))
_CODE = re.compile(
    r"[{};]\n|^function |\(\?|\\[wdsS.]|^\s*(?:<|#!|import |from \w+ import)|\bfi\b|\bdone\b;|\$\(|\|\||&&|=\{"
)
_EXAMPLES = re.compile(r"(?m)^[\s\b]*ddpkit [a-z].*$")  # commands of a help text, one a line
# Arguments that are no prose: regular expressions, identifiers, addresses.
_NO_PROSE = frozenset(("id", "link", "patterns", "needs", "kind", "doc", "evidence_pattern"))


class Text(NamedTuple):
    group: str
    where: str  # file:line, or the command
    text: str


@dataclass
class Figures:
    """Figures of one group, and the sentences that offend."""

    sentences: int = 0
    words: int = 0
    longest: int = 0
    long: int = 0
    private: int = 0
    offenders: list[str] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return round(self.words / max(1, self.sentences), 1)


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


def private_words(sentence: str) -> Iterator[tuple[str, str]]:
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"", "CODE", sentence)  # another program's words
    plain = re.sub(r"(?i)\b(leav\w+|left)((?: \S+){0,5}) behind", r"\1\2", plain)
    for pattern, better in _PRIVATE.items():
        for match in pattern.finditer(plain):
            yield match[0], better


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


def _inside_errors(tree: ast.Module) -> set[int]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in _ERRORS]
    return {id(inner) for call in calls for inner in ast.walk(call)}


def source_texts(path: Path, group: str, errors: str) -> Iterator[Text]:
    """Every sentence among the literals of a module; docstrings apart."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = _docstrings(tree) | _no_prose(tree)
    skipped |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    in_errors = _inside_errors(tree)
    for node in ast.walk(tree):
        text = None if id(node) in skipped else literal(node)
        if text is not None and is_prose(text):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            yield Text(errors if id(node) in in_errors else group, where, text)


def docstring_texts(path: Path, group: str) -> Iterator[Text]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = re.sub(r"(?m)^(?: {4,}|\|).*$", "", ast.get_docstring(node) or "")  # examples and tables
            yield Text(
                group, f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}", re.sub("``[^`]*``", "`X`", text)
            )


# ---- texts of the command line and of documents


def help_texts() -> Iterator[Text]:
    """Help of every command and option, as Click has it, and of every backend and its options."""
    import typer.main

    from ddpkit.cli import app as root
    from ddpkit.cli import main
    from ddpkit.launchers import registry

    assert main.run  # importing it registers the commands
    group: Any = typer.main.get_command(root.app)
    for name, command in {"ddpkit": group, **group.commands}.items():
        yield from (Text("help", name, text) for text in (command.help, command.epilog) if text)
        for parameter in command.params:
            yield Text("help", f"{name} {parameter.opts[0]}", getattr(parameter, "help", None) or "")
    for summaries in root.COMMANDS.values():
        yield from (Text("help", f"ddpkit --help: {name}", text) for name, text in summaries.items())
    for name in registry.names():
        backend = registry.load(name)
        yield Text("help", f"backends {name}", f"{backend.__doc__}\n\n{backend.needs}")
        for option in registry.options(backend):
            yield Text("help", f"backends {name}: {option.name}", option.doc)


def document_texts(path: Path, group: str) -> Iterator[Text]:
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
            is_row = stripped.startswith("|")
            cells = re.split(r"(?<!\\)\|", stripped) if is_row else [stripped]
            start = line + block[: len(block) - len(block.lstrip())].count("\n")
            for cell in cells:
                yield Text(
                    f"{group} (tables)" if is_row else group,
                    f"{path.relative_to(ROOT)}:{start}",
                    re.sub(r"^(?:[-*>]|\d+\.)\s+", "", cell.strip()),
                )
        line += block.count("\n")


def blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def shell_texts(path: Path, group: str) -> Iterator[Text]:
    """Messages of a shell script: quoted arguments of echo, printf and functions that end it."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("#"):
            continue
        for quoted in re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", line):
            text = re.sub(r"\$\{[^}]*\}|\$\w+|%s|\\n", "X", "".join(quoted))
            if is_prose(text):
                yield Text(group, f"{path.relative_to(ROOT)}:{number}", text)


def texts() -> Iterator[Text]:
    """Every text that people read, with its group."""
    yield from help_texts()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        room = parts[0].removesuffix(".py")
        room = "catalogue" if "catalogue" in parts else "report" if "report" in parts else room
        yield from source_texts(path, f"texts: {room}", f"errors: {room}")
        if room in ("cli", "api", "errors", "config"):
            yield from docstring_texts(path, f"docstrings: {room}")
    yield from source_texts(ROOT / "train.py", "texts: train.py", "texts: train.py")
    yield from docstring_texts(ROOT / "train.py", "docstrings: train.py")
    yield from source_texts(ROOT / "test_distributed.py", "texts: test_distributed.py", "texts: test_distributed.py")
    for path in sorted([*(ROOT / "scripts").rglob("*"), *PACKAGE.rglob("*.sh")]):
        if path.is_file() and path.read_bytes()[:2] == b"#!" and path.suffix != ".py":
            yield from shell_texts(path, "texts: scripts")
    template = (PACKAGE / "templates/ddpkit.toml").read_text(encoding="utf-8")
    for block in re.findall(r"(?m)(?:^# .*\n)+", template):
        yield Text("texts: templates", "ddpkit/templates/ddpkit.toml", re.sub(r"(?m)^# ", "", block))
    for path in sorted(ROOT.glob("*.md")):
        yield from document_texts(path, path.name)
    for path in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]):
        if path.parent == ROOT / "docs/reference":
            continue  # help, docstrings and settings, which are read where they are written
        yield from document_texts(path, f"{path.relative_to(ROOT).parts[0]}/")


# ---- figures


def measure(found: Iterable[Text]) -> dict[str, Figures]:
    groups: dict[str, Figures] = {}
    for group, where, text in found:
        figures = groups.setdefault(group, Figures())
        if "\n" in text:
            text = _EXAMPLES.sub("", text)  # noqa: PLW2901
        for sentence in sentences(re.sub(r"`[^`\n]+`", "`X`", text)):
            count = words(sentence)
            figures.sentences += 1
            figures.words += count
            figures.longest = max(figures.longest, count)
            if count > LONGEST:
                figures.long += 1
                figures.offenders.append(f"{where}: {count} words: {sentence}")
            for word, better in private_words(sentence):
                figures.private += 1
                figures.offenders.append(f"{where}: {word!r} ({better}): {sentence}")
    return groups


def failures(groups: dict[str, Figures]) -> list[str]:
    """Groups above their limits, each with its figures."""
    bad = []
    for group, figures in groups.items():
        mean, long, private = LIMITS.get(group, (MEAN, 0, 0))
        if figures.mean > mean or figures.long > long or figures.private > private:
            bad.append(
                f"{group}: mean {figures.mean} (limit {mean}), {figures.long} over {LONGEST} words (limit {long}), "
                f"{figures.private} private words (limit {private})"
            )
    return bad


def table(groups: dict[str, Figures]) -> str:
    lines = [f"{'group':26} sentences   mean  longest  over {LONGEST}  private"]
    for group, each in sorted(groups.items()):
        lines.append(
            f"{group:26} {each.sentences:9}  {each.mean:5.1f}  {each.longest:7}  {each.long:7}  {each.private:7}"
        )
    count, total = sum(each.sentences for each in groups.values()), sum(each.words for each in groups.values())
    long, private = sum(each.long for each in groups.values()), sum(each.private for each in groups.values())
    longest = max((each.longest for each in groups.values()), default=0)
    lines.append(f"{'all':26} {count:9}  {total / max(1, count):5.1f}  {longest:7}  {long:7}  {private:7}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the readability of every text that people read.")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the sentences that break a bound")
    parser.add_argument("--limits", action="store_true", help="print LIMITS for the texts as they are")
    parser.add_argument("group", nargs="*", help="part of a group's name or of a file's path")
    options = parser.parse_args(argv)
    chosen = options.group
    groups = measure(each for each in texts() if not chosen or any(part in each.group + each.where for part in chosen))
    if options.verbose:
        for figures in groups.values():
            print(*figures.offenders, sep="\n")
    if options.limits:
        for group, each in groups.items():
            if each.mean > MEAN or each.long or each.private:
                print(f'    "{group}": ({max(each.mean, MEAN)}, {each.long}, {each.private}),')
        return 0
    print(table(groups))
    bad = [] if chosen else failures(groups)
    for line in bad:
        print(f"readability: {line}", file=sys.stderr)
    if bad:
        print("readability: list the sentences: python scripts/readability.py -v GROUP", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
