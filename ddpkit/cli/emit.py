"""`ddpkit emit`: a launch as one script that runs without ddpkit."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ddpkit.cli.app import LeanCommand, app
from ddpkit.cli.options import (
    Backend,
    Grace,
    Hostfile,
    HostWords,
    Nodes,
    Options,
    Profile,
    Python,
    RanksPerNode,
    Variables,
    Workdir,
    launch_settings,
    parse_options,
    parse_variables,
)
from ddpkit.errors import UsageError

if TYPE_CHECKING:  # a command imports what it needs when it runs
    from ddpkit.config import LaunchSettings


@app.command(
    cls=LeanCommand,
    epilog="`ddpkit emit -b ssh node1 node2 -n 2 -- train.py > run.sh`. The words are those of `ddpkit launch`. Named "
    "nodes are asked, as for a dry run; nothing is started. Secrets are not written: the script demands them.",
)
def emit(
    context: typer.Context,
    hosts: HostWords = None,
    backend: Backend = None,
    nproc_per_node: RanksPerNode = None,
    nnodes: Nodes = None,
    option: Options = None,
    env: Variables = None,
    workdir: Workdir = None,
    python: Python = None,
    profile: Profile = None,
    grace: Grace = None,
    hostfile: Hostfile = None,
    no_preflight: Annotated[bool, typer.Option("--no-preflight", help="Go on although the nodes differ.")] = False,
    sync: Annotated[bool, typer.Option("--sync", help="The script first copies the working folder.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Write it there, to be started; nothing is overwritten."),
    ] = None,
) -> None:
    """Print a launch as one script that runs without ddpkit."""
    settings = launch_settings(
        context,
        profile,
        backend=backend,
        workdir=workdir,
        python=python,
        hostfile=hostfile,
        nproc_per_node=nproc_per_node,
        nnodes=nnodes,
        grace=grace,
        sync=sync or None,
        preflight=False if no_preflight else None,
        hosts=hosts,
        options=parse_options(option),
        env=parse_variables(env),
    )
    if output is not None and os.path.lexists(output):
        raise UsageError(f"{output} is there already", "--output FILE, or > FILE")
    text = _script(settings).encode("utf-8", "surrogateescape")
    if output is None:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    try:
        fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
        with open(fd, "wb") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}", "--output FILE") from None
    print(f"ddpkit: {output}: {'sbatch' if b'#SBATCH' in text else 'bash'} {output} runs it", file=sys.stderr)


def _script(settings: LaunchSettings) -> str:
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
        raise UsageError(f"backend {backend.name} cannot be written as a script", "--dry-run shows its plan")
    if isinstance(settings.nnodes, tuple):
        raise UsageError("-N MIN:MAX needs ddpkit while it runs: a script ends at the first failure", "-N MAX")
    with prepare.prepare(settings, os.environ, note) as ready:
        return script.script(
            ready.plan,
            watcher=templates.find("scripts/ssh/watcher.py").read_text(encoding="utf-8"),
            fixed_port=port,
            timeout=float(getattr(backend, "connect_timeout", 10.0)),
            accept_new=bool(getattr(backend, "accepts_new", False)),
            pdsh=str(getattr(backend, "pdsh_args", "")) if transport.pdsh else None,
        )
