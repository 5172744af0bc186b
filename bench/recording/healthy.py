"""Healthy runs, with the harmless warnings and the words that people see in them."""

from __future__ import annotations

import textwrap

from recording import frameworks, training
from recording.machine import TORCHRUN, trained
from recording.scene import Record, Scene, case, wait_until


def step(body: str) -> str:
    """Return the text of a training step."""
    return textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")


def add_script(name: str, provoked: str, way: str = "torchrun", steps: int = 6, **parts: str) -> None:
    """Add a healthy run of a training script."""

    def record(scene: Scene) -> str:
        parts.setdefault("fault", "    pass")
        path = scene.folder / trained(scene, **parts)
        path.write_text(path.read_text().replace("range(6)", f"range({steps})"))
        return training.WAYS[way](scene)

    case(f"healthy/{name}", provoked, "healthy")(record)


def add_shell(name: str, command: str, provoked: str, host: str = "login") -> None:
    case(f"healthy/{name}", provoked, "healthy")(lambda scene: scene.run(command, host, 60))


for _way in (
    "torchrun",
    "srun",
    "srun-label",
    "ddpkit-local",
    "ddpkit-ssh",
    "ddpkit-slurm",
    "mpirun",
    "torchrun-nodes",
    "pdsh",
):
    add_script(f"train-{_way}", f"training of two ranks under {_way}", _way)

add_script(
    "no-destroy",
    "the script does not call destroy_process_group",
    fault="    pass",
    top="dist.destroy_process_group = lambda: None",
)
add_script(
    "words",
    "the training prints words such as error, failed and exception in its metrics",
    fault=step("""
        if rank == 0:
            print(f"val_error: 0.{step}12 error rate 1.2e-3 failed samples: 0 exceptions=0 timeout=30", flush=True)
            print("0 errors, 0 failures; killed tokens: 0; abort_on_nan=True", flush=True)
    """),
)
add_script(
    "caught-exception",
    "a bad sample raises, the script prints the traceback, and trains 40 steps more",
    steps=60,
    fault=step("""
        if step == 8 and rank == 1:
            try:
                raise ValueError("bad sample 4711")
            except ValueError:
                import traceback
                traceback.print_exc()
                print("sample skipped", flush=True)
    """),
)
add_script(
    "caught-oom",
    "an allocation fails, the script halves its batch, and trains 40 steps more",
    steps=60,
    fault=step("""
        if step == 8:
            try:
                torch.empty(1 << 44)
            except RuntimeError as error:
                print(f"WARNING: {error}; batch size 32 -> 16", flush=True)
    """),
)
add_script(
    "caught-file",
    "no checkpoint exists yet, and the training starts from the beginning",
    steps=40,
    fault=step("""
        if step == 0:
            try:
                torch.load("last.pt")
            except FileNotFoundError as error:
                print(f"{error}: starting from scratch", flush=True)
    """),
)
add_script(
    "retry-download",
    "a download fails twice and then succeeds",
    steps=40,
    fault=step("""
        if step == 0 and rank == 0:
            for attempt in (1, 2):
                try:
                    import urllib.request
                    urllib.request.urlopen("http://localhost:3128/labels.json")
                except OSError as error:
                    print(f"attempt {attempt} failed: {error}, retrying", flush=True)
            print("labels.json: from the cache", flush=True)
    """),
)
add_script(
    "nan-skipped",
    "a gradient scaler skips a step with an infinite loss",
    fault=step("""
        if step == 2:
            print(f"rank {rank}: loss is nan, step skipped, loss scale 65536 -> 32768", flush=True)
    """),
)
add_script(
    "scheduler-warning",
    "the learning rate scheduler steps before the optimizer",
    fault=step("""
        if step == 0:
            torch.optim.lr_scheduler.StepLR(optimizer, 3).step()
    """),
)
add_script(
    "unused-warning",
    "find_unused_parameters=True, and no parameter is unused",
    model="DistributedDataParallel(torch.nn.Linear(8, 4), find_unused_parameters=True)",
)
add_script(
    "loader-warning",
    "a DataLoader has more workers than the node has CPUs",
    fault=step("""
        if step == 1:
            for batch in torch.utils.data.DataLoader(list(range(8)), num_workers=12):
                pass
    """),
)
add_script(
    "sync-debug",
    "TORCH_DISTRIBUTED_DEBUG=INFO and TORCH_CPP_LOG_LEVEL=INFO",
    top='os.environ["TORCH_DISTRIBUTED_DEBUG"] = "INFO"',
)
add_script(
    "leaked-semaphores",
    "a semaphore is not closed at the end",
    fault=step("""
        if step == 4 and rank == 0:
            import multiprocessing, subprocess
            code = "import multiprocessing as m, os; s = m.get_context('spawn').Semaphore(); s2 = m.get_context('spawn').Lock(); os._exit(0)"
            subprocess.run([sys.executable, "-c", code])
    """),
)
add_script(
    "json-log",
    "the metrics are lines of JSON with a key error",
    fault=step("""
        if rank == 0:
            print('{"step": %d, "error": null, "status": "ok", "exception": ""}' % step, flush=True)
    """),
)
add_script(
    "python-logging",
    "the script logs at the levels INFO, WARNING and ERROR, and continues",
    steps=40,
    fault=step("""
        if step == 1:
            import logging
            logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
            logging.getLogger("data").warning("shard 12 is missing its index, rebuilding")
            logging.getLogger("data").error("could not read thumbnail of sample 77, using a blank one")
    """),
)
add_script(
    "late-rank",
    "rank 1 starts 5 s late",
    "srun",
    top='time.sleep(5 if os.environ["RANK"] == "1" else 0)',
)
add_script(
    "late-master",
    "rank 0 starts 6 s late, and the other rank retries its connection",
    "srun-label",
    top='time.sleep(6 if os.environ["RANK"] == "0" else 0)',
)
add_script(
    "usr1-saved",
    "the script saves a checkpoint on SIGUSR1 and continues",
    fault=step("""
        if step == 2:
            import signal
            signal.signal(signal.SIGUSR1, lambda *_: print("signal 10 received: checkpoint saved", flush=True))
            os.kill(os.getpid(), signal.SIGUSR1)
    """),
)
add_script(
    "future-warnings",
    "libraries print FutureWarning, UserWarning and DeprecationWarning",
    fault=step("""
        if step == 1:
            import warnings
            warnings.warn("`resume_download` is deprecated and will be removed: this will be an error", FutureWarning)
            torch.tensor(torch.ones(2))
            torch.nn.Transformer(8, 2, 1, 1, 8)
    """),
)


