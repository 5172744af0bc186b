"""Imports point down, and what runs on a node or in a rank stands alone, as the source says."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "ddpkit"
# What `ddpkit init` writes is no part of the package.
SOURCES = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "project" not in path.parents]
FILES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in SOURCES}

# A module may import those on its right.
ALLOWED = {
    "errors": set(),
    "plan": {"shell"},
    "shell": {"plan"},
    "containers": {"plan", "errors", "shell"},
    "starters": {"plan", "errors", "containers"},
    "launchers": {"plan", "errors", "shell", "starters", "launchers", "containers"},
    "survey": {"plan", "errors", "distributed", "node"},
    "catalogue": {"catalogue"},
    "srun": set(),
    "link": {"plan", "shell"},
    "inside": {"link", "plan"},
    "step": {"beside", "link", "plan", "srun"},
    "beside": {"link", "srun"},
    "scheduler": {"errors", "inside", "link", "plan", "runs", "shell", "srun", "step"},
    "vitals": set(),
    "metrics": set(),
    "timeline": set(),
    "report": {"checks", "metrics", "report", "runs", "shell", "status", "timeline"},
    "hosts": {"distributed", "errors", "launchers"},
    "agent": set(),
    "away": {"agent", "door", "errors", "hosts", "remote", "shell"},
    "sync": {"errors", "hosts", "judge", "link", "shell"},
    "door": {"link", "plan", "shell"},
    "dial": set(),
    "_ssh": set(),
    "remote": {"_ssh", "dial", "door", "errors", "hosts", "ssh_files"},
    "ssh_files": {"door", "errors"},
    "pdsh": {"door", "errors", "hosts", "link", "shell"},
    "judge": {"errors", "hosts", "plan", "shell"},
    "fleet": {"agent", "door", "errors", "hosts", "judge", "launchers", "link", "pdsh", "plan", "remote"},
    "fold": set(),
    "header": set(),
    "bottom": {"header"},
    "relay": {"fold"},
    "screen": {"header"},
    "explain": {"catalogue", "explain_errors", "explain_lines"},
    "explain_errors": {"explain_lines"},
    "explain_lines": set(),
    "where": set(),
    "hang": {"where"},
    "hangwatch": {"hang", "where"},
    "dump": {"errors", "hang", "link", "runs", "srun", "where"},
    "asking": {"dump", "hangwatch", "link", "plan", "relay", "sampling"},
    "again": set(),
    "execute": {
        *("again", "asking", "header", "link", "outcome", "plan", "relay", "screen", "shell", "timeline", "vitals")
    },
    "top": set(),
    "sampling": {"beside", "dump", "errors", "link", "relay", "runs", "status"},
    "outcome": set(),
    "verdict": {"catalogue", "errors", "explain", "outcome"},
    "runs": {"errors"},
    "status": {"aftermath", "errors", "runs"},
    "aftermath": {"outcome", "runs", "srun", "verdict"},
    "logs": {"errors", "runs", "srun"},
    "detach": {"errors", "runs"},
    "config": {"errors", "launchers"},
    "init": {"config", "errors"},
    "complete": {"config", "errors", "hosts", "launchers", "runs"},
    "emit": {"errors", "plan", "shell"},
    "prepare": {
        "config", "containers", "errors", "fleet", "hosts", "judge", "launchers", "plan", "runs", "survey", "sync",
    },
    "bandwidth": {"distributed", "errors"},
    "checks": set(),
    "preflight": {
        "checks", "config", "distributed", "errors", "execute", "fleet", "hosts", "judge", "launchers", "link",
        "node", "plan", "preflight", "prepare", "relay", "runs", "scheduler", "screen", "shell", "step", "survey",
        "verdict", "outcome",
    },
    "distributed": {"errors", "distributed"},
    "node": {"node"},
    "cli": {
        "__init__", "errors", "plan", "shell", "launchers", "prepare", "relay", "screen", "execute", "scheduler",
        "verdict", "runs", "status", "logs", "detach", "config", "distributed", "cli", "away", "hosts", "checks",
        "preflight", "bandwidth", "explain", "dump", "srun", "step", "where", "metrics", "report", "survey",
        "timeline", "fold", "header", "bottom", "sampling", "top", "init", "emit", "complete",
    },
    "__main__": {"__init__", "cli", "complete"},
    "__init__": set(),
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = {f"ddpkit.{alias.name}" for alias in node.names} if node.module == "ddpkit" else {node.module or ""}
            found |= {"ddpkit" if name == "ddpkit.__version__" else name for name in names}
    return found


def part(module: str) -> str:
    """`ddpkit.launchers.local` is of the part `launchers`."""
    words = module.split(".")
    return words[1] if len(words) > 1 else "__init__"


@pytest.mark.parametrize("name", FILES)
def test_imports_point_down(name: str) -> None:
    own = name.partition("/")[0]
    used = {part(module) for module in imported(FILES[name]) if module.partition(".")[0] == "ddpkit"}
    assert own in ALLOWED, "a new module needs a place in the order"
    assert used <= ALLOWED[own]


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("node/")])
def test_the_node_needs_nothing(name: str) -> None:
    siblings = {each.partition("/")[2] for each in FILES if each.startswith("node/")}
    used = {module for module in imported(FILES[name]) if not module.startswith("ddpkit.node.")}
    assert {module.partition(".")[0] for module in used} <= set(sys.stdlib_module_names) | siblings | {"_signal"}


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("launchers/")])
def test_a_backend_does_nothing_itself(name: str) -> None:
    assert not imported(FILES[name]) & {"subprocess", "os", "socket", "ddpkit.execute"}


@pytest.mark.parametrize("name", [name for name in FILES if name != "__main__" and not name.startswith("cli/")])
def test_only_the_command_line_prints(name: str) -> None:
    """`node` talks to its launcher over file descriptors; its one print is a warning of a rank-to-be.

    `distributed/check` is the script test_distributed.py.
    """
    if name in ("node/preload", "distributed/check"):
        return
    calls = [node.func for node in ast.walk(ast.parse(FILES[name].read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id == "print"]
    assert not {"typer", "rich"} & {module.partition(".")[0] for module in imported(FILES[name])}


def test_modules_are_small() -> None:
    """A file that one cannot read in one sitting is two files."""
    long = {name: lines for name, path in FILES.items() if (lines := len(path.read_text().splitlines())) > 400}
    # One file by need: they travel alone, to a node or in a user's hands.
    assert set(long) <= {"node/supervisor", "distributed/check", "distributed/collectives"}, long


def test_every_module_says_what_it_promises() -> None:
    for name, path in FILES.items():
        assert ast.get_docstring(ast.parse(path.read_text())) or path.stat().st_size == 0, name
