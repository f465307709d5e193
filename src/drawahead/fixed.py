"""Rounds of fixed shape: a batch of samples that a GPU can take through a round without asking the CPU anything.

The round engine packs ragged windows, which needs the CPU to know where every sample stands. Here positions live on
the device, every row has the same window, and what a row does not need is padding. So a round is one function of
shapes alone: on a GPU it is captured once as a CUDA graph, network and all, and then replayed; the CPU reads back
where the samples stand, once a round. The algorithm is that of `Coupled`, by the same laws, the same noise and the same
`judge`; with a window of 0 it is `Sequential`, and then nothing is read back before the end.
"""

from __future__ import annotations

import abc
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast, final

import torch
from torch import Tensor

from drawahead.chains.base import Paths
from drawahead.chains.gaussian import GaussianPaths
from drawahead.chains.gaussian_queries import predictions
from drawahead.chains.token_queries import tolerance
from drawahead.chains.tokens import TokenPaths
from drawahead.errors import AnswerError
from drawahead.laws import Categorical, Gaussian, Law
from drawahead.oracles import TokenOracle, reveal
from drawahead.randomness import Purpose
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.window import Window

_NOISE_AT_ONCE = 1 << 24  # numbers; bounds the temporaries


class FixedBatch(abc.ABC):
    """Samples under way, all with the same window, at fixed places in memory."""

    def __init__(self, paths: Paths, window: int, sampler: Coupled) -> None:
        """`paths` are fresh ones; `window` is the widest that will be asked for."""
        self.paths = paths
        self.sampler = sampler
        self.device = paths.device
        self.window = window
        self.rows = len(paths)
        paths.length = paths.length.to(self.device)
        # Positions live beside the sign of a bad answer, so that both are read back in one piece.
        self.status = torch.cat([paths.position, torch.zeros(1, dtype=torch.int64)]).to(self.device)
        paths.position, self.bad = self.status[:-1], self.status[-1:]
        self.taken = torch.zeros(self.rows, dtype=torch.int64, device=self.device)  # rounds
        self.index = torch.arange(self.rows, device=self.device)[:, None]
        self.columns = torch.arange(window + 1, device=self.device)  # kept: a kernel less wherever it is needed
        self.graphs: dict[tuple[int, int], Any] = {}
        self.refill: Any = None  # the graph that makes noise
        self.pool: Any = None

    def load(self, paths: Paths) -> None:
        """Begin with these fresh paths instead: same chain, same number of rows."""
        for name, mine in self._buffers().items():
            theirs = getattr(paths, name)
            mine.copy_(theirs.keys if name in ("stream", "copies") else theirs)
        self.bad.zero_()
        self.taken.zero_()
        if self.device.type != "cuda":
            self._fill_noise()
            return
        if self.refill is None:
            self.refill = self._captured(self._fill_noise)
        self.refill.replay()

    def round(self, window: int, ahead: int) -> None:
        """One round with this window, which leaves drafts for as many steps, or for `ahead` if the window does not
        reach the end."""
        if self.device.type != "cuda":
            self._round(window, ahead)
            return
        if (window, ahead) not in self.graphs:
            self._capture(window, ahead)
        self.graphs[window, ahead].replay()

    def standing(self) -> list[int]:
        """How many steps each row has made: the one thing that is read back."""
        standing: list[int] = self.status.tolist()
        if standing.pop():
            raise AnswerError(
                f"an answer of the model at or before step {max(standing)} is not finite or not normalised; draw with "
                "graphs=False to learn which"
            )
        return standing

    def _capture(self, window: int, ahead: int) -> None:
        before = {name: buffer.clone() for name, buffer in self._state().items()}
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._round(window, ahead)
        torch.cuda.current_stream(self.device).wait_stream(side)
        self.graphs[window, ahead] = self._captured(lambda: self._round(window, ahead))
        for name, buffer in self._state().items():  # capturing ran nothing, but warming up did
            buffer.copy_(before[name])

    def _captured(self, work: Callable[[], None]) -> Any:
        graph = torch.cuda.CUDAGraph()
        # Graphs leave nothing behind that another might overwrite.
        with _no_garbage_collection(), torch.cuda.graph(graph, pool=self.pool):
            work()
        self.pool = self.pool or graph.pool()
        return graph

    def _round(self, window: int, ahead: int) -> None:
        paths = self.paths
        width = torch.where(self.sampler.pays(paths.position, self.taken), self.room().clamp(min=0, max=window), 0)
        beyond = paths.position[:, None] + self.columns[: window + 1]
        steps = beyond.clamp(max=self._steps - 1)
        noise = self.noise[self.index, steps]
        draft = self.draft(window)
        guess, followed = paths.follow(draft, noise[:, :window])
        target = self.look(guess, draft, beyond, width, ahead)
        uniform = noise[:, :, 0] if self.uniform is None else self.uniform[self.index, steps[:, :window]]
        kept, values = self.sampler.judge(Window(followed, target, guess, noise, uniform, noise[:, :0], width))
        if ahead or window:
            self.redraft(kept[:, None] + self.columns[1 : 1 + (ahead or window)], width)
        self.advance(values, torch.minimum(kept + 1, paths.length - paths.position))  # 0 where a row has ended
        self.taken.add_(1)

    @property
    @abc.abstractmethod
    def _steps(self) -> int:
        """How many steps have noise."""

    noise: Tensor  # (rows, steps, ...)
    uniform: Tensor | None  # (rows, steps)

    @abc.abstractmethod
    def _buffers(self) -> dict[str, Tensor]:
        """What differs from one set of samples to the next, by the name it has in `Paths`."""

    @abc.abstractmethod
    def _state(self) -> dict[str, Tensor]:
        """What a round changes."""

    @abc.abstractmethod
    def _fill_noise(self) -> None: ...

    @abc.abstractmethod
    def room(self) -> Tensor:
        """How many steps may be drafted (rows,)."""

    @abc.abstractmethod
    def draft(self, window: int) -> Law: ...

    @abc.abstractmethod
    def look(self, guess: Tensor, draft: Any, steps: Tensor, width: Tensor, ahead: int) -> Law:
        """Ask the model about `steps` (rows, w + 1), which may lie beyond the last. -> the targets (rows, w + 1)."""

    @abc.abstractmethod
    def redraft(self, column: Tensor, width: Tensor) -> None:
        """Put down the next round's drafts: for each step the newest answer, which is the one at `column` (rows,
        drafts) of this round, or the one at the row's `width` for what lies beyond."""

    @abc.abstractmethod
    def advance(self, values: Tensor, count: Tensor) -> None:
        """Move each row on by its first `count` values, in place."""


