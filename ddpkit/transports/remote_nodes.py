"""SshTransport and PdshTransport: nodes that the user names, surveyed over the channels that then run their steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from ddpkit.transports.transport import Transport

if TYPE_CHECKING:  # completion asks for the class alone, and must be quick
    from ddpkit.launchers.nodes import NodeOptions
    from ddpkit.launchers.plan import Plan, Step, World
    from ddpkit.transports.channel import Channel
    from ddpkit.transports.compatibility import Requirements
    from ddpkit.transports.connect import Connector
    from ddpkit.transports.pool import NodePool


class RemoteNodesTransport(Transport):
    """Nodes that the user names: a supervisor is started on each before the plan is made."""

    names_nodes: ClassVar[bool] = True

    def __init__(self, pool: NodePool, requirements: Requirements) -> None:
        """Take the nodes, not connected yet, and what the job needs of them."""
        self.pool = pool
        self.requirements = requirements
        self.connected_at = pool.connected_at
        self.facts = pool.facts

    @classmethod
    def connector(cls, options: NodeOptions, note: Callable[[str], None]) -> Connector:
        """Return the connector to single nodes. Imports it: fabric takes longer than everything else."""
        from ddpkit.transports import ssh_keys

        ssh_keys.leave_out_if_silent(os.environ, note)
        if cls.pdsh:
            from ddpkit.transports import pdsh

            return pdsh.Pdsh(timeout=options.connect_timeout, args=options.pdsh_args)
        if options.transport == "openssh":
            from ddpkit.transports.openssh import OpenSsh

            return OpenSsh(accept_new=options.accepts_new, timeout=options.connect_timeout, note=note)
        from ddpkit.transports.ssh import Ssh

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
