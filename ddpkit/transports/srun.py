"""The link to a step of the allocation that we stand in: srun under a supervisor on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from ddpkit.errors import LaunchError
from ddpkit.launchers.events import Command, Event, FailedEvent
from ddpkit.launchers.plan import Step
from ddpkit.launchers.slurm_output import WAIT, SrunReader
from ddpkit.machine import run_command
from ddpkit.transports.protocol import LocalLink
from ddpkit.transports.srun_overlap import OverlapCalls

Post = Callable[[Event | None], None]


class SrunLink:
    """A step of an allocation: srun under a supervisor on this machine. The step's tasks are the ranks."""

    outlives = ""
    margin = 20.0

    def __init__(self, step: Step) -> None:
        self._inner = LocalLink()
        self._jobs, starter = step.group_jobs, step.rank_starter
        self._reader = SrunReader(
            len(step.ranks), torchrun=starter.labels_ranks, lost=True, groups=step.groups, agent=starter.agent
        )
        self._timer: threading.Timer | None = None
        self._post: Post = lambda _: None
        self._calls = OverlapCalls(self._reader)
        self._reading = threading.Lock()  # of the reader, which a timer reads as well
        self._overdue: threading.Timer | None = None  # posts lines of ranks whose host stays unknown
        self._late: tuple[threading.Timer, FailedEvent] | None = None  # a failure, and what posts it soon

    def start(self, request: str, post: Post) -> None:
        self._post = post

        def translate(event: Event | None) -> None:
            with self._reading:
                take(self._translate(event))
                if self._overdue is None:
                    set_timer()

        def post_overdue() -> None:
            with self._reading:
                take(self._reader.overdue())
                set_timer()

        def set_timer() -> None:
            self._overdue = threading.Timer(WAIT, post_overdue) if self._reader.waits else None
            if self._overdue is not None:
                self._overdue.daemon = True
                self._overdue.start()

        def take(events: Iterator[Event | None]) -> None:
            for each in events:
                if each is not None and each["e"] == "failed" and each["what"] == self._reader.agent:
                    # An agent's own words come beside those of srun, and a moment later.
                    self._late = (threading.Timer(1.0, post, [each]), each)
                    self._late[0].daemon = True
                    self._late[0].start()
                    continue
                if self._late is not None and (each is None or each["e"] == "end"):
                    self._late[0].cancel()
                    post(self._late[1])
                    self._late = None
                post(each)

        self._inner.start(request, translate)

    def _translate(self, event: Event | None) -> Iterator[Event | None]:
        if event is None:
            yield None
        elif event["e"] == "out":
            yield from self._reader.feed(event["fd"], event["data"].encode("utf-8", "surrogateescape"))
        elif event["e"] == "failed":
            yield from self._reader.decide()
            if not self._reader.failed:
                yield self._refused(event)
        elif event["e"] == "end":
            yield from self._reader.flush()
            if not self._reader.failed:
                yield from self._reader.finished()
            yield event
        else:
            yield event

    def _refused(self, event: FailedEvent) -> FailedEvent:
        """The failure of srun itself. Before a rank has started, SLURM did not start the step."""
        if self._reader.hosts or event.get("signal") is not None:
            return event
        reason = f"SLURM did not start the step (srun: exit code {event['code']})"
        return {**event, "code": LaunchError.exit_code, "reason": reason}

    def send(self, command: Command) -> None:
        """A stop gives the ranks their grace: srun by itself would kill them at once."""
        grace = command["grace"] if command["c"] == "stop" else 0.0
        if command["c"] == "signal":
            self._signal(command["name"])
        elif command["c"] == "stop" and grace > 0 and self._reader.step:
            # After a failure srun is ending the step by itself.
            if not self._reader.failed:
                self._signal("TERM")
            self._timer = threading.Timer(grace, self._inner.send, [{"c": "stop", "grace": 5.0}])
            self._timer.daemon = True
            self._timer.start()
        else:
            self._inner.send({"c": "stop", "grace": 5.0})

    def call(self, function: str, args: Mapping[str, object]) -> int:
        return self._calls.call(function, args, self._post)

    def _signal(self, name: str) -> None:
        """To the ranks, wherever they are; srun passes on some signals only."""
        job, _, step = self._reader.step.partition(".")
        # scancel reaches one group of a heterogeneous job: by the group's own job id.
        steps = [f"{each}.{step}" for each in self._jobs or (job,)]
        argv = ["scancel", "--quiet", f"--signal={name.removeprefix('SIG')}", *steps]
        run_command(argv)

    def close(self) -> None:
        for timer in (self._timer, self._overdue, self._late[0] if self._late else None):
            if timer is not None:
                timer.cancel()
        self._calls.close()
        self._inner.close()
