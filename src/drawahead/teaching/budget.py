"""Draw samples for so many seconds at most, and say whether that was enough."""

from __future__ import annotations

import time
from collections.abc import Callable

from drawahead.chains.base import Chain
from drawahead.errors import SamplingError
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.rounds.threads import Executor
from drawahead.sample import Result, sample
from drawahead.samplers.base import Sampler


class _OutOfTimeError(Exception):
    pass


def sample_within(
    seconds: float,
    target: Chain | TokenOracle,
    num_samples: int,
    *,
    sampler: Sampler,
    seed: int,
    executor: Executor | None = None,
    on_round: Callable[[Report], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Result, bool]:
    """The result of `sample`, and whether it is complete.

    An incomplete one has a bias that no law check should be made on: samples that finish early are not typical.
    `clock` (real time, unless another is given) is read between rounds, so a single long round is never cut.
    """
    deadline = clock() + seconds

    def watch(report: Report) -> None:
        if on_round is not None:
            on_round(report)
        if clock() > deadline and report.num_samples < num_samples:
            raise _OutOfTimeError

    try:
        return sample(target, num_samples, sampler=sampler, seed=seed, executor=executor, on_round=watch), True
    except SamplingError as error:
        if not isinstance(error.__cause__, _OutOfTimeError):
            raise
        return error.result, False
