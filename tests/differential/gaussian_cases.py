"""Random chains of Gaussian steps, of four themes: plain ones, wild ones, expanding ones, and drawahead's own.

Whatever A is, B is chosen so that the states stay bounded: a chain that explodes says nothing, for its steps lose their
noise to rounding. In an expanding one it is the answers alone that hold the states together, and a draft that is a
little wrong is soon very wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.schedules import Given, Plan, Schedule, linear_betas
from tests import literal
from tests.differential.cases import Asked, Dice, asked, dice, told
from tests.literal import Array, Noise, Steps

NAN = float("nan")
LINEAR = ("itself", "linear", "constant")


@dataclass(frozen=True)
class Prediction:
    """A denoiser (x (m, *shape), k (m,)) -> (m, *shape); entry by entry, but for a `turn` to the neighbouring one.

    A condition (m, *shape) is added to its answers.
    """

    kind: str
    gains: tuple[float, ...]  # of steps k, k + len(gains), ...
    turn: float
    shift: float
    writes: bool  # into what it is shown, once it has read it

    def __call__(self, x: Tensor, k: Tensor, condition: Tensor | None = None) -> Tensor:
        gain = torch.tensor(self.gains, dtype=x.dtype)[k % len(self.gains)].view(-1, *(1,) * (x.dim() - 1))
        answer = self._of(x, gain) if condition is None else self._of(x, gain) + condition.to(x.dtype)
        if self.writes:
            x.mul_(0)
            k.add_(1)
        return answer

    def _of(self, x: Tensor, gain: Tensor) -> Tensor:
        match self.kind:
            case "itself":
                return x  # no copy: what is done to the answer is done to the question
            case "linear":
                return gain * x + self.turn * x.roll(1, -1) + self.shift
            case "ripple":
                return gain * x + 0.1 * torch.sin(5 * x) + self.shift
            case "wave":
                return gain * torch.sin(5 * x) + self.shift
            case "jump":
                return gain * torch.sign(x) + self.shift
            case "bend":
                return gain * torch.tanh(x + self.turn * x.roll(1, -1)) + self.shift
        return (gain + self.shift).expand_as(x)  # constant

    @property
    def linear(self) -> bool:
        return self.kind in LINEAR

    def pull(self, k: int) -> float:
        """How an answer follows a state that is far away; 0 if it is bounded."""
        return {"itself": 1.0, "linear": self._gain(k), "ripple": self._gain(k)}.get(self.kind, 0.0)

    def _gain(self, k: int) -> float:
        return self.gains[k % len(self.gains)]

    @property
    def steepest(self) -> float:
        """How much farther apart answers can be than states, jumps aside."""
        most = max(map(abs, self.gains))
        turned = {"linear": most + abs(self.turn), "bend": most * (1 + abs(self.turn))}
        return {"itself": 1.0, "ripple": most + 0.5, "wave": 5 * most, **turned}.get(self.kind, 0.0)


def prediction(d: Dice, kinds: Sequence[str]) -> Prediction:
    kind = d.choice(kinds)
    gains = tuple(d.either(d.size(-0.7, 0.2)) for _ in range(d.choice([1, 1, 3])))
    turn = d.choice([0.0, 0.0, 0.3, -0.6]) if kind in ("linear", "bend") else 0.0
    return Prediction(kind, gains, turn, d.choice([0.0, 0.0, 0.7, -1.5]), d.chance(0.25) and kind != "itself")


@dataclass(frozen=True)
class GaussianCase:
    name: str
    prediction: Prediction
    schedule: Schedule
    plan: Plan = field(repr=False)
    shape: tuple[int, ...]
    start: Tensor | None
    known: Tensor | None
    condition: Tensor | None
    record: tuple[int, ...]
    dtype: torch.dtype
    asked: Asked

    def chain(self, *, whole: bool = False) -> da.GaussianChain:
        """`whole`: with every state recorded."""
        return da.GaussianChain(
            self.prediction,
            self.schedule,
            self.shape,
            start=self.start,
            known=self.known,
            record=range(1, self.steps) if whole else self.record,
            dtype=self.dtype,
            condition=self.condition,
        )

    @property
    def steps(self) -> int:
        return len(self.plan.a)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return self.shape

    @functools.cached_property
    def numbers(self) -> Steps:
        """The plan for literal.py."""
        p = self.plan
        return Steps(*(list(map(float, part)) for part in (p.a, p.b, p.s, p.signal, p.noise)), p.start)

    def denoiser_of(self, number: int) -> literal.Denoiser:
        """The denoiser of one sample, for literal.py."""
        return lambda x, k: self.answers(torch.as_tensor(x)[None], k, [number])[0].numpy()

    def answers(self, x: Tensor, k: int, numbers: Sequence[int]) -> Tensor:
        """The predictions that step k uses, at states (m, d) of these samples, which are left as they are."""
        shown = x.to(self.dtype, copy=True).view(-1, *self.shape)
        answer = self.prediction(shown, torch.full((len(x),), k), **told(self.condition, numbers)).clone()
        return self.schedule.adjust(answer.reshape(len(x), -1).double())

    def start_of(self, number: int) -> Array:
        """The first state of a sample (d,)."""
        given, noise = _vector_of(self.start, self.size, number), Noise(self.asked.seed, number)
        return literal.gaussian_start(self.numbers, self.size, noise, given, self.known_of(number))

    def known_of(self, number: int) -> Array | None:
        return _vector_of(self.known, self.size, number)

    def copies_of(self, number: int) -> list[Array]:
        """The noised copies of a sample's known entries after 0, 1, ... N steps; NaN at the others."""
        known, noise = self.known_of(number), Noise(self.asked.seed, number)
        nothing = np.full(self.size, np.nan)
        return [literal.overwritten(nothing, self.numbers, taken, noise, known) for taken in range(self.steps + 1)]

    def literal(self, number: int) -> list[Array]:
        """Its states, one after another."""
        start, known = _vector_of(self.start, self.size, number), self.known_of(number)
        return literal.gaussian(
            self.denoiser_of(number), self.numbers, self.size, self.asked.seed, number, start, known
        )


