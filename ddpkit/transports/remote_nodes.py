"""SshTransport and PdshTransport: nodes that the user names, surveyed over the channels that then run their steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from ddpkit.launchers.nodes import NodeOptions
from ddpkit.launchers.plan import Plan, Step, World
from ddpkit.transports import compatibility, ssh_agent
from ddpkit.transports.channel import Channel
from ddpkit.transports.compatibility import Facts, Wish
from ddpkit.transports.connect import Connector
from ddpkit.transports.pool import FACTS_TIMEOUT, NodePool
from ddpkit.transports.problem import Problem, refusal
from ddpkit.transports.transport import Transport

SURVEY_TIMEOUT = 11.0  # seconds: once a node has failed, skip slow questions after this


class RemoteNodesTransport(Transport):
    """Nodes that the user names: a supervisor is started on each before the plan is made."""

    names_nodes: ClassVar[bool] = True

    def __init__(self, pool: NodePool, wish: Wish) -> None:
        """Take the nodes, not connected yet, and what the job needs of them."""
        self.pool = pool
        self.wish = wish
        self.connected_at = pool.connected_at
        self.facts = pool.facts

    @classmethod
    def connector(cls, options: NodeOptions, note: Callable[[str], None]) -> Connector:
        """Return the connector to single nodes. Imports it: fabric takes longer than everything else."""
        ssh_agent.leave_out_if_silent(os.environ, note)
        if cls.pdsh:
            from ddpkit.transports import pdsh

            return pdsh.Pdsh(timeout=options.connect_timeout, args=options.pdsh_args)
        from ddpkit.transports.ssh import Ssh

        return Ssh(accept_new=options.accepts_new, timeout=options.connect_timeout, note=note)

    def survey(self, note: Callable[[str], None], *, strict: bool) -> World:
        """Connect to every node, ask for its facts, and return the world that they make together.

        Raises LaunchError where a node cannot be reached, PreflightError where the nodes cannot run the job; all causes
        at once. Not strict: a suspicion is a note.
        """
        try:
            with self.pool.report_waiting(note):
                return replace(_survey(self.pool, self.wish, note, strict=strict), min_nodes=self.wish.min_nodes)
        except SystemExit:  # Ctrl-C
            note("ended before anything was started")
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


def _survey(pool: NodePool, wish: Wish, note: Callable[[str], None], *, strict: bool) -> World:
    until = time.monotonic() + pool.scaled(SURVEY_TIMEOUT)
    problems = pool.connect()
    timeout = max(2.0, until - time.monotonic()) if problems else pool.scaled(FACTS_TIMEOUT)
    facts, silent = pool.ask_facts(wish, timeout)
    problems += silent
    # Also where a node is missing: all problems of the others are named with it.
    inside = [spec for spec in pool.specs if spec.label in facts]
    found = compatibility.alone(wish, inside, [facts[spec.label] for spec in inside])
    if wish.min_nodes is not None:
        pool.drop_failed(problems + (found if strict else []), wish.min_nodes, note)
        problems, found = [], [] if strict else found
        inside = list(pool.specs)
    specs = pool.specs
    world: World | None = None
    if (
        len(inside) > 1
        and facts.get(specs[0].label, {}).get("port") is not None
        and (not problems or time.monotonic() < until)
    ):
        heard = [facts[spec.label] for spec in inside]
        asked = compatibility.questions(wish, inside, heard)
        answers, silent = pool.probe_addresses({spec.label: each for spec, each in zip(inside, asked, strict=True)})
        problems += silent
        if not silent:
            world, apart, mended = compatibility.together(wish, inside, heard, [answers[spec.label] for spec in inside])
            found += apart
            if not problems:
                for (_, text), labels in mended.items():
                    note(f"{', '.join(labels)}: {text}")
    elif len(specs) == 1 and inside:
        silent, wrong = check_own_address(pool, wish, facts)
        problems += silent
        found += wrong
        world = World(
            hosts=(compatibility.host(wish, specs[0], facts[specs[0].label], {}),),
            master_addr=wish.master_addr or "127.0.0.1",
            master_port=facts[specs[0].label]["port"] or wish.master_port,
        )
    if problems or world is None or (found and strict):
        order = [spec.label for spec in specs]
        every = problems + (found if strict or not problems else [])
        raise refusal(sorted(every, key=lambda problem: order.index(problem.host)), len(specs))
    for problem in found:
        note(f"{problem.host}: {problem.what} (fix: {problem.fix})")
    return world


def check_own_address(pool: NodePool, wish: Wish, facts: Mapping[str, Facts]) -> tuple[list[Problem], list[Problem]]:
    """Let the only node try rank 0's address, where one was given. Returns problems: no answer, and a wrong address."""
    (spec,) = pool.specs
    only = facts[spec.label]
    if not wish.master_addr or only["port"] is None:
        return [], []
    answers, silent = pool.probe_addresses({spec.label: [[wish.master_addr, only["port"], only["secret"]]]})
    return silent, [] if silent else compatibility.itself(wish, spec, only, answers[spec.label][0])
