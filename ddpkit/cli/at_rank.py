"""`ddpkit shell`, `debug` and `forward`: a shell, a debugger and a port where a rank of a running launch runs."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ddpkit.cli import runs
from ddpkit.cli.app import LeanCommand, app, note, option
from ddpkit.cli.live import asked
from ddpkit.cli.runs import RoleName, RunName
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from socket import socket

    from ddpkit.monitor.rank_command import RankPlace

RankNumber = Annotated[str, option("--rank", "The rank. [default: 0]", "N")]
DryRun = Annotated[bool, option("--dry-run", "Print the command, and do not run it.")]

PDB = """\
import sys
if sys.version_info < (3, 14):
    hint = "install debugpy for this Python, and add --port 5678"
    sys.exit("ddpkit: pdb attaches to Python 3.14 and later, this is %s\\nhint: %s" % (sys.version.split()[0], hint))
import pdb
sys.argv[1:] = ["-p", sys.argv[1]]
pdb.main()
"""
DEBUGPY = """\
import importlib.util, os, sys
if importlib.util.find_spec("debugpy") is None:
    sys.exit("ddpkit: debugpy not found\\nhint: %s -m pip install debugpy" % sys.executable)
words = ["-m", "debugpy", "--listen", "127.0.0.1:" + sys.argv[2], "--pid", sys.argv[1]]
os.execv(sys.executable, [sys.executable, *words])
"""


@app.command(cls=LeanCommand)
def shell(
    context: typer.Context,
    run: RunName = None,
    rank: RankNumber = "0",
    role: RoleName = None,
    dry_run: DryRun = False,
) -> None:
    """Open a shell where a rank runs, or run the command behind `--` there."""
    from ddpkit.monitor.rank_command import run_on_terminal

    place, words = _place(run, rank, role, "shell"), context.obj.script or ()
    if dry_run:
        print(place.shown(words, terminal=sys.stdin.isatty()))
        return
    sys.exit(run_on_terminal(place, words))


@app.command(cls=LeanCommand)
def debug(
    run: RunName = None,
    rank: RankNumber = "0",
    port: Annotated[str | None, option("--port", "Attach debugpy, and forward this port to it.", "PORT")] = None,
    role: RoleName = None,
    dry_run: DryRun = False,
) -> None:
    """Attach pdb to a rank (Python 3.14), or debugpy. The hang watch pauses meanwhile."""
    from ddpkit.monitor.client import DEBUG_REQUESTS, request_file
    from ddpkit.monitor.rank_command import listen, run_on_terminal

    number = None if port is None else _port(port)
    place = _place(run, rank, role, "debug")
    words = ["{python}", "-c", PDB, "{pid}"] if number is None else ["{python}", "-c", DEBUGPY, "{pid}", str(number)]
    if dry_run:
        print(place.shown(words, terminal=sys.stdin.isatty()))
        return
    with request_file(place.run, DEBUG_REQUESTS, {"pid": os.getpid()}, required=False):
        if number is None:
            sys.exit(run_on_terminal(place, words))
        # Before the debugger is there: it stays in the rank.
        hint = f"ddpkit debug --rank {rank} --port {number + 1}"
        listener = None if place.is_here else listen(number, hint)
        code = run_on_terminal(place, words)
        if code:
            sys.exit(code)
        if listener is not None:
            _forward(place, number, listener)
        note(f"debugpy listens at localhost:{number}; the hang watch pauses until Ctrl-C")
        with suppress(KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pause()


@app.command(cls=LeanCommand)
def forward(
    port: Annotated[str, typer.Argument(metavar="PORT", help="Port on the node of the rank, such as TensorBoard's.")],
    run: RunName = None,
    rank: RankNumber = "0",
    local: Annotated[str | None, option("--local-port", "The port here. [default: the same]", "PORT")] = None,
    role: RoleName = None,
    dry_run: DryRun = False,
) -> None:
    """Forward a port of this machine to one where a rank runs, until Ctrl-C."""
    from ddpkit.monitor.rank_command import listen, relay_words

    number, here = _port(port), _port(port if local is None else local)
    place = _place(run, rank, role, "forward")
    if dry_run:
        print(place.shown(relay_words(number), terminal=False))
    else:
        _forward(place, number, listen(here, f"ddpkit forward {number} --local-port {here + 1}"))


def _place(run: str | None, rank: str, role: str | None, command: str) -> RankPlace:
    from ddpkit.monitor.rank_command import find_rank

    if not rank.isdecimal() or len(rank) > 9:
        raise UsageError(f"--rank {rank}: not a number", f"ddpkit {command} --rank 0")
    chosen = asked(runs.choose(run, f"ddpkit {command} {{}}"), role, command)
    if len(chosen) > 1:
        name = chosen[0][0]
        raise UsageError(f"{len(chosen)} replicas of run {chosen[0][1].run_id} run", f"add --role {name}")
    return find_rank(chosen[0][1], int(rank))


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or not 0 < int(text) < 1 << 16:
        raise UsageError(f"{text} is not a port", "a port is a number from 1 to 65535")
    return int(text)


def _forward(place: RankPlace, port: int, listener: socket) -> NoReturn:
    from ddpkit.monitor.rank_command import forward_port

    def begun() -> None:
        local = listener.getsockname()[1]
        note(f"localhost:{local} is port {port} of rank {place.env['RANK']} on {place.host}; Ctrl-C ends it")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(forward_port(place, port, listener, begun))
    except KeyboardInterrupt:
        sys.exit(0)
