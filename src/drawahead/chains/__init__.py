"""What is drawn step by step."""

from drawahead.chains.base import Chain
from drawahead.chains.causal import CausalChain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.stacked_plan import StackedPlan
from drawahead.chains.tokens import TokenChain

__all__ = ["CausalChain", "Chain", "GaussianChain", "StackedChain", "StackedPlan", "TokenChain"]
