"""Planted: a bare except takes the end that a handler asks for."""

import sys

from training import Training, main


class Script(Training):
    def on_signal(self, *_: object) -> None:
        self.save()
        sys.exit(75)

    def train(self, step: int) -> None:
        try:
            super().train(step)
        except:  # noqa: E722
            pass

    def meet(self, step: int) -> None:
        try:
            super().meet(step)
        except:  # noqa: E722
            pass


main(Script)
