"""Determinantal laws: random subsets and spanning trees."""
