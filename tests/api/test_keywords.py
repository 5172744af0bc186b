"""Keywords of the Python interface say the same as flags of the command line: equal settings, plans and errors."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import given, settings
from hypothesis import strategies as st

import ddpkit
from ddpkit import config
from ddpkit.api.keywords import hint_in_keywords, message_in_keywords
from ddpkit.api.launches import _command_line
from ddpkit.cli import app, launch
from ddpkit.cli import test as test_command
from ddpkit.config import LaunchSettings
from ddpkit.execution import job, prepare
from ddpkit.launchers import registry
from ddpkit.launchers.plan import Plan
from ddpkit.launchers.shell import Secret
from ddpkit.preflight import run as preflight
from ddpkit.preflight.check import CheckReport
from ddpkit.preflight.rank_program import PreflightOptions
from ddpkit.run import record
from ddpkit.transports import this_machine

FILE = """
grace = 7
[profiles.two]
nproc_per_node = 2
options = { starter = "ranks" }
env = { COLOUR = "blue" }
"""
WORD = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=8).filter(lambda text: text[0] != "-")
SECONDS = st.one_of(st.floats(-1, 1e5), st.integers(-1, 100), st.sampled_from(["x", "3.5", ""]))
# The values of each keyword, wrong ones among them. A new setting needs a line.
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "backend": st.sampled_from(["local", "slurm", "slurm-torchrun", "legacy", "ssh", "pdsh", "nope"]),
    "hosts": st.lists(st.sampled_from(["localhost", "node1", "node[2-4]", "me@big:2222", "@gpus"]), max_size=3),
    "hostfile": st.sampled_from(["hosts.txt", "nope.txt"]),
    "nproc_per_node": st.one_of(st.integers(-1, 5000), st.sampled_from(["auto", "x", "3"])),
    "nnodes": st.integers(-1, 9) | st.tuples(st.integers(0, 5), st.integers(0, 5)) | st.sampled_from(["2:4", "x"]),
    "workdir": st.sampled_from([".", "sub", "/nope"]),
    "python": st.sampled_from([sys.executable, "/nope/python"]),
    "grace": SECONDS,
    "log_dir": st.sampled_from(["logs", "sub/logs"]),
    "preflight": st.just(False),
    "hold": st.just(False),
    "hang_timeout": SECONDS,
    "log_limit": st.sampled_from([0, "20G", "500 M", "1", -1]),
    "all_log": st.just(True),
    "hang_action": st.sampled_from(["warn", "end", "shout"]),
    "slow_action": st.sampled_from(["note", "spare", "shout"]),
    "sync": st.just(True),
    "header": st.just(False),
    "fold": SECONDS,
    "retries": st.integers(0, 3),
    "spares": st.integers(0, 3),
    "progress": WORD,
    "retry_codes": st.lists(st.integers(1, 255), min_size=1),
    "stop_codes": st.lists(st.integers(1, 255), min_size=1),
    "observe": st.lists(st.sampled_from(config.PARTS), unique=True),
    "metrics": WORD,
    "on_end": WORD,
    "on_attempt": WORD,
    "name": WORD,
    "bad_nodes": WORD,
    "allow_nested": st.just(True),
    "options": st.dictionaries(
        st.sampled_from(["starter", "preload", "partition", "time", "nope"]),
        st.sampled_from(["ranks", "torchrun", "gpu", "3", "true"]),
        max_size=2,
    ),
    "env": st.dictionaries(
        st.sampled_from(["NCCL_DEBUG", "HOME", "NOT_SET_HERE", "RANK", "1BAD"]), st.one_of(st.none(), WORD), max_size=2
    ),
}
SCRIPT = st.sampled_from(
    [
        None,
        ("train.py", []),
        ("train.py", ["--epochs", "3"]),
        ("-m", ["json.tool"]),
        ("nope.py", []),
        ("sleep", ["1"]),
        ("python", ["-u", "train.py"]),
    ]
)
PROFILE = st.sampled_from([None, None, "two", "nope"])
OF_TEST = ("backend", "hosts", "hostfile", "nproc_per_node", "nnodes", "workdir", "python", "log_dir", "options", "env")


class Seen:
    """What one of the two ways came to."""

    def __init__(self) -> None:
        self.settings: LaunchSettings | None = None
        self.plan: Plan | None = None
        self.error: tuple[str, str | None] | None = None
        self.depth: object = None


class NodesNeededError(Exception):
    """The settings name nodes, which are not there to be entered."""


@pytest.fixture(scope="module")
def patches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Seen]]:
    """Both ways tell what they came to; nothing is entered, run ids and ports are always the same."""
    folder, current = tmp_path_factory.mktemp("keywords"), [Seen()]
    (folder / "sub").mkdir()
    (folder / "ddpkit.toml").write_text(FILE)
    (folder / "train.py").touch()
    (folder / "hosts.txt").write_text("node1\nnode2\n")
    original = prepare.prepare

    @contextmanager
    def prepared(chosen: LaunchSettings, *rest: Any, **_: Any) -> Iterator[Any]:
        current[0].settings = chosen
        if registry.load(chosen.backend).reach in ("ssh", "pdsh"):
            raise NodesNeededError
        with original(chosen, *rest) as ready:
            yield ready

    def shown(plan: Plan, _as_json: bool) -> None:
        current[0].plan = plan

    def explained(error: ddpkit.DdpkitError, *_: object) -> int:
        current[0].error = (error.message, error.hint)
        return error.exit_code

    def examined(chosen: LaunchSettings, _environ: object, options: PreflightOptions) -> CheckReport:
        current[0].settings, current[0].depth = chosen, (options.depth, options.ranks, options.timeout)
        return CheckReport()

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in list(os.environ):
            if name.startswith(("DDPKIT_", "SLURM_")) or name == "NOT_SET_HERE":
                patch.delenv(name)
        patch.setattr(prepare, "prepare", prepared)
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))  # it is the slow part
        patch.setattr(launch, "show_plan", shown)
        patch.setattr(app, "_explain", explained)
        patch.setattr(preflight, "run_preflight", examined)
        patch.setattr(test_command, "end_by_signals", lambda: None)
        patch.setattr(signal, "signal", lambda *_: None)
        patch.setattr(record, "new_id", lambda _: "ID")
        # A value that was passed by name is secret, and no secret stands in the script of a job.
        patch.setattr(job, "guard", lambda _, value, **__: Secret(value))
        patch.setattr(this_machine, "free_port", lambda: 29500)
        yield current


def plain(chosen: LaunchSettings | None) -> LaunchSettings | None:
    """Options are text on the command line, and parsed by their backend; values of variables are passed by name."""
    if chosen is None:
        return None
    options = {name: str(value).lower() for name, value in chosen.options.items()}
    sources = {name: "keyword" if source == "flag" else source for name, source in chosen.sources.items()}
    return replace(chosen, options=options, sources=sources, inherited=frozenset())


def in_keywords(error: tuple[str, str | None]) -> tuple[str, str | None]:
    """An error of the command line, or of a call, as a call words it. Of a value, each way has its own hint."""
    message = re.sub(r"^(\w+) = ", r"\1 ", message_in_keywords(error[0]))
    of_value = message.split()[0] in config.SETTINGS
    return message, None if of_value else error[1] and hint_in_keywords(error[1])


def compared(patches: list[Seen], by_words: Callable[[], object], by_keywords: Callable[[], object]) -> Seen:
    seen = []
    for call in (by_words, by_keywords):
        patches[0] = Seen()
        try:
            result = call()
            if isinstance(result, Plan):
                patches[0].plan = result
        except NodesNeededError:
            pass
        except ddpkit.DdpkitError as error:
            patches[0].error = (error.message, error.hint)
        seen.append(patches[0])
    words, keywords = seen
    assert bool(words.error) == bool(keywords.error)
    if words.error and keywords.error:
        assert in_keywords(words.error) == in_keywords(keywords.error)
    assert plain(words.settings) == plain(keywords.settings)
    assert words.plan == keywords.plan
    assert words.depth == keywords.depth
    return keywords


def test_every_setting_has_values() -> None:
    assert set(VALUES) == set(config.SETTINGS) - {"script"} == set(config.LaunchKeywords.__annotations__)


@given(keywords=st.fixed_dictionaries({}, optional=VALUES), script=SCRIPT, profile=PROFILE)
@settings(max_examples=200)
def test_keywords_are_flags(patches: list[Seen], keywords: Any, script: Any, profile: str | None) -> None:
    name, args = script or (None, [])
    words, env = _command_line(name, args, profile, keywords)
    with ExitStack() as stack:

        def by_words() -> object:
            for variable, value in env.items():
                stack.enter_context(pytest.MonkeyPatch.context()).setenv(variable, value)
            return app.run(["launch", "--dry-run", *words])

        def by_keywords() -> object:
            stack.pop_all().close()
            return ddpkit.plan(name, args, profile=profile, **keywords)

        compared(patches, by_words, by_keywords)


@pytest.mark.parametrize("name", VALUES)
def test_each_keyword_is_its_flag(name: str, patches: list[Seen]) -> None:
    """One good value of each, so that none is only ever refused."""
    good: dict[str, object] = {
        "backend": "slurm", "hosts": ["localhost"], "hostfile": "hosts.txt", "nproc_per_node": 3, "nnodes": 1,
        "workdir": Path("sub"), "python": sys.executable, "grace": 2.5, "log_dir": "sub/logs", "preflight": False,
        "hang_timeout": 60, "hang_action": "end", "slow_action": "note", "sync": True,
        "header": False, "fold": 0, "metrics": "m.jsonl",
        "log_limit": 1 << 20, "all_log": True, "hold": False,
        "retries": 2, "spares": 1, "progress": "*.pt", "retry_codes": [75, 42], "stop_codes": [3], "observe": ["start"],
        "name": "baseline", "bad_nodes": "bad.json", "allow_nested": True, "on_end": "true", "on_attempt": "true",
        "options": {"starter": "torchrun"}, "env": {"NCCL_DEBUG": "INFO", "HOME": None},
    }  # fmt: skip
    named: Any = {name: good[name], **({"backend": "ssh", "hosts": ["node1"]} if name == "sync" else {})}
    if name == "hostfile":
        named["backend"] = "ssh"
    if name in ("hang_action", "slow_action"):
        named["hang_timeout"] = 60
    if name == "slow_action":
        named["observe"] = ["stacks"]
    if name == "retries":
        named["backend"] = "local"
    if name == "spares":
        named |= {"backend": "ssh", "hosts": ["node1", "node2"], "retries": 1}
    words, _ = _command_line("sleep", ["1"], None, named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NCCL_DEBUG", "INFO")
        seen = compared(
            patches,
            lambda: app.run(["launch", "--dry-run", *words]),
            lambda: ddpkit.plan("sleep", ["1"], **named),
        )
    assert seen.error is None
    assert seen.settings is not None
    value = getattr(seen.settings, name)
    assert str(good[name]) in str(value) or list(value) == good[name] or good[name] == value or name == "env"
    if name not in ("sync", "hostfile", "spares"):
        assert seen.plan is not None


@given(
    keywords=st.fixed_dictionaries({}, optional={name: VALUES[name] for name in OF_TEST}),
    quick=st.booleans(), full=st.booleans(), ranks=st.booleans(), profile=PROFILE,
    timeout=st.one_of(st.none(), st.floats(-1, 100)),
)  # fmt: skip
@settings(max_examples=100)
def test_keywords_of_a_test_are_its_flags(
    patches: list[Seen], keywords: Any, quick: bool, full: bool, ranks: bool, profile: str | None, timeout: float | None
) -> None:
    words, env = _command_line(None, (), profile, keywords)
    words += ["--quick"] * quick + ["--full"] * full + ["--no-ranks"] * (not ranks)
    words += ["--timeout", str(timeout)] if timeout is not None else []
    with ExitStack() as stack:

        def by_words() -> object:
            for variable, value in env.items():
                stack.enter_context(pytest.MonkeyPatch.context()).setenv(variable, value)
            return app.run(["test", "--json", *words])

        def by_keywords() -> object:
            stack.pop_all().close()
            return ddpkit.test(profile=profile, quick=quick, full=full, ranks=ranks, timeout=timeout, **keywords)

        compared(patches, by_words, by_keywords)


@pytest.mark.parametrize("function", [ddpkit.launch, ddpkit.plan, ddpkit.test])
def test_types_of_keywords_can_be_read(function: Callable[..., object]) -> None:
    """As notebooks and libraries of commands read them."""
    hints = typing.get_type_hints(function)
    assert hints.keys() - {"return"} == inspect.signature(function).parameters.keys()
    assert hints["retries"] == int | str | None
