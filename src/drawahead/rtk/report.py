"""What a run cost: calls of the score and of energies, acceptance and seconds."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, final

from drawahead.rtk.kernels.base import Info, Kernel
from drawahead.rtk.scores import ScoreOracle
from drawahead.rtk.segments import Segments
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
    """Batched calls for energy differences: of the log density, or of the score along a line. They are asked beside
    the gradient at the same state, and wait for nothing else."""
    energy_queries: int
    """States in those calls."""
    acceptance: tuple[float, ...]
    """The share of inner steps accepted, segment by segment; 1 for kernels that never reject."""
    energy_error: float
    """The mean estimated error of the energy difference of a step; 0 if they were exact or none was asked for."""
    seconds: float

    @property
    def queries_per_sample(self) -> float:
        """Gradients a sample took."""
        return self.queries / self.num_samples if self.num_samples else float("nan")

    @property
    def energy_queries_per_sample(self) -> float:
        """States a sample's energy differences took."""
        return self.energy_queries / self.num_samples if self.num_samples else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, ready for json.dumps."""
        return {**asdict(self), "acceptance": list(self.acceptance), "queries_per_sample": self.queries_per_sample}

    def __str__(self) -> str:
        lines = [
            f"{self.kernel}: {self.num_samples} samples, {self.segments} x {self.steps} steps, seed {self.seed}",
            f"  score       {self.calls} calls, {self.queries_per_sample:.1f} queries a sample",
        ]
        if self.energy_calls:
            lines.append(
                f"  energies    {self.energy_calls} calls, {self.energy_queries_per_sample:.1f} queries a sample, "
                f"mean error {self.energy_error:.2g}"
            )
            low, high = min(self.acceptance), max(self.acceptance)
            lines.append(f"  acceptance  {low:.1%} to {high:.1%} of the steps of a segment")
        return "\n".join([*lines, f"  seconds     {self.seconds:.3f}"])


@final
class CallTally:
    """Counts while a run is under way; the report is made from it."""

    def __init__(self, oracle: ScoreOracle, kernel: Kernel, segments: Segments, seed: int) -> None:
        self.oracle, self.kernel, self.segments, self.seed = oracle, kernel, segments, seed
        self.done = 0
        self._before = self._counts()
        self._accepted, self._steps = [0] * len(segments), [0] * len(segments)
        self._error = 0.0
        self._began = time.perf_counter()

    def add(self, segment: int, info: Info) -> None:
        self._accepted[segment] += int(info.accepted.sum())
        self._steps[segment] += info.steps * len(info.accepted)
        self._error += float(info.energy_error.sum())

    def report(self) -> RTKReport:
        calls, queries, energy_calls, energy_queries = (
            now - before for now, before in zip(self._counts(), self._before, strict=True)
        )
        return RTKReport(
            type(self.kernel).__name__,
            self.seed,
            self.done,
            len(self.segments),
            self.kernel.steps,
            calls,
            queries,
            energy_calls,
            energy_queries,
            tuple(a / s if s else float("nan") for a, s in zip(self._accepted, self._steps, strict=True)),
            self._error / max(1, sum(self._steps)),
            time.perf_counter() - self._began,
        )

    def _counts(self) -> tuple[int, int, int, int]:
        oracle = self.oracle
        return oracle.calls, oracle.queries, oracle.energy_calls, oracle.energy_queries
