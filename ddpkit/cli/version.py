"""The version of ddpkit."""

__version__ = "0.2.0"
