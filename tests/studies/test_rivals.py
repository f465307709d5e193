"""The study of rivals: its baselines keep the law and their mutants do not, and what it counts is what was asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.schedules import Given
from studies import compare
from studies.__main__ import main
from studies.rivals.distance import energy
from studies.rivals.image import Rows
from studies.rivals.mixture import Mixture, Protocol
from studies.rivals.parareal import Parareal
from studies.rivals.protocol import SMALL, chain_law, children, mutants, step_law
from studies.rivals.rules import RULES, best_share
from studies.rivals.solvers import SOLVERS
from studies.rivals.trees import Steps, Tree, one_by_one, speculate
from studies.speed.place import Place
from studies.study import data_path, read
from tests.exactness import LEVEL

Check = Callable[[float], None]
PROTOCOL = Protocol(Mixture.published(**SMALL), 0.6, steps=12)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_returns_its_target(name: str, check: Check) -> None:
    check(step_law(RULES[name], name, 20_000))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("kind", ["uncorrected", "unverified"])
def test_a_rule_without_its_correction_is_found_out(name: str, kind: str) -> None:
    assert step_law(mutants(RULES[name])[kind], name, 20_000) < LEVEL


@pytest.mark.parametrize("name", RULES)
def test_whole_chains_have_the_law_of_one_by_one(name: str, check: Check) -> None:
    check(chain_law(PROTOCOL, RULES[name], name, 6_000))


@pytest.mark.parametrize("name", RULES)
def test_whole_chains_without_verification_are_found_out(name: str) -> None:
    assert chain_law(PROTOCOL, mutants(RULES[name])["unverified"], name, 6_000) < LEVEL


@pytest.mark.parametrize("name", RULES)
def test_acceptance_is_the_one_that_is_published(name: str) -> None:
    """With one draft 2 Phi(-delta / 2), by every rule; more drafts are accepted more often."""
    generator, delta = torch.Generator().manual_seed(0), torch.full((40_000,), 1.0, dtype=torch.float64)
    shares = []
    for drafts in (1, children(name)):
        s = torch.randn(len(delta), drafts, dtype=torch.float64, generator=generator)
        shares.append(float(RULES[name](s, delta, generator)[1].double().mean()))
    assert abs(shares[0] - 2 * float(torch.special.ndtr(torch.tensor(-0.5)))) < 0.015
    assert shares[1] > shares[0] + 0.05 or children(name) == 1


def test_rank_selection_prefers_the_largest_draft_where_the_target_is_far() -> None:
    shares = best_share(torch.tensor([0.0, 0.5, 2.0, 6.0, 20.0], dtype=torch.float64), 2)
    assert shares.tolist() == sorted(shares.tolist()) and shares[0] < 0.2 and shares[-1] == 1


@pytest.mark.parametrize(
    ("sweeps", "calls", "queries"),
    [(0, 1 + 3, 1 + 10), (1, 1 + 2 * 3, 1 + 10 + 7), (4, 1 + 4 + 4 + 2, 1 + 4 * 4 + 4 * 4 + 2 * 2)],
)
def test_calls_are_counted_as_their_authors_count(sweeps: int, calls: int, queries: int) -> None:
    """A model that says one thing everywhere is drafted perfectly: 10 steps are rounds of 4, 4 and 2 levels."""
    flat = torch.full((10,), 0.9, dtype=torch.float64)
    steps = Steps(lambda x, k: torch.ones_like(x), flat, 0.1 * flat, flat)
    found = speculate(
        *(steps, torch.zeros(3, 2, dtype=torch.float64), Tree(1, 4, sweeps)),
        *(RULES["reflection"], torch.Generator().manual_seed(0)),
    )
    assert (found.calls.tolist(), found.queries.tolist()) == ([calls] * 3, [queries] * 3)


def test_both_sides_take_the_published_steps() -> None:
    """One by one in velocities and in predictions of the data: the same means."""
    chain, steps = PROTOCOL.chain(), PROTOCOL.for_trees()
    x = torch.randn(len(steps), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    k = torch.arange(len(steps))
    own = chain.plan.a[:, None] * x + chain.plan.b[:, None] * chain.denoiser(x, k)
    assert torch.allclose(own, steps.mean(x, steps.velocity(x, k), k)) and torch.equal(chain.plan.s, steps.s)
    whole = Protocol(PROTOCOL.mixture, 0.6, steps=12, whole=True).chain()
    assert whole.steps == 12 and chain.steps == 10 and (whole.plan.s == 0).nonzero()[:, 0].tolist() == [0, 11]


def test_one_by_one_ends_in_the_mixture() -> None:
    generator = torch.Generator().manual_seed(0)
    states = one_by_one(PROTOCOL.for_trees(), torch.randn(500, 3, dtype=torch.float64, generator=generator), generator)
    assert float(torch.cdist(states, PROTOCOL.mixture.means).amin(1).median()) < 0.6


def test_parareal_to_the_end_is_the_sequential_sample() -> None:
    target, generator = compare.mixture(), torch.Generator().manual_seed(0)
    chain = da.GaussianChain(target, da.DDPM(timesteps=da.schedules.spaced(20, 1000)))
    plan = chain.plan
    noise, x = (torch.randn(5, *part, 16, dtype=torch.float64, generator=generator) for part in ((20,), ()))
    method = Parareal((plan.a, plan.b, plan.s), chain.denoiser, noise, blocks=4)
    found = method.draw(x, 0.0)
    loose = method.draw(x, 10.0)
    for k in range(20):
        x = plan.a[k] * x + plan.b[k] * chain.denoiser(x, torch.full((5,), k)) + plan.s[k] * noise[:, k]
    assert torch.allclose(found.samples, x) and not torch.allclose(loose.samples, x)
    assert loose.iterations.tolist() == [1] * 5 and bool((found.iterations > 1).all())
    assert (method.rounds(1), method.pipelined(1), method.queries(1)) == (4 + 5 + 4, 4 + 4, 4 + 20 + 4)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_are_those_of_diffusers(name: str) -> None:
    pytest.importorskip("diffusers")
    target = compare.mixture()
    start = torch.randn(20, compare.DIMENSION, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for steps in (5, 20):
        chain = da.GaussianChain(target, Given(SOLVERS[name](steps)), start=start)
        own = da.sample(chain, 20, sampler=da.Sequential(), seed=0).samples
        assert float((own - compare.solved(target, name, steps, 20)).abs().max()) < 1e-3


def test_the_distance_sees_a_shift_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(shift: float) -> Tensor:
        return torch.randn(200, 5, generator=generator) + shift

    near, far = energy(drawn(0.0), drawn(0.0)), energy(drawn(0.6), drawn(0.0))
    assert near.low < 0 < near.high and near.p_value > 0.01 and abs(near.share) < 0.02
    assert far.low > 0.02 and far.low < far.share < far.high and far.p_value <= 0.001


def test_it_runs(tmp_path: Path) -> None:
    main(["rivals", "--quick", "--out", str(tmp_path), "--parts", "trees", "laws", "tolerances"])
    data = read(data_path(tmp_path, "rivals"))
    names = {row["name"] for row in data["trees"]["rows"]}
    assert {*RULES, "Coupled(window=15)", "Recursive()", "Auto"} <= names
    assert {row["name"] for row in data["tolerances"]["rows"]} >= {"ParaDiGMS", "Picard", "SRDS-type", "DDIM"}
    assert all(row["draws"] == 500 for row in data["laws"]["rows"])


def test_more_images_of_the_model_pass_and_a_coarse_solver_does_not(tmp_path: Path) -> None:
    """The rows of the image part, on pictures that cost nothing."""
    generator = torch.Generator().manual_seed(0)
    saved: list[list[dict[str, Any]]] = []
    rows = Rows(Place("cpu"), lambda found: saved.append(list(found)), limit=60, samples=tmp_path)
    rows.reference = torch.randn(200, 6, 6, generator=generator)
    rows.add("right", "solver", torch.randn(100, 6, 6, generator=generator), steps=9, ms=1.0)
    smooth = torch.randn(100, 6, 6, generator=generator) * 0.8
    rows.add("smooth", "solver", smooth, steps=3, ms=1.0)
    right, wrong = rows.rows
    assert all(right[part]["p_value"] > 0.01 >= 0.005 > wrong[part]["p_value"] for part in ("pixels", "detail"))
    assert saved[-1] == rows.rows and sorted(path.name for path in tmp_path.iterdir()) == ["01.npy", "02.npy"]


@pytest.mark.slow
def test_the_image_part_runs_on_a_cpu(tmp_path: Path) -> None:
    main(["rivals", "--out", str(tmp_path), "--parts", "image", "--limit", "600"])
    found = read(data_path(tmp_path, "rivals"))["image"]["rows"]["ways"]
    assert {row["family"] for row in found} == {"reference", "solver", "drawahead", "picard", "parareal"}
