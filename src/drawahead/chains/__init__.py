"""What is drawn step by step."""

from drawahead.chains.base import Chain
from drawahead.chains.causal import CausalChain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.schedules.stacked import StackedPlan

__all__ = ["CausalChain", "Chain", "GaussianChain", "StackedChain", "StackedPlan", "TokenChain"]
