"""Spanning trees, point processes and matchings on the command line."""
