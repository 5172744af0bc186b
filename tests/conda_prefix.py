"""An archive as conda-pack makes it: conda itself is not needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# conda-pack's program finds its place by its own path, and replaces the old prefix in the files of the environment.
UNPACK = """\
import os
place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.makedirs(place + "/etc", exist_ok=True)
with open(place + "/etc/where", "w") as file:
    file.write(place)
"""


def pack(folder: Path) -> Path:
    """Make an archive of a small environment with this Python and the standard library that it needs to start."""
    prefix, name = folder / "env", f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for each in ("bin", "lib", "conda-meta"):
        (prefix / each).mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / name)
    (prefix / "bin/python").symlink_to(name)
    left_out = shutil.ignore_patterns("test", "tests", "site-packages", "config-*", "__pycache__", "idlelib", "lib2to3")
    shutil.copytree(sysconfig.get_path("stdlib"), prefix / "lib" / name, ignore=left_out)
    (prefix / "bin/conda-unpack").write_text(UNPACK)
    (prefix / "conda-meta/history").write_text("")
    archive = folder / "env.tar.gz"
    names = [path.name for path in prefix.iterdir()]
    subprocess.run(["tar", "-C", str(prefix), "-czf", str(archive), *names], check=True)
    return archive
