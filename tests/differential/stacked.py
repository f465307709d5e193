"""Random stacked chains, and their judge."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.samplers import Sampler
from tests import literal
from tests.differential.cases import Asked, Dice, asked, dice, drawn, told
from tests.differential.gaussian_cases import row_of
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
from tests.literal import Array, Lanes, Noise


@dataclass(frozen=True)
class LaneModel:
    """An oracle of lanes (m, c, *shape) -> (m, *shape): some function of a weighted sum of them, and a condition."""

    kind: str
    weights: tuple[float, ...]
    writes: bool

    def __call__(self, lanes: Tensor, k: Tensor, condition: Tensor | None = None) -> Tensor:
        weight = torch.tensor(self.weights, dtype=lanes.dtype).view(-1, *(1,) * (lanes.dim() - 2))
        along = (weight * lanes).sum(1) + (k % 3).view(-1, *(1,) * (lanes.dim() - 2)).to(lanes.dtype) / 4
        bent = {"linear": along, "wave": torch.sin(5 * along), "jump": along.sign(), "constant": along * 0 + 1}
        if self.writes:
            lanes.mul_(0)
            k.add_(1)
        return bent[self.kind] if condition is None else bent[self.kind] + condition.to(lanes.dtype)

    @property
    def steepest(self) -> float:
        return {"linear": 1.0, "wave": 5.0}.get(self.kind, 0.0) * sum(map(abs, self.weights))


@dataclass(frozen=True)
class StackedCase:
    name: str
    model: LaneModel
    plan: da.StackedPlan = field(repr=False)
    shape: tuple[int, ...]
    start: Tensor | None
    condition: Tensor | None
    record: tuple[int, ...]
    dtype: torch.dtype
    asked: Asked

    def chain(self, *, whole: bool = False) -> da.StackedChain:
        record = range(1, self.steps) if whole else self.record
        return da.StackedChain(
            self.model,
            self.plan,
            self.shape,
            start=self.start,
            record=record,
            dtype=self.dtype,
            condition=self.condition,
        )

    @property
    def steps(self) -> int:
        return self.plan.steps

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return (self.plan.lanes, *self.shape)

    @functools.cached_property
    def lanes(self) -> Lanes:
        """The plan for literal.py."""
        p = self.plan
        refresh = None if p.refresh is None else (p.refresh[0].numpy(), p.refresh[1].numpy())
        return Lanes(p.a.numpy(), p.b.numpy(), p.s.numpy(), p.start.numpy(), p.is_deterministic.tolist(), refresh)

    def oracle_of(self, number: int) -> literal.LaneOracle:
        """The oracle of one sample, for literal.py."""
        return lambda lanes, k: self.answers(torch.as_tensor(lanes)[None], k, [number])[0].numpy()

    def answers(self, lanes: Tensor, k: int, numbers: Sequence[int]) -> Tensor:
        """At lanes (m, c, d) of these samples, which are left as they are -> (m, d)."""
        shown = lanes.to(self.dtype, copy=True).view(len(lanes), -1, *self.shape)
        answer = self.model(shown, torch.full((len(lanes),), k), **told(self.condition, numbers))
        return answer.reshape(len(lanes), -1).double()

    def start_of(self, number: int) -> Array:
        """The first lanes of a sample (c, d)."""
        return literal.stacked_start(self.lanes, self.size, Noise(self.asked.seed, number), self._given(number))

    def literal(self, number: int) -> list[Array]:
        """Its lanes, one step after another."""
        return literal.stacked(
            self.oracle_of(number), self.lanes, self.size, self.asked.seed, number, self._given(number)
        )

    def _given(self, number: int) -> Array | None:
        if self.start is None:
            return None
        return row_of(self.start.reshape(-1, self.plan.lanes, self.size), number)


def stacked_case(seed: int, count: int) -> StackedCase:
    d = dice("stacked", seed)
    c, steps = d.choice([1, 2, 2, 3]), d.choice([1, 2, 3, 5, 8, 10, 20])
    r = d.randint(1, c)
    model = LaneModel(
        d.choice(["linear", "linear", "wave", "jump", "constant"]),
        tuple(d.uniform(-0.8, 0.8) for _ in range(c)),
        d.chance(0.25),
    )
    a = np.stack([_mixing(d, c) for _ in range(steps)])
    fixed = [d.chance(0.15) for _ in range(steps)] if d.chance(0.4) else None
    s = np.stack([_spreading(d, c, r) for _ in range(steps)])
    b = np.stack([np.zeros(r) if d.chance(0.1) else d.normals(r) * 0.7 for _ in range(steps)])
    if r > 1 and d.chance(0.2):  # a noise that goes nowhere, and is not pushed
        s[:, :, -1], b[:, -1] = 0.0, 0.0
    refresh = None
    if d.chance(0.5):
        q = d.randint(1, c)
        keep, add = np.stack([np.eye(c)] * (steps + 1)), np.zeros((steps + 1, c, q))
        for k in range(steps + 1):
            if d.chance(0.3):
                keep[k][d.randrange(c)] *= d.choice([0.0, -0.5])
                add[k] = d.normals(c, q)
        refresh = torch.as_tensor(keep), torch.as_tensor(add)
    reads = d.normals(steps, c) if d.chance(0.5) else None
    bounds = np.sort(d.normals(2, steps), axis=0)
    plan = da.StackedPlan(
        torch.as_tensor(a),
        torch.as_tensor(b),
        torch.as_tensor(s),
        start=torch.tensor([d.choice([0.0, 1.0, 2.0]) for _ in range(c)]),
        final=torch.eye(c),
        refresh=refresh,
        deterministic=None if fixed is None else torch.tensor(fixed),
        reads=None if reads is None else torch.as_tensor(reads),
        slopes=(torch.as_tensor(bounds[0]), torch.as_tensor(bounds[1])) if d.chance(0.3) else None,
    )
    shape = d.choice([(1,), (2,), (2, 2)])
    rows = count + 3 if d.chance(0.3) else 1
    start = d.choice([None, None, torch.as_tensor(d.normals(rows, c, *shape))])
    condition = d.choice([None, None, None, torch.as_tensor(d.normals(rows, *shape))])
    record = tuple(d.sample(range(1, steps), d.randrange(min(4, steps))))
    dtype = d.choice([torch.float64, torch.float64, torch.float32])
    wanted = asked(d, count, tables=rows > 1)
    return StackedCase(f"stacked {seed}", model, plan, shape, start, condition, record, dtype, wanted)


def _mixing(d: Dice, c: int) -> Array:
    """A matrix of norm at most 1.1, sometimes singular."""
    matrix = d.normals(c, c)
    if d.chance(0.15):
        matrix[d.randrange(c)] = 0.0
    size = np.linalg.norm(matrix, 2)
    return matrix * (d.uniform(0.1, 1.1) / size if size else 1.0)


def _spreading(d: Dice, c: int, r: int) -> Array:
    """Columns that are independent, and not by a hair."""
    orthogonal = np.linalg.qr(d.normals(c, c))[0][:, :r]
    return orthogonal * np.array([d.size(-1, 0.5) for _ in range(r)])


def judge_stacked(case: StackedCase, samplers: Iterable[Sampler], d: Dice) -> None:
    """As for Gaussian steps."""
    chain = case.chain(whole=True)
    expected = torch.as_tensor(np.array([case.literal(number) for number in case.asked.numbers])).flatten(2)
    slack = strayed(case.dtype, max(1.0, float(expected.abs().max())), growth(case))
    for sampler in (da.Sequential(), *samplers):
        samples = drawn(chain, sampler, case.asked)
        states = path_of(samples, expected[:, 0])
        for row, number in enumerate(case.asked.numbers):
            judge_steps(case, states[row].numpy(), number, sampler)
        if is_literal(sampler):
            judge_same(states, expected, slack, f"{sampler} strays from the loop")
        judge_company(case, sampler, samples, d, slack)


def growth(case: StackedCase) -> float:
    """How much a small change of the lanes may grow."""
    plan, growth, most = case.lanes, 1.0, 1.0
    for k in range(case.steps):
        keep = 1.0 if plan.refresh is None else float(np.linalg.norm(plan.refresh[0][k + 1], 2))
        push = float(np.linalg.norm(plan.s[k] @ plan.b[k])) * case.model.steepest
        growth = max(1.0, growth * keep * (float(np.linalg.norm(plan.a[k], 2)) + push))
        most = max(most, growth)
    return most


def judge_steps(case: StackedCase, states: Array, number: int, sampler: Sampler) -> None:
    plan, noise = case.lanes, Noise(case.asked.seed, number)
    for k in range(case.steps):
        before, after = (states[i].reshape(case.plan.lanes, case.size) for i in (k, k + 1))
        there = literal.stacked_step(case.oracle_of(number), plan, k, before, noise)
        size = max(float(np.abs(lanes).max()) for lanes in (before, after, plan.s[k]))
        slack = 10 * rounding(case.dtype) * (1 + case.model.steepest) * size + floor(case.dtype)
        if not is_literal(sampler) and not plan.fixed[k]:
            slack += 2 * FAR * float(np.abs(pushes(case, k)).sum(1).max())
        assert (np.abs(after - there) <= slack).all(), (
            f"step {k} of sample {number} by {sampler}: {after} after {before}, but the loop says {there}"
        )


def pushes(case: StackedCase, k: int) -> Array:
    """How the noise of step k enters the lanes, once they are refreshed (c, r)."""
    plan = case.lanes
    return plan.s[k] if plan.refresh is None else plan.refresh[0][k + 1] @ plan.s[k]


def stacked_noise(case: StackedCase, samples: Tensor) -> Tensor:
    """The noise of every step (m, N, r d), NaN where the lanes do not tell it."""
    plan, streams = case.lanes, [Noise(case.asked.seed, number) for number in case.asked.numbers]
    first = torch.as_tensor(np.array([case.start_of(number) for number in case.asked.numbers]))
    x = path_of(samples, first).unflatten(-1, (case.plan.lanes, case.size)).numpy()
    z = np.full((len(x), case.steps, plan.b.shape[1] * case.size), np.nan)
    for k in range(case.steps):
        push = pushes(case, k)
        if plan.fixed[k] or np.linalg.matrix_rank(push, 1e-3) < push.shape[1]:
            continue
        answer = case.answers(torch.as_tensor(x[:, k]), k, case.asked.numbers).numpy()
        mean = plan.a[k] @ x[:, k] + (plan.s[k] @ plan.b[k])[:, None] * answer[:, None]
        pairs = zip(mean, streams, strict=True)
        mean = np.stack([literal.refreshed(lanes, plan, k + 1, stream) for lanes, stream in pairs])
        z[:, k] = (np.linalg.pinv(push) @ (x[:, k + 1] - mean)).reshape(len(x), -1)
    return torch.as_tensor(z)


def stacked_p_value(case: StackedCase, sampler: Sampler, **options: Any) -> float:
    """That the noise of every step is fresh and standard normal."""
    return noise_p_value(stacked_noise(case, drawn(case.chain(whole=True), sampler, case.asked, **options)))
