"""Auto-regressive diffusion: what it learns beside joint diffusion, how wrong it is, and what it costs."""
