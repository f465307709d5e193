"""Executors: what they cost, and how many GPUs are worth while."""
