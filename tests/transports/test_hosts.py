"""Every way to name nodes, and every way to name them wrongly."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ddpkit.config import HostSettings
from ddpkit.distributed.nodelist import expand_nodelist
from ddpkit.errors import EnvError, UsageError
from ddpkit.launchers.host_names import Via
from ddpkit.transports import hosts

GROUPS = {"gpus": ["node[1-2]", "@big"], "big": ["me@big:2222"], "loop": ["@loop"]}
OWN = {
    "node2": HostSettings(slots=3, python="/opt/python", workdir="/data", env={"NCCL_SOCKET_IFNAME": "ib0"}, port=2022)
}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("node1", ["ssh node1"]),
        ("node[1-3,7]", ["ssh node1", "ssh node2", "ssh node3", "ssh node7"]),
        ("node[01-02]", ["ssh node01", "ssh node02"]),
        ("node10,node2", ["ssh node10", "ssh node2"]),  # never sorted
        ("me@node1", ["ssh me@node1"]),
        ("me@node[1-2]:2222", ["ssh -p 2222 me@node1", "ssh -p 2222 me@node2"]),
        ("10.0.0.1:22", ["ssh -p 22 10.0.0.1"]),
        ("2001:db8::7", ["ssh 2001:db8::7"]),
        ("me@[fe80::1%eth0]:2222", ["ssh -p 2222 me@fe80::1%eth0"]),
        ("[::1]", ["ssh ::1"]),
        ("me@corp.example@gate", ["ssh me@corp.example@gate"]),  # a user name with an @, as some sites have
        ("7", ["ssh 7"]),
        ("nöde_1.example", ["ssh nöde_1.example"]),
        ("@gpus", ["ssh node1", "ssh node2", "ssh -p 2222 me@big"]),
    ],
)
def test_words(word: str, expected: list[str]) -> None:
    assert [" ".join(spec.by_hand) for spec in hosts.parse([word], GROUPS, {})] == expected


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["node[1-"], "node[1-"),
        (["node1:"], "node1:"),
        (["node1:x"], "'x'"),
        (["node1:70000"], "'70000'"),
        (["[::1"], "[::1"),
        (["[node1]"], "[node1]"),
        (["-oProxyCommand=evil"], "-oProxyCommand=evil"),
        (["a b"], "a b"),
        (["a;b"], "a;b"),
        (["*"], "'*'"),  # for the resolver that is this machine
        (["node?"], "node?"),
        (["~"], "'~'"),
        (["node1:22:22"], "node1:22:22"),
        (["[fe80::1]:22:22"], "22:22"),
        (["node[1-99999999]"], "more than 65536 hosts"),
        (["a[1-999]b[1-999]"], "more than 65536 hosts"),
        ([""], "''"),
        (["@none"], "@none"),
        (["@loop"], "loop"),
        (["node1", "node1"], "node1 is listed twice"),
        (["node1", "me@node1"], "node1 is listed twice"),
    ],
)
def test_what_names_no_host(words: list[str], named: str) -> None:
    with pytest.raises(UsageError) as error:
        hosts.parse(words, GROUPS, {})
    assert named in error.value.message


def test_what_holds_on_one_host_alone() -> None:
    first, second = hosts.parse(["node[1-2]"], {}, OWN)
    assert (first.slots, first.python, first.port) == (None, "", None)
    assert (second.slots, second.python, second.workdir, second.port) == (3, "/opt/python", "/data", 2022)
    assert second.env == {"NCCL_SOCKET_IFNAME": "ib0"}
    assert hosts.parse(["node2:22"], {}, OWN)[0].port == 22  # what was typed is stronger


def test_hosts_are_left_out() -> None:
    assert [spec.name for spec in hosts.parse(["node[1-4]"], {}, {}, "node3 node[1-2]")] == ["node4"]
    assert [spec.name for spec in hosts.parse(["@gpus"], GROUPS, {}, "@big")] == ["node1", "node2"]
    with pytest.raises(UsageError, match="node5 is not one of the hosts"):
        hosts.parse(["node[1-4]"], {}, {}, "node5")
    with pytest.raises(UsageError, match="leaves no host"):
        hosts.parse(["node1"], {}, {}, "node1")


def test_host_files(tmp_path: Path) -> None:
    text = """
    # DeepSpeed and OpenMPI
    node10 slots=4 max_slots=8
    me@node2 slots=2 port=2222   # a comment

    node3:8
    node4
    node4
    node5
    node6 slots=0
    """
    specs = hosts.parse_file("hosts.txt", text, {})
    assert [(spec.name, spec.user, spec.port, spec.slots) for spec in specs] == [
        ("node10", "", None, 4),
        ("node2", "me", 2222, 2),
        ("node3", "", None, 8),
        ("node4", "", None, 2),
        ("node5", "", None, None),
    ]


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("node1 slots=x", "node1"),
        ("node1 slots", "node1"),
        ("node1 gpus=4", "node1 slots=4"),
        ("node1 4 port=22", "node1 slots=4 port=22"),
        ("node1 slots=-1", "node1"),
        ("node1 slots=9999999", "node1"),
        ("node1 port=70000", "node1"),
    ],
)
def test_a_wrong_line_is_named(line: str, corrected: str, tmp_path: Path) -> None:
    """Its hint has the corrected line; nothing writes to the user's file."""
    file = tmp_path / "hosts.txt"
    file.write_text(f"node0\n{line}\n")
    with pytest.raises(UsageError) as error:
        hosts.parse_file(str(file), file.read_text(), {})
    assert f"hosts.txt, line 2: {line}" in error.value.message
    assert error.value.hint == f"write line 2 of {shlex.quote(str(file))} as: {corrected}"
    assert len(hosts.parse_file(str(file), f"node0\n{corrected}\n", {})) == 2


