"""The version of ddpkit."""

__version__ = "0.1.0"
