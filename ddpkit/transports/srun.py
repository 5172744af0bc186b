"""Steps of an allocation: srun under a supervisor on this machine, and calls beside a step (`srun --overlap`).

Such a call has one task on each node. Its step is kept for later calls where they come again and again, as samples do:
each costs the scheduler's controller, which many share, as much as a small job.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ddpkit.errors import LaunchError
from ddpkit.launchers.events import AnswerEvent, BadEventError, Command, Event, FailedEvent
from ddpkit.launchers.job_output import JobOutput
from ddpkit.launchers.plan import Step
from ddpkit.machine import HERE, Machine, Stream, run_command
from ddpkit.transports.protocol import (
    ANSWER_TIME,
    BOOT,
    STEP_START_TIME,
    Caller,
    LocalLink,
    Pieces,
    parse_event,
    program,
)
from ddpkit.transports.slurm_nodes import SITE

Post = Callable[[Event | None], None]
SILENCE_LIMIT = 60.0  # seconds without a call after which the step ends by itself
_LINE = re.compile(rb' *(\d{1,9}): (\{"e":"answer".*\})')
# The Python that runs here is often there as well, and knows where its py-spy is; else any other will do.
_PYTHON = '[ -x "$0" ] || set -- "$1" python3; exec "${2:-$0}" -S -I -c "$1"'


def overlap_step(
    job: str,
    group: int | None,
    hosts: list[str],
    more: Sequence[str] = (),
    *,
    text: str = BOOT,
    output: Sequence[str] = ("--label",),
) -> tuple[list[str], dict[str, None]]:
    """The command line of such a step, and variables to unset: on each of these nodes one Python runs a text.

    `more`: further options of srun. `output`: those of the output.
    """
    argv = overlap_argv(job, group, hosts, more, output=output)
    return [*argv, "sh", "-c", _PYTHON, sys.executable, text], variables_to_unset()


def overlap_argv(
    job: str, group: int | None, hosts: Sequence[str], more: Sequence[str], *, output: Sequence[str]
) -> list[str]:
    """The words of srun for one task on each of these nodes, beside the other steps of their job."""
    argv = ["srun", f"--jobid={job}", "--overlap", *([] if group is None else [f"--het-group={group}"])]
    argv += [f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}"]
    argv += ["--ntasks-per-node=1", f"--nodelist={','.join(hosts)}", "--export=ALL", "--quiet", "--mem=0"]
    return [*argv, *output, *more]


def variables_to_unset() -> dict[str, None]:
    """Variables of this shell's job and step, to unset: to a command of SLURM they are defaults of its options."""
    return {name: None for name in os.environ if name.startswith(("SLURM_", "SRUN_")) and name not in SITE}


def _read_answer(line: bytes, number: int) -> AnswerEvent | None:
    """Read a piece of the answer to a call; None: the line is none, or belongs to an earlier call."""
    try:
        event = parse_event(line)
    except BadEventError:
        return None
    return event if event is not None and event["e"] == "answer" and event["id"] == number else None


