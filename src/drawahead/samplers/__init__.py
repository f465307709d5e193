"""Ways to draw from a chain. All exact ones give the same law; they differ in rounds and queries."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.samplers.base import Guarantee, Sampler
    from drawahead.samplers.block import Block
    from drawahead.samplers.coupled import Auto, Coupled
    from drawahead.samplers.picard import Picard
    from drawahead.samplers.record import SAMPLERS, named
    from drawahead.samplers.recursive import Recursive
    from drawahead.samplers.separated import Separated
    from drawahead.samplers.sequential import Sequential
    from drawahead.samplers.stepwise import Stepwise

__all__ = [
    "SAMPLERS",
    "Auto",
    "Block",
    "Coupled",
    "Guarantee",
    "Picard",
    "Recursive",
    "Sampler",
    "Separated",
    "Sequential",
    "Stepwise",
    "named",
]

doors(__name__)
