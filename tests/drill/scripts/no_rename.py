"""Planted: a checkpoint is written over the one before."""

from training import Training, main


class Script(Training):
    def save(self) -> None:
        if self.saves():
            self.write(self.path())


main(Script)
