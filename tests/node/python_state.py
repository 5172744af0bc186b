"""Prints everything in a Python process that a launcher could have changed, as JSON: {what: value in words}.

Run by `test_unmodified.py` as a rank of ddpkit and without ddpkit: whatever differs was changed. It looks when the
script begins, and again when torch has trained a step of a DistributedDataParallel. Values that differ in any two runs
(addresses, process ids) are left out.

Usage: python_state.py FILE, where FILE gets the two states
"""

# mypy: ignore-errors
# ruff: noqa: PTH109, PTH115, PTH208

import atexit
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import signal
import sys
import threading
import types

SHOWN = 300  # characters of a value
MODULES = "torch os posix posixpath signal _signal gc threading _thread sys atexit faulthandler builtins importlib"
MODULES += " _frozen_importlib _frozen_importlib_external _imp io _io time subprocess warnings logging socket site"
# The state of a run, and not of its code.
SKIPPED = re.compile(
    r"sys\.(argv|modules|path_importer_cache|stdin|stdout|stderr|__std\w+__|_git|last_\w+|flags)$"
    r"|(os|posix)\.environb?$|sys\.orig_argv|_started_at|_start_time|threading\.(_active|_limbo|_dangling|_shutdown_locks|_main_thread)"
    r"|logging\.(_startTime|_handlers|_handlerList|root|lastResort|_lock)|_seed|tempfile|_cached|_lru_cache"
)
VOLATILE = re.compile(r"0x[0-9a-f]{6,}|\b\d{6,}\b|/proc/\d+|(?<=port=)\d+")


def words(value):
    """A value without what differs between two runs of the same program."""
    return VOLATILE.sub("N", repr(value))[:SHOWN]


def sort_key(value):
    if isinstance(value, (set, frozenset)):
        return "set", str(sorted(map(words, value)))
    return type(value).__name__, getattr(value, "__qualname__", "") or words(value)


def code_of(function):
    code = function.__code__
    digest = hashlib.sha1(code.co_code).hexdigest()[:12]
    return f"function {code.co_name} {digest} at {code.co_filename}:{code.co_firstlineno}"


class Walk:
    """Every attribute that can be reached from the modules named above, once."""

    def __init__(self):
        self.found = {}
        self.seen = {id(self.found), id(self)}

    def module(self, name):
        module = sys.modules[name]
        for attribute, value in sorted(vars(module).items()):
            self.value(f"{name}.{attribute}", value)

    def value(self, path, value, depth=0):
        if SKIPPED.search(path):
            return
        if isinstance(value, types.FunctionType):
            self.found[path] = code_of(value)
            if hasattr(value, "__wrapped__") and depth < 4:
                self.value(path + ".__wrapped__", value.__wrapped__, depth + 1)
        elif isinstance(value, type):
            self.found[path] = f"class {value.__module__}.{value.__qualname__} {words(value.__mro__)}"
            if id(value) not in self.seen:
                self.seen.add(id(value))
                for name, each in sorted(vars(value).items(), key=lambda item: str(item[0])):
                    if name not in ("__dict__", "__weakref__", "__doc__", "_abc_impl", "__annotations__"):
                        self.value(f"{path}.{name}", each, depth + 1)
        elif isinstance(value, property):
            for name in ("fget", "fset", "fdel"):
                self.value(f"{path}.{name}", getattr(value, name), depth + 1)
        elif isinstance(value, (classmethod, staticmethod)):
            self.value(path, value.__func__, depth + 1)
        elif isinstance(value, types.ModuleType):
            self.found[path] = f"module {value.__name__}"
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            self.found[path] = words(value)
        elif isinstance(value, (list, tuple)):
            self.found[path] = f"{type(value).__name__} of {len(value)}"
            if id(value) not in self.seen and depth < 3 and len(value) < 200:
                self.seen.add(id(value))
                # Torch makes some lists from sets, whose order is that of addresses.
                for index, each in enumerate(sorted(value, key=sort_key)):
                    self.value(f"{path}[{index}]", each, depth + 1)
        elif isinstance(value, dict):
            self.found[path] = f"{type(value).__name__} of {len(value)}"
            if id(value) not in self.seen and depth < 3 and len(value) < 500:
                self.seen.add(id(value))
                for key, each in value.items():
                    if isinstance(key, (str, int, bool)):
                        self.value(f"{path}[{words(key)}]", each, depth + 1)
        elif isinstance(value, (set, frozenset)):
            self.found[path] = f"{type(value).__name__} of {len(value)}"
        else:
            self.found[path] = f"{type(value).__module__}.{type(value).__qualname__}"


