"""Symptoms: evidence of ddpkit's own checks, ranks and connections; each names its entry of the catalogue.

The catalogue explains what other programs print. A symptom gives the cause of one evidence in few words, and costs no
import of the catalogue. Pure.
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
    fix: str = ""  # where it is better than the one that comes with the evidence; `{host}` is filled in


UNKNOWN = Symptom("", "")


def find_symptom(symptoms: Iterable[Symptom], evidence: str) -> Symptom:
    """Return the first symptom whose pattern stands in the evidence; `UNKNOWN` where none does."""
    return next((each for each in symptoms if re.search(each.evidence, evidence)), UNKNOWN)


def login_fix(cause: str, host: str, target: str = "") -> str:
    """Return the command that helps where a host cannot be entered. `target`: user@host, as ssh takes it."""
    return LOGIN_FIXES[cause].format(host=host, target=target or host)


# A file system that takes no more.
FILE_SYSTEM = (
    Symptom("disk-full", "no inodes", "all inodes of that file system are used: very many small files"),
    Symptom("disk-full", "space left|quota", "that file system is full"),
    Symptom("disk-full", "read-only", "it is mounted read-only; a disk with errors becomes that by itself", "TMPDIR=FOLDER that can be written to, in {host}'s ~/.bashrc"),
)  # fmt: skip

# A folder of logs that cannot be written to.
LOG_FOLDER = (
    Symptom("disk-full", "quota", "this account's quota there is used up"),
    *FILE_SYSTEM,
    Symptom("disk-full", "denied|not permitted", "this account may not write there"),
    Symptom("disk-full", "", "it is no folder that can be used"),
)

# Problems of nodes before a launch, by the check that finds them.
PROBLEMS: Mapping[str, tuple[Symptom, ...]] = {
    "transport": (
        Symptom("ssh-host-key", "host key is not known", "this account never met the host, and nobody is there to compare the key"),
        Symptom("ssh-host-key", "host key has changed", "another machine answers there, or it was set up anew"),
        Symptom("ssh-host-key", "host key .*revoked", "known_hosts says that this key was stolen or revoked"),
        Symptom("ssh-host-key", "no host key of the kind", "another machine answers there"),
        Symptom("ssh-no-key", "none of the keys|passphrase", "authorized_keys there has no key of this account's, or the user name is another there"),
        Symptom("ssh-max-startups", "before a word was said", "too many log-ins at the same time for its MaxStartups, or sshd refuses this address", "MaxStartups 100:30:200 in /etc/ssh/sshd_config of {host}, then there: sudo systemctl reload ssh"),
        Symptom("ssh-max-sessions", "refused a session", "more sessions than MaxSessions on one connection"),
        Symptom("ssh-unreachable", "does not resolve here", "this machine finds no address for it, in DNS or in its own files", "a line for {host} in /etc/hosts of this machine, or in DNS"),
        Symptom("ssh-unreachable", "connection refused", "the host is up, and no sshd listens there"),
        Symptom("ssh-unreachable", "no route to host|unreachable", "the host is off, its network is down, or a firewall refuses"),
        Symptom("command-not-found", "[Pp]ython cannot be started", "that Python is not there, or not on PATH"),
        Symptom("command-not-found", "ended before it ran our command", "something ends the shell of every log-in before a command runs"),
        Symptom("command-not-found", "ended with exit code", "a start-up file of the shell there fails, or the account has no shell"),
        Symptom("command-not-found", "did not start our program in time", "its Python hangs or is very slow: a file server that does not answer?"),
        Symptom("ssh-unreachable", "says nothing", "sshd hangs, or another program has its port"),
        Symptom("ssh-unreachable", "no answer", "the host is off, or a firewall drops ssh"),
        Symptom("ssh-unreachable", "", "the way in broke"),
    ),
    "machine": (Symptom("duplicate-gpu", "", "two names of one machine: its ranks would share ports and GPUs"),),
    "workdir": (
        Symptom("script-missing", "no such file", "the folder is not shared, and was not copied there"),
        Symptom("script-missing", "", "this account cannot use it there"),
    ),
    "script": (Symptom("script-missing", "", "the folder is not shared, and the copy there is old or missing"),),
    "tmp": (*FILE_SYSTEM, Symptom("disk-full", "", "our supervisor and the workers keep files there")),
    "python": (Symptom("versions-differ", "", "pickled objects and compiled code differ between versions of Python, and so do the packages"),),
    "torch": (
        Symptom("module-missing", "finds no torch", "another environment than on the others, or one without torch"),
        Symptom("versions-differ", "", "two versions of torch do not understand each other, or hang"),
    ),
    "gpus": (
        Symptom("invalid-device-ordinal", "DDPKIT_GPUS", "this variable says how many GPUs there are, and is no number"),
        Symptom("invalid-device-ordinal", "", "more ranks than GPUs: CUDA error: invalid device ordinal"),
    ),
    "master-port": (
        Symptom("port-in-use", "in use", "another program listens there: another run, or one that was left over"),
        Symptom("port-in-use", "cannot listen", "this account may not listen there", "-o master_port=29500, or any above 1023"),
        Symptom("master-name-unknown", "name or service not known|name resolution|not known|no address associated", "that node does not know the name, and torch hides this behind a timeout"),
        Symptom("master-name-unknown", r"means \S+ there", "the name means another host there"),
        Symptom("master-unreachable", "another program", "another host or program answers there"),
        Symptom("master-unreachable", "no answer", "a firewall drops what is sent to that port"),
        Symptom("master-unreachable", "", "a firewall refuses that port, or the address is another host's"),
    ),
    "mesh": (
        Symptom("firewall-drop", "it reaches no port.*no answer", "its own firewall drops what goes out, or there is no way back"),
        Symptom("firewall-reject", "it reaches no port", "its own firewall refuses what goes out, or it has no route"),
        Symptom("firewall-drop", "no answer", "a firewall drops ports that the kernel chooses, and on such gloo and NCCL listen"),
        Symptom("firewall-reject", "", "a firewall refuses ports that the kernel chooses, and on such gloo and NCCL listen"),
    ),
}  # fmt: skip

# The next command where a host cannot be entered, by the cause. `{target}` is what ssh takes: user@host, or host.
LOGIN_FIXES: Mapping[str, str] = {
    "changed-key": "if you know why: ssh-keygen -R {host}",
    "max-sessions": "sshd -T | grep -i maxsessions",
    "max-startups": "sshd -T | grep -i maxstartups",
    "no-address": "getent ahosts {host}",
    "no-answer": "ping {host}",
    "no-key": "ssh-copy-id {target}",
    "no-name": "getent hosts {host}",
    "no-python": "--python PATH, or python = PATH under [host.{host}] in ddpkit.toml",
    "no-sshd": "on {host}: systemctl status ssh",
    "revoked-key": "ask who runs the host",
    "shell-exits": "an exit in ~/.bashrc is for people only: case $- in *i*) ;; *) return ;; esac; or use another key",
    "unknown-key": "ssh to it once and compare: ssh {target}",
}

# Reports of the test's ranks, and last lines of ranks that ended.
RANKS = (
    Symptom("duplicate-gpu", "uses the same GPU", "more ranks than GPUs there, or each rank takes the first one"),
    Symptom("invalid-device-ordinal", "torch sees only", "more ranks than GPUs that they see"),
    Symptom("no-nccl-in-torch", "has no GPU", "none there, none made visible, or a torch without CUDA"),
    Symptom("no-nccl-in-torch", "has no NCCL", "a build of torch without CUDA"),
    Symptom("no-nccl-in-torch", r"without torch\.distributed", "a build of torch for one process"),
    Symptom("store-barrier-timeout", "another process is this rank", "srun started torchrun for every task, or a job lives on"),
    Symptom("rank-not-set", "of PyTorch's variables only", "it was started without a launcher, or with what another left"),
    Symptom("port-in-use", "cannot listen", "the port is taken, or the address is no address of that host"),
    Symptom("uneven-ranks", "ranks on this node"),
    Symptom("nccl-wrong-interface", "Unable to find"),
    Symptom("name-is-loopback", r"127\.0"),
    Symptom("master-name-unknown", "not known|name resolution", "that host does not know the name"),
    Symptom("firewall-reject", "onnection refused", "nobody listens there, or a firewall rejects"),
    Symptom("master-unreachable", "does not reach rank 0", "a firewall, or another address than the one meant"),
    Symptom("ranks-missing", "did not come|never started"),
    Symptom("versions-differ", "has (?:torch|python)", "its Python, or its environment, is another one"),
    Symptom("straggler", "times as long", "heat, throttling, or other work there"),
    Symptom("collective-mismatch", "sums are wrong", "memory, an adapter, or a library that changes data"),
    Symptom("module-missing", "cannot import torch", "a library that torch needs is missing there, or broken"),
    Symptom("module-missing", "No module named"),
    Symptom("peer-died", "ended, or hung"),
    Symptom("firewall-drop", "get on with", "they do not reach each other on the ports that the kernel chooses"),
    Symptom("firewall-drop", "no answer after", "packets are lost, or a rank waits for ever"),
    Symptom("slurm-node-failure", "ode failure|lost a node", "a node went down"),
    Symptom("slurm-time-limit", "time limit|TIME LIMIT", "the job has less time than it takes"),
    Symptom("task-launch-failed", "launch failed", "that node's slurmd cannot start a process"),
    Symptom("slurm-preempted", "was preempted", "a job of a higher priority took the nodes"),
)  # fmt: skip

# The entry of a failed stage of the test for which no report says more.
STAGE_ENTRIES: Mapping[str, str] = {
    "ranks": "ranks-missing",
    "gloo": "firewall-drop",
    "gpu-map": "duplicate-gpu",
    "nccl": "collective-timeout",
}

# Answers of a scheduler that takes no such request.
REQUESTS = (
    Symptom("command-not-found", "there is no", "its commands are not on this machine"),
    Symptom("slurm-bad-request", "contact|ommunication|did not answer", "its controller does not answer", "scontrol ping"),
    Symptom("slurm-bad-request", "node name", "there is no such node", "sinfo --Node lists them: -o nodelist=NAME"),
    Symptom("slurm-bad-request", "account|QOS", "this user may not charge it", "sacctmgr show associations user=$USER lists those that may: -o account=NAME"),
    Symptom("slurm-bad-request", "partition", "there is no such partition", "sinfo --summarize lists them: -o partition=NAME"),
    Symptom("slurm-bad-request", "gres|eneric resource", "no node has that", "sinfo --Node --format='%N %G' lists what nodes have: -o gres=gpu:N"),
    Symptom("step-refused", "create step|rocessors requested|Requested nodes are busy|Memory required", "the allocation has less than that, or another step holds it", "squeue --steps; fewer ranks: -n N, or a larger allocation: salloc --ntasks-per-node=N"),
    Symptom("slurm-bad-request", "wait for ever|odes? (count|configuration)|too many|not available", "no part of the cluster is so large", "sinfo --summarize shows what there is: fewer nodes or ranks, -N N -n N"),
    Symptom("slurm-bad-request", ""),
)  # fmt: skip
