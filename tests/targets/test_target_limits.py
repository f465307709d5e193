"""Large sizes, strong couplings, known shapes of the hard instance: what enumeration cannot reach."""

from __future__ import annotations

import torch

import drawahead as da
from drawahead.oracles.tokens import HIDDEN
from drawahead.targets import HardCode, Ising, MarkovChain, MixtureOfProducts, TreeIsing


def test_a_one_line_grid_a_path_and_a_markov_chain_agree() -> None:
    n, coupling = 40, 0.7
    stay = torch.tensor(2 * coupling, dtype=torch.float64).sigmoid().item()
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(20, n, generator=generator) < 0.2
    tokens = torch.where(known, torch.randint(2, (20, n), generator=generator), HIDDEN)
    answers = [
        oracle.rows(tokens)[~known]
        for oracle in (
            MarkovChain(n, [[stay, 1 - stay], [1 - stay, stay]]),
            TreeIsing.path(n, coupling),
            Ising(1, n, coupling),
            Ising(n, 1, coupling),
        )
    ]
    for answer in answers[1:]:
        assert torch.allclose(answer, answers[0], atol=1e-12)


def test_strong_couplings_and_long_grids_do_not_underflow() -> None:
    for oracle in (Ising(3, 60, 300.0), Ising(200, 2, -40.0, 5.0), TreeIsing.random(200, 500.0)):
        tokens = torch.full((2, oracle.length), HIDDEN)
        tokens[0, 0], tokens[1, 0] = 1, 0
        rows = oracle.rows(tokens)
        assert not rows.isnan().any()
        assert torch.allclose(rows.logsumexp(2), torch.zeros(1, dtype=torch.float64), atol=1e-12)
    frozen = Ising(3, 60, 300.0).rows(tokens[:, :180])
    assert torch.allclose(frozen[0, 1:, 1].exp(), torch.ones(1, dtype=torch.float64))
    assert torch.allclose(frozen[1, 1:, 0].exp(), torch.ones(1, dtype=torch.float64))


def test_an_opposed_pair_on_a_strong_grid() -> None:
    """Evidence against the coupling: the middle spin is free by symmetry, its logs are not lost."""
    tokens = torch.tensor([[1, HIDDEN, 0]])
    for oracle in (Ising(1, 3, 400.0), TreeIsing.path(3, 400.0)):
        half = torch.full((2,), 0.5, dtype=torch.float64)
        assert torch.allclose(oracle.rows(tokens)[0, 1].exp(), half)


def test_both_orientations_of_a_grid_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    known = torch.rand(30, 4, 6, generator=generator) < 0.3
    tokens = torch.where(known, torch.randint(2, (30, 4, 6), generator=generator), HIDDEN)
    wide = Ising(4, 6, 0.6, 0.1).rows(tokens.flatten(1)).view(30, 4, 6, 2)
    tall = Ising(6, 4, 0.6, 0.1).rows(tokens.mT.flatten(1)).view(30, 6, 4, 2)
    assert torch.allclose(wide[~known], tall.transpose(1, 2)[~known], atol=1e-12)


def test_a_mixture_of_many_positions_does_not_underflow() -> None:
    oracle = MixtureOfProducts.random(2000, components=3, q=5, seed=0)
    tokens = torch.randint(5, (4, 2000), generator=torch.Generator().manual_seed(0))
    tokens[:, 7] = HIDDEN
    assert torch.allclose(oracle.rows(tokens)[:, 7].logsumexp(1), torch.zeros(4, dtype=torch.float64), atol=1e-12)


def test_the_hard_instance_has_the_sizes_it_promises() -> None:
    oracle = HardCode(4096)
    assert oracle.members.shape == (16, 256) and oracle.vocab_size == 257
    assert sorted(oracle.members.flatten().tolist()) == list(range(4096))
    assert oracle.thresholds.diff().tolist() == [16] * 15
    assert int(oracle.thresholds.min()) > 0 and int(oracle.thresholds.max()) < 256
    for n in range(1, 40):
        assert HardCode(n).rows(torch.full((1, n), HIDDEN)).shape == (1, n, HardCode(n).vocab_size)
    assert not torch.equal(HardCode(64, seed=1).members, HardCode(64, seed=2).members)


def test_the_hard_instance_interpolates_polynomials() -> None:
    oracle = HardCode(1000)
    p, generator = oracle.vocab_size, torch.Generator().manual_seed(0)
    tokens = torch.empty(1, 1000, dtype=torch.long)
    for row, k in zip(oracle.members, oracle.thresholds.tolist(), strict=True):
        row = row[row < 1000]
        value = torch.zeros(len(row), dtype=torch.long)
        for coefficient in torch.randint(p, (k,), generator=generator).tolist():  # Horner
            value = (value * torch.arange(len(row)) + coefficient) % p
        tokens[0, row] = value
    assert oracle.possible(tokens).all()
    for share in (0.2, 0.5, 0.9):
        masked = torch.where(torch.rand(1, 1000, generator=generator) < share, tokens, HIDDEN)
        rows = oracle.rows(masked)[0]
        known = torch.bincount(oracle.block_of[masked[0] != HIDDEN], minlength=len(oracle.members))
        ready = (known >= oracle.thresholds)[oracle.block_of]
        assert ready.any() and oracle.possible(masked).all()
        assert torch.equal(rows[ready].argmax(1), tokens[0, ready]) and (rows[ready].max(1).values == 0).all()
        assert torch.allclose(rows[~ready].exp(), torch.full((1,), 1 / p, dtype=torch.float64))
    wrong = tokens.clone()
    wrong[0, 0] = (wrong[0, 0] + 1) % p
    assert not oracle.possible(wrong).any()


def test_the_default_random_tree_is_shallow_and_repeatable() -> None:
    tree = TreeIsing.random(2000, seed=4)
    assert len(tree.levels) < 60 and torch.equal(tree.parents, TreeIsing.random(2000, seed=4).parents)


def test_the_hard_instance_may_believe_what_was_drawn_first() -> None:
    """Another answer to impossible guesses: the same samples, and far fewer rounds for a sampler that asks that."""
    plain, in_order = HardCode(64), HardCode(64, in_order=True)
    for sampler in (da.Sequential(), da.Block(), da.Coupled(), da.Recursive()):
        one, other = (da.sample(target, 3, sampler=sampler, seed=0) for target in (plain, in_order))
        assert torch.equal(one.samples, other.samples) and bool(in_order.possible(other.samples).all())
        if isinstance(sampler, da.Coupled):
            assert 2 * other.report.mean_rounds < one.report.mean_rounds
        else:
            assert other.report.sample_rounds == one.report.sample_rounds
