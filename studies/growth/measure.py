"""Run one sampler at one length and count, sample by sample, what it asked."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.chains.affine_queries import GaussianQuery
from drawahead.chains.token_queries import TokenQuery
from drawahead.executors import Local
from drawahead.rounds.threads import Query
from drawahead.sample import sample
from drawahead.teaching.comparison import TimeLimit
from studies.estimates import mean
from studies.growth.settings import RECURSIVE_SIZE, SEQUENTIAL_SIZE, Plan, Setting


@dataclass(frozen=True)
class Measurement:
    """One sampler on one target at one length. Means are over samples, with their standard errors."""

    target: str
    sampler: str
    order: str
    n: int
    samples: int
    finished: int
    rounds: float | None
    rounds_error: float | None
    queries: float | None
    queries_error: float | None
    acceptance: float | None
    candidates: float | None
    seconds: float
    status: str
    """`measured`; `by definition` for long sequential runs; `stopped` (the means are lower bounds); `skipped`."""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self)


def measure(setting: Setting, n: int, before: Measurement | None, plan: Plan) -> Measurement:
    """Measure one length; `before` is the same setting at the length before."""
    labels = {"target": setting.target, "sampler": setting.sampler, "order": setting.order, "n": n}
    if setting.sampler == "sequential" and n > SEQUENTIAL_SIZE:
        return unmeasured(labels, "by definition", float(n), "one step a round")
    if setting.sampler == "recursive" and n > RECURSIVE_SIZE:
        return unmeasured(labels, "skipped", None, f"not run above {RECURSIVE_SIZE} steps")
    if before is not None and before.status in ("stopped", "skipped"):
        return unmeasured(labels, "skipped", None, f"not run: {before.n} steps were too many")
    num_samples = min(setting.num_samples(n), plan.most_samples)
    counting = _CountingExecutor(num_samples)
    seconds = plan.recursive_seconds if setting.sampler == "recursive" else math.inf
    began = time.perf_counter()
    chain = setting.chain(n)
    sampler = setting.make_sampler(n)
    # Processor time: what is cut does not depend on what else the machine does.
    limit = TimeLimit(seconds, time.process_time)
    result = sample(chain, num_samples, sampler=sampler, seed=0, executor=counting, stop=limit)
    report, complete = result.report, result.complete
    assert int(counting.queries.sum()) == report.queries, "the engine and the executor count differently"
    # An unfinished sample has taken every round so far: with it the means are lower bounds, without it too low.
    each = torch.full((num_samples,), float(report.rounds), dtype=torch.float64)
    each[result.numbers] = torch.tensor(report.sample_rounds, dtype=torch.float64)
    rounds, queries = mean(each.tolist()), mean(counting.queries.tolist())
    note = "" if complete else f"stopped after {seconds:g} s with {report.num_samples} of {num_samples} finished"
    return Measurement(
        **labels,
        samples=num_samples,
        finished=report.num_samples,
        rounds=rounds.value,
        rounds_error=rounds.error if complete else None,
        queries=queries.value,
        queries_error=queries.error if complete else None,
        acceptance=report.acceptance if report.drafted else None,
        candidates=report.candidates / num_samples if setting.sampler == "recursive" else None,
        seconds=time.perf_counter() - began,
        status="measured" if complete else "stopped",
        note=note,
    )


class _CountingExecutor:
    """Answers as `Local` does, and counts queries by sample: the report only knows their sum."""

    def __init__(self, num_samples: int) -> None:
        self.local = Local()
        self.queries = torch.zeros(num_samples, dtype=torch.float64)

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        for query in queries:
            assert isinstance(query, TokenQuery | GaussianQuery)
            sample = query.sample.repeat_interleave(query.count)
            self.queries += torch.bincount(sample, minlength=len(self.queries))
        return self.local.answer(queries)


def unmeasured(labels: dict[str, Any], status: str, rounds: float | None, note: str) -> Measurement:
    """What is not run: `rounds` are known by definition, and queries are as many; or nothing is known."""
    return Measurement(
        **labels,
        samples=0,
        finished=0,
        rounds=rounds,
        rounds_error=None,
        queries=rounds,
        queries_error=None,
        acceptance=None,
        candidates=None,
        seconds=0.0,
        status=status,
        note=note,
    )
