"""Token samples under way."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.base import Ahead, Paths, Tally
from drawahead.chains.memory import KEPT, Memory
from drawahead.chains.token_queries import TokenQuery
from drawahead.laws import Categorical
from drawahead.oracles.condition import Given
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import Stream


class Ends(abc.ABC):
    """Where samples end that may end early."""

    @abc.abstractmethod
    def __call__(self, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Given) -> Tensor:
        """The length (r,) at which each path of tokens (r, n) ends, if it does so on its way from `before` to `now`
        (r,) steps, at most `most` further; n where it goes on. With the rows of the condition."""


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
    given: Given = field(default_factory=dict)  # the rows of the condition
    memory: Memory | None = None  # what the oracle keeps of them
    ends: Ends | None = None

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    @property
    def one_pass(self) -> bool:
        return self.oracle.one_pass and not self.oracle.rereads

    def remember(self, width: int) -> None:
        most = self.oracle.recall_width
        if self.one_pass and len(self) and (most is None or width <= most):
            self.memory = Memory.of(self.oracle, self.given, self.tokens, self.rank)

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
        path, asked = (tokens, self.order, self.rank, self.length), (prefix, count, columns, reach)
        memory = () if self.memory is None else (self.memory,)
        return TokenQuery(self.oracle, self.sample, *path, *asked, self.given, memory, self.stream.dtype)

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
            steps = before.to(self.device), self.position.to(self.device)
            end = self.ends(self.tokens, *steps, values.shape[1], self.given)
            self.length = torch.minimum(self.length, end.to(self.length.device))
            self.position = torch.minimum(self.position, self.length)
        if self.memory is not None:
            self.memory.forget(self.position - 1)  # the last step is not as it was guessed

    def branch(self, stream: Stream) -> TokenPaths:
        return replace(self, stream=stream, memory=None)

    def select(self, rows: Tensor) -> None:
        super().select(rows)
        self.memory = None if self.memory is None else self.memory.select(rows)

    def result(self, rows: Tensor | slice) -> Tensor:
        tokens = self.tokens[rows]
        if self.ends is not None:
            behind = torch.arange(tokens.shape[1], device=self.device) >= self.length.to(self.device)[rows][:, None]
            tokens = tokens.masked_fill(behind, HIDDEN)
        return tokens.cpu()
