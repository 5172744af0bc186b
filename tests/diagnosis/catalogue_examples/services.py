"""Printed texts of `ddpkit/diagnosis/catalogue/services.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "hydra-config-missing": (
        ("In 'hydra/config': Could not find 'hydra/launcher/submitit_local'", "hydra 1.3, source"),
        ("Could not load 'hydra/launcher/joblib'", "hydra 1.0, source"),
    ),
    "download-refused": (("urllib.error.HTTPError: HTTP Error 403: Forbidden", "Python 3.11, source"),),
    "hub-unreachable": (
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files",
            "transformers, source",
        ),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /gpt2/resolve/main/config.json",
            "requests 2.34, source",
        ),
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
            "wandb: ERROR Error while calling W&B API: permission denied (<Response [403]>)",
            "https://github.com/Sharath-girish/LilNetX/issues/4",
        ),
        (
            "wandb.errors.CommError: It appears that you do not have permission to access the requested resource.",
            "https://github.com/Sharath-girish/LilNetX/issues/4",
        ),
    ),
    "k8s-unschedulable": (
        (
            "Warning  FailedScheduling  default-scheduler  0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "Kubernetes 1.29, source",
        ),
        (
            "Normal   NotTriggerScaleUp  6s  cluster-autoscaler  pod didn't trigger scale-up (it wouldn't fit if a new node is added): 2 Insufficient nvidia.com/gpu",
            "cluster-autoscaler 1.28, source",
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
            "kueue 0.8, source",
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
            "kubernetes 1.30, source",
        ),
    ),
}
