"""Names, interfaces, ports and firewalls."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="name-is-loopback",
        title="Gloo connectFullMesh failed ... remote=[127.0.1.1]",
        patterns=(r"connectFullMesh failed.*remote=\[127\.", r"SO_ERROR: Connection refused, remote=\[127\."),
        cause="a host's own name means 127.0.1.1 in its /etc/hosts, gloo publishes that address, and others cannot "
        "reach it",
        probe="on each node: getent hosts $(hostname)",
        fix="export GLOO_SOCKET_IFNAME=INTERFACE (ip -o route get MASTER names it), or take the 127.0.1.1 line out of "
        "/etc/hosts",
        link="https://github.com/sgl-project/sglang/issues/3226",
        examples=(
            (
                "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:152] "
                "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:12202$1",
                "torch 2.13, run",
            ),
        ),
    ),
    Entry(
        id="nccl-wrong-interface",
        title="NCCL INFO NET/Socket : Using [0]docker0",
        kind="hint",
        patterns=(
            r"NET/Socket ?: Using \[0\](?P<interface>(?:docker|veth|br-|virbr|cni|flannel|cali|tailscale|wg|lo\b)[\w.-]*)",
            r"Bootstrap ?: Using (?P<interface>(?:docker|veth|br-|virbr|cni|flannel|cali|tailscale|wg|lo\b)[\w.-]*):",
        ),
        cause="NCCL talks through {interface}, a virtual interface that other hosts cannot reach",
        probe="ip -br addr",
        fix="export NCCL_SOCKET_IFNAME==INTERFACE, the one with the route to the other nodes (ip route get HOST)",
        link="https://github.com/NVIDIA/nccl/issues/913",
        examples=(
            (
                "node1:123:123 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0>",
                "https://github.com/horovod/horovod/issues/310",
            ),
            ("node1:123:123 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>", "NCCL 2.21, source"),
        ),
    ),
    Entry(
        id="firewall-reject",
        title="NCCL: connect to ... failed: No route to host",
        patterns=(
            r"[Cc]onnect to (?P<host>[\d.a-f:]+)<(?P<port>\d+)> returned .*No route to host",
            r"[Cc]onnect to (?P<host>[\d.a-f:]+)<(?P<port>\d+)> failed : Software caused connection abort",
            r"[Cc]onnect to (?P<host>[\d.a-f:]+)<(?P<port>\d+)> failed : (?:No route|Connection timed out)",
            r"[Cc]onnect to (?P<host>[\d.a-f:]+)<(?P<port>\d+)> returned Connection (?:timed out|refused)",
        ),
        cause="a port that the kernel chose for NCCL or gloo on {host} is closed to this node: a firewall, or an "
        "address that is not routed",
        probe="on {host}: sudo nft list ruleset (or: sudo ufw status; sudo firewall-cmd --list-all)",
        fix="open all ports between the nodes: on each, sudo ufw allow from SUBNET; or export NCCL_SOCKET_IFNAME to "
        "the right interface",
        link="https://github.com/NVIDIA/nccl-tests/issues/162",
        examples=(
            (
                "node2:7412:7501 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused "
                "connection abort",
                "https://github.com/NVIDIA/nccl-tests/issues/162",
            ),
            (
                "NCCL WARN socketPollConnect: Connect to 10.0.0.2<45763> returned 113(No route to host) errno 115",
                "https://github.com/sgl-project/sglang/issues/3820",
            ),
            (
                "node2:7412:7501 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : No "
                "route to host",
                "NCCL 2.21, source",
            ),
            (
                "node2:7412:7501 [0] NCCL WARN socketPollConnect: connect to 10.0.0.2<45763> returned "
                "Connection timed out, exceeded error retry count after 35 attempts",
                "NCCL 2.27, source",
            ),
        ),
    ),
    Entry(
        id="firewall-drop",
        title="Gloo connectFullMesh failed ... Connect timeout",
        kind="generic",
        patterns=(
            r"connectFullMesh failed",
            r"\bgloo\b.*(?:Connect timeout|timed out connecting)",
        ),
        cause="a rank could not reach another's port: a firewall that drops packets, a wrong interface, or the other "
        "rank is gone",
        probe="on the other node: nc -l 45763; on this one: nc -vz OTHER 45763",
        fix="open all ports between the nodes, or export GLOO_SOCKET_IFNAME=INTERFACE; ddpkit test finds which",
        link="https://github.com/NVIDIA/Megatron-LM/issues/877",
        examples=(
            (
                "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.h:311] "
                "Connect timeout [none]",
                "torch 2.13, run",
            ),
            (
                "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] "
                "no error",
                "torch 2.1, documented",
            ),
        ),
    ),
    Entry(
        id="address-family",
        title="Address family not supported by protocol",
        patterns=(
            r"Address family not supported by protocol",
            r"connecting to address with family \d+ is neither AF_INET",
        ),
        cause="one side speaks IPv6 and the other IPv4, IPv6 is off in the kernel, or the nodes' NCCL differ",
        probe="on each node: cat /proc/sys/net/ipv6/conf/all/disable_ipv6; getent ahosts MASTER",
        fix="export NCCL_SOCKET_FAMILY=AF_INET and give MASTER_ADDR as an IPv4 address",
        link="https://github.com/NVIDIA/nccl/issues/210",
        examples=(
            (
                "include/socket.h:344 NCCL WARN Socket creation failed : Address family not supported by protocol",
                "https://github.com/NVIDIA/nccl/issues/210",
            ),
            (
                "NCCL WARN ncclSocketInit: connecting to address with family 0 is neither AF_INET(2) nor AF_INET6(10)",
                "https://github.com/NVIDIA/nccl/issues/1267",
            ),
        ),
    ),
    Entry(
        id="container-bridge",
        title="Other nodes try to reach 172.17.0.x",
        kind="hint",
        cause="a rank in a container gives out {host}, the address of docker's bridge, which other hosts cannot reach",
        probe="in the container: ip -br addr",
        fix="start the container with --network=host --ipc=host",
        link="https://github.com/vllm-project/vllm/issues/19670",
    ),
    Entry(
        id="mesh-too-wide",
        title="Gloo connectFullMesh fails from about 60 nodes on",
        cause="a limit: open files, somaxconn or the firewall's connection table is too small for a full mesh",
        probe="ulimit -n; sysctl net.core.somaxconn net.netfilter.nf_conntrack_max",
        fix="ulimit -n 65536; sysctl -w net.core.somaxconn=4096",
        link="https://github.com/NVIDIA/Megatron-LM/issues/877",
    ),
)
