"""Determinantal laws against enumeration, known marginals and Wilson's algorithm; broken eliminations are rejected."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable

import networkx as nx
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, Recursive, Sequential, Stepwise
from drawahead.counting.determinantal import elimination as _elimination
from drawahead.counting.determinantal.kernels import Determinantal
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.samplers import Sampler
from drawahead.targets import DPP, SpanningTree, draw_directly
from drawahead.verification.statistics import chi_square, two_sample
from tests.exactness import LEVEL, combined, joint_law, law_p_value, outcomes

Check = Callable[[float], None]
FLOAT = torch.float64
DRAWS = 5_000  # on 192 subsets a total variation of 0.095 shows, and so does every mutant below


def multigraph() -> nx.MultiGraph:
    """A triangle with a tail and a loop; one side is double, the other weights are uneven."""
    graph = nx.MultiGraph()
    graph.add_edge("a", "b", key="short", weight=3.0)
    graph.add_edge("a", "b", key="long", weight=0.5)
    graph.add_edge("b", "c", weight=2.0)
    graph.add_edge("c", "a")
    graph.add_edge("c", "d", weight=0.1)
    graph.add_edge("d", "b", weight=4.0)
    graph.add_edge("d", "e", weight=7.0)  # a bridge
    graph.add_edge("b", "b", weight=9.0)
    return graph


GRAPHS: dict[str, Callable[[], nx.Graph]] = {
    "K5": lambda: nx.complete_graph(5),
    "grid": lambda: nx.grid_2d_graph(3, 3),
    "multigraph": multigraph,
}


@functools.cache
def target(name: str) -> Determinantal:
    return DPP.random(10) if name == "dpp" else SpanningTree(GRAPHS[name]())


@functools.cache
def enumerated(name: str) -> Tensor:
    """The law (2^n,), written down without the kernel K."""
    if name == "dpp":
        vectors = torch.randn(10, 3, dtype=FLOAT, generator=torch.Generator().manual_seed(0)) / math.sqrt(3)
        gram = vectors @ vectors.T
        weight = torch.stack([gram[x.bool()][:, x.bool()].det() for x in outcomes(10, 2)])
        weight[outcomes(10, 2).sum(1) > 3] = 0  # four vectors in three dimensions
        return weight / weight.sum()
    graph = GRAPHS[name]()
    edges = [(*edge[:2], edge[-1].get("weight", 1.0)) for edge in graph.edges(data=True) if edge[0] != edge[1]]
    law = torch.zeros(2 ** len(edges), dtype=FLOAT)
    for chosen in itertools.combinations(range(len(edges)), len(graph) - 1):
        tree = nx.MultiGraph([edges[i][:2] for i in chosen])
        if len(tree) == len(graph) and nx.is_tree(tree):
            law[sum(2 ** (len(edges) - 1 - i) for i in chosen)] = math.prod(edges[i][2] for i in chosen)
    return law / law.sum()


NAMES = [*GRAPHS, "dpp"]


@pytest.mark.parametrize("name", NAMES)
def test_the_chain_rule_gives_the_enumerated_law(name: str) -> None:
    oracle, law = target(name), enumerated(name)
    order = torch.randperm(oracle.length, generator=torch.Generator().manual_seed(0))
    for along in (None, order):
        assert torch.allclose(joint_law(oracle, along), law, atol=1e-12, rtol=0)
    atoms = outcomes(oracle.length, 2)
    assert torch.allclose(oracle.log_prob(atoms).exp(), law, atol=1e-12, rtol=0)
    assert torch.equal(oracle.possible(atoms), law > 0)
    assert torch.allclose(oracle.marginals, law @ atoms.double(), atol=1e-12)


@pytest.mark.parametrize(("name", "number"), [("K5", 125), ("grid", 192)])
def test_the_number_of_trees(name: str, number: int) -> None:
    oracle = target(name)
    assert isinstance(oracle, SpanningTree) and int((enumerated(name) > 0).sum()) == number
    assert math.exp(oracle.log_total) == pytest.approx(number)
    laplacian = torch.tensor(nx.laplacian_matrix(multigraph()).toarray(), dtype=FLOAT)[1:, 1:]
    assert SpanningTree(multigraph()).log_total == pytest.approx(float(laplacian.logdet()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sampler", [Sequential(), Stepwise(), Block(), Coupled()], ids=repr)
def test_the_law(sampler: Sampler, name: str, check: Check) -> None:
    """Its conditionals are those of the enumeration, as tested above: this is about who asks for them."""
    check(law_p_value(target(name), enumerated(name), sampler, DRAWS))


@pytest.mark.parametrize(("name", "draws"), [("K5", 1000), ("multigraph", 500), ("dpp", 500)])
def test_the_law_of_the_recursion(name: str, draws: int, check: Check) -> None:
    check(law_p_value(target(name), enumerated(name), Recursive(), draws))


class Mutant(Determinantal):
    """Gets wrong what each revealed item takes from the chances of the others."""

    def _taken(self, column: Tensor, sign: Tensor) -> Tensor:
        return self.broken(super()._taken(column, sign))

    def broken(self, taken: Tensor) -> Tensor:
        return taken


class Stale(Mutant):
    """Answers from the kernel as it was before anything was revealed."""

    def broken(self, taken: Tensor) -> Tensor:
        return torch.zeros_like(taken)


class WrongSign(Mutant):
    """An item that is out lowers the chances of the others, too."""

    def broken(self, taken: Tensor) -> Tensor:
        return taken.abs()


class OneStepLate(Mutant):
    """What is revealed shows one step later."""

    def broken(self, taken: Tensor) -> Tensor:
        late = taken.roll(1, 1)
        late[:, :1] = 0
        return late


class Forgetful(Mutant):
    """Items that are out are not heard of."""

    def broken(self, taken: Tensor) -> Tensor:
        return taken.clamp(min=0)


@pytest.mark.parametrize("name", ["K5", "dpp"])
@pytest.mark.parametrize("mutant", [Stale, WrongSign, OneStepLate, Forgetful])
def test_mutants_are_rejected(mutant: type[Mutant], name: str) -> None:
    broken = mutant(target(name).kernel)
    assert law_p_value(broken, enumerated(name), Block(), DRAWS) < LEVEL


class Unforgiving(Determinantal):
    """What was guessed and not kept stays revealed."""

    def _reveal(self, kept: dict[str, Tensor], low: int, high: int) -> None:
        before = kept.setdefault("before", torch.zeros(len(kept["first"]), 1))
        super()._reveal(kept, max(low, int(before.max())), high)
        before.fill_(max(high, int(before.max())))


def test_a_memory_that_keeps_wrong_guesses_is_rejected() -> None:
    broken = Unforgiving(target("K5").kernel)
    assert law_p_value(broken, enumerated("K5"), Coupled(2), DRAWS) < LEVEL


@pytest.mark.parametrize("panel", [2, 5, 32])
def test_panels_of_any_width_give_the_chances_of_one_step_at_a_time(
    panel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Possible subsets, and guesses that hold items against all odds."""
    monkeypatch.setattr(_elimination, "_PANEL", panel)
    kernel, (r, n) = DPP.random(17, rank=9, seed=1).kernel, (40, 17)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, (r, n), generator=generator)
    order = torch.stack([torch.randperm(n, generator=generator) for _ in range(r)])
    found = Determinantal(kernel)._chances(tokens, order, n)
    for i in range(r):
        now, least = kernel.clone(), 1.0
        for j, item in enumerate(order[i].tolist()):
            rest = order[i, j:]
            torch.testing.assert_close(found[i, j, j:], now.diagonal()[rest].clamp(0, 1), rtol=0, atol=1e-7)
            inside = bool(tokens[i, item])
            chance = float(now[item, item] if inside else 1 - now[item, item])
            if chance * least >= _elimination.CERTAIN:
                scale = float(now[item, item]) if inside else float(now[item, item]) - 1
                now = now - now[:, item, None] * now[item] / scale
                least = min(least, chance)


