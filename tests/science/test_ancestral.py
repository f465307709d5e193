"""Objects whose p_mean_variance says what a step does: read by what they do, drawn as their own loops draw.

Stand-ins, written here, have the two interfaces. denoising-diffusion-pytorch itself is looked at where it is installed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.verification.statistics import same_law
from tests.exactness import LEVEL
from tests.science import noise

SHAPE, STEPS = (1, 2, 2), 12


class Network(nn.Module):
    """Small, with as many outputs as are wanted; it says at which times it was asked."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = nn.Conv2d(1, outputs, 1)
        self.times: list[Tensor] = []

    def forward(self, x: Tensor, t: Tensor, x_self_cond: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
        self.times.append(t)
        out: Tensor = self.mix(x).tanh() * torch.cos(t / 5.0).view(-1, 1, 1, 1)
        return out if shift is None else out + shift.view(-1, 1, 1, 1)


class Diffusion(nn.Module):
    """Steps of a DDPM as both packages have them; `kind` is what the network predicts."""

    def __init__(self, kind: str, *, learned: bool = False, respaced: int = 1, eta: float | None = None) -> None:
        super().__init__()
        self.model, self.kind, self.learned, self.respaced = Network(1 + learned), kind, learned, respaced
        betas = torch.linspace(0.02, 0.4, STEPS, dtype=torch.float64)
        abar = torch.cumprod(1 - betas, 0)
        before = torch.cat([torch.ones(1, dtype=torch.float64), abar[:-1]])
        variance = betas * (1 - before) / (1 - abar)
        variance[0] = variance[1]
        tables = {"betas": betas, "alphas_cumprod": abar, "low": variance.log(), "high": betas.log()}
        tables["a"], tables["b"] = (1 - before) * (1 - betas).sqrt() / (1 - abar), betas * before.sqrt() / (1 - abar)
        for name, table in tables.items():
            self.register_buffer(name, table.float())
        self.num_timesteps, self.channels, self.image_size, self.self_condition = STEPS, 1, SHAPE[1:], False
        self.is_ddim_sampling, self.sampling_timesteps, self.ddim_sampling_eta = eta is not None, 5, eta or 0.0

    def unnormalize(self, x: Tensor) -> Tensor:
        return (x + 1) / 2

    def table(self, name: str, t: Tensor) -> Tensor:
        return self.get_buffer(name)[t].view(-1, 1, 1, 1)

    def law(self, network: Any, x: Tensor, t: Tensor, clip: bool, **more: Any) -> tuple[Tensor, Tensor, Tensor]:
        output = network(x, t * self.respaced, *(() if more else (None,)), **more)
        out, v = output.tensor_split([1], 1)
        abar = self.table("alphas_cumprod", t)
        data = {
            "noise": (x - (1 - abar).sqrt() * out) / abar.sqrt(),
            "data": out,
            "velocity": abar.sqrt() * x - (1 - abar).sqrt() * out,
            "squared": out**2,
        }[self.kind]
        data = data.clamp(-1, 1) if clip else data
        mean, low, high = (
            self.table("a", t) * x + self.table("b", t) * data,
            self.table("low", t),
            self.table("high", t),
        )
        return mean, low + (v + 1) / 2 * (high - low) if self.learned else low.expand_as(x), data

    def p_mean_variance(
        self, x: Tensor, t: Tensor, clip_denoised: bool = True
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean, log, data = self.law(self.model, x, t, clip_denoised)
        return mean, log.exp(), log, data


class Guided(Diffusion):
    """The other interface: the network is an argument, and a dictionary comes back."""

    def p_mean_variance(self, model: Any, x: Tensor, t: Tensor, clip_denoised: bool = True) -> Any:  # type: ignore[override]
        mean, log, data = self.law(lambda x, t, *_: model(x, t), x, t, clip_denoised)
        return {"mean": mean, "log_variance": log, "pred_xstart": data}


def its_own_loop(diffusion: Diffusion, x: Tensor, draw: Callable[[], Tensor], **more: Any) -> Tensor:
    for i in reversed(range(STEPS)):
        t = torch.full((len(x),), i)
        mean, log, _ = diffusion.law(diffusion.model, x, t, True, **more)
        x = mean + (log / 2).exp() * draw().view_as(x).float() * (i > 0)
    return x


@pytest.mark.parametrize("kind", ["noise", "data", "velocity"])
def test_it_draws_what_its_own_loop_draws(kind: str) -> None:
    diffusion = Diffusion(kind)
    chain = da.adapters.from_denoising_diffusion(diffusion)
    first = noise.first(3, 4).view(3, *SHAPE).float()
    with torch.no_grad():
        expected = diffusion.unnormalize(its_own_loop(diffusion, first, noise.steps(3, 4)))
    torch.testing.assert_close(noise.one_by_one(chain), expected.flatten(1).double(), rtol=0, atol=1e-5)
    assert not any(hasattr(module, "output") for module in diffusion.modules())  # it was left alone


def test_a_respaced_and_conditioned_loop_tells_its_network_the_same_times() -> None:
    diffusion = Guided("noise", respaced=7)
    shift = torch.tensor([0.1, -0.2, 0.3])
    chain = da.adapters.from_guided_diffusion(diffusion, diffusion.model, SHAPE, condition={"shift": shift})
    first = noise.first(3, 4).view(3, *SHAPE).float()
    with torch.no_grad():
        expected = its_own_loop(diffusion, first, noise.steps(3, 4), shift=shift)
        times = [t.clone() for t in diffusion.model.times]
        diffusion.model.times.clear()
        torch.testing.assert_close(noise.one_by_one(chain), expected.flatten(1).double(), rtol=0, atol=1e-5)
    assert all(torch.equal(one, two) for one, two in zip(times, diffusion.model.times, strict=True))


def loop_of_ddim(diffusion: Diffusion, x: Tensor, draw: Callable[[], Tensor]) -> Tensor:
    abar, eta = diffusion.get_buffer("alphas_cumprod"), diffusion.ddim_sampling_eta
    times = [*reversed(torch.linspace(-1, STEPS - 1, steps=diffusion.sampling_timesteps + 1).int().tolist())]
    for here, after in itertools.pairwise(times):
        data = diffusion.law(diffusion.model, x, torch.full((len(x),), here), True)[2]
        if after < 0:
            return data
        eps = (x - abar[here].sqrt() * data) / (1 - abar[here]).sqrt()
        sigma = eta * ((1 - abar[here] / abar[after]) * (1 - abar[after]) / (1 - abar[here])).sqrt()
        x = abar[after].sqrt() * data + (1 - abar[after] - sigma**2).sqrt() * eps + sigma * draw().view_as(x).float()
    raise AssertionError


def test_with_fewer_timesteps_it_takes_the_steps_of_ddim() -> None:
    diffusion = Diffusion("velocity", eta=0.8)
    chain = da.adapters.from_denoising_diffusion(diffusion)
    with torch.no_grad():
        expected = loop_of_ddim(diffusion, noise.first(3, 4).view(3, *SHAPE).float(), noise.steps(3, 4))
    expected = diffusion.unnormalize(expected).flatten(1).double()
    torch.testing.assert_close(noise.one_by_one(chain), expected, rtol=0, atol=1e-5)


def learned_p_value(chain: da.GaussianChain, diffusion: Diffusion, count: int = 20_000) -> float:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        first = torch.randn(count, *SHAPE, generator=generator)
        expected = its_own_loop(diffusion, first, lambda: torch.randn(count, 4, generator=generator))
    drawn = noise.ahead(chain, count, window=4).samples
    # Many entries are clipped: rounding must not tell those of one side from those of the other.
    return same_law(*(samples.flatten(1).double().mul(1e4).round() for samples in (drawn, expected)))


def test_learned_variances_have_the_law_of_their_loop(check: Callable[[float], None]) -> None:
    diffusion = Guided("noise", learned=True)
    chain = da.adapters.from_guided_diffusion(diffusion, diffusion.model, SHAPE)
    assert chain.plan.spread is not None
    check(learned_p_value(chain, diffusion))


def test_variances_that_are_read_half_a_range_off_are_noticed() -> None:
    """The mutant: 0 is taken for the lower end of a learned range."""
    diffusion = Guided("noise", learned=True)
    chain = da.adapters.from_guided_diffusion(diffusion, diffusion.model, SHAPE)

    def off(x: Tensor, k: Tensor) -> Tensor:
        data, v = chain.denoiser(x, k).tensor_split([1], 1)
        return torch.cat([data, v - 1], 1)

    assert learned_p_value(chain.replace(denoiser=off), diffusion) < LEVEL


def test_what_cannot_be_drawn_ahead_is_refused_in_one_line() -> None:
    diffusion = Diffusion("noise")
    diffusion.self_condition = True
    with pytest.raises(da.InputError, match="needs its last prediction first"):
        da.adapters.from_denoising_diffusion(diffusion)
    with pytest.raises(da.InputError, match="ddim_sampling_eta is 0"):
        da.adapters.from_denoising_diffusion(Diffusion("noise", eta=0.0))
    with pytest.raises(da.InputError, match="not linear in x"):
        da.adapters.from_denoising_diffusion(Diffusion("squared"))
    with pytest.raises(da.InputError, match="it has no p_mean_variance"):
        da.adapters.from_guided_diffusion(object(), Network(), SHAPE)


def test_the_package_itself_draws_the_same() -> None:
    package = pytest.importorskip("denoising_diffusion_pytorch")
    network = package.Unet(dim=8, dim_mults=(1, 2), channels=1, flash_attn=False).eval()
    diffusion = package.GaussianDiffusion(network, image_size=4, timesteps=8)
    samples = da.sample(da.adapters.from_denoising_diffusion(diffusion), 2, sampler=da.Sequential(), seed=0).samples
    assert samples.shape == (2, 1, 4, 4) and 0 <= float(samples.min()) <= float(samples.max()) <= 1
