"""What the facts of nodes say about them: who is named, for what, and what is never worth a word."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from test_compatibility import facts as look
from test_compatibility import specs

from ddpkit.launchers.node_facts import NodeInventory
from ddpkit.launchers.plan import Job
from ddpkit.node.calls import inventory
from ddpkit.preflight import network_checks, node_checks, node_survey, request_checks, resource_checks
from ddpkit.preflight.check import TITLES, Check, Node
from ddpkit.text import format_size_in_digits as size
from ddpkit.transports.compatibility import Requirements, build_world, most_common
from ddpkit.transports.hosts import Problem
from ddpkit.transports.reachability import SOME, Reachability, all_peers, reach_targets

GIB, MIB = 1 << 30, 1 << 20
JOB = Job(run_id="r", command=("train.py",), kind="script", workdir="/w", python="/py", env={}, grace=15.0)


def requirements(**changes: Any) -> Requirements:
    values: dict[str, Any] = {"job": JOB, "nproc_per_node": 2, "script": None, "digest": "", "torch": True}
    values |= {"starter": "torchrun", "master_addr": "", "master_port": 0}
    return Requirements(**{**values, **changes})


def space(free: int, total: int = 100 * GIB, **changes: Any) -> dict[str, Any]:
    found = {"folder": "/tmp", "total": total, "free": free, "inodes": 1 << 20, "inodes_free": 1 << 19}
    return {**found, "read_only": False, **changes}


NO_GPU_HOST: dict[str, Any] = {
    "listed": [],
    "cuda_driver": None,
    "direct": "",
    "redirects": None,
    "others": {},
    "inside": False,
    "imex": [],
}


def gathered(**changes: Any) -> Any:
    """What a healthy node without GPUs says of itself, as a node of a cluster said it."""
    found: dict[str, Any] = {
        "time": 1.0,
        "host": "n1",
        "limits": {"nofile": 1024, "memlock": 8 * MIB},
        "space": {"tmp": space(20 * GIB), "shm": space(8 * GIB, 8 * GIB), "workdir": space(900 * GIB)},
        "linux": True,
        "memory": {"total": 32 * GIB, "free": 28 * GIB, "bound": None, "used": None},
        "cpus": {"machine": 8, "allowed": list(range(8)), "quota": None},
        "environ": {},
        "ptrace_scope": 1,
        "remove_ipc": None,
        "infiniband": [],
        "container": "",
        "nccl": None,
        "cuda": None,
        "driver": None,
        "threads": None,
        "port_owner": None,
        "names": {},
        "gpus": None,
        "gpu_host": dict(NO_GPU_HOST),
    }
    return {**found, **changes}


def node(number: int = 1, ahead: tuple[float, float] = (-0.01, 0.01), slots: int = 2, **changes: Any) -> Node:
    own = {key: changes.pop(key) for key in list(changes) if key in ("addresses", "gpus", "no_tmp", "set")}
    env = changes.pop("env", {})
    return Node(
        label=f"n{number}",
        target=f"n{number}",
        slots=slots,
        facts=look(number, **{"gpus": 0, **own}),
        inventory=gathered(**changes),
        clock_offset=ahead,
        env=env,
    )


def three(**changes: Any) -> list[Node]:
    """The second of three is the odd one."""
    return [node(1), node(2, **changes), node(3)]


def odd(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.status in ("warn", "fail")]


def only(nodes: Sequence[Node]) -> Check:
    """The one finding, which names the second node; whole in itself."""
    found = odd(node_checks.check_nodes(nodes))
    assert len(found) == 1, found
    check = found[0]
    assert check.host == "n2"
    assert check.evidence
    assert check.cause
    assert check.fix
    assert check.doc
    return check


# ---- healthy ones


def test_healthy_nodes_get_no_word_of_warning_and_every_check_speaks_of_every_node() -> None:
    found = node_checks.check_nodes([node(1), node(2), node(3), node(4)])
    assert odd(found) == []
    asked = {check.id for check in found}
    assert asked <= set(TITLES)
    for each in asked:
        hosts = {check.host for check in found if check.id == each}
        assert hosts == {"n1", "n2", "n3", "n4"}


def test_what_this_machine_says_of_itself_can_be_judged() -> None:
    said = inventory.gather(
        {"tmp": "/tmp", "shm": "/dev/shm", "workdir": str(Path.cwd())}, ["localhost"], None, smi=False
    )
    mine = Node(label="here", target="", slots=1, facts=look(1, gpus=0), inventory=cast("NodeInventory", said))
    found = node_checks.check_nodes([mine])
    assert {check.host for check in found} == {"here"}
    assert {check.id for check in found} >= {"clock", "limits", "shm", "disk", "memory", "cpus", "environment"}
    assert said["names"]["localhost"]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ahead": (1.2, 1.3)}, id="a clock that is a second off"),
        pytest.param({"ahead": (-3.0, 3.0)}, id="a node that answers late, so that its clock is not known well"),
        pytest.param({"limits": {"nofile": 1024, "memlock": 8192}}, id="little locked memory, no InfiniBand"),
        pytest.param({"limits": {"nofile": None, "memlock": None}}, id="no limits"),
        pytest.param({"threads": 4000}, id="a bound of processes that is far"),
        pytest.param({"cpus": {"machine": 64, "allowed": [0, 1], "quota": None}}, id="as many processors as ranks"),
        pytest.param({"memory": {"total": GIB, "free": 28 * GIB, "bound": 16 * GIB, "used": GIB}}, id="a wide cgroup"),
        pytest.param(
            {"container": "docker", "addresses": [["eth0", "172.17.0.2"], ["ib0", "10.1.0.2"]]}, id="two networks"
        ),
        pytest.param(
            {"container": "docker", "addresses": [["eth0", "10.1.0.2"]]}, id="a container on its host's network"
        ),
        pytest.param(
            {"environ": {"CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "3"}}, id="what names its own things"
        ),
        pytest.param({"environ": {"NCCL_SOCKET_IFNAME": "ib0"}}, id="its own interface"),
        pytest.param({"env": {"OMP_NUM_THREADS": "4"}}, id="what the launch sets"),
        pytest.param({"ptrace_scope": None}, id="no yama"),
        pytest.param({"remove_ipc": False}, id="logind that keeps"),
        pytest.param({"gpus": 0}, id="no GPUs"),
    ],
)
def test_what_is_no_reason_to_warn(changes: dict[str, Any]) -> None:
    assert odd(node_checks.check_nodes(three(**changes))) == []


def test_a_file_system_that_counts_no_inodes_is_not_out_of_them() -> None:
    btrfs = {"tmp": space(20 * GIB, inodes=0, inodes_free=0), "shm": space(8 * GIB), "workdir": space(GIB * 9)}
    network = {"tmp": space(20 * GIB), "shm": space(8 * GIB), "workdir": space(0, total=0, read_only=True)}
    assert odd(node_checks.check_nodes([node(1), node(2, space=btrfs), node(3, space=network)])) == []


# ---- one odd node of three


def limits(**changes: int | None) -> dict[str, Any]:
    return {"limits": {"nofile": 65536, "memlock": 8 * MIB, **changes}}


def clock(low: float, high: float) -> dict[str, Any]:
    return {"ahead": (low, high)}


def room(use: str, found: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"space": {**gathered()["space"], use: found}, **more}


def memory(free: int, bound: int | None = None, used: int | None = None) -> dict[str, Any]:
    return {"memory": {"total": 256 * GIB, "free": free, "bound": bound, "used": used}}


def cpus(allowed: int, quota: float | None = None, machine: int = 8) -> dict[str, Any]:
    return {"cpus": {"machine": machine, "allowed": list(range(allowed)), "quota": quota}}


ACTIVE = {"device": "mlx5_0", "port": "1", "state": "ACTIVE"}
DOWN = {**ACTIVE, "state": "DOWN"}
WIDE = limits(memlock=None)
FABRIC = {"infiniband": [ACTIVE], **WIDE}
CUDA: dict[str, Any] = {"nccl": "2.27.5", "cuda": "12.8", "driver": "570.86.10"}
REMOUNT = "ssh n2 sudo mount -o remount,size=50% /dev/shm"
# What the second node has, what all three have; id, status and entry of the finding, words of it, and of its fix.
Odd = tuple[dict[str, Any], dict[str, Any], str, str, str]
ODD: list[Odd] = [
    (clock(7.9, 8.1), {}, "clock fail clock-skew", "8.0 s ahead of", "ssh n2 sudo chronyc makestep"),
    (clock(29.9, 30.1), {}, "clock fail clock-skew", "30.0 s ahead of", "chronyc"),
    (clock(-30.1, -29.9), {}, "clock fail clock-skew", "30.0 s behind", "chronyc"),
    (clock(2.9, 3.1), {}, "clock warn clock-skew", "3.0 s", "chronyc"),
    *((limits(nofile=n), {}, "limits fail too-many-files", f"{n} open files", "ulimit -n") for n in (200, 255)),
    *((limits(nofile=n), {}, "limits warn too-many-files", f"{n} open files", "ulimit -n") for n in (256, 1023)),
    (limits(nofile=300, nofile_hard=4096), {}, "limits warn too-many-files", "300 open", "4096, in ~/.bashrc on n2"),
    (limits(nofile=300, nofile_hard=1023), {}, "limits warn too-many-files", "300 open", "administrator: nofile"),
    ({"slots": 32, **limits(nofile=1024), **cpus(64, machine=64)}, memory(900 * GIB), "limits warn too-many-files",
     "1024 open files for a process; a rank of 36 with 16 DataLoader workers may need 1124", "ulimit -n 65536"),
    ({"slots": 128, **cpus(256, machine=256)}, memory(900 * GIB), "limits warn too-many-files", "1024 open", ""),
    ({"threads": 20}, {}, "limits fail cannot-fork", "20 more processes", "--pids-limit"),
    (limits(), FABRIC, "limits fail memlock", "limit of locked memory is 8 MiB", "ulimit -l"),  # C07
    ({"infiniband": []}, FABRIC, "infiniband fail ib-link-lost", "0 ports, another node has 1", "ibstat"),
    ({"infiniband": [DOWN]}, FABRIC, "infiniband fail ib-link-lost", "mlx5_0:1 is DOWN", "ibstat"),
    *((room("shm", space(n, 64 * MIB)), {}, "shm fail shm-full", "/dev/shm", REMOUNT) for n in (2 * MIB, 63 * MIB)),
    *((room("shm", space(n, 64 * MIB)), {}, "shm warn shm-full", "/dev/shm", REMOUNT) for n in (64 * MIB, GIB - 1)),
    (room("shm", space(MIB, 64 * MIB), container="docker"), {}, "shm fail shm-full", "/dev/shm", "--ipc=host"),
    (room("shm", space(MIB, 8 * GIB)), {}, "shm fail shm-full", "/dev/shm", "ls -lS /dev/shm"),
    (room("shm", None), {}, "shm fail shm-full", "/dev/shm not found", "mount -t tmpfs"),
    (room("tmp", space(MIB)), {}, "disk fail disk-full", "1 MiB free", "ssh n2 df -h /tmp"),
    (room("tmp", space(100 * MIB)), {}, "disk warn disk-full", "100 MiB free", "df -h /tmp"),
    (room("tmp", space(20 * GIB, inodes_free=3)), {}, "disk fail disk-full", "3 inodes left", "df -i /tmp"),
    (room("tmp", space(20 * GIB, inodes_free=5000)), {}, "disk warn disk-full", "5000 inodes left", "df -i /tmp"),
    (room("tmp", space(20 * GIB, read_only=True)), {}, "disk fail disk-full", "read-only", "df -h /tmp"),
    (room("/scratch", space(0, 4096, folder="/scratch")), {}, "disk fail disk-full", "of /scratch has 0 B free", ""),
    (memory(200 * GIB, 8 * GIB, 8 * GIB - GIB // 2), {}, "memory fail host-out-of-memory", "its cgroup", "-o mem=0"),
    (memory(200 * GIB, 8 * GIB, 7 * GIB - GIB // 2), {}, "memory warn host-out-of-memory", "its cgroup", "-o mem=0"),
    (memory(GIB // 2), {}, "memory fail host-out-of-memory", "the machine", "ssh n2 'ps aux --sort=-rss | head'"),
    (cpus(1), {}, "cpus warn one-core", "2 ranks on 1 of 8 CPUs", "taskset"),  # E09
    ({"container": "docker", **cpus(8, 1.5)}, {}, "cpus warn one-core", "1.5 of 8", "--cpus"),
    ({"set": ["SLURM_JOB_ID"], **cpus(1)}, {}, "cpus warn one-core", "1 of 8 CPUs", "-o cpus_per_task=N"),
    (
        {"container": "docker", "addresses": [["eth0", "172.17.0.2"]]}, {},
        "container fail container-bridge", "172.17.0.2", "--network=host --ipc=host",
    ),  # N09
    ({"remove_ipc": True}, {}, "debugging warn shm-unlinked", "logind", "RemoveIPC=no"),
    ({"remove_ipc": True, "ptrace_scope": None}, {}, "debugging warn shm-unlinked", "logind", "RemoveIPC=no"),
    (
        {"nccl": "2.21.5"}, CUDA,
        "nccl-version fail nccl-mismatch", "NCCL 2.21.5, the other nodes 2.27.5", "nvidia-nccl-cu12==2.27.5",
    ),  # C01
    ({"driver": "515.43.04"}, CUDA, "driver fail driver-too-old", "515.43.04", ""),  # G09
]  # fmt: skip


@pytest.mark.parametrize(("changes", "common", "found", "words", "fix"), ODD)
def test_the_odd_node_of_three(
    changes: dict[str, Any], common: dict[str, Any], found: str, words: str, fix: str
) -> None:
    check = only([node(number, **{**common, **(changes if number == 2 else {})}) for number in (1, 2, 3)])
    assert f"{check.id} {check.status} {check.doc}" == found
    assert words in check.evidence
    assert fix in check.fix


def test_one_container_is_reached_by_nobody() -> None:
    assert odd(node_checks.check_nodes([node(1, container="docker", addresses=[["eth0", "172.17.0.2"]])])) == []


# ---- clocks


def test_a_launcher_whose_own_clock_is_wrong_blames_nobody() -> None:
    assert odd(node_checks.check_nodes([node(number, ahead=(29.9, 30.1)) for number in (1, 2, 3)])) == []


@pytest.mark.parametrize("seconds", [30.0, -30.0])
@pytest.mark.parametrize("wrong", [1, 2])
def test_of_two_nodes_the_launchers_clock_decides(seconds: float, wrong: int) -> None:
    both = [node(n, ahead=(seconds - 0.1, seconds + 0.1) if n == wrong else (-0.1, 0.1)) for n in (1, 2)]
    (check,) = odd(node_checks.check_nodes(both))
    assert check.host == f"n{wrong}"


# ---- limits, space, memory, processors


def test_an_adapter_whose_file_is_not_in_the_container(tmp_path: Path) -> None:
    """The kernel shows its ports in every container. The test once passed InfiniBand, and NCCL used TCP."""
    (tmp_path / "sys/class/infiniband/mlx5_0/device/infiniband_verbs/uverbs0").mkdir(parents=True)
    why = inventory._no_verbs("mlx5_0", f"{tmp_path}/")
    assert why == f"{tmp_path}/dev/infiniband/uverbs0: No such file or directory"
    port = {**ACTIVE, "no_verbs": why}
    wide = limits(memlock=None)
    (check,) = odd(node_checks.check_nodes([node(1, infiniband=[port], container="docker", **wide)]))
    assert (check.id, check.status, check.doc) == ("infiniband", "fail", "ib-not-used")
    assert "none can be used here" in check.evidence
    assert "--device=/dev/infiniband --ulimit=memlock=-1" in check.fix
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/uverbs0").touch()
    assert inventory._no_verbs("mlx5_0", f"{tmp_path}/") == ""


def test_full_disks_are_local_writable_and_of_use(tmp_path: Path) -> None:
    """Each line of a table of mounts, over a directory whose file system says that it is full."""
    rows = {
        "below": f"tmpfs {tmp_path}/project/below tmpfs rw 0 0",
        "open": f"/dev/sdb1 {tmp_path}/open xfs rw,noatime 0 0",
        "closed": f"/dev/sda1 {tmp_path}/closed ext4 rw 0 0",
        "read-only": f"/dev/loop1 {tmp_path}/project/read-only ext4 ro 0 0",
        "server": f"server:/x {tmp_path}/project/server nfs4 rw 0 0",
        "a b": f"tmpfs {tmp_path}/project/a\\040b tmpfs rw 0 0",
    }
    for row in rows.values():
        Path(row.split()[1].replace("\\040", " ")).mkdir(parents=True)
    (tmp_path / "open").chmod(0o1777)
    (tmp_path / "mounts").write_text("\n".join(rows.values()))
    full = {"total": 4096, "free": 0, "inodes": 0, "inodes_free": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory, "space", lambda path: {**full, "folder": path})
        patch.setattr(inventory, "_device", {str(tmp_path / "project"): 1}.get)
        found = inventory.full_disks({"workdir": str(tmp_path / "project")}, str(tmp_path / "mounts"))
    assert [str(Path(path).relative_to(tmp_path)) for path in found] == ["open", "project/a b", "project/below"]


def test_a_folder_that_cannot_be_written_to_is_not_named_twice() -> None:
    full = {**gathered()["space"], "tmp": space(0)}
    assert odd(node_checks.check_nodes(three(space=full, no_tmp="No space left on device"))) == []


FILES: dict[int, list[tuple[str, ...]]] = {
    1: [
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
        ("pids", "pids.max", "pids.current"),
    ],
    2: [("memory", "memory.max", "memory.current"), ("cpu", "cpu.max"), ("pids", "pids.max", "pids.current")],
}
LIMITS = {
    "slice": ("800 700", "50000 100000", "100 90"),
    "slice/user": ("600 100", "150000 100000", "1000 10"),
    "slice/user/shell": ("max 1", "max 100000", "max 1"),
}


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_cgroup_above_counts(version: int, tmp_path: Path) -> None:
    """SLURM and systemd bound a slice, and the cgroup of a shell in it has no bound of its own."""
    top = tmp_path / "sys/fs/cgroup"
    for place, values in LIMITS.items():
        for (kind, *files), numbers in zip(FILES[version], values, strict=True):
            folder = top / (kind if version == 1 else "") / place
            folder.mkdir(parents=True, exist_ok=True)
            for name, number in zip(files, numbers.split() if len(files) > 1 else [numbers], strict=True):
                (folder / name).write_text(f"{number}\n")
    lines = [f"{number}:{each[0]}:/slice/user/shell" for number, each in enumerate(FILES[1], 1)]
    if version == 2:
        (top / "cgroup.controllers").touch()
        lines = ["0::/slice/user/shell"]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("\n".join(lines) + "\n")
    seen = inventory.memory(str(tmp_path))
    assert (seen["bound"], seen["used"]) == (800, 700)
    assert inventory.processors(str(tmp_path))["quota"] == 0.5
    assert inventory.threads_left(str(tmp_path)) == 10


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"memory.max": "800", "memory.current": "750", "memory.stat": "anon 50\ninactive_file 700\n"}, 50),
        ({"memory.max": "max", "memory.high": "800", "memory.current": "750"}, 750),
        ({"memory.max": "800", "memory.current": "10", "memory.stat": "inactive_file 30\n"}, 0),
    ],
)
def test_files_that_were_read_are_no_memory_in_use(files: dict[str, str], used: int, tmp_path: Path) -> None:
    """After a copy of a data set the cgroup looked full, and the test failed."""
    place = tmp_path / "sys/fs/cgroup/job"
    place.mkdir(parents=True)
    (place.parent / "cgroup.controllers").touch()
    for name, text in files.items():
        (place / name).write_text(text)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job\n")
    seen = inventory.memory(str(tmp_path))
    assert (seen["bound"], seen["used"]) == (800, used)


def test_one_core_is_a_mistake_also_for_one_rank_where_the_others_have_more() -> None:
    one = {"machine": 8, "allowed": [0], "quota": None}
    assert only([node(1, slots=1), node(2, slots=1, cpus=one), node(3, slots=1)]).id == "cpus"
    assert odd(node_checks.check_nodes([node(number, slots=1, cpus=one) for number in (1, 2, 3)])) == []


# ---- containers, debugging, software


@pytest.mark.parametrize(
    ("scope", "words"), [(0, "the same user"), (1, "sudo"), (3, "root"), (None, "the same user (no Yama)")]
)
def test_who_may_read_stacks(scope: int | None, words: str) -> None:
    """E11: worth knowing, and no fault."""
    (check,) = (c for c in node_checks.check_nodes([node(1, ptrace_scope=scope)]) if c.id == "debugging")
    assert check.status == "pass"
    assert words in check.evidence


# ---- variables


def environment(*each: dict[str, str], env: dict[str, Any] | None = None, **changes: Any) -> list[Check]:
    nodes = [node(number, environ=environ, env=env or {}, **changes) for number, environ in enumerate(each, 1)]
    return odd(list(request_checks.check_environment(nodes)))


def test_a_variable_that_one_node_sets() -> None:
    """C14."""
    (check,) = environment({}, {"NCCL_ALGO": "Ring"}, {})
    assert (check.host, check.status, check.doc) == ("n2", "fail", "env-differs")
    assert check.evidence == "NCCL_ALGO is Ring, on the other nodes not set"
    assert check.fix == "ssh n2 grep -n NCCL_ALGO .bashrc .profile .ssh/environment /etc/environment"


def test_a_variable_that_one_node_lacks_or_has_otherwise() -> None:
    for own in ({}, {"NCCL_ALGO": "Tree"}):
        (check,) = environment({"NCCL_ALGO": "Ring"}, own, {"NCCL_ALGO": "Ring"})
        assert check.host == "n2"
        assert check.fix == "--env NCCL_ALGO=Ring"
        assert check.evidence.endswith("on the other nodes Ring")


def test_a_file_of_nccls_own() -> None:
    """C15."""
    (check,) = environment({}, {"NCCL_PROTO": "Simple (/root/.nccl.conf)"}, {})
    assert check.evidence == "NCCL_PROTO is Simple (/root/.nccl.conf), on the other nodes not set"
    assert check.fix == "ssh n2 grep -n ^NCCL_PROTO= /root/.nccl.conf"
    assert environment({"NCCL_PROTO": "Simple"}, {"NCCL_PROTO": "Simple (/etc/nccl.conf)"}) == []


def test_what_the_launch_sets_everywhere_is_the_same_everywhere() -> None:
    assert environment({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO": "Tree"}, env={"NCCL_ALGO": "Ring"}) == []
    assert environment({"NCCL_ALGO": "Ring"}, {}, env={"NCCL_ALGO": None}) == []


def test_what_only_prints_is_a_warning_and_secrets_are_not_shown() -> None:
    (check,) = environment({}, {"NCCL_DEBUG": "INFO"})
    assert check.status == "warn"
    (check,) = environment({}, {"TORCH_TOKEN": "s3cr3t"})
    assert "s3cr3t" not in check.evidence + check.fix


@pytest.mark.parametrize(
    ("environ", "words", "status"),
    [
        ({"NCCL_SOCKET_IFNAME": "^docker0"}, "allows lo", "warn"),
        ({"NCCL_SOCKET_IFNAME": "lo"}, "is lo", "warn"),
        ({"GLOO_SOCKET_IFNAME": "lo"}, "is lo", "fail"),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING", "warn"),
        ({"LD_PRELOAD": "/usr/lib/libnccl.so.2"}, "LD_PRELOAD", "warn"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, "TORCH_NCCL_BLOCKING_WAIT is 1", "warn"),
        ({"TORCH_NCCL_BLOCKING_WAIT": "true"}, "TORCH_NCCL_BLOCKING_WAIT is true", "warn"),
        ({"NCCL_BLOCKING_WAIT": "yes"}, "NCCL_BLOCKING_WAIT is yes", "warn"),
    ],
)
def test_settings_that_break_runs(environ: dict[str, str], words: str, status: str) -> None:
    found = environment(environ, environ)
    assert {check.host for check in found} == {"n1", "n2"}
    for check in found:
        assert words in check.evidence
        assert check.status == status
        assert check.cause
        assert check.fix


def test_lo_is_fatal_for_nccl_where_there_are_gpus_and_harmless_on_one_machine() -> None:
    lo = {"NCCL_SOCKET_IFNAME": "lo"}
    assert {check.status for check in environment(lo, lo, gpus=2)} == {"fail"}
    assert environment(lo) == []


@pytest.mark.parametrize("name", ["NCCL_IB_GID_INDEX", "NCCL_TOPO_FILE"])
def test_variables_that_may_differ_are_a_warning(name: str) -> None:
    """A GID index is of one adapter's table, and a topology file of one machine."""
    (check,) = environment({name: "3"}, {name: "1"}, {name: "3"})
    assert (check.host, check.status) == ("n2", "warn")


