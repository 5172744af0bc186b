"""Programs inside the process of a rank, and around it."""
