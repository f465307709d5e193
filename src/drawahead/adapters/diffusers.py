"""diffusers: an unconditional or class-conditional UNet with its scheduler, as a Gaussian chain."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.adapters._diffusers_schedulers import Recipe, recipe
from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.schedules import Given

__all__ = ["DrawaheadPipeline", "from_diffusers"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name != "DrawaheadPipeline":
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    try:
        return importlib.import_module("drawahead.adapters.diffusers_pipeline").DrawaheadPipeline
    except ModuleNotFoundError as error:
        if error.name != "diffusers":
            raise
        raise InputError("DrawaheadPipeline needs diffusers: pip install 'drawahead[diffusers]'") from error


def from_diffusers(
    model: Any,
    scheduler: Any = None,
    *,
    num_inference_steps: int | None = None,
    eta: float = 0.0,
    use_clipped_model_output: bool = False,
    class_labels: int | Tensor | None = None,
    shape: Sequence[int] | None = None,
    start: Tensor | None = None,
    known: Tensor | None = None,
    record: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> GaussianChain:
    """The chain by which `scheduler` draws images, step for step.

    model: a pipeline of a UNet and a scheduler; or a UNet2DModel; or a callable `(x, timesteps) -> output`, timesteps
        (m,), whose output is a tensor or has one as `.sample`.
    scheduler: a DDPMScheduler, DDIMScheduler or EulerAncestralDiscreteScheduler; a pipeline brings its own.
    num_inference_steps: as in `set_timesteps`; None visits every training timestep.
    eta, use_clipped_model_output: as in `DDIMScheduler.step`. With eta = 0 no step is random, so there is nothing to
        speculate: exact samplers take one step a round, and only `Picard` needs fewer rounds.
    class_labels: what a class-conditional UNet is told, the same for all samples of the chain.
    shape: that of one sample; a UNet knows its own.
    start, known, record: as in `GaussianChain`.
    dtype, device: of what the network is given; its own by default. Samples come back in float32 at least.

    Settings that cannot be followed exactly raise an InputError that names them.
    """
    network, scheduler = _parts(model, scheduler)
    _check_network(network, class_labels)
    steps = recipe(scheduler, num_inference_steps, eta, use_clipped_model_output)
    weight = _first_weight(network)
    dtype = dtype or (torch.float32 if weight is None else weight.dtype)
    device = torch.device(device or ("cpu" if weight is None else weight.device))
    label = None if class_labels is None else _label(class_labels).to(device)
    return GaussianChain(
        _Denoiser(network, steps, label, dtype, device),
        Given(steps.plan),
        _shape(network) if shape is None else shape,
        start=start,
        known=known,
        record=record,
        dtype=torch.promote_types(dtype, torch.float32),
        device=device,
    )


@final
class _Denoiser:
    """Scales the state, asks the network, turns its output into a prediction of the data, limits it.

    With x = signal * data + noise * epsilon, and network inputs of unit scale. Nothing here waits for the device.
    """

    def __init__(
        self, network: Any, recipe: Recipe, label: Tensor | None, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.network, self.limit, self.label, self.dtype = network, recipe.limit, label, dtype
        plan = recipe.plan.to(device)
        signal, noise = plan.signal[:-1], plan.noise[:-1]
        size = (signal**2 + noise**2).sqrt()
        # The prediction is skip * x + out * output.
        skip, out = {
            "epsilon": (1 / signal, -noise / signal),
            "sample": (torch.zeros_like(signal), torch.ones_like(signal)),
            "v_prediction": (signal / size**2, -noise / size),
        }[recipe.prediction_type]
        gains = () if recipe.gains is None else tuple(gain.to(device) for gain in recipe.gains)
        self.time = plan.time
        self.table = torch.stack([1 / size, skip, out, *gains])  # (3 or 5, N)

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        scale, skip, out, *gains = self.table[:, k].view(len(self.table), -1, *(1,) * (x.dim() - 1)).unbind()
        options = {} if self.label is None else {"class_labels": self.label.expand(len(x), *self.label.shape)}
        answer = self.network((x * scale).to(self.dtype), self.time[k], **options)
        output: Tensor = getattr(answer, "sample", answer)
        if getattr(output, "shape", None) != x.shape:
            return output  # the chain says what is wrong with it
        prediction = skip * x + out * output
        if self.limit is None:
            return prediction
        limited = self.limit(prediction.flatten(1)).view_as(prediction)
        if not gains:
            return limited
        return gains[0] * prediction + gains[1] * (limited - prediction)


def same_chain(one: GaussianChain, other: GaussianChain) -> bool:
    """Whether two chains made by `from_diffusers` draw by the same steps of the same network."""
    here, there = one.denoiser, other.denoiser
    if not isinstance(here, _Denoiser) or not isinstance(there, _Denoiser) or here.network is not there.network:
        return False
    plain = [(c.shape, c.dtype, c.device, d.dtype, d.limit) for c, d in ((one, here), (other, there))]
    names = ("a", "b", "s", "signal", "noise", "time")
    tables = [
        [*(getattr(c.plan, name) for name in names), d.table, d.time, *([] if d.label is None else [d.label])]
        for c, d in ((one, here), (other, there))
    ]
    if plain[0] != plain[1] or len(tables[0]) != len(tables[1]):
        return False
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(*tables, strict=True))


def _parts(model: Any, scheduler: Any) -> tuple[Any, Any]:
    """The network and the scheduler."""
    components = getattr(model, "components", None)
    if isinstance(components, dict):  # a pipeline
        others = sorted(
            name for name, part in components.items() if name not in ("unet", "scheduler") and part is not None
        )
        if others or "unet" not in components:
            raise InputError(
                f"a pipeline must be made of a unet and a scheduler, but {type(model).__name__} has "
                f"{', '.join(components)}: pass a callable (x, timesteps) around its network, its scheduler, and shape="
            )
        model, scheduler = components["unet"], components["scheduler"] if scheduler is None else scheduler
    if scheduler is None:
        raise InputError("a network needs a scheduler: from_diffusers(unet, scheduler)")
    if not callable(model):
        raise InputError(f"model must be a pipeline, a UNet2DModel or a callable, not {type(model).__name__}")
    return model, scheduler


def _check_network(network: Any, class_labels: object) -> None:
    name, config = type(network).__name__, getattr(network, "config", None)
    try:
        parameters = inspect.signature(getattr(network, "forward", network)).parameters.values()
    except (TypeError, ValueError):  # built in: it cannot be looked into
        parameters = {}.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional]
    if len(needed) > 2:
        raise InputError(
            f"{name} needs {', '.join(needed[2:])} besides a state and timesteps: pass a callable (x, timesteps) that "
            "fills it in, and shape="
        )
    channels, answered = getattr(config, "in_channels", None), getattr(config, "out_channels", None)
    if channels != answered:
        raise InputError(
            f"{name} has {channels} channels in and {answered} out: a learned variance or a condition in the channels "
            "is not supported; pass a callable (x, timesteps) that answers in the shape of x, and shape="
        )
    if hasattr(network, "class_embedding") and (network.class_embedding is None) != (class_labels is None):
        raise InputError(f"class_labels must {'not ' if class_labels is not None else ''}be given for this {name}")
    if isinstance(network, nn.Module) and network.training and _drops_out(network):
        raise InputError(f"{name} is in training mode with dropout, so its answers are random; call .eval() first")


def _drops_out(network: nn.Module) -> bool:
    return any(isinstance(part, nn.Dropout) and part.p > 0 for part in network.modules())


def _first_weight(network: Any) -> Tensor | None:
    if not isinstance(network, nn.Module):
        return None
    return next((weight for weight in network.parameters() if weight.is_floating_point()), None)


def _label(class_labels: int | Tensor) -> Tensor:
    """A class number as a scalar; an embedding as it is."""
    label = torch.as_tensor(class_labels)
    if label.is_floating_point() or label.dim() == 0:
        return label
    if label.numel() > 1:
        raise InputError("class_labels must be one label: the images of another class are another chain")
    return label.reshape(())


def _shape(network: Any) -> tuple[int, ...]:
    config = getattr(network, "config", None)
    channels, size = getattr(config, "in_channels", None), getattr(config, "sample_size", None)
    if channels is None or size is None:
        raise InputError("the shape of a sample is not in the model's config; give shape=(channels, height, width)")
    return (channels, size, size) if isinstance(size, int) else (channels, *size)
