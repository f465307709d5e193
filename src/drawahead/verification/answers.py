"""Checks of the model alone: the same question must get the same answer, whatever else it is asked with.

And of a token oracle's doors: none may look at what is not drawn yet, and all must give the same answers.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from drawahead.chains.base import Chain, Tally
from drawahead.chains.tokens import TokenChain
from drawahead.oracles.tokens import HIDDEN, TokenOracle, reveal
from drawahead.runner import Runner
from drawahead.samplers.coupled import Coupled
from drawahead.verification.findings import SAME, Finding
from drawahead.verification.rounding import AskingAgain, Rounding, distance


def drawn_ones(chain: Chain, num_samples: int, few: int) -> tuple[Chain, int]:
    """A chain of which the first samples have something to draw, as many as asked for or as there are; and how many.

    Evidence may leave nothing hidden in some samples: about these a model is asked nothing.
    """
    few = min(few, num_samples)
    if not isinstance(chain, TokenChain) or chain.evidence is None:
        return chain, few
    if chain.evidence.dim() == 1:
        return chain, few if chain.steps else 0
    drawn = (chain.evidence[:num_samples] == HIDDEN).any(1).nonzero()[:, 0]
    chosen = drawn[torch.linspace(0, len(drawn) - 1, min(few, len(drawn))).round().long()]
    if not len(chosen):
        return chain, 0
    order = chain.order
    if isinstance(order, Tensor) and order.dim() == 2:
        order = order[chosen]
    condition = {name: table if len(table) == 1 else table[chosen] for name, table in chain.condition.items()}
    return chain.replace(order=order, evidence=chain.evidence[chosen], condition=condition), len(chosen)


def answers(
    runner: Runner, chain: Chain, seed: int, number: int, max_batch_size: int | None
) -> tuple[list[Finding], Rounding]:
    """Draw so many samples, and ask some of the questions again: twice, alone, and among copies of themselves."""
    executor = AskingAgain(max_batch_size)
    runner.using(chain=chain, sampler=Coupled(), executor=executor).sample(number, seed=seed)
    shown, told = executor.shown, _Told(chain)
    works_in = f"It was seen to work in {shown.works_in}"
    twice = told.finding(
        "asked twice",
        shown.again.size,
        shown.allowed_again,
        "the model draws at random, or remembers what it was asked before: switch dropout off (model.eval()), and "
        f"make the answer a function of the question alone. {works_in}",
        law=shown.again.law,
    )
    if not twice.passed:  # then nothing can be said about what else answers depend on
        return [twice], shown
    check, apart = "asked alone and in a batch", shown.mixed | shown.shape
    if not shown.leak.size <= shown.allowed:
        advice = "an answer depends on what else is in the batch: look for batch statistics, padding that is not "
        advice += "masked, or indexing that mixes rows"
        return [twice, told.finding(check, shown.leak.size, shown.allowed, advice, law=shown.leak.law)], shown
    advice = f"even among copies of itself a question is answered by its place in the batch, or by its size. {works_in}"
    alone = told.finding(check, apart.size, shown.allowed_again, advice, law=apart.law)
    return [twice, replace(alone, allowed=shown.allowed)], shown  # what a leak would have been found from


class _Told:
    """Differences between answers as findings."""

    def __init__(self, chain: Chain) -> None:
        self.steps = chain.steps
        self.unit = "in total variation" if isinstance(chain, TokenChain) else "relative to the step"

    def finding(self, check: str, difference: float, allowed: float, advice: str, *, law: float) -> Finding:
        """Whether the difference is allowed; `law` is what it can do to the law of a step."""
        if not difference <= allowed:
            words = f"answers differ by {difference:.2g} {self.unit}, and rounding explains {allowed:.1g}; {advice}"
        elif difference <= SAME:
            words = "the same answers"
        else:
            words = f"answers differ by at most {difference:.1g} {self.unit}: the model's own rounding, which can move "
            words += f"the distribution of a sample by {min(1.0, self.steps * law):.1g} at most"
        return Finding(check, difference <= allowed, words, difference=difference, allowed=allowed)


CELLS = 6  # prefixes of each path that are asked about


@torch.no_grad()
def doors_agree(
    runner: Runner, chain: TokenChain, seed: int, number: int, shown: Rounding, max_batch_size: int | None
) -> list[Finding]:
    """Questions about so many finished paths, all of which have something to draw."""
    oracle, told = chain.oracle, _Told(chain)
    drawer = runner.using(chain=chain, sampler=Coupled(), max_batch_size=max_batch_size)
    tokens = drawer.sample(number, seed=seed).samples
    rank = chain.start(seed, torch.arange(number), Tally()).rank
    generator = torch.Generator().manual_seed(0)
    cells = CELLS if oracle.one_pass else min(CELLS, max_batch_size or CELLS)
    # One path at a time: what an answer owes to other paths is another check's affair.
    paths = [_Path(chain, i, tokens[i].to(oracle.device), rank[i], cells, generator) for i in range(number)]
    peek = max(path.peek() for path in paths)
    findings = [
        told.finding(
            "knows only what is drawn",
            peek,
            shown.allowed_in_place,
            "an answer about a path depends on tokens that are not drawn yet: the model sees the guess it is to judge",
            law=peek,
        )
    ]
    if not oracle.one_pass:  # a model that answers in one pass means `chain_rows` alone
        apart = max(path.apart() for path in paths)
        findings.append(
            told.finding(
                "rows, rows_at and chain_rows agree",
                apart,
                shown.allowed,
                "the oracle's faster doors answer something else than `rows`: correct them, or leave them to the base "
                "class",
                law=apart,
            )
        )
    return findings


class _Path:
    """A finished path (n,), and a few of its prefixes, each with the position that is drawn next."""

    def __init__(
        self, chain: TokenChain, number: int, tokens: Tensor, rank: Tensor, cells: int, generator: torch.Generator
    ) -> None:
        self.chain, self.number, self.tokens, self.rank = chain, number, tokens, rank
        oracle = self.oracle = self._told(1)
        count = int((rank >= 0).sum())
        between = torch.randint(count, (max(0, cells - 2),), generator=generator).tolist()
        prefix = sorted({*(0, count - 1)[:cells], *between})
        self.prefix = torch.tensor(prefix, device=oracle.device)
        self.position = (rank == self.prefix[:, None]).long().argmax(1)
        more = torch.randint(1, max(2, oracle.vocab_size), tokens.shape, generator=generator).to(tokens)
        self.other = (tokens + more) % oracle.vocab_size  # another token everywhere

    def _ask(self, tokens: Tensor, cells: Tensor) -> Tensor:
        row = torch.zeros_like(self.prefix[cells])
        return self.oracle.chain_rows(tokens[None], self.rank[None], row, self.prefix[cells], self.position[cells])

    def peek(self) -> float:
        """How far answers move where tokens that are not drawn are replaced by others, in a batch of the same shape."""
        worst = 0.0
        for drawn in self.prefix:
            still = self.prefix <= drawn
            # What else is asked about the path comes in the same pass, and must not matter either.
            cells = torch.ones_like(still) if self.oracle.one_pass else still
            told = self._ask(self.tokens, cells)
            got = self._ask(torch.where(self.rank >= drawn, self.other, self.tokens), cells)
            worst = max(worst, distance(got[still[cells]], told[still[cells]]))
        return worst

    def apart(self) -> float:
        """How far the doors are apart."""
        row = torch.zeros_like(self.prefix)
        masked = reveal(self.tokens[None], self.rank[None], row, self.prefix)  # (cells, n)
        cell = torch.arange(len(row), device=masked.device)
        alike = self._told(len(cell))
        plain = alike.rows(masked)[cell, self.position]
        by_path = self._ask(self.tokens, torch.ones_like(row, dtype=torch.bool))
        return max(distance(plain, by_path), distance(plain, alike.rows_at(masked, cell, self.position)))

    def _told(self, sequences: int) -> TokenOracle:
        """The oracle for so many sequences of this path's sample."""
        return self.chain.oracle_of(torch.full((sequences,), self.number))
