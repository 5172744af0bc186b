"""Python processes with their modules imported already: forked from one process that imported them, once for all tests.

An import of torch takes more CPU time than most tests with ranks, and that of ddpkit more than most of its commands.
`WarmPython` starts a program as `subprocess.Popen([sys.executable, ...])` does: a script, the text after -c or the
module after -m, with arguments, environment, directory and pipes of its own. No process sees what another one did: each
is forked from a process that has run nothing. Programs that depend on a new interpreter start one.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

# Variables that Python, or a library while it is imported, reads at its start.
AT_START = tuple(
    "PYTHON LANG LC_ LD_ MALLOC_ TMPDIR TYPER_ _TYPER_ TERMINAL_WIDTH FORCE_COLOR PY_COLORS GITHUB_ACTIONS".split()
)

# ---- the process that imports and forks


def _serve(number: int, modules: Sequence[str]) -> list[str]:
    """Fork a process for each request. Returns, in the process that was forked, its arguments."""
    for name in modules:
        importlib.import_module(name)
    requests = socket.socket(fileno=number)
    wake, wakes = socket.socketpair()
    wakes.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([requests, wake], [], [])
        if wake in ready:
            wake.recv(4096)
            _report_ended(requests)
        if requests not in ready:
            continue
        data, handles, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not data:
            os._exit(0)  # the tests have ended
        request = json.loads(data)
        for name in request["modules"]:
            importlib.import_module(name)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (requests, wake, wakes):
                each.close()
            return _become(request, handles)
        for handle in handles:
            os.close(handle)
        requests.send(json.dumps({"started": pid}).encode())


def _report_ended(requests: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        requests.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(request: Any, handles: list[int]) -> list[str]:
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    if request["session"]:
        os.setsid()
    else:
        os.setpgid(0, 0)  # a signal to its group is not one to the process that forks
    os.environ.clear()
    os.environ.update(request["env"])
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    for name, stream in zip(("stdin", "stdout", "stderr"), _streams(), strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[1:1] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    argv: list[str] = request["argv"]
    sys.orig_argv = [sys.executable, *argv]
    return argv


def _streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper, io.TextIOWrapper]:
    """Standard streams as Python makes them: one that is a terminal, and every stderr, is written line by line."""
    made = []
    for fd, (old, mode) in enumerate(((sys.stdin, "r"), (sys.stdout, "w"), (sys.stderr, "w"))):
        assert isinstance(old, io.TextIOWrapper)
        direct = mode == "w" and old.write_through  # PYTHONUNBUFFERED
        raw = io.FileIO(fd, mode, closefd=False)
        raw.name = old.name
        new = io.TextIOWrapper(
            raw if direct else io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw),
            encoding=old.encoding,
            errors=old.errors,
            newline=None if mode == "r" else "\n",
            line_buffering=not direct and (fd == 2 or os.isatty(fd)),
            write_through=direct,
        )
        new.mode = mode  # type: ignore[misc]
        made.append(new)
    return made[0], made[1], made[2]


def _run(argv: list[str]) -> None:
    """Run a program as Python itself does."""
    if argv[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *argv[2:]], ""
        exec(compile(argv[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif argv[0] == "-m":
        sys.argv, sys.path[0] = ["-m", *argv[2:]], str(Path.cwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = argv, str(Path(argv[0]).resolve().parent)
        runpy.run_path(argv[0], run_name="__main__")


# ---- the tests' side


class WarmPython:
    """A process of this Python with its modules imported. The parts of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        argv: list[str],
        *,
        env: dict[str, str],
        cwd: str | Path = "/",
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        start_new_session: bool = False,
        modules: Sequence[str] = (),
        forked_from: Sequence[str] = ("torch.distributed",),
    ) -> None:
        """`argv` is [sys.executable, SCRIPT, -c TEXT or -m MODULE, argument ...]; `stderr` can be subprocess.STDOUT.

        `forked_from` are the modules of the process that forks. `modules` are imported there as well, once for all
        processes that follow.
        """
        assert argv[0] == sys.executable, argv
        self.args = argv
        self.returncode: int | None = None
        self._ended = threading.Event()
        out_reader, out_writer = os.pipe()
        err_reader, err_writer = (None, out_writer) if stderr == subprocess.STDOUT else os.pipe()
        assert stdout == subprocess.PIPE
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            request = {"argv": argv[1:], "env": env, "cwd": str(cwd), "session": start_new_session}
            request |= {"modules": list(modules), "umask": _umask()}
            self.pid = _server(tuple(forked_from)).start(self, request, [null, out_writer, err_writer])
        finally:
            for handle in {null, out_writer, err_writer}:
                os.close(handle)
        self.stdout: IO[str] = os.fdopen(out_reader, encoding="utf-8", errors="surrogateescape")
        self.stderr: IO[str] | None = None
        if err_reader is not None:
            self.stderr = os.fdopen(err_reader, encoding="utf-8", errors="surrogateescape")

    def set_ended(self, code: int) -> None:
        self.returncode = code
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both outputs to their end, and wait."""
        texts = {"out": "", "err": ""}

        def read(name: str, stream: IO[str]) -> None:
            texts[name] = stream.read()
            stream.close()

        streams = [("out", self.stdout)] + ([] if self.stderr is None else [("err", self.stderr)])
        readers = [threading.Thread(target=read, args=each, daemon=True) for each in streams if not each[1].closed]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(timeout)
        return texts["out"], texts["err"]

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_ddpkit(
    args: Sequence[str], *, env: dict[str, str], cwd: str | Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `ddpkit ARGS` to its end, without input: `subprocess.run` with a process that is forked."""
    changed = {name for name, value in {*env.items()} ^ {*_environ().items()} if name.startswith(AT_START)}
    assert not changed, f"{changed} are read when Python starts: mark the test with new_python"
    argv = [sys.executable, "-m", "ddpkit", *args]
    process = WarmPython(argv, env=env, cwd=cwd, forked_from=(*COMMANDS, *LAZY))
    try:
        out, err = process.communicate(timeout)
    except BaseException:
        process.kill()
        raise
    return subprocess.CompletedProcess(argv, process.wait(), out, err)


