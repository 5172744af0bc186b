"""A checkpoint after each second step, and USR1 only saves."""

import signal

from training import Training, main


class Script(Training):
    every = 2

    def on_signal(self, *numbers: object) -> None:
        self.asked = self.asked or numbers[0] == signal.SIGTERM


main(Script)
