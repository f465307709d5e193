"""Where the oracle runs: here, on several devices of this machine, or on a cluster."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.executors.local import Local
    from drawahead.executors.ray import Ray
    from drawahead.executors.replicas import Replicas

__all__ = ["Local", "Ray", "Replicas"]

doors(__name__)