def test_trees_without_their_weights_are_rejected() -> None:
    graph = multigraph()
    for *_, data in graph.edges(data=True):
        data.clear()
    assert law_p_value(SpanningTree(graph), enumerated("multigraph"), Block(), DRAWS) < LEVEL


def weighted_grid(side: int) -> nx.Graph:
    graph = nx.grid_2d_graph(side, side)
    for i, (*_, data) in enumerate(graph.edges(data=True)):
        data["weight"] = 1.0 + (7 * i % 5)
    return graph


@pytest.mark.parametrize("sampler", [Block(), pytest.param(Coupled(), marks=pytest.mark.slow)], ids=repr)
def test_pairs_of_edges_on_a_larger_graph(sampler: Sampler, check: Check) -> None:
    """P(e and f) = K_ee K_ff - K_ef^2, with K from the pseudo-inverse of the Laplacian."""
    graph = weighted_grid(6)
    tree = SpanningTree(graph)
    n, number = tree.length, {node: i for i, node in enumerate(graph)}
    inverse = torch.tensor(nx.laplacian_matrix(graph).toarray(), dtype=FLOAT).pinverse()
    step = torch.zeros(n, len(graph), dtype=FLOAT)
    for i, (u, v) in enumerate(graph.edges):
        step[i, number[u]], step[i, number[v]] = -1, 1
    root = torch.tensor([graph.edges[edge]["weight"] for edge in graph.edges], dtype=FLOAT).sqrt()
    current = root[:, None] * (step @ inverse @ step.T) * root
    samples = da.sample(tree, 4_000, sampler=sampler, seed=0, max_live=4000).samples
    assert bool((samples.sum(1) == len(graph) - 1).all())
    p_values = []
    for e, f in itertools.chain(itertools.pairwise(range(n)), [(e, (e + 11) % n) for e in range(n)]):
        both = float(current[e, e] * current[f, f] - current[e, f] ** 2)
        one, other = float(current[e, e]) - both, float(current[f, f]) - both
        law = torch.tensor([1 - both - one - other, other, one, both], dtype=FLOAT).clamp(min=0)
        p_values.append(chi_square(torch.bincount(2 * samples[:, e] + samples[:, f], minlength=4), law))
    check(combined(p_values))