def _vector_of(table: Tensor | None, size: int, number: int) -> Array | None:
    return None if table is None else row_of(table.double().reshape(-1, size), number)


def row_of(rows: Tensor, number: int) -> Array:
    """What a sample has of a table with a row for each, or one for all."""
    return rows[number if len(rows) > 1 else 0].numpy()


def gaussian_case(seed: int, count: int, *, linear: bool = False) -> GaussianCase:
    """`linear` ones have a law in closed form."""
    d = dice("gaussian", seed)
    theme = d.choices(["plain", "wild", "expanding", "own"], [30, 46, 13, 11])[0]
    kinds = _KINDS[theme]
    model = prediction(d, [kind for kind in kinds if kind in LINEAR] if linear else kinds)
    schedule = _own_schedule(d, linear) if theme == "own" else Given(_PLANS[theme](d, model))
    plan = schedule.plan()
    shape = d.choice([(1,), (1,), (2,), (3,), (2, 2), (5,)])
    rows, size = count + 3, math.prod(shape)
    tables = d.chance(0.25)
    start = d.choice([None, None, d.normals(rows if tables else 1, *shape)])
    known = None
    if not linear and d.chance(0.3 if theme == "wild" else 0.15):
        known = np.stack([_known(d, size) for _ in range(rows if tables else 1)]).reshape(-1, *shape)
    condition = None
    if not linear and d.chance(0.2):
        condition = torch.as_tensor(d.normals(rows if tables else 1, *shape))
    return GaussianCase(
        f"gaussian {seed}",
        model,
        schedule,
        plan,
        shape,
        None if start is None else torch.as_tensor(start if tables else start[0]),
        None if known is None else torch.as_tensor(known if tables else known[0]),
        condition,
        tuple(d.sample(range(1, len(plan.a)), d.randrange(min(4, len(plan.a))))),
        d.choice([torch.float64, torch.float64, torch.float32]),
        asked(d, count, tables),
    )


def _known(d: Dice, size: int) -> Array:
    share = d.choice([0.0, 0.4, 1.0])
    return np.array([d.gauss(0, 1) if d.chance(share) else NAN for _ in range(size)])


def _own_schedule(d: Dice, linear: bool) -> Schedule:
    """One of drawahead's own. With few steps the exponential integrator has a negative A."""
    count = d.randint(2, 12)
    return d.choice(
        [
            da.OUExponential.even(count),
            da.OUExponential((1.0, 0.1)),
            da.DDPM(betas=linear_betas(count, 0.15, 0.7), clip=None if linear else d.choice([None, 0.5])),
            da.EulerAncestral((*(12.0 * 0.5**i for i in range(count)), 0.0)),
            da.StochasticLocalization(count, delta=0.05),
        ]
    )


def _plain_plan(d: Dice, model: Prediction) -> Plan:
    """Like those of diffusions: states shrink, answers push, and drafts are good, bad or in between."""
    steps = d.choice([6, 12, 16, 24, 32, 48])
    a = [d.uniform(0.6, 1.0) for _ in range(steps)]
    push = d.choice([0.3, 1.0, 2.0, 3.0])
    b = [d.uniform(0.5, 1.0) * (min(push, (1.1 - one) / model.steepest) if model.pull(0) else push) for one in a]
    signal = [d.uniform(0.2, 1.5) for _ in range(steps + 1)]
    if d.chance(0.3):  # answers pull, and A + B / signal is exactly zero
        signal = [d.choice([0.125, 0.25] if model.pull(0) else [0.5, 1.0, 2.0]) for _ in range(steps + 1)]
        b = [-one * part for one, part in zip(a, signal, strict=False)]
    return _planned(d, a, b, [d.size(-1.3, 0.3) for _ in range(steps)], signal)


