"""Screen and relay of a launch: lines are folded above status lines on a terminal, and plain elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ddpkit.cli import look
from ddpkit.console.relay import Logs, Relay
from ddpkit.console.style import is_rich
from ddpkit.console.writer import Screen

if TYPE_CHECKING:
    from ddpkit.config import LaunchSettings
    from ddpkit.console.status_bar import Bottom
    from ddpkit.launchers.plan import Job, Plan


def open_screen(
    job: Job,
    plan: Plan,
    settings: LaunchSettings,
    logs: Logs,
    broken: Callable[[], None],
    *,
    as_json: bool,
    quiet: bool,
) -> tuple[Screen, Relay]:
    """The screen and the relay of a run. With --json standard output holds one document, and lines go to the other."""
    out, err = (sys.stderr if as_json else sys.stdout).buffer, sys.stderr.buffer
    terminals = {number for number, stream in ((1, out), (2, err)) if stream.isatty()}
    screen = Screen(out, err, broken, None if as_json or not terminals else _bottom(job, plan, settings, out, err))
    fold = None
    if terminals and settings.fold and plan.world_size > 1:
        from ddpkit.console.dedup import Fold

        fold = Fold(plan.world_size, settings.fold)
    rich = {n for n, stream in ((1, out), (2, err)) if is_rich(os.environ, terminal=stream.isatty())}
    draw = partial(look.draw, stream=err, signs=look.has_signs(sys.stderr)) if 2 in rich else None
    relay = Relay(
        logs,
        screen.out,
        screen.err,
        rich=rich,
        terminals=terminals,
        fold=fold,
        folded=terminals,  # a pipe's reader gets every line
        draw=draw,
        quiet=quiet,
    )
    return screen, relay


def _bottom(job: Job, plan: Plan, settings: LaunchSettings, out: IO[bytes], err: IO[bytes]) -> Bottom | None:
    if not settings.header:
        return None
    from ddpkit.console import status_bar
    from ddpkit.console.progress import Header
    from ddpkit.launchers import registry
    from ddpkit.run import metrics

    began, words = time.time(), f"{registry.short_name(plan.backend)} {plan.run_id}"

    def find() -> Path | None:
        return metrics.of_run(settings.metrics, job.workdir, job.command, began)

    return status_bar.of(out, err, Header(words, find), os.environ)
