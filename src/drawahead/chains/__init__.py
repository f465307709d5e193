"""What is drawn step by step."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.chains.base import Chain
    from drawahead.chains.causal import CausalChain
    from drawahead.chains.gaussian import GaussianChain
    from drawahead.chains.stacked import StackedChain
    from drawahead.chains.tokens import TokenChain
    from drawahead.schedules.stacked import StackedPlan

__all__ = ["CausalChain", "Chain", "GaussianChain", "StackedChain", "StackedPlan", "TokenChain"]

doors(__name__)
