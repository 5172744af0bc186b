"""Printed texts of `ddpkit/diagnosis/catalogue/fabric.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "ib-retry": (
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
        (
            "node1:522:622 [2] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer node48<37948> with error 12, opcode 2, len 1, vendor err 129",
            "https://github.com/Lightning-AI/lit-llama/issues/380",
        ),
        (
            "NET/IBP:Got completion from peer 7.6.13.83<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)",
            "https://github.com/NVIDIA/nccl/issues/1664",
        ),
        (
            "terminate called after throwing an instance of 'mscclpp::IbError'\n  what():  a work item failed: status 12 (Ib failure: Cannot allocate memory)",
            "https://github.com/microsoft/mscclpp/issues/323",
        ),
    ),
    "ib-modify-qp": (
        (
            "misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
            "https://github.com/NVIDIA/nccl-tests/issues/185",
        ),
        (
            "[2026-03-13 22:26:02] host-01:1234:1300 [5] ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3",
            "https://github.com/NVIDIA/nccl/issues/2013",
        ),
        (
            "[1745563465.856286] [oneasia-gpu-node1:1617 :0]       ib_device.c:1332 UCX  ERROR   ibv_create_ah(dlid=49152 sl=0 port=1 src_path_bits=0 dgid=::ffff:10.1.1.2 flow_label=0xffffffff sgid_index=3 traffic_class=106) for UD mlx5 connect on mlx5_3 failed: Connection timed out",
            "https://github.com/ai-dynamo/dynamo/issues/814",
        ),
        (
            "E0701 10:00:04.000000 21 rdma_endpoint.cpp:1033] [Handshake] Failed to modify QP to RTR, check mtu, gid, peer lid, peer qp num: Connection timed out [110]",
            "https://github.com/sgl-project/sglang/pull/27730",
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
        (
            "libfabric:718890:1658904526::efa:mr:efa_mr_regattr():632<warn> Unable to register MR: Cannot allocate memory",
            "https://github.com/aws/aws-ofi-nccl/issues/141",
        ),
        (
            "node1:90:117 [0] create_nccl_ofi_component:496 NCCL WARN NET/OFI Couldn't enable endpoint. RC: -12, ERROR: Cannot "
            "allocate memory",
            "https://github.com/aws/aws-ofi-nccl/issues/44",
        ),
        (
            "EFA internal error: (4112) Failure to post internal receive buffers",
            "https://github.com/awslabs/awsome-distributed-ai/issues/647",
        ),
        (
            "allocate some locked memory.  This typically can indicate that the",
            "Open MPI, openib, documented",
        ),
    ),
    "ib-not-used": (
        ("node1:10:10 [0] NCCL INFO NET/IB : No device found.", "https://github.com/NVIDIA/nccl/issues/1105"),
    ),
    "nvls-bind": (
        (
            "gpu-worker-1:59:4087 [2] transport/nvls.cc:245 NCCL WARN Cuda failure 'initialization error'",
            "https://github.com/NVIDIA/nccl/issues/1029",
        ),
        (
            "transport/nvls.cc:152 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid argument'",
            "NCCL 2.21, source",
        ),
        (
            "[2026-06-23 15:45:07] gpu-stress-dgc86-xfpt6:420:437 [5] transport/nvls.cc:379 (nvlsAllocateMem) NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'",
            "https://github.com/NVIDIA/DCGM/issues/304",
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
        (
            "Unable to write to EQ: Missing or unavailable event queue. err: Input/output error (5) prov_errno: Unknown error 4123 (4123) prov/efa/src/efa_eq.c:31",
            "libfabric 1.22, unverified",
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
        (
            "Failed to find reverse path from remNode 0/200000 nlinks 3 to node 0/700000",
            "https://github.com/ROCm/rccl/issues/1728",
        ),
        (
            "h:1:2 [0] graph/search.cc:660 NCCL WARN XML Import Channel : dev 3 not found.",
            "NCCL 2.30, source",
        ),
        ("Attribute busid of node nic not found", "https://github.com/NVIDIA/nccl/issues/1247"),
        ("vm:10:99 [0] graph/search.cc:900 NCCL WARN Dev 3 not found", "https://github.com/NVIDIA/nccl/issues/1008"),
        (
            "ip-0AB85F07:24352:24369 [0] graph/paths.cc:155 NCCL WARN Error : could not find CPU close to GPU 0",
            "https://github.com/NVIDIA/nccl-tests/issues/41",
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
    "nvshmem-no-transport": (
        (
            "/opt/nvshmem/src/modules/transport/ibgda/ibgda.cpp:1889: NULL value cannot allocate mlx5dv_devx_uar",
            "https://github.com/sgl-project/sglang/issues/12533",
        ),
        (
            "/opt/nvshmem/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA",
            "https://github.com/deepseek-ai/DeepEP/issues/139",
        ),
        (
            "/opt/nvshmem/src/host/init/init.cu:989: non-zero status: 7 nvshmem detect topo failed",
            "https://github.com/deepseek-ai/DeepEP/issues/55",
        ),
        (
            "/opt/nvshmem/src/host/transport/transport.cpp:nvshmemi_transport_init:287: Unable to initialize any transports. "
            "returning error.",
            "https://github.com/deepseek-ai/DeepEP/issues/55",
        ),
        (
            "/sgl-workspace/nvshmem/src/modules/transport/ibgda/ibgda.cpp:nvshmemt_init:3626: neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.",
            "https://github.com/sgl-project/sglang/issues/6017",
        ),
        (
            "/root/nvshmem_src/src/modules/transport/ibgda/ibgda.cpp:3005: non-zero status: 7 ibgda_rc_init2rtr failed on RC #0.",
            "https://github.com/deepseek-ai/DeepEP/issues/17",
        ),
        (
            "/dvs/p4/build/sw/rel/gpgpu/toolkit/r13.0/main_nvshmem/src/modules/transport/ibgda/ibgda.cpp:2234: NULL value Unable to create ah.",
            "https://github.com/NVIDIA-NeMo/Megatron-Bridge/issues/5050",
        ),
        (
            "/sgl-workspace/nvshmem/src/host/init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
            "https://github.com/deepseek-ai/DeepEP/issues/223",
        ),
        (
            "error: nvshmem API called before nvshmem_init",
            "https://github.com/deepseek-ai/DeepEP/issues/133",
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
        (
            'g1072:1263988:1263988 [3] init.cpp:126 NCCL WARN Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low RCCL performance, system instablity or hang!',
            "https://github.com/ROCm/rccl/issues/1026",
        ),
    ),
    "efa-missing": (
        (
            "libfabric:85:1747438790::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty list",
            "https://github.com/aws/aws-ofi-nccl/issues/889",
        ),
        (
            "ip-172-31-3-90:1929:1937 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",
            "https://github.com/aws/aws-ofi-nccl/issues/1020",
        ),
        (
            "algo-1:249:249 [0] ofi_init:1288 NCCL WARN NET/OFI Only EFA provider is supported",
            "https://github.com/aws/aws-ofi-nccl/issues/174",
        ),
        (
            "algo-1:249:249 [0] ofi_init:1339 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
            "https://github.com/aws/aws-ofi-nccl/issues/174",
        ),
        (
            "ip-1:462:462 [0] get_ofi_provider:312 NCCL WARN NET/OFI Could not find any optimal provider",
            "https://github.com/NVIDIA/nccl/issues/229",
        ),
        (
            "nccl_net_ofi_create_plugin:261 NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.",
            "aws-ofi-nccl, unverified",
        ),
        ("nccl_net_ofi_init:134 NCCL WARN NET/OFI Initializing plugin failed", "aws-ofi-nccl, unverified"),
    ),
    "ib-device-refused": (
        (
            "node1:10:99 [3] transport/net_ib.cc:117 NCCL WARN NET/IB : Unable to open device mlx5_0",
            "NCCL 2.18, source",
        ),
        ("pod-1:20:88 [0] misc/ibvwrap.cc:120 NCCL WARN Call to ibv_open_device failed", "NCCL 2.30.7, source"),
    ),
    "ib-protection": (
        (
            "kolyoz2:25146:25854 [0] ib_plugin.c:1105 NCCL WARN NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode 5327",
            "https://github.com/NVIDIA/nccl-tests/issues/252",
        ),
        (
            "NCCL WARN NET/IB: Got completion from peer 10.0.0.2<51234> with status=IBV_WC_REM_ACCESS_ERR(10) opcode=IBV_WC_RDMA_WRITE(1) vendor_err=136",
            "NCCL 2.30.7, source",
        ),
        (
            "[1608237182.123456] [node1:31212:0] ib_mlx5_log.c:143  UCX  ERROR Local protection on mlx5_0:1/IB (synd 0x4 vend 0x33 hw_synd 0/0)",
            "UCX, unverified",
        ),
        (
            "node-0:139577:139678 [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_1:1 async fatal event on QP (0x7309dc3bb338): invalid request local work queue error",
            "https://github.com/NVIDIA/nccl/issues/1919",
        ),
        (
            "node201:127799:127863 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : local access violation work queue error",
            "https://github.com/NVIDIA/nccl/issues/1710",
        ),
        (
            "node023:10214:10303 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer 10.1.3.201<33057> with status=9 opcode=0 len=0 vendor err 138 (Send)",
            "https://github.com/NVIDIA/nccl/issues/1710",
        ),
        (
            "h100-28:238:1313 [0] transport/net_ib.cc:139 NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)\nh100-28:238:1219 [0] transport/net_ib.cc:180 NCCL WARN NET/IB : mlx5_ib0:1 async fatal event on QP (0x7f69f01519a8): local access violation work queue error",
            "https://github.com/NVIDIA/nccl/issues/1905",
        ),
    ),
    "ib-flushed": (
        (
            "node1:522:622 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.15.233<60403> with error 5, opcode 0, len 5384, vendor err 249 (Send)",
            "https://github.com/NVIDIA/nccl/issues/1405",
        ),
    ),
    "nccl-over-tcp": (
        (
            "dgxa100:1050:1315 [0] NCCL INFO Channel 03/0 : 0[90000] -> 1[1000] [send] via NET/Socket/3",
            "https://github.com/NVIDIA/nccl/issues/697",
        ),
    ),
    "gdr-missing": (
        (
            "[2025-10-13 10:12:54] h:1458548:1480527 [0] misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Invalid argument",
            "https://github.com/modelscope/ms-swift/issues/6107",
        ),
        (
            "misc/ibvwrap.cc:288 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            "https://github.com/NVIDIA/nccl/issues/778",
        ),
        ("ibv_reg_mr(gpu) failed: Bad address", "https://github.com/uccl-project/mKernel/issues/26"),
    ),
    "nic-link-down": (
        ("[ 100.000000] mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "Linux, unverified"),
        ("[ 100.000000] ixgbe 0000:01:00.0 eth0: NIC Link is Down", "Linux, unverified"),
        (
            "[ 100.000000] bond0: (slave eth1): link status definitely down, disabling slave",
            "Linux 6.1, source",
        ),
        (
            "[ 100.000000] NETDEV WATCHDOG: eth0 (bnxt_en): transmit queue 3 timed out",
            "Linux, unverified",
        ),
    ),
    "sharp-not-used": (
        (
            "ib-vm-52:1047884:1048148 [7] sharp_plugin.c:320 NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)",
            "https://github.com/NVIDIA/nccl/issues/1050",
        ),
        (
            "ib-vm-41:1056918:1057186 [0] transport.cc:323 NCCL WARN Cannot initialize CollNet, using point-to-point network instead",
            "https://github.com/NVIDIA/nccl/issues/1050",
        ),
        (
            "[C25L19:1:28576 - context.c:415] ERROR sharp_get_local_data failed: Could not get local data (-12)",
            "https://github.com/NVIDIA/nccl/issues/1219",
        ),
        (
            "[C25L18:0:24972 - comm.c:374] ERROR Failed to lock SAT tree(ID:0x40 ret:0x4)",
            "https://github.com/Mellanox/nccl-rdma-sharp-plugins/issues/151",
        ),
        (
            "node1:100:120 [0] graph/tuning.cc:250 NCCL WARN CollNet is not supported or fails to initialize, ignoring "
            "NCCL_ALGO=COLLNET",
            "NCCL, unverified",
        ),
    ),
    "ucx-cuda-context": (
        (
            "0: [1576565271.426514] [cgpu06:45376:0]    cuda_ipc_md.c:62   UCX  ERROR cuCtxGetDevice(&cu_device) is failed. ret:invalid device context",
            "https://github.com/pytorch/pytorch/issues/31528",
        ),
        (
            "[1756790188.787649] [gpu15:85054:0]    cuda_copy_md.c:705  UCX  ERROR cuMemGetAddressRange(0x7fc62b3b1208) error: invalid device context",
            "https://github.com/openucx/ucx/issues/10837",
        ),
    ),
    "ucx-device-missing": (
        (
            "[1608237182.1] [node1:31212:0] ucp_context.c:1000 UCX  WARN  network device 'mlx5_9:1' is not available, please use one or more of: 'eth0'(tcp), 'mlx5_0:1'(ib)",
            "UCX, unverified",
        ),
    ),
    "libfabric-too-old": (
        (
            "NCCL INFO NET/Plugin : dlerror=/opt/amazon/efa/lib/libfabric.so.1: version `FABRIC_1.7' not found (required by libnccl-net.so) No plugin found (libnccl-net.so), using internal implementation",
            "https://github.com/awslabs/awsome-distributed-ai/issues/292",
        ),
    ),
    "numa-balancing": (
        (
            "NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
            "RCCL 2.18, source",
        ),
        (
            'node01:5646:5646 [0] /data/jenkins_workspace/workspace/rccl_release/build/hipify/src/init.cc:115 NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"',
            "https://github.com/ROCm/rccl/issues/1261",
        ),
    ),
    "ompi-ofi-abort": (
        (
            "[neutron-nvidia:820212] mtl_ofi_endpoint.h:49: *** The Open MPI OFI MTL is aborting the MPI job (via exit(3)).",
            "https://github.com/NVIDIA/nccl-tests/issues/295",
        ),
        (
            "[taurusa4][[44612,1],7][btl_ofi_component.c:238:mca_btl_ofi_exit] BTL OFI will now abort.",
            "https://github.com/open-mpi/ompi/issues/9123",
        ),
    ),
    "roce-gid-unreadable": (
        (
            "worker-1:77:120 [0] transport/net_ib.cc:262 NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
            "https://github.com/NVIDIA/nccl/issues/1573",
        ),
    ),
    "nvshmem-bootstrap": (
        (
            "/sgl-workspace/nvshmem/install/include/host/nvshmemx_api.h:63: non-zero status: 7: Connection timed out, exiting...",
            "https://github.com/deepseek-ai/DeepEP/issues/150",
        ),
    ),
    "cxi-resources": (
        (
            "libfabric:47445:1656625588:cxi:core:cxip_ux_onload_cb():2444<warn> RXC (0xe910:7:0): Flow control triggered due to failure to append LE. Software endpoint mode required.",
            "https://github.com/E3SM-Project/E3SM/issues/5057",
        ),
        (
            "PE 0: MPICH WARNING: OFI is failing to make progress on posting a receive. MPICH suspects a hang due to completion queue exhaustion. Setting environment variable FI_CXI_DEFAULT_CQ_SIZE to a higher number might circumvent this scenario. OFI retry continuing...",
            "https://github.com/ofiwg/libfabric/issues/9286",
        ),
        (
            "libfabric:177010:1728372637::cxi:core:cxip_ux_onload_cb():2659<warn> nid001056: RXC (0x3892:79) PtlTE 375:[Fatal] LE resources not recovered during flow control. FI_CXI_RX_MATCH_MODE=[hybrid|software] is required",
            "libfabric, prov/cxi/src/cxip_msg.c, source",
        ),
    ),
    "cxi-map": (
        (
            "cxil_map: write error",
            "https://github.com/eth-cscs/cscs-docs/pull/161",
        ),
    ),
    "efa-peer-gone": (
        (
            "node0:199:263 [2] process_err_completion:1562 NCCL WARN NET/OFI Request 0x7f08 completed with error. RC: 5. Error: Invalid receiver queue pair number (QPN) My EFA addr: fi_addr_efa://[fe80::30]:0:657 My host id: i-00ee Peer EFA addr: fi_addr_efa://[fe80::ed]:0:229 Peer host id: i-08d8. Completed length: 0",
            "https://github.com/awslabs/awsome-distributed-ai/issues/312",
        ),
    ),
    "ib-library-missing": (
        (
            "node1:10:10 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\nnode1:10:10 [0] NCCL INFO Using network Socket\nnode2:11:11 [0] NCCL INFO Using network Socket",
            "https://github.com/NVIDIA/nccl/issues/766",
        ),
    ),
    "efa-no-memory": (
        (
            "Unable to write to EQ: Missing or unavailable event queue. err: Unknown error -12 (-12) prov_errno: Unknown error -12 (-12) prov/efa/src/rxr/rxr.h:993",
            "https://github.com/aws/aws-ofi-nccl/issues/107",
        ),
        (
            "NCCL WARN NET/OFI Couldn't open a fabric access domain. RC: -12, ERROR: Cannot allocate memory",
            "aws-ofi-nccl 1.6, unverified",
        ),
    ),
    "slingshot-no-vni": (
        (
            "libfabric:507357:1741146011::cxi:fabric:cxip_nic_get_rgroup_vni():253<warn> : Failed to find valid default rgroup and vni for cxi0",
            "https://github.com/aws/aws-ofi-nccl/issues/801",
        ),
    ),
    "nixl-error": (
        (
            "[1746690477.974497] [llm206:611  :0]     ucp_context.c:1268 UCX  WARN  transports 'cuda_ipc','cuda_copy' are not available, please use one or more of: mm, posix, self, shm, sm, sysv, tcp\nnixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
            "https://github.com/LMCache/LMCache/issues/605",
        ),
        (
            "2025-04-25T06:44:25.860Z ERROR client._set_errored: nixlBackendError('NIXL_ERR_BACKEND')",
            "https://github.com/ai-dynamo/dynamo/issues/814",
        ),
    ),
    "mooncake-memory": (
        (
            "E0605 10:48:27.885119 10136 rdma_context.cpp:203] Failed to register memory 0x7b375b400000: Invalid argument [22]\n[2025-06-05 10:48:27 TP7] Mooncake memory registration failed.",
            "https://github.com/sgl-project/sglang/issues/6894",
        ),
        (
            "W0302 10:03:01.210035 72983 rdma_transport.cpp:400] RdmaTransport: Failed to register memory: addr 0x733a96e00000 length 2896659072",
            "https://github.com/kvcache-ai/Mooncake/issues/1592",
        ),
        (
            "E20260821 12:30:19.433391 rdma_context.cpp:1343] DMA BUF supported required for GPU RDMA without nvidia-peermem",
            "https://github.com/kvcache-ai/Mooncake/pull/3538",
        ),
        (
            "RuntimeError: Mooncake memory registration failed.",
            "https://github.com/kvcache-ai/Mooncake/issues/281",
        ),
    ),
    "mooncake-transfer": (
        (
            "E0325 09:33:41.551047  8274 worker_pool.cpp:294] Worker: Process failed for slice (opcode: 1, source_addr: 0x7ef798060000, length: 65536, dest_addr: 0x7f3056060000, local_nic: mlx5_9, peer_nic: 10.121.129.7:15867@mlx5_9, dest_rkey: 2491916, retry_cnt: 0): transport retry counter exceeded",
            "https://github.com/sgl-project/sglang/issues/21395",
        ),
        (
            "E0302 10:03:01.110035 72983 rdma_context.cpp:480] No suitable GID found on rocep153s0",
            "https://github.com/kvcache-ai/Mooncake/issues/1592",
        ),
        (
            "E20260821 12:30:19.448818 rdma_transport.cpp:827] RdmaTransport: No available RNIC",
            "https://github.com/kvcache-ai/Mooncake/pull/3538",
        ),
    ),
}
