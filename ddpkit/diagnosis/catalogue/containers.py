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
        cause="the container engine cannot give GPUs to containers on this host. The NVIDIA container toolkit is "
        "missing, or does not match the driver",
        probe="on that host: nvidia-ctk --version; docker run --rm --gpus all ubuntu nvidia-smi",
        fix="install nvidia-container-toolkit, then run `sudo nvidia-ctk runtime configure --runtime=docker && sudo "
        "systemctl restart docker`",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1352",
    ),
    Entry(
        id="docker-daemon",
        doubtful=True,
        title="permission denied while trying to connect to the Docker daemon socket",
        patterns=(
            r"permission denied while trying to connect to the Docker daemon",
            r"Cannot connect to the Docker daemon",
        ),
        cause="docker does not run on this host, or this user has no permission to use it",
        probe="on that host: systemctl status docker; id",
        fix="sudo systemctl start docker. Or run `sudo usermod -aG docker $USER` and log in again. Or use podman or "
        "apptainer",
        link="https://docs.docker.com/engine/install/linux-postinstall/",
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
        cause="the container image was not found under this name, needs a login, or this host cannot reach the "
        "registry",
        probe="on that host: docker pull IMAGE (enroot import docker://IMAGE, apptainer pull IMAGE)",
        fix="correct the name and tag, or log in (docker login, ~/.config/enroot/.credentials). For a file: use a "
        "shared path that begins with / or ./",
        link="https://github.com/NVIDIA/pyxis/issues/127",
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
        cause="the container image was found, but does not start. A mount is missing, a GPU driver hook failed, user "
        "namespaces are disabled, or the image is incomplete",
        probe="the lines above it; on that host: enroot start IMAGE true, or apptainer exec IMAGE true",
        fix="correct the mounts, or download the image again. For an image with an entry point: "
        "--no-container-entrypoint",
        link="https://github.com/NVIDIA/pyxis/issues/61",
    ),
    Entry(
        id="mpi-slots",
        title="There are not enough slots available in the system",
        patterns=(r"There are not enough slots available in the system",),
        cause="mpirun needs more slots for these ranks than its hosts have",
        probe="cat HOSTFILE; nproc",
        fix="set slots=N in the hostfile, or use mpirun --oversubscribe",
        link="https://docs.open-mpi.org/en/main/launching-apps/scheduling.html",
    ),
    Entry(
        id="mpi-daemon",
        title="ORTE was unable to reliably start one or more daemons; PMIX ERROR",
        patterns=(
            r"was unable to reliably start one or more daemons",
            r"has lost communication with a remote daemon",
        ),
        cause="mpirun could not start its daemon on another host, or lost the connection. The cause is ssh, the path "
        "of Open MPI there, or a firewall",
        probe="ssh HOST which orted prted",
        fix="mpirun --prefix /path/to/openmpi, or --mca oob_tcp_if_include INTERFACE. Open the ports between the hosts",
        link="https://docs.open-mpi.org/en/main/launching-apps/troubleshooting.html",
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
        cause="rank {rank} failed, and mpirun ended the others. The reason is in the output of rank {rank}",
        probe="mpirun --tag-output ..., then read rank {rank}'s last lines",
        fix="run `ddpkit explain LOG` with the output of all ranks",
        link="https://docs.open-mpi.org/en/main/launching-apps/index.html",
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
        cause="this is a launcher's summary. A process failed, and the reason is in the output of that process",
        probe="read the lines before it",
        fix="read the output of the process that failed first, or run `ddpkit explain LOG`",
        link="https://docs.pytorch.org/docs/stable/elastic/errors.html",
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
        cause="Ray lost a worker process. It was killed because memory was full, crashed, or its node failed",
        probe="ray logs; on the node: dmesg -T | grep -i 'killed process'",
        fix="read the worker's own log (/tmp/ray/session_latest/logs/worker-*.err)",
        link="https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-failures.html",
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
        fix="use fewer workers per node, store less in the object store, or add --env RAY_memory_usage_threshold=0.98",
        link="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
    ),
    Entry(
        id="deepspeed-no-hostfile",
        title="Unable to find hostfile, will proceed with training with local resources only",
        kind="hint",
        patterns=(r"Unable to find hostfile, will proceed with training with local resources only",),
        cause="DeepSpeed's launcher found no host file and uses this host only",
        probe="ls -l /job/hostfile",
        fix="deepspeed --hostfile FILE for several hosts. For one host, this is harmless",
        link="https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node",
    ),
    Entry(
        id="batch-size-config",
        title="Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size",
        patterns=(
            r"[Bb]atch size(?: per gpu)?: \d+ has to be greater than 0",
            r"train_batch_size is not equal to micro_batch_per_gpu",
            r"[Bb]atch size \(?\d+\)? is not divisible by",
        ),
        cause="the batch sizes in the configuration do not match this number of ranks",
        probe="grep -n batch_size CONFIG; echo $WORLD_SIZE",
        fix="set train_batch_size to micro batch * accumulation * ranks, or omit train_batch_size (`auto`)",
        link="https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters",
    ),
)
