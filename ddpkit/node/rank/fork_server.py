"""Import torch once, then fork the ranks, each of which goes on as an interpreter that was started alone.

The ranks' own command is started once, with the bundle (`bundle.py`) first on PYTHONPATH, and `rank_hook.py` runs this
during the start of Python: after the command line was read, before the script is. A rank is forked right here and then
simply returns, so that its `sys.argv`, `__main__`, `-m`, tracebacks, `atexit` and exit status are Python's own, made by
Python itself. The first interpreter never returns: it waits for the ranks, reports how they ended, and exits.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time

from ddpkit.node.child import connect_output, die_with_parent, exit_status, prepend
from ddpkit.node.rank.quick_end import flush_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

# Many modules call torch.cuda.is_available(). With this set it asks NVML, and forks can still use CUDA.
NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
ROCM_FILE = "/dev/kfd"  # opened by the start of ROCm
CUDA = "libcuda.so.1"
NOT_STARTED = 3  # CUDA_ERROR_NOT_INITIALIZED. The open files do not tell CUDA from NVML: both have /dev/nvidia-uvm
_FOR_RANKS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
BAD_FORK = ("_cuda_isInBadFork", "_xpu_isInBadFork")  # of torch._C; a build for the CPU has none


def _real_sitecustomize() -> None:
    """The site may have a sitecustomize of its own, which this file stands in front of."""
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            _complain(error)
    except Exception as error:
        _complain(error)
    sys.modules.setdefault("sitecustomize", ours)


def _complain(error: Exception) -> None:
    """As Python itself does about a sitecustomize that fails, before it goes on."""
    text = "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n%s: %s\n" % (type(error).__name__, error)
    sys.stderr.write(text)


def import_modules(modules: list[str]) -> str | None:
    """Import the modules. Returns why a fork is not safe now, or None."""
    chosen = os.environ.get(NVML)
    os.environ.setdefault(NVML, "1")
    for name in modules:
        try:
            __import__(name)
        except Exception as error:
            # If the script needs it, it meets the same error, with a traceback that names its line.
            print("ddpkit: -o preload cannot import %s: %s" % (name, error), file=sys.stderr, flush=True)
    if chosen is None:
        os.environ.pop(NVML, None)
    if threading.active_count() > 1:
        return "importing %s starts threads" % ", ".join(modules)
    if _uses_gpus():
        return "importing %s initialises CUDA" % ", ".join(modules)
    return None


def _uses_gpus() -> bool:
    """Whether this process has begun to use GPUs: by ROCm's file, CUDA's own answer, and torch's flag in a fork."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + fd) == ROCM_FILE:
                return True
        except OSError:
            pass  # the descriptor of the listing itself
    if _cuda_has_started():
        return True
    torch = sys.modules.get("torch")
    known = [getattr(torch._C, name, None) for name in BAD_FORK] if torch is not None else []
    if not any(known):
        return False
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = int(any(ask() for ask in filter(None, known)))
        finally:
            os._exit(code)
    return bool(os.waitpid(pid, 0)[1])


def _cuda_has_started() -> bool:
    """Ask the driver's library, where it is loaded: it answers without starting anything."""
    with open("/proc/self/maps") as file:
        if "/" + CUDA.partition(".")[0] + "." not in file.read():
            return False
    import ctypes

    return bool(ctypes.CDLL(CUDA).cuDeviceGetCount(ctypes.byref(ctypes.c_int())) != NOT_STARTED)


def _wait(spec: dict[str, Any], running: dict[int, dict[str, Any]]) -> None:
    """Report the ranks and their ends to the supervisor, and end this process after the last one."""
    # A scheduler may give a signal to every process: the ranks decide, and end with this one.
    for each in _FOR_RANKS:
        signal.signal(each, signal.SIG_IGN)
    events = os.open(spec["folder"] + "/events", os.O_WRONLY)

    def tell(kind: str, rank: dict[str, Any], *words: object) -> None:
        line = [kind, rank["env"]["LOCAL_RANK"], rank["rank"], *words]
        os.write(events, (" ".join(map(str, line)) + "\n").encode())

    for pid, rank in running.items():
        tell("start", rank, pid, spec["began"])
    while running:
        pid, status = os.wait()
        if pid in running:
            tell("exit", running.pop(pid), *exit_status(status), time.time())
    os._exit(0)


def _become(rank: dict[str, Any], server: int) -> None:
    """What the supervisor does for a rank that it starts itself: a session, and the environment."""
    os.setsid()
    die_with_parent(server, signal.SIGKILL)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # ignored until here
        signal.signal(number, signal.SIG_DFL)
    if rank["cpus"] and sys.platform == "linux":
        with contextlib.suppress(OSError):  # a container may have none of them
            os.sched_setaffinity(0, rank["cpus"])
    for name, value in rank["env"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    reseed()


def reseed() -> None:
    """`random` reseeds itself after a fork. NumPy and torch do not: every rank would draw the same numbers.

    NumPy 2 imports its random numbers at their first use. A rank that imports them itself has a seed of its own.
    """
    numbers = sys.modules.get("numpy.random")
    if numbers is not None:
        numbers.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()  # the processor's; a CUDA generator starts from the same seed in every process


def main(leave_path: Callable[[str], None], register: Callable[..., None]) -> None:
    """Fork the ranks, and return in each of them. `leave_path`, `register`: of `rank_hook.py`."""
    try:
        _main(leave_path, register)
    except BaseException as error:
        # Whatever happens, the script must not run here, as a rank that is none.
        sys.stderr.write("ddpkit: cannot preload: %s: %s\n" % (type(error).__name__, error))
        sys.stderr.flush()
        os._exit(1)


def _main(leave_path: Callable[[str], None], register: Callable[..., None]) -> None:
    """Import, then fork. Returns in each rank; the first process waits for them in `_wait`, and never returns."""
    times = [("python", time.time())]
    with open(os.environ.pop("DDPKIT_PRELOAD")) as file:
        spec = {**json.load(file), "began": times[0][1]}
    leave_path(spec["hook"])
    _real_sitecustomize()
    times.append(("import", time.time()))
    unsafe = import_modules(spec["modules"])
    if "torch" in sys.modules:
        times.append(("imported", time.time()))
    if unsafe:
        print("ddpkit: -o preload has no effect:", unsafe, file=sys.stderr, flush=True)
    # What was imported lives as long as the process: no rank's garbage collector, least of all its last one at exit,
    # needs to walk through it and thereby copy the shared pages.
    gc.freeze()
    running, server = {}, os.getpid()
    for rank in spec["ranks"]:
        pid = os.fork()
        if pid == 0:
            connect_output(spec["folder"], rank["env"]["LOCAL_RANK"])
            _become(rank, server)
            bundle = spec["answer"] if os.environ.get("DDPKIT_DUMP") != "0" else ""
            if unsafe:  # the rank is started again, and finds `rank_hook.py` by itself
                if bundle:
                    os.environ["DDPKIT_HOOK"] = bundle
                    os.environ["PYTHONPATH"] = prepend(bundle, os.environ)
                os.execv(sys.executable, _own_argv())
            if bundle:
                register(bundle, times)
            atexit.register(flush_files)  # the last to be called
            return
        running[pid] = rank
    _wait(spec, running)


def _own_argv() -> list[str] | list[bytes]:
    if hasattr(sys, "orig_argv"):  # since Python 3.10
        return sys.orig_argv
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().split(b"\0")[:-1]
