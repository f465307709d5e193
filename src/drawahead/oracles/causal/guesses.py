"""First guesses: what a step of a left-to-right model is guessed from before any answer is about it.

A poor one costs rounds, never the law: `Coupled` draws what `Sequential` draws, whatever was guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from drawahead.errors import AnswerError, InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.validate import short, whole
from drawahead.values import dataclass


class FirstGuess:
    """How to guess a step that no answer is about yet: by the law of an earlier step, or by a law made from the tokens
    so far.
    """

    looks_back: bool = False
    """Whether it reads answers from before the last one."""
    reads_tokens: bool = False
    """Whether it has a law of its own."""

    def source(self, prefix: Tensor, position: Tensor) -> Tensor:
        """The step whose answer is used for the step `position`, where `prefix` is the last step with an answer."""
        return prefix

    def rows(self, tokens: Tensor, ahead: Tensor, vocab_size: int) -> Tensor:
        """The law (c, q) of the token `ahead` (c,) places after the last token of each row (c, L), which holds the
        prompt, the tokens drawn or guessed so far, then HIDDEN."""
        raise NotImplementedError


@final
@dataclass(frozen=True)
class LastAnswer(FirstGuess):
    """Guess every later step from the law of the last step that the model has answered."""


@final
@dataclass(frozen=True)
class Above(FirstGuess):
    """Guess from the law of the step `stride` earlier: in an image of that width, the pixel above; in sound with that
    many codebooks, the same codebook one frame earlier."""

    stride: int

    def __post_init__(self) -> None:
        whole("stride", self.stride, 1)

    @property
    def looks_back(self) -> bool:  # type: ignore[override]
        return True

    def source(self, prefix: Tensor, position: Tensor) -> Tensor:
        back = torch.div(position - prefix + self.stride - 1, self.stride, rounding_mode="floor").clamp(min=1)
        above = position - self.stride * back
        return torch.where(above >= 0, above, prefix)


@final
@dataclass(frozen=True)
class Uniform(FirstGuess):
    """Guess all tokens with equal probability."""

    @property
    def reads_tokens(self) -> bool:  # type: ignore[override]
        return True

    def rows(self, tokens: Tensor, ahead: Tensor, vocab_size: int) -> Tensor:
        return torch.full((len(tokens), vocab_size), -math.log(vocab_size), device=tokens.device)


_SURE = 0.95  # of what followed the same tokens before


@final
@dataclass(frozen=True)
class Ngram(FirstGuess):
    """Guess what followed the last `k` tokens where they occurred before, in the prompt or the sample; if they did not,
    guess tokens by how often they occurred.
    """

    k: int = 2

    def __post_init__(self) -> None:
        whole("k", self.k, 1)

    @property
    def reads_tokens(self) -> bool:  # type: ignore[override]
        return True

    def rows(self, tokens: Tensor, ahead: Tensor, vocab_size: int) -> Tensor:
        length, row = tokens.shape[1], torch.arange(len(tokens), device=tokens.device)
        known = (tokens != HIDDEN).sum(1)
        drawn = torch.where(tokens < vocab_size, tokens, HIDDEN)  # a prompt may hold others
        counts = torch.ones(len(tokens), vocab_size + 1, device=tokens.device)
        counts.scatter_add_(1, torch.where(drawn < 0, vocab_size, drawn), torch.ones_like(drawn, dtype=counts.dtype))
        counts = counts[:, :vocab_size]
        place = torch.arange(length, device=tokens.device)
        same = (place < known[:, None] - 1) & (place >= self.k - 1)  # where the last k tokens may have ended before
        for back in range(self.k):
            last = tokens[row, (known - 1 - back).clamp(min=0)]
            same &= tokens.roll(back, 1) == last[:, None]
        same &= (known >= self.k)[:, None]
        end = torch.where(same, place, -1).amax(1)  # the latest one
        period = (known - 1 - end).clamp(min=1)
        at = end + 1 + (ahead - 1) % period  # behind what is known it goes round
        token = drawn[row, at.clamp(max=length - 1)]
        found = (end >= 0) & (token >= 0)
        law = counts / counts.sum(1, keepdim=True)
        point = torch.nn.functional.one_hot(token.clamp(min=0), vocab_size)
        return torch.where(found[:, None], _SURE * point + (1 - _SURE) * law, law).log()


@final
@dataclass(frozen=True)
class _Function(FirstGuess):
    function: Callable[[Tensor, Tensor], Tensor]

    @property
    def reads_tokens(self) -> bool:  # type: ignore[override]
        return True

    def rows(self, tokens: Tensor, ahead: Tensor, vocab_size: int) -> Tensor:
        rows = self.function(tokens, ahead)
        if not isinstance(rows, Tensor) or rows.shape != (len(tokens), vocab_size):
            got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
            raise AnswerError(f"first_guess must return log-probabilities {(len(tokens), vocab_size)}, not {got}")
        return rows


def as_guess(guess: object) -> FirstGuess:
    """A first guess as it may be given."""
    if isinstance(guess, FirstGuess):
        return guess
    if isinstance(guess, type) or not callable(guess):
        raise InputError(
            "first_guess must be LastAnswer(), Above(stride), Uniform(), Ngram(k), or a function (tokens, ahead) -> "
            f"log-probabilities, not {short(guess)}"
        )
    return _Function(guess)
