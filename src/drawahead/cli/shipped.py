"""The networks that come with drawahead, by name. Their weights are read when they are asked for, not before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from drawahead import networks
from drawahead.chains import Chain, TokenChain
from drawahead.cli.building import built
from drawahead.counting import tilings
from drawahead.errors import InputError
from drawahead.networks.emoji import GUIDANCE
from drawahead.networks.emoji_tokens import GUIDANCE as TOKEN_GUIDANCE
from drawahead.networks.text import TEMPERATURE
from drawahead.samplers import Sampler, Separated
from drawahead.show.views import Images, View, view_of

FEWER_STEPS = 100
"""Of an image model, where no GPU is there: all of its 1000 steps would take minutes."""


@dataclass(frozen=True)
class TargetOptions:
    """The options of `drawahead sample` that only some targets have; None where one is not given."""

    size: int | None = None
    order: str | None = None
    prompt: str | list[str] | None = None
    """A list if there are several."""
    temperature: float | None = None
    steps: int | None = None
    device: str | None = None
    dtype: str | None = None
    guidance: float | None = None
    graph: str | None = None
    kernel: str | None = None
    items: int | None = None
    coupling: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that are given, but for the device: what a sample depends on."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "device"}

    def filled(self, options: Mapping[str, Any]) -> TargetOptions:
        """With these where nothing is asked for; they come from a manifest, so anything may be wrong with them."""
        for name, value in options.items():
            if type(value) not in KINDS.get(name, ()):
                raise InputError(f"the job has the option {name!r} with the value {value!r}, which no target has")
        return replace(self, **{name: value for name, value in options.items() if getattr(self, name) is None})

    @property
    def one_prompt(self) -> str | None:
        """The prompt, where no more than one is taken."""
        if isinstance(self.prompt, list):
            raise InputError(f"--prompt is given {len(self.prompt)} times: give one, or run once for each")
        return self.prompt

    def only(self, name: str, *options: str) -> None:
        """Refuse options that the target called `name` does not have."""
        for option, value in vars(self).items():
            if value is not None and option not in options:
                why = "; its exact oracle computes in float64" if option == "dtype" else ""
                takes = f", which takes {', '.join(f'--{known}' for known in options)}" if options and not why else ""
                raise InputError(f"--{option} does not apply to {name}{takes}{why}")


KINDS: dict[str, tuple[type, ...]] = {
    "size": (int,),
    "order": (str,),
    "prompt": (str, list),
    "temperature": (int, float),
    "steps": (int,),
    "dtype": (str,),
    "guidance": (int, float),
    "graph": (str,),
    "kernel": (str,),
    "items": (int,),
    "coupling": (int, float),
}
"""What the options that a sample depends on may be."""


@dataclass(frozen=True)
class Subject:
    """Something to draw from, and how its samples look."""

    name: str
    chain: Chain
    view: View
    num: int = 8
    """How many samples are drawn unless another number is asked for."""
    sampler: Sampler | None = None
    """How they are drawn unless another sampler is asked for; None measures and chooses."""
    remark: str = ""
    """What the user should know before the samples come."""
    setup_seconds: float = 0.0
    """How long it took to make."""
    options: dict[str, Any] = field(default_factory=dict)
    """What it was made with, defaults included: a job writes it down, and is resumed with it."""

    def of(self, num: int) -> Subject:
        """The same for so many samples: several prompts take turns, so sample i shows prompt i modulo their number."""
        given: dict[str, Any] = getattr(self.chain, "condition", {})
        if not given or all(len(table) == 1 for table in given.values()):
            return self
        if (prompts := max(map(len, given.values()))) > num:
            raise InputError(f"--num {num} leaves some of the {prompts} prompts out: ask for {prompts} samples or more")
        turns = {name: table[torch.arange(num, device=table.device) % len(table)] for name, table in given.items()}
        return replace(self, chain=self.chain.replace(condition=turns))


@dataclass(frozen=True)
class Shipped:
    """A network that comes with drawahead."""

    name: str
    summary: str
    size: str
    options: tuple[str, ...]
    make: Callable[[TargetOptions], Subject]


def _text(asked: TargetOptions) -> Subject:
    device, dtype = _device(asked.device), _dtype(asked.dtype)
    temperature = TEMPERATURE if asked.temperature is None else asked.temperature
    prompt = asked.one_prompt
    if prompt is None:
        asked = replace(asked, size=asked.size or 256)
        chain = TokenChain(networks.text(asked.size or 256, temperature=temperature, device=device, dtype=dtype))
    elif asked.size is not None:
        raise InputError("--size does not go with --prompt: the text is as long as its prompt")
    else:
        chain = networks.infilling(prompt, temperature=temperature, device=device, dtype=dtype)
    options = replace(asked, temperature=temperature).given
    chain = in_order(chain, asked.order)
    return Subject("text", chain, view_of(chain), num=4, options=options)


def _fashion(asked: TargetOptions) -> Subject:
    device = _device(asked.device)
    steps, remark = _steps(asked.steps, device)
    chain = networks.fashion(steps, device=device, dtype=_dtype(asked.dtype))
    return Subject("fashion", chain, Images(), remark=remark, options=replace(asked, steps=steps).given)


def _emoji(asked: TargetOptions) -> Subject:
    device = _device(asked.device)
    if asked.prompt is None:
        raise InputError('emoji needs words: --prompt "red apple", as often as there are prompts')
    steps, remark = _steps(asked.steps, device)
    guidance = GUIDANCE if asked.guidance is None else asked.guidance
    chain = networks.emoji(asked.prompt, guidance=guidance, steps=steps, device=device, dtype=_dtype(asked.dtype))
    options = replace(asked, steps=steps, guidance=guidance).given
    num = max(Subject.num, 1 if isinstance(asked.prompt, str) else len(asked.prompt))
    return Subject("emoji", chain, Images(), num, remark=remark, options=options)


def _emoji_tokens(asked: TargetOptions) -> Subject:
    if asked.prompt is None:
        raise InputError('emoji-tokens needs words: --prompt "red apple", as often as there are prompts')
    guidance = TOKEN_GUIDANCE if asked.guidance is None else asked.guidance
    temperature = 1.0 if asked.temperature is None else asked.temperature
    how: dict[str, Any] = {"device": _device(asked.device), "dtype": _dtype(asked.dtype)}
    chain = networks.emoji_tokens(asked.prompt, guidance=guidance, temperature=temperature, **how)
    num = max(4, 1 if isinstance(asked.prompt, str) else len(asked.prompt))
    return Subject(
        "emoji-tokens",
        chain,
        view_of(chain),
        num,
        options=replace(asked, guidance=guidance, temperature=temperature).given,
    )


def _steps(asked: int | None, device: str) -> tuple[int, str]:
    """How many of an image model's 1000 steps to take, and what to say about it."""
    steps = asked or usual_steps(device)
    return steps, "" if asked or steps == 1000 else f"drawing with {steps} of its 1000 steps; --steps 1000 for all"


