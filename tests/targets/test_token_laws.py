"""Every consistent target against brute-force enumeration of its joint law, written down here independently."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.targets import (
    HardCode,
    Ising,
    MarkovChain,
    MixtureOfProducts,
    Pairs,
    PolyaUrns,
    Product,
    Table,
    TreeIsing,
)

Weight = Callable[[tuple[int, ...]], float]


def ising_weight(bonds: list[tuple[int, int, float]], fields: list[float]) -> Weight:
    def weight(x: tuple[int, ...]) -> float:
        s = [2 * v - 1 for v in x]
        return math.exp(sum(j * s[a] * s[b] for a, b, j in bonds) + sum(h * v for h, v in zip(fields, s, strict=True)))

    return weight


def grid(rows: int, cols: int, coupling: float, field: float) -> tuple[TokenOracle, Weight]:
    down = [(r * cols + c, (r + 1) * cols + c, coupling) for r in range(rows - 1) for c in range(cols)]
    along = [(r * cols + c, r * cols + c + 1, coupling) for r in range(rows) for c in range(cols - 1)]
    return Ising.grid(rows, cols, coupling, field), ising_weight(down + along, [field] * (rows * cols))


def tree(parents: list[int], coupling: list[float], field: list[float]) -> tuple[TokenOracle, Weight]:
    bonds = [(i, parent, coupling[i]) for i, parent in enumerate(parents) if parent >= 0]
    return TreeIsing(parents, coupling, field), ising_weight(bonds, field)


def urns(n: int, block: int, q: int, concentration: float) -> tuple[TokenOracle, Weight]:
    def weight(x: tuple[int, ...]) -> float:
        """The Polya joint: prod_v a (a+1) ... (a + count_v - 1) / (qa) (qa+1) ... for each block."""
        total = 1.0
        for start in range(0, n, block):
            part = x[start : start + block]
            for v in range(q):
                total *= math.prod(concentration + k for k in range(part.count(v)))
            total /= math.prod(q * concentration + k for k in range(len(part)))
        return total

    return PolyaUrns(n, block, q, concentration), weight


def markov(n: int, transition: list[list[float]], initial: list[float], stationary: bool) -> tuple[TokenOracle, Weight]:
    def weight(x: tuple[int, ...]) -> float:
        return initial[x[0]] * math.prod(transition[a][b] for a, b in itertools.pairwise(x))

    return MarkovChain(n, transition, None if stationary else initial), weight


def mixture(weights: list[float], probs: list[list[list[float]]]) -> tuple[TokenOracle, Weight]:
    def weight(x: tuple[int, ...]) -> float:
        parts = (math.prod(row[v] for row, v in zip(comp, x, strict=True)) for comp in probs)
        return sum(w * part for w, part in zip(weights, parts, strict=True))

    return MixtureOfProducts(weights, probs), weight


def code(sizes: list[int], thresholds: list[int], seed: int) -> tuple[TokenOracle, Weight]:
    oracle = HardCode(sum(sizes), seed, sizes=sizes, thresholds=thresholds)
    p = oracle.vocab_size
    words = [
        {
            tuple(sum(c * t**d for d, c in enumerate(polynomial)) % p for t in range(size))
            for polynomial in itertools.product(range(p), repeat=k)
        }
        for size, k in zip(sizes, thresholds, strict=True)
    ]
    members = [[i for i in row if i < oracle.length] for row in oracle.members.tolist()]

    def weight(x: tuple[int, ...]) -> float:
        return float(all(tuple(x[i] for i in row) in word for row, word in zip(members, words, strict=True)))

    return oracle, weight


def table(probs: Tensor) -> tuple[TokenOracle, Weight]:
    return Table(probs), lambda x: float(probs[x])


CYCLE = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]  # has zeros; stationary law (1, 2, 2) / 5
ZEROS = torch.tensor([[[0.5, 0.0], [0.0, 0.125]], [[0.0, 0.125], [0.25, 0.0]]], dtype=torch.float64)
PROBS = [[0.2, 0.8, 0.0], [0.1, 0.3, 0.6], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5]]
OTHER = [[0.0, 0.5, 0.5], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.0, 0.0, 1.0]]

LAWS: dict[str, tuple[TokenOracle, Weight]] = {
    "product": (Product(PROBS), lambda x: math.prod(row[v] for row, v in zip(PROBS, x, strict=True))),
    "pairs": (Pairs(4, 3), lambda x: float(x[0] == x[1] and x[2] == x[3])),
    "mixture": mixture([0.3, 0.7], [PROBS, OTHER]),
    "urns": urns(5, 3, 2, 0.7),
    "urns of one colour": urns(3, 2, 1, 1.0),
    "urns of three colours": urns(4, 4, 3, 2.0),
    "markov": markov(4, [[0.7, 0.3], [0.1, 0.9]], [0.5, 0.5], stationary=False),
    "stationary markov": markov(5, [[0.7, 0.3], [0.1, 0.9]], [0.25, 0.75], stationary=True),
    "markov with zeros": markov(4, CYCLE, [0.2, 0.4, 0.4], stationary=True),
    "markov with transient state": markov(3, [[0.5, 0.5], [0.0, 1.0]], [0.0, 1.0], stationary=True),
    "tree": tree([-1, 0, 0, 1, 1], [0, 0.5, -0.8, 1.3, 0.2], [0.1, -0.3, 0.0, 0.4, 0.2]),
    "forest": tree([-1, 0, -1, 2, 0], [0, 0.5, 0, 1.3, 0.2], [0.1, -0.3, 0.0, 0.4, 0.2]),
    "path": (TreeIsing.path(4, 0.6, 0.2), ising_weight([(0, 1, 0.6), (1, 2, 0.6), (2, 3, 0.6)], [0.2] * 4)),
    "grid 2x2": grid(2, 2, 0.4, 0.0),
    "grid 2x3": grid(2, 3, 0.7, 0.3),
    "grid 3x2": grid(3, 2, -0.7, 0.3),
    "grid 3x3": grid(3, 3, 0.5, -0.2),
    "grid 1x4": grid(1, 4, 0.5, 0.1),
    "grid 4x2": grid(4, 2, 0.9, 0.0),
    "table": table(Table.random(3, 3, seed=1).joint.view(3, 3, 3)),
    "table with zeros": table(ZEROS),
    "code": code([3, 2], [2, 1], seed=3),
    "code of full rank": code([2, 2, 1], [2, 1, 1], seed=0),
    "code over GF(5)": code([4], [3], seed=1),
    "one product": (Product([[0.1, 0.9]]), lambda x: (0.1, 0.9)[x[0]]),
    "one urn": urns(1, 4, 2, 1.0),
    "one state": markov(1, CYCLE, [0.2, 0.4, 0.4], stationary=True),
    "one spin": grid(1, 1, 0.4, 0.3),
    "one node": tree([-1], [0.0], [0.7]),
    "one atom": table(torch.ones(1, 1, dtype=torch.float64)),
    "one symbol": code([1], [1], seed=0),
}


@pytest.fixture(params=LAWS)
def law(request: pytest.FixtureRequest) -> tuple[TokenOracle, Tensor]:
    oracle, weight = LAWS[request.param]
    values = [weight(x) for x in itertools.product(range(oracle.vocab_size), repeat=oracle.length)]
    joint = torch.tensor(values, dtype=torch.float64)
    return oracle, joint / joint.sum()


def all_atoms(oracle: TokenOracle) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(oracle.vocab_size)] * oracle.length).view(-1, oracle.length)


def contexts(oracle: TokenOracle) -> Tensor:
    """All partial sequences, or 600 random ones if they are many."""
    n, q = oracle.length, oracle.vocab_size
    if (q + 1) ** n <= 3000:
        return torch.cartesian_prod(*[torch.arange(HIDDEN, q)] * n).view(-1, n)
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(600, n, generator=generator) < torch.rand(600, 1, generator=generator)
    return torch.where(known, torch.randint(q, (600, n), generator=generator), HIDDEN)


def test_rows_are_the_conditional_marginals(law: tuple[TokenOracle, Tensor]) -> None:
    oracle, joint = law
    tokens, atoms = contexts(oracle), all_atoms(oracle)
    rows = oracle.rows(tokens)
    assert rows.dtype == torch.float64 and rows.shape == (*tokens.shape, oracle.vocab_size)
    assert not rows.isnan().any()
    hidden = tokens == HIDDEN
    assert torch.allclose(rows.logsumexp(2)[hidden], torch.zeros(int(hidden.sum()), dtype=torch.float64), atol=1e-12)
    agree = (hidden[:, None] | (tokens[:, None] == atoms)).all(2).double()  # (m, atoms)
    weight = agree * joint
    possible = weight.sum(1) > 0
    if hasattr(oracle, "possible"):
        assert torch.equal(oracle.possible(tokens), possible)
    else:
        assert possible.all()
    one_hot = torch.nn.functional.one_hot(atoms, oracle.vocab_size).double()  # (atoms, n, q)
    expected = torch.einsum("ma,anq->mnq", weight, one_hot) / weight.sum(1)[:, None, None]
    check = hidden & possible[:, None]
    assert torch.allclose(rows.exp()[check], expected[check], atol=1e-12, rtol=1e-10)
    assert torch.equal((rows == -torch.inf)[check], (expected == 0)[check])


def test_the_chain_rule_gives_the_joint_in_every_order(law: tuple[TokenOracle, Tensor]) -> None:
    oracle, joint = law
    atoms = all_atoms(oracle)
    for seed in range(3):
        order = torch.randperm(oracle.length, generator=torch.Generator().manual_seed(seed))
        tokens, log_joint = torch.full_like(atoms, HIDDEN), torch.zeros(len(atoms), dtype=torch.float64)
        for i in order.tolist():
            log_joint += oracle.rows(tokens)[torch.arange(len(atoms)), i, atoms[:, i]]
            tokens[:, i] = atoms[:, i]
        assert torch.allclose(log_joint.exp(), joint, atol=1e-12)


def test_no_sequences_no_rows(law: tuple[TokenOracle, Tensor]) -> None:
    oracle, _ = law
    tokens, none = torch.empty(0, oracle.length, dtype=torch.long), torch.empty(0, dtype=torch.long)
    assert oracle.rows(tokens).shape == (0, oracle.length, oracle.vocab_size)
    assert oracle.rows_at(tokens, none, none).shape == (0, oracle.vocab_size)
