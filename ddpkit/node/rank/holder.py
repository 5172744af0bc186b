"""The warm Python of a hold on one node: torch is imported, and each launch into the hold gets a fork of it.

It listens on a socket in the kernel's own name space, which leaves no file behind, whoever is killed. A fork becomes
the supervisor that comes over the stream, as the first bytes of every connection (`transports/held.py`). That one forks
the ranks, so that they are its own children; each of them comes back to here (`Become`), and runs as Python would have
run its command line. What cannot be as in a Python of its own is a reason to start one (`why_cold`).
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib.machinery
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import struct
import sys
import time

from ddpkit.node.bundle import running_bundle
from ddpkit.node.child import HELD, HELD_FORMAT, HOLDER, die_with_parent, show
from ddpkit.node.rank import quick_end, rank_hook
from ddpkit.node.rank.fork_server import import_modules, reseed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Mapping

MOST_POLL = (1 << 31) - 1  # milliseconds
START_LIMIT = 60  # seconds for the first bytes of a connection
HEADER = 8  # digits: the size of the environment that comes first
# Read by the interpreter and by libraries when they are loaded, which a rank of the hold does not do again.
AT_START = (
    "PYTHON LD_ LANG LC_ OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ BLIS_ NUMEXPR_ ATEN_ PYTORCH_ HF_ MALLOC_ GLIBC_ TZ"
).split()
# Limits that shape a program at its start, or count what is loaded.
AT_EXEC = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK")
THREADS = "OMP_NUM_THREADS"  # torch can be told later
USUAL = ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER")  # of every rank, and asked for before they are set
LATE = ("TORCH_NCCL_", "TORCH_DISTRIBUTED_")  # read when a process group is made


class Become(BaseException):
    """A rank leaves the code of its supervisor, and becomes its own program."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.argv, self.env = argv, env


