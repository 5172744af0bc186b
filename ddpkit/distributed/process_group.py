"""Let the ranks meet within a time that a person waits for, and say which rank could not reach whom if they do not.

torch's own wait is as long as a collective may take (10 or 30 minutes), and its message names neither the rank nor the
variable that the address came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddpkit.distributed.resolver import DistEnv
from ddpkit.errors import EnvError

if TYPE_CHECKING:
    import torch


def start_group(env: DistEnv, backend: str, own: torch.device, timeout: float | None, init_timeout: float) -> None:
    """Let the ranks meet at the master, then start the group on the store they met at."""
    import inspect
    from datetime import timedelta

    import torch

    dist: Any = torch.distributed  # typed loosely: its stubs leave out the stores
    options: dict[str, Any] = {}
    if timeout is not None:
        options["timeout"] = timedelta(seconds=timeout)
    if backend == "nccl" and "device_id" in inspect.signature(dist.init_process_group).parameters:
        options["device_id"] = own  # torch >= 2.3; nccl then connects here, and not in the middle of the first step
    if env.world_size == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **options)
        return
    store: Any = None
    # gloo connects the ranks pairwise while it starts, and waits for each other one as long as for a collective: half
    # an hour (torch 2.13) for a rank that died after the meeting, or whose host name means 127.0.1.1 to the others.
    set_group_timeout = getattr(dist.distributed_c10d, "_set_pg_timeout", None)
    patient = backend == "gloo" and set_group_timeout is not None
    starting = {**options, "timeout": timedelta(seconds=init_timeout)} if patient else options
    try:
        # torch's rendezvous, and not a store of our own: under torchrun the store is the agent's.
        meeting = dist.rendezvous(
            f"tcp://{_host_and_port(env)}", env.rank, env.world_size, timeout=timedelta(seconds=init_timeout)
        )
        store, _, _ = next(meeting)
        # The group's own start waits for the other ranks through this store: for a person's patience too.
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("default_pg", store),
            rank=env.rank,
            world_size=env.world_size,
            **starting,
        )
        # From here on both serve collectives, and may wait as long as those do.
        lasting = options.get("timeout", timedelta(minutes=30))  # torch's own default
        store.set_timeout(lasting)
        if set_group_timeout is not None and patient:
            set_group_timeout(lasting)
    except (RuntimeError, TimeoutError, OSError) as error:
        raise _start_error(env, backend, init_timeout, error, met=store is not None) from error


def _host_and_port(env: DistEnv) -> str:
    host = f"[{env.master_addr}]" if ":" in env.master_addr else env.master_addr
    return f"{host}:{env.master_port}"


def _start_error(env: DistEnv, backend: str, init_timeout: float, error: Exception, *, met: bool) -> EnvError:
    """Say which rank could not start, where it tried, and what to look at, from what can be seen on this machine."""
    import socket

    where = _host_and_port(env)
    who = f"rank {env.rank} of {env.world_size} on {socket.gethostname()} ({env.source})"
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if met:
        return EnvError(
            f"{who} met the others at {where}, but {backend} could not connect them: {said}",
            "where a node has several networks, name one: export GLOO_SOCKET_IFNAME=<interface> "
            "NCCL_SOCKET_IFNAME=<interface> (ip -brief addr); NCCL says more with NCCL_DEBUG=INFO",
        )
    if "EADDRINUSE" in said or "address already in use" in said.lower():
        return EnvError(
            f"{who} cannot listen on {where} (master_port from {env.origin.get('master_port')}): the port is in use, "
            "by another program or by another process that takes itself for rank 0",
            f"see who has it: ss -ltnp 'sport = :{env.master_port}', or take another: export MASTER_PORT=<free port>",
        )
    try:
        socket.getaddrinfo(env.master_addr, env.master_port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        return EnvError(
            f"{who} cannot reach the master {where} (from {env.origin.get('master_addr')}): "
            f"the name {env.master_addr} does not resolve on this machine: {unknown.strerror}",
            f"getent hosts {env.master_addr}; export MASTER_ADDR=<an address of rank 0's host that every node reaches>",
        )
    joined = _joined(str(error))
    if env.rank == 0 and joined:
        return EnvError(
            f"{who} listened on {where} for {init_timeout:g} s, but {joined}",
            "look at the first error of the ranks that are missing; check that every node reaches this port and that "
            f"{env.world_size} processes were started; a slow start needs export DDPKIT_INIT_TIMEOUT=300",
        )
    if env.rank == 0 and env.source != "torchrun":  # there the agent listens
        return EnvError(
            f"{who} listens, but cannot reach itself at {where} (from {env.origin.get('master_addr')}): "
            "that is most likely the address of another machine, or behind a firewall",
            "compare with: ip -brief addr; export MASTER_ADDR=<an address of this machine that every node reaches>",
        )
    return EnvError(
        f"{who} did not reach the master {where} (from {env.origin.get('master_addr')}) within {init_timeout:g} s",
        f"is rank 0 running there? From this machine: nc -vz {env.master_addr} {env.master_port}; "
        "a firewall or a wrong interface hides it; a slow start needs export DDPKIT_INIT_TIMEOUT=300",
    )


def _joined(text: str) -> str:
    """Read `1/4 clients joined` out of torch's message, in which rank 0 counts itself; '' where it is not there."""
    import re

    found = re.search(r"(\d+)/(\d+) clients joined", text)
    return f"only {found[1]} of {found[2]} ranks came" if found else ""
