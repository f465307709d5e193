"""What a diffusion policy's own `conditional_sample` is asked to draw.

Three families are written alike, and told apart by the names of their arguments:

    LeRobot's DiffusionModel     conditional_sample(batch_size, global_cond, generator, noise); network `unet`
    LeRobot's MultiTaskDiT       conditional_sample(model, batch_size, conditioning_vec)
    diffusion_policy             conditional_sample(condition_data, condition_mask, cond or local_cond and global_cond,
                                 generator, **options of the scheduler's step); network `model`

All else that has a name is what the network is told, by that name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.diffusers.networks import first_weight
from drawahead.diffusers.schedulers.reading import contents
from drawahead.errors import InputError
from drawahead.validate import whole

_INSIDE = ("diffusion", "objective", "policy")
"""Attributes under which policies keep what holds their loop."""
_NO_CONDITION = {"batch_size", "model", "condition_data", "condition_mask", "generator", "noise"}


def path_to_loop(policy: Any) -> tuple[str, ...]:
    """The attributes that lead from a policy to what holds its loop."""
    if callable(getattr(policy, "conditional_sample", None)) and hasattr(policy, "noise_scheduler"):
        return ()
    for name in _INSIDE:
        inside = getattr(policy, name, None)
        if inside is not None and inside is not policy:
            try:
                return (name, *path_to_loop(inside))
            except InputError:
                continue
    raise InputError(
        f"{type(policy).__name__} is not a diffusion policy that drawahead can read: it, or its .diffusion or "
        ".objective, must have conditional_sample() and a noise_scheduler. Flow matching policies have none: their "
        "actions follow an ODE from one draw of noise, so no later step is random and none can be drawn ahead"
    )


@final
@dataclass(frozen=True, eq=False)
class ActionChunks:
    """The action chunks that one call wants."""

    network: Any
    scheduler: Any
    steps: int
    number: int
    shape: tuple[int, int]  # horizon, entries of an action
    condition: Mapping[str, Tensor]
    known: Tensor | None  # (number, *shape), NaN where nothing is known
    start: Tensor | None  # (number, *shape)
    generator: torch.Generator | None
    options: Mapping[str, Any]
    dtype: torch.dtype  # of what is returned
    device: torch.device

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for calls that differ in their numbers alone."""
        weight = first_weight(self.network)
        shapes = [(name, tuple(table.shape[1:]), table.dtype) for name, table in self.condition.items()]
        values = (self.known is None, self.start is None, self.device, None if weight is None else weight.dtype)
        plan = (type(self.scheduler), contents(self.scheduler.config), self.steps, str(dict(self.options)))
        return (id(self.network), plan, self.number, self.shape, tuple(shapes), values)

    def check(self) -> None:
        """Refuse what no action should be drawn for."""
        for name, table in self.condition.items():
            if table.dim() < 2:
                raise InputError(
                    f"{name} must have a row for each observation, not shape {tuple(table.shape)}: give {name}[None] "
                    "for a single observation"
                )
            if len(table) != self.number:
                raise InputError(f"{name} has {len(table)} rows, but actions for {self.number} observations are wanted")
            _finite(name, table)
        if self.start is not None:
            if self.start.shape != (self.number, *self.shape):
                wanted = (self.number, *self.shape)
                raise InputError(f"noise must have shape {wanted}, not {tuple(self.start.shape)}")
            _finite("noise", self.start)
        if isinstance(self.network, nn.Module) and self.network.training:
            raise InputError("the policy is in training mode, so its answers may be random: call policy.eval() first")


def chunks(owner: Any, signature: inspect.Signature, arguments: tuple[Any, ...], named: dict[str, Any]) -> ActionChunks:
    """What a call of `owner.conditional_sample` with these arguments wants."""
    values = dict(signature.bind(*arguments, **named).arguments)
    more = [values.pop(p.name, {}) for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    options: Mapping[str, Any] = more[0] if more else {}
    network = values["model"] if "model" in values else getattr(owner, "unet", getattr(owner, "model", None))
    if not callable(network):
        raise InputError(f"{type(owner).__name__} must have its network as .unet or .model")
    if getattr(owner, "training", False):
        raise InputError("the policy is in training mode, so its answers may be random: call policy.eval() first")
    known, number, shape, like = _known(values) if "condition_data" in values else _counted(owner, values, network)
    condition = {name: table for name, table in values.items() if name not in _NO_CONDITION and table is not None}
    wanted = ActionChunks(
        network,
        owner.noise_scheduler,
        whole("num_inference_steps", getattr(owner, "num_inference_steps", None), 1),
        number,
        shape,
        condition,
        known,
        values.get("noise"),
        values.get("generator"),
        options,
        like.dtype,
        like.device,
    )
    wanted.check()
    return wanted


def _known(values: Mapping[str, Any]) -> tuple[Tensor | None, int, tuple[int, int], Tensor]:
    """Entries that are overwritten by their values, from data and a mask (number, horizon, entries)."""
    data, mask = values["condition_data"], values["condition_mask"]
    if data.dim() != 3 or not len(data):
        raise InputError("condition_data must be a tensor (observations, horizon, entries of an action)")
    if mask.dtype != torch.bool or mask.shape != data.shape:
        raise InputError(f"condition_mask must be a mask of the shape of condition_data, {tuple(data.shape)}")
    number, horizon, entries = data.shape
    if not bool(mask.any()):
        return None, number, (horizon, entries), data
    _finite("condition_data", torch.where(mask, data, 0.0))
    return data.double().masked_fill(~mask, torch.nan), number, (horizon, entries), data


def _counted(owner: Any, values: Mapping[str, Any], network: Any) -> tuple[None, int, tuple[int, int], Tensor]:
    """A number of chunks, of the shape that the policy says it has."""
    config = getattr(owner, "config", None)
    horizon = getattr(owner, "horizon", getattr(config, "horizon", None))
    action = getattr(config, "action_feature", None)
    entries = action.shape[0] if action is not None else getattr(owner, "action_dim", None)
    weight = first_weight(network)
    shape = (whole("horizon", horizon, 1), whole("action_dim", entries, 1))
    return None, whole("batch_size", values["batch_size"], 1), shape, torch.empty(0) if weight is None else weight


def _finite(name: str, table: Tensor) -> None:
    if not table.is_floating_point() or not table.numel():
        return
    if not math.isfinite(torch.linalg.vector_norm(table, math.inf)):  # one kernel; isfinite is five
        bad = int((~table.isfinite().flatten(1).all(1)).nonzero()[0, 0])
        raise InputError(f"{name}[{bad}] is not finite: no action is drawn for such an observation")
