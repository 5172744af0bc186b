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
