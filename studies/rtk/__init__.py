"""Reverse transition kernels: how close to a ring of Gaussians every method comes with how many calls."""
