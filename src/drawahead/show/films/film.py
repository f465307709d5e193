"""Films: how a few samples were drawn, one by one against drawahead, round by round.

A film of tokens tells when each part of a picture appears on either side; one of vectors, see `frames`, holds pictures
of the states that were reached, and how far either side had come.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from drawahead.chains import Chain, TokenChain
from drawahead.chains.affine import AffineChain
from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenPaths
from drawahead.errors import InputError
from drawahead.report import Report
from drawahead.sample import Result, as_chain
from drawahead.samplers import Sampler, Separated
from drawahead.samplers.record import as_sampler, from_repr
from drawahead.show.films.frames import vector_film
from drawahead.show.films.reels import Film, Reel
from drawahead.show.films.replay import replay
from drawahead.show.pages.gallery import Target, viewed
from drawahead.show.views import TokenView, VectorView, View, view_of
from drawahead.validate import instance, whole

_LONGEST = 8192  # positions of a sequence: a page with more would be slow


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
    instance("result", result, Result, "what drawahead.sample gives")
    view = viewed(view) or view_of(chain)
    rows = _traced(result)[: whole("samples", samples, 1)]
    if not rows:
        raise InputError("no sample of this result was followed to its end: there is nothing to film")
    if isinstance(chain, TokenChain) and isinstance(view, TokenView):
        return _token_film(chain, result, rows, view, sampler)
    if isinstance(chain, AffineChain) and isinstance(view, VectorView):
        return vector_film(chain, result, rows, view, sampler or from_repr(result.report.sampler))
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
