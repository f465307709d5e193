"""The study of seconds runs on a CPU with tiny stand-ins, and its page shows what was measured and no more."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead.schedules import spaced
from studies.__main__ import main
from studies.speed import cold, memory, pipeline, policy, timing
from studies.speed.fresh import Failed, started
from studies.speed.page import bars
from studies.speed.place import Place
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
SECTIONS = {
    "stacked": "## Reverse transition kernels",
    "cold": "## The first call of a process",
    "auto_again": "## Auto compared with the best window",
    "pipeline": "## A diffusers pipeline",
    "conditions": "## Another condition",
}


def chain() -> da.GaussianChain:
    def denoiser(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)

    return da.GaussianChain(denoiser, da.DDPM(timesteps=spaced(40, of=1000)), (3,))


def old() -> Any:
    """Data as they were before there were these parts."""
    data = STUDY.data(DOCS)
    for name in (*SECTIONS, "measured"):
        data[0].pop(name, None)
    for name in ("fashion", "text"):
        data[0][name].pop("others", None)
    return data


def new() -> Any:
    """Made up: every part is there."""
    data = old()
    found = data[0]
    for name in ("fashion", "text"):
        found[name] |= {"others": {"Block()": ROW, "Stepwise()": ROW}, "sequential": ROW, "auto": ROW}
    calls = [{"first": 2.0, "load": 0.25}] * 3
    sides = {"sequential": calls, "auto": [{"first": 2.2, "load": 0.25}] * 3}
    again = {"chosen": ROW["sampler"], "auto": 0.08, "windows": {"64": 0.09, "None": 0.0625}, "best": "None"}
    again |= {"ratio": 1.28, "predicted_gain": 17.5, "measured_gain": 16.5}
    image = {"cold": 16.0, "seconds": 15.0, "steps": 1000}
    ahead = {"cold": 2.0, "seconds": 0.125, "steps": 1000, "rounds": 30.0}
    call = {"seconds": 0.05, "rounds": 12.0, "graphs_kept": True, "captures": 0}
    found |= {
        "measured": dict.fromkeys(NOW, 1.0),
        "cold": {"fashion": sides, "text": sides},
        "auto_again": {"fashion": [again], "text": [again]},
        "stacked": {"rtk": {"steps": 9, "sequential": ROW, "coupled": ROW, "auto": ROW | {"captured": False}}},
        "pipeline": {
            "training": {"parameters": 9_984_385, "seconds": 150.0, "steps": 5000},
            "float16": {"ddpm": image, "drawahead": ahead},
        },
        "conditions": {"samples": 8, "steps": 1000, "first": call, "another": call, "replaced": call},
    }
    return data


def test_parts_that_are_not_there_are_not_on_the_page() -> None:
    page = STUDY.render(old())
    assert not any(title in page for title in (*SECTIONS.values(), "## Every sampler", "before rounds were rebuilt"))
    full = STUDY.render(new())
    assert all(title in full for title in (*SECTIONS.values(), "## Every sampler", "before rounds were rebuilt"))
    for name, title in SECTIONS.items():
        data = new()
        del data[0][name]
        page = STUDY.render(data)
        assert title not in page and sum(other in page for other in SECTIONS.values()) == len(SECTIONS) - 1


def test_the_page_says_what_was_measured() -> None:
    page = STUDY.render(new())
    lines = page.splitlines()
    assert "| one image | 2.00 (2.00 - 2.00) | 2.20 (2.20 - 2.20) | 1.10 | 0.25 |" in lines
    assert "| float16 | `DrawaheadPipeline` | 2.00 | 0.12 s | 30.0 | 120.0 |" in lines
    assert "| image | `Block()` | 500.0 (400.0 - 600.0) | 5.0 ± 0.5 | 100.00 | 437.5 | 1.17 |" in lines
    assert "| image | `Coupled(window=8)` | 80.0 | all: 62.5 | 1.28 | 17.5 | 16.5 |" in lines
    assert any("diffusers UNet" in line and "| 15.0 s | 0.12 s | **120** | 30 |" in line for line in lines)
    assert any("Auto: `Coupled(window=8)`" in line and "| no |" in line for line in lines), "it was not captured"


def test_times_of_another_run_are_not_set_beside_these() -> None:
    data = new()
    for name in ("fashion", "text"):
        data[0][name]["eager"] = {"coupled": ROW}
    assert "without graphs: coupled" not in STUDY.render(data)
    data[0]["measured"]["eager"] = 1.0
    assert "without graphs: coupled" in STUDY.render(data)


def test_every_way_is_on_the_page_and_in_the_figure(tmp_path: Path) -> None:
    data = new()
    ways = {
        "plain loop": 4.0,
        "captured": 1.0,
        "captured, compiled": 0.5,
        "drawahead": 0.1,
        "drawahead, compiled": 0.05,
    }
    data[0]["ways"] = {"image": {way: {"seconds": seconds} for way, seconds in ways.items()}}
    lines = STUDY.render(data).splitlines()
    assert "| an image, 1000 steps | 4.00 s | 1.00 s | 0.50 s | 0.10 s | 0.050 s | 10.0 to 80 |" in lines
    assert "| a text, 256 characters |  | 0.50 s |  | 0.50 s |  | 1.0 |" in lines
    bars(*data, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 10_000


def test_every_part_that_is_measured_has_an_estimate() -> None:
    assert set(NOW) == set(SECONDS) <= set(PARTS) and sum(SECONDS.values()) < 2 * 540


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


def test_parts_are_measured_and_the_rest_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = read(data_path(DOCS, "speed"))
    words = ["--parts", "pipeline", "conditions", "stacked", "--device", "cpu", "--data", str(tmp_path / "nowhere")]
    main(["speed", "--no-page", "--out", str(tmp_path), *words])
    found = read(data_path(tmp_path, "speed"))
    assert "train-images-idx3-ubyte.gz" in found["failed"]["pipeline"], "one part fails, and is named"
    assert {"conditions", "stacked"} <= set(found["measured"]) and found["law"] == recorded["law"]
    another = found["conditions"]["another"]
    assert another["graphs_kept"] and another["seconds"] > 0
    for row in found["stacked"].values():
        assert row["sequential"]["mean_rounds"] == row["steps"] > row["coupled"]["mean_rounds"]
        assert all(row[key]["captured"] for key in ("sequential", "coupled", "auto"))
    assert "about" in capsys.readouterr().out
    again = copy.deepcopy(found)
    assert STUDY.render([again, *STUDY.data(DOCS)[1:]]).count(SECTIONS["conditions"]) == 1


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


def test_latencies_of_a_policy_are_on_the_page() -> None:
    pytest.importorskip("diffusers")
    row = policy.calls(CPU, policy.trained(CPU, 0.01), da.Coupled(window=99), compiled=False, most=2)
    assert row["p99"] >= row["p50"] > 0 and row["calls"] == 2 and row["ratio"] > 0 and row["mean_rounds"] < 100
    data = new()
    data[0]["policy"] = {"drawahead": row | {"p50": 20.0, "p95": 22.0, "p99": 24.0, "mean_rounds": 9.0, "ratio": 1.05}}
    assert "| drawahead | 2 | 20.0 | 22.0 | 24.0 | 9.0 | 1.05 |" in STUDY.render(data).splitlines()


def test_the_gain_is_read_from_the_report() -> None:
    assert (
        cold.gain_of("a round with window 64 takes 1.9 times as long, and samples took 32.0: 16.4x less time") == 16.4
    )
    assert cold.gain_of("twice the queries take 1.14 times as long: 0.76x at best") is None


def test_a_trained_unet_goes_through_both_pipelines(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    torch.manual_seed(0)
    model, found = pipeline.train(CPU, pipeline.images(CPU, None), 0.01)
    assert found["steps"] >= 1 and found["loss"] == pytest.approx(1.0, abs=0.3)
    torch.save(model.state_dict(), tmp_path / "unet.pt")
    for which in ("drawahead", "ddpm"):
        row = pipeline.draw(CPU, which, str(tmp_path), "float32", runs=1, together=True)
        assert row["cold"] > 0 and row["seconds"] > 0 and row["steps"] == 8
        pipeline.keep(tmp_path, str(tmp_path), which)
        pictures = np.load(tmp_path / "pictures" / f"{which}.npy")
        assert pictures.shape == (2, 32, 32) and 0 <= pictures.min() < pictures.max() <= 1
        assert (tmp_path / "pictures" / f"{which}.png").read_bytes().startswith(b"\x89PNG")
