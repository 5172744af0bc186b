"""Names, interfaces, ports and firewalls."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

# Addresses that docker's and podman's bridges have by default.
_BRIDGE = r"(?P<peer>(?:172\.(?:1[7-9]|2\d|3[01])|10\.88)\.0\.\d+)"

# Addresses that are valid on one link only, as those of a cloud's metadata service or of a BMC.
_LINK_LOCAL = r"(?P<peer>169\.254\.\d+\.\d+|fe80:[\w:%.-]+)"

ENTRIES = (
    Entry(
        id="loopback-fallback",
        title="Unable to resolve hostname to a (local) address. Using the loopback address as fallback",
        kind="hint",
        overcome_by=r"is connected to (\d+) peer ranks\. Expected number of connected peer ranks is : \1\b",
        patterns=(r"Unable to resolve hostname to a \(local\) address",),
        explains=(
            "firewall-drop",
            "firewall-reject",
            "gloo-timeout",
            "name-is-loopback",
            "peer-died",
        ),
        context=r"(?P<ray>\bRay)(?:Worker|Task|Distributed|Executor)\w*",
        cause="gloo could not resolve this host's own name, and uses 127.0.0.1. Ranks on other hosts cannot reach that",
        probe="on each node: getent hosts $(hostname)",
        fix="export GLOO_SOCKET_IFNAME=eth0, or the interface that `ip -o route get` shows for rank 0's "
        "address[. With {ray}, set it before `ray start` on each node]. Or add the host's name to /etc/hosts",
        link="https://github.com/pytorch/pytorch/pull/26166",
    ),
    Entry(
        id="name-is-loopback",
        title="Gloo connectFullMesh failed ... remote=[127.0.1.1]",
        patterns=(
            r"connectFullMesh failed.*remote=\[127\.",
            r"SO_ERROR: Connection refused, remote=\[127\.",
            r"connect \[127\.[\d.]+\]:\d+: Connection refused",
        ),
        cause="the host's own name resolves to a loopback address. Its /etc/hosts has 127.0.1.1 for it, or "
        "no other address, as under hostNetwork. Then gloo publishes that address, and other hosts cannot reach it",
        probe="on each node: getent hosts $(hostname)",
        fix="export GLOO_SOCKET_IFNAME=eth0 with the interface that `ip -o route get ADDRESS` shows for another host. Or "
        "give the name the host's own address in /etc/hosts",
        link="https://github.com/sgl-project/sglang/issues/3226",
    ),
    Entry(
        id="nccl-interface-missing",
        title="no socket interface found, and: connecting to address with family N is neither AF_INET(2) nor AF_INET6(10)",
        explains=("nccl-error", "nccl-warning", "nccl-remote", "nccl-no-interface"),
        patterns=(r"connecting to address\s.*with family \d+ is neither AF_INET",),
        needs=r"no socket interface found|NET/Socket : no (?:usable )?interface",
        cause="NCCL got an empty address of a rank. A host has no interface with the name in NCCL_SOCKET_IFNAME, or the "
        "interface has no address",
        probe="on each host: echo $NCCL_SOCKET_IFNAME; ip -br address",
        fix="set NCCL_SOCKET_IFNAME to an interface that each host has and that has an address, or unset it",
        link="https://github.com/NVIDIA/nccl/issues/1837",
    ),
    Entry(
        id="nccl-wrong-interface",
        title="NCCL INFO NET/Socket : Using [0]docker0",
        kind="hint",
        explains=(
            "collective-timeout",
            "nccl-error",
            "firewall-drop",
            "nccl-store-wait",
            "nccl-remote",
            "firewall-reject",
        ),
        patterns=(
            r"NET/Socket ?: Using \[0\](?P<interface>(?:docker|veth|br-|virbr|cni|flannel|cali|tailscale|wg)[\w.-]*)",
            r"Bootstrap ?: Using (?:\[0\])?(?P<interface>(?:docker|veth|br-|virbr|cni|flannel|cali|tailscale|wg)[\w.-]*):",
        ),
        cause="NCCL uses {interface}, an interface that other hosts cannot reach",
        probe="ip -br addr",
        fix="export NCCL_SOCKET_IFNAME==INTERFACE with the interface that has the route to the other nodes. `ip route "
        "get HOST` shows it. Or exclude some: NCCL_SOCKET_IFNAME=^lo,docker",
        link="https://github.com/NVIDIA/nccl/issues/913",
    ),
    Entry(
        id="nccl-uses-loopback",
        title="NCCL INFO Bootstrap : Using lo:127.0.0.1<0>, on several hosts",
        kind="hint",
        hosts=2,
        explains=(
            "firewall-reject",
            "nccl-loopback",
            "nccl-store-wait",
            "nccl-remote",
            "nccl-error",
            "nccl-warning",
            "collective-timeout",
        ),
        patterns=(
            r"NET/Socket ?: Using (?:\[\d+\][\w.]+:\S+ )*\[\d+\](?P<interface>lo):127\.",
            r"Bootstrap ?: Using (?:\[0\])?(?P<interface>lo):127\.",
            r"NET ?: Using interface (?P<interface>lo):127\.",
        ),
        cause="NCCL uses the loopback interface {interface}, and the ranks run on several hosts. 127.0.0.1 of one host cannot "
        "be reached from another",
        probe="echo $NCCL_SOCKET_IFNAME; cat /etc/nccl.conf ~/.nccl.conf; ip -br addr",
        fix="unset NCCL_SOCKET_IFNAME, or set it to the interface that has the route to the other nodes, for example eth0. "
        "`ip route get HOST` shows it. To exclude some: NCCL_SOCKET_IFNAME=^lo,docker",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    ),
    Entry(
        id="firewall-reject",
        title="NCCL: connect to ... failed: No route to host",
        patterns=(
            r"[Cc]onnect(?: to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)>)? returned .*No route to host",
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)> failed : Software caused connection abort",
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)> failed : (?:No route|Connection timed out)",
            r"[Cc]onnect(?: to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)>)? returned Connection (?:timed out|refused)",
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)> failed ?: (?:Connection refused|Network is unreachable|Host is)",
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)>.* exceeded error retry count",
            r"\bncclOsSocketPollConnect\b.*failed with error (?P<reason>.*)",
            r"[Cc]onnect to (?P<peer>[\d.a-f:]+)<(?P<port>\d+)> returned \d+\(",
            r"SO_ERROR: (?:No route to host|Network is unreachable), remote=\[(?P<peer>[^\]]+)\]",
            r"\boptval == 0\. \d+ vs 0\. SO_ERROR: (?:No route to host|Network is unreachable|Connection refused|Connection timed out)$",
            r"connect \[(?P<peer>[\w.:]+)\]:(?P<port>\d+): (?:Connection refused|No route to host|Connection timed out)",
            r"Call to connect (?:timeout|failed) : (?P<reason>.*)",
        ),
        context=r"(?:torch\.distributed|dist)\.(?P<call>new_group)\(",
        explains=("nccl-warning", "nccl-error", "aborted"),
        cause="this node cannot connect to a dynamic port of NCCL or gloo[ on {peer}]. Where it is refused, the process there has "
        "ended, often with the first failure. [Or the ranks call {call} for different groups at once. ]Otherwise a firewall rejects it, or the address has no route",
        probe="on {peer|the other node}: sudo nft list ruleset (or: sudo ufw status; sudo firewall-cmd --list-all)",
        fix="read the end of the log of {peer|the other node} first. [Call {call} on all ranks for every group, in one order. ]For a firewall, open all ports between the nodes: `sudo ufw allow from SUBNET` on each. If the interface is wrong, export "
        "NCCL_SOCKET_IFNAME",
        link="https://github.com/NVIDIA/nccl-tests/issues/162",
    ),
    Entry(
        id="firewall-drop",
        title="Gloo connectFullMesh failed ... Connect timeout",
        kind="generic",
        patterns=(
            r"connectFullMesh failed",
            r"\bgloo\b.*(?:Connect timeout|timed out connecting)",
        ),
        cause="a rank could not connect to another rank's port. A firewall drops packets, the interface is wrong, or "
        "the other rank has ended",
        probe="on the other node: nc -l PORT, with a free port above 1024; on this one: nc -vz OTHER PORT",
        fix="open all ports between the nodes, or export GLOO_SOCKET_IFNAME=INTERFACE. `ddpkit test` shows the cause",
        link="https://github.com/NVIDIA/Megatron-LM/issues/877",
    ),
    Entry(
        id="nccl-versions-in-bootstrap",
        title="ncclSocketInit: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)",
        patterns=(r"connecting to address\s.*with family \d+ is neither AF_INET",),
        explains=("nccl-error", "nccl-warning", "nccl-remote"),
        cause="the ranks load different versions of NCCL, or of its network plugin. Their start-up messages have different "
        "forms, so an address is not read correctly. With equal versions: the interface of a rank has no address",
        probe="on each node: python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; "
        "echo $LD_LIBRARY_PATH",
        fix="install the same torch and NCCL on all nodes, and unset LD_LIBRARY_PATH. If they are equal: set "
        "NCCL_SOCKET_IFNAME to an interface with an address, and NCCL_SOCKET_FAMILY=AF_INET",
        link="https://github.com/NVIDIA/nccl/issues/1267",
    ),
    Entry(
        id="nccl-network-differs",
        title="NCCL INFO Using network Socket on one node, Using network IB on another",
        kind="hint",
        needs=r"Using network (?:IB|IBext\w*|AWS Libfabric|UCX)\b",
        patterns=(r"Using network Socket\b",),
        explains=("nccl-foreign-connection", "nccl-warning", "nccl-error", "nccl-remote", "collective-timeout"),
        cause="the ranks chose different networks for NCCL: some found InfiniBand or a plugin, others use sockets. They "
        "cannot connect to each other",
        probe="on each node: ibv_devinfo | grep -E 'hca_id|state'; in the log: grep 'NET/' of each host",
        fix="repair InfiniBand on the nodes that use sockets (driver, libibverbs, devices in the container). Or use "
        "sockets on all nodes: NCCL_IB_DISABLE=1 and NCCL_NET=Socket",
        link="https://github.com/NVIDIA/nccl-tests/issues/188",
    ),
    Entry(
        id="nccl-plugin-differs",
        title="NCCL INFO Using network IB on one node, Using network IBext_v8 on another",
        kind="hint",
        needs=r"Using network IBext",
        patterns=(r"Using network IB$",),
        explains=("nccl-foreign-connection", "nccl-warning", "nccl-error", "nccl-remote", "collective-timeout"),
        cause="some nodes load the network plugin of NVIDIA (libnccl-net.so, IBext), others use NCCL's own code for InfiniBand. The two "
        "cannot connect to each other, and the job hangs without an error",
        probe="on each node: grep 'Plugin Path' of its log; ls /opt/hpcx/nccl_rdma_sharp_plugin/lib; echo $LD_LIBRARY_PATH",
        fix="install the plugin on all nodes (HPC-X, the same version), or use it on none: NCCL_NET_PLUGIN=none in the environment of all "
        "ranks",
        link="https://github.com/NVIDIA/nccl/issues/1634",
    ),
    Entry(
        id="nccl-foreign-connection",
        title="NCCL WARN socketFinalizeAccept: wrong type 4 != 3; wrong magic",
        patterns=(r"\bsocketFinalizeAccept: wrong (?:type|magic)",),
        explains=(
            "nccl-warning",
            "nccl-proxy-lost",
            "nccl-remote",
        ),
        cause="a connection that is not of this communicator reached a port of NCCL. It came from a port scanner, from "
        "another job on the same hosts, or from a rank with another NCCL version",
        probe="on each node: python -c 'import torch; print(torch.cuda.nccl.version())'; ss -tnp",
        fix="install the same NCCL on all nodes, keep scanners and other jobs off the nodes' ports, and update NCCL",
        link="https://github.com/NVIDIA/nccl-tests/issues/188",
    ),
    Entry(
        id="address-family",
        title="Address family not supported by protocol",
        patterns=(r"Address family not supported by protocol",),
        cause="one node uses IPv6 and another IPv4, IPv6 is disabled in the kernel, or the NCCL versions differ",
        probe="on each node: cat /proc/sys/net/ipv6/conf/all/disable_ipv6; getent ahosts MASTER",
        fix="export NCCL_SOCKET_FAMILY=AF_INET, and set MASTER_ADDR to an IPv4 address",
        link="https://github.com/NVIDIA/nccl/issues/210",
    ),
    Entry(
        id="gloo-address-families",
        title="enforce fail at gloo/transport/tcp/device.cc: ss1.ss_family == ss2.ss_family. 2 vs 10",
        patterns=(r"\bss1\.ss_family == ss2\.ss_family\. \d+ vs \d+",),
        explains=("address-family",),
        cause="gloo got an IPv4 address (2) of one rank and an IPv6 address (10) of another. It uses the address to which "
        "the host's own name resolves, or that of GLOO_SOCKET_IFNAME, and the hosts differ there",
        probe="on each node: getent ahosts $(hostname); echo $GLOO_SOCKET_IFNAME; ip -br addr",
        fix="export GLOO_SOCKET_IFNAME=eth0, or the name of the interface that has an IPv4 address on each host. Or write "
        "the host's name with its IPv4 address into /etc/hosts",
        link="https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    Entry(
        id="nccl-loopback",
        title="NCCL WARN socketStartConnect: Connect to 127.0.0.1<41087> failed : Connection refused",
        patterns=(
            r"[Cc]onnect to (?P<peer>127\.[\d.]+|::1)<\d+> failed ?: Connection (?:refused|timed out)",
            r"[Cc]onnect to (?P<peer>127\.[\d.]+|::1)<\d+> returned .*Connection (?:refused|timed out)",
        ),
        explains=("firewall-reject", "nccl-warning", "nccl-error"),
        cause="a rank published the loopback address {peer|127.0.0.1}, and other hosts cannot connect to it. Its "
        "NCCL_SOCKET_IFNAME is lo, or its host has no other interface. If all ranks run on one host, the rank there has "
        "ended",
        probe="on each node: echo $NCCL_SOCKET_IFNAME; ip -br addr",
        fix="unset NCCL_SOCKET_IFNAME, or set it to the interface that has the route to the other nodes. `ip route get "
        "HOST` shows it",
        link="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    ),
    Entry(
        id="container-bridge",
        title="Connect to 172.17.0.2<38021> failed; other nodes try to reach 172.17.0.x",
        patterns=(
            rf"[Cc]onnect to {_BRIDGE}<\d+> failed",
            rf"[Cc]onnect to {_BRIDGE}<\d+> returned",
            rf"SO_ERROR: .*, remote=\[{_BRIDGE}\]",
            r"timed out after \d+\w* while trying to connect to \((?P<peer>172\.17\.0\.\d+), \d+\)",
            rf"connect \[{_BRIDGE}\]:\d+: (?:Connection refused|No route to host|Connection timed out)",
        ),
        explains=("firewall-reject", "firewall-drop", "nccl-warning", "nccl-error", "master-unreachable"),
        cause="a rank in a container published[ {peer},] an address of the container engine's bridge. Other "
        "hosts cannot reach it",
        probe="in the container: ip -br addr; on its host: docker network inspect bridge",
        fix="start the container with --network=host --ipc=host. If it is an address of your own network, open all ports "
        "between the nodes",
        link="https://github.com/vllm-project/vllm/issues/19670",
    ),
    Entry(
        id="link-local-address",
        title="socketStartConnect: Connect to 169.254.255.18<42219> failed : Software caused connection abort",
        patterns=(
            rf"[Cc]onnect to {_LINK_LOCAL}<\d+> failed",
            rf"[Cc]onnect to {_LINK_LOCAL}<\d+> returned",
            rf"SO_ERROR: .*, remote=\[{_LINK_LOCAL}\]",
            rf"connect \[{_LINK_LOCAL}\]:\d+: (?:Connection refused|No route to host|Connection timed out)",
        ),
        explains=("firewall-reject", "firewall-drop", "nccl-warning", "nccl-error"),
        cause="a rank published {peer}, a link-local address that other hosts cannot reach. NCCL or gloo chose a wrong "
        "interface there: that of a metadata service, of a BMC, or of a container network",
        probe="on each node: ip -br address; ip route get OTHER_NODE; echo $NCCL_SOCKET_IFNAME $GLOO_SOCKET_IFNAME",
        fix="export NCCL_SOCKET_IFNAME=eth0 GLOO_SOCKET_IFNAME=eth0 on all nodes (on SageMaker, too), with the interface "
        "that `ip route get OTHER_NODE` shows",
        link="https://github.com/verl-project/verl/issues/726",
    ),
    Entry(
        id="mesh-too-wide",
        title="Gloo connectFullMesh fails with about 60 nodes or more",
        cause="a limit is too small for a full mesh: open files, somaxconn, or the firewall's connection table",
        probe="ulimit -n; sysctl net.core.somaxconn net.netfilter.nf_conntrack_max",
        fix="ulimit -n 65536; sysctl -w net.core.somaxconn=4096",
        link="https://github.com/NVIDIA/Megatron-LM/issues/877",
    ),
    Entry(
        id="connection-timed-out",
        title="NCCL WARN Net : Call to recv from 10.0.0.2<41468> failed : Connection timed out",
        patterns=(
            r"Call to \w+ (?:from|to) (?P<peer>[^\s<]+)<\d+> failed : Connection timed out",
            r"Read error \[(?P<peer>[^\]]+)\]:\d+: Connection timed out",
        ),
        explains=("nccl-warning", "nccl-error", "nccl-remote", "peer-died"),
        cause="a connection to {peer} that had worked got no answer any more. That node or its network is down, or a firewall "
        "or NAT between the nodes drops connections that are idle",
        probe="ping -c 3 {peer}; on both nodes: dmesg -T | tail -50; nstat -az | grep -i retrans",
        fix="restore the node or its link. If both are up, exempt the nodes from the firewall and conntrack between them, or "
        "lower net.ipv4.tcp_keepalive_time on both",
        action="retry",
        reason="a connection to another node was lost",
        link="https://github.com/NVIDIA/nccl/issues/706",
    ),
    Entry(
        id="conntrack-full",
        kind="hint",
        title="nf_conntrack: table full, dropping packet",
        patterns=(r"\bnf_conntrack: table full, dropping packet",),
        explains=(
            "connection-timed-out",
            "firewall-drop",
            "rendezvous-timeout",
            "store-wait",
            "master-unreachable",
            "nccl-remote",
        ),
        cause="the kernel's table of connections is full on this node, and its firewall drops packets of new ones. Containers, "
        "kube-proxy and many data connections fill it",
        probe="on that node: sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
        fix="as administrator: sysctl -w net.netfilter.nf_conntrack_max=1048576, or no connection tracking between the nodes (iptables -t raw "
        "... -j NOTRACK). In containers: --network=host",
        link="https://docs.kernel.org/networking/nf_conntrack-sysctl.html",
    ),
)
