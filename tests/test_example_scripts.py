"""Every example does what its README says, and every ddpkit.toml of the gallery plans what its head says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from conftest import DDPKIT
from test_interop import PYTHON, USERS

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CONFIG = EXAMPLES / "config"
LIBRARIES = ("ddp", "fsdp2", "lightning", "accelerate", "hf_trainer", "deepspeed")
RESULT = re.compile(r"2 ranks: loss ([\d.]+) -> ([\d.]+)")


def written(name: str) -> list[tuple[list[str], tuple[float, ...]]]:
    """The commands of an example's README, each with the losses that the text promises."""
    text = (EXAMPLES / name / "README.md").read_text()
    lines = re.findall(r"^ddpkit (launch .*)$", text, re.MULTILINE)
    losses = [tuple(map(float, found)) for found in RESULT.findall(text)]
    assert len(lines) == len(losses), name
    return [(shlex.split(line), loss) for line, loss in zip(lines, losses, strict=True)]


def run_as_written(name: str, ddpkit: DDPKIT, folder: Path, *options: str) -> None:
    (folder / "examples").symlink_to(EXAMPLES)
    for words, losses in written(name):
        done = ddpkit(words[0], *options, *words[1:])
        assert done.returncode == 0, done.stdout + done.stderr
        shown = RESULT.findall(done.stdout)
        assert len(shown) == 1, done.stdout  # rank 0 alone prints it
        assert tuple(map(float, shown[0])) == pytest.approx(losses, abs=0.05)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_examples_of_torch(name: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    run_as_written(name, ddpkit, tmp_path)
    if name == "fsdp2":
        saved = list((tmp_path / "checkpoint").iterdir())
        assert [len(list(each.glob("*.distcp"))) for each in saved] == [2, 2, 2]  # each rank wrote its shards


@pytest.mark.interop
@pytest.mark.parametrize("name", [name for name in LIBRARIES if name not in ("ddp", "fsdp2")])
def test_examples_of_libraries(name: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    extensions = f"TORCH_EXTENSIONS_DIR={USERS['TORCH_EXTENSIONS_DIR']}"
    run_as_written(name, ddpkit, tmp_path, "--python", str(PYTHON), "--env", extensions)


def test_every_example_is_in_the_table() -> None:
    table = (EXAMPLES / "README.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir()} - {"README.md", "__pycache__", "logs"}
    assert names == set(re.findall(r"^\| \[([\w.-]+)\]", table, re.MULTILINE))
    files = {path.name for path in CONFIG.glob("*.toml")}
    assert files == set(re.findall(r"^\| \[([\w.-]+)\]", (CONFIG / "README.md").read_text(), re.MULTILINE))


SLURM = ("#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=8\n", "#SBATCH --partition=gpu\n", "--gpus-per-node=8\n")


@pytest.mark.parametrize(
    ("file", "options", "facts"),
    [
        ("one-machine", (), ("backend local, 8 ranks on 1 node", "export NCCL_DEBUG=WARN\n", "RANK=7 LOCAL_RANK=7 ")),
        ("one-machine", ("--profile", "debug"), ("2 ranks on 1 node", "export CUDA_LAUNCH_BLOCKING=1\n")),
        ("slurm", (), (*SLURM, "--cpus-per-task=8\n", "--signal=USR1@120\n", "\nmodule load cuda\n", "-lt 3 ]")),
        ("slurm", ("--profile", "short"), ("#SBATCH --nodes=1\n", "#SBATCH --time=10\n", "--partition=gpu\n")),
        ("slurm-enroot", (), (*SLURM, "/shared/images/pytorch.sqsh", "exec enroot start ", "/shared/data:/data")),
        ("laptop", (), ("backend local, 2 ranks on 1 node",)),
        ("laptop", ("--profile", "cluster"), (*SLURM, "#SBATCH --time=4:00:00\n")),
    ],
)
def test_the_gallery(
    file: str, options: tuple[str, ...], facts: tuple[str, ...], ddpkit: DDPKIT, tmp_path: Path
) -> None:
    (tmp_path / "ddpkit.toml").write_text((CONFIG / f"{file}.toml").read_text())
    (tmp_path / "train.py").touch()
    done = ddpkit("launch", *options, "--dry-run", env={"DDPKIT_GPUS": "8"})
    assert done.returncode == 0, done.stderr
    assert "train.py --config config/default.yaml" in done.stdout
    for fact in facts:
        assert fact in done.stdout, done.stdout
