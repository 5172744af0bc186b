"""Command lines that run something where a rank of a run runs: here, over the user's own ssh, or in a step of its job.

They need the terminal of whoever asks, which ssh and srun pass on by themselves.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import termios
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from ddpkit.errors import DdpkitError, UsageError, install, no_process
from ddpkit.launchers.host_names import Via
from ddpkit.launchers.shell import join, run_module
from ddpkit.monitor import client
from ddpkit.node.at_rank import environment
from ddpkit.node.bundle import read_texts
from ddpkit.node.child import NOT_FROM_HERE, die_with_parent
from ddpkit.node.relay import READY, Relay
from ddpkit.run import launcher_process, run_index
from ddpkit.run.record import Run
from ddpkit.run.state import Origin
from ddpkit.transports.channel import at_home
from ddpkit.transports.hosts import OURS
from ddpkit.transports.srun import overlap_step

BEFORE = 1 << 16  # bytes that a node may print before it carries a connection
_FOR_THE_COMMAND = (signal.SIGINT, signal.SIGQUIT)
_SSH = (*OURS, "-oEscapeChar=none")  # for a person, unlike `hosts.ALONE`: ssh may ask


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Where one rank runs."""

    run: Run
    host: str  # by its label in the run
    pid: int
    env: Mapping[str, str]  # variables that the rank set after its start
    group: int | None = None  # of a heterogeneous job

    @property
    def is_here(self) -> bool:
        """Whether the rank is a process of this machine."""
        return _job_of(self.run) is None and self.host not in self.run.logins

    def command(self, words: Sequence[str], *, terminal: bool) -> tuple[list[str], dict[str, str]]:
        """Return a command line for this machine, and its environment, that runs words where the rank runs.

        Words: see `ddpkit/node/at_rank.py`. Raises UsageError where this user has no way there.
        """
        run = self.run
        text = self._program(words)
        env = dict(os.environ)
        if (job := _job_of(run)) is not None:
            output = ["--pty"] if terminal else []
            argv, inherited = overlap_step(job, self.group, [self.host], text=text, output=output)
            if run.job and run.job.via:
                return [*_ssh(terminal), *_login(run.job.via), "--", join(argv)], env
            return argv, {name: value for name, value in env.items() if name not in inherited}
        login = run.logins.get(self.host)
        if login is None:
            return [sys.executable, "-S", "-I", "-c", text], env
        return [*_ssh(terminal), *_login(login), "--", f"{at_home(login.python)} {join(['-S', '-I', '-c', text])}"], env

    def shown(self, words: Sequence[str], *, terminal: bool) -> str:
        """The command line, for a dry run."""
        return join(self.command(words, terminal=terminal)[0])

    def _program(self, words: Sequence[str]) -> str:
        """Return the Python program of the node, in one line without a character that any shell expands, tcsh too."""
        holds = [hold.run_id for hold in run_index.list_holds()]  # a fork of one has its variables
        ask = {"runs": [self.run.run_id, *holds], "pid": self.pid, "env": dict(self.env), "words": [*words]}
        program = f"{read_texts()['at_rank']}\nmain({ask!r})\n"
        packed = b64encode(zlib.compress(program.encode("utf-8", "surrogateescape"), 9)).decode()
        return f'import zlib,base64;exec(zlib.decompress(base64.b64decode("{packed}")))'


def _login(via: Via) -> list[str]:
    return [*(("-l", via.user) if via.user else ()), *(("-p", str(via.port)) if via.port else ()), via.host]


def _ssh(terminal: bool) -> list[str]:
    ssh = shutil.which("ssh")
    if ssh is None:
        raise UsageError("ssh not found on this machine: it takes this terminal to the node", install("openssh-client"))
    return [ssh, "-t" if terminal else "-T", *_SSH]


def _job_of(run: Run) -> str | None:
    """Return the job whose nodes have the ranks; None: no job."""
    if run.job is not None or not run.backend.startswith("slurm"):
        return run.job_id
    # A step of an allocation: the launcher is a process of this machine and of this user.
    found = environment(run.launcher_pid).get("SLURM_JOB_ID", "")
    if not launcher_process.is_alive(run) or not found.isdecimal():
        raise UsageError(f"the allocation of run {run.run_id} is not known here", f"ddpkit status {run.run_id}")
    return found


