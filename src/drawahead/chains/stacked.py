"""Chains whose state stacks several vectors (lanes) and whose steps mix them by small matrices.

Step k moves the lanes X to A_k X + S_k u with u = b_k m_k + xi, m_k the oracle's answer at X. The value a sampler
handles is u, the whitened increment: whatever covariance S_k S_k^T the lanes get, draft and target are Gaussians of
unit scale that differ in their mean alone.

Refreshing lanes with noise of its own keeps that exact. That noise is a function of the sample's stream and the number
of steps taken, so it is the same for guess and target, in every round, and (`copies`) in every branch of a sample.
Given all of it, what is left is a chain of Gaussian steps like any other, which each sampler draws exactly; and no
sampler looks at it for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.aside import Aside
from drawahead.chains.base import Tally
from drawahead.chains.gaussian_queries import leaning
from drawahead.chains.stacked_plan import StackedPlan
from drawahead.chains.vectors import VectorChain, VectorPaths, rows_of
from drawahead.errors import InputError
from drawahead.laws import Gaussian, Law
from drawahead.models.condition import Condition, Given, of_samples
from drawahead.randomness import Purpose, Stream

StackedOracle = Callable[[Tensor, Tensor], Tensor]
"""(lanes (m, c, *shape), step (m,)) -> answers (m, *shape)."""


@final
class StackedChain(VectorChain):
    """Draws lanes of vectors by the steps of a plan.

    `oracle` is a callable `(lanes (m, c, *shape), step (m,)) -> answer (m, *shape)`; one call mixes steps freely.
    `start` fixes the first state, (c, *shape) or one for each sample, instead of the plan's `start`; a refresh before
    the first step still happens. `record` lists numbers of steps after which to keep the lanes, as the next step meets
    them: samples then have shape (num_samples, len(record) + 1, ...), the output last, and the plan's `final` makes
    every entry from its lanes. `dtype` is what the oracle is given and what samples come back as; laws are always
    worked out in float64.
    """

    noun: ClassVar[str] = "oracle"
    settings: ClassVar[frozenset[str]] = frozenset(
        {"oracle", "plan", "shape", "start", "record", "dtype", "device", "condition"}
    )

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
        if not callable(oracle):
            raise InputError(f"an oracle must be a callable, not {type(oracle).__name__}")
        if not isinstance(plan, StackedPlan):
            raise InputError(f"plan must be a StackedPlan, not {type(plan).__name__}")
        super().__init__(shape, record, dtype, device, plan.is_deterministic, condition, torch.float64)
        self.oracle = oracle
        self.plan = plan = plan.to(self.device)
        n, c = self.steps, plan.lanes
        eye = torch.eye(c, dtype=torch.float64, device=self.device).expand(n + 1, c, c)
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
        self.start_state = None if start is None else self.entries("start", start)
        self.built = True

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.plan.lanes, *self.shape)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return (*self.plan.final.shape[:-1], *self.shape)

    def start(self, seed: int, samples: Tensor, tally: Tally) -> StackedPaths:
        rows, entries = len(samples), self.plan.lanes * self.size
        stream = Stream.of_samples(seed, samples, device=self.device)
        first = torch.zeros(rows, dtype=torch.int64, device=self.device)
        if self.start_state is not None:
            x = rows_of(self.start_state, samples)
        else:
            x = stream.normal(Purpose.START, first, size=entries) * self.plan.start.repeat_interleave(self.size)
        paths = StackedPaths(
            self,
            samples,
            torch.zeros(rows, dtype=torch.int64),
            torch.full((rows,), self.steps),
            stream,
            tally,
            x,
            torch.zeros(rows, len(self.record), entries, dtype=torch.float64, device=self.device),
            stream,
            of_samples(self.condition, samples),
        )
        paths.x = paths.refresh((self.keep_first @ paths.lanes)[:, None], first[:, None])[:, 0].flatten(1)
        return paths

    def predict(self, x: Tensor, step: Tensor, given: Given) -> object:
        return self.oracle(x, step, **given)

    def law(self, answer: Tensor, step: Tensor, aside: Aside, before: Tensor | None = None) -> Gaussian:
        step = step.clamp(max=self.steps)  # padding
        return Gaussian(self._pushing(answer, step), self.scale[step])

    def read(self, lanes: Tensor, step: Tensor) -> Tensor:
        """What drafts of `step` (rows, w) lean along in lanes (rows, w, c, d), as if it were answers (rows, w, r d)."""
        return self._pushing((self.reads[step][..., None] * lanes).sum(-2), step)

    def _pushing(self, answer: Tensor, step: Tensor) -> Tensor:
        """Answers (rows, w, d) as means of values (rows, w, r d)."""
        return (self.b[step][..., None] * answer[..., None, :]).flatten(2)

    def lean(
        self, target: Gaussian, states: Tensor, step: Tensor, draft: Gaussian, width: Tensor, free: Tensor | None
    ) -> Gaussian:
        if self.plan.reads is None:
            return target
        along = self.read(states.unflatten(-1, (-1, self.size)), step)
        drafted = step[:, : draft.shape[1]]
        return leaning(target, along, draft, (self.lowest[drafted], self.highest[drafted]), width, free)

    def replace(self, **changes: Any) -> StackedChain:
        """The same chain, but for these arguments of the constructor."""
        start = None if self.start_state is None else self.start_state.view(-1, *self.state_shape)
        own: dict[str, Any] = {"oracle": self.oracle, "plan": self.plan, "shape": self.shape, "start": start}
        own |= {"record": self.record, "dtype": self.dtype, "device": self.device, "condition": self.condition}
        return StackedChain(**own | changes)

    def outcome(self, recorded: Tensor, last: Tensor) -> Tensor:
        lanes = torch.cat([recorded, last[:, None]], dim=1).unflatten(-1, (-1, self.size))
        return torch.matmul(self.plan.final, lanes)  # (rows, len(record) + 1, [outputs,] d)


@final
@dataclass(eq=False)
class StackedPaths(VectorPaths):
    """Stacked samples under way; a state is its lanes, one after another."""

    chain: StackedChain

    @property
    def lanes(self) -> Tensor:
        """The committed state (rows, c, d)."""
        return self.x.view(len(self.x), self.chain.plan.lanes, self.chain.size)

    def refresh(self, lanes: Tensor, taken: Tensor) -> Tensor:
        """Lanes (rows, w, c, d), once `taken` (rows, w) steps are taken, with what a refresh adds to them."""
        if self.chain.plan.refresh is None:
            return lanes
        if self.blocked:  # which steps refresh cannot be asked of a device: noise for all, most of it times zero
            add = self.chain.add[taken]  # (rows, w, c, q)
            zeta = self.copies.normal(Purpose.KNOWN, taken, size=add.shape[-1] * self.chain.size)
            return torch.matmul(add, zeta.unflatten(-1, (-1, self.chain.size))).add_(lanes)
        row, column = self.chain.refreshed[taken].nonzero(as_tuple=True)
        add = self.chain.add[taken[row, column]]  # (m, c, q)
        zeta = self.copies[row].normal(Purpose.KNOWN, taken[row, column], size=add.shape[-1] * self.chain.size)
        fresh = torch.bmm(add, zeta.unflatten(-1, (-1, self.chain.size)))
        return lanes.index_put((row, column), fresh, accumulate=True)

    def states(self, values: Tensor) -> Tensor:
        if self.followed is not None and self.followed[0] is values:
            return self.followed[1]
        step = self._next(values.shape[1])
        return self._rolled(self.chain.a[step], step, values).flatten(2)

    def follow(self, draft: Law, noise: Tensor) -> tuple[Tensor, Law]:
        if not isinstance(draft, Gaussian) or draft.slope is None or draft.anchor is None:
            return super().follow(draft, noise)
        step, slope = self._next(noise.shape[1]), draft.slope.nan_to_num(0.0)[..., None]
        unmoved = draft.mean - slope * draft.anchor
        # A draft that leans answers linearly, so the lanes go on linearly: what it reads of them pushes them.
        push = slope * (self.chain.s[step] @ self.chain.b[step][..., None])[..., 0]  # (rows, w, c)
        a = self.chain.a[step] + push[..., None] * self.chain.reads[step][..., None, :]
        rolled = self._rolled(a, step, torch.addcmul(unmoved, draft.scale[..., None], noise))
        mean = torch.addcmul(unmoved, slope, self.chain.read(rolled[:, :-1], step))
        guess, plain = super().follow(Gaussian(mean, draft.scale), noise)
        self.followed = guess, rolled.flatten(2)
        return guess, plain

    def onward(self, state: Tensor, value: Tensor, step: Tensor) -> Tensor:
        step = step.clamp(max=self.chain.steps)[:, None]
        a, s = self.chain.a[step], self.chain.s[step]
        lanes = torch.matmul(a, state.view(len(state), 1, -1, self.chain.size))
        pushed = torch.matmul(s, value.view(len(value), 1, -1, self.chain.size))
        return self.refresh(lanes + pushed, step + 1)[:, 0].flatten(1)

    def _next(self, width: int) -> Tensor:
        """The next steps (rows, w); N in the padding beyond the last."""
        return self.steps(width).clamp(max=self.chain.steps)

    def _rolled(self, a: Tensor, step: Tensor, values: Tensor) -> Tensor:
        """The lanes X' = a X + S value, refreshed, one after another (rows, w + 1, c, d); `a` is (rows, w, c, c)."""
        value = values.unflatten(-1, (-1, self.chain.size))  # (rows, w, r, d)
        pushed = self.refresh(torch.matmul(self.chain.s[step], value), step + 1)  # (rows, w, c, d)
        lanes = [self.lanes]
        for i in range(values.shape[1]):
            lanes.append(torch.baddbmm(pushed[:, i], a[:, i], lanes[-1]))
        return torch.stack(lanes, dim=1)
