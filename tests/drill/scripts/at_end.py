"""Planted: it saves at its end alone, and has no handler for signals."""

from training import Training, main


class Script(Training):
    every = 1000

    def handle_signals(self) -> None:
        """Have none."""


main(Script)
