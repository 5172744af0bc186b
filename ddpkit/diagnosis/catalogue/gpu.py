"""GPUs: which rank has which, who else uses them, drivers and broken ones."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="duplicate-gpu",
        title="Duplicate GPU detected; Multiple ranks are using the same GPU",
        patterns=(
            r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
            r"(?i)multiple ranks (?:detected|are) using the same GPU",
        ),
        cause="two ranks use one GPU: the script does not call torch.cuda.set_device(LOCAL_RANK), there are more ranks "
        "than GPUs, or every task has CUDA_VISIBLE_DEVICES=0",
        probe="ddpkit test NPROC, which names ranks and GPU; or print torch.cuda.current_device() in each rank",
        fix="call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first; -n at most the number of GPUs; srun "
        "--gpus-per-node in place of --gpus-per-task",
        link="https://github.com/NVIDIA/Megatron-LM/issues/661",
    ),
    Entry(
        id="invalid-device-ordinal",
        title="CUDA error: invalid device ordinal",
        patterns=(r"\binvalid device ordinal\b", r"'?invalid device ordinal'?"),
        cause="a rank asked for a GPU that it does not see: LOCAL_RANK is larger than the number of visible GPUs "
        "(--gpus-per-task or --gpu-bind shows one to each task; or there are more ranks than GPUs)",
        probe="in each rank: python -c 'import torch; print(torch.cuda.device_count())'; echo $CUDA_VISIBLE_DEVICES",
        fix="where a task sees one GPU use device 0; else --gpus-per-node in place of --gpus-per-task, and -n at most "
        "the number of GPUs",
        link="https://github.com/ACEsuit/mace/issues/435",
    ),
    Entry(
        id="more-gpus-asked",
        title="You requested gpu: [0, 1] But your machine only has: [0]",
        patterns=(r"You requested (?:gpu|GPU)s?: .* [Bb]ut your machine only has",),
        cause="the script asks for more GPUs than this rank sees",
        probe="the same way in: nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES",
        fix="ask for as many as there are (Lightning: devices='auto'), or let the job have more (SLURM: --gpus-per-node)",
        link="https://lightning.ai/docs/pytorch/stable/accelerators/gpu_basic.html",
    ),
    Entry(
        id="gpus-isolated",
        title="nvmlDeviceGetHandleByPciBusId() failed: Not Found",
        patterns=(r"nvmlDeviceGetHandleByPciBusId\w*\(?\)? ?failed",),
        cause="each task sees its own GPU only (cgroups), so that ranks of one node cannot reach each other's memory",
        probe="srun --overlap --jobid JOB nvidia-smi -L, in each task",
        fix="srun --gpu-bind=none with --gpus-per-node; in enroot: export ENROOT_RESTRICT_DEV=n",
        link="https://github.com/NVIDIA/nccl/issues/1066",
    ),
    Entry(
        id="device-guessed",
        title="using GPU 0 to perform barrier as devices used by this process are currently unknown",
        kind="hint",
        patterns=(
            r"using GPU (?P<device>\d+) (?:to perform barrier )?as (?:device used|devices? used) by this process",
            r"Guessing device ID based on global rank",
        ),
        cause="init_process_group was not told this rank's GPU, and guesses it from the global rank: where the guess "
        "is wrong, two ranks use one GPU and a barrier hangs",
        probe="ddpkit test NPROC",
        fix="init_process_group(..., device_id=torch.device('cuda', int(os.environ['LOCAL_RANK'])))",
        link="https://github.com/pytorch/pytorch/issues/60752",
    ),
    Entry(
        id="gpu-busy",
        title="all CUDA-capable devices are busy or unavailable",
        patterns=(r"CUDA-capable device(?:s|\(s\)) (?:are|is/are) busy or unavailable",),
        cause="a GPU takes one process only (compute mode Exclusive_Process) and another has it, or several ranks open "
        "GPU 0 before they choose their own",
        probe="nvidia-smi --query-gpu=index,compute_mode --format=csv; nvidia-smi --query-compute-apps=pid,name "
        "--format=csv",
        fix="call torch.cuda.set_device(LOCAL_RANK) before anything else; end the process that has it; an "
        "administrator: nvidia-smi -c DEFAULT",
        link="https://github.com/karpathy/nanoGPT/issues/116",
    ),
    Entry(
        id="gpu-memory-taken",
        title="Memory of a GPU is used before the start, perhaps by no process",
        cause="a rank of an earlier run is still there, another user's process, or one in a container",
        probe="nvidia-smi; sudo fuser -v /dev/nvidia*",
        fix="ddpkit stop RUN for a run of yours; kill PID for what fuser names and is yours",
        link="https://github.com/pytorch/pytorch/issues/4293",
    ),
    Entry(
        id="driver-too-old",
        title="The NVIDIA driver on your system is too old; CUDA driver version is insufficient",
        patterns=(
            r"NVIDIA driver on your system is too old \(found version (?P<version>\d+)\)",
            r"CUDA [Dd]river version (?:found is \d+\. Minimum|is insufficient for CUDA runtime)",
            r"provided PTX was compiled with an unsupported toolchain",
            r"cudaErrorInsufficientDriver",
        ),
        cause="torch was built for a newer CUDA than this node's driver knows",
        probe="nvidia-smi --query-gpu=driver_version --format=csv; python -c 'import torch; print(torch.version.cuda)'",
        fix="install torch for the driver's CUDA (pip install torch --index-url "
        "https://download.pytorch.org/whl/cu126), or update the driver",
        link="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Entry(
        id="gpu-lost",
        title="Xid 79: GPU has fallen off the bus; fewer GPUs than expected",
        patterns=(
            r"GPU has fallen off the bus",
            r"Unable to determine the device handle for GPU",
            r"\bGPU is lost\b",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:]+)\): 79\b",
        ),
        cause="a GPU no longer answers: hardware, power or cooling",
        probe="on that node: dmesg -T | grep -i xid; nvidia-smi -L",
        fix="take the node out (scontrol update nodename={host} state=drain reason=xid79) and reboot it",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="gpu-ecc",
        title="CUDA error: uncorrectable ECC error encountered; row remapping pending",
        patterns=(
            r"uncorrectable ECC error",
            r"Row Remapper: New row marked for remapping",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:]+)\): (?:48|63|64|94|95)\b",
        ),
        cause="a GPU's memory has a defect; until the GPU is reset, every job on it can die",
        probe="on that node: nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg -T | grep -i xid",
        fix="drain the node and reset the GPU (nvidia-smi --gpu-reset -i N); exclude it: sbatch --exclude={host}",
        link="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Entry(
        id="straggler",
        title="One rank is slow, all wait for it, and nothing is printed",
        cause="a GPU that is hot or short of power, a PCIe link that came up narrow, a busy node, or wrong CPU binding",
        probe="nvidia-smi -q -d PERFORMANCE,CLOCK; nvidia-smi --query-gpu=pcie.link.width.current --format=csv",
        fix="ddpkit test --full finds the node; exclude it and have it looked at",
        link="https://imbue.com/research/70b-infrastructure/",
    ),
)
