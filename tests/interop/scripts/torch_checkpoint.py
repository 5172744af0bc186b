"""torch.distributed.checkpoint of a model in shards, with its optimizer, into a folder and back. Usage: ... FOLDER"""

import os
import sys
from pathlib import Path

import lesson
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from said import digest, say
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch_fsdp2 import sharded, train


def make(seed, mesh):
    model = sharded(seed, mesh)
    return model, torch.optim.SGD(model.parameters(), lr=lesson.RATE)


def main(folder):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))
    batches = [[part.to(kind) for part in batch] for batch in lesson.mine(mesh.get_rank(), mesh.size())]
    half = len(batches) // 2
    model, optimizer = make(0, mesh)
    losses = train(model, optimizer, batches[:half])
    parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.save(parts, checkpoint_id=folder)
    written = [parameter.full_tensor() for parameter in model.parameters()]
    # As a whole, into a model without shards: each rank reads what all of them wrote.
    whole = lesson.model(1)
    state = {"model": get_model_state_dict(whole)}
    dcp.load(state, checkpoint_id=folder)
    whole.load_state_dict(state["model"])
    # In shards, into another model that goes on from there.
    model, optimizer = make(2, mesh)
    parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.load(parts, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"])
    losses += train(model, optimizer, batches[half:])
    total = torch.tensor([mesh.get_rank() + 1.0], device=kind)
    dist.all_reduce(total, group=mesh.get_group())
    full = [parameter.full_tensor() for parameter in model.parameters()]
    say(
        "torch.distributed.checkpoint",
        torch.__version__,
        rank=mesh.get_rank(),
        local_rank=dist.get_node_local_rank(),
        world_size=mesh.size(),
        main=dist.get_rank() == 0,
        device=full[0].device,
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=full,
        reference=lesson.reference(),
        written=digest(written),
        restored=digest(whole.parameters()),
        writers=sorted(int(path.name.strip("_").partition("_")[0]) for path in Path(folder).glob("*.distcp")),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
