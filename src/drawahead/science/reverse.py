"""Reverse processes of score functions (Song et al. 2021, the loops of `score_sde`).

They have N Gaussian steps x' = (1 - f) x + G^2 score + G xi, with f and G of one step by Euler and Maruyama's rule or
by the process's own discretisation.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition, of_samples
from drawahead.oracles.denoisers import Network, from_score
from drawahead.schedules import Plan, Schedule
from drawahead.science.sde import SDE, Foreign, Pair
from drawahead.validate import number, short, whole
from drawahead.values import dataclass

_PROBES = 64
_LEAST, _MOST = 0.5, 2.0  # of what a score should be at the first step, along -x / noise^2


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
        if not 0 < number("last", self.last) < 1:
            raise InputError(f"last must be between 0 and 1, where the noise is not zero yet, not {short(self.last)}")
        if self.corrector is not None and not isinstance(self.corrector, AnnealedLangevin):
            raise InputError(
                f"corrector must be AnnealedLangevin(), not {short(self.corrector)}: the step of score_sde's langevin "
                "depends on the norm of its own noise over the batch, so it is not Gaussian and cannot be sampled ahead"
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
            drift, pull, scale = (
                torch.cat([one[:, None].expand(-1, fixes.steps), two[:, None]], 1).flatten()
                for one, two in ((drift * 0, drift), (size, pull), ((2 * size).sqrt(), scale))
            )
            t, signal, noise = (table.repeat_interleave(fixes.steps + 1) for table in (t, signal, noise))
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

    At the first step the score is that of almost pure noise; if `score` is far from it, a warning says so.
    """
    chain = GaussianChain(from_score(score, schedule), schedule, shape, condition=condition, dtype=dtype, device=device)
    _compare(score, chain)
    return chain


def _compare(score: Network, chain: GaussianChain) -> None:
    noise, time = float(chain.plan.noise[0]), chain.plan.time[:1].expand(_PROBES)
    generator = torch.Generator().manual_seed(0)
    x = (noise * torch.randn(_PROBES, *chain.shape, generator=generator)).to(chain.device, chain.dtype)
    rows = of_samples({name: table[:1] for name, table in chain.condition.items()}, torch.arange(_PROBES))
    with torch.no_grad():
        answers: object = score(x, time, **rows)
    if not isinstance(answers, Tensor) or answers.shape != x.shape or not bool(answers.isfinite().all()):
        kind = tuple(answers.shape) if isinstance(answers, Tensor) else type(answers).__name__
        raise InputError(f"score must answer states {tuple(x.shape)} with as many finite numbers; its answer is {kind}")
    along = -float((answers.double() * x).sum() / x.double().square().sum()) * noise**2
    if not _LEAST <= along <= _MOST:
        kind = "of the opposite sign" if along < 0 else f"{abs(along):.2g} times as large"
        remedy = "negate it" if along < 0 else "does it leave out 1 / noise?"
        warnings.warn(
            f"at the first step score(x, t) is {kind} as the score of noise, -x / noise^2: {remedy}; if it predicts "
            "noise, use da.from_epsilon",
            stacklevel=3,
        )
