"""Planar matchings: counts, laws, separators, and what separated sampling costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import HIDDEN, Block, CountingOracle, Coupled, Recursive, Sequential, TokenChain, tilings
from drawahead.counting.matchings import planar as matchings
from drawahead.counting.matchings.components import Component, SeparatorPart
from drawahead.counting.matchings.separators import Node, planar_cut
from drawahead.errors import InputError
from drawahead.samplers import Sampler
from drawahead.samplers.separated import Piece, Separated, Settled
from drawahead.targets import PlanarMatching
from drawahead.verification.statistics import chi_square
from tests.exactness import LEVEL, combined
from tests.mutants import SameNoiseTwice

Check = Callable[[float], None]


def delaunay(n: int, seed: int) -> nx.Graph:
    """A random triangulation with random weights."""
    spatial = pytest.importorskip("scipy.spatial")
    generator = np.random.default_rng(seed)
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    for a, b, c in spatial.Delaunay(generator.random((n, 2))).simplices.tolist():
        graph.add_edges_from([(a, b), (b, c), (a, c)])
    for u, v in graph.edges:
        graph[u][v]["weight"] = float(generator.uniform(0.2, 2.0))
    return graph


def prism() -> nx.Graph:
    """Two triangles beside each other, and a tail on each: small, weighted, with odd cycles and bridges."""
    graph = nx.Graph()
    weights = {(0, 1): 1.0, (1, 2): 2.0, (0, 2): 0.5, (3, 4): 1.5, (4, 5): 0.7, (3, 5): 1.0, (0, 3): 0.4, (1, 4): 1.2}
    weights |= {(2, 5): 0.9, (2, 6): 0.8, (6, 7): 1.0, (5, 7): 1.1, (5, 8): 0.6, (8, 9): 1.0, (7, 9): 0.3, (6, 9): 0.5}
    graph.add_weighted_edges_from((u, v, w) for (u, v), w in weights.items())
    return graph


def enumerated(graph: nx.Graph) -> dict[frozenset[tuple[Any, Any]], float]:
    """Every perfect matching and its weight, by trying all."""

    def rest(left: list[Any]) -> Iterator[tuple[frozenset[tuple[Any, Any]], float]]:
        if not left:
            yield frozenset(), 1.0
            return
        v = left[0]
        for w in left[1:]:
            if graph.has_edge(v, w):
                for others, weight in rest([u for u in left[1:] if u != w]):
                    yield others | {(v, w)}, weight * graph[v][w].get("weight", 1.0)

    return dict(rest(list(graph)))


def law_p_value(target: Any, graph: nx.Graph, sampler: Sampler, draws: int, seed: int = 0) -> float:
    """Chi-square of whole matchings against their enumerated law."""
    law = enumerated(graph)
    oracle = target.oracle if isinstance(target, TokenChain) else target
    drawn = da.sample(target, draws, sampler=sampler, seed=seed, max_live=draws)
    index = {matching: i for i, matching in enumerate(law)}
    counts = torch.zeros(len(law) + 1)
    for matching in oracle.matchings(drawn.samples):
        counts[index.get(frozenset(matching), len(law))] += 1
    probabilities = torch.tensor([*law.values(), 0.0], dtype=torch.float64)
    return chi_square(counts, probabilities / probabilities.sum())


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even small graphs, several levels deep."""
    monkeypatch.setattr(matchings, "LEAF", 3)
    monkeypatch.setattr(matchings, "CUTS", 1)


# Counts


@pytest.mark.parametrize(("side", "count"), [(2, 2), (4, 36), (6, 6728), (8, 12988816)])
def test_domino_tilings_are_counted(side: int, count: int) -> None:
    assert PlanarMatching(tilings.domino_grid(side, side)).partition_function() == pytest.approx(count, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 5, 24])
def test_aztec_diamonds_are_counted(order: int) -> None:
    target = tilings.dominoes("aztec", order)
    assert target.length == 2 * order * (order + 1)
    assert target.log_partition_function() / math.log(2) == pytest.approx(order * (order + 1) / 2, rel=1e-9)


GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "edge": lambda: nx.path_graph(2),
    "path": lambda: nx.path_graph(6),
    "K4": lambda: nx.complete_graph(4),
    "wheel": lambda: nx.wheel_graph(8),
    "prism": prism,
    "dodecahedron": nx.dodecahedral_graph,
    "icosahedron": nx.icosahedral_graph,
    "two components": lambda: nx.disjoint_union(nx.complete_graph(4), nx.cycle_graph(6)),
    "triangles on a bridge": lambda: nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)]),
    "a hole": lambda: nx.Graph(nx.grid_2d_graph(4, 5).subgraph(set(nx.grid_2d_graph(4, 5)) - {(1, 1), (1, 2)})),
    "triangulation": lambda: delaunay(12, 1),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_counts_and_marginals_are_those_of_the_enumeration(name: str) -> None:
    graph = GRAPHS[name]()
    target, law = PlanarMatching(graph), enumerated(graph)
    total = sum(law.values())
    assert target.partition_function() == pytest.approx(total, rel=1e-9)
    for (u, v), p in target.edge_probabilities().items():
        exact = sum(w for matching, w in law.items() if (u, v) in matching or (v, u) in matching) / total
        assert p == pytest.approx(exact, abs=1e-10)


def test_random_planar_graphs_are_counted_or_refused() -> None:
    seen = [0, 0]
    for seed in range(120):
        graph = nx.gnm_random_graph(8, 8 + seed % 6, seed=seed)
        if not nx.check_planarity(graph)[0]:
            continue
        count = len(enumerated(graph))
        seen[count > 0] += 1
        if count:
            assert PlanarMatching(graph).partition_function() == pytest.approx(count, rel=1e-9)
        else:
            with pytest.raises(InputError, match="no perfect matching"):
                PlanarMatching(graph)
    assert min(seen) > 10


@pytest.mark.parametrize(
    ("words", "make"),
    [
        ("odd number of vertices, 9", lambda: tilings.domino_grid(3, 3)),
        ("at most 2 of its 4 vertices", lambda: nx.star_graph(3)),
        ("vertex 'b' has no edge", lambda: _with_loner()),
        ("must be planar", lambda: nx.complete_graph(6)),
        ("must have vertices", nx.Graph),
        ("edge to itself", lambda: nx.Graph([(0, 1), (1, 1)])),
        ("undirected", lambda: nx.DiGraph([(0, 1)])),
        ("parallel edges", lambda: nx.MultiGraph([(0, 1)])),
        ("weight of edge 0 - 1", lambda: nx.Graph([(0, 1, {"weight": -1.0})])),
        ("weight of edge 0 - 1", lambda: nx.Graph([(0, 1, {"weight": math.nan})])),
    ],
)
def test_bad_graphs_are_refused(words: str, make: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match=words):
        PlanarMatching(make())


def _with_loner() -> nx.Graph:
    graph = nx.Graph([("a", "c")])
    graph.add_node("b")
    return graph


# The oracle


@pytest.mark.parametrize("name", ["prism", "a hole", "triangulation"])
def test_a_path_is_answered_as_its_prefixes_are(name: str) -> None:
    target = PlanarMatching(GRAPHS[name]())
    tokens = da.sample(target, 6, sampler=Sequential(), seed=1).samples
    n = target.length
    rank = torch.rand(6, n, generator=torch.Generator().manual_seed(0)).argsort(1)
    rank[::2] = (rank[::2] - 2).clamp(min=-1)
    row = torch.arange(6).repeat_interleave(n - 2)
    prefix = torch.arange(n - 2).repeat(6)
    position = torch.stack([(rank[r] == p).nonzero()[0, 0] for r, p in zip(row, prefix, strict=True)])
    one = target.chain_rows(tokens, rank, row, prefix, position).exp()
    other = da.TokenOracle.chain_rows(target, tokens, rank, row, prefix, position).exp()
    assert torch.allclose(one, other, atol=1e-10)


