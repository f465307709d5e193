"""Diffusion inference with reverse transition kernels: segment by segment, each by a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from drawahead.errors import InputError, SamplingError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.randomness import Purpose, Stream, checked_seed
from drawahead.rtk.kernels.base import Kernel, Noise
from drawahead.rtk.report import CallTally, RTKReport
from drawahead.rtk.scores import Score, ScoreOracle, exact, learned
from drawahead.rtk.segments import RTKTarget, Segments
from drawahead.validate import as_device, as_float64, as_shape, whole
from drawahead.values import dataclass


@dataclass(frozen=True, eq=False)
class RTKResult:
    """Samples, and the report of what they cost."""

    samples: Tensor
    """(num_samples, *shape), in the order of their numbers."""
    report: RTKReport


def sample(
    score: ScoreOracle | DenoisingTarget | Score,
    *,
    kernel: Kernel,
    segments: Segments,
    num_samples: int = 1,
    shape: Sequence[int] | None = None,
    seed: int = 0,
    start: Tensor | None = None,
    max_batch_size: int | None = None,
    device: torch.device | str = "cpu",
) -> RTKResult:
    """Draw samples by `kernel`, segment by segment, from noise at the first time to data at the last.

    score: an oracle (`exact`, `learned`), a target, or a callable (x, t) -> score. shape: of one sample, where the
    score does not know it. start: the states at the first time, (*shape) or (num_samples, *shape); standard normals by
    default. max_batch_size: the most samples drawn together. Sample i of a seed is the same whatever the batch and
    num_samples.

    If the score fails, `SamplingError.result` holds the samples of the batches finished before.

    >>> import drawahead as da, torch
    >>> target = da.targets.GaussianMixture(torch.tensor([[2.0, 0.0], [-2.0, 0.0]]), 0.3)
    >>> kernel = da.rtk.ULD(tau=0.1, gamma=2.0, steps=10)
    >>> result = da.rtk.sample(target, kernel=kernel, segments=da.rtk.Segments.even(3.0, 20), num_samples=5)
    >>> result.samples.shape, result.report.calls
    (torch.Size([5, 2]), 200)
    """
    oracle = as_oracle(score)
    shape = shape_of(oracle, shape)
    num_samples, seed = whole("num_samples", num_samples, 1), checked_seed(seed)
    batch = num_samples if max_batch_size is None else whole("max_batch_size", max_batch_size, 1)
    if not isinstance(kernel, Kernel) or not isinstance(segments, Segments):
        raise InputError("kernel must be a kernel such as ULD(...), and segments a Segments")
    device = as_device("device", device)
    kernel.check(oracle.has_energy)
    first = None if start is None else _start(start, shape, num_samples)
    tally, parts = CallTally(oracle, kernel, segments, seed), []
    try:
        with torch.no_grad():
            for lo in range(0, num_samples, batch):
                numbers = torch.arange(lo, min(lo + batch, num_samples), device=device)
                x = None if first is None else first[lo : lo + batch].to(device)
                parts.append(_drawn(oracle, kernel, segments, Stream.of_samples(seed, numbers), x, shape, tally))
                tally.done += len(numbers)
    except Exception as error:
        done = torch.cat(parts) if parts else torch.empty(0, *shape, dtype=oracle.dtype)
        result = RTKResult(done, tally.report())
        message = f"sampling stopped with {len(done)} of {num_samples} samples finished (they are in .result): {error}"
        raise SamplingError(message, cast(Any, result)) from error
    return RTKResult(torch.cat(parts), tally.report())


def _drawn(
    oracle: ScoreOracle,
    kernel: Kernel,
    segments: Segments,
    stream: Stream,
    x: Tensor | None,
    shape: tuple[int, ...],
    tally: CallTally,
) -> Tensor:
    """One batch, from the first time to the last: (rows, *shape)."""
    if x is None:
        x = stream.normal(Purpose.START, torch.zeros_like(stream.keys[:, 0]), size=math.prod(shape))
    for k, eta in enumerate(segments.lengths):
        target = RTKTarget(oracle, segments.times[k + 1], eta, x)
        x, info = kernel.draw(target, Noise(stream, k * kernel.steps))
        tally.add(k, info)
    return x.view(-1, *shape).to(oracle.dtype)


def as_oracle(score: ScoreOracle | DenoisingTarget | Score) -> ScoreOracle:
    """The oracle itself, or the natural one for a target or a callable."""
    if isinstance(score, ScoreOracle):
        return score
    return exact(score) if isinstance(score, DenoisingTarget) else learned(score)


def shape_of(oracle: ScoreOracle, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of one sample: the oracle's, or the one given where it has none."""
    wanted = None if shape is None else as_shape("shape", shape)
    if wanted is not None and oracle.shape is not None and wanted != oracle.shape:
        raise InputError(f"shape is {wanted}, but the score answers about states of shape {oracle.shape}")
    single = oracle.shape or wanted
    if not single:
        raise InputError(
            "shape= must give the sizes of one sample, one or more positive numbers: the score does not say"
        )
    if oracle.shape is None and len(single) > 1:
        raise InputError(f"a score of states of shape {single} must know it: give learned(network, shape={single})")
    return single


def _start(start: Tensor, shape: tuple[int, ...], num_samples: int) -> Tensor:
    """The given first states, flat: (num_samples, d)."""
    wanted = as_float64("start", start, finite=True)
    if wanted.shape not in (shape, (num_samples, *shape)):
        raise InputError(f"start must have shape {shape} or {(num_samples, *shape)}, not {tuple(wanted.shape)}")
    return wanted.expand(num_samples, *shape).flatten(1)
