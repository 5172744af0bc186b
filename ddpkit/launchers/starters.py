"""Starters of the ranks on one node: a process per rank, torchrun, or the legacy `torch.distributed.launch`.

Pure: a job and a world in, a step out. Every backend that reaches nodes by itself (local, ssh, pdsh) uses these three.
The options of a fast start are here as well: `preload` imports once on a node, then forks; `stage` makes local copies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from ddpkit.errors import UsageError
from ddpkit.launchers.containers import Contained, runtimes
from ddpkit.launchers.containers import option as option  # for backends
from ddpkit.launchers.cpu_binding import cpu_sets, python_code, threads
from ddpkit.launchers.plan import CPUS, File, Job, Proc, Step, World, cpus_variable
from ddpkit.launchers.shell import Value, run_module
from ddpkit.node.rank.rank_observe import OBSERVERS

# torchrun gets this in place of the script. Under ddpkit's supervisor DDPKIT_TAP names a program that connects the
# rank's output, process id and exit status with the supervisor, because torchrun tells nobody but its own log. Without
# DDPKIT_TAP (the line pasted by hand) the script simply runs. Not a shell, which would drop variables with odd names.
TAP = 'tap = os.environ.get("DDPKIT_TAP"); exec(open(tap).read() if tap else "os.execvp(sys.argv[1], sys.argv[1:])")'

ELASTIC_RESTARTS = 3
TORCHRUN = "torch.distributed.run"


def preload_option(where: str = "") -> Any:
    doc = f"import `true` (torch) or a list of modules once per node, then fork the ranks{where}"
    return option("", doc, "true")


def preload_modules(text: str, job: Job) -> tuple[str, ...]:
    """Return the modules of the option; none where it is off. Raises UsageError."""
    if text.lower() in ("", "false", "no", "off", "0"):
        return ()
    if job.kind == "program":
        raise UsageError(
            f"-o preload requires a Python script, and {job.command[0]} is another program", "add --no-preload"
        )
    if text.lower() in ("true", "yes", "on", "1"):
        return ("torch",)
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(
                f"-o preload={text}: {name!r} is not the name of a Python module", "add --preload=torch,numpy"
            )
    return names


def stage_option() -> Any:
    """The option for local copies of the project."""
    return option(
        "off",
        "run the script from a copy of the project on the local disk of each node; env: and the virtual environment; "
        "FILE.tar.gz: and this archive of conda-pack",
        "project",
    )


def is_conda_archive(stage: str) -> bool:
    """Tell whether a value of `stage` is the name of an archive. Raises UsageError for one that means nothing."""
    if stage.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        return True
    if stage not in ("off", "project", "env"):
        raise UsageError(f"-o stage={stage}: off, project, env, or an archive of conda-pack", "add --stage=env.tar.gz")
    return False


def stage_dir_option() -> Any:
    """The option for the directory of these copies."""
    return option("", "directory for that cache; default: /tmp; copies are in ddpkit-stage-UID there")


@dataclass(frozen=True, kw_only=True)
class Starter(Contained):
    """The options that say how a node starts its ranks, and whether it does so in a container."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "ranks", "program that starts the ranks of a node: ddpkit itself, torchrun, or torch.distributed.launch"
    )
    preload: str = preload_option(" (starter ranks)")
    max_restarts: int = option(0, "number of times that torchrun restarts failed ranks (starter torchrun)")
    use_env: bool = option(
        True, "false: pass --local-rank=N to the script, like old torch.distributed.launch (starter legacy)"
    )
    local_rank_flag: Literal["--local-rank", "--local_rank"] = option(
        "--local-rank", "spelling of that argument; PyTorch 1.x used --local_rank"
    )
    numa: Literal["auto", "node", "socket", "off"] = option(
        "auto",
        "bind ranks to the CPUs of a NUMA node or socket: near their GPU, else in equal blocks; auto: near their GPU, "
        "where no rank loses CPUs",
    )
    container_runtime: Literal["auto", "enroot", "apptainer", "podman", "docker"] = runtimes(
        "enroot", "apptainer", "podman", "docker"
    )

    by_form: ClassVar[Mapping[str, str]] = {".sqsh": "enroot", ".sif": "apptainer"}

    def check(self, *, elastic: bool = False) -> None:
        """Refuse options that the chosen starter does not have."""
        if self.preload and self.starter != "ranks":
            raise UsageError(
                f"-o preload works with starter ranks, not with {self.starter}, which starts each rank as a new Python",
                "add --starter ranks",
            )
        if elastic and self.starter != "torchrun":
            raise UsageError(
                f"-N MIN:MAX works with starter torchrun, not with {self.starter}", "add --starter torchrun"
            )
        if self.max_restarts and self.starter != "torchrun":
            raise UsageError(
                f"-o max_restarts works with starter torchrun, not with {self.starter}", "add --starter torchrun"
            )
        if self.max_restarts < 0:
            raise UsageError(f"-o max_restarts={self.max_restarts}: must be 0 or more", "add -o max_restarts=0")
        if not self.use_env and self.starter != "legacy":
            raise UsageError(
                f"-o use_env=false works with starter legacy, not with {self.starter}", "add --starter legacy"
            )

    def step(self, job: Job, world: World, node_rank: int) -> Step:
        """Return the step of one node of the world."""
        self.check(elastic=world.min_nodes is not None)
        host = world.hosts[node_rank]
        job = replace(job, python=host.python or job.python, workdir=host.workdir or job.workdir)
        part = job.cpus  # the supervisor takes these before it starts the ranks
        bound = cpu_sets(host.topology, host.slots, self.numa) if part is None else ()
        cpus = host.cpus if part is None else len(range(host.cpus)[part.start : part.stop])
        env = _node_env(job, world, node_rank, threads(bound, cpus, host.slots), elastic=_elastic(self, world))
        preload: tuple[str, ...] = ()
        if self.starter == "ranks":
            env |= _rank_env(job, world, node_rank)
            procs = tuple(
                Proc(
                    name="rank",
                    argv=job.argv,
                    env={"RANK": str(rank), "LOCAL_RANK": str(local_rank), "ROLE_RANK": str(rank)},
                    rank=rank,
                    cpus=bound[local_rank] if bound else frozenset(),
                )
                for local_rank, rank in enumerate(world.ranks(node_rank))
            )
            preload = preload_modules(self.preload, job)
        else:
            argv = _torchrun(job, world, node_rank, self, python_code(bound) if bound else "")
            procs = (Proc(name=self.starter, argv=argv, restarts=_restarts(self, world)),)
        return Step(
            host=host.name,
            node_rank=node_rank,
            ranks=world.ranks(node_rank),
            workdir=self.container_workdir or job.workdir,
            env={**dict.fromkeys(host.stale), **env, **job.env, **host.env},
            procs=procs,
            preload=preload,
            by_hand=host.by_hand,
            elastic=_elastic(self, world),
            container=self.node_container(job),
        )


