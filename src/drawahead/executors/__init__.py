"""Where the oracle runs: here, on several devices of this machine, or on a cluster."""

from drawahead.executors.local import Local
from drawahead.executors.ray import Ray
from drawahead.executors.replicas import Replicas

__all__ = ["Local", "Ray", "Replicas"]
