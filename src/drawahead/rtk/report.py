"""What a run cost: calls of the score and of energies, acceptance and seconds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, final

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
