"""Do samples have the law they should have? Tests that return a p-value and leave the verdict to the caller.

A p-value is uniform on [0, 1] (or larger) when the laws agree. Decide on a level before looking: for k checks with a
false-alarm rate of 1e-3 in all, reject below 1e-3 / k.
"""

from __future__ import annotations

import math
from typing import TypeVar

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import as_float64, whole

Number = TypeVar("Number", float, Tensor)
SMALLEST_EXPECTATION = 5.0
"""Cells in which fewer draws are expected are pooled: below this the chi-square approximation fails."""


def chi_square(counts: Tensor, probabilities: Tensor) -> float:
    """The p-value of Pearson's test that `counts` (cells,) are draws from `probabilities` (cells,).

    `counts` are counts, never proportions: a test on proportions has no power. A single draw that is impossible
    gives 0.0. Cells in which fewer than 5 draws are expected are pooled into one.
    """
    counts, probabilities = as_float64("counts", counts).flatten(), as_float64("probabilities", probabilities).flatten()
    if counts.shape != probabilities.shape or len(counts) == 0:
        raise InputError(f"counts and probabilities must be of one size, not {len(counts)} and {len(probabilities)}")
    if not bool(((counts >= 0) & (counts == counts.round())).all()) or not bool(counts.sum() > 0):
        raise InputError("counts must be whole numbers, at least one of them positive: not proportions")
    if not bool((probabilities >= 0).all()) or not abs(float(probabilities.sum()) - 1) <= 1e-6:
        raise InputError(f"probabilities must be at least 0 and sum to 1, not {float(probabilities.sum()):.6g}")
    possible = probabilities > 0
    if bool((counts[~possible] > 0).any()):
        return 0.0
    counts, probabilities = counts[possible], probabilities[possible] / probabilities.sum()
    expected = probabilities * counts.sum()
    label = _pooled(expected)
    return _tail(_sums(counts, label)[None], _sums(expected, label)[None])


def two_sample(first: Tensor, second: Tensor) -> float:
    """The p-value of a test that two sets of integer sequences, (m, n) and (k, n), have the same law.

    Where outcomes that can be expected 5 times in either set make up at least half of all draws, it is the chi-square
    test of homogeneity over *whole outcomes*, the others pooled: it sees every difference, except one among the
    pooled outcomes.

    Otherwise there are too many outcomes to count, and it tests *small tables*: the token at every position, the
    pair of tokens at every two neighbouring positions, and as many pairs of positions chosen at random (always the
    same ones for the same n). The smallest p-value is multiplied by the number of tables (Bonferroni). It cannot
    see a dependence of three or more positions that leaves their pairs alone, nor one of a pair that is not tested.
    """
    for samples in (first, second):
        real = samples.is_floating_point() or samples.is_complex()
        if samples.dim() != 2 or real or min(samples.shape) < 1:
            raise InputError(f"samples must be integers (samples, n), not {samples.dtype} {tuple(samples.shape)}")
    if first.shape[1] != second.shape[1]:
        raise InputError(f"samples must have the same length, not {first.shape[1]} and {second.shape[1]}")
    both = torch.cat([first, second]).cpu().long()
    group = (torch.arange(len(both)) >= len(first)).long()
    label = torch.unique(both, dim=0, return_inverse=True)[1]
    size = torch.bincount(label)
    frequent = size * min(len(first), len(second)) >= SMALLEST_EXPECTATION * len(both)
    if 2 * int(size[frequent].sum()) >= len(both):
        return _homogeneity(label, group)
    token = torch.stack([torch.unique(column, return_inverse=True)[1] for column in both.T])  # (n, samples)
    vocabulary = int(token.max()) + 1
    one, other = _pairs(len(token))
    tables = [*token, *(token[one] * vocabulary + token[other])]
    smallest = min(_homogeneity(torch.unique(table, return_inverse=True)[1], group) for table in tables)
    return min(1.0, len(tables) * smallest)


def kolmogorov(cdf_values: Tensor) -> float:
    """The p-value of the one-sample Kolmogorov-Smirnov test that values have a continuous law.

    `cdf_values` (m,) is that law's distribution function at each value: uniform if the values have the law. Each
    value may have a distribution function of its own, such as a conditional one.
    """
    u = as_float64("cdf_values", cdf_values).flatten()
    if len(u) == 0 or not bool(((u >= 0) & (u <= 1)).all()):
        raise InputError("cdf_values must be a distribution function at each value: between 0 and 1, at least one")
    return kolmogorov_columns(u[:, None], fewest=1)


def kolmogorov_columns(cdf_values: Tensor, off: Tensor | float = 0.0, fewest: int = 8) -> float:
    """The p-value of Kolmogorov-Smirnov tests of every column of (m, c): the smallest, times their number (Bonferroni).

    NaN stands where a column has no value; columns with less than `fewest` are not tested, and without any the p-value
    is 1. `off`, one number or one for each column, allows for laws that are known up to so much: a column passes as
    long as some law within that distance of the one tested explains it.
    """
    u, allowed = as_float64("cdf_values", cdf_values), as_float64("off", off)
    if u.dim() != 2 or bool(((u < 0) | (u > 1)).any()):
        raise InputError(f"cdf_values must be a table of numbers between 0 and 1, or NaN, not {tuple(u.shape)}")
    if allowed.shape not in ((), (u.shape[1],)) or not bool((allowed >= 0).all()):
        raise InputError(f"off must be a number, at least 0, or one for each of the {u.shape[1]} columns")
    there = (~u.isnan()).sum(0)
    tested = there >= whole("fewest", fewest, 1)
    if not bool(tested.any()):
        return 1.0
    u, size = u[:, tested].T.sort(dim=1).values, there[tested].double()[:, None]  # NaN comes last
    index = torch.arange(u.shape[1], dtype=torch.float64, device=u.device)
    distance = torch.maximum((index + 1) / size - u, u - index / size).nan_to_num(0.0).amax(1)
    beyond = distance - allowed.to(u.device).expand(len(there))[tested]
    x = _stephens(size[:, 0].sqrt()) * beyond.clamp(min=0)
    return min(1.0, len(x) * _kolmogorov_series(float(x.max())))


