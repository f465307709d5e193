"""Tilings, spanning trees, point processes and matchings by name, for `drawahead sample`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from drawahead.chains.tokens import TokenChain
from drawahead.cli.building import apart, built
from drawahead.cli.subjects import Entry, Subject, TargetOptions
from drawahead.counting import Points, tilings
from drawahead.counting.commands import graphs, kernels
from drawahead.counting.determinantal.fixed_size import KDPP
from drawahead.counting.determinantal.kernels import DPP, SpanningTree
from drawahead.counting.matchings.planar import PlanarMatching
from drawahead.errors import InputError
from drawahead.oracles.needs import Needs, of_matching
from drawahead.samplers import Coupled, Separated
from drawahead.show.views import Tokens, view_of

Made = TypeVar("Made")
_DIGEST = "#sha256:"
_COPIES = 6  # of the kernel that are there at once
_TILINGS = {"dominoes": ("square", 16), "aztec": ("aztec", 12)}  # the shape of the region, and its default size


def entries() -> tuple[Entry, ...]:
    """Everything that is counted."""
    tree, process = "random spanning trees of a graph, also as tree --graph", "determinantal point processes, of any"
    return (
        Entry("dominoes", "tiling", "domino tilings of a size x size board", ("size",), _tiling, 16),
        Entry("aztec", "tiling", "domino tilings of the Aztec diamond", ("size",), _tiling, 12),
        Entry("spanning-tree", "counting", tree, ("graph",), _tree),
        Entry("dpp", "counting", f"{process} or a fixed size", ("kernel", "items"), _process),
        Entry("matching", "counting", "weighted perfect matchings of a planar graph", ("graph",), _matching),
    )


def _tiling(name: str, options: TargetOptions) -> Subject:
    shape, usual = _TILINGS[name]
    size = options.size or usual
    needs = tilings.needs(shape, size)
    what = f"{name} of size {size}"
    needs.check(what)
    matching = built(what, lambda: tilings.dominoes(shape, size), needs.seconds())
    return Subject(name, TokenChain(matching), matching.view(), 1, Separated(), options={"size": size})


def _source(option: str | None, usual: str, is_file: Callable[[str], bool]) -> tuple[str, str]:
    """The graph or kernel that an option names, and how a job records it: a file with a digest of what it holds, as a
    job must not go on with another graph."""
    recorded = option or usual
    spec, _, digest = recorded.partition(_DIGEST)
    if is_file(spec) and Path(spec).is_file():
        found = hashlib.sha256(Path(spec).read_bytes()).hexdigest()[:16]
        if digest and digest != found:
            raise InputError(f"{spec} is not the file that the job was begun with: put that one back, or begin another")
        recorded = f"{spec}{_DIGEST}{found}"
    return spec, recorded


def fits(options: Mapping[str, object], length: int) -> bool:
    """Whether the target of a job with samples of this length can be made again from the job's options alone: from no
    file, which would be one of this machine, and from nothing larger than its samples."""
    graph, kernel = options.get("graph"), options.get("kernel")
    if isinstance(graph, str):
        return not graphs.is_file(graph) and graphs.size(graph) <= length + 1  # a tree has an edge less than nodes
    return not isinstance(kernel, str) or (not kernels.is_file(kernel) and kernels.size(kernel) <= length)


def _tree(name: str, options: TargetOptions) -> Subject:
    spec, recorded = _source(options.graph, "grid:16", graphs.is_file)
    graph = graphs.graph_of(spec)
    edges = graph.number_of_edges()
    needs = Needs(_COPIES * 8 * edges**2, edges)
    needs.check(f"--graph {spec}, with {edges:,} edges,")
    chain = TokenChain(_made(spec, f"trees of {spec}", lambda: SpanningTree(graph), needs))
    return Subject(name, chain, view_of(chain), 1, Coupled(), options={"graph": recorded})


def _matching(name: str, options: TargetOptions) -> Subject:
    spec, recorded = _source(options.graph, "grid:8", graphs.is_file)
    graph = graphs.graph_of(spec)
    if graph.is_multigraph():
        u, v = next((u, v) for u, v in graph.edges() if graph.number_of_edges(u, v) > 1)
        raise InputError(f"--graph {spec}: the edge {u} - {v} is there twice; add up its weights in one line")
    needs = of_matching(len(graph), two_colours=False)
    needs.check(f"--graph {spec}, with {len(graph):,} nodes,")
    matching = _made(spec, f"matchings of {spec}", lambda: PlanarMatching(graph), needs)
    return Subject(name, TokenChain(matching), matching.view(), 1, Separated(), options={"graph": recorded})


def _process(name: str, options: TargetOptions) -> Subject:
    spec, recorded = _source(options.kernel, "points:12", kernels.is_file)
    kernel, items = apart(lambda: kernels.kernel_of(spec)), options.items
    needs = Needs(_COPIES * 8 * kernel.matrix.numel(), len(kernel.matrix))
    needs.check(f"--kernel {spec}, with {len(kernel.matrix):,} items,")

    def make() -> DPP | KDPP:
        return DPP(L=kernel.matrix) if items is None else KDPP(kernel.matrix, items)

    chain = TokenChain(_made(spec, f"subsets of {spec}", make, needs))
    view = Points(kernel.places) if kernel.places else Tokens(2)
    return Subject(name, chain, view, sampler=Coupled(), options={**options.given, "kernel": recorded})


def _made(spec: str, what: str, make: Callable[[], Made], needs: Needs) -> Made:
    """The product of `make`, in a thread that Ctrl-C need not wait for; an error names the graph or the kernel."""
    try:
        return built(what, make, needs.seconds())
    except InputError as error:
        raise InputError(f"{spec}: {error}") from None
