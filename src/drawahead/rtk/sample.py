"""Diffusion inference with reverse transition kernels: segment by segment, each by a kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from drawahead.errors import InputError, SamplingError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.randomness import Purpose, Stream, checked_seed
from drawahead.rtk.kernels import Info, Kernel, Noise
from drawahead.rtk.report import RTKReport
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
    device = as_device("device", device)
    first = None if start is None else first_states(start, shape, num_samples)
    before, began = oracle.counts, time.perf_counter()
    parts: list[Tensor] = []
    infos: list[list[Info]] = []  # by batch and segment

    def result() -> RTKResult:
        samples = torch.cat([torch.empty(0, *shape, dtype=oracle.dtype, device=device), *parts])
        calls, queries, energy_calls, energy_queries = (
            now - then for now, then in zip(oracle.counts, before, strict=True)
        )
        acceptance, energy_error = _acceptance(infos, len(segments))
        report = RTKReport(
            kernel=type(kernel).__name__,
            seed=seed,
            num_samples=len(samples),
            segments=len(segments),
            steps=kernel.steps,
            calls=calls,
            queries=queries,
            energy_calls=energy_calls,
            energy_queries=energy_queries,
            acceptance=acceptance,
            energy_error=energy_error,
            seconds=time.perf_counter() - began,
        )
        return RTKResult(samples, report)

    try:
        with torch.no_grad():
            for lo in range(0, num_samples, batch):
                stream = Stream.of_samples(seed, torch.arange(lo, min(lo + batch, num_samples), device=device))
                x = None if first is None else first[lo : lo + batch].to(device)
                if x is None:
                    x = stream.normal(Purpose.START, torch.zeros_like(stream.keys[:, 0]), size=math.prod(shape))
                info = []
                for k, eta in enumerate(segments.lengths):
                    target = RTKTarget(oracle, segments.times[k + 1], eta, x)
                    x, done = kernel.draw(target, Noise(stream, k * kernel.steps))
                    info.append(done)
                parts.append(x.view(-1, *shape).to(oracle.dtype))
                infos.append(info)
    except Exception as error:
        finished = f"{sum(map(len, parts))} of {num_samples} samples finished (they are in .result)"
        raise SamplingError(f"sampling stopped with {finished}: {error}", cast(Any, result())) from error
    return result()


def _acceptance(infos: list[list[Info]], segments: int) -> tuple[tuple[float, ...], float]:
    """The share of steps accepted in each segment, and the mean error of an energy difference."""
    accepted, steps, error = [0] * segments, [0] * segments, 0.0
    for batch in infos:
        for k, info in enumerate(batch):
            accepted[k] += int(info.accepted.sum())
            steps[k] += info.steps * len(info.accepted)
            error += float(info.energy_error.sum())
    shares = tuple(a / s if s else float("nan") for a, s in zip(accepted, steps, strict=True))
    return shares, error / max(1, sum(steps))


def as_oracle(score: ScoreOracle | DenoisingTarget | Score) -> ScoreOracle:
    """The oracle itself, or the natural one for a target or a callable."""
    if isinstance(score, ScoreOracle):
        return score
    return exact(score) if isinstance(score, DenoisingTarget) else learned(score)


def shape_of(oracle: ScoreOracle, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of one sample: the oracle's, or else the argument."""
    wanted = None if shape is None else as_shape("shape", shape)
    if wanted is not None and oracle.shape is not None and wanted != oracle.shape:
        raise InputError(f"shape is {wanted}, but the score answers about states of shape {oracle.shape}")
    single = oracle.shape or wanted
    if not single:
        raise InputError(
            "shape= must give the sizes of one sample, one or more positive numbers: the score does not say"
        )
    if oracle.shape is None and len(single) > 1:
        raise InputError(f"a score of states of shape {single} must know it: write learned(network, shape={single})")
    return single


def first_states(start: Tensor, shape: tuple[int, ...], num_samples: int | None = None) -> Tensor:
    """The states at the first time, (*shape) or (num_samples, *shape); flat where the number is known."""
    states = as_float64("start", start, finite=True)
    if states.shape != shape and (states.shape[1:] != shape or num_samples not in (None, len(states))):
        raise InputError(f"start must have shape {shape} or (num_samples, *{shape}), not {tuple(states.shape)}")
    return states if num_samples is None else states.expand(num_samples, *shape).flatten(1)