class OverlapStep:
    """One step of one job. `reader` knows which rank is where; without a job's id, its step's is taken.

    srun gives its input to one group of a heterogeneous job alone: each group has a step, with a `group`.
    """

    def __init__(
        self,
        reader: JobOutput,
        job: str = "",
        machine: Machine = HERE,
        *,
        silence_limit: float = SILENCE_LIMIT,
        group: int | None = None,
    ) -> None:
        self.reader = reader
        self._job = job
        self._machine = machine
        self._silence_limit = silence_limit
        self._group = group
        numbers = [n for n, ranks in enumerate(reader.groups) if ranks] if group is None else []
        self._parts = [
            OverlapStep(reader, job, machine, silence_limit=silence_limit, group=number) for number in numbers
        ]
        self._hosts: list[str] = []  # of the step that runs
        self._more: list[str] = []  # further options of srun
        self._stream: Stream | None = None
        self._caller = Caller(self._write_command)
        self._partial = b""  # a line of its output that has not ended
        self._answered = True  # each node has answered the last call
        self._lock = threading.Lock()

    @property
    def job(self) -> str:
        return self._job or self.reader.step.partition(".")[0]

    def call(self, function: str, args: Mapping[str, object], limit: float) -> tuple[list[object], str]:
        """Call PROGRAM.NAME on each node about its ranks. Returns the values, and why some nodes gave none."""
        if self.reader.groups and self._group is None:
            answers = [part.call(function, args, limit) for part in self._parts]
            reasons = [reason for _, reason in answers if reason]
            return [value for values, _ in answers for value in values], "; ".join(reasons)
        with self._lock:
            ranks: dict[str, dict[int, dict[str, int]]] = {}
            for rank, pid in list(self.reader.pids.items()):
                host = self.reader.hosts[rank]
                if self._group is None or self.reader.group_of(host) == self._group:
                    ranks.setdefault(host, {})[rank] = {"pid": pid}
            if not ranks or not self.job:
                return [], "no rank has started yet"
            hosts: dict[str, dict[str, object]] = {host: {"ranks": here} for host, here in ranks.items()}
            values, why = self._ask(hosts, function, args, limit)
            if "Insufficient GRES" in why and not self._more:
                # Another number of GPUs on each node: SLURM gives them all to the ranks alone.
                self._more = ["--gres=none"]
                values, why = self._ask(hosts, function, args, limit)
            return values, why

    def _ask(
        self, hosts: Mapping[str, Mapping[str, object]], function: str, args: Mapping[str, object], limit: float
    ) -> tuple[list[object], str]:
        """Call a function in the step on these nodes, and start a step where none runs on just these.

        `hosts`: the ranks of each node. Returns as `call`.
        """
        until = time.monotonic() + limit + ANSWER_TIME + STEP_START_TIME
        if self._stream is None or self._stream.ended or self._hosts != list(hosts):
            self.close()
        try:
            if self._stream is None:
                self._start(list(hosts), until)
            number = self._caller.call(function, args, hosts=hosts, silence=self._silence_limit)
        except OSError as error:
            self._answered = False
            self.close()
            return [], f"srun: {error.strerror or error}"
        return self._answers(number, until)

    def _start(self, hosts: list[str], until: float) -> None:
        self._hosts, self._partial = hosts, b""
        self._stream = self._machine.open(*overlap_step(self.job, self._group, hosts, self._more))
        self._caller = Caller(self._write_command)
        self._stream.write(program("rpc"), until - time.monotonic())  # srun accepts it when the step has started

    def _write_command(self, text: bytes) -> None:
        assert self._stream is not None
        self._stream.write(text + b"\n")

    def _answers(self, number: int, until: float) -> tuple[list[object], str]:
        """Wait for the answer of each task. Returns as `call`; the reason is what srun said, or else a task's error."""
        assert self._stream is not None
        pieces = [Pieces({number}) for _ in self._hosts]
        answers: dict[int, AnswerEvent] = {}  # by task
        said_by_srun, why = b"", "no answer"
        while len(answers) < len(self._hosts) and (left := until - time.monotonic()) > 0:
            try:
                output, errors = self._stream.read(left)
            except EOFError:
                why = "the step has ended"
                break
            said_by_srun += errors
            *lines, self._partial = (self._partial + output).split(b"\n")
            for match in filter(None, map(_LINE.fullmatch, lines)):
                task = int(match[1])
                event = _read_answer(match[2], number)
                if event is not None and task < len(pieces) and task not in answers:
                    whole = pieces[task].take(event)
                    if whole is not None and whole["e"] == "answer":
                        answers[task] = whole
        self._answered = len(answers) == len(self._hosts)
        values = [value for event in answers.values() for value in event["values"]]
        if len(values) == len(self._hosts):
            return values, ""
        problems = [event["error"] for event in answers.values() if event["error"]]
        words = " ".join(said_by_srun.decode("utf-8", "replace").split())[-300:]
        return values, words or next(iter(problems), why)

    def close(self) -> None:
        """End the step: its tasks end at the end of their input. One that did not answer is not waited for."""
        for part in self._parts:
            part.close()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close(2.0 if self._answered else 0.0)


class OverlapCalls:
    """Calls of a launcher on the nodes of its job. Each runs in a thread, and is answered by one event."""

    def __init__(self, reader: JobOutput, job: str = "", machine: Machine = HERE) -> None:
        self._reader = reader
        self._job = job
        self._machine = machine
        self._kept = OverlapStep(reader, job, machine)  # of samples, which come again and again
        self._calls = 0

    def call(self, function: str, args: Mapping[str, object], post: Callable[[Event | None], None]) -> int:
        self._calls += 1
        threading.Thread(target=self._call, args=(self._calls, function, args, post), daemon=True).start()
        return self._calls

    def _call(
        self, number: int, function: str, args: Mapping[str, object], post: Callable[[Event | None], None]
    ) -> None:
        """Call a function, and post its answer and, where it failed, why. Only the step for samples is kept."""
        limit = args["limit"]
        assert isinstance(limit, float)
        if function.startswith("resource_sample."):
            values, reason = self._kept.call(function, args, limit)
            cause = "" if values else f"cannot take a sample of this step's nodes: {reason}"
        else:
            step = OverlapStep(self._reader, self._job, self._machine)
            values, reason = step.call(function, args, limit)
            cause = f"cannot reach the ranks of job {step.job}: {reason}" if reason else ""
            step.close()
        post({"e": "answer", "id": number, "data": "", "values": values, "error": None})
        if cause:
            post({"e": "note", "text": cause})

    def close(self) -> None:
        self._kept.close()


class SrunLink:
    """A step of an allocation: srun under a supervisor on this machine. The step's tasks are the ranks."""

    outlives = ""
    margin = 20.0
    ahead = 0.0

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
        """Turn an event of srun into events of its ranks, from its output. A rank's failure stands for srun's own."""
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
        """Send a command. A stop signals the ranks, and ends srun after their grace: it would kill them at once."""
        grace = command["grace"] if command["c"] == "stop" else 0.0
        if command["c"] == "input":
            self._inner.send(command)
        elif command["c"] == "signal":
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
