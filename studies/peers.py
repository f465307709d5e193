"""Seconds on one core, in the same run: drawahead beside tools that were made for one kind of target.

The section "Compared with other tools" of counting.md. Seconds are processor seconds of one thread. Every tool draws
the same seeds again and again, in turn with the others; the best time counts. What all samples share is set up before,
and timed apart. Needs networkx. DPPy's rows are left out unless it is on the path:

    pip install --no-deps --target dppy dppy    # needs numpy and scipy
    PYTHONPATH=dppy make bench STUDY=peers
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import networkx
import numpy
import torch

import drawahead as da
from drawahead.errors import InputError
from studies.study import Data, Stamp, Study, Watch, origin
from studies.tables import table

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


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All tools on all targets. DPPy's rows are there if it is installed."""
    if os.environ.get("OMP_NUM_THREADS") != "1":  # numpy reads it once, when it is imported
        raise InputError("one thread is compared with one: set OMP_NUM_THREADS=1, as `make bench` does")
    torch.set_num_threads(1)
    stamp = Stamp(arguments)
    cells: list[dict[str, Any]] = []
    total = sum(len(sizes) for _, sizes, _ in STUDIES)
    done = itertools.count(1)
    for study, sizes, make in STUDIES:
        slow: set[str] = set()
        for size in sizes:
            cells += measured(study, size, make(size), slow)
            watch(f"{study}, {size}", next(done), total)
    made = stamp.made()
    made["versions"] |= {package: version(package) for package in ("networkx", "dppy")}
    return made | {"measurements": cells}


def values(data: Data) -> dict[str, str | None]:
    """What the section says."""
    cells = data["measurements"]
    trees, subsets = (_between(_times(cells, study, sizes)) for study, sizes, _ in STUDIES)
    tables = {study.replace(" ", "_"): _rows(cells, study, sizes) for study, sizes, _ in STUDIES}
    return (
        origin(data, "peers")
        | tables
        | {
            "fewest": str(FEWEST),
            "most": str(MOST),
            "repeats": str(REPEATS),
            "together": str(TOGETHER),
            "enough": f"{ENOUGH:g}",
            "trees": trees,
            "subsets": subsets,
            "slower": _slower(cells),
        }
    )


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


def _slower(cells: list[dict[str, Any]]) -> str | None:
    """The tools that drawahead is faster than, and where."""
    found: dict[str, list[str]] = {}
    for cell in cells:
        if cell["tool"].startswith("drawahead"):
            continue
        own = [c for c in cells if (c["study"], c["size"]) == (cell["study"], cell["size"])]
        if min(c["seconds"] for c in own if c["tool"].startswith("drawahead")) < cell["seconds"]:
            found.setdefault(cell["tool"], []).append(_label(cell["study"], cell["size"]))
    return "; ".join(f"{tool} ({', '.join(where)})" for tool, where in found.items()) or None


STUDY = Study("peers", measure, values, {}, page="counting")
