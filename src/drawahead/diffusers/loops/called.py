"""A network of a pipeline, called as its loop calls it; and whether two calls are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

_CLOSE = 1e-6
RESIDUALS = ("down_block_additional_residuals", "mid_block_additional_residual")


@final
class Called:
    """A network called by the names of its arguments, with what its ControlNet makes of the same states. Of its output
    only so many channels are used."""

    def __init__(self, network: Callable[..., Any], channels: int, control: Callable[..., Any] | None = None) -> None:
        self.network, self.channels, self.control = network, channels, control

    def __call__(self, shown: Tensor, time: Tensor, control: Mapping[str, Any] | None = None, **told: Any) -> Tensor:
        if self.control is not None and control is not None:
            made = self.control(shown, timestep=time, **dict(control) | {"return_dict": False})
            told |= dict(zip(RESIDUALS, made, strict=True))
        answer = self.network(shown, timestep=time, **told)
        output: Tensor = answer[0] if isinstance(answer, tuple) else answer.sample
        return output[:, : self.channels]


def close(one: Tensor, other: Tensor, room: float = _CLOSE) -> bool:
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    one, other = one.double(), other.to(one.device).double()
    return bool((one - other).abs().max() <= room * (1 + other.abs().max()))


def rounding(tensor: Tensor) -> float:
    """How far apart two ways to the same number may end in this precision."""
    return max(_CLOSE, 4 * torch.finfo(tensor.dtype).eps)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same one, or hold the same numbers; objects of ours by all their attributes."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other or (one.shape == other.shape and torch.equal(one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    if one is not other and type(one) is type(other) and type(one).__module__.startswith("drawahead."):
        return equal(vars(one), vars(other))
    return bool(one is other or one == other)
