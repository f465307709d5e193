"""Seconds on a GPU."""
