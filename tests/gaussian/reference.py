"""Gaussian chains whose law is known, and how samples are compared with it.

The chains are coarse on purpose: a draft is then far from its target, and a wrong coupling shows. What is compared
is the law of the *discretised* chain, worked out here from its coefficients and from Bayes' rule.

A whole path is checked through its innovations. Given every state, the noise of step k is
xi_k = (x_{k+1} - A_k x_k - B_k m(x_k)) / S_k, and a sampler is exact when all of them are independent standard
normals: any mistake in a coupling, a residual or the use of noise is a departure from that.

Sample sizes come from the power of Kolmogorov-Smirnov at LEVEL / (checks combined): a distance D shows with
probability 0.99 from about (3.8 / D)^2 draws on:

    draws      distance
       300      0.22      Recursive, in CI
    10 000      0.038     all others, in CI
   100 000      0.012     marked slow
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.special import gammainc, ndtr

import drawahead as da
from drawahead import GaussianChain, Recursive
from drawahead.samplers import Sampler
from drawahead.schedules import Plan, Schedule, linear_betas
from drawahead.targets import GaussianMixture, GaussianTarget, Hypercube
from drawahead.verification.statistics import kolmogorov
from tests.exactness import combined

MEAN = torch.tensor([1.0, -0.5], dtype=torch.float64)
VARIANCES = torch.tensor([4.0, 0.25], dtype=torch.float64)

SCHEDULES: dict[str, Schedule] = {
    "localization": da.StochasticLocalization(6, radius=2.0, delta=0.05),
    "ddpm": da.DDPM(betas=linear_betas(6, 0.15, 0.7)),
    "ddpm, large variance": da.DDPM(betas=linear_betas(6, 0.15, 0.7), large_variance=True),
    "ddim": da.DDIM(betas=linear_betas(6, 0.15, 0.7), eta=0.7),
    "euler": da.EulerAncestral((12.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.0)),
    "ou": da.OUExponential.even(6, first=2.0, last=0.1),
}


def draws_for(sampler: Sampler, *, slow: bool = False) -> int:
    """Recursive takes longest and gets fewer."""
    draws = 300 if isinstance(sampler, Recursive) else 10_000
    return 10 * draws if slow else draws


@dataclass(frozen=True)
class Moments:
    """The exact law of a linear chain: x_{k+1} = slope_k x_k + offset_k + S_k xi, coordinate by coordinate."""

    mean: Tensor  # (N + 1, d)
    variance: Tensor  # (N + 1, d)
    slope: Tensor  # (N, d)

    @property
    def onward(self) -> Tensor:
        """The slope of the regression of the last state on the one after k steps (N + 1, d)."""
        ones = torch.ones_like(self.slope[:1])
        return torch.cat([self.slope.flip(0).cumprod(0).flip(0), ones])


def linear_moments(
    plan: Plan, mean: Tensor = MEAN, variances: Tensor = VARIANCES, start: Tensor | None = None
) -> Moments:
    """Of the chain that a Gaussian target makes: E[Y | x] by Bayes for x = signal Y + noise g."""
    state_mean = torch.zeros_like(mean) if start is None else start
    state_variance = torch.full_like(mean, plan.start**2 if start is None else 0.0)
    means, spreads, slopes = [state_mean], [state_variance], []
    for k in range(len(plan.a)):
        signal, noise = float(plan.signal[k]), float(plan.noise[k])
        gain = signal * variances / (signal**2 * variances + noise**2) if signal else torch.zeros_like(mean)
        slope = plan.a[k] + plan.b[k] * gain
        state_mean = slope * state_mean + plan.b[k] * (mean - gain * signal * mean)
        state_variance = slope**2 * state_variance + plan.s[k] ** 2
        means.append(state_mean)
        spreads.append(state_variance)
        slopes.append(slope)
    return Moments(torch.stack(means), torch.stack(spreads), torch.stack(slopes))


def whole(target: da.DenoisingTarget, schedule: Schedule, start: Tensor | None = None) -> GaussianChain:
    """The chain with every state recorded."""
    return GaussianChain(target, schedule, start=start, record=range(1, len(schedule.plan().a)))


@functools.cache
def linear_chain(name: str) -> GaussianChain:
    return whole(GaussianTarget(variances=VARIANCES, mean=MEAN), SCHEDULES[name])


def states(chain: GaussianChain, samples: Tensor) -> Tensor:
    """x_1 ... x_N, flat (m, N, d), from samples with every state recorded."""
    return torch.cat([samples[:, :-1], samples[:, -1:] / chain.plan.final], dim=1).flatten(2)


def normal_p_value(z: Tensor) -> float:
    """That z are standard normals."""
    return kolmogorov(ndtr(z))


def linear_p_value(chain: GaussianChain, samples: Tensor, moments: Moments) -> float:
    """Final values, an intermediate state, and both together, against their closed forms (m, N, d)."""
    x, k = states(chain, samples), chain.steps // 2
    at_k, at_end = moments.variance[k].sqrt(), moments.variance[-1].sqrt()
    slope = moments.onward[k]
    middle = (x[:, k - 1] - moments.mean[k]) / at_k
    final = (x[:, -1] - moments.mean[-1]) / at_end
    rest = final * at_end - slope * at_k * middle  # of x_N, once its regression on x_k is taken away
    rest = rest / (moments.variance[-1] - slope**2 * moments.variance[k]).sqrt()
    p_values = [normal_p_value(z) for table in (middle, final, rest) for z in table.T]
    white = torch.cat([middle, rest], dim=1)  # (m, 2 d), standard normal
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        direction = torch.randn(white.shape[1], dtype=torch.float64, generator=generator)
        p_values.append(normal_p_value(white @ (direction / direction.norm())))
    return combined(p_values)


def innovations(chain: GaussianChain, samples: Tensor, start: Tensor | None = None) -> Tensor:
    """xi of the random steps whose first state is known (m, steps, d).

    The first state is known where it is given, or is a point; without `record` of it, step 0 is left out.
    """
    x = states(chain, samples)
    plan, steps = chain.plan, torch.arange(1, chain.steps)
    before = x[:, :-1]
    if start is not None or not plan.start:
        first = torch.zeros_like(x[:, :1]) if start is None else start.expand_as(x[:, 0])[:, None]
        before, steps = torch.cat([first, before], dim=1), torch.arange(chain.steps)
    m, count, d = before.shape
    prediction = chain.denoiser(before.reshape(-1, *chain.shape), steps.repeat(m)).reshape(m, count, d)
    drift = plan.a[steps, None] * before + plan.b[steps, None] * chain.schedule.adjust(prediction)
    rest, s = x[:, -count:] - drift, plan.s[steps, None]
    fixed = s[:, 0] == 0
    xi = (rest / torch.where(s > 0, s, 1.0))[:, ~fixed]
    missed = (rest[:, fixed].abs() > 1e-9).any()  # a deterministic step: one that is missed fails any check
    return torch.full_like(xi, 1e9) if missed else xi


def path_p_value(xi: Tensor) -> float:
    """That innovations (m, steps, d) are independent standard normals: each, their squares, and their pairs."""
    _, steps, d = xi.shape
    tables = [xi.flatten(1)]
    if steps > 1:
        after, before = xi[:, 1:].flatten(1), xi[:, :-1].flatten(1)  # neighbouring steps
        tables += [(after + before) / math.sqrt(2), (after - before) / math.sqrt(2)]
    if d > 1:
        tables += [(xi[..., 1:] + xi[..., :-1]).flatten(1) / math.sqrt(2)]  # neighbouring coordinates
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(steps * d, 4, dtype=torch.float64, generator=generator)
    tables += [xi.flatten(1) @ (direction / direction.norm(dim=0))]
    p_values = [normal_p_value(z) for table in tables for z in table.T]
    for k, i in itertools.product(range(1, steps), range(d)):  # given that the step before went far to either side
        p_values += [
            normal_p_value(xi[far, k, i]) for far in (xi[:, k - 1, i] < -0.7, xi[:, k - 1, i] > 0.7) if far.any()
        ]
    p_values += [_chi_p_value(square, d) for square in (xi**2).sum(2).T]
    return combined([*p_values, _chi_p_value((xi**2).sum((1, 2)), steps * d)])


def _chi_p_value(square: Tensor, freedom: int) -> float:
    """That sums of squares (m,) are of so many standard normals."""
    return kolmogorov(gammainc(torch.full_like(square, freedom / 2), square / 2).clamp(0, 1))


def linear_chain_p_value(name: str, sampler: Sampler, draws: int, seed: int = 0, graphs: bool | None = None) -> float:
    """Draw whole paths of a linear chain; closed-form laws of states, and innovations, in one p-value."""
    chain = linear_chain(name)
    samples = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=draws, graphs=graphs).samples
    return combined(
        [linear_p_value(chain, samples, linear_moments(chain.plan)), path_p_value(innovations(chain, samples))]
    )


def final_cdf(chain: GaussianChain, points: Tensor, grid: Tensor) -> Tensor:
    """The distribution function of the last state of a chain on R, by propagating its density along a grid."""
    plan, width = chain.plan, float(grid[1] - grid[0])
    density: Tensor | None = None
    for k in range(chain.steps):
        start = grid if density is not None or plan.start else torch.zeros(1, dtype=torch.float64)
        if density is None:
            density = (
                _phi(grid / plan.start) / plan.start if plan.start else torch.full((1,), 1 / width, dtype=torch.float64)
            )
        drift = plan.a[k] * start + plan.b[k] * chain.denoiser(start[:, None], torch.full((len(start),), k))[:, 0]
        if k == chain.steps - 1:
            parts = [ndtr((part[:, None] - drift) / plan.s[k]) @ density * width for part in points.split(1000)]
            return torch.cat(parts).clamp(0, 1)
        density = _phi((grid[:, None] - drift) / plan.s[k]) @ density * (width / plan.s[k])
    raise AssertionError("a chain has a step")


def _phi(z: Tensor) -> Tensor:
    return torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Walk(Schedule):
    """x' = x + m + s xi, s as given: coefficients made for a test. Zeros are deterministic steps."""

    s: tuple[float, ...]

    def plan(self) -> Plan:
        s = torch.tensor(self.s, dtype=torch.float64)
        ones = torch.ones(len(s) + 1, dtype=torch.float64)
        return Plan(ones[1:], ones[1:], s, ones, ones, torch.arange(len(s)), start=0.0)


