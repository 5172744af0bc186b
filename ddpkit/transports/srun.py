"""The link to a step of the allocation that we stand in: srun under a supervisor on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from ddpkit.errors import LaunchError
from ddpkit.launchers.events import Command, Event, FailedEvent
from ddpkit.launchers.job_output import JobOutput
from ddpkit.launchers.plan import Step
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
        self._jobs = step.group_jobs
        self._reader = JobOutput(len(step.ranks), groups=step.groups)
        self._timer: threading.Timer | None = None
        self._post: Post = lambda _: None
        self._calls = OverlapCalls(self._reader)

    def start(self, request: str, post: Post) -> None:
        self._post = post

        def translate(event: Event | None) -> None:
            for each in self._translate(event):
                post(each)

        self._inner.start(request, translate)

    def _translate(self, event: Event | None) -> Iterator[Event | None]:
        if event is None:
            yield None
        elif event["e"] == "out":
            yield from self._reader.feed(event["data"].encode("utf-8", "surrogateescape"))
        elif event["e"] == "failed":
            yield from self._reader.flush()
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
        if self._timer is not None:
            self._timer.cancel()
        self._calls.close()
        self._inner.close()
