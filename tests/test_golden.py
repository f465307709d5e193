"""Every named sampler on every kind of chain draws, from a fixed seed, what it drew when these were written down.

Tokens are held by a hash, vectors by their numbers to eight digits (sums may be ordered otherwise on another machine),
and both with their rounds and queries. To write them anew, after a change that is meant: python -m tests.test_golden
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, Picard, Recursive, Sequential, StackedPlan, Stepwise, TokenChain
from drawahead.chains import Chain
from drawahead.samplers import Sampler
from drawahead.targets import (
    DPP,
    DenseLogistic,
    GaussianMixture,
    Hypercube,
    Ising,
    MixtureOfProducts,
    Pairs,
    PolyaUrns,
    TreeIsing,
)

FILE = Path(__file__).parent / "data" / "golden.json"
NAN = torch.nan


def _walk(steps: int) -> StackedPlan:
    """Two lanes that mix, with a refresh in the middle and a deterministic step near the end."""
    eye = torch.eye(2, dtype=torch.float64)
    a = (0.9 * eye + 0.2 * eye.flip(0)).expand(steps, 2, 2).clone()
    s = (0.5 * eye).expand(steps, 2, 2).clone()
    b = torch.tensor([0.3, -0.2], dtype=torch.float64).expand(steps, 2).clone()
    keep, add = eye.expand(steps + 1, 2, 2).clone(), torch.zeros(steps + 1, 2, 1, dtype=torch.float64)
    keep[steps // 2, 1, 1], add[steps // 2, 1, 0] = 0.0, 1.0
    fixed = torch.zeros(steps, dtype=torch.bool)
    fixed[-2] = True
    reads = torch.tensor([1.0, 0.0], dtype=torch.float64).expand(steps, 2)
    return StackedPlan(
        a,
        b,
        s,
        start=torch.ones(2),
        final=torch.tensor([1.0, 0.5]),
        refresh=(keep, add),
        deterministic=fixed,
        reads=reads,
    )


def _dpp() -> DPP:
    factor = torch.randn(12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return DPP(L=factor @ factor.T / 6)


CUBE = da.StochasticLocalization(40, delta=0.02)
SHORT = da.EulerAncestral((8.0, 5.0, 3.0, 2.0, 1.2, 0.7, 0.4, 0.2, 0.1, 0.0))
EVIDENCE = torch.tensor([[-1] * 13, [0] * 13, [0, 1, 2] + [-1] * 10, [-1, 1] * 6 + [2], [2] * 12 + [-1]] * 2)
CHAINS: dict[str, Chain] = {
    "pairs": TokenChain(Pairs(24)),
    "urns": TokenChain(PolyaUrns(20, block=5, concentration=0.5)),
    "dense": TokenChain(DenseLogistic(18, beta=1.5)),
    "mixture, spread": TokenChain(MixtureOfProducts.random(13, q=3), order="spread"),
    "mixture, evidence": TokenChain(MixtureOfProducts.random(13, q=3), evidence=EVIDENCE),
    "tree, left to right": TokenChain(TreeIsing.random(16, coupling=1.0), order=list(range(16))),
    "ising": TokenChain(Ising(4, 4, coupling=0.4)),
    "dpp": TokenChain(_dpp()),
    "cube": GaussianChain(Hypercube(5), CUBE),
    "modes, recorded": GaussianChain(
        GaussianMixture.random(3, components=5), da.StochasticLocalization(24), record=[20, 3]
    ),
    "ddpm": GaussianChain(GaussianMixture.random(3, components=5), da.DDPM(da.schedules.linear_betas(30))),
    "euler, known": GaussianChain(
        Hypercube(4), SHORT, known=torch.tensor([NAN, 1.0, NAN, -1.0], dtype=torch.float64), record=[3]
    ),
    "integrator, few steps": GaussianChain(Hypercube(4), da.OUExponential.even(8)),
    "started": GaussianChain(Hypercube(3), CUBE, start=torch.full((3,), 0.1, dtype=torch.float64)),
    "stacked": da.StackedChain(
        lambda x, k: torch.tanh(x[:, 0] + 0.1 * k[:, None]), _walk(20), (3,), dtype=torch.float64
    ),
    "stacked, ULD": da.rtk.chain(
        da.rtk.exact(GaussianMixture(torch.tensor([[-1.0, 0.0], [1.0, 0.5]]), 0.1)),
        da.rtk.ULD(tau=0.05, gamma=2.0, steps=8),
        da.rtk.Segments.even(2.0, 4),
        shape=(2,),
    ),
}
SAMPLERS: list[Sampler] = [
    Sequential(), Coupled(), Coupled(4), Coupled(6, secant=False), Coupled(4, least=1.5), Block(), Block(5),
    Block(pipelined=False), Stepwise(), Stepwise(5), Recursive(), Recursive(growth="paper"),
    Picard(0.05), Picard(0.05, window=6),
]  # fmt: skip


def drawn(chain: Chain, sampler: Sampler) -> dict[str, Any]:
    number = 3 if isinstance(sampler, Recursive) else 10
    result = da.sample(chain, number, sampler=sampler, seed=20)
    samples, report = result.samples, result.report
    found: dict[str, Any] = {"rounds": report.rounds, "queries": report.queries}
    if samples.is_floating_point():
        # One number per sample that every entry has a part in, and the first samples' first entries.
        weights = torch.linspace(0.5, 1.5, samples[0].numel(), dtype=torch.float64)
        return found | {"vectors": (samples.flatten(1).double() @ weights).tolist()}
    return found | {"tokens": hashlib.sha256(samples.numpy().tobytes()).hexdigest()}


def names() -> list[tuple[str, Sampler]]:
    return [(name, sampler) for name in CHAINS for sampler in SAMPLERS]


@pytest.mark.parametrize(("name", "sampler"), names(), ids=str)
def test_what_was_drawn_before_is_drawn_again(name: str, sampler: Sampler) -> None:
    expected = json.loads(FILE.read_text())[f"{name}: {sampler!r}"]
    found = drawn(CHAINS[name], sampler)
    assert (found["rounds"], found["queries"]) == (expected["rounds"], expected["queries"])
    assert found.get("tokens") == expected.get("tokens")
    assert found.get("vectors", []) == pytest.approx(expected.get("vectors", []), rel=1e-8, abs=1e-8)


if __name__ == "__main__":
    torch.set_num_threads(1)
    table = {f"{name}: {sampler!r}": drawn(CHAINS[name], sampler) for name, sampler in names()}
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "\n}\n")
