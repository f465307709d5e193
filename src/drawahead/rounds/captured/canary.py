"""Whether a model still answers as its captured rounds do: it is asked again what was asked when they were captured.

It finds what no guard can see, such as a file that the model reads; so rarely that it takes a small share of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from drawahead.rounds.captured.recording import record

Ask = Callable[[Any], list[Tensor]]
"""(model) -> its answers about where the rows of a batch stand."""
_SLIGHT = 1e-5  # what it lets pass beside the rounding it has seen


@final
class Canary:
    """A question to a model, captured. Of the model it holds nothing."""

    def __init__(self, ask: Ask, model: Any, device: torch.device, pool: Any) -> None:
        began = time.perf_counter()
        then = self._then = list[Tensor]()

        def asked(model: Any) -> None:
            then[:] = ask(model)

        recording = record(asked, model, device, pool)
        assert recording is not None
        self._recording = recording
        self._rounding = self._apart(ask, model)  # the same model: what rounding does, relative to the size of answers
        self.seconds = time.perf_counter() - began
        """How long it takes."""

    def agrees(self, ask: Ask, model: Any) -> bool:
        """Whether the model, asked now about the next step of every row, answers as it did when that was captured."""
        began = time.perf_counter()
        apart = self._apart(ask, model)
        self.seconds = time.perf_counter() - began
        return apart <= 10 * self._rounding + _SLIGHT

    def _apart(self, ask: Ask, model: Any) -> float:
        """How far the captured answer is from the model's, relative to its size."""
        self._recording.replay()
        apart = 0.0
        for old, new in zip(self._then, ask(model), strict=True):
            size = 1.0 + old.masked_fill(~old.isfinite(), 0.0).abs().amax()
            difference = torch.where(old == new, 0.0, (old - new).abs() / size).nan_to_num(torch.inf)
            apart = max(apart, float(difference.amax()))
        return apart
