"""Joins modules of the package into the text of one file that imports nothing of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class _Module:
    name: str  # dotted, below ddpkit
    docstring: str
    imports: dict[str, set[str]]  # of the standard library: names from each module; none for `import module`
    body: str

    @property
    def text(self) -> str:
        return f"# ---- ddpkit.{self.name}\n# {self.docstring.splitlines()[0]}\n\n\n{self.body}"


def join_modules(name: str, docstring: str) -> str:
    """The module `name` with all modules of the package that it imports, each below those that it needs.

    Raises ValueError where two modules define the same name, or where one is not imported name by name.
    """
    modules = _load(name, {})
    owners: dict[str, str] = {}
    for each in modules.values():
        for defined in _defined(each.body):
            if owners.setdefault(defined, each.name) != each.name:
                raise ValueError(f"ddpkit.{owners[defined]} and ddpkit.{each.name} both define {defined}")
    imports: dict[str, set[str]] = {}
    for each in modules.values():
        for source, names in each.imports.items():
            imports[source] = imports.get(source, set()) | names
    head = [f'"""{docstring}"""', "", "from __future__ import annotations", ""]
    head += [f"import {source}" for source, names in sorted(imports.items()) if not names]
    head += [f"from {source} import {', '.join(sorted(names))}" for source, names in sorted(imports.items()) if names]
    return "\n\n\n".join(["\n".join(head), *(each.text for each in modules.values())]) + "\n"


def _load(name: str, modules: dict[str, _Module]) -> dict[str, _Module]:
    """The module and what it imports of the package, in an order in which each can be run."""
    text = (_PACKAGE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    imports: dict[str, set[str]] = {}
    dropped: set[int] = set(range(tree.body[0].end_lineno or 0))  # the docstring
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        dropped |= set(range(node.lineno - 1, node.end_lineno or node.lineno))
        source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if source.startswith("ddpkit."):
            _load(source.removeprefix("ddpkit."), modules)
        elif source == "ddpkit" or any(alias.name.startswith("ddpkit") for alias in node.names):
            raise ValueError(f"ddpkit.{name} imports a module, not names: {ast.unparse(node)}")
        elif source != "__future__":
            for alias in node.names:
                if source:
                    imports.setdefault(source, set()).add(alias.name)
                else:
                    imports[alias.name] = set()
    body = "\n".join(line for number, line in enumerate(lines) if number not in dropped).strip("\n")
    modules.setdefault(name, _Module(name, ast.get_docstring(tree) or "", imports, body))
    return modules


def _defined(body: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(body).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names
