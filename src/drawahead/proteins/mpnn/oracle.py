"""ProteinMPNN as an oracle, on one structure or several: what the decoder answers, as laws of amino acids."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.proteins.choices import ALPHABET
from drawahead.proteins.law import DesignLaw
from drawahead.proteins.mpnn.decoder import Decoder
from drawahead.validate import readable

if TYPE_CHECKING:
    from drawahead.show import View

_TIMES = 4


class BackboneOracle(TokenOracle):
    """Sequences for backbones. The model's answer depends on the order in which earlier steps were decoded, so samplers
    ask `chain_rows`; `rows` takes all visible tokens as evidence."""

    one_pass = True
    decoder: Decoder
    law: DesignLaw
    place: Tensor
    """(s, g): -g ... -1, the place of every step among the evidence."""
    temperature: float
    which: Tensor | None = None
    """(r,) the structure of each sequence of a query, if there are several."""
    heat: Tensor | None = None
    """(r,) the temperature of each, if they differ."""
    rates: Tensor | None = None
    """(s, g) or (g,): see `order_rates`; None where steps have equally many residues."""

    @property
    def order_rates(self) -> Tensor | None:  # type: ignore[override]
        """As published, a tied group comes when the first of its residues does: the more it has, the earlier."""
        return self.rates if self.rates is None or self.which is None else self.rates[self.which]

    def view(self) -> View:
        from drawahead.show import Texts

        return Texts(lambda sample: [ALPHABET[token] for token in sample.tolist()])

    def conditioned(self, **rows: Tensor) -> BackboneOracle:
        """`structure` (m,) and `temperature` (m,) of each sequence."""
        same = copy.copy(self)
        same.which, same.heat = rows.get("structure", self.which), rows.get("temperature", self.heat)
        return same

    def rows(self, tokens: Tensor) -> Tensor:
        rank = self._ranked(torch.where(tokens == HIDDEN, 0, -1))
        logits, _ = self.decoder.decode(tokens.clamp(min=0), rank, rank, self.which)
        row, step = (torch.arange(size, device=tokens.device) for size in tokens.shape)
        return self._law(logits, row[:, None].expand_as(tokens), step.expand_as(tokens))

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        rank = self._ranked(rank)
        # No cell sees the steps after the last prefix of its sequence. So the pass itself can show such steps that
        # prefix, as a draft needs it: only drafts from earlier prefixes need more.
        last = torch.zeros_like(rank[:, 0]).scatter_reduce_(0, row, prefix, "amax")
        seen = torch.minimum(rank, last[:, None])
        logits, tables = self.decoder.decode(tokens, rank, seen, self.which)
        if _known_true(seen[row, position] == prefix):
            logits = logits[row, position]
        else:
            logits = self.decoder.ask(tables, rank, row, prefix, position, self.which)
        return self._law(logits, row, position)

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        if not last_only:
            return super().path_rows(tokens, rank, prefix, position)
        rank = self._ranked(rank)
        seen = torch.minimum(rank, prefix.amax(1, keepdim=True))  # as above: no earlier prefix is drafted from
        logits, _ = self.decoder.decode(tokens, rank, seen, self.which)
        logits = logits.gather(1, position[..., None].expand(-1, -1, logits.shape[-1]))
        row = torch.arange(len(tokens), device=tokens.device)
        return self._law(logits, row[:, None].expand_as(position), position)

    @property
    def recall_width(self) -> int:  # type: ignore[override]
        """A round that goes on from a memory decodes each step of its window two or three times: to enter it, to answer
        it, and to draft. A pass decodes every step once."""
        return self.length // _TIMES

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        if self.decoder.structures.tied:
            return {}
        rank = self._ranked(rank)
        return {"decoded": self.decoder.memory(tokens.clamp(min=0), rank, self.which), "rank": rank}

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        content, cells = (token, place, step), (prefix, position)
        logits = self.decoder.extend(kept["decoded"], kept["rank"], content, cells, self.which)
        row = torch.arange(len(token), device=token.device)
        return self._law(logits, row[:, None].expand_as(position), position)

    def _ranked(self, rank: Tensor) -> Tensor:
        """Ranks (r, g) in which evidence comes first, each step at its own place."""
        return torch.where(rank < 0, self.place if self.which is None else self.place[self.which], rank)

    def _law(self, logits: Tensor, row: Tensor, step: Tensor) -> Tensor:
        temperature = self.temperature if self.heat is None else self.heat[row][..., None].to(logits.dtype)
        return self.law.rows(logits, temperature, 0 if self.which is None else self.which[row], step)


def _known_true(flags: Tensor) -> bool:
    """Whether all are True, where they can be read."""
    return readable(flags) and bool(flags.all())
