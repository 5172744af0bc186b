"""Stands between torchrun and one rank, so that the supervisor sees the rank itself.

torchrun starts this in place of the rank. The rank's output goes straight into the supervisor's pipes, its process id
and exit status are reported there, and this process then ends as the rank ended, so that torchrun sees what it would
have seen. torchrun itself says who failed only in text, at its end.

Usage: rank_wrapper.py COMMAND [ARG...], where DDPKIT_TAP is this file's path. Named pipes lie in its folder: `out.N`,
       `err.N` (N: local rank) and `events`.

With DDPKIT_TAP_ONCE (in a step of SLURM, which may give a signal to every process below its task) the rank gets from
here what torchrun sends, unless it has got it from SLURM. Its variables of SLURM are those of a task of its own.
"""

from __future__ import annotations

# `signal` itself imports enum, which takes 3 ms.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys
import time

from ddpkit.node.child import connect_output, die_with_parent, end_as, execute, exit_status, loads_hook, prepend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

# This process stays to report the end of the rank. torchrun signals its process group, and so the rank.
FROM_ABOVE = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGALRM, signal.SIGXCPU),
)
WORLD = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS")
REPEATED = 5.0  # seconds in which torchrun repeats what SLURM gave to every process
SLURM_FIRST = 0.05  # seconds in which what SLURM gives to every process is here as well


def main(*argv: str) -> None:
    """Run a rank of torchrun, and report its start and its end."""
    local_rank, rank = os.environ["LOCAL_RANK"], os.environ["RANK"]
    folder = os.path.dirname(os.environ.pop("DDPKIT_TAP"))
    once = os.environ.pop("DDPKIT_TAP_ONCE", None) is not None
    hook = os.environ.pop("DDPKIT_HOOK", "")
    if hook and loads_hook(argv):  # see `rank_hook.py`
        os.environ["DDPKIT_HOOK"] = hook
        os.environ["PYTHONPATH"] = prepend(hook, os.environ)
    if os.environ.get("PET_LOG_DIR") == folder + "/torchrun":
        del os.environ["PET_LOG_DIR"]  # the supervisor's word to torchrun
    if once:
        os.environ.update(SLURM_PROCID=rank, SLURM_LOCALID=local_rank)
        os.environ.update(dict.fromkeys(WORLD, os.environ["WORLD_SIZE"]))
    connect_output(folder, local_rank)
    events = os.open(f"{folder}/events", os.O_WRONLY)
    die_with_parent(os.getppid(), signal.SIGKILL)
    own = os.getpid()
    # What comes before the rank has its own handling of signals waits until then, and is not lost. Just before the
    # fork: what SLURM gives to every process the rank does not have that begins later, and it counts as given.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_ABOVE)
    pid = os.fork()
    if pid == 0:
        die_with_parent(own, signal.SIGKILL)
        if once:
            os.setpgid(0, 0)
        # Not by the parent: the rank could print before it, and those lines would be of an earlier attempt.
        os.write(events, f"start {local_rank} {rank} {os.getpid()} {time.time()}\n".encode())
        for number in (*FROM_ABOVE, signal.SIGPIPE, signal.SIGXFSZ):  # as if torchrun had started it itself
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        execute(list(argv), os.environ)
    if once:
        wait_and_pass_on(pid)
    for number in FROM_ABOVE:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    status = os.waitpid(pid, 0)[1]
    code, killer = exit_status(status)
    os.write(events, f"exit {local_rank} {rank} {code} {killer} {time.time()}\n".encode())
    end_as(status)


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


def wait_and_pass_on(pid: int) -> None:
    """Wait for the end of the rank. Send it what torchrun sends here, unless every process got that."""
    if sys.platform != "linux":
        return  # no node of SLURM
    by_slurm: dict[int, float] = {}  # signals that SLURM sent here, and so to the rank as well: time.monotonic()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        received = signal.sigwaitinfo((*FROM_ABOVE, signal.SIGCHLD))
        if received.si_signo == signal.SIGCHLD:
            continue
        if received.si_pid != os.getppid():
            by_slurm[received.si_signo] = time.monotonic()
            continue
        time.sleep(SLURM_FIRST)
        pass_on(pid, by_slurm)  # notes what SLURM has sent meanwhile
        if time.monotonic() - by_slurm.get(received.si_signo, -REPEATED) >= REPEATED:
            os.kill(pid, received.si_signo)


def pass_on(pid: int, by_slurm: dict[int, float]) -> None:
    """Send the rank what the agent sent here, unless SLURM sent it to every process. `by_slurm` keeps when it did."""
    for number, sender in take_signals():
        now = time.monotonic()
        if sender != os.getppid():
            by_slurm[number] = now
        elif now - by_slurm.get(number, -REPEATED) >= REPEATED:
            os.kill(pid, number)
