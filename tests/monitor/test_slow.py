"""`ddpkit status --slow`: the rank that the others wait for is named, and none where no rank is slow.

Runs are modelled as nodes report them, for each way to wait; one real run is watched.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import DDPKIT, SCRIPT, START
from jsonschema import Draft202012Validator
from program import wait_until
from test_docs_blocks import output

from ddpkit.monitor import slow
from ddpkit.monitor.slow import choose, find
from ddpkit.monitor.watchdog import SlowWatch
from ddpkit.node.calls.rank_waits import is_wait

PIPELINES = json.loads((Path(__file__).parent / "pipelines.json").read_text())
SPAN, PARTS = 10.0, 20
STEP = 0.1  # seconds of a step
Ranks = dict[int, dict[str, Any]]


def seen(**more: Any) -> dict[str, Any]:
    """What a rank saw that never waits, as `rank_waits.watch` returns it."""
    nothing = {"why": "", "began": 0.0, "looks": [50] * PARTS, "waited": [0] * PARTS, "places": []}
    return {**nothing, "collectives": [], "sends": False, "cut": False, "groups": {"0": "0-3"}, "off": "", **more}


def sample(ranks: Ranks, *, ahead: Mapping[str, float] | None = None, per_host: int = 2) -> dict[str, Any]:
    hosts: dict[str, dict[str, Any]] = {}
    for rank, what in ranks.items():
        hosts.setdefault(f"node{rank // per_host + 1}", {})[str(rank)] = what
    rows = [{"host": host, "waits": waits} for host, waits in hosts.items()]
    return {"silent": {}, "hosts": rows, "ahead": dict(ahead or {})}


SAME = {f"node{number}": 0.0 for number in range(1, 5)}  # clocks that were compared


def stepping(own: Callable[[int, int], float], count: int = 4, *, backend: str = "gloo", timed: bool = False) -> Ranks:
    """Steps that end in a collective of all. `own`: seconds that a rank works in a step, by rank and number."""
    ranks = {rank: seen(groups={"0": f"0-{count - 1}"}) for rank in range(count)}
    now, number = 0.0, 0
    while now < SPAN:
        number += 1
        arrivals = {rank: now + own(rank, number) for rank in ranks}
        last = max(arrivals.values())
        for rank, arrival in arrivals.items():
            took = 1000 * (last - arrival + 0.001) if timed else None
            ranks[rank]["collectives"].append([f"0:{backend}", number, now if timed else arrival, took])
        now = last + 0.001
    return ranks


def noisy(slow_ranks: Mapping[int, float], seed: int) -> Callable[[int, int], float]:
    chance = random.Random(seed)
    return lambda rank, _: STEP * slow_ranks.get(rank, 1.0) * chance.uniform(0.95, 1.05)


@pytest.mark.parametrize("form", [{}, {"backend": "nccl", "timed": True}], ids=["gloo", "nccl"])
@pytest.mark.parametrize("seed", range(20))
def test_a_rank_that_is_slower_by_a_fifth_is_named(seed: int, form: dict[str, Any]) -> None:
    rank = seed % 8
    found = find(sample(stepping(noisy({rank: 1.2}, seed), 8, **form), ahead=SAME), SPAN).slow
    assert found is not None
    assert found.ranks == (rank,)
    assert found.hosts == (f"node{rank // 2 + 1}",)
    assert 0.08 < found.lost < 0.2
    assert found.last is not None
    assert found.of is not None
    assert found.last > 0.9 * found.of


@pytest.mark.parametrize("form", [{}, {"backend": "nccl", "timed": True}], ids=["gloo", "nccl"])
@pytest.mark.parametrize("seed", range(20))
def test_no_rank_is_named_where_none_is_slow(seed: int, form: dict[str, Any]) -> None:
    assert find(sample(stepping(noisy({}, seed), 8, **form), ahead=SAME), SPAN).slow is None


def test_a_whole_node_is_named() -> None:
    found = find(sample(stepping(noisy({2: 1.3, 3: 1.3}, 1), 8), ahead=SAME), SPAN).slow
    assert found is not None
    assert (found.ranks, found.hosts) == ((2, 3), ("node2",))


def test_clocks_that_differ_are_compared() -> None:
    """node2's clock is 80 ms behind; by it its ranks would come first."""
    ranks = behind(stepping(noisy({3: 1.3}, 2)), 0.08)
    found = find(sample(ranks, ahead={**SAME, "node2": -0.08}), SPAN).slow
    assert found is not None
    assert found.ranks == (3,)


