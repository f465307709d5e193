"""Score models of stochastic differential equations (Song et al. 2021, the loops of `score_sde`).

A forward process dx = f(t) x dt + g(t) dw on [0, 1] has states x = signal(t) y + noise(t) eps. Its reverse is drawn in
N steps x' = (1 - f) x + G^2 score + G xi, with f and G of one step by Euler and Maruyama's rule or by the process's own
discretisation. All of them are Gaussian steps.
"""

from __future__ import annotations

import abc
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition, of_samples
from drawahead.oracles.denoisers import Network, from_score
from drawahead.schedules import Plan, Schedule
from drawahead.validate import instance, number, short, whole

Pair = tuple[Tensor, Tensor]
_PROBES = 64
_LEAST, _MOST = 0.5, 2.0  # of what a score should be at the first step, along -x / noise^2


class SDE(abc.ABC):
    """A forward process, in so many `steps`. Times (N,) are float32, as the loops have them; all else is float64."""

    steps: int
    start: float
    """The standard deviation of the first state."""

    @abc.abstractmethod
    def marginal(self, t: Tensor) -> Pair:
        """Signal and noise at these times."""

    @abc.abstractmethod
    def rates(self, t: Tensor) -> Pair:
        """f and g at these times."""

    def jumps(self, t: Tensor) -> Pair:
        """f and G of one step that starts at these times."""
        drift, diffusion = self.rates(t)
        return drift / self.steps, diffusion / math.sqrt(self.steps)

    def alphas(self, t: Tensor) -> Tensor:
        """What a corrector's steps are multiplied with at these times."""
        return torch.ones_like(t, dtype=torch.float64)

    def index(self, t: Tensor) -> Tensor:
        """Times as indices of discrete levels; in float32, as the loops round."""
        return (t.float() * (self.steps - 1)).long()


@dataclass(frozen=True)
class _Betas(SDE):
    """Rates that rise linearly from `beta_min` to `beta_max`."""

    beta_min: float = 0.1
    beta_max: float = 20.0
    steps: int = 1000

    start = 1.0

    def __post_init__(self) -> None:
        whole("steps", self.steps, 2)
        if not 0 <= number("beta_min", self.beta_min) < number("beta_max", self.beta_max) < self.steps:
            raise InputError(
                f"beta_min={self.beta_min} and beta_max={self.beta_max} must rise, from 0 to below steps={self.steps}"
            )

    def rates(self, t: Tensor) -> Pair:
        beta = self._beta(t)
        return -beta / 2, beta.sqrt()

    def alphas(self, t: Tensor) -> Tensor:
        return 1 - self._discrete(t)

    def _beta(self, t: Tensor) -> Tensor:
        return self.beta_min + t.double() * (self.beta_max - self.beta_min)

    def _total(self, t: Tensor) -> Tensor:
        """The integral of beta up to t."""
        t = t.double()
        return t**2 * (self.beta_max - self.beta_min) / 2 + t * self.beta_min

    def _discrete(self, t: Tensor) -> Tensor:
        least, most = self.beta_min / self.steps, self.beta_max / self.steps
        return torch.linspace(least, most, self.steps, dtype=torch.float64)[self.index(t)]


@final
@dataclass(frozen=True)
class VPSDE(_Betas):
    """The variance-preserving process."""

    def marginal(self, t: Tensor) -> Pair:
        total = self._total(t)
        return (-total / 2).exp(), (-torch.expm1(-total)).sqrt()

    def jumps(self, t: Tensor) -> Pair:
        beta = self._discrete(t)
        return (1 - beta).sqrt() - 1, beta.sqrt()


@final
@dataclass(frozen=True)
class SubVPSDE(_Betas):
    """The sub-VP process, whose variance stays below that of `VPSDE`."""

    def marginal(self, t: Tensor) -> Pair:
        total = self._total(t)
        return (-total / 2).exp(), -torch.expm1(-total)

    def rates(self, t: Tensor) -> Pair:
        drift, diffusion = super().rates(t)
        return drift, diffusion * (-torch.expm1(-2 * self._total(t))).sqrt()


