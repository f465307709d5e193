"""Checks on arguments, for every public door: whatever is not as it should be is an `InputError` that names it."""

from __future__ import annotations

import math
from numbers import Real
from pathlib import Path
from types import UnionType

import numpy
import torch
from torch import Tensor

from drawahead.errors import InputError, short, whole


def number(name: str, value: object, *, least: float = -math.inf, above: float = -math.inf) -> float:
    """`value` as a finite number, not below `least` and above `above`."""
    if isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex():
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {short(value)}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not math.isfinite(given) or given < least or given <= above:
        bound = f"a number above {above:g}" if above > -math.inf else f"a number not below {least:g}"
        wanted = "a finite number" if above == least == -math.inf else bound
        raise InputError(f"{name} must be {wanted}, not {short(value)}")
    return given


def numbers(name: str, value: object) -> tuple[float, ...]:
    """`value` as a tuple of finite numbers."""
    return tuple(number(f"{name}[{i}]", entry) for i, entry in enumerate(_entries(name, value)))


def wholes(name: str, value: object, least: int | None = None) -> tuple[int, ...]:
    """`value` as a tuple of whole numbers."""
    return tuple(whole(f"{name}[{i}]", entry, least) for i, entry in enumerate(_entries(name, value)))


def sizes(name: str, value: object) -> tuple[int, ...]:
    """`value` as a shape: one or more whole numbers, all positive."""
    given = wholes(name, value)
    if not given or min(given) < 1:
        raise InputError(f"{name} must be one or more positive numbers, not {short(given)}")
    return given


def table(name: str, value: object, device: torch.device | str | None = None, *, finite: bool = False) -> Tensor:
    """`value` as a float64 tensor, on a device if one is named; the tensor itself if it is one."""
    try:
        if isinstance(value, Tensor | numpy.ndarray) and torch.as_tensor(value).is_complex():
            raise TypeError("they are complex")
        given = torch.as_tensor(value, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must be a rectangular array of numbers: {str(error)[:200]}") from None
    if finite and not bool(given.isfinite().all()):
        raise InputError(f"{name} must be finite numbers; look for NaN or infinity in it")
    return given


def floating(name: str, value: object) -> torch.dtype:
    """`value`, if it is a dtype of floating-point numbers."""
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise InputError(f"{name} must be a floating-point dtype such as torch.float32, not {short(value)}")
    return value


def place(name: str, value: object) -> torch.device:
    """`value` as a device that is there."""
    try:
        if not isinstance(value, str | torch.device):
            raise TypeError("give a name such as 'cpu', or a torch.device")
        device = torch.device(value)
        torch.empty(0, device=device)
    except (TypeError, ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        raise InputError(f"{name} cannot be {short(value)}: {str(error)[:200]}") from None
    return device


def readable(tensor: Tensor) -> bool:
    """Whether its numbers can be looked at: not while a CUDA graph is captured."""
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def path(name: str, value: object) -> Path:
    """`value` as a path."""
    try:
        return Path(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be a path, not {short(value)}") from None


def instance(name: str, value: object, kind: type | UnionType, wanted: str) -> None:
    """Refuse what is not of this kind; `wanted` says in words what would be."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be {wanted}, not {short(value)}")


def _entries(name: str, value: object) -> tuple[object, ...]:
    if isinstance(value, str | bytes):
        raise InputError(f"{name} must be a sequence of numbers, not {short(value)}")
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be a sequence of numbers, not {short(value)}") from None
