"""Other people's samplers beside drawahead's, on their own protocols: speculative trees, Picard, parareal, solvers."""
