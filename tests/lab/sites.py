"""A fault inside of ranks: Python of one host, or of one rank, does something at its start, at torch, at an all_reduce.

The fault is a `sitecustomize` in PYTHONPATH, which every host has, and which on one host alone is another file.
"""

from __future__ import annotations

from pathlib import Path

from bare_nodes import Bare

_SITE = """
import os, sys
if "ddpkit-check" in "".join(sys.orig_argv) and "RANK" in os.environ and {only!r} in ("", os.environ["RANK"]):
    import signal, time
    from importlib.machinery import PathFinder

    def act():
        {what}

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torch" and {when!r} == "torch":
                act()
            if name != "torch.distributed":
                return None
            spec = PathFinder.find_spec(name, path, target)
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                if {when!r} == "imported":
                    act()
                elif {when!r} == "all_reduce":
                    before = module.all_reduce

                    def all_reduce(*args, **kwargs):
                        act()
                        return before(*args, **kwargs)

                    module.all_reduce = all_reduce

            spec.loader.exec_module = exec_module
            return spec

    if {when!r} == "start":
        act()
    sys.meta_path.insert(0, Finder)
"""


def site(when: str, what: str, only: str = "") -> str:
    """The text of such a file. `when`: start, torch, imported, all_reduce; `only`: the one rank that does it."""
    return _SITE.format(when=when, what=what, only=only)


def plant(bare: Bare, host: str, when: str, what: str) -> list[str]:
    """Let the ranks of one host do it. Returns the options of `ddpkit test` that it takes."""
    folder = bare.folder / "site"
    folder.mkdir(exist_ok=True)
    path = folder / "sitecustomize.py"
    path.touch()
    bare.write(host, path, site(when, what))
    return ["--env", f"PYTHONPATH={folder}"]


def local(folder: Path, rank: int, when: str, what: str) -> list[str]:
    """The same for one rank of this machine."""
    (folder / "site").mkdir(exist_ok=True)
    (folder / "site/sitecustomize.py").write_text(site(when, what, str(rank)))
    return ["--env", f"PYTHONPATH={folder / 'site'}"]
