"""Facts that SLURM's variables only point at: the text of a host file, and the shell of a step.

The resolver is pure, so `init()` and `ddpkit env` gather them with this module. Gathering never fails and never waits
for a pipe: an unknown fact is left out, with its reason where there is one.

In a step with the arbitrary distribution (`srun -m arbitrary`, or a file SLURM_HOSTFILE) tasks follow the order of a
file or of `-w`, but the lists and node ids in its environment are sorted by name. Only the file names the host of rank
0, where it can be read and agrees with this task.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import NamedTuple

from ddpkit.distributed.env_values import Environ, Num, is_number, read_number, read_text
from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import EnvError

# A host name and its newline for each of 100,000 tasks; a larger file is no host file.
MOST_BYTES = 4 << 20

_SHELLS = frozenset("sh bash dash ash ksh mksh zsh fish csh tcsh".split())
_MULTIPLEXERS = frozenset("tmux screen".split())
# Options of a shell with a value as the next word.
_WITH_VALUE = frozenset("--rcfile --init-file -o +o -O +O".split())


class Facts(NamedTuple):
    """Facts besides the variables; by default none."""

    hostfile: str | None = None
    """Text of the file SLURM_HOSTFILE, with the host of each task."""
    hostfile_error: str = ""
    """Why that file could not be read."""
    shell: str = ""
    """The name of the interactive shell that this SLURM step runs on a terminal (`srun --pty bash`)."""


def gather_facts(environ: Mapping[str, str]) -> Facts:
    """Gather the facts that the resolver needs in a SLURM step; outside of a step, none."""
    if not environ.get("SLURM_STEP_NUM_TASKS", "").strip():
        return Facts()
    hostfile, hostfile_error = None, ""
    path = environ.get("SLURM_HOSTFILE", "").strip()
    if path and environ.get("SLURM_DISTRIBUTION", "").strip().lower().startswith("arbitrary"):
        try:
            hostfile = _read(path)
        except OSError as error:
            hostfile_error = error.strerror or str(error)
    return Facts(hostfile=hostfile, hostfile_error=hostfile_error, shell=_interactive_shell(environ))


def _read(path: str) -> str:
    # O_NONBLOCK: opening a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"larger than {MOST_BYTES >> 20} MiB")
    return data.decode("utf-8", "replace")


def _interactive_shell(environ: Mapping[str, str]) -> str:
    """Return the name of the interactive shell that is this step's task, or ''.

    Variables do not distinguish `srun --pty bash` from the `srun python` typed in it: SLURM_PTY_PORT is inherited.
    """
    pid = environ.get("SLURM_TASK_PID", "").strip()
    if not pid.isdecimal():
        return ""
    try:
        # In a container the id may be another process: only the task has its own id in its environment.
        if f"SLURM_TASK_PID={pid}".encode() not in _proc(pid, "environ").split(b"\0"):
            return ""
        # The name in the second field may hold blanks and brackets; tty_nr is the fifth after it.
        if _proc(pid, "stat").rpartition(b")")[2].split()[4] == b"0":
            return ""
        words = _proc(pid, "cmdline").decode("utf-8", "replace").split("\0")
    except (OSError, IndexError):
        return ""
    return _name_of_shell([word for word in words if word])


def _proc(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read(MOST_BYTES)


def _name_of_shell(words: list[str]) -> str:
    """Return the name of an interactive shell's command line, or ''. With a script or `-c` it is a program."""
    name = words[0].rpartition("/")[2].lstrip("-") if words else ""  # a login shell calls itself "-bash"
    if name in _MULTIPLEXERS:
        return name
    if name not in _SHELLS:
        return ""
    options = iter(words[1:])
    for word in options:
        if word in _WITH_VALUE:
            next(options, None)
        elif not word.startswith(("-", "+")) or (not word.startswith("--") and "c" in word):
            return ""
    return name


# ---- host of rank 0 in a step with the arbitrary distribution


def is_arbitrary(environ: Environ) -> bool:
    """Return whether the step has the arbitrary distribution.

    srun ignores a host file when it gets `-w`, and then does not set SLURM_DISTRIBUTION.
    """
    return read_text(environ, "SLURM_DISTRIBUTION").lower().startswith("arbitrary")


