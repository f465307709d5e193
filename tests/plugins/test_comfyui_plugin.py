"""ComfyUI's node, on stand-ins for the two modules of ComfyUI that it uses.

The real ones need a torchvision that fits its torch; tried by hand with ComfyUI 0.7, as docs/doors.md says.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

PLUGINS = Path(__file__).parents[2] / "plugins"
CENTRE = torch.linspace(-1, 1, 4, dtype=torch.float64).view(1, 4, 1, 1)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    samplers, sampling = ModuleType("comfy.samplers"), ModuleType("comfy.k_diffusion.sampling")
    vars(samplers)["KSAMPLER"] = lambda function, options: SimpleNamespace(function=function, options=options)
    vars(sampling)["sample_euler_ancestral"] = lambda model, x, *rest, **options: ("its own", options)
    modules = {"comfy": ModuleType("comfy"), "comfy.samplers": samplers, "comfy.k_diffusion": ModuleType("k")}
    vars(modules["comfy"])["samplers"] = samplers
    vars(modules["comfy.k_diffusion"])["sampling"] = sampling
    for name, module in (modules | {"comfy.k_diffusion.sampling": sampling}).items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(PLUGINS))
    yield importlib.import_module("comfyui.nodes")
    for name in [name for name in sys.modules if name.split(".")[0] == "comfyui"]:
        del sys.modules[name]


def model(x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
    """Of data N(CENTRE, 1/4)."""
    s = sigma.view(-1, 1, 1, 1)
    return (0.25 * x + CENTRE * s**2) / (0.25 + s**2)


def levels(steps: int) -> Tensor:
    return torch.cat([torch.linspace(3.0, -3.0, steps, dtype=torch.float64).exp(), torch.zeros(1, dtype=torch.float64)])


def literal(x: Tensor, sigmas: Tensor, generator: torch.Generator) -> Tensor:
    """The loop that its own sampler runs."""
    for now, then in itertools.pairwise(sigmas):
        up = (then**2 * (now**2 - then**2) / now**2).sqrt()
        down = (then**2 - up**2).sqrt()
        data = model(x, now.expand(len(x)))
        x = data + (x - data) * down / now + up * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return x


def literal_2m(x: Tensor, sigmas: Tensor, generator: torch.Generator) -> Tensor:
    """That of dpmpp_2m_sde, by the midpoint rule."""
    old = last = None
    for now, then in itertools.pairwise(sigmas):
        data = model(x, now.expand(len(x)))
        if then == 0:
            return data
        h = (now / then).log()
        push = -torch.expm1(-2 * h)
        x = then / now * (-h).exp() * x + push * data
        if old is not None and last is not None:
            x = x + 0.5 * push * h / last * (data - old)
        x = x + then * push.sqrt() * torch.randn(x.shape, generator=generator, dtype=x.dtype)
        old, last = data, h
    return x


@pytest.mark.parametrize("name", ["euler_ancestral", "ddpm", "dpmpp_2m_sde"])
def test_images_have_the_law_of_its_own_sampler(name: str, nodes: Any, check: Any) -> None:
    sigmas, generator = levels(40), torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 1500, 4, 1, 1, generator=generator, dtype=torch.float64) * sigmas[0]
    (made,) = nodes.DrawaheadSampler().make(name, 1.0, 1.0, 16)
    seen: list[int] = []
    ours = made.function(model, x, sigmas, {"seed": 5}, lambda about: seen.append(about["i"]), None, **made.options)
    theirs = (literal_2m if name == "dpmpp_2m_sde" else literal)(other, sigmas, generator)
    check(float(ks_2samp((ours - CENTRE).flatten(), (theirs - CENTRE).flatten()).pvalue))  # all entries alike
    assert seen == sorted(seen) and seen[-1] == 39 and len(seen) < 40


def by_first_row(x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
    """A condition that ends at some noise level, chosen by the first row, as ComfyUI chooses them."""
    return model(x, sigma) * (1.0 if sigma[0] > 1 else 0.5)


@pytest.mark.parametrize(
    ("steps", "more", "asked", "words"),
    [
        (20, {}, model, "too few"),
        (40, {"denoise_mask": torch.ones(1)}, model, "a mask"),
        (40, {}, by_first_row, "several steps at once"),
    ],
    ids=["few", "mask", "by first row"],
)
def test_what_cannot_be_taken_ahead_is_left_to_comfyui(
    steps: int, more: dict[str, Any], asked: Any, words: str, nodes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.ones(2, 4, 1, 1, dtype=torch.float64) * 20
    with caplog.at_level(logging.INFO):
        found = nodes.sample(asked, x, levels(steps), more, name="euler_ancestral", eta=0.9)
    assert found == ("its own", {"eta": 0.9, "s_noise": 1.0})
    assert words in caplog.text
