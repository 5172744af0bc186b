"""Printed texts of `ddpkit/diagnosis/catalogue/mpi.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "mpi-daemon-lost": (
        (
            "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[10092,0],0] on node r537\n  Remote "
            "daemon: [[10092,0],2] on node r712",
            "https://github.com/radical-cybertools/radical.pilot/issues/1756",
        ),
        (
            "An PRTE daemon has unexpectedly failed after launch and before",
            "https://github.com/open-mpi/ompi/issues/10153",
        ),
        (
            "An PRRTE daemon has unexpectedly failed after launch and before\ncommunicating back to mpirun.",
            "https://github.com/openpmix/prrte/issues/540",
        ),
        (
            "mpirun has detected that a required daemon terminated during execution\nof the application with a non-zero status. This is a fatal error.",
            "Open MPI 5.0.11, source",
        ),
        (
            "ORTE does not know how to route a message to the specified daemon\nlocated on the indicated node:\n\n  my node:   node01\n  target node:  node02",
            "https://github.com/horovod/horovod/issues/1850",
        ),
    ),
    "mpi-connect-back": (
        (
            "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    "
            "3eed81735a60\n  Remote host:   0cdbe1810ec3",
            "https://github.com/open-mpi/ompi/issues/12103",
        ),
        (
            '[proxy:0:23@quartz2664] HYDU_sock_connect (lib/utils/sock.c:140): unable to connect from "quartz2664" to '
            '"quartz79" (No route to host)',
            "https://github.com/mcdc-project/mcdc/issues/148",
        ),
        (
            "[proxy:0:23@quartz2664] main (proxy/pmip.c:105): unable to connect to server quartz79 at port 43377 (check "
            "for firewalls!)",
            "https://github.com/mcdc-project/mcdc/issues/148",
        ),
        (
            "ORTE: UNABLE TO SEND MESSAGE: No OOB path to target",
            "https://github.com/open-mpi/ompi/issues/12359",
        ),
        (
            "[gordon-ln1.sdsc.edu:mpirun_rsh][connect_socket] could not connect to gcn-14-31:60727",
            "https://github.com/radical-cybertools/radical.pilot/issues/1034",
        ),
        (
            "ORTE is unable to establish a communication connection to the\nspecified daemon located on the indicated node:\n\n  my node:   n1\n  target node:  n2",
            "Open MPI 4.1, source",
        ),
    ),
    "mpi-proxy-failed": (
        (
            "[mpiexec@hb120v3-3] check_exit_codes (../../../../../src/pm/i_hydra/libhydra/demux/hydra_demux_poll.c:117): "
            "unable to run bstrap_proxy on hb120v3-3.internal.cloudapp.net (pid 12608, exit code 256)",
            "https://github.com/Azure/az-hop/issues/906",
        ),
        (
            "[mpiexec@machine1] main (../../../../../src/pm/i_hydra/mpiexec/mpiexec.c:1881): error setting up the "
            "boostrap proxies",
            "https://github.com/firemodels/fds/issues/8508",
        ),
        (
            "[mpiexec@runner-d8zbrqlyc-project-80-concurrent-0] Error: Unable to run bstrap_proxy on localhost:2 (pid 13546, exit code 65280)",
            "https://github.com/BLAST-WarpX/warpx/pull/6980",
        ),
    ),
    "mpi-component-missing": (
        (
            "A requested component was not found, or was unable to be opened.  This\nmeans that this component is either "
            "not installed or is unable to be\n\nHost:      slave1\nFramework: ess\nComponent: pmi",
            "https://github.com/open-mpi/ompi/issues/6293",
        ),
    ),
    "mpi-no-transport": (
        (
            "No components were able to be opened in the pml framework.",
            "https://github.com/3dem/relion/issues/344",
        ),
        (
            "  PML add procs failed",
            "https://github.com/Azrael3000/tmpi/issues/17",
        ),
        (
            "[node1:232067] PML ob1 cannot be selected",
            "https://github.com/3dem/relion/issues/344",
        ),
        (
            "At least one pair of MPI processes are unable to reach each other for",
            "https://github.com/aws/sagemaker-training-toolkit/issues/9",
        ),
    ),
    "mpi-libfabric": (
        ("MPIDI_OFI_mpi_init_hook(1554):", "https://github.com/SmileiPIC/Smilei/issues/819"),
        (
            "find_provider(170).........: OFI fi_getinfo() failure",
            "https://github.com/pmodels/mpich/issues/6612",
        ),
        (
            "MPIDI_OFI_mpi_init_hook(599): OFI fi_open domain failed (ofi_init.c:599:MPIDI_OFI_mpi_init_hook:Invalid "
            "argument)",
            "https://github.com/flux-framework/flux-core/issues/5976",
        ),
        (
            "2024:08:21-10:24:26:( 4456) |CCL_ERROR| atl_ofi.cpp:243 init: can't find suitable provider",
            "https://github.com/intel/ipex-llm/issues/11877",
        ),
        (
            "RuntimeError: oneCCL: atl_ofi_comm.cpp:79 atl_ofi_comm: EXCEPTION: init transport failed",
            "https://github.com/intel/llm-on-ray/issues/242",
        ),
        (
            "Open MPI failed an OFI Libfabric library call (fi_domain).  This is highly\nunusual; your job may behave "
            "unpredictably (and/or abort) after this.\n\n  Local host: crusher051",
            "https://github.com/open-mpi/ompi/issues/12038",
        ),
    ),
    "mpi-session-directory": (
        (
            "A call to mkdir was unable to create the desired directory:\n\n  Directory: /tmp/ompi.node1.0/pid.2284793\n  "
            "Error: No such file or directory",
            "https://github.com/NVIDIA-NeMo/NeMo/issues/11724",
        ),
        (
            "[node1:15862] opal_os_dirpath_create: Error: Unable to create the sub-directory (/tmp) of "
            "(/tmp/openmpi-sessions-2848@node1_0/37652/0/0), mkdir failed [-1]",
            "https://github.com/open-mpi/ompi/pull/601",
        ),
        (
            "[node1:29758] [[0,1],0] ORTE_ERROR_LOG: Error in file util/session_dir.c at line 106",
            "https://github.com/open-mpi/ompi/issues/3818",
        ),
        (
            "It appears as if there is not enough space for /tmp/openmpi-sessions-1001_at_node12_0/41788/1/shared_mem_pool.node12 (the shared-memory backing",
            "Open MPI, opal_shmem_mmap, documented",
        ),
    ),
    "mpi-init-failed": (
        (
            "*** An error occurred in MPI_Init_thread",
            "https://github.com/deepspeedai/DeepSpeed/issues/935",
        ),
        ("MPID_Init(2144)......: PMI_Init returned -1", "https://github.com/Libensemble/libensemble/issues/29"),
        (
            "MPIR_pmi_kvs_put(278)....: PMI_KVS_Put returned -1",
            "https://github.com/pmodels/mpich/pull/5909",
        ),
        (
            "MPID_Init(2137)......: PMI_Init returned -1",
            "https://github.com/openpmix/openpmix/issues/1115",
        ),
        (
            "It looks like MPI_INIT failed for some reason; your parallel process is",
            "https://github.com/open-ce/open-ce/issues/412",
        ),
        (
            "[iq218:27487] Local abort before MPI_INIT completed completed successfully, but am not able to aggregate "
            "error messages",
            "https://github.com/open-mpi/ompi/issues/3144",
        ),
        (
            "  ompi_mpi_init: ompi_rte_init failed",
            "https://github.com/open-ce/open-ce/issues/412",
        ),
        (
            "[cli_0]: write_line error; fd=9 buf=:cmd=init pmi_version=1 pmi_subversion=1",
            "MPICH, unverified",
        ),
        (
            "PMI2_Job_GetId failed failed",
            "MPICH, unverified",
        ),
    ),
    "mpi-truncated": (
        (
            "mpi4py.MPI.Exception: MPI_ERR_TRUNCATE: message truncated",
            "https://github.com/helmholtz-analytics/heat/issues/1892",
        ),
        (
            "MPIDI_CH3U_Request_unpack_uebuf(599): Message truncated; 1536 bytes received but buffer size is 1024",
            "https://github.com/matex-org/matex/issues/8",
        ),
    ),
    "mpi-error": (
        (
            "[node1:18089] *** An error occurred in MPI_Send",
            "https://github.com/openucx/ucx/issues/3027",
        ),
        (
            "Abort(1091983) (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:",
            "https://github.com/flux-framework/flux-core/issues/5976",
        ),
        (
            "*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
            "https://github.com/mpi4py/mpi4py/issues/141",
        ),
        (
            "[g2-nasp:24252] *** An error occurred in MPI_Allreduce\n[g2-nasp:24252] *** on communicator MPI_COMM_WORLD\n[g2-nasp:24252] *** MPI_ERR_OTHER: known error not in list",
            "Open MPI 4.1, source",
        ),
        (
            "Assertion failed in file ../../src/mpid/ch4/shm/posix/eager/include/intel_transport_recv.h at line 1160: cma_read_nbytes == size",
            "Intel MPI 2021, unverified",
        ),
        (
            "mpi4py.MPI.Exception: Other MPI error, error stack:",
            "mpi4py 3.1, unverified",
        ),
    ),
    "mpi-library-missing": (
        (
            "ImportError: libmpi.so.12: cannot open shared object file: No such file or directory",
            "https://github.com/mcdc-project/mcdc/issues/346",
        ),
        (
            "RuntimeError: cannot load MPI library",
            "https://github.com/gprMax/gprMax/issues/482",
        ),
        (
            "ImportError: /opt/env/lib/python3.10/site-packages/mpi4py/MPI.cpython-310-x86_64-linux-gnu.so: undefined "
            "symbol: ompi_mpi_logical8",
            "mpi4py, unverified",
        ),
    ),
    "horovod-not-built": (
        (
            "ImportError: Extension horovod.torch has not been built.  If this is not expected, reinstall Horovod with "
            "HOROVOD_WITH_PYTORCH=1 to debug the build error.",
            "https://github.com/horovod/horovod/issues/2589",
        ),
        (
            "horovod.common.exceptions.HorovodVersionMismatchError: Framework tensorflow installed with version 2.11.0 but found version 2.12.0.",
            "Horovod 0.28, source",
        ),
        (
            "ValueError: Horovod has not been built with MPI support. Ensure MPI is installed and reinstall Horovod with HOROVOD_WITH_MPI=1 to debug the build error.",
            "horovod 0.28, source",
        ),
        (
            "ValueError: Gloo support has not been built.  If this is not expected, ensure CMake is installed and reinstall Horovod with HOROVOD_WITH_GLOO=1 to debug the build error.",
            "horovod 0.28, source",
        ),
        (
            "ValueError: Neither MPI nor Gloo support has been built. Try reinstalling Horovod ensuring that either MPI is installed (MPI) or CMake is installed (Gloo).",
            "horovod 0.28, source",
        ),
        (
            "RuntimeError: Failed to determine if Gloo support has been built. Run again with --verbose for more details.",
            "https://github.com/horovod/horovod/issues/1831",
        ),
    ),
    "ucx-retry": (
        (
            "[1608237182.123456] [compute001:31212:0] ib_mlx5_log.c:143  UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
            "https://github.com/openucx/ucx/issues/6000",
        ),
        (
            "[master:19546:0:19546] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend "
            "0x81 hw_synd 0/0)",
            "https://github.com/openucx/ucx/issues/5199",
        ),
        (
            "[node1:19546:0:19546] ib_mlx5_log.c:177  Remote access error on mlx5_0:1/RoCE (synd 0x13 vend 0x88 hw_synd 0/0)",
            "UCX, unverified",
        ),
        (
            "[1,8]<stderr>:[hpc-polar-01-vm001:13210:0:13210]    ud_iface.c:732  UCX Fatal: transport error: Endpoint timeout",
            "https://github.com/openucx/ucx/issues/3087",
        ),
        (
            "[1506867524.064665] [clx-hercules-012:26727:0]     ucp_worker.c:373  UCX  ERROR Error Endpoint timeout was not handled for ep 0xac1510",
            "https://github.com/openucx/ucx/issues/1881",
        ),
    ),
    "ucx-shared-memory": (
        (
            "[1665612809.408366] [node1:20358:0]       mm_posix.c:194  UCX  ERROR open(file_name=/proc/20353/fd/18 "
            "flags=0x0) failed: No such file or directory",
            "https://github.com/apptainer/apptainer/issues/769",
        ),
        (
            "[1665612809.408388] [node1:20358:0]          mm_ep.c:154  UCX  ERROR mm ep failed to connect to remote FIFO "
            "id 0xc000000480004f81: Shared memory error",
            "https://github.com/apptainer/apptainer/issues/769",
        ),
    ),
    "ucx-unreachable": (
        (
            "[node1:18089] pml_ucx.c:323 Error: ucp_ep_create(proc=1) failed: Destination is unreachable",
            "https://github.com/openucx/ucx/issues/3027",
        ),
        (
            "[node1:18089] pml_ucx.c:389 Error: Failed to resolve UCX endpoint for rank 1",
            "https://github.com/openucx/ucx/issues/3027",
        ),
        (
            "[node1:36457] pml_ucx.c:175  Error: Failed to receive UCX worker address: Not found (-13)",
            "https://github.com/openucx/ucx/issues/4505",
        ),
        (
            "[1581060992.288391] [daishan:9817 :0]         select.c:438  UCX  ERROR no active messages transport to <no "
            "debug data>: posix/memory - Destination is unreachable, sysv/memory - Destination is unreachable",
            "https://github.com/openucx/ucx/issues/4742",
        ),
    ),
    "ucx-error": (
        (
            "[node1:996  :0]      ucp_worker.c:1415 UCX  ERROR uct_iface_open(tcp/net0) failed: Input/output error",
            "UCX 1.12, run",
        ),
        (
            "[1667117403.755480] [luna-0062:1724877:0]     ucc_context.c:240  UCC  ERROR required TL nccl is not part of the context",
            "https://github.com/openucx/ucc/issues/656",
        ),
    ),
    "ucx-vfs-warning": (
        (
            "[1695631433.421841] [c2050935a676:31108:f]        vfs_fuse.c:281  UCX  ERROR inotify_add_watch(/tmp) "
            "failed: No space left on device",
            "UCX 1.14, run",
        ),
    ),
    "mpi-versions-differ": (
        (
            "PRTE detected a mismatch in versions between two processes.  This",
            "https://github.com/open-mpi/ompi/issues/13093",
        ),
        (
            "[node1:12345] [[5217,0],0] FORCE-TERMINATE AT Data unpack would read past end of buffer:-26 - error "
            "grpcomm_direct.c(359)",
            "https://github.com/horovod/horovod/issues/2127",
        ),
    ),
    "mpi-hostfile": (
        (
            "Open RTE was unable to open the hostfile:\n    /usr/lib64/mpi/gcc/openmpi/etc/openmpi-default-hostfile",
            "https://github.com/open-mpi/ompi/issues/172",
        ),
        (
            "[mpiexec@node1] HYDU_parse_hostfile (utils/args/args.c:323): unable to open host file: hosts.txt",
            "MPICH 5.0.2, source",
        ),
        (
            "Open RTE detected a parse error in the hostfile:\n    /home/ann/hosts\nIt occured on line number 2 on token 5:\n    n2:8",
            "Open MPI 4.1, source",
        ),
        (
            "A hostfile was provided that contains multiple definitions\nof the slot count for at least one node:\n\n  hostfile:  hosts\n  node:      n1",
            "Open MPI 4.1, source",
        ),
    ),
    "psm-endpoint": (
        (
            "bdw-0214.30734PSM2 can't open hfi unit: -1 (err=23)",
            "https://github.com/open-mpi/ompi/issues/10601",
        ),
        (
            "e001.53882PSM2 no hfi units are active (err=23)",
            "https://github.com/ArjunaCluster/ArjunaUsers/issues/216",
        ),
        (
            "PSM2 was unable to open an endpoint. Please make sure that the network link is",
            "https://github.com/open-mpi/ompi/issues/10601",
        ),
    ),
    "mpi-binding": (
        (
            "processes than cpus on a resource:",
            "https://github.com/openai/baselines/issues/325",
        ),
        (
            "While computing bindings, we found no available cpus on\nthe following node:\n\n  Node:  node2",
            "Open MPI 4.1.8, source",
        ),
        (
            "A request was made to bind to core, but an appropriate target could not\nbe found on node node2.",
            "Open MPI 4.1.8, source",
        ),
        (
            "Your job has requested more cpus per process(rank) than there\nare cpus in a socket",
            "Open MPI 4.1.8, source",
        ),
        (
            "was also given to map to an object level that has less cpus than\nrequested ones",
            "Open MPI 4.1.8, source",
        ),
    ),
    "no-mpi-in-torch": (
        (
            "RuntimeError: Distributed package doesn't have MPI built in. MPI is only included if you build PyTorch from source on a host that has MPI installed.",
            "https://github.com/open-ce/open-ce/issues/376",
        ),
    ),
    "ucx-device": (
        (
            "[1585882859.110274] [149a368e-ef8d-493a-b46f-2e23bde3f0a1:63427:0]      ib_device.c:918  UCX  ERROR Invalid gid[0] on mlx5_6:1",
            "https://github.com/openucx/ucx/issues/4966",
        ),
        (
            "[1635931846.182478] [ip-AC125814:62000:0]      ib_device.c:670  UCX  ERROR ibv_query_gid(dev=mlx5_an0 port=1 index=0) failed: Invalid argument",
            "https://github.com/easybuilders/easybuild/issues/755",
        ),
    ),
    "horovod-rendezvous": (
        (
            "  what():  [horovod/common/gloo/http_store.cc:57] Wait timeout after 30 seconds for key(s): 0. You may want to increase the timeout via HOROVOD_GLOO_TIMEOUT_SECONDS",
            "https://github.com/ray-project/ray/issues/25866",
        ),
    ),
    "mpi-called-outside": (
        (
            "*** The MPI_Comm_rank() function was called before MPI_INIT was invoked.\n*** This is disallowed by the MPI standard.",
            "https://github.com/exalearn/EXARL/issues/22",
        ),
        (
            "*** The MPI_Comm_free() function was called after MPI_FINALIZE was invoked.\n*** This is disallowed by the MPI standard.",
            "https://github.com/facebookarchive/caffe2/issues/1283",
        ),
        (
            "Attempting to use an MPI routine (internal_Comm_rank) before initializing or after finalizing MPICH",
            "MPICH 5.0.2, source",
        ),
    ),
    "mpi-options-of-other": (
        (
            "[mpiexec@node1] match_arg (utils/args/args.c:159): unrecognized argument allow-run-as-root",
            "https://github.com/horovod/horovod/issues/1637",
        ),
        (
            'mpirun: Error: unknown option "-ppn"',
            "Open MPI 4.1, unverified",
        ),
    ),
    "mpi-hosts-not-allocated": (
        (
            "There are no allocated resources for the application:\n  python\nthat match the requested mapping:",
            "Open MPI 4.1.8, source",
        ),
        (
            "Some of the requested hosts are not included in the current allocation for the\napplication:\n  python",
            "Open MPI 4.1.8, source",
        ),
        (
            "There are no available nodes allocated to this job. This could be because\nno nodes were found or all the available nodes were already used.",
            "Open MPI 4.1.8, source",
        ),
        (
            "No nodes are available for this job, either due to a failure to\nallocate nodes to the job, or allocated nodes being marked",
            "Open MPI 4.1.8, source",
        ),
        (
            "At least one of the requested hosts is not included in the current allocation.\n\nMissing requested host: n3",
            "Open MPI 4.1, source",
        ),
        (
            "A hostfile was provided that contains at least one node not\npresent in the allocation:\n\n  hostfile:  hosts\n  node:      n3",
            "Open MPI 4.1, source",
        ),
    ),
    "mpi-no-ssh-client": (
        (
            'The value of the MCA parameter "plm_rsh_agent" was set to a path\nthat could not be found:\n\n  plm_rsh_agent: ssh : rsh',
            "https://github.com/open-mpi/ompi/issues/3625",
        ),
    ),
    "mpi-singletons": (
        (
            "No PMIx server was reachable, but a PMI1/2 was detected.\nIf srun is being used to launch application,  2 singletons will be started.",
            "https://github.com/open-mpi/ompi/issues/13523",
        ),
        (
            "If srun is being used to launch application,  64 singletons will be started.",
            "Open MPI 5.0.11, source",
        ),
        (
            "[unset]:   This singleton init program attempted to access some feature\n[unset]:   for which process manager support was required, e.g. spawn or universe_size.",
            "https://github.com/pmodels/mpich/issues/6924",
        ),
    ),
    "pmix-error": (
        (
            "[squidhpc2:3977236] PMIX ERROR: OUT-OF-RESOURCE in file ../../../../../../3rd-party/openpmix/src/mca/bfrops/base/bfrop_base_unpack.c at line 750",
            "https://github.com/openpmix/openpmix/issues/2948",
        ),
        (
            "[nid002424:601313] PMIX ERROR: OUT-OF-RESOURCE in file base/bfrop_base_unpack.c at line 750",
            "https://github.com/open-mpi/ompi/issues/12146",
        ),
        (
            "[node1:21] OPAL ERROR: Unreachable in file ext3x_client.c at line 112",
            "https://github.com/CosmoStat/shapepipe/issues/744",
        ),
    ),
    "mpi-warnings": (
        (
            "[node1:12] mca_base_component_repository_open: unable to open mca_pml_ucx: libucp.so.0: cannot open shared object file: No such file or directory (ignored)",
            "https://github.com/clustervision/trinity/issues/160",
        ),
        (
            "[node1:12] Read -1, expected 131072, errno = 1",
            "https://github.com/horovod/horovod/issues/503",
        ),
    ),
    "mpi-time-limit": (
        (
            "The user-provided time limit for job execution has been reached:\n\n  Timeout: 180 seconds\n\nThe job will now be aborted.",
            "https://github.com/IBM/powerai/issues/141",
        ),
    ),
    "mpi-gtl-missing": (
        (
            "MPICH ERROR [Rank 0] [job id ] [Thu Jan 30 22:35:30 2025] [x3006c0s19b1n0] - Abort(-1) (rank 0 in comm 0): MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked\n (Other MPI error)",
            "https://github.com/APPFL/APPFL/issues/258",
        ),
    ),
    "jsrun-refused": (
        (
            "Error: error in ptssup_mkcltsock_afunix()\n07-07-2021 19:38:56:375 60873 main: Error initializing RM connection. Exiting.",
            "https://github.com/radical-cybertools/radical.pilot/issues/2419",
        ),
        (
            "Error: Requested job constraints cannot be met (See /tmp/jsm.batch2.15609/3526915/saved_resources-11_partially_filled for location of partially fullfilled allocation)",
            "https://github.com/radical-cybertools/radical.pilot/issues/2673",
        ),
        (
            "Error: It is only possible to use js commands within a job allocation unless CSM is running",
            "jsrun, unverified",
        ),
        (
            "Error: Remote JSM server is not responding on host batch1",
            "jsrun, unverified",
        ),
    ),
    "horovod-not-initialized": (
        (
            "ValueError: Horovod has not been initialized; use hvd.init().",
            "horovod 0.28, source",
        ),
    ),
    "horovod-step-order": (
        (
            "AssertionError: Gradients were computed more than backward_passes_per_step times before call to step(). Increase backward_passes_per_step to accumulate gradients locally.",
            "horovod 0.28, source",
        ),
        (
            "AssertionError: optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). This is prohibited as it can cause a race condition.",
            "horovod 0.28, source",
        ),
    ),
    "mpi-rank-invalid": (
        (
            "[g2-nasp:24252] *** MPI_ERR_ROOT: invalid root",
            "https://github.com/pytorch/pytorch/issues/20200",
        ),
        (
            "Abort(67791110) on node 0 (rank 0 in comm 0): Fatal error in internal_Send: Invalid rank, error stack:\ninternal_Send(78).: Invalid rank has value 1 but must be nonnegative and less than 1",
            "https://github.com/kokkos/kokkos-comm/issues/134",
        ),
        (
            "[login1:1032368] *** MPI_ERR_RANK: invalid rank",
            "Open MPI 4.1, source",
        ),
        (
            "PMPI_Bcast(1576): Invalid root (value given was 1389571432)",
            "MPICH 3.4, source",
        ),
        (
            "internal_Send(78).: Invalid rank has value 2 but must be nonnegative and less than 2",
            "MPICH 4.0, source",
        ),
    ),
    "cma-forbidden": (
        (
            "[1705415958.879795729] machine:rank1.cpu_allreduce_test: Reading from remote process' memory failed. Disabling CMA support\nmachine:rank1: Assertion failure at psm3/ptl_am/ptl.c:196: nbytes == req->req_data.recv_msglen",
            "https://github.com/uxlfoundation/oneCCL/issues/109",
        ),
        (
            "node7.4215Writing to remote process' memory failed. Disabling CMA support",
            "opa-psm2 11.2, source",
        ),
        (
            "[lxbk1012:3549626:0:3549626]      cma_ep.c:84   process_vm_readv(pid=3549634 {0x24ed520,12480}-->{0x1bd42a0,12480}) returned -1: Operation not permitted\n==== backtrace (tid:3549626) ====",
            "https://github.com/openucx/ucx/issues/8958",
        ),
        (
            "[1556700000.123456] [node1:2100:0]        cma_ep.c:113  UCX  ERROR process_vm_readv delivered 0 instead of 480960, error message Operation not permitted",
            "UCX 1.5, source",
        ),
    ),
    "mpi-fabric-failed": (
        (
            "MPIDI_OFI_handle_cq_error(1008): OFI poll failed (ofi_events.h:1008:MPIDI_OFI_handle_cq_error:Cannot allocate memory)",
            "https://github.com/ofiwg/libfabric/issues/5648",
        ),
        (
            "MPIDI_OFI_handle_cq_error(1059): OFI poll failed (ofi_events.c:1061:MPIDI_OFI_handle_cq_error:Message too long - OK)",
            "https://github.com/reger-men/HPL_GPU/issues/20",
        ),
    ),
}
