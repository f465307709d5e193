"""The formulas of the page on scale are right."""

from __future__ import annotations

import math

from studies.scale.sizing import Line, Model, Overhead, best_workers


def test_the_best_number_of_workers_is_the_best() -> None:
    line = Line.through([(w, 0.002 + 0.0005 * w) for w in (1.0, 2.0, 8.0)])
    overhead = Overhead(line, 0.001)
    assert math.isclose(line.start, 0.002, rel_tol=1e-6) and line.worst < 1e-6
    best = best_workers(64, 0.01, overhead)
    seconds = {w: 64 * 0.01 / w + line(w) for w in (best / 1.1, best, best * 1.1)}
    assert min(seconds, key=seconds.__getitem__) == best


def test_shares_of_samples_and_of_rounds() -> None:
    device, flat = Line(0.001, 0.0001, ()), Line(0.0, 0.0, ())
    model = Model("a model", device, ((10, 5.0),), ((1, 0.1), (4, 0.2)), 0.0, 0.0)
    assert model.by_samples(1, 100) == 0.1 and model.by_samples(8, 2) == 0.2
    assert math.isclose(model.by_samples(9, 1), 0.2 + 0.2 + 0.1)
    free = Overhead(flat, 0.0)
    assert math.isclose(model.by_rounds(1, 1, free), 5 * (0.001 + 10 * 0.0001))
    assert math.isclose(model.by_rounds(1, 10**6, free), 5 * (0.001 + 0.0001)), "no shard is smaller than an item"
    assert math.isclose(model.floor(10), 1.0)