@case("healthy/no-ipv6", "IPv6 is off on the node, and torch warns of it", "healthy")
def _(scene: Scene) -> str:
    trained(scene)
    off, on = (f"sysctl -qw net.ipv6.conf.all.disable_ipv6={value}" for value in (1, 0))
    with scene.without(off, on):
        return scene.run(f"TORCH_CPP_LOG_LEVEL=INFO {TORCHRUN} train.py")


@case("healthy/restart", "rank 1 fails once, torchrun restarts the ranks, and the training ends", "healthy")
def _(scene: Scene) -> str:
    body = step("""
        if step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise ValueError("bad label 17")
    """)
    trained(scene, fault=body)
    path = scene.folder / "train.py"
    path.write_text(path.read_text().replace("range(6)", "range(40)"))
    return scene.run(f"{TORCHRUN} --max_restarts 2 train.py")


@case("healthy/restart-killed", "rank 1 is killed once, torchrun restarts the ranks, and the training ends", "healthy")
def _(scene: Scene) -> str:
    body = step("""
        if step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), 9)
    """)
    trained(scene, fault=body)
    path = scene.folder / "train.py"
    path.write_text(path.read_text().replace("range(6)", "range(40)"))
    return scene.run(f"{TORCHRUN} --max_restarts 2 train.py")


@case("healthy/cpp-info", "torch logs its store and its groups at INFO", "healthy")
def _(scene: Scene) -> str:
    trained(scene)
    return scene.run(f"TORCH_CPP_LOG_LEVEL=INFO TORCH_DISTRIBUTED_DEBUG=INFO {TORCHRUN} train.py")


