"""diffusers: a network with its scheduler, its conditions and its guidance, as a Gaussian chain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.denoiser import CHANNELS, Denoiser, Guidance, Rows, Told, of_passes
from drawahead.diffusers.networks import as_labels, check_network, first_weight, parts_of, shape_of
from drawahead.diffusers.schedulers.pairs import PairedDenoiser, paired
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.recipe import Recipe
from drawahead.errors import InputError
from drawahead.schedules import Given
from drawahead.validate import as_device, floating, number


def from_diffusers(
    model: Any,
    scheduler: Any = None,
    *,
    num_inference_steps: int | None = None,
    eta: float | None = None,
    use_clipped_model_output: bool = False,
    step_options: Mapping[str, float] | None = None,
    class_labels: int | Sequence[int] | Tensor | None = None,
    condition: Mapping[str, Any] | None = None,
    unconditional: Mapping[str, Any] | None = None,
    guidance_scale: float = 1.0,
    guidance_rescale: float = 0.0,
    channels: Tensor | None = None,
    image: Tensor | None = None,
    strength: float = 1.0,
    shape: Sequence[int] | None = None,
    start: Tensor | None = None,
    known: Tensor | None = None,
    clean: bool = False,
    record: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> GaussianChain:
    """The chain by which `scheduler` draws samples, step for step.

    model: a pipeline of a UNet and a scheduler; or a network of diffusers; or a callable `(x, timesteps, **condition)
        -> output`, timesteps (m,), whose output is a tensor or has one as `.sample`.
    scheduler: a scheduler of diffusers whose step is linear in the state, the output, the previous output and noise; a
        pipeline has its own. Any other raises an error that says why.
    num_inference_steps: as in `set_timesteps`; None visits every training timestep.
    eta, use_clipped_model_output, step_options: arguments of the scheduler's `step`; the last by name, such as
        {"s_churn": 40}. Where no step is random (DDIM with eta = 0, Euler without churn) there is nothing to speculate:
        exact samplers take one step per round, and only `Picard` needs fewer rounds.
    class_labels: for a class-conditional network: one label, or one for each sample.
    condition: further inputs of the network, by the names of its arguments (nested dictionaries where it takes them):
        tensors with a row for each sample or a single one for all.
    unconditional, guidance_scale, guidance_rescale: for classifier-free guidance: its unconditional inputs, by the same
        names (`class_labels` too), and its strength. A query is then two passes in one batch, and the report counts
        both.
    channels: extra channels concatenated to each state, such as mask and picture for inpainting networks.
    image, strength: begin with the last `strength` of the steps, at a noised copy of the image (*shape), or of one for
        each sample.
    shape: that of one sample; a UNet knows its own.
    start, known, clean, record: as in `GaussianChain`.
    dtype, device: of the network's inputs; its own by default. Samples are returned in float32 at least.

    Settings that cannot be reproduced exactly raise an InputError that names them.
    """
    network, scheduler = parts_of(model, scheduler)
    weight = first_weight(network)
    dtype = (torch.float32 if weight is None else weight.dtype) if dtype is None else floating("dtype", dtype)
    device = as_device("device", ("cpu" if weight is None else weight.device) if device is None else device)
    labels = {} if class_labels is None else {"class_labels": as_labels(class_labels).to(device)}
    told, rows, guidance = _told(
        dict(condition or {}) | labels, unconditional, guidance_scale, guidance_rescale, device
    )
    if channels is not None:
        rows[CHANNELS] = channels.to(device)
    _check_rows(rows)
    check_network(network, told, class_labels, channels, scheduler)
    if not 0 < number("strength", strength) <= 1 or (strength < 1) != (image is not None):
        raise InputError(f"strength={strength} must be above 0 and at most 1, and come with image= below 1")
    options = step_settings(eta, use_clipped_model_output) | dict(step_options or {})
    tables = None
    if isinstance(scheduler, Recipe):
        steps = scheduler
    elif getattr(scheduler, "order", 1) == 2:
        steps, tables = Recipes().of(scheduler, num_inference_steps, options, strength, paired)
    else:
        steps = Recipes().of(scheduler, num_inference_steps, options, strength)
    plan, denoiser = steps.plan, Denoiser(network, steps, told, guidance, dtype, device)
    if image is not None:
        image = plan.signal[0] * image.double().cpu()
        plan = replace(plan, start=float(plan.noise[0]))  # as noisy as its levels say
    return GaussianChain(
        denoiser if tables is None else PairedDenoiser(denoiser, tables),
        Given(plan),
        shape_of(network, channels) if shape is None else shape,
        start=start,
        known=known,
        clean=clean,
        around=image,
        record=record,
        dtype=torch.promote_types(dtype, torch.float32),
        device=device,
        condition=rows or None,
    )


def step_settings(eta: float | None, use_clipped_model_output: bool) -> dict[str, Any]:
    """Arguments of a scheduler's `step`."""
    settings: dict[str, Any] = {} if eta is None else {"eta": number("eta", eta, least=0)}
    return settings | ({"use_clipped_model_output": True} if use_clipped_model_output else {})


def _told(
    condition: dict[str, Any],
    unconditional: Mapping[str, Any] | None,
    scale: float,
    rescale: float,
    device: torch.device,
) -> tuple[Told, Rows, Guidance]:
    """The form of what the network is told, its rows, and how its passes become one."""
    scale, rescale = number("guidance_scale", scale), number("guidance_rescale", rescale, least=0)
    here = pytree.tree_map_only(Tensor, lambda table: table.to(device), condition)
    if unconditional is None:
        if scale != 1 or rescale:
            raise InputError(
                "guidance needs a branch without the condition: give unconditional=, by the names of condition"
            )
        return *Told.apart(here), Guidance()
    without = pytree.tree_map_only(Tensor, lambda table: table.to(device), dict(unconditional))
    if "class_labels" in without:
        without["class_labels"] = as_labels(without["class_labels"]).to(device)
    form, rows = Told.apart(here)
    other, others = Told.apart(without)
    if form.form != other.form or not rows:
        raise InputError(
            f"unconditional must name what condition names ({', '.join(rows) or 'nothing'}), not "
            f"{', '.join(others) or 'nothing'}"
        )
    both = {one: table[name] for name in rows for one, table in zip(of_passes(name, 2), (others, rows), strict=True)}
    return Told(form.form, 2), both, Guidance.scaled(scale, rescale)


def _check_rows(rows: Rows) -> None:
    lengths = {name: len(table) for name, table in rows.items() if len(table) != 1}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(f"conditions must have one row for each sample, or a single one for all, but {said}")
