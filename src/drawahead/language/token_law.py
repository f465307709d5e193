"""From a language model's logits to the law a token is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import number, whole


@final
@dataclass(frozen=True)
class TokenLaw:
    """From logits to the law a token is drawn from. It is part of the target: drafts and targets both pass here.

    Forbidden tokens go first; then the temperature; then all but the `top_k` most probable tokens; then all but the
    fewest of those left whose probability reaches `top_p`; what remains is normalised, in float64. Tokens that tie
    with the last one kept are kept too, so that the law does not depend on how a sort breaks ties.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not number("temperature", self.temperature) > 0:
            raise InputError(
                f"temperature must be positive, not {self.temperature}: for the most probable token use top_k=1"
            )
        if self.top_k is not None:
            whole("top_k", self.top_k, 1)
        if self.top_p is not None and not 0 < number("top_p", self.top_p) <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def __call__(self, logits: Tensor, forbidden: Tensor) -> Tensor:
        """Logits (..., q) of any dtype, `forbidden` (q,) -> log-probabilities in float64."""
        scores = logits.to(torch.float64).masked_fill(forbidden, -torch.inf)
        scores = (scores - scores.amax(-1, keepdim=True)) / self.temperature  # from the best: no overflow
        if self.top_k is not None or self.top_p is not None:
            scores = scores.masked_fill(scores < self._least(scores), -torch.inf)
        return scores.log_softmax(-1)

    def _least(self, scores: Tensor) -> Tensor:
        """The score of the last token that is kept (..., 1)."""
        if self.top_k is None:
            best = scores.sort(-1, descending=True).values
        else:
            best = scores.topk(min(self.top_k, scores.shape[-1])).values
        if self.top_p is not None and self.top_p < 1:
            share = best.softmax(-1)
            before = share.cumsum(-1) - share
            best = best.masked_fill(before >= self.top_p, torch.inf)
        return best.amin(-1, keepdim=True)
