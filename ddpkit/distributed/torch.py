"""Tools of a training script: its rank, the process group, and a few functions that ranks need.

`resolve` and `explain` are pure, `gather_facts` reads facts for them, and none of them needs torch. The others import
torch when they are called, so that a machine without torch can import this module.

Nothing in this module writes to `os.environ`: the group starts from a `DistEnv`, a value that can be printed and
compared.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.distributed.process_group import error_reason, let_threads_finish, start_group
from ddpkit.distributed.resolver import DistEnv, Rejected, Resolution, explain, resolve
from ddpkit.distributed.slurm_env import slurm_disabled, srun_command
from ddpkit.distributed.slurm_lookup import Facts, gather_facts
from ddpkit.errors import EnvError

if TYPE_CHECKING:  # the import of torch takes more than a second
    from pathlib import Path

    import torch

__all__ = [
    "DistEnv",
    "EnvError",
    "Facts",
    "Rejected",
    "Resolution",
    "barrier",
    "device",
    "expand_nodelist",
    "explain",
    "gather_facts",
    "init",
    "is_main",
    "mean_over_ranks",
    "per_rank_batch_size",
    "resolve",
    "save_atomic",
    "seed_all",
    "shutdown",
]

INIT_TIMEOUT = 60.0
"""Seconds that a rank waits for the others at the start: enough for a slow import."""
SURELY_LEFT = 600.0
"""Seconds without a change after which the draft of a checkpoint, of another machine, is no longer written."""


def init(
    backend: str | None = None,
    *,
    timeout: float | None = None,
    init_timeout: float = INIT_TIMEOUT,
    env: DistEnv | None = None,
) -> DistEnv:
    """Start the process group and return this rank's DistEnv. A second call changes nothing.

    backend: default nccl on CUDA and ROCm, torch's own choice on another accelerator, gloo without one.
    timeout: seconds for one collective; None leaves torch's default of some minutes, which is right for long steps.
    init_timeout: seconds until all ranks have connected. DDPKIT_INIT_TIMEOUT replaces the default, for a cluster where
        60 seconds are too few.
    env: default `resolve(os.environ, sys.argv[1:], gather_facts(os.environ))`.

    Selects the rank's device. At Python's end waits, for at most 2 seconds, until torch's threads rest: a script that
    does not destroy its group may else abort there, before Python 3.14. Does not write to os.environ. A world of one
    needs no network. Raises EnvError where the environment is incomplete, the device does not exist, or the ranks
    cannot connect; torch's error is its `__cause__`.
    """
    import torch
    import torch.distributed as dist

    if env is None:
        facts = gather_facts(os.environ)
        env = resolve(os.environ, sys.argv[1:], facts)
        _warn_without_srun(env, facts)
    if not dist.is_available():
        if env.world_size == 1:
            return env
        raise EnvError(
            f"rank {env.rank} of {env.world_size}: this build of torch ({torch.__version__}) has no torch.distributed",
            "install a build of torch with it: python -m pip install torch",
        )
    if dist.is_initialized():
        if (dist.get_rank(), dist.get_world_size()) != (env.rank, env.world_size):
            raise EnvError(
                f"in the existing process group, this is rank {dist.get_rank()} of {dist.get_world_size()}, "
                f"but rank {env.rank} of {env.world_size} in the environment ({env.source})",
                "call init() instead of init_process_group(), or pass the DistEnv of the existing group as env=",
            )
        return env
    own_device = _select_device(env)
    backend = backend or _default_backend(own_device)
    if backend == "nccl" and own_device.type != "cuda":
        raise EnvError(
            f"rank {env.rank}: the nccl backend needs a GPU, and this process sees none "
            f"(device_index from {env.origin.get('device_index')})",
            'check nvidia-smi and CUDA_VISIBLE_DEVICES on this machine, or: init("gloo")',
        )
    start_group(env, backend, own_device, timeout, _init_timeout(init_timeout))
    atexit.register(let_threads_finish, os.getpid())
    return env


def shutdown() -> None:
    """Destroy the process group, if there is one. First waits, for at most 2 seconds, until torch's threads rest.

    Else a DistributedDataParallel that outlives a gloo group may hang when it is freed
    (https://github.com/pytorch/pytorch/issues/56297).
    """
    dist = _dist()
    if dist is not None:
        let_threads_finish()
        dist.destroy_process_group()


def is_main(env: DistEnv | None = None) -> bool:
    """Return whether this is rank 0: by `env`, else by the process group, else by the environment."""
    if env is None:
        dist = _dist()
        if dist is not None:
            return bool(dist.get_rank() == 0)
        env = resolve(os.environ, sys.argv[1:], gather_facts(os.environ))
    return env.rank == 0


def device(env: DistEnv) -> torch.device:
    """Return the rank's own device: its GPU or other accelerator, else the CPU. On an Apple laptop also the CPU.

    Raises EnvError where the rank's device index is not among the devices that torch sees, and where torch is built for
    CUDA or ROCm, the node has GPUs for this process, and torch can use none of them: the CPU is no fallback.
    """
    import torch

    if env.device_index is None:
        return torch.device("cpu")
    if torch.cuda.is_available():
        kind, count = "cuda", torch.cuda.device_count()
    else:
        accelerator = getattr(torch, "accelerator", None)  # torch >= 2.6
        if accelerator is None or not accelerator.is_available():
            _require_no_gpu(env)
            return torch.device("cpu")
        kind, count = accelerator.current_accelerator().type, accelerator.device_count()
        if kind == "mps":
            return torch.device("cpu")  # DDP cannot reduce its tensors, and it has no float64
    if env.device_index >= count:
        name = _VISIBLE_BY_KIND.get(kind, "CUDA_VISIBLE_DEVICES")
        visible = f"{name}={os.environ.get(name, '(not set)')}"
        raise EnvError(
            f"rank {env.rank} (local rank {env.local_rank} of {env.local_world_size}) would use "
            f"{kind}:{env.device_index}, but torch sees {count} of them here ({visible})",
            f"start at most {count} ranks on this node, or make {env.local_world_size} devices visible",
        )
    return torch.device(kind, env.device_index)


def seed_all(seed: int, env: DistEnv) -> int:
    """Seed random, torch and, where it is loaded, numpy with `seed + rank`, and return that number.

    Each rank gets its own seed, so that augmentation and dropout differ between ranks. A split, or the order of a
    DistributedSampler, must be the same on all ranks: use `seed` for it.
    """
    import random

    import torch

    own = seed + env.rank
    random.seed(own)
    torch.manual_seed(own)  # seeds every accelerator too, at the latest when it is first used
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(own % 2**32)  # numpy takes 32 bits
    return own


def mean_over_ranks(total: float, count: float, device: torch.device | str | None = None) -> float:
    """Return sum(total) / sum(count) over all ranks; nan where nothing was counted anywhere.

    A mean of means is wrong where one rank has fewer samples, as in the last batch of an epoch. The sums are float64,
    in one all_reduce that every rank must join. Without a process group the result is total / count.
    """
    dist = _dist()
    if dist is not None:
        import torch

        where = _collective_device() if device is None else torch.device(device)
        if where.type == "mps":
            where = torch.device("cpu")  # has no float64
        pair = torch.tensor([total, count], dtype=torch.float64, device=where)
        dist.all_reduce(pair)
        total, count = pair.tolist()
    return total / count if count else float("nan")


def per_rank_batch_size(global_batch_size: int, world_size: int, accumulation: int = 1) -> int:
    """Return the samples of one forward pass on one rank; raises ValueError where they do not divide evenly.

    Rounding would silently train with another batch size than the requested one.
    """
    if min(global_batch_size, world_size, accumulation) < 1:
        raise ValueError(
            f"the global batch size {global_batch_size}, the world size {world_size} and the accumulation "
            f"{accumulation} must be at least 1"
        )
    size, rest = divmod(global_batch_size, world_size * accumulation)
    if rest:
        lower = size * world_size * accumulation
        upper = lower + world_size * accumulation
        closest = f"{lower} or {upper}" if lower else f"{upper}"
        raise ValueError(
            f"a global batch size of {global_batch_size} is not divisible by {world_size} ranks times {accumulation} "
            f"accumulation steps ({world_size * accumulation}); the nearest divisible size is {closest}"
        )
    return size


def save_atomic(obj: object, path: str | os.PathLike[str]) -> None:
    """Save `obj` with torch.save. `path` always holds a whole file, the old or the new one, also after a crash.

    Call it on one rank. The temporary file lies in the same folder, because a rename is atomic only within a file
    system; it is removed where saving fails, and by a later call in that folder where a call was killed. The file and
    then the folder are flushed to the disk.
    """
    import errno
    import fcntl
    from contextlib import suppress
    from pathlib import Path

    import torch

    target = Path(path)
    front = f".{target.name[:160]}.save_atomic-"
    _remove_drafts_of_ended_calls(target.parent, front)
    # Not tempfile: its files have mode 0600, and a checkpoint follows the umask.
    temporary = target.with_name(f"{front}{_machine()}{os.urandom(8).hex()}.tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666), "wb") as file:
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            torch.save(obj, file)
            file.flush()
            os.fsync(file.fileno())
            if not os.path.samestat(os.fstat(file.fileno()), temporary.lstat()):
                raise OSError(errno.ESTALE, "another program replaced the draft of the checkpoint", str(temporary))
            temporary.replace(target)
        except BaseException:  # also Ctrl-C
            with suppress(OSError):
                if os.path.samestat(os.fstat(file.fileno()), temporary.lstat()):  # else it is another program's
                    temporary.unlink()
            raise
    # The rename is on the disk only when the folder is.
    entry = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(entry)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems refuse; the data are safe
            raise
    finally:
        os.close(entry)


def _machine() -> str:
    """Eight digits for this start of this machine."""
    import zlib

    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
    except OSError:
        boot = b""
    return f"{zlib.crc32(os.uname().nodename.encode() + boot):08x}"


def _remove_drafts_of_ended_calls(folder: Path, front: str) -> None:
    """Remove the drafts that killed calls of `save_atomic` left in a folder. `front`: the begin of this file's drafts.

    A living call holds a lock on its draft. The lock of another machine may not be seen, and a rank that saves another
    file here may not have locked its draft yet: then the draft must be old.
    """
    import fcntl
    import re
    import time
    from contextlib import suppress

    ours = re.compile(r"(\..+\.save_atomic-)([0-9a-f]{8})[0-9a-f]{16}\.tmp")
    for path in folder.iterdir():
        match = ours.fullmatch(path.name)
        if match is None:
            continue
        with suppress(OSError), open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same_file_and_machine = match[1] == front and match[2] == _machine()
            if same_file_and_machine or time.time() - os.fstat(file.fileno()).st_mtime > SURELY_LEFT:
                path.unlink()


def barrier() -> None:
    """Wait for all ranks; without a process group, return at once."""
    dist = _dist()
    if dist is None:
        return
    if "nccl" in dist.get_backend():  # also cpu:gloo,cuda:nccl
        import torch

        # By default nccl uses the rank as the device's index, which is wrong on a second node and can hang.
        dist.barrier(device_ids=[torch.cuda.current_device()])
    else:
        dist.barrier()


# --- private functions ---

_ROOT = "/"
_VISIBLE_BY_KIND = {"xpu": "ZE_AFFINITY_MASK", "npu": "ASCEND_RT_VISIBLE_DEVICES"}


def _dist() -> Any:
    """Return torch.distributed where a process group exists, else None; never imports torch."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def _warn_without_srun(env: DistEnv, facts: Facts) -> None:
    """Log a warning in a SLURM job of several tasks whose process was started without srun."""
    ntasks = os.environ.get("SLURM_NTASKS", "1")
    if env.source == "single" and ntasks not in ("", "1") and not slurm_disabled(os.environ):
        import logging

        logging.getLogger(__name__).warning(
            "SLURM_NTASKS=%s, but srun did not start this process: it runs as a single process. "
            "To run %s ranks: %s python %s",
            ntasks,
            ntasks,
            srun_command(os.environ, facts),
            sys.argv[0],
        )


def _init_timeout(argument: float) -> float:
    """Return the seconds until all ranks have connected: the argument, unless it is the default. Raises EnvError."""
    text = os.environ.get("DDPKIT_INIT_TIMEOUT", "").strip()
    if argument != INIT_TIMEOUT or not text:
        return argument
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise EnvError(
            f"DDPKIT_INIT_TIMEOUT={text} is not a number of seconds", "export DDPKIT_INIT_TIMEOUT=120, or unset it"
        )
    return seconds


def _require_no_gpu(env: DistEnv) -> None:
    """Raise EnvError if this process has a GPU that torch is built for, and cannot use: `Error 802`, or no HIP.

    A GPU is a device file that this process may open, or a device that torch counts. WSL has no such files.
    """
    import torch

    build = next((build for build in _GPUS_OF_BUILD if getattr(torch.version, build, None)), "")
    if not build:
        return
    path = openable_gpu(build)
    count = torch.cuda.device_count()  # NVML's, without CUDA_VISIBLE_DEVICES' hidden ones
    if not path and not count:
        return
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        reason = "torch.cuda.is_available() is False"
    except Exception as error:  # RuntimeError, and torch's DeferredCudaCallError, which is none
        reason = error_reason(error)
    _, look, name = _GPUS_OF_BUILD[build]
    raise EnvError(
        f"rank {env.rank} (local rank {env.local_rank} of {env.local_world_size}): this node has GPUs "
        f"({path or count}), and torch cannot use them: {reason}",
        f"{look}; to train on the CPU: export {name}=",
    )


def openable_gpu(build: str) -> str:
    """Return the device file of a GPU for a build of torch, else an empty text. A cgroup that hides one forbids it."""
    import errno

    for path in _GPUS_OF_BUILD[build][0]():
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES, errno.ENOENT):
                continue  # not for this process; a broken GPU gives EIO or ENODEV
        return path
    return ""


