"""The run that drives rounds of fixed shape."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.chains.gaussian import GaussianChain, GaussianPaths
from drawahead.chains.tokens import TokenChain, TokenPaths
from drawahead.fixed import FixedBatch, batch_of
from drawahead.report import Report
from drawahead.runs.base import Call, Run, home_of
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential

_NOISE_BYTES = 2**30  # how much noise a batch of fixed shape may hold
_REMEMBERED = 4  # batches of fixed shape that an oracle remembers, with their graphs


@final
class FixedRun(Run):
    """Batches of fixed shape, one after another."""

    def __init__(self, call: Call, window: int) -> None:
        super().__init__(call)
        self.window = window
        self.sampler = call.sampler if isinstance(call.sampler, Coupled) else Coupled(secant=False)
        self.round_count = 0
        self.widths = []
        self.passes = 0
        self.rereads = 0

    @staticmethod
    def window_of(call: Call) -> int | None:
        """The window this call would have in rounds of fixed shape; None if it cannot have them."""
        chain, sampler = call.chain, call.sampler
        if not isinstance(chain, TokenChain | GaussianChain):
            return None
        return FixedRun._window(chain, sampler)

    @staticmethod
    def _window(chain: TokenChain | GaussianChain, sampler: Sampler) -> int | None:
        if isinstance(sampler, Sequential):
            return 0
        if not isinstance(sampler, Coupled):
            return None
        if sampler.window is None:
            whole = isinstance(chain, TokenChain) and chain.oracle.one_pass and not chain.oracle.rereads
            return chain.steps if whole else None
        return min(sampler.window, chain.steps)

    def rounds(self) -> Generator[Callable[[], Report]]:
        call = self.call
        end = call.first + call.num_samples
        for start in range(call.first, end, self.size):
            numbers = torch.arange(start, min(start + self.size, end))
            self.begin(numbers.tolist())
            yield from self._batch(numbers)

    def _noise_bytes(self) -> int:
        chain = self.call.chain
        if isinstance(chain, GaussianChain):
            return 8 * chain.steps * chain.size
        assert isinstance(chain, TokenChain)
        return 8 * chain.oracle.length * chain.oracle.vocab_size

    def close(self) -> None:
        pass

    def prepare(self) -> None:
        """Capture every round that may come, so that an oracle which cannot be captured is known before anything is
        drawn, and no sample waits for it later."""
        paths = self.fresh(self.call.first + torch.arange(self.size))
        if not len(paths):
            return
        batch = self.loaded(paths)
        need = int(batch.paths.length.max()) - 1
        shapes = {(0, 0), self._shape(need, first=True), self._shape(need, first=False)}
        for window, ahead in shapes | {(size, 0) for size in self._sizes if size < need}:
            if (window, ahead) not in batch.graphs:
                batch.round(window, ahead)
        batch.standing()

    def _batch(self, numbers: Tensor) -> Generator[Callable[[], Report]]:
        paths = self.fresh(numbers)
        for done, lengths, values in paths.finished:  # samples with nothing to draw
            self.finish(done, lengths, values, 0)
        if not len(paths):
            return
        numbers = paths.sample.clone()
        batch = self.loaded(paths)
        batches, key = self._batches, (len(numbers), self.window, self.sampler)
        del batches[key]  # while it is in use: `on_round` may draw from the same model
        try:
            yield from self._drawn(batch, numbers)
        finally:
            batches[key] = batch

    def _drawn(self, batch: FixedBatch, numbers: Tensor) -> Generator[Callable[[], Report]]:
        length = batch.paths.length.tolist()
        position = [0] * len(numbers)
        live = list(range(len(numbers)))
        rounds = 0
        while live:
            need = max(length[i] - position[i] for i in live) - 1
            window, ahead = self._shape(need, first=rounds == 0)
            pays = self._pays(position, rounds)
            if window and not any(pays[i] for i in live):
                # With `least` below 1 a sample may take up speculation again, and then needs drafts of where it stands.
                window, ahead = (0, 0) if self.sampler.least >= 1 else self._shape(need, first=True)
            drafted = sum(min(window, self.room(position[i], length[i])) for i in live if pays[i])
            began = time.perf_counter()
            batch.round(window, ahead)
            # Without drafts every row makes one step: there is nothing to read back before one ends.
            ends = any(length[i] == position[i] + 1 for i in live)
            standing = (
                batch.standing() if window or ends else [p + (p < n) for p, n in zip(position, length, strict=True)]
            )
            self.oracle_seconds += time.perf_counter() - began
            rounds += 1
            self._count(batch, window, sum(standing) - sum(position), drafted, len(live))
            position = standing
            done = [i for i in live if position[i] >= length[i]]
            live = [i for i in live if position[i] < length[i]]
            self._retire(batch, numbers, done, length, rounds)
            for i in live:
                if self.traced(int(numbers[i])):
                    self.progress[int(numbers[i])].append(position[i])
            yield self.report

    def _pays(self, position: list[int], rounds: int) -> list[bool]:
        pays: list[bool] = self.sampler.pays(torch.tensor(position), torch.tensor(rounds)).tolist()
        return pays

    def room(self, position: int, length: int) -> int:
        """How many steps may be drafted from there."""
        chain = self.call.chain
        end = length - 1
        return (min(end, int(chain.next_fixed[position])) if isinstance(chain, GaussianChain) else end) - position

    def _shape(self, need: int, first: bool) -> tuple[int, int]:
        """The window of the next round and how far ahead it drafts, for rows of which the longest has `need` more
        steps than one."""
        if not self.window or not need:
            return 0, 0
        if first:
            return 0, self._rung(min(self.window, need))
        if need > self.window:
            return self.window, self.window
        return self._rung(need), 0

    def _rung(self, need: int) -> int:
        return min(size for size in self._sizes if size >= need)

    @property
    def _sizes(self) -> list[int]:
        """Windows for when less is left than a whole one: to save padding."""
        return [size for size in (self.window, self.window // 2, self.window // 4, self.window // 8) if size]

    @property
    def size(self) -> int:
        """How many samples are drawn together."""
        return min(self.call.max_live, self.call.num_samples, max(1, _NOISE_BYTES // self._noise_bytes()))

    def _count(self, batch: FixedBatch, window: int, committed: int, drafted: int, live: int) -> None:
        chain = self.call.chain
        one_pass = isinstance(chain, TokenChain) and chain.oracle.one_pass
        self.round_count += 1
        self.widths.append(self.asked(batch.rows, window, drafted))
        self.passes += batch.rows if one_pass else self.widths[-1]
        self.committed.append(committed)
        self.drafts.append(drafted)
        self.kept.append(committed - live if window else 0)  # each row goes one step further than it keeps drafts
        self.tally.committed += committed
        self.tally.drafted += drafted
        self.tally.accepted += self.kept[-1]

    def asked(self, rows: int, window: int, drafted: int) -> int:
        """How many questions a round asks. Padding is among them, but where one pass answers a path it repeats one."""
        chain = self.call.chain
        one_pass = isinstance(chain, TokenChain) and chain.oracle.one_pass
        return rows + drafted if one_pass else rows * (window + 1)

    def _retire(self, batch: FixedBatch, numbers: Tensor, rows: list[int], length: list[int], rounds: int) -> None:
        if rows:
            values = batch.paths.result(torch.tensor(rows, device=batch.device))
            self.finish(numbers[rows], torch.tensor(length)[rows], values, rounds)

    @property
    def _batches(self) -> dict[Any, FixedBatch]:
        """The batches that the model remembers."""
        batches: dict[Any, FixedBatch] = home_of(self.call.chain).__dict__.setdefault("_fixed_batches", {})
        return batches

    def fresh(self, numbers: Tensor) -> TokenPaths | GaussianPaths:
        """The samples with these numbers, before their first step; those that have none are in `finished`."""
        chain = self.call.chain
        assert isinstance(chain, TokenChain | GaussianChain)
        return chain.start(self.call.seed, numbers, Tally())

    def loaded(self, paths: TokenPaths | GaussianPaths) -> FixedBatch:
        """A batch with these samples: one that was used before, with its graphs, if there is one."""
        batches, key = self._batches, (len(paths), self.window, self.sampler)
        batch = batches.pop(key, None)
        if batch is None:
            batch = batch_of(paths, self.window, self.sampler)
        else:
            batch.load(paths)
        batches[key] = batch
        while len(batches) > _REMEMBERED:
            del batches[next(iter(batches))]
        return batch
