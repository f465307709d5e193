"""Networks of diffusers: what they are made of, what they must be told, and what is refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from drawahead.diffusers.denoiser import Told
from drawahead.diffusers.schedulers.recipe import Recipe
from drawahead.errors import InputError


def parts_of(model: Any, scheduler: Any) -> tuple[Any, Any]:
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
    return model, scheduler


def check_network(network: Any, told: Told, class_labels: object, channels: Tensor | None, scheduler: Any) -> None:
    name, config = type(network).__name__, getattr(network, "config", None)
    try:
        parameters = inspect.signature(getattr(network, "forward", network)).parameters.values()
    except (TypeError, ValueError):  # built in: it cannot be looked into
        parameters = {}.values()
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in optional][2:]
    if missing := [argument for argument in needed if argument not in told.form]:
        raise InputError(
            f"{name} needs {', '.join(missing)} besides a state and timesteps: give it in condition=, with a row for "
            "each sample or one for all"
        )
    if hasattr(network, "class_embedding") and (network.class_embedding is None) != (class_labels is None):
        raise InputError(f"class_labels must {'not ' if class_labels is not None else ''}be given for this {name}")
    if isinstance(network, nn.Module) and network.training and drops_out(network):
        raise InputError(f"{name} is in training mode with dropout, so its answers are random; call .eval() first")
    _check_channels(name, config, 0 if channels is None else channels.shape[1], learns_variance(scheduler))


def _check_channels(name: str, config: Any, beside: int, learned: bool) -> None:
    taken, answered = getattr(config, "in_channels", None), getattr(config, "out_channels", None)
    if taken is None or answered is None or answered == (taken - beside) * (2 if learned else 1):
        return
    if answered == 2 * (taken - beside):
        raise InputError(
            f"{name} has {taken} channels in and {answered} out, as with a learned variance: give a DDPMScheduler with "
            "variance_type='learned_range' (or 'learned'), which uses it"
        )
    raise InputError(
        f"{name} has {taken} channels in and {answered} out, and channels= brings {beside}: give as many as it takes "
        "beside a state, or a scheduler without a learned variance where it does not answer one"
    )


def learns_variance(scheduler: Any) -> bool:
    """Whether its steps read a variance from the network's output; also of one that was read."""
    if isinstance(scheduler, Recipe):
        return scheduler.plan.spread is not None
    return getattr(getattr(scheduler, "config", None), "variance_type", None) in ("learned", "learned_range")


def drops_out(network: nn.Module) -> bool:
    """Whether some layer would drop numbers at random in training mode."""
    return any(isinstance(part, nn.Dropout) and part.p > 0 for part in network.modules())


def remembering(network: nn.Module) -> str:
    """The hooks of diffusers in a network that carry something from one call to the next, by name; empty if none do."""
    registries = [getattr(part, "_diffusers_hook", None) for part in network.modules()]
    hooks = [hook for registry in registries if registry is not None for hook in registry.hooks.values()]
    return ", ".join(sorted({type(hook).__name__ for hook in hooks if getattr(hook, "_is_stateful", False)}))


def first_weight(network: Any) -> Tensor | None:
    if not isinstance(network, nn.Module):
        return None
    return next((weight for weight in network.parameters() if weight.is_floating_point()), None)


def as_labels(class_labels: int | Sequence[int] | Tensor) -> Tensor:
    """Class numbers as rows; an embedding, or a table of them, as it is."""
    labels = torch.as_tensor(class_labels)
    return labels.reshape(-1) if not labels.is_floating_point() else labels.reshape(-1, labels.shape[-1])


def shape_of(network: Any, channels: Tensor | None) -> tuple[int, ...]:
    config = getattr(network, "config", None)
    taken, size = getattr(config, "in_channels", None), getattr(config, "sample_size", None)
    if taken is None or size is None:
        raise InputError("the shape of a sample is not in the model's config; give shape=(channels, height, width)")
    taken -= 0 if channels is None else channels.shape[1]
    return (taken, size, size) if isinstance(size, int) else (taken, *size)
