"""Stands between torchrun and one rank, so that the supervisor sees the rank itself; or between srun and one rank.

torchrun starts this in place of the rank. The rank's output goes straight into the supervisor's pipes, its process id
and exit status are reported there, and this process then ends as the rank ended, so that torchrun sees what it would
have seen. torchrun itself says who failed only in text, at its end.

Usage: rank_wrapper.py COMMAND [ARG...], where DDPKIT_TAP is this file's path. Named pipes lie in its folder: `out.N`,
       `err.N` (N: local rank) and `events`. Without DDPKIT_TAP, where no supervisor is near (a SLURM step), output and
       news are lines that begin with the rank, on the standard output and error that are there
       (`ddpkit/launchers/slurm_output.py`).
       rank_wrapper.py --task COMMAND [ARG...] as a task of srun: the rank has the outputs of the task itself.

SLURM gives a signal to the task alone where it tracks processes with cgroups, and to every process below it where it
does not. A process that waits for signals only shows which it was, and the ranks get what they did not get.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STUCK = 2.0  # seconds for the end of killed processes; one that waits for a dead disk does not end
# This process stays to report the end of the rank. torchrun signals its process group, and so the rank. In a SLURM step
# the rank has a group of its own, and gets from here what SLURM did not send to it: each signal comes once.
FROM_ABOVE = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGALRM, signal.SIGXCPU),
)

# Bytes of a line's text in one piece: srun cuts what is longer than 1,024 (Slurm 22.05), and mixes the pieces of both
# outputs of a node. Our own name their output, and whether more follow (`ddpkit/launchers/slurm_output.py`).
PIECE = 1000
ELSEWHERE = 4000  # under another scheduler: a shorter write to a pipe is never mixed with that of another rank
LINE_LIMIT = 1 << 20  # bytes of a line without an end that are held

# SLURM sends these either to every process, or to torchrun alone, which then sends them here (`torchrun_agent.py`).
FROM_AGENT = (signal.SIGUSR1, signal.SIGUSR2)
REPEATED = 5.0  # seconds in which the agent repeats what SLURM sent to every process

HERE_TOO = 0.3  # seconds in which a signal for every process reaches the last one, on a busy node as well

# Seconds before the end of a task that failed. srun ends the other ranks as soon as one failed. When all have ended, it
# drops the output that it has not read: TCP may hold the last lines for 40 ms.
UNREAD = 0.2


def main(*words: str) -> None:
    if words[0] == "--task":
        task(list(words[1:]))
    else:
        wrap(list(words))


def wrap(argv: list[str]) -> None:
    """Run a rank of torchrun, and report its start and its end."""
    local_rank, rank = os.environ["LOCAL_RANK"], os.environ["RANK"]
    path = os.environ.pop("DDPKIT_TAP", None)
    lines = path is None
    hook = os.environ.pop("DDPKIT_HOOK", "")
    if lines and os.environ.get("DDPKIT_DUMP") != "0":
        folder = os.path.dirname(__file__)
        bundle = os.path.dirname(folder)  # where this file is in one: see `bundle.py`
        hook = next(filter(os.path.exists, [folder + "/hook", bundle if os.path.isfile(bundle) else ""]), "")
    if hook and os.path.basename(argv[0]).startswith("python"):  # see `rank_hook.py`
        os.environ["DDPKIT_HOOK"] = hook
        os.environ["PYTHONPATH"] = os.pathsep.join([hook, *filter(None, [os.environ.get("PYTHONPATH")])])
    folder = os.path.dirname(path or "")
    if folder and os.environ.get("PET_LOG_DIR") == folder:
        del os.environ["PET_LOG_DIR"]  # the supervisor's word to torchrun
    events, pipes = 2, []
    if lines:
        ends = Ends()
        pipes = [os.pipe(), os.pipe()]
    else:
        for name, fd in (("out", 1), ("err", 2)):
            pipe = os.open(f"{folder}/{name}.{local_rank}", os.O_WRONLY)
            os.dup2(pipe, fd)
            os.close(pipe)
        events = os.open(f"{folder}/events", os.O_WRONLY)
    # What comes before the rank has its own handling of signals waits until then, and is not lost.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_ABOVE)
    end_with_parent(os.getppid())
    early = [number for number, _ in take_signals()] if lines else []
    if lines:
        adopt_orphans()
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        end_with_parent(own)
        if lines:
            os.setpgid(0, 0)
        else:  # not by the parent: the rank could print before it, and those lines would be of an earlier attempt
            os.write(events, f"start {local_rank} {rank} {os.getpid()} {time.time()}\n".encode())
        for (_, write), fd in zip(pipes, (1, 2)):
            os.dup2(write, fd)
        start(argv, mask)
    if lines:
        write_start(rank, pid)
        for number in early:
            os.kill(pid, number)
        direct = dict.fromkeys(early, time.monotonic())
        status = relay({pid: (rank, pipes)}, lambda *end: ends.write(rank, *end), lambda: pass_on(pid, direct))[pid]
        end_children()
    else:
        for number in FROM_ABOVE:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        status = os.waitpid(pid, 0)[1]
        code, killer = split_status(status)
        os.write(events, f"exit {local_rank} {rank} {code} {killer} {time.time()}\n".encode())
    end_as(status)


def task(argv: list[str]) -> None:
    """Run a rank as a task of srun: pass on the signals that only the task got, and end as the rank ends."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*FROM_ABOVE, signal.SIGCHLD))
    own, for_all = os.getpid(), start_sentinel()
    adopt_orphans()
    pid = os.fork()
    if pid == 0:
        end_with_parent(own)
        start(argv, mask)
    while True:
        number = signal.sigwait((*FROM_ABOVE, signal.SIGCHLD))
        if number != signal.SIGCHLD:
            numbers, everywhere = received(for_all, number)
            for each in numbers:
                if each not in everywhere:
                    os.kill(pid, each)
        reap_others([pid])
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
    end_children()
    if status:
        time.sleep(UNREAD)
    end_as(status)


