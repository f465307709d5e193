"""Laws with exact oracles."""

from typing import TYPE_CHECKING

from drawahead.doors import doors
from drawahead.targets.denoising import DataSet, GaussianMixture, GaussianTarget, Hypercube
from drawahead.targets.dense import DenseLogistic
from drawahead.targets.hard import HardCode
from drawahead.targets.ising import Ising
from drawahead.targets.markov import MarkovChain
from drawahead.targets.products import MixtureOfProducts, Pairs, Product
from drawahead.targets.registry import CHAINS, TARGETS, NamedChain, NamedTarget, named
from drawahead.targets.table import Table
from drawahead.targets.trees import TreeIsing
from drawahead.targets.urns import PolyaUrns

if TYPE_CHECKING:  # what type checkers and editors see; they are counted, and loaded when they are used
    from drawahead.counting.determinantal.direct import draw_directly
    from drawahead.counting.determinantal.fixed_size import KDPP
    from drawahead.counting.determinantal.kernels import DPP, SpanningTree
    from drawahead.counting.matchings.planar import PlanarMatching

_COUNTED = {
    "DPP": "counting.determinantal.kernels",
    "KDPP": "counting.determinantal.fixed_size",
    "PlanarMatching": "counting.matchings.planar",
    "SpanningTree": "counting.determinantal.kernels",
    "draw_directly": "counting.determinantal.direct",
}

__all__ = [
    "CHAINS",
    "DPP",
    "KDPP",
    "TARGETS",
    "DataSet",
    "DenseLogistic",
    "GaussianMixture",
    "GaussianTarget",
    "HardCode",
    "Hypercube",
    "Ising",
    "MarkovChain",
    "MixtureOfProducts",
    "NamedChain",
    "NamedTarget",
    "Pairs",
    "PlanarMatching",
    "PolyaUrns",
    "Product",
    "SpanningTree",
    "Table",
    "TreeIsing",
    "draw_directly",
    "named",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _COUNTED)
