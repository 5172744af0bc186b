"""State of the code of a run: its git commit, and the versions of Python, torch, CUDA and NCCL on each node."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from urllib.parse import urlsplit

from ddpkit.launchers.node_facts import RecordedFacts
from ddpkit.run.timeline import LaunchFile, TimelineFile

LIMIT = 20.0  # seconds for git: it runs beside the launch


@dataclass(frozen=True, kw_only=True)
class Code:
    """Git commit of the working directory."""

    commit: str  # empty: there is none yet
    branch: str  # empty: none is checked out
    dirty: bool  # tracked files differ from the commit
    remote: str  # URL of `origin`, without user, password and query; empty: none


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Versions on one node. Empty: not known, or not there."""

    python: str = ""
    torch: str = ""
    cuda: str = ""
    nccl: str = ""


def read_code(workdir: str) -> Code | None:
    """Ask git for the state of a directory; None where it is in no repository, or git is slow or absent."""
    lines = _git(workdir, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if lines is None:
        return None
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and line.count(" ") >= 2)
    commit, branch = heads.get("branch.oid", ""), heads.get("branch.head", "")
    return Code(
        commit="" if commit == "(initial)" else commit,
        branch="" if branch == "(detached)" else branch,
        dirty=any(not line.startswith("#") for line in lines),
        remote=without_secrets(next(iter(_git(workdir, "config", "--get", "remote.origin.url") or ()), "")),
    )


def _git(workdir: str, *words: str) -> list[str] | None:
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=workdir,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # another git may want to write
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def without_secrets(url: str) -> str:
    """Remove user, password and query from a URL: `https://x:token@host/a.git` becomes `https://host/a.git`."""
    if "://" not in url:
        user, at, rest = url.partition("@")  # git@host:path; a path on this machine may have an @
        return rest if at and "/" not in user else url
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def node_versions(launch: LaunchFile | None, timeline: TimelineFile | None) -> dict[str, Versions]:
    """Versions by host: those that a rank reported after `import torch`, else those that the node reported before."""
    versions = {host: _surveyed(facts) for host, facts in (launch or {}).get("nodes", {}).items()}
    for rank in (timeline or {}).get("ranks", {}).values():
        words = rank.get("versions")
        if words and len(words) == 4:
            python, torch, cuda, nccl = ("" if word == "-" else str(word) for word in words)
            before = versions.get(rank.get("host", ""), Versions())
            versions[rank.get("host", "")] = Versions(
                python=python if python.count(".") == 2 or not before.python else before.python,
                torch=torch,
                cuda=cuda or before.cuda,
                nccl=nccl or before.nccl,
            )
    return {host: each for host, each in versions.items() if each != Versions()}


def _surveyed(facts: RecordedFacts) -> Versions:
    torch = facts.get("torch")
    return Versions(python=facts.get("python") or "", torch=(torch.get("version") if torch else None) or "")
