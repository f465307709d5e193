"""Every target by name, for the command line, the benchmarks and the conformance tests."""

from __future__ import annotations

from collections.abc import Callable

import torch

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.oracles.tokens import TokenOracle
from drawahead.schedules import DDPM
from drawahead.targets.denoising import DataSet, GaussianMixture, GaussianTarget, Hypercube
from drawahead.targets.dense import DenseLogistic
from drawahead.targets.hard import HardCode
from drawahead.targets.ising import Ising, TreeIsing
from drawahead.targets.markov import MarkovChain
from drawahead.targets.products import MixtureOfProducts, Pairs, PolyaUrns, Product
from drawahead.targets.table import Table
from drawahead.validate import whole
from drawahead.values import dataclass
from drawahead.words import pick


@dataclass(frozen=True)
class NamedTarget:
    """A target, or a diffusion, that only needs a size."""

    name: str
    summary: str
    default_size: int
    make: Callable[[int], TokenOracle | GaussianChain]
    scalable: bool = True
    """Whether benchmarks may ask for thousands of positions."""


def _sticky(n: int) -> TokenOracle:
    return MarkovChain(n, [[0.8, 0.15, 0.05], [0.05, 0.8, 0.15], [0.15, 0.05, 0.8]])


TARGETS: dict[str, NamedTarget] = {
    target.name: target
    for target in (
        NamedTarget("product", "independent tokens, 4 values", 64, lambda n: Product.random(n, q=4)),
        NamedTarget("pairs", "uniform on x1 = x2, x3 = x4, ... (size even)", 64, Pairs),
        NamedTarget("urns", "independent Polya urns on blocks of 16", 64, lambda n: PolyaUrns(n, block=16)),
        NamedTarget("mixture", "mixture of 4 random product distributions", 64, MixtureOfProducts.random),
        NamedTarget("markov", "stationary 3-state Markov chain", 64, _sticky),
        NamedTarget("tree", "Ising model on a random tree, coupling 0.5", 64, TreeIsing.random),
        NamedTarget("ising", "Ising model on a size x size grid, coupling 0.4", 4, lambda n: Ising(n, n), False),
        NamedTarget("table", "random joint distribution of binary tokens", 8, Table.random, False),
        NamedTarget("dense", "dense weak-coupling logistic model, beta 1", 64, DenseLogistic),
        NamedTarget("hard", "our hard instance: hidden Reed-Solomon blocks", 64, HardCode),
    )
}
"""Distributions of tokens."""


def _gaussian(d: int) -> GaussianChain:
    return GaussianChain(GaussianTarget(variances=torch.logspace(-2, 0, d, dtype=torch.float64)))


def _digits(size: int) -> GaussianChain:
    if size != 8:
        raise InputError(f"the digits have size 8, not {size}")
    return GaussianChain(DataSet.digits(), DDPM())


CHAINS: dict[str, NamedTarget] = {
    chain.name: chain
    for chain in (
        NamedTarget(
            "hypercube", "uniform on {-1, +1}^size, plus noise 0.01", 64, lambda d: GaussianChain(Hypercube(d))
        ),
        NamedTarget(
            "modes", "mixture of 20 Gaussians, plus noise 0.01", 64, lambda d: GaussianChain(GaussianMixture.random(d))
        ),
        NamedTarget("gaussian", "Gaussian, variances 0.01 to 1, plus noise 0.01", 64, _gaussian),
        NamedTarget("digits", "scikit-learn's 8x8 digits, their exact denoiser, 1000 steps", 8, _digits),
    )
}
"""Diffusions on targets whose denoiser is known exactly."""


def named(name: str, size: int | None = None) -> TokenOracle | GaussianChain:
    """The target called `name`; `size` is its number of positions, except that a grid or an image counts its side."""
    target = pick("target", name, {**TARGETS, **CHAINS})
    return target.make(target.default_size if size is None else whole("size", size, 1))
