"""Pictures from words by every kind of scheduler and number of steps, ahead and one step after another, in one run.

    python -m studies emoji --no-page                 # measure: one GPU, about four minutes, with diffusers
    make bench STUDY=emoji OPTIONS=--page             # the section of docs/diffusers.md

The emoji model that comes with drawahead, with guidance: a query is two passes. Both sides are captured; the sequential
one is `Sequential`, drawahead's is the default sampler. Times are medians after a warm-up.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.networks.emoji import GuidedDenoiser
from drawahead.samplers.record import from_repr
from studies.pipelines.tables import beside
from studies.speed.place import Place
from studies.speed.timing import measured, said
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, origin, read, save
from studies.tables import table
from studies.template import Values

PROMPTS = ("red apple", "cat face", "house", "fish")
STEPS = (1000, 250, 100, 50, 30)
BATCHES = (1, 4)
SCHEDULERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "DDPM": ("DDPMScheduler", {"clip_sample": True}, {}),
    "DDPM, learned variance": ("DDPMScheduler", {"clip_sample": True, "variance_type": "learned_range"}, {}),
    "DDIM, eta = 1": ("DDIMScheduler", {"clip_sample": False}, {"eta": 1.0}),
    "Euler ancestral": ("EulerAncestralDiscreteScheduler", {}, {}),
    "SDE-DPM-Solver++": ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}, {}),
}
GUIDANCE = 3.0
SIDES = ("drawahead", "sequential")


class Velocity(nn.Module):
    """The network without what it says of variances."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        answers: Tensor = self.network(x, time, words)
        return answers[:, : x.shape[1]]


def chain(place: Place, kind: str, steps: int) -> da.GaussianChain:
    """One prompt per sample, by a scheduler of diffusers."""
    diffusers: Any = importlib.import_module("diffusers")
    name, settings, options = SCHEDULERS[kind]
    known = da.networks.emoji(list(PROMPTS), guidance=GUIDANCE, device=place.device, dtype=place.half)
    assert isinstance(known.denoiser, GuidedDenoiser)
    network: nn.Module = known.denoiser.network
    if "variance_type" not in settings:
        network = Velocity(network)
    words = known.condition["words"]
    return da.adapters.from_diffusers(
        network,
        getattr(diffusers, name)(prediction_type="v_prediction", **settings),
        num_inference_steps=steps,
        condition={"words": words},
        unconditional={"words": torch.zeros_like(words[:1])},
        guidance_scale=GUIDANCE,
        shape=known.shape,
        dtype=place.half,
        device=place.device,
        **options,
    )


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--device", default="cuda", help="cpu: a few steps, to see that everything runs")
    parser.add_argument("--steps", type=int, nargs="*", default=list(STEPS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for everything: then rows are left out")
    parser.add_argument("--schedulers", nargs="*", choices=SCHEDULERS, default=list(SCHEDULERS))


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Row by row, saved after each; rows measured before are kept."""
    stamp, place, path = Stamp(arguments), Place(arguments.device), data_path(arguments.out, "emoji")
    known = next((file for file in (path, data_path(DOCS, "emoji")) if file.exists()), None)
    rows: list[Data] = [] if known is None else read(known)["rows"]
    cases = list(itertools.product(arguments.steps, BATCHES, arguments.schedulers))
    data: Data = {}
    for i, (steps, batch, kind) in enumerate(cases):
        if time.perf_counter() - stamp.began > arguments.limit:
            print(f"no time is left for {len(cases) - i} rows", flush=True)
            break
        watch(f"{kind}, {steps} steps", i, len(cases))
        try:
            target = chain(place, kind, steps)
        except da.InputError as error:  # a scheduler that does not answer for so many steps
            print(f"{kind}, {steps} steps: {error}", flush=True)
            continue
        row: Data = {"scheduler": kind, "steps": steps, "batch": batch}
        row["sequential"] = measured(place, target, da.Sequential(), batch, place.seeds[:2])
        row["drawahead"] = measured(place, target, None, batch, place.seeds[:6], warm_ups=3)
        for side in SIDES:
            said(f"{kind}, {steps} steps, {batch} at once, {side}", row[side])
        rows = [old for old in rows if (old["scheduler"], old["steps"], old["batch"]) != (kind, steps, batch)] + [row]
        place.forget()
        data = {"rows": rows, "machine": place.name()} | stamp.made()
        save(data, path)
    return data


def values(data: Data) -> dict[str, str | None]:
    """What the section says."""
    lines = []
    order = {name: i for i, name in enumerate(SCHEDULERS)}
    for row in sorted(data["rows"], key=lambda row: (order[row["scheduler"]], -row["steps"], row["batch"])):
        one, ahead = row["sequential"], row["drawahead"]
        times = one["seconds"] / ahead["seconds"]
        cells = [f"{one['seconds'] * 1e3:.0f}", f"{ahead['seconds'] * 1e3:.0f}", f"{ahead['mean_rounds']:.1f}"]
        chosen = ahead["sampler"].split("(")[0]
        lines.append([row["scheduler"], str(row["steps"]), str(row["batch"]), *cells, f"{times:.1f}", chosen])
    largest = max((row for row in data["rows"] if row["batch"] == 1), key=lambda row: row["steps"])
    ahead, one = (largest[side]["seconds"] / largest[side]["batch_rounds"] for side in SIDES)
    states = 1 + (getattr(from_repr(largest["drawahead"]["sampler"]), "window", None) or 0)
    heading = ["scheduler", "steps", "at once", "one by one, ms", "drawahead, ms", "rounds", "times faster", "chosen"]
    return {
        "gpu": data["machine"],
        "guidance": f"{GUIDANCE:g}",
        "states": str(states),
        "passes": str(2 * states),
        "most": str(largest["steps"]),
        "cost": f"{ahead / one:.1f}",
        "emoji": table(heading, lines),
        "versions": origin(data, "emoji")["versions"],
        "note": data.get("note"),
    }


def page(data: Data, pipelines: Data) -> Values:
    """The sections of this study and of the one of pipelines."""
    return {**values(data), **beside(pipelines)}


STUDY = Study("emoji", measure, page, {}, page="diffusers", sources=("emoji", "pipelines"), options=options)
