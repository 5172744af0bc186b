"""Problem: the reason why one host cannot take part, and the error that lists them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddpkit.errors import LaunchError, PreflightError
from ddpkit.launchers.host_names import MOST_HOSTS, format_hosts
from ddpkit.launchers.node_facts import words_of_node


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The reason why one host cannot take part. Words of a node in it stay one line, and add none of ours."""

    host: str
    what: str
    fix: str
    unreachable: bool = False  # the node could not be entered at all
    check: str = "transport"  # which check found it: a key of `TITLES` in `preflight/check.py`

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", words_of_node(self.what))
        object.__setattr__(self, "fix", words_of_node(self.fix))


def _folded(problems: Sequence[Problem]) -> Sequence[Problem]:
    """Return the problems; of very many hosts, those with the same problem as one, and the rare ones first."""
    if len(problems) <= MOST_HOSTS:
        return problems
    alike: dict[str, list[Problem]] = {}
    for problem in problems:
        alike.setdefault(problem.what.replace(problem.host, ""), []).append(problem)
    groups = sorted(alike.values(), key=len)
    return [replace(group[0], host=format_hosts([each.host for each in group])) for group in groups]


def refusal(problems: Sequence[Problem], hosts: int) -> LaunchError | PreflightError:
    """One error that names them all."""
    bad = list(dict.fromkeys(problem.host for problem in problems))
    who = bad[0] if hosts == 1 else f"{len(bad)} of {hosts} nodes"
    lines = [f"{who} failed the checks, and nothing was started:"]
    for problem in _folded(problems):
        lines += [f"  {problem.host}: {problem.what}", f"    hint: {problem.fix}"]
    kind = LaunchError if any(problem.unreachable for problem in problems) else PreflightError
    return kind("\n".join(lines))
