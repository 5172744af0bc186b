"""Bad nodes: who is blamed, how long it lasts, and a file that many launches write and anybody may damage."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from conftest import DDPKIT

from ddpkit.diagnosis.catalogue import BY_ID, ENTRIES
from ddpkit.diagnosis.decide import analyze_log
from ddpkit.diagnosis.outcome import Diagnosis, Failure, Outcome
from ddpkit.run import bad_nodes
from ddpkit.run.bad_nodes import HOUR, BadNode

NOW = 1.8e9
DAY = 24 * HOUR
ECC = "[3 node2] RuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def node(host: str, id: str = "gpu-ecc", now: float = NOW) -> BadNode:  # noqa: A002
    return bad_nodes.bad_node(host, id, "evidence", "run", now)


def failed(kernel: str = "", log: str = "") -> Outcome:
    """What a launch knows at its end: a rank failed, the log shows a cause, and the kernel says something."""
    first = analyze_log([("all.log", log)]).first
    diagnosis = Diagnosis(cause="", fix="", id=first.id) if first is not None else None
    return Outcome(failure=Failure(host="node2", rank=3, what="rank", code=1, diagnosis=diagnosis, kernel=kernel))


def lost(reason: str, alone: str = "node2") -> Outcome:
    return Outcome(failure=Failure(host="node2", rank=None, what="ddpkit's process", reason=reason), lost_alone=alone)


@pytest.mark.parametrize(
    ("kernel", "id", "seconds"),
    [
        ("NVRM: Xid (PCI:0000:4f:00): 79, pid=7, GPU has fallen off the bus.", "gpu-lost", 7 * DAY),
        ("NVRM: Xid (PCI:0000:4f:00): 62, pid=7", "gpu-xid", 3 * DAY),
    ],
)
def test_a_fault_that_the_kernel_reports_is_remembered(kernel: str, id: str, seconds: float) -> None:  # noqa: A002
    found = bad_nodes.blamed(failed(kernel), "run", NOW)
    assert found is not None
    assert (found.host, found.id, found.until - found.since) == ("node2", id, seconds)
    assert (found.reason, found.evidence) == (BY_ID[id].reason, kernel)


@pytest.mark.parametrize(
    ("kernel", "log"),
    [
        ("", ECC),
        ("", "[3 node2] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\n"),
        ("", "[3 node2] RuntimeError: CUDA error: uncorrectable NVLink error detected\n"),
        ("the kernel counted no out-of-memory kill", ECC),
        ("/sys/fs/cgroup/memory.events: oom_kill rose by 1", ""),
        ("", ""),
    ],
)
def test_what_a_script_prints_puts_no_node_aside(kernel: str, log: str) -> None:
    """One printed line about ECC set a node aside for a week, in the list of the team."""
    assert bad_nodes.blamed(failed(kernel, log), "run", NOW) is None


def test_a_lost_node_is_remembered_for_an_hour_where_the_others_answered() -> None:
    for reason in ("no heartbeat for 30 s: the host or the network is down", "the connection was lost"):
        found = bad_nodes.blamed(lost(reason), "run", NOW)
        assert found is not None
        assert (found.host, found.id, found.until) == ("node2", "node-lost", NOW + HOUR)
        assert bad_nodes.blamed(lost(reason, alone=""), "run", NOW) is None
    for reason in ("it was killed, and its ranks with it", "node2 sent an event of rank 0, which runs on node1"):
        assert bad_nodes.blamed(lost(reason), "run", NOW) is None


def test_a_stopped_run_blames_nobody() -> None:
    outcome = failed("NVRM: Xid (PCI:0000:4f:00): 79, pid=7, GPU has fallen off the bus.")
    outcome.stopped_by = 2
    assert bad_nodes.blamed(outcome, "run", NOW) is None
    assert bad_nodes.blamed(Outcome(), "run", NOW) is None


def test_each_fault_that_is_remembered_is_one_of_a_node() -> None:
    of_nodes = {each.id for each in ENTRIES if each.lasts != 24 or each.evidence == "kernel"}
    assert of_nodes <= {each.id for each in ENTRIES if each.action == "exclude"}


def test_merging() -> None:
    short, long = node("node2", "node-lost"), node("node2", "gpu-ecc")
    assert bad_nodes.merge([long], short, NOW) == (long,)  # an hour does not end a week
    assert bad_nodes.merge([short], long, NOW) == (long,)
    assert bad_nodes.merge([short, node("node1")], node("node3"), NOW + 2 * HOUR) == (node("node1"), node("node3"))


def test_names_of_one_host() -> None:
    known = [node("node2.cluster"), node("node3"), node("10.0.0.1")]
    hosts = [host for host, _ in bad_nodes.matching(["node2", "node3.cluster", "node4", "10.0.0.2"], known)]
    assert hosts == ["node2", "node3.cluster"]


def test_the_file(tmp_path: Path) -> None:
    file = tmp_path / "deep/bad.json"
    assert bad_nodes.known(str(file), NOW) == bad_nodes.Known()
    assert bad_nodes.remember(str(file), node("node2"), NOW) == ""
    assert bad_nodes.remember(str(file), node("node3", "node-lost"), NOW) == ""
    assert bad_nodes.known(str(file), NOW).nodes == (node("node2"), node("node3", "node-lost"))
    assert bad_nodes.known(str(file), NOW + 2 * HOUR).nodes == (node("node2"),)
    assert bad_nodes.forgive(str(file), ["node2.cluster"], NOW) == [node("node2")]
    assert bad_nodes.forgive(str(file), None, NOW) == [node("node3", "node-lost")]
    assert bad_nodes.known(str(file), NOW).nodes == ()


def test_a_team_shares_the_file(tmp_path: Path) -> None:
    """Who may write to the directory may write to the list, whatever the umask of the first one was."""
    tmp_path.chmod(0o770)
    before = os.umask(0o077)
    try:
        bad_nodes.remember(str(tmp_path / "bad.json"), node("node2"), NOW)
    finally:
        os.umask(before)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {
        "bad.json": "0o660",
        ".bad.json.lock": "0o660",
    }


@pytest.mark.parametrize(
    "text", ["epochs: 3\n", "[]", "{}", '{"schema": "other/1", "nodes": []}', "\xff\xfe", "[" * 9999]
)
def test_a_file_of_something_else_is_a_warning_and_stays(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    problem = f"{file} is not a list of bad nodes, and stays as it is; for another one: the setting bad_nodes"
    assert bad_nodes.known(str(file), NOW) == bad_nodes.Known(problem=problem)
    assert bad_nodes.remember(str(file), node("node2"), NOW) == problem
    assert file.read_text() == text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_nothing_is_written_through_a_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "aliases").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    link = tmp_path / "shared/bad.json"
    link.symlink_to(tmp_path / "aliases")
    os.lchown(link, 65534, 65534)
    assert f"put the link {link}" in bad_nodes.remember(str(link), node("node2"), NOW)
    assert not (tmp_path / "aliases").read_text()


def test_a_link_to_the_list_of_a_team_stays_a_link(tmp_path: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    link = tmp_path / "bad.json"
    link.symlink_to(team / "bad.json")
    for name in ("node2", "node3"):
        assert bad_nodes.remember(str(link), node(name), NOW) == ""
    assert link.is_symlink()
    assert {each.host for each in bad_nodes.known(str(team / "bad.json"), NOW).nodes} == {"node2", "node3"}


def test_a_full_list_loses_nothing(tmp_path: Path) -> None:
    """A person may have written it, with ddpkit's own keys alone."""
    file = tmp_path / "bad.json"
    many = [node(f"node{number}") for number in range(bad_nodes.MOST - 1)]
    document = {"schema": "ddpkit.bad_nodes/1", "nodes": [asdict(each) for each in many]}
    file.write_text(json.dumps(document, indent=2))
    assert bad_nodes.remember(str(file), node("last"), NOW) == ""
    before = file.read_bytes()
    assert "the list is full" in bad_nodes.remember(str(file), node("new"), NOW)
    assert file.read_bytes() == before
    assert len(bad_nodes.known(str(file), NOW).nodes) == bad_nodes.MOST
    assert bad_nodes.forgive(str(file), ["last"], NOW) == [node("last")]


