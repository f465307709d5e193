"""Perfect matchings of planar graphs."""
