"""Films: how samples came about, one by one against drawahead."""
