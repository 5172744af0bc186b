"""A launcher in the command of a rank is found wherever it stands, and nothing else is taken for one."""

from __future__ import annotations

import shlex

import pytest

from ddpkit.launchers.command_line import find_launcher, launchers_in, of_shell, split_python, uv_project

# command -> launcher, the script that it would start, the number of its ranks
FOUND = {
    "torchrun --nproc-per-node 2 ok.py": ("torchrun", "ok.py", "2"),
    "torchrun --standalone --nproc_per_node=4 ok.py --x 1": ("torchrun", "ok.py --x 1", "4"),
    "torchrun -m --nproc-per-node 2 pkg.train a": ("torchrun", "-m pkg.train a", "2"),
    "/opt/venv/bin/torchrun ok.py": ("torchrun", "ok.py", ""),
    "torchrun": ("torchrun", "", ""),
    "python -m torch.distributed.run --nproc-per-node 2 ok.py": ("torchrun", "ok.py", "2"),
    "python3 -u -m torch.distributed.launch --use_env ok.py": ("torchrun", "ok.py", ""),
    "-m torch.distributed.run ok.py": ("torchrun", "ok.py", ""),
    "accelerate launch --num_processes 2 ok.py": ("accelerate launch", "ok.py", "2"),
    "accelerate launch --num_processes 16 --num_machines 2 --machine_rank 1 --main_process_ip n1 ok.py --lr 1": (
        "accelerate launch",
        "ok.py --lr 1",
        "8",
    ),
    "accelerate launch --multi_gpu --num_processes=2 -m pkg.ok": ("accelerate launch", "-m pkg.ok", "2"),
    "accelerate launch --use_fsdp --num_processes 2 ok.py": ("accelerate launch", "", ""),
    "accelerate launch --config_file c.yaml ok.py": ("accelerate launch", "", ""),
    "deepspeed --num_gpus=2 ok.py": ("deepspeed", "", ""),
    "mpirun -np 2 python ok.py": ("mpirun", "", ""),
    "srun --label -n 8 python -u ok.py": ("srun", "ok.py", "8"),
    "ddpkit launch -n 2 -- ok.py": ("ddpkit launch", "ok.py", "2"),
    "python -m ddpkit launch ok.py": ("ddpkit launch", "ok.py", ""),
    "bash -c 'torchrun --nproc-per-node 2 ok.py'": ("torchrun", "ok.py", "2"),
    "bash -lc 'source x && FOO=1 torchrun ok.py'": ("torchrun", "env FOO=1 python ok.py", ""),
    "sh -c 'cd /data\ntorchrun ok.py'": ("torchrun", "ok.py", ""),
    "env FOO=1 torchrun -m pkg.train a": ("torchrun", "env FOO=1 python -m pkg.train a", ""),
    "timeout 1h torchrun ok.py": ("torchrun", "timeout 1h python ok.py", ""),
    "numactl --cpunodebind=0 torchrun ok.py": ("torchrun", "numactl --cpunodebind=0 python ok.py", ""),
    "numactl --cpunodebind 0 --membind 0 torchrun ok.py": (
        "torchrun",
        "numactl --cpunodebind 0 --membind 0 python ok.py",
        "",
    ),
    "env -u FOO torchrun ok.py": ("torchrun", "env -u FOO python ok.py", ""),
    "env -S 'torchrun ok.py'": ("torchrun", "env python ok.py", ""),
    "timeout -k 5 10m nice -n 10 torchrun ok.py": ("torchrun", "timeout -k 5 10m nice -n 10 python ok.py", ""),
    "bash -euo pipefail -c 'while true; do torchrun ok.py; done'": ("torchrun", "ok.py", ""),
    "uv run torchrun --nproc-per-node 2 ok.py": ("torchrun", "uv run python ok.py", "2"),
    "uv run --frozen --extra cuda -- torchrun ok.py a": (
        "torchrun",
        "uv run --frozen --extra cuda -- python ok.py a",
        "",
    ),
    "uv run --with torch torchrun -m pkg.train": ("torchrun", "uv run --with torch python -m pkg.train", ""),
    "uv run python -m torch.distributed.run ok.py": ("torchrun", "uv run python ok.py", ""),
    "conda run -n env --no-capture-output torchrun ok.py": (
        "torchrun",
        "conda run -n env --no-capture-output python ok.py",
        "",
    ),
    "poetry run torchrun ok.py": ("torchrun", "poetry run python ok.py", ""),
    "pixi run -e gpu accelerate launch ok.py": ("accelerate launch", "pixi run -e gpu python ok.py", ""),
    "nsys profile -o out --trace=cuda,nvtx torchrun ok.py": (
        "torchrun",
        "nsys profile -o out --trace=cuda,nvtx python ok.py",
        "",
    ),
    "env A=1 uv run bash -c 'torchrun ok.py'": ("torchrun", "env A=1 uv run python ok.py", ""),
    "apptainer exec --nv image.sif torchrun ok.py": ("torchrun", "apptainer exec --nv image.sif python ok.py", ""),
    # Wrappers of any name, with options of any kind.
    "uv --project /x run torchrun ok.py": ("torchrun", "uv --project /x run python ok.py", ""),
    "poetry -C x run torchrun ok.py": ("torchrun", "poetry -C x run python ok.py", ""),
    "python -m poetry run torchrun ok.py": ("torchrun", "-m poetry run python ok.py", ""),
    "doppler run -- torchrun ok.py": ("torchrun", "doppler run -- python ok.py", ""),
    "unbuffer torchrun ok.py": ("torchrun", "unbuffer python ok.py", ""),
    "taskset 0xff torchrun ok.py": ("torchrun", "taskset 0xff python ok.py", ""),
    "perf record -g torchrun ok.py": ("torchrun", "perf record -g python ok.py", ""),
    "apptainer exec --nv -B /data:/data image.sif torchrun ok.py": (
        "torchrun",
        "apptainer exec --nv -B /data:/data image.sif python ok.py",
        "",
    ),
    "docker run --gpus all image torchrun ok.py": ("torchrun", "docker run --gpus all image python ok.py", ""),
    "conda run -n deepspeed torchrun ok.py": ("torchrun", "conda run -n deepspeed python ok.py", ""),
    "srun -N2 --ntasks-per-node=1 torchrun --nproc-per-node 4 ok.py": ("srun", "ok.py", "4"),
    # Programs that run a Python file, and none of another kind.
    "python -m debugpy --listen 5 -m torch.distributed.run ok.py": ("torchrun", "-m debugpy --listen 5 ok.py", ""),
    "coverage run -m torch.distributed.run ok.py": ("torchrun", "coverage run ok.py", ""),
    "python -Im torch.distributed.run ok.py": ("torchrun", "ok.py", ""),
    "python -u /x/torch/distributed/run.py ok.py": ("torchrun", "ok.py", ""),
    "python /opt/bin/torchrun ok.py": ("torchrun", "ok.py", ""),
    # What only a shell knows is not in the hint.
    "env -S 'A=1 torchrun --nproc-per-node 2 ok.py'": ("torchrun", "env A=1 python ok.py", "2"),
    "env --split-string='torchrun ok.py'": ("torchrun", "env python ok.py", ""),
    "bash -c 'exec -a x torchrun ok.py'": ("torchrun", "ok.py", ""),
    "bash -c 'A=1 B=2 torchrun ok.py 2>&1 | tee log'": ("torchrun", "env A=1 B=2 python ok.py", ""),
    "bash -c 'python $(which torchrun) ok.py'": ("torchrun", "ok.py", ""),
    "bash -c 'eval \"torchrun ok.py\"'": ("torchrun", "ok.py", ""),
    "bash -c 'if true; then torchrun ok.py; fi'": ("torchrun", "ok.py", ""),
    "env A=1 bash -c 'nice bash -c \"torchrun ok.py\"'": ("torchrun", "env A=1 nice python ok.py", ""),
    "flock /tmp/lock -c 'torchrun ok.py'": ("torchrun", "ok.py", ""),
    "tune run --nproc_per_node 4 full_finetune --config c": ("tune run", "tune run full_finetune --config c", "4"),
}
NONE = (
    "train.py --x torchrun",
    "python train.py torchrun",
    "python -c 'print(1)' torchrun",
    "-m pkg.train",
    "accelerate env",
    "ddpkit env",
    "python -m ddpkit env",
    "bash -c 'echo torchrun'",
    "bash train.sh torchrun",
    "bash train.sh torchrun ok.py",
    "bash -eu train.sh -c 'torchrun ok.py'",
    "python main torchrun ok.py",
    "python -W ignore app.zip torchrun ok.py",
    "bash -c",
    "bash -c 'unfinished \"quote'",
    "env",
    "sleep 1",
    "uv run train.py torchrun",
    "uv run python train.py torchrun",
    "uv sync",
    "uv run --with torchrunx train.py",
    "conda run -n torch python train.py",
    "conda run -n torch my-program torchrun",
    "conda run -n deepspeed python ok.py",
    "conda run -n accelerate my-program --launcher torchrun config.py",
    "my-program --launcher torchrun config.py",
    "bash -c 'echo torchrun ok.py'",
    "bash -c 'which torchrun && python ok.py'",
    "python -m pkg.train torchrun ok.py",
    "coverage run ok.py torchrun",
    "numactl -m 0 python ok.py",
    "nsys profile -o out python train.py",
    "tune run full_finetune --config c",
    "tune download x",
    "apptainer exec image.sif python ok.py",
)


