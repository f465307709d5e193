"""The measured parts of docs/scale.md and its figure, from what executors.py, executors_gpu.py and speed.py wrote.

They stand between marks in the page; the rest of it is written by hand.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from sizing import Model, Overhead, best_workers, images, ray_overhead, texts

from drawahead import plots

Row = dict[str, Any]
GPUS = (1, 8, 64, 1000)
SAMPLES = (1, 1000, 10**6)
HEAVY = (0.001, 0.01, 0.1)  # seconds that a query is supposed to take


def write(data: Path, docs: Path) -> None:
    """Bring `scale.md` and `figures/scale.png` in `docs` up to date."""
    path = docs / "scale.md"
    path.write_text(page(path.read_text(), data))
    figure(json.loads(data.read_text()), *_models(data), docs / "figures" / "scale.png")
    print(f"wrote {path}")


def page(text: str, data: Path) -> str:
    """The page with its measured parts made anew."""
    found, gpu = json.loads(data.read_text()), json.loads(data.with_name("executors-gpu.json").read_text())
    models, overhead = _models(data)
    parts = {
        "memory": _memory(gpu),
        "cost": _cost(found),
        "gpu": _uncaptured(gpu),
        "sizing": "\n".join((_formula(models, overhead), _shares(models, overhead), _heavy(models[0], overhead))),
    }
    for name, part in parts.items():
        begin, end = f"<!-- begin {name} -->\n", f"\n<!-- end {name} -->"
        before, rest = text.split(begin.rstrip("\n"), 1)
        after = rest.split(end.lstrip("\n"), 1)[1]
        text = before + begin + _wrapped(part) + end + after
    return text


def _wrapped(text: str) -> str:
    """Paragraphs filled to the width of a line; all else as it is."""

    def filled(paragraph: str) -> str:
        plain = not paragraph.startswith(("|", "#", "!", "- ", "    "))
        return textwrap.fill(paragraph, 120, break_on_hyphens=False) if plain else paragraph

    return "\n\n".join(map(filled, text.strip().split("\n\n")))


def _models(data: Path) -> tuple[list[Model], Overhead]:
    speed = json.loads(data.with_name("speed.json").read_text())
    gpu = json.loads(data.with_name("executors-gpu.json").read_text())
    return [images(speed, gpu), texts(speed, gpu)], ray_overhead(json.loads(data.read_text()))


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _time(seconds: float) -> str:
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size or (unit == "s" and seconds >= 0.995):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"


def _number(number: int) -> str:
    return f"10^{len(str(number)) - 1}" if number >= 10**4 else str(number)


def _memory(gpu: Row) -> str:
    found = gpu["memory"]
    assert found["as_many_as_expected"] and len(found["warnings"]) == 1
    fits = found["notes"][0].split("at most ")[1].split(".")[0]
    return f"""
Measured: with {found["gib_left"]:g} GiB left on one {gpu["machine"]["gpu"]}, rounds of {found["items"]} images went
through, at most {fits} at a time after the first attempts, with one warning."""


def _cost(found: Row) -> str:
    oracle, machine, local = found["oracle"], found["machine"], found["local"]["awake"]["ms"]
    assert all(
        row[name]["samples"] for kind in ("ray", "replicas") for row in found[kind] for name in ("sleepy", "awake")
    )
    assert all(row["samples"] for row in (*found["payload"], *found["troubles"]))
    one = found["ray"][0]["ideal_ms"]

    def adds(row: Row) -> str:
        quick = row["awake"]["quick_ms"] - found["local"]["awake"]["quick_ms"]
        return f"{row['awake']['ms'] - local:.1f} ({quick:.1f})"

    rows = [
        [
            str(ray["workers"]),
            f"{ray['ideal_ms']:.0f}",
            f"{ray['sleepy']['ms']:.1f} ({ray['sleepy']['quick_ms']:.1f})",
            f"{one / ray['sleepy']['ms'] / ray['workers']:.0%}",
            f"{ray['ideal_ms'] / ray['sleepy']['ms']:.0%}",
            adds(ray),
            f"{replicas['sleepy']['ms']:.1f} ({replicas['sleepy']['quick_ms']:.1f})",
            adds(replicas),
        ]
        for ray, replicas in zip(found["ray"], found["replicas"], strict=True)
    ]
    head = ["workers", "ideal, ms", "Ray, ms", "efficiency", "of the ideal", "Ray adds, ms", "Replicas, ms", "adds, ms"]
    payload = [
        [f"{row['megabytes']:.2f}", f"{row['adds_ms']:.1f} ({row['quick_adds_ms']:.1f})"] for row in found["payload"]
    ]
    troubles = [
        [row["what"], f"{row['ms']:.0f}", f"{row['ideal_ms']:.0f}", str(row["replaced"]), str(row["resent"])]
        for row in found["troubles"]
    ]
    return f"""
