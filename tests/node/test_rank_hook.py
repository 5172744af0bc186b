"""What is imported with torch costs a rank no garbage collection; what its script makes is collected as ever."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.transports.protocol import NODE


def output(tmp_path: Path, text: str, torch: str = "", **env: str) -> str:
    """Run a script with the hook, beside a module that stands for torch. Returns what it prints."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text((NODE / "rank_hook.py").read_text())
    (hook / "rank_events.py").write_text((NODE / "rank_events.py").read_text())
    (tmp_path / "torch.py").write_text(torch)
    (tmp_path / "job.py").write_text(text)
    path = os.pathsep.join([str(hook), "/other"])
    env = {"PATH": "/usr/bin:/bin", "DDPKIT_HOOK": str(hook), "PYTHONPATH": path, **env}
    command = [sys.executable, "job.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


IMPORTS = """
import gc
{before}
print("before", gc.isenabled(), gc.get_freeze_count() > 0)
try:
    import torch
    print("inside", torch.inside)
except ImportError as error:
    print("inside", error)
print("after", gc.isenabled(), gc.get_freeze_count() > 0)
"""
PLAIN = "import gc; inside = gc.isenabled()"
CASES = {
    "plain": ("", PLAIN, ["before True False", "inside False", "after True True"]),
    "off before": ("gc.disable()", PLAIN, ["before False False", "inside False", "after False True"]),
    "fails": (
        "",
        "raise ImportError('no such file')",
        ["before True False", "inside no such file", "after True False"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_import_is_not_collected(name: str, tmp_path: Path) -> None:
    before, torch, expected = CASES[name]
    assert output(tmp_path, IMPORTS.format(before=before), torch, RANK="0").splitlines() == expected


# Only a last collection finds it.
CYCLE = """
import gc, os, torch
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self, write=os.write):
        write(1, b" collected")
cycle = Cycle()
hooks = [path for path in __import__("sys").path if "hook" in path]
print(gc.get_threshold()[0], "DDPKIT_HOOK" in os.environ, os.environ["PYTHONPATH"], hooks, end="", flush=True)
"""


def test_torchrun_has_few_collections_and_hands_the_hook_on(tmp_path: Path) -> None:
    assert output(tmp_path, CYCLE, DDPKIT_TAP="rank_wrapper.py") == "20000 True /other []"


def test_what_a_rank_makes_is_collected(tmp_path: Path) -> None:
    assert output(tmp_path, CYCLE, RANK="0") == f"{gc.get_threshold()[0]} False /other [] collected"
