"""Laws that fall apart: draw a separator, then go on in all of its sides at once.

Given the positions of a separator, the parts of the law on its sides are independent. Planar graphs have separators of
O(sqrt n) vertices (Lipton and Tarjan, 1979), of which a sampler with sqrt rounds draws in n^(1/4) rounds; the levels
below add a geometric series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Paths, Tally
from drawahead.chains.tokens import TokenChain, TokenPaths
from drawahead.errors import AnswerError, InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import Purpose, Stream
from drawahead.rounds.threads import Fork, Thread
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.validate import short
from drawahead.values import dataclass


class Piece(Protocol):
    """A part of a law that is independent of all others, given what is known, for a batch of samples."""

    @property
    def number(self) -> int:
        """Which part: no other part of the same sample has this number."""

    @property
    def oracle(self) -> TokenOracle:
        """The law of the part's separator: of the positions without which it falls apart."""

    @property
    def evidence(self) -> Tensor:
        """What each sample shows the oracle (rows, length), HIDDEN where a token is to be drawn."""

    @property
    def level(self) -> Tensor:
        """When each position (length,) is best drawn: the lowest level first. Those of the first levels should depend
        on each other little."""

    def settle(self, rows: Tensor, tokens: Tensor) -> Settled:
        """What is known once the separators of these rows are drawn, their tokens (len(rows), length)."""


class Settled(NamedTuple):
    """What became known of some samples, and what is left of them: pieces with a row for each of these samples.

    Sample row[c] has token[c] at position[c]; all (c,)."""

    row: Tensor
    position: Tensor
    token: Tensor
    pieces: Sequence[Piece]


@runtime_checkable
class Separable(Protocol):
    """An oracle whose law falls into pieces."""

    def pieces(self, tokens: Tensor) -> Settled:
        """The pieces of samples of which `tokens` (rows, n) are known, HIDDEN elsewhere; and what follows from them."""


@final
@dataclass(frozen=True)
class Separated(Sampler):
    """Draw the separator of every piece with the sampler `inner`; then its sides, side by side.

    It is for oracles that are `Separable`. It chooses the order of the positions, so the chain must not set one. With
    `spread`, positions of a separator that are far apart are drawn first. That takes fewer rounds than a uniformly
    random order, the only one with a theorem. The distribution is the same.

    All pieces of all samples run as threads of one engine; a sample's next pieces start as soon as its separator is
    drawn.
    """

    guarantee: ClassVar[Guarantee] = Guarantee(
        exact=True, rounds="O~(n^(1/4)) on planar graphs, with Block", reference="planar separators, SIAM 1979"
    )
    inner: Sampler = field(default_factory=Coupled)
    spread: bool = True

    def __post_init__(self) -> None:
        if not self.inner.guarantee.exact or isinstance(self.inner, Separated):
            raise InputError(f"inner must be an exact sampler such as Block(), not {short(self.inner)}")

    def threads(self, chain: Chain, seed: int, samples: Sequence[int], tally: Tally) -> list[tuple[Paths, Thread]]:
        if isinstance(chain, TokenChain) and chain.order is not None:
            raise InputError("Separated chooses the order: give the chain none")
        return super().threads(chain, seed, samples, tally)

    def run(self, paths: Paths) -> Thread:
        oracle: object = getattr(paths, "oracle", None)
        if not isinstance(paths, TokenPaths) or not isinstance(oracle, Separable):
            raise InputError("Separated needs a target that falls into pieces, such as PlanarMatching")
        return self._whole(paths, oracle)

    def _whole(self, whole: TokenPaths, oracle: Separable) -> Thread:
        if not len(whole):
            return
        numbers, stream = whole.sample, whole.stream
        settled = oracle.pieces(torch.where(whole.rank < 0, whole.tokens, HIDDEN))
        _record(whole, numbers, settled)
        yield Fork([self._piece(piece, whole, numbers, stream) for piece in settled.pieces])
        if len(whole):
            raise AnswerError(f"the pieces of sample {int(whole.sample[0])} left some of its positions open")

    def _piece(self, piece: Piece, whole: TokenPaths, numbers: Tensor, stream: Stream) -> Thread:
        """Draw a piece of the samples with these numbers, its separator first."""
        part = self._start(piece, numbers, stream.child(piece.number, 0), _Uncounted(whole.tally))
        threads: list[Thread] = self.inner.runs(part) or [_nothing()]  # where all is known already
        runs = [(run, _next(run, None)) for run in threads]
        yield Fork([self._follow(*run, piece, part, whole, numbers, stream) for run in runs])

    def _follow(
        self,
        run: Thread,
        asked: Any,
        piece: Piece,
        part: TokenPaths,
        whole: TokenPaths,
        numbers: Tensor,
        stream: Stream,
    ) -> Thread:
        """Follow `run`, which has `asked` something, until rows are done; then they go on beside the others."""
        while asked is not None and not part.finished:
            asked = _next(run, (yield asked))
        threads = [] if asked is None else [self._follow(run, asked, piece, part, whole, numbers, stream)]
        if part.finished:
            done, _, tokens = map(torch.cat, zip(*part.finished, strict=True))
            part.finished = []
            rows, order = torch.searchsorted(numbers, done).sort()
            settled = piece.settle(rows, tokens[order])
            _record(whole, numbers[rows], settled)
            threads += [self._piece(below, whole, numbers[rows], stream[rows]) for below in settled.pieces]
        if threads:
            yield Fork(threads)

    def _start(self, piece: Piece, numbers: Tensor, stream: Stream, tally: Tally) -> TokenPaths:
        """Paths over the separator of a piece, in its own or in a random order."""
        evidence = piece.evidence
        rows, n = evidence.shape
        known = evidence != HIDDEN
        length = (~known).sum(1)
        step = torch.arange(n).expand(rows, n)
        key = stream.uniform(Purpose.ORDER, step) + (piece.level if self.spread else 0)
        order = torch.where(known, torch.inf, key).argsort(dim=1, stable=True)
        rank = torch.empty_like(order).scatter_(1, order, step)
        rank = torch.where(rank < length[:, None], rank, -1)
        tokens = torch.where(known, evidence, 0)
        return TokenPaths(piece.oracle, numbers, torch.zeros_like(length), length, stream, tally, tokens, order, rank)


class _Uncounted(Tally):
    """The tally of all pieces, but for steps committed, which are its own: they count when they are recorded, for a
    drawn partner settles two."""

    __slots__ = ("own",)
    committed = property(lambda self: self.own, lambda self, steps: setattr(self, "own", steps))

    def __init__(self, whole: Tally) -> None:
        self.__dict__, self.own = vars(whole), 0


def _nothing() -> Thread:
    yield from ()


def _next(run: Thread, answer: Any) -> Any:
    """What a thread asks next; None if it has ended."""
    try:
        return run.send(answer)
    except StopIteration:
        return None


def _record(whole: TokenPaths, numbers: Tensor, settled: Settled) -> None:
    """Write what is settled of the samples with these numbers; retire those of which everything is."""
    row = torch.searchsorted(whole.sample, numbers)[settled.row]
    whole.tokens[row, settled.position] = settled.token
    whole.position = whole.position + torch.bincount(row, minlength=len(whole))
    whole.tally.committed += len(row)
    whole.commit(whole.tokens[:, :0], torch.zeros_like(whole.position))
