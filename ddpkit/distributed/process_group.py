"""Start of the process group within a short timeout, with an error that names the rank and the address's variable.

torch waits as long as for a collective (10 or 30 minutes), and its message names neither.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ddpkit.distributed.resolver import DistEnv
from ddpkit.errors import EnvError

if TYPE_CHECKING:
    from datetime import timedelta

    import torch


def start_group(env: DistEnv, backend: str, own: torch.device, timeout: float | None, init_timeout: float) -> None:
    """Connect all ranks at the master address, then start the group on that store. Raises EnvError."""
    from datetime import timedelta

    import torch

    dist: Any = torch.distributed  # torch's stubs leave out the stores
    options: dict[str, Any] = {}
    if timeout is not None:
        options["timeout"] = timedelta(seconds=timeout)
    if "nccl" in backend and own.type == "cuda" and takes_device(torch.__version__):  # also in cpu:gloo,cuda:nccl
        options["device_id"] = own  # nccl then connects now instead of in the first step
    if env.world_size == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, **options)
        return
    store: Any = None
    # gloo connects all pairs of ranks at its start, each with the timeout of a collective (half an hour in torch 2.13).
    # A rank may have died since, or its host name may resolve to 127.0.1.1.
    patient = "gloo" in backend and hasattr(dist.distributed_c10d, "_set_pg_timeout")
    starting = {**options, "timeout": timedelta(seconds=init_timeout)} if patient else options
    try:
        # torch's rendezvous: under torchrun the store is the agent's.
        rendezvous = dist.rendezvous(
            f"tcp://{_host_and_port(env)}", env.rank, env.world_size, timeout=timedelta(seconds=init_timeout)
        )
        store, _, _ = next(rendezvous)
        # The start of the group waits for the other ranks in this store, with the same timeout.
        with _reported_late(env, backend, own, init_timeout):
            _require_same_backend(store, env, backend, own)
            dist.init_process_group(
                backend,
                store=dist.PrefixStore("default_pg", store),
                rank=env.rank,
                world_size=env.world_size,
                **starting,
            )
        # Now both serve collectives and wait as long as these may.
        store.set_timeout(options.get("timeout", timedelta(minutes=30)))  # torch's own default
        if patient:
            _restore_timeouts(dist, options.get("timeout"))
    except (RuntimeError, TimeoutError, OSError) as error:
        raise _start_error(env, backend, init_timeout, error, connected=store is not None) from error


def _restore_timeouts(dist: Any, timeout: timedelta | None) -> None:
    """Let each backend of the group wait for `timeout`, or as long as torch lets it: NCCL 10 minutes, gloo 30."""
    group = dist.distributed_c10d._get_default_group()
    for backend in [group._get_backend(kind) for kind in group._device_types]:
        inner = getattr(backend, "wrapped_pg", backend)  # of TORCH_DISTRIBUTED_DEBUG=DETAIL
        if hasattr(inner, "_set_default_timeout"):
            inner._set_default_timeout(timeout or dist.distributed_c10d._get_default_timeout(inner.name()))


def _require_same_backend(store: Any, env: DistEnv, backend: str, own: torch.device) -> None:
    """Raise EnvError if rank 0 starts another backend: torch would wait for it, and then report the network."""
    import socket

    host = socket.gethostname()
    # Under torchrun a second group of the same processes has the same store.
    key = f"ddpkit/backend/{store.add(f'ddpkit/starts/{env.rank}', 1)}"
    if env.rank == 0:
        store.set(key, f"{backend} on {host} ({own.type})")
        return
    first = store.get(key).decode()
    if first.partition(" ")[0] != backend:
        raise EnvError(
            f"rank {env.rank} of {env.world_size} on {host} starts {backend} ({own}), and rank 0 starts {first}",
            "run on both hosts: python -c 'import torch; print(torch.version.cuda, torch.cuda.device_count())'",
        )


@contextmanager
def _reported_late(env: DistEnv, backend: str, own: torch.device, seconds: float) -> Iterator[None]:
    """Log a warning if the block takes longer than `seconds`: NCCL's start has no limit of its own, and no output."""
    import logging
    import os
    import socket
    import threading

    host, pid = socket.gethostname(), os.getpid()
    text = (
        f"rank {env.rank} of {env.world_size} on {host} ({own}) has been in the start of {backend} for {seconds:g} s. "
        "All ranks have joined. One died or hangs since then, or the network blocks them. "
        f"Its stack: ddpkit dump, or py-spy dump --pid {pid}"
    )
    timer = threading.Timer(seconds, logging.getLogger(__name__).warning, ("%s", text))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def takes_device(version: str) -> bool:
    """Return whether init_process_group may get a device_id with this torch: from 2.3 on, but not 2.6.0 to 2.7.0.

    There NCCL with a device_id is non-blocking, and hangs at random: https://github.com/pytorch/pytorch/pull/154055
    """
    import re

    number = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    return number >= (2, 3) and not (2, 6) <= number < (2, 7, 1)


