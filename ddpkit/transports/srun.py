"""The link to a step of the allocation that we stand in: srun under a supervisor on this machine."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator

from ddpkit.launchers.events import Command, DumpCommand, Event, FailedEvent
from ddpkit.launchers.plan import Step
from ddpkit.launchers.slurm_output import SrunReader
from ddpkit.scheduler import decode, run_command
from ddpkit.transports.protocol import LocalLink
from ddpkit.transports.srun_overlap import Beside, overlap

Post = Callable[[Event | None], None]


class SrunLink:
    """A step of an allocation: srun under a supervisor on this machine. The step's tasks are the ranks."""

    outlives = ""
    margin = 20.0

    def __init__(self, step: Step) -> None:
        self._inner = LocalLink()
        self._reader = SrunReader(len(step.ranks), torchrun=step.rank_starter.labels_ranks)
        self._timer: threading.Timer | None = None
        self._post: Post = lambda _: None
        self._beside: Beside | None = None
        self._late: tuple[threading.Timer, FailedEvent] | None = None  # a failure, and what posts it soon

    def start(self, request: str, post: Post) -> None:
        self._post = post

        def translate(event: Event | None) -> None:
            for each in self._translate(event):
                if each is not None and each["e"] == "failed" and each["what"] == "torchrun":
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
            if not self._reader.failed:
                yield event  # srun itself: it could not start the step
        elif event["e"] == "end":
            yield from self._reader.flush()
            if not self._reader.failed:
                yield from self._reader.finished()
            yield event
        else:
            yield event

    def send(self, command: Command) -> None:
        """A stop gives the ranks their grace: srun by itself would kill them at once."""
        grace = command["grace"] if command["c"] == "stop" else 0.0
        if command["c"] == "signal":
            self._signal(command["name"])
        elif command["c"] == "top":
            if self._beside is None:
                self._beside = Beside(self._reader)
            self._beside.post(command, self._post)
        elif command["c"] == "dump":
            job = self._reader.step.partition(".")[0]
            threading.Thread(target=answer, args=(job, self._reader, command, self._post), daemon=True).start()
        elif command["c"] == "stop" and grace > 0 and self._reader.step:
            # After a failure srun is ending the step by itself, unless what failed has not ended.
            if not self._reader.failed or self._reader.goes_on:
                self._signal("TERM")
            self._timer = threading.Timer(grace, self._inner.send, [{"c": "stop", "grace": 5.0}])
            self._timer.daemon = True
            self._timer.start()
        else:
            self._inner.send({"c": "stop", "grace": 5.0})

    def _signal(self, name: str) -> None:
        """To the ranks, wherever they are; srun passes on some signals only."""
        argv = ["scancel", "--quiet", f"--signal={name.removeprefix('SIG')}", self._reader.step]
        run_command(argv)

    def close(self) -> None:
        for timer in (self._timer, self._late[0] if self._late else None):
            if timer is not None:
                timer.cancel()
        if self._beside is not None:
            self._beside.close()
        self._inner.close()


def answer(job: str, reader: SrunReader, command: DumpCommand, post: Post) -> None:
    """Ask the ranks of a job, and post what its nodes answered."""
    answers, why = look(job, reader, command)
    post({"e": "dump", "id": command["id"], "answers": answers})
    if why:
        post({"e": "note", "text": f"cannot ask the ranks of job {job}: {why}"})


def look(job: str, reader: SrunReader, command: DumpCommand) -> tuple[list[str], str]:
    """Return the packed answer of each node of a job, and the reason why some gave none.

    A step beside the one that runs (--overlap), one task a node. Its program comes over standard input, which srun
    gives to all tasks.
    """
    ranks: dict[str, dict[int, int]] = {}
    for rank, pid in reader.pids.items():
        ranks.setdefault(reader.hosts[rank], {})[rank] = pid
    if not ranks or not job:
        return [], "no rank has started yet"
    nodes = len(ranks)
    argv, env = overlap(job, list(ranks))
    asked = json.dumps({"ranks": ranks, "limit": command["limit"]})
    program = f"exec({command['source'] + chr(10) + f'main_of_step({asked!r})' + chr(10)!r})\n"
    try:
        done = subprocess.run(
            argv,
            env=env,
            input=program,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=command["limit"] + 3.0,
            check=False,
        )
        said, words = done.stdout, done.stderr
    except OSError as error:
        return [], f"{argv[0]}: {error.strerror}"
    except subprocess.TimeoutExpired as error:
        said, words = decode(error.stdout), "srun did not come to its end"
    held: dict[str, str] = {}
    for line in said.splitlines():
        found = re.fullmatch(r" *(\d+): ([A-Za-z0-9+/=]+)", line)
        if found:
            held[found[1]] = held.get(found[1], "") + found[2]
    missing = len(held) < nodes
    return list(held.values()), (" ".join(words.split())[-300:] or "no answer") if missing else ""
