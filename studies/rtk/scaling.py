"""How many calls it takes to come within eps of N(0, I/2): against the dimension, and against eps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from drawahead.rtk import MALA, ULD, Segments
from drawahead.rtk.segments import longest
from studies.estimates import slope
from studies.rtk.gaussian import RoundGaussian, distance, largest_ratio

TARGET = RoundGaussian(0.5)
ETA = longest(TARGET.smoothness)
DIMENSIONS = (4, 16, 64, 256, 1024, 4096)
EPSILONS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125)
DIMENSION, EPSILON = 16, 0.1
"""What is held while the other changes."""
FRICTION = 2 * math.sqrt(3 * TARGET.smoothness)
"""Of ULD: critical at the largest curvature of a segment, 3 L, so that nothing oscillates."""
THEORY = {"DDPM": "d eps^-2", "RTK-ULD": "d^(1/2) eps^-1", "RTK-MALA": "d^2 log(d / eps)"}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    most_steps: int
    """Of ULD in a segment."""
    step_sizes: int
    mala_dimensions: tuple[int, ...]
    mala_epsilons: tuple[float, ...]
    number: int
    """The fewest simulated chains of MALA; 31 / eps^2 for small eps: exact samples seem to be off by eps / 4."""


FULL = Plan(1200, 40, (4, 16, 64, 256, 1024), EPSILONS, 10_000)
QUICK = Plan(60, 8, (4, 16, 64), (0.4, 0.2, 0.1), 4_000)


@dataclass(frozen=True)
class Spent:
    """A setting of a method whose output is Gaussian: what it costs, and by how much the variance is off."""

    segments: int
    steps: int
    """In each of them."""
    size: float
    """Of a step: h of DDPM, tau of ULD."""
    ratio: float
    """Of the variance drawn to the target's; above 1 for all settings here."""

    @property
    def calls(self) -> int:
        return self.segments * self.steps

    def plain(self) -> dict[str, Any]:
        """The setting, as plain values."""
        return {"segments": self.segments, "steps": self.steps, "size": self.size}


def fewest(spent: Sequence[Spent], d: int, eps: float) -> Spent | None:
    """The setting that comes within eps with the fewest calls."""
    most = largest_ratio(eps, d)
    return min((one for one in spent if 1 <= one.ratio <= most), key=lambda one: one.calls, default=None)


def ddpm_settings() -> Iterator[Spent]:
    """Even steps from many first times."""
    for first in (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0):
        for k in range(80):
            steps = round(4 * 1.08**k)
            segments = Segments.even(first, steps)
            yield Spent(steps, 1, first / steps, TARGET.ddpm(segments) / TARGET.variance)


def uld_settings(plan: Plan) -> Iterator[Spent]:
    """The theorem's segments, any number of them, with any one step size for all."""
    for count in range(2, 26):
        segments = Segments.even(count * ETA, count)
        for k in range(plan.step_sizes):
            tau = 1.0 * 0.002 ** (k / (plan.step_sizes - 1))
            for steps, variance in enumerate(TARGET.uld(ULD(tau, FRICTION, plan.most_steps), segments), 1):
                yield Spent(count, steps, tau, variance / TARGET.variance)


def mala_calls(d: int, eps: float, number: int) -> dict[str, Any] | None:
    """The fewest calls of MALA, over step sizes and steps, in the fewest segments that leave half of eps."""
    tolerance = largest_ratio(eps / 2, d) - 1
    count = 1
    while _truncation(count * ETA) > tolerance:
        count += 1
    segments = Segments.even(count * ETA, count)
    best: dict[str, Any] | None = None
    for power in range(-1, 8):  # step sizes from long ones, which are hardly ever accepted, until shorter ones lose
        tau = 2.0**-power / (3 * TARGET.smoothness)
        steps = _fewest_steps(tau, segments, d, eps, number, 200 if best is None else best["steps"] - 1)
        if steps is not None:
            best = {"calls": count * (1 + 2 * steps), "segments": count, "steps": steps, "size": tau}
        elif best is not None:
            break
    return best


