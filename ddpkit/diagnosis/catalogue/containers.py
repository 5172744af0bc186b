"""Containers, and launchers other than torchrun: docker, pyxis, Apptainer, MPI, Ray, DeepSpeed."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="container-no-driver",
        title="nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        patterns=(r"nvidia-container-cli: .*load library failed: (?P<library>[\w.+-]+)",),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed", "library-missing"),
        cause="the host has no NVIDIA driver, or its library {library} is not where the container runtime searches. The "
        "driver belongs on the host, not into the image",
        probe="on that host, outside of the container: nvidia-smi; ldconfig -p | grep {library}",
        fix="install the NVIDIA driver on the host, then `sudo ldconfig`. With Docker Desktop or rootless Docker, use the "
        "host's own docker engine",
        link="https://github.com/NVIDIA/nvidia-container-toolkit/issues/183",
    ),
    Entry(
        id="container-program-missing",
        title="[ERROR] Command not found: nvidia-container-cli",
        patterns=(
            r"\[ERROR\]:? Command not found: (?P<program>[\w.+-]+)",
            r"exec: \"?(?P<program>nvidia-container-cli)\"?: executable file not found",
        ),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed", "image-import-failed"),
        cause="{program} is not installed on the node. The container runtime calls it outside of the image, before the "
        "container starts",
        probe="on that node, outside of the container: command -v {program}",
        fix="as administrator, install it on every node. For nvidia-container-cli: apt-get install "
        "libnvidia-container-tools. For a job without GPUs: NVIDIA_VISIBLE_DEVICES=void",
        link="https://github.com/NVIDIA/pyxis/issues/101",
    ),
    Entry(
        id="container-hook-program",
        title="[ERROR] Command not found: ldconfig, then /etc/enroot/hooks.d/90-aws-ofi-nccl.sh exited with return code 1",
        patterns=(
            r"\[ERROR\]:? Command not found: (?P<program>(?!nvidia-container-cli)[\w.+-]+)",
            r"(?P<hook>/\S*hooks\.d/\S+): line \d+: (?P<program>\S+): command not found",
        ),
        needs=r"hooks\.d/\S+ exited with return code",
        context=r"\[ERROR\] (?P<hook>/\S*hooks\.d/\S+) exited with return code",
        explains=(
            "container-program-missing",
            "container-hook-failed",
            "container-start-failed",
            "image-import-failed",
            "docker-no-gpu",
            "command-not-found",
        ),
        cause="the hook {hook|of enroot} stopped the container before its start: {program} was not found on the hook's "
        "PATH",
        probe="on that node, outside of the container: echo $PATH; ls -l /sbin/{program} /usr/sbin/{program}; head -30 "
        "{hook|/etc/enroot/hooks.d/*}",
        fix="export PATH=$PATH:/usr/sbin:/sbin before srun. Or switch the hook off if the job does not need it: drop its "
        "annotation from the environment file (com.hooks.aws_ofi_nccl.enabled) or set its variable "
        "(MELLANOX_VISIBLE_DEVICES=void). Otherwise the administrator installs {program} on the nodes",
        link="https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md",
    ),
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
        id="image-path-relative",
        title="pyxis: No such file or directory: image.sqsh; a path is taken as an image of a registry",
        patterns=(
            r"https://registry-1\.docker\.io/v2/(?:library/)?(?P<image>\S+\.sqsh)/manifests",
            r"pyxis: .*?(?<![\w./-])(?P<image>[\w./-]+\.sqsh).*(?:not found|404|401|Could not process JSON)",
            r"\[ERROR\]:? No such file or directory: (?P<image>(?![./])\S+)",
            r"Invalid image reference: (?P<image>\S+)",
            r"importing docker image: (?P<image>(?![./])\S+\.sqsh)",
        ),
        explains=(
            "container-start-failed",
            "image-not-found",
            "image-import-failed",
        ),
        cause="the image {image|file} was not found on that node. A name that does not begin with / or ./ is "
        "taken as an image of a registry",
        probe="on that node: ls -l {image|IMAGE}",
        fix="--container-image=./image.sqsh, or its full path on a file system that all nodes share",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="image-registry-slash",
        title="URL https://registry-1.docker.io/v2/registry.example.com/name/manifests/latest returned error code: 401",
        patterns=(r"registry-1\.docker\.io/v2/(?P<registry>[\w-]+(?:\.[\w-]+)+)/(?P<image>\S+)/manifests/",),
        explains=(
            "container-start-failed",
            "image-not-found",
            "image-import-failed",
        ),
        cause="enroot searched Docker Hub for {registry}/{image}: it separates a registry from the name by #, not by /",
        probe="on that node: enroot import docker://{registry}#{image}",
        fix="--container-image={registry}#{image}:TAG. For a private registry, also its login: "
        "~/.config/enroot/.credentials",
        link="https://github.com/NVIDIA/pyxis/issues/168",
    ),
    Entry(
        id="deepspeed-ssh-port",
        title="KeyError: 'PDSH_SSH_ARGS_APPEND'",
        patterns=(r"KeyError: 'PDSH_SSH_ARGS_APPEND'",),
        cause="DeepSpeed adds --ssh_port to the variable PDSH_SSH_ARGS_APPEND, and this version fails where it is not set",
        probe="pip show deepspeed; echo $PDSH_SSH_ARGS_APPEND",
        fix="export PDSH_SSH_ARGS_APPEND='', or install a newer DeepSpeed. Or set Port in ~/.ssh/config, without --ssh_port",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5318",
    ),
    Entry(
        id="image-argument-missing",
        title="could not open image .../python3; a program in place of the image",
        patterns=(
            r"FATAL: .*could not open image (?:\S*/)?(?P<program>python[\d.]*|bash|sh|torchrun|deepspeed|accelerate|mpirun|env|[\w.-]+\.py):",
            r"Unable to find image '(?:docker\.io/library/)?(?P<program>python3|bash|sh|torchrun|deepspeed|accelerate):latest' locally",
        ),
        explains=("container-start-failed", "image-not-found", "image-import-failed"),
        cause="the container runtime took the program {program} for the image: the image is missing before it, often "
        "because its variable or setting is empty",
        probe="the command line that starts the container, with its variables: echo run ... $IMAGE ...",
        fix="set the image: apptainer exec [OPTIONS] IMAGE {program} ...; docker run [OPTIONS] IMAGE {program} ...",
        link="https://apptainer.org/docs/user/main/quick_start.html",
    ),
    Entry(
        id="image-not-found",
        doubtful=True,
        title="The image cannot be pulled: manifest unknown, unauthorized, no such image",
        explains=(
            "container-start-failed",
            "image-import-failed",
        ),
        patterns=(
            r"\bErrImagePull\b",
            r"Back-off pulling image \"(?P<image>[^\"]+)\"",
            r"Failed to pull image \"(?P<image>[^\"]+)\"",
            r"pull access denied for (?P<image>\S+?),",
            r"returned error code: (?:401 Unauthorized|404 Not Found)",
            r"toomanyrequests: You have reached your (?:unauthenticated )?pull rate limit",
            r"FATAL: .*(?:could not open image|while pulling|failed to retrieve path for) (?P<image>\S+)",
            r"manifest unknown",
            r"short-name \"\S+\" did not resolve",
            r"requested access to the resource is denied",
            r"\bImagePullBackOff\b",
            r"Unable to find image '(?P<image>[^']+)'$",
            r"initializing source docker://(?P<image>\S+): ",
            r"\[ERROR\]:? No such file or directory: (?P<image>[./]\S+)",
        ),
        cause="the container image was not found under this name, needs a login, or this host cannot reach the "
        "registry",
        probe="on that host: docker pull IMAGE (enroot import docker://IMAGE, apptainer pull IMAGE)",
        fix="correct the name and tag, or log in (docker login, ~/.config/enroot/.credentials). For a file: use a "
        "shared path that begins with / or ./",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="image-unreadable",
        title="could not open image: image format not recognized; Invalid image format",
        explains=("container-start-failed", "image-not-found"),
        patterns=(
            r"could not open image (?P<image>\S+): (?:image format not recognized|.*permission denied)",
            r"\[ERROR\]:? Invalid image format: (?P<image>\S+)",
        ),
        cause="the image {image|file} cannot be read on that node. It is incomplete, has the format of another "
        "runtime, or this user has no permission",
        probe="on that node: ls -l {image|IMAGE}; file {image|IMAGE}",
        fix="build, import or copy the image again (apptainer: .sif, enroot: .sqsh), or correct its permissions",
        link="https://github.com/apptainer/apptainer/issues/1037",
    ),
    Entry(
        id="container-runtime-directory",
        title="mkdir: cannot create directory '/run/enroot': Permission denied; pyxis: couldn't mkdir /run/pyxis/1000",
        explains=("container-start-failed", "read-only-fs"),
        patterns=(
            r"cannot create directory ['‘](?P<path>/run/[^'’]+)['’]: (?P<reason>.*)",
            r"pyxis: (?:slurmd: )?couldn't (?:mkdir|chown) (?P<path>/\S+): (?P<reason>.*)",
        ),
        cause="the container runtime cannot create its directory {path} on that node: {reason}",
        probe="on that node: ls -ld /run/enroot /run/pyxis; cat /etc/enroot/enroot.conf; cat /etc/slurm/plugstack.conf",
        fix="as administrator, create the directory above {path} on every node: for pyxis /run/pyxis (runtime_path in "
        "plugstack.conf), with systemd-tmpfiles, as /run is empty after a boot. For enroot, also: --env "
        "ENROOT_RUNTIME_PATH=DIR with a writable directory on a local disk",
        link="https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md",
    ),
    Entry(
        id="image-no-space",
        title="Creating squashfs filesystem... Write failed because No space left on device",
        patterns=(
            r"Write failed because No space left on device",
            r"FATAL ERROR: ?Failed to write to output filesystem",
        ),
        explains=("disk-full", "image-import-failed", "container-start-failed"),
        cause="the file system where enroot writes the image is full. pyxis uses its runtime_path (/run/pyxis, often in "
        "memory), and `enroot import` its cache and temporary directory",
        probe="on that node: df -h /run /tmp; grep -i runtime_path /etc/slurm/plugstack.conf*; grep -E "
        "'CACHE|TEMP|DATA|RUNTIME' /etc/enroot/enroot.conf",
        fix="as administrator: set runtime_path= of pyxis in plugstack.conf, and ENROOT_TEMP_PATH, to a local disk with "
        "room. As user: `enroot import` the image once into a .sqsh file on a shared disk, and pass its path",
        link="https://github.com/NVIDIA/pyxis/wiki/Setup",
    ),
    Entry(
        id="image-import-failed",
        title="pyxis: failed to import docker image; child failed with error code",
        kind="generic",
        patterns=(
            r"pyxis: failed to import docker image",
            r"pyxis: child \d+ failed with error code",
        ),
        cause="enroot could not download or convert the image. Its own message is above or below this line",
        probe="on that node: enroot import docker://IMAGE",
        fix="correct the name (docker://REGISTRY#NAME:TAG), log in (~/.config/enroot/.credentials), or free "
        "space in ENROOT_CACHE_PATH. For a file, begin its path with / or ./",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="container-no-shell",
        title="enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        patterns=(
            r"enroot-switchroot: failed to execute: (?P<program>[^:]+)",
            r"exec(?:_user_process caused)?: \"?(?P<program>/[\w./-]+)\"?: stat \S+: no such file",
            r"FATAL: +(?P<program>/\S+): no such file or directory",
            r"executable (?:file )?[`\"]?(?P<program>\S+?)[`'\"]? not found in \$PATH",
            r"FATAL: +stat (?P<program>/\S+): no such file or directory",
        ),
        explains=(
            "container-start-failed",
            "command-not-found",
        ),
        cause="the container's file system has no {program|shell}. The image is minimal, incomplete, or was "
        "imported badly on this node",
        probe="on that node: enroot start IMAGE ls /bin, or docker run --rm --entrypoint ls IMAGE /bin",
        fix="use an image that contains it (for pyxis, /bin/bash), or --no-container-entrypoint, or import the image "
        "again. A Python: --python PATH, as the image has it, or --container-mounts DIR:DIR",
        link="https://github.com/NVIDIA/pyxis/issues/61",
    ),
    Entry(
        id="container-file-unreadable",
        title="FATAL: stat /home/user/entrypoint.sh: permission denied",
        patterns=(
            r"FATAL: +(?:stat|exec|open|chdir)\S* (?P<path>/\S+?):? (?:failed: )?permission denied",
            r"FATAL: +failed to start \S+ proc: fork/exec (?P<path>/\S+): permission denied",
        ),
        explains=("container-start-failed",),
        cause="this user cannot read or execute {path} in the image. Apptainer and Singularity run as the user who "
        "started them, not as the image's root",
        probe="apptainer exec IMAGE ls -ld / {path}, and its directories; id",
        fix="start another program: `apptainer exec IMAGE python train.py` in place of `run`. Or build the image with "
        "`chmod -R a+rX` of that directory, or try --fakeroot",
        link="https://github.com/rapidsai/docker/issues/669",
    ),
    Entry(
        id="container-hook-failed",
        title="[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1",
        patterns=(
            r"\[ERROR\] (?P<hook>/\S*hooks\.d/\S+) exited with return code",
            r"error executing hook `(?P<hook>[^`]+)` \(exit code: \d+\)",
            r"error running (?:prestart |createRuntime )?hook #?\d*:? ?:?(?P<what>.*)",
        ),
        explains=("container-start-failed",),
        cause="a hook of the container runtime failed before the container started[: {hook}]. Its own message "
        "is in the line above",
        probe="on that node, as the hook's first lines need it: enroot start IMAGE true",
        fix="switch the hook off if the job does not need it: drop its annotation "
        "(com.hooks.aws_ofi_nccl.enabled) or variable (NVIDIA_VISIBLE_DEVICES=void, "
        "MELLANOX_VISIBLE_DEVICES=void). Or use an image with the missing program, for example ldconfig",
        link="https://github.com/NVIDIA/pyxis/issues/101",
    ),
    Entry(
        id="container-mount-missing",
        title="pyxis: couldn't mount; enroot-mount: failed to mount: No such file or directory",
        patterns=(
            r"enroot-mount: failed to mount: (?P<path>\S+)",
            r"mount (?:source|point) (?P<path>\S+) (?:doesn't|does not) exist",
            r"bind source path does not exist: (?P<path>\S+)",
            r"statfs (?P<path>\S+): no such file or directory",
            r"error mounting \"(?P<path>[^\"]+)\"",
        ),
        explains=("container-start-failed",),
        cause="{path} cannot be mounted into the container: it does not exist on that node, or the mount point "
        "is missing",
        probe="on that node: ls -ld {path}",
        fix="create the directory on every node, or correct the mounts (--container-mounts, -v, --bind)",
        link="https://github.com/NVIDIA/pyxis/wiki/Usage",
    ),
    Entry(
        id="container-start-failed",
        title="pyxis: couldn't start container; apptainer: container creation failed",
        kind="generic",
        patterns=(
            r"pyxis: couldn't start container",
            r"pyxis: container start failed",
            r"container creation failed: (?P<what>.*)",
            r"OCI (?:runtime (?:create|exec) failed|runtime error:|permission denied)",
            r"FATAL: +failed to set working directory: (?P<what>.*)",
            r"pyxis: container exited too soon",
            r"task_init\(\) failed",
            r"spank_pyxis\.so: .* failed",
            r"workdir \"[^\"]+\" does not exist on container",
        ),
        cause="the container image was found, but does not start. A mount is missing, a GPU driver hook failed, user "
        "namespaces are disabled, or the image is incomplete",
        probe="the lines above it; on that host: enroot start IMAGE true, or apptainer exec IMAGE true",
        fix="read the line above it that names a file or a hook. Correct the mounts, or import the image "
        "again. For an image with an entry point: --no-container-entrypoint",
        link="https://github.com/NVIDIA/pyxis/issues/61",
    ),
    Entry(
        id="mpi-slots",
        title="There are not enough slots available in the system; requested more processes than the ppr can support",
        patterns=(
            r"There are not enough slots available in the system",
            r"\brequested more processes than the ppr for\b",
        ),
        cause="mpirun needs more slots for these ranks than its hosts have",
        probe="cat HOSTFILE; nproc",
        fix="set slots=N in the hostfile, request N tasks (SLURM: --ntasks=N), or use mpirun --oversubscribe. With "
        "-npernode or --map-by ppr:N:node, N times the hosts must be at least -np",
        link="https://docs.open-mpi.org/en/main/launching-apps/scheduling.html",
    ),
    Entry(
        id="mpi-daemon-missing",
        title="bash: orted: command not found; error while loading shared libraries of orted",
        explains=(
            "mpi-daemon",
            "command-not-found",
            "library-missing",
            "mpi-abort",
        ),
        patterns=(
            r"\b(?P<program>orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy): .*not found",
            r"(?P<program>\S*\b(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy)): No such file or directory",
            r"(?P<program>\S*(?:orted|prted)): error while loading shared libraries",
            r"execvp error on file \S*(?P<program>hydra_pmi_proxy|hydra_bstrap_proxy) \(No such file",
        ),
        cause="mpirun's daemon[ {program}] is not found by the non-interactive shell of the other host: MPI "
        "is not on its PATH or LD_LIBRARY_PATH, or is at another path",
        probe="ssh {host|HOST} 'which orted prted; echo $PATH'",
        fix="mpirun --prefix /path/to/openmpi (or call mpirun by its full path), or set PATH and "
        "LD_LIBRARY_PATH at the top of ~/.bashrc on every host",
        link="https://github.com/horovod/horovod/issues/1021",
    ),
    Entry(
        id="mpi-daemon",
        title="ORTE was unable to reliably start one or more daemons; PMIX ERROR",
        kind="generic",
        patterns=(r"was unable to reliably start one or more daemons",),
        cause="mpirun could not start its daemon on another host. The cause is ssh, the path "
        "of Open MPI there, or a firewall",
        probe="from the first host, for each of the others: ssh -o BatchMode=yes HOST which orted prted",
        fix="install the same Open MPI on all hosts and pass its path: mpirun --prefix /path/to/openmpi. To "
        "choose the network: --mca oob_tcp_if_include INTERFACE; open the ports between the hosts",
        link="https://docs.open-mpi.org/en/main/launching-apps/troubleshooting.html",
    ),
    Entry(
        id="mpi-host-unknown",
        title="HYDU_sock_connect: unable to get host address for NAME",
        patterns=(r"HYDU_sock_connect .*unable to get host address for (?P<peer>\S+)",),
        cause="a node cannot resolve {peer}, the name of the host on which mpirun runs",
        probe="on that node: getent hosts {peer|NAME}; on the first host: hostname",
        fix="add {peer|the name} to DNS, or to /etc/hosts of every node. Or pass an address: mpirun -localhost ADDRESS, "
        "or -iface INTERFACE",
        link="https://github.com/pmodels/mpich/issues/4712",
    ),
    Entry(
        id="mpi-root",
        title="mpirun has detected an attempt to run as root",
        patterns=(
            r"mpirun has detected an attempt to run as root",
            r"Running as root is \*strongly\* discouraged",
        ),
        cause="Open MPI does not run as root without a confirmation",
        probe="id",
        fix="mpirun --allow-run-as-root ..., or another user; in a container: OMPI_ALLOW_RUN_AS_ROOT=1 "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
        link="https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html",
    ),
    Entry(
        id="mpi-abort",
        title="MPI_ABORT was invoked; mpirun noticed that process rank N exited on signal",
        kind="generic",
        patterns=(
            r"MPI_ABORT was invoked on rank (?P<rank>\d+)",
            r"(?:mpirun|mpiexec|prterun|orterun)(?:\.real)? noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on signal (?P<signal>(?!(?:4|6|7|8|9|11|15)\b)\d+)",
            r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
            r"(?:mpirun|mpiexec|prterun|Horovod) detected that one or more processes exited with non-zero status",
            r"has exited due to process rank (?P<rank>\d+) with PID \d+ on(?:\s+node (?P<host>\S+))?",
            r"Primary job +terminated normally, but \d+ process returned",
            r"PID \d+ RUNNING AT (?:[\w.-]+@)?(?P<host>[^\s@]+)",
        ),
        context=r"Process name: (?:\[.*,)?(?P<rank>\d+)\]?\s*$",
        cause="[rank {rank}: ]a process failed, and its launcher ended the others. The reason is in the output of that rank",
        probe="mpirun --tag-output ..., then read the last lines of that rank",
        fix="run `ddpkit explain LOG` with the output of all ranks",
        link="https://docs.open-mpi.org/en/main/launching-apps/index.html",
    ),
    Entry(
        id="ddpkit-error",
        title="ddpkit: error: ...",
        kind="generic",
        patterns=(r"ddpkit: error: (?P<reason>.*)",),
        cause="{reason}",
        probe="the lines below it",
        fix="follow the line `hint:` below it",
        link="https://github.com/pytorch/pytorch/issues/79388",
    ),
    Entry(
        id="launcher-summary",
        title="subprocess.CalledProcessError: Command ... returned non-zero exit status 1",
        kind="consequence",
        patterns=(
            r"Job has reached the specified backoff limit",
            r"Back-off restarting failed container",
            r"CalledProcessError: Command '\['.*'--local_rank=(?P<local>\d+)'.*returned non-zero exit status (?P<code>\d+)",
            r"CalledProcessError: Command '\[?'?\S*(?:python|torchrun|deepspeed|accelerate|bash|sh)\S*'?.*returned non-zero exit status (?P<code>\d+)",
            r"(?:--local_rank=(?P<local>\d+).*)?exits with return code = (?P<code>[1-9]\d*)",
            r"\bProcessRaisedException\b",
            r"\bProcessExitedException: process (?P<rank>\d+) terminated with exit code",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Exited with exit code (?P<code>\d+)",
            r"srun: .*Terminating (?:job step|StepId)",
            r"pdsh@\S+: (?P<host>\S+): ssh exited with exit code (?P<code>\d+)",
            r"failed \(exitcode: (?!-(?:4|6|7|8|9|11|15)\))-?\d+\) local_rank: (?P<rank>\d+)",
            r"STEP \S+ ON \S+ CANCELLED AT \S+ DUE TO TASK FAILURE",
            r"ddpkit: rank (?P<rank>\d+) on (?P<host>\S+) failed first.*: exit code (?P<code>\d+)",
            r"Process (?P<rank>\d+) exit with status code (?P<code>[1-9]\d*)",
            r"Error: Process completed with exit code (?P<code>[1-9]\d*)",
        ),
        cause="this is a launcher's summary. A process failed[, local rank {local}][, with exit code {code}]. The reason is in the output of that process",
        probe="read the lines before it",
        fix="read the output of the process that failed first, or run `ddpkit explain LOG`",
        link="https://docs.pytorch.org/docs/stable/elastic/errors.html",
    ),
    Entry(
        id="mpi-tcp-interface",
        title="Open MPI failed to TCP connect to a peer MPI process; accepted a TCP connection from what appears to be another Open MPI process",
        patterns=(
            r"Open MPI failed to TCP connect to a peer MPI process",
            r"Open MPI accepted a TCP connection from what appears",
            r"Message: +connect\(\) to (?P<address>[\d.]+):\d+ failed",
            r"mca_btl_tcp_endpoint_\w+\] connect\(\) to (?P<address>[\d.]+) failed",
            r"mca_btl_tcp_endpoint_\w+\] received unexpected process identifier",
            r"UCX +ERROR +connect\(fd=\d+, dest_addr=(?P<address>[\d.]+):\d+\) failed",
        ),
        explains=("ucx-error", "ucx-unreachable"),
        cause="Open MPI uses an interface that the other hosts do not reach[ ({address})], or that has the same address on "
        "each host (docker0, virbr0)",
        probe="on each node: ip -br addr",
        fix="mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0, with the interface or the subnet that has the "
        "route to the other nodes. For NCCL, also -x NCCL_SOCKET_IFNAME=eth0; for UCX, -x UCX_NET_DEVICES=eth0",
        link="https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",
    ),
    Entry(
        id="ray-placement",
        title="No available node types can fulfill resource request {'node:10.0.0.1': 0.001, 'GPU': 1.0}",
        patterns=(
            r"No available node types can fulfill resource request (?P<request>\{[^}]*\})",
            r"Cannot provide a placement group of",
            r"Cannot provide a placement group requiring (?P<request>[\d.]+ \w+)",
            r"required GPUs exceeds the total number of available GPUs in the placement group",
            r"Current node has no (?:GPU|TPU|XPU)s? available",
        ),
        explains=(
            "vllm-engine-failed",
            "ray-actor-died",
        ),
        cause="Ray has no node for a request[: {request}]. A `node:ADDRESS` in it is not the address under "
        "which Ray knows that node, or the cluster has too few GPUs: a node has not joined it",
        probe="ray status; ray list nodes; echo $VLLM_HOST_IP",
        fix="set VLLM_HOST_IP on each node to its own address in `ray list nodes` (the private one), and start ray with "
        "the same --node-ip-address. Or start the missing nodes (`ray status` counts the GPUs), or lower the "
        "tensor-parallel size",
        link="https://github.com/vllm-project/vllm/issues/7815",
    ),
    Entry(
        id="ray-node-not-started",
        doubtful=True,
        title="The current node timed out during startup; Failed to get node info; raylet failed to startup",
        patterns=(
            r"The current node timed out during startup",
            r"current node has not been updated within \d+ seconds",
            r"while waiting for node to startup",
            r"Failed to get node info b?['\"]",
            r"GCS cannot find the node with node ID",
        ),
        context=r"Local node IP: (?P<address>[\w.:]+)",
        cause="Ray did not start on this node in time[. It uses the address {address}]. The head cannot reach that address, "
        "or a firewall drops the ports. Or an earlier Ray still runs, or the node has too few free CPUs",
        probe="ray status on the head; ip -br address; tail /tmp/ray/session_latest/logs/raylet.*",
        fix="`ray stop --force`, then pass the address of the interface that routes to the head: `ray start "
        "--address=HEAD:6379 --node-ip-address=ADDRESS` (`ip route get HEAD` shows it as src). Under SLURM: `srun "
        "--cpu-bind=none`",
        link="https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html",
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
            r"\bActorUnavailableError\b",
            r"\bWorkerCrashedError\b",
            r"\bNodeDiedError\b",
            r"has been marked dead because the detector has missed too many heartbeats",
        ),
        cause="Ray lost a worker process. It was killed because memory was full, crashed, or its node failed",
        probe="ray logs; on the node: dmesg -T | grep -i 'killed process'",
        fix="read the worker's own log (/tmp/ray/session_latest/logs/worker-*.err)",
        link="https://docs.ray.io/en/latest/ray-observability/user-guides/debug-apps/debug-failures.html",
    ),
    Entry(
        id="ray-old-handle",
        title="ActorHandleNotFoundError: ActorHandle objects are not valid across Ray sessions",
        kind="generic",
        patterns=(
            r"\bActorHandleNotFoundError\b",
            r"ActorHandle objects are not valid across Ray sessions",
        ),
        cause="the program used the handle of an actor that an earlier Ray session had created. Ray was started again in "
        "between, often because a first attempt failed: then the error of that attempt is above",
        probe="the lines before it; `ray list actors`",
        fix="read the first error above it. If no other error is there: `ray stop --force` on all nodes, start Ray again, and "
        "create the actors after ray.init()",
        link="https://github.com/ray-project/ray/pull/59425",
    ),
    Entry(
        id="vllm-cache-too-small",
        title="No available memory for the cache blocks; max seq len is larger than the maximum number of tokens that can be stored in KV cache",
        patterns=(
            r"No available memory for the cache blocks",
            r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<room>\d+)\)",
        ),
        explains=("vllm-engine-failed", "ray-actor-died"),
        cause="the weights leave too little memory of the GPU for vLLM's cache[: it has room for {room} tokens, and the model "
        "may use {length}]",
        probe="the line with `KV cache` in the log; nvidia-smi",
        fix="pass a smaller --max-model-len, a higher --gpu-memory-utilization, or a larger --tensor-parallel-size. A "
        "quantised model needs less",
        link="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
    ),
    Entry(
        id="vllm-engine-failed",
        title="Engine core initialization failed; EngineDeadError",
        kind="consequence",
        patterns=(
            r"Engine core initialization failed",
            r"EngineCore failed to start",
            r"\bEngineDeadError\b",
            r"Engine process failed to start",
            r"WorkerProc initialization failed due to an exception in a background process",
        ),
        cause="the engine's process ended. Its own error is above",
        probe="the lines before it, of the worker that failed first",
        fix="read the error of the worker or EngineCore above this line",
        link="https://docs.vllm.ai/en/latest/usage/troubleshooting.html",
    ),
    Entry(
        id="horovod-stall",
        title="One or more tensors were submitted to be reduced by subset of ranks and are waiting for "
        "remainder of ranks",
        kind="generic",
        patterns=(
            r"\[missing ranks: (?P<missing>(?P<rank>\d+(?:, ?\d+)*))",
            r"submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting",
            r"\bMissing ranks:",
            r"\bStalled ranks:",
            r"Stalled op: \S+ \[(?:missing|ready) ranks",
        ),
        context=r"^(?:.*<std\w+>:)?\s*(?P<missing>(?P<rank>\d+)): \[\w",
        cause="some ranks called a collective of Horovod, and others[, as rank {missing},] did not come to it. They died, "
        "hang, are slow, or run other code",
        probe="the lines below it list the missing ranks; on their host: py-spy dump -p PID",
        fix="read the logs of the missing ranks. Call the same collectives on all ranks: nothing under `if "
        "hvd.rank() == 0`, and equal numbers of batches",
        link="https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",
    ),
    Entry(
        id="horovod-shutdown",
        title="Horovod has been shut down. This was caused by an exception on one of the ranks",
        kind="consequence",
        patterns=(
            r"Horovod has been shut down",
            r"\bHorovodInternalError\b",
        ),
        cause="another rank of Horovod failed or ended",
        probe="the rank that does not print this",
        fix="read the log of the rank that failed first",
        link="https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",
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
        id="deepspeed-slots",
        title="No slot '1' specified on host 'localhost'",
        patterns=(
            r"No slot '?(?P<slot>\d+)'? speci\w+ on host '?(?P<host>[\w.-]+)",
            r"Hostname '(?P<host>[^']+)' not found in hostfile",
            r"Unable to proceed, no (?:training )?resources",
        ),
        cause="the deepspeed launcher got a GPU[ {slot}] that its resources on {host|the host} do "
        "not have. It counts the GPUs that it sees from 0, and CUDA_VISIBLE_DEVICES has hidden some",
        probe="echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L; cat HOSTFILE",
        fix="unset CUDA_VISIBLE_DEVICES and choose GPUs with `deepspeed --include localhost:1`, or use a "
        "newer DeepSpeed. For other hosts, correct slots= in the host file",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5818",
    ),
    Entry(
        id="deepspeed-alone",
        title="train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 1",
        patterns=(r"gradient_acc_step \* world_size\D*(?P<batch>\d+) != (?P<micro>\d+) \* (?P<steps>\d+) \* 1$",),
        explains=("batch-size-config",),
        cause="DeepSpeed sees one rank (the last number is the world size). If more were started, this process does not "
        "know of them: it has no WORLD_SIZE, or DeepSpeed read its configuration before init_distributed",
        probe="echo $WORLD_SIZE $RANK in the ranks; ddpkit env --explain, started the same way",
        fix="start it with a launcher (deepspeed, torchrun, accelerate launch), call deepspeed.init_distributed() before "
        "the model is made, or update transformers and accelerate. For one rank: set train_batch_size to {micro} * "
        "{steps}, or `auto`",
        link="https://github.com/bigcode-project/starcoder/issues/41",
    ),
    Entry(
        id="parallel-sizes",
        title="The number of heads must be divisible by world size; tensor parallel size does not divide",
        patterns=(
            r"[Nn]umber of (?:attention )?heads (?:\(\d+\) )?must be divisible by (?:the )?(?:world|tensor)",
            r"First dimension of the tensor should be divisible by tensor parallel size",
            r"AssertionError: (?P<whole>\d+) is not divisible by (?P<parts>\d+)$",
        ),
        cause="a size of the model is split between ranks, and cannot be split evenly[: {whole} into {parts}]. All ranks "
        "fail alike. It is the attention heads, a layer's width, the vocabulary or the sequence",
        probe="the model's configuration: grep -E 'num_attention_heads|num_key_value_heads|hidden_size|vocab_size' "
        "config.json; echo $WORLD_SIZE",
        fix="use a tensor-parallel size that divides the heads (2, 4 or 8), and data or pipeline parallelism for the other "
        "ranks. With sequence parallelism, pad the sequence to a multiple of that size, or omit --sequence-parallel",
        link="https://github.com/foundation-model-stack/foundation-model-stack/issues/274",
    ),
    Entry(
        id="deepspeed-hostfile-bad",
        title="ValueError: Hostfile contains a bad entry",
        patterns=(
            r"Hostfile contains a bad entry",
            r"Hostfile is not formatted correctly",
        ),
        cause="a line of DeepSpeed's host file is not of the form `HOST slots=N`: a misspelled word, a missing number or "
        "a comma",
        probe="cat -A /job/hostfile, or the file of --hostfile",
        fix="write one line a host: `node1 slots=8`, with a space before `slots`, and no space beside `=`. Comments "
        "begin with #",
        link="https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node",
    ),
    Entry(
        id="mpi-world-differs",
        title="MPI world size 16 does not match torch world size 8",
        patterns=(
            r"MPI world size (?P<mpi>\d+) does not match torch world size (?P<torch>\d+)",
            r"MPI rank (?P<mpi>\d+) does not match torch rank (?P<torch>\d+)",
        ),
        cause="mpirun gave {mpi}, and torch was initialized with {torch}. The script sets WORLD_SIZE or RANK on its own, "
        "or a second launcher runs under mpirun",
        probe="in the ranks: env | grep -E '^(OMPI_COMM_WORLD|PMI|RANK|WORLD_SIZE|LOCAL_RANK|MASTER)'",
        fix="use one launcher: mpirun alone, with RANK and WORLD_SIZE from OMPI_COMM_WORLD_RANK and _SIZE, or deepspeed "
        "or torchrun without mpirun. Do not set WORLD_SIZE in the script",
        link="https://github.com/deepspeedai/DeepSpeed/issues/461",
    ),
    Entry(
        id="deepspeed-config-differs",
        title="Please correct the following DeepSpeed config values that mismatch TrainingArguments values",
        patterns=(r"correct the following DeepSpeed config values that mismatch TrainingArguments",),
        cause="the DeepSpeed configuration and the arguments of transformers set the same thing to different values. The lines "
        "below it list them",
        probe="the lines below it: `ds` is the configuration, `hf` the argument",
        fix='set these values of the DeepSpeed configuration to "auto", or remove the arguments',
        link="https://huggingface.co/docs/transformers/deepspeed",
    ),
    Entry(
        id="accelerate-one-gpu-id",
        title="Less than two GPU ids were configured and tried to run on on multiple GPUs",
        patterns=(
            r"Less than two GPU ids were configured and tried to run on on multiple GPUs",
            r"You need to use at least 2 processes to use `--multi_gpu`",
        ),
        cause="accelerate was started for several GPUs (--multi_gpu, or its configuration file), and got one",
        probe="accelerate env; cat ~/.cache/huggingface/accelerate/default_config.yaml",
        fix="pass --num_processes with the number of GPUs and `--gpu_ids all`. For one GPU: remove --multi_gpu, or "
        "distributed_type: 'NO' in the file",
        link="https://huggingface.co/docs/accelerate/package_reference/cli",
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
