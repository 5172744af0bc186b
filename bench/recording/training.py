"""Faults in a training script, under several launchers."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from recording.scene import Scene, add

SCRIPT = """\
import datetime, os, sys, time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
{top}

def train_step(model, optimizer, step, rank):
{fault}
    loss = model(torch.randn(16, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    {init}
    rank = dist.get_rank()
    model = {model}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        loss = train_step(model, optimizer, step, rank)
        if rank == 0:
            print(f"step {{step}} loss {{loss:.4f}}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
INIT = 'dist.init_process_group("gloo")'
MODEL = "DistributedDataParallel(torch.nn.Linear(8, 4))"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of a script. `body` runs in step 3 of rank 1, or `every` where all ranks do it."""

    provoked: str
    cause: str
    body: str = "pass"
    first: str = ""  # before the imports
    top: str = ""
    init: str = INIT
    model: str = MODEL
    every: bool = False
    says: str = ""
    partly: str = ""
    action: str = "stop"

    def text(self) -> str:
        where = "if step == 3:" if self.every else "if step == 3 and rank == 1:"
        body = textwrap.indent(f"{where}\n{textwrap.indent(textwrap.dedent(self.body).strip(), '    ')}", "    ")
        return SCRIPT.format(first=self.first, top=self.top, fault=body, init=self.init, model=self.model)

    def label(self) -> dict[str, str]:
        kept = {key: getattr(self, key) for key in ("says", "partly", "action") if getattr(self, key)}
        return kept if self.every else {**kept, "rank": "1"}


FAULTS = {
    "value-error": Fault(
        provoked="rank 1 raises ValueError in step 3",
        cause="own-exception",
        body='raise ValueError(f"bad label 17 in batch {step}")',
        says="bad label 17",
    ),
    "key-error": Fault(
        provoked="rank 1 reads a key that its dictionary does not have",
        cause="own-exception",
        body='sample = {"image": 1}\nprint(sample["mask"])',
        says="KeyError: 'mask'",
    ),
    "chained": Fault(
        provoked="rank 1 raises RuntimeError from a ZeroDivisionError",
        cause="own-exception",
        body="""
            try:
                ratio = step / 0
            except ZeroDivisionError as error:
                raise RuntimeError("cannot normalise the batch") from error
        """,
        says="ZeroDivisionError|cannot normalise",
    ),
    "assert": Fault(
        provoked="an assertion of the script fails on rank 1",
        cause="own-exception",
        body='assert step % 2 == 0, f"odd step {step}"',
        says="odd step 3",
    ),
    "sigkill": Fault(
        provoked="rank 1 is killed with SIGKILL, as the kernel or a user does",
        cause="killed or host-out-of-memory",
        body="import signal\nos.kill(os.getpid(), signal.SIGKILL)",
        action="retry",
    ),
    "segfault": Fault(
        provoked="rank 1 reads address 0 in C code",
        cause="segfault",
        body="import ctypes\nctypes.string_at(0)",
        action="retry",
    ),
    "abort": Fault(provoked="rank 1 calls abort()", cause="aborted", body="os.abort()", action="retry"),
    "fpe": Fault(
        provoked="rank 1 gets SIGFPE",
        cause="floating-point-exception",
        body="import signal\nos.kill(os.getpid(), signal.SIGFPE)",
        action="retry",
    ),
    "exit-3": Fault(
        provoked="rank 1 calls sys.exit(3) without a text",
        cause="not-in-log",
        body="sys.exit(3)",
        action="retry",
    ),
    "worker-exception": Fault(
        provoked="the data set of rank 1 raises IndexError in a DataLoader worker",
        cause="own-exception",
        top=textwrap.dedent("""
            class Lines(torch.utils.data.Dataset):
                def __len__(self):
                    return 8

                def __getitem__(self, index):
                    fields = ["a"] if index == 5 else ["a", "b"]
                    return len(fields[1])
        """),
        body="for batch in torch.utils.data.DataLoader(Lines(), batch_size=2, num_workers=2):\n    pass",
        says="IndexError",
    ),
    "worker-killed": Fault(
        provoked="a DataLoader worker of rank 1 is killed with SIGKILL",
        cause="dataloader-worker-died or killed or host-out-of-memory",
        top=textwrap.dedent("""
            class Lines(torch.utils.data.Dataset):
                def __len__(self):
                    return 8

                def __getitem__(self, index):
                    if index == 5:
                        os.kill(os.getpid(), 9)
                    return index
        """),
        body="for batch in torch.utils.data.DataLoader(Lines(), batch_size=2, num_workers=2):\n    pass",
        action="retry",
    ),
    "data-missing": Fault(
        provoked="the data file does not exist",
        cause="file-missing",
        body='open("/data/imagenet/train.idx").read()',
    ),
    "shapes": Fault(
        provoked="rank 1 multiplies matrices whose shapes do not fit",
        cause="shapes-differ",
        body="model(torch.randn(16, 9))",
    ),
    "dtypes": Fault(
        provoked="rank 1 gives half precision to a layer of float",
        cause="dtypes-differ",
        body="model(torch.randn(16, 8).half())",
    ),
    "checkpoint-cut": Fault(
        provoked="rank 1 loads a checkpoint that was cut off in the middle",
        cause="checkpoint-broken",
        body="""
            torch.save(model.state_dict(), "last.pt")
            data = open("last.pt", "rb").read()
            open("last.pt", "wb").write(data[: len(data) // 2])
            torch.load("last.pt")
        """,
    ),
    "checkpoint-other-model": Fault(
        provoked="all ranks load the checkpoint of another model",
        cause="checkpoint-mismatch",
        body='model.load_state_dict({"module.weight": torch.zeros(3, 8), "head.bias": torch.zeros(2)})',
        every=True,
    ),
    "checkpoint-pickled": Fault(
        provoked="rank 1 loads a checkpoint that holds a whole object",
        cause="checkpoint-unsafe",
        body="""
            import argparse
            torch.save({"args": argparse.Namespace(lr=1)}, "last.pt")
            torch.load("last.pt")
        """,
    ),
    "collective-size": Fault(
        provoked="rank 1 reduces 5 numbers, and rank 0 reduces 4",
        cause="gloo-size-mismatch or collectives-mismatch",
        body="dist.all_reduce(torch.ones(4 + rank))",
        every=True,
    ),
    "collective-order": Fault(
        provoked="with TORCH_DISTRIBUTED_DEBUG=DETAIL, rank 0 reduces and rank 1 broadcasts",
        cause="collectives-mismatch",
        first='import os\nos.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"\n',
        init='dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=9))',
        body="""
            if rank == 0:
                dist.all_reduce(torch.ones(4))
            else:
                dist.broadcast(torch.ones(4), 0)
        """,
        every=True,
    ),
    "barrier-too-few": Fault(
        provoked="rank 1 never reaches the monitored barrier, which waits 5 s",
        cause="monitored-barrier",
        body="""
            if rank == 0:
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=5), wait_all_ranks=True)
            else:
                time.sleep(20)
        """,
        every=True,
        action="retry",
    ),
    "slow-rank": Fault(
        provoked="rank 1 works 25 s, and rank 0 waits 6 s for it in all_reduce",
        cause="gloo-timeout",
        init='dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))',
        body="time.sleep(25)",
        action="retry",
    ),
    "unused-parameters": Fault(
        provoked="a layer of the model gets no gradient",
        cause="ddp-unused-parameters",
        top=textwrap.dedent("""
            class Two(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.used, self.unused = torch.nn.Linear(8, 4), torch.nn.Linear(8, 4)

                def forward(self, x):
                    return self.used(x)
        """),
        model="DistributedDataParallel(Two())",
        every=True,
    ),
    "model-differs": Fault(
        provoked="the model of rank 1 has another shape",
        cause="ddp-model-differs",
        model="DistributedDataParallel(torch.nn.Linear(8, 4 + rank))",
        every=True,
    ),
    "inplace": Fault(
        provoked="rank 1 changes a tensor in place that the gradient needs",
        cause="inplace-modified",
        body="a = torch.ones(3, requires_grad=True)\nb = a.exp()\nb += 1\nb.sum().backward()",
    ),
    "backward-twice": Fault(
        provoked="rank 1 calls backward twice on one graph",
        cause="backward-twice",
        body="a = torch.ones(3, requires_grad=True)\nb = a.exp().sum()\nb.backward()\nb.backward()",
    ),
    "no-grad": Fault(
        provoked="rank 1 calls backward on a tensor without gradient",
        cause="no-grad",
        body="with torch.no_grad():\n    out = model.module(torch.randn(2, 8)).sum()\nout.backward()",
    ),
    "devices": Fault(
        provoked="rank 1 adds tensors of the devices cpu and meta",
        cause="devices-differ",
        body='torch.ones(3, device="meta") @ torch.ones(3)',
    ),
    "nan": Fault(
        provoked="anomaly detection finds a NaN on rank 1",
        cause="loss-is-nan",
        body="""
            with torch.autograd.set_detect_anomaly(True):
                a = torch.zeros(3, requires_grad=True)
                (a.sqrt() * 0 / a).sum().backward()
        """,
    ),
    "recursion": Fault(
        provoked="a function of rank 1 calls itself without end",
        cause="recursion",
        body="def walk(node):\n    return walk(node) + 1\nwalk(step)",
    ),
    "no-cuda": Fault(
        provoked="all ranks call .cuda() with the CPU build of torch",
        cause="no-cuda-gpus",
        body="model.cuda()",
        every=True,
    ),
    "no-nccl": Fault(
        provoked="backend nccl with the CPU build of torch",
        cause="no-nccl-in-torch",
        init='dist.init_process_group("nccl")',
        every=True,
    ),
    "init-twice": Fault(
        provoked="the script calls init_process_group twice",
        cause="process-group-twice",
        init=f"{INIT}; {INIT}",
        every=True,
    ),
    "group-rank": Fault(
        provoked="all ranks broadcast from rank 5 of 2",
        cause="invalid-group-rank",
        body="dist.broadcast(torch.ones(1), 1, group=dist.new_group([0]))",
        every=True,
    ),
    "module-missing": Fault(
        provoked="the script imports a module that is not installed",
        cause="module-missing",
        top="import flash_mlp_ops",
        every=True,
    ),
    "import-name": Fault(
        provoked="the script imports a name that torch does not have",
        cause="import-name",
        top="from torch.utils import fast_loader_v9",
        every=True,
    ),
    "attribute": Fault(
        provoked="the script uses a function that this torch does not have",
        cause="torch-attribute",
        body="torch.fused_everything(step)",
        every=True,
    ),
    "syntax": Fault(
        provoked="the script has a syntax error",
        cause="own-exception",
        top="def broken(:\n    pass",
        every=True,
        says="SyntaxError",
    ),
    "shared-library": Fault(
        provoked="the script loads a shared library that is not installed",
        cause="library-missing",
        top='import ctypes; ctypes.CDLL("libcudart.so.11.0")',
        every=True,
    ),
    "too-many-files": Fault(
        provoked="rank 1 opens more files than ulimit -n allows",
        cause="too-many-files",
        body="""
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
            kept = [open(__file__) for _ in range(5000)]
        """,
    ),
    "memory-limit": Fault(
        provoked="rank 1 allocates more memory than the machine has",
        cause="host-out-of-memory",
        body="torch.empty(1 << 44)",
        action="stop",
    ),
    "pickle-lambda": Fault(
        provoked="rank 1 gives a local function to a spawned worker",
        cause="cannot-pickle",
        body="""
            loader = torch.utils.data.DataLoader(
                [1, 2], num_workers=1, collate_fn=lambda x: x, multiprocessing_context="spawn"
            )
            next(iter(loader))
        """,
    ),
    "worker-timeout": Fault(
        provoked="a DataLoader worker of rank 1 needs longer than the timeout of 3 s",
        cause="dataloader-timeout",
        top=textwrap.dedent("""
            class Slow(torch.utils.data.Dataset):
                def __len__(self):
                    return 2

                def __getitem__(self, index):
                    time.sleep(30)
        """),
        body="next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1, timeout=3)))",
        action="retry",
    ),
    "dir-race": Fault(
        provoked="all ranks create one directory, without exist_ok",
        cause="file-exists-race",
        body='os.mkdir("checkpoints")\ntime.sleep(2)',
        every=True,
    ),
}


WAYS: dict[str, Callable[[Scene], str]] = {
    "torchrun": lambda scene: scene.run("torchrun --master_port 29512 --nproc_per_node 2 train.py"),
    "srun": lambda scene: scene.run(
        "export MASTER_ADDR=node1 MASTER_PORT=29513; srun -N2 -n2 bash -c "
        "'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec python train.py'",
        "login",
    ),
    "srun-label": lambda scene: scene.run(
        "export MASTER_ADDR=node1 MASTER_PORT=29513; srun -l -N2 -n2 bash -c "
        "'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec python -u train.py'",
        "login",
    ),
    "ddpkit-local": lambda scene: scene.run("ddpkit launch -n 2 -- train.py"),
    "ddpkit-ssh": lambda scene: scene.run("ddpkit launch -b ssh node1 node2 -n 1 -- train.py", "login"),
    "ddpkit-slurm": lambda scene: scene.run("ddpkit launch -b slurm -N 2 -n 1 -- train.py", "login"),
    "ddpkit-torchrun": lambda scene: scene.run(
        "ddpkit launch -b ssh node1 node2 -n 1 -o starter=torchrun -- train.py", "login"
    ),
    "torchrun-nodes": lambda scene: scene.run(
        "srun -N2 -n2 --label torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d "
        "--rdzv_endpoint node1:29514 train.py",
        "login",
    ),
    "mpirun": lambda scene: scene.run(
        "mpirun --allow-run-as-root --oversubscribe -n 2 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=29515 bash -c "
        "'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=2 exec python train.py'"
    ),
    "mpirun-tagged": lambda scene: scene.run(
        "mpirun --allow-run-as-root --oversubscribe --tag-output -n 2 -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT=29515 "
        "bash -c 'RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=2 exec python train.py'"
    ),
    "pdsh": lambda scene: scene.run(
        f"pdsh -R ssh -w node1,node2 'cd {scene.folder}; export MASTER_ADDR=node1 MASTER_PORT=29516 WORLD_SIZE=2; "
        "RANK=%n exec python train.py'",
        "login",
    ),
}
NODE2 = ("srun", "srun-label", "ddpkit-ssh", "ddpkit-slurm", "ddpkit-torchrun", "torchrun-nodes", "pdsh")
# The launchers that each fault is recorded under, besides torchrun.
MORE = {
    "srun": "value-error sigkill segfault exit-3 worker-exception checkpoint-cut collective-size module-missing",
    "srun-label": "value-error sigkill abort slow-rank barrier-too-few data-missing",
    "ddpkit-local": "value-error chained sigkill segfault exit-3 worker-killed module-missing syntax slow-rank shapes",
    "ddpkit-ssh": "value-error sigkill worker-exception data-missing no-cuda unused-parameters",
    "ddpkit-slurm": "value-error sigkill exit-3 no-nccl memory-limit",
    "ddpkit-torchrun": "value-error segfault module-missing",
    "torchrun-nodes": "value-error sigkill worker-exception unused-parameters exit-3",
    "mpirun": "value-error sigkill exit-3 module-missing",
    "mpirun-tagged": "value-error segfault data-missing",
    "pdsh": "value-error sigkill worker-killed",
}


def record(scene: Scene, way: str, fault: str) -> str:
    scene.write("train.py", FAULTS[fault].text())
    return WAYS[way](scene)


def _add(way: str, name: str) -> None:
    fault = FAULTS[name]
    place = {} if fault.every else {"host": "node2" if way in NODE2 else "node1"}
    if way.startswith("mpirun") and name not in ("sigkill", "segfault"):  # it shows the host of a signal alone
        place.pop("host", None)
    add(
        f"{way}/{name}",
        lambda scene: record(scene, way, name),
        fault.provoked,
        fault.cause,
        **fault.label(),
        **place,
    )


for _name in FAULTS:
    _add("torchrun", _name)
for _way, _names in MORE.items():
    for _name in _names.split():
        _add(_way, _name)
