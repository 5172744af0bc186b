"""Printed texts of `ddpkit/diagnosis/catalogue/deaths.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "teardown-abort": (("terminate called without an active exception", "torch 2.13, documented"),),
    "killed": (
        ("Exit Code:    137", "https://github.com/googlefonts/fontbakery-dashboard/issues/100"),
        (
            "mpirun.real noticed that process rank 1 with PID 39 on node mpijob-worker-1 exited on signal 9 (Killed).",
            "https://github.com/kubeflow/mpi-operator/issues/90",
        ),
        ("[1]    4711 killed     python train.py", "zsh 5.9, https://github.com/amazon-science/mm-cot/issues/25"),
        (
            "[2024-01-05 10:11:12,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = -9",
            "https://github.com/Tencent/TencentPretrain/issues/28",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
            "torch 2.13, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.",
            "Python 3.11, run",
        ),
        ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.", "torch 2.13, run"),
        ("srun: error: node1: task 0: Killed", "Slurm 22.05, run"),
        ("Killed", "bash 5.2, documented"),
        ("run.sh: line 3:  4711 Killed                  python train.py", "bash 5.2, run"),
        ("    traceback : Signal 9 (SIGKILL) received by PID 4711", "torch 2.13, run"),
        (
            "E0325 20:57:27.620000 2606 "
            "site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
            "local_rank: 5 (pid: 2630) of binary: /root/miniconda3/bin/python",
            "https://github.com/lmzpai/roboMamba/issues/10",
        ),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 9 (Killed).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 9",
            "ddpkit 0.2, run",
        ),
        (
            "command terminated with exit code 137",
            "Kubernetes 1.29, source",
        ),
        (
            "worker exited with code 137",
            "docker compose 2.24, run",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -9. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.5, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -9.",
            "composer, unverified",
        ),
        (
            "srun: error: nid002: tasks 4-7: Exited with exit code 137",
            "Slurm 22.05, source",
        ),
        (
            "x3006c0s13b0n0: rank 3 died from signal 9",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "=   EXIT CODE: 9",
            "https://github.com/openai/jukebox/issues/155",
        ),
        (
            "=   KILLED BY SIGNAL: 9 (Killed)",
            "Intel MPI, unverified",
        ),
        (
            "[2022-05-27T11:37:57.377] _job_complete: JobId=127441 WTERMSIG 9",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/137",
        ),
    ),
    "bus-error": (
        ("Bus error (core dumped)", "bash 5.2, documented"),
        ("srun: error: node1: task 0: Bus error", "Slurm 22.05, run"),
        ("    traceback : Signal 7 (SIGBUS) received by PID 4711", "torch 2.13, documented"),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -7",
            "DeepSpeed 0.19, source",
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -7) local_rank: 0 "
            "(pid: 340) of binary: /root/miniconda3/envs/llama/bin/python",
            "https://github.com/hiyouga/LlamaFactory/issues/322",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGBUS",
            "torch 2.13, run",
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGBUS: 7>.",
            "Python 3.11, run",
        ),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 7 (Bus error).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 7",
            "ddpkit 0.2, run",
        ),
        (
            "[node1:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)",
            "UCX 1.14, source",
        ),
        (
            "[node1:12345] Signal: Bus error (7)",
            "Open MPI 4.1, source",
        ),
        (
            "Fatal Python error: Bus error",
            "Python 3.11, source",
        ),
        (
            "zsh: bus error  python train.py",
            "zsh 5.9, source",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -7. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.4, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.",
            "https://github.com/mosaicml/llm-foundry/issues/258",
        ),
        (
            "srun: error: nid002: task 4: Exited with exit code 135",
            "Slurm 22.05, source",
        ),
        (
            "x3006c0s13b0n0: rank 3 died from signal 7",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "=   EXIT CODE: 7",
            "MPICH, unverified",
        ),
        (
            "=   KILLED BY SIGNAL: 7 (Bus error)",
            "Intel MPI, unverified",
        ),
    ),
    "segfault": (
        (
            "*** SIGSEGV (@0x7f97c0e8e528), see gl__________25#s15 received by PID 16710 (TID 16710) on cpu 32; stack trace: ***",
            "https://github.com/pytorch/xla/issues/3028",
        ),
        ("zsh: segmentation fault  python train.py", "zsh 5.9, documented"),
        (
            "python3[4711]: segfault at 60 ip 00007f24b8cf2616 sp 00007ffc0f212680 error 4 in libc10_cuda.so[7f24b8cc8000+5c000]",
            "https://github.com/modelscope/ms-swift/issues/4689",
        ),
        ("Segmentation fault (core dumped)", "bash 5.2, documented"),
        ("Fatal Python error: Segmentation fault", "Python 3.11, run"),
        ("srun: error: node2: tasks 0-3: Segmentation fault (core dumped)", "Slurm 22.05, documented"),
        (
            "[node1:12345:0:12345] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x10)",
            "UCX, documented",
        ),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -11",
            "DeepSpeed 0.19, source",
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 (pid: 4711) of binary: python",
            "torch 2.13, source",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGSEGV",
            "torch 2.13, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGSEGV: 11>.",
            "Python 3.11, run",
        ),
        ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Segmentation fault. ", "torch 2.13, run"),
        ("    traceback : Signal 11 (SIGSEGV) received by PID 4711", "torch 2.13, source"),
        (
            "kernel: python3[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2",
            "Linux 6.1, source",
        ),
        (
            "kernel: traps: python3[4711] general protection fault ip:7f sp:7f error:0",
            "Linux 6.1, source",
        ),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 11 (Segmentation fault).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 11",
            "ddpkit 0.2, run",
        ),
        (
            "[node1:12345] Signal: Segmentation fault (11)",
            "Open MPI 4.1, source",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -11. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.4, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -11.",
            "composer, unverified",
        ),
        (
            "ERROR: Unexpected segmentation fault encountered in worker.",
            "https://github.com/chaoyuaw/pytorch-coviar/issues/24",
        ),
        (
            "srun: error: nid002: task 4: Exited with exit code 139",
            "Slurm 22.05, source",
        ),
        (
            "x3006c0s13b0n0: rank 3 died from signal 11",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "=   EXIT CODE: 139",
            "https://github.com/IntelligentSoftwareSystems/Galois/issues/37",
        ),
        (
            "=   KILLED BY SIGNAL: 11 (Segmentation fault)",
            "Intel MPI, unverified",
        ),
        (
            "[node3:mpi_rank_0][error_sighandler] Caught error: Segmentation fault (signal 11)",
            "https://github.com/lanl/MPI-Bash/issues/14",
        ),
        (
            "rank 0 died from signal 11 and dumped core",
            "https://github.com/saforem2/ezpz/issues/210",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 3221226505",
            "https://github.com/SayaSS/vits-finetuning/issues/32",
        ),
        (
            "subprocess.CalledProcessError: Command '['python.exe', 'finetune-cli.py']' returned non-zero exit status 3221225477.",
            "Python 3.11, source",
        ),
    ),
    "aborted": (
        ("*** SIGABRT received at time=1655335369 on cpu 8 ***", "https://github.com/ray-project/ray/issues/25866"),
        (
            "*** SIGABRT received by PID 9361 (TID 9361) on cpu 40 from PID 9361; stack trace: ***",
            "https://github.com/pytorch/xla/issues/7138",
        ),
        ("Aborted (core dumped)", "bash 5.2, documented"),
        (
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            "https://github.com/sgl-project/sglang/issues/1693",
        ),
        ("    traceback : Signal 6 (SIGABRT) received by PID 4711", "torch 2.13, run"),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -6",
            "DeepSpeed 0.19, source",
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) local_rank: 0 "
            "(pid: 514946) of binary:",
            "https://github.com/hpcaitech/ColossalAI/issues/3556",
        ),
        ("Fatal Python error: Aborted", "Python 3.11, run"),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGABRT",
            "torch 2.13, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGABRT: 6>.",
            "Python 3.11, run",
        ),
        ("srun: error: node1: task 0: Aborted", "Slurm 22.05, run"),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 6 (Aborted).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 6",
            "ddpkit 0.2, run",
        ),
        (
            "[node1:12345] Signal: Aborted (6)",
            "Open MPI 4.1, source",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -6. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.4, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -6.",
            "composer 0.15.0, source",
        ),
        (
            "srun: error: nid002: task 4: Exited with exit code 134",
            "Slurm 22.05, source",
        ),
        (
            "x3006c0s13b0n0: rank 3 died from signal 6",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "=   EXIT CODE: 134",
            "https://github.com/ggml-org/llama.cpp/issues/4792",
        ),
        (
            "=   KILLED BY SIGNAL: 6 (Aborted)",
            "Intel MPI, unverified",
        ),
    ),
    "illegal-instruction": (
        ("Illegal instruction (core dumped)", "bash 5.2, documented"),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -4) local_rank: 0 (pid: 4711) of binary: /usr/bin/python3",
            "torch 2.2, documented",
        ),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -4",
            "DeepSpeed 0.19, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGILL: 4>.",
            "Python 3.11, run",
        ),
        ("srun: error: node1: task 0: Illegal instruction", "Slurm 22.05, run"),
        ("    traceback : Signal 4 (SIGILL) received by PID 4711", "torch 2.13, source"),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 4 (Illegal instruction).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 4",
            "ddpkit 0.2, run",
        ),
        (
            "[node1:3039 :0:3095] Caught signal 4 (Illegal instruction: illegal operand)",
            "UCX 1.14, source",
        ),
        (
            "[node1:12345] Signal: Illegal instruction (4)",
            "Open MPI 4.1, source",
        ),
        (
            "Fatal Python error: Illegal instruction",
            "Python 3.11, source",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGILL",
            "torch 2.13, source",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -4. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.4, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -4.",
            "composer, unverified",
        ),
    ),
    "floating-point-exception": (
        (
            "[2023-10-24 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code = -8",
            "https://github.com/haotian-liu/LLaVA/issues/654",
        ),
        ("Floating point exception (core dumped)", "bash 5.2, documented"),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -8) local_rank: 1 (pid: 4711) of binary: python",
            "torch 2.13, source",
        ),
        ("    traceback : Signal 8 (SIGFPE) received by PID 4711", "torch 2.13, source"),
        ("srun: error: node1: task 0: Floating point exception", "Slurm 22.05, run"),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 8 (Floating "
            "point exception).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 8",
            "ddpkit 0.2, run",
        ),
        (
            "[node1:3039 :0:3095] Caught signal 8 (Floating point exception: integer divide by zero)",
            "UCX 1.14, source",
        ),
        (
            "[node1:12345] Signal: Floating point exception (8)",
            "Open MPI 4.1, source",
        ),
        (
            "Fatal Python error: Floating-point exception",
            "Python 3.11, source",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGFPE",
            "torch 2.13, source",
        ),
    ),
    "launcher-terminated": (
        (
            "W0409 07:28:49.530000 1359 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
            "https://github.com/pytorch/pytorch/issues/150916",
        ),
        (
            "W0823 16:54:02.337000 139733055988160 torch/distributed/elastic/agent/server/api.py:688] Received Signals.SIGTERM death signal, shutting down workers",
            "https://github.com/pytorch/pytorch/issues/114097",
        ),
        (
            "W1120 17:02:51.123 4711 torch/distributed/elastic/agent/server/api.py:1005] Got termination signal: 15",
            "torch 2.13, source",
        ),
    ),
    "terminated": (
        (
            "*** SIGTERM received by PID 7620 (TID 7620) on cpu 17 from PID 7408; stack trace: ***",
            "https://github.com/pytorch/xla/issues/3947",
        ),
        (
            "W1120 17:02:51.123 4711 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 4712 closing signal SIGTERM",
            "torch 2.6, run",
        ),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15",
            "torch 2.13, run",
        ),
        ("    traceback : Signal 15 (SIGTERM) received by PID 4711", "torch 2.13, run"),
        (
            "W0227 17:39:41.936000 293814 site-packages/torch/distributed/elastic/multiprocessing/api.py:766] Closing process 293866 via signal SIGTERM",
            "https://github.com/NVIDIA/nvidia-resiliency-ext/issues/18",
        ),
        (
            "[WARNING] Unable to shutdown process 4422 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
            "https://github.com/pytorch/pytorch/pull/115219",
        ),
        (
            "[ERROR] [launch.py:321:sigkill_handler] ['python', '-u', 'train.py'] exits with return code = -15",
            "DeepSpeed 0.19, source",
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -15) local_rank: 1 (pid: 4711) of binary: python",
            "torch 2.13, source",
        ),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGTERM",
            "torch 2.13, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGTERM: 15>.",
            "Python 3.11, run",
        ),
        ("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated. ", "torch 2.13, source"),
        ("srun: error: node1: task 0: Terminated", "Slurm 22.05, run"),
        (
            "mpirun noticed that process rank 1 with PID 0 on node node1 exited on signal 15 (Terminated).",
            "Open MPI 4.1, source",
        ),
        (
            "ddpkit: rank 1 on node2 failed first, after 12.7 s: killed by signal 15",
            "ddpkit 0.2, run",
        ),
        (
            "ddpkit: ended by SIGTERM after 9.2 s; its ranks: 2 x signal 15",
            "ddpkit 0.2, run",
        ),
        (
            "[rank: 1] Child process with PID 2053468 terminated with code -15. Forcefully terminating all other processes to avoid zombies",
            "Lightning 2.5, source",
        ),
        (
            "ERROR:composer.cli.launcher:Rank 2 crashed with exit code -15.",
            "composer 0.28, source",
        ),
        (
            "srun: error: nid002: task 4: Exited with exit code 143",
            "Slurm 22.05.8, source",
        ),
        (
            "x3006c0s13b0n0: rank 3 died from signal 15",
            "ezpz, patterns of PALS, unverified",
        ),
    ),
    "interrupted": (
        ("KeyboardInterrupt", "Python 3.11, run"),
        ("srun: interrupt (one more within 1 sec to abort)", "Slurm 22.05, run"),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 2",
            "torch 2.13, source",
        ),
        (
            "srun: error: node1: task 0: Interrupt",
            "Slurm 22.05, run",
        ),
        (
            "WARNING:torch.distributed.elastic.agent.server.api:Received 2 death signal, shutting down workers",
            "https://github.com/MCG-NJU/RTD-Action/issues/31",
        ),
        (
            "W1120 17:02:51.1 4711 torch/distributed/elastic/multiprocessing/api.py:1028] Sending "
            "process 190 closing signal SIGINT",
            "torch 2.6, run",
        ),
        (
            "ddpkit: ended by SIGINT after 9.2 s; its ranks: 2 x signal 2",
            "ddpkit 0.2, run",
        ),
    ),
    "process-in-kernel": (
        (
            "E0527 10:00:00.123456 100 torch/distributed/elastic/agent/server/local_elastic_agent.py:555] [default] Worker pid=812 stuck in uninterruptible sleep (D-state) for 310.0s (>= 300.0s); marking worker group UNHEALTHY and disabling restarts.",
            "torch 2.13, source",
        ),
        (
            "E0527 10:00:40.123456 100 torch/distributed/elastic/multiprocessing/api.py:907] Process 812 did not exit after SIGKILL within 30s; abandoning and continuing teardown.",
            "torch 2.13, source",
        ),
    ),
    "local-rank-not-accepted": (
        ("train.py: error: unrecognized arguments: --local-rank=0", "Python 3.11, run"),
        (
            "KeyError: \"Override 'local-rank' not found in: ['seed', 'save_folder']\"",
            "https://github.com/speechbrain/speechbrain/issues/2868",
        ),
        (
            "Could not override 'local_rank'.",
            "Hydra 1.3, source",
        ),
        (
            "hydra_train.py: Unrecognized argument --local_rank=0",
            "https://github.com/facebookresearch/fairseq/issues/4164",
        ),
        (
            "Error: No such option: --local-rank",
            "click 8.1, source",
        ),
        (
            "ERROR: Could not consume arg: --local_rank=0",
            "https://github.com/AILab-CVC/GPT4Tools/issues/18",
        ),
        (
            "Unknown command line flag 'local_rank'. Did you mean: local_dir ?",
            "absl-py 2.1, source",
        ),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--local-rank=0']",
            "transformers 4.30, source",
        ),
        (
            "train.py: error: unrecognized arguments: --local_rank=1 configs/fpn.py --work-dir ./out --launcher pytorch",
            "https://github.com/open-mmlab/mmsegmentation/issues/1302",
        ),
    ),
    "bad-arguments": (
        ("train.py: error: unrecognized arguments: --lrr 3", "Python 3.11, run"),
        ("train.py: error: the following arguments are required: --data", "Python 3.11, run"),
        ("train.py: error: argument --lr: invalid float value: 'x'", "Python 3.11, run"),
        (
            "ddpkit: error: ddpkit launch has no option --nprocs",
            "ddpkit 0.2, run",
        ),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--foo', '1']",
            "transformers 4.49, source",
        ),
        (
            "ValueError: remaining_argv: ['--model_type', 'qwen']",
            "ms-swift, unverified",
        ),
        (
            "train.py: error: ambiguous option: --data could match --data_path, --data_dir",
            "Python 3.11, run",
        ),
        (
            "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--lora', '8']",
            "transformers 4.40, source",
        ),
        (
            "Error: No such option: --lora",
            "click 8.3, source",
        ),
        (
            "ERROR: Could not consume arg: --lora",
            "fire, unverified",
        ),
        (
            "absl.flags._exceptions.UnrecognizedFlagError: Unknown command line flag 'lora'",
            "absl 2.5, source",
        ),
    ),
    "not-executable": (
        ("bash: ./train.sh: Permission denied", "bash 5.2, documented"),
        (
            "slurmstepd: error: execve(): start-agent.sh: Permission denied",
            "https://github.com/elyall/wandb_on_slurm/issues/5",
        ),
        ("bash: ./prog: cannot execute binary file: Exec format error", "bash 5.2, documented"),
        ("OSError: [Errno 8] Exec format error: './train.sh'", "Python 3.11, run"),
        (
            "/var/spool/sge/ccwsge0830/job_scripts/5430281:1: permission denied: "
            "/path/to/my/home/apps/julia/julia-0.5.0/bin/julia",
            "https://github.com/JuliaParallel/ClusterManagers.jl/issues/56",
        ),
        (
            "slurmstepd: error: execve(): /home/user/a.out: Exec format error",
            "Slurm 22.05, source",
        ),
        (
            "mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\nExecutable: ./train.sh\nNode: node2",
            "Open MPI 4.1.8, source",
        ),
        ("env: '/shared/train.sh': Permission denied", "coreutils 9.1, run"),
        ("timeout: failed to run command '/shared/train.sh': Permission denied", "coreutils 9.1, run"),
    ),
    "cpu-time-limit": (
        (
            "bash: line 1:   374 CPU time limit exceeded ( python busy.py )",
            "bash 5.2, run",
        ),
        (
            "train: Cputime limit exceeded",
            "tcsh 6.24, documented",
        ),
        (
            "process 1 terminated with signal SIGXCPU",
            "torch 2.6, source",
        ),
    ),
    "argument-empty": (
        (
            "pytorch_mnist.py: error: argument --rank: invalid int value: ''",
            "https://github.com/Azure/AML-Kubernetes/issues/15",
        ),
    ),
    "local-rank-required": (
        (
            "Swin Transformer training and evaluation script: error: the following arguments are required: --local_rank",
            "https://github.com/microsoft/Swin-Transformer/issues/342",
        ),
    ),
    "usage-printed": (
        (
            "usage: train.py [-h] -opt OPT [--launcher {none,pytorch,slurm}]\n  exitcode  : 2 (pid: 45617)",
            "https://github.com/megvii-research/NAFNet/issues/112",
        ),
    ),
    "heap-corrupted": (
        (
            "*** Error in `/home/anaconda3/envs/guangrui_cuda11/bin/python': double free or corruption (!prev): 0x000055bbaca66830 ***",
            "https://github.com/MendelXu/SAN/issues/6",
        ),
        ("*** buffer overflow detected ***: terminated", "glibc 2.36, run"),
        (
            "free(): invalid pointer",
            "https://github.com/yxlijun/Pelee.Pytorch/issues/20",
        ),
        (
            "free(): double free detected in tcache 2",
            "https://github.com/pytorch/pytorch/issues/50137",
        ),
        (
            "*** Error in `python': malloc(): memory corruption (fast): 0x00007ffe8a716f58 ***",
            "https://github.com/hemingkx/ChineseNMT/issues/5",
        ),
        (
            "src/tcmalloc.cc:278] Attempt to free invalid pointer 0x7ffe44b66698",
            "https://github.com/hemingkx/ChineseNMT/issues/5",
        ),
        (
            "malloc_consolidate(): unaligned fastbin chunk detected",
            "glibc 2.36, source",
        ),
        (
            "realloc(): invalid next size",
            "glibc 2.36, source",
        ),
        (
            "corrupted size vs. prev_size",
            "glibc 2.36, source",
        ),
        (
            "munmap_chunk(): invalid pointer",
            "glibc 2.36, source",
        ),
    ),
    "uncaught-exception": (
        (
            "  what():  owning_ptr == NullType::singleton() || owning_ptr->refcount_.load() > 0 INTERNAL ASSERT FAILED at /pytorch/c10/util/intrusive_ptr.h:348, please report a bug to PyTorch.",
            "https://github.com/kakaobrain/fast-autoaugment/issues/27",
        ),
    ),
}