@case("healthy/no-reverse-names", "the addresses of the hosts do not resolve to names", "healthy")
def _(scene: Scene) -> str:
    trained(scene)
    apply = "echo '127.0.0.1 localhost' > own; mount --bind own /etc/hosts"
    with scene.without(f"cd {scene.folder}; {apply}", "umount /etc/hosts"):
        return scene.run(
            "torchrun --nnodes 1 --nproc_per_node 2 --master_addr 10.77.0.1 --master_port 29561 train.py", "node1"
        )


@case("healthy/pytest", "tests pass, and their names speak of errors", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "test_loss.py",
        """
        import warnings
        import pytest

        def test_raises_value_error_on_bad_label():
            with pytest.raises(ValueError):
                raise ValueError("bad label")

        def test_timeout_is_an_exception():
            warnings.warn("connection failed, retrying")

        @pytest.mark.xfail
        def test_known_failure():
            assert False
        """,
    )
    return scene.run("pytest -v test_loss.py -p no:cacheprovider")


@case("healthy/pip", "pip installs a package in a virtual environment", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "pyproject.toml",
        '[project]\nname = "errorlib"\nversion = "1.0"\n[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n',
    )
    scene.write("errorlib/__init__.py", "")
    return scene.run(
        "PIP_NO_INDEX=1 PIP_CONFIG_FILE=/dev/null python -m pip install --no-build-isolation --no-deps --target lib . 2>&1; python -c 'print(1)'"
    )


@case("healthy/compile", "torch.compile falls back for a function it cannot trace", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import torch

        @torch.compile(backend="eager")
        def work(x):
            print("inside", len(x))
            return x.sum().item()

        for step in range(30):
            print(f"step {step} loss {work(torch.ones(step + 1)):.3f}")
        """,
    )
    return scene.run("TORCH_LOGS=graph_breaks,recompiles python train.py")


@case("healthy/progress-bar", "tqdm draws a bar with a postfix named err", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import time
        from tqdm import tqdm

        for epoch in range(3):
            bar = tqdm(range(50), desc=f"epoch {epoch}")
            for step in bar:
                bar.set_postfix(err=0.1, fail=0)
        print("Training finished")
        """,
    )
    return scene.run(f"PATH={scene.interop}:$PATH python train.py")


