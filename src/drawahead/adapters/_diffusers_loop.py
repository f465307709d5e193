"""What was watched of a pipeline's loop, as the parts of a chain; or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.adapters._diffusers_called import RESIDUALS, Called, close, equal
from drawahead.adapters._diffusers_denoiser import CHANNELS, Guidance
from drawahead.adapters._diffusers_told import Rows, Told
from drawahead.adapters._diffusers_watching import MARK, Call, Step, Watch
from drawahead.errors import InputError

_HAVE_ROWS = {
    *("encoder_hidden_states", "encoder_hidden_states_1", "encoder_attention_mask", "encoder_attention_mask_1"),
    *("class_labels", "timestep_cond", "added_cond_kwargs", "controlnet_cond", "pooled_projections"),
    *("attention_mask", "text_embeds", "time_ids", "image_embeds", "resolution", "aspect_ratio"),
}
"""Arguments of networks that are known to have a row for each image where they have as many as there are images."""


@final
@dataclass(frozen=True, eq=False)
class Loop:
    """The parts of a chain."""

    network: Callable[..., Any]
    told: Told
    rows: Rows
    guidance: Guidance
    time: Tensor  # (N,) what the network is told
    start: Tensor  # (images, *shape)
    first: int  # the first timestep that is visited
    options: Mapping[str, Any]  # of the scheduler's step
    copies: int  # how many copies of its states the pipeline keeps
    scales: bool  # whether states are scaled for the network as the scheduler says
    steps_scaled: bool  # whether the scheduler steps from what it has scaled


def read(watch: Watch) -> Loop:
    """The loop, or an InputError that says what stands against it."""
    kind = type(watch.pipe).__name__
    if any(len(step.calls) != 1 for step in watch.steps):
        raise InputError(f"the loop of {kind} asks its network {len(watch.steps[0].calls)} times a step, not once")
    found = [loop for copies in (1, 2) if (loop := _Reading(watch, copies).loop()) is not None]
    if not found:
        raise InputError(
            f"the loop of {kind} does more than ask its network, guide and step: it cannot be drawn in rounds. What is "
            "known: classifier-free guidance with or without guidance_rescale, a ControlNet, channels beside the state"
        )
    return found[0]


class _Reading:
    """The watched steps, as if the pipeline kept so many copies of its states."""

    def __init__(self, watch: Watch, copies: int) -> None:
        self.watch, self.steps, self.copies = watch, watch.steps, copies
        self.start = watch.steps[0].given
        self.images = len(self.start) // copies
        self.passes = len(watch.steps[0].calls[0].shown) // max(1, self.images)
        self.kind = type(watch.pipe).__name__

    def loop(self) -> Loop | None:
        if self.images * self.copies != len(self.start) or self.passes * self.images != len(self.steps[0].outputs):
            return None
        start = self._states(self.steps[0])
        if start is None or not all(map(self._follows, self.steps)):
            return None
        guidance = self._guidance()
        if guidance is None:
            return None
        self._check_same()
        told, rows = self._told()
        return Loop(
            self._composed(),
            told,
            rows,
            guidance,
            torch.stack([self._time(step.calls[0]) for step in self.steps]),
            start[: self.images],
            self.watch.first,
            self.steps[0].options,
            self.copies,
            self.watch.scales,
            start is not self.start,
        )

    def _shows(self, step: Step, states: Tensor) -> bool:
        """Whether the network sees these states, scaled as it should be, once in every pass."""
        shown, channels = step.calls[0].shown, self.start.shape[1]
        if shown.dim() != states.dim() or shown.shape[1] < channels or len(shown) != self.passes * self.images:
            return False
        scaled = states[: self.images] * (MARK if self.watch.scales else 1.0)
        return close(shown[:, :channels], torch.cat([scaled] * self.passes))

    def _states(self, step: Step) -> Tensor | None:
        """The states of a step; some pipelines hand the scaled ones to the scheduler."""
        kept = (step.given, step.given / MARK) if self.watch.scales else (step.given,)
        return next((states for states in kept if self._shows(step, states)), None)

    def _follows(self, step: Step) -> bool:
        """Whether a step begins with what the one before has led to."""
        states = self._states(step)
        if states is None:
            return False
        return step.expected is None or close(states[: self.images], step.expected[: self.images])

    def _guidance(self) -> Guidance | None:
        """How outputs become one, the same at every step."""
        first = self.steps[0]
        channels = self.start.shape[1]
        parts = first.outputs.unflatten(0, (self.passes, self.images))[:, :, :channels].flatten(1)  # (passes, ...)
        goal = first.guided[: self.images].double().flatten()
        weights = torch.linalg.lstsq(parts.T, goal[:, None]).solution[:, 0]
        scale, rescale = (getattr(self.watch.running, name, 0.0) for name in ("guidance_scale", "guidance_rescale"))
        found = [Guidance.scaled(float(scale)), Guidance.scaled(float(scale), float(rescale))]
        found = [*(found if self.passes == 2 else []), Guidance(tuple(weights.tolist()) if self.passes > 1 else (1.0,))]
        return next((one for one in found if all(self._guides(one, step) for step in self.steps)), None)

    def _guides(self, guidance: Guidance, step: Step) -> bool:
        if abs(sum(guidance.weights) - 1) > 1e-9:
            return False
        channels, wanted = self.start.shape[1], step.guided.shape[1]
        outputs = step.outputs.unflatten(0, (self.passes, self.images))
        rest = outputs[guidance.conditional, :, channels:wanted]  # a variance, which is not guided
        expected = torch.cat([torch.cat([guidance(outputs[:, :, :channels]), rest], dim=1)] * self.copies)
        return step.guided.shape == expected.shape and close(step.guided, expected)

    def _check_same(self) -> None:
        """Refuse a loop that tells its network something else at some step."""
        for step in self.steps[1:]:
            for name in (set(step.calls[0].told) | set(self.steps[0].calls[0].told)) - set(RESIDUALS):
                self._same(name, self.steps[0].calls[0].told.get(name), step.calls[0].told.get(name))
            for one, other in zip(self.steps[0].controls, step.controls, strict=True):
                for name in set(one.told) | set(other.told):
                    self._same(name, one.told.get(name), other.told.get(name))
            if step.options != self.steps[0].options:
                raise InputError(f"the loop of {self.kind} changes the options of its scheduler's step on the way")
            self._same(CHANNELS, self._beside(self.steps[0]), self._beside(step))

    def _same(self, name: str, one: Any, other: Any) -> None:
        if not equal(one, other):
            raise InputError(
                f"{self.kind} changes {name} from step to step, as control_guidance_start and _end do: leave those out"
            )

    def _beside(self, step: Step) -> Tensor:
        return step.calls[0].shown[:, self.start.shape[1] :]

    def _told(self) -> tuple[Told, Rows]:
        step, rows = self.steps[0], self.passes * self.images
        told = {name: value for name, value in step.calls[0].told.items() if name not in RESIDUALS}
        if step.controls:
            told["control"] = step.controls[0].told
        self._check_rows(told, rows)
        made, tables = Told.apart(told, lambda value: value.dim() > 0 and len(value) == rows, self.passes)
        beside = self._beside(step)
        if beside.shape[1]:
            tables |= {f"{CHANNELS}__pass{i}": part for i, part in enumerate(beside.chunk(self.passes))}
        return made, tables

    def _check_rows(self, value: Any, rows: int, names: tuple[str, ...] = ()) -> None:
        if isinstance(value, Mapping):
            for name, entry in value.items():
                self._check_rows(entry, rows, (*names, str(name)))
        elif isinstance(value, list | tuple):
            for entry in value:
                self._check_rows(entry, rows, names)
        elif isinstance(value, Tensor) and value.dim() and len(value) == rows and not _HAVE_ROWS & set(names):
            raise InputError(
                f"{self.kind} tells its network {'.'.join(names)}, of which it is not known whether it has a row for "
                "each image: give da.adapters.from_diffusers a callable around the network"
            )

    def _time(self, call: Call) -> Tensor:
        time = call.time.reshape(-1)
        if not bool((time == time[0]).all()):
            raise InputError(f"{self.kind} tells its network different times in one step")
        return time[0].cpu()

    def _composed(self) -> Callable[..., Any]:
        network, control, step = self.watch.network, self.watch.control, self.steps[0]
        channels = step.guided.shape[1]
        if not step.controls or control is None:
            return Called(network, channels)
        for one in self.steps:
            down, mid = (one.calls[0].told.get(name) for name in RESIDUALS)
            made = one.controls[-1]
            if len(one.controls) != 1 or len(made.shown) != self.passes * self.images or down is None or mid is None:
                raise InputError(
                    f"{self.kind} uses its ControlNet in a way not known here (guess_mode?): leave that out"
                )
        return Called(network, channels, control)
