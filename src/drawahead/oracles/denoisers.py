"""The denoiser: what a diffusion model must answer, once, for every sampler.

A denoiser is a callable `(x, k) -> prediction of the data`: x is (m, *shape), k (m,) says which step of the schedule
each state is at, and one call mixes steps freely. The prediction has the shape of x; where the schedule has a learned
variance, twice its channels, and what the variance is read from comes second. Networks trained to predict
something else, and told a timestep instead of a step number, are converted here, at the border.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.validate import law_precision

if TYPE_CHECKING:
    from drawahead.schedules import Plan, Schedule

Denoiser = Callable[..., Tensor]
"""(x, k, **condition) -> prediction."""
Network = Callable[[Tensor, Tensor], Tensor] | Callable[..., Tensor]
"""(x, time, **condition) -> output, with the schedule's own time labels. The first kind tells editors what a lambda is
given; the second takes conditions."""


class DenoisingTarget(abc.ABC):
    """A law on vectors whose conditional mean is known exactly."""

    shape: tuple[int, ...]
    radius: float
    """An R with |y - mean| of about R sqrt(d) at most: where a localization grid turns geometric."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: vectors of shape {getattr(self, 'shape', '?')}>"

    def _repr_html_(self) -> str:
        from drawahead.show.notebook import of_oracle  # what people look at comes last

        return of_oracle(self)

    @abc.abstractmethod
    def mean(self, x: Tensor, t: Tensor) -> Tensor:
        """E[Y | Y + g / sqrt(t) = x / t], float64, for x (m, d) and t (m,).

        Equally, the mean of the law mu(y) exp(<y, x> - t |y|^2 / 2), normalised: at t = 0 and x = 0, of mu itself.
        """

    def denoiser(self, schedule: Schedule) -> Denoiser:
        """This target as a denoiser for a schedule."""
        plans = _Plans(schedule)

        def denoise(x: Tensor, k: Tensor) -> Tensor:
            plan = plans[x.device]
            return self.mean(plan.tilt[k, None] * x.flatten(1).double(), plan.snr[k]).view(x.shape)

        return denoise


def from_data_prediction(network: Network, schedule: Schedule) -> Denoiser:
    """A network that predicts the data itself from (x, time)."""
    return _converted(network, schedule, lambda x, output, signal, noise: output)


def from_epsilon(network: Network, schedule: Schedule) -> Denoiser:
    """A network that predicts the noise in x = signal * data + noise level * epsilon."""
    return _converted(network, schedule, lambda x, output, signal, noise: (x - noise * output) / signal)


def from_velocity(network: Network, schedule: Schedule) -> Denoiser:
    """A network that predicts v = signal * epsilon - noise level * data (for signal^2 + noise^2 = 1)."""
    return _converted(network, schedule, lambda x, output, signal, noise: signal * x - noise * output)


def from_score(network: Network, schedule: Schedule) -> Denoiser:
    """A network that predicts the score of the law of x."""
    return _converted(network, schedule, lambda x, output, signal, noise: (x + noise**2 * output) / signal)


def _converted(
    network: Callable[..., Tensor], schedule: Schedule, convert: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
) -> Denoiser:
    plans = _Plans(schedule)

    def denoise(x: Tensor, k: Tensor, **given: Tensor) -> Tensor:
        plan = plans[x.device]
        output = network(x, plan.time[k], **given)
        # In float64, where there is any: the conversion loses nothing to the network's dtype.
        wide = law_precision(None, x.device)
        signal, noise = (values[k].view(-1, *(1,) * (x.dim() - 1)) for values in (plan.signal, plan.noise))
        if plan.spread is None:
            return convert(x.to(wide), output.to(wide), signal, noise)
        data, spread = output.to(wide).tensor_split([x.shape[1]], dim=1)
        return torch.cat([convert(x.to(wide), data, signal, noise), spread], dim=1)

    return denoise


class _Plans(dict[torch.device, "Plan"]):
    """A schedule's plan on every device that asks: it is carried over once, not with every call."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def captured_parts(self) -> dict[str, object]:
        """What a captured round depends on: which devices have asked so far is no part of it."""
        return {"schedule": self.schedule}

    def __missing__(self, device: torch.device) -> Plan:
        self[device] = self.schedule.plan().to(device, law_precision(None, device))
        return self[device]


@final
class CountingDenoiser:
    """Wraps a denoiser and counts its `calls` and `queries` (states)."""

    def __init__(self, denoiser: Denoiser) -> None:
        self.denoiser = denoiser
        self.calls = 0
        self.queries = 0

    def __call__(self, x: Tensor, k: Tensor, **given: Tensor) -> Tensor:
        self.calls += 1
        self.queries += len(x)
        return self.denoiser(x, k, **given)
