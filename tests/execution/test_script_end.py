"""A script that trained with `ddpkit.distributed.torch`, and did not end torch's threads itself, has succeeded.

One that calls torch alone ends as it would without ddpkit: nothing in it is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command

pytestmark = [pytest.mark.torch, pytest.mark.live]

# A thread of gloo runs Python when the script of rank 0 ends. As a rule it only drops a tensor, for which it needs the
# same lock. Rank 1 joins after the callback was registered: a callback of finished work runs in the main thread.
LATE = """
import time
import torch
import torch.distributed as dist
from ddpkit.distributed.torch import init

init("gloo")
store = dist.distributed_c10d._get_default_store()
began = []


def late(future):
    began.append(True)
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    print("finished", flush=True)


if dist.get_rank() == 1:
    store.wait(["registered"])
    dist.all_reduce(torch.ones(1))
else:
    dist.all_reduce(torch.ones(1), async_op=True).get_future().then(late)
    store.set("registered", "")
    while not began:
        time.sleep(0.001)
"""
# A DistributedDataParallel of a function, as in torch's tutorial: it is freed after its group was destroyed.
# Without `shutdown` a rank hangs in about one of five such ends.
OUTLIVES = """
import os
import torch
import torch.distributed as dist
from ddpkit.distributed.torch import shutdown


def train(name):
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", f"file://{os.getcwd()}/{name}", rank=rank, world_size=count)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    dist.broadcast_object_list([dist.get_rank()])
    shutdown()


for name in range(15):
    train(name)
print("finished", flush=True)
"""
# It neither rests nor ends: the end of the rank does not wait for it for ever.
BUSY = LATE.replace("time.thread_time() + 0.2", "float('inf')")


STARTERS = pytest.mark.parametrize(
    "options", [(), ("-o", "starter=torchrun"), ("-o", "preload=torch")], ids=["ranks", "torchrun", "preload"]
)


@STARTERS
def test_a_thread_of_gloo_finishes_before_python_ends(
    options: tuple[str, ...], start: Callable[..., Command], tmp_path: Path
) -> None:
    (tmp_path / "late.py").write_text(LATE)
    command = start("launch", "-b", "local", "-n", "2", *options, "--", "late.py")
    assert command.end() == 0, command.tail
    assert command.text.count("finished") == 1, command.text


@STARTERS
def test_a_model_that_outlives_its_group_does_not_hang(
    options: tuple[str, ...], start: Callable[..., Command], tmp_path: Path
) -> None:
    (tmp_path / "outlives.py").write_text(OUTLIVES)
    command = start("launch", "-b", "local", "-n", "2", *options, "--", "outlives.py")
    assert command.end() == 0, command.tail
    assert command.text.count("finished") == 2, command.text


def test_it_is_waited_for_only_so_long(start: Callable[..., Command], tmp_path: Path) -> None:
    """The abort is then named as one of torch's own teardown."""
    (tmp_path / "busy.py").write_text(BUSY)
    command = start("launch", "-b", "local", "-n", "2", "--", "busy.py")
    assert command.end() == 134, command.tail
    assert "in torch's own teardown, after the script had ended" in command.text


def test_torch_alone_aborts(start: Callable[..., Command], tmp_path: Path) -> None:
    """Torch does so without ddpkit. If this test fails, torch or Python has changed: is `let_threads_finish` needed?"""
    alone = LATE.replace("from ddpkit.distributed.torch import init\n", "").replace(
        "\ninit(", "\ndist.init_process_group("
    )
    (tmp_path / "late.py").write_text(alone)
    command = start("launch", "-b", "local", "-n", "2", "--", "late.py")
    assert command.end() == 134, command.tail
    assert "in torch's own teardown, after the script had ended" in command.text
