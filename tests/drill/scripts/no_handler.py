"""Planted: no handler for signals."""

from training import Training, main


class Script(Training):
    def handle_signals(self) -> None:
        """Have none."""


main(Script)
