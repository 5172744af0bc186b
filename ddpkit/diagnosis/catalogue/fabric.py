"""InfiniBand, RoCE, EFA and NVLink errors that NCCL reports."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="ib-retry",
        title="NET/IB : Got completion from peer ... status=12",
        patterns=(
            # 2, 4 and 8 to 11: see ib-protection; 5: see ib-flushed.
            r"NET/IB\w* ?: ?.*Got completion(?: from peer (?P<peer>[^\s<]+)<\d+>)?.*status=(?:IBV_WC_RETRY_EXC_ERR|12\b)",
            r"NET/IB\w* ?: ?.*Got completion(?: from peer (?P<peer>[^\s<]+)<\d+>)?.*status=(?!(?:0|2|4|5|8|9|10|11|IBV_WC_(?:WR_FLUSH|LOC_PROT|LOC_QP_OP|LOC_ACCESS|REM_INV_REQ|REM_ACCESS|REM_OP)_ERR)\b)\w+",
            r"NET/IB\w* ?: ?.*Got completion(?: from peer (?P<peer>[^\s<]+)<\d+>)?.*with error (?!(?:[024589]|10|11)\b)\d+",
            r"Call to (?:wrap_)?ibv_poll_cq failed",
            r"\ba work item failed: status 12\b",  # MSCCL++
        ),
        explains=("aborted", "uncaught-exception"),
        cause="packets over InfiniBand or RoCE[ to {peer}] got no answer, while TCP works. Common reasons are a wrong GID "
        "index, a cable, routing or flow control, at either end. If the peer died first, this is a consequence",
        probe="on both nodes: show_gids; ibstat; perfquery -x; ib_write_bw (package perftest) between the two cards",
        fix="export the right NCCL_IB_HCA. RoCE: NCCL_IB_GID_INDEX of the row of show_gids with v2 and the card's IPv4 "
        "address, often 3. If these are right, report both ports and their cables. To run without InfiniBand: "
        "NCCL_IB_DISABLE=1",
        action="exclude",
        reason="the network adapter of the host gets no answer",
        link="https://github.com/NVIDIA/nccl/issues/426",
    ),
    Entry(
        id="ib-modify-qp",
        title="Call to ibv_modify_qp failed",
        patterns=(
            r"(?:Call to (?:wrap_)?)?\bibv_modify_qp failed(?: with (?:error )?(?:\d+ )?(?P<reason>[A-Z][A-Za-z ]+))?",
            r"\bibv_create_ah\(.*\) for .*failed: (?P<reason>[A-Z][A-Za-z ]+)",
            r"Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: (?P<reason>[A-Z][a-z]+(?: [a-z]+)*)",
        ),
        explains=("ucx-error", "nixl-error", "mooncake-transfer"),
        branches=(
            ("far", r"ibv_modify_qp failed.*(?:timed out|unreachable)"),
            ("device", r"ibv_modify_qp failed.*No such device"),
        ),
        cause="two InfiniBand or RoCE cards cannot connect[ ({reason})]. {far? Timed out or unreachable: they are in different "
        "subnets or rails. }{device? No such device: the container lacks the card's network interface. }Otherwise the wrong card "
        "is selected, or the GID is wrong",
        probe="on each node: cat /sys/class/infiniband/*/ports/*/state; show_gids",
        fix="set NCCL_IB_HCA to a card that is ACTIVE on all nodes, and NCCL_IB_GID_INDEX. {far? Where cards reach only "
        "the card of the same number on other nodes (rails): NCCL_CROSS_NIC=0. }{device? Containers: --network=host, or the interface of RDMA in the pod. }",
        action="exclude",
        reason="the network adapter of the host cannot connect",
        link="https://github.com/NVIDIA/nccl/issues/925",
    ),
    Entry(
        id="memlock",
        title="Call to ibv_create_qp or ibv_reg_mr failed: Cannot allocate memory",
        doubtful=True,
        patterns=(
            r"set max locked memory \(ulimit -l\) to 'unlimited'",
            r"locked memory\. +This typically can indicate that the",
            r"Call to (?:wrap_)?ibv_(?:create_qp|create_cq|reg_mr\w*) failed",
            r"ibv_reg_mr\w* failed",
            r"\befa:(?:mr|cq|ep_ctrl):.*: Cannot allocate memory",
            r"NET/OFI Couldn't (?:open CQ|enable endpoint)\. RC: -12\b",
            r"EFA internal error: \(4112\)",
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
        overcome_by=r"NET/Socket : Using \[0\]lo:127\.|\bnNodes 1 localRanks\b",
        patterns=(r"NET/IB : No device found",),
        cause="NCCL found no InfiniBand card and uses TCP. Hosts without such cards or EFA are always so. With them it is slow: the "
        "image lacks a plugin or /dev/infiniband, or NCCL_IB_DISABLE is set",
        probe="ls /dev/infiniband; env | grep NCCL_",
        fix="give the container the devices (docker run --device=/dev/infiniband), and install the network's NCCL "
        "plugin",
        link="https://github.com/NVIDIA/nccl/issues/1105",
    ),
    Entry(
        id="nccl-over-tcp",
        title="NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        kind="hint",
        patterns=(r"NCCL INFO Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via NET/Socket/\d",),
        cause="NCCL sends between the nodes with TCP. That is slow for training, and right only where the nodes have no "
        "InfiniBand, RoCE or EFA",
        probe="ls /dev/infiniband; env | grep NCCL_; NCCL_DEBUG=INFO shows `NET/IB : Using` or `NET/OFI` where it is fast",
        fix="where the nodes have a fast network: unset NCCL_IB_DISABLE and NCCL_NET, give the container /dev/infiniband, and "
        "install the network's NCCL plugin. With Ethernet alone: select the fastest interface with NCCL_SOCKET_IFNAME",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-disable",
    ),
    Entry(
        id="gdr-missing",
        doubtful=True,
        title="Slow between nodes, and NCCL INFO shows no GDRDMA; Call to ibv_reg_mr_iova2 failed with error Bad address",
        patterns=(
            r"Call to (?:wrap_)?ibv_reg_\w+ failed with (?:error )?(?:\d+ )?(?:Bad address|Invalid argument|Operation not supported)",
            r"ibv_reg_(?:dmabuf_)?mr\(.*failed: (?:Bad address|Invalid argument|Operation not supported)",
        ),
        explains=("memlock", "nccl-warning", "nccl-error"),
        cause="the network card cannot access the memory of the GPU directly (GPUDirect RDMA). The module nvidia_peermem is "
        "not loaded, or DMA-BUF is not available in this kernel, driver or card. Or the GPU is a GeForce",
        probe="lsmod | grep nvidia_peermem; NCCL_DEBUG=INFO shows `via NET/IB/0/GDRDMA`",
        fix="sudo modprobe nvidia_peermem, on all nodes. Until then, against an error: export NCCL_DMABUF_ENABLE=0, and if "
        "that is not enough, NCCL_NET_GDR_LEVEL=LOC",
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
            r"transport/nvls\.cc:\d+ (?:\(\w+\) )?NCCL WARN",
        ),
        explains=("cuda-init-failed", "nccl-cuda-failure", "cuda-unknown-error"),
        cause="NVLink SHARP is not available. nv-fabricmanager is not healthy or was restarted while the GPUs "
        "stayed up. Or the container has no IMEX channel, or the driver is older than the image's CUDA",
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
        patterns=(
            r"fi_getinfo: provider efa output empty list",
            r"NET/OFI (?:OFI )?fi_getinfo\(\) call failed: No data",
            r"NET/OFI Only EFA provider is supported",
            r"NET/OFI Could(?: not|n't) find any optimal provider",
            r"NET/OFI Unable to find a protocol that worked",
            r"NET/OFI Initializing plugin failed",
            r"NET/OFI aws-ofi-nccl initialization failed",
        ),
        explains=("efa-error", "nccl-net-not-found", "nccl-warning", "nccl-error"),
        cause="libfabric finds no EFA device that it can use in this process, and NCCL does not use the OFI plugin. The "
        "container has no /dev/infiniband, the instance has no EFA interface, or its driver is missing or too old. NCCL "
        "continues with sockets, which are slow between nodes",
        probe="on the host and in the container: ls /dev/infiniband; fi_info -p efa; ulimit -l",
        fix="pass the devices: docker run --device=/dev/infiniband --ulimit memlock=-1 (Kubernetes: "
        "vpc.amazonaws.com/efa: 1), with libfabric of the EFA installer in the image. Without EFA, on one node, nothing is "
        "to do; NCCL_NET=Socket omits the plugin",
        link="https://github.com/aws/aws-ofi-nccl/issues/889",
    ),
    Entry(
        id="efa-error",
        title="NET/OFI ... Request completed with error; libfabric",
        patterns=(
            r"NCCL WARN NET/OFI Couldn't",
            r"NET/OFI (?P<what>.*(?:[Ee]rror|failed|Unable|[Uu]nexpected).*)",
            r"efa_\d+: Failed to (?:process command|allocate)",
            r"Unable to write to EQ: .* prov_errno: (?P<what>.*)",
        ),
        branches=(
            ("efa", r"[Pp]rovider is efa|\befa_\d|\bprov/efa/|:efa:|\bEFA "),
            ("cxi", r"[Pp]rovider is cxi|:cxi:|\bcxi\d\b|\bcxi[lp]_"),
        ),
        cause="libfabric, under NCCL's OFI plugin, failed. {efa? On AWS EFA, the security group, limits or versions are wrong. }"
        "{cxi? On HPE Slingshot, the cxi provider, its limits or the fabric are wrong. }If the other rank ended first, this "
        "is a consequence",
        probe="{efa? fi_info -p efa; }{cxi? fi_info -p cxi; }ulimit -l",
        fix="{efa? EFA: allow all traffic within the security group, set ulimit -l unlimited, update aws-ofi-nccl. }"
        "{cxi? Slingshot: load the site's aws-ofi-nccl module, and set FI_CXI_RX_MATCH_MODE=software and "
        "FI_MR_CACHE_MONITOR=userfaultfd. }To test: NCCL_NET=Socket",
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
        patterns=(
            r"Missing \"(?P<setting>[\w=]+)\" from kernel command line",
            r"Missing \"(?P<setting>[\w=]+)\" from environment",
        ),
        explains=("collective-timeout", "watchdog-stuck", "nccl-warning", "cuda-ipc"),
        cause="this node has no {setting|iommu=pt}, which RCCL advises. Copies between AMD GPUs can then be slow, fail or "
        "hang",
        probe="cat /proc/cmdline; rocm-smi --showtopo; sudo dmesg -T | grep -i -E 'iommu|amdgpu'",
        fix="iommu=pt, as administrator: add it to GRUB_CMDLINE_LINUX in /etc/default/grub, run `update-grub`, and reboot; "
        "until then: export NCCL_P2P_DISABLE=1. Also export HSA_FORCE_FINE_GRAIN_PCIE=1",
        link="https://rocm.docs.amd.com/en/latest/how-to/system-optimization/index.html",
    ),
    Entry(
        id="p2p-disabled",
        title="P2P is disabled between NVLINK connected GPUs",
        kind="hint",
        patterns=(r"P2P is disabled between NVLINK connected GPUs",),
        explains=(
            "collective-timeout",
            "watchdog-stuck",
        ),
        cause="GPUs of this node that share a link cannot use it: the driver or the hardware disabled peer access",
        probe="nvidia-smi topo -p2p r; nvidia-smi nvlink -s; cat /proc/cmdline",
        fix="reset the GPUs or reboot the node; if it stays, report it",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="ib-device-refused",
        title="NCCL WARN NET/IB : Unable to open device mlx5_0",
        kind="hint",
        patterns=(
            r"NET/IB ?: Unable to open device (?P<device>\w+)",
            r"Call to (?:wrap_)?ibv_open_device failed",
        ),
        explains=("ib-not-used", "nccl-warning", "nccl-network-differs", "nccl-net-not-found"),
        cause="NCCL sees a network adapter[, {device},] and cannot open it. In a container its device files are missing, or "
        "this user may not use them. NCCL continues with other adapters, or else with sockets, which are slow",
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
            r"Failed to find reverse path from remNode",
            r"XML Import Channel : [Dd]ev \d+ not found",
            r"NCCL WARN Dev \d+ not found",
            r"Attribute \w+ of node \w+ not found",
            r"could not find CPU close to GPU \d+",
        ),
        cause="NCCL's topology does not match the machine. The topology file or NCCL_GRAPH_FILE is of another machine, or a "
        "virtual machine, WSL or a container hides PCI",
        probe="env | grep -E 'NCCL_(TOPO|GRAPH)'; cat /etc/nccl.conf ~/.nccl.conf; nvidia-smi topo -m",
        fix="unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE, also in nccl.conf, or use the file that the cloud provides for this "
        "machine type. Otherwise update NCCL or RCCL (of `NET with id`, 2.26 has an error)",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-topo-file",
    ),
    Entry(
        id="ib-protection",
        title="NET/IB : Got completion from peer ... with error 4; IBV_WC_LOC_PROT_ERR, IBV_WC_REM_ACCESS_ERR",
        patterns=(
            r"NET/IB\w* ?: ?.*Got completion(?: from peer (?P<peer>[^\s<]+)<\d+>)?.*status=(?:2|4|8|9|10|11|IBV_WC_(?:LOC_PROT|LOC_QP_OP|LOC_ACCESS|REM_INV_REQ|REM_ACCESS|REM_OP)_ERR)\b",
            r"NET/IB\w* ?: ?.*Got completion(?: from peer (?P<peer>[^\s<]+)<\d+>)?.*with error (?:2|4|8|9|10|11)\b",
            r"NET/IB ?: (?:(?P<card>[\w.]+:\d+) )?.*async (?:fatal )?event.*: (?P<event>local access violation|invalid request)(?: local)? work queue error",
            r"UCX +ERROR (?:Local protection|Remote access) on (?P<card>\w+:\d+)",
        ),
        explains=("nccl-warning", "nccl-error", "ib-flushed", "ib-link-lost"),
        cause="a network card[, in the connection with {peer},] may not read or write memory of a GPU[ ({event})]. GPUDirect RDMA fails: "
        "PCIe ACS or the IOMMU redirects its accesses, or a virtual machine does not support it. Rarely, this release of NCCL, RCCL "
        "or its plugin asks for an access that it did not register",
        probe="sudo lspci -vvv | grep ACSCtl: `SrcValid+` means that ACS is on; repeat with NCCL_NET_GDR_LEVEL=LOC",
        fix="as administrator: disable ACS on all PCIe bridges (setpci, or in the BIOS), and start the kernel with "
        "iommu=pt. Until then: export NCCL_NET_GDR_LEVEL=LOC, which copies through the host's memory. If ACS and the IOMMU are "
        "off, use another release of NCCL or its plugin",
        link="https://github.com/NVIDIA/nccl/issues/928",
    ),
    Entry(
        id="ib-flushed",
        title="NET/IB : Got completion from peer ... with error 5, vendor err 249; IBV_WC_WR_FLUSH_ERR",
        kind="consequence",
        patterns=(r"Got completion from peer (?P<peer>[^\s<]+)<\d+> .*(?:error |status=)(?:5|IBV_WC_WR_FLUSH_ERR)\b",),
        explains=("nccl-warning", "nccl-error", "nccl-remote"),
        cause="the InfiniBand connection with {peer} was closed, and its requests were dropped. An error on it came before, "
        "or the rank there ended",
        probe="the first line about this peer; the log of {peer}",
        fix="read the first error of this connection on both hosts, and the log of the rank that ended first",
        link="https://github.com/NVIDIA/nccl/issues/1405",
    ),
    Entry(
        id="nic-link-down",
        title="mlx5_core ... Link down; NIC Link is Down; bond0: link status definitely down",
        kind="hint",
        patterns=(
            r"mlx5_core (?P<device>[0-9a-f:.]+)(?: \S+)?: .*\bLink down",
            r"(?P<device>\S+): NIC Link is Down",
            r"\(slave (?P<device>\S+)\): link status definitely down",
            r"NETDEV WATCHDOG: (?P<device>\S+) .*timed out",
        ),
        explains=(
            "ib-retry",
            "ib-flushed",
            "connection-timed-out",
            "peer-died",
            "store-lost",
            "collective-timeout",
            "firewall-reject",
        ),
        cause="the kernel reports that the network adapter {device} lost its link, or that it does not send. After a start of "
        "the node, this is normal for a moment",
        probe="on that node: dmesg -T | grep -i -E 'link|watchdog'; ip -br link; ibstat; ethtool INTERFACE",
        fix="check the cable, its transceiver and the port of the switch. If the link goes down again, drain the node",
        link="https://support.crusoecloud.com/hc/en-us/articles/49813147324187-How-To-Diagnose-InfiniBand-NIC-Issues-for-NCCL-Initialization-Hangs",
    ),
    Entry(
        id="sharp-not-used",
        title="SHARP coll init error: Cannot create SHARP job; Cannot initialize CollNet",
        kind="hint",
        patterns=(
            r"SHARP (?:coll init error|group create): (?P<reason>.+)",
            r"Cannot initialize CollNet, using point-to-point network instead",
            r"CollNet is not supported or fails to initialize, ignoring NCCL_ALGO",
            r"\bERROR sharp_get_local_data failed",
            r"\bERROR Failed to lock SAT tree",
        ),
        explains=("nccl-warning", "nccl-error"),
        cause="the InfiniBand switches do not reduce for this job (SHARP)[: {reason}]. Its service sharp_am does not run, has "
        "no free resources, or does not know these ports. NCCL continues without it",
        probe="env | grep -E 'NCCL_(COLLNET|ALGO)|SHARP'; on the host of the subnet manager: systemctl status sharp_am",
        fix="unset NCCL_COLLNET_ENABLE and NCCL_ALGO=CollNet, or ask the administrators to offer SHARP to the job",
        link="https://github.com/NVIDIA/nccl/issues/1050",
    ),
    Entry(
        id="ucx-cuda-context",
        title="UCX ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context",
        patterns=(r"\bUCX +ERROR cu\w+\(.*: ?invalid device context",),
        explains=("io-error", "segfault"),
        cause="UCX, under MPI, got a buffer of the GPU in a thread without a CUDA context. torch's backend `mpi` sends from "
        "such a thread",
        probe="ucx_info -d | grep -i cuda; in the script: the backend of init_process_group",
        fix="use the backend nccl in place of mpi. To keep mpi, send tensors of the CPU, or use an Open MPI and UCX without "
        "CUDA: export UCX_TLS=^cuda",
        link="https://github.com/pytorch/pytorch/issues/31528",
    ),
    Entry(
        id="ucx-device-missing",
        title="network device 'mlx5_9:1' is not available, please use one or more of",
        kind="hint",
        patterns=(r"network device '(?P<device>[^']+)' is not available, please use one or more of: (?P<others>.+)",),
        cause="UCX_NET_DEVICES selects {device}, and this node has no such device. It has: {others}",
        probe="ucx_info -d | grep Device; env | grep UCX_",
        fix="unset UCX_NET_DEVICES, or set it to a device that all nodes have",
        link="https://openucx.readthedocs.io/en/master/faq.html",
    ),
    Entry(
        id="libfabric-too-old",
        title="libfabric.so.1: version `FABRIC_1.7' not found",
        kind="hint",
        patterns=(r"version .FABRIC_[\d.]+' not found",),
        explains=("ib-not-used", "nccl-net-not-found", "nccl-warning"),
        cause="NCCL's OFI plugin was built for a newer libfabric than the one that is loaded. NCCL continues without the plugin: "
        "with InfiniBand of its own, or with sockets, which are slow",
        probe="fi_info --version; ldconfig -p | grep libfabric; echo $LD_LIBRARY_PATH",
        fix="install libfabric (on AWS the EFA installer) and aws-ofi-nccl of one release, and remove an older copy of conda or "
        "pip from LD_LIBRARY_PATH",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/292",
    ),
    Entry(
        id="nvshmem-no-transport",
        title="nvshmemi_transport_init: init failed for transport: IBGDA; nvshmem detect topo failed",
        patterns=(
            r"nvshmemi_transport_init:\d+: (?P<reason>init failed for transport: \w+|Unable to initialize any transports)",
            r"NULL value (?P<reason>cannot allocate mlx5dv_devx_uar)",
            r"non-zero status: \d+,? (?P<reason>nvshmem (?:detect topo|setup connections) failed)",
            r"\bneither nv_peer_mem,? n?or nvidia_peermem detected",
            r"\bibgda\.cpp:\d+: (?:NULL value|non-zero status: \d+) (?P<reason>\w[\w ]+\w)",
            r"\bnvshmem initialization failed, exiting",
            r"(?i)\bnvshmem API called before nvshmem(?:_init| initialization)",
        ),
        cause="NVSHMEM, under DeepEP or another library for experts, cannot use the network[ ({reason})]. With IBGDA the GPU drives "
        "the card itself: this needs a Mellanox card, options of the NVIDIA driver, and a privileged container",
        probe="grep -E 'StreamMemOPs|RegistryDwords' /proc/driver/nvidia/params; ibv_devinfo; nvidia-smi topo -m",
        fix='load the NVIDIA driver with NVreg_EnableStreamMemOPs=1 and NVreg_RegistryDwords="PeerMappingOverride=1;", '
        "load nvidia-peermem (modprobe), start the container with --privileged, or do without IBGDA: NVSHMEM_IB_ENABLE_IBGDA=0",
        link="https://github.com/deepseek-ai/DeepEP/issues/55",
    ),
    Entry(
        id="numa-balancing",
        title="NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance",
        kind="hint",
        patterns=(r"NUMA auto balancing (?:is )?enabled",),
        cause="the kernel moves memory between NUMA nodes, which makes RCCL slower at times. Nothing fails by it",
        probe="cat /proc/sys/kernel/numa_balancing",
        fix="as administrator: sudo sysctl kernel.numa_balancing=0",
        link="https://rocm.docs.amd.com/en/latest/how-to/system-optimization/index.html",
    ),
    Entry(
        id="ompi-ofi-abort",
        title="The Open MPI OFI MTL is aborting the MPI job; BTL OFI will now abort",
        kind="generic",
        patterns=(
            r"The Open MPI OFI MTL is aborting the MPI job",
            r"\bBTL OFI will now abort",
        ),
        context=r"fi_cq_readerr: (?P<reason>[A-Z][^(]*\(\d+\))",
        explains=("aborted", "segfault"),
        cause="Open MPI ended this rank, as libfabric reported an error[: {reason}]. Its provider does not fit the network card "
        "or this Open MPI, or another rank had ended",
        probe="fi_info; ompi_info | grep -i ofi; repeat with FI_LOG_LEVEL=warn",
        fix="test without libfabric: mpirun --mca mtl ^ofi --mca btl ^ofi --mca pml ob1. Or select a provider: FI_PROVIDER=tcp",
        link="https://github.com/NVIDIA/nccl-tests/issues/295",
    ),
    Entry(
        id="roce-gid-unreadable",
        title="NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
        patterns=(r"NET/IB: (?:open|read) failed in ncclIbRoceGetVersionNum(?:: (?P<reason>.*\S))?",),
        explains=("nccl-error", "nccl-warning", "nccl-proxy-lost"),
        cause="NCCL looked for the RoCE address (GID) of a network card, and could not read one of the card's table[: {reason}]. "
        "In a pod or container, the card lists GIDs of interfaces that are not inside",
        probe="in the container: show_gids; cat /sys/class/infiniband/*/ports/1/gid_attrs/types/* 2>&1",
        fix="update NCCL to 2.26, which skips such GIDs. Until then export NCCL_IB_GID_INDEX=N, with the RoCE v2 GID that "
        "show_gids lists, or run with the host's network (docker: --network=host; Kubernetes: hostNetwork)",
        link="https://github.com/NVIDIA/nccl/issues/1573",
    ),
    Entry(
        id="nixl-error",
        title="nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND; nixlRemoteDisconnectError",
        patterns=(
            r"\bnixl\._bindings\.nixl\w+: (?P<error>NIXL_ERR_\w+)",
            r"\bnixlBackendError\('(?P<error>NIXL_ERR_\w+)'\)",
        ),
        context=r"UCX +WARN +transports? (?P<missing>'[\w',]+') (?:are|is) not available",
        explains=("vllm-engine-failed",),
        cause="NIXL, which moves tensors between the processes, failed: {error}[. Its UCX has no {missing}]. Mostly UCX reaches no card, takes a "
        "wrong one, or was built without CUDA",
        probe="ucx_info -v; ucx_info -d | grep -E 'Transport|Device'; repeat with UCX_LOG_LEVEL=info",
        fix="name the cards of the GPUs: UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1, and give the container --network=host and /dev/infiniband. "
        "Where cuda_ipc or cuda_copy is missing, install nixl with a UCX that was built --with-cuda. To test: UCX_TLS=tcp,cuda_copy",
        link="https://github.com/LMCache/LMCache/issues/605",
    ),
    Entry(
        id="mooncake-memory",
        title="rdma_context.cpp: Failed to register memory 0x7b375b400000: Invalid argument [22]",
        patterns=(
            r"\bFailed to register memory 0x\w+: (?P<reason>[A-Z][a-z]+(?: [a-z]+)*)",
            r"RdmaTransport: Failed to register memory\b",
            r"Mooncake memory registration failed",
            r"DMA BUF support\w* required for GPU RDMA without nvidia-peermem",
        ),
        context=r"Failed to register memory 0x\w+: (?P<reason>[A-Z][a-z]+(?: [a-z]+)*)",
        cause="Mooncake could not give the network card access to this memory[ ({reason})]. For memory of a GPU, nvidia-peermem is not "
        "loaded or the card does not support it. Cannot allocate memory: the limit of locked memory is too small",
        probe="lsmod | grep -i peermem; ulimit -l; nvidia-smi topo -m",
        fix="sudo modprobe nvidia-peermem on the host, and start the container with --ulimit memlock=-1 --device=/dev/infiniband "
        "--privileged. Name only cards of the GPUs' network (--disaggregation-ib-device). To test: MC_FORCE_TCP=1",
        link="https://github.com/kvcache-ai/Mooncake/issues/281",
    ),
    Entry(
        id="mooncake-transfer",
        title="worker_pool.cpp: Worker: Process failed for slice ...: transport retry counter exceeded",
        patterns=(
            r"Process failed for slice \(.*local_nic: (?P<device>[\w.-]+), peer_nic: (?P<peer>[^,]+),.*\): (?P<reason>[\w ]+)",
            r"No suitable GID found on (?P<device>[\w.-]+)",
            r"RdmaTransport: No available RNIC",
        ),
        cause="Mooncake's transfer over RDMA failed[: {device} to {peer}][: {reason}]. The card has no usable address (GID), or the peer's "
        "card does not answer: another rail, a switch, or the peer ended first",
        probe="show_gids; on both hosts: ib_write_bw -d CARD -x GID between these two cards; the log of the peer",
        fix="name cards that reach each other (--disaggregation-ib-device), and MC_GID_INDEX=N, with the RoCE v2 GID that show_gids lists. If "
        "the peer ended first, see its log. To test: MC_FORCE_TCP=1",
        link="https://github.com/sgl-project/sglang/issues/21395",
    ),
    Entry(
        id="cxi-resources",
        title="LE resources not recovered during flow control; MPICH suspects a hang due to completion queue exhaustion",
        patterns=(
            r"(?P<reason>LE (?:resources not recovered|exhaustion)) during flow control",
            r"Flow control triggered due to (?P<reason>failure to append LE)",
            r"suspects a hang due to (?P<reason>completion queue exhaustion)",
        ),
        explains=("mpi-error", "nccl-error"),
        cause="the Slingshot card has no more room for messages that wait for this rank ({reason}). Many ranks sent to it "
        "before it asked for their messages",
        probe="env | grep FI_CXI; at which step, and with how many ranks for each card",
        fix="export FI_CXI_RX_MATCH_MODE=software FI_CXI_DEFAULT_CQ_SIZE=131072 for all ranks: libfabric then keeps the list in "
        "main memory",
        link="https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html",
    ),
    Entry(
        id="nccl-warning",
        title="NCCL WARN ...",
        kind="hint",
        explains=(
            "nccl-error",
            "nccl-proxy-lost",
        ),
        patterns=(
            r"(?:NCCL) WARN (?P<warning>(?!\[(?:Service thread|Proxy Service)|Socket recv failed while polling|Failed to open libibverbs).+)",
        ),
        cause="NCCL reported: {warning}",
        probe="the lines of NCCL around it; repeat with NCCL_DEBUG=INFO",
        fix="search for this text in the issues of NVIDIA/nccl (of RCCL: ROCm/rccl)",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Entry(
        id="nvshmem-bootstrap",
        title="nvshmemx_api.h:63: non-zero status: 7: Connection timed out, exiting",
        patterns=(r"\bnvshmemx_api\.h:\d+: non-zero status: \d+: (?P<reason>Connection (?:timed out|refused))",),
        explains=("nvshmem-no-transport",),
        cause="NVSHMEM's ranks did not reach each other over TCP at their start: {reason}. It chose an interface that the other "
        "nodes cannot reach, or another rank had ended",
        probe="ip -br addr; env | grep -E 'NVSHMEM|NCCL_SOCKET'; repeat with NVSHMEM_DEBUG=INFO",
        fix="name the interface: export NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=eth0 on all nodes, with one NVSHMEM release "
        "(nvshmem-info -a), and open the ports between the nodes",
        link="https://github.com/deepseek-ai/DeepEP/issues/150",
    ),
    Entry(
        id="cxi-map",
        doubtful=True,
        title="cxil_map: write error",
        patterns=(r"\bcxil_map: write error\b",),
        cause="libfabric could not register memory with the card of HPE Slingshot. With GPU memory, gdrcopy has such a fault; otherwise "
        "the node has no resources left for it",
        probe="grep -n 'cxil_map' of all ranks: one node, or all; fi_info -p cxi",
        fix="export FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD=0, which leaves gdrcopy out and makes small messages slower. If one node alone "
        "has it, exclude the node (srun --exclude=NODE) and report it",
        link="https://github.com/eth-cscs/cscs-docs/pull/161",
    ),
    Entry(
        id="efa-peer-gone",
        title="NET/OFI Request completed with error: Invalid receiver queue pair number (QPN)",
        kind="consequence",
        patterns=(
            r"NET/OFI .*\b(?:Invalid receiver queue pair number|Receiver connection aborted|Unresponsive receiver)\b"
            r"(?:.*\bPeer host id: (?P<peer>[\w-]+))?",
        ),
        explains=("efa-error", "nccl-warning", "nccl-error", "nccl-remote"),
        cause="the process of another rank[ on {peer}] has ended, or does not answer: its queue of the network is gone. Often its host "
        "or container had no more memory",
        probe="the end of that rank's log; in Kubernetes: kubectl describe pod, and its Last State (OOMKilled)",
        fix="read the log of the rank[ on {peer}] that ended first",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/312",
    ),
    Entry(
        id="ib-library-missing",
        title="Failed to open libibverbs.so[.1], and several hosts use sockets",
        kind="hint",
        hosts=2,
        patterns=(r"Failed to open libibverbs\.so",),
        needs=r"Using network Socket\b",
        explains=("no-libibverbs",),
        cause="NCCL found no libibverbs here and uses TCP between the hosts. With InfiniBand or RoCE cards, that is slow; with Ethernet "
        "alone, it is normal",
        probe="ls /sys/class/infiniband; ldconfig -p | grep ibverbs",
        fix="if the hosts have such cards: apt-get install libibverbs1 (rdma-core) in the image, and give the container "
        "/dev/infiniband",
        link="https://github.com/NVIDIA/nccl/issues/766",
    ),
    Entry(
        id="efa-no-memory",
        title="Unable to write to EQ: Missing or unavailable event queue. err: Unknown error -12",
        patterns=(
            r"Unable to write to EQ: .*\berr: [^()]*\(-?12\)",
            r"NET/OFI .*RC: -12, ERROR: Cannot allocate memory",
        ),
        explains=("efa-error", "nccl-warning", "nccl-error"),
        cause="the network provider of libfabric got no memory (error 12). Usually the limit for locked memory (ulimit -l) "
        "is too small there, or no huge pages are free. The event queue is not the reason",
        probe="on that host, inside the container: ulimit -l; grep -i huge /proc/meminfo; free -g",
        fix="docker run --ulimit memlock=-1:-1, or `* - memlock unlimited` in /etc/security/limits.conf and LimitMEMLOCK=infinity for slurmd. Huge pages: "
        "FI_EFA_USE_HUGE_PAGE=0, or reserve more",
        link="https://github.com/aws/aws-ofi-nccl/issues/107",
    ),
    Entry(
        id="slingshot-no-vni",
        title="cxip_nic_get_rgroup_vni(): Failed to find valid default rgroup and vni for cxi0",
        kind="hint",
        patterns=(r"Failed to find valid default rgroup and vni for (?P<device>\w+)",),
        explains=("efa-error", "nccl-warning", "nccl-error", "mpi-error"),
        cause="this process has no VNI, the number of a job's own network on HPE Slingshot, for {device}. The launcher set no SLINGSHOT_VNIS, "
        "and no service of the card is open to this user. So libfabric may not use the card",
        probe="inside the rank: env | grep SLINGSHOT_; cxi_service list -v",
        fix="start the ranks with srun (--network=job_vni,single_node_vni for one node), not by ssh. In a container, pass SLINGSHOT_* on. "
        "Or ask the administrators for a service for all users. To test: NCCL_NET=Socket",
        link="https://ofiwg.github.io/libfabric/main/man/fi_cxi.7.html",
    ),
)
