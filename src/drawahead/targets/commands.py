"""The targets of the registry, for `drawahead sample`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from drawahead.chains import GaussianChain, TokenChain
from drawahead.cli.building import scaled
from drawahead.cli.subjects import Entry, Subject, TargetOptions, in_order
from drawahead.oracles.tokens import TokenOracle
from drawahead.show.views import view_of
from drawahead.targets import CHAINS, TARGETS, Ising, TreeIsing

COUPLED: dict[str, Callable[[int, float], TokenOracle]] = {
    "ising": lambda n, coupling: Ising(n, n, coupling),
    "tree": TreeIsing.random,
}
"""Targets with a coupling."""


def entries() -> list[Entry]:
    """The targets and diffusions of the registry."""
    tokens = [
        Entry(name, "tokens", target.summary, _options(name), _make, target.default_size)
        for name, target in TARGETS.items()
    ]
    return tokens + [
        Entry(name, "vectors", chain.summary, ("size",), _make, chain.default_size) for name, chain in CHAINS.items()
    ]


def _options(name: str) -> tuple[str, ...]:
    return ("size", "order", *["coupling"] * (name in COUPLED))


def _make(name: str, options: TargetOptions) -> Subject:
    target = TARGETS.get(name) or CHAINS[name]
    size, coupling = options.size or target.default_size, options.coupling

    def make(number: int) -> TokenOracle | GaussianChain:
        return target.make(number) if coupling is None else COUPLED[name](number, coupling)

    made = scaled(f"{name} of size {size}", make, size, target.default_size)
    chain = made if isinstance(made, GaussianChain) else in_order(TokenChain(made), options.order)
    return Subject(name, chain, view_of(chain), options=replace(options, size=size).given)
