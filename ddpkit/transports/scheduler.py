"""SchedulerTransport and SlurmTransport: a scheduler finds the nodes. Steps run in its job, or in our allocation."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import LaunchError, UsageError
from ddpkit.launchers.host_names import format_hosts
from ddpkit.launchers.plan import Batch, Plan, Request, Step
from ddpkit.launchers.shell import quote
from ddpkit.machine import HERE, Machine, Reply, run_command
from ddpkit.transports import batch, slurm_nodes
from ddpkit.transports.protocol import Link, LocalLink
from ddpkit.transports.slurm_nodes import lost_script_node, query_allocation
from ddpkit.transports.srun import SrunLink
from ddpkit.transports.transport import Transport

# Seconds for SLURM to accept changes of a requeued job. Without accounting it accepts none before all processes of the
# job have ended: one of them does not wait for that (KillWait is 30 s by default), and a launcher does.
UPDATE_TIME = 10.0
UPDATE_TIME_OUTSIDE = 75.0
# States of nodes on which SLURM cannot start a step. An asterisk: the node does not answer.
_DOWN = re.compile(r"(down|fail|unknown|power|reboot)|.*\*$")


class SchedulerTransport(Transport):
    """A scheduler whose allocations are unknown to us: every plan is a job."""

    scheduled: ClassVar[bool] = True

    def __init__(
        self, nnodes: int | None, nproc_per_node: int | None, environ: Mapping[str, str], machine: Machine = HERE
    ) -> None:
        """Take the width asked for (None: not asked for), the launcher's environment, and the scheduler's machine."""
        self._machine = machine
        self._nnodes = nnodes
        self._nproc_per_node = nproc_per_node
        self._environ = environ
        self._job: tuple[Batch, str] | None = None
        self.note: Callable[[str], None] = lambda _: None  # gets what a submission waits for

    @property
    def machine(self) -> Machine:
        return self._machine

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> Request:
        return slurm_nodes.scheduler(self._nnodes, self._nproc_per_node, self._environ)

    def submit(self, plan: Plan) -> str | None:
        if plan.batch is None:
            return None
        job_id = batch.submit(plan.batch, self.machine, self.note)
        self._job = (plan.batch, job_id)
        return job_id

    def connect(self, step: Step) -> Link:
        if self._job is not None:
            return batch.JobLink(*self._job, step, self.machine)
        return SrunLink(step) if step.scheduled else LocalLink()

    def close(self) -> None:
        """A job's link is closed by itself."""


class SlurmTransport(SchedulerTransport):
    """SLURM: a job, or srun in the allocation that this shell stands in."""

    slurm: ClassVar[bool] = True
    named: Sequence[str] = ()  # hosts that the user named
    counts: tuple[int, ...] = ()  # ranks on each node; empty: the same number
    held_back: tuple[str, ...] = ()  # variables that sbatch and srun must not pass on
    spares: int | None = None  # hosts of the allocation that replace others; None: no other attempt can follow
    hosts: Sequence[str] | None = None  # of the allocation that may be used; None: all

    @property
    def _job_id(self) -> str:
        return slurm_nodes.allocation(self._environ)

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> Request:
        """Return the request. In an allocation with `spares`, it is for the nodes that this attempt can use.

        Raises UsageError, and LaunchError where too few of them are left.
        """
        shown = self._show_allocation()
        request = slurm_nodes.slurm(self._nnodes, self._nproc_per_node, self._environ, self.named, self.counts, shown)
        request = replace(request, held_back=self.held_back)
        held = request.allocation
        if held is None or self.spares is None:
            here = replace(request.here, python=sys.executable) if self.spares is not None else request.here
            return replace(request, spares=self.spares, here=here)
        nnodes = self._nnodes or max(1, len(held.hosts) - self.spares)
        if self.hosts is None:  # the first attempt may use all
            return replace(request, spares=self.spares, nnodes=nnodes)
        down = self.down_hosts(self.hosts)
        for host, reason in down.items():
            note(f"continues without {host}: {reason}")
        usable = tuple(host for host in held.hosts if host in self.hosts and host not in down)
        if len(usable) < nnodes:
            what = f"{len(usable)} of {nnodes} needed nodes of allocation {held.job_id} are left"
            raise LaunchError(what, f"sinfo --Node --nodes={quote(format_hosts(held.hosts).replace(', ', ','))}")
        return replace(request, spares=0, nnodes=nnodes, allocation=replace(held, hosts=usable))

    def _show_allocation(self) -> str:
        """Return what SLURM says of this allocation; empty: nothing. Raises UsageError for one that has ended."""
        if not self._job_id:
            return ""
        shown, left_over = query_allocation(self._job_id)
        if left_over and self.hosts is None:  # else another attempt, which tells it itself
            raise UsageError(left_over, "add --new-job")
        return shown

    def _show_job(self) -> Reply:
        return run_command(["scontrol", "--oneliner", "show", "job", self._job_id])

    def ending(self) -> str:
        job = self._show_job()
        state = re.search(r"\bJobState=(\S+)", job.output)
        if state is None:
            return "it is not known" if "Invalid job id" in job.error else ""
        return "" if state[1] == "RUNNING" else state[1]

    def can_requeue(self) -> bool:
        """Return whether the job of this process may be requeued."""
        return " Requeue=1 " in self._show_job().output

    def lost_script_node(self) -> str:
        """Return the node of the job's script, if SLURM removed it from the running job; empty: it did not."""
        return lost_script_node(self._show_job().output)

    def job_hosts(self) -> tuple[str, ...]:
        """Return the nodes of the job of this process as they are now."""
        nodes = re.search(r" NodeList=([^\s(]+)", self._show_job().output)
        return tuple(expand_nodelist(nodes[1])) if nodes else ()

    def cancel(self, note: Callable[[str], None]) -> None:
        """Cancel the job of this process."""
        reply = run_command(["scancel", self._job_id])
        if reply.exit_code != 0:
            note(f"scancel {self._job_id}: {reply.error}")

    def requeue(
        self, without: Collection[str], nodes: int, note: Callable[[str], None], *, outside: bool = False
    ) -> str:
        """Requeue the job of this process. `outside`: this process is no part of it. Returns no text.

        The job then waits for so many nodes: spares that were used are not requested again.
        """
        job_id, shown = self._job_id, self._show_job().output
        asked = re.search(r"\bExcNodeList=([^\s(]+)", shown)  # by the user, or by a requeue before
        excluded = ",".join([*([asked[1]] if asked else []), *without])
        tasks = re.search(r"\bNtasksPerN:B:S:C=([1-9]\d*):", shown)
        number = [f"NumNodes={nodes}-{nodes}", *([f"NumTasks={nodes * int(tasks[1])}"] if tasks else [])]
        update = ["update", f"JobId={job_id}"]
        until = time.monotonic() + (UPDATE_TIME_OUTSIDE if outside else UPDATE_TIME)
        for words in (["requeue", job_id], [*update, f"ExcNodeList={excluded}"], [*update, *number]):
            while (reply := run_command(["scontrol", *words])).exit_code != 0:
                if "try again" not in reply.error or time.monotonic() > until:
                    note(f"scontrol {' '.join(words)}: {reply.error}")
                    break
                time.sleep(0.5)
        return ""

    def down_hosts(self, hosts: Sequence[str]) -> dict[str, str]:
        reply = run_command(["sinfo", "--noheader", "--Node", "--nodes", ",".join(hosts), "--format", "%N %T"])
        states = dict(line.split()[:2] for line in reply.output.splitlines() if len(line.split()) > 1)
        return {host: f"SLURM reports {state}" for host, state in states.items() if _DOWN.match(state)}
