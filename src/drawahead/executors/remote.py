"""What a driver holds of a model that lives in other processes: its sizes, and nothing to ask."""

from __future__ import annotations

from typing import Never, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.models.condition import Given
from drawahead.models.oracles import TokenOracle


@final
class RemoteOracle(TokenOracle):
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

    def conditioned(self, **rows: Tensor) -> RemoteOracle:
        return self


@final
class RemoteDenoiser:
    """A denoiser, or the oracle of a stacked chain, which only an executor that holds it can ask."""

    def __init__(self, passes: int = 1) -> None:
        self.passes = passes

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Never:
        _refuse()


def without_model(chain: Chain) -> Chain:
    """The same chain on the CPU, without its model: what a driver draws from."""
    if isinstance(chain, TokenChain):
        return chain.replace(oracle=RemoteOracle(chain.oracle), condition=_on_the_cpu(chain.condition))
    if isinstance(chain, GaussianChain):
        condition = _on_the_cpu(chain.condition)
        return chain.replace(denoiser=RemoteDenoiser(chain.passes), device="cpu", condition=condition)
    if isinstance(chain, StackedChain):
        plan, condition = chain.plan.to(torch.device("cpu")), _on_the_cpu(chain.condition)
        return chain.replace(oracle=RemoteDenoiser(), plan=plan, device="cpu", condition=condition)
    raise InputError(f"a {type(chain).__name__} cannot be drawn elsewhere: draw with Local() as the executor")


def _on_the_cpu(given: Given) -> Given:
    return {name: table.cpu() for name, table in given.items()}


def _refuse() -> Never:
    raise InputError("this model lives in the workers of an executor: give sample() that executor, executor=...")