def _wild_plan(d: Dice, model: Prediction) -> Plan:
    steps = d.choice([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 25])
    style = d.choice(["tame", "negative", "large", "tiny", "zero", "mixed", "mixed"])
    a, b = [], []
    for k in range(steps):
        one = _a(d, d.choice(["tame", "negative", "large", "tiny", "zero"]) if style == "mixed" else style)
        two = 0.0 if d.chance(0.1) else d.uniform(-1.5, 1.5)
        if model.turn and (steps > 12 or abs(one) > 1.1):
            one, two = d.uniform(-0.5, 0.5), d.uniform(-0.4, 0.4) / model.steepest
        elif model.pull(k) and (steps > 12 or abs(one) > 1.1):
            two = (d.uniform(-0.9, 0.9) - one) / model.pull(k)
        elif steps > 12:
            one = max(-1.02, min(1.02, one))
        a.append(one)
        b.append(two)
    return _planned(d, a, b, _s(d, steps), _signal(d, a, b))


def _expanding_plan(d: Dice, model: Prediction) -> Plan:
    """Without answers, states would grow by far more than a number has digits."""
    steps = d.choice([20, 60, 60])
    a = [d.either(d.uniform(2.0, 3.0)) if d.chance(0.95) else d.uniform(-1, 1) for _ in range(steps)]
    b = [(d.uniform(-0.9, 0.9) - one) / model.pull(k) for k, one in enumerate(a)]
    return _planned(d, a, b, [d.size(-1, 0.7) for _ in range(steps)], _signal(d, a, b))


def _planned(d: Dice, a: list[float], b: list[float], s: list[float], signal: list[float]) -> Plan:
    noise = [0.0 if d.chance(0.2) else d.uniform(0, 1.5) for _ in signal]
    tables = [torch.tensor(part, dtype=torch.float64) for part in (a, b, s, signal, noise, list(range(len(a))))]
    return Plan(*tables, start=d.choice([0.0, 1.0, 1.0, 4.0]), final=d.choice([1.0, 1.0, 0.5, -2.0]))


_PLANS = {"plain": _plain_plan, "wild": _wild_plan, "expanding": _expanding_plan}
_KINDS = {
    "plain": ["linear", "ripple", "wave", "bend", "bend", "jump"],
    "wild": ["linear", "linear", "ripple", "wave", "jump", "bend", "constant", "itself"],
    "expanding": ["itself", "ripple", "ripple"],
    "own": ["bend", "linear", "jump"],
}


def _a(d: Dice, kind: str) -> float:
    if kind == "tame":
        return d.choice([1.0, d.uniform(0.3, 1.1)])
    if kind == "negative":
        return -d.uniform(0.05, 1.5)
    if kind == "large":
        return d.either(d.uniform(1.2, 3.0))
    if kind == "tiny":
        return d.either(d.size(-120, -1))
    return 0.0 if d.chance(0.7) else d.uniform(-1, 1)


def _s(d: Dice, steps: int) -> list[float]:
    style = d.choice(["plain", "plain", "plain", "gaps", "gaps", "wide", "extreme", "extreme", "none"])
    some = {
        "plain": lambda: d.size(-1, 0.7),
        "gaps": lambda: 0.0 if d.chance(0.35) else d.size(-1, 0.7),
        "wide": lambda: d.size(-8, 1),
        "extreme": lambda: d.choice([1e-160, 1e-160, 1e-30, 1e-8, 1.0, 10.0]),
        "none": lambda: 0.0,
    }
    return [some[style]() for _ in range(steps)]


def _signal(d: Dice, a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Any numbers will do: the law without known entries does not depend on them. Some make A + B / signal zero."""
    style = d.choice(["one", "positive", "either", "zero", "cancelling", "cancelling"])
    if style == "cancelling":
        return [*(-two / one if abs(one) > 1e-3 and two else 1.0 for one, two in zip(a, b, strict=True)), 1.0]
    some = {
        "one": lambda: 1.0,
        "positive": lambda: d.uniform(0.1, 2.0),
        "either": lambda: d.either(d.uniform(0.1, 2.0)),
        "zero": lambda: 0.0 if d.chance(0.5) else d.uniform(-1, 1),
    }
    return [some[style]() for _ in range(len(a) + 1)]