@pytest.mark.parametrize(
    ("environ", "words", "fix"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, "NCCL_P2P_DISABLE is 1", "--env NCCL_P2P_DISABLE=0"),
        ({"NCCL_IB_DISABLE": "1 (/etc/nccl.conf)"}, "NCCL_IB_DISABLE is 1", "--env NCCL_IB_DISABLE=0"),
        ({"NCCL_SHM_DISABLE": "1"}, "NCCL_SHM_DISABLE is 1", "--env NCCL_SHM_DISABLE=0"),
        ({"NCCL_ALGO": "Ring"}, "NCCL_ALGO is Ring", "grep -rn NCCL_ALGO"),
        ({"NCCL_ALGO": ""}, "NCCL_ALGO is empty", "grep -rn NCCL_ALGO"),
        ({"NCCL_PROTO": "Simple"}, "NCCL_PROTO is Simple", "grep -rn NCCL_PROTO"),
        ({"TORCH_DISTRIBUTED_DEBUG": "detail"}, "TORCH_DISTRIBUTED_DEBUG is DETAIL", "=OFF"),
        ({"NCCL_SOCKET_IFNAM": "eth0"}, "NCCL_SOCKET_IFNAM is no variable", "--env NCCL_SOCKET_IFNAME=eth0"),
        ({"NCCL_IB_HAC": "mlx5"}, "NCCL_IB_HAC is no variable", "--env NCCL_IB_HCA=mlx5"),
        ({"NCCL_DEBUGG": "INFO"}, "NCCL_DEBUGG is no variable", "--env NCCL_DEBUG=INFO"),
        ({"NCCL_P2P_NVL_CHUNKSIZE": "1"}, None, ""),  # of NCCL, and not in its guide
        ({"NCCL_P2P_DISABLE": "0"}, None, ""),
        ({"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "mlx5_0", "NCCL_NVLS_CHUNKSIZE": "1"}, None, ""),
    ],
)
def test_variables_that_were_left_over(environ: dict[str, str], words: str | None, fix: str) -> None:
    found = environment(environ, environ, gpus=2)
    assert [check.host for check in found] == (["n1", "n2"] if words else [])
    for check in found:
        assert words is not None
        assert words in check.evidence
        assert fix in check.fix
        assert (check.status, check.doc) == ("warn", "env-left-over")
        assert check.cause
    assert environment(environ, environ) == []  # without GPUs, NCCL is not used


# ---- who reaches whom


def found(
    each: Sequence[Any], cut: Sequence[tuple[str, str]] = (), why: str = "no answer in 3 s", **changes: Any
) -> Any:
    """What comes of it where these pairs (who asks, name or port that it asks for) do not meet."""
    hosts, asked_for = specs(len(each)), requirements(**changes)
    master = asked_for.master_addr
    answers = [
        [
            ["", why] if (spec.name, name) in cut or (spec.name, str(port)) in cut else [name, ""]
            for name, port, _ in one
        ]
        for spec, one in zip(hosts, reach_targets(master, hosts, each, all_peers), strict=True)
    ]
    reachability = Reachability(master, hosts, each, answers, all_peers)
    world, apart, mended = build_world(asked_for, hosts, each, reachability)
    apart = network_checks.locate_problems(master, hosts, each, reachability, apart)
    warnings = [
        *network_checks.check_workarounds(hosts, each, mended),
        *network_checks.check_families(hosts, reachability),
    ]
    return None if apart else world, apart, warnings


def test_a_good_mesh() -> None:
    world, apart, said = found([look(number) for number in range(1, 5)])
    assert world is not None
    assert apart == []
    assert said == []


@pytest.mark.parametrize(
    ("environ", "status", "words"),
    [
        ({}, "", ""),
        ({"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth,ib"}, "", ""),
        ({"NCCL_SOCKET_IFNAME": "^docker,lo"}, "", ""),
        (
            {"GLOO_SOCKET_IFNAME": "away0"},
            "fail",
            "GLOO_SOCKET_IFNAME is away0, which does not reach the other nodes; they reach it over eth0",
        ),
        (
            {"GLOO_SOCKET_IFNAME": "eth"},
            "fail",
            "GLOO_SOCKET_IFNAME is eth, which does not exist; they reach it over eth0",
        ),
        (
            {"NCCL_SOCKET_IFNAME": "=away"},
            "fail",
            "NCCL_SOCKET_IFNAME is =away, which does not exist; they reach it over eth0",
        ),
    ],
)
def test_an_interface_that_somebody_chose(environ: dict[str, str], status: str, words: str) -> None:
    each = [look(1), look(2, addresses=[["eth0", "10.0.0.2"], ["away0", "192.168.77.2"]])]
    hosts = specs(2)
    answers = [
        [["", "no answer in 3 s"] if name == "192.168.77.2" else [name, ""] for name, _, _ in one]
        for one in reach_targets("", hosts, each, all_peers)
    ]
    reachability = Reachability("", hosts, each, answers, all_peers)
    said = list(network_checks.check_chosen_interfaces(hosts, each, reachability, {"n1": {}, "n2": environ}))
    assert [(check.host, check.status) for check in said] == ([("n2", status)] if status else [])
    assert all(words in check.evidence and check.cause and check.fix for check in said)


def test_many_nodes_try_some_of_each_other() -> None:
    assert all_peers(0, 4) == [1, 2, 3]
    some = all_peers(7, 1000)
    assert len(some) <= SOME + 1
    assert 8 in some
    assert 7 not in some
    reached = {peer for index in range(1000) for peer in all_peers(index, 1000)}
    assert reached == set(range(1000))
    assert found([look(number) for number in range(1, 101)])[1] == []


@pytest.mark.parametrize(
    ("why", "doc"), [("no answer in 3 s", "firewall-drop"), ("no route to host", "firewall-reject")]
)
def test_a_node_that_nobody_reaches(why: str, doc: str) -> None:
    """N05, N06."""
    cut = [(f"n{number}", "40002") for number in (1, 3)]
    world, apart, _ = found([look(1), look(2), look(3)], cut, why)
    assert world is None
    (problem,) = apart
    check = node_survey.from_problem(problem)
    assert (check.host, check.id, check.doc) == ("n2", "mesh", doc)
    assert "no other node can reach its port 40002" in check.evidence
    assert check.fix == "ssh n2 sudo iptables -I INPUT -p tcp -s 10.0.0.1,10.0.0.3 -j ACCEPT"


def test_one_pair_that_does_not_meet() -> None:
    _, (problem,), _ = found([look(1), look(2), look(3)], [("n1", "40003")])
    assert problem.host == "n3"
    assert "n1 cannot reach its port" in problem.what
    assert "-s 10.0.0.1 " in problem.fix


def test_a_node_that_reaches_nobody_is_the_one_to_name() -> None:
    cut = [("n2", "40001"), ("n2", "40003"), ("n2", "24000")]
    _, apart, _ = found([look(1), look(2), look(3)], cut)
    assert {(problem.host, problem.check) for problem in apart} == {("n2", "mesh"), ("n2", "master-port")}
    assert all("-I OUTPUT -p tcp -d" in problem.fix for problem in apart)


def test_of_two_nodes_the_one_that_listens_is_named() -> None:
    _, (problem,), _ = found([look(1), look(2)], [("n1", "40002")])
    assert problem.host == "n2"


def test_a_master_port_that_a_firewall_closes() -> None:
    """L02."""
    _, (problem,), _ = found([look(1), look(2), look(3)], [("n2", "24000"), ("n3", "24000")], master_port=24000)
    check = node_survey.from_problem(problem)
    assert (check.host, check.id, check.doc) == ("n1", "master-port", "master-unreachable")
    assert check.fix == "ssh n1 sudo iptables -I INPUT -p tcp -s 10.0.0.2,10.0.0.3 --dport 24000 -j ACCEPT"


def test_a_masters_name_that_one_node_does_not_know() -> None:
    """L03."""
    _, (problem,), _ = found(
        [look(1), look(2), look(3)], [("n2", "head")], "name or service not known", master_addr="head"
    )
    check = node_survey.from_problem(problem)
    assert (check.host, check.doc) == ("n2", "master-name-unknown")
    assert check.fix == "ssh n2 'echo 10.0.0.1 head | sudo tee -a /etc/hosts'"


def test_a_masters_name_that_means_another_host_on_one_node() -> None:
    _, (problem,), _ = found([look(1), look(2), look(3)], [("n2", "head")], "connection refused", master_addr="head")
    said = node_survey.with_inventory(problem, gathered(names={"head": ["10.0.0.9"]}), "n2", "head")
    check = node_survey.from_problem(said)
    assert "head resolves to 10.0.0.9 on that node" in check.evidence
    assert check.fix == "-o master_addr=10.0.0.1"


@pytest.mark.parametrize("family", [6, 4])
def test_one_family_of_addresses_that_does_not_work(family: int) -> None:
    """N07."""
    each = [look(n, addresses=[["eth0", f"10.0.0.{n}"], ["eth0", f"fd00::{n}"]]) for n in (1, 2, 3)]
    dead = "fd00::2" if family == 6 else "10.0.0.2"
    world, apart, said = found(
        each, [("n1", dead), ("n3", dead), *([("n1", "n2"), ("n3", "n2")] if family == 4 else [])]
    )
    assert apart == []
    assert world is not None
    mine = [check for check in said if check.id == "mesh"]
    assert [check.host for check in mine] == ["n2"]
    assert mine[0].doc == "address-family"
    assert mine[0].fix == f"--env NCCL_SOCKET_FAMILY=AF_INET{'' if family == 6 else '6'}"


def test_own_names_and_interfaces_that_others_do_not_reach() -> None:
    """N01, L04, N04."""
    each = [
        look(1),
        look(2, own_name=["127.0.1.1"]),
        look(3, own_name=[]),
        look(4, addresses=[["br-1", "172.18.0.1"], ["eth0", "10.0.0.4"]]),
    ]
    world, apart, said = found(each, [(f"n{number}", "172.18.0.1") for number in (1, 2, 3)])
    assert world is not None
    assert apart == []
    assert [(check.host, check.id, check.doc) for check in said] == [
        ("n2", "names", "name-is-loopback"),
        ("n3", "names", "no-node-is-host"),
        ("n4", "interfaces", "nccl-wrong-interface"),
    ]
    assert shlex.split(said[0].fix)[:2] == ["ssh", "n2"]
    assert shlex.split(said[0].fix)[2:] == ["grep", "-nF", "127.0.1.1", "/etc/hosts"]
    assert "10.0.0.3 n3" in said[1].fix
    assert "NCCL_SOCKET_IFNAME=eth0" in said[2].fix
    assert all(check.cause for check in said)


def test_what_names_mean_on_other_nodes() -> None:
    """L05."""
    each = {f"n{number}": look(number) for number in (1, 2, 3, 4)}
    good = {f"n{number}": [f"10.0.0.{number}"] for number in (1, 2, 3, 4)}
    bad: dict[str, Any] = {
        **good,
        "n1": "Name or service not known",
        "n3": "Name or service not known",
        "n4": ["127.0.1.1"],
    }
    slow = {"n3": good["n3"]}
    more = {"n1": {"names": good}, "n2": {"names": bad}, "n3": {"names": slow}, "n4": {"names": good}}
    said = list(network_checks.check_names(specs(4), each, cast("Any", more)))
    assert [(check.host, check.evidence) for check in said] == [
        ("n2", "n1, n3 does not resolve on that node (name or service not known)"),
        ("n2", "n4 resolves to 127.0.1.1 on that node"),
        ("n3", "n1, n2, n4 cannot be resolved on that node within 2 s"),
    ]
    assert said[0].fix == "ssh n2 'echo 10.0.0.1 n1 | sudo tee -a /etc/hosts'"
    assert {check.status for check in said} == {"warn"}


# ---- causes of what keeps a node out


def test_every_problem_has_a_cause_a_fix_and_a_place_to_read_on() -> None:
    for check in ("transport", "machine", "workdir", "script", "tmp", "python", "torch", "gpus", "master-port", "mesh"):
        made = node_survey.from_problem(Problem(host="n1", what="something {odd}", fix="do {this}", check=check))
        assert made.status == "fail"
        assert made.cause, check
        assert made.doc, check
        assert made.fix == "do {this}"


def test_who_has_a_port_is_said() -> None:
    owner = {"pid": 4711, "command": "python serve.py", "user": "eve"}
    problem = Problem(
        host="n1", what="rank 0 cannot listen on port 29500: address already in use", fix="", check="master-port"
    )
    said = node_survey.with_inventory(problem, gathered(port_owner=owner), "n1", "")
    assert "in use by pid 4711 (python serve.py), user eve; by default ddpkit chooses a free port" in said.what
    assert said.fix == "remove -o master_port"
    assert node_survey.with_inventory(problem, gathered(), "n1", "") == problem


def test_a_listener_is_found_by_its_pid() -> None:
    text = (
        "import socket, time; s = socket.create_server(('', 0)); print(s.getsockname()[1], flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = int(process.stdout.readline())
        found = inventory.port_owner(port)
        assert found is not None
        assert found["pid"] == process.pid
        assert " -c import socket" in found["command"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert inventory.port_owner(port) is None


def test_a_folder_for_logs(tmp_path: Path) -> None:
    assert resource_checks.check_logs(str(tmp_path / "not" / "yet")).evidence == f"{tmp_path}/not/yet is writable"
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "logs", Path("/proc/logs")):
        check = resource_checks.check_logs(str(folder))
        assert (check.id, check.status, check.doc) == ("disk", "fail", "disk-full")
        assert f"cannot write logs to {folder}: " in check.evidence
        assert check.cause
        assert "--log-dir" in check.fix


def test_words() -> None:
    assert [size(number) for number in (5, 2 * MIB, 3 * GIB, 5 << 40)] == ["5 B", "2 MiB", "3 GiB", "5 TiB"]
    assert most_common(["a", "b", "b"]) == "b"
    assert most_common([]) == ""
