"""Accelerators that are no GPU of NVIDIA or AMD: Ascend NPU, Intel XPU and Gaudi, TPU, Apple MPS, Moore Threads."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

# torch_npu prints the rank above the message of CANN.
_NPU_RANK = r"RankID:(?P<speaker>\d+)\)"

ENTRIES = (
    Entry(
        id="accelerator-out-of-memory",
        title="NPU out of memory; XPU out of memory; MPS backend out of memory; RESOURCE_EXHAUSTED on a TPU",
        patterns=(
            r"\b(?P<device>NPU|XPU|HPU|MUSA|MLU|MPS backend|PrivateUse1) out of memory\b",
            r"\bRan out of memory in memory space (?P<space>\w+)\b",
            r"\bAttempting to (?:reserve|allocate) (?P<size>[\d.]+[KMGT]?)\b.*That was not possible",
            r"RESOURCE_EXHAUSTED: Out of memory (?:while trying to allocate|allocating)",
            r"Allocation is out of device memory on current platform",
            r"UR_RESULT_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)",
            r"PI_ERROR_OUT_OF_(?:DEVICE_MEMORY|RESOURCES)",
            r"MODULE:PT_DEVMEM Allocation failed for size",
            r"\(EL0004\): Failed to allocate memory",
            r"\bEL0004: .*Failed to allocate memory",
            r"Failed to allocate \d+ bytes of NPU memory",
            r"\bNPU (?:function )?error.*, error code is (?:207001|207018)\b",
            r"ZE_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY",
        ),
        explains=(
            "npu-error",
            "npu-not-started",
            "npu-operator-failed",
            "accelerator-lost",
            "oneccl-error",
            "uncaught-exception",
        ),
        context=_NPU_RANK,
        cause="the memory of the accelerator[ ({device})] is full. The model, batch or sequence is too large, or each rank loads the "
        "whole model. At the very start, another process uses the memory",
        probe="Ascend: npu-smi info; Gaudi: hl-smi; Intel: xpu-smi stats -d 0; TPU: tpu-info",
        fix="reduce the batch or the sequence per rank, or use activation checkpointing, bf16, and FSDP or ZeRO-3. Against "
        "fragmentation on Ascend: PYTORCH_NPU_ALLOC_CONF=expandable_segments:True. Apple: close other programs, or "
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
        link="https://github.com/hiyouga/LlamaFactory/issues/5491",
    ),
    Entry(
        id="accelerator-busy",
        title="Failed to initialize the HCCP process; The TPU is already in use; libtpu.so already in use by another process",
        patterns=(
            r"Failed to initialize the HCCP process",
            r"The TPU is already in use by (?:process with pid (?P<pid>\d+)|another process)",
            r"libtpu\.so (?:is )?already in use",
            r"TPU initialization failed: open\((?P<path>[^)]+)\): (?P<reason>[\w ]+)",
            r"Couldn't open device: (?P<path>/dev/accel\d+) \((?P<reason>[^)]+)\)",
            r"Couldn't open iommu group (?P<path>\S+)",
        ),
        explains=("npu-error", "npu-not-started", "hccl-timeout"),
        context=_NPU_RANK,
        cause="another process[ ({pid})] holds the accelerator[ {path}]. It is a rank of an earlier run that has not ended, "
        "or another user's. A second process cannot use it",
        probe="ps -ef | grep python; Ascend: npu-smi info; TPU: sudo lsof -w /dev/accel* /dev/vfio/*",
        fix="end these processes, wait half a minute, and start again. On a TPU without any process: use a torch_xla and a "
        "libtpu of one version, or create the VM again. Do not open the device in the parent before the ranks start",
        action="retry",
        reason="an earlier process had not released the accelerator",
        link="https://github.com/hiyouga/LlamaFactory/issues/3839",
    ),
    Entry(
        id="accelerator-lost",
        title="Device lost heartbeat; UR_RESULT_ERROR_DEVICE_LOST; habanalabs: Device is NOT usable",
        patterns=(
            r"\bDevice\[(?P<device>\d+)\] lost heartbeat",
            r"reason=\[?lost heartbeat",
            r"task scheduler loses the heartbeat",
            r"host device communication \(HDC\) session is disconnected",
            r"\bEL0001\b.*Device not found or invalid",
            r"UR_RESULT_ERROR_DEVICE_LOST",
            r"Driver must be Open to DMA map",
            r"PI_ERROR_DEVICE_(?:LOST|NOT_AVAILABLE)",
            r"habanalabs (?P<device>\S+): .*Device is NOT usable",
            r"habanalabs (?P<device>\S+): Failed to communicate with Device CPU",
        ),
        explains=("npu-error", "npu-not-started"),
        context=_NPU_RANK,
        cause="the driver lost the accelerator[ {device}]: it hung, was reset, or is defective. On Intel GPUs, this is also "
        "printed when memory is full",
        probe="on {host|that host}: dmesg -T | tail -50; Ascend: npu-smi info -t health -i 0; Gaudi: hl-smi",
        fix="reset the device or restart the host, and update driver and firmware together. If it happens on one host only, "
        "exclude that host. On Intel GPUs, try a smaller batch first",
        action="exclude",
        reason="an accelerator of the host is lost",
        link="https://github.com/intel/intel-extension-for-pytorch/issues/780",
    ),
    Entry(
        id="hccl-timeout",
        title="EI0002: The wait execution of the Notify register times out; EI0006: Getting socket times out",
        kind="generic",
        patterns=(
            r"wait execution of the Notify register times out(?:.*remote rank:? ?\[(?P<peer>\d{1,6})\])?",
            r"timeout occurs when the Notify register waits for execution(?:\. Waiting peer rank: (?P<peer>\d{1,6}))?",
            r"\bGetting socket times out\b",
            r"\bhccl fftsplus task timeout occurred",
            r"\bStream synchronize timeout\b",
            r"reason=\[?(?:stream sync timeout|task timeout|event sync timeout)",
            r"\bNPU (?:function )?error.*, error code is (?:107020|507046|507048)\b",
        ),
        explains=("npu-error",),
        context=_NPU_RANK,
        cause="an NPU waited for another one in a collective[, for rank {peer} of the group], and the time was up. That rank "
        "died, hangs, is slow, or came to another collective. Or the links between the NPUs are down",
        probe="which rank has another error, or the earliest one. On each host: for i in $(seq 0 7); do hccn_tool -i $i -link "
        "-g; hccn_tool -i $i -tls -g; done",
        fix="read the log of the rank that does not print this. If a rank is only slow (it loads, evaluates, saves): "
        "HCCL_CONNECT_TIMEOUT=1800, HCCL_EXEC_TIMEOUT=3600, and a longer timeout in init_process_group. Use the same "
        "TLS switch and a working link on all NPUs",
        link="https://github.com/Ascend/pytorch/issues/48",
    ),
    Entry(
        id="hccl-port",
        title="EJ0003, EI0019: Failed to bind the IP port. The IP address and port have been bound already",
        patterns=(
            r"Failed to bind the IP port\b",
            r"Failed to enable listening for the (?:host|NPU) network adapter socket",
            r"host nic listen start failed, port\[(?P<port>\d+)\]",
            r"listen on ip\[(?P<address>[\w.:]+)\] and specific port\[(?P<port>\d+)\] fail",
        ),
        explains=("npu-error",),
        context=r"\bport\[(?P<port>\d+)\]",
        cause="HCCL's port[ {port}] is in use on this host: a second job uses NPUs here with the same ports, or an earlier run "
        "has not ended",
        probe="ss -ltnp | grep -E ':(60[0-9]{3}|16666)'; ps -ef | grep python",
        fix="give each job of a host its own ports: HCCL_IF_BASE_PORT=61000, and with a CANN that knows them, "
        "HCCL_HOST_SOCKET_PORT_RANGE=auto and HCCL_NPU_SOCKET_PORT_RANGE=auto. End earlier runs",
        link="https://github.com/vllm-project/vllm-ascend/issues/405",
    ),
    Entry(
        id="npu-operator-failed",
        title="The aicore execution is abnormal; The vector core execution times out; aicpu exception",
        patterns=(
            r"The (?:aicore|vector core|aicpu) execution (?:is abnormal|times out)",
            r"Vector core execution timed out",
            r"\baicore exception\b",
            r"\[aicpu exception\]",
            r"\b[Aa]icpu kernel execute failed",
            r"exception of (?:\w+ )?(?:aicore|aivec\w*) error",
            r"\bNPU (?:function )?error.*, error code is (?:507011|507014|507015|507017|507018|507034|507035)\b",
        ),
        explains=("npu-error",),
        context=_NPU_RANK,
        cause="an operator crashed on the NPU. An index is out of range (labels, token ids), or it does not support its input's shape or "
        "type. Or CANN and torch_npu do not fit",
        probe="repeat with ASCEND_LAUNCH_BLOCKING=1, which shows the true line; the plog files in ~/ascend/log",
        fix="check the input of that line. Install a CANN, driver and torch_npu of one release. For sampling while "
        "generating: do_sample=False",
        link="https://github.com/modelscope/ms-swift/issues/1243",
    ),
    Entry(
        id="npu-not-started",
        title="Failed to start the device; open device 0 failed, runtime result = 507033",
        patterns=(
            r"Failed to start the device\.",
            r"open device (?P<device>\d+) failed, runtime result = (?!107001)\d+",
            r"\bSetDevice.*error code is 507033\b",
            r"Failed to verify the OPP",
            r"Start aicpu executor failed",
        ),
        explains=("npu-error",),
        context=_NPU_RANK,
        cause="the NPU[ {device}] could not be started. Driver, firmware and CANN do not fit, its files are not in the "
        "container, or another process fills its memory",
        probe="npu-smi info; cat /usr/local/Ascend/driver/version.info; ls -l /dev/davinci*",
        fix="install a driver, firmware and CANN of one release. In a container, add --device /dev/davinciN, "
        "/dev/davinci_manager, /dev/devmm_svm and /dev/hisi_hdc, and mount /usr/local/Ascend/driver. End other processes "
        "on the NPU",
        action="exclude",
        reason="an NPU of the host does not start",
        link="https://github.com/vllm-project/vllm-ascend/issues/4284",
    ),
    Entry(
        id="npu-not-visible",
        title="HCCL function error: error code is 15; rtGetDeviceIndexByPhyId execute failed, reason=[device id error]",
        patterns=(
            r"\bphyid:(?P<npu>\d+)\b.*\bGetDeviceIndexByPhyId\b",
            r"\brtGetDeviceIndexByPhyId execute failed, reason=\[device id error\]",
        ),
        explains=("npu-error",),
        context=_NPU_RANK,
        cause="HCCL asked for NPU[ {npu}], which this process does not see: ASCEND_RT_VISIBLE_DEVICES shows each rank "
        "its own NPU alone",
        probe="in each rank: echo $ASCEND_RT_VISIBLE_DEVICES",
        fix="show all NPUs of the job to all ranks of a host, and call torch.npu.set_device(LOCAL_RANK). A newer CANN does "
        "not ask for the other NPU where it does not need it",
        link="https://github.com/vllm-project/vllm-ascend/issues/672",
    ),
    Entry(
        id="npu-initialized-twice",
        title="Repeated initialization or repeated loading; error code is 100002",
        patterns=(
            r"Repeated initialization or repeated loading",
            r"\bNPU (?:function )?error.*, error code is 100002\b",
        ),
        explains=("npu-error",),
        cause="two libraries of this process initialized the NPU (aclInit): torch_npu, and an inference library or the script",
        probe="grep -rnE 'aclInit|acl\\.init|mindx|ais_bench' in the code",
        fix="import torch_npu first and do not call acl.init() in the script, or move the other library to a process of "
        "its own. A newer torch_npu accepts a second initialization",
        link="https://github.com/BytePioneer-AI/PaddleOCR-NPU/issues/9",
    ),
    Entry(
        id="cann-python",
        title="EC0010: Failed to import Python module; [Init][Env]init env failed",
        patterns=(
            r"\[Init\]\[Env\]init env failed",
            r"Failed to import Python module \[(?P<error>.+?)\](?:\.|$)",
        ),
        explains=("npu-error", "aborted"),
        cause="CANN compiles operators with this Python, and a package that it needs is missing or too new[: {error}]",
        probe="python -c 'import numpy, decorator, sympy, scipy, attr, psutil, cffi, yaml; print(numpy.__version__)'",
        fix="pip install 'numpy<2' decorator sympy scipy attrs psutil cffi pyyaml pathlib2 protobuf absl-py, in the "
        "environment of the ranks",
        link="https://github.com/Ascend/pytorch/issues/7",
    ),
    Entry(
        id="npu-error",
        title="ERR00100 PTA call acl api failed; ERR02200 DIST call hccl api failed; EZ9999: Inner Error!",
        kind="generic",
        patterns=(
            r"RankID:(?:-1|(?P<rank>\d+))\) ERR\d{5} \w+ call \w+ api failed",
            r"\b(?:NPU|HCCL|OPS) (?:function )?error\b.*error code is ?:? ?(?P<code>\d+)",
            r"\[ERROR\] HCCL error in: ",
            r"Rectify the fault based on the error information in the ascend log",
            r"\bE[A-Z]9999:? .*\[FUNC:\w+\]\[FILE:",
            r"\bE[A-Z]9999: Inner Error",
            r"\bACL stream synchronize failed\b",
            r"RuntimeError: The Inner error is reported as above",
            r"\[ERROR\] HCCL\(\d+,.*\berrNo\[0x0*(?P<code>\w+)\]",
            r"\bHcclCommInit\w+ fail, error:(?P<code>\d+), rank:(?P<rank>\d+)",
        ),
        cause="a call to CANN, the software of the NPU, failed[ with code {code}]. The reason is in a line of the form EI0002, "
        "EZ9999 or EL0004 near it, or in CANN's own log",
        probe="repeat with ASCEND_LAUNCH_BLOCKING=1; grep -rh ERROR ~/ascend/log/debug/plog | head -20",
        fix="read the first ERROR of the plog of the rank that failed first. Install a CANN, driver and torch_npu of one "
        "release",
        link="https://github.com/hiyouga/LlamaFactory/issues/3670",
    ),
    Entry(
        id="npu-exit-report",
        title="ERR99999 UNKNOWN applicaiton exception",
        kind="consequence",
        patterns=(r"RankID:(?:-1|(?P<rank>\d+))\) ERR99999 UNKNOWN appli\w+ exception",),
        cause="torch_npu prints this when the script ends with any exception",
        probe="the exception above it",
        fix="read the exception above it",
        link="https://github.com/vllm-project/vllm-ascend/issues/6935",
    ),
    Entry(
        id="oneccl-device-files",
        title="oneCCL: ze_fd_manager.cpp: opendir failed: could not open device directory; open failed: fd: -1",
        patterns=(r"ze_fd_manager\.cpp:\d+ \w+_device_fds: ", r"opendir failed: could not open device directory"),
        explains=("oneccl-error",),
        cause="oneCCL opens the GPUs by their files in /dev/dri/by-path, and cannot. The container has no such directory, or "
        "this user is not in the group of the files",
        probe="ls -l /dev/dri /dev/dri/by-path; id",
        fix="docker run --device /dev/dri -v /dev/dri/by-path:/dev/dri/by-path --group-add render, or add the user to the "
        "groups render and video. If the kernel permits it, CCL_ZE_IPC_EXCHANGE=sockets needs no such files",
        link="https://github.com/uxlfoundation/oneCCL/issues/121",
    ),
    Entry(
        id="oneccl-local-rank",
        title="failed to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets explicitly",
        patterns=(
            r"to get local_idx/count from ATL, set CCL_ZE_IPC_EXCHANGE=sockets",
            r"getenv_local_coord: condition .* failed",
        ),
        explains=("oneccl-error",),
        cause="oneCCL does not know the local rank and the number of ranks of this host: no mpirun started it, and torchrun's "
        "variables have other names",
        probe="in the ranks: env | grep -E 'LOCAL_RANK|LOCAL_SIZE|LOCAL_WORLD_SIZE|CCL_|PMI'",
        fix="before init_process_group, export CCL_PROCESS_LAUNCHER=none CCL_LOCAL_RANK=$LOCAL_RANK "
        "CCL_LOCAL_SIZE=$LOCAL_WORLD_SIZE, or CCL_ZE_IPC_EXCHANGE=sockets. Or start the ranks with mpirun",
        link="https://github.com/huggingface/accelerate/issues/2340",
    ),
    Entry(
        id="oneccl-error",
        title="|CCL_ERROR|; oneCCL: ... EXCEPTION",
        kind="generic",
        patterns=(
            r"\|CCL_ERROR\| (?P<error>.*)",
            r"\boneCCL: (?P<error>\S+:\d+ .*EXCEPTION.*)",
            r"RuntimeError: oneCCL: (?P<error>\S+:\d+ \S+)",
        ),
        cause="oneCCL failed: {error}",
        probe="repeat with CCL_LOG_LEVEL=info; python -c 'import torch; print(torch.__version__, "
        "torch.xpu.device_count())'",
        fix="read the CCL lines of all ranks. Use an oneAPI, driver and torch of one release, and try "
        "CCL_ATL_TRANSPORT=ofi and CCL_ZE_IPC_EXCHANGE=sockets",
        link="https://github.com/intel/torch-ccl/issues/71",
    ),
    Entry(
        id="gaudi-acquire",
        title="synStatus=26 [Generic failure] Device acquire failed; synDeviceAcquire failed with synapse error",
        patterns=(
            r"synStatus=\d+ \[(?P<status>[^\]]+)\] Device acquire failed",
            r"synDeviceAcquire\(.*failed with synapse error: (?P<status>\d+)",
        ),
        cause="this process got no Gaudi device ({status}). Other processes hold all of them, or the container has none. Or driver, "
        "firmware and SynapseAI are of different versions",
        probe="hl-smi; sudo lsof /dev/accel/accel* /dev/hl*; pip list | grep -i habana",
        fix="end processes of earlier runs. In docker: --runtime=habana -e HABANA_VISIBLE_DEVICES=all. Use an image whose "
        "version is that of the driver in `hl-smi`. Do not start more ranks than devices",
        link="https://github.com/huggingface/optimum-habana/issues/1611",
    ),
    Entry(
        id="gaudi-compile",
        title="Graph compile failed. synStatus=synStatus 26 [Generic failure]",
        patterns=(
            r"Graph compile failed\. synStatus=",
            r"\bsynNodeCreateWithId failed for node: (?P<operator>\w+) with synStatus",
        ),
        cause="SynapseAI could not compile the model for Gaudi. An operator, type or shape is not supported, or driver, "
        "SynapseAI and habana packages are of different versions",
        probe="hl-smi; pip list | grep -i habana; repeat with LOG_LEVEL_ALL=3 ENABLE_CONSOLE=true",
        fix="read the first [error] line of GC or SYN above it. Use one release of driver, SynapseAI, habana-torch-plugin and "
        "optimum-habana. To find the operator: PT_HPU_LAZY_MODE=0, and a smaller model",
        link="https://github.com/HabanaAI/vllm-fork/issues/484",
    ),
    Entry(
        id="xla-used-before-spawn",
        title="Runtime is already initialized. Do not use the XLA device before calling xmp.spawn",
        patterns=(
            r"Do not use the XLA device before calling xmp\.spawn",
            r"Cannot replicate if number of devices \(\d+\) is different from \d+",
        ),
        cause="the parent process opened the TPU before it started the ranks: a call of torch_xla, accelerate or the trainer, "
        "or an earlier cell of the notebook",
        probe="grep -nE 'xla_device|xm\\.|xr\\.|Accelerator\\(|TrainingArguments' in the script, above xmp.spawn",
        fix="move these calls into the function that xmp.spawn starts. In a notebook, restart the kernel first",
        link="https://github.com/pytorch/xla/issues/9303",
    ),
    Entry(
        id="toolkit-not-sourced",
        doubtful=True,
        title="libhccl.so, libascend_hal.so, libatb.so, libccl.so.1, libmccl.so.2: cannot open shared object file",
        patterns=(
            r"(?<![\w.+-])(?P<library>lib(?:hccl|hccp|ascend\w*|atb|opapi|acl_\w+|mccl|musa\w*|mublas\w*|mudnn\w*|ccl|sycl|mkl_sycl\w*|ur_loader|ze_loader|Synapse|hl_\w+)\.so[\w.]*): cannot open shared object file",
        ),
        explains=("library-missing",),
        cause="{library} belongs to the accelerator's toolkit or driver. Its environment was not set in this shell, or it is not in the "
        "container. Or the torch extension needs another version of it",
        probe="echo $LD_LIBRARY_PATH; find / -name '{library}*' 2>/dev/null",
        fix="in the job script, before python: source /usr/local/Ascend/ascend-toolkit/set_env.sh (for libatb: "
        "/usr/local/Ascend/nnal/atb/set_env.sh; libascend_hal is the driver's: mount it in a container). Intel: source "
        "/opt/intel/oneapi/setvars.sh. Moore Threads: export LD_LIBRARY_PATH=/usr/local/musa/lib",
        link="https://github.com/vllm-project/vllm-ascend/issues/262",
    ),
    Entry(
        id="hccl-ranks-missing",
        title="EI0015: Failed to collect cluster information of the communicator based on rootInfo detection",
        kind="generic",
        patterns=(
            r"Failed to collect cluster information of the communicator based on rootInfo detection(?:\. Reason: (?P<reason>[^.]+))?",
        ),
        explains=("npu-error", "hccl-timeout"),
        context=_NPU_RANK,
        cause="ranks did not meet at HCCL's root in time[: {reason}]. A rank did not come to this call, or its host cannot "
        "reach the root's address on this interface",
        probe="on each host: echo $HCCL_SOCKET_IFNAME $HCCL_IF_IP; ip -br addr; ping the root's address",
        fix="export HCCL_SOCKET_IFNAME=eth0 on all hosts, the interface of the common network, and open its ports. Read the log "
        "of the ranks that are missing. For slow starts: HCCL_CONNECT_TIMEOUT=600",
        link="https://github.com/vllm-project/vllm-ascend/issues/11542",
    ),
    Entry(
        id="hccl-mismatch",
        title="EI0005: The arguments for collective communication are inconsistent between ranks",
        patterns=(
            r"arguments for collective communication are inconsistent between ranks.*parameter \[?(?P<what>\w+)\]?, local(?: end)? \[?(?P<here>\d+)\]?, remote(?: end)? \[?(?P<there>\d+)",
            r"arguments for collective communication are inconsistent between ranks",
            r"parameters of operator (?P<op>\w+) are inconsistent between ranks, parameter (?P<what>\S+) is (?P<here>\S+) on the local rank and (?P<there>\S+) on the remote",
        ),
        explains=("npu-error", "hccl-timeout"),
        context=_NPU_RANK,
        cause="NPUs came to one collective with different arguments[: {what} is {here} here and {there} there]. Models, batches, "
        "code or the order of calls differ between the ranks",
        probe="print rank, name and shape before each collective; on each host: sha256sum train.py; pip list",
        fix="use the same script, configuration and packages on all hosts, and the same calls on all ranks: drop_last=True, and "
        "no collective under `if rank == 0`",
        link="https://www.mindspore.cn/tutorials/en/r2.6.0rc1/debug/error_analysis/cann_error_cases.html",
    ),
    Entry(
        id="hccl-link",
        title="EI0013: An error CQE occurred during operator execution; EI0009: Device transport init error",
        kind="generic",
        patterns=(
            r"error CQE occurred during operator execution(?:.*Peer information: server (?P<peer>[^\s,]+), device ID (?P<device>[^\s,]+))?",
            r"Device (?P<device>\S+) transport init error",
            r"SDMA memory copy task exception occurred",
        ),
        explains=("npu-error", "hccl-timeout"),
        context=_NPU_RANK,
        cause="the link between two NPUs failed[, to device {device}][ of {peer}]. A port went down, packets are lost, or the "
        "other process ended first",
        probe="on both hosts: for i in $(seq 0 7); do hccn_tool -i $i -link -g; hccn_tool -i $i -net_health -g; done",
        fix="look for a rank that ended first. If none did, repair the port or exclude the host. Check addresses and switch: "
        "hccn_tool -i 0 -ip -g, hccn_tool -i 0 -lldp -g",
        link="https://www.mindspore.cn/tutorials/en/r2.6.0rc1/debug/error_analysis/cann_error_cases.html",
    ),
    Entry(
        id="hccl-config",
        title="EI0001: Value for environment variable HCCL_IF_IP is invalid; EI0004: Failed to parse the ranktable file",
        patterns=(
            r"Value (?P<value>\S+) for (?:environment variable|ranktable variable|config) (?P<name>\w+) is invalid\. Expected value: (?P<wanted>.*?)\.?$",
            r"Failed to parse the ranktable file (?P<name>\S+?)\.? Reason: (?P<wanted>.*)",
            r"Config (?P<name>\w+) is missing in the ranktable file",
        ),
        explains=("npu-error",),
        cause="HCCL cannot use its configuration: {name}[ is {value}][. It wants: {wanted}]",
        probe="env | grep -E 'HCCL_|RANK_TABLE|ASCEND'; cat $RANK_TABLE_FILE",
        fix="correct or unset {name} on all hosts. torch_npu needs no ranktable file: unset RANK_TABLE_FILE",
        link="https://www.mindspore.cn/tutorials/en/r2.6.0rc1/debug/error_analysis/cann_error_cases.html",
    ),
    Entry(
        id="accelerator-number",
        title="open device 4 failed, runtime result = 107001; Invalid device ID",
        patterns=(
            r"open device (?P<device>\d+) failed, runtime result = 107001",
            r"Set visible device failed, invalid device=(?P<device>\d+), input visible devices:(?P<visible>[\d,]+)",
            r"\bNPU (?:function )?error.*, error code is 107001\b",
        ),
        explains=("npu-error", "npu-not-started"),
        context=_NPU_RANK,
        cause="a rank uses an NPU[, number {device},] that this process does not see[: visible are {visible}]. There are more ranks "
        "than NPUs, or ASCEND_RT_VISIBLE_DEVICES has numbers that do not exist here",
        probe="echo $ASCEND_RT_VISIBLE_DEVICES; npu-smi info -l; python -c 'import torch, torch_npu; "
        "print(torch.npu.device_count())'",
        fix="start one rank for each NPU that the last command counts. Give the numbers in ascending order, as npu-smi counts "
        "them from 0, or unset ASCEND_RT_VISIBLE_DEVICES. Use torch.npu.set_device(LOCAL_RANK)",
        link="https://github.com/vllm-project/vllm-ascend/pull/10227",
    ),
    Entry(
        id="accelerator-not-in-torch",
        title="Torch not compiled with XPU enabled; PyTorch is not linked with support for mps devices; No XPU devices are available",
        patterns=(
            r"Torch not compiled with (?P<device>XPU|NPU|HPU|MUSA) enabled",
            r"PyTorch is not linked with support for (?P<device>\w+) devices",
            r"No (?P<device>XPU|NPU|HPU) devices? (?:are|is) available",
        ),
        cause="this torch cannot use {device} devices. It is a build for CPU or CUDA, or the vendor's extension is not imported. Or the "
        "driver shows no device to this process",
        probe="python -c 'import torch; print(torch.__version__, torch.xpu.is_available(), torch.backends.mps.is_built())'; ls "
        "/dev/dri /dev/davinci*",
        fix="install the build for it (Intel: pip install torch --index-url https://download.pytorch.org/whl/xpu), or import "
        "torch_npu, habana_frameworks or torch_musa first. Check driver, container and groups. Otherwise use another device",
        link="https://github.com/pytorch/pytorch/issues/150260",
    ),
    Entry(
        id="no-backend-for-accelerator",
        title="No backend type associated with device type xpu",
        patterns=(
            r"No backend type associated with device type (?P<device>xpu|npu|hpu|mps|musa|mlu|xla)\b",
            r"The operator 'c10d::\w+' is not currently implemented for the (?P<device>XPU|MPS) device",
            r"\w+ isn't implemented on backend \[(?P<device>xpu)\]",
            r"\bProcessGroupGloo::\w+: invalid tensor type .*\bgot .*\bdevice=(?P<device>mps|xpu|hpu|npu)\b",
            r"strategies from the DDP family are not supported on the (?P<device>MPS) accelerator",
        ),
        explains=(
            "no-backend-for-device",
            "collective-sizes",
        ),
        cause="the process group has no backend for tensors of type {device}. init_process_group named another backend, or the "
        "library that registers it was not loaded",
        probe="python -c 'import torch; print(torch.__version__, torch.distributed.is_available())'; pip list | grep -iE "
        "'ccl|npu|habana'",
        fix="name the backend: for xpu, xccl, or ccl after import oneccl_bindings_for_pytorch. For npu, hccl after import "
        "torch_npu. For hpu, hccl after import habana_frameworks.torch.distributed.hccl. mps has none: use gloo with CPU tensors",
        link="https://github.com/intel/torch-xpu-ops/issues/1328",
    ),
    Entry(
        id="xla-mesh-lost",
        title="mesh_service.cc: Failed to meet rendezvous; RPC failed with status = Unavailable: Socket closed",
        kind="consequence",
        patterns=(
            r"mesh_service\.cc:\d+ : Failed to (?:meet rendezvous|retrieve mesh configuration)",
            r"mesh_service\.cc:\d+ : Check failed: impl_->channel->WaitForConnected\b",
            r"Task /job:\w+/replica:\d+/task:(?P<rank>\d+) heartbeat timeout\b",
            r"Failed to connect to client mesh master",
            r"RPC failed with status = \W?U(?:NAVAILABLE|navailable): Socket closed",
        ),
        explains=("peer-died",),
        cause="the process or the TPU service on the other side ended, and this one lost the connection to it",
        probe="the first exception of another process; free -g",
        fix="read the output of the process that ended first: often the host's memory is full, as each process loads the model. "
        "If none did, restart the TPU, and use one version of torch, torch_xla and libtpu",
        link="https://github.com/pytorch/xla/issues/2119",
    ),
    Entry(
        id="npu-kernels-missing",
        title="Op Cast does not has any binary; Get path and read binary_info_config.json failed; errno:561000",
        patterns=(
            r"\bOp (?P<operator>\w+) does not has any binary\b",
            r"Get path and read binary_info_config\.json failed",
            r"Cannot parse json for config file \[(?P<path>\S+/kernel/config/\S+)\]",
            r"Parse dynamic kernel config fail",
            r"launch failed for (?P<operator>\w+), errno:(?:561000|561103|561112)\b",
        ),
        explains=("npu-error", "own-exception"),
        context=_NPU_RANK,
        cause="CANN has no compiled operators for this NPU[ ({path})]. Its kernels package is not installed, or it is of "
        "another chip (910, 910b, 310p) or another release",
        probe="npu-smi info; ls /usr/local/Ascend/ascend-toolkit/latest/opp/built-in/op_impl/ai_core/tbe/kernel/config",
        fix="install the kernels package (Ascend-cann-kernels) of this chip and of the toolkit's own release, then source set_env.sh. "
        "Frameworks such as vLLM Ascend do not support the first Ascend 910",
        link="https://github.com/hiyouga/LlamaFactory/issues/3796",
    ),
    Entry(
        id="npu-chip-unsupported",
        title="Unsupported SOC version: Ascend310B4; Can not support soc_version: 104",
        patterns=(
            r"Unsupported (?:SOC|soc)[ _]version: (?:AscendSocVersion\.)?(?P<chip>\w+)",
            r"Can not support soc_version: (?P<chip>\d+)",
        ),
        explains=("npu-error", "npu-not-started", "own-exception"),
        context=_NPU_RANK,
        cause="this release of torch_npu, or the program, does not support the NPU of this host (version {chip})",
        probe="npu-smi info; python -c 'import torch_npu; print(torch_npu.npu.get_soc_version(), torch_npu.__version__)'",
        fix="use a release of torch_npu, CANN and the program that lists this chip, or a host with another NPU. If the version is "
        "UNDEFINED, the image is for another chip: take the one of this chip",
        link="https://github.com/vllm-project/vllm-ascend/issues/6796",
    ),
    Entry(
        id="accelerator-operator-missing",
        title="The operator 'aten::...' is not currently implemented for the MPS device; for the XPU device",
        patterns=(
            r"The operator '(?P<operator>(?!c10d::)[\w:.]+)' is not current(?:ly)? implemented for the (?P<device>MPS|XPU) device",
        ),
        explains=("own-exception",),
        cause="torch has no {operator} for GPUs of type {device} (MPS: Apple; XPU: Intel)",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="PYTORCH_ENABLE_{device}_FALLBACK=1 before the start of Python: the CPU then runs this operator, which is slower. Newer "
        "releases of torch have more operators",
        link="https://github.com/pytorch/pytorch/issues/77764",
    ),
    Entry(
        id="npu-versions-differ",
        title="libtorch_npu.so: undefined symbol: ...",
        patterns=(r"(?P<path>(?<![\w./-])/\S*/(?:torch_npu|Ascend)/\S+\.so[\w.]*): undefined symbol: (?P<symbol>\w+)",),
        explains=("undefined-symbol", "npu-error", "own-exception"),
        cause="{path} finds no {symbol}: torch_npu, torch, CANN and its NNAL package are not of one release, or not for one "
        "C++ ABI",
        probe="pip list | grep -i torch; cat /usr/local/Ascend/ascend-toolkit/latest/version.cfg; ls /usr/local/Ascend/nnal",
        fix="install torch and torch_npu of one version (torch_npu's README lists the CANN of each). Install the NNAL of that "
        "CANN, and source both set_env.sh files, of the toolkit and of nnal/atb",
        link="https://github.com/sgl-project/sglang/issues/28628",
    ),
    Entry(
        id="libtpu-versions-differ",
        title="tpu_library_init_fns.inc:100] TpuEmbeddingEngine_CollateMemory not available in this library",
        patterns=(r"tpu_library_init_fns\.inc:\d+\] (?P<symbol>\w+) not available in this library",),
        explains=("aborted",),
        cause="the libtpu.so of this host has no {symbol}: it is of another release than torch_xla",
        probe="pip list | grep -iE 'torch|libtpu'; ls -l /lib/libtpu.so; echo $TPU_LIBRARY_PATH",
        fix="install torch, torch_xla and libtpu together: pip install 'torch_xla[tpu]' -f "
        "https://storage.googleapis.com/libtpu-releases/index.html. Create the TPU VM with the runtime of that release, and "
        "unset TPU_LIBRARY_PATH",
        link="https://github.com/pytorch/xla/issues/4103",
    ),
    Entry(
        id="tpu-halted",
        title="Core halted unexpectedly: INTERNAL: Accelerator device halted prematurely",
        patterns=(
            r"\bCore halted unexpectedly\b",
            r"\bAccelerator device halted prematurely\b",
        ),
        explains=("aborted", "own-exception"),
        cause="a check in the program of the TPU failed, and the core stopped. Often the hosts of a pod ran different programs, or a "
        "cached program is of another release. Or the compiler has a bug",
        probe="grep -n 'halted' LOG, for the HLO that it names; repeat with one host, and with XLA_IR_DEBUG=1 XLA_HLO_DEBUG=1",
        fix="start the same code with inputs of the same shapes on all hosts, and empty XLA's compilation cache. Then try another "
        "release of torch_xla and libtpu, and report the HLO to pytorch/xla",
        link="https://github.com/pytorch/xla/issues/7138",
    ),
    Entry(
        id="xpu-no-fp64",
        title='invalid_kernel("uses-fp64-math")',
        patterns=(r"\binvalid_kernel\(\W?uses-fp64-math",),
        explains=("own-exception",),
        cause="the script calculates in double precision (float64), which this Intel GPU (Arc, or one of a laptop) does not have",
        probe="grep -n 'double\\|float64' train.py; clinfo | grep -i 'double-precision'",
        fix="use float32 for all tensors, and Python numbers in place of float64 arrays. Or let the driver emulate it, slowly: "
        "OverrideDefaultFP64Settings=1 and IGC_EnableDPEmulation=1",
        link="https://github.com/intel/intel-extension-for-pytorch/issues/285",
    ),
    Entry(
        id="xpu-runtime-error",
        title="RuntimeError: UR error",
        patterns=(r"RuntimeError: UR error\b",),
        cause="Intel's runtime for GPUs failed, and gives no reason. Often the oneAPI of this shell is not that of torch, the "
        "driver is too old, or this GPU, such as an integrated one, is not supported",
        probe="env | grep -E 'ONEAPI|CMPLR|SYCL|LD_LIBRARY_PATH'; python -m torch.utils.collect_env; repeat with SYCL_UR_TRACE=1",
        fix="start a new shell without oneAPI's setvars.sh, as torch's wheel brings its own, and install torch from "
        "https://download.pytorch.org/whl/xpu. Then update the driver of the GPU",
        link="https://github.com/pytorch/pytorch/issues/149953",
    ),
    Entry(
        id="tpu-pod-incomplete",
        title="TPU initialization failed: Invalid ..._worker_addresses. Expected 4 worker addresses, got 1; Failed to get global TPU topology",
        patterns=(
            r"TPU initialization failed: .*Expected (?P<wanted>\d+) worker addresses, got (?P<number>\d+)",
            r"\bFailed to get global TPU topology",
        ),
        cause="the TPU belongs to a pod of several hosts, and the program started on a part of them[: {number} of {wanted}]. Or "
        "TPU_PROCESS_ADDRESSES describes other hosts, as in some notebooks",
        probe="env | grep -E 'TPU_|PJRT'; gcloud compute tpus tpu-vm describe NAME --zone ZONE",
        fix="start the same command on all hosts: gcloud compute tpus tpu-vm ssh NAME --zone ZONE --worker=all "
        "--command='PJRT_DEVICE=TPU python3 train.py'. On one host: unset TPU_PROCESS_ADDRESSES CLOUD_TPU_TASK_ID",
        link="https://github.com/huggingface/transformers/issues/28204",
    ),
    Entry(
        id="neuron-device-busy",
        title="ERROR TDRV:tdrv_init_mla_phase1 Could not open the nd3",
        patterns=(r"\bTDRV:tdrv_init_mla_phase1\s+Could not open the (?P<device>nd\d+)",),
        explains=("own-exception",),
        cause="the Neuron runtime could not open device {device}. Another process holds it, two ranks were given the same "
        "cores, or the container does not have it",
        probe="neuron-ls; neuron-top; ls /dev/neuron*; env | grep NEURON_RT",
        fix="end the other process, and give each rank its own cores: torchrun --nproc-per-node of the number of cores, without "
        "NEURON_RT_VISIBLE_CORES of another job. In a container: --device=/dev/neuron0 and so on",
        link="https://github.com/aws-neuron/aws-neuron-sdk/issues/851",
    ),
    Entry(
        id="neuron-runtime",
        doubtful=True,
        title="Neuron runtime cannot be initialized; NRT:nrt_init Unable to determine Neuron Driver version",
        patterns=(
            r"Neuron runtime cannot be initialized",
            r"\bNRT:nrt_init\s+(?P<reason>Unable to .+|Failed to .+)",
        ),
        explains=("own-exception",),
        cause="the runtime of AWS Neuron got no NeuronCores[: {reason}]. Another process holds them, the container has no "
        "/dev/neuron0, or the driver is not installed",
        probe="neuron-ls; ls /dev/neuron*; lsmod | grep neuron",
        fix="end old processes (neuron-ls lists them), and let each rank use its own cores: torchrun sets them, or NEURON_RT_VISIBLE_CORES. "
        "In a container: --device=/dev/neuron0, and so on. Otherwise install aws-neuronx-dkms on the host",
        link="https://github.com/aws-neuron/aws-neuron-samples/issues/44",
    ),
    Entry(
        id="rocblas-kernels-missing",
        title="rocBLAS error: Cannot read .../rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1103",
        patterns=(
            r"rocBLAS error: Cannot read (?P<path>.*?TensileLibrary\.dat)(?:: (?:Illegal seek|No such file or directory))?(?: for GPU arch : (?P<number>\w+))?",
        ),
        explains=("aborted", "own-exception"),
        cause="rocBLAS has no kernels for this GPU[ ({number})] in {path}. This ROCm does not support the GPU, or torch and the "
        "installed ROCm are of different versions",
        probe="rocminfo | grep gfx; ls the directory of that file: the names end in the GPUs that it supports",
        fix="a torch for the installed ROCm, or a newer ROCm that has this GPU. For a GPU of the same family: export "
        "HSA_OVERRIDE_GFX_VERSION=10.3.0 (or 11.0.0), which AMD does not support",
        link="https://github.com/ROCm/rocBLAS/issues/1299",
    ),
    Entry(
        id="amd-visible-devices-both",
        title="Please don't set ROCR_VISIBLE_DEVICES when HIP/CUDA_VISIBLE_DEVICES is set",
        patterns=(
            r"don't set ROCR_VISIBLE_DEVICES when HIP/CUDA_VISIBLE_DEVICES is set",
            r"use the same HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES, inconsistant values",
        ),
        cause="two variables select the AMD GPUs of this process, and verl refuses that. ROCR_VISIBLE_DEVICES, which SLURM sets, "
        "renumbers the GPUs before HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES (of Ray) selects among them",
        probe="in the ranks: env | grep VISIBLE_DEVICES",
        fix="unset ROCR_VISIBLE_DEVICES before `ray start` and in the job script, and keep one of the others, with equal values on "
        "all nodes",
        link="https://github.com/Parsl/parsl/issues/3858",
    ),
    Entry(
        id="oneccl-worker",
        title="oneCCL: error while creating worker thread #0 pthread_create returns 22",
        patterns=(
            r"error while creating worker thread #\d+ pthread_create returns (?P<error>\d+)",
            r"\boneCCL: .*EXCEPTION: failed to start worker",
        ),
        explains=("oneccl-error", "cannot-fork"),
        cause="oneCCL could not start its own thread on the core that it chose. Error 22: the process may not use this core, as SLURM, a container or "
        "taskset gives it other ones",
        probe="in the job: taskset -pc $$; env | grep -E 'CCL_WORKER|CCL_LOCAL|I_MPI_PIN'",
        fix="start the ranks by mpirun, which passes their local numbers to oneCCL, or export CCL_WORKER_AFFINITY with cores of the job, one for each rank "
        "of the host (`taskset -pc $$` lists them). Give each rank more than one core",
        link="https://github.com/intel/torch-ccl/issues/54",
    ),
)