@pytest.mark.parametrize("command", FOUND)
def test_a_launcher_is_found(command: str) -> None:
    found = find_launcher(shlex.split(command))
    assert found is not None
    assert (found.name, shlex.join(found.script), found.count) == FOUND[command]
    unread = found.name == "accelerate launch" and not found.script
    assert bool(found.hint) == (unread or found.name in ("deepspeed", "mpirun"))


# A shell's script, and the launchers in it. In brackets: a condition can leave it out.
IN_SHELL = {
    "torchrun ok.py": "torchrun",
    "# torchrun ok.py": "",
    "A=1  # one\ntorchrun ok.py  # last": "torchrun",
    "echo '# no comment'; torchrun ok.py": "torchrun",
    "echo 'a # b'\ntorchrun ok.py": "torchrun",
    "[ $# -gt 0 ]\ntorchrun ok.py": "torchrun",
    "cd x || exit 1\ntorchrun \\\n  --nproc-per-node $N ok.py": "torchrun",
    "{ torchrun ok.py; }": "torchrun",
    "cd x && torchrun ok.py": "[torchrun]",
    '[ -n "$RANK" ] || exec torchrun ok.py': "[torchrun]",
    'if [ -n "$RANK" ]; then\n  exec python ok.py\nfi\nexec torchrun ok.py': "[torchrun]",
    '[ -n "$RANK" ] && exec python ok.py\ntorchrun ok.py': "[torchrun]",
    '[ -z "$RANK" ] && { echo one; torchrun ok.py; }\nsrun ok.py': "[torchrun] srun",
    '[ -n "$RANK" ] && { echo two; exec python ok.py; }\ntorchrun ok.py': "[torchrun]",
    "cd x || { echo no x; exit 1; }\ntorchrun ok.py": "torchrun",
    "cat > hosts <<EOF\nsrun nothing here\nEOF\nexec python ok.py": "",
    "cat <<-'E O'\n\tx\n": "",
    "srun --version; torchrun --help > /dev/null; mpirun --version": "",
    "for lr in 1 2; do python -m torch.distributed.run ok.py; done": "torchrun",
    "run() { srun python ok.py; }; run": "[srun]",
    'if [ -n "$RANK" ]; then python ok.py; else torchrun ok.py; fi': "[torchrun]",
    "if true; then if true; then true; fi; torchrun ok.py; fi; srun ok.py": "[torchrun] srun",
    "case $1 in a) torchrun ok.py ;; esac": "[torchrun]",
    "python prepare.py; accelerate launch ok.py": "accelerate launch",
    "python ok.py torchrun": "",
}