def adopt_orphans() -> None:
    """Become the parent of each process below whose own parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_others(names: Iterable[int]) -> None:
    """Reap orphans of ranks, which are children of this process now."""
    if sys.platform == "linux":
        while (gone := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and gone.si_pid not in names:
            os.waitpid(gone.si_pid, 0)


def end_children() -> None:
    """Kill what the ranks have left running, also in other sessions: SLURM without cgroups would not find it.

    Shared daemons are left and reported. With cgroups, SLURM itself ends them.
    """
    parts, until = program_beside("daemons"), time.monotonic() + STUCK
    spared: dict[int, str] = {}
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        spared = parts["shared_daemons"](os.getpid(), ()) if parts else {}
        others = [pid for pid in children() if pid not in spared]
        if spared and not others:
            break
        for pid in others:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    if spared:
        names = ", ".join("%s (process %d)" % (spared[pid], pid) for pid in sorted(spared))
        where = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        text = "ddpkit: left running on %s, daemons that a rank started and other programs can use: %s\n"
        os.write(2, (text % (where, names)).encode("utf-8", "replace"))


def children() -> list[int]:
    """Return the processes whose parent is this one: they stay until they are waited for."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    pids.append(int(name))
        except OSError:
            pass  # it has ended
    return pids


def program_beside(name: str) -> dict[str, Any]:
    """Return the names of a program in this one's directory or bundle; none where it is not there."""
    if __name__ == "ddpkit.node.rank_wrapper":
        return vars(__import__("ddpkit.node." + name, fromlist=["_"]))
    path = os.path.join(os.path.dirname(__file__), name + ".py")
    names: dict[str, Any] = {"__name__": "ddpkit_" + name}
    try:
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), names)
    except OSError:
        return {}
    return names


def start_sentinel() -> int:
    """Start a process that gets signals only where every process gets them. Returns a pipe with their numbers.

    The caller has blocked FROM_ABOVE.
    """
    own, (read, write) = os.getpid(), os.pipe()
    if os.fork() == 0:
        end_with_parent(own)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        while True:
            os.write(write, bytes([signal.sigwait(FROM_ABOVE)]))
    os.close(write)
    return read


def received(for_all: int, *numbers: int) -> tuple[list[int], bytes]:
    """Return the signals that came to this process, with `numbers` before them, and those that came to every process.

    for_all: the pipe of `start_sentinel`.
    """
    import select

    mine = [*numbers, *(number for number, _ in take_signals())]
    until, everywhere = time.monotonic() + HERE_TOO, b""
    while not set(mine) <= set(everywhere) and (left := until - time.monotonic()) > 0:
        if select.select([for_all], [], [], left)[0]:
            everywhere += os.read(for_all, 1 << 10)
    return mine, everywhere


def write_start(rank: str, pid: int) -> None:
    host = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    step = os.environ.get("SLURM_JOB_ID", "") + "." + os.environ.get("SLURM_STEP_ID", "")
    os.write(2, f"ddpkit: rank {rank} on {host} pid {pid} step {step}\n".encode())


class Ends:
    """Reports the ends of ranks in a SLURM step, and what the kernel killed for want of memory."""

    def __init__(self) -> None:
        parts = program_beside("oom")
        self.why: Callable[[int], str] | None = parts["Oom"]().why if parts else None

    def write(self, rank: str, pid: int, status: int) -> None:
        code, killer = split_status(status)
        why = self.why(pid) if self.why is not None and killer == signal.SIGKILL else ""
        text = f"ddpkit: rank {rank} ended: code {code} signal {killer}"
        os.write(2, (text + ", out of memory: " * bool(why) + why + "\n").encode())


