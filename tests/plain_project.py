"""A project written by `ddpkit init --train`, and a Python with torch and the other libraries, but without ddpkit."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from ddpkit.cli import setup


def write_project(folder: Path) -> None:
    files = setup.files_of_project(folder, toml=False, train=True)
    setup.check_files(files)
    setup.write_files(folder, files)


def make_python(folder: Path) -> str:
    """The path of the interpreter. A .pth file names the libraries' folder; those inside of that are not read."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    variables = {"base": str(folder), "platbase": str(folder)}
    (Path(sysconfig.get_path("purelib", "venv", variables)) / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    python = str(folder / "bin" / "python")
    # An editable install leaves the templates in a folder `ddpkit` there: no package, it has no origin.
    probe = "import sys; from importlib.util import find_spec as find; found = find('ddpkit'); "
    probe += "sys.exit(bool(found and found.origin) or not find('torch'))"
    subprocess.run([python, "-c", probe], check=True, cwd=folder, env={})
    return python
