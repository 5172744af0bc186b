"""Programs that run on a node: standard library only, Python 3.8."""
