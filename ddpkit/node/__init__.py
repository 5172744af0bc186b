"""What runs on a node. Each file here stands alone (standard library, Python 3.8 and later) and may be sent there."""
