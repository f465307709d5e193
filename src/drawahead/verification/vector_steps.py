"""Innovations of vectors: paths are drawn once more and their states recorded, which show the noise of each step.

States are recorded in float64 whatever the dtype of the model: the noise of a step may be smaller than the last place
of a float32 state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.affine import rows_of
from drawahead.chains.affine_queries import GaussianQuery
from drawahead.chains.base import Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.executors.local import Local
from drawahead.verification.rounding import root_mean_square
from drawahead.verification.steps import DrawnSteps
from drawahead.verification.white import EXACT, Off

BYTES = 2**28  # what recorded paths may take
FEWEST = 50  # samples that are worth a test; rather than fewer of them, fewer steps are recorded
RUN = 4  # states recorded one after another where not all can be
VISIBLE = 1e-11
"""Noise must be larger than this times the state it is added to, to be worked out from float64."""


Recordable = GaussianChain | StackedChain
Model = Callable[[Tensor, Tensor], Tensor]


@final
class _InItsOwnDtype:
    """A model that is called with states of its own dtype, whatever that of the chain."""

    def __init__(self, model: Model, dtype: torch.dtype) -> None:
        self.model, self.dtype = model, dtype

    def __call__(self, x: Tensor, step: Tensor, **condition: Tensor) -> Tensor:
        return self.model(x.to(self.dtype), step, **condition)


@final
@dataclass(frozen=True, eq=False)
class RecordedChain:
    """The same chain with states recorded, and for how many samples that is possible."""

    chain: Recordable
    num_samples: int
    untested: tuple[str, ...] = ()

    @staticmethod
    def of(chain: Recordable, num_samples: int) -> RecordedChain | None:
        """As many states as fit: of all samples, or of fewer, or of some steps alone. None if that is none."""
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
    """The chain with these states recorded, in float64. Its model is called with the same inputs as before."""
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
    noises: list[Tensor] = []
    if isinstance(chain, GaussianChain):
        states = torch.cat([states[:, :-1], states[:, -1:] / chain.plan.final], dim=1)
        if chain.start_state is None and chain.plan.start:
            around = 0.0 if chain.around is None else rows_of(chain.around, paths.sample).flatten(1)
            first = _inside((paths.x - around) / chain.plan.start, chain.moves.basis)
            noises.append(_of_free(first, paths.aside.free))
    states = torch.cat([paths.x[:, None], states], dim=1)
    missed: list[float] = []
    hidden = blind = 0
    last: tuple[int, Tensor] | None = None  # the step of the last query, and the answers
    for column, k in enumerate(held[:-1]):
        follows = held[column + 1] == k + 1
        if not follows and not chain.moves.looks_back:
            continue
        step = torch.full((len(samples),), k, device=chain.device)
        before, after = states[:, column], states[:, column + 1]
        query = GaussianQuery.column(chain, paths.sample, before, step, paths.condition, torch.arange(len(step)))
        answer = executor.answer([query])[0][:, None]
        earlier, last = last if last is None or last[0] == k - 1 else None, (k, answer)
        if not follows:
            continue
        if chain.moves.looks_back and k and earlier is None:
            blind += 1  # the answer at the state before is missing
            continue
        law = chain.moves.law(answer, step[:, None], paths.aside, None if earlier is None else earlier[1])
        rest = after - chain.moves.onward(before, law.mean[:, 0], step, paths.aside)
        if law.thin is not None:  # seen as if all entries had the spread of the step
            rest = rest * torch.where(law.thin[:, 0] > 0, law.scale / law.thin[:, 0], 1.0)
        noise, off_by, all_seen = _seen(chain, k, after, rest, law.mean[:, 0].double(), paths.aside.free)
        noises += [] if noise is None else [noise]
        missed += [] if off_by is None else [off_by]
        hidden += not all_seen
    untested = recording.untested
    if blind:
        untested += (f"{blind} of {chain.steps} steps: the state before theirs was not kept",)
    if hidden:
        untested += (f"the noise of {hidden} of {chain.steps} steps: it is below the last place of the states",)
    xi = torch.stack(noises, dim=1).cpu() if noises else torch.zeros(len(samples), 0, 1, dtype=torch.float64)
    return DrawnSteps((xi,), off, missed=max(missed, default=None), untested=untested)


def _seen(
    chain: Recordable, k: int, after: Tensor, rest: Tensor, mean: Tensor, free: Tensor | None
) -> tuple[Tensor | None, float | None, bool]:
    """What noise has added to a state (`rest`), in the axes of the step's spread: along each, a multiple of a standard
    normal, or nothing.

    -> the noise (m, noises d) where it can be seen, NaN elsewhere and where entries are overwritten, None if nowhere;
    by how much the state misses what is not random in it, relative to what the mean (m, ...) adds to it, None if all of
    it is random; and whether all noise is seen.
    """
    rest = rest.unflatten(-1, (-1, chain.size))  # (m, lanes, d)
    push, spread = chain.moves.mixing(k)
    axes, size, _ = torch.linalg.svd(spread, full_matrices=False)
    random = size > 1e-14 * size.max()
    visible = random & (size > VISIBLE * after.abs().max())
    along = axes.T @ rest  # (m, axes, d)
    noise = missed = None
    if bool(visible.any()):
        table = _inside(along, chain.moves.basis) / torch.where(visible, size, torch.nan)[:, None]
        unseen = spread.shape[1] - len(size)
        noise = _of_free(pad(table, (0, 0, 0, unseen), value=torch.nan).flatten(1), free)
    if free is not None or int(random.sum()) < rest.shape[1]:
        left = (rest - axes[:, random] @ along[:, random]).flatten(1)
        left = left if free is None else torch.where(free, left, rest.flatten(1))
        added = root_mean_square(push @ mean.unflatten(-1, (-1, chain.size)))
        # Where next to nothing is added, it is the state that tells what is small.
        scale = added.maximum(1e-3 * root_mean_square(after)).clamp(min=1e-300)
        missed = float((root_mean_square(left) / scale).max())
    return noise, missed, torch.equal(visible, random)


def _of_free(table: Tensor, free: Tensor | None) -> Tensor:
    """NaN where entries (m, d) are overwritten."""
    return table if free is None else torch.where(free, table, torch.nan)


def _inside(table: Tensor, basis: Tensor | None) -> Tensor:
    """Vectors (..., d) of a subspace as as many numbers as it has dimensions, and NaN for the others."""
    return table if basis is None else pad(table @ basis, (0, len(basis) - basis.shape[1]), value=torch.nan)
