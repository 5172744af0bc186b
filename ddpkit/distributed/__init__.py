"""Modules of every rank: the resolver of its environment, the process group, and rank programs."""
