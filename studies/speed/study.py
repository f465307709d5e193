"""Seconds on a GPU: the shipped networks, drawn in parallel rounds and one step at a time, in the same run.

    python -m studies speed --no-page --out FOLDER    # measure: one GPU, about fourteen minutes
    make bench STUDY=speed OPTIONS=--page             # docs/speed.md and its figure, and the numbers of `proteins`

torch, numpy and safetensors will do to measure; `policy` and `pipeline` also need diffusers. `--parts` names what is
measured; in a folder that has data already, all else stays as it was.
"""

from __future__ import annotations

import argparse
import math
import signal
import time
import traceback
from collections.abc import Callable
from datetime import date

import torch

import drawahead as da
from studies.speed import cold, conditions, law, memory, numerics, pipeline, policy, sharing, stacked, timing
from studies.speed.outside import outside
from studies.speed.page import bars, figure, values
from studies.speed.place import SMALL, Part, Place, Setting
from studies.speed.ways import captured, loops
from studies.study import Data, Study, Watch, data_path, read, save


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    now = ", ".join(NOW)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(NOW), help=f"measure these (now: {now})")
    parser.add_argument("--train-seconds", type=float, default=45.0, help="of training in the part pipeline (45)")
    parser.add_argument("--limit", type=float, default=540.0, help="seconds for everything: then parts are left out")
    parser.add_argument("--device", default="cuda", help="cpu: tiny stand-ins, to see that everything runs")
    parser.add_argument("--quick", action="store_true", help="fewer settings and samples")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part by part, saved after each: a part that fails leaves the others."""
    path = data_path(arguments.out, "speed")
    results: Data = read(path) if path.exists() else {}
    place = Place(arguments.device)
    setting = Setting(place, arguments.out, arguments.train_seconds, arguments.quick, arguments.limit)
    results["machine"] = {"gpu": place.name(), "torch": torch.__version__}
    print("about", sum(SECONDS.get(name, 60) for name in arguments.parts), "s of an H200 in all", flush=True)
    for i, name in enumerate(arguments.parts):
        watch(name, i, len(arguments.parts))
        print(f"-- {name}: about {SECONDS.get(name, 60)} s of an H200", flush=True)
        if setting.left > 5:
            _part(name, results, setting, lambda: save(results, path))
    return results


class OutOfTime(BaseException):
    """A part has had its seconds. Nothing that deals with errors may swallow it."""


def _part(name: str, results: Data, setting: Setting, keep: Callable[[], None]) -> None:
    """Measure it, for three times the seconds that it should take at most: no part eats those of the next."""

    def ring(*_: object) -> None:
        raise OutOfTime(f"{name} took more than {limit} s")

    began, limit = time.perf_counter(), math.ceil(min(2 * SECONDS.get(name, 60) + 15, max(1.0, setting.left)))
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(limit)
    try:
        PARTS[name](results, setting, keep)
        results.setdefault("measured", {})[name] = round(time.perf_counter() - began, 1)
        results.setdefault("days", {})[name] = date.today().isoformat()
        results.get("failed", {}).pop(name, None)
    except (Exception, OutOfTime):
        traceback.print_exc()
        results.setdefault("failed", {})[name] = traceback.format_exc(limit=3)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if not results.get("failed"):
        results.pop("failed", None)
    setting.place.forget()
    print(f"-- {name}: {time.perf_counter() - began:.1f} s", flush=True)
    keep()


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
    "policy": lambda results, setting, keep: policy.policies(results, setting.place, keep),
    "emoji": captured("emoji 1000", "emoji 250", compiled=False),
    "fashion_batches": _many("fashion", timing.FASHION_BATCHES, 64),
    "image_compiled": captured("image", compiled=True),
    "emoji_compiled": captured("emoji 1000", "emoji 250", compiled=True),
    "text_compiled": captured("text", compiled=True),
    "text_batches": _many("text", timing.TEXT_BATCHES, None),
    "loops": loops,
    "cold": lambda results, setting, keep: cold.cold(results, setting.place, 1 if setting.quick else 2, keep),
    "memory": lambda results, setting, keep: results.update(memory=memory.memory(setting.place)),
    "spread": lambda results, setting, keep: results.update(spread=timing.spread(setting.place)),
    "outside": _outside,
    "conditions": lambda results, setting, keep: results.update(conditions=conditions.conditions(setting.place)),
    "stacked": lambda results, setting, keep: stacked.stacked(results, setting.place, keep),
    "sharing": sharing.sharing,
    "pipeline": pipeline.pipeline,
    "law": lambda results, setting, keep: results.update(
        law=law.same_law(setting.place, 512 if setting.place.real else 16)
    ),
    "numerics": lambda results, setting, keep: results.update(numerics=numerics.numerics(setting.place)),
}
SECONDS = {
    "fashion": 30,
    "text": 10,
    "policy": 120,
    "emoji": 20,
    "fashion_batches": 75,
    "image_compiled": 75,
    "emoji_compiled": 60,
    "text_compiled": 35,
    "text_batches": 20,
    "loops": 20,
    "cold": 35,
    "memory": 25,
    "spread": 3,
    "outside": 10,
    "conditions": 6,
    "stacked": 17,
    "sharing": 42,
    "pipeline": 160,
    "law": 50,
    "numerics": 30,
}
"""About how long each part takes on an H200, those first that matter most."""
NOW = tuple(SECONDS)
"""What is measured unless parts are named."""

STUDY = Study(
    "speed", measure, values, {"speed-bars": bars, "speed": figure}, sources=("speed", "proteins-gpu"), options=options
)