@pytest.mark.parametrize("text", IN_SHELL)
def test_launchers_in_the_script_of_a_shell(text: str) -> None:
    found = [f"[{nested.name}]" if conditional else nested.name for nested, conditional in launchers_in(text)]
    assert " ".join(found) == IN_SHELL[text]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("bash train.sh a", "train.sh a"),
        ("bash -eu -o pipefail train.sh", "train.sh"),
        ("env A=1 nice sh train.sh", "train.sh"),
        ("bash -c 'torchrun ok.py'", ""),
        ("./train.sh bash", ""),
        ("python bash train.sh", ""),
        ("bash", ""),
    ],
)
def test_the_script_of_a_shell(command: str, script: str) -> None:
    assert shlex.join(of_shell(shlex.split(command))) == script


@pytest.mark.parametrize("command", NONE)
def test_nothing_else_is_a_launcher(command: str) -> None:
    assert find_launcher(shlex.split(command)) is None


@pytest.mark.parametrize(
    ("command", "python", "script"),
    [
        ("python train.py --x", "python", "train.py --x"),
        ("python3.12 -u train.py", "python3.12", "train.py"),
        ("python3 -m pkg.train -u", "python3", "-m pkg.train -u"),
        ("python -c 'print(1)'", "python", "-c 'print(1)'"),
        ("python -O train.py", "", "python -O train.py"),
        ("python", "", "python"),
        ("python -u", "", "python -u"),
        ("/opt/venv/bin/python train.py", "", "/opt/venv/bin/python train.py"),
        ("train.py python", "", "train.py python"),
    ],
)
def test_python_in_front_of_its_script(command: str, python: str, script: str) -> None:
    found = split_python(shlex.split(command))
    assert (found[0], shlex.join(found[1])) == (python, script)


@pytest.mark.parametrize(
    ("command", "runner", "script"),
    [
        ("uv run train.py --x", "uv run", "train.py --x"),
        ("uv run --frozen --extra cuda -p 3.12 python -u train.py", "uv run --frozen --extra cuda -p 3.12", "train.py"),
        ("/opt/uv run --project=/p -- python -m pkg.train a", "/opt/uv run --project=/p", "-m pkg.train a"),
        ("uv run -m pkg.train", "uv run", "-m pkg.train"),
        ("uv --project /p -q run --frozen train.py", "uv --project /p -q run --frozen", "train.py"),
        ("uv run --with rich train.py", "", ""),
        ("uv run --isolated train.py", "", ""),
        ("uv run --script train.py", "", ""),
        ("uv run my-program", "", ""),
        ("uv run", "", ""),
        ("uv sync", "", ""),
        ("uv -q sync run train.py", "", ""),
        ("python uv run", "", ""),
    ],
)
def test_the_project_that_uv_would_run_in(command: str, runner: str, script: str) -> None:
    found = uv_project(shlex.split(command))
    assert (shlex.join(found[0]), shlex.join(found[1])) == (runner, script)
