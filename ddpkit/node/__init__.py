"""Programs that run on a node: standard library only, Python 3.8 and later, with nothing of ddpkit installed there."""
