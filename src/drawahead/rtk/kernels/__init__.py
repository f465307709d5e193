"""Kernels: how the state at the end of a segment is drawn, given the one at its start. One algorithm a file."""
