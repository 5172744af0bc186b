"""GPUs: assignment to ranks, other users, drivers and defects."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="duplicate-gpu",
        title="Duplicate GPU detected; Multiple ranks are using the same GPU",
        patterns=(
            r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA device (?P<device>\w+)",
            r"(?i)multiple ranks (?:detected|are) using the same GPU",
        ),
        context=r"(?P<vllm>\bvllm\b)",
        cause="two ranks use one GPU[: {sharing}]. The script does not call torch.cuda.set_device(LOCAL_RANK), there are more ranks "
        "than GPUs, or every task has CUDA_VISIBLE_DEVICES=0",
        probe="print(torch.cuda.current_device(), torch.cuda.device_count()) in each rank; echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L",
        fix="call `torch.cuda.set_device(int(os.environ['LOCAL_RANK']))` first, and use at most one rank per GPU. With "
        "srun, replace --gpus-per-task with --gpus-per-node[. A server of {vllm} beside the training needs GPUs of its own (CUDA_VISIBLE_DEVICES)]",
        instead=(
            Instead(
                of=(
                    "nccl-error",
                    "nccl-warning",
                    "nccl-remote",
                    "nccl-not-connected",
                    "child-failed",
                    "launcher-summary",
                    "aborted",
                ),
                reads="shared-gpu",
            ),
        ),
        link="https://github.com/NVIDIA/Megatron-LM/issues/661",
    ),
    Entry(
        id="invalid-device-ordinal",
        title="CUDA error: invalid device ordinal",
        patterns=(
            r"\binvalid device ordinal\b",
            r"'?invalid device ordinal'?",
            r"\bhipErrorInvalidDevice\b",
            r"AssertionError: Invalid device id\s*$",
            r"device_id \S+ is out of range\. Please use a device index less than",
            r"local_rank \d+ exceeds available GPUs in CUDA_VISIBLE_DEVICES=",
        ),
        context=r"(?:CUDA_VISIBLE_DEVICES|VISIBLE GPUS)['\"]?[\]:= ]+[\['\"]*(?P<visible>[1-9]\d*(?:, ?\d+)*)",
        cause="[the visible GPUs are {visible}, but a process counts them from 0: the code may use the number of the machine. Or ]LOCAL_RANK is not below the number of GPUs that this rank sees. There are more ranks than GPUs, or "
        "SLURM's --gpus-per-task or --gpu-bind shows one GPU to each task. With MIG, a process sees one slice only",
        probe="in each rank: python -c 'import torch; print(torch.cuda.device_count())'; echo $CUDA_VISIBLE_DEVICES",
        fix="start at most one rank per GPU: --nproc-per-node of torchrun, or -n. If each task sees one GPU, use "
        "device 0, or replace --gpus-per-task with --gpus-per-node[. With GPUs {visible}, ask for devices 0, 1, ...]",
        link="https://github.com/ACEsuit/mace/issues/435",
    ),
    Entry(
        id="more-gpus-asked",
        title="You requested gpu: [0, 1] But your machine only has: [0]",
        patterns=(
            r"Invalid CUDA '(?:--)?device",
            r"You requested (?:gpu|GPU)s?: (?!\{).* [Bb]ut your machine only has",
            r"You requested (?:gpu|GPU)s?: \[",
            r"[Bb]ut your machine only has: ?\[\d",
            r"insufficient CUDA devices for DDP command",
            r"local_world_size \(\d+\) must be less than or equal to the number of visible devices",
            r"assert [\w.]*(?:gpu|nproc)\w* <= (?:torch\.cuda\.device_count|get_num_devices)\(\)",
            r"assert torch\.cuda\.device_count\(\) >=? [\w.]*(?i:local_rank)",
            r"world size is \d+ but have \d+ available devices",
            r"You requested to find \S+ devices but this machine only has",
        ),
        context=r"torch\.cuda\.device_count\(\): (?P<count>\d+)",
        cause="the script requests more GPUs than this rank sees[ ({count})], or more ranks were started than there are GPUs. If it "
        "sees none: the driver, the container or this build of torch gives no access",
        probe="the same way: nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; python -c 'import torch; print(torch.version.cuda)'",
        fix="request the GPUs that exist (Lightning: devices='auto'; torchrun: --nproc-per-node), or give the job more (SLURM: "
        "--gpus-per-node). Start fairseq on several nodes with torchrun, or with --distributed-port and a task for each GPU",
        link="https://lightning.ai/docs/pytorch/stable/accelerators/gpu_basic.html",
    ),
    Entry(
        id="gpus-isolated",
        title="nvmlDeviceGetHandleByPciBusId() failed: Not Found",
        patterns=(r"nvmlDeviceGetHandleByPciBusId\w*\(?\)? ?failed",),
        cause="each task sees only its own GPU (cgroups). Ranks of one node cannot access each other's GPU memory",
        probe="srun --overlap nvidia-smi -L, in each task",
        fix="use srun --gpu-bind=none with --gpus-per-node. In enroot: export ENROOT_RESTRICT_DEV=n",
        link="https://github.com/NVIDIA/nccl/issues/1066",
    ),
    Entry(
        id="device-guessed",
        title="using GPU 0 to perform barrier as devices used by this process are currently unknown",
        kind="hint",
        explains=("duplicate-gpu",),
        patterns=(
            r"using GPU (?P<device>\d+) (?:to perform barrier )?as (?:device used|devices? used) by this process",
            r"Guessing device ID based on global rank",
        ),
        cause="init_process_group got no device_id and guesses the GPU from the global rank. With a wrong guess, two "
        "ranks share a GPU and a barrier hangs",
        probe="ddpkit test NPROC",
        fix="init_process_group(..., device_id=torch.device('cuda', int(os.environ['LOCAL_RANK'])))",
        link="https://github.com/pytorch/pytorch/issues/60752",
    ),
    Entry(
        id="gpu-busy",
        title="all CUDA-capable devices are busy or unavailable",
        patterns=(r"CUDA-capable device(?:s|\(s\)) (?:are|is/are) busy or unavailable",),
        cause="the GPU accepts one process only (compute mode Exclusive_Process), and another process uses it. Several "
        "ranks can open GPU 0 before they select their own. Or it is a vGPU without a license",
        probe="nvidia-smi --query-gpu=index,compute_mode --format=csv; nvidia-smi --query-compute-apps=pid,name "
        "--format=csv; nvidia-smi -q | grep -i license",
        fix="call torch.cuda.set_device(LOCAL_RANK) before any other CUDA call, or stop the other process. As "
        "administrator: `nvidia-smi -c DEFAULT`",
        action="exclude",
        reason="other processes use the GPUs of the host",
        evidence="kernel",
        link="https://github.com/karpathy/nanoGPT/issues/116",
    ),
    Entry(
        id="gpu-memory-taken",
        # Of `CUDA out of memory`, the sizes decide: see ddpkit.diagnosis.gpu_memory.
        title="GPU memory is in use before the start; CUDA out of memory, and Process 4711 has 71.62 GiB memory in use",
        explains=("cuda-out-of-memory", "vllm-engine-failed"),
        patterns=(
            r"Free memory on device .*?\((?P<reason>[\d.]+/[\d.]+ GiB)\) on startup is less than desired GPU memory utilization",
            r"memory capacity is unbalanced\. Some GPUs may be occupied by other processes",
        ),
        cause="other processes use the memory of this GPU[ ({reason})]: a rank of an earlier run, or a process of another "
        "user or in a container. Or other ranks of this job use the same GPU",
        probe="nvidia-smi; sudo fuser -v /dev/nvidia*; on Ascend: npu-smi info",
        fix="find the process with that command, and end it if it is yours: `ddpkit stop RUN`, or by "
        "its number. Otherwise use another GPU. In the script, call "
        "torch.cuda.set_device(LOCAL_RANK) before any other CUDA call. vLLM: a lower "
        "--gpu-memory-utilization",
        action="exclude",
        reason="other processes use the GPU memory of the host",
        request="out of memory",
        evidence="kernel",
        instead=(Instead(of=("cuda-out-of-memory", "accelerator-out-of-memory"), reads="memory-of-others"),),
        link="https://github.com/pytorch/pytorch/issues/4293",
    ),
    Entry(
        id="ranks-on-one-gpu",
        # Of `CUDA out of memory`, the sizes decide: see ddpkit.diagnosis.gpu_memory.
        title="CUDA out of memory, and several processes have 540.00 MiB memory in use on this GPU",
        explains=("cuda-out-of-memory",),
        cause="the GPU's memory is full. A part is of other processes of one size[ ({reason})]: the job's other ranks use "
        "this GPU, too, because they did not select their own in time",
        probe="nvidia-smi: on each GPU, the processes of all ranks; ddpkit test NPROC",
        fix="in each rank, call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before any other CUDA call, and load "
        "checkpoints with map_location='cpu'. Then reduce the batch per rank, as this rank needs most of the memory",
        instead=(Instead(of=("cuda-out-of-memory", "accelerator-out-of-memory"), reads="contexts-of-ranks"),),
        link="https://github.com/pytorch/pytorch/issues/4293",
    ),
    Entry(
        id="driver-too-old",
        title="The NVIDIA driver on your system is too old; CUDA driver version is insufficient",
        explains=(
            "no-cuda-gpus",
            "gpu-without-bf16",
            "cuda-init-failed",
            "nccl-cuda-failure",
            "compile-failed",
            "invalid-device-ordinal",
            "undefined-symbol",
        ),
        patterns=(
            r"API call is not supported in the installed CUDA driver",
            r"NVIDIA driver on your system is too old \(found version (?P<version>\d+)\)",
            r"CUDA [Dd]river version (?:found is (?P<version>\d+)\. Minimum|is insufficient for CUDA runtime)",
            r"provided PTX was compiled with an unsupported toolchain",
            r"cudaErrorInsufficientDriver",
            r"\bdevice kernel image is invalid\b",
            r"Can't find nvml\w+: \S+: undefined symbol: nvml",
        ),
        cause="torch, NCCL or the image was built for a newer CUDA than this node's driver supports[: the driver has CUDA {cuda}]",
        probe="nvidia-smi, whose head shows the driver's CUDA version; python -c 'import torch; print(torch.version.cuda)'",
        fix="update the driver, or install a torch for the driver's CUDA version or an older one[ (`pip install torch "
        "--index-url https://download.pytorch.org/whl/{wheel}`)]. For old versions, see "
        "https://pytorch.org/get-started/previous-versions/",
        explains_text=r"(?i)\b(?:cuda|gpus?)\b",
        reads="driver",
        link="https://docs.nvidia.com/deploy/cuda-compatibility/",
    ),
    Entry(
        id="gpu-lost",
        title="Xid 79: GPU has fallen off the bus; fewer GPUs than expected",
        patterns=(
            r"(?:\bGPU (?P<device>[0-9a-fA-F:.]+:[0-9a-fA-F.]+)\b.*)?\bfallen off the bus\b",
            r"Unable to determine the device handle for GPU ?(?P<device>[0-9a-fA-F:.]+:[0-9a-fA-F.]+)?",
            r"\bGPU is lost\b",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:]+)(?: GPU-[\w:. -]+)?\): 79\b",
            r"NVRM: .*\bGPU\b.* is not responding to commands",
        ),
        cause="a GPU[ ({device})] no longer answers. The cause is hardware, power or cooling",
        probe="on that node: dmesg -T | grep -i xid; nvidia-smi -L",
        fix="let an administrator drain the node and reboot it: scontrol show node {host|NODE}",
        action="exclude",
        reason="a GPU of the host is lost",
        evidence="kernel",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="gpu-not-started",
        title="NVRM: GPU 0000:01:00.0: RmInitAdapter failed!",
        patterns=(
            r"NVRM: (?:GPU (?P<device>[0-9a-fA-F:.]+): )?(?:RmInitAdapter|rm_init_adapter) failed",
            r"NVRM: .*(?:unexpected WPR2 already up, cannot proceed with booting GSP|failed to wait for GFW.?[Bb]oot)",
            r"NVRM: .*RmInitAdapter: Cannot initialize GSP firmware",
            r"amdgpu (?P<device>[0-9a-f:.]+): .*Fatal error during GPU init",
        ),
        context=r"NVRM: GPU (?P<device>[0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+\d):",
        explains=(
            "no-cuda-gpus",
            "cuda-init-failed",
            "gpu-lost",
        ),
        cause="the driver cannot start a GPU[ ({device})]. Its power, its slot or the GPU itself is faulty, or this driver "
        "does not support it",
        probe="on that node: dmesg -T | grep -E 'NVRM|amdgpu'; lspci -vv -d 10de:; modinfo nvidia | head -2",
        fix="switch the node off and on, and test another driver version (the open or the proprietary module). If it "
        "stays, drain the node and report the GPU",
        action="exclude",
        reason="the driver cannot start a GPU of the host",
        evidence="kernel",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Entry(
        id="gpu-ecc",
        title="CUDA error: uncorrectable ECC error encountered; row remapping pending",
        patterns=(
            r"(?<!\b0 )uncorrectable ECC error",
            r"Row Remapper: New row marked for remapping",
            r"NVRM: Xid \(PCI:(?P<device>[0-9a-fA-F:.]+)(?: GPU-[\w:. -]+)?\): (?:45, .*caused by previous Xid )?(?:48|63|64|92|94|95|140)\b",
            r"amdgpu (?P<device>[0-9a-f:.]+): .*(?<!\b0 )(?<!\b0 new )uncorrectable hardware error",
        ),
        cause="the GPU's memory[ ({device})] has a defect. Until the GPU is reset, every job on it can fail",
        probe="on that node: nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg -T | grep -i xid",
        fix="let an administrator drain the node and reset the GPU (AMD: reboot), or exclude the "
        "node: `sbatch --exclude={host|NAME}`",
        action="exclude",
        reason="the memory of a GPU of the host has errors",
        evidence="kernel",
        link="https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",
    ),
    Entry(
        id="slow-first-start",
        title="The first start of NCCL or CUDA takes long; the same ranks start quickly after it",
        cause="each first process initializes a GPU anew without persistence mode, which takes seconds a GPU. Libraries "
        "on a file server are read once, and are in memory after it",
        probe="time nvidia-smi; nvidia-smi --query-gpu=index,persistence_mode --format=csv",
        fix="`sudo nvidia-smi -pm 1`, or enable the service nvidia-persistenced. For one test: `ddpkit test --timeout 60`",
        link="https://docs.nvidia.com/deploy/driver-persistence/",
    ),
    Entry(
        id="straggler",
        title="One rank is slow and all others wait for it, without a message",
        cause="a GPU is hot or short of power, a PCIe link came up narrow, the node is busy, or the CPU binding is "
        "wrong",
        probe="nvidia-smi -q -d PERFORMANCE,CLOCK; nvidia-smi --query-gpu=pcie.link.width.current --format=csv",
        fix="run `ddpkit test --full` to find the node. Exclude it, and report it to the administrators",
        link="https://imbue.com/research/70b-infrastructure/",
    ),
    Entry(
        id="nvidia-smi-finds-none",
        title="nvidia-smi: No devices were found",
        kind="hint",
        patterns=(r"\bNo devices were found\s*$",),
        explains=("no-cuda-gpus", "cuda-init-failed", "nproc-bad"),
        cause="nvidia-smi finds the driver, and no GPU that this process may use. The job requested none, the container "
        "has none, or the driver could not start the GPU",
        probe="ls /dev/nvidia*; lspci -d 10de:; sudo dmesg -T | grep NVRM",
        fix="request GPUs (SLURM: --gpus-per-node=N; docker: --gpus all). If /dev/nvidia0 exists, read the lines of NVRM in "
        "dmesg, and reboot the node",
        link="https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",
    ),
    Entry(
        id="gpu-list-index",
        title="IndexError: list index out of range, at gpus[local_rank]",
        patterns=(r"IndexError: (?:list|tuple) index out of range",),
        needs=r"(?i)(?:gpu|device)\w*\[[\w.]*local_?rank",
        cause="the script takes the GPU of each rank from a list, at the position of the rank, and the list is shorter. It names "
        "fewer GPUs than ranks were started, or this rank sees fewer",
        probe="in each rank: echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES; nvidia-smi -L; print the list",
        fix="start as many ranks as the list has GPUs (--nproc-per-node), or name one GPU for each rank (gpus=[0,1,2,3]). "
        "Shorter: torch.device('cuda', LOCAL_RANK), without a list",
        link="https://github.com/kakaxi314/BP-Net/issues/7",
    ),
)
