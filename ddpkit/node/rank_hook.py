"""Lets a rank be asked from outside where it is, also while its main thread is blocked. Changes nothing else in it.

The supervisor writes this file as `sitecustomize.py` into a private folder that stands first on a rank's PYTHONPATH, as
it does with `fork_server.py`, which takes `register` from here. By it a rank gets a handler of `faulthandler` for one
real-time signal: C code that writes the stacks of all threads, whatever they do, into a file in memory that nobody else
sees (`stack_dump.py`). Its descriptor has a high number, which a script that closes or counts descriptors does not
meet, and its name says whose it is. A forked child has the handler, but no file in its own name.

Nothing of Python or torch is replaced. The folder is gone from `sys.path` and `os.environ` before the script begins,
and so is this module, unless the site has a `sitecustomize` of its own: that one is imported as without ddpkit. What a
rank starts does not load it. `tests/node/test_unmodified.py` compares a rank with a bare run.

With `--observe` the file `rank_observe.py` lies in the folder as well, and runs here.

It costs a millisecond, most of it to compile it, which is why it is short. Standard library only, Python 3.8 and later.
"""

# Not `from __future__ import annotations`: its module would stay.
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every rank
    from collections.abc import Sequence
    from typing import Any

OFFSET = 11  # SIGRTMIN + 11: systemd, glibc, Go, Java and the debuggers of CUDA use others, or none of these


def register(folder: str, times: "Sequence[tuple[str, float]]" = ()) -> None:
    """Make this process one that can be asked. Whatever does not work is left out: a rank must start.

    times: marks of the interpreter from which this process was forked.
    """
    try:
        asked = _wait_for_questions()
        if os.path.exists(folder + "/rank_observe.py"):
            _run(folder, "rank_observe")["start"](folder, times, asked, _moved)
    except Exception:
        pass


def _wait_for_questions() -> "tuple[int, int] | None":
    """Write all stacks at a signal. Returns the descriptor of the file in memory, and the signal; macOS has neither."""
    if sys.platform != "linux":
        return None
    known = set(sys.modules)
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
    for name in set(sys.modules) - known:
        del sys.modules[name]
    return fd, number


def _run(folder: str, name: str) -> "dict[str, Any]":
    """Another file of ours, compiled when it is needed."""
    path = "%s/%s.py" % (folder, name)
    known: "dict[str, Any]" = {"__name__": "ddpkit_" + name}
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
    if agent:  # torchrun, and no rank
        import atexit
        import gc

        gc.set_threshold(20_000)  # new objects: torchrun imports torch with 13 collections then, instead of 372
        atexit.register(gc.freeze)
    else:
        register(folder)
    del sys.modules["sitecustomize"]
    # The site may have one of its own, which this file stands in front of. Where it has none, the ImportError is what
    # Python expects of a site without one, and the end of this module.
    __import__("sitecustomize")


if "DDPKIT_HOOK" in os.environ and __name__ == "sitecustomize":
    _main()
