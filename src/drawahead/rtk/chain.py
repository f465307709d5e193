"""Underdamped Langevin dynamics as one chain of Gaussian steps, all segments together, for samplers that draft ahead.

The lanes are z, v and x'. A segment begins by a refresh: x' becomes the z of the segment before, z and v what the
kernel starts from. Inside it the gradient of the reverse transition kernel is linear in z and x' but for the score, and
the score is written in the form

    score_t(z) = lambda_t (exp(-t) m - z),    lambda_t = 1 / (1 - exp(-2 t) + exp(-2 t) spread^2),

of which only m is left to the oracle. If the data were a mixture of Gaussians with standard deviation `spread`, m would
be the mean of their centres given z; with `spread` 0 it is that of the data. It changes far less from step to step and
from segment to segment than the score itself, and so drafts reach further. Nothing else depends on `spread`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from drawahead.chains import StackedChain, StackedPlan
from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.rtk.kernels import PerSegment
from drawahead.rtk.langevin import ULD
from drawahead.rtk.sample import as_oracle, first_states, shape_of
from drawahead.rtk.scores import Score, ScoreOracle
from drawahead.rtk.segments import Segments
from drawahead.validate import as_device, number

_Z, _V, _X = range(3)


def chain(
    score: ScoreOracle | DenoisingTarget | Score,
    kernel: ULD | PerSegment,
    segments: Segments,
    *,
    shape: Sequence[int] | None = None,
    start: Tensor | None = None,
    spread: float = 1.0,
    device: torch.device | str = "cpu",
) -> StackedChain:
    """What `rtk.sample(score, kernel=kernel, segments=segments)` draws, as a chain of K S steps for `drawahead.sample`.

    With `Sequential` the samples of a seed are those of `rtk.sample`, up to rounding; with any exact sampler their
    distribution is. score, shape, start: as in `rtk.sample`. kernel: ULD, or `PerSegment` of ULDs with as many steps
    each. spread: the standard deviation of the data, or of the parts it is made of; it changes the number of rounds,
    not the distribution. One query of the chain is one of the score.
    """
    oracle = as_oracle(score)
    shape = shape_of(oracle, shape)
    kernels = _kernels(kernel, segments)
    device = as_device("device", device)
    if not 0 <= number("spread", spread) <= 1e100 or not spread + segments.times[-1] > 0:
        raise InputError(f"spread must be at least 0, and above 0 where the times end at 0, not {spread!r}")
    steps = kernels[0].steps
    times = torch.tensor(segments.times[1:], dtype=torch.float64, device=device).repeat_interleave(steps)  # (K S,)
    signal, pull = torch.exp(-times), _pull(times, spread)

    def centre(lanes: Tensor, k: Tensor) -> Tensor:
        z = lanes[:, _Z].flatten(1).double()
        m = (oracle(z, times[k]) / pull[k, None] + z) / signal[k, None]
        return m.view(-1, *shape)

    plan = _plan(kernels, segments, spread)
    first = None
    if start is not None:  # the first lane of three
        states = first_states(start, shape)
        first = torch.stack([states, *[torch.zeros_like(states)] * 2], dim=-len(shape) - 1)
    return StackedChain(centre, plan, shape, start=first, dtype=oracle.dtype, device=device)


def _kernels(kernel: ULD | PerSegment, segments: Segments) -> list[ULD]:
    """The kernel of each segment."""
    pairs = zip(segments.times[1:], segments.lengths, strict=True)
    kernels = [kernel.choose(time, eta) if isinstance(kernel, PerSegment) else kernel for time, eta in pairs]
    if any(not isinstance(each, ULD) or each.steps != kernel.steps for each in kernels):
        raise InputError(f"kernel must be ULD, with the same number of steps in every segment, not {kernel!r}")
    return cast(list[ULD], kernels)


def _pull(time: Tensor, spread: float) -> Tensor:
    """lambda_t."""
    return 1 / (-torch.expm1(-2 * time) + torch.exp(-2 * time) * spread**2)


def _plan(kernels: list[ULD], segments: Segments, spread: float) -> StackedPlan:
    triples = zip(kernels, segments.times[1:], segments.lengths, strict=True)
    each = [_segment(kernel, time, eta, spread) for kernel, time, eta in triples]
    a, b, s, keep, add = (torch.stack(tables) for tables in zip(*each, strict=True))
    steps = kernels[0].steps
    n = len(kernels) * steps
    keeps, adds = torch.eye(3, dtype=torch.float64).repeat(n + 1, 1, 1), a.new_zeros(n + 1, 3, 2)
    keeps[:-1:steps], adds[:-1:steps] = keep, add
    lane = torch.eye(3, dtype=torch.float64)[_Z]
    return StackedPlan(
        *(table.repeat_interleave(steps, 0) for table in (a, b, s)),
        start=lane,  # the first x', which the first refresh finds where the z before it would be
        final=lane,
        refresh=(keeps, adds),
        reads=lane.expand(n, 3),
    )


def _segment(kernel: ULD, time: float, eta: float, spread: float) -> tuple[Tensor, ...]:
    """A (3, 3), b (2,), S (3, 2) of a segment's steps; R (3, 3), T (3, 2) of what comes before them.

    z' = z + drift v - z_push g + z_u1 u1, v' = keep v - v_push g + v_u1 u1 + v_u2 u2 with the gradient
    g = (curvature + lambda) z - curvature exp(eta) x' - lambda exp(-t) m.
    """
    c, curvature = kernel.coefficients, 1 / math.expm1(2 * eta)
    pull = float(_pull(torch.tensor(time, dtype=torch.float64), spread))
    push = torch.tensor([c.z_push, c.v_push, 0.0], dtype=torch.float64)  # of minus the gradient, on each lane
    a = torch.tensor([[1.0, c.drift, 0.0], [0.0, c.keep, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    a[:, _Z] -= push * (curvature + pull)
    a[:, _X] += push * curvature * math.exp(eta)
    root = torch.tensor([[c.z_u1, 0.0], [c.v_u1, c.v_u2]], dtype=torch.float64)
    b = torch.linalg.solve_triangular(root, push[:_X, None], upper=False)[:, 0] * pull * math.exp(-time)
    slope, scale = kernel.begin.coefficients(eta)
    keep = torch.tensor([[slope, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    add = torch.tensor([[scale, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    return a, b, torch.nn.functional.pad(root, (0, 0, 0, 1)), keep, add
