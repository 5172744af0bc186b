"""The record of a run: folder, status, logs, tmux session, timeline, report."""
