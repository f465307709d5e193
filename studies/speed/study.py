"""Seconds on a GPU: the shipped networks, drawn in parallel rounds and one step at a time, in the same run.

    python -m studies speed --no-page --data FOLDER   # measure: one GPU, about eight minutes
    make bench STUDY=speed OPTIONS=--page             # docs/speed.md and its figure, and the numbers of `proteins`

torch, numpy and safetensors will do to measure; the part `pipeline` also needs diffusers, and Fashion-MNIST's
train-images-idx3-ubyte.gz in FOLDER. `--parts` names what is measured; all else stays as it was recorded.
`--power TEXT` finds instead how much the test on texts sees, on the text that the model was trained on.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

import drawahead as da
from studies.speed import cold, conditions, law, memory, numerics, pipeline, policy, stacked, timing
from studies.speed.outside import outside
from studies.speed.page import bars, figure, values
from studies.speed.place import SMALL, Place, Setting
from studies.speed.ways import ways
from studies.study import DOCS, Data, Study, Watch, data_path, read, save


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    now = ", ".join(NOW)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(NOW), help=f"measure these (now: {now})")
    parser.add_argument("--data", type=Path, help="the folder with train-images-idx3-ubyte.gz, for the part pipeline")
    parser.add_argument("--train-seconds", type=float, default=150.0, help="of training in the part pipeline (150)")
    parser.add_argument("--unet", type=Path, help="where that network is kept for another run: then it is not trained")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds for everything: then extras are left out")
    parser.add_argument("--device", default="cuda", help="cpu: tiny stand-ins, to see that everything runs")
    parser.add_argument("--power", type=Path, help="a text: find the power of the test on texts, and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer settings and samples")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part by part, saved after each: a part that fails leaves the others."""
    path = data_path(arguments.out, "speed")
    known = next((file for file in (path, data_path(DOCS, "speed")) if file.exists()), None)
    results: Data = {} if known is None else read(known)
    if arguments.power is not None:
        found = results["law"]["text"]
        found["power"] = law.power_of_letters(arguments.power, found["num_samples"])
        return results
    place = Place(arguments.device)
    setting = Setting(
        *(place, arguments.out, arguments.data, arguments.train_seconds),
        *(arguments.unet, arguments.quick),
        arguments.limit,
    )
    results["machine"] = {"gpu": place.name(), "torch": torch.__version__}
    print("about", sum(SECONDS.get(name, 60) for name in arguments.parts), "s of an H200 in all", flush=True)
    for i, name in enumerate(arguments.parts):
        watch(name, i, len(arguments.parts))
        print(f"-- {name}: about {SECONDS.get(name, 60)} s of an H200", flush=True)
        _part(name, results, setting, lambda: save(results, path))
    return results


def _part(name: str, results: Data, setting: Setting, keep: Callable[[], None]) -> None:
    began = time.perf_counter()
    try:
        PARTS[name](results, setting, keep)
        results.setdefault("measured", {})[name] = round(time.perf_counter() - began, 1)
        results.get("failed", {}).pop(name, None)
    except Exception:
        traceback.print_exc()
        results.setdefault("failed", {})[name] = traceback.format_exc(limit=3)
    if not results.get("failed"):
        results.pop("failed", None)
    if set(results.get("measured", ())) >= set(NOW):
        results.pop("note", None)  # it tells how older numbers came about
    setting.place.forget()
    print(f"-- {name}: {time.perf_counter() - began:.1f} s", flush=True)
    keep()


Part = Callable[[Data, Setting, Callable[[], None]], None]
"""Puts what it finds into the results, and may save them while it goes on."""


def _outside(results: Data, setting: Setting, keep: Callable[[], None]) -> None:
    place = setting.place
    rows = [outside(place, "fashion", window) for window in ((0, 64, 128) if place.real else (0, 4))]
    results["outside"] = {"fashion": rows, "text": outside(place, "text", None)}
    print(results["outside"], flush=True)


def _fashion(results: Data, setting: Setting, keep: Callable[[], None]) -> None:
    windows = (96,) if setting.quick else timing.WINDOWS
    timing.one_sample(results, setting.place, "fashion", windows, (da.Coupled(), da.Block(), da.Stepwise()), keep)


def _text(results: Data, setting: Setting, keep: Callable[[], None]) -> None:
    windows = (None, 64) if setting.quick else timing.TEXT_WINDOWS
    timing.one_sample(results, setting.place, "text", windows, (da.Block(), da.Stepwise()), keep)


def _many(name: str, sizes: tuple[int, ...], window: int | None) -> Part:
    def part(results: Data, setting: Setting, keep: Callable[[], None]) -> None:
        tried = sizes[::4] if setting.quick else sizes
        tried = tried if setting.place.real else tuple(size for size in tried if size < SMALL)
        timing.many_samples(results, setting.place, name, tried, window, keep)

    return part


PARTS: dict[str, Part] = {
    "fashion": _fashion,
    "text": _text,
    "ways": ways,
    "memory": lambda results, setting, keep: results.update(memory=memory.memory(setting.place)),
    "spread": lambda results, setting, keep: results.update(spread=timing.spread(setting.place)),
    "outside": _outside,
    "policy": lambda results, setting, keep: results.update(policy=policy.policies(setting.place)),
    "cold": lambda results, setting, keep: cold.cold(results, setting.place, 1 if setting.quick else 3, keep),
    "auto": lambda results, setting, keep: cold.repetitions(results, setting.place, 1 if setting.quick else 5, keep),
    "conditions": lambda results, setting, keep: results.update(conditions=conditions.conditions(setting.place)),
    "stacked": lambda results, setting, keep: stacked.stacked(results, setting.place, keep),
    "pipeline": pipeline.pipeline,
    "text_batches": _many("text", timing.TEXT_BATCHES, None),
    "fashion_batches": _many("fashion", timing.FASHION_BATCHES, 64),
    "eager": lambda results, setting, keep: timing.eager(results, setting.place),
    "numerics": lambda results, setting, keep: results.update(numerics=numerics.numerics(setting.place)),
    "law": lambda results, setting, keep: results.update(
        law=law.same_law(setting.place, 128 if setting.quick else 1024)
    ),
}
SECONDS = {
    "fashion": 45,
    "text": 15,
    "ways": 150,
    "memory": 25,
    "policy": 110,
    "spread": 3,
    "outside": 8,
    "cold": 55,
    "auto": 85,
    "conditions": 5,
    "stacked": 15,
    "pipeline": 215,
    "text_batches": 20,
    "fashion_batches": 45,
}
"""About how long each part takes on an H200."""
NOW = tuple(SECONDS)
"""What is measured unless parts are named: all that a change of the engine may change."""

STUDY = Study(
    "speed", measure, values, {"speed-bars": bars, "speed": figure}, sources=("speed", "proteins-gpu"), options=options
)
