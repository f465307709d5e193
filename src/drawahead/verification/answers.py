"""Checks of the model alone: the same question must get the same answer, and only from what it may know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Tally
from drawahead.chains.tokens import TokenChain
from drawahead.engine.threads import Query
from drawahead.executors.local import Local
from drawahead.oracles import TokenOracle, reveal
from drawahead.sample import sample
from drawahead.samplers.coupled import Coupled
from drawahead.verification.findings import Finding

LOOKED_AT = 12  # rounds in which questions are asked again
ALONE = 8  # questions of a round that are asked one at a time
NUMERICS = 1e-2
"""Answers that differ by more than this are different answers, not rounding."""
EQUAL = 1e-9
"""Answers that differ by less than this draw the same tokens."""


def answers(chain: Chain, seed: int, few: int) -> list[Finding]:
    """Ask a few questions of a real run twice, and one at a time."""
    executor = _AskingAgain(isinstance(chain, TokenChain))
    sample(chain, few, sampler=Coupled(), seed=seed, executor=executor)
    unit = "in total variation" if executor.rows else "relative to its size"
    return [
        _finding(
            "asked twice",
            executor.again,
            chain.steps,
            unit,
            "the model draws at random, or remembers what it was asked before: switch dropout off (model.eval()), and "
            "make the answer a function of the question alone",
        ),
        _finding(
            "asked alone and in a batch",
            executor.alone,
            chain.steps,
            unit,
            "an answer depends on what else is in the batch: look for batch statistics, padding that is not masked, "
            "or indexing that mixes rows",
        ),
    ]


@torch.no_grad()
def doors(chain: TokenChain, seed: int, few: int) -> list[Finding]:
    """An oracle's faster doors against the plain one, and what an answer may not depend on."""
    oracle = chain.oracle
    tokens = sample(chain, few, sampler=Coupled(), seed=seed).samples.to(oracle.device)
    rank = chain.start(seed, torch.arange(few), Tally()).rank
    if len(rank) < few:  # samples with nothing hidden have left
        return []
    generator = torch.Generator().manual_seed(0)
    row, prefix, position = (index.to(oracle.device) for index in _cells(rank.cpu(), generator))
    asked = oracle.chain_rows(tokens, rank, row, prefix, position)
    # Tokens that are not drawn yet are replaced by others: the answers must not move.
    other = torch.randint(oracle.vocab_size, tokens.shape, generator=generator).to(tokens)
    worst = 0.0
    for cell in range(len(row)):
        r, p = row[cell : cell + 1], prefix[cell : cell + 1]
        changed = torch.where((rank[r] >= 0) & (rank[r] >= p), other[r], tokens[r])
        got = oracle.chain_rows(changed, rank[r], torch.zeros_like(r), p, position[cell : cell + 1])
        worst = max(worst, distance(got, asked[cell : cell + 1]))
    findings = [
        _finding(
            "knows only what is drawn",
            worst,
            chain.steps,
            "in total variation",
            "an answer about a path depends on tokens that are not drawn yet: the model sees the guess it is to judge",
        )
    ]
    if not oracle.one_pass:
        findings.append(_same_doors(oracle, tokens, rank, row, prefix, position, asked, chain.steps))
    return findings


def _same_doors(
    oracle: TokenOracle,
    tokens: Tensor,
    rank: Tensor,
    row: Tensor,
    prefix: Tensor,
    position: Tensor,
    asked: Tensor,
    steps: int,
) -> Finding:
    masked = reveal(tokens, rank, row, prefix)  # (cells, n)
    cell = torch.arange(len(row), device=masked.device)
    plain = oracle.rows(masked)[cell, position]
    worst = max(distance(plain, asked), distance(plain, oracle.rows_at(masked, cell, position)))
    return _finding(
        "rows, rows_at and chain_rows agree",
        worst,
        steps,
        "in total variation",
        "the oracle's faster doors answer something else than `rows`: correct them, or leave them to the base class",
    )


@final
class _AskingAgain:
    """An executor that asks some of its questions again, and keeps the largest differences."""

    def __init__(self, rows: bool) -> None:
        self.rows = rows
        self.again = 0.0
        self.alone = 0.0
        self._local = Local()
        self._round = 0
        self._measure: Callable[[Tensor, Tensor], float] = distance if rows else relative

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        first = self._local.answer(queries)
        if self._round < LOOKED_AT:
            query = max(queries, key=len)
            at = next(i for i, one in enumerate(queries) if one is query)
            self.again = max(self.again, self._measure(self._local.answer(queries)[at], first[at]))
            few = min(ALONE, len(query))
            single = torch.cat([query.evaluate(i, i + 1) for i in range(few)])
            self.alone = max(self.alone, self._measure(single, first[at][: len(single)]))
        self._round += 1
        return first


def distance(one: Tensor, other: Tensor) -> float:
    """The largest total variation between rows of log-probabilities."""
    gap = (one.double().exp() - other.double().exp()).abs().sum(-1) / 2
    return float(gap.max()) if gap.numel() else 0.0


def relative(one: Tensor, other: Tensor) -> float:
    """The largest root mean square difference between predictions, relative to their size (at least 1)."""
    gap = (one.double() - other.double()).flatten(1).square().mean(1).sqrt()
    size = other.double().flatten(1).square().mean(1).sqrt().clamp(min=1.0)
    return float((gap / size).max()) if gap.numel() else 0.0


def _finding(check: str, difference: float, steps: int, unit: str, advice: str) -> Finding:
    if not difference <= NUMERICS:
        return Finding(check, False, f"answers differ by {difference:.2g} {unit}; {advice}", difference=difference)
    if difference <= EQUAL:
        return Finding(check, True, "the same answers", difference=difference)
    words = f"answers differ by at most {difference:.1g} {unit}: the model's own rounding"
    if unit == "in total variation":
        words += f", which can move the law of a sample by {min(1.0, steps * difference):.1g} at most"
    return Finding(check, True, words, difference=difference)


def _cells(rank: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A few cells (row, prefix, position), sorted as `chain_rows` wants them: at the start, the end and between."""
    row, prefix, position = [], [], []
    for r, count in enumerate((rank >= 0).sum(1).tolist()):
        middle = torch.randint(count, (4,), generator=generator).tolist()
        for p in sorted({0, count - 1, *middle}):
            row.append(r)
            prefix.append(p)
            position.append(int((rank[r] == p).nonzero()[0, 0]))
    return torch.tensor(row), torch.tensor(prefix), torch.tensor(position)
