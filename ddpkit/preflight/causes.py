"""From what keeps a node out (`judge.Problem`) to a finding: its cause in words, and where to read on. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ddpkit.preflight.check import Check
from ddpkit.transports.problem import Problem

# (check, words of the problem, cause, place in TROUBLESHOOTING.md, fix if it is a better one); the first that fits.
_CAUSES: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "transport",
        "host key is not known",
        "this account never met the host, and nobody is there to compare the key",
        "ssh-host-key",
        "",
    ),
    ("transport", "host key has changed", "another machine answers there, or it was set up anew", "ssh-host-key", ""),
    ("transport", "host key .*revoked", "known_hosts says that this key was stolen or revoked", "ssh-host-key", ""),
    ("transport", "no host key of the kind", "another machine answers there", "ssh-host-key", ""),
    (
        "transport",
        "none of the keys|passphrase",
        "authorized_keys there has no key of this account's, or the user name is another there",
        "ssh-no-key",
        "",
    ),
    (
        "transport",
        "before a word was said",
        "too many log-ins at the same time for its MaxStartups, or sshd refuses this address",
        "ssh-max-startups",
        "MaxStartups 100:30:200 in /etc/ssh/sshd_config of {host}, then there: sudo systemctl reload ssh",
    ),
    ("transport", "refused a session", "more sessions than MaxSessions on one connection", "ssh-max-sessions", ""),
    (
        "transport",
        "does not resolve here",
        "this machine finds no address for it, in DNS or in its own files",
        "ssh-unreachable",
        "a line for {host} in /etc/hosts of this machine, or in DNS",
    ),
    ("transport", "connection refused", "the host is up, and no sshd listens there", "ssh-unreachable", ""),
    (
        "transport",
        "no route to host|unreachable",
        "the host is off, its network is down, or a firewall refuses",
        "ssh-unreachable",
        "",
    ),
    ("transport", "[Pp]ython cannot be started", "that Python is not there, or not on PATH", "command-not-found", ""),
    (
        "transport",
        "ended before it ran our command",
        "something ends the shell of every log-in before a command runs",
        "command-not-found",
        "",
    ),
    (
        "transport",
        "ended with exit code",
        "a start-up file of the shell there fails, or the account has no shell",
        "command-not-found",
        "",
    ),
    (
        "transport",
        "did not start our program in time",
        "its Python hangs or is very slow: a file server that does not answer?",
        "command-not-found",
        "",
    ),
    ("transport", "says nothing", "sshd hangs, or another program has its port", "ssh-unreachable", ""),
    ("transport", "no answer", "the host is off, or a firewall drops ssh", "ssh-unreachable", ""),
    ("transport", "", "the way in broke", "ssh-unreachable", ""),
    ("machine", "", "two names of one machine: its ranks would share ports and GPUs", "duplicate-gpu", ""),
    ("workdir", "no such file", "the folder is not shared, and was not copied there", "script-missing", ""),
    ("workdir", "", "this account cannot use it there", "script-missing", ""),
    ("script", "", "the folder is not shared, and the copy there is old or missing", "script-missing", ""),
    ("tmp", "no inodes", "all inodes of that file system are used: very many small files", "disk-full", ""),
    ("tmp", "space left|quota", "that file system is full", "disk-full", ""),
    (
        "tmp",
        "read-only",
        "it is mounted read-only; a disk with errors becomes that by itself",
        "disk-full",
        "TMPDIR=FOLDER that can be written to, in {host}'s ~/.bashrc",
    ),
    ("tmp", "", "our supervisor and the workers keep files there", "disk-full", ""),
    (
        "python",
        "",
        "pickled objects and compiled code differ between versions of Python, and so do the packages",
        "versions-differ",
        "",
    ),
    (
        "torch",
        "finds no torch",
        "another environment than on the others, or one without torch",
        "module-missing",
        "",
    ),
    ("torch", "", "two versions of torch do not understand each other, or hang", "versions-differ", ""),
    (
        "gpus",
        "DDPKIT_GPUS",
        "this variable says how many GPUs there are, and is no number",
        "invalid-device-ordinal",
        "",
    ),
    ("gpus", "", "more ranks than GPUs: CUDA error: invalid device ordinal", "invalid-device-ordinal", ""),
    (
        "master-port",
        "in use",
        "another program listens there: another run, or one that was left over",
        "port-in-use",
        "",
    ),
    (
        "master-port",
        "cannot listen",
        "this account may not listen there",
        "port-in-use",
        "-o master_port=29500, or any above 1023",
    ),
    (
        "master-port",
        "name or service not known|name resolution|not known|no address associated",
        "that node does not know the name, and torch hides this behind a timeout",
        "master-name-unknown",
        "",
    ),
    ("master-port", "means \\S+ there", "the name means another host there", "master-name-unknown", ""),
    ("master-port", "another program", "another host or program answers there", "master-unreachable", ""),
    ("master-port", "no answer", "a firewall drops what is sent to that port", "master-unreachable", ""),
    ("master-port", "", "a firewall refuses that port, or the address is another host's", "master-unreachable", ""),
    (
        "mesh",
        "it reaches no port.*no answer",
        "its own firewall drops what goes out, or there is no way back",
        "firewall-drop",
        "",
    ),
    ("mesh", "it reaches no port", "its own firewall refuses what goes out, or it has no route", "firewall-reject", ""),
    (
        "mesh",
        "no answer",
        "a firewall drops ports that the kernel chooses, and on such gloo and NCCL listen",
        "firewall-drop",
        "",
    ),
    (
        "mesh",
        "",
        "a firewall refuses ports that the kernel chooses, and on such gloo and NCCL listen",
        "firewall-reject",
        "",
    ),
)


def from_problem(problem: Problem) -> Check:
    """A problem, with its cause."""
    fitting = (row[2:] for row in _CAUSES if row[0] == problem.check and re.search(row[1], problem.what))
    cause, doc, fix = next(fitting, ("", "", ""))
    return Check(
        id=problem.check,
        status="fail",
        host=problem.host,
        evidence=problem.what,
        cause=cause,
        fix=fix.format(host=problem.host) or problem.fix,
        doc=doc,
    )


def with_facts(problem: Problem, more: Mapping[str, Any], target: str, master: str) -> Problem:
    """A problem of one node, with what the node's facts add to it. `master`: rank 0's address, as asked for."""
    owner, space = more.get("port_owner"), more["space"].get("tmp")
    if problem.check == "master-port" and owner and "cannot listen" in problem.what:
        what = f"{problem.what} by pid {owner['pid']} ({owner['command']}), user {owner['user']}"
        return replace(problem, what=what, fix="leave -o master_port out: a free one is chosen")
    means = more["names"].get(master) if master else None
    elsewhere = isinstance(means, list) and means != [master]
    if problem.check == "master-port" and elsewhere and "cannot reach" in problem.what:
        return replace(problem, what=f"{problem.what}; {master} means {', '.join(means or ())} there")
    full = problem.check == "tmp" and "no space left" in problem.what
    if full and space and space["inodes"] and not space["inodes_free"]:
        what = f"cannot write to its folder {space['folder']}: no inodes left, with {space['free'] >> 20} MiB free"
        return replace(problem, what=what, fix=f"ssh {target} df -i {space['folder']}")
    return problem