def split_status(status: int) -> tuple[int | None, int | None]:
    """Return the exit code and the signal of a status of `waitpid`; one of them is None."""
    return (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)


def end_as(status: int) -> None:
    """End this process as another one has ended."""
    code, killer = split_status(status)
    if killer is None:
        os._exit(code or 0)
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank's own core file is the one to keep
    if killer != signal.SIGKILL:
        signal.signal(killer, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [killer])
    os.kill(os.getpid(), killer)


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends. Ends it now where the parent was faster."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def start(argv: list[str], mask: set[int]) -> None:
    """Become the rank, with signals as if torchrun had started it itself."""
    for number in (*FROM_ABOVE, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        import shutil

        # As in `search_path.py`: a directory in PATH that this user may not enter.
        hidden = error.errno == errno.EACCES and "/" not in argv[0] and shutil.which(argv[0], os.F_OK) is None
        absent = hidden or error.errno == errno.ENOENT
        why = os.strerror(errno.ENOENT) if absent else error.strerror
        os.write(2, f"ddpkit: cannot start {argv[0]}: {why}\n".encode("utf-8", "surrogateescape"))
        os._exit(127 if absent else 126)


def readable_after_an_end() -> int:
    """Return a descriptor that the end of a child makes readable: then the order of the ends is that of the ranks."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken


def relay(
    ranks: dict[int, tuple[str, list[tuple[int, int]]]], ended: Callable[[int, int], None], between: Callable[[], None]
) -> dict[int, int]:
    """Forward the output of ranks, each line with its rank in front, until they have ended. Returns their statuses.

    ranks: process id: the rank, its pipes for output and error. `ended` is called with a process id and a status after
    the rank's last line, `between` at least every 100 ms.
    """
    import select

    held = {}
    poll = select.poll()
    woken = readable_after_an_end()
    poll.register(woken, select.POLLIN)
    for pid, (_, pipes) in ranks.items():
        for (read, write), fd in zip(pipes, (1, 2)):
            os.close(write)
            held[read] = (pid, fd, b"")
            poll.register(read, select.POLLIN)

    def forward(read: int) -> None:
        pid, fd, before = held[read]
        data = os.read(read, 1 << 16)
        *whole, rest = (before + data).split(b"\n")
        for line in whole:
            write_line(fd, ranks[pid][0], line)
        if len(rest) >= LINE_LIMIT:
            write_line(fd, ranks[pid][0], rest)
            rest = b""
        held[read] = (pid, fd, rest)
        if not data:
            close(read)

    def close(read: int) -> None:
        pid, fd, rest = held.pop(read)
        if rest:
            write_line(fd, ranks[pid][0], rest)
        poll.unregister(read)
        os.close(read)

    statuses: dict[int, int] = {}
    while len(statuses) < len(ranks):
        for read, _ in poll.poll(100):
            if read == woken:
                os.read(woken, 1 << 10)
            else:
                forward(read)
        between()
        for pid in [pid for pid in ranks if pid not in statuses]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if not done:
                continue
            statuses[pid] = status
            # A read takes all that a pipe can hold. What the rank's own children write later is not waited for.
            for read in [read for read, _ in poll.poll(0) if read in held and held[read][0] == pid]:
                forward(read)
            for read in [read for read in held if held[read][0] == pid]:
                close(read)
            ended(pid, status)
    return statuses


def write_line(fd: int, rank: str, line: bytes) -> None:
    """Write a line with the rank in front, a long one in pieces. One write each: several ranks share a pipe."""
    size = PIECE if "SLURM_STEP_ID" in os.environ else ELSEWHERE
    if len(line) <= size:
        write_all(fd, f"[rank {rank}] ".encode() + line + b"\n")
        return
    for start in range(0, len(line), size):
        more = "+" if start + size < len(line) else ""
        write_all(fd, f"[rank {rank} {fd}{more}] ".encode() + line[start : start + size] + b"\n")


def write_all(fd: int, data: bytes) -> None:
    """Write everything. The pipe of a scheduler may be full, and may be one that does not block."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            import select

            select.select([], [fd], [])


def take_signals() -> Iterator[tuple[int, int]]:
    """Yield the number and the sender of each blocked signal that waits."""
    if sys.platform != "linux":
        return  # no node of SLURM
    while True:
        try:
            received = signal.sigtimedwait(FROM_ABOVE, 0)
        except InterruptedError:
            continue
        if received is None:
            return
        yield received.si_signo, received.si_pid


def pass_on(pid: int, direct: dict[int, float]) -> None:
    """Send the rank what the agent sent here, unless SLURM sent it to every process. `direct` keeps when that was."""
    for number, sender in take_signals():
        now = time.monotonic()
        if sender != os.getppid():
            direct[number] = now
        elif now - direct.get(number, -REPEATED) >= REPEATED:
            os.kill(pid, number)


if __name__ == "__main__":
    main(*sys.argv[1:])
