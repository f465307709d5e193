"""Diffusion policies of robots."""
