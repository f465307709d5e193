"""Whether two values are the same, or as near as rounding allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_CLOSE = 1e-6


def close(one: Tensor, other: Tensor, room: float = _CLOSE) -> bool:
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    one, other = one.double(), other.to(one.device).double()
    return bool((one - other).abs().max() <= room * (1 + other.abs().max()))


def rounding(tensor: Tensor) -> float:
    """How far apart two ways to the same number may end in this precision."""
    return max(_CLOSE, 4 * torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same one, or hold the same numbers; objects of ours by all their attributes."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        same = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
        return one is other or (same and torch.equal(one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    if one is not other and type(one) is type(other) and type(one).__module__.startswith("drawahead."):
        return equal(vars(one), vars(other))
    return bool(one is other or (type(one) is type(other) and one == other))
