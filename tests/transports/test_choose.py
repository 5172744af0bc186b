"""The transport of a backend: chosen from its reach in one place, and compared nowhere else."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from typing import ClassVar

import pytest
import rooms

from ddpkit.errors import UsageError
from ddpkit.launchers import registry
from ddpkit.launchers.plan import Allocation, Container, HetGroup, Plan, Proc, RankStarter, Request, Step, World
from ddpkit.transports.batch import JobLink
from ddpkit.transports.choose import REACHES, transport_class
from ddpkit.transports.protocol import LocalLink
from ddpkit.transports.scheduler import SchedulerTransport, SlurmTransport
from ddpkit.transports.srun import SrunLink
from ddpkit.transports.this_machine import ContainerLink, LocalTransport

STEP = Step(
    host="node1", node_rank=0, ranks=range(1), workdir="/", env={}, procs=(Proc(name="rank", argv=("true",), rank=0),)
)
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}


def backend(**more: object) -> type[registry.Launcher]:
    """A class that is none of ours."""
    return type("Mine", (), {"name": "mine", "needs": "", **more})


def flags(reach: str) -> set[str]:
    chosen = transport_class(backend(reach=reach))
    return {name for name in ("local", "names_nodes", "scheduled", "slurm", "pdsh") if getattr(chosen, name)}


def test_every_reach_has_its_transport() -> None:
    assert {reach: flags(reach) for reach in REACHES} == {
        "local": {"local"},
        "ssh": {"names_nodes"},
        "pdsh": {"names_nodes", "pdsh"},
        "slurm": {"scheduled", "slurm"},
        "scheduler": {"scheduled"},
    }


@pytest.mark.parametrize("name", ["ssh", "pdsh"])
def test_the_choice_alone_loads_no_connections(name: str) -> None:
    """A shell waits for it at each press of the Tab key."""
    text = f"""
