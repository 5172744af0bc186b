"""Lets a rank be asked from outside where it is, also while its main thread is blocked.

The supervisor writes this file as `sitecustomize.py` into a private folder that stands first on a rank's PYTHONPATH, as
it does with `fork_server.py`, which takes `register` from here. What a rank gets by it, until somebody asks
(`stack_dump.py`):

* a handler of `faulthandler` for one real-time signal: C code that writes the stacks of all threads, whatever they do,
  into a file in memory that nobody else sees. Its descriptor has a high number, which a script that closes or counts
  descriptors does not meet, and its name says whose it is;
* from the moment when torch has its default process group, the thread of `rank_responder.py`. Not earlier: from then on
  the process has threads of gloo or NCCL, and to fork it is no more of a risk than before (Python 3.12 warns of it).
  When the group is destroyed, torch's threads get the interpreter lock once more, as `rank_responder.py` says;
* no garbage collections while it imports torch, nor later ones that walk through what was imported (`gc.freeze`).
  torchrun itself gets fewer collections, and none at its end, but nothing of the rest;
* from the moment when it begins to import torch, `rank_events.py`, which reports the progress of the start and the
  length of steps to the supervisor. Its events go into a pipe that never blocks: where nobody reads, they are lost.
  Under SLURM there is no such pipe, and `rank_events_file.py` takes them.

It costs one to three milliseconds, most of them to compile it, which is why it is short. It leaves no trace in
`sys.path` or `os.environ` (but see `_record`), and what a rank starts does not load it. A forked child has the handler,
but neither the thread nor a file in its own name. Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every rank
    from collections.abc import Callable, Sequence
    from typing import Any

OFFSET = 11  # SIGRTMIN + 11: systemd, glibc, Go, Java and the debuggers of CUDA use others, or none of these
MODULE = "torch.distributed.distributed_c10d"


def register(folder: str, times: Sequence[tuple[str, float]] = ()) -> None:
    """Make this process one that can be asked. Whatever does not work is left out: a rank must start.

    times: marks of the interpreter from which this process was forked.
    """
    try:
        pid, rank = os.getpid(), os.environ.get("RANK", "")

        def piped(*words: object) -> None:
            """One line to the supervisor, where one listens and this is the rank itself."""
            if os.getpid() == pid:
                try:
                    pipe = os.open(folder + "/marks", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                except OSError:
                    return
                try:
                    os.write(pipe, (" ".join(map(str, words)) + "\n").encode())
                except OSError:
                    pass
                finally:
                    os.close(pipe)

        tell: Callable[..., None] = piped
        if rank.isdigit() and os.path.exists(folder + "/rank_events_file.py"):
            tell = _run(folder, "rank_events_file")["start"](folder, rank, _moved, os.getppid() if times else pid)

        def mark(name: str) -> None:
            tell("mark", rank, name, time.time())

        for name, when in times or [("python", time.time())]:
            tell("mark", rank, name, when)
        changed = _with_group(folder, lambda: mark("group"))
        wanted: dict[str, Any] = {MODULE: (None, lambda module: _watch(module, changed))}
        if rank.isdigit():

            def marks() -> None:
                _run(folder, "rank_events")["start"](tell, mark, rank, wanted)

            def imported(torch: Any) -> None:
                _keep_imports()
                mark("imported")
                _record(torch)
                _tell_versions(torch, tell, rank)

            if "torch" in sys.modules:
                marks()
                _record(sys.modules["torch"])
                _tell_versions(sys.modules["torch"], tell, rank)
            else:
                wanted["torch"] = (marks, imported)
        _when_imported(wanted)
    except Exception:
        pass


def _keep_imports() -> None:
    """Leave the imported objects out of garbage collections, until the script ends.

    The last collections include them: a file that the script did not close may be found by these alone.
    """
    gc.freeze()
    frozen = gc.get_freeze_count()

    def unfreeze() -> None:
        if gc.get_freeze_count() <= frozen:  # more: the script froze some as well
            gc.unfreeze()

    atexit.register(unfreeze)


def _with_group(folder: str, begins: Callable[[], None]) -> Callable[[Any], None]:
    """Prepare for questions. Returns what is called with each default process group that torch has; None: it ends."""
    pid, asked = os.getpid(), _wait_for_questions()
    responder: dict[str, Any] = {}

    def changed(group: Any) -> None:
        if os.getpid() != pid:
            return  # a fork that makes a process group of its own
        if group is not None:
            begins()
            if asked is not None:
                responder.update(responder or _run(folder, "rank_responder"))
                responder["start"](*asked)
        elif responder:
            responder["rest"]()

    return changed


def _record(torch: Any) -> None:
    """Give the size of the Flight Recorder the name that torch before 2.8 reads. Later ones warn of it."""
    size = os.environ.get("TORCH_FR_BUFFER_SIZE")
    if size and [int(part) for part in torch.__version__.split(".")[:2]] < [2, 8]:
        os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", size)


def _tell_versions(torch: Any, tell: Callable[..., None], rank: str) -> None:
    """Report what one rank of each node runs with."""
    if os.environ.get("LOCAL_RANK", "0") == "0":
        nccl = torch.cuda.nccl.version() if hasattr(torch._C, "_nccl_version") else "-"
        nccl = ".".join(map(str, nccl)) if isinstance(nccl, tuple) else nccl
        hip = getattr(torch.version, "hip", None)
        cuda = torch.version.cuda or (hip and "rocm-%s" % hip) or "-"
        tell("versions", rank, "%d.%d.%d" % sys.version_info[:3], torch.__version__, cuda, nccl)


def _wait_for_questions() -> tuple[int, int] | None:
    """Write all stacks at a signal. Returns the descriptor of the file in memory, and the signal; macOS has neither."""
    if sys.platform != "linux":
        return None
    # `signal` itself imports enum, for names that nobody reads here.
    import _signal  # type: ignore[import-not-found]
    import faulthandler

    number = _signal.SIGRTMIN + OFFSET
    first = os.memfd_create("ddpkit-%d-%d" % (os.getpid(), number), os.MFD_CLOEXEC)
    # Opened a second time: what is written stands at the end, whoever emptied the file before.
    fd = os.open("/proc/self/fd/%d" % first, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    os.close(first)
    fd = _moved(fd)
    faulthandler.register(number, file=fd, all_threads=True, chain=False)
    return fd, number


def _run(folder: str, name: str) -> dict[str, Any]:
    """Another file of ours, compiled when it is needed."""
    path = "%s/%s.py" % (folder, name)
    known: dict[str, Any] = {"__name__": "ddpkit_" + name}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), known)
    return known


def _moved(fd: int) -> int:
    """The descriptor under a high number, but no higher than what makes the kernel enlarge its table much."""
    number = min(os.sysconf("SC_OPEN_MAX"), 1024) - 3
    while number > 200:
        try:
            os.fstat(number)
        except OSError:
            os.dup2(fd, number, inheritable=False)
            os.close(fd)
            return number
        number -= 1
    return fd


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
                    collects = gc.isenabled()
                    gc.disable()  # an import makes hardly any garbage, and torch's has 372 collections
                    try:
                        execute(module)
                    finally:
                        if collects:
                            gc.enable()
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


def _main() -> None:
    folder = os.environ.pop("DDPKIT_HOOK")
    agent = "DDPKIT_TAP" in os.environ
    if agent:
        os.environ["DDPKIT_HOOK"] = folder  # for the wrappers of its ranks
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    left = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry not in ("", folder)]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")  # the site may have one of its own, which this file stands in front of
    except Exception as error:
        if getattr(error, "name", "") != "sitecustomize":
            # As Python itself says it, before it goes on.
            text = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n%s: %s\n" % (type(error).__name__, error)
            sys.stderr.write(text)
    sys.modules.setdefault("sitecustomize", ours)
    if agent:
        gc.set_threshold(20_000)  # new objects: torchrun imports torch with 13 collections then, instead of 372
        atexit.register(gc.freeze)
    else:
        register(folder)


if "DDPKIT_HOOK" in os.environ and __name__ == "sitecustomize":
    _main()