@final
@dataclass(frozen=True)
class VESDE(SDE):
    """The variance-exploding process."""

    sigma_min: float = 0.01
    sigma_max: float = 50.0
    steps: int = 1000

    def __post_init__(self) -> None:
        whole("steps", self.steps, 2)
        if not 0 < number("sigma_min", self.sigma_min) < number("sigma_max", self.sigma_max):
            raise InputError(f"sigma_min={self.sigma_min} must be above 0 and below sigma_max={self.sigma_max}")

    @property
    def start(self) -> float:  # type: ignore[override]
        return self.sigma_max

    def marginal(self, t: Tensor) -> Pair:
        sigma = self.sigma_min * (self.sigma_max / self.sigma_min) ** t.double()
        return torch.ones_like(sigma), sigma

    def rates(self, t: Tensor) -> Pair:
        sigma = self.marginal(t)[1]
        return torch.zeros_like(sigma), sigma * math.sqrt(2 * math.log(self.sigma_max / self.sigma_min))

    def jumps(self, t: Tensor) -> Pair:
        ends = math.log(self.sigma_min), math.log(self.sigma_max)
        level, index = torch.linspace(*ends, self.steps, dtype=torch.float64).exp(), self.index(t)
        before = torch.where(index > 0, level[index - 1], 0.0)
        return torch.zeros_like(before), (level[index] ** 2 - before**2).sqrt()


@final
class Foreign(SDE):
    """An object with the methods of `score_sde` (`sde`, `discretize`, `marginal_prob`, `prior_logp`), read by what they
    do to states of ones and of twos."""

    def __init__(self, sde: Any) -> None:
        try:
            self.steps = whole("N", sde.N, 2)
            density = math.exp(float(sde.prior_logp(torch.zeros(1, 1, 1, 1))[0]))  # at 0, of the first state
            self.start = 1 / (density * math.sqrt(2 * math.pi))
        except (AttributeError, TypeError) as error:
            raise InputError(f"sde must be VPSDE(), SubVPSDE(), VESDE() or an object like theirs: {error}") from None
        self.sde = sde

    def marginal(self, t: Tensor) -> Pair:
        return self._read(self.sde.marginal_prob, t)

    def rates(self, t: Tensor) -> Pair:
        return self._read(self.sde.sde, t)

    def jumps(self, t: Tensor) -> Pair:
        return self._read(self.sde.discretize, t)

    def alphas(self, t: Tensor) -> Tensor:
        table = getattr(self.sde, "alphas", None)
        return super().alphas(t) if table is None else table.double()[self.index(t)]

    @staticmethod
    def _read(method: Any, t: Tensor) -> Pair:
        ones = torch.ones(len(t), 1, 1, 1)
        (factor, spread), (twice, same) = method(ones, t), method(2 * ones, t)
        if not bool(torch.isclose(2 * factor, twice).all() and torch.isclose(spread, same).all()):
            raise InputError("sde must be linear in x, with the same noise everywhere: this one is not")
        return factor.flatten().double(), spread.flatten().double()


@final
@dataclass(frozen=True)
class AnnealedLangevin:
    """So many corrector `steps` before every predictor's, of size 2 alpha (snr noise)^2 each (`ald` in `score_sde`).

    Its `langevin` takes the size from norms, averaged over the batch, of the score and of the very noise that the step
    adds: such a step is not Gaussian, and samples of a batch depend on each other. This one has the same size wherever
    scores are as large as they should be, and is a Gaussian step.
    """

    snr: float = 0.16
    steps: int = 1

    def __post_init__(self) -> None:
        number("snr", self.snr, above=0)
        whole("steps", self.steps, 1)


