"""Programs of MPI: Open MPI, PRRTE, MPICH, Intel MPI, UCX, Horovod, mpi4py."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="mpi-daemon-lost",
        title="ORTE has lost communication with a remote daemon; An ORTE daemon has unexpectedly failed after launch",
        kind="generic",
        patterns=(
            r"has lost communication with a remote daemon",
            r"(?:ORTE|PRR?TE) daemon has unexpectedly failed after launch",
            r"a required daemon terminated during execution",
            r"does not know how to route a message to the specified daemon",
        ),
        context=r"(?:Remote daemon ?: \S+ on node|target node:) +(?P<host>\S+)",
        cause="mpirun lost its daemon on {host|another host}. The host or its network failed, the daemon or its container was "
        "killed (memory), or the daemon cannot connect back",
        probe="on {host|each host}: dmesg -T | grep -i 'killed process'; uptime; ip -br addr",
        fix="look for an end of the container or of the node there. If it fails at the start: open the ports between the "
        "hosts, and choose the network with --mca oob_tcp_if_include INTERFACE (Open MPI 5: --prtemca oob_tcp_if_include)",
        link="https://github.com/open-mpi/ompi/issues/6618",
    ),
    Entry(
        id="mpi-connect-back",
        title="A process or daemon was unable to complete a TCP connection to another process; HYDU_sock_connect: unable to connect",
        patterns=(
            r"A process or daemon was unable to complete a TCP connection",
            r"HYDU_sock_connect .*unable to connect from \"(?P<host>[^\"]+)\" to \"(?P<peer>[^\"]+)\" \((?P<reason>[^)]+)\)",
            r"unable to connect to server (?P<peer>\S+) at port (?P<port>\d+) \(check for firewalls",
            r"No OOB path to target",
            r"\[(?P<host>[\w.-]+):mpirun_rsh\]\[connect_socket\] could not connect to (?P<peer>[\w.-]+):\d+",
            r"is unable to establish a communication connection to the",
        ),
        context=r"(?:Remote host|target node): +(?P<peer>\S+)",
        explains=("mpi-daemon", "mpi-daemon-lost", "launcher-summary"),
        cause="{host|a host} cannot connect to {peer|the host of mpirun}[: {reason}]. A firewall rejects the port, or the name "
        "leads to an address of another network",
        probe="on {host|that host}: getent hosts {peer|NAME}; ip route get $(getent hosts {peer|NAME} | cut -d' ' -f1)",
        fix="open all TCP ports between the hosts. Choose the interface that both share: mpirun --mca oob_tcp_if_include eth0 "
        "--mca btl_tcp_if_include eth0; MPICH and Intel MPI: -iface eth0",
        link="https://github.com/open-mpi/ompi/issues/12103",
    ),
    Entry(
        id="mpi-proxy-failed",
        title="unable to run bstrap_proxy on HOST; error setting up the bootstrap proxies",
        patterns=(
            r"[Uu]nable to run (?:bstrap_)?proxy on (?P<host>[\w.-]+)",
            r"error setting up the boot?strap proxies",
        ),
        explains=("mpi-abort",),
        cause="Intel MPI or MPICH could not start its proxy on {host|a host}: no SSH without a password, hydra_bstrap_proxy not "
        "found there, or a scheduler's starter that fails",
        probe="ssh -o BatchMode=yes {host|HOST} 'which hydra_bstrap_proxy; echo $I_MPI_ROOT'",
        fix="source the setvars.sh or load the module of MPI on all hosts, at one path. Test with -bootstrap ssh, or inside of "
        "SLURM -bootstrap slurm. More: I_MPI_HYDRA_DEBUG=1",
        link="https://github.com/Azure/az-hop/issues/906",
    ),
    Entry(
        id="mpi-component-missing",
        title="A requested component was not found, or was unable to be opened",
        needs=r"requested component was not found",
        patterns=(r"\bComponent: +(?P<component>\w+)",),
        context=r"\bHost: +(?P<host>\S+)",
        explains=("mpi-init-failed", "mpi-abort"),
        cause="Open MPI on {host|this host} has no component {component}. A variable or option requests it, or mpirun and the "
        "program are of different installations of Open MPI",
        probe="on {host|that host}: which mpirun; ompi_info | grep -i {component}; env | grep OMPI_MCA",
        fix="use one Open MPI at one path on all hosts, for mpirun and for the program (ldd). Or unset the OMPI_MCA_ variable "
        "that requests {component}",
        link="https://github.com/open-mpi/ompi/issues/6293",
    ),
    Entry(
        id="mpi-no-transport",
        title="PML add procs failed; No components were able to be opened in the pml framework; PML ob1 cannot be selected",
        patterns=(
            r"PML add procs failed",
            r"No components were able to be opened in the pml framework",
            r"\bPML \w+ cannot be selected",
            r"pair of MPI processes are unable to reach each other",
        ),
        explains=("mpi-init-failed", "mpi-abort"),
        cause="Open MPI found no transport to the other ranks. The hosts select different ones (UCX here, TCP there), or a library of "
        "one is missing. Or /tmp has no place for shared memory",
        probe="on each host: ompi_info | grep -E 'pml|btl'; ibv_devinfo | grep state; df /tmp /dev/shm",
        fix="select one transport for all: mpirun --mca pml ob1 --mca btl tcp,self,vader (Open MPI 5: sm), or --mca pml ucx. "
        "To see the choice: --mca pml_base_verbose 10 --mca btl_base_verbose 10",
        link="https://github.com/3dem/relion/issues/344",
    ),
    Entry(
        id="mpi-libfabric",
        title="OFI fi_getinfo() failure; OFI fi_open domain failed; Open MPI failed an OFI Libfabric library call",
        patterns=(
            r"(?<!NET/)(?<!NET/OFI )\bOFI (?!poll)[\w() ]{3,40}? (?:failed|failure)",
            r"Open MPI failed an OFI Libfabric library call \((?P<call>\w+)\)",
            r"\bcan't find suitable provider\b",
            r"\bMPIDI_OFI_mpi_init_hook\(\d+\):",
            r"EXCEPTION: (?:init transport failed|failed to initialize ATL)",
        ),
        context=r"Local host: +(?P<host>\S+)",
        explains=("mpi-error", "mpi-init-failed", "mpi-abort", "oneccl-error"),
        cause="MPI or oneCCL found no network by libfabric[ ({call})][ on {host}]. The provider is missing, or it is another libfabric than "
        "the MPI was built for. Or the job has no access to the network card",
        probe="fi_info; env | grep -E 'FI_|I_MPI|MPIR_CVAR'; ldd $(which python) | grep -i fabric",
        fix="test with FI_PROVIDER=tcp (Intel MPI: also I_MPI_OFI_PROVIDER=tcp; Open MPI: --mca mtl ^ofi). Use the libfabric of "
        "the system or of the MPI; for oneCCL, source its setvars.sh. On Slingshot, start the ranks with srun, which gives the access",
        link="https://github.com/pmodels/mpich/issues/6612",
    ),
    Entry(
        id="mpi-session-directory",
        title="A call to mkdir was unable to create the desired directory: /tmp/ompi.HOST.1000",
        patterns=(
            r"A call to mkdir was unable to create the desired directory",
            r"opal_os_dirpath_create: Error: Unable to create the sub-directory \((?P<path>[^)]+)\)",
            r"ORTE_ERROR_LOG: Error in file util/session_dir\.c",
            r"not enough space for (?P<path>/(?!dev/shm)\S+) \(the shared-memory backing",
        ),
        context=r"\bDirectory: +(?P<path>/\S+)",
        explains=("mpi-init-failed", "mpi-daemon", "mpi-abort", "mpi-error"),
        cause="Open MPI could not make or use its session directory[ {path}]. Several jobs of a host create and remove it at the same time. Or "
        "the place is full, read-only or another user's",
        probe="ls -ld /tmp /tmp/ompi.*; df -h /tmp; df -i /tmp; echo $TMPDIR",
        fix="give each job a directory of its own: export TMPDIR=$(mktemp -d), or OMPI_MCA_orte_tmpdir_base (Open MPI 5: "
        "PRTE_MCA_prte_tmpdir_base). Remove old /tmp/ompi.* and free the disk",
        action="retry",
        reason="several programs of MPI made one directory at the same time",
        link="https://github.com/open-mpi/ompi/issues/8510",
    ),
    Entry(
        id="mpi-init-failed",
        title="It looks like MPI_INIT failed for some reason; your parallel process is likely to abort",
        kind="generic",
        patterns=(
            r"An error occurred in MPI_Init",
            r"It looks like (?:MPI_INIT|orte_init|prte_init|opal_init|MPI runtime init) failed for some reason",
            r"Local abort before MPI_INIT completed",
            r"\w+_rte_init failed",
            r"\[cli_\d+\]: (?:write_line|readline|read_line) (?:error|failed)",
            r"PMI2?_\w+ failed failed",
            r"\bPMI2?_\w+ returned -1\b",
        ),
        explains=("segfault", "aborted", "mpi-error"),
        cause="MPI did not start in this process. Often the process was not started by the mpirun of its own MPI library, or "
        "hosts have different versions",
        probe="on each host: which mpirun; mpirun --version; python -c 'from mpi4py import MPI; "
        "print(MPI.Get_library_version())'; env | grep -E 'OMPI|PMIX|SLURM_MPI'",
        fix="read the lines around it: they name the part that failed. Use one Open MPI for mpirun, mpi4py and Horovod on all "
        "hosts. Under srun: --mpi=pmix, or mpirun instead. With oneCCL under torchrun: export CCL_PROCESS_LAUNCHER=none",
        link="https://github.com/open-mpi/ompi/issues/3144",
    ),
    Entry(
        id="mpi-truncated",
        title="MPI_ERR_TRUNCATE: message truncated",
        patterns=(
            r"MPI_ERR_TRUNCATE: message truncated",
            r"Message truncated; \d+ bytes received but buffer size is \d+",
        ),
        explains=("mpi-error", "mpi-abort"),
        cause="a rank received more than its buffer holds. The ranks call collectives in another order, or with tensors of "
        "different sizes: other models, data or versions",
        probe="print rank, name and shape before each collective",
        fix="call the same collectives with the same sizes on all ranks, nothing under `if rank == 0`. Use the same script and "
        "arguments on all hosts",
        link="https://github.com/helmholtz-analytics/heat/issues/1892",
    ),
    Entry(
        id="mpi-error",
        title="*** An error occurred in MPI_Send; Fatal error in PMPI_Init: Other MPI error, error stack",
        kind="generic",
        patterns=(
            r"\*\*\* An error occurred in (?P<call>MPI_\w+)",
            r"Fatal error in (?P<call>\w+): (?P<error>[^,]+), error stack",
            r"\bMPI_ERRORS_ARE_FATAL\b",
            r"Assertion failed in file (?P<file>\S+) at line \d+: (?P<error>.+)",
            r"\bmpi4py\.MPI\.Exception: (?P<error>[^,]+), error stack",
        ),
        context=r"\(rank (?P<speaker>\d+) in comm|\*\*\* (?P<reason>MPI_ERR_\w+: .*\S)",
        cause="MPI failed[ in {call}][: {error}], and ended the job[: {reason}]. The reason is in the lines around this one",
        probe="the lines above and below it, of all ranks",
        fix="read the first error above it. With the output of all ranks: mpirun --tag-output (MPICH: -l)",
        link="https://docs.open-mpi.org/en/main/launching-apps/troubleshooting.html",
    ),
    Entry(
        id="mpi-library-missing",
        title="RuntimeError: cannot load MPI library; libmpi.so.12: cannot open shared object file",
        patterns=(
            r"(?P<library>libmpi\w*\.so[\w.]*): cannot open shared object file",
            r"RuntimeError: cannot load MPI library",
            r"undefined symbol: (?P<symbol>(?:ompi_|opal_|mca_|MPI_|MPIR_)\w+)",
        ),
        explains=("library-missing", "undefined-symbol"),
        cause="mpi4py or another library finds no MPI of its kind[: {library}][: {symbol}]. libmpi.so.12 is of MPICH or Intel MPI, "
        "libmpi.so.40 of Open MPI",
        probe="which mpirun; mpirun --version; ldconfig -p | grep libmpi; echo $LD_LIBRARY_PATH",
        fix="load that MPI (module load, or conda install -c conda-forge mpi4py openmpi). Or build for the one that is here: "
        "MPICC=mpicc pip install --force-reinstall --no-cache-dir --no-binary=mpi4py mpi4py",
        link="https://github.com/mcdc-project/mcdc/issues/346",
    ),
    Entry(
        id="horovod-not-built",
        title="Extension horovod.torch has not been built",
        patterns=(
            r"Extension horovod\.(?P<framework>\w+) has not been built",
            r"HorovodVersionMismatchError: Framework (?P<framework>\w+) installed with version",
            r"Horovod has not been built with (?P<framework>MPI) support",
            r"Error: (?P<framework>MPI|Gloo) support has not been built",
            r"Neither (?P<framework>MPI nor Gloo) support has been built",
            r"Failed to determine if (?P<framework>\w+) support has been built",
        ),
        cause="Horovod was installed without its part for {framework}. It was built where {framework} was not yet installed, or "
        "for another version of it",
        probe="horovodrun --check-build; python -c 'import torch; print(torch.__version__)'",
        fix="with torch installed: HOROVOD_WITH_PYTORCH=1 HOROVOD_GPU_OPERATIONS=NCCL pip install "
        "--force-reinstall --no-deps --no-cache-dir --no-binary=horovod horovod. Read its first "
        "compiler error. For MPI, install it first, and set HOROVOD_WITH_MPI=1; Gloo needs CMake",
        link="https://github.com/horovod/horovod/issues/2589",
    ),
    Entry(
        id="ucx-retry",
        title="UCX: Transport retry count exceeded on mlx5_0:1/IB",
        patterns=(
            r"(?:\[(?P<host>[\w.-]+):\d+:\d+:\d+\] .*)?\bTransport retry count exceeded on (?P<card>\w+):\d+/",
            r"(?:\[(?P<host>[\w.-]+):\d+:\d+:\d+\] .*)?ib_mlx5_log\.c:\d+ +(?P<error>[A-Z][\w ]+?) on (?P<card>\w+):\d+/",
            r"(?:\[(?P<host>[\w.-]+):\d+:\d+(?::\d+)?\] .*)?\btransport error: (?P<error>Endpoint timeout)",
            r"(?:\[(?P<host>[\w.-]+):\d+ ?:\d+\] .*)?\bUCX +ERROR +Error (?P<error>Endpoint timeout) was not handled",
        ),
        explains=("ucx-error", "aborted"),
        cause="{host|this host} sent[ by its card {card}], and the other side did not answer[: {error}]. A cable, a switch or the "
        "routing is bad, or the other process ended first",
        probe="on each host: ibstat; ibdiagnet --pc -P all=1; for RoCE: show_gids; which rank ended first",
        fix="look at the rank that ended first. If none did, test the fabric between the hosts (ib_write_bw), and exclude the bad "
        "one. RoCE: UCX_IB_GID_INDEX and a lossless network. To run without InfiniBand: UCX_TLS=tcp,sm,self",
        action="exclude",
        reason="the network adapter of the host gets no answer",
        link="https://github.com/openucx/ucx/issues/5199",
    ),
    Entry(
        id="ucx-shared-memory",
        title="mm_posix.c UCX ERROR open(file_name=/proc/25599/fd/35) failed; mm ep failed to connect to remote FIFO",
        patterns=(
            r"UCX +ERROR +open\(file_name=/proc/\d+/fd/\d+ flags=\w+\) failed: (?P<reason>[\w ]+)",
            r"mm ep failed to connect to remote FIFO",
        ),
        explains=("ucx-error", "ucx-unreachable", "mpi-error", "mpi-abort"),
        cause="two ranks of this host cannot open each other's shared memory[: {reason}]. Each is in a container or namespace of "
        "its own",
        probe="ls -l /proc/self/ns/pid /proc/self/ns/user, in two ranks of the host",
        fix="set UCX_POSIX_USE_PROC_LINK=n, or UCX_TLS without posix: UCX_TLS=sysv,cma,ib (without InfiniBand: tcp,self). Or "
        "start all ranks of a host in one container, or with --pid=host --ipc=host",
        link="https://github.com/openucx/ucx/issues/4224",
    ),
    Entry(
        id="cma-forbidden",
        title="Reading from remote process' memory failed. Disabling CMA support; process_vm_readv: Operation not permitted",
        patterns=(
            r"(?:Reading from|Writing to) remote process' memory failed\. Disabling CMA support",
            r"process_vm_(?:readv|writev)\b.*Operation not permitted",
        ),
        explains=(
            "mpi-error",
            "mpi-abort",
            "ucx-error",
        ),
        cause="ranks of one host may not read each other's memory (CMA). The kernel's ptrace_scope or the container forbids it, or each rank is "
        "in a user namespace of its own",
        probe="cat /proc/sys/kernel/yama/ptrace_scope (0 permits it); ls -l /proc/self/ns/user, in two ranks of the host",
        fix="sudo sysctl kernel.yama.ptrace_scope=0, and in docker --cap-add=SYS_PTRACE. Or do without CMA: PSM3_KASSIST_MODE=none, "
        "or UCX_TLS=^cma",
        link="https://github.com/openucx/ucx/issues/3545",
    ),
    Entry(
        id="ucx-unreachable",
        title="ucp_ep_create(proc=1) failed: Destination is unreachable; Failed to resolve UCX endpoint for rank 1",
        patterns=(
            r"ucp_ep_create\(proc=(?P<peer>\d+)\) failed: (?P<reason>[\w ]+)",
            r"Failed to resolve UCX endpoint for rank (?P<peer>\d+)",
            r"Failed to receive UCX worker address: (?P<reason>\w[\w ]*\w)",
            r"UCX +ERROR +no (?:\w+ ){1,5}transport to",
        ),
        explains=("ucx-error", "mpi-error", "mpi-abort"),
        cause="UCX found no way to another rank[, number {peer}][: {reason}]. The hosts have no common network "
        "device in UCX_NET_DEVICES and UCX_TLS, or use different versions of UCX",
        probe="on each host: ucx_info -d | grep -E 'Transport|Device'; ucx_info -v; env | grep UCX_; ibv_devinfo | grep state",
        fix="select a device that is active on all hosts: mpirun -x UCX_NET_DEVICES=mlx5_0:1, and unset UCX_TLS. Use one UCX on "
        "all hosts. To test: -x UCX_TLS=tcp,sm,self, or --mca pml ob1 without UCX",
        link="https://github.com/openucx/ucx/issues/3027",
    ),
    Entry(
        id="ucx-error",
        doubtful=True,
        title="UCX ERROR",
        kind="generic",
        patterns=(
            r"\bUCX +(?:ERROR|FATAL|Fatal:) +(?P<error>(?!inotify_add_watch)\S.*)",
            r"\bUCC +(?:ERROR|FATAL) +(?P<error>\S.*)",
        ),
        explains=("io-error",),
        cause="UCX, the network library of MPI, or UCC, its collectives, reported: {error}",
        probe="ucx_info -d; repeat with UCX_LOG_LEVEL=info",
        fix="select the transport: UCX_TLS=tcp,sm,self to test, UCX_NET_DEVICES for the card. Search for the text in the issues of "
        "openucx/ucx. Of UCC, leave the part out that the line is about: UCC_CL_BASIC_TLS=^cuda or ^mlx5, or use the backend nccl",
        link="https://openucx.readthedocs.io/en/master/faq.html",
    ),
    Entry(
        id="mpi-versions-differ",
        title="PRTE detected a mismatch in versions between two processes; Data unpack would read past end of buffer",
        patterns=(
            r"detected a mismatch in versions between two processes",
            r"Data unpack would read past end of buffer",
        ),
        explains=("mpi-daemon-lost", "mpi-daemon", "mpi-init-failed"),
        cause="the hosts run different versions of Open MPI, PMIx or hwloc: mpirun of one, and daemons or programs of another",
        probe="on each host: which -a mpirun orted prted; mpirun --version; ompi_info | grep -iE 'pmix|hwloc'",
        fix="install one Open MPI at one path on all hosts, and pass it: mpirun --prefix /path/to/openmpi. With Open MPI 3 or 4.0 "
        "on Debian and Ubuntu, remove the hwloc packages of the system",
        link="https://github.com/horovod/horovod/issues/1040",
    ),
    Entry(
        id="mpi-hostfile",
        title="Open RTE was unable to open the hostfile",
        patterns=(
            r"was unable to open the hostfile",
            r"unable to open host file: (?P<path>\S+)",
            r"RTE detected a (?:parse error|bad parameter) in the hostfile",
            r"A hostfile was provided that contains multiple definitions",
        ),
        context=r"^\s+(?P<path>/\S+)$",
        cause="mpirun cannot use its host file[ {path}]. The path is wrong, the file is not on the host or in the container where mpirun "
        "runs, or a line has the form of another launcher",
        probe="ls -l {path|HOSTFILE}; env | grep -E 'hostfile|OMPI_MCA'",
        fix="pass the full path of a file that exists: mpirun --hostfile /path/hosts, with one line `node1 slots=8` a host",
        link="https://github.com/open-mpi/ompi/issues/172",
    ),
    Entry(
        id="psm-endpoint",
        doubtful=True,
        title="PSM2 was unable to open an endpoint; PSM2 no hfi units are active; PSM3 can't open nic unit",
        patterns=(
            r"PSM[23] can't open (?:hfi|nic) unit",
            r"PSM[23] no (?:hfi|nic) units are active",
            r"PSM[23] was unable to open an endpoint",
        ),
        explains=("mpi-libfabric", "mpi-error", "mpi-init-failed"),
        cause="MPI cannot open an Omni-Path or PSM3 network card. It has no link, or this user may not open it. Or other ranks use all of "
        "its contexts",
        probe="opainfo; ls -l /dev/hfi1*; fi_info -p psm3",
        fix="start fewer ranks per host, or let ranks share contexts: PSM2_MAX_CONTEXTS_PER_JOB. To run without it: mpirun --mca mtl "
        "^psm2,ofi --mca pml ob1; FI_PROVIDER=tcp; on one host PSM3_DEVICES=self,shm",
        link="https://github.com/open-mpi/ompi/issues/10601",
    ),
    Entry(
        id="ucx-vfs-warning",
        title="vfs_fuse.c UCX ERROR inotify_add_watch(/tmp) failed: No space left on device",
        kind="noise",
        patterns=(r"\bvfs_fuse\.c:\d+ +UCX +(?:ERROR|WARN)\b",),
        cause="UCX could not start its file system for monitoring, as this host has no inotify watches left. It is not needed",
        probe="sysctl fs.inotify.max_user_watches",
        fix="nothing, or UCX_VFS_ENABLE=n",
        link="https://openucx.readthedocs.io/en/master/faq.html",
    ),
    Entry(
        id="mpi-binding",
        title="A request was made to bind to that would result in binding more processes than cpus on a resource",
        patterns=(
            r"\bprocesses than cpus (?:on a resource|available in your allocation)\b",
            r"computing bindings, we found no available cpus on",
            r"request was made to bind to [\w:.-]+, but an appropriate target could",
            r"has requested more cpus per process\(rank\) than there",
            r"given to map to an object level that (?:has less cpus|cannot support)",
        ),
        context=r"\bNode: +(?P<host>[\w.-]+)",
        explains=("mpi-init-failed",),
        cause="mpirun binds each rank to cores of its own, and there are too few[ on {host}]. The allocation has fewer cores than "
        "ranks times cores per rank, or a cgroup or container hides the others",
        probe="nproc; lscpu | grep -E 'Core|Socket'; mpirun --report-bindings",
        fix="mpirun --bind-to none (an option of Horovod's commands too), or --bind-to core:overload-allowed. Under SLURM, request the "
        "cores: --ntasks-per-node and --cpus-per-task. For threads: a smaller PE=N in --map-by",
        link="https://github.com/open-mpi/ompi/issues/626",
    ),
    Entry(
        id="no-mpi-in-torch",
        title="Distributed package doesn't have MPI built in",
        patterns=(r"Distributed package doesn't have MPI built in",),
        explains=("own-exception",),
        cause="this torch was built without MPI, as are all builds of pip and conda",
        probe="python -c 'import torch.distributed as d; print(d.is_mpi_available())'",
        fix="use backend nccl (GPUs) or gloo (CPUs): mpirun can still start the ranks, if the script sets RANK, WORLD_SIZE, MASTER_ADDR "
        "and MASTER_PORT. Only a build from source on a host with MPI has backend mpi",
        link="https://github.com/open-ce/open-ce/issues/376",
    ),
    Entry(
        id="ucx-device",
        title="UCX ERROR Invalid gid[0] on mlx5_6:1; ibv_query_gid() failed: Invalid argument",
        patterns=(
            r"UCX +ERROR +Invalid gid\[\d+\] on (?P<device>[\w.]+)",
            r"UCX +ERROR +ibv_query_gid\(dev=(?P<device>[\w.]+)",
        ),
        explains=("ucx-error", "mpi-error", "mpi-init-failed", "mpi-abort"),
        cause="UCX cannot use the network device {device}: its port has no address (GID) of that index. The port is not "
        "configured, is not in this container, or is no device for RDMA",
        probe="show_gids; ibv_devinfo -v | grep -E 'hca_id|GID|state'; ibdev2netdev; env | grep UCX_",
        fix="name the devices that have an address on all hosts: mpirun -x UCX_NET_DEVICES=mlx5_0:1. On RoCE, also -x "
        "UCX_IB_GID_INDEX=3. Without RDMA: -x UCX_TLS=tcp,sm,self",
        link="https://github.com/openucx/ucx/issues/4966",
    ),
    Entry(
        id="horovod-rendezvous",
        title="http_store.cc: Wait timeout after 30 seconds for key(s): 0",
        patterns=(r"http_store\.cc:\d+\] Wait timeout after (?P<seconds>\d+) seconds for key",),
        explains=("aborted", "own-exception"),
        cause="a process of Horovod (gloo) waited {seconds} s for another one, which did not start or does not reach this host's "
        "address. With many hosts, the start can just be slower",
        probe="the first error of each host; ip -br addr; horovodrun --check-build",
        fix="horovodrun --gloo-timeout-seconds 240, and --network-interface eth0 with the interface that connects the hosts. If a "
        "process ended first, correct its error",
        link="https://github.com/horovod/horovod/issues/2015",
    ),
    Entry(
        id="mpi-called-outside",
        title="The MPI_Comm_rank() function was called before MPI_INIT was invoked; after MPI_FINALIZE",
        patterns=(
            r"\*\*\* (?:The (?P<call>MPI_\w+)\(\)|An MPI) function was called (?P<when>before MPI_INIT|after MPI_FINALIZE) was invoked",
            r"Attempting to use an MPI routine (?:\((?P<call>\w+)\) )?(?P<when>before|after)",
        ),
        explains=("mpi-init-failed", "mpi-abort", "mpi-error"),
        cause="the program called {call|MPI} while MPI was not active: {when|before its start, or after its end}. A library did not start "
        "MPI, used another MPI, or was still in use at the end",
        probe="python -c 'from mpi4py import MPI; print(MPI.Get_library_version())'; ldd of the library that calls MPI",
        fix="import mpi4py.MPI, or call hvd.init(), before all else. At the end, release communicators and process groups "
        "before MPI_Finalize. Build all parts for one MPI",
        link="https://github.com/facebookarchive/caffe2/issues/1283",
    ),
    Entry(
        id="mpi-options-of-other",
        title="match_arg (utils/args/args.c): unrecognized argument allow-run-as-root",
        patterns=(
            r"\bmatch_arg \(.*\): unrecognized argument (?P<option>\S+)",
            r"\b(?:mpirun|mpiexec|orterun|prterun): Error: unknown option \"(?P<option>[^\"]+)\"",
        ),
        cause="this mpirun does not know {option}. Usually that is an option of another MPI (Open MPI, or MPICH and Intel MPI). Horovod, torchpack and "
        "other launchers pass options of Open MPI",
        probe="which -a mpirun; mpirun --version",
        fix="use the mpirun of Open MPI: put it first on PATH, or conda install -c conda-forge openmpi mpi4py. Or start it by the options "
        "of MPICH (-n, -ppn, -hosts, -genv); for Horovod: horovodrun --gloo",
        link="https://github.com/horovod/horovod/issues/1637",
    ),
    Entry(
        id="mpi-hosts-not-allocated",
        title="Some of the requested hosts are not included in the current allocation; no allocated resources match the requested mapping",
        patterns=(
            r"There are no allocated resources for the application",
            r"requested hosts are not included in the current allocation",
            r"There are no available nodes allocated to this job",
            r"No nodes are available for this job, either due to",
            r"requested hosts is not included in the current allocation",
            r"A hostfile was provided that contains at least one node not",
        ),
        cause="mpirun has no host for these ranks. A name of -H or of the host file is not in the allocation of SLURM, LSF or PBS, or is "
        "spelled otherwise there",
        probe="scontrol show hostnames $SLURM_JOB_NODELIST; cat HOSTFILE; mpirun --display-allocation hostname",
        fix="in a job, omit -H and --hostfile: mpirun takes the hosts of the job. Outside of one, unset SLURM_JOB_ID. Otherwise write the "
        "names as the allocation does, short or long",
        link="https://docs.open-mpi.org/en/main/launching-apps/scheduling.html",
    ),
    Entry(
        id="mpi-no-ssh-client",
        title="The value of the MCA parameter plm_rsh_agent was set to a path that could not be found",
        patterns=(r"MCA parameter \"plm_(?:rsh|ssh)_agent\" was set to a path",),
        explains=("mpi-daemon", "mpi-init-failed"),
        cause="mpirun starts other hosts with ssh, and finds no ssh here. Images of containers often have none",
        probe="command -v ssh; env | grep -E 'plm_(rsh|ssh)_agent'",
        fix="install it (apt-get install openssh-client), or unset the variable that names another program. On one host alone: "
        "OMPI_MCA_plm_rsh_agent=sh, or OMPI_MCA_plm=^rsh",
        link="https://docs.open-mpi.org/en/main/launching-apps/ssh.html",
    ),
    Entry(
        id="mpi-singletons",
        kind="hint",
        title="No PMIx server was reachable, but a PMI1/2 was detected: singletons will be started",
        patterns=(
            r"No PMIx server was reachable, but a PMI",
            r"launch application, +\d+ singletons will be started",
            r"This singleton init program attempted to access",
        ),
        cause="srun started the processes without the interface that this MPI knows: PMIx for Open MPI 5, PMI2 for MPICH. Each process "
        "is rank 0 of 1, and they do not communicate",
        probe="srun --mpi=list; srun --mpi=pmix env | grep PMIX_RANK",
        fix="srun --mpi=pmix (MPICH: --mpi=pmi2), if the list has it. Otherwise start it with mpirun inside of the allocation. torch alone "
        "needs no MPI",
        link="https://github.com/open-mpi/ompi/issues/13523",
    ),
    Entry(
        id="pmix-error",
        kind="hint",
        title="PMIX ERROR: OUT-OF-RESOURCE in file base/bfrop_base_unpack.c at line 750",
        patterns=(
            r"PMIX ERROR: (?P<reason>[\w-]+) in file \S+",
            r"OPAL ERROR: (?P<reason>[\w -]+) in file \S*(?:pmix|ext)\w*_client\.c",
        ),
        explains=("mpi-init-failed", "mpi-error"),
        cause="PMIx, which connects the ranks with their launcher, reported {reason}. Often the program or its container has "
        "another version of PMIx than srun or mpirun. Some versions print it in healthy runs, too",
        probe="srun --mpi=list; ompi_info | grep -i pmix, inside and outside of the container",
        fix="if the ranks run, ignore it. Otherwise use one PMIx and Open MPI on all hosts and in the container. To test: export "
        "PMIX_MCA_gds=hash PMIX_MCA_psec=native, or mpirun in place of srun",
        link="https://github.com/openpmix/openpmix/issues/2948",
    ),
    Entry(
        id="mpi-warnings",
        kind="noise",
        title="mca_base_component_repository_open: unable to open mca_pml_ucx (ignored); Read -1, expected 131072, errno = 1",
        patterns=(
            r"component_repository_open: unable to open .*\(ignored\)",
            r"\] (?:Read|Wrote) -?\d+, expected \d+, errno = \d+",
        ),
        cause="Open MPI leaves out a component whose library is missing, or cannot copy between two processes in a container. It takes "
        "another way",
        probe="nothing to check",
        fix="nothing. Against `Read -1`: docker run --cap-add=SYS_PTRACE, or OMPI_MCA_btl_vader_single_copy_mechanism=none",
        link="https://github.com/open-mpi/ompi/issues/4948",
    ),
    Entry(
        id="mpi-time-limit",
        title="The user-provided time limit for job execution has been reached",
        patterns=(r"user-provided time limit for job execution has been reached",),
        context=r"Timeout: (?P<limit>\d+ seconds)",
        explains=("mpi-abort", "launcher-summary", "terminated"),
        cause="mpirun ended the run after its own time limit[ of {limit}]: --timeout, or the variable MPIEXEC_TIMEOUT. It is not the "
        "scheduler's",
        probe="env | grep -iE 'timeout'; the mpirun command",
        fix="omit --timeout, and unset MPIEXEC_TIMEOUT, or set a larger one. A start on many hosts can need minutes",
        link="https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html",
    ),
    Entry(
        id="mpi-gtl-missing",
        title="MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked",
        patterns=(r"GPU_SUPPORT_ENABLED is requested, but GTL library is not linked",),
        explains=("mpi-init-failed", "mpi-error", "mpi-abort"),
        cause="MPICH_GPU_SUPPORT_ENABLED=1 is set, and this program or its mpi4py was built without Cray's GPU library (GTL). Cray MPICH "
        "then does not start",
        probe="env | grep MPICH_GPU; ldd $(python -c 'import mpi4py.MPI as m; print(m.__file__)') | grep gtl",
        fix="export MPICH_GPU_SUPPORT_ENABLED=0: torch sends GPU memory by NCCL or RCCL, not by MPI. Otherwise load craype-accel-..., and build mpi4py "
        'again with MPICC="cc -shared"',
        link="https://github.com/APPFL/APPFL/issues/258",
    ),
    Entry(
        id="jsrun-refused",
        title="jsrun: Error initializing RM connection. Exiting; Requested job constraints cannot be met",
        patterns=(
            r"(?P<reason>Error initializing RM connection)\. Exiting",
            r"Error: (?P<reason>Requested job constraints cannot be met)",
            r"Error: (?P<reason>It is only possible to use js commands within a job allocation)",
            r"Error: (?P<reason>Remote JSM server is not responding)",
        ),
        explains=("own-exception",),
        cause="jsrun started nothing: {reason}. It runs outside of an LSF job, other steps of the job hold the resource sets, or the "
        "request does not fit the nodes",
        probe="echo $LSB_JOBID; jslist -c; bjobs -l $LSB_JOBID",
        fix="call jsrun in a job of bsub, on its batch node. Let -n resource sets with their -a, -c and -g fit the nodes (Summit: 42 cores, 6 "
        "GPUs each), and wait for other steps to end",
        link="https://docs.olcf.ornl.gov/systems/summit_user_guide.html",
    ),
    Entry(
        id="ranks-alone",
        kind="hint",
        title="rank 0 of 1, printed by each process",
        cause="{number|several} processes each take themselves for rank 0 of 1, so each is a run of its own. The script does not read the "
        "launcher's variables (mpirun and srun set neither RANK nor WORLD_SIZE), or its MPI is not that of the launcher",
        probe="mpirun -n 2 env | grep -E '^(OMPI_COMM_WORLD|PMI|SLURM_(PROCID|NTASKS)|RANK|WORLD_SIZE)'; python -c 'from mpi4py import "
        "MPI; print(MPI.Get_library_version())'",
        fix="read OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE (Intel MPI, MPICH: PMI_RANK, PMI_SIZE; srun: SLURM_PROCID, "
        "SLURM_NTASKS), as ddpkit.distributed.torch.init() does. Or start with torchrun or ddpkit launch. For mpi4py: the mpirun of its own MPI",
        instead=(Instead(of=("no-failure", "slurm-cancelled", "slurm-time-limit"), reads="ranks-alone"),),
        link="https://github.com/mpi4py/mpi4py/issues/428",
    ),
    Entry(
        id="horovod-not-initialized",
        title="ValueError: Horovod has not been initialized; use hvd.init()",
        patterns=(r"Horovod has not been initialized(?: properly| or MPI has not been enabled)?; use hvd\.init\(\)",),
        cause="hvd.rank(), size() or an operation of Horovod was called in a process without hvd.init(). It comes later in the "
        "script, or this is another process: a DataLoader worker, or one that the script spawned",
        probe="grep -n 'hvd\\.' of the script: which call comes first; the frames of the traceback",
        fix="call hvd.init() first in the script, at the top level and not below `if __name__ == '__main__'`. Pass rank and size "
        "to other processes as numbers",
        link="https://horovod.readthedocs.io/en/stable/pytorch.html",
    ),
    Entry(
        id="horovod-step-order",
        title="AssertionError: Gradients were computed more than backward_passes_per_step times before call to step()",
        patterns=(
            r"Gradients were computed more than backward_passes_per_step times before",
            r"optimizer\.zero_grad\(\) was called after loss\.backward\(\) but before optimizer\.step\(\)",
        ),
        cause="Horovod's optimizer averages gradients while backward runs, and expects one step() after it. The script calls backward "
        "several times for a step, or clears the gradients between backward and step",
        probe="grep -nE 'backward\\(|zero_grad\\(|\\.step\\(|backward_passes_per_step' of the script",
        fix="to accumulate over N batches: hvd.DistributedOptimizer(optimizer, backward_passes_per_step=N). Otherwise one backward of the "
        "sum of losses, then step(), then zero_grad(). To change gradients before: optimizer.synchronize()",
        link="https://horovod.readthedocs.io/en/stable/pytorch.html",
    ),
    Entry(
        id="mpi-rank-invalid",
        title="MPI_ERR_RANK: invalid rank; MPI_ERR_ROOT: invalid root; Invalid rank has value 1 but must be nonnegative and less than 1",
        patterns=(
            r"\bMPI_ERR_RANK\b.* invalid rank",
            r"\bMPI_ERR_ROOT\b.* invalid root",
            r"Invalid (?:rank|root) has value (?P<number>-?\d+) but must be nonnegative and less than (?P<size>\d+)",
            r"Invalid root \(value given was (?P<number>-?\d+)\)",
            r"Fatal error in \w+: Invalid (?:rank|root)\b",
        ),
        context=r"Invalid (?:rank|root) has value (?P<number>-?\d+) but must be nonnegative and less than (?P<size>\d+)",
        explains=("mpi-error", "mpi-abort"),
        cause="a call names a rank that its communicator does not have[: {number} of {size}]. Often mpirun is of another MPI than the "
        "program, and each process takes itself for rank 0 of 1. Otherwise it is a rank of the whole job in a smaller group",
        probe="mpirun -np 2 python -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)'; mpirun --version",
        fix="start it with the mpirun of the MPI that the program loads (ldd shows it; in conda, that of the environment). If the sizes are right, "
        "correct the number in that call",
        link="https://github.com/kokkos/kokkos-comm/issues/134",
    ),
    Entry(
        id="mpi-fabric-failed",
        title="MPIDI_OFI_handle_cq_error: OFI poll failed (ofi_events.c:1042: Input/output error)",
        patterns=(r"\bOFI poll failed \((?:[\w.]+:\d+:)?(?:\w+:)?(?P<reason>(?!.*PTLTE_NOT_FOUND)[^)]*)\)",),
        explains=("mpi-error", "mpi-abort", "io-error", "host-out-of-memory"),
        cause="a message of MPI was not transferred by libfabric: {reason}. Usually the rank at the other end had ended before, or the network or "
        "its card failed. Of memory: the limits for locked memory or of the card are reached",
        probe="which rank ended first; on each host: fi_info -l; ulimit -l; dmesg -T | tail",
        fix="look at the rank that ended first. If none did, exclude a host with errors of its card. Intel MPI: update it, and to test another way "
        "export FI_PROVIDER=tcp. Cray: a newer libfabric, or FI_CXI_RX_MATCH_MODE=software",
        link="https://github.com/ofiwg/libfabric/issues/5648",
    ),
)
