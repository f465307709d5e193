"""One-step laws: what a step of a chain is drawn from."""

from drawahead.laws.base import Law
from drawahead.laws.categorical import Categorical
from drawahead.laws.gaussian import Gaussian

__all__ = ["Categorical", "Gaussian", "Law"]
