"""Protein sequences for structures: ProteinMPNN, LigandMPNN, and design jobs."""
