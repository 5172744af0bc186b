"""Parts of the supervisor: its loop, the ranks, their output and failures, and their end."""
