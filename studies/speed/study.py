"""Seconds on a GPU: the shipped networks, drawn in parallel rounds and one step at a time, in the same run.

    python -m studies speed --no-page     # measure: one GPU, about six minutes; torch, numpy and safetensors will do
    make bench STUDY=speed OPTIONS=--page # docs/speed.md and its figure from the numbers, and those of `proteins`

`--power TEXT` finds instead how much the test on texts sees, on the text that the model was trained on.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import drawahead as da
from studies.speed import law, numerics, timing
from studies.speed.page import figure, values
from studies.speed.timing import HALF, fashion, text
from studies.study import Data, Study, Watch, data_path, read, save


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=[], help="measure these, and keep the others")
    parser.add_argument("--power", type=Path, help="a text: find the power of the test on texts, and nothing else")
    parser.add_argument("--quick", action="store_true", help="fewer settings and samples")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part by part, saved after each: a part that fails leaves the others."""
    path = data_path(arguments.out, "speed")
    results: Data = read(path) if path.exists() else {}
    if arguments.power is not None:
        found = results["law"]["text"]
        found["power"] = law.power_of_letters(arguments.power, found["num_samples"])
        return results
    torch.backends.cudnn.benchmark = True
    results["machine"] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name in arguments.parts or PARTS:
        began = time.perf_counter()
        try:
            PARTS[name](results, arguments.quick, lambda: save(results, path))
        except Exception:
            traceback.print_exc()
            results.setdefault("failed", {})[name] = traceback.format_exc(limit=3)
        torch.cuda.empty_cache()
        print(f"-- {name}: {time.perf_counter() - began:.1f} s", flush=True)
        save(results, path)
    return results


Part = Callable[[Data, bool, Callable[[], None]], None]
"""Puts what it finds into the results; it may be quick, and may save them while it goes on."""
Make = Callable[[torch.dtype], Any]
Windows = tuple[int | None, ...]


def _outside(results: Data, quick: bool, save: Callable[[], None]) -> None:
    from studies.speed.outside import outside  # it looks inside the library: whatever it finds, the others run

    rows = [outside(fashion(HALF), window) for window in (64, 96, 128)]
    results["outside"] = {"fashion": rows, "text": outside(text(HALF), 255)}


def _spread(results: Data, quick: bool, save: Callable[[], None]) -> None:
    chain = da.TokenChain(text(HALF), order="spread")
    results["spread"] = timing.measured(chain, da.Coupled(), 1, timing.SEEDS)


def _one(name: str, make: Make, few: Windows, many: Windows) -> Part:
    return lambda results, quick, save: timing.one_sample(results, name, make(HALF), few if quick else many)


def _many(name: str, make: Make, sizes: tuple[int, ...], window: int | None) -> Part:
    def part(results: Data, quick: bool, save: Callable[[], None]) -> None:
        timing.many_samples(results, name, make(HALF), sizes[:: 4 if quick else 1], window, save)

    return part


PARTS: dict[str, Part] = {
    "outside": _outside,
    "text": _one("text", text, (None, 64), (None, 32, 64, 128)),
    "fashion": _one("fashion", fashion, (96,), timing.WINDOWS),
    "layouts": lambda results, quick, save: results.update(layouts=timing.layouts()),
    "eager": lambda results, quick, save: timing.eager(results),
    "spread": _spread,
    "precisions": lambda results, quick, save: timing.precisions(results),
    "numerics": lambda results, quick, save: results.update(numerics=numerics.numerics()),
    "text_batches": _many("text", text, timing.TEXT_BATCHES, None),
    "fashion_batches": _many("fashion", fashion, timing.FASHION_BATCHES, 64),
    "law": lambda results, quick, save: results.update(law=law.same_law(128 if quick else 1024)),
}

STUDY = Study("speed", measure, values, {"speed": figure}, sources=("speed", "proteins-gpu"), options=options)
