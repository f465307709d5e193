"""Seconds on a GPU: the shipped networks, drawn in parallel rounds and one step at a time, in the same run.

    python benchmarks/speed.py --out docs/data/speed.json     # measure: one GPU, about six minutes
    python benchmarks/speed.py --page docs/data/speed.json    # write docs/speed.md and its figure from the numbers

The sequential side is the best we know how to make: every step one captured graph, network and all, no step waits for
the CPU, in the faster of the memory layouts that were tried. Times are medians after a warm-up, of `da.sample` as a
user calls it: noise, copies and the last transfer to the CPU included. Needs torch, numpy and safetensors (and
matplotlib for the page); PYTHONPATH=src does for an installation.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.chains.base import Tally
from drawahead.fixed import fixed_batch

WINDOWS = (64, 96, 128, 192, 256)
TEXT_BATCHES = (1, 4, 16, 64, 256)
FASHION_BATCHES = (1, 4, 16, 32, 64, 128)
SEEDS = range(100, 108)  # no window was tuned on these
HALF = torch.float16


def fashion(dtype: torch.dtype) -> da.GaussianChain:
    return da.networks.fashion(device="cuda", dtype=dtype)


def text(dtype: torch.dtype, temperature: float = 0.8) -> da.TokenOracle:
    return da.networks.text(device="cuda", dtype=dtype, temperature=temperature)


def clock(work: Callable[[int], Any], seeds: Any) -> tuple[list[float], list[Any]]:
    """Seconds and results, one for each seed, after one that warms up."""
    work(99)
    seconds, results = [], []
    for seed in seeds:
        torch.cuda.synchronize()
        began = time.perf_counter()
        results.append(work(seed))
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds, results


def measured(target: Any, sampler: da.Sampler | None, num: int, seeds: Any, **options: Any) -> dict[str, Any]:
    """Draw `num` samples for each seed. -> median seconds, and what the reports counted."""
    seconds, results = clock(lambda seed: da.sample(target, num, sampler=sampler, seed=seed, **options), seeds)
    reports = [result.report for result in results]
    rounds = [r for report in reports for r in report.sample_rounds]
    return {
        "sampler": reports[-1].sampler,
        "choice": reports[-1].choice,
        "num_samples": num,
        "runs": len(seconds),
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "mean_rounds": statistics.fmean(rounds),
        "rounds_standard_error": statistics.stdev(rounds) / math.sqrt(len(rounds)) if len(rounds) > 1 else None,
        "batch_rounds": statistics.fmean(report.rounds for report in reports),
        "queries_per_sample": statistics.fmean(report.queries_per_sample for report in reports),
    }


def on_average(work: Callable[[], Any], times: int = 30, repeats: int = 5) -> float:
    """Seconds that `work` takes when it is done again and again: the median of a few averages."""
    averages = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        averages.append((time.perf_counter() - began) / times)
    return statistics.median(averages)


def replayed(work: Callable[[], Any]) -> float:
    """Seconds of one replay of `work`, captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    return on_average(graph.replay)


def outside(target: Any, window: int) -> dict[str, float]:
    """A captured round at batch 1 beside the model alone on the same batch, and how long the host waits for it."""
    chain = target if isinstance(target, da.GaussianChain) else da.TokenChain(target)
    batch = fixed_batch(chain, 1, torch.arange(1), window, True)
    whole = window >= chain.steps - 1
    for _ in range(2):
        batch.load(chain.start(1, torch.arange(1), Tally()))
        batch.round(0, window)
        batch.round(window, 0 if whole else window)
    graph = batch.graphs[window, 0 if whole else window]

    def one_round() -> None:
        graph.replay()
        batch.paths.position.fill_(1)  # or soon nothing would be left to draw
        batch.standing()

    waited = on_average(one_round)
    if isinstance(target, da.GaussianChain):
        x = torch.randn(window + 1, *target.shape, device="cuda", dtype=target.dtype)
        k = torch.arange(window + 1, device="cuda")
        model = replayed(lambda: target.denoiser(x, k))
    else:
        own = batch.paths
        place = torch.arange(target.length, device="cuda")[None, : window + 1]
        model = replayed(lambda: target.path_rows(own.tokens, own.rank, place, place))
    return {"window": window, "round": waited, "model": model, "share_outside": 1 - model / waited}


