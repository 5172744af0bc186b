"""Faults of training on one real GPU, under several launchers. bench/record_gpus.py records them, without the lab.

Two ranks share the GPU: NCCL accepts that where NCCL_HOSTID differs, and their data go over sockets. Each case has less
than 2 GB of the GPU, as others run beside it. Requests that must fail are larger than any GPU. The cases that fill the
GPU are marked `alone`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from recording.scene import Scene, add
from recording.training import Fault

SCRIPT = """\
import datetime
import os
import sys
import time
{host}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
{top}

class Classifier(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, classes)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        scores = torch.softmax(hidden @ hidden.transpose(1, 2) / 8, dim=-1)
        return self.head((scores @ hidden).mean(dim=1))


def load_batch():
    tokens = torch.randint(1000, (32, 16))
    return tokens.cuda(), (tokens[:, 0] % 10).cuda()


def train_step(model, optimizer, step, rank):
    tokens, labels = load_batch()
{fault}
    loss = cross_entropy(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    {select}
    {init}
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range({steps}):
        loss = train_step(model, optimizer, step, rank)
        if rank == 0:
            print(f"step {{step}} loss {{loss:.4f}}", flush=True)
{end}

if __name__ == "__main__":
    main()
"""
HOST = '\nos.environ["NCCL_HOSTID"] = "rank" + os.environ["RANK"]\n'
INIT = 'dist.init_process_group("nccl")\n    rank = dist.get_rank()'
SHORT = 'dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=10))\n    rank = dist.get_rank()'
QUICK = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=500"
FRESH = "TORCHINDUCTOR_CACHE_DIR=$PWD/inductor TRITON_CACHE_DIR=$PWD/triton"
KERNELS = "CUDA_HOME=/usr/local/cuda"  # torch's compiler of kernels reads it, and it need not exist

WAYS = {
    "torchrun": "torchrun --standalone --nproc-per-node 2 train.py",
    "ddpkit": "DDPKIT_GPUS=2 python3 -m ddpkit launch -n 2 -- train.py",
    "python": "python3 train.py",
    "accelerate": "accelerate launch --num_processes 1 train.py",
}


@dataclass(frozen=True, kw_only=True)
class GpuFault(Fault):
    """A fault on a GPU. `shows` must be in the log, else the fault was not made and the log is not kept."""

    init: str = INIT
    model: str = "DistributedDataParallel(Classifier().cuda(), device_ids=[0])"
    host: str = HOST
    select: str = "torch.cuda.set_device(0)"
    steps: str = "6"
    end: str = "dist.destroy_process_group()"
    script: str = ""  # in place of the training script
    files: Mapping[str, str] = field(default_factory=dict)  # more files of the working directory
    way: str = "torchrun"
    env: str = ""  # assignments before the command
    command: str = ""  # in place of the way
    shows: str = ""
    alone: bool = False  # it fills the GPU
    typical: float = 12.0  # seconds; the longest start first
    limit: float = 60.0  # seconds

    @property
    def extra(self) -> bool:
        """Check if it resembles another case, and so starts after those that do not."""
        return any(FAULTS.get(f"gpu/{name}") is self for name in EXTRA)

    @property
    def line(self) -> str:
        """Return the shell's command."""
        return self.command or f"{self.env} {WAYS[self.way]}".strip()

    def text(self) -> str:
        if self.script:
            return self.script
        where = "if step == 3:" if self.every else "if step == 3 and rank == 1:"
        lines = textwrap.dedent(self.body).strip()
        fault = "" if lines == "pass" else textwrap.indent(f"{where}\n{textwrap.indent(lines, '    ')}", "    ")
        filled = SCRIPT.format(
            host=self.host,
            top=self.top,
            fault=fault,
            select=self.select,
            init=self.init,
            model=self.model,
            steps=self.steps,
            end=textwrap.indent(self.end, "    "),
        )
        filled = filled.replace("load_batch()\n\n    loss", "load_batch()\n    loss").replace("\n    \n", "\n")
        return re.sub(r"\n+if __name__", "\n\n\nif __name__", filled)

    def label(self) -> dict[str, str]:
        return {} if self.cause == "healthy" else super().label()


def top(text: str) -> str:
    """Return definitions of a script, with an empty line around them."""
    return f"\n{textwrap.dedent(text).strip()}\n"


def single(
    provoked: str,
    cause: str,
    body: str = "pass",
    *,
    shows: str = "",
    says: str = "",
    partly: str = "",
    action: str = "stop",
    above: str = "",
    env: str = "",
    command: str = "",
    model: str = "Classifier().cuda()",
    files: Mapping[str, str] | None = None,
    alone: bool = False,
    typical: float = 9.0,
) -> GpuFault:
    """Return a fault of a script without ranks."""
    return GpuFault(
        provoked=provoked,
        cause=cause,
        body=body,
        shows=shows,
        says=says,
        partly=partly,
        action=action,
        top=above,
        env=env,
        command=command,
        model=model,
        init="rank = 0",
        select="",
        files=files or {},
        alone=alone,
        typical=typical,
        host="",
        end="",
        every=True,
        way="python",
    )


def whole(provoked: str, cause: str, script: str, way: str = "python", **more: str) -> GpuFault:
    """Return a fault in a script of its own. `more`: shows, says, env, command."""
    seconds = 20.0  # frameworks are imported slowly
    return GpuFault(
        provoked=provoked,
        cause=cause,
        script=textwrap.dedent(script).lstrip("\n"),
        way=way,
        every=True,
        typical=seconds,
        shows=more.get("shows", ""),
        says=more.get("says", ""),
        env=more.get("env", ""),
        command=more.get("command", ""),
    )


def healthy(
    provoked: str,
    body: str = "pass",
    *,
    way: str = "torchrun",
    above: str = "",
    env: str = "",
    init: str = INIT,
    end: str = "dist.destroy_process_group()",
    steps: str = "6",
    shows: str = "step 5 loss",
) -> GpuFault:
    """Return a run of two ranks that succeeds."""
    return GpuFault(
        provoked=provoked,
        cause="healthy",
        body=body,
        top=above,
        way=way,
        env=env,
        init=init,
        end=end,
        steps=steps,
        shows=shows,
        every=True,
    )


RESERVE = """
    def reserve_cache():
        blocks, size = [], 1 << 33
        while size >= 1 << 19:
            try:
                blocks.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
            except torch.cuda.OutOfMemoryError:
                size //= 2
        return blocks[:-4]
"""
# A checkpoint of one GPU only can name GPU 1: the name of the device in the file is replaced.
SAVE = """
    import io, pathlib, zipfile

    import torch

    kept = io.BytesIO()
    torch.save({"embed.weight": torch.zeros(1000, 64)}, kept)
    with zipfile.ZipFile(kept) as old, zipfile.ZipFile("last.pt", "w") as new:
        for name in old.namelist():
            text = old.read(name).replace(b"X\\x03\\x00\\x00\\x00cpu", b"X\\x06\\x00\\x00\\x00cuda:1")
            new.writestr(name, text)
"""

MEMORY = {
    "oom-forward": GpuFault(
        provoked="the sequences of rank 1 are so long that its forward pass needs more memory than the GPU has",
        cause="cuda-out-of-memory",
        body="tokens = torch.randint(1000, (32, 40000)).cuda()",
        shows="CUDA out of memory",
    ),
    "oom-forward-ddpkit": GpuFault(
        provoked="the sequences of rank 1 are so long that its forward pass needs more memory than the GPU has",
        cause="cuda-out-of-memory",
        body="tokens = torch.randint(1000, (32, 40000)).cuda()",
        way="ddpkit",
        shows="CUDA out of memory",
    ),
    "oom-backward": GpuFault(
        provoked="the gradient of a table is larger than the GPU of rank 1, and backward() fails",
        cause="cuda-out-of-memory",
        body="""
            position = torch.zeros(1, 64, device="cuda", requires_grad=True)
            hidden = nn.functional.embedding(tokens, position.expand(1 << 29, -1))
            hidden.sum().backward()
        """,
        shows="CUDA out of memory",
    ),
    "oom-other-process": single(
        "another process has all but 1.5 GB of the GPU's memory, and the training needs 2 GB at its start",
        "gpu-memory-taken or cuda-out-of-memory or ranks-on-one-gpu",
        model='nn.Embedding(1 << 23, 64, device="cuda")',
        command="""
            python3 serve.py & until [ -e held ] || [ -e failed ]; do sleep 0.1; done
            python3 train.py; code=$?; touch done; wait; exit $code
        """,
        files={
            "serve.py": """
                import pathlib, time

                import torch

                try:
                    torch.ones(1, device="cuda")
                    free, _ = torch.cuda.mem_get_info()
                    kept = torch.empty(free - (3 << 29), dtype=torch.uint8, device="cuda")
                    pathlib.Path("held").touch()
                finally:
                    pathlib.Path("failed").touch()
                until = time.monotonic() + 40
                while not pathlib.Path("done").exists() and time.monotonic() < until:
                    time.sleep(0.1)
            """
        },
        shows="out of memory",
        alone=True,
    ),
    "cublas-full-gpu": single(
        "the script reserves all of the GPU's memory, and its first matrix product needs some for cuBLAS",
        "cublas-error or cuda-out-of-memory",
        above=top(RESERVE)
        + top("""
            class Cached(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Embedding(1000, 64, device="cuda")
                    self.head = nn.Linear(64, 10, device="cuda")
                    self.embed(torch.zeros(32, 16, dtype=torch.long, device="cuda"))
                    self.cache = reserve_cache()

                def forward(self, tokens):
                    return self.head(self.embed(tokens)[:, 0])
        """),
        model="Cached()",
        shows="CUBLAS_STATUS|out of memory",
        alone=True,
    ),
    "cudnn-full-gpu": single(
        "the script reserves all of the GPU's memory, and its first convolution needs some for cuDNN",
        "cudnn-error or cuda-out-of-memory",
        above=top(RESERVE)
        + top("""
            class Images(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(1, 10, 3, device="cuda")
                    self.images = torch.randn(32, 1, 16, 16, device="cuda")
                    self.cache = reserve_cache()

                def forward(self, tokens):
                    return self.conv(self.images).mean(dim=(2, 3))
        """),
        model="Images()",
        shows="CUDNN|cuDNN|out of memory",
        alone=True,
    ),
    "nccl-full-gpu": GpuFault(
        provoked="rank 0 reserves all of the GPU's memory before NCCL starts",
        cause="nccl-gpu-memory or cuda-out-of-memory or gpu-memory-taken",
        partly="nccl-cuda-failure",
        top=top(RESERVE)
        + top("""
            def with_cache(model, rank):
                if rank == 0:
                    time.sleep(6)
                    model.cache = reserve_cache()
                return model
        """),
        model="DistributedDataParallel(with_cache(Classifier().cuda(), rank), device_ids=[0])",
        env="NCCL_DEBUG=WARN",
        every=True,
        shows="out of memory",
        alone=True,
    ),
    "oom-after-jax": single(
        "jax reserves 75 % of the GPU's memory in the same process, and torch needs 40 GiB",
        "cuda-out-of-memory or gpu-memory-taken",
        """
            scale = jax.numpy.ones((256, 256))
            print("features on", (scale @ scale).devices(), flush=True)
            cache = torch.zeros(40, 1 << 28, device="cuda")
        """,
        above="import jax\nimport jax.numpy\n",
        shows="CUDA out of memory",
        alone=True,
    ),
}

ASSERTS = {
    "assert-embedding": GpuFault(
        provoked="rank 1 has token ids that are not below the size of the embedding",
        cause="device-assert or index-out-of-range",
        body="tokens = tokens + 1000",
        shows="device-side assert",
    ),
    "assert-labels": GpuFault(
        provoked="labels of rank 1 are not below the number of classes",
        cause="device-assert or index-out-of-range",
        body="labels = labels + 10",
        way="ddpkit",
        shows="device-side assert",
    ),
    "assert-index": GpuFault(
        provoked="rank 1 selects row 40 of a batch of 32",
        cause="device-assert or index-out-of-range",
        body="hard = torch.tensor([3, 40], device='cuda')\ntokens, labels = tokens[hard], labels[hard]",
        shows="device-side assert",
    ),
    "assert-gather": single(
        "gather takes classes from 10 to 19, and there are 10",
        "device-assert or index-out-of-range",
        "chosen = model(tokens).gather(1, labels[:, None] + 10)\nprint(chosen.mean().item())",
        shows="device-side assert",
    ),
    "assert-blocking": GpuFault(
        provoked="with CUDA_LAUNCH_BLOCKING=1, labels of rank 1 are not below the number of classes",
        cause="device-assert or index-out-of-range",
        body="labels = labels + 10",
        env="CUDA_LAUNCH_BLOCKING=1",
        shows="device-side assert",
    ),
    "assert-probabilities": single(
        "binary_cross_entropy gets values that are not from 0 to 1",
        "device-assert-values",
        "nn.functional.binary_cross_entropy(model(tokens) * 5, torch.ones(32, 10).cuda()).backward()",
        partly="device-assert",
        shows="device-side assert",
    ),
    "assert-multinomial": single(
        "multinomial gets probabilities that are NaN",
        "device-assert-values or loss-is-nan",
        'chosen = torch.multinomial(torch.full((32, 10), float("nan")).cuda(), 1)\nprint(chosen.tolist())',
        partly="device-assert",
        shows="device-side assert",
    ),
    "illegal-access-triton": GpuFault(
        provoked="a Triton kernel of rank 1 reads and writes far beyond its tensors",
        cause="illegal-memory-access",
        top=top("""
            import triton
            import triton.language as tl


            @triton.jit
            def scale_rows(rows, out, factor, BLOCK: tl.constexpr):
                place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
                tl.store(out + place, tl.load(rows + place) * factor)
        """),
        body="""
            rows = model.module.embed(tokens).detach()
            scale_rows[(1 << 20,)](rows, torch.empty_like(rows), 0.5, BLOCK=1024)
        """,
        typical=18,
        shows="illegal memory access",
    ),
    "illegal-access": single(
        "a CUDA kernel of the script writes beyond its tensor",
        "illegal-memory-access",
        "add_bias(model.embed(tokens).detach(), torch.ones(64).cuda(), 1 << 28)",
        above=top('''
            SOURCE = """
            extern "C" __global__ void add_bias(float* rows, const float* bias, int stride) {
                rows[(long long) threadIdx.x * stride] += bias[threadIdx.x];
            }
            """


            def add_bias(rows, bias, stride):
                kernel = torch.cuda._compile_kernel(SOURCE, "add_bias")
                kernel(grid=(1, 1, 1), block=(64, 1, 1), args=[rows, bias, stride])
        '''),
        env=KERNELS,
        shows="illegal memory access|address space",
    ),
    "misaligned-address": single(
        "a CUDA kernel of the script reads four numbers from an address that is not a multiple of 16",
        "illegal-memory-access",
        "double_rows(model.embed(tokens).detach())",
        above=top('''
            SOURCE = """
            extern "C" __global__ void double_rows(float* rows) {
                float4* quads = (float4*) (rows + 1);
                float4 quad = quads[threadIdx.x];
                quad.x *= 2; quad.y *= 2; quad.z *= 2; quad.w *= 2;
                quads[threadIdx.x] = quad;
            }
            """


            def double_rows(rows):
                kernel = torch.cuda._compile_kernel(SOURCE, "double_rows")
                kernel(grid=(1, 1, 1), block=(64, 1, 1), args=[rows])
        '''),
        env=KERNELS,
        shows="misaligned address",
    ),
    "illegal-access-cupy": single(
        "a CuPy kernel writes beyond its array",
        "illegal-memory-access",
        """
            weights = cupy.ones(64, dtype=cupy.float32)
            fill((1,), (64,), (weights, cupy.int64(1 << 28)))
            tokens = tokens * int(weights.sum())
        """,
        above=top("""
            import cupy

            fill = cupy.RawKernel(
                'extern "C" __global__ void fill(float* out, long long stride) { out[threadIdx.x * stride] = 1; }', "fill"
            )
        """),
        typical=14,
        shows="illegal memory access|ILLEGAL_ADDRESS",
    ),
    "no-kernel-image": single(
        "a CUDA kernel of the script was compiled for a newer GPU",
        "no-kernel-image",
        "double_rows(model.embed(tokens).detach())",
        above=top('''
            SOURCE = """
            extern "C" __global__ void double_rows(float* rows) {
                rows[threadIdx.x] *= 2;
            }
            """


            def double_rows(rows):
                kernel = torch.cuda._compile_kernel(SOURCE, "double_rows", compute_capability="100")
                kernel(grid=(1, 1, 1), block=(64, 1, 1), args=[rows])
        '''),
        env=KERNELS,
        shows="kernel image|PTX",
    ),
    "triton-shared-memory": single(
        "a Triton kernel needs more shared memory than the GPU has",
        "triton-resources",
        """
            left = torch.randn(512, 512, device="cuda", dtype=torch.float16)
            out = torch.empty_like(left)
            product[(2, 2)](left, left, out, 512, M=256, N=256, K=128, num_stages=4, num_warps=8)
            print("product", out.float().mean().item(), flush=True)
        """,
        above=top("""
            import triton
            import triton.language as tl


            @triton.jit
            def product(left, right, out, size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
                row = tl.program_id(0) * M + tl.arange(0, M)
                column = tl.program_id(1) * N + tl.arange(0, N)
                total = tl.zeros((M, N), dtype=tl.float32)
                for start in range(0, size, K):
                    inner = start + tl.arange(0, K)
                    part = tl.load(left + row[:, None] * size + inner[None, :])
                    other = tl.load(right + inner[:, None] * size + column[None, :])
                    total += tl.dot(part, other)
                tl.store(out + row[:, None] * size + column[None, :], total.to(tl.float16))
        """),
        typical=20,
        shows="out of resource|OutOfResources",
    ),
}

SLEEP = 'print("rank 1: reads shard 7 again", flush=True)\ntime.sleep(100)'
WAITED = "collective-timeout or silent-hang or slow-rank or desync"
COLLECTIVES = {
    "watchdog-sleep": GpuFault(
        provoked="rank 1 works 100 s, and rank 0 waits 10 s for it in NCCL",
        cause=WAITED,
        partly="watchdog-ends-process or watchdog-stuck",
        init=SHORT,
        body=SLEEP,
        env=QUICK,
        action="retry",
        typical=30,
        limit=90,
        shows="Watchdog caught collective operation timeout",
    ),
    "watchdog-sleep-ddpkit": GpuFault(
        provoked="rank 1 works 100 s, and rank 0 waits 10 s for it in NCCL",
        cause=WAITED,
        partly="watchdog-ends-process or watchdog-stuck",
        init=SHORT,
        body=SLEEP,
        env=QUICK,
        way="ddpkit",
        action="retry",
        typical=30,
        limit=90,
        shows="Watchdog caught collective operation timeout",
    ),
    "watchdog-default": GpuFault(
        provoked="rank 1 works 200 s, rank 0 waits 10 s for it in NCCL, and torch waits a minute for its own report",
        cause=WAITED,
        partly="watchdog-ends-process or watchdog-stuck",
        init=SHORT,
        body="time.sleep(200)",
        action="retry",
        typical=99,
        limit=125,
        shows="Watchdog caught collective operation timeout",
    ),
    "fewer-batches-ends": GpuFault(
        provoked="rank 1 has two batches less than rank 0, and ends",
        cause=f"{WAITED} or peer-died or nccl-remote or collectives-out-of-step",
        partly="watchdog-ends-process or watchdog-stuck or nccl-error",
        init=SHORT,
        steps="6 - 2 * rank",
        end='dist.destroy_process_group()\nprint(f"rank {rank}: complete", flush=True)',
        env=QUICK,
        typical=29,
        limit=90,
        shows="rank 1: complete",
    ),
    "fewer-batches-evaluates": GpuFault(
        provoked="rank 1 has two batches less than rank 0, and evaluates for 100 s while rank 0 waits in NCCL",
        cause=f"{WAITED} or collectives-out-of-step",
        partly="watchdog-ends-process or watchdog-stuck",
        init=SHORT,
        top=top("""
            def evaluate(rank):
                print(f"rank {rank}: evaluates", flush=True)
                time.sleep(100)
        """),
        steps="6 - 2 * rank",
        end="evaluate(rank)\ndist.destroy_process_group()",
        env=QUICK,
        action="stop or retry",
        typical=29,
        limit=90,
        shows="Watchdog caught collective operation timeout",
    ),
    "order-differs": GpuFault(
        provoked="rank 1 broadcasts while rank 0 reduces",
        cause="collectives-out-of-step or collective-mismatch or collectives-mismatch or collective-timeout",
        partly="watchdog-ends-process or desync or nccl-sizes-differ",
        init=SHORT,
        body="""
            weights = torch.ones(1 << 22, device="cuda")
            if rank == 0:
                dist.all_reduce(weights)
            else:
                dist.broadcast(weights, 1)
        """,
        env=QUICK,
        every=True,
        typical=28,
        limit=90,
        shows="(?s)step 2 loss.*(?:NCCL|Watchdog)",
    ),
    "sizes-differ": GpuFault(
        provoked="rank 1 reduces half as many numbers as rank 0",
        cause="nccl-sizes-differ or collective-mismatch or collectives-mismatch or collectives-out-of-step or collective-timeout",
        partly="watchdog-ends-process or desync or nccl-error or nccl-remote",
        init=SHORT,
        body='dist.all_reduce(torch.ones((1 << 22) // (1 + rank), device="cuda"))',
        env=f"NCCL_DEBUG=WARN {QUICK}",
        every=True,
        typical=28,
        limit=90,
        shows="(?s)step 2 loss.*(?:NCCL|Watchdog)",
    ),
    "sizes-differ-detail": GpuFault(
        provoked="with TORCH_DISTRIBUTED_DEBUG=DETAIL, rank 1 reduces 5 numbers and rank 0 reduces 4",
        cause="collectives-mismatch or collective-mismatch",
        body='dist.all_reduce(torch.ones(4 + rank, device="cuda"))',
        env="TORCH_DISTRIBUTED_DEBUG=DETAIL",
        every=True,
        typical=16,
        shows="[Mm]ismatch",
    ),
    "cpu-tensor": GpuFault(
        provoked="all ranks reduce a tensor on the CPU with NCCL",
        cause="no-backend-for-device",
        body="total = torch.tensor(0.5)\ndist.all_reduce(total)",
        every=True,
        shows="No backend type",
    ),
    "int16": GpuFault(
        provoked="all ranks reduce a tensor of a type that NCCL does not have",
        cause="collective-unsupported",
        body='dist.all_reduce(torch.ones(4, dtype=torch.int16, device="cuda"))',
        every=True,
        shows="not supported|Unconvertible",
    ),
    "not-contiguous": GpuFault(
        provoked="all ranks reduce a transposed tensor",
        cause="collective-arguments",
        body='dist.all_reduce(torch.ones(4, 6, device="cuda").t())',
        every=True,
        shows="contiguous",
    ),
    "gather-size": GpuFault(
        provoked="the output of all_gather_into_tensor has room for one rank of two",
        cause="collective-sizes",
        body="found = torch.empty(32, 10).cuda()\ndist.all_gather_into_tensor(found, model(tokens).detach())",
        every=True,
        shows="output tensor",
    ),
    "store-unreachable": GpuFault(
        provoked="the script sets an address for rank 1 at which no machine is",
        cause="master-unreachable or connection-timed-out",
        partly="store-wait or ranks-missing or rendezvous-timeout",
        host=HOST
        + 'if os.environ["RANK"] == "1":\n    os.environ.update(MASTER_ADDR="10.255.255.1", TORCHELASTIC_USE_AGENT_STORE="False")\n',
        init='wait = datetime.timedelta(seconds=10 if os.environ["RANK"] == "1" else 40)\n'
        '    dist.init_process_group("nccl", timeout=wait)\n    rank = dist.get_rank()',
        action="stop or retry",
        typical=24,
        limit=80,
        shows="10\\.255\\.255\\.1",
    ),
}

DEATHS = {
    "value-error": GpuFault(
        provoked="rank 1 raises ValueError while rank 0 waits in NCCL",
        cause="own-exception",
        body='raise ValueError(f"bad label 17 in batch {step}")',
        says="bad label 17",
        shows="bad label 17",
    ),
    "value-error-ddpkit": GpuFault(
        provoked="rank 1 raises ValueError while rank 0 waits in NCCL",
        cause="own-exception",
        body='raise ValueError(f"bad label 17 in batch {step}")',
        says="bad label 17",
        way="ddpkit",
        shows="bad label 17",
    ),
    "sigkill": GpuFault(
        provoked="rank 1 is killed with SIGKILL while rank 0 waits in NCCL",
        cause="killed or host-out-of-memory",
        body="import signal\n\nos.kill(os.getpid(), signal.SIGKILL)",
        action="retry",
        shows="SIGKILL|-9|137",
    ),
    "sigkill-ddpkit": GpuFault(
        provoked="rank 1 is killed with SIGKILL while rank 0 waits in NCCL",
        cause="killed or host-out-of-memory",
        body="import signal\n\nos.kill(os.getpid(), signal.SIGKILL)",
        action="retry",
        way="ddpkit",
        shows="SIGKILL|-9|137",
    ),
    "exit-3": GpuFault(
        provoked="rank 1 calls sys.exit(3) without a text",
        cause="not-in-log",
        body="sys.exit(3)",
        action="retry",
        shows="3",
    ),
    "segfault": GpuFault(
        provoked="rank 1 reads address 0 in C code",
        cause="segfault",
        body="import ctypes\n\nctypes.string_at(0)",
        action="retry",
        shows="SIGSEGV|-11|139",
    ),
    "segfault-ddpkit": GpuFault(
        provoked="rank 1 reads address 0 in C code",
        cause="segfault",
        body="import ctypes\n\nctypes.string_at(0)",
        action="retry",
        way="ddpkit",
        shows="SIGSEGV|-11|139",
    ),
}

DEVICES = {
    "duplicate": GpuFault(
        provoked="two ranks use one GPU of one host",
        cause="duplicate-gpu",
        host="",
        every=True,
        shows="[Dd]uplicate|same CUDA device|same GPU",
    ),
    "duplicate-warn": GpuFault(
        provoked="two ranks use one GPU of one host, with NCCL_DEBUG=WARN",
        cause="duplicate-gpu",
        host="",
        env="NCCL_DEBUG=WARN",
        every=True,
        shows="[Dd]uplicate|same CUDA device|same GPU",
    ),
    "duplicate-ddpkit": GpuFault(
        provoked="two ranks use one GPU of one host",
        cause="duplicate-gpu",
        host="",
        way="ddpkit",
        every=True,
        shows="[Dd]uplicate|same CUDA device|same GPU",
    ),
    "local-rank": GpuFault(
        provoked="two ranks run on a host with one GPU, and rank 1 selects GPU 1",
        cause="invalid-device-ordinal or more-gpus-asked",
        select='torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
        shows="invalid device ordinal",
    ),
    "none-visible": single(
        "CUDA_VISIBLE_DEVICES is empty, and the script calls .cuda()",
        "no-cuda-gpus",
        env="CUDA_VISIBLE_DEVICES=",
        shows="No CUDA GPUs|no CUDA-capable device",
        typical=7,
    ),
    "visible-3": GpuFault(
        provoked="CUDA_VISIBLE_DEVICES=3 on a host with one GPU",
        cause="no-cuda-gpus or invalid-device-ordinal",
        env="CUDA_VISIBLE_DEVICES=3",
        every=True,
        shows="No CUDA GPUs|invalid device|no CUDA-capable device",
    ),
    "devices-mixed": GpuFault(
        provoked="rank 1 gives a tensor on the CPU to a model on the GPU",
        cause="devices-differ",
        body="tokens = tokens.cpu()",
        model="DistributedDataParallel(Classifier().cuda())",
        shows="on the same device",
    ),
    "numpy": GpuFault(
        provoked="rank 1 converts a tensor on the GPU to NumPy",
        cause="tensor-to-numpy",
        body='print("labels", labels.numpy())',
        shows="to numpy",
    ),
    "fork-worker": GpuFault(
        provoked="the data set of rank 1 uses the GPU in a forked DataLoader worker",
        cause="cuda-after-fork",
        top=top("""
            class Lines(torch.utils.data.Dataset):
                def __len__(self):
                    return 8

                def __getitem__(self, index):
                    return torch.randint(1000, (16,)).cuda()
        """),
        body="""
            loader = torch.utils.data.DataLoader(Lines(), batch_size=4, num_workers=2, multiprocessing_context="fork")
            for tokens in loader:
                pass
        """,
        shows="Cannot re-initialize CUDA",
    ),
    "checkpoint-other-gpu": single(
        "the checkpoint was saved from GPU 1, and the host has one GPU",
        "checkpoint-device",
        above=top("""
            def restored(model):
                model.load_state_dict(torch.load("last.pt"), strict=False)
                return model
        """),
        model="restored(Classifier()).cuda()",
        files={"save.py": SAVE},
        command="python3 save.py && python3 train.py",
        shows="CUDA device 1|map_location",
    ),
    "checkpoint-no-gpu": single(
        "the checkpoint was saved from a GPU, and no GPU is visible",
        "checkpoint-device or no-cuda-gpus",
        above=top("""
            def restored(model):
                model.load_state_dict(torch.load("last.pt"), strict=False)
                return model
        """),
        model="restored(Classifier()).cuda()",
        files={"save.py": SAVE},
        command="python3 save.py && CUDA_VISIBLE_DEVICES= python3 train.py",
        shows="is_available\\(\\) is False",
    ),
    "pin-cuda": single(
        "a DataLoader with pin_memory=True has a data set on the GPU",
        "any",
        "for (tokens,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), pin_memory=True):\n    pass",
        says="cannot pin",
        shows="cannot pin",
    ),
    "graph-capture": single(
        "the script prints a loss while a CUDA graph is recorded",
        "cudagraph-capture",
        """
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = cross_entropy(model(tokens), labels)
                print(f"captured, loss {loss.item():.4f}")
        """,
        shows="captur",
    ),
}

MODELS = {
    "dtypes": GpuFault(
        provoked="rank 1 gives half precision to a layer of float",
        cause="dtypes-differ",
        body="model.module.head(torch.randn(32, 64).cuda().half())",
        way="ddpkit",
        shows="same dtype|dtype",
    ),
    "unused-parameters": GpuFault(
        provoked="a layer of the model gets no gradient",
        cause="ddp-unused-parameters",
        top=top("""
            class Two(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Embedding(1000, 10)
                    self.unused = nn.Linear(10, 10)

                def forward(self, tokens):
                    return self.embed(tokens).mean(dim=1)
        """),
        model="DistributedDataParallel(Two().cuda(), device_ids=[0])",
        every=True,
        shows="Expected to have finished reduction",
    ),
    "model-differs": GpuFault(
        provoked="the model of rank 1 has another number of classes",
        cause="ddp-model-differs",
        model="DistributedDataParallel(Classifier(10 + rank).cuda(), device_ids=[0])",
        way="ddpkit",
        every=True,
        shows="appears not to match|inconsistent",
    ),
    "model-on-cpu": GpuFault(
        provoked="DDP with device_ids wraps a model that is on the CPU",
        cause="ddp-model-device",
        model="DistributedDataParallel(Classifier(), device_ids=[0])",
        every=True,
        shows="device_ids",
    ),
    "scaler-twice": single(
        "unscale_ is called twice in one step",
        "scaler-order",
        """
            scaler = torch.amp.GradScaler("cuda")
            scaler.scale(cross_entropy(model(tokens), labels)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.unscale_(optimizer)
        """,
        shows="unscale_",
    ),
    "scaler-without-scale": single(
        "the scaler steps, and no loss was scaled",
        "any",
        """
            scaler = torch.amp.GradScaler("cuda")
            cross_entropy(model(tokens), labels).backward()
            scaler.step(optimizer)
        """,
        says="_scale is None|No inf checks",
        shows="_scale is None|No inf checks",
    ),
    "nan-anomaly": GpuFault(
        provoked="anomaly detection finds a NaN on rank 1",
        cause="loss-is-nan",
        body="""
            with torch.autograd.set_detect_anomaly(True):
                weights = torch.zeros(3, device="cuda", requires_grad=True)
                (weights.sqrt() * 0 / weights).sum().backward()
        """,
        shows="nan values",
    ),
    "compile-no-compiler": single(
        "torch.compile on a host without the C compiler that CC names",
        "compile-failed",
        model="torch.compile(Classifier().cuda())",
        env=f"CC=/nonexistent/gcc {FRESH}",
        typical=22,
        shows="/nonexistent/gcc|C compiler",
    ),
    "compile-shapes": single(
        "the input of a compiled layer has another width",
        "shapes-differ",
        "torch.compile(model.head)(torch.randn(32, 63).cuda())",
        partly="compile-unsupported or compile-failed",
        typical=14,
        shows="reduction dim|cannot be multiplied",
    ),
}

NETWORK = {
    "no-interface": GpuFault(
        provoked="NCCL_SOCKET_IFNAME names an interface that does not exist",
        cause="nccl-no-interface or nccl-interface-missing",
        env="NCCL_SOCKET_IFNAME=eth9",
        every=True,
        shows="NCCL",
    ),
    "no-interface-warn": GpuFault(
        provoked="NCCL_SOCKET_IFNAME names an interface that does not exist, with NCCL_DEBUG=WARN",
        cause="nccl-no-interface or nccl-interface-missing",
        env="NCCL_DEBUG=WARN NCCL_SOCKET_IFNAME=eth9",
        every=True,
        shows="no socket interface found",
    ),
    "net-ib": GpuFault(
        provoked="NCCL_NET=IB on a host without InfiniBand",
        cause="nccl-net-not-found",
        env="NCCL_DEBUG=WARN NCCL_NET=IB",
        every=True,
        shows="NCCL",
    ),
    "net-ib-quiet": GpuFault(
        provoked="NCCL_NET=IB on a host without InfiniBand, without NCCL_DEBUG",
        cause="nccl-net-not-found or nccl-error",
        env="NCCL_NET=IB",
        every=True,
        shows="NCCL",
    ),
}

ACCELERATE = """
import torch
from accelerate import Accelerator
from torch import nn


def main():
    accelerator = Accelerator()
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.TensorDataset(torch.randn(256, 256), torch.randint(10, (256,)))
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, (features, labels) in enumerate(loader):
        FAULT
        loss = nn.functional.cross_entropy(model(features), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.4f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
"""
LIGHTNING = """
import lightning
import torch
from lightning.fabric.plugins.environments import LightningEnvironment
from torch import nn


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))

    def training_step(self, batch, step):
        features, labels = batch
        FAULT
        loss = nn.functional.cross_entropy(self.layers(features), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    data = torch.utils.data.TensorDataset(torch.randn(256, 256), torch.randint(10, (256,)))
    loader = torch.utils.data.DataLoader(data, batch_size=32)
    trainer = lightning.Trainer(
        accelerator="gpu", devices=DEVICES, max_epochs=1, logger=False, enable_checkpointing=False, plugins=PLUGINS
    )
    trainer.fit(Classifier(), loader)
    print("training complete", flush=True)


if __name__ == "__main__":
    main()
"""
TRANSFORMERS = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

config = GPT2Config(vocab_size=VOCABULARY, n_positions=512, n_embd=8, n_layer=1, n_head=1)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        tokens = torch.randint(500, (LENGTH,))
        return {"input_ids": tokens, "labels": LABELS}


def main():
    arguments = TrainingArguments(
        "out", max_steps=6, per_device_train_batch_size=BATCH, report_to="none", save_strategy="no", logging_steps=1
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=arguments, train_dataset=Texts())
    trainer.train()


if __name__ == "__main__":
    main()
"""


def filled(script: str, **parts: str) -> str:
    """Return a framework's script with its parts."""
    for name, text in parts.items():
        script = script.replace(name, text)
    return script.replace("        FAULT\n", "").replace("PLUGINS", "None")


def trainer(vocabulary: int, length: int, batch: int, labels: str = "tokens") -> str:
    numbers = {"VOCABULARY": f"{vocabulary}", "LENGTH": f"{length}", "BATCH": f"{batch}"}
    return filled(TRANSFORMERS, **numbers, LABELS=labels)


MORE_GPUS = "invalid-device-ordinal or more-gpus-asked"
MANY = "if step == 3:\n            features = features[:1].expand(1 << 28, -1)"
FRAMEWORKS = {
    "accelerate-two": whole(
        "accelerate launch --multi_gpu --num_processes 2 on a host with one GPU",
        f"{MORE_GPUS} or duplicate-gpu",
        filled(ACCELERATE),
        command="accelerate launch --multi_gpu --num_processes 2 --main_process_port 29611 train.py",
        shows="ordinal|[Dd]uplicate|GPU",
    ),
    "accelerate-torchrun-two": whole(
        "torchrun starts two ranks of an Accelerate script on a host with one GPU",
        f"{MORE_GPUS} or duplicate-gpu",
        filled(ACCELERATE),
        "torchrun",
        shows="ordinal|[Dd]uplicate|GPU",
    ),
    "accelerate-oom": whole(
        "a batch of an Accelerate script in fp16 is larger than the GPU",
        "cuda-out-of-memory",
        filled(ACCELERATE, FAULT=MANY),
        command="accelerate launch --num_processes 1 --mixed_precision fp16 train.py",
        shows="out of memory",
    ),
    "lightning-two": whole(
        "Lightning's Trainer asks for two GPUs of a host with one",
        MORE_GPUS,
        filled(LIGHTNING, DEVICES="2"),
        shows="machine only has|ordinal",
    ),
    "lightning-torchrun-two": whole(
        "torchrun starts two ranks of a Lightning script on a host with one GPU",
        MORE_GPUS,
        filled(LIGHTNING, DEVICES="2"),
        "torchrun",
        shows="machine only has|ordinal|Invalid device id",
    ),
    "lightning-mpi": whole(
        "Lightning finds mpi4py and starts Open MPI, on a host without ssh",
        "mpi-no-ssh-client",
        filled(LIGHTNING, DEVICES="1"),
        shows="MPI_INIT failed",
    ),
    "lightning-oom": whole(
        "a batch of a Lightning script is larger than the GPU",
        "cuda-out-of-memory",
        filled(LIGHTNING, DEVICES="1", FAULT=MANY.replace("28", "29"), PLUGINS="[LightningEnvironment()]"),
        shows="out of memory",
    ),
    "transformers-labels": whole(
        "labels of a transformers Trainer are not below the size of the vocabulary",
        "device-assert or index-out-of-range",
        trainer(500, 32, 8, "tokens + 400"),
        shows="device-side assert",
    ),
    "transformers-oom": whole(
        "the logits of a transformers Trainer are larger than the GPU",
        "cuda-out-of-memory",
        trainer(400000, 256, 512),
        shows="out of memory",
    ),
    "transformers-torchrun-two": whole(
        "torchrun starts two ranks of a transformers Trainer on a host with one GPU",
        f"{MORE_GPUS} or duplicate-gpu",
        trainer(500, 32, 8),
        "torchrun",
        shows="ordinal|[Dd]uplicate|GPU",
    ),
}

HEALTHY = {
    "healthy-nccl-info": healthy("a training of two ranks with NCCL_DEBUG=INFO", env="NCCL_DEBUG=INFO"),
    "healthy-nccl-info-ddpkit": healthy(
        "a training of two ranks under ddpkit with NCCL_DEBUG=INFO", env="NCCL_DEBUG=INFO", way="ddpkit"
    ),
    "healthy-detail": healthy(
        "a training of two ranks with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL",
        env="NCCL_DEBUG=INFO TORCH_DISTRIBUTED_DEBUG=DETAIL",
    ),
    "healthy-net-plugin": healthy(
        "NCCL_NET_PLUGIN names a plugin that does not exist, and NCCL uses its own sockets",
        env="NCCL_DEBUG=INFO NCCL_NET_PLUGIN=nonexistent",
    ),
    "healthy-no-destroy": healthy("the script does not call destroy_process_group", end=""),
    "healthy-barrier": healthy("the script calls barrier() without device_ids", init=f"{INIT}\n    dist.barrier()"),
    "healthy-amp-overflow": healthy(
        "a step of mixed precision overflows, and the scaler skips it",
        """
            scaler = torch.amp.GradScaler("cuda")
            with torch.autocast("cuda", dtype=torch.float16):
                overflow = cross_entropy(model(tokens), labels) * 1e38
            scaler.scale(overflow).backward()
            scaler.step(optimizer)
            scaler.update()
            print(f"overflow: step skipped, scale now {scaler.get_scale()}", flush=True)
        """,
    ),
    "healthy-deterministic": healthy(
        "deterministic algorithms with warn_only, and an operation that has none",
        'print("ages", torch.histc(torch.rand(64, device="cuda"), bins=4).tolist())',
        init=f"{INIT}\n    torch.use_deterministic_algorithms(True, warn_only=True)",
    ),
    "healthy-expandable": healthy(
        "a training with expandable_segments", env="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    ),
    "healthy-caught-oom": healthy(
        "the script catches that the GPU's memory is full, and trains with a smaller batch",
        """
            batch = 1 << 31
            while True:
                try:
                    features = torch.empty(batch, 64, device="cuda")
                    break
                except torch.cuda.OutOfMemoryError as error:
                    print(f"rank {rank}: a batch of {batch} does not fit ({error}), trying a smaller one", flush=True)
                    batch //= 1024
        """,
        steps="12",
        shows="does not fit",
    ),
    "healthy-workers": healthy(
        "a DataLoader has more workers than the machine has cores",
        """
            lines = torch.utils.data.TensorDataset(torch.randint(1000, (64, 16)))
            for (tokens,) in torch.utils.data.DataLoader(lines, batch_size=32, num_workers=os.cpu_count() + 1):
                tokens = tokens.cuda()
        """,
    ),
    "healthy-compile": whole(
        "torch.compile breaks a graph and compiles one function often, with the warnings of both",
        "healthy",
        """
        import torch


        @torch.compile
        def score(features, kind):
            total = features * 2 + len(kind)
            torch._dynamo.graph_break()
            return total.relu().sum()


        def main():
            features = torch.randn(64, 64, device="cuda")
            for step in range(10):
                print(f"step {step} score {score(features, f'kind {step}').item():.2f}", flush=True)


        if __name__ == "__main__":
            main()
        """,
        env="TORCH_LOGS=graph_breaks,recompiles",
        shows="step 9 score",
    ),
    "healthy-lightning": whole(
        "a training with Lightning on one GPU",
        "healthy",
        filled(LIGHTNING, DEVICES="1", PLUGINS="[LightningEnvironment()]"),
        shows="training complete",
    ),
    "healthy-accelerate": whole(
        "a training with accelerate launch on one GPU",
        "healthy",
        filled(ACCELERATE),
        "accelerate",
        shows="step 7 loss",
    ),
}

TABLES = (MEMORY, ASSERTS, COLLECTIVES, DEATHS, DEVICES, MODELS, NETWORK, FRAMEWORKS, HEALTHY)
FAULTS: dict[str, GpuFault] = {f"gpu/{name}": fault for table in TABLES for name, fault in table.items()}

EXTRA = """
    assert-gather assert-multinomial assert-blocking duplicate-warn net-ib-quiet no-interface segfault-ddpkit
    transformers-oom transformers-torchrun-two accelerate-torchrun-two lightning-torchrun-two healthy-nccl-info-ddpkit
    healthy-net-plugin compile-shapes misaligned-address not-contiguous gather-size
""".split()
assert {f"gpu/{name}" for name in EXTRA} <= set(FAULTS)


def record(scene: Scene, fault: GpuFault) -> str:
    scene.write("train.py", fault.text())
    for name, text in fault.files.items():
        scene.write(name, text)
    return scene.run(textwrap.dedent(fault.line).strip(), seconds=fault.limit)


def _add(name: str, fault: GpuFault) -> None:
    add(name, lambda scene: record(scene, fault), fault.provoked, fault.cause, **fault.label())


for _name, _fault in FAULTS.items():
    _add(_name, _fault)
