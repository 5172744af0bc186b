"""Checks of GPUs: missing, busy, defective or slow ones, and their way to network adapters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ddpkit.launchers.node_facts import Gpu
from ddpkit.launchers.shell import count
from ddpkit.node.calls.gpu_inventory import FAULTS_OF_CLOCKS, LOST
from ddpkit.node.calls.gpus import visible_entries
from ddpkit.preflight.check import Fault, Node, check_each, rank_environ
from ddpkit.text import format_ranges

MPS = "nvidia-cuda-mps-server"  # shares a GPU in mode Exclusive_Process between processes
# Commands of NVIDIA's tools, and those that do it for AMD.
AMD_COMMANDS = {
    "nvidia-smi -q -d PERFORMANCE": "amd-smi metric --clock --power",
    "lspci -vv -d 10de:": "lspci -vv -d 1002:",
    "fuser -v /dev/nvidia*": "fuser -v /dev/kfd",
    "nvidia-smi": "amd-smi",
}
_REPAIRS: tuple[tuple[Literal["channel_repair", "core_repair"], str], ...] = (
    ("channel_repair", "a memory channel"),
    ("core_repair", "a group of cores"),
)
OFF = ("N/A", "[N/A]", "Not Supported", "None", "")


@check_each("gpus")
def check_gpus(node: Node, nodes: Sequence[Node]) -> Iterator[Fault | str]:
    """Check the GPUs that ranks on a node see. Its inventory has a list, an error as text, or None: no nvidia-smi."""
    gpus = node.inventory["gpus"]
    accelerators = node.inventory["gpu_host"]["others"]  # of other vendors
    if accelerators and not (isinstance(gpus, list) and gpus):
        yield Fault("unknown", _name_accelerators(accelerators))
        return
    if gpus is None:
        yield Fault("skip", "no nvidia-smi")
        return
    if isinstance(gpus, str) and not node.facts["gpus"] and not node.inventory["driver"]:
        # Neither driver nor GPU: a node without any, or one on which the driver is not loaded.
        none = "No devices" in gpus
        yield Fault("skip" if none else "unknown", "none" if none else gpus)
        return
    if isinstance(gpus, str):
        cause = "the driver does not answer" + ("; persistence mode may be off" if "within" in gpus else "")
        fix = node.command("sudo dmesg | grep -i -e nvrm -e xid")
        yield Fault("fail", gpus, cause, fix, "gpu-lost")
        return
    environ = rank_environ(node)
    chosen = visible(gpus, environ)
    problems = [*_check_number(node, gpus), *_check_host(node, chosen), *_check_domain(node, chosen, len(nodes))]
    for gpu in chosen:
        name = f"GPU {gpu.get('index')} ({gpu.get('uuid')})"
        for fault in _check_one(node, gpu, _alike(gpu, nodes)):
            fix = node.command(_command(gpu, fault.fix))
            problems.append(fault._replace(evidence=f"{name}: {fault.evidence}", fix=fix))
    yield from problems
    if not problems and chosen:
        yield f"{len(chosen)} x {chosen[0].get('name', '')}"
    elif not chosen:
        names = ", ".join(name for name in _VISIBLE if name in environ)
        yield Fault("skip", f"none, by {names}" if gpus else "none")


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# By vendor: groups of variables. Each group selects among what the groups before it left; the first that is set counts.
_SELECT: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "NVIDIA": (("CUDA_VISIBLE_DEVICES",),),
    "AMD": (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")),
}


def visible(gpus: Sequence[Gpu], environ: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs that a process with these variables sees; drivers list all of them."""
    chosen = list(gpus)
    for names in _SELECT[gpus[0].get("vendor", "NVIDIA")] if gpus else ():
        text = next((environ[name] for name in names if name in environ), None)
        if text is not None:
            chosen = _select(chosen, visible_entries(text))
    return chosen


def _select(gpus: Sequence[Gpu], entries: Sequence[str]) -> list[Gpu]:
    """Choose by index, or by the start of a UUID. The UUID of a MIG instance does not name its GPU: all of them."""
    uuids = tuple(entry.removeprefix("MIG-").partition("/")[0] for entry in entries if "GPU-" in entry)
    if len(uuids) < len(entries) and any(entry.startswith("MIG-") for entry in entries):
        return list(gpus)
    return [
        gpu
        for index, gpu in enumerate(gpus)
        if str(index) in entries or (uuids and gpu.get("uuid", "").startswith(uuids))
    ]


def _command(gpu: Gpu, command: str) -> str:
    """Return a command of NVIDIA's tools, or the one that does the same for another vendor."""
    for part, other in AMD_COMMANDS.items() if gpu.get("vendor") == "AMD" else ():
        command = command.replace(part, other)
    return command


