"""Every name that the command line can draw from: a shipped network, or a target of the registry."""

from __future__ import annotations

from dataclasses import replace

from drawahead import samplers, targets
from drawahead.chains import GaussianChain, TokenChain
from drawahead.cli import own
from drawahead.cli.shipped import SHIPPED, TILINGS, Subject, TargetOptions, in_order, tiling
from drawahead.errors import InputError
from drawahead.samplers import Sampler
from drawahead.targets import Ising
from drawahead.views import Images, Tokens, Vectors, View, view_of


def named(name: str, asked: TargetOptions) -> Subject:
    """What is called `name`, with the options asked for."""
    if name in SHIPPED:
        asked.only(name, *SHIPPED[name].options)
        return SHIPPED[name].make(asked)
    if name in TILINGS:
        return tiling(name, asked)
    if name not in targets.TARGETS and name not in targets.CHAINS:
        if own.is_own(name):
            return _own(name, asked)
        known = ", ".join([*SHIPPED, *targets.TARGETS, *targets.CHAINS, *TILINGS])
        raise InputError(f"there is no target {name!r}; the targets are {known}; for a model of your own: {own.HINT}")
    asked.only(name, *(("size", "order") if name in targets.TARGETS else ("size",)))
    usual = (targets.TARGETS.get(name) or targets.CHAINS[name]).default_size
    asked = replace(asked, size=asked.size or usual)
    oracle = targets.named(name, asked.size)
    chain = oracle if isinstance(oracle, GaussianChain) else in_order(TokenChain(oracle), asked.order)
    return Subject(name, chain, view_of(chain), options=asked.given)


def _own(name: str, asked: TargetOptions) -> Subject:
    """A user's own model."""
    if asked.device or asked.dtype:
        raise InputError("--device and --dtype are for shipped networks: a model of your own has them already")
    asked.only(name, "order", "prompt", "steps")
    chain = own.own(name, prompt=asked.one_prompt, steps=asked.steps)
    view: View
    if isinstance(chain, TokenChain):
        chain = in_order(chain, asked.order)
        view = view_of(chain) if isinstance(chain.oracle, Ising) else Tokens(chain.oracle.vocab_size)
    else:
        asked.only(name, "steps")
        view = Images() if isinstance(chain, GaussianChain) and len(chain.shape) == 2 else Vectors()
    return Subject(name, chain, view, options=asked.given)


def sampler_named(name: str | None, window: int | None) -> Sampler | None:
    """The sampler asked for; a window alone asks for `Coupled`. None if neither is given."""
    if name is None and window is None:
        return None
    if name == "auto" and window is not None:
        raise InputError("--window does not go with --sampler auto, which chooses its window; name another sampler")
    return samplers.named(name or "coupled", window)
