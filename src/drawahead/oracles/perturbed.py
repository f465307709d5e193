"""Oracles that are wrong by a known amount: how much of a model's error reaches its samples?

The error is a fixed function of the question. The same conditioning is always answered the same, whatever the batch,
so a noisy oracle is an oracle like any other: every exact sampler draws from *its* chain-rule law.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.denoisers import Denoiser
from drawahead.oracles.tokens import HIDDEN, TokenOracle, WrappedOracle
from drawahead.randomness import Purpose, Stream, checked_seed, philox
from drawahead.validate import number, whole

_MASK = 0xFFFFFFFF


@final
class Noisy(WrappedOracle):
    """`oracle` with every row moved by `error` in total variation.

    A row p becomes (1 - a) p + a on one token, with a such that the total variation is `error`, at most 1/2. The token
    is chosen by a hash of the visible tokens and the position, among those whose probability can rise by so much.
    `toward` names one token for all rows instead, so that errors do not cancel; it gets less where its probability
    already exceeds 1 - `error`.
    """

    def __init__(self, oracle: TokenOracle, error: float, seed: int = 0, *, toward: int | None = None) -> None:
        if not 0 <= number("error", error) <= 0.5:
            raise InputError(f"error must be a total variation between 0 and 1/2, not {error!r}")
        if oracle.vocab_size < 2:
            raise InputError("a law on one token cannot be wrong: the oracle needs a vocab_size of at least 2")
        if toward is not None and not 0 <= whole("toward", toward) < oracle.vocab_size:
            raise InputError(f"toward must be a token, 0 ... {oracle.vocab_size - 1}, not {toward}")
        super().__init__(oracle)
        self.error = float(error)
        self.seed = checked_seed(seed)
        self.toward = toward

    def rows(self, tokens: Tensor) -> Tensor:
        position = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        return self._moved(self.oracle.rows(tokens), self._keys(tokens)[:, None].expand(*tokens.shape), position)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self._moved(self.oracle.rows_at(tokens, context, position), self._keys(tokens)[context], position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        rows = self.oracle.chain_rows(tokens, rank, row, prefix, position)
        return self._moved(rows, self._chain_keys(tokens, rank, row, prefix), position)

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        row = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(prefix)
        rows = self.oracle.path_rows(tokens, rank, prefix, position, last_only)
        return self._moved(rows, self._chain_keys(tokens, rank, row, prefix), position)

    def conditioned(self, **rows: Tensor) -> Noisy:
        return Noisy(self.oracle.conditioned(**rows), self.error, self.seed, toward=self.toward)

    def _moved(self, rows: Tensor, keys: Tensor, position: Tensor) -> Tensor:
        """Rows (..., q) of the conditionings with these keys (...), wrong by `error`."""
        probs = rows.double().exp()
        if self.toward is not None:
            token = torch.full_like(position, self.toward)
        else:
            able = probs <= 1 - self.error + 1e-12  # at least one: the least likely token has at most 1/2
            key = keys.reshape(-1)
            uniform = _stream(key).uniform(Purpose.VALUE, position.reshape(-1)).view(position.shape)
            which = (uniform * able.sum(-1)).long()  # the able token of this number
            token = (able.cumsum(-1) <= which[..., None]).sum(-1)
        rest = 1 - probs.gather(-1, token[..., None])
        share = torch.where(rest > self.error, self.error / rest, float(self.error > 0))
        return ((1 - share) * probs).scatter_add_(-1, token[..., None], share).log()

    def _keys(self, tokens: Tensor) -> Tensor:
        """A 64-bit number for each masked sequence (m,): a sum over its known tokens (Zobrist, 1970)."""
        words = self._words(tokens)
        return words[:, 0] + torch.where(tokens == HIDDEN, 0, words[:, 1:]).sum(1)

    def _chain_keys(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor) -> Tensor:
        """The numbers of the conditionings that show sequence row[c] up to rank prefix[c]."""
        order = torch.nn.functional.pad(rank, (1, 0), value=-2).argsort(dim=1, stable=True)  # evidence first
        sums = self._words(tokens).gather(1, order).cumsum(1)
        return sums[row, (rank < 0).sum(1)[row] + prefix]

    def _words(self, tokens: Tensor) -> Tensor:
        """A 64-bit number for the seed, and one for each token at its position (m, 1 + n). They wrap around in sums."""
        place = torch.arange(self.length + 1, device=tokens.device)
        return _number(self.seed, place, torch.nn.functional.pad(tokens, (1, 0)) & _MASK, 0)


@final
class NoisyDenoiser:
    """`denoiser` with every prediction moved by a vector of norm `error`, in a direction that is a hash of (x, k).

    The hash reads all bits of a state. States that differ in the last one, as the same state may in batches of other
    shapes, have unrelated errors: samples have the law of the noisy chain, but need not repeat bit by bit.
    """

    def __init__(self, denoiser: Denoiser, error: float, seed: int = 0) -> None:
        self.denoiser = denoiser
        self.error = number("error", error, least=0)
        self.seed = checked_seed(seed)

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        prediction = self.denoiser(x, k)
        state = x.flatten(1).double() + 0.0  # -0.0 is 0.0
        bits = state.contiguous().view(torch.int64)
        entry = torch.arange(bits.shape[1], device=x.device)
        keys = _number(self.seed, entry, bits & _MASK, (bits >> 32) & _MASK).sum(1)
        direction = _stream(keys).normal(Purpose.VALUE, k.to(x.device), size=bits.shape[1])
        length: Tensor = direction.norm(dim=1, keepdim=True)
        return prediction.double() + (direction * (self.error / length)).view(x.shape)


def _number(seed: int, place: Tensor, low: Tensor, high: Tensor | int) -> Tensor:
    """A random 64-bit number for each place and content."""
    first, second, *_ = philox(seed & _MASK, (seed >> 32) & _MASK, place, low, high, int(Purpose.KNOWN))
    number: Tensor = (first << 32) | second
    return number


def _stream(keys: Tensor) -> Stream:
    return Stream(torch.stack([keys & _MASK, (keys >> 32) & _MASK], dim=-1))
