"""One node as it presented itself, and what all findings about nodes have in common. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddpkit.preflight.check import Check

Found = Iterator[Check]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node as it presented itself."""

    label: str
    target: str  # what a person types behind ssh; empty: this machine
    slots: int  # ranks that it is to have
    look: Mapping[str, Any]  # of `probe.look`
    facts: Mapping[str, Any]  # of `facts.gather`
    behind: tuple[float, float] = (0.0, 0.0)  # by how many seconds its clock is ahead of the launcher's: at least, most
    env: Mapping[str, Any] = field(default_factory=dict)  # what the launch sets there

    def there(self, command: str) -> str:
        """A command for that node, as one types it here."""
        return there(self.target, command)


def there(target: str, command: str) -> str:
    """A command for a node, as one types it on another machine; `target`: what stands behind ssh, empty for none."""
    if not target:
        return command
    # What our own shell would take for itself is that one's to read.
    return f"ssh {target} {shlex.quote(command) if set(command) & _SHELL else command}"


_SHELL = frozenset("|&;<>()[]{}$*?~'\"\\")


def each(id: str, nodes: Sequence[Node], say: Callable[[Node], Check | str]) -> Found:  # noqa: A002
    for node in nodes:
        said = say(node)
        yield said if isinstance(said, Check) else Check(id=id, status="pass", host=node.label, evidence=said)


def size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.4g} TiB"


def usual(values: Sequence[str]) -> str:
    return Counter(values).most_common(1)[0][0] if values else ""
