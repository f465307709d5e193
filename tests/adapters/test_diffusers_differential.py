"""Schedulers and guidance of every make, drawn here and by diffusers' own steps with the same noise: one path.

Each case is made from a number. It picks a scheduler and its settings, whether somebody has changed it (a class derived
from it, a method put into the class or onto the object), and guidance. What cannot be followed may be refused, and only
that: a changed step is tried with random numbers, so it must be linear.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import InputError, Sequential
from drawahead.adapters import from_diffusers
from drawahead.diffusers.schedulers.supply import Supplied, in_float64
from drawahead.randomness import Purpose, Stream

diffusers = pytest.importorskip("diffusers")

CASES = 160  # in CI: seconds
SHAPE, SIZE, IMAGES, SEED = (2, 2, 2), 8, 2, 11
CLOSE = 1e-8
SPACINGS = [(spacing, offset) for spacing in ("leading", "trailing", "linspace") for offset in (0, 1, 2)]
SCALES = (-1.5, 0.0, 0.3, 0.5, 0.7, 1.0, 2.0, 7.5)
VARIANCES = ("fixed_small", "fixed_large", "learned", "learned", "learned_range")
LIMITS: list[dict[str, Any]] = [
    {"clip_sample": False},
    {"clip_sample": True, "clip_sample_range": 0.7},
    {"clip_sample": False, "thresholding": True, "dynamic_thresholding_ratio": 0.7, "sample_max_value": 1.4},
]


@dataclass(frozen=True)
class Case:
    kind: str
    settings: dict[str, Any]
    steps: int
    form: str
    options: dict[str, Any]
    scale: float | None
    rescale: float
    small: float  # how large a variance the network answers

    @staticmethod
    def of(seed: int) -> Case:
        draw = random.Random(seed)
        kind = draw.choice(["DDPMScheduler"] * 3 + ["DDIMScheduler", "EulerAncestralDiscreteScheduler"])
        spacing, offset = draw.choice(SPACINGS)
        settings: dict[str, Any] = {"timestep_spacing": spacing, "steps_offset": offset, "num_train_timesteps": 40}
        settings |= {"beta_end": 0.2, "prediction_type": draw.choice(["epsilon", "v_prediction"])}
        if kind != "EulerAncestralDiscreteScheduler":
            settings |= draw.choice(LIMITS)
        if kind == "DDPMScheduler":
            settings["variance_type"] = draw.choice(
                ["fixed_small", "fixed_large", "learned", "learned", "learned_range"]
            )
        if kind == "DDIMScheduler":
            settings["set_alpha_to_one"] = draw.random() < 0.5
        guided = draw.random() < 0.4
        return Case(
            kind,
            settings,
            draw.choice([1, 3, 4, 7]),
            draw.choice(["stock"] * 3 + [*FORMS]),
            {"eta": draw.choice([0.0, 0.6, 1.0])} if kind == "DDIMScheduler" else {},
            draw.choice(SCALES) if guided else None,
            draw.choice([0.0, 0.0, 0.7]) if guided else 0.0,
            draw.choice([1e-4, 0.01, 0.3]),
        )

    @property
    def learned(self) -> bool:
        return str(self.settings.get("variance_type")).startswith("learned")

    @property
    def may_be_refused(self) -> bool:
        """A changed step whose learned variance is another, or a function that cannot be copied."""
        return (CHANGES.get(self.form, False) and self.learned) or self.form in ON_THE_OBJECT


# How people change schedulers. Each is given a class and settings, and is followed by what it does.


def _more(answer: Any) -> Any:
    answer.prev_sample = 1.25 * answer.prev_sample
    return answer


@contextmanager
def stock(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    yield kind(**settings)


@contextmanager
def derived(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    """A class of the same name that only looks on."""

    def step(self: Any, *given: Any, **options: Any) -> Any:
        return kind.step(self, *given, **options)

    yield type(kind.__name__, (kind,), {"step": step})(**settings)


@contextmanager
def derived_with_a_step(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    def step(self: Any, *given: Any, **options: Any) -> Any:
        return _more(kind.step(self, *given, **options))

    yield type(kind.__name__, (kind,), {"step": step})(**settings)


@contextmanager
def derived_with_a_start(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    yield type("Wide", (kind,), {"init_noise_sigma": property(lambda self: 3.0, lambda self, value: None)})(**settings)


@contextmanager
def derived_with_a_scale(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    def scaled(self: Any, sample: Tensor, timestep: Any = None) -> Tensor:
        return 0.5 * kind.scale_model_input(self, sample, timestep)

    yield type(kind.__name__, (kind,), {"scale_model_input": scaled})(**settings)


@contextmanager
def a_class_that_was_patched(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    own = kind.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "step", lambda self, *given, **options: _more(own(self, *given, **options)))
        yield kind(**settings)


@contextmanager
def an_object_that_was_patched(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    """By a function that refers to the object itself."""
    scheduler = kind(**settings)
    own = scheduler.step
    scheduler.step = lambda *given, **options: _more(own(*given, **options))
    yield scheduler


@contextmanager
def an_object_with_a_method(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    scheduler = kind(**settings)

    def step(self: Any, *given: Any, **options: Any) -> Any:
        return _more(kind.step(self, *given, **options))

    scheduler.step = types.MethodType(step, scheduler)
    yield scheduler


@contextmanager
def a_table_that_was_changed(kind: Any, settings: dict[str, Any]) -> Iterator[Any]:
    scheduler = kind(**settings)
    scheduler.alphas_cumprod = scheduler.alphas_cumprod**1.5
    yield scheduler


FORMS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    made.__name__: made
    for made in (
        *(derived, derived_with_a_step, derived_with_a_start, derived_with_a_scale, a_class_that_was_patched),
        *(an_object_that_was_patched, an_object_with_a_method, a_table_that_was_changed),
    )
}
CHANGES = dict.fromkeys(FORMS, True) | {"derived": False, "a_table_that_was_changed": False}
"""Whether its steps are another family's."""
ON_THE_OBJECT = ("an_object_that_was_patched", "an_object_with_a_method")
"""These are refused: a copy need not share such a function."""