def task_file(
    job: Job,
    counts: Sequence[int],
    *,
    agent: str,
    programs: Sequence[str] = (),
    by_node: bool = False,
    groups: Sequence[int] = (),
    preload: Sequence[str] = (),
    cpus_per_task: Sequence[int] = (),
    runtime: str = "",
    lost: bool = False,
    silence: float = 0.0,
    group_jobs: Sequence[str] = (),
    marks: str = "",
    collected: bool = False,
    stdin: int | None = None,
) -> File:
    """The file that tells the tasks of a scheduler's step (`ddpkit/node/step_task.py`) what to do.

    counts: ranks of each node. agent: the program that starts them. programs: of `ddpkit/node`, for the ranks. by_node:
    a task has all ranks of its node. groups: tasks in each group of a heterogeneous job, group_jobs: see `Step`.
    runtime: the program that enters the container of a task. lost: a lost node is a failure. silence: seconds without a
    sign of life after which a node is checked; 0: no limit. marks: the file of what ranks report of their start and
    their steps. collected: `ddpkit/node/collect.py` reads the output of the tasks. stdin: the rank with srun's input.
    """
    hook = ["rank_hook"] if job.kind != "program" else []
    spec = {
        "run": job.run_id,
        "grace": job.grace,
        "ranks": list(counts),
        "by_node": by_node,
        "groups": list(groups),
        "agent": agent,
        "preload": list(preload),
        "cpus_per_task": list(cpus_per_task),
        "programs": [*programs, *hook, *(OBSERVERS if job.observe else ())],
        "runtime": runtime,
        "lost": lost,
        "silence": silence,
        "group_jobs": list(group_jobs),
        "marks": marks,
        "collected": collected,
        **({"stdin": stdin} if stdin is not None else {}),
        **({"cpus": cpus_variable(job)[CPUS]} if job.cpus is not None else {}),
    }
    return File(path=f"{job.folder}/task.json", text=json.dumps(spec) + "\n")


