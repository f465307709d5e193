"""The judge of Gaussian steps: against the literal ones, in any company, by their noise, and in closed form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.samplers import Sampler
from tests import literal
from tests.differential.cases import Dice, drawn
from tests.differential.gaussian_cases import GaussianCase
from tests.differential.judge import (
    FAR,
    floor,
    is_literal,
    judge_company,
    judge_same,
    noise_p_value,
    path_of,
    rounding,
    strayed,
)
from tests.literal import Noise


def judge_gaussian(case: GaussianCase, samplers: Iterable[Sampler], d: Dice) -> None:
    """Sequential takes the literal steps; any sampler takes possible ones, and the same in any company."""
    chain = case.chain(whole=True)
    expected = torch.as_tensor(np.array([case.literal(number) for number in case.asked.numbers]))
    size = max(1.0, float(expected.abs().max()), 10 * max(case.numbers.s))
    for sampler in (da.Sequential(), *samplers):
        samples = drawn(chain, sampler, case.asked)
        states = path_of(samples, expected[:, 0], case.plan.final)
        assert bool(states.isfinite().all()), f"{sampler} draws what is not finite"
        assert not bool(noise_of(case, states).isinf().any()), f"{sampler} takes a step that no noise could make"
        if case.known is not None:
            judge_known(case, states, sampler)
        if is_literal(sampler):
            judge_steps(case, states, sampler)
            slack = strayed(case.dtype, size, growth(case, answered=True))
            judge_same(states, expected, slack, f"{sampler} strays from the loop")
        # Along a guess, answers are old ones: they do not hold the states together.
        slack = strayed(case.dtype, size, growth(case, answered=isinstance(sampler, da.Sequential)))
        judge_company(case, sampler, samples, d, slack * max(1.0, abs(case.plan.final)))


def growth(case: GaussianCase, *, answered: bool) -> float:
    """How much a small change of a state may grow along the chain, if its answers follow it at once, or later."""
    plan, model, now, most = case.numbers, case.prediction, 1.0, 1.0
    for k, (a, b) in enumerate(zip(plan.a, plan.b, strict=True)):
        pull = model.pull(k) if answered else 0.0
        now = max(1.0, now * (abs(a + b * pull) + abs(b) * (model.steepest - abs(pull))))
        most = max(most, now)
    return most


def judge_steps(case: GaussianCase, states: Tensor, sampler: Sampler) -> None:
    """That each step of each path (m, N + 1, d) is the literal one."""
    _, slack = steps_of(case, states)
    for row, number in enumerate(case.asked.numbers):
        noise, known, denoiser = Noise(case.asked.seed, number), case.known_of(number), case.denoiser_of(number)
        for k in range(case.steps):
            before, after = states[row, k].numpy(), states[row, k + 1].numpy()
            there = literal.gaussian_step(denoiser, case.numbers, k, before, noise, known)
            assert (np.abs(after - there) <= slack[row, k].numpy()).all(), (
                f"step {k} of sample {number} by {sampler}: {after} after {before}, but the loop says {there}"
            )


def steps_of(case: GaussianCase, states: Tensor) -> tuple[Tensor, Tensor]:
    """What each step of paths (m, N + 1, d) adds to its mean (m, N, d), and how much of that may be rounding: some of
    the largest number in it (m, N, 1)."""
    added, slack = [], []
    for k in range(case.steps):
        a, b, s = (float(table[k]) for table in (case.plan.a, case.plan.b, case.plan.s))
        before, after = states[:, k], states[:, k + 1]
        answer = case.answers(before, k, case.asked.numbers)
        added.append(after - a * before - b * answer)
        # Where the model was really asked differs from what was recorded by a rounding, and its answer by more.
        terms = [a * before, b * answer, b * case.prediction.steepest * before, after, torch.full_like(after, 10 * s)]
        largest = torch.stack(terms).abs().amax(0).amax(-1, keepdim=True)
        slack.append(rounding(case.dtype) * largest + floor(case.dtype))
    return torch.stack(added, dim=1), torch.stack(slack, dim=1)


def noise_of(case: GaussianCase, states: Tensor) -> Tensor:
    """The noise of every step of paths (m, N + 1, d) -> (m, N, d). NaN where it cannot be read: of known entries, and
    of steps that add no more than rounding. Infinite where no noise could have made a step."""
    added, slack = steps_of(case, states)
    s = case.plan.s[:, None]
    readable = slack.amax(0) < 1e-3 * s
    z = torch.where(readable, added / torch.where(s > 0, s, 1.0), torch.nan)
    z = z.masked_fill(~(added.abs() <= slack + FAR * s), torch.inf)  # so also where it is not finite
    if case.known is None:
        return z
    known = torch.as_tensor(np.array([case.known_of(number) for number in case.asked.numbers]))
    return z.masked_fill(~known.isnan()[:, None], torch.nan)


def judge_known(case: GaussianCase, states: Tensor, sampler: Sampler) -> None:
    """That the known entries of paths (m, N + 1, d) are the noised copies they should be."""
    copies = torch.as_tensor(np.array([case.copies_of(number) for number in case.asked.numbers]))
    off = (states - copies).abs().nan_to_num(0.0)
    assert bool((off <= rounding(case.dtype) * copies.nan_to_num(0.0).abs()).all()), f"{sampler} loses known entries"


def gaussian_p_value(case: GaussianCase, sampler: Sampler, **options: Any) -> float:
    """That the noise of every step is fresh and standard normal."""
    samples = drawn(case.chain(whole=True), sampler, case.asked, **options)
    first = torch.as_tensor(np.array([case.start_of(number) for number in case.asked.numbers]))
    return noise_p_value(noise_of(case, path_of(samples, first, case.plan.final)))


def closed_form_p_value(case: GaussianCase, sampler: Sampler, **options: Any) -> float:
    """That the last states of a linear chain have their Gaussian law, whose mean and covariance are worked out here."""
    d, plan = case.size, case.numbers
    eye, zero = torch.eye(d, dtype=torch.float64), torch.zeros(1, d, dtype=torch.float64)
    mean, spread = zero, eye * plan.start**2
    if case.start is not None:
        mean, spread = torch.as_tensor(np.array([case.start_of(number) for number in case.asked.numbers])), eye * 0
    for k in range(case.steps):
        shift = case.answers(zero, k, [0])
        turn = case.answers(eye, k, [0] * d) - shift  # row i: where the i-th unit vector goes
        move = plan.a[k] * eye + plan.b[k] * turn
        mean, spread = mean @ move + plan.b[k] * shift, move.T @ spread @ move + plan.s[k] ** 2 * eye
    samples = drawn(case.chain(), sampler, case.asked, **options).double().reshape(case.asked.count, -1, d)
    off = samples[:, -1] / case.plan.final - mean
    size, axes = torch.linalg.eigh(spread)
    slack = 100 * rounding(case.dtype) * max(1.0, float(samples.abs().max()))
    along, deviation = off @ axes, size.clamp(min=0).sqrt()
    random = deviation > 1e3 * slack
    if bool((along[:, ~random].abs() > slack + FAR * deviation[~random]).any()):
        return 0.0
    return noise_p_value((along[:, random] / deviation[random])[:, None])
