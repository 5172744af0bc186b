"""Outputs of nvidia-smi as tables of elements, each with its source. `document` makes the XML of `nvidia-smi -q -x`.

A table has the elements that ddpkit reads, with the values of its source. Identities are changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

Table = Mapping[str, str]

# nvidia-smi 535.54.03, schema 12, 4 x A100-SXM4-80GB with MIG: https://github.com/influxdata/telegraf/issues/5812
A100_MIG: Table = {
    "product_name": "NVIDIA A100-SXM4-80GB",
    "persistence_mode": "Disabled",
    "mig_mode/current_mig": "Enabled",
    "pci/pci_bus_id": "00000000:01:00.0",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "4",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "4",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "16x",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "16x",
    "clocks_event_reasons/clocks_event_reason_gpu_idle": "Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_slowdown": "Not Active",
    "clocks_event_reasons/clocks_event_reason_hw_thermal_slowdown": "Not Active",
    "fb_memory_usage/used": "50 MiB",
    "compute_mode": "Default",
    "ecc_mode/current_ecc": "Enabled",
    "ecc_mode/pending_ecc": "Enabled",
    "ecc_errors/volatile/sram_uncorrectable": "0",
    "ecc_errors/volatile/dram_uncorrectable": "0",
    "ecc_errors/aggregate/dram_uncorrectable": "0",
    "retired_pages/pending_blacklist": "N/A",
    "retired_pages/pending_retirement": "N/A",
    "remapped_rows": "N/A",
    "gpu_power_readings/current_power_limit": "500.00 W",
    "applications_clocks/graphics_clock": "1275 MHz",
    "fabric/state": "N/A",
    "fabric/status": "N/A",
}
# The same node without MIG; remapped rows as in https://github.com/leptonai/gpud/pull/80.
A100: Table = {
    **{path: value for path, value in A100_MIG.items() if path != "remapped_rows"},
    "persistence_mode": "Enabled",
    "mig_mode/current_mig": "Disabled",
    "remapped_rows/remapped_row_pending": "No",
    "remapped_rows/remapped_row_failure": "No",
}
# HGX H100, schema 12 of the table above. NVLink: https://github.com/bottlerocket-os/bottlerocket/pull/4418. Fabric
# state: as public guides for HGX nodes print `nvidia-smi -q -i 0 | grep -i -A 2 Fabric`. Retired
# pages: N/A on H100 (gpud#80).
H100: Table = {
    **A100,
    "product_name": "NVIDIA H100 80GB HBM3",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "5",
    "gpu_power_readings/current_power_limit": "700.00 W",
    "applications_clocks/graphics_clock": "1980 MHz",
    "fabric/state": "Completed",
    "fabric/status": "Success",
}
# H100 PCIe has no fabric: https://github.com/leptonai/gpud/pull/1147
H100_PCIE: Table = {**H100, "product_name": "NVIDIA H100 PCIe", "fabric/state": "Not Supported", "fabric/status": "N/A"}
# Elements of schema 13 as in RTX_PRO; the name and the memory of H200.
H200: Table = {**H100, "product_name": "NVIDIA H200", "gpu_recovery_action": "None"}
# Fabric of GB200: https://github.com/leptonai/gpud/pull/1106. Written after schema 13 (driver 580) for the rest.
GB200: Table = {
    **{path: value for path, value in H100.items() if not path.startswith("applications_clocks")},
    "product_name": "NVIDIA GB200",
    "gpu_recovery_action": "None",
    "applications_clocks/graphics_clock": "Requested functionality has been deprecated",
    "fabric/health/summary": "Not Supported",
}
# Name, persistence, ECC, MIG and power of 8 x B200 with nvidia-smi 580.95.05: NVIDIA/TensorRT-LLM#10278. Its elements
# and the fabric are those of GB200.
B200: Table = {**GB200, "product_name": "NVIDIA B200", "gpu_power_readings/current_power_limit": "1000.00 W"}
# nvidia-smi 590.44.01, schema 13: telegraf, plugins/inputs/nvidia_smi/testdata/pro-6000-maxq-blackwell-v13.xml. A field
# that this driver refuses has text instead of a value. PCIe drops to generation 1 at rest.
RTX_PRO: Table = {
    **GB200,
    "product_name": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "display_mode": "Requested functionality has been deprecated",
    "mig_mode/current_mig": "N/A",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "4",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "1",
    "ecc_mode/current_ecc": "Disabled",
    "ecc_mode/pending_ecc": "Disabled",
    "ecc_errors/volatile/sram_uncorrectable": "N/A",
    "ecc_errors/volatile/dram_uncorrectable": "N/A",
    "ecc_errors/channel_repair_pending": "No",
    "ecc_errors/tpc_repair_pending": "No",
    "ecc_errors/unrepairable_memory": "N/A",
    "gpu_power_readings/current_power_limit": "300.00 W",
    "fabric/state": "N/A",
    "fabric/status": "N/A",
    "fabric/health/summary": "N/A",
}
# nvidia-smi 430.26, schema 10: https://github.com/a0s/nvidia-smi-exporter/issues/1. No MIG, remapped rows or fabric.
GTX_1080: Table = {
    "product_name": "GeForce GTX 1080",
    "persistence_mode": "Disabled",
    "pci/pci_bus_id": "00000000:01:00.0",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "3",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "16x",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "16x",
    "clocks_throttle_reasons/clocks_throttle_reason_gpu_idle": "Active",
    "clocks_throttle_reasons/clocks_throttle_reason_hw_slowdown": "Not Active",
    "fb_memory_usage/used": "1 MiB",
    "compute_mode": "Default",
    "ecc_mode/current_ecc": "N/A",
    "ecc_mode/pending_ecc": "N/A",
    "retired_pages/pending_retirement": "N/A",
    "power_readings/enforced_power_limit": "180.00 W",
}
# A virtual machine with a vGPU of an A6000, nvidia-smi 535.183.06, schema 12: WentingXu3o3/CUDAError4vGPU. CUDA answers
# "operation not supported" there. The guest has no PCIe link, no power, no clocks and no remapped rows.
VGPU: Table = {
    "product_name": "NVIDIA RTXA6000-24Q",
    "persistence_mode": "Enabled",
    "mig_mode/current_mig": "Disabled",
    "gpu_virtualization_mode/virtualization_mode": "VGPU",
    "vgpu_software_licensed_product/license_status": "Unlicensed",
    "pci/pci_bus_id": "00000000:00:10.0",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "N/A",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "N/A",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "N/A",
    "clocks_event_reasons": "N/A",
    "fb_memory_usage/used": "47 MiB",
    "compute_mode": "Default",
    "ecc_mode/current_ecc": "Enabled",
    "ecc_mode/pending_ecc": "Enabled",
    "ecc_errors/volatile/sram_uncorrectable_parity": "N/A",
    "ecc_errors/volatile/dram_uncorrectable": "0",
    "retired_pages/pending_blacklist": "N/A",
    "remapped_rows": "N/A",
    "gpu_power_readings/current_power_limit": "N/A",
    "applications_clocks/graphics_clock": "N/A",
    "fabric/state": "N/A",
    "fabric/status": "N/A",
}
# A GPU that fell off the bus while nvidia-smi ran: NVIDIA's k8s-test-infra, mock NVML, qx-gb200-lost.xml.
LOST: Table = {path: "GPU is lost" if path.count("/") or "_mode" in path else value for path, value in GB200.items()}
# All GPUs of a node lost, exit code 255: the example of the catalogue's entry gpu-lost.
FALLEN = "Unable to determine the device handle for GPU0000:17:00.0: Unknown Error"
REFUSED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-51c0-8f2e-9f6b-3d0c6a1be{number:03x}"


def document(gpus: Sequence[tuple[Table, Sequence[Table]]]) -> str:
    """The output of `nvidia-smi -q -x`: tables of GPUs, each with those of its processes."""
    root = Element("nvidia_smi_log")
    for index, (table, processes) in enumerate(gpus):
        gpu = SubElement(root, "gpu", id=table["pci/pci_bus_id"])
        _add(gpu, {"uuid": uuid(index), **table, "pci/pci_bus_id": f"00000000:{0x17 + 8 * index:02X}:00.0"})
        users = SubElement(gpu, "processes")
        for process in processes:
            _add(SubElement(users, "process_info"), process)
    indent(root)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n{tostring(root).decode()}\n'
    )


def _add(element: Element, table: Table) -> None:
    for path, value in table.items():
        place = element
        for part in path.split("/"):
            found = place.find(part)
            place = SubElement(place, part) if found is None else found
        place.text = value


def nvlink(gpus: Sequence[tuple[Table, Sequence[Table]]], links: Sequence[int]) -> str:
    """The output of `nvidia-smi nvlink --status`: that many active links of each GPU, of 18."""
    lines = []
    for index, (table, _) in enumerate(gpus):
        lines.append(f"GPU {index}: {table['product_name']} (UUID: {uuid(index)})")
        lines += [f"\t Link {link}: {'26.562 GB/s' if link < links[index] else '<inactive>'}" for link in range(18)]
    return "\n".join(lines)
