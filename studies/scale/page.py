"""The measured parts of docs/scale.md and its figure, from what executors and networks were measured to take."""

from __future__ import annotations

from collections import ChainMap
from pathlib import Path
from typing import Any

from drawahead.show import plots
from studies.scale.heavy_page import network_values
from studies.scale.sizing import Model, Overhead, best_workers, images, ray_overhead, texts
from studies.tables import table

Row = dict[str, Any]
SOURCES = ("executors", "executors-gpu", "speed", "workers", "heavy")
GPUS = (1, 8, 64, 1000)
SAMPLES = (1, 1000, 10**6)
HEAVY = (0.001, 0.01, 0.1)  # seconds that a query is supposed to take


def values(found: Row, gpu: Row, speed: Row, shards: Row, heavy: Row) -> dict[str, str | None]:
    """What the measured parts say."""
    models, overhead = [images(speed, gpu), texts(speed, gpu)], ray_overhead(found)
    parts: list[Any] = [_memory(gpu), _cost(found), _shards(shards), _million(shards["million"]), _uncaptured(gpu)]
    parts += [_sizing(models, overhead), _heavy(models[0], overhead), network_values(found, gpu, speed, heavy)]
    return dict(ChainMap(*parts))


def _memory(gpu: Row) -> dict[str, str]:
    found = gpu["memory"]
    assert found["as_many_as_expected"] and len(found["warnings"]) == 1
    return {
        "gib_left": f"{found['gib_left']:g}",
        "gpu": gpu["machine"]["gpu"],
        "memory_items": str(found["items"]),
        "fits": found["notes"][0].split("at most ")[1].split(".")[0],
    }


def _cost(found: Row) -> dict[str, str]:
    oracle, machine = found["oracle"], found["machine"]
    both = [row for kind in ("ray", "replicas") for row in found[kind]]
    assert all(row[name]["samples"] for row in both for name in ("sleepy", "awake"))
    assert all(row["samples"] for row in (*found["payload"], *found["troubles"]))
    return {
        "latency": f"{oracle['latency_ms']:g}",
        "each": f"{oracle['each_ms']:g}",
        "items": str(oracle["items"]),
        "cores": str(machine["cores"]),
        "ray": machine["ray"],
        "load_before": f"{machine['load_before']:.1f}",
        "load_after": f"{machine['load_after']:.1f}",
        "timed_rounds": str(found["ray"][0]["sleepy"]["rounds"]),
        "workers": _workers(found),
        "payload_workers": str(found["payload"][0]["workers"]),
        "payload": table(
            ["megabytes per round", "Ray adds, ms"],
            [[f"{row['megabytes']:.2f}", _both(row["adds_ms"], row["quick_adds_ms"])] for row in found["payload"]],
            right=False,
        ),
        "troubled_workers": str(found["troubles"][0]["workers"]),
        "troubled_rounds": str(found["troubles"][0]["rounds"]),
        "troubles": table(
            ["what happens", "ms per round", "ideal", "workers replaced", "shards sent twice"],
            [
                [row["what"], f"{row['ms']:.0f}", f"{row['ideal_ms']:.0f}", str(row["replaced"]), str(row["resent"])]
                for row in found["troubles"]
            ],
            right=False,
        ),
    }


def _shards(found: Row) -> dict[str, str]:
    assert all(row["same"] for row in found["rows"])
    rows = [
        [
            str(row["workers"]),
            str(row["shards"]),
            f"{row['ideal_seconds']:.1f}",
            f"{row['seconds']:.1f}",
            f"{row['ideal_seconds'] / row['seconds']:.0%}",
        ]
        for row in found["rows"]
    ]
    return {
        "shards": table(["workers", "shards", "ideal, s", "took, s", "efficiency"], rows, right=False),
        "shard_seconds": f"{found['shard_seconds']:.1f}",
        "shard_samples": str(found["samples"]),
        "shards_load": f"{found['load_before']:.1f}",
        "shards_load_after": f"{found['load_after']:.1f}",
    }


def _million(found: Row) -> dict[str, str | None]:
    return {
        "million_shards": f"{found['shards']:,}",
        "million_load": f"{found['load']:.1f}",
        "write_ms": f"{found['write_ms']:.1f}",
        "read_seconds": f"{found['read_seconds']:.0f}",
        "read_gb": f"{found['read_bytes'] / 1e9:.1f}",
    }


def _both(median: float, quick: float) -> str:
    return f"{median:.1f} ({quick:.1f})"