# The two sides


def network(case: Case) -> Callable[..., Tensor]:
    """Answers noise, and where it is asked for a variance that changes from entry to entry, by label and time."""

    def answer(x: Tensor, t: Tensor, class_labels: Tensor) -> Tensor:
        rows = (-1, 1, 1, 1)
        label, bend = class_labels.double().view(rows) / 5, torch.cos(t.double() / 10).view(rows)
        output = (0.7 * x + torch.tanh(2 * x.roll(1, -1) + label) * bend).tanh()
        if not case.learned:
            return output
        wave = torch.sin(3 * x + label)
        variance = case.small * (1.5 + wave) if case.settings["variance_type"] == "learned" else 1.3 * wave
        return torch.cat([output, variance], dim=1)

    return answer


def literal_answer(case: Case, x: Tensor, t: Tensor) -> Tensor:
    """As pipelines of diffusers ask and guide: without the label first, and the variance is that of the label."""
    answer, time = network(case), t.expand(IMAGES)
    told = answer(x, time, torch.tensor([1, 2]))
    if case.scale is None:
        return told
    text, variance = told.tensor_split([SHAPE[0]], dim=1)
    without = answer(x, time, torch.tensor([9, 9]))[:, : SHAPE[0]]
    guided = without + case.scale * (text - without)
    if case.rescale:
        sizes = [part.std(dim=(1, 2, 3), keepdim=True) for part in (text, guided)]
        guided = case.rescale * (guided * (sizes[0] / sizes[1])) + (1 - case.rescale) * guided
    return torch.cat([guided, variance], dim=1)


def own_path(case: Case, scheduler: Any, floor: Tensor) -> Tensor:
    """The states (images, steps, *shape) of the scheduler's own loop. Where the network answers a standard deviation,
    its noise is the sum of two, as it is drawn here: of the size `floor` (N,) at most, and of what is above it."""
    stream = Stream.of_samples(SEED, torch.arange(IMAGES))

    def normal(purpose: Purpose, k: int) -> Tensor:
        return stream.normal(purpose, torch.full((IMAGES,), k), size=SIZE).view(IMAGES, *SHAPE)

    scheduler.set_timesteps(case.steps)
    x, states = normal(Purpose.START, 0) * float(scheduler.init_noise_sigma), []
    in_float64(scheduler)
    for k, t in enumerate(scheduler.timesteps):

        def stepped(noise: Tensor, x: Tensor = x, t: Tensor = t, k: int = k) -> Tensor:
            if hasattr(scheduler, "_step_index"):
                scheduler._step_index = k
            with Supplied(lambda shape: noise):
                output = literal_answer(case, scheduler.scale_model_input(x, t), t)
                after: Tensor = scheduler.step(output, t, x, **case.options).prev_sample
                return after

        noise = normal(Purpose.VALUE, k)
        if case.learned:
            size = stepped(torch.ones_like(x)) - stepped(torch.zeros_like(x))
            least = torch.minimum(size, floor[k])
            both = (size**2 - least**2).clamp(min=0).sqrt() * normal(Purpose.SPREAD, k) + least * noise
            noise = torch.where(size > 0, both / torch.where(size > 0, size, 1.0), 0.0)
        x = stepped(noise)
        states.append(x)
    return torch.stack(states, 1)


