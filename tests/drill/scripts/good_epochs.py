"""Epochs of steps, and their numbers in each line."""

from training import RANK, Training, main


class Script(Training):
    def tell(self, step: int) -> None:
        if RANK == 0:
            print(f"Epoch {step // 20 + 1}: batch {step % 20 + 1}/20, loss={self.state['weight']}", flush=True)


main(Script)
