"""Pipelines of diffusers, tiny and with random weights, beside their own loops."""