def one_sample(results: dict[str, Any], name: str, target: Any, windows: tuple[int | None, ...]) -> None:
    """Batch 1: sequential, hand-tuned windows, Auto."""
    here = results.setdefault(name, {})
    here["sequential"] = measured(target, da.Sequential(), 1, SEEDS[:4])
    here["coupled"] = [{"window": w, **measured(target, da.Coupled(w), 1, SEEDS)} for w in windows]
    here["auto"] = measured(target, None, 1, SEEDS)
    for row in (here["sequential"], *here["coupled"], here["auto"]):
        print(
            name,
            row["sampler"],
            f"{row['seconds'] * 1e3:.1f} ms, {row['mean_rounds']:.1f} rounds",
            row["choice"],
            flush=True,
        )


def many_samples(
    results: dict[str, Any],
    name: str,
    target: Any,
    batches: tuple[int, ...],
    window: int | None,
    save: Callable[[], None],
) -> None:
    """From which batch on speculation stops paying. Saved after every batch: the last ones take long."""
    rows = results.setdefault(name, {})["batches"] = []
    for batch in batches:
        runs = SEEDS[:2] if batch < 64 else SEEDS[:1]
        row = {
            "batch": batch,
            "sequential": measured(target, da.Sequential(), batch, runs[:1]),
            "coupled": measured(target, da.Coupled(window), batch, runs),
            "auto": measured(target, None, batch, runs),
        }
        rows.append(row)
        print(
            name,
            batch,
            {key: round(row[key]["seconds"], 4) for key in ("sequential", "coupled", "auto")},
            row["auto"]["choice"],
            flush=True,
        )
        save()


def numerics_of_text(half: torch.dtype, num: int = 16) -> dict[str, float]:
    """How far half precision, and another batch shape, move the rows of the text model along paths it draws."""
    models = {"float32": text(torch.float32), "half": text(half)}
    full = models["float32"]
    drawn = da.sample(full, num, sampler=da.Coupled(), seed=5).samples.cuda()
    rank = torch.rand(num, full.length, device="cuda").argsort(1).argsort(1)
    position = torch.arange(full.length, device="cuda").expand(num, -1)

    def rows(model: Any, start: int, stop: int) -> Tensor:
        return model.path_rows(drawn[start:stop], rank[start:stop], rank[start:stop], position[start:stop]).double()

    def distance(one: Tensor, two: Tensor) -> Tensor:
        return (one.exp() - two.exp()).abs().sum(-1) / 2  # (num, n)

    together = {name: rows(model, 0, num) for name, model in models.items()}
    alone = {name: torch.cat([rows(model, i, i + 1) for i in range(num)]) for name, model in models.items()}
    equal = {
        name: da.sample(model, num, sampler=da.Coupled(), seed=6).samples
        == da.sample(model, num, sampler=da.Sequential(), seed=6).samples
        for name, model in models.items()
    }
    moved = distance(together["float32"], together["half"])
    kl = (together["float32"].exp() * (together["float32"] - together["half"])).sum((-1, -2))  # (num,) a whole text
    return {
        "tv_a_step": float(moved.mean()),
        "most_tv_a_step": float(moved.max()),
        "kl_a_sample": float(kl.mean()),
        "tv_a_sample_at_most": min(1.0, float((kl.mean().clamp(min=0) / 2).sqrt())),
        "tv_a_step_batch_shape": float(distance(together["half"], alone["half"]).mean()),
        "tv_a_step_batch_shape_float32": float(distance(together["float32"], alone["float32"]).mean()),
        "tokens_equal_to_sequential": float(equal["half"].float().mean()),
        "tokens_equal_to_sequential_float32": float(equal["float32"].float().mean()),
    }


def numerics_of_fashion(half: torch.dtype, num: int = 4) -> dict[str, float]:
    """The same for the image model: the distance of the means in standard deviations, step by step along paths."""
    full, other = fashion(torch.float32), fashion(half)
    every = tuple(range(1, full.steps, 9))
    recording = da.GaussianChain(other.denoiser, full.schedule, full.shape, record=every, device="cuda")
    states = da.sample(recording, num, sampler=da.Coupled(96), seed=5, graphs=False).samples[:, :-1].cuda()
    k = torch.tensor(every, device="cuda").repeat(num)
    flat = states.flatten(0, 1)

    def means(chain: da.GaussianChain, size: int) -> Tensor:
        with torch.no_grad():
            parts = [chain.denoiser(x, i) for x, i in zip(flat.split(size), k.split(size), strict=True)]
        return chain.schedule.adjust(torch.cat(parts).flatten(1).double()) * chain.plan.b[k][:, None]

    def kl(one: Tensor, two: Tensor) -> float:
        """Over all steps of a path: half the squared distance, summed (the recorded steps stand for all)."""
        scale = full.plan.s[k]
        delta = (one - two).norm(dim=1)[scale > 0] / scale[scale > 0]
        return float((delta**2 / 2).sum() / num * full.steps / len(every))

    moved = kl(means(full, 64), means(other, 64))
    return {
        "kl_a_sample": moved,
        "tv_a_sample_at_most": min(1.0, math.sqrt(moved / 2)),
        "kl_a_sample_batch_shape": kl(means(other, 64), means(other, 1)),
        "kl_a_sample_batch_shape_float32": kl(means(full, 64), means(full, 1)),
    }


