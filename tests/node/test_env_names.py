"""The list of environment variables: each name has known uses, and the containers' pattern agrees with it."""

from __future__ import annotations

import re

import pytest

from ddpkit.launchers import containers
from ddpkit.node.env_names import ENV_NAMES, env_matcher

USES = {"stale", "launcher", "place", "container", "tuning", "private", "reported"}
NAMES = [name for _, group in ENV_NAMES for name in group.split()]


def test_every_use_is_known_and_explained() -> None:
    from ddpkit.node import env_names

    assert {use for uses, _ in ENV_NAMES for use in uses.split()} == USES
    assert all(f"\n{use} " in (env_names.__doc__ or "") for use in USES)


def test_no_name_has_one_use_twice() -> None:
    rows = [(use, name) for uses, group in ENV_NAMES for use in uses.split() for name in group.split()]
    assert len(rows) == len(set(rows))


def test_names_and_prefixes() -> None:
    is_stale = env_matcher("stale")
    assert is_stale("RANK")
    assert not is_stale("RANKS")
    assert is_stale("SLURM_STEP_ID")
    assert not is_stale("SLURM_JOB_ID")


def test_containers_get_the_names_of_the_list() -> None:
    passes = env_matcher("container")
    for name in NAMES:
        for word in (name.replace("*", "X"), f"{name.rstrip('*')}_X", f"X{name.rstrip('*')}"):
            assert bool(re.fullmatch(containers._PASSED, word)) == passes(word), word


@pytest.mark.parametrize("name", ["DDPKIT_SECRET", "SLURM_JOB_COMMENT", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY"])
def test_no_secret_is_shown_as_a_source_of_a_rank(name: str) -> None:
    assert not env_matcher("place")(name)
