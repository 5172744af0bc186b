"""Ranks that do not find each other: rendezvous, stores, torchrun's own options."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="port-in-use",
        title="Address already in use, EADDRINUSE",
        patterns=(
            r"server socket has failed to (?:listen on any local network address|bind to).*(?:port: |:)(?P<port>\d+)",
            r"\bEADDRINUSE\b",
            r"(?i)\baddress already in use\b",
        ),
        cause="another process listens on port {port} of this host: another job, a rank left over from an earlier run, "
        "or a second launcher",
        probe="ss -ltnp 'sport = :{port}'",
        fix="take a free port (ddpkit chooses one for each run; torchrun: --master-port=PORT), or end the process that "
        "ss names",
        link="https://github.com/pytorch/pytorch/issues/191560",
    ),
    Entry(
        id="master-unreachable",
        title="The client socket has timed out while trying to connect",
        patterns=(
            r"client socket has timed out after \d+m?s while trying to connect to \((?P<host>[^,]+), (?P<port>\d+)\)",
            r"client socket has failed to connect to (?:any network address of )?[\[(](?P<host>[^\],]+)[\],:]+ ?(?P<port>\d+)",
            r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - timed out",
        ),
        cause="nobody answers at {host}:{port}, rank 0's address: rank 0 has not started, the address is another "
        "machine's, or a firewall drops the packets",
        probe="on each node: nc -vz {host} {port}",
        fix="start rank 0's node; set MASTER_ADDR to an address of it that the others reach; open port {port}",
        link="https://github.com/pytorch/pytorch/issues/105782",
    ),
    Entry(
        id="nodelist-unexpanded",
        title="MASTER_ADDR is node[01-04]",
        patterns=(
            r"network addresses of \((?P<host>[\w-]+\[[\d,-]+\]), \d+\) cannot be retrieved",
            r"[Cc]ould not resolve hostname (?P<host>[\w-]+\[[\d,-]+\])",
        ),
        cause="the script took SLURM's compressed list {host} for a name",
        probe="scontrol show hostnames $SLURM_JOB_NODELIST",
        fix="MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        link="https://slurm.schedmd.com/scontrol.html",
    ),
    Entry(
        id="master-name-unknown",
        title="The IPv6 network addresses of (HOST, PORT) cannot be retrieved (gai error: -2 or -3)",
        patterns=(
            r"network addresses of \((?P<host>[^,]+), (?P<port>\d+)\) cannot be retrieved \(gai error",
            r"socket\.gaierror: .*Name or service not known",
            r"socket\.gaierror: .*(?:Temporary failure in name resolution|nodename nor servname)",
        ),
        cause="this node cannot resolve the name {host}. The error at the end says only that it timed out",
        probe="on each node: getent hosts {host}",
        fix="give MASTER_ADDR as an IP address, or put {host} into DNS or /etc/hosts of every node",
        link="https://github.com/pytorch/pytorch/issues/73656",
    ),
    Entry(
        id="no-node-is-host",
        title="RendezvousConnectionError: The connection to the C10d store has failed",
        patterns=(r"RendezvousConnectionError: The connection to the C10d store has failed",),
        cause="no node takes itself for the rendezvous host: the endpoint is not an address that the head's own host "
        "name means (a 127.0.1.1 line in /etc/hosts, a second network card, an address behind NAT), or the head is "
        "not running",
        probe="on the head: getent hosts $(hostname)",
        fix="on the head only: --rdzv-conf=is_host=1 --local-addr=ITS_ADDRESS; or take the 127.0.1.1 line away",
        link="https://github.com/pytorch/pytorch/issues/69197",
    ),
    Entry(
        id="node-rank-missing",
        title="wait timeout, keys: /none/torchelastic/role_info/0, after 15 silent minutes",
        patterns=(r"wait timeout after \d+ms, keys: \S*/torchelastic/role_info",),
        cause="nodes did not all come, or each was started with node rank 0: --node-rank was forgotten, and each waits "
        "at a store of its own",
        probe="on each node: ps -ww -C python,torchrun -o args | grep node.rank",
        fix="give each node its own --node-rank (0 to N-1), or let ddpkit launch -b ssh do it",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="rendezvous-timeout",
        title="RendezvousTimeoutError, after 10 silent minutes",
        patterns=(r"\bRendezvousTimeoutError\b",),
        cause="not all nodes joined the same rendezvous in time: their --rdzv-id or --rdzv-endpoint differ, one node "
        "did not start, or --nnodes is larger than the number of nodes",
        probe="on each node: ps -ww -C python,torchrun -o args",
        fix="start every node with the same --rdzv-id, --rdzv-endpoint and --nnodes",
        link="https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
    ),
    Entry(
        id="standalone-many-nodes",
        title="Each node runs alone, or waits alone, with --standalone",
        cause="--standalone makes a rendezvous of its own on every node, whatever --nnodes says, without a warning",
        probe="ps -ww -C python,torchrun -o args | grep standalone",
        fix="leave --standalone out where there is more than one node",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="uneven-ranks",
        title="The world is smaller than asked for, and nothing says so",
        cause="nodes were started with different --nproc-per-node, which the static rendezvous accepts",
        probe="ddpkit env, on each node",
        fix="give --nproc-per-node the same number on every node",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="clock-skew",
        title="A run of several nodes goes on with fewer, or each node is alone, and the clocks differ",
        cause="the nodes' clocks are more than 15 s apart: the c10d rendezvous takes the other node for dead",
        probe="date +%s.%N on each node",
        fix="on each node: chronyc makestep (or timedatectl set-ntp true); until then the static rendezvous",
        link="https://github.com/awslabs/awsome-distributed-ai/issues/202",
    ),
    Entry(
        id="rank-not-set",
        title="environment variable RANK expected, but not set",
        patterns=(r"environment variable (?P<variable>[A-Z_]+) expected, but not set",),
        cause="the script was started without a launcher, or by one that sets other variables (srun, mpirun): "
        "{variable} is missing",
        probe="ddpkit env --explain, started the same way",
        fix="ddpkit launch -n 2 -- train.py, or call ddpkit.distributed.torch.init() in place of init_process_group",
        link="https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization",
    ),
    Entry(
        id="no-nccl-in-torch",
        title="Distributed package doesn't have NCCL built in",
        patterns=(r"Distributed package doesn't have (?P<backend>\w+) built in",),
        cause="this node's torch was built without {backend}; without NCCL it is a build without CUDA, or for macOS or Windows",
        probe="python -c 'import torch; print(torch.__version__, torch.version.cuda)'",
        fix="install torch's CUDA build there: pip install torch --index-url https://download.pytorch.org/whl/cu126",
        link="https://pytorch.org/get-started/locally/",
    ),
    Entry(
        id="script-missing",
        title="can't open file '...': [Errno 2] No such file or directory",
        patterns=(r"can't open file '?(?P<path>[^':]+)'?: \[Errno 2\] No such file or directory",),
        cause="{path} is not there on this node: the working folder is another, or is not shared",
        probe="on that node: ls -l {path}",
        fix="copy it (ddpkit launch --sync), or give its full path on a shared file system",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="child-failed",
        title="ChildFailedError, error_file: <N/A>, To enable traceback see: ...",
        kind="consequence",
        patterns=(
            r"\bChildFailedError\b",
            r"To enable traceback see: https://(?:docs\.)?pytorch\.org",
        ),
        cause="torchrun's summary: a rank failed, and its reason is in that rank's own output, not here",
        probe="torchrun --tee 3 --log-dir logs ..., then read the root cause's stderr.log",
        fix="read the lines of the rank named under `Root Cause`; decorate main with "
        "torch.distributed.elastic.multiprocessing.errors.record, so that the summary has the traceback",
        link="https://docs.pytorch.org/docs/stable/elastic/errors.html",
    ),
    Entry(
        id="no-reverse-name",
        title="The hostname of the client socket cannot be retrieved. err=-3",
        kind="noise",
        patterns=(r"The hostname of the client socket cannot be retrieved",),
        cause="an address has no name in DNS; torch only wanted to print it",
        probe="getent hosts ADDRESS",
        fix="nothing; where it is slow, add the nodes to /etc/hosts",
        link="https://docs.pytorch.org/docs/stable/distributed.html#tcp-initialization",
    ),
    Entry(
        id="rank-absent-static",
        title="rank is absent in RendezvousParameters",
        patterns=(r"rank is absent in RendezvousParameters",),
        cause="the static rendezvous was asked for without a node rank",
        probe="ps -ww -C python -o args",
        fix="add --node-rank=N to torchrun",
        link="https://docs.pytorch.org/docs/stable/elastic/rendezvous.html",
    ),
    Entry(
        id="rendezvous-closed",
        title="RendezvousClosedError; RendezvousGracefulExitError",
        kind="consequence",
        patterns=(
            r"\bRendezvousClosedError\b",
            r"\bRendezvousGracefulExitError\b",
            r"[Tt]he rendezvous '\S+' is closed",
        ),
        cause="another node has ended this rendezvous: the job was over there, or had failed, when this node joined",
        probe="the log of the node that ended first",
        fix="start all nodes again, with a new --rdzv-id",
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
        cause="--rdzv-endpoint is not HOST:PORT",
        probe="ps -ww -C python,torchrun -o args",
        fix="--rdzv-endpoint=HOST:29500; an IPv6 address in brackets",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
    Entry(
        id="nproc-bad",
        title="Cuda is not available; Unsupported nproc_per_node value",
        patterns=(
            r"Unsupported nproc_per_node value: (?P<value>\S+)",
            r"Cuda is not available\.$",
        ),
        cause="--nproc-per-node=gpu was given on a node without a visible GPU, or its value is no number",
        probe="nvidia-smi -L",
        fix="--nproc-per-node=N",
        link="https://docs.pytorch.org/docs/stable/elastic/run.html",
    ),
)
