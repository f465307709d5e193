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
    """Log-probabilities of the next token along given tokens. Only `rows` must be written; a model with a cache writes
    `cache` and `extend`, too, which promise the same numbers.

    Rows of a condition come as keyword arguments, one row for each sequence.
    """

    vocab_size: int
    """q: the tokens 0 ... q-1 are drawn. A prompt may hold others, if the model knows them."""
    device: torch.device = torch.device("cpu")
    """Where it wants its tokens."""
    max_length: int | None = None
    """How many tokens it can read, the prompt among them; None: any number."""

    def view(self) -> View | None:
        """How its samples look; None: as symbols."""
        return None

    @abc.abstractmethod
    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        """The law of the token after each of `tokens[:, first:]`, given all before it: (b, n) -> (b, n - first, q).

        What stands behind a token may be anything, and may not change its answer.
        """

    def cache(self, rows: int, length: int) -> dict[str, Tensor]:
        """Room for what is kept of `length` tokens of so many sequences: tensors (rows, ...), by name. None of it by
        default: the whole sequence is read in every round."""
        return {}

    def extend(self, cache: dict[str, Tensor], tokens: Tensor, position: Tensor, **condition: Tensor) -> Tensor:
        """Enter tokens (b, s) into the cache at these positions (b, s), over what was there, and answer the law of the
        token after each: (b, s, q).

        A token sees what is entered at positions up to its own. So going back needs nothing: what lies behind is not
        seen until it is written over. Shapes are all this may depend on, so that it can be captured as a CUDA graph.
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
