"""One zip of this package, written once into a run's directory: programs beside and inside ranks import from it.

python -S -I ddpkit.zip PROGRAM ARG...    calls `main(ARG, ...)` of ddpkit.node.PROGRAM
PYTHONPATH=ddpkit.zip DDPKIT_HOOK=ddpkit.zip python SCRIPT    a rank, with `rank_hook.py` as its sitecustomize
the same with DDPKIT_PRELOAD=spec.json    the interpreter that `fork_server.py` forks ranks from
"""

from __future__ import annotations

import os
import struct
import sys
import zlib

from ddpkit.node.owned import create_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "ddpkit.zip"
# What a rank runs, and what that imports. The rest is for the supervisor, which has it from the launcher.
_OF_RANKS = ("__init__", "bundle", "child", "owned", "rank/")
# The packages are empty modules: nothing else of ddpkit is imported, and nothing of ours comes onto the path.
_PACKAGES = """\
import sys

sys.modules["ddpkit"] = type(sys)("ddpkit")
for room in ("", "/calls", "/rank", "/supervision"):
    name = "ddpkit.node" + room.replace("/", ".")
    sys.modules[name] = type(sys)(name)
    sys.modules[name].__path__ = [{bundle} + "/node" + room]
"""
_MAIN = """\
from importlib import import_module

sys.path.pop(0)
program = import_module("ddpkit.node." + sys.argv.pop(1))
sys.exit(program.main(*sys.argv[1:]))
"""


def read_texts(*within: str) -> dict[str, str]:
    """Return the texts of this package's modules, by their paths in it: `rpc`, `rank/__init__`, `rank/rank_hook`.

    `within`: modules, and directories with a slash at their end; all, where there is none.
    """
    package: Any = sys.modules["ddpkit.node"]
    if hasattr(package, "texts"):  # it came over the connection: `transports/protocol.py`
        return {path: text for path, text in package.texts.items() if _is_within(path, within)}
    top, texts = package.__path__[0], {}
    for folder, _, files in os.walk(top):
        room = folder[len(top) + 1 :] + "/" if folder != top else ""
        for path in (room + file[:-3] for file in files if file.endswith(".py")):
            if _is_within(path, within):
                with open(f"{top}/{path}.py", encoding="utf-8") as module:
                    texts[path] = module.read()
    return dict(sorted(texts.items()))


def _is_within(path: str, within: tuple[str, ...]) -> bool:
    return not within or path in within or path[: path.find("/") + 1] in within


def pack(texts: dict[str, str]) -> bytes:
    """Return the zip. Nothing is compressed: each rank would import zlib. `zipfile` takes 15 ms to import."""
    files = {"__main__": _PACKAGES.format(bundle="sys.path[0]") + _MAIN, "sitecustomize": texts["rank/rank_hook"]}
    files.update(("node/" + name, text) for name, text in texts.items())
    entries, directory = bytearray(), b""
    for name, text in files.items():
        path, data = (name + ".py").encode(), text.encode()
        facts = struct.pack("<5H3I2H", 20, 0, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(path), 0)
        directory += b"PK\1\2" + struct.pack("<H", 20) + facts + struct.pack("<3H2I", 0, 0, 0, 0, len(entries)) + path
        entries += b"PK\3\4" + facts + path + data
    end = struct.pack("<4H2IH", 0, 0, len(files), len(files), len(directory), len(entries), 0)
    return bytes(entries) + directory + b"PK\5\6" + end


def program_of(bundle: str, name: str) -> str:
    """Return a Python program of its own, for a file, that runs one of a bundle with the file's arguments."""
    packages = _PACKAGES.format(bundle=repr(bundle))
    return packages + "import ddpkit.node.%s as program\nprogram.main(*sys.argv[1:])\n" % name


def running_bundle() -> str:
    """Return the path of the bundle that this program runs from; empty: it does not."""
    package: Any = sys.modules["ddpkit.node"]
    path = os.path.dirname((list(package.__path__) or [""])[0])
    return path if os.path.isfile(path) else ""


def write_bundle(folder: str, *, whole: bool = False) -> str:
    """Write the bundle of what ranks run, or of all programs, into a folder. Returns its path. Raises OSError."""
    running = running_bundle()
    if running:
        with open(running, "rb") as file:
            content = file.read()
    else:
        content = pack(read_texts(*(() if whole else _OF_RANKS)))
    path = f"{folder}/{NAME}"
    create_file(path, content)
    return path
