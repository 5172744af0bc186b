"""SLURM: requests that are refused, steps that do not start."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="srun-not-used",
        title="Only one GPU is used under SLURM; the srun command is available but is not used",
        kind="hint",
        patterns=(
            r"The `?srun`? command is available on your system but is not used",
            r"You set .* in Lightning, but the number of (?:tasks per node|nodes) configured in SLURM",
        ),
        cause="the script was started without srun, or with one task for several GPUs",
        probe="in the job: echo $SLURM_NTASKS $SLURM_NTASKS_PER_NODE $SLURM_STEP_ID",
        fix="#SBATCH --ntasks-per-node=GPUS and `srun python train.py`; or ddpkit launch -b slurm -N NODES -n GPUS",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/18104",
        examples=(
            (
                "The `srun` command is available on your system but is not used. HINT: If your intention is to run "
                "Lightning on SLURM, prepend your python command with `srun`",
                "https://github.com/Lightning-AI/pytorch-lightning/pull/15011",
            ),
            (
                "You set `devices=2` in Lightning, but the number of tasks per node configured in SLURM "
                "`--ntasks-per-node=4` does not match.",
                "Lightning 2.4, source",
            ),
        ),
    ),
    Entry(
        id="tasks-contradict",
        title="SLURM_NTASKS and SLURM_NTASKS_PER_NODE contradict each other",
        patterns=(
            r"can't honor --ntasks-per-node set to (?P<asked>\d+)",
            r"Warning: can't run \d+ processes on \d+ nodes",
        ),
        kind="hint",
        cause="the options of sbatch and srun ask for different numbers of tasks",
        probe="in the job: env | grep SLURM_.*TASKS",
        fix="give --nodes and --ntasks-per-node to sbatch, and neither to srun",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/20391",
        examples=(
            (
                "srun: warning: can't honor --ntasks-per-node set to 4 which doesn't match the requested tasks 2 with "
                "the number of requested nodes 1. Ignoring --ntasks-per-node.",
                "Slurm 22.05, source",
            ),
            ("srun: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="cpus-per-task-lost",
        title="cpus-per-task set by two different environment variables; one core in spite of --cpus-per-task",
        patterns=(r"cpus-per-task set by two different environment variables",),
        cause="srun of Slurm 22.05 to 23.02 does not read sbatch's --cpus-per-task, only SRUN_CPUS_PER_TASK; or both "
        "are set and differ",
        probe="in the job: env | grep CPUS_PER_TASK; srun --version",
        fix="srun --cpus-per-task=$SLURM_CPUS_PER_TASK ...",
        link="https://github.com/reframe-hpc/reframe/issues/2655",
        examples=(
            (
                "srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=1 != "
                "SLURM_TRES_PER_TASK=cpu:8",
                "Slurm 23.11, source",
            ),
        ),
    ),
    Entry(
        id="step-outlives-rank",
        title="One rank died, and the others hang until the time limit",
        cause="srun does not end a step when one task fails, unless told to",
        probe="squeue -s; sacct -j JOB",
        fix="srun --kill-on-bad-exit=1 --wait=60 (ddpkit launch -b slurm does so)",
        link="https://github.com/pytorch/pytorch/issues/76287",
    ),
    Entry(
        id="step-refused",
        title="srun: error: Unable to create step for job",
        patterns=(
            r"srun: error: Unable to create step for job (?P<job>\d+)(?:\+\d+)?: (?P<reason>.*)",
            r"step creation temporarily disabled, retrying \(Requested nodes are busy\)",
        ),
        cause="SLURM cannot start a step in job {job}: another step has the resources (srun inside srun), or it asks "
        "for more than the job has",
        probe="in the job: srun --overlap -N1 -n1 hostname; squeue -s -j {job}",
        fix="srun --overlap ..., with no more nodes, tasks and --mem than the job has",
        link="https://slurm.schedmd.com/srun.html#OPT_overlap",
        examples=(
            (
                "srun: error: Unable to create step for job 4711: Requested node configuration is not available",
                "Slurm 22.05, source",
            ),
            (
                "srun: Job 4711 step creation temporarily disabled, retrying (Requested nodes are busy)",
                "Slurm 22.05, run",
            ),
        ),
    ),
    Entry(
        id="interactive-slurm-waits",
        title="A script hangs in salloc or srun --pty: it waits for SLURM_NTASKS ranks",
        cause="a library sees SLURM_ variables and takes the one process for rank 0 of many",
        probe="env | grep -E 'SLURM_(NTASKS|STEP|PROCID)'",
        fix="srun python train.py; or one process alone: env -u SLURM_NTASKS -u SLURM_JOB_ID python train.py",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/17228",
    ),
    Entry(
        id="slurm-qos",
        title="Job violates accounting/QOS policy; QOSMaxSubmitJobPerUserLimit",
        patterns=(
            r"Job violates accounting/QOS policy",
            r"\b(?:sbatch|salloc|srun): error: (?P<limit>(?:QOS|Assoc)\w+)$",
            r"error: (?P<limit>QOSMax\w+Limit)\b",
        ),
        cause="a limit of your account or QOS is reached: jobs, GPUs, nodes or time",
        probe="sacctmgr -n show assoc user=$USER format=account,partition,qos,maxjobs,maxsubmit,grptres; sacctmgr show qos format=name,maxsubmitpu,maxtrespu,maxwall",
        fix="wait until other jobs have ended, ask for less, or another --qos or --account",
        link="https://slurm.schedmd.com/resource_limits.html",
        examples=(
            (
                "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
                "https://github.com/marbl/canu/issues/1218",
            ),
            ("salloc: error: QOSMaxSubmitJobPerUserLimit", "https://github.com/szcf-weiya/techNotes/issues/7"),
        ),
    ),
    Entry(
        id="slurm-unreachable",
        doubtful=True,
        title="Unable to contact slurm controller; Socket timed out on send/recv operation",
        patterns=(
            r"Unable to contact slurm controller",
            r"Socket timed out on send/recv operation",
            r"Zero Bytes were transmitted or received",
            r"Slurm controller not responding",
            r"Could not establish a configuration source",
        ),
        cause="SLURM's controller does not answer: it is down, busy, or this host's slurm.conf names another",
        probe="scontrol ping",
        fix="wait a minute and try again; if it stays: tell the administrators",
        link="https://slurm.schedmd.com/troubleshoot.html",
        examples=(
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
    ),
    Entry(
        id="munge",
        doubtful=True,
        title="Munge decode failed: Expired credential; Protocol authentication error",
        patterns=(
            r"Munge (?:decode|encode) failed: (?P<reason>.*)",
            r"Protocol authentication error",
            r"Job credential expired",
            r'Failed to access "(?P<path>/\S*munge\S*)"',
        ),
        cause="the nodes' credentials do not hold: their clocks differ (Expired, Rewound), their munge keys differ, or munged does not run",
        probe="date on both hosts; munge -n | ssh {host} unmunge",
        fix="set the clocks right (chronyc makestep); the same /etc/munge/munge.key everywhere; systemctl restart munge",
        link="https://github.com/dun/munge/wiki/FAQ",
        examples=(
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
    ),
    Entry(
        id="slurm-no-workdir",
        title="couldn't chdir to: No such file or directory: going to /tmp instead",
        patterns=(
            r"couldn't chdir to `(?P<path>[^']+)': (?P<reason>[^:]+)",
            r"error: Could not open std(?:out|err) file (?P<path>\S+)",
            r"slurmstepd: error: Could not open \S+ (?P<path>\S+)",
        ),
        cause="{path} is not there on the node: it is not on a file system that all nodes share, or this user may not write there",
        probe="srun -l ls -ld {path}",
        fix="submit from a folder on a shared file system, or sbatch --chdir=DIR --output=FILE",
        link="https://slurm.schedmd.com/sbatch.html#OPT_chdir",
        examples=(
            (
                "slurmstepd: error: couldn't chdir to `/home/me/run': No such file or directory: going to /tmp instead",
                "Slurm 22.05, run",
            ),
            (
                "slurmstepd: error: Could not open stdout file /home/me/run/slurm-12.out: No such file or directory",
                "Slurm 22.05, run",
            ),
        ),
    ),
    Entry(
        id="slurm-no-job",
        title="Invalid job id specified; Unable to confirm allocation for job",
        patterns=(
            r"Unable to confirm allocation for job (?P<job>\d+)",
            r"Invalid job id specified",
        ),
        cause="job {job} is over, or SLURM_JOB_ID in this shell is of an earlier one",
        probe="squeue --me; echo $SLURM_JOB_ID",
        fix="unset SLURM_JOB_ID SLURM_JOBID and start again",
        link="https://slurm.schedmd.com/srun.html",
        examples=(
            ("srun: error: Unable to confirm allocation for job 4711: Invalid job id specified", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="slurm-kill-on-mpi",
        title="This version of Slurm ... MPI plugin; PMI2_Init failed to initialize",
        patterns=(
            r"Invalid MPI type '\w+'",
            r"Couldn't load specified plugin name for mpi/",
            r"PMI2_Init failed",
            r"MPI plugin type '(?P<plugin>\w+)' (?:not found|is not)",
            r"OMPI was not built with SLURM",
        ),
        cause="srun and the MPI library speak different PMI versions",
        probe="srun --mpi=list",
        fix="srun --mpi=pmix (or pmi2), as the MPI library was built",
        link="https://slurm.schedmd.com/mpi_guide.html",
        examples=(
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
        ),
    ),
    Entry(
        id="task-launch-failed",
        title="srun: error: task N launch failed",
        patterns=(
            r"srun: error: task (?P<rank>\d+) launch failed: (?P<reason>.*)",
            r"Task launch for \S+ failed on node (?P<host>\S+): (?P<reason>.*)",
        ),
        cause="a node could not start the task: {reason}",
        probe="srun -l hostname, and the node's slurmd log",
        fix="srun --exclude=NODE; an administrator looks at slurmd there",
        link="https://slurm.schedmd.com/troubleshoot.html",
        examples=(
            ("srun: error: task 3 launch failed: Slurmd could not execve job", "Slurm 22.05, source"),
            (
                "srun: error: Task launch for StepId=4.0 failed on node node2: Communication connection failure",
                "Slurm 22.05, source",
            ),
        ),
    ),
    Entry(
        id="slurm-bad-request",
        title="Unable to allocate resources: Invalid account, partition, gres ...",
        patterns=(
            r"Memory specification can not be satisfied",
            r"Unable to allocate resources: (?P<reason>.*)",
            r"Batch job submission failed: (?P<reason>.*)",
            r"invalid partition specified: (?P<partition>\S+)",
        ),
        cause="SLURM refuses the request: {reason}",
        probe="sinfo -s; sacctmgr -n show assoc user=$USER format=account,partition,qos",
        fix="change the option that is named (--account, --partition, --gres, --qos); sbatch --test-only tries it",
        link="https://slurm.schedmd.com/sbatch.html",
        examples=(
            (
                "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
                "Slurm 22.05, run",
            ),
            (
                "sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification",
                "Slurm 22.05, run",
            ),
            ("sbatch: error: invalid partition specified: gpuu", "Slurm 22.05, documented"),
            (
                "srun: error: Memory specification can not be satisfied",
                "Slurm 22.05, run",
            ),
        ),
    ),
)
