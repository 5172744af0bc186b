"""Command lines that enter a container: the options of a backend in, shell text out.

A backend that reaches nodes by itself starts one container on each node, and the supervisor inside it: standard input,
the supervisor's lifeline, crosses the wall, and with it the environment, signals, exit codes and torchrun's news. Under
SLURM srun starts each task, which enters a container by itself, or by pyxis, a plugin of srun.

Sources of syntax: enroot 3.5 (doc/cmd, src/runtime.sh), pyxis 0.21 (args.c), `apptainer exec --help` 1.3, `docker run
--help` 20.10 and 28, `podman run --help` 4.3. Pure: words in, words out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal

from ddpkit.errors import UsageError
from ddpkit.launchers.plan import Container, Job
from ddpkit.launchers.shell import Secret, Value, join, quote

# The variables of `ddpkit.node.env_names` with the use `container`, for sed. Those of --env are added by name.
_PASSED = (
    r"((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|NODE_RANK|MASTER_(ADDR|PORT)|DDPKIT_(RUN|OBSERVE)|TORCHELASTIC_(RESTART_COUNT|MAX_RESTARTS)|PYTHON(UNBUFFERED|FAULTHANDLER)|"
    r"(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|ZE_AFFINITY_MASK|(FI|GLOO|NCCL|OMP|RCCL|SLURM|SLURMD|TORCH|UCX)_[A-Za-z0-9_]*)"
)
_NAMES = f"env | sed -nE 's/^{_PASSED}=.*/\\1/p'"
# Files of the node that a container needs: network adapters for RDMA, their copies of GPU memory, and the channels over
# which GPUs of several nodes share memory (IMEX).
_ADAPTERS = (
    "/dev/infiniband/uverbs* /dev/infiniband/rdma_cm /dev/cxi[0-9]* /dev/hfi1_* /dev/gdrdrv "
    "/dev/nvidia-caps-imex-channels/*"
)
# What starts a container of docker or podman is outside of the job's cgroup, and sees the GPUs of other jobs.
_IN_JOB = (
    'in_job() { [ -n "${SLURM_JOB_ID-}${PBS_JOBID-}${LSB_JOBID-}" ] || '
    "grep -q -e slurm -e pbs -e lsf /proc/self/cgroup; }"
)
_NVIDIA_OF_JOB = """gpus=all
    if in_job; then
        case ,${CUDA_VISIBLE_DEVICES-} in
            *,MIG-* | *,GPU-*) gpus=$CUDA_VISIBLE_DEVICES ;;
            *) gpus=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | paste -sd , -) ;;
        esac
        case $gpus in
            GPU-* | MIG-*) ;;
            *'No devices'*) gpus= ;;
            *) echo "ddpkit: nvidia-smi does not list the GPUs of this job: $gpus" >&2; exit 1 ;;
        esac
    fi"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
# The name of the container to start. One that is there under its plain name is the user's, and used as it is. What is
# made here has a name that only ddpkit gives, and until it is whole a mark beside its lock: only such a one is removed.
# Another rank, or another run, waits for the rest. The directory is this user's alone.
_CREATE = """container=$(
    umask 077
    folder=${{XDG_STATE_HOME:-$HOME/.local/state}}/ddpkit/enroot
    mkdir -p "$folder" 2> /dev/null || {{ folder=/tmp/ddpkit-enroot-$(id -u) && mkdir -p "$folder"; }} || exit 1
    [ -O "$folder" ] && [ ! -L "$folder" ] || {{ echo "ddpkit: $folder belongs to another user" >&2; exit 1; }}
    own={own}; part=$folder/$(uname -n)-$own
    exec 9>> "$part.lock" < /dev/null
    flock -w 10 9 ||
        {{ echo "ddpkit: waiting for the container $own, which another process makes" >&2; flock -w 1800 9; }} ||
        {{ echo "ddpkit: $part.lock: held by another process for 30 minutes" >&2; exit 1; }}
    there=$(enroot list) || {{ echo "ddpkit: enroot list failed: no container was made" >&2; exit 1; }}
    there() {{ printf '%s\n' "$there" | grep -Fqx -e "$1"; }}
    if there {name}; then own={name}
    elif ! there "$own" || [ -e "$part.half" ]; then
        ! there "$own" || enroot remove -f "$own" >&2 || exit 1
        : >> "$part.half" && enroot create --name "$own" {image} >&2 && rm -- "$part.half" || exit 1
    fi
    printf %s "$own"
) || exit 1"""
# enroot writes each variable into a line of a file, and takes surrounding quotes away (common::envfmt).
_CHANGED_BY_ENROOT = re.compile(r"\n|\A[\"'].*[\"']\s*\Z", re.DOTALL)


