#!/usr/bin/env python3
"""Rooms of the package and the imports between them: `python tools/rooms.py [--arrows]`.

A room is a directory or a module at the top of `ddpkit/`. An arrow is an import from one room into another, wherever it
stands: at the top of a file, inside a function, or under TYPE_CHECKING. Floors are the longest chain of arrows. Circles
are groups of rooms, or of modules inside a room, that import each other.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "ddpkit"


def sources(package: Path = PACKAGE) -> dict[str, Path]:
    """Files by their dotted name below `ddpkit`: `launchers.plan`, `errors`; a package's own file is `launchers`."""
    paths = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return paths


def imported(path: Path) -> Iterator[str]:
    """Full names of everything that a file imports, wherever in it. `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SystemExit(f"{path}:{node.lineno}: a relative import")
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Modules of the package that each of its modules imports."""
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        graph[name] = set()
        for full in imported(path):
            head, _, rest = full.partition(".")
            if head != "ddpkit":
                continue
            while rest and rest not in files:
                rest = rest.rpartition(".")[0]
            graph[name].add(rest or "__init__")
        graph[name].discard(name)
    return graph


def rooms(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Rooms that each room imports from."""
    arrows: dict[str, set[str]] = {name.partition(".")[0]: set() for name in graph}
    for name, used in graph.items():
        room = name.partition(".")[0]
        arrows[room] |= {each.partition(".")[0] for each in used} - {room}
    return arrows


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of names that reach each other, the strongly connected components of more than one."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(graph[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph[name]
        return seen

    below = {name: reached(name) for name in graph}
    groups = {frozenset(each for each in below[name] if name in below[each]) for name in graph if name in below[name]}
    return sorted(sorted(group) for group in groups)


def floors(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """The floor of each name: 0 for one that imports nothing, else one more than the highest below it."""
    known: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in known:
            known[name] = 1 + max(map(floor, graph[name]), default=-1)
        return known[name]

    for name in graph:
        floor(name)
    return known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrows", action="store_true", help="list the imports of each room")
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE, help="the package [default: ddpkit/]")
    args = parser.parse_args()
    graph = modules(sources(args.package))
    between = rooms(graph)
    loops = circles(between)
    inside = [loop for loop in circles(graph) if len({name.partition(".")[0] for name in loop}) == 1]
    height = {} if loops else floors(between)
    numbers = {
        "rooms": len(between),
        "floors": max(height.values()) + 1 if height else None,
        "arrows": sum(map(len, between.values())),
        "circles": len(loops) + len(inside),
    }
    if args.json:
        print(json.dumps({**numbers, "imports": {room: sorted(used) for room, used in between.items()}}, indent=2))
        return
    print(", ".join(f"{name}: {number}" for name, number in numbers.items()))
    for loop in loops + inside:
        print("circle:", " ".join(loop))
    if args.arrows:
        for room in sorted(between, key=lambda room: (-height.get(room, 0), room)):
            print(f"{height.get(room, '?')}  {room:<12} {' '.join(sorted(between[room]))}")


if __name__ == "__main__":
    main()
