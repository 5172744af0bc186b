"""Table of the checks of `make gpu`: for each, one program, and the exit code and output that it must have."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
PROJECT = Path(__file__).parents[2]
DDPKIT = (sys.executable, "-m", "ddpkit")
TRAIN = str(PROJECT / "train.py")
SMALL = ("--dataset", "synthetic", "--synthetic-size", "4000", "--epochs", "2")
INTERRUPTED = 130  # of `ddpkit launch` after Ctrl-C
TWO = {"DDPKIT_GPUS": "2"}  # else the launcher refuses two ranks on one GPU


@dataclass(frozen=True, kw_only=True)
class Check:
    """One program, and what it must do. The regular expressions are searched for in its whole output."""

    name: str  # also of its file in the directory of outputs
    purpose: str
    argv: tuple[str, ...]
    code: int | None = 0  # exit code; None: any
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    limit: float = 60.0  # seconds
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 1  # GPUs that it needs; 0: none, and no CUDA either
    single: bool = False  # several GPUs would be used one by each rank
    numpy: bool = False
    recording: bool = False  # nothing is expected: the output is kept as a fixture
    # `settle` seconds after a line that matches `ready`, these commands run, and then Ctrl-C ends the program.
    ready: str = ""
    settle: float = 3.0  # the other ranks come to the collective, and wait
    then: tuple[tuple[str, ...], ...] = ()


def launch(*words: str) -> tuple[str, ...]:
    """Return the command of a launch on this machine."""
    return (*DDPKIT, "launch", *words)


def shared(*words: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command of a launch of two ranks that share one GPU over NCCL."""
    return launch("-n", "2", *options, "--", str(PROGRAMS / "shared_gpu.py"), *words)


def program(name: str) -> str:
    """Return the path of a rank program of ours."""
    return str(PROGRAMS / f"{name}.py")


def smi(name: str, purpose: str, *words: str) -> Check:
    """Return a recording of nvidia-smi."""
    return Check(name=name, purpose=purpose, argv=("nvidia-smi", *words), code=None, limit=35, gpus=0, recording=True)


CUDA_START = Check(
    name="cuda-start",
    purpose="CUDA starts on every GPU; the output has the versions and the seconds of each step",
    argv=(sys.executable, program("cuda_start")),
    present=('"gpus": \\["',),
    limit=90,
    gpus=0,
)

# Two ranks on one GPU. Everything that NCCL does is otherwise untested where there is one GPU.
SHARED = (
    Check(
        name="nccl-two-ranks",
        purpose="two ranks add over NCCL on one GPU, and every sum is right",
        argv=shared("check", "--timeout", "60", "--mib", "16", "--speed"),
        present=("check: ok: 2 ranks on 1 host, nccl",),
        env={**TWO, "NCCL_DEBUG": "INFO"},
        limit=100,
    ),
    Check(
        name="nccl-collectives",
        purpose="three collectives over NCCL, with right results",
        env=TWO,
        argv=shared("bench", "auto", "60", "8", "16777216", "64", "all_reduce,all_gather,reduce_scatter"),
        present=('"comm": "nccl", "world_size": 2', '"op": "reduce_scatter"'),
        limit=120,
    ),
    Check(
        name="nccl-train",
        purpose="train.py trains two ranks over NCCL in bf16",
        env=TWO,
        argv=shared(TRAIN, *SMALL, "--amp", "bf16", "--checkpoint-dir", "two"),
        present=("backend nccl", "final accuracy"),
        limit=90,
        numpy=True,
    ),
    Check(
        name="nccl-refusal",
        purpose="NCCL refuses two ranks on one GPU: the verdict has NCCL's own reason, and no network interface",
        env=TWO,
        argv=shared(program("faults"), "none", options=("--env", "SAME_HOST=1")),
        code=None,
        present=("Duplicate GPU detected|same CUDA device|same GPU", "failed first", "hint: "),
        absent=("hint:.*SOCKET_IFNAME", "ended$"),
    ),
)