def option(default: Any, doc: str, alone: str = "", **more: bool) -> Any:
    """A dataclass field that is also a `-o NAME=VALUE` of the backend, with its one line of documentation.

    `alone`: the value that the flag `--NAME` stands for; empty: the flag needs a value. `more`: marks of the backend's.
    """
    return field(default=default, metadata={"doc": doc, "alone": alone, **more})


def ssh_client(use: str) -> Any:
    """An option of every backend that can be reached by SSH, or whose launcher can (`--on`)."""
    return option("paramiko", f"SSH client{use}: paramiko, or openssh for second factors, Kerberos and hardware keys")


@dataclass(frozen=True, kw_only=True)
class Mount:
    source: str
    target: str
    flags: str = ""  # separated by commas


@dataclass(frozen=True, kw_only=True)
class Want:
    """Demands on a container runtime, independent of its options."""

    image: str
    own: tuple[str, ...]  # folders that are mounted where they are
    mounts: tuple[Mount, ...] = ()
    workdir: str = ""  # where the command starts; empty: it goes there by itself
    args: tuple[str, ...] = ()
    gpus: Literal["auto", "all", "none"] = "auto"
    name: str = ""
    writable: bool = False
    root: bool = False
    env: Mapping[str, Value] = field(default_factory=dict)  # passed by name
    marks: Mapping[str, str] = field(default_factory=dict)  # set in the container, by value: nothing secret


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Flags of a runtime, as shell text, that bring devices of the node into a container. Empty: it needs none."""

    nvidia: str = ""  # statements, where there is an NVIDIA GPU
    amd: str = ""  # flags, where there is an AMD GPU, beside its files
    file: str = ""  # flags for the file in $file
    memlock: str = ""  # flags for adapters: they lock memory
    daemon: bool = False  # it is started outside of the job's cgroup

    def lines(self, gpus: str) -> list[str]:
        """Return shell code that puts the flags in front of "$@"; `gpus`: auto, all or none."""
        add_file = f'[ ! -e "$file" ] || set -- {self.file} "$@"'
        lines = [_IN_JOB] if self.daemon else []
        if self.file:
            lines.append(f"for file in {_ADAPTERS}; do {add_file}; done")
        if self.memlock:
            lines.append(f'[ ! -e /dev/infiniband ] || set -- {self.memlock} "$@"')
        if gpus != "none":
            lines += self._nvidia_lines(anyway=gpus == "all") + self._amd_lines(add_file)
        return lines

    def _nvidia_lines(self, *, anyway: bool) -> list[str]:
        """`anyway`: also where no driver is seen, unless the node has GPUs of AMD. nvidiactl is the driver's own."""
        there = "[ -e /dev/nvidiactl ]" + " || [ ! -e /dev/kfd ]" * anyway
        return [f"if {there}; then\n    {self.nvidia}\nfi"] if self.nvidia else []

    def _amd_lines(self, add_file: str) -> list[str]:
        if self.daemon:  # it sees GPUs that the job does not have
            add_file = f'{{ in_job && ! (: < "$file") 2> /dev/null; }} || {add_file}'
        files = [f"for file in /dev/dri/renderD* /dev/kfd; do {add_file}; done"] if self.file else []
        flags = [f'set -- {self.amd} "$@"'] if self.amd else []
        return ["\n    ".join(["if [ -e /dev/kfd ]; then", *files, *flags]) + "\nfi"] if files or flags else []


_PASSAGES: Mapping[str, Passage] = {
    "docker": Passage(
        nvidia=_NVIDIA_OF_JOB
        + """
    case $gpus in
        '') ;;
        all) set -- --gpus all "$@" ;;
        *) set -- --gpus "\\"device=$gpus\\"" "$@" ;;
    esac""",
        amd='--group-add="$(stat -c %g /dev/kfd)"',
        file='--device="$file"',
        memlock="--ulimit=memlock=-1",
        daemon=True,
    ),
    "podman": Passage(
        nvidia=_NVIDIA_OF_JOB
        + """
    for gpu in $(printf %s "$gpus" | tr , ' '); do set -- --device "nvidia.com/gpu=$gpu" "$@"; done""",
        amd="--group-add=keep-groups",
        file='--device="$file"',
        # Without root it cannot exceed the hard limit, which is in KiB.
        memlock='--ulimit=memlock="$([ "$(id -u)" != 0 ] && hard=$(ulimit -H -l) && [ "$hard" != unlimited ] && '
        'echo $((hard * 1024)) || echo -1)"',
        daemon=True,
    ),
    "apptainer": Passage(nvidia='set -- --nv "$@"', amd="--rocm"),  # shows all of /dev
    "enroot": Passage(  # its hook for NVIDIA asks this variable, which not every image sets
        nvidia='set -- --env "NVIDIA_VISIBLE_DEVICES=${NVIDIA_VISIBLE_DEVICES:-all}" "$@"',
        file='--mount "$file:$file"',
    ),
}


