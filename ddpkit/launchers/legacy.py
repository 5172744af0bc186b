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
        "legacy", "how each node starts its ranks: one process per rank, torchrun, or torch.distributed.launch"
    )

    name: ClassVar[str] = "legacy"
