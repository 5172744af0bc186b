"""The way to other hosts: ssh, pdsh, tmux."""

from __future__ import annotations

from ddpkit.diagnosis.catalogue.entry import Entry

ENTRIES = (
    Entry(
        id="ssh-host-key",
        title="Host key verification failed",
        patterns=(
            r"Host key verification failed",
            r"REMOTE HOST IDENTIFICATION HAS CHANGED",
            r"No \S+ host key is known for (?P<host>\S+)",
        ),
        cause="ssh does not know the host's key, or it has changed, and may not ask",
        probe="ssh-keygen -F {host}",
        fix="ssh {host} once by hand and compare the fingerprint; a key that has changed: find out why, then "
        "ssh-keygen -R {host}",
        link="https://man.openbsd.org/ssh#VERIFYING_HOST_KEYS",
        examples=(
            ("Host key verification failed.", "OpenSSH 9.2, run"),
            ("@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", "OpenSSH 9.2, source"),
            ("No ED25519 host key is known for node1 and you have requested strict checking.", "OpenSSH 9.2, run"),
        ),
    ),
    Entry(
        id="ssh-no-key",
        title="Permission denied (publickey)",
        patterns=(
            r"(?:(?P<user>[\w.-]+)@(?P<host>[\w.-]+): )?Permission denied \([\w,-]+\)",
            r"Too many authentication failures",
        ),
        cause="{host} takes none of the keys that ssh offered, or the user's name is another there",
        probe="ssh -v {host} true",
        fix="ssh-copy-id {host}; or IdentityFile and User for it in ~/.ssh/config",
        link="https://github.com/microsoft/DeepSpeed/issues/5709",
        examples=(
            ("me@node2: Permission denied (publickey).", "OpenSSH 9.2, documented"),
            ("Received disconnect from 10.77.0.1 port 22:2: Too many authentication failures", "OpenSSH 9.2, run"),
        ),
    ),
    Entry(
        id="ssh-unreachable",
        title="ssh: connect to host ... port 22: Connection refused / timed out",
        patterns=(
            r"ssh: connect to host (?P<host>\S+) port (?P<port>\d+): (?P<reason>.*)",
            r"ssh: Could not resolve hostname (?P<host>[^:]+): (?P<reason>.*)",
        ),
        cause="ssh does not reach {host}: {reason}",
        probe="getent hosts {host}; nc -vz {host} 22",
        fix="correct the name; start sshd there, or open its port",
        link="https://man.openbsd.org/ssh",
        examples=(
            ("ssh: connect to host node2 port 22: Connection refused", "OpenSSH 9.2, run"),
            ("ssh: connect to host node2 port 22: No route to host", "OpenSSH 9.2, run"),
            ("ssh: Could not resolve hostname nodez: Temporary failure in name resolution", "OpenSSH 9.2, run"),
        ),
    ),
    Entry(
        id="ssh-max-startups",
        title="kex_exchange_identification: Connection closed by remote host",
        patterns=(
            r"kex_exchange_identification: (?:read: )?Connection",
            r"ssh_exchange_identification: (?:read: )?Connection",
        ),
        cause="sshd closed the connection before it began: too many at once (MaxStartups 10:30:100 by default), on the "
        "host or on the jump host in front of it",
        probe="on {host}: sudo sshd -T | grep -i maxstartups",
        fix="fewer connections at a time (ddpkit waits and tries again); an administrator: MaxStartups 100:30:500",
        link="https://github.com/ansible/ansible/issues/24594",
        examples=(
            ("kex_exchange_identification: Connection closed by remote host", "OpenSSH 9.2, run"),
            ("kex_exchange_identification: read: Connection reset by peer", "OpenSSH 9.2, run"),
            (
                "ssh_exchange_identification: read: Connection reset by peer",
                "https://github.com/SUSE/machinery/issues/2128",
            ),
        ),
    ),
    Entry(
        id="ssh-max-sessions",
        title="mux_client_request_session: session request failed: Session open refused by peer",
        patterns=(r"session request failed: Session open refused by peer",),
        cause="more than MaxSessions (10) commands share one connection (ControlMaster)",
        probe="on the host: sudo sshd -T | grep -i maxsessions",
        fix="ssh -o ControlPath=none ..., or a larger MaxSessions",
        link="https://man.openbsd.org/sshd_config#MaxSessions",
        examples=(
            ("mux_client_request_session: session request failed: Session open refused by peer", "OpenSSH 9.2, run"),
        ),
    ),
    Entry(
        id="pdsh-rsh",
        title="pdsh: connect: Connection refused; rcmd: socket: Permission denied",
        patterns=(
            r"pdsh@\S+: (?P<host>\S+): connect: ",
            r"rcmd: socket: Permission denied",
            r"xpoll: protocol failure in circuit setup",
        ),
        cause="pdsh uses rsh, its default on many systems, and not ssh",
        probe="pdsh -V, which shows `(default: rsh)`",
        fix="export PDSH_RCMD_TYPE=ssh",
        link="https://github.com/chaos/pdsh/issues/127",
        examples=(
            ("pdsh@login: node1: connect: Connection refused", "pdsh 2.34, run"),
            ("pdsh@login: node1: rcmd: socket: Permission denied", "https://github.com/chaos/pdsh/issues/127"),
            ("pdsh@login: node1: rcmd: xpoll: protocol failure in circuit setup", "pdsh 2.34, source"),
        ),
    ),
    Entry(
        id="pdsh-exit-code",
        title="pdsh ends with 0 although a command failed",
        cause="pdsh returns the remote exit code only with -S, and then the largest",
        probe="pdsh -R ssh -w node1 false; echo $?",
        fix="pdsh -S ...",
        link="https://github.com/microsoft/DeepSpeed/pull/1994",
    ),
    Entry(
        id="pdsh-ssh-args",
        title="DeepSpeed over pdsh: ssh options are lost",
        cause="older DeepSpeed replaced PDSH_SSH_ARGS_APPEND in place of adding to it",
        probe="pip show deepspeed; env | grep PDSH",
        fix="put the options into ~/.ssh/config, or update DeepSpeed",
        link="https://github.com/microsoft/DeepSpeed/issues/4370",
    ),
    Entry(
        id="orphans",
        title="After Ctrl-C or a lost ssh session, ranks live on",
        cause="sshd does not end a command whose client is gone, where there is no terminal",
        probe="on each node: pgrep -af train.py",
        fix="ddpkit stop RUN; for what another launcher left: kill the process ids that pgrep shows",
        link="https://github.com/microsoft/DeepSpeed/issues/1722",
    ),
    Entry(
        id="hangup",
        title="Received 1 death signal, shutting down workers; SignalException: got signal: 1",
        patterns=(
            r"srun: error: (?P<host>\S+): tasks? (?P<rank>[\d,-]+): Hangup",
            r"Received 1 death signal",
            r"SignalException: Process \d+ got signal: 1\b",
            r"Received Signals\.SIGHUP death signal",
        ),
        cause="the terminal or the ssh session closed, and torchrun ends at SIGHUP, also under nohup",
        probe="look when your ssh session ended: last -n 5 $USER",
        fix="ddpkit launch --detach; torchrun inside tmux, or under setsid",
        link="https://github.com/pytorch/pytorch/issues/67538",
        examples=(
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
        ),
    ),
    Entry(
        id="tmux-missing",
        title="tmux: command not found; no server running; open terminal failed",
        patterns=(r"no server running on /\S*tmux", r"open terminal failed: (?:missing|not a terminal)"),
        cause="tmux is not there, its socket under /tmp was cleaned away, or TERM is not set",
        probe="command -v tmux; ls -l /tmp/tmux-$(id -u)",
        fix="install tmux; export TERM=xterm; or setsid nohup COMMAND > log 2>&1 &",
        link="https://github.com/tmux/tmux/wiki/FAQ",
        examples=(
            ("no server running on /tmp/tmux-1000/default", "tmux 3.3, source"),
            ("open terminal failed: missing or unsuitable terminal: xterm-kitty", "tmux 3.3, source"),
        ),
    ),
    Entry(
        id="pdsh-host-list",
        title="bash: line 1: compute-0-1: command not found, under pdsh",
        cause="a list of hosts with spaces: pdsh takes the second name for the command",
        probe="pdsh -w HOSTS -Q",
        fix="pdsh -w node1,node2 (commas, no spaces)",
        link="https://github.com/chaos/pdsh/issues/109",
    ),
    Entry(
        id="ssh-no-common-algorithm",
        title="Unable to negotiate with ...: no matching host key type found",
        patterns=(r"Unable to negotiate with (?P<host>\S+) port \d+: no matching (?P<what>[\w ]+) found",),
        cause="this ssh and the host's sshd have no {what} in common: one of them is old",
        probe="ssh -vv {host} true 2>&1 | grep -i 'peer server'",
        fix="for an old host: ssh -o HostKeyAlgorithms=+ssh-rsa -o PubkeyAcceptedAlgorithms=+ssh-rsa {host}, as lines in ~/.ssh/config",
        link="https://www.openssh.com/legacy.html",
        examples=(
            (
                "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found. Their offer: ssh-rsa,ssh-dss",
                "OpenSSH 9.2, documented",
            ),
        ),
    ),
    Entry(
        id="ssh-files",
        title="Bad owner or permissions on ~/.ssh/config; UNPROTECTED PRIVATE KEY FILE",
        patterns=(
            r"Bad owner or permissions on (?P<path>\S+)",
            r"UNPROTECTED PRIVATE KEY FILE",
            r"Authentication refused: bad ownership or modes for (?:directory|file) (?P<path>\S+)",
            r"Bad configuration option: (?P<option>\S+)",
        ),
        cause="ssh does not use a file that others could write or read, or does not know an option in it",
        probe="ls -la ~/.ssh",
        fix="chmod 700 ~/.ssh; chmod 600 ~/.ssh/config ~/.ssh/id_*; chmod go-w ~",
        link="https://man.openbsd.org/ssh#FILES",
        examples=(
            ("Bad owner or permissions on /home/me/.ssh/config", "OpenSSH 9.2, source"),
            ("@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @", "OpenSSH 9.2, source"),
            ("/home/me/.ssh/config: line 3: Bad configuration option: usekeychain", "OpenSSH 9.2, run"),
            ("Authentication refused: bad ownership or modes for directory /home/me/.ssh", "OpenSSH 9.2, source"),
        ),
    ),
    Entry(
        id="ssh-lost",
        doubtful=True,
        title="client_loop: send disconnect: Broken pipe; Timeout, server not responding",
        patterns=(
            r"client_loop: send disconnect: ",
            r"Timeout, server (?P<host>\S+) not responding",
            r"Connection to (?P<host>\S+) closed by remote host",
            r"Connection closed by (?P<host>\S+) port \d+",
            r"packet_write_wait: Connection to",
        ),
        cause="the connection to {host} ended: the host, the network or a firewall that forgets quiet connections",
        probe="ping {host}; last -x reboot on it",
        fix="ServerAliveInterval 15 in ~/.ssh/config; start long runs with ddpkit launch --detach",
        link="https://man.openbsd.org/ssh_config#ServerAliveInterval",
        examples=(
            ("client_loop: send disconnect: Broken pipe", "OpenSSH 9.2, source"),
            ("Timeout, server node2 not responding.", "OpenSSH 9.2, source"),
            ("Connection to node2 closed by remote host.", "OpenSSH 9.2, run"),
            ("Connection closed by 10.77.0.1 port 22", "OpenSSH 9.2, source"),
            (
                "packet_write_wait: Connection to 10.6.130.33 port 22: Broken pipe",
                "https://github.com/PowerShell/Win32-OpenSSH/issues/741",
            ),
        ),
    ),
    Entry(
        id="ssh-no-job-there",
        title="Access denied by pam_slurm_adopt: you have no active jobs on this node",
        patterns=(
            r"you have no active jobs on this node",
            r"Access denied(?: by \w+)?: user (?P<user>\S+) .*has no active jobs",
        ),
        cause="the site lets you in by ssh only while a job of yours runs on that node",
        probe="squeue --me",
        fix="get the nodes first (salloc -N 2), or start through SLURM: ddpkit launch -b slurm",
        link="https://slurm.schedmd.com/pam_slurm_adopt.html",
        examples=(
            ("Access denied by pam_slurm_adopt: you have no active jobs on this node", "Slurm, source"),
            (
                "Access denied: user test (uid=5249) has no active jobs on this node.",
                "https://github.com/fgci-org/fgci-ansible/issues/123",
            ),
        ),
    ),
    Entry(
        id="ssh-jump",
        title="channel 0: open failed: administratively prohibited; stdio forwarding failed",
        patterns=(
            r"channel \d+: open failed: (?P<reason>.*)",
            r"stdio forwarding failed",
        ),
        cause="the jump host does not pass the connection on: {reason}",
        probe="ssh -v JUMPHOST true",
        fix="AllowTcpForwarding yes in the jump host's sshd_config; correct the name that the jump host shall reach",
        link="https://man.openbsd.org/sshd_config#AllowTcpForwarding",
        examples=(
            ("channel 0: open failed: administratively prohibited: open failed", "OpenSSH 9.2, source"),
            ("stdio forwarding failed", "OpenSSH 9.2, source"),
        ),
    ),
    Entry(
        id="no-terminal-warning",
        title="Pseudo-terminal will not be allocated; stdin: is not a tty",
        kind="noise",
        patterns=(
            r"Pseudo-terminal will not be allocated because stdin is not a terminal",
            r"stdin: is not a tty",
            r"no job control in this shell",
            r"cannot set terminal process group",
        ),
        cause="a shell started without a terminal; harmless",
        probe="nothing to look at",
        fix="nothing",
        link="https://man.openbsd.org/ssh",
        examples=(
            ("Pseudo-terminal will not be allocated because stdin is not a terminal.", "OpenSSH 9.2, run"),
            ("stdin: is not a tty", "bash 5.2, documented"),
            ("bash: no job control in this shell", "bash 5.2, run"),
            ("bash: cannot set terminal process group (-1): Inappropriate ioctl for device", "bash 5.2, run"),
        ),
    ),
    Entry(
        id="deepspeed-ssh",
        title="Using hostfile at ... but host was not reachable via ssh",
        patterns=(
            r"but host=(?P<host>\S+) was not reachable via ssh",
            r"Command 'ssh -o PasswordAuthentication=no (?P<host>\S+) hostname' returned non-zero exit status 255",
        ),
        cause="DeepSpeed's launcher could not get into {host} by ssh without a password",
        probe="ssh -o BatchMode=yes {host} hostname",
        fix="ssh-copy-id {host}, also where {host} is this host; for one node: leave the host file out",
        link="https://github.com/deepspeedai/DeepSpeed/issues/4907",
        examples=(
            (
                "RuntimeError: Using hostfile at hostfile but host=192.168.3.100 was not reachable via ssh. If you are running with a single node please remove hostfile or setup passwordless ssh.",
                "https://github.com/deepspeedai/DeepSpeed/issues/4907",
            ),
            (
                "subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no node9 hostname' "
                "returned non-zero exit status 255.",
                "DeepSpeed 0.19, source",
            ),
        ),
    ),
)
