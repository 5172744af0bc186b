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
    """A program in which `NAME` is replaced by a correct name, and by a misspelled one."""

    program: str
    correct: str
    wrong: str


WALLS = {
    "a setting": Wall(
        """\
from ddpkit.config import LaunchSettings


def read(settings: LaunchSettings) -> float:
    return settings.NAME
""",
        "hang_timeout",
        "hang_timout",
    ),
    "a setting of one host": Wall(
        """\
from ddpkit.config import LaunchSettings


def read(settings: LaunchSettings) -> str:
    return settings.host["big"].NAME
""",
        "workdir",
        "wrokdir",
    ),
    "the source of a setting": Wall(
        """\
from ddpkit.config import LaunchSettings


def read(settings: LaunchSettings) -> str:
    return settings.source("NAME")
""",
        "hostfile",
        "host_file",
    ),
    "a keyword, or a flag": Wall(
        """\
from pathlib import Path

from ddpkit.config import collect_settings

settings = collect_settings(Path(), {}, None, {"NAME": 4})
""",
        "nproc_per_node",
        "nproc_per_nodes",
    ),
    "a sample of status.json": Wall(
        """\
from ddpkit.run.timeline import StatusFile


def read(file: StatusFile) -> float:
    return file["hosts"]["node1"]["ranks"]["0"]["NAME"]
""",
        "cpu",
        "cpus",
    ),
    "an event that is read": Wall(
        """\
from ddpkit.launchers.events import Event


def exit_code(event: Event) -> int | None:
    return event["NAME"] if event["e"] == "exit" else None
""",
        "code",
        "cod",
    ),
    "an event that is made": Wall(
        """\
from ddpkit.launchers.events import Event, NoteEvent


def remark() -> Event:
    event: NoteEvent = {"e": "note", "NAME": "the job waits"}
    return event
""",
        "text",
        "txt",
    ),
    "the kind of an event": Wall(
        """\
from ddpkit.launchers.events import Event


def is_end(event: Event) -> bool:
    return event["e"] == "NAME"
""",
        "end",
        "ended",
    ),
    "a command": Wall(
        """\
from ddpkit.launchers.events import StopCommand
from ddpkit.transports.protocol import Link


def stop(link: Link) -> None:
    command: StopCommand = {"c": "stop", "NAME": 1.0}
    link.send(command)
""",
        "grace",
        "garce",
    ),
    "a node's facts": Wall(
        """\
from ddpkit.launchers.node_facts import NodeFacts


def read(facts: NodeFacts) -> list[str]:
    return facts["NAME"]
""",
        "own_name",
        "own_names",
    ),
    "a node's inventory": Wall(
        """\
from ddpkit.preflight.node import Node


def read(node: Node) -> int:
    return node.inventory["memory"]["NAME"]
""",
        "free",
        "available",
    ),
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
        programs[f"wall_{number}_correct"] = wall.program.replace("NAME", wall.correct)
        programs[f"wall_{number}_wrong"] = wall.program.replace("NAME", wall.wrong)
    found = errors(tmp_path_factory.mktemp("walls"), programs)
    return found.__getitem__


@pytest.mark.parametrize("name", WALLS)
def test_a_misspelled_name_is_an_error(name: str, check: Callable[[str], list[str]]) -> None:
    number = [*WALLS].index(name)
    assert check(f"wall_{number}_correct") == []
    assert WALLS[name].wrong in "\n".join(check(f"wall_{number}_wrong"))
