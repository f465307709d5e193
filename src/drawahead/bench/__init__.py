"""Measurements of what samplers cost."""
