"""Designed sequences, and how likely they are by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.executors.chunks import CHUNK_BYTES
from drawahead.sample import Result
from drawahead.values import dataclass

if TYPE_CHECKING:
    from drawahead.proteins.mpnn.model import ProteinMPNN


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """The model's scores of sequences; the lower a score, the likelier the sequence."""

    score: Tensor
    """(m,) mean negative log-probability of the designed residues."""
    global_score: Tensor
    """(m,) the same of all residues."""
    log_probs: Tensor
    """(m, n, 21) of every residue, given those before it."""


@final
@dataclass(frozen=True, eq=False)
class Designs:
    """Sequences for a structure."""

    sequences: list[str]
    """With / between chains."""
    tokens: Tensor
    """(m, n), of every residue."""
    score: Tensor
    """(m,), as in `Scores`."""
    global_score: Tensor
    recovery: Tensor
    """(m,) the share of designed residues whose amino acid is that of the structure."""
    result: Result
    """The result of `drawahead.sample`: samples by step, and the report."""


@torch.no_grad()
def scored(mpnn: ProteinMPNN, tokens: Tensor, rank: Tensor, designed: Tensor) -> Scores:
    """Scores of tokens (m, n) whose steps were drawn in this order (m, g); -1 in it is evidence.

    As published: the members of a tied group are scored one after the other, each seeing the tokens before it.
    """
    step = mpnn.steps.of_residue.to(mpnn.device)
    most, turn = mpnn.steps.members.shape[1], mpnn.steps.turn.to(mpnn.device)
    decoder, tables = mpnn.plain, []
    size = max(1, CHUNK_BYTES // mpnn.bytes_per_query)
    for part, order in zip(tokens.split(size), rank.split(size), strict=True):
        ranked = torch.where(order < 0, mpnn.place, order.to(mpnn.device))[:, step]
        of_residues = ranked * most + turn
        logits, _ = decoder.decode(part.to(mpnn.device), of_residues, of_residues)
        tables.append(logits.log_softmax(-1).cpu())
    rows = torch.cat(tables) if tables else torch.zeros(*tokens.shape, mpnn.vocab_size)
    loss = -rows.gather(-1, tokens[..., None])[..., 0].double()  # (m, n)
    return Scores(loss[:, designed].mean(1), loss.mean(1), rows)
