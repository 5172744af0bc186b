"""A supervisor as the task of a scheduler's step: it starts one rank, or all ranks of its node.

    python BUNDLE step_task SPEC COMMAND...

COMMAND is the rank's, or that of torchrun. No launcher is on the other side: events go to standard output as frames
(`step_output.py`), and signals come from the scheduler. The task ends as its first failed rank did; srun then ends the
others.

SLURM gives a signal to the task alone where it tracks processes with cgroups, and to every process below it where it
does not. The task is the guard, and its supervisor is a process below it: what only the guard got, the ranks get here.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import time

from ddpkit.node.child import become_subreaper, die_with_parent, end_as, hide
from ddpkit.node.collect import lines_of
from ddpkit.node.kernel import own_cpus, take_cpus
from ddpkit.node.process_tree import end_all_below, kill
from ddpkit.node.rank.rank_wrapper import FROM_ABOVE
from ddpkit.node.rpc import Programs, host_name
from ddpkit.node.seal import Seal
from ddpkit.node.step_output import NOT_STARTED, OBSERVE, StepReader, frames
from ddpkit.node.supervision.first_failure import WINDOW
from ddpkit.node.supervision.launcher_io import LauncherIO
from ddpkit.node.supervision.scratch_dir import FOLDER, remove, sweep
from ddpkit.node.supervision.shutdown import DONE, STUCK_AFTER
from ddpkit.node.supervision.spawn import redirect_to_devnull
from ddpkit.node.supervisor import Supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Seconds before the end of a task that failed. srun ends the others as soon as one failed. When all have ended, it
# drops what it has not read: TCP may hold the last lines for 40 ms.
UNREAD = 0.2
HERE_TOO = 0.3  # seconds in which a signal for every process reaches the last one, on a busy node as well
YOUNG = 1.0  # seconds from the list of a scheduler's processes to its signal for them, on a busy node as well
ALONE = 0.3  # seconds without a rank after which a signal that ends ranks ends what started them
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# A record of steps: number, seconds, the longest step, and the same three of the rank's own work.
SECONDS, LONGEST = 1, (2, 5)
PARTS = 32  # a record of steps lasts for one such part of the time since the first step
# Options of the job's and the step's own output, which an srun of the script would take for its own.
OF_OUR_STEP = ("SLURM_LABELIO", "SLURM_OPEN_MODE")
GONE = 0  # in place of a signal: the scheduler's process above the task is gone


class StepOutput(LauncherIO):
    """Standard output of the task."""

    refused = False  # not all ranks were started
    quiet = False  # what torchrun says of ranks that have failed, or were ended, is told by events

    def start(self) -> None:
        os.set_blocking(1, False)

    def send(self, **event: object) -> None:
        self.refused = self.refused or event["e"] == "refused"
        if self.open and not (self.quiet and event["e"] == "out" and event["rank"] is None):
            self.unsent += self.encoded(event)
            if len(self.unsent) >= 1 << 16:
                self.flush()

    def encoded(self, event: dict[str, object]) -> bytes:
        """Return what stands for an event."""
        return frames(json.dumps(event, separators=(",", ":")).encode())


class LabelledOutput(StepOutput):
    """Standard output of a task that no `collect.py` reads: lines of the job's output, in single writes."""

    reader: StepReader
    number: int  # of the task

    def encoded(self, event: dict[str, object]) -> bytes:
        label = b"%d: " % self.number
        data = b"".join(label + line for line in super().encoded(event).splitlines(keepends=True))
        content = [each for each in self.reader.feed(1, data, time.time()) if each[0] != OBSERVE]
        if event["e"] == "end":
            content += self.reader.finish(0, time.time())
        return b"".join(lines_of(content))


class Records:
    """Records of the steps of each rank, joined until they are long enough.

    A job's output has the records of all ranks, and a run may last for weeks: the longer it runs, the longer they get.
    """

    def __init__(self) -> None:
        self._short: dict[str, list[float]] = {}  # by rank: a record that waits for those that follow it

    def take(self, new: dict[str, list[list[float]]], least: float) -> dict[str, list[list[float]]]:
        """Join records that follow each other. Returns those that are at least `least` seconds long, by rank."""
        long_enough: dict[str, list[list[float]]] = {}
        for rank in {**self._short, **new}:
            waiting = [self._short.pop(rank)] if rank in self._short else []
            for record in waiting + new.get(rank, []):
                joined = _joined(self._short.pop(rank), record) if rank in self._short else record
                if joined[SECONDS] >= least:
                    long_enough.setdefault(rank, []).append(joined)
                else:
                    self._short[rank] = joined
        return long_enough


