"""ddpkit starts an unmodified PyTorch script on one machine, over SSH or pdsh, or through SLURM."""

__version__ = "0.1.0"
