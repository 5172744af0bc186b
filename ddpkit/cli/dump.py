"""`ddpkit dump`: where every rank is, and which one the others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddpkit.cli import look, runs
from ddpkit.cli.app import JsonFlag, LeanCommand, app, print_json
from ddpkit.cli.look import table
from ddpkit.cli.runs import RunName
from ddpkit.errors import UsageError
from ddpkit.launchers.host_names import format_hosts
from ddpkit.text import format_ranks

if TYPE_CHECKING:
    from ddpkit.run.status import RunStatus

SHOWN = 12  # frames of one stack
MOST_ROWS = 64  # of more ranks the table has those that a finding names


@app.command(cls=LeanCommand)
def dump(
    run: RunName = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the nodes and the directory; collect nothing.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the stacks of all ranks, and the rank that the others wait for."""
    from ddpkit.monitor import client
    from ddpkit.run import status

    now = status.get_status(runs.choose(run, "ddpkit dump {}"))
    _check(now)
    chosen = now.run
    if dry_run:
        asked = f"the ranks of job {chosen.job_id}, with srun --overlap" if chosen.job else "its launcher"
        where = "" if chosen.job else f" (process {chosen.launcher_pid}), on {format_hosts(chosen.hosts)}"
        if as_json:
            print_json("question", {"run_id": chosen.run_id, "asks": asked + where, "folder": chosen.folder})
        else:
            print(f"would query {asked}{where}; into {chosen.folder}/dump-TIME/")
        return
    summary = client.dump_job(chosen) if chosen.job else client.request_dump(chosen)
    if as_json:
        print_json("dump", summary)
    else:
        _show(summary)


def _check(now: RunStatus) -> None:
    """Raise the error that explains why a run cannot be queried."""
    from ddpkit.run import status

    run = now.run
    if now.state == "elsewhere":
        raise UsageError(
            f"cannot reach run {run.run_id}: it is {now.words}",
            status.remote_command("dump", run),
        )
    if now.state == "queued":
        raise UsageError(f"run {run.run_id} has no ranks yet: {now.words}", status.command("status", run))
    if now.state == "unknown":
        raise UsageError(f"cannot query run {run.run_id}: {now.words}", now.hint or status.command("status", run))
    if not now.living:
        raise UsageError(
            f"run {run.run_id} has ended, and has no running ranks: {now.words}", status.command("logs", run)
        )
    if run.job is not None and run.job.many:
        raise UsageError(f"job {run.job_id} is an array: each task has its own {run.world_size} ranks", "squeue --me")
    if run.job is not None and not run.job.labels:
        raise UsageError(
            f"the scheduler of job {run.job_id} gives no access to its ranks", "on a node: py-spy dump --pid PID"
        )


def _show(summary: dict[str, Any]) -> None:
    from ddpkit.monitor import rank_state as where

    ranks, rows = summary["ranks"], []
    if len(ranks) > MOST_ROWS:
        named = [number for finding in summary["findings"] for number in finding["ranks"]][:MOST_ROWS]
        ranks = [rank for rank in ranks if rank["rank"] in named]
    for rank in ranks:
        at = []
        for name, group in rank["groups"].items():
            pending = group["pending"]
            if pending:
                at.append(f"{pending['op']} #{pending['seq']} of group {name}, {pending['since']:.0f} s")
            elif group["begun"]:
                at.append(f"done with #{group['done']} of group {name}")
        rows.append(
            (
                str(rank["rank"]),
                rank["host"],
                str(rank["pid"] or ""),
                rank["state"],
                "; ".join(at),
                rank["where"] or rank["why"],
            )
        )
    table(("rank", "host", "pid", "state", "collectives", "where"), rows)
    if len(ranks) < len(summary["ranks"]):
        print(f"and {len(summary['ranks']) - len(ranks)} other ranks, by their stacks:")
    for group in summary["stacks"][:MOST_ROWS]:
        print(f"stack of {format_ranks(group['ranks'])}:")
        for frame in group["frames"][:SHOWN]:
            print(f"    {where.spot(frame)}")
        if len(group["frames"]) > SHOWN:
            print(f"    and {len(group['frames']) - SHOWN} more")
    for finding in summary["findings"]:
        look.say(finding["words"], "WARN")
    if summary["folder"]:
        print(f"all answers: {summary['folder']}/")
