"""How far the discretised localization process ends from mu * N(0, delta I), measured where both laws are known.

With a Gaussian mu every step is linear, so the output is Gaussian too, and total variation is an expectation under a
law that can be drawn from: TV(P, Q) = E_P max(0, 1 - Q / P).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drawahead.schedules import Plan, StochasticLocalization

ERRORS = (0.5, 0.2, 0.1, 0.05)
DIMENSIONS = (1, 8, 64)


def measured_error(schedule: StochasticLocalization, variances: Tensor, draws: int = 20_000) -> tuple[float, float]:
    """The total variation between the output and mu * N(0, delta I), mu = N(0, diag(variances)); its standard error.

    Means are zero on both sides; variances (d,) may differ from coordinate to coordinate.
    """
    plan = schedule.plan()
    distinct, which = variances.double().unique(return_inverse=True)
    output = torch.tensor([_output_variance(plan, variance) for variance in distinct.tolist()], dtype=torch.float64)
    output, ideal = output[which], distinct[which] + schedule.delta
    z = torch.randn(draws, len(variances), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # log of ideal / output at x = sqrt(output) z
    log_ratio = (z**2 * (1 - output / ideal) + (output / ideal).log()).sum(1) / 2
    shortfall = -torch.expm1(log_ratio.clamp(max=0))
    return float(shortfall.mean()), float(shortfall.std()) / draws**0.5


def _output_variance(plan: Plan, variance: float) -> float:
    """Of one coordinate of the output, step by step."""
    spread = 0.0
    for t, length in zip(plan.signal.tolist(), plan.b.tolist(), strict=False):
        gain = variance / (1 + t * variance)  # E[Y | x] = gain x
        spread = (1 + length * gain) ** 2 * spread + length
    return spread * plan.final**2


def error_table(radius: float = 1.0, delta: float = 0.01, draws: int = 20_000) -> dict[str, Any]:
    """For every error asked for and every dimension: the steps `for_error` takes, and the error measured.

    mu = N(0, R^2 I), the widest Gaussian of that radius. Plain values, ready for json.dumps.
    """
    rows = []
    for dimension in DIMENSIONS:
        for eps in ERRORS:
            schedule = StochasticLocalization.for_error(eps, dimension, radius, delta)
            variances = torch.full((dimension,), radius**2, dtype=torch.float64)
            error, deviation = measured_error(schedule, variances, draws)
            rows.append(
                {
                    "dimension": dimension,
                    "asked": eps,
                    "steps": schedule.steps,
                    "measured": error,
                    "standard_error": deviation,
                }
            )
    return {"target": "N(0, R^2 I)", "radius": radius, "delta": delta, "draws": draws, "rows": rows}
