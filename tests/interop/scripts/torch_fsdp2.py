"""FSDP2 (`fully_shard`), and `torch.distributed.checkpoint` into a folder and back into another model."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from said import digest, say
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make(seed, mesh):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).to(mesh.device_type)
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main(folder):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))
    model = make(0, mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    random = torch.Generator().manual_seed(dist.get_rank())  # every rank sees data of its own
    losses = []
    for _ in range(20):
        inputs = torch.randn(32, 8, generator=random).to(kind)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
    other = make(1, mesh)
    state = {"model": get_model_state_dict(other)}
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(other, state["model"])
    full = [parameter.full_tensor() for parameter in model.parameters()]
    again = [parameter.full_tensor() for parameter in other.parameters()]
    total = torch.tensor([dist.get_rank() + 1.0], device=kind)
    dist.all_reduce(total, group=mesh.get_group())
    say(
        "torch FSDP2",
        torch.__version__,
        rank=mesh.get_rank(),
        local_rank=mesh.get_local_rank() % int(os.environ["LOCAL_WORLD_SIZE"]),
        world_size=mesh.size(),
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=full,
        restored=digest(again),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
