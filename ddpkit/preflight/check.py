"""Check: a result of the preflight, for each host or rank that it is about; and the node that checks look at.

Pure. The states: `pass`; `warn` (it will run, but look); `fail` (it would hang, fail, or train something else); `skip`
(not asked for, or what it needs failed before); `unknown` (we could not look, which is no failure).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from ddpkit.launchers.node_facts import NodeFacts, NodeInventory

Status = Literal["pass", "warn", "fail", "skip", "unknown"]
# The worst of many is the state of all.
_ORDER: tuple[Status, ...] = ("pass", "skip", "unknown", "warn", "fail")

TITLES = {
    "request": "launch options",
    "scheduler": "request to the scheduler",
    "transport": "connection to every node",
    "machine": "distinct machines",
    "workdir": "working directory",
    "script": "script, with the same content",
    "tmp": "temporary directory",
    "python": "Python version",
    "torch": "PyTorch version",
    "nccl-version": "NCCL version",
    "driver": "NVIDIA driver for this torch",
    "clock": "clocks",
    "names": "host name resolution",
    "interfaces": "network interfaces of gloo and NCCL",
    "master-port": "port of rank 0, free and reachable",
    "mesh": "connections between all nodes on dynamic ports",
    "limits": "limits of open files, processes and locked memory",
    "shm": "shared memory for DataLoader workers",
    "disk": "disk space and inodes",
    "memory": "memory",
    "cpus": "CPUs for every rank",
    "environment": "equal variables of NCCL, torch and other libraries",
    "container": "network and memory of the container",
    "gpus": "GPUs: number, health and other users",
    "infiniband": "InfiniBand and RoCE ports",
    "debugging": "access to stacks, for ddpkit dump",
    "ranks": "start and rendezvous of every rank",
    "gpu-map": "a separate GPU for every rank",
    "gloo": "all_reduce over gloo, with its result",
    "nccl": "all_reduce over NCCL, small and large, with its result",
    "cause": "cause of the failed stage",
    "speed": "speed of every rank",
}


@dataclass(frozen=True, kw_only=True)
class Check:
    """One result. `doc` is a catalogue id: `ddpkit explain ID`."""

    id: str  # a key of TITLES
    status: Status
    host: str = ""
    rank: int | None = None
    evidence: str = ""
    cause: str = ""
    fix: str = ""
    doc: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.id]

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        return {"id": fields.pop("id"), "title": self.title, "host": fields.pop("host") or None, **fields}


@dataclass(kw_only=True)
class CheckReport:
    """The checks of a test, in the order of the checks and hosts."""

    checks: list[Check] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    seconds: float = 0.0  # that the test took
    folder: str = ""  # with the logs of its ranks; empty: no rank was started

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.status != "fail" for check in self.checks)


def worst(checks: Iterable[Check]) -> Status:
    """The state of many checks together."""
    return max((check.status for check in checks), key=_ORDER.index, default="skip")


def report(checks: Sequence[Check], seconds: float) -> dict[str, Any]:
    """The JSON of `ddpkit test`."""
    failed = any(check.status == "fail" for check in checks)
    return {"ok": not failed, "seconds": round(seconds, 3), "checks": [check.as_dict() for check in checks]}


def ordered(checks: Iterable[Check], hosts: Sequence[str]) -> list[Check]:
    """In the order of the checks, then of the hosts, then of the ranks."""
    ids, places = list(TITLES), {host: index for index, host in enumerate(hosts)}
    return sorted(
        checks,
        key=lambda check: (
            ids.index(check.id), places.get(check.host, len(places)), -1 if check.rank is None else check.rank
        ),
    )  # fmt: skip


# ---- checks of a node


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node: its answers, and the launch's wants of it."""

    label: str
    target: str  # what a person types behind ssh; empty: this machine
    slots: int  # ranks that it is to have
    facts: NodeFacts
    inventory: NodeInventory
    clock_offset: tuple[float, float] = (0.0, 0.0)  # seconds ahead of the launcher's clock: at least, at most
    isolated: bool = False  # each rank sees only its own GPU
    env: Mapping[str, object] = field(default_factory=dict)  # variables that the launch sets for its ranks

    def command(self, command: str) -> str:
        """A command for this node, as one types it on the launcher's machine."""
        return ssh_command(self.target, command)


def ssh_command(target: str, command: str) -> str:
    """A command for a node, as one types it on another machine; `target`: as ssh takes it, empty for none."""
    if not target:
        return command
    # What our own shell would take for itself is that one's to read.
    return f"ssh {target} {shlex.quote(command) if set(command) & _SHELL else command}"


class Fault(NamedTuple):
    """What a check says where it is no pass."""

    status: Status
    evidence: str
    cause: str = ""
    fix: str = ""
    doc: str = ""

    def of(self, id: str, host: str = "", rank: int | None = None) -> Check:  # noqa: A002
        """The result of a check for this host or rank."""
        return Check(id=id, host=host, rank=rank, **self._asdict())


CheckOne = Callable[[Node, Sequence[Node]], Fault | str | Iterator[Fault | str]]
CheckAll = Callable[[Sequence[Node]], Iterator[Check]]
_SHELL = frozenset("|&;<>()[]{}$*?~'\"\\")


def check_each(id: str) -> Callable[[CheckOne], CheckAll]:  # noqa: A002
    """Make a check of all nodes from one of a node, which gets all nodes as well. A text is the evidence of a pass."""

    def decorate(check: CheckOne) -> CheckAll:
        def check_all(nodes: Sequence[Node]) -> Iterator[Check]:
            for node in nodes:
                found = check(node, nodes)
                for each in (found,) if isinstance(found, (Fault, str)) else found:
                    fault = Fault("pass", each) if isinstance(each, str) else each
                    yield fault.of(id, node.label)

        return check_all

    return decorate


# A variable of NCCL's own files is `VALUE (FILE)` in an inventory.
_OF_FILE = re.compile(r"^(.*) \((/[^()]*)\)$")


def plain(value: str | None) -> str:
    """Return the value of a variable, wherever it was set; empty where it is not set."""
    match = _OF_FILE.match(value or "")
    return match[1] if match else value or ""


def file_of(value: str | None) -> str:
    """Return NCCL's file that sets a variable; empty: it is of the environment."""
    match = _OF_FILE.match(value or "")
    return match[2] if match else ""


def rank_environ(node: Node) -> dict[str, str]:
    """The variables of ranks on a node: its own, with those of the launch over them."""
    values = dict(node.inventory["environ"])
    for name, value in dict(node.env).items():
        if value is None:
            values.pop(name, None)
        elif name in values or name.startswith(("NCCL_", "GLOO_", "TORCH_", "CUDA_", "HIP_", "ROCR_")):
            values[name] = str(value)
    return values
