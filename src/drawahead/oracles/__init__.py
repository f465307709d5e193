"""What a model answers: oracles of tokens, denoisers, and what is wrapped around them."""