class Holder:
    """The imported modules, and what a rank must find again."""

    Become = Become

    def __init__(self, modules: list[str]) -> None:
        self.environ = dict(os.environ)
        self.python = os.path.abspath(sys.executable)
        sys.path.pop(0)  # the directory of its own file. The current one is the launch's to say
        folders = [each for each in sys.path if os.path.basename(each) in ("site-packages", "dist-packages")]
        self.stamps = {each: _stamp(each) for each in folders}
        own = _descriptors()
        self.unsafe = import_modules(modules)
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        self.stamps.update((each, _stamp(each)) for each in files if each)
        self.path, self.finders = list(sys.path), list(sys.meta_path)
        self.kept = _descriptors() - own  # opened by the modules
        names = [name.partition(".")[0].upper() + "_" for name in modules]
        self.at_start = (*AT_START, *names)
        self.compiled = _compile_programs()

    # ---- asked by a supervisor

    def why_cold(self, argv: list[str], env: Mapping[str, str]) -> str:
        """Why a Python of its own has to run this command; empty: a fork can."""
        if self.unsafe:
            return self.unsafe
        python = shutil.which(argv[0], path=env.get("PATH"))
        if python is None or not _is_same_python(os.path.abspath(python), self.python):
            return "its Python is %s, and the hold has %s" % (python or argv[0], self.python)
        words = argv[1:]
        while words and words[0].startswith("-") and words[0] not in ("-c", "-m"):
            if words[0] != "-u" or not env.get("PYTHONUNBUFFERED"):
                return "Python reads its option %s at its start" % words[0]
            words = words[1:]
        if not words:
            return "it has no script"
        if words[0] not in ("-c", "-m") and not (os.path.isfile(words[0]) and words[0].endswith(".py")):
            return "%s is not a script of Python" % words[0]
        return self._changed_variable(env) or self._changed_file()

    def known_torch(self, python: str, env: Mapping[str, str]) -> dict[str, Any] | None:
        """Which torch a rank of this Python has as a fork of the hold; None: no torch, or no fork."""
        torch = sys.modules.get("torch")
        usual = {name: self.environ[name] for name in USUAL if name in self.environ and name not in env}
        if torch is None or self.why_cold([python, "-c", ""], {**env, **usual}):
            return None
        return {"place": os.path.dirname(str(torch.__file__)), "version": sys.modules["torch.version"].__version__}

    def is_gone(self) -> bool:
        """Whether the process that this supervisor's guard was forked from has ended."""
        with open("/proc/%d/stat" % os.getppid()) as file:
            return int(file.read().rpartition(")")[2].split()[1]) != self.server

    def _changed_variable(self, env: Mapping[str, str]) -> str:
        for name in sorted({*env, *self.environ}):
            if not name.startswith(tuple(self.at_start)) or name == THREADS or name.startswith(LATE):
                continue
            if (env.get(name) or "") != (self.environ.get(name) or ""):
                return "%s differs from that of the hold, and is read at the start of Python or of its modules" % name
        return ""

    def _changed_file(self) -> str:
        for path, stamp in self.stamps.items():
            if _stamp(path) != stamp:
                return "%s has changed since the hold began" % path
        return ""

    # ---- the loop

    def listen(self, listener: socket.socket, idle: float) -> Program:
        """Answer launches until nothing used the hold for `idle` seconds. Returns in each rank alone."""
        forget_programs(list(sys.modules))
        importlib.invalidate_caches()  # of all forks: nothing is imported here any more
        self.before = quick_end.Before()
        gc.freeze()  # no rank's collector has to walk through it, and thereby copy the shared pages
        listener.listen(128)
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        for fd in (listener.fileno(), woken):
            poll.register(fd, select.POLLIN)
        living: set[int] = set()
        since, self.server = time.monotonic(), os.getpid()
        while True:
            left = None if living or not idle else max(0.0, since + idle - time.monotonic())
            ready = {fd for fd, _ in poll.poll(None if left is None else min(left * 1000, MOST_POLL))}
            if woken in ready:
                os.read(woken, 1 << 10)
                while living:
                    pid = os.waitpid(-1, os.WNOHANG)[0]
                    if not pid:
                        break
                    living.discard(pid)
                    since = time.monotonic()
            if listener.fileno() in ready:
                child, connection = self._fork(listener)
                if child == 0:
                    signal.set_wakeup_fd(-1)
                    listener.close()
                    return self._serve(connection)
                if child is not None:
                    living.add(child)
            if not ready and not living and time.monotonic() >= since + idle:
                _write(1, "ddpkit: nothing used this hold for %g s: it ends" % idle)
                os._exit(0)

    def _fork(self, listener: socket.socket) -> tuple[int | None, socket.socket]:
        """Take a connection, and fork for it. None: a limit is reached, and that launch starts cold."""
        try:
            connection = listener.accept()[0]
        except OSError as error:
            _write(2, "ddpkit: this hold takes no launch now: %s" % error.strerror)
            time.sleep(1.0)  # it waits in the queue, and would be ready again at once
            return None, listener
        try:
            pid = os.fork() if _peer(connection)[1] == os.geteuid() else None
        except OSError as error:
            _write(2, "ddpkit: this hold takes no launch now: %s" % error.strerror)
            pid = None
        if pid != 0:
            connection.close()
        return pid, connection

    def _serve(self, connection: socket.socket) -> Program:
        """Become the supervisor that comes over this connection. Returns in its ranks alone."""
        try:
            os.setsid()
            die_with_parent(self.server, signal.SIGTERM)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
            signal.alarm(START_LIMIT)
            connection.sendall(b"%d\n" % HELD_FORMAT)  # whoever stops this process is not waited for
            environ, inherited = json.loads(_read(connection, int(_read(connection, HEADER))))
            why = _inherit(*inherited)
            connection.sendall(why.encode() + b"\n")
            if why:
                os._exit(0)
            for fd in (0, 1, 2):
                os.dup2(connection.fileno(), fd)
            connection.close()
            replace_environ(environ)
            os.chdir("/")
            # Nothing but the standard library, as in every other supervisor (`-S -I`).
            library = os.path.dirname(os.__file__)
            sys.path[:] = [each for each in self.path if _is_library(each, library)]
            sys.modules[HELD] = self  # type: ignore[assignment]
            with open(0, "rb", 0, closefd=False) as stream:
                line = stream.readline()
            exec(line, {"__name__": "__main__", "compile": self._compile})
            os._exit(1)
        except Become as rank:
            argv, env = rank.argv, rank.env
        except BaseException as error:
            _write(2, "ddpkit: %s: %s" % (type(error).__name__, error))
            os._exit(1)
        # No frame of the supervisor is left here. Its objects would close descriptors later, also under other owners.
        return Program(self, argv, env)

    def _compile(self, text: str, name: str, mode: str) -> Any:
        """Compile a program of the supervisor, unless it is of this very version: then that is done."""
        return self.compiled.get((text, name)) or compile(text, name, mode, dont_inherit=True)


