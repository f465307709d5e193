"""The study of seconds runs on a CPU with tiny stand-ins, and its page shows what was measured and no more."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead.schedules import spaced
from studies.__main__ import main
from studies.speed import memory, pipeline, policy, sharing, timing
from studies.speed.fresh import Failed, started
from studies.speed.page import bars
from studies.speed.place import Place, Setting
from studies.speed.study import NOW, PARTS, SECONDS, STUDY
from studies.speed.watching import RoundTimes, watched
from studies.study import DOCS, data_path, read

CPU = Place("cpu")
ROW: dict[str, Any] = {
    "sampler": "Coupled(window=8, secant=True, least=1.5)",
    "choice": "",
    "seconds": 0.5,
    "all_seconds": [0.4, 0.5, 0.6],
    "mean_rounds": 5.0,
    "rounds_standard_error": 0.5,
    "batch_rounds": 5.0,
    "queries_per_sample": 40.0,
    "captured": True,
    "rounds_alone_seconds": 0.4375,
    "beside_rounds_alone": 1.17,
}
CALL: dict[str, Any] = {"seconds": 0.05, "rounds": 12.0, "graphs_kept": True, "captures": 0}
LATENCY: dict[str, Any] = dict.fromkeys(("p50", "p95", "p99", "p50_alone", "p99_alone"), 20.0) | {
    "calls": 2000, "mean_rounds": 9.0, "ratio": 1.05, "p50_rounds": 8.0, "p99_rounds": 14.0
}  # fmt: skip
MODEL: dict[str, Any] = {"sequential": ROW, "auto": ROW, "coupled": [{"window": 64} | ROW], "others": {"Block()": ROW}}
SECTIONS = {
    "policy": "## A policy, call after call",
    "stacked": "## Reverse transition kernels",
    "cold": "## The first call of a process",
    "pipeline": "## A diffusers pipeline",
    "conditions": "## Another condition",
    "sharing": "## Two processes on one GPU",
}


def chain() -> da.GaussianChain:
    def denoiser(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    return da.GaussianChain(denoiser, da.DDPM(timesteps=spaced(40, of=1000)), (3,))


def new() -> Any:
    """Made up: every part is there, but for those that say what the network's numbers are."""
    sides = {name: [{"first": first, "load": 0.25}] * 2 for name, first in (("sequential", 2.0), ("auto", 2.2))}
    batches = [{"batch": batch, "sequential": ROW, "auto": ROW | {"seconds": 0.25}} for batch in (1, 64)]
    ways = {"plain loop": 4.0, "captured, compiled": 0.25, "drawahead, compiled": 0.05}
    share = {"seconds": 0.5, "calls": 3, "late": -1.0}
    pipelines = {
        "training": {"parameters": 9_984_385, "seconds": 45.0, "steps": 500},
        "float16": {
            "ddpm": {"cold": 16.0, "seconds": 15.0, "steps": 1000},
            "drawahead": {"cold": 2.0, "seconds": 0.125, "steps": 1000, "rounds": 30.0},
            "sequential": ROW,
        },
    }
    found = {
        "machine": {"gpu": "GPU", "torch": "2"},
        "days": {"fashion": "2026-11-05", "text": "2026-11-05", "sharing": "2026-10-30"},
        "fashion": MODEL | {"batches": batches},
        "text": MODEL,
        "ways": {"image": {way: {"seconds": seconds} for way, seconds in ways.items()}},
        "policy": {"one by one": LATENCY, "drawahead": LATENCY},
        "cold": {"fashion": sides, "text": sides},
        "stacked": {"rtk": {"steps": 9, "sequential": ROW, "coupled": ROW, "auto": ROW | {"captured": False}}},
        "pipeline": pipelines,
        "conditions": {"samples": 8, "steps": 1000, "first": CALL, "another": CALL, "replaced": CALL},
        "sharing": [{"samples": 32, "one": [share], "half": [share], "two": [share, share]}],
    }
    return [found, *STUDY.data(DOCS)[1:]]


