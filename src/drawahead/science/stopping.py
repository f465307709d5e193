"""How many draws a tolerance needs, without a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from torch import Tensor

from drawahead.errors import InputError
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.runner import Runner, Target
from drawahead.samplers.base import Sampler
from drawahead.science.statistics import Draws, Summary
from drawahead.validate import as_float64, short, whole
from drawahead.values import dataclass

_MARGIN = 1.25
"""The pilot's errors are estimates themselves: so many times the draws that they ask for."""


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """The result of `until`."""

    summary: Summary
    """The summary of all draws but those of the pilot."""
    pilot: Summary
    tolerance: Tensor
    reports: tuple[Report, ...]
    """Of every batch; the pilot's first."""

    @property
    def reached(self) -> bool:
        """Whether every error is below its tolerance, estimated from these draws."""
        return bool((self.summary.quantile_errors <= self.tolerance).all())


def until(
    target: Target,
    tolerance: float | Tensor,
    *,
    quantiles: Sequence[float] = (0.16, 0.5, 0.84),
    pilot: int = 256,
    batch: int = 1024,
    most: int = 1_000_000,
    sampler: Sampler | str | None = None,
    seed: int | None = None,
    into: Draws | None = None,
) -> Estimate:
    """Draw until the Monte-Carlo error of every quantile, of every entry, is below a tolerance.

    A rule that looks at the errors after each batch and stops when they are small stops early where draws happen to lie
    close together, and its results are biased. This one decides once: a pilot says how many draws are needed, then that
    many *others* are drawn. Their number does not depend on them, so nothing is biased. In return the final error may
    be slightly above the tolerance: see `reached`.

    tolerance: in the units of samples; one for all entries, or a tensor that broadcasts to a sample.
    pilot: draws that decide, and are not used. batch: draws made together.
    most: raise an error if the tolerance needs more draws than this.
    into: a `Draws` to which draws are added, so that they survive an error.
    """
    tolerance = as_float64("tolerance", tolerance, finite=True)
    if not bool((tolerance > 0).all()):
        raise InputError(f"tolerance must be above 0, not {short(tolerance.tolist())}")
    pilot, batch, most = whole("pilot", pilot, 16), whole("batch", batch, 1), whole("most", most, 1)
    added, first = into or Draws(quantiles), Draws(quantiles)
    runner, seed = Runner(target, sampler), seed_from(seed, None)
    result = runner.sample(pilot, seed=seed)
    first.add(result.samples)
    reports, tried = [result.report], first.summary()
    try:
        ratio = (tried.quantile_errors / tolerance).max()
    except RuntimeError:
        shape = tuple(tried.mean.shape)
        raise InputError(f"tolerance {tuple(tolerance.shape)} does not broadcast to a sample, {shape}") from None
    needed = math.ceil(_MARGIN * pilot * float(ratio) ** 2)
    if needed > most:
        raise InputError(f"this tolerance asks for about {needed} draws, and most={most}: raise one of them")
    total = -(-max(needed, pilot) // batch) * batch if needed > batch else max(needed, pilot)
    for begun in range(0, total, batch):
        result = runner.sample(min(batch, total - begun), first=pilot + begun, seed=seed)
        added.add(result.samples)
        reports.append(result.report)
    return Estimate(added.summary(), tried, tolerance, tuple(reports))
