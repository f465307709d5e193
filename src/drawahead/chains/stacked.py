"""Steps of several vectors at once, the lanes, which small matrices mix: those of a `StackedPlan`.

Step k moves the lanes X to A_k X + S_k u with u = b_k m_k + xi, m_k the oracle's answer at X. The value is u, the
whitened increment: whatever covariance S_k S_k^T the lanes get, draft and target are Gaussians of unit scale that
differ in their mean alone.

Refreshing lanes with noise of its own keeps that exact. That noise is a function of the sample's stream and the number
of steps taken, so it is the same for guess and target, in every round, and (`copies`) in every branch of a sample.
Given all of it, what is left is a chain of Gaussian steps like any other, which each sampler draws exactly; and no
sampler looks at it for anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.affine import AffineChain
from drawahead.chains.affine_queries import Aside
from drawahead.chains.chain import Worked
from drawahead.chains.moves import Moves
from drawahead.laws import Gaussian
from drawahead.oracles.condition import Condition
from drawahead.randomness import Purpose, Stream
from drawahead.schedules.stacked import StackedPlan


@final
class LaneMoves(Moves):
    """A flat state is its lanes, one after another."""

    def __init__(self, plan: StackedPlan, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> None:
        self.plan: StackedPlan = plan.to(device)
        plan = self.plan
        self.size, self.answer_shape = math.prod(shape), shape
        self.state_shape, self.sample_shape = (plan.lanes, *shape), (*plan.final.shape[:-1], *shape)
        self._place(plan.is_deterministic)
        n, c = plan.steps, plan.lanes
        eye = torch.eye(c, dtype=dtype, device=device).expand(n + 1, c, c)
        keep, add = plan.refresh or (eye, eye[..., :1] * 0)
        # Step and refresh in one. Row N, for the padding of windows, stays where it is.
        self.a = torch.cat([keep[1:] @ plan.a, eye[:1]])  # (N + 1, c, c)
        self.s = pad(keep[1:] @ plan.s, (0, 0, 0, 0, 0, 1))  # (N + 1, c, r)
        self.b = pad(plan.b, (0, 0, 0, 1))  # (N + 1, r)
        self.scale = pad((~plan.is_deterministic).double(), (0, 1))  # (N + 1,)
        self.add = pad(add, (0, 0, 0, 0, 0, 1))  # (N + 2, c, q)
        self.refreshed = self.add.flatten(1).any(1)  # (N + 2,) by the number of steps taken
        self.keep_first = keep[0]
        self.reads = pad(eye[1:, 0] * 0 if plan.reads is None else plan.reads, (0, 0, 0, 1))  # (N + 1, c)
        unbounded = torch.full_like(self.scale, torch.inf)
        self.lowest, self.highest = plan.slopes or (-unbounded, unbounded)

    @property
    def key(self) -> tuple[Any, ...]:
        return id(self.plan), self.state_shape, self.a.device

    def first(self, stream: Stream) -> Tensor:
        step = torch.zeros(len(stream.keys), dtype=torch.int64, device=self.a.device)
        scale = self.plan.start.repeat_interleave(self.size)
        return stream.normal(Purpose.START, step, size=len(scale)) * scale

    def begin(self, x: Tensor, aside: Aside) -> Tensor:
        none = torch.zeros(len(x), 1, dtype=torch.int64, device=x.device)
        return self.refresh((self.keep_first @ self._lanes(x))[:, None], none, aside)[:, 0].flatten(1)

    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        step = step.clamp(max=self.steps)  # padding
        return Gaussian(self._pushing(answer, step), self.scale[step])

    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, aside: Aside
    ) -> Gaussian:
        if self.plan.reads is None:
            return target
        drafted = step[:, : draft.shape[1]]
        slopes = self.lowest[drafted], self.highest[drafted]
        return target.leaning(self._read(self._lanes(states), step), draft, slopes, width)

    def roll(self, x: Tensor, values: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        step = taken[:, :-1].clamp(max=self.steps)
        return self._rolled(x, self.a[step], step, values, aside).flatten(2)

    def follow(
        self, x: Tensor, draft: Gaussian, noise: Tensor, step: Tensor, aside: Aside
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        assert draft.slope is not None and draft.anchor is not None
        step, slope = step.clamp(max=self.steps), draft.slope.nan_to_num(0.0)[..., None]
        unmoved = draft.mean - slope * draft.anchor
        # A draft that leans answers linearly, so the lanes go on linearly: what it reads of them pushes them.
        push = slope * (self.s[step] @ self.b[step][..., None])[..., 0]  # (rows, w, c)
        a = self.a[step] + push[..., None] * self.reads[step][..., None, :]
        lanes = self._rolled(x, a, step, torch.addcmul(unmoved, draft.scale[..., None], noise), aside)
        mean = torch.addcmul(unmoved, slope, self._read(lanes[:, :-1], step))
        return Gaussian(mean, draft.scale).draw(noise), mean, lanes.flatten(2)

    def onward(self, state: Tensor, value: Tensor, step: Tensor, aside: Aside) -> Tensor:
        step = step.clamp(max=self.steps)[:, None]
        lanes = torch.matmul(self.a[step], self._lanes(state)[:, None])
        pushed = torch.matmul(self.s[step], self._lanes(value)[:, None])
        return self.refresh(lanes + pushed, step + 1, aside)[:, 0].flatten(1)

    def mixing(self, step: int) -> tuple[Tensor, Tensor]:
        return self.s[step], self.s[step] * self.scale[step]

    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        lanes = self._lanes(torch.cat([recorded, last[:, None]], dim=1))
        return torch.matmul(self.plan.final, lanes)  # (rows, len(record) + 1, [outputs,] d)

    def refresh(self, lanes: Tensor, taken: Tensor, aside: Aside) -> Tensor:
        """Lanes (rows, w, c, d), once `taken` (rows, w) steps are taken, with what a refresh adds to them."""
        if self.plan.refresh is None:
            return lanes
        assert aside.copies is not None
        if aside.blocked:  # which steps refresh cannot be asked of a device: noise for all, most of it times zero
            add = self.add[taken]  # (rows, w, c, q)
            zeta = aside.copies.normal(Purpose.KNOWN, taken, size=add.shape[-1] * self.size)
            return torch.matmul(add, self._lanes(zeta)).add_(lanes)
        row, column = self.refreshed[taken].nonzero(as_tuple=True)
        add = self.add[taken[row, column]]  # (m, c, q)
        zeta = aside.copies[row].normal(Purpose.KNOWN, taken[row, column], size=add.shape[-1] * self.size)
        return lanes.index_put((row, column), torch.bmm(add, self._lanes(zeta)), accumulate=True)

    def _lanes(self, flat: Tensor) -> Tensor:
        """Vectors one after another (..., c d) as lanes (..., c, d)."""
        lanes: Tensor = flat.unflatten(-1, (-1, self.size))
        return lanes

    def _read(self, lanes: Tensor, step: Tensor) -> Tensor:
        """What drafts of `step` (rows, w) lean along in lanes (rows, w, c, d), as if it were answers (rows, w, r d)."""
        return self._pushing((self.reads[step][..., None] * lanes).sum(-2), step)

    def _pushing(self, answer: Tensor, step: Tensor) -> Tensor:
        """Answers (rows, w, d) as means of values (rows, w, r d)."""
        return (self.b[step][..., None] * answer[..., None, :]).flatten(2)

    def _rolled(self, x: Tensor, a: Tensor, step: Tensor, values: Tensor, aside: Aside) -> Tensor:
        """The lanes X' = a X + S value, refreshed, one after another (rows, w + 1, c, d); `a` is (rows, w, c, c)."""
        pushed = self.refresh(torch.matmul(self.s[step], self._lanes(values)), step + 1, aside)  # (rows, w, c, d)
        lanes = [self._lanes(x)]
        for i in range(values.shape[1]):
            lanes.append(torch.baddbmm(pushed[:, i], a[:, i], lanes[-1]))
        return torch.stack(lanes, dim=1)


