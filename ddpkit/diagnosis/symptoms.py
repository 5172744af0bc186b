"""Symptoms: the entry of the catalogue and the short cause for evidence of ddpkit's own checks, ranks and connections."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Symptom(NamedTuple):
    """What the catalogue knows of one evidence."""

    entry: str = ""  # its id
    text: str = ""  # of the evidence, a regular expression
    cause: str = ""  # empty: the evidence comes with its cause
    fix: str = ""  # if it is better than the fix of the evidence; `{host}` is filled in


def find_symptom(check: str, evidence: str, *, with_cause: bool = False) -> Symptom:
    """Return the first symptom of a check that matches the evidence; an empty one where none does."""
    from ddpkit.diagnosis.catalogue import load

    known = (Symptom(*row) for row in load().checks.get(check, ()))
    matching = (each for each in known if re.search(each.text, evidence) and (each.cause or not with_cause))
    return next(matching, Symptom())


def login_fix(cause: str, host: str, target: str = "") -> str:
    """Return the command that fixes a failed login. `target`: user@host, as in an ssh command."""
    return LOGIN_FIXES[cause].format(host=host, target=target or host)


# The command that fixes a failed login, by its cause. `{target}` is user@host, or host.
LOGIN_FIXES: Mapping[str, str] = {
    "changed-key": "find out why it changed: ssh-keygen -F {host}",
    "max-sessions": "sshd -T | grep -i maxsessions",
    "max-startups": "sshd -T | grep -i maxstartups",
    "no-address": "getent ahosts {host}",
    "no-answer": "ping {host}",
    "no-job": "allocate the nodes first (salloc -N 2), or start through SLURM: ddpkit launch -b slurm",
    "no-key": "ssh-copy-id {target}",
    "no-name": "correct the name, or add {host} to /etc/hosts on this machine",
    "no-python": "--python PATH; for this node alone python = PATH under [host.{host}] in ddpkit.toml",
    "no-sshd": "on {host}: systemctl status ssh",
    "revoked-key": "ask the administrator of the host",
    "second-factor": "launch from a terminal, and answer as for: ssh {target}",
    "shell-exits": "on the host, end ~/.bashrc early in non-interactive shells: case $- in *i*) ;; *) return ;; esac",
    "unknown-key": "connect once, and compare the fingerprint: ssh {target}",
}
