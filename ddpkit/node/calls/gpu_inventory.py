"""GPUs of a node for the preflight, from nvidia-smi and the files of kernel drivers.

Nothing here judges. A value that could not be read is None or missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import struct
import subprocess
import time

from ddpkit.node.calls.gpus import inside, list_amd_gpus, memory_by_process
from ddpkit.node.child import is_absent
from ddpkit.node.kernel import list_names, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence
    from xml.etree.ElementTree import Element

# Seconds for nvidia-smi. Without persistence mode it initializes every GPU: 30 s for 8 of them (Azure/aks-gpu#105).
SMI_LIMIT = 40.0
LATE = "nvidia-smi does not answer within %g s" % SMI_LIMIT
# Elements of `nvidia-smi -q -x`, of schemas 10 (driver 418) to 13 (driver 590); the first one that exists counts.
FIELDS = {
    "uuid": ("uuid",),
    "name": ("product_name",),
    "bus": ("pci/pci_bus_id",),
    "mode": ("compute_mode",),
    "persistence": ("persistence_mode",),
    "mig": ("mig_mode/current_mig",),
    "memory_used": ("fb_memory_usage/used",),
    "link_gen_max": ("pci/pci_gpu_link_info/pcie_gen/max_link_gen",),
    "link_width": ("pci/pci_gpu_link_info/link_widths/current_link_width",),
    "link_width_max": ("pci/pci_gpu_link_info/link_widths/max_link_width",),
    "ecc": ("ecc_mode/current_ecc",),
    "ecc_pending": ("ecc_mode/pending_ecc",),
    "remap_pending": ("remapped_rows/remapped_row_pending",),
    "remap_failure": ("remapped_rows/remapped_row_failure",),
    "retire_pending": ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
    "channel_repair": ("ecc_errors/channel_repair_pending",),
    "core_repair": ("ecc_errors/tpc_repair_pending",),
    "unrepairable": ("ecc_errors/unrepairable_memory",),
    "recovery": ("gpu_recovery_action",),
    "license": ("vgpu_software_licensed_product/license_status",),
    "fabric": ("fabric/state",),
    "fabric_status": ("fabric/status",),
    "fabric_health": ("fabric/health/summary",),
    "power_limit": ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
    "clock_limit": ("applications_clocks/graphics_clock",),
    "addressing": ("addressing_mode",),
    "clique": ("fabric/cliqueId",),
    "cluster": ("fabric/clusterUuid",),
}
LOST = ("GPU is lost", "Unknown Error")  # in place of values
# Reasons for low clocks that name a fault. A power cap, idling and application clocks are normal.
FAULTS_OF_CLOCKS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
LINK = re.compile(r"^\s+Link \d+: [\d.]+ GB/s")


def nvidia_smi() -> list[dict[str, Any]] | str | None:
    """GPUs as nvidia-smi reports them, each with its users; None: nvidia-smi not found; text: its error.

    The XML has the same elements from every driver. Fields of --query-gpu differ, and one that a driver does not know
    makes it refuse all; remapped rows have a query of their own there.
    """
    until = time.monotonic() + SMI_LIMIT
    try:
        everything, nvlink = _start("-q", "-x"), _start("nvlink", "--status")
    except OSError as error:
        if is_absent(error, "nvidia-smi"):
            return None
        return "nvidia-smi: " + str(error)
    code, text = finish(everything, until)
    _, links = finish(nvlink, min(until, time.monotonic() + 10))  # the driver is initialized by now
    if code is None:
        return LATE
    if "<nvidia_smi_log>" not in text:  # one lost GPU gives an exit code as well, beside the others
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        return first or "nvidia-smi: exit code %d" % code
    return read_gpus(text, links)


def _start(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["nvidia-smi", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def finish(program: subprocess.Popen[bytes], until: float) -> tuple[int | None, str]:
    """Exit code and output; None: it did not end. One that hangs in the driver is not waited for."""
    try:
        output, _ = program.communicate(timeout=max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        program.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(0.5)
        if program.stdout is not None:
            program.stdout.close()
        return None, ""
    return program.returncode, output.decode("utf-8", "replace")


def read_gpus(text: str, links: str = "") -> list[dict[str, Any]] | str:
    """Read the output of `nvidia-smi -q -x`, and that of `nvidia-smi nvlink --status`."""
    from xml.etree import ElementTree  # costs 10 ms

    try:
        root = ElementTree.fromstring(text[text.index("<nvidia_smi_log>") :])
    except ElementTree.ParseError as error:
        return "the output of nvidia-smi is no XML: %s" % error
    active: dict[str, int] = {}
    uuid = ""
    for line in links.splitlines():
        head = re.match(r"GPU \d+: .*\(UUID: ([^)]+)\)", line)
        uuid = head.group(1) if head else uuid
        active[uuid] = active.get(uuid, 0) + bool(LINK.match(line))
    gpus = []
    for index, element in enumerate(root.iter("gpu")):
        gpu: dict[str, Any] = {"index": str(index)}
        for name, paths in FIELDS.items():
            value = next((value for value in map(element.findtext, paths) if value is not None), None)
            if value is not None:
                gpu[name] = value.strip()
        gpu["ecc_errors"] = _uncorrected(element)
        gpu["slow_because"] = clock_reasons(element)
        gpu["links"] = active.get(gpu.get("uuid", ""), 0)
        gpu.update(pci_place(gpu.get("bus", "")[-12:].lower()))
        state = read_text("/proc/driver/nvidia/gpus/%s/numa_status" % gpu.get("bus", "")[-12:].lower())
        gpu["is_node"] = bool(re.search(r"(?mi)^Status:\s*online", state))
        gpu["users"] = [_user(one) for one in element.iter("process_info") if "C" in (one.findtext("type") or "C")]
        gpus.append(gpu)
    return gpus


def _uncorrected(gpu: Element) -> int:
    """Uncorrected memory errors since the last reset."""
    volatile = gpu.find("ecc_errors/volatile")
    counts = [each.text or "" for each in volatile if "uncorrectable" in each.tag] if volatile is not None else []
    counts.append(gpu.findtext("ecc_errors/volatile/double_bit/total") or "")  # before Ampere
    return sum(int(count) for count in counts if count.strip().isdecimal())


def clock_reasons(gpu: Element) -> list[str]:
    """Active reasons for low clocks, without the common prefix of their names."""
    for kind in ("clocks_event_reason", "clocks_throttle_reason"):
        group = gpu.find(kind + "s")
        if group is not None:
            return [each.tag[len(kind) + 1 :] for each in group if (each.text or "").strip() == "Active"]
    return []


def _user(process: Element) -> dict[str, Any]:
    pid = (process.findtext("pid") or "0").strip()
    memory = (process.findtext("used_memory") or "").replace("MiB", "").strip()
    return describe_user(pid, memory, (process.findtext("process_name") or "").strip())


def describe_user(pid: str, memory: str, name: str = "") -> dict[str, Any]:
    """Describe a process on a GPU. Drivers report pids of the machine; in a container, another process has that number.

    `memory`: MiB; `name`: as the driver has it, else looked up.
    """
    here = not inside()
    name = name or (read_text("/proc/%s/comm" % pid) if here else "")
    return {"pid": int(pid), "memory": memory, "name": name, "user": owner(pid) if here else ""}


def owner(pid: str) -> str:
    """Name of the user of a process; empty: not known."""
    try:
        import pwd

        return pwd.getpwuid(os.stat("/proc/" + pid).st_uid).pw_name
    except (OSError, KeyError):
        return ""


# ---- AMD


def gpus_of_node() -> list[dict[str, Any]] | str | None:
    """GPUs of NVIDIA, else those of AMD; None: neither; text: why they are not known."""
    gpus = nvidia_smi()
    if gpus is None or not gpus or "No devices" in gpus:
        return amd_gpus() or gpus
    return gpus


def amd_gpus(root: str = "/") -> list[dict[str, Any]]:
    """AMD's GPUs, with the fields that `nvidia_smi` gives."""
    gpus: list[dict[str, Any]] = []
    for each in list_amd_gpus(root):
        errors = re.search(
            r"ue: (\d+)", read_text(each.device + "/ras/umc_err_count") or read_text(each.device + "/ras/aca_umc")
        )
        used = read_text(each.device + "/mem_info_vram_used")
        gpu: dict[str, Any] = {
            "index": str(len(gpus)),
            "uuid": each.uuid,
            "name": each.name,
            "vendor": "AMD",
            "ecc_errors": int(errors.group(1)) if errors else 0,
            "slow_because": [],
            "links": 0,
            "users": [describe_user(pid, str(size >> 20)) for pid, size in memory_by_process(each, root).items()],
        }
        if used.isdecimal():
            gpu["memory_used"] = "%d MiB" % (int(used) >> 20)
        for field, file in (("link_width", "/current_link_width"), ("link_width_max", "/max_link_width")):
            gpu[field] = read_text(each.device + file)
        gpu.update(pci_place(os.path.basename(os.path.realpath(each.device)), root))
        gpus.append(gpu)
    return gpus


