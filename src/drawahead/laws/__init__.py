"""One-step laws: what a step of a chain is drawn from."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.laws.base import Law
    from drawahead.laws.categorical import Categorical
    from drawahead.laws.gaussian import Gaussian

__all__ = ["Categorical", "Gaussian", "Law"]

doors(__name__)
