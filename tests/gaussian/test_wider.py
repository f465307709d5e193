"""Learned variances, answer history, steps that forget, subspaces: drawn exactly in windows, packed and captured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, InputError, Picard, Recursive, Sequential, Stepwise
from drawahead.chains.affine import AffinePaths
from drawahead.chains.moves import ScalarMoves, rolled
from drawahead.laws import Gaussian
from drawahead.randomness import Purpose, Stream
from drawahead.samplers import Sampler
from drawahead.schedules import Given, LearnedVariance, linear_betas
from tests.exactness import LEVEL
from tests.gaussian import wider
from tests.gaussian.reference import path_p_value
from tests.gaussian.wider import CHAINS, STEPS, bent, centred, history, learned, plan, variances

Check = Callable[[float], None]
Patch = pytest.MonkeyPatch
CAPTURED = [Sequential(), Stepwise(), Block(3), Coupled(), Coupled(4, secant=False), Picard()]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("sampler", [Coupled(), Coupled(3, secant=False)], ids=repr)
def test_the_law_of_paths(sampler: Sampler, name: str, check: Check) -> None:
    check(wider.p_value(name, sampler, 6_000))


@pytest.mark.parametrize("name", ["learned range", "history", "all of it"])
@pytest.mark.parametrize("sampler", [Block(), Stepwise()], ids=repr)
def test_the_law_of_paths_that_residuals_correct(sampler: Sampler, name: str, check: Check) -> None:
    check(wider.p_value(name, sampler, 2_500))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("sampler", [Block(), Stepwise(), Coupled()], ids=repr)
def test_the_law_of_paths_with_ten_times_the_draws(sampler: Sampler, name: str, check: Check) -> None:
    check(wider.p_value(name, sampler, 80_000, seed=1))


@pytest.mark.parametrize(
    ("sampler", "name"), [*((sampler, "all of it") for sampler in CAPTURED), *((Coupled(), name) for name in CHAINS)]
)
def test_captured_rounds_draw_the_same_samples(sampler: Sampler, name: str) -> None:
    """Waiting samples take free rows; the answer at the state before goes with its sample."""
    packed, captured = (
        da.sample(CHAINS[name], 9, sampler=sampler, seed=3, max_live=4, graphs=graphs) for graphs in (False, True)
    )
    torch.testing.assert_close(packed.samples, captured.samples, rtol=1e-9, atol=1e-9)
    assert packed.report.sample_rounds == captured.report.sample_rounds


@pytest.mark.parametrize(("sampler", "name"), [(Block(), "all of it"), *((Coupled(), name) for name in CHAINS)])
def test_a_sample_depends_on_its_number_alone(sampler: Sampler, name: str) -> None:
    everyone = da.sample(CHAINS[name], 6, sampler=sampler, seed=0).samples
    assert torch.equal(da.sample(CHAINS[name], 6, sampler=sampler, seed=0, max_live=2).samples, everyone)
    assert torch.equal(da.sample(CHAINS[name], 2, first=4, sampler=sampler, seed=0).samples, everyone[4:])


def test_states_stay_in_their_subspace() -> None:
    for name in ("subspace", "all of it"):
        for sampler in (Sequential(), Coupled(), Block()):
            samples = da.sample(CHAINS[name], 50, sampler=sampler, seed=0).samples
            assert float(samples.sum(-1).abs().max()) < 1e-12


# Versions that are wrong on purpose


def clipped(patch: Patch) -> None:
    """A standard deviation below the plan's is raised to it, and nobody is told."""
    own = ScalarMoves.law
    patch.setattr(ScalarMoves, "law", lambda *given: own(*given).without_thin())


def mirrored(patch: Patch) -> None:
    """A law that stands alone is coupled with a draft of another covariance all the same."""
    patch.setattr(Gaussian, "_alone", property(lambda law: torch.zeros_like(law.scale, dtype=torch.bool)))


