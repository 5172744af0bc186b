"""A request that a partition can never satisfy, in words."""

from __future__ import annotations

import pytest

from ddpkit.launchers.slurm_limits import compare_request, double_time

# Fields as Slurm 22.05 and 24.11 print them.
MAIN = "MaxNodes=UNLIMITED MaxTime=UNLIMITED State=UP TRES=cpu=32,mem=4000M,node=4,billing=32,gres/gpu=8"
SHORT = "MaxNodes=2 MaxTime=01:00:00 State=UP TRES=cpu=32,mem=4000M,node=4"


@pytest.mark.parametrize(
    ("asked", "limits", "words"),
    [
        ("TimeLimit=UNLIMITED Partition=main TRES=cpu=9,node=9", MAIN, "requested 9 nodes; partition main has 4"),
        (
            "TimeLimit=1:00 ReqTRES=cpu=72,mem=9M,node=9,billing=9",
            MAIN,
            "9 nodes, 72 CPUs; partition main has 4 nodes, 32 CPUs",
        ),
        ("TRES=node=1,gres/gpu=9", MAIN, "requested 9 GPUs; partition main has 8"),
        ("TRES=mem=8G,node=1", MAIN, "requested 8G of memory; partition main has 4000M"),
        ("TimeLimit=1-00:00:00 TRES=node=1", SHORT, "requested a time of 1-00:00:00; partition main allows 01:00:00"),
        (
            "TimeLimit=02:00:00 TRES=node=3",
            SHORT,
            "3 nodes, a time of 02:00:00; partition main allows 2 nodes, 01:00:00",
        ),
        ("TRES=node=3", SHORT, "requested 3 nodes; partition main allows 2"),
        ("TRES=node=1", SHORT.replace("=UP", "=DOWN"), "partition main is DOWN"),
        ("TimeLimit=01:00:00 TRES=cpu=32,mem=4000M,node=2", SHORT, ""),
        ("TRES=node=9", "", ""),
    ],
)
def test_only_what_exceeds(asked: str, limits: str, words: str) -> None:
    found = compare_request(asked, "main", limits)
    assert found.endswith(words) if words else found == ""


@pytest.mark.parametrize(
    ("limit", "twice"), [("00:01:00", "0:02:00"), ("1-00:00:00", "48:00:00"), ("UNLIMITED", "2:00:00")]
)
def test_a_longer_time(limit: str, twice: str) -> None:
    assert double_time(limit) == twice