def _joined(first: list[float], second: list[float]) -> list[float]:
    """Return two records as one: sums, and of the longest steps the longer one."""
    return [max(first[n], second[n]) if n in LONGEST else first[n] + second[n] for n in range(6)]


class StepSupervisor(Supervisor):
    """The supervisor proper. `above`: a pipe with the signals that the guard got."""

    launcher: StepOutput

    def __init__(self, spec: dict[str, Any], request: dict[str, Any], above: int) -> None:
        self.spec, self.task = spec, request["ranks"][0]
        super().__init__(request, b"", Programs(), (Seal("", "node"), Seal("", "launcher")))
        self.above = above
        # Signals that the guard got, and until when each may still come here too: SLURM may give it to every process.
        self.waiting: list[tuple[float, int]] = []
        self.direct: list[tuple[float, int]] = []  # when a signal came here, and its number
        self.alone_since = 0.0  # time.monotonic(): no rank was left after a signal that ends ranks
        self.ended_agents = False
        self.steps, self.began_steps = Records(), 0.0
        self.first_end = 0.0  # time.monotonic() at which a rank had failed
        # One task of each node tells that it lives.
        self.beats = bool(spec["silence"]) and (spec["by_node"] or os.environ.get("SLURM_LOCALID") == "0")

    def connect(self, silence: float, received: bytes, seals: tuple[Seal, Seal]) -> StepOutput:
        if self.spec["collected"]:
            return StepOutput(self.loop, silence, received, seals)
        labelled = LabelledOutput(self.loop, silence, received, seals)
        labelled.reader, labelled.number = StepReader(self.spec), self.task
        return labelled

    def stop(self) -> None:
        """End all ranks. What SIGTERM ends from now on follows from this."""
        self.table.terminated = True
        super().stop()

    def heartbeat(self) -> None:
        """A sign of life where one is waited for, and records of steps."""
        now = time.monotonic()
        if not self.launcher.heartbeat_is_due(now):
            return
        if self.beats:
            self.launcher.send(e="beat", ranks={})
        if self.pipes.steps:
            self.began_steps = self.began_steps or now
            self.pipes.steps = self.steps.take(self.pipes.steps, (now - self.began_steps) / PARTS)
            self.pipes.send_steps()

    def finish(self) -> None:
        self.pipes.steps = self.steps.take(self.pipes.steps, 0.0)
        super().finish()

    def on_rank_launcher_exit(self, pid: int, status: int) -> None:
        ended = self.ended_agents and os.WIFSIGNALED(status)
        super().on_rank_launcher_exit(pid, (128 + signal.SIGTERM) << 8 if ended else status)

    # ---- signals

    def start(self) -> None:
        """Start the ranks. A signal that came to this process before, they did not get: it is given to them."""
        super().start()
        try:
            early = os.read(self.wakeup, 1 << 16)
        except BlockingIOError:
            return
        for number in filter(FROM_ABOVE.__contains__, early):
            self.direct.append((time.monotonic(), number))
            if number in ENDING:
                self.mark_terminated(number)
                self.table.signal(number)
                for pid in self.table.launchers:
                    kill(pid, number)

    def handle_signals(self) -> None:
        super().handle_signals()
        for number in FROM_ABOVE:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.set_blocking(self.above, False)
        self.loop.watch(self.above, self.on_above)

    def on_wakeup(self) -> None:
        now = time.monotonic()
        for number in os.read(self.wakeup, 1 << 16):
            if number in FROM_ABOVE:
                self.direct.append((now, number))
                if number in ENDING:
                    # A scheduler signals the processes that it has listed: what began since then did not get it.
                    self.mark_terminated(number)
                    self.table.signal_young(number, now - YOUNG)

    def on_above(self) -> None:
        data = os.read(self.above, 1 << 10)
        if not data:  # the guard was killed
            self.loop.unwatch(self.above)
            self.shutdown.stop(0.0)
        if GONE in data:
            self.stop()
        self.waiting += [(time.monotonic() + HERE_TOO, number) for number in data if number != GONE]

    def mark_terminated(self, number: int) -> None:
        """Keep in mind that the scheduler ends the ranks, if this signal does so."""
        if number in ENDING:
            self.table.terminated = True

    def pass_on(self, now: float) -> float:
        """Give the ranks the signals that the guard alone got. Returns seconds until the next look.

        A signal that came here as well, SLURM gave to every process of the task: the ranks have it.
        """
        self.direct = [(when, number) for when, number in self.direct if now < when + HERE_TOO]
        waiting, self.waiting = self.waiting, []
        for until, number in waiting:
            if self.take_direct(number):
                continue
            if now < until:
                self.waiting.append((until, number))
            elif not self.deliver(number):
                self.waiting.append((now + HERE_TOO, number))
        return min((until - now for until, _ in self.waiting), default=float("inf"))

    def take_direct(self, number: int) -> bool:
        """Tell whether this process got the signal itself. Each arrival here stands for one of the guard's."""
        for each in self.direct:
            if each[1] == number:
                self.direct.remove(each)  # it stands for no other one
                return True
        return False

    def deliver(self, number: int) -> bool:
        """Give a signal to the ranks, or where none runs and it ends them, to what starts them.

        False: no rank has started yet. A signal that comes after the end of the last rank is dropped.
        """
        if self.table.any_alive():
            self.mark_terminated(number)
            self.table.signal(number)
        elif number in ENDING:
            self.mark_terminated(number)
            for pid in self.table.launchers:
                kill(pid, number)
        else:
            return bool(self.table.ranks)
        return True

    # ---- the end

    def wind_down(self) -> float | None:
        """As in Supervisor; beside that, pass signals on, and end torchrun and ranks that would stay."""
        now = time.monotonic()
        due = [self.pass_on(now), self.end_agents(now)]
        if self.shutdown.deadline is None:
            due.append(self.end_ranks_after_failure(now))
        timeout = super().wind_down()
        if timeout == DONE:
            return timeout
        soonest = min(due) if timeout is None else min(timeout, *due)
        return None if soonest == float("inf") else max(0.0, soonest)

    def end_agents(self, now: float) -> float:
        """End torchrun once its ranks have ended after a failure or a signal. Returns the seconds until the next look.

        It waits for other nodes in C++, where it handles no signal, and its own end takes half a second.
        """
        ending = self.table.terminated or bool(self.table.failures)
        self.launcher.quiet = ending
        if not (ending and self.table.ranks and self.table.launchers) or self.table.any_alive():
            self.alone_since = now
        elif now >= self.alone_since + ALONE:
            self.ended_agents = True
            for pid in self.table.launchers:
                kill(pid, signal.SIGKILL)
            return float("inf")
        else:
            return self.alone_since + ALONE - now
        return ALONE if ending else float("inf")

    def end_ranks_after_failure(self, now: float) -> float:
        """End the other ranks here WINDOW seconds after a failure. The failure of another node may be its cause.

        Returns the seconds until then.
        """
        if not self.table.failures:
            return float("inf")
        self.first_end = self.first_end or now
        if now >= self.first_end + WINDOW:
            self.stop()
        return self.first_end + WINDOW - now

    @property
    def status(self) -> int:
        """How the task ends, as a wait status."""
        failure = self.table.first()
        if failure is None:
            return (NOT_STARTED << 8) * self.launcher.refused
        return int(failure["signal"] or 0) or (failure["code"] or 0) << 8


