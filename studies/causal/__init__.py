"""Left-to-right models."""
