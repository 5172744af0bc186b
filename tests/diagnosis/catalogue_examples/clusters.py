"""Printed texts of `ddpkit/diagnosis/catalogue/clusters.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "ray-head-address-empty": (
        (
            "[2025-07-23 10:05:49,679 W 51000 51000] gcs_rpc_client.h:151: Failed to connect to GCS at address :6379 within 5 seconds.",
            "https://github.com/ModalMinds/MM-EUREKA/issues/54",
        ),
        (
            "+ ray start --address=:6379 --num-gpus 8 --block",
            "https://github.com/ModalMinds/MM-EUREKA/issues/54",
        ),
    ),
    "ray-head-unreachable": (
        (
            "[2025-02-16 16:05:55,537 E 350061 350061] gcs_rpc_client.h:179: Failed to connect to GCS at address 172.23.15.13:20000 within 5 seconds.",
            "https://github.com/Jiayi-Pan/TinyZero/issues/75",
        ),
        (
            "[2025-02-16 16:06:26,552 W 350061 350061] gcs_client.cc:178: Failed to get cluster ID from GCS server: TimedOut: Timed out while waiting for GCS to become available.",
            "https://github.com/Jiayi-Pan/TinyZero/issues/75",
        ),
        (
            "[2022-09-08 17:16:31,380 C 46829 46957] gcs_rpc_client.h:537:  Check failed: absl::ToInt64Seconds(absl::Now() - gcs_last_alive_time_) < ::RayConfig::instance().gcs_rpc_server_reconnect_timeout_s() Failed to connect to GCS within 60 seconds",
            "https://github.com/ray-project/ray/issues/28372",
        ),
        (
            "[2021-04-18 06:54:54,934 C 756 756] service_based_gcs_client.cc:229: Couldn't reconnect to GCS server. The last attempted GCS server address was 10.42.0.44:43507",
            "https://github.com/ray-project/ray/issues/15389",
        ),
        (
            "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting `address`.",
            "https://github.com/ray-project/ray/issues/10466",
        ),
        (
            "ConnectionError: ray client connection timeout",
            "ray 2.58, source",
        ),
        (
            "ConnectionError: Could not read 'session_name' from GCS. Did GCS start successfully?",
            "ray 2.40, source",
        ),
        (
            "2022-03-30 17:22:35,502 WARNING node.py:1465 -- Unable to connect to GCS at 127.0.0.1:6379. Check that (1) Ray GCS with matching version started successfully at the specified address, and (2) there is no firewall setting preventing access.",
            "https://github.com/ray-project/ray/issues/23611",
        ),
    ),
    "ray-already-runs": (
        (
            "ConnectionError: Ray is trying to start at 172.17.0.10:6344, but is already running at 172.17.0.10:6344. Please specify a different port using the `--port` flag of `ray start` command.",
            "ray 2.40, source",
        ),
        (
            "AssertionError: Session name session_2024-01-02_03-04-05_678901_12 does not match persisted value b'session_2024-01-01_03-04-05_678901_11'. Perhaps there was an error connecting to the GCS storage backend.",
            "ray 2.58, source",
        ),
    ),
    "ray-no-ports": (
        (
            "(raylet, ip=10.159.0.92) [2022-08-23 13:43:56,522 E 211007 211007] core_worker.cc:137: Failed to register worker 60d50bcb76025d09e144ccf0e80922c9613bab2b5e14f940f1aeccfe to Raylet. Invalid: Invalid: No available ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
            "https://github.com/ray-project/ray/issues/28071",
        ),
    ),
    "ray-agent-failed": (
        (
            "(raylet, ip=172.29.58.101) [2022-10-27 16:30:03,850 E 98551 98592] (raylet) agent_manager.cc:134: The raylet exited immediately because the Ray agent failed. The raylet fate shares with the agent.",
            "https://github.com/ray-project/ray/issues/29412",
        ),
        (
            "[2024-05-06 07:08:09,123 E 4711 4790] (raylet) agent_manager.cc:84: The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent/424238335.",
            "ray 2.58.0, source",
        ),
        (
            "RuntimeError: Request failed with status code 500: No available agent to submit job, please try again later..",
            "https://github.com/OpenRLHF/OpenRLHF/issues/1236",
        ),
    ),
    "ray-node-died": (
        (
            "The node with node id: 0f and address: 10.0.0.3 has been marked dead because the detector has missed too many heartbeats from it.",
            "ray 2.9, source",
        ),
        (
            "The node with client ID 1eadc9db2f074bfec34caf25dd5bf1f99fad0d59 has been marked dead because the monitor has missed too many heartbeats from it.",
            "https://github.com/ray-project/ray/issues/3446",
        ),
        (
            "(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals.",
            "https://github.com/ray-project/ray/pull/60048",
        ),
        (
            "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable.",
            "ray 2.40, source",
        ),
        (
            "ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information.",
            "ray 2.40, source",
        ),
        (
            "(pid=81331) E0328 18:23:00.165781 81395 core_worker.cc:382] Raylet failed. Shutting down.",
            "https://github.com/ray-project/ray/issues/7788",
        ),
        (
            "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node for 5 times. This is likely because the machine or raylet has become overloaded.",
            "ray 2.58, source",
        ),
        (
            "The actor died unexpectedly before finishing this task. SYSTEM_ERROR Worker exit detail: Owner's node has crashed.",
            "https://github.com/hiyouga/EasyR1/issues/324",
        ),
        (
            "Some Ray subprocesses exited unexpectedly:\n  dashboard [exit code=-11]",
            "https://github.com/ray-project/ray/issues/45041",
        ),
        (
            "2020-01-23 19:31:13,975 ERROR scripts.py:410 -- Ray processes died unexpectedly:",
            "https://github.com/ray-project/ray/issues/6902",
        ),
    ),
    "ray-gpus-missing": (
        (
            "ValueError: Total available GPUs 8.0 is less than total desired GPUs 16",
            "https://github.com/verl-project/verl/issues/2515",
        ),
        (
            "ValueError: Resource pool global_pool: 8*2cannot be satisfied in this ray cluster",
            "verl, unverified",
        ),
        (
            "TimeoutError: Placement group creation timed out. Make sure your cluster either has enough resources or use an autoscaling cluster.",
            "https://github.com/meta-pytorch/torchx/issues/520",
        ),
        (
            "ray.exceptions.ActorUnschedulableError: The actor is not schedulable: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and soft=False was specified.",
            "ray 2.40, source",
        ),
        (
            "ray.exceptions.TaskUnschedulableError: The task is not schedulable: The task is infeasible.",
            "ray 2.58.0, source",
        ),
        (
            "Bundles must be a non-empty list of resource dictionaries",
            "https://github.com/agentscope-ai/Trinity-RFT/issues/235",
        ),
        (
            "AssertionError: no enough nodes for request: searching 2 th node",
            "verl 0.9, source",
        ),
        (
            "AssertionError: requesting 16 processes, bundle count cannot satisfy",
            "verl 0.9, source",
        ),
        (
            "Status message: Job supervisor actor could not be scheduled: The actor is not schedulable",
            "Ray 2.20, unverified",
        ),
    ),
    "ray-waits": (
        (
            "INFO 04-01 02:46:20 ray_utils.py:214] Waiting for creating a placement group of specs for 30 seconds. specs=[{'node:10.163.194.101': 0.001, 'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` to see if you have enough resources",
            "https://github.com/vllm-project/aibrix/issues/927",
        ),
        (
            "(scheduler +59s) Warning: The following resource request cannot be scheduled right now: {'CPU': 1.0}. This is likely due to all cluster resources being claimed by actors.",
            "https://github.com/Shanghai-Digital-Brain-Laboratory/DB-Football/issues/5",
        ),
        (
            "2021-12-12 08:24:41,346\tWARNING worker.py:1245 -- The actor or task with ID ffffffffffffffff9c08bcf94d34ab010a5c459102000000 cannot be scheduled right now.",
            "https://github.com/ray-project/ray/issues/21097",
        ),
        (
            "WARNING 03-30 14:11:45 [ray_utils.py:352] Tensor parallel size (16) exceeds available GPUs (8). This may result in Ray placement group allocation failures.",
            "https://github.com/gpustack/gpustack/issues/5056",
        ),
    ),
    "ray-store-in-tmp": (
        (
            "2025-01-14 03:08:29,081\tWARNING services.py:2022 -- WARNING: The object store is using /tmp instead of /dev/shm because /dev/shm has only 67108864 bytes available. This will harm performance!",
            "https://github.com/InftyAI/llmaz/issues/238",
        ),
    ),
    "ray-disk-nearly-full": (
        (
            "(raylet) [2025-05-19 04:50:12,113 E 976500 976530] (raylet) file_system_monitor.cc:116: /tmp/ray/session_2025-05-19_04-19-55_287964_976346 is over 95% full, available space: 2.03779 GB; capacity: 69.9336 GB. Object creation will fail if spilling is required.",
            "https://github.com/hiyouga/EasyR1/issues/300",
        ),
    ),
    "ray-store-full": (
        (
            "ray.exceptions.ObjectStoreFullError: Failed to put object 00ffffffffffffffffffffffffffffffffffffff0100000001000000 in object store because it is full. Object size is 1048576 bytes.",
            "ray 2.58.0, source",
        ),
        (
            "ray.exceptions.OutOfDiskError: Local disk is full",
            "ray 2.58, source",
        ),
    ),
    "ray-runtime-env": (
        (
            "Status message: runtime_env setup failed: Failed to set up runtime environment.",
            "https://github.com/ray-project/ray/issues/22472",
        ),
        (
            "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.",
            "https://github.com/ray-project/ray/issues/31818",
        ),
        (
            "(raylet, ip=10.134.42.238) [2025-12-03 11:16:18,892 E 52 52] (raylet) worker_pool.cc:1550: Fails to create or get runtime env [Node 10.134.42.238]",
            "https://github.com/IBM/ado/issues/283",
        ),
        (
            "Could not create the actor because its associated runtime env failed to be created.",
            "https://github.com/ray-project/ray/issues/22472",
        ),
        (
            "ValueError: Local directory /tmp/ray/session_1/runtime_resources/pip/4950ef for URI pip://4950ef does not exist on the cluster. Something may have gone wrong while installing the runtime_env `pip` packages.",
            "https://github.com/ray-project/ray/issues/38312",
        ),
    ),
    "ray-no-gpu-requested": (
        (
            "ray.exceptions.RayTaskError(RuntimeError): ray::ImplicitFunc.train() (pid=4101608, ip=192.168.112.106, repr=<lambda>)\nRuntimeError: No CUDA GPUs are available",
            "https://github.com/ray-project/ray/issues/37225",
        ),
    ),
    "visible-devices-changed": (
        (
            'torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "/pytorch/aten/src/ATen/cuda/CUDAContext.cpp":49, please report a bug to PyTorch. device=1, num_gpus=1',
            "https://github.com/verl-project/verl/issues/3028",
        ),
    ),
    "dask-memory": (
        (
            "distributed.nanny - WARNING - Worker exceeded 95% memory budget. Restarting",
            "https://github.com/mozilla/jetstream/issues/336",
        ),
        (
            "distributed.nanny.memory - WARNING - Worker tls://192.168.204.84:34937 (pid=129) exceeded 95% memory budget. Restarting...",
            "https://github.com/CoffeaTeam/coffea-casa/pull/409",
        ),
    ),
    "dask-worker-killed": (
        (
            "distributed.scheduler.KilledWorker: ('counts-6ec2db25', <Worker 'tcp://127.0.0.1:34589', name: 2, memory: 0, processing: 3>)",
            "https://github.com/mozilla/jetstream/issues/336",
        ),
        (
            "distributed.nanny - INFO - Worker process 22204 was killed by signal 9",
            "distributed, unverified",
        ),
    ),
    "k8s-gang": (
        (
            "Warning  FailedScheduling  12s   volcano  1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Undetermined",
            "https://github.com/volcano-sh/volcano/issues/2416",
        ),
        (
            "Normal   Unschedulable  10s  volcano  queue resource quota insufficient",
            "https://github.com/volcano-sh/volcano/issues/3220",
        ),
        (
            "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor default-flavor, 8 more needed",
            "https://github.com/kubernetes-sigs/kueue/issues/9048",
        ),
        (
            "pre-filter pod gang-worker-1 cannot find enough sibling pods, current pods number: 3, minMember of group: 5",
            "scheduler-plugins, unverified",
        ),
        (
            "Warning  FailedScheduling  2m  volcano  pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable",
            "volcano, unverified",
        ),
        (
            "   message: 'couldn''t assign flavors to pod set main: insufficient unused quota",
            "https://github.com/kubernetes-sigs/kueue/issues/7350",
        ),
    ),
    "pod-sandbox": (
        (
            'Warning  FailedCreatePodSandBox  3m42s  kubelet, ip-172-16-13-232.ec2.internal  Failed create pod sandbox: rpc error: code = Unknown desc = failed to set up sandbox container "9573f7" network for pod "b-f2q6k": NetworkPlugin cni failed to set up pod "b-f2q6k_default" network: add cmd: failed to assign an IP address to container',
            "https://github.com/awslabs/benchmark-ai/issues/549",
        ),
    ),
    "k8s-no-nvidia-runtime": (
        (
            'Failed to create pod sandbox: rpc error: code = Unknown desc = unable to get OCI runtime for sandbox "18073b": no runtime for "nvidia" is configured',
            "https://github.com/NVIDIA/gpu-operator/pull/2168",
        ),
        (
            'Failed create pod sandbox: rpc error: code = Unknown desc = RuntimeHandler "nvidia" not supported',
            "https://github.com/NVIDIA/gpu-operator/issues/250",
        ),
    ),
    "pod-config-missing": (
        (
            'Warning  Failed  29m  kubelet, ip-10-50-155-108.ec2.internal  Error: secrets "busybox-secret-47" not found',
            "https://github.com/kubernetes/kubernetes/issues/80466",
        ),
        (
            "Warning  Failed  3s  kubelet  Error: couldn't find key HF_TOKEN in Secret training/hf",
            "kubernetes, unverified",
        ),
    ),
    "pod-node-lost": (
        (
            "message: 'Taint manager: deleting due to NoExecute taint'",
            "https://github.com/kubernetes/kubernetes/issues/118286",
        ),
        (
            "Normal  TaintManagerEviction  2m  taint-eviction-controller  Marking for deletion Pod default/trainer-0",
            "kubernetes, unverified",
        ),
        (
            "reason: DeletionByTaintManager",
            "https://github.com/kubernetes/kubernetes/issues/118286",
        ),
        (
            "Message:        Pod was terminated in response to imminent node shutdown.",
            "kubernetes, unverified",
        ),
        (
            "  Warning  NodeNotReady  3m  node-controller  Node is not ready",
            "kubectl 1.29, unverified",
        ),
        (
            "Message: Pod was rejected as the node is shutting down.",
            "kubelet 1.29, unverified",
        ),
    ),
    "pod-topology": (
        (
            "Warning  10m   kubelet, dell8  Resources cannot be allocated with Topology locality",
            "kubernetes, unverified",
        ),
        (
            "guaranteed   0/1     TopologyAffinityError   0          113s",
            "kubernetes, unverified",
        ),
    ),
    "k8s-denied": (
        (
            'Error from server: error when creating "job.yaml": admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: spec.trainer.numNodes: Invalid value: 0',
            "kubernetes, unverified",
        ),
        (
            'Error creating: pods "trainer-0" violates PodSecurity "restricted:latest": privileged (container "main" must not set securityContext.privileged=true)',
            "kubernetes, unverified",
        ),
        (
            'Error from server (Forbidden): pytorchjobs.kubeflow.org is forbidden: User "ann" cannot list resource "pytorchjobs" in API group "kubeflow.org" in the namespace "default"',
            "kubernetes, unverified",
        ),
        (
            '"error": "job \\"torch-test-trainer-node-0\\" creation failed with error: Job.batch \\"torch-test-trainer-node-0\\" is invalid: spec.template.spec.containers[0].resources.limits: Invalid value: \\"1\\""',
            "https://github.com/kubeflow/trainer/issues/2363",
        ),
        (
            'error: error validating "job.yaml": error validating data: ValidationError(Job.spec): missing required field "template" in io.k8s.api.batch.v1.JobSpec',
            "kubectl 1.29, unverified",
        ),
        (
            'Error from server (BadRequest): error when creating "job.yaml": TrainJob in version "v1alpha1" cannot be handled as a TrainJob: strict decoding error: unknown field "spec.trainer.nodes"',
            "kubectl 1.29, unverified",
        ),
        (
            '  Warning  FailedCreate  3s  job-controller  Error creating: pods "train-" is forbidden: error looking up service account default/trainer: serviceaccount "trainer" not found',
            "kubectl 1.29, unverified",
        ),
        (
            'Error: container has runAsNonRoot and image will run as root (pod: "train-0", container: trainer)',
            "kubelet 1.29, unverified",
        ),
        (
            "error: error parsing job.yaml: error converting YAML to JSON: yaml: line 12: did not find expected key",
            "kubectl 1.29, unverified",
        ),
    ),
    "k8s-kind-missing": (
        (
            'error: resource mapping not found for name: "ddp" namespace: "" from "job.yaml": no matches for kind "PyTorchJob" in version "kubeflow.org/v1"',
            "kubectl 1.30, run",
        ),
        (
            'time="2023-06-13T03:24:07Z" level=warning msg="Sync PodGroup kubeflow/pytorch-dist-mnist-gloo: unable to create PodGroup: the server could not find the requested resource (post podgroups.scheduling.volcano.sh)"',
            "https://github.com/kubeflow/trainer/issues/1825",
        ),
        (
            'error: the server doesn\'t have a resource type "pytorchjobs"',
            "kubectl 1.29, unverified",
        ),
    ),
    "k8s-api-unreachable": (
        (
            "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout",
            "kubectl 1.30, source",
        ),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
            "kubectl 1.32, run",
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            "kubectl, source, unverified",
        ),
        (
            "E1008 05:53:40.770104 1 reflector.go:205] controller.go:355: Failed to list *v1.Namespace: Get https://10.100.200.1:443/api/v1/namespaces?limit=500&resourceVersion=0: dial tcp 10.100.200.1:443: i/o timeout",
            "https://github.com/cloudfoundry-incubator/kubo-deployment/issues/350",
        ),
        (
            'Get "https://10.43.0.1:443/version": dial tcp 10.43.0.1:443: connect: no route to host',
            "https://github.com/rancher/rancher/issues/10322",
        ),
    ),
    "pod-liveness": (
        (
            "Normal  Killing  40s  kubelet  Container trainer failed liveness probe, will be restarted",
            "kubernetes, unverified",
        ),
    ),
    "pod-waits-for-master": (
        (
            "Warning  BackOff  2m49s  kubelet  Back-off restarting failed container init-pytorch in pod random-exp-jw6qxmrm-worker-0_sampler(8d6860a7)",
            "https://github.com/kubeflow/trainer/issues/2034",
        ),
        (
            "waiting for master",
            "https://github.com/kubeflow/pytorch-operator/pull/187",
        ),
    ),
    "cloud-no-capacity": (
        (
            "botocore.exceptions.ClientError: An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation (reached max retries: 4): Insufficient capacity.",
            "https://github.com/m2lines/Samudra/issues/866",
        ),
        (
            'FailureReason: "CapacityError: Unable to provision requested ML compute capacity. Please retry using a different ML instance type."',
            "https://github.com/DIAGNijmegen/rse-grand-challenge/issues/2631",
        ),
        (
            "ERROR: (gcloud.compute.instances.create) Could not fetch resource:\n---\ncode: ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            "gcloud 528, source",
        ),
        (
            "sky.exceptions.ResourcesUnavailableError: Failed to provision all possible launchable resources. Relax the task's resource requirements: 1x RunPod(cpus=32+, {'H100': 8})",
            "https://github.com/skypilot-org/skypilot/issues/5600",
        ),
        (
            "sky.exceptions.ResourcesUnavailableError: Failed to acquire resources in us-central1-a for {<Cloud>(cpus=2+)}.",
            "https://github.com/skypilot-org/skypilot/pull/4128",
        ),
        (
            "E 11-26 17:47:34 backend_utils.py:992] Timed out: waited for more than 90 seconds for new workers to be provisioned, but no progress.",
            "https://github.com/skypilot-org/skypilot/issues/1450",
        ),
    ),
    "cloud-quota": (
        (
            "ResourceLimitExceeded: An error occurred (ResourceLimitExceeded) when calling the CreateTrainingJob operation: The account-level service limit 'ml.p3.2xlarge for training job usage' is 0 Instances, with current utilization of 0 Instances and a request delta of 1 Instances.",
            "https://github.com/gabehollombe-aws/jupyter-notebooks/issues/1",
        ),
        (
            "Got return code 'quotaExceeded' in us-central1-a: \"Quota 'SSD_TOTAL_GB' exceeded.  Limit: 500.0 in region us-central1\"",
            "https://github.com/skypilot-org/skypilot/pull/4333",
        ),
        (
            "An error occurred (VcpuLimitExceeded) when calling the RunInstances operation: You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to.",
            "botocore, unverified",
        ),
        (
            "Operation could not be completed as it results in exceeding approved standardNDSv2Family Cores quota.",
            "azure-cli, unverified",
        ),
        (
            "google.api_core.exceptions.ResourceExhausted: 429 The following quota metrics exceed quota limits: aiplatform.googleapis.com/custom_model_training_nvidia_t4_gpus",
            "Vertex AI, documented",
        ),
    ),
    "grpc-proxy": (
        (
            'details = "failed to connect to all addresses; last error: UNKNOWN: HTTP proxy returned response code 503"',
            "grpcio 1.84, source",
        ),
    ),
    "dask-scheduler-unreachable": (
        (
            "OSError: Timed out trying to connect to tcp://10.0.0.4:8786 after 30 s",
            "distributed 2023.5.0, source",
        ),
    ),
    "spark-barrier-slots": (
        (
            "[SPARK-24819]: Barrier execution mode does not allow run a barrier stage that requires more slots than the total number of slots in the cluster currently.",
            "spark, unverified",
        ),
    ),
    "spark-executor-lost": (
        (
            "Lost task 3.3 in stage 1.0 (TID 9) (10.0.0.4 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Container from a bad node: container_1 on host: ip-10-0-0-4. Exit status: 137.",
            "spark, unverified",
        ),
    ),
    "pod-readiness": (
        (
            "Warning  Unhealthy  3m  kubelet  Readiness probe failed: dial tcp 10.0.0.8:8265: connect: connection refused",
            "kubernetes, unverified",
        ),
        (
            "Warning  Unhealthy  3m  kubelet  Startup probe failed: HTTP probe failed with statuscode: 503",
            "kubernetes, unverified",
        ),
    ),
    "pod-not-started": (
        (
            'Error from server (BadRequest): container "pytorch" in pod "jupyter-kernel-jxosi-worker-0" is waiting to start: PodInitializing',
            "https://github.com/kubeflow/pytorch-operator/issues/348",
        ),
    ),
    "pod-crash-loop": (
        ("      Reason:       CrashLoopBackOff", "https://github.com/kubeflow/kubeflow/issues/1440"),
        ("Warning  BackOff  kubelet  Back-off restarting failed container", "Kubernetes 1.29, source"),
    ),
    "pod-pending": (
        ("ddp-master-0         0/1     Pending             0          30m", "kubectl, unverified"),
        (
            "cs-211119-nyyooguo1s-master-0   0/1     ContainerCreating   0          17d",
            "https://github.com/volcano-sh/volcano/issues/1894",
        ),
        (
            "mnist-ddp-worker-0   0/1     Init:0/1           0             10m",
            "https://github.com/kubeflow/pytorch-operator/issues/352",
        ),
    ),
    "ray-address-of-all": (
        (
            "ray.exceptions.RayTaskError(OwnerDiedError): ray::main_task() (pid=50411, ip=0.0.0.0)",
            "https://github.com/verl-project/verl/issues/572",
        ),
    ),
    "ray-worker-not-registered": (
        (
            "AssertionError: failed to get register_center_actor: zL5aNK_register_center in []",
            "https://github.com/verl-project/verl/issues/595",
        ),
        (
            "TimeoutError: Failed to get register_center_actor GS5TrW_register_center in list_named_actors for 300 seconds",
            "https://github.com/YWenxi/think-with-images-through-self-calling/issues/3",
        ),
    ),
    "ray-worker-slow": (
        (
            "(raylet) [2025-10-31 17:08:05,490 E 24507 24507] (raylet) worker_pool.cc:586: Some workers of the worker process(26154) have not registered within the timeout. The process is dead, probably it crashed during start.",
            "https://github.com/RLinf/RLinf/issues/227",
        ),
    ),
    "pod-refused": (
        (
            "datasets-server-prod-datasets-worker-776b774978-g7mpk   1/1     Evicted   0             73m",
            "https://github.com/huggingface/dataset-viewer/issues/388",
        ),
        (
            "datasets-server-prod-datasets-worker-776b774978-cdb4b   0/1     OutOfmemory   0             1s",
            "https://github.com/huggingface/dataset-viewer/issues/388",
        ),
        ("imgsr-11103465-worker-0   0/1     UnexpectedAdmissionError   0     5m", "Kubernetes 1.16, unverified"),
        ("trainer-worker-1   0/1     OutOfcpu   0          2s", "Kubernetes 1.22, unverified"),
    ),
    "cloud-node-not-launched": (
        (
            "2023-08-28 16:55:46,889 - [slurm_plugin.resume:_resume] - ERROR - Failed to launch following nodes, setting nodes to down: (x1) ['a10g-1x-spot-dy-a10g-1x-spot-cr-0-1']",
            "https://github.com/aws/aws-parallelcluster/issues/5670",
        ),
        (
            "slurmctld: node gpu-dy-1 not resumed by ResumeTimeout(1800), setting DOWN and POWERED_DOWN",
            "Slurm, slurmctld, source",
        ),
    ),
    "k8s-immutable": (
        (
            'Job.batch "api-migration-job-zdq5ov6o" is invalid: spec.template: Invalid value: [job spec]: field is immutable',
            "https://github.com/pulumi/pulumi-kubernetes/issues/330",
        ),
        (
            'The Job "test-job" is invalid: spec.template: Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:""}}: field is immutable',
            "https://github.com/kubernetes/kubernetes/issues/89657",
        ),
    ),
    "cloud-machine-lost": (
        (
            '"StatusReason": "Host EC2 (instance i-08784105ffff56b4f) terminated."',
            "https://github.com/ministryofjustice/modernisation-platform-environments/pull/17291",
        ),
        (
            "Error for Transform job forecasting-deepar-2020-07-28: Failed. Reason: InternalServerError: We encountered an internal error.  Please try again.",
            "https://github.com/aws/sagemaker-python-sdk/issues/1758",
        ),
    ),
    "ray-name-taken": (
        (
            "ValueError: The name ZChSMX_register_center (namespace=None) is already taken. Please use a different name or get the existing actor using ray.get_actor('ZChSMX_register_center', namespace='None')",
            "https://github.com/hiyouga/EasyR1/issues/314",
        ),
        (
            "System error: Failed to create placement group '2004d9c26c6b57c64b93e35153c7ad000000' because name 'tpu-slice-ray-marin-us-central2-worker-086ef96b-tpu' already exists.",
            "https://github.com/marin-community/marin/issues/1425",
        ),
        (
            "gcs_actor_manager.cc:161: Failed to register actor: Invalid: Actor with name 'some_name' already exists., job id = 35000000",
            "https://github.com/ray-project/ray/issues/20611",
        ),
    ),
    "kueue-evicted": (
        (
            "  Normal  EvictedDueToPodsReadyTimeout  2m5s                 kueue-workload-controller  Exceeded the PodsReady timeout e2e-gsj4m/job-high-67543",
            "https://github.com/kubernetes-sigs/kueue/pull/2376",
        ),
        (
            "      message: Exceeded the PodsReady timeout default/group",
            "https://github.com/kubernetes-sigs/kueue/pull/2376",
        ),
    ),
    "k8s-webhook-unreachable": (
        (
            'Internal error occurred: failed calling webhook "vlocalqueue.kb.io": failed to call webhook: Post "https://kueue-webhook-service.kueue-system.svc:443/validate-kueue-x-k8s-io-v1beta1-localqueue?timeout=10s": dial tcp 10.244.1.4:9443: connect: connection refused',
            "https://github.com/kubernetes-sigs/kueue/issues/1658",
        ),
        (
            'Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post "https://kueue-webhook-service.kueue-system.svc:443/mutate-batch-v1-job?timeout=10s": read tcp 172.18.0.3:40472->10.244.1.3:9443: read: connection reset by peer',
            "https://github.com/kubernetes-sigs/kueue/issues/2073",
        ),
        (
            'E0124 13:36:39.748129       1 dispatcher.go:137] failed calling webhook "webhook.sparkoperator.k8s.io": Post https://sparkoperator-webhook.spark.svc:443/webhook?timeout=30s: dial tcp 10.104.113.141:443: connect: connection refused',
            "https://github.com/kubeflow/spark-operator/issues/774",
        ),
        (
            'Error from server (InternalError): Internal error occurred: failed calling webhook "mutating.pytorchjob.training.kubeflow.org": failed to call webhook: Post "https://training-operator.kubeflow.svc:443/mutate?timeout=10s": context deadline exceeded',
            "kubectl 1.29, unverified",
        ),
        (
            'Error from server (InternalError): Internal error occurred: failed calling webhook "validator.trainjob.trainer.kubeflow.org": failed to call webhook: Post "https://x.kubeflow-system.svc:443/v?timeout=10s": tls: failed to verify certificate: x509: certificate has expired or is not yet valid',
            "kubectl 1.29, unverified",
        ),
        (
            'Error from server (InternalError): Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": no endpoints available for service "kueue-webhook-service"',
            "kubectl 1.29, unverified",
        ),
    ),
    "kueue-queue-missing": (
        (
            "LocalQueue user-queue doesn't exist",
            "kueue 0.10, source",
        ),
        (
            "    message: ClusterQueue cluster-queue is inactive",
            "kueue 0.10, source",
        ),
    ),
    "gpu-plugin-down": (
        (
            "back-off 5m0s restarting failed container=nvidia-device-plugin-ctr pod=nvidia-device-plugin-daemonset-wqst8_kube-system(441ce715)",
            "https://github.com/open-edge-platform/geti_v2/issues/436",
        ),
        (
            "kube-system   nvidia-device-plugin-daemonset-x2k9p   0/1     CrashLoopBackOff   12 (3m ago)   40m",
            "kubectl 1.29, unverified",
        ),
    ),
}
