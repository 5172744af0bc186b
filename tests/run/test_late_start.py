"""Ranks whose process group does not start are named, with host and step."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from ddpkit.node.rank import rank_events
from ddpkit.run.timeline import RankTimeline, Timeline, describe_late_start

NOW = 1000.0
STARTED = {"start": 900.0, "python": 901.0, "import": 902.0, "imported": 905.0}
WAITS = {**STARTED, "cuda": 906.0, "meet": 910.0}
CONNECTS = {**WAITS, "connect": 915.0}
READY = {**CONNECTS, "group": 918.0}
WRAPS = {**READY, "wrap": 920.0}


def ranks(*marks: dict[str, float]) -> dict[str, RankTimeline]:
    hosts = ("node1", "node1", "node2", "node2")
    return {
        str(rank): {"host": hosts[rank % 4], "marks": each, "attempts": 1, "bins": []}
        for rank, each in enumerate(marks)
    }


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (ranks(READY, READY, READY, READY), []),
        (ranks(STARTED, STARTED), []),  # a script may do what it likes before
        (
            ranks(CONNECTS, CONNECTS),
            ["rank 0 on node1, rank 1 on node1 in the start of the process group (NCCL, gloo) for 85 s"],
        ),
        (
            ranks(READY, READY, CONNECTS, READY),
            ["rank 2 on node2 in the start of the process group (NCCL, gloo) for 85 s; 3 others are through"],
        ),
        (
            ranks(WAITS, WAITS, STARTED, WAITS),
            [
                (
                    "rank 0 on node1, rank 1 on node1, rank 3 on node2 in the rendezvous for 90 s; "
                    "not there: rank 2 on node2 in: script before the rendezvous"
                )
            ],
        ),
        (
            ranks(WAITS, {"start": 900.0, "python": 901.0, "import": 902.0}),
            ["rank 0 on node1 in the rendezvous for 90 s; not there: rank 1 on node1 in: import torch"],
        ),
        (
            ranks(CONNECTS, WAITS),
            [
                (
                    "rank 0 on node1 in the start of the process group (NCCL, gloo) for 85 s; "
                    "not there: rank 1 on node1 in: rendezvous"
                )
            ],
        ),
        (
            ranks(*[WAITS] * 8, {"start": 900.0}),
            ["ranks 0-7 in the rendezvous for 90 s; not there: rank 8 on node1 in: start of Python"],
        ),
        # torch.init_process_group("nccl") without a device_id: NCCL starts in the first collective.
        (
            ranks(WRAPS, {**WRAPS, "collective": 960.0}, READY, {**READY, "step": 990.0}),
            [
                (
                    "rank 0 on node1 in the first collective (NCCL may start in it) for 80 s; "
                    "not there: rank 2 on node2 in: script before DistributedDataParallel; 2 others are through"
                )
            ],
        ),
        # Seen from outside, without --observe: whether an import is through cannot be seen.
        (
            ranks({"start": 900.0, "import": 902.0, "meet": 910.0}, {"start": 900.0, "import": 902.0}),
            ["rank 0 on node1 in the rendezvous for 90 s; not there: rank 1 on node1 in: script before the rendezvous"],
        ),
        (ranks({"start": 900.0, "import": 902.0, "meet": 910.0, "past": 930.0}), []),  # of a backend without a name
        (ranks({**WAITS, "end": 950.0}, READY), []),  # it has ended, which has a verdict
    ],
)
def test_the_missing_rank_has_its_host_and_its_step(known: dict[str, RankTimeline], words: list[str]) -> None:
    assert describe_late_start(known, NOW) == words
    assert describe_late_start(known, 930.0) == []  # not for longer than a minute


def test_the_launcher_reports_it_once(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path, 2)
    for rank in range(2):
        timeline.record("node1", {"e": "start", "rank": rank, "pid": 1, "t": 1.0})
    timeline.record("node1", {"e": "mark", "rank": 0, "name": "meet", "t": 2.0})
    (words,) = timeline.late_start(describe_late_start)
    assert words.startswith("rank 0 on node1 in the rendezvous for ")
    assert words.endswith("not there: rank 1 on node1 in: script before import torch")
    assert timeline.late_start(describe_late_start) == []


def test_the_start_of_cuda_is_marked_once() -> None:
    calls: list[str] = []
    module = SimpleNamespace(_lazy_init=lambda: calls.append("init"))
    before = module._lazy_init
    rank_events._starting_cuda(module, calls.append)
    module._lazy_init()
    module._lazy_init()
    assert calls == ["init", "cuda", "init"]
    assert module._lazy_init is before
