"""Distributions with exact oracles, to try samplers on."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.counting.determinantal.direct import draw_directly
    from drawahead.counting.determinantal.fixed_size import KDPP
    from drawahead.counting.determinantal.kernels import DPP, SpanningTree
    from drawahead.counting.matchings.planar import PlanarMatching
    from drawahead.targets.denoising import DataSet, GaussianMixture, GaussianTarget, Hypercube
    from drawahead.targets.dense import DenseLogistic
    from drawahead.targets.hard import HardCode
    from drawahead.targets.ising import Ising, TreeIsing
    from drawahead.targets.markov import MarkovChain
    from drawahead.targets.products import MixtureOfProducts, Pairs, PolyaUrns, Product
    from drawahead.targets.registry import CHAINS, TARGETS, NamedTarget, named
    from drawahead.targets.table import Table

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

doors(__name__)
