"""Printed texts of `ddpkit/diagnosis/catalogue/fabric.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "ib-retry": (
        (
            "kolyoz2:25146:25854 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode 5327",
            "https://github.com/NVIDIA/nccl-tests/issues/252",
        ),
        (
            "node1:10:20 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4712> with status=12 opcode=0 len=0 vendor err 129",
            "https://github.com/NVIDIA/nccl/issues/426",
        ),
        (
            "NCCL WARN NET/IB: Got completion from peer 10.0.0.2<51234> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129",
            "NCCL 2.29, source",
        ),
        (
            "h:1:2 [0] misc/ibvwrap.cc:280 NCCL WARN Call to ibv_poll_cq failed",
            "NCCL 2.10, source",
        ),
    ),
    "ib-modify-qp": (
        (
            "misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
            "https://github.com/NVIDIA/nccl-tests/issues/185",
        ),
    ),
    "memlock": (
        (
            "misc/ibvwrap.cc:235 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            "https://github.com/NVIDIA/nccl-tests/issues/206",
        ),
        (
            "[1700000000.1] [node1:4711:0] ib_log.c:246 UCX ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. "
            "Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)",
            "https://github.com/openucx/ucx/issues/8746",
        ),
        ("NCCL WARN Call to ibv_create_qp failed", "https://github.com/NVIDIA/nccl/issues/562"),
    ),
    "ib-not-used": (
        ("node1:10:10 [0] NCCL INFO NET/IB : No device found.", "https://github.com/NVIDIA/nccl/issues/1105"),
    ),
    "nvls-bind": (
        (
            "transport/nvls.cc:152 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid argument'",
            "NCCL 2.21, source",
        ),
    ),
    "nvls-conflict": (
        (
            'NCCL WARN NCCL_NVLS_ENABLE has been set to "1" and communicator has multiple ranks using the same '
            "NVML device. This is not compatible",
            "NCCL 2.30, source",
        ),
    ),
    "efa-error": (
        (
            "node1:10:99 [3] ofi_process_cq:96 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113. Error: Host unreachable",
            "aws-ofi-nccl, documented",
        ),
        (
            "infiniband efa_0: Failed to process command ALLOC_PD (opcode 14) comp_status 1 err -12",
            "https://github.com/aws/aws-ofi-nccl/issues/22",
        ),
        (
            "host:8716:9558 [7] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: "
            "-22, ERROR: Invalid argument",
            "https://github.com/aws/aws-ofi-nccl/issues/24",
        ),
    ),
    "nccl-topology": (
        ("graph/xml.cc:321 NCCL WARN Could not open XML topology file /etc/topo.xml", "NCCL 2.21, source"),
        ("node1:10:99 [3] NCCL WARN Could not find NET with id 0", "NCCL 2.21, source"),
        (
            "h:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of "
            "/sys/class/pci_bus/0000:00/../../0000:00:01.0",
            "NCCL 2.8, source",
        ),
    ),
    "nccl-nets-differ": (
        (
            "NCCL WARN Detected mixed local Net device counts across ranks",
            "NCCL 2.30, source",
        ),
        (
            "NCCL WARN NET/IB : Attempted to connect incompatible devices: IB to RoCE",
            "NCCL 2.30, source",
        ),
        (
            "NCCL WARN NET/IB : Incompatible link layers",
            "NCCL 2.30, source",
        ),
    ),
    "nccl-net-not-found": (
        (
            "NCCL WARN Error: network AWS Libfabric not found.",
            "NCCL 2.19, source",
        ),
        (
            "NCCL WARN Failed to initialize any NET plugin",
            "NCCL 2.30, source",
        ),
    ),
    "p2p-disabled": (
        (
            "NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the "
            "case given their connectivity, and is probably due to a hardware issue. If you still want "
            "to proceed, you can set NCCL_IGNORE_DISABLED_P2P=1.",
            "NCCL 2.19, source",
        ),
        (
            "NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
            "RCCL 2.18, source",
        ),
    ),
    "imex": (
        (
            "NCCL WARN MNNVL: cluster is not available: failed to get fabric info",
            "NCCL 2.30, source",
        ),
        (
            "NCCL WARN IMEX channel not found",
            "NCCL 2.30, source",
        ),
        (
            "NCCL WARN cuMemImportFromShareableHandle failed : operation not permitted",
            "NCCL 2.30, source",
        ),
        (
            "open /dev/nvidia-caps-imex-channels/channel0: no such file or directory",
            "nvidia-container-toolkit 1.16, documented",
        ),
    ),
    "nccl-warning": (
        (
            "node1:10:99 [3] init.cc:99 NCCL WARN something that no entry knows",
            "NCCL 2.20, source",
        ),
    ),
    "amd-iommu": (
        (
            'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
            "RCCL 2.18, source",
        ),
    ),
    "efa-missing": (
        (
            "libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list",
            "https://github.com/aws/aws-ofi-nccl/issues/889",
        ),
    ),
    "ib-device-refused": (
        (
            "node1:10:99 [3] transport/net_ib.cc:117 NCCL WARN NET/IB : Unable to open device mlx5_0",
            "NCCL 2.18, source",
        ),
    ),
}
