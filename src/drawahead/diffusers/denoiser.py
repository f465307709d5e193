"""A network of diffusers with what it is told, its guidance and its scheduler's arithmetic, as a denoiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.arguments import Told
from drawahead.diffusers.schedulers.recipe import Recipe

CHANNELS = "channels"
"""The name of what is put beside a state, in channels of its own."""


@final
@dataclass(frozen=True)
class Guidance:
    """How the outputs of several passes become one: sum of weight * output, and its size drawn back towards that of the
    conditional one by `rescale` (Lin et al. 2024, section 3.4)."""

    weights: tuple[float, ...] = (1.0,)
    rescale: float = 0.0
    conditional: int = -1
    """Which pass has the condition. Its weight does not tell: with a scale below 0.5 it is the smaller one."""

    @staticmethod
    def scaled(scale: float, rescale: float = 0.0, conditional: int = -1) -> Guidance:
        """Of a pass without the condition, and one with it; the other way round, if the first has it."""
        weights = (scale, 1 - scale) if conditional == 0 else (1 - scale, scale)
        return Guidance(weights, rescale, conditional)

    def __call__(self, outputs: Tensor) -> Tensor:
        """Outputs (passes, m, ...) as one (m, ...)."""
        # From the first one on: the order of sums in the pipelines of diffusers.
        guided: Tensor = outputs[0] + sum(
            w * (o - outputs[0]) for w, o in zip(self.weights[1:], outputs[1:], strict=True)
        )
        if not self.rescale:
            return guided
        text = outputs[self.conditional].flatten(1).std(1, correction=1)
        size = (text / guided.flatten(1).std(1, correction=1)).view(-1, *(1,) * (guided.dim() - 1))
        return guided * (self.rescale * size + 1 - self.rescale)


@final
class Denoiser:
    """Scales the state, asks the network, turns its output into a prediction of the data, limits it.

    With x = signal * data + noise * epsilon, and network inputs of unit scale. Nothing here waits for the device.
    """

    def __init__(
        self,
        network: Any,
        recipe: Recipe,
        told: Told,
        guidance: Guidance,
        dtype: torch.dtype,
        device: torch.device,
        time: Tensor | None = None,
        *,
        scales_beside: bool = False,
    ) -> None:
        """`time` (N,) is what the network is told of each step; the scheduler's timesteps, if it is not given.
        `scales_beside` says that what is put beside a state is scaled as the state is."""
        self.network, self.limit, self.told, self.guidance, self.dtype = network, recipe.limit, told, guidance, dtype
        gains = () if recipe.gains is None else recipe.gains
        self.time = (recipe.plan.time if time is None else time).to(device)
        self.spread, self.scales_beside = recipe.plan.spread is not None, scales_beside
        self.table = torch.cat([recipe.conversion.table(), *(gain[None] for gain in gains)]).to(device)  # (3 or 5, N)

    @property
    def passes(self) -> int:
        return self.told.passes

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Any:
        scale = self.table[0, k].view(-1, *(1,) * (x.dim() - 1))
        return self.predicted(x, k, self.ask((x * scale).to(self.dtype), scale, self.time[k], given))

    def predicted(self, x: Tensor, k: Tensor, answer: Any) -> Any:
        """The prediction of the data, and a learned variance beside it, of what a network answered at states."""
        _, skip, out, *gains = self.table[:, k].view(len(self.table), -1, *(1,) * (x.dim() - 1)).unbind()
        if not isinstance(answer, Tensor) or answer.dim() != x.dim() or answer.shape[2:] != x.shape[2:]:
            return answer  # the chain says what is wrong with it
        output, variance = answer.tensor_split([x.shape[1]], dim=1)
        if output.shape != x.shape or (variance.shape[1] > 0) != self.spread:
            return answer
        prediction = skip * x + out * output
        if self.limit is not None:
            limited = self.limit(prediction.flatten(1)).view_as(prediction)
            limited = torch.where(prediction.isfinite(), limited, torch.nan)  # clipped, it would look like an answer
            prediction = gains[0] * prediction + gains[1] * (limited - prediction) if gains else limited
        return torch.cat([prediction, variance.to(prediction.dtype)], dim=1) if self.spread else prediction

    def ask(self, shown: Tensor, scale: Tensor, time: Tensor, given: dict[str, Tensor]) -> Any:
        """One output for each state, of as many passes as there are, all in one batch."""
        passes, channels = self.told.passes, shown.shape[1]
        beside = [given[name] for name in sorted(given) if name == CHANNELS or name.startswith(f"{CHANNELS}__pass")]
        beside = [part * scale for part in beside] if self.scales_beside else beside
        shown = torch.cat([shown] * passes) if passes > 1 else shown
        if beside:
            shown = torch.cat([shown, torch.cat(beside * (passes // len(beside))).to(shown.dtype)], dim=1)
        answer = self.network(shown, time.repeat(passes) if passes > 1 else time, **self.told.together(given))
        output = getattr(answer, "sample", answer[0] if isinstance(answer, tuple) else answer)
        if passes == 1 or not isinstance(output, Tensor) or len(output) != len(shown):
            return output
        outputs = output.unflatten(0, (passes, -1))
        guided = self.guidance(outputs[:, :, :channels])
        rest = outputs[self.guidance.conditional, :, channels:]  # a variance, which is not guided
        return torch.cat([guided, rest], dim=1)
