"""Every name that the command line can draw from: a shipped network, or a target of the registry."""

from __future__ import annotations

from drawahead import targets
from drawahead.chains import GaussianChain, TokenChain
from drawahead.cli import tilings
from drawahead.cli.shipped import SHIPPED, Asked, in_order
from drawahead.cli.subjects import Images, Subject, Tokens, Vectors
from drawahead.errors import InputError


def named(name: str, asked: Asked) -> Subject:
    """What is called `name`, with the options asked for."""
    if name in SHIPPED:
        asked.only(name, *SHIPPED[name].options)
        return SHIPPED[name].make(asked)
    if name in tilings.SHAPES:
        return tilings.made(name, asked)
    if name not in targets.TARGETS and name not in targets.CHAINS:
        known = ", ".join([*SHIPPED, *targets.TARGETS, *targets.CHAINS, *tilings.SHAPES])
        raise InputError(f"there is no target {name!r}; the targets are {known}")
    asked.only(name, *(("size", "order") if name in targets.TARGETS else ("size",)))
    oracle = targets.named(name, asked.size)
    if not isinstance(oracle, GaussianChain):
        return Tokens(name, in_order(TokenChain(oracle), asked.order))
    return Images(name, oracle) if len(oracle.shape) == 2 else Vectors(name, oracle)