def find_master_host(environ: Environ, facts: Facts, rank: Num, local_tasks: list[int]) -> tuple[str, str]:
    """Return the host of rank 0 and its origin. Raises EnvError where it is unknown."""
    hosts = expand_nodelist(read_text(environ, "SLURM_STEP_NODELIST"))
    node = _node_name(environ, hosts)
    if len(hosts) == 2 and node in hosts and local_tasks:
        host = node if 0 in local_tasks else hosts[1 - hosts.index(node)]
        return host, "SLURM_GTIDS (where task 0 is, of two nodes)"
    path = read_text(environ, "SLURM_HOSTFILE")
    subject = f"task {rank.value} of the step, which is on {node or 'this node'}, has no host of rank 0"
    if not path:
        raise EnvError(
            f"{subject}: srun uses a custom order of hosts (-m arbitrary), and SLURM_STEP_NODELIST is sorted",
            "export MASTER_ADDR=<the first host of srun's -w>, or write the hosts to a file and export SLURM_HOSTFILE",
        )
    instead = 'export MASTER_ADDR="$(head -n 1 "$SLURM_HOSTFILE")" before srun'
    if facts.hostfile_error:
        raise EnvError(
            f"{subject}: SLURM_HOSTFILE={path} cannot be read here: {facts.hostfile_error}",
            f"{instead}, or move the file to a shared file system",
        )
    if facts.hostfile is None:
        raise EnvError(
            f"{subject}: the order of the hosts is in SLURM_HOSTFILE={path}, and SLURM_STEP_NODELIST is sorted", instead
        )
    named = read_hostfile(facts.hostfile, max((rank.value, *local_tasks)) + 1)
    for task in sorted({rank.value, *local_tasks}):
        host = named[task] if task < len(named) else "no host"
        if node and host != node:
            raise EnvError(
                f"SLURM_HOSTFILE={path} gives task {task} {host}, but SLURM started it on {node}: "
                "the file has changed since srun read it",
                "export MASTER_ADDR=<the host of rank 0> before srun, or do not change the file while the job runs",
            )
    return named[0], "SLURM_HOSTFILE (its first host)"


def renumber_node(
    environ: Environ, facts: Facts, rank: Num, world: Num, num_nodes: Num, local_tasks: list[int]
) -> Num | None:
    """Return the rank of this node, in an order with the host of rank 0 first, and the others by their names.

    Every rank needs the same order: where the host of rank 0 is unknown, all keep SLURM's own numbers. None: it is not
    known, as SLURM_NODEID is not set.
    """
    if world.value == num_nodes.value:
        return Num(rank.value, f"{rank.origin} (one task per node)")
    node = read_number(environ, "SLURM_NODEID")
    if node is None:
        return None
    hosts = expand_nodelist(read_text(environ, "SLURM_STEP_NODELIST"))
    address = read_text(environ, "MASTER_ADDR")
    try:
        first = address if address in hosts else find_master_host(environ, facts, rank, local_tasks)[0]
    except EnvError:
        return Num(node.value, "SLURM_NODEID (rank 0 may run on another node than 0: its host name is unknown)")
    if first not in hosts or node.value > hosts.index(first):
        return node
    # That host moves to the front, and the nodes before it by one.
    moved = 0 if node.value == hosts.index(first) else node.value + 1
    return Num(moved, f"SLURM_NODEID (with {first}, the node of rank 0, first)")


def read_hostfile(text: str, enough: int) -> list[str]:
    """Return the hosts of a SLURM_HOSTFILE, one per task as srun reads it, and not many more than `enough`.

    Names are separated by commas and lines; `#` begins a comment; `n1*3` is three times n1; `n[1-2]` is a node list.
    """
    hosts: list[str] = []
    for line in text.splitlines():
        for item in _outside_brackets(line.partition("#")[0]):
            name, _, times = (part.strip() for part in item.partition("*"))
            if name:
                hosts.extend(expand_nodelist(name) * (min(int(times), enough) if is_number(times) else 1))
            if len(hosts) >= enough:
                return hosts
    return hosts


def _outside_brackets(line: str) -> list[str]:
    items: list[str] = []
    for piece in line.split(","):
        if items and items[-1].count("[") > items[-1].count("]"):
            items[-1] += f",{piece}"
        else:
            items.append(piece)
    return items


def join_numbers(tasks: list[int]) -> str:
    """Return task numbers with commas."""
    return ",".join(map(str, tasks))


def _node_name(environ: Environ, hosts: list[str]) -> str:
    """Return the name of this node in SLURM."""
    node = read_number(environ, "SLURM_NODEID")
    by_number = hosts[node.value] if node is not None and node.value < len(hosts) else ""
    return read_text(environ, "SLURMD_NODENAME") or by_number
