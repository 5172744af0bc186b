"""Planted: it saves where it always does, whatever directory it is given."""

from pathlib import Path

from training import Training, main


class Script(Training):
    def __init__(self, _: Path) -> None:
        super().__init__(Path("mine").absolute())


main(Script)
