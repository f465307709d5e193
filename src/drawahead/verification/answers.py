"""Checks of the model alone: the same query must get the same answer, whatever else is in its batch.

And of a token oracle's methods: none may look at tokens that are not drawn yet, and all must give the same answers.
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
from drawahead.verification.rounding import AskingAgain, Gap, Rounding, distance


def drawn_ones(chain: Chain, num_samples: int, few: int) -> tuple[Chain, int]:
    """A chain whose first `few` samples, or as many as there are, have something to draw; and how many they are.

    Evidence may leave nothing hidden in some samples: these lead to no query.
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
    """Draw so many samples, and repeat some of the queries: as they were, alone, and among copies of themselves."""
    executor = AskingAgain(max_batch_size)
    runner.using(chain=chain, sampler=Coupled(), executor=executor).sample(number, seed=seed)
    shown = executor.shown
    works_in = f"It was seen to work in {shown.works_in}"
    advice = "the model draws at random, or remembers earlier queries: switch dropout off (model.eval()), and make the "
    advice += f"answer a function of the query alone. {works_in}"
    twice = _finding(chain, "asked twice", shown.again, shown.allowed_again, advice)
    if not twice.passed:  # then nothing can be said about what else answers depend on
        return [twice], shown
    check = "asked alone and in a batch"
    if not shown.leak.size <= shown.allowed:
        advice = "an answer depends on what else is in the batch: look for batch statistics, padding that is not "
        advice += "masked, or indexing that mixes rows"
        return [twice, _finding(chain, check, shown.leak, shown.allowed, advice)], shown
    advice = "even among copies of itself the answer to a query depends on its place in the batch, or on the batch's "
    advice += f"size. {works_in}"
    alone = _finding(chain, check, shown.mixed | shown.shape, shown.allowed_again, advice)
    return [twice, replace(alone, allowed=shown.allowed)], shown  # what a leak would have been found from


def _finding(chain: Chain, check: str, apart: Gap, allowed: float, advice: str) -> Finding:
    """Whether answers may be this far apart."""
    unit = "in total variation" if isinstance(chain, TokenChain) else "relative to the step"
    if not apart.size <= allowed:
        words = f"answers differ by {apart.size:.2g} {unit}, and rounding explains {allowed:.1g}; {advice}"
    elif apart.size <= SAME:
        words = "the same answers"
    else:
        words = f"answers differ by at most {apart.size:.1g} {unit}: the model's own rounding, which can move "
        words += f"the distribution of a sample by {min(1.0, chain.steps * apart.law):.1g} at most"
    return Finding(check, apart.size <= allowed, words, difference=apart.size, allowed=allowed)


CELLS = 6  # prefixes of each path in a query


@torch.no_grad()
def doors_agree(
    runner: Runner, chain: TokenChain, seed: int, number: int, shown: Rounding, max_batch_size: int | None
) -> list[Finding]:
    """Queries about so many finished paths, all of which have something to draw."""
    oracle = chain.oracle
    drawer = runner.using(chain=chain, sampler=Coupled(), max_batch_size=max_batch_size)
    tokens = drawer.sample(number, seed=seed).samples
    rank = chain.start(seed, torch.arange(number), Tally()).rank
    generator = torch.Generator().manual_seed(0)
    cells = CELLS if oracle.one_pass else min(CELLS, max_batch_size or CELLS)
    # One path at a time: whether an answer depends on other paths is for another check.
    paths = [_Path(chain, i, tokens[i].to(oracle.device), rank[i], cells, generator) for i in range(number)]

    def finding(check: str, apart: float, allowed: float, advice: str) -> Finding:
        return _finding(chain, check, Gap(apart, apart), allowed, advice)

    advice = "an answer about a path depends on tokens that are not drawn yet: the model sees the guess it is to judge"
    peek = max(path.peek() for path in paths)
    findings = [finding("knows only what is drawn", peek, shown.allowed_in_place, advice)]
    if not oracle.one_pass:  # a model that answers in one pass means `chain_rows` alone
        advice = "the oracle's faster methods give other answers than `rows`: correct them, or leave them to the base "
        advice += "class"
        apart = max(path.apart() for path in paths)
        findings.append(finding("rows, rows_at and chain_rows agree", apart, shown.allowed, advice))
    return findings


class _Path:
    """A finished path (n,), and a few of its prefixes, each with the position that is drawn next."""

    def __init__(
        self, chain: TokenChain, number: int, tokens: Tensor, rank: Tensor, cells: int, generator: torch.Generator
    ) -> None:
        self.chain, self.number, self.tokens, self.rank = chain, number, tokens, rank
        oracle = self.oracle = self._conditioned(1)
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
            # The other cells of the path are answered in the same pass, and must not matter either.
            cells = torch.ones_like(still) if self.oracle.one_pass else still
            before = self._ask(self.tokens, cells)
            after = self._ask(torch.where(self.rank >= drawn, self.other, self.tokens), cells)
            worst = max(worst, distance(after[still[cells]], before[still[cells]]))
        return worst

    def apart(self) -> float:
        """How far the answers of the methods are apart."""
        row = torch.zeros_like(self.prefix)
        masked = reveal(self.tokens[None], self.rank[None], row, self.prefix)  # (cells, n)
        cell = torch.arange(len(row), device=masked.device)
        alike = self._conditioned(len(cell))
        plain = alike.rows(masked)[cell, self.position]
        by_path = self._ask(self.tokens, torch.ones_like(row, dtype=torch.bool))
        return max(distance(plain, by_path), distance(plain, alike.rows_at(masked, cell, self.position)))

    def _conditioned(self, sequences: int) -> TokenOracle:
        """The oracle for so many sequences of this path's sample."""
        return self.chain.oracle_of(torch.full((sequences,), self.number))
