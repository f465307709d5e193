"""A batch of samples in captured rounds.

The same `guess` and `absorb` as in packed rounds, on tables whose padding stays, around a model that is asked about all
of it. A round is then a function of shapes alone: on a GPU it is captured once for each shape, network and all, as a
CUDA graph, and replayed; the CPU reads back where the samples stand, once per round. Elsewhere the same code runs as it
is. Windows are rounded up to a short ladder of widths, and a row whose sample has ended is given the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from drawahead.chains.base import Ahead, Chain, Paths, Tally
from drawahead.errors import AnswerError
from drawahead.laws import Law
from drawahead.oracles.condition import CONDITION, of_samples
from drawahead.randomness import Stream
from drawahead.rounds.captured.canary import Canary
from drawahead.rounds.captured.recording import Recording, record
from drawahead.rounds.captured.shapes import Positions, Shape
from drawahead.rounds.run import NotCaptured
from drawahead.samplers.window import Drafts, WindowSampler

_STATUS = ("position", "width", "wish", "length", "rounds", "sample")
"""What says where rows stand, in the order in which it lies in memory."""
_SMALL = 2**14  # entries of a table


class Learned(NamedTuple):
    """How all rows begin, of a chain whose samples differ in noise and condition alone."""

    control: Tensor
    """What says where fresh rows stand, and their keys, on the CPU: a row of `_STATUS`, or a key's half, in each."""
    there: Tensor
    """The same on the device."""
    recording: Recording | None
    """Makes fresh paths from there; None where that is done as it is."""


