"""Printed texts of `ddpkit/diagnosis/catalogue/jobs.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "slurm-time-limit": (
        (
            "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO TIME LIMIT ***",
            "Slurm 22.05, run",
        ),
        (
            "salloc: Job 4711 has exceeded its time limit and its allocation has been revoked.",
            "Slurm 23.11, source",
        ),
        (
            "=>> PBS: job killed: walltime 3641 exceeded limit 3600",
            "PBS 23, documented",
        ),
        (
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
            "LSF 10, documented",
        ),
        (
            "Job was active longer than specified deadline",
            "Kubernetes 1.29, source",
        ),
        (
            "Pod was active on the node longer than the specified deadline",
            "Kubernetes 1.29, source",
        ),
        (
            "modal.exception.FunctionTimeoutError: Task's current input in-01 hit its timeout of 300s",
            "modal 0.64, documented",
        ),
        (
            "2024-05-06 07:10:09 MaxRuntimeExceeded - Training job runtime exceeded MaxRuntimeInSeconds provided",
            "SageMaker, documented",
        ),
    ),
    "slurm-preempted": (
        (
            "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO PREEMPTION ***",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-node-failure": (
        ("srun: error: Node failure on node3", "Slurm 22.05, source"),
        (
            "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO NODE FAILURE, SEE "
            "SLURMCTLD LOG FOR DETAILS ***",
            "Slurm 22.05, source",
        ),
        (
            "salloc: error: Node failure on worker-1",
            "https://github.com/nebius/soperator/issues/854",
        ),
    ),
    "slurm-requeued": (
        (
            "slurmstepd-node1: error: *** JOB 27 ON node1 CANCELLED AT 2026-11-21T23:11:23 DUE TO JOB REQUEUE ***",
            "Slurm 22.05, run",
        ),
    ),
    "slurm-cancelled": (
        ("srun: Job allocation 17 has been revoked", "Slurm 22.05, run"),
        ("srun: Force Terminated JobId=17", "Slurm 22.05, run"),
        ("srun: Force Terminated job 4711", "Slurm 22.05, source"),
        (
            "slurmstepd-node1: error: *** JOB 29 ON node1 CANCELLED AT 2026-11-21T23:11:33 ***",
            "Slurm 22.05, run",
        ),
    ),
    "slurm-out-of-memory": (
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=11300781.0. Some of the step tasks have been OOM Killed.",
            "https://github.com/nextflow-io/nextflow/issues/5932",
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 3495064.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
            "https://github.com/hafs-community/HAFS/issues/101",
        ),
        ("srun: error: Orion-01-01: task 4: Out Of Memory", "https://github.com/hafs-community/HAFS/issues/101"),
        ("slurmstepd: error: Exceeded job memory limit", "Slurm 22.05, source"),
    ),
    "slurm-kill-failed": (
        ("update_node: node node3 reason set to: Kill task failed", "Slurm, source"),
        (
            "slurmstepd: error: *** JOB 4711 STEPD TERMINATED ON node3 AT 2026-11-20T17:02:51 DUE TO JOB NOT "
            "ENDING WITH SIGNALS ***",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-nested-job": (
        (
            "srun: error: Unable to create step for job 16413634: Invalid generic resource (gres) specification",
            "https://github.com/mehta-lab/waveorder/issues/201",
        ),
        (
            "srun: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.",
            "https://github.com/mehta-lab/recOrder/issues/482",
        ),
        (
            "srun: error: Unable to create step for job 77: Invalid Trackable RESource (TRES) specification",
            "Slurm 23.11, source",
        ),
    ),
}
