"""Faults of one machine: files, limits, environments, command lines, ports, names and networks."""

from __future__ import annotations

import shlex

from recording.scene import Scene, case
from recording.training import FAULTS, INIT, MODEL, SCRIPT, Fault

TORCHRUN = "torchrun --master_port 29520 --nproc_per_node 2"
HELD = "import socket, time; s = socket.socket(); s.bind(('', {port})); s.listen(); "
HELD += "print('held', flush=True); time.sleep(90)"
OK = Fault(provoked="", cause="healthy").text()


def trained(scene: Scene, **parts: str) -> str:
    """Write a training script with other parts: top, fault (of a step), init, model."""
    fault = parts.get("fault", "    pass")
    text = SCRIPT.format(
        first="", top=parts.get("top", ""), fault=fault, init=parts.get("init", INIT), model=parts.get("model", MODEL)
    )
    return scene.write("train.py", text)


def saving(path: str) -> str:
    """Return a training step that saves 8 MB to a path."""
    return f'    if step == 3 and rank == 0:\n        torch.save(torch.zeros(2_000_000), "{path}")'


# ---- files


@case("files/disk-full-save", "the file system of the checkpoints has 1 MB", "disk-full", action="exclude node1")
def _(scene: Scene) -> str:
    trained(scene, fault=saving("/mnt/last.pt"))
    with scene.without("mount -t tmpfs -o size=1m tmpfs /mnt", "umount /mnt"):
        return scene.run(f"{TORCHRUN} train.py")


@case(
    "files/disk-full-write",
    "the log file of rank 0 is on a full file system",
    "disk-full",
    rank="0",
    action="exclude node1",
)
def _(scene: Scene) -> str:
    body = '    if step == 3 and rank == 0:\n        open("/mnt/metrics.csv", "w").write("x" * 4_000_000)'
    trained(scene, fault=body)
    with scene.without("mount -t tmpfs -o size=1m tmpfs /mnt", "umount /mnt"):
        return scene.run(f"{TORCHRUN} train.py")


@case("files/disk-full-inodes", "the file system has no free inodes", "disk-full")
def _(scene: Scene) -> str:
    with scene.without("mount -t tmpfs -o nr_inodes=20 tmpfs /mnt", "umount /mnt"):
        return scene.run('python -c \'for i in range(50): open(f"/mnt/shard_{i}", "w").close()\'')


@case("files/disk-full-shell", "cp copies a data set to a full local disk", "disk-full")
def _(scene: Scene) -> str:
    with scene.without("mount -t tmpfs -o size=1m tmpfs /mnt", "umount /mnt"):
        return scene.run("set -e; head -c 9000000 /dev/zero > data.tar; cp data.tar /mnt/; python train.py")


@case("files/disk-full-tar", "tar unpacks a data set to a full local disk", "disk-full")
def _(scene: Scene) -> str:
    with scene.without("mount -t tmpfs -o size=1m tmpfs /mnt", "umount /mnt"):
        return scene.run("head -c 9000000 /dev/zero > a; tar cf data.tar a; tar xf data.tar -C /mnt && python train.py")


@case(
    "files/read-only",
    "the file system of the checkpoints is mounted read-only",
    "read-only-fs",
    rank="0",
    action="exclude node1",
)
def _(scene: Scene) -> str:
    trained(scene, fault='    if step == 3 and rank == 0:\n        os.makedirs("/mnt/run1/checkpoints")')
    with scene.without("mount -t tmpfs -o ro tmpfs /mnt", "umount /mnt"):
        return scene.run(f"{TORCHRUN} train.py")


@case(
    "files/read-only-save",
    "torch.save writes to a read-only file system",
    "read-only-fs or permission-denied",
    action="exclude node1",
)
def _(scene: Scene) -> str:
    trained(scene, fault=saving("/mnt/last.pt"))
    with scene.without("mount -t tmpfs -o ro tmpfs /mnt", "umount /mnt"):
        return scene.run(f"{TORCHRUN} train.py")


@case("files/save-no-directory", "torch.save writes to a directory that does not exist", "save-directory-missing")
def _(scene: Scene) -> str:
    trained(scene, fault=saving("/home/user/checkpoints/last.pt"))
    return scene.run(f"{TORCHRUN} train.py")