class Program:
    """The command line of a rank in a fork of a warm Python."""

    def __init__(self, holder: Holder, argv: list[str], env: dict[str, str]) -> None:
        self._holder, self._argv = holder, argv
        sys.path[:], sys.meta_path[:] = holder.path, holder.finders
        sys.modules.pop(HELD, None)
        forget_programs(holder.before.new_modules())
        _reset_signals()
        gc.freeze()  # what the supervisor made: its objects close no descriptor of another owner, and cost no time
        _close_descriptors(holder.kept)
        show()
        replace_environ(env)
        bundle = os.environ.pop("DDPKIT_HOOK", "")
        rank_hook.leave_path(bundle)
        if bundle:
            now = time.time()
            rank_hook.register(bundle, [("python", now), ("import", now), ("imported", now)])
        reseed()
        atexit.register(quick_end.flush_files)  # the last to be called
        sys.executable = os.path.abspath(shutil.which(argv[0]) or sys.executable)
        self._set_threads()

    def _set_threads(self) -> None:
        torch, number = sys.modules.get("torch"), os.environ.get(THREADS, "").partition(",")[0]
        if torch is not None and number.isdigit() and os.environ[THREADS] != self._holder.environ.get(THREADS):
            torch.set_num_threads(max(1, int(number)))

    def run(self) -> None:
        """Run it. What ends it goes on to Python itself, which exits as for every program."""
        ended: BaseException | None = None
        try:
            self._run()
        except SystemExit as left:
            if left.code is not None and (left.code or not isinstance(left.code, int)):
                raise
        except BaseException as error:
            ended = error
        if ended is not None:  # outside of `except`: there it would be the context of what a hook raises
            _report(ended)
            raise ended
        quick_end.leave(self._holder.before)

    def _run(self) -> None:
        """Run the command line in a new `__main__`, as Python runs a script, `-m MODULE` or `-c CODE`."""
        words = self._argv[1:]
        while words[0] == "-u":
            words.pop(0)
        if hasattr(sys, "orig_argv"):  # since Python 3.10
            sys.orig_argv[:] = self._argv
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None:
            processes.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
        main = type(sys)("__main__")
        main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
        sys.modules["__main__"] = main
        if words[0] == "-m":
            sys.argv[:] = ["-m", *words[2:]]
            sys.path.insert(0, os.getcwd())
            runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        elif words[0] == "-c":
            sys.argv[:] = ["-c", *words[2:]]
            sys.path.insert(0, "")
            main.__dict__.update(__loader__=importlib.machinery.BuiltinImporter)
            exec(compile(words[1], "<string>", "exec", dont_inherit=True), main.__dict__)
        else:
            sys.argv[:] = words
            _run_script(words[0], main)


def _run_script(name: str, main: Any) -> None:
    path = os.path.join(os.getcwd(), name) if sys.version_info >= (3, 9) else name
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    with open(path, "rb") as file:
        text = file.read()
    exec(compile(text, path, "exec", dont_inherit=True), main.__dict__)


