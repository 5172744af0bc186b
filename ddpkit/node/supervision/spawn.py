"""Starts the ranks of a request: their environment, hooks, wrappers and pipes. A part of `supervisor.py`.

A private folder holds what ranks need: the bundle of programs (`bundle.py`) and named pipes. It is made only where
something needs it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import time
from binascii import a2b_base64

from ddpkit.node.bundle import program_of, running_bundle, write_bundle
from ddpkit.node.child import HELD, die_with_parent, execute, loads_hook, merged, prepend
from ddpkit.node.owned import create_file
from ddpkit.node.process_tree import groups
from ddpkit.node.supervision.event_loop import Children
from ddpkit.node.supervision.rank_input import RankInput
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_pipes import RankPipes, make_pipe
from ddpkit.node.supervision.rank_table import RankTable
from ddpkit.node.supervision.scratch_dir import TORCHRUN, hold_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

COLD = "DDPKIT_COLD"  # why the hold of a launch could not be reached: `transports/held.py` sets it

# A terminal or a scheduler sends these, and the launcher decides about them.
FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
RANK_SIGNALS = (*FROM_TERMINAL, signal.SIGTERM)  # what a rank may be sent


class PrivateFolder:
    """The private folder of a run on this node, made at its first use, and the files in it that ranks need."""

    def __init__(self, programs: list[str]) -> None:
        self.path = ""  # until it is made
        self._programs = programs
        self._bundle = ""  # its path, once it is there

    def make(self) -> None:
        if not self.path:
            self.path = hold_private()

    def provide_bundle(self) -> str:
        """Return the path of the bundle: the one that this program runs from, or a copy beside the ranks' pipes.

        srun kills the tasks beside a failed one at once: without a private folder they leave nothing in /tmp.
        """
        if not self._bundle:
            running = running_bundle()
            beside = self.path or "rank_observe" in self._programs or ":" in running
            if running and not beside:
                self._bundle = running
            else:
                self.make()
                # A hold compiles the supervisors of its launches beforehand.
                self._bundle = write_bundle(self.path, whole="holder" in self._programs)
        return self._bundle

    def provide_function(self, function: str) -> str:
        """Return a directory with the function of `ddpkit.call` and the program that calls it, and room for values."""
        self.make()
        create_file(f"{self.path}/function", a2b_base64(function))
        return self.path

    def write(self, name: str, text: str) -> str:
        path = f"{self.path}/{name}"
        create_file(path, text.encode())
        return path


class Spawner:
    """Starts the processes of a run on this node."""

    def __init__(
        self,
        request: dict[str, Any],
        children: Children,
        table: RankTable,
        output: RankOutput,
        pipes: RankPipes,
        stdin: RankInput,
        send: Callable[..., None],
    ) -> None:
        self._send, self._stdin = send, stdin
        self._request = request
        self._programs: list[str] = request.get("programs", [])  # of `ddpkit/node`, for the ranks
        self._children = children
        self._table = table
        self._output = output
        self._pipes = pipes
        self._private = PrivateFolder(self._programs)

    @property
    def folder(self) -> str:
        """The private folder of the run; empty: it was not needed."""
        return self._private.path

    def start(self, on_launcher_exit: Callable[[int, int], None]) -> None:
        """Start every process. Raises OSError; what was started before goes on."""
        request = self._request
        if request.get("inside") and os.environ.pop("DDPKIT_INSIDE", "") != request["inside"]:
            raise OSError(errno.EINVAL, "the ranks must run in a container, and this process is outside of it")
        os.chdir(request["workdir"])
        why_no_hold = os.environ.pop(COLD, "")
        base = merged({**os.environ, "PWD": name_of_current_directory(request["workdir"])}, request["env"])
        if request.get("function"):
            base["DDPKIT_CALL"] = self._private.provide_function(request["function"])
        held = self._find_held(base, why_no_hold)
        if request["preload"] and held is None:
            self._start_fork_server(base, on_launcher_exit)
            return
        for proc in request["procs"]:
            env = self._add_hook(merged(base, proc["env"]), proc["rank"], proc["argv"])
            if proc["rank"] is None:
                if "rank_wrapper" in self._programs:
                    self._make_wrapper_pipes(len(request["ranks"]))
                    # torchrun's `--no_python` program is this file (`launchers/starters.py`).
                    program = program_of(self._private.provide_bundle(), "rank.rank_wrapper")
                    env["DDPKIT_TAP"] = self._private.write("wrapper.py", program)
                    # torchrun makes a folder for logs that it does not write here, and leaves it behind.
                    env.setdefault("PET_LOG_DIR", f"{self.folder}/{TORCHRUN}")
                self._start_launcher(proc["argv"], env, proc["name"], on_launcher_exit)
            else:
                if "holder" in self._programs:
                    self._private.make()
                    program = program_of(self._private.provide_bundle(), "rank.holder")
                    env["DDPKIT_TAP"] = self._private.write("holder.py", program)
                self._start_rank(proc["argv"], env, proc["rank"], proc["cpus"], held)

    def _find_held(self, base: dict[str, str], why_no_hold: str) -> Any:
        """The warm Python that this process is a fork of; None: there is none, or the ranks must not be forks of it.

        `why_no_hold`: why the hold of this launch could not be reached; empty: it was, or the launch uses none. The
        launcher is told why ranks start cold.
        """
        held: Any = sys.modules.get(HELD)
        if held is None and not why_no_hold:
            return None
        proc = self._request["procs"][0]
        why = why_no_hold
        if held is not None and proc["rank"] is None:
            why = "%s starts the ranks" % proc["name"]
        elif held is not None:
            why = held.why_cold(proc["argv"], merged(base, proc["env"]))
        if not why:
            return held
        self._send(e="cold", reason=why)
        return None

    def _start_rank(self, argv: list[str], env: dict[str, str], rank: int, cpus: list[int], held: Any) -> None:
        pid = self._spawn(argv, env, rank, cpus, held)
        self._children.add(pid, lambda status: self._table.on_child_exit(rank, status))
        self._table.on_start(rank, pid, time.time())

    def _start_launcher(
        self, argv: list[str], env: dict[str, str], name: str, on_exit: Callable[[int, int], None]
    ) -> None:
        """Start a program that starts ranks itself: torchrun, srun, the fork server."""
        pid = self._spawn(argv, env, None, [])
        self._table.launchers[pid] = name
        self._children.add(pid, lambda status: on_exit(pid, status))

    def _start_fork_server(self, base: dict[str, str], on_exit: Callable[[int, int], None]) -> None:
        """One interpreter runs the ranks' own command; `fork_server.py` on its path forks the ranks."""
        request = self._request
        self._make_wrapper_pipes(len(request["procs"]))
        bundle = self._private.provide_bundle()
        ranks = [{"rank": proc["rank"], "env": proc["env"], "cpus": proc["cpus"]} for proc in request["procs"]]
        env = self._add_hook(dict(base), None, [""])
        spec = {
            "folder": self.folder,
            "hook": bundle,
            "modules": request["preload"],
            "ranks": ranks,
            "answer": env.pop("DDPKIT_HOOK", ""),
        }
        env["DDPKIT_PRELOAD"] = self._private.write("preload.json", json.dumps(spec))
        env["PYTHONPATH"] = prepend(bundle, base)
        self._start_launcher(request["procs"][0]["argv"], env, "preload", on_exit)

    # ---- environment

    def _add_hook(self, env: dict[str, str], rank: int | None, argv: list[str]) -> dict[str, str]:
        """Put the rank hook (`rank_hook.py`) on the path of a Python: of a rank, or of torchrun, which hands it on.

        A launcher that is not named python gets the variable alone, for its wrappers. A rank gets nothing that no hook
        of it would take away.
        """
        if "rank_hook" not in self._programs or env.get("DDPKIT_DUMP") == "0":
            return env
        try:
            bundle = self._private.provide_bundle()
            if "rank_observe" in self._programs:
                self._pipes.open_hooks(f"{self.folder}/marks")
        except OSError:
            return env  # a full disk: a run must not end because of it
        if loads_hook(argv):
            env["PYTHONPATH"] = prepend(bundle, env)
        elif rank is not None:
            return env
        env["DDPKIT_HOOK"] = bundle
        return env

    # ---- processes

    def _make_wrapper_pipes(self, ranks: int) -> None:
        """Two named pipes for the output of each rank that another program starts, and one for starts and exits."""
        self._private.make()
        self._pipes.open_wrappers(f"{self.folder}/events")
        for local_rank in range(ranks):
            for number, name in ((1, "out"), (2, "err")):
                fd = make_pipe(f"{self.folder}/{name}.{local_rank}")
                self._output.add(fd, number, self._request["ranks"][local_rank], local_rank)

    def _spawn(self, argv: list[str], env: dict[str, str], rank: int | None, cpus: list[int], held: Any = None) -> int:
        """Start a process; with `held` as a fork of that warm Python."""
        pipes = [os.pipe() for _ in range(2)]
        stdin = self._stdin.open(rank)  # here: where no descriptor is left, this is an error of the start
        supervisor = os.getpid()
        # A TERM that comes before the child has its own handling of it would be lost: it waits until then.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, RANK_SIGNALS)
        pid = os.fork()
        if pid == 0:
            forked = False
            try:
                os.setsid()
                # The second line of defence, should this process itself be killed.
                die_with_parent(supervisor, signal.SIGKILL)
                for fd, file in enumerate((stdin, pipes[0][1], pipes[1][1])):
                    os.dup2(file, fd)
                reset_signals()
                if rank is None:  # a scheduler may send them to every process: they would end torchrun
                    for each in PASSED_ON:
                        signal.signal(each, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                if cpus and sys.platform == "linux":
                    with contextlib.suppress(OSError):  # a container may have none of them
                        os.sched_setaffinity(0, cpus)
                if held is None:
                    execute(argv, env)
                forked = True
            finally:
                if not forked:
                    os._exit(126)  # never on in the code of the supervisor, with its connection and its descriptors
            raise held.Become(argv, env)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(stdin)
        groups.add(pid)
        for number, (read, write) in enumerate(pipes, 1):
            os.close(write)
            os.set_blocking(read, False)
            self._output.add(read, number, rank)
        return pid


def name_of_current_directory(workdir: str) -> str:
    """Return the name by which the user got there, as PWD has it, or `workdir`."""
    pwd = os.environ.get("PWD", "")
    try:
        return pwd if os.path.isabs(pwd) and os.path.samefile(pwd, ".") else workdir
    except OSError:
        return workdir


def redirect_to_devnull(*fds: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)


def reset_signals() -> None:
    """Undo what Python and this program changed: an ignored signal would stay ignored in the rank."""
    for number in (*RANK_SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
