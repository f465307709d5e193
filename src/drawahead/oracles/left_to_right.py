"""A left-to-right model as a token oracle, with first guesses where it says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.causal import CausalOracle, FirstGuess
from drawahead.oracles.tokens import HIDDEN, TokenOracle

if TYPE_CHECKING:
    from drawahead.show import View

_ANSWERS = "answers"
_BEGINNING = "beginning"
_TOKENS = "tokens"


@final
class LeftToRight(TokenOracle):
    """A causal model as a token oracle: a path is drawn from left to right behind its prompt, and steps that no answer
    is about have a first guess."""

    one_pass = True

    def __init__(self, model: CausalOracle, length: int, guess: FirstGuess, shortest: int) -> None:
        self.model, self.length, self.guess = model, length, guess
        self.shortest = shortest  # of the prompts
        self.vocab_size, self.device = model.vocab_size, model.device
        self.condition: dict[str, Tensor] = {}
        self.prompt: Tensor | None = None

    def view(self) -> View | None:
        return self.model.view()

    def captured_parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "length", "guess", "shortest")}

    def conditioned(self, **rows: Tensor) -> LeftToRight:
        same = LeftToRight(self.model, self.length, self.guess, self.shortest)
        same.prompt = rows.pop("prompt")
        same.condition = rows
        return same

    @property
    def _told(self) -> Tensor:
        if self.prompt is None:
            raise InputError("a left-to-right oracle answers with its prompts: draw from its CausalChain")
        return self.prompt

    def rows(self, tokens: Tensor) -> Tensor:
        known = (tokens != HIDDEN).long().cumprod(1).sum(1, keepdim=True).clamp(max=self.length - 1)
        position = torch.arange(self.length, device=tokens.device).expand_as(tokens)
        return self.path_rows(tokens.clamp(min=0), position, known.expand_as(tokens), torch.maximum(position, known))

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        first, begins = self.shortest - 1, self._begins
        answers = self.model.rows(self._behind_prompt(tokens), first, **self.condition)
        at = begins[:, None] + self._source(prefix, position) - 1 - first
        return self._guessed(_at(answers, at), tokens, _rows_of(prefix), prefix, position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        at = self._begins[row] + self._source(prefix, position) - 1
        first, last = int(at.min()), int(at.max())  # no more than is asked about is read
        answers = self.model.rows(self._behind_prompt(tokens)[:, : last + 1], first, **self.condition)
        return self._guessed(answers[row, at - first], tokens, row, prefix, position)

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        """The model's cache with the prompt entered, the first answer, and what first guesses read."""
        prompt, begins = self._told, self._begins
        rows, width = prompt.shape
        cache = self.model.cache(rows, width + self.length)
        if not cache:
            return {}
        position = torch.arange(width, device=prompt.device).expand_as(prompt)
        answers = self.model.extend(cache, prompt.clamp(min=0), position, **self.condition)
        kept = cache | {_BEGINNING: answers[torch.arange(rows, device=prompt.device), begins - 1]}
        if self.guess.looks_back:
            shape = rows, self.length + 1, self.vocab_size
            kept[_ANSWERS] = torch.zeros(shape, dtype=torch.float16, device=prompt.device)
            kept[_ANSWERS][:, 0] = _half(kept[_BEGINNING])
        if self.guess.reads_tokens:
            kept[_TOKENS] = torch.zeros(rows, self.length, dtype=torch.int64, device=prompt.device)
        return kept

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        last = step.clamp(max=self.length - 1)  # padding enters a path's last token once more
        cache = {name: table for name, table in kept.items() if name not in (_ANSWERS, _BEGINNING, _TOKENS)}
        new = self.model.extend(cache, token, self._begins[:, None] + last, **self.condition)
        answers = torch.cat([kept[_BEGINNING][:, None], new], dim=1)  # of the steps from step[:, 0] on
        rows = _at(answers, (prefix - step[:, :1]).clamp(min=0))
        if self.guess.looks_back:
            kept[_ANSWERS].scatter_(1, (last + 1)[..., None].expand_as(new), _half(new))
            before = _at(kept[_ANSWERS], self._source(prefix, position)).to(rows.dtype).log_softmax(-1)
            rows = torch.where((position > prefix)[..., None], before, rows)
        tokens = kept[_TOKENS].scatter_(1, last, token) if self.guess.reads_tokens else token
        return self._guessed(rows, tokens, _rows_of(prefix), prefix, position)

    @property
    def _begins(self) -> Tensor:
        """Where the drawn tokens begin (r,): behind the prompt."""
        return (self._told != HIDDEN).sum(1)

    def _behind_prompt(self, tokens: Tensor) -> Tensor:
        """Prompt and tokens (r, m + n), with nothing in between."""
        prompt = self._told
        whole = torch.cat([prompt.clamp(min=0), tokens.clamp(min=0)], dim=1)
        place = self._begins[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        return whole.scatter_(1, place, tokens.clamp(min=0))

    def _source(self, prefix: Tensor, position: Tensor) -> Tensor:
        """The step whose answer serves for each cell: its own, or the one that the first guess names."""
        return torch.where(position > prefix, self.guess.source(prefix, position), prefix)

    def _guessed(self, rows: Tensor, tokens: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """Rows of cells (..., q), with first guesses made from the tokens for those that lie ahead."""
        if not self.guess.reads_tokens:
            return rows
        row, ahead = row.reshape(-1), position - prefix
        begins, text = self._begins[row], self._behind_prompt(tokens)[row]
        known = (begins + prefix.reshape(-1))[:, None]
        text = text.masked_fill(torch.arange(text.shape[1], device=text.device) >= known, HIDDEN)
        guess = self.guess.rows(text, ahead.reshape(-1) + 1, self.vocab_size)
        return torch.where((ahead > 0)[..., None], guess.to(rows).view_as(rows), rows)


def _rows_of(table: Tensor) -> Tensor:
    """The row of each entry of a table (r, c)."""
    return torch.arange(len(table), device=table.device)[:, None].expand_as(table)


def _half(rows: Tensor) -> Tensor:
    """Log-probabilities in half precision, which guesses do with."""
    return rows.clamp(min=-60000.0).half()


def _at(table: Tensor, step: Tensor) -> Tensor:
    """Rows (r, c, q) of a table (r, n, q) at steps (r, c)."""
    return table.gather(1, step[..., None].expand(-1, -1, table.shape[-1]))
