"""Copies the working folder to the nodes with rsync, before anything is asked or started there.

What `.gitignore` leaves out is left out, and so are `.git` and the logs. Nothing is deleted on a node.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ddpkit.errors import UsageError, install
from ddpkit.launchers.events import Event
from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.shell import join, quote
from ddpkit.transports.channel import NoAnswerError, RefusedError
from ddpkit.transports.connect import Connector
from ddpkit.transports.hosts import ALONE, HostSpec
from ddpkit.transports.problem import Problem, refusal
from ddpkit.transports.protocol import LocalLink, program_request

AT_ONCE = 8  # more would share one network card and one disk
STILL = 2.0  # times the heartbeat timeout without data, after which a node counts as lost
QUIET = 3.0  # seconds without output of rsync, after which its node is checked
_OLDEST = (3, 1)  # with --info=progress2
_PERCENT = re.compile(r"\s(\d{1,3})%")
_SENT = re.compile(r"^sent ([\d.,]+) bytes", re.MULTILINE)  # with --info=stats1
_TIMED_OUT = re.compile(r"io timeout after (\d+) seconds")  # with --timeout
# rsync's exit codes that say what is missing on the other side.
_NO_RSYNC, _NO_SSH = 127, 255
_RSH = "--rsh=ssh "


def bring(
    specs: Sequence[HostSpec],
    source: str,
    log_dir: str,
    progress: Callable[[str, int], None] | None,
    way: Connector,
    *,
    accept_new: bool = False,
    silence: float = NodeOptions.heartbeat_timeout,
) -> tuple[tuple[str, ...], ...]:
    """Copy a directory to all hosts. Without `progress` copy nothing. Returns the commands. Raises the refusal.

    `silence`: seconds after which a node counts as lost; 0: never.
    """
    copies = tuple(commands(specs, source, log_dir, way.timeout, accept_new=accept_new, silence=silence))
    problems = copy(specs, copies, progress, way) if progress is not None else []
    if problems:
        raise refusal(problems, len(specs))
    return copies


def commands(
    specs: Sequence[HostSpec], workdir: str, log_dir: str, timeout: float, *, accept_new: bool, silence: float
) -> list[tuple[str, ...]]:
    """Return the command line of rsync for each node."""
    # rsync itself waits for a dead node as long as TCP does. A disk that stands still for a moment is not a dead node.
    limit = [f"--timeout={max(1, round(STILL * silence))}"] if silence else []
    source, chosen = Path(workdir), selection(workdir, log_dir)
    argvs = []
    for spec in specs:
        # rsync takes a path without a slash in front as one below the home folder.
        target = (spec.workdir or workdir).removeprefix("~/").rstrip("/")
        words = [*chosen, *limit, f"--rsync-path=mkdir -p {quote(target)} && rsync"]
        argvs.append(command(spec, f"{source}/", f"{target}/", words, timeout, accept_new=accept_new))
    return argvs


def selection(workdir: str, log_dir: str) -> list[str]:
    """Return options that leave out what `.gitignore` names, `.git` and the logs. Raises UsageError."""
    source, logs = Path(workdir), Path(log_dir).absolute()
    if not source.is_dir():
        raise UsageError(f"directory not found on this machine: {workdir}", "--workdir DIR")
    exclude = [f"--exclude=/{logs.relative_to(source)}/"] if logs.is_relative_to(source) and logs != source else []
    return ["--filter=:- .gitignore", "--exclude=/.git/", *exclude]


def list_files(workdir: str, chosen: Sequence[str]) -> list[str]:
    """List the directories, files and links that rsync copies with these options, by path in `workdir`.

    Raises UsageError.
    """
    _check_ours()
    argv = ["rsync", "--archive", "--dry-run", "--8-bit-output", "--out-format=%i %n", *chosen]
    done = subprocess.run([*argv, f"{workdir}/", f"{workdir}/.ddpkit-none/"], capture_output=True, check=False)
    if done.returncode:
        words = os.fsdecode(done.stderr).strip()
        raise UsageError(f"rsync cannot list {workdir}: {words}", f"ls -lR {quote(workdir)}")
    listed = re.findall(r"^[.<>ch][fdL]\S{9} (.*)$", os.fsdecode(done.stdout), re.MULTILINE)
    names = [re.sub(r"\\#([0-7]{3})", lambda code: chr(int(code[1], 8)), name).rstrip("/") for name in listed]
    return [name for name in names if name != "."]


def command(
    spec: HostSpec, source: str, target: str, words: Sequence[str], timeout: float, *, accept_new: bool
) -> tuple[str, ...]:
    """Return the command line that copies a directory to a node. `words`: more options of rsync."""
    ssh = [*ALONE, f"-oConnectTimeout={max(1, round(timeout))}"]
    ssh += ["-oStrictHostKeyChecking=accept-new"] if accept_new else []
    ssh += ["-p", str(spec.port)] if spec.port else []
    name = f"[{spec.name}]" if ":" in spec.name else spec.name
    where = f"{spec.user}@{name}" if spec.user else name
    options = ("--archive", "--protect-args", "--info=progress2", *words, f"{_RSH}{join(ssh)}")
    return ("rsync", *options, source, f"{where}:{target}")


def copy(
    specs: Sequence[HostSpec], argvs: Sequence[tuple[str, ...]], progress: Callable[[str, int], None], way: Connector
) -> list[Problem]:
    """Run the commands, some at a time, over the connections of `way`. `progress` gets a node's name and percentage.

    All logins come first: a question of a host and the progress would share the terminal.
    """
    _check_ours()
    more: dict[int, str] = {}
    results: dict[int, Problem | None] = {}
    turn = threading.Semaphore(AT_ONCE)

    def log_in(index: int) -> None:
        try:
            more[index] = join(way.login(specs[index]))
        except RefusedError as refused:
            results[index] = Problem(host=specs[index].label, what=refused.what, fix=refused.fix, unreachable=True)

    def one(index: int) -> None:
        with turn:
            results[index], _ = copy_one(specs[index], with_login(argvs[index], more[index]), progress)

    in_threads(log_in, len(specs))
    if not results:
        in_threads(one, len(specs))
    return [problem for _, problem in sorted(results.items()) if problem is not None]


def with_login(argv: Sequence[str], login: str) -> tuple[str, ...]:
    """Add the options of a login (`Connector.login`) to a command line of rsync."""
    return tuple(word.replace(_RSH, f"{_RSH}{login} ", 1) if login else word for word in argv)


def in_threads(action: Callable[[int], None], number: int) -> None:
    """Call with 0, 1, ... at the same time, and wait for all."""
    threads = [threading.Thread(target=action, args=(index,), daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _check_ours() -> None:
    """macOS brings an rsync of its own, which stands where version 2.6.9 stood. Raises UsageError."""
    if shutil.which("rsync") is None:
        raise UsageError("rsync not found on this machine", install("rsync"))
    shown = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^rsync +version v?(\d+)\.(\d+)", shown, re.MULTILINE)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        first = (shown.strip().splitlines() or ["nothing"])[0]
        what = f"--sync requires rsync {_OLDEST[0]}.{_OLDEST[1]} or later; this machine has: {first}"
        raise UsageError(what, install("rsync"))


def copy_one(
    spec: HostSpec,
    argv: tuple[str, ...],
    progress: Callable[[str, int], None],
    check_alive: Callable[[], None] = lambda: None,
) -> tuple[Problem | None, int]:
    """Run one command. Returns its problem, and the bytes that it sent if it prints them.

    `check_alive` is called while rsync prints nothing. What it raises ends rsync.
    """
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link = LocalLink()  # under a supervisor, so that it ends with us
    link.start(program_request("rsync", list(argv), {}), events.put)
    code, errors, last = 0, [], ""
    while True:
        try:
            event = events.get(timeout=QUIET)
        except queue.Empty:
            try:
                check_alive()
            except NoAnswerError:
                link.close()
                raise
            continue
        if event is None:
            break
        if event["e"] == "out" and event["fd"] == 1:
            last = (last + event["data"])[-500:]
            percents = _PERCENT.findall(event["data"])
            if percents:
                progress(spec.label, int(percents[-1]))
        elif event["e"] == "out":
            errors.append(event["data"])
        elif event["e"] == "failed":
            code = event["code"] if event["code"] is not None else 128 + (event["signal"] or 0)
    link.close()
    if code == 0:
        progress(spec.label, 100)
        sent = _SENT.search(last)
        return None, int(re.sub(r"\D", "", sent[1])) if sent else 0
    words = " ".join("".join(errors).split())
    if code == _NO_RSYNC or "rsync: command not found" in words or "rsync: not found" in words:
        fix = f"ssh {spec.target} apt-get install rsync"
        return Problem(host=spec.label, what="rsync not found on the node", fix=fix), 0
    stopped = _TIMED_OUT.search(words)
    if stopped is not None:
        what = f"it stopped answering: rsync waited for {stopped[1]} s"
        return Problem(host=spec.label, what=what, fix=f"ssh {spec.target} uptime", unreachable=True), 0
    # When ssh ends before a word has come, rsync gives either its exit code or its own 12, whichever it sees first.
    no_way_in = code == _NO_SSH or "(0 bytes received so far)" in words
    fix = f"ssh {spec.target} true" if no_way_in else f"ssh {spec.target} df -h"
    return Problem(host=spec.label, what=f"rsync ended with code {code}: {words}", fix=fix, unreachable=True), 0