def behind(ranks: Ranks, seconds: float) -> Ranks:
    """The same where node2's clock is behind."""
    for rank in (2, 3):
        ranks[rank]["began"] -= seconds
        for each in ranks[rank]["collectives"]:
            each[2] -= seconds
    return ranks


def test_clocks_that_nobody_compared_blame_no_node() -> None:
    """Under SLURM: without a slow rank, and with one."""
    assert find(sample(behind(stepping(noisy({}, 2)), 0.08)), SPAN).slow is None
    ranks: Ranks = {rank: seen() for rank in range(4)}
    for number in range(60):
        for rank, late in enumerate((0.0, 0.0, 0.0, 0.04)):
            ranks[rank]["collectives"] += [["0:gloo", 2 * number, number * 0.15 + late, None]]
            ranks[rank]["collectives"] += [["0:gloo", 2 * number + 1, number * 0.15 + 0.045, None]]
    found = find(sample(behind(ranks, 0.08)), SPAN).slow
    assert found is not None
    assert found.ranks == (3,)


def test_what_was_recorded_before_the_last_collectives_does_not_count() -> None:
    """Of very many ranks each reports its last collectives alone."""
    ranks = stepping(noisy({1: 1.3}, 4))
    for rank in ranks.values():
        rank["collectives"], rank["cut"] = rank["collectives"][len(rank["collectives"]) // 2 :], True
    found = find(sample(ranks, ahead=SAME), SPAN).slow
    assert found is not None
    assert found.ranks == (1,)


def test_collectives_that_are_only_queued_for_a_gpu_say_nothing() -> None:
    """Without TORCH_NCCL_ENABLE_TIMING NCCL's record has when the host called them, which runs ahead."""
    assert find(sample(stepping(noisy({1: 1.5}, 3), backend="nccl")), SPAN).slow is None


def piped(busy: Mapping[int, int]) -> Ranks:
    """Stages that only send and recv, and a meeting of all at the end of a step, to which the last stage comes last."""
    ranks = {}
    for rank in range(4):
        waited = [50 - busy.get(rank, 20) + part % 3 for part in range(PARTS)]
        meetings = [["0:gloo", number, number + 0.2 * rank, None] for number in range(10)]
        ranks[rank] = seen(waited=waited, collectives=meetings, sends=True)
    return ranks


def test_a_slow_stage_of_a_pipeline_is_named_by_looks() -> None:
    found = find(sample(piped({1: 25})), SPAN).slow
    assert found is not None
    assert found.ranks == (1,)
    assert found.lost == pytest.approx(0.1, abs=0.01)


def test_the_last_stage_of_a_healthy_pipeline_is_not_slow() -> None:
    assert find(sample(piped({})), SPAN).slow is None


def test_ranks_of_several_groups_are_compared_in_each() -> None:
    """Two groups of two: rank 1 is slow, and rank 3 comes last in its own group, by little."""
    ranks = {rank: seen(groups={"a": "0-1", "b": "2-3"}) for rank in range(4)}
    for number in range(90):
        for rank, late in enumerate((0.0, 0.03, 0.0, 0.001)):
            name = "a:gloo" if rank < 2 else "b:gloo"
            ranks[rank]["collectives"].append([name, number, number * 0.1 + late, None])
    found = find(sample(ranks, ahead=SAME), SPAN)
    assert found.waits[0] == pytest.approx(0.27, abs=0.03)
    assert found.waits[1] == 0
    assert found.waits[2] == pytest.approx(0.009, abs=0.005)


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({0: [0.2] * 20}, None),  # nobody to compare with
        ({0: [0.2] * 20, 1: [0.2] * 20}, None),
        ({0: [0.0, 0.01] * 10, 1: [0.2, 0.21] * 10}, (0,)),
        ({0: [0.0, 0.01] * 10, 1: [0.04, 0.05] * 10}, None),  # too little
        ({0: [0.0, 0.9] * 10, 1: [0.9, 0.1] * 10}, None),  # chance
        ({0: [0.0] * 2, 1: [0.5] * 2}, None),  # too short
        ({0: [0.0, 0.01] * 10, 1: [0.0, 0.02] * 10, 2: [0.3, 0.31] * 10, 3: [0.3, 0.32] * 10}, (0, 1)),
        ({0: [0.0, 0.01] * 10, 1: [0.0, 0.02] * 10, 2: [0.0, 0.03] * 10, 3: [0.3, 0.32] * 10}, None),  # one waits
    ],
    ids=str,
)
def test_the_choice(shares: dict[int, list[float]], named: tuple[int, ...] | None) -> None:
    chosen = choose(shares)
    assert (chosen and chosen[0]) == named


