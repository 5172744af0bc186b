"""Symptoms: evidence of ddpkit's own checks, ranks and connections, with its entry of the catalogue.

The catalogue explains the output of other programs. A symptom gives the short cause of one evidence, without an import
of the catalogue. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Symptom:
    """One evidence, as a regular expression, and its cause."""

    entry: str  # id in the catalogue
    evidence: str
    cause: str = ""  # empty: the evidence comes with its cause
    fix: str = ""  # if it is better than the fix of the evidence; `{host}` is filled in


UNKNOWN = Symptom("", "")


def find_symptom(symptoms: Iterable[Symptom], evidence: str) -> Symptom:
    """Return the first symptom whose pattern matches the evidence, or `UNKNOWN`."""
    return next((each for each in symptoms if re.search(each.evidence, evidence)), UNKNOWN)


def login_fix(cause: str, host: str, target: str = "") -> str:
    """Return the command that fixes a failed login. `target`: user@host, as in an ssh command."""
    return LOGIN_FIXES[cause].format(host=host, target=target or host)


# A file system that is full or read-only.
FILE_SYSTEM = (
    Symptom("disk-full", "no inodes", "the file system has no free inodes: it holds very many small files"),
    Symptom("disk-full", "space left|quota", "the file system is full"),
    Symptom("disk-full", "read-only", "it is mounted read-only; after disk errors, the kernel does this automatically", "set TMPDIR to a writable directory in ~/.bashrc on {host}"),
)  # fmt: skip

# A log directory that is not writable.
LOG_FOLDER = (
    Symptom("disk-full", "quota", "this user's quota is used up"),
    *FILE_SYSTEM,
    Symptom("disk-full", "denied|not permitted", "this user cannot write there"),
    Symptom("disk-full", "", "it is not a usable directory"),
)

# Problems of nodes before a launch, by the check that finds them.
PROBLEMS: Mapping[str, tuple[Symptom, ...]] = {
    "transport": (
        Symptom("ssh-host-key", "host key is not known", "this user has never connected to the host, and ddpkit does not accept new keys"),
        Symptom("ssh-host-key", "host key has changed", "another machine uses the address, or the host was reinstalled"),
        Symptom("ssh-host-key", "host key .*revoked", "known_hosts marks this key as revoked"),
        Symptom("ssh-host-key", "no host key of the known type", "another machine uses the address"),
        Symptom("ssh-no-key", "none of the keys|passphrase", "authorized_keys on the host has none of this user's keys, or the user name differs"),
        Symptom("ssh-no-key", "accepts no keys", "the host requires Kerberos, a password or a second factor, which paramiko does not support"),
        Symptom("ssh-no-key", "second factor", "the host asks a person, for example for a code, and this launch has no terminal or got another answer"),
        Symptom("ssh-max-startups", "before the login", "too many logins at the same time for its MaxStartups, or sshd rejects this address", "set MaxStartups 100:30:200 in /etc/ssh/sshd_config on {host}, then run: sudo systemctl reload ssh"),
        Symptom("ssh-max-sessions", "refused a session", "more sessions than MaxSessions on one connection"),
        Symptom("ssh-unreachable", "does not resolve on this machine", "the name is mistyped, or not in DNS or /etc/hosts"),
        Symptom("ssh-unreachable", "connection refused", "the host is up, but no sshd listens"),
        Symptom("ssh-unreachable", "no route to host|unreachable", "the host is off, its network is down, or a firewall rejects the connection"),
        Symptom("command-not-found", "[Pp]ython cannot be started", "that Python is not installed, or not on PATH"),
        Symptom("command-not-found", "ended before the command", "the login shell exits before it runs a command"),
        Symptom("command-not-found", "ended with exit code", "a start-up file of the shell fails, or the user has no shell"),
        Symptom("command-not-found", "did not start ddpkit's process in time", "its Python hangs or is very slow, for example on a file server"),
        Symptom("ssh-unreachable", "sends nothing", "sshd hangs, or another program uses its port"),
        Symptom("ssh-unreachable", "no answer", "the host is off, or a firewall drops the packets"),
        Symptom("ssh-unreachable", "", "the SSH connection failed"),
    ),
    "machine": (Symptom("duplicate-gpu", "", "two names of one machine; their ranks would share ports and GPUs"),),
    "workdir": (
        Symptom("script-missing", "no such file", "the directory is not shared, and was not copied to the node"),
        Symptom("script-missing", "", "this user cannot access it on the node"),
    ),
    "script": (Symptom("script-missing", "", "the directory is not shared, and the node's copy is old or missing"),),
    "tmp": (*FILE_SYSTEM, Symptom("disk-full", "", "ddpkit and the ranks need it for files")),
    "python": (Symptom("versions-differ", "", "pickled objects, compiled code and packages differ between Python versions"),),
    "torch": (
        Symptom("module-missing", "cannot import torch", "its environment has no torch, or is the wrong one"),
        Symptom("versions-differ", "", "different versions of torch fail or hang together"),
    ),
    "gpus": (
        Symptom("invalid-device-ordinal", "DDPKIT_GPUS", "this variable sets the number of GPUs, and is not a number"),
        Symptom("invalid-device-ordinal", "", "more ranks than GPUs: CUDA error: invalid device ordinal"),
    ),
    "master-port": (
        Symptom("port-in-use", "in use", "another program listens on it, for example another run"),
        Symptom("port-in-use", "cannot listen", "this user cannot listen on it", "-o master_port=29500"),
        Symptom("master-name-unknown", "name or service not known|name resolution|not known|no address associated", "the name does not resolve on that node; torch reports only a timeout"),
        Symptom("master-name-unknown", r"resolves to \S+ on that node", "the name resolves to another host on that node"),
        Symptom("master-unreachable", "another program", "another host or program answers"),
        Symptom("master-unreachable", "no answer", "a firewall drops packets to that port"),
        Symptom("master-unreachable", "", "a firewall rejects that port, or the address belongs to another host"),
    ),
    "mesh": (
        Symptom("firewall-drop", "cannot reach a port of any.*no answer", "its own firewall drops outgoing packets, or no route leads back"),
        Symptom("firewall-reject", "cannot reach a port of any", "its own firewall rejects outgoing packets, or it has no route"),
        Symptom("firewall-drop", "no answer", "a firewall drops dynamic ports, which gloo and NCCL use"),
        Symptom("firewall-reject", "", "a firewall rejects dynamic ports, which gloo and NCCL use"),
    ),
}  # fmt: skip

# The command that fixes a failed login, by its cause. `{target}` is user@host, or host.
LOGIN_FIXES: Mapping[str, str] = {
    "changed-key": "find out why it changed: ssh-keygen -F {host}",
    "max-sessions": "sshd -T | grep -i maxsessions",
    "max-startups": "sshd -T | grep -i maxstartups",
    "no-address": "getent ahosts {host}",
    "no-answer": "ping {host}",
    "no-key": "ssh-copy-id {target}",
    "no-name": "correct the name, or add {host} to /etc/hosts on this machine",
    "no-python": "--python PATH; for this node alone python = PATH under [host.{host}] in ddpkit.toml",
    "no-sshd": "on {host}: systemctl status ssh",
    "revoked-key": "ask the administrator of the host",
    "second-factor": "launch from a terminal, and answer as for: ssh {target}",
    "shell-exits": "on the host, end ~/.bashrc early in non-interactive shells: case $- in *i*) ;; *) return ;; esac",
    "unknown-key": "connect once, and compare the fingerprint: ssh {target}",
}

# Reports of the test's ranks, and last lines of ranks that ended.
RANKS = (
    Symptom("duplicate-gpu", "uses the same GPU", "more ranks than GPUs on that node, or each rank uses the first GPU"),
    Symptom("invalid-device-ordinal", "torch sees only", "more ranks than GPUs that they see"),
    Symptom("no-nccl-in-torch", "has no GPU", "the node has none, none is visible, or torch was built without CUDA"),
    Symptom("no-nccl-in-torch", "has no NCCL", "a build of torch without CUDA"),
    Symptom("no-nccl-in-torch", r"without torch\.distributed", "a build of torch for one process"),
    Symptom("store-barrier-timeout", "another process has the same rank", "srun started torchrun for every task, or an earlier job still runs"),
    Symptom("cuda-init-failed", "Error 802", "nvidia-fabricmanager does not run on that node, or its version is not the driver's", "on {host}: systemctl status nvidia-fabricmanager; nvidia-smi"),
    Symptom("cuda-init-failed", "torch cannot use the GPUs|CUDA context", "CUDA does not start on that node: the driver, or another process in it, hangs"),
    Symptom("gpu-lost", "a copy did not end", "that GPU or its driver hangs, or other programs keep it busy"),
    Symptom("gpu-memory-taken", "a copy: .*out of memory", "other programs use the memory of that GPU"),
    Symptom("nccl-mismatch", "loads NCCL", "LD_LIBRARY_PATH or LD_PRELOAD replaces torch's own NCCL"),
    Symptom("port-in-use", "cannot listen", "the port is in use, or the address does not belong to that host"),
    Symptom("uneven-ranks", "ranks on this node"),
    Symptom("nccl-wrong-interface", "Unable to find"),
    Symptom("name-is-loopback", r"127\.0"),
    Symptom("master-name-unknown", "not known|name resolution", "the name does not resolve on that host"),
    Symptom("firewall-reject", "onnection refused", "no program listens, or a firewall rejects the connection"),
    Symptom("master-unreachable", "cannot reach rank 0", "a firewall, or the wrong address"),
    Symptom("ranks-missing", "did not join|never started"),
    Symptom("versions-differ", "has (?:torch|python)", "its Python or its environment differs"),
    Symptom("straggler", "times as long", "heat, throttling, or other work on that node"),
    Symptom("collective-mismatch", "sums are wrong", "memory, an adapter, or a library that changes data"),
    Symptom("module-missing", "cannot import torch", "a library that torch needs is missing or broken on that node"),
    Symptom("module-missing", "No module named"),
    Symptom("peer-died", "ended, or hung"),
    Symptom("firewall-drop", "all_reduce fails with|reach the store", "they cannot reach each other on dynamic ports"),
    Symptom("firewall-drop", "no answer after", "packets are lost, or a rank hangs"),
    Symptom("slurm-node-failure", "ode failure|lost a node", "a node went down"),
    Symptom("slurm-time-limit", "time limit|TIME LIMIT", "the job needs more time than its limit"),
    Symptom("task-launch-failed", "launch failed", "that node's slurmd cannot start a process"),
    Symptom("slurm-preempted", "was preempted", "a job of a higher priority took the nodes"),
)  # fmt: skip

# Entry of a failed stage of the test without a more specific report.
STAGE_ENTRIES: Mapping[str, str] = {
    "ranks": "ranks-missing",
    "gloo": "firewall-drop",
    "gpu-map": "duplicate-gpu",
    "nccl": "collective-timeout",
}

# Answers of a scheduler that rejects a request.
REQUESTS = (
    Symptom("command-not-found", "not found on this machine", "its commands are not on this machine"),
    Symptom("slurm-bad-request", "contact|ommunication|did not answer", "its controller does not answer"),
    Symptom("slurm-bad-request", "wait forever", "no partition is large enough", "sinfo --summarize shows the sizes; request fewer nodes or ranks: -N N -n N"),
    Symptom("step-refused", r"create step|rocessors requested|allocation \w+ has|Requested nodes are busy|Memory required", "the allocation has less, or another step uses it", "squeue --steps; start fewer ranks: -n N, or allocate more: salloc --ntasks-per-node=N"),
    Symptom("slurm-bad-request", "", "the cluster does not have what was requested, or this user has no access to it"),
)  # fmt: skip