def find_rank(run: Run, rank: int, *, dry: bool = False) -> RankPlace:
    """Return where a rank of a running launch is. Raises DdpkitError, also for a run that this user's index has not.

    `dry`: no launcher is asked; each writes its ranks into the run's directory every few seconds.
    """
    if run.origin is not Origin.INDEX:
        what = f"run {run.run_id} is not in this user's index: ddpkit connects to no host that its record names"
        raise UsageError(what, "ddpkit ps")
    known = _known_ranks(run, dry=dry)
    if rank not in known.pids:
        what = f"rank {rank} of run {run.run_id} does not run{', or is not in its status yet' if dry else ''}"
        raise UsageError(what, f"ddpkit status {run.run_id}")
    host = known.hosts[rank]
    peers = sorted(each for each in known.hosts if known.hosts[each] == host)
    numbers = {
        "RANK": rank,
        "WORLD_SIZE": run.world_size,
        "LOCAL_RANK": peers.index(rank),
        "LOCAL_WORLD_SIZE": len(peers),
    }
    env = {"DDPKIT_RUN": run.run_id, **{name: str(number) for name, number in numbers.items()}}
    group = known.group_of(host) if known.group_of else None
    return RankPlace(run=run, host=host, pid=known.pids[rank], env=env, group=group)


class _KnownRanks(NamedTuple):
    """The ranks of a run: the host and the process of each by its number."""

    hosts: Mapping[int, str]
    pids: Mapping[int, int]
    group_of: Callable[[str], int] | None = None  # of a host; None: the job is not heterogeneous, or there is none


def _known_ranks(run: Run, *, dry: bool) -> _KnownRanks:
    """Return the ranks by the output of the job, or by the run's status (`dry`), or by the launcher, which is asked."""
    if run.job is not None:
        reader = client.read_job_output(run)
        return _KnownRanks(reader.hosts, reader.pids, reader.group_of if reader.groups else None)
    if dry:
        from ddpkit.run.status import read_ranks

        written = read_ranks(run)
        seen = written.ranks if written else ()
        ranks = [(each.rank, each.host, each.pid) for each in seen if each.pid and not each.over]
    else:
        sample = client.LauncherSamples(run).sample(0.0, pss=False) or {"hosts": []}
        ranks = [(int(each), at["host"], facts["pid"]) for at in sample["hosts"] for each, facts in at["ranks"].items()]
    return _KnownRanks({rank: host for rank, host, _ in ranks}, {rank: pid for rank, _, pid in ranks})


# ---- the command, while it runs


def run_on_terminal(place: RankPlace, words: Sequence[str]) -> int:
    """Run words where the rank runs, on this terminal. Returns their exit code; the terminal is as it was."""
    terminal, own = sys.stdin.isatty(), os.getpid()
    argv, env = place.command(words, terminal=terminal)
    before = termios.tcgetattr(0) if terminal else None
    # ssh and srun pass them on, or the terminal gives them to the command.
    for number in _FOR_THE_COMMAND:
        signal.signal(number, signal.SIG_IGN)

    def become() -> None:
        die_with_parent(own, signal.SIGHUP)
        for number in _FOR_THE_COMMAND:
            signal.signal(number, signal.SIG_DFL)

    try:
        process = subprocess.Popen(argv, env=env, preexec_fn=become)  # noqa: PLW1509 (one thread)
    except OSError as error:
        raise no_process(error) from None
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait() if before is None else _wait_on_terminal(process, before)
    return code if code >= 0 else 128 - code


def _wait_on_terminal(process: subprocess.Popen[bytes], before: list[Any]) -> int:
    """Wait for a command. Returns its code; the terminal is as it was.

    Ctrl-Z stops the command and this process alike, and their shell continues both. A command that stops alone, such
    as a shell with processes in front of its own, stops this process as well: the shell waits for this process alone.
    """
    state = _look(process)
    while state is not _Child.ENDED:
        if state is _Child.STOPPED:
            state = _stop_beside(process, before)
        if state is _Child.SAME:
            with suppress(OSError):  # the terminal is gone
                if os.tcgetpgrp(0) == os.getpgrp():  # `fg`, and not `bg`
                    os.tcsetpgrp(0, os.getpgid(process.pid))
            state = _look(process, os.WNOHANG)
            if state is _Child.SAME:  # the shell has continued this process alone
                process.send_signal(signal.SIGCONT)
        if state in (_Child.SAME, _Child.RUNS):
            state = _look(process)
    with suppress(OSError, termios.error):
        _take_terminal(process.pid, before)
    return process.wait()


class _Child(Enum):
    """What has become of a command since the last look."""

    SAME = auto()
    STOPPED = auto()
    RUNS = auto()  # again
    ENDED = auto()


