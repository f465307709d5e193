"""What a run cost: rounds, queries and seconds, apart from the samples themselves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """The cost of one run, counted by the engine."""

    sampler: str
    choice: str
    """Why `Auto` chose this sampler; empty if it was asked for."""
    exact: bool
    seed: int
    num_samples: int
    """Samples finished."""
    steps: int
    """N: the most steps a sample takes, which is also the rounds a sequential run needs."""
    rounds: int
    """Barriers: batches of oracle queries, each of which waited for the one before."""
    queries: int
    """Conditionings asked about, over all samples."""
    passes: int
    """Sequences or states handed to the oracle; fewer than queries where one pass answers a whole path."""
    probes: int
    """Queries that `Auto` asked to measure the model before it chose; not among `queries`."""
    rereads: int
    """Sequences handed to an exact oracle again, to read more of an answer it had given; a network is never."""
    widths: tuple[int, ...]
    """Queries in each round."""
    committed: tuple[int, ...]
    """Steps committed in each round."""
    drafted: int
    """Steps drawn from a draft law."""
    accepted: int
    """Steps of those that were kept."""
    candidates: int
    """Second and later tries at a rejected segment; only `Recursive` makes them."""
    sample_rounds: tuple[int, ...]
    """Rounds each finished sample took, in the order of their numbers."""
    progress: dict[int, tuple[int, ...]]
    """For the first few samples: steps committed after each of their rounds."""
    seconds: float
    oracle_seconds: float

    @property
    def acceptance(self) -> float:
        """The share of drafted steps that were kept (NaN if nothing was drafted)."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    @property
    def mean_rounds(self) -> float:
        """Rounds a sample took, on average: what to compare with `steps`."""
        return sum(self.sample_rounds) / len(self.sample_rounds) if self.sample_rounds else float("nan")

    @property
    def queries_per_sample(self) -> float:
        return self.queries / self.num_samples if self.num_samples else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts, ready for json.dumps."""
        out: dict[str, Any] = asdict(self)
        out["progress"] = {str(k): list(v) for k, v in self.progress.items()}
        for name in ("widths", "committed", "sample_rounds"):
            out[name] = list(out[name])
        out["acceptance"] = self.acceptance if self.drafted else None
        out["mean_rounds"] = self.mean_rounds if self.sample_rounds else None
        return out

    def __str__(self) -> str:
        kind = "exact" if self.exact else "NOT exact"
        speedup = self.steps / self.mean_rounds if any(self.sample_rounds) else float("nan")
        lines = [
            f"{self.sampler}: {self.num_samples} samples of {self.steps} steps, {kind}, seed {self.seed}",
            *([f"  chosen      {self.choice}"] if self.choice else []),
            f"  rounds      {self.rounds} in all, {self.mean_rounds:.1f} a sample ({speedup:.1f}x fewer)",
            f"  queries     {self.queries} in all, {self.queries_per_sample:.1f} a sample"
            + (f" ({self.probes} more to choose)" if self.probes else ""),
            f"  acceptance  {self.acceptance:.1%} of {self.drafted} drafted steps" if self.drafted else "  no drafts",
            f"  seconds     {self.seconds:.3f}, of which oracle {self.oracle_seconds:.3f}",
        ]
        if self.candidates:
            lines.insert(-1, f"  candidates  {self.candidates} for rejected segments")
        return "\n".join(lines)
