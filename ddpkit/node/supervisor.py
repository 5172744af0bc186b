"""Runs the ranks of one node, reports everything about them to the launcher, and never outlives it.

Standard input is its lifeline: at end of file the launcher is gone, however it ended, and every process that was
started here is ended. On a network the end of file may never come: there, a launcher that was silent for the request's
`silence` seconds is gone as well. Each line read is JSON: calls first (`rpc.py`), then the request, then commands.
Events go to standard output, one JSON object a line (`ddpkit/launchers/events.py`). Bytes that are no UTF-8 travel as
lone surrogates (`surrogateescape`), so that logs are exact.

A child that called `setsid`, or whose parent died, is still found: this process is their subreaper, so that they become
its children. It is two processes: the supervisor proper, and a guard that only waits for it. Should the supervisor be
killed, the guard ends what it leaves.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from binascii import b2a_base64

from ddpkit.node.child import HELD, become_subreaper, die_with_parent, exit_status, hide
from ddpkit.node.kernel import take_cpus
from ddpkit.node.process_tree import end_all_below, kill
from ddpkit.node.rpc import OTHER_SIDE_ENDED, PIECE, CallServer, Programs
from ddpkit.node.seal import Seal
from ddpkit.node.supervision.event_loop import Children, EventLoop
from ddpkit.node.supervision.launcher_io import LauncherIO
from ddpkit.node.supervision.rank_calls import RankCalls
from ddpkit.node.supervision.rank_input import RankInput
from ddpkit.node.supervision.rank_output import RankOutput
from ddpkit.node.supervision.rank_pipes import RankPipes
from ddpkit.node.supervision.rank_table import RankTable
from ddpkit.node.supervision.scratch_dir import FOLDER, remove, sweep
from ddpkit.node.supervision.shutdown import DONE, STUCK_AFTER, Shutdown, report_daemons
from ddpkit.node.supervision.spawn import FROM_TERMINAL, Spawner, redirect_to_devnull

VALUE_LIMIT = 17 << 20  # bytes of the value of one rank: `rank/function_call.py` writes no more
RESERVE = 2  # file descriptors that ranks leave free
TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` itself is slow to import, and this starts with every run
    from typing import Any


class Supervisor:
    """One run on this node: connects the parts, and runs the loop."""

    def __init__(self, request: dict[str, Any], received: bytes, programs: Programs, seals: tuple[Seal, Seal]) -> None:
        self.guard = os.getppid()
        self.copies: list[str] = request.get("copies", [])  # of --stage
        self.cpus: str = request.get("cpus", "")  # the part of this node's that the ranks have
        self.function = bool(request.get("function"))  # of `ddpkit.call`
        self.loop = EventLoop()
        self.launcher = self.connect(float(request.get("silence", 0.0)), received, seals)
        send = self.launcher.send
        self.stdin = RankInput(self.loop, send, request.get("stdin"), from_task=request.get("from_task", False))
        self.output = RankOutput(self.loop, send, self.stdin.rank)
        self.children = Children(self.loop)
        restarts = max([0, *(proc.get("restarts", 0) for proc in request["procs"])])
        self.table = RankTable(send, self.output, restarts)
        self.pipes = RankPipes(self.loop, send, self.output, self.table)
        self.spawner = Spawner(request, self.children, self.table, self.output, self.pipes, self.stdin, send)
        self.calls = RankCalls(self.loop, send, self.table, self.output, programs)
        again, holds = "DDPKIT_ATTEMPT" in request["env"], "holder" in request.get("programs", ())
        grace = float(request["grace"])
        self.shutdown = Shutdown(self.table, send, self.calls.cancel, grace, again=again, holds=holds)
        self.table.on_failure = self.stop
        self.children.on_orphan = self.pipes.on_orphan_exit
        self.launcher.on_pause = self.output.pause
        self.launcher.on_command = self.on_command
        self.launcher.on_gone = self.on_launcher_gone

    def connect(self, silence: float, received: bytes, seals: tuple[Seal, Seal]) -> LauncherIO:
        """Return the way to the launcher."""
        return LauncherIO(self.loop, silence, received, seals)

    def stop(self) -> None:
        self.shutdown.stop(self.shutdown.grace)

    def on_command(self, command: dict[str, Any]) -> None:
        if command["c"] == "stop":
            self.table.ending = command.get("ending")
            self.shutdown.stop(float(command["grace"]))
        elif command["c"] == "signal":
            self.table.signal(getattr(signal, command["name"]))
        elif command["c"] == "input":
            self.stdin.take(command["data"])
        elif command["c"] == "call" and self.shutdown.deadline is None:
            self.calls.start(command["id"], command["function"], command["args"])

    def on_launcher_gone(self, reason: str) -> None:
        if self.is_orphan():  # sshd closes standard input when the guard has ended, perhaps before TERM is handled
            self.on_term()
        elif reason:
            self.report_own_failure(signal=None, reason=reason)
        self.stop()

    def on_term(self) -> None:
        """An administrator ends the supervisor, or the kernel does because its guard or hold was killed."""
        held: Any = sys.modules.get(HELD)
        if self.is_orphan():
            self.report_own_failure(signal=signal.SIGTERM, reason="its guard process was killed")
        elif held is not None and held.is_gone():
            self.report_own_failure(signal=None, reason="the hold that this launch used has ended")
        else:
            self.report_own_failure(signal=signal.SIGTERM)
        self.stop()

    def is_orphan(self) -> bool:
        return os.getppid() != self.guard

    def report_own_failure(self, **details: object) -> None:
        if self.shutdown.deadline is None:
            self.launcher.send(e="failed", rank=None, code=None, t=time.time(), what="ddpkit's process", **details)

    def start(self) -> None:
        """Start the ranks. The local copies that they use are held until this process ends. Raises OSError."""
        if self.copies:
            from ddpkit.node.calls.stage import hold

            hold(self.copies)
        take_cpus(self.cpus)
        self.spawner.start(self.on_rank_launcher_exit)

    def on_rank_launcher_exit(self, pid: int, status: int) -> None:
        self.pipes.read_wrappers()  # ends of ranks come before the end of what started them
        self.table.on_launcher_exit(pid, status)

    def heartbeat(self) -> None:
        """A sign of life, when it is due. Called when everything that came in was read."""
        now = time.monotonic()
        self.launcher.check_silence(now)
        if self.launcher.heartbeat_is_due(now):
            self.launcher.send(e="beat", t=time.time(), ranks=self.table.usage())
            self.pipes.send_steps()

    # ---- the loop

    def run(self) -> None:
        """Start the ranks, and turn the loop until nothing of the run is left. Then report the end."""
        self.handle_signals()
        become_subreaper()
        self.launcher.start()
        # For the end of a start that takes the last descriptor: it reads /proc.
        reserve = [os.dup(1) for _ in range(RESERVE)]
        try:
            self.start()
        except OSError as error:
            refuse(self.launcher, error, "all ranks" if self.table.ranks else "any rank")
            self.shutdown.stop(0.0)
        for descriptor in reserve:
            os.close(descriptor)
        self.launcher.run_commands()
        while (timeout := self.wind_down()) != DONE:
            beat = self.launcher.heartbeat_at - time.monotonic()
            self.launcher.flush()
            pause = min(beat, self.output.pause_busy())
            self.loop.turn(pause if timeout is None else min(timeout, pause))
            self.output.read_busy()
            self.children.reap()
            self.heartbeat()
        self.finish()

    def wind_down(self) -> float | None:
        """Seconds until the next look at an ending run; None: it goes on; DONE: nothing of it is left."""
        timeout = None
        if self.shutdown.deadline is None and not self.children.living:
            timeout = self.shutdown.end_leftovers()
        if self.shutdown.deadline is not None:
            timeout = self.shutdown.wind_down()
        return timeout

    def handle_signals(self) -> None:
        """Let CHLD and TERM wake the loop. Signals of a terminal are the launcher's to decide about."""
        wakeup, write = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        for number in FROM_TERMINAL:
            signal.signal(number, signal.SIG_IGN)
        self.wakeup = wakeup
        self.loop.watch(wakeup, self.on_wakeup)

    def on_wakeup(self) -> None:
        """A child ended (`Children.reap`), or the supervisor got TERM."""
        if signal.SIGTERM in os.read(self.wakeup, 1 << 16):
            self.on_term()

    def finish(self) -> None:
        """Send all that is left to tell, the end last, and wait until the launcher has read it."""
        self.loop.unwatch(self.wakeup)
        self.pipes.close()
        self.output.close()
        self.pipes.send_steps()
        if self.function:
            self.send_values()
        report_daemons(self.launcher.send)
        self.launcher.send(e="end", t=time.time())
        self.launcher.flush_all(self.heartbeat)
        if self.spawner.folder:
            remove(self.spawner.folder)

    def send_values(self) -> None:
        """Send what the function returned in each rank, one after the other: the launcher holds one at a time."""
        for rank in sorted(self.table.ranks):
            try:
                place = f"{self.spawner.folder}/value.{rank}"
                with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                    text = b2a_base64(file.read(VALUE_LIMIT), newline=False).decode()
            except OSError:
                continue  # it was ended
            for start in range(0, len(text), PIECE):
                more = {"more": True} if start + PIECE < len(text) else {}
                self.launcher.send(e="value", rank=rank, data=text[start : start + PIECE], t=time.time(), **more)
            self.launcher.flush_all(self.heartbeat)