class Runtime:
    """One program that runs containers."""

    program: str
    takes: frozenset[str]  # the options that not every runtime has
    forbidden: str  # characters that a mounted path cannot have

    def check(self, want: Want) -> None:
        """Refuse what this runtime cannot do."""

    def enter(self, want: Want) -> str:
        """Shell text in which "$@" is a command: becomes that command, in the container."""
        raise NotImplementedError

    def srun(self, want: Want) -> str:
        """Options for srun, as shell text; empty: srun does not enter the container."""
        return ""


class Enroot(Runtime):
    program = "enroot"
    takes = frozenset({"container_name", "container_writable", "container_root"})
    forbidden = ": \t\n"

    def check(self, want: Want) -> None:
        if "://" in want.image or want.image.endswith(".sif"):
            raise UsageError(
                f"-o container={want.image}: enroot requires a .sqsh file, or the name of a container",
                f"enroot import {shlex.quote(want.image)}, then -o container=FILE.sqsh"
                if "://" in want.image
                else None,
            )
        if not _NAME.fullmatch(self._name(want)):
            raise UsageError(
                f"-o container={want.image}: {self._name(want)!r} is not a valid container name",
                "-o container_name=NAME",
            )
        if want.workdir:  # the environment goes by enroot, and not over standard input
            for name, value in want.env.items():
                if not _survives_enroot(value):
                    raise UsageError(
                        f"--env {name}: enroot would change its value, which has a line break or quotes around it",
                        "put the value into a file, or use another runtime",
                    )

    def _name(self, want: Want) -> str:
        return want.name or want.image.rpartition("/")[2].removesuffix(".sqsh")

    def enter(self, want: Want) -> str:
        name = self._name(want)
        words = ["exec", "enroot", "start"]
        words += ["--root"] * want.root + ["--rw"] * want.writable
        words += [part for folder in want.own for part in ("--mount", f"{folder}:{folder}")]
        for mount in want.mounts:
            flags = f":rbind,x-create=auto,{mount.flags}" if mount.flags else ""
            words += ["--mount", f"{mount.source}:{mount.target}{flags}"]
        words += [part for key, value in want.env.items() if _survives_enroot(value) for part in ("--env", key)]
        words += [part for key, value in want.marks.items() for part in ("--env", f"{key}={value}")]
        inner = ["sh", "-c", 'cd "$0" && exec "$@"', want.workdir] if want.workdir else []
        container, create = quote(name), ""
        if want.image.endswith(".sqsh"):
            own, image = quote(f"ddpkit-{name}"), quote(want.image)
            container, create = '"$container"', _CREATE.format(name=container, own=own, image=image)
        return "\n".join(
            [
                *filter(None, [create]),
                f'set -- {" ".join([container, *map(quote, inner)])} "$@"',
                *_PASSAGES[self.program].lines(want.gpus),
                _pass_names(),
                f'{join([*words, *want.args])} "$@"',
            ]
        )


class Pyxis(Runtime):
    program = "pyxis"
    takes = frozenset({"container_name", "container_writable", "container_root"})
    forbidden = ":, \t\n"

    def check(self, want: Want) -> None:
        if want.image.endswith(".sif"):
            raise UsageError(f"-o container={want.image}: pyxis requires a .sqsh file or the name of an image")

    def enter(self, want: Want) -> str:
        return 'exec "$@"'

    def srun(self, want: Want) -> str:
        mounts = [f"{folder}:{folder}" for folder in want.own]
        mounts += [_bind(mount).replace(",", "+") for mount in want.mounts]
        words = [f"--container-image={want.image}", f"--container-mounts={','.join(mounts)}"]
        words += [f"--container-workdir={want.workdir}"]
        words += [f"--container-name={want.name}"] if want.name else []
        words += ["--container-writable"] * want.writable + ["--container-remap-root"] * want.root
        # An image's own value wins over every name that does not stand here.
        listed = "".join(f",{name}" for name in want.env)
        return f'{join([*words, *want.args])} "--container-env=$({_NAMES} | paste -sd , -)"{listed}'


