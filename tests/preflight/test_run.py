"""Tests of the stages of a preflight: which failed check puts a node aside."""

from __future__ import annotations

import pytest

from ddpkit.preflight.check import Check
from ddpkit.preflight.run import first_fault


def check(host: str, status: str = "fail", doc: str = "disk-full") -> Check:
    return Check(id="disk", status=status, host=host, evidence="full", doc=doc)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checks", "host", "found"),
    [
        pytest.param([check("node1")], "node1", True, id="a fault of the node"),
        pytest.param([check("login")], "node1", False, id="a fault of the launcher's host"),
        pytest.param([check("login")], "login", True, id="the launcher runs on the node"),
        pytest.param([check("login"), check("node1.site")], "node1", True, id="the node's own name is longer"),
        pytest.param([check("node1", "warn")], "node1", False, id="a warning"),
        pytest.param([check("node1", doc="module-missing")], "node1", False, id="no torch"),
        pytest.param([check("")], "node1", False, id="of no host"),
    ],
)
def test_the_fault_that_puts_a_node_aside(checks: list[Check], host: str, found: bool) -> None:
    assert (first_fault(checks, host, "login") is not None) == found
