"""Seconds on one core, in the same run: drawahead beside tools that were made for one kind of target.

    pip install --no-deps --target dppy dppy    # optional, needs numpy and scipy
    PYTHONPATH=dppy python benchmarks/peers.py --out docs

Writes `data/peers.json` and the section "Beside other tools" at the end of `counting.md`, and prints it. Seconds are
processor seconds of one thread. Every tool draws the same seeds again and again, in turn with the others; the best time
counts. What all samples share is set up before, and timed apart. Needs networkx; without DPPy its rows are left out.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before numpy is imported

import argparse
import importlib.metadata
import json
import math
import platform
import random
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import networkx
import numpy
import torch

import drawahead as da
from drawahead.bench.page import table

GRIDS = (10, 20, 30)
ITEMS = (100, 300, 1000)
FIRST = 100  # seed
FEWEST, MOST = 3, 300  # seeds: walks differ much in length, so that a few of them say little
SPEND = 0.6  # seconds for the seeds of one repeat
REPEATS = 5
ENOUGH = 2.0  # seconds: slower tools are repeated twice, and not run on the next size
PATIENCE = 10.0  # seconds: slower tools draw one seed, once after the warm-up
TOGETHER = 8
PANEL = 32
HEADING = "## Beside other tools"


class Drawn(NamedTuple):
    """What one call gave."""

    sizes: list[int]
    """How many items, or edges, each sample has."""
    steps: float | None
    """Rounds, or steps that wait for each other, a sample; None where the tool does not tell."""


Draw = Callable[[int], Drawn]
"""From a seed."""


def wilson(graph: networkx.Graph) -> Draw:
    """Wilson's algorithm (1996): loop-erased random walks, each until it meets the tree."""
    near = [list(graph[node]) for node in graph]

    def draw(seed: int) -> Drawn:
        choose = random.Random(seed).random
        onward, done, steps = [0] * len(near), [False] * len(near), 0
        done[0] = True
        for start in range(len(near)):
            node = start
            while not done[node]:
                onward[node] = near[node][int(choose() * len(near[node]))]  # the last exit counts: loops are erased
                node, steps = onward[node], steps + 1
            node = start
            while not done[node]:
                done[node] = True
                node = onward[node]
        return Drawn([len({(node, onward[node]) for node in range(1, len(near))})], steps)

    return draw


def cholesky(kernel: numpy.ndarray) -> Draw:
    """The sequential sampler by a Cholesky-like factorization of the marginal kernel (Poulson, 2019), in panels."""
    n = len(kernel)

    def draw(seed: int) -> Drawn:
        uniform = numpy.random.default_rng(seed).random(n)
        a, size = kernel.copy(), 0
        for low in range(0, n, PANEL):
            high = min(low + PANEL, n)
            pivots = a.diagonal()[low:high].copy()
            for j in range(low, high):
                inside = uniform[j] < a[j, j]
                size += int(inside)
                pivot = pivots[j - low] = a[j, j] if inside else a[j, j] - 1
                a[j + 1 :, j] /= pivot
                a[j + 1 :, j + 1 : high] -= a[j + 1 :, j, None] * (pivot * a[j + 1 : high, j])
            a[high:, high:] -= (a[high:, low:high] * pivots) @ a[high:, low:high].T
        return Drawn([size], n)

    return draw


def ours(target: da.TokenOracle, sampler: da.Sampler, num: int = 1) -> Draw:
    """drawahead."""

    def draw(seed: int) -> Drawn:
        result = da.sample(target, num, sampler=sampler, seed=seed)
        return Drawn(result.samples.sum(1).tolist(), result.report.mean_rounds)

    return draw


def dppy_trees(graph: networkx.Graph) -> Draw:
    """DPPy's Wilson."""
    from dppy.exotic_dpps import UST

    trees = UST(graph)

    def draw(seed: int) -> Drawn:
        trees.flush_samples()
        trees.sample(mode="Wilson", random_state=numpy.random.RandomState(seed))
        return Drawn([trees.list_of_samples[-1].number_of_edges()], None)

    return draw


def dppy_subsets(kernel: numpy.ndarray, mode: str) -> Draw:
    """DPPy's exact samplers. The first sample pays for the eigenvectors: it belongs to the set-up."""
    from dppy.finite_dpps import FiniteDPP

    process = FiniteDPP("correlation", K=kernel)
    process.sample_exact(mode=mode, random_state=numpy.random.RandomState(0))

    def draw(seed: int) -> Drawn:
        process.flush_samples()
        process.sample_exact(mode=mode, random_state=numpy.random.RandomState(seed))
        size = len(process.list_of_samples[-1])
        return Drawn([size], len(kernel) if mode == "Chol" else size)

    return draw


def networkx_trees(graph: networkx.Graph) -> Draw:
    def draw(seed: int) -> Drawn:
        tree = networkx.random_spanning_tree(graph, weight=None, seed=seed)
        return Drawn([tree.number_of_edges()], None)

    return draw


