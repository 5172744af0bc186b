"""The version of ddpkit."""

__version__ = "0.3.0"
