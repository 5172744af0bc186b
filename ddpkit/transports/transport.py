"""Transport: one way to the nodes of a launch, with its survey and its connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from ddpkit.launchers.node_facts import DeviceFacts
from ddpkit.launchers.plan import Plan, Request, Step, World

if TYPE_CHECKING:
    from ddpkit.machine import Machine
    from ddpkit.transports.protocol import Link


class Transport(Protocol):
    """One way to the nodes of a launch. The class says what it takes; an object serves one launch."""

    local: ClassVar[bool] = False  # this machine is its only node
    names_nodes: ClassVar[bool] = False  # its nodes are named by the user
    scheduled: ClassVar[bool] = False  # its nodes are chosen by a scheduler
    slurm: ClassVar[bool] = False  # that scheduler is SLURM: its options, variables and allocations are known
    pdsh: ClassVar[bool] = False  # nodes are reached through the pdsh program

    connected_at: Mapping[str, float] = {}  # time.time() at which each node's supervisor started, by label
    facts: Mapping[str, DeviceFacts] = {}  # each node's answer to the survey, by label

    @property
    def machine(self) -> Machine:
        """The machine with the files of a plan, and with the commands of its scheduler."""
        from ddpkit.machine import HERE

        return HERE

    def survey(self, note: Callable[[str], None], *, strict: bool) -> World | Request:
        """Return the world of a plan, or the request to a scheduler. Starts no rank.

        `note` gets warnings. `strict`: a suspicion is an error. Raises UsageError, LaunchError, PreflightError.
        """

    def submit(self, plan: Plan) -> str | None:
        """Submit the job of a plan. Returns its id; None: the plan has none. Raises LaunchError."""

    def connect(self, step: Step) -> Link:
        """Return the link to the supervisor of a step, not started yet. Comes after `submit`."""

    def down_hosts(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Return the reasons of those hosts that cannot run another attempt, as far as a scheduler knows them."""
        return {}

    def ending(self) -> str:
        """Return the state of the allocation of this process, if it ends; empty: it does not, or there is none."""
        return ""

    def close(self) -> None:
        """Close every connection. What was started over one ends."""