@case("files/permission", "an ordinary user reads a data file of root", "permission-denied", action="stop")
def _(scene: Scene) -> str:
    scene.write("secret.bin", "x", 0o600)
    scene.folder.chmod(0o755)
    scene.write("read.py", 'data = open("secret.bin", "rb").read()\n')
    return scene.run("chmod 755 . ..; setpriv --reuid 65534 --clear-groups python read.py")


@case("files/empty-checkpoint", "the checkpoint has no bytes", "checkpoint-broken or checkpoint-empty", action="stop")
def _(scene: Scene) -> str:
    scene.write("last.pt", "")
    scene.write("resume.py", 'import torch\nstate = torch.load("last.pt")\n')
    return scene.run("python resume.py")


@case(
    "files/text-checkpoint",
    "the checkpoint is a text: a Git LFS pointer",
    "checkpoint-broken or checkpoint-unsafe or weights-are-text",
)
def _(scene: Scene) -> str:
    scene.write("last.pt", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 134\n")
    scene.write("resume.py", 'import torch\nstate = torch.load("last.pt", weights_only=False)\n')
    return scene.run("python resume.py")


@case("files/json-cut", "the configuration is cut off", "json-broken", says="JSONDecodeError", action="stop")
def _(scene: Scene) -> str:
    scene.write("config.json", '{"lr": 0.1, "batch')
    scene.write("train.py", 'import json\nconfig = json.load(open("config.json"))\n')
    return scene.run("python train.py")


@case("files/script-missing", "the script has another name", "script-missing", action="stop")
def _(scene: Scene) -> str:
    return scene.run(f"{TORCHRUN} trian.py")


@case("files/script-missing-srun", "the script is not in the directory of the job", "script-missing", action="stop")
def _(scene: Scene) -> str:
    return scene.run("srun -N2 -n2 python src/train.py", "login")


@case("arguments/init-method", "init_method has a scheme that torch does not know", "bad-init-method", action="stop")
def _(scene: Scene) -> str:
    trained(scene, init='dist.init_process_group("gloo", init_method="http://node1:29500", rank=0, world_size=1)')
    return scene.run("python train.py")


# ---- limits


@case("limits/fork-process", "ulimit -u allows 40 processes of this user", "cannot-fork")
def _(scene: Scene) -> str:
    scene.write(
        "load.py",
        """
        import subprocess, time
        kept = [subprocess.Popen(["sleep", "20"]) for _ in range(60)]
        """,
    )
    return scene.run("chmod 755 . ..; ulimit -u 40; exec setpriv --reuid 54321 --clear-groups python load.py")


@case("limits/fork-thread", "ulimit -u does not allow the threads of the script", "cannot-fork")
def _(scene: Scene) -> str:
    scene.write(
        "load.py",
        """
        import threading, time
        for _ in range(60):
            threading.Thread(target=time.sleep, args=(15,)).start()
        """,
    )
    return scene.run(
        "chmod 755 . ..; ulimit -u 40; exec timeout 25 setpriv --reuid 54322 --clear-groups python load.py"
    )


@case("limits/fork-shell", "bash cannot fork: ulimit -u is reached", "cannot-fork")
def _(scene: Scene) -> str:
    command = "for i in 1 2 3 4 5 6; do sleep 8 & done; wait"
    return scene.run(
        f"ulimit -u 4; exec setpriv --reuid 54323 --clear-groups timeout 12 bash -c {shlex.quote(command)}"
    )


@case("limits/open-files-workers", "ulimit -n 64 is too few for DataLoader workers", "too-many-files")
def _(scene: Scene) -> str:
    scene.write(
        "load.py",
        """
        import torch
        from torch.utils.data import DataLoader

        if __name__ == "__main__":
            kept = [batch for batch in DataLoader(list(map(torch.tensor, range(200))), num_workers=4)]
        """,
    )
    return scene.run("ulimit -n 64; python load.py")


@case("limits/memory-ulimit", "ulimit -v allows 6 GB of memory", "host-out-of-memory")
def _(scene: Scene) -> str:
    scene.write("load.py", "import torch\nx = torch.ones(4_000_000_000)\n")
    return scene.run("ulimit -v 6000000; python load.py")


@case("limits/memory-python", "a list of Python needs more memory than ulimit -v", "host-out-of-memory")
def _(scene: Scene) -> str:
    scene.write("load.py", "kept = []\nwhile True:\n    kept.append(bytearray(50_000_000))\n")
    return scene.run("ulimit -v 900000; python load.py")


@case("limits/memory-numpy", "numpy cannot allocate an array", "host-out-of-memory")
def _(scene: Scene) -> str:
    scene.write("load.py", "import numpy as np\nx = np.ones((200_000, 4_000_000))\n")
    return scene.run("python load.py")


def limited(scene: Scene, command: str) -> str:
    """Run a command in a memory cgroup of 700 MB, and return its output and the kernel's messages of it."""
    group = "/sys/fs/cgroup/memory/ddpkit-record"
    enter = f"mkdir -p {group}; echo 700M > {group}/memory.limit_in_bytes; dmesg -C"
    with scene.without(enter, f"sleep 1; rmdir {group}"):
        return scene.run(f"bash -c 'echo $$ > {group}/tasks; exec {command}'")


EATER = "    if step == 3 and rank == 1:\n        kept = [bytearray(10_000_000) for _ in range(500)]"


@case(
    "limits/kernel-oom", "the kernel's OOM killer ends rank 1", "host-out-of-memory or killed", rank="1", host="node1"
)
def _(scene: Scene) -> str:
    trained(scene, fault=EATER)
    return limited(scene, f"{TORCHRUN} train.py")


@case(
    "limits/kernel-oom-dmesg",
    "the kernel's OOM killer ends rank 1; its messages follow the log",
    "host-out-of-memory",
    action="exclude node1",
)
def _(scene: Scene) -> str:
    trained(scene, fault=EATER)
    out = limited(scene, f"{TORCHRUN} train.py")
    return out + scene.run("dmesg -T | grep -i -E 'oom|out of memory|killed process' | tail -5")


@case("limits/kernel-oom-ddpkit", "the kernel's OOM killer ends rank 1", "host-out-of-memory", rank="1", host="node1")
def _(scene: Scene) -> str:
    trained(scene, fault=EATER)
    return limited(scene, "ddpkit launch -n 2 -- train.py")


@case("limits/shm-full", "/dev/shm has 1 MB, and DataLoader workers need more", "shm-full")
def _(scene: Scene) -> str:
    scene.write(
        "load.py",
        """
        import torch
        from torch.utils.data import DataLoader

        if __name__ == "__main__":
            for batch in DataLoader(torch.zeros(64, 500_000), batch_size=8, num_workers=2):
                pass
        """,
    )
    with scene.without("mount -t tmpfs -o size=1m tmpfs /dev/shm", "umount /dev/shm"):
        return scene.run("python load.py")


@case("limits/shm-full-train", "/dev/shm has 1 MB; rank 1 loads data with workers", "shm-full", rank="1")
def _(scene: Scene) -> str:
    loader = "torch.utils.data.DataLoader(torch.zeros(64, 500_000), batch_size=8, num_workers=2)"
    trained(scene, fault=f"    if step == 3 and rank == 1:\n        for batch in {loader}:\n            pass")
    with scene.without("mount -t tmpfs -o size=1m tmpfs /dev/shm", "umount /dev/shm"):
        return scene.run(f"{TORCHRUN} train.py")


@case("limits/file-size", "ulimit -f is smaller than the checkpoint", "file-too-large")
def _(scene: Scene) -> str:
    scene.write(
        "save.py",
        'import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nopen("a", "wb").write(b"x" * 4096 * 999)\n',
    )
    return scene.run("ulimit -f 100; python save.py")


@case("limits/cpu-time", "ulimit -t ends the script after 1 s of CPU time", "any", says="CPU time|152")
def _(scene: Scene) -> str:
    scene.write("busy.py", "while True:\n    pass\n")
    return scene.run("(ulimit -S -t 1; python busy.py); echo exit code $?")


# ---- the environment


@case("environment/no-torchrun", "torchrun is not on PATH", "command-not-found", action="stop")
def _(scene: Scene) -> str:
    return scene.run("PATH=/usr/bin:/bin; torchrun --nproc_per_node 2 train.py")


@case("environment/no-torch", "the system's Python has no torch", "module-missing", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("/usr/bin/python3 train.py")


@case("environment/venv-broken", "the interpreter of the virtual environment was removed", "command-not-found")
def _(scene: Scene) -> str:
    scene.write("venv/bin/torchrun", "#!/home/user/miniconda3/envs/old/bin/python\n", 0o755)
    return scene.run("venv/bin/torchrun --nproc_per_node 2 train.py")


@case("environment/python-missing", "the virtual environment has no python", "command-not-found")
def _(scene: Scene) -> str:
    return scene.run("/home/user/miniconda3/envs/train/bin/python train.py")


@case("environment/not-executable", "the start script is not executable", "not-executable")
def _(scene: Scene) -> str:
    scene.write("run.sh", "#!/bin/bash\npython train.py\n")
    return scene.run("./run.sh")


@case("environment/windows-lines", "the start script has Windows line ends", "command-not-found")
def _(scene: Scene) -> str:
    (scene.folder / "run.sh").write_bytes(b"#!/bin/bash\r\npython train.py\r\n")
    return scene.run("chmod +x run.sh; ./run.sh")


@case(
    "environment/activate-missing",
    "the job activates an environment that does not exist",
    "file-missing or command-not-found",
)
def _(scene: Scene) -> str:
    return scene.run("source /home/user/venv/bin/activate && python train.py")


@case("environment/module-command", "the job uses module, which this node does not have", "modules-not-loaded")
def _(scene: Scene) -> str:
    return scene.run("module load cuda/12.4 && python train.py")


@case("environment/no-rank", "python starts the script without a launcher", "rank-not-set", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("python train.py")


@case("environment/no-local-rank", "the script reads LOCAL_RANK, and srun does not set it", "local-rank-argument")
def _(scene: Scene) -> str:
    scene.write("train.py", 'import os\nlocal_rank = int(os.environ["LOCAL_RANK"])\n')
    return scene.run("srun -N1 -n2 python train.py", "login")


@case(
    "environment/numpy-shadow",
    "a file random.py of the user hides Python's own",
    "module-shadowed",
)
def _(scene: Scene) -> str:
    scene.write("random.py", "value = 4\n")
    scene.write("train.py", "import tempfile\nimport torch\n")
    return scene.run("python train.py")


@case(
    "environment/old-python", "the script has a syntax that is newer than its Python", "own-exception or python-too-old"
)
def _(scene: Scene) -> str:
    scene.write("train.py", "def first[T](items: list[T]) -> T:\n    return items[0]\n")
    return scene.run("python train.py")


@case("environment/no-compiler", "torch.compile finds no C++ compiler", "compile-failed")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import torch

        @torch.compile
        def norm(x):
            return (x * x).sum().sqrt() + torch.sin(x).mean()

        print(norm(torch.randn(100)))
        """,
    )
    return scene.run("B=$(dirname $(command -v python)); PATH=$B TORCHINDUCTOR_CACHE_DIR=$PWD/cache python train.py")


@case(
    "environment/extension-header",
    "a C++ extension includes a header of CUDA that is not installed",
    "extension-build-failed or header-missing",
)
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        from torch.utils.cpp_extension import load_inline

        load_inline("ops", "#include <cuda_profiler_api.h>\\nint one() { return 1; }", functions=["one"])
        """,
    )
    return scene.run("TORCH_EXTENSIONS_DIR=$PWD/cache python train.py", "node1", 200)


@case("environment/unknown-locale-encoding", "a data file is not UTF-8", "own-exception", says="UnicodeDecodeError")
def _(scene: Scene) -> str:
    (scene.folder / "labels.txt").write_bytes(b"caf\xe9\n")
    scene.write("train.py", 'labels = open("labels.txt", encoding="utf-8").read()\n')
    return scene.run("python train.py")


# ---- command lines


@case("arguments/unknown-option", "the script does not know the option --learning-rate", "bad-arguments", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--lr")\np.parse_args()\n')
    return scene.run(f"{TORCHRUN} train.py --learning-rate 3")


@case("arguments/missing-option", "the required option --data is not given", "bad-arguments", action="stop")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        'import argparse\np = argparse.ArgumentParser()\np.add_argument("--data", required=True)\np.parse_args()\n',
    )
    return scene.run(f"{TORCHRUN} train.py")


@case(
    "arguments/local-rank",
    "the legacy launcher gives --local-rank to a script that does not take it",
    "local-rank-not-accepted",
)
def _(scene: Scene) -> str:
    scene.write("train.py", 'import argparse\np = argparse.ArgumentParser()\np.add_argument("--lr")\np.parse_args()\n')
    return scene.run("python -m torch.distributed.launch --master_port 29521 --nproc_per_node 2 train.py")


@case(
    "arguments/torchrun-option",
    "an option of torchrun is misspelled",
    "bad-arguments or launcher-arguments",
    action="stop",
)
def _(scene: Scene) -> str:
    return scene.run("torchrun --nproc_per_nodes 2 --nnode 1 train.py")


@case("arguments/nproc-gpu", "nproc_per_node=gpu on a machine without GPU", "nproc-bad", action="stop")
def _(scene: Scene) -> str:
    return scene.run("torchrun --nproc_per_node gpu train.py")


@case("arguments/nproc-word", "nproc_per_node is no number", "nproc-bad", action="stop")
def _(scene: Scene) -> str:
    return scene.run("torchrun --nproc_per_node four train.py")


@case("arguments/endpoint", "the rendezvous endpoint has a bad port", "rendezvous-endpoint-bad", action="stop")
def _(scene: Scene) -> str:
    return scene.run("torchrun --nnodes 2 --rdzv_backend c10d --rdzv_endpoint node1:port train.py")


@case(
    "arguments/backend",
    "the script names a backend that does not exist",
    "own-exception or no-nccl-in-torch",
    says="ncll",
)
def _(scene: Scene) -> str:
    trained(scene, init='dist.init_process_group("ncll")')
    return scene.run(f"{TORCHRUN} train.py")


@case("arguments/ddpkit-option", "an option of ddpkit is misspelled", "bad-arguments", action="stop")
def _(scene: Scene) -> str:
    return scene.run("ddpkit launch --nprocs 2 -- train.py")


@case(
    "arguments/ddpkit-script",
    "ddpkit launch gets a script that does not exist",
    "script-missing or file-missing",
    action="stop",
)
def _(scene: Scene) -> str:
    return scene.run("ddpkit launch -n 2 -- trian.py")


# ---- spawn


@case("spawn/exception", "a process of mp.spawn raises ValueError", "own-exception", says="bad shard", rank="1")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import torch.multiprocessing as mp

        def work(rank):
            if rank == 1:
                raise ValueError("bad shard 9")

        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
        """,
    )
    return scene.run("python train.py")


@case("spawn/killed", "a process of mp.spawn is killed with SIGKILL", "killed or host-out-of-memory", rank="1")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import os, time
        import torch.multiprocessing as mp

        def work(rank):
            if rank == 1:
                os.kill(os.getpid(), 9)
            time.sleep(5)

        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
        """,
    )
    return scene.run("python train.py")


@case("spawn/no-main", "mp.spawn without the guard of __main__", "spawn-without-main", action="stop")
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import torch.multiprocessing as mp

        def work(rank):
            print(rank)

        mp.spawn(work, nprocs=1)
        """,
    )
    return scene.run("python train.py")


@case("spawn/pool-exception", "a process of a pool raises KeyError", "own-exception", says="KeyError")
def _(scene: Scene) -> str:
    scene.write(
        "prepare.py",
        """
        from concurrent.futures import ProcessPoolExecutor

        def tokenise(line):
            return {"a": 1}[line]

        if __name__ == "__main__":
            with ProcessPoolExecutor(2) as pool:
                print(list(pool.map(tokenise, ["a", "b"])))
        """,
    )
    return scene.run("python prepare.py")


@case(
    "spawn/pool-killed", "a process of a pool is killed", "own-exception or killed", says="BrokenProcessPool|terminated"
)
def _(scene: Scene) -> str:
    scene.write(
        "prepare.py",
        """
        import os
        from concurrent.futures import ProcessPoolExecutor

        def tokenise(line):
            os.kill(os.getpid(), 9)

        if __name__ == "__main__":
            with ProcessPoolExecutor(2) as pool:
                print(list(pool.map(tokenise, ["a", "b"])))
        """,
    )
    return scene.run("python prepare.py")


@case(
    "python/exception-group",
    "two tasks of a group raise exceptions",
    "own-exception",
    says="bad url|slow url|TimeoutError|ValueError",
)
def _(scene: Scene) -> str:
    scene.write(
        "fetch.py",
        """
        import asyncio

        async def get(url):
            raise ValueError(f"bad url {url}")

        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(get("a"))
                group.create_task(get("b"))

        asyncio.run(main())
        """,
    )
    return scene.run("python fetch.py")


@case(
    "python/thread",
    "a thread raises IndexError, and the script waits for it without end",
    "own-exception",
    says="IndexError",
)
def _(scene: Scene) -> str:
    scene.write(
        "train.py",
        """
        import queue, threading

        results = queue.Queue()

        def load():
            results.put([][1])

        threading.Thread(target=load).start()
        results.get(timeout=3)
        """,
    )
    return scene.run("python train.py")


@case("python/pytest", "a test of pytest fails", "own-exception or test-failed", says="assert|AssertionError")
def _(scene: Scene) -> str:
    scene.write("test_loss.py", "def loss(x):\n    return x * 2\n\ndef test_loss():\n    assert loss(3) == 9\n")
    return scene.run("pytest -q test_loss.py -p no:cacheprovider")


@case("python/pytest-error", "a test module imports a module that is not installed", "module-missing")
def _(scene: Scene) -> str:
    scene.write("test_loss.py", "import flash_mlp_ops\n\ndef test_loss():\n    pass\n")
    return scene.run("pytest -q test_loss.py -p no:cacheprovider")


@case("python/sys-exit-text", "the script ends with sys.exit and a text", "not-in-log")
def _(scene: Scene) -> str:
    scene.write("train.py", 'import sys\nprint("loading")\nsys.exit("no shard found for this rank")\n')
    return scene.run("python train.py")


# ---- signals


@case("signals/sigterm", "SIGTERM is sent to torchrun", "terminated or launcher-terminated", action="stop")
def _(scene: Scene) -> str:
    return signalled(scene, "TERM")


@case("signals/sighup", "SIGHUP is sent to torchrun, as at the end of an SSH session", "hangup")
def _(scene: Scene) -> str:
    return signalled(scene, "HUP")


@case("signals/sigint", "SIGINT is sent to torchrun, as by Ctrl-C", "interrupted", action="stop")
def _(scene: Scene) -> str:
    return signalled(scene, "INT")


@case("signals/usr1", "SIGUSR1 is sent to a script without a handler", "user-signal")
def _(scene: Scene) -> str:
    scene.write("train.py", "import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\n")
    return scene.run("(python train.py); echo exit code $?")


@case("signals/ctrl-c-python", "SIGINT is sent to a script", "interrupted", action="stop")
def _(scene: Scene) -> str:
    scene.write("train.py", "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n")
    return scene.run("python train.py")


@case("signals/ddpkit-sigterm", "SIGTERM is sent to ddpkit launch", "terminated", action="stop")
def _(scene: Scene) -> str:
    return signalled(scene, "TERM", "ddpkit launch -n 2 -- train.py")


def signalled(scene: Scene, name: str, command: str = f"{TORCHRUN} train.py") -> str:
    trained(scene, fault="    time.sleep(1 if step < 3 else 30)")
    started = scene.start(f"set -m; {command} & echo started $!; wait $!; echo exit code $?")
    started.wait_for("step 2")
    pid = started.seen.decode().partition("started ")[2].split()[0]
    scene.lab.run("node1", "kill", f"-{name}", pid)
    out = started.finish()
    return "".join(line for line in out.splitlines(True) if not line.startswith("started "))


# ---- ports, names and networks


@case("network/port-in-use", "another program listens on the master port", "port-in-use", action="retry")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    holder = scene.start(f"exec python -c {shlex.quote(HELD.format(port=29520))}")
    holder.wait_for("held")
    try:
        return scene.run(f"{TORCHRUN} train.py")
    finally:
        scene.kill("node1", "s.bind")


@case("network/port-in-use-env", "another program listens on MASTER_PORT of plain srun", "port-in-use", rank="0")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    holder = scene.start(f"exec python -c {shlex.quote(HELD.format(port=29523))}")
    holder.wait_for("held")
    try:
        return scene.run(
            "export MASTER_ADDR=node1 MASTER_PORT=29523; srun -N2 -n2 bash -c "
            "'RANK=$SLURM_PROCID WORLD_SIZE=2 exec timeout 20 python train.py'",
            "login",
        )
    finally:
        scene.kill("node1", "s.bind")


@case("network/port-privileged", "an ordinary user listens on port 80", "permission-denied or port-in-use")
def _(scene: Scene) -> str:
    scene.write("serve.py", "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 80))\n")
    return scene.run(
        "chmod 755 . ..; sysctl -qw net.ipv4.ip_unprivileged_port_start=1024; "
        "setpriv --reuid 65534 --clear-groups python serve.py"
    )


def ranked(scene: Scene, rank: int, address: str = "node1", world: int = 2, more: str = "", host: str = "node2") -> str:
    """Run one rank alone on a host, with a short timeout."""
    init = 'dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))'
    trained(scene, init=init)
    env = f"MASTER_ADDR={address} MASTER_PORT=29525 RANK={rank} WORLD_SIZE={world} LOCAL_RANK=0"
    return scene.run(f"{more} {env} python train.py", host)


@case("network/master-name", "MASTER_ADDR does not resolve", "master-name-unknown", action="stop")
def _(scene: Scene) -> str:
    return ranked(scene, 1, "gpu-node-07")


@case(
    "network/master-nodelist", "MASTER_ADDR is a node list that was not expanded", "nodelist-unexpanded", action="stop"
)
def _(scene: Scene) -> str:
    return ranked(scene, 1, "node[01-04]")


@case("network/master-not-started", "rank 0 never starts", "master-unreachable or ranks-missing")
def _(scene: Scene) -> str:
    return ranked(scene, 1)


@case("network/master-dropped", "a firewall drops packets to the master port", "master-unreachable")
def _(scene: Scene) -> str:
    with scene.without(
        "nft add table inet rec; nft add chain inet rec in '{ type filter hook input priority 0; }'; "
        "nft add rule inet rec in tcp dport 29525 drop",
        "nft delete table inet rec",
    ):
        return ranked(scene, 1)


@case(
    "network/master-rejected",
    "a firewall rejects connections to the master port",
    "master-unreachable or firewall-reject",
)
def _(scene: Scene) -> str:
    with scene.without(
        "nft add table inet rec; nft add chain inet rec in '{ type filter hook input priority 0; }'; "
        "nft add rule inet rec in tcp dport 29525 reject with icmp type host-prohibited",
        "nft delete table inet rec",
    ):
        return ranked(scene, 1)


@case("network/ranks-missing", "one of two ranks never starts", "ranks-missing or store-wait")
def _(scene: Scene) -> str:
    return ranked(scene, 0, host="node1")


@case(
    "network/interface-name",
    "GLOO_SOCKET_IFNAME names an interface that does not exist",
    "nccl-wrong-interface or nccl-no-interface",
)
def _(scene: Scene) -> str:
    trained(scene)
    return scene.run(f"GLOO_SOCKET_IFNAME=ib0 {TORCHRUN} train.py")


@case(
    "network/loopback-name",
    "the name of each host resolves to 127.0.1.1 on it, as an installer of Debian makes it",
    "name-is-loopback",
)
def _(scene: Scene) -> str:
    trained(scene, init='dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))')
    for name in ("node1", "node2"):
        edit = f"sed 's/^[0-9.]* {name}$/127.0.1.1 {name}/' {scene.lab.folder}/etc/hosts > {scene.folder}/{name}"
        scene.lab.run(name, "bash", "-c", f"{edit}; mount --bind {scene.folder}/{name} /etc/hosts")
        scene.undo.append(lambda name=name: scene.lab.run(name, "umount", "/etc/hosts"))  # type: ignore[misc]
    return srun_ranks(scene, env="MASTER_ADDR=10.77.0.1")


def srun_ranks(scene: Scene, options: str = "", env: str = "") -> str:
    return scene.run(
        f"export MASTER_ADDR=node1 MASTER_PORT=29526 {env}; srun {options} -N2 -n2 bash -c "
        "'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=2 exec timeout 60 python train.py'",
        "login",
    )


@case("network/random-ports-dropped", "a firewall drops all ports but the master's", "firewall-drop")
def _(scene: Scene) -> str:
    trained(scene, init='dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))')
    with scene.without(
        "nft add table inet rec; nft add chain inet rec in '{ type filter hook input priority 0; }'; "
        "nft add rule inet rec in tcp dport 1024-65535 tcp dport != '{ 29526, 6817-6819 }' "
        "tcp flags syn / syn,ack drop",
        "nft delete table inet rec",
    ):
        return srun_ranks(scene)


@case("network/random-ports-rejected", "a firewall rejects all ports but the master's", "firewall-reject")
def _(scene: Scene) -> str:
    trained(scene, init='dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=4))')
    with scene.without(
        "nft add table inet rec; nft add chain inet rec in '{ type filter hook input priority 0; }'; "
        "nft add rule inet rec in tcp dport 1024-65535 tcp dport != '{ 29526, 6817-6819 }' "
        "tcp flags syn / syn,ack reject with icmp type admin-prohibited",
        "nft delete table inet rec",
    ):
        return srun_ranks(scene)


@case("rendezvous/second-node-missing", "torchrun waits for a second node that never starts", "rendezvous-timeout")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint node1:29527 "
        "--rdzv_conf join_timeout=5 train.py"
    )


@case(
    "rendezvous/nobody-hosts",
    "the endpoint of the rendezvous is a host where no agent runs",
    "no-node-is-host or master-unreachable",
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint node3:29527 "
        "--rdzv_conf join_timeout=5,timeout=4 train.py"
    )


@case(
    "rendezvous/endpoint-name",
    "the endpoint of the rendezvous does not resolve",
    "master-name-unknown or no-node-is-host",
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint head-node:29527 "
        "--rdzv_conf join_timeout=5,timeout=4 train.py"
    )


@case("rendezvous/ids-differ", "the nodes have different rendezvous ids", "rendezvous-timeout")
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "srun -N2 -n2 bash -c 'exec torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_id $SLURM_PROCID "
        "--rdzv_endpoint node1:29528 --rdzv_conf join_timeout=6 train.py'",
        "login",
    )


@case(
    "rendezvous/node-rank-missing",
    "both nodes have node_rank 0",
    "node-rank-missing or store-wait or master-unreachable",
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run(
        "torchrun --nnodes 2 --nproc_per_node 1 --node_rank 1 --master_addr node1 --master_port 29529 "
        "--rdzv_conf timeout=5 train.py",
        "node2",
    )


@case(
    "rendezvous/double-launch",
    "srun starts two torchruns of one node each on one host",
    "two-agents or port-in-use",
    partly="store-wait",
)
def _(scene: Scene) -> str:
    scene.write("train.py", OK)
    return scene.run("srun -N1 -n2 torchrun --nproc_per_node 1 --master_port 29530 train.py", "login")


@case(
    "rendezvous/node-killed", "node2 dies in the middle of a run of torchrun", "not-in-log or peer-died or store-lost"
)
def _(scene: Scene) -> str:
    trained(scene, fault="    time.sleep(1 if step < 3 else 5)")
    torchrun = "torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint node1:29531 train.py"
    second = scene.start(f"exec {torchrun}", "node2")
    first = scene.start(f"exec {torchrun}", "node1")
    first.wait_for("step 1")
    scene.kill("node2", "train.py")
    second.finish()
    return first.finish()


@case(
    "rendezvous/local-killed",
    "rank 1 of a second node is killed; the log is that of the first",
    "peer-died or not-in-log",
)
def _(scene: Scene) -> str:
    scene.write("train.py", FAULTS["sigkill"].text())
    torchrun = "torchrun --nnodes 2 --nproc_per_node 1 --rdzv_backend c10d --rdzv_endpoint node1:29532 train.py"
    second = scene.start(f"exec timeout 60 {torchrun}", "node2")
    out = scene.run(f"timeout 60 {torchrun}", "node1")
    second.finish()
    return out
