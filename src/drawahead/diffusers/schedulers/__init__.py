"""Schedulers of diffusers as plans of Gaussian steps."""
