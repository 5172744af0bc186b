"""`ddpkit bench start` on this machine, as users run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.mark.torch
DDPKIT = Callable[..., "subprocess.CompletedProcess[str]"]
CUDA = {"CUDA_VISIBLE_DEVICES": ""}
GOLDEN = Path(__file__).parents[1] / "golden/bench_start_slurm.txt"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--ways", "bare"), "--ways: 'bare' is not one of ranks, torchrun, preload, stage, env"),
        (("--rounds", "0"), "--rounds 0: must be at least 1"),
        (("--timeout", "x"), "--timeout x is not an integer"),
        (("--comm", "mpi"), "--comm: 'mpi' is not one of auto, nccl, gloo"),
        (("--import", "a-b"), "--import: 'a-b' is not the name of a module"),
        (("-N", "1:2"), "bench start requires one number of nodes"),
        (("-n", "2"), "ranks per node were passed twice: 2 and -n 2"),
        (("--min-bytes", "8"), "ddpkit bench start has no option --min-bytes"),
        (("node1",), "backend local runs on this machine only"),
    ],
)
def test_a_wrong_request(args: tuple[str, ...], said: str, ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("bench", "start", "2", *args)
    assert (done.returncode, done.stdout) == (121, ""), done.stdout
    assert f"ddpkit: error: {said}" in done.stderr
    assert "'bench start'" not in done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_host_of_that_name_is_a_host(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "-b", "ssh", "start", "-n", "2", "--dry-run")
    assert "start" in done.stderr
    assert done.returncode == 123, done.stderr  # it does not answer
    assert ddpkit("bench", "start", "--help").stdout == ddpkit("help", "bench", "start").stdout


def test_start_after_a_flag_where_no_host_can_be(ddpkit: DDPKIT) -> None:
    done = ddpkit("bench", "-n", "2", "start", "--rounds", "1")
    assert done.returncode == 121
    assert done.stderr == "ddpkit: error: start comes directly after bench\nhint: ddpkit bench start -n 2 --rounds 1\n"


def test_ways_that_are_not_possible_start_nothing(ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("bench", "start", "2", "--ways", "stage,torchrun+preload")
    assert done.returncode == 121
    assert "stage             not possible: backend local has no option stage\n" in done.stdout
    assert "torchrun+preload  not possible: torchrun starts each rank as a new Python\n" in done.stdout
    assert "no way worked\n" in done.stdout
    assert not (tmp_path / "logs").exists()


def test_the_dry_run_under_slurm_is_the_golden_one(ddpkit: DDPKIT, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    python = tmp_path / "python"
    python.symlink_to("/bin/true")
    args = ["-b", "slurm", "-N", "2", "-n", "4", "--partition", "gpu", "--stage-dir", "/local", "--rounds", "2"]
    done = ddpkit("bench", "start", *args, "--python", str(python), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "logs").exists()
    text = done.stdout.replace(str(tmp_path), "/data/project")
    text = re.sub(r"\d{8}-\d{6}-start-\w{4}", "RUN", text)
    text = re.sub(r"project-[0-9a-f]{20}", "project-0123", text)
    text = re.sub(r"<program [^>]*>", "PROGRAM", text)
    if os.environ.get("DDPKIT_WRITE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@torch
def test_the_ways_on_this_machine(ddpkit: DDPKIT, tmp_path: Path) -> None:
    done = ddpkit("bench", "start", "2", "--rounds", "1", "--ways", "ranks,preload,stage", "--json", env=CUDA)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["schema"], shown["ok"], shown["world_size"], shown["comm"]) == (
        "ddpkit.bench_start/1", True, 2, "gloo",
    )  # fmt: skip
    ranks, preload, stage = shown["ways"]
    for way in (ranks, preload):
        assert way["state"] == "measured"
        assert len(way["seconds"]) == 1
        assert way["first"] > 0
    assert ranks["ratio"] == 1.0
    assert preload["ratio"] == pytest.approx(preload["median"] / ranks["median"])
    assert (stage["state"], stage["reason"]) == ("impossible", "backend local has no option stage")
    assert shown["best"] in ("ranks", "preload")
    assert "first launch: preload" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == []  # the launches left nothing


@torch
def test_a_way_that_fails_is_listed_with_its_cause(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """The module fails under torchrun."""
    (tmp_path / "mine.py").write_text(
        "import os\nif 'TORCHELASTIC_USE_AGENT_STORE' in os.environ:\n    raise ValueError('no')\n"
    )
    args = ["--ways", "torchrun,preload", "--import", "mine", "--rounds", "1"]
    done = ddpkit("bench", "start", "2", *args, env=CUDA)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^torchrun +failed: rank [01] on \S+ failed.*ValueError: no", done.stdout, re.MULTILINE), (
        done.stdout
    )
    assert "preload is the only way that worked" in done.stdout
    (folder,) = (tmp_path / "logs").iterdir()  # of the failed launch
    assert f"ddpkit: output of the ranks: logs/{folder.name}/\n" in done.stderr
    done = ddpkit("bench", "start", "2", "--ways", "torchrun", "--import", "mine", "--rounds", "1", env=CUDA)
    assert done.returncode == 1, done.stderr
    assert "no way worked" in done.stdout