## What an executor costs, measured

    python benchmarks/executors.py --out docs/data/executors.json
    python benchmarks/executors_gpu.py --out docs/data/executors-gpu.json     # on a GPU
    python benchmarks/executors.py --page docs/data/executors.json            # writes this page

An oracle that sleeps for {oracle["latency_ms"]:g} ms and another {oracle["each_ms"]:g} ms for every item stands for an
accelerator: it makes scaling measurable on a machine of {machine["cores"]} cores, which the workers, the driver and Ray
{machine["ray"]} itself share, here with other work as well (a load of {machine["load_before"]:.1f} before and
{machine["load_after"]:.1f} at the end). Rounds have {oracle["items"]} items. A time is the median over
{found["ray"][0]["sleepy"]["rounds"]} rounds, in brackets that of the quickest tenth, which other work disturbed least.
Efficiency is against one worker that costs nothing; "of the ideal" allows for the latency, which no number of workers
removes. "Adds" is what a round costs with an oracle that does not sleep at all, beyond `Local`. In every run of this
section the samples were those of `Local`, bit for bit.

{_table(head, rows)}

What is sent costs too ({found["payload"][0]["workers"]} workers, states there and predictions back):

{_table(["megabytes a round", "Ray adds, ms"], payload)}

{found["troubles"][0]["workers"]} workers in trouble, {found["troubles"][0]["rounds"]} rounds, one run each:

{_table(["what happens", "a round, ms", "ideal", "workers replaced", "shards sent twice"], troubles)}

A worker takes seconds to start here, many rounds of this oracle, so killing one often leaves few: what grows is time,
nothing else. A slow worker holds every round up, unless its shard is sent to another one as well.

![Rounds of a sleeping oracle by workers, and what a model promises for one sample](figures/scale.png)"""


def _uncaptured(gpu: Row) -> str:
    rows = []
    for name in ("fashion", "text"):
        for row in gpu[name]:
            sampler = row["sampler"].split(",")[0].replace("window=", "").replace("(None", "(") + ")"
            cells = [f"{row[key]['ms']:.1f}" for key in ("captured", "local", "many_threads", "replicas")]
            rows.append([name, f"`{sampler}`", str(row["num_samples"]), *cells])
    head = [
        "model",
        "sampler",
        "samples",
        "captured",
        "engine",
        f"engine, {gpu['machine']['threads']} threads",
        "two replicas",
    ]
    return f"""
### On a GPU

With an executor a round is not captured as a graph: the CPU launches every kernel, of the sampler and of the model.
Milliseconds of a round on one {gpu["machine"]["gpu"]}; the two replicas share it, so they show what cutting a round and
taking turns in Python costs, not what a second GPU gains:

{_table(head, rows)}

Set OMP_NUM_THREADS=1 (or `torch.set_num_threads(1)`) where rounds are not captured: the CPU's part is many small
operations, and threads that wait for each other made them several times slower. The shared tokens of three replicas
were those of one: {gpu["same_texts"]["float32"]:.0%} in float32, {gpu["same_texts"]["float16"]:.0%} in float16."""


def _formula(models: list[Model], overhead: Overhead) -> str:
    rows = []
    for model in models:
        items, rounds = model.windows[-1]
        rows.append(
            [
                model.name,
                f"{model.device.start * 1e3:.2f}",
                f"{model.device.slope * 1e6:.0f}",
                f"{model.device.worst:.0%}",
                f"{items}",
                f"{rounds:.1f}",
                f"{model.uncaptured * 1e3:.0f}",
                f"{model.floor(items):.1f}",
                f"{best_workers(items, model.device.slope, overhead):.1f}",
            ]
        )
    head = ["model", "a, ms", "b, us", "worst misfit", "m", "rounds", "u, ms", "m b / a", "W*"]
    return f"""
## How many GPUs

    time = rounds x (a + u + o(W)) + queries x b / W

A round of m queries takes a + m b on one GPU: a latency, and then each query's share of the throughput 1 / b. Cut over
W workers the work shrinks and the rest does not: u is what a round costs because it is not captured, and o(W) what the
executor adds, about {overhead.workers.start * 1e3:.1f} ms + {overhead.workers.slope * 1e3:.2f} ms for every worker,
and {overhead.megabyte * 1e3:.2f} ms for every megabyte, fitted to the quickest rounds above. So

- beyond **m b / a** workers a shard's work takes less than the latency: more of them can save less than half of what is
  left of a round;
