"""Films: how a few samples were drawn, one by one against drawahead, round by round.

A film of tokens tells when each part of a picture appears on either side. One of vectors holds pictures of the states
that were reached, from noise to the sample: those at which drawahead's rounds ended, and others spread evenly, for the
side that draws one by one. Both sides walk the same path: that of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.chains.affine import AffineChain
from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.errors import InputError
from drawahead.report import Report
from drawahead.sample import Result, as_chain
from drawahead.samplers import Sampler, Separated
from drawahead.samplers.record import as_sampler, from_repr
from drawahead.show.films.replay import replay
from drawahead.show.pages.gallery import Target, outputs
from drawahead.show.pictures import Pixels, strip
from drawahead.show.views import TokenView, VectorView, View, view_of
from drawahead.validate import whole
from drawahead.values import dataclass

FRAMES = 48
"""States that are pictured, beside those at which drawahead's rounds ended."""
_LONGEST = 8192  # positions of a sequence: a page with more would be slow
_STATE_BYTES = 2**28  # that a replay may keep
_PIXEL_BYTES = 1_100_000  # of all frames on a page, before compression


@final
@dataclass(frozen=True)
class Reel:
    """How one sample was drawn."""

    number: int
    steps: int
    """Which is also the rounds it takes one by one."""
    progress: tuple[int, ...]
    """Steps that drawahead had committed after each round, from 0 on."""
    picture: dict[str, Any]
    """What is seen, as JSON."""


