"""Printed texts of `ddpkit/diagnosis/catalogue/node.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "command-not-found": (
        ("bash: torchrun: command not found", "https://github.com/microsoft/DeepSpeed/issues/1481"),
        ("bash: line 1: deepspeed: command not found", "bash 5.2, run"),
        ("slurmstepd: error: execve(): torchrun: No such file or directory", "Slurm 22.05, run"),
        ("/usr/bin/env: 'python': No such file or directory", "coreutils 9.1, run"),
        ("sh: 1: torchrun: not found", "dash 0.5.12, run"),
        ("bash: line 1: exec: torchrun: not found", "bash 5.2, run"),
        (
            "mpirun was unable to find the specified executable file, and therefore",
            "Open MPI 4.1, source",
        ),
        (
            "bash: line 1: venv/bin/torchrun: cannot execute: required file not found",
            "bash 5.2, run",
        ),
        (
            "bash: line 1: /home/user/miniconda3/envs/train/bin/python: No such file or directory",
            "bash 5.2, run",
        ),
        (
            "bash: ./run.sh: /opt/conda/bin/python: bad interpreter: No such file or directory",
            "bash 5.0, run",
        ),
        (
            "0.567s: flux-shell[0]: FATAL: task 0: start failed: stress: No such file or directory",
            "https://github.com/flux-framework/flux-core/issues/4195",
        ),
        (
            "[proxy:0:2@gpu-2-4.local] HYDU_create_process (./utils/launch/launch.c:69): execvp error on "
            "file python (No such file or directory)",
            "https://github.com/pmodels/mpich/issues/1106",
        ),
        (
            "[proxy:0:2@gpu-2-4] HYDU_create_process (./utils/launch/launch.c:69): execvp error on file ./train.sh (No such file or directory)",
            "https://github.com/cBio/cbio-cluster/issues/274",
        ),
        (
            "mpiexec was unable to find the specified executable file, and therefore did not launch the job.",
            "Open MPI 5.0.11, source",
        ),
        (
            "slurmstepd: error: execve(): bad interpreter(/usr/bin/pyhton3): No such file or directory",
            "Slurm 22.05, source",
        ),
        (
            "nohup: failed to run command 'torchrun': No such file or directory",
            "coreutils 9.1, documented",
        ),
        (
            "xargs: torchrun: No such file or directory",
            "findutils 4.9, documented",
        ),
        (
            "numactl: execution of `python': No such file or directory",
            "numactl 2.0, unverified",
        ),
        (
            "time: cannot run python: No such file or directory",
            "time 1.9, unverified",
        ),
        (
            "zsh: no such file or directory: /opt/conda/bin/python",
            "zsh 5.9, documented",
        ),
        (
            "aprun: [NID 00012] Exec /home/me/a.out failed: No such file or directory",
            "ALPS 6.6, unverified",
        ),
    ),
    "module-missing": (("ModuleNotFoundError: No module named 'torch'", "Python 3.11, documented"),),
    "shm-full": (
        (
            "node1:4707:5232 [2] NCCL INFO transport/shm.cc:101 -> 2",
            "https://github.com/TsinghuaAI/CPM-2-Finetune/issues/2",
        ),
        (
            "include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-c43b846667d22574-1-1-0 (size 9637888)",
            "https://github.com/huggingface/transformers/issues/11658",
        ),
        (
            "UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode",
            "https://github.com/Plachtaa/VITS-fast-fine-tuning/issues/397",
        ),
        (
            "node1:10:99 [3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            "https://github.com/NVIDIA/nccl/issues/290",
        ),
        (
            "RuntimeError: DataLoader worker (pid 46794) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "https://github.com/pytorch/pytorch/issues/5040",
        ),
        (
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_27882_2770998746_0>: No space "
            "left on device (28)",
            "torch 2.13, run",
        ),
        (
            "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-U8cMPu (size 9637888), error: No "
            "space left on device (28)",
            "NCCL 2.21, documented",
        ),
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
            "shared memory (shm).",
            "torch 2.6, source",
        ),
        (
            "RuntimeError: unable to write to file </torch_4711_1234>",
            "torch 1.13, source",
        ),
        (
            "ValueError: The configured object store size (11.81114368 GB) exceeds /dev/shm size (11.8111232 GB). This will harm performance.",
            "https://github.com/alumae/kiirkirjutaja/issues/5",
        ),
        (
            "It appears as if there is not enough space for /dev/shm/vader_segment.node1.0 (the shared-memory backing\nfile).",
            "Open MPI 4.1.8, source",
        ),
        (
            "OSError: [Errno 28] No space left on device: '/dev/shm/sem.mp-qq3c1ojo'",
            "Python 3.11, unverified",
        ),
    ),
    "host-out-of-memory": (
        (
            "[Fri Nov 20 17:02:51 2026] Out of memory: Killed process 4711 (python) total-vm:98304kB",
            "Linux 6.1, documented",
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 40000000000 bytes. Error code 12 (Cannot allocate memory)",
            "torch 2.13, source",
        ),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape "
            "(100000, 100000) and data type float64",
            "numpy, documented",
        ),
        (
            "[ 7063.247407] Memory cgroup out of memory: Killed process 63214 (uwsgi) "
            "total-vm:3149468kB, anon-rss:164992kB",
            "https://github.com/reportportal/kubernetes/issues/203",
        ),
        (
            "[Sun Mar 30 08:24:00 2025] "
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/init.scope,task=python,pid=7899,uid=0",
            "https://github.com/0jc1/py-autovod/issues/7",
        ),
        (
            "[ 7063.263325] oom_reaper: reaped process 63214 (uwsgi), now anon-rss:0kB, file-rss:0kB, shmem-rss:92kB",
            "https://github.com/reportportal/kubernetes/issues/203",
        ),
        ("MemoryError", "Python 3.11, run"),
        ("OSError: [Errno 12] Cannot allocate memory", "Python 3.11, run"),
        ("OSError: [Errno 12] Cannot allocate memory: '/data/train-7.bin'", "Python 3.11, source"),
        ("Exception: Cannot allocate memory (os error 12)", "Rust 1.80, source"),
        ("memory allocation of 4194304 bytes failed", "Rust 1.80, source"),
        ("memory allocation of memory allocation of 41943044194304 bytes failed", "Rust 1.80, source"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "libstdc++ 13, source"),
        (
            "ddpkit: rank 1 on node1 failed first, after 3.0 s: killed by signal 9 (SIGKILL): the kernel "
            "ended it: out of memory (cgroup /x)",
            "ddpkit 0.2, run",
        ),
        (
            "      Reason:       OOMKilled",
            "Kubernetes 1.29, source",
        ),
        (
            "RuntimeError: unable to mmap 9976576152 bytes from file </models/pytorch_model-00001-of-00002.bin>: Cannot allocate memory (12)",
            "torch 2.13, run",
        ),
        (
            "The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)",
            "https://github.com/tensorflow/models/issues/9352",
        ),
        (
            "Replicas low on memory: workerpool0",
            "Vertex AI, unverified",
        ),
        (
            "OutOfMemoryError: Container killed due to memory usage",
            "https://github.com/aws/amazon-ecs-agent/issues/1187",
        ),
        (
            "[2612362.231458] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=829",
            "https://github.com/NVIDIA/DALI/issues/585",
        ),
        (
            "runc create failed: unable to start container process: error during container init: error running hook #0: error running hook: exit status 137, stdout: , stderr: Auto-detected mode as 'legacy'",
            "https://github.com/eclipse-che/che/issues/21765",
        ),
    ),
    "one-core": (
        (
            "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of "
            "worker in current system is 1, which is smaller than what this DataLoader is going to create.",
            "torch 2.13, run",
        ),
    ),
    "ptrace-denied": (
        (
            "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
            "py-spy 0.4, run",
        ),
        ("ptrace: Operation not permitted.", "gdb 13, run"),
    ),
    "no-libibverbs": (
        ("node1:10:10 [0] NCCL INFO Failed to open libibverbs.so[.1]", "https://github.com/NVIDIA/nccl/issues/417"),
    ),
    "pinned-memory": (
        (
            "RuntimeError: Caught RuntimeError in pin memory thread for device 0.\nRuntimeError: CUDA error: out of memory",
            "torch 2.13, source",
        ),
    ),
    "recursion": (
        (
            "RecursionError: maximum recursion depth exceeded while calling a Python object",
            "Python 3.11, documented",
        ),
    ),
    "versions-differ": (
        (
            "RuntimeError: Version mismatch: The cluster was started with:",
            "Ray 2.9, source",
        ),
        (
            "EI0008: [PID: 4711] 2026-01-11-15:09:34.713.335 The Toolkit versions are inconsistent. The local 8.5.0, while the remote 8.3.0.",
            "CANN hcomm, unverified",
        ),
    ),
    "path-not-passed": (
        (
            "error: execve(): bash: No such file or directory",
            "https://github.com/interTwin-eu/itwinai/issues/472",
        ),
    ),
    "modules-not-loaded": (
        (
            "/var/spool/slurmd/job00156/slurm_script: line 4: ml: command not found",
            "https://github.com/envmodules/modules/issues/339",
        ),
        (
            "slurmstepd: error: execve(): ml: No such file or directory",
            "https://github.com/envmodules/modules/issues/341",
        ),
        (
            "environment: line 17: /usr/share/lmod/lmod/libexec/lmod: No such file or directory",
            "https://github.com/TACC/Lmod/issues/645",
        ),
    ),
    "module-load-failed": (
        (
            'Lmod has detected the following error: These module(s) or extension(s) exist but cannot be loaded as requested: "openmpi/4.1"',
            "Lmod, unverified",
        ),
        (
            "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'cuda100/toolkit'",
            "https://github.com/kevinduh/sockeye-recipes/issues/25",
        ),
        (
            "  ERROR: Module cannot be loaded due to a conflict.",
            "environment-modules, documented",
        ),
        (
            'Lmod Warning:  Failed to find the following module(s):  "cuda/11.8" in your MODULEPATH',
            "Lmod, source",
        ),
        (
            'Lmod has detected the following error: The following module(s) are unknown:\n"miniconda3-4.7.12.1-gcc-9.2.0-j2idqxp"',
            "https://github.com/ai4d-iasc/trixie/issues/70",
        ),
    ),
    "conda-not-active": (
        (
            "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.",
            "https://github.com/conda/conda/issues/8536",
        ),
        (
            "CondaError: Run 'conda init' before 'conda activate'",
            "conda, unverified",
        ),
        (
            "EnvironmentNameNotFound: Could not find conda environment: pytorch",
            "conda, unverified",
        ),
        (
            "EnvironmentLocationNotFound: Not a conda environment: /scratch/env",
            "conda, unverified",
        ),
        (
            "/var/spool/slurmd/job123/slurm_script: line 12: activate: No such file or directory",
            "Bash 5.2, run",
        ),
        (
            "CommandNotFoundError: Your shell has not been properly configured to use 'conda deactivate'.",
            "conda, source",
        ),
    ),
    "line-continued-badly": (
        (
            "train.sh: line 12: --deepspeed_multinode_launcher: command not found",
            "https://github.com/OpenMOSS/MOSS/issues/147",
        ),
        (
            "scripts/dft_train.sh:line 15: data.max_length=2048: command not found",
            "https://github.com/yongliang-wu/DFT/issues/26",
        ),
    ),
    "shell-not-bash": (
        (
            'finetune/finetune_qlora_single_gpu.sh: 10: Syntax error: "(" unexpected',
            "https://github.com/QwenLM/Qwen/issues/767",
        ),
        (
            "scripts/dist_train.sh: 5: scripts/dist_train.sh: Bad substitution",
            "https://github.com/open-mmlab/OpenPCDet/issues/148",
        ),
        (
            "run.sh: 12: [[: not found",
            "dash 0.5.12, run",
        ),
        (
            "/bin/sh: 1: source: not found",
            "dash 0.5.12, run",
        ),
        (
            "train.sh: 2: set: Illegal option -o pipefail",
            "dash 0.5.12, run",
        ),
        (
            "train.sh: 3: Syntax error: Bad for loop variable",
            "dash 0.5.12, run",
        ),
    ),
    "python-by-shell": (
        (
            "/train.py: line 14: import: command not found",
            "https://github.com/Beckschen/3D-TransUNet/issues/4",
        ),
        (
            "/train.py: line 20: from: command not found",
            "https://github.com/Beckschen/3D-TransUNet/issues/4",
        ),
        (
            "from: can't read /var/mail/torch",
            "bsdmainutils, unverified",
        ),
    ),
    "script-by-python": (
        (
            'File "./tools/dist_train.sh", line 3 CONFIG=$1 SyntaxError: invalid syntax',
            "https://github.com/open-mmlab/mmdetection/issues/3520",
        ),
    ),
    "shell-variable-unset": (
        (
            "/opt/conda/etc/profile.d/conda.sh: line 26: PS1: unbound variable",
            "https://github.com/conda/conda/issues/8186",
        ),
        (
            "slurm_script: line 41: nodes_array[0]: unbound variable",
            "https://github.com/NVIDIA-NeMo/Evaluator/pull/671",
        ),
        (
            "train.sh: line 3: MASTER_ADDR: parameter null or not set",
            "Bash 5.2, run",
        ),
    ),
    "shell-syntax": (
        (
            "train.sh: line 49: syntax error near unexpected token `>'",
            "https://github.com/Sunarker/Collaborative-Learning-for-Weakly-Supervised-Object-Detection/issues/6",
        ),
        (
            "train.sh: line 40: syntax error: unexpected end of file",
            "Bash 5.2, run",
        ),
        (
            "train.sh: line 40: unexpected EOF while looking for matching `\"'",
            "Bash 5.2, run",
        ),
    ),
    "shell-empty-variable": (
        (
            "train.sh: line 7: [: -lt: unary operator expected",
            "Bash 5.2, run",
        ),
        (
            "train.sh: line 7: [: a: integer expression expected",
            "Bash 5.2, run",
        ),
        (
            "run.sh: 3: [: x: unexpected operator",
            "dash 0.5.12, run",
        ),
    ),
    "typographic-characters": (
        (
            "train.py: error: unrecognized arguments: —-config ./configs/demo/baseline.yml "
            "--train-script-path fairseq-train",
            "https://github.com/NLP-Playground/LaSS/issues/3",
        ),
        (
            "train.sh: line 12: “--model”: command not found",
            "Bash 5.2, run",
        ),
        (
            "t6.sh: line 2:  --port: command not found",
            "Bash 5.2, run",
        ),
        (
            "train.sh: line 12: $'\\302\\240--master_port': command not found",
            "Bash 5.2, run",
        ),
        (
            "/home/ann/bin/python: can't open file '—nproc_per_node=4': [Errno 2] No such file or directory",
            "https://github.com/csxmli2016/MARCONet/issues/26",
        ),
        (
            "train.py: error: unrecognized arguments: –lr 0.1",
            "Python 3.11, run",
        ),
    ),
    "launcher-after-script": (
        (
            "train.py: error: unrecognized arguments: -m torch.distributed.launch --nproc_per_node 2",
            "https://github.com/rosinality/ocr-pytorch/issues/1",
        ),
    ),
    "launcher-without-script": (
        (
            "torchrun: error: the following arguments are required: training_script, training_script_args",
            "torch 2.13, run",
        ),
        (
            "launch.py: error: the following arguments are required: training_script, training_script_args",
            "https://github.com/hiyouga/LlamaFactory/issues/3301",
        ),
        (
            "deepspeed: error: the following arguments are required: user_script, user_args",
            "https://github.com/deepspeedai/DeepSpeed/issues/3222",
        ),
    ),
    "assignment-as-command": (
        (
            "nohup: failed to run the command 'CUDA_VISIBLE_DEVICES=GPU_ID': No such file or directory",
            "https://github.com/wizyoung/YOLOv3_TensorFlow/issues/131",
        ),
        (
            "python: can't open file 'CUDA_VISIBLE_DEVICES=': [Errno 2] No such file or directory",
            "https://github.com/athena-team/athena/issues/224",
        ),
        (
            "slurmstepd: error: execve(): CUDA_VISIBLE_DEVICES=0: No such file or directory",
            "Slurm 22.05, source",
        ),
        (
            "train.sh: line 3: CUDA_VISIBLE_DEVICES=0,1: command not found",
            "Bash 5.2, run",
        ),
    ),
    "task-blocked": (
        (
            "[ 4712.000000] INFO: task python3.11:15277 blocked for more than 120 seconds.",
            "https://github.com/rwth-i6/returnn/issues/1480",
        ),
        (
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:4711]",
            "Linux, source",
        ),
    ),
    "file-server-silent": (
        (
            "nfs: server filer1 not responding, still trying",
            "Linux, source",
        ),
        (
            "Lustre: DIAS-OST0001-osc-MDT0000: Connection to DIAS-OST0001 (at 192.168.14.178@tcp) was lost; in progress operations using this service will wait for recovery to complete",
            "Lustre, source",
        ),
        (
            "Lustre: scratch-OST0000-osc-ffff8: This client was evicted by scratch-OST0000; in progress operations using this service will fail.",
            "Lustre, source",
        ),
    ),
    "disk-errors": (
        (
            "[  531.168257] blk_update_request: I/O error, dev nvme0n1, sector 100492368 op 0x1:(WRITE) flags 0x104000 phys_seg 16 prio class 0",
            "https://github.com/oxidecomputer/crucible/issues/1239",
        ),
        (
            "[ 4730.850402] Buffer I/O error on device nvme0n1p1, logical block 1066386",
            "https://github.com/oxidecomputer/crucible/issues/1844",
        ),
        (
            "[  279.665892] EXT4-fs error (device nvme0n1p1): ext4_journal_check_start:83: comm kworker/u16:3: Detected aborted journal",
            "https://github.com/Joshua-Riek/ubuntu-rockchip/issues/970",
        ),
        (
            'XFS (nvme0n1): metadata I/O error in "xfs_trans_read_buf_map" at daddr 0x1 len 1 error 5',
            "Linux, unverified",
        ),
        (
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS read failed (134)",
            "https://github.com/Joshua-Riek/ubuntu-rockchip/issues/155",
        ),
        (
            "[184739.296354] nvme nvme1: Removing after probe failure status: -19",
            "https://github.com/crypto-org-chain/cronos/issues/468",
        ),
    ),
    "node-memory-errors": (
        (
            "slurmstepd: error: *** STEP 4711.0 ON node3 UNCORRECTABLE MEMORY ERROR AT 2026-11-20T17:02:51 ***",
            "Slurm, slurmstepd, source",
        ),
        (
            "[  +0.000006] EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0 page:0xb757589 offset:0xdc0 grain:32)",
            "https://github.com/ovro-lwa/lwa-issues/issues/117",
        ),
        (
            "[ 261.273227] {1}[Hardware Error]: event severity: recoverable",
            "https://github.com/andikleen/mcelog/issues/74",
        ),
        (
            "Kernel panic - not syncing: Fatal exception",
            "Linux, source",
        ),
    ),
    "numactl-range": (
        (
            "libnuma: Warning: cpu argument 8-15,40-47 is out of range\n<8-15,40-47> is invalid",
            "https://github.com/mlcommons/training_results_v0.7/issues/6",
        ),
        (
            "libnuma: Warning: node argument 8 is out of range",
            "https://github.com/intel/xFasterTransformer/issues/57",
        ),
        (
            "libnuma: node argument 1 is out of range",
            "https://github.com/baidu-research/DeepBench/issues/100",
        ),
        (
            "numa_sched_setaffinity_v2_int() failed: Invalid argument",
            "https://github.com/numactl/numactl/issues/127",
        ),
    ),
    "openmp-affinity": (
        (
            "OMP: Error #13: Assertion failure at kmp_affinity.cpp(4314).",
            "https://github.com/lipku/LiveTalking/issues/70",
        ),
        (
            "OMP: Error #100: Fatal system error detected.\nOMP: System error #22: Invalid argument",
            "https://github.com/declare-lab/flan-alpaca/issues/16",
        ),
    ),
}
