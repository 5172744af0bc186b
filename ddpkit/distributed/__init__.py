"""What runs inside every rank: who it is, and the process group."""
