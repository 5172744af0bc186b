"""Stands between torchrun and one rank, so that the supervisor sees the rank itself.

torchrun starts this in place of the rank. The rank's output goes straight into the supervisor's pipes, its process id
and exit status are reported there, and this process then ends as the rank ended, so that torchrun sees what it would
have seen. torchrun itself says who failed only in text, at its end.

Usage: tap.py FOLDER COMMAND [ARG...], with the named pipes `out.N`, `err.N` (N: local rank) and `events` in FOLDER.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
# torchrun signals the whole process group: the rank gets these by itself, and this process stays to tell the end.
FROM_ABOVE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main(folder: str, argv: list[str]) -> None:
    local_rank, rank = os.environ["LOCAL_RANK"], os.environ["RANK"]
    del os.environ["DDPKIT_TAP"]
    for name, fd in (("out", 1), ("err", 2)):
        pipe = os.open(f"{folder}/{name}.{local_rank}", os.O_WRONLY)
        os.dup2(pipe, fd)
        os.close(pipe)
    events = os.open(f"{folder}/events", os.O_WRONLY)
    for number in FROM_ABOVE:
        signal.signal(number, signal.SIG_IGN)
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    pid = os.fork()
    if pid == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for number in (*FROM_ABOVE, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"ddpkit: cannot start {argv[0]}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
            os._exit(127 if error.errno == errno.ENOENT else 126)
    os.write(events, f"start {local_rank} {rank} {pid} {time.time()}\n".encode())
    status = os.waitpid(pid, 0)[1]
    killer = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    code = None if killer else os.WEXITSTATUS(status)
    os.write(events, f"exit {local_rank} {rank} {code} {killer} {time.time()}\n".encode())
    if killer is None:
        os._exit(os.WEXITSTATUS(status))
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the rank's own core file is the one to keep
    if killer != signal.SIGKILL:
        signal.signal(killer, signal.SIG_DFL)
    os.kill(os.getpid(), killer)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
