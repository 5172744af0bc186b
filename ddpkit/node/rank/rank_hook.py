"""Lets a rank be asked from outside where it is, also while its main thread is blocked. Changes nothing else in it.

This is the `sitecustomize` of the bundle (`bundle.py`), which stands first on a rank's PYTHONPATH. By it a rank gets a
handler of `faulthandler` for one real-time signal: C code that writes the stacks of all threads, whatever they do, into
a file in memory that nobody else sees (`stack_dump.py`). Its descriptor has a high number, which a script that closes
or counts descriptors does not meet, and its name says whose it is. A forked child has the handler, but no file in its
own name.

Nothing of Python or torch is replaced. The bundle is gone from `sys.path` and `os.environ` before the script begins,
and so is this module, unless the site has a `sitecustomize` of its own: that one is imported as without ddpkit. What a
rank starts does not load it. `tests/node/test_unmodified.py` compares a rank with a bare run.

With `--observe` it loads `rank_observe.py`, with `-o preload` `fork_server.py`. It costs two milliseconds, half of them
to compile it, which is why it is short.
"""

# Not `from __future__ import annotations`: its module would stay.
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every rank
    from collections.abc import Sequence
    from typing import Any

OFFSET = 11  # SIGRTMIN + 11: systemd, glibc, Go, Java and the debuggers of CUDA use others, or none of these


def register(bundle: str, times: "Sequence[tuple[str, float]]" = ()) -> None:
    """Make this process one that can be asked. Whatever does not work is left out: a rank must start.

    times: marks of the interpreter from which this process was forked.
    """
    try:
        asked = _register_stacks()  # where the rank answers, and to which signal
        if "DDPKIT_OBSERVE" in os.environ:
            load(bundle, "rank_observe").start(bundle, times, asked)
    except Exception:
        pass


def _register_stacks() -> "tuple[int, int] | None":
    """Let a signal write all stacks into a file in memory. Returns its descriptor and the signal; macOS has neither."""
    if sys.platform != "linux":
        return None
    new = [name for name in ("_signal", "faulthandler") if name not in sys.modules]
    # `signal` itself imports enum, for names that nobody reads here.
    import _signal  # type: ignore[import-not-found]
    import faulthandler

    number = _signal.SIGRTMIN + OFFSET
    first = os.memfd_create("ddpkit-%d-%d" % (os.getpid(), number), os.MFD_CLOEXEC)
    # Opened a second time: what is written stands at the end, whoever emptied the file before.
    fd = os.open("/proc/self/fd/%d" % first, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    os.close(first)
    fd = _at_high_number(fd)
    faulthandler.register(number, file=fd, all_threads=True, chain=False)
    for name in new:
        del sys.modules[name]
    return fd, number


def load(bundle: str, name: str) -> "Any":
    """Import a module for ranks of the bundle. No name of it stays: a script may import a ddpkit of its own."""
    others = {each: sys.modules.pop(each) for each in list(sys.modules) if each.partition(".")[0] == "ddpkit"}
    for each in ("ddpkit", "ddpkit.node", "ddpkit.node.rank"):
        sys.modules[each] = type(sys)(each)
    sys.modules["ddpkit.node"].__path__ = [bundle + "/node"]
    sys.modules["ddpkit.node.rank"].__path__ = [bundle + "/node/rank"]
    try:
        return __import__("ddpkit.node.rank." + name, fromlist=["_"])
    finally:
        for each in [each for each in sys.modules if each.partition(".")[0] == "ddpkit"]:
            del sys.modules[each]
        sys.modules.update(others)
        _forget(bundle, bundle + "/node", bundle + "/node/rank")


def _forget(bundle: str, *more: str) -> None:
    """Leave nothing of the bundle in the caches of Python's imports."""
    for path in (bundle, *more):
        sys.path_importer_cache.pop(path, None)
    getattr(sys.modules.get("zipimport"), "_zip_directory_cache", {}).pop(bundle, None)


def _at_high_number(fd: int) -> int:
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


def leave_path(bundle: str) -> None:
    """Take the bundle from the path of this process, and of what it starts."""
    sys.path[:] = [entry for entry in sys.path if entry != bundle]
    _forget(bundle)
    # An empty entry is the current directory.
    left = [entry for entry in os.environ.get("PYTHONPATH", bundle).split(os.pathsep) if entry != bundle]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)


def _main() -> None:
    bundle = os.environ.pop("DDPKIT_HOOK")
    agent = "DDPKIT_TAP" in os.environ
    if agent:
        os.environ["DDPKIT_HOOK"] = bundle  # for the wrappers of its ranks
    leave_path(bundle)
    if agent:  # torchrun, and no rank
        import atexit
        import gc

        gc.set_threshold(20_000)  # new objects: torchrun imports torch with 13 collections then, instead of 372
        atexit.register(gc.freeze)
    else:
        register(bundle)
    del sys.modules["sitecustomize"]
    # The site may have one of its own, which this file stands in front of. Where it has none, the ImportError is what
    # Python expects of a site without one, and the end of this module.
    __import__("sitecustomize")


if __name__ == "sitecustomize":
    if "DDPKIT_PRELOAD" in os.environ:
        load(os.path.dirname(__file__), "fork_server").main(leave_path, register)
    elif "DDPKIT_HOOK" in os.environ:
        _main()