def _name_accelerators(numbers: dict[str, int]) -> str:
    kinds = ", ".join(f"{number} x {kind}" for kind, number in numbers.items())
    return f"{kinds}: ddpkit has no checks for them, and tests the ranks over gloo"


def _alike(gpu: Gpu, nodes: Sequence[Node]) -> list[Gpu]:
    """All GPUs of the same name, this one included."""
    lists = [node.inventory["gpus"] for node in nodes]
    return [each for gpus in lists if isinstance(gpus, list) for each in gpus if each.get("name") == gpu.get("name")]


def _check_number(node: Node, gpus: Sequence[Gpu]) -> Iterator[Fault]:
    """Check that nvidia-smi lists as many GPUs as the driver and as the ranks, and that they are whole (no MIG)."""
    listed, seen = node.inventory["gpu_host"]["listed"], len(gpus)
    known = len(listed)
    if known > seen and not node.isolated:
        here = {gpu.get("bus", "")[-12:].lower() for gpu in gpus}
        lost = [bus for bus in listed if bus.lower() not in here]
        which = f"; {', '.join(lost)} {'is' if len(lost) == 1 else 'are'} missing" if len(lost) == known - seen else ""
        what = f"nvidia-smi lists {seen} GPUs, and the driver {known}{which}"
        cause = "a GPU fell off the bus (Xid 79), or was disabled"
        fix = node.command("sudo dmesg | grep -i xid")
        yield Fault("fail", what, cause, fix, "gpu-lost")
    elif node.isolated and node.slots > 1:
        what = (
            f"each of {node.slots} ranks sees only its own GPU; here, {seen} of them {'is' if seen == 1 else 'are'} "
            "checked"
        )
        cause = "ranks of one node cannot access each other's GPU memory (no P2P): NCCL copies through the host"
        fix = "-o gpus-per-node=N instead of gpus-per-task; or srun --gpu-bind=none"
        yield Fault("warn", what, cause, fix, "gpus-isolated")
    elif 0 < seen < node.slots:
        what = f"{seen} GPUs, and {node.slots} ranks"
        cause = "two ranks would share a GPU, which NCCL rejects"
        fix = f"-n {seen}"
        yield Fault("fail", what, cause, fix, "invalid-device-ordinal")
    parts = [gpu.get("index") for gpu in gpus if gpu.get("mig") == "Enabled"]
    if parts and node.slots > 1:
        what = f"MIG is on: GPU {', '.join(map(str, parts))}"
        cause = "a rank sees one instance of such a GPU, and NCCL cannot connect two instances of one GPU"
        fix = node.command("sudo nvidia-smi -mig 0")
        yield Fault("warn", what, cause, fix, "duplicate-gpu")


def _check_host(node: Node, gpus: Sequence[Gpu]) -> Iterator[Fault]:
    """Check facts of the node that make all of its GPUs slow. They do not matter to a single rank."""
    if node.slots < 2:
        return
    host = node.inventory["gpu_host"]
    off = [int(gpu.get("index", 0)) for gpu in gpus if gpu.get("persistence") == "Disabled"]
    if off:
        what = f"persistence mode is off: GPU {format_ranges(off)}"
        cause = "the first process initializes each GPU anew, which takes seconds a GPU"
        fix = node.command("sudo nvidia-smi -pm 1")
        yield Fault("warn", what, cause, fix, "slow-first-start")
    ports = [port for port in node.inventory["infiniband"] if port["state"] == "ACTIVE"]
    server = any("GeForce" not in gpu.get("name", "") and gpu.get("vendor") != "AMD" for gpu in gpus)
    if ports and server and not host["direct"]:
        what = "nvidia_peermem is not loaded, and this driver has no dma-buf"
        cause = "network adapters cannot access GPU memory (GPUDirect RDMA): NCCL copies through the host"
        fix = node.command("sudo modprobe nvidia_peermem")
        yield Fault("warn", what, cause, fix, "gdr-missing")
    if host["redirects"] and len(gpus) > 1:
        what = f"ACS is on at {count(host['redirects'], 'PCI bridge')} between GPUs and adapters"
        cause = "their requests to each other pass through the CPU, which is slow or hangs"
        fix = node.command("sudo lspci -vvv | grep ACSCtl")
        yield Fault("warn", what, cause, fix, "p2p-hang")


