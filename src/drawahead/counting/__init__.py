"""Distributions with exact counting: subsets, spanning trees, matchings and tilings, and their pictures."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.counting.views import Points, Subgraphs, Tilings

__all__ = ["Points", "Subgraphs", "Tilings"]

doors(__name__)
