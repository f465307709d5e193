"""Addressed noise: the published generator, uniform and independent across everything that addresses it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from drawahead.chains import TokenChain
from drawahead.chains.base import Tally
from drawahead.randomness import Purpose, Stream, _unit, philox, seed_from
from drawahead.targets import DenseLogistic
from drawahead.verification.statistics import chi_square, kolmogorov
from tests.exactness import combined

Check = Callable[[float], None]

# Random123 (Salmon et al.), kat_vectors: philox 4x32, 10 rounds.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize("kind", [int, torch.tensor, np.int64], ids=["int", "torch", "numpy"])
@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...], kind: Callable[[int], object]
) -> None:
    with np.errstate(over="ignore"):
        answer = philox(*map(kind, key), *map(kind, counter))
    assert tuple(map(int, answer)) == words


def steps(rows: int, width: int) -> Tensor:
    return torch.arange(width).expand(rows, width)


def samples(rows: int, seed: int = 0) -> Stream:
    return Stream.of_samples(seed, torch.arange(rows))


def test_uniforms_are_uniform(check: Check) -> None:
    check(kolmogorov(samples(300).uniform(Purpose.VALUE, steps(300, 400), size=3)))


def test_the_interval_is_open() -> None:
    for words in ((0, 0), (0xFFFFFFFF, 0xFFFFFFFF)):
        assert 0 < _unit(*words) < 1 and 0 < float(_unit(*map(torch.tensor, words))) < 1
        assert math.isfinite(-math.log(-math.log(_unit(*words))))
    u = samples(1000).uniform(Purpose.ACCEPT, steps(1000, 500))
    assert u.dtype == torch.float64 and bool(((u > 0) & (u < 1)).all()) and len(u.unique()) == u.numel()


def test_normals_are_normal(check: Check) -> None:
    x = samples(300).normal(Purpose.VALUE, steps(300, 100), size=3)
    assert x.shape == (300, 100, 3)
    pairs = x[..., 0].flatten() * x[..., 1].flatten()  # Box-Muller makes these two together
    z = float(pairs.mean()) * math.sqrt(pairs.numel())  # the product of two normals has variance 1
    check(combined([kolmogorov(torch.special.ndtr(x)), math.erfc(abs(z) / math.sqrt(2))]))


def cells(u: Tensor) -> Tensor:
    return (u.flatten() * 8).long()


def other_addresses(stream: Stream, step: Tensor) -> dict[str, Tensor]:
    """Uniforms at addresses that differ in one thing from (stream, VALUE, step, attempt 0)."""
    value = Purpose.VALUE
    found = {
        f"purpose {purpose.name}": stream.uniform(purpose, step)
        for purpose in Purpose
        if purpose not in (Purpose.VALUE, Purpose.SAMPLE, Purpose.CHILD)
    }
    found |= {
        "next step": stream.uniform(value, step + 1),
        "far step": stream.uniform(value, step + 4096),
        "next attempt": stream.uniform(value, step, 1),
        "far attempt": stream.uniform(value, step, 1 << 20),
        "next in the vector": stream.uniform(value, step, size=3)[..., 1],
        "later in the vector": stream.uniform(value, step, size=9)[..., 8],
        "next sample": stream.uniform(value, step).roll(1, 0),
        "next seed": samples(len(step), seed=1).uniform(value, step),
        "high bits of the seed": samples(len(step), seed=1 << 32).uniform(value, step),
        "child": stream.child(1, 0).uniform(value, step),
        "child's child": stream.child(1, 0).child(1, 0).uniform(value, step),
    }
    return found


ADDRESSES = list(other_addresses(samples(2), steps(2, 2)))


@pytest.mark.parametrize("other", ADDRESSES)
def test_addresses_are_independent(other: str, check: Check) -> None:
    """64 cells, 80 000 draws: a pair of addresses at total variation 0.02 from independent is seen."""
    stream, step = samples(800), steps(800, 100) * 2
    one, two = stream.uniform(Purpose.VALUE, step), other_addresses(stream, step)[other]
    assert not torch.equal(one, two)
    check(chi_square(torch.bincount(8 * cells(one) + cells(two), minlength=64), torch.full((64,), 1 / 64).double()))


@pytest.mark.parametrize("pair", ["indices", "steps", "a child and a grandchild"])
def test_children_are_independent(pair: str, check: Check) -> None:
    stream, step = samples(800), steps(800, 100)
    one, two = {
        "indices": (stream.child(1, 0), stream.child(2, 0)),
        "steps": (stream.child(1, 0), stream.child(1, 1)),
        "a child and a grandchild": (stream.child(2, 0), stream.child(1, 0).child(2, 0)),
    }[pair]
    joint = 8 * cells(one.uniform(Purpose.VALUE, step)) + cells(two.uniform(Purpose.VALUE, step))
    check(chi_square(torch.bincount(joint, minlength=64), torch.full((64,), 1 / 64).double()))


def test_no_two_streams_share_a_key() -> None:
    streams = [samples(1000), samples(1000, seed=1)]
    streams += [stream.child(i, step) for stream in tuple(streams) for i in (1, 2, 1 << 33) for step in (0, 1, 100)]
    keys = torch.cat([stream.keys for stream in streams])
    assert len(keys.unique(dim=0)) == len(keys)


def test_noise_is_found_by_its_address_alone() -> None:
    """One cell, one row, a batch: the same address holds the same number, to the last bit."""
    rows, width, size = 40, 300, 5
    stream, step = samples(rows), steps(rows, width)
    attempt = torch.arange(rows) % 3
    whole = stream.uniform(Purpose.VALUE, step, attempt, size=size)
    assert whole.shape == (rows, width, size)
    assert torch.equal(stream.uniform(Purpose.VALUE, step, attempt), whole[..., 0])
    assert torch.equal(stream.uniform(Purpose.VALUE, step[:, 7], attempt), whole[:, 7, 0])
    some = torch.tensor([31, 4, 4])
    assert torch.equal(stream[some].uniform(Purpose.VALUE, step[some], attempt[some], size=3), whole[some, :, :3])
    for row in (0, 5, 39):
        single = Stream.of_samples(0, torch.tensor([row]))
        assert torch.equal(single.keys, stream.keys[row : row + 1])
        assert torch.equal(single.uniform(Purpose.VALUE, step[:1], row % 3, size=size), whole[row : row + 1])
        for column in (0, 299):
            cell = single.uniform(Purpose.VALUE, torch.tensor([[column]]), row % 3, size=size)
            assert torch.equal(cell[0, 0], whole[row, column])
        child = stream.child(3, 2)
        assert torch.equal(single.child(3, 2).keys, child.keys[row : row + 1])


def test_large_requests_agree_with_small_ones() -> None:
    stream = samples(64)
    whole = stream.uniform(Purpose.VALUE, steps(64, 3000), size=3)
    assert torch.equal(whole[:, :10], stream.uniform(Purpose.VALUE, steps(64, 10), size=3))
    assert torch.equal(whole[:, -10:], stream.uniform(Purpose.VALUE, steps(64, 3000)[:, -10:], size=3))


def test_empty_requests() -> None:
    assert samples(3).uniform(Purpose.VALUE, steps(3, 0), size=4).shape == (3, 0, 4)
    assert samples(0).uniform(Purpose.VALUE, steps(0, 5)).shape == (0, 5)
    assert samples(1).uniform(Purpose.VALUE, steps(1, 0), size=2).shape == (1, 0, 2)


def test_purposes_are_distinct() -> None:
    assert len({int(purpose) for purpose in Purpose}) == len(Purpose)


def test_random_orders_are_uniform(check: Check) -> None:
    order = TokenChain(DenseLogistic(4)).start(0, torch.arange(24_000), Tally()).order
    place = {permutation: i for i, permutation in enumerate(itertools.permutations(range(4)))}
    counts = torch.bincount(torch.tensor([place[tuple(row)] for row in order.tolist()]), minlength=24)
    check(chi_square(counts, torch.full((24,), 1 / 24, dtype=torch.float64)))


def test_seeds() -> None:
    assert seed_from(7, None) == 7
    one, two = (torch.Generator().manual_seed(3) for _ in range(2))
    first = seed_from(None, one)
    assert first == seed_from(None, two) != seed_from(None, one)
    assert 0 <= first < 2**63
    assert seed_from(None, None) != seed_from(None, None)
