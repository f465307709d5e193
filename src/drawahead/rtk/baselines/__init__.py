"""What RTK is measured against: the reverse process itself in small steps, on the same interface."""

from drawahead.rtk.baselines.corrected import DPOM, DPUM
from drawahead.rtk.baselines.reverse import DDPM, ProbabilityFlow

__all__ = ["DDPM", "DPOM", "DPUM", "ProbabilityFlow"]
