"""Parts that `--observe` adds to a rank: `rank_hook.py` loads this. Each part, and what it changes in the process:

* `start`: the progress of the start. It replaces `torch.distributed.rendezvous`, `torch.cuda._lazy_init` (until CUDA
  has started), `Work.wait` and `DistributedDataParallel.__init__` (until the first collective), and the property
  `_World.default_pg`.
* `steps`: the length of steps. It registers a hook for every optimizer and one for every registration of a module, a
  hook on the gradient of one parameter, and after the first step a function for Python's end; it replaces `os._exit`.
* `stacks`: torch's Flight Recorder and process groups in a dump. A thread, `ddpkit-dump`, begins when torch has its
  default process group, for which the property `_World.default_pg` is replaced. The variable TORCH_FR_BUFFER_SIZE is
  set to 2000, unless it has a value.

All of them need a finder in `sys.meta_path`, until the modules that they watch are imported.
"""

from __future__ import annotations

import os
import sys
import time

from ddpkit.node.rank import rank_events, rank_responder

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import
    from collections.abc import Callable, Sequence
    from typing import Any

OBSERVERS = ("rank_observe", "rank_events", "rank_responder")  # files beside `rank_hook.py`
# Collectives that torch's Flight Recorder keeps: torch 2.2 to 2.10 keeps none by default.
RECORDER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
MODULE = "torch.distributed.distributed_c10d"


def start(bundle: str, times: Sequence[tuple[str, float]], asked: tuple[int, int] | None) -> None:
    """Begin with the parts in DDPKIT_OBSERVE.

    times: as in `rank_hook.register`. asked: the file in memory for stacks, and the signal.
    """
    rank, parts = os.environ.get("RANK", ""), os.environ.get("DDPKIT_OBSERVE", "").split(",")
    if "stacks" in parts and not any(name in os.environ for name in RECORDER):
        os.environ[RECORDER[0]] = "2000"
    tell = _teller(os.path.dirname(bundle)) if {"start", "steps"} & set(parts) else None

    def mark(name: str) -> None:
        if tell is not None and "start" in parts:
            tell("mark", rank, name, time.time())

    for name, when in times or [("python", time.time())]:
        if tell is not None and "start" in parts:
            tell("mark", rank, name, when)
    changed = _with_group(lambda: mark("group"), asked if "stacks" in parts else None)
    wanted: dict[str, Any] = {MODULE: (None, lambda module: _watch(module, changed))}
    if tell is not None and rank.isdecimal():
        teller = tell

        def marks() -> None:
            rank_events.start(teller, mark, rank, wanted, parts)

        def imported(torch: Any) -> None:
            mark("imported")
            _record(torch)
            _tell_versions(torch, teller, rank)

        if "torch" in sys.modules:
            marks()
            _record(sys.modules["torch"])
            _tell_versions(sys.modules["torch"], tell, rank)
        else:
            wanted["torch"] = (marks, imported)
    _when_imported(wanted)


def _teller(folder: str) -> Callable[..., None]:
    """Return what sends a line to the supervisor, from this process alone and not from a fork of it.

    folder: the private one of a supervisor, with a pipe `marks`.
    """
    pid = os.getpid()

    def piped(*words: object) -> None:
        if os.getpid() == pid:
            try:
                pipe = os.open(folder + "/marks", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return  # nobody reads
            try:
                os.write(pipe, (" ".join(map(str, words)) + "\n").encode())
            except OSError:
                pass
            finally:
                os.close(pipe)

    return piped


def _with_group(begins: Callable[[], None], asked: tuple[int, int] | None) -> Callable[[Any], None]:
    """Return a function for each new default process group of torch; with None: the group ends."""
    pid = os.getpid()

    def changed(group: Any) -> None:
        if os.getpid() == pid and group is not None:  # no fork that makes a process group of its own
            begins()
            if asked is not None:
                rank_responder.start(*asked)

    return changed


def _record(torch: Any) -> None:
    """Give the size of the Flight Recorder the name that torch before 2.8 reads. Later versions warn of that name."""
    size = os.environ.get(RECORDER[0])
    if size and [int(part) for part in torch.__version__.split(".")[:2]] < [2, 8]:
        os.environ.setdefault(RECORDER[1], size)


def _tell_versions(torch: Any, tell: Callable[..., None], rank: str) -> None:
    """Report what one rank of each node runs with."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        nccl = torch.cuda.nccl.version() if hasattr(torch._C, "_nccl_version") else "-"
        nccl = ".".join(map(str, nccl)) if isinstance(nccl, tuple) else nccl
        hip = getattr(torch.version, "hip", None)
        cuda = torch.version.cuda or (hip and "rocm-%s" % hip) or "-"
        tell("versions", rank, "%d.%d.%d" % sys.version_info[:3], torch.__version__, cuda, nccl)


def _when_imported(wanted: dict[str, Any]) -> None:
    """For each module, call the first of a pair just before its code runs, and the second, with it, just after."""
    for name in [name for name in wanted if name in sys.modules]:
        wanted.pop(name)[1](sys.modules[name])

    class Finder:
        """Finds nothing itself. A module that is found is watched; when all were, this finder is gone."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name not in wanted:
                return None
            before, after = wanted.pop(name)
            spec: Any = None
            for other in [other for other in sys.meta_path if other is not finder]:
                spec = spec or other.find_spec(name, path, target)
            if spec is not None:
                _quietly(before)
                loader = spec.loader
                execute = loader.exec_module

                def exec_module(module: Any) -> None:
                    del loader.exec_module
                    execute(module)
                    _quietly(after, module)

                loader.exec_module = exec_module
            if not wanted:
                sys.meta_path.remove(finder)
            return spec

    finder: Any = Finder
    if wanted:
        sys.meta_path.insert(0, finder)


def _quietly(call: Any, *args: Any) -> None:
    try:
        if call is not None:
            call(*args)
    except Exception:
        pass  # a script must not see it


def _watch(module: Any, changed: Callable[[Any], None]) -> None:
    """torch keeps its default group in a property (since 2.0; 2.13, seen), which nobody looks at. None ends it."""
    try:
        before = module._World.default_pg

        def setter(world: Any, group: Any) -> None:
            before.fset(world, group)
            _quietly(changed, group)

        module._World.default_pg = property(before.fget, setter, before.fdel, before.__doc__)
    except Exception:
        pass  # another torch
