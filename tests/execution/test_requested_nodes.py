"""Ranks on each node, as words, lists and host files request them: the same over SSH and under SLURM."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpkit.config import HostSettings, Keywords, LaunchSettings, collect_settings
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


ONE_FILE = 'hostfile = "three"\n[profiles.two]\nhosts = ["p1", "p2"]\n'


@pytest.mark.parametrize(
    ("toml", "environ", "profile", "given", "expected"),
    [
        (ONE_FILE, {}, None, {}, "f1 f2 f3"),
        (ONE_FILE, {"DDPKIT_HOSTS": "a,b"}, None, {}, "a b"),
        (ONE_FILE, {}, "two", {}, "p1 p2"),
        (ONE_FILE, {"DDPKIT_HOSTFILE": "three"}, "two", {}, "f1 f2 f3"),
        (ONE_FILE, {"DDPKIT_HOSTS": "a,b"}, "two", {"hostfile": "three"}, "f1 f2 f3"),
        ('hosts = ["t1"]', {"DDPKIT_HOSTFILE": "three"}, None, {}, "f1 f2 f3"),
        ('hosts = ["t1"]', {}, None, {"options": {"nodelist": "n1"}}, ""),
        ('options = {nodelist = "n1"}', {"DDPKIT_HOSTS": "a"}, None, {}, "a"),
        ('hosts = ["t1"]\nhostfile = "three"', {}, None, {}, "passed twice"),
        ("", {"DDPKIT_HOSTS": "a", "DDPKIT_HOSTFILE": "three"}, None, {}, "passed twice"),
    ],
)
def test_nodes_of_a_later_source_replace_earlier_ones(
    toml: str,
    environ: dict[str, str],
    profile: str | None,
    given: Keywords,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ddpkit.toml").write_text(toml)
    (tmp_path / "three").write_text("f1\nf2\nf3\n")
    settings = collect_settings(tmp_path, environ, profile, given)
    if expected == "passed twice":
        with pytest.raises(UsageError, match="hosts were passed twice"):
            scheduled_hosts(settings)
        return
    assert scheduled_hosts(settings)[0] == tuple(expected.split())
    assert bool(settings.options.get("nodelist")) is (not expected)


@pytest.mark.parametrize(
    ("toml", "environ", "given", "counts"),
    [
        ('hosts = ["n1:4", "n2:8"]', {}, {"nproc_per_node": (1, 2)}, (1, 2)),
        ("nproc_per_node = [1, 2]", {"DDPKIT_HOSTS": "n1:4,n2:8"}, {}, (4, 8)),
        ('hosts = ["n1", "n2"]\n[host.n1]\nslots = 4', {"DDPKIT_NPROC_PER_NODE": "2"}, {}, ()),
        ('nproc_per_node = 2\nhosts = ["n1", "n2"]\n[host.n1]\nslots = 4', {}, {}, (4, 2)),
    ],
)
def test_ranks_of_a_later_source_replace_earlier_ones(
    toml: str, environ: dict[str, str], given: Keywords, counts: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "ddpkit.toml").write_text(toml)
    assert scheduled_hosts(collect_settings(tmp_path, environ, None, given)) == (("n1", "n2"), counts)


def test_ssh_refuses_more_numbers_than_hosts() -> None:
    with pytest.raises(UsageError, match="-n 1,2,3 has 3 numbers, for 2 nodes"):
        over_ssh(LaunchSettings(hosts=BOTH, nproc_per_node=(1, 2, 3)))


def test_a_number_of_ranks_is_no_port_of_ssh() -> None:
    with pytest.raises(UsageError) as error:
        over_ssh(LaunchSettings(backend="ssh", hosts=("node[1-2]:2",)))
    assert error.value.message == "node1:2: 2 is not the port of an SSH server"
    assert error.value.hint == "for 2 ranks on each node: -n 2"
