"""Checks on arguments and on what files hold: whatever is not as it should be is an `InputError` that names it."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias

import numpy
import numpy.typing as npt
import torch
from torch import Tensor

from drawahead.errors import InputError

Array: TypeAlias = Tensor | npt.ArrayLike


def short(value: object) -> str:
    """A value in a message, on one line however long it is."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 80 else shown[:77] + "..."


def whole(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """`value` as an integer in a range, or an InputError that names it."""
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # arrays have __index__, too, and fail only now
        result = None
    if result is None or isinstance(value, bool):
        raise InputError(f"{name} must be a whole number, not {short(value)}")
    if least is not None and result < least:
        raise InputError(f"{name} must be at least {least}, not {short(result)}")
    if most is not None and result > most:
        raise InputError(f"{name} must be at most {most}, not {short(result)}")
    return result


def number(name: str, value: object, *, least: float = -math.inf, above: float = -math.inf) -> float:
    """`value` as a finite number, not below `least` and above `above`."""
    if isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex():
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be a number, not {short(value)}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result) or result < least or result <= above:
        bound = f"a number above {above:g}" if above > -math.inf else f"a number not below {least:g}"
        wanted = "a finite number" if above == least == -math.inf else bound
        raise InputError(f"{name} must be {wanted}, not {short(value)}")
    return result


def numbers(name: str, value: object) -> tuple[float, ...]:
    """`value` as a tuple of finite numbers."""
    return tuple(number(f"{name}[{i}]", entry) for i, entry in enumerate(_entries(name, value)))


def wholes(name: str, value: object, least: int | None = None) -> tuple[int, ...]:
    """`value` as a tuple of whole numbers."""
    return tuple(whole(f"{name}[{i}]", entry, least) for i, entry in enumerate(_entries(name, value)))


def as_shape(name: str, value: object) -> tuple[int, ...]:
    """`value` as a shape: one or more whole numbers, all positive."""
    result = wholes(name, value)
    if not result or min(result) < 1:
        raise InputError(f"{name} must be one or more positive numbers, not {short(result)}")
    return result


def law_precision(value: object, device: torch.device) -> torch.dtype:
    """What laws are worked out in: float64, but where a device has none of it."""
    if value is None:
        return torch.float32 if device.type == "mps" else torch.float64
    if value not in (torch.float32, torch.float64):
        raise InputError(f"law_dtype must be torch.float64 or torch.float32, not {short(value)}")
    if device.type == "mps" and value == torch.float64:
        raise InputError("law_dtype must be torch.float32 on mps, which has no float64")
    return torch.float32 if value == torch.float32 else torch.float64


def as_float64(name: str, value: object, device: torch.device | str | None = None, *, finite: bool = False) -> Tensor:
    """`value` as a float64 tensor, on a device if one is named; the tensor itself if it is one."""
    try:
        if isinstance(value, Tensor | numpy.ndarray) and torch.as_tensor(value).is_complex():
            raise TypeError("they are complex")
        result = torch.as_tensor(value, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputError(f"{name} must be a rectangular array of numbers: {str(error)[:200]}") from None
    if finite and not bool(result.isfinite().all()):
        raise InputError(f"{name} must be finite numbers; look for NaN or infinity in it")
    return result


def copied(name: str, value: Array) -> Tensor:
    """`value` as a new float64 tensor of finite numbers, on the CPU."""
    return as_float64(name, value, "cpu", finite=True).detach().clone()


def laws(name: str, value: Array, shape: tuple[str, ...], sums_over: int = 1) -> Tensor:
    """`value` with one axis per letter of `shape`, if it holds probabilities that sum to 1 over the last axes."""
    probs = copied(name, value)
    if probs.ndim != len(shape) or probs.numel() == 0:
        raise InputError(f"{name} must have shape ({', '.join(shape)}) and no empty axis, not {tuple(probs.shape)}")
    if (probs < 0).any():
        raise InputError(f"{name} must not hold negative probabilities; the smallest is {probs.min().item():.3g}")
    total = probs.flatten(-sums_over).sum(-1, keepdim=True)
    if ((total - 1).abs() > 1e-9).any():
        worst = total.flatten()[(total - 1).abs().argmax()].item()
        raise InputError(f"{name} must sum to 1 within 1e-9, not to {worst:.12g}; divide it by its sum, in float64")
    return probs / total.reshape(probs.shape[: probs.ndim - sums_over] + (1,) * sums_over)


def floating(name: str, value: object) -> torch.dtype:
    """`value`, if it is a dtype of floating-point numbers."""
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise InputError(f"{name} must be a floating-point dtype such as torch.float32, not {short(value)}")
    return value


def as_device(name: str, value: object) -> torch.device:
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


def parsed(what: str, text: bytes) -> Any:
    """The JSON value of a file. Numbers that JSON does not have, and keys given twice, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not readable: {error}") from None


def keys(name: str, value: object, *names: str) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise InputError(f"{name} must be an object, not {short(value)}")
    wrong = sorted({*names} ^ {*value})
    if wrong:
        raise InputError(f"{name} must have the keys {', '.join(names)}: {wrong[0]!r} is missing or too much")
    return value


def count(name: str, value: object, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number in a range that fits into 64 bits."""
    return whole(name, value, least, most)


def text(name: str, value: object, most: int = 100_000) -> str:
    """A string of at most so many characters."""
    if not isinstance(value, str) or len(value) > most:
        raise InputError(f"{name} must be a text of at most {most} characters, not {short(value)}")
    return value


def plain(name: str, value: object) -> Any:
    """The value as JSON would give it back: tuples become lists; what JSON cannot hold is refused."""
    try:
        return json.loads(json.dumps(value, allow_nan=False), object_pairs_hook=_unique)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{name} must be plain numbers, texts, lists and dicts, for a manifest holds them: {error}"
        ) from None


def _entries(name: str, value: object) -> tuple[object, ...]:
    if isinstance(value, str | bytes):
        raise InputError(f"{name} must be a sequence of numbers, not {short(value)}")
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"{name} must be a sequence of numbers, not {short(value)}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a key is given twice")
    return result
