"""SchedulerTransport and SlurmTransport: a scheduler finds the nodes. Steps run in its job, or in our allocation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ddpkit.launchers.plan import Batch, Plan, Request, Step
from ddpkit.transports import batch, local_facts
from ddpkit.transports.protocol import Link, LocalLink
from ddpkit.transports.srun import SrunLink
from ddpkit.transports.transport import Transport


class SchedulerTransport(Transport):
    """A scheduler whose allocations are unknown to us: every plan is a job."""

    scheduled: ClassVar[bool] = True

    def __init__(self, nnodes: int | None, nproc_per_node: int | None, environ: Mapping[str, str]) -> None:
        """Take the width asked for (None: not asked for), and the launcher's environment."""
        self._nnodes = nnodes
        self._nproc_per_node = nproc_per_node
        self._environ = environ
        self._job: tuple[Batch, str] | None = None

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> Request:
        return local_facts.scheduler(self._nnodes, self._nproc_per_node, self._environ)

    def submit(self, plan: Plan) -> str | None:
        if plan.batch is None:
            return None
        job_id = batch.submit(plan.batch)
        self._job = (plan.batch, job_id)
        return job_id

    def connect(self, step: Step) -> Link:
        if self._job is not None:
            return batch.JobLink(*self._job, step)
        return SrunLink(step) if step.scheduled else LocalLink()

    def close(self) -> None:
        """A job's link is closed by itself."""


class SlurmTransport(SchedulerTransport):
    """SLURM: a job, or srun in the allocation that this shell stands in."""

    slurm: ClassVar[bool] = True

    def survey(self, note: Callable[[str], None] = lambda _: None, *, strict: bool = True) -> Request:
        return local_facts.slurm(self._nnodes, self._nproc_per_node, self._environ)
