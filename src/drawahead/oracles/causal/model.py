"""What a left-to-right model must answer, once, for every sampler."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.errors import AnswerError

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