def unsplit(patch: Patch) -> None:
    """Draft and target have each its own standard deviation, as if that did not matter."""

    def law(moves: ScalarMoves, answer: Tensor, step: Tensor, aside: Any, before: Any = None) -> Gaussian:
        step = step.clamp(max=moves.steps - 1)
        own = LearnedVariance().scale(answer[..., moves.size :], step)
        return Gaussian(moves.plan.b[step][..., None] * answer[..., : moves.size], own.mean(-1))

    patch.setattr(ScalarMoves, "law", law)


def normals(patch: Patch, purpose: Purpose, change: Callable[..., Tensor]) -> None:
    own = Stream.normal

    def normal(stream: Stream, asked: Purpose, step: Tensor, attempt: Tensor | int = 0, size: int = 1) -> Tensor:
        if asked != purpose:
            return own(stream, asked, step, attempt, size)
        return change(own, stream, step, size)

    patch.setattr(Stream, "normal", normal)


def noise_used_twice(patch: Patch) -> None:
    """The part of the noise that is split off is the rest of it."""
    normals(patch, Purpose.SPREAD, lambda own, stream, step, size: own(stream, Purpose.VALUE, step, 0, size))


def noise_of_the_first_step(patch: Patch) -> None:
    """The part of the noise that is split off is the same at every step."""
    normals(patch, Purpose.SPREAD, lambda own, stream, step, size: own(stream, Purpose.SPREAD, step * 0, 0, size))


def newest_answer(patch: Patch) -> None:
    """Instead of the answer at the state before, that at the step's own state."""
    own = ScalarMoves.law
    patch.setattr(ScalarMoves, "law", lambda moves, answer, step, aside, before=None: own(moves, answer, step, aside))


