"""Flags of torchrun on a command line of ddpkit: mapped, not needed, or refused, each with one line."""

from __future__ import annotations

from ddpkit.cli.request import Request
from ddpkit.errors import UsageError

# Flags that change nothing in a run of ddpkit, each with the reason.
_NOT_NEEDED = {
    "--rdzv-backend": "the ranks find each other: ddpkit chooses address and port",
    "--rdzv-endpoint": "the ranks find each other: ddpkit chooses address and port",
    "--rdzv-id": "every run has an id of its own",
    "--rdzv-conf": "the ranks find each other: ddpkit chooses address and port",
    "--monitor-interval": "the end of a rank is seen at once",
    "--start-method": "every rank is a program of its own",
    "--role": "the verdict names host and rank",
    "--local-addr": "the nodes are asked for the addresses by which they reach each other",
    "--redirects": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--tee": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--local-ranks-filter": "every rank is shown; `ddpkit logs RUN --rank N` shows one alone",
    "--duplicate-stdout-filters": "every line is shown; `ddpkit logs` chooses among them",
    "--duplicate-stderr-filters": "every line is shown; `ddpkit logs` chooses among them",
    "--logs-specs": "what a rank prints is shown, and kept in logs/RUN/rank_N.log",
    "--event-log-handler": "logs/RUN/run.json is the record of a run",
    "--signals-to-handle": "TERM, HUP and Ctrl-C end the ranks, USR1 and USR2 reach them",
}
_NOT_NEEDED_FLAGS = {
    "--use-env": "LOCAL_RANK is in the environment of every rank",
    "--run-path": "the script is run as it is",
}
# Flags that ddpkit cannot follow, each with the reason and a hint.
_REFUSED = {
    "--numa-binding": ("ddpkit binds no rank to CPUs", "-b slurm -o srun=--cpu-bind=cores"),
    "--shutdown-timeout": ("the time between SIGTERM and SIGKILL is --grace", "--grace SECONDS"),
}
_REFUSED_FLAGS = {
    "--virtual-local-rank": (
        "every rank keeps its own LOCAL_RANK",
        "a wrapper that sets CUDA_VISIBLE_DEVICES to LOCAL_RANK and LOCAL_RANK to 0",
    ),
}
SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
VALUES = {"--max-restarts", "--master-port", "--master-addr", "--node-rank", *_NOT_NEEDED, *_REFUSED}
FLAGS = {"--module", "--no-python", "--standalone", *_NOT_NEEDED_FLAGS, *_REFUSED_FLAGS}


def apply(request: Request, flag: str, value: str) -> None:
    """Do what a flag of torchrun asks for, or print why it is not needed. Raises UsageError."""
    shown = f"{flag} {value}".rstrip()
    if flag in ("--module", "--no-python"):
        return
    if flag in _NOT_NEEDED or flag in _NOT_NEEDED_FLAGS:
        request.note(shown, f"not needed; {_NOT_NEEDED.get(flag) or _NOT_NEEDED_FLAGS[flag]}")
    elif flag in _REFUSED or flag in _REFUSED_FLAGS:
        what, hint = _REFUSED.get(flag) or _REFUSED_FLAGS[flag]
        raise UsageError(f"{shown}: {what}", hint)
    elif flag == "--node-rank":
        _node_rank(request, shown, value)
    elif flag == "--standalone":
        _standalone(request)
    elif flag == "--max-restarts":
        _restarts(request, shown, value)
    else:
        _address(request, flag, shown, value)


def _node_rank(request: Request, shown: str, value: str) -> None:
    nodes = request.given.get("-N") or request.given.get("--nnodes") or "1"
    if value != "0" or nodes not in ("1", "1:1"):
        raise UsageError(
            f"{shown}: ddpkit is typed once, and starts all nodes itself",
            f"ddpkit {request.command} -b ssh node1 node2 ..., or -b slurm -N 2: see `ddpkit backends`",
        )
    request.note(shown, "not needed; ddpkit starts all nodes itself")


def _standalone(request: Request) -> None:
    if not request.transport.local:
        raise UsageError(
            f"--standalone means this machine alone, and backend {request.backend.name} goes to others",
            "leave out --standalone, or -b local",
        )
    request.note("--standalone", "not needed; backend local is this machine alone, at a free port")


def _restarts(request: Request, shown: str, value: str) -> None:
    if value == "0":
        return
    if not request.scripted:
        request.note(shown, f"not needed; `ddpkit {request.command}` starts nothing again")
        return
    if "max_restarts" not in request.options:
        raise UsageError(
            f"{shown}: backend {request.backend.name} starts no rank again by itself",
            "-o chain=3 starts the job again when its ranks exit with 75; -b ssh and local have max_restarts",
        )
    options = {"max_restarts": value}
    if request.options["starter"].default == "ranks" and not request.is_chosen("starter"):
        options = {"starter": "torchrun", **options}
    for key, text in options.items():
        request.add_option(key, text)
    request.note(shown, " ".join(f"-o {key}={text}" for key, text in options.items()))


def _address(request: Request, flag: str, shown: str, value: str) -> None:
    """--master-port, --master-addr."""
    key = flag.removeprefix("--").replace("-", "_")
    if key in request.options:
        request.add_option(key, value)
        return
    chosen = "a port that is free there" if key == "master_port" else "the address"
    where = "this machine" if request.transport.local else "the job's first node"
    request.note(shown, f"not needed; the ranks meet on {where}, and ddpkit finds {chosen}")