# ---- the request


def request(spec: dict[str, Any], command: list[str], environ: Any) -> dict[str, Any]:
    """Return what a launcher would send to the supervisor of this node."""
    env = {**dict.fromkeys(OF_OUR_STEP), **{name: environ[name] for name in ("DDPKIT_ATTEMPT",) if name in environ}}
    once = {} if spec["preload"] else {"DDPKIT_TAP_ONCE": "1"}
    agent = {"name": spec["agent"], "argv": command, "env": once, "rank": None, "restarts": 0, "cpus": []}
    if not spec["by_node"]:
        ranks = [int(environ["RANK"])]
        procs = [{**agent, "name": "rank", "env": {}, "rank": ranks[0]}]
    else:
        node, counts = int(environ["SLURM_PROCID"]), spec["ranks"]
        ranks = list(range(sum(counts[:node]), sum(counts[: node + 1])))
        procs = [agent]
        if spec["preload"]:
            procs = [{**agent, **each} for each in procs_to_fork(spec, environ, own_cpus())]
    return {
        "run": spec["run"],
        "workdir": os.getcwd(),
        "env": env,
        "ranks": ranks,
        "procs": procs,
        "preload": spec["preload"],
        "programs": spec["programs"],
        "grace": spec["grace"],
        "silence": spec["silence"],
        "stdin": spec.get("stdin") if spec.get("stdin") in ranks else None,
        "from_task": True,
    }


