"""`ddpkit test` and `ddpkit bench`: checks before a launch, and the programs of their ranks."""
