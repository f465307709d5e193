"""Laws behind unlikely guesses, and what rounding leaves of them: planar matchings against exact fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import HIDDEN, Block, Coupled, TokenChain, tilings
from drawahead.counting.matchings import kasteleyn as _kasteleyn
from drawahead.counting.matchings import partners as _partners
from drawahead.counting.matchings import planar as matchings
from drawahead.counting.matchings.partners import Array
from drawahead.errors import InputError
from drawahead.samplers import Sampler
from drawahead.samplers.separated import Separated
from drawahead.targets import PlanarMatching
from drawahead.verification.statistics import chi_square
from tests.targets.test_matchings import Check, delaunay, enumerated, law_p_value, prism

Matching = frozenset[tuple[int, int]]
RIGHT = 1e-9  # a law has up to a dozen entries, of which each may be off by 1e-10


def weighted(graph: nx.Graph, seed: int, least: float) -> nx.Graph:
    """Weights from `least` to 1, spread evenly in their logarithm."""
    generator = np.random.default_rng(seed)
    graph = nx.convert_node_labels_to_integers(graph)
    for u, v in graph.edges:
        graph[u][v]["weight"] = least ** float(generator.random())
    return graph


def weakly_joined(weak: float) -> nx.Graph:
    """Edges of weight 1 hold its vertices together, but in odd groups: every matching needs weak ones."""
    strong = [(1, 3), (1, 7), (2, 6), (2, 10), (4, 5), (6, 10), (7, 8), (7, 11), (9, 11)]
    other = [(0, 4), (0, 5), (0, 9), (0, 11), (1, 8), (1, 11), (2, 4), (2, 5), (3, 6), (3, 8), (4, 11), (5, 9), (5, 10)]
    other += [(6, 8), (7, 9), (8, 9), (8, 10), (9, 10)]
    graph = nx.Graph()
    graph.add_nodes_from(range(12))
    graph.add_edges_from(strong, weight=1.0)
    graph.add_edges_from(other, weight=weak)
    return graph


def exact_matchings(graph: nx.Graph) -> dict[Matching, Fraction]:
    """Every perfect matching and its weight."""

    def rest(left: list[int]) -> Iterator[tuple[Matching, Fraction]]:
        if not left:
            yield frozenset(), Fraction(1)
            return
        v = left[0]
        for w in set(graph[v]) & set(left):
            for others, weight in rest([u for u in left[1:] if u != w]):
                yield others | {(v, w)}, weight * Fraction(graph[v][w]["weight"])

    return dict(rest(sorted(graph)))


def exact_laws(target: PlanarMatching, law: dict[Matching, Fraction]) -> np.ndarray[Any, Any]:
    """The law of every vertex's partner (n, q)."""
    total, laws = sum(law.values()), np.zeros((target.length, target.vocab_size), dtype=object)
    for matching, weight in law.items():
        for u, v in matching:
            laws[u, target.neighbours[u].index(v)] += weight / total
            laws[v, target.neighbours[v].index(u)] += weight / total
    return laws.astype(float)


@dataclass(frozen=True)
class Path:
    """A path and its exact laws: of every position that is still to come, at every step."""

    tokens: Tensor  # (1, n)
    rank: Tensor  # (1, n)
    prefix: Tensor  # (c,)
    position: Tensor  # (c,)
    laws: Tensor  # (c, q)
    least: float  # the chance of its least likely step

    def error(self, laws: Tensor) -> float:
        """Of laws (c, q) that were answered: the largest, NaN if one is."""
        return float((laws.exp() - self.laws).abs().max())

    def asked(self, target: PlanarMatching) -> Tensor:
        """All at once, so that all steps are guesses."""
        row = torch.zeros(len(self.prefix), dtype=torch.int64)
        return target.chain_rows(self.tokens, self.rank, row, self.prefix, self.position)

    def shown(self, target: PlanarMatching) -> Tensor:
        """As evidence, prefix by prefix."""
        row = torch.zeros(len(self.prefix), dtype=torch.int64)
        return da.TokenOracle.chain_rows(target, self.tokens, self.rank, row, self.prefix, self.position)


