"""Backend legacy: torch.distributed.launch on nodes reached over SSH, for old PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddpkit.launchers.containers import option
from ddpkit.launchers.ssh import SshTorchrunAuto


@dataclass(frozen=True, kw_only=True)
class Legacy(SshTorchrunAuto):
    """Nodes reached by SSH; torch.distributed.launch on each, for old PyTorch."""

    starter: Literal["ranks", "torchrun", "legacy"] = option(
        "legacy", "program that starts the ranks of a node: ddpkit itself, torchrun, or torch.distributed.launch"
    )

    name: ClassVar[str] = "legacy"
