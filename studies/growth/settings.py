"""Which samplers are run on which token targets, at which lengths, how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from drawahead.chains import Chain, TokenChain
from drawahead.samplers import Block, Coupled, Recursive, Sampler, Sequential, Stepwise
from drawahead.targets import TARGETS, HardCode

SEQUENTIAL_SIZE = 256  # beyond this its n rounds and n queries are written down, not measured
RECURSIVE_SIZE = 256


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    sizes: tuple[int, ...]
    most_samples: int
    recursive_seconds: float
    """For one length on one target: the recursion's heavy tail is cut there, and said to be cut."""


SAMPLERS: dict[str, Callable[[int], Sampler]] = {
    "sequential": lambda n: Sequential(),
    "recursive": lambda n: Recursive(),
    "stepwise": lambda n: Stepwise(),
    "stepwise, not pipelined": lambda n: Stepwise(pipelined=False),
    "block": lambda n: Block(),
    "block, not pipelined": lambda n: Block(pipelined=False),
    "coupled": lambda n: Coupled(),
    "coupled, window n": lambda n: Coupled(window=n),
}
HARD_IN_ORDER = "hard, decoded in order"
"""The target "hard", with another answer to what is impossible."""
FIXED_ORDER = ("sequential", "stepwise", "block", "coupled", "coupled, window n")


class Setting(Protocol):
    """One sampler on one target, at every length."""

    @property
    def target(self) -> str: ...

    @property
    def sampler(self) -> str: ...

    @property
    def order(self) -> str: ...

    def chain(self, n: int) -> Chain: ...

    def make_sampler(self, n: int) -> Sampler: ...

    def num_samples(self, n: int) -> int: ...


@dataclass(frozen=True)
class TokenSetting:
    """One sampler on one token target."""

    target: str
    sampler: str
    order: str = "random"
    """`random`, or `left to right`."""

    def chain(self, n: int) -> TokenChain:
        """The chain of length n."""
        oracle = HardCode(n, in_order=True) if self.target == HARD_IN_ORDER else TARGETS[self.target].make(n)
        return TokenChain(oracle, order=range(n) if self.order != "random" else None)

    def make_sampler(self, n: int) -> Sampler:
        """The sampler for length n."""
        return SAMPLERS[self.sampler](n)

    def num_samples(self, n: int) -> int:
        """Fewer where each takes longer; there rounds vary less, relative to their mean."""
        if self.sampler == "recursive":
            return 16
        if self.sampler == "coupled, window n" and n > 1024:
            return 2 if n > 2048 else 4
        return 32 if n <= 256 else 16 if n <= 1024 else 8 if n <= 2048 else 4
