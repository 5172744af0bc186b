"""Printed texts of `ddpkit/diagnosis/catalogue/containers.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "docker-no-gpu": (
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
    "docker-daemon": (
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "docker 28.2, source",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "docker 28.2, run",
        ),
    ),
    "image-not-found": (
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
    "container-start-failed": (
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
            "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
            "https://github.com/NVIDIA/pyxis/issues/61",
        ),
        (
            "slurmstepd: error: pyxis: [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1",
            "https://github.com/NVIDIA/pyxis/issues/101",
        ),
    ),
    "mpi-slots": (("There are not enough slots available in the system to satisfy the 8", "Open MPI 4.1, source"),),
    "mpi-daemon": (
        ("ORTE was unable to reliably start one or more daemons.", "Open MPI 4.1, source"),
        ("ORTE has lost communication with a remote daemon.", "Open MPI 4.1, source"),
    ),
    "mpi-abort": (
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
    "launcher-summary": (
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
    "ray-actor-died": (
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
    "ray-memory": (
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
    "deepspeed-no-hostfile": (
        (
            "[2024-01-05 10:11:12,123] [WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
            "DeepSpeed, documented",
        ),
    ),
    "batch-size-config": (
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
}
