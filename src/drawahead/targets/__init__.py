"""Laws with exact oracles."""

from drawahead.targets.denoising import DataSet, GaussianMixture, GaussianTarget, Hypercube
from drawahead.targets.dense import DenseLogistic
from drawahead.targets.determinantal import DPP, SpanningTree
from drawahead.targets.direct import draw_directly
from drawahead.targets.fixed_size import KDPP
from drawahead.targets.hard import HardCode
from drawahead.targets.ising import Ising
from drawahead.targets.markov import MarkovChain
from drawahead.targets.matchings import PlanarMatching
from drawahead.targets.products import MixtureOfProducts, Pairs, Product
from drawahead.targets.registry import CHAINS, TARGETS, NamedChain, NamedTarget, named
from drawahead.targets.table import Table
from drawahead.targets.trees import TreeIsing
from drawahead.targets.urns import PolyaUrns

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
