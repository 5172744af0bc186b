"""A directory that looks like a conda environment: conda itself is not needed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

BUILT = "/home/conda/feedstock_root/build_artifacts/" + "_placehold" * 20  # for which conda's packages are built
LIBRARY = "lib/libpaths.so"
TOOL = """#!{prefix}/bin/python
import os, sys
place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
print(open(os.path.join(place, "lib/libpaths.so"), "rb").read().split(b"\\0")[1].decode(), sys.prefix)
"""


def binary(prefix: str, room: str = BUILT) -> bytes:
    """A file with C strings, as conda writes it: a path, two paths in one string, and other data."""

    def string(text: str) -> bytes:
        moved = text.replace(room, prefix)
        return moved.encode() + b"\0" * (len(text) - len(moved) + 1)

    return b"\x7fELF\0" + string(f"{room}/share") + string(f"{room}/a:{room}/b") + b"data\0\0\0"


def make(prefix: Path, room: str = BUILT) -> None:
    """Make it, without its Python."""
    for name in ("bin", "lib", "conda-meta", "envs/other", "pkgs"):
        (prefix / name).mkdir(parents=True)
    (prefix / "bin/tool").write_text(TOOL.format(prefix=prefix))
    (prefix / "bin/tool").chmod(0o755)
    (prefix / "bin/pip").write_text(f"#!{prefix}/bin/python\n")  # not of conda: pip made it
    (prefix / LIBRARY).write_bytes(binary(str(prefix), room))
    (prefix / "envs/other/file").write_text("another environment")
    (prefix / ".condarc").write_text("channels: [https://me:secret@host/]")
    listed = [
        {"_path": "bin/tool", "path_type": "hardlink", "prefix_placeholder": room, "file_mode": "text"},
        {"_path": LIBRARY, "path_type": "hardlink", "prefix_placeholder": room, "file_mode": "binary"},
        {"_path": "bin/python", "path_type": "softlink"},
        {"_path": "bin/removed", "path_type": "hardlink", "prefix_placeholder": room, "file_mode": "text"},
    ]
    (prefix / "conda-meta/tool-1.0-0.json").write_text(json.dumps({"paths_data": {"paths": listed}}))
    (prefix / "conda-meta/history").write_text("")


def add_python(prefix: Path) -> None:
    """Give it this Python and the standard library that it needs to start."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    shutil.copy(os.path.realpath(sys.executable), prefix / "bin" / name)
    (prefix / "bin/python").symlink_to(name)
    left_out = shutil.ignore_patterns("test", "tests", "site-packages", "config-*", "__pycache__", "idlelib", "lib2to3")
    shutil.copytree(sysconfig.get_path("stdlib"), prefix / "lib" / name, ignore=left_out)