@final
class CapturedBatch:
    """Rows of samples at fixed places in memory, with the graphs of their rounds.

    It holds no model: every method that asks one is given the chain.
    """

    def __init__(self, sampler: WindowSampler, fresh: Paths) -> None:
        """`fresh` paths, one for each row, say what a row is made of."""
        self.sampler = sampler
        self.device = fresh.device
        self.rows = len(fresh)
        self.graphs: dict[Shape, Recording | None] = {}  # None where rounds run as they are
        self.captured_since_kept = False
        self.canary: Canary | None = None
        self.learned: dict[Hashable, Learned | None] = {}
        """By `kind_of` a chain; None where that cannot be recorded."""
        self.seconds: dict[int, float] = {}  # of a round by its window, as it was last seen
        self._missed: dict[Shape, float] = {}  # seconds that rounds wider than need be have cost
        self._capturing = 0.0  # seconds that it took to capture a round
        self._pool: Any = None
        self._law = sampler.begin(fresh).law
        tensors = fresh.tensors()
        # Control beside the sign of a bad answer, so that all of it is read back in one piece.
        self._status = torch.zeros(len(_STATUS) + 1, self.rows, dtype=torch.int64, device=self.device)
        self._state = {name: tensor.to(self.device, copy=True) for name, tensor in tensors.items()}
        self._state |= dict(zip(_STATUS, self._status, strict=False))
        self._bad = self._status[-1, :1]
        pinned = self.device.type == "cuda"  # two, for two rounds may be under way
        self._read = [torch.zeros_like(self._status, device="cpu", pin_memory=pinned) for _ in range(2)]
        self._drafts: dict[str, Tensor] = {}
        self.paths = fresh.bound(self._state_of_paths(), None)

    @property
    def columns(self) -> int:
        """How many drafts there is room for."""
        return next(iter(self._drafts.values())).shape[1] if self._drafts else 0

    def load(self, fresh: Paths, rows: list[int]) -> None:
        """Begin with these fresh paths in these rows."""
        none = torch.zeros_like(fresh.position)  # as `sampler.begin` has it
        control = {"sample": fresh.sample, "length": fresh.length, "wish": self.sampler.first_width(fresh)}
        status = torch.stack([control.get(name, none) for name in (*_STATUS, "bad")])  # carried over in one piece
        tables = {name: tensor for name, tensor in fresh.tensors().items() if name not in _STATUS}
        if rows == list(range(self.rows)):
            self._status.copy_(status)
            _overwrite([(self._state[name], tensor) for name, tensor in tables.items()])
            self._fresh = status
            return
        at = torch.tensor(rows, device=self.device)
        self._status[:, at] = status.to(self.device)
        for name, tensor in tables.items():
            self._state[name][at] = tensor

    def learn(self, chain: Chain) -> None:
        """Record how the fresh paths were made that were just loaded into all rows, for later calls."""
        kind = kind_of(chain)
        if kind is None or kind in self.learned:
            return
        control = torch.cat([self._fresh, self._state["stream"].T.cpu()])
        control = control.pin_memory() if self.device.type == "cuda" else control
        there = control.to(self.device)
        self.learned[kind] = None
        with suppress(NotCaptured):
            recording = record(lambda model: self._begun(chain, there), None, self.device, self._pool)
            self.learned[kind] = Learned(control, there, recording)

    def begin(self, chain: Chain, seed: int, samples: Tensor) -> Positions:
        """Begin with these samples in all rows, in a way that was learned. -> where they stand."""
        known = self.learned[kind_of(chain)]
        assert known is not None
        control = known.control  # what the last call had here has been carried over long ago
        control[_STATUS.index("sample")] = samples
        control[-2:] = chain.stream(seed, samples, control.device).keys.T
        known.there.copy_(control, non_blocking=True)
        condition = of_samples(chain.condition, samples) if chain.condition else {}
        _overwrite([(self._state[f"{CONDITION}{name}"], rows) for name, rows in condition.items()])
        if known.recording is None:
            self._begun(chain, known.there)
        else:
            known.recording.replay()
        if self.paths.remembers:
            self.paths.bound(self._state_of_paths(), chain.model).remember(None)
        return Positions(*control[:4].tolist())

    def _begun(self, chain: Chain, control: Tensor) -> None:
        """Make fresh paths, for rows that begin with this control and these keys."""
        keys = self._state["stream"]
        self._status.copy_(control[:-2])
        keys.copy_(control[-2:].T)
        condition = self.paths.bound(self._state_of_paths(), chain.model).condition
        samples = torch.arange(self.rows)  # not theirs, but nothing more depends on them
        fresh = chain.begun(Stream(keys, self.paths.stream.dtype), samples, condition, Tally())
        made = {name: table for name, table in fresh.tensors().items() if name not in _STATUS}
        _overwrite([(self._state[name], table) for name, table in made.items() if table is not self._state[name]])

    def has(self, shape: Shape) -> bool:
        """Whether a round of this shape, or one that does for it, is captured."""
        return self._fitting(shape) in self.graphs

    def round(self, chain: Chain, shape: Shape) -> Shape:
        """One round of this shape, or of a captured one that does for it. -> the one that it was."""
        fitting = self._fitting(shape)
        if fitting != shape:
            spent = self.seconds.get(fitting.window, 0.0)
            saved = (spent - self.seconds.get(0, 0.0)) * (1 - shape.window / max(1, fitting.window))
            self._missed[shape] = self._missed.get(shape, 0.0) + max(0.0, saved)
        self.warm(chain, fitting)
        graph = self.graphs[fitting]
        if graph is None:
            self._round(chain.model, fitting)
        else:
            graph.replay()
        return fitting

    def warm(self, chain: Chain, shape: Shape) -> None:
        """Capture a round of this shape, unless that was done before."""
        self._grow(max(shape.window, shape.columns))
        if shape not in self.graphs:
            self.captured_since_kept, began = True, time.perf_counter()
            self.graphs[shape] = self._captured(chain.model, shape)
            self._capturing = time.perf_counter() - began

    def _fitting(self, shape: Shape) -> Shape:
        """To capture a round takes as long as dozens of rounds: a wider one does, until that has cost as much."""
        if shape in self.graphs or self.device.type != "cuda" or self._missed.get(shape, 0.0) > self._capturing:
            return shape
        wider = [one for one in self.graphs if all(has >= needs for has, needs in zip(one, shape, strict=True))]
        return min(wider, default=shape)

    def take_drafts(self, chain: Chain) -> None:
        """Commit all that is drafted as it is: see `WindowSampler.take`."""
        state, paths = self._state, self.paths.bound(self._state_of_paths(), chain.model)
        drafts = Drafts(self._law_of(self.columns), state["width"], state["wish"], state["rounds"])
        none = self.sampler.take(paths, drafts, self.sampler.guess(paths, drafts))
        new = paths.tensors() | {"width": none.width}
        _overwrite([(state[name], tensor) for name, tensor in new.items() if tensor is not state[name]])

    def look(self) -> Callable[[], Positions]:
        """Begin to read back where the rows stand. -> what waits for it, however much the device is asked meanwhile."""
        self._read.reverse()
        status = self._read[0].copy_(self._status, non_blocking=True)
        there = torch.cuda.current_stream(self.device).record_event() if status.is_pinned() else None

        def positions() -> Positions:
            if there is not None:
                there.synchronize()
            position, width, wish, length, *_, bad = status.tolist()
            if bad[0]:
                raise AnswerError(
                    f"an answer of the model at or before step {max(position)} is not finite or not normalised; draw "
                    "with graphs=False to learn which"
                )
            return Positions(position, width, wish, length)

        return positions

    def wait(self) -> None:
        """Until the device has done all rounds."""
        self._status.tolist()

    def results(self, chain: Chain, rows: list[int]) -> Tensor:
        """The finished values of these rows."""
        paths = self.paths.bound(self._state_of_paths(), chain.model)
        return paths.result(slice(None) if rows == list(range(self.rows)) else torch.tensor(rows, device=self.device))

    def _round(self, model: Any, shape: Shape) -> None:
        paths = self.paths.bound(self._state_of_paths(), model)
        state = self._state
        law = self._law_of(shape.window)
        drafts = Drafts(law, state["width"].clamp(max=shape.window), state["wish"], state["rounds"])
        guess = self.sampler.guess(paths, drafts)
        ahead = Ahead(shape.beyond, self.sampler.drafts_from_last)
        count = torch.minimum(drafts.width + 1, paths.length - paths.position)  # 0 where a row has ended
        answer, bad = paths.ask(guess.values, count, ahead).answer_all()
        values, count, following = self.sampler.absorb(paths, drafts, guess, answer, shape.columns, shape.beyond)
        paths.advance(values, count, guess.values if self.sampler.keeps_guesses else None)
        new = paths.tensors() | {"width": following.width, "wish": following.wish, "rounds": following.rounds}
        _overwrite([(state[name], tensor) for name, tensor in new.items() if tensor is not state[name]])
        if shape.columns:
            parts = _parts(following.law).items()
            _overwrite([(self._drafts[name][:, : shape.columns], tensor) for name, tensor in parts])
        self._bad.logical_or_(bad)

    def agrees(self, chain: Chain) -> bool:
        """Whether the model answers as its captured rounds do."""
        return self.canary is None or self.canary.agrees(self._ask, chain.model)

    def _ask(self, model: Any) -> list[Tensor]:
        """The law of every row's next step, or of its last one."""
        paths = self.paths.bound(self._state_of_paths(), model)
        paths.position = torch.minimum(paths.position, paths.length - 1)  # where a row has ended, its last step
        none = torch.zeros_like(paths.position)
        guess = self.sampler.guess(paths, Drafts(self._law, none, none, none))
        answer, _ = paths.ask(guess.values, none + 1, Ahead(0, self.sampler.drafts_from_last)).answer_all()
        return [*_parts(answer.target).values()]

    def _state_of_paths(self) -> dict[str, Tensor]:
        return {name: tensor for name, tensor in self._state.items() if name not in ("width", "wish", "rounds")}

    def _law_of(self, window: int) -> Law:
        """The drafts of the first columns."""
        if not window:
            return self._law
        return type(self._law)(**{name: tensor[:, :window] for name, tensor in self._drafts.items()})

    def _grow(self, columns: int) -> None:
        """Make room for so many drafts; graphs of rounds that used the old place are of no use then."""
        if columns <= self.columns:
            return
        new = _parts(self._law.padded(columns, leaning=bool(getattr(self.sampler, "secant", False))))
        for name, tensor in self._drafts.items():
            new[name][:, : tensor.shape[1]] = tensor
        self._drafts = new
        self.graphs.clear()
        self._pool = None  # it goes with the last graph

    def _captured(self, model: Any, shape: Shape) -> Recording | None:
        kept = {name: tensor.clone() for name, tensor in (self._state | self._drafts).items()}
        bad = self._bad.clone()
        try:
            graph = record(lambda model: self._round(model, shape), model, self.device, self._pool)
            self._pool = self._pool or (graph and graph.pool())
            if graph is not None:
                self.canary = self.canary or Canary(self._ask, model, self.device, self._pool)
        finally:
            for name, tensor in (self._state | self._drafts).items():  # warming up ran rounds
                tensor.copy_(kept[name])
            self._bad.copy_(bad)
        return graph


def kind_of(chain: Chain) -> Hashable:
    """Equal for chains of one model whose beginnings are recorded alike; None where they are not."""
    if (alike := chain.alike) is None:
        return None
    return alike, *((name, table.shape[1:], table.dtype) for name, table in chain.condition.items())


def _parts(law: Law) -> dict[str, Tensor]:
    """A law's tensors by name."""
    return {name: part for name, part in vars(law).items() if part is not None}


def _overwrite(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Copy the second of each pair into the first; on a GPU, small ones of one type by one kernel."""
    for dtype in {old.dtype for old, _ in pairs}:
        alike = [pair for pair in pairs if pair[0].dtype == dtype]
        if small := [pair for pair in alike if pair[0].numel() <= _SMALL]:
            olds, news = zip(*small, strict=True)
            torch._foreach_copy_(olds, news)
        for old, new in alike:
            if old.numel() > _SMALL:  # which one kernel for all of them copies slowly
                old.copy_(new)