def procs_to_fork(spec: dict[str, Any], environ: Any, cpus: list[int]) -> list[dict[str, Any]]:
    """Return the ranks of this node with the variables of a task of their own.

    cpus: those of this process, in the order of cores. With `cpus_per_task` each rank gets as many of them. The number
    of this task is that of its node, in the order of the ranks. A rank cannot be a task for MPI: the variables of PMI
    describe the process that forks.
    """
    node, counts = int(environ["SLURM_PROCID"]), spec["ranks"]
    each = spec["cpus_per_task"][node]
    here, first, world = counts[node], sum(counts[:node]), str(sum(counts))
    groups = [(number, len(list(alike))) for number, alike in itertools.groupby(counts)]
    per_node = ",".join(str(number) if times == 1 else f"{number}(x{times})" for number, times in groups)
    common: dict[str, str | None] = {
        **{name: None for name in environ if name.startswith(("PMI_", "PMIX_", "SLURM_TRES_PER_TASK"))},
        **dict.fromkeys(
            ("WORLD_SIZE", "ROLE_WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), world
        ),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), per_node),
        "ROLE_NAME": "default",
        "SLURM_NTASKS_PER_NODE": str(here),
        "SLURM_GTIDS": ",".join(str(first + local) for local in range(here)),
        "SLURM_CPUS_PER_TASK": str(each) if each else None,
    }
    return [
        {
            "rank": first + local,
            "cpus": cpus[local * each : (local + 1) * each] if each and len(cpus) >= here * each else [],
            "env": {
                **common,
                **dict.fromkeys(("RANK", "ROLE_RANK", "SLURM_PROCID"), str(first + local)),
                **dict.fromkeys(("LOCAL_RANK", "SLURM_LOCALID"), str(local)),
            },
        }
        for local in range(here)
    ]


# ---- processes


def main(spec_file: str, *command: str) -> None:
    """Fork the supervisor proper, whose exit status is the task's. This process becomes its guard."""
    hide()
    signal.pthread_sigmask(signal.SIG_BLOCK, (*FROM_ABOVE, signal.SIGCHLD))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    become_subreaper()
    parent, own = os.getppid(), os.getpid()
    above, write = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(write)
        os.setsid()  # as each rank has: where SLURM tracks sessions or groups, it signals the guard alone
        die_with_parent(own, signal.SIGTERM)
        with open(spec_file) as file:
            spec = json.load(file)
        take_cpus(spec.get("cpus", ""))
        supervisor = StepSupervisor(spec, request(spec, list(command), os.environ), above)
        step = os.environ.get("SLURM_JOB_ID", "") + "." + os.environ.get("SLURM_STEP_ID", "")
        supervisor.launcher.send(e="hello", pid=os.getpid(), host=host_name(), step=step, t=time.time())
        if supervisor.beats:
            supervisor.launcher.send(e="beat", ranks={})  # a node that is lost a moment later is silent as well
        supervisor.run()
        remove(FOLDER)  # before srun may kill this task because of another one
        if supervisor.status:
            time.sleep(UNREAD)
        end_as(supervisor.status)
    os.close(above)
    guard(worker, write, parent)


def guard(worker: int, above: int, parent: int) -> None:
    """Wait for the supervisor proper, pass signals on to it, and end what it leaves should it be killed."""
    os.set_blocking(above, False)
    redirect_to_devnull(0, 1)
    die_with_parent(parent, signal.SIGTERM)
    sweep()
    status: int | None = None
    while status is None:
        number = signal.sigwait((*FROM_ABOVE, signal.SIGCHLD))
        if number != signal.SIGCHLD:
            try:
                os.write(above, bytes([number if os.getppid() == parent else GONE]))
            except OSError:
                pass  # it is about to end
        ended, how = os.waitpid(worker, os.WNOHANG)
        status = how if ended else None
    if status != 0:
        end_all_below(STUCK_AFTER)
    remove(FOLDER)
    end_as(status)
