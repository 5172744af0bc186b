"""Public reports of failed runs: what they print is explained by the right failure."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.decide import analyze_log

# By the link of a report: what it is explained by, and the lines of it that say so.
REPORTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "https://github.com/pytorch/pytorch/issues/79847": (
        "nccl-error",
        (
            (
                "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:891, internal "
                "error, NCCL version 21.0.3"
            ),
            "ncclInternalError: Internal check failed. This is either a bug in NCCL or due to memory corruption",
        ),
    ),
    "https://github.com/showlab/EgoVLP/issues/21": (
        "killed",
        (
            (
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: "
                "407727) of binary: /egovlp/bin/python"
            ),
        ),
    ),
    "https://github.com/NVIDIA/nccl-tests/issues/185": (
        "ib-modify-qp",
        ("misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",),
    ),
    "https://github.com/NVIDIA/nccl/issues/2013": (
        "ib-modify-qp",
        (
            (
                "host-01:71:99 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection "
                "timed out, on dev mlx_x:1, curr state INIT"
            ),
        ),
    ),
    "https://github.com/NVIDIA/nccl/issues/1129": (
        "memlock",
        ("misc/ibvwrap.cc:280 NCCL WARN Call to ibv_create_qp failed",),
    ),
    "https://github.com/NVIDIA/nccl/issues/925": (
        "ib-modify-qp",
        ("NCCL WARN Call to ibv_modify_qp failed with error No such device",),
    ),
    "https://github.com/luxiaolili/IDM-VTON-train/issues/11": (
        "cuda-out-of-memory",
        (
            (
                "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 79.14 GiB "
                "total capacity; 10.43 GiB already allocated"
            ),
        ),
    ),
    "https://github.com/ultralytics/ultralytics/issues/19375": (
        "nccl-error",
        (
            (
                "[rank1]: torch.distributed.DistBackendError: NCCL error in: "
                "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3384, unhandled cuda error"
            ),
        ),
    ),
    "https://github.com/sgl-project/sglang/issues/3512": (
        "shell-not-bash",
        (
            "run.sh: 18: source: not found",
            "[ERROR] Failed to activate environment",
        ),
    ),
    "https://github.com/ShiqiYu/OpenGait/issues/89": (
        "collective-timeout",
        (
            (
                "RuntimeError: NCCL communicator was aborted on rank 6. Original reason for failure was: [Rank "
                "6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=382085, OpType=ALLREDUCE"
            ),
        ),
    ),
    "https://github.com/ultralytics/ultralytics/issues/15683": (
        "collective-timeout",
        (
            (
                "[rank1]: torch.distributed.DistBackendError: [Rank 1] Watchdog caught collective operation "
                "timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=10800000) ran "
                "for 10800005 milliseconds"
            ),
            (
                "[rank0]:[E ProcessGroupNCCL.cpp:583] [Rank 0] To avoid data inconsistency, we are taking the "
                "entire process down."
            ),
        ),
    ),
    "https://github.com/Lightning-AI/pytorch-lightning/issues/19487": (
        "collective-timeout",
        (
            (
                "Epoch 0:   6%|██    | 32040/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6][E "
                "ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25624887 milliseconds "
                "before timing out."
            ),
        ),
    ),
    "https://github.com/pytorch/pytorch/issues/22834": (
        "collective-timeout",
        (
            (
                "[rank2]:[E ProcessGroupNCCL.cpp:563] [Rank 2] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=4084, OpType=ALLREDUCE, NumelIn=4821568"
            ),
            "master-0:301:382 [3] NCCL INFO [Service thread] Connection closed by localRank 3",
        ),
    ),
    "https://github.com/awslabs/slapo/issues/114": (
        "bus-error",
        (
            "Root Cause (first observed failure):",
            "[0]:",
            "  time      : 2025-04-16_00:06:43",
            "  host      : 494f2fcc8a8d",
            "  rank      : 0 (local_rank: 0)",
            "  exitcode  : -7 (pid: 99)",
            "  error_file: <N/A>",
            "  traceback : Signal 7 (SIGBUS) received by PID 99",
        ),
    ),
    "https://github.com/Topdu/OpenOCR/issues/71": (
        "bus-error",
        (
            "  exitcode  : -7 (pid: 467397)",
            "  error_file: <N/A>",
            "  traceback : Signal 7 (SIGBUS) received by PID 467397",
        ),
    ),
    "https://github.com/zai-org/GLM-130B/issues/100": (
        "child-failed",
        (
            "Root Cause (first observed failure):",
            "[0]:",
            "  time      : 2023-03-14_11:22:52",
            "  host      : localhost.localdomain",
            "  rank      : 6 (local_rank: 6)",
            "  exitcode  : 1 (pid: 160924)",
            "  error_file: <N/A>",
        ),
    ),
    "https://github.com/NVIDIA/enroot/issues/83": (
        "image-no-space",
        (
            "slurmstepd: error: pyxis: failed to import docker image",
            "slurmstepd: error: pyxis:     Write failed because No space left on device",
        ),
    ),
    "https://github.com/NVIDIA/pyxis/issues/4": (
        "slurm-plugin-failed",
        ("srun: error: task 0 launch failed: Plugin initialization failed",),
    ),
    "https://github.com/NVIDIA/pyxis/issues/135": (
        "container-start-failed",
        (
            "slurmstepd-sp-0016: error: pyxis: couldn't start container",
            "slurmstepd-sp-0016: error: Failed to invoke spank plugin stack",
            "srun: error: sp-0016: task 0: Exited with exit code 1",
        ),
    ),
    "https://github.com/NVIDIA/nvidia-docker/issues/578": (
        "docker-no-gpu",
        ("docker: Error response from daemon: Unknown runtime specified nvidia.",),
    ),
    "https://github.com/CompVis/latent-diffusion/issues/17": (
        "cuda-init-failed",
        (
            "terminate called after throwing an instance of 'c10::Error'",
            "  what():  CUDA error: initialization error",
        ),
    ),
    "https://github.com/arrival-ltd/catalyst-rl-tutorial/issues/3": (
        "device-assert",
        (
            "terminate called after throwing an instance of 'c10::CUDAError'",
            "  what():  CUDA error: device-side assert triggered",
            (
                "CUDA kernel errors might be asynchronously reported at some other API call,so the stacktrace "
                "below might be incorrect."
            ),
        ),
    ),
    "https://github.com/Layne-Huang/PMDM/issues/5": (
        "torch-broken",
        (
            (
                "ImportError: /env/lib/python3.9/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
                "cudaLaunchKernelExC, version libcudart.so.11.0"
            ),
        ),
    ),
    "https://github.com/Zielon/metrical-tracker/issues/13": (
        "extension-of-other-torch",
        (
            (
                "ImportError: /env/lib/python3.7/site-packages/pytorch3d/_C.cpython-37m-x86_64-linux-gnu.so: "
                "undefined symbol: _ZNK2at6Tensor7is_cudaEv"
            ),
        ),
    ),
    "https://github.com/semchan/NLUT/issues/15": (
        "extension-of-other-torch",
        ("ImportError: libtorch_cuda_cu.so: cannot open shared object file: No such file or directory",),
    ),
    "https://github.com/pytorch/pytorch/issues/35710": (
        "cuda-init-failed",
        (
            (
                "RuntimeError: cuda runtime error (802) : system not yet initialized at "
                "/opt/conda/conda-bld/pytorch/work/aten/src/THC/THCGeneral.cpp:50"
            ),
        ),
    ),
    "https://github.com/microsoft/lisa/issues/2823": (
        "cuda-init-failed",
        (
            (
                "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some "
                "cuda functions before calling NumCudaDevices() that might have already set an error? Error "
                "802: system not yet initialized"
            ),
        ),
    ),
    "https://github.com/NVIDIA/nvidia-docker/issues/1553": (
        "gpu-lost",
        ("Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error",),
    ),
    "https://github.com/AlexeyAB/darknet/issues/86": (
        "no-cuda-gpus",
        ("CUDA Error: no CUDA-capable device is detected: No error",),
    ),
    "https://github.com/Oneflow-Inc/oneflow/issues/3106": (
        "driver-library-mismatch",
        ("Failed to initialize NVML: Driver/library version mismatch",),
    ),
    "https://github.com/rapidsai/dask-cuda/issues/949": (
        "driver-library-mismatch",
        ("pynvml.nvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",),
    ),
    "https://github.com/aws/aws-ofi-nccl/issues/24": (
        "efa-error",
        (
            (
                "host:8716:9558 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, "
                "ERROR: Invalid argument"
            ),
        ),
    ),
    "https://github.com/aws/aws-ofi-nccl/issues/156": (
        "efa-error",
        (
            (
                "worker-1:35:89 [5] ofi_process_cq:1039 NCCL WARN NET/OFI Request 0x7fbb944701b8 completed with "
                "error. RC: 20. Error: unknown error."
            ),
        ),
    ),
    "https://github.com/aws/aws-ofi-nccl/issues/889": (
        "efa-error",
        (
            (
                "nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain "
                "0x7f9befa99380 failed: Invalid argument"
            ),
        ),
    ),
    "https://github.com/wandb/wandb/issues/2966": (
        "wandb-login",
        (
            "wandb: W&B API key is configured (use `wandb login --relogin` to force relogin)",
            "wandb: ERROR Error while calling W&B API: permission denied (<Response [401]>)",
            "Thread SenderThread:",
        ),
    ),
    "https://github.com/kimjammer/Neuro/issues/6": (
        "hub-no-access",
        ("Access to model meta-llama/Meta-Llama-3-8B is restricted",),
    ),
    "https://github.com/Dao-AILab/flash-attention/issues/279": (
        "extension-build-failed",
        (
            "      RuntimeError: Error compiling objects for extension",
            "      [end of output]",
            "  ERROR: Failed building wheel for flash-attn",
        ),
    ),
    "https://github.com/docker/hub-feedback/issues/2464": (
        "image-not-found",
        (
            (
                "Error response from daemon: toomanyrequests: You have reached your unauthenticated pull rate "
                "limit. https://www.docker.com/increase-rate-limit"
            ),
        ),
    ),
    "https://github.com/ROCm/TheRock/issues/2118": (
        "cuda-out-of-memory",
        (
            (
                "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total "
                "capacity of 23.41 GiB of which 21.22 GiB is free."
            ),
        ),
    ),
    "https://github.com/LIN-SHANG/InstructERC/issues/16": (
        "batch-size-config",
        ("AssertionError: Micro batch size per gpu: 0 has to be greater than 0",),
    ),
    "https://github.com/OpenRLHF/OpenRLHF/issues/346": (
        "batch-size-config",
        (
            (
                "AssertionError: Check batch related parameters. train_batch_size is not equal to "
                "micro_batch_per_gpu * gradient_acc_step * world_size 256 != 2 * 18 * 7"
            ),
        ),
    ),
    "https://github.com/NVIDIA/nccl-tests/issues/252": (
        "ib-protection",
        (
            (
                "kolyoz2:25146:25854 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer "
                "10.0.35.1<49189> with error 4, opcode 5327, len 5327, vendor err 81 (Send)"
            ),
            "kolyoz1:27255:27930 [0] NCCL INFO [Service thread] Connection closed by localRank 2",
        ),
    ),
    "https://github.com/google/syzkaller/issues/2756": (
        "ssh-max-startups",
        ("kex_exchange_identification: read: Connection reset by peer",),
    ),
    "https://github.com/pytorch/pytorch/issues/413": (
        "numpy-abi",
        ("RuntimeError: module compiled against API version 0xa but this version of numpy is 0x9",),
    ),
}


@pytest.mark.parametrize("link", REPORTS)
def test_a_public_report_is_explained(link: str) -> None:
    cause, lines = REPORTS[link]
    first = analyze_log([("log", "\n".join(lines))]).first
    assert first is not None
    assert first.id == cause
