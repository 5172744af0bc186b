"""InfiniBand, RoCE, EFA and NVLink errors that NCCL reports."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="ib-retry",
        title="NET/IB : Got completion from peer ... status=12",
        patterns=(
            r"NET/IB ?: ?.*Got completion.*status=(?:IBV_WC_RETRY_EXC_ERR|12\b)",
            r"NET/IB ?: ?.*Got completion.*status=(?!(?:0|5|IBV_WC_WR_FLUSH_ERR)\b)\w+",
            r"NET/IB ?: ?.*Got completion.*with error (?![05]\b)\d+",
            r"Call to (?:wrap_)?ibv_poll_cq failed",
        ),
        cause="packets over InfiniBand or RoCE got no answer, while TCP works. Common reasons are a wrong GID index, a "
        "cable, routing or flow control. If the peer died first, this is a consequence",
        probe="on both nodes: show_gids; ibstat",
        fix="export NCCL_IB_GID_INDEX=3 (RoCE v2, the IPv4 row of show_gids) and the right NCCL_IB_HCA. To run without "
        "InfiniBand: NCCL_IB_DISABLE=1",
        link="https://github.com/NVIDIA/nccl/issues/426",
    ),
    Entry(
        id="ib-modify-qp",
        title="Call to ibv_modify_qp failed",
        patterns=(r"Call to (?:wrap_)?ibv_modify_qp failed",),
        cause="two InfiniBand or RoCE cards cannot connect. The subnets differ, the wrong card is selected, or the GID "
        "is wrong",
        probe="on each node: cat /sys/class/infiniband/*/ports/*/state; show_gids",
        fix="export NCCL_IB_HCA=CARD, with a card that is ACTIVE on all nodes, and NCCL_IB_GID_INDEX. Where cards reach only "
        "the card of the same number on other nodes (rails): NCCL_CROSS_NIC=0",
        link="https://github.com/NVIDIA/nccl/issues/925",
    ),
    Entry(
        id="memlock",
        title="Call to ibv_create_qp or ibv_reg_mr failed: Cannot allocate memory",
        doubtful=True,
        patterns=(
            r"set max locked memory \(ulimit -l\) to 'unlimited'",
            r"Call to (?:wrap_)?ibv_(?:create_qp|create_cq|reg_mr\w*) failed",
            r"ibv_reg_mr\w* failed",
        ),
        cause="the limit for locked memory (ulimit -l) is too small in the shell that started the ranks",
        probe="ulimit -l, started the same way (by ssh, srun, docker run)",
        fix="add `* - memlock unlimited` to /etc/security/limits.conf. For slurmd: LimitMEMLOCK=infinity; for docker: "
        "--ulimit memlock=-1",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="ib-not-used",
        title="NET/Socket instead of InfiniBand or EFA; a tenth of the bandwidth",
        kind="hint",
        patterns=(r"NET/IB : No device found",),
        cause="NCCL found no fast network and uses TCP, which is slow. The image lacks a plugin or /dev/infiniband, or "
        "NCCL_IB_DISABLE is set",
        probe="ls /dev/infiniband; env | grep NCCL_",
        fix="give the container the devices (docker run --device=/dev/infiniband), and install the network's NCCL "
        "plugin",
        link="https://github.com/NVIDIA/nccl/issues/1105",
    ),
    Entry(
        id="gdr-missing",
        title="Slow between nodes, and NCCL INFO shows no GDRDMA",
        cause="GPUs do not write to the network card directly. nvidia_peermem is not loaded, and DMA-BUF is not "
        "available",
        probe="lsmod | grep nvidia_peermem; NCCL_DEBUG=INFO shows `via NET/IB/0/GDRDMA`",
        fix="sudo modprobe nvidia_peermem",
        link="https://docs.nvidia.com/cuda/gpudirect-rdma/",
    ),
    Entry(
        id="imex",
        title="MNNVL; IMEX; cuMemImportFromShareableHandle failed",
        patterns=(
            r"\bMNNVL\b.*(?:[Ff]ailed|not (?:supported|available)|[Ee]rror|[Uu]nable)",
            r"\bIMEX\b.*(?:not|fail|unavailable|missing|[Ee]rror)",
            r"cuMemImportFromShareableHandle.*failed",
            r"nvidia-caps-imex-channels",
        ),
        cause="GPUs of several nodes share memory over NVLink (MNNVL), and the IMEX service does not permit "
        "it. The service does not run, or the container has no IMEX channel",
        probe="systemctl status nvidia-imex; ls /dev/nvidia-caps-imex-channels; nvidia-imex-ctl -N",
        fix="start nvidia-imex on all nodes of the NVLink domain, give the container "
        "/dev/nvidia-caps-imex-channels/channel0, or export NCCL_MNNVL_ENABLE=0",
        link="https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/",
    ),
    Entry(
        id="nvls-bind",
        title="Failed to bind NVLink SHARP (NVLS) Multicast memory",
        patterns=(
            r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory",
            r"transport/nvls\.cc:\d+ NCCL WARN",
        ),
        cause="NVLink SHARP is not available. nv-fabricmanager is not healthy or was restarted while the GPUs "
        "stayed up, or the container has no IMEX channel",
        probe="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -i -A3 fabric",
        fix="export NCCL_NVLS_ENABLE=0 as a workaround. To repair it, reset all GPUs of the node or reboot "
        "it: restarting nvidia-fabricmanager under running GPUs causes this",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-nvls-enable",
    ),
    Entry(
        id="nvls-conflict",
        title="NCCL_NVLS_ENABLE has been set, and ranks share one device",
        patterns=(r"NCCL_NVLS_ENABLE has been set to",),
        cause="NCCL_NVLS_ENABLE=1 does not work with several ranks on one GPU",
        probe="env | grep NCCL_",
        fix="unset NCCL_NVLS_ENABLE",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    Entry(
        id="efa-missing",
        title="fi_getinfo: provider efa output empty list",
        kind="hint",
        patterns=(r"fi_getinfo: provider efa output empty list",),
        explains=("efa-error", "nccl-net-not-found", "nccl-warning", "nccl-error"),
        cause="libfabric finds no EFA device that it can use in this process. The container has no /dev/infiniband, the "
        "instance has no EFA interface, or its driver is missing or too old",
        probe="on the host and in the container: ls /dev/infiniband; fi_info -p efa; ulimit -l",
        fix="pass the devices: docker run --device=/dev/infiniband --ulimit memlock=-1 (Kubernetes: "
        "vpc.amazonaws.com/efa: 1), with libfabric of the EFA installer in the image. Without EFA: --env "
        "NCCL_NET=Socket",
        link="https://github.com/aws/aws-ofi-nccl/issues/889",
    ),
    Entry(
        id="efa-error",
        title="NET/OFI ... Request completed with error; libfabric",
        patterns=(
            r"NCCL WARN NET/OFI Couldn't",
            r"NET/OFI (?P<what>.*(?:[Ee]rror|failed|Unable|[Uu]nexpected).*)",
            r"efa_\d+: Failed to (?:process command|allocate)",
        ),
        cause="libfabric, under NCCL's OFI plugin, could not send: on AWS EFA the security group, limits or "
        "versions; on HPE Slingshot (cxi) the provider, its limits or the fabric itself",
        probe="fi_info -p efa; fi_info -p cxi; ulimit -l",
        fix="EFA: allow all traffic within the security group, set ulimit -l unlimited, update aws-ofi-nccl. "
        "Slingshot: load the site's aws-ofi-nccl module, and set FI_CXI_RX_MATCH_MODE=software and "
        "FI_MR_CACHE_MONITOR=userfaultfd. To test: NCCL_NET=Socket",
        link="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html",
    ),
    Entry(
        id="p2p-hang",
        title="GPUs at 100 %, NCCL prints Init COMPLETE, and training does not proceed",
        cause="GPUs cannot access each other's memory over PCIe. ACS or the IOMMU is on, or the boards do not support "
        "it",
        probe="sudo lspci -vvv | grep ACSCtl: `SrcValid+` means that ACS is on",
        fix="export NCCL_P2P_DISABLE=1. For a permanent fix, disable ACS (setpci) and add iommu=pt to the kernel "
        "command line",
        link="https://github.com/NVIDIA/nccl/issues/2079",
    ),
    Entry(
        id="nccl-nets-differ",
        title="Detected mixed local Net device counts; Attempted to connect incompatible devices",
        patterns=(
            r"Detected mixed local Net device counts",
            r"[Aa]ttempted to connect incompatible devices",
            r"NET/IB : Incompatible link layers",
        ),
        cause="the ranks see different network cards: another number of them, or InfiniBand on one node and "
        "RoCE on another. A container without /dev/infiniband, or NCCL_IB_HCA, hides some",
        probe="on each node: ls /dev/infiniband /sys/class/infiniband; env | grep NCCL_IB",
        fix="give all containers the same devices, and set one NCCL_IB_HCA that exists on every node. To run "
        "without InfiniBand: NCCL_IB_DISABLE=1",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-hca",
    ),
    Entry(
        id="nccl-net-not-found",
        title="NCCL WARN Error: network IB not found",
        patterns=(
            r"network (?P<net>[\w ]+) not found",
            r"Failed to initialize any NET plugin",
        ),
        cause="NCCL_NET selects the network {net|of a plugin}, and it is not available in this process: its "
        "plugin or its devices are missing",
        probe="env | grep NCCL_NET; ls /dev/infiniband; ldconfig -p | grep nccl-net",
        fix="unset NCCL_NET and NCCL_NET_PLUGIN, or install the plugin and pass the devices to the container",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-net",
    ),
    Entry(
        id="amd-iommu",
        title='NCCL WARN Missing "iommu=pt" from kernel command line',
        kind="hint",
        patterns=(r"Missing \"iommu=pt\" from kernel command line",),
        explains=("collective-timeout", "watchdog-stuck"),
        cause="the kernel of this node was started without iommu=pt. Copies between AMD GPUs can then be slow, fail or "
        "hang",
        probe="cat /proc/cmdline; rocm-smi --showtopo; sudo dmesg -T | grep -i -E 'iommu|amdgpu'",
        fix="as administrator: add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, run `update-grub`, and reboot. "
        "Until then: --env NCCL_P2P_DISABLE=1",
        link="https://rocm.docs.amd.com/en/latest/how-to/system-optimization/index.html",
    ),
    Entry(
        id="p2p-disabled",
        title="P2P is disabled between NVLINK connected GPUs",
        kind="hint",
        patterns=(
            r"P2P is disabled between NVLINK connected GPUs",
            r"NUMA auto balancing (?:is )?enabled",
        ),
        explains=(
            "collective-timeout",
            "watchdog-stuck",
        ),
        cause="GPUs of this node that share a link cannot use it: the driver or the hardware disabled peer "
        "access, or the kernel's settings slow it down",
        probe="nvidia-smi topo -p2p r; nvidia-smi nvlink -s; cat /proc/cmdline",
        fix="reset the GPUs or reboot the node; if it stays, report it",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="ib-device-refused",
        title="NCCL WARN NET/IB : Unable to open device mlx5_0",
        kind="hint",
        patterns=(r"NET/IB ?: Unable to open device (?P<device>\w+)",),
        explains=("ib-not-used", "nccl-warning", "nccl-network-differs", "nccl-net-not-found"),
        cause="NCCL sees the network adapter {device} and cannot open it. In a container its device files are missing, or "
        "this user may not use them. NCCL continues with sockets, which are slow",
        probe="the same way: ls -l /dev/infiniband; ibv_devinfo",
        fix="docker: --device=/dev/infiniband --cap-add=IPC_LOCK; Kubernetes: request the RDMA device of the plugin. Or as "
        "administrator: permissions of /dev/infiniband/uverbs*",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nccl-topology",
        title="NCCL WARN Could not find a path / Failed to find NET; NCCL_TOPO_FILE",
        patterns=(
            r"Could not find NET with id \d+",
            r"Could not open XML topology file",
            r"Could not find real path of /sys(?!/class/net/)",  # a virtual interface has no device
        ),
        cause="NCCL's topology does not match the machine. The topology file is of another machine, or a virtual "
        "machine hides PCI",
        probe="env | grep NCCL_TOPO; nvidia-smi topo -m",
        fix="unset NCCL_TOPO_FILE, or use the file that the cloud provides for this machine type",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-topo-file",
    ),
    Entry(
        id="nccl-warning",
        title="NCCL WARN ...",
        kind="hint",
        explains=(
            "nccl-error",
            "nccl-proxy-lost",
        ),
        patterns=(r"(?:NCCL) WARN (?P<warning>(?!\[(?:Service thread|Proxy Service)).+)",),
        cause="NCCL reported: {warning}",
        probe="the lines of NCCL around it; repeat with NCCL_DEBUG=INFO",
        fix="search for this text in the issues of NVIDIA/nccl",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
)
