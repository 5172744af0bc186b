"""Backend pdsh: nodes reached with the pdsh program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ddpkit.launchers.containers import option
from ddpkit.launchers.nodes import Nodes


@dataclass(frozen=True, kw_only=True)
class Pdsh(Nodes):
    """Nodes reached through the pdsh program; one torchrun on each, or the starter of `-o starter`."""

    pdsh_args: str = option("", "extra options for pdsh")

    name: ClassVar[str] = "pdsh"
    reach: ClassVar[str] = "pdsh"
    needs: ClassVar[str] = "pdsh and ssh on this machine; passwordless SSH, Python and torch on the nodes"
