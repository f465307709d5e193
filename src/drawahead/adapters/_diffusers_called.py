"""A network of a pipeline, called as its loop calls it; and whether two calls are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

_CLOSE = 1e-6
RESIDUALS = ("down_block_additional_residuals", "mid_block_additional_residual")


@final
class Called:
    """A network called by the names of its arguments, with what its ControlNet makes of the same states. Of its output
    only so many channels are used."""

    def __init__(self, network: nn.Module, channels: int, control: nn.Module | None = None) -> None:
        self.network, self.channels, self.control = network, channels, control

    def __call__(self, shown: Tensor, time: Tensor, control: Mapping[str, Any] | None = None, **told: Any) -> Tensor:
        if self.control is not None and control is not None:
            made = self.control(shown, timestep=time, **dict(control) | {"return_dict": False})
            told |= dict(zip(RESIDUALS, made, strict=True))
        answer = self.network(shown, timestep=time, **told)
        output: Tensor = answer[0] if isinstance(answer, tuple) else answer.sample
        return output[:, : self.channels]


def close(one: Tensor, other: Tensor) -> bool:
    return bool((one.double() - other.double()).abs().max() <= _CLOSE * (1 + other.double().abs().max()))


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other or (one.shape == other.shape and torch.equal(one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one is other or one == other)
