"""Containers, and launchers other than torchrun: docker, pyxis, Apptainer, MPI, Ray, DeepSpeed."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="container-no-driver",
        title="nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1; nvml error: driver not loaded",
        patterns=(
            r"nvidia-container-cli: .*load library failed: (?P<library>[\w.+-]+)",
            r"nvidia-container-cli(?:\.real)?: initialization error: nvml error: driver not loaded",
            r"nvidia-container-cli(?:\.real)?: initialization error: driver error: failed to process request",
            r"nvidia-container-cli\S*: initialization error: (?:driver rpc error: failed to process request|cannot open shared object file)",
        ),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed", "library-missing"),
        cause="the host has no NVIDIA driver, it is not loaded, or its library {library|libcuda.so} is not where the container "
        "runtime searches. The driver belongs on the host, not into the image",
        probe="on that host, outside of the container: nvidia-smi; ldconfig -p | grep {library|libcuda}",
        fix="where nvidia-smi fails on the host, install the NVIDIA driver or load it (sudo modprobe nvidia), then `sudo ldconfig`. "
        "With Docker Desktop or rootless Docker, use the host's own docker engine",
        link="https://github.com/NVIDIA/nvidia-container-toolkit/issues/183",
    ),
    Entry(
        id="container-program-missing",
        title="[ERROR] Command not found: nvidia-container-cli",
        patterns=(
            r"\[ERROR\]:? Command not found: (?P<program>[\w.+-]+)",
            r"exec: \\?\"?(?:/\S+/)?(?P<program>nvidia-container-(?:cli|runtime(?:-hook)?)|(?:docker-)?runc|crun|conmon|newuidmap|slirp4netns|pasta|fuse-overlayfs|netavark|nvidia-ctk|mksquashfs|unsquashfs|squashfuse\w*)\\?\"?: (?:executable file not found|stat \S+: no such file)",
            r"fork/exec (?:/\S+/)?(?P<program>nvidia-container-runtime(?:-hook)?): no such file",
            r"while mounting image \S+: (?P<program>squashfuse\w*|fuse2fs|fuse-overlayfs) not found",
            r"could not extract squashfs data, (?P<program>unsquashfs) not found",
        ),
        explains=(
            "docker-no-gpu",
            "container-hook-failed",
            "container-start-failed",
            "image-import-failed",
            "container-no-shell",
            "own-exception",
        ),
        cause="{program} is not installed on the node. The container runtime calls it outside of the image, before the "
        "container starts",
        probe="on that node, outside of the container: command -v {program}",
        fix="as administrator, install it on every node. For nvidia-container-cli: apt-get install libnvidia-container-tools. For "
        "docker: nvidia-container-toolkit, then restart docker. For a job without GPUs: NVIDIA_VISIBLE_DEVICES=void",
        link="https://github.com/NVIDIA/pyxis/issues/101",
    ),
    Entry(
        id="container-hook-program",
        title="[ERROR] Command not found: ldconfig, then /etc/enroot/hooks.d/90-aws-ofi-nccl.sh exited with return code 1",
        patterns=(
            r"\[ERROR\]:? Command not found: (?P<program>(?!nvidia-container-cli)[\w.+-]+)",
            r"(?P<hook>(?<![\w./-])/\S*hooks\.d/[^\s/]+): line \d+: (?P<program>\S+): command not found",
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
        id="image-has-driver",
        title="nvidia-container-cli: mount error: file creation failed: .../libcuda.so: file exists",
        patterns=(
            r"nvidia-container-cli\S*: mount error: file creation failed: (?:\S*/merged)?(?P<path>/\S+): file exists",
            r"nvidia-container-cli\S*: mount error: file creation failed: (?:\S*/merged)?(?P<path>/\S+): no such device or address",
        ),
        explains=("container-gpu-refused", "docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the image already has {path}, or a host directory that is mounted over it (/run) has it. The NVIDIA container toolkit "
        "cannot put the host's file there. Often a driver was installed in the image, or it is a commit of a running container",
        probe="docker run --rm --entrypoint find IMAGE / -xdev -name 'libnvidia-*' -o -name 'nvidia-smi'",
        fix="in the Dockerfile: apt-get purge -y 'nvidia-*' 'libnvidia-*'. Install only the CUDA toolkit there "
        "(cuda-toolkit-12-4, not cuda). Do not mount the host's /run or /var/run. Of a socket of nvidia-persistenced: restart that service. On Jetson, use a newer toolkit and l4t image",
        link="https://github.com/NVIDIA/nvidia-docker/issues/825",
    ),
    Entry(
        id="container-driver-state",
        title="nvidia-container-cli: mount error: stat failed: /proc/driver/nvidia/gpus/...; driver rpc error: timed out",
        patterns=(
            r"nvidia-container-cli\S*: mount error: .*?(?P<path>/proc/driver/nvidia/\S+?): (?P<reason>no such [\w ]+)",
            r"nvidia-container-cli\S*: (?:initialization|detection) error: (?P<reason>(?:nvml|cuda|driver rpc) error: (?:unknown error|insufficient permissions|timed out))",
        ),
        explains=("container-gpu-refused", "docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the running driver of the host does not have what the container toolkit expects[ ({path})]: {reason}. The driver "
        "was updated without a restart, starts too slowly, or the toolkit is too old for this machine",
        probe="on that host: nvidia-smi; ls /proc/driver/nvidia/gpus; nvidia-container-cli -V",
        fix="sudo nvidia-smi -pm 1, or restart the host. If /proc/driver/nvidia/gpus has other names (Azure), update "
        "nvidia-container-toolkit",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1316",
    ),
    Entry(
        id="container-ldconfig",
        title="nvidia-container-cli: ldcache error: open failed: /sbin/ldconfig.real: no such file or directory",
        patterns=(r"nvidia-container-cli\S*: ldcache error: open failed: (?P<path>/\S+): no such file",),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the NVIDIA container toolkit calls {path}, and the host has no such file. Its configuration is of another "
        "distribution: Ubuntu has ldconfig.real, others ldconfig",
        probe="on that host: ls -l /sbin/ldconfig*; grep ldconfig /etc/nvidia-container-runtime/config.toml",
        fix='in that config.toml, ldconfig = "@/sbin/ldconfig" (on Ubuntu "@/sbin/ldconfig.real"), then restart docker. Or install '
        "the toolkit for this distribution",
        link="https://github.com/NVIDIA/nvidia-docker/issues/587",
    ),
    Entry(
        id="container-gpu-refused",
        title="nvidia-container-cli: container error: file lookup failed: permission denied",
        patterns=(
            r"nvidia-container-cli: (?P<reason>\w+ error: .*(?:permission denied|operation not permitted))",
            r"nvidia-container-cli: (?P<reason>ldcache error: process .*(?:failed|terminated).*)",
        ),
        branches=(
            ("namespace", r"nvidia-container-cli: .*/proc/self/ns/\w+: (?:permission denied|operation not permitted)"),
            ("path", r"nvidia-container-cli: (?!.*/proc/self/ns/).*(?:permission denied|operation not permitted)"),
            ("ldconfig", r"nvidia-container-cli: ldcache error"),
        ),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the NVIDIA container toolkit ran on the node, but the system or the image did not let it finish: {reason}{namespace? . It runs in a "
        "user namespace, and the system restricts these}",
        probe="on that node: nvidia-container-cli --version; ls -ld of the path in the message; dmesg -T | tail; getenforce",
        fix="{namespace? as administrator: sysctl kernel.apparmor_restrict_unprivileged_userns=0 and kernel.unprivileged_userns_clone=1. }"
        "{path? keep the container's directory (ENROOT_DATA_PATH, or docker's data-root) on a local disk that is not root-squashed. }"
        "{ldconfig? Where ldconfig failed, try another image. }After an update of libnvidia-container, go back to the former version",
        link="https://github.com/NVIDIA/enroot/issues/232",
    ),
    Entry(
        id="apptainer-nvccli",
        title='path to "nvidia-container-cli" not set in singularity.conf; capability change failed',
        patterns=(
            r"path to \"(?P<reason>nvidia-container-cli)\" not set in",
            r"exec: \"(?P<reason>\S*nvidia-container-cli)\": stat \S+: no such file",
            r"nvidia-container-cli: permission error: (?P<reason>capability change failed)",
        ),
        explains=("container-start-failed", "container-program-missing", "container-gpu-refused", "docker-no-gpu"),
        cause="Apptainer or Singularity had to set up the GPUs by NVIDIA's tool (--nvccli, or its configuration), and that "
        "tool is missing on this node, or failed ({reason})",
        probe="on that node: ls -l $(which nvidia-container-cli); grep -i nvidia /etc/*/singularity.conf /etc/*/apptainer.conf",
        fix="use --nv without --nvccli, and unset APPTAINER_NVCCLI SINGULARITY_NVCCLI. As administrator: use nvidia-container-cli = no, "
        "or install libnvidia-container-tools and set its path there",
        link="https://apptainer.org/docs/user/main/gpu.html",
    ),
    Entry(
        id="docker-no-gpu",
        title="could not select device driver with capabilities: [[gpu]]",
        patterns=(
            r"Unknown runtime specified nvidia",
            r"could not select device driver \"?\w*\"? ?with capabilities: \[\[gpu\]\]",
            r"could not select device driver .*capabilities",
            r"nvidia-container-cli: (?!line \d+:.*\bKilled\b)(?P<what>.*)",
            r"unknown or invalid runtime name: nvidia",
            r"unknown flag: --gpus",
            r"failed to discover GPU vendor from CDI",
        ),
        explains=("container-hook-failed", "container-start-failed"),
        cause="the container engine cannot give GPUs to containers on this host. The NVIDIA container toolkit is "
        "missing, or does not match the driver",
        probe="on that host: nvidia-ctk --version; docker run --rm --gpus all ubuntu nvidia-smi",
        fix="install nvidia-container-toolkit, then, as administrator, run `nvidia-ctk runtime "
        "configure --runtime=docker` and let docker start again. For podman: --device "
        "nvidia.com/gpu=all in place of --gpus; docker before 19.03 has no --gpus",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1352",
    ),
    Entry(
        id="container-driver-too-old",
        title="nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver",
        patterns=(
            r"nvidia-container-cli: requirement error: (?:unsatisfied condition: )?(?P<need>[^,\\:]+)",
            r"unsupported CUDA version: (?P<need>driver [\d.]+ < image [\d.]+)",
        ),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the NVIDIA driver of the host is not what the image requires: {need}. The container does not start",
        probe="on that host: nvidia-smi | head -4; docker inspect IMAGE | grep NVIDIA_REQUIRE",
        fix="update the driver of the host, or use an image with an older CUDA. If the program runs with this driver all the "
        "same: docker run -e NVIDIA_DISABLE_REQUIRE=1",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1442",
    ),
    Entry(
        id="cdi-specification",
        title="unresolvable CDI devices; failed to stat CDI host device; No help topic for 'disable-device-node-modification'",
        patterns=(
            r"unresolvable CDI devices",
            r"failed to stat CDI host device \"(?P<device>[^\"]+)\"",
            r"No help topic for '(?P<hook>[\w-]+)'",
            r"\bstat (?P<device>nvidia\.com/gpu=\S+): no such file",
        ),
        explains=("container-hook-failed", "container-start-failed", "docker-no-gpu", "own-exception"),
        cause="the CDI file that describes the host's GPUs to containers is missing, or out of date[: it names {device}][: the "
        "installed nvidia-ctk does not know {hook}]. It must be made again after an update or another GPU",
        probe="on that host: nvidia-ctk cdi list; ls -l /etc/cdi /var/run/cdi; nvidia-ctk --version",
        fix="as administrator: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, with the same version of the toolkit as "
        "the runtime. Then: podman run --device nvidia.com/gpu=all, with podman 4.1 or newer",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html",
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
        id="docker-name-used",
        title="Conflict. The container name is already in use by container",
        patterns=(r"container name \"/?(?P<name>[^\"]+)\" is already in use",),
        cause="a container with the name {name} exists on this host, of an earlier run or of another user. The new one did not "
        "start",
        probe="docker ps -a --filter name={name}",
        fix="look whose it is: docker ps -a --filter name={name}. If it is not needed, remove it "
        "yourself. In scripts: `docker run --rm` and a name with the job's number, or no --name",
        link="https://docs.docker.com/reference/cli/docker/container/run/",
    ),
    Entry(
        id="docker-no-tty",
        title="the input device is not a TTY",
        patterns=(r"the input device is not a TTY",),
        cause="docker run or docker exec has -t, and this script has no terminal: it runs in a job, over ssh or in CI. Nothing "
        "was started",
        probe="grep -nE 'docker (run|exec)' in the script",
        fix="remove -t: `docker run --rm ...` or `docker exec ...`, with -i only for input",
        link="https://docs.docker.com/reference/cli/docker/container/run/",
    ),
    Entry(
        id="image-architecture",
        title="exec /usr/bin/python3: exec format error; no matching manifest for linux/arm64/v8",
        patterns=(
            r"exec format error",
            r"no matching manifest for (?P<platform>\S+)",
            r"no match for platform in manifest",
            r"image's architecture \(\w+\) could not run on the host's \((?P<platform>\w+)\)",
            r"image targets '\w+', cannot run on '(?P<platform>\w+)'",
        ),
        explains=("container-start-failed", "image-not-found", "command-not-found", "launcher-summary"),
        cause="the image is for another kind of CPU[ than {platform}]: amd64 and arm64 (Grace, Graviton) need different images. Or "
        "its entry script has no #! line",
        probe="uname -m; docker image inspect IMAGE | grep Architecture",
        fix="pull or build the image for this host: docker buildx build --platform linux/arm64 (or linux/amd64). In a mixed "
        "cluster, set nodeSelector kubernetes.io/arch",
        link="https://docs.docker.com/build/building/multi-platform/",
    ),
    Entry(
        id="no-user-namespaces",
        title="Failed to create user namespace; insufficient UIDs or GIDs available in user namespace",
        patterns=(
            r"Failed to create user namespace",
            r"insufficient UIDs or GIDs available in user namespace",
            r"\bnewuidmap: ",
            r"[Ff]ailed to create user namespace: (?P<reason>.*)",
            r"seccomp filter failed: (?P<reason>.*)",
            r"cannot clone: (?P<reason>Operation not permitted|Invalid argument)",
            r"Singularity must be executed in privileged mode to use images",
            r"User namespace not supported, and program not running privileged",
            r"no mapping entry found in /etc/sub[ug]id for",
            r"Failed invoking the NEWUSER namespace runtime: (?P<reason>.*)",
            r"\bwaiting event for user namespace mappings",
            r"\bCould not write info to setgroups: (?P<reason>.*)",
        ),
        explains=("container-start-failed", "image-not-found", "command-not-found"),
        cause="this user cannot create a user namespace on that host, or has no range of ids there. Rootless podman, docker, "
        "enroot and Apptainer need that",
        probe="on that host: unshare -U true; cat /proc/sys/user/max_user_namespaces; grep $USER /etc/subuid /etc/subgid",
        fix="as administrator, on every node: sysctl -w user.max_user_namespaces=15000 (Ubuntu 24.04: also "
        "kernel.apparmor_restrict_unprivileged_userns=0). For podman: usermod --add-subuids 100000-165535 --add-subgids "
        "100000-165535 USER, then podman system migrate",
        link="https://apptainer.org/docs/admin/main/user_namespace.html",
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
        cause="the image {image|file} was requested from a registry. A name that does not begin with / or ./ is "
        "taken as an image of a registry",
        probe="on that node: ls -l {image|IMAGE}",
        fix="--container-image=./image.sqsh, or its full path on a file system that all nodes share",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="image-registry-slash",
        title="URL https://registry-1.docker.io/v2/registry.example.com/name/manifests/latest returned error code: 401",
        patterns=(
            r"registry-1\.docker\.io/v2/(?P<registry>[\w-]+(?:\.[\w-]+)+)/(?P<image>\S+)/manifests/(?P<tag>[\w.:-]+)?",
        ),
        explains=(
            "container-start-failed",
            "image-not-found",
            "image-import-failed",
        ),
        cause="enroot searched Docker Hub for {registry}/{image}: it separates a registry from the name by #, not by /",
        probe="on that node: enroot import docker://{registry}#{image}[:{tag}]",
        fix="--container-image={registry}#{image}[:{tag}]. For a private registry, also its login: "
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
            "command-not-found",
        ),
        patterns=(
            r"\bErrImagePull\b",
            r"Back-off pulling image \"(?P<image>[^\"]+)\"",
            r"Failed to pull image \"(?P<image>[^\"]+)\"",
            r"pull access denied for (?P<image>\S+?),",
            r"returned error code: (?:401 Unauthorized|404 Not Found)",
            r"toomanyrequests: You have reached your (?:unauthenticated )?pull rate limit",
            r"FATAL: .*(?:could not open image|while pulling|failed to retrieve path for) (?P<image>\S+)",
            r"FATAL: +Unable to handle (?P<image>docker://\S+) uri",
            r"manifest unknown",
            r"short-name \"\S+\" did not resolve",
            r"requested access to the resource is denied",
            r"\bImagePullBackOff\b",
            r"Unable to find image '(?P<image>[^']+)'$",
            r"initializing source docker://(?P<image>\S+): ",
            r"\[ERROR\]:? No such file or directory: (?P<image>[./]\S+)",
            r"\bCannotPullContainerError\b",
            r"no basic auth credentials",
            r"denied: Your authorization token has expired",
            r"failed to resolve reference \"(?P<image>[^\"]+)\": .*not found",
            r"\bErrImageNeverPull\b",
        ),
        cause="the container image was not found under this name, needs a login, or this host cannot reach the "
        "registry",
        probe="on that host: docker pull IMAGE (enroot import docker://IMAGE, apptainer pull IMAGE)",
        fix="correct the name and tag, or log in (docker login, ~/.config/enroot/.credentials). For a file: use a "
        "shared path that begins with / or ./",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="image-registry-unreachable",
        doubtful=True,
        title="dial tcp: lookup registry-1.docker.io: no such host; net/http: TLS handshake timeout",
        patterns=(
            r"failed to do request: \w+ \"?https?://(?P<host>[\w.-]+)(?!.*server gave HTTP)",
            r"\bdial tcp: lookup (?P<host>[\w.-]+)",
            r"(?:https?://(?P<host>[\w.-]+)\S* )?net/http: (?:request canceled|TLS handshake timeout)",
            r"pyxis: +curl: \((?:6|7|18|28|56)\) (?P<reason>.*)",
        ),
        explains=("image-not-found", "image-import-failed", "container-start-failed"),
        cause="this host cannot reach {host|the registry} to get the image. It has no internet access, needs a proxy, or cannot resolve the "
        "name",
        probe="on that host: curl -sSI https://{host|REGISTRY}/v2/; getent hosts {host|REGISTRY}; systemctl show docker containerd | grep -i proxy",
        fix="give the proxy to the engine, not to the shell: HTTPS_PROXY and NO_PROXY in "
        "/etc/systemd/system/docker.service.d/proxy.conf, then restart it. Or pull the image elsewhere (docker save, enroot "
        "import, apptainer pull) and start it from a file, or from a registry of the site",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://docs.docker.com/engine/daemon/proxy/",
    ),
    Entry(
        id="image-registry-certificate",
        title="x509: certificate signed by unknown authority",
        patterns=(
            r"x509: certificate (?P<reason>.*)",
            r"x509: cannot validate certificate (?P<reason>.*)",
        ),
        explains=("image-registry-unreachable", "image-not-found", "image-import-failed", "container-start-failed"),
        cause="the certificate of the server was not accepted: {reason}. A proxy of the site replaces it, the registry's own "
        "authority is unknown on this host, or the clock is wrong",
        probe="on that host: date; openssl s_client -connect REGISTRY:443 -showcerts </dev/null | grep -i issuer",
        fix="add the site's CA on every node: /etc/docker/certs.d/REGISTRY/ca.crt for docker, update-ca-certificates for "
        "containerd, enroot and Apptainer. Then restart the engine",
        link="https://docs.docker.com/engine/security/certificates/",
    ),
    Entry(
        id="container-no-names",
        doubtful=True,
        title="Temporary failure resolving 'archive.ubuntu.com'",
        patterns=(r"Temporary failure resolving '(?P<host>[^']+)'",),
        cause="no name could be resolved in the container: it has no network, or its DNS server is not reachable from there",
        probe="docker run --rm busybox nslookup {host}; cat /etc/resolv.conf; env | grep -i proxy",
        fix='docker build --network=host, or `"dns": ["ADDRESS"]` in /etc/docker/daemon.json. Behind a proxy: --build-arg '
        "http_proxy=... --build-arg https_proxy=...",
        link="https://docs.docker.com/engine/daemon/troubleshoot/",
    ),
    Entry(
        id="registry-without-tls",
        title="curl: (35) SSL routines: wrong version number; http: server gave HTTP response to HTTPS client",
        patterns=(
            r"curl: \(35\) .*wrong version number",
            r"server gave HTTP response to HTTPS client",
        ),
        explains=("image-import-failed", "image-not-found", "container-start-failed", "own-exception"),
        cause="the registry, or a proxy before it, answers with plain HTTP, and the container tool expects HTTPS",
        probe="curl -v http://REGISTRY/v2/; env | grep -i proxy",
        fix="enroot: ENROOT_ALLOW_HTTP=yes in enroot.conf. docker: insecure-registries in /etc/docker/daemon.json. apptainer: "
        "--no-https. Or give the registry a certificate",
        link="https://github.com/NVIDIA/pyxis/issues/112",
    ),
    Entry(
        id="image-unreadable",
        title="could not open image: image format not recognized; Invalid image format",
        explains=("container-start-failed", "image-not-found"),
        patterns=(
            r"could not open image (?P<image>\S+): (?:image format not recognized|.*permission denied)",
            r"failed to mount squashfs filesystem: (?:invalid argument|input/output error)",
            r"\[ERROR\]:? Invalid image format: (?P<image>\S+)",
            r"kernel reported a bad superblock for squashfs image",
            r"Something went wrong trying to read the squashfs image",
            r"pyxis: +(?:\w+: )?(?:stdin|/\*stdin\*\\?): unexpected end of file",
            r"pyxis: +Checksum mismatch: \w+",
        ),
        cause="the image {image|file} cannot be read on that node. It is incomplete, has the format of another "
        "runtime or a compression that this kernel does not know, or this user has no permission",
        probe="on that node: ls -l {image|IMAGE}; file {image|IMAGE}",
        fix="build, import or copy the image again (apptainer: .sif, enroot: .sqsh), or correct its permissions. "
        "If the file is whole: start it unpacked, from `apptainer build --sandbox DIR IMAGE`",
        link="https://github.com/apptainer/apptainer/issues/1037",
    ),
    Entry(
        id="container-runtime-directory",
        title="mkdir: cannot create directory '/run/enroot': Permission denied; pyxis: couldn't mkdir /run/pyxis/1000",
        explains=("container-start-failed", "read-only-fs", "shell-variable-unset", "permission-denied"),
        patterns=(
            r"cannot create directory ['‘](?P<path>/run/[^'’]+)['’]: (?P<reason>.*)",
            r"(?:pyxis|enroot)\b.*cannot create directory ['‘](?P<path>/[^'’]+)['’]: (?P<reason>.*)",
            r"pyxis: (?:slurmd: )?couldn't (?:mkdir|chown) (?P<path>/\S+): (?P<reason>.*)",
        ),
        cause="the container runtime cannot create its directory {path} on that node: {reason}",
        probe="on that node: ls -ld /run/enroot /run/pyxis; cat /etc/enroot/enroot.conf; cat /etc/slurm/plugstack.conf",
        fix="as administrator, create the directory above {path} on every node: for pyxis /run/pyxis "
        "(runtime_path in plugstack.conf), with systemd-tmpfiles, as /run is empty after a boot. "
        "For enroot, also: export ENROOT_RUNTIME_PATH=DIR with a writable directory on a local "
        "disk. A directory of enroot.conf for all users has mode 1777",
        link="https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md",
    ),
    Entry(
        id="image-no-space",
        title="Creating squashfs filesystem... Write failed because No space left on device",
        patterns=(
            r"Write failed because No space left on device",
            r"FATAL ERROR: ?Failed to write to output filesystem",
            r"FATAL: +While (?:making|performing|building|pulling) .*: no space left on device",
            r"failed to (?:register layer|extract layer|copy|pull).*: no space left on device",
            r"(?:/var/lib/(?:docker|containerd|containers)/|GetImageBlob|/apptainer|/singularity).*: no space left on device",
        ),
        explains=(
            "disk-full",
            "image-build-failed",
            "image-import-failed",
            "container-start-failed",
            "image-not-found",
        ),
        cause="the file system where the image is unpacked is full. Apptainer uses /tmp (often memory), enroot its cache "
        "directory, pyxis its runtime_path (/run/pyxis), docker and containerd /var/lib",
        probe="on that node: df -h /run /tmp /var/lib; grep -i runtime_path /etc/slurm/plugstack.conf*; grep -E "
        "'CACHE|TEMP|DATA|RUNTIME' /etc/enroot/enroot.conf",
        fix="as administrator: set runtime_path= of pyxis in plugstack.conf, and ENROOT_TEMP_PATH, to "
        "a local disk with room. As user: import the image once into a file on a shared disk "
        "(enroot import, apptainer pull), and pass its path. For Apptainer, set APPTAINER_TMPDIR "
        "and APPTAINER_CACHEDIR to that disk, too. docker: `docker system df` shows what takes "
        "the room",
        action="exclude",
        reason="the host has no room for the image",
        link="https://github.com/NVIDIA/pyxis/wiki/Setup",
    ),
    Entry(
        id="loop-devices",
        title="failed to find loop device: could not attach image file to loop device: no loop devices available",
        patterns=(r"could not attach image file to loop device", r"no loop devices available"),
        explains=("container-start-failed",),
        cause="Apptainer or Singularity mounts the image through a loop device, and the host has no free one. Many containers "
        "on one host use them up",
        probe="on that host: losetup -a | wc -l; grep -E 'loop devices' /etc/apptainer/apptainer.conf",
        fix="as administrator: `shared loop devices = yes` and a larger `max loop devices` in apptainer.conf. As user: unpack "
        "the image once with `apptainer build --sandbox DIR IMAGE` and start DIR, or use a newer Apptainer",
        link="https://apptainer.org/docs/admin/main/configfiles.html",
    ),
    Entry(
        id="image-import-failed",
        title="pyxis: failed to import docker image; child failed with error code",
        kind="generic",
        patterns=(
            r"pyxis: failed to import docker image",
            r"pyxis: child \d+ failed with error code",
            r"FATAL: +While making image from oci registry: (?P<reason>.*)",
            r"FATAL: +.*root filesystem extraction failed: (?:extract command failed: )?(?:WARNING: .*|ERROR +: .*|(?P<reason>.*))",
            r"\bERROR: +unpackSIF failed: (?P<reason>.*)",
            r"\bFATAL: +[Ww]hile performing build: (?P<reason>.*)",
            r"\bFATAL: +[Ww]hile extracting [^:]+: (?P<reason>.*)",
            r"\[ERROR\]:? Could not process JSON input",
            r"\[ERROR\]:? Could not parse authentication realm from (?P<reason>\S+)",
            r"\[ERROR\]:? Could not parse digest information from (?P<reason>\S+)",
            r"\[ERROR\]:? Unsupported (?P<reason>authentication method \S+)",
        ),
        cause="the container tool (enroot, Apptainer) could not download, convert or unpack the image. Its own message: {reason|above or below this line}",
        probe="on that node: enroot import docker://IMAGE; apptainer pull IMAGE; df -h /tmp; env | grep -iE 'proxy|APPTAINER|ENROOT'",
        fix="correct the name (docker://REGISTRY#NAME:TAG), log in (~/.config/enroot/.credentials), or free "
        "space in ENROOT_CACHE_PATH. For a file, begin its path with / or ./. No JSON came: a proxy answers in place of the registry, or "
        "enroot is too old for this docker. Apptainer: unpack once with `apptainer build --sandbox DIR IMAGE`, on a node where it works",
        reads="enroot",
        link="https://github.com/NVIDIA/pyxis/issues/127",
    ),
    Entry(
        id="container-no-shell",
        title="enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        patterns=(
            r"enroot-switchroot: failed to execute: (?P<program>[^:]+)",
            r"exec(?:_user_process caused)?: \\?\"?(?P<program>\.{0,2}/[\w./-]+)\\?\"?: stat \S+: no such file",
            r"FATAL: +(?P<program>/\S+): no such file or directory",
            r"exec: \\?\"(?P<program>[^\"\\]+)\\?\": executable file not found in \$PATH",
            r"executable (?:file )?[`\"]?(?P<program>(?!file\b)\S+?)[`'\"]? not found in \$PATH",
            r"FATAL: +exec /\.singularity\.d/actions/\w+ failed: no such file or directory",
            r"FATAL: +exec \S+ failed: a (?P<program>shared library) is likely missing in the image",
            r"FATAL: +stat (?P<program>/\S+): no such file or directory",
            r"FATAL: +\"(?P<program>[^\"]+)\": executable file not found in \$PATH",
            r"exec user process caused:? \"?(?P<reason>no such file) or directory",
        ),
        explains=(
            "container-start-failed",
            "command-not-found",
        ),
        cause="the container's file system has no {program|shell}. The image is minimal, incomplete, or was "
        "imported badly on this node",
        probe="on that node: enroot start IMAGE ls /bin, or docker run --rm --entrypoint ls IMAGE /bin",
        fix="correct the command, or use an image that contains it (for pyxis, /bin/bash), or "
        "--no-container-entrypoint, or import the image again. If the missing program is a Python of the host, "
        "use the image's own, or mount its directory. For a script of yours: -v $PWD:/workspace -w /workspace",
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
        fix="start another program: `apptainer exec IMAGE python train.py` in place of `run`. Or "
        "build the image with a directory that all can read, or try --fakeroot",
        link="https://github.com/rapidsai/docker/issues/669",
    ),
    Entry(
        id="container-hook-failed",
        title="[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1",
        patterns=(
            r"\[ERROR\] (?P<hook>/\S*hooks\.d/(?:\d+-)?(?P<name>[\w-]+)\S*) exited with return code",
            r"error executing hook `(?P<hook>[^`]+)` \(exit code: -?\d+\)",
            r"error running (?:prestart |createRuntime )?hook #?\d*:? ?:?(?P<what>.*)",
        ),
        explains=("container-start-failed",),
        context=r"(?:pyxis: +|^)\[ERROR\] (?P<reason>(?!/\S*hooks\.d/|[Ff]ailed to create|Command not found).*\S)",
        cause="a hook of the container runtime failed before the container started[: {hook}]. Its own message: "
        "{reason|see the line above, or the text after `stderr:`}",
        probe="on that node: less {hook|/etc/enroot/hooks.d/*}; enroot start IMAGE true",
        fix="switch the hook off if the job does not need it: drop its annotation (com.hooks.{name|aws_ofi_nccl}.enabled) or its "
        "variable (NVIDIA_VISIBLE_DEVICES=void, MELLANOX_VISIBLE_DEVICES=void). Or use an image with the missing program: hooks "
        "that add libraries need ldconfig of glibc, which Alpine lacks",
        link="https://github.com/NVIDIA/pyxis/issues/101",
    ),
    Entry(
        id="container-hook-nvidia",
        title="OCI runtime error: error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)",
        patterns=(
            r"error executing hook `(?P<hook>\S*nvidia-container-[^`]+)` \(exit code",
            r"\berror creating device nodes: open (?P<hook>\S+)",
        ),
        explains=("container-hook-failed", "container-start-failed", "own-exception", "permission-denied"),
        cause="NVIDIA's hook or runtime failed under podman, crun or runc before the container started. Usual: rootless containers may not "
        "change cgroups or make device files, or the driver is not loaded on the host",
        probe="on that host: nvidia-smi; nvidia-container-cli -k -d /dev/tty info; grep no-cgroups "
        "/etc/nvidia-container-runtime/config.toml",
        fix="use CDI in place of the hook: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, then podman run --device "
        "nvidia.com/gpu=all, without --runtime. Or set no-cgroups = true in that config.toml, for rootless containers only",
        link="https://github.com/NVIDIA/nvidia-container-runtime/issues/85",
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
            r"while mounting (?P<path>/\S+): destination \S+ doesn't exist in container",
            r"can't remount (?P<path>/[^:]+): no such file",
        ),
        explains=("container-start-failed",),
        cause="{path} cannot be mounted into the container: it does not exist on that node, its user may not read it (root on "
        "NFS), or the mount point is missing",
        probe="on that node: ls -ld {path}",
        fix="create the directory on every node, or correct the mounts (--container-mounts, -v, --bind)",
        link="https://github.com/NVIDIA/pyxis/wiki/Usage",
    ),
    Entry(
        id="podman-storage-refused",
        title="crun: open `/home/me/.local/share/containers/storage/overlay/123/merged`: Permission denied",
        patterns=(r"crun: (?:open|make) `(?P<path>[^`]+/overlay/[^`]+)`.*: Permission denied",),
        explains=("container-start-failed",),
        cause="podman without root could not use its own storage, {path}. A directory above it does not let other user ids pass, or "
        "it is on NFS, Lustre or another disk that rootless podman cannot use",
        probe="podman info | grep -A3 -iE 'graphRoot|graphDriver'; namei -l {path}; df -T ~/.local/share/containers",
        fix="put the storage on a local disk: podman --root /tmp/$USER/storage --runroot "
        "/tmp/$USER/run. Or open the directories that namei shows closed. After a change of "
        "/etc/subuid: `podman system migrate`",
        link="https://github.com/containers/podman/blob/main/rootless.md",
    ),
    Entry(
        id="podman-kernel-too-old",
        title="crun: fsopen_mount `tmpfs`: Function not implemented: OCI runtime error",
        patterns=(r"crun: fsopen_mount `\w+`: Function not implemented",),
        explains=("container-start-failed", "own-exception"),
        cause="podman's runtime crun uses a call that this kernel does not have, or that an outer container forbids",
        probe="uname -r; crun --version; podman info | grep -A3 ociRuntime",
        fix="use the other runtime: podman --runtime runc run ... (runc must be installed), or an older crun or newer kernel",
        link="https://github.com/mmartial/ComfyUI-Nvidia-Docker/issues/86",
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
            r"pyxis: couldn't join \w+ namespace: (?P<what>.*)",
            r"pyxis: couldn't (?:get list of existing container filesystems|get container attributes)",
            r"\bError: failed to start containers: (?P<what>.*)",
        ),
        cause="the container did not start[: {what}][: {reason}]. Usual: a mount is missing, a GPU driver hook failed, user namespaces are disabled, or "
        "the image is incomplete or was not imported",
        probe="the lines above it; on that host: enroot start IMAGE true, or apptainer exec IMAGE true",
        fix="read the line above it that names a file or a hook. Correct the mounts, or import the image "
        "again. For an image with an entry point: --no-container-entrypoint",
        reads="enroot",
        link="https://github.com/NVIDIA/pyxis/issues/61",
    ),
    Entry(
        id="mpi-slots",
        title="There are not enough slots available in the system",
        patterns=(
            r"There are not enough slots available in the system",
            r"Your job has requested more processes than the ppr",
            r"has requested a conflicting number of processes",
            r"All nodes which are allocated for this job are already filled",
            r"A sequential map was requested, but not enough node entries",
            r"Process number should not be larger than total available slots",
            r"Requested more processes \(\d+\) than there are available slots \(\d+\)",
            r"Not enough slots on the hosts to fulfill the \d+ requested",
        ),
        cause="mpirun or horovodrun needs more slots for these ranks than its hosts have",
        branches=(
            ("slots", r"not enough slots|available slots|Not enough slots|already filled"),
            ("ppr", r"\bppr\b|npernode|conflicting number of processes"),
            ("seq", r"sequential map was requested"),
            ("horovod", r"[Hh]orovod|total available slots"),
        ),
        probe="nvidia-smi -L | wc -l; nproc; the hostfile, if mpirun gets one (--hostfile)",
        fix="{slots? start fewer ranks (-np, mostly at most the GPUs), or set slots=N in the hostfile. Otherwise request N tasks (SLURM: "
        "--ntasks=N), or use mpirun --oversubscribe. }{ppr? With -npernode or --map-by ppr:N:node, N times the hosts must be at least -np. }"
        "{seq? With --map-by seq, the hostfile has one line for each rank. }{horovod? horovodrun: -H node1:4,node2:4, with commas and "
        "without spaces. }",
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
            r"was not able to find the executable \"(?P<program>orted|prted)\"",
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
        patterns=(
            r"was unable to reliably start one or more daemons",
            r"[Aa] daemon (?:\(pid \d+\) )?died unexpectedly (?:with status|on signal) \d+",
        ),
        cause="mpirun could not start its daemon on another host, or lost the connection. The cause is ssh, the path "
        "of the MPI library there, or a firewall",
        probe="from the first host, for each of the others: ssh -o BatchMode=yes HOST which orted prted",
        fix="install the same MPI on all hosts and pass its path: mpirun --prefix /path/to/openmpi. Intel MPI: mpirun -bootstrap "
        "ssh, or slurm. To choose the network: --mca oob_tcp_if_include INTERFACE; open the ports between the hosts",
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
            r"(?:mpirun|mpiexec|prterun|Horovod|Gloo job) detected that one or more processes exited with non-zero status",
            r"has exited due to process rank (?P<rank>\d+) with PID \d+ on(?:\s+node (?P<host>\S+))?",
            r"Primary job +terminated normally, but \d+ process returned",
            r"PID \d+ RUNNING AT (?:[\w.-]+@)?(?P<host>[^\s@]+)",
            r"application called MPI_Abort\(.*\) - process (?P<rank>\d+)",
            r"one of the processes terminated badly; aborting",
            r"\bassert \(!closed\) failed",
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
        fix="read the lines below it. A program can print a `hint:` of its own: check the command before you run it",
        link="https://github.com/pytorch/pytorch/issues/79388",
    ),
    Entry(
        id="launcher-summary",
        title="subprocess.CalledProcessError: Command ... returned non-zero exit status 1",
        kind="consequence",
        patterns=(
            r"Job has reached the specified backoff limit",
            r"AlgorithmError: ExecuteUserScriptError",
            r"is failed because \d+ \w+ replica\(s\) failed",
            r"container failed with non-zero exit code: (?P<code>\d+)",
            r"jobset failed due to (?:one or more job failures|reaching max number of restarts)",
            r"The replica \S+(?: \d+)? exited with a non-zero status of (?P<code>\d+)",
            r"CalledProcessError: Command '(?:accelerate|torchrun|deepspeed|python[\d.]*)$",
            r"CalledProcessError: Command '\['.*'--local_rank=(?P<local>\d+)'.*returned non-zero exit status (?P<code>\d+)",
            r"CalledProcessError: Command '\[?'?\S*(?:python|torchrun|deepspeed|accelerate|bash|sh)\S*'?.*returned non-zero exit status (?P<code>\d+)",
            r"(?:--local_rank=(?P<local>\d+).*)?exits with return code = (?P<code>[1-9]\d*)",
            r"\bProcessRaisedException\b",
            r"failed to run .* on (?P<host>\S+), is localhost: \w+, exception: Encountered a bad command exit code",
            r"Error: failed to run torchrun .* on (?P<host>[\w.-]+)$",
            r"FailedJobError: Job \(task=(?P<rank>\d+)\) failed during processing with trace",
            r"\b(?:ProcessExited)?Exception: process (?P<rank>\d+) terminated with exit code",
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Exited with exit code (?P<code>(?!(?:134|143)\b)\d+)",
            r"(?P<host>[\w.-]+): rank (?P<rank>\d+) exited with code (?P<code>[1-9]\d*)",
            r"flux-job: task\(s\) exited with exit code (?P<code>[1-9]\d*)",
            r"clush: (?P<host>\S+): exited with exit code (?P<code>[1-9]\d*)",
            r"srun: .*Terminating (?:job step|StepId)",
            r"srun: error: Timed out waiting for job step to complete",
            r"Task launch for \S+ failed on node (?P<host>\S+): No such process",
            r"failed with return code list: \[",
            r"\bJob \d+'s setup failed\b",
            r"Job finished \(status: FAILED",
            r"Execution failed\. User process '[^']+' exited with status code (?P<code>[1-9]\d*)",
            r"(?:JOB|STEP|StepId)\S* \S+ ON \S+ FAILED \(non-zero exit code or other failure mode\)",
            r"pdsh@\S+: (?P<host>\S+): ssh exited with exit code (?P<code>\d+)",
            r"failed \(exitcode: (?P<code>(?!-(?:4|6|7|8|9|11|15)\))-?\d+)\) local_rank: (?P<local>\d+)",
            r"STEP \S+ ON \S+ CANCELLED AT \S+ DUE TO TASK FAILURE",
            r"ddpkit: rank (?P<rank>\d+) on (?P<host>\S+) failed first.*: exit code (?P<code>\d+)",
            r"Process (?P<rank>\d+) exit with status code (?P<code>[1-9]\d*)",
            r"Killing subprocess \d+$",
            r"(?:\[rank: (?P<rank>\d+)\] )?Child process with PID \d+ terminated with code (?P<code>[1-9]\d*)",
            r"DeadLock detected from rank: (?P<rank>\d+)",
            r"composer\.cli\.launcher:.*[Rr]ank (?P<rank>\d+) .*exit(?:ed with)? code (?P<code>[1-9]\d*)",
            r"Error: Process completed with exit code (?P<code>[1-9]\d*)",
            r"\bPod: [\w-]+\.(?P<host>[\w.-]+) exited with code (?P<code>[1-9]\d*)",
            r"\bError pod (?P<host>[\w.-]+) container \S+ exitCode: (?P<code>[1-9]\d*)",
            r"RuntimeError: Training failed with:$",
            r"AlgorithmError: (?:framework error|Exit Code: (?P<code>\d+))",
            r"Submitted script failed with a non-zero exit code; see the driver log",
            r"Essential container in task exited",
            r"TrainingFailedError: The Ray Train run failed",
            r"Training failed due to worker errors:",
            r"Error executing job with overrides: \[",
            r"RuntimeError: Step \d exited with non-zero status (?P<code>\d+)",
            r"\bJob entrypoint command failed with exit code (?P<code>[1-9]\d*)",
        ),
        cause="this is a launcher's summary. A process failed[, local rank {local}][, with exit code {code}][: {meaning}]. The reason is in the output of that process",
        probe="read the lines before it",
        fix="read the output of the process that failed first: above, or in the log of its node. torchrun --log-dir DIR --tee 3 "
        "writes it to a file for each rank. In a cloud, each machine has its own log",
        scope="launcher",
        reads="exit-code",
        explains=("slurm-step-killed",),
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
            r"None of the TCP networks specified to be included for out-of-band",
        ),
        context=r"Value given: (?P<value>\S+)",
        explains=("ucx-error", "ucx-unreachable"),
        cause="Open MPI uses an interface that does not exist here[: {value}], that the other hosts do not reach[ ({address})], or that has the same address on "
        "each host (docker0, virbr0). Or a firewall drops its ports",
        probe="on each node: ip -br addr; sudo iptables -L -n | head -20",
        fix="mpirun --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0, with the interface or the subnet that has the "
        "route to the other nodes. For NCCL, also -x NCCL_SOCKET_IFNAME=eth0; for UCX, -x UCX_NET_DEVICES=eth0",
        link="https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",
    ),
    Entry(
        id="ray-placement",
        title="No available node types can fulfill resource request {'node:10.0.0.1': 0.001, 'GPU': 1.0}",
        patterns=(
            r"No available node types can fulfill resource requests? (?:\w+\(<class \'\w+\'>, )?(?P<request>\{[^}]*\})",
            r"Cannot provide a placement group of",
            r"Cannot provide a placement group requiring (?P<request>[\d.]+ \w+)",
            r"required GPUs exceeds the total number of available GPUs\b",
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
            r"Failed to register worker \w+ to Raylet",
            r"Unable to register worker with raylet",
            r"Can't find a `node_ip_address\.json` file",
        ),
        context=r"Local node IP: (?P<address>[\w.:]+)",
        cause="Ray did not start on this node in time[. It uses the address {address}]. The head cannot reach that address, "
        "or a firewall drops the ports. Or an earlier Ray still runs, or the node has too few free CPUs",
        probe="ray status on the head; ip -br address; tail /tmp/ray/session_latest/logs/raylet.*",
        fix="end what runs of it on this node (`ray status`), then pass the address of the interface "
        "that routes to the head: `ray start --address=HEAD:6379 --node-ip-address=ADDRESS` (`ip "
        "route get HEAD` shows it as src). Under SLURM: `srun --cpu-bind=none`",
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
            r"Worker IP address: (?P<host>[\w.:-]+) Worker port: .* exit type: SYSTEM_ERROR",
            r"Worker (?:unexpectedly exits|exit type: SYSTEM_ERROR)",
            r"\bActorUnavailableError\b",
            r"\bWorkerCrashedError\b",
            r"\bOwnerDiedError\b",
            r"\bObjectLostError\b",
        ),
        context=r"^(?:\([^)]*\))?\s*ip: (?P<host>[\w.-]+)|Worker IP address: (?P<address>[\w.-]+)",
        cause="Ray lost a worker process[ on {host}]. Most often the host's memory was full and it was killed; otherwise it "
        "crashed, or its node failed",
        probe="ray logs; on the node: dmesg -T | grep -i 'killed process'",
        fix="read the worker's own log (/tmp/ray/session_latest/logs/worker-*.err). If the kernel killed it: fewer workers a "
        "node, no offload to the host's memory, smaller batches, or more memory for the pod or job",
        action="retry",
        reason="a Ray actor died without a reason",
        explains_text=r"\bray::\S+ ?\(pid=\d+, ip=",
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
        "between, often because a first attempt failed: then the error of that attempt is the cause",
        probe="the lines before it; `ray list actors`",
        fix="read the first error of the log. If no other error is there: end your cluster on all "
        "nodes, start Ray again, and create the actors after ray.init()",
        link="https://github.com/ray-project/ray/pull/59425",
    ),
    Entry(
        id="vllm-cache-too-small",
        title="No available memory for the cache blocks; max seq len is larger than the maximum number of tokens that can be stored in KV cache",
        patterns=(
            r"No available memory for the cache blocks",
            r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<room>\d+)\)",
            r"larger than the available KV cache memory",
            r"Not enough memory\. Please try (?:to increase|increasing) --mem-fraction-static",
        ),
        explains=("vllm-engine-failed", "ray-actor-died"),
        cause="the weights leave too little memory of the GPU for the cache of vLLM or SGLang[: it has room for {room} tokens, and the model "
        "may use {length}]",
        probe="the line with `KV cache` in the log; nvidia-smi",
        fix="pass a smaller --max-model-len, a higher --gpu-memory-utilization (SGLang: --mem-fraction-static), or a larger --tensor-parallel-size. A "
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
            r"[Rr]ank \d+ scheduler (?:is dead|died during initialization)",
            r"Received sigquit from a child process",
            r"Error executing method '?\w+'?\. This might cause deadlock",
            r"Invocation of \w+ method failed",
            r"Server process terminated unexpectedly",
        ),
        cause="the engine's process ended. Its own error is in another line",
        probe="the lines of the worker that failed first",
        fix="read the first error of a worker or of EngineCore in the log",
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
            r"how to address the out of memory issue: \S+/ray-oom-prevention",
            r"Memory on the node \(IP: (?P<host>[\w.:-]+), .* was (?P<used>[\d.]+GB / [\d.]+GB).*exceeds the memory usage threshold",
        ),
        context=r"Memory on the node \(IP: (?P<host>[\w.:-]+), .* was (?P<used>[\d.]+GB / [\d.]+GB)",
        cause="Ray ended a worker because the memory of {host|its host} was nearly full[: {used}]. The worker that it ended need "
        "not be the one that uses most",
        probe="the table PID, MEM(GB), COMMAND of the message; on {host|that host}: free -g",
        fix="reduce what the largest processes of that table hold, for example save sharded checkpoints in place of whole ones. "
        "Otherwise use fewer workers per node, or store less in the object store",
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
        "not have. It counts the GPUs that it sees from 0, and CUDA_VISIBLE_DEVICES may hide some",
        probe="echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L",
        fix="choose GPUs by their place among those that this job sees: `deepspeed --include localhost:0` is the first. Under SLURM "
        "they begin at 0 in each job. Otherwise unset CUDA_VISIBLE_DEVICES, or use a newer DeepSpeed. For other hosts, correct slots= in the host file",
        link="https://github.com/deepspeedai/DeepSpeed/issues/5818",
    ),
    Entry(
        id="deepspeed-slot-empty",
        title="deepspeed: invalid literal for int() with base 10: ''",
        patterns=(r"invalid literal for int\(\) with base 10: ''",),
        needs=r"parse_inclusion_exclusion",
        cause="a number is missing in deepspeed's list of GPUs: CUDA_VISIBLE_DEVICES or --include is empty or ends in a comma",
        probe='echo "[$CUDA_VISIBLE_DEVICES]"',
        fix="unset CUDA_VISIBLE_DEVICES and pass deepspeed --include localhost:0,1, without a comma at the end",
        link="https://github.com/deepspeedai/DeepSpeed/issues/2601",
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
            r"AssertionError: [\w +-]*parallel size should be divisible by",
            r"AssertionError: (?P<whole>\d+) is not divisible by (?P<parts>\d+)$",
            r"(?:[Nn]umber of |num_)layers should be divisible by (?:the )?pipeline",
            r"\w+ \((?P<whole>\d+)\) must be a multiple of tensor_model_parallel_size \((?P<parts>\d+)\)",
            r"_heads \(?(?P<whole>\d+)\)? must be divisible by ulysses\D+(?P<parts>\d+)",
        ),
        cause="a size of the model is split between ranks, and cannot be split evenly[: {whole} into {parts}]. All ranks "
        "fail alike. It is the attention heads, the layers, a layer's width, the vocabulary or the sequence",
        probe="the model's configuration: grep -E 'num_attention_heads|num_key_value_heads|hidden_size|vocab_size' "
        "config.json; echo $WORLD_SIZE",
        fix="use a tensor-parallel size that divides the heads (2, 4 or 8), and data or pipeline parallelism for the other "
        "ranks. A pipeline-parallel size must divide the layers. With sequence parallelism, pad the sequence to a multiple of that size, or omit --sequence-parallel",
        link="https://github.com/foundation-model-stack/foundation-model-stack/issues/274",
    ),
    Entry(
        id="deepspeed-hostfile-bad",
        title="ValueError: Hostfile contains a bad entry",
        patterns=(
            r"Hostfile contains a bad entry",
            r"Hostfile is not formatted correctly",
            r"Hostfile is empty or not formatted correctly",
            r"Hostfile contains multiple entries for",
            r"Num nodes is >1 but no extra nodes available via hostfile",
        ),
        cause="a line of DeepSpeed's host file is not of the form `HOST slots=N`: a misspelled word, a missing number or "
        "a comma. Or a host is listed twice, or none is listed",
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
            r"World size \(\d+\) is not valid with the current list of valid GPU counts",
        ),
        cause="the batch sizes in the configuration do not match this number of ranks",
        probe="grep -n batch_size CONFIG; echo $WORLD_SIZE",
        fix="set train_batch_size to micro batch * accumulation * ranks, or omit train_batch_size (`auto`)",
        link="https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters",
    ),
    Entry(
        id="pmix-component",
        title="PMIX stopped checking at the first component: Framework: psec, Component: munge; pmix_psec_base_open failed",
        patterns=(
            r"pmix_psec_base_open failed",
            r"\bComponent: munge$",
        ),
        explains=("mpi-daemon",),
        cause="PMIx of this program or container has no munge plugin, and the job's environment asks for it",
        probe="env | grep PMIX_; in the container: ls /usr/lib/*/pmix* | grep munge",
        fix="export PMIX_MCA_psec=native before srun. torch alone needs no MPI: srun --mpi=none",
        link="https://github.com/NVIDIA/pyxis/issues/88",
    ),
    Entry(
        id="pmix-shared-store",
        title="PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c",
        kind="noise",
        patterns=(r"PMIX ERROR: ERROR in file gds_ds\w+\.c",),
        cause="PMIx cannot use its store in shared memory, and takes another way",
        probe="nothing to check",
        fix="export PMIX_MCA_gds=hash makes it silent",
        link="https://github.com/open-mpi/ompi/issues/7516",
    ),
    Entry(
        id="lsf-affinity",
        title="The affinity file provided in LSB_AFFINITY_HOSTFILE could not be converted to a rankfile",
        patterns=(
            r"affinity file provided in LSB_AFFINITY_HOSTFILE could not be converted",
            r"LSB_AFFINITY_HOSTFILE could not be found",
            r"specified LSF affinity file contained a node \((?P<node>[^)]+)\)",
        ),
        cause="mpirun of Open MPI 5 binds ranks by the affinity file of LSF, and that file does not fit the job or is missing",
        probe="echo $LSB_AFFINITY_HOSTFILE; cat $LSB_AFFINITY_HOSTFILE $LSB_DJOB_HOSTFILE",
        fix="unset LSB_AFFINITY_HOSTFILE before mpirun, or update Open MPI and PRRTE. With a host file of your own: mpirun "
        "--prtemca ras ^lsf",
        link="https://github.com/open-mpi/ompi/issues/13570",
    ),
    Entry(
        id="mpi-mapping",
        kind="generic",
        title="PMIx_Spawn failed: PMIX_ERR_JOB_FAILED_TO_MAP",
        patterns=(
            r"\bPMIX_ERR_JOB_FAILED_TO_MAP\b",
            r"Your job failed to map\b",
        ),
        cause="mpirun cannot place the ranks as --map-by and --bind-to ask. Its text around this line names the reason",
        probe="mpirun --display map,allocation ...; lscpu | head -20; cat HOSTFILE",
        fix="mpirun --map-by slot --bind-to none, and set CPUs and GPUs of a rank by LOCAL_RANK. Or correct the option that "
        "the message names",
        link="https://github.com/open-mpi/ompi/issues/14169",
    ),
    Entry(
        id="container-fuse",
        title="squashfuse_ll exited: fuse: device not found; squashfuse_ll failed to mount rootfs in 10s",
        patterns=(
            r"(?P<program>squashfuse\w*|fuse2fs|fuse-overlayfs|gocryptfs) exited\b.*?: (?P<reason>fuse: device not found|fusermount.*)",
            r"(?P<program>squashfuse\w*|fuse2fs|fuse-overlayfs|gocryptfs) failed to mount \S+ in (?P<wait>\d+m?s)",
            r"\blibfuse3\.so[^:\s]*: (?P<reason>version \S+ not found)",
            r"\bfusermount3?: (?P<reason>mount failed: .*)",
            r"\bmount: (?P<reason>drop permissions failed)",
            r"\[ERROR\]:? Failed to mount: (?P<image>\S+)",
        ),
        context=r"\b(?:fusermount3?|mount): (?P<reason>(?:mount|drop permissions) failed.*?)\.?$",
        explains=("container-start-failed", "glibc-too-old"),
        cause="Apptainer without setuid, and enroot for an image file[ ({image})], mount it by a FUSE program[, {program}], and that failed[: {reason}][: it was not ready after {wait}]. The host or "
        "outer container has no usable /dev/fuse or libfuse, or the image's file system was too slow",
        probe="on that host: ls -l /dev/fuse; lsmod | grep fuse; fusermount3 -V; time head -c 100M IMAGE >/dev/null",
        fix="start an unpacked image: `apptainer build --sandbox /tmp/$USER/image IMAGE`, apptainer exec --unsquash, or `enroot create IMAGE`. A slow file system: "
        "copy the image to a local disk. As administrator: modprobe fuse, or install apptainer-suid; in docker: --device /dev/fuse",
        link="https://github.com/apptainer/apptainer/issues/949",
    ),
    Entry(
        id="container-device-missing",
        title="nvidia-container-cli: device error: 1: unknown device; mount error: stat failed: /dev/nvidia-modeset",
        patterns=(
            r"nvidia-container-cli\S*: device error: (?:unknown device id: )?(?P<device>[^:\s\\]+)",
            r"nvidia-container-cli\S*: .*stat failed: (?P<device>/dev/[\w./-]+): no such file",
            r"adding custom device \"(?P<device>/dev/[^\"]+)\": no such file",
        ),
        explains=("docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the container requests {device}, and the host has no such device. It has fewer GPUs than requested, or the driver "
        "has not made the device's file",
        probe="on that host: nvidia-smi -L; ls -l /dev/nvidia* /dev/infiniband; echo $NVIDIA_VISIBLE_DEVICES",
        fix="request GPUs that `nvidia-smi -L` lists (--gpus, NVIDIA_VISIBLE_DEVICES). For a file of the driver: sudo nvidia-modprobe "
        "-u -m -c 0, or NVIDIA_DRIVER_CAPABILITIES=compute,utility. Otherwise omit --device",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1283",
    ),
    Entry(
        id="container-cgroup-v2",
        title="nvidia-container-cli: container error: cgroup subsystem devices not found",
        patterns=(
            r"nvidia-container-cli\S*: container error: cgroup subsystem devices not found",
            r"nvidia-container-cli\S*: mount error: failed to add device rules: ",
            r"nvidia-container-cli\S*: mount error: open failed: /sys/fs/cgroup/devices/\S*devices\.allow: ",
        ),
        explains=("container-gpu-refused", "docker-no-gpu", "container-hook-failed", "container-start-failed"),
        cause="the NVIDIA container toolkit could not permit the GPUs in the container's cgroup. The host uses cgroups of version 2 and "
        "the toolkit is too old for them, or a rootless container may not change cgroups",
        probe="on that host: stat -fc %T /sys/fs/cgroup; nvidia-container-cli --version; grep no-cgroups "
        "/etc/nvidia-container-runtime/config.toml",
        fix="install NVIDIA's own nvidia-container-toolkit, 1.8 or newer, and restart docker. Or set no-cgroups = true in that "
        "config.toml, and pass the devices: --device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1660",
    ),
    Entry(
        id="podman-storage",
        title="'overlay' is not supported over nfs at ~/.local/share/containers/storage/overlay",
        patterns=(r"'overlay' is not supported over (?P<filesystem>\w+)(?: at \\?\"(?P<path>[^\"\\]+))?",),
        explains=("own-exception", "image-not-found", "container-start-failed"),
        cause="podman keeps images in {path|~/.local/share/containers}, on {filesystem}. Its storage driver does not work on this "
        "file system, as on most network file systems",
        probe="podman info | grep -iE 'graphRoot|graphDriverName'; df -T ~/.local/share/containers",
        fix="keep the storage on a local disk: podman --root /tmp/$USER/storage, or graphroot = "
        '"/tmp/USER/storage" in ~/.config/containers/storage.conf. Images of the old place have '
        "to be pulled again",
        link="https://github.com/containers/podman/blob/main/rootless.md",
    ),
    Entry(
        id="image-reference-invalid",
        title="docker: invalid reference format: repository name must be lowercase",
        patterns=(r"\binvalid reference format\b",),
        explains=("own-exception",),
        cause="docker or podman took another word of the command for the image. A variable is empty, a path has a blank and no "
        "quotes, an option lacks its value, or the name has capitals",
        probe="bash -x SCRIPT 2>&1 | grep 'docker run'",
        fix='quote the paths (-v "$PWD":/work), write -e before each variable, and no blank after a backslash. Write the image\'s name in '
        "lower case",
        link="https://github.com/moby/moby/issues/36080",
    ),
    Entry(
        id="image-file-exists",
        kind="hint",
        title="[ERROR] File already exists: /home/user/nvidia+pytorch+24.01-py3.sqsh",
        patterns=(r"\[ERROR\]:? File already exists: (?P<path>\S+)",),
        cause="enroot does not write over {path}, which an earlier import or container left. The new image is not used",
        probe="ls -ld {path}; enroot list",
        fix="pass another name with -o or -n. Or look at what is there, and remove it yourself if it "
        "is not needed: ls -ld {path}",
        link="https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md",
    ),
    Entry(
        id="image-of-newer-driver",
        title="This container was built for NVIDIA Driver Release 560.35 or later",
        kind="hint",
        patterns=(r"This container was built for NVIDIA Driver Release (?P<need>\S+) or later",),
        explains=(
            "cuda-init-failed",
            "nccl-cuda-failure",
            "cuda-unknown-error",
        ),
        cause="the driver of the host is older than the image expects, which is {need} or newer, and the image's compatibility "
        "libraries do not work with it. Some images run all the same",
        probe="on that host: nvidia-smi | head -4; in the container: python -c 'import torch; print(torch.cuda.is_available())'",
        fix="use an image for the driver's CUDA version, or update the driver of the host",
        link="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Entry(
        id="ray-worker-ended",
        title="Worker exits unexpectedly by a signal. The process receives a SIGTERM",
        kind="consequence",
        patterns=(r"Worker exit detail: Worker exits unexpectedly by a signal\. .*\bSIGTERM\b",),
        explains=("ray-actor-died",),
        cause="a worker of Ray was ended with SIGTERM, and did not crash: by the end of the job, `ray stop`, a scheduler or a person. "
        "At the end of a training it is harmless",
        probe="the lines before it: whether the training was complete; the scheduler's record of this job",
        fix="if the training was complete, nothing. Otherwise find what ended the job: a time limit, a preemption, or the driver's own "
        "error above",
        link="https://github.com/verl-project/verl/issues/1986",
    ),
    Entry(
        id="docker-option-misplaced",
        title='exec: "--gpus": executable file not found in $PATH',
        patterns=(
            r"exec: \\*\"(?P<option>--?\w[\w-]*)[^\"\\]*\\*\": executable file not found in \$PATH",
            r"FATAL: +\"(?P<option>--?[A-Za-z][\w-]*)[^\"]*\": executable file not found in \$PATH",
            r"/\.singularity\.d/actions/\w+: \d+: exec: (?P<option>--?[A-Za-z][\w-]*): not found",
            r"executable file `(?P<option>--?[A-Za-z][\w-]*)[^`]*` not found in \$PATH",
        ),
        explains=("container-no-shell", "container-start-failed", "line-continued-badly", "command-not-found"),
        cause="docker, podman or Apptainer took its option {option} for the command to run, as it comes after the image's name",
        probe="the command: docker run [OPTIONS] IMAGE [COMMAND]",
        fix="write {option} before the image: docker run {option} ... IMAGE COMMAND, apptainer exec {option} ... IMAGE COMMAND",
        link="https://github.com/NVIDIA/nvidia-docker/issues/1528",
    ),
    Entry(
        id="image-build-failed",
        title="FATAL: While making image from oci registry: while creating squashfs: create command failed: signal: killed",
        patterns=(
            r"while creating squashfs: create command failed: (?P<reason>signal: \w+)",
            r"while creating squashfs: create command failed: exit status \d+:? *(?P<reason>.*)",
        ),
        explains=("image-not-found", "container-start-failed"),
        cause="mksquashfs, which packs the image, ended[: {reason}]. It takes all cores and much memory, and login nodes "
        "limit both",
        probe="ulimit -u -v; free -g; df -h /tmp",
        fix="pull or build the image in a job: srun --mem=32G -c 8 apptainer pull ... Or give it less: `apptainer build --mksquashfs-args "
        "'-processors 2 -mem 2G'`. Set APPTAINER_TMPDIR to a disk with room",
        link="https://apptainer.org/docs/user/latest/build_env.html",
    ),
    Entry(
        id="kernel-too-old",
        title="FATAL: kernel too old",
        patterns=(r"(?:^|\bFATAL: +)kernel too old\b",),
        cause="the C library of the image or program needs a newer Linux kernel than the one of this host",
        probe="uname -r; in the image: ldd --version | head -1",
        fix="use an image of an older distribution (glibc before 2.26 for kernels before 3.2), or a host with a newer kernel",
        link="https://sourceware.org/glibc/wiki/Release/2.26",
    ),
    Entry(
        id="container-nv-missing",
        kind="hint",
        title="INFO: Could not find any nv files on this host!",
        patterns=(r"[Cc]ould not find any nv files on this host",),
        explains=("cuda-init-failed", "no-cuda-gpus"),
        cause="apptainer was called with --nv, and this host has no NVIDIA driver: a login node or a node without GPUs",
        probe="on that host, outside of the container: nvidia-smi; ldconfig -p | grep libcuda",
        fix="run it in a job with GPUs (--gpus=1). On a node with GPUs, add the directory of libcuda.so to /etc/ld.so.conf.d and run "
        "ldconfig, or install the driver. Without GPUs it is harmless",
        link="https://apptainer.org/docs/user/latest/gpu.html",
    ),
    Entry(
        id="pyxis-container-name",
        title='pyxis: error: a container with name "x" does not exist, and --container-image is not set',
        patterns=(r"a container with name \"(?P<name>[^\"]+)\" does not exist, and --container-image is not set",),
        explains=("container-start-failed",),
        cause="no container {name} is on this node. It was made in another job, and pyxis removes it at the end of that job, or on "
        "another node",
        probe="on that node: enroot list; grep container_scope /etc/slurm/plugstack.conf*",
        fix="make and use it in one job: salloc or sbatch, then srun --container-image=IMAGE --container-name={name} for the first step on "
        "each node. Across jobs, save it: --container-save=FILE.sqsh",
        link="https://github.com/NVIDIA/pyxis/issues/66",
    ),
    Entry(
        id="container-workdir",
        title="pyxis: couldn't chdir to /workspace; chdir to cwd set in config.json failed",
        patterns=(
            r"pyxis: couldn't chdir to (?P<path>[^:]+): (?P<reason>.*)",
            r"chdir to cwd \(\\?\"(?P<path>[^\"\\]+)\\?\"\) set in config\.json failed: (?P<reason>[^:]+)",
            r"workdir \"(?P<path>[^\"]+)\" does not exist on container",
        ),
        explains=("container-start-failed",),
        cause="the container cannot begin in {path}[: {reason}]. The image has no such directory, or this user may not enter it",
        probe="on that node: enroot start IMAGE ls -ld {path}, or docker run --rm -w / IMAGE ls -ld {path}",
        fix="name a directory of the image or of a mount: --container-workdir=DIR --container-mounts=DIR (docker: -w DIR -v DIR:DIR)",
        link="https://github.com/NVIDIA/pyxis/wiki/Usage",
    ),
    Entry(
        id="pyxis-arguments",
        title="pyxis: --container-mounts: invalid format; mount source must be a relative path, an absolute path",
        patterns=(
            r"error: pyxis: (?P<reason>--container-[\w-]+: .*)",
            r"error: pyxis: (?P<reason>mount (?:source|target) must be .*)",
            r"error: pyxis: (?P<reason>(?:both )?--(?:no-)?container-\S+ .*specified.*)",
        ),
        explains=("slurm-bad-request",),
        cause="pyxis refused an option of srun or sbatch: {reason}. Nothing was started. A variable in it may be empty",
        probe="echo the whole srun command; env | grep PYXIS_",
        fix="correct the option: --container-mounts=/host/dir:/dir,/other:/other:ro, each path with / or ./ at its beginning",
        link="https://github.com/NVIDIA/pyxis/wiki/Usage",
    ),
    Entry(
        id="pyxis-options-ignored",
        kind="hint",
        title="pyxis: ignoring --container-mounts because neither --container-image nor --container-name is set",
        patterns=(r"pyxis: ignoring (?P<option>\S+) because neither --container-image nor --container-name is set",),
        explains=("module-missing", "command-not-found", "script-missing", "file-missing"),
        cause="pyxis started no container, as this step has no --container-image: the command runs on the node itself. {option} has no "
        "effect",
        probe="echo the whole srun command; echo $PYXIS_CONTAINER_IMAGE",
        fix="pass --container-image=IMAGE to this srun, too",
        link="https://github.com/NVIDIA/pyxis/wiki/Usage",
    ),
    Entry(
        id="enroot-unpack",
        title="enroot-aufs2ovlfs: failed to create opaque ovlfs whiteout; failed to set capabilities",
        patterns=(
            r"(?P<program>enroot-aufs2ovlfs): failed to create (?:opaque )?ovlfs whiteout: (?P<path>\S+?)(?:: (?P<reason>.*))?$",
            r"(?P<program>enroot-(?:aufs2ovlfs|mksquashovlfs)): failed to set (?P<what>capabilities): (?P<reason>.*)",
            r"Could not create destination file: (?P<reason>.*)",
        ),
        explains=("image-import-failed", "container-start-failed"),
        cause="enroot could not unpack the image's layers[: {reason}]. {program|A program of enroot} lacks its file capabilities on this node, or its "
        "temporary or output directory is on NFS, Lustre or in another container",
        probe="on that node: getcap $(command -v enroot-aufs2ovlfs enroot-mksquashovlfs); df -T ${ENROOT_TEMP_PATH:-/tmp}",
        fix="export ENROOT_TEMP_PATH=/tmp, or another local disk of the node. As administrator: install the package enroot+caps again. Or "
        "import elsewhere, and pass the .sqsh file",
        link="https://github.com/NVIDIA/enroot/issues/79",
    ),
    Entry(
        id="image-cache-owned",
        title="zstd: .../enroot-cache/d9270b9c...: Permission denied, as an image is imported",
        patterns=(
            r"(?P<path>(?<![\w./-])/\S+/[0-9a-f]{64}): (?:Cannot open: )?Permission denied\s*$",
            r"\bopen (?P<path>(?<![\w./-])/\S+/[0-9a-f]{64}): permission denied",
        ),
        explains=(
            "permission-denied",
            "not-executable",
            "image-import-failed",
            "container-start-failed",
            "image-unreadable",
        ),
        cause="a layer of the image is in the cache of this node, and this user cannot read it: {path}. Usually another "
        "user imported it: the cache is shared, and its files are for their owner and group alone",
        probe="ls -l {path}; id; env | grep -E 'CACHE_(PATH|DIR)'; grep CACHE_PATH /etc/enroot/enroot.conf",
        fix="use a cache of your own: export ENROOT_CACHE_PATH=/tmp/$USER/enroot (Apptainer: APPTAINER_CACHEDIR). As administrator: "
        "one cache for each user in enroot.conf, or group rights for all of its files (setfacl -d)",
        link="https://github.com/NVIDIA/enroot/blob/master/doc/configuration.md",
    ),
    Entry(
        id="container-no-nvidia-smi",
        title='exec: "nvidia-smi": executable file not found in $PATH: the container got no GPU',
        patterns=(
            r"exec: \\?\"nvidia-smi\\?\": executable file not found in \$PATH",
            r"FATAL: +\"nvidia-smi\": executable file not found in \$PATH",
            r"executable file `nvidia-smi` not found in \$PATH",
        ),
        explains=("container-no-shell", "container-start-failed", "command-not-found"),
        cause="the container was started without GPUs. nvidia-smi and the driver's libraries are the host's, and NVIDIA's toolkit puts "
        "them into a container only where GPUs are requested",
        probe="on that host: nvidia-smi; docker info | grep -i runtimes; nvidia-ctk --version",
        fix="docker run --gpus all ... (or --runtime=nvidia), podman run --device nvidia.com/gpu=all, apptainer exec --nv. In Kubernetes: "
        "limits nvidia.com/gpu. enroot: NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    ),
    Entry(
        id="container-overlay",
        title="failed to open overlay image: currently in use for writing by another process",
        patterns=(r"failed to open overlay image (?P<path>[^\s:]+): (?:.*: )?(?P<reason>.+)",),
        explains=("container-start-failed", "cannot-fork", "file-missing", "image-not-found"),
        cause="Apptainer cannot open the overlay image {path}: {reason}. A writable overlay serves one container at a time. Usually another "
        "task, job or node has it open, or a killed one left it open",
        probe="on each host that uses it: fuser -v {path}; ps -ef | grep {path}; ls -l {path}",
        fix="in jobs of many tasks, open it for reading alone: --overlay {path}:ro. To write: one container, and end the others first. After a "
        "killed one: fsck.ext3 {path}",
        link="https://github.com/apptainer/singularity/issues/6196",
    ),
    Entry(
        id="container-runtime-broken",
        title="OCI runtime create failed: unable to retrieve OCI runtime error (open log.json: no such file or directory)",
        patterns=(
            r"unable to retrieve OCI runtime error \(open \S+: no such file or directory\)(?!.*executable file not found)(?:: (?P<reason>.+?))?(?:: unknown\.?)?$",
        ),
        explains=("container-start-failed", "file-missing"),
        cause="the container engine started its OCI runtime (nvidia-container-runtime, runc), and that ended at once, without a log[: {reason}]. "
        "Usually it is not installed, its configuration is wrong, or a library that it needs is missing or too old",
        probe="on that host: nvidia-container-runtime --version; runc --version; ldd $(command -v runc); grep -rn nvidia /etc/containerd /etc/docker",
        fix="reinstall nvidia-container-toolkit and the engine from one release, run nvidia-ctk runtime configure, and restart containerd or docker",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
    ),
    Entry(
        id="gpu-files-forbidden",
        title="Failed to initialize NVML: Insufficient Permissions",
        patterns=(
            r"Failed to initialize NVML: Insufficient Permissions",
            r"\bNVMLError_NoPermission\b",
            r"Failed to initialize NVML: GPU access blocked by the operating system",
        ),
        explains=("no-cuda-gpus", "cuda-init-failed", "own-exception"),
        cause="this user may not open the device files of the GPUs, /dev/nvidia*. Usually a rootless container drops the groups of the user, "
        "SELinux forbids devices in containers, or the site opens GPUs to jobs alone. In WSL, the driver of Windows is too old, or WSL was not restarted after its update",
        probe="on that host, and in the container: ls -lZ /dev/nvidia*; id; getenforce",
        fix="podman run --group-add keep-groups --security-opt label=disable --device nvidia.com/gpu=all ... With SELinux, as administrator: "
        "setsebool -P container_use_devices true. Without a container: request a GPU in the job, or join the group of these files",
        link="https://github.com/NVIDIA/nvidia-container-toolkit/issues/210",
    ),
    Entry(
        id="container-engine-error",
        title="docker: Error response from daemon; podman: Error: creating container; FATAL of Apptainer",
        kind="generic",
        patterns=(
            r"\bError response from daemon: (?P<reason>.+)",
            r"\bFATAL: {3}(?P<reason>\S.*)",
            r"\bError: (?P<reason>(?:creating container|configure storage|netavark|lsetxattr|could not get runtime|preparing container|error creating overlay).*)",
        ),
        explains=("own-exception", "nccl-net-not-found", "command-not-found"),
        cause="the container engine (docker, podman, Apptainer) started nothing: {reason}",
        probe="the command that starts the container, with its variables; docker info, podman info or apptainer version",
        fix="correct what the message names: an option, a path, a limit or a right. Test with the smallest command, docker run --rm IMAGE true, and "
        "add the options one by one",
        link="https://docs.docker.com/reference/cli/docker/container/run/",
    ),
)
