"""Launches of `ddpkit bench start`: a rank program in each way, in turn, as `ddpkit bench` launches its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ddpkit.config import LaunchSettings
from ddpkit.diagnosis import verdict
from ddpkit.errors import DdpkitError, LaunchError, UsageError
from ddpkit.execution import prepare
from ddpkit.execution.requested_nodes import Queries
from ddpkit.launchers import registry
from ddpkit.launchers.plan import Plan
from ddpkit.preflight import rank_program
from ddpkit.preflight.start_ways import Situation, Way, WayTimes, choose_way

Measured = Literal["launch to exit", "job start to all_reduce"]


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What is measured, and how often."""

    ways: Sequence[str]
    rounds: int = 3
    timeout: float = 300.0  # seconds that a launch may be silent
    comm: str = "auto"
    modules: tuple[str, ...] = ()  # that each rank imports
    note: Callable[[str], None] = lambda _: None
    signals: rank_program.SignalScope = rank_program.take_no_signals


@dataclass(kw_only=True)
class StartBench:
    """Launches of all ways, and their times."""

    settings: LaunchSettings
    environ: Mapping[str, str]
    options: StartOptions
    times: list[WayTimes] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # of the ranks

    def __post_init__(self) -> None:
        words = (f"{self.options.timeout:g}", self.options.comm, *self.options.modules)
        command = rank_program.command("first_reduce", "start", args=words)
        here = situation(self.settings)
        self.times = [WayTimes(way=choose_way(name, here)) for name in self.options.ways]
        self.settings = rank_program.settings_for(self.settings, command, {})
        self.facts = {"backend": here.backend, "rounds": self.options.rounds, "world_size": None, "hosts": []}
        self.facts |= {"torch": "", "comm": "", "measured": None}

    def plan(self, queries: Queries) -> None:
        """Plan each way, and start nothing."""
        for each in self._possible():
            try:
                with prepare.prepare(
                    self._settings(each.way), self.environ, self.options.note, queries=queries
                ) as ready:
                    each.plan = rank_program.name_programs(str(ready.plan))
                    self._add_facts(ready.plan, in_job=ready.plan.batch is not None)
            except DdpkitError as error:
                _refuse(each, error)
        self._raise_common()

    def run(self) -> None:
        """Launch all ways in turn, once more than there are rounds. Each round begins with another way."""
        for number in range(self.options.rounds + 1):
            for each in in_turn(self._possible(), number):
                took = self._launch(each, first=number == 0)
                if took is None:
                    self.options.note(f"{each.way.name}: {each.reason}")
                    continue
                when = f"round {number} of {self.options.rounds}" if number else "first launch"
                self.options.note(f"{when}: {each.way.name} {took:.2f} s")
                if number == 0:
                    each.first = took
                else:
                    each.seconds.append(took)
        for each in self._possible():
            each.state = "measured"
        self._raise_common()

    @property
    def exit_code(self) -> int:
        """Return 0 if a way worked, else the code of the first that did not."""
        if any(each.state in ("measured", "planned") for each in self.times):
            return 0
        return next((each.exit_code for each in self.times if each.exit_code), UsageError.exit_code)

    def _possible(self) -> list[WayTimes]:
        return [each for each in self.times if each.state == "planned"]

    def _raise_common(self) -> None:
        """Raise the error of all ways, where it is the same one."""
        refused = [each for each in self.times if not each.way.reason]
        if self.exit_code and refused and len({(each.reason, each.fix) for each in refused}) == 1:
            one, kinds = refused[0], {error.exit_code: error for error in (UsageError, LaunchError)}
            if not one.folder:
                raise kinds.get(one.exit_code, DdpkitError)(one.reason, one.fix)

    def _settings(self, way: Way) -> LaunchSettings:
        return replace(self.settings, backend=way.backend, options=way.options)

    def _launch(self, each: WayTimes, *, first: bool) -> float | None:
        """Launch once. Returns the seconds, or None where it failed; a launch that succeeded leaves no directory."""
        note = self.options.note if first else _ignore
        began = time.monotonic()
        try:
            with prepare.prepare(self._settings(each.way), self.environ, note, _ignore_progress) as ready:
                done = rank_program.run(
                    ready.plan,
                    ready.transport,
                    self.settings.log_dir,
                    silence=self.options.timeout,
                    signals=self.options.signals,
                )
                took = time.monotonic() - began
        except DdpkitError as error:
            _refuse(each, error)
            return None
        ranks = {event["rank"]: event for event in done.events if event["e"] == "reduced"}
        if done.outcome.exit_code or done.silent or len(ranks) < ready.plan.world_size:
            _add_failure(each, done, len(ranks), ready.plan.world_size)
            return None
        self._add_facts(ready.plan, in_job=done.job_began is not None)
        some = next(iter(ranks.values()))
        hosts = [ranks[rank]["host"] for rank in sorted(ranks)]
        self.facts |= {"torch": some["torch"], "comm": some["comm"], "hosts": list(dict.fromkeys(hosts))}
        if done.job_began is not None:
            took = max(event["t"] for event in ranks.values()) - done.job_began
        done.remove()
        return took

    def _add_facts(self, plan: Plan, *, in_job: bool) -> None:
        measured: Measured = "job start to all_reduce" if in_job else "launch to exit"
        self.facts |= {"world_size": plan.world_size, "measured": measured}


def in_turn(times: Sequence[WayTimes], number: int) -> list[WayTimes]:
    """Return the ways in the order of a round: no way always follows the same one. Pure."""
    at = max(0, number - 1) % max(1, len(times))
    return [*times[at:], *times[:at]]


def situation(settings: LaunchSettings) -> Situation:
    """Return the facts that decide which ways are possible. Raises UsageError."""
    if isinstance(settings.nnodes, tuple):
        raise UsageError("bench start requires one number of nodes", "-N MAX")
    backend = registry.load(settings.backend)
    given = {name: str(value) for name, value in settings.options.items()}
    return Situation(
        backend=backend.name,
        options=[option.name for option in registry.options(backend)],
        given=given,
        container=bool(given.get("container")),
        via=bool(given.get("via")),
        at_home=Path(settings.workdir).absolute() == Path.home(),
    )


def _ignore(_text: str) -> None:
    pass


def _ignore_progress(_host: str, _percent: int) -> None:
    pass


def _refuse(each: WayTimes, error: DdpkitError) -> None:
    state: Literal["impossible", "failed"] = "impossible" if isinstance(error, UsageError) else "failed"
    each.fail(state, error.message, error.hint or "", error.exit_code)


def _add_failure(each: WayTimes, done: rank_program.ProgramRun, arrived: int, ranks: int) -> None:
    """Record why a launch failed, with its cause."""
    failure, code = done.outcome.failure, done.outcome.exit_code or LaunchError.exit_code
    each.folder = done.folder
    if done.silent:
        each.fail("failed", f"no rank reported for {done.silent:g} s", "--timeout SECONDS", LaunchError.exit_code)
    elif failure is None:
        each.fail("failed", f"{arrived} of {ranks} ranks finished the all_reduce", f"less {done.folder}/all.log", code)
    else:
        failure = verdict.diagnose(failure, Path(done.folder) / "all.log")
        fix = verdict.hint(failure, failure.diagnosis)
        each.fail("failed", verdict.verdict(failure, failure.diagnosis), fix, code)
