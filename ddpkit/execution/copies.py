"""Copies to nodes, what --sync and --stage share: the list of files, the sender, and calls to all nodes at once."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from ddpkit.errors import UsageError, install
from ddpkit.launchers.backends import NodeOptions
from ddpkit.launchers.events import Event
from ddpkit.launchers.shell import join, quote
from ddpkit.node.child import die_with_parent
from ddpkit.node.owned import check_above, own_file, temporary_directory
from ddpkit.node.process_tree import kill_group
from ddpkit.transports.channel import NoAnswerError, RefusedError
from ddpkit.transports.hosts import ALONE, HostSpec, Problem
from ddpkit.transports.pool import Connector, NodePool
from ddpkit.transports.protocol import LocalLink, program_request
from ddpkit.transports.ssh.program import user_and_port

PATIENCE = 600.0  # seconds for one call
END_LIMIT = 5.0  # seconds for the end of a killed rsync
LIST_SOON = 3.0  # seconds of it after which files for which rsync would wait are looked for
LIST_LIMIT = 300.0  # seconds for the list of a project's files
ANY_PYTHON = "python3"  # of a node whose Python is part of what is copied
STILL = 2.0  # times the heartbeat timeout without data, after which a node counts as lost
QUIET = 3.0  # seconds without output of rsync, after which its node is checked
_OLDEST = (3, 1)  # with --info=progress2
_PERCENT = re.compile(r"\s(\d{1,3})%")
_SENT = re.compile(r"^sent ([\d.,]+) bytes", re.MULTILINE)  # with --info=stats1
_TIMED_OUT = re.compile(r"io timeout after (\d+) seconds")  # with --timeout
# rsync's exit codes that say what is missing on the other side.
_NO_RSYNC, _NO_SSH = 127, 255


def project_files(workdir: str, log_dir: str) -> list[str]:
    """List the directories, files and links of a project that are copied, by path in `workdir`. Raises UsageError.

    What `.gitignore` names is left out, and so are `.git`, the logs, other disks, and what ddpkit makes.
    """
    source, logs = Path(workdir), Path(log_dir).absolute()
    if not source.is_dir():
        raise UsageError(f"directory not found on this machine: {workdir}", "--workdir DIR")
    check_rsync()
    inside = logs.is_relative_to(source) and logs != source
    argv = ["rsync", "--archive", "--dry-run", "--8-bit-output", "--out-format=%i %n", "--one-file-system"]
    argv += ["--filter=:- .gitignore", "--exclude=/.git/", "--exclude=.ddpkit-*", "--exclude=.ddpkit"]
    argv += [f"--exclude=/{logs.relative_to(source)}/"] if inside else []
    argv += ["--", f"{workdir}/", f"{workdir}/.ddpkit-none/"]
    listed = re.findall(r"^[.<>ch][fdL]\S{9} (.*)$", _run_list(argv, workdir), re.MULTILINE)
    names = [re.sub(r"\\#([0-7]{3})", lambda code: chr(int(code[1], 8)), name).rstrip("/") for name in listed]
    return [name for name in names if name != "."]


def _run_list(argv: Sequence[str], workdir: str) -> str:
    """Return what rsync lists. Its processes end with this one. Raises UsageError."""
    own = os.getpid()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: die_with_parent(own, signal.SIGTERM),  # noqa: PLW1509 (it only makes a system call)
    )
    try:
        try:
            output, errors = process.communicate(timeout=LIST_SOON)
        except subprocess.TimeoutExpired:
            _check_filters(workdir)
            output, errors = process.communicate(timeout=LIST_LIMIT)
    except BaseException as problem:
        kill_group(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # on a dead disk nothing ends it
            process.wait(END_LIMIT)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
        what = f"rsync has not listed {workdir} in {LIST_LIMIT:g} s: many files, or a slow disk"
        raise UsageError(what, f"ls -lR {quote(workdir)}") from None
    if process.returncode:
        raise UsageError(f"rsync cannot list {workdir}: {os.fsdecode(errors).strip()}", f"ls -lR {quote(workdir)}")
    return os.fsdecode(output)


def _check_filters(workdir: str) -> None:
    """Raise UsageError for a .gitignore that is no file, such as a pipe: rsync would wait for it."""
    for folder, directories, names in os.walk(workdir):
        directories[:] = [name for name in directories if name not in (".git", ".ddpkit")]
        path = Path(folder, ".gitignore")
        if path.name in names and path.exists() and not path.is_file():
            what = f"{path} is not a regular file, and rsync would wait for it"
            raise UsageError(what, f"ls -lL {quote(str(path))}")


@contextmanager
def own_temporary_file(*, small: bool = False) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the path of a file that another program can read, and the file. Under Linux it goes with this process.

    `small`: there it is on no disk, which may be full.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("ddpkit-copy"), "w+b") if small else tempfile.TemporaryFile() as file:
            yield f"/proc/{os.getpid()}/fd/{file.fileno()}", file
    else:
        above = temporary_directory(tempfile.gettempdir())
        check_above(above)
        path = f"{above}/ddpkit-copy-{os.urandom(8).hex()}"
        with own_file(path) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
            yield path, file


class Folder(NamedTuple):
    """A directory of a node. Others may be able to give its name to another one: its number tells them apart."""

    path: str
    inode: str


# rsync gets its own words after these. It then writes in the directory in which it stands, whatever has the name.
_ENTER = (
    'cd "$1" && [ "$(ls -di .)" = "$2" ] || { echo "another directory took the place of $1" >&2; exit 1; }; '
    'shift 2; exec rsync "$@"'
)


@dataclass(frozen=True, kw_only=True)
class Way:
    """The way to the nodes of a copy."""

    connector: Connector
    python: str  # of nodes that have none of their own
    silence: float = NodeOptions.heartbeat_timeout  # seconds after which a node counts as lost; 0: never
    accepts_new: bool = False  # keys of hosts that are not known yet are added

    def command(
        self,
        spec: HostSpec,
        source: str,
        target: str,
        words: Sequence[str],
        *,
        login: Sequence[str],
        folder: Folder | None = None,
    ) -> tuple[str, ...]:
        """Return the command line that sends a file or a directory to a node, as its user there, who owns it then.

        `words`: more options of rsync. `login`: options of ssh (`Connector.login`). `folder`: the directory there in
        which `target` is. No name of a host, a user or a file is an option.
        """
        if folder is not None:
            program = join(["sh", "-c", _ENTER, "sh", folder.path, f"{folder.inode} ."])
            words = [*words, f"--rsync-path={program}"]
        # rsync itself waits for a dead node as long as TCP does. A disk that stands still for a moment is no dead node.
        limit = [f"--timeout={max(1, round(STILL * self.silence))}"] if self.silence else []
        ssh = ["ssh", *login, *ALONE, f"-oConnectTimeout={max(1, round(self.connector.timeout))}"]
        ssh += ["-oStrictHostKeyChecking=accept-new"] if self.accepts_new else []
        name = f"[{spec.name}]" if ":" in spec.name else spec.name
        options = ("--times", "--protect-args", "--info=progress2,stats1", *limit, *words)
        return ("rsync", *options, f"--rsh={join([*ssh, *user_and_port(spec)])}", "--", source, f"{name}:{target}")


def check_rsync() -> None:
    """Refuse a machine without rsync 3.1 or later, such as macOS with its own rsync. Raises UsageError."""
    if shutil.which("rsync") is None:
        raise UsageError("rsync not found on this machine", install("rsync"))
    shown = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^rsync +version v?(\d+)\.(\d+)", shown, re.MULTILINE)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        first = (shown.strip().splitlines() or ["nothing"])[0]
        what = f"copies require rsync {_OLDEST[0]}.{_OLDEST[1]} or later; this machine has: {first}"
        raise UsageError(what, install("rsync"))


def _run_rsync(
    spec: HostSpec, argv: tuple[str, ...], progress: Callable[[str, int], None], check_alive: Callable[[], None]
) -> tuple[Problem | None, int]:
    """Run a command of rsync. Returns its problem, or None and the bytes that it sent.

    `check_alive` is called while rsync prints nothing. What it raises ends rsync.
    """
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link = LocalLink()  # under a supervisor, so that it ends with us
    link.start(program_request("rsync", list(argv), {}), events.put)
    code, errors, last = 0, [], ""
    try:
        while (event := _next_event(events, check_alive)) is not None:
            if event["e"] == "out" and event["fd"] == 1:
                last = (last + event["data"])[-500:]
                percents = _PERCENT.findall(event["data"])
                if percents:
                    progress(spec.label, int(percents[-1]))
            elif event["e"] == "out":
                errors.append(event["data"])
            elif event["e"] == "failed":
                code = event["code"] if event["code"] is not None else 128 + (event["signal"] or 0)
    finally:
        link.close()
    if code == 0:
        progress(spec.label, 100)
        sent = _SENT.search(last)
        return None, int(re.sub(r"\D", "", sent[1])) if sent else 0
    return _problem(spec, code, " ".join("".join(errors).split())), 0


def _next_event(events: queue.SimpleQueue[Event | None], check_alive: Callable[[], None]) -> Event | None:
    """Wait for an event; None: rsync has ended."""
    while True:
        try:
            return events.get(timeout=QUIET)
        except queue.Empty:
            check_alive()


def _problem(spec: HostSpec, code: int, words: str) -> Problem:
    """Explain an rsync that failed."""
    if code == _NO_RSYNC or "rsync: command not found" in words or "rsync: not found" in words:
        fix = f"ssh {spec.target} apt-get install rsync"
        return Problem(host=spec.label, what="rsync not found on the node", fix=fix)
    stopped = _TIMED_OUT.search(words)
    if stopped is not None:
        what = f"it stopped answering: rsync waited for {stopped[1]} s"
        return Problem(host=spec.label, what=what, fix=f"ssh {spec.target} uptime", unreachable=True)
    # When ssh ends before a word has come, rsync gives either its exit code or its own 12, whichever it sees first.
    no_way_in = code == _NO_SSH or "(0 bytes received so far)" in words
    fix = f"ssh {spec.target} true" if no_way_in else f"ssh {spec.target} df -h"
    return Problem(host=spec.label, what=f"rsync ended with code {code}: {words}", fix=fix, unreachable=True)


class NodeCalls:
    """Connections to nodes, each with a supervisor that answers calls until `hang_up`."""

    def __init__(self, specs: Sequence[HostSpec], way: Way) -> None:
        self.pool = NodePool(specs, way.connector, way.silence, way.python)
        self._way = way
        self._logins: dict[str, Sequence[str]] = {}  # by label
        self._turn = threading.Semaphore(8)  # more copies at once would share one network card and one disk

    def connect(self) -> list[Problem]:
        return self.pool.connect()

    def hang_up(self) -> None:
        self.pool.hang_up()

    def call(self, spec: HostSpec, function: str, args: Mapping[str, object]) -> Any:
        """Call PROGRAM.NAME on a node, which sends heartbeats meanwhile. Raises NoAnswerError."""
        channel = self.pool.channel(spec.label)
        channel.ask(function, args, beats=True)
        return channel.answer(time.monotonic() + PATIENCE)

    def log_in(self, spec: HostSpec) -> None:
        """Log in for `send`. Raises RefusedError."""
        self._logins[spec.label] = self._way.connector.login(spec)

    def send(
        self,
        spec: HostSpec,
        source: str,
        target: str,
        words: Sequence[str],
        progress: Callable[[str, int], None],
        *,
        alive: str,
        names: str = "",
        folder: Folder | None = None,
    ) -> tuple[Problem | None, int]:
        """Send with rsync. Returns the problem, and the bytes that were sent. Raises NoAnswerError, RefusedError.

        `alive`: the function of the node that only answers. `names`: the file at the input of rsync.
        """
        if spec.label not in self._logins:
            self.log_in(spec)
        argv = self._way.command(spec, source, target, words, login=self._logins[spec.label], folder=folder)
        if names:
            argv = ("sh", "-c", 'names=$1; shift; exec "$@" < "$names"', "sh", names, *argv)

        def check_alive() -> None:  # of a lost node rsync would wait for an answer much longer
            if self.pool.channel(spec.label).silence:
                self.call(spec, alive, {})

        return _run_rsync(spec, argv, progress, check_alive)

    def each(
        self, specs: Sequence[HostSpec], action: Callable[[HostSpec], Problem | None], *, copies: bool = False
    ) -> list[Problem]:
        """Do something with all these nodes at the same time; copies: with some at a time. Returns all problems."""
        problems: dict[int, Problem] = {}

        def one(index: int) -> None:
            spec = specs[index]
            try:
                with self._turn if copies else nullcontext():
                    problem = action(spec)
            except RefusedError as refused:
                problem = Problem(host=spec.label, what=refused.what, fix=refused.fix, unreachable=True)
            except Exception as error:  # a thread that dies in silence would count as a success
                what = str(error) if isinstance(error, NoAnswerError) else f"{type(error).__name__}: {error}"
                problem = Problem(host=spec.label, what=what, fix=f"ssh {spec.target} uptime", unreachable=True)
            if problem is not None:
                problems[index] = problem

        threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(len(specs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [problem for _, problem in sorted(problems.items())]
