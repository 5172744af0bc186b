"""Planted: it saves at the end of an epoch only, whatever it was told."""

from training import Training, main


class Script(Training):
    steps, every, epoch = 120, 60, 60

    def should_end(self) -> bool:
        return self.ends and self.state["step"] % self.epoch == 0


main(Script)