def _check_domain(node: Node, gpus: Sequence[Gpu], nodes: int) -> Iterator[Fault]:
    """Check NVLink between nodes, as on GB200. A cluster id of zeros stands for a domain of one node."""
    domains = {(gpu.get("cluster", ""), gpu.get("clique", "")) for gpu in gpus if gpu.get("cluster", "").strip("0-NA/")}
    if len(domains) > 1:
        what = f"its GPUs are in {len(domains)} NVLink domains or cliques"
        cause = "they cannot access each other's memory over NVLink"
        fix = node.command("nvidia-smi -q | grep -A 6 Fabric")
        yield Fault("warn", what, cause, fix, "imex")
    if domains and nodes > 1 and not node.inventory["gpu_host"]["imex"]:
        in_container = node.inventory["container"]
        give = "give the container its file: --device=/dev/nvidia-caps-imex-channels/channel0"
        what = "no IMEX channel can be used: /dev/nvidia-caps-imex-channels"
        cause = "NCCL cannot use NVLink between nodes: it uses the network, which is slower, or fails"
        fix = (
            give if in_container else node.command("ls -l /dev/nvidia-caps-imex-channels; systemctl status nvidia-imex")
        )
        yield Fault("warn", what, cause, fix, "imex")


def _check_one(node: Node, gpu: Gpu, alike: Sequence[Gpu]) -> Iterator[Fault]:
    """Yield what is wrong with one GPU. A fix is a command of NVIDIA's tools on the node. `alike`: all of its name."""
    if any(str(gpu.get(field)) in LOST for field in ("persistence", "mode", "memory_used", "link_width")):
        yield Fault("fail", "is lost", "it fell off the bus (Xid 79)", "sudo dmesg | grep -i xid", "gpu-lost")
        return
    yield from _check_use(node, gpu)
    yield from _check_memory(gpu)
    yield from _check_speed(gpu, alike)
    if gpu.get("fabric", "") in ("In Progress", "Not Started"):
        cause = "nvidia-fabricmanager has not connected it to the NVSwitches; CUDA can fail with Error 802"
        restart = "systemctl status nvidia-fabricmanager"
        yield Fault("warn", f"fabric state is {gpu['fabric']}", cause, restart, "cuda-init-failed")
    elif gpu.get("fabric") == "Completed" and gpu.get("fabric_status", "Success") != "Success":
        what = f"fabric status is {gpu.get('fabric_status')}"
        log = "sudo journalctl -u nvidia-fabricmanager"
        yield Fault("fail", what, "its registration with the NVSwitches failed", log, "cuda-init-failed")
    elif gpu.get("fabric_health") in ("Unhealthy", "Limited Capacity"):
        what = f"fabric health is {gpu['fabric_health']}"
        cause = "an NVLink or an NVSwitch is defective or set up wrongly"
        yield Fault("warn", what, cause, "nvidia-smi -q | grep -A 12 Fabric", "nvlink-error")


def _check_use(node: Node, gpu: Gpu) -> Iterator[Fault]:
    """Check for other processes on a GPU, and for modes that keep processes out."""
    users = [each for each in gpu.get("users", []) if MPS not in each["name"]]
    shared_by_mps = len(users) < len(gpu.get("users", []))
    inside = node.inventory["gpu_host"]["inside"]  # a container, which does not see processes of the host
    if users:
        who = ", ".join(
            f"pid {each['pid']} {each['name']} ({each['user'] or ('of the host' if inside else 'unknown')}, "
            f"{each['memory']} MiB)"
            for each in users
        )
        look = "nvidia-smi" if inside else f"ps -fp {','.join(str(each['pid']) for each in users)}"
        yield Fault(
            "warn", f"is in use by {who}", "another job uses memory and time of this GPU", look, "gpu-memory-taken"
        )
    elif number(gpu.get("memory_used")) > 1024 and not (gpu.get("is_node") or gpu.get("addressing") == "ATS"):
        what = f"{gpu.get('memory_used')} are in use, without a visible process"
        cause = "a process of another container or user, or one that crashed"
        yield Fault("warn", what, cause, "sudo fuser -v /dev/nvidia*", "gpu-memory-taken")
    if gpu.get("mode") == "Exclusive_Process" and users and not shared_by_mps:
        what = "is in mode Exclusive_Process, and in use"
        yield Fault("fail", what, "only one process can use it", "sudo nvidia-smi -c 0", "gpu-busy")
    if gpu.get("license", "").startswith("Unlicensed"):
        cause = "without a license, CUDA in a virtual machine becomes slow, and fails after some time"
        yield Fault("warn", f"vGPU license: {gpu['license']}", cause, "systemctl status nvidia-gridd", "gpu-busy")
    if gpu.get("mode") == "Prohibited":
        yield Fault("fail", "is in mode Prohibited", "no process can use it", "sudo nvidia-smi -c 0", "gpu-busy")