def two_sample_kolmogorov(first: Tensor, second: Tensor) -> float:
    """The p-value of the two-sample Kolmogorov-Smirnov test that two sets of numbers have the same law."""
    one, other = (as_float64("samples", values).flatten().sort().values for values in (first, second))
    if len(one) == 0 or len(other) == 0 or bool(one.isnan().any() or other.isnan().any()):
        raise InputError("both samples must hold at least one number and no NaN")
    both = torch.cat([one, other])
    heights = [torch.searchsorted(part, both, right=True) / len(part) for part in (one.double(), other.double())]
    root = math.sqrt(len(one) * len(other) / len(both))
    return _kolmogorov_series(_stephens(root) * float((heights[0] - heights[1]).abs().max()))


def two_sample_vectors(first: Tensor, second: Tensor) -> float:
    """The p-value of a test that two sets of vectors, (m, ...) and (k, ...), have the same law.

    Two-sample Kolmogorov-Smirnov tests on up to 16 coordinates, as many random directions (always the same ones for
    the same size), and the distance from the mean of both; the smallest p-value times their number (Bonferroni). It
    cannot see a difference that leaves all of these alone.
    """
    one, other = as_float64("samples", first), as_float64("samples", second)
    if min(one.dim(), other.dim()) < 2 or one[:1].numel() != other[:1].numel() or not min(one.numel(), other.numel()):
        raise InputError(f"samples must be vectors of one size, not {tuple(one.shape)} and {tuple(other.shape)}")
    one, other = one.flatten(1), other.flatten(1)
    size = one.shape[1]
    direction = torch.randn(16, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    coordinate = torch.eye(size, dtype=torch.float64)[:: max(1, size // 16)][:16]
    centre = torch.cat([one, other]).mean(0)
    along = torch.cat([coordinate, direction if size > 1 else direction[:0]])
    numbers = [(one @ line, other @ line) for line in along]
    numbers.append(((one - centre).norm(dim=1), (other - centre).norm(dim=1)))
    return min(1.0, len(numbers) * min(two_sample_kolmogorov(*pair) for pair in numbers))


def same_law(first: Tensor, second: Tensor) -> float:
    """`two_sample` for integer sequences, `two_sample_vectors` for vectors."""
    return (two_sample_vectors if first.is_floating_point() else two_sample)(first, second)


def _pairs(n: int) -> tuple[Tensor, Tensor]:
    """Neighbouring positions, and as many random pairs of distinct ones: index tensors."""
    generator = torch.Generator().manual_seed(0)
    one = torch.randint(n, (n - 1,), generator=generator)
    other = (one + torch.randint(1, max(2, n), (n - 1,), generator=generator)) % n
    return torch.cat([torch.arange(n - 1), one]), torch.cat([torch.arange(1, n), other])


def _homogeneity(label: Tensor, group: Tensor) -> float:
    """The chi-square test that labels (samples,) are spread alike over the groups 0 and 1."""
    table = torch.stack([torch.bincount(label[group == g], minlength=int(label.max()) + 1).double() for g in (0, 1)])
    share = table.sum(1) / table.sum()
    label = _pooled(table.sum(0) * share.min())
    table = torch.stack([_sums(row, label) for row in table])
    return _tail(table, share[:, None] * table.sum(0))


def _pooled(expected: Tensor) -> Tensor:
    """The label of each cell: 0 for all with a small expectation, and for the smallest other if they need it."""
    small = expected < SMALLEST_EXPECTATION
    if bool(small.any()) and float(expected[small].sum()) < SMALLEST_EXPECTATION and not bool(small.all()):
        small[torch.where(small, torch.inf, expected).argmin()] = True
    own = (~small).long()
    return torch.where(small, 0, own.cumsum(0) - (0 if bool(small.any()) else 1))


def _sums(values: Tensor, label: Tensor) -> Tensor:
    """The total of the values under each label."""
    return torch.zeros(int(label.max()) + 1, dtype=torch.float64).index_add_(0, label, values)


def _tail(observed: Tensor, expected: Tensor) -> float:
    """The chi-square tail at Pearson's statistic, for (rows, cells) with cells - 1 degrees of freedom."""
    cells = observed.shape[1]
    if cells < 2:
        return 1.0
    statistic = ((observed - expected) ** 2 / expected).sum() / 2
    return float(torch.special.gammaincc(torch.full_like(statistic, (cells - 1) / 2), statistic))


def _stephens(root: Number) -> Number:
    """The factor of a distance: the root of the size, with Stephens' correction (1970) for a finite one."""
    return root + 0.12 + 0.11 / root


def _kolmogorov_series(x: float) -> float:
    if x < 0.2:  # 1 to twelve digits; the series needs too many terms
        return 1.0
    return min(1.0, max(0.0, sum(math.copysign(2, k % 2 - 0.5) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))))