def unlikely_path(target: PlanarMatching, graph: nx.Graph, seed: int) -> Path:
    """Vertices in random order; each partner is the least likely that has a probability of 1e-9 or more."""
    law, n = exact_matchings(graph), target.length
    order = np.random.default_rng(seed).permutation(n).tolist()
    tokens, cells, laws, least = [0] * n, [], [], 1.0
    for step, v in enumerate(order):
        exact = exact_laws(target, law)
        cells += [(step, u) for u in order[step:]]
        laws += [exact[u] for u in order[step:]]
        chance, tokens[v] = min((p, i) for i, p in enumerate(exact[v].tolist()) if p >= 1e-9)
        pair, least = {v, target.neighbours[v][tokens[v]]}, min(least, chance)
        law = {matching: weight for matching, weight in law.items() if tuple(sorted(pair)) in matching}
    rank = torch.tensor(order).argsort()
    prefix, position = torch.tensor(cells).T
    return Path(torch.tensor(tokens)[None], rank[None], prefix, position, torch.tensor(np.array(laws)), least)


CASES: dict[str, tuple[nx.Graph, int]] = {
    "board": (weighted(tilings.domino_grid(4, 6), 10, 1e-6), 10),
    "another board": (weighted(tilings.domino_grid(4, 6), 24, 1e-6), 24),
    "prism": (weighted(prism(), 24, 1e-10), 24),
    "triangular lattice": (weighted(nx.triangular_lattice_graph(2, 6), 13, 1e-10), 13),
    "weakly joined": (weakly_joined(1e-4), 3),
    "unevenly joined": (weighted(weakly_joined(1.0), 4, 1e-10), 4),
}
"""Graphs and seeds of paths on which much is lost if M is not worked out afresh, of about 200 that were tried."""


def followed(name: str) -> tuple[PlanarMatching, Path]:
    graph, seed = CASES[name]
    target = PlanarMatching(graph)
    path = unlikely_path(target, graph, seed)
    assert path.least < 1e-7
    return target, path


@pytest.fixture(params=[0.0, _kasteleyn.ACCURATE], ids=["accurate", "as inaccurate as it may be"])
def inverses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How far entries of every M are off, relatively. Rounding is another one on another processor; this is not."""
    inverse, error = _kasteleyn._inverse, request.param

    def off(slots: _partners.Slots, dark: Array) -> Array | None:
        found = inverse(slots, dark)
        return found if found is None else found * (1 + error * noise(len(found), slots.both))

    monkeypatch.setattr(_kasteleyn, "_inverse", off)
    return error


def noise(n: int, symmetric: bool) -> Array:
    """Numbers between -1 and 1. Times symmetric ones a skew matrix is skew."""
    found = np.random.default_rng(1).uniform(-1, 1, (n, n))
    return np.triu(found) + np.triu(found, 1).T if symmetric else found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("asked", [Path.asked, Path.shown], ids=["guesses", "evidence"])
@pytest.mark.usefixtures("inverses")
def test_laws_behind_unlikely_steps_are_exact(name: str, asked: Callable[[Path, PlanarMatching], Tensor]) -> None:
    target, path = followed(name)
    assert path.error(asked(path, target)) < RIGHT


@pytest.mark.parametrize("inverses", [_kasteleyn.ACCURATE], indirect=True)
@pytest.mark.parametrize("name", ["board", "another board", "prism", "triangular lattice", "unevenly joined"])
def test_laws_left_as_they_are_behind_rare_guesses_are_rejected(
    name: str, inverses: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess of probability p makes an error of M 1 / p times as large: 1e-12 becomes 1e-5 and more."""
    target, path = followed(name)
    check = _partners._Walk._check
    monkeypatch.setattr(_partners, "UNLIKELY", 0.0)
    monkeypatch.setattr(_partners._Walk, "_check", lambda self, rows: check(self, rows & (self.least >= 1e-7)))
    assert path.error(path.asked(target)) > 1e4 * RIGHT


