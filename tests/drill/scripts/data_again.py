"""Planted: a resume reads its data from the beginning."""

from training import Training, main


class Script(Training):
    seen = 0

    def data(self, step: int) -> int:
        self.seen += 1
        return super().data(self.seen)


main(Script)