@final
class FixedGaussians(FixedBatch):
    def __init__(self, paths: GaussianPaths, window: int, sampler: Coupled) -> None:
        super().__init__(paths, window, sampler)
        chain = self.chain = paths.chain
        empty = torch.zeros(self.rows, window, chain.size, dtype=torch.float64, device=self.device)
        self._mean, self._anchor = empty, empty.clone()
        self._scale = torch.ones(self.rows, window, dtype=torch.float64, device=self.device)
        self._slope = torch.full_like(self._scale, torch.nan)
        self._answered: tuple[Tensor, Tensor, Tensor | None] = empty, empty, None
        self._next_fixed = chain.next_fixed.to(self.device)
        self.noise = torch.zeros(self.rows, chain.steps, chain.size, dtype=torch.float64, device=self.device)
        self.uniform = torch.zeros(self.rows, chain.steps, dtype=torch.float64, device=self.device)
        paths.blocked = True
        paths.x, paths.recorded = paths.x.clone(), paths.recorded.clone()
        paths.known = None if paths.known is None else paths.known.clone()
        self._fill_noise()

    @property
    def own(self) -> GaussianPaths:
        return cast(GaussianPaths, self.paths)

    @property
    def _steps(self) -> int:
        return self.chain.steps

    def _buffers(self) -> dict[str, Tensor]:
        own = self.own
        buffers = {"sample": own.sample, "position": own.position, "length": own.length, "x": own.x}
        buffers |= {"recorded": own.recorded, "stream": own.stream.keys, "copies": own.copies.keys}
        return buffers if own.known is None else buffers | {"known": own.known}

    def _state(self) -> dict[str, Tensor]:
        own = self.own
        drafts = {"mean": self._mean, "scale": self._scale, "slope": self._slope, "anchor": self._anchor}
        drafts |= {"position": own.position, "x": own.x, "recorded": own.recorded}
        return drafts | {"bad": self.bad, "taken": self.taken}

    def _fill_noise(self) -> None:
        self._slope.fill_(torch.nan)
        law, stream = self.own.no_draft(), self.own.stream
        for start, steps in _stretches(self.rows, self._steps, self.chain.size, self.device):
            self.noise[:, start : start + steps.shape[1]] = law.noise(stream, Purpose.VALUE, steps)
        assert self.uniform is not None
        self.uniform.copy_(
            stream.uniform(Purpose.ACCEPT, torch.arange(self._steps, device=self.device).expand(self.rows, -1))
        )

    def room(self) -> Tensor:
        at = self.own.position.clamp(max=self.chain.steps)
        return torch.minimum(self.own.length - 1, self._next_fixed[at]) - at

    def draft(self, window: int) -> Gaussian:
        return Gaussian(self._mean, self._scale, self._slope, self._anchor).first(window)

    def look(self, guess: Tensor, draft: Gaussian, steps: Tensor, width: Tensor, ahead: int) -> Gaussian:
        chain, own = self.chain, self.own
        states = own.states(guess)
        steps = steps.clamp(max=chain.steps - 1)
        flat = predictions(chain, states.flatten(0, 1), steps.flatten()).view(states.shape)
        self.bad.logical_or_(~(flat.abs().amax() < torch.inf))  # so also where it is NaN
        target = chain.law(flat, steps, own.free)
        slope = None
        if self.sampler.secant:
            slope = chain.lean(target, states, steps, draft, width, own.free).slope
        self._answered = flat, states, slope
        return target

    def redraft(self, column: Tensor, width: Tensor) -> None:
        flat, states, slope = self._answered
        beyond = column > width[:, None]
        at = torch.where(beyond, width[:, None], column)
        law = self.chain.law(flat[self.index, at], self.own.position[:, None] + column, self.own.free)
        drafts = column.shape[1]
        self._mean[:, :drafts] = law.mean
        self._scale[:, :drafts] = law.scale
        if slope is not None:
            self._slope[:, :drafts] = slope[self.index, at].masked_fill_(beyond, torch.nan)
            self._anchor[:, :drafts] = states[self.index, at]

    def advance(self, values: Tensor, count: Tensor) -> None:
        """The first `count` states are those of the guess; one more step follows them."""
        own, states = self.own, self._answered[1]
        index, last = self.index[:, 0], (count - 1).clamp(min=0)
        step = (own.position + last).clamp(max=self.chain.steps - 1)
        onward = own.onward(states[index, last], values[index, last], step)
        for column, wanted in enumerate(self.chain.record):
            passed = (own.position < wanted) & (wanted <= own.position + count)
            at = wanted - own.position
            among = states[index, at.clamp(min=0, max=states.shape[1] - 1)]
            there = torch.where((at == count)[:, None], onward, among)
            own.recorded[:, column] = torch.where(passed[:, None], there, own.recorded[:, column])
        own.x.copy_(torch.where(count[:, None] > 0, onward, own.x))
        own.position.add_(count)


