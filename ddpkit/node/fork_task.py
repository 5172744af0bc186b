"""The task of a SLURM step that forks the ranks of a node: for `fork_server.py`, in place of a supervisor.

Each rank gets the variables that a task of srun of its own would have. It cannot be a task for MPI: the variables of
PMI describe the process that forks, and ranks do not have them. Output and ends of the ranks become lines, as
`rank_wrapper.py` writes them. The first rank that fails ends the others on its node, and then this process: srun ends
the other nodes. What ranks leave running is ended after the last one.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Task:
    """The ranks of this node, and their ends."""

    def __init__(self, spec: dict[str, Any]) -> None:
        path = os.path.join(os.path.dirname(spec["task"]), "rank_wrapper.py")
        self.wrapper: dict[str, Any] = {"__name__": "ddpkit_wrapper", "__file__": path}
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), self.wrapper)
        self.ends = self.wrapper["Ends"]()
        self.grace: float = spec["grace"]
        self.ranks = ranks(spec, os.environ, _own_cpus())
        self.pipes: list[list[tuple[int, int]]] = []
        self.first: int | None = None  # the status of the first rank that failed
        self.kill_at: float | None = None  # time.monotonic()
        self.term = -self.grace  # time.monotonic() of the last SIGTERM from outside
        self.for_all = -1  # a pipe with the numbers of signals that every process got
        # Before there are ranks, SIGTERM ends this process. SIGUSR1 and SIGUSR2 wait, and are not lost.
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.wrapper["FROM_AGENT"])

    def fork(self, rank: dict[str, Any]) -> int:
        """Fork, and connect the output of the new process."""
        if not self.pipes:
            signal.pthread_sigmask(signal.SIG_BLOCK, self.wrapper["FROM_ABOVE"])
            self.wrapper["adopt_orphans"]()
            self.for_all = self.wrapper["start_sentinel"]()
        self.pipes.append([os.pipe(), os.pipe()])
        pid = os.fork()
        if pid == 0:
            for (_, write), fd in zip(self.pipes[-1], (1, 2)):
                os.dup2(write, fd)
            for fd in (self.for_all, *(fd for pair in self.pipes for pipe in pair for fd in pipe)):
                os.close(fd)
            rank["env"]["SLURM_TASK_PID"] = str(os.getpid())
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        return pid

    def wait(self, running: dict[int, dict[str, Any]]) -> None:
        """Forward lines and signals until all ranks have ended, and end as the first that failed."""
        names = {pid: rank["env"]["RANK"] for pid, rank in running.items()}
        for pid, name in names.items():
            self.wrapper["write_start"](name, pid)
        left = set(names)
        for number in self._received()[0]:
            send(left, number)  # some ranks were not there when it came

        def ended(pid: int, status: int) -> None:
            self.ends.write(names[pid], pid, status)
            left.discard(pid)
            if status and self.first is None:
                self.first = status
                # SLURM ends a step within KillWait after its SIGTERM. After a failure the ranks have our grace.
                if time.monotonic() > self.term + self.grace:
                    self.kill_at = time.monotonic() + self.grace
                    send(left, signal.SIGTERM)

        def between() -> None:
            received, for_all = self._received()
            for number in received:
                if number not in for_all:
                    send(left, number)
            self.wrapper["reap_others"](names)
            if self.kill_at is not None and time.monotonic() > self.kill_at:
                send(left, signal.SIGKILL)

        pipes = dict(zip(names, self.pipes))
        self.wrapper["relay"]({pid: (name, pipes[pid]) for pid, name in names.items()}, ended, between)
        self.wrapper["end_children"]()
        if self.first:
            time.sleep(self.wrapper["UNREAD"])
        self.wrapper["end_as"](self.first or 0)

    def _received(self) -> tuple[list[int], bytes]:
        """Return the signals that came to this process, and those that came to every process."""
        numbers, for_all = self.wrapper["received"](self.for_all)
        if signal.SIGTERM in numbers:
            self.term = time.monotonic()
        return numbers, for_all


def send(pids: set[int], number: int) -> None:
    for pid in list(pids):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def ranks(spec: dict[str, Any], environ: Any, cpus: list[int]) -> list[dict[str, Any]]:
    """Return the ranks of this node with the variables of a task of their own.

    cpus: those of this process, in the order of cores. With `cpus_per_task` each rank gets as many of them. The number
    of this task is that of its node, in the order of the ranks.
    """
    node, counts = int(environ["SLURM_PROCID"]), spec["ranks"]
    each = spec["cpus_per_task"][node]
    here, first, world = counts[node], sum(counts[:node]), str(sum(counts))
    groups = [(number, len(list(alike))) for number, alike in itertools.groupby(counts)]
    per_node = ",".join(str(number) if times == 1 else f"{number}(x{times})" for number, times in groups)
    common: dict[str, str | None] = {
        **{name: None for name in environ if name.startswith(("PMI_", "PMIX_", "SLURM_TRES_PER_TASK"))},
        **dict.fromkeys(("WORLD_SIZE", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), world),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), per_node),
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
                **dict.fromkeys(("RANK", "SLURM_PROCID"), str(first + local)),
                **dict.fromkeys(("LOCAL_RANK", "SLURM_LOCALID"), str(local)),
            },
        }
        for local in range(here)
    ]


def _own_cpus() -> list[int]:
    """Return the CPUs to which SLURM confines this process, cores and sockets together; none where it does not.

    Jobs that share an unconfined node would all take its first CPUs.
    """

    def place(cpu: int) -> tuple[int, ...]:
        numbers = []
        for name in ("physical_package_id", "core_id"):
            try:
                with open("/sys/devices/system/cpu/cpu%d/topology/%s" % (cpu, name)) as file:
                    numbers.append(int(file.read()))
            except (OSError, ValueError):
                numbers.append(0)
        return (*numbers, cpu)

    if sys.platform != "linux":
        return []
    cpus = os.sched_getaffinity(0)
    return sorted(cpus, key=place) if len(cpus) < (os.cpu_count() or 0) else []
