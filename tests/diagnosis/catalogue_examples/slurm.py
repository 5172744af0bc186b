"""Printed texts of `ddpkit/diagnosis/catalogue/slurm.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "srun-not-used": (
        (
            "The `srun` command is available on your system but is not used. HINT: If your intention is to run "
            "Lightning on SLURM, prepend your python command with `srun`",
            "https://github.com/Lightning-AI/pytorch-lightning/pull/15011",
        ),
    ),
    "tasks-contradict": (
        (
            "srun: warning: can't honor --ntasks-per-node set to 4 which doesn't match the requested tasks 2 with "
            "the number of requested nodes 1. Ignoring --ntasks-per-node.",
            "Slurm 22.05, source",
        ),
        ("srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1", "Slurm 22.05, run"),
    ),
    "cpus-per-task-lost": (
        (
            "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=1 != "
            "SLURM_TRES_PER_TASK=cpu:8",
            "Slurm 23.11, source",
        ),
    ),
    "step-refused": (
        (
            "srun: error: Unable to create step for job 4711: Requested node configuration is not available",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-qos": (
        (
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "https://github.com/marbl/canu/issues/1218",
        ),
        ("salloc: error: QOSMaxSubmitJobPerUserLimit", "https://github.com/szcf-weiya/techNotes/issues/7"),
    ),
    "slurm-unreachable": (
        (
            "sbatch: fatal: Could not establish a configuration source",
            "https://github.com/nico-bohlinger/one_policy_to_run_them_all/issues/5",
        ),
        ("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", "Slurm 22.05, source"),
        (
            "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
            "Slurm 22.05, source",
        ),
        ("slurm_load_jobs error: Zero Bytes were transmitted or received", "Slurm 22.05, source"),
        ("srun: error: Slurm controller not responding, sleeping and retrying.", "Slurm 22.05, source"),
    ),
    "munge": (
        ("srun: error: Munge decode failed: Expired credential", "munge, documented"),
        (
            "srun: error: Task launch for 36.0 failed on node cn131: Job credential expired",
            "https://github.com/ai4d-iasc/trixie/issues/58",
        ),
        ("srun: error: task 0 launch failed: Protocol authentication error", "Slurm 22.05, source"),
        (
            'munge: Error: Failed to access "/tmp/nomunge/munge.socket": No such file or directory (Did '
            "you start munged?)",
            "munge 0.5.15, run",
        ),
    ),
    "slurm-no-workdir": (
        (
            "slurmstepd: error: couldn't chdir to `/home/me/run': No such file or directory: going to /tmp instead",
            "Slurm 22.05, run",
        ),
        (
            "slurmstepd: error: Could not open stdout file /home/me/run/slurm-12.out: No such file or directory",
            "Slurm 22.05, run",
        ),
    ),
    "slurm-no-job": (
        ("srun: error: Unable to confirm allocation for job 4711: Invalid job id specified", "Slurm 22.05, run"),
    ),
    "slurm-kill-on-mpi": (
        (
            "srun: error: Couldn't find the specified plugin name for mpi/pmix: MPI plugin type 'pmix' not found",
            "Slurm 22.05, source",
        ),
        ("PMI2_Init failed to initialize.  Return code: 14", "Open MPI, documented"),
        ("but OMPI was not built with SLURM's PMI support and therefore cannot", "Open MPI 4.1, source"),
        (
            "srun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init() callback failed",
            "Slurm 22.05, run",
        ),
        (
            "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types",
            "Slurm 22.05, run",
        ),
        (
            "srun: error: Couldn't find the specified plugin name for mpi/pmix_v3 looking at all files",
            "Slurm 22.05, source",
        ),
    ),
    "cpu-layout": (
        (
            "srun: error: JobId=77 failed to distribute tasks (bind_type:threads,mask_cpu,one_thread) - "
            "this should never happen",
            "https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/225",
        ),
        (
            "srun: error: Task launch for StepId=77.4 failed on node node3: Unable to layout tasks on given cpus",
            "https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/225",
        ),
    ),
    "task-launch-failed": (
        ("srun: error: Application launch failed: Communication connection failure", "SLURM 22.05, source"),
        (
            "slurmstepd: error: execve(): /tmp/slurmd/job2997/slurm_script: No such file or directory",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/21",
        ),
        ("srun: error: task 3 launch failed: Slurmd could not execve job", "Slurm 22.05, source"),
        (
            "srun: error: Task launch for StepId=4.0 failed on node node2: Communication connection failure",
            "Slurm 22.05, source",
        ),
        (
            "srun: error: Task launch for StepId=12.0 failed: Communication connection failure",
            "Slurm 23.11, source",
        ),
        (
            "slurmstepd: error: Prolog failed with rc=1",
            "Slurm 23.02, source",
        ),
    ),
    "slurm-memory-invalid": (("sbatch: error: Memory specification can not be satisfied", "SLURM 22.05, run"),),
    "slurm-time-invalid": (
        (
            "srun: error: Unable to allocate resources: Requested time limit is invalid (missing or exceeds some limit)",
            "SLURM 22.05, source",
        ),
    ),
    "slurm-gres-invalid": (
        ("sbatch: error: Invalid generic resource (gres) specification", "SLURM 22.05, run"),
        ("srun: error: Invalid GRES specification (with and without type identification)", "SLURM 24.11, source"),
    ),
    "slurm-bad-request": (
        ("sbatch: error: CPU count per node can not be satisfied", "SLURM 22.05, run"),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", "SLURM 22.05, run"),
        (
            "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
            "Slurm 22.05, run",
        ),
        ("sbatch: error: invalid partition specified: gpuu", "Slurm 22.05, documented"),
        (
            "sbatch: error: This does not look like a batch script.  The first",
            "Slurm 23.11, source",
        ),
        (
            "sbatch: error: Invalid --time specification",
            "Slurm 23.11, source",
        ),
        (
            "srun: unrecognized option '--gpus-per-rank'",
            "Slurm 23.11, source",
        ),
        (
            "sbatch: error: Unable to open file jobs/train.sbatch",
            "Slurm 22.05, run",
        ),
        (
            "srun: Requested partition configuration not available now",
            "Slurm 22.05, run",
        ),
        (
            "salloc: error: Job submit/allocate failed: Invalid qos specification",
            "SLURM 23.11, source",
        ),
    ),
    "slurm-spool-script": (
        (
            "/bin/bash: /var/spool/slurm/d/scripts/_inner.sh: No such file or directory",
            "bash 5.2, run",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/var/spool/slurmd/job4711/config.yaml'",
            "Python 3.11, run",
        ),
        (
            "python: can't open file '/var/spool/slurmd/job4711/train.py': [Errno 2] No such file or directory",
            "Python 3.11, run",
        ),
    ),
    "user-unknown": (
        ("srun: fatal: Invalid user id: 1046", "https://github.com/montefiore-institute/alan-cluster/issues/41"),
        (
            "srun: error: task 3 launch failed: User not found on host",
            "Slurm 23.11, source",
        ),
        (
            "KeyError: 'getpwuid(): uid not found: 1234'",
            "Python 3.11, source",
        ),
        (
            "No user exists for uid 1234",
            "OpenSSH 9.2, source",
        ),
        (
            "id: cannot find name for user ID 1234",
            "coreutils 9.1, source",
        ),
        (
            "unable to look up current user",
            "Docker 24, source",
        ),
        (
            "slurmstepd: error: pyxis: couldn't get passwd entry for uid 1234",
            "pyxis 0.15, source",
        ),
        (
            "srun: error: task 0 launch failed: Group ID not found on host",
            "Slurm 23.11, source",
        ),
    ),
    "lightning-slurm-tasks": (
        (
            "ValueError: You set `devices=2` in Lightning, but the number of tasks per node configured "
            "in SLURM `--ntasks-per-node=1` does not match.",
            "Lightning 2.2, source",
        ),
    ),
    "step-waits": (
        (
            "srun: Job 17 step creation temporarily disabled, retrying (Requested nodes are busy)",
            "Slurm 23.02, source",
        ),
        (
            "srun: Job 17 step creation still disabled, retrying (Requested nodes are busy)",
            "Slurm 23.02, source",
        ),
    ),
    "slurm-no-config": (
        (
            "squeue: error: fetch_config: DNS SRV lookup failed",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/51",
        ),
        (
            "srun: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host",
            "https://github.com/awslabs/awsome-distributed-ai/issues/205",
        ),
    ),
    "slurm-site-rule": (
        (
            "sbatch: error: Cannot find GPU specification, you may not submit a job not requesting GPUs in a GPU partition, partition: gpu\nsbatch: error: Batch job submission failed: Unspecified error",
            "https://github.com/NVIDIA/exemplar-performance/issues/5",
        ),
        (
            "salloc: error: You must request at least one GPU in this partition\nsalloc: error: Job submit/allocate failed: Unspecified error",
            "SLURM 23.11, documented",
        ),
        (
            "srun: error: You must request at least one GPU in this partition\nsrun: error: Unable to allocate resources: Unspecified error",
            "SLURM 23.11, documented",
        ),
    ),
    "slurm-credential": (
        (
            "srun: error: Application launch failed: Invalid job credential",
            "https://slurm.schedmd.com/troubleshoot.html",
        ),
        (
            "[2022-09-10T17:40:58.753] error: Credential signature check: Credential data mismatch",
            "https://github.com/dun/munge/issues/126",
        ),
        (
            "error: Invalid job credential from 20004@10.0.0.30: Invalid job credential",
            "https://github.com/dun/munge/issues/126",
        ),
    ),
    "dos-line-breaks": (
        (
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)",
            "SLURM 23.11, source",
        ),
        (
            "train.sh: line 1: $'ls\\r': command not found",
            "bash 5.2, run",
        ),
        (
            "-bash: ./train.sh: /bin/bash^M: bad interpreter: No such file or directory",
            "bash 5.1, run",
        ),
    ),
    "slurm-tmpdir": (
        (
            "slurmstepd: error: Unable to create TMPDIR [/local/job4711]: Permission denied",
            "SLURM 23.11, source",
        ),
        (
            "slurmstepd: error: Setting TMPDIR to /tmp",
            "SLURM 23.11, source",
        ),
    ),
}