# ---- the node


def gpu_host(gpus: Sequence[str] = (), adapters: Sequence[str] = (), root: str = "/") -> dict[str, Any]:
    """Facts of the node that all of its GPUs share. `gpus`, `adapters`: their paths through PCI bridges."""
    version = read_text(root + "proc/driver/nvidia/version")
    return {
        "cuda_driver": cuda_driver() if root == "/" else None,
        "direct": gpu_direct(root, version, os.uname().release),
        "listed": listed_gpus(root),
        "redirects": redirects(bridges_between(gpus, adapters), root),
        "others": other_accelerators(root),
        "inside": inside(),
        "imex": imex_channels(root),
    }


def listed_gpus(root: str = "/") -> list[str]:
    """PCI addresses of the GPUs that NVIDIA's driver has for this process, also of a lost one.

    A cgroup of SLURM hides others: access() asks it. To open a device would start its driver, which takes seconds.
    """
    folder = root + "proc/driver/nvidia/gpus/"
    listed = []
    for bus in list_names(folder):
        minor = re.search(r"(?m)^Device Minor:\s*(\d+)", read_text(folder + bus + "/information"))
        if minor is None or os.access(root + "dev/nvidia" + minor.group(1), os.R_OK | os.W_OK):
            listed.append(bus)
    return listed