@case("healthy/loader-spawn", "DataLoader workers that are spawned end with the script", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import torch
        from torch.utils.data import DataLoader

        if __name__ == "__main__":
            loader = DataLoader(list(range(8)), num_workers=1, multiprocessing_context="spawn", pin_memory=True)
            print(sum(batch.item() for batch in loader))
        """,
    )
    return scene.run("python train.py")


@case("healthy/ssh", "ssh adds an unknown host key, prints a banner, and runs the command", "healthy")
def _(scene: Scene) -> str:
    return scene.run(
        "ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=$PWD/known node2 "
        "'echo Authorized use only: unauthorised access is denied >&2; echo epoch 1 loss 0.3; echo done'",
        "login",
    )


add_shell(
    "ssh-terminal",
    "ssh -tt node2 'echo epoch 1 loss 0.3' < /dev/null; ssh -t node2 'echo epoch 2 loss 0.2' < /dev/null",
    "ssh without a terminal",
)
add_shell("pdsh", "pdsh -R ssh -w 'node[1-4]' 'echo epoch 1 loss 0.3 on $(hostname)'", "pdsh on four hosts")
add_shell("srun-hostname", "srun -N4 -n8 hostname", "srun on four nodes")
add_shell("salloc", "salloc -N2 -n2 srun bash -c 'echo step 1 loss 0.3'", "an allocation and a step")
add_shell(
    "sbatch",
    "printf '#!/bin/bash\\n#SBATCH -N2 -o job.out\\nmodule load cuda 2>/dev/null\\nsrun echo epoch 1 loss 0.5\\necho Job finished\\n' > job.sh; sbatch --wait job.sh; cat job.out",
    "a batch job",
)
add_shell(
    "srun-contradiction",
    "srun -N2 -n2 --ntasks-per-node=4 hostname; srun -N4 -n2 hostname",
    "srun corrects contradictory options",
)
add_shell(
    "srun-wait",
    "srun -N1 -c8 --exclusive -w node1 sleep 3 & sleep 0.5; srun -N1 -c8 --exclusive -w node1 echo step 1 loss 0.2; wait",
    "a job waits for resources",
)
add_shell(
    "mpirun-warning",
    "mpirun --allow-run-as-root --oversubscribe -n 2 --mca btl tcp,self bash -c 'echo rank $OMPI_COMM_WORLD_RANK loss 0.4'",
    "mpirun of two processes",
    "node1",
)
add_shell(
    "git-warning",
    "git init -q repo 2>&1; cd repo; echo a > a; git add a; git -c user.name=a -c user.email=a@b commit -qm 'Fix error: failed to load'; git log --oneline --no-color | cut -c9-; echo training done",
    "a launcher prints the commit that it trains",
    "node1",
)
add_shell("ddpkit-test", "ddpkit test 1 --no-ranks", "ddpkit test on this node", "node1")


@case("healthy/step-requeue-done", "a batch job is requeued once by its script and then succeeds", "healthy")
def _(scene: Scene) -> str:
    scene.write(
        "job.sh",
        '#!/bin/bash\n#SBATCH -J twice -N1 -o job.out --open-mode=append --requeue\necho attempt $SLURM_RESTART_COUNT\n[ -n "$SLURM_RESTART_COUNT" ] && for i in $(seq 40); do echo step $i loss 0.$i; done && echo Training finished && exit 0\nsleep 60\n',
    )
    scene.run("sbatch job.sh", "login")
    out = scene.folder / "job.out"
    wait_until(out.exists)
    scene.run("sleep 1; scontrol requeue $(squeue -h -n twice -o %A)", "login")
    wait_until(lambda: "Training finished" in out.read_text(), 100)
    return out.read_text()


def add_framework(name: str, provoked: str, form: str, run: Record, **parts: str) -> None:
    def record(scene: Scene) -> str:
        scene.write("train.py", frameworks.script(form, "", **parts))
        return run(scene)

    case(f"healthy/{name}", provoked, "healthy")(record)


add_framework("accelerate", "Accelerate under torchrun", frameworks.ACCELERATE, frameworks.torchrun)
add_framework(
    "accelerate-launch",
    "accelerate launch without a configuration",
    frameworks.ACCELERATE,
    lambda scene: frameworks.accelerate(scene, "--num_processes 1"),
)
add_framework("deepspeed", "the launcher of DeepSpeed, without a hostfile", frameworks.DEEPSPEED, frameworks.deepspeed)
add_framework("lightning", "Lightning with two devices", frameworks.LIGHTNING, frameworks.python)
add_framework(
    "lightning-logger",
    "Lightning with its logger, one device, and its tips",
    frameworks.LIGHTNING,
    frameworks.python,
    options='accelerator="cpu", max_epochs=1',
)
add_framework("lightning-torchrun", "Lightning under torchrun", frameworks.LIGHTNING, frameworks.torchrun)


@case("healthy/tokenizers-fork", "a tokenizer is used before DataLoader workers fork", "healthy")
def _(scene: Scene) -> str:
    return frameworks.transformers(
        scene,
        """
        import torch
        from tokenizers import Tokenizer, models
        from torch.utils.data import DataLoader

        class Texts(torch.utils.data.Dataset):
            def __init__(self):
                self.tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
                self.tokenizer.encode_batch(["a", "b"] * 50)

            def __len__(self):
                return 8

            def __getitem__(self, index):
                return len(self.tokenizer.encode_batch(["a", "b"]))

        for step, batch in enumerate(DataLoader(Texts(), num_workers=2)):
            print(f"step {step} loss {batch.sum().item()}")
        """,
    )


@case("healthy/transformers", "transformers builds a small model, with weights that are newly initialised", "healthy")
def _(scene: Scene) -> str:
    return frameworks.transformers(
        scene,
        """
        import torch
        from transformers import BertConfig, BertForSequenceClassification, BertModel

        config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=50)
        BertModel(config).save_pretrained("base")
        model = BertForSequenceClassification.from_pretrained("base")
        for step in range(30):
            loss = model(torch.randint(0, 50, (2, 8)), labels=torch.tensor([0, 1])).loss
            loss.backward()
            print(f"step {step} loss {loss.item():.4f}")
        print("Training finished")
        """,
    )
