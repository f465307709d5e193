"""Weights of the networks that drawahead ships, with a card beside each. `drawahead.networks` loads them."""
