"""Types of a node's answers: `NodeFacts` and `NodeInventory`, of `probe.py` and `inventory.py` in `node/calls/`.

Sizes are bytes, times seconds since the epoch. None: it could not be looked at, or there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ddpkit.launchers import host_names
from ddpkit.launchers.typed_json import Between, Form, matches
from ddpkit.text import one_line

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # in `typing` from Python 3.11

HostName = Annotated[str, Form(host_names.NAME)]
Address = Annotated[str, Form(host_names.ADDRESS)]
InterfaceAddress = Annotated[list[Annotated[str, Form(r"[\w.:%@-]{1,64}")]], Between(2, 2)]
Port = Annotated[int, Between(1, 65535)]
Count = Annotated[int, Between(0, 1 << 20)]


class TorchFacts(TypedDict):
    """The torch that the job's Python would import."""

    place: str | None  # its folder
    version: str | None
    problem: NotRequired[str]
    sealed: NotRequired[bool]  # pip refuses to install for this Python


class PortFacts(TypedDict):
    """Ports on which a node listens, and answers with its secret."""

    secret: str
    port: Port | None  # rank 0's, on its node only
    no_port: str  # why it cannot listen there
    high_port: Port | None


class NumaFacts(TypedDict):
    """A NUMA node: the CPUs that a process may use, and its socket; -1: memory alone."""

    cpus: list[int]
    socket: int


class TopologyFacts(TypedDict):
    """NUMA nodes, and the position of the one near each visible GPU; no GPUs: none, or not known."""

    nodes: list[NumaFacts]
    gpus: list[int]


class DeviceFacts(TypedDict):
    """CPUs and GPUs for ranks."""

    cpus: Count
    gpus: Count
    topology: TopologyFacts


class NodeFacts(PortFacts, DeviceFacts):
    """The answer of `probe.look`. An empty `no_...` means that nothing is wrong with it."""

    host: HostName
    time: float
    workdir: str
    no_workdir: str
    script: str | None  # SHA-256; empty: no such file
    executable: str
    python: str
    torch: TorchFacts | None
    set: list[str]  # names of variables
    stale: list[str]  # names of variables that must not reach a rank
    addresses: list[InterfaceAddress]
    own_name: list[Address]
    machine: str  # the same for two names of one machine
    no_gpus: str
    gpu_ranks: NotRequired[Count]  # ranks that the GPUs are for, where nobody says it
    gpu_note: NotRequired[str]  # why they are fewer than the GPUs
    tmp: str
    no_tmp: str
    spare_port: NotRequired[Port | None]


class RecordedFacts(TypedDict, total=False):
    """The facts of a node that the record of a run keeps."""

    host: str
    python: str
    torch: TorchFacts | None
    cpus: int
    gpus: int
    addresses: list[InterfaceAddress]
    workdir: str


class Space(TypedDict):
    """A file system."""

    folder: str
    total: int
    free: int
    inodes: int
    inodes_free: int
    read_only: bool


class Memory(TypedDict):
    """Memory of a machine, and of its cgroup (`bound`, `used`)."""

    total: int
    free: int
    bound: int | None
    used: int | None


class Processors(TypedDict):
    """Processors of a machine, those allowed, and the cgroup's share of time."""

    machine: int | None
    allowed: list[int]
    quota: float | None


class InfinibandPort(TypedDict):
    """A port of an InfiniBand, RoCE or EFA adapter."""

    device: str
    port: str
    state: str
    no_verbs: NotRequired[str]  # why its device file cannot be opened; empty: it can
    pci: str  # path through its bridges; empty: not known
    numa: str


class PortOwner(TypedDict):
    """A process that listens on a port."""

    pid: int
    command: str
    user: str


class GpuUser(TypedDict):
    """A process on a GPU; `memory` in MiB."""

    pid: int
    memory: str
    name: str
    user: str


class Limits(TypedDict):
    """Soft limits of a process; None: none."""

    nofile: int | None  # open files
    nofile_hard: NotRequired[int | None]
    memlock: int | None  # bytes