def _workers(found: Row) -> str:
    one, local = found["ray"][0]["ideal_ms"], found["local"]["awake"]

    def adds(row: Row) -> str:
        return _both(row["awake"]["ms"] - local["ms"], row["awake"]["quick_ms"] - local["quick_ms"])

    rows = [
        [
            str(ray["workers"]),
            f"{ray['ideal_ms']:.0f}",
            _both(ray["sleepy"]["ms"], ray["sleepy"]["quick_ms"]),
            f"{one / ray['sleepy']['ms'] / ray['workers']:.0%}",
            f"{ray['ideal_ms'] / ray['sleepy']['ms']:.0%}",
            adds(ray),
            _both(replicas["sleepy"]["ms"], replicas["sleepy"]["quick_ms"]),
            adds(replicas),
        ]
        for ray, replicas in zip(found["ray"], found["replicas"], strict=True)
    ]
    heading = ["workers", "ideal, ms", "Ray, ms", "efficiency", "of the ideal", "Ray adds, ms", "Replicas, ms"]
    return table([*heading, "adds, ms"], rows, right=False)


def _uncaptured(gpu: Row) -> dict[str, str]:
    rows = []
    for name in ("fashion", "text"):
        for row in gpu[name]:
            sampler = row["sampler"].split(",")[0].replace("window=", "").replace("(None", "(") + ")"
            cells = [f"{row[key]['ms']:.1f}" for key in ("captured", "local", "many_threads", "replicas")]
            rows.append([name, f"`{sampler}`", str(row["num_samples"]), *cells])
    threads = f"engine, {gpu['machine']['threads']} threads"
    heading = ["model", "sampler", "samples", "captured", "engine", threads, "two replicas"]
    return {
        "uncaptured": table(heading, rows, right=False),
        "same_float32": f"{gpu['same_texts']['float32']:.0%}",
        "same_float16": f"{gpu['same_texts']['float16']:.0%}",
    }


def _sizing(models: list[Model], overhead: Overhead) -> dict[str, str]:
    most = [str(int(max(items for items, _ in model.device.points))) for model in models]
    return {
        "start_ms": f"{overhead.workers.start * 1e3:.1f}",
        "worker_ms": f"{overhead.workers.slope * 1e3:.2f}",
        "megabyte_ms": f"{overhead.megabyte * 1e3:.2f}",
        "most_states": most[0],
        "most_texts": most[1],
        "formula": _formula(models, overhead),
        "image_batch": str(models[0].batches[-1][0]),
        "text_batch": str(models[1].batches[-1][0]),
        "shares": _shares(models, overhead),
        "idle": str(GPUS[-1] - 1),
    }


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
    heading = ["model", "a, ms", "b, us", "worst misfit", "m", "rounds", "u, ms", "m b / a", "W*"]
    return table(heading, rows, right=False)


def _shares(models: list[Model], overhead: Overhead) -> str:
    rows = []
    for model in models:
        for samples in SAMPLES:
            cells = [
                f"{_time(model.by_samples(samples, gpus))} / {_time(model.by_rounds(samples, gpus, overhead))}"
                for gpus in GPUS
            ]
            rows.append([f"{_number(samples)} of the {model.name}", *cells])
    return table(["to draw", *(f"{gpus} GPU{'s' * (gpus > 1)}" for gpus in GPUS)], rows, right=False)


def _time(seconds: float) -> str:
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if seconds >= 2 * size or (unit == "s" and seconds >= 0.995):
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e3:.3g} ms"


def _number(number: int) -> str:
    return f"10^{len(str(number)) - 1}" if number >= 10**4 else str(number)


def _heavy(model: Model, overhead: Overhead) -> dict[str, str]:
    """A model so heavy that a query fills a GPU."""
    items, rounds = model.windows[0]
    rows = []
    for each in HEAVY:
        one, steps = rounds * (items * each + model.uncaptured), 1000 * each
        best = min(range(1, items + 1), key=lambda gpus: _heavy_seconds(model, each, gpus, overhead))
        rows.append(
            [
                f"{each * 1e3:g}",
                _time(steps),
                _time(one),
                *(_time(_heavy_seconds(model, each, gpus, overhead)) for gpus in (8, 64)),
                str(best),
                f"{steps / _heavy_seconds(model, each, best, overhead):.1f}",
            ]
        )
    heading = ["ms per query", "Sequential, 1 GPU", "Coupled, 1 GPU", "8 GPUs", "64 GPUs", "best W", "times less"]
    return {
        "heavy_rounds": f"{rounds:.1f}",
        "heavy_items": str(items),
        "heavy": table(heading, rows, right=False),
        "break_even_ms": f"{_break_even(model, overhead) * 1e3:.1f}",
    }


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


def figure(found: Row, gpu: Row, speed: Row, shards: Row, heavy: Row, path: Path) -> None:
    """Rounds of a sleeping oracle by workers, and what the formula promises for one sample."""
    model, overhead = images(speed, gpu), ray_overhead(found)
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
            gpus = range(1, model.windows[0][0] + 1)
            gain = [1000 * each / _heavy_seconds(model, each, w, overhead) for w in gpus]
            right.plot(gpus, gain, color=colour, label=f"{each * 1e3:g} ms per query")
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
