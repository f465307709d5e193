"""Left-to-right models: what one must answer, and what a step is guessed from before any answer is about it.

A causal model answers the law of the next token after every token it is given, so one pass over a guessed window
answers every step of it. It says nothing about later tokens: there a first guess stands in. A poor one costs rounds,
never the law: `Coupled` draws what `Sequential` draws, whatever was guessed.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.errors import AnswerError
from drawahead.oracles.tokens import HIDDEN
from drawahead.validate import whole
from drawahead.values import dataclass

if TYPE_CHECKING:
    from drawahead.show import View

SAME = 1e-3
"""How far answers may be apart, in total variation, that later tokens must not change."""


class CausalOracle(abc.ABC):
    """A left-to-right model: log-probabilities of the next token after each token of a sequence. Only `rows` must be
    written; a model with a cache also writes `cache` and `extend`, which must return the same numbers.

    Rows of a condition come as keyword arguments, one row for each sequence.
    """

    vocab_size: int
    """q: the tokens 0 ... q-1 are drawn. A prompt may hold others, if the model knows them."""
    device: torch.device = torch.device("cpu")
    """Where it wants its tokens."""
    max_length: int | None = None
    """How many tokens it can read, the prompt among them; None: any number."""

    def view(self) -> View | None:
        """The view that shows its samples; None shows symbols."""
        return None

    @abc.abstractmethod
    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        """The law of the token after each of `tokens[:, first:]`, given all before it: (b, n) -> (b, n - first, q).

        Later tokens may be anything and must not change the answer.
        """

    def cache(self, rows: int, length: int) -> dict[str, Tensor]:
        """An empty cache for `length` tokens of so many sequences: tensors (rows, ...), by name. By default there is
        none, and every round reads the whole sequence."""
        return {}

    def extend(self, cache: dict[str, Tensor], tokens: Tensor, position: Tensor, **condition: Tensor) -> Tensor:
        """Write tokens (b, s) into the cache at these positions (b, s), replacing earlier ones, and return the law of
        the token after each: (b, s, q). A token attends to positions up to its own, so wrong guesses need not be
        removed: later positions are not read until they are overwritten. Control flow may depend on shapes only, so
        that the call can be captured as a CUDA graph.
        """
        raise NotImplementedError(f"{type(self).__name__} has a cache, but no extend()")


@final
class CausalFunction(CausalOracle):
    """A plain callable `tokens (b, n) -> log-probabilities (b, n, q)` of the next token after each."""

    def __init__(self, function: Callable[..., Tensor], vocab_size: int, device: torch.device) -> None:
        self.function, self.vocab_size, self.device = function, vocab_size, device

    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        answers = self.function(tokens, **condition)
        if not isinstance(answers, Tensor) or answers.shape[:2] != tokens.shape or answers.dim() != 3:
            got = tuple(answers.shape) if isinstance(answers, Tensor) else type(answers).__name__
            raise AnswerError(
                f"the model must answer log-probabilities {(*tokens.shape, self.vocab_size)} (sequences, tokens, "
                f"vocabulary), not {got}"
            )
        return answers[:, first:]


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


def as_guess(guess: FirstGuess | Callable[[Tensor, Tensor], Tensor]) -> FirstGuess:
    """A first guess as it may be given."""
    return guess if isinstance(guess, FirstGuess) else _Function(guess)