def test_impossible_sequences_get_laws_too() -> None:
    target = PlanarMatching(tilings.domino_grid(4, 4))
    tokens = torch.randint(-1, 4, (200, 16), generator=torch.Generator().manual_seed(0))
    rows = target.rows(tokens)
    assert not rows.isnan().any() and torch.allclose(rows.exp().sum(2), torch.ones(1, dtype=torch.float64))
    shown = torch.full((4, 16), HIDDEN)
    shown[1:, 0] = target.neighbours[0].index(1)
    shown[2, 1] = target.neighbours[1].index(0)
    shown[3, 1] = target.neighbours[1].index(2)
    assert target.possible(shown).tolist() == [True, True, True, False]
    with pytest.raises(InputError, match="probability zero"):
        TokenChain(target, evidence=shown[3])


def test_a_law_that_went_wrong_is_worked_out_afresh() -> None:
    target = PlanarMatching(prism())
    tokens = da.sample(target, 1, sampler=Sequential(), seed=0).samples
    arguments = (tokens, torch.arange(10)[None], torch.zeros(10, dtype=torch.int64), torch.arange(10), torch.arange(10))
    right = target.chain_rows(*arguments)
    inverse = target._partners.inverse
    target._partners.inverse = inverse + 1e-4 * np.sign(inverse)
    assert torch.allclose(target.chain_rows(*arguments).exp(), right.exp(), atol=1e-10)


# Laws


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "sampler",
    [Coupled(), Block(), Separated(), Separated(Block()), Separated(Sequential(), spread=False)],
    ids=["coupled", "block", "separated", "separated block", "separated sequential"],
)
def test_tilings_have_their_law(sampler: Sampler, check: Check) -> None:
    board = tilings.domino_grid(4, 4)
    check(law_p_value(PlanarMatching(board), board, sampler, 10_000))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("sampler", [Coupled(), Separated(), Separated(Block(), spread=False)], ids=repr)
def test_weighted_matchings_have_their_law(sampler: Sampler, check: Check) -> None:
    check(law_p_value(PlanarMatching(prism()), prism(), sampler, 10_000))


@pytest.mark.usefixtures("small_pieces")
def test_the_recursion_draws_separators_too(check: Check) -> None:
    check(law_p_value(PlanarMatching(prism()), prism(), Separated(Recursive()), 500))


@pytest.mark.usefixtures("small_pieces")
def test_evidence_is_kept(check: Check) -> None:
    board = tilings.domino_grid(4, 4)
    target = PlanarMatching(board)
    evidence = torch.full((16,), HIDDEN)
    evidence[5] = target.neighbours[5].index(6)
    chain = TokenChain(target, evidence=evidence)
    left = nx.Graph(board.subgraph(set(board) - {(1, 1), (1, 2)}))
    drawn = da.sample(chain, 5_000, sampler=Separated(), seed=0, max_live=5_000)
    assert all(((1, 1), (1, 2)) in matching for matching in target.matchings(drawn.samples))
    law = list(enumerated(left))
    counts = torch.zeros(len(law))
    for matching in target.matchings(drawn.samples):
        counts[law.index(frozenset(matching) - {((1, 1), (1, 2))})] += 1
    check(chi_square(counts, torch.full((len(law),), 1 / len(law), dtype=torch.float64)))


@pytest.mark.parametrize(("name", "draws"), [("board", 300), ("triangulation", 300)])
def test_edges_of_larger_graphs_have_their_probabilities(
    name: str, draws: int, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matchings, "LEAF", 24)
    monkeypatch.setattr(matchings, "CUTS", 2)
    target = PlanarMatching(tilings.domino_grid(12, 12) if name == "board" else delaunay(80, 0))
    samples = da.sample(target, draws, sampler=Separated(), seed=0).samples
    laws = target.rows(torch.full((1, target.length), HIDDEN))[0].exp()
    p_values = [
        chi_square(torch.bincount(samples[:, v], minlength=target.vocab_size), laws[v]) for v in range(target.length)
    ]
    check(combined(p_values))


# Mutants


class StaleInverse(Component):  # type: ignore[misc]
    """Goes on in the components as if the separator had not been drawn."""

    def _shrunk(self, rows: Any, partner: Any, live: Any, parts: Any) -> list[Component]:
        found = []
        for part in parts:
            i = np.searchsorted(self.part.lines, part.lines)
            j = np.searchsorted(self.part.columns, part.columns)
            left = live[:, np.searchsorted(self.part.vertices, part.vertices)]
            found.append(StaleInverse(part, self.inverse[rows][:, i][:, :, j], left))
        return found


