"""The whole program: every command's module is imported, and one command line is run."""

from ddpkit.cli import at_rank, drill, explain, launch, live, runs, setup, test
from ddpkit.cli.app import run

__all__ = ["at_rank", "drill", "explain", "launch", "live", "run", "runs", "setup", "test"]
