"""`ddpkit test`: finds what would hang or fail in a run, over its own backend, environment and container."""