@pytest.mark.usefixtures("small_pieces")
def test_a_stale_inverse_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchings, "Component", StaleInverse)
    monkeypatch.setattr("drawahead.counting.matchings.partners.WRONG", 10.0)
    board = tilings.domino_grid(4, 4)
    try:
        p_value = law_p_value(PlanarMatching(board), board, Separated(Sequential()), 2_000)
    except da.SamplingError:
        return  # what it draws is not even a matching
    assert p_value < LEVEL


@pytest.mark.usefixtures("small_pieces")
def test_pieces_with_the_same_noise_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = nx.ladder_graph(8)
    target = PlanarMatching(ladder)
    assert law_p_value(target, ladder, Separated(), 4_000) >= LEVEL
    monkeypatch.setattr(Component, "number", property(lambda self: 0))
    assert law_p_value(target, ladder, Separated(), 4_000) < LEVEL


@pytest.mark.usefixtures("small_pieces")
def test_an_inner_sampler_that_is_wrong_is_rejected() -> None:
    assert law_p_value(PlanarMatching(prism()), prism(), Separated(SameNoiseTwice()), 10_000) < LEVEL


def test_forgotten_weights_are_rejected() -> None:
    unweighted = nx.Graph(list(prism().edges))
    assert law_p_value(PlanarMatching(unweighted), prism(), Separated(), 2_000) < LEVEL


def test_a_wrong_orientation_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from drawahead.counting.matchings import kasteleyn as _kasteleyn

    right = _kasteleyn.orientation
    monkeypatch.setattr(_kasteleyn, "orientation", lambda graph: {(u, v): 2 * (u < v) - 1 for u, v in right(graph)})
    try:
        count = PlanarMatching(tilings.domino_grid(4, 4)).partition_function()
    except InputError:
        return
    assert count != pytest.approx(36)


# What it costs


class Counted:
    """A piece whose oracle counts."""

    def __init__(self, piece: Piece, seen: list[CountingOracle]) -> None:
        self.piece, self.seen = piece, seen
        self.number, self.evidence, self.level = piece.number, piece.evidence, piece.level
        self.oracle = CountingOracle(piece.oracle)
        seen.append(self.oracle)

    def settle(self, rows: Tensor, tokens: Tensor) -> Settled:
        settled = self.piece.settle(rows, tokens)
        return settled._replace(pieces=[Counted(piece, self.seen) for piece in settled.pieces])


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("inner", [Sequential(), Coupled(), Block(), Block(pipelined=False)], ids=repr)
def test_the_report_counts_what_the_pieces_saw(inner: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    target, seen = PlanarMatching(tilings.domino_grid(6, 6)), []
    pieces = target.pieces

    def counted(tokens: Tensor) -> Settled:
        settled = pieces(tokens)
        return settled._replace(pieces=[Counted(piece, seen) for piece in settled.pieces])

    monkeypatch.setattr(target, "pieces", counted)
    report = da.sample(target, 5, sampler=Separated(inner), seed=0).report
    assert report.queries == sum(oracle.queries for oracle in seen) == sum(report.widths)
    assert report.passes == sum(oracle.passes for oracle in seen)
    assert sum(report.committed) == 5 * 36 and report.steps == 36 and report.num_samples == 5
    assert max(report.sample_rounds) == report.rounds and report.progress[0][-1] == 36
    assert report.accepted <= report.drafted


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("sampler", [Separated(), Separated(Block()), Separated(Recursive())], ids=repr)
def test_a_sample_does_not_depend_on_its_batch(sampler: Sampler) -> None:
    target = PlanarMatching(tilings.domino_grid(6, 6))
    together = da.sample(target, 6, sampler=sampler, seed=3)
    few = da.sample(target, 6, sampler=sampler, seed=3, max_live=2, max_batch_size=1)
    assert torch.equal(together.samples, few.samples)
    assert together.report.sample_rounds == few.report.sample_rounds
    assert torch.equal(da.sample(target, 3, sampler=sampler, seed=3).samples, together.samples[:3])


@pytest.mark.usefixtures("small_pieces")
def test_coupled_separators_give_the_sequential_sample() -> None:
    target = PlanarMatching(delaunay(40, 2))
    one, other = (da.sample(target, 8, sampler=Separated(inner), seed=0) for inner in (Sequential(), Coupled()))
    assert torch.equal(one.samples, other.samples)
    assert other.report.rounds < one.report.rounds < 40


def test_fewer_rounds_than_half_the_steps() -> None:
    target = PlanarMatching(tilings.domino_grid(24, 24))
    report = da.sample(target, 2, sampler=Separated(), seed=0).report
    assert report.mean_rounds < 24


def test_what_separated_refuses() -> None:
    target = PlanarMatching(nx.path_graph(4))
    with pytest.raises(da.SamplingError, match="falls into pieces"):
        da.sample(da.targets.Pairs(4), sampler=Separated())
    with pytest.raises(da.SamplingError, match="chooses the order"):
        da.sample(TokenChain(target, order=[0, 1, 2, 3]), sampler=Separated())
    for inner in (da.Picard(), Separated()):
        with pytest.raises(InputError, match="inner"):
            Separated(inner)


# Separators


PLANAR: dict[str, Callable[[], nx.Graph]] = {
    "triangulation 200": lambda: delaunay(200, 0),
    "triangulation 1000": lambda: delaunay(1000, 1),
    "tree": lambda: nx.random_labeled_tree(300, seed=1),
    "ladder": lambda: nx.ladder_graph(200),
    "star": lambda: nx.star_graph(200),
    "wheel": lambda: nx.wheel_graph(300),
    "long tube": lambda: nx.convert_node_labels_to_integers(nx.cartesian_product(nx.cycle_graph(6), nx.path_graph(80))),
    "grid": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(24, 24)),
    "triangular lattice": lambda: nx.convert_node_labels_to_integers(nx.triangular_lattice_graph(20, 40)),
    "nested": lambda: nx.convert_node_labels_to_integers(nx.cartesian_product(nx.cycle_graph(40), nx.path_graph(10))),
}


