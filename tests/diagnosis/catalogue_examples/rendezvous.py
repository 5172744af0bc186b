"""Printed texts of `ddpkit/diagnosis/catalogue/rendezvous.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "port-in-use": (
        (
            "ConnectionError: Tried to launch distributed communication on port `29144`, but another process is utilizing it.",
            "https://github.com/huggingface/accelerate/issues/2955",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
            "address. port: 29512, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: The server socket has failed to listen on any local network address. The server socket "
            "has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
            "https://github.com/microsoft/DeepSpeed/issues/3916",
        ),
        ("OSError: [Errno 98] Address already in use", "Python 3.11, run"),
        (
            "docker: Error response from daemon: driver failed programming external connectivity on endpoint train: Bind for 0.0.0.0:29500 failed: port is already allocated.",
            "docker 24.0, source",
        ),
        (
            "RuntimeError: on node1, port: 29500 already in use",
            "torch 2.13, source",
        ),
        (
            "ValueError: Ray component dashboard_agent_http is trying to use a port number 52365 that is used by other components.",
            "Ray 2.9, unverified",
        ),
    ),
    "sockets-forbidden": (
        (
            "RuntimeError: The client socket has failed to connect to any network address of (localhost, 29400). The "
            "client socket cannot be initialized to connect to localhost:29400 (errno: 1 - Operation not permitted).",
            "torch 2.2, source",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
            "port: 29611, useIpv6: false, code: -1, name: EPERM, message: operation not permitted",
            "torch 2.13, source",
        ),
    ),
    "master-unreachable": (
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to "
            "connect to (10.0.0.1, 29500).",
            "torch 2.13, run",
        ),
        (
            "TimeoutError: The client socket has timed out after 60s while trying to connect to (node1, 29500).",
            "https://github.com/pytorch/pytorch/issues/105782",
        ),
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node1]:29500 (errno: 111 - "
            "Connection refused).",
            "torch 2.2, documented",
        ),
        (
            "TCP client failed to connect/validate to host 10.0.0.1:29500 - timed out (try=3, timeout=60000ms): ",
            "torch 2.9, source",
        ),
        (
            "RuntimeError: connect() timed out.",
            "https://github.com/xh-liu/CC-FPSE/issues/6",
        ),
        (
            "RuntimeError: connect() timed out. Original timeout was 60000 ms.",
            "torch 1.10, source",
        ),
        (
            "RuntimeError: Connection refused",
            "torch 1.7, source",
        ),
        (
            "[E socket.cpp:922] [c10d] The client socket has failed to connect to any network address of "
            "(node1, 29500).",
            "torch 2.1, source",
        ),
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to "
            "[::ffff:192.168.121.122]:29500 (errno: 113 - No route to host).",
            "torch 2.1, source",
        ),
    ),
    "nodelist-unexpanded": (
        (
            "[W socket.cpp:663] [c10d] The IPv4 network addresses of (node[01-04], 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
            "torch 2.13, run",
        ),
        ("ssh: Could not resolve hostname node[01-04]: Name or service not known", "OpenSSH 9.2, run"),
        (
            "The client socket has timed out after 60000ms while trying to connect to (node[01-04], 29500).",
            "torch 2.6, run",
        ),
    ),
    "master-port-zero": (
        (
            "[E socket.cpp:957] [c10d] The client socket has timed out after 7200s while trying to connect to (localhost, 0).",
            "https://github.com/speechbrain/speechbrain/issues/2588",
        ),
    ),
    "master-address-bad": (
        (
            "[W715 20:00:39.842901446 socket.cpp:752] [c10d] The IPv6 network addresses of ([2605:340:cd51:4900:73e8:12cb:cfe2:1540], 59699) cannot be retrieved (gai error: -2 - Name or service not known).",
            "https://github.com/verl-project/verl/issues/2550",
        ),
        (
            "[rank1]: torch.distributed.DistNetworkError: The IPv6 network addresses of (/home/me/hosts.txt, 29513) "
            "cannot be retrieved (gai error: -3 - Temporary failure in name resolution).",
            "https://github.com/huggingface/accelerate/issues/2245",
        ),
        (
            "[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (05, 40323).",
            "https://github.com/ofsoundof/GRL-Image-Restoration/issues/27",
        ),
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to [::ffff:255.255.0.0]:29500 (errno: 110 - Connection timed out).",
            "https://github.com/hiyouga/LlamaFactory/issues/3715",
        ),
        (
            "[E socket.cpp:610] [c10d] The client socket has failed to connect to [::ffff:0.0.0.5]:40323 (errno: 110 - "
            "Connection timed out).",
            "https://github.com/ofsoundof/GRL-Image-Restoration/issues/27",
        ),
    ),
    "master-name-unknown": (
        (
            "TCP client failed to connect/validate to host slinky-0:29400 - Name or service not known",
            "https://github.com/awslabs/ai-on-eks/issues/240",
        ),
        (
            "[W1120 17:02:51.123456789 socket.cpp:762] [c10d] The IPv6 network addresses of (no-such-host, 29513) "
            "cannot be retrieved (gai error: -2 - Name or service not known).",
            "torch 2.13, run",
        ),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "Python 3.11, run"),
        ("socket.gaierror: [Errno -2] Name or service not known", "Python 3.11, run"),
        (
            "RuntimeError: host not found: Name or service not known",
            "torch 1.9, source",
        ),
    ),
    "no-node-is-host": (
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store "
            "has failed. See inner exception for details.",
            "torch 2.13, run",
        ),
    ),
    "node-rank-missing": (
        (
            "torch.distributed.DistStoreError: wait timeout after 900000ms, keys: /none/torchelastic/role_info/0, "
            "/none/torchelastic/role_info/1",
            "torch 2.13, run",
        ),
    ),
    "rendezvous-id-random": (
        (
            "WARNING:torch.distributed.launcher.api:config has no run_id, generated a random run_id: 174580650467654300307713793029077439978\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            "https://github.com/ymcui/Chinese-LLaMA-Alpaca-2/issues/274",
        ),
    ),
    "rendezvous-timeout": (
        ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "torch 2.13, documented"),
        (
            "TimeoutError: timed out waiting for all 2 members to join",
            "torch 2.13, source",
        ),
    ),
    "rank-not-set": (
        (
            "RuntimeError: Could not find 'RANK' in the torch environment, visit https://www.colossalai.org/ for more information on launching with torch",
            "https://github.com/hpcaitech/Open-Sora/issues/194",
        ),
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
            "expected, but not set",
            "torch 2.13, run",
        ),
        (
            "ValueError: Error initializing torch.distributed using tcp:// rendezvous: rank parameter missing",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, assuming you are not running in a multi-device context and want the code to run locally instead.",
            "torch 2.13, source",
        ),
    ),
    "no-nccl-in-torch": (("RuntimeError: Distributed package doesn't have NCCL built in", "torch 2.13, run"),),
    "script-missing": (
        (
            "/usr/bin/python3: can't open file '/home/me/train.py': [Errno 2] No such file or directory",
            "Python 3.11, run",
        ),
        ("python: can't open file 'train.py': [Errno 2] No such file or directory", "Python 3.8, documented"),
        (
            "ddpkit: error: script trian.py not found in /home/user/project",
            "ddpkit 0.2, run",
        ),
    ),
    "child-failed": (
        (
            "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
            "https://github.com/shun-zheng/Doc2EDAG/issues/24",
        ),
        ("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "torch 2.13, run"),
        (
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
            "torch 2.13, run",
        ),
    ),
    "no-reverse-name": (
        (
            "[W1120 17:02:51.1 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
            "torch 2.13, run",
        ),
    ),
    "rank-absent-static": (
        (
            "ValueError: rank is absent in RendezvousParameters.Try add --node-rank to the cmd request",
            "torch 2.13, source",
        ),
    ),
    "two-agents": (
        (
            "[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
            "https://github.com/pytorch/pytorch/issues/116974",
        ),
    ),
    "rendezvous-closed": (
        ("torch.distributed.elastic.rendezvous.api.RendezvousClosedError", "torch 2.13, source"),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousGracefulExitError: The rendezvous 'job7' "
            "is closed, terminating pending rendezvous.",
            "torch 2.13, source",
        ),
        (
            "    if result.is_failed():\nAttributeError: 'NoneType' object has no attribute 'is_failed'",
            "https://github.com/pytorch/pytorch/issues/194710",
        ),
    ),
    "rendezvous-endpoint-bad": (
        (
            "ValueError: The hostname of the rendezvous endpoint 'node[01-02]:29500' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The port number of the rendezvous endpoint 'node1:abc' must be an integer "
            "between 0 and 65536.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The rendezvous backend 'foo' is not registered. Did you forget to call `register`?",
            "torch 2.13, run",
        ),
    ),
    "launcher-arguments": (
        (
            "torchrun: error: unrecognized arguments: --nproc-per-node=1",
            "https://github.com/huggingface/pytorch-image-models/issues/1742",
        ),
        ("launch.py: error: argument --node-rank/--node_rank: invalid int value: ''", "torch 2.13, run"),
    ),
    "etcd-rendezvous": (
        (
            "ModuleNotFoundError: No module named 'etcd'",
            "Python 3.11, run",
        ),
        (
            "etcd.EtcdKeyNotFound: Key not found : /torch/elastic/store",
            "https://github.com/pytorch/pytorch/issues/132950",
        ),
        ("etcd.EtcdConnectionFailed: Connection to etcd failed due to MaxRetryError", "python-etcd, unverified"),
        (
            "torch.distributed.elastic.rendezvous._etcd_stub.EtcdStubError: The 'etcd' module is required but not installed.",
            "torch 2.13, source",
        ),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to etcd has failed. See inner exception for details.",
            "torch 2.13, source",
        ),
    ),
    "windows-socket-words": (
        (
            "    store = _create_c10d_store(master_addr, master_port, rank, world_size, timeout)\nRuntimeError: unmatched '}' in format string",
            "https://github.com/meta-llama/llama/issues/347",
        ),
    ),
    "nproc-bad": (
        ("ValueError: Cuda is not available.", "torch 2.13, source"),
        ("ValueError: Unsupported nproc_per_node value: two", "torch 2.13, source"),
        (
            "launch.py: error: argument --nproc_per_node: invalid int value: ''",
            "https://github.com/cfzd/FcaNet/issues/12",
        ),
        (
            "ValueError: Xpu is not available.",
            "torch 2.13, source",
        ),
    ),
    "socket-fallback": (
        (
            "[W socket.cpp:401] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 "
            "- Address family not supported by protocol).",
            "https://github.com/pytorch/pytorch/issues/77523",
        ),
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to "
            "[kubernetes.docker.internal]:7250 (system error: 10049 - The requested address is not valid "
            "in that context.).",
            "https://github.com/xyfJASON/ctrlora/issues/8",
        ),
        (
            "[W socket.cpp:558] [c10d] The client socket has failed to connect to [localhost]:29500 "
            "(errno: 99 - Cannot assign requested address).",
            "torch 1.13, source",
        ),
    ),
    "rendezvous-host-gone": (
        (
            "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'node04_3882442_0' "
            "has failed to shutdown the rendezvous '9987b766' due to an error of type "
            "RendezvousConnectionError.",
            "https://github.com/wenet-e2e/wespeaker/issues/171",
        ),
        (
            '  File "/x/site-packages/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 113, in '
            "_call_store\n"
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
            "C10d store has failed. See inner exception for details.",
            "torch 1.12, source",
        ),
    ),
    "port-not-permitted": (
        (
            "RuntimeError: The server socket has failed to listen on any local network address. The "
            "server socket has failed to bind to [::]:80 (errno: 13 - Permission denied).",
            "torch 2.0, source",
        ),
        (
            "[W socket.cpp:436] [c10d] The server socket has failed to bind to [kodachi]:51545 (system error: 10013 - An attempt was made to access a socket in a way forbidden by its access permissions.).",
            "https://github.com/RVC-Project/Retrieval-based-Voice-Conversion-WebUI/issues/246",
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to bind. port: 1, useIpv6: 0, code: -13, name: EACCES, message: permission denied",
            "https://github.com/pytorch/pytorch/pull/130797",
        ),
    ),
    "master-not-here": (
        (
            "RuntimeError: The server socket has failed to bind to 10.0.0.9:29500 (errno: 99 - Cannot "
            "assign requested address).",
            "torch 2.0, source",
        ),
        (
            "OSError: [Errno 99] Cannot assign requested address",
            "Python 3.11, source",
        ),
    ),
    "no-libuv-in-torch": (
        (
            "torch.distributed.DistStoreError: use_libuv was requested but PyTorch was built without libuv support, run with USE_LIBUV=0 to disable it.",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: use_libuv was requested but PyTorch was build without libuv support",
            "https://github.com/pytorch/pytorch/issues/139990",
        ),
    ),
    "torchrun-value-bad": (
        (
            'RuntimeError: nnodes=two is not in "MIN:MAX" format',
            "torch 2.13, source",
        ),
        (
            "ValueError: The run id must be a non-empty string.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The rendezvous configuration option 'timeout' does not represent a valid integer value.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The rendezvous configuration option 'timeout' must have a value specified.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The minimum number of nodes (min_nodes) must be greater than zero.",
            "torch 2.13, source",
        ),
        (
            "ValueError: The maximum number of nodes (max_nodes) must be greater than or equal to the minimum number of nodes (min_nodes).",
            "torch 2.13, source",
        ),
        (
            "AssertionError: min_nodes must be > 0 and <= max_nodes, got min_nodes=0, max_nodes=0",
            "torch 2.13, source",
        ),
        (
            "ValueError: port is missing in endpoint: node1. Try to specify --master-port",
            "torch 2.13, source",
        ),
        (
            "ValueError: Port is absent in endpoint: node1. Try launching with --master-port",
            "torch 2.13, source",
        ),
        (
            "ValueError: port must have value from 0 to 65535 but was 295000.",
            "torch 2.13, source",
        ),
    ),
    "master-leads-elsewhere": (
        (
            "[W416 15:37:25.363094293 socket.cpp:933] [c10d] The server socket on [::ffff:36.7.80.13]:40613 has timed out, will retry.\n[E416 15:40:10.861069241 socket.cpp:1023] [c10d] The client socket has timed out after 300000ms while trying to connect to (mo.sy.cn, 40613).",
            "https://github.com/ModelTC/LightCompress/issues/365",
        ),
    ),
}
