"""What was watched of a pipeline's loop, as the parts of a chain."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.diffusers.arguments import Rows, Told
from drawahead.diffusers.denoiser import CHANNELS, Guidance
from drawahead.diffusers.loops.called import RESIDUALS, Called, close, equal, rounding
from drawahead.diffusers.loops.watching import Step, Watch
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
    scales_beside: bool  # whether what is put beside the states is scaled with them


@final
class Reading:
    """The first steps, as if the pipeline kept so many copies of its states."""

    def __init__(self, watch: Watch, steps: list[Step], copies: int) -> None:
        self.watch, self.steps, self.copies = watch, steps, copies
        self.start = steps[0].given
        self.images = len(self.start) // copies
        self.passes = len(steps[0].calls[0].shown) // max(1, self.images)
        self.guidance = Guidance()
        self.steps_scaled = False

    def fits(self) -> bool:
        """Whether all the first steps can be read so."""
        if self.images * self.copies != len(self.start) or self.passes * self.images != len(self.steps[0].outputs):
            return False
        if not self._all_follow():
            self.steps_scaled = True  # some pipelines hand the scaled states to the scheduler
            if not self._all_follow():
                return False
        found = [one for one in self._guidances() if all(self._guides(one, step) for step in self.steps)]
        self.guidance = found[0] if found else self.guidance
        return bool(found)

    def agrees(self, step: Step) -> bool:
        """Whether another step is like them; an error where what differs has a name."""
        self._check_same(step)
        return self._follows(step) and self._guides(self.guidance, step)

    def loop(self, time: Tensor) -> Loop:
        for step in self.steps:
            self._check_same(step)
        start = self._states(self.steps[0])
        told, rows = self._told()
        return Loop(
            self._composed(),
            told,
            rows,
            self.guidance,
            time,
            start[: self.images],
            self.watch.first,
            self.steps[0].options,
            self.copies,
            self.steps[0].mark is not None,
            self.steps_scaled,
            self._scales_beside,
        )

    def _states(self, step: Step) -> Tensor:
        """The states of a step."""
        return step.given / (step.mark or 1.0) if self.steps_scaled else step.given

    def _shows(self, step: Step) -> bool:
        """Whether the network sees these states, scaled as it should be, once in every pass."""
        shown, states, channels = step.calls[0].shown, self._states(step), self.start.shape[1]
        if shown.dim() != states.dim() or shown.shape[1] < channels or len(shown) != self.passes * self.images:
            return False
        scaled = torch.cat([states[: self.images] * (1.0 if step.mark is None else step.mark)] * self.passes)
        # Where the scheduler scaled them itself, it may have rounded.
        return close(shown[:, :channels], scaled, *([] if step.real is None else [rounding(shown)]))

    def _all_follow(self) -> bool:
        return all(map(self._follows, self.steps))

    def _follows(self, step: Step) -> bool:
        """Whether a step begins with what the one before has led to."""
        if not self._shows(step) or (step.mark is None) != (self.steps[0].mark is None):
            return False
        return step.expected is None or close(self._states(step)[: self.images], step.expected[: self.images])

    def _guidances(self) -> list[Guidance]:
        """How outputs may become one, as the pipeline says, or as the first step shows. Any pass may be the conditional
        one: where that matters, only one of these explains what is seen."""
        if self.passes == 1:
            return [Guidance()]
        first, channels = self.steps[0], self.start.shape[1]
        parts = first.outputs.unflatten(0, (self.passes, self.images))[:, :, :channels].flatten(1)  # (passes, ...)
        goal = first.guided[: self.images, :channels].double().flatten()
        weights = tuple(torch.linalg.lstsq(parts.T, goal[:, None]).solution[:, 0].tolist())
        shown = [Guidance(weights, conditional=i) for i in range(self.passes)]
        if self.passes != 2:
            return shown
        scale, rescale = (
            float(getattr(self.watch.running, name, None) or 0.0) for name in ("guidance_scale", "guidance_rescale")
        )
        return [*(Guidance.scaled(scale, size, i) for i in (1, 0) for size in (0.0, rescale)), *shown]

    def _guides(self, guidance: Guidance, step: Step) -> bool:
        if abs(sum(guidance.weights) - 1) > 1e-9:
            return False
        channels, wanted = self.start.shape[1], step.guided.shape[1]
        outputs = step.outputs.unflatten(0, (self.passes, self.images))
        rest = outputs[guidance.conditional, :, channels:wanted]  # a variance, which is not guided
        expected = torch.cat([torch.cat([guidance(outputs[:, :, :channels]), rest], dim=1)] * self.copies)
        return step.guided.shape == expected.shape and close(step.guided, expected)

    def _check_same(self, step: Step) -> None:
        """Refuse a loop that tells its network something else at some step."""
        one, other = (self._arguments(this) for this in (self.steps[0], step))
        for name in set(one) | set(other):
            self._same(name, one.get(name), other.get(name))
        if step.options != self.steps[0].options:
            raise InputError(f"the loop of {self.watch.kind} changes the options of its scheduler's step on the way")
        beside = self._beside(step)
        if not close(beside, self._beside(self.steps[0]), rounding(beside)):
            self._same(CHANNELS, None, beside)
        self._check_control(step)

    def _arguments(self, step: Step) -> dict[str, Any]:
        """What network and ControlNet are told."""
        told = {name: value for name, value in step.calls[0].told.items() if name not in RESIDUALS}
        return told | ({"control": step.controls[0].told} if step.controls else {})

    def _check_control(self, step: Step) -> None:
        """A ControlNet must see what the network sees, and the network what it makes of it."""
        if not step.controls or step.residuals is None:
            return
        call, made = step.calls[0], step.controls[0]
        down, mid = (call.told.get(name) for name in RESIDUALS)
        used = (
            isinstance(down, list | tuple)
            and [*down, mid]
            and all(
                one is other for one, other in zip([*down, mid], [*step.residuals[0], step.residuals[1]], strict=True)
            )
        )
        seen = made.shown.shape == call.shown.shape and close(made.shown, call.shown)
        if len(step.controls) != 1 or not used or not seen or not torch.equal(made.time, call.time):
            raise InputError(
                f"{self.watch.kind} uses its ControlNet in a way that is not known here (guess_mode?): leave that out"
            )

    def _same(self, name: str, one: Any, other: Any) -> None:
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            for inner in set(one) | set(other):
                self._same(str(inner), one.get(inner), other.get(inner))
        elif not equal(one, other):
            raise InputError(
                f"{self.watch.kind} changes {name} from step to step, as control_guidance_start and _end do: leave "
                "those out"
            )

    def _beside(self, step: Step) -> Tensor:
        """What the network is shown beside the states, before it is scaled."""
        beside = step.calls[0].shown[:, self.start.shape[1] :]
        return beside / (step.mark or 1.0) if self._scales_beside else beside

    @functools.cached_property
    def _scales_beside(self) -> bool:
        """Whether what is beside the states is scaled with them: it changes as the marks do. (With a single step it is
        shown as it is, whichever.)"""
        first, *others = [step.calls[0].shown[:, self.start.shape[1] :] for step in self.steps]
        marks = [step.mark or 1.0 for step in self.steps]
        if not others or close(first, others[0]):
            return False
        return close(first / marks[0], others[0] / marks[1], rounding(first))

    def _told(self) -> tuple[Told, Rows]:
        step, rows = self.steps[0], self.passes * self.images
        told = self._arguments(step)
        self._check_rows(told, rows)
        made, tables = Told.apart(told, lambda value: value.dim() > 0 and len(value) == rows, self.passes)
        beside = self._beside(self.steps[-1])  # whose mark divides without rounding
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
                f"{self.watch.kind} tells its network {'.'.join(names)}, and it is not known whether that has a "
                "row for each image: give da.adapters.from_diffusers a callable around the network"
            )

    def _composed(self) -> Callable[..., Any]:
        step = self.steps[0]
        return Called(self.watch.network, step.guided.shape[1], self.watch.control if step.controls else None)
