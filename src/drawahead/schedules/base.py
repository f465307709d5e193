"""Schedules: the coefficients of a Gaussian chain, x' = A x + B m + S noise, step by step, as frozen values.

Every schedule here turns noise into data by a sequence of states x_k = signal_k Y + noise_k g (in law, for the ideal
continuous process), Y the data and g standard normal. m is the prediction of Y at x_k.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import number
from drawahead.values import dataclass

_SHOWN = 6  # entries of a table in full


class Spread(abc.ABC):
    """How the standard deviations of a step, one for every entry, are computed from an answer.

    A chain splits the noise of such a step: sigma xi becomes sqrt(sigma^2 - s^2) eta + s xi, with s, the plan's own,
    below what the network is expected to answer, and eta noise of its own that is fixed once. Given all eta, every step
    has the covariance s^2 I again. Where a network answers a sigma below s all the same, the step is drawn as it is and
    by itself.
    """

    @abc.abstractmethod
    def read(self, answer: Tensor) -> Tensor:
        """What is kept of an answer (m, d); NaN where it cannot be meant."""

    @abc.abstractmethod
    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        """The standard deviations at `step` (rows, w) of what was kept (rows, w, d)."""

    @abc.abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> Spread:
        """The same with its tensors on another device, or of another dtype."""


@final
@dataclass(frozen=True, eq=False)
class LearnedRange(Spread):
    """An answer v stands for the log variance low + (v + 1) / 2 (high - low) (Nichol, Dhariwal 2021).

    v is meant to lie between -1 and 1, but nothing holds it there.
    """

    low: Tensor  # (N,)
    high: Tensor  # (N,)

    def read(self, answer: Tensor) -> Tensor:
        return answer

    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        low, high = self.low[step][..., None], self.high[step][..., None]
        return torch.exp((low + (kept + 1) / 2 * (high - low)) / 2)

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> LearnedRange:
        return LearnedRange(self.low.to(device, dtype), self.high.to(device, dtype))

    def below(self, headroom: float) -> Tensor:
        """The standard deviation that an answer `headroom` ranges below the lowest one stands for (N,)."""
        return torch.exp((self.low - headroom * (self.high - self.low)) / 2)


@final
@dataclass(frozen=True)
class LearnedVariance(Spread):
    """An answer is the variance itself."""

    def read(self, answer: Tensor) -> Tensor:
        return answer.sqrt()

    def scale(self, kept: Tensor, step: Tensor) -> Tensor:
        return kept

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> LearnedVariance:
        return self


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule worked out: step k of N takes the state x to a_k x + b_k m + s_k noise, m the prediction of the data.

    a, b, s: (N,), the coefficients of each step; s is 0 where a step is deterministic.
    signal, noise: (N + 1,), so that state k is signal_k times the data plus noise_k times a standard normal, ideally.
    time: (N,), the network's time input at each step, such as a timestep or a noise level.
    start: the standard deviation of the first state.
    final: what the last state is multiplied by to give the sample.
    c: (N,), what the prediction of the step *before* is multiplied by; its first entry is 0. None: steps use their own
        prediction alone.
    spread: how the network's answers tell standard deviations, where they do; s then holds lower bounds of them.

    The tensors are float64 to begin with.
    """

    a: Tensor
    b: Tensor
    s: Tensor
    signal: Tensor
    noise: Tensor
    time: Tensor
    start: float
    final: float = 1.0
    c: Tensor | None = None
    spread: Spread | None = None

    def to(self, device: torch.device, dtype: torch.dtype = torch.float64) -> Plan:
        """The same plan with its tensors on another device, or of another dtype."""
        moved = {name: getattr(self, name).to(device, dtype) for name in ("a", "b", "s", "signal", "noise")}
        for name in ("c", "spread"):
            part = getattr(self, name)
            moved[name] = None if part is None else part.to(device, dtype)
        time = self.time.to(device, dtype if self.time.dtype == torch.float64 else None)
        return replace(self, time=time, **moved)

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
    """The steps of a Gaussian chain, apart from its denoiser."""

    def __repr__(self) -> str:
        """As it was made, long tables by their ends."""
        names: list[str] = [field.name for field in fields(self)] if is_dataclass(self) else []
        told = (f"{name}={_by_its_ends(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({', '.join(told)})"

    @abc.abstractmethod
    def plan(self) -> Plan:
        """The coefficients of every step."""

    def adjust(self, prediction: Tensor) -> Tensor:
        """A change to each prediction of Y (m, d) before it is used, such as clipping; part of the distribution."""
        return prediction


def _by_its_ends(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _SHOWN:
        return f"({value[0]!r}, ..., {value[-1]!r})"
    return repr(value)


def falls(values: Sequence[float]) -> bool:
    """Whether each number is below the one before."""
    return all(later < earlier for earlier, later in itertools.pairwise(values))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Given(Schedule):
    """A schedule from your own coefficients, step by step, for chains that no other schedule here describes."""

    steps: Plan

    def __post_init__(self) -> None:
        count = self.steps.a.numel()
        for name, size in (("a", 0), ("b", 0), ("s", 0), ("c", 0), ("time", 0), ("signal", 1), ("noise", 1)):
            table = getattr(self.steps, name)
            if table is not None and (table.shape != (count + size,) or not bool(table.isfinite().all())):
                raise InputError(f"{name} of a plan must be a tensor of {count + size} finite numbers")
        if self.steps.c is not None and bool(self.steps.c[:1].any()):
            raise InputError("c of a plan must begin with 0: the first step has no prediction before it")
        if not count or bool((self.steps.s < 0).any()):
            raise InputError("a plan must have at least one step, and no s below 0")
        number("start", self.steps.start, least=0)
        number("final", self.steps.final)

    def plan(self) -> Plan:
        return self.steps