def _look(process: subprocess.Popen[bytes], options: int = 0) -> _Child:
    """Return what has become of a command, and wait for it without `os.WNOHANG`."""
    try:
        pid, status = os.waitpid(process.pid, options | os.WUNTRACED | os.WCONTINUED)
    except ChildProcessError:  # a handler of a signal has seen its end
        return _Child.ENDED
    if not pid:
        return _Child.SAME
    if os.WIFSTOPPED(status):
        return _Child.STOPPED
    if os.WIFCONTINUED(status):
        return _Child.RUNS
    process.returncode = os.waitstatus_to_exitcode(status)
    return _Child.ENDED


def _stop_beside(process: subprocess.Popen[bytes], before: list[Any]) -> _Child:
    """Stop until this process is continued, with the terminal as it was before. Without a shell it does not stop.

    A command that is continued by now is left as it is. Returns what has become of it before this process stops.
    """
    # While they are blocked, the signal of the terminal and this one lead to one stop, where the mask is lifted.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP, signal.SIGTTIN})
    try:
        state = _look(process, os.WNOHANG)
        # One that was continued, and is about to end, is not known as continued any more.
        if state is _Child.SAME and launcher_process.process_state(process.pid) not in ("T", "t", ""):
            state = _Child.RUNS
        if state is _Child.SAME:
            with suppress(OSError, termios.error):  # the terminal is gone
                _take_terminal(process.pid, before)
            os.kill(os.getpid(), signal.SIGTSTP)
        return state
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _take_terminal(pid: int, state: list[Any]) -> None:
    """Take the terminal from a command's process group, or from one that has ended, and set the terminal's state.

    In the background it does nothing: another command of the user's shell has the terminal.
    """
    own, front = os.getpgrp(), os.tcgetpgrp(0)
    if front not in (own, pid) and _is_group(front):
        return
    handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, own)
        termios.tcsetattr(0, termios.TCSADRAIN, state)
    finally:
        signal.signal(signal.SIGTTOU, handler)


def _is_group(number: int) -> bool:
    try:
        os.kill(-number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of processes of another user
        pass
    return True


def relay_words(port: int) -> list[str]:
    """Return the command for `RankPlace.command` that connects to a port where the rank runs."""
    return ["{python}", "-S", "-I", "-c", f"{read_texts()['relay']}\nmain({str(port)!r})\n"]


def debugpy_words(port: int) -> list[str]:
    """Return the command for `RankPlace.command` that attaches debugpy to the rank."""
    texts = read_texts()
    # As text: `from __future__` is an import as well, and has to be the first line.
    programs = "\n".join(f"exec({texts[name]!r})" for name in ("relay", "debugpy_attach"))
    attach = f"attach(sys.argv[1], {port}, {run_module('debugpy')!r})"
    return ["{python}", "-c", f"{NOT_FROM_HERE}\n{programs}\n{attach}\n", "{pid}"]


_kept: list[socket.socket] = []  # until this command ends


def listen(port: int, hint: str) -> socket.socket:
    """Open a port of this machine, for it alone. Raises UsageError where it is in use.

    `localhost` can mean ::1 as well: that port is taken with it, and nobody answers there.
    """
    try:
        listener = socket.create_server(("127.0.0.1", port))
        if socket.has_ipv6:
            _kept.append(socket.socket(socket.AF_INET6))
            _kept[-1].bind(("::1", listener.getsockname()[1]))
    except OSError as error:
        if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # no IPv6 here
            raise UsageError(f"port {port} of this machine: {os.strerror(error.errno or 0)}", hint) from None
    return listener


def forward_port(place: RankPlace, port: int, listener: socket.socket, begun: Callable[[], None]) -> int:
    """Carry connections to a local port to one where the rank runs. Returns an exit code when the way has ended.

    `begun` is called when connections are taken.
    """
    argv, env = place.command(relay_words(port), terminal=False)
    own = os.getpid()
    try:
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=lambda: die_with_parent(own, signal.SIGTERM),  # noqa: PLW1509 (one thread)
        )
    except OSError as error:
        raise no_process(error) from None
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        read = 0
        while (line := process.stdout.readline(BEFORE)) != READY:
            read += len(line)
            if read >= BEFORE:
                what = f"{place.host} prints more than {BEFORE >> 10} KiB before it carries a connection"
                raise DdpkitError(what, f"ddpkit shell --rank {place.env['RANK']} -- true")
            if not line:
                return process.wait() or 1  # ssh, srun or the node has said why
        begun()
        Relay(process.stdout.fileno(), process.stdin.fileno()).run(listener)
        return process.wait() or 1
    finally:
        process.terminate()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # what was not sent has nowhere to go
                stream.close()