STACKS = ("--observe", "stacks")
OFF = (*STACKS, "--env", "TORCH_FR_BUFFER_SIZE=0", "--env", "TORCH_NCCL_TRACE_BUFFER_SIZE=0")
HANGS = (
    Check(
        name="hang-dump",
        purpose="dump names the rank that the others wait for in NCCL; top and status show both ranks",
        env=TWO,
        argv=shared(program("faults"), "hang", options=STACKS),
        code=INTERRUPTED,
        present=("rank 1 on \\S+ has not joined all_reduce", "faults\\.py:\\d+ in read_slowly"),
        limit=110,
        ready="hangs now",
        then=((*DDPKIT, "dump"), (*DDPKIT, "top", "--once"), (*DDPKIT, "status")),
    ),
    Check(
        name="hang-stuck-gpu",
        purpose="dump names the rank whose GPU does not come to the collective, and keeps what nvidia-smi says",
        env=TWO,
        argv=shared(program("faults"), "stuck", options=(*STACKS, "--env", "TORCH_NCCL_ENABLE_TIMING=1")),
        code=None,
        present=("rank 1 on \\S+ has queued all_reduce", "smi_\\S+\\.xml"),
        limit=110,
        ready="hangs now",
        then=((*DDPKIT, "dump"), ("sh", "-c", "ls logs/*/dump-*; cat logs/*/dump-*/hardware.txt")),
    ),
    Check(
        name="hang-in-test",
        purpose="NCCL hangs on the GPU in the checks of ddpkit test: they end, and name it",
        env=TWO,
        argv=shared("late", "--timeout", "10", "--mib", "1", "--speed"),
        code=122,
        present=("of the first all_reduce over nccl",),
        limit=100,
    ),
    Check(
        name="hang-without-record",
        purpose="dump names that rank by its stack, if the flight recorder is off",
        env=TWO,
        argv=shared(program("faults"), "hang", options=OFF),
        code=INTERRUPTED,
        present=("rank 1 on \\S+ (is in no collective|has not joined)",),
        limit=90,
        ready="hangs now",
        then=((*DDPKIT, "dump"),),
    ),
    Check(
        name="hang-timeout",
        purpose="--hang-timeout ends a run that hangs in NCCL with 124, and names the rank",
        env={**TWO, "DDPKIT_HANG_ACTION": "end"},
        argv=shared(program("faults"), "hang", options=(*STACKS, "--hang-timeout", "10")),
        code=124,
        present=("rank 1 on \\S+ failed first.*it hangs",),
        limit=100,
    ),
    Check(
        name="hang-watchdog",
        purpose="NCCL's own timeout ends the rank that waits: the verdict names the rank that it waited for",
        env={**TWO, "TIMEOUT": "8", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1000"},
        argv=shared(program("faults"), "hang", options=STACKS),
        code=134,
        present=("rank 0 on \\S+ failed first.*SIGABRT.*rank 1 on \\S+ has not joined all_reduce.*in read_slowly",),
        limit=60,
    ),
)

FAULTS = (
    Check(
        name="fault-kill",
        purpose="a rank is killed during NCCL: the verdict names it, and not the other rank's NCCL error",
        env=TWO,
        argv=shared(program("faults"), "kill"),
        code=137,
        present=("rank 1 on \\S+ failed first.*SIGKILL",),
        limit=80,
    ),
    Check(
        name="fault-memory",
        purpose="a GPU without enough memory: the verdict names the rank and the cause",
        env=TWO,
        argv=shared(program("faults"), "memory"),
        code=1,
        present=("rank 1 on \\S+ failed first", "the GPU's memory is full"),
        limit=80,
    ),
    Check(
        name="fault-assert",
        purpose="an index out of range on the GPU: the verdict names the rank and the cause",
        env=TWO,
        argv=shared(program("faults"), "assert"),
        code=None,
        present=("rank 1 on \\S+ failed first", "an index is out of range on the GPU"),
        absent=("ended$",),
        limit=80,
    ),
)

PRELOAD = tuple(
    Check(
        name=f"preload-{modules.replace(',', '-')}",
        purpose=f"CUDA works in two ranks that were forked after the import of {modules}",
        env=TWO,
        argv=launch("-n", "2", "-o", f"preload={modules}", "--", program("uses_gpu")),
        present=("0 \\S+\\] sum on the GPU: 8.0", "1 \\S+\\] sum on the GPU: 8.0"),
        absent=("preload has no effect", "Cannot re-initialize CUDA"),
    )
    for modules in ("torch", "torch,poison")
)

TRAINING = (
    *(
        Check(
            name=f"train-{amp}",
            purpose=f"train.py trains one rank on its GPU with --amp {amp}",
            argv=launch("-n", "1", "--", TRAIN, *SMALL, "--amp", amp, "--checkpoint-dir", amp),
            present=("1 ranks \\(cuda\\).*backend nccl", "final accuracy"),
            numpy=True,
        )
        for amp in ("off", "fp16")
    ),
    Check(
        name="train-resume",
        purpose="train.py resumes from the checkpoint of the run before, with the scale of its gradients",
        argv=launch(
            *("-n", "1", "--", TRAIN, *SMALL[:-1], "3", "--amp", "fp16", "--checkpoint-dir", "fp16"),
            *("--resume", "auto"),
        ),
        present=("resumed after epoch 2", "final accuracy"),
        numpy=True,
    ),
)

PREFLIGHT = (
    Check(
        name="test-one-rank",
        purpose="`ddpkit test` of one rank with the default time limits finds no failure",
        argv=(*DDPKIT, "test", "1", "--full", "-v"),
        absent=("^FAIL",),
        limit=120,
    ),
    Check(
        name="test-shared-gpu",
        purpose="`ddpkit test` names two ranks that use the same GPU",
        env=TWO,
        argv=(*DDPKIT, "test", "2"),
        single=True,
        code=122,
        present=("uses the same GPU as rank 0",),
        limit=120,
    ),
)

# A visible device that does not exist is an error of the user's, and never the CPU. An empty list hides all GPUs.
SHOW_DEVICE = "import os; from ddpkit.distributed import torch as d; print('device', d.device(d.resolve(os.environ)))"
VISIBILITY = tuple(
    Check(
        name=f"visible-{name}",
        purpose=purpose,
        argv=(sys.executable, "-W", "ignore", "-c", SHOW_DEVICE),
        code=code,
        present=(text,),
        absent=absent,
        env={"CUDA_VISIBLE_DEVICES": value},
        limit=40,
    )
    for name, value, purpose, code, text, absent in (
        ("none", "", "CUDA_VISIBLE_DEVICES= selects the CPU", 0, "device cpu", ()),
        ("99", "99", "CUDA_VISIBLE_DEVICES=99 is an error", 1, "torch cannot use them", ("device cpu",)),
        (
            "uuid",
            "GPU-00000000-0000-0000-0000-000000000000",
            "CUDA_VISIBLE_DEVICES with the UUID of no GPU is an error",
            1,
            "torch cannot use them",
            ("device cpu",),
        ),
    )
)

QUERY = "import json; from ddpkit.node.calls import {module} as m; print(json.dumps({call}, indent=1))"
NODE = (
    Check(
        name="inventory",
        purpose="ddpkit's inventory of this node has every GPU, with all fields that nvidia-smi reports",
        argv=(sys.executable, "-c", QUERY.format(module="gpu_inventory", call="m.nvidia_smi()")),
        present=('"uuid": "GPU-', '"memory_used": "\\d', '"ecc_errors": \\d'),
        limit=60,
        gpus=0,
    ),
    Check(
        name="sample",
        purpose="a sample of `ddpkit top` has every GPU",
        argv=(sys.executable, "-c", QUERY.format(module="resource_sample", call="m.sample({}, limit=30.0)['gpus']")),
        present=("GPU-",),
        gpus=0,
    ),
)

KERNEL = """
cat /proc/driver/nvidia/version
ls /proc/driver/nvidia/gpus /dev/nvidia* /sys/class/infiniband
grep -s "" /sys/class/infiniband/*/ports/*/*counters/*
grep -s -e NVRM -e Xid /dev/kmsg & sleep 1; kill $!
for gpu in /proc/driver/nvidia/gpus/*; do
    device=/sys/bus/pci/devices/${gpu##*/}
    echo $device
    cat $device/numa_node $device/local_cpulist
done
lscpu
ulimit -l
"""
FIELDS = ("--format=csv,nounits",)
RECORDINGS = (
    smi("smi-xml", "what ddpkit reads of nvidia-smi", "-q", "-x"),
    smi("smi-all", "all that nvidia-smi reports", "-q"),
    smi("smi-topology", "connections between GPUs, network cards and CPUs", "topo", "-m"),
    smi("smi-nvlink", "NVLink connections", "nvlink", "--status"),
    smi("smi-nvlink-traffic", "NVLink counters, as a dump keeps them", "nvlink", "--getthroughput", "d"),
    smi("smi-nvlink-errors", "NVLink errors, as a dump keeps them", "nvlink", "--errorcounters"),
    smi("smi-unknown-field", "a field that nvidia-smi does not know", "--query-gpu=index,no.such.field", *FIELDS),
    smi(
        "smi-remapped-rows",
        "rows of memory that wait for a reset",
        "--query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure",
        *FIELDS,
    ),
    smi(
        "smi-processes",
        "processes on the GPUs",
        "--query-compute-apps=gpu_uuid,gpu_bus_id,pid,used_memory,process_name",
        *FIELDS,
    ),
    *(
        smi(f"smi-{name}", "fields of newer drivers", f"--query-gpu=index,{fields}", *FIELDS)
        for name, fields in (
            ("persistence", "persistence_mode,ecc.errors.uncorrected.aggregate.total"),
            ("clocks", "clocks_event_reasons.hw_slowdown,clocks_event_reasons.hw_thermal_slowdown"),
            ("fabric", "fabric.state,fabric.status"),
            ("reset", "reset_status.reset_required"),
            ("recovery", "gpu_recovery_action"),
        )
    ),
    Check(
        name="kernel",
        purpose="files of the driver, the CPUs and memory near each GPU",
        argv=(
            "sh",
            "-c",
            KERNEL,
        ),
        code=None,
        limit=10,
        gpus=0,
        recording=True,
    ),
)

ALL_GPUS = (
    Check(
        name="all-gpus-test",
        purpose="`ddpkit test` of one rank for each GPU finds no failure",
        argv=(*DDPKIT, "test", "--full", "-v"),
        absent=("^FAIL",),
        limit=150,
        gpus=2,
    ),
    Check(
        name="all-gpus-bench",
        purpose="three collectives between all GPUs, with right results",
        argv=(*DDPKIT, "bench", "-e", "256M", "-f", "64"),
        present=("reduce_scatter",),
        limit=120,
        gpus=2,
    ),
    Check(
        name="all-gpus-train",
        purpose="train.py trains one rank for each GPU",
        argv=launch("--", TRAIN, *SMALL, "--checkpoint-dir", "all"),
        present=("backend nccl", "final accuracy"),
        limit=90,
        numpy=True,
    ),
)

# The order is that of worth: where the time ends, the last ones are left out. Outputs of nvidia-smi come first: they
# take seconds, and are test data wherever else there is no GPU.
CHECKS = (
    CUDA_START,
    *RECORDINGS,
    *SHARED,
    *ALL_GPUS,
    *NODE,
    *HANGS,
    *PREFLIGHT,
    *PRELOAD,
    *FAULTS,
    *TRAINING,
    *VISIBILITY,
)
