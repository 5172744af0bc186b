"""Chooses where the next node takes a copy from: nodes that have it, and the launcher while there are none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

FROM_LAUNCHER = 2  # nodes at once: the others wait for the first ones
FROM_NODE = 2  # nodes at once
GIVE_UP = 2  # nodes that were not reached: then the network lets no node reach another one


@dataclass(frozen=True, kw_only=True)
class ServedCopy:
    """A copy that a node serves: see `ddpkit.node.stage_peer`."""

    label: str
    addresses: tuple[str, ...]
    port: int
    key: str = field(repr=False)
    digest: str


class CopySources:
    """The nodes that serve a copy, and the turns of the launcher. Several threads use it."""

    def __init__(self, most: int) -> None:
        self._most = most  # nodes at once from the launcher, once nodes do not reach each other
        self._changed = threading.Condition()
        self._launcher = min(FROM_LAUNCHER, most)  # turns that are left
        self._nodes: dict[str, set[str]] = {}  # by name of the copy: labels of the nodes that serve it
        self._served: dict[str, list[ServedCopy]] = {}  # an entry for each of their turns that is left
        self._waiting: dict[str, int] = {}
        self._nodes_in_all = 0
        self._begun: dict[str, set[str]] = {}  # nodes that had a turn, or the copy
        self._lost: set[str] = set()  # labels of nodes that were not reached

    def expect(self, nodes: int) -> None:
        """Set the number of nodes that need each copy."""
        self._nodes_in_all = nodes

    @contextmanager
    def turn(self, name: str, label: str) -> Iterator[ServedCopy | None]:
        """Wait for a turn at a node that serves this copy; at the launcher, while there is none: None.

        The turn lasts until the copy is complete and, if another node waits, is served in its place.
        """
        with self._changed:
            self._waiting[name] = self._waiting.get(name, 0) + 1
            self._changed.wait_for(lambda: self._served.get(name) or (self._launcher > 0 and not self._nodes.get(name)))
            self._waiting[name] -= 1
            self._begun.setdefault(name, set()).add(label)
            served = self._served[name].pop(0) if self._served.get(name) else None
            self._launcher -= served is None
        try:
            yield served
        finally:
            with self._changed:
                if served is None:
                    self._launcher += 1
                elif served.label in self._nodes[name]:
                    self._served[name].append(served)
                self._changed.notify_all()

    def wanted(self, name: str, label: str, *, copied: bool) -> bool:
        """Whether this node shall serve its copy: another one waits or, where some lack it, has yet to be asked."""
        with self._changed:
            self._begun.setdefault(name, set()).add(label)
            others = self._waiting.get(name, 0) > 0 or (copied and len(self._begun[name]) < self._nodes_in_all)
            return others and len(self._lost) < GIVE_UP

    def add(self, name: str, served: ServedCopy) -> None:
        """Add a node that serves a copy."""
        with self._changed:
            self._nodes.setdefault(name, set()).add(served.label)
            self._served.setdefault(name, []).extend([served] * FROM_NODE)
            self._changed.notify_all()

    def drop(self, label: str) -> None:
        """Use a node that was not reached no more; after the second one, no node at all."""
        with self._changed:
            before = len(self._lost)
            self._lost.add(label)
            everywhere = len(self._lost) >= GIVE_UP
            for name, served in self._served.items():
                self._served[name] = [each for each in served if each.label != label and not everywhere]
                self._nodes[name] = set() if everywhere else self._nodes[name] - {label}
            if everywhere and before < GIVE_UP:
                self._launcher += self._most - min(FROM_LAUNCHER, self._most)
            self._changed.notify_all()
