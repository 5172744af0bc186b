"""Prints in one line what a library reports of its rank, beside the environment: the test compares the two."""

import hashlib
import json
import os
import socket

import torch

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def digest(tensors):
    """One word for the exact values of some tensors."""
    text = b"".join(tensor.detach().to("cpu", torch.float64).numpy().tobytes() for tensor in tensors)
    return hashlib.sha256(text).hexdigest()[:16]


def apart(ours, theirs):
    """The largest difference between two lists of parameters."""
    pairs = zip(ours, theirs, strict=True)
    return max((one.detach().cpu() - other.detach().cpu()).abs().max().item() for one, other in pairs)


def where(device):
    """There is one CPU, which some call cpu:0."""
    return "cpu" if device.type == "cpu" else str(device)


def report(
    library, version, *, rank, local_rank, world_size, main, device, total, losses, parameters, reference, **more
):
    """All of it in the library's own words.

    main: whether it takes this rank for the first one. device: the one that it chose. total: a sum over all ranks, each
    of which gave its rank and 1. parameters: what it trained. reference: the same, trained by one process alone.
    """
    parameters = list(parameters)
    facts = {
        "library": library,
        "version": version,
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "main": main,
        "device": where(torch.device(device)),
        "placed": where(parameters[0].device),
        "total": float(total),
        "losses": [round(float(loss), 6) for loss in losses],
        "parameters": digest(parameters),
        "apart": apart(parameters, reference),
        "host": socket.gethostname(),
        "env": {name: os.environ[name] for name in NAMES if name in os.environ},
        **more,
    }
    print("interop " + json.dumps(facts), flush=True)
