"""Transport: one way to the nodes of a launch, with its survey and its connections. Named nodes are reached by SSH."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from ddpkit.launchers.host_names import Via
from ddpkit.launchers.node_facts import DeviceFacts
from ddpkit.launchers.plan import Plan, Request, Step, World

if TYPE_CHECKING:  # completion asks for the class alone, and must be quick
    from ddpkit.launchers.backends import NodeOptions
    from ddpkit.machine import Machine
    from ddpkit.transports.channel import Channel
    from ddpkit.transports.compatibility import Requirements
    from ddpkit.transports.pool import Connector, NodePool
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
    job: str = ""  # of somebody's allocation, whose steps are the connections to its nodes; empty: none

    @property
    def logins(self) -> Mapping[str, Via]:
        """Where to log in to each node, by label. A node without is this machine, or a job's."""
        return {}

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


class RemoteNodesTransport(Transport):
    """Nodes that the user names: a supervisor is started on each before the plan is made."""

    names_nodes: ClassVar[bool] = True

    def __init__(self, pool: NodePool, requirements: Requirements) -> None:
        """Take the nodes, not connected yet, and what the job needs of them."""
        self.pool = pool
        self.requirements = requirements
        self.connected_at = pool.connected_at
        self.facts = pool.facts

    @property
    def logins(self) -> Mapping[str, Via]:
        """Where to log in to each node, by label. Nodes of a job are entered by its steps."""
        if self.job:
            return {}
        return {
            spec.label: Via(host=spec.name, user=spec.user, port=spec.port, python=spec.python or self.pool.python)
            for spec in self.pool.specs
        }

    @classmethod
    def connector(cls, options: NodeOptions, note: Callable[[str], None]) -> Connector:
        """Return the connector to single nodes. Imports it: fabric takes longer than everything else."""
        from ddpkit.transports.ssh import program as ssh_program

        ssh_program.leave_out_if_silent(os.environ, note)
        if cls.pdsh:
            from ddpkit.transports.ssh import pdsh

            return pdsh.Pdsh(timeout=options.connect_timeout, args=options.pdsh_args)
        if options.transport == "openssh":
            from ddpkit.transports.ssh.openssh import OpenSsh

            return OpenSsh(accept_new=options.accepts_new, timeout=options.connect_timeout, note=note)
        from ddpkit.transports.ssh.client import Ssh

        return Ssh(accept_new=options.accepts_new, timeout=options.connect_timeout, note=note)

    def survey(self, note: Callable[[str], None], *, strict: bool) -> World:
        """Connect to every node, ask for its facts, and return the world that they make together.

        Raises LaunchError where a node cannot be reached, PreflightError where the nodes cannot run the job; all causes
        at once. Not strict: a suspicion is a note.
        """
        from ddpkit.transports.survey import survey

        try:
            with self.pool.report_waiting(note):
                return survey(self.pool, self.requirements, note, strict=strict)
        except SystemExit:  # Ctrl-C
            note("ended before any rank was started")
            raise

    def submit(self, plan: Plan) -> None:
        return None

    def connect(self, step: Step) -> Channel:
        return self.pool.channel(step.host)

    def close(self) -> None:
        self.pool.close()


class SshTransport(RemoteNodesTransport):
    """Nodes reached by SSH, each over a connection of its own."""


class PdshTransport(RemoteNodesTransport):
    """Nodes reached through the pdsh program."""

    pdsh: ClassVar[bool] = True
