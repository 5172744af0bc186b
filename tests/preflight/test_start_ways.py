"""Ways of `ddpkit bench start`: their settings on each backend, their ratios and the best of them."""

from __future__ import annotations

from typing import Any

import pytest

from ddpkit.errors import UsageError
from ddpkit.launchers import registry
from ddpkit.preflight.bench_start import in_turn
from ddpkit.preflight.start_ways import Situation, WayTimes, best, choose_way, document, parse_ways, ratios, table


def here(backend: str = "ssh", **more: Any) -> Situation:
    kind = registry.load(backend)
    options = [option.name for option in registry.options(kind)]
    return Situation(**{"backend": kind.name, "options": options, "given": {}, **more})


GIVEN = {"starter": "legacy", "preload": "torch,numpy", "stage": "env", "stage_dir": "/local"}


@pytest.mark.parametrize(
    ("name", "situation", "flags", "backend"),
    [
        ("ranks", here("local"), "--starter ranks", "local"),
        ("torchrun", here("local"), "--starter torchrun", "local"),
        ("preload", here("pdsh"), "--starter ranks --preload", "pdsh"),
        ("preload", here(given=GIVEN), "--starter ranks --preload=torch,numpy", "ssh-torchrun-auto"),
        ("preload", here(given={"preload": "False"}), "--starter ranks --preload", "ssh-torchrun-auto"),
        ("stage", here("legacy"), "--starter ranks --stage", "legacy"),
        ("torchrun+env", here(), "--starter torchrun --stage=env", "ssh-torchrun-auto"),
        ("preload+env", here(), "--starter ranks --preload --stage=env", "ssh-torchrun-auto"),
        ("ranks", here("slurm"), "-b slurm", "slurm-srun"),
        ("ranks", here("slurm-torchrun"), "-b slurm", "slurm-srun"),
        ("torchrun", here("slurm"), "-b slurm-torchrun", "slurm-torchrun"),
        ("preload+env", here("slurm"), "-b slurm --preload --stage=env", "slurm-srun"),
    ],
)
def test_the_flags_of_a_way(name: str, situation: Situation, flags: str, backend: str) -> None:
    way = choose_way(name, situation)
    assert (way.flags, way.backend, way.reason) == (flags, backend, "")


def test_options_that_the_ways_differ_in_are_not_those_of_the_launch() -> None:
    way = choose_way("torchrun", here(given=GIVEN))
    assert way.options == {"starter": "torchrun", "stage_dir": "/local"}
    assert choose_way("stage", here("slurm", given={"partition": "gpu"})).toml == (
        'backend = "slurm-srun"\noptions = { stage = "project" }'
    )


@pytest.mark.parametrize(
    ("name", "situation", "reason"),
    [
        ("stage", here("local"), "backend local has no option stage"),
        ("preload", here("slurm", options=["partition"]), "backend slurm-srun has no option preload"),
        ("ranks", here("pdsh", options=[]), "backend pdsh has no option starter"),
        ("torchrun+preload", here(), "torchrun starts each rank as a new Python"),
        ("ranks+torchrun", here(), "ranks and torchrun exclude each other"),
        ("env", here(container=True), "--stage does not work with --container: the image holds the code"),
        ("stage", here("slurm", via=True), "--stage does not work with --via"),
        ("stage", here(at_home=True), "the working directory is the home directory: nothing is copied from it"),
        ("preload", here(container=True, at_home=True), ""),
    ],
)
def test_ways_that_are_not_possible(name: str, situation: Situation, reason: str) -> None:
    way = choose_way(name, situation)
    assert way.reason == reason
    assert WayTimes(way=way).state == ("impossible" if reason else "planned")


def test_names_of_ways() -> None:
    assert parse_ways("ranks, preload+env,ranks") == ("ranks", "preload+env")
    for text in ("", "rank", "ranks,", "preload+"):
        with pytest.raises(UsageError, match=r"--ways: .* is not one of ranks, torchrun"):
            parse_ways(text)


def measured(name: str, *seconds: float, first: float = 9.0) -> WayTimes:
    return WayTimes(way=choose_way(name, here()), state="measured", seconds=list(seconds), first=first)


def failed(name: str) -> WayTimes:
    times = WayTimes(way=choose_way(name, here()), seconds=[0.1])
    times.fail("failed", "rank 3 on node2 failed", "fix it", 7)
    return times


def test_ratios_are_those_of_the_medians_to_the_first_that_worked() -> None:
    times = [failed("ranks"), measured("torchrun", 5.0, 4.0, 100.0), measured("preload", 2.5), measured("stage", 5.0)]
    assert ratios(times) == {"torchrun": 1.0, "preload": 0.5, "stage": 1.0}
    assert ratios([failed("ranks")]) == {}


@pytest.mark.parametrize(
    ("times", "name", "words"),
    [
        ([measured("ranks", 4.0), measured("preload", 2.0)], "preload", "best: preload, 0.50 x the time of ranks"),
        (
            [measured("ranks", 4.0), measured("preload", 3.9)],
            "ranks",
            "best: ranks; no other way is more than 5 % faster",
        ),
        ([failed("ranks"), measured("preload", 3.9)], "preload", "preload is the only way that worked"),
        ([failed("ranks"), failed("preload")], None, "no way worked"),
    ],
)
def test_the_best_way(times: list[WayTimes], name: str | None, words: str) -> None:
    chosen = best(times)
    assert (chosen and chosen.way.name) == name
    assert words in table(times)
    shown = document(times, {}, 0)
    assert (shown["best"], shown["ok"]) == (name, name is not None)


@pytest.mark.parametrize(("number", "first"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 0)])
def test_each_round_begins_with_another_way(number: int, first: int) -> None:
    times = [measured(name, 1.0) for name in ("ranks", "preload", "stage")]
    names = [each.way.name for each in in_turn(times, number)]
    assert names[0] == times[first].way.name
    assert sorted(names) == ["preload", "ranks", "stage"]
    assert in_turn([], number) == []


def test_the_table() -> None:
    times = [
        measured("ranks", 4.0, 4.4, 4.1),
        measured("preload", 2.05),
        failed("env"),
        WayTimes(way=choose_way("stage", here(via=True))),
    ]
    assert table(times) == [
        "WAY      FLAGS                      MEDIAN  RATIO        RANGE   FIRST",
        "ranks    --starter ranks            4.10 s   1.00  4.00-4.40 s  9.00 s",
        "preload  --starter ranks --preload  2.05 s   0.50  2.05-2.05 s  9.00 s",
        "env      failed: rank 3 on node2 failed",
        "stage    not possible: --stage does not work with --via",
        "best: preload, 0.50 x the time of ranks",
        "    ddpkit launch --starter ranks --preload",
        '    ddpkit.toml: options = { starter = "ranks", preload = "true" }',
    ]
