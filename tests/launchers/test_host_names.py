"""Names of hosts as people read them."""

from __future__ import annotations

import pytest

from ddpkit.launchers.host_names import format_hosts


@pytest.mark.parametrize(
    ("hosts", "folded"),
    [
        (["node1", "node2"], "node1, node2"),
        ([f"node{number}" for number in range(1, 1001)], "node[1-1000]"),
        (
            [f"gpu-{number:03d}.x" for number in (1, 2, 3, 5, 10, 11, 12, 99, 100)],
            "gpu-[001-003,005,010-012,099-100].x",
        ),
        ([*"abcdefgh", "n1", "n2"], "a, b, c, d, e, f, g, h, n[1-2]"),
        ([f"r{rack}n{node}" for rack in (1, 2) for node in range(8)], "r1n[0-7], r2n[0-7]"),
    ],
)
def test_many_hosts_are_folded(hosts: list[str], folded: str) -> None:
    assert format_hosts(hosts) == folded
