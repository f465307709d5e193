"""Films: how a few samples came about, one by one against drawahead, round by round.

A film of tokens tells when each part of a picture appears on either side; one of vectors holds pictures of the states
that were reached, and how far either side had come.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.chains.vectors import VectorChain, VectorPaths
from drawahead.errors import InputError, whole
from drawahead.pages.gallery import Target
from drawahead.pages.png import Pixels, data_uri
from drawahead.pages.replay import replay, sampler_named
from drawahead.pages.vectors import FILM_SIDE, Images, VectorView, View
from drawahead.pages.views import TokenView, view_of
from drawahead.sample import Result, as_chain
from drawahead.samplers import Sampler, Separated

FRAMES = 48
"""States of a vector that are pictured, beside those at which drawahead's rounds ended."""
_STATE_BYTES = 2**28  # that a replay may keep
_AT_ONCE = 32  # states that a denoiser is asked about together
_LONGEST = 8192  # positions of a sequence: a page with more would be slow


@final
@dataclass(frozen=True)
class Reel:
    """How one sample came about."""

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
    """How a few samples came about, ready for a page."""

    reels: tuple[Reel, ...]
    note: str = ""
    """What a viewer should know."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return asdict(self)


def film(
    target: Target, result: Result, samples: int = 4, *, view: View | None = None, sampler: Sampler | None = None
) -> Film:
    """How the first `samples` of a result came about.

    target: what they were drawn from. view: how they look; None takes what suits the target. sampler: what drew them;
    None takes the one that the report names. Tokens follow from the report alone, unless `Separated` drew them; it, and
    vectors, are drawn again, which costs the rounds once more.
    """
    chain = as_chain(target)
    view = view or view_of(chain)
    traced = [i for i, number in enumerate(result.numbers.tolist()) if number in result.report.progress]
    rows = traced[: whole("samples", samples, 1)]
    if not rows:
        raise InputError("no sample of this result was followed to its end: there is nothing to film")
    if isinstance(chain, TokenChain) and isinstance(view, TokenView):
        return _token_film(chain, result, rows, view, sampler)
    if isinstance(chain, VectorChain) and isinstance(view, VectorView):
        return _vector_film(chain, result, rows, view, sampler)
    raise InputError(f"{type(view).__name__} cannot show what a {type(chain).__name__} draws")


def filmable(chain: Chain, result: Result) -> bool:
    """Whether there is something to film, and not too much of it: two sides that are not the same."""
    report = result.report
    some = report.mean_rounds < report.steps and any(number in report.progress for number in result.numbers.tolist())
    fits = chain.oracle.length <= _LONGEST if isinstance(chain, TokenChain) else isinstance(chain, VectorChain)
    return some and fits


def _token_film(
    chain: TokenChain, result: Result, rows: Sequence[int], view: TokenView, sampler: Sampler | None
) -> Film:
    if chain.oracle.length > _LONGEST:
        raise InputError(f"a film shows {_LONGEST} positions at most, not {chain.oracle.length}")
    report, numbers = result.report, result.numbers[torch.tensor(rows)]
    progress = {number: list(report.progress[number]) for number in numbers.tolist()}
    one_by_one = _turns(chain, report.seed, numbers)  # by number: the turn at which each position comes
    if sampler is None and report.sampler.startswith("Separated"):
        sampler = sampler_named(report.sampler)
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


def _vector_film(
    chain: VectorChain, result: Result, rows: Sequence[int], view: VectorView, sampler: Sampler | None
) -> Film:
    report, numbers = result.report, result.numbers[torch.tensor(rows)].tolist()
    sampler = sampler or sampler_named(report.sampler)
    state_bytes = 8 * math.prod(chain.state_shape) * len(numbers)
    even = np.linspace(1, chain.steps - 1, min(FRAMES, max(2, _STATE_BYTES // state_bytes)))
    wanted = {number: {int(step) for step in even} | set(report.progress[number]) for number in numbers}
    recording = copy.copy(chain)
    recording.record = tuple(sorted(step for step in set().union(*wanted.values()) if 0 < step < chain.steps))
    again = replay(recording, sampler, report.seed, numbers)
    reels, same = [], True
    for row, number in zip(rows, numbers, strict=True):
        value, last = again.values[number], result.samples[row]
        final = value[-1] if recording.record else value
        at = [i for i, step in enumerate(recording.record) if step in wanted[number]]
        states = value[at] if recording.record else value[None][:0]
        steps, shown = _seen(chain, report.seed, number, [recording.record[i] for i in at], states)
        pixels = view.pixels(torch.cat([shown.double(), final[None].double()]), FILM_SIDE)
        picture = _strip(pixels, [*steps, chain.steps]) | {"smooth": isinstance(view, Images)}
        reels.append(Reel(number, chain.steps, tuple(again.progress[number]), picture))
        same = same and torch.allclose(final.to(last), last, atol=1e-2)
    return Film(tuple(reels), "" if same else "The film was drawn again, and rounding led it to other samples.")


def _seen(chain: VectorChain, seed: int, number: int, steps: list[int], states: Tensor) -> tuple[list[int], Tensor]:
    """What there is to see of the states after these steps, and after which steps (frames, ...).

    Of a diffusion that is the denoiser's prediction, from the start on, for the states themselves are mostly noise.
    """
    if not isinstance(chain, GaussianChain):
        return steps, states
    paths = chain.start(seed, torch.tensor([number]), Tally())
    assert isinstance(paths, VectorPaths)
    start = paths.x.view(1, *chain.shape).to(states)
    at, x = [0, *steps], torch.cat([start, states]).to(chain.device)
    batches = zip(x.split(_AT_ONCE), torch.tensor(at, device=chain.device).split(_AT_ONCE), strict=True)
    with torch.no_grad():
        answers = [torch.as_tensor(chain.predict(*batch)).flatten(1) for batch in batches]
    return at, chain.adjust(torch.cat(answers).double()).view(x.shape).cpu()


def _strip(frames: list[Pixels], at: Sequence[int]) -> dict[str, Any]:
    """The frames as one picture, side by side in lines; frame i is what there is after step at[i]."""
    height, width = frames[0].shape[:2]
    columns = math.ceil(math.sqrt(len(frames)))
    blank = np.zeros_like(frames[0])
    filled = [*frames, *[blank] * (-len(frames) % columns)]
    lines = [np.concatenate(filled[i : i + columns], axis=1) for i in range(0, len(filled), columns)]
    uri = data_uri(np.concatenate(lines, axis=0))
    return {"kind": "frames", "uri": uri, "width": width, "height": height, "columns": columns, "at": list(at)}
