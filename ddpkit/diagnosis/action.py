"""Action after a failure: stop, retry, or exclude a host. Pure: an analysis of logs, or a failure in; an action out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from signal import SIGUSR1, SIGUSR2

from ddpkit.diagnosis.analyze import LogAnalysis
from ddpkit.diagnosis.catalogue.endings import SIGNALS
from ddpkit.diagnosis.log_match import LogMatch
from ddpkit.diagnosis.outcome import SUPERVISORS, Action, Failure
from ddpkit.errors import AGAIN, NO_PROGRESS

# Faults of one node, by catalogue id. Without a host in the log, a retry is the only choice.
NODE: Mapping[str, str] = {
    "gpu-lost": "a GPU of the host is lost",
    "gpu-xid": "a GPU of the host reported an error",
    "gpu-ecc": "the memory of a GPU of the host has errors",
    "nvlink-error": "an NVLink connection of the host has errors",
    "gpu-firmware": "the firmware of a GPU of the host does not answer",
    "gpu-not-started": "the driver cannot start a GPU of the host",
    "amd-gpu-hang": "a GPU of the host hangs",
    "libcuda-of-other-driver": "the host's GPU driver and library differ",
    "driver-library-mismatch": "the host needs a restart: its GPU driver and library differ",
    "cuda-init-failed": "CUDA does not start on the host",
    "ib-link-lost": "the network adapter of the host lost its link",
    "ib-retry": "the network adapter of the host gets no answer",
    "ib-modify-qp": "the network adapter of the host cannot connect",
    "disk-full": "a file system of the host is full",
    "image-no-space": "the host has no room for the image",
    "read-only-fs": "a file system of the host is read-only",
    "io-error": "a file system of the host does not answer",
    "process-in-kernel": "a process of the host hangs in the kernel",
    "stale-handle": "the host lost a network file system",
    "host-out-of-memory": "the kernel's OOM killer ended a process of the host",
    "slurm-node-failure": "SLURM lost the host",
    "stage-failed": "the local disk of the host cannot have a copy of the project",
    "user-unknown": "the host does not know the user",
    "node-lost": "the host or its network is down",
    "slurm-kill-failed": "SLURM cannot end processes of the host",
    "slurm-node-invalid": "the host has less than SLURM's configuration promises",
    "slurm-credential": "the host rejects the credential of the job",
    "task-launch-failed": "SLURM cannot start a task on the host",
    "slurm-script-lost": "SLURM's copy of the batch script is not usable on the host",
    "slingshot-resources": "the network adapter of the host has no free resources",
    "ssh-unreachable": "the host is not reachable by SSH",
    "ssh-lost": "the SSH connection to the host was lost",
    "gpu-busy": "other processes use the GPUs of the host",
    "gpu-memory-taken": "other processes use the GPU memory of the host",
    "accelerator-lost": "an accelerator of the host is lost",
    "npu-not-started": "an NPU of the host does not start",
    "ucx-retry": "the network adapter of the host gets no answer",
}
# The same id for another failure: its line shows a mistake that each host would repeat.
REQUEST: Mapping[str, str] = {
    "host-out-of-memory": r"DefaultCPUAllocator|MemoryError|Unable to allocate|Cannot allocate memory|bad_alloc"
    r"|memory allocation of",
    "ssh-unreachable": r"not resolve|not known|name resolution",
    "gpu-memory-taken": r"out of memory",  # ranks of this job may share the GPU
}
# Failures that do not occur again, or that a later start avoids.
RETRY: Mapping[str, str] = {
    "slurm-preempted": "the job was preempted",
    "slurm-requeued": "the job was requeued",
    "asked-again": "the script requests a restart (exit code 75)",
    "user-signal": "the scheduler sent a user signal before it ends the job",
    "port-in-use": "a new run gets another port",
    "hub-unreachable": "the server was not reachable",
    "download-unreachable": "the server was not reachable",
    "wandb-unreachable": "the server was not reachable",
    "wandb-service": "the process of wandb did not start in time",
    "mlflow-unreachable": "the server was not reachable",
    "pod-name-unknown": "a pod was not ready",
    "hub-rate-limit": "the server rejects too many requests",
    "cloud-unreachable": "the storage was not reachable",
    "pod-refused": "a node had no resources for the pod",
    "slurm-unreachable": "SLURM's controller did not answer",
    "munge": "an authentication of SLURM failed",
    "ssh-max-startups": "sshd refused a login, as too many began at the same time",
    "ssh-max-sessions": "sshd refused a session on a connection",
    "master-unreachable": "rank 0 was not reachable",
    "ray-head-unreachable": "the head of Ray was not reachable",
    "monitored-barrier": "a rank did not reach a barrier in time",
    "rendezvous-timeout": "a node did not join in time",
    "rendezvous-closed": "a node joined after the rendezvous had closed",
    "k8s-unschedulable": "no node had free resources",
    "pod-evicted-disk": "the node's disk was nearly full",
    "pod-evicted-memory": "the node's memory was nearly full",
    "pod-gpus-gone": "the node did not have the GPUs",
    "pod-preempted": "the pod was preempted",
    "pod-node-lost": "the node of the pod was shut down or did not answer",
    "pod-sandbox": "the network of the pod failed on its node",
    "k8s-gang": "not all pods of the job found room",
    "cloud-no-capacity": "the cloud had no free machines",
    "cloud-machine-lost": "the cloud ended the machine",
    "shared-cache": "ranks used one cache at the same time",
    "checkpoint-directory-race": "ranks renamed one checkpoint at the same time",
    "compile-cache-shared": "ranks compiled into one cache at the same time",
    "rendezvous-host-gone": "the host of the rendezvous ended",
    "ranks-missing": "a rank did not join in time",
    "store-wait": "a rank did not answer in time",
    "agent-wait": "another node did not answer in time",
    "store-lost": "the connection to rank 0 was lost",
    "store-connect-reset": "rank 0 closed the connection",
    "connection-timed-out": "a connection to another node was lost",
    "dataloader-worker-died": "a DataLoader worker died without a reason",
    "dataloader-timeout": "a DataLoader worker did not answer in time",
    "ray-actor-died": "a Ray actor died without a reason",
    "vllm-memory-changed": "another process freed GPU memory while vLLM started",
    "accelerator-busy": "an earlier process had not released the accelerator",
    "mpi-session-directory": "several programs of MPI made one directory at the same time",
}
# Ends that a person or a limit caused. A retry would ignore them.
ENDED: Mapping[str, str] = {
    "slurm-time-limit": "the job reached its time limit: request more time, or continue from a checkpoint",
    "slurm-cancelled": "the job was cancelled",
    "interrupted": "a user interrupted the run",
    "terminated": "the run was ended with SIGTERM",
    "launcher-terminated": "the run was ended with SIGTERM",
    "hangup": "the terminal of the run was closed",
}
# SIGTERM also ends ranks after another rank failed. These lines show that the launcher received it.
LAUNCHER_ENDED = re.compile(r"SignalException: Process \d+ got signal|ended by SIGTERM")


def decide(analysis: LogAnalysis) -> Action:
    """Return the action after a failure with these logs."""
    first = analysis.first
    if first is None or first.kind == "hint":
        unknown = analysis.first_alarm is not None
        return Action(action="retry", reason="the cause is not known" if unknown else "the log shows no failure")
    return decide_match(first, [first.text, *(each.text for each in analysis.alike)])


def decide_match(first: LogMatch, lines: Sequence[str], host: str = "") -> Action:
    """Return the action after a failure whose first cause is this match. `host`: of its log, if the lines have none."""
    if first.id in ENDED and (first.id != "terminated" or any(map(LAUNCHER_ENDED.search, lines))):
        return Action(action="stop", id=first.id, reason=ENDED[first.id])
    if first.id in NODE:
        return _decide_node(first, host)
    if first.id in RETRY:
        return Action(action="retry", id=first.id, reason=RETRY[first.id])
    if first.kind == "cause":
        return Action(action="stop", id=first.id, reason=f"it would fail again: {first.cause}")
    return Action(action="retry", id=first.id, reason=f"the log does not show the first cause: {first.cause}")


def _decide_node(first: LogMatch, host: str) -> Action:
    """Exclude the host of a fault, unless each host would repeat it."""
    if first.id in REQUEST and re.search(REQUEST[first.id], first.text):
        return Action(action="stop", id=first.id, reason=f"it would fail again: {first.cause}")
    host = first.values.get("host") or first.speaker.host or host
    if not host:
        reason = f"{NODE[first.id]}, but the log does not show which host"
        return Action(action="retry", id=first.id, reason=reason)
    return Action(action="exclude", host=host, id=first.id, reason=NODE[first.id])


def decide_failure(failure: Failure) -> Action:
    """Return the action after the first failure of a run, from its exit code or signal."""
    whose = f"rank {failure.rank}" if failure.rank is not None else failure.what
    if failure.what == "slurmd":
        return _exclude_proven(failure, "slurm-node-failure")
    if failure.what in SUPERVISORS:
        return _exclude_proven(failure, "node-lost", failure.reason or "it was lost")
    if failure.code == NO_PROGRESS and failure.reason:
        return Action(action="retry", reason=failure.reason)
    if failure.code == AGAIN:
        return Action(action="retry", id="asked-again", reason=RETRY["asked-again"])
    if failure.job_memory:
        return Action(action="stop", id="slurm-out-of-memory", reason="the job requested less memory than it used")
    if failure.oom:
        return _exclude_proven(failure, "host-out-of-memory")
    if failure.signal is not None:
        known = "user-signal" if failure.signal in (SIGUSR1, SIGUSR2) else SIGNALS.get(failure.signal, "")
        if known in ("interrupted", "hangup"):
            return Action(action="stop", id=known, reason=ENDED[known])
        reason = RETRY.get(known, f"{whose} was killed by signal {failure.signal}")
        return Action(action="retry", id=known, reason=reason)
    if failure.reason:
        return Action(action="stop", reason=failure.reason)
    return Action(action="stop", reason=f"{whose} exited with code {failure.exit_code}")


def _exclude_proven(failure: Failure, entry_id: str, reason: str = "") -> Action:
    """Exclude the host of a failure that no rank's text can forge."""
    return Action(action="exclude", host=failure.host, id=entry_id, reason=reason or NODE[entry_id], proven=True)
