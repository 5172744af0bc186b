"""Node of a preflight: its facts and its inventory; and helpers that all checks of nodes share. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ddpkit.launchers.node_facts import NodeFacts, NodeInventory
from ddpkit.preflight.check import Check, Status

Checks = Iterator[Check]


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

    def check(
        self,
        id: str,  # noqa: A002
        status: Status,
        evidence: str,
        *,
        cause: str = "",
        fix: str = "",
        doc: str = "",
    ) -> Check:
        """A result of the check `id` for this node."""
        return Check(id=id, status=status, host=self.label, evidence=evidence, cause=cause, fix=fix, doc=doc)

    def command(self, command: str) -> str:
        """A command for this node, as one types it on the launcher's machine."""
        return ssh_command(self.target, command)


def ssh_command(target: str, command: str) -> str:
    """A command for a node, as one types it on another machine; `target`: as ssh takes it, empty for none."""
    if not target:
        return command
    # What our own shell would take for itself is that one's to read.
    return f"ssh {target} {shlex.quote(command) if set(command) & _SHELL else command}"


CheckOne = Callable[[Node, Sequence[Node]], Check | str]
CheckAll = Callable[[Sequence[Node]], Checks]
_SHELL = frozenset("|&;<>()[]{}$*?~'\"\\")


def check_each(id: str) -> Callable[[CheckOne], CheckAll]:  # noqa: A002
    """Make a check of all nodes from one of a node, which gets all as well. A text is the evidence of a pass."""

    def decorate(check: CheckOne) -> CheckAll:
        def check_all(nodes: Sequence[Node]) -> Checks:
            for node in nodes:
                result = check(node, nodes)
                yield result if isinstance(result, Check) else node.check(id, "pass", result)

        return check_all

    return decorate
