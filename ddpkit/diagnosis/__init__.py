"""Outcome of a run, its verdict, the analysis of logs, and the catalogue of known failures."""
