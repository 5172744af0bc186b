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
            "modal, unverified",
        ),
        (
            "2024-05-06 07:10:09 MaxRuntimeExceeded - Training job runtime exceeded MaxRuntimeInSeconds provided",
            "SageMaker, unverified",
        ),
        (
            "MOAB_INFO:  job exceeded wallclock limit",
            "https://github.com/CoBrALab/MAGeTbrain/issues/20",
        ),
        (
            "job 48.1 exceeded hard wallclock time - initiate terminate method",
            "Grid Engine, unverified",
        ),
        (
            "job.exception type=timeout severity=0 resource allocation expired",
            "Flux, unverified",
        ),
        (
            "submitit.core.utils.UncompletedJobError: Job not requeued because: timed-out and not checkpointable.",
            "https://github.com/facebookincubator/submitit/issues/1775",
        ),
        (
            "has not produced any output (state: TIMEOUT)",
            "submitit, unverified",
        ),
        (
            "4711          TIMEOUT      0:0",
            "sacct of Slurm 22.05, documented",
        ),
        (
            "Job exceeded its walltime limit. Job was aborted",
            "https://github.com/cBio/cbio-cluster/issues/256",
        ),
        (
            "slurmctld: Time limit exhausted for JobId=123",
            "Slurm 23.11, unverified",
        ),
    ),
    "slurm-preempted": (
        (
            "slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO PREEMPTION ***",
            "Slurm 22.05, source",
        ),
        (
            "TERM_PREEMPT: job killed after preemption.",
            "LSF, unverified",
        ),
        (
            "submitit.core.utils.UncompletedJobError: Job not requeued because: preempted and not checkpointable.",
            "submitit, unverified",
        ),
        (
            "has not produced any output (state: PREEMPTED)",
            "submitit, unverified",
        ),
        (
            "004 (4711.000.000) 2026-04-01 10:00:00 Job was evicted.",
            "HTCondor, unverified",
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
        (
            "x4502c0s1b0n0.hsn: shepherd died from signal 9",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "has not produced any output (state: NODE_FAIL)",
            "submitit 1.5.1, source",
        ),
        (
            "4711       NODE_FAIL      0:0",
            "sacct of Slurm 22.05, documented",
        ),
        (
            "ping failed on x4502c0s1b0n0: No reply from x4705c0s4b0n0.hsn.cm.aurora.alcf.anl.gov after 97s",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "launch failed on x4604c4s2b0n0: Couldn't forward RPC launch(ad95da94) to child "
            "x4604c5s6b0n0.hsn.cm.aurora.alcf.anl.gov: Resource temporarily unavailable",
            "https://github.com/saforem2/ezpz/pull/244",
        ),
        (
            "slurmctld: error: Nodes node[1-2] not responding, setting DOWN",
            "Slurm 22.05, source",
        ),
        (
            "requeue job JobId=4711_11(4738) due to failure of node node3",
            "Slurm, slurmctld, source",
        ),
        (
            "=>> PBS: job killed: node 3 (n03) requested job terminate, 'EOF' (code 1099) - received SISTER_EOF attempting to communicate with sister MOM's",
            "Torque, unverified",
        ),
        (
            "slurmctld: Batch JobId=123 missing from batch node gpu01 (not found BatchStartTime after startup), Requeuing job",
            "Slurm 23.11, unverified",
        ),
        (
            "slurmctld: Killing JobId=123 on failed node gpu01",
            "Slurm 23.11, unverified",
        ),
        (
            "Not responding       slurm     2024-01-01T00:00:00 gpu01",
            "Slurm 23.11, unverified",
        ),
    ),
    "slurm-requeued": (
        (
            "slurmstepd-node1: error: *** JOB 27 ON node1 CANCELLED AT 2026-11-21T23:11:23 DUE TO JOB REQUEUE ***",
            "Slurm 22.05, run",
        ),
        (
            "TERM_REQUEUE_ADMIN: job killed and requeued by root or LSF administrator.",
            "LSF, unverified",
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
        (
            "TERM_OWNER: job killed by owner.",
            "LSF, unverified",
        ),
        (
            "Job deleted at request of root@mskcc-fe1.local",
            "https://github.com/cBio/cbio-cluster/issues/251",
        ),
        (
            "has not produced any output (state: CANCELLED by 1000)",
            "submitit 1.5.1, source",
        ),
        (
            "salloc: error: Job allocation 235454 has been revoked",
            "https://github.com/AMDResearch/hpcfund/issues/69",
        ),
        (
            "salloc: Force Terminated job 123",
            "Slurm 23.11, unverified",
        ),
        (
            "[2022-05-27T11:37:57.377] _job_complete: JobId=127441 WTERMSIG 15",
            "Slurm 23.11, unverified",
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
        (
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
            "https://github.com/wheaton5/souporcell/issues/20",
        ),
        (
            "=>> PBS: job killed: mem 38427376kb exceeded limit 33554432kb",
            "https://github.com/marbl/canu/issues/530",
        ),
        (
            "job 3132467 exceeded MEM usage hard limit (2528 > 1126)",
            "https://github.com/cBio/cbio-cluster/issues/251",
        ),
        (
            "Job exceeded a memory resource limit (vmem, pvmem, etc.). Job was aborted",
            "https://github.com/nf-core/sarek/issues/541",
        ),
        (
            "Error from slot1_1@gpu7.site.org: Job has gone over cgroup memory limit of 10624 megabytes. "
            "Peak usage: 10700 megabytes.  Consider resubmitting with a higher request_memory.",
            "HTCondor, unverified",
        ),
        (
            "Hold reason: Error from slot1_7@gpulab2002.chtc.wisc.edu: Docker job has gone over memory "
            "limit of 1024 Mb",
            "https://github.com/CHTC/templates-GPUs/pull/7",
        ),
        (
            "has not produced any output (state: OUT_OF_MEMORY)",
            "submitit, unverified",
        ),
        (
            "4711.0     OUT_OF_ME+    0:125",
            "sacct of Slurm, unverified",
        ),
        (
            "slurmstepd: error: StepId=4711.0 exceeded memory limit (68719476736 > 67108864000), being killed",
            "Slurm, jobacct_gather, source",
        ),
    ),
    "slurm-kill-failed": (
        ("update_node: node node3 reason set to: Kill task failed", "Slurm, source"),
        (
            "slurmstepd: error: *** JOB 4711 STEPD TERMINATED ON node3 AT 2026-11-20T17:02:51 DUE TO JOB NOT "
            "ENDING WITH SIGNALS ***",
            "Slurm 22.05, source",
        ),
        (
            "[2020-12-14T08:59:56.040] [63532.0] error: *** STEP 63532.0 STEPD TERMINATED ON cn106 AT 2020-12-14T09:44:56 DUE TO JOB NOT ENDING WITH SIGNALS ***",
            "https://github.com/ai4d-iasc/trixie/issues/45",
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
        (
            "srun: error: Step requested GRES (gpu:(null)) not found in the job",
            "https://github.com/skypilot-org/skypilot/pull/10522",
        ),
    ),
    "step-wait": (
        (
            "srun: First task exited 30s ago",
            "https://github.com/NatLabRockies/torc/pull/318",
        ),
    ),
    "lsf-limit": (
        (
            "TERM_CPULIMIT: job killed after reaching LSF CPU usage limit.",
            "LSF, documented",
        ),
        (
            "TERM_PROCESSLIMIT: job killed after reaching LSF process limit.",
            "LSF, documented",
        ),
        (
            "=>> PBS: job killed: ncpus 11.85 exceeded limit 8 (sum)",
            "https://github.com/msmbuilder/osprey/issues/201",
        ),
        (
            "PBS: job killed: ncpus 19.38 exceeded limit 8",
            "https://github.com/joblib/joblib/issues/1268",
        ),
        (
            "=>> PBS: job killed: cput 360123 exceeded limit 360000",
            "OpenPBS 23.06, unverified",
        ),
    ),
}
