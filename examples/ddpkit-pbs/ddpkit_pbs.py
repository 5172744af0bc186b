"""The ranks run in a job of OpenPBS or PBS Professional; pbsdsh starts each one through PBS's own daemons.

A backend in one file: the options, the job script, and how to follow the job. Three things of pbsdsh shape the script
(src/cmds/pbsdsh.c of OpenPBS 20, read): it returns 0 whatever its tasks did and says their codes in words, so these are
read; a task gets nothing of the script's environment, so it is told everything in its command line; and TERM makes it
pass TERM on and leave at once, so that the script itself waits for the ranks.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from ddpkit.errors import UsageError
from ddpkit.launchers.containers import option
from ddpkit.launchers.plan import Batch, File, Job, Plan, Proc, RankStarter, Request, Scheduler, Step, render_step
from ddpkit.launchers.shell import Secret, Value, exports, join, quote
from ddpkit.launchers.starters import task_file
from ddpkit.node.bundle import NAME as BUNDLE

# One rank, in a shell of its own on its node. It says by a file that it lives: the script waits for that.
_RANK = """\
cd {workdir} || exit 1
{exports}export RANK="$1" LOCAL_RANK="$2" NODE_RANK="$3" GROUP_RANK="$3" MASTER_ADDR="$4" MASTER_PORT="$5"
export WORLD_SIZE={world} LOCAL_WORLD_SIZE={nproc} GROUP_WORLD_SIZE={nnodes}
export TORCHELASTIC_RUN_ID="$DDPKIT_RUN"  # for Lightning, which then believes the rest
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{cores}}}"
{setup}: >{folder}/alive."$RANK"
trap : TERM USR1 USR2
{command}
code=$?
rm -f {folder}/alive."$RANK"
exit "$code\""""

# A random port below those that kernels hand out by themselves. Runs on rank 0's host.
_PORT = """\
import os, socket
while True:
    port = 20000 + int.from_bytes(os.urandom(4), "big") % 12000
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            continue
    print(port)
    break"""

_SCRIPT = """\
trap 'echo "ddpkit: job $PBS_JOBID ended with code $?"' EXIT
fail() {{ echo "ddpkit: $*: nothing was started" >&2; exit 123; }}
MASTER_ADDR=$(head -n 1 "$PBS_NODEFILE")
[ -n "$MASTER_ADDR" ] || fail "PBS listed no nodes"
MASTER_PORT=$({probe})
[ -n "$MASTER_PORT" ] || fail "Python found no free port on $MASTER_ADDR"
each={each}
said=$(mktemp -d) || exit 1
stopped= rank=0 node=-1 before= pids=
trap stopped=1 TERM
trap '' USR1 USR2  # qsig gives them to the ranks as well, and those are meant
while read -r host; do
    [ "$host" = "$before" ] || {{ before=$host local=0 node=$((node + 1)); }}
    pbsdsh -n "$rank" -- /bin/bash -c "$each" rank "$rank" "$local" "$node" "$MASTER_ADDR" "$MASTER_PORT" \\
        >"$said/$rank" 2>&1 </dev/null &
    pids="$pids $!" rank=$((rank + 1)) local=$((local + 1))
done <"$PBS_NODEFILE"
[ "$rank" = {world} ] || {{ echo "ddpkit: PBS gave $rank places for {world} ranks" >&2; kill $pids; exit 1; }}
# pbsdsh returns 0 whatever a rank did; what it says of a code that is not 0 counts, the earliest first
code= left={world}
while [ "$left" -gt 0 ] && [ -z "$code$stopped" ]; do
    wait -n
    left=$((left - 1))
    code=$(cd "$said" && cat $(ls -tr) | sed -n 's/.*exit status \\([1-9][0-9]*\\)$/\\1/p' | head -n 1)
done
if [ -n "$code$stopped" ]; then
    kill $pids 2>/dev/null  # pbsdsh passes TERM on, and leaves
    end=$((SECONDS + {grace}))
    while [ "$SECONDS" -lt "$end" ] && ls {folder}/alive.* >/dev/null 2>&1; do sleep 0.2; done
fi
grep -h -v 'exit status\\|^pbsdsh: killing' "$said"/* >&2  # what else pbsdsh had to say
rm -rf "$said"
[ -n "$code" ] || [ -z "$stopped" ] || {{ trap - TERM; kill -TERM $$; }}
exit "${{code:-0}}"  # PBS ends with KILL what is left of the job, on all nodes"""


def _later(field: str, pattern: str) -> str:
    """A field of the JSON that comes after the state, or does not come."""
    return rf'(?=(?:.*?"{field}"\s*:\s*{pattern})?)'


# `status` and `stop` in another shell find these by the backend's name. A job's id has the name of its server; with its
# name, its owner and its time it is told from a later job with its number.
PBS = Scheduler(
    job_id=r"^(\d\S*)$",
    unreachable="cannot connect|Connection refused",
    ping=("qstat", "-B"),
    queue=("qstat",),
    state=("qstat", "-x", "-f", "-F", "json", "{job}"),
    state_pattern=r'(?s)"job_state"\s*:\s*"(?P<state>\w)"'
    + _later("exec_host", r'"(?P<nodes>[^"]*)"')
    + _later("comment", r'"(?P<reason>(?:[^"\\]|\\.)*)"')
    + _later("Exit_status", r"-?(?P<code>\d+)"),
    identity_pattern=r'(?s)(?=.*?"Job_Name"\s*:\s*"(?P<name>[^"]*)")(?=.*?"Job_Owner"\s*:\s*"(?P<user>[^"@]*))'
    r'(?=.*?"ctime"\s*:\s*"(?P<submitted>[^"]*)")',
    waiting=("Q", "H", "W", "T", "M", "S", "U"),
    running=("R",),
    ending=("E",),
    success_states=("F",),  # the state of every end: the exit status tells which
    signals_from=256,
    unsatisfiable_reasons="^Can Never Run",
    forgotten_pattern="Unknown Job",
    stop=("qdel", "{job}"),
    stopped=(),
    signal=("qsig", "-s", "{signal}", "{job}"),
    no_output=-1,
)