COMMANDS = tuple(
    f"ddpkit.cli.{name}" for name in ("at_rank", "drill", "explain", "launch", "live", "runs", "setup", "test")
)
# What most commands import when they are called.
LAZY = ("ddpkit.execution.lifecycle", "ddpkit.execution.prepare", "ddpkit.launchers.registry")


def _umask() -> int:
    os.umask(mask := os.umask(0o077))
    return mask


@cache
def _environ() -> dict[str, str]:
    """The environment of processes that fork: no launcher's, no scheduler's."""
    foreign = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "DDPKIT_")
    return {name: value for name, value in os.environ.items() if not name.startswith((*foreign, "PYTHONPATH"))}


class _Server:
    """The process that forks. It ends with this one, whose end of the socket it reads."""

    def __init__(self, modules: Sequence[str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        env = {**_environ(), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TORCH_CPP_LOG_LEVEL": "FATAL"}
        argv = [sys.executable, __file__, str(theirs.fileno()), *modules]
        self.process = subprocess.Popen(argv, env=env, cwd="/", pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self._socket = ours
        self._running: dict[int, WarmPython] = {}
        self._started: list[int] = []
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        atexit.register(self._close)

    def start(self, process: WarmPython, request: Any, handles: list[int]) -> int:
        with self._news:
            socket.send_fds(self._socket, [json.dumps(request).encode()], handles)
            assert self._news.wait_for(lambda: self._started, timeout=120.0), "no process was started"
            pid = self._started.pop()
            self._running[pid] = process
            self._news.notify_all()
        return pid

    def _read(self) -> None:
        while data := self._socket.recv(1 << 16):
            news = json.loads(data)
            with self._news:
                if "started" in news:
                    self._started.append(news["started"])
                    self._news.notify_all()
                    continue
                self._news.wait_for(lambda pid=news["ended"]: pid in self._running)  # type: ignore[misc]
                self._running.pop(news["ended"]).set_ended(news["code"])

    def _close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.process.wait(30.0)


@cache
def _server(modules: tuple[str, ...]) -> _Server:
    return _Server(modules)


if __name__ == "__main__":
    _run(_serve(int(sys.argv[1]), sys.argv[2:]))