@dataclass(frozen=True, repr=False)
class _Reverse(Schedule):
    """From time 1 to `last`. With `denoise` the last step adds no noise, so that its mean is the sample."""

    sde: SDE | Any
    last: float = 1e-3
    denoise: bool = True
    corrector: AnnealedLangevin | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sde, SDE):
            object.__setattr__(self, "sde", Foreign(self.sde))
        instance("denoise", self.denoise, bool, "True or False")
        if not 0 < number("last", self.last) < 1:
            raise InputError(f"last must be between 0 and 1, where the noise is not zero yet, not {short(self.last)}")
        if self.corrector is not None and not isinstance(self.corrector, AnnealedLangevin):
            raise InputError(
                f"corrector must be AnnealedLangevin(), not {short(self.corrector)}: the step of score_sde's langevin "
                "depends on the norm of its own noise over the batch, so it is not Gaussian and cannot be drawn ahead"
            )

    @abc.abstractmethod
    def moves(self, t: Tensor) -> Pair:
        """f and G of the steps that start at these times."""

    def plan(self) -> Plan:
        t = torch.linspace(1, self.last, self.sde.steps)
        signal, noise = self.sde.marginal(t)
        drift, scale = self.moves(t)
        pull, fixes = scale**2, self.corrector
        if fixes is not None:  # corrector steps come first: one row each, before that of the predictor
            size = 2 * self.sde.alphas(t) * (fixes.snr * noise) ** 2
            rows = [fixes.steps, 1]
            drift, pull, scale = (
                torch.cat([one[:, None].expand(-1, rows[0]), two[:, None]], 1).flatten()
                for one, two in ((drift * 0, drift), (size, pull), ((2 * size).sqrt(), scale))
            )
            t, signal, noise = (table.repeat_interleave(sum(rows)) for table in (t, signal, noise))
        bad = ((noise <= 0) | (scale <= 0)).nonzero()
        if len(bad):
            k = int(bad[0])
            raise InputError(
                f"step {k}, at time {float(t[k]):.3g}, has no noise: choose last= or rates that leave some"
            )
        ratio = pull / noise**2
        scale[-1] *= not self.denoise
        levels = [torch.cat([table, table[-1:]]) for table in (signal, noise)]
        return Plan(1 - drift - ratio, ratio * signal, scale, levels[0], levels[1], t, start=self.sde.start)


@final
@dataclass(frozen=True, repr=False)
class EulerMaruyama(_Reverse):
    """The reverse process by Euler and Maruyama's rule: `euler_maruyama` in `score_sde`."""

    def moves(self, t: Tensor) -> Pair:
        return SDE.jumps(self.sde, t)


@final
@dataclass(frozen=True, repr=False)
class ReverseDiffusion(_Reverse):
    """The reverse of the process's own discretisation: `reverse_diffusion` in `score_sde`."""

    def moves(self, t: Tensor) -> Pair:
        return self.sde.jumps(t)


def from_score_sde(
    score: Network,
    schedule: EulerMaruyama | ReverseDiffusion,
    shape: Sequence[int],
    *,
    condition: Condition = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> GaussianChain:
    """The reverse process of a score function `score(x, t, **condition)`, with times from 1 to 0.

    At the first step the score of almost pure noise is known: a warning says where `score` is far from it.
    """
    instance("schedule", schedule, _Reverse, "EulerMaruyama(sde) or ReverseDiffusion(sde)")
    chain = GaussianChain(from_score(score, schedule), schedule, shape, condition=condition, dtype=dtype, device=device)
    _compare(score, chain)
    return chain


def _compare(score: Network, chain: GaussianChain) -> None:
    noise, time = float(chain.plan.noise[0]), chain.plan.time[:1].expand(_PROBES)
    generator = torch.Generator().manual_seed(0)
    x = (noise * torch.randn(_PROBES, *chain.shape, generator=generator)).to(chain.device, chain.dtype)
    rows = of_samples({name: table[:1] for name, table in chain.condition.items()}, torch.arange(_PROBES))
    with torch.no_grad():
        answers = score(x, time, **rows).double()
    along = -float((answers * x).sum() / x.double().square().sum()) * noise**2
    if not _LEAST <= along <= _MOST:
        kind = "of the opposite sign" if along < 0 else f"{along:.2g} times as large"
        remedy = "negate it" if along < 0 else "does it predict noise (da.from_epsilon), or leave out 1 / noise?"
        warnings.warn(
            f"at the first step score(x, t) is {kind} as the score of noise, -x / noise^2: {remedy}", stacklevel=3
        )
