"""Captured rounds: a batch of samples that a GPU takes through a round without asking the CPU anything."""
