"""Determinantal distributions: random subsets and spanning trees."""
