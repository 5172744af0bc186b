"""Failed rendezvous: missing ranks, wrong addresses, torchrun's options."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry, Instead

ENTRIES = (
    Entry(
        id="socket-fallback",
        title="errno: 97 - Address family not supported by protocol; system error: 10049",
        kind="noise",
        patterns=(
            r"\[W.*socket (?:cannot be initialized|has failed to (?:connect to|bind to|listen on)|could not be).*(?:errno: (?:97|99)|code: -(?:97|99)|system error: 100(?:49|47))\b",
            r"\[W.*(?:socket|network addresses).*Address family not supported by protocol",
            r"\[W.*socket.*Cannot assign requested address",
        ),
        cause="torch tried an IPv6 or a second address first, and continues with the next one. This is harmless",
        probe="nothing to check",
        fix="nothing to do",
        link="https://github.com/pytorch/pytorch/issues/77523",
    ),
    Entry(
        id="port-not-permitted",
        title="The server socket has failed to bind (errno: 13 - Permission denied)",
        patterns=(
            r"server socket has failed to (?:bind|listen on).*(?::|port: )(?P<port>\d+)\D.*(?:errno: 13\b|code: -13\b)",
            r"server socket has failed to (?:bind to|listen on).*:(?P<port>\d+) \(system error: (?P<windows>10013)\b",
        ),
        explains=(
            "port-in-use",
            "permission-denied",
        ),
        cause="this user cannot listen on port {port}: ports below 1024 are for root[. Windows (error {windows}) also "
        "refuses ranges that Hyper-V or WSL reserved, though no program listens there]",
        probe="id; sysctl net.ipv4.ip_unprivileged_port_start; under Windows: netsh int ipv4 show excludedportrange tcp",
        fix="use another port, above 1023: `torchrun --master-port=29511`",
        link="https://man7.org/linux/man-pages/man7/ip.7.html",
    ),
    Entry(
        id="master-not-here",
        title="The server socket has failed to bind (errno: 99 - Cannot assign requested address)",
        patterns=(
            r"(?:Error|\[E).{0,200}server socket has failed to (?:bind to|listen on).*?(?:\[?(?P<host>[\w.:-]+?)\]?:(?P<port>\d+))?\D{0,60}(?:errno: 99\b|code: -99\b)",
            r"OSError: \[Errno 99\] Cannot assign requested address",
        ),
        explains=("port-in-use",),
        cause="rank 0 cannot listen[ on {host}]: the address in MASTER_ADDR does not belong to this host",
        probe="ip -br addr; echo $MASTER_ADDR",
        fix="set MASTER_ADDR to an address of the host of rank 0, or start rank 0 on the host that has this address",
        link="https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization",
    ),
    Entry(
        id="port-in-use",
        title="Address already in use, EADDRINUSE",
        patterns=(
            r"Bind for \S+:(?P<port>\d+) failed: port is already allocated",
            r"server socket has failed to (?:listen on any local network address|listen on|bind to).*(?:port: |:)(?P<port>\d+)",
            r"distributed communication on port `(?P<port>\d+)`, but another process is utilizing it",
            r"\bEADDRINUSE\b",
            r"(?i)^(?!.*unix socket).*\baddress already in use\b",
            r"\bon \S+, port: (?P<port>\d+) already in use$",
            r"\bis trying to use a port number (?P<port>\d+) that is used by other components",
        ),
        cause="another process listens on port {port|29500, or the one that was chosen,} of this host: another job, a rank of an earlier run, or a second "
        "launcher. Or two ranks of this run take themselves for rank 0",
        probe="ss -ltnp[ 'sport = :{port}']",
        fix="choose a free port, or stop the process that `ss` shows. ddpkit chooses a free port for each run; "
        "accelerate: `--main_process_port`; torchrun: `--master-port=29511`, or `--standalone` on one node",
        action="retry",
        reason="a new run gets another port",
        scope="outside",
        link="https://github.com/pytorch/pytorch/issues/191560",
    ),
    Entry(
        id="sockets-forbidden",
        title="The client socket cannot be initialized to connect to localhost:29400 (errno: 1 - Operation not permitted)",
        patterns=(
            r"client socket cannot be initialized to connect to (?P<address>\S+) \((?:errno|system error): 1 - Operation not permitted",
            r"server socket has failed to (?:bind|listen)\b.*(?:errno: 1 - Operation not permitted|\bname: EPERM\b)",
        ),
        explains=("master-unreachable", "rendezvous-timeout", "no-node-is-host"),
        cause="this process may not open network connections[, here to {address}]. A sandbox, a container's seccomp profile or "
        "a rule of the firewall forbids them",
        probe='python -c \'import socket; s = socket.create_server(("localhost", 0)); '
        "socket.create_connection(s.getsockname()[:2])', started the same way",
        fix="run it outside of the sandbox, or allow it the network (docker: without --network none, "
        "--security-opt seccomp=unconfined)",
        link="https://docs.docker.com/engine/security/seccomp/",
    ),
    Entry(
        id="master-unreachable",
        title="The client socket has timed out while trying to connect",
        explains=(
            "no-node-is-host",
            "store-wait",
            "rendezvous-timeout",
        ),
        patterns=(
            r"client socket has timed out after \d+m?s while trying to connect to [\[(]?(?:(?=(?P<itself>localhost\b|127\.0\.0\.1|::1))|)(?P<host>[^\],\s()]+?)\]?(?:, |:)(?P<port>\w+)",
            r"client socket has failed to connect to (?:any network address of )?[\[(](?:::ffff:(?=\d+\.))?(?P<host>[^\],]+)[\],:]+ ?(?P<port>\d+)",
            r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - timed out",
            r"RuntimeError: connect\(\) timed out\.(?:$| Original timeout was \d+ ms)",
            r"RuntimeError: (?:Connection refused|No route to host|Network is unreachable|Connection timed out)$",
            r"client socket has failed to connect to any network address",
            r"client socket has failed to connect to \[(?:::ffff:(?=\d+\.))?(?P<host>[^\]]+)\]:(?P<port>\d+) \((?:errno: 1\d\d|system error: 100\d\d)",
        ),
        cause="[this is normal while {peers} start: torch tries again until its timeout. If it lasts, ]"
        "the address of rank 0[, {host}:{port},] does not answer. Rank 0 has not started, the address "
        "belongs to another machine or to a network that this node does not reach, or a firewall drops "
        "the packets",
        probe="on each node: nc -vz {host|$MASTER_ADDR} {port|$MASTER_PORT}[; getent hosts {itself}; pgrep -af torchrun]",
        fix="[wait until {peers} run. If it lasts: ]start rank 0's node. [{itself} is each node itself. ]Set MASTER_ADDR (torchrun: --rdzv-endpoint; on one machine: --standalone) to an address of that node that all nodes reach, and "
        "open port {port|29500} between the nodes",
        action="retry",
        reason="rank 0 was not reachable",
        link="https://github.com/pytorch/pytorch/issues/105782",
    ),
    Entry(
        id="nodelist-unexpanded",
        title="MASTER_ADDR is node[01-04]",
        explains=(
            "master-unreachable",
            "master-name-unknown",
            "no-node-is-host",
        ),
        patterns=(
            r"network addresses of \((?P<host>[\w-]+\[[\d,-]+\]), \d+\) cannot be retrieved",
            r"[Cc]ould not resolve hostname (?P<host>[\w-]+\[[\d,-]+\])",
            r"trying to connect to \((?P<host>[\w-]+\[[\d,-]+\]), \d+\)",
        ),
        cause="the script used SLURM's compressed node list {host} as a host name",
        probe="scontrol show hostnames $SLURM_JOB_NODELIST",
        fix="MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        link="https://slurm.schedmd.com/scontrol.html",
    ),
    Entry(
        id="master-port-zero",
        title="The client socket has timed out while trying to connect to (localhost, 0)",
        explains=("master-unreachable", "no-node-is-host", "store-wait", "rendezvous-timeout"),
        patterns=(r"connect to (?:any network address of )?[\[(]?(?P<host>[^\s,()\[\]]+?)\]?(?:, |:)0(?=\)|\.?$| \()",),
        cause="MASTER_PORT is 0, which is no port to connect to. `torchrun --rdzv-endpoint={host}:0` chooses a free port only "
        "with --rdzv-backend=c10d. The default backend passes 0 to the ranks",
        probe="in a rank: echo $MASTER_PORT",
        fix="on one node: `torchrun --standalone`. On several, name a free port: --rdzv-backend=c10d --rdzv-endpoint=HOST:29511, "
        "or --master-port=29511",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="master-address-bad",
        title="MASTER_ADDR is a path, a netmask, a number alone, or has a blank in it",
        explains=(
            "master-unreachable",
            "master-name-unknown",
            "no-node-is-host",
        ),
        patterns=(
            r"network addresses of \((?P<host>(?=[^,)]*[/\s])[^,)]*), \w+\) cannot be retrieved",
            r"network addresses of \((?P<host>\[[0-9a-fA-F:]+\]), \w+\) cannot be retrieved",
            r"(?:trying to|failed to) connect to (?:any network address of )?\((?P<host>\d+|0(?:\.\d+)+|[^,)]*[/\s][^,)]*), \d+\)",
            r"failed to connect to \[?(?:::ffff:)?(?P<host>0\.(?!0\.0\.0\b)[\d.]+|255\.[\d.]+)\]?:\d+",
        ),
        cause="`{host}` is no name or address of a host, and the ranks got it as MASTER_ADDR. It is a path "
        "or a netmask, has a blank or brackets in it, or is a number alone, which is read as an address such as 0.0.0.7",
        probe="in a rank: printf '[%s]\\n' \"$MASTER_ADDR\"",
        fix="set MASTER_ADDR to the name or IP address of rank 0's host alone, an IPv6 address without brackets. Correct the line that sets it, for "
        "example the field that awk or cut selects from a host file",
        link="https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization",
    ),
    Entry(
        id="master-name-unknown",
        title="The IPv6 network addresses of (HOST, PORT) cannot be retrieved (gai error: -2 or -3)",
        explains=(
            "master-unreachable",
            "no-node-is-host",
            "store-wait",
            "rendezvous-timeout",
            "second-master",
            "nccl-store-wait",
            "ranks-missing",
            "node-rank-missing",
        ),
        patterns=(
            r"network addresses of \((?P<host>[^,]+), (?P<port>\w+)\) cannot be retrieved \(gai error",
            r"socket\.gaierror: .*Name or service not known",
            r"socket\.gaierror: .*(?:Temporary failure in name resolution|nodename nor servname)",
            r"host not found: (?:Name or service|Temporary failure|No address|nodename)",
            r"failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - (?:Name or service|Temporary failure|No address|nodename)",
        ),
        cause="[this is normal while {peers} start: torch tries again until its timeout. If it lasts, ]this node cannot "
        "resolve the name {host|in MASTER_ADDR}",
        probe="on each node: getent hosts {host|$MASTER_ADDR}",
        fix="[wait until {peers} run. If it lasts: ]use an IP address for MASTER_ADDR, or add {host|the name} to DNS or to /etc/hosts on every node. On "
        "Kubernetes, the master's pod may not have started: wait for its service, or restart this pod",
        link="https://github.com/pytorch/pytorch/issues/73656",
    ),
    Entry(
        id="rendezvous-host-gone",
        title="The node has failed to shutdown the rendezvous; RendezvousConnectionError in the middle of a run",
        patterns=(
            r"has failed to (?:shutdown|close|send a keep-alive heartbeat to) the rendezvous '.*' due to an error of type Rendezvous",
            r"RendezvousConnectionError: The connection to the C10d store has failed",
        ),
        needs=r"in _call_store\b|has failed to (?:shutdown|close|send a keep-alive)",
        explains=(
            "no-node-is-host",
            "broken-pipe",
            "store-lost",
            "rendezvous-closed",
            "terminated",
        ),
        cause="the process that holds the rendezvous store has ended, while this torchrun still used it. Two "
        "jobs on one host share a rendezvous port, and the first one ended; or torchrun on the head node "
        "died",
        probe="on the head node: ss -tlnp; ps -ww -C python,torchrun -o args",
        fix="give each job its own port: `--rdzv-endpoint=localhost:29511`, or `torchrun --standalone` on one "
        "node. If the head node died, read its log",
        action="retry",
        reason="the host of the rendezvous ended",
        link="https://github.com/wenet-e2e/wespeaker/issues/171",
    ),
    Entry(
        id="no-node-is-host",
        title="RendezvousConnectionError: The connection to the C10d store has failed",
        patterns=(r"RendezvousConnectionError: The connection to the C10d store has failed",),
        cause="no node became the rendezvous host, or it does not answer this node. Either the head node is not running, or its host name does "
        "not resolve to the endpoint's address. Common reasons are a 127.0.1.1 line in /etc/hosts, a "
        "second network card, a wrong address, or NAT. From about 100 nodes on, too many connect at once",
        probe="on the head node: getent hosts $(hostname); on the others: nc -vz HEAD PORT",
        fix="add `--rdzv-conf=is_host=1 --local-addr=ADDRESS` on the head node only, or remove the 127.0.1.1 line from "
        "its /etc/hosts. For very many nodes: sysctl -w net.core.somaxconn=8192 there, and --rdzv-conf=read_timeout=600",
        link="https://github.com/pytorch/pytorch/issues/69197",
    ),
    Entry(
        id="node-rank-missing",
        title="wait timeout, keys: /none/torchelastic/role_info/0, after 15 silent minutes",
        patterns=(r"wait timeout after \d+ms, keys: \S*/torchelastic/role_info",),
        cause="some nodes did not join, or every node was started with node rank 0. Without `--node-rank`, each node "
        "waits at its own store",
        probe="on each node: ps -ww -C python,torchrun -o args | grep node.rank",
        fix="pass a different --node-rank (0 to N-1) on each node, or use `ddpkit launch -b ssh`. With --rdzv-endpoint, see the log of "
        "torchrun on each node: one ended or hangs after it had joined",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="rendezvous-id-random",
        title="config has no run_id, generated a random run_id; then RendezvousTimeoutError",
        needs=r"\bRendezvousTimeoutError\b",
        patterns=(r"config has no run_id, generated a random run_id: (?P<run>\S+)",),
        explains=("rendezvous-timeout",),
        cause="no --rdzv-id was passed, so torchrun on each node made up one of its own, here {run}. Nodes with different "
        "ids wait for each other in vain",
        probe="the same line in the logs of the other nodes: each shows another number",
        fix="pass the same --rdzv-id on every node, for example --rdzv-id=$SLURM_JOB_ID, with the same --rdzv-endpoint. "
        "With a random number, choose it once, and not on each node",
        link="https://github.com/ymcui/Chinese-LLaMA-Alpaca-2/issues/274",
    ),
    Entry(
        id="rendezvous-timeout",
        title="RendezvousTimeoutError, after 10 silent minutes",
        patterns=(
            r"\bRendezvousTimeoutError\b",
            r"timed out waiting for all \d+ members to join",
        ),
        cause="some nodes did not join the rendezvous in time. Their --rdzv-id or --rdzv-endpoint differ, a node did "
        "not start, or --nnodes is larger than the number of nodes",
        probe="on each node: ps -ww -C python,torchrun -o args",
        fix="start every node with the same --rdzv-id, --rdzv-endpoint and --nnodes",
        action="retry",
        reason="a node did not join in time",
        instead=(Instead(of=("no-failure", "slurm-cancelled", "slurm-time-limit"), reads="agents-wait"),),
        link="https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
    ),
    Entry(
        id="standalone-many-nodes",
        title="Each node runs alone, or waits alone, with --standalone",
        cause="--standalone creates a separate rendezvous on every node. It ignores --nnodes without a warning",
        probe="ps -ww -C python,torchrun -o args | grep standalone",
        fix="remove --standalone when you use more than one node",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="uneven-ranks",
        title="The world is smaller than requested, without a message",
        cause="the nodes were started with different --nproc-per-node. The static rendezvous accepts that",
        probe="on each node: ddpkit env",
        fix="use the same --nproc-per-node on every node",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="clock-skew",
        title="A run continues with fewer nodes, or each node runs alone, and the clocks differ",
        cause="the clocks of the nodes differ by more than 15 s. The c10d rendezvous then treats the other node as "
        "dead",
        probe="on each node: date +%s.%N",
        fix="run `chronyc makestep` or `timedatectl set-ntp true` on each node. Until then, use the static rendezvous",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/202",
    ),
    Entry(
        id="rank-not-set",
        title="environment variable RANK expected, but not set",
        patterns=(
            r"environment variable (?P<variable>[A-Z_]+) expected, but not set",
            r"rendezvous: (?P<variable>rank|world_size|world size) parameter missing",
            r"Could not find '(?P<variable>[A-Z_]+)' in the torch environment",
            r"(?P<variable>LOCAL_RANK) is not in the environment\. Consider passing fallback_rank",
        ),
        cause="{variable} is not set. The script was started without a launcher, or with a launcher that sets other "
        "variables (srun, mpirun)",
        probe="ddpkit env --explain, started the same way",
        fix="start it with torchrun (`torchrun --nproc-per-node 2 train.py`) or `ddpkit launch -n 2 -- "
        "train.py`. Under srun and mpirun, set the variables from SLURM_PROCID or OMPI_COMM_WORLD_RANK, "
        "or call ddpkit.distributed.torch.init()",
        link="https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization",
    ),
    Entry(
        id="no-libuv-in-torch",
        title="use_libuv was requested but PyTorch was built without libuv support",
        patterns=(r"\buse_libuv was requested but PyTorch was buil[dt] without libuv support",),
        explains=("no-node-is-host", "master-unreachable"),
        cause="the store of the ranks uses libuv by default, and this torch was built without it. Builds for Windows are",
        probe="python -c 'import torch; print(torch.__version__)'",
        fix="set USE_LIBUV=0 before the start. Where torchrun ignores it: start the ranks without torchrun, with "
        "init_method='tcp://127.0.0.1:29500?use_libuv=0'. Or run under Linux or WSL",
        link="https://docs.pytorch.org/tutorials/intermediate/TCPStore_libuv_backend.html",
    ),
    Entry(
        id="no-nccl-in-torch",
        title="Distributed package doesn't have NCCL built in",
        patterns=(r"Distributed package doesn't have (?P<backend>(?!MPI\b)\w+) built in",),
        branches=(
            ("linux", r"/(?:home|root|usr|opt|workspace|mnt|data)/\S+\.py\b"),
            ("other", r"\b[A-Z]:\\\w|/Users/\w+/|\bWinError\b"),
        ),
        cause="this node's torch was built without {backend}. {linux? Builds without NCCL are builds without CUDA. }"
        "{other? No build for Windows or macOS has NCCL. }",
        probe="python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        fix="{linux? on Linux, install a CUDA build of torch on this node: `pip install torch --index-url "
        "https://download.pytorch.org/whl/cu126`. }{other? on Windows and macOS, use backend "
        "gloo (Lightning: process_group_backend='gloo'). }",
        link="https://pytorch.org/get-started/locally/",
    ),
    Entry(
        id="script-missing",
        title="can't open file '...': [Errno 2] No such file or directory",
        patterns=(
            r"can't open file '?(?P<path>(?!(?:/\S*/)?[\u2013\u2014])[^':]+)'?: \[Errno 2\] No such file or directory",
            r"ddpkit: error: script (?P<path>\S+) not found",
        ),
        cause="{path} does not exist on this node, or in its container. The working directory differs there, or is not "
        "shared",
        probe="on that node: ls -l {path}",
        fix="copy the directory with `ddpkit launch --sync`, or pass the full path on a shared file system. In a "
        "container, mount its directory: --container-mounts DIR:DIR",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="child-failed",
        title="ChildFailedError, error_file: <N/A>, To enable traceback see: ...",
        kind="consequence",
        patterns=(
            r"\bChildFailedError\b",
            r"Worker group FAILED\. \d+/\d+ attempts left; will restart worker group",
            r"To enable traceback see: https://(?:docs\.)?pytorch\.org",
        ),
        cause="this is torchrun's summary. A rank failed[: {meaning}]. The reason is in the output of that rank",
        probe="torchrun --tee 3 --log-dir logs ..., then read stderr.log of the root cause",
        fix="read the output of the rank under `Root Cause`. Decorate main with "
        "`torch.distributed.elastic.multiprocessing.errors.record` to get the traceback in the summary",
        scope="launcher",
        link="https://docs.pytorch.org/docs/stable/elastic/errors.html",
    ),
    Entry(
        id="no-reverse-name",
        title="The hostname of the client socket cannot be retrieved. err=-3",
        kind="noise",
        patterns=(r"The hostname of the client socket cannot be retrieved",),
        cause="an address has no name in DNS. torch needs the name only for a log message",
        probe="getent hosts ADDRESS",
        fix="nothing to do. If start-up is slow, add the nodes to /etc/hosts",
        link="https://docs.pytorch.org/docs/stable/distributed.html#tcp-initialization",
    ),
    Entry(
        id="slow-name-look-ups",
        title="The hostname of the client socket cannot be retrieved. err=-3, again and again, with seconds between",
        kind="hint",
        cause="each connection waits about {number} s for a name server that does not answer. torch asks for the names of its "
        "peers, for log messages only. Nothing fails, but the start is slow",
        probe="time getent hosts ADDRESS, with the address of each node; cat /etc/resolv.conf",
        fix="add the addresses and names of all nodes to /etc/hosts on every node, or correct the name server",
        instead=(Instead(of=("no-failure",), reads="slow-names"),),
        link="https://github.com/pytorch/pytorch/issues/159007",
    ),
    Entry(
        id="rank-absent-static",
        title="rank is absent in RendezvousParameters",
        patterns=(r"rank is absent in RendezvousParameters",),
        cause="the static rendezvous needs a node rank, and none was passed",
        probe="ps -ww -C python -o args",
        fix="add --node-rank=N to torchrun",
        link="https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
    ),
    Entry(
        id="two-agents",
        # Of a port in use, the frames of its traceback and srun's tasks decide, too: see ddpkit.diagnosis.log_reader.
        title="failed to listen on any local network address, then RendezvousClosedError",
        needs=r"\bRendezvousClosedError\b",
        patterns=(r"server socket has failed to listen on any local network address",),
        explains=("rendezvous-closed", "port-in-use"),
        cause="two torchrun agents ran on one node: the second found the port in use, or a rendezvous that was full or closed",
        probe="ps -ww -C torchrun,python -o pid,ppid,args on each node",
        fix="start one torchrun per node: srun --ntasks-per-node=1 torchrun --nproc-per-node=GPUS. End agents of earlier "
        "runs",
        instead=(Instead(of=("port-in-use",), frames="/elastic/rendezvous/", reads="tasks-of-hosts"),),
        link="https://github.com/pytorch/pytorch/issues/116974",
    ),
    Entry(
        id="rendezvous-closed",
        title="RendezvousClosedError; RendezvousGracefulExitError",
        kind="consequence",
        patterns=(
            r"\bRendezvousClosedError\b",
            r"\bRendezvousGracefulExitError\b",
            r"[Tt]he rendezvous '\S+' is closed",
            r"AttributeError: 'NoneType' object has no attribute 'is_failed'",  # of torchrun, as it ends for that reason
        ),
        cause="another node closed this rendezvous before this node joined. The job had finished or failed there, or it began "
        "without this node, which came late",
        probe="the log of the node that ended first",
        fix="start all nodes again with a new --rdzv-id, and with --nnodes=N instead of MIN:MAX if all are needed. For late "
        "nodes: --rdzv-conf=last_call_timeout=600",
        action="retry",
        reason="a node joined after the rendezvous had closed",
        link="https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
    ),
    Entry(
        id="rendezvous-endpoint-bad",
        title="The hostname of the rendezvous endpoint must be a dot-separated list of labels",
        patterns=(
            r"of the rendezvous endpoint .*(?:must be|is invalid)",
            r"port number of the rendezvous endpoint",
            r"The rendezvous backend '\S*' is not registered",
        ),
        cause="the value of --rdzv-endpoint is not HOST:PORT",
        probe="ps -ww -C python,torchrun -o args",
        fix="pass --rdzv-endpoint=node1:29500, with an IPv6 address in brackets",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="nproc-bad",
        title="Cuda is not available; Unsupported nproc_per_node value",
        patterns=(
            r"Unsupported nproc_per_node value: (?P<value>\S+)",
            r"(?P<device>Cuda|Xpu|[a-z]pu) is not available\.$",
            r"error: argument --nproc[-_]per[-_]node: invalid int value: (?P<value>.*\S)",
        ),
        explains=("bad-arguments",),
        cause="[--nproc-per-node=gpu starts one process for each GPU, and torch sees none here ({device})]"
        "[the number of processes on this node, {value}, is no number. A variable is empty or holds more "
        "(SLURM_TASKS_PER_NODE can be `4(x2)`), or the arguments of the start script are in another order]",
        probe="nvidia-smi -L; bash -x of the start script, the line with --nproc-per-node",
        fix="pass a number: --nproc-per-node=4. Scripts such as dist_train.sh take CONFIG, then the number of GPUs, then "
        "the options",
        link="https://github.com/awslabs/sockeye/issues/1038",
    ),
    Entry(
        id="windows-socket-words",
        title="RuntimeError: unmatched '}' in format string, from init_process_group under Windows",
        needs=r"socket\.cpp|_create_c10d_store|init_process_group|TCPStore",
        patterns=(r"RuntimeError: unmatched '\}' in format string",),
        cause="torch 2.0 for Windows fails while it words its own error about a socket. It could not use rank 0's address and "
        "port",
        probe="python -c 'import torch; print(torch.__version__)'; netstat -ano | findstr :29500",
        fix="set MASTER_ADDR=127.0.0.1 and a free MASTER_PORT, use the backend gloo, and update torch. Or run it under Linux "
        "or WSL",
        link="https://github.com/meta-llama/llama/issues/347",
    ),
    Entry(
        id="launcher-arguments",
        title="torchrun: error: unrecognized arguments: --nproc-per-node=1",
        patterns=(
            r"\b(?P<launcher>torchrun|launch\.py|torch\.distributed\.run|accelerate <command>|deepspeed): error: unrecognized arguments: (?P<arguments>.*\S)",
            r"\b(?P<launcher>torchrun|launch\.py|torch\.distributed\.run|accelerate <command>|deepspeed): error: argument (?P<arguments>\S+): (?:expected|invalid)",
        ),
        explains=("bad-arguments", "local-rank-not-accepted"),
        cause="{launcher} itself, not the script, rejects {arguments}. It is misspelled, belongs after the script's name, or "
        "that name is missing. Or this version has another spelling: before torch 2.0, torchrun knows only underscores "
        "(--nproc_per_node)",
        probe="{launcher} --help; python -c 'import torch; print(torch.__version__)'",
        fix="first the launcher's options, then the script, then the script's options. With an old torch, write "
        "--nproc_per_node and --node_rank",
        link="https://github.com/huggingface/pytorch-image-models/issues/1742",
    ),
    Entry(
        id="etcd-rendezvous",
        title="etcd.EtcdKeyNotFound: Key not found : /torch/elastic/store; EtcdConnectionFailed",
        patterns=(
            r"\bEtcdKeyNotFound\b: (?P<reason>.*\S)",
            r"\betcd\.Etcd(?:ConnectionFailed|Exception): (?P<reason>.*\S)",
            r"No module named 'etcd'",
            r"'etcd' module is required but not installed",
            r"The connection to etcd has failed",
        ),
        explains=("module-missing",),
        cause="the rendezvous backend etcd does not work[: {reason}]. The etcd server does not answer or speaks only its "
        "API v3, python-etcd is missing, or this torch has a fault in that backend. torch no longer maintains it",
        probe="curl http://ETCD_HOST:2379/version; pip show python-etcd",
        fix="use the backend c10d, which needs no server: --rdzv-backend=c10d --rdzv-endpoint=HEAD:29500. Otherwise pip "
        "install python-etcd, and start etcd with --enable-v2",
        link="https://github.com/pytorch/pytorch/issues/132950",
    ),
    Entry(
        id="torchrun-value-bad",
        title='nnodes=two is not in "MIN:MAX" format; The run id must be a non-empty string',
        patterns=(
            r"nnodes=(?P<value>.*) is not in \"MIN:MAX\" format",
            r"The (?P<option>run id) must be a non-empty string",
            r"rendezvous configuration option '(?P<option>\w+)' does not represent a valid",
            r"rendezvous configuration option '(?P<option>\w+)' must have a value",
            r"The (?P<option>rendezvous configuration) string must be in format",
            r"The minimum number of (?:rendezvous )?nodes \((?P<option>min_nodes)\) must be greater than zero",
            r"maximum number of (?:rendezvous )?nodes \((?P<option>max_nodes)\) must be greater than or equal",
            r"(?P<option>min_nodes) must be > 0 and <= max_nodes",
            r"port is missing in endpoint: (?P<value>\S+)\. Try to specify --master-port",
            r"Port is absent in endpoint: (?P<value>\S+)\. Try launching with --master[-_]port",
            r"\bport must have value from 0 to 65535 but was (?P<value>\d+)",
        ),
        cause="torchrun does not accept the value of an option[: {option}][: {value}]. Often a variable of the job script is "
        "empty, unset or misspelled",
        probe="bash -x of the job script shows the values; env | grep -E 'SLURM|MASTER|NODE'",
        fix="--nnodes=2 or --nnodes=1:4, --rdzv-id=$SLURM_JOB_ID, --rdzv-endpoint=HOST:29500, --rdzv-conf=timeout=900, and "
        "a port below 65536",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="master-leads-elsewhere",
        title="The server socket on [...]:40613 has timed out, will retry, and: the client socket has timed out ... (HOST, 40613)",
        needs=r"server socket on \S+:(?P=port) has timed out, will retry",
        patterns=(
            r"client socket has timed out after \d+m?s while trying to connect to [\[(]?(?P<host>[^\],\s()]+?)\]?(?:, |:)(?P<port>\d+)",
        ),
        explains=("master-unreachable", "no-node-is-host", "store-wait"),
        cause="rank 0 listens on port {port}, and a client that uses the name {host} does not reach it. On one machine, that name leads "
        "to a wrong address: a public one, one of a VPN, or that of an old entry. With several, a firewall can drop packets",
        probe="getent hosts {host}; ip -br addr; nc -vz {host} {port}",
        fix="on one machine, name no host: MASTER_ADDR=127.0.0.1 (torchrun: --standalone). With several, use an address that `ip -br addr` "
        "shows on rank 0's host, and open port {port} between them",
        link="https://github.com/ModelTC/LightCompress/issues/365",
    ),
)
