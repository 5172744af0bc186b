"""The command line: the only room that imports typer or rich, and the only one that prints."""

__version__ = "0.3.0"
