"""The example of FSDP2. Shards are not sent from rank 0: all ranks start from the same model."""

import torch
import torch.distributed as dist
from observed import report
from single import load, reference


def main():
    example = load("fsdp2")
    mesh = example.make_mesh()
    model = example.shard(example.make_model(), mesh)
    losses = example.train(model, torch.optim.SGD(model.parameters(), lr=example.RATE), example.batches(mesh))
    held = [parameter.to_local().numel() for parameter in model.parameters()]
    full = [parameter.full_tensor() for parameter in model.parameters()]
    kind = mesh.device_type
    total = torch.tensor([mesh.get_rank() + 1.0], device=kind)
    dist.all_reduce(total, group=mesh.get_group())
    report(
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
        reference=reference(example),
        held=sum(held),
        whole=sum(parameter.numel() for parameter in full),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
