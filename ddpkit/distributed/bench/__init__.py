"""Parts of the collectives benchmark (`ddpkit/distributed/collectives.py`), which is sent to nodes with them."""
