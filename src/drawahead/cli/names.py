"""Every name that the command line can draw from: a shipped network, or a target of the registry."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from drawahead import samplers, targets
from drawahead.chains import GaussianChain, TokenChain
from drawahead.cli import own
from drawahead.cli.building import scaled
from drawahead.cli.shipped import SHIPPED, TILINGS, Subject, TargetOptions, in_order, tiling
from drawahead.counting.commands.named import COUNTED, counted
from drawahead.errors import InputError
from drawahead.oracles.tokens import TokenOracle
from drawahead.samplers import Sampler
from drawahead.show.views import view_of
from drawahead.targets import Ising, TreeIsing
from drawahead.words import meant, pick

KNOWN = dict.fromkeys([*SHIPPED, *targets.TARGETS, *targets.CHAINS, *TILINGS, *COUNTED])
"""Every name, in the order in which they are listed."""
_NOTED = 0.1  # seconds of setting up that are worth a line

COUPLED: dict[str, Callable[[int, float], TokenOracle]] = {
    "ising": lambda n, coupling: Ising(n, n, coupling),
    "tree": TreeIsing.random,
}
"""Targets of the registry whose coupling can be asked for."""


def named(name: str, asked: TargetOptions) -> Subject:
    """What is called `name`, with the options asked for; it knows how long that took."""
    began = time.perf_counter()
    subject = _named(name, asked)
    return replace(subject, setup_seconds=time.perf_counter() - began)


def known_as(name: str) -> str:
    """The name of a target whatever its case; of a model of the user's own, as it is."""
    return name if own.is_own(name) else meant(name, KNOWN)


def setup(seconds: float) -> str:
    """A line for the end of a report, where that was long enough to matter."""
    return f"\n  set-up      {seconds:.3f} seconds more, before the first round" if seconds >= _NOTED else ""


def _named(name: str, asked: TargetOptions) -> Subject:
    name = known_as(name)
    if name in SHIPPED:
        asked.only(name, *SHIPPED[name].options)
        return SHIPPED[name].make(asked)
    if name in TILINGS:
        return tiling(name, asked)
    if name in COUNTED or (name == "tree" and asked.graph is not None):
        return counted(name, asked)
    if name not in targets.TARGETS and name not in targets.CHAINS:
        if own.is_own(name):
            return _own(name, asked)
        pick("target", name, KNOWN, f"; for a model of your own: {own.HINT}")
    asked.only(name, "size", *["order"] * (name in targets.TARGETS), *["coupling"] * (name in COUPLED))
    usual = (targets.TARGETS.get(name) or targets.CHAINS[name]).default_size
    size, coupling = asked.size or usual, asked.coupling
    asked = replace(asked, size=size)

    def make(number: int) -> TokenOracle | GaussianChain:
        return targets.named(name, number) if coupling is None else COUPLED[name](number, coupling)

    oracle = scaled(f"{name} of size {size}", make, size, usual)
    chain = oracle if isinstance(oracle, GaussianChain) else in_order(TokenChain(oracle), asked.order)
    return Subject(name, chain, view_of(chain), options=asked.given)


def _own(name: str, asked: TargetOptions) -> Subject:
    """A user's own model."""
    if asked.device or asked.dtype:
        raise InputError("--device and --dtype are for shipped networks: a model of your own has them already")
    asked.only(name, "order", "prompt", "steps")
    chain = own.own(name, prompt=asked.one_prompt, steps=asked.steps)
    if isinstance(chain, TokenChain):
        chain = in_order(chain, asked.order)
    else:
        asked.only(name, "steps")
    return Subject(name, chain, view_of(chain), options=asked.given)


def sampler_named(name: str | None, window: int | None) -> Sampler | None:
    """The sampler asked for; a window alone asks for `Coupled`. None if neither is given."""
    if name is None and window is None:
        return None
    if name is not None and name.lower() == "auto" and window is not None:
        raise InputError("--window does not go with --sampler auto, which chooses its window; name another sampler")
    return samplers.named(name or "coupled", window)