def same_law(num: int) -> dict[str, Any]:
    """Two-sample tests of parallel against sequential draws, of other seeds."""
    found: dict[str, Any] = {}
    for name, target, window in (("fashion", fashion(HALF), 64), ("text", text(HALF), None)):
        one = da.sample(target, num, sampler=da.Coupled(window), seed=21, max_live=256).samples
        two = da.sample(target, num, sampler=da.Sequential(), seed=22, max_live=256).samples
        if name == "fashion":
            found[name] = vectors(one.flatten(1).double(), two.flatten(1).double())
        else:
            found[name] = letters(one, two)
        found[name]["num_samples"] = num
        print(name, found[name], flush=True)
    return found


def vectors(one: Tensor, two: Tensor) -> dict[str, Any]:
    """Kolmogorov-Smirnov tests on the mean brightness, the contrast and 30 principal components of the images."""
    both = torch.cat([one, two])
    centred = both - both.mean(0)
    axes = torch.linalg.svd(centred, full_matrices=False).Vh[:30]
    features = torch.cat([both.mean(1, keepdim=True), both.std(1, keepdim=True), centred @ axes.T], dim=1)
    smallest = min(_ks(features[: len(one), i], features[len(one) :, i]) for i in range(features.shape[1]))
    return {"tests": features.shape[1], "smallest_p": smallest, "p": min(1.0, smallest * features.shape[1])}


def letters(one: Tensor, two: Tensor, seed: int = 0) -> dict[str, Any]:
    """A permutation test on the mean counts of letters and of pairs of neighbouring letters, texts being whole."""
    size = da.networks.TextModel.vocab_size
    texts = torch.cat([one, two])
    single = torch.nn.functional.one_hot(texts, size).double().sum(1)
    pairs = torch.zeros(len(texts), size * size, dtype=torch.float64)
    pairs.scatter_add_(1, texts[:, :-1] * size + texts[:, 1:], torch.ones(len(texts), texts.shape[1] - 1).double())
    counts = torch.cat([single, pairs], dim=1)
    counts = counts[:, counts.sum(0) > 20]
    counts = (counts - counts.mean(0)) / counts.std(0)
    generator = torch.Generator().manual_seed(seed)
    groups = [torch.arange(len(texts)), *(torch.randperm(len(texts), generator=generator) for _ in range(999))]
    sign = torch.where(torch.stack(groups) < len(one), 1 / len(one), -1 / len(two)).double()  # (1000, texts)
    distance = (sign @ counts).square().sum(1)
    return {"features": counts.shape[1], "permutations": 999, "p": float((distance >= distance[0]).double().mean())}


def power_of_letters(text: Path, num: int, runs: int = 40) -> dict[str, float]:
    """How often the test above, at level 0.01, sees that one half of the texts has a share of its letters replaced by
    others: on pieces of the text the model was trained on."""
    tokens = da.networks.to_tokens(text.read_text(encoding="utf-8"))
    generator = torch.Generator().manual_seed(0)
    found = {}
    for share in (0.0, 0.001, 0.002, 0.004, 0.008):
        seen = 0
        for run in range(runs):
            start = torch.randint(len(tokens) - 256, (2 * num, 1), generator=generator)
            pieces = tokens[start + torch.arange(256)]
            other = torch.randint(da.networks.TextModel.vocab_size, pieces.shape, generator=generator)
            wrong = torch.rand(pieces.shape, generator=generator) < share
            seen += letters(pieces[:num], torch.where(wrong, other, pieces)[num:], run)["p"] <= 0.01
        found[str(share)] = seen / runs
    return found


def _ks(one: Tensor, two: Tensor) -> float:
    both = torch.cat([one, two])
    order = both.argsort()
    step = torch.where(order < len(one), 1 / len(one), -1 / len(two)).double().cumsum(0)
    distance = float(step.abs().max())
    size = math.sqrt(len(one) * len(two) / (len(one) + len(two)))
    x = (size + 0.12 + 0.11 / size) * distance
    return min(1.0, 2 * sum((-1) ** (j - 1) * math.exp(-2 * j * j * x * x) for j in range(1, 101)))


