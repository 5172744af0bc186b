"""Planted: a resume skips a step."""

from training import Training, main


class Script(Training):
    def load(self) -> None:
        super().load()
        self.state["step"] += self.state["step"] > 0


main(Script)
