"""Containers, and launchers other than torchrun: docker, pyxis, Apptainer, MPI, Ray, DeepSpeed."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="docker-no-gpu",
        title="could not select device driver with capabilities: [[gpu]]",
        patterns=(
            r"Unknown runtime specified nvidia",
            r"could not select device driver \"?\w*\"? ?with capabilities: \[\[gpu\]\]",
            r"could not select device driver .*capabilities",
            r"nvidia-container-cli: (?P<what>.*)",
            r"unknown or invalid runtime name: nvidia",
            r"unresolvable CDI devices",
        ),
        cause="the container engine cannot give GPUs to containers on this host: the NVIDIA container toolkit is missing or does not fit the driver",
        probe="on that host: nvidia-ctk --version; docker run --rm --gpus all ubuntu nvidia-smi",
        fix="install nvidia-container-toolkit there, then sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1352",
        examples=(
            (
                'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
                "https://github.com/NVIDIA/nvidia-docker/issues/1352",
            ),
            (
                "nvidia-container-cli: initialization error: driver error: failed to process request",
                "nvidia-container-toolkit, documented",
            ),
            (
                "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
                "https://github.com/nv-tlabs/3dgrut/issues/71",
            ),
            ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "podman 4.3, source"),
            (
                "docker: Error response from daemon: Unknown runtime specified nvidia.",
                "https://github.com/NVIDIA/nvidia-docker/issues/578",
            ),
        ),
    ),
    Entry(
        id="docker-daemon",
        doubtful=True,
        title="permission denied while trying to connect to the Docker daemon socket",
        patterns=(
            r"permission denied while trying to connect to the Docker daemon",
            r"Cannot connect to the Docker daemon",
        ),
        cause="docker does not run on this host, or this user may not use it",
        probe="on that host: systemctl status docker; id",
        fix="sudo systemctl start docker; sudo usermod -aG docker $USER and log in again; or use podman or apptainer",
        link="https://docs.docker.com/engine/install/linux-postinstall/",
        examples=(
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
                "docker 28.2, source",
            ),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                "docker 28.2, run",
            ),
        ),
    ),
    Entry(
        id="image-not-found",
        doubtful=True,
        title="The image cannot be pulled: manifest unknown, unauthorized, no such image",
        patterns=(
            r"pull access denied for (?P<image>\S+?),",
            r"pyxis: failed to import docker image",
            r"returned error code: (?:401 Unauthorized|404 Not Found)",
            r"toomanyrequests: You have reached your (?:unauthenticated )?pull rate limit",
            r"FATAL: .*(?:could not open image|while pulling|failed to retrieve path for) (?P<image>\S+)",
            r"No such file or directory: (?P<image>\S+\.sqsh)",
        ),
        cause="the container image is not there under this name, needs a login, or this host cannot reach the registry",
        probe="on that host: docker pull IMAGE (enroot import docker://IMAGE, apptainer pull IMAGE)",
        fix="correct the name and tag; log in (docker login, ~/.config/enroot/.credentials); for a file: a path that begins with / or ./, shared by all hosts",
        link="https://github.com/NVIDIA/pyxis/issues/127",
        examples=(
            ("slurmstepd: error: pyxis: failed to import docker image", "https://github.com/NVIDIA/pyxis/issues/127"),
            (
                "docker: Error response from daemon: pull access denied for mymodel, repository does not exist or may require 'docker login'",
                "docker, documented",
            ),
            (
                "FATAL:   could not open image /home/me/torch.sif: failed to retrieve path for /home/me/torch.sif: lstat /home/me/torch.sif: no such file or directory",
                "apptainer 1.3, documented",
            ),
            (
                "slurmstepd: error: pyxis:     [ERROR] URL "
                "https://registry-1.docker.io/v2/library/cont.sqsh/manifests/latest returned error code: 401 "
                "Unauthorized",
                "https://github.com/NVIDIA/pyxis/issues/67",
            ),
            ("[ERROR] No such file or directory: /home/me/torch.sqsh", "enroot, source"),
            (
                "Error response from daemon: toomanyrequests: You have reached your pull rate limit.",
                "https://github.com/docker/hub-feedback/issues/2429",
            ),
            (
                "Error response from daemon: toomanyrequests: You have reached your unauthenticated pull rate limit.",
                "https://github.com/docker/hub-feedback/issues/2464",
            ),
        ),
    ),
    Entry(
        id="container-start-failed",
        title="pyxis: couldn't start container; apptainer: container creation failed",
        patterns=(
            r"pyxis: couldn't start container",
            r"pyxis: container start failed",
            r"container creation failed: (?P<what>.*)",
            r"enroot-switchroot: failed to execute",
            r"OCI runtime (?:create|exec) failed",
            r"\[ERROR\] /etc/enroot/hooks\.d/\S+ exited with return code",
        ),
        cause="the container's image was found, but does not start: a mount that is not there, a hook of the GPU driver that failed, user namespaces that are off, or an image that is cut off",
        probe="the lines above it; on that host the same by hand: enroot start / apptainer exec IMAGE true",
        fix="correct the mounts; fetch the image again; for an image with an entry point: --no-container-entrypoint",
        link="https://github.com/NVIDIA/pyxis/issues/61",
        examples=(
            ("slurmstepd: error: pyxis: couldn't start container", "https://github.com/NVIDIA/pyxis/issues/61"),
            (
                "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/var/lib/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: squashfuse_ll exited with status 255",
                "https://github.com/apptainer/apptainer/issues/1037",
            ),
            (
                "docker: Error response from daemon: OCI runtime create failed: runc create failed: unable to start container process",
                "docker, documented",
            ),
            (
                "slurmstepd: error: pyxis: container start failed with error code: 1",
                "https://github.com/NVIDIA/pyxis/issues/61",
            ),
            (
                "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file "
                "or directory",
                "https://github.com/NVIDIA/pyxis/issues/61",
            ),
            (
                "slurmstepd: error: pyxis: [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1",
                "https://github.com/NVIDIA/pyxis/issues/101",
            ),
        ),
    ),
    Entry(
        id="mpi-slots",
        title="There are not enough slots available in the system",
        patterns=(r"There are not enough slots available in the system",),
        cause="mpirun was asked for more ranks than its hosts have slots",
        probe="cat HOSTFILE; nproc",
        fix="slots=N in the hostfile, or mpirun --oversubscribe",
        link="https://docs.open-mpi.org/en/main/launching-apps/scheduling.html",
        examples=(("There are not enough slots available in the system to satisfy the 8", "Open MPI 4.1, source"),),
    ),
    Entry(
        id="mpi-daemon",
        title="ORTE was unable to reliably start one or more daemons; PMIX ERROR",
        patterns=(
            r"was unable to reliably start one or more daemons",
            r"has lost communication with a remote daemon",
        ),
        cause="mpirun could not start its helper on another host, or lost it: ssh, the path of Open MPI there, or a firewall",
        probe="ssh HOST which orted prted",
        fix="mpirun --prefix /path/to/openmpi; open the ports between the hosts; --mca oob_tcp_if_include INTERFACE",
        link="https://docs.open-mpi.org/en/main/launching-apps/troubleshooting.html",
        examples=(
            ("ORTE was unable to reliably start one or more daemons.", "Open MPI 4.1, source"),
            ("ORTE has lost communication with a remote daemon.", "Open MPI 4.1, source"),
        ),
    ),
    Entry(
        id="mpi-abort",
        title="MPI_ABORT was invoked; mpirun noticed that process rank N exited on signal",
        kind="generic",
        patterns=(
            r"MPI_ABORT was invoked on rank (?P<rank>\d+)",
            r"mpirun noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on signal (?P<signal>\d+)",
            r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
            r"mpirun detected that one or more processes exited with non-zero status",
        ),
        cause="rank {rank} failed; mpirun ended the others. Its reason is in its own output",
        probe="mpirun --tag-output ..., then read rank {rank}'s last lines",
        fix="ddpkit explain LOG, with the output of all ranks",
        link="https://docs.open-mpi.org/en/main/launching-apps/index.html",
        examples=(
            (
                "mpirun noticed that process rank 3 with PID 4711 on node node2 exited on signal 9 (Killed).",
                "Open MPI 4.1, source",
            ),
            ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "Open MPI 4.1, source"),
            ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "MPICH 4.0, source"),
            (
                "mpirun detected that one or more processes exited with non-zero status, thus causing",
                "Open MPI 4.1, source",
            ),
        ),
    ),
    Entry(
        id="launcher-summary",
        title="subprocess.CalledProcessError: Command ... returned non-zero exit status 1",
        kind="consequence",
        patterns=(
            r"CalledProcessError: Command '\[?'?\S*(?:python|torchrun|deepspeed|accelerate|bash|sh)\S*'?.*returned non-zero exit status (?P<code>\d+)",
            r"exits with return code = (?P<code>[1-9]\d*)",
            r"\bProcessRaisedException\b",
            r"\bProcessExitedException: process (?P<rank>\d+) terminated with exit code",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Exited with exit code (?P<code>\d+)",
            r"srun: .*Terminating (?:job step|StepId)",
            r"pdsh@\S+: (?P<host>\S+): ssh exited with exit code (?P<code>\d+)",
            r"failed \(exitcode: (?!-(?:4|6|7|8|9|11|15)\))-?\d+\) local_rank: (?P<rank>\d+)",
            r"STEP \S+ ON \S+ CANCELLED AT \S+ DUE TO TASK FAILURE",
        ),
        cause="a launcher's summary: a process that it started failed, and the reason is in that process's own output",
        probe="read the lines before it",
        fix="read the output of what failed first; ddpkit explain LOG on the log that has it",
        link="https://docs.pytorch.org/docs/stable/elastic/errors.html",
        examples=(
            (
                "subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py', '--lr', '1e-4']' returned non-zero exit status 1.",
                "accelerate, documented",
            ),
            (
                "[2024-01-05 10:11:12,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = 1",
                "DeepSpeed, documented",
            ),
            ("torch.multiprocessing.spawn.ProcessRaisedException: ", "torch 2.13, documented"),
            ("srun: error: node1: task 1: Exited with exit code 3", "Slurm 22.05, run"),
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 4711) of binary: /usr/bin/python3",
                "torch 2.2, run",
            ),
            (
                "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO TASK FAILURE ***",
                "Slurm 22.05, run",
            ),
            ("pdsh@login: node1: ssh exited with exit code 1", "pdsh 2.34, run"),
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 3",
                "torch 2.13, run",
            ),
            ("srun: launch/slurm: _step_signal: Terminating StepId=14.0", "Slurm 22.05, run"),
        ),
    ),
    Entry(
        id="ray-actor-died",
        title="RayActorError: The actor died unexpectedly before finishing this task",
        kind="generic",
        patterns=(
            r"\bRayActorError\b",
            r"\bActorDiedError\b",
            r"The actor (?:is dead|died unexpectedly)",
            r"Worker (?:unexpectedly exits|exit type: SYSTEM_ERROR)",
        ),
        cause="Ray lost a worker process: killed for memory, crashed, or its node is gone",
        probe="ray logs; on the node: dmesg -T | grep -i 'killed process'",
        fix="read the worker's own log (/tmp/ray/session_latest/logs/worker-*.err)",
        link="https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-failures.html",
        examples=(
            (
                "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
                "Ray 2.60, source",
            ),
            (
                "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
                "Ray 2.60, source",
            ),
            ("Worker unexpectedly exits with a connection error code 2. End of file.", "Ray 2.60, source"),
        ),
    ),
    Entry(
        id="ray-memory",
        title="Task was killed due to the node running low on memory",
        patterns=(
            r"Task was killed due to the node running low on memory",
            r"\bOutOfMemoryError: Task was killed",
            r"Workers \(tasks / actors\) killed due to memory pressure",
        ),
        cause="Ray ended a worker because the host's memory was nearly full",
        probe="ray status; free -g",
        fix="fewer workers a node, less in the object store, or --env RAY_memory_usage_threshold=0.98",
        link="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
        examples=(
            (
                "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
                "Ray 2, documented",
            ),
            (
                "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed "
                "due to other reasons",
                "Ray 2.60, source",
            ),
        ),
    ),
    Entry(
        id="deepspeed-no-hostfile",
        title="Unable to find hostfile, will proceed with training with local resources only",
        kind="hint",
        patterns=(r"Unable to find hostfile, will proceed with training with local resources only",),
        cause="DeepSpeed's launcher found no host file and goes on with this host alone",
        probe="ls -l /job/hostfile",
        fix="deepspeed --hostfile FILE, where several hosts are meant; else it is harmless",
        link="https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node",
        examples=(
            (
                "[2024-01-05 10:11:12,123] [WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
                "DeepSpeed, documented",
            ),
        ),
    ),
    Entry(
        id="batch-size-config",
        title="Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size",
        patterns=(
            r"[Bb]atch size(?: per gpu)?: \d+ has to be greater than 0",
            r"train_batch_size is not equal to micro_batch_per_gpu",
            r"[Bb]atch size \(?\d+\)? is not divisible by",
        ),
        cause="the batch sizes of the configuration do not multiply up for this number of ranks",
        probe="grep -n batch_size CONFIG; echo $WORLD_SIZE",
        fix="train_batch_size = micro batch * accumulation * ranks; or leave train_batch_size out (`auto`)",
        link="https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters",
        examples=(
            (
                "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 4 * 1 * 4",
                "DeepSpeed, source",
            ),
            (
                "ValueError: Global batch size 10 is not divisible by 4 as a result, the batch size will be truncated",
                "https://github.com/mosaicml/examples/pull/41",
            ),
            (
                "AssertionError: Micro batch size per gpu: 0 has to be greater than 0",
                "https://github.com/LIN-SHANG/InstructERC/issues/16",
            ),
        ),
    ),
)
