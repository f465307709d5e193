"""What a driver holds of a model that lives in other processes: its sizes, and nothing to ask."""

from __future__ import annotations

from typing import Never, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.chains.vectors import VectorChain
from drawahead.errors import InputError
from drawahead.oracles import TokenOracle


@final
class OracleElsewhere(TokenOracle):
    """The sizes and properties of a token oracle. Only an executor that holds the oracle itself can answer for it.

    It cannot tell whether evidence is possible at all: impossible evidence is not refused here as it is elsewhere.
    """

    def __init__(self, oracle: TokenOracle) -> None:
        self.length = oracle.length
        self.vocab_size = oracle.vocab_size
        self.one_pass = oracle.one_pass
        self.rereads = oracle.rereads
        self.bytes_per_query = int(getattr(oracle, "bytes_per_query", 8 * oracle.length * oracle.vocab_size))

    def rows(self, tokens: Tensor) -> Never:
        _refuse()


@final
class DenoiserElsewhere:
    """A denoiser, or the oracle of a stacked chain, which only an executor that holds it can ask."""

    def __call__(self, x: Tensor, k: Tensor) -> Never:
        _refuse()


def elsewhere(chain: Chain) -> Chain:
    """The same chain on the CPU, without its model: what a driver draws from."""
    if isinstance(chain, TokenChain):
        return TokenChain(OracleElsewhere(chain.oracle), order=chain.order, evidence=chain.evidence)
    if isinstance(chain, GaussianChain):
        return GaussianChain(
            DenoiserElsewhere(),
            chain.schedule,
            chain.shape,
            start=_states(chain, chain.start_state),
            known=_states(chain, chain.known),
            record=chain.record,
            dtype=chain.dtype,
        )
    if isinstance(chain, StackedChain):
        return StackedChain(
            DenoiserElsewhere(),
            chain.plan.to(torch.device("cpu")),
            chain.shape,
            start=_states(chain, chain.start_state),
            record=chain.record,
            dtype=chain.dtype,
        )
    raise InputError(f"a {type(chain).__name__} cannot be drawn elsewhere: draw with Local() as the executor")


def _states(chain: VectorChain, flat: Tensor | None) -> Tensor | None:
    return None if flat is None else flat.view(-1, *chain.state_shape).cpu()


def _refuse() -> Never:
    raise InputError("this model lives in the workers of an executor: give sample() that executor, executor=...")
