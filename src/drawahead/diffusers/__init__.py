"""diffusers: networks, schedulers and pipelines, read by what they do."""
