"""What shows once ranks run: `ddpkit test` over ssh names one host of four, or one rank, with cause and fix, soon.

And on one machine. SLURM: test_preflight_slurm.py.
"""

from __future__ import annotations

import pytest
from bare_nodes import Bare
from cluster import NODES
from launching import mostly
from preflight_rows import Row, examine, named
from rank_faults import RANKS

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", RANKS)
@pytest.mark.thorough_for("bus-error", "segfault", "rank-0-stopped", "large-packets-of-one", "killed", "hangs-at-torch")
def test_one_rank_of_four_over_ssh(bare: Bare, name: str) -> None:
    row = RANKS[name]
    more = row.fault(bare)
    named(row, examine(bare, "-b", "ssh", *NODES, "-n", "1", "-o", "starter=ranks", *more))


@pytest.mark.parametrize(
    "name", mostly(["killed", "stopped", "large-packets", "never-starts"], "killed", "never-starts")
)
@pytest.mark.thorough_for("never-starts")
def test_the_same_under_torchrun(bare: Bare, name: str) -> None:
    row = RANKS[name]
    more = row.fault(bare)
    named(row, examine(bare, "-b", "ssh", *NODES[:3], "-n", "1", "-o", "starter=torchrun", *more))


def test_uneven_ranks_are_warned_of(bare: Bare) -> None:
    """L13: torch says nothing."""
    (bare.folder / "hosts").write_text("node1 slots=2\nnode2 slots=1\n")
    row = Row(
        fault=lambda _: [],
        id="ranks",
        host="node2",
        evidence="1 ranks? on this node, 2 on node1",
        cause="world",
        doc="uneven-ranks",
        level="warn",
    )
    named(row, examine(bare, "-b", "ssh", "--hostfile", "hosts", "-o", "starter=ranks"))


def test_several_pairs_at_once(bare: Bare) -> None:
    """Each pair that does not get on, by its own name."""
    for host, other in (("node2", "node1"), ("node4", "node3")):
        bare.firewall(host, f"ip saddr {bare.lab.address[other]} meta length > 1000 drop")
    done = examine(bare, "-b", "ssh", *NODES, "-n", "1", "-o", "starter=ranks")
    assert done.code == 122, done.text
    said = {(check["host"], check["evidence"].partition(":")[0]) for check in done.bad()}
    assert said == {
        ("node2", "gloo all_reduce fails with rank 0 on node1"),
        ("node4", "gloo all_reduce fails with rank 2 on node3"),
    }, done.text
