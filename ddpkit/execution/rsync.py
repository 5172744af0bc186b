"""Copies the working folder to the nodes with rsync, before anything is asked or started there.

What `.gitignore` leaves out is left out, and so are `.git` and the logs. Nothing is deleted on a node.
"""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ddpkit.errors import UsageError, install
from ddpkit.launchers.events import Event
from ddpkit.launchers.shell import join, quote
from ddpkit.transports.channel import RefusedError
from ddpkit.transports.connect import Connector
from ddpkit.transports.hosts import ALONE, HostSpec
from ddpkit.transports.problem import Problem, refusal
from ddpkit.transports.protocol import LocalLink, program_request

AT_ONCE = 8  # more would share one network card and one disk
_OLDEST = (3, 1)  # with --info=progress2
_PERCENT = re.compile(r"\s(\d{1,3})%")
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
) -> tuple[tuple[str, ...], ...]:
    """Copy a directory to all hosts. Without `progress` copy nothing. Returns the commands. Raises the refusal."""
    copies = tuple(commands(specs, source, log_dir, way.timeout, accept_new=accept_new))
    problems = copy(specs, copies, progress, way) if progress is not None else []
    if problems:
        raise refusal(problems, len(specs))
    return copies


def commands(
    specs: Sequence[HostSpec], workdir: str, log_dir: str, timeout: float, *, accept_new: bool
) -> list[tuple[str, ...]]:
    """Return the command line of rsync for each node."""
    source = Path(workdir)
    if not source.is_dir():
        raise UsageError(f"--sync: directory not found on this machine: {workdir}", "--workdir DIR")
    logs = Path(log_dir).absolute()
    exclude = [f"--exclude=/{logs.relative_to(source)}/"] if logs.is_relative_to(source) and logs != source else []
    argvs = []
    for spec in specs:
        ssh = [*ALONE, f"-oConnectTimeout={max(1, round(timeout))}"]
        ssh += ["-oStrictHostKeyChecking=accept-new"] if accept_new else []
        ssh += ["-p", str(spec.port)] if spec.port else []
        # rsync takes a path without a slash in front as one below the home folder.
        target = (spec.workdir or workdir).removeprefix("~/").rstrip("/")
        name = f"[{spec.name}]" if ":" in spec.name else spec.name
        where = f"{spec.user}@{name}" if spec.user else name
        argvs.append(
            (
                "rsync",
                "--archive",
                "--protect-args",
                "--info=progress2",
                "--filter=:- .gitignore",
                "--exclude=/.git/",
                *exclude,
                f"--rsync-path=mkdir -p {quote(target)} && rsync",
                f"{_RSH}{join(ssh)}",
                f"{source}/",
                f"{where}:{target}/",
            )
        )
    return argvs


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
        rsh = f"{_RSH}{more[index]} " if more[index] else _RSH
        with turn:
            results[index] = _copy(specs[index], tuple(word.replace(_RSH, rsh, 1) for word in argvs[index]), progress)

    _in_threads(log_in, len(specs))
    if not results:
        _in_threads(one, len(specs))
    return [problem for _, problem in sorted(results.items()) if problem is not None]


def _in_threads(action: Callable[[int], None], number: int) -> None:
    """Call with 0, 1, ... at the same time, and wait for all."""
    threads = [threading.Thread(target=action, args=(index,), daemon=True) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _check_ours() -> None:
    """macOS brings an rsync of its own, which stands where version 2.6.9 stood. Raises UsageError."""
    if shutil.which("rsync") is None:
        raise UsageError("--sync: rsync not found on this machine", install("rsync"))
    shown = subprocess.run(["rsync", "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^rsync +version v?(\d+)\.(\d+)", shown, re.MULTILINE)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        first = (shown.strip().splitlines() or ["nothing"])[0]
        what = f"--sync requires rsync {_OLDEST[0]}.{_OLDEST[1]} or later; this machine has: {first}"
        raise UsageError(what, install("rsync"))


def _copy(spec: HostSpec, argv: tuple[str, ...], progress: Callable[[str, int], None]) -> Problem | None:
    events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
    link = LocalLink()  # under a supervisor, so that it ends with us
    link.start(program_request("rsync", list(argv), {}), events.put)
    code, errors = 0, []
    while (event := events.get()) is not None:
        if event["e"] == "out" and event["fd"] == 1:
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
        return None
    words = " ".join("".join(errors).split())
    if code == _NO_RSYNC or "rsync: command not found" in words or "rsync: not found" in words:
        return Problem(
            host=spec.label, what="rsync not found on the node", fix=f"ssh {spec.target} apt-get install rsync"
        )
    # When ssh ends before a word has come, rsync gives either its exit code or its own 12, whichever it sees first.
    no_way_in = code == _NO_SSH or "(0 bytes received so far)" in words
    fix = f"ssh {spec.target} true" if no_way_in else f"ssh {spec.target} df -h"
    return Problem(host=spec.label, what=f"rsync ended with code {code}: {words}", fix=fix, unreachable=True)