def _truncation(first: float) -> float:
    """How far the variance is off if the reverse process is exact but starts from N(0, I) at this time."""
    slope = math.exp(-first) * TARGET.variance / TARGET.noised(first)
    return slope**2 * (1 - TARGET.noised(first)) / TARGET.variance


def _fewest_steps(tau: float, segments: Segments, d: int, eps: float, number: int, most: int) -> int | None:
    """The fewest steps, at most `most`, by doubling and halving."""

    def close(steps: int) -> bool:
        squares = TARGET.mala(MALA(tau, steps), segments, d, number, seed=steps)
        return TARGET.sampled_distance(squares, d) <= eps

    low, high = 0, 1
    while high <= most and not close(high):
        low, high = high, 2 * high
    if high > most:
        if low >= most or not close(most):
            return None
        high = most
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if close(middle) else (middle, high)
    return high


def study(plan: Plan) -> dict[str, Any]:
    """All of it, as plain values."""
    exact = {"DDPM": list(ddpm_settings()), "RTK-ULD": list(uld_settings(plan))}
    cells = [(d, EPSILON) for d in DIMENSIONS] + [(DIMENSION, eps) for eps in EPSILONS if eps != EPSILON]
    rows: list[dict[str, Any]] = []
    for method, spent in exact.items():
        for d, eps in cells:
            best = fewest(spent, d, eps)
            if best is not None:
                rows.append({"method": method, "d": d, "eps": eps, "calls": best.calls, **best.plain()})
    cells = [(d, EPSILON) for d in plan.mala_dimensions]
    cells += [(DIMENSION, eps) for eps in plan.mala_epsilons if eps != EPSILON]
    for d, eps in cells:
        found = mala_calls(d, eps, max(plan.number, round(31 / eps**2)))
        if found is not None:
            rows.append({"method": "RTK-MALA", "d": d, "eps": eps, **found})
    return {"rows": rows, "fits": [fit for method in THEORY for fit in _fits(rows, method)], "theory": constructors()}


def constructors() -> list[dict[str, Any]]:
    """What the theorem's constructors for ULD give: calls, and the exact error."""
    rows = []
    for d in (4, 64):
        for eps in (0.4, 0.2, 0.1):
            segments = Segments.from_theory(TARGET.smoothness, d, eps)
            kernel = ULD.from_theory(TARGET.smoothness, d, eps, second_moment=d * TARGET.variance)
            ratio = TARGET.uld(kernel, segments)[-1] / TARGET.variance
            rows.append(
                {
                    "d": d,
                    "eps": eps,
                    "segments": len(segments),
                    "steps": kernel.steps,
                    "calls": len(segments) * kernel.steps,
                    "distance": distance(ratio, d),
                }
            )
    return rows


def _fits(rows: Sequence[dict[str, Any]], method: str) -> Iterator[dict[str, Any]]:
    """Slopes of the logs of calls and of 1 / step size against log d and log(1 / eps), with standard errors."""
    own = [row for row in rows if row["method"] == method]
    by_d = [(math.log(row["d"]), row) for row in own if row["eps"] == EPSILON]
    by_eps = [(-math.log(row["eps"]), row) for row in own if row["d"] == DIMENSION]
    lines: list[tuple[str, str, list[tuple[float, float]]]] = []
    for against, points in (("d", by_d), ("1 / eps", by_eps)):
        lines.append(("calls", against, [(x, math.log(row["calls"])) for x, row in points]))
        lines.append(("1 / step size", against, [(x, -math.log(row["size"])) for x, row in points]))
    # What grows like log(1 / eps) is a straight line against log(1 / eps) itself.
    lines.append(("steps", "log(1 / eps)", [(x, row["steps"]) for x, row in by_eps]))
    for quantity, against, places in lines:
        fit = slope(*zip(*places, strict=True))
        yield {"method": method, "quantity": quantity, "against": against, "slope": fit.value, "error": fit.error}
