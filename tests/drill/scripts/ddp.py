"""The training of this directory, with ranks that meet in a collective of torch."""

from __future__ import annotations

import torch
import torch.distributed as dist
from training import Training, main


class Collectives(Training):
    steps = 400

    def meet(self, step: int) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo")
        asked = torch.tensor([int(self.asked)])
        dist.all_reduce(asked)
        self.ends = bool(asked)


if __name__ == "__main__":
    main(Collectives)
