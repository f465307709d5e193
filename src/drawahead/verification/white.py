"""Are innovations independent standard normals? Where a sample has none there is NaN, and samples may differ in that.

Three kinds of tests. *Columns* compare one and the same innovation of all samples: a step that goes wrong shows there.
*Pooled* tests put the innovations of all steps and samples into one: what goes wrong where few samples have the same
steps shows there. *Moments* are sums over all of them: what goes wrong a little everywhere shows there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.special import gammainc, gammaincc, ndtr

from drawahead.verification.statistics import kolmogorov_columns

COLUMNS = 48  # of each kind that are tested, evenly chosen
LINES = 8  # random combinations of all innovations of a sample
FAR = 0.7
POOL = 2**18  # innovations in one test
FARTHEST = 7.0
"""No innovation goes farther, as good as: in what rounding may do to a sum, each counts for as much."""


@final
@dataclass(frozen=True)
class Off:
    """How far steps may be from the law that innovations are made with: the model's own rounding."""

    step: float = 0.0
    """The total variation of the law of a step."""
    entry: float = 0.0
    """The distance of the distribution function of one innovation."""
    mean: float = 0.0
    """The mean of an innovation, of its square, and of its product with a neighbour."""
    square: float = 0.0
    product: float = 0.0

    @staticmethod
    def of_tokens(variation: float) -> Off:
        """A law that is off by so much moves the mean of a function by at most that times the function's range."""
        twice = 2 * FARTHEST * variation
        return Off(variation, variation, twice, FARTHEST**2 * variation, twice)

    @staticmethod
    def of_vectors(variation: float, shift: float) -> Off:
        """Gaussians of which no entry is off by more than so many standard deviations."""
        return Off(variation, shift / math.sqrt(2 * math.pi), shift, shift**2, shift)


EXACT = Off()


def white(xi: Tensor, off: Off = EXACT) -> float:
    """The p-value of a test that innovations (m, steps, d) are independent standard normals, NaN where there are none.

    Kolmogorov-Smirnov tests, of columns and pooled: of single innovations, of sums and differences of those of
    neighbouring steps, of those that follow one that went far to either side, of random combinations, and of sums of
    squares; and exact tests of their mean, of their squares and of the products of neighbouring ones. `off` is how far
    each step may be from the law that its innovations are made with.
    """
    return min(1.0, 3 * min(columns(xi, off), pooled(xi, off), moments(xi, off)))


def columns(xi: Tensor, off: Off = EXACT) -> float:
    """The tests of columns alone."""
    steps, flat = xi.shape[1], xi.flatten(1)
    if not xi.numel():
        return 1.0
    tables = [(ndtr(_some(values.flatten(1))), allowed) for values, allowed, _ in _kinds(xi, off)]
    tables += [(ndtr(_combined(flat)), steps * off.step)]
    tables += [(_squares(xi[:, _evenly(steps)]), off.step), (_squares(flat[:, None]), steps * off.step)]
    offs = torch.cat([torch.full((table.shape[1],), allowed, dtype=torch.float64) for table, allowed in tables])
    return kolmogorov_columns(torch.cat([table for table, _ in tables], dim=1), offs)


def pooled(xi: Tensor, off: Off = EXACT) -> float:
    """The tests of all steps together."""
    pools = [(ndtr(_thinned(values[:, ::apart])), allowed) for values, allowed, apart in _kinds(xi, off)]
    pools.append((_thinned(_squares(xi[: max(1, POOL // max(1, xi.shape[1]))])), off.step))
    p_values = [kolmogorov_columns(pool[:, None], allowed) for pool, allowed in pools if len(pool)]
    return min(1.0, len(p_values) * min(p_values)) if p_values else 1.0


def _kinds(xi: Tensor, off: Off) -> Iterator[tuple[Tensor, float, int]]:
    """Standard normals (m, some steps, d): single innovations, sums and differences of neighbours, those that follow a
    far one. -> how far their law may be off, and how many steps apart they are independent: pairs must not overlap;
    those that follow a far one may, because each is picked by what came before it."""
    yield xi, off.entry, 1
    if xi.shape[1] > 1:
        before, after = xi[:, :-1], xi[:, 1:]
        for both in (after + before, after - before):
            yield both / math.sqrt(2), 2 * off.entry, 2
        for far in (before < -FAR, before > FAR):
            yield torch.where(far, after, torch.nan), off.entry, 1


def moments(xi: Tensor, off: Off = EXACT) -> float:
    """The tests of sums over all: of innovations, their squares, and products of those of neighbouring steps."""
    there = ~xi.isnan()
    filled = torch.where(there, xi, 0.0)
    count = int(there.sum())
    if not count:
        return 1.0
    beyond = (abs(float(filled.sum())) - off.mean * count) / math.sqrt(count)
    squares = float(filled.square().sum())
    p_values = [math.erfc(max(0.0, beyond) / math.sqrt(2)), _squares_tail(squares, count, off.square * count)]
    if xi.shape[1] > 1:
        pairs = int((there[:, :-1] & there[:, 1:]).sum())
        product = abs(float((filled[:, :-1] * filled[:, 1:]).sum()))
        p_values.append(_product_tail(product - off.product * pairs, pairs))
    return min(1.0, len(p_values) * min(p_values))


def _squares_tail(total: float, count: int, slack: float) -> float:
    """Of a sum of so many squares, two-sided."""
    total = count + math.copysign(max(0.0, abs(total - count) - slack), total - count)
    freedom, half = torch.tensor([count, total], dtype=torch.float64) / 2
    return min(1.0, 2 * float(torch.minimum(gammainc(freedom, half), gammaincc(freedom, half))))


def _product_tail(total: float, pairs: int) -> float:
    """Of a sum of products of neighbours, so many pairs of them, two-sided: Chernoff's bound.

    In n normals in a row the sum is a quadratic form with eigenvalues cos(pi j / (n + 1)), whose squares sum to half of
    n - 1, the number of pairs. So log E exp(l sum) = -1/4 sum_j log(1 - 4 l^2 cos^2), and each term is at most cos^2
    times what it is at cos = 1.
    """
    if total <= 0:
        return 1.0
    tilt = (math.hypot(pairs, 4 * total) - pairs) / (8 * total)  # the best l
    return min(1.0, 2 * math.exp(-tilt * total - pairs / 8 * math.log1p(-4 * tilt * tilt)))


def _squares(xi: Tensor) -> Tensor:
    """The distribution function of each step's sum of squares (m, steps, d) -> (m, steps)."""
    freedom = (~xi.isnan()).sum(2).double()
    total = xi.nan_to_num(0.0).square().sum(2)
    return torch.where(freedom > 0, gammainc(freedom.clamp(min=1) / 2, total / 2).clamp(0, 1), torch.nan)


def _combined(flat: Tensor) -> Tensor:
    """Random combinations of what each row has, of unit variance: always the same ones for the same size."""
    lines = torch.randn(flat.shape[1], LINES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    size = ((~flat.isnan()).double() @ lines.square()).sqrt()
    return torch.where(size > 0, flat.nan_to_num(0.0) @ lines / size, torch.nan)


def _some(table: Tensor) -> Tensor:
    """At most `COLUMNS` columns, evenly chosen."""
    return table[:, _evenly(table.shape[1])]


def _evenly(count: int) -> Tensor:
    return torch.linspace(0, count - 1, min(COLUMNS, count)).round().long()


def _thinned(values: Tensor) -> Tensor:
    """At most `POOL` of the values, evenly chosen, and no NaN."""
    flat = values.flatten()
    flat = flat[~flat.isnan()]
    return flat[:: -(-len(flat) // POOL) or 1]