def usual_steps(device: str) -> int:
    """Of an image model, unless a number is asked for."""
    return 1000 if device == "cuda" else FEWER_STEPS


SHIPPED: dict[str, Shipped] = {
    network.name: network
    for network in (
        Shipped(
            "text",
            "any-order characters, trained on the State of the Union addresses; 7.1 million parameters",
            "up to 256",
            ("size", "order", "prompt", "temperature", "device", "dtype"),
            _text,
        ),
        Shipped(
            "fashion",
            "28x28 pictures of clothes, a DDPM of 1000 steps trained on Fashion-MNIST; 5.6 million parameters",
            "28",
            ("steps", "device", "dtype"),
            _fashion,
        ),
        Shipped(
            "emoji",
            "32x32 colour pictures from words, a guided DDPM of 1000 steps trained on emoji; 7.5 million parameters",
            "32",
            ("prompt", "guidance", "steps", "device", "dtype"),
            _emoji,
        ),
        Shipped(
            "emoji-tokens",
            "the same pictures as tokens of a palette, drawn from left to right; 4.7 million parameters",
            "32",
            ("prompt", "guidance", "temperature", "device", "dtype"),
            _emoji_tokens,
        ),
    )
}

TILINGS = {
    "dominoes": ("square", 16, "domino tilings of a size x size board"),
    "aztec": ("aztec", 12, "domino tilings of the Aztec diamond"),
}
"""By name: the shape of the region, its usual size, and what it is."""


def tiling(name: str, asked: TargetOptions) -> Subject:
    """The tilings called `name`."""
    asked.only(name, "size")
    shape, usual, _ = TILINGS[name]
    size = asked.size or usual
    needs = tilings.needs(shape, size)
    what = f"{name} of size {size}"
    needs.check(what)
    matching = built(what, lambda: tilings.dominoes(shape, size), needs.seconds())
    return Subject(name, TokenChain(matching), matching.view(), 1, Separated(), options={"size": size})


def in_order(chain: TokenChain, order: str | None) -> TokenChain:
    """The same chain in the order that `--order` names."""
    return TokenChain(chain.oracle, order="spread", evidence=chain.evidence) if order == "spread" else chain


def _device(name: str | None) -> str:
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError("--device cuda: torch finds no GPU here")
    return name or ("cuda" if there else "cpu")


def _dtype(name: str | None) -> torch.dtype:
    found = getattr(torch, name or "float32", None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InputError(f"there is no dtype {name!r} for a network")
    return found
