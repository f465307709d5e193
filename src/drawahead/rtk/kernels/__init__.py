"""Kernels: how the state at the end of a segment is drawn."""
