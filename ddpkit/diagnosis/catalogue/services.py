"""Downloads and services: models, data sets, trackers."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="hydra-config-missing",
        title="In 'hydra/config': Could not find 'hydra/launcher/submitit_local'",
        patterns=(
            r"Could not (?:find|override) '(?P<config>hydra/[\w/]+)'",
            r"Could not load '(?P<config>hydra/[\w/]+)'",
        ),
        cause="Hydra cannot find {config}: the plugin that contains it is not installed in this Python, or the name is "
        "misspelled",
        probe="python SCRIPT --info plugins; pip list | grep -i hydra",
        fix="pip install the plugin on all nodes: hydra-submitit-launcher for submitit, hydra-joblib-launcher for joblib, "
        "hydra-colorlog for colorlog. Or remove the override",
        link="https://hydra.cc/docs/plugins/submitit_launcher/",
    ),
    Entry(
        id="k8s-unschedulable",
        title="0/5 nodes are available: 5 Insufficient nvidia.com/gpu",
        patterns=(
            r"\d+/\d+ nodes are available: (?P<reason>.*)",
            r"pod has (?P<reason>unbound immediate PersistentVolumeClaims)",
            r"pod didn't trigger scale-up(?: \([^)]*\))?: (?P<reason>.*)",
            r"Node didn't have enough resource: (?P<reason>(?:cpu|memory|pods), requested: \d+, used: \d+, capacity: \d+)",
        ),
        cause="Kubernetes found no node for the pod: {reason}",
        probe="kubectl describe pod NAME; kubectl describe nodes | grep -A8 Allocated",
        fix="request less (GPUs, memory), free nodes, or correct nodeSelector, tolerations and the name of "
        "the GPU resource",
        action="retry",
        reason="no node had free resources",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/",
    ),
    Entry(
        id="pod-evicted-disk",
        title="The node was low on resource: ephemeral-storage",
        patterns=(
            r"node was low on resource: (?:ephemeral-storage|inodes|(?:node|image)fs)(?:.*Container (?P<container>\S+) was using (?P<used>\w+),.*request (?:is|of) (?P<request>\w+))?",
            r"node had condition: \[DiskPressure\]",
        ),
        cause="the node's local disk was nearly full, and Kubernetes evicted the pod[: its container {container} used {used}, "
        "with a request of {request}]. Files in the container, its log, and emptyDir volumes count",
        probe="kubectl describe pod NAME; kubectl describe node NODE | grep -A8 Allocated; in the container: du -xsh /* ~/.cache",
        fix="write checkpoints, data and caches (HF_HOME, TMPDIR, WANDB_DIR) to a mounted volume. Then set "
        "resources.requests.ephemeral-storage and limits.ephemeral-storage to what the pod needs",
        action="retry",
        reason="the node's disk was nearly full",
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
    ),
    Entry(
        id="pod-evicted-memory",
        title="The node was low on resource: memory",
        patterns=(
            r"node was low on resource: memory(?:.*Container (?P<container>\S+) was using (?P<used>\w+),.*request (?:is|of) (?P<request>\w+))?",
            r"node had condition: \[MemoryPressure\]",
        ),
        cause="the node's memory was nearly full, and Kubernetes evicted the pod[: its container {container} used {used}, with "
        "a request of {request}]. Pods that use more than their request are evicted first",
        probe="kubectl describe pod NAME; kubectl top pod; kubectl describe node NODE | grep -A8 Allocated",
        fix="set resources.requests.memory and limits.memory to what the pod needs, and both to the same value. Or use fewer "
        "DataLoader workers, and a smaller emptyDir at /dev/shm: it is memory, too",
        action="retry",
        reason="the node's memory was nearly full",
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
    ),
    Entry(
        id="pod-storage-limit",
        title="Pod ephemeral local storage usage exceeds the total limit of containers; Usage of EmptyDir volume exceeds the limit",
        patterns=(
            r"Pod ephemeral local storage usage exceeds the total limit of containers (?P<limit>\w+)",
            r"exceeded its local ephemeral storage limit \"(?P<limit>\w+)\"",
            r"Usage of EmptyDir volume \"(?P<volume>[^\"]+)\" exceeds the limit \"(?P<limit>\w+)\"",
        ),
        cause="the pod wrote more than its limit of {limit} to the node's disk[: the emptyDir volume {volume}], and Kubernetes "
        "evicted it",
        probe="kubectl get pod NAME -o yaml | grep -B3 -A3 -iE 'ephemeral|sizeLimit'; in the container: du -xsh /* ~/.cache",
        fix="write checkpoints, data and caches (HF_HOME, TMPDIR, WANDB_DIR) to a mounted volume, or raise "
        "limits.ephemeral-storage, or sizeLimit of the emptyDir",
        link="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#local-ephemeral-storage",
    ),
    Entry(
        id="pod-gpus-gone",
        title="UnexpectedAdmissionError: requested number of devices unavailable for nvidia.com/gpu; no healthy devices present",
        patterns=(
            r"requested number of devices unavailable for (?P<resource>\S+)\. Requested: (?P<wanted>\d+), Available: (?P<free>\d+)",
            r"Node didn't have enough resource: (?P<resource>\w[\w.-]*/[\w.-]+), requested: (?P<wanted>\d+), used: \d+, capacity: \d+",
            r"\bAllocate failed due to (?P<resource>(?!requested number|no healthy).*), which is unexpected",
            r"endpoint not found in cache for a registered resource: (?P<resource>\S+)",
            r"no healthy devices present; cannot allocate unhealthy devices (?P<resource>[\w./-]+)",
            r"device error: (?P<resource>no-gpu-has-\w+-to-run)",
        ),
        explains=("container-device-missing", "container-start-failed"),
        cause="the scheduler sent the pod to a node that does not have its GPUs any more: {resource}[, {wanted} requested, "
        "{free} free]. The node or its device plugin has just restarted, or a GPU there has an error",
        probe="kubectl describe node NODE | grep -A8 Allocatable; on that node: nvidia-smi; dmesg -T | grep -i xid",
        fix="start the pod again (a Job does so itself). If it comes back on one node: kubectl cordon NODE, and restart its "
        "device plugin",
        action="retry",
        reason="the node did not have the GPUs",
        link="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/",
    ),
    Entry(
        id="k8s-quota",
        title="pods is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8",
        patterns=(
            r"exceeded quota: (?P<quota>\S+), requested: (?P<wanted>.+?), used: (?P<used>.+?), limited: (?P<limit>\S+)",
        ),
        explains=("k8s-denied",),
        cause="the namespace's quota {quota} does not permit the pod: it requests {wanted}, and {used} of {limit} are used",
        probe="kubectl describe quota",
        fix="request less, or end other pods of the namespace. Otherwise request a larger quota from the administrators",
        link="https://kubernetes.io/docs/concepts/policy/resource-quotas/",
    ),
    Entry(
        id="pod-preempted",
        title="Preempted in order to admit critical pod; Preempted by a pod of higher priority",
        patterns=(
            r"Preempted in order to admit critical pod",
            r"\bPreempted by (?:pod )?\S+ on node (?P<host>\S+)",
            r"Preempted to accommodate a workload",
            r"\bEvictedDueToPreempted\b",
            r"\bWorkloadEvictedDueToPreempted\b",
        ),
        cause="Kubernetes ended the pod for a pod with a higher priority",
        probe="kubectl describe pod NAME; kubectl get priorityclass",
        fix="save checkpoints, and let the Job start the pod again. Or use a priorityClassName with a higher value",
        action="retry",
        reason="the pod was preempted",
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/",
    ),
    Entry(
        id="pod-volume",
        doubtful=True,
        title='MountVolume.SetUp failed for volume "data"; Unable to attach or mount volumes',
        patterns=(
            r"MountVolume\.\w+ failed for volume \"(?P<volume>[^\"]+)\" : (?!failed to sync)(?P<reason>.*)",
            r"Unable to attach or mount volumes: unmounted volumes=\[(?P<volume>[^\]]+)\]",
            r"cannot find volume \"(?P<volume>[^\"]+)\" to mount into container",
            r"Multi-Attach error for volume \"(?P<volume>[^\"]+)\" (?P<reason>.*)",
            r"AttachVolume\.\w+ failed for volume \"(?P<volume>[^\"]+)\" : (?P<reason>.*)",
            r"failed to prepare subPath for volumeMount \"(?P<volume>[^\"]+)\"",
            r"\bstorageclass\.storage\.k8s\.io \"(?P<volume>[^\"]+)\" (?P<reason>not found)",
        ),
        cause="Kubernetes cannot mount the volume {volume}, and the pod does not start[: {reason}]",
        probe="kubectl describe pod NAME; kubectl get pvc,pv; on that node: journalctl -u kubelet | grep -i mount",
        fix="create the claim, the secret or the ConfigMap that the volume names, in the pod's namespace. For NFS: install "
        "its client on the node, and check the path. A ReadWriteOnce volume can be used on one node only",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://kubernetes.io/docs/concepts/storage/persistent-volumes/",
    ),
    Entry(
        id="config-key-unknown",
        title="KeyError: 'Non-existent config key: X'; Key 'X' is not in struct; 'ConfigDict' object has no attribute 'X'",
        patterns=(
            r"Non-existent (?:config )?key: (?P<key>[\w.]+)",
            r"Key (?P<key>[\w.]+) was renamed to \S+; please update your config",
            r"\bKey '(?P<key>[\w.@/]+)' is not in struct",
            r"Could not override '(?P<key>(?!hydra/|local[-_]rank)[\w.@/]+)'",
            r"'(?:ConfigDict|CfgNode)' object has no attribute '(?P<key>\w+)'",
            r"ConfigAttributeError: Missing key (?P<key>\w+)",
            r"[Ii]nterpolation key '(?P<key>[\w.]+)' not found",
            r"Missing mandatory value: (?P<key>[\w.]+)",
            r"KeyError: \W+class `\w+` in \S+\.py: '(?P<key>\w+)'",
            r"`cfg` or `default_args` must contain the key \"(?P<key>\w+)\"",
        ),
        explains=("launcher-summary",),
        cause="the configuration and the code differ in the key {key}: it is misspelled, or missing, or the file was written "
        "for another version of the code",
        probe="grep -rn {key} in the code and in the configuration files",
        fix="correct the configuration file (--config, --config-file) or the override on the command line, or use the "
        "file that belongs to this version of the code. Hydra adds a new key with a plus: +{key}=VALUE",
        link="https://github.com/rbgirshick/yacs",
    ),
    Entry(
        id="download-refused",
        doubtful=True,
        title="urllib.error.HTTPError: HTTP Error 403: Forbidden",
        patterns=(r"\bHTTPError: HTTP Error (?P<code>40[1347]|429|50[0234])\b",),
        cause="a server refused a download (HTTP {code}): the file has moved, needs a login, or the server blocks this "
        "network or program. From 429 on, the server is down or has too many requests, for example one from each rank",
        probe="on that host: curl -sSIL URL, with the URL of the traceback",
        fix="download the data once, to a directory that all ranks read, or use another mirror. Let one rank of a node "
        "download, and the others wait",
        link="https://docs.python.org/3/library/urllib.error.html",
    ),
    Entry(
        id="download-unreachable",
        doubtful=True,
        title='Downloading: "https://download.pytorch.org/..."; URLError: urlopen error [Errno -2] Name or service not known',
        patterns=(
            r"urlopen error (?:\[Errno (?:-2|-3|101|110|111|113)\]|timed out)",
            r"RuntimeError: Error downloading (?P<file>\S+)$",
        ),
        context=r"Downloading:? \"?https?://(?P<host>[\w.-]+)",
        cause="this host cannot reach {host|the server} for a download. Compute nodes often have no internet access",
        probe="on that node: curl -sSI https://{host|NAME}; env | grep -i proxy",
        fix="run that download once on the login node, into a directory that all nodes share: TORCH_HOME=/shared/torch "
        "for models of torch.hub and torchvision, `root=` for data sets. Then export TORCH_HOME=/shared/torch",
        action="retry",
        reason="the server was not reachable",
        link="https://docs.pytorch.org/docs/stable/hub.html#where-are-my-downloaded-models-saved",
    ),
    Entry(
        id="hub-unreachable",
        doubtful=True,
        title="We couldn't connect to 'https://huggingface.co'; MaxRetryError",
        patterns=(
            r"We couldn't connect to 'https://huggingface\.co'",
            r"HTTPSConnectionPool\(host='(?P<host>[\w.-]+)', port=(?P<port>\d+)\): Max retries exceeded",
            r"Max retries exceeded with url",
            r"Checkout your internet connection or see how to run the library in offline mode",
            r"\bLocalEntryNotFoundError\b",
            r"HTTPSConnectionPool\(host='(?P<host>[\w.-]+)', port=\d+\): Read timed out",
            r"50\d Server Error: .*https://(?P<host>huggingface\.co)",
            r"thrown while requesting [A-Z]+ https?://(?P<host>[\w.-]+)",
            r"ConnectionError: Couldn't reach (?:https?://)?(?P<host>raw\.githubusercontent\.com|s3\.amazonaws\.com|[\w-]+\.[\w.-]*)?",
            r"\bhttpx\.(?:ConnectError|ConnectTimeout|ReadTimeout|ProxyError)\b",
        ),
        explains=("model-files-missing", "dataset-not-found"),
        cause="this host cannot reach {host|the server}, or gets no answer in time. Compute nodes often have no internet access",
        probe="on that node: curl -sSI https://{host|huggingface.co}",
        fix="download it on the login node into a shared cache: `HF_HOME=/shared/hf huggingface-cli download NAME`. "
        "Then export HF_HOME=/shared/hf HF_HUB_OFFLINE=1. With a slow way to it: HF_HUB_DOWNLOAD_TIMEOUT=60 HF_HUB_ETAG_TIMEOUT=60",
        action="retry",
        reason="the server was not reachable",
        scope="outside",
        link="https://huggingface.co/docs/transformers/installation#offline-mode",
    ),
    Entry(
        id="hub-no-access",
        title="401 Client Error; Cannot access gated repo; is not a valid model identifier",
        patterns=(
            r"Cannot access gated repo",
            r"You are trying to access a gated repo",
            r"\bGatedRepoError\b",
            r"\bRepositoryNotFoundError\b",
            r"(?:401|403) Client Error.*https://huggingface\.co",
            r"Client Error: (?:Unauthorized|Forbidden) for url: (?P<url>\S+)",
            r"is not a local folder and is not a valid model identifier",
            r"Dataset '(?P<name>[^']+)' doesn't exist on the Hub or cannot be accessed",
            r"Access to model \S+ is restricted",
            r"(?:Revision|Entry) Not Found for url: (?P<url>\S+)",
        ),
        cause="the model or data set was not found under this name, is gated, or the process has no token with access",
        probe="on that node: huggingface-cli whoami; for a local directory: ls PATH",
        fix="accept the licence on its page and pass a token (export HF_TOKEN), or correct the name or path",
        link="https://huggingface.co/docs/hub/models-gated",
    ),
    Entry(
        id="hub-rate-limit",
        doubtful=True,
        explains=("hub-unreachable", "download-incomplete"),
        title="429 Client Error: Too Many Requests",
        patterns=(
            r"429 Client Error",
            r"HTTP Error 429 thrown while requesting",
            r"Too Many Requests for url",
            r"\(429 Too Many Requests\)",
        ),
        cause="the server rejects requests: too many came from this address or account in a short time. Usual: each rank "
        "downloads on its own",
        probe="count the requests in the log: grep -cE '429|Too Many Requests|[Rr]ate limit' LOG",
        fix="download on one rank, or before the run, into a shared cache. Then export HF_HUB_OFFLINE=1. Requests "
        "with a token have higher limits. For one process: wait some minutes, and set max_workers=1",
        action="retry",
        reason="the server rejects too many requests",
        scope="outside",
        link="https://huggingface.co/docs/hub/rate-limits",
    ),
    Entry(
        id="ssl-certificate",
        doubtful=True,
        title="CERTIFICATE_VERIFY_FAILED",
        explains=("hub-unreachable",),
        patterns=(r"CERTIFICATE_VERIFY_FAILED", r"SSL certificate problem"),
        cause="the server's certificate is not trusted. A proxy of the site replaces it, the clock is wrong, or the "
        "image has no CA certificates",
        probe="date; curl -v https://huggingface.co 2>&1 | grep -i issuer",
        fix="export SSL_CERT_FILE=/path/to/site-ca.pem REQUESTS_CA_BUNDLE=/path/to/site-ca.pem. In the image: "
        "apt-get install ca-certificates",
        link="https://requests.readthedocs.io/en/latest/user/advanced/#ssl-cert-verification",
    ),
    Entry(
        id="wandb-login",
        doubtful=True,
        title="wandb: api_key not configured (no-tty)",
        patterns=(
            r"api_key not configured \(no-tty\)",
            r"wandb: ERROR .*(?:401|API key)",
            r"wandb\.errors\.\S*AuthenticationError",
            r"Invalid or missing api_key",
            r"CommError: user is not logged in",
            r"401 Client Error: Unauthorized for url: https://api\.wandb\.ai",
        ),
        explains=("hub-no-access",),
        cause="wandb has no valid API key on this host, and a rank cannot ask for one",
        probe="ls -l ~/.netrc on that node; env | grep WANDB_",
        fix="run `wandb login` once if the home directory is shared, or export WANDB_API_KEY. Without a key: export "
        "WANDB_MODE=offline",
        link="https://docs.wandb.ai/guides/track/environment-variables",
    ),
    Entry(
        id="wandb-unreachable",
        doubtful=True,
        title="wandb: Network error, entering retry loop; Run initialization has timed out after 90.0 sec",
        patterns=(
            r"Run initialization has timed out after (?P<seconds>[\d.]+) sec",
            r"wandb: ERROR .*(?:Max retries exceeded|Network is unreachable|timed out)",
            r"HTTPSConnectionPool\(host='api\.wandb\.ai', port=\d+\): (?:Max retries exceeded|Read timed out)",
        ),
        context=r"wandb: Network error \((?P<reason>\w+)\), entering retry loop",
        explains=("hub-unreachable", "wandb-login"),
        cause="wandb did not reach its server in time[ ({reason})]. Compute nodes often have no internet access, or need a "
        "proxy",
        probe="on that node: curl -sSI https://api.wandb.ai; env | grep -iE 'proxy|WANDB_'",
        fix="export WANDB_MODE=offline, and `wandb sync` on the login node later. With access through a proxy: export "
        "HTTPS_PROXY=http://HOST:PORT, or a longer time: export WANDB_INIT_TIMEOUT=300. Start wandb on rank 0 only",
        action="retry",
        reason="the server was not reachable",
        link="https://github.com/wandb/wandb/issues/7671",
    ),
    Entry(
        id="wandb-service",
        title="Timed out waiting for wandb service to start; Error communicating with wandb process",
        patterns=(
            r"Timed out waiting for wandb service to start after (?P<seconds>[\d.]+) seconds",
            r"ServicePollForTokenError: Failed to read port info after (?P<seconds>[\d.]+) seconds",
            r"The wandb service process exited with",
            r"UsageError: Error communicating with wandb process",
            r"InitStartError: Error communicating with wandb process",
            r"wandb: ERROR Error communicating with wandb process",
        ),
        cause="wandb starts a process of its own on the host, and that one did not start in time. Many ranks start it at "
        "once, the file system is slow, or processes are limited",
        probe="ulimit -u; df -h ${TMPDIR:-/tmp} ~; the end of wandb/debug-internal.log",
        fix="start wandb on rank 0 only, and give it more time: export WANDB__SERVICE_WAIT=300. Put its files on a local disk: "
        "export WANDB_DIR=/tmp",
        action="retry",
        reason="the process of wandb did not start in time",
        link="https://docs.wandb.ai/support/initstarterror_error_communicating_wandb_process/",
    ),
    Entry(
        id="wandb-no-access",
        doubtful=True,
        title="wandb: ERROR permission denied; CommError: returned error 404: entity not found",
        patterns=(
            r"wandb: ERROR .*(?:403|[Pp]ermission denied|404|not found during upsertBucket)",
            r"CommError: .*(?:403|404|permission|not found|cannot access this resource)",
            r"UsageError: Unable to attach to run (?P<run>\S+)",
        ),
        cause="the account of the API key cannot write to this entity or project of wandb, or no such entity exists",
        probe="wandb status; env | grep WANDB_; the arguments entity= and project= of wandb.init",
        fix="correct WANDB_ENTITY and the project, or use a key of an account with access: wandb login --relogin. To train "
        "without it: export WANDB_MODE=offline",
        link="https://docs.wandb.ai/support/resolve_permission_errors_logging_run/",
    ),
    Entry(
        id="wandb-argument",
        title="wandb.errors.UsageError: Invalid project name; is not a valid option for resuming a run",
        patterns=(
            r"\bUsageError: (?P<reason>Invalid project name .*?)\.?$",
            r"\bUsageError: (?P<reason>The value '\w+' is not a valid option for resuming a run.*?)\.?$",
            r"\bUsageError: (?P<reason>Run ID (?:cannot|must) .*)",
        ),
        cause="wandb refuses a name or an option: {reason}. A trainer often takes a path (output_dir, project) as the name. With "
        "resume='never', the id must be new; with 'must', the run must exist",
        probe="env | grep WANDB_; the arguments project=, id= and resume= of wandb.init",
        fix="export WANDB_PROJECT=NAME without / \\ # ? % :, and a WANDB_RUN_ID of its own for each run, or WANDB_RESUME=allow. To train "
        "without it: export WANDB_MODE=offline",
        link="https://docs.wandb.ai/guides/runs/resuming/",
    ),
    Entry(
        id="tracker-not-started",
        title="You must call wandb.init() before wandb.log()",
        patterns=(
            r"You must call wandb\.init\(\) before wandb\.(?P<call>\w+)",
            r"'NoneType' object has no attribute 'add_(?P<call>scalar|scalars|image|histogram|text|figure)'",
            r"No active Run\. Call (?P<call>swanlab\.init)\(\) first",
        ),
        cause="a rank logs to a tracker that it has not started: usually the script starts it on rank 0 only, and logs on "
        "all ranks",
        probe="grep -nE 'wandb\\.|add_scalar' of the script: which lines are below `if rank == 0`",
        fix="log on rank 0 only: `if rank == 0: wandb.log(...)`, for each call of the tracker",
        link="https://docs.wandb.ai/guides/track/log/distributed-training/",
    ),
    Entry(
        id="mlflow-unreachable",
        doubtful=True,
        title="MlflowException: API request to ... failed",
        patterns=(
            r"MlflowException: API request to (?P<url>http\S+) failed with exception",
            r"^(?!.*async_logging).*Max retries exceeded with url: (?P<url>/api/2\.0/mlflow\S*)",
            r"MlflowException: API request to (?:endpoint )?(?P<url>\S+) failed with error code (?P<code>\d+)",
        ),
        explains=("hub-unreachable", "ssl-certificate", "broken-pipe"),
        cause="MLflow's server did not accept a request[ (HTTP {code})]: {url}. It is not reachable from this host (localhost "
        "is another host there), needs a login, or does not run",
        probe="on that node: echo $MLFLOW_TRACKING_URI; curl -sSI $MLFLOW_TRACKING_URI",
        fix="set MLFLOW_TRACKING_URI=http://HOST:5000 to the server's name in the network, with "
        "MLFLOW_TRACKING_TOKEN where it needs a login. Without a server: MLFLOW_TRACKING_URI=file:/shared/mlruns",
        action="retry",
        reason="the server was not reachable",
        link="https://mlflow.org/docs/latest/self-hosting/architecture/tracking-server/",
    ),
    Entry(
        id="mlflow-run-shared",
        title="Changing param values is not allowed; Run with UUID is already active",
        patterns=(
            r"Changing param values is not allowed\. Param with key='(?P<name>[^']+)'",
            r"Run with UUID \w+ is already active",
        ),
        cause="several ranks or attempts write to one run of MLflow, and a parameter of a run cannot change[: {name}]",
        probe="grep -nE 'mlflow\\.(start_run|log_param|autolog)' of the script: which lines run on all ranks",
        fix="use MLflow on rank 0 only, and start a new run for another attempt: mlflow.end_run(), then mlflow.start_run()",
        link="https://github.com/mlflow/mlflow/issues/8705",
    ),
    Entry(
        id="tracker-not-configured",
        title="It seems ClearML is not configured on this machine; Comet.ml requires an API key",
        patterns=(
            r"It seems (?P<tracker>ClearML) is not configured on this machine",
            r"(?P<tracker>Comet)(?:\.ml)? requires an API key",
        ),
        cause="{tracker} has no address or key on this host",
        probe="on that node: ls -l ~/clearml.conf ~/.comet.config; env | grep -E 'CLEARML|COMET'",
        fix="run its setup once with a shared home directory (clearml-init), or pass the keys to the ranks: "
        "export CLEARML_API_ACCESS_KEY CLEARML_API_SECRET_KEY, COMET_API_KEY. Trainer without "
        "trackers: --report_to none",
        link="https://clear.ml/docs/latest/docs/clearml_sdk/clearml_sdk_setup",
    ),
    Entry(
        id="config-file-broken",
        title="yaml.scanner.ScannerError; Cannot find primary config; Environment variable not found",
        patterns=(
            r"yaml\.(?:scanner|parser|constructor|reader|composer)\.\w+Error: (?P<reason>.+)",
            r"Cannot find primary config '?(?P<reason>[^'.]+)",
            r"(?P<reason>Primary config (?:module|directory)\b.*) not found",
            r"InterpolationResolutionError: .*(?P<reason>Environment variable '[^']+' not found)",
            r"OverrideParseException: (?P<reason>.+)",
            r"LexerNoViableAltException: (?P<reason>.+)",
            r"(?=(?P<reason>missing EQUAL at .*))missing EQUAL at '",
            r"(?=(?P<reason>mismatched input .*))mismatched input '.*' expecting",
            r"(?=(?P<reason>extraneous input .*))extraneous input '.*' expecting",
            r"(?=(?P<reason>no viable alternative at input .*))no viable alternative at input '",
        ),
        cause="the configuration cannot be read: {reason}",
        probe="python -c 'import yaml,sys; yaml.safe_load(open(sys.argv[1]))' FILE; echo the command line",
        fix="correct the line of the file that the message names (YAML: a blank after each colon, no tabs), the name after "
        "--config-name and --config-path, or the variable. Put an override with special characters in quotes",
        link="https://hydra.cc/docs/advanced/override_grammar/basic/",
    ),
    Entry(
        id="omegaconf-pretty",
        title="Key 'pretty' is not in struct; Missing key pretty",
        patterns=(
            r"Key '(?P<key>pretty)' is not in struct",
            r"ConfigAttributeError: Missing key (?P<key>pretty)\b",
        ),
        explains=("config-key-unknown",),
        cause="the code was written for omegaconf 2.0: newer versions have no {key}(), and look for a key of that name",
        probe="pip show omegaconf hydra-core",
        fix="use OmegaConf.to_yaml(config) in place of config.pretty(), or pip install 'omegaconf<2.1' 'hydra-core<1.1'",
        link="https://github.com/qq456cvb/Point-Transformers/issues/21",
    ),
    Entry(
        id="json-broken",
        doubtful=True,
        title="JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        patterns=(
            r"JSONDecodeError: (?P<reason>(?:Expecting|Extra data|Unterminated|Invalid|Illegal)[^(]*\(char \d+\))",
        ),
        cause="a file or an answer of a server is no valid JSON: {reason}. With char 0 it is empty or something else, for "
        "example while another rank still writes it",
        probe="of the file in the traceback: ls -l FILE; python -m json.tool FILE",
        fix="correct the file, or copy it again. Write on rank 0 only, to another name, then rename the file, and let the "
        "others wait at a barrier. Lines of JSON are read one by one",
        link="https://docs.python.org/3/library/json.html#json.JSONDecodeError",
    ),
    Entry(
        id="deepspeed-config-keys",
        title="validation errors for DeepSpeedBF16Config; --mixed_precision arg cannot be set to bf16 when fp16 is set in the DeepSpeed config",
        patterns=(
            r"`--mixed_precision` arg cannot be set to `(?P<part>\w+)` when",
            r"`(?P<part>[\w.]+)` not found in kwargs\. Please specify",
        ),
        explains=("deepspeed-config-differs",),
        cause="the DeepSpeed configuration does not fit this version of DeepSpeed or the arguments of the script: {part}",
        probe="pip show deepspeed transformers accelerate; python -m json.tool CONFIG",
        fix="enable one of fp16 and bf16, the same as --fp16, --bf16 and mixed_precision. Remove keys that the message "
        "names (`loss_scale` belongs to fp16 alone). Replace an `auto` that it cannot resolve by a value",
        link="https://huggingface.co/docs/transformers/deepspeed",
    ),
    Entry(
        id="not-in-registry",
        title="KeyError: 'ResNet is not in the model registry'; No object named 'X' found in 'Y' registry",
        patterns=(
            r"KeyError: \W+(?P<name>[\w.]+) is not in the (?P<registry>[\w:]+(?: [\w:]+)?) registry",
            r"No object named '(?P<name>[\w.]+)' found in '(?P<registry>\w+)' registry",
            r"Dataset '(?P<name>[^']+)' is not registered!",
        ),
        cause="the configuration asks for {name}, and no module that this process imported has registered it[ as {registry}]. "
        "Its module is not imported, or another version or copy of the package is. Spawned ranks do not run the code below "
        "`if __name__ == '__main__'`",
        probe="grep -rn {name} --include=*.py .; pip list | grep -iE '^mm|detectron'",
        fix="import its module: custom_imports = dict(imports=['PACKAGE.MODULE']) in the configuration, with export "
        "PYTHONPATH=$PWD. Install the versions that the project requires (pip install -e . in its own copy)",
        link="https://mmengine.readthedocs.io/en/latest/advanced_tutorials/registry.html",
    ),
    Entry(
        id="monitored-key-missing",
        title="ModelCheckpoint(monitor='val_loss') could not find the monitored key in the returned metrics",
        patterns=(
            r"monitor='(?P<key>[^']+)'\)`? (?:could not find the monitored key|not found) in the returned metrics",
            r"Early stopping conditioned on metric `(?P<key>[^`]+)` which is not available",
            r"ReduceLROnPlateau conditioned on metric (?P<key>\S+) which is not available",
            r"`metric_for_best_model` training argument is set to '(?P<key>[^']+)', which is not found in the evaluation metrics",
            r"KeyError: '(?P<key>eval_\w+)'$",
        ),
        cause="a callback of Lightning, or the Trainer of transformers, watches {key}. No metric of that name was there before it ran",
        probe="grep -rnE 'self\\.log|monitor=' of the code and the configuration",
        fix="log it with self.log({key}, value, sync_dist=True) in validation_step, or change monitor= to a name from the "
        "list in the message. A validation set that is empty logs nothing",
        link="https://github.com/JonasSchult/Mask3D/issues/116",
    ),
    Entry(
        id="hub-offline",
        doubtful=True,
        title="OfflineModeIsEnabled; outgoing traffic has been disabled",
        patterns=(
            r"\bOfflineModeIsEnabled\b",
            r": offline mode is enabled\.",
            r"\boutgoing traffic has been disabled\b",
        ),
        explains=("hub-unreachable", "model-files-missing", "dataset-not-found"),
        cause="the process may not ask the hub (HF_HUB_OFFLINE, HF_DATASETS_OFFLINE, TRANSFORMERS_OFFLINE or local_files_only), and "
        "a file of the model or data set is not in the cache of this host",
        probe="in the ranks: env | grep -E 'HF_|TRANSFORMERS_'; ls ${HF_HOME:-~/.cache/huggingface}/hub",
        fix="download it where there is internet access, with the HF_HOME that the ranks use, on a file system that they share: "
        "`HF_HOME=/shared/hf huggingface-cli download NAME`. Or unset HF_HUB_OFFLINE",
        link="https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables#hfhuboffline",
    ),
    Entry(
        id="hydra-target",
        kind="generic",
        title="Error locating target; Error in call to target; Error instantiating",
        patterns=(
            r"Error locating target '(?P<target>[\w.]+)'",
            r"Error in call to target '(?P<target>[\w.]+)'",
            r"Error instantiating '(?P<target>[\w.]+)' ?: (?P<reason>.+)",
        ),
        cause="Hydra could not make {target} from the configuration[: {reason}]. The name is wrong, its module cannot be imported, or "
        "the configuration has other arguments than that class",
        probe="python -c 'import MODULE', for the module of {target}; python SCRIPT --cfg job",
        fix="read the exception before it, or repeat with HYDRA_FULL_ERROR=1. Correct _target_ and the keys beside it, and start in "
        "the project's root, or export PYTHONPATH=$PWD",
        link="https://hydra.cc/docs/advanced/instantiate_objects/overview/",
    ),
    Entry(
        id="proxy-scheme",
        title="ValueError: Unknown scheme for proxy URL; Missing dependencies for SOCKS support",
        patterns=(
            r"Unknown scheme for proxy URL (?:URL\()?'?(?P<url>[^')\s]*)",
            r"Using SOCKS proxy, but the 'socksio' package is not installed",
            r"Missing dependencies for SOCKS support",
        ),
        cause="a variable of the environment (ALL_PROXY, HTTPS_PROXY) names a SOCKS proxy[, {url}], and the HTTP library cannot use it",
        probe="env | grep -i proxy",
        fix="unset ALL_PROXY all_proxy, where HTTPS_PROXY names an http:// proxy. Otherwise write socks5:// in place of socks://, and: pip "
        "install 'httpx[socks]' 'requests[socks]'",
        link="https://www.python-httpx.org/advanced/proxies/",
    ),
)