def test_trees_agree_with_wilsons_algorithm(check: Check) -> None:
    """As `draw_directly` has it, which test_direct.py holds to the enumerated law."""
    tree = SpanningTree(weighted_grid(5))
    drawn = da.sample(tree, 2_000, sampler=Block(), seed=0, max_live=2000).samples
    check(two_sample(drawn, draw_directly(tree, 2_000, seed=1)))


@pytest.mark.parametrize("side", [3, 9])
def test_every_sample_is_a_tree(side: int) -> None:
    tree = SpanningTree.grid(side, side)
    result = da.sample(tree, 10, sampler=Coupled(), seed=0)
    for graph, items in zip(tree.trees(result.samples), tree.items(result.samples), strict=True):
        assert nx.is_tree(graph) and len(graph) == side**2
        assert {frozenset(edge) for edge in graph.edges} == {frozenset(tree.edges[i]) for i in items.tolist()}
    assert torch.equal(result.samples, da.sample(tree, 10, sampler=Sequential(), seed=0).samples)
    assert result.report.mean_rounds < tree.length / 3


def test_trees_of_multigraphs_keep_keys_and_attributes() -> None:
    graph = multigraph()
    tree = SpanningTree(graph)
    assert len(tree.edges) == 7 and ("b", "b", 0) not in tree.edges
    drawn = tree.trees(da.sample(tree, 40, seed=0).samples)
    assert all(isinstance(one, nx.MultiGraph) and nx.is_tree(one) for one in drawn)
    assert all(graph.edges[edge] == one.edges[edge] for one in drawn for edge in one.edges)
    assert {"short", "long"} == {key for one in drawn for *_, key in one.edges if isinstance(key, str)}
    graph.remove_node("e")  # the target has its own copy
    assert all(set(one) == set("abcde") for one in tree.trees(da.sample(tree, 3, seed=1).samples))


