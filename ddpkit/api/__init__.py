"""Python interface: launch, plan and test runs, and find them again. The command line calls the same functions.

    import ddpkit

    run = ddpkit.launch("train.py", ["--epochs", "3"], backend="ssh", hosts=["node1", "node2"], nproc_per_node=4)
    run.state  # RunState.RUNNING
    run.wait(check=True)  # raises RunFailedError with the first failure: host, rank, code, cause, last lines

Settings are keywords with the names of the flags: `nproc_per_node=4` is `--nproc-per-node 4`, `preflight=False` is
`--no-preflight`, `options={"partition": "gpu"}` is `-o partition=gpu`, `env={"DEBUG": "1", "HOME": None}` is
`--env DEBUG=1 --env HOME`. Other settings come from `DDPKIT_*` variables and `ddpkit.toml`, as on the command
line. A wrong setting raises `UsageError`, which names the keyword.

Several programs are one run: `ddpkit.launch(roles={"infer": ddpkit.Role(...), "train": ddpkit.Role(...)})`.

A function in every rank: `losses = ddpkit.call(train, lr=1e-3, nproc_per_node=8)`, and for each item of a sweep
`ddpkit.map(train, rates, gpus=2)`.

ddpkit prints only with `echo=True`, and changes no signal handler. It works in a notebook and in any thread. Several
runs can be active. Runs end with the program. At its normal end each rank gets SIGTERM, and SIGKILL after the grace. If
the program is killed, its supervisors see their standard input close and end the ranks. Jobs of a scheduler continue:
`open_run(...)` finds them, `stop()` cancels them.
"""

from ddpkit.api.calls import Results, aio, call, map  # noqa: A004  (as `concurrent.futures`)
from ddpkit.api.keywords import Role
from ddpkit.api.launches import launch, plan, test
from ddpkit.api.run import LogLine, Outcome, Replica, Run, RunFailedError, Status, open_run, runs
from ddpkit.errors import DdpkitError, LaunchError, PreflightError, RankError, UsageError
from ddpkit.launchers.plan import Plan
from ddpkit.preflight.check import Check, CheckReport
from ddpkit.run.record import Attempt, Diagnosis, Failure
from ddpkit.run.state import RunState

__all__ = [
    "Attempt",
    "Check",
    "CheckReport",
    "DdpkitError",
    "Diagnosis",
    "Failure",
    "LaunchError",
    "LogLine",
    "Outcome",
    "Plan",
    "PreflightError",
    "RankError",
    "Replica",
    "Results",
    "Role",
    "Run",
    "RunFailedError",
    "RunState",
    "Status",
    "UsageError",
    "aio",
    "call",
    "launch",
    "map",
    "open_run",
    "plan",
    "runs",
    "test",
]
