"""The end of a rank that is a fork of a warm Python: all that the rank itself made ends as ever, and nothing else.

Python's own end takes every imported module apart, and the libraries of torch their tables. In a fork this copies a
hundred megabytes of shared pages, for 0.3 s of CPU time a rank, and changes nothing outside of the process. So a rank
that succeeded leaves without it. A rank with another thread, or with a library that its parent did not have, such as
one of CUDA, has Python's own end: a library can have things to do at the end of a process.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
import weakref
from _io import _IOBase  # type: ignore[import-not-found,unused-ignore]  # `io.IOBase` asks each object for its class
from os import _exit  # a script may replace it

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Before:
    """What was there before a rank was forked."""

    def __init__(self) -> None:
        self.libraries = _libraries()
        self.modules = set(sys.modules)
        self._last = next(reversed(sys.modules))
        self.finalizers = list(getattr(weakref.finalize, "_registry", ()))

    def new_modules(self) -> list[str]:
        """Names of the modules since then, the newest first. To look at each older name would copy its page."""
        new = []
        for name in reversed(sys.modules):
            if name == self._last:
                break
            if name not in self.modules:
                new.append(name)
        return new


def _libraries() -> set[str]:
    """The files with machine code in this process, without those of Python's own modules."""
    with open("/proc/self/maps") as file:
        lines = [line.split(None, 5) for line in file]
    return {words[5] for words in lines if len(words) > 5 and "x" in words[1] and "/lib-dynload/" not in words[5]}


def leave(before: Before) -> None:
    """End this process with exit code 0. Returns where Python's own end has to follow."""
    if len(os.listdir("/proc/self/task")) > 1 or not _libraries() <= before.libraries:
        return
    threading._shutdown()  # type: ignore[attr-defined]
    for finalizer in before.finalizers:  # what they end is shared with other ranks
        finalizer.atexit = False
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # each has been printed, and Python's own end goes on as well
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        return  # Python does it again, and has an exit code for it
    _take_apart(before.new_modules())
    flush_files()
    ctypes.CDLL(None).fflush(None)  # what libraries printed
    _exit(0)


def _take_apart(names: list[str]) -> None:
    """End the modules of the rank's program as Python does: the collector first, then name by name, the last first."""
    own = [sys.modules.pop(name) for name in (*names, "__main__")]
    left = [weakref.ref(module) for module in own if isinstance(module, type(sys))]
    own.clear()
    gc.collect()
    for known in left:
        module = known()
        if module is not None:
            _clear(vars(module))
    gc.collect()


def _clear(names: dict[str, Any]) -> None:
    for private in (True, False):
        for name in list(names):
            if name != "__builtins__" and name.startswith("_") is private:
                names[name] = None


def flush_files() -> None:
    """Write what files hold back. In a fork, one that a module of its parent keeps is not closed by Python's own end.

    Nor is one whole that the collector closes: it can end a file before the text that stands in front of it.
    """
    own = [each for each in gc.get_objects() if issubclass(type(each), _IOBase)]  # those of the parent are frozen
    for file in reversed((sys.stderr, sys.stdout, *own)):  # a text file before its buffer
        try:
            if not file.closed and file.writable():
                file.flush()
        except Exception:
            pass  # as at the end of a file that nobody closed