StackedOracle = Callable[[Tensor, Tensor], Tensor]
"""(lanes (m, c, *shape), step (m,)) -> answers (m, *shape)."""


@final
class StackedChain(AffineChain):
    """Draws lanes of vectors by the steps of a plan.

    `oracle` is a callable `(lanes (m, c, *shape), step (m,)) -> answer (m, *shape)`; one call mixes steps freely.
    `start` fixes the first state, (c, *shape) or one for each sample, instead of the plan's `start`; a refresh before
    the first step still happens. `record` lists numbers of steps after which to keep the lanes, as the input of the
    next step: samples then have shape (num_samples, len(record) + 1, ...), the output last, and the plan's `final` is
    applied to every entry. `dtype` is the dtype of the oracle's inputs and of samples; distributions are always
    computed in float64.
    """

    noun: ClassVar[str] = "oracle"

    def __init__(
        self,
        oracle: StackedOracle,
        plan: StackedPlan,
        shape: Sequence[int],
        *,
        start: Tensor | None = None,
        record: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        condition: Condition = None,
    ) -> None:
        self.oracle = oracle
        super().__init__(partial(LaneMoves, plan), shape, start, record, dtype, device, condition, torch.float64)
        self.built = True

    def deciding(self) -> dict[str, Any]:
        return super().deciding() | {"plan": Worked(self.plan)}