def _report(error: BaseException) -> None:
    """Print an error as Python does, without the frames of this file; Python then ends the process as it would."""
    kind, trace = type(error), _own_part(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    hook = sys.excepthook
    try:
        hook(kind, error, trace)
    except Exception as problem:  # in Python's words
        sys.stderr.write("Error in sys.excepthook:\n")
        problem.__traceback__ = _own_part(problem.__traceback__)
        sys.__excepthook__(type(problem), problem, problem.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(kind, error, trace)

    def printed(*_: object) -> None:
        sys.excepthook = hook

    sys.excepthook = printed


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    own = _own_part.__code__.co_filename
    while trace is not None and trace.tb_frame.f_code.co_filename == own:
        trace = trace.tb_next
    return trace


# ---- helpers


def _compile_programs() -> dict[tuple[str, str], Any]:
    """The programs of a node, compiled, by text and name, as the first bytes of a connection name them."""
    import zipfile

    found = {}
    with zipfile.ZipFile(running_bundle()) as bundle:
        for path in bundle.namelist():
            if path.startswith("node/") and not path.endswith("__init__.py"):
                text, name = bundle.read(path).decode(), "ddpkit." + path.replace("/", ".")
                found[text, name] = compile(text, name, "exec", dont_inherit=True)
    return found


def _write(fd: int, line: str) -> None:
    os.write(fd, (line + "\n").encode("utf-8", "surrogateescape"))


def forget_programs(names: list[str]) -> None:
    """A script may have a ddpkit of its own, and a supervisor brings its version."""
    for name in names:
        if name.partition(".")[0] == "ddpkit":
            del sys.modules[name]


def replace_environ(env: Mapping[str, str]) -> None:
    """Make these all variables of this process."""
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)


def _reset_signals() -> None:
    """As Python has them at its start: what a supervisor changed is undone."""
    signal.alarm(0)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
        signal.signal(number, signal.SIG_IGN)


def _descriptors() -> set[int]:
    found = {int(each) for each in os.listdir("/proc/self/fd")}
    return {fd for fd in found if os.path.lexists("/proc/self/fd/%d" % fd)}  # without that of the listing


def _close_descriptors(kept: set[int]) -> None:
    for fd in _descriptors() - kept - {0, 1, 2}:
        try:
            os.close(fd)
        except OSError:
            pass  # that of the listing


def _is_same_python(one: str, other: str) -> bool:
    """Whether two programs are one Python with one site: `python` and `python3` of a virtual environment are."""
    return os.path.dirname(one) == os.path.dirname(other) and os.path.samefile(one, other)


def _is_library(path: str, library: str) -> bool:
    return path.startswith(os.path.dirname(library)) and "-packages" not in path


def _inherit(umask: int, nice: int, cpus: list[int], groups: list[int], limits: list[list[int]]) -> str:
    """Take what a process has of the one that started it. Returns why this one cannot; empty: it has."""
    if groups != [os.getegid(), *sorted(os.getgroups())]:
        return "its groups differ from those of the hold, and only a new process can have them"
    os.umask(umask)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError:
        return "its nice value is %d, and a process of the hold can have no lower one than %d" % (nice, os.nice(0))
    if sys.platform == "linux":
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            pass  # it has none of them
        if sorted(os.sched_getaffinity(0)) != cpus:
            return "its CPUs differ from those that the hold can have"
    # Reversed, for RLIMIT_NOFILE has an older name as well.
    names = {getattr(resource, name): name for name in reversed(dir(resource)) if name.startswith("RLIMIT_")}
    for number, soft, hard in limits:
        name = names.get(number, "a limit")
        if resource.getrlimit(number) == (soft, hard):
            continue
        if name in AT_EXEC:
            return "%s differs from that of the hold, and counts from the start of a program" % name
        try:
            resource.setrlimit(number, (soft, hard))
        except (OSError, ValueError):
            return "%s is higher than a process of the hold can have" % name
    return ""


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


def bind(name: str) -> socket.socket:
    """Return a socket with this name. Where another process has it, say who, and end.

    Before anything is imported: whoever reads the run's id, in a directory of logs, can take the name as well.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind("\0" + name)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        _write(2, "ddpkit: this hold cannot begin: %s has its socket, @%s" % (_owner(name), name))
        os._exit(1)
    return listener


def _owner(name: str) -> str:
    """Say who listens on a socket. The kernel tells that of one that takes connections, and of no other."""
    from ddpkit.node.owned import user_name

    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # its queue may be full
        try:
            probe.connect("\0" + name)
            pid, user = _peer(probe)
        except OSError:
            return "another process"
    return "process %d of %s" % (pid, user_name(user)) if pid else "a process of %s" % user_name(user)


def _peer(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end. The process is 0 in another container."""
    if sys.platform != "linux":
        return 0, -1  # `execution/hold.py` refuses a hold there
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def main() -> None:
    """Hold a warm Python. A rank returns from here when its program has ended."""
    os.environ.pop("DDPKIT_TAP")
    spec = json.loads(os.environ.pop(HOLDER))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # its verdict says all, and no rank's own handler is this one
    listener = bind(spec["name"])
    began = time.monotonic()
    holder = Holder(spec["modules"])
    what = ", ".join(spec["modules"])
    if holder.unsafe:
        _write(2, "ddpkit: this hold has no effect: %s" % holder.unsafe)
    else:
        _write(1, "ddpkit: imported %s in %.1f s" % (what, time.monotonic() - began))
    holder.listen(listener, spec["idle"]).run()
