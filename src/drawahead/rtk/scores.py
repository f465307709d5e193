"""Score oracles: grad log p_t for a batch of states, each at its own time, with every call counted.

p_t is the distribution of X_t = exp(-t) Y + sqrt(1 - exp(-2 t)) g, Y the data: a Gaussian stays Gaussian, and a mixture
of them a mixture, so that their log densities and scores are known in closed form, down to time 0. States are flat,
(m, d) in float64.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor

from drawahead.errors import AnswerError, InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.rtk.potentials import Difference, LineIntegral
from drawahead.targets import GaussianMixture, GaussianTarget
from drawahead.validate import as_shape, floating, readable

Score = Callable[[Tensor, Tensor], Tensor]
"""(x (m, *shape), t (m,)) -> grad log p_t(x) (m, *shape)."""


class ScoreOracle(abc.ABC):
    """A score, what it knows about energies, and how often it was called.

    `calls` and `queries` count gradients: batches and the states in them. `energy_calls` and `energy_queries` count
    apart what energy differences took: log densities, or scores at the nodes of a line integral.
    """

    shape: tuple[int, ...] | None
    """The shape of one state, where it is known."""
    dtype: torch.dtype
    """What samples come back as."""
    rule: LineIntegral | None = None
    """How energy differences are worked out from the score, where they are not known otherwise."""

    def __init__(self) -> None:
        self.calls = 0
        self.queries = 0
        self.energy_calls = 0
        self.energy_queries = 0

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        """grad log p_t(x) for x (m, d) and t (m,): (m, d), float64."""
        self.calls += 1
        self.queries += len(x)
        return self._checked(x, t)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.calls, self.queries, self.energy_calls, self.energy_queries

    def captured_parts(self) -> dict[str, Any]:
        """What a captured round depends on: everything but the counts."""
        counts = ("calls", "queries", "energy_calls", "energy_queries")
        return {name: part for name, part in vars(self).items() if name not in counts}

    def log_ratio(self, old: Tensor, new: Tensor, t: Tensor) -> Difference:
        """log p_t(new) - log p_t(old) for states (m, d)."""
        if self.rule is None:
            raise InputError("this kernel needs energy differences: give energy=LineIntegral() to learned(...)")
        self.energy_calls += 1
        self.energy_queries += self.rule.nodes * len(old)
        return self.rule(self._checked, old, new, t)

    @abc.abstractmethod
    def _answer(self, x: Tensor, t: Tensor) -> Tensor:
        """The score itself, neither counted nor checked."""

    def _checked(self, x: Tensor, t: Tensor) -> Tensor:
        answer = self._answer(x, t)
        if not isinstance(answer, Tensor) or answer.shape != x.shape:
            what = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            raise AnswerError(f"the score must answer one vector per state, {tuple(x.shape)}, not {what}")
        if readable(answer) and not bool(answer.isfinite().all()):
            bad = int((~answer.isfinite()).flatten(1).any(1).nonzero()[0])
            raise AnswerError(
                f"the score answered NaN or infinity at time {float(t[bad]):.4g}, at a state with entries up to "
                f"{float(x[bad].abs().max()):.3g}: if that is too much, the steps are too long, take a smaller tau"
            )
        return answer.double()


@final
class ExactScore(ScoreOracle):
    """The score of a target whose denoiser is known: in closed form, or by Tweedie's formula from its mean."""

    dtype = torch.float64

    def __init__(self, target: DenoisingTarget, energy: LineIntegral | None = None) -> None:
        super().__init__()
        self.target, self.shape = target, target.shape
        self.density = density_of(target)
        self.rule = energy or (LineIntegral() if self.density is None else None)

    def log_density(self, x: Tensor, t: Tensor) -> Tensor:
        """log p_t(x) (m,), normalised; not counted. Known for `GaussianTarget` and `GaussianMixture`."""
        if self.density is None:
            raise InputError(f"the density of {type(self.target).__name__} is not known, only its score")
        return self.density.log_density(x, t)

    def log_ratio(self, old: Tensor, new: Tensor, t: Tensor) -> Difference:
        if self.rule is not None:
            return super().log_ratio(old, new, t)
        self.energy_calls += 1
        self.energy_queries += 2 * len(old)
        before, after = self.log_density(torch.cat([old, new]), torch.cat([t, t])).split(len(old))
        return Difference(after - before, torch.zeros_like(before))

    def _answer(self, x: Tensor, t: Tensor) -> Tensor:
        if self.density is not None:
            return self.density.score(x, t)
        signal, variance = torch.exp(-t)[:, None], -torch.expm1(-2 * t)[:, None]
        if not bool((variance > 0).all()):
            raise InputError("the score at time 0 is not known: let the times end above 0 (last=...)")
        return (signal * self.target.mean(signal / variance * x, (signal**2 / variance)[:, 0]) - x) / variance


