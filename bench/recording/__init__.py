"""Faults and healthy runs, each a small function that makes a labelled log."""
