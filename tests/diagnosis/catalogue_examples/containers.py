"""Printed texts of `ddpkit/diagnosis/catalogue/containers.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "container-no-driver": (
        (
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared "
            "object file: no such file or directory: unknown.",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/183",
        ),
        (
            "stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
            "https://github.com/NVIDIA/nvidia-docker/issues/1217",
        ),
        (
            "error running hook: exit status 1, stdout: , stderr: nvidia-container-cli.real: initialization error: driver error: failed to process request",
            "https://github.com/NVIDIA/nvidia-docker/issues/1225",
        ),
        (
            "nvidia-container-cli: initialization error: driver rpc error: failed to process request",
            "https://github.com/NVIDIA/nvidia-docker/issues/1675",
        ),
        (
            "nvidia-container-cli: initialization error: cannot open shared object file: no such file or directory: unknown.",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/131",
        ),
    ),
    "docker-no-gpu": (
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
            "https://github.com/NVIDIA/nvidia-docker/issues/1352",
        ),
        (
            "nvidia-container-cli: initialization error: cuda error: no cuda-capable device is detected",
            "libnvidia-container, unverified",
        ),
        (
            "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
            "https://github.com/nv-tlabs/3dgrut/issues/71",
        ),
        (
            "docker: Error response from daemon: Unknown runtime specified nvidia.",
            "https://github.com/NVIDIA/nvidia-docker/issues/578",
        ),
        ("unknown flag: --gpus", "docker, documented"),
        (
            "docker: Error response from daemon: failed to discover GPU vendor from CDI: no known GPU vendor found",
            "docker 29, unverified",
        ),
    ),
    "docker-daemon": (
        (
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "docker 28.2, source",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "docker 28.2, run",
        ),
    ),
    "deepspeed-ssh-port": (
        ("KeyError: 'PDSH_SSH_ARGS_APPEND'", "https://github.com/deepspeedai/DeepSpeed/issues/5318"),
    ),
    "image-argument-missing": (
        (
            "FATAL:   While checking container encryption: could not open image /home/ann/run/python3: failed to "
            "retrieve path for /home/ann/run/python3: lstat /home/ann/run/python3: no such file or directory",
            "https://github.com/inclusionAI/AReaL/issues/328",
        ),
        ("Unable to find image 'python3:latest' locally", "docker 24, documented"),
    ),
    "image-not-found": (
        (
            "docker: Error response from daemon: pull access denied for mymodel, repository does not exist or may require 'docker login'",
            "docker, documented",
        ),
        (
            "FATAL:   could not open image /home/me/torch.sif: failed to retrieve path for /home/me/torch.sif: lstat /home/me/torch.sif: no such file or directory",
            "apptainer 1.3, documented",
        ),
        (
            "slurmstepd: error: pyxis:     [ERROR] URL "
            "https://registry-1.docker.io/v2/library/cont/manifests/latest returned error code: 401 "
            "Unauthorized",
            "https://github.com/NVIDIA/pyxis/issues/67",
        ),
        (
            "Error response from daemon: toomanyrequests: You have reached your pull rate limit.",
            "https://github.com/docker/hub-feedback/issues/2429",
        ),
        (
            "Error response from daemon: toomanyrequests: You have reached your unauthenticated pull rate limit.",
            "https://github.com/docker/hub-feedback/issues/2464",
        ),
        (
            "Error response from daemon: manifest for me/train:v2 not found: manifest unknown: manifest unknown",
            "Docker 24, source",
        ),
        (
            'Error: short-name "train" did not resolve to an alias and no unqualified-search registries are defined',
            "Podman 4.9, run",
        ),
        (
            "denied: requested access to the resource is denied",
            "Docker 24, source",
        ),
        (
            "Warning  Failed  kubelet  Error: ImagePullBackOff",
            "Kubernetes 1.29, source",
        ),
        (
            "podman: Unable to find image 'pytorch'",
            "podman 4.9, run",
        ),
        (
            "Error: initializing source docker://pytorch/pytorch:2.9: pinging container registry registry-1.docker.io",
            "podman 4.9, run",
        ),
        (
            "[ERROR] No such file or directory: /images/pytorch.sqsh",
            "enroot 3.4, source",
        ),
        (
            "  Warning  Failed  kubelet  Error: ErrImagePull",
            "Kubernetes 1.29, source",
        ),
        (
            'Back-off pulling image "registry.example.com/train:1"',
            "Kubernetes 1.29, source",
        ),
        (
            'Failed to pull image "registry.example.com/train:1": rpc error: code = NotFound',
            "Kubernetes 1.29, source",
        ),
        (
            "FATAL:   Unable to handle docker://nvcr.io/nvidia/pytrch:24.01-py3 uri: failed to get checksum for docker://nvcr.io/nvidia/pytrch:24.01-py3: unauthorized: authentication required",
            "singularity, source",
        ),
        (
            "CannotPullContainerError: Error response from daemon: manifest for trainer:1 not found",
            "Amazon ECS, documented",
        ),
        (
            'Error response from daemon: Head "https://1234.dkr.ecr.us-east-1.amazonaws.com/v2/train/manifests/latest": no basic auth credentials',
            "docker, unverified",
        ),
        (
            "denied: Your authorization token has expired. Reauthenticate and try again.",
            "ECR, unverified",
        ),
        (
            '  Warning  Failed     3s    kubelet            Failed to pull image "nvcr.io/nvidia/pytorch:24.99-py3": rpc error: code = NotFound desc = failed to pull and unpack image "nvcr.io/nvidia/pytorch:24.99-py3": failed to resolve reference "nvcr.io/nvidia/pytorch:24.99-py3": nvcr.io/nvidia/pytorch:24.99-py3: not found',
            "kubectl 1.29, unverified",
        ),
        (
            'ctr: failed to resolve reference "docker.io/x/y:z": docker.io/x/y:z: not found',
            "containerd 1.7, unverified",
        ),
        (
            '  Warning  ErrImageNeverPull  3s  kubelet  Container image "train:dev" is not present with pull policy of Never',
            "kubectl 1.29, unverified",
        ),
    ),
    "image-unreadable": (
        (
            "FATAL:   While checking container encryption: could not open image /images/torch.sif: image format not recognized",
            "apptainer 1.4.5, run",
        ),
        (
            "FATAL:   could not open image /images/torch.sif: open /images/torch.sif: permission denied",
            "apptainer 1.4, source",
        ),
        ("[ERROR] Invalid image format: /images/torch.sqsh", "enroot 3.5, source"),
        (
            "FATAL:   container creation failed: mount error: can't mount image /proc/self/fd/9: failed to mount squashfs filesystem: invalid argument.",
            "https://github.com/ehw-fit/tf-approximate/issues/18",
        ),
        (
            "FATAL:   container creation failed: mount error: can't mount image /proc/self/fd/9: failed to "
            "mount squashfs filesystem: invalid argument.",
            "https://github.com/ehw-fit/tf-approximate/issues/18",
        ),
        (
            "FATAL:   container creation failed: mount /proc/self/fd/3->/var/singularity/mnt/session/rootfs "
            "error: while mounting image/proc/self/fd/3: failed to mount squashfs filesystem: input/output "
            "error",
            "https://github.com/apptainer/apptainer/issues/1351",
        ),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/9->/var/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/9: squashfuse_ll exited with status 255: Something went wrong trying to read the squashfs image.",
            "https://github.com/apptainer/apptainer/issues/952",
        ),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/var/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: kernel reported a bad superblock for squashfs image partition, possible causes are that your kernel doesn't support the compression algorithm or the image is corrupted",
            "https://github.com/apptainer/apptainer/issues/2121",
        ),
        (
            "slurmstepd: error: pyxis:     gzip: stdin: unexpected end of file",
            "gzip, unverified",
        ),
        (
            "slurmstepd: error: pyxis:     Checksum mismatch: 5b7339215d1d5f8e6862",
            "enroot, source",
        ),
    ),
    "container-runtime-directory": (
        ("mkdir: cannot create directory '/run/enroot': Permission denied", "coreutils 9.1, run"),
        ("mkdir: cannot create directory ‘/run/enroot’: Permission denied", "coreutils 9.1, run"),
        (
            "error: pyxis: couldn't mkdir /run/pyxis/100005: No such file or directory",
            "https://github.com/NVIDIA/pyxis/issues/4",
        ),
        (
            "slurmd[53634]: spank-epilog: error: pyxis:     mkdir: cannot create directory '/opt/dlami/nvme/tmp/enroot/data': Permission denied",
            "https://github.com/awslabs/awsome-distributed-ai/issues/141",
        ),
    ),
    "container-start-failed": (
        ("Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied", "podman 4.3.1, run"),
        (
            "Error: OCI runtime error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2",
            "podman 4.3.1, run",
        ),
        (
            "FATAL:   failed to set working directory: chdir /data: no such file or directory",
            "apptainer 1.4.5, run",
        ),
        ("slurmstepd: error: pyxis: couldn't start container", "https://github.com/NVIDIA/pyxis/issues/61"),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/var/lib/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: squashfuse_ll exited with status 255",
            "https://github.com/apptainer/apptainer/issues/1037",
        ),
        (
            "docker: Error response from daemon: OCI runtime create failed: runc create failed: unable to start container process",
            "docker, documented",
        ),
        (
            "slurmstepd: error: pyxis: container start failed with error code: 1",
            "https://github.com/NVIDIA/pyxis/issues/61",
        ),
        (
            "slurmstepd: error: pyxis: container exited too soon",
            "pyxis 0.15, source",
        ),
        (
            "slurmstepd: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
            "Slurm 23.11, source",
        ),
        (
            "srun: error: spank_pyxis.so: init failed",
            "Slurm 23.11, source",
        ),
        (
            "slurmstepd: error: pyxis: couldn't join mount namespace: Invalid argument",
            "pyxis, source",
        ),
        (
            "slurmstepd: error: pyxis: couldn't get list of existing container filesystems",
            "pyxis, source",
        ),
        ("Error: failed to start containers: train", "docker 24, source"),
    ),
    "mpi-slots": (
        ("There are not enough slots available in the system to satisfy the 8", "Open MPI 4.1, source"),
        (
            "Your job has requested more processes than the ppr for",
            "https://github.com/ComputationalRadiationPhysics/picongpu/issues/3048",
        ),
        (
            "Your job has requested a conflicting number of processes for the\napplication:",
            "Open MPI 4.1.8, source",
        ),
        (
            "All nodes which are allocated for this job are already filled.",
            "Open MPI 4.1.8, source",
        ),
        (
            "A sequential map was requested, but not enough node entries\nwere given to support the requested number of processes:",
            "https://github.com/horovod/horovod/issues/1042",
        ),
        (
            "ValueError: Process number should not be larger than total available slots.",
            "https://github.com/horovod/horovod/issues/2090",
        ),
        (
            "ValueError: Requested more processes (8) than there are available slots (4)",
            "horovod 0.28, source",
        ),
        (
            "ValueError: Not enough slots on the hosts to fulfill the 8 requested.",
            "horovod 0.28, source",
        ),
    ),
    "mpi-daemon": (
        ("ORTE was unable to reliably start one or more daemons.", "Open MPI 4.1, source"),
        (
            "A daemon (pid 2424) died unexpectedly with status 127 while attempting\nto launch so we are aborting.",
            "Open MPI 4.1.8, source",
        ),
        (
            "A daemon died unexpectedly on signal 11  while attempting to\nlaunch so we are aborting.",
            "Open MPI 4.1.8, source",
        ),
    ),
    "mpi-abort": (
        (
            "mpirun noticed that process rank 3 with PID 4711 on node node2 exited on signal 1 (Hangup).",
            "Open MPI 4.1, source",
        ),
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "Open MPI 4.1, source"),
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "MPICH 4.0, source"),
        (
            "mpirun detected that one or more processes exited with non-zero status, thus causing",
            "Open MPI 4.1, source",
        ),
        (
            "Primary job  terminated normally, but 1 process returned",
            "Open MPI 4.1, source",
        ),
        (
            "=   PID 123 RUNNING AT node1",
            "MPICH 4.1, source",
        ),
        (
            "prterun has exited due to process rank 2 with PID 1705216 on node nid003032 exiting",
            "https://github.com/openpmix/prrte/issues/2694",
        ),
        (
            "RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus causing the job to be terminated.",
            "https://github.com/determined-ai/determined/issues/3275",
        ),
        (
            "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 3",
            "https://github.com/microsoft/FedDrift/issues/30",
        ),
        (
            "[mpiexec@node1] HYDT_bscu_wait_for_completion (tools/bootstrap/utils/bscu_wait.c:76): one of the processes terminated badly; aborting",
            "https://github.com/lanl/MPI-Bash/issues/14",
        ),
        (
            "[proxy:0@node1] HYD_pmcd_pmip_control_cmd_cb (proxy/pmip_cb.c:490): assert (!closed) failed",
            "https://github.com/pmodels/mpich/issues/7957",
        ),
        (
            "RuntimeError: Gloo job detected that one or more processes exited with non-zero status, thus causing the job to be terminated. The first process to do so was:",
            "Horovod 0.28, unverified",
        ),
    ),
    "launcher-summary": (
        (
            "Error: failed to run torchrun --nproc_per_node=8 --nnodes=2 --node_rank=1 train.py on GPU01, is localhost: False, exception: Encountered a bad command exit code!",
            "https://github.com/hpcaitech/ColossalAI/issues/4009",
        ),
        (
            "[2024-01-05 10:11:12,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711",
            "https://github.com/haotian-liu/LLaVA/issues/1788",
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python3', '-u', 'train.py', '--local_rank=1', '--lr=1']' returned non-zero exit status 1.",
            "torch 1.13, run",
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py', '--lr', '1e-4']' returned non-zero exit status 1.",
            "accelerate, documented",
        ),
        (
            "[2024-01-05 10:11:12,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py'] exits with return code = 1",
            "DeepSpeed, documented",
        ),
        ("torch.multiprocessing.spawn.ProcessRaisedException: ", "torch 2.13, documented"),
        ("srun: error: node1: task 1: Exited with exit code 3", "Slurm 22.05, run"),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 4711) of binary: /usr/bin/python3",
            "torch 2.2, run",
        ),
        (
            "slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-11-20T17:02:51 DUE TO TASK FAILURE ***",
            "Slurm 22.05, run",
        ),
        ("pdsh@login: node1: ssh exited with exit code 1", "pdsh 2.34, run"),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 3",
            "torch 2.13, run",
        ),
        ("srun: launch/slurm: _step_signal: Terminating StepId=14.0", "Slurm 22.05, run"),
        (
            "ddpkit: rank 1 on node2 failed first, after 2.1 s: exit code 3",
            "ddpkit 0.2, run",
        ),
        (
            "Process 1 exit with status code 1.",
            "Horovod 0.28, source",
        ),
        (
            "Job has reached the specified backoff limit",
            "Kubernetes 1.29, source",
        ),
        (
            "UnexpectedStatusException: Error for Training job pytorch-training-2020-10-26: Failed. Reason: AlgorithmError: ExecuteUserScriptError:",
            "https://github.com/aws-samples/amazon-sagemaker-bert-classify-pytorch/issues/2",
        ),
        (
            "PyTorchJob mnist-ddp is failed because 1 Worker replica(s) failed.",
            "training-operator, unverified",
        ),
        (
            "jobset failed due to one or more job failures",
            "jobset, unverified",
        ),
        (
            "The replica workerpool0-0 exited with a non-zero status of 1. To find out more about why your job exited please check the logs",
            "https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/2880",
        ),
        (
            "subprocess.CalledProcessError: Command 'accelerate",
            "https://github.com/Saquib764/omini-kontext/issues/22",
        ),
        (
            "ERROR: Trial 139 (Experiment 138) was terminated: allocation failed: resources failed with non-zero exit code: container failed with non-zero exit code: 1 (exit code 1)",
            "https://github.com/determined-ai/determined/issues/8915",
        ),
        (
            "[2024-01-05 10:11:12,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 4711",
            "https://github.com/haotian-liu/LLaVA/issues/1788",
        ),
        (
            "[rank: 1] Child process with PID 1234 terminated with code 1. Forcefully terminating all other processes to avoid zombies 🧟",
            "Lightning 2.6.6, source",
        ),
        (
            "pytorch_lightning.utilities.exceptions.DeadlockDetectedException: DeadLock detected from rank: 0 ",
            "Lightning, unverified",
        ),
        (
            "ERROR:composer.cli.launcher:Global rank 0 (PID 208865) exited with code 1",
            "composer 0.28, source",
        ),
        (
            "x3006c0s13b0n0: rank 0 exited with code 1",
            "ezpz, patterns of PALS, unverified",
        ),
        (
            "flux-job: task(s) exited with exit code 1",
            "https://github.com/flux-framework/flux-core/issues/3185",
        ),
        (
            "clush: node3: exited with exit code 255",
            "ClusterShell 1.9, run",
        ),
        (
            "submitit.core.utils.FailedJobError: Job (task=0) failed during processing with trace:",
            "https://github.com/facebookincubator/submitit/issues/1775",
        ),
        (
            "Error: failed to run torchrun --nproc_per_node=2 --nnodes=2 train.py on node1, is localhost: "
            "True, exception: Encountered a bad command exit code!",
            "https://github.com/hpcaitech/Open-Sora/issues/657",
        ),
        (
            "srun: error: Timed out waiting for job step to complete",
            "https://github.com/aertslab/pySCENIC/issues/456",
        ),
        (
            "srun: error: Task launch for StepId=96.0 failed on node n2: No such process",
            "https://github.com/NVIDIA/pyxis/issues/107",
        ),
        (
            "ERROR: Job 3 failed with return code list: [137, 1, 137, 137] (A worker failed with return "
            "code 1, SkyPilot cleaned up the processes on other nodes with return code 137)",
            "https://github.com/skypilot-org/skypilot/pull/5838",
        ),
        (
            "Error: Process completed with exit code 143.",
            "https://github.com/pmodels/mpich/issues/6612",
        ),
        (
            '1.7085078566441019e+09\tDEBUG\tevents\tPod: kubeflow.pytorch-simple-worker-0 exited with code 1\t{"type": "Normal"}',
            "https://github.com/kubeflow/trainer/issues/2008",
        ),
        (
            '1.708507856644096e+09\tDEBUG\tevents\tError pod pytorch-simple-worker-0 container pytorch exitCode: 1 terminated message: \t{"type": "Warning"}',
            "https://github.com/kubeflow/trainer/issues/2008",
        ),
        ("RuntimeError: Training failed with:", "https://github.com/GoogleCloudPlatform/vertex-ai-samples/pull/1504"),
        (
            "UnexpectedStatusException: Error for Training job rf-scikit-2023-09-28: Failed. Reason: AlgorithmError: framework error: ",
            "https://github.com/aws/amazon-sagemaker-examples/issues/1740",
        ),
        (
            "JobFailed: Submitted script failed with a non-zero exit code; see the driver log file for details.",
            "https://github.com/Azure/MachineLearningNotebooks/issues/1360",
        ),
        ('"statusReason": "Essential container in task exited"', "https://github.com/nextflow-io/nextflow/issues/2005"),
        (
            "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages for a cause.",
            "Ray, source",
        ),
        (
            "ERROR: Job 1's setup failed. Failed workers: (pid=1840, returncode=1), (pid=2061, returncode=1). See error logs above for more details.",
            "https://github.com/skypilot-org/skypilot/pull/7001",
        ),
        (
            "✓ Job finished (status: FAILED_SETUP).",
            "https://github.com/skypilot-org/skypilot/pull/7001",
        ),
        (
            "Execution failed. User process 'python' exited with status code 2.",
            "AzureML, documented",
        ),
        (
            "slurmstepd: error: *** JOB 7 ON node1 FAILED (non-zero exit code or other failure mode) ***",
            "Slurm, slurmstepd, source",
        ),
        ("ray.train.WorkerGroupError: Training failed due to worker errors:", "ray, source"),
        (
            "Exception: process 0 terminated with exit code 1",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/151",
        ),
        (
            "[2025-10-31 05:07:11,062][__main__][ERROR] - Error executing job with overrides: ['machine=hpc_train', 'dataset.num_workers=12']",
            "https://github.com/facebookresearch/map-anything/issues/89",
        ),
        (
            "Error: failed to run torchrun --nproc_per_node=4 --nnodes=1 --node_rank=0 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:29500 --rdzv_id=colossalai-default-job train.py --config config.py -s on 127.0.0.1",
            "https://github.com/hpcaitech/ColossalAI/issues/2441",
        ),
        (
            "RuntimeError: Step 1 exited with non-zero status 249",
            "https://github.com/deepspeedai/DeepSpeedExamples/issues/614",
        ),
        (
            "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):",
            "Ray 2.20, unverified",
        ),
    ),
    "ray-old-handle": (
        (
            "ray.exceptions.ActorHandleNotFoundError: ActorHandle objects are not valid across Ray sessions. The actor "
            "handle was created in job 03000000, but the current job is 04000000.",
            "Ray 2.54, source",
        ),
        (
            "ray.exceptions.ActorHandleNotFoundError: It might be that the input actor handle was "
            "created in a different job",
            "https://github.com/aws-samples/aws-do-eks/pull/69",
        ),
    ),
    "ray-actor-died": (
        (
            "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
            "Ray 2.60, source",
        ),
        (
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
            "Ray 2.60, source",
        ),
        ("Worker unexpectedly exits with a connection error code 2. End of file.", "Ray 2.60, source"),
        (
            "ray.exceptions.ActorUnavailableError: The actor 3f is unavailable",
            "Ray 2.30, source",
        ),
        (
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.",
            "Ray 2.30, source",
        ),
        (
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.226.129.21 Worker port: 50045 Worker PID: 110142 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
            "https://github.com/PeterGriffinJin/Search-R1/issues/45",
        ),
        (
            "ray.exceptions.OwnerDiedError: Failed to retrieve object 00ff. To see information about where this ObjectRef was created in Python, set the environment variable RAY_record_ref_creation_sites=1 during `ray start` and `ray.init()`.\n\nThe object's owner has exited. This is the Python worker that first created the ObjectRef via `.remote()` or `ray.put()`.",
            "ray 2.40, source",
        ),
        (
            "ray.exceptions.ObjectLostError: Failed to retrieve object 00ffffffffffffffffffffffffffffffffffffff0100000001000000.",
            "Ray, unverified",
        ),
    ),
    "ray-memory": (
        (
            "Refer to the documentation on how to address the out of memory issue: https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html. Consider provisioning more memory on this node",
            "https://github.com/TideDra/lmm-r1/issues/71",
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            "Ray 2, documented",
        ),
        (
            "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed "
            "due to other reasons",
            "Ray 2.60, source",
        ),
        (
            "Memory on the node (IP: 10.1.180.84, ID: ba65c80c8aec) where the task (task ID: d221d26232c9, name=head, rank=0,, pid=4503, memory used=1301.50GB) was running was 1915.52GB / 2015.55GB (0.950372), which exceeds the memory usage threshold of 0.95.",
            "https://github.com/hiyouga/LlamaFactory/issues/9258",
        ),
    ),
    "deepspeed-no-hostfile": (
        (
            "[2024-01-05 10:11:12,123] [WARNING] [runner.py:202:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
            "DeepSpeed, documented",
        ),
    ),
    "batch-size-config": (
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 32 != 4 * 1 * 4",
            "DeepSpeed, source",
        ),
        (
            "ValueError: Global batch size 10 is not divisible by 4 as a result, the batch size will be truncated",
            "https://github.com/mosaicml/examples/pull/41",
        ),
        (
            "AssertionError: Micro batch size per gpu: 0 has to be greater than 0",
            "https://github.com/LIN-SHANG/InstructERC/issues/16",
        ),
        (
            "deepspeed.elasticity.config.ElasticityIncompatibleWorldSize: World size (7) is not valid with the current list of valid GPU counts: [1, 2, 4, 8]",
            "DeepSpeed 0.16, source",
        ),
    ),
    "image-registry-slash": (
        (
            "slurmstepd: error: pyxis:     [ERROR] URL "
            "https://registry-1.docker.io/v2/registry.example.com/team/train/manifests/latest returned error code: 401 "
            "Unauthorized",
            "https://github.com/NVIDIA/pyxis/issues/168",
        ),
    ),
    "image-path-relative": (
        ("pyxis: importing docker image: train.sqsh", "https://github.com/NVIDIA/pyxis/issues/127"),
        (
            "slurmstepd: error: pyxis:     [ERROR] No such file or directory: hello-world.sqsh",
            "https://github.com/NVIDIA/pyxis/issues/127",
        ),
        (
            "slurmstepd: error: pyxis: image hello-world.sqsh not found",
            "pyxis 0.15, source",
        ),
        (
            "[ERROR] Invalid image reference: docker://hello world",
            "enroot 3.4, source",
        ),
        (
            "slurmstepd: error: pyxis:     [ERROR] URL "
            "https://registry-1.docker.io/v2/library/cont.sqsh/manifests/latest returned error code: 401 "
            "Unauthorized",
            "https://github.com/NVIDIA/pyxis/issues/67",
        ),
    ),
    "image-import-failed": (
        (
            "slurmstepd: error: pyxis: failed to import docker image",
            "pyxis 0.15, source",
        ),
        (
            "slurmstepd: error: pyxis: child 12345 failed with error code: 1",
            "pyxis 0.15, source",
        ),
        (
            "FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: packer failed to pack",
            "apptainer, unverified",
        ),
        (
            "FATAL:   while extracting /home/ann/x.sif: root filesystem extraction failed: extract command failed",
            "apptainer, unverified",
        ),
        (
            "[ERROR] Could not process JSON input",
            "https://github.com/NVIDIA/enroot/issues/252",
        ),
        (
            "slurmstepd: error: pyxis:     [ERROR] Could not parse digest information from https://registry-1.docker.io/v2/library/a/manifests/1",
            "enroot 3.4, source",
        ),
        (
            "[ERROR] Could not parse authentication realm from https://nvcr.io/v2/nvidia/pytorch/manifests/24.01-py3",
            "enroot 3.4, source",
        ),
        (
            "[ERROR] Unsupported authentication method Negotiate",
            "enroot 3.4, source",
        ),
        (
            "FATAL:   while extracting galba.sif: root filesystem extraction failed: extract command failed: ERROR  : Failed to spawn stage 1",
            "https://github.com/apptainer/apptainer/issues/3053",
        ),
        (
            "ERROR:   unpackSIF failed: root filesystem extraction failed: signal: killed",
            "Apptainer 1.3, unverified",
        ),
        (
            "FATAL:   While performing build: packer failed to pack: while unpacking tmpfs: error unpacking rootfs: unpack layer: unpack entry: opt/conda: link: unpriv.link: operation not permitted",
            "Singularity 3.8, unverified",
        ),
    ),
    "container-no-shell": (
        (
            'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "torchrun": executable file not found in $PATH: unknown',
            "runc, unverified",
        ),
        (
            "slurmstepd: error: pyxis:     enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
            "https://github.com/NVIDIA/pyxis/issues/61",
        ),
        (
            "docker: Error response from daemon: OCI runtime create failed: runc create failed: unable "
            'to start container process: exec: "/bin/bash": stat /bin/bash: no such file or directory: '
            "unknown.",
            "runc 1.1, source",
        ),
        (
            "FATAL:   /opt/run.sh: no such file or directory",
            "Apptainer 1.2, source",
        ),
        (
            "Error: crun: executable `/bin/bash` not found in $PATH: No such file or directory: OCI "
            "runtime attempted to invoke a command that was not found",
            "crun 1.8, source",
        ),
        (
            "Error: crun: executable file `/opt/venv/bin/python` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
            "podman 4.3.1, run",
        ),
        ("FATAL:   stat /opt/venv/bin/python: no such file or directory", "apptainer 1.4.5, run"),
        (
            'message: "The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: StartError. \\n Termination log message: failed to create containerd task: failed to create shim: OCI runtime create failed: container_linux.go:380: starting container process caused: exec: \\"trainer.task\\": executable file not found in $PATH: unknown"',
            "https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/1898",
        ),
        (
            'FATAL:   "force-level2": executable file not found in $PATH',
            "https://github.com/davidfrantz/force/issues/204",
        ),
        (
            "FATAL:   exec /.singularity.d/actions/shell failed: a shared library is likely missing in the image",
            "https://github.com/apptainer/singularity/issues/5484",
        ),
        (
            "FATAL:   exec /.singularity.d/actions/exec failed: no such file or directory",
            "https://github.com/apptainer/singularity/issues/2386",
        ),
        (
            'docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "./run_and_time.sh": stat ./run_and_time.sh: no such file or directory: unknown.',
            "https://github.com/mlcommons/training/issues/719",
        ),
        (
            "standard_init_linux.go:228: exec user process caused: no such file or directory",
            "runc 1.0, unverified",
        ),
    ),
    "container-hook-failed": (
        (
            "slurmstepd: error: pyxis: [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1",
            "https://github.com/NVIDIA/pyxis/issues/101",
        ),
        (
            "docker: Error response from daemon: failed to create task for container: OCI runtime create "
            "failed: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode "
            "as 'legacy'",
            "runc 1.1, source",
        ),
        (
            "Error: OCI runtime error: crun: error executing hook `/usr/share/containers/oci/hooks.d/gpu.sh` (exit code: -33)",
            "podman 4.3, run",
        ),
        (
            "Error: OCI runtime error: crun: error executing hook `/usr/share/containers/oci/hooks.d/gpu.sh` (exit code: 3)",
            "podman 4.3.1, run",
        ),
    ),
    "container-mount-missing": (
        (
            "slurmstepd: error: pyxis:     enroot-mount: failed to mount: /data at "
            "/run/enroot/overlay/data: No such file or directory",
            "enroot 3.4, source",
        ),
        (
            "FATAL:   container creation failed: mount /data->/data error: while mounting /data: mount "
            "source /data doesn't exist",
            "Apptainer 1.2, source",
        ),
        (
            'docker: Error response from daemon: invalid mount config for type "bind": bind source path '
            "does not exist: /data.",
            "Docker 24, source",
        ),
        (
            "Error: statfs /data: no such file or directory",
            "Podman 4.9, source",
        ),
        (
            'OCI runtime create failed: error mounting "/etc/x" to rootfs at "/etc/x": not a directory',
            "runc 1.1, source",
        ),
        (
            "FATAL:   container creation failed: mount ->/mnt/home/jjun/.kachery error: can't remount /mnt/home/jjun/.kachery: no such file or directory",
            "https://github.com/flatironinstitute/spikeforest2/issues/2",
        ),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /opt/cray->/opt/cray error: while mounting /opt/cray: destination /opt/cray doesn't exist in container",
            "Apptainer on Frontier, documented",
        ),
    ),
    "mpi-daemon-missing": (
        (
            "bash: /usr/local/bin/orted: No such file or directory",
            "https://github.com/horovod/horovod/issues/301",
        ),
        (
            "bash: orted: command not found",
            "https://github.com/horovod/horovod/issues/1021",
        ),
        (
            "/opt/openmpi/bin/orted: error while loading shared libraries: libopen-rte.so.40: cannot "
            "open shared object file: No such file or directory",
            "Open MPI 4.1, documented",
        ),
        (
            "[mpiexec@node1] HYDU_create_process (utils/launch/launch.c:74): execvp error on file hydra_pmi_proxy (No such file or directory)",
            "https://github.com/pmodels/mpich/issues/1161",
        ),
        (
            'The rsh PLS component was not able to find the executable "orted" in\nyour PATH or in the directory where Open MPI/OpenRTE was initially installed,',
            "Open MPI 4.1, source",
        ),
    ),
    "deepspeed-slots": (
        (
            "ValueError: No slot '1' specified on host 'localhost'",
            "https://github.com/01-ai/Yi/issues/392",
        ),
        (
            "ValueError: Hostname 'node3' not found in hostfile",
            "DeepSpeed 0.14, source",
        ),
        (
            "RuntimeError: Unable to proceed, no training resources",
            "DeepSpeed 0.10, source",
        ),
    ),
    "ray-placement": (
        (
            "ValueError: Cannot provide a placement group requiring 4.0 GPUs (placement_group_specs=[{'GPU': 1.0}, {'GPU': 1.0}]) within 1800 seconds.",
            "https://github.com/gpustack/gpustack/issues/5181",
        ),
        (
            "(autoscaler +41s) Error: No available node types can fulfill resource request "
            "{'node:172.16.10.33': 0.001, 'GPU': 1.0}. Add suitable node types to this cluster to "
            "resolve this issue.",
            "https://github.com/vllm-project/vllm/issues/14111",
        ),
        (
            "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds.",
            "vLLM 0.6, source",
        ),
        (
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the "
            "placement group.",
            "https://github.com/vllm-project/vllm/issues/2416",
        ),
        (
            "ValueError: Current node has no GPU available. current_node_resource={'CPU': 8.0}.",
            "vLLM 0.6, source",
        ),
        (
            "(autoscaler +34s) Error: No available node types can fulfill resource request defaultdict(<class 'float'>, {'CPU': 8.0, 'GPU': 8.0}). Add suitable node types to this cluster to resolve this issue.",
            "https://github.com/rllm-org/rllm/issues/35",
        ),
        (
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the cluster.",
            "https://github.com/vllm-project/vllm/issues/4655",
        ),
    ),
    "vllm-engine-failed": (
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
            "vLLM 0.9, source",
        ),
        (
            "ERROR 05-01 10:00:00 [core.py:400] EngineCore failed to start.",
            "vLLM 0.9, source",
        ),
        (
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace "
            "(above) for the root cause.",
            "vLLM 0.9, source",
        ),
        (
            "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
            "vLLM 0.6, source",
        ),
        (
            "Exception: WorkerProc initialization failed due to an exception in a background process. "
            "See stack trace for root cause.",
            "vLLM 0.9, source",
        ),
        (
            "[01-28 04:18:10] Rank 0 scheduler is dead. Please check if there are relevant logs.",
            "SGLang, source",
        ),
        (
            "[2026-02-27 15:27:13] Received sigquit from a child process. It usually means the child failed.",
            "SGLang, source",
        ),
        (
            "(LLMRayActor pid=1112, ip=172.26.5.7) ERROR 06-30 06:10:12 worker_base.py:145] Error executing method update_weight. This might cause deadlock in distributed execution.",
            "https://github.com/OpenRLHF/OpenRLHF/pull/335",
        ),
        (
            "ERROR 05-02 21:36:34 [core.py:459] Invocation of collective_rpc method failed",
            "https://github.com/huggingface/trl/issues/3408",
        ),
        ("RuntimeError: Server process terminated unexpectedly during startup", "verl 0.9, source"),
    ),
    "horovod-stall": (
        (
            "W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, "
            "gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more "
            "than 60 seconds.",
            "Horovod 0.28, source",
        ),
        (
            "Missing ranks:",
            "Horovod 0.28, source",
        ),
        (
            "Stalled ranks:",
            "Horovod 0.28, source",
        ),
        (
            "Stalled op: allreduce.grad [missing ranks: 1, 3]",
            "Horovod 0.16, source",
        ),
        (
            "Stalled ops:HorovodBroadcast_dense_1_bias_0 [missing ranks: 1, 3]",
            "Horovod 0.16, source",
        ),
    ),
    "horovod-shutdown": (
        (
            "horovod.common.exceptions.HorovodInternalError: ncclAllReduce failed: unhandled system error",
            "Horovod 0.28, source",
        ),
        (
            "Horovod has been shut down. This was caused by an exception on one of the ranks or an "
            "attempt to allreduce",
            "Horovod 0.28, source",
        ),
    ),
    "mpi-root": (
        (
            "mpirun has detected an attempt to run as root.",
            "Open MPI 4.1, source",
        ),
        (
            "Running as root is *strongly* discouraged as any mistake (e.g., in",
            "Open MPI 4.1, source",
        ),
    ),
    "ddpkit-error": (
        (
            "ddpkit: error: 1 of 2 nodes failed the checks, and nothing was started:",
            "ddpkit 0.2, run",
        ),
    ),
    "container-program-missing": (
        (
            "slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see https://github.com/NVIDIA/libnvidia-container",
            "https://github.com/NVIDIA/pyxis/issues/101",
        ),
        (
            'FATA[0000] exec: "nvidia-container-cli": executable file not found in $PATH',
            "nerdctl 1.7, documented",
        ),
        (
            'docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error (exec: "nvidia-container-runtime": executable file not found in $PATH: : unknown.',
            "https://github.com/NVIDIA/nvidia-docker/issues/1190",
        ),
        (
            "docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/containerd/io.containerd.runtime.v1.linux/moby/1038f5ace29cf151/log.json: no such file or directory): fork/exec /usr/bin/nvidia-container-runtime: no such file or directory: unknown.",
            "https://github.com/NVIDIA/nvidia-docker/issues/1121",
        ),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/opt/apptainer-1.1.4/var/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: squashfuse not found",
            "https://github.com/biocorecrg/MOP2/issues/49",
        ),
        (
            "FATAL:   While performing build: packer failed to pack: root filesystem extraction failed: could not extract squashfs data, unsquashfs not found",
            "https://github.com/apptainer/singularity/issues/5711",
        ),
        (
            '2020/04/03 13:34:52 ERROR: /usr/bin/nvidia-container-runtime: find runc path: exec: "runc": executable file not found in $PATH',
            "https://github.com/podman-container-tools/podman/issues/5711",
        ),
        (
            'FATAL:   Unable to create build: while searching for mksquashfs: exec: "mksquashfs": executable file not found in $PATH',
            "Apptainer 1.3, unverified",
        ),
    ),
    "container-file-unreadable": (
        (
            "FATAL:   stat /home/rapids/entrypoint.sh: permission denied",
            "https://github.com/rapidsai/docker/issues/669",
        ),
        (
            "FATAL:   exec /opt/spm/standalone/run.sh failed: permission denied",
            "https://github.com/jhuguetn/cat12-docker/issues/14",
        ),
        (
            "FATAL:   failed to start %post proc: fork/exec /bin/sh: permission denied",
            "https://github.com/apptainer/singularity/issues/2703",
        ),
    ),
    "ray-node-not-started": (
        (
            "Exception: The current node timed out during startup. This could happen because some of the raylet failed to startup or the GCS has become overloaded.",
            "Ray 2.9, source",
        ),
        (
            "Exception: The current node has not been updated within 30 seconds, this could happen because of some of the Ray processes failed to startup.",
            "https://github.com/ray-project/ray/issues/19834",
        ),
        (
            "TimeoutError: Timed out after 60 seconds while waiting for node to startup. Did not find socket name /tmp/ray/plasma in the list of object store socket names.",
            "Ray 2.9, source",
        ),
        (
            "INFO node.py:362 -- Failed to get node info b'RPC error: Deadline Exceeded'",
            "Ray 2.9, source",
        ),
        (
            "RuntimeError: b'GCS cannot find the node with node ID 4f1c'",
            "https://github.com/ray-project/ray/pull/47088",
        ),
        (
            "[2022-11-03 21:18:32,436 E 251378 251378] core_worker.cc:149: Failed to register worker 01000000ffffffffffffffffffffffffffffffffffffffffffffffff to Raylet. IOError: [RayletClient] Unable to register worker with raylet. No such file or directory",
            "https://github.com/ray-project/ray/issues/30012",
        ),
        (
            "[2024-05-01 10:00:00,000 E 123 123] core_worker.cc:158: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file",
            "Ray 2.20, unverified",
        ),
        (
            "Can't find a `node_ip_address.json` file from /tmp/ray/session_1. for 60 seconds.A ray instance hasn't started. Did you do `ray start` or `ray.init` on this host?",
            "Ray 2.7, unverified",
        ),
    ),
    "image-no-space": (
        (
            "slurmstepd: error: pyxis:     Write failed because No space left on device",
            "https://github.com/NVIDIA/enroot/issues/83",
        ),
        (
            "slurmstepd: error: pyxis:     FATAL ERROR:Failed to write to output filesystem",
            "https://github.com/NVIDIA/enroot/issues/83",
        ),
        (
            "FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: packer failed to pack: while unpacking tmpfs: error unpacking rootfs: unpack layer: unpack entry: opt/conda/lib/libmkl_mc3.so.1: unpack to regular file: short write: write /tmp/build-temp-4184616778/rootfs/opt/conda/lib/libmkl_mc3.so.1: no space left on device",
            "https://github.com/KosinskiLab/AlphaPulldown/issues/488",
        ),
        (
            "failed to register layer: write /opt/conda/lib/libtorch_cuda.so: no space left on device",
            "docker, unverified",
        ),
        (
            "docker: write /var/lib/docker/tmp/GetImageBlob123: no space left on device.",
            "docker 24, unverified",
        ),
    ),
    "deepspeed-alone": (
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 1",
            "https://github.com/bigcode-project/starcoder/issues/41",
        ),
    ),
    "parallel-sizes": (
        (
            "AssertionError: The number of heads must be divisible by world size",
            "https://github.com/foundation-model-stack/foundation-model-stack/issues/274",
        ),
        (
            "AssertionError: First dimension of the tensor should be divisible by tensor parallel size",
            "https://github.com/alibaba/Pai-Megatron-Patch/issues/332",
        ),
        ("AssertionError: 50257 is not divisible by 4", "Megatron-LM, source"),
        (
            "AssertionError: Number of layers should be divisible by the pipeline-model-parallel size",
            "https://github.com/modelscope/ms-swift/issues/5737",
        ),
        (
            "ValueError: num_attention_heads (14) must be a multiple of tensor_model_parallel_size (4).",
            "Megatron-LM, unverified",
        ),
        ("AssertionError: num_attention_heads 14 must be divisible by ulysses_sp_size 4", "verl 0.9, source"),
        ("AssertionError: num_heads (14) must be divisible by ulysses sequence size(4)", "verl 0.9, source"),
        (
            "AssertionError: Expert data parallel size should be divisible by partial DistOpt shard factor",
            "https://github.com/NVIDIA/Megatron-LM/issues/4342",
        ),
        (
            "AssertionError: Expert data parallel size should be divisible by partial DistOpt shard factor",
            "https://github.com/NVIDIA/Megatron-LM/issues/4342",
        ),
    ),
    "deepspeed-hostfile-bad": (
        (
            "ValueError: Hostfile contains a bad entry: node1 lots=8, unable to proceed with launching",
            "https://github.com/deepspeedai/DeepSpeed/issues/3669",
        ),
        ("ValueError: Hostfile is not formatted correctly, unable to proceed with training.", "DeepSpeed 0.6, source"),
        (
            "ValueError: Hostfile is empty or not formatted correctly, unable to proceed with launching.",
            "DeepSpeed 0.19, source",
        ),
        (
            "ValueError: Hostfile contains multiple entries for worker-1, unable to proceed with launching",
            "DeepSpeed 0.19, source",
        ),
        (
            "ValueError: Num nodes is >1 but no extra nodes available via hostfile",
            "DeepSpeed 0.16, source",
        ),
    ),
    "mpi-world-differs": (
        (
            "AssertionError: MPI world size 16 does not match torch world size 8",
            "https://github.com/deepspeedai/DeepSpeed/issues/461",
        ),
        ("AssertionError: MPI rank 3 does not match torch rank 0", "DeepSpeed, source"),
    ),
    "mpi-host-unknown": (
        (
            "[proxy:0:1@node2] HYDU_sock_connect (utils/sock/sock.c:113): unable to get host address for node1",
            "https://github.com/pmodels/mpich/issues/4712",
        ),
    ),
    "container-hook-program": (
        (
            "slurmstepd: error: pyxis:     [ERROR] Command not found: ldconfig\nslurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/90-aws-ofi-nccl.sh exited with return code 1",
            "enroot 3.5, source",
        ),
        (
            "/etc/enroot/hooks.d/90-aws-ofi-nccl.sh: line 20: ldconfig: command not found\nslurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/90-aws-ofi-nccl.sh exited with return code 127",
            "enroot 3.5, source",
        ),
    ),
    "deepspeed-config-differs": (
        (
            "ValueError: Please correct the following DeepSpeed config values that mismatch TrainingArguments values:",
            "transformers 4.40, source",
        ),
    ),
    "accelerate-one-gpu-id": (
        (
            "ValueError: Less than two GPU ids were configured and tried to run on on multiple GPUs. Please ensure at least two are specified for `--gpu_ids`, or use `--gpu_ids='all'`.",
            "accelerate 0.30, source",
        ),
        (
            "ValueError: You need to use at least 2 processes to use `--multi_gpu`.",
            "accelerate 0.30, source",
        ),
    ),
    "vllm-cache-too-small": (
        (
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            "vLLM 0.9, source",
        ),
        (
            "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (12000). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
            "vLLM 0.6, source",
        ),
        (
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (5.57 GiB). Based on the available memory, the estimated maximum model length is 45600.",
            "vLLM, source",
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "SGLang, source",
        ),
    ),
    "mpi-tcp-interface": (
        (
            "[second-node][[22157,1],4][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier [[22157,1],7]",
            "https://github.com/horovod/horovod/issues/1516",
        ),
        (
            "[centos01][[32355,1],2][btl_tcp_endpoint.c:796:mca_btl_tcp_endpoint_complete_connect] connect() to 192.168.122.1 failed: Connection refused (111)",
            "https://github.com/horovod/horovod/issues/414",
        ),
        (
            "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This",
            "Open MPI 4.1, source",
        ),
        (
            "WARNING: Open MPI accepted a TCP connection from what appears to be a",
            "Open MPI 4.1, source",
        ),
        (
            "  Message:    connect() to 169.254.140.13:1026 failed",
            "https://github.com/jbornschein/mpi4py-examples/issues/11",
        ),
        (
            "[1653901933.475958] [gpu02:5215 :0]            sock.c:325  UCX  ERROR   connect(fd=40, "
            "dest_addr=172.17.0.1:40703) failed: Connection refused",
            "UCX 1.13.1, source",
        ),
        (
            "None of the TCP networks specified to be included for out-of-band communications\ncould be found:\n\n  Value given: eth7",
            "Open MPI 4.1, source",
        ),
    ),
    "container-gpu-refused": (
        (
            "slurmstepd: error: pyxis:   nvidia-container-cli: container error: file lookup failed: "
            "/proc/421042/root/fsx/enroot/data/user-1111/pyxis_nemo/etc/debian_version: permission denied",
            "https://github.com/NVIDIA/pyxis/issues/166",
        ),
        (
            "slurmstepd: error: pyxis:     nvidia-container-cli: ldcache error: process /sbin/ldconfig "
            "failed with error code: 1",
            "https://github.com/NVIDIA/pyxis/issues/122",
        ),
        (
            "slurmstepd: error: pyxis:     nvidia-container-cli: ldcache error: process /sbin/ldconfig terminated with signal 11",
            "https://github.com/NVIDIA/pyxis/issues/122",
        ),
    ),
    "pmix-component": (
        (
            "  pmix_psec_base_open failed",
            "https://github.com/NVIDIA/pyxis/issues/88",
        ),
        (
            "Component: munge",
            "https://github.com/NVIDIA/pyxis/issues/139",
        ),
    ),
    "pmix-shared-store": (
        (
            "[gpu001:438533] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
            "https://github.com/open-mpi/ompi/issues/7516",
        ),
    ),
    "deepspeed-slot-empty": (
        (
            "active_resources = parse_inclusion_exclusion(resource_pool,\n"
            "ValueError: invalid literal for int() with base 10: ''",
            "https://github.com/deepspeedai/DeepSpeed/issues/2601",
        ),
    ),
    "registry-without-tls": (
        (
            "curl: (35) error:1408F10B:SSL routines:ssl3_get_record:wrong version number",
            "https://github.com/NVIDIA/pyxis/issues/112",
        ),
        (
            "Error: failed to do request: Head https://localhost:5000/v2/my-busybox/blobs/sha256:9c8e2aad: "
            "http: server gave HTTP response to HTTPS client",
            "https://github.com/apptainer/singularity/issues/5302",
        ),
    ),
    "lsf-affinity": (
        (
            "The affinity file provided in LSB_AFFINITY_HOSTFILE could not be converted",
            "https://github.com/open-mpi/ompi/issues/13570",
        ),
        (
            "The specified LSF affinity file contained a node (server1) that is not in your",
            "https://github.com/open-mpi/ompi/issues/13570",
        ),
        (
            "  LSB_AFFINITY_HOSTFILE could not be found",
            "https://github.com/deepspeedai/DeepSpeed/issues/6581",
        ),
    ),
    "mpi-mapping": (
        (
            "[h200-1001:1609093] PMIx_Spawn failed (-179): PMIX_ERR_JOB_FAILED_TO_MAP",
            "https://github.com/open-mpi/ompi/issues/14169",
        ),
        (
            "Your job failed to map. Either no mapper was available, or none\nof the available mappers was able to perform the requested",
            "Open MPI 4.1.8, source",
        ),
    ),
    "container-driver-too-old": (
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver to a newer version, or use an earlier cuda container: unknown",
            "https://github.com/MauriceNino/dashdot/issues/1226",
        ),
        (
            "nvidia-docker | 2017/12/20 13:08:46 Error: unsupported CUDA version: driver 8.0 < image 9.0.176",
            "https://github.com/jade-hpc-gpu/jade-hpc-gpu.github.io/issues/24",
        ),
    ),
    "cdi-specification": (
        (
            "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
            "podman 4.3, source",
        ),
        (
            'Error: setting up CDI devices: failed to inject devices: failed to stat CDI host device "/dev/dri/controlD69": no such file or directory',
            "https://github.com/NVIDIA/nvidia-container-runtime/issues/182",
        ),
        (
            "error running createContainer hook #5: exit status 3, stdout: , stderr: No help topic for 'disable-device-node-modification': unknown",
            "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/issues/568",
        ),
        (
            "Error: stat nvidia.com/gpu=0: no such file or directory",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/63",
        ),
    ),
    "image-registry-unreachable": (
        (
            'ERROR: failed to solve: nvcr.io/nvidia/pytorch:24.02-py3: failed to resolve source metadata for nvcr.io/nvidia/pytorch:24.02-py3: failed to do request: Head "https://nvcr.io/v2/nvidia/pytorch/manifests/24.02-py3": net/http: TLS handshake timeout',
            "https://github.com/hiyouga/LlamaFactory/issues/6922",
        ),
        (
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: Temporary failure in name resolution',
            "https://github.com/maum-ai/hififace/issues/11",
        ),
        (
            'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)',
            "docker 28.2, source",
        ),
        (
            "slurmstepd: error: pyxis:     curl: (28) Operation timed out after 600000 milliseconds with 1 out of 2 bytes received",
            "curl, unverified",
        ),
    ),
    "image-registry-certificate": (
        (
            'Error response from daemon: Get "https://registry-1.docker.io/v2/": x509: certificate signed by unknown authority',
            "https://github.com/WyvernTKC/cpuminer-gr-avx2/issues/72",
        ),
        (
            "x509: cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs",
            "docker 28.2, source",
        ),
    ),
    "container-no-names": (
        (
            "  Temporary failure resolving 'developer.download.nvidia.com'",
            "https://github.com/pytorch/pytorch/issues/5903",
        ),
    ),
    "loop-devices": (
        (
            "FATAL:   container creation failed: mount /proc/self/fd/3->/usr/local/var/singularity/mnt/session/rootfs error: while mounting image /proc/self/fd/3: failed to find loop device: could not attach image file to loop device: no loop devices available",
            "https://github.com/wheaton5/souporcell/issues/201",
        ),
    ),
    "container-hook-nvidia": (
        (
            "Error: OCI runtime error: error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)",
            "https://github.com/podman-container-tools/podman/issues/16094",
        ),
        (
            "error creating device nodes: open /home/me/.local/share/containers/storage/overlay/41bd/merged/dev/dri/card1:",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1151",
        ),
    ),
    "docker-name-used": (
        (
            'docker: Error response from daemon: Conflict. The container name "/train" is already in use by container "4f0b". You have to remove (or rename) that container to be able to reuse that name.',
            "docker, unverified",
        ),
    ),
    "docker-no-tty": (
        (
            "the input device is not a TTY",
            "docker 28.2, run",
        ),
    ),
    "image-architecture": (
        (
            "exec /usr/bin/python3: exec format error",
            "runc, unverified",
        ),
        (
            "docker: no matching manifest for linux/arm64/v8 in the manifest list entries.",
            "docker, unverified",
        ),
        (
            'failed to pull and unpack image "docker.io/library/train:1": no match for platform in manifest: not found',
            "containerd, unverified",
        ),
        (
            "FATAL:   While checking container encryption: could not open image /home/user/a.sif: the image's architecture (arm64) could not run on the host's (amd64)",
            "apptainer, source",
        ),
        (
            "FATAL:   image targets 'arm64', cannot run on 'amd64'",
            "apptainer, unverified",
        ),
    ),
    "no-user-namespaces": (
        (
            "ERROR  : Failed to create user namespace: user namespace disabled",
            "apptainer, unverified",
        ),
        (
            "processing tar file(potentially insufficient UIDs or GIDs available in user namespace (requested 0:42 for /etc/gshadow): Check /etc/subuid and /etc/subgid",
            "podman 4.3, source",
        ),
        (
            "newuidmap: write to uid_map failed: Operation not permitted",
            "shadow 4.13, run",
        ),
        (
            "slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: Invalid argument",
            "https://github.com/NVIDIA/enroot/issues/41",
        ),
        (
            "slurmstepd: error: pyxis: seccomp filter failed: Function not implemented",
            "https://github.com/NVIDIA/pyxis/issues/42",
        ),
        (
            "cannot clone: Operation not permitted",
            "Podman 4.3, source",
        ),
        (
            "slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: No space left on device",
            "https://github.com/NVIDIA/pyxis/issues/93",
        ),
        (
            "ERROR  : Singularity must be executed in privileged mode to use images\nABORT  : Retval = 255",
            "https://github.com/apptainer/singularity/issues/1172",
        ),
        (
            "ERROR  : User namespace not supported, and program not running privileged.\nABORT  : Retval = 255",
            "singularity 2, source",
        ),
        (
            "FATAL:   could not use fakeroot: no mapping entry found in /etc/subuid for user",
            "singularity, source",
        ),
        (
            "ERROR  : Failed invoking the NEWUSER namespace runtime: Invalid argument",
            "https://github.com/apptainer/singularity/issues/5479",
        ),
        (
            "ERROR  : Could not write info to setgroups: Permission denied\nERROR  : Error while waiting event for user namespace mappings: no event received",
            "https://github.com/apptainer/apptainer/issues/2608",
        ),
    ),
    "container-fuse": (
        (
            "FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll exited: fuse: device not found, try 'modprobe fuse' first",
            "https://github.com/Observation-Management-Service/ewms-pilot/pull/86",
        ),
        (
            "FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll exited: fusermount: mountpoint /dev/fuse is not a directory or a regular file",
            "https://github.com/PGScatalog/pgsc_calc/issues/332",
        ),
        (
            "FATAL:   container creation failed: mount hook function failure: mount /proc/self/fd/3->/var/apptainer/mnt/session/rootfs error: while mounting image /proc/self/fd/3: squashfuse_ll failed to mount /var/apptainer/mnt/session/rootfs in 2s",
            "https://github.com/apptainer/apptainer/issues/949",
        ),
        (
            "FATAL:   container creation failed: image driver mount failure: image driver squashfuse_ll instance exited with error: squashfuse_ll\nexited: /sw/squashfuse/0.5.1/bin/squashfuse_ll: /lib64/libfuse3.so.3: version `FUSE_3.12' not found",
            "https://github.com/apptainer/apptainer/issues/2477",
        ),
        (
            "[WARN] fusermount: mount failed: Operation not permitted\n[ERROR] Failed to mount: ubuntu.sqsh",
            "https://github.com/NVIDIA/enroot/issues/11",
        ),
        (
            "mount: drop permissions failed.",
            "https://github.com/NVIDIA/enroot/issues/261",
        ),
        (
            "[WARN] Squashfs image uses lzo compression, this version supports only xz, zlib, lz4, zstd.\n[ERROR] Failed to mount: /mnt/alpine.sqsh",
            "https://github.com/NVIDIA/enroot/issues/141",
        ),
    ),
    "container-device-missing": (
        (
            "stderr: nvidia-container-cli: device error: 4: unknown device: unknown.",
            "https://github.com/NVIDIA/nvidia-docker/issues/1283",
        ),
        (
            "nvidia-container-cli: mount error: stat failed: /dev/nvidia-modeset: no such file or directory",
            "https://github.com/NVIDIA/enroot/issues/47",
        ),
        (
            'docker: Error response from daemon: error gathering device information while adding custom device "/dev/infiniband/rdma_cm": no such file or directory.',
            "docker, unverified",
        ),
    ),
    "container-cgroup-v2": (
        (
            "error running hook: exit status 1, stdout: , stderr: nvidia-container-cli: container error: cgroup subsystem devices not found: unknown.",
            "https://github.com/NVIDIA/nvidia-docker/issues/1486",
        ),
        (
            "nvidia-container-cli: mount error: failed to add device rules: unable to find any existing device filters attached to the cgroup: bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted: unknown.",
            "https://github.com/gpustack/gpustack/issues/391",
        ),
        (
            "nvidia-container-cli: mount error: open failed: /sys/fs/cgroup/devices/user.slice/devices.allow: permission denied",
            "libnvidia-container, unverified",
        ),
    ),
    "podman-storage": (
        (
            "Error: 'overlay' is not supported over nfs at \"/home/user/.local/share/containers/storage/overlay\": backing file system is unsupported for this graph driver",
            "podman 4.3, source",
        ),
    ),
    "image-reference-invalid": (
        (
            "docker: invalid reference format: repository name must be lowercase.",
            "https://github.com/moby/moby/issues/36080",
        ),
    ),
    "image-file-exists": (
        (
            "[ERROR] File already exists: /home/user/nvidia+pytorch+24.01-py3.sqsh",
            "enroot, source",
        ),
    ),
    "image-of-newer-driver": (
        (
            "ERROR: This container was built for NVIDIA Driver Release 560.35 or later, but",
            "nvidia_entrypoint.sh, source",
        ),
    ),
    "ray-worker-ended": (
        (
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. Worker IP address: 159.226.47.239 Worker port: 38191 Worker PID: 870287 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly by a signal. SystemExit is raised (sys.exit is called). Exit code: 1. The process receives a SIGTERM. ",
            "https://github.com/verl-project/verl/issues/1986",
        ),
    ),
    "docker-option-misplaced": (
        (
            'docker: Error response from daemon: failed to create shim: OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "--gpus": executable file not found in $PATH: unknown.',
            "https://github.com/NVIDIA/nvidia-docker/issues/1528",
        ),
        (
            "/.singularity.d/actions/exec: 9: exec: --nv: not found",
            "https://github.com/jade-hpc-gpu/jade-hpc-gpu.github.io/issues/82",
        ),
        (
            'FATAL:   "--nv": executable file not found in $PATH',
            "Apptainer 1.3, unverified",
        ),
        (
            "Error: crun: executable file `--gpus=all` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
            "podman 4.9, unverified",
        ),
    ),
    "image-build-failed": (
        (
            "FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: while creating squashfs: create command failed: signal: killed: ",
            "Singularity, documented",
        ),
        (
            "FATAL:   While making image from oci registry: error fetching image to cache: while building SIF from layers: while creating squashfs: create command failed: exit status 1: FATAL ERROR: Out of memory (cache_alloc)",
            "Singularity, documented",
        ),
    ),
    "kernel-too-old": (
        (
            "FATAL: kernel too old",
            "glibc, documented",
        ),
    ),
    "container-nv-missing": (
        (
            "INFO:    Could not find any nv files on this host!",
            "Apptainer, documented",
        ),
    ),
    "pyxis-container-name": (
        (
            'pyxis: error: a container with name "myubuntu" does not exist, and --container-image is not set',
            "https://github.com/NVIDIA/pyxis/issues/66",
        ),
    ),
    "container-ldconfig": (
        (
            "docker: Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: Running hook #1:: error running hook: exit status 1, stdout: , stderr: nvidia-container-cli: ldcache error: open failed: /sbin/ldconfig.real: no such file or directory: unknown.",
            "https://github.com/hekmak/Conf-net/issues/5",
        ),
    ),
    "image-has-driver": (
        (
            "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/bd4f3570d4eb99d9/merged/usr/bin/nvidia-smi: file exists",
            "https://github.com/NVIDIA/nvidia-docker/issues/825",
        ),
        (
            "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/2a1a1c3555109e20/merged/usr/lib/aarch64-linux-gnu/libnvidia-fatbinaryloader.so.440.18: file exists",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/295",
        ),
        (
            "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/d5771d7f73e2a912/merged/run/nvidia-persistenced/socket: no such device or address",
            "https://github.com/NVIDIA/nvidia-docker/issues/1300",
        ),
        (
            "slurmstepd: error: pyxis:     nvidia-container-cli: mount error: file creation failed: "
            "/raid/enroot-data/user-9011/pyxis_64.0/run/nvidia-persistenced/socket: no such device or "
            "address",
            "https://github.com/NVIDIA/enroot/issues/138",
        ),
    ),
    "container-driver-state": (
        (
            "nvidia-container-cli: mount error: stat failed: /proc/driver/nvidia/gpus/cfdd:00:00.0: no such file or directory",
            "https://github.com/NVIDIA/nvidia-docker/issues/1316",
        ),
        (
            "nvidia-container-cli: mount error: mount operation failed: /home/ann/docker/overlay2/b9f5385b968a94c6/merged/proc/driver/nvidia/params/version/registry: no such file or directory",
            "https://github.com/NVIDIA/nvidia-docker/issues/1068",
        ),
        (
            "nvidia-container-cli: initialization error: driver rpc error: timed out",
            "libnvidia-container, unverified",
        ),
    ),
    "container-workdir": (
        (
            'Error: workdir "/home/user/gone" does not exist on container f85fc8',
            "podman 4.9, run",
        ),
        (
            "slurmstepd: error: pyxis: couldn't chdir to /workspace: No such file or directory",
            "pyxis, source",
        ),
        (
            'OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd ("/root") set in config.json failed: permission denied: unknown',
            "runc, unverified",
        ),
    ),
    "pyxis-arguments": (
        (
            "srun: error: pyxis: --container-mounts: invalid format: /data:",
            "pyxis 0.21, source",
        ),
        (
            'srun: error: pyxis: mount source must be a relative path, an absolute path, "tmpfs" or "umount"',
            "pyxis 0.21, source",
        ),
        (
            "srun: error: pyxis: both --container-writable and --container-readonly were specified",
            "pyxis 0.21, source",
        ),
    ),
    "pyxis-options-ignored": (
        (
            "srun: error: pyxis: ignoring --container-mounts because neither --container-image nor --container-name is set",
            "pyxis, source",
        ),
    ),
    "enroot-unpack": (
        (
            "enroot-aufs2ovlfs: failed to create ovlfs whiteout: /var/tmp/pbs.1512380/enroot.dvToIaBvG7/39/var/lib/apt/lists/archive.ubuntu.com_Packages: Operation not permitted",
            "https://github.com/NVIDIA/enroot/issues/69",
        ),
        (
            "enroot-aufs2ovlfs: failed to set capabilities: Operation not permitted",
            "https://github.com/NVIDIA/enroot/issues/141",
        ),
        (
            "[INFO] Creating squashfs filesystem...\n\nCould not create destination file: No such file or directory",
            "https://github.com/NVIDIA/enroot/issues/10",
        ),
    ),
    "apptainer-nvccli": (
        (
            'FATAL:   container creation failed: path to "nvidia-container-cli" not set in singularity.conf',
            "https://github.com/ComparativeGenomicsToolkit/cactus/issues/1618",
        ),
        (
            'FATAL:   container creation failed: exec: "/usr/bin/nvidia-container-cli": stat /usr/bin/nvidia-container-cli: no such file or directory',
            "https://github.com/gglyptodon/helixer-docker/issues/5",
        ),
        (
            "FATAL:   container creation failed: nvidia-container-cli failed with exit status 1: nvidia-container-cli: permission error: capability change failed: operation not permitted",
            "https://github.com/sylabs/singularity/issues/641",
        ),
    ),
    "podman-kernel-too-old": (
        (
            "Error: preparing container 3e41d4b87bd1ad81c324ba154bdbfcca370e0fb84af8c6252aa0ae9a735df588 for attach: crun: fsopen_mount `tmpfs`: Function not implemented: OCI runtime error",
            "https://github.com/mmartial/ComfyUI-Nvidia-Docker/issues/86",
        ),
        (
            "Error: OCI runtime error: crun: fsopen_mount `tmpfs`: Function not implemented",
            "https://github.com/mmartial/ComfyUI-Nvidia-Docker/issues/86",
        ),
    ),
    "podman-storage-refused": (
        (
            "Error: crun: open `/home/u1/.local/share/containers/storage/overlay/41bfd118199856f58b90b8a47f7e69b3821dd492e1379782cc0218004d1cce23/merged`: Permission denied: OCI permission denied",
            "https://github.com/podman-container-tools/podman/issues/25080",
        ),
        (
            "Error: crun: make `/home/jonathan/.local/share/containers/storage/overlay/efb7154534ee93a2f2cbe90342b436f3d80ec0fa8d117af67c3aed5b9ac291f3/merged` private: Permission denied: OCI permission denied",
            "https://github.com/podman-container-tools/podman/issues/23356",
        ),
    ),
    "image-cache-owned": (
        (
            "slurmstepd: error: pyxis:     zstd: /raid/enroot-cache/group-18000/"
            "d9270b9c551dee8e10b082c3c5faf35c32b60ae377ab5d4d1d7e6a6ac23d9a45: Permission denied",
            "enroot 3.4, unverified",
        ),
        (
            "FATAL:   While making image from oci registry: error fetching image: failed to get checksum: open "
            "/scratch/cache/blob/blobs/sha256/d9270b9c551dee8e10b082c3c5faf35c32b60ae377ab5d4d1d7e6a6ac23d9a45: permission denied",
            "Apptainer 1.3, unverified",
        ),
    ),
    "container-no-nvidia-smi": (
        (
            'docker: Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "nvidia-smi": executable file not found in $PATH: unknown.',
            "https://github.com/google-deepmind/alphafold/issues/374",
        ),
        (
            'FATAL:   "nvidia-smi": executable file not found in $PATH',
            "Apptainer 1.3, unverified",
        ),
        (
            "Error: crun: executable file `nvidia-smi` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
            "podman 4.9, unverified",
        ),
    ),
    "container-overlay": (
        (
            "FATAL:   while loading overlay images: failed to open overlay image /scratch/me/overlay-50G-10M.ext3: while locking ext3 partition from /scratch/me/overlay-50G-10M.ext3: can't open /scratch/me/overlay-50G-10M.ext3 for reading, currently in use for writing by another process",
            "https://github.com/apptainer/singularity/issues/6196",
        ),
        (
            "FATAL:   failed to open overlay image overlay: failed to retrieve path for overlay: lstat /tmp/sandbox/overlay: no such file or directory",
            "https://github.com/apptainer/singularity/issues/4270",
        ),
    ),
    "container-runtime-broken": (
        (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/2f00bc3dd57d/log.json: no such file or directory)",
            "https://github.com/open-edge-platform/geti_v2/issues/1876",
        ),
        (
            "docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/containerd/io.containerd.runtime.v1.linux/moby/a/log.json: no such file or directory): nvidia-container-runtime did not terminate successfully: exit status 127: unknown.",
            "docker 20.10, unverified",
        ),
    ),
    "gpu-files-forbidden": (
        (
            "Failed to initialize NVML: Insufficient Permissions",
            "https://github.com/NVIDIA/nvidia-container-toolkit/issues/210",
        ),
        (
            "pynvml.NVMLError_NoPermission: Insufficient Permissions",
            "pynvml 11.5, source",
        ),
        (
            "Failed to initialize NVML: GPU access blocked by the operating system",
            "nvidia-smi 535, unverified",
        ),
    ),
    "container-engine-error": (
        (
            "docker: Error response from daemon: network mynet not found.",
            "docker 24, unverified",
        ),
        (
            "FATAL:   You must be the root user, however you can use --remote or --fakeroot to build from a Singularity recipe file",
            "Singularity 3.8, unverified",
        ),
        (
            "Error: creating container storage: layer not known",
            "podman 4.9, unverified",
        ),
    ),
}
