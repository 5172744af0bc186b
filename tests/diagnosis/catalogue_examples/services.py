"""Printed texts of `ddpkit/diagnosis/catalogue/services.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "hydra-config-missing": (
        ("In 'hydra/config': Could not find 'hydra/launcher/submitit_local'", "hydra 1.3, source"),
        ("Could not load 'hydra/launcher/joblib'", "hydra 1.0, source"),
    ),
    "download-refused": (
        ("urllib.error.HTTPError: HTTP Error 403: Forbidden", "Python 3.11, source"),
        (
            "urllib.error.HTTPError: HTTP Error 503: Service Unavailable",
            "https://github.com/pytorch/vision/issues/1938",
        ),
    ),
    "hub-unreachable": (
        (
            "Checkout your internet connection or see how to run the library in offline mode at 'https://huggingface.co/docs/transformers/installation#offline-mode'.",
            "https://github.com/InternRobotics/PointLLM/issues/62",
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files",
            "transformers, source",
        ),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /gpt2/resolve/main/config.json",
            "requests 2.34, source",
        ),
        (
            "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='huggingface.co', port=443): Read "
            "timed out. (read timeout=10)",
            "requests 2.31, source",
        ),
        (
            "huggingface_hub.utils._errors.HfHubHTTPError: 504 Server Error: Gateway Time-out for url: "
            "https://huggingface.co/api/models/x",
            "huggingface_hub 0.23, source",
        ),
        (
            "'[Errno 101] Network is unreachable' thrown while requesting HEAD https://huggingface.co/gpt2/resolve/main/vocab.json\nTraceback (most recent call last):",
            "huggingface_hub 0.30, source",
        ),
        (
            "ConnectionError: Couldn't reach https://raw.githubusercontent.com/huggingface/datasets/1.1.2/datasets/glue/glue.py",
            "datasets 1.1, source",
        ),
        (
            "httpx.ConnectError: [Errno -3] Temporary failure in name resolution",
            "httpx 0.28, source",
        ),
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache. Please check your connection and try again or make sure your Internet connection is on.",
            "https://github.com/BaranziniLab/KG_RAG/issues/46",
        ),
    ),
    "hub-no-access": (
        (
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-66)",
            "huggingface_hub, source",
        ),
        (
            "OSError: my-model is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
            "transformers, source",
        ),
        (
            "Cannot access gated repo for url "
            "https://huggingface.co/api/models/meta-llama/Meta-Llama-3-8B-Instruct/revision/main.",
            "https://github.com/xorbitsai/inference/issues/1734",
        ),
        (
            "Access to model meta-llama/Meta-Llama-3-8B-Instruct is restricted. You must be "
            "authenticated to access it.",
            "https://github.com/xorbitsai/inference/issues/1734",
        ),
        (
            "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-66)",
            "huggingface_hub 0.34, source",
        ),
        (
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: "
            "https://huggingface.co/api/models/me/mymodel",
            "requests 2.34, source",
        ),
        (
            "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: "
            "https://hf-mirror.com/meta-llama/Meta-Llama-3-8B/resolve/8cde5ca8/.gitattributes",
            "https://github.com/LetheSec/HuggingFace-Download-Accelerator/issues/39",
        ),
        (
            "datasets.exceptions.DatasetNotFoundError: Dataset 'me/mydata' doesn't exist on the Hub or cannot be accessed.",
            "datasets 2.20, source",
        ),
        (
            "Revision Not Found for url: https://huggingface.co/gpt2/resolve/v9/config.json.",
            "huggingface_hub 2.4, source",
        ),
        ("OSError: You are trying to access a gated repo.", "transformers 5.24, source"),
    ),
    "hub-rate-limit": (
        (
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/models/gpt2",
            "requests 2.34, source",
        ),
        (
            "HTTP Error 429 thrown while requesting HEAD https://huggingface.co/gpt2/resolve/main/config.json\nTraceback (most recent call last):",
            "huggingface_hub 0.30, source",
        ),
        (
            "RuntimeError: Data processing error: File reconstruction error: CAS Client Error: Request error: HTTP status client error (429 Too Many Requests)",
            "hf-xet, unverified",
        ),
    ),
    "ssl-certificate": (
        (
            "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1007)",
            "Python 3.11, documented",
        ),
        ("curl: (60) SSL certificate problem: self-signed certificate", "curl 7.88, run"),
    ),
    "wandb-login": (
        (
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "https://github.com/hiyouga/EasyR1/issues/69",
        ),
        (
            "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "https://github.com/Kent0n-Li/ChatDoctor/issues/15",
        ),
        (
            "wandb: ERROR Error while calling W&B API: permission denied (<Response [401]>)",
            "https://github.com/wandb/wandb/issues/2966",
        ),
        (
            "wandb.errors.AuthenticationError: The API key you provided is either invalid or missing.",
            "https://github.com/wandb/wandb/issues/7783",
        ),
        (
            "wandb.errors.CommError: Invalid or missing api_key. Run `wandb login`",
            "https://github.com/wandb/wandb/issues/4705",
        ),
        (
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://api.wandb.ai/graphql",
            "https://github.com/wandb/wandb/issues/2966",
        ),
        (
            "wandb.errors.errors.CommError: user is not logged in",
            "wandb 0.2x, unverified",
        ),
    ),
    "k8s-unschedulable": (
        (
            "Warning  FailedScheduling  default-scheduler  0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "Kubernetes 1.29, source",
        ),
        (
            "Normal   NotTriggerScaleUp  6s  cluster-autoscaler  pod didn't trigger scale-up (it wouldn't fit if a new node is added): 2 Insufficient nvidia.com/gpu",
            "cluster-autoscaler, unverified",
        ),
        (
            "Warning  FailedScheduling  2m  default-scheduler  pod has unbound immediate PersistentVolumeClaims",
            "Kubernetes, scheduler, source, unverified",
        ),
        (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 8000, used: 1000, capacity: 7000",
            "kubelet 1.29, unverified",
        ),
    ),
    "download-unreachable": (
        (
            'Downloading: "https://download.pytorch.org/models/resnet18-f37072fd.pth" to /home/ann/.cache/torch/hub/checkpoints/resnet18-f37072fd.pth\nurllib.error.URLError: <urlopen error [Errno -2] Name or service not known>',
            "torch 2.1, source",
        ),
        (
            "urllib.error.URLError: <urlopen error timed out>",
            "Python 3.11, source",
        ),
        (
            "RuntimeError: Error downloading train-images-idx3-ubyte.gz",
            "https://github.com/pytorch/pytorch/issues/67667",
        ),
    ),
    "pod-evicted-disk": (
        (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10120387530, available: 9702960Ki. Container trainer was using 31457280Ki, request is 0, has larger consumption of ephemeral-storage. ",
            "Kubernetes 1.29, source",
        ),
        (
            "The node had condition: [DiskPressure]. ",
            "Kubernetes 1.29, source",
        ),
        ("Message:\tThe node was low on resource: nodefs.", "https://github.com/pachyderm/pachyderm/issues/2207"),
    ),
    "pod-evicted-memory": (
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 17348Ki. Container trainer was using 188Gi, request is 64Gi, has larger consumption of memory. ",
            "Kubernetes 1.29, source",
        ),
        (
            "The node had condition: [MemoryPressure]. ",
            "Kubernetes 1.29, source",
        ),
    ),
    "pod-storage-limit": (
        (
            "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. ",
            "Kubernetes 1.29, source",
        ),
        (
            'Container trainer exceeded its local ephemeral storage limit "20Gi". ',
            "Kubernetes 1.29, source",
        ),
        (
            'Usage of EmptyDir volume "scratch" exceeds the limit "50Gi". ',
            "Kubernetes 1.29, source",
        ),
    ),
    "config-key-unknown": (
        (
            "KeyError: 'Non-existent config key: SOLVER.MAX_ITERS'",
            "yacs 0.1.8, source",
        ),
        (
            "KeyError: 'Key SOLVER.LR was renamed to SOLVER.BASE_LR; please update your config'",
            "yacs 0.1.8, source",
        ),
        (
            "omegaconf.errors.ConfigAttributeError: Key 'max_iters' is not in struct",
            "omegaconf 2.3, source",
        ),
        (
            "Could not override 'trainer.max_iters'.",
            "hydra 1.3, source",
        ),
        (
            "AttributeError: 'ConfigDict' object has no attribute 'max_iters'",
            "mmcv 1.7, source",
        ),
        (
            "omegaconf.errors.ConfigAttributeError: Missing key max_iters",
            "omegaconf 2.3, source",
        ),
        (
            "omegaconf.errors.ConfigKeyError: str interpolation key 'common.tpu' not found",
            "https://github.com/facebookresearch/fairseq/issues/3689",
        ),
        (
            "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path",
            "omegaconf 2.3.1, source",
        ),
        (
            "KeyError: \"class `EpochBasedTrainLoop` in mmengine/runner/loops.py: 'dataset'\"",
            "https://github.com/open-mmlab/mmselfsup/issues/702",
        ),
        (
            "KeyError: '`cfg` or `default_args` must contain the key \"type\", but got {\\'max_epochs\\': 273}",
            "https://github.com/open-mmlab/mmdetection/issues/4673",
        ),
    ),
    "pod-gpus-gone": (
        (
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected",
            "Kubernetes 1.29, source",
        ),
        (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
            "Kubernetes 1.29, source",
        ),
        (
            "Warning  OutOfnvidia.com/gpu  108s  kubelet  Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 8, capacity: 8",
            "Kubernetes, kubelet, source",
        ),
        (
            "  message: Pod Allocate failed due to pod d65f09ad-cca3-4631-a0a3-d5ba850f8a69 container wait-gcs-ready unable to find GPU device allocation by scheduler, which is unexpected",
            "https://github.com/ray-project/kuberay/issues/1414",
        ),
        (
            "  Warning  UnexpectedAdmissionError  73s               kubelet        Allocate failed due to rpc error: code = Unavailable desc = transport is closing, which is unexpected",
            "https://github.com/Project-HAMi/HAMi/issues/39",
        ),
        (
            "container start failed: CreateContainerConfigError: endpoint not found in cache for a registered resource: nvidia.com/gpu",
            "https://github.com/NVIDIA/k8s-device-plugin/issues/119",
        ),
        (
            "nvidia-container-cli: device error: no-gpu-has-128MiB-to-run: unknown device: unknown",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/223",
        ),
    ),
    "k8s-quota": (
        (
            'Error from server (Forbidden): error when creating "job.yaml": pods "train-0" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=8',
            "Kubernetes 1.29, source",
        ),
    ),
    "pod-preempted": (
        (
            "Preempted in order to admit critical pod",
            "Kubernetes 1.29, source",
        ),
        (
            "Preempted by pod 7a1c on node gpu-3",
            "Kubernetes 1.29, source",
        ),
        (
            "Preempted to accommodate a workload (UID: 5c023c28, JobUID: UNKNOWN) due to prioritization in the ClusterQueue",
            "kueue, unverified",
        ),
        (
            "  Normal   EvictedDueToPreempted  2m49s                   kueue-admission       Evicted",
            "kueue 0.9, unverified",
        ),
        (
            "WorkloadEvictedDueToPreempted: Preempted to accommodate a higher priority Workload",
            "https://github.com/marin-community/marin/issues/7806",
        ),
    ),
    "pod-volume": (
        (
            'Warning  FailedMount  kubelet  MountVolume.SetUp failed for volume "data" : mount failed: exit status 32',
            "Kubernetes 1.29, source",
        ),
        (
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition",
            "Kubernetes 1.27, source",
        ),
        (
            'Warning  Failed     3s    kubelet            Error: cannot find volume "ssh-auth" to mount into container "mpi-launcher"',
            "https://github.com/kubernetes-sigs/kueue/issues/961",
        ),
        (
            'Warning  FailedAttachVolume  9s  attachdetach-controller  Multi-Attach error for volume "pvc-1b2c" Volume is already used by pod(s) trainer-0',
            "kubernetes, unverified",
        ),
        (
            'Warning  FailedAttachVolume  AttachVolume.Attach failed for volume "pvc-1" : rpc error: code = Internal desc = Could not attach volume',
            "Kubernetes, unverified",
        ),
        (
            '  Warning  Failed  3s  kubelet  Error: failed to prepare subPath for volumeMount "data" of container "trainer"',
            "kubectl 1.29, unverified",
        ),
        (
            '  Warning  ProvisioningFailed  3s  persistentvolume-controller  storageclass.storage.k8s.io "fast" not found',
            "kubectl 1.29, unverified",
        ),
    ),
    "wandb-unreachable": (
        (
            "wandb: ERROR Run initialization has timed out after 90.0 sec. Please try increasing the timeout with the `init_timeout` setting: `wandb.init(settings=wandb.Settings(init_timeout=120))`.",
            "https://github.com/Wuziyi616/EventCLIP/issues/8",
        ),
        (
            "wandb.errors.CommError: Run initialization has timed out after 90.0 sec. ",
            "https://github.com/mbzuai-oryx/GeoChat/issues/49",
        ),
        (
            "wandb: ERROR Error while calling W&B API: Max retries exceeded with url: /graphql",
            "wandb, unverified",
        ),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries exceeded with url: /graphql",
            "requests 2.34, run",
        ),
    ),
    "wandb-service": (
        (
            "2023-02-17 22:40:24,365 (worker_7) : wandb: ERROR Error communicating with wandb process",
            "https://github.com/bigcode-project/Megatron-LM/issues/27",
        ),
        (
            "wandb.sdk.service.service.ServiceStartTimeoutError: Timed out waiting for wandb service to start after 30.0 seconds. Try increasing the timeout with the `_service_wait` setting.",
            "wandb, unverified",
        ),
        (
            "wandb.sdk.lib.service.service_port_file.ServicePollForTokenError: Failed to read port info after 30.0 seconds (wandb-core PID=4711): /tmp/tmpa1b2c3d4/port-4710.txt",
            "wandb 0.30, source",
        ),
        (
            "wandb.sdk.service.service.ServiceStartProcessError: The wandb service process exited with 1. Ensure that `sys.executable` is a valid python interpreter.",
            "wandb 0.16, source",
        ),
        (
            "wandb.errors.UsageError: Error communicating with wandb process",
            "wandb, unverified",
        ),
        (
            "wandb.sdk.wandb_init.InitStartError: Error communicating with wandb process",
            "wandb, unverified",
        ),
    ),
    "wandb-no-access": (
        (
            "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)",
            "https://github.com/Sharath-girish/LilNetX/issues/4",
        ),
        (
            "wandb.errors.CommError: It appears that you do not have permission to access the requested resource.",
            "https://github.com/Sharath-girish/LilNetX/issues/4",
        ),
        (
            "wandb.errors.UsageError: Unable to attach to run 3hg2k1ab",
            "wandb 0.16, source",
        ),
        (
            "wandb.errors.errors.CommError: the provided API key cannot access this resource",
            "a log of SkyRL, documented",
        ),
    ),
    "wandb-argument": (
        (
            "wandb.errors.errors.UsageError: Invalid project name '/content/runs/train': cannot contain characters '/,\\\\,#,?,%,:', found '/'",
            "wandb 0.31, source",
        ),
        (
            "wandb.errors.errors.UsageError: The value 'never' is not a valid option for resuming a run (imagenet-stage01-r18_adr-s0) that already exists.",
            "wandb 0.2x, unverified",
        ),
        (
            "wandb.errors.errors.UsageError: Run ID cannot contain the characters: :;,#?/'",
            "wandb 0.31, source",
        ),
    ),
    "tracker-not-started": (
        (
            "wandb.errors.Error: You must call wandb.init() before wandb.log()",
            "wandb 0.30.0, source",
        ),
        (
            "AttributeError: 'NoneType' object has no attribute 'add_scalar'",
            "Python 3.11, run",
        ),
        (
            "RuntimeError: No active Run. Call swanlab.init() first.",
            "https://github.com/modelscope/ms-swift/issues/9545",
        ),
    ),
    "mlflow-unreachable": (
        (
            "mlflow.exceptions.MlflowException: API request to endpoint /api/2.0/mlflow/runs/create failed with error code 403 != 200. Response body: ''",
            "https://github.com/mlflow/mlflow/issues/7795",
        ),
        (
            "mlflow.exceptions.MlflowException: API request to http://localhost:5000/api/2.0/mlflow/experiments/get-by-name failed with exception HTTPConnectionPool(host='localhost', port=5000): Max retries exceeded with url: /api/2.0/mlflow/experiments/get-by-name",
            "https://github.com/mlflow/mlflow/issues/12154",
        ),
    ),
    "mlflow-run-shared": (
        (
            "mlflow.exceptions.RestException: INVALID_PARAMETER_VALUE: Changing param values is not allowed. Param with key='lr' was already logged with value='1' for run ID='93f2'.",
            "mlflow, unverified",
        ),
        (
            "Exception: Run with UUID 93f2ab is already active. To start a new run, first end the current run with mlflow.end_run().",
            "mlflow, unverified",
        ),
    ),
    "tracker-not-configured": (
        (
            "clearml.backend_api.session.defs.MissingConfigError: It seems ClearML is not configured on this machine!",
            "clearml, unverified",
        ),
        (
            "ValueError: Comet.ml requires an API key. Please provide as the first argument to Experiment(api_key) or as an environment variable named COMET_API_KEY ",
            "comet_ml, unverified",
        ),
    ),
    "config-file-broken": (
        (
            "yaml.scanner.ScannerError: mapping values are not allowed here",
            "PyYAML 6, run",
        ),
        (
            "hydra.errors.MissingConfigException: Cannot find primary config 'train'. Check that it's in your config search path.",
            "hydra, unverified",
        ),
        (
            "Primary config directory not found.",
            "hydra 1.3, source",
        ),
        (
            "omegaconf.errors.InterpolationResolutionError: KeyError raised while resolving interpolation: \"Environment variable 'DATA' not found\"",
            "omegaconf 2.3.1, source",
        ),
        (
            "hydra.errors.OverrideParseException: mismatched input '=' expecting <EOF>",
            "hydra 1.3, source",
        ),
        (
            "LexerNoViableAltException: a=b=c",
            "hydra 1.3, source",
        ),
        (
            "missing EQUAL at '<EOF>'",
            "https://github.com/NVIDIA-NeMo/Speech/issues/8746",
        ),
        (
            "mismatched input '=' expecting <EOF>",
            "hydra-core 1.3, run",
        ),
        (
            "extraneous input '=' expecting {<EOF>, ':', BRACKET_OPEN, BRACE_OPEN, FLOAT, INT, BOOL, NULL, UNQUOTED_CHAR, ID, ESC, WS, QUOTED_VALUE, INTERPOLATION}",
            "hydra-core 1.3, run",
        ),
        (
            "no viable alternative at input '[1'",
            "hydra-core 1.3, run",
        ),
    ),
    "omegaconf-pretty": (
        (
            "omegaconf.errors.ConfigAttributeError: Key 'pretty' is not in struct",
            "https://github.com/facebookresearch/ContrastiveSceneContexts/issues/45",
        ),
        (
            "omegaconf.errors.ConfigAttributeError: Missing key pretty",
            "https://github.com/qq456cvb/Point-Transformers/issues/21",
        ),
    ),
    "json-broken": (
        (
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "Python 3.11, run",
        ),
    ),
    "deepspeed-config-keys": (
        (
            "ValueError: `--mixed_precision` arg cannot be set to `bf16` when `fp16` is set in the DeepSpeed config file.",
            "https://github.com/huggingface/transformers/issues/39849",
        ),
        (
            "ValueError: `bfloat16.enabled` not found in kwargs. Please specify `bfloat16.enabled` without `auto`(set to correct value) in the DeepSpeed config file or pass it in kwargs.",
            "https://github.com/huggingface/accelerate/issues/2469",
        ),
    ),
    "not-in-registry": (
        (
            "KeyError: 'ReDet is not in the models registry'",
            "https://github.com/csuhan/ReDet/issues/37",
        ),
        (
            "KeyError: 'Recognizer3D is not in the mmengine::model registry. Please check whether the value of `Recognizer3D` is correct or it was registered as expected.'",
            "https://github.com/leexinhao/ZeroI2V/issues/8",
        ),
        (
            "KeyError: \"No object named 'build_vit_backbone' found in 'BACKBONE' registry!\"",
            "fvcore, unverified",
        ),
        (
            "KeyError: 'None is not in the detector registry'",
            "https://github.com/microsoft/RepPoints/issues/40",
        ),
        (
            "KeyError: \"Dataset 'my_train' is not registered! Available datasets are: coco_2014_train, coco_2014_val\"",
            "detectron2, unverified",
        ),
    ),
    "monitored-key-missing": (
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: `ModelCheckpoint(monitor='val/usdr')` could not find the monitored key in the returned metrics: ['lr-Adam', 'train/loss', 'val/loss', 'epoch', 'step'].",
            "https://github.com/amanteur/SCNet-PyTorch/issues/2",
        ),
        (
            "RuntimeError: Early stopping conditioned on metric `val_loss` which is not available. Pass in or modify your `EarlyStopping` callback to use any of the following: `train_loss`",
            "Lightning 2.2, source",
        ),
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: `ModelCheckpoint(monitor='val_loss')` could not find the monitored key in the returned metrics: ['train_loss', 'epoch', 'step']. HINT: Did you call `log('val_loss', value)` in the `LightningModule`?",
            "Lightning 2.4, source",
        ),
        (
            "RuntimeError: Early stopping conditioned on metric `val_loss` which is not available. Pass in or modify your `EarlyStopping` callback to use any of the following: `train_loss`",
            "Lightning 2.6.6, source",
        ),
        (
            "ReduceLROnPlateau conditioned on metric val_loss which is not available. Available metrics are: ['train_loss'].",
            "Lightning 2.4, source",
        ),
        (
            "KeyError: \"The `metric_for_best_model` training argument is set to 'eval_loss', which is not found in the evaluation metrics. The available evaluation metrics are: ['eval_runtime']. Please ensure that the `compute_metrics` function returns a dictionary that includes 'eval_loss' or consider changing the `metric_for_best_model` via the TrainingArguments.\"",
            "transformers 5.24, source",
        ),
        (
            "KeyError: 'eval_loss'",
            "transformers, unverified",
        ),
    ),
    "hub-offline": (
        (
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
            "https://huggingface.co/api/models/gpt2: offline mode is enabled.",
            "huggingface_hub 0.34, source",
        ),
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot "
            "folder for the specified revision on the local disk and outgoing traffic has been disabled.",
            "huggingface_hub 0.34, source",
        ),
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing traffic has been disabled. To enable hf.co look-ups and downloads online, set 'local_files_only' to False.",
            "huggingface_hub 2.4, source",
        ),
    ),
    "hydra-target": (
        (
            "hydra.errors.InstantiationException: Error locating target 'src.models.Net', set env var HYDRA_FULL_ERROR=1 to see chained exception.",
            "hydra-core 1.3, source",
        ),
        ("hydra.errors.InstantiationException: Error in call to target 'lib.data.Data':", "hydra-core 1.3, source"),
        (
            "TypeError: Error instantiating 'lib.dataset.cape.CAPEDataProcessor' : __init__() missing 2 required positional arguments: 'opt' and 'total_points'",
            "https://github.com/xuchen-ethz/snarf/issues/5",
        ),
    ),
    "proxy-scheme": (
        (
            "ValueError: Unknown scheme for proxy URL URL('socks://127.0.0.1:7890/')",
            "httpx 0.28, source",
        ),
        (
            "ImportError: Using SOCKS proxy, but the 'socksio' package is not installed. Make sure to install httpx using `pip install httpx[socks]`.",
            "httpx 0.28, source",
        ),
        (
            "requests.exceptions.InvalidSchema: Missing dependencies for SOCKS support.",
            "requests 2.34, source",
        ),
    ),
}
