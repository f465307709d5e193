"""What a driver holds of a model that lives in other processes: its sizes, and nothing to ask."""

from __future__ import annotations

from typing import Never, final

from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.tokens import TokenOracle


@final
class RemoteOracle(TokenOracle):
    """The sizes and properties of a token oracle. Only an executor that holds the oracle itself can answer for it.

    It cannot tell whether evidence is possible at all: impossible evidence is not refused here as it is elsewhere.
    """

    def __init__(self, oracle: TokenOracle) -> None:
        self.length = oracle.length
        self.vocab_size = oracle.vocab_size
        self.one_pass, self.formula = oracle.one_pass, oracle.formula
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


def _refuse() -> Never:
    raise InputError("this model lives in the workers of an executor: give sample() that executor, executor=...")
