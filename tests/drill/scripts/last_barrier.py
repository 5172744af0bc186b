"""Planted: rank 0 waits for the others after they have ended."""

from training import RANK, Training, main


class Script(Training):
    def finish(self) -> None:
        super().finish()
        if RANK == 0:
            self.meet(self.steps + 1)


main(Script)