def _check_memory(gpu: Gpu) -> Iterator[Fault]:
    """Check for defective memory, and for repairs that need a reset. No fix resets: that ends the jobs of others."""
    reset, look = _reset(gpu), "nvidia-smi"
    if gpu.get("ecc_errors", 0):
        what = f"{gpu['ecc_errors']} uncorrected memory errors"
        yield Fault("fail", what, f"a defective memory row; {reset}", look, "gpu-ecc")
    if "Yes" in (gpu.get("remap_pending"), gpu.get("retire_pending")):
        yield Fault(
            "fail", "a row remap is pending", f"a GPU reset replaces the failed memory; {reset}", look, "gpu-ecc"
        )
    repairs = [what for field, what in _REPAIRS if gpu.get(field) == "Yes"]
    if repairs:
        cause = f"a GPU reset replaces the failed part; {reset}"
        yield Fault("fail", f"a repair is pending: {', '.join(repairs)}", cause, look, "gpu-ecc")
    if gpu.get("remap_failure") == "Yes":
        cause = "it has no spare rows for its failed memory: the board must be replaced"
        yield Fault("fail", "a row remap failed", cause, "nvidia-smi -q -d ROW_REMAPPER", "gpu-ecc")
    if gpu.get("unrepairable") == "Yes":
        cause = "the board must be replaced"
        yield Fault("fail", "it has memory that cannot be repaired", cause, "nvidia-smi -q -d ECC", "gpu-ecc")
    action = gpu.get("recovery", "None")
    if action.startswith(("Reset", "Reboot", "Drain")) and gpu.get("remap_pending") != "Yes" and not repairs:
        yield Fault(
            "fail", f"the driver recommends: {action}", f"an earlier error of this GPU; {reset}", look, "gpu-ecc"
        )
    if gpu.get("ecc") != gpu.get("ecc_pending") and gpu.get("ecc_pending", "N/A") not in OFF:
        what = f"ECC is {gpu.get('ecc')}, and {gpu.get('ecc_pending')} after a reset"
        yield Fault("warn", what, f"the mode was changed, and the GPU not reset; {reset}", look, "gpu-ecc")


def _reset(gpu: Gpu) -> str:
    """Return how to reset a GPU. GPUs that share NVSwitches are reset together."""
    if gpu.get("vendor") == "AMD":
        return f"to reset it, after the last job of its node: sudo amd-smi reset -G -g {gpu.get('index')}"
    if gpu.get("links", 0) or gpu.get("fabric", "N/A") not in OFF:
        return "drain the node, as all its GPUs are reset together, after their last jobs: sudo nvidia-smi -r"
    return f"to reset it, after its last job: sudo nvidia-smi -r -i {gpu.get('index')}"


def _check_speed(gpu: Gpu, alike: Sequence[Gpu]) -> Iterator[Fault]:
    """Check clocks, PCIe and NVLink: for faults that the GPU reports, and against GPUs of the same name."""
    reasons = [each for each in gpu.get("slow_because", []) if each in FAULTS_OF_CLOCKS]
    if reasons:
        look = "nvidia-smi -q -d PERFORMANCE"
        yield Fault("warn", f"is throttled: {', '.join(reasons)}", "heat or power", look, "straggler")
    field: Literal["power_limit", "clock_limit", "link_gen_max", "link_width"]
    for field, what, look in (
        ("link_width", "PCIe width", "sudo lspci -vv -d 10de:"),  # boards with half of the lanes have it by design
        ("power_limit", "power limit", "nvidia-smi -q -d POWER"),
        ("clock_limit", "application clock", "nvidia-smi -q -d CLOCK"),
        ("link_gen_max", "PCIe generation", "sudo lspci -vv -d 10de:"),
    ):
        usual = Counter(number(each.get(field)) for each in alike).most_common(1)[0][0]
        if 0 < number(gpu.get(field)) < usual:
            text = f"{what} {gpu.get(field)}, on the other GPUs {usual}"
            yield Fault("warn", text, "its settings or its slot differ", look, "straggler")
    usual = Counter(each.get("links", 0) for each in alike).most_common(1)[0][0]
    if gpu.get("links", 0) < usual:
        text = f"{gpu.get('links', 0)} active NVLinks, on the other GPUs {usual}"
        yield Fault("warn", text, "links are down or disabled", "nvidia-smi nvlink --status", "nvlink-error")


def number(value: object) -> int:
    """Return the integer that begins a value of nvidia-smi, as 16 of `16x`; 0 without one."""
    digits = str(value).split(".")[0].split(" ")[0].rstrip("x")
    return int(digits) if digits.isdecimal() else 0