@pytest.mark.parametrize("name", PLANAR)
def test_separators_are_small_and_balanced(name: str) -> None:
    graph = PLANAR[name]()
    n, separator = len(graph), planar_cut(graph)
    left = [len(part) for part in nx.connected_components(graph.subgraph(set(graph) - separator))]
    assert len(separator) <= math.sqrt(8 * n) and 3 * max(left) <= 2 * n


@pytest.mark.parametrize("name", ["board", "diamond", "triangulation"])
def test_the_tree_of_pieces_separates(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matchings, "LEAF", 20)
    graph = {"board": lambda: tilings.domino_grid(16, 16), "diamond": lambda: tilings.aztec_diamond(10)}.get(
        name, lambda: delaunay(200, 4)
    )()
    target = PlanarMatching(graph)
    numbers = []

    def check_node(node: Node) -> None:
        numbers.append(node.number)
        parts = [set(child.vertices) for child in node.children]
        assert sum(map(len, parts)) == len(set().union(*parts)) if parts else True
        for part in parts:
            beyond = {w for v in part for w in target.neighbours[v]} & set(node.vertices)
            assert beyond <= part | set(node.separator) and not part & set(node.separator)
        if not parts:
            edges = target.graph.subgraph(set(node.vertices) - set(node.separator)).edges
            assert not edges
        for child in node.children:
            check_node(child)

    check_node(target.separators)
    assert len(set(numbers)) == len(numbers) > 4
    assert SeparatorPart(target.matrix, target.separators).separator.tolist() == list(target.separators.separator)


# Pictures


@pytest.mark.parametrize("shape", tilings.SHAPES)
def test_tilings_are_drawn(shape: str, tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    target = tilings.dominoes(shape, 6)
    da.counting.Tilings(target).draw(da.sample(target, sampler=Separated(), seed=0).samples, tmp_path / "tiling.png")
    assert (tmp_path / "tiling.png").stat().st_size > 1000
    with pytest.raises(InputError, match="only matchings of squares"):
        da.counting.Tilings(PlanarMatching(nx.path_graph(2)))
    with pytest.raises(InputError, match="the shapes are square, aztec"):
        tilings.region("hexagon", 3)
