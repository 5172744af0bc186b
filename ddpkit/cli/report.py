"""`ddpkit report`: one page about a run, to look at, to keep and to hand on."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json
from ddpkit.cli.output_file import Force, check_output, write_output
from ddpkit.cli.runs import RunName
from ddpkit.errors import DdpkitError, UsageError


@app.command(
    cls=LeanCommand,
    epilog="The page needs nothing else: no network, no other file. It also shows which data were not recorded.",
)
def report(
    run: RunName = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write to FILE. [default: report.html in the run's directory]",
        ),
    ] = None,
    force: Force = False,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Read steps from FILE: lines of JSON. [default: the run's metrics.jsonl]"),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write one HTML page about a run: where it ran, its start, its curves, its slowest rank, its end."""
    from ddpkit.run import status
    from ddpkit.run.documents import attempt_document, failure_document
    from ddpkit.run.report import load, page, summary

    if output is not None:
        check_output("--output", Path(output), force=force)
    given = Path(metrics) if metrics is not None else None
    if given is not None and not given.is_file():
        raise UsageError(f"file {metrics} not found", "ls -l *.jsonl")
    now = status.get_status(status.choose(run, "ddpkit report {}", newest=True))
    if run is None:
        print(f"ddpkit: run {now.run.run_id}, the newest of this project", file=sys.stderr)
    contents = summary.report(now, load.read(now.run, metrics_file=given), time.time())
    if as_json:
        failure = failure_document(contents.failure) if contents.failure else None
        attempts = [attempt_document(each) for each in contents.attempts]
        print_json("report", {**asdict(contents), "failure": failure, "attempts": attempts})
        if output is None and not show:
            return
    path = Path(output) if output is not None else Path(now.run.folder) / "report.html"
    again = output is None and page.is_page(path)  # the page of the same run, as it was before
    write_output("--output", path, page.page(contents), force=force or again)
    print(path, file=sys.stderr if as_json else sys.stdout)
    if show:
        _open(path)


def _open(path: Path) -> None:
    import webbrowser

    if not (os.environ.get("BROWSER") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and (
        sys.platform == "linux"
    ):
        raise DdpkitError(
            "no browser found: this session has no display", f"scp {os.uname().nodename}:{shlex.quote(str(path))} ."
        )
    if not webbrowser.open(path.absolute().as_uri()):
        raise DdpkitError(
            f"no browser could open {path}",
            f"BROWSER=PROGRAM ddpkit report --open {shlex.quote(str(path.parent))}",
        )
