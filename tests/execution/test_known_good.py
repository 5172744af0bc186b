"""Speeds of the past: a node or a run that is slower than it was is named, with both numbers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, SCRIPT

from ddpkit.execution import known_good
from ddpkit.execution.known_good import KEPT, MOST, Speed


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/ddpkit/speeds.json"


def took(seconds: float, host: str = "node1", device: str = "GPU") -> Speed:
    return Speed(host=host, device=device, what="a product", seconds=(seconds,))


def test_what_is_slower_than_it_was_is_named(file: Path) -> None:
    slower = []
    for seconds in (1.0, 1.1, 1.05, 1.3):
        (past,) = known_good.remember([took(seconds)])
        slower.append(past.is_slower(1.15))
    assert slower == [False, False, False, True]
    assert past.describe("a product") == "a product takes 1.3e+03 ms, and took 1.05e+03 ms before (median of 3)"
    assert file.stat().st_mode & 0o777 == 0o600
    for other in (took(9.0, host="node2"), took(9.0, device="cpu")):
        assert not known_good.remember([other])[0].is_slower(1.15)


def test_the_file_is_bounded(file: Path) -> None:
    for _ in range(2 * KEPT):
        known_good.remember([took(1.0)])
    known_good.remember([took(1.0, host=f"node{number}") for number in range(2, MOST + 3)])
    hosts = [each.host for each in known_good.read()]
    assert (len(hosts), hosts[-1], "node1" in hosts) == (MOST, f"node{MOST + 2}", False)
    known_good.remember([took(2.0, host="node3") for _ in range(2 * KEPT)])
    assert known_good.read()[-1] == Speed(host="node3", device="GPU", what="a product", seconds=(2.0,) * KEPT)


NEGATIVE = '{"speeds": [{"host": "a", "device": "", "what": "", "seconds": [-1]}]}'
DAMAGED = {
    "empty": "",
    "a list": "[]",
    "a number": '{"speeds": 1}',
    "half": '{"speeds": [{"host": "a"}]}',
    "negative": NEGATIVE,
    "deep": "[" * 100_000,
    "large": " " * (known_good.MOST_BYTES + 1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_replaced(name: str, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(DAMAGED[name])
    assert known_good.read() == ()
    known_good.remember([took(1.0)])
    assert known_good.read() == (took(1.0),)


@pytest.mark.parametrize("what", ["others can write", "a link", "a pipe"])
def test_nobody_elses_file_is_read(what: str, file: Path, tmp_path: Path) -> None:
    known_good.remember([took(1.0)])
    if what == "others can write":
        file.chmod(0o666)
    elif what == "a link":
        file.rename(tmp_path / "mine")
        file.symlink_to(tmp_path / "mine")
    else:
        file.unlink()
        os.mkfifo(file)
    assert known_good.read() == ()
    known_good.remember([took(5.0)])
    if what == "others can write":
        assert known_good.read() == (took(5.0),)
    else:  # it stays
        assert known_good.read() == ()
    if what == "a link":
        assert "[1.0]" in (tmp_path / "mine").read_text()


@pytest.mark.parametrize("new", [took(float("nan")), took(0.0), took(1e12), took(1.0, device="x" * 301)])
def test_what_a_node_invents_is_not_kept(new: Speed, file: Path) -> None:
    known_good.remember([took(1.0)])
    assert known_good.remember([new]) == []
    assert known_good.read() == (took(1.0),)


def make_faster(file: Path) -> None:
    """Let everything have taken a tenth of the time, twice."""
    speeds: dict[str, list[dict[str, Any]]] = json.loads(file.read_text())
    for each in speeds["speeds"]:
        each["seconds"] = [each["seconds"][0] / 10] * 2
    file.write_text(json.dumps(speeds))


@pytest.mark.torch
def test_a_node_below_its_past_is_a_finding(ddpkit: DDPKIT, file: Path) -> None:
    state = {"XDG_STATE_HOME": str(file.parents[1])}
    done = ddpkit("test", "2", "--full", "--json", env=state)
    assert "warn" not in {check["status"] for check in json.loads(done.stdout)["checks"]}, done.stdout
    make_faster(file)
    done = ddpkit("test", "2", "--full", "--json", env=state)
    found = [check for check in json.loads(done.stdout)["checks"] if check["status"] == "warn"]
    assert {(check["id"], check["doc"]) for check in found} == {("speed", "straggler")}, done.stdout
    assert any(check["evidence"].startswith("a matrix product on cpu takes ") for check in found)
    assert all(check["evidence"].endswith(" before (median of 2)") and check["host"] for check in found)


STEPS = """
import time, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    time.sleep(0.05)
    optimizer.step()
"""


@pytest.mark.torch
def test_a_run_below_its_past_is_named(ddpkit: DDPKIT, script: SCRIPT, file: Path) -> None:
    state = {"XDG_STATE_HOME": str(file.parents[1])}
    words = ("launch", "-n", "1", "--observe", "steps", "--", script(STEPS))
    assert "a step of this command" not in ddpkit(*words, env=state).stderr
    make_faster(file)
    assert " ms before (median of 2)\n" in ddpkit(*words, env=state).stderr
    report = json.loads(ddpkit("report", "--json", env=state).stdout)
    assert " A step of this command on these hosts takes " in report["steps"]["words"]
