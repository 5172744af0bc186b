"""Backend ssh-torchrun-auto: nodes reached over SSH that need only sshd, Python and torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ddpkit.launchers.containers import option, ssh_client
from ddpkit.launchers.nodes import Nodes


@dataclass(frozen=True, kw_only=True)
class SshTorchrunAuto(Nodes):
    """Nodes reached by SSH; one torchrun on each, or the starter of `-o starter`."""

    transport: Literal["paramiko", "openssh"] = ssh_client("")
    accept_new_host_keys: bool = option(False, "accept the key of a new host; a changed key is always rejected")

    name: ClassVar[str] = "ssh-torchrun-auto"
    reach: ClassVar[str] = "ssh"
    needs: ClassVar[str] = "passwordless SSH, Python and torch on the nodes"

    @property
    def accepts_new(self) -> bool:
        return self.accept_new_host_keys
