"""Printed texts of `ddpkit/diagnosis/catalogue/ssh.py`, each with its source."""

EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "ssh-host-key": (
        ("Host key verification failed.", "OpenSSH 9.2, run"),
        ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", "OpenSSH 9.2, source"),
        ("No ED25519 host key is known for node1 and you have requested strict checking.", "OpenSSH 9.2, run"),
        (
            "Host key for node2 has changed and you have requested strict checking.",
            "OpenSSH 9.2, run",
        ),
    ),
    "ssh-no-key": (
        ("me@node2: Permission denied (publickey).", "OpenSSH 9.2, documented"),
        ("Received disconnect from 10.77.0.1 port 22:2: Too many authentication failures", "OpenSSH 9.2, run"),
        (
            "Permission denied, please try again.",
            "https://github.com/apache/mxnet/issues/3448",
        ),
        (
            "ssh_askpass: exec(/usr/libexec/openssh/ssh-askpass): No such file or directory",
            "OpenSSH 9.2, run",
        ),
    ),
    "ssh-unreachable": (
        ("ssh: connect to host node2 port 22: Connection refused", "OpenSSH 9.2, run"),
        ("ssh: connect to host node2 port 22: No route to host", "OpenSSH 9.2, run"),
        ("ssh: Could not resolve hostname nodez: Temporary failure in name resolution", "OpenSSH 9.2, run"),
        (
            "  gpu-node-07: its name does not resolve here",
            "ddpkit 0.2, run",
        ),
        ("  gpu-node-07: its name does not resolve on this machine", "ddpkit 0.2, run"),
        (
            "  node3: no answer from node3 port 22 in 5 s: the host is off, or a firewall drops packets",
            "ddpkit 0.2, run",
        ),
        (
            'pdsh@node1: gethostbyname("node2") failed',
            "pdsh 2.34, src/pdsh/dsh.c, source",
        ),
    ),
    "ssh-max-startups": (
        ("kex_exchange_identification: Connection closed by remote host", "OpenSSH 9.2, run"),
        ("kex_exchange_identification: read: Connection reset by peer", "OpenSSH 9.2, run"),
        (
            "ssh_exchange_identification: read: Connection reset by peer",
            "https://github.com/SUSE/machinery/issues/2128",
        ),
        (
            "banner exchange: Connection to 10.0.0.7 port 22: Connection refused",
            "OpenSSH 9.2, run",
        ),
        (
            "Connection timed out during banner exchange",
            "OpenSSH 9.2, source",
        ),
    ),
    "ssh-max-sessions": (
        ("mux_client_request_session: session request failed: Session open refused by peer", "OpenSSH 9.2, run"),
    ),
    "pdsh-rsh": (
        ("pdsh@login: node1: connect: Connection refused", "pdsh 2.34, run"),
        ("pdsh@login: node1: rcmd: socket: Permission denied", "https://github.com/chaos/pdsh/issues/127"),
        ("pdsh@login: node1: rcmd: xpoll: protocol failure in circuit setup", "pdsh 2.34, source"),
        (
            'No such rcmd module "krb4"',
            "pdsh 2.34, run",
        ),
    ),
    "hangup": (
        (
            "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers",
            "https://github.com/pytorch/pytorch/issues/67538",
        ),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 1234 got signal: 1",
            "torch 2.13, run",
        ),
        ("Received Signals.SIGHUP death signal, shutting down workers", "torch 2.13 with Python 3.10, source"),
        (
            "srun: error: node1: task 0: Hangup",
            "Slurm 22.05, run",
        ),
        (
            "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4711 closing signal SIGHUP",
            "torch 1.11, source",
        ),
    ),
    "tmux-missing": (
        ("no server running on /tmp/tmux-1000/default", "tmux 3.3, source"),
        ("open terminal failed: missing or unsuitable terminal: xterm-kitty", "tmux 3.3, source"),
    ),
    "ssh-no-common-algorithm": (
        (
            "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found. Their offer: ssh-rsa,ssh-dss",
            "OpenSSH 9.2, documented",
        ),
    ),
    "ssh-files": (
        ("Bad owner or permissions on /home/me/.ssh/config", "OpenSSH 9.2, source"),
        ("@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @", "OpenSSH 9.2, source"),
        ("/home/me/.ssh/config: line 3: Bad configuration option: usekeychain", "OpenSSH 9.2, run"),
        ("Authentication refused: bad ownership or modes for directory /home/me/.ssh", "OpenSSH 9.2, source"),
        (
            "Permissions 0640 for '/root/.ssh/id_rsa' are too open.",
            "https://github.com/kubeflow/mpi-operator/issues/429",
        ),
        (
            'Load key "/root/.ssh/id_rsa": bad permissions',
            "https://github.com/kubeflow/mpi-operator/issues/429",
        ),
    ),
    "ssh-lost": (
        ("client_loop: send disconnect: Broken pipe", "OpenSSH 9.2, source"),
        ("Timeout, server node2 not responding.", "OpenSSH 9.2, source"),
        ("Connection to node2 closed by remote host.", "OpenSSH 9.2, run"),
        ("Connection closed by 10.77.0.1 port 22", "OpenSSH 9.2, source"),
        (
            "packet_write_wait: Connection to 10.6.130.33 port 22: Broken pipe",
            "https://github.com/PowerShell/Win32-OpenSSH/issues/741",
        ),
        (
            "Connection reset by 10.0.0.2 port 22",
            "OpenSSH 9.2, run",
        ),
    ),
    "ssh-no-job-there": (
        ("Access denied by pam_slurm_adopt: you have no active jobs on this node", "Slurm, source"),
        (
            "Access denied: user test (uid=5249) has no active jobs on this node.",
            "https://github.com/fgci-org/fgci-ansible/issues/123",
        ),
    ),
    "ssh-jump": (
        ("channel 0: open failed: administratively prohibited: open failed", "OpenSSH 9.2, source"),
        ("stdio forwarding failed", "OpenSSH 9.2, source"),
    ),
    "no-terminal-warning": (
        ("Pseudo-terminal will not be allocated because stdin is not a terminal.", "OpenSSH 9.2, run"),
        ("stdin: is not a tty", "bash 5.2, documented"),
        ("bash: no job control in this shell", "bash 5.2, run"),
        ("bash: cannot set terminal process group (-1): Inappropriate ioctl for device", "bash 5.2, run"),
    ),
    "deepspeed-ssh": (
        (
            "RuntimeError: Using hostfile at hostfile but host=192.168.3.100 was not reachable via ssh. If you are running with a single node please remove hostfile or setup passwordless ssh.",
            "https://github.com/deepspeedai/DeepSpeed/issues/4907",
        ),
        (
            "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no node9 hostname' "
            "returned non-zero exit status 255.",
            "DeepSpeed 0.19, source",
        ),
        (
            "subprocess.CalledProcessError: Command '['ssh deepspeed-helloworld-worker-0 hostname -I']' "
            "returned non-zero exit status 255.",
            "https://github.com/deepspeedai/DeepSpeed/issues/4649",
        ),
        (
            "subprocess.CalledProcessError: Command '['ssh', '-o', 'PasswordAuthentication=no', 'manager', "
            "'hostname']' returned non-zero exit status 255.",
            "https://github.com/deepspeedai/DeepSpeed/issues/6875",
        ),
    ),
    "ssh-no-shell": (
        (
            "This account is currently not available.",
            "shadow 4.13, run",
        ),
        (
            "User me not allowed because shell /bin/zsh is not executable",
            "OpenSSH 9.2, source",
        ),
    ),
    "node-lost": (
        (
            "ddpkit: ddpkit's process on node3 failed first, after 24.3 s: no heartbeat for 6 s",
            "ddpkit 0.2, run",
        ),
        (
            "ddpkit: the supervisor on node3 failed first, after 24.3 s: no heartbeat for 6 s",
            "ddpkit 0.1, run",
        ),
    ),
    "pod-name-unknown": (
        (
            "ssh: Could not resolve hostname bert-worker-5.bert: Name or service not known",
            "OpenSSH 9.2, source",
        ),
    ),
    "ssh-name-with-colon": (
        (
            "ssh: Could not resolve hostname localhost:3: Name or service not known",
            "https://github.com/zhijian-liu/torchpack/issues/24",
        ),
    ),
    "colossalai-ssh": (
        (
            "Error: failed to run torchrun --nproc_per_node=2 --nnodes=2 --node_rank=1 "
            "--master_addr=192.168.1.11 --master_port=29508 pretrain.py on 192.168.1.12, is localhost: "
            "False, exception: not a valid RSA private key file",
            "https://github.com/hpcaitech/ColossalAI/issues/5213",
        ),
        (
            "paramiko.ssh_exception.AuthenticationException: Authentication failed.",
            "https://github.com/fabric/fabric/issues/1796",
        ),
    ),
    "pdsh-modules": (
        (
            'pdsh@node1: module path "/usr/local/lib/pdsh" insecure.',
            "pdsh 2.34, source",
        ),
        (
            "pdsh@node1: Couldn't load any pdsh modules",
            "pdsh 2.34, source",
        ),
        (
            'pdsh@node1: "/usr/local/lib": Owner not root, current uid, or pdsh executable owner',
            "pdsh 2.34, source",
        ),
    ),
    "deepspeed-launcher-missing": (
        (
            "RuntimeError: launcher 'pdsh' not installed.",
            "DeepSpeed 0.12, source",
        ),
    ),
    "horovod-start-timeout": (
        (
            "Exception: Timed out waiting for tasks to start. Please check connectivity between servers. "
            "You may need to increase the --start-timeout parameter if you have too many servers.",
            "https://github.com/horovod/horovod/issues/1338",
        ),
    ),
    "sshd-not-started": (
        (
            "sshd: no hostkeys available -- exiting.",
            "OpenSSH 9.2, source",
        ),
        (
            "Missing privilege separation directory: /run/sshd",
            "OpenSSH 9.2, source",
        ),
        (
            "Cannot bind any address.",
            "OpenSSH 9.2, source",
        ),
    ),
    "ssh-booting": (
        (
            "System is booting up. Unprivileged users are not permitted to log in yet. Please come back later. For technical details, see pam_nologin(8).",
            "https://github.com/osism/testbed/pull/2470",
        ),
        (
            "System is booting up. See pam_nologin(8)",
            "https://github.com/cockpit-project/cockpit/issues/4943",
        ),
    ),
}
