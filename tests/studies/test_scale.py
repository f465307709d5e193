"""The formulas of the page on scale are right."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import drawahead as da
from drawahead.errors import InputError
from studies.__main__ import main
from studies.scale import simulated
from studies.scale.curve import Best, Curve, Network
from studies.scale.heavy import STUDY
from studies.scale.sizing import Line, Model, Overhead, best_workers, image_windows, replicas_overhead
from studies.study import DOCS, data_path, save


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


CURVE = Curve(((1, 1.0), (3, 2.0), (4, 4.0)))
QUICK = Curve(tuple((states, seconds / 500) for states, seconds in CURVE.points))


def network(curve: Curve) -> Network:
    """100 steps, or 20 rounds of 6 states, or 10 of 15; each replica adds a tenth of a second."""
    return Network(curve, 100, ((6, 20.0), (15, 10.0)), Line(0.0, 0.1, ()))


def test_a_curve_is_interpolated_and_goes_on_in_proportion() -> None:
    assert [CURVE(states) for states in (1, 2, 3, 4, 8)] == [1.0, 1.5, 2.0, 4.0, 8.0]
    assert CURVE.times(3) == 2.0 and CURVE.times(8, of=4) == 2.0


def test_seconds_of_a_heavy_network_by_hand() -> None:
    drawn = network(CURVE)
    assert drawn.sequential(1) == 100.0 and drawn.sequential(3) == 200.0
    assert drawn.coupled(1, 1) == Best(20 * 6.0, 6, 20.0), "one GPU has no executor, and 15 states would take 150"
    assert drawn.coupled(1, 2) == Best(20 * 2.2, 6, 20.0), "3 states for each of two"
    assert drawn.coupled(1, 5) == Best(10 * 2.5, 15, 10.0), "3 states for each of five"
    assert drawn.coupled(1, 5, more=3.0) == Best(10 * 5.5, 15, 10.0)
    assert drawn.shared_round(6, 1000) == CURVE(1) + drawn.overhead(6), "no shard is smaller than a state"
    assert drawn.by_samples(3, 3) == drawn.by_samples(1, 1) == 100.0, "step by step is faster here"


def test_one_gpu_gains_nothing_where_a_pass_of_m_states_costs_m_passes() -> None:
    proportional, flat = network(Curve(((1, 1.0),))), network(Curve(((1, 1.0), (10**4, 1.0))))
    for samples in (1, 8, 64):
        assert proportional.coupled(samples, 1).seconds > proportional.sequential(samples)
        assert flat.coupled(samples, 1).seconds == flat.sequential(samples) / 10


def test_windows_of_the_image_model_come_from_the_largest_batch_or_from_a_run_of_their_own() -> None:
    def batch(window: int | None, rounds: float) -> dict[str, Any]:
        sampler = da.Sequential() if window is None else da.Coupled(window)
        return {"auto": {"sampler": repr(sampler), "mean_rounds": rounds}}

    batches = [batch(64, 33.0), batch(16, 70.0), batch(16, 75.0), batch(None, 1000.0)]
    found = {"batches": batches, "coupled": [{"window": 64, "mean_rounds": 32.0}]}
    assert image_windows({"fashion": found}) == ((17, 75.0), (65, 32.0))


def test_overhead_of_replicas_is_what_they_add_to_local() -> None:
    rows = [{"workers": workers, "awake": {"quick_ms": 1.5 + 0.5 * workers}} for workers in (1, 2, 4)]
    line = replicas_overhead({"local": {"awake": {"quick_ms": 0.5}}, "replicas": rows})
    assert math.isclose(line(8), 0.005, rel_tol=1e-6)


def test_replicas_that_sleep_take_what_the_curve_says() -> None:
    """A lower bound alone: a busy machine may take longer."""
    found = simulated.run(QUICK, 1, da.Coupled(8), 2, steps=20)
    states, queries = 9, found["queries"]
    assert 2 <= found["rounds"] < 20 <= queries <= states * found["rounds"]
    assert found["seconds"] >= found["executor_seconds"] >= found["rounds"] * QUICK(1)
    alone = simulated.run(QUICK, 1, da.Sequential(), 1, steps=20)
    assert alone["rounds"] == alone["queries"] == 20 and alone["executor_seconds"] >= 20 * QUICK(1)


def test_a_simulation_keeps_the_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "RUNS", ((1, da.Coupled(64), 2),))
    path = data_path(tmp_path, "heavy")
    with pytest.raises(SystemExit, match=r"heavy.json cannot be read"):
        main(["heavy", "--simulate", "--no-page", "--out", str(tmp_path)])
    recorded = json.loads(data_path(DOCS, "heavy").read_text())
    del recorded["simulated"]
    recorded["curve"] = [{"items": 1, "seconds": 1e-5}]
    save(recorded, path)
    main(["heavy", "--simulate", "--no-page", "--out", str(tmp_path)])
    written = json.loads(path.read_text())
    found = written.pop("simulated")
    assert written == recorded and found["options"] == "--simulate"
    assert [row["replicas"] for row in found["rows"]] == [2]


def test_a_page_without_the_simulation_says_what_is_lacking() -> None:
    *others, heavy = STUDY.data(DOCS)
    with pytest.raises(InputError, match="lack 'simulated': measure that part first"):
        STUDY.render([*others, {key: heavy[key] for key in heavy if key != "simulated"}])
