"""Schedulers that are read by trying them are followed step by step in float64, and what cannot be is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Picard, Sequential
from drawahead.adapters import DrawaheadPipeline, from_diffusers
from drawahead.diffusers.schedulers import probing as probing
from drawahead.diffusers.schedulers import reading as schedulers
from drawahead.diffusers.schedulers.supply import Supplied, in_float64, stepped
from drawahead.randomness import Purpose, Stream
from drawahead.verification.statistics import same_law
from tests.gaussian.reference import path_p_value

diffusers = pytest.importorskip("diffusers")
Check = Callable[[float], None]
SHAPE = (1, 4, 4)
SEED, IMAGES = 5, 2


def network(x: Tensor, t: Tensor) -> Tensor:
    """Answers as a model of noise might: it mixes entries, and what it says changes with the time."""
    bend = torch.cos(t.double() / 300).view(-1, *(1,) * (x.dim() - 1))
    return (0.9 * x + torch.tanh(2 * x.roll(1, -1)) * bend).tanh()


def followed(scheduler: Any, first: int, options: dict[str, Any], start: Tensor) -> Tensor:
    """The path (images, steps, *shape) that the scheduler takes by itself with the noise of SEED."""
    stream = Stream.of_samples(SEED, torch.arange(IMAGES))
    states, old, x = [], None, start
    for k in range(first, len(scheduler.timesteps)):
        step = torch.full((IMAGES,), k - first)
        noise = stream.normal(Purpose.VALUE, step, size=16).view(IMAGES, *SHAPE)
        t = scheduler.timesteps[k]
        with Supplied(lambda shape, noise=noise: noise):
            shown = scheduler.scale_model_input(x, t) if hasattr(scheduler, "scale_model_input") else x
            answer = stepped(scheduler, network(shown, t.expand(IMAGES)), k, x, old, options)
        x, old = answer[0], answer[1] if isinstance(answer, tuple) and len(answer) > 1 else None
        old = getattr(answer, "pred_original_sample", old)
        states.append(x)
    return torch.stack(states, 1)


def deviation(scheduler: Any, steps: int, options: dict[str, Any]) -> float:
    """The largest difference of any entry after any step, beside the largest entry of that step."""
    eta = options.get("eta")
    rest = {name: value for name, value in options.items() if name != "eta"}
    chain = from_diffusers(
        network,
        scheduler,
        num_inference_steps=steps,
        eta=eta,
        step_options=rest,
        shape=SHAPE,
        record=range(1, steps),
        dtype=torch.float64,
    )
    ours = da.sample(chain, IMAGES, sampler=Sequential(), seed=SEED).samples
    own = type(scheduler).from_config(scheduler.config)
    own.set_timesteps(steps)
    start = Stream.of_samples(SEED, torch.arange(IMAGES)).normal(Purpose.START, torch.zeros(IMAGES).long(), size=16)
    theirs = followed(in_float64(own), 0, options, start.view(IMAGES, *SHAPE) * chain.plan.start)
    assert theirs.isfinite().all()
    size = theirs.abs().amax(dim=(0, 2, 3, 4)).clamp(min=1)
    return float(((ours - theirs).abs().amax(dim=(0, 2, 3, 4)) / size).max())


SDE = {"algorithm_type": "sde-dpmsolver++"}
FOLLOWED: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("EulerDiscreteScheduler", {}, {"s_churn": 8.0}, 10),
    ("EulerDiscreteScheduler", {"use_karras_sigmas": True}, {"s_churn": 4.0, "s_tmin": 0.5, "s_noise": 1.01}, 7),
    ("EulerDiscreteScheduler", {"prediction_type": "v_prediction", "timestep_spacing": "trailing"}, {}, 0),
    ("EDMEulerScheduler", {}, {"s_churn": 8.0}, 10),
    ("DPMSolverMultistepScheduler", SDE | {"solver_order": 1}, {}, 9),
    ("DPMSolverMultistepScheduler", SDE | {"use_karras_sigmas": True}, {}, 9),
    ("DPMSolverMultistepScheduler", SDE | {"prediction_type": "v_prediction", "solver_type": "heun"}, {}, 9),
    ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver", "final_sigmas_type": "sigma_min"}, {}, 10),
    ("DPMSolverMultistepScheduler", {}, {}, 0),
    ("EDMDPMSolverMultistepScheduler", SDE, {}, 9),
    ("FlowMatchEulerDiscreteScheduler", {"stochastic_sampling": True, "shift": 3.0}, {}, 9),
    ("FlowMatchEulerDiscreteScheduler", {}, {}, 0),
    ("LTXEulerAncestralRFScheduler", {}, {}, 9),
    ("DPMSolverMultistepScheduler", SDE | {"thresholding": True, "sample_max_value": 1.5}, {}, 9),
    ("LCMScheduler", {}, {}, 9),
    ("LCMScheduler", {"clip_sample": True, "clip_sample_range": 0.6}, {}, 9),
    ("TCDScheduler", {}, {"eta": 0.5}, 9),
    ("CogVideoXDPMScheduler", {}, {}, 9),
    ("CogVideoXDDIMScheduler", {}, {}, 0),
]


@pytest.mark.parametrize(("name", "settings", "options", "random"), FOLLOWED, ids=str)
def test_it_is_followed(name: str, settings: dict[str, Any], options: dict[str, Any], random: int) -> None:
    scheduler = getattr(diffusers, name)(**settings)
    assert deviation(scheduler, 10, options) < 1e-11
    chain = from_diffusers(
        network, scheduler, num_inference_steps=10, eta=options.get("eta"), shape=SHAPE,
        step_options={name: value for name, value in options.items() if name != "eta"},
    )  # fmt: skip
    assert int((chain.plan.s > 0).sum()) == random


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver", "final_sigmas_type": "sigma_min"}),
        ("DEISMultistepScheduler", {}),
        ("LTXEulerAncestralRFScheduler", {}),
        ("DDPMScheduler", {}),
    ],
)
def test_known_entries_of_the_output_are_what_was_given(name: str, settings: dict[str, Any]) -> None:
    """Whatever a scheduler calls its prediction: some predict the noise, and their steps do not lead to the data."""
    known = torch.full(SHAPE, torch.nan).index_fill(1, torch.tensor(0), 0.4)
    for steps in (2, 10, 50):
        chain = from_diffusers(
            network, getattr(diffusers, name)(**settings), num_inference_steps=steps, shape=SHAPE, dtype=torch.float64
        ).replace(known=known)
        samples = da.sample(chain, 2, sampler=Sequential(), seed=1).samples
        assert torch.allclose(samples[:, :, 0], torch.tensor(0.4, dtype=torch.float64), rtol=0, atol=1e-6)


def test_where_the_last_step_leads_is_the_last_level() -> None:
    scheduler = diffusers.DDIMScheduler(set_alpha_to_one=False)
    plan = from_diffusers(network, scheduler, num_inference_steps=10, eta=1.0, shape=SHAPE).plan
    assert plan.signal[-1] == pytest.approx(float(scheduler.alphas_cumprod[0].sqrt()), abs=1e-7)


def test_churn_without_its_lower_end_is_noisier() -> None:
    """So that following it shows something: options reach the step."""
    scheduler = diffusers.EulerDiscreteScheduler()
    plans = [
        from_diffusers(network, scheduler, num_inference_steps=10, shape=SHAPE, step_options=options).plan.s
        for options in ({"s_churn": 2.0}, {"s_churn": 4.0})
    ]
    assert bool((plans[0] < plans[1]).all())


@pytest.mark.parametrize("kind", ["DDPM", "DDIM"])
def test_the_parallel_classes_are_those_they_are_named_after(kind: str) -> None:
    options = {"eta": 0.7} if kind == "DDIM" else {}
    one, other = (
        from_diffusers(network, getattr(diffusers, name)(), num_inference_steps=10, shape=SHAPE, **options).plan
        for name in (f"{kind}Scheduler", f"{kind}ParallelScheduler")
    )
    assert all(torch.equal(getattr(one, name), getattr(other, name)) for name in ("a", "b", "s", "time"))


LEARNED = [
    ({"variance_type": "learned_range"}, 1.0),
    ({"variance_type": "learned_range", "timestep_spacing": "trailing"}, 1.0),
    ({"variance_type": "learned_range", "clip_sample": False, "prediction_type": "v_prediction"}, 1.0),
    ({"variance_type": "learned"}, 0.001),
]


@pytest.mark.parametrize(("settings", "size"), LEARNED, ids=str)
def test_learned_variances_are_followed(settings: dict[str, Any], size: float, check: Check) -> None:
    """Given a state, the step has the scheduler's own mean and standard deviation: with no noise, and with one that is
    one everywhere, its `step` tells both."""
    scheduler = diffusers.DDPMScheduler(**settings)

    def twice(x: Tensor, t: Tensor) -> Tensor:
        variance = size * (1.5 + torch.sin(3 * x)) if settings["variance_type"] == "learned" else 1.3 * torch.sin(3 * x)
        return torch.cat([network(x, t), variance], dim=1)

    steps = 6
    chain = from_diffusers(
        twice, scheduler, num_inference_steps=steps, shape=(3,), record=range(1, steps), dtype=torch.float64
    )
    x = da.sample(chain, 3_000, sampler=Coupled(), seed=0, max_live=3_000).samples
    own = in_float64(type(scheduler).from_config(scheduler.config))
    own.set_timesteps(steps)
    noises = []
    for k in range(1, steps):
        output = twice(x[:, k - 1], own.timesteps[k].expand(len(x)))
        ends = []
        for supplied in (torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0])):
            with Supplied(lambda shape, supplied=supplied: supplied):
                ends.append(own.step(output, own.timesteps[k], x[:, k - 1]).prev_sample)
        if k < steps - 1 or settings.get("timestep_spacing") == "trailing":
            noises.append((x[:, k] - ends[0]) / (ends[1] - ends[0]))
        else:
            assert torch.allclose(x[:, k], ends[0], atol=1e-9)
    check(path_p_value(torch.stack(noises, 1)))


REFUSED = [
    ("UniPCMultistepScheduler", {}, {}, "looks back more than one output"),
    ("PNDMScheduler", {}, {}, "looks back more than one output"),
    ("DPMSolverMultistepScheduler", {}, {"s_churn": 3.0}, "unexpected keyword argument .s_churn."),
    ("EulerDiscreteScheduler", {}, {"churn": 3.0}, "unexpected keyword argument .churn."),
    ("LCMScheduler", {}, {"steps": 400}, "num_inference_steps=400 is refused"),
    ("DPMSolverMultistepScheduler", {"num_train_timesteps": 20}, {"steps": 20}, "not finite at step 10 of 20"),
    ("EntropyBoundScheduler", {}, {}, "does not lead from a state to a state|cannot be stepped"),
]


@pytest.mark.parametrize(("name", "settings", "options", "named"), REFUSED, ids=str)
def test_it_is_refused(name: str, settings: dict[str, Any], options: dict[str, Any], named: str) -> None:
    if not hasattr(diffusers, name):
        pytest.skip(f"this diffusers has no {name}")
    options = dict(options)
    steps = int(options.pop("steps", 10))
    with pytest.raises(InputError, match=named):
        from_diffusers(
            network, getattr(diffusers, name)(**settings), num_inference_steps=steps, shape=SHAPE, step_options=options
        )


def test_a_scheduler_that_bends_is_found_out() -> None:
    """One nobody listed, linear for small numbers and not for large ones."""

    class Bends(diffusers.EulerDiscreteScheduler):  # type: ignore[misc, name-defined]
        def step(self, *given: Any, **options: Any) -> Any:
            answer = super().step(*given, **options)
            answer.prev_sample = answer.prev_sample.clamp(-2000, 2000)
            return answer

    with pytest.raises(InputError, match="Bends cannot be followed exactly"):
        from_diffusers(network, Bends(), num_inference_steps=10, shape=SHAPE)


def test_a_scheduler_is_tried_once_for_each_of_its_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(schedulers, "probe", lambda *given: tried.append(1) or probing.probe(*given))
    kind, held = diffusers.DPMSolverMultistepScheduler, schedulers.Recipes()

    def plan(steps: int = 4, **settings: Any) -> da.schedules.Plan:
        return held.of(kind(**SDE | settings), steps, {}).plan

    first, again = plan(), plan()
    assert torch.equal(first.a, again.a) and len(tried) == 1
    others = [plan(5), plan(beta_end=0.03), plan(solver_order=1)]
    assert len(tried) == 4 and not any(torch.equal(first.a, other.a) for other in others)
    step = kind.step
    monkeypatch.setattr(kind, "step", lambda self, *given, **named: step(self, *given, **named))
    torch.testing.assert_close(plan().a, first.a, rtol=1e-12, atol=1e-12)  # solved anew: rounding may differ
    assert len(tried) == 5
    for _ in range(2):  # nothing is held that belongs to no pipeline
        from_diffusers(network, kind(**SDE), num_inference_steps=4, shape=SHAPE)
    assert len(tried) == 7


def test_a_pipeline_tries_its_scheduler_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(schedulers, "probe", lambda *given: tried.append(1) or probing.probe(*given))
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8,), norm_num_groups=4,
        down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
    ).eval()  # fmt: skip
    for number in (1, 2):
        pipe = DrawaheadPipeline(unet, diffusers.DPMSolverMultistepScheduler(**SDE))
        pipe.set_progress_bar_config(disable=True)
        for _ in range(2):
            pipe(generator=torch.manual_seed(0), num_inference_steps=4, output_type="pt", sampler=da.Sequential())
        assert len(tried) == number


def test_levels_of_the_last_steps_are_their_own() -> None:
    """Noised copies of what is known go by them."""
    whole, half = (
        from_diffusers(
            network, diffusers.DPMSolverMultistepScheduler(**SDE), num_inference_steps=10, shape=SHAPE, **options
        ).plan
        for options in ({}, {"image": torch.zeros(SHAPE), "strength": 0.5})
    )
    for name in ("signal", "noise"):
        torch.testing.assert_close(getattr(half, name), getattr(whole, name)[5:])


def test_a_function_that_replaced_another_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it calls itself by the same name, and though another one stood there a moment ago."""
    kind, share = diffusers.DPMSolverMultistepScheduler, [1.0]
    own = kind.step

    @functools.wraps(own)
    def step(self: Any, *given: Any, **options: Any) -> Any:
        answer = own(self, *given, **options)
        answer.prev_sample = share[0] * answer.prev_sample
        return answer

    def plan() -> da.schedules.Plan:
        return from_diffusers(network, kind(**SDE), num_inference_steps=4, shape=SHAPE).plan

    before = plan()
    for replaced in (step, functools.partialmethod(step)):
        monkeypatch.setattr(kind, "step", replaced)
        for factor in (0.5, 0.25):
            share[0] = factor
            torch.testing.assert_close(plan().a, factor * before.a)


