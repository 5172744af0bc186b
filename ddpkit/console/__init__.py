"""Output on the terminal: relayed lines, folded duplicates, the status bar. Imports nothing of ddpkit."""