def drifting(drift: Sequence[float], d: int = 2) -> GaussianChain:
    """A walk with unit noise that drifts along the first axis by so much in each step, whatever its state.

    The answer at step k drafts the steps after it with the drift of step k: how wrong a draft is can be chosen.
    """
    table = torch.zeros(len(drift), d, dtype=torch.float64)
    table[:, 0] = torch.tensor(drift, dtype=torch.float64)
    schedule = Walk((1.0,) * len(drift))
    return GaussianChain(lambda x, k: table[k], schedule, (d,), record=range(1, len(drift)), dtype=torch.float64)


def pushed(push: Callable[[Tensor], Tensor], steps: int, d: int) -> GaussianChain:
    """A walk with unit noise whose drift is a function of its state."""
    schedule = Walk((1.0,) * steps)
    return GaussianChain(lambda x, k: push(x), schedule, (d,), record=range(1, steps), dtype=torch.float64)


GAINS = torch.tensor([0.9, 0.2], dtype=torch.float64)

DESIGNED: dict[str, GaussianChain] = {
    "weights": drifting([0.0, 1.0, 1.5, 0.0]),
    "drift": drifting([0.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
    "steep": pushed(lambda x: GAINS * x, 8, 2),
    "bend": pushed(lambda x: 0.3 * softplus(3 * x), 8, 1),
}
"""Chains on which a mistake shows that the others hide: where the weight of a prefix matters to the residual after it
(Block), where noise that made a prefix fail is met again by a draft that cannot fail, where drafts lean a lot (Coupled;
one slope does not fit both axes), and where how much they lean tells on which side of a bend a state lies."""


def designed_p_value(name: str, sampler: Sampler, draws: int, seed: int = 0, graphs: bool | None = None) -> float:
    """Draw whole paths of a designed chain, and check their innovations."""
    chain = DESIGNED[name]
    samples = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=draws, graphs=graphs).samples
    return path_p_value(innovations(chain, samples))


NONLINEAR: dict[str, GaussianChain] = {
    "hypercube, localization": whole(Hypercube(1), da.StochasticLocalization(4, delta=0.1)),
    "mixture, ou": whole(
        GaussianMixture(
            torch.tensor([[-2.0], [0.5], [3.0]]), torch.tensor([0.1, 0.5, 0.05]), torch.tensor([2.0, 1, 1])
        ),
        da.OUExponential.even(4, first=1.5, last=0.1),
    ),
}
GRID = torch.linspace(-60, 60, 2001, dtype=torch.float64)


@functools.cache
def tabled_cdf(name: str) -> tuple[Tensor, Tensor]:
    """Points, and the distribution function of the last state of NONLINEAR[name] there."""
    points = torch.linspace(-60, 60, 2001, dtype=torch.float64)
    return points, final_cdf(NONLINEAR[name], points, GRID)


def nonlinear_p_value(name: str, sampler: Sampler, draws: int, seed: int = 0, graphs: bool | None = None) -> float:
    """Draw whole paths of a chain on R; the last state against quadrature, and the innovations, in one p-value."""
    chain = NONLINEAR[name]
    samples = da.sample(chain, draws, sampler=sampler, seed=seed, max_live=draws, graphs=graphs).samples
    final = states(chain, samples)[:, -1, 0].contiguous()
    points, cdf = tabled_cdf(name)
    at = torch.searchsorted(points, final).clamp(1, len(points) - 1)
    share = (final - points[at - 1]) / (points[at] - points[at - 1])
    u = (cdf[at - 1] + share * (cdf[at] - cdf[at - 1])).clamp(0, 1)
    return combined([kolmogorov(u), path_p_value(innovations(chain, samples))])