def test_a_list_of_a_megabyte_takes_no_more(tmp_path: Path) -> None:
    """It would be read no more, and everything in it would be lost."""
    file = tmp_path / "bad.json"
    many = [replace(node(f"node{number}"), evidence="x" * 1100) for number in range(700)]
    file.write_text(json.dumps({"schema": "ddpkit.bad_nodes/1", "nodes": [asdict(each) for each in many]}))
    new = replace(node("new"), evidence="x" * (1 << 18))
    assert "the list is full" in bad_nodes.remember(str(file), new, NOW)
    assert len(bad_nodes.known(str(file), NOW).nodes) == 700


def test_the_directory_of_a_team_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    link = tmp_path / "bad.json"
    link.symlink_to(tmp_path / "mnt/team/bad.json")
    assert "No such file or directory" in bad_nodes.remember(str(link), node("node2"), NOW)
    assert [each.name for each in tmp_path.iterdir()] == ["bad.json"]
    (tmp_path / "team").symlink_to(tmp_path / "mnt/team")
    assert bad_nodes.remember(str(tmp_path / "team/bad.json"), node("node2"), NOW)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bad.json", "team"]


def test_a_torn_file_is_a_warning_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    bad_nodes.remember(str(file), node("node2"), NOW)
    torn = file.read_bytes()[:-30]
    file.write_bytes(torn)
    assert bad_nodes.known(str(file), NOW).problem
    assert bad_nodes.remember(str(file), node("node3"), NOW)
    assert file.read_bytes() == torn


