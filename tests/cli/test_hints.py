"""Hints: those of every error that a test meets are run (`ddpkit` in conftest.py); here are all that the source has."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import hints
import pytest
import rooms

ERRORS = ("UsageError", "LaunchError", "PreflightError", "DdpkitError", "EnvError", "RefusedError", "ConfigError")


def texts(tree: ast.AST) -> Iterator[str]:
    """The hints of errors and the fixes of problems in a module, with `{}` for their values."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [word.value for word in node.keywords if word.arg in ("hint", "fix")]
        given += node.args[1:2] if name in ERRORS else []
        for each in given:
            for part in ast.walk(each):
                if isinstance(part, ast.JoinedStr):
                    yield "".join(str(word.value) if isinstance(word, ast.Constant) else "{}" for word in part.values)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_no_hint_deletes_overwrites_or_ends_what_is_the_users() -> None:
    found = [(name, text) for name, path in rooms.sources().items() for text in texts(ast.parse(path.read_text()))]
    assert len(found) > 400
    assert [(name, text) for name, text in found if hints.DESTROYS.search(text)] == []


@pytest.mark.parametrize(
    "hint", ["rm train.py", "run: sudo kill -9 7", "sed -i s/a/b/ hosts", "printf x > hosts", "ls; mv a b", "git reset"]
)
def test_what_destroys_is_found(hint: str) -> None:
    assert hints.DESTROYS.search(hint)


@pytest.mark.parametrize(
    ("hint", "args", "command"),
    [
        ("ddpkit launch -n 2 -- train.py", ["launch"], ["ddpkit", "launch", "-n", "2", "--", "train.py"]),
        ("ddpkit ps -a lists the runs", ["stop"], ["ddpkit", "ps", "-a"]),
        ("add -n 2; or another", ["launch", "--", "x"], ["ddpkit", "launch", "-n", "2", "--", "x"]),
        ("remove -n 2", ["launch", "-n", "2", "--", "2"], ["ddpkit", "launch", "--", "2"]),
        ("ddpkit launch -b ssh HOST -- train.py", ["launch"], None),
        ("add a script", ["launch"], None),
        ("ls /tmp", ["launch"], ["ls", "/tmp"]),
    ],
)
def test_the_command_of_a_hint(hint: str, args: list[str], command: list[str] | None) -> None:
    assert hints.candidate(hint, args) == command


def test_a_hint_that_fails_in_the_same_way_is_found(tmp_path: Path) -> None:
    def run(words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 121, "", "ddpkit: error: no\nhint: x\n")

    text = "ddpkit: error: no\nhint: ddpkit launch -- a.py\n"
    assert hints.problems(["launch"], text, tmp_path, {}, run) == ["fails in the same way: ddpkit launch -- a.py: no"]
    assert hints.problems(["ps", "-a"], "error: no\nhint: ddpkit ps -a", tmp_path, {}, run) == [
        "the same command: ddpkit ps -a"
    ]
    assert hints.problems(["launch"], "error: no\nhint: kill 7", tmp_path, {}, run) == ["destroys: kill 7"]