@dataclass(frozen=True, kw_only=True)
class Pbs:
    """A PBS job in which pbsdsh starts each rank."""

    name: ClassVar[str] = "pbs"
    reach: ClassVar[str] = "scheduler"
    needs: ClassVar[str] = "qsub, qstat and qdel; job history (qstat -x); a directory that all nodes share"
    scheduler: ClassVar[Scheduler] = PBS

    queue: str = option("", "queue")
    account: str = option("", "account to charge")
    walltime: str = option("", "time limit: HH:MM:SS")
    cpus_per_task: int = option(1, "CPUs for each rank")
    ngpus: int = option(0, "GPUs on each node; without -n also the ranks on it")
    mem: str = option("", "memory on each node: 200gb")
    job_name: str = option("", "job name; default: the name of the script")
    qsub: str = option("", "extra options for qsub")
    setup: str = option("", "shell lines before each rank starts: module load cuda; source venv/bin/activate")

    def plan(self, job: Job, world: Request) -> Plan:
        nnodes, nproc = world.nnodes or 1, world.nproc_per_node or self.ngpus or 1
        if ":" in job.folder or "\n" in job.folder:
            raise UsageError(f"PBS takes what stands before a colon for a host: {job.folder}", "--log-dir DIR")
        step = self._step(job, nnodes, nproc)
        script = f"{job.folder}/job.pbs"
        lines = ["#!/bin/bash", *self._asked(job, nnodes, nproc), "", render_step(step), ""]
        return Plan(
            run_id=job.run_id,
            backend=self.name,
            steps=(step,),
            world_size=nnodes * nproc,
            grace=job.grace,
            files=(
                File(path=f"{job.folder}/{BUNDLE}", copy_of="bundle"),
                task_file(job, [nproc] * nnodes, agent="pbsdsh"),
                File(path=script, text="\n".join(lines)),
            ),
            batch=self._batch(job, script),
        )

    def _step(self, job: Job, nnodes: int, nproc: int) -> Step:
        env: dict[str, Value] = {"DDPKIT_RUN": job.run_id, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
        each = _RANK.format(
            workdir=quote(job.workdir),
            exports="".join(f"{line}\n" for line in exports({**env, **job.env})),
            world=nnodes * nproc,
            nproc=nproc,
            nnodes=nnodes,
            cores=self.cpus_per_task,
            setup=f"{self.setup}\n" if self.setup else "",
            folder=quote(job.folder),
            command=join(
                [job.python, "-S", "-I", f"{job.folder}/{BUNDLE}", "step_task", f"{job.folder}/task.json", *job.argv]
            ),
        )
        text = _SCRIPT.format(
            probe=join([job.python, "-c", _PORT]),
            each=quote(each),
            world=nnodes * nproc,
            grace=int(job.grace) + 1,
            folder=quote(job.folder),
        )
        return Step(
            host="pbs",
            node_rank=0,
            ranks=range(nnodes * nproc),
            workdir=job.workdir,
            env={},
            procs=(Proc(name="pbs", argv=("bash", "-c", text)),),
            rank_starter=RankStarter.SCHEDULER,
        )

    def _asked(self, job: Job, nnodes: int, nproc: int) -> list[str]:
        """The lines for PBS at the head of the script."""
        select = f"select={nnodes}:ncpus={nproc * self.cpus_per_task}:mpiprocs={nproc}"
        select += f":ngpus={self.ngpus}" if self.ngpus else ""
        select += f":mem={self.mem}" if self.mem else ""
        name = self.job_name or job.run_id.split("-", 2)[-1].rpartition("-")[0] or "ddpkit"
        asked = [("-N", name), ("-S", "/bin/bash"), ("-l", select), ("-l", "place=scatter")]
        asked += [("-l", f"walltime={self.walltime}")] if self.walltime else []
        asked += [("-q", self.queue)] if self.queue else []
        asked += [("-A", self.account)] if self.account else []
        # One file, written where it belongs while the job runs; never started a second time in silence.
        asked += [("-j", "oe"), ("-k", "doe"), ("-o", self._log(job)), ("-r", "n")]
        secret = [name for name, value in job.env.items() if isinstance(value, Secret)]
        asked += [("-v", ",".join(secret))] if secret else []
        for _, value in asked:
            if "\n" in value:
                raise UsageError(f"a job script cannot contain a line break: {value!r}")
        return [f"#PBS {flag} {quote(value)}" for flag, value in asked]

    def _log(self, job: Job) -> str:
        return f"{job.folder}/pbs.out"

    def _batch(self, job: Job, script: str) -> Batch:
        try:
            more = shlex.split(self.qsub)
        except ValueError as error:
            raise UsageError(f"-o qsub={self.qsub}: {error}", "quote it as on a command line") from None

        return Batch(
            scheduler=PBS,
            submit=("qsub", *more, script),
            # What must not stand in a file comes to the job through qsub: see -v in the script.
            env={name: value for name, value in job.env.items() if isinstance(value, Secret)},
            show_resources=("pbsnodes", "-aSj"),
            log=self._log(job),
        )
