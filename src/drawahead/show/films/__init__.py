"""Films: how samples were drawn, one by one against drawahead."""
