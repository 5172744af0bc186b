"""Settings: each source in turn decides, each value has its type, and every name stands in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from ddpkit import config
from ddpkit.config import Keywords, LaunchSettings, collect_settings, find_python
from ddpkit.errors import UsageError

TOML = """\
script = "train.py --epochs 3"
hosts = ["a", "b"]
grace = 1
options = { starter = "torchrun", signals = true }
env = { A = 1, B = "file" }
profile = "two"

[profiles.two]
grace = 2
options = { starter = "ranks" }

[groups]
gpus = ["c"]

[host.c]
slots = 2
"""


def test_every_source_in_turn_decides(tmp_path: Path) -> None:
    (tmp_path / "ddpkit.toml").write_text(TOML)
    environ = {"DDPKIT_HOSTS": "c, d", "DDPKIT_NNODES": "1:2", "DDPKIT_FOLD": "0"}
    settings = collect_settings(tmp_path, environ, None, {"fold": "1", "nproc_per_node": 4, "env": {"B": "flag"}})
    assert settings == LaunchSettings(
        script=("train.py", "--epochs", "3"),
        hosts=("c", "d"),
        grace=2.0,
        fold=1.0,
        nnodes=(1, 2),
        nproc_per_node=4,
        options={"starter": "ranks", "signals": True},
        env={"A": "1", "B": "flag"},
        groups={"gpus": ("c",)},
        host={"c": config.HostSettings(slots=2)},
        sources={
            "script": "ddpkit.toml",
            "hosts": "DDPKIT_HOSTS",
            "grace": "profile two (ddpkit.toml)",
            "fold": "flag",
            "nnodes": "DDPKIT_NNODES",
            "nproc_per_node": "flag",
            "options.starter": "profile two (ddpkit.toml)",
            "options.signals": "ddpkit.toml",
            "env.A": "ddpkit.toml",
            "env.B": "flag",
        },
        file=str(tmp_path / "ddpkit.toml"),
    )
    assert settings.source("hosts") == "DDPKIT_HOSTS"
    assert settings.source("python") == "default"


def test_keywords_are_the_settings() -> None:
    assert Keywords.__annotations__.keys() == config.SETTINGS.keys()
    assert {each.name for each in fields(LaunchSettings)} - config.SETTINGS.keys() == {
        "function",
        "groups",
        "held",
        "host",
        "in_job",
        "inherited",
        "sources",
        "file",
        "roles",
        "roles_from",
        "replica",
        "stdin",
    }


def test_values_of_a_program(tmp_path: Path) -> None:
    """A caller of Python gives values where a command line gives text."""
    given: Keywords = {"workdir": tmp_path, "nnodes": (1, 2), "grace": 3, "hosts": ("a",), "fold": None, "metrics": ""}
    settings = collect_settings(tmp_path, {}, None, given, source="keyword")
    assert (settings.workdir, settings.nnodes, settings.grace) == (str(tmp_path), (1, 2), 3.0)
    assert settings.source("hosts") == "keyword"
    assert settings.is_given("hosts")
    assert not settings.is_given("python")


@pytest.mark.parametrize(
    ("given", "flag", "keyword"),
    [
        ({"nproc_per_node": "0"}, "-n 0: must be at least 1", "nproc_per_node = 0: must be at least 1"),
        (
            {"nnodes": (3, 2)},
            "-N 3:2: the smaller number must come first",
            "nnodes = 3:2: the smaller number must come first",
        ),
        ({"slow_action": "no"}, "--slow-action no: must be note or spare", "slow_action = no: must be note or spare"),
        ({"hang_action": "no"}, "hang_action = no: must be warn or end", "hang_action = no: must be warn or end"),
        ({"hosts": "a"}, "--hosts 'a' is not valid", "hosts = 'a' is not valid"),
        ({"env": ["SECRET"]}, "--env ... is not valid", "env = ... is not valid"),
    ],
)
def test_a_wrong_value_is_named(given: Keywords, flag: str, keyword: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        collect_settings(tmp_path, {}, None, given)
    assert error.value.message == flag
    with pytest.raises(UsageError) as error:
        collect_settings(tmp_path, {}, None, given, source="keyword")
    assert error.value.message == keyword


def with_torch(*known: str) -> Callable[[str], bool]:
    return lambda python: python in known


def test_the_ranks_get_a_python_with_torch(tmp_path: Path) -> None:
    """ddpkit as a tool of pipx or uv has none; the project's environment has."""
    for name in ("venv", "conda", "path"):
        for program in ("python", "python3"):
            file = tmp_path / name / "bin" / program
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("#!/bin/sh\n")
            file.chmod(0o755)
    venv, conda, path = (str(tmp_path / name / "bin/python") for name in ("venv", "conda", "path"))
    environ = {
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "PATH": str(tmp_path / "path/bin"),
    }
    assert find_python("/own", environ, with_torch("/own", venv)) == ("/own", "default")
    assert find_python("/own", environ, with_torch()) == (venv, "VIRTUAL_ENV")
    del environ["VIRTUAL_ENV"]
    assert find_python("/own", environ, with_torch()) == (conda, "CONDA_PREFIX")
    environ["CONDA_PREFIX"] = "/gone"
    assert find_python("/own", environ, with_torch(f"{path}3")) == (f"{path}3", "PATH")
    assert find_python("/own", environ, with_torch(path)) == (path, "PATH")
    assert find_python("/own", environ, with_torch()) == ("/own", "default")
    assert find_python("/own", {}, with_torch()) == ("/own", "default")


def test_a_script_of_a_later_source_replaces_roles(tmp_path: Path) -> None:
    roles = '[roles.serve]\ncommand = "serve.py"\n'
    (tmp_path / "ddpkit.toml").write_text(f"script = 'train.py'\n[profiles.plain]\nscript = 'plain.py'\n{roles}")
    (tmp_path / "roles.toml").write_text(roles)
    variable = {"DDPKIT_SCRIPT": "other.py"}
    assert collect_settings(tmp_path, {}, None, {}).has_roles
    assert not collect_settings(tmp_path, variable, None, {}).has_roles
    assert not collect_settings(tmp_path, {}, "plain", {}).has_roles
    assert collect_settings(tmp_path, variable, "plain", {}, roles="roles.toml").has_roles