class Gpu(TypedDict, total=False):
    """A GPU as nvidia-smi or AMD's driver reports it: texts with units. What a driver does not know is missing."""

    index: str
    vendor: str  # AMD; NVIDIA where it is missing
    uuid: str
    name: str
    bus: str  # PCI address
    mode: str  # compute mode
    persistence: str
    mig: str
    memory_used: str
    link_gen_max: str  # PCIe generation that this GPU in this slot can have; the current one is lower at rest
    link_width: str
    link_width_max: str
    ecc: str
    ecc_pending: str  # after the next reset
    remap_pending: str  # rows of memory
    remap_failure: str
    retire_pending: str  # pages, before Ampere
    channel_repair: str  # pending repair of a memory channel, from driver 590 on
    core_repair: str  # of a group of cores
    unrepairable: str  # memory
    recovery: str  # action that the driver recommends
    license: str  # of a vGPU
    fabric: str  # state of its registration with the NVSwitches
    fabric_status: str
    fabric_health: str
    power_limit: str
    clock_limit: str  # application clock
    addressing: str  # ATS: the CPU addresses its memory
    is_node: bool  # its memory is a NUMA node, which also has the page cache
    clique: str  # of GPUs that share memory by NVLink
    cluster: str  # UUID of the NVLink domain; zeros: this node alone
    ecc_errors: int  # uncorrected, since the last reset
    slow_because: list[str]  # active reasons for low clocks
    links: int  # active NVLinks
    pci: str  # path through its bridges; empty: not known
    numa: str
    users: list[GpuUser]


class GpuHost(TypedDict):
    """Facts of a node that its GPUs share."""

    listed: list[str]  # PCI addresses of the GPUs that NVIDIA's driver has for this process, also of a lost one
    cuda_driver: str | None  # CUDA version of the loaded libcuda
    direct: str  # way of network adapters to GPU memory; empty: none
    redirects: int | None  # PCI bridges between GPUs and adapters that redirect requests (ACS)
    imex: list[str]  # channels for memory that GPUs of several nodes share
    others: dict[str, int]  # accelerators without checks, by kind
    inside: bool  # a process namespace of its own: pids of the driver mean other processes


class NodeInventory(TypedDict):
    """The answer of `inventory.gather`."""

    time: float
    host: HostName
    linux: bool
    limits: Limits
    space: dict[str, Space | None]  # by use: tmp, shm, workdir; full disks by their paths
    memory: Memory
    cpus: Processors
    environ: dict[str, str]
    ptrace_scope: int | None
    remove_ipc: bool | None
    infiniband: list[InfinibandPort]
    container: str
    nccl: str | None
    cuda: str | None
    driver: str | None
    threads: int | None  # that may still be started
    port_owner: PortOwner | None
    names: dict[str, list[str] | str]  # by name: its addresses, or why it has none
    gpus: list[Gpu] | str | None  # text: why they are not known
    gpu_host: GpuHost


Line = Annotated[str, Form(r"[^\0-\x1f\x7f\x85\u2028\u2029]{0,8192}", "a text of one line")]


class LoginHostFacts(TypedDict):
    """The value of `login_host.look`."""

    host: HostName
    stale: list[Line]
    scheduler: bool
    workdir: Line
    no_workdir: Line
    log_dir: Line
    strangers: list[object]
    has_script: bool
    python: Line


# The type of each function's answer. An answer of another function may be any JSON within bounds. Of a login host it is
# a value, the number of an error, and the path in it.
_ANSWERS: Mapping[str, object] = {
    "login_host.look": tuple[LoginHostFacts | None, int, str],
    "login_host.run": tuple[tuple[int | None, Any, Any] | None, int, str],
    "login_host.make_folder": tuple[object, int, str],
    "login_host.write": tuple[object, int, str],
    "login_host.find": tuple[list[str] | None, int, str],
    "login_host.read": tuple[Any, int, str],
    "login_host.start": tuple[int | None, int, str],
    "login_host.exchange": tuple[tuple[Any, Any, bool] | None, int, str],
    "login_host.stop": tuple[object, int, str],
    "probe.look": NodeFacts,
    "probe.listen": PortFacts,
    "probe.reach": list[Annotated[list[str], Between(2, 2)]],
    "inventory.gather": NodeInventory,
}


def is_answer(function: str, value: object) -> bool:
    """Return whether a node can have answered this to a function."""
    hint = _ANSWERS.get(function)
    return hint is None or matches(hint, value)


def words_of_node(text: str) -> str:
    """Return text in which a node may have its words as one line, which a person can be shown."""
    return one_line(text)