def test_impossible_evidence_is_refused() -> None:
    tree = SpanningTree(multigraph())
    number = {edge: i for i, edge in enumerate(tree.edges)}
    cycle, cut, fine = (torch.full((7,), HIDDEN) for _ in range(3))
    cycle[[number["a", "b", "short"], number["a", "b", "long"]]] = 1
    cut[number["d", "e", 0]] = 0
    fine[[number["a", "b", "short"], number["d", "e", 0]]] = 1
    assert tree.possible(torch.stack([cycle, cut, fine])).tolist() == [False, False, True]
    for evidence in (cycle, cut):
        with pytest.raises(InputError, match="probability zero"):
            da.TokenChain(tree, evidence=evidence)
    samples = da.sample(da.TokenChain(tree, evidence=fine), 50, seed=0).samples
    assert all(nx.is_tree(one) for one in tree.trees(samples)) and bool((samples[:, fine == 1] == 1).all())
    big = SpanningTree.grid(12, 12)
    around = torch.tensor([int(all(node in ((0, 0), (0, 1), (1, 0), (1, 1)) for node in edge)) for edge in big.edges])
    assert int(around.sum()) == 4 and not big.possible(torch.where(around == 1, 1, HIDDEN)[None]).any()


EDGES: dict[str, Determinantal] = {
    "all in": DPP(K=torch.eye(5)),
    "none in": DPP(K=torch.zeros(5, 5)),
    "some certain": DPP(K=torch.diag(torch.tensor([1.0, 0.0, 0.5, 1.0 - 1e-14, 1e-14]))),
    "a projection": DPP(K=torch.full((5, 5), 0.2)),
    "likelihoods of many sizes": DPP(L=torch.diag(torch.logspace(-20, 20, 5, dtype=FLOAT))),
    "a tree": SpanningTree(nx.path_graph(6)),
    "a cycle": SpanningTree(nx.cycle_graph(5)),
    "uneven weights": SpanningTree(nx.Graph([(0, 1, {"weight": 1e-9}), (1, 2), (2, 0, {"weight": 1e9}), (0, 3)])),
}


@pytest.mark.parametrize("name", EDGES)
def test_nothing_is_nan_whatever_is_shown(name: str) -> None:
    oracle = EDGES[name]
    tokens = torch.cartesian_prod(*[torch.tensor([HIDDEN, 0, 1])] * oracle.length)
    rows = oracle.rows(tokens)
    assert not rows.isnan().any()
    assert torch.allclose(rows.logsumexp(2), torch.zeros(1, dtype=FLOAT), atol=1e-12)
    law = joint_law(oracle)
    assert float(law.sum()) == pytest.approx(1)
    for sampler in (Block(), Coupled(), Recursive()):
        samples = da.sample(oracle, 20, sampler=sampler, seed=0).samples
        assert bool((oracle.log_prob(samples) > -torch.inf).all())


def test_guesses_that_are_far_off_stay_finite() -> None:
    tree = SpanningTree.grid(8, 8)
    n, generator = tree.length, torch.Generator().manual_seed(0)
    tokens = torch.randint(2, (8, n), generator=generator)
    tokens[6], tokens[7] = 1, 0
    rank = torch.rand(8, n, generator=generator).argsort(1)
    row, prefix = torch.arange(8).repeat_interleave(n), torch.arange(n).repeat(8)
    rows = tree.chain_rows(tokens, rank, row, prefix, rank.argsort(1)[row, prefix])
    assert not rows.isnan().any()
    assert torch.allclose(rows.logsumexp(1), torch.zeros(1, dtype=FLOAT), atol=1e-12)