@final
class FixedTokens(FixedBatch):
    def __init__(self, paths: TokenPaths, window: int, sampler: Coupled) -> None:
        super().__init__(paths, window, sampler)
        self.oracle: TokenOracle = paths.oracle
        n, q = self.oracle.length, self.oracle.vocab_size
        self._rows_ahead = torch.zeros(self.rows, window, q, dtype=torch.float64, device=self.device)
        self._answered = self._rows_ahead
        self._asked = 0
        # What is written to no place of the sequence goes to a spare one behind it.
        self._padded = torch.cat([paths.tokens, paths.tokens[:, :1]], dim=1)
        paths.tokens = self._padded[:, :n]
        self._places = torch.full((self.rows, n + window + 1), n, device=self.device)  # of each step
        self._written = self._places  # those of this round's steps
        self.noise = torch.zeros(self.rows, n, q, dtype=torch.float64, device=self.device)
        self.uniform = None
        self._fill_noise()

    @property
    def own(self) -> TokenPaths:
        return cast(TokenPaths, self.paths)

    @property
    def _steps(self) -> int:
        return self.oracle.length

    def _buffers(self) -> dict[str, Tensor]:
        own = self.own
        buffers = {"sample": own.sample, "position": own.position, "length": own.length, "tokens": own.tokens}
        return buffers | {"order": own.order, "rank": own.rank, "stream": own.stream.keys}

    def _state(self) -> dict[str, Tensor]:
        own = {"rows": self._rows_ahead, "position": self.own.position, "tokens": self.own.tokens}
        return own | {"bad": self.bad, "taken": self.taken}

    def _fill_noise(self) -> None:
        n = self.oracle.length
        ended = torch.arange(n, device=self.device) >= self.own.length[:, None]
        self._places[:, :n] = self.own.order.masked_fill(ended, n)
        law, stream = self.own.no_draft(), self.own.stream
        for start, steps in _stretches(self.rows, self._steps, self.oracle.vocab_size, self.device):
            self.noise[:, start : start + steps.shape[1]] = law.noise(stream, Purpose.VALUE, steps)

    def room(self) -> Tensor:
        return self.own.length - self.own.position - 1

    def draft(self, window: int) -> Categorical:
        return Categorical(self._rows_ahead[:, :window])

    def look(self, guess: Tensor, draft: Categorical, steps: Tensor, width: Tensor, ahead: int) -> Categorical:
        own, window = self.own, guess.shape[1]
        self._written = self._places.gather(1, steps)
        tokens = self._padded.scatter(1, self._written[:, :window], guess)[:, :-1]
        end = own.length - 1
        last = torch.minimum(own.position + width, end)[:, None]  # a row that has ended asks again about its last step
        prefix = torch.minimum(steps, last)  # padding asks again what the last one asks
        if ahead:
            steps = torch.cat([steps, last + self.columns[1 : ahead + 1]], dim=1)
        position = own.order.gather(1, torch.minimum(steps, end[:, None]))
        if self.oracle.one_pass:
            asked = torch.cat([prefix, last.expand(-1, ahead)], dim=1) if ahead else prefix
            rows = self.oracle.path_rows(tokens, own.rank.clone(), asked, position)  # it may write into them
        else:
            row = self.index[:, 0].repeat_interleave(window + 1)
            masked = reveal(tokens, own.rank, row, prefix.reshape(-1))
            own_context = self.columns[: window + 1].expand(self.rows, -1)
            context = self.index * (window + 1) + torch.cat([own_context, width[:, None].expand(-1, ahead)], dim=1)
            rows = self.oracle.rows_at(masked, context.reshape(-1), position.reshape(-1)).view(*position.shape, -1)
        within = tolerance(rows.dtype)
        rows = rows.to(torch.float64)
        total = rows.exp().sum(-1, keepdim=True).log()  # of log-probabilities, or not within bounds anyway
        self.bad.logical_or_(~(total.abs() <= within).all())
        self._answered = rows - total
        self._asked = window + 1
        return Categorical(self._answered[:, : window + 1])

    def redraft(self, column: Tensor, width: Tensor) -> None:
        beyond = column + (self._asked - 1 - width)[:, None]  # where the answers for later steps are
        at = torch.where(column <= width[:, None], column, beyond).clamp_(max=self._answered.shape[1] - 1)
        self._rows_ahead[:, : column.shape[1]] = self._answered[self.index, at]

    def advance(self, values: Tensor, count: Tensor) -> None:
        unused = self.columns[: values.shape[1]] >= count[:, None]
        self._padded.scatter_(1, self._written.masked_fill_(unused, self.oracle.length), values)
        self.own.position.add_(count)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """An old graph that is freed while another is captured spoils it; a dropped model's may wait to be found."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _stretches(rows: int, steps: int, size: int, device: torch.device) -> Iterator[tuple[int, Tensor]]:
    """All steps, in stretches whose noise is not too much to make at once."""
    many = max(1, _NOISE_AT_ONCE // max(1, rows * size))
    for start in range(0, steps, many):
        yield start, torch.arange(start, min(start + many, steps), device=device).expand(rows, -1)


def batch_of(paths: TokenPaths | GaussianPaths, window: int, sampler: Coupled) -> FixedBatch:
    """Fresh paths as a batch of fixed shape."""
    if isinstance(paths, TokenPaths):
        return FixedTokens(paths, window, sampler)
    return FixedGaussians(paths, window, sampler)