def refuse(launcher: LauncherIO, error: OSError, which: str) -> None:
    what = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    launcher.send(e="refused", message=f"cannot start {which}: {what}", t=time.time())


def guard(worker: int, folder: str) -> None:
    """Outlive the supervisor proper: should it be killed, this process gets its orphans, and ends them."""
    stdin = os.dup(0)
    redirect_to_devnull(0, 1)
    if HELD not in sys.modules:  # a fork of a hold gets TERM when that ends
        die_with_parent(os.getppid(), signal.SIGCONT)  # stopped, it would not see that the launcher is gone
    for number in FROM_TERMINAL:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: end(worker))
    sweep()  # here, where nothing waits for it
    status = wait_for(worker, stdin)
    if status != 0:  # else the supervisor has ended everything itself
        end_all_below(STUCK_AFTER)
    remove(folder)
    os._exit(exit_status(status)[0] or 0)


def end(worker: int) -> None:
    """Ask the supervisor proper to end. One that is stopped continues."""
    kill(worker, signal.SIGTERM)
    kill(worker, signal.SIGCONT)


def wait_for(worker: int, stdin: int) -> int:
    """Return the wait status of the supervisor proper. One that is stopped continues when the launcher is gone."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    poll.register(stdin, OTHER_SIDE_ENDED)
    while True:
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return status
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, 1 << 10)
            else:
                poll.unregister(stdin)
                kill(worker, signal.SIGCONT)


def main(folder: str = FOLDER, key: str = "") -> None:
    """Supervise. `folder` is removed at the end, whoever made it. `key`: see `seal.py`."""
    hide()
    signal.alarm(0)  # the alarm of the command line (`protocol.BOOT`)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a launcher in another program may inherit it ignored,
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # and TERM blocked
    become_subreaper()
    parent = os.getpid()
    try:
        worker = os.fork()
    except OSError as error:  # the user's limit on processes
        server = CallServer(key=key)
        launcher = LauncherIO(EventLoop(), 0.0, server.until_request()[1], (server.sent_seal, server.received_seal))
        refuse(launcher, error, "any rank")
        launcher.send(e="end", t=time.time())
        launcher.flush_all(lambda: None)
        os._exit(0)
    if worker:
        guard(worker, folder)
    die_with_parent(parent, signal.SIGTERM)
    server = CallServer(key=key)
    Supervisor(*server.until_request(), (server.sent_seal, server.received_seal)).run()
    if os.getppid() != parent:
        remove(folder)  # which the guard does, unless it was killed
    os._exit(0)  # nothing is left to tidy up, and the launcher waits


if __name__ == "__main__":
    main()