def _node_env(job: Job, world: World, node_rank: int, omp_threads: int, *, elastic: bool) -> dict[str, Value]:
    """Return the variables of every starter. Libraries read NODE_RANK, which torchrun does not set."""
    host = world.hosts[node_rank]
    wished: dict[str, Value] = {
        # torchrun forces 1 where nothing is set, which leaves most cores of most nodes idle.
        "OMP_NUM_THREADS": str(omp_threads),
        # A line is shown when it is printed, and a crash in C code shows where Python was.
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
    }
    if elastic:
        # Else ranks that were started again meet the addresses of those before them in the agents' store, and wait for
        # a dead port (torch 2.13: a node that restarts alone counts its attempts, which name the keys, by itself).
        wished["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return {
        "DDPKIT_RUN": job.run_id,
        **({"DDPKIT_OBSERVE": ",".join(job.observe)} if job.observe else {}),
        **cpus_variable(job),
        "NODE_RANK": str(node_rank),
        **{name: value for name, value in wished.items() if name not in host.chosen},
    }


def _rank_env(job: Job, world: World, node_rank: int) -> dict[str, Value]:
    """Return variables that torchrun would set for every rank of this node alike (GROUP_* mean the node)."""
    return {
        "MASTER_ADDR": world.master_addr,
        "MASTER_PORT": str(world.master_port),
        "WORLD_SIZE": str(world.world_size),
        "LOCAL_WORLD_SIZE": str(world.hosts[node_rank].slots),
        "GROUP_RANK": str(node_rank),
        "GROUP_WORLD_SIZE": str(len(world.hosts)),
        "ROLE_NAME": "default",
        "ROLE_WORLD_SIZE": str(world.world_size),
        # Where this is set (`torch.distributed.is_torchelastic_launched`), Lightning 2.6 believes RANK and WORLD_SIZE.
        # Else it computes them from its `devices` and `num_nodes`: with wrong ones some ranks train without the others.
        "TORCHELASTIC_RUN_ID": job.run_id,
        "TORCHELASTIC_RESTART_COUNT": str(int(str(job.env.get("DDPKIT_ATTEMPT", 1))) - 1),
        "TORCHELASTIC_MAX_RESTARTS": "0",  # with --retries the job has the number
    }


def _elastic(options: Starter, world: World) -> bool:
    """Return whether torchrun's ranks can be restarted, which a static rendezvous does for one node at most.

    Also there, its restarted ranks read the addresses of those before them in the agents' store, and hang (torch 2.13).
    """
    return world.min_nodes is not None or options.max_restarts > 0


def _restarts(options: Starter, world: World) -> int:
    """A node that is lost costs the others a restart: without any, no run could go on."""
    return options.max_restarts or (ELASTIC_RESTARTS if world.min_nodes is not None else 0)


def _torchrun(job: Job, world: World, node_rank: int, options: Starter, bind_cpus: str) -> tuple[str, ...]:
    """The command line of torchrun, or of the legacy launcher, which in PyTorch 2 is torchrun under an older name.

    `bind_cpus`: a Python statement that each rank's process executes before its command; empty: none.
    """
    legacy = options.starter == "legacy"
    host = world.hosts[node_rank]
    given: dict[str, str] = {"nnodes": str(len(world.hosts)), "nproc_per_node": str(host.slots)}
    if _elastic(options, world):
        most = len(world.hosts)
        address = f"[{world.master_addr}]" if ":" in world.master_addr else world.master_addr
        given |= {
            "nnodes": f"{world.min_nodes or most}:{most}",
            "rdzv_backend": "c10d",
            "rdzv_endpoint": f"{address}:{world.master_port}",
            "rdzv_id": job.run_id,
            # Told, because torchrun guesses it from names, and takes a wrong one for itself.
            "rdzv_conf": f"is_host={int(node_rank == 0)}",
        }
        if host.address:
            given["local_addr"] = host.address
    else:
        given |= {
            "node_rank": str(node_rank),
            "master_addr": world.master_addr,
            "master_port": str(world.master_port),
        }
    # The spelling with underscores is the one that every PyTorch since 1.0 reads.
    flags = [f"--{name}={value}" for name, value in given.items()]
    if legacy:
        flags.append("--use_env")
    elif _restarts(options, world):
        flags.append(f"--max_restarts={_restarts(options, world)}")
    statements = ["import os, sys", *filter(None, [bind_cpus])]
    if not options.use_env:
        # Right behind the script, where the legacy launcher puts it: PROGRAM, PYTHON SCRIPT, or PYTHON -m MODULE.
        words_before = {"program": 1, "script": 2, "module": 3}[job.kind] + 1  # sys.argv[0] is Python's own
        statements.append(f'sys.argv.insert({words_before}, "{options.local_rank_flag}=" + os.environ["LOCAL_RANK"])')
    statements.append(TAP)
    command = (job.python, "-S", "-I", "-c", "; ".join(statements), *job.argv)
    module = "torch.distributed.launch" if legacy else TORCHRUN
    # torchrun expands `$local_rank` and turns `$$` into `$` in every word of the script's arguments.
    words = tuple(word.replace("$", "$$") for word in command)
    return (job.python, "-c", run_module(module), *flags, "--no_python", *words)
