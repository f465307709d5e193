"""A token oracle's doors: none may look at what is not drawn yet, and all must give the same answers."""

from __future__ import annotations

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenChain
from drawahead.models.oracles import TokenOracle, reveal
from drawahead.sample import sample
from drawahead.samplers.coupled import Coupled
from drawahead.verification.answers import Told
from drawahead.verification.findings import Finding
from drawahead.verification.rounding import Rounding, distance

CELLS = 6  # prefixes of each path that are asked about


@torch.no_grad()
def doors(chain: TokenChain, seed: int, number: int, shown: Rounding, max_batch_size: int | None) -> list[Finding]:
    """Questions about so many finished paths, all of which have something to draw."""
    oracle, told = chain.oracle, Told(chain)
    tokens = sample(chain, number, sampler=Coupled(), seed=seed, max_batch_size=max_batch_size).samples
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
