"""Schedulers that call the network twice for a step: followed given the same noise, and drawn ahead with their law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.adapters import from_diffusers
from drawahead.diffusers.schedulers.supply import Supplied, in_float64
from tests.gaussian.reference import path_p_value
from tests.science import noise

diffusers = pytest.importorskip("diffusers")
Check = Callable[[float], None]
STEPS, SHAPE = 7, (1, 2, 1)
ANCESTRAL = "KDPM2AncestralDiscreteScheduler"
FOLLOWED: list[tuple[str, dict[str, Any], int]] = [
    (ANCESTRAL, {}, 6),
    (ANCESTRAL, {"prediction_type": "v_prediction", "use_karras_sigmas": True, "timestep_spacing": "trailing"}, 6),
    (ANCESTRAL, {"use_exponential_sigmas": True, "timestep_spacing": "leading", "steps_offset": 1}, 6),
    ("HeunDiscreteScheduler", {}, 0),
    ("HeunDiscreteScheduler", {"prediction_type": "sample", "use_karras_sigmas": True}, 0),
    ("KDPM2DiscreteScheduler", {}, 0),
    ("FlowMatchHeunDiscreteScheduler", {"shift": 3.0}, 0),
]


def network(x: Tensor, t: Tensor) -> Tensor:
    bend = torch.cos(t.double() / 300).view(-1, 1, 1, 1)
    return (0.9 * x + torch.tanh(2 * x.roll(1, -2)) * bend).tanh()


def prepared(name: str, settings: dict[str, Any]) -> Any:
    own = getattr(diffusers, name)(**settings)
    own.set_timesteps(STEPS)
    return in_float64(own)


def step(own: Any, k: int, x: Tensor, drawn: Tensor) -> Tensor:
    """Both calls of step k; the last has one."""
    for call in range(2 * k, min(2 * k + 2, len(own.timesteps))):
        t = own.timesteps[call]
        shown = own.scale_model_input(x, t) if hasattr(own, "scale_model_input") else x
        with Supplied(lambda shape: drawn):
            x = own.step(network(shown, t.expand(len(x))), t, x)[0]
    return x


def made(name: str, settings: dict[str, Any]) -> da.GaussianChain:
    scheduler = getattr(diffusers, name)(**settings)
    return from_diffusers(
        network, scheduler, num_inference_steps=STEPS, shape=SHAPE, record=range(1, STEPS), dtype=torch.float64
    )


@pytest.mark.parametrize(("name", "settings", "random"), FOLLOWED, ids=str)
def test_it_takes_the_steps_of_its_own_loop(name: str, settings: dict[str, Any], random: int) -> None:
    chain, own, draw = made(name, settings), prepared(name, settings), noise.steps(3, 2)
    x, states = noise.first(3, 2).view(3, *SHAPE) * chain.plan.start, []
    for k in range(STEPS):
        x = step(own, k, x, draw().view(3, *SHAPE))
        states.append(x)
    result = da.sample(chain, 3, sampler=Sequential(), seed=noise.SEED)
    torch.testing.assert_close(result.samples, torch.stack(states, 1), rtol=1e-7, atol=1e-7)
    assert int((chain.plan.s > 0).sum()) == random
    assert chain.passes == 2 and result.report.passes == 2 * result.report.queries


def paths_p_value(chain: da.GaussianChain) -> float:
    """Of the noise that is left of paths drawn ahead, by the scheduler's own calls."""
    x = da.sample(chain, 3000, sampler=Coupled(), seed=0, max_live=3000).samples
    noises = []
    for k in range(1, STEPS - 1):
        ends = []
        for supplied in (torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0])):
            own = prepared(ANCESTRAL, {})
            own._step_index = 2 * k
            ends.append(step(own, k, x[:, k - 1], supplied))
        noises.append(((x[:, k] - ends[0]) / (ends[1] - ends[0])).flatten(1))
    return path_p_value(torch.stack(noises, 1))


def test_drawn_ahead_it_has_its_law(check: Check) -> None:
    check(paths_p_value(made(ANCESTRAL, {})))


def test_one_call_instead_of_two_is_noticed() -> None:
    from tests.exactness import LEVEL

    chain = made(ANCESTRAL, {})
    tables = chain.denoiser.tables.clone()
    tables[3:5] = torch.stack([tables[0], chain.plan.time.double()])  # the second call is shown the first one's time
    chain.denoiser.tables = tables
    assert paths_p_value(chain) < LEVEL


def test_noise_between_the_two_calls_is_refused_with_the_remedy() -> None:
    class Between(getattr(diffusers, ANCESTRAL)):  # type: ignore[misc]
        def step(self, model_output: Tensor, timestep: Any, sample: Tensor, **options: Any) -> Any:
            return super().step(model_output + 0.1 * torch.randn_like(sample), timestep, sample, **options)

    with pytest.raises(InputError, match=r"noise between the two calls of a step.*DPMPPSDE"):
        from_diffusers(network, Between(), num_inference_steps=STEPS, shape=SHAPE)


def test_calls_that_are_not_linear_are_refused() -> None:
    scheduler = diffusers.HeunDiscreteScheduler(clip_sample=True)
    with pytest.raises(InputError, match="HeunDiscreteScheduler cannot be followed exactly: step 0"):
        from_diffusers(network, scheduler, num_inference_steps=STEPS, shape=SHAPE)
