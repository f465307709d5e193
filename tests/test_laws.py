"""The one-step laws of tokens: drawing, ratios, residuals, coupling."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from drawahead import Categorical
from drawahead.randomness import Purpose, Stream
from drawahead.verification.statistics import chi_square
from tests.exactness import combined

Check = Callable[[float], None]
DRAWS = 20_000
P = torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0], dtype=torch.float64)
Q = torch.tensor([0.1, 0.3, 0.2, 0.0, 0.4], dtype=torch.float64)


def random_laws(rows: int, width: int, q: int, seed: int) -> Categorical:
    logits = 2 * torch.randn(rows, width, q, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return Categorical(logits.log_softmax(-1))


def many(probs: Tensor) -> Categorical:
    """The same law in DRAWS rows, to be drawn once each."""
    return Categorical(probs.log().expand(DRAWS, 1, -1))


def noise_for(law: Categorical, purpose: Purpose = Purpose.VALUE) -> Tensor:
    rows, width = law.shape
    return law.noise(Stream.of_samples(0, torch.arange(rows)), purpose, torch.arange(width).expand(rows, width))


def p_value(values: Tensor, probs: Tensor) -> float:
    return chi_square(torch.bincount(values.flatten(), minlength=len(probs)), probs)


def test_draws_have_the_law(check: Check) -> None:
    law = many(P)
    check(p_value(law.draw(noise_for(law)), P))


def test_draws_are_a_function_of_the_noise() -> None:
    law = random_laws(50, 7, 4, seed=0)
    noise = noise_for(law)
    assert noise.shape == (50, 7, 4) and bool(noise.isfinite().all())
    assert torch.equal(law.draw(noise), law.draw(noise.clone()))


def test_log_ratio() -> None:
    target, draft = Categorical(P.log().expand(1, 5, -1)), Categorical(Q.log().expand(1, 5, -1))
    ratio = target.log_ratio(draft, torch.arange(5)[None]).exp()
    assert ratio[0, :3].tolist() == pytest.approx([5, 2 / 3, 1])
    assert ratio[0, 3] == math.inf and ratio[0, 4] == 0
    assert torch.equal(target.log_ratio(target, torch.arange(5)[None]), torch.zeros(1, 5, dtype=torch.float64))


def test_residual_mass_is_total_variation() -> None:
    target, draft = random_laws(40, 6, 5, seed=1), random_laws(40, 6, 5, seed=2)
    none = torch.zeros(40, 6, dtype=torch.float64)
    variation = (target.log_probs.exp() - draft.log_probs.exp()).abs().sum(-1) / 2
    assert torch.allclose(target.residual_mass(draft, none), variation)
    assert torch.allclose(draft.residual_mass(target, none), variation)
    assert torch.equal(target.residual_mass(target, none), none)


def test_residual_mass_with_a_weight() -> None:
    """(p mu - nu)_+ and (nu - p mu)_+ differ by p - 1; and no weight, no mass."""
    target, draft = random_laws(40, 6, 5, seed=3), random_laws(40, 6, 5, seed=4)
    weight = torch.rand(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    mass = target.residual_mass(draft, weight.log())
    below = (draft.log_probs.exp() - weight[..., None] * target.log_probs.exp()).clamp(min=0).sum(-1)
    assert torch.allclose(mass - below, weight - 1)
    assert bool((mass <= target.residual_mass(draft, torch.zeros_like(weight)) + 1e-15).all())
    assert not target.residual_mass(draft, torch.full_like(weight, -torch.inf)).any()


@pytest.mark.parametrize("weight", [1.0, 0.7, 0.3])
def test_residual_draws(weight: float, check: Check) -> None:
    target, draft = many(P), many(Q)
    log_weight = torch.full((DRAWS, 1), math.log(weight), dtype=torch.float64)
    values = target.draw_residual(draft, log_weight, noise_for(target))
    residual = (weight * P - Q).clamp(min=0)
    check(p_value(values, residual / residual.sum()))


def test_an_empty_residual_falls_back_to_the_target(check: Check) -> None:
    target = many(P)
    values = target.draw_residual(target, torch.zeros(DRAWS, 1, dtype=torch.float64), noise_for(target))
    check(p_value(values, P))


def test_accepting_or_correcting_gives_the_target(check: Check) -> None:
    """min(1, mu / nu), else the residual: the identity every step of a window rests on. A guess is kept with
    probability one minus the total variation."""
    target, draft = many(P), many(Q)
    guess = draft.draw(noise_for(draft))
    uniform = Stream.of_samples(0, torch.arange(DRAWS)).uniform(Purpose.ACCEPT, torch.zeros(DRAWS, 1, dtype=torch.long))
    accepted = uniform.log() <= target.log_ratio(draft, guess)
    none = torch.zeros(DRAWS, 1, dtype=torch.float64)
    values = torch.where(accepted, guess, target.draw_residual(draft, none, noise_for(target, Purpose.CORRECT)))
    kept, variation = int(accepted.sum()), float((P - Q).abs().sum()) / 2
    as_often = chi_square(torch.tensor([kept, DRAWS - kept]), torch.tensor([1 - variation, variation]))
    check(combined([p_value(values, P), as_often]))


def test_coupling() -> None:
    """The value is the target's own draw; it agrees with the guess at least as often as the theory promises."""
    target, draft = many(P), many(Q)
    noise = noise_for(draft)
    guess = draft.draw(noise)
    value, agrees = target.couple(draft, guess, noise, torch.zeros(DRAWS, 1, dtype=torch.float64))
    assert torch.equal(value, target.draw(noise)) and torch.equal(agrees, value == guess)
    variation = float((P - Q).abs().sum()) / 2
    assert float(agrees.double().mean()) > (1 - variation) / (1 + variation) - 0.02
    same, always = target.couple(target, target.draw(noise), noise, torch.zeros(DRAWS, 1, dtype=torch.float64))
    assert bool(always.all()) and torch.equal(same, target.draw(noise))


def test_tables_are_indexed_and_joined() -> None:
    law = random_laws(4, 6, 3, seed=6)
    rows, columns = torch.tensor([[0], [3]]), torch.tensor([[1, 5]])
    part = law[rows, columns]
    assert part.shape == (2, 2) and torch.equal(part.log_probs[1, 1], law.log_probs[3, 5])
    both = part.join(part)
    assert both.shape == (2, 4) and torch.equal(both.log_probs[:, 2:], part.log_probs)
