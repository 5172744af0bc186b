"""`ddpkit emit`: a launch as one script that runs without ddpkit."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli.app import app, print_exact
from ddpkit.cli.options import HostWords, Survey, flag, launch_command, launch_settings, queries
from ddpkit.errors import UsageError
from ddpkit.files import create

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings
    from ddpkit.execution.requested_nodes import Queries


@app.command(
    cls=launch_command("grace", "preflight", "sync"),
    epilog="""The options are those of `ddpkit launch`. ddpkit checks named nodes, as for a dry run; it starts nothing.
The script contains no secrets: it requires them in its environment.
ddpkit emit -b ssh node1 node2 -n 2 -- train.py > run.sh
ddpkit emit -b slurm -N 2 --time 2:00:00 --output run.sbatch -- train.py""",
)
def emit(
    context: typer.Context,
    hosts: HostWords = None,
    survey: Survey = False,
    output: Annotated[
        str | None,
        flag("--output", "Options", "Write the script to FILE, which must not exist; also -o FILE.", "FILE"),
    ] = None,
) -> None:
    """Print a launch as one script that runs without ddpkit."""
    settings = launch_settings(context, hosts)
    if output is not None and os.path.lexists(output):
        raise UsageError(f"{output} exists already", "--output FILE, a new file")
    script = _script(settings, queries(dry_run=True, survey=survey))
    if output is None:
        print_exact(script)
        return
    text = script.encode("utf-8", "surrogateescape")
    try:
        create(Path(output), text, 0o755)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}", "--output FILE") from None
    starter = "sbatch" if b"#SBATCH" in text else "bash"
    print(f"ddpkit: wrote {output}; to run it: {starter} {shlex.quote(output)}", file=sys.stderr)


def _script(settings: LaunchSettings, allowed: Queries) -> str:
    from ddpkit import templates
    from ddpkit.execution import prepare
    from ddpkit.launchers import script
    from ddpkit.transports.choose import transport_class

    def note(text: str) -> None:
        print(f"ddpkit: {text}", file=sys.stderr)

    backend = prepare.build_backend(settings)
    port = int(getattr(backend, "master_port", 0))
    transport = transport_class(type(backend))
    if transport.slurm:
        return script.job_script(prepare.plan_later(settings, os.environ))
    if transport.scheduled:
        raise UsageError(
            f"backend {backend.name} cannot be written as a script", "ddpkit launch --dry-run shows its plan"
        )
    if isinstance(settings.nnodes, tuple):
        raise UsageError(
            "-N MIN:MAX needs ddpkit while it runs: a script ends at the first failure", f"add -N {settings.nnodes[1]}"
        )
    if settings.sync:
        raise UsageError("--sync needs ddpkit while it runs: a script copies nothing to the nodes", "remove --sync")
    if getattr(backend, "stage", "off") != "off":
        raise UsageError("--stage needs ddpkit while it runs: a script does not copy to local disks", "remove --stage")
    with prepare.prepare(settings, os.environ, note, queries=allowed) as ready:
        return script.script(
            ready.plan,
            watcher=templates.find("scripts/ssh/watcher.py").read_text(encoding="utf-8"),
            fixed_port=port,
            timeout=float(getattr(backend, "connect_timeout", 10.0)),
            accept_new=bool(getattr(backend, "accepts_new", False)),
            pdsh=str(getattr(backend, "pdsh_args", "")) if transport.pdsh else None,
        )
