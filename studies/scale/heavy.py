"""What a pass of a heavy network costs by the states in it: a DiT-XL/2 with random weights.

    python -m studies heavy --no-page     # on a GPU, with diffusers: half a minute
    python -m studies heavy --simulate    # then anywhere: replicas that sleep by this curve, two minutes

The paper counts 675 million parameters. In diffusers every block has embeddings of its own: 75 million more, which are
hardly any work.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from studies.scale.curve import Curve
from studies.scale.page import SOURCES, figure, values
from studies.scale.simulated import simulate
from studies.study import Data, Stamp, Study, Watch, data_path, read

ITEMS = (1, 2, 4, 8, 9, 16, 17, 32, 33, 64, 65)
REPEATS = 10


def network(device: torch.device, layers: int) -> Any:
    """DiT-XL/2 for latents of 32 x 32, in half precision on a GPU."""
    diffusers: Any = importlib.import_module("diffusers")
    with device:
        model = diffusers.DiTTransformer2DModel(
            num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=layers,
            sample_size=32, patch_size=2, num_embeds_ada_norm=1000, norm_type="ada_norm_zero",
        )  # fmt: skip
    return model.to(torch.float16 if device.type == "cuda" else torch.float32).eval().requires_grad_(False)


def clocked(work: Callable[[], object], wait: Callable[[], None]) -> float:
    """The median seconds of a call."""
    seconds = []
    for _ in range(REPEATS):
        wait()
        began = time.perf_counter()
        work()
        wait()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def pass_of(model: Any, device: torch.device, items: int) -> Callable[[], object]:
    """A pass over so many states, captured on a GPU."""
    given = {
        "timestep": torch.arange(items, device=device),
        "class_labels": torch.arange(items, device=device) % 1000,
    }
    x = torch.randn(items, 4, 32, 32, device=device, dtype=model.dtype)
    work: Callable[[], object] = lambda: model(x, **given).sample  # noqa: E731
    if device.type != "cuda":
        return work
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def options(parser: argparse.ArgumentParser) -> None:
    """What is measured, and where."""
    parser.add_argument("--device", default="cuda", help="cpu: two layers, to see that it runs")
    parser.add_argument("--simulate", action="store_true", help="keep the curve, and run replicas that sleep by it")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """The curve; or, beside the curve that was recorded, a simulation with it."""
    stamp = Stamp(arguments)
    if not arguments.simulate:
        return measured(torch.device(arguments.device), stamp, watch)
    data: Data = read(data_path(arguments.out, "heavy"))
    return data | {"simulated": simulate(Curve.of(data), watch) | stamp.made()}


@torch.no_grad()
def measured(device: torch.device, stamp: Stamp, watch: Watch) -> Data:
    """The curve, point by point. A simulation with an older curve is not kept."""
    real = device.type == "cuda"
    model = network(device, 28 if real else 2)
    wait = torch.cuda.synchronize if real else lambda: None
    curve = []
    for i, items in enumerate(ITEMS if real else ITEMS[:3]):
        watch(f"{items} states", i, len(ITEMS))
        curve.append({"items": items, "seconds": clocked(pass_of(model, device, items), wait)})
        print(curve[-1], flush=True)
    return stamp.made() | {
        "machine": torch.cuda.get_device_name() if real else "CPU, with two layers",
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "curve": curve,
    }


STUDY = Study("heavy", measure, values, {"scale": figure}, page="scale", sources=SOURCES, options=options)
