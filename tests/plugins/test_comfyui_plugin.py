"""ComfyUI's node, beside ComfyUI's own functions: literal loops in their place, or the real ones.

With COMFYUI=FOLDER in the environment, FOLDER holding ComfyUI 0.7 (and a Python that has what it needs), the node meets
the real modules; else stand-ins for what it uses of them.
"""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from torch import Tensor

PLUGINS = Path(__file__).parents[2] / "plugins"
NAMES = ("euler_ancestral", "ddpm", "dpmpp_2m_sde", "dpmpp_sde")
CENTRE = torch.linspace(-1, 1, 4, dtype=torch.float64).view(1, 4, 1, 1)


class Model:
    """Of data N(CENTRE, 1/4), with as much around it as ComfyUI's functions look at."""

    def __init__(self, conds: Any = None, flow: bool = False) -> None:
        def noise_scaling(sigma: Tensor, noise: Tensor, latent: Tensor, _: bool = False) -> Tensor:
            return sigma * noise + (1 - sigma if flow else 1.0) * latent

        kind = SimpleNamespace(noise_scaling=noise_scaling)
        patcher = SimpleNamespace(get_model_object=lambda _: kind)
        inside = SimpleNamespace(model_sampling=kind)
        self.inner_model = SimpleNamespace(inner_model=inside, model_patcher=patcher, conds=conds or {"positive": [{}]})
        self.calls: list[int] = []

    def __call__(self, x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
        self.calls.append(len(x))
        s = sigma.view(-1, 1, 1, 1)
        return (0.25 * x + CENTRE * s**2) / (0.25 + s**2)


class ByFirstRow(Model):
    """With a patch that ends at some noise level, which it reads from the first row, as many do."""

    def __call__(self, x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
        return super().__call__(x, sigma) * (1.0 if sigma[0] > 1 else 0.5)


class Slow(Model):
    """As slow as it has rows: nothing can be gained."""

    def __call__(self, x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
        time.sleep(0.01 * len(x))
        return super().__call__(x, sigma)


def levels(steps: int) -> Tensor:
    return torch.cat([torch.linspace(3.0, -3.0, steps, dtype=torch.float64).exp(), torch.zeros(1, dtype=torch.float64)])


def up_down(now: Tensor, then: Tensor) -> tuple[Tensor, Tensor]:
    up = (then**2 * (now**2 - then**2) / now**2).sqrt()
    return up, (then**2 - up**2).sqrt()


Loop = Callable[..., Tensor]


def loop(step: Callable[..., Tensor]) -> Loop:
    """A function of ComfyUI's signature from what it does in a step; the last one ends with the prediction."""

    def run(model: Any, x: Tensor, sigmas: Tensor, extra_args: Any, callback: Any, _: Any, **options: Any) -> Tensor:
        generator, memory = torch.Generator().manual_seed(extra_args["seed"] + 1), dict[str, Tensor]()
        noise = lambda: torch.randn(x.shape, generator=generator, dtype=x.dtype)  # noqa: E731
        for i, (now, then) in enumerate(itertools.pairwise(sigmas)):
            data = model(x, now.expand(len(x)))
            if callback is not None:
                callback({"i": i, "x": x, "denoised": data})
            x = data if then == 0 else step(model, x, data, now, then, noise, memory)
        return x

    return run


def ancestral(_: Any, x: Tensor, data: Tensor, now: Tensor, then: Tensor, noise: Any, memory: Any) -> Tensor:
    up, down = up_down(now, then)
    return data + (x - data) * down / now + up * noise()


def midpoint_2m(_: Any, x: Tensor, data: Tensor, now: Tensor, then: Tensor, noise: Any, memory: Any) -> Tensor:
    h = (now / then).log()
    push = -torch.expm1(-2 * h)
    x = then / now * (-h).exp() * x + push * data
    if memory:
        x = x + 0.5 * push * h / memory["h"] * (data - memory["data"])
    memory.update(h=h, data=data)
    return x + then * push.sqrt() * noise()


def two_halves(model: Any, x: Tensor, data: Tensor, now: Tensor, then: Tensor, noise: Any, memory: Any) -> Tensor:
    """A Brownian motion over the levels: what the whole step draws holds what its first half drew."""
    half = (now * then).sqrt()
    up, down = up_down(now, half)
    first = noise()
    at = data + (x - data) * down / now + up * first
    there = model(at, half.expand(len(x)))
    share = (now - half) / (now - then)
    up, down = up_down(now, then)
    return there + (x - there) * down / now + up * (share.sqrt() * first + (1 - share).sqrt() * noise())


LOOPS = dict(zip(NAMES, map(loop, (ancestral, ancestral, midpoint_2m, two_halves)), strict=True))


def comfyui() -> dict[str, ModuleType]:
    """Stand-ins for the modules that the node imports."""
    names = ("comfyui_version", "comfy", "comfy.samplers", "comfy.k_diffusion", "comfy.k_diffusion.sampling")
    modules = {name: ModuleType(name) for name in names}
    for name, module in modules.items():
        above, _, below = name.rpartition(".")
        if above:
            setattr(modules[above], below, module)
    vars(modules["comfyui_version"])["__version__"] = "0.7.0"
    vars(modules["comfy.samplers"])["KSAMPLER"] = lambda function, options: SimpleNamespace(
        sampler_function=function, extra_options=options
    )
    vars(modules["comfy.k_diffusion.sampling"]).update({f"sample_{name}": each for name, each in LOOPS.items()})
    return modules


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if folder := os.environ.get("COMFYUI"):
        monkeypatch.syspath_prepend(folder)
        importlib.import_module("comfy.cli_args").args.cpu = True
    else:
        for name, module in comfyui().items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(PLUGINS))
    yield importlib.import_module("comfyui.nodes")
    for name in [name for name in sys.modules if name.split(".")[0] == "comfyui"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
def test_images_have_the_law_of_its_own_sampler(name: str, nodes: Any, check: Any) -> None:
    sigmas, generator = levels(40), torch.Generator().manual_seed(0)
    x, other = torch.randn(2, 1500, 4, 1, 1, generator=generator, dtype=torch.float64) * sigmas[0]
    (made,) = nodes.DrawaheadSampler().make(name, 1.0, 1.0, 16)
    seen: list[int] = []
    more = {"seed": 5}, lambda about: seen.append(about["i"]), None
    ours = made.sampler_function(Model(), x, sigmas, *more, **made.extra_options)
    theirs = getattr(nodes.sampling, f"sample_{name}")(Model(), other, sigmas, {"seed": 7}, None, True)
    check(float(ks_2samp((ours - CENTRE).flatten(), (theirs - CENTRE).flatten()).pvalue))  # all entries alike
    assert seen == sorted(seen) and seen[-1] == 39 and len(seen) < 40


@pytest.mark.parametrize(
    ("more", "model", "words"),
    [
        ({"denoise_mask": torch.ones(1)}, Model(), "a mask"),
        ({}, ByFirstRow(), "several steps at once"),
        ({}, Model(flow=True), "flow model"),
        ({}, Model({"positive": [{"timestep_start": 3.0}], "negative": None}), "begins or ends at a step"),
        ({}, Model({"positive": [{"control": SimpleNamespace(timestep_percent_range=(0.0, 0.5))}]}), "begins or ends"),
        (
            {},
            Model({"positive": [{"model_conds": {"c": SimpleNamespace(cond=torch.ones(2, 3))}}]}),
            "conditions of its own",
        ),
    ],
    ids=["mask", "by first row", "flow", "a condition ends", "a control ends", "prompts"],
)
def test_what_cannot_be_taken_ahead_is_left_to_comfyui(
    more: dict[str, Any], model: Model, words: str, nodes: Any, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        nodes.sampling, "sample_euler_ancestral", lambda model, x, *rest, **options: ("its own", options)
    )
    x = torch.ones(2, 4, 1, 1, dtype=torch.float64) * 20
    with caplog.at_level(logging.INFO):
        found = nodes.sample(model, x, levels(40), more, name="euler_ancestral", eta=0.9, window=8)
    assert found == ("its own", {"eta": 0.9, "s_noise": 1.0})
    assert words in caplog.text


@pytest.mark.parametrize(("steps", "most"), [(20, 20), (30, 30), (100, 110)])
def test_where_nothing_is_gained_its_own_loop_runs(
    steps: int, most: int, nodes: Any, caplog: pytest.LogCaptureFixture, clock: None
) -> None:
    """With hardly more questions than its own loop asks, and exactly what that draws."""
    x = torch.ones(1, 4, 1, 1, dtype=torch.float64) * 20
    model, alone = Slow(), Slow()
    with caplog.at_level(logging.INFO):
        ours = nodes.sample(model, x, levels(steps), {"seed": 3}, name="euler_ancestral")
    theirs = nodes.sampling.sample_euler_ancestral(alone, x, levels(steps), {"seed": 3}, None, True)
    assert "is taken one step at a time: nothing is gained" in caplog.text
    assert torch.equal(ours, theirs)
    assert sum(alone.calls) == steps and sum(model.calls) <= most


def test_what_is_gained_is_measured(nodes: Any, caplog: pytest.LogCaptureFixture, clock: None) -> None:
    class Wide(Model):
        """As quick for many rows as for one."""

        def __call__(self, x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
            time.sleep(0.01)
            return super().__call__(x, sigma)

    model, x = Wide(), torch.ones(1, 4, 1, 1, dtype=torch.float64) * 20
    with caplog.at_level(logging.INFO):
        nodes.sample(model, x, levels(100), {"seed": 3}, name="dpmpp_sde")
    assert "dpmpp_sde in " in caplog.text and len(model.calls) < 100  # its own loop asks 199 times


@pytest.mark.parametrize(("after", "window"), [(1, 0), (6, 8)], ids=["measuring", "drawing"])
def test_an_interruption_reaches_comfyui(after: int, window: int, nodes: Any) -> None:
    class Interrupted(Exception):
        """ComfyUI raises one from within its models, once."""

    class Stopping(Model):
        def __call__(self, x: Tensor, sigma: Tensor, **_: Any) -> Tensor:
            if len(self.calls) == after:
                self.calls.append(0)
                raise Interrupted
            return super().__call__(x, sigma)

    x = torch.ones(1, 4, 1, 1, dtype=torch.float64) * 20
    with pytest.raises(Interrupted):
        nodes.sample(Stopping(), x, levels(120), {"seed": 3}, name="euler_ancestral", window=window)


def test_a_version_that_is_not_known_is_named(
    nodes: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("comfyui_version.__version__", "0.30.1")
    importlib.reload(nodes)
    assert "compared with the samplers of ComfyUI 0.7, not 0.30.1" in caplog.text
