"""A loop that was read, as the denoiser of a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from drawahead.diffusers.denoiser import Denoiser
from drawahead.diffusers.loops.body import TapeRun
from drawahead.diffusers.loops.calls import Arguments, Asking
from drawahead.diffusers.loops.rows import Batched, Packing, RowLayout, likely_rows
from drawahead.errors import InputError
from drawahead.schedules import Plan

Ask = Callable[[Batched, Arguments, list[Any]], Sequence[Any]]
IMAGE = "image"
"""The name of the condition that says which image of its batch a state belongs to."""


def asked(call: Batched, arguments: Arguments, leaves: list[Any]) -> Sequence[Any]:
    """What the network itself answers."""
    given, named = pytree.tree_unflatten(leaves, arguments.spec)
    return pytree.tree_leaves(arguments.network(*given, **named))


@final
@dataclass(frozen=True, eq=False)
class Loop:
    """What every step of a loop does: `before` to the state that the step before led to, if anything, and `body`, the
    calls of networks in it as `calls` says. Its targets are the state and the output that the scheduler is given."""

    body: TapeRun
    before: TapeRun | None
    reshapes: bool  # whether `before` is for the first state, too
    layout: RowLayout
    calls: list[Batched]
    dtype: torch.dtype
    plain: bool = False
    """Whether the scheduler is given the very state that it led to."""

    @staticmethod
    def read(
        body: TapeRun,
        before: TapeRun | None,
        reshapes: bool,
        layout: RowLayout,
        passes: Sequence[tuple[int, int]],
        dtype: torch.dtype,
        declared: Sequence[str],
    ) -> Loop:
        calls = [
            Batched(
                asking,
                number,
                *own,
                layout.images,
                frozenset(
                    (variant, i)
                    for variant, arguments in enumerate(asking.variants)
                    for i in likely_rows(arguments, own[0] * layout.images, own[1], declared)
                ),
            )
            for number, (asking, own) in enumerate(zip(body.calls, passes, strict=True))
        ]
        return Loop(body, before, reshapes, layout, calls, dtype)

    def with_rows(self, rows: dict[int, frozenset[tuple[int, int]]]) -> Loop:
        """With other constants that have rows, by the number of the call."""
        return replace(self, calls=[replace(call, rows=rows.get(call.number, call.rows)) for call in self.calls])

    @property
    def tables(self) -> dict[str, Tensor]:
        """The condition of its chain."""
        made = {name: table for call in self.calls for name, table in call.tables().items()}
        if self.layout.images > 1:
            device = self.body.calls[0].which.device
            made[IMAGE] = torch.arange(self.layout.images, device=device)
        return made

    @property
    def passes(self) -> int:
        """Of the network that the scheduler's output comes from."""
        networks = [call.asking.variants[0].network for call in self.calls]
        return sum(call.passes for call, network in zip(self.calls, networks, strict=True) if network is networks[-1])

    def without_rows(self) -> Loop:
        """Without the constants that are in its tables, as calls with other prompts share it."""
        calls = [call.without_rows() for call in self.calls]
        left = iter(call.asking for call in calls)
        parts = [next(left) if isinstance(part, Asking) else part for part in self.body.parts]
        return replace(self, calls=calls, body=TapeRun(parts, self.body.targets))

    def __call__(self, x: Tensor, k: Tensor, rows: dict[str, Tensor], ask: Ask = asked) -> tuple[Tensor, Tensor]:
        """The state and the output that the scheduler is given for states (m, ...) at steps (m,)."""
        image = rows.get(IMAGE)
        packing = Packing.of(k, torch.zeros_like(k) if image is None else image, self.layout.images)
        state = self.layout.spread(x.to(self.dtype), packing)
        if self.before is not None:
            (after,) = self.before(state.clone(), packing.step, _none)
            first = (packing.step == 0).view(-1, *(1,) * (state.dim() - 1))
            state = after if self.reshapes else torch.where(first, state, after)

        def answers(call: int, values: dict[int, Tensor]) -> Any:
            return self.calls[call](values, k, packing, rows, ask)

        sample, output = self.body(state, packing.step, answers)
        return self.layout.of_images(sample, packing), self.layout.of_images(output, packing)


def _none(call: int, values: dict[int, Tensor]) -> Sequence[Tensor]:
    raise InputError("a network takes the result of a scheduler as an input, so its steps cannot be sampled ahead")


@final
class Looped:
    """A denoiser: a loop, and its scheduler's arithmetic."""

    def __init__(self, loop: Loop, denoiser: Denoiser, plan: Plan, device: torch.device) -> None:
        self.loop, self.denoiser = loop, denoiser
        self.fold: Tensor | None = None
        if not loop.plain:
            if plan.c is not None or bool((plan.b == 0).any()):
                raise InputError(
                    "its loop changes the latents between the steps of its scheduler, and that one looks back at what "
                    "it predicted: use DDPM, DDIM with eta=1.0 or EulerAncestral"
                )
            self.fold = (plan.a / plan.b).to(device)

    @property
    def passes(self) -> int:
        return self.loop.passes

    def __call__(self, x: Tensor, k: Tensor, **rows: Tensor) -> Any:
        return self.answered(x, k, rows, asked)

    def answered(self, x: Tensor, k: Tensor, rows: dict[str, Tensor], ask: Ask) -> Any:
        sample, output = self.loop(x, k, rows, ask)
        if self.fold is None:
            return self.denoiser.predicted(x, k, output)
        # The step sets out from `sample`: a * sample + b * m = a * x + b * (m + a / b * (sample - x)).
        sample = sample.to(x.dtype)
        answer = self.denoiser.predicted(sample, k, output)
        more = self.fold[k].view(-1, *(1,) * (x.dim() - 1)) * (sample - x)
        if answer.shape == x.shape:
            return answer + more
        return torch.cat([answer[:, : x.shape[1]] + more, answer[:, x.shape[1] :]], dim=1)
