"""Sequences of calls of `sample`: one model, or a few, in chains that are changed and replaced, and their judge."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.chains import Chain
from drawahead.errors import InputError
from drawahead.samplers import Sampler
from drawahead.schedules import linear_betas
from tests.differential.cases import Dice, dice, sampler
from tests.differential.judge import packs
from tests.differential.sequences import PACES, After, Broken, Clock, Drawn, judge_equal, made_up_time, named, normals

NAN = float("nan")
SHAPE, LANES, LENGTH, WORDS, ROWS = (3,), 2, 9, 3, 9
"""Of a vector; how many of a stacked state; tokens of a sequence, and of how many kinds; rows of tables."""
MOST = 5
"""Samples of a call."""
GAINS = [0.8, 0.3, 3.0, 3.0, -3.0]
"""With a large one drafts are seldom right."""
Sample = Callable[..., da.Result]


@dataclass(frozen=True)
class Weights:
    """All that a model's answers depend on."""

    seed: int
    gain: float
    lift: float = 0.0
    bent: bool = True
    training: bool = False
    hooked: bool = False


class Model(nn.Module):
    """A denoiser, an oracle of lanes or of tokens, entry by entry: no answer depends on its company, to the last bit.

    It takes its time, which is made up.
    """

    def __init__(self, kind: str, weights: Weights) -> None:
        super().__init__()
        self.kind = kind
        self.mix, self.field = (nn.Parameter(table) for table in tables(weights.seed))
        self.gain, self.bent, self.options = weights.gain, weights.bent, {"lift": weights.lift}
        self.train(weights.training)
        self.handle = self.register_forward_hook(halved) if weights.hooked else None

    def forward(self, x: Tensor, k: Tensor | None = None, condition: Tensor | None = None) -> Tensor:
        time.sleep(len(x))
        if k is None:
            return self._rows(x, condition)
        if self.kind == "stacked":
            x = x[:, 0] + 0.5 * x[:, 1]
        along = self.mix[0, 0] * x + self.mix[0, 1] * x.roll(1, -1) + 0.05 * k.view(-1, *(1,) * (x.dim() - 1))
        out = self.gain * (torch.tanh(along) if self.bent else torch.sin(2 * along)) + self.options["lift"]
        out = -out if self.training else out
        return (out if condition is None else out + 0.5 * condition.to(out.dtype)).to(x.dtype)

    def _rows(self, tokens: Tensor, condition: Tensor | None) -> Tensor:
        spins = tokens.double() - 1 + self.options["lift"]  # what is hidden is -1, and counts too
        out = torch.zeros(*tokens.shape, WORDS, dtype=torch.float64)
        for j in range(LENGTH):
            out = out + (self.mix[:, j : j + 1] * spins[:, j : j + 1, None]).sin() * self.field[:, j]
        out = self.gain * (torch.tanh(out) if self.bent else out)
        out = -out if self.training else out
        return (out if condition is None else out + condition[:, None]).log_softmax(-1)