@pytest.mark.parametrize("name", ["board", "prism"])
def test_an_inverse_that_is_not_mended_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is off by 1e-6 is mended; left as it is, its laws are off by a part of that."""
    inverse = np.linalg.inv
    monkeypatch.setattr(np.linalg, "inv", lambda matrix: inverse(matrix) * (1 + 1e-6 * noise(len(matrix), False)))
    target, path = followed(name)
    assert path.error(path.asked(target)) < RIGHT
    monkeypatch.setattr(_kasteleyn, "sound", lambda slots, inverse, live: np.ones(len(inverse), dtype=bool))
    target, path = followed(name)
    assert path.error(path.asked(target)) > 50 * RIGHT


# Samples


@pytest.mark.parametrize("sampler", [Coupled(), Separated(), Separated(Block())], ids=repr)
def test_matchings_that_need_weak_edges_have_their_law(
    sampler: Sampler, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matchings, "LEAF", 3)
    monkeypatch.setattr(matchings, "CUTS", 1)
    graph = weakly_joined(1e-5)
    check(law_p_value(PlanarMatching(graph), graph, sampler, 1_000))


@pytest.mark.parametrize("sampler", [Coupled(), Block(), Separated(Block())], ids=repr)
def test_samples_of_uneven_graphs_are_matchings(sampler: Sampler) -> None:
    graph = delaunay(300, 0)
    generator = np.random.default_rng(1)
    for u, v in graph.edges:
        graph[u][v]["weight"] = float(np.exp(generator.uniform(np.log(1e-3), 0)))
    target = PlanarMatching(graph)
    partners = target.partners(da.sample(target, 10, sampler=sampler, seed=0).samples)
    assert torch.equal(partners.gather(1, partners), torch.arange(300).expand(10, 300))


# Evidence


@pytest.mark.parametrize("sampler", [Coupled(), Separated()], ids=repr)
@pytest.mark.parametrize("weight", [1e-20])
def test_evidence_may_be_as_unlikely_as_can_be(weight: float, sampler: Sampler, check: Check) -> None:
    graph = nx.convert_node_labels_to_integers(tilings.domino_grid(4, 4))
    graph[5][6]["weight"] = weight
    target = PlanarMatching(graph)
    evidence = torch.full((16,), HIDDEN)
    evidence[5] = target.neighbours[5].index(6)
    left = nx.Graph(graph.subgraph(set(graph) - {5, 6}))
    drawn = da.sample(TokenChain(target, evidence=evidence), 2_000, sampler=sampler, seed=0, max_live=2_000)
    law = [matching | {(5, 6)} for matching in enumerated(left)]
    counts = torch.zeros(len(law))
    for matching in target.matchings(drawn.samples):
        counts[law.index(frozenset(matching))] += 1
    check(chi_square(counts, torch.full((len(law),), 1 / len(law), dtype=torch.float64)))


def test_evidence_that_names_no_neighbour_is_refused() -> None:
    target = PlanarMatching(tilings.domino_grid(4, 4))
    evidence = torch.full((16,), HIDDEN)
    evidence[0] = 3  # a corner has two
    with pytest.raises(InputError, match="probability zero"):
        TokenChain(target, evidence=evidence)


# What float64 cannot do


def test_a_law_that_cannot_be_worked_out_is_no_answer() -> None:
    target = PlanarMatching(prism())
    target._partners.inverse = target._partners.inverse * (1 + 1e-6)
    target._partners.renew = lambda state, gone: None
    with pytest.raises(InputError, match="too uneven"):
        target.rows(torch.full((1, 10), HIDDEN))


def test_a_step_that_cannot_be_followed_is_no_answer() -> None:
    target, path = followed("board")
    target._partners.renew = lambda state, gone: None
    with pytest.raises(InputError, match="too uneven"):
        path.asked(target)


@pytest.mark.parametrize("order", [8, 24])
def test_an_inverse_of_what_is_frozen_is_accurate(order: int) -> None:
    """The matrix of an Aztec diamond as it is, not balanced, has an inverse with entries up to a million."""
    target = tilings.dominoes("aztec", order)
    matrix, whole = target.matrix, np.arange(target.length)
    plain = replace(matrix, factor=np.sign(matrix.factor))
    inverse, slots = plain.inverse(whole), plain.slots(whole, whole)
    assert inverse is not None
    law = np.where(slots.neighbour >= 0, slots.factor * inverse[slots.line, slots.column], 0.0)
    right = target.rows(torch.full((1, target.length), HIDDEN))[0].exp().numpy()
    assert np.abs(law - right).max() < 1e-12