def judge(seed: int) -> None:
    case = Case.of(seed)
    form: Any = FORMS.get(case.form, stock)
    guidance = {"guidance_scale": case.scale, "guidance_rescale": case.rescale, "unconditional": {"class_labels": 9}}
    with form(getattr(diffusers, case.kind), case.settings) as scheduler:
        try:
            chain = from_diffusers(
                network(case),
                scheduler,
                num_inference_steps=case.steps,
                class_labels=[1, 2],
                shape=SHAPE,
                record=range(1, case.steps),
                dtype=torch.float64,
                **case.options,
                **(guidance if case.scale is not None else {}),
            )
        except InputError:
            assert case.may_be_refused or _leaves_its_tables(case), case
            return
        assert case.form not in ON_THE_OBJECT
        ours = da.sample(chain, IMAGES, sampler=Sequential(), seed=SEED).samples.view(IMAGES, case.steps, *SHAPE)
        theirs = own_path(case, scheduler, chain.plan.s)
    assert theirs.isfinite().all(), case
    size = theirs.abs().amax(dim=(0, 2, 3, 4)).clamp(min=1)
    apart = float(((ours - theirs).abs().amax(dim=(0, 2, 3, 4)) / size).max())
    assert apart < CLOSE, f"{apart}: {case}"


def _leaves_its_tables(case: Case) -> bool:
    """Whether the scheduler visits timesteps that it has not."""
    plain = getattr(diffusers, case.kind)(**case.settings)
    plain.set_timesteps(case.steps)
    return not 0 <= int(plain.timesteps.min()) <= int(plain.timesteps.max()) < 40


@pytest.mark.parametrize("seed", range(CASES))
def test_it_takes_the_path_of_its_own_steps(seed: int) -> None:
    judge(seed)


def test_the_cases_are_of_every_kind() -> None:
    """What is compared, not what is refused."""
    cases = [case for case in map(Case.of, range(CASES)) if not case.may_be_refused and not _leaves_its_tables(case)]
    assert {case.form for case in cases} == {"stock", *FORMS} - {*ON_THE_OBJECT}
    for variance in ("learned", "learned_range"):
        found = [case for case in cases if case.settings.get("variance_type") == variance]
        assert {case.settings["timestep_spacing"] for case in found} == {"leading", "trailing", "linspace"}
        assert {case.settings["steps_offset"] for case in found} == {0, 1, 2}
        assert any(case.scale is not None and case.scale <= 0.5 for case in found)
    assert {case.scale for case in cases if case.rescale} >= {scale for scale in SCALES if scale <= 0.5}


@pytest.mark.parametrize("offset", [0, 1, 2])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
def test_a_learned_variance_keeps_its_last_noise(spacing: str, offset: int) -> None:
    """Without noise only where the scheduler itself adds none: at timestep 0."""
    settings = {"variance_type": "learned", "timestep_spacing": spacing, "steps_offset": offset, "clip_sample": False}
    chain = from_diffusers(
        lambda x, t: torch.cat([x.tanh(), torch.full_like(x, 0.25)], dim=1),
        diffusers.DDPMScheduler(**settings),
        num_inference_steps=4,
        shape=(1, 8, 8),
        record=[3],
        dtype=torch.float64,
    )
    for sampler in (Sequential(), da.Coupled()):
        before, after = da.sample(chain, 40, sampler=sampler, seed=0).samples.unbind(1)
        spread = float((after - chain.plan.a[-1] * before - chain.plan.b[-1] * _data(chain, before)).std())
        assert abs(spread - (0.5 if int(chain.plan.time[-1]) else 0.0)) < 0.02


def _data(chain: da.GaussianChain, x: Tensor) -> Tensor:
    answer: Tensor = chain.denoiser(x, torch.full((len(x),), 3))
    return answer[:, :1]
