"""The example of transformers' Trainer. Usage: hf_trainer.py DIRECTORY"""

import os
import sys
from pathlib import Path

import torch
import transformers
from observed import report
from single import alone, load

# Not Adam's own 1e-8: a gradient of zero, which rounding makes other than zero, would still give a whole step.
EPSILON = 1e-3


def main(directory):
    example = load("hf_trainer")
    options = {"adam_epsilon": EPSILON, "max_grad_norm": 0.0, "train_sampling_strategy": "sequential"}
    trainer = example.train(Path(directory), seed=int(os.environ["RANK"]), **options)
    arguments = trainer.args
    given = torch.tensor([arguments.process_index + 1.0], device=arguments.device)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    same = example.make_model(0)
    report(
        "transformers Trainer",
        transformers.__version__,
        rank=arguments.process_index,
        local_rank=arguments.local_process_index,
        world_size=arguments.world_size,
        main=trainer.is_world_process_zero(),
        device=arguments.device,
        total=trainer.accelerator.gather(given).sum().item(),
        losses=[losses[0], losses[-1]],
        parameters=trainer.model.parameters(),
        reference=alone(
            example,
            same.train(),
            torch.optim.AdamW(same.parameters(), lr=example.RATE, eps=EPSILON, weight_decay=0.0),
            example.Sentences(),
            loss=lambda learner, batch: learner(**batch).loss,
            shuffle=False,
        ),
        local_main=trainer.is_local_process_zero(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
