"""Markov chains, in any order."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.cells import every_cell
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import Array, laws, whole


@final
class MarkovChain(TokenOracle):
    """P(x) = initial[x_1] prod_i transition[x_i, x_{i+1}]; without `initial` the chain is stationary.

    Given the rest, X_i depends on the nearest known neighbours alone, l on the left and r on the right:
    P(X_i = v | X_S) is proportional to T^(i-l)[x_l, v] T^(r-i)[v, x_r].
    """

    formula = True

    def __init__(self, n: int, transition: Array, initial: Array | None = None) -> None:
        step = laws("transition", transition, ("q", "q"))
        if step.shape[0] != step.shape[1]:
            raise InputError(f"transition must be square, not {tuple(step.shape)}")
        start = _stationary(step) if initial is None else laws("initial", initial, ("q",))
        if len(start) != len(step):
            raise InputError(f"initial must have {len(step)} entries, as transition has, not {len(start)}")
        self.length, self.vocab_size = whole("n", n, 1), len(step)
        powers = torch.eye(len(step), dtype=torch.float64)[None]  # T^0, T^1, ... (., q, q)
        while len(powers) <= n:
            powers = torch.cat([powers, powers @ (powers[-1] @ step)])
        self.log_marginals = (start @ powers[:n]).log()  # (n, q)
        self.log_onward = powers[: n + 1].log()  # [gap, from, to]
        self.log_back = self.log_onward.mT.contiguous()  # [gap, to, from]
        self.bytes_per_query = 8 * n * (6 + 3 * self.vocab_size)

    def rows(self, tokens: Tensor) -> Tensor:
        return self.rows_at(tokens, *every_cell(tokens))

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        right = _nearest_known_left(tokens.flip(1)).flip(1)[context, position]
        right = torch.where(right < 0, -1, self.length - 1 - right)  # -1: none
        back = self.log_back[(right - position).clamp_min(0), tokens[context, right]]
        back = torch.where((right < 0)[..., None], 0.0, back)
        row = self._log_onward_law(tokens, context, position) + back  # (p, q)
        impossible = (row == -torch.inf).all(-1, keepdim=True)
        return torch.where(impossible, 0.0, row).log_softmax(-1)

    def possible(self, tokens: Tensor) -> Tensor:
        """Whether the known part of each sequence has positive probability, (m,) bool."""
        law = self._log_onward_law(tokens, *every_cell(tokens))  # (m, n, q)
        seen = law.gather(2, tokens.clamp_min(0)[..., None])[..., 0]
        return ((tokens == HIDDEN) | (seen > -torch.inf)).all(1)

    def _log_onward_law(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        """Law of a position given the known ones on its left: (p,), (p,) -> (p, q)."""
        left = _nearest_known_left(tokens)[context, position]
        onward = self.log_onward[position - left.clamp_min(0), tokens[context, left]]
        return torch.where((left < 0)[..., None], self.log_marginals[position], onward)


def _nearest_known_left(tokens: Tensor) -> Tensor:
    """Index of the last known position strictly before each one, -1 if there is none: (m, n) -> (m, n)."""
    index = torch.where(tokens == HIDDEN, -1, torch.arange(tokens.shape[1])).cummax(1).values
    return torch.nn.functional.pad(index[:, :-1], (1, 0), value=-1)


def _stationary(step: Tensor) -> Tensor:
    """The law pi with pi T = pi; transient states get probability exactly zero."""
    q = len(step)
    reaches = (torch.eye(q, dtype=torch.float64) + step > 0).double()
    for _ in range(q.bit_length()):
        reaches = (reaches @ reaches > 0).double()
    recurrent = (reaches <= reaches.T).all(1)
    if not reaches[recurrent][:, recurrent].all():
        raise InputError("transition has more than one stationary distribution: pass the first token's as initial")
    inner = step[recurrent][:, recurrent]
    # Replace one balance equation, redundant in an irreducible chain, by sum(pi) = 1.
    balance = (inner - torch.eye(len(inner), dtype=torch.float64)).T
    balance[-1] = 1
    unit = torch.zeros(len(inner), dtype=torch.float64)
    unit[-1] = 1
    law = torch.zeros(q, dtype=torch.float64)
    law[recurrent] = torch.linalg.solve(balance, unit).clamp_min(0)
    return law / law.sum()
