"""Any-order token chains: step k draws the token at position sigma(k), given the tokens before it in the order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import NARROW, Ahead, Chain, Ends, Paths, Tally
from drawahead.chains.token_queries import TokenQuery, order_keys
from drawahead.errors import InputError
from drawahead.laws import Categorical
from drawahead.oracles.condition import (
    Condition,
    Conditions,
    Order,
    check_rows,
    checked,
    checked_evidence,
    checked_numbers,
    checked_order,
    of_samples,
    on_device,
    rows_of,
)
from drawahead.oracles.memory import KEPT, Memory
from drawahead.oracles.tokens import HIDDEN, FunctionOracle, TokenOracle, with_condition
from drawahead.randomness import Stream
from drawahead.validate import law_precision, whole


class TokenChain(Chain):
    """Draws sequences of [q]^n from an any-order oracle.

    `oracle` is a `TokenOracle`, or a callable `tokens (m, n) -> log-probability rows (m, n, q)`, which needs `length`
    and `vocab_size`. `order` is None (a uniformly random order for each sample, which is what makes speculation work),
    or "spread" (see below), or a permutation (n,), or one for each sample (num_samples, n). `evidence` is a sequence
    (n,), or one for each sample, with a token at each fixed position and `HIDDEN` elsewhere: only hidden positions are
    drawn.

    In the order "spread" the positions drawn so far are always spread evenly over the sequence: it follows multiples of
    the golden ratio from a random start. Where neighbours depend on each other most, as in text, it takes fewer rounds
    than a uniformly random order, the only one with a theorem.

    `condition` holds further inputs of the model, such as labels: a tensor, or a dictionary of tensors, with a row for
    each sample or one for all. A callable is called as `oracle(tokens, **rows)`, with the rows that belong to its
    sequences; a `TokenOracle` needs a method `conditioned`.

    `numbers` (num_samples,) replace the samples' own numbers as addresses of their noise, so that a sample does not
    depend on the other samples of the chain.

    `law_dtype` is the dtype of distributions and noise: float64, or float32 on devices without float64 (or if you set
    it, see docs/exact.md).
    """

    reads_rows = True
    ends: Ends | None = None
    """Where its samples end, if that is random."""

    def __init__(
        self,
        oracle: TokenOracle | Callable[[Tensor], Tensor],
        *,
        length: int | None = None,
        vocab_size: int | None = None,
        order: Order = None,
        evidence: Any = None,
        condition: Condition = None,
        numbers: Tensor | None = None,
        law_dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(oracle, TokenOracle):
            if length is None or vocab_size is None:
                raise InputError("a plain callable needs length= and vocab_size= to be used as an oracle")
            oracle = FunctionOracle(oracle, length, vocab_size)
        sizes = [(length, oracle.length), (vocab_size, oracle.vocab_size)]
        if any(own is not None and whole("length and vocab_size", own) != its for own, its in sizes):
            raise InputError(
                f"length and vocab_size are those of the oracle, {oracle.length} and {oracle.vocab_size}: "
                "give them only with a plain callable"
            )
        if oracle.length < 1:
            raise InputError("the oracle's length must be at least 1: an empty sequence has nothing to draw")
        self.oracle = oracle
        self.law_dtype = law_precision(law_dtype, oracle.device)
        self.order = checked_order(order, oracle.length)
        self.evidence = None if evidence is None else checked_evidence(evidence, oracle)
        self.numbers = None if numbers is None else checked_numbers(numbers)
        self.condition = checked(condition, oracle.device)
        if self.condition:
            oracle.conditioned(**of_samples(self.condition, torch.zeros(1, dtype=torch.int64)))  # or it takes none
        self.built = True

    def _drawn(self) -> str:
        return repr(self.oracle)

    def compiled(self) -> TokenChain:
        from drawahead.oracles.compiled import CompiledOracle

        return self.replace(oracle=CompiledOracle(self.oracle))

    @property
    def note(self) -> str:
        return "; ".join(filter(None, (self.oracle.note, "" if self.law_dtype == torch.float64 else NARROW)))

    @property
    def steps(self) -> int:
        n = self.oracle.length
        return n if self.evidence is None else int((self.evidence == HIDDEN).sum(-1).max())

    @property
    def model(self) -> TokenOracle:
        return self.oracle

    @property
    def device(self) -> torch.device:
        return self.oracle.device

    @property
    def one_pass(self) -> bool:
        return self.oracle.one_pass and not self.oracle.formula

    @property
    def answers_paths(self) -> bool:
        return self.oracle.one_pass

    def without_model(self) -> TokenChain:
        from drawahead.oracles.remote import RemoteOracle

        return self.replace(oracle=RemoteOracle(self.oracle), condition=on_device(self.condition, "cpu"))

    @property
    def row_bytes(self) -> int:
        return 8 * self.oracle.vocab_size

    def start(self, seed: int, samples: Tensor, tally: Tally) -> TokenPaths:
        condition = of_samples(self.condition, samples) if self.condition else {}
        return self.begun(self.stream(seed, samples, self.device), samples, condition, tally)

    def stream(self, seed: int, samples: Tensor, device: torch.device) -> Stream:
        numbers = samples if self.numbers is None else self.numbers[samples]
        return Stream.of_samples(seed, numbers, self.law_dtype, device)

    @property
    def alike(self) -> Hashable:
        own = self.evidence is not None or isinstance(self.order, Tensor)
        return None if own or type(self).start is not TokenChain.start else (self.order,)

    def begun(self, stream: Stream, samples: Tensor, condition: Conditions, tally: Tally) -> TokenPaths:
        n, rows = self.oracle.length, len(samples)
        home = self.device if self.device.type in ("cpu", "cuda") else torch.device("cpu")
        rates = with_condition(self.oracle, condition).order_rates if self.order is None else None
        key = order_keys(self.order, Stream(stream.keys.to(home)), samples, n, rates)
        tokens = torch.zeros(rows, n, dtype=torch.int64, device=home)
        length = torch.full((rows,), n)
        if self.evidence is not None:
            evidence = rows_of(self.evidence.view(-1, n), samples)
            length, evidence = (evidence == HIDDEN).sum(-1), evidence.to(home)
            tokens, key = evidence.clamp(min=0), key.masked_fill(evidence != HIDDEN, torch.inf)
        order = key.argsort(dim=-1, stable=True)
        rank = torch.empty_like(order).scatter_(1, order, torch.arange(n, device=home).expand(rows, n))
        if self.evidence is not None:
            rank = torch.where(rank < length.to(home)[:, None], rank, -1)
        tokens, order, rank = (table.to(self.device) for table in (tokens, order, rank))
        drawn = samples, torch.zeros(rows, dtype=torch.int64), length, stream, tally
        return TokenPaths(self.oracle, *drawn, tokens, order, rank, condition, ends=self.ends)

    def captured_parts(self) -> dict[str, Any]:
        return {"oracle": self.oracle, "law_dtype": self.law_dtype}  # orders and evidence are the samples' own

    def deciding(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("order", "evidence", "numbers", "law_dtype")}

    def oracle_of(self, samples: Tensor) -> TokenOracle:
        """The oracle for one sequence of each of these samples (m,)."""
        return self.oracle.conditioned(**of_samples(self.condition, samples)) if self.condition else self.oracle

    def check(self, num_samples: int) -> None:
        if self.condition:
            check_rows(self.condition, num_samples)
        for name in ("order", "evidence", "numbers"):
            table = getattr(self, name)
            if isinstance(table, Tensor) and (table.dim() == 2 or name == "numbers") and len(table) < num_samples:
                few = f"{name} has {len(table)} rows, but num_samples is {num_samples}"
                raise InputError(f"{few}: give one for each sample, the same again to draw several of it")

    def empty(self, num_samples: int) -> Tensor:
        return torch.zeros(num_samples, self.oracle.length, dtype=torch.int64)


@final
@dataclass(eq=False)
class TokenPaths(Paths):
    """Token samples under way."""

    tables: ClassVar[tuple[str, ...]] = ("tokens", "order", "rank")
    oracle: TokenOracle
    sample: Tensor
    position: Tensor
    length: Tensor
    stream: Stream
    tally: Tally
    tokens: Tensor  # (rows, n); what is neither evidence nor committed holds a stale guess or 0
    order: Tensor
    rank: Tensor
    condition: Conditions = field(default_factory=dict)  # the rows of the condition
    memory: Memory | None = None  # what the oracle keeps of them
    ends: Ends | None = None

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    @property
    def one_pass(self) -> bool:
        return self.oracle.one_pass and not self.oracle.formula

    def remember(self, width: int | None) -> None:
        most, of_these = self.oracle.recall_width, (self.oracle, self.condition, self.tokens, self.rank)
        if self.memory is not None:
            self.memory.begin(*of_these)
        elif self.one_pass and len(self) and (most is None or width is None or width <= most):
            self.memory = Memory.of(*of_these, always=width is None)

    @property
    def remembers(self) -> bool:
        return self.memory is not None

    def no_draft(self) -> Categorical:
        shape = len(self), 0, self.oracle.vocab_size
        return Categorical(torch.zeros(shape, dtype=self.stream.dtype, device=self.device))

    def ask(self, guess: Tensor | None, count: Tensor, reach: Tensor | Ahead, first: int = 0) -> TokenQuery:
        prefix = self.position + first
        if isinstance(reach, Tensor):  # no further than a path goes
            columns = reach.shape[1]
            left = (self.length - prefix)[:, None] - 1 - torch.arange(columns)
            reach = torch.minimum(reach, left)
        else:
            columns = 1 if guess is None else guess.shape[1] + 1
        tokens = self.tokens if guess is None else self._filled(guess)
        path, cells = (tokens, self.order, self.rank, self.length), (prefix, count, columns, reach)
        memory = () if self.memory is None else (self.memory,)
        return TokenQuery(self.oracle, self.sample, *path, *cells, self.condition, memory, self.stream.dtype)

    def tensors(self) -> dict[str, Tensor]:
        kept = self.memory.kept if self.memory else {}
        return super().tensors() | {f"{KEPT}{name}": table for name, table in kept.items()}

    def bound(self, tensors: dict[str, Tensor], model: TokenOracle) -> TokenPaths:
        paths = self.made_of(tensors)
        paths.oracle = model
        return paths

    def made_of(self, tensors: dict[str, Tensor]) -> TokenPaths:
        kept = {name.removeprefix(KEPT): table for name, table in tensors.items() if name.startswith(KEPT)}
        paths = super().made_of({name: table for name, table in tensors.items() if not name.startswith(KEPT)})
        paths.memory = Memory(kept, self.position) if kept else None
        return paths

    def _filled(self, values: Tensor, count: Tensor | None = None) -> Tensor:
        """The tokens with each row's first `count` values, or all, written after the committed ones."""
        width, left = values.shape[1], self.length - self.position
        count = left if count is None else torch.minimum(count, left)
        step = self.steps(width).clamp(max=self.order.shape[1] - 1)
        unused = (torch.arange(width, device=count.device) >= count[:, None]).to(self.device)
        # Unused columns may point at a used position: write what is there to a spare column instead.
        spare = self.tokens.shape[1]
        at = self.order.gather(1, step).masked_fill_(unused, spare)
        return torch.cat([self.tokens, self.tokens[:, :1]], dim=1).scatter_(1, at, values)[:, :spare]

    def advance(self, values: Tensor, count: Tensor, guess: Tensor | None = None) -> None:
        self.tokens = self._filled(values, count)
        before, self.position = self.position, self.position + count
        if self.ends is not None:  # which looks at what is committed, never at guesses behind it
            moved = self.tokens, before, self.position, values.shape[1], self.condition
            self.length = self.ends.shortened(self.length, *moved)
            self.position = torch.minimum(self.position, self.length)

    def branch(self, stream: Stream) -> TokenPaths:
        return replace(self, stream=stream, memory=None)

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.memory = None if self.memory is None else self.memory.select(rows)

    def result(self, rows: Tensor | slice) -> Tensor:
        tokens = self.tokens[rows]
        return (tokens if self.ends is None else self.ends.cut(tokens, self.length.to(self.device)[rows])).cpu()
