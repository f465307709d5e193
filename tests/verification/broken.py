"""Models and samplers that are broken a little, on purpose: what a verification must find."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

import drawahead as da
from drawahead import TokenOracle
from drawahead.chains.base import Answer, Paths
from drawahead.laws import Gaussian
from drawahead.oracles.tokens import WrappedOracle
from drawahead.randomness import Purpose
from drawahead.rounds.threads import Thread
from drawahead.samplers import Coupled, Sampler, Sequential
from drawahead.targets import Ising

GRID = Ising(2, 3, coupling=0.6, field=0.2)


def failed(verdict: da.Verdict) -> set[str]:
    """The checks that failed."""
    return {finding.check for finding in verdict.findings if not finding.passed}


class Peeking(WrappedOracle):
    """Answers a path in one pass, with some of the very token it is to judge."""

    def __init__(self, oracle: TokenOracle, share: float) -> None:
        super().__init__(oracle)
        self.one_pass, self.share = True, share

    def rows(self, tokens: Tensor) -> Tensor:
        return self.oracle.rows(tokens)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        rows = self.oracle.chain_rows(tokens, rank, row, prefix, position)
        guess = one_hot(tokens[row, position], self.vocab_size).to(rows)
        return ((1 - self.share) * rows.exp() + self.share * guess).log()


class Leaking(WrappedOracle):
    """Answers with some of the mean over the batch."""

    def __init__(self, oracle: TokenOracle, share: float) -> None:
        super().__init__(oracle)
        self.share = share

    def rows(self, tokens: Tensor) -> Tensor:
        rows = self.oracle.rows(tokens).exp()
        return ((1 - self.share) * rows + self.share * rows.mean(0)).log()


@dataclass(frozen=True)
class Louder(Sequential):  # type: ignore[misc]
    """Draws some steps with noise that is too large by a factor."""

    factor: float = 1.5
    steps: tuple[int, ...] = ()

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law, step = answer.target, paths.steps(1)
            assert isinstance(law, Gaussian)
            factor = torch.where(torch.isin(step, torch.tensor(self.steps)), self.factor, 1.0)
            noise = law.noise(paths.stream, Purpose.VALUE, step)
            paths.commit(law.mean + factor[..., None] * law.scale[..., None] * noise, one)


@dataclass(frozen=True)
class Drifting(Sequential):  # type: ignore[misc]
    """Adds a little to the values of some steps, random or not."""

    by: float = 1e-3
    steps: tuple[int, ...] = ()

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            one = torch.ones(len(paths), dtype=torch.int64)
            answer: Answer = yield paths.ask(None, one, torch.zeros(len(paths), 1, dtype=torch.int64))
            law, step = answer.target, paths.steps(1)
            drift = torch.where(torch.isin(step, torch.tensor(self.steps)), self.by, 0.0)
            paths.commit(law.draw(law.noise(paths.stream, Purpose.VALUE, step)) + drift[..., None], one)


@dataclass(frozen=True)
class Stale(Sampler):
    """Draws tokens two at a time, the second without regard to the first: in every so many samples."""

    guarantee = da.Picard.guarantee
    every: int = 2

    def run(self, paths: Paths) -> Thread:
        while len(paths):
            hasty = (paths.sample % self.every == 0).long()
            count = torch.minimum(1 + hasty, paths.room_at(paths.position) + 1)
            one = torch.ones_like(count)
            answer: Answer = yield paths.ask(None, one, (count - 1)[:, None])
            law = answer.target.join(answer.after(torch.zeros_like(count), int(count.max()) - 1))
            paths.commit(law.draw(law.noise(paths.stream, Purpose.VALUE, paths.steps(law.shape[1]))), count)


def ragged(oracle: TokenOracle, num_samples: int, *, seed: int = 0) -> Tensor:
    """Evidence that leaves between one and all positions hidden, and none in the first sample."""
    tokens = da.sample(oracle, num_samples, sampler=Coupled(), seed=seed).samples
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randint(1, oracle.length + 1, (num_samples, 1), generator=generator)
    hidden[0] = 0
    rank = torch.rand(num_samples, oracle.length, generator=generator).argsort(1).argsort(1)
    return torch.where(rank < hidden, da.HIDDEN, tokens)