@final
@dataclass(frozen=True)
class Film:
    """How a few samples were drawn, ready for a page."""

    reels: tuple[Reel, ...]
    note: str = ""
    """What a viewer should know."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self)


def film(
    target: Target, result: Result, samples: int = 4, *, view: View | None = None, sampler: Sampler | str | None = None
) -> Film:
    """How the first `samples` of a result were drawn.

    target: the chain or oracle of the samples.
    view: how they are shown; None takes the target's own view.
    sampler: the sampler that drew them; None takes the one in the report.

    Films of tokens need only the report, unless `Separated` drew them; those, and vectors, are sampled again, which
    costs the same rounds once more.
    """
    chain, sampler = as_chain(target), as_sampler(sampler)
    view = view_of(chain) if view is None else view
    rows = _traced(result)[: whole("samples", samples, 1)]
    if not rows:
        raise InputError("no sample of this result was followed to its end: there is nothing to film")
    if isinstance(chain, TokenChain) and isinstance(view, TokenView):
        return _token_film(chain, result, rows, view, sampler)
    if isinstance(chain, AffineChain) and isinstance(view, VectorView):
        return _vector_film(chain, result, rows, view, sampler or from_repr(result.report.sampler))
    raise InputError(f"{type(view).__name__} cannot show what a {type(chain).__name__} draws")


def filmable(chain: Chain, result: Result, sampler: Sampler | None) -> bool:
    """Whether there is something to film, and not too much of it: two sides that are not the same."""
    report = result.report
    fits = chain.oracle.length <= _LONGEST if isinstance(chain, TokenChain) else isinstance(chain, AffineChain)
    if not fits or not report.mean_rounds < report.steps or not _traced(result):
        return False
    try:
        return sampler is not None or not _again(chain, report) or bool(from_repr(report.sampler))
    except InputError:
        return False


def _traced(result: Result) -> list[int]:
    """The rows of samples whose progress is known."""
    progress = result.report.progress
    return [row for row, number in enumerate(result.numbers.tolist()) if len(progress.get(number, ())) > 1]


def _again(chain: Chain, report: Report) -> bool:
    """Whether a film needs its samples drawn again."""
    return isinstance(chain, AffineChain) or report.sampler.startswith("Separated")


def _token_film(
    chain: TokenChain, result: Result, rows: Sequence[int], view: TokenView, sampler: Sampler | None
) -> Film:
    if chain.oracle.length > _LONGEST:
        raise InputError(f"a film shows {_LONGEST} positions at most, not {chain.oracle.length}")
    report, numbers = result.report, result.numbers[torch.tensor(rows)]
    progress = {number: list(report.progress[number]) for number in numbers.tolist()}
    one_by_one = _turns(chain, report.seed, numbers)  # by number: the turn at which each position comes
    if sampler is None and _again(chain, report):
        sampler = from_repr(report.sampler)
    if isinstance(sampler, Separated):
        again = replay(chain, sampler, report.seed, numbers.tolist())
        rounds, progress = again.settled, again.progress
    else:
        rounds = {number: _rounds(turn, progress[number]) for number, turn in one_by_one.items()}
    reels = []
    for row, number in zip(rows, numbers.tolist(), strict=True):
        sample, turn = result.samples[row], one_by_one[number]
        times = {"sequential": view.times(sample, turn), "drawahead": view.times(sample, rounds[number])}
        picture = view.picture(sample).data() | times
        reels.append(Reel(number, int(turn.max()), tuple(progress[number]), picture))
    return Film(tuple(reels))


def _turns(chain: TokenChain, seed: int, numbers: Tensor) -> dict[int, Tensor]:
    """When each position (n,) is drawn, one by one: from 1 on, 0 where it is known from the start."""
    known = torch.zeros(chain.oracle.length, dtype=torch.int64)
    turns = dict.fromkeys(numbers.tolist(), known)  # samples with nothing to draw have no path
    paths = chain.start(seed, numbers, Tally())
    assert isinstance(paths, TokenPaths)
    return turns | {n: rank.cpu() + 1 for n, rank in zip(paths.sample.tolist(), paths.rank, strict=True)}


def _rounds(turn: Tensor, progress: Sequence[int]) -> Tensor:
    """The round after which each position (n,) was committed: the first after which so many steps were."""
    return torch.searchsorted(torch.tensor(progress), turn)


def _vector_film(chain: AffineChain, result: Result, rows: Sequence[int], view: VectorView, sampler: Sampler) -> Film:
    """The film of these rows of a result, which `sampler` drew; they are drawn again."""
    report, numbers = result.report, result.numbers[torch.tensor(rows)].tolist()
    state_bytes = 8 * math.prod(chain.state_shape) * len(numbers)
    even = np.linspace(1, chain.steps - 1, min(FRAMES, max(2, _STATE_BYTES // state_bytes)))
    wanted = {number: {int(step) for step in even} | _ends(report.progress[number]) for number in numbers}
    between = sorted(step for step in set().union(*wanted.values()) if 0 < step < chain.steps)
    recording = chain.replace(record=between)
    again = replay(recording, sampler, report.seed, numbers)
    reels, same = [], True
    for row, number in zip(rows, numbers, strict=True):
        value, last = again.values[number], outputs(chain, result.samples[row : row + 1])[0]
        final = value[-1] if recording.record else value
        at = [i for i, step in enumerate(recording.record) if step in wanted[number]]
        states = value[at] if recording.record else value[None][:0]
        steps, shown = _seen(chain, report.seed, number, [recording.record[i] for i in at], states)
        if isinstance(chain, GaussianChain):
            shown = _scaled(shown.double(), final.double())
        frames = torch.cat([shown.double(), final[None].double()])
        picture = strip(_fitting(view, frames, len(rows)), [*steps, chain.steps], smooth=view.smooth)
        reels.append(Reel(number, chain.steps, tuple(again.progress[number]), picture))
        same = same and torch.allclose(final.to(last), last, atol=1e-2)
    return Film(tuple(reels), "" if same else "The animation was drawn again, and rounding led to other samples.")


def _ends(progress: Sequence[int]) -> set[int]:
    """Where rounds ended; where there are very many rounds, not all of them."""
    return set(progress[:: 1 + len(progress) // (2 * FRAMES)])


def _seen(chain: AffineChain, seed: int, number: int, steps: list[int], states: Tensor) -> tuple[list[int], Tensor]:
    """The states after these steps, and after which steps (frames, ...); of a diffusion with the one it starts from."""
    if not isinstance(chain, GaussianChain):
        return steps, states
    start = chain.start(seed, torch.tensor([number]), Tally()).x.view(1, *chain.shape)
    return [0, *steps], torch.cat([start.to(states), states])


def _scaled(states: Tensor, final: Tensor) -> Tensor:
    """States of a diffusion in the size of the sample: noise may be a hundred times as large, or begin at zero."""
    size = states.flatten(1).square().mean(1).sqrt().clamp(min=1e-12)
    return states * (final.square().mean().sqrt() / size).view(-1, *[1] * (states.dim() - 1))


def _fitting(view: VectorView, frames: Tensor, reels: int) -> list[Pixels]:
    """Pictures of the frames, as large as a page has room for."""
    for side in (64, 48, 32, 16):
        pixels = view.pixels(frames, side)
        if reels * sum(frame.nbytes for frame in pixels) <= _PIXEL_BYTES:
            break
    return pixels
