"""Planted: a resume trains the last step again."""

from training import Training, main


class Script(Training):
    def load(self) -> None:
        super().load()
        self.state["step"] = max(0, self.state["step"] - 1)


main(Script)
