"""The example of Accelerate. Nothing but the environment tells Accelerate that no GPU exists."""

import accelerate
import torch
from accelerate import Accelerator
from observed import report
from single import fail_in_second_epoch, load, reference


def main():
    example = load("accelerate")
    accelerator = Accelerator()
    fail_in_second_epoch(example)
    model, losses = example.train(accelerator, seed=accelerator.process_index)
    given = torch.tensor([accelerator.process_index + 1.0], device=accelerator.device)
    report(
        "Accelerate",
        accelerate.__version__,
        rank=accelerator.process_index,
        local_rank=accelerator.local_process_index,
        world_size=accelerator.num_processes,
        main=accelerator.is_main_process,
        device=accelerator.device,
        total=accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=model.parameters(),
        reference=reference(example, shuffle=False),
        local_main=accelerator.is_local_main_process,
    )
    accelerator.end_training()


if __name__ == "__main__":
    main()