def forgotten(patch: Patch) -> None:
    """What was answered before a round is not carried into the next one."""
    own = AffinePaths.advance

    def advance(paths: AffinePaths, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        before = paths.before
        own(paths, values, count, guess)
        paths.before = before

    patch.setattr(AffinePaths, "advance", advance)


def guessed(patch: Patch) -> None:
    """The answer at the end of the window is carried on, not that at the state before the committed one."""
    own = AffinePaths.advance

    def advance(paths: AffinePaths, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        if paths.answers is not None:
            paths.answers = paths.answers[:, -1:].expand_as(paths.answers)
        own(paths, values, count, guess)

    patch.setattr(AffinePaths, "advance", advance)


def mean_alone(patch: Patch) -> None:
    """Predictions are projected, and noise is not."""
    own = ScalarMoves.projected
    patch.setattr(ScalarMoves, "projected", lambda moves, v: own(moves, v) if v.shape[1] != STEPS else v)
    patch.setattr(ScalarMoves, "_rolled", _rolled)
    patch.setattr(ScalarMoves, "onward", lambda moves, x, value, step, aside: value + moves.plan.a[step][:, None] * x)


def _rolled(moves: ScalarMoves, x: Tensor, step: Tensor, values: Tensor, slope: Tensor | None = None) -> Tensor:
    return rolled(x, moves._a(step) if slope is None else moves._a(step) + slope, values)


def dropped(patch: Patch) -> None:
    """The state does not decay to nothing where it should: A of 1 where it is 0."""
    own = ScalarMoves._a
    patch.setattr(ScalarMoves, "_a", lambda moves, step: own(moves, step).clamp(min=0.2))


MUTANTS: list[tuple[Callable[[Patch], None], str]] = [
    (clipped, "learned range"),
    (clipped, "learned"),
    (mirrored, "learned"),
    (unsplit, "learned"),
    (noise_used_twice, "learned range"),
    (noise_of_the_first_step, "learned"),
    (newest_answer, "history"),
    (forgotten, "history"),
    (guessed, "history"),
    (mean_alone, "subspace"),
    (dropped, "forgets"),
]


@pytest.mark.parametrize(("mutant", "name"), MUTANTS, ids=lambda part: getattr(part, "__name__", part))
def test_a_mutant_is_rejected(mutant: Callable[[Patch], None], name: str, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    assert wider.p_value(name, Coupled(), 6_000) < LEVEL


# What it costs


def rounds(chain: GaussianChain, steps: int) -> float:
    report = da.sample(chain, 100, sampler=Coupled(), seed=0).report
    assert report.steps == steps
    return report.mean_rounds


def test_what_a_split_and_a_memory_cost() -> None:
    """In six dimensions and forty steps: 5.5 rounds with a fixed variance, 5.8 with a learned one, and 5.8 where steps
    look back."""
    betas = linear_betas(40, 0.01, 0.2)

    def network(x: Tensor, k: Tensor) -> Tensor:
        return 0.6 * torch.tanh(x.roll(1, -1))

    def spread(x: Tensor, k: Tensor) -> Tensor:
        return torch.cat([network(x, k), torch.sin(2 * x)], dim=1)

    fixed = GaussianChain(network, da.DDPM(betas), (6,), dtype=torch.float64)
    free = GaussianChain(spread, da.DDPM(betas, learned_range=True), (6,), dtype=torch.float64)
    own = fixed.plan
    c = -0.5 * own.b
    c[0] = 0.0
    back = GaussianChain(network, Given(replace(own, b=own.b - c, c=c)), (6,), dtype=torch.float64)
    plain = rounds(fixed, 40)
    assert plain < 6 and rounds(free, 40) < 6.3 and rounds(back, 40) < 6.3


def test_a_step_below_the_split_is_drawn_by_itself() -> None:
    """Where every answer is below, each round draws one step; where none is, the samples are as good as those of a
    fixed variance."""

    def answer(variance: float) -> GaussianChain:
        schedule = Given(replace(plan(0.5), spread=LearnedVariance()))
        return GaussianChain(
            lambda x, k: torch.cat([x * 0.1, torch.full_like(x, variance)], dim=1), schedule, (2,), dtype=torch.float64
        )

    assert da.sample(answer(0.249), 20, sampler=Coupled(), seed=0).report.sample_rounds == (STEPS,) * 20
    assert da.sample(answer(0.251), 20, sampler=Coupled(), seed=0).report.mean_rounds < 4


# In company


def test_known_entries_of_chains_that_look_back(check: Check) -> None:
    """Entry 1 is known and overwritten; entry 0 is pushed by the copies of it, now and one step before."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.stack([0.8 * x[:, 1], torch.zeros_like(x[:, 1])], dim=1)

    known = torch.tensor([torch.nan, 0.5], dtype=torch.float64)
    chain = GaussianChain(denoiser, Given(history()), (2,), known=known, record=range(1, STEPS), dtype=torch.float64)
    x = da.sample(chain, 5_000, sampler=Coupled(), seed=0, max_live=5_000).samples
    copies, steps = x[..., 1], chain.plan
    drift = steps.b[1] * 0.8 * copies[:, 1:-1] + steps.c[2] * 0.8 * copies[:, :-2]  # type: ignore[index]
    xi = (x[:, 2:, 0] - steps.a[1] * x[:, 1:-1, 0] - drift) / steps.s[1]
    check(path_p_value(torch.stack([xi, (copies[:, 1:-1] - 0.5) / 0.3], dim=-1)))


def test_a_condition_tells_a_variance(check: Check) -> None:
    def denoiser(x: Tensor, k: Tensor, size: Tensor) -> Tensor:
        return torch.cat([torch.tanh(x), 0.1 + size * torch.cos(x) ** 2], dim=1)

    sizes = torch.linspace(0.1, 2.0, 4_000, dtype=torch.float64)[:, None]
    schedule = Given(replace(plan(0.3), spread=LearnedVariance()))
    chain = GaussianChain(
        denoiser, schedule, (1,), record=range(1, STEPS), dtype=torch.float64, condition={"size": sizes}
    )
    x = da.sample(chain, 4_000, sampler=Coupled(), seed=0, max_live=1_000).samples
    before, after = x[:, :-1], x[:, 1:]
    scale = (0.1 + sizes[:, None] * torch.cos(before) ** 2).sqrt()
    check(path_p_value((after - 0.7 * before - 0.6 * torch.tanh(before)) / scale))


@pytest.mark.parametrize("name", ["learned range", "history", "subspace", "all of it"])
def test_verify_follows_every_step(name: str) -> None:
    chain = CHAINS[name].replace(record=())
    verdict = da.verify(chain, 300, samplers=[Coupled()], with_power=False)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(("mutant", "name"), [(mirrored, "learned"), (forgotten, "history")])
def test_verify_finds_what_is_wrong(mutant: Callable[[Patch], None], name: str, monkeypatch: Patch) -> None:
    chain = CHAINS[name].replace(record=())
    mutant(monkeypatch)
    assert not da.verify(chain, 2_000, samplers=[Coupled()], with_power=False).passed


# What is refused


def test_what_recursive_cannot_draw() -> None:
    for name, reason in (("learned", "variance is learned"), ("history", "prediction before")):
        with pytest.raises(da.SamplingError, match=f"Recursive cannot draw.*{reason}.*Coupled"):
            da.sample(CHAINS[name], 1, sampler=Recursive())
    assert da.sample(CHAINS["subspace"], 3, sampler=Recursive(), seed=0).samples.sum(-1).abs().max() < 1e-12


def test_a_variance_that_is_negative_is_an_error_that_keeps_what_is_done() -> None:
    schedule = Given(replace(plan(0.5), spread=LearnedVariance()))
    chain = GaussianChain(lambda x, k: torch.cat([x, -torch.ones_like(x)], dim=1), schedule, (2,))
    with pytest.raises(da.SamplingError, match=r"sample 0 at step 0 is not finite") as caught:
        da.sample(chain, 2, sampler=Coupled())
    assert len(caught.value.result.samples) == 0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: da.DDPM(large_variance=True, learned_range=True), "not both"),
        (lambda: Given(replace(plan(), c=torch.ones(STEPS))), "c of a plan must begin with 0"),
        (lambda: Given(replace(plan(), c=torch.zeros(2))), "c of a plan"),
        (lambda: GaussianChain(bent, Given(plan()), (3,), project=lambda x: 2 * x), "orthogonal projection"),
        (lambda: GaussianChain(bent, Given(plan()), (3,), project=lambda x: x[:, :2]), "project must answer"),
        (
            lambda: GaussianChain(bent, Given(plan()), (3,), project=centred, known=torch.full((3,), torch.nan)),
            "known entries cannot be overwritten",
        ),
        (lambda: GaussianChain(bent, Given(plan()), (3,), project=centred, start=torch.ones(3)), "start must lie in"),
    ],
)
def test_bad_input(make: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make()


def test_a_network_of_noise_with_a_learned_variance() -> None:
    """The converters pass on what the variance is read from."""
    schedule = da.DDPM(linear_betas(STEPS, 0.15, 0.7), learned_range=True)

    def network(x: Tensor, t: Tensor) -> Tensor:
        return torch.cat([x, 3 * x], dim=1)

    x, k = torch.randn(4, 2, 3, dtype=torch.float64), torch.arange(4)
    answer = da.from_epsilon(network, schedule)(x, k)
    plain = da.from_epsilon(lambda x, t: x, da.DDPM(linear_betas(STEPS, 0.15, 0.7)))(x, k)
    assert torch.equal(answer[:, :2], plain) and torch.equal(answer[:, 2:], 3 * x)
    assert learned(x[:, 0], k).shape == variances(x[:, 0], k).shape == (4, 6)
