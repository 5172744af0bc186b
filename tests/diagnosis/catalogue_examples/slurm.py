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
        (
            "srun: error: Unable to establish control machine address",
            "https://github.com/ZhangYuanhan-AI/NOAH/issues/5",
        ),
        (
            'sinfo: error: Unable to resolve "login": Host name lookup failure',
            "https://github.com/clustervision/trinity/issues/336",
        ),
        (
            "sbatch: error: Batch job submission failed: Rate limit exceeded, please retry momentarily",
            "SLURM 25.11, source",
        ),
        (
            "sbatch: error: Batch job submission failed: Slurm backup controller in standby mode",
            "SLURM 25.11, source",
        ),
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
        (
            "TERM_CWD_NOTEXIST: current working directory is not accessible or does not exist on the execution host.",
            "LSF, unverified",
        ),
        (
            'error: can\'t open output file "/home/ybZhang/changcheng_asr_ch/./q/test.log": Permission denied',
            "https://github.com/kaldi-asr/kaldi/issues/4358",
        ),
        (
            "mpirun was unable to launch the specified application as it could not\nchange to the specified working directory:\n\nWorking directory: /home/user/run\nNode: node2",
            "Open MPI 4.1.8, source",
        ),
        (
            "slurmstepd: error: Could not open stdout file /home/me/logs/1.out: No such file or directory\nslurmstepd: error: IO setup failed: No such file or directory",
            "Slurm 21.08, source",
        ),
    ),
    "slurm-no-job": (
        ("srun: error: Unable to confirm allocation for job 4711: Invalid job id specified", "Slurm 22.05, run"),
        (
            "srun: error: Slurm job 4711 has expired",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Check SLURM_JOB_ID environment variable. Expired or invalid job 4711",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Unable to create step for job 4711: Job has already finished",
            "SLURM 25.11, source",
        ),
    ),
    "mpi-without-pmi": (
        (
            "but OMPI was not built with SLURM's PMI support and therefore cannot",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/172",
        ),
    ),
    "slurm-kill-on-mpi": (
        (
            "srun: error: Couldn't find the specified plugin name for mpi/pmix: MPI plugin type 'pmix' not found",
            "Slurm 22.05, source",
        ),
        ("PMI2_Init failed to initialize.  Return code: 14", "Open MPI, documented"),
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
        (
            "srun: error: cannot find mpi plugin for mpi/pmix",
            "https://github.com/geoschem/geos-chem/issues/822",
        ),
        (
            'srun: error: "--mpi=pmix" -- long invalid MPI type, --mpi=list for acceptable types.',
            "https://github.com/geoschem/geos-chem/issues/822",
        ),
        (
            "srun: error:  mpi/pmix_v5: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx library",
            "https://github.com/pyiron/executorlib/pull/761",
        ),
        (
            "PMII_singinit: execv failed: No such file or directory",
            "https://github.com/pmodels/mpich/issues/6924",
        ),
        (
            "slurmstepd: error: mpi/pmi2: invalid PMI1 init command: `error'",
            "https://github.com/vsoch/vsoch.github.io/issues/21",
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
        (
            "srun: error: CPU binding outside of job step allocation, allocated CPUs are: 0x34000004.",
            "https://github.com/ascii-supply-networks/dagster-slurm/issues/64",
        ),
        (
            "srun: error: Task launch for StepId=1932.2 failed on node rzwhippet40: Unable to satisfy cpu bind request",
            "https://github.com/llnl/ATS/issues/133",
        ),
    ),
    "task-launch-failed": (
        ("srun: error: Application launch failed: Communication connection failure", "SLURM 22.05, source"),
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
        (
            "slurmstepd: error: job_manager: exiting abnormally: Slurmd could not execve job",
            "https://github.com/Azure/cyclecloud-slurm/issues/388",
        ),
        (
            "80520_36 n2 align.sh  PENDING  0:00  1 (launch failed requeued held)",
            "https://github.com/burrmill/burrmill/issues/15",
        ),
        (
            "slurmstepd: error: container_p_join: open failed /scratch/119383/.active: No such file or directory",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/123",
        ),
        (
            "slurmstepd: error: Prolog for job 4711 failed",
            "Slurm, unverified",
        ),
        (
            "salloc: Prolog failure on node k003-006",
            "https://github.com/AMDResearch/hpcfund/issues/69",
        ),
        (
            "srun: error: slurm_receive_msgs: [[n1.mytestdomain]:6818] failed: Socket timed out on send/recv operation",
            "https://github.com/NVIDIA/pyxis/issues/107",
        ),
        (
            "slurmstepd: error: Prolog hung on node worker-3",
            "https://github.com/nebius/nebius-solutions-library/pull/265",
        ),
        (
            "[2021-08-25T09:09:02.859] [15.0] error: container_p_join: setns failed for /slurm-tmp/15/.ns: Invalid argument",
            "https://github.com/ovis-hpc/ldms/issues/778",
        ),
        (
            "[2021-08-25T09:09:02.859] [15.0] error: container_g_join failed: 15",
            "https://github.com/ovis-hpc/ldms/issues/778",
        ),
        (
            "srun: error: timeout waiting for task launch, started 3 of 4 tasks",
            "Slurm 22.05, source",
        ),
        (
            "slurmstepd: error: TaskProlog failed status=256",
            "Slurm 22.05, source",
        ),
        (
            "slurmd: error: [job 4711] prolog failed status=1:0",
            "Slurm 22.05, source",
        ),
        (
            "slurmstepd: error: Failed to invoke task plugins: task_p_pre_launch error",
            "Slurm 21.08, source",
        ),
        (
            "slurmstepd: error: Unable to configure MPI plugin: Unspecified error",
            "Slurm 21.08, source",
        ),
        (
            "slurmctld: error: slurmd error running JobId=12 on node(s)=gpu01: Slurmd could not set up environment for batch job",
            "Slurm 23.11, unverified",
        ),
        (
            "slurmctld: error: Prolog launch failure, JobId=123",
            "Slurm 23.11, unverified",
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
        (
            "slurm_submit_batch_job: Invalid Trackable RESource (TRES) specification",
            "https://github.com/natefoo/slurm-drmaa/issues/68",
        ),
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
        (
            "srun: error: invalid partition specified: AE",
            "https://github.com/microsoft/nnfusion/issues/520",
        ),
        (
            "srun: error: invalid number of tasks (-n 0)",
            "slurm 22.05, source",
        ),
        (
            "sbatch: error: Batch script is empty!",
            "slurm 22.05, source",
        ),
        (
            "sbatch: error: *** Error partition 'h200_courant' is not valid for this job",
            "https://github.com/outerloop-science/outerloop/pull/176",
        ),
        (
            "salloc: error: Job submit/allocate failed: Requested node configuration is not available",
            "SLURM 22.05, run",
        ),
        (
            "submitit.core.utils.FailedJobError: sbatch: error: Job rejected: Please do not specify cores/CPUs/tasks for GPU jobs.",
            "https://github.com/facebookincubator/submitit/issues/1649",
        ),
        (
            "slurm_submit_batch_job error: Node count specification invalid",
            "Slurm 23.11, unverified",
        ),
        (
            "submitit.core.utils.FailedJobError: sbatch: error: Parameter --gres=gpu:1 no longer acceptable, please switch to --gpus=1",
            "https://github.com/facebookincubator/submitit/issues/1710",
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
        (
            "user: unknown userid 10042",
            "Go, os/user, source",
        ),
    ),
    "lightning-slurm-tasks": (
        (
            "ValueError: You set `devices=2` in Lightning, but the number of tasks per node configured "
            "in SLURM `--ntasks-per-node=1` does not match.",
            "Lightning 2.2, source",
        ),
        (
            "RuntimeError: You set `--ntasks=2` in your SLURM bash script, but this variable is not "
            "supported. HINT: Use `--ntasks-per-node=2` instead.",
            "Lightning 2.5, source",
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
        (
            "srun: error: s_p_parse_file: unable to status file /etc/slurm-llnl/slurm.conf: No such file or "
            "directory, retrying in 1sec up to 60sec",
            "https://github.com/NVIDIA/Megatron-LM/issues/172",
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
        (
            "cluster_tools._utils.call.CommandError: 'sbatch --parsable job.sh' exited with status 1: 'sbatch: error: memory limit must be provided for shared jobs\\nsbatch: error: Batch job submission failed: Invalid feature specification\\n'",
            "https://github.com/scalableminds/webknossos-libs/issues/1237",
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
        (
            "': [Errno 2] No such file or directoryle '",
            "Python 3.8 in a terminal, run",
        ),
        (
            ": No such file or directory",
            "https://github.com/fundamentalvision/Deformable-DETR/issues/47",
        ),
        (
            "train.sh: line 7: syntax error near unexpected token `$'do\\r''",
            "Bash 5.2, run",
        ),
        (
            "/usr/bin/env: ‘bash\\r’: No such file or directory",
            "GNU coreutils 9.1, run",
        ),
        (
            "sh: 3: set: Illegal option -",
            "dash 0.5.12, run",
        ),
        (
            ": not foundin.sh: 2:",
            "https://github.com/Pointcept/Pointcept/issues/100",
        ),
        (
            'scripts/train.sh: 18: Syntax error: word unexpected (expecting "in")',
            "https://github.com/Pointcept/Pointcept/issues/100",
        ),
        (
            ": not found",
            "dash 0.5.12, run",
        ),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['/home/kas/.conda/envs/llm/bin/python3.8', '-u', "
            "'src/train_bash.py', '--local_rank=0', '\\r'] exits with return code = 2",
            "https://github.com/hiyouga/LlamaFactory/issues/983",
        ),
        (
            ": invalid optionset: -",
            "Bash 5.2 in a terminal, run",
        ),
        (
            "train.sh: line 2: set: pipefail: invalid option name",
            "Bash 5.2, run",
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
    "slurm-options-exclusive": (
        (
            "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.",
            "https://github.com/dask/dask-jobqueue/issues/698",
        ),
        (
            "srun: fatal: SLURM_TRES_PER_TASK is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU",
            "https://github.com/snakemake/snakemake-executor-plugin-slurm/issues/342",
        ),
        (
            "sbatch: error: --nodes is incompatable with --distribution=arbitrary ",
            "https://github.com/esm-tools/esm_tools/issues/1148",
        ),
    ),
    "slurm-commands-missing": (
        (
            "train.sh: 1: srun: not found",
            "https://github.com/zhiyuanyou/SAFECount/issues/16",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'scontrol'",
            "https://github.com/facebookincubator/submitit/issues/1601",
        ),
        (
            "RuntimeError: SLURM does not appear to be installed.",
            "https://github.com/facebookresearch/ParlAI/issues/3084",
        ),
        (
            'RuntimeError: Could not detect "srun", are you indeed on a slurm cluster?',
            "https://github.com/facebookresearch/phyre-fwd/issues/3",
        ),
        (
            'The SLURM process starter for OpenMPI was unable to locate a\nusable "srun" command in its path. Please check your path\nand try again.',
            "https://github.com/sylabs/singularity/issues/1695",
        ),
        (
            'RuntimeError: Could not detect "srun", are you indeed on a slurm cluster?',
            "https://github.com/facebookresearch/phyre-fwd/issues/3",
        ),
    ),
    "slurm-count-compressed": (
        (
            "ValueError: invalid literal for int() with base 10: '1(x2)'",
            "https://github.com/sehoffmann/dmlcloud/issues/39",
        ),
    ),
    "slurm-pmix-network": (
        (
            "slurmstepd: error:  mpi/pmix_v2: pmixp_dconn_connect: lxbk1177 [0]: pmixp_dconn.h:246: Cannot "
            "establish direct connection to lxbk1177 (0)",
            "https://github.com/openpmix/openpmix/issues/3098",
        ),
        (
            "slurmstepd: error:  mpi/pmix_v2: _tcp_connect: lxbk1177 [0]: pmixp_dconn_tcp.c:139: Cannot "
            "establish the connection",
            "https://github.com/openpmix/openpmix/issues/3098",
        ),
        (
            "slurmstepd: error:  mpi/pmix_v3: pmixp_coll_tree_reset_if_to: node2 [1]: "
            "pmixp_coll_tree.c:1330: 0x14: collective timeout seq=0",
            "Slurm 22.05, source",
        ),
        (
            "slurmstepd: error: mpi/pmi2: failed to send temp kvs to compute nodes",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-io-lost": (
        (
            "srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node 3",
            "Slurm 22.05, source",
        ),
        (
            "srun: error: Aborting, io error and missing step on node 3",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-cgroup": (
        (
            "slurmstepd: error: common_file_write_uints: write value '39981' to "
            "'/sys/fs/cgroup/cpuset/slurm/uid_20006/job_6457/step_batch/cgroup.procs' failed: No space left "
            "on device",
            "https://github.com/Azure/cyclecloud-slurm/issues/388",
        ),
        (
            "slurmstepd: error: unable to add pids to '/sys/fs/cgroup/cpuset/slurm/uid_20006/job_6457/step_batch'",
            "https://github.com/Azure/cyclecloud-slurm/issues/388",
        ),
        (
            "slurmstepd: error: xcgroup_instantiate: unable to create cgroup "
            "'/sys/fs/cgroup/memory/slurm/uid_819800' : No space left on device",
            "https://github.com/galaxyproject/galaxy/pull/7429",
        ),
        (
            "slurmstepd: error: Could not create scope directory /sys/fs/cgroup/system.slice/slurmstepd.scope: No space left on device",
            "slurm 22.05, source",
        ),
    ),
    "slurm-node-warnings": (
        (
            "slurmstepd: error: run_command: slurm task_prolog can not be executed "
            "(/cm/local/apps/taskprolog) No such file or directory",
            "https://github.com/NVIDIA/pyxis/issues/135",
        ),
        (
            "slurmstepd: error: task/cgroup: unable to add task[pid=4711] to memory cg '(null)'",
            "https://github.com/galaxyproject/galaxy/pull/6293",
        ),
        (
            "slurmstepd: error: jobacct_gather/cgroup: unable to instanciate user 819800 memory cgroup",
            "https://github.com/galaxyproject/galaxy/pull/7429",
        ),
        (
            "slurmstepd: error: task/cgroup: hwloc_get_obj_below_by_type() failing, task/affinity plugin "
            "may be required",
            "https://github.com/lyulyul/shine-cluster/issues/29",
        ),
        (
            "slurmstepd: error: task/cgroup: task[0] unable to set taskset '0x0'",
            "https://github.com/lyulyul/shine-cluster/issues/29",
        ),
        (
            "slurmstepd: error: _get_joules_task: can't get info from slurmd",
            "https://github.com/geodesymiami/rsmas_insar/issues/512",
        ),
        (
            "slurmstepd: error: slurm_get_node_energy: Socket timed out on send/recv operation",
            "https://github.com/geodesymiami/rsmas_insar/issues/512",
        ),
        (
            "slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: Connection refused",
            "https://github.com/facebookincubator/submitit/issues/1708",
        ),
        (
            "slurmstepd: error: xcpuinfo_hwloc_topo_load: failed (load will be required after read failures).",
            "https://github.com/NVIDIA/pyxis/issues/29",
        ),
        (
            "slurmstepd: error: Could not run slurm task_prolog [/nfs/admin/slurm_taskprolog]: No such file "
            "or directory",
            "https://github.com/NVIDIA/pyxis/issues/29",
        ),
        (
            "slurmstepd: error: TMPDIR [/scratch-local/user] is not writeable",
            "https://github.com/NVIDIA/pyxis/issues/29",
        ),
        (
            "slurmstepd: error: Can't propagate RLIMIT_MEMLOCK of 65536 from submit host: Operation not permitted",
            "Slurm 22.05, source",
        ),
        (
            'srun: error: Ignoring conflicting option "x11" in plugin "x11"',
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/45",
        ),
        (
            "slurmstepd: error: spank: x11.so: Plugin file not found",
            "Slurm 22.05, source",
        ),
        (
            "slurmstepd: error: _is_a_lwp: open() /proc/24097/status failed: No such file or directory",
            "Slurm, jobacct_gather, source",
        ),
        (
            "slurm_send_node_msg: [socket:[3652652]] slurm_bufs_sendto(msg_type=SRUN_JOB_COMPLETE) failed: Connection reset by peer",
            "https://github.com/open-mpi/ompi/issues/11471",
        ),
    ),
    "batch-request-refused": (
        (
            "qsub: submit error (Job exceeds queue resource limits MSG=cannot satisfy queue max mem requirement)",
            "https://github.com/cBio/cbio-cluster/issues/93",
        ),
        (
            "qsub: Job violates queue and/or server resource limits",
            "https://github.com/argonne-lcf/user-guides/issues/218",
        ),
        (
            "gpu_long: No such queue. Job not submitted.",
            "LSF, unverified",
        ),
        (
            'Unable to run job: job rejected: the requested parallel environment "orte" does not exist.',
            "Cluster Flow, unverified",
        ),
        (
            "flux-run: ERROR: [Errno 22] unsatisfiable request",
            "Flux, unverified",
        ),
        (
            "job.exception type=alloc severity=0 unsatisfiable request",
            "Flux, unverified",
        ),
        (
            "ERROR: Not enough resources available to schedule job.",
            "https://github.com/radical-cybertools/radical.pilot/issues/1783",
        ),
        (
            "drmaa.errors.DeniedByDrmException: code 17: job rejected: the requested parallel environment "
            '"smp" does not exist',
            "https://github.com/EducationalTestingService/skll/issues/269",
        ),
        (
            "qsub: submit filter returned an error code, aborting job submission.",
            "https://github.com/cBio/cbio-cluster/issues/200",
        ),
        (
            "Error in rusage section: The merged job-level and application-level rusage",
            "https://github.com/bcbio/bcbio-nextgen/issues/2803",
        ),
    ),
    "pyxis-missing": (
        (
            "srun: unrecognized option '--container-image=nvcr.io#nvidia/pytorch:24.01-py3'",
            "https://github.com/NVIDIA/pyxis/issues/58",
        ),
        (
            'error: Warning: SPANK plugin "pyxis" option "container-image" not found',
            "https://github.com/NVIDIA/pyxis/issues/84",
        ),
    ),
    "slurm-node-address": (
        (
            "srun: error: _fwd_tree_get_addr: can't find address for host nid006677, check slurm.conf",
            "https://github.com/eth-cscs/cscs-reframe-tests/pull/224",
        ),
    ),
    "slurm-plugin-failed": (
        (
            "srun: error: task 0 launch failed: Plugin initialization failed",
            "https://github.com/SergioMEV/slurm-for-dummies/issues/12",
        ),
        (
            "srun: error: Task launch for StepId=4711.0 failed on node node3: Plugin initialization failed",
            "Slurm 22.05, source",
        ),
        (
            "[321.0] error: Plugin stack initialization failed.",
            "https://github.com/NVIDIA/pyxis/issues/4",
        ),
    ),
    "slurmd-cgroup": (
        (
            "[2023-10-16T10:42:01.139] error: cannot find cgroup plugin for cgroup/v2",
            "https://github.com/nateGeorge/slurm_gpu_ubuntu/issues/7",
        ),
        (
            "slurmd: error: Couldn't load specified plugin name for cgroup/v2: Plugin init() callback failed",
            "https://github.com/stackhpc/slurm-k8s-cluster/issues/38",
        ),
        (
            "[2020-07-09T09:55:38.584] error: cgroup namespace 'freezer' not mounted. aborting",
            "https://github.com/omnivector-solutions/snap-slurm/issues/82",
        ),
        (
            "slurmd: error: cgroup_dbus_attach_to_scope: cannot connect to dbus system daemon: Failed to connect to socket /run/dbus/system_bus_socket: No such file or directory",
            "https://github.com/stackhpc/slurm-k8s-cluster/issues/38",
        ),
        (
            "slurmd: error: Unable to initialize cgroup plugin",
            "https://github.com/stackhpc/slurm-k8s-cluster/issues/38",
        ),
    ),
    "slurmd-config": (
        (
            "slurmd: fatal: Unable to determine this slurmd's NodeName",
            "https://github.com/GoogleCloudPlatform/cluster-toolkit/issues/1600",
        ),
        (
            "Jul  8 15:11:23 gpu slurmd[5421]: fatal: can't stat gres.conf file /dev//nvidia0: No such file or directory",
            "https://github.com/fgci-org/ansible-role-cuda/issues/3",
        ),
        (
            "slurmd: error: Waiting for gres.conf file /dev/nvidia0",
            "Slurm 22.05, source",
        ),
        (
            "slurmd: fatal: We were configured to autodetect nvml functionality, but we weren't able to find that lib when Slurm was configured.",
            "Slurm 23.11, source",
        ),
        (
            "squeue: error: Parsing error at unrecognized key: SlurmctldHost",
            "Slurm 22.05, source",
        ),
        (
            "slurmctld: fatal: Can not recover assoc_usage state, incompatible version",
            "Slurm 22.05, source",
        ),
    ),
    "slurm-node-invalid": (
        (
            "error: Setting node node3 state to INVAL with reason:gres/gpu count reported lower than configured (7 < 8)",
            "https://github.com/ComputeCanada/puppet-magic_castle/issues/361",
        ),
        (
            "gres/gpu count reported lower than configured (7 < 8)",
            "https://github.com/awslabs/awsome-distributed-ai/issues/195",
        ),
        (
            "error: Node node001 has low real_memory size (64000 < 128000)",
            "https://github.com/aws/aws-parallelcluster/issues/1517",
        ),
        (
            "Low RealMemory       slurm     2019-04-01T12:00:00 node3",
            "https://github.com/clusterinthecloud/terraform/issues/11",
        ),
    ),
    "slurm-node-unavailable": (
        (
            "sbatch: error: Batch job submission failed: Required node not available (down, drained or reserved)",
            "Slurm 22.05, source",
        ),
        (
            "(ReqNodeNotAvail, UnavailableNodes:c[001-004])",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/67",
        ),
        (
            "(Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions)",
            "https://github.com/mace-cream/clusterhowto/issues/2",
        ),
        (
            "srun: error: Something is wrong with the boot of the nodes.",
            "slurm 22.05, source",
        ),
        (
            "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)",
            "SLURM 25.11, source",
        ),
        (
            "sbatch: error: Batch job submission failed: Partition in DOWN state",
            "SLURM 25.11, source",
        ),
        (
            "sbatch: error: Batch job submission failed: System submissions disabled",
            "SLURM 25.11, source",
        ),
        (
            "sbatch: error: Batch job submission failed: Job can not start due to maintenance reservation.",
            "SLURM 25.11, source",
        ),
    ),
    "slurm-controller-disk": (
        (
            "sbatch: error: Batch job submission failed: I/O error writing script/environment to file",
            "https://github.com/DataBiosphere/toil/issues/4743",
        ),
    ),
    "slurm-option-unknown": (
        (
            "srun: unrecognized option '--gpus-per-rank'",
            "Slurm 23.11, source",
        ),
        (
            "sbatch: unrecognized option '--gpus-per-node=8'",
            "https://github.com/facebookresearch/mae/issues/119",
        ),
    ),
    "slurm-array-invalid": (
        (
            "sbatch: error: Batch job submission failed: Invalid job array specification",
            "https://github.com/facebookresearch/cc_net/issues/32",
        ),
    ),
    "srun-no-socket": (
        (
            "srun: error: unable to initialize step context socket: Address already in use",
            "https://github.com/PavlidisLab/rnaseq-pipeline/issues/91",
        ),
    ),
    "slurm-accounting-unreachable": (
        (
            "sacct: error: _open_persist_conn: failed to open persistent connection to host:localhost:6819: Connection refused",
            "Slurm, documented",
        ),
        (
            "sacct: error: Problem talking to the database: Connection refused",
            "Slurm, documented",
        ),
    ),
    "slurm-auth-plugin": (
        (
            "slurmctld: error: Couldn't find the specified plugin name for auth/jwt looking at all files",
            "Slurm, source",
        ),
        (
            "slurmdbd: error: cannot find auth plugin for auth/munge",
            "Slurm, source",
        ),
        (
            "slurmctld: error: cannot create auth context for auth/jwt",
            "Slurm, source",
        ),
    ),
    "slurm-node-differs": (
        (
            "error: Node configuration differs from hardware: CPUs=2:4(hw) Boards=1:1(hw) SocketsPerBoard=1:1(hw) CoresPerSocket=2:2(hw) ThreadsPerCore=1:2(hw)",
            "https://github.com/koesterlab/setup-slurm-action/issues/4",
        ),
        (
            "slurmctld: error: Node worker2 appears to have a different slurm.conf than the slurmctld.  This could cause issues with communication and functionality.  Please review both files and make sure they are the same.  If this is expected ignore, and set DebugFlags=NO_CONF_HASH in your slurm.conf.",
            "Slurm, slurmctld, source",
        ),
    ),
    "slurm-step-killed": (
        (
            "slurmstepd: error:  mpi/pmix_v4: _errhandler: c67 [0]: pmixp_client_v2.c:211: Error handler invoked: status = -61, source = [slurm.pmix.4711.1:21]",
            "Slurm, mpi/pmix, source",
        ),
        (
            "slurmstepd: error:  mpi/pmix_v4: _errhandler: c67 [0]: pmixp_client_v2.c:211: Error handler invoked: status = -61, source = [slurm.pmix.4711.1:21]\nsrun: error: c67: tasks 0-13,15-31: Killed",
            "Slurm, srun, source",
        ),
    ),
    "srun-output-abandoned": (
        (
            "srun: error: eio_handle_mainloop: Abandoning IO 60 secs after job shutdown initiated",
            "Slurm, eio, source",
        ),
    ),
    "slurm-gpu-binding": (
        (
            "slurmstepd: error: Bind request 0x2 (1) does not specify any devices within the allocation for task 0. Binding to the first device in the allocation instead.",
            "Slurm, gres, source, unverified",
        ),
    ),
    "srun-nodes-contradict": (
        (
            "srun: error: Only allocated 2 nodes asked for 4",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Minimum node count > allocated node count (4 > 2)",
            "slurm 22.05, source",
        ),
        (
            "srun: fatal: --relative and --nodes option incompatible with count of allocated nodes (1+2>2)",
            "slurm 22.05, source",
        ),
        (
            "srun: error: SLURM_JOB_NUM_NODES environment variable conflicts with allocated node count (4 != 2).",
            "slurm 22.05, source",
        ),
        (
            "srun: error: You asked for 8 tasks but hostlist specified 2 nodes",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Requested node n07 is also in the excluded list.",
            "slurm 22.05, source",
        ),
    ),
    "srun-multi-prog": (
        (
            "srun: error: Line 3 of configuration file multi.conf, program ./a.sh not executable",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Configuration file multi.conf invalid, no record for task id 3",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Duplicate record for task 3",
            "slurm 22.05, source",
        ),
    ),
    "slurm-het-job": (
        (
            "srun: error: Job steps that span multiple components of a heterogeneous job are not currently supported",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Attempt to run a job step with het group value of 1, but the job allocation has maximum value of 0",
            "slurm 22.05, source",
        ),
        (
            "srun: error: Requested het-group offset exceeds highest hetjob index (2 > 1)",
            "slurm 22.05, source",
        ),
        (
            "srun: error: --mpi is only supported in the first heterogeneous component",
            "slurm 22.05, source",
        ),
    ),
    "slingshot-resources": (
        (
            "slurmstepd: error: Slingshot service allocation failed on cxi0\nslurmstepd: error: Only 12 transmit command queues available on cxi0 (requested 32)",
            "slurm, source",
        ),
        (
            "slurmstepd: error: No list entry pools available on cxi1",
            "slurm, source",
        ),
        (
            "slurmstepd: error: Could not open CXI device[1] dev_id=1 (cxi1): -13",
            "slurm, source",
        ),
    ),
    "submitit-no-environment": (
        (
            "RuntimeError: Could not figure out which environment the job is runnning in. Known environments: slurm, local, debug.",
            "https://github.com/facebookresearch/dora/issues/58",
        ),
    ),
    "submitit-no-shared-folder": (
        (
            '  File "run_with_submitit.py", line 40, in get_shared_folder\n    raise RuntimeError("No shared folder available")\nRuntimeError: No shared folder available',
            "https://github.com/facebookincubator/submitit/issues/1595",
        ),
    ),
    "slurmctld-state": (
        (
            "[2018-01-08T07:25:06.072] error: Could not open node state file /var/spool/slurm/node_state: No such file or directory",
            "https://github.com/elasticluster/elasticluster/pull/504",
        ),
    ),
    "slurm-script-lost": (
        (
            "slurmstepd: error: execve(): /tmp/slurmd/job2997/slurm_script: No such file or directory",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/21",
        ),
        (
            "slurmstepd-node-1: error: execve(): /var/lib/slurm/slurmctld/job00218/slurm_script: Permission denied",
            "https://github.com/galaxyproject/ansible-slurm/issues/37",
        ),
    ),
    "srun-program-tested": (
        (
            "srun: fatal: Can not execute /opt/conda/bin/python",
            "https://github.com/NVIDIA/pyxis/issues/104",
        ),
    ),
    "slurm-versions": (
        (
            "srun: error: Unable to allocate resources: Incompatible versions of client and server code",
            "SLURM 25.11, source",
        ),
        (
            "sinfo: error: unpack_header: protocol_version 9984 not supported",
            "Slurm 23.11, unverified",
        ),
        (
            "slurmctld: error: slurm_unpack_received_msg: [[gpu012]:40510] Invalid Protocol Version 9728 from uid=0: No error",
            "Slurm 23.11, unverified",
        ),
    ),
}
