"""The checkpoint of the FSDP2 example: written in shards, read as a whole and in shards. Usage: ... DIRECTORY"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from observed import digest, report
from single import load, reference
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_state_dict, set_state_dict


def make(example, seed, mesh):
    model = example.shard(example.make_model(seed), mesh)
    return model, torch.optim.SGD(model.parameters(), lr=example.RATE)


def main(directory):
    example = load("fsdp2")
    mesh = example.make_mesh()
    batches = list(example.batches(mesh))
    half = len(batches) // 2
    model, optimizer = make(example, 0, mesh)
    losses = example.train(model, optimizer, batches[:half])
    example.save(model, optimizer, directory)
    written = [parameter.full_tensor() for parameter in model.parameters()]
    # As a whole, into a model without shards: each rank reads what all of them wrote.
    whole = example.make_model(1)
    state = {"model": get_model_state_dict(whole)}
    dcp.load(state, checkpoint_id=directory)
    whole.load_state_dict(state["model"])
    # In shards, into another model that continues from there.
    model, optimizer = make(example, 2, mesh)
    parts = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
    dcp.load(parts, checkpoint_id=directory)
    set_state_dict(model, optimizer, model_state_dict=parts["model"], optim_state_dict=parts["optimizer"])
    losses += example.train(model, optimizer, batches[half:])
    total = torch.tensor([mesh.get_rank() + 1.0], device=mesh.device_type)
    dist.all_reduce(total, group=mesh.get_group())
    full = [parameter.full_tensor() for parameter in model.parameters()]
    report(
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
        reference=reference(example),
        written=digest(written),
        restored=digest(whole.parameters()),
        writers=sorted(int(path.name.strip("_").partition("_")[0]) for path in Path(directory).glob("*.distcp")),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