def error_reason(error: BaseException) -> str:
    """Return the line of an error's message that names the cause: NCCL's after `Last error:`, else the first one."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()] or [type(error).__name__]
    after = lines[lines.index("Last error:") + 1 :] if "Last error:" in lines else []
    return f"{after[0]} ({lines[0]})" if after else lines[0]


def _host_and_port(env: DistEnv) -> str:
    host = f"[{env.master_addr}]" if ":" in env.master_addr else env.master_addr
    return f"{host}:{env.master_port}"


def _start_error(env: DistEnv, backend: str, init_timeout: float, error: Exception, *, connected: bool) -> EnvError:
    """Return an error with the rank, the address and the cause, as far as this machine shows it."""
    import socket

    endpoint = _host_and_port(env)
    rank = f"rank {env.rank} of {env.world_size} on {socket.gethostname()} ({env.source})"
    message = error_reason(error)
    if connected and "Last error:" in str(error):  # NCCL's own reason: no network to choose
        return EnvError(
            f"{rank} met the others at {endpoint}, but {backend} could not connect them: {message}",
            "ddpkit explain LOG, with this rank's log; for details: export NCCL_DEBUG=INFO",
        )
    if connected and "nccl" not in backend and "gloo" not in backend:  # no variable of theirs chooses a network
        return EnvError(
            f"{rank} reached the store at {endpoint}, but {backend} could not connect the ranks: {message}",
            f"python -c 'import torch; print(torch.__config__.show())', for a build with {backend}; or: init(\"gloo\")",
        )
    if connected:
        return EnvError(
            f"{rank} reached the store at {endpoint}, but {backend} could not connect the ranks: {message}",
            "on nodes with several networks, select one: export GLOO_SOCKET_IFNAME=<interface> "
            "NCCL_SOCKET_IFNAME=<interface> (ip -brief addr); for details: NCCL_DEBUG=INFO",
        )
    if "EADDRINUSE" in message or "address already in use" in message.lower():
        return EnvError(
            f"{rank} cannot listen on {endpoint} (master_port from {env.origin.get('master_port')}): the port is in "
            "use, by another program or by a second rank 0",
            f"ss -ltnp 'sport = :{env.master_port}' shows its process; or export MASTER_PORT=<free port>",
        )
    address = shlex.quote(env.master_addr)
    try:
        socket.getaddrinfo(env.master_addr, env.master_port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        return EnvError(
            f"{rank} cannot reach the master {endpoint} (from {env.origin.get('master_addr')}): "
            f"the name {env.master_addr} does not resolve on this machine: {unknown.strerror}",
            f"getent hosts {address}; export MASTER_ADDR=<an address of rank 0's host that every node reaches>",
        )
    count = _joined_ranks(str(error))
    if env.rank == 0 and count:
        return EnvError(
            f"{rank} listened on {endpoint} for {init_timeout:g} s, but {count}",
            "read the first error of the missing ranks. Check that every node reaches this port, and that "
            f"{env.world_size} processes were started. For a slow start: export DDPKIT_INIT_TIMEOUT=300",
        )
    if env.rank == 0 and env.source != "torchrun":  # there the agent listens
        return EnvError(
            f"{rank} listens, but cannot reach itself at {endpoint} (from {env.origin.get('master_addr')}): "
            "the address belongs to another machine, or a firewall blocks it",
            "compare with: ip -brief addr; export MASTER_ADDR=<an address of this machine that every node reaches>",
        )
    return EnvError(
        f"{rank} cannot reach the master {endpoint} (from {env.origin.get('master_addr')}) within {init_timeout:g} s",
        f"check that rank 0 runs on that host: nc -vz {address} {env.master_port}. Check the firewall and the "
        "interface. For a slow start: export DDPKIT_INIT_TIMEOUT=300",
    )


def _joined_ranks(text: str) -> str:
    """Return `1/4 clients joined` of torch's message in words, or ''. Rank 0 counts itself."""
    import re

    match = re.search(r"(\d+)/(\d+) clients joined", text)
    return f"only {match[1]} of {match[2]} ranks joined" if match else ""


LAST_THREADS = 2.0
"""Seconds for threads of torch, before the group or Python ends."""


def let_threads_finish(pid: int = 0) -> None:
    """Let torch's own threads drop the last tensors, for at most `LAST_THREADS` seconds.

    A thread of gloo releases a tensor just after the main thread continues, and needs the interpreter lock for it.

    * Once Python ends (before 3.14), that lock ends the thread inside a destructor of C++: "terminate called without an
      active exception", SIGABRT (https://github.com/pytorch/pytorch/pull/179291).
    * A DistributedDataParallel that outlives `destroy_process_group` ends the group's threads when it is freed. It
      waits for them, and keeps the lock (https://github.com/pytorch/pytorch/issues/56297): the rank hangs for ever.

    Nothing is destroyed here, and no other rank is waited for. Threads of Python itself are left alone: some never
    rest. `pid` is the process in which this may happen; a fork has none of these threads.
    """
    if pid and os.getpid() != pid:
        return
    try:
        python = {str(thread.native_id) for thread in threading.enumerate()}
        until, before = time.monotonic() + LAST_THREADS, None
        while time.monotonic() < until:
            now = {task: _thread_activity(task) for task in os.listdir("/proc/self/task") if task not in python}  # noqa: PTH208
            # The lock is free during the sleep: who waited for it has run since, or is running.
            if now == before and not any(text.startswith(("R", "D")) for text in now.values()):
                return
            before = now
            time.sleep(0.001)
    except OSError:
        return  # no Linux


def _thread_activity(task: str) -> str:
    """The state of one thread, and how often it ran; empty after its end."""
    try:
        with open(f"/proc/self/task/{task}/status") as file:
            text = file.read()
    except OSError:
        return ""
    return text[text.find("State:") + 6 :].lstrip()[:1] + text[text.find("voluntary_ctxt_switches") :]