def test_a_line_without_a_name_has_no_corrected_form() -> None:
    with pytest.raises(UsageError, match=r"line 1: \}\{bad line: line is not valid") as error:
        hosts.parse_file("hosts.txt", "}{bad line\n", {})
    assert error.value.hint == "write one host on each line, for example node1 slots=4"


def test_a_file_from_windows() -> None:
    text = "\ufeffnode1 slots=1\r\n# both\r\n\r\nnode2 slots=2\r\n"
    assert [(spec.name, spec.slots) for spec in hosts.parse_file("hosts.txt", text, {})] == [("node1", 1), ("node2", 2)]


def test_an_empty_file() -> None:
    with pytest.raises(UsageError, match="contains no host"):
        hosts.parse_file("hosts.txt", "# nothing\n", {})


HOSTILE_PLACES = [
    "--log-file=/tmp/pwned@node1",
    "-oProxyCommand=id@node1",
    "-oProxyCommand=id",
    "$(id)@node1",
    "a;id@node1",
    "a b@node1",
    "me%r@node1",
    "node1;id",
    "$(id)",
    "`id`",
    "node1\nnode2",
    "fe80::1%$(id)",
    "[fe80::1%eth0;id]:22",
    "x" * 300,
    "node1:0x16",
    "node1:99999",
]


SOURCES: dict[str, Callable[[str], object]] = {
    "words": lambda place: hosts.parse([place], {}, {}),
    "a group": lambda place: hosts.parse(["@g"], {"g": [place]}, {}),
    "a host file": lambda place: hosts.parse_file("hosts", place.replace("\n", ";"), {}),
    "exclude": lambda place: hosts.parse(["node1"], {}, {}, exclude=place.replace("\n", ";")),
    "a user of ddpkit.toml": lambda place: hosts.parse(["node1"], {}, {"node1": HostSettings(user=place)}),
    "a host": lambda place: hosts.HostSpec(name=place.rpartition("@")[2], user=place.rpartition("@")[0]),
    "a login host": lambda place: Via(host=place.rpartition("@")[2], user=place.rpartition("@")[0]),
}


@pytest.mark.parametrize("place", HOSTILE_PLACES)
@pytest.mark.parametrize("source", SOURCES)
def test_no_source_makes_a_host_of_an_option_or_of_shell_text(place: str, source: str) -> None:
    """`--log-file=...@node1` in a host file became an option of rsync."""
    with pytest.raises(UsageError) as refused:
        SOURCES[source](place)
    assert len(refused.value.message) < 1000


@pytest.mark.parametrize("nodes", ["-oProxyCommand=id", "node1,$(id)", "node[1-2];id", "a\nb", "--exclude=x"])
def test_the_node_list_of_slurm_has_names_alone(nodes: str) -> None:
    with pytest.raises(EnvError):
        expand_nodelist(nodes)


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("me", "node1"),
        ("DOM\\me", "node1"),
        ("me@REALM.X", "node-1.x"),
        ("", "fe80::1%eth0.7"),
        ("", "2001:db8::7"),
    ],
)
def test_usual_names_of_users_and_hosts(user: str, name: str) -> None:
    assert hosts.HostSpec(name=name, user=user).name == name


def test_a_group_in_a_host_file() -> None:
    specs = hosts.parse_file("hosts.txt", "n1\n@team slots=2\n", {}, groups={"team": ["n[2-3]"]})
    assert [(spec.name, spec.slots) for spec in specs] == [("n1", None), ("n2", 2), ("n3", 2)]
    with pytest.raises(UsageError, match="group @none not found"):
        hosts.parse_file("hosts.txt", "@none\n", {})
