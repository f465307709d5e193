"""Innovations of vectors: paths are drawn once more with their states kept, and a step's noise worked out from them.

States are kept in float64 whatever the model is given: the noise of a step may be smaller than the last place of a
float32 state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.affine_queries import GaussianQuery
from drawahead.chains.base import Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.executors.local import Local
from drawahead.oracles.condition import rows_of
from drawahead.verification.rounding import root_mean_square
from drawahead.verification.steps import DrawnSteps
from drawahead.verification.white import EXACT, Off

BYTES = 2**28  # what recorded paths may take
FEWEST = 50  # samples that are worth a test; rather than fewer of them, fewer steps are kept
RUN = 4  # states kept one after another where not all can be
VISIBLE = 1e-11
"""Noise must be larger than this times the state it is added to, to be worked out from float64."""


Recordable = GaussianChain | StackedChain
Model = Callable[[Tensor, Tensor], Tensor]


@final
class _InItsOwnDtype:
    """A model that is given states in its own dtype, whatever that of the chain."""

    def __init__(self, model: Model, dtype: torch.dtype) -> None:
        self.model, self.dtype = model, dtype

    def __call__(self, x: Tensor, step: Tensor, **condition: Tensor) -> Tensor:
        return self.model(x.to(self.dtype), step, **condition)


@final
@dataclass(frozen=True, eq=False)
class RecordedChain:
    """The same chain with states kept, and of how many samples that may be."""

    chain: Recordable
    num_samples: int
    untested: tuple[str, ...] = ()

    @staticmethod
    def of(chain: Recordable, num_samples: int) -> RecordedChain | None:
        """As many states as may be kept: of all samples, or of fewer, or of some steps alone. None if that is none."""
        steps, room = chain.steps, BYTES // (8 * math.prod(chain.state_shape))
        if num_samples * steps <= room:
            return RecordedChain(_keeping(chain, range(1, steps)), num_samples)
        why = f"their states would take more than {BYTES >> 20} MB"
        number = min(num_samples, max(room // steps, FEWEST), room // RUN)
        if number < 1:
            return None
        samples = f"the steps of {num_samples - number} of {num_samples} samples: {why}"
        if number * steps <= room:
            return RecordedChain(_keeping(chain, range(1, steps)), number, (samples,))
        runs = room // number // RUN
        first = torch.linspace(1, max(1, steps - RUN), runs).long().tolist()
        kept = sorted({step for begin in first for step in range(begin, begin + RUN) if step < steps})
        tested = sum(step + 1 in {*kept, steps} for step in [0, *kept])
        untested = (f"{steps - tested} of {steps} steps: {why}",)
        return RecordedChain(_keeping(chain, kept), number, (*untested, samples) if number < num_samples else untested)


def _keeping(chain: Recordable, record: Sequence[int]) -> Recordable:
    """The chain with these states kept, in float64. Its model is asked what it was asked before."""
    if isinstance(chain, GaussianChain):
        denoiser = _InItsOwnDtype(chain.denoiser, chain.dtype)
        return chain.replace(denoiser=denoiser, record=record, dtype=torch.float64)
    plan = replace(chain.plan, final=torch.eye(chain.plan.lanes, dtype=torch.float64, device=chain.device))
    oracle = _InItsOwnDtype(chain.oracle, chain.dtype)
    return chain.replace(oracle=oracle, plan=plan, record=record, dtype=torch.float64)


@torch.no_grad()
def vector_steps(
    recording: RecordedChain, samples: Tensor, seed: int, off: Off = EXACT, max_batch_size: int | None = None
) -> DrawnSteps:
    """Of samples (m, kept, ...) of a recorded chain, drawn with this seed: the noise of every step that can be seen."""
    chain, executor = recording.chain, Local(max_batch_size)
    paths = chain.start(seed, torch.arange(len(samples)), Tally())
    held = [0, *chain.record, chain.steps]
    states = samples.reshape(len(samples), len(held) - 1, -1).to(chain.device)
    if isinstance(chain, GaussianChain):
        states = torch.cat([states[:, :-1], states[:, -1:] / chain.plan.final], dim=1)
    states = torch.cat([paths.x[:, None], states], dim=1)
    noises: list[Tensor] = []
    if isinstance(chain, GaussianChain) and chain.start_state is None and chain.plan.start:
        noises.append(
            _of_free(
                _inside((paths.x - _mean(chain, paths.sample)) / chain.plan.start, chain.moves.basis), paths.aside.free
            )
        )
    missed: list[float] = []
    hidden = blind = 0
    last: tuple[int, Tensor] | None = None  # the step that was asked about, and the answers
    for column, k in enumerate(held[:-1]):
        follows = held[column + 1] == k + 1
        if not follows and not chain.moves.looks_back:
            continue
        step = torch.full((len(samples),), k, device=chain.device)
        before, after = states[:, column], states[:, column + 1]
        asked = GaussianQuery.column(chain, paths.sample, before, step, paths.condition, torch.arange(len(step)))
        answer = executor.answer([asked])[0][:, None]
        known, last = last if last is None or last[0] == k - 1 else None, (k, answer)
        if not follows:
            continue
        if chain.moves.looks_back and k and known is None:
            blind += 1  # what was answered at the state before is not known
            continue
        law = chain.moves.law(answer, step[:, None], paths.aside, None if known is None else known[1])
        rest = after - chain.moves.onward(before, law.mean[:, 0], step, paths.aside)
        if law.thin is not None:  # seen as if all entries had the spread of the step
            rest = rest * torch.where(law.thin[:, 0] > 0, law.scale / law.thin[:, 0], 1.0)
        seen = _Seen(chain, k, after, rest, paths.aside.free)
        noises += [seen.noise] if bool(seen.visible.any()) else []
        missed += [seen.missed(law.mean[:, 0].double())] if seen.has_fixed else []
        hidden += not torch.equal(seen.visible, seen.random)
    untested = recording.untested
    if blind:
        untested += (f"{blind} of {chain.steps} steps: the state before theirs was not kept",)
    if hidden:
        untested += (f"the noise of {hidden} of {chain.steps} steps: it is below the last place of the states",)
    xi = torch.stack(noises, dim=1).cpu() if noises else torch.zeros(len(samples), 0, 1, dtype=torch.float64)
    return DrawnSteps((xi,), off, missed=max(missed, default=None), untested=untested)


def _mean(chain: GaussianChain, samples: Tensor) -> Tensor | float:
    """Of the first state."""
    return 0.0 if chain.around is None else rows_of(chain.around, samples).flatten(1)


def _of_free(table: Tensor, free: Tensor | None) -> Tensor:
    """NaN where entries (m, d) are overwritten."""
    return table if free is None else torch.where(free, table, torch.nan)


def _inside(table: Tensor, basis: Tensor | None) -> Tensor:
    """Vectors (..., d) of a subspace as as many numbers as it has dimensions, and NaN for the others."""
    return table if basis is None else pad(table @ basis, (0, len(basis) - basis.shape[1]), value=torch.nan)


class _Seen:
    """What noise has added to a state, seen in the axes of the step's spread: along each, a multiple of a standard
    normal, or nothing."""

    def __init__(self, chain: Recordable, step: int, after: Tensor, rest: Tensor, free: Tensor | None) -> None:
        self.after, self.free = after, free
        self.within = chain.moves.basis
        self.rest = rest.unflatten(-1, (-1, chain.size))  # (m, lanes, d)
        self.push, spread = chain.moves.mixing(step)
        self.noises = spread.shape[1]
        self.axes, self.size, _ = torch.linalg.svd(spread, full_matrices=False)
        self.random = self.size > 1e-14 * self.size.max()
        self.visible = self.random & (self.size > VISIBLE * after.abs().max())
        self.along = self.axes.T @ self.rest  # (m, axes, d)

    @property
    def noise(self) -> Tensor:
        """The noise (m, noises d) as far as it can be seen, NaN elsewhere and where entries are overwritten."""
        size = torch.where(self.visible, self.size, torch.nan)
        unseen = self.noises - len(size)
        along = _inside(self.along, self.within)
        return _of_free(pad(along / size[:, None], (0, 0, 0, unseen), value=torch.nan).flatten(1), self.free)

    @property
    def has_fixed(self) -> bool:
        """Whether some of the state is not random."""
        return self.free is not None or int(self.random.sum()) < self.rest.shape[1]

    def missed(self, mean: Tensor) -> float:
        """By how much the state misses what is not random in it, relative to what a mean (m, ...) adds to it."""
        left = (self.rest - self.axes[:, self.random] @ self.along[:, self.random]).flatten(1)
        if self.free is not None:
            left = torch.where(self.free, left, self.rest.flatten(1))
        added = self.push @ mean.unflatten(-1, (-1, self.rest.shape[-1]))
        # Where next to nothing is added, it is the state that tells what is small.
        size = root_mean_square(added).maximum(1e-3 * root_mean_square(self.after)).clamp(min=1e-300)
        return float((root_mean_square(left) / size).max())
