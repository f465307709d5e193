"""The commands that show how samplers work: demo, compare and explain."""