import sys
from ddpkit.launchers import registry
from ddpkit.transports.choose import transport_class
assert transport_class(registry.load({name!r})).names_nodes
print(*sorted({{"subprocess", "socket", "paramiko", "fabric", "ddpkit.transports.channel"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_every_built_in_backend_has_a_transport() -> None:
    assert all(transport_class(registry.load(name)) for name in registry.names())


@pytest.mark.parametrize(
    ("attributes", "hint"),
    [
        ({"reach": "sssh"}, "did you mean"),
        ({"reach": "mpi"}, "class variable reach of"),
        ({}, "class variable reach of"),
    ],
)
def test_an_unknown_reach_is_one_clear_error(attributes: dict[str, str], hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        transport_class(backend(**attributes))
    assert f"backend 'mine' has the reach {attributes.get('reach')!r}" in raised.value.message
    assert ", ".join(REACHES) in raised.value.message
    assert hint in (raised.value.hint or "")


def test_this_machine_is_a_world_of_its_own() -> None:
    transport = LocalTransport(3, {"DDPKIT_GPUS": "0"})
    world = transport.survey()
    assert isinstance(world, World)
    assert world.world_size == 3
    assert list(transport.facts) == [world.hosts[0].name]
    assert type(transport.connect(STEP)) is LocalLink
    inside = Step(**{**vars(STEP), "container": Container(enter=("true",), python="python3")})
    assert isinstance(transport.connect(inside), ContainerLink)


def test_a_scheduler_gets_a_request() -> None:
    assert SchedulerTransport(2, 4, ALLOCATION).survey().allocation is None
    request = SlurmTransport(2, 4, ALLOCATION).survey()
    assert isinstance(request, Request)
    assert request.allocation is not None
    assert request.allocation.hosts == ("node1", "node2")


HETEROGENEOUS = {
    "SLURM_JOB_ID": "4",
    "SLURM_HET_SIZE": "2",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_JOB_ID_HET_GROUP_0": "4",
    "SLURM_JOB_ID_HET_GROUP_1": "5",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "node1",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "node[2-3]",
    "SLURM_CPUS_PER_TASK_HET_GROUP_0": "2",
    "SLURM_NTASKS_PER_NODE_HET_GROUP_0": "2",
    "SLURM_GPUS_PER_NODE_HET_GROUP_1": "v100:4",
}


def test_the_groups_of_a_heterogeneous_allocation() -> None:
    held = SlurmTransport(None, None, HETEROGENEOUS).survey().allocation
    groups = (HetGroup(nodes=1, job_id="4", cpus_per_task=2), HetGroup(nodes=2, job_id="5"))
    hosts = ("node1", "node2", "node3")
    assert held == Allocation(job_id="4", hosts=hosts, nproc_per_node=(2, 4, 4), groups=groups)
    transport = SlurmTransport(None, None, HETEROGENEOUS)
    transport.named = hosts  # all, in their order
    assert (transport.survey().hosts, transport.survey().allocation) == ((), held)


def test_nodes_of_one_group_of_a_heterogeneous_allocation() -> None:
    transport = SlurmTransport(None, None, HETEROGENEOUS)
    transport.named = ("node3", "node2")
    held = transport.survey().allocation
    wanted = Allocation(job_id="4", hosts=("node3", "node2"), nproc_per_node=(4, 4), group=1, group_job="5")
    assert held == wanted
    transport.named = ("node1",)
    assert transport.survey().allocation == replace(
        wanted, hosts=("node1",), nproc_per_node=(2,), cpus_per_task=2, group=0, group_job="4"
    )
    transport.named = ("node1", "node3")
    with pytest.raises(UsageError, match="node1, node3: these nodes are in several groups of heterogeneous") as refused:
        transport.survey()
    assert refused.value.hint == "name nodes of one group: node1 or node2 node3; or none, for all"


def test_an_allocation_with_a_different_number_of_tasks_on_each_node() -> None:
    uneven = {**ALLOCATION, "SLURM_NTASKS": "3", "SLURM_TASKS_PER_NODE": "2,1"}
    transport = SlurmTransport(None, None, uneven)
    held = transport.survey().allocation
    assert held is not None
    assert held.nproc_per_node == (2, 1)
    transport.named = ("node9",)
    with pytest.raises(UsageError, match="node9 is not a node of allocation 7: node1, node2"):
        transport.survey()


@pytest.mark.parametrize("starter", RankStarter)
def test_a_step_in_an_allocation_is_read_as_its_starter_labels_it(starter: RankStarter) -> None:
    transport = SlurmTransport(1, 1, ALLOCATION)
    plan = Plan(run_id="r", backend="any", steps=(STEP,), world_size=1, grace=1.0)
    assert transport.submit(plan) is None
    link = transport.connect(Step(**{**vars(STEP), "rank_starter": starter}))
    assert isinstance(link, LocalLink if starter is RankStarter.SUPERVISOR else SrunLink)


def test_a_job_is_followed_once_it_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ddpkit.launchers.plan import Host, Job
    from ddpkit.launchers.slurm import SlurmSrun
    from ddpkit.transports import batch

    monkeypatch.setattr(batch, "submit", lambda *_: "42")
    job = Job(
        run_id="20260101-000000-true-1", command=("true",), kind="program", workdir="/", python="python3", folder="/r"
    )
    plan = SlurmSrun().plan(job, Request(nnodes=1, nproc_per_node=1, here=Host(name="login", slots=0)))
    transport = SlurmTransport(1, 1, {})
    assert transport.submit(plan) == "42"
    link = transport.connect(plan.steps[0])
    assert isinstance(link, JobLink)
    assert "ddpkit attach 20260101-000000-true-1; to stop it: ddpkit stop 20260101" in link.outlives


class Reader(ast.NodeVisitor):
    """Lines that read `reach` of a backend, or compare the starter of a step's ranks."""

    NAMES: ClassVar[set[str]] = {"reach", "rank_starter", "srun"}

    def __init__(self) -> None:
        self.lines: list[int] = []

    def visit_Attribute(self, node: ast.Attribute) -> None:
        of_probe = isinstance(node.value, ast.Name) and node.value.id == "probe"  # a function of the node's
        if node.attr == "reach" and isinstance(node.ctx, ast.Load) and not of_probe:
            self.lines.append(node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
        names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        texts = [each for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if names & self.NAMES and texts:
            self.lines.append(node.lineno)
        self.generic_visit(node)


def read(text: str) -> list[int]:
    reader = Reader()
    reader.visit(ast.parse(text))
    return reader.lines


def test_the_reader_finds_what_it_looks_for() -> None:
    assert read('if kind.reach == "ssh": pass')
    assert read('reach = getattr(kind, "reach")\nif reach in ("ssh", "pdsh"): pass')
    assert read('x = step.srun != "ranks"')
    assert read("WAYS[kind.reach]")
    assert not read('class Mine:\n    reach: ClassVar[str] = "ssh"\nstep.rank_starter.labels_ranks')


def test_reach_is_read_by_the_choice_of_the_transport_alone() -> None:
    # `srun` is an option of SLURM's backends as well: more words for srun.
    allowed = {"transports.choose", "launchers.slurm"}
    found = {name: read(path.read_text()) for name, path in rooms.sources().items() if name not in allowed}
    assert {name: lines for name, lines in found.items() if lines} == {}
