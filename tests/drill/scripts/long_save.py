"""Planted: a save takes longer than the grace period of the tests."""

from training import Training, main


class Script(Training):
    every, piece = 1000, 2.5


main(Script)