def measure(out: Path, parts: list[str], quick: bool) -> None:
    torch.backends.cudnn.benchmark = True
    results: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    results["machine"] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}

    def save() -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(results, indent=1) + "\n")

    def batches(name: str, target: Any, sizes: tuple[int, ...], window: int | None) -> None:
        many_samples(results, name, target, sizes[:: 4 if quick else 1], window, save)

    work: dict[str, Callable[[], None]] = {
        "outside": lambda: results.__setitem__(
            "outside", {"fashion": [outside(fashion(HALF), w) for w in (64, 96, 128)], "text": outside(text(HALF), 255)}
        ),
        "text": lambda: one_sample(results, "text", text(HALF), (None, 64) if quick else (None, 32, 64, 128)),
        "fashion": lambda: one_sample(results, "fashion", fashion(HALF), (96,) if quick else WINDOWS),
        "layouts": lambda: results.__setitem__("layouts", layouts()),
        "eager": lambda: eager(results),
        "spread": lambda: results.__setitem__(
            "spread", measured(da.TokenChain(text(HALF), order="spread"), da.Coupled(), 1, SEEDS)
        ),
        "precisions": lambda: precisions(results),
        "numerics": lambda: results.__setitem__("numerics", numerics()),
        "text_batches": lambda: batches("text", text(HALF), TEXT_BATCHES, None),
        "fashion_batches": lambda: batches("fashion", fashion(HALF), FASHION_BATCHES, 64),
        "law": lambda: results.__setitem__("law", same_law(128 if quick else 1024)),
    }
    for name, part in work.items():
        if parts and name not in parts:
            continue
        began = time.perf_counter()
        try:
            part()
        except Exception:
            traceback.print_exc()
            results.setdefault("failed", {})[name] = traceback.format_exc(limit=3)
        torch.cuda.empty_cache()
        print(f"-- {name}: {time.perf_counter() - began:.1f} s", flush=True)
        save()


def numerics() -> dict[str, Any]:
    return {
        name: {"text": numerics_of_text(half), "fashion": numerics_of_fashion(half)}
        for name, half in (("bfloat16", torch.bfloat16), ("float16", torch.float16))
    }


def layouts() -> dict[str, Any]:
    """Sequential at batch 1 with the image network's tensors laid out either way."""
    found = {}
    for name, layout in (("plain", torch.contiguous_format), ("channels last", torch.channels_last)):
        chain = da.networks.fashion(device="cuda", dtype=HALF, memory_format=layout)
        found[name] = measured(chain, da.Sequential(), 1, SEEDS[:2])
        print(name, round(found[name]["seconds"], 4), flush=True)
    return found


def precisions(results: dict[str, Any]) -> None:
    """The same ratios with networks in other precisions."""
    for name, make, window in (("fashion", fashion, 128), ("text", text, None)):
        for label, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
            target = make(dtype)
            results.setdefault(name, {})[label] = {
                "sequential": measured(target, da.Sequential(), 1, SEEDS[:1]),
                "coupled": measured(target, da.Coupled(window), 1, SEEDS[:4]),
            }


def eager(results: dict[str, Any]) -> None:
    """Without graphs, on both sides. There windows are ragged, and libraries plan their kernels for every new shape; so
    the same seeds, that is the same shapes, are drawn once more."""
    for name, target, window in (("text", text(HALF), None), ("fashion", fashion(HALF), 96)):
        results.setdefault(name, {})["eager"] = {
            "sequential": measured(target, da.Sequential(), 1, SEEDS[:1], graphs=False),
            "coupled": measured(target, da.Coupled(window), 1, SEEDS[:4], graphs=False),
            "coupled, once more": measured(target, da.Coupled(window), 1, SEEDS[:4], graphs=False),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/data/speed.json"))
    parser.add_argument("--page", type=Path, help="write the page from this file instead of measuring")
    parser.add_argument("--parts", nargs="*", default=[], help="measure these only, and add them to the file")
    parser.add_argument(
        "--power", type=Path, help="a text: find the power of the test on texts, and add it to the file"
    )
    parser.add_argument("--quick", action="store_true", help="fewer settings and samples")
    arguments = parser.parse_args()
    if arguments.power is not None:
        written = json.loads(arguments.out.read_text())
        written["law"]["text"]["power"] = power_of_letters(arguments.power, written["law"]["text"]["num_samples"])
        arguments.out.write_text(json.dumps(written, indent=1) + "\n")
    elif arguments.page is None:
        measure(arguments.out, arguments.parts, arguments.quick)
    else:
        from speed_page import write

        write(arguments.page, Path("docs"))
