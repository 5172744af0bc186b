"""What follows when a replica starts, is ready, or ends: which roles start, and how the run ends. Pure.

    waiting -> starting -> ready -> ended
                  ^                   |
                  +---- restart ------+

A run ends well when every role that ends it has ended with 0. Then its services are stopped. Any other end of a
replica is a failure, also with exit code 0, unless the replica may start again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ddpkit.roles.spec import Role
from ddpkit.run.state import Phase


class Ending(Enum):
    """Why the run ends."""

    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # by the user


@dataclass(frozen=True, order=True)
class Name:
    """One replica: `infer.1`."""

    role: str
    number: int

    def __str__(self) -> str:
        return f"{self.role}.{self.number}"


@dataclass(frozen=True)
class Start:
    """Start a replica."""

    replica: Name
    restarts: int = 0  # how often it was started before


@dataclass(frozen=True)
class End:
    """End these replicas: TERM, grace, KILL."""

    replicas: tuple[Name, ...]


Action = Start | End


class Order:
    """The replicas of a run, and what follows from their events. Each method yields what is to be done."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self._roles = {role.name: role for role in roles}
        self.phases = {Name(role.name, n): Phase.WAITING for role in roles for n in range(role.replicas)}
        self.restarts = dict.fromkeys(self.phases, 0)
        self.ending: Ending | None = None
        self.first: Name | None = None  # the replica whose failure ends the run

    @property
    def over(self) -> bool:
        """Whether the run ends and no replica is left."""
        return self.ending is not None and not list(self._living())

    def begin(self) -> Iterator[Action]:
        """Start the roles that are after none."""
        yield from self._start_due()

    def on_ready(self, replica: Name) -> Iterator[Action]:
        """A replica is ready: the roles may start that waited for it alone."""
        if self.phases[replica] is Phase.STARTING:
            self.phases[replica] = Phase.READY
            if self.ending is None:
                yield from self._start_due()

    def on_end(self, replica: Name, *, ok: bool) -> Iterator[Action]:
        """A replica has ended: the run goes on, or ends; or the replica starts again. `ok`: all with exit code 0."""
        role = self._roles[replica.role]
        if self.ending is not None:
            self.phases[replica] = Phase.DONE if ok and role.ends_run else Phase.STOPPED
        elif ok and role.ends_run:
            self.phases[replica] = Phase.DONE
            yield from self._start_due()  # it may have ended before its probe saw it ready
            if all(self.phases[each] is Phase.DONE for each in self._replicas_of(self._roles_that_end_the_run())):
                yield from self._end(Ending.DONE)
        elif self.restarts[replica] < role.restart:
            self.restarts[replica] += 1
            self.phases[replica] = Phase.STARTING
            yield Start(replica, self.restarts[replica])
        else:
            self.phases[replica] = Phase.FAILED
            yield from self.on_failure(replica)

    def on_failure(self, replica: Name) -> Iterator[Action]:
        """A replica has failed, and perhaps has not ended. One that may start again fails when it has ended."""
        if self.ending is None and self.restarts[replica] >= self._roles[replica.role].restart:
            self.first = replica
            yield from self._end(Ending.FAILED)

    def on_stop(self) -> Iterator[Action]:
        """The user stops the run. Again: what is left ends at once, which is the caller's."""
        if self.ending is None:
            yield from self._end(Ending.STOPPED)

    def _end(self, ending: Ending) -> Iterator[Action]:
        self.ending = ending
        for replica, phase in self.phases.items():
            if phase is Phase.WAITING:
                self.phases[replica] = Phase.STOPPED
        living = tuple(name for name in self._living() if name != self.first)  # the one that failed ends by itself
        if living:
            yield End(living)

    def _living(self) -> Iterator[Name]:
        return (name for name, phase in self.phases.items() if phase in (Phase.STARTING, Phase.READY))

    def _roles_that_end_the_run(self) -> Iterator[str]:
        return (role.name for role in self._roles.values() if role.ends_run)

    def _replicas_of(self, roles: Iterable[str]) -> list[Name]:
        wanted = set(roles)
        return [name for name in self.phases if name.role in wanted]

    def _start_due(self) -> Iterator[Action]:
        """Start the replicas of roles whose turn has come."""
        for replica, phase in list(self.phases.items()):
            after = self._replicas_of(self._roles[replica.role].after)
            if phase is Phase.WAITING and all(self.phases[each] in (Phase.READY, Phase.DONE) for each in after):
                self.phases[replica] = Phase.STARTING
                yield Start(replica)