@pytest.mark.parametrize("oracle", [DPP.random(70), SpanningTree.grid(6, 6)], ids=["dpp", "trees"])
def test_every_door_answers_the_same(oracle: TokenOracle) -> None:
    """Along possible paths, more than one panel long, with evidence; at any prefix, of any position ahead."""
    n, generator = oracle.length, torch.Generator().manual_seed(0)
    tokens = da.sample(oracle, 6, seed=0).samples
    rank = torch.rand(6, n, generator=generator).argsort(1)
    rank[::2] = (rank[::2] - 3).clamp_min(-1)
    row = torch.randint(6, (300,), generator=generator).sort().values
    highest = rank.max(1).values[row]
    prefix = (torch.rand(300, generator=generator) * (highest + 1)).long()
    prefix = prefix[(row * n + prefix).argsort()]
    ahead = torch.rand(300, n, generator=generator).masked_fill(rank[row] < prefix[:, None], -1).argmax(1)
    cells = (tokens, rank, row, prefix, ahead)
    one, other = oracle.chain_rows(*cells), TokenOracle.chain_rows(oracle, *cells)
    assert one.dtype == FLOAT and torch.allclose(one.exp(), other.exp(), atol=1e-12, rtol=0)
    assert oracle.chain_rows(tokens, rank, row[:0], prefix[:0], ahead[:0]).shape == (0, 2)


def test_both_kernels_of_a_process_agree() -> None:
    vectors = torch.randn(12, 5, dtype=FLOAT, generator=torch.Generator().manual_seed(0))
    likelihood = vectors @ vectors.T
    one = DPP(L=likelihood)
    other = DPP(K=likelihood @ torch.linalg.inv(torch.eye(12, dtype=FLOAT) + likelihood))
    assert torch.allclose(one.kernel, other.kernel, atol=1e-12)
    samples = da.sample(one, 200, seed=0).samples
    assert int(samples.sum(1).max()) <= 5  # never more than the rank
    sizes = [len(items) for items in one.items(samples)]
    assert sizes == samples.sum(1).tolist()
    sign, expected = torch.linalg.slogdet(torch.stack([likelihood[x.bool()][:, x.bool()] for x in samples[:1]]))
    total = torch.linalg.slogdet(torch.eye(12, dtype=FLOAT) + likelihood)[1]
    assert float(sign) > 0 and torch.allclose(one.log_prob(samples[:1]), expected - total)


DIRECTED = nx.DiGraph([(0, 1)])
REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("give one of L", lambda: DPP()),
    ("give one of L", lambda: DPP(L=torch.eye(2), K=torch.eye(2))),
    ("L must be a square", lambda: DPP(L=torch.ones(2, 3))),
    ("L must be a square", lambda: DPP(L=torch.ones(0, 0))),
    ("K must be symmetric", lambda: DPP(K=[[0.5, 0.1], [-0.1, 0.5]])),
    ("eigenvalues of L must be at least 0", lambda: DPP(L=[[0.0, 1.0], [1.0, 0.0]])),
    ("eigenvalues of K must be at least 0", lambda: DPP(K=[[0.1, 0.5], [0.5, 0.1]])),
    ("eigenvalues of K must be at most 1", lambda: DPP(K=[[0.9, 0.5], [0.5, 0.9]])),
    ("L must be finite", lambda: DPP(L=[[float("nan")]])),
    ("n must", lambda: DPP.random(0)),
    ("undirected", lambda: SpanningTree(DIRECTED)),
    ("2 components", lambda: SpanningTree(nx.Graph([(0, 1), (2, 3)]))),
    ("an edge", lambda: SpanningTree(nx.empty_graph(1))),
    ("an edge", lambda: SpanningTree(nx.Graph([(0, 0)]))),
    ("weights must be positive, not -1", lambda: SpanningTree(nx.Graph([(0, 1, {"weight": -1.0})]))),
    ("weights must be positive, not 0", lambda: SpanningTree(nx.Graph([(0, 1, {"weight": 0.0})]))),
    ("'weight' must", lambda: SpanningTree(nx.Graph([(0, 1, {"weight": "heavy"})]))),
    ("samples must", lambda: SpanningTree.grid(2, 2).trees(torch.zeros(3, 5).long())),
    ("samples must", lambda: DPP.random(3).log_prob(torch.full((1, 3), HIDDEN))),
]


@pytest.mark.parametrize(("words", "make"), REFUSED)
def test_bad_arguments_are_named(words: str, make: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.path_graph(3)
    monkeypatch.setitem(sys.modules, "networkx", None)
    for make in (lambda: SpanningTree(graph), lambda: SpanningTree.grid(2, 2)):
        with pytest.raises(InputError, match=r"pip install 'drawahead\[graphs\]'"):
            make()
