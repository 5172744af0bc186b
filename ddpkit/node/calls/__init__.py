"""Functions that a launcher calls on a node (`rpc.py`): what is there, and copies to it."""
