"""Kubernetes, Ray, Dask and clouds: pods and workers that do not start, nodes that are lost, machines that are missing."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="ray-head-address-empty",
        title="ray start --address=:6379; Failed to connect to GCS at address :6379",
        patterns=(
            r"Failed to connect to GCS at address :(?P<port>\d+)",
            r"ray start .*--address[= ]['\"]?:(?P<port>\d+)",
        ),
        explains=("ray-head-unreachable",),
        cause="the address of Ray's head has no host before :{port}. The variable that should hold it is empty on this node, "
        "for example MASTER_ADDR",
        probe="in the script, before ray start: env | grep -E 'MASTER|HEAD|RAY'",
        fix="set the variable to the address of the first node before `ray start --address=$HEAD:{port}`. Under SLURM: "
        "HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1). For one node: `ray start --head`",
        link="https://github.com/ModalMinds/MM-EUREKA/issues/54",
    ),
    Entry(
        id="ray-head-unreachable",
        title="Failed to connect to GCS at address 10.0.0.1:6379 within 5 seconds; Could not find any running Ray instance",
        patterns=(
            r"Unable to connect to GCS at (?P<address>\S+)\. Check that",
            r"Failed to connect to GCS at address (?P<address>[\w.\[\]:-]*\w:\d+)",
            r"Timed out while waiting for GCS to become available",
            r"Failed to connect to GCS within \d+ seconds",
            r"Couldn't reconnect to GCS server\.(?: The last attempted GCS server address was (?P<address>[\w.:-]+))?",
            r"Could not find any running Ray instance",
            r"\bray client connection timeout",
            r"Did GCS start successfully\?",
        ),
        context=r"(?:existing Ray cluster at address: |--address[= ]['\"]?)(?P<address>[\w.-]+:\d+)",
        explains=("ray-node-not-started", "ray-node-died", "ray-actor-died"),
        cause="Ray's head does not answer[ at {address}]. It has not started, or has ended. Or the address is that of an "
        "earlier cluster, or a firewall drops its ports",
        probe="on the head: ray status; ss -tlnp | grep gcs_server. On this node: nc -vz HEAD 6379; echo $RAY_ADDRESS",
        fix="start the head first: `ray start --head --port=6379`. Let the other nodes and the "
        "program wait until `ray status --address=HEAD:6379` answers. After an earlier cluster of "
        "yours, end it on all nodes, and unset RAY_ADDRESS. Open the ports between the nodes",
        action="retry",
        reason="the head of Ray was not reachable",
        link="https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html",
    ),
    Entry(
        id="ray-already-runs",
        title="Ray is trying to start at 10.0.0.1:6379, but is already running at 10.0.0.1:6379",
        patterns=(
            r"Ray is trying to start at (?P<address>\S+?), but is already running",
            r"Session name \S+ does not match persisted value",
        ),
        cause="a head of Ray already runs[ at {address}], of an earlier run or of another job on this host",
        probe="ray status; ps -ef | grep gcs_server",
        fix="look whose it is: `ray status`. End your own on all nodes, then start again. On a shared "
        "host: `ray start --head --port=OTHER --temp-dir=/tmp/ray-$USER-$SLURM_JOB_ID`",
        link="https://docs.ray.io/en/latest/cluster/cli.html",
    ),
    Entry(
        id="ray-no-ports",
        title="Failed to register worker to Raylet. Invalid: No available ports. Please specify a wider port range",
        patterns=(r"No available ports\. Please specify a wider port range",),
        explains=("ray-node-not-started", "ray-node-died", "ray-actor-died"),
        cause="Ray needs a port for each worker process, and its range from --min-worker-port to --max-worker-port is used "
        "up. Further workers do not start, and the program waits for them",
        probe="ps -ef | grep -- --min_worker_port; nproc",
        fix="`ray start --min-worker-port=10002 --max-worker-port=19999` on each node, or 0 for both. Or fewer workers: "
        "--num-cpus=N",
        link="https://docs.ray.io/en/latest/ray-core/configure.html",
    ),
    Entry(
        id="ray-address-of-all",
        title="ray start --node-ip-address 0.0.0.0, then OwnerDiedError",
        patterns=(r"pid=\d+, ip=0\.0\.0\.0\b",),
        needs=r"\bOwnerDiedError\b|\bNodeDiedError\b|\bActorUnavailableError\b|has been marked dead",
        explains=("ray-actor-died", "ray-node-died"),
        cause="Ray was started with --node-ip-address 0.0.0.0, and gives this address to the other nodes. They connect to "
        "themselves with it, and take the node for dead",
        probe="ray list nodes; ip -br address",
        fix="`ray start --head --node-ip-address=ADDRESS`, with the address of the interface that the other nodes reach, or "
        "without this option. Only --dashboard-host may be 0.0.0.0",
        link="https://github.com/verl-project/verl/issues/572",
    ),
    Entry(
        id="ray-worker-not-registered",
        title="AssertionError: failed to get register_center_actor",
        patterns=(r"[Ff]ailed to get register_center_actor",),
        cause="the first worker of verl did not come in time. It waits for a GPU, loads Python packages slowly from a shared "
        "disk, or failed at its start",
        probe="ray status; ray list actors; ls -t /tmp/ray/session_latest/logs/worker-*.err | head, on each node",
        fix="read the log of that worker, and start the program when `ray status` counts all GPUs. If it is only slow: "
        "trainer.ray_wait_register_center_timeout=900",
        link="https://github.com/verl-project/verl/issues/595",
    ),
    Entry(
        id="ray-worker-slow",
        kind="hint",
        title="Some workers of the worker process(26154) have not registered within the timeout",
        patterns=(r"Some workers of the worker process\s?\(\d+\) have not registered (?:to raylet )?within",),
        cause="Ray started worker processes that did not report in time. They ended while they started, imports from a shared file system "
        "are slow, or the host or its limit of processes is full",
        probe="ls -t /tmp/ray/session_latest/logs/ | head; python -X importtime -c 'import ray' 2>&1 | tail -3; ulimit -u",
        fix="read the logs of those workers in /tmp/ray/session_latest/logs. If they only need more time: export "
        "RAY_worker_register_timeout_seconds=600 before ray start, and a Python on a local disk",
        link="https://github.com/RLinf/RLinf/issues/227",
    ),
    Entry(
        id="ray-agent-failed",
        title="The raylet exited immediately because one Ray agent failed",
        kind="generic",
        patterns=(
            r"raylet exited immediately because (?:the|one) Ray agent failed(?:, agent_name = (?P<agent>[\w/]+))?",
            r"No available agent to submit job",
        ),
        explains=("ray-node-died", "ray-actor-died"),
        cause="Ray's agent ended on this node[: {agent}], and Ray ends the node with it. Its port is in use, its packages "
        "(grpcio, aiohttp) do not fit, or the memory was full",
        probe="on that node: tail -50 /tmp/ray/session_latest/logs/dashboard_agent.log; dmesg -T | grep -i 'killed process'",
        fix="follow the last error of dashboard_agent.log or runtime_env_agent.log. Often: pip install -U 'ray[default]' "
        "grpcio; another --dashboard-agent-listen-port; more memory for the pod or job",
        link="https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html",
    ),
    Entry(
        id="ray-node-died",
        title="The node with node id has been marked dead; Raylet is terminated. Termination is unexpected",
        kind="generic",
        patterns=(
            r"node with node id: \S+ and (?:address|ip): (?P<host>[\w.-]+).* has been marked dead",
            r"has been marked dead because the (?:detector|monitor) has missed too many heartbeats",
            r"Raylet is terminated\. Termination is unexpected",
            r"\bNodeDiedError\b",
            r"\bLocalRayletDiedError\b",
            r"Raylet failed\. Shutting down",
            r"node manager has mistakenly been marked (?:as )?dead",
            r"Worker exit detail: Owner's node has crashed",
            r"Some Ray subprocesses exited unexpectedly",
            r"Ray processes died unexpectedly",
        ),
        explains=("ray-actor-died",),
        cause="Ray lost a node[, {host}]. Its raylet was killed (full memory, a preempted machine, a time limit), or did not "
        "answer for long, as the network or the CPUs were busy",
        probe="ray list nodes; on that node: tail /tmp/ray/session_latest/logs/raylet.*; dmesg -T | grep -i 'killed process'",
        fix="look for the end of the pod, job or machine at that time. Give it more memory, and save checkpoints. If it was "
        "only slow: RAY_health_check_timeout_ms=60000 before `ray start --head`, and --num-cpus below the real number",
        link="https://docs.ray.io/en/latest/ray-core/fault_tolerance/nodes.html",
    ),
    Entry(
        id="ray-gpus-missing",
        title="Total available GPUs 8.0 is less than total desired GPUs 16; Placement group creation timed out",
        patterns=(
            r"Total available GPUs (?P<free>[\d.]+) is less than total desired GPUs (?P<wanted>\d+)",
            r"Resource pool \S+ (?P<wanted>\d+\*\d+) ?cannot be satisfied in this ray cluster",
            r"Placement group creation timed out",
            r"\bActorUnschedulableError\b",
            r"\bTaskUnschedulableError\b",
            r"Bundles must be a non-empty list of resource dictionaries",
            r"no enough nodes for request: searching",
            r"requesting (?P<wanted>\d+) processes, bundle count cannot satisfy",
            r"\bJob supervisor actor could not be scheduled",
        ),
        explains=("ray-actor-died",),
        cause="Ray's cluster has fewer free GPUs or CPUs than the program requests[: {free}, and {wanted} are needed]. A node "
        "has not joined it, or other jobs and actors hold them",
        probe="ray status",
        fix="start the program when `ray status` counts all GPUs. On a missing node: `ray start --address=HEAD:6379 "
        "--num-gpus=N`. In the program: ray.init(address='auto'), or it starts a cluster of this host only. Or request "
        "fewer (verl: trainer.nnodes and trainer.n_gpus_per_node; Ray Train: num_workers)",
        link="https://github.com/verl-project/verl/issues/2515",
    ),
    Entry(
        id="ray-waits",
        title="Waiting for creating a placement group; The following resource request cannot be scheduled right now",
        kind="hint",
        patterns=(
            r"Waiting for creating a placement group of specs for \d+ seconds\. specs=(?P<request>\[.*?\])\.",
            r"resource request cannot be scheduled right now: (?P<request>\{[^}]*\})",
            r"actor or task with ID \w+ cannot be scheduled right now",
            r"Tensor parallel size \((?P<wanted>\d+)\) exceeds available GPUs \((?P<free>\d+)\)",
        ),
        cause="Ray waits for GPUs or CPUs that no node has free[: {request}][: {wanted} GPUs, and it knows {free}]. A node has "
        "not joined, other actors hold them, or each worker requests too much",
        probe="ray status; ray list nodes; ray list actors",
        fix="if it lasts, compare the request with `ray status`: start the missing nodes, end earlier jobs and actors, or "
        "request less for each worker. The trainer of Ray Tune needs a CPU of its own. For vLLM, VLLM_HOST_IP must be an "
        "address of `ray list nodes`",
        link="https://docs.ray.io/en/latest/ray-core/scheduling/placement-group.html",
    ),
    Entry(
        id="grpc-proxy",
        title="failed to connect to all addresses; HTTP proxy returned response code 503",
        patterns=(r"HTTP proxy returned response code (?P<code>\d+)",),
        explains=("ray-head-unreachable", "ray-node-not-started", "ray-node-died"),
        cause="gRPC (Ray, etcd, TensorBoard) sent a connection between nodes to the proxy in http_proxy, which refused it with "
        "code {code}",
        probe="env | grep -i proxy, in the same shell or pod",
        fix="export no_proxy with the addresses and names of all nodes (also NO_PROXY, and grpc_proxy='' for gRPC alone) before "
        "`ray start`, or unset http_proxy and https_proxy there",
        link="https://github.com/grpc/grpc/blob/master/doc/environment_variables.md",
    ),
    Entry(
        id="ray-store-in-tmp",
        title="The object store is using /tmp instead of /dev/shm",
        kind="hint",
        patterns=(r"object store is using \S+ instead of /dev/shm because /dev/shm has only (?P<room>\d+) bytes",),
        cause="/dev/shm has only {room} bytes, and Ray keeps its objects on the disk of /tmp. This is slow; nothing failed",
        probe="df -h /dev/shm",
        fix="docker run --shm-size=16g or --ipc=host. On Kubernetes, mount an emptyDir with `medium: Memory` at /dev/shm",
        link="https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html",
    ),
    Entry(
        id="ray-disk-nearly-full",
        title="/tmp/ray/session_... is over 95% full. Object creation will fail if spilling is required",
        kind="hint",
        patterns=(r"(?P<path>(?<![\w./-])/\S+) is over \d+% full, available space: (?P<room>[\d.]+ ?\w+)",),
        explains=("ray-store-full",),
        cause="the disk of {path} is nearly full: {room} are free. Ray cannot move objects to it, and writes its logs there",
        probe="df -h {path}; du -xsh /tmp/ray/*",
        fix="delete sessions of earlier runs in /tmp/ray, or start Ray with --temp-dir on a larger disk, on every node",
        link="https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html",
    ),
    Entry(
        id="ray-store-full",
        title="ObjectStoreFullError; OutOfDiskError",
        patterns=(r"\bObjectStoreFullError\b", r"\bOutOfDiskError\b"),
        explains=("ray-actor-died",),
        cause="Ray's object store on a node is full, and so is the disk to which it moves objects. The program holds too many "
        "references, or the store is too small",
        probe="ray memory --stats-only; df -h /dev/shm /tmp",
        fix="keep fewer results of ray.put and remote calls at a time (`del`, ray.wait). Or start Ray with a larger "
        "--object-store-memory and /dev/shm, and --temp-dir on a disk with room",
        link="https://docs.ray.io/en/latest/ray-core/objects/object-spilling.html",
    ),
    Entry(
        id="ray-runtime-env",
        title="runtime_env setup failed: Failed to set up runtime environment",
        patterns=(
            r"runtime_env setup failed",
            r"\bRuntimeEnvSetupError\b",
            r"Fails to create or get runtime env",
            r"associated runtime env failed to be created",
            r"Something may have gone wrong while installing the runtime_env",
        ),
        explains=("ray-actor-died",),
        cause="Ray could not prepare the job's runtime_env on a node: a package of `pip` or `conda` did not install, or "
        "`working_dir` could not be copied",
        probe="the last error below it; on that node: tail -40 /tmp/ray/session_latest/logs/runtime_env_setup-*.log",
        fix="correct the packages of runtime_env, or install them into the image of all nodes and drop `pip` from it. Without "
        "internet: set PIP_INDEX_URL to a mirror. A large working_dir: list `excludes`",
        link="https://docs.ray.io/en/latest/ray-core/handling-dependencies.html",
    ),
    Entry(
        id="ray-no-gpu-requested",
        title="RayTaskError(RuntimeError): No CUDA GPUs are available",
        patterns=(r"No CUDA GPUs are available",),
        needs=r"\bRayTaskError\b|\bray::\w",
        explains=("no-cuda-gpus", "more-gpus-asked"),
        cause="a task or actor of Ray sees no GPU. Ray sets CUDA_VISIBLE_DEVICES to nothing where no GPU was requested",
        probe="in the task: print(ray.get_gpu_ids(), os.environ.get('CUDA_VISIBLE_DEVICES')); ray status",
        fix="request GPUs: @ray.remote(num_gpus=1), tune.with_resources(train, {'gpu': 1}), ScalingConfig(use_gpu=True). If "
        "that is done: run nvidia-smi in the node's container, and start Ray there with --num-gpus=N",
        link="https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html",
    ),
    Entry(
        id="visible-devices-changed",
        title="device >= 0 && device < num_gpus INTERNAL ASSERT FAILED. device=1, num_gpus=1",
        patterns=(
            r"device >= 0 && device < num_gpus INTERNAL ASSERT FAILED(?:.*\bdevice=\S*?(?P<device>\d+), num_gpus=\S*?(?P<count>\d+))?",
        ),
        explains=("cuda-init-failed",),
        cause="this process asks for a GPU that CUDA did not give it[: number {device}, of {count}]. CUDA_VISIBLE_DEVICES was "
        "changed after torch had read it, by the script, by Ray or by a library",
        probe="in that process: os.environ['CUDA_VISIBLE_DEVICES'] before `import torch` and after it",
        fix="set CUDA_VISIBLE_DEVICES before Python starts, and not in the script. Under Ray, export "
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES=1, or use device 0 in each worker",
        link="https://github.com/verl-project/verl/issues/3028",
    ),
    Entry(
        id="dask-memory",
        title="distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting",
        patterns=(r"(?i)worker (?:\S+ \(pid=\d+\) )?exceeded \d+% memory budget",),
        explains=("dask-worker-killed",),
        cause="a worker of Dask used more than its memory limit, and Dask ended it",
        probe="grep -c 'memory budget' LOG; free -g; the line `Memory:` at the start of the worker",
        fix="raise --memory-limit of the workers (or start fewer of them on a host), or use smaller partitions",
        link="https://distributed.dask.org/en/stable/worker-memory.html",
    ),
    Entry(
        id="dask-worker-killed",
        title="distributed.scheduler.KilledWorker; Worker process was killed by unknown signal",
        kind="generic",
        patterns=(r"\bKilledWorker\b", r"Worker process \d+ was killed by (?:unknown signal|signal \d+)"),
        cause="workers of Dask ended while they ran the same task. Most often their memory was full",
        probe="the log of the workers; on their host: dmesg -T | grep -i 'killed process'",
        fix="read the worker's log. Give each worker more memory (--memory-limit, fewer workers a host), or smaller tasks",
        link="https://distributed.dask.org/en/stable/killed.html",
    ),
    Entry(
        id="dask-scheduler-unreachable",
        title="OSError: Timed out trying to connect to tcp://10.0.0.4:8786 after 30 s",
        patterns=(
            r"Timed out (?:during handshake while connecting|trying to connect) to (?P<address>(?:tcp|tls|ucx)://\S+)",
        ),
        cause="Dask's scheduler or worker at {address} did not answer. It has ended or not started, its address belongs to "
        "another network, or it is too busy",
        probe="from this node: nc -vz HOST PORT of {address}; the log of the scheduler",
        fix="start the scheduler with --interface of the network that all nodes share (dask-jobqueue: interface='ib0'), and open "
        "its ports. If it is only busy: DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=120s",
        link="https://distributed.dask.org/en/stable/configuration.html",
    ),
    Entry(
        id="spark-barrier-slots",
        title="SPARK-24819: Barrier execution mode does not allow run a barrier stage that requires more slots",
        patterns=(r"barrier stage that requires more slots than the total number of slots",),
        cause="TorchDistributor and Horovod start all ranks as one stage of Spark, and the cluster has fewer free slots than "
        "ranks",
        probe="the executors page of the Spark UI: cores and GPUs; spark.task.cpus and spark.task.resource.gpu.amount",
        fix="use num_processes not above the GPUs of the workers, set spark.task.resource.gpu.amount to 1, or start more "
        "workers (without autoscaling)",
        link="https://spark.apache.org/docs/latest/api/python/reference/api/pyspark.ml.torch.distributor.TorchDistributor.html",
    ),
    Entry(
        id="spark-executor-lost",
        title="ExecutorLostFailure (executor 2 exited caused by one of the running tasks)",
        kind="generic",
        patterns=(r"\bExecutorLostFailure\b(?:.* on host: (?P<host>[\w.-]+?)\.? )?",),
        cause="Spark lost an executor[ on {host}] with its tasks. Most often its memory was full (exit status 137), or the cloud "
        "ended the machine",
        probe="the executor's own stderr in the Spark UI; on that host: dmesg -T | grep -i 'killed process'",
        fix="raise spark.executor.memoryOverhead (memory of torch and Python is outside of the JVM), or run fewer tasks per "
        "executor. For spot machines: checkpoints",
        link="https://spark.apache.org/docs/latest/configuration.html",
    ),
    Entry(
        id="k8s-gang",
        doubtful=True,
        title="3/3 tasks in gang unschedulable: pod group is not ready; couldn't assign flavors to pod set",
        patterns=(
            r"tasks in gang unschedulable: (?P<reason>.*?)[,']*$",
            r"queue resource (?P<reason>quota insufficient)",
            r"couldn'{1,2}t assign flavors to pod set (?:[\w-]+): (?P<reason>.*)",
            r"cannot find enough sibling pods, (?P<reason>.*)",
            r"pod group is not ready, (?P<reason>\d+ Pending.*?)[,']*$",
        ),
        explains=("k8s-unschedulable",),
        cause="the pods of this job start together or not at all (Volcano, Kueue, coscheduling), and now they cannot: {reason}",
        probe="kubectl get podgroups,queues,workloads; kubectl describe workload NAME; kubectl describe clusterqueue",
        fix="wait for other jobs to end, or request fewer replicas or GPUs. minMember or minAvailable must not exceed the "
        "number of pods. The quota of the queue must contain each resource that a pod requests, with cpu, memory and rdma",
        action="retry",
        reason="not all pods of the job found room",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/",
    ),
    Entry(
        id="pod-sandbox",
        doubtful=True,
        title="FailedCreatePodSandBox: networkPlugin cni failed to set up pod; failed to assign an IP address to container",
        patterns=(r"(?i)create pod sandbox: (?:.*\bnetwork: |.*\bdesc = )?(?P<reason>.*)",),
        cause="Kubernetes could not make the network of the pod on its node: {reason}",
        probe="kubectl get pods -n kube-system -o wide | grep -E 'calico|cilium|flannel|aws-node|multus'; on that node: "
        "journalctl -u kubelet -u containerd | tail",
        fix="if it lasts, restart the network plugin's pod on that node, or `kubectl cordon NODE` and start the pod again. "
        "Without free IP addresses: fewer pods on the node, or a larger subnet",
        action="retry",
        reason="the network of the pod failed on its node",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/",
    ),
    Entry(
        id="k8s-no-nvidia-runtime",
        title='no runtime for "nvidia" is configured; RuntimeHandler "nvidia" not supported',
        patterns=(
            r"no runtime for \"(?P<runtime>[\w-]+)\" is configured",
            r"RuntimeHandler \"(?P<runtime>[\w-]+)\" not supported",
        ),
        explains=("pod-sandbox", "docker-no-gpu", "container-start-failed"),
        cause="containerd on that node has no runtime `{runtime}`. NVIDIA's container toolkit is not set up there, or "
        "containerd was not restarted after it",
        probe="on that node: grep -n -A6 'runtimes.{runtime}' /etc/containerd/config.toml; kubectl get runtimeclass",
        fix="as administrator, add it to containerd (nvidia-ctk runtime configure "
        "--runtime=containerd), which then has to start again. With the GPU operator, wait for "
        "its toolkit pod on that node, or read that pod's log",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html",
    ),
    Entry(
        id="pod-config-missing",
        doubtful=True,
        title='CreateContainerConfigError: secret "hf-token" not found',
        patterns=(
            r"Error: (?P<kind>secret|configmap)s? \"(?P<name>[^\"]+)\" not found",
            r"couldn't find key (?P<name>\S+) in (?:ConfigMap|Secret)",
        ),
        cause="the pod needs the secret or ConfigMap entry {name}, and its namespace does not have it",
        probe="kubectl get secrets,configmaps; kubectl get pod NAME -o yaml | grep -B2 -A4 -E 'secretKeyRef|configMapKeyRef|Ref:'",
        fix="create it in the pod's namespace: kubectl create secret generic {name} --from-literal=KEY=VALUE. Or correct the "
        "name in the manifest. The pod then starts without further help",
        overcome_by=r"(?P=pod).*\bStarted container\b|(?P=pod).*\bStarted: ?Started\b",
        link="https://kubernetes.io/docs/concepts/configuration/secret/",
    ),
    Entry(
        id="pod-node-lost",
        title="Taint manager: deleting due to NoExecute taint; Pod was terminated in response to imminent node shutdown",
        patterns=(
            r"Taint manager: deleting due to NoExecute taint",
            r"\bTaintManagerEviction\b(?!.*Cancelling)",
            r"\bDeletionByTaintManager\b",
            r"terminated in response to imminent node shutdown",
            r"\bNodeNotReady\b.*\bNode is not ready\b",
            r"Pod was rejected as the node is shutting down",
        ),
        explains=("pod-crash-loop", "launcher-summary", "terminated"),
        cause="Kubernetes ended the pod because its node was shut down, drained or did not answer any more. For spot machines, "
        "the cloud took the node",
        probe="kubectl get nodes; kubectl describe node NODE | tail -20; kubectl get events | grep -iE 'node|taint'",
        fix="save checkpoints at SIGTERM, and let the Job start the pod again. For long runs: nodes that are not spot "
        "machines, and a PodDisruptionBudget against drains",
        action="retry",
        reason="the node of the pod was shut down or did not answer",
        link="https://kubernetes.io/docs/concepts/workloads/pods/disruptions/",
    ),
    Entry(
        id="pod-topology",
        title="TopologyAffinityError: Resources cannot be allocated with Topology locality",
        patterns=(r"Resources cannot be allocated with Topology", r"\bTopologyAffinityError\b"),
        cause="the kubelet of that node gives CPUs and GPUs only from one NUMA node, and none has enough of both free",
        probe="on that node: grep -i topology /var/lib/kubelet/config.yaml; nvidia-smi topo -m; lscpu | grep NUMA",
        fix="request fewer CPUs for each GPU, or a whole node. As administrator: topologyManagerPolicy: best-effort",
        link="https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/",
    ),
    Entry(
        id="k8s-denied",
        title="admission webhook denied the request; violates PodSecurity; is invalid: spec...: Invalid value",
        patterns=(
            r"admission webhook \"[^\"]+\" denied the request: (?P<reason>.*)",
            r"violates PodSecurity (?P<reason>.*)",
            r"Error from server \(Forbidden\): (?P<reason>.*)",
            r"\bis invalid: (?P<reason>\[?(?:spec|metadata|status)[\w.\[\]]*: (?:Invalid value|Required value|Unsupported value|Forbidden|Duplicate value|Too long|Too many|Not found)(?!.*field is immutable).*)",
            r"\berror validating (?:data|\"[^\"]+\"): (?P<reason>.*)",
            r"\bstrict decoding error: \w+ (?P<reason>field .*)",
            r"\bpods \"[^\"]*\" is forbidden: (?P<reason>(?!exceeded quota|violates PodSec).*)",
            r"container has runAsNonRoot and (?P<reason>image .*)",
            r"error converting YAML to JSON: (?P<reason>.*)",
        ),
        cause="Kubernetes refused the object, and no pod was started: {reason}",
        probe="kubectl auth can-i create pods; kubectl apply --dry-run=server -f FILE",
        fix="correct what the message names in the manifest, or request that permission from the administrators. For "
        "PodSecurity: drop privileged, hostNetwork and IPC_LOCK, or use a namespace that permits them",
        link="https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/",
    ),
    Entry(
        id="k8s-kind-missing",
        title='no matches for kind "PyTorchJob" in version "kubeflow.org/v1"',
        patterns=(
            r"no matches for kind \"(?P<kind>\w+)\" in version \"(?P<version>[^\"]+)\"",
            r"the server could not find the requested resource \(\w+ (?P<kind>[\w-]+)\.(?P<version>[\w.-]+)\)",
            r"the server doesn't have a resource type \"(?P<kind>[\w.-]+)\"",
        ),
        cause="the cluster does not know {kind}[ of {version}]. Its operator is not installed, or is of another version",
        probe="kubectl api-resources | grep -iE 'kubeflow|volcano|jobset|ray|kueue'; kubectl get crd",
        fix="install the operator of {kind} (PyTorchJob: Kubeflow's training operator; MPIJob: its mpi-operator; TrainJob: "
        "Kubeflow Trainer 2; podgroups: Volcano; workloads: Kueue), or write the apiVersion that `kubectl api-resources` shows",
        link="https://www.kubeflow.org/docs/components/trainer/",
    ),
    Entry(
        id="k8s-api-unreachable",
        title="Unable to connect to the server; The connection to the server was refused - did you specify the right host or port?",
        patterns=(
            r"Unable to connect to the server: (?P<reason>.*)",
            r"You must be logged in to the server \((?P<reason>[^)]+)\)",
            r"connection to the server (?P<server>\S+) was refused - did you specify the right host or port",
            r"(?i)\bfailed to (?:list|watch) \*?[\w.]+: .*\b(?P<reason>dial tcp \S+: .*(?:refused|i/o timeout|no route to host))",
            r"https://[\w.:\[\]-]+/(?:apis?/|version\b)\S*: (?P<reason>dial tcp \S+: .*(?:refused|i/o timeout|no route to host))",
        ),
        explains=("image-registry-certificate", "image-registry-unreachable"),
        cause="kubectl, or a program in a pod, cannot reach the API server of the cluster[: {server} refused the connection][: {reason}]. "
        "Nothing was started",
        probe="kubectl config current-context; kubectl cluster-info; env | grep -iE 'proxy|kubeconfig'",
        fix="select the cluster (kubectl config use-context NAME), or get its access again (aws eks update-kubeconfig, gcloud "
        "container clusters get-credentials, az aks get-credentials). Behind a proxy, add the server to NO_PROXY. In a pod: a network policy, or a sidecar that "
        'has not started (istio: sidecar.istio.io/inject: "false" on the job\'s pods)',
        link="https://kubernetes.io/docs/tasks/debug/debug-cluster/troubleshoot-kubectl/",
    ),
    Entry(
        id="pod-liveness",
        title="Container failed liveness probe, will be restarted",
        patterns=(r"Container (?P<container>\S+) failed liveness probe, will be restarted",),
        explains=("pod-crash-loop", "launcher-summary", "terminated"),
        cause="Kubernetes itself ended the container {container}: its liveness probe failed several times, for example while "
        "the process loaded a model or was busy",
        probe="kubectl get pod NAME -o yaml | grep -A8 -E 'livenessProbe|startupProbe'",
        fix="remove the probe from a training pod, add a startupProbe for the loading, or raise timeoutSeconds and "
        "failureThreshold",
        link="https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
    ),
    Entry(
        id="pod-readiness",
        title="Readiness probe failed; Startup probe failed",
        kind="noise",
        patterns=(r"Readiness probe failed", r"Startup probe failed"),
        cause="a container does not answer its probe yet. This is normal while it starts",
        probe="kubectl get pod NAME",
        fix="nothing to do, unless the pod never becomes ready: then kubectl logs NAME",
        link="https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
    ),
    Entry(
        id="pod-not-started",
        kind="generic",
        doubtful=True,
        title="container is waiting to start: ContainerCreating",
        patterns=(r"container \"[^\"]+\" in pod \"(?P<pod>[^\"]+)\" is waiting to start: (?P<reason>.*)",),
        cause="the container of pod {pod} has not started, and has no log: {reason}",
        probe="kubectl describe pod {pod} | tail -20",
        fix="read the last events there: the image, a volume, a secret or an init container holds it. `kubectl logs {pod} -c "
        "INIT` shows an init container's log",
        link="https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
    ),
    Entry(
        id="pod-crash-loop",
        title="CrashLoopBackOff; Back-off restarting failed container",
        kind="consequence",
        patterns=(r"\bCrashLoopBackOff\b", r"Back-off restarting failed container"),
        context=r"Exit Code: +(?P<code>[1-9]\d*)",
        cause="a container of the pod ended[ with exit code {code}], and Kubernetes starts it again and again. The reason is in "
        "the log of the container that ended",
        probe="kubectl logs NAME --previous; kubectl describe pod NAME | grep -A6 'Last State'",
        fix="run `kubectl logs NAME --previous | ddpkit explain -`. Exit code 137 or OOMKilled is memory, 127 a missing "
        "program, 1 or 2 the script itself. A pod that succeeds is started again, too, without restartPolicy: OnFailure",
        link="https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/",
    ),
    Entry(
        id="pod-pending",
        title="kubectl get pods: Pending, ContainerCreating, Init:0/1",
        kind="hint",
        patterns=(
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}Pending {1,}\d",
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}ContainerCreating {1,}\d",
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}Init:\d+/\d+ +\d",
        ),
        cause="the pod {pod} has not started. Ranks that run wait for it",
        probe="kubectl describe pod {pod} | tail -20",
        fix="read the last events there. Pending: no node has the resources; ContainerCreating: the image or a volume is "
        "missing; Init: `kubectl logs {pod} -c INIT` shows what its init container waits for",
        link="https://kubernetes.io/docs/tasks/debug/debug-application/debug-pods/",
    ),
    Entry(
        id="pod-waits-for-master",
        title="Back-off restarting failed container init-pytorch; waiting for master",
        kind="hint",
        patterns=(
            r"Back-off restarting failed container init-pytorch",
            r"\bwaiting for master$",
        ),
        explains=("pod-crash-loop", "launcher-summary"),
        cause="the init container of a PyTorchJob's worker waits until the name of the master's pod resolves. That pod does "
        "not run, or the pod cannot ask the cluster's DNS",
        probe="kubectl get pods,services | grep master; kubectl logs WORKER -c init-pytorch",
        fix="look at the master's pod first: kubectl describe pod NAME-master-0. If it runs: the service's name, and the "
        "cluster's DNS (kubectl get pods -n kube-system | grep dns)",
        link="https://github.com/kubeflow/trainer/pull/1493",
    ),
    Entry(
        id="cloud-no-capacity",
        doubtful=True,
        title="InsufficientInstanceCapacity; CapacityError; ZONE_RESOURCE_POOL_EXHAUSTED; Failed to provision",
        patterns=(
            r"\bInsufficientInstanceCapacity\b",
            r"Unable to provision requested ML compute capacity",
            r"\bZONE_RESOURCE_POOL_EXHAUSTED",
            r"Failed to provision all possible launchable resources",
            r"Failed to acquire resources in \S+",
            r"waited for more than \d+ seconds for new workers to be provisioned",
        ),
        cause="the cloud has no free machines of the requested type in this zone or region now. Nothing of the program ran",
        probe="request one machine of that type by hand, in this zone and in another",
        fix="wait, or use another zone, region or type of machine. SkyPilot: `sky launch --retry-until-up`, and several "
        "entries in any_of. For many nodes: a reservation of the cloud",
        action="retry",
        reason="the cloud had no free machines",
        link="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html",
    ),
    Entry(
        id="cloud-quota",
        title="ResourceLimitExceeded: The account-level service limit; Quota 'NVIDIA_A100_GPUS' exceeded",
        patterns=(
            r"account-level service limit '?(?P<quota>[^']+?)'? is (?P<limit>\d+) Instances",
            r"Quota '(?P<quota>\w+)' exceeded\. +Limit: (?P<limit>[\d.]+)",
            r"\bVcpuLimitExceeded\b",
            r"quota metrics exceed quota limits: (?P<quota>[\w./-]+)",
            r"exceeding approved (?P<quota>.+?) quota",
        ),
        explains=("cloud-no-capacity",),
        cause="the quota of the cloud account does not permit these machines[: {quota}][, with a limit of {limit}]",
        probe="the quota page of the cloud, for this region: AWS Service Quotas, GCP IAM & Admin > Quotas, Azure Usage + quotas",
        fix="request a larger quota there, end other machines of the account, or use another region or type of machine",
        link="https://docs.aws.amazon.com/general/latest/gr/aws_service_limits.html",
    ),
    Entry(
        id="pod-refused",
        kind="generic",
        title="kubectl get pods: Evicted, OutOfmemory, UnexpectedAdmissionError",
        patterns=(
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}Evicted {1,}\d",
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}OutOfmemory {1,}\d",
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}OutOfcpu {1,}\d",
            r"(?<!\S)(?P<pod>[\w.-]+) +\d+/\d+ {1,}UnexpectedAdmissionError {1,}\d",
        ),
        cause="the node ended the pod {pod}, or did not let it start, for lack of memory, disk, CPUs or GPUs. The pod's "
        "status shows which",
        probe="kubectl describe pod {pod} | grep -E -A2 '^(Status|Reason|Message)'",
        fix="read Message there. Memory or disk: set the pod's requests to what it needs. GPUs: look at the node's device plugin, or "
        "exclude the node (kubectl cordon NODE). A Job or PyTorchJob starts the pod again",
        action="retry",
        reason="a node had no resources for the pod",
        link="https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
    ),
    Entry(
        id="cloud-node-not-launched",
        kind="generic",
        title="node gpu-1 not resumed by ResumeTimeout(300); Failed to launch following nodes, setting nodes to down",
        patterns=(
            r"\bnode (?P<node>\S+) not resumed by ResumeTimeout\((?P<seconds>\d+)\)",
            r"Failed to launch following nodes, setting nodes to down: \(x\d+\) \['(?P<node>[\w.-]+)'",
        ),
        cause="the machine of the node {node} did not start in the cloud[ within {seconds} seconds], and SLURM requeues the job. The reason is "
        "in the log of the program that starts machines: capacity, quota, the image, or a boot script",
        probe="on the head node: scontrol show node {node} | grep Reason; grep -E 'ERROR|Exception' /var/log/parallelcluster/*.log "
        "/var/log/slurm/resume.log | tail",
        fix="of InsufficientInstanceCapacity: another type of machine or zone, or a capacity "
        "reservation. Otherwise correct what the message names. Then an administrator sets the "
        "node to power_down: `scontrol show node {node}`",
        link="https://docs.aws.amazon.com/parallelcluster/latest/ug/troubleshooting-v3-scaling-issues.html",
    ),
    Entry(
        id="k8s-immutable",
        title='The Job "train" is invalid: spec.template: Invalid value: ...: field is immutable',
        patterns=(r"\"?(?P<name>[\w.-]+)\"? is invalid: (?P<field>[\w.]+): Invalid value: .*field is immutable",),
        cause="an object {name} of an earlier run exists, and Kubernetes does not change {field} of it. The new job was not made",
        probe="kubectl get jobs,pytorchjobs,jobsets | grep {name}",
        fix="look at the old one: kubectl get job {name} -o yaml. If it is not needed, remove it "
        "yourself, then apply again. Or use a new name for each run: metadata.generateName with "
        "kubectl create",
        link="https://github.com/kubernetes/kubernetes/issues/89657",
    ),
    Entry(
        id="cloud-machine-lost",
        title="Host EC2 (instance i-0123) terminated; InternalServerError: We encountered an internal error",
        patterns=(
            r"Host EC2 (?:\(instance (?P<node>i-\w+)\) )?[Tt]erminated",
            r"InternalServerError: We encountered an internal error",
        ),
        explains=("launcher-summary", "terminated", "own-exception"),
        cause="the cloud ended the machine of the job[, {node}], or its service failed. Spot machines are taken back when others pay for "
        "them. The script is not to blame",
        probe="the console of the cloud: the history of spot requests, and the events of the job",
        fix="start again from the last checkpoint, with retries (AWS Batch: retryStrategy). For long runs: on-demand machines. If it "
        "recurs at one place, look at memory and disk there",
        action="retry",
        reason="the cloud ended the machine",
        link="https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html",
    ),
    Entry(
        id="ray-name-taken",
        title="ValueError: The name gGGsh8_register_center (namespace=None) is already taken",
        patterns=(
            r"The name (?P<name>\S+) \(namespace=\S+\) is already taken",
            r"Failed to create placement group '\w+' because name '(?P<name>[^']+)' already exists",
            r"Actor with name '(?P<name>[^']+)' already exists",
        ),
        cause="Ray's cluster already has an actor or a placement group of the name {name}. A worker that Ray started again makes it "
        "anew, an earlier run left it, or the program was started on several nodes",
        probe="ray list actors; ray list placement-groups; the first error of that worker above",
        fix="if a worker failed before, correct that failure. End your earlier cluster on all nodes "
        "before a new run. Start the program once, on the head alone (SLURM: srun -N1 -n1), and "
        "give parallel runs a namespace each: ray.init(namespace=...)",
        link="https://github.com/hiyouga/EasyR1/issues/314",
    ),
    Entry(
        id="kueue-evicted",
        title="Exceeded the PodsReady timeout; EvictedDueToPodsReadyTimeout",
        patterns=(
            r"\bExceeded the PodsReady timeout\b",
            r"\b(?:Normal|Warning) +(?P<reason>EvictedDueTo(?!Preempted)\w+) .*-workload-controller ",
        ),
        explains=("k8s-gang", "pod-pending", "launcher-summary", "terminated"),
        cause="Kueue stopped the job and took its quota back[: {reason}]. PodsReadyTimeout: not all pods were running in time, as an "
        "image, a volume or a node was missing, or a pod failed. The others: its queue was stopped, or a node was lost",
        probe="kubectl describe workload NAME | tail -30; kubectl get pods; kubectl get events | grep -iE 'failed|backoff' | tail",
        fix="correct what held the last pod (kubectl describe pod NAME), then let Kueue start the job again. If the pods are only slow: "
        "a larger waitForPodsReady.timeout in Kueue's configuration",
        link="https://kueue.sigs.k8s.io/docs/tasks/manage/setup_wait_for_pods_ready/",
    ),
    Entry(
        id="k8s-webhook-unreachable",
        title="Internal error occurred: failed calling webhook: connect: connection refused",
        patterns=(
            r"failed calling webhook \\?\"(?P<name>[\w.-]+)\\?\".*\b(?:dial|read) [^\"]*?: (?P<reason>[\w ]+: [^\"]*|i/o timeout)",
            r"failed calling webhook \\?\"(?P<name>[\w.-]+)\\?\".*: (?P<reason>[^:\"\\]+)(?:\\?\".*)?$",
        ),
        explains=("k8s-denied", "pod-crash-loop", "image-registry-certificate"),
        cause="Kubernetes asks an operator of the cluster, by its webhook {name}, before it makes this object, and got no answer: {reason}. "
        "The operator's pod does not run or has just started, its certificate is not ready, or a network rule is in between",
        probe="kubectl get pods -A | grep -iE 'webhook|operator|controller|kueue|trainer'; kubectl get endpoints -A | grep -i webhook",
        fix="wait until the operator's pod is ready (kubectl wait --for=condition=Available "
        "deployment/NAME), and apply again. Otherwise read its log. An operator that was removed "
        "leaves its webhooks: kubectl get "
        "validatingwebhookconfigurations,mutatingwebhookconfigurations",
        link="https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/",
    ),
    Entry(
        id="kueue-queue-missing",
        title="LocalQueue user-queue doesn't exist; ClusterQueue cluster-queue is inactive",
        patterns=(
            r"\b(?P<kind>(?:Local|Cluster)Queue) (?P<name>\S*) (?P<reason>doesn'{1,2}t) exist\b",
            r"\b(?P<kind>(?:Local|Cluster)Queue) (?P<name>\S*) (?P<reason>is) inactive\b",
        ),
        explains=("k8s-gang",),
        cause="Kueue does not start the job: its {kind} {name} does not exist in the job's namespace, or is stopped. A ClusterQueue is inactive, "
        "too, if a ResourceFlavor or an AdmissionCheck of it is missing",
        probe="kubectl get localqueues -A; kubectl get clusterqueues; kubectl describe clusterqueue NAME | tail; kubectl describe workload NAME",
        fix="name an existing queue of this namespace in the label kueue.x-k8s.io/queue-name, or ask the administrators to make it, with its "
        "ClusterQueue and ResourceFlavor",
        link="https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/",
    ),
    Entry(
        id="gpu-plugin-down",
        title="nvidia-device-plugin-daemonset 0/1 CrashLoopBackOff: the node offers no GPUs",
        patterns=(
            r"restarting failed container[= ]nvidia-device-plugin[\w-]*",
            r"\bnvidia-device-plugin-[\w-]+ +\d+/\d+ +(?P<reason>CrashLoopBackOff|Error|RunContainerError|CreateContainerError|Init:\w+)",
        ),
        explains=("k8s-unschedulable", "pod-crash-loop"),
        cause="NVIDIA's device plugin does not run on a node[: {reason}]. Kubernetes then counts no GPUs there, and pods that request them wait",
        probe="kubectl get pods -A | grep -iE 'nvidia|gpu-operator'; kubectl logs -n NAMESPACE POD; kubectl describe node NODE | grep -A8 "
        "Allocatable; on that node: nvidia-smi",
        fix="correct what its log names. Usually nvidia-smi fails on the node, or NVIDIA's runtime is not that of containerd. For the latter: "
        "nvidia-ctk runtime configure --runtime=containerd --set-as-default, restart containerd, and delete the plugin's pod",
        link="https://github.com/NVIDIA/k8s-device-plugin",
    ),
)