def attributes():
    walk = Walk()
    for name in sorted(sys.modules):
        if name in MODULES.split() or name.startswith("torch."):
            walk.module(name)
    return walk.found


def descriptors():
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # of the listing
        kind = re.sub(r"\d+", "N", target)
        inherited = os.get_inheritable(fd)
        found.append(f"{kind} inheritable {inherited}" if fd > 2 else f"{fd}")
    return sorted(found)


def signals():
    handlers = {str(number): words(signal.getsignal(number)) for number in signal.valid_signals()}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with open("/proc/self/status") as file:
        masks = dict(line.rstrip("\n").split(":\t") for line in file if line.startswith(("SigBlk", "SigIgn", "SigCgt")))
    blocked = sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, [])))
    return {**{f"handler of {number}": text for number, text in handlers.items()}, **masks} | {
        "wakeup fd": str(wakeup), "blocked": str(blocked), "itimer": str(signal.getitimer(signal.ITIMER_REAL)),
    }  # fmt: skip


def threads():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    return {"of Python": sorted(thread.name for thread in threading.enumerate()), "of the kernel": sorted(names)}


def collector():
    return {
        "enabled": gc.isenabled(), "thresholds": gc.get_threshold(), "frozen": gc.get_freeze_count(),
        "callbacks": len(gc.callbacks), "debug": gc.get_debug(),
    }  # fmt: skip


def hooks():
    return {
        "excepthook": words(sys.excepthook), "same excepthook": sys.excepthook is sys.__excepthook__,
        "unraisablehook": sys.unraisablehook is sys.__unraisablehook__, "displayhook": words(sys.displayhook),
        "threading.excepthook": words(threading.excepthook), "trace": words(sys.gettrace()),
        "profile": words(sys.getprofile()), "audit": "unknown", "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(), "meta_path": [words(each) for each in sys.meta_path],
        "path_hooks": [words(each) for each in sys.path_hooks], "path": list(sys.path), "flags": words(sys.flags),
        "path_importer_cache": sorted(sys.path_importer_cache), "modules": sorted(sys.modules),
        "atexit": atexit._ncallbacks(), "threading atexit": len(getattr(threading, "_threading_atexits", [])),
    }  # fmt: skip


def process():
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT")}
    umask = os.umask(0)
    os.umask(umask)
    return {
        "limits": str(limits), "umask": umask, "cwd": os.getcwd(), "nice": os.nice(0), "ids": str(os.getresuid()),
        "cpus": sorted(os.sched_getaffinity(0)), "scheduler": os.sched_getscheduler(0),
    }  # fmt: skip


def state():
    """Each look must not see the one before: names that a walk imports or caches are none of the rank's."""
    return {
        "threads": threads(), "descriptors": descriptors(), "signals": signals(), "collector": collector(),
        "hooks": hooks(), "process": process(), "environment": dict(os.environ), "attributes": attributes(),
    }  # fmt: skip


def train():
    torch = importlib.import_module("torch")
    dist = importlib.import_module("torch.distributed")
    parallel = importlib.import_module("torch.nn.parallel")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    dist.barrier()
    return model, optimizer  # still there in the second look


if __name__ == "__main__":
    states = [state()]
    if sys.argv[2:] == ["torch"]:
        kept = train()
        states.append(state())
    with open(sys.argv[1], "w") as file:
        json.dump(states, file)
    sys.stdout.flush()
    os._exit(0)
