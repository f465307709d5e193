"""ProteinMPNN and LigandMPNN."""
