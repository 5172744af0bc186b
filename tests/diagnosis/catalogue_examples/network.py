"""Printed texts of `ddpkit/diagnosis/catalogue/network.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "name-is-loopback": (
        (
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:152] "
            "timed out connecting: SO_ERROR: Connection refused, remote=[127.0.1.1]:12202$1",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[127.0.1.1]:17593: Connection refused",
            "torch 1.5, source",
        ),
    ),
    "nccl-interface-missing": (
        (
            "NCCL WARN Bootstrap : no socket interface found\n"
            "NCCL WARN ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
            "NCCL 2.21, source",
        ),
    ),
    "nccl-wrong-interface": (
        (
            "node1:123:123 [0] NCCL INFO NET/Socket : Using [0]docker0:172.17.0.1<0>",
            "https://github.com/horovod/horovod/issues/310",
        ),
        ("node1:123:123 [0] NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>", "NCCL 2.21, source"),
    ),
    "nccl-network-differs": (
        (
            "user:16902:16954 [3] NCCL INFO Using network Socket\nuser:695836:695883 [5] NCCL INFO Using network IB",
            "https://github.com/NVIDIA/nccl-tests/issues/188",
        ),
    ),
    "nccl-foreign-connection": (
        (
            "node1:10:99 [3] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3",
            "https://github.com/NVIDIA/nccl-tests/issues/188",
        ),
    ),
    "firewall-reject": (
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
            "node2:7412:7501 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : No route to host",
            "NCCL 2.21, source",
        ),
        (
            "node2:7412:7501 [0] NCCL WARN socketPollConnect: connect to 10.0.0.2<45763> returned "
            "Connection timed out, exceeded error retry count after 35 attempts",
            "NCCL 2.27, source",
        ),
        (
            "misc/socket.cc:550 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused",
            "NCCL 2.18, source",
        ),
        (
            "NCCL WARN ncclOsSocketPollConnect: connect to 10.0.0.2<45763> returned Connection refused, "
            "exceeded error retry count after 35 attempts",
            "NCCL 2.30, source",
        ),
        (
            "NCCL WARN ncclOsSocketPollConnect getsockopt() failed with error Connection timed out",
            "NCCL 2.30, source",
        ),
        (
            "misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.2<45763> returned 113(No "
            "route to host)",
            "NCCL 2.12, source",
        ),
        (
            "Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:152] timed out connecting: "
            "SO_ERROR: No route to host, remote=[10.77.0.1]:6557$1",
            "torch 2.13, run",
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[10.0.0.2]:17593: No route to host",
            "torch 1.5, source",
        ),
        (
            "node2:4153:4209 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused",
            "NCCL 2.3, source",
        ),
        (
            '    gloo_group = dist.new_group(ranks=self_group, backend="gloo")\nRuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [172.31.71.170]:13195: Connection refused',
            "https://github.com/pytorch/pytorch/issues/108732",
        ),
        (
            "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at /home/me/gloo/gloo/transport/tcp/pair.cc:498] optval == 0. 111 vs 0. SO_ERROR: Connection refused",
            "https://github.com/facebookarchive/caffe2/issues/360",
        ),
    ),
    "firewall-drop": (
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
    "address-family": (
        (
            "include/socket.h:344 NCCL WARN Socket creation failed : Address family not supported by protocol",
            "https://github.com/NVIDIA/nccl/issues/210",
        ),
    ),
    "nccl-versions-in-bootstrap": (
        (
            "node2:10:99 [0] misc/socket.cc:450 NCCL WARN ncclSocketInit: connecting to address "
            "0.0.0.0<0> with family 0 is neither AF_INET(2) nor AF_INET6(10)",
            "https://github.com/NVIDIA/nccl/issues/1267",
        ),
    ),
    "loopback-fallback": (
        (
            "[W ProcessGroupGloo.cpp:715] Warning: Unable to resolve hostname to a (local) address. "
            "Using the loopback address as fallback. Manually set the network interface to bind to with "
            "GLOO_SOCKET_IFNAME. (function operator())",
            "torch 2.6, source",
        ),
    ),
    "gloo-address-families": (
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:276] ss1.ss_family == ss2.ss_family. 10 vs 2",
            "torch 2.4, source",
        ),
    ),
    "nccl-uses-loopback": (
        (
            "node1:4152:4206 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\nnode2:4152:4206 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
            "NCCL 2.21, source",
        ),
        (
            "node1:4152:4206 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\nnode2:4152:4206 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>",
            "NCCL 2.21, source",
        ),
        (
            "node1:4152:4206 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>\nnode2:4152:4206 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>",
            "NCCL 2.3, source",
        ),
    ),
    "nccl-loopback": (
        (
            "node2:4152:4206 [0] misc/socket.cc:550 NCCL WARN socketStartConnect: Connect to 127.0.0.1<41087> failed : Connection refused",
            "NCCL 2.18, source",
        ),
        (
            "node2:4152:4206 [0] NCCL WARN socketPollConnect: connect to 127.0.0.1<41087> returned Connection refused, exceeded error retry count after 35 attempts",
            "NCCL 2.27, source",
        ),
    ),
    "container-bridge": (
        (
            "node2:4152:4206 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.2<38021> failed : Software caused connection abort",
            "NCCL 2.18, source",
        ),
        (
            "node2:4152:4206 [0] NCCL WARN socketPollConnect: connect to 172.18.0.3<38021> returned Connection timed out, exceeded error retry count after 35 attempts",
            "NCCL 2.27, source",
        ),
        (
            "Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: No route to host, remote=[172.17.0.3]:6557$1",
            "torch 2.13, source",
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [172.17.0.2]:17593: Connection refused",
            "torch 1.5, source",
        ),
        (
            "[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (172.17.0.2, 44737).",
            "https://github.com/OpenRLHF/OpenRLHF/issues/265",
        ),
    ),
    "link-local-address": (
        (
            "ip-10-0-225-125:17:52 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 169.254.255.18<42219> failed : Software caused connection abort",
            "https://github.com/ultralytics/yolov5/issues/12811",
        ),
        (
            "node1:12:34 [0] NCCL INFO socketPollConnect: connect to 169.254.3.1<40815> returned Connection refused, retrying",
            "NCCL, unverified",
        ),
        (
            "SO_ERROR: No route to host, remote=[169.254.3.1]:51234",
            "gloo, unverified",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [169.254.0.1]:46496: Connection refused",
            "gloo, unverified",
        ),
    ),
    "connection-timed-out": (
        (
            "[15]worker-23:83:2526 [0] misc/socket.cc:503 NCCL WARN Net : Call to recv from 100.96.188.199<41468> failed : Connection timed out",
            "https://github.com/NVIDIA/nccl/issues/706",
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.2]:29500: Connection timed out",
            "torch, source",
        ),
    ),
    "conntrack-full": (
        (
            "[104235.156774] nf_conntrack: nf_conntrack: table full, dropping packet",
            "Linux, netfilter, documented",
        ),
    ),
    "nccl-plugin-differs": (
        (
            "HGX-H100-04:589474:589541 [0] NCCL INFO Using network IBext_v8\nHGX-H100-11:18226:18274 [5] NCCL INFO Using network IB",
            "https://github.com/NVIDIA/nccl/issues/1634",
        ),
    ),
}
