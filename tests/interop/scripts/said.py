"""Prints in one line what a library says of its rank, beside what the environment says: the test compares the two."""

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


def say(library, version, *, rank, local_rank, world_size, total, losses, parameters, **more):
    """`total` is a sum over all ranks, each of which gave its rank and 1, made by the library's own means."""
    said = {
        "library": library,
        "version": version,
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "total": float(total),
        "losses": [round(float(loss), 6) for loss in losses],
        "parameters": digest(parameters),
        "host": socket.gethostname(),
        "env": {name: os.environ[name] for name in NAMES if name in os.environ},
        **more,
    }
    print("interop " + json.dumps(said), flush=True)