def imex_channels(root: str = "/") -> list[str]:
    """Channels that this process may use, over which GPUs of several nodes share memory by NVLink."""
    folder = root + "dev/nvidia-caps-imex-channels/"
    return [name for name in list_names(folder) if os.access(folder + name, os.R_OK | os.W_OK)]


def cuda_driver() -> str | None:
    """The CUDA of libcuda, as 12.8. Packages of forward compatibility replace it; it needs no GPU and no cuInit."""
    try:
        library, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return "%d.%d" % (version.value // 1000, version.value % 1000 // 10)


def gpu_direct(root: str, version: str, release: str) -> str:
    """Return how network adapters reach the memory of GPUs: a kernel module, or dma-buf; empty: neither."""
    for name in ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem"):
        if os.path.isdir(root + "sys/module/" + name):
            return name
    folder = root + "sys/class/infiniband/"
    for name in list_names(folder):  # EFA's own word
        for file in ("gdr", "p2p"):
            if read_text(folder + name + "/device/" + file).upper().startswith("NVIDIA"):
                return "EFA"
    kernel = re.match(r"(\d+)\.(\d+)", release)
    new = kernel is not None and (int(kernel.group(1)), int(kernel.group(2))) >= (5, 12)
    return "dma-buf" if new and "Open Kernel Module" in version else ""


def bridges_between(gpus: Sequence[str], adapters: Sequence[str]) -> set[str]:
    """Ports of PCI switches between two GPUs, or a GPU and an adapter, from paths of devices.

    Devices of different switches meet in the CPU in any case.
    """
    ports: set[str] = set()
    pairs = itertools.chain(itertools.combinations(gpus, 2), itertools.product(gpus, adapters))
    for one, other in ((one.split("/"), other.split("/")) for one, other in pairs if one and other):
        common = sum(1 for _ in itertools.takewhile(lambda both: both[0] == both[1], zip(one, other)))
        if common > 1:
            ports.update([*one[common:-1], *other[common:-1]])
    return ports


def redirects(ports: set[str], root: str = "/") -> int | None:
    """How many of these PCI bridges send requests between devices to the CPU (ACS).

    None: only root may read it, or this is a virtual machine. Source: PCI Express Base Specification, extended
    capability 0x0D; bit 2 of its control register.
    """
    if re.search(r"(?m)^flags\s*:.*\bhypervisor\b", read_text(root + "proc/cpuinfo")):
        return None  # a virtual machine needs ACS on its host
    number, known = 0, not ports
    for name in ports:
        try:
            with open(root + "sys/bus/pci/devices/" + name + "/config", "rb") as file:
                config = file.read(4096)
        except OSError:
            continue
        known = known or len(config) > 256
        number += _redirects(config)
    return number if known else None


def _redirects(config: bytes) -> bool:
    """Tell whether a bridge does so, by the list of extended capabilities in its configuration."""
    place = 0x100
    for _ in range(64):  # a defective device may have a loop
        if not 0x100 <= place <= len(config) - 8:
            return False
        head = struct.unpack_from("<I", config, place)[0]
        if head & 0xFFFF == 0x0D:
            return bool(struct.unpack_from("<H", config, place + 6)[0] & 4)
        place = head >> 20
    return False


def other_accelerators(root: str = "/") -> dict[str, int]:
    """Accelerators that ddpkit has no checks for, by kind."""
    counts = {"Ascend NPU": sum(bool(re.match(r"davinci\d+$", name)) for name in list_names(root + "dev"))}
    drm = root + "sys/class/drm/"
    cards = [drm + name + "/device/" for name in list_names(drm) if re.match(r"card\d+$", name)]
    # Of Intel's, those that drive no display: class 0x0380.
    intel = [
        card for card in cards if read_text(card + "vendor") == "0x8086" and read_text(card + "class")[:6] == "0x0380"
    ]
    counts["Intel GPU"] = len(intel)
    return {kind: count for kind, count in counts.items() if count}


def pci_place(address: str, root: str = "/") -> dict[str, str]:
    """Path of a PCI device through its bridges, and its NUMA node, from sysfs. Empty: not known."""
    device = root + "sys/bus/pci/devices/" + address
    if not address or not os.path.exists(device):
        return {"pci": "", "numa": ""}
    return {"pci": os.path.realpath(device).partition("/devices/")[2], "numa": read_text(device + "/numa_node")}
