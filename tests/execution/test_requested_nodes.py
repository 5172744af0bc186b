"""Ranks on each node, as words, lists and host files request them: the same over SSH and under SLURM."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.config import HostSettings, LaunchSettings
from ddpkit.errors import UsageError
from ddpkit.execution.requested_nodes import named_hosts, scheduled_hosts
from ddpkit.launchers import registry
from ddpkit.launchers.backends import NodeOptions

FLAGS = {"nproc_per_node": "flag"}
GIVEN = LaunchSettings(hosts=("node2", "node1"), sources=FLAGS)
UNEVEN = LaunchSettings(hosts=("node2", "node1"), nproc_per_node=(4, 8), sources=FLAGS)
BOTH = ("node2", "node1")


def over_ssh(settings: LaunchSettings) -> list[tuple[str, int | None]]:
    backend = registry.build(registry.load("ssh"), {})
    return [(spec.name, spec.slots) for spec in named_hosts(settings, backend, NodeOptions())]


def test_a_list_of_numbers_is_the_same_over_ssh_and_under_slurm() -> None:
    assert over_ssh(UNEVEN) == [("node2", 4), ("node1", 8)]
    assert scheduled_hosts(UNEVEN) == (BOTH, (4, 8))
    assert scheduled_hosts(LaunchSettings(nproc_per_node=(4, 8))) == ((), (4, 8))


def test_a_host_file_is_the_same_over_ssh_and_under_slurm(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("node2 slots=4\nnode1:8\n")
    settings = LaunchSettings(hostfile=str(path))
    assert over_ssh(settings) == [("node2", 4), ("node1", 8)]
    assert scheduled_hosts(settings) == (BOTH, (4, 8))
    stronger = LaunchSettings(hostfile=str(path), nproc_per_node=2, sources=FLAGS)
    assert over_ssh(stronger) == [("node2", None), ("node1", None)]  # two on each
    assert scheduled_hosts(stronger) == (BOTH, ())


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        (LaunchSettings(hosts=("node2:4", "node1:8")), (4, 8)),
        (LaunchSettings(hosts=("node2:4", "node1"), nproc_per_node=2, sources=FLAGS), (4, 2)),
        (LaunchSettings(hosts=BOTH, host={"node2": HostSettings(slots=3, port=2222)}, nproc_per_node=2), (3, 2)),
        (LaunchSettings(hosts=("@all",), groups={"all": ("node2:1", "node1:2")}), (1, 2)),
        (GIVEN, ()),
    ],
)
def test_words_for_slurm(settings: LaunchSettings, counts: tuple[int, ...]) -> None:
    assert scheduled_hosts(settings) == (BOTH, counts)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (LaunchSettings(hosts=("node2:4", "node1")), "node1 has no number of ranks, and other hosts have one"),
        (
            LaunchSettings(hosts=("node2:4", "node1:2"), nproc_per_node=(1, 2)),
            "passed twice: node2:4 node1:2 and -n 1,2",
        ),
        (LaunchSettings(hosts=BOTH, nproc_per_node=(1, 2, 3)), "-n 1,2,3 has 3 numbers, for 2 nodes"),
        (LaunchSettings(hosts=BOTH, nnodes=3), "3 nodes requested, and 2 hosts given"),
        (LaunchSettings(hosts=("node2:5000",)), "node2:5000: must be at most 4096"),
    ],
)
def test_words_that_slurm_does_not_get(settings: LaunchSettings, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        scheduled_hosts(settings)
    assert text in caught.value.message
    assert caught.value.hint


def test_ssh_refuses_more_numbers_than_hosts() -> None:
    with pytest.raises(UsageError, match="-n 1,2,3 has 3 numbers, for 2 nodes"):
        over_ssh(LaunchSettings(hosts=BOTH, nproc_per_node=(1, 2, 3)))


def test_a_number_of_ranks_is_no_port_of_ssh() -> None:
    with pytest.raises(UsageError) as error:
        over_ssh(LaunchSettings(backend="ssh", hosts=("node[1-2]:2",)))
    assert error.value.message == "node1:2: 2 is not the port of an SSH server"
    assert error.value.hint == "for 2 ranks on each node: -n 2"
