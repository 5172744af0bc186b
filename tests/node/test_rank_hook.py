"""The hook of a rank: what Python does with it, and the modules of the site that it stands in front of."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpkit.node.bundle import program_of, write_bundle


def ended(tmp_path: Path, text: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script with the hook, before a folder `site` and one that is not there."""
    hook = write_bundle(str(tmp_path))
    (tmp_path / "job.py").write_text(text)
    path = os.pathsep.join([hook, str(tmp_path / "site"), "/other"])
    env = {"PATH": "/usr/bin:/bin", "DDPKIT_HOOK": hook, "PYTHONPATH": path, **env}
    command = [sys.executable, *options, "job.py"]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


TRACES = """
import os, sys
print("sitecustomize" in sys.modules, "DDPKIT_HOOK" in os.environ, [path for path in sys.path if "ddpkit.zip" in path])
"""
FAILED = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n"
SITES = {
    "none": (None, "False False []\n", ""),
    "its own": ("print('site')", "site\nTrue False []\n", ""),
    "fails": (
        "raise ValueError('so')",
        "False False []\n",
        f"{FAILED}ValueError: so\n",
    ),
    "misses a module": (
        "import nothing_of_this_name",
        "False False []\n",
        f"{FAILED}ModuleNotFoundError: No module named 'nothing_of_this_name'\n",
    ),
}


@pytest.mark.parametrize("name", SITES)
def test_a_site_has_its_own_module(name: str, tmp_path: Path) -> None:
    text, out, error = SITES[name]
    (tmp_path / "site").mkdir()
    if text is not None:
        (tmp_path / "site/sitecustomize.py").write_text(text)
    done = ended(tmp_path, TRACES, RANK="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, out, error)


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-s"])
def test_a_python_that_does_not_read_it_runs(option: str, tmp_path: Path) -> None:
    done = ended(tmp_path, "print('runs')", option, RANK="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "runs\n", "")


# Only a last collection finds it.
CYCLE = """
import gc, os
class Cycle:
    def __init__(self):
        self.me = self
    def __del__(self, write=os.write):
        write(1, b" collected")
cycle = Cycle()
print(gc.get_threshold()[0], "DDPKIT_HOOK" in os.environ, end="", flush=True)
"""


def test_torchrun_has_few_collections_and_hands_the_hook_on(tmp_path: Path) -> None:
    assert ended(tmp_path, CYCLE, DDPKIT_TAP="rank_wrapper.py").stdout == "20000 True"


def test_what_a_rank_makes_is_collected(tmp_path: Path) -> None:
    assert ended(tmp_path, CYCLE, RANK="0").stdout == f"{gc.get_threshold()[0]} False collected"


IMPORTS_ALL = """
import sys, zipfile
from importlib import import_module

names = [name[5:-3].replace("/", ".") for name in zipfile.ZipFile(sys.argv[1]).namelist() if name.startswith("node/")]
for name in names:
    import_module("ddpkit.node." + name)
print(sorted(name for name in names if "." not in name))
"""


def test_the_bundle_has_what_ranks_run_with_all_that_it_imports_and_no_more(tmp_path: Path) -> None:
    bundle = write_bundle(str(tmp_path))
    program = tmp_path / "all.py"
    program.write_text(program_of(bundle, "rank").replace("program.main(*sys.argv[1:])", IMPORTS_ALL))

    done = subprocess.run([sys.executable, "-S", "-I", program, bundle], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("['__init__', 'bundle', 'child', 'owned']\n", "")
