"""`drawahead design`."""
