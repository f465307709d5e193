"""Diffusion inference with reverse transition kernels, segment by segment, each by a kernel; and what it cost."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast, final

import torch
from torch import Tensor

from drawahead.errors import InputError, SamplingError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.randomness import Purpose, Stream, checked_seed
from drawahead.rtk.kernels import Info, Kernel, Noise
from drawahead.rtk.scores import Score, ScoreOracle, exact, learned
from drawahead.rtk.segments import RTKTarget, Segments
from drawahead.validate import as_device, as_float64, as_shape, whole
from drawahead.values import dataclass


@final
@dataclass(frozen=True)
class RTKReport:
    """The cost of one run, counted by the score oracle."""

    kernel: str
    seed: int
    num_samples: int
    segments: int
    steps: int
    """Inner steps in each segment."""
    calls: int
    """Batched calls of the score for gradients, each of which waited for the one before."""
    queries: int
    """States in those calls, over all samples."""
    energy_calls: int
    """Batched calls for energy differences: of the log density, or of the score along a line. They are made beside the
    gradient at the same state, and wait for nothing else."""
    energy_queries: int
    """States in those calls."""
    acceptance: tuple[float, ...]
    """The share of inner steps accepted, segment by segment; 1 for kernels that never reject."""
    energy_error: float
    """The mean estimated error of the energy difference of a step; 0 if they were exact, or none was needed."""
    seconds: float

    @property
    def queries_per_sample(self) -> float:
        """Gradients per sample."""
        return self.queries / self.num_samples if self.num_samples else float("nan")

    @property
    def energy_queries_per_sample(self) -> float:
        """States per sample in the calls for energy differences."""
        return self.energy_queries / self.num_samples if self.num_samples else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for json.dumps."""
        return {**asdict(self), "acceptance": list(self.acceptance), "queries_per_sample": self.queries_per_sample}

    def __str__(self) -> str:
        lines = [
            f"{self.kernel}: {self.num_samples} samples, {self.segments} x {self.steps} steps, seed {self.seed}",
            f"  score       {self.calls} calls, {self.queries_per_sample:.1f} queries per sample",
        ]
        if self.energy_calls:
            lines.append(
                f"  energies    {self.energy_calls} calls, {self.energy_queries_per_sample:.1f} queries per sample, "
                f"mean error {self.energy_error:.2g}"
            )
            low, high = min(self.acceptance), max(self.acceptance)
            lines.append(f"  acceptance  {low:.1%} to {high:.1%} of the steps of a segment")
        return "\n".join([*lines, f"  seconds     {self.seconds:.3f}"])


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
