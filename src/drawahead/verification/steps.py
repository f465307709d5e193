"""Every step of a drawn path against the model's own answer for it.

The model is asked once more about each finished path: what was its law of every step, given the steps before? Seen
against that law a step turns into a standard normal (an *innovation*), and the innovations of a path are independent,
if and only if the path has the sequential law. So this needs no reference samples, whatever the model.

Tokens are compared with one other law besides, which they might have been drawn from where things go wrong. Let p be
the law a token should have and q the other. The score h = (q - p) / (q + p) of the token, between -1 and 1, has a known
mean and variance under p. Minus its mean it is a martingale difference, whatever the tokens before; and its mean is
larger by the sum of (q - p)^2 / (q + p) where the token is drawn from q instead.

The innovation of a token is made of a uniform: the law's distribution function at the token, smeared over the token's
own mass by fresh noise; once with tokens in their order, once with likelier ones first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import final

import torch
from torch import Tensor
from torch.special import ndtri

from drawahead.chains.base import Tally, repeated
from drawahead.chains.tokens import TokenChain, TokenPaths
from drawahead.executors.local import Local
from drawahead.oracles.tokens import HIDDEN
from drawahead.randomness import Purpose, Stream
from drawahead.verification.white import EXACT, Off, white

ENOUGH = 1.2816
"""Standard deviations below its mean that nine of ten values lie above."""
CHUNK = 2**24  # probabilities worked on at a time
AT_RANDOM = "tokens drawn at random"
TOO_EARLY = "tokens drawn without regard to the few before"
CERTAIN = 1e-9
"""Of a model whose answers differ by no more than this, no token can be drawn that has probability zero."""


@final
@dataclass(frozen=True)
class TokenScore:
    """Sums over all steps."""

    total: float = 0.0
    """Of scores minus their means."""
    variance: float = 0.0
    gain: float = 0.0
    """What `total` would grow by, were all tokens drawn from the other law."""
    count: int = 0

    @staticmethod
    def of(law: Tensor, other: Tensor, token: Tensor) -> TokenScore:
        """Of tokens (cells,) with these laws (cells, q)."""
        both = law + other
        score = ((other - law) / both.where(both > 0, both.new_ones(()))).where(both > 0, both.new_zeros(()))
        mean = (law * score).sum(1)
        variance = (law * score.square()).sum(1) - mean.square()
        total = score.gather(1, token[:, None])[:, 0] - mean
        gain = (other * score).sum(1) - mean
        return TokenScore(float(total.sum()), float(variance.clamp(min=0).sum()), float(gain.sum()), len(token))

    def __add__(self, other: TokenScore) -> TokenScore:
        return TokenScore(*map(operator.add, astuple(self), astuple(other)))

    @property
    def differs(self) -> bool:
        """Whether the other law is another one at all."""
        return self.gain > 1e-12 * self.count

    def p_value(self, off: float) -> float:
        """Two-sided, by Freedman's inequality. `off` is how far, in total variation, the laws may be off."""
        beyond = abs(self.total) - self._slack(off)
        if beyond <= 0:
            return 1.0
        return min(1.0, 2 * math.exp(-(beyond**2) / (2 * (self.variance + 2 * beyond / 3))))

    def least_found(self, level: float, off: float) -> float | None:
        """The share of tokens that, drawn from the other law, is found nine times in ten; None if there is none."""
        log = math.log(2 / level)
        needed = 2 * log / 3 + math.sqrt((2 * log / 3) ** 2 + 2 * log * self.variance)  # where the p-value is the level
        needed += self._slack(off) + ENOUGH * math.sqrt(self.variance)
        return needed / self.gain if needed < self.gain / 2 else None

    def _slack(self, off: float) -> float:
        return 2 * off * self.count


@final
@dataclass(frozen=True, eq=False)
class DrawnSteps:
    """The steps of one sampler's samples, as innovations and scores."""

    tables: tuple[Tensor, ...]
    """Innovations, each table (m, steps, d) independent within itself; NaN where nothing was drawn."""
    off: Off = EXACT
    """How far the law of a step may be from run to run."""
    impossible: int = 0
    """Steps whose value has probability zero."""
    missed: float | None = None
    """By how much states miss what is not random in them, relative to the step; None if all of it is random."""
    scores: Mapping[str, TokenScore] = field(default_factory=dict)
    """How much more the steps look as if they had gone wrong in some way."""
    untested: tuple[str, ...] = ()
    """Which steps are not in the tables, and why."""

    @property
    def count(self) -> int:
        """How many innovations there are."""
        return int((~self.tables[0].isnan()).sum())

    @property
    def p_value(self) -> float:
        if self.impossible:
            return 0.0
        p_values = [white(table, self.off) for table in self.tables]
        p_values += [score.p_value(self.off.step) for score in self.scores.values()]
        return min(1.0, len(p_values) * min(p_values))

    @property
    def tests(self) -> int:
        """How many p-values are combined."""
        return len(self.tables) + len(self.scores)