BY_HAND = {
    "schema": "ddpkit.bad_nodes/1",
    "comment": "ask Ann before you take one away",
    "nodes": [
        {"host": "node7", "reason": "fan, ticket 12"},
        {**asdict(node("node8")), "comment": "Ann"},
        {**asdict(node("node9")), "until": 1.0, "comment": "for the records"},
        {**asdict(node("node5")), "until": 1.0},
        "node6",
    ],
}


def test_what_a_person_wrote_stays(tmp_path: Path) -> None:
    """Through a link as well, which stays one; and with the mode of the team's file."""
    team = tmp_path / "team" / "bad.json"
    team.parent.mkdir()
    team.write_text(json.dumps(BY_HAND, indent=2))
    team.chmod(0o640)
    link = tmp_path / "mine.json"
    link.symlink_to(team)
    for host in ("node1", "node8"):
        assert bad_nodes.remember(str(link), node(host), NOW + 1) == ""
    assert bad_nodes.forgive(str(link), ["node1"], NOW) == [node("node1")]
    assert link.readlink() == team
    assert oct(team.stat().st_mode & 0o777) == "0o640"
    after = json.loads(team.read_text())
    assert after["comment"] == BY_HAND["comment"]
    assert after["nodes"][:4] == [each for each in BY_HAND["nodes"] if each != BY_HAND["nodes"][3]]
    assert len(team.read_text().splitlines()) > 10
    assert bad_nodes.forgive(str(link), ["node8"], NOW)
    assert [each for each in json.loads(team.read_text())["nodes"] if "node8" in str(each)] == []


def test_records_that_others_wrote(tmp_path: Path) -> None:
    good = {
        "host": "n\x1b]0;x\x07",
        "id": "x",
        "reason": "r" * 9999,
        "evidence": "",
        "run_id": "",
        "since": 1,
        "until": 2e9,
    }
    wrong = [None, {}, {**good, "host": ""}, {**good, "until": "x"}, {**good, "since": True}, {**good, "until": 1e300}]
    file = tmp_path / "bad.json"
    file.write_text(json.dumps({"schema": "ddpkit.bad_nodes/1", "nodes": [*wrong, good]}))
    (found,) = bad_nodes.known(str(file), NOW).nodes
    assert found.host == "n?]0;x?"
    assert len(found.reason) == 300


def test_no_regular_file_holds_a_launch_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe"), "/dev/full"):
        assert bad_nodes.known(path, NOW) == bad_nodes.Known()
        assert bad_nodes.remember(path, node("node2"), NOW) == ""
    assert "Not a directory" in bad_nodes.known("/dev/null/bad.json", NOW).problem
    assert "cannot use the list of bad nodes /proc/bad.json" in bad_nodes.remember("/proc/bad.json", node("n"), NOW)