def test_parts_that_are_not_there_are_not_on_the_page() -> None:
    full = STUDY.render(new())
    assert all(title in full for title in SECTIONS.values()) and "## Time outside" not in full
    for name, title in SECTIONS.items():
        data = new()
        del data[0][name]
        page = STUDY.render(data)
        assert title not in page and sum(other in page for other in SECTIONS.values()) == len(SECTIONS) - 1


def test_the_page_says_what_was_measured(tmp_path: Path) -> None:
    lines = STUDY.render(new()).splitlines()
    for line in (
        "| an image of the shipped DDPM, 1000 steps | 4.00 s | 0.50 s | 0.25 s | 0.50 s | 0.050 s | 5 | **1.0** |",
        "| 64 images at once |  | 0.50 s |  | 0.25 s |  | 5 | **2.0** |",
        "| one image | 2.00 (2.00 - 2.00) | 2.20 (2.20 - 2.20) | 1.10 | 0.25 |",
        "| image | `Block()` | 500.0 (400.0 - 600.0) | 5.0 ± 0.5 | 100.00 | 437.5 | 1.17 |",
        "| drawahead | 2000 | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 9.0 | 1.05 |",
        "| 32 | 500 | 500 | 500 | 1.00 | 1.00 |",
    ):
        assert line in lines
    assert any(
        "diffusers UNet" in line and "| 15.0 s | 0.50 s |  | 0.12 s |  | 30 | **4.0** |" in line for line in lines
    )
    assert any("Auto: `Coupled(window=8)`" in line and "| no |" in line for line in lines), "it was not captured"
    days = "The tables are of 5 November 2026, but for two processes on one GPU (30 October 2026);"
    assert days in " ".join(lines)
    bars(*new(), tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 10_000


def test_a_part_that_takes_too_long_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stuck(results: Any, setting: Setting, keep: Callable[[], None]) -> None:
        results["begun"] = True
        keep()
        while True:
            try:
                time.sleep(60)
            except Exception:  # as whoever deals with errors does
                continue

    monkeypatch.setitem(PARTS, "spread", stuck)
    monkeypatch.setitem(SECONDS, "spread", -7)
    main(["speed", "--no-page", "--out", str(tmp_path), "--parts", "spread", "conditions", "--device", "cpu"])
    found = read(data_path(tmp_path, "speed"))
    assert found["begun"] and "spread took more than 1 s" in found["failed"]["spread"]
    assert set(found["measured"]) == set(found["days"]) == {"conditions"}


def test_every_part_that_is_measured_has_an_estimate() -> None:
    assert set(NOW) == set(SECONDS) == set(PARTS) and sum(SECONDS.values()) < 2 * 540


def test_the_rounds_of_a_call_are_found_and_timed() -> None:
    target = chain()
    plain = da.sample(target, 1, sampler=da.Coupled(), seed=3, graphs=True)
    with watched() as found:
        again = da.sample(target, 1, sampler=da.Coupled(), seed=3, graphs=True)
    assert len(found.rounds) == again.report.rounds and found.captures == 0
    batch = found.rounds[0][0]
    before = {name: tensor.clone() for name, tensor in (batch._state | batch._drafts).items()}
    times = RoundTimes(CPU)
    assert times(found.rounds) > times(found.rounds[:1]) > 0
    for name, tensor in (batch._state | batch._drafts).items():  # a timed batch is left as it was
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(da.sample(target, 1, sampler=da.Coupled(), seed=3, graphs=True).samples, plain.samples)
    with watched() as found:
        da.sample(chain(), 1, sampler=da.Coupled(), seed=3, graphs=True)
    assert found.captures > 0


def test_what_is_not_captured_is_said() -> None:
    captured = timing.measured(CPU, chain(), da.Coupled(), 1, range(2), alone=True)
    packed = timing.measured(CPU, chain(), da.Coupled(), 1, range(2), alone=True, graphs=False)
    assert captured["captured"] and captured["rounds_alone_seconds"] > 0
    assert not packed["captured"] and "rounds_alone_seconds" not in packed
    assert captured["mean_rounds"] == packed["mean_rounds"]
    one_by_one = timing.measured(CPU, chain(), da.Sequential(), 1, range(2))
    assert one_by_one["mean_rounds"] == 40 and one_by_one["captures"] == 0, "a few rounds warm it up"


def test_parts_are_measured_and_the_rest_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("no such network")

    monkeypatch.setitem(PARTS, "pipeline", fails)
    data_path(tmp_path, "speed").parent.mkdir()
    data_path(tmp_path, "speed").write_text('{"law": 1}')
    words = ["--parts", "pipeline", "conditions", "stacked", "--device", "cpu"]
    main(["speed", "--no-page", "--out", str(tmp_path), *words])
    found = read(data_path(tmp_path, "speed"))
    assert "no such network" in found["failed"]["pipeline"], "one part fails, and is named"
    assert set(found["measured"]) == {"conditions", "stacked"} and found["law"] == 1
    another = found["conditions"]["another"]
    assert another["graphs_kept"] and another["seconds"] > 0
    for row in found["stacked"].values():
        assert row["sequential"]["mean_rounds"] == row["steps"] > row["coupled"]["mean_rounds"]
        assert all(row[key]["captured"] for key in ("sequential", "coupled", "auto"))


def test_two_processes_draw_at_the_same_time(tmp_path: Path) -> None:
    results: dict[str, Any] = {}
    sharing.sharing(results, Setting(CPU, tmp_path), lambda: None)
    (row,) = results["sharing"]
    assert [len(row[name]) for name in ("one", "half", "two")] == [1, 1, 2]
    assert all(each["calls"] and each["seconds"] > 0 for name in ("one", "half", "two") for each in row[name])


def test_a_first_call_has_a_process_of_its_own() -> None:
    with started(["studies.speed.cold:first_call", "studies.speed.cold:no_such_function"]) as (one, other):
        one.ready()
        other.ready()
        row = one.result(CPU, kind="text", sampler="sequential")
        assert row["first"] > 0 and row["sampler"] == "Sequential()"
        with pytest.raises(Failed, match=r"no_such_function with .* ended with status 1"):
            other.result(CPU)
    assert one.process.poll() == 0


def test_memory_is_counted_by_samples_and_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "models", lambda place: [("image", lambda: memory.large(place))])
    rows = memory.memory(CPU)
    assert [(row["live"], row["window"]) for row in rows] == [(1, 0), (1, 8), (1, 64), (8, 0), (8, 8), (8, 64)]
    data = new()
    data[0]["memory"] = [row | {"bytes": 3 * 2**20} for row in rows]
    assert "| image | 8 | 3 | 3 | 3 |" in STUDY.render(data).splitlines()


def test_latencies_of_a_policy_are_set_beside_its_rounds() -> None:
    pytest.importorskip("diffusers")
    row = policy.calls(CPU, policy.trained(CPU, 0.01), da.Coupled(window=99), compiled=False, most=2)
    assert row["p99"] >= row["p50"] > 0 < row["p50_alone"] and row["calls"] == 2 and row["mean_rounds"] < 100
    assert row["ratio"] > 0 and set(row) == set(LATENCY) | {"p95_rounds", "p95_alone"}


def test_a_trained_unet_goes_through_both_pipelines(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    torch.manual_seed(0)
    model, found = pipeline.train(CPU, pipeline.images(CPU), 0.01)
    assert found["steps"] >= 1 and found["loss"] == pytest.approx(1.0, abs=0.3)
    torch.save(model.state_dict(), tmp_path / "unet.pt")
    for which in ("drawahead", "ddpm"):
        row = pipeline.draw(CPU, which, str(tmp_path), "float32", runs=1)
        assert row["cold"] > 0 and row["seconds"] > 0 and row["steps"] == 8
