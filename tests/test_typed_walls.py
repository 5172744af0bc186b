"""mypy finds a misspelled name in each value that rooms hand to each other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Wall(NamedTuple):
    """An expression on a value of some type, in which `NAME` is a correct name, or a misspelled one."""

    modules: str
    kind: str
    expression: str
    correct: str
    wrong: str

    def program(self, name: str) -> str:
        expression = self.expression.replace("NAME", name)
        return f"{self.modules}\n\n\ndef read(value: {self.kind}) -> object:\n    return {expression}\n"


SETTINGS = "from ddpkit.config import LaunchSettings"
COLLECT = "from pathlib import Path\n\nfrom ddpkit.config import collect_settings"
EVENTS = "from ddpkit.launchers.events import Event, NoteEvent, StopCommand"
SAMPLE = "from ddpkit.run.timeline import StatusFile"
FACTS = "from ddpkit.launchers.node_facts import NodeFacts"
NODE = "from ddpkit.preflight.check import Node"
WALLS = {
    "a setting": Wall(SETTINGS, "LaunchSettings", "value.NAME", "hang_timeout", "hang_timout"),
    "a setting of one host": Wall(SETTINGS, "LaunchSettings", 'value.host["big"].NAME', "workdir", "wrokdir"),
    "the source of a setting": Wall(SETTINGS, "LaunchSettings", 'value.source("NAME")', "hostfile", "host_file"),
    "a keyword, or a flag": Wall(
        COLLECT, "int", 'collect_settings(Path(), {}, None, {"NAME": value})', "nproc_per_node", "nproc_per_nodes"
    ),
    "a sample of status.json": Wall(
        SAMPLE, "StatusFile", 'value["hosts"]["node1"]["ranks"]["0"]["NAME"]', "cpu", "cpus"
    ),
    "an event that is read": Wall(EVENTS, "Event", 'value["NAME"] if value["e"] == "exit" else None', "code", "cod"),
    "an event that is made": Wall(EVENTS, "str", 'NoteEvent(e="note", NAME=value)', "text", "txt"),
    "the kind of an event": Wall(EVENTS, "Event", 'value["e"] == "NAME"', "end", "ended"),
    "a command": Wall(EVENTS, "float", 'StopCommand(c="stop", NAME=value)', "grace", "garce"),
    "a node's facts": Wall(FACTS, "NodeFacts", 'value["NAME"]', "own_name", "own_names"),
    "a node's inventory": Wall(NODE, "Node", 'value.inventory["memory"]["NAME"]', "free", "available"),
}


def errors(folder: Path, programs: dict[str, str]) -> dict[str, list[str]]:
    """The errors that mypy finds in each of some programs."""
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    files = [str(folder / f"{name}.py") for name in programs]
    config = str(ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--no-pretty", "--no-error-summary", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert not done.stderr, done.stderr
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    return {name: [line for line in lines if f"{name}.py:" in line] for name in programs}


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """The errors in one program. All are read by one mypy."""
    programs = {}
    for number, wall in enumerate(WALLS.values()):
        programs[f"wall_{number}_correct"] = wall.program(wall.correct)
        programs[f"wall_{number}_wrong"] = wall.program(wall.wrong)
    found = errors(tmp_path_factory.mktemp("walls"), programs)
    return found.__getitem__


@pytest.mark.parametrize("name", WALLS)
def test_a_misspelled_name_is_an_error(name: str, check: Callable[[str], list[str]]) -> None:
    number = [*WALLS].index(name)
    assert check(f"wall_{number}_correct") == []
    assert WALLS[name].wrong in "\n".join(check(f"wall_{number}_wrong"))
