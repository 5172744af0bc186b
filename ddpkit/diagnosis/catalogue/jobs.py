"""SLURM jobs that end early: time limits, memory, preemption, node failures."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="slurm-nested-job",
        title="Unable to create step for job: Invalid generic resource (gres) specification, inside of another job",
        patterns=(
            r"Unable to create step for job (?P<job>\d+)(?:\+\d+)?: Invalid generic resource \(gres\) specification",
            r"SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive",
            r"Unable to create step for job (?P<job>\d+)(?:\+\d+)?: Invalid Trackable RESource",
            r"\bStep requested GRES \((?P<gres>\S+)\) not found in the job",
        ),
        cause="the step requests GPUs or memory that the job[ {job}] does not have[ under the name {gres}]. Often sbatch or srun was "
        "called inside another job, and inherits its SLURM_ variables",
        probe="in the job: env | grep -E 'SLURM_|SBATCH_' | grep -E 'GRES|GPU|MEM'; scontrol show job[ {job}]",
        fix="submit from a login node, or unset the inherited variables first: `for v in ${!SLURM_*} "
        "${!SRUN_*}; do unset $v; done`. Or correct --gres, --gpus and --mem of srun. Without --gres and --gpus, a step gets all GPUs of its job",
        link="https://github.com/mehta-lab/waveorder/issues/201",
    ),
    Entry(
        id="slurm-time-limit",
        title="CANCELLED AT ... DUE TO TIME LIMIT",
        explains=(
            "slurm-cancelled",
            "terminated",
            "io-error",
            "own-exception",
        ),
        patterns=(
            r"Pod was active on the node longer than the specified deadline",
            r"(?:STEP|JOB) (?P<job>\d+)\S* ON (?P<host>\S+) CANCELLED AT \S+ DUE TO TIME LIMIT",
            r"DUE TO TIME LIMIT",
            r"[Jj]ob (?P<job>\d+) has exceeded its time limit",
            r"job killed: walltime \d+ exceeded limit",
            r"TERM_RUNLIMIT: job killed",
            r"Job was active longer than specified deadline",
            r"current input .*hit its timeout of \d+s\b",
            r"\bMaxRuntimeExceeded\b",
            r"\bjob exceeded wallclock limit",
            r"\bexceeded hard wallclock time",
            r"exception type=timeout\b",
            r"Job not requeued because: timed-out",
            r"has not produced any output \(state: TIMEOUT",
            r"\bTIMEOUT +\d+:\d+$",
            r"\b[Jj]ob exceeded its walltime limit",
            r"\bTime limit exhausted for JobId=(?P<job>\d+)",
        ),
        context=r"(?P<lightning>Received SIGTERM: 15|[Bb]ypassing (?:signal )?SIGTERM|SLURM auto-requeueing enabled|\bv_num=\w+)",
        cause="[job {job}: ]the time limit is reached",
        probe="sacct[ -j {job}] -o state,elapsed,timelimit",
        fix="request more time (sbatch or salloc --time=LONGER; PBS: -l walltime; LSF: -W; Modal: timeout=; SageMaker: "
        "max_run). For long runs: --requeue, and --signal=USR1@600 with a handler in the training script that saves a "
        "checkpoint. B:USR1 signals the batch script alone[. Lightning (`{lightning}` in the log) needs srun, and "
        "--signal=SIGUSR1@600 without B:]",
        link="https://slurm.schedmd.com/sbatch.html#OPT_time",
    ),
    Entry(
        id="slurm-preempted",
        title="CANCELLED AT ... DUE TO PREEMPTION",
        patterns=(
            r"(?:STEP|JOB) (?P<job>\d+)\S* ON (?P<host>\S+) CANCELLED AT \S+ DUE TO PREEMPTION",
            r"DUE TO PREEMPTION",
            r"TERM_PREEMPT: job killed",
            r"Job not requeued because: preempted",
            r"has not produced any output \(state: PREEMPTED",
            r"\) [\d/ :-]+ Job was evicted\.",
        ),
        cause="a job with a higher priority took the nodes",
        probe="sacct[ -j {job}] -o state,reason",
        fix="use sbatch --requeue with checkpoints, or another --qos or partition",
        link="https://slurm.schedmd.com/preempt.html",
    ),
    Entry(
        id="slurm-node-failure",
        title="CANCELLED AT ... DUE TO NODE FAILURE; srun: error: Node failure on",
        patterns=(
            r"DUE TO NODE \S*\s?FAILURE",
            r"srun: error: Node failure on (?P<host>[^\s,]+)",
            r"salloc: error: Node failure on (?P<host>[^\s,]+)",
            r"error: Nodes? (?P<host>\S+) not responding, setting DOWN",
            r"\brequeue (?:job )?\S+ due to failure of node (?P<host>[\w.-]+)",
            r"(?P<host>[\w.-]+): shepherd died from signal",
            r"has not produced any output \(state: NODE_FAIL",
            r"\bNODE_FAIL +\d+:\d+$",
            r"launch failed on \S+: Couldn't forward RPC .* to child (?P<host>[\w.-]+)",
            r"ping failed on \S+: No reply from (?P<host>[\w.-]+) after",
            r"job killed: node \d+ \((?P<host>[\w.-]+)\) requested job terminate",
            r"\bmissing from batch node (?P<host>[\w.-]+) ",
            r"\bKilling \S+ on failed node (?P<host>[\w.-]+)",
            r"\bNot responding +\w+ +\d{4}-\d\d-\d\dT[\d:]+ +(?P<host>\S+)",
        ),
        cause="{host|a node} of the job failed or stopped responding",
        probe="sinfo -R[; scontrol show node {host}]",
        fix="submit again[ with --exclude={host}]",
        link="https://slurm.schedmd.com/troubleshoot.html",
    ),
    Entry(
        id="slurm-requeued",
        title="CANCELLED AT ... DUE TO JOB REQUEUE",
        patterns=(
            r"DUE TO JOB REQUEUE",
            r"TERM_REQUEUE_\w+: job killed",
        ),
        cause="[job {job}: ]the job was requeued, and starts again automatically. Nothing in the script failed",
        probe="sacct[ -j {job}] --duplicates -o jobid,state,start,end",
        fix="resume from the last checkpoint. To save one before: --signal=USR1@120 with a handler in the training script; "
        "to disable requeueing: sbatch --no-requeue",
        link="https://slurm.schedmd.com/sbatch.html#OPT_requeue",
    ),
    Entry(
        id="slurm-cancelled",
        title="CANCELLED AT ..., Job allocation has been revoked, Force Terminated job",
        kind="consequence",
        patterns=(
            r"(?:JOB|STEP) (?P<job>\d+)\S* ON (?P<host>\S+) CANCELLED AT \S+(?: DUE (?:to|TO) SIGNAL \w+)? \*\*\*",
            r"srun: Force Terminated (?:job|JobId|StepId)",
            r"salloc: Force Terminated (?:job|JobId|StepId)",
            r"_job_complete: JobId=(?P<job>\d+) WTERMSIG 15$",
            r"(?:srun|salloc: error): Job allocation \d+ has been revoked",
            r"TERM_(?:OWNER|ADMIN|FORCE_OWNER|FORCE_ADMIN|EXTERNAL_SIGNAL): job killed",
            r"Job deleted at request of (?P<user>\S+)",
            r"has not produced any output \(state: CANCELLED",
        ),
        cause="the job was cancelled[ by {user}]: scancel, bkill or qdel, or a task that failed before",
        probe="sacct[ -j {job}] -o jobid,state,exitcode,user (LSF: bhist -l; PBS: qstat -xf)",
        fix="find the failure before this line. If nothing failed, find out which user cancelled the job: `sacct[ -j {job}] "
        "-o user`",
        link="https://slurm.schedmd.com/scancel.html",
    ),
    Entry(
        id="step-wait",
        kind="generic",
        title="srun: First task exited 30s ago; tasks 0-3: running; task 4: exited; Terminating StepId",
        patterns=(r"srun: First task exited (?P<seconds>\d+)s ago",),
        context=r"(?:StepId\S*|step:\S+) task (?P<rank>\d+): exited",
        cause="a task[, rank {rank},] ended {seconds} seconds before the others, and srun then ended these (srun --wait, or "
        "WaitTime of slurm.conf). That task failed, or had less work",
        probe="the last lines of the task that ended; scontrol show config | grep WaitTime",
        fix="correct that task, and end all ranks together: dist.barrier() before the end. If ranks may end apart: srun "
        "--wait=0 --kill-on-bad-exit=1",
        link="https://slurm.schedmd.com/srun.html#OPT_wait",
    ),
    Entry(
        id="slurm-out-of-memory",
        title="Detected 1 oom_kill event; srun: error: task: Out Of Memory",
        patterns=(
            r"Detected \d+ oom.kill event",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Out Of Memory",
            r"tasks have been OOM Killed",
            r"killed by the cgroup out-of-memory handler",
            r"Exceeded (?:job|step) memory limit",
            r"exceeded (?:virtual )?memory limit \(\d+ > \d+\), being killed",
            r"TERM_(?:MEMLIMIT|SWAP): job killed",
            r"PBS: job killed: p?v?mem .*exceeded limit",
            r"exceeded MEM usage hard limit",
            r"Job exceeded a memory resource limit",
            r"(?:Error from \S+@(?P<host>[\w.-]+): )?(?:Docker job|Job) has gone over (?:cgroup )?memory limit",
            r"has not produced any output \(state: OUT_OF_ME",
            r"\bOUT_OF_ME\S* +\d+:\d+$",
        ),
        cause="the job used more host memory than it requested, and was killed",
        probe="sacct[ -j {job}] -o jobid,maxrss,reqmem,state (LSF: bjobs -l; PBS: qstat -xf; HTCondor: condor_q -held)",
        fix="sbatch --mem=MORE (--mem=0: all memory of the node; LSF: -M; PBS: -l mem; HTCondor: request_memory), or use "
        "fewer DataLoader workers",
        link="https://slurm.schedmd.com/sbatch.html#OPT_mem",
    ),
    Entry(
        id="slurm-kill-failed",
        title="Kill task failed; the node is drained",
        patterns=(
            r"\bKill task failed\b",
            r"(?:JOB|STEP) \S+ (?:STEPD )?TERMINATED ON (?P<host>\S+) AT .* DUE TO JOB NOT ENDING",
        ),
        cause="a process did not end, not even after SIGKILL. It waits in a driver or a file system",
        probe="on the node: ps -eo pid,stat,wchan:30,args | awk '$2 ~ /D/'",
        fix="as administrator: reboot the node, or set a longer UnkillableStepTimeout in slurm.conf",
        link="https://slurm.schedmd.com/slurm.conf.html#OPT_UnkillableStepTimeout",
    ),
    Entry(
        id="lsf-limit",
        title="TERM_CPULIMIT: job killed after reaching LSF CPU usage limit; PBS: job killed: ncpus 32.4 exceeded limit 8",
        patterns=(
            r"TERM_(?P<limit>CPULIMIT|PROCESSLIMIT|THREADLIMIT|CWD\w*|LOAD|WINDOW|DEADLINE): (?P<reason>job killed.*)",
            r"PBS: job killed: (?P<reason>(?:ncpus|cpupercent|cput|pcput|file size|nproc) .*exceeded limit.*)",
        ),
        cause="the scheduler (LSF, PBS) ended the job: {reason}",
        probe="LSF: bhist -l JOB; bqueues -l QUEUE. PBS: qstat -xf JOB | grep -E 'ncpus|cput'",
        fix="request more, or use another queue: for CPU time bsub -c, for processes -p, for threads -T; PBS: -l select=1:ncpus=N. Torch starts many threads: set "
        "OMP_NUM_THREADS and fewer DataLoader workers",
        link="https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=execution-about-job-termination-reasons",
    ),
)