@final
class LearnedScore(ScoreOracle):
    """Any callable as a score. It takes states of `shape` in `dtype`, and times (m,)."""

    def __init__(
        self,
        network: Score,
        shape: Sequence[int] | None = None,
        *,
        energy: LineIntegral | None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.network, self.rule, self.dtype = network, energy, floating("dtype", dtype)
        self.shape = None if shape is None else as_shape("shape", shape)

    def _answer(self, x: Tensor, t: Tensor) -> Tensor:
        states = x if self.shape is None else x.view(-1, *self.shape)
        answer = self.network(states.to(self.dtype), t.to(self.dtype))
        return answer.flatten(1) if isinstance(answer, Tensor) and answer.shape == states.shape else answer


def exact(target: DenoisingTarget, *, energy: LineIntegral | None = None) -> ExactScore:
    """The score of a target, exactly; with `energy`, energy differences by that rule even where they are known."""
    return ExactScore(target, energy)


_DEFAULT_RULE = LineIntegral()


def learned(
    network: Score,
    shape: Sequence[int] | None = None,
    *,
    energy: LineIntegral | None = _DEFAULT_RULE,
    dtype: torch.dtype = torch.float32,
) -> LearnedScore:
    """A network, or any callable `(x, t) -> score`, as an oracle.

    shape: of one state, if it is not a vector. energy: how energy differences are worked out; None: not at all, and
    kernels that need them refuse. dtype: what the network takes, and what samples come back as.
    """
    return LearnedScore(network, shape, energy=energy, dtype=dtype)


def from_epsilon(network: Score) -> Score:
    """The score of a network that predicts the noise g in x = exp(-t) Y + sqrt(1 - exp(-2 t)) g."""

    def score(x: Tensor, t: Tensor) -> Tensor:
        return -network(x, t) / (-torch.expm1(-2 * _spread(t, x))).sqrt()

    return score


def from_data_prediction(network: Score) -> Score:
    """The score of a network that predicts the data Y (Tweedie's formula)."""

    def score(x: Tensor, t: Tensor) -> Tensor:
        t_ = _spread(t, x)
        return (torch.exp(-t_) * network(x, t) - x) / -torch.expm1(-2 * t_)

    return score


def _spread(t: Tensor, x: Tensor) -> Tensor:
    """t (m,) with as many axes as x."""
    return t.view(-1, *(1,) * (x.dim() - 1))


Density: TypeAlias = "GaussianDensity | MixtureDensity"
"""The densities p_t of a distribution under the Ornstein-Uhlenbeck process, for x (m, d) and t (m,): `log_density`,
normalised (m,), and `score`, its gradient (m, d)."""


def density_of(target: DenoisingTarget) -> Density | None:
    """The closed form of this target's densities, where there is one."""
    if isinstance(target, GaussianTarget):
        return GaussianDensity(target)
    return MixtureDensity(target) if isinstance(target, GaussianMixture) else None


def _noised(variances: Tensor, t: Tensor) -> Tensor:
    """The variances of X_t where those of Y are `variances` (c,), at t (m,): (m, c)."""
    t = t[:, None]
    noised = variances * torch.exp(-2 * t) - torch.expm1(-2 * t)
    if readable(noised) and not bool((noised > 0).all()):
        raise InputError("the target has no density at time 0: let the times end above 0 (last=...)")
    return noised


@final
class GaussianDensity:
    def __init__(self, target: GaussianTarget) -> None:
        self.target = target

    def log_density(self, x: Tensor, t: Tensor) -> Tensor:
        pull, variances = self._along(x, t)
        return -(pull**2 / variances + (2 * math.pi * variances).log()).sum(1) / 2

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        pull, variances = self._along(x, t)
        slope = -pull / variances
        return slope if self.target.basis is None else slope @ self.target.basis.T

    def _along(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """x - E X_t along the axes of the covariance, and its variances there (m, d)."""
        pull = x - torch.exp(-t)[:, None] * self.target.centre
        return pull if self.target.basis is None else pull @ self.target.basis, _noised(self.target.spectrum, t)


@final
class MixtureDensity:
    def __init__(self, target: GaussianMixture) -> None:
        self.means, self.variances = target.means, target.variances
        self.log_weights = target.log_weights.log_softmax(0)

    def log_density(self, x: Tensor, t: Tensor) -> Tensor:
        return self._parts(x, t)[0].logsumexp(1)

    def score(self, x: Tensor, t: Tensor) -> Tensor:
        log_part, variances = self._parts(x, t)
        share = log_part.softmax(1) / variances  # (m, c)
        return torch.exp(-t)[:, None] * (share @ self.means) - share.sum(1, keepdim=True) * x

    def _parts(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """The log density of each component, weighted, and its variance (m, c)."""
        variances = _noised(self.variances, t)
        signal = torch.exp(-t)[:, None]
        # |x - signal mean|^2, by differences: |x|^2 and |mean|^2 may be large beside it. (m, c)
        square = (signal * torch.cdist(x / signal, self.means, compute_mode="donot_use_mm_for_euclid_dist")) ** 2
        size = self.means.shape[1]
        return self.log_weights - (square / variances + size * (2 * math.pi * variances).log()) / 2, variances