def test_a_private_file_that_got_the_name_of_the_lock_stays_private(tmp_path: Path) -> None:
    """Whoever can write to the directory of a team can rename the files of others in it."""
    tmp_path.chmod(0o2777)
    mine = tmp_path / ".bad.json.lock"
    mine.write_text("months of work")
    mine.chmod(0o600)
    assert bad_nodes.remember(str(tmp_path / "bad.json"), node("node1"), NOW) == ""
    assert stat.S_IMODE(mine.stat().st_mode) == 0o600
    assert mine.read_text() == "months of work"


def test_a_lock_that_is_held_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    bad_nodes.remember(str(file), node("node2"), NOW)
    before = file.read_bytes()
    with (tmp_path / ".bad.json.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = bad_nodes.remember(str(file), node("node3"), NOW)
        assert "locked by another process" in problem
        assert bad_nodes.known(str(file), NOW).nodes == (node("node2"),)  # readers need no lock
    assert file.read_bytes() == before


RACER = """
import sys
from ddpkit.run import bad_nodes
for number in range(12):
    new = bad_nodes.bad_node(f"{sys.argv[2]}-{number}", "gpu-ecc", "", "run", 1.8e9)
    while problem := bad_nodes.remember(sys.argv[1], new, 1.8e9):
        assert "locked" in problem or "no answer" in problem, problem
"""


def test_writers_race_and_none_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(file), f"p{number}"]) for number in range(6)]
    while any(racer.poll() is None for racer in racers):
        found = bad_nodes.known(str(file), NOW)
        assert not found.problem or "no answer" in found.problem  # never half a file
    assert [racer.returncode for racer in racers] == [0] * 6
    hosts = {each.host for each in bad_nodes.known(str(file), NOW).nodes}
    assert hosts == {f"p{racer}-{number}" for racer in range(6) for number in range(12)}


# ---- the command


def test_the_list_and_its_end(ddpkit: DDPKIT, tmp_path: Path) -> None:
    file = str(tmp_path / "bad.json")
    env = {"DDPKIT_BAD_NODES": file}
    assert ddpkit("nodes", env=env).stderr == "no bad nodes\n"
    now = time.time()
    for host in ("node1", "node2"):
        bad_nodes.remember(file, node(host, now=now), now)
    listed = ddpkit("nodes", env=env).stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["NODE", "node1", "node2"]
    assert "the memory of a GPU of the host has errors" in listed[1]
    assert ddpkit("nodes", "forgive", "node2", "--dry-run", env=env).stdout == "would forgive node2\n"
    assert ddpkit("nodes", "forgive", "node2", env=env).stdout == "forgave node2\n"
    unknown = ddpkit("nodes", "forgive", "node2", env=env)
    assert unknown.returncode == 121
    assert unknown.stderr == "ddpkit: error: node2: not in the list of bad nodes\nhint: ddpkit nodes\n"
    assert ddpkit("nodes", "forgive", "--all", "--bad-nodes", file).stdout == "forgave node1\n"
    for words in (("forgive",), ("forgive", "node1", "--all"), ("lend",), ("check", "--all")):
        assert ddpkit("nodes", *words, env=env).returncode == 121
    Path(file).write_text("epochs: 3\n")
    broken = ddpkit("nodes", env=env)
    assert broken.returncode == 0
    assert broken.stderr.startswith(f"ddpkit: warning: {file} is not a list of bad nodes")
    assert ddpkit("nodes", "forgive", "--all", env=env).returncode == 125


def test_a_rank_that_prints_a_fault_of_its_node(ddpkit: DDPKIT, tmp_path: Path) -> None:
    """Its words are the cause that is shown, and no reason to leave the node out later."""
    (tmp_path / "job.py").write_text("raise RuntimeError('CUDA error: uncorrectable ECC error encountered')\n")
    done = ddpkit("launch", "-n", "1", "-o", "starter=ranks", "--", "job.py")
    assert done.returncode == 1
    assert "gpu-ecc" in done.stderr
    assert "bad node" not in done.stderr
    assert json.loads(ddpkit("nodes", "--json").stdout)["nodes"] == []