def test_a_scheduler_of_ones_own_is_tried_each_time() -> None:
    """What it does may depend on what is not in it."""
    share = [1.0]

    class Own(diffusers.EulerDiscreteScheduler):  # type: ignore[misc, name-defined]
        def step(self, *given: Any, **options: Any) -> Any:
            answer = super().step(*given, **options)
            answer.prev_sample = share[0] * answer.prev_sample
            return answer

    def plan() -> da.schedules.Plan:
        return from_diffusers(network, Own(), num_inference_steps=4, shape=SHAPE).plan

    before = plan()
    share[0] = 0.5
    torch.testing.assert_close(plan().a, 0.5 * before.a)


def test_the_second_trial_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the clamp above would not have been found: in the first nothing comes near it."""
    monkeypatch.setattr(probing, "LARGE", 1.0)
    with pytest.raises(pytest.fail.Exception):
        test_a_scheduler_that_bends_is_found_out()


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("DPMSolverMultistepScheduler", SDE, {}),
        ("EulerDiscreteScheduler", {}, {"s_churn": 20.0}),
        ("FlowMatchEulerDiscreteScheduler", {"stochastic_sampling": True}, {}),
    ],
    ids=str,
)
def test_the_coupled_law_is_the_sequential_one(
    name: str, settings: dict[str, Any], options: dict[str, Any], check: Check
) -> None:
    scheduler = getattr(diffusers, name)(**settings)
    chain = from_diffusers(network, scheduler, num_inference_steps=15, shape=(3,), step_options=options)
    one, other = (
        da.sample(chain, 4_000, sampler=sampler, seed=seed, max_live=4_000)
        for seed, sampler in enumerate([Sequential(), Coupled()])
    )
    assert other.report.mean_rounds < 13
    check(same_law(one.samples, other.samples))


def test_without_noise_only_picard_is_quick_and_it_is_not_exact() -> None:
    chain = from_diffusers(network, diffusers.EulerDiscreteScheduler(), num_inference_steps=20, shape=SHAPE)
    assert not chain.plan.s.any()
    assert da.sample(chain, 1, sampler=Coupled(), seed=0).report.rounds == 20
    report = da.sample(chain, 1, sampler=Picard(), seed=0).report
    assert report.rounds < 20 and not report.exact


@pytest.mark.parametrize("kind", ["DDPMScheduler", "DDIMScheduler", "EulerAncestralDiscreteScheduler"])
def test_settings_given_by_their_place_count(kind: str) -> None:
    """diffusers lists them among those left at their defaults, and drops them where one is made from a config."""
    scheduler = getattr(diffusers, kind)
    by_place, by_name = scheduler(100, 0.001, 0.3), scheduler(num_train_timesteps=100, beta_start=0.001, beta_end=0.3)
    by_place.set_timesteps(20)
    eta = 1.0 if kind == "DDIMScheduler" else None
    plans = [
        from_diffusers(network, each, num_inference_steps=20, eta=eta, shape=SHAPE).plan for each in (by_place, by_name)
    ]
    assert all(torch.equal(getattr(plans[0], name), getattr(plans[1], name)) for name in ("a", "b", "s"))
    if kind == "DDPMScheduler":
        deviations = [by_place._get_variance(int(t)).double().sqrt() for t in by_place.timesteps[:-1]]
        assert torch.allclose(plans[0].s[:-1], torch.stack(deviations), rtol=1e-4)
