"""A network of diffusers with what it is told, its guidance and its scheduler's arithmetic, as a denoiser.

A condition of a chain is a flat dictionary of tensors. Networks are told dictionaries in dictionaries, lists, flags:
`Told` keeps the form, and names what has a row for each sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from drawahead.diffusers.schedulers.recipe import Recipe
from drawahead.errors import InputError

Rows = dict[str, Tensor]


@final
@dataclass(frozen=True)
class _Leaf:
    """Stands where a tensor with rows was."""

    name: str


@final
@dataclass(frozen=True, eq=False)
class Told:
    """The form of keyword arguments, for `passes` runs of the network in one batch."""

    form: Any
    passes: int = 1

    @staticmethod
    def apart(arguments: dict[str, Any]) -> tuple[Told, Rows]:
        """The form of what a network is told, and its tensors, which have rows, by name."""
        rows: Rows = {}

        def named(path: Any, value: Any) -> Any:
            if not isinstance(value, Tensor) or not value.dim():
                return value
            name = "__".join(str(key.idx if isinstance(key, pytree.SequenceKey) else key.key) for key in path)
            if name in rows:
                raise InputError(f"condition has two entries that are called {name!r}: rename one of them")
            rows[name] = value
            return _Leaf(name)

        return Told(pytree.tree_map_with_path(named, arguments)), rows

    def together(self, rows: Rows) -> dict[str, Any]:
        """The arguments for states in a batch, all of the first pass, then all of the second."""

        def joined(leaf: _Leaf) -> Tensor:
            return torch.cat([rows[name] for name in of_passes(leaf.name, self.passes)])

        built: dict[str, Any] = pytree.tree_map_only(_Leaf, joined, self.form)
        return built


def of_passes(name: str, passes: int) -> list[str]:
    """The names of a tensor's rows in each pass."""
    return [name] if passes == 1 else [f"{name}__pass{i}" for i in range(passes)]


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
    def scaled(scale: float, rescale: float = 0.0) -> Guidance:
        """Of a pass without the condition, and one with it."""
        return Guidance((1 - scale, scale), rescale)

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
    ) -> None:
        self.network, self.limit, self.told, self.guidance, self.dtype = network, recipe.limit, told, guidance, dtype
        gains = () if recipe.gains is None else recipe.gains
        self.time, self.spread = recipe.plan.time.to(device), recipe.plan.spread is not None
        self.table = torch.cat([recipe.conversion.table(), *(gain[None] for gain in gains)]).to(device)  # (3 or 5, N)

    @property
    def passes(self) -> int:
        return self.told.passes

    def __call__(self, x: Tensor, k: Tensor, **rows: Tensor) -> Any:
        scale = self.table[0, k].view(-1, *(1,) * (x.dim() - 1))
        return self.predicted(x, k, self.ask((x * scale).to(self.dtype), self.time[k], rows))

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

    def ask(self, shown: Tensor, time: Tensor, rows: dict[str, Tensor]) -> Any:
        """One output for each state, of as many passes as there are, all in one batch."""
        passes, channels = self.told.passes, shown.shape[1]
        shown = torch.cat([shown, rows[CHANNELS].to(shown.dtype)], dim=1) if CHANNELS in rows else shown
        shown = torch.cat([shown] * passes) if passes > 1 else shown
        answer = self.network(shown, time.repeat(passes) if passes > 1 else time, **self.told.together(rows))
        output = getattr(answer, "sample", answer[0] if isinstance(answer, tuple) else answer)
        if passes == 1 or not isinstance(output, Tensor) or len(output) != len(shown):
            return output
        outputs = output.unflatten(0, (passes, -1))
        guided = self.guidance(outputs[:, :, :channels])
        rest = outputs[self.guidance.conditional, :, channels:]  # a variance, which is not guided
        return torch.cat([guided, rest], dim=1)