def tree_tools(side: int) -> dict[str, Callable[[], Draw]]:
    graph = networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(side, side))
    tools: dict[str, Callable[[], Draw]] = {
        "drawahead, coupled": lambda: ours(da.targets.SpanningTree(graph), da.Coupled()),
        f"drawahead, coupled, {TOGETHER} at a time": lambda: ours(
            da.targets.SpanningTree(graph), da.Coupled(), TOGETHER
        ),
        "drawahead, block": lambda: ours(da.targets.SpanningTree(graph), da.Block()),
        "Wilson, own": lambda: wilson(graph),
        "networkx": lambda: networkx_trees(graph),
    }
    if version("dppy"):
        tools["DPPy, Wilson"] = lambda: dppy_trees(graph)
    return tools


def subset_tools(n: int) -> dict[str, Callable[[], Draw]]:
    kernel = da.targets.DPP.random(n).kernel
    array = kernel.numpy()
    tools: dict[str, Callable[[], Draw]] = {
        "drawahead, coupled": lambda: ours(da.targets.DPP(K=kernel), da.Coupled()),
        f"drawahead, coupled, {TOGETHER} at a time": lambda: ours(da.targets.DPP(K=kernel), da.Coupled(), TOGETHER),
        "drawahead, block": lambda: ours(da.targets.DPP(K=kernel), da.Block()),
        "Cholesky, own": lambda: cholesky(array),
    }
    if version("dppy"):
        tools["DPPy, Cholesky"] = lambda: dppy_subsets(array, "Chol")
        tools["DPPy, spectral"] = lambda: dppy_subsets(array, "GS_bis")
    return tools


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def clock(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def measured(study: str, size: int, tools: dict[str, Callable[[], Draw]], slow: set[str]) -> Iterator[dict[str, Any]]:
    """All tools on one target, in turn. Tools that took too long are added to `slow`, and not run again."""
    draws: dict[str, Draw] = {}
    setup: dict[str, float] = {}
    plan: dict[str, tuple[range, int]] = {}
    for name, make in tools.items():
        if name in slow:
            continue
        setup[name], draws[name] = clock(make)
        first, _ = clock(lambda name=name: draws[name](FIRST))
        number = 1 if first > PATIENCE else max(FEWEST, min(MOST, round(SPEND / first)))
        repeats = REPEATS if first < ENOUGH else 2 if first < PATIENCE else 1
        plan[name] = range(FIRST, FIRST + number), repeats
        if first > ENOUGH:
            slow.add(name)
    seconds: dict[str, list[float]] = {name: [] for name in draws}
    drawn: dict[str, list[Drawn]] = {}
    for repeat in range(REPEATS):
        for name, (seeds, repeats) in plan.items():
            if repeat < repeats:
                spent, drawn[name] = clock(lambda draw=draws[name], seeds=seeds: [draw(seed) for seed in seeds])
                seconds[name].append(spent)
    for name in draws:
        sizes = [size for one in drawn[name] for size in one.sizes]
        steps = [one.steps for one in drawn[name] if one.steps is not None]
        yield {
            "study": study,
            "size": size,
            "tool": name,
            "seconds": min(seconds[name]) / len(sizes),
            "setup_seconds": setup[name],
            "rounds": sum(steps) / len(steps) if steps else None,
            "repeats": len(seconds[name]),
            "samples": len(sizes),
            "mean_items": sum(sizes) / len(sizes),
        }


STUDIES = (("spanning trees", GRIDS, tree_tools), ("determinantal point processes", ITEMS, subset_tools))


def run() -> dict[str, Any]:
    torch.set_num_threads(1)
    began = time.perf_counter()
    cells = []
    for study, sizes, make in STUDIES:
        slow: set[str] = set()
        for size in sizes:
            for cell in measured(study, size, make(size), slow):
                cells.append(cell)
                print(f"{study}, {size}: {cell['tool']}, {cell['seconds']:.2g} s", flush=True)
    packages = ("drawahead", "torch", "numpy", "networkx", "dppy")
    return {
        "versions": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "seconds": round(time.perf_counter() - began, 1),
        "measurements": cells,
    }


_INTRODUCTION = """\
This section is generated: `PYTHONPATH=dppy python benchmarks/peers.py --out {folder}` measures, and writes it and
[its data](data/peers.json). Made with {versions} in {seconds:.0f} seconds.

Processor seconds of one thread, a sample, and after the slash its rounds: batches of questions that wait for the batch
before. For Wilson's algorithm these are the steps of its walks, for a Cholesky sampler the items, for the spectral one
(DPPy's mode GS_bis) the items that are in; other tools do not tell. Each tool draws {fewest} to {most} samples, more
where they are cheap, because walks differ much in length. It draws the same ones {repeats} times, in turn with the
other tools, and the best mean counts; tools that take more than {enough:g} seconds a call draw fewer times. *{together}
at a time* is a batch of samples, its seconds divided by their number. *Own* are short versions in
`benchmarks/peers.py`: Wilson's walks in plain Python, Cholesky in numpy. Set-up is what all samples share; for DPPy's
point processes the first sample is in it. A dash was not run: a call on the size before took more than {enough:g}
seconds."""

_VERDICT = """\
**On one core the tools made for the purpose win.** The fastest of them beats the fastest row of drawahead by {trees} on
trees, and by {subsets} on point processes. Wilson's algorithm walks from node to node and never touches a matrix. The
Cholesky sampler makes one elimination a sample; drawahead makes one in every round, because it checks a guess of the
whole path each time. It saves rounds, not work, and on one core with a kernel in memory work is all there is."""

_WHY = """\
So take Wilson or DPPy for many plain samples of these two laws. drawahead is for what they do not have:

* **an oracle that makes you wait**, such as a network, a remote service or a slow counter: a few rounds instead of
  hundreds of steps that wait for each other;
* **many workers**: the questions of a round are independent, and can be answered side by side;
* **evidence**: items forced in or out are part of the question, here and for every other target, and the graph or the
  kernel stays as it is;
* **one interface**: the same call for trees, subsets, matchings, language models and diffusions."""


def section(bench: dict[str, Any], folder: Path) -> str:
    """The section, from the data that `peers.json` holds."""
    cells = bench["measurements"]
    times = {study: _times(cells, study, sizes) for study, sizes, _ in STUDIES}
    introduction = _INTRODUCTION.format(
        folder=folder,
        versions=", ".join(f"{name} {number}" for name, number in bench["versions"].items() if number),
        seconds=bench["seconds"],
        fewest=FEWEST,
        most=MOST,
        repeats=REPEATS,
        together=TOGETHER,
        enough=ENOUGH,
    )
    parts = [HEADING, *map(_filled, introduction.split("\n\n"))]
    for study, sizes, _ in STUDIES:
        parts += [f"### {study.capitalize()}", _rows(cells, study, sizes)]
    trees, subsets = (_between(times[study]) for study, _, _ in STUDIES)
    parts += [_filled(text) for text in (_VERDICT.format(trees=trees, subsets=subsets), _faster(cells)) if text]
    parts.append(_WHY)
    return "\n\n".join(parts) + "\n"


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def _label(study: str, size: int) -> str:
    return f"{size} x {size} grid" if study == "spanning trees" else f"{size} items"


def _rows(cells: list[dict[str, Any]], study: str, sizes: tuple[int, ...]) -> str:
    own = {(cell["tool"], cell["size"]): cell for cell in cells if cell["study"] == study}
    rows = []
    for tool in dict.fromkeys(tool for tool, _ in own):
        last = own[tool, max(size for name, size in own if name == tool)]
        shown = [_cell(own.get((tool, size))) for size in sizes]
        rows.append([tool, *shown, f"{_digits(last['setup_seconds'])} ({_label(study, last['size'])})"])
    return table(["seconds / rounds", *(_label(study, size) for size in sizes), "set-up, once"], rows)


def _cell(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "-"
    rounds = "" if cell["rounds"] is None else f" / {cell['rounds']:.0f}"
    return f"{_digits(cell['seconds'])}{rounds}"


def _digits(value: float) -> str:
    """Two digits, without an exponent."""
    return f"{value:.{max(0, 1 - math.floor(math.log10(value)))}f}" if value >= 5e-6 else "0"


def _times(cells: list[dict[str, Any]], study: str, sizes: tuple[int, ...]) -> list[float]:
    """For each size: the seconds of drawahead's fastest row over those of the fastest other tool."""
    ratios = []
    for size in sizes:
        own = [cell for cell in cells if (cell["study"], cell["size"]) == (study, size)]
        ahead = min(cell["seconds"] for cell in own if cell["tool"].startswith("drawahead"))
        ratios.append(ahead / min(cell["seconds"] for cell in own if not cell["tool"].startswith("drawahead")))
    return ratios


def _between(ratios: list[float]) -> str:
    low, high = (float(f"{value:.2g}") for value in (min(ratios), max(ratios)))
    return f"{low:g} to {high:g} times"


def _faster(cells: list[dict[str, Any]]) -> str:
    """Where drawahead is the faster one, if anywhere."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell["tool"].startswith("drawahead"):
            continue
        own = [c for c in cells if (c["study"], c["size"]) == (cell["study"], cell["size"])]
        if min(c["seconds"] for c in own if c["tool"].startswith("drawahead")) < cell["seconds"]:
            found.setdefault(cell["tool"], []).append(_label(cell["study"], cell["size"]))
    text = "; ".join(f"{tool} ({', '.join(where)})" for tool, where in found.items())
    return f"Slower than drawahead's fastest row: {text}." if text else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of counting.md")
    parser.add_argument("--page", action="store_true", help="write the section again from the data, measure nothing")
    arguments = parser.parse_args()
    data, page = arguments.out / "data" / "peers.json", arguments.out / "counting.md"
    if not arguments.page:
        data.write_text(json.dumps(run(), indent=1) + "\n")
    text = section(json.loads(data.read_text()), arguments.out)
    page.write_text(page.read_text().split(HEADING)[0].rstrip("\n") + "\n\n" + text)
    print(text)


if __name__ == "__main__":
    main()
