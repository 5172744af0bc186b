"""Versions of NCCL in the logs of a run, where they differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ddpkit.diagnosis.line_prefixes import speaker_of_line

_VERSION = re.compile(r"\b[NR]CCL version ?:? (\d+\.\d+\.\d+)")
MOST_LINES = 200  # with a version, of one log


def differing_versions(logs: Iterable[Sequence[str]]) -> str:
    """Return `2.19.3 and 2.20.5 on node2`, with hosts where the lines have them; empty where there is one version."""
    hosts: dict[str, str] = {}
    for lines in logs:
        for line in [each for each in lines if "CCL version" in each][:MOST_LINES]:
            version = _VERSION.search(line)
            if version:
                hosts[version[1]] = hosts.get(version[1]) or speaker_of_line(line).host
    if len(hosts) < 2:
        return ""
    words = [f"{version} on {host}" if host else version for version, host in hosts.items()]
    return ", ".join(words[:-1]) + f" and {words[-1]}"
