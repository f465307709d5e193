"""What the suite runs over: every registered target, small enough to enumerate, and every registered sampler."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from drawahead.chains import TokenChain
from drawahead.oracles.tokens import TokenOracle
from drawahead.samplers import SAMPLERS, Sampler
from drawahead.targets import (
    DenseLogistic,
    HardCode,
    Ising,
    MixtureOfProducts,
    Pairs,
    PolyaUrns,
    Product,
    Table,
    TreeIsing,
    named,
)
from tests.exactness import averaged_law, joint_law

SMALL: dict[str, TokenOracle] = {
    "product": Product.random(3, q=4),
    "pairs": Pairs(6),
    "urns": PolyaUrns(6, block=4, concentration=0.5),
    "mixture": MixtureOfProducts.random(6, components=3),
    "markov": named("markov", 4),
    "tree": TreeIsing.random(6, coupling=0.8, field=0.2),
    "ising": Ising(2, 3, coupling=0.6, field=0.2),
    "table": Table.random(4, q=3),
    "dense": DenseLogistic(5, beta=2.0),
    "hard": HardCode(5, sizes=[3, 2], thresholds=[2, 1]),
}
"""By the names of the registry. All are far from independent (but the product), and far from uniform."""


def _weights() -> TokenChain:
    """Where the weight of a prefix matters to the residual after it (Block).

    x1 differs from x0 with probability 1/4, and half of the drafts of that are accepted: weight 1/2. The residual of x2
    is then on token 0 alone; with weight 1 it would be on tokens 0 and 1.
    """
    law = torch.zeros(2, 2, 3, dtype=torch.float64)
    for x0, x1 in itertools.product(range(2), repeat=2):
        same = x0 == x1
        share = torch.tensor([0.0, 0.25, 0.75] if same else [0.5, 0.5, 0.0], dtype=torch.float64)
        law[x0, x1] = share * (0.375 if same else 0.125)
    probs = torch.zeros(3, 3, 3, 3, dtype=torch.float64)
    probs[:2, :2, :, 0] = law  # x3 is constant: the last step is never drafted
    return TokenChain(Table(probs), order=[0, 1, 2, 3])


def _residual() -> TokenChain:
    """Where a residual has two tokens, and what is drawn from it shows which noise was used (Stepwise)."""
    probs = torch.zeros(4, 4, 4, dtype=torch.float64)
    probs[0, :, 0] = torch.tensor([0.4, 0.4, 0.1, 0.1], dtype=torch.float64) / 2
    probs[1, :, 0] = torch.tensor([0.1, 0.1, 0.4, 0.4], dtype=torch.float64) / 2
    return TokenChain(Table(probs), order=[0, 1, 2])


def _run_time() -> TokenChain:
    """Where a value's run time depends on what it is (Recursive): ones are rare, so drafts of them are rejected."""
    probs = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
    probs[0, 0, 0, 0], probs[1, 1, 1, 1] = 0.8, 0.2
    return TokenChain(Table(probs), order=[0, 1, 2, 3])


DESIGNED: dict[str, TokenChain] = {"weights": _weights(), "residual": _residual(), "run time": _run_time()}
"""Laws on which a mistake shows that random ones hide; order fixed."""

INCONSISTENT = ("dense",)
"""Targets whose law depends on the order."""


@functools.cache
def small_law(name: str) -> Tensor:
    """The law of `SMALL[name]` drawn in a random order (q^n,)."""
    return averaged_law(SMALL[name]) if name in INCONSISTENT else joint_law(SMALL[name])


def likely(name: str) -> Tensor:
    """The likeliest outcome of `SMALL[name]` (n,): evidence made from it is never impossible."""
    oracle = SMALL[name]
    atom = int(small_law(name).argmax())
    q, n = oracle.vocab_size, oracle.length
    return torch.tensor([atom // q ** (n - 1 - i) % q for i in range(n)])


def variants(sampler: type[Sampler]) -> list[Sampler]:
    """The sampler as it comes, and with each of its options."""
    names = {field.name for field in dataclasses.fields(sampler)}  # type: ignore[arg-type]
    windows = [{}] if "window" not in names else [{"window": w} for w in (None, 1, 2, 3)]
    other = {"pipelined": False} if "pipelined" in names else {"growth": "paper"} if "growth" in names else {}
    return [sampler(**a, **b) for a, b in itertools.product(windows, [{}, other] if other else [{}])]


EXACT = {name: sampler for name, sampler in SAMPLERS.items() if sampler.guarantee.exact}
PLAIN = [sampler() for sampler in EXACT.values()]
"""Every exact sampler as it comes."""
VARIANTS = [variant for sampler in EXACT.values() for variant in variants(sampler)]
SETTINGS = [sampler for sampler in VARIANTS if sampler not in PLAIN]
WINDOWED = [sampler() for sampler in EXACT.values() if sampler.__name__ not in ("Sequential", "Recursive")]


def crossed(names: Iterable[Any], settings: Sequence[Any] = SETTINGS, every: Sequence[Any] = PLAIN) -> list[Any]:
    """(name, sampler): `every` sampler with each of the names, and each of the `settings` with a third of them, such
    that all names have settings in turn. All of them together are for tests marked slow."""
    pairs = [(name, sampler) for name in names for sampler in every]
    return pairs + [
        (name, sampler) for i, name in enumerate(names) for j, sampler in enumerate(settings) if (i + j) % 3 == 0
    ]
