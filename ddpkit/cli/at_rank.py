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
from ddpkit.cli.runs import RoleName, RunName
from ddpkit.errors import UsageError
from ddpkit.launchers.shell import NOT_FROM_HERE

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from socket import socket

    from ddpkit.monitor.rank_command import RankPlace

RankNumber = Annotated[str, option("--rank", "The rank. [default: 0]", "N")]
DryRun = Annotated[bool, option("--dry-run", "Print the command, and do not run it.")]

PDB = f"{NOT_FROM_HERE}\n"
PDB += """\
import sys
if sys.version_info < (3, 14):
    hint = sys.executable + " -m pip install debugpy, then add --port 5678; for the stacks alone: ddpkit dump"
    sys.exit("ddpkit: pdb attaches to Python 3.14 and later, this is %s\\nhint: %s" % (sys.version.split()[0], hint))
import pdb
sys.argv[1:] = ["-p", sys.argv[1]]
pdb.main()
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

    place, words = _place(run, rank, role, "shell", dry=dry_run), context.obj.script or ()
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
    from ddpkit.monitor.rank_command import debugpy_words, listen, run_on_terminal
    from ddpkit.run.launcher_process import process_start

    number = None if port is None else _port(port)
    place = _place(run, rank, role, "debug", dry=dry_run)
    words = ["{python}", "-c", PDB, "{pid}"] if number is None else debugpy_words(number)
    if dry_run:
        print(place.shown(words, terminal=sys.stdin.isatty()))
        return
    own = {"pid": os.getpid(), "start": process_start(os.getpid())}
    with request_file(place.run, DEBUG_REQUESTS, own, required=False):
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
    place = _place(run, rank, role, "forward", dry=dry_run)
    if dry_run:
        print(place.shown(relay_words(number), terminal=False))
    else:
        _forward(place, number, listen(here, f"ddpkit forward {number} --local-port {here + 1}"))


def _place(run: str | None, rank: str, role: str | None, command: str, *, dry: bool) -> RankPlace:
    from ddpkit.monitor.rank_command import find_rank

    if not rank.isdecimal() or len(rank) > 9:
        raise UsageError(f"--rank {rank}: not a number", f"ddpkit {command} --rank 0")
    chosen = runs.runs_to_ask(runs.choose(run, f"ddpkit {command} {{}}"), role, command)
    if len(chosen) > 1:
        name = chosen[0][0]
        raise UsageError(f"{len(chosen)} replicas of run {chosen[0][1].run_id} run", f"add --role {name}")
    return find_rank(chosen[0][1], int(rank), dry=dry)


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
