"""Known failures as data: symptom, cause, a command that shows it, fix, and a public link.

The preflight, the verdict of a failed run, `ddpkit explain` and TROUBLESHOOTING.md use it.
"""

from ddpkit.diagnosis.catalogue import (
    accelerators,
    clusters,
    containers,
    cuda,
    ddp,
    deaths,
    fabric,
    files,
    frameworks,
    gpu,
    inputs,
    install,
    jobs,
    mpi,
    nccl,
    network,
    node,
    rendezvous,
    runtime,
    services,
    slurm,
    ssh,
    store,
)
from ddpkit.diagnosis.catalogue.entry import Entry

PARTS = {
    "Rendezvous and start-up": rendezvous.ENTRIES + store.ENTRIES,
    "Names, ports and firewalls": network.ENTRIES,
    "GPUs": gpu.ENTRIES + accelerators.ENTRIES,
    "CUDA": cuda.ENTRIES,
    "NCCL and network cards": nccl.ENTRIES + fabric.ENTRIES,
    "Nodes and resources": node.ENTRIES,
    "Files, limits and DataLoader workers": files.ENTRIES,
    "Software versions": install.ENTRIES,
    "SLURM": jobs.ENTRIES + slurm.ENTRIES,
    "SSH, pdsh and terminals": ssh.ENTRIES,
    "DDP, FSDP and tensors": ddp.ENTRIES,
    "Models, trackers, containers and other launchers": services.ENTRIES
    + inputs.ENTRIES
    + containers.ENTRIES
    + clusters.ENTRIES
    + mpi.ENTRIES,
    "Training frameworks": frameworks.ENTRIES,
    "Hangs and failures during training": runtime.ENTRIES,
    "Signals and exit codes": deaths.ENTRIES,
}
ENTRIES = tuple(entry for part in PARTS.values() for entry in part)
BY_ID = {entry.id: entry for entry in ENTRIES}


def category(entry: Entry) -> str:
    """Return the title of an entry's part."""
    return next(title for title, entries in PARTS.items() if entry in entries)


__all__ = ["BY_ID", "ENTRIES", "PARTS", "Entry", "category"]
