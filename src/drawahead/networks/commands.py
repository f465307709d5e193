"""The shipped networks by name, for `drawahead sample`. Weights are read when a network is used, not before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from drawahead.cli.subjects import Entry, Subject, TargetOptions, in_order
from drawahead.errors import InputError

if TYPE_CHECKING:
    import torch

STEPS, FEWER_STEPS = 1000, 100
"""Steps of an image model on a GPU, and without one, where all of them would take minutes."""


def entries() -> tuple[Entry, ...]:
    """The networks."""
    return (
        Entry(
            "text",
            "network",
            "any-order characters, trained on the State of the Union addresses; 7.1 million parameters",
            ("size", "order", "prompt", "temperature", "device", "dtype", "compile"),
            _text,
            "up to 256",
        ),
        Entry(
            "fashion",
            "network",
            "28x28 pictures of clothes, a DDPM of 1000 steps trained on Fashion-MNIST; 5.6 million parameters",
            ("steps", "device", "dtype", "compile"),
            _fashion,
            "28",
        ),
        Entry(
            "emoji",
            "network",
            "32x32 colour pictures from words, a guided DDPM of 1000 steps trained on emoji; 7.5 million parameters",
            ("prompt", "guidance", "steps", "device", "dtype", "compile"),
            _emoji,
            "32",
        ),
        Entry(
            "emoji-tokens",
            "network",
            "the same pictures as tokens of a palette, drawn from left to right; 4.7 million parameters",
            ("prompt", "guidance", "temperature", "device", "dtype", "compile"),
            _emoji_tokens,
            "32",
        ),
    )


def usual_steps(device: str) -> int:
    """The default number of steps of an image model."""
    return STEPS if device == "cuda" else FEWER_STEPS


def _text(name: str, options: TargetOptions) -> Subject:
    from drawahead.chains.tokens import TokenChain
    from drawahead.networks.text import TEMPERATURE, infilling, text
    from drawahead.show.views import view_of

    device, dtype = _device(options.device), _dtype(options.dtype)
    temperature = TEMPERATURE if options.temperature is None else options.temperature
    prompt = options.one_prompt
    if prompt is None:
        size = options.size or 256
        options = replace(options, size=size)
        chain = TokenChain(text(size, temperature=temperature, device=device, dtype=dtype))
    elif options.size is not None:
        raise InputError("--size does not go with --prompt: the text is as long as its prompt")
    else:
        chain = infilling(prompt, temperature=temperature, device=device, dtype=dtype)
    chain = in_order(chain, options.order)
    return Subject(name, chain, view_of(chain), num=4, options=replace(options, temperature=temperature).given)


def _fashion(name: str, options: TargetOptions) -> Subject:
    from drawahead.networks.fashion import fashion
    from drawahead.show.views import Images

    device = _device(options.device)
    steps, remark = _steps(options.steps, device)
    chain = fashion(steps, device=device, dtype=_dtype(options.dtype))
    return Subject(name, chain, Images(), remark=remark, options=replace(options, steps=steps).given)


def _emoji(name: str, options: TargetOptions) -> Subject:
    from drawahead.networks.emoji import GUIDANCE, emoji
    from drawahead.show.views import Images

    device = _device(options.device)
    prompts = _prompts(name, options)
    steps, remark = _steps(options.steps, device)
    guidance = GUIDANCE if options.guidance is None else options.guidance
    chain = emoji(prompts, guidance=guidance, steps=steps, device=device, dtype=_dtype(options.dtype))
    made_with = replace(options, steps=steps, guidance=guidance).given
    return Subject(name, chain, Images(), max(Subject.num, len(prompts)), remark=remark, options=made_with)


def _emoji_tokens(name: str, options: TargetOptions) -> Subject:
    from drawahead.networks.emoji_tokens import GUIDANCE, emoji_tokens
    from drawahead.show.views import view_of

    prompts = _prompts(name, options)
    guidance = GUIDANCE if options.guidance is None else options.guidance
    temperature = 1.0 if options.temperature is None else options.temperature
    device, dtype = _device(options.device), _dtype(options.dtype)
    chain = emoji_tokens(prompts, guidance=guidance, temperature=temperature, device=device, dtype=dtype)
    made_with = replace(options, guidance=guidance, temperature=temperature).given
    return Subject(name, chain, view_of(chain), max(Subject.num, len(prompts)), options=made_with)


def _prompts(name: str, options: TargetOptions) -> list[str]:
    if options.prompt is None:
        raise InputError(f'{name} needs words: --prompt "red apple", as often as there are prompts')
    return [options.prompt] if isinstance(options.prompt, str) else list(options.prompt)


def _steps(number: int | None, device: str) -> tuple[int, str]:
    """How many of an image model's steps to take, and what to say about it."""
    steps = number or usual_steps(device)
    fewer = not number and steps != STEPS
    return steps, f"drawing with {steps} of its {STEPS} steps; --steps {STEPS} for all" if fewer else ""


def _device(name: str | None) -> str:
    import torch

    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError("--device cuda: torch finds no GPU here")
    return name or ("cuda" if there else "cpu")


def _dtype(name: str | None) -> torch.dtype:
    import torch

    found = getattr(torch, name or "float32", None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InputError(f"there is no dtype {name!r} for a network")
    return found