- beyond **W* = sqrt(m b / o')**, with o' the overhead of one more worker, a round gets longer again.

For the networks that come with drawahead, on one NVIDIA H200 ([measured](speed.md); a and b fitted to rounds of up
to {_most(models[0])} states, and of up to {_most(models[1])} texts, one text being one query as the model answers all
of a path at once):

{_table(head, rows)}

These networks are small. One GPU answers a whole round of theirs in a few milliseconds, less than it takes to hand out
the round: **rounds of such a model should not be shared.** Their samples should be."""


def _most(model: Model) -> int:
    return int(max(items for items, _ in model.device.points))


def _shares(models: list[Model], overhead: Overhead) -> str:
    rows = []
    for model in models:
        for samples in SAMPLES:
            cells = [
                f"{_time(model.by_samples(samples, gpus))} / {_time(model.by_rounds(samples, gpus, overhead))}"
                for gpus in GPUS
            ]
            rows.append([f"{_number(samples)} of the {model.name}", *cells])
    return f"""
### One, a thousand, a million samples

Samples shared / rounds shared. The first of the two is measured for up to {models[0].batches[-1][0]} images or
{models[1].batches[-1][0]} texts a GPU (with `Auto`) and multiplied from there on; the second is the formula, with one
driver that sends everything.

{_table(["to draw", *(f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in GPUS)], rows)}

With a million samples a thousand GPUs are a thousand jobs that know nothing of each other. With a thousand samples each
GPU draws one, and the whole takes as long as one. With one sample {GPUS[-1] - 1} GPUs are idle, whatever is done: for a
small model."""


def _heavy(model: Model, overhead: Overhead) -> str:
    rows = []
    for each in HEAVY:
        items, rounds = model.windows[0]
        one = rounds * (items * each + model.uncaptured)
        steps = 1000 * each
        shared = {gpus: _heavy_seconds(model, each, gpus, overhead) for gpus in (8, 64)}
        best = min(range(1, items + 1), key=lambda gpus: _heavy_seconds(model, each, gpus, overhead))
        rows.append(
            [
                f"{each * 1e3:g}",
                _time(steps),
                _time(one),
                *(_time(seconds) for seconds in shared.values()),
                str(best),
                f"{steps / _heavy_seconds(model, each, best, overhead):.1f}",
            ]
        )
    head = ["a query, ms", "Sequential, 1 GPU", "Coupled, 1 GPU", "8 GPUs", "64 GPUs", "best W", "times less"]
    items, rounds = model.windows[0]
    return f"""
### When sharing rounds pays: one sample of a heavy model, soon

Suppose a model so heavy that a single query fills the GPU, so that queries of a round take m times as long as one: then
speculation on one GPU only costs. Over W GPUs it does not. With the rounds of the image model above ({rounds:.1f} of
{items} queries instead of 1000 steps; another model has its own) and the measured overheads:

{_table(head, rows)}

Speculation begins to pay at about {_break_even(model, overhead) * 1e3:.1f} ms a query, with the best W; with a tenth of
a second a query nearly every query of the window is worth a GPU. This is the formula alone: no such cluster was
measured."""


def _break_even(model: Model, overhead: Overhead) -> float:
    """The seconds of a query from which on sharing rounds beats one step after another on one GPU."""
    low, high = 1e-5, 1.0
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        pays = min(_heavy_seconds(model, middle, gpus, overhead) for gpus in range(1, 66)) < 1000 * middle
        low, high = (low, middle) if pays else (middle, high)
    return high


def _heavy_seconds(model: Model, each: float, gpus: int, overhead: Overhead) -> float:
    items, rounds = model.windows[0]
    share = -(-items // gpus)
    return rounds * (share * each + model.uncaptured + overhead(gpus, items * model.megabytes))


def figure(found: Row, models: list[Model], overhead: Overhead, path: Path) -> None:
    with plots.canvas(path, 9.6, 3.9) as drawing:
        left, right = drawing.subplots(1, 2)
        workers = [row["workers"] for row in found["ray"]]
        left.plot(workers, [row["ideal_ms"] for row in found["ray"]], "--", color="#555555", label="ideal")
        for name, colour, marker in (("ray", "#0072B2", "o"), ("replicas", "#009E73", "v")):
            left.plot(
                workers, [row["sleepy"]["ms"] for row in found[name]], color=colour, marker=marker, label=name.title()
            )
        left.set_title("A round of a sleeping oracle, measured")
        left.set_ylabel("ms")
        for each, colour in zip(HEAVY, ("#CC79A7", "#E69F00", "#D55E00"), strict=True):
            gpus = range(1, models[0].windows[0][0] + 1)
            gain = [1000 * each / _heavy_seconds(models[0], each, w, overhead) for w in gpus]
            right.plot(gpus, gain, color=colour, label=f"{each * 1e3:g} ms a query")
        right.axhline(1.0, color="#555555", linewidth=1)
        right.set_title("One sample over many GPUs, by the formula")
        right.set_ylabel("times less than sequential")
        for axes, label in ((left, "workers"), (right, "GPUs")):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            ticks = [1, 2, 4, 8, 16] if axes is left else [1, 2, 4, 8, 16, 32, 64]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            marks = [20, 40, 80, 160] if axes is left else [0.5, 1, 2, 4, 8, 16]
            axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
            axes.minorticks_off()
            axes.set_xlabel(label)
            axes.legend()
