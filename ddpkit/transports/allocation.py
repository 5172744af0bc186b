"""An allocation of SLURM that several steps share: this shell's, or one of its own (`salloc`), and its nodes' ports.

The command of `salloc` waits for the end of its input, which this process holds: whoever is killed, the job ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ddpkit.errors import LaunchError
from ddpkit.launchers.shell import join
from ddpkit.machine import HERE, Machine, Stream, run_command
from ddpkit.transports.srun import inherited, overlap_step

# Prints the variables of its job, and holds it until the end of its input.
_HOLD = "env | grep ^SLURM_; echo; exec cat > /dev/null"
# Of a shell inside: its steps ask for nodes and tasks by themselves.
_KEPT = re.compile(r"SLURM_(JOB_ID|JOB_NODELIST|JOB_CPUS_PER_NODE|CLUSTER_NAME|CLUSTERS|CONF)$")
_LOOK = 0.5  # seconds
_NODE_TIME = 60.0  # seconds for one step on all nodes

# A node, its place in the topology, and free ports of it, below those that kernels hand out by themselves.
_PORTS = """\
import os, socket, sys
held = []
while len(held) < int(%d):
    probe = socket.socket()
    try:
        probe.bind(("", 20000 + int.from_bytes(os.urandom(4), "big") %% 12000))
    except OSError:
        continue
    held.append(probe)
address = os.environ.get("SLURM_TOPOLOGY_ADDR", "")
if "switch" not in os.environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", ""):
    address = ""
ports = ",".join(str(probe.getsockname()[1]) for probe in held)
print("ddpkit-node=%%s;%%s;%%s" %% (os.environ["SLURMD_NODENAME"], address, ports), flush=True)
"""
_NODE = re.compile(r"ddpkit-node=([^;]+);([^;]*);([\d,]*)")


@dataclass(frozen=True, kw_only=True)
class NodePorts:
    """Nodes of a job in the order of their switches, or else of the scheduler, and free ports of each."""

    hosts: tuple[str, ...]
    ports: Mapping[str, list[int]] = field(default_factory=dict)


def find_ports(job: str, hosts: Sequence[str], number: int) -> NodePorts:
    """Ask all nodes of a job for free ports, in one step. Raises LaunchError."""
    argv, changes = overlap_step(job, None, [*hosts], ["--gres=none"], text=_PORTS % number)
    env = {name: value for name, value in os.environ.items() if name not in changes}
    reply = run_command(argv, env, timeout=_NODE_TIME)
    found = {match[1]: (match[2], match[3]) for match in _NODE.finditer(reply.output)}
    if set(found) != set(hosts):
        silent = ", ".join(host for host in hosts if host not in found)
        raise LaunchError(f"no answer of {silent}, in job {job}: {reply.error[-300:] or 'srun printed nothing'}")

    def switches(host: str) -> list[object]:
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", found[host][0])]

    ports = {host: [int(port) for port in text.split(",") if port] for host, (_, text) in found.items()}
    return NodePorts(hosts=tuple(sorted(hosts, key=switches)), ports=ports)


@contextmanager
def own_allocation(
    argv: Sequence[str], note: Callable[[str], None], machine: Machine = HERE
) -> Iterator[dict[str, str]]:
    """Hold a job of one's own, requested by the words of salloc. Yields its variables. Raises LaunchError."""
    try:
        stream = machine.open([*argv, "sh", "-c", _HOLD], inherited())
    except OSError as error:
        raise LaunchError(f"{argv[0]}: {error.strerror or error}", "run this command on a login node") from None
    job = ""
    try:
        variables = _granted(stream, argv, note)
        job = variables["SLURM_JOB_ID"]
        yield variables
    finally:
        stream.close(10.0 if job else 0.0)
        if job and not stream.ended:
            run_command(["scancel", job])


def _granted(stream: Stream, argv: Sequence[str], note: Callable[[str], None]) -> dict[str, str]:
    """Wait for the job, and return its variables. What salloc says goes to `note`."""
    output, said, shown = b"", b"", 0
    while b"\n\n" not in output:
        try:
            more, errors = stream.read(_LOOK)
        except EOFError:
            words = " ".join(said.decode("utf-8", "replace").replace("salloc: ", "").split())
            raise LaunchError(f"SLURM gave no nodes: {words or 'salloc printed nothing'}", join(argv)) from None
        output, said = output + more, said + errors
        lines = said.decode("utf-8", "replace").split("\n")[:-1]
        for line in lines[shown:]:
            if "queued and waiting" in line:
                note(line.removeprefix("salloc: "))
        shown = len(lines)
    pairs = (line.partition("=") for line in output.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in pairs if _KEPT.match(name)}
