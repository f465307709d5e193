"""Random chains of tokens: tables with zeros, parities, copies, conditionals that fit no joint law; and their judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.special import ndtri

import drawahead as da
from drawahead.oracles.tokens import HIDDEN, FunctionOracle, TokenOracle, reveal
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests import literal
from tests.differential.cases import Asked, Dice, asked, dice, drawn, told
from tests.differential.judge import is_literal, noise_p_value, part, rearranged
from tests.literal import Noise


@dataclass(frozen=True)
class Masked:
    """A model of tokens by its one door, a function of the masked sequence: (m, n) -> rows (m, n, q).

    A condition (m, q) is the logarithm of a weight for every token.
    """

    kind: str
    function: Callable[[Tensor], Tensor]
    writes: bool  # into what it is shown, once it has read it
    blind: bool  # it answers NaN at known positions, which nobody may read

    def __call__(self, tokens: Tensor, condition: Tensor | None = None) -> Tensor:
        rows = self.function(tokens)
        if condition is not None:
            rows = (rows.double() + condition[:, None]).log_softmax(-1)
        if self.blind:
            rows = rows.masked_fill((tokens != HIDDEN)[..., None], torch.nan)
        if self.writes:
            tokens.fill_(0)
        return rows


class Door(TokenOracle):
    """The same model as an oracle that answers whole paths in a pass."""

    one_pass = True

    def __init__(self, model: Masked, length: int, vocab_size: int) -> None:
        self.model, self.length, self.vocab_size = model, length, vocab_size
        self.given: dict[str, Tensor] = {}

    def rows(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, **self.given)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        pairs, context = torch.unique_consecutive(torch.stack([row, prefix]), dim=1, return_inverse=True)
        own = self.conditioned(**{name: table[pairs[0]] for name, table in self.given.items()})
        return own.rows_at(reveal(tokens, rank, pairs[0], pairs[1]), context, position)

    def conditioned(self, **rows: Tensor) -> Door:
        same = Door(self.model, self.length, self.vocab_size)
        same.given = rows
        return same


@dataclass(frozen=True)
class TokenCase:
    name: str
    model: Masked
    length: int
    vocab_size: int
    order: Any  # of the chain: None, "spread", a permutation, or one for each sample
    evidence: list[list[int]] | list[int] | None
    one_pass: bool
    condition: Tensor | None  # (1 or all samples, q)
    asked: Asked

    def chain(self) -> da.TokenChain:
        oracle: TokenOracle
        if self.one_pass:
            oracle = Door(self.model, self.length, self.vocab_size)
        else:
            oracle = FunctionOracle(self.model, self.length, self.vocab_size)
        return da.TokenChain(oracle, order=self.order, evidence=self.evidence, condition=self.condition)

    def rows_of(self, number: int) -> literal.Rows:
        """The model of one sample, for literal.py."""
        given = told(self.condition, [number])
        return lambda context: self.model(torch.tensor([context]), **given)[0].double().tolist()

    def order_of(self, number: int) -> Any:
        return _row_of(self.order, number)

    def evidence_of(self, number: int) -> list[int] | None:
        found: list[int] | None = _row_of(self.evidence, number)
        return found

    def literal(self, number: int) -> list[int]:
        order, evidence = self.order_of(number), self.evidence_of(number)
        rows = self.rows_of(number)
        return literal.tokens(rows, self.length, self.vocab_size, self.asked.seed, number, order, evidence)

    def law(self) -> dict[tuple[int, ...], float]:
        """The law that all samples have, where it is one: enumerated."""
        return literal.tokens_law(self.rows_of(0), self.length, self.vocab_size, self.order, self.evidence_of(0))


def _row_of(table: Any, number: int) -> Any:
    return table[number] if isinstance(table, list) and isinstance(table[0], list) else table


def token_case(seed: int, count: int, *, small: bool = False) -> TokenCase:
    """`small` ones have few outcomes and one law for all samples."""
    d = dice("tokens", seed)
    kind = d.choice(["any", "any", "any", "joint", "parity", "copies"])
    q = d.choice([1, 2, 2, 3, 3, 4, 5, 6, 7])
    n = d.choice([1, 2, 3, 4, 5, 7, 9])
    if small or kind == "joint":
        n = min(n, 4)
        q = min(q, 4 if n < 4 else 3)
    model = Masked(kind, _MODELS[kind](d, n, q), writes=d.chance(0.3), blind=d.chance(0.4))
    rows = count + 3
    orders = [d.sample(range(n), n) for _ in range(rows)]
    known = [_evidence(d, n, q) for _ in range(rows)]
    weights = torch.as_tensor(d.normals(rows, q))
    order = d.choice([None, None, orders[0]] if small else [None, None, "spread", orders[0], orders])
    evidence = d.choice([None, None, known[0]] if small else [None, None, known[0], known])
    condition = d.choice([None, None, weights[:1]] if small else [None, None, None, weights[:1], weights])
    tables = order is orders or evidence is known or condition is weights
    one_pass = d.chance(0.3)
    d.chance(0.2)  # so that the cases are those of before
    wanted = asked(d, count, tables)
    return TokenCase(f"tokens {seed}", model, n, q, order, evidence, one_pass, condition, wanted)


def _evidence(d: Dice, n: int, q: int) -> list[int]:
    share = d.choice([0.0, 0.3, 0.7, 1.0])
    return [d.randrange(q) if d.chance(share) else HIDDEN for _ in range(n)]


def _any_rows(d: Dice, n: int, q: int) -> Callable[[Tensor], Tensor]:
    """Conditionals that fit no joint law: for every context some row, with zeros here and there."""
    contexts = 97
    holes = d.choice([0.0, 0.3, 0.8])
    weights = [[0.0 if d.chance(holes) else d.size(-2, 0) for _ in range(q)] for _ in range(contexts * n)]
    for row in weights:
        row[d.randrange(q)] += 1e-3  # one token is always possible
    table = torch.tensor(weights, dtype=torch.float64).view(contexts, n, q)
    table = (table / table.sum(-1, keepdim=True)).log()
    table = table.to(d.choice([torch.float64, torch.float64, torch.float32]))
    factors = torch.tensor([d.randrange(1, contexts) for _ in range(n)])
    return lambda tokens: table[((tokens + 2) * factors).sum(-1) % contexts]


def _joint_rows(d: Dice, n: int, q: int) -> Callable[[Tensor], Tensor]:
    """The conditionals of a joint law with many zeros."""
    holes = d.choice([0.0, 0.4, 0.8])
    atoms = torch.tensor(list(itertools.product(range(q), repeat=n)))
    weights = [0.0 if d.chance(holes) else d.size(-2, 0) for _ in range(len(atoms))]
    weights[d.randrange(len(atoms))] += 0.1
    mass = torch.tensor(weights, dtype=torch.float64)
    hot = torch.nn.functional.one_hot(atoms, q).double().flatten(1)  # (atoms, n q)

    def rows(tokens: Tensor) -> Tensor:
        fits = ((tokens[:, None] == HIDDEN) | (tokens[:, None] == atoms)).all(-1)
        law = ((fits * mass) @ hot).view(-1, n, q)
        return torch.where(law.sum(-1, keepdim=True) > 0, law / law.sum(-1, keepdim=True), 1 / q).log()

    return rows


def _parity_rows(d: Dice, n: int, q: int) -> Callable[[Tensor], Tensor]:
    """Uniform on the sequences whose sum is divisible by q: nothing is told before the last token, and then all."""

    def rows(tokens: Tensor) -> Tensor:
        hidden = tokens == HIDDEN
        needed = -tokens.masked_fill(hidden, 0).sum(-1) % q
        forced = torch.nn.functional.one_hot(needed, q).double()[:, None].expand(-1, n, -1)
        return torch.where((hidden.sum(-1) == 1)[:, None, None], forced, 1 / q).log()

    return rows


def _copied_rows(d: Dice, n: int, q: int) -> Callable[[Tensor], Tensor]:
    """Every token is mostly the one before it (after it, where that is hidden), of a biased coin where both are."""
    bias = torch.tensor([d.size(-1, 0) for _ in range(q)], dtype=torch.float64)
    bias, sure = bias / bias.sum(), d.choice([0.5, 0.95, 1.0])

    def rows(tokens: Tensor) -> Tensor:
        before, after = tokens.roll(1, -1), tokens.roll(-1, -1)
        like = torch.where(before != HIDDEN, before, after)
        copy = torch.nn.functional.one_hot(like.clamp(min=0), q).double()
        return torch.where((like != HIDDEN)[..., None], sure * copy + (1 - sure) * bias, bias.expand_as(copy)).log()

    return rows


_MODELS = {"any": _any_rows, "joint": _joint_rows, "parity": _parity_rows, "copies": _copied_rows}


def judge_tokens(case: TokenCase, samplers: Iterable[Sampler], d: Dice) -> None:
    """Sequential and Coupled draw what the literal loop draws; every sampler draws the same in any company."""
    chain = case.chain()
    expected = torch.tensor([case.literal(number) for number in case.asked.numbers])
    known = torch.tensor([case.evidence_of(i) or [HIDDEN] * case.length for i in case.asked.numbers])
    for sampler in (da.Sequential(), *samplers):
        samples = drawn(chain, sampler, case.asked)
        assert bool(((samples == known) | (known == HIDDEN)).all()), f"{sampler} changes evidence"
        if is_literal(sampler) or isinstance(sampler, da.Coupled):
            assert torch.equal(samples, expected), f"{sampler} does not draw what the loop draws"
        for options, other in rearranged(chain, sampler, case.asked, d):
            assert torch.equal(other, part(samples, case.asked, options)), f"{sampler} draws others with {options}"


def token_noise(case: TokenCase, samples: Tensor) -> Tensor:
    """One standard normal a step (m, n, 1): where its token falls in the law of that step, spread evenly over its
    share. NaN where nothing was drawn, infinite where what was drawn is impossible."""
    d = Dice(f"spread {case.name}")
    z = torch.full(samples.shape, torch.nan, dtype=torch.float64)
    contexts = torch.full_like(samples, HIDDEN)
    orders = []
    for row, number in enumerate(case.asked.numbers):
        evidence = case.evidence_of(number)
        if evidence is not None:
            contexts[row] = torch.tensor(evidence)
        noise = Noise(case.asked.seed, number)
        orders.append(literal.positions(noise, case.length, case.order_of(number), evidence))
    for step in range(max(map(len, orders))):
        live = [row for row, order in enumerate(orders) if len(order) > step]
        at = torch.tensor([orders[row][step] for row in live])
        given = told(case.condition, [case.asked.numbers[row] for row in live])
        law = case.model(contexts[live].clone(), **given).double().exp()[torch.arange(len(live)), at]
        token = samples[live, at][:, None]
        share, below = law.gather(1, token)[:, 0], (law.cumsum(-1) - law).gather(1, token)[:, 0]
        evenly = torch.tensor([d.random() for _ in live], dtype=torch.float64)
        u = (below + evenly * share).clamp(1e-15, 1 - 1e-15)
        z[live, step] = torch.where(share > 0, ndtri(u), torch.inf)
        contexts[live, at] = token[:, 0]
    return z[..., None]


def token_p_value(case: TokenCase, sampler: Sampler, **options: Any) -> float:
    """That every token is drawn from its law given those before it."""
    return noise_p_value(token_noise(case, drawn(case.chain(), sampler, case.asked, **options)))


def outcomes_p_value(case: TokenCase, sampler: Sampler, **options: Any) -> float:
    """That whole sequences have the law of the chain rule, enumerated."""
    law = case.law()
    counts = dict.fromkeys(law, 0)
    for row in drawn(case.chain(), sampler, case.asked, **options).tolist():
        if tuple(row) not in counts:
            return 0.0
        counts[tuple(row)] += 1
    return chi_square(torch.tensor(list(counts.values())), torch.tensor(list(law.values()), dtype=torch.float64))