class Apptainer(Runtime):
    program = "apptainer"
    takes = frozenset({"container_writable", "container_root", "container_gpus"})
    forbidden = ":,\n"

    def enter(self, want: Want) -> str:
        words = ["exec", "apptainer", "exec"]
        words += ["--writable-tmpfs"] * want.writable + ["--fakeroot"] * want.root
        words += [f"--bind={folder}:{folder}" for folder in want.own]
        words += [f"--bind={_bind(mount)}" for mount in want.mounts]
        words += [f"--pwd={want.workdir}"] if want.workdir else []
        words += [f"--env={key}={value}" for key, value in want.marks.items()]
        # All others pass, but for these apptainer has values of its own.
        own = [f'export APPTAINERENV_{name}="${name}"' for name in ("PATH", "LD_LIBRARY_PATH") if name in want.env]
        return "\n".join(
            [
                *own,
                f'set -- {quote(want.image)} "$@"',
                *_PASSAGES[self.program].lines(want.gpus),
                f'{join([*words, *want.args])} "$@"',
            ]
        )


class Oci(Runtime):
    """docker, and podman, which speaks docker's words."""

    takes = frozenset({"container_gpus"})
    forbidden = ',"\n'

    def __init__(self, program: str) -> None:
        self.program = program

    def check(self, want: Want) -> None:
        if want.image.endswith((".sif", ".sqsh")) or (is_file(want.image)):
            raise UsageError(
                f"-o container={want.image}: {self.program} requires the name of an image, not a file",
                "-o container_runtime=enroot or apptainer",
            )

    def enter(self, want: Want) -> str:
        words = ["exec", self.program, "run", "--rm", "--interactive", "--network=host", "--ipc=host"]
        words += [f"--label=ddpkit={value}" for value in want.marks.values()]
        # Unlike --volume, this rejects a directory that does not exist.
        words += [f"--mount=type=bind,source={folder},target={folder}" for folder in want.own]
        words += [f"--volume={_bind(mount)}" for mount in want.mounts]
        words += [f"--env={key}={value}" for key, value in want.marks.items()]
        words += [f"--env={name}" for name in want.env]
        return "\n".join(
            [
                # The user's own arguments are the last ones: they win.
                f'set -- {join([*want.args, want.image.removeprefix("docker://")])} "$@"',
                *_PASSAGES[self.program].lines(want.gpus),
                _pass_names(),
                f'{join(words)} "$@"',
            ]
        )


_RUNTIMES: Mapping[str, Runtime] = {
    "enroot": Enroot(),
    "pyxis": Pyxis(),
    "apptainer": Apptainer(),
    "podman": Oci("podman"),
    "docker": Oci("docker"),
}


def is_file(image: str) -> bool:
    """Return whether an image is meant as a path on the node."""
    return "://" not in image and (image.endswith((".sqsh", ".sif")) or image.startswith(("/", "./", "../")))


def _survives_enroot(value: Value) -> bool:
    """Tell whether enroot brings a variable's value into a container as it is."""
    text = value.reveal() if isinstance(value, Secret) else value
    return isinstance(text, str) and not _CHANGED_BY_ENROOT.search(text)


def _pass_names() -> str:
    """Puts `--env NAME` in front of "$@" for every variable that is set here and must be set there."""
    return f'for name in $({_NAMES}); do set -- --env "$name" "$@"; done'


def _bind(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}" + (f":{mount.flags}" if mount.flags else "")


