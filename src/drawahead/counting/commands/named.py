"""Targets whose probabilities are counted: spanning trees, point processes and matchings of what a file holds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, final

from drawahead.chains import TokenChain
from drawahead.cli.building import built
from drawahead.cli.shipped import Subject, TargetOptions
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


@final
@dataclass(frozen=True)
class Counted:
    """A target that is made of a graph or a kernel."""

    summary: str
    options: tuple[str, ...]
    usual: str
    make: Callable[[str, TargetOptions], Subject]


def counted(name: str, asked: TargetOptions) -> Subject:
    """The target called `name`; `tree` with a graph is `spanning-tree`."""
    wanted = COUNTED["spanning-tree" if name == "tree" else name]
    asked.only(name, *wanted.options)
    source = wanted.options[0]
    given = getattr(asked, source) or wanted.usual
    spec, _, digest = given.partition(_DIGEST)
    is_file = (graphs if source == "graph" else kernels).is_file(spec)
    if is_file and Path(spec).is_file():
        found = _digest(Path(spec))
        if digest and digest != found:
            raise InputError(f"{spec} is not the file that the job was begun with: put that one back, or begin another")
        given = f"{spec}{_DIGEST}{found}"
    subject = wanted.make(spec, asked)
    return replace(subject, name=name, options={**asked.given, source: given})


def _digest(path: Path) -> str:
    """Of what a file holds: a job must not go on with another graph."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def fits(options: Mapping[str, object], length: int) -> bool:
    """Whether what a job of samples of this length names can be made again from its options alone: from no file, which
    would be one of this machine, and from nothing larger than its samples."""
    graph, kernel = options.get("graph"), options.get("kernel")
    if isinstance(graph, str):
        return not graphs.is_file(graph) and graphs.size(graph) <= length + 1  # a tree has an edge less than nodes
    return not isinstance(kernel, str) or (not kernels.is_file(kernel) and kernels.size(kernel) <= length)


def _tree(spec: str, asked: TargetOptions) -> Subject:
    graph = graphs.graph_of(spec)
    edges = graph.number_of_edges()
    needs = Needs(_COPIES * 8 * edges**2, edges)
    needs.check(f"--graph {spec}, with {edges:,} edges,")
    tree = _blamed(spec, lambda: built(f"trees of {spec}", lambda: SpanningTree(graph), needs.seconds()))
    chain = TokenChain(tree)
    return Subject("spanning-tree", chain, view_of(chain), 1, Coupled())


def _matching(spec: str, asked: TargetOptions) -> Subject:
    graph = graphs.graph_of(spec)
    if graph.is_multigraph():
        u, v = next((u, v) for u, v in graph.edges() if graph.number_of_edges(u, v) > 1)
        raise InputError(f"--graph {spec}: the edge {u} - {v} is there twice; add up its weights in one line")
    needs = of_matching(len(graph), two_colours=False)
    needs.check(f"--graph {spec}, with {len(graph):,} nodes,")
    matching = _blamed(spec, lambda: built(f"matchings of {spec}", lambda: PlanarMatching(graph), needs.seconds()))
    return Subject("matching", TokenChain(matching), matching.view(), 1, Separated())


def _process(spec: str, asked: TargetOptions) -> Subject:
    from drawahead.counting import Points

    kernel = kernels.kernel_of(spec)
    matrix, size = kernel.matrix, asked.items
    oracle: DPP | KDPP = _blamed(spec, lambda: DPP(L=matrix) if size is None else KDPP(matrix, size))
    view = Points(kernel.places) if kernel.places else Tokens(2)
    return Subject("dpp", TokenChain(oracle), view, sampler=Coupled())


def _blamed(spec: str, make: Callable[[], Made]) -> Made:
    """What `make` gives; if it refuses, the message names the graph or the kernel."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"{spec}: {error}") from None


COUNTED = {
    "spanning-tree": Counted("random spanning trees of a graph, also as tree --graph", ("graph",), "grid:16", _tree),
    "dpp": Counted("determinantal point processes, of any or a fixed size", ("kernel", "items"), "points:12", _process),
    "matching": Counted("weighted perfect matchings of a planar graph", ("graph",), "grid:8", _matching),
}
"""By name."""
