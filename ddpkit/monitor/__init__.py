"""Stack dumps, resource samples and hang detection for a run that is still running."""
