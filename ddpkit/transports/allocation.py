"""An allocation of SLURM that several steps share: this shell's, or one of its own (`salloc`), and its nodes' ports.

The command of `salloc` waits for the end of its input, which this process holds: whoever is killed, the job ends.
`NodeSteps` connects to the nodes of such a job: on each a step beside the others, whose input and output are the
stream. Only srun enters the job, with the user's own rights: no port is open, and no node needs an SSH server. The end
of this process is the end of the step's input, at which a supervisor ends what it started.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ddpkit.errors import LaunchError
from ddpkit.launchers.shell import join
from ddpkit.launchers.slurm import SLURM
from ddpkit.machine import HERE, WRITE_LIMIT, Machine, Stream, run_command
from ddpkit.transports.batch import refusal_hint, words_of
from ddpkit.transports.channel import RefusedError, close_in_background, not_started, quoted_lines
from ddpkit.transports.hosts import HostSpec
from ddpkit.transports.pool import own_open_files
from ddpkit.transports.srun import overlap_argv, overlap_step, variables_to_unset

# Prints the variables of its job, and holds it until the end of its input. A value may have several lines, and the id
# of another job in one of them. Where salloc was killed, nobody else ends the job. Beside a living one, which ends it,
# it must not: salloc 22.05 can wait for ever where its job is cancelled while its command ends.
_HOLD = (
    "env -0 | tr '\\n\\0' ' \\n' | grep ^SLURM_; echo; cat > /dev/null; "
    'read -r _ _ _ parent _ < "/proc/$$/stat"; [ "$parent" = "$PPID" ] || exec scancel --quiet "$SLURM_JOB_ID"'
)
# Of a shell inside: its steps ask for nodes and tasks by themselves.
_KEPT = re.compile(r"SLURM_(JOB_(ID|NODELIST|CPUS_PER_NODE)(_HET_GROUP_\d+)?|HET_SIZE|CLUSTER_NAME|CLUSTERS|CONF)$")
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


def find_ports(job: str, group: int | None, hosts: Sequence[str], number: int) -> NodePorts:
    """Ask nodes of a job, or of one group of it, for free ports, in one step. Raises LaunchError."""
    argv, changes = overlap_step(job, group, [*hosts], ["--gres=none"], text=_PORTS % number)
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
        stream = machine.open([*argv, "sh", "-c", _HOLD], variables_to_unset())
    except OSError as error:
        raise LaunchError(f"{argv[0]}: {error.strerror or error}", "run this command on a login node") from None
    job = ""
    try:
        variables = _granted(stream, argv, note)
        job = variables["SLURM_JOB_ID"]
        yield variables
    finally:
        stream.close(10.0 if job else 0.0)
        if job:  # salloc that was killed leaves it
            run_command(["scancel", "--quiet", job])


def _granted(stream: Stream, argv: Sequence[str], note: Callable[[str], None]) -> dict[str, str]:
    """Wait for the job, and return its variables. What salloc says goes to `note`."""
    output, said, shown = b"", b"", 0
    while b"\n\n" not in output:
        try:
            more, errors = stream.read(_LOOK)
        except EOFError:
            words = words_of(said.decode("utf-8", "replace"), argv[0]) or f"{argv[0]} printed nothing"
            hint = refusal_hint(words, argv[0], SLURM, ["sinfo", "--summarize"])
            raise LaunchError(f"SLURM gave no nodes: {words}", hint) from None
        output, said = output + more, said + errors
        lines = said.decode("utf-8", "replace").split("\n")[:-1]
        for line in lines[shown:]:
            if "queued and waiting" in line:
                note(line.removeprefix("salloc: "))
        shown = len(lines)
    pairs = (line.partition("=") for line in output.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in pairs if _KEPT.match(name)}


# ---- connections to its nodes

TIMEOUT = 30.0  # seconds for a step to start: it waits for the controller, which many share
CLOSE_LIMIT = 5.0  # seconds for supervisors to take away what they made; then srun, and with it SLURM, kills them
_STREAM_LOOK = 0.2  # seconds between two looks of a reader whether its stream is closed
_NO_BINDING = "lacks support for cpu binding"  # then nothing is bound, as asked for
QUOTED = 300  # characters of what srun said
_ENDED = re.compile(r"task \d+: Exited with exit code (\d{1,3})")
_CLOSED = "its launch has closed its connections"


class NodeSteps:
    """The nodes of one job. Used by many threads at once."""

    timeout = TIMEOUT
    asks = False

    def __init__(self, job: str, held_back: Sequence[str] = ()) -> None:
        """`held_back`: variables of this process that no node gets."""
        self._job = job
        self._unset = {**variables_to_unset(), **dict.fromkeys(held_back)}
        self._streams: list[StepStream] = []
        self._closed = threading.Event()
        self.by_hand = join(self._srun("NODE")).replace("NODE", "{}")

    def _srun(self, host: str) -> list[str]:
        """The words of one step. It may use every CPU of the job on its node, and is bound to none."""
        return overlap_argv(self._job, None, [host], ["--cpu-bind=none"], output=())

    def begin(self, calls: Sequence[tuple[HostSpec, str]]) -> None:
        """Nothing is shared by the nodes."""

    def enter(self, spec: HostSpec, command: str, until: float) -> StepStream:
        if self._closed.is_set():
            raise RefusedError(_CLOSED, "")
        argv = self._srun(spec.name)
        try:
            # srun passes on this process's limits, and connections have raised one of them.
            limit = f"ulimit -S -n {own_open_files()} 2>/dev/null; "
            opened = HERE.open([*argv, "sh", "-c", limit + command], self._unset)
        except OSError as error:
            raise RefusedError(f"srun: {error.strerror or error}", "run this command on a login node") from None
        stream = StepStream(self._job, spec.name, join([*argv, "hostname"]), until, opened)
        self._streams.append(stream)
        if self._closed.is_set():  # meanwhile
            stream.close()
            raise RefusedError(_CLOSED, "")
        return stream

    def login(self, spec: HostSpec) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """End all steps at the same time, also those that are being connected, and wait for their end."""
        self._closed.set()
        for stream in list(self._streams):
            stream.close()
        until = time.monotonic() + 2 * CLOSE_LIMIT
        for stream in list(self._streams):
            stream.closed.wait(until - time.monotonic())


@dataclass
class StepStream:
    """The step on one node. `by_hand`: a command that starts another one there.

    `start_until`: a time.monotonic() until which it may start. srun accepts no input before.
    """

    job: str
    host: str
    by_hand: str
    start_until: float
    stream: Stream
    started: bool = False  # something came from it
    at_end: bool = False  # of its output
    errors: bytes = b""
    closing: bool = False
    closed: threading.Event = field(default_factory=threading.Event)  # the step has ended, after `close`
    reading: threading.Lock = field(default_factory=threading.Lock)  # a descriptor that is read must not be another's

    def write(self, data: bytes) -> None:
        if self.closing or self.stream.ended:
            raise OSError("the step has ended")
        start = 0.0 if self.started else self.start_until - time.monotonic()
        self.stream.write(data, max(start, WRITE_LIMIT))

    def read(self) -> bytes:
        with self.reading:
            if self.closing:
                raise EOFError
            try:
                output, errors = self.stream.read(_STREAM_LOOK)
            except EOFError:
                self.at_end = True
                raise
        self.started = self.started or bool(output)
        self.errors = (self.errors + errors)[-4 * QUOTED :]
        return output

    def code(self) -> int:
        return -1  # srun has one for its step, and not for the connection

    @property
    def said(self) -> list[str]:
        """Lines of srun, and of the node's shell and Python."""
        lines = [line.strip() for line in self.errors.decode("utf-8", "replace").splitlines()]
        return [line for line in lines if line and _NO_BINDING not in line]

    def why(self) -> str:
        said = " ".join(" ".join(self.said).split())[-QUOTED:]
        return f"its step in job {self.job} has ended{f': {said}' if said else ''}"

    def refusal(self, lines: Sequence[str]) -> RefusedError | None:
        lines = [*lines, *self.said]
        if not self.at_end:
            what = f"its step in job {self.job} did not start ddpkit's process in time{quoted_lines(lines)}"
            return RefusedError(what, f"squeue --steps --jobs={self.job}")
        code = next((int(found[1]) for line in lines if (found := _ENDED.search(line))), -1)
        refused = not_started(code, lines, self.host)
        if refused is None:  # SLURM did not start it, or ended it
            return RefusedError(f"its step in job {self.job} has ended{quoted_lines(lines)}", self.by_hand)
        return RefusedError(refused.what, refused.fix or self.by_hand)

    def close(self) -> None:
        def end_step() -> None:
            with self.reading:
                self.stream.close(CLOSE_LIMIT if self.started else 0.0)
            self.closed.set()

        if self.closing:
            return
        self.closing = True
        close_in_background(end_step)
