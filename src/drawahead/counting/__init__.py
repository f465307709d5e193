"""Laws whose probabilities are counted: subsets, spanning trees, matchings and tilings, and how they look."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.counting.dominoes import Tilings
    from drawahead.counting.graphs import Points, Subgraphs

_HOMES = {"Points": "counting.graphs", "Subgraphs": "counting.graphs", "Tilings": "counting.dominoes"}

__all__ = ["Points", "Subgraphs", "Tilings"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _HOMES)
