"""Flags of torchrun on a command line of ddpkit: mapped, not needed, or refused, each with one line."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from ddpkit.cli.request import Request
from ddpkit.errors import UsageError

# Flags that change nothing in a run of ddpkit, each with the reason.
_NOT_NEEDED = {
    "--rdzv-backend": "ddpkit chooses address and port of the rendezvous",
    "--rdzv-endpoint": "ddpkit chooses address and port of the rendezvous",
    "--rdzv-id": "every run has its own id",
    "--rdzv-conf": "the rendezvous of ddpkit has its own timeouts",
    "--monitor-interval": "ddpkit detects the end of a rank immediately",
    "--start-method": "every rank is a separate process",
    "--role": "the verdict reports host and rank",
    "--local-addr": "ddpkit chooses addresses at which the nodes reach each other",
    "--redirects": "the output of each rank is shown, and saved in logs/RUN/rank_N.log",
    "--tee": "the output of each rank is shown, and saved in logs/RUN/rank_N.log",
    "--local-ranks-filter": "every rank is shown; for one rank: `ddpkit logs RUN --rank N`",
    "--duplicate-stdout-filters": "every line is shown; to filter them: `ddpkit logs`",
    "--duplicate-stderr-filters": "every line is shown; to filter them: `ddpkit logs`",
    "--logs-specs": "the output of each rank is shown, and saved in logs/RUN/rank_N.log",
    "--event-log-handler": "logs/RUN/run.json is the record of a run",
    "--signals-to-handle": "SIGTERM, SIGHUP and Ctrl-C end the ranks; SIGUSR1 and SIGUSR2 reach them",
}
_NOT_NEEDED_FLAGS = {
    "--use-env": "LOCAL_RANK is in the environment of every rank",
    "--run-path": "the script runs unchanged",
}
# Flags that ddpkit cannot follow, each with the reason and a hint.
_REFUSED = {
    "--shutdown-timeout": ("the time between SIGTERM and SIGKILL is --grace", "--grace SECONDS"),
}
_REFUSED_FLAGS = {
    "--virtual-local-rank": (
        "every rank keeps its own LOCAL_RANK",
        "a wrapper that sets CUDA_VISIBLE_DEVICES to LOCAL_RANK and LOCAL_RANK to 0",
    ),
}
SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
VALUES = {"--max-restarts", "--numa-binding", "--master-port", "--master-addr", "--node-rank", *_NOT_NEEDED, *_REFUSED}
FLAGS = {"--module", "--no-python", "--standalone", *_NOT_NEEDED_FLAGS, *_REFUSED_FLAGS}


def apply(request: Request, flags: Mapping[str, str]) -> None:
    """Do what flags of torchrun ask for, or print why they are not needed. Raises UsageError."""
    nodes = request.given.get("-N") or request.given.get("--nnodes") or "1"
    host = _other_host(flags)
    if "--node-rank" in flags and (flags["--node-rank"] != "0" or nodes not in ("1", "1:1")):
        what = f"--node-rank {flags['--node-rank']}: run ddpkit once; it starts all nodes"
        raise UsageError(what, _on_all_nodes(request, nodes, host))
    if nodes not in ("1", "1:1") and host and not request.typed_backend and request.transport.local:
        able = "ssh does" if ":" in nodes else "ssh and slurm do"
        what = f"backend local runs on this machine only, and does not support -N {nodes}; {able}"
        raise UsageError(what, _on_all_nodes(request, nodes, host))
    for flag, value in flags.items():
        _apply(request, flag, value)


def _other_host(flags: Mapping[str, str]) -> str:
    """The host of --rdzv-endpoint or --master-addr; empty: none, or this machine."""
    address = flags.get("--master-addr") or flags.get("--rdzv-endpoint", "").rpartition(":")[0]
    address = address or flags.get("--rdzv-endpoint", "")
    return "" if address in ("localhost", "127.0.0.1", "0.0.0.0", "::1", "[::1]") else address


def _on_all_nodes(request: Request, nodes: str, host: str) -> str:
    """The command line that starts all nodes. torchrun's address is that of the first one."""
    from ddpkit.cli.hints import command_line

    words = list(request.words)
    if not request.typed_backend:
        most = nodes.rpartition(":")[2]
        number = min(max(int(most), 2), 8) if most.isdecimal() else 2
        slurm = "SLURM_JOB_ID" in os.environ or (not host and ":" not in nodes and shutil.which("sbatch"))
        words += ["-b", "slurm"] if slurm else ["-b", "ssh", host or "HOST", *["HOST"] * (number - 1)]
    return command_line([*words, *(["--", *request.script] if request.script else [])])


def _apply(request: Request, flag: str, value: str) -> None:
    shown = f"{flag} {value}".rstrip()
    if flag in ("--module", "--no-python"):
        return
    if flag in _NOT_NEEDED or flag in _NOT_NEEDED_FLAGS:
        request.note(shown, f"not needed; {_NOT_NEEDED.get(flag) or _NOT_NEEDED_FLAGS[flag]}")
    elif flag in _REFUSED or flag in _REFUSED_FLAGS:
        what, hint = _REFUSED.get(flag) or _REFUSED_FLAGS[flag]
        raise UsageError(f"{shown}: {what}", hint)
    elif flag == "--node-rank":
        request.note(shown, "not needed; ddpkit starts all nodes")
    elif flag == "--standalone":
        _standalone(request)
    elif flag == "--max-restarts":
        _restarts(request, shown, value)
    elif flag == "--numa-binding":
        _numa(request, shown, value)
    else:
        _address(request, flag, shown, value)


def _standalone(request: Request) -> None:
    if not request.transport.local:
        raise UsageError(
            f"--standalone means this machine only, and backend {request.backend.name} uses other nodes",
            "remove --standalone, or use -b local",
        )
    request.note("--standalone", "not needed; backend local uses this machine only, with a free port")


def _restarts(request: Request, shown: str, value: str) -> None:
    if value == "0":
        return
    if not request.scripted:
        request.note(shown, f"not needed; `ddpkit {request.command}` restarts no ranks")
        return
    if "max_restarts" not in request.options:
        raise UsageError(
            f"{shown}: backend {request.backend.name} does not restart ranks",
            f"--retries {value}",
        )
    options = {"max_restarts": value}
    if request.options["starter"].default == "ranks" and not request.option("starter"):
        options = {"starter": "torchrun", **options}
    for key, text in options.items():
        request.add_option(key, text)
    words = " ".join(f"-o {key}={text}" for key, text in options.items())
    request.note(shown, f"{words}; torchrun restarts after every failure, --retries where it can help")


def _numa(request: Request, shown: str, value: str) -> None:
    if not request.scripted:
        request.note(shown, f"not needed; `ddpkit {request.command}` binds ranks as a launch does")
        return
    if "numa" not in request.options:
        name = request.backend.name
        raise UsageError(f"{shown}: with backend {name} srun binds the ranks", "-o srun=--cpu-bind=cores")
    if value not in ("node", "socket"):
        raise UsageError(f"{shown}: ddpkit binds ranks to a NUMA node or a socket", "-o numa=node")
    request.add_option("numa", value)
    request.note(shown, f"-o numa={value}")


def _address(request: Request, flag: str, shown: str, value: str) -> None:
    """--master-port, --master-addr."""
    key = flag.removeprefix("--").replace("-", "_")
    if key in request.options:
        request.add_option(key, value)
        return
    chosen = "a free port of that host" if key == "master_port" else "the address"
    where = "this machine" if request.transport.local else "the job's first node"
    request.note(shown, f"not needed; the rendezvous is on {where}, and ddpkit chooses {chosen}")
