"""Printed texts of `ddpkit/diagnosis/catalogue/store.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "store-lost": (
        (
            "[rank3]:[W1120 17:02:51.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=70, addr=[localhost]:40870, remote=[localhost]:29500): failed to recv, got 0 bytes",
            "torch 2.6, run",
        ),
        (
            '[rank3]:[W1120 17:02:51.1 ProcessGroupNCCL.cpp:1659] [PG ID 0 PG GUID 0 Rank 3] failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early)',
            "torch 2.6, documented",
        ),
        (
            "[W1121 23:27:24.958927062 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=6, "
            "addr=[::ffff:127.0.0.1]:58810, remote=[::ffff:127.0.0.1]:44537): Broken pipe",
            "torch 2.13, run",
        ),
        ("RuntimeError: Broken pipe", "https://github.com/wenet-e2e/wespeaker/issues/171"),
        (
            "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
            "https://github.com/pytorch/pytorch/pull/130056",
        ),
    ),
    "bad-init-method": (
        (
            "RuntimeError: open(/home/me/new_store_test.txt): No such file or directory",
            "https://github.com/pytorch/pytorch/issues/13750",
        ),
        ("File already exists: output.tmp/dist_init", "https://github.com/epfml/powersgd/issues/21"),
        ("RuntimeError: No rendezvous handler for foo://", "torch 2.13, run"),
        ("RuntimeError: File already exists: output.tmp/dist_init", "https://github.com/epfml/powersgd/issues/21"),
    ),
    "store-shared": (
        (
            "Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 "
            "(world_size=4, worker_count=8, timeout=0:30:00)",
            "https://github.com/ultralytics/yolov5/issues/4574",
        ),
    ),
    "store-barrier-timeout": (
        (
            "Timed out initializing process group in store-based barrier on rank: 0, for key: store_based_barrier_key:1 (world_size=4, worker_count=1, timeout=0:30:00)",
            "https://github.com/motional/nuplan-devkit/issues/347",
        ),
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
            "store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:30:00)",
            "torch 1.13, https://github.com/pytorch/pytorch/issues/79388",
        ),
    ),
    "exit-barrier": (
        (
            "wait timeout after 300000ms, keys: /torch.rendezvous.job.0.0/torchelastic/agent/terminal_state/"
            "last_member",
            "torch 2.13, run",
        ),
        (
            "ERROR:torch.distributed.elastic.agent.server.api:Error waiting on exit barrier. Elapsed: 315.7792458534241 seconds",
            "https://github.com/pytorch/pytorch/issues/69520",
        ),
    ),
    "second-master": (
        (
            "torch.distributed.DistStoreError: wait timeout after 15000ms, keys: /default_pg/0//cpu//0/1",
            "torch 2.13, run",
        ),
    ),
    "ranks-missing": (
        (
            "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.",
            "torch 2.13, run",
        ),
        (
            "torch.distributed.DistStoreError: Timed out after 6 seconds waiting for workers. 1/2 workers joined.",
            "https://github.com/pytorch/pytorch/pull/111805",
        ),
    ),
    "store-connect-reset": (
        (
            "    return TCPStore(\ntorch.distributed.DistNetworkError: Connection reset by peer",
            "https://github.com/pytorch/pytorch/issues/118666",
        ),
        (
            "RuntimeError: Stop_waiting response is expected",
            "https://github.com/hpcaitech/ColossalAI/issues/5890",
        ),
        (
            '  File "/opt/conda/lib/python3.6/site-packages/torch/distributed/distributed_c10d.py", line 360, in init_process_group\n    timeout=timeout)\nRuntimeError: Connection reset by peer',
            "https://github.com/kubeflow/trainer/issues/2008",
        ),
        (
            "[W426 16:56:01.831041000 TCPStore.cpp:347] [c10d] TCP client failed to connect/validate to host 100.64.0.1:59782 - retrying (try=6, timeout=1800000ms, delay=5241ms): Connection reset by peer",
            "https://github.com/TheTom/vllm-swift/issues/9",
        ),
        (
            "[W519 18:43:28.514281000 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=22, addr=[10.0.0.5]:58160, remote=[10.0.0.5]:58159): Connection reset by peer\nframe #3: c10d::TCPStore::ping() + 200 (0x116b4e68c in libtorch_cpu.dylib)",
            "https://github.com/vllm-project/vllm/issues/18362",
        ),
    ),
    "store-wait": (
        ("RuntimeError: Wait timeout", "https://github.com/pytorch/gloo/issues/148"),
        ("torch.distributed.DistStoreError: Socket Timeout", "torch 2.2, source"),
        ("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /mykey", "torch 2.13, source"),
        ("RuntimeError: Timeout waiting for key: /mykey after 1000 ms", "torch 2.13, run"),
        ("torch.distributed.DistStoreError: Wait timeout", "torch 2.13, run"),
        (
            "[W516 14:34:56.854597329 socket.cpp:489] [c10d] waitForInput: socket SocketImpl(fd=79, addr=[localhost]:41170, remote=[localhost]:29500) timed out after 1800000ms",
            "torch 2.7, source",
        ),
        (
            "torch.distributed.DistStoreError: barrier timeout after 300000ms, key: /barrier",
            "torch 2.13, source",
        ),
    ),
    "new-group-timeout": (
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: store_based_barrier_key:5 (world_size=8, worker_count=6, timeout=0:30:00)",
            "torch 1.13, source",
        ),
    ),
    "init-file-stale": (
        (
            "dist_init_method: file:///checkpoint/ann/.dist_init_a1b2\nnode1:123:180 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.7<51234> failed : Connection refused",
            "NCCL 2.18 and torch, unverified",
        ),
        (
            "{'dist_init_method': 'file:///scratch/sync_file', 'world_size': 16}\nnode1:123:180 [0] include/socket.h:403 NCCL WARN Connect to 10.0.0.7<51234> failed : Connection refused\nnode1:123:180 [0] NCCL INFO Call to connect returned Connection refused, retrying",
            "NCCL 2.8, unverified",
        ),
    ),
    "store-windows-old": (
        (
            "RuntimeError: No rendezvous handler for env://",
            "https://github.com/open-mmlab/mmdetection/issues/6436",
        ),
        (
            "RuntimeError: No rendezvous handler for tcp://",
            "https://github.com/lemuria-wchen/DialogVED/issues/1",
        ),
    ),
}
