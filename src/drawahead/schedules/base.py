"""Schedules: the coefficients of a Gaussian chain, x' = A x + B m + S noise, step by step, as frozen values.

Every schedule here turns noise into data by a sequence of states x_k = signal_k Y + noise_k g (in law, for the ideal
continuous process), Y the data and g standard normal. m is the prediction of Y at x_k.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass

import torch
from torch import Tensor

from drawahead.schedules.spread import Spread

_SHOWN = 6  # entries of a table in full


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule worked out: tensors over the N steps, float64 to begin with."""

    a: Tensor  # (N,)
    b: Tensor  # (N,)
    s: Tensor  # (N,); zero where the step is deterministic
    signal: Tensor  # (N + 1,)
    noise: Tensor  # (N + 1,)
    time: Tensor  # (N,) what a network is told at each step
    start: float
    """The standard deviation of the first state."""
    final: float = 1.0
    """What the last state is multiplied with."""
    c: Tensor | None = None  # (N,) what the prediction at the state before is multiplied with; none at the first step
    spread: Spread | None = None
    """How answers tell standard deviations, where they do: `s` is then what is hoped to lie below all of them."""

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> Plan:
        """The same plan with its tensors on another device, or of another dtype."""
        time = self.time.to(device, dtype if self.time.dtype == torch.float64 else None)
        a, b, s, signal, noise = (
            tensor.to(device, dtype) for tensor in (self.a, self.b, self.s, self.signal, self.noise)
        )
        c = None if self.c is None else self.c.to(device, dtype)
        spread = None if self.spread is None else self.spread.to(device, dtype)
        return Plan(a, b, s, signal, noise, time, self.start, self.final, c, spread)

    @property
    def tilt(self) -> Tensor:
        """Seen from x_k, the data has the law mu(y) exp(<y, tilt x_k> - snr |y|^2 / 2), normalised (N,)."""
        noise = self.noise[:-1]
        return torch.where(noise > 0, self.signal[:-1] / noise**2, 1.0)

    @property
    def snr(self) -> Tensor:
        noise = self.noise[:-1]
        return torch.where(noise > 0, (self.signal[:-1] / noise) ** 2, 0.0)


class Schedule(abc.ABC):
    """What a Gaussian chain is made of, apart from its denoiser."""

    def __repr__(self) -> str:
        """As it was made, long tables by their ends."""
        names: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        told = (f"{name}={_by_its_ends(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(told)})"

    @abc.abstractmethod
    def plan(self) -> Plan:
        """The coefficients of every step."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """What is done to a prediction of Y (m, d) before it is used; part of the law."""
        return prediction


def _by_its_ends(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _SHOWN:
        return f"({value[0]!r}, ..., {value[-1]!r})"
    return repr(value)


def falls(numbers: Sequence[float]) -> bool:
    """Whether each number is below the one before."""
    return all(later < earlier for earlier, later in itertools.pairwise(numbers))
