"""Step-by-step speculation: accept drafts one by one, correct the first rejected one.

Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding" (ICML 2023), with the model's
own stale answers as draft: De Bortoli et al., "Accelerated diffusion models via speculative sampling" (2025).
"""

from __future__ import annotations

from typing import ClassVar, final

import torch
from torch import Tensor

from drawahead.samplers.base import Guarantee
from drawahead.samplers.window import Window, WindowSampler, leading
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class Stepwise(WindowSampler):
    """Keep step i with probability min(1, target/draft); draw the first rejected one from (target - draft)_+.

    `window` fixes the number of drafted steps (None adapts it to what was committed); `pipelined=False` spends a
    round of its own on every draft.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(2/3))", reference="speculative sampling, arXiv 2211.17192 and 2501.05370"
    )
    window: int | None = None
    pipelined: bool = True

    def judge(self, window: Window) -> tuple[Tensor, Tensor]:
        log_ratio = window.verified.log_ratio(window.draft, window.guess)
        kept = leading((window.uniform.log() <= log_ratio) & window.used)
        return kept, window.corrected(kept, torch.zeros(len(kept), dtype=window.noise.dtype, device=kept.device))
