"""The loops of pipelines, read by watching them."""
