"""Language models of transformers."""
