"""Recursive speculative rejection sampling: the decisions. What follows from them is in `recursion.py`.

Anari, Baronio, Chen, Haqi, Koehler, Li, Vuong, "Parallel sampling via autospeculation" (arXiv 2511.07869).
Symbols: S = [a, b) a segment, mu_S its target law, nu_S the draft (all of S from the answer at a), rho the growth of
the batches of candidates.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Paths
from drawahead.errors import InputError
from drawahead.rounds.threads import Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.recursion import Recursion
from drawahead.samplers.segments import Flags, Ints
from drawahead.validate import number, short

PAPER = "paper"
_FIRST = 8  # the second batch of candidates begins with this one, and the next ones with twice the last
_WIDER = 1.5  # by how much a segment is larger than one that was accepted, or smaller than one that was not


@final
@dataclass(frozen=True)
class Recursive(Sampler):
    """Accept a whole segment at once, or else draw candidates for it by recursing into its halves.

    `growth="paper"` is the algorithm as published: the first segment is the whole sample, and batches of candidates
    grow by rho = one over the depth of the recursion. Otherwise segments are only as large as are accepted about as
    often as not, and candidates run while their segment is still being verified. `growth` is then rho; None: seven
    candidates at once, and then twice as many each time.

    The number of candidates a rejected segment needs has mean 1 / TV(mu_S, nu_S) and a heavy tail; it is reported and
    never capped.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(1/2))", reference="parallel sampling via autospeculation, arXiv 2511.07869"
    )
    growth: float | str | None = None

    def __post_init__(self) -> None:
        if self.growth is None or (isinstance(self.growth, str) and self.growth == PAPER):
            return
        if isinstance(self.growth, str):
            raise InputError(f'growth must be a number, None or "{PAPER}", not {short(self.growth)}')
        # Batches that hardly grow are mostly empty; those that grow at once are the first and the last.
        if not 1e-3 <= number("growth", self.growth) <= 1e3:
            raise InputError(f"growth must be between 0.001 and 1000, not {self.growth}")

    def run(self, paths: Paths) -> Thread:
        if paths.windows_only:
            raise InputError(f"Recursive cannot draw {paths.windows_only}; use Block() or Coupled()")
        return Recursion(self, paths).rounds()

    def accepts_draft(self, uniform: Tensor, log_ratio: Tensor) -> Tensor:
        """Whether to take x ~ nu_S: with probability min(1, mu_S(x) / nu_S(x))."""
        return uniform.log() <= log_ratio

    def accepts_candidate(self, uniform: Tensor, log_ratio: Tensor, index: Ints) -> Tensor:
        """Whether to take y ~ mu_S, candidate number `index`: with probability max(0, 1 - nu_S(y) / mu_S(y))."""
        return uniform < -torch.expm1(-log_ratio)

    def settled(self, running: Ints, has_winner: Flags) -> Flags:
        """Which segments wait for no candidate any more: `running` are under way below the lowest accepted one, or in
        all. Never the one that ends first: run time depends on the value."""
        return np.asarray(running == 0)

    @property
    def eager(self) -> bool:
        """Whether the first candidates begin before it is known that they are needed. Not in the recursion: there
        segments are small and mostly accepted, and every level would multiply the queries."""
        return self.growth != PAPER

    def first_segment(self, length: Ints) -> Ints:
        """How large the first segment of samples of these lengths should be."""
        return length if self.growth == PAPER else np.maximum(4, np.sqrt(length)).astype(np.int64)

    def next_segment(self, size: Ints, accepted: Flags) -> Ints:
        """How large the next one should be. This reads how segments fared that are committed, whose noise is spent."""
        if self.growth == PAPER:
            return size
        smaller = np.maximum(1, np.floor(size / _WIDER))
        return np.where(accepted, np.ceil(size * _WIDER), smaller).astype(np.int64)

    def batch_after(self, index: int, length: int) -> int:
        """One past the last of the candidates that run beside number `index`, the first of its batch, in a sample of
        so many steps."""
        if self.growth is None:
            return max(_FIRST, 2 * index)
        depth = max(1, math.ceil(math.log2(length)))
        return _batch_after(index, 1 + (1 / depth if isinstance(self.growth, str) else self.growth))


@functools.cache
def _batch_after(index: int, growth: float) -> int:
    """The batches are ceil(growth^r) ... ceil(growth^(r + 1)) - 1; empty ones are skipped."""
    ends = (math.ceil(growth**r) for r in itertools.count(max(0, math.floor(math.log(index, growth)) - 1)))
    return next(end for end in ends if end > index)