@pytest.mark.parametrize("case", PIPELINES, ids=lambda case: f"{case['kind']}-{case['slow']}")
def test_a_pipeline_whose_steps_are_longer_than_a_part(case: dict[str, Any]) -> None:
    """Recorded on a busy machine: a step lasts for two parts, so that each stage waits in every other one."""
    chosen = choose({int(rank): parts for rank, parts in case["shares"].items()})
    assert (list(chosen.ranks) if chosen else []) == ([] if case["slow"] is None else [case["slow"]])


def test_ranks_that_could_not_be_watched_are_listed() -> None:
    ranks = stepping(noisy({}, 1), 2)
    ranks[1] = {"why": "not observed"}
    silent = {**sample(ranks), "silent": {"node9": [7]}}
    assert find(silent, SPAN).blind == {1: "not observed", 7: "node9 did not answer"}


@pytest.mark.parametrize(
    "nonsense",
    [{"looks": None}, {"began": "x"}, {"places": [[1]]}, {"collectives": [["0:gloo", "x", 1, None]]}, {"groups": 3}],
    ids=str,
)
def test_nonsense_of_a_node_is_refused(nonsense: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sent an invalid answer"):
        find(sample({0: seen(collectives=[["0:gloo", 1, 1.0, None]]) | nonsense, 1: seen()}), SPAN)


@pytest.mark.parametrize(
    ("file", "text", "waits"),
    [
        ("/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", "", True),
        ("/home/me/train.py", "    work.wait()", True),
        ("/home/me/train.py", "    loss.backward()", False),
        ("/home/me/await.py", "    awaited = wait_less(1)", False),
    ],
)
def test_what_a_wait_is(file: str, text: str, waits: bool) -> None:
    assert is_wait(file, text) == waits


TRAINS = """
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
def fetch():
    time.sleep(0.09 if dist.get_rank() == 2 else 0.03)
print("ready", flush=True)
while True:
    fetch()
    stop = torch.tensor(float(os.path.exists("go")))
    dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    if stop: break
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_a_run_is_watched(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Any) -> None:
    """Also while somebody asks for a dump: both get their answers."""
    script(TRAINS)
    command = start("launch", "-n", "3", "--observe", "stacks", "--", "job.py")
    command.wait_for("ready", 3)
    watching = start("status", "--slow", "--json")
    watching.wait_for("are watched")
    dumped = json.loads(ddpkit("dump", "--json").stdout)
    assert {rank["how"] for rank in dumped["ranks"]} == {"thread"}
    assert watching.end() == 0, watching.tail
    found = json.loads(watching.text[watching.text.index("{") :])
    assert found["slow"]["ranks"] == [2], found
    assert found["slow"]["lost"] > slow.LEAST
    assert "(fetch)" in found["slow"]["places"][0]["spot"]
    assert found["slow"]["last"] > 0.8 * found["slow"]["of"]
    assert found["blind"] == {}
    schema = json.loads((Path(__file__).parents[2] / "docs/schema/slow.json").read_text())
    Draft202012Validator(schema).validate(found)
    shown = ddpkit("status", "--slow")
    lines = [line for line in (shown.stderr + shown.stdout).splitlines() if "newest" not in line]
    for line in output("who is slow").splitlines():
        words = re.split(r"[\d%/(]|rank ", line)[0] or "rank 2 on"
        assert any(words in each for each in lines), (words, lines)
    for words in (("status",), ("top", "--once")):
        findings = json.loads(ddpkit(*words, "--json").stdout)["findings"]
        later = [each if isinstance(each, str) else each["words"] for each in findings]
        assert any(each.startswith("rank 2 on ") and each.endswith(" ago)") for each in later), later
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    steps = json.loads(ddpkit("report", "--json").stdout)["steps"]["words"]
    assert re.match(r"At [\d-]+ \S+ \S+ the ranks were watched: rank 2 on ", steps), steps


@pytest.mark.torch
def test_the_launcher_watches_by_itself(start: START, script: SCRIPT, tmp_path: Any) -> None:
    """It names a rank once, after two looks."""
    script(TRAINS)
    watching = ("--hang-timeout", "1", "--slow-action", "note", "--observe", "stacks")
    command = start("launch", "-n", "3", *watching, "--", "job.py")
    command.wait_for("--slow-action: rank 2 on ")
    (folder,) = (tmp_path / "logs").iterdir()
    assert json.loads((folder / "slow.json").read_text())["ranks"] == [2]
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
    assert "--slow-action: rank 2 on " in (folder / "ddpkit.log").read_text()
    assert command.text.count("--slow-action: rank 2 on ") == 1


def slow_rank(*ranks: int) -> slow.Slowness:
    hosts = tuple(f"node{rank}" for rank in ranks)
    named = slow.SlowRanks(ranks=ranks, hosts=hosts, lost=0.1, waits=0.0, last=None, of=None, places=())
    return slow.Slowness(seconds=15.0, waits={0: 0.1}, slow=named if ranks else None, blind={})


def test_two_looks_in_a_row_name_a_rank() -> None:
    watch = SlowWatch(600.0, 0.0)
    # The time of a look, what it finds, the lines of its report, the rank that counts, and the next look.
    for now, found, lines, counts, due in (
        (600.0, slow_rank(1), 0, (), 600.0),  # at once again
        (620.0, slow_rank(2), 0, (), 1220.0),
        (1220.0, slow_rank(2), 1, (2,), 1820.0),
        (1820.0, slow_rank(2), 0, (2,), 2420.0),
        (2420.0, None, 0, (2,), 3020.0),  # it failed, or saw no rank
        (2420.0, slow.Slowness(seconds=15.0, waits={}, slow=None, blind={}), 0, (2,), 3020.0),
        (3020.0, slow_rank(), 0, (), 3620.0),
        (3620.0, slow_rank(2), 0, (), 3620.0),
        (3640.0, slow_rank(2), 0, (2,), 4240.0),
    ):
        assert len(watch.take(now, found)) == lines
        assert (watch.slow.ranks if watch.slow else (), watch.due) == (counts, due)


NO_EFFECT = {
    "note": "--hang-timeout",
    "note --hang-timeout 60": "--observe stacks",
    "spare --hang-timeout 60 --observe stacks": "--retries",
    "spare --hang-timeout 60 --observe stacks --retries 1": "--spares",
}


@pytest.mark.parametrize("words", NO_EFFECT)
def test_an_action_without_effect_is_refused(words: str, ddpkit: DDPKIT, script: SCRIPT) -> None:
    done = ddpkit("launch", "--slow-action", *words.split(), "--", script("pass"))
    assert (done.returncode, f"has no effect without {NO_EFFECT[words]}" in done.stderr) == (121, True), done.stderr


@pytest.mark.torch
def test_a_rank_that_stands_still_meanwhile_is_watched_to_the_end(
    start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Any
) -> None:
    script(TRAINS.replace("0.09 if dist.get_rank() == 2 else 0.03", "0.03"))
    command = start("launch", "-n", "3", "--observe", "stacks", "--", "job.py")
    command.wait_for("ready", 3)
    pids: list[int | None] = []

    def is_told() -> bool:
        """Whether the launcher has written the process of rank 1 yet: with its first heartbeats."""
        sample = json.loads(ddpkit("status", "--json").stdout)["sample"] or {"ranks": []}
        pids[:] = [rank["pid"] for rank in sample["ranks"] if rank["rank"] == 1]
        return pids[:1] not in ([], [None])

    wait_until(is_told)
    (pid,) = pids
    assert pid is not None
    watching = start("status", "--slow", "--json")
    watching.wait_for("are watched")
    while watching.process.poll() is None:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            os.kill(pid, number)
            time.sleep(0.4)
    assert watching.end() == 0, watching.tail
    found = json.loads(watching.text[watching.text.index("{") :])
    assert found["slow"]["ranks"] == [1], found
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail


def test_ranks_that_are_not_observed_say_how_to(start: START, ddpkit: DDPKIT, script: SCRIPT, tmp_path: Any) -> None:
    script("import os, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.1)\n")
    command = start("launch", "-n", "2", "--", "job.py")
    command.wait_for("ready", 2)
    done = ddpkit("status", "--slow")
    assert done.returncode == 121
    assert "cannot watch the ranks" in done.stderr
    assert "--observe stacks" in done.stderr
    (tmp_path / "go").touch()
    assert command.end() == 0, command.tail