@dataclass(frozen=True, kw_only=True)
class Contained:
    """The options of a backend that can run its ranks in containers."""

    container: str = option("", "run the ranks in this image: a .sqsh or .sif file, docker://NAME, or a name")
    container_runtime: str = option("auto", "container runtime; auto: chosen by the form of the image")
    container_mounts: str = option(
        "", "extra mounts: SRC:DST[:FLAG[+FLAG]],...; the working directory is always mounted"
    )
    container_workdir: str = option("", "working directory of the ranks, as a path in the container")
    container_args: str = option("", "extra arguments for the runtime: --cap-add=SYS_NICE")
    container_gpus: Literal["auto", "all", "none"] = option(
        "auto",
        "pass the node's GPUs of NVIDIA and AMD to the container; auto: if it has any (apptainer, podman, docker)",
    )
    container_name: str = option("", "name of the container; default: the name of the .sqsh file (enroot, pyxis)")
    container_writable: bool = option(False, "make the container's files writable (enroot, pyxis, apptainer)")
    container_root: bool = option(
        False, "map the user to root in the container, without extra rights (enroot, pyxis, apptainer)"
    )

    # By the image's form: only one of these can start it here.
    by_form: ClassVar[Mapping[str, str]] = {}

    def runtime(self, known: Sequence[str]) -> Runtime:
        """The runtime that was asked for, or that the image's form leaves no doubt about."""
        name = self.container_runtime
        if name == "auto":
            name = next((runtime for end, runtime in self.by_form.items() if self.container.endswith(end)), "")
        if not name:
            raise UsageError(
                f"-o container={self.container}: the container runtime is not clear",
                f"-o container_runtime={' or '.join(known)}",
            )
        return _RUNTIMES[name]

    def want(
        self, job: Job, own: Sequence[str], env: Mapping[str, Value], workdir: str = ""
    ) -> tuple[Runtime, Want] | None:
        """Return the demands of a job on its container, checked; None: no container."""
        if not self.container:
            self._check_no_other_option()
            return None
        known = [word for word in _choices(type(self)) if word != "auto"]
        runtime = self.runtime(known)
        for name in ("container_gpus", "container_name", "container_writable", "container_root"):
            if getattr(self, name) not in ("", "auto", False) and name not in runtime.takes:
                able = [word for word in known if name in _RUNTIMES[word].takes]
                raise UsageError(f"-o {name} works with {' and '.join(able)}", f"remove -o {name}")
        image = self.container
        if is_file(image) and not image.startswith("/"):
            image = f"{job.workdir}/{image.removeprefix('./')}"
        folders = [job.workdir, *(path for path in own if not f"{path}/".startswith(f"{job.workdir}/"))]
        want = Want(
            image=image,
            own=tuple(folders),
            mounts=_mounts(self.container_mounts),
            workdir=workdir,
            args=tuple(split_option("container_args", self.container_args)),
            gpus=self.container_gpus,
            name=self.container_name,
            writable=self.container_writable,
            root=self.container_root,
            env=env,
        )
        for path in (*folders, *(path for mount in want.mounts for path in (mount.source, mount.target))):
            bad = [character for character in runtime.forbidden if character in path]
            if bad:
                raise UsageError(
                    f"{path} must be mounted in the container, and the runtime cannot mount a path with {bad[0]!r}",
                    "rename the directory",
                )
        runtime.check(want)
        return runtime, want

    def _check_no_other_option(self) -> None:
        """Refuse options of a container where there is no image."""
        for entry in fields(self):
            if entry.name.startswith("container_") and getattr(self, entry.name) != entry.default:
                raise UsageError(f"-o {entry.name} needs an image", "add -o container=IMAGE")

    def node_container(self, job: Job) -> Container | None:
        """Return the container of a node's supervisor; None: it stays outside."""
        # The values come over standard input. These names make the printed script one that can be run by hand.
        secret = {name: value for name, value in job.env.items() if isinstance(value, Secret)}
        chosen = self.want(job, (), secret)
        if chosen is None:
            return None
        runtime, want = chosen
        text = runtime.enter(replace(want, marks={"DDPKIT_INSIDE": job.run_id}))
        return Container(enter=("sh", "-c", text, "sh"), python=job.python, runtime=runtime.program)


def _choices(backend: type[Any]) -> tuple[str, ...]:
    return tuple(next(entry for entry in fields(backend) if entry.name == "container_runtime").metadata["choices"])


def runtimes(*names: str) -> Any:
    """The field `container_runtime` of a backend that knows these runtimes."""
    doc = "container runtime; auto: chosen by the form of the image"
    return field(default="auto", metadata={"doc": doc, "choices": ("auto", *names)})


def _mounts(text: str) -> tuple[Mount, ...]:
    """Parse the value of `-o container_mounts`. Raises UsageError."""
    mounts = []
    for entry in filter(None, text.split(",")):
        parts = entry.split(":")
        if len(parts) not in (2, 3) or not all(parts):
            raise UsageError(f"-o container_mounts={text}: {entry!r} is not SRC:DST or SRC:DST:FLAGS", "/data:/data:ro")
        if not parts[1].startswith("/"):
            raise UsageError(f"-o container_mounts={text}: {parts[1]!r} is not an absolute path in the container")
        mounts.append(
            Mount(source=parts[0], target=parts[1], flags=parts[2].replace("+", ",") if len(parts) == 3 else "")
        )
    return tuple(mounts)


def split_option(name: str, text: str) -> list[str]:
    """Split the value of `-o NAME=TEXT` into words, as a shell does. Raises UsageError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"-o {name}={text}: {error}", "quote it as on a command line") from None
