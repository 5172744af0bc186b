"""SLURM requests that are rejected, and steps that do not start."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="srun-not-used",
        title="Only one GPU is used under SLURM; the srun command is available but is not used",
        kind="hint",
        patterns=(r"The `?srun`? command is available on your system but is not used",),
        cause="the script was started without srun, or with one task for several GPUs",
        probe="in the job: echo $SLURM_NTASKS $SLURM_NTASKS_PER_NODE $SLURM_STEP_ID",
        fix="use #SBATCH --ntasks-per-node=GPUS and `srun python train.py`, or `ddpkit launch -b slurm -N NODES -n "
        "GPUS`",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/18104",
    ),
    Entry(
        id="lightning-slurm-tasks",
        title="You set devices=2 in Lightning, but the number of tasks per node configured in SLURM does not match",
        patterns=(
            r"You set .* in Lightning, but the number of (?:tasks per node|nodes) configured in SLURM",
            r"You set .--ntasks=\d+. in your SLURM bash script, but this variable is not supported",
        ),
        explains=("own-exception",),
        cause="Lightning's devices and num_nodes differ from the tasks and nodes of the SLURM job, or --ntasks is set in place "
        "of --ntasks-per-node",
        probe="in the job: echo $SLURM_NNODES $SLURM_NTASKS_PER_NODE",
        fix="set #SBATCH --nodes and --ntasks-per-node to num_nodes and devices of the Trainer. For one "
        "process in an interactive job: SLURM_JOB_NAME=interactive",
        link="https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html",
    ),
    Entry(
        id="tasks-contradict",
        title="SLURM_NTASKS and SLURM_NTASKS_PER_NODE contradict each other",
        patterns=(
            r"can't honor --ntasks-per-node set to (?P<asked>\d+)",
            r"Warning: can't run \d+ processes on \d+ nodes",
        ),
        kind="hint",
        cause="the options of sbatch and srun request different numbers of tasks",
        probe="in the job: env | grep SLURM_.*TASKS",
        fix="pass --nodes and --ntasks-per-node to sbatch only",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/20391",
    ),
    Entry(
        id="cpus-per-task-lost",
        title="cpus-per-task set by two different environment variables; one core despite --cpus-per-task",
        patterns=(r"cpus-per-task set by two different environment variables",),
        cause="srun of Slurm 22.05 to 23.02 ignores sbatch's --cpus-per-task and reads only SRUN_CPUS_PER_TASK. Or "
        "both are set and differ",
        probe="in the job: env | grep CPUS_PER_TASK; srun --version",
        fix="srun --cpus-per-task=$SLURM_CPUS_PER_TASK ...",
        link="https://github.com/reframe-hpc/reframe/issues/2655",
    ),
    Entry(
        id="step-outlives-rank",
        title="One rank died, and the others hang until the time limit",
        cause="by default, srun does not end a step when one task fails",
        probe="squeue -s; sacct -j JOB",
        fix="srun --kill-on-bad-exit=1 --wait=60 (`ddpkit launch -b slurm` passes both)",
        link="https://github.com/pytorch/pytorch/issues/76287",
    ),
    Entry(
        id="step-waits",
        title="Job step creation temporarily disabled, retrying (Requested nodes are busy)",
        kind="hint",
        patterns=(
            r"step creation temporarily disabled, retrying",
            r"step creation still disabled, retrying",
        ),
        explains=("slurm-time-limit",),
        cause="srun waits: another step of the job holds the resources, for example srun inside srun",
        probe="in the job: squeue -s[ -j {job}]",
        fix="srun --overlap ..., with at most the job's nodes, tasks and --mem",
        link="https://slurm.schedmd.com/srun.html#OPT_overlap",
    ),
    Entry(
        id="step-refused",
        title="srun: error: Unable to create step for job",
        patterns=(
            r"srun: error: Unable to create step for job (?P<job>\d+)(?:\+\d+)?: (?P<reason>(?!Zero Bytes|Socket timed|Job has already|Invalid job id|Job is not running|Incompatible versions|Unable to contact).*)",
        ),
        cause="SLURM cannot start a step[ in job {job}][: {reason}]. Usually another step holds the resources (srun inside srun), or the "
        "step requests more than the job has. `Already completing`: the job or step was cancelled, or its time is over",
        probe="in the job: srun --overlap -N1 -n1 hostname; squeue -s[ -j {job}]",
        fix="srun --overlap ..., with at most the job's nodes, tasks and --mem. In --nodelist, write the names as `squeue -o %N` prints them",
        link="https://slurm.schedmd.com/srun.html#OPT_overlap",
    ),
    Entry(
        id="interactive-slurm-waits",
        title="A script hangs in salloc or srun --pty: it waits for SLURM_NTASKS ranks",
        cause="a library reads SLURM_ variables and treats the single process as rank 0 of many",
        probe="env | grep -E 'SLURM_(NTASKS|STEP|PROCID)'",
        fix="srun python train.py. For one process: env -u SLURM_NTASKS -u SLURM_JOB_ID python train.py",
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
        cause="the account or QOS has reached a limit of jobs, GPUs, nodes or time",
        probe="sacctmgr -n show assoc user=$USER format=account,partition,qos,maxjobs,maxsubmit,grptres; sacctmgr show qos format=name,maxsubmitpu,maxtrespu,maxwall",
        fix="wait until other jobs end, request less, or use another --qos or --account",
        link="https://slurm.schedmd.com/resource_limits.html",
    ),
    Entry(
        id="slurm-no-config",
        title="fetch_config: DNS SRV lookup failed; Could not establish a configuration source",
        patterns=(
            r"fetch_config: DNS SRV lookup failed",
            r"s_p_parse_file: unable to status file \S*slurm\.conf",
            r"resolve_ctls_from_dns_srv: .*error",
        ),
        explains=("slurm-unreachable",),
        cause="SLURM's commands find no configuration on this host: it has no slurm.conf at the place "
        "where they look, and DNS has no record _slurmctld._tcp with the controller",
        probe="ls -l /etc/slurm/slurm.conf $SLURM_CONF; host -t SRV _slurmctld._tcp",
        fix="run the command on a login node of the cluster, or export SLURM_CONF=/path/to/slurm.conf. In a container, "
        "mount /etc/slurm. As administrator: repair DNS, or copy slurm.conf to this host",
        link="https://slurm.schedmd.com/configless_slurm.html",
    ),
    Entry(
        id="slurm-unreachable",
        doubtful=True,
        title="Unable to contact slurm controller; Socket timed out on send/recv operation",
        patterns=(
            r"Unable to contact slurm controller",
            r"^(?!.*(?:launch|slurm_receive_msgs).*failed).*Socket timed out on send/recv operation",
            r"^(?!.*slurm_receive_msgs.*failed).*Zero Bytes were transmitted or received",
            r"Slurm controller not responding",
            r"Rate limit exceeded, please retry (?:momentarily|later)",
            r"(?:Slurm backup controller|Controller is) in standby mode",
            r"Could not establish a configuration source",
            r"Unable to establish control(?:ler)? machine address",
            r"\b(?:slurm_set_addr|sinfo|squeue|srun|sbatch|scontrol|slurmd)\b.*: Unable to resolve \"",
        ),
        explains=("slurm-bad-request",),
        cause="the SLURM controller does not answer. It is down or busy (also: too many requests of this user), or slurm.conf on this host contains another "
        "controller",
        probe="scontrol ping",
        fix="try again after a minute, and ask less often (one sacct or squeue for all jobs). If it still fails, contact the administrators",
        action="retry",
        reason="SLURM's controller did not answer",
        link="https://slurm.schedmd.com/troubleshoot.html",
    ),
    Entry(
        id="munge",
        doubtful=True,
        title="Munge decode failed: Expired credential; Protocol authentication error",
        patterns=(
            r"Munge (?:decode|encode) failed: (?P<reason>.*)",
            r"Protocol authentication error",
            r"failed on node (?P<host>\S+): Job credential expired",
            r"Job credential expired",
            r'Failed to access "(?P<path>/\S*munge\S*)"',
        ),
        explains=("io-error",),
        cause="the credential was rejected[ on {host}]. The clocks differ (Expired, Rewound), the munge keys differ, or munged "
        "does not run. One expires, too, where so many steps start at once that the launch takes minutes",
        probe="date on both hosts; munge -n | ssh {host|localhost} unmunge",
        fix="set the clocks (`chronyc makestep`), install the same /etc/munge/munge.key everywhere, "
        "or let an administrator start munge again. Start fewer steps at once",
        action="retry",
        reason="an authentication of SLURM failed",
        link="https://github.com/dun/munge/wiki/FAQ",
    ),
    Entry(
        id="slurm-credential",
        title="Application launch failed: Invalid job credential; Credential signature check: Credential data mismatch",
        patterns=(
            r"Credential signature check: (?P<reason>.*)",
            r"launch failed(?: on node (?P<host>[\w.-]+))?: Invalid job credential",
            r"Invalid job credential from ",
        ),
        explains=("task-launch-failed",),
        cause="a node rejected the credential of the job[ ({reason})]: its slurmd has another version than the "
        "controller, its munge key or slurm.conf differs, or the clocks differ",
        probe="on the controller and on that node: slurmd -V; md5sum /etc/munge/munge.key; date +%s",
        fix="as administrator: install one version of SLURM on all nodes, with the same munge.key and slurm.conf, and "
        "restart munge and slurmd. As user: srun --exclude={host|NODE}",
        action="exclude",
        reason="the host rejects the credential of the job",
        link="https://github.com/dun/munge/issues/126",
    ),
    Entry(
        id="slurm-spool-script",
        title="/var/spool/slurmd/job123/...: No such file or directory, often inside of a container",
        patterns=(
            r"^(?!.*(?:socket directory |state file )).*?(?P<path>/\S*spool/slurm\S*?)\W?: (?:\[Errno 2\] )?No such file or directory",
            r"No such file or directory: '(?P<path>/\S*spool/slurm[^']*)'",
            r"can't open file '?(?P<path>/\S*spool/slurm[^':]*)'?: \[Errno 2\]",
        ),
        explains=("file-missing", "script-missing", "command-not-found", "not-executable"),
        cause="{path} is in slurmd's spool directory. That is a copy of the batch script alone, on the first "
        "node alone, and a container does not mount it. The script found its directory from $0 or "
        "BASH_SOURCE",
        probe="grep -nE 'BASH_SOURCE|dirname' SCRIPT; scontrol show job $SLURM_JOB_ID | grep Command",
        fix="in the batch script, use $SLURM_SUBMIT_DIR or a full path instead of $(dirname $0). With a "
        "container, mount that directory",
        link="https://slurm.schedmd.com/sbatch.html",
    ),
    Entry(
        id="slurm-no-workdir",
        title="couldn't chdir to: No such file or directory: going to /tmp instead",
        patterns=(
            r"couldn't chdir to `(?P<path>[^']+)': (?P<reason>[^:]+)",
            r"error: Could not open std(?:out|err) file (?P<path>\S+)",
            r"slurmstepd: error: Could not open \S+ (?P<path>\S+)",
            r"TERM_CWD_NOTEXIST: ",
            r"\bthe specified working directory:\s*(?:$|\n)",
            r"can't open output file \"(?P<path>[^\"]+)\": (?P<reason>.*)",
        ),
        context=r"^\s*Working directory: (?P<path>\S+)",
        explains=(
            "script-missing",
            "file-missing",
            "task-launch-failed",
        ),
        cause="{path} does not exist on the node, or this user cannot write to it. It is not on a shared file system",
        probe="srun -l ls -ld {path}",
        fix="submit from a directory on a shared file system, or use sbatch --chdir=DIR --output=FILE (mpirun: --wdir DIR)",
        link="https://slurm.schedmd.com/sbatch.html#OPT_chdir",
    ),
    Entry(
        id="slurm-no-job",
        title="Invalid job id specified; Unable to confirm allocation for job",
        patterns=(
            r"Unable to create step for job (?P<job>\d+)(?:\+\d+)?: (?P<reason>(?:Job has already|Invalid job id|Job is not running).*)",
            r"Unable to confirm allocation for job (?P<job>\d+)",
            r"Invalid job id specified",
            r"Slurm job (?P<job>\d+) has expired",
            r"Expired or invalid job (?P<job>\d+)",
        ),
        cause="the job[ {job}] has ended, or SLURM_JOB_ID in this shell belongs to an earlier job",
        probe="squeue --me; echo $SLURM_JOB_ID",
        fix="unset SLURM_JOB_ID SLURM_JOBID, then start again",
        link="https://slurm.schedmd.com/srun.html",
    ),
    Entry(
        id="mpi-without-pmi",
        title="The application appears to have been direct launched using srun, but OMPI was not built with SLURM's PMI support",
        patterns=(r"OMPI was not built with SLURM",),
        explains=("slurm-kill-on-mpi", "mpi-init-failed", "mpi-abort"),
        cause="srun started a program of Open MPI, and this Open MPI was built without support for SLURM's PMI or PMIx",
        probe="ompi_info | grep -iE 'pmi|slurm'; srun --mpi=list",
        fix="start it with the mpirun of this Open MPI inside of the allocation. Or load an Open MPI of the site that was built "
        "for SLURM, and start it with srun --mpi=pmix. torch alone needs no MPI: srun --mpi=none",
        link="https://docs.open-mpi.org/en/main/launching-apps/slurm.html",
    ),
    Entry(
        id="slurm-kill-on-mpi",
        title="This version of Slurm ... MPI plugin; PMI2_Init failed to initialize",
        patterns=(
            r"Invalid MPI type '\w+'",
            r"Couldn't load specified plugin name for mpi/",
            r"PMI2_Init failed",
            r"MPI plugin type '(?P<plugin>\w+)' (?:not found|is not)",
            r"Couldn't find the specified plugin name for mpi/",
            r"cannot (?:find mpi plugin for|create mpi context for) mpi/",
            r"long invalid MPI type, --mpi=list",
            r"pmi/pmix: can not load PMIx library",
            r"PMII_singinit: execv failed",
            r"mpi/pmi2: invalid PMI1 init command",
        ),
        explains=("mpi-error", "mpi-abort", "task-launch-failed"),
        cause="srun's --mpi asks for a PMI that this SLURM does not have or cannot load, or the MPI library needs another one",
        probe="srun --mpi=list",
        fix="srun --mpi=TYPE, with a type of `srun --mpi=list` that the MPI library uses (pmix or pmi2). torch alone needs no "
        "MPI: srun --mpi=none",
        link="https://slurm.schedmd.com/mpi_guide.html",
    ),
    Entry(
        id="user-unknown",
        title="User not found on host; getpwuid(): uid not found; cannot find name for user ID",
        patterns=(
            r"User not found on host",
            r"getpwuid\(\): uid not found: (?P<uid>\d+)",
            r"[Nn]o user exists for uid (?P<uid>\d+)",
            r"\buser: unknown userid (?P<uid>\d+)",
            r"cannot find name for (?:user|group) ID (?P<uid>\d+)",
            r"[Uu]nable to look up current user",
            r"couldn't get passw\w* entry",
            r"Group ID not found on host",
            r"(?:srun|slurmstepd|slurmd)\S*: (?:fatal|error): Invalid user id: (?P<uid>\d+)",
        ),
        explains=(
            "task-launch-failed",
            "container-start-failed",
            "compile-failed",
        ),
        cause="the node, or the container, does not know this user[ (uid {uid})]. Its user database (LDAP, "
        "SSSD, /etc/passwd) does not answer, or has no entry",
        probe="on that node: getent passwd $(id -u); systemctl status sssd",
        fix="exclude the node, and report it to the administrators: its directory service is broken. In a "
        "container, mount /etc/passwd and /etc/group, or set USER and HOME and TORCHINDUCTOR_CACHE_DIR",
        action="exclude",
        reason="the host does not know the user",
        link="https://slurm.schedmd.com/troubleshoot.html",
    ),
    Entry(
        id="cpu-layout",
        title="Unable to layout tasks on given cpus; failed to distribute tasks (bind_type:...)",
        patterns=(
            r"srun: error: .*failed to distribute tasks",
            r"Unable to layout tasks on given cpus",
            r"CPU binding outside of job step allocation",
            r"Unable to satisfy cpu bind request",
        ),
        explains=("task-launch-failed",),
        cause="SLURM could not place the step's tasks on the CPUs of the job. The step asks for more CPUs a task, or "
        "for another binding, than the job has. Often both come from variables of an outer job or step",
        probe="env | grep -E '^(SLURM_CPU_BIND|SLURM_CPUS_PER_TASK|SLURM_THREADS_PER_CORE|SBATCH_)'",
        fix="unset SLURM_CPU_BIND SLURM_CPUS_PER_TASK SLURM_THREADS_PER_CORE, or srun --cpu-bind=none with the "
        "--cpus-per-task of the job",
        link="https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/225",
    ),
    Entry(
        id="task-launch-failed",
        title="srun: error: task N launch failed",
        patterns=(
            r"srun: error: task (?P<rank>\d+) launch failed: (?P<reason>(?!Plugin init).*)",
            r"Task launch for \S+ failed on node (?P<host>\S+): (?P<reason>(?!No such process|Plugin init).*)",
            r"Application launch failed: (?P<reason>(?!Plugin init).*)",
            r"Task launch for \S+ failed: (?P<reason>.*)",
            r"slurm_receive_msgs: \[\[?(?P<host>[\w-]+)[\w.-]*\]:\d+\] failed: (?P<reason>.*)",
            r"(?P<reason>Prolog) failure on node (?P<host>\S+)",
            r"slurmstepd: error: (?P<reason>Prolog hung) on node (?P<host>[\w.-]+)",
            r"\bProlog (?P<reason>(?:failed|hung).*)",
            r"\b(?P<reason>Prolog) for job \d+ failed",
            r"slurmstepd: error: job_manager: exiting abnormally: (?P<reason>.*)",
            r"\(launch failed requeued held\)",
            r"error: container_p_join: (?P<reason>.*)",
            r"error: container_g_join failed: \d+",
            r"(?P<reason>timeout) waiting for task launch, started \d+ of \d+ tasks",
            r"error: (?:--task-prolog|TaskProlog) failed status=(?P<reason>\d+)",
            r"\[job \d+\] (?P<reason>prolog) failed status=",
            r"\berror: (?P<reason>(?:Unable to (?:attach to interconnect|configure MPI plugin)|Failed to invoke task plugins: task_p_pre_launch|IO setup failed|proctrack_g_create|x11 port forwarding setup failed|Failed mpi_\w+_prefork|Failed to set SELinux context|No executable program specified|\w+ task_prolog did not exit normally)\b.*)",
            r"\bslurmd error running JobId=\d+ on node\(s\)=(?P<host>\S+): (?P<reason>.*)",
            r"\berror: (?P<reason>Prolog) launch failure, JobId=\d+",
        ),
        explains=("command-not-found", "slurm-cancelled", "slurm-plugin-failed"),
        cause="a node could not start the task[: {reason}]",
        probe="srun -l hostname, and the node's slurmd log",
        fix="srun --exclude={host|NODE}. For a job that is held afterwards: scontrol release JOB. As administrator: check "
        "slurmd on the node, and for a prolog the scripts of `scontrol show config | grep -i prolog`",
        action="exclude",
        reason="SLURM cannot start a task on the host",
        link="https://slurm.schedmd.com/troubleshoot.html",
    ),
    Entry(
        id="dos-line-breaks",
        title="Batch script contains DOS line breaks; $'\\r': command not found; /bin/bash^M: bad interpreter",
        patterns=(
            r"Batch script contains DOS line breaks",
            r"\$'.*\\r': command not found",
            r"\^M: bad interpreter",
            r"unexpected token .\$'.*\\r'",
            r"\benv: .(?:ba|z)?(?:sh|python3?)\\r.: No such file",
            r"\bset: Illegal option -$",
            r"(?:^|^\d+: |[\]>]: ): invalid option",
            r"(?:^|^\d+: |[\]>]: ): not found$",
            r"(?:^|^\d+: |[\]>]: ): not \w+\.sh: \d+: *$",
            r"word unexpected \(expecting \"(?:in|do)\"\)",
            r"\\r'\] exits with return code",
            r"\bset: \w+: invalid option name$",
            r"(?:^|^\d+: |[\]>]: )': \[Errno 2\] No such file or",
            r"(?:^|^\d+: |[\]>]: ): No such file or directory$",
        ),
        explains=("command-not-found", "slurm-bad-request", "file-missing", "bad-arguments", "line-continued-badly"),
        cause="the script has line ends of Windows (CR LF), and the shell takes CR for a part of each command",
        probe="file SCRIPT; head -1 SCRIPT | od -c",
        fix="write the file with the line ends of Linux: dos2unix -n SCRIPT NEW_SCRIPT",
        link="https://slurm.schedmd.com/sbatch.html",
    ),
    Entry(
        id="slurm-tmpdir",
        title="slurmstepd: error: Unable to create TMPDIR; Setting TMPDIR to /tmp",
        kind="noise",
        patterns=(
            r"Unable to create TMPDIR \[",
            r"error: Setting TMPDIR to /tmp",
        ),
        cause="the directory in TMPDIR cannot be made on this node, and SLURM uses /tmp. This is harmless while /tmp has room",
        probe="echo $TMPDIR; df -h /tmp",
        fix="nothing to do, or unset TMPDIR before sbatch and srun",
        link="https://slurm.schedmd.com/srun.html",
    ),
    Entry(
        id="slurm-memory-invalid",
        title="Memory specification can not be satisfied",
        explains=("slurm-bad-request",),
        patterns=(r"Memory specification can not be satisfied",),
        cause="no node of the partition has so much memory for jobs as --mem or --mem-per-cpu requests",
        probe="sinfo -o '%P %n %m %e'; scontrol show node NODE | grep -E 'RealMemory|MemSpecLimit'",
        fix="request less: --mem below the column MEMORY (MB) of `sinfo -o '%P %n %m'`. --mem=0 requests all memory of a "
        "node. As administrator: check RealMemory in slurm.conf",
        link="https://slurm.schedmd.com/sbatch.html#OPT_mem",
    ),
    Entry(
        id="slurm-time-invalid",
        title="Requested time limit is invalid (missing or exceeds some limit)",
        explains=("slurm-bad-request",),
        patterns=(r"Requested time limit is invalid",),
        cause="the time limit is missing, or is longer than the partition, the account or the QOS permits",
        probe="sinfo -o '%P %l'; sacctmgr -n show qos format=name,maxwall",
        fix="set a shorter --time, or use a partition or a QOS with a longer limit (the column TIMELIMIT of `sinfo`)",
        link="https://slurm.schedmd.com/sbatch.html#OPT_time",
    ),
    Entry(
        id="slurm-gres-invalid",
        title="Invalid generic resource (gres) specification; Invalid Trackable RESource (TRES) specification",
        explains=("slurm-bad-request",),
        patterns=(
            r"Invalid generic resource \(gres\) specification",
            r"Invalid GRES specification",
            r"Invalid Trackable RESource \(TRES\) specification",
        ),
        cause="no node of the partition has the GPUs or other resources of --gres or --gpus under this name or in this "
        "number. Or the cluster defines none",
        probe="sinfo -o '%P %N %G'",
        fix="use a name and a number of the column GRES of `sinfo -o '%P %N %G'`. Where all entries are (null), omit "
        "--gres and --gpus",
        link="https://slurm.schedmd.com/gres.html",
    ),
    Entry(
        id="slurm-options-exclusive",
        title="fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive",
        patterns=(
            r"\b(?:srun|sbatch|salloc): (?:fatal|error): (?P<reason>-\S+)(?: is)? incompatable with (?P<other>.*\S)",
            r"\b(?:srun|sbatch|salloc): fatal: (?P<reason>.*\b(?:is|are) mutually exclusive(?: with [^.]*)?)",
        ),
        cause="two options exclude each other: {reason}[ and {other}]. One of them can come from an #SBATCH line, or from a SLURM_ variable "
        "of the job around it",
        probe="env | grep -E '^(SLURM|SBATCH|SRUN)_' | grep -E 'MEM|GPU|TRES|TASK'; grep '#SBATCH' SCRIPT",
        fix="keep one of the options, or unset the variable that the message names before srun or sbatch (SLURM_HOSTFILE asks for "
        "--distribution=arbitrary)",
        link="https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/342",
    ),
    Entry(
        id="slurm-commands-missing",
        title="srun: command not found; No such file or directory: 'scontrol'; SLURM does not appear to be installed",
        patterns=(
            r"\b(?P<program>srun|sbatch|salloc|scontrol|sinfo|squeue|sacct): (?:command )?not found",
            r"No such file or directory: '(?P<program>srun|sbatch|salloc|scontrol|sinfo|squeue|sacct)'",
            r"SLURM does not appear to be installed",
            r"Could not detect \"(?P<program>srun)\", are you indeed on a slurm cluster",
            r"\busable \"(?P<program>srun)\" command in its path",
            r"Could not detect \"srun\", are you indeed on a slurm cluster",
        ),
        explains=("command-not-found", "file-missing", "own-exception"),
        cause="{program|SLURM's command} is not on this machine. It is no host of a SLURM cluster, or a container without "
        "SLURM's commands",
        probe="command -v {program|srun}; echo $SLURM_JOB_ID",
        fix="without SLURM, start the script with torchrun or `ddpkit launch`, and its launcher option without slurm. In a "
        "container, call {program|srun} outside of it (Lightning: SLURMEnvironment(auto_requeue=False)), or mount SLURM's "
        "commands, /etc/slurm and /run/munge",
        link="https://github.com/Lightning-AI/pytorch-lightning/issues/21404",
    ),
    Entry(
        id="slurm-count-compressed",
        title="invalid literal for int() with base 10: '1(x2)'",
        patterns=(r"invalid literal for int\(\) with base 10: '(?P<text>[\d,]*\d\(x\d+\)[\d,()x]*)'",),
        cause="the code reads a variable of SLURM as a number. {text} is its short form: N(xM) stands for N on each of M "
        "nodes (SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE)",
        probe="in the job: env | grep -E 'SLURM_.*_PER_NODE'",
        fix="read SLURM_NTASKS_PER_NODE instead, or take the digits before `(`. If the code is of a package, update it",
        link="https://github.com/sehoffmann/dmlcloud/issues/39",
    ),
    Entry(
        id="slurm-pmix-network",
        title="mpi/pmix: Cannot establish direct connection; collective timeout; failed to send temp kvs",
        patterns=(
            r"mpi/pmix\w*: .*Cannot establish direct connection to (?P<host>[\w.-]+)",
            r"mpi/pmix\w*: .*(?:Cannot establish the connection|Can't find address for host|exceeded the retry limit)",
            r"mpi/pmix\w*: .*collective timeout",
            r"mpi/pmi2: failed to send temp kvs",
        ),
        explains=("slurm-cancelled", "task-launch-failed"),
        cause="SLURM's PMI plugins on the nodes cannot reach each other[ ({host})]. A firewall drops their ports, or a node's "
        "name resolves to another network",
        probe="on each node of the job: getent hosts {host|NODE}; scontrol show node {host|NODE} | grep NodeAddr",
        fix="torch alone needs no MPI: srun --mpi=none. For MPI: export SLURM_PMIX_DIRECT_CONN=false, and open all TCP ports "
        "between the nodes",
        link="https://github.com/openpmix/openpmix/issues/3098",
    ),
    Entry(
        id="slurm-io-lost",
        title="step_launch_notify_io_failure: aborting, io error with slurmstepd on node",
        kind="generic",
        patterns=(
            r"aborting, io error with slurmstepd on node (?P<index>\d+)",
            r"Aborting, io error and missing step on node (?P<index>\d+)",
        ),
        cause="srun lost the connection to slurmstepd on a node of the step (number {index} from 0). The node or its network "
        "failed, or slurmstepd was killed, for example when memory was full",
        probe="scontrol show hostnames $SLURM_JOB_NODELIST; sacct -j JOB -o jobid,state,exitcode; sinfo -R",
        fix="look at that node's slurmd log and `dmesg -T | tail`. Start again without the node: --exclude=NODE",
        link="https://slurm.schedmd.com/troubleshoot.html",
    ),
    Entry(
        id="slurm-cgroup",
        title="unable to add pids to '/sys/fs/cgroup/...': No space left on device",
        kind="hint",
        patterns=(
            r"write value '\d+' to '(?P<path>/sys/fs/cgroup/[^']+)' failed: ",
            r"slurmstepd\S*: error: unable to add pids to '(?P<path>/sys/fs/cgroup/[^']+)'",
            r"unable to create cgroup '(?P<path>/sys/fs/cgroup/[^']+)' ?: ",
            r"slurmstepd\S*: error: Could not create scope directory (?P<path>/sys/fs/cgroup/[^:]+): ",
        ),
        explains=("disk-full", "task-launch-failed"),
        cause="slurmstepd cannot use the control group {path}. No disk is full: the node's slurm.conf names CPUs that it does "
        "not have, or its kernel has run out of control groups",
        probe="on that node: slurmd -C; scontrol show node NODE | grep CPU; cat /proc/cgroups",
        fix="run without the node (--exclude=NODE). As administrator: correct the node's CPUs in slurm.conf as `slurmd -C` "
        "prints them, or reboot the node",
        link="https://github.com/Azure/cyclecloud-slurm/issues/388",
    ),
    Entry(
        id="slurm-node-warnings",
        title="slurm task_prolog can not be executed; unable to set taskset; get_joules_task: can't get info from slurmd",
        kind="noise",
        patterns=(
            r"slurm task_prolog can not be executed",
            r"hwloc_get_obj_below_by_type\(\) failing",
            r"task\[\d+\] unable to set taskset",
            r"unable to instanciate \w+ \d+ memory cgroup",
            r"unable to add task\[pid=\d+\] to memory cg",
            r"_get_joules_task: can't get info from slurmd",
            r"slurm_get_node_energy: ",
            r"Failed to send MESSAGE_TASK_EXIT",
            r"slurmstepd: error: _is_a_lwp: ",
            r"xcpuinfo_hwloc_topo_load: failed",
            r"Could not run slurm task_prolog",
            r"Can't propagate RLIMIT_\w+ of",
            r"spank: x11\.so: Plugin file not found",
            r"Ignoring conflicting option \"x11\" in plugin",
            r"slurmstepd\S*: error: TMPDIR \[.*\] is not writeable",
            r"\bslurm_send_node_msg: \[.*\] slurm_bufs_sendto\(.*\) failed",
        ),
        cause="slurmstepd warns of the node's accounting or binding, and starts the task nevertheless",
        probe="nothing to check",
        fix="nothing to do",
        link="https://github.com/galaxyproject/galaxy/pull/6293",
    ),
    Entry(
        id="batch-request-refused",
        title="qsub: Job violates queue and/or server resource limits; Job not submitted; Unable to run job",
        patterns=(
            r"\bqsub: submit error \((?P<reason>.*?)\)?$",
            r"\bqsub: (?P<reason>[A-Z].*)",
            r"\bqsub: (?P<reason>(?:would exceed|illegal|cannot|could not|directive error|file must|submit filter|invalid|unknown|script|error|no|not) .*)",
            r"\bError in (?:rusage|select|span|order|cu|same|affinity) section: (?P<reason>.*)",
            r"^\s*(?P<reason>\S.*?)\.? Job not submitted",
            r"Unable to run job: (?P<reason>.*)",
            r"DeniedByDrmException: code \d+: (?P<reason>.*)",
            r"\bflux\S*: ERROR: .*(?P<reason>unsatisfiable request)",
            r"exception type=alloc severity=0 (?P<reason>.*)",
            r"(?P<reason>Not enough resources available) to schedule job",
        ),
        explains=("own-exception",),
        cause="the scheduler refused the request: {reason}",
        probe="PBS: qstat -Qf QUEUE; LSF: bqueues -l QUEUE; SGE: qconf -sq QUEUE; Flux: flux resource list",
        fix="change what the message names (queue, project, time, memory, GPUs) to what the queue permits",
        link="https://docs.alcf.anl.gov/running-jobs/",
    ),
    Entry(
        id="slurm-node-address",
        title="srun: error: _fwd_tree_get_addr: can't find address for host nid006677, check slurm.conf",
        patterns=(r"can't find address for host (?P<host>[\w.-]+), check slurm\.conf",),
        explains=("slurm-unreachable", "task-launch-failed"),
        cause="srun does not know the address of {host}: the slurm.conf of this host or container does not name that node, or "
        "its name does not resolve here",
        probe="getent hosts {host}; scontrol show node {host} | grep NodeAddr",
        fix="use the cluster's own slurm.conf here (in a container: mount /etc/slurm), or srun --exclude={host}. As "
        "administrator: the same slurm.conf on all hosts, then `scontrol reconfigure`",
        link="https://github.com/eth-cscs/cscs-reframe-tests/pull/224",
    ),
    Entry(
        id="slurm-plugin-failed",
        kind="generic",
        title="srun: error: task 0 launch failed: Plugin initialization failed",
        patterns=(
            r"\blaunch failed: Plugin initialization failed",
            r"failed on node (?P<host>\S+): Plugin initialization failed",
            r"Plugin stack initialization failed",
        ),
        cause="a plugin of SLURM did not start on {host|the node}: pyxis, another SPANK plugin, or one for cgroups. The reason is in "
        "the node's slurmd log",
        probe="on that node: grep -iE 'error|fatal' /var/log/slurm/slurmd.log | tail; cat /etc/slurm/plugstack.conf; stat -fc %T "
        "/sys/fs/cgroup",
        fix="srun --exclude={host|NODE}, if other nodes start. As administrator: read that log, install the plugin for this version of "
        "SLURM, and CgroupPlugin=autodetect in cgroup.conf",
        link="https://github.com/SergioMEV/slurm-for-dummies/issues/12",
    ),
    Entry(
        id="slurmd-cgroup",
        title="cannot find cgroup plugin for cgroup/v2; cgroup namespace 'freezer' not mounted; slurmd initialization failed",
        patterns=(
            r"cannot find cgroup plugin for (?P<version>cgroup/v\d)",
            r"specified plugin name for (?P<version>cgroup/v\d)",
            r"cgroup namespace '\w+' not mounted\. aborting",
            r"cannot connect to dbus system daemon",
            r"\bUnable to initialize cgroup plugin",
        ),
        cause="slurmd does not start: it cannot use the control groups of this node[ ({version})]. It was built without their plugin, runs "
        "in a container without systemd and dbus, or is configured for the other version",
        probe="stat -fc %T /sys/fs/cgroup; ls /usr/lib*/slurm* | grep cgroup; cat /etc/slurm/cgroup.conf",
        fix="install SLURM built with libdbus-1-dev and libbpf (for version 2). In a container: IgnoreSystemd=yes in cgroup.conf, with "
        "--privileged. Without control groups: ProctrackType=proctrack/linuxproc, TaskPlugin=task/affinity, CgroupPlugin=disabled",
        link="https://slurm.schedmd.com/cgroup_v2.html",
    ),
    Entry(
        id="slurmctld-state",
        title="error: Could not open node state file /var/spool/slurm/node_state",
        kind="hint",
        patterns=(r"Could not open (?:node|job|trigger|reservation|partition) state file (?P<path>/[^\s:]+)",),
        cause="slurmctld found no saved state, {path}. At its first start this is normal. Later, it forgets the jobs that run",
        probe="scontrol show config | grep StateSaveLocation; ls -l {path}",
        fix="as administrator: put StateSaveLocation on a disk that stays and that SlurmUser owns",
        link="https://slurm.schedmd.com/slurm.conf.html#OPT_StateSaveLocation",
    ),
    Entry(
        id="slurmd-config",
        title="fatal: Unable to determine this slurmd's NodeName; can't stat gres.conf file /dev/nvidia0",
        patterns=(
            r"Unable to determine this slurmd's (?P<missing>NodeName)",
            r"(?:can't stat|Waiting for) gres\.conf file (?P<path>/[^\s:]+)",
            r"We were configured to autodetect (?P<library>\w+) functionality, but we weren't able",
            r"\bParsing error at unrecognized key: (?P<key>\S+)",
            r"\bslurm(?:d|ctld|dbd): fatal: (?P<reason>.*)",
        ),
        explains=("slurm-unreachable", "slurm-no-config"),
        cause="a daemon of SLURM stopped, or does not start[: {reason}][: no {missing} is this host's][: no device {path}][: no library for {library}][: it does not "
        "know the key {key}]. Its slurm.conf or gres.conf does not fit this host or version",
        probe="on that host: hostname -s; slurmd -C; slurmd -V; ls -l /dev/nvidia*; grep -iE 'NodeName|Gres' /etc/slurm/*.conf",
        fix="as administrator: write NodeName as `slurmd -C` prints it, and in gres.conf only devices that exist (nvidia-smi at boot makes "
        "them). Use one slurm.conf on all hosts, then restart slurmctld and slurmd",
        link="https://slurm.schedmd.com/slurm.conf.html",
    ),
    Entry(
        id="slurm-node-invalid",
        title="Setting node state to INVAL with reason: gres/gpu count reported lower than configured; Low RealMemory",
        patterns=(
            r"Setting node (?P<host>\S+) state to INVAL with reason:(?P<reason>.*)",
            r"(?P<resource>\S+) count reported lower than configured (?P<counts>\(\d+ < \d+\))",
            r"\bNode (?P<host>\S+) has low (?P<resource>real_memory size|cpu count|socket\S+ count) (?P<counts>\(\d+ < \d+\))",
            r"\bLow (?P<resource>RealMemory)\b",
        ),
        cause="SLURM starts no jobs on {host|the node}, as it reported less than slurm.conf promises[: {reason}][: {resource}][ {counts}]. A GPU or memory is lost, "
        "the driver is not loaded, or the configured number is too high",
        probe="on {host|that node}: slurmd -C; nvidia-smi -L; free -m; dmesg -T | grep -E 'NVRM|EDAC'; scontrol show node {host|NODE}",
        fix="exclude the node. As administrator: repair it, or write what `slurmd -C` prints into "
        "slurm.conf (RealMemory, CPUs, Gres). Restart slurmd, then resume the node: scontrol show "
        "node {host|NODE}",
        action="exclude",
        reason="the host has less than SLURM's configuration promises",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/195",
    ),
    Entry(
        id="slurm-node-unavailable",
        doubtful=True,
        title="Required node not available (down, drained or reserved); ReqNodeNotAvail, UnavailableNodes",
        patterns=(
            r"Required node not available \(down, drained or reserved\)",
            r"\bReqNodeNotAvail, *UnavailableNodes:(?P<host>[^\s)]+)",
            r"Required partition not available \(inactive or drain\)",
            r"Partition in DOWN state",
            r"System submissions disabled",
            r"Job can not start due to maintenance reservation",
            r"Nodes required for job are DOWN, DRAINED or reserved",
            r"(?:srun|salloc): error: Something is wrong with the boot of the nodes",
        ),
        explains=("slurm-bad-request",),
        cause="the job waits, or was rejected: nodes that it needs[ ({host})], or its partition, are down, drained, or reserved for maintenance. A job whose "
        "--time reaches into a reservation waits, too",
        probe="sinfo -s; sinfo -R; sinfo -N -l; scontrol show reservation",
        fix="omit --nodelist, use another partition, or a --time that ends before the maintenance. An "
        "administrator resumes it when the reason of `sinfo -R` is gone",
        link="https://slurm.schedmd.com/job_reason_codes.html",
    ),
    Entry(
        id="slurm-controller-disk",
        title="Batch job submission failed: I/O error writing script/environment to file",
        patterns=(r"I/O error writing script/environment to file",),
        explains=("slurm-bad-request",),
        cause="the SLURM controller could not store the job: the disk of its StateSaveLocation is full or read-only",
        probe="on the controller: df -h $(scontrol show config | awk '/StateSaveLocation/ {print $3}')",
        fix="nothing is wrong with the request: tell the administrators, and submit again later. As administrator: free that disk",
        link="https://slurm.schedmd.com/slurm.conf.html#OPT_StateSaveLocation",
    ),
    Entry(
        id="pyxis-missing",
        title='srun: unrecognized option \'--container-image\'; SPANK plugin "pyxis" option "container-image" not found',
        patterns=(
            r"(?:srun|sbatch|salloc): (?:error: )?unrecognized option '--container-",
            r"SPANK plugin \"pyxis\" option \"\S+\" not found",
        ),
        explains=("slurm-bad-request",),
        cause="this SLURM does not know srun's --container options: the plugin pyxis is missing on this host, or a compute node",
        probe="srun --help | grep container-image, on the login node and on a compute node: srun -w NODE srun --help",
        fix="start the image otherwise: srun apptainer exec --nv IMAGE. As administrator: install pyxis and enroot on login "
        "and compute nodes, name it in plugstack.conf, and restart slurmd. In sbatch, it needs pyxis 0.12",
        link="https://github.com/NVIDIA/pyxis/wiki/Installation",
    ),
    Entry(
        id="slurm-option-unknown",
        title="sbatch: unrecognized option '--gpus-per-node=8'; srun: invalid option -- 'z'",
        patterns=(
            r"\b(?P<program>sbatch|srun|salloc): (?:error: )?(?:unrecognized|invalid|ambiguous) option (?:-- )?'(?P<option>[^']+)'",
        ),
        explains=("slurm-bad-request", "slurm-unreachable"),
        cause="{program} of this SLURM does not know the option {option}. It is misspelled, or newer than this version: the "
        "--gpus options came with 19.05, --overlap with 20.11",
        probe="{program} --version; {program} --help | grep -i gpu",
        fix="correct the option, or use an older one: --gres=gpu:N in place of --gpus-per-node=N. Options of your own "
        "program come after its name",
        link="https://slurm.schedmd.com/sbatch.html",
    ),
    Entry(
        id="slurm-array-invalid",
        title="Batch job submission failed: Invalid job array specification",
        patterns=(r"Invalid job array specification",),
        explains=("slurm-bad-request", "launcher-summary", "own-exception"),
        cause="the indexes of --array are wrong, or one is not below MaxArraySize, which is 1001 by default",
        probe="scontrol show config | grep -E 'MaxArraySize|MaxJobCount'",
        fix="use indexes below MaxArraySize, and submit more than one array. With submitit: submit the tasks in parts, and "
        "slurm_array_parallelism for the number that run at once",
        link="https://slurm.schedmd.com/job_array.html",
    ),
    Entry(
        id="srun-no-socket",
        title="srun: error: unable to initialize step context socket: Address already in use",
        patterns=(r"unable to initialize step context socket: (?P<reason>.*)",),
        explains=("step-refused", "port-in-use"),
        cause="srun got no port on this host to listen for its tasks: {reason}. The ports of SrunPortRange, or the open files of the "
        "user, are used up, often by many srun at once",
        probe="scontrol show config | grep SrunPortRange; ss -ltn | wc -l; ulimit -n; pgrep -c srun",
        fix="start fewer srun at a time on this host, or from sbatch on compute nodes; ulimit -n 4096. As administrator: widen "
        "SrunPortRange",
        link="https://github.com/PavlidisLab/rnaseq-pipeline/issues/91",
    ),
    Entry(
        id="slurm-accounting-unreachable",
        kind="hint",
        title="sacct: error: _open_persist_conn: failed to open persistent connection to host:localhost:6819: Connection refused",
        patterns=(
            r"failed to open persistent connection to host:(?P<server>[^:\s]+):\d+: (?P<reason>.*)",
            r"Problem talking to the database: (?P<reason>.*)",
        ),
        explains=("slurm-bad-request",),
        cause="SLURM's accounting daemon, slurmdbd,[ on {server}] does not answer: {reason}. Jobs that run are not touched. sacct and "
        "sacctmgr fail, and new accounts can be rejected",
        probe="scontrol show config | grep AccountingStorageHost; nc -vz {server|HOST} 6819",
        fix="use squeue and scontrol show job meanwhile. As administrator: start slurmdbd and its database, correct "
        "AccountingStorageHost in slurm.conf, and open port 6819",
        link="https://slurm.schedmd.com/accounting.html",
    ),
    Entry(
        id="slurm-auth-plugin",
        title="error: Couldn't find the specified plugin name for auth/jwt; cannot find auth plugin for auth/munge",
        patterns=(
            r"cannot find (?:auth|cred) plugin for (?P<plugin>\S+)",
            r"specified plugin name for (?P<plugin>(?:auth|cred)/\w+)",
            r"cannot create (?:auth|cred) context for (?P<plugin>\S+)",
        ),
        explains=("slurm-unreachable", "slurm-no-config", "slurmd-config"),
        cause="this SLURM has no plugin {plugin}: its package or library is missing, or PluginDir names another directory. A "
        "container often has a part of SLURM only",
        probe="scontrol show config | grep PluginDir; ls /usr/lib*/slurm* /usr/lib/*/slurm* | grep -E 'auth|cred'; ldconfig -p | grep "
        "-E 'munge|jwt'",
        fix="install SLURM's plugins of the cluster's version, with libmunge2 (for auth/jwt: libjwt). In a container, mount the plugin "
        "directory, libmunge and /run/munge, or call SLURM's commands outside",
        link="https://slurm.schedmd.com/authentication.html",
    ),
    Entry(
        id="slurm-node-differs",
        kind="hint",
        title="slurmd: error: Node configuration differs from hardware: CPUs=2:4(hw)",
        patterns=(
            r"Node configuration differs from hardware: (?P<counts>.*)",
            r"\bNode (?P<host>\S+) appears to have a different slurm\.conf",
        ),
        explains=("cpu-layout", "slurm-cgroup", "task-launch-failed", "slurm-node-invalid"),
        cause="slurm.conf does not fit {host|this node}[: {counts}. Left is the configured number, right the found one]. Its slurmd read "
        "another file than the controller, or the hardware is not as configured. Tasks can get too few CPUs, or none",
        probe="on the controller and on {host|that node}: md5sum /etc/slurm/slurm.conf; on the node: slurmd -C; lscpu",
        fix="as administrator: write what `slurmd -C` prints into slurm.conf (CPUs, SocketsPerBoard, CoresPerSocket, "
        "ThreadsPerCore), copy that file to all nodes, and restart slurmctld and slurmd. In a virtual machine or container the numbers can be meant so",
        link="https://slurm.schedmd.com/slurm.conf.html#SECTION_NODE-CONFIGURATION",
    ),
    Entry(
        id="srun-output-abandoned",
        kind="hint",
        title="srun: error: eio_handle_mainloop: Abandoning IO 60 secs after job shutdown initiated",
        patterns=(r"\bAbandoning IO (?P<seconds>\d+) secs after job shutdown initiated",),
        cause="srun waited {seconds} seconds for the rest of the tasks' output, and then stopped. A task ended while a process of it ran "
        "on, or wrote very much. The last lines can be missing here. The job itself can have succeeded",
        probe="sacct -j JOB -o jobid,state,exitcode; squeue -s; on the node: ps -eo pid,ppid,stat,args",
        fix="write each rank's output to a file: srun --output=log-%t.txt. End the processes that the script starts before it ends",
        link="https://docs.nersc.gov/jobs/errors/",
    ),
    Entry(
        id="slurm-gpu-binding",
        kind="hint",
        title="Bind request does not specify any devices within the allocation for task 0. Binding to the first device",
        patterns=(r"Bind request .*does not specify any devices within the allocation for task (?P<task>\d+)",),
        explains=("duplicate-gpu", "invalid-device-ordinal"),
        cause="--gpu-bind, or --gpus-per-task, names no GPU of the job for task {task}, and SLURM gave it the first one. Other ranks can use "
        "the same GPU",
        probe="srun -l bash -c 'echo $SLURM_LOCALID $CUDA_VISIBLE_DEVICES; nvidia-smi -L'; env | grep -E 'GPU_BIND|GPUS_PER_TASK'",
        fix="srun --gpu-bind=none with --gpus-per-node, and torch.cuda.set_device(LOCAL_RANK). Or unset SLURM_GPU_BIND and "
        "SLURM_GPUS_PER_TASK before srun",
        link="https://slurm.schedmd.com/srun.html#OPT_gpu-bind",
    ),
    Entry(
        id="slurm-step-killed",
        kind="consequence",
        title="mpi/pmix: Error handler invoked: status = -61; srun: error: node1: tasks 0-2: Killed",
        patterns=(
            r"mpi/pmix\w*: .*Error handler invoked: status = -?\d+",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Killed",
        ),
        needs=r"mpi/pmix\w*: .*Error handler invoked: status",
        explains=("killed",),
        cause="PMIx noticed that a task had ended, and SLURM then killed the other tasks of the step",
        probe="the line with `Exited with exit code`, and the output of that task",
        fix="correct the task that exited with a code. Where all tasks are `Killed`, one may have used too much memory: sacct -j JOB -o "
        "jobid,maxrss,state",
        link="https://slurm.schedmd.com/mpi_guide.html",
    ),
    Entry(
        id="submitit-no-environment",
        title="RuntimeError: Could not figure out which environment the job is runnning in. Known environments: slurm, local, debug",
        patterns=(r"Could not figure out which environment the job is run\w* in",),
        explains=("own-exception",),
        cause="submitit did not find its variable SUBMITIT_EXECUTOR in this process. SLURM did not pass the environment on "
        "(--export=NONE), or the script was started without submitit",
        probe="in the job: env | grep -E 'SUBMITIT|SLURM_EXPORT_ENV|SBATCH_EXPORT'",
        fix='pass slurm_srun_args=["--export=ALL"] to update_parameters, or unset SBATCH_EXPORT and SLURM_EXPORT_ENV. Within another job, submit '
        "inside of submitit.helpers.clean_env()",
        link="https://github.com/facebookresearch/dora/issues/58",
    ),
    Entry(
        id="submitit-no-shared-folder",
        title="RuntimeError in get_shared_folder of run_with_submitit.py",
        patterns=(r"RuntimeError: No shared folder available",),
        explains=("own-exception",),
        cause="run_with_submitit.py writes into /checkpoint, a directory of the cluster for which the project was written. It does not "
        "exist here",
        probe="grep -n -A8 'def get_shared_folder' run_with_submitit.py; df -h $HOME",
        fix="let get_shared_folder() return a directory on a file system that all nodes share, or pass --job_dir",
        link="https://github.com/facebookincubator/submitit/issues/1595",
    ),
    Entry(
        id="srun-nodes-contradict",
        title="srun: error: Only allocated 2 nodes asked for 4; Minimum node count > allocated node count",
        patterns=(
            r"srun: (?:error|fatal): (?P<reason>Only allocated \d+ nodes asked for \d+)",
            r"srun: (?:error|fatal): (?P<reason>Minimum node count > (?:allocated|maximum) node count .*)",
            r"srun: (?:error|fatal): (?P<reason>--relative and .* incompatible with count of allocated nodes .*)",
            r"srun: (?:error|fatal): (?P<reason>SLURM_JOB_NUM_NODES environment variable conflicts .*)",
            r"srun: (?:error|fatal): (?P<reason>You asked for \d+ tasks but hostlist specified \d+ nodes)",
            r"\berror: (?P<reason>Requested node(?:list)? \S+ (?:is also in|overlaps with) .*)",
        ),
        explains=("slurm-bad-request", "step-refused"),
        cause="srun asks for other nodes than this job has: {reason}. Its -N, -w, -r or -x does not fit the job, or variables of "
        "another job are set",
        probe="in the job: scontrol show hostnames $SLURM_JOB_NODELIST; env | grep -E 'SLURM_(N?NODES|JOB_NUM|NODELIST|HOSTFILE)'",
        fix="srun without -N, -w and -r takes all nodes of the job. Otherwise give sbatch the same --nodes, and unset the variables of "
        "the other job",
        link="https://slurm.schedmd.com/srun.html#OPT_nodes",
    ),
    Entry(
        id="srun-multi-prog",
        title="srun: error: Line 3 of configuration file multi.conf invalid; no record for task id 3",
        patterns=(
            r"srun: error: (?P<reason>Line \d+ of configuration file (?P<path>[^\s,]+).* (?:invalid|too long|not executable))",
            r"srun: error: (?P<reason>Configuration file (?P<path>\S+) invalid, no record for task id \d+)",
            r"srun: error: (?P<reason>(?:Invalid task range|Duplicate record for task|Task range specification with asterisk).*)",
        ),
        explains=("slurm-bad-request",),
        cause="srun --multi-prog cannot use its file[ {path}]: {reason}. Each line is TASKS PROGRAM ARGUMENTS, and each task needs "
        "exactly one line",
        probe="cat -A {path|FILE}; echo $SLURM_NTASKS",
        fix="one line for each range, `0 ./first` and `1-7 ./second`, for as many tasks as -n sets, with a program that is executable on the "
        "nodes",
        link="https://slurm.schedmd.com/srun.html#SECTION_MULTIPLE-PROGRAM-CONFIGURATION",
    ),
    Entry(
        id="slurm-het-job",
        title="Job steps that span multiple components of a heterogeneous job are not currently supported",
        patterns=(
            r"srun: (?:error|fatal): (?P<reason>Job steps that span multiple components of a heterogeneous job are not currently supported)",
            r"srun: (?:error|fatal): (?P<reason>Attempt to run a job step with het group value of .*)",
            r"srun: (?:error|fatal): (?P<reason>Requested het-group offset exceeds highest hetjob index .*)",
            r"srun: (?:error|fatal): (?P<reason>--mpi is only supported in the first heterogeneous component)",
        ),
        explains=("slurm-bad-request", "step-refused"),
        cause="srun could not use the parts of a heterogeneous job: {reason}",
        probe="in the job: env | grep HET_SIZE; scontrol show job $SLURM_JOB_ID | grep -E 'HetJob|NodeList'",
        fix="one srun for each part, `srun --het-group=0 ... : --het-group=1 ...`, with numbers from 0. Where the site permits no common step, "
        "request one homogeneous job",
        link="https://slurm.schedmd.com/heterogeneous_jobs.html",
    ),
    Entry(
        id="slingshot-resources",
        title="Slingshot service allocation failed on cxi0; Only 12 transmit command queues available on cxi0 (requested 32)",
        patterns=(
            r"Only (?P<free>\d+) (?P<what>[a-z ]+) available on (?P<device>\S+) \(requested (?P<wanted>\d+)\)",
            r"Slingshot service allocation failed on (?P<device>\S+)",
            r"No (?P<what>list entry|trigger list entry|counter) pools available on (?P<device>cxi\d+)",
            r"Could not open CXI device\[\d+\] dev_id=\d+ \((?P<device>\S+)\): (?P<code>-?\d+)",
        ),
        context=r"Only (?P<free>\d+) (?P<what>[a-z ]+) available on \S+ \(requested (?P<wanted>\d+)\)",
        explains=("slurm-no-workdir", "task-launch-failed"),
        cause="SLURM could not reserve the Slingshot adapter {device} of a node for this step[: {free} {what} are free, and it asks for "
        "{wanted}]. Other steps on the node hold them, or an ended step left them",
        probe="on that node: cxi_service list; squeue -s -w NODE",
        fix="do not start many steps on one node at once, or request fewer: srun --network=def_txqs=0 or a lower --cpus-per-task. For another "
        "node: --exclude=NODE. As administrator: remove services of ended jobs",
        action="exclude",
        reason="the network adapter of the host has no free resources",
        link="https://slurm.schedmd.com/srun.html#OPT_network",
    ),
    Entry(
        id="slurm-bad-request",
        title="Unable to allocate resources: Invalid account, partition, gres ...",
        explains=("slurm-cancelled",),
        patterns=(
            r"error: (?P<reason>CPU count per node can not be satisfied)",
            r"(?:failed|resources): (?=(?P<reason>Requested node configuration is not available))Requested node (?P<what>configuration) is not available",
            r"Unable to allocate resources: (?P<reason>(?!No error)[^\\]*)",
            r"Job submit/allocate failed: (?P<reason>[^\\]*)",
            r"Batch job submission failed: (?P<reason>[^\\]*)",
            r"\bslurm_(?:submit_batch_job|allocate_resources\w*)(?: error|\(\))?: (?P<reason>.*)",
            r"(?:sbatch|srun|salloc): error: (?P<reason>.*\b(?:[Jj]obs?|[Ss]ubmission|[Rr]equest)(?: \w+){0,2} (?:rejected|denied|refused|not allowed|not permitted|disallowed)\b.*)",
            r"error: (?P<reason>invalid partition specified: .*)",
            r"error: (?P<reason>This does not look like a batch script.*)",
            r"error: (?P<reason>Invalid (?:--\w+|account|qos|partition|time limit|numeric value|directive) .*)",
            r"(?:sbatch|srun|salloc): error: (?P<reason>(?:Invalid|Unable to open file|[Uu]nknown|Unrecognized|More processors) .*)",
            r"(?P<reason>Requested partition configuration) not available now",
            r"\berror: (?P<reason>invalid number of (?:tasks|nodes|cpus).*)",
            r"sbatch: error: (?P<reason>\*\*\* ?[Ee]rror:? .*)",
            r"sbatch: error: (?P<reason>Batch script (?:is empty|contains only whitespace).*)",
            r"\bFailedJobError: sbatch: error: (?P<reason>(?!Batch job)[^\\]*)",
        ),
        branches=(
            ("node", r"Requested node configuration|count per node|number of (?:tasks|nodes|cpus)|More processors"),
            (
                "option",
                r"(?i)\binvalid (?!number)|not valid|partition configuration|unknown|unrecognized|unable to open|batch script",
            ),
        ),
        cause="SLURM rejected the request[: {reason}][. No node that this job may use has that {what} at once: tasks, CPUs, memory, "
        "GPUs, features, reservation]",
        probe="{node? sinfo -o '%P %D %c %m %G %f'; env | grep -E '^(SBATCH|SALLOC|SLURM)_'; }{option? sinfo -s; sacctmgr -n show assoc user=$USER "
        "format=account,partition,qos}",
        fix="{node? lower -N, -n, -c, --mem or --gres to what `sinfo -o '%P %D %c %m %G'` shows; some cores may be reserved. Options also come "
        "from SBATCH_*, SALLOC_* and SLURM_* variables, for example a reservation: start from a new shell. }{option? correct the option "
        "that the message is about (--account, --partition, --gres, --qos). }`sbatch --test-only` tests it",
        overcome_by=r"\bhas been allocated resources\b|\bGranted job allocation\b",
        link="https://slurm.schedmd.com/sbatch.html",
    ),
    # After all others: it takes what a site's plugin prints, which can be any text.
    Entry(
        id="slurm-site-rule",
        title="sbatch: error: a rule of the site; Batch job submission failed: Unspecified error",
        patterns=(
            r"sbatch: error: (?!Batch job submission failed|CPU count per|Memory specification|invalid partition|Unable to|Requested|Invalid)(?P<reason>[^\\]*[A-Za-z]{3}[^\\]*)",
            r"salloc: error: (?!Job submit/allocate failed|Unable to allocate|CPU count per|Memory specification|invalid partition|Unable to|Requested|Invalid)(?P<reason>.*[A-Za-z]{3}.*)",
            r"srun: error: (?!Job submit/allocate failed|Unable to allocate|CPU count per|Memory specification|invalid partition|Unable to|Requested|Invalid)(?P<reason>.*[A-Za-z]{3}.*)",
        ),
        needs=r"(?:job submission failed|allocate failed): [A-Z]|allocate resources: Unspecified error",
        explains=("slurm-bad-request",),
        cause="a rule of this site rejected the request: {reason}",
        probe="sinfo -o '%P %l %G'; sacctmgr -n show assoc user=$USER format=account,partition,qos",
        fix="change the request as the site wants it, for example --gres=gpu:N for a partition of GPUs, or --account. "
        "`sbatch --test-only` tests it",
        link="https://slurm.schedmd.com/job_submit_plugins.html",
    ),
    Entry(
        id="slurm-script-lost",
        title="slurmstepd: error: execve(): /var/spool/slurmd/job00089/slurm_script: No such file or directory",
        patterns=(
            r"execve\(\): (?P<path>\S*/job\d+/slurm_script): (?P<reason>No such file or directory|Permission denied)",
        ),
        explains=("slurm-spool-script", "not-executable", "command-not-found", "script-missing", "task-launch-failed"),
        cause="SLURM cannot start its own copy of the batch script, {path}: {reason}. The spool directory of that node is gone, is in "
        "a cleaned or private /tmp, or is mounted noexec. Or the node lacks the program that the script's first line (#!) names",
        probe="head -1 of the script; scontrol show config | grep SlurmdSpoolDir; on the node: ls -ld of that directory",
        fix="submit again with sbatch --exclude={host|NODE}. As administrator: set SlurmdSpoolDir to a directory outside of /tmp that "
        "is not mounted noexec, and restart slurmd there",
        action="exclude",
        reason="SLURM's copy of the batch script is not usable on the host",
        link="https://github.com/galaxyproject/ansible-slurm/issues/37",
    ),
    Entry(
        id="srun-program-tested",
        title="srun: fatal: Can not execute /opt/conda/bin/python",
        patterns=(r"\bsrun: fatal: Can not execute (?P<program>.+)",),
        cause="srun looks for {program} on the host where it was called, and does not find it there or may not execute it. SLURM does so with "
        "--bcast, --test-exec or LaunchParameters=test_exec. A program of the image is not on the host",
        probe="ls -l {program}; scontrol show config | grep LaunchParameters",
        fix="start it by a shell that both have: srun ... bash -c '{program} ...'. Without a "
        "container: correct the path, or make it executable",
        link="https://github.com/NVIDIA/pyxis/issues/104",
    ),
    Entry(
        id="slurm-versions",
        title="Incompatible versions of client and server code",
        patterns=(
            r"Incompatible versions of client and server code",
            r"\bprotocol_version \d+ not supported",
            r"\bInvalid Protocol Version \d+ from",
        ),
        explains=("slurm-bad-request", "task-launch-failed", "slurm-unreachable", "slurm-credential"),
        cause="this command of SLURM is of another version than the daemon to which it connects. Usually it is a copy in a container or a conda "
        "environment, or the cluster was updated in part",
        probe="command -v srun sbatch; srun --version; scontrol show config | grep SLURM_VERSION; on the node: slurmd -V",
        fix="use the SLURM of the host: deactivate conda, or call srun and sbatch outside of the container. As administrator: install one "
        "version, first slurmdbd, then slurmctld, then the nodes, then the login nodes and images",
        link="https://slurm.schedmd.com/upgrades.html",
    ),
)
