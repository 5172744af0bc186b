"""FSDP2: `fully_shard` on each layer and on the whole, over a mesh of all ranks."""

import os

import lesson
import torch
import torch.distributed as dist
from said import say
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def sharded(seed, mesh):
    model = lesson.model(seed).to(mesh.device_type)
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(kind, (int(os.environ["WORLD_SIZE"]),))  # it takes the device from LOCAL_RANK
    model = sharded(0, mesh)  # shards are not sent from rank 0: all begin alike
    optimizer = torch.optim.SGD(model.parameters(), lr=lesson.RATE)
    batches = ([part.to(kind) for part in batch] for batch in lesson.mine(mesh.get_rank(), mesh.size()))
    losses = train(model, optimizer, batches)
    here = [parameter.to_local().numel() for parameter in model.parameters()]
    full = [parameter.full_tensor() for parameter in model.parameters()]
    total = torch.tensor([mesh.get_rank() + 1.0], device=kind)
    dist.all_reduce(total, group=mesh.get_group())
    say(
        "torch FSDP2",
        torch.__version__,
        rank=mesh.get_rank(),
        local_rank=dist.get_node_local_rank(),
        world_size=mesh.size(),
        main=dist.get_rank() == 0,
        device=full[0].device if kind == "cpu" else torch.device(kind, torch.cuda.current_device()),
        total=total.item(),
        losses=[losses[0], losses[-1]],
        parameters=full,
        reference=lesson.reference(),
        held=sum(here),
        whole=sum(parameter.numel() for parameter in full),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
