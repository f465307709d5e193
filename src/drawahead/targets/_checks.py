"""The checks every target makes on its arguments, and the random laws the examples are made of."""

from __future__ import annotations

from typing import TypeAlias

import numpy.typing as npt
import torch
from torch import Tensor

from drawahead import inputs
from drawahead.errors import InputError, whole

Array: TypeAlias = Tensor | npt.ArrayLike


def count(value: int, name: str, least: int = 1) -> int:
    """`value`, if it is a whole number not below `least`."""
    return whole(name, value, least)


def number(value: float, name: str) -> float:
    """`value`, if it is a finite number."""
    return inputs.number(name, value)


def array(values: Array, name: str) -> Tensor:
    """`values` as a new float64 tensor, if they are finite numbers in a rectangular array."""
    tensor = inputs.table(name, values, "cpu").detach().clone()
    if not tensor.isfinite().all():
        raise InputError(f"{name} must hold finite numbers only; look for NaN or infinity in it")
    return tensor


def laws(values: Array, name: str, shape: tuple[str, ...], sums_over: int = 1) -> Tensor:
    """`values` with one axis per letter of `shape`, if they are probabilities that sum to 1 over the last axes."""
    probs = array(values, name)
    if probs.ndim != len(shape) or probs.numel() == 0:
        raise InputError(f"{name} must have shape ({', '.join(shape)}) and no empty axis, not {tuple(probs.shape)}")
    if (probs < 0).any():
        raise InputError(f"{name} must not hold negative probabilities; the smallest is {probs.min().item():.3g}")
    total = probs.flatten(-sums_over).sum(-1, keepdim=True)
    if ((total - 1).abs() > 1e-9).any():
        worst = total.flatten()[(total - 1).abs().argmax()].item()
        raise InputError(f"{name} must sum to 1 within 1e-9, not to {worst:.12g}; divide it by its sum, in float64")
    return probs / total.reshape(probs.shape[: probs.ndim - sums_over] + (1,) * sums_over)


def random_laws(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Uniformly random laws on the last axis (Dirichlet with all parameters 1)."""
    mass = torch.empty(shape, dtype=torch.float64).exponential_(generator=generator)
    return mass / mass.sum(-1, keepdim=True)


def seeded(seed: int) -> torch.Generator:
    """A private generator: the global one is never touched."""
    number = count(seed, "seed", least=0)
    if number >= 2**63:
        raise InputError(f"seed must be below 2^63, not {number}")
    return torch.Generator().manual_seed(number)
