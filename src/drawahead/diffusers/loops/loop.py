"""The steps of a pipeline's loop, heard one after another: one loop, or why it is none."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from drawahead.diffusers.loops.reading import Loop, Reading
from drawahead.diffusers.loops.watching import Call, Step, Watch
from drawahead.errors import InputError


@final
class Reader:
    """Hears the steps of a loop. What the first two show, all others must show again; none of those is kept."""

    def __init__(self) -> None:
        self.times: list[Tensor] = []
        self._early: list[Step] = []
        self._reading: Reading | None = None

    def hear(self, watch: Watch, step: Step) -> None:
        if len(step.calls) != 1:
            raise InputError(f"the loop of {watch.kind} asks its network {len(step.calls)} times a step, not once")
        self.times.append(_time(watch.kind, step.calls[0]))
        if len(self._early) < 2:
            self._early.append(step)
        elif not self._read(watch).agrees(step):
            raise InputError(_more(watch.kind))

    @property
    def first(self) -> Step:
        """The first step."""
        return self._early[0]

    def loop(self, watch: Watch) -> Loop:
        """The loop, or an InputError that says what stands against it."""
        return self._read(watch).loop(torch.stack(self.times))

    def _read(self, watch: Watch) -> Reading:
        if self._reading is None:
            readings = [Reading(watch, self._early, copies) for copies in (1, 2)]
            self._reading = next((one for one in readings if one.fits()), None)
        if self._reading is None:
            raise InputError(_more(watch.kind))
        return self._reading


def _more(kind: str) -> str:
    return (
        f"the loop of {kind} does more than ask its network, guide and step: it cannot be drawn in rounds. What is "
        "known: classifier-free guidance with or without guidance_rescale, a ControlNet, channels beside the state"
    )


def _time(kind: str, call: Call) -> Tensor:
    time = call.time.reshape(-1)
    if not bool((time == time[0]).all()):
        raise InputError(f"{kind} tells its network different times in one step")
    return time[0].cpu()
