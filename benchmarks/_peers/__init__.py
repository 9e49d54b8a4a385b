"""The packages that `peers.py` compares, and the odd skills it tries on them."""