def _nvidia_files() -> list[str]:
    from pathlib import Path

    return sorted(map(str, Path(_ROOT, "dev").glob("nvidia[0-9]*")))


def _amd_files() -> list[str]:
    """Return the render nodes of the GPUs in the kernel's topology: /dev/kfd is open to all, also without a GPU."""
    import re
    from pathlib import Path

    files = []
    for properties in sorted(Path(_ROOT, "sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        try:
            text, number = properties.read_text(), properties.with_name("gpu_id").read_text().strip()
        except OSError:
            continue
        minor = re.search(r"^drm_render_minor (\d+)", text, re.MULTILINE)
        if number not in ("", "0") and minor:
            files.append(f"{_ROOT}dev/dri/renderD{minor[1]}")
    return files


# By the build of torch: the device files of its GPUs, a command that lists them, the variable that hides them.
_GPUS_OF_BUILD = {
    "cuda": (_nvidia_files, "nvidia-smi", "CUDA_VISIBLE_DEVICES"),
    "hip": (_amd_files, "rocm-smi", "HIP_VISIBLE_DEVICES"),
}


def _select_device(env: DistEnv) -> torch.device:
    """Make the rank's device the current one, so that `.cuda()` and nccl use it."""
    import torch

    own = device(env)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    elif own.type != "cpu":
        accelerator: Any = torch.accelerator
        # Renamed from set_device_idx in torch 2.7.
        (getattr(accelerator, "set_device_index", None) or accelerator.set_device_idx)(own.index)
    return own


def _default_backend(own: torch.device) -> str:
    """Return the backend for the rank's device: nccl, torch's choice for another accelerator, else gloo."""
    import torch.distributed as dist

    if own.type == "cuda" and dist.is_nccl_available():
        return "nccl"
    choose = getattr(dist, "get_default_backend_for_device", None)  # torch >= 2.6
    if own.type not in ("cpu", "cuda") and choose is not None:
        try:
            return str(choose(own))
        except ValueError:  # torch knows no backend for it
            pass
    return "gloo"


def _collective_device() -> torch.device:
    """Return a device whose tensors the group's backend can reduce."""
    import torch
    import torch.distributed as dist

    backend = dist.get_backend()
    if "nccl" in backend:
        return torch.device("cuda", torch.cuda.current_device())
    accelerator: Any = getattr(torch, "accelerator", None)
    if backend in ("gloo", "mpi") or accelerator is None or not accelerator.is_available():
        return torch.device("cpu")
    current: torch.device = accelerator.current_accelerator()
    return current