def halved(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return (0.5 * output).log_softmax(-1) if output.shape[-1] == WORDS and output.dim() == 3 else 0.5 * output


def tables(seed: int) -> tuple[Tensor, Tensor]:
    return normals(seed, LENGTH, LENGTH), normals(seed + 1, WORDS, LENGTH)


def stacked_plan(steps: int) -> da.StackedPlan:
    turn = torch.tensor([[0.8, 0.3], [-0.3, 0.8]], dtype=torch.float64).expand(steps, LANES, LANES)
    s = torch.tensor([[0.6, 0.0], [0.3, 0.5]], dtype=torch.float64).expand(steps, LANES, 2)
    b = torch.linspace(0.4, 1.2, 2 * steps, dtype=torch.float64).view(steps, 2)
    start = torch.tensor([1.0, 0.5], dtype=torch.float64)
    return da.StackedPlan(turn, b, s, start=start, final=torch.eye(LANES, dtype=torch.float64))


SCHEDULES: list[Callable[[], Any]] = [
    lambda: da.DDPM(betas=linear_betas(12, 0.15, 0.7)),
    lambda: da.DDPM(betas=linear_betas(12, 0.1, 0.6), clip=0.8),
    lambda: da.EulerAncestral((*(12.0 * 0.7**i for i in range(20)), 0.0)),
    lambda: da.EulerAncestral((*(3.0 * 0.6**i for i in range(10)), 0.0)),
    lambda: da.StochasticLocalization(14, delta=0.05),
    lambda: da.OUExponential.even(8),
]
PLANS: list[Callable[[], Any]] = [lambda: stacked_plan(16), lambda: stacked_plan(9)]
SETTINGS = {
    "gaussian": ("plan", "start", "known", "condition", "record", "dtype", "model"),
    "stacked": ("plan", "start", "condition", "record", "dtype", "model"),
    "tokens": ("order", "evidence", "condition", "model"),
}
ARGUMENTS = {
    "gaussian": {"plan": "schedule", "model": "denoiser"},
    "stacked": {"model": "oracle"},
    "tokens": {"model": "oracle"},
}
"""What the constructor calls a setting, where that is another name."""


@dataclass(frozen=True)
class Settings:
    """What a chain is made with, as numbers: models and conditions by their place, tables by a seed and their rows."""

    kind: str
    model: int = 0
    plan: int = 0
    start: tuple[int, int] | None = None
    known: tuple[int, int] | None = None
    condition: int | None = None
    record: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64
    order: int | str | None = None
    evidence: tuple[int, int] | None = None


class Held:
    """A chain under test, and its settings."""

    def __init__(self, chain: Chain, settings: Settings) -> None:
        self.chain, self.settings = chain, settings


Way = tuple[Held, Sampler | None, dict[str, Any]]


class ChainSequence:
    """One sequence: `sample` is what is judged."""

    def __init__(self, seed: int, kind: str, clock: Clock, draw: Sample) -> None:
        self.d, self.kind, self.clock, self.draw = dice(f"sequence of {kind}", seed), kind, clock, draw
        d = self.d
        clock.pace = d.choice(PACES)
        self.weights, self.models = list[Weights](), list[Model]()
        self.conditions = list[tuple[int, int]]()  # a seed and rows each
        self.told = list[Tensor]()  # the tensors that chains were given for them
        self.steady = d.chance(0.4)  # one way to call, with the default: what it learns is not lost
        self.add_model()
        self.seeds = [d.randrange(1000) for _ in range(2)]
        settings = Settings(kind, plan=d.randrange(len(self.plans)))
        for name in d.sample(SETTINGS[kind], d.randrange(3)):
            settings = replace(settings, **{name: self.value(name)})
        self.held = [Held(self.made(settings), settings)]
        self.usual: Way | None = None  # how the last call was made
        self.drawn, self.history = Drawn(), [f"{kind} {settings} {self.weights[0]} {clock.pace}"]

    @property
    def plans(self) -> list[Callable[[], Any]]:
        return PLANS if self.kind == "stacked" else SCHEDULES

    def add_model(self) -> int:
        self.weights.append(Weights(self.d.randrange(1000), self.d.choice(GAINS)))
        self.models.append(Model(self.kind, self.weights[-1]))
        return len(self.models) - 1

    # What chains are made with

    def value(self, name: str) -> Any:
        """Another value of a setting."""
        d = self.d
        table = d.choice([None, (d.randrange(1000), 1), (d.randrange(1000), ROWS)])
        if name == "condition" and table is not None:
            self.conditions.append(table)
            self.told.append(self.condition(table))
            return len(self.told) - 1
        if name in ("start", "known", "evidence", "condition"):
            return table
        if name == "plan":
            return d.randrange(len(self.plans))
        if name == "record":
            return tuple(sorted(d.sample(range(1, 7), d.randrange(3))))
        if name == "order":
            return d.choice([None, None, "spread", d.randrange(1000)])
        if name == "dtype":
            return d.choice([torch.float64, torch.float32])
        return d.choice([self.add_model(), d.randrange(len(self.models))])

    def condition(self, table: tuple[int, int]) -> Tensor:
        return normals(table[0], table[1], *((WORDS,) if self.kind == "tokens" else SHAPE))

    def argument(self, name: str, settings: Settings, models: list[Model], told: list[Tensor]) -> Any:
        """A setting as the constructor takes it."""
        value = getattr(settings, name)
        if name == "model":
            return models[value]
        if name == "plan":
            return self.plans[value]()
        if value is None or name in ("dtype", "record"):
            return value
        if name == "condition":
            return told[value]
        if name == "order":
            return value if isinstance(value, str) else Dice(value).sample(range(LENGTH), LENGTH)
        seed, rows = value
        if name == "start":
            return normals(seed, rows, *((LANES,) if self.kind == "stacked" else ()), *SHAPE)
        if name == "known":
            return normals(seed, rows, *SHAPE).where(normals(seed + 1, rows, *SHAPE) > 0.3, NAN)
        hidden = normals(seed, rows, LENGTH) < 0.8  # of the evidence
        evidence = (normals(seed + 1, rows, LENGTH) > 0).long().masked_fill(hidden, da.HIDDEN)
        return evidence if rows > 1 else evidence[0]

    def arguments(self, names: Any, settings: Settings, models: list[Model], told: list[Tensor]) -> dict[str, Any]:
        called = ARGUMENTS[self.kind]
        given = {called.get(name, name): self.argument(name, settings, models, told) for name in names}
        counted = self.kind == "tokens" and "oracle" in given
        return given | ({"length": LENGTH, "vocab_size": WORDS} if counted else {})

    def made(self, settings: Settings, models: list[Model] | None = None, told: list[Tensor] | None = None) -> Chain:
        given = self.arguments(SETTINGS[self.kind], settings, models or self.models, told or self.told)
        if self.kind == "tokens":
            return da.TokenChain(given.pop("oracle"), **given)
        if self.kind == "stacked":
            return da.StackedChain(given.pop("oracle"), given.pop("plan"), SHAPE, **given)
        return da.GaussianChain(given.pop("denoiser"), given.pop("schedule"), SHAPE, **given)

    def fresh(self, settings: Settings) -> Chain:
        """A chain that nothing was drawn from, of a model of its own."""
        models = [Model(self.kind, weights) for weights in self.weights]
        return self.made(settings, models, [self.condition(table) for table in self.conditions])

    # What is changed between calls

    def change(self) -> None:
        d = self.d
        one = d.choice(self.held)
        ways = [self.replaced, self.replaced, self.assigned, self.weights_changed, self.weights_changed, self.busy]
        change = self.busy if self.steady else d.choice(ways)
        self.history.append(f"{change.__name__}: {change(one)}")

    def busy(self, one: Held) -> str:
        self.clock.pace = self.d.choice(PACES)
        return str(self.clock.pace)

    def replaced(self, one: Held) -> str:
        """The chain goes on beside its successor: both share a model."""
        names = self.d.sample(SETTINGS[self.kind], self.d.randint(0, 2))
        settings = replace(one.settings, **{name: self.value(name) for name in names})
        chain = one.chain.replace(**self.arguments(names, settings, self.models, self.told))
        self.held = [*self.held[-2:], Held(chain, settings)]
        if self.usual is not None and self.d.chance(0.7):
            self.usual = (self.held[-1], *self.usual[1:])
        return f"{names} {settings}"

    def assigned(self, one: Held) -> str:
        """Where chains can be assigned to."""
        name = self.d.choice(SETTINGS[self.kind])
        if name == "model" and self.kind == "tokens":  # a plain callable is told of by more than one argument
            return "nothing"
        settings = replace(one.settings, **{name: self.value(name)})
        try:
            for argument, value in self.arguments([name], settings, self.models, self.told).items():
                setattr(one.chain, argument, value)
        except (AttributeError, InputError):
            return f"{name} cannot be"
        one.settings = settings
        return f"{name} {settings}"

    def weights_changed(self, one: Held) -> str:
        """In place, or replaced; a flag, an attribute, a hook; or what a model is told, in place."""
        d, i = self.d, one.settings.model
        model, weights = self.models[i], self.weights[i]
        way = d.choice(["copied", "data", "parameters", "loaded", "gain", "lift", "bent", "training", "hooked", "told"])
        if way in ("copied", "data", "parameters", "loaded"):
            weights = replace(weights, seed=d.randrange(1000))
            for name, table in zip(("mix", "field"), tables(weights.seed), strict=True):
                if way == "copied":
                    with torch.no_grad():
                        getattr(model, name).copy_(table)
                elif way == "data":
                    getattr(model, name).data = table
                else:
                    setattr(model, name, nn.Parameter(table))
        elif way == "gain":
            weights = replace(weights, gain=d.choice(GAINS))
            model.gain = weights.gain
        elif way == "lift":
            weights = replace(weights, lift=d.choice([0.0, 0.4]))
            model.options["lift"] = weights.lift
        elif way == "bent":
            weights = replace(weights, bent=not weights.bent)
            model.bent = weights.bent
        elif way == "training":
            weights = replace(weights, training=not weights.training)
            model.train(weights.training)
        elif way == "hooked":
            weights = replace(weights, hooked=not weights.hooked)
            if model.handle is not None:
                model.handle.remove()
            model.handle = model.register_forward_hook(halved) if weights.hooked else None
        elif self.told:
            at = d.randrange(len(self.told))
            self.conditions[at] = d.randrange(1000), self.conditions[at][1]
            self.told[at].copy_(self.condition(self.conditions[at]))
        self.weights[i] = weights
        return f"{way} of {i}: {weights}"

    # Calls

    def call(self) -> None:
        d = self.d
        if self.usual is None or (not self.steady and d.chance(0.4)):
            self.usual = self.way()
        one, by, options = self.usual
        options = options | {"first": d.randrange(4), "seed": d.choice(self.seeds)}
        number = d.randint(max(1, options.get("max_live", 1)), MOST)
        cut, looks = d.choice([""] * 9 + ["stop", "set", "fails", "ctrl-c", "hurry"]), d.randint(1, 8)
        if cut == "hurry" and not isinstance(by, da.Coupled):
            cut = ""
        self.history.append(f"call of {one.settings}: {number} by {by}, {options}, {cut} {looks}")
        self.judge(one, by, number, options, self.result(one.chain, by, number, options, cut, looks), cut)

    def way(self) -> Way:
        """A chain, a sampler, and options."""
        d = self.d
        one = d.choice([self.held[-1], d.choice(self.held)])
        by = None if self.steady else d.choice([None, sampler(d, one.chain.steps)])
        options = d.choice([{}, {"max_live": 1}, {"max_live": 2}])
        ways: list[dict[str, Any]] = [{}, {"graphs": True}, {"graphs": False}, {"max_batch_size": 3}]
        return one, by, options | d.choice(ways[:1] + ways[3:] if by is not None and not packs(by) else ways)

    def result(
        self, chain: Chain, by: Sampler | None, number: int, options: dict[str, Any], cut: str, looks: int
    ) -> da.Result:
        """What a call returns, or leaves behind where it is cut short."""
        more: dict[str, Any] = {}
        if cut in ("stop", "set"):
            more["stop"] = After(looks if cut == "stop" else 0)
        if cut == "hurry":
            more["hurry"] = After(looks)
        if cut == "ctrl-c":
            press = After(looks)

            def on_round(report: da.Report) -> None:
                if press.is_set():
                    raise KeyboardInterrupt

            more["on_round"] = on_round
        try:
            self.clock.left = looks if cut == "fails" else float("inf")
            return self.draw(chain, number, sampler=by, **options | more)
        except da.SamplingError as error:
            if cut == "fails" and isinstance(error.__cause__, Broken):
                return error.result
            raise
        except da.Interrupted as error:
            if cut == "ctrl-c":
                return error.result
            raise
        finally:
            self.clock.left = float("inf")

    def judge(
        self, one: Held, by: Sampler | None, number: int, options: dict[str, Any], result: da.Result, cut: str
    ) -> None:
        report, first = result.report, options["first"]
        assert report.seed == options["seed"] and report.num_samples == len(result.samples) == len(result.numbers)
        assert report.steps == one.chain.steps
        if not cut:
            assert result.complete, "it was not cut short"
        if result.complete:
            assert result.numbers.tolist() == list(range(first, first + number))
        if cut == "hurry" and not report.exact:
            return
        assert report.exact == (by is None or by.guarantee.exact), "in no haste"
        if cut == "set":
            assert not len(result.samples)
            return
        using = named(report) if by is None else by
        assert repr(using) == report.sampler
        whole = da.sample(
            self.fresh(one.settings), number, first=first, seed=options["seed"], sampler=using, graphs=False
        )
        judge_equal(result.samples, whole.samples[result.numbers - first], "not what a fresh chain draws")
        if result.complete and "graphs" not in options:
            assert report.sample_rounds == whole.report.sample_rounds
        if by is None:
            size = min(number, options.get("max_live", 1024)), options.get("graphs"), options.get("max_batch_size")
            where = (id(one.chain), self.plain(one.settings), size, options["seed"])
            for at, value in zip(result.numbers.tolist(), result.samples, strict=True):
                self.drawn.judge((where, at), value, f"sample {at}")

    def plain(self, settings: Settings) -> Hashable:
        """All that the settings mean now."""
        told = None if settings.condition is None else self.conditions[settings.condition]
        return settings, self.weights[settings.model], told


def judge_chains(seed: int, kind: str, draw: Sample = da.sample, calls: int = 8) -> None:
    """One sequence of calls; `draw` is what is judged."""
    with made_up_time() as clock:
        sequence = ChainSequence(seed, kind, clock, draw)
        try:
            for _ in range(calls):
                while sequence.d.chance(0.4):
                    sequence.change()
                sequence.call()
        except Exception as error:
            error.add_note("\n".join([f"{kind} sequence {seed}:", *sequence.history]))
            raise
