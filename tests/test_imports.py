"""Imports point down, and what runs on a node or in a rank stands alone, as the source says."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

import pytest
import rooms

FILES = {name.replace(".", "/"): path for name, path in rooms.sources().items()}

# The rooms of the package. Each imports only from rooms below it; CONTRIBUTING.md says what each is for.
ORDER = (
    "__main__",
    "__init__",
    "cli",
    "api",
    "roles",
    "preflight",
    "execution",
    "monitor",
    "run",
    "transports",
    "diagnosis",
    "config",
    "launchers",
    "distributed",
    "console",
    "machine",
    "files",
    "node",
    "templates",
    "text",
    "errors",
)


@functools.cache
def modules() -> dict[str, set[str]]:
    return rooms.modules(rooms.sources())


def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in it."""
    return set(rooms.imported(path))


def test_imports_point_down() -> None:
    upward = {}
    for name, names in modules().items():
        room = name.partition(".")[0]
        assert room in ORDER, f"{room}: a new room needs a place in the order"
        upward[name] = {each.partition(".")[0] for each in names} - {room, *ORDER[ORDER.index(room) + 1 :]}
    assert not {name: rooms for name, rooms in upward.items() if rooms}


def test_no_modules_import_each_other() -> None:
    assert rooms.circles(modules()) == []
    assert rooms.circles(rooms.rooms(modules())) == []


def test_the_package_can_be_drawn() -> None:
    """The bounds of what a reader can hold: rooms, floors and arrows as `tools/rooms.py` counts them."""
    between = rooms.rooms(modules())
    assert len(between) <= 21
    assert max(rooms.floors(between).values()) + 1 <= 9  # the door of `node/owned.py` is below `files`
    assert sum(map(len, between.values())) <= 84


@pytest.mark.parametrize("room", ["node", "templates", "text", "errors"])
def test_lowest_rooms_import_nothing_of_ddpkit(room: str) -> None:
    assert rooms.rooms(modules())[room] == set()


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("node/")])
def test_the_node_needs_nothing(name: str) -> None:
    siblings = {each.partition("/")[2] for each in FILES if each.startswith("node/")}
    used = {module for module in imported(FILES[name]) if not module.startswith("ddpkit.node.")}
    assert {module.partition(".")[0] for module in used} <= set(sys.stdlib_module_names) | siblings | {"_signal"}
    tree = ast.parse(FILES[name].read_text(), feature_version=(3, 8))
    methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not methods & {"removeprefix", "removesuffix", "bit_count", "pairwise", "to_thread"}, "not in Python 3.8"


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("launchers/")])
def test_a_backend_does_nothing_itself(name: str) -> None:
    assert not {module.partition(".")[0] for module in imported(FILES[name])} & {"subprocess", "os", "socket"}


def test_only_the_command_line_prints() -> None:
    """`node` talks to its launcher over file descriptors; its one print is a warning of a rank-to-be."""
    for name, path in FILES.items():
        if name in ("__main__", "node/rank/fork_server") or name.startswith("cli/"):
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"], name
        assert not {"typer", "rich"} & {module.partition(".")[0] for module in imported(path)}, name