@torch.no_grad()
def token_steps(
    chain: TokenChain, samples: Tensor, seed: int, off: Off = EXACT, max_batch_size: int | None = None
) -> DrawnSteps:
    """Of tokens (m, n) drawn with this seed: every step of every sample."""
    executor = Local(max_batch_size)
    rows = max(1, CHUNK // (2 * chain.oracle.vocab_size * chain.oracle.length))
    parts = [_part(chain, samples, numbers, seed, executor) for numbers in torch.arange(len(samples)).split(rows)]
    one, other = (torch.cat([part.tables[i] for part in parts]) for i in range(2))
    scores = {way: sum((part.scores[way] for part in parts), TokenScore()) for way in (AT_RANDOM, TOO_EARLY)}
    impossible = sum(part.impossible for part in parts) if off.step <= CERTAIN else 0
    return DrawnSteps((one, other), off, impossible=impossible, scores=scores)


def _part(chain: TokenChain, samples: Tensor, numbers: Tensor, seed: int, executor: Local) -> DrawnSteps:
    """Of some samples."""
    oracle = chain.oracle
    paths = chain.start(seed, numbers, Tally())  # samples with nothing hidden have left
    drawn_tokens = samples[paths.sample]
    paths.length = torch.minimum(paths.length, (drawn_tokens != HIDDEN).sum(1))  # or they ended early
    row = repeated(paths.length)
    prefix = torch.arange(len(row)) - (paths.length.cumsum(0) - paths.length)[row]
    tokens = drawn_tokens.clamp(min=0).to(oracle.device)
    law, older, early = _laws(paths, tokens, row, prefix, executor)
    row, prefix = row.to(oracle.device), prefix.to(oracle.device)
    drawn = tokens[row, paths.order[row, prefix]]
    step = torch.arange(max(1, chain.steps), device=oracle.device).expand(len(paths), -1)
    # Noise of another seed: that of this one has been spent.
    smear = Stream.of_samples(seed ^ 0x5EED, paths.sample.to(oracle.device)).uniform(Purpose.ACCEPT, step)
    place = (paths.sample - numbers[0]).to(oracle.device)[row], prefix
    blank = torch.full((len(numbers), step.shape[1]), torch.nan, dtype=torch.float64, device=oracle.device)
    if chain.ends_early:  # noise stands for steps behind the end: a length tells of the step before it
        blank = ndtri(smear.clamp(1e-12, 1 - 1e-12))
    normals = _normals(law, drawn, smear[row, prefix])
    scores = {
        AT_RANDOM: TokenScore.of(law, torch.full_like(law, 1 / oracle.vocab_size), drawn),
        TOO_EARLY: TokenScore.of(law[older], early, drawn[older]),
    }
    impossible = int((law.gather(1, drawn[:, None]) == 0).sum())
    tables = tuple(blank.index_put(place, values).cpu()[..., None] for values in normals)
    return DrawnSteps(tables, impossible=impossible, scores=scores)


def _laws(
    paths: TokenPaths, tokens: Tensor, row: Tensor, prefix: Tensor, executor: Local
) -> tuple[Tensor, Tensor, Tensor]:
    """Of every step of finished paths its law; which steps have an older answer; and the law they have by that.

    Every so many steps an answer is read for all steps up to the next one, as a draft would.
    """
    oracle, device = paths.oracle, paths.device
    apart = max(2, round(2 * math.sqrt(int(paths.length.max())))) if len(row) else 2
    since = prefix % apart
    older = since > 0
    reach = torch.where(older, 0, torch.minimum(torch.full_like(prefix, apart), paths.length[row] - prefix) - 1)
    if not len(row):
        none = torch.zeros(0, oracle.vocab_size, dtype=torch.float64, device=device)
        return none, older.to(device), none
    paths.tokens = tokens
    table = torch.zeros(len(paths), int(paths.length.max()), dtype=torch.int64).index_put((row, prefix), reach)
    asked = replace(paths.ask(None, paths.length, table), dtype=torch.float64)
    answers = executor.answer([asked])[0].exp()
    own = (reach + 1).cumsum(0) - (reach + 1)
    early = (own[torch.arange(len(row)) - since] + since)[older]
    return answers[own.to(device)], older.to(device), answers[early.to(device)]


def _normals(law: Tensor, token: Tensor, smear: Tensor) -> tuple[Tensor, Tensor]:
    """The two innovations of tokens (cells,) under probabilities (cells, q)."""
    token, smear = token[:, None], smear[:, None]
    mass = law.gather(1, token)
    before = law.cumsum(1).gather(1, token) - mass
    likelier = torch.where(law > mass, law, 0.0).sum(1, keepdim=True)
    first = torch.arange(law.shape[1], device=law.device) < token
    tied = torch.where((law == mass) & first, mass, 0.0).sum(1, keepdim=True)
    uniforms = (before + smear * mass, likelier + tied + smear * mass)
    one, other = (ndtri(u.clamp(1e-12, 1 - 1e-12))[:, 0] for u in uniforms)
    return one, other
