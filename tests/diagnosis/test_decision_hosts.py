"""Which host of a run a log means."""

from __future__ import annotations

import pytest

from ddpkit.diagnosis.decision import _host_of_name


@pytest.mark.parametrize(
    ("name", "hosts", "meant"),
    [
        ("node1", ["node1.a", "node2.a"], "node1.a"),
        ("node1.b", ["node1", "node2"], "node1"),
        ("node1", ["node1.a", "node1.b"], ""),
        ("10.1.0.1", ["10.0.0.1", "10.0.0.2"], ""),
        ("10.0.0.1", ["10.0.0.1:22", "10.0.0.2:22"], "10.0.0.1:22"),
        ("node1", ["me@node1:2222", "me@node2:2222"], "me@node1:2222"),
    ],
)
def test_a_host_of_a_log_is_one_of_the_run_or_none(name: str, hosts: list[str], meant: str) -> None:
    assert _host_of_name(name, hosts) == meant
